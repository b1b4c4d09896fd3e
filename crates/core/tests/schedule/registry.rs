//! The worker registry that the selection comes from, word for word, and what it must choose.

use std::collections::BTreeMap;

use banksman_core::schedule::Worker;
use serde::Deserialize;

use crate::world::{Question, run, set, texts};

const REGISTRY: &str = "
workers:
  polecat-claude:
    capabilities: [code, docs, refactor, test]
    cost: 3  # relative scale 1-5
    speed: 5  # relative scale 1-5
    max_concurrent: 4

  polecat-gemini:
    capabilities: [code, docs, analysis]
    cost: 1
    speed: 3
    max_concurrent: 8

  github-actions:
    capabilities: [ci, build, deploy, lint]
    cost: 1
    speed: 5
    max_concurrent: 10

  jules:
    capabilities: [deep-code, architecture, complex-refactor]
    cost: 5
    speed: 1
    max_concurrent: 1
";

#[derive(Deserialize)]
struct Registry {
    workers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    capabilities: Vec<String>,
    cost: u32,
    speed: u32,
    max_concurrent: u32,
}

fn workers() -> Vec<Worker> {
    let registry: Registry = serde_saphyr::from_str(REGISTRY).expect("it is YAML");
    let worker = |(name, entry): (String, Entry)| Worker {
        capabilities: entry.capabilities.into_iter().collect(),
        roles: set(&[]),
        cost: entry.cost,
        speed: entry.speed,
        max_concurrent: entry.max_concurrent,
        account: format!("{name}-account"),
        model: None,
        name,
    };
    registry.workers.into_iter().map(worker).collect()
}

/// Asks with some runs of each named worker on this node.
fn chosen(tags: &[&str], busy: &[(&str, usize)]) -> Result<String, Vec<&'static str>> {
    let mut question = Question::with(|question| {
        question.here = workers();
        question.tags = texts(tags);
        question.load.capacity = 100;
    });
    for (name, runs) in busy {
        let number = question.load.running.len() as i64 + 2;
        question.load.running.extend((number..).take(*runs).map(|task| run(task, name)));
    }
    question.outcome()
}

#[test]
fn the_cheapest_that_can_takes_it() {
    let check = |tags: &[&str], name: &str| {
        assert_eq!(chosen(tags, &[]).as_deref(), Ok(name), "{tags:?}");
    };
    check(&["code", "docs"], "polecat-gemini");
    check(&["analysis"], "polecat-gemini");
    check(&["ci"], "github-actions");
    check(&["deploy", "lint", "build"], "github-actions");
    check(&["architecture"], "jules");
    check(&["deep-code", "complex-refactor"], "jules");
    check(&["refactor"], "polecat-claude");
    check(&["code", "test"], "polecat-claude");
}

#[test]
fn equal_cost_goes_by_speed() {
    assert_eq!(chosen(&[], &[]).as_deref(), Ok("github-actions"));
    assert_eq!(chosen(&[], &[("github-actions", 10)]).as_deref(), Ok("polecat-gemini"));
}

#[test]
fn tags_that_are_no_capability_hold_nothing_back() {
    assert_eq!(chosen(&["urgent", "code", "q3"], &[]).as_deref(), Ok("polecat-gemini"));
}

#[test]
fn what_is_full_is_passed_over() {
    let code = |busy: &[(&str, usize)]| chosen(&["code"], busy);
    assert_eq!(code(&[("polecat-gemini", 7)]).as_deref(), Ok("polecat-gemini"));
    assert_eq!(code(&[("polecat-gemini", 8)]).as_deref(), Ok("polecat-claude"));
    assert_eq!(
        code(&[("polecat-gemini", 8), ("polecat-claude", 4)]),
        Err(vec!["worker_busy", "worker_busy"])
    );
    assert_eq!(chosen(&["architecture"], &[("jules", 1)]), Err(vec!["worker_busy"]));
    assert_eq!(chosen(&["ci"], &[("jules", 1)]).as_deref(), Ok("github-actions"));
}

#[test]
fn one_that_is_avoided_does_not_go() {
    let code = |busy: &[(&str, usize)]| chosen(&["code", "avoid:polecat-gemini"], busy);
    assert_eq!(code(&[]).as_deref(), Ok("polecat-claude"));
    assert_eq!(code(&[("polecat-claude", 4)]), Err(vec!["worker_busy"]));
    assert_eq!(chosen(&["analysis", "avoid:polecat-gemini"], &[]), Err(vec!["no_worker"]));
    assert_eq!(chosen(&["code", "avoid:nobody"], &[]).as_deref(), Ok("polecat-gemini"));
}

#[test]
fn what_nobody_can_do_waits_for_a_worker() {
    assert_eq!(chosen(&["code", "ci"], &[]), Err(vec!["no_worker"]));
    assert_eq!(chosen(&["code", "needs:gpu"], &[]), Err(vec!["no_worker"]));
}

#[test]
fn equal_cost_and_speed_go_by_name() {
    let question = Question::with(|question| {
        let named = |name: &str| Worker { name: name.to_owned(), ..question.here[0].clone() };
        question.here = ["zoe", "bob", "kim"].into_iter().map(named).collect();
    });
    assert_eq!(question.answer().as_deref(), Ok("bob"));
}
