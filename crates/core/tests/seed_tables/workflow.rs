//! The task that holds a workflow's steps (seed 002).

use banksman_core::lifecycle::Kind::{Cancelled, Done, Queued, Waiting, Working};
use banksman_core::lifecycle::Since::Progress;
use serde_json::{Value, json};

use super::play::{Play, errors};
use super::{Table, compare};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "workflow",
    initial: "pending",
    roles: &[],
    states: &[
        ("pending", Queued),
        ("running", Working),
        ("waiting", Waiting),
        ("complete", Done),
        ("aborted", Cancelled),
    ],
    terminal: &["complete", "aborted"],
    moves: &[
        ("pending", "running", "start", &["human", "system"], ""),
        ("pending", "aborted", "abort", &["human"], ""),
        ("running", "complete", "finish", &["system"], "if steps_open"),
        ("running", "waiting", "finish", &["system"], "if steps_aborted; set problem=a step was aborted"),
        ("running", "waiting", "trip", &["human", "system"], "compute problem"),
        ("running", "aborted", "abort", &["human"], ""),
        ("waiting", "running", "resume", &["human"], "set steps_aborted=0; clear problem"),
        ("waiting", "aborted", "abort", &["human"], ""),
    ],
    timed: &[
        ("running", "waiting", "stalled", "14d", Progress, "set problem=no step has moved for too long"),
    ],
    requires: &[("waiting", &["problem"]), ("aborted", &["reason"])],
    does: &[
        ("pending", "wait", &[("met", "start")]),
        ("running", "wait", &[("met", "finish")]),
        (
            "waiting",
            "human",
            &[("resume", "resume"), ("abort", "abort")],
        ),
    ],
    effects: &[
        ("waiting", "notify"),
        ("complete", "notify"),
        ("aborted", "clean_up"),
    ],
    counters: &[],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

#[test]
fn it_is_complete_when_its_steps_are() {
    let mut play = Play::of("workflow");
    play.walk(&[("system", "running")]);
    assert!(play.pull("system", "finish", json!({ "steps_open": 1 })).is_err());
    assert_eq!(
        play.pull("system", "finish", json!({ "steps_open": 0, "steps_aborted": 0 }))
            .expect("all done"),
        "complete"
    );
}

#[test]
fn an_aborted_step_or_a_breaker_asks_a_person() {
    let mut play = Play::of("workflow");
    play.walk(&[("system", "running")]);
    assert_eq!(
        play.pull("system", "finish", json!({ "steps_open": 2, "steps_aborted": 1 }))
            .expect("a way on"),
        "waiting"
    );
    assert_eq!(play.ask("human:kim", "running", Value::Null).expect("people resume"), "running");
    assert_eq!(play.field("steps_aborted"), json!(0));
    assert_eq!(
        errors(play.pull("system", "trip", Value::Null)),
        ["problem: Say what the person has to decide"]
    );
    play.pull("system", "trip", json!({ "problem": "four equal failures" }))
        .expect("the breaker trips");
    assert_eq!(
        errors(play.ask("human:kim", "aborted", Value::Null)),
        ["reason: Say why it is aborted"]
    );
}
