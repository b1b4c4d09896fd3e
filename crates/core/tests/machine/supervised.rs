//! The rules of the supervised lifecycle: dispatched, evaluated, prompted again up to a limit, then
//! a call for help.

use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{Effect, Ending};
use serde_json::json;

use crate::walk::task_of;
use crate::world::World;

fn running() -> World {
    let mut world = task_of("supervised", json!({}));
    dispatch(&mut world);
    world
}

fn dispatch(world: &mut World) {
    world.is_claimed_by("worker:w1", "dispatched");
    let step = world.goes("worker:w1", "on start", json!({}), "running");
    assert_eq!(step.effects, [], "the worker goes on under its lease");
}

#[test]
fn three_retries_and_then_a_call_for_help() {
    let mut world = running();
    for run in 1..=4 {
        let state = if run == 4 { "blocked" } else { "retrying" };
        world.ends(Outcome::Crashed, "exit code 1", json!({}), state);
        assert_eq!(world.count("retries"), run.min(3));
        let error = world.field("error").as_str().expect("it says what went wrong");
        assert!(error.ends_with("exit code 1"), "{error}");
        if run < 4 {
            dispatch(&mut world);
        }
    }
    let decision = world.decision.as_ref().expect("a person is asked");
    assert_eq!(decision.asks, "What does this task need to go on?");
    world.after("13d");
    assert_eq!(world.state(), "blocked", "it waits for the person");
    world.goes("human:kim", "on unblock", json!({}), "queued");
    assert_eq!(world.count("retries"), 0);
}

#[test]
fn a_pull_request_is_proof_and_the_rest_is_evaluated() {
    let mut world = running();
    let step =
        world.ends(Outcome::Succeeded, "", json!({ "pr_url": "https://forge/pr/1" }), "complete");
    assert_eq!(step.ending, Some(Ending::Done));

    let table = [
        (Outcome::Approved, "complete"),
        (Outcome::Blocked, "retrying"),
        (Outcome::Unavailable, "retrying"),
        (Outcome::Escalated, "blocked"),
        (Outcome::Unresolved, "blocked"),
    ];
    for (outcome, state) in table {
        let mut world = running();
        let step = world.ends(Outcome::Succeeded, "", json!({}), "evaluating");
        assert_eq!(step.effects, [Effect::Start { activity: Activity::Panel }]);
        world.ends(outcome, "tests are red", json!({}), state);
        assert_eq!(world.field("error") == "tests are red", state != "complete", "{outcome}");
        assert_eq!(world.count("retries"), u32::from(state == "retrying"), "{outcome}");
    }
}

#[test]
fn what_only_a_person_can_solve_is_not_retried() {
    for outcome in [Outcome::Auth, Outcome::NeedsPerson, Outcome::OverBudget] {
        let mut world = running();
        world.ends(outcome, "log in again", json!({}), "blocked");
        assert_eq!(
            (world.count("retries"), world.field("error")),
            (0, &json!("log in again")),
            "{outcome}"
        );
    }
}

#[test]
fn every_silence_is_bounded() {
    let mut world = task_of("supervised", json!({}));
    world.is_claimed_by("worker:w1", "dispatched");
    world.times_out("10min", "failed");
    assert_eq!(world.field("error"), "the worker never started");

    let mut world = running();
    let step = world.times_out("10min", "evaluating");
    assert_eq!(
        step.effects,
        [Effect::Stop { epoch: 1 }, Effect::Start { activity: Activity::Panel }]
    );
    world.times_out("10min", "retrying");
    assert_eq!(world.field("error"), "the evaluation gave no answer");

    let mut world = running();
    let mut minutes = 0;
    while world.state() == "running" && minutes < 120 {
        world.heartbeat(1, true).expect("it holds the task");
        world.after("5min");
        minutes += 5;
    }
    assert_eq!((world.state(), minutes), ("retrying", 60));
    assert_eq!(world.field("error"), "the worker ran out of time");
}
