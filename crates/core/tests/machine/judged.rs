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
    let work = json!({ "pr_head": "c0ffee" });
    world.ends(Outcome::Succeeded, "", work, "blocked(awaiting_judge)");
    world
}

#[test]
fn only_the_role_of_the_task_may_claim() {
    for role in ["worker", "tester", "docser"] {
        task_of("judged", json!({ "role": role })).is_claimed_by(&format!("{role}:x"), "running");
        for other in ["worker", "tester", "docser"].iter().filter(|other| **other != role) {
            let claim = task_of("judged", json!({ "role": role })).claim(&format!("{other}:x"));
            assert_eq!(complaints(&claim.expect_err(other)), ["role: It is for another role"]);
        }
    }
    task_of("judged", json!({})).is_claimed_by("worker:x", "running");
    task_of("judged", json!({})).claim("docser:x").expect_err("a task is for workers");
    for role in ["judge", "planner", "human", "system"] {
        let rejected = task_of("judged", json!({})).claim(&format!("{role}:x")).expect_err(role);
        assert_eq!(rejected.why, RejectReason::Forbidden, "{role}");
    }
}

#[test]
fn a_success_is_judged_unless_checks_passed_and_no_judge_is_needed() {
    let mut world = awaiting_judge();
    world.ends(Outcome::Approved, "", json!({}), "merging");
    let step = world.ends(Outcome::Merged, "", json!({}), "done");
    assert_eq!((step.ending, world.field("merged")), (Some(Ending::Done), &json!(true)));
    for (verified, state) in [(true, "merging"), (false, "blocked(awaiting_judge)")] {
        let facts = json!({ "review_needed": false, "verified": verified });
        running().ends(Outcome::Succeeded, "", facts, state);
    }
}

fn merging() -> World {
    let mut world = awaiting_judge();
    world.ends(Outcome::Approved, "", json!({}), "merging");
    world
}

#[test]
fn a_conflict_and_a_failed_check_are_work_for_an_agent() {
    for (outcome, counter) in [(Outcome::Conflict, "conflicts"), (Outcome::Rejected, "rejections")]
    {
        let mut world = merging();
        for times in 1..=3 {
            world.ends(outcome, "in src/lib.rs", json!({}), "queued");
            assert_eq!(world.count(counter), times);
            let feedback = world.field("feedback").as_str().expect("the agent is told");
            assert!(feedback.ends_with("in src/lib.rs"), "{feedback}");
            world.is_claimed_by("worker:w1", "running");
            world.ends(Outcome::Succeeded, "", json!({}), "blocked(awaiting_judge)");
            world.ends(Outcome::Approved, "", json!({}), "merging");
        }
        world.ends(outcome, "in src/lib.rs", json!({}), "blocked(needs_person)");
    }
    let mut world = merging();
    world.ends(Outcome::Exhausted, "the checkout is in the way", json!({}), "merging(hindered)");
    assert_eq!(world.field("problem"), "the checkout is in the way");
    world.goes("human:kim", "on merge_again", json!({}), "merging");
    world.ends(Outcome::Merged, "", json!({}), "done");
}

#[test]
fn nothing_is_both_merged_and_cancelled() {
    let reason = json!({ "reason": "not wanted" });
    for (outcome, state) in [(Outcome::Merged, "done"), (Outcome::NotMerged, "cancelled")] {
        let mut world = merging();
        world.goes("human:kim", "on cancel", reason.clone(), "merging(taking_back)");
        world.ends(outcome, "", json!({}), state);
    }
    let mut world = merging();
    world.times_out("1d", "merging(taking_back)");
    world.ends(Outcome::NotMerged, "", json!({}), "merging(hindered)");
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
    assert_eq!(world.count("quota_waits"), 0, "the failure table counts it");
    world.is_claimed_by("worker:w1", "running");

    // Without a time from the provider the wait is half an hour, and a day of waits is the limit.
    for wait in 1..48 {
        world.ends(Outcome::Quota, "", json!({}), "blocked(quota_wait)");
        world.times_out("30min", "queued");
        assert_eq!(world.count("quota_waits"), wait);
        world.is_claimed_by("worker:w1", "running");
    }
    world.ends(Outcome::Quota, "", json!({}), "blocked(quota_wait)");
    world.times_out("30min", "blocked(needs_person)");
    assert_eq!(world.field("question"), "the quota did not come back");
    assert_eq!(world.count("reported_failures"), 0, "a quota is no failure of the work");
}

