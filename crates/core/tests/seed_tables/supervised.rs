//! The autonomous supervisor's tasks (seed 004).

use std::collections::BTreeSet;

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Failed, Queued, Reviewing, Working,
};
use serde_json::{Value, json};

use super::play::Play;
use super::{Table, compare};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "supervised",
    initial: "queued",
    roles: &["worker", "evaluator"],
    states: &[
        ("queued", Queued),
        ("dispatched", Working),
        ("running", Working),
        ("evaluating", Reviewing),
        ("retrying", Queued),
        ("complete", Done),
        ("blocked", Blocked),
        ("failed", Failed),
        ("cancelled", Cancelled),
    ],
    terminal: &["complete", "cancelled"],
    moves: &[
        ("queued", "dispatched", "claim", &["worker"], "compute worker_id"),
        ("queued", "queued", "no_worker", &["system"], "count unserved"),
        ("blocked", "queued", "worker_available", &["system"], "if error; clear error"),
        ("queued", "blocked", "block", &["human", "system"], "compute error"),
        ("queued", "cancelled", "cancel", &["human"], ""),
        ("dispatched", "running", "start", &["worker", "system"], ""),
        ("dispatched", "failed", "fail", &["worker", "system"], "compute error"),
        ("dispatched", "cancelled", "cancel", &["human"], ""),
        ("running", "evaluating", "ended", &["worker", "system"], ""),
        ("running", "complete", "ended", &["system"], "if pr_url"),
        ("running", "retrying", "retry", &["worker", "system"], "compute error; count retries"),
        ("running", "queued", "release", &["system"], ""),
        ("running", "blocked", "block", &["worker", "human", "system"], "compute error"),
        ("running", "failed", "fail", &["worker", "system"], "compute error"),
        ("running", "cancelled", "cancel", &["human"], ""),
        ("evaluating", "complete", "complete", &["evaluator", "human", "system"], ""),
        ("evaluating", "queued", "release", &["system"], ""),
        ("evaluating", "retrying", "retry", &["evaluator", "human", "system"], "compute error; count retries"),
        ("evaluating", "blocked", "block", &["evaluator", "human", "system"], "compute error"),
        ("evaluating", "failed", "fail", &["evaluator", "system"], "compute error"),
        ("retrying", "dispatched", "claim", &["worker"], "compute worker_id"),
        ("retrying", "retrying", "over_budget", &["system"], "compute error; count over_budget"),
        ("queued", "blocked", "escalate", &["human"], ""),
        ("running", "blocked", "escalate", &["human"], ""),
        ("evaluating", "blocked", "escalate", &["human"], ""),
        ("retrying", "failed", "fail", &["system"], "compute error"),
        ("retrying", "cancelled", "cancel", &["human"], ""),
        ("blocked", "queued", "unblock", &["human"], "renew retries, over_budget"),
        ("blocked", "cancelled", "cancel", &["human"], ""),
        ("failed", "queued", "retry", &["human"], "renew retries"),
    ],
    timed: &[
        ("dispatched", "failed", "never_started", "10min", Entry, "set error=the worker never started"),
        ("running", "evaluating", "stale", "10min", Progress, ""),
        ("running", "retrying", "timeout", "60min", Entry, "set error=the worker ran out of time; count retries"),
        ("evaluating", "retrying", "timeout", "10min", Progress, "set error=the evaluation gave no answer; count retries"),
        ("blocked", "cancelled", "unanswered", "14d", Entry, "compute reason"),
    ],
    requires: &[
        ("retrying", &["error"]),
        ("blocked", &["error"]),
        ("failed", &["error"]),
        ("cancelled", &["reason"]),
    ],
    does: &[
        ("dispatched", "wait", &[("met", "start")]),
        (
            "running",
            "agent",
            &[
                ("succeeded", "ended"),
                ("nothing_to_do", "ended"),
                ("auth", "block"),
                ("needs_person", "block"),
                ("over_budget", "block"),
                ("quota", "again"),
                ("transient", "again"),
                ("otherwise", "retry"),
            ],
        ),
        (
            "evaluating",
            "panel",
            &[
                ("approved", "complete"),
                ("blocked", "retry"),
                ("unavailable", "retry"),
                ("otherwise", "block"),
            ],
        ),
        (
            "blocked",
            "human",
            &[("unblock", "unblock"), ("cancel", "cancel")],
        ),
    ],
    effects: &[
        ("complete", "notify, clean_up"),
        ("blocked", "notify"),
        ("failed", "alert, clean_up"),
        ("cancelled", "clean_up"),
    ],
    counters: &[("retries", Some(3), Some("blocked")), ("unserved", Some(3), Some("blocked")), ("over_budget", Some(1), Some("blocked"))],
};

