//! Who sits on a panel, who plays it, and that nobody stays when it is over.

use std::fs;

use super::table::{MINUTE, Table, approval, pairs, review};
use crate::engine::driver::{Driver, NODE};
use crate::engine::harness::{Harness, state};
use banksman_core::time::Span;

const REGISTRY: &str = "specialists:\n  security-reviewer:\n    domains: [auth, crypto]\n    model: opus\n  \
                        research-methodology:\n    domains: [statistics]\n    model: claude\n";

/// A second worker that runs the same program.
fn second(harness: &Harness) -> String {
    let settings = harness.file("repo/.banksman/config.toml");
    let command =
        settings.lines().find_map(|line| line.strip_prefix("workers.scripted.command = "));
    command.expect("a command").to_owned()
}

#[test]
fn specialists_sit_by_the_tags_of_the_task_and_are_played_by_their_model() {
    let mut table =
        Table::new(&[("limits.agents", "0")], &[("any", &approval())], &["--tag", "auth"]);
    let command = second(&table.harness);
    table.harness.set(&[
        ("limits.agents", "8"),
        ("workers.deep.agent", "\"command\""),
        ("workers.deep.command", &command),
        ("workers.deep.model", "\"opus\""),
        ("workers.deep.cost", "5"),
    ]);
    fs::write(table.harness.path("repo/.banksman/specialist-registry.yaml"), REGISTRY)
        .expect("written");
    table.driver = Driver::of(table.harness.root(), Span(100));
    table.until_over("approved");
    let all = [("custodiet", "APPROVE"), ("critic", "APPROVE"), ("security-reviewer", "APPROVE")];
    assert_eq!(table.verdicts(), pairs(&all));
    let verdicts = table.field("verdicts");
    let behind = |at: usize| verdicts[at]["worker"].as_str().unwrap_or_default().to_owned();
    assert_eq!([behind(0), behind(1), behind(2)], ["scripted", "scripted", "deep"]);
    assert_eq!(verdicts[2]["model"], "opus");
    let told = table.prompt("r4.1");
    assert!(told.contains("You are the specialist for auth, crypto."), "{told}");
}

#[test]
fn where_nobody_reviews_the_panel_is_unavailable_at_once() {
    let table = Table::new(&[("workers.scripted.roles", "[\"worker\"]")], &[], &[]);
    table.driver.turn();
    assert_eq!(state(&table.driver.store, table.parent), "unavailable");
    assert_eq!(table.assignments(), []);
    assert_eq!(table.field("diagnostic"), "no worker has the role reviewer");
}

#[test]
fn a_panel_of_nobody_approves_nothing() {
    let table = Table::new(&[("panel.reviewers", "[]")], &[], &[]);
    table.driver.turn();
    assert_eq!(state(&table.driver.store, table.parent), "unavailable");
}

#[test]
fn all_fall_silent_and_the_panel_is_unavailable() {
    let table = Table::new(&[("panel.retries", "0")], &[("any", "crash\n")], &[]);
    table.until_over("unavailable");
    assert_eq!(
        table.assignments(),
        [review("custodiet", 0, "silent"), review("critic", 0, "silent")]
    );
}

#[test]
fn a_task_that_is_cancelled_needs_no_verdicts() {
    let table = Table::new(&[], &[("any", "silent\n")], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_begun("r3.1");
    table.harness.ok(&["move", "t1", "cancelled"]);
    table.driver.pass(MINUTE);
    table.until_home();
    assert_eq!(
        table.assignments(),
        [review("custodiet", 0, "withdrawn"), review("critic", 0, "withdrawn")]
    );
}

#[test]
fn a_review_that_a_person_takes_back_is_missing() {
    let table = Table::new(&[], &[("t2", "silent\n"), ("t3", &approval())], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_review("t3", "answered");
    table.harness.ok(&["move", "t2", "withdrawn"]);
    table.until_over("unresolved");
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "MISSING"), ("critic", "APPROVE")]));
}

/// A person need not wait for the end of a rest, and has no more than three questions for it.
#[test]
fn a_person_asks_a_reviewer_again_at_once() {
    let table = Table::new(&[], &[("t2", "crash\n"), ("t3", &approval())], &[]);
    table.turn_until_review("t2", "resting(once)");
    table.harness.ok(&["retry", "t2"]);
    table.turn_until_review("t2", "resting(twice)");
    table.harness.ok(&["retry", "t2"]);
    table.turn_until_review("t2", "silent");
    let asked = table.harness.starts().iter().filter(|run| run.starts_with("r2.")).count();
    assert_eq!(asked, 3);
    table.until_over("unresolved");
}

#[test]
fn a_plan_goes_through_its_panel_and_no_worker_reviews_its_own() {
    let harness = Harness::new(&[("limits.lease", "\"1d\""), ("limits.agents", "8")]);
    let command = second(&harness);
    harness.set(&[
        ("workers.scripted.cost", "1"),
        ("workers.other.agent", "\"command\""),
        ("workers.other.command", &command),
        ("workers.other.cost", "5"),
    ]);
    let plan = crate::planning::desk::one_subtask();
    harness.script("t1", &format!("answer {plan}\nsuccess the plan is ready\n"));
    harness.script("any", &approval());
    let id = harness.add("paint it", &["--lifecycle", "autonomous"]);
    let driver = Driver::of(harness.root(), Span(100));
    driver.turn_until("a person is asked", |store| state(store, id) == "waiting");
    let task = driver.store.task(id).expect("the task").task;
    assert_eq!(task.fields["approval_type"], "standard");
    let verdicts = task.fields["verdicts"].as_array().expect("verdicts");
    let workers: Vec<&str> = verdicts.iter().filter_map(|one| one["worker"].as_str()).collect();
    assert_eq!(workers, ["other", "other"]);
    let planners = driver.store.past_runs(id, 10).expect("runs");
    assert_eq!(planners.iter().map(|run| run.worker.as_str()).collect::<Vec<_>>(), ["scripted"]);
    driver.turn_until("all is put away", |_| harness.jobs(NODE).is_empty());
}

/// A task that comes before its panel again is judged again, whatever was said before.
#[test]
fn another_stay_has_reviews_of_its_own() {
    let table = Table::new(&[("panel.retries", "0")], &[("any", "crash\n")], &[]);
    table.until_over("unavailable");
    table.harness.script("any", &approval());
    table.harness.ok(&["move", "t1", "--on", "reopen"]);
    table.until_over("approved");
    let silent = ["custodiet", "critic"].map(|name| review(name, 0, "silent"));
    let answered = ["custodiet", "critic"].map(|name| review(name, 0, "answered"));
    assert_eq!(table.assignments(), [silent, answered].concat());
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "APPROVE"), ("critic", "APPROVE")]));
    assert!(table.field("review_summary").is_null(), "what the first one left is gone");
}
