//! A refusal says what is wrong and what could be done instead.

use banksman_core::machine::{Event, RejectReason};
use serde_json::json;

use crate::walk::{asking, complaints, of_source, task_of};

#[test]
fn a_group_asks_which_and_an_inner_name_is_enough() {
    let mut world = task_of("judged", json!({}));
    world.is_claimed_by("worker:w1", "running");
    let rejected = world.refused("worker:w1", "to blocked", json!({}));
    assert_eq!(
        complaints(&rejected),
        [
            "to: `blocked` is a group; say which: blocked(awaiting_judge), blocked(no_judge), blocked(unsettled), blocked(quota_wait), blocked(needs_rework), blocked(needs_person)"
        ]
    );
    world.goes("worker:w1", "to quota_wait", json!({}), "blocked(quota_wait)");
}

#[test]
fn a_slip_of_the_finger_is_recognised() {
    let table = [
        (
            "human:kim",
            "to decomposin",
            json!({}),
            "to: the lifecycle autonomous has no state `decomposin`; did you mean `decomposing`?",
        ),
        (
            "humam:kim",
            "to cancelled",
            json!({}),
            "actor: the lifecycle autonomous has no role `humam`; did you mean `human`?",
        ),
        (
            "human:kim",
            "to cancelled",
            json!({ "reason": "x", "feedbak": "y" }),
            "feedbak: the lifecycle autonomous has no such field; did you mean `feedback`?",
        ),
        ("human:kim", "on cancell", json!({}), "to: no transition from pending by `cancell`"),
        ("human:kim", "to done", json!({}), "to: no transition from pending to done"),
        (
            "human:kim",
            "to cancelled on claim",
            json!({}),
            "to: no transition from pending to cancelled by `claim`",
        ),
        ("human:kim", "", json!({}), "to: name a state or a trigger"),
        ("human:kim", "to active", json!({}), "actor: human may not move it to active; worker may"),
    ];
    for (who, how, given, complaint) in table {
        let rejected = task_of("autonomous", json!({})).refused(who, how, given);
        assert_eq!(complaints(&rejected), [complaint], "{who} {how}");
    }
    let rejected = task_of("autonomous", json!({})).refused("human:kim", "to zzzzzz", json!({}));
    assert!(rejected.errors[0].message.contains("known here: pending, active"), "{rejected}");
}

#[test]
fn a_refusal_offers_what_is_left() {
    let mut world = task_of("autonomous", json!({}));
    let rejected = world.refused("human:kim", "to done", json!({}));
    assert_eq!(
        (rejected.why, rejected.allowed),
        (RejectReason::Invalid, vec!["cancelled".to_owned()])
    );
    let rejected = world.refused("human:kim", "to cancelled", json!({}));
    assert!(rejected.allowed.is_empty(), "what was refused is not offered: {:?}", rejected.allowed);
    let rejected = world.refused("reviewer:rob", "to cancelled", json!({ "reason": "x" }));
    assert_eq!((rejected.why, rejected.allowed.len()), (RejectReason::Forbidden, 0));
}

#[test]
fn what_has_ended_stays_so() {
    let mut world = task_of("autonomous", json!({}));
    world.goes("human:kim", "to cancelled", json!({ "reason": "out of scope" }), "cancelled");
    for how in ["to pending", "on retry", "to cancelled", "on cancel"] {
        let rejected = world.refused("human:kim", how, json!({}));
        assert_eq!(complaints(&rejected), ["to: t1 is cancelled and cannot change"], "{how}");
    }
}

#[test]
fn the_clock_is_not_overtaken() {
    let mut world = task_of("autonomous", json!({}));
    world.is_claimed_by("worker:w1", "active");
    let due = world.at("30s");
    let rejected = world.refused("system", "on claim_timeout", json!({}));
    assert_eq!(complaints(&rejected), [format!("to: is not due before {due}")]);
    world.now = due;
    world.goes("system", "on claim_timeout", json!({}), "failed");
}

#[test]
fn of_several_ways_only_the_nearest_is_told_of() {
    let source = "
lifecycle: near
purpose: task
initial: desk
fields:
  note: { type: text, by: anyone }
  sign: { type: text, by: anyone }
states:
  desk: { kind: waiting }
  done: { kind: done }
transitions:
  - { from: desk, to: done, on: end, by: [human], guards: [{ field: note, message: Say why }, { field: sign, message: Sign it }] }
  - { from: desk, to: done, on: end, by: [human], guards: [{ field: note, message: Say why }] }
";
    let rejected = of_source(source).refused("human:kim", "on end", json!({}));
    assert_eq!(complaints(&rejected), ["note: Say why"]);
    of_source(source).goes("human:kim", "on end", json!({ "note": "enough" }), "done");
}

#[test]
fn a_missing_thing_is_said_once_however_many_rows_miss_it() {
    let source = "
lifecycle: twice
purpose: task
initial: desk
fields:
  note: { type: text, by: anyone }
  sign: { type: text, by: anyone }
  seal: { type: text, by: anyone }
states:
  desk: { kind: waiting }
  done: { kind: done }
transitions:
  - { from: desk, to: done, on: end, by: [human], guards: [{ field: note, message: Say why }, { field: sign, message: Sign it }] }
  - { from: desk, to: done, on: stop, by: [human], guards: [{ field: note, message: Say why }, { field: seal, message: Seal it }] }
";
    let rejected = of_source(source).refused("human:kim", "to done", json!({}));
    assert_eq!(complaints(&rejected), ["note: Say why", "sign: Sign it", "seal: Seal it"]);
    let brought = json!({ "note": "enough", "seal": "red" });
    of_source(source).goes("human:kim", "to done", brought, "done");

    let mut world = task_of("autonomous", json!({}));
    world.is_claimed_by("worker:w1", "active");
    world.goes("worker:w1", "on begin_breakdown", json!({}), "decomposing");
    let given = json!({ "subtasks": [{ "pr_sized": false }] });
    let rejected = world.refused("worker:w1", "on proposal_ready", given);
    assert_eq!(complaints(&rejected), ["subtasks: Every subtask must be PR-sized"]);
}

#[test]
fn long_input_is_not_repeated_in_full() {
    let mut world = task_of("autonomous", json!({}));
    for (to, trigger) in [(Some("x".repeat(5_000)), None), (None, Some("y".repeat(5_000)))] {
        let mut ask = asking("human:kim", "", json!({}));
        (ask.to, ask.trigger) = (to, trigger);
        let rejected = world.meet(&Event::Asked(ask)).expect_err("there is no such thing");
        assert!(rejected.to_string().len() < 500, "{rejected}");
    }
}