/// The seed's own states in the transitions of the program that it describes.
const SEED_PAIRS: [(&str, &str); 24] = [
    ("queued", "dispatched"),
    ("queued", "blocked"),
    ("queued", "cancelled"),
    ("dispatched", "running"),
    ("dispatched", "failed"),
    ("dispatched", "cancelled"),
    ("running", "evaluating"),
    ("running", "complete"),
    ("running", "retrying"),
    ("running", "queued"),
    ("running", "blocked"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("evaluating", "complete"),
    ("evaluating", "queued"),
    ("evaluating", "retrying"),
    ("evaluating", "blocked"),
    ("evaluating", "failed"),
    ("retrying", "dispatched"),
    ("retrying", "failed"),
    ("retrying", "cancelled"),
    ("blocked", "queued"),
    ("blocked", "cancelled"),
    ("failed", "queued"),
];

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

#[test]
fn the_pairs_are_those_of_the_seed_and_no_others() {
    // That no worker can take a task moves it nowhere; a used-up budget leads where its last retry
    // does.
    let in_queue = ["no_worker", "over_budget"];
    let moves = TABLE.moves.iter().filter(|row| !in_queue.contains(&row.2));
    let by_hand = moves.map(|row| (row.0, row.1));
    let by_clock = TABLE.timed.iter().map(|row| (row.0, row.1));
    assert_eq!(by_hand.chain(by_clock).collect::<BTreeSet<_>>(), BTreeSet::from(SEED_PAIRS));
}

fn started(play: &mut Play) {
    play.claim("worker:wim").expect("it is queued");
    assert_eq!(play.state(), "dispatched");
    play.walk(&[("system", "running")]);
}

#[test]
fn a_pull_request_completes_and_anything_else_is_evaluated() {
    let mut play = Play::of("supervised");
    started(&mut play);
    assert_eq!(
        play.end_run(Outcome::Succeeded, "", json!({ "pr_url": "https://forge.test/1" })),
        "complete"
    );
    let mut play = Play::of("supervised");
    started(&mut play);
    assert_eq!(play.end_run(Outcome::Succeeded, "", Value::Null), "evaluating");
}

#[test]
fn three_retries_then_it_is_blocked_and_an_unblock_gives_a_new_allowance() {
    let mut play = Play::of("supervised");
    for state in ["retrying", "retrying", "retrying", "blocked"] {
        started(&mut play);
        assert_eq!(play.end_run(Outcome::Crashed, "segmentation fault", Value::Null), state);
    }
    assert_eq!(play.field("error"), json!("retried too often: segmentation fault"));
    play.walk(&[("human:kim", "queued")]);
    started(&mut play);
    assert_eq!(play.end_run(Outcome::Crashed, "again", Value::Null), "retrying");
}

#[test]
fn silence_of_people_ends_what_is_blocked_at_last() {
    let mut play = Play::of("supervised");
    play.pull("human:kim", "block", json!({ "error": "a key is missing" })).expect("people may");
    assert_eq!(play.wait("13d"), "blocked");
    assert_eq!(play.wait("1d"), "cancelled");
    assert_eq!(play.field("reason"), json!("nobody has answered: a key is missing"));
}

#[test]
fn silence_is_evaluated_and_a_silent_evaluation_is_retried() {
    let mut play = Play::of("supervised");
    started(&mut play);
    assert_eq!(play.wait("10min"), "evaluating");
    assert_eq!(play.wait("10min"), "retrying");
    assert_eq!(play.field("error"), json!("the evaluation gave no answer"));
}
