//! The breaker: after so many failures, so much money or so much time a person is asked, and
//! nothing new starts before the answer.

use banksman_core::ids::TaskId;
use banksman_core::machine::{Actor, Event, TransitionRequest};
use banksman_core::time::Span;
use serde_json::Map;

use super::{Bench, DONE, WORK, verdict};

/// A gate behind A, and B beside it.
fn spec(breaker: &str) -> String {
    format!(
        "workflow: {{ id: w, name: Side by side, breaker: {{ {breaker} }} }}
steps:
  - {{ id: A, name: Judged, gate: G }}
  - {{ id: B, name: Beside }}
gates:
  - id: G
    reviewer: {{ level: auto }}
    on_pass: {{ next_step: DONE }}
    max_retries: 100
"
    )
}

fn until_it_asks(bench: &Bench, problem: &str) {
    let told = bench.until("it waits", |bench| bench.workflow_state() == "waiting");
    let is_told = |text: &&String| text.starts_with("t1 is waiting: ");
    let notice = told.notices.iter().rfind(is_told).unwrap_or_else(|| panic!("{told:?}"));
    assert!(bench.driver.store.last_decision(TaskId(1)).expect("readable").is_some(), "{notice}");
    assert!(bench.problem().contains(problem), "{}", bench.problem());
}

#[test]
fn failures_trip_it_and_a_person_lets_it_go_on_for_as_many_more() {
    let bench = Bench::new(&spec("failures: 2"));
    bench.script("G", &verdict("BLOCK", "not yet"));
    bench.holds("B.1");
    until_it_asks(&bench, "its gates have failed 2 times");
    bench.settle_but_running();
    assert_eq!(bench.states(), ["A pending", "B running"]);
    assert!(bench.is_at_work("B.1"), "whoever is at work goes on");
    bench.go("B.1");
    bench.until_state("B", "passed");
    bench.settle();
    assert!(!bench.has_started("A.3"), "nothing new starts");
    // The way on is the answer, and not to resume the batch behind its back.
    let why = bench.harness.json(&["why", "t2"]);
    let way = "a person answers: banksman decisions show d1, then banksman decisions answer d1 resume|accept|abort";
    assert_eq!(why["next"], way, "{why}");
    let next = bench.harness.ok(&["workflow", "next"]);
    assert!(
        next.contains("t2  A Judged: nothing is begun before the workflow goes on\n"),
        "{next}"
    );
    assert!(next.contains("move t1 --on resume"), "{next}");
    bench.parent_says("resume", &[]);
    bench.until_started("A.3");
    assert_eq!(bench.workflow_state(), "running", "it does not trip again at once");
    until_it_asks(&bench, "its gates have failed 4 times");
    bench.settle();
    assert!(!bench.has_started("A.5"));
    bench.script("G", &verdict("APPROVE", ""));
    bench.parent_says("resume", &[]);
    bench.until_over("complete");
    let asked = bench.history(TaskId(1));
    assert_eq!(asked.iter().filter(|line| line.ends_with("-> waiting")).count(), 2, "{asked:?}");
}

/// What reviewers cost counts as well.
#[test]
fn money_trips_it() {
    let bench = Bench::new(&spec("cost: 1.0"));
    bench.script("A", &format!("spend 10 10 0.4\n{WORK}{DONE}"));
    bench.script("B", &format!("spend 10 10 0.0\n{WORK}{DONE}"));
    bench.script("G", &format!("spend 10 10 0.5\n{}", verdict("BLOCK", "not yet")));
    until_it_asks(&bench, "its runs have cost $1.30 of $1.00");
    bench.settle();
    let starts = bench.starts().len();
    bench.parent_says("resume", &[]);
    bench.script("G", &verdict("APPROVE", ""));
    bench.until_over("complete");
    assert!(bench.starts().len() > starts, "{:?}", bench.starts());
    let asked = bench.history(TaskId(1));
    assert_eq!(asked.iter().filter(|line| line.ends_with("-> waiting")).count(), 1, "{asked:?}");
}

#[test]
fn time_trips_it_and_begins_anew() {
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], &spec("time: 2h"));
    bench.holds("A.1");
    bench.until_started("A.1");
    bench.until_state("B", "passed");
    bench.driver.pass(Span(119 * 60_000));
    bench.settle_but_running();
    assert_eq!(bench.workflow_state(), "running");
    bench.driver.pass(Span(2 * 60_000));
    until_it_asks(&bench, "the time limit is reached");
    bench.go("A.1");
    bench.until_state("A", "gate(auto)");
    bench.settle();
    assert!(!bench.has_started("G.1"), "nothing new starts, reviewers neither");
    // By the clock of the test, or the time that it has passed would be over at once.
    let resume = TransitionRequest {
        actor: Actor { role: "human".to_owned(), name: None },
        to: None,
        trigger: Some("resume".to_owned()),
        fields: Map::new(),
        epoch: None,
        version: None,
    };
    let now = bench.driver.now();
    bench.driver.store.apply(TaskId(1), Event::Asked(resume), None, now).expect("it goes on");
    bench.until_over("complete");
}

/// A person who lets it go on after a step was given up has seen the failures, too.
#[test]
fn what_a_person_has_seen_is_forgiven_whatever_was_asked() {
    let bench = Bench::new(&spec("failures: 1"));
    bench.holds("B.1");
    bench.fails("G.1", "not yet");
    bench.until_started("B.1");
    bench.until_started("G.1");
    bench.says(&["B", "abort", "--note", "the tool is broken"]);
    bench.until("it waits", |bench| bench.workflow_state() == "waiting");
    bench.until("the failure is on record", |bench| bench.feedback().len() == 1);
    bench.settle();
    bench.parent_says("resume", &[]);
    bench.until_over("complete");
}
