//! Budgets of a day and of a batch, with the real program: one question for all that wait, and what
//! each answer does.

use banksman::ops::Session;
use banksman::ops::why::{WhyLimits, why};
use banksman::store::Store;
use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::time::{Instant, Span};
use serde_json::Value;

use crate::engine::driver::Driver;
use crate::engine::harness::{Harness, state, tasks};
use crate::engine::machines::Database;

const DAY: i64 = 86_400_000;

fn open_questions(harness: &Harness) -> Vec<Value> {
    harness.json(&["decisions"])["decisions"].as_array().expect("a list").clone()
}

fn until_asked(harness: &Harness, id: &str) {
    let id: DecisionId = id.parse().expect("an id");
    harness.until("a person is asked", |store| store.decision(id).expect("readable").is_some());
}

fn until_done(harness: &Harness, id: TaskId) {
    harness.until("it is done", |store| state(store, id) == "done");
}

/// A task is done, and somebody is asked whether there is more.
fn is_asked_after(store: &Store, id: TaskId) -> bool {
    state(store, id) == "done" && !store.inbox().expect("readable").is_empty()
}

#[test]
fn the_budget_of_a_day_is_one_question_for_all_that_wait() {
    let harness = Harness::new(&[("budget.day_runs", "1"), ("limits.agents", "1")]);
    let driver = Driver::of(harness.root(), Span(100)).at_noon();
    let ids: Vec<TaskId> =
        (0..4).map(|number| harness.add(&format!("part {number}"), &[])).collect();
    let mut told = driver.turn_until("a person is asked", |store| is_asked_after(store, ids[0]));
    let [asked] = &open_questions(&harness)[..] else { panic!("one question") };
    assert_eq!(
        (&asked["title"], &asked["lifecycle"], &asked["offers"]),
        (
            &"The budget of the day is used up (runs: 1 of 1); 3 tasks wait".into(),
            &"budget".into(),
            &serde_json::json!(["approve", "cancel"]),
        )
    );
    assert_eq!(harness.starts().len(), 1);
    // It belongs to no project, and every project sees it.
    let of_project = harness.json(&["decisions", "--project", "repo"]);
    assert_eq!(of_project["decisions"].as_array().map(Vec::len), Some(1));

    harness.ok(&["decisions", "approve", "d1"]);
    let more = driver.turn_until("a person is asked", |store| is_asked_after(store, ids[1]));
    told.notices.extend(more.notices);
    told.add(driver.turn(), driver.notices());
    assert_eq!(harness.starts().len(), 2, "as much again, and no more");
    harness.ok(&["decisions", "cancel", "d2", "enough for today"]);
    told.add(driver.turn(), driver.notices());
    let is_about_it = |notice: &&String| notice.contains("The budget of the day is used up");
    assert_eq!(told.notices.iter().filter(is_about_it).count(), 2, "{told:?}");
    assert_eq!(open_questions(&harness), Vec::<Value>::new(), "a no is not asked about again");
    let bounds = WhyLimits { day: driver.terms.agents.budgets.day, ..WhyLimits::default() };
    let why = why(&Session::system(driver.store.clone()), ids[2], &bounds, driver.now())
        .expect("an answer");
    assert_eq!(
        why.next.what,
        "wait for the next day (UTC), or raise `budget.day_runs` and start `up` again"
    );
    assert_eq!((harness.state(ids[2]).as_str(), harness.starts().len()), ("queued", 2));
    harness.ok(&["check"]);
    harness.ok(&["audit", "verify"]);
}

#[test]
fn after_a_yes_about_a_batch_one_turn_starts_what_waits() {
    let harness = Harness::new(&[]);
    harness.ok(&["batch", "create", "spring", "--runs", "1"]);
    let ids = ["first", "second"].map(|title| harness.add(title, &["--batch", "spring"]));
    let driver = Driver::of(harness.root(), Span(100));
    driver.turn_until("a person is asked", |store| is_asked_after(store, ids[0]));
    harness.ok(&["decisions", "approve", "d1"]);
    let started = driver.turn().started;
    let started: Vec<String> = started.iter().map(|(job, _)| job.to_string()).collect();
    assert_eq!(started, ["r2.1"]);
    driver.turn_until("it is done", |store| state(store, ids[1]) == "done");
}