/// A run that failed; the failure policy tries it again after half a minute.
fn fails(world: &mut World) {
    let retry_at = world.at("30s").to_string();
    world.ends(Outcome::Crashed, "exit code 1", json!({ "retry_at": retry_at }), "failed");
    assert_eq!(world.field("diagnostic"), "exit code 1");
}

fn retried(world: &mut World) {
    world.after("30s");
    world.ends(Outcome::Met, "", json!({}), "queued");
}

#[test]
fn a_failure_is_retried_when_it_is_due_as_long_as_the_failure_policy_says() {
    let mut world = running();
    for _ in 0..9 {
        fails(&mut world);
        retried(&mut world);
        world.is_claimed_by("worker:w1", "running");
    }
    let words = "all 3 retries for test are used up";
    world.ends(Outcome::Exhausted, words, json!({}), "blocked(needs_person)");
    assert_eq!(world.field("question"), words);
}

#[test]
fn failures_that_workers_report_have_a_limit_of_their_own() {
    let mut world = running();
    let words = json!({ "diagnostic": "exit code 1" });
    for _ in 0..3 {
        world.goes("worker:w1", "on fail", words.clone(), "failed");
        retried(&mut world);
        world.is_claimed_by("worker:w1", "running");
    }
    world.goes("worker:w1", "on fail", words, "blocked(needs_person)");
}

#[test]
fn work_that_is_sent_back_too_often_is_left_to_a_person() {
    let mut world = awaiting_judge();
    let feedback = json!({ "feedback": "no tests" });
    for _ in 1..5 {
        world.goes("judge:j1", "on request_changes", feedback.clone(), "blocked(needs_rework)");
        world.times_out("2min", "queued");
        world.is_claimed_by("worker:w1", "running");
        world.ends(Outcome::Succeeded, "", json!({}), "blocked(awaiting_judge)");
    }
    world.goes("judge:j1", "on request_changes", feedback, "blocked(needs_rework)");
    world.times_out("2min", "blocked(needs_person)");
    assert_eq!(world.field("question"), "it was reworked too often");
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
        awaiting_judge().goes(role, "on escalate", words.clone(), "blocked(unsettled)");
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
fn a_silent_judge_is_asked_three_times_about_the_same_run() {
    let mut world = awaiting_judge();
    for _ in 1..3 {
        world.times_out("15min", "blocked(no_judge)");
        world.times_out("2min", "blocked(awaiting_judge)");
    }
    world.times_out("15min", "blocked(unsettled)");
    assert_eq!(world.field("question"), "nobody judged it: no verdict came in time");
    assert_eq!(world.task.epoch, 1, "the worker has not run again");
}

#[test]
fn a_person_settles_what_judges_did_not() {
    for outcome in [Outcome::Escalated, Outcome::Unresolved] {
        let unsettled = || {
            let mut world = awaiting_judge();
            world.ends(outcome, "judge has a concern", json!({}), "blocked(unsettled)");
            assert_eq!(world.field("question"), "judge has a concern");
            world
        };
        unsettled().goes("human:kim", "on approve", json!({}), "merging");
        unsettled().goes("human:kim", "on judge_again", json!({}), "blocked(awaiting_judge)");
        let feedback = json!({ "feedback": "use tabs" });
        unsettled().goes("human:kim", "on request_changes", feedback, "blocked(needs_rework)");
        let reason = json!({ "reason": "not wanted" });
        unsettled().goes("human:kim", "on cancel", reason, "cancelled");
        unsettled().refused("judge:j1", "on approve", json!({}));
    }
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
    world.goes("worker:w1", "on fail", json!({ "diagnostic": "exit code 1" }), "failed");
    assert_eq!(world.count("reported_failures"), 1);
    world.goes("human:kim", "on retry", json!({}), "queued");
    assert_eq!(world.count("reported_failures"), 0);
}
