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
fn a_failure_is_retried_when_it_is_due_and_then_a_call_for_help() {
    let mut world = running();
    for _ in 1..=4 {
        world.ends(Outcome::Crashed, "exit code 1", json!({}), "retrying");
        assert_eq!(world.field("error"), "exit code 1");
        dispatch(&mut world);
    }
    world.ends(Outcome::Exhausted, "all 3 retries are used up", json!({}), "blocked");
    let decision = world.decision.as_ref().expect("a person is asked");
    assert_eq!(decision.asks, "What does this task need to go on?");
    world.after("13d");
    assert_eq!(world.state(), "blocked", "it waits for the person");
    world.goes("human:kim", "on unblock", json!({}), "queued");
}

#[test]
fn a_run_waits_in_the_queue_until_its_retry_is_due() {
    let mut world = running();
    let due = world.at("5min");
    let retry = world.retried_at(Outcome::Crashed, due);
    assert_eq!((world.state(), retry.task.not_before), ("retrying", Some(due)));
    assert_eq!(retry.task.rank(&world.lifecycle), None, "nobody claims it before");
    world.after("5min");
    dispatch(&mut world);
}

#[test]
fn failures_that_a_worker_reports_have_a_limit_of_their_own() {
    let mut world = running();
    for _ in 0..3 {
        world.goes("worker:w1", "on retry", json!({ "error": "exit code 1" }), "retrying");
        dispatch(&mut world);
    }
    world.goes("worker:w1", "on retry", json!({ "error": "exit code 1" }), "blocked");
    assert_eq!(world.field("error"), "retried too often: exit code 1");
}

#[test]
fn checks_are_proof_and_the_rest_is_evaluated() {
    let mut world = running();
    world.ends(Outcome::Succeeded, "", json!({ "verified": true }), "merging");
    let step = world.ends(Outcome::Merged, "", json!({}), "complete");
    assert_eq!((step.ending, world.field("merged")), (Some(Ending::Done), &json!(true)));
    let unproven = json!({ "verified": false, "pr_url": "https://forge/pr/1" });
    running().ends(Outcome::Succeeded, "", unproven, "evaluating");

    let table = [
        (Outcome::Approved, "merging"),
        (Outcome::Blocked, "retrying"),
        (Outcome::Unavailable, "blocked(no_evaluator)"),
        (Outcome::Escalated, "blocked(unsettled)"),
        (Outcome::Unresolved, "blocked(unsettled)"),
    ];
    for (outcome, state) in table {
        let mut world = running();
        let proof = json!({ "pr_head": "0123abc" });
        let step = world.ends(Outcome::Succeeded, "", proof, "evaluating");
        assert_eq!(step.effects, [Effect::Start { activity: Activity::Panel }]);
        world.ends(outcome, "tests are red", json!({}), state);
        assert_eq!(world.field("error") == "tests are red", state != "merging", "{outcome}");
        assert_eq!(world.count("retries"), u32::from(state == "retrying"), "{outcome}");
    }
}

#[test]
fn a_merge_that_fails_is_work_for_an_agent_or_a_question() {
    let merging = || {
        let mut world = running();
        world.ends(Outcome::Succeeded, "", json!({ "verified": true }), "merging");
        world
    };
    for (outcome, counter) in [(Outcome::Conflict, "conflicts"), (Outcome::Rejected, "rejections")]
    {
        let mut world = merging();
        for times in 1..=3 {
            world.ends(outcome, "in src/lib.rs", json!({}), "retrying");
            assert_eq!(world.count(counter), times);
            dispatch(&mut world);
            world.ends(Outcome::Succeeded, "", json!({ "verified": true }), "merging");
        }
        world.ends(outcome, "in src/lib.rs", json!({}), "blocked");
    }
    let mut world = merging();
    world.ends(Outcome::Exhausted, "the checkout is in the way", json!({}), "merging(hindered)");
    world.goes("human:kim", "on merge_again", json!({}), "merging");
    let mut world = merging();
    world.goes("human:kim", "on cancel", json!({ "reason": "no" }), "merging(taking_back)");
    world.ends(Outcome::NotMerged, "", json!({}), "cancelled");
}

#[test]
fn what_only_a_person_can_solve_is_not_retried() {
    for outcome in [Outcome::Exhausted, Outcome::NeedsPerson, Outcome::OverBudget] {
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
    world.times_out("10min", "retrying");
    assert_eq!(world.field("error"), "the worker never started");

    let mut world = running();
    let step = world.times_out("10min", "evaluating");
    assert_eq!(
        step.effects,
        [Effect::Stop { epoch: 1 }, Effect::Start { activity: Activity::Panel }]
    );
    for _ in 1..3 {
        world.times_out("30min", "blocked(no_evaluator)");
        world.times_out("2min", "evaluating");
    }
    world.times_out("30min", "blocked(unsettled)");
    assert_eq!(world.field("error"), "nobody evaluated it: no verdict came in time");
    assert_eq!(world.count("retries"), 0, "the worker has not run again");
    let mut world = running();
    world.times_out("10min", "evaluating");
    world.ends(Outcome::Approved, "", json!({}), "retrying");
    assert_eq!(world.field("error"), "nothing shows that the work is done");

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