#[test]
fn the_budget_of_a_batch_is_raised_by_a_yes_and_the_question_is_closed_by_who_raises_it() {
    let harness = Harness::new(&[]);
    harness.ok(&["batch", "create", "spring", "--runs", "1"]);
    let more = ["--batch", "spring"];
    let ids: Vec<TaskId> = (0..3).map(|_| harness.add("part", &more)).collect();
    let up = harness.up();
    until_asked(&harness, "d1");
    let [asked] = &open_questions(&harness)[..] else { panic!("one question") };
    let title = asked["title"].as_str().expect("a title");
    assert!(title.starts_with("The budget of batch spring is used up (runs: 1 of 1)"), "{title}");
    until_done(&harness, ids[0]);
    let why = harness.json(&["why", &ids[1].to_string()]);
    let next = why["next"].as_str().expect("a text");
    assert!(next.ends_with("banksman decisions approve|cancel d1"), "{next}");

    harness.ok(&["decisions", "approve", "d1"]);
    until_done(&harness, ids[1]);
    until_asked(&harness, "d2");
    harness.ok(&["batch", "set", "spring", "--runs", "9"]);
    until_done(&harness, ids[2]);
    harness.until("the question is closed", |store| store.inbox().expect("readable").is_empty());
    let said = up.stop();
    for asked in ["runs: 1 of 1", "runs: 2 of 2"] {
        let asked = format!("The budget of batch spring is used up ({asked})");
        assert_eq!(said.matches(&asked).count(), 1, "{said}");
    }
    let batch = &harness.json(&["batch", "list"])["batches"][0];
    // What asks is no part of the batch, and nobody has worked on it.
    assert_eq!((&batch["tasks"], &batch["done"]), (&3.into(), &3.into()), "{batch}");
    assert_eq!(harness.starts().len(), 3);
    harness.ok(&["check"]);
    harness.ok(&["audit", "verify"]);
}

#[test]
fn a_question_about_a_day_ends_with_the_day() {
    let harness = Harness::new(&[("budget.day_runs", "1")]);
    let driver = Driver::of(harness.root(), Span(100)).at_noon();
    let ids = [harness.add("today", &[]), harness.add("tomorrow", &[])];
    let asked = |store: &Store| !store.inbox().expect("readable").is_empty();
    driver.turn_until("a person is asked", |store| is_asked_after(store, ids[0]));
    let decision = driver.store.inbox().expect("readable").remove(0);
    let opened: Instant = decision.opened_at;
    let midnight = Instant((opened.0.div_euclid(DAY) + 1) * DAY);
    assert_eq!(decision.deadline, Some(midnight), "it is for this day only");

    driver.pass(Span(midnight.0 - driver.now().0 - 60_000));
    driver.turn();
    assert!(asked(&driver.store) && state(&driver.store, ids[1]) == "queued");
    driver.pass(Span(60_001));
    driver.turn_until("the day is over", |store| state(store, ids[1]) == "done");
    assert!(!asked(&driver.store));
    assert_eq!(state(&driver.store, decision.task), "closed");
    assert_eq!(tasks(&driver.store).len(), 3, "nothing else was asked");
}

mod needs_postgres {
    use super::*;

    /// Both look at the same moment at what has come to its end.
    #[test]
    fn two_machines_ask_once() {
        let database = Database::at_noon("allowing");
        let harness = Harness::on_postgres(&database.url, &[("budget.day_runs", "2")]);
        let ids: Vec<TaskId> =
            (0..4).map(|number| harness.add(&format!("part {number}"), &[])).collect();
        let done = |store: &Store| ids.iter().filter(|id| state(store, **id) == "done").count();
        let (a, b) = (harness.up_on("a"), harness.up_on("b"));
        harness.until("two are done and a person is asked", |store| {
            done(store) == 2 && !store.inbox().expect("readable").is_empty()
        });
        harness.ok(&["decisions", "approve", "d1"]);
        harness.until("all are done", |store| done(store) == 4);
        let said = [a.stop(), b.stop()].concat();
        assert_eq!(said.matches("The budget of the day is used up").count(), 1, "{said}");
        assert_eq!(harness.tasks().len(), 5, "one question");
        assert_eq!(harness.starts().len(), 4);
        harness.ok(&["check"]);
    }
}
