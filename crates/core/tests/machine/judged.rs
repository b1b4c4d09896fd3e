//! The rules of the judged lifecycle: failed or waiting tasks recover by themselves until their
//! limit is used up.

use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{Effect, Ending, RejectReason};
use serde_json::json;

use crate::walk::{complaints, task_of};
use crate::world::World;

fn running() -> World {
    let mut world = task_of("judged", json!({}));
    world.is_claimed_by("worker:w1", "running");
    world
}

fn awaiting_judge() -> World {
    let mut world = running();
    world.ends(Outcome::Succeeded, "", json!({}), "blocked(awaiting_judge)");
    world
}

#[test]
fn every_role_that_executes_may_claim() {
    for role in ["worker", "tester", "docser"] {
        task_of("judged", json!({})).is_claimed_by(&format!("{role}:x"), "running");
    }
    for role in ["judge", "planner", "human", "system"] {
        let rejected = task_of("judged", json!({})).claim(&format!("{role}:x")).expect_err(role);
        assert_eq!(rejected.why, RejectReason::Forbidden, "{role}");
    }
}

#[test]
fn a_success_is_judged_unless_no_judge_is_needed() {
    let mut world = awaiting_judge();
    world.ends(Outcome::Approved, "", json!({}), "done");
    let mut world = running();
    let step = world.ends(Outcome::Succeeded, "", json!({ "review_needed": false }), "done");
    assert_eq!(step.ending, Some(Ending::Done));
}

#[test]
fn a_quota_is_waited_for_and_comes_back() {
    let mut world = running();
    let back = world.at("10min").to_string();
    let step =
        world.ends(Outcome::Quota, "", json!({ "quota_resets_at": back }), "blocked(quota_wait)");
    assert_eq!(step.effects, [Effect::Start { activity: Activity::Wait }]);
    world.after("10min");
    world.ends(Outcome::Met, "", json!({}), "queued");
    assert_eq!(world.count("quota_waits"), 1);
    world.is_claimed_by("worker:w1", "running");

    // Without a time from the provider the wait is half an hour, and a day of waits is the limit.
    for wait in 2..48 {
        world.ends(Outcome::Quota, "", json!({}), "blocked(quota_wait)");
        world.times_out("30min", "queued");
        assert_eq!(world.count("quota_waits"), wait);
        world.is_claimed_by("worker:w1", "running");
    }
    world.ends(Outcome::Quota, "", json!({}), "blocked(quota_wait)");
    world.times_out("30min", "failed");
    assert_eq!(world.field("diagnostic"), "the quota did not come back");
    assert_eq!(world.count("retries"), 0, "a quota is no failure of the work");
}

#[test]
fn a_failure_is_retried_after_a_cooldown_and_then_reworked() {
    let mut world = running();
    for run in 1..=4 {
        world.ends(Outcome::Crashed, "exit code 1", json!({}), "failed");
        assert_eq!(world.field("diagnostic"), "exit code 1");
        let state = if run == 4 { "blocked(needs_rework)" } else { "queued" };
        world.times_out("30s", state);
        assert_eq!(world.count("retries"), run.min(3));
        if run < 4 {
            world.is_claimed_by("worker:w1", "running");
        }
    }
    assert_eq!(world.field("feedback"), "it failed too often");
    for _ in 1..5 {
        world.times_out("2min", "queued");
        world.is_claimed_by("worker:w1", "running");
        world.ends(Outcome::Policy, "outside its paths", json!({}), "blocked(needs_rework)");
    }
    let step = world.times_out("2min", "cancelled");
    assert_eq!(
        (world.field("reason"), step.ending),
        (&json!("it was reworked too often"), Some(Ending::Otherwise))
    );
}

#[test]
fn what_only_a_person_can_allow_is_asked_and_goes_on_with_a_yes() {
    for outcome in [Outcome::NeedsPerson, Outcome::OverBudget] {
        let mut world = running();
        world.ends(outcome, "RED: run \"git push --force\"", json!({}), "blocked(needs_person)");
        assert_eq!(world.field("question"), "RED: run \"git push --force\"");
        let rejected = world.refused("judge:j1", "on approve", json!({}));
        assert_eq!(rejected.why, RejectReason::Invalid, "a judge has no say in it");
        world.goes("human:kim", "on unblock", json!({ "note": "do it" }), "queued");
        assert_eq!(world.task.fields.get("question"), None);
        world.is_claimed_by("worker:w1", "running");
    }
    let mut world = task_of("judged", json!({}));
    let budget = json!({ "question": "Over budget" });
    world.goes("system", "on escalate", budget, "blocked(needs_person)");
    world.times_out("14d", "cancelled");
    assert_eq!(world.field("reason"), "nobody has answered");
}

#[test]
fn whoever_works_judges_or_watches_may_ask_a_person_with_words() {
    let words = json!({ "question": "is this still wanted?" });
    for role in ["worker:w1", "human:kim"] {
        let mut world = running();
        let complaint = complaints(&world.refused(role, "on escalate", json!({})));
        assert_eq!(complaint, ["question: Say what the person has to decide"]);
        world.goes(role, "on escalate", words.clone(), "blocked(needs_person)");
    }
    for role in ["judge:j1", "human:kim"] {
        awaiting_judge().goes(role, "on escalate", words.clone(), "blocked(needs_person)");
    }
}

#[test]
fn a_judge_sends_back_with_feedback() {
    let rejected = awaiting_judge().refused("judge:j1", "on request_changes", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Say what has to be reworked"]);
    let mut world = awaiting_judge();
    world.goes(
        "judge:j1",
        "on request_changes",
        json!({ "feedback": "no tests" }),
        "blocked(needs_rework)",
    );
}

#[test]
fn a_silent_judge_is_asked_three_times() {
    let mut world = awaiting_judge();
    for _ in 1..3 {
        world.times_out("15min", "queued");
        world.is_claimed_by("worker:w1", "running");
        world.ends(Outcome::Succeeded, "", json!({}), "blocked(awaiting_judge)");
    }
    world.times_out("15min", "failed");
    assert_eq!(world.field("diagnostic"), "nobody judged it");
}

#[test]
fn a_run_is_bounded_by_silence_and_by_its_lease() {
    let mut world = running();
    world.times_out("15min", "failed");
    assert_eq!(world.field("diagnostic"), "the run is stuck");

    let mut world = running();
    let mut minutes = 0;
    while world.state() == "running" && minutes < 120 {
        world.heartbeat(1, true).expect("it holds the task");
        world.after("10min");
        minutes += 10;
    }
    assert_eq!(world.field("diagnostic"), "the lease has expired");
    assert_eq!(minutes, 60);
}

#[test]
fn a_person_gives_a_new_allowance() {
    let mut world = running();
    world.ends(Outcome::Crashed, "exit code 1", json!({}), "failed");
    world.times_out("30s", "queued");
    world.is_claimed_by("worker:w1", "running");
    world.ends(Outcome::Crashed, "exit code 1", json!({}), "failed");
    assert_eq!(world.count("retries"), 1);
    world.goes("human:kim", "on retry", json!({}), "queued");
    assert_eq!(world.count("retries"), 0);
}
