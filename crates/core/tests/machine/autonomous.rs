//! The rules of the autonomous lifecycle: its walkthrough, its timeouts, its limits.

use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{Effect, Ending, Finish, TimerKind, WaitsFor, waits_for};
use serde_json::{Value, json};

use crate::walk::{complaints, task_of};
use crate::world::World;

fn approval() -> Value {
    json!({ "verdicts": [{ "verdict": "APPROVE" }] })
}

fn subtasks(small: bool) -> Value {
    json!({ "subtasks": [{ "title": "a", "pr_sized": true }, { "title": "b", "pr_sized": small }] })
}

fn decomposing() -> World {
    let mut world = task_of("autonomous", json!({}));
    world.is_claimed_by("worker:polecat", "active");
    world.ends(Outcome::Met, "", json!({}), "decomposing");
    world
}

fn in_consensus() -> World {
    let mut world = decomposing();
    world.ends(Outcome::Succeeded, "", subtasks(true), "consensus");
    world
}

fn waiting() -> World {
    let mut world = in_consensus();
    world.ends(Outcome::Approved, "", json!({}), "waiting");
    world
}

fn in_progress() -> World {
    let mut world = waiting();
    world.goes("human:kim", "on approve", json!({}), "in_progress");
    world
}

fn in_review() -> World {
    let mut world = in_progress();
    world.is_claimed_by("worker:polecat", "in_progress");
    world.ends(Outcome::Succeeded, "", json!({ "pr_url": "https://forge/pr/456" }), "review");
    world
}

fn blocked_from(mut world: World, trigger: &str) -> World {
    let given = json!({ "unblock_condition": "the key is there" });
    world.goes("human:kim", &format!("on {trigger}"), given, "blocked");
    world
}

fn failed() -> World {
    let mut world = waiting();
    world.times_out("7d", "failed");
    world
}

/// The example of the document, from the claim to the merge.
#[test]
fn the_walkthrough() {
    let mut world = task_of("autonomous", json!({}));
    world.is_claimed_by("worker:polecat", "active");
    assert_eq!(world.field("worker_id"), "polecat");
    world.goes("system", "on begin_breakdown", json!({}), "decomposing");

    // The first iteration is too large, the second is not.
    world.ends(Outcome::Succeeded, "", subtasks(false), "decomposing");
    assert_eq!(world.count("depth"), 1);
    world.is_claimed_by("worker:polecat", "decomposing");
    let step = world.ends(Outcome::Succeeded, "", subtasks(true), "consensus");
    assert_eq!(step.effects, [Effect::Start { activity: Activity::Panel }]);
    assert_eq!(step.artifacts[0].name, "subtasks");

    let step = world.ends(Outcome::Approved, "", json!({}), "waiting");
    assert_eq!(
        (step.effects, world.field("approval_type")),
        (vec![Effect::CloseReviews, Effect::Notify], &json!("standard"))
    );
    let decision = world.decision.clone().expect("a person is asked");
    assert_eq!(decision.deadline, Some(world.at("7d")));
    let actions: Vec<&str> = decision.offers.iter().map(|(action, _)| action.as_str()).collect();
    assert_eq!(actions, ["approve", "changes", "back", "backburner", "cancel"]);

    world.after("2d");
    world.goes("human:kim", "on approve", json!({}), "in_progress");
    world.is_claimed_by("worker:polecat", "in_progress");
    world.ends(Outcome::Succeeded, "", json!({ "pr_url": "https://forge/pr/456" }), "review");

    // A concern is answered by a change of the pull request, and then by an approval.
    world.ends(Outcome::Blocked, "missing test for an edge case", json!({}), "in_progress");
    assert_eq!(world.field("pr_comments"), "missing test for an edge case");
    world.is_claimed_by("worker:polecat", "in_progress");
    world.ends(Outcome::Succeeded, "", json!({}), "review");
    assert_eq!(world.field("pr_comments"), &Value::Null);
    world.ends(Outcome::Approved, "", approval(), "merge_ready");

    let rejected = world.refused("human:kim", "on approve_merge", json!({}));
    assert_eq!(complaints(&rejected), ["merged: The pull request is not merged yet"]);
    let forged = world.refused("human:kim", "on approve_merge", json!({ "merged": true }));
    assert!(forged.to_string().contains("merged: is a fact"), "{forged}");
    world.overrides("human:kim", json!({ "merged": true }));
    let step = world.goes("human:kim", "on approve_merge", json!({}), "done");
    assert_eq!(step.ending, Some(Ending::Done));
    assert_eq!(step.effects, [Effect::Notify, Effect::CleanUp]);
    assert_eq!(world.on_word(), ["merged"]);
}

/// Both lifecycles in which a person merges, with a branch instead of a pull request and the review
/// done.
fn reviewed_branches() -> [World; 2] {
    let mut leaf = task_of("leaf", json!({ "subtask": "limiter" }));
    leaf.is_claimed_by("worker:polecat", "in_progress");
    let mut task = in_progress();
    task.is_claimed_by("worker:polecat", "in_progress");
    [task, leaf].map(|mut world| {
        let branch = json!({ "pr_url": "local:task/t1", "pr_head": "c0ffee" });
        world.ends(Outcome::Succeeded, "", branch, "review");
        world.ends(Outcome::Approved, "", approval(), "merge_ready");
        world
    })
}

/// A person has approved, and nothing has started.
fn approved(mut world: World) -> World {
    let step = world.goes("human:kim", "on approve_merge", json!({}), "merge_ready(approved)");
    assert_eq!(step.effects, [Effect::Start { activity: Activity::Merge }]);
    assert!(world.decision.is_none(), "nobody is asked while it is merged");
    world
}

fn merging(world: World) -> World {
    let mut world = approved(world);
    let step = world.ends(Outcome::NotMerged, "", json!({}), "merge_ready(merging)");
    assert_eq!(step.effects, [Effect::Start { activity: Activity::Merge }]);
    world
}

#[test]
fn a_branch_that_stands_for_a_pull_request_is_merged_by_the_answer() {
    for world in reviewed_branches() {
        let mut world = merging(world);
        let step = world.ends(Outcome::Merged, "", json!({}), "done");
        assert_eq!((step.ending, world.field("merged")), (Some(Ending::Done), &json!(true)));
    }
    for mut world in reviewed_branches() {
        // A person who merged it manually says so, and it is on record that nobody has seen it.
        world.overrides("human:kim", json!({ "merged": true }));
        world.goes("human:kim", "on approve_merge", json!({}), "done");
        assert_eq!(world.on_word(), ["merged"]);
    }
}

#[test]
fn a_merge_that_does_not_succeed_is_asked_about_again() {
    for world in reviewed_branches() {
        let mut world = merging(world);
        world.ends(Outcome::Exhausted, "its keeper was lost", json!({}), "merge_ready");
        assert_eq!(world.field("problem"), "its keeper was lost");
        assert!(world.decision.is_some() && world.field("merged").is_null());
        let mut world = merging(world);
        assert!(world.field("problem").is_null(), "it is tried again");
        // The merge is stopped and inspected before anybody is asked: it may have finished in time.
        world.times_out("1d", "merge_ready(taking_back)");
        world.ends(Outcome::NotMerged, "", json!({}), "merge_ready");
        assert_eq!(world.field("problem"), "the merge timed out");
        let objection = json!({ "objection": "no docs" });
        world.goes("human:kim", "on last_minute_concern", objection, "review");
        assert!(!world.field("problem").is_null(), "the reviewers are told");
        world.ends(Outcome::Approved, "", approval(), "merge_ready");
        assert!(world.field("problem").is_null(), "they have looked at it");
    }
}

/// The worker is told, and the result is reviewed and approved anew; what never ends well goes to a
/// person.
#[test]
fn a_conflict_and_a_failed_check_are_work_for_an_agent() {
    for (outcome, says) in [
        (Outcome::Conflict, "It conflicts with its base. in src/lib.rs"),
        (Outcome::Rejected, "After the merge with its base, in src/lib.rs"),
    ] {
        for mut world in reviewed_branches() {
            for _ in 0..3 {
                world = merging(world);
                world.ends(outcome, "in src/lib.rs", json!({}), "in_progress");
                assert_eq!(world.field("pr_comments"), says);
                world.is_claimed_by("worker:polecat", "in_progress");
                let branch = json!({ "pr_url": "local:task/t1", "pr_head": "c0ffee" });
                world.ends(Outcome::Succeeded, "", branch, "review");
                world.ends(Outcome::Approved, "", approval(), "merge_ready");
            }
            world = merging(world);
            world.ends(outcome, "in src/lib.rs", json!({}), "merge_ready");
            assert!(world.decision.is_some() && !world.field("problem").is_null(), "{outcome}");
        }
    }
}

#[test]
fn a_yes_is_taken_back_at_once_while_nothing_has_begun() {
    for world in reviewed_branches() {
        let mut world = approved(world);
        world.goes("human:kim", "on take_back", json!({}), "merge_ready");
        assert!(world.decision.is_some(), "it is asked again");
        let mut world = approved(world);
        world.goes("human:kim", "on decline", json!({ "reason": "no" }), "cancelled");
    }
    for (outcome, end) in [(Outcome::Merged, "done"), (Outcome::Exhausted, "merge_ready")] {
        for world in reviewed_branches() {
            approved(world).ends(outcome, "", json!({}), end);
        }
    }
    for world in reviewed_branches() {
        let mut world = approved(world);
        world.times_out("1d", "merge_ready");
        assert_eq!(world.field("problem"), "no machine has begun the merge");
    }
}

/// Until the end of the merge is known, nobody can cancel; merged work is done.
#[test]
fn a_yes_is_taken_back_from_a_merge_when_it_is_known_what_came_of_it() {
    let taking_back = |world| {
        let mut world = merging(world);
        let step = world.goes("human:kim", "on take_back", json!({}), "merge_ready(taking_back)");
        assert_eq!(step.effects, [Effect::Start { activity: Activity::Merge }]);
        for way in ["decline", "take_back", "approve_merge"] {
            world.refused("human:kim", &format!("on {way}"), json!({ "reason": "no" }));
        }
        world.refused("system", "on close", json!({}));
        world
    };
    for world in reviewed_branches() {
        let mut world = taking_back(world);
        world.ends(Outcome::NotMerged, "", json!({}), "merge_ready");
        assert!(world.field("problem").is_null() && world.decision.is_some());
        let mut world = taking_back(world);
        let step = world.ends(Outcome::Merged, "", json!({}), "done");
        assert_eq!((step.ending, world.field("merged")), (Some(Ending::Done), &json!(true)));
    }
    for world in reviewed_branches() {
        taking_back(world).times_out("1d", "merge_ready");
    }
}

#[test]
fn nobody_interferes_with_a_merge() {
    for world in reviewed_branches() {
        let mut world = merging(world);
        for way in ["decline", "last_minute_concern", "approve_merge"] {
            world.refused("human:kim", &format!("on {way}"), json!({ "reason": "no" }));
        }
        world.refused("system", "on close", json!({}));
        // Who cancels it has the merge stopped first; the reason stays as it was given.
        let taking_back = "merge_ready(taking_back)";
        world.goes("human:kim", "on cancel", json!({ "reason": "too early" }), taking_back);
        world.ends(Outcome::NotMerged, "", json!({}), "cancelled");
        assert_eq!(world.field("reason"), &json!("too early"));
    }
}

/// Banksman merges what the system observed, and never what somebody claims or left from an earlier
/// round.
#[test]
fn only_what_the_system_has_found_is_merged_by_the_answer() {
    for mut world in reviewed_branches() {
        world.goes(
            "human:kim",
            "on last_minute_concern",
            json!({ "objection": "no docs" }),
            "review",
        );
        world.ends(Outcome::Blocked, "once more", json!({}), "in_progress");
        let by_hand = json!({ "pr_url": "https://forge/pr/456" });
        let forged = json!({ "pr_url": "https://forge/pr/456", "pr_head": "c0ffee" });
        let rejected = world.refused("worker:polecat", "on pr_filed", forged);
        assert_eq!(
            complaints(&rejected),
            ["pr_head: is a fact: the system writes it from evidence, and a person overrides it \
                 with a reason"]
        );
        world.goes("worker:polecat", "on pr_filed", by_hand, "review");
        world.ends(Outcome::Approved, "", approval(), "merge_ready");
        let rejected = world.refused("human:kim", "on approve_merge", json!({}));
        assert_eq!(complaints(&rejected), ["merged: The pull request is not merged yet"]);
    }
}

#[test]
fn every_state_times_out_where_the_document_says() {
    let active = || {
        let mut world = task_of("autonomous", json!({}));
        world.is_claimed_by("worker:polecat", "active");
        world
    };
    let at_work = || {
        let mut world = in_progress();
        world.is_claimed_by("worker:polecat", "in_progress");
        world
    };
    let table: [(World, &str, &str, &str, &str); 7] = [
        (active(), "30s", "failed", "diagnostic", "claim timeout"),
        (decomposing(), "10min", "failed", "diagnostic", "decomposition timeout"),
        (in_consensus(), "30min", "waiting", "approval_type", "escalated"),
        (waiting(), "7d", "failed", "diagnostic", "approval timeout"),
        (at_work(), "24h", "failed", "diagnostic", "stalled"),
        (in_review(), "7d", "failed", "diagnostic", "review timeout"),
        (
            blocked_from(in_progress(), "dependency_discovered"),
            "14d",
            "failed",
            "diagnostic",
            "blocked timeout",
        ),
    ];
    for (mut world, time, state, field, value) in table {
        let was = world.state().to_owned();
        world.times_out(time, state);
        assert_eq!(world.field(field), value, "{was}");
    }
}

/// If subtasks do the work, nobody is asked or hurried for the parent, which follows the subtask
/// that is furthest behind.
#[test]
fn a_split_task_follows_its_parts() {
    let mut world = decomposing();
    let planned =
        json!({ "subtasks": [{ "pr_sized": true }, { "pr_sized": true }], "split": true });
    world.ends(Outcome::Succeeded, "", planned, "consensus");
    world.ends(Outcome::Approved, "", json!({}), "waiting");
    world.goes("human:kim", "on approve", json!({}), "in_progress");
    assert!(!world.task.is_claimable(&world.lifecycle), "no agent is called");
    assert_eq!(waits_for(&world.lifecycle, &world.task, None), WaitsFor::Subtasks);
    world.after("30d");
    assert_eq!(world.state(), "in_progress", "its subtasks have their own bounds");
    let stand = |open, in_review, waiting, given_up: i64| {
        json!({
            "children_open": open, "children_in_review": in_review, "children_waiting": waiting, "children_done": 1,
            "children_given_up": given_up, "children_problem": "t5 failed", "given_up": ["t5"], "pr_url": "a b",
        })
    };
    world.refused("system", "on children_moved", stand(1, 1, 0, 0));
    let step = world.goes("system", "on children_moved", stand(0, 1, 1, 0), "review");
    assert_eq!(step.effects, [Effect::LeadChildren], "no panel sits");
    world.goes("system", "on children_moved", stand(1, 0, 1, 0), "in_progress");
    world.goes("system", "on children_moved", stand(0, 0, 2, 0), "review");
    world.goes("system", "on children_moved", stand(0, 0, 2, 0), "merge_ready");
    assert_eq!(world.decision, None, "nobody is asked about a merge that is not its own");
    world.goes("system", "on children_moved", stand(0, 0, 1, 1), "review");
    world.goes("system", "on children_moved", stand(0, 0, 1, 1), "blocked");
    assert!(world.decision.is_some() && world.field("unblock_condition") == "t5 failed");
    world.goes("human:kim", "on go_without", json!({}), "review");
    assert_eq!(world.field("left_out"), &json!(["t5"]));
    world.goes("system", "on children_moved", stand(0, 0, 0, 0), "merge_ready");
    world.goes("system", "on children_moved", stand(0, 0, 0, 0), "done");
}

/// Each iteration is progress, but all of them together have two hours.
#[test]
fn the_whole_decomposition_is_bounded_too() {
    let mut world = decomposing();
    let mut minutes = 0;
    while world.state() == "decomposing" && minutes < 240 {
        world.after("8min");
        minutes += 8;
        if let Some(lease) = &world.task.lease {
            world.heartbeat(lease.epoch, true).expect("it holds the task");
        }
    }
    assert_eq!((world.state(), minutes), ("blocked", 120));
    assert_eq!(world.field("unblock_condition"), "a person looks at the breakdown so far");
    let decision = world.decision.clone().expect("a person is asked");
    let actions: Vec<&str> = decision.offers.iter().map(|(action, _)| action.as_str()).collect();
    assert_eq!(actions, ["resume", "without", "cancel"]);
    let rejected = world.refused("human:kim", "on go_without", json!({}));
    assert_eq!(complaints(&rejected)[0], "children_given_up: No subtask has failed");
    world.goes("human:kim", "on unblock", json!({}), "decomposing");
}

#[test]
fn the_tenth_iteration_is_the_last() {
    let mut world = decomposing();
    for depth in 1..=9 {
        world.ends(Outcome::Succeeded, "", subtasks(false), "decomposing");
        assert_eq!(world.count("depth"), depth);
        world.is_claimed_by("worker:polecat", "decomposing");
    }
    world.ends(Outcome::Succeeded, "", subtasks(false), "failed");
    assert_eq!(world.field("diagnostic"), "irreducible after 10 iterations");
    assert_eq!(world.count("depth"), 9);
}

#[test]
fn from_the_third_retry_on_a_person_confirms() {
    let mut world = failed();
    for retry in 1..=4 {
        if retry >= 3 {
            let rejected = world.refused("human:kim", "on retry", json!({}));
            assert_eq!(
                complaints(&rejected),
                ["confirmation: Confirm one more retry and explain why it will go better"],
                "retry {retry}"
            );
        }
        let given =
            if retry >= 3 { json!({ "confirmation": "the key is back" }) } else { json!({}) };
        world.goes("human:kim", "on retry", given, "pending");
        assert_eq!(world.count("retry_count"), retry);
        assert_eq!(world.field("worker_id"), &Value::Null);
        assert_ne!(world.field("diagnostic"), &Value::Null, "what went wrong is kept");
        world.is_claimed_by("worker:polecat", "active");
        assert_eq!(world.field("confirmation"), &Value::Null, "one confirmation is for one retry");
        world.times_out("30s", "failed");
    }
}

#[test]
fn what_was_blocked_goes_back_to_where_it_was() {
    let by_run = |mut world: World| {
        world.is_claimed_by("worker:polecat", "in_progress");
        world.ends(Outcome::NeedsPerson, "needs a key", json!({}), "blocked");
        assert_eq!(world.field("unblock_condition"), "needs a key");
        world
    };
    let table = [
        (blocked_from(decomposing(), "dependency_found"), "decomposing"),
        (blocked_from(in_progress(), "dependency_discovered"), "in_progress"),
        (blocked_from(in_review(), "dependency_discovered"), "review"),
        (by_run(in_progress()), "in_progress"),
    ];
    for (mut world, prior) in table {
        world.after("3d");
        let rejected = world.refused("human:kim", "to pending", json!({}));
        assert_eq!(complaints(&rejected), ["to: no transition from blocked to pending"]);
        assert_eq!(rejected.allowed, [prior, "cancelled"]);
        world.goes("human:kim", "on unblock", json!({}), prior);
        assert_eq!((world.task.prior, world.field("unblock_condition")), (None, &Value::Null));
        assert_eq!(world.task.entered_at, world.now, "its time begins anew");
    }
    let mut world = blocked_from(in_review(), "dependency_discovered");
    world.goes("human:kim", "to [prior]", json!({}), "review");
}

#[test]
fn a_closed_pull_request_ends_the_task() {
    let mut world = in_review();
    let step = world.goes("system", "on pr_closed", json!({}), "cancelled");
    assert_eq!(step.ending, Some(Ending::Otherwise));
    assert_eq!(world.field("reason"), "the pull request was closed without a merge");
}

#[test]
fn a_person_decides_on_the_plan() {
    let rejected = waiting().refused("human:kim", "on request_changes", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Say what has to change"]);
    let rejected = waiting().refused("human:kim", "on cancel", json!({}));
    assert_eq!(complaints(&rejected), ["reason: Say why it is cancelled"]);
    waiting().goes(
        "human:kim",
        "on request_changes",
        json!({ "feedback": "spike first" }),
        "decomposing",
    );
    waiting().goes("human:kim", "on cancel", json!({ "reason": "out of scope" }), "cancelled");
    for (trigger, state) in [("send_back", "pending"), ("backburner", "dormant")] {
        let mut world = waiting();
        world.goes("human:kim", &format!("on {trigger}"), json!({}), state);
        assert!(world.decision.is_none(), "{trigger} settles the question");
    }
    let mut world = waiting();
    world.goes("human:kim", "on send_back", json!({}), "pending");
    assert_eq!((world.field("assignee"), world.field("worker_id")), (&Value::Null, &Value::Null));
    let mut world = waiting();
    world.goes("human:kim", "on backburner", json!({}), "dormant");
    assert!(world.after("365d").is_empty(), "the back burner has no clock");
    world.goes("human:kim", "on reactivate", json!({}), "pending");
}

#[test]
fn reminders_are_for_escalated_decisions() {
    let ages = |world: &mut World, time: &str| -> Vec<i64> {
        let effects = world.after(time).into_iter().flat_map(|step| step.effects);
        effects
            .filter_map(|effect| {
                if let Effect::Remind { age_days } = effect { Some(age_days) } else { None }
            })
            .collect()
    };
    assert_eq!(ages(&mut waiting(), "7d"), [0; 0]);

    let mut escalated = in_consensus();
    escalated.times_out("30min", "waiting");
    assert_eq!(
        escalated.armed.iter().filter(|armed| matches!(armed.kind, TimerKind::Remind(_))).count(),
        3
    );
    assert_eq!(ages(&mut escalated, "6d"), [3, 5]);
    assert_eq!(ages(&mut escalated, "1d"), [7]);
    assert_eq!(escalated.state(), "failed", "and then it is over");
}

#[test]
fn panels_send_back_escalate_and_give_up() {
    let table = [
        (Outcome::Blocked, "decomposing"),
        (Outcome::Escalated, "waiting"),
        (Outcome::Unresolved, "waiting"),
        (Outcome::Unavailable, "consensus(unserved)"),
    ];
    for (outcome, state) in table {
        let mut world = in_consensus();
        world.ends(outcome, "too wide", json!({}), state);
        assert_eq!(world.field("feedback") == "too wide", state == "decomposing", "{outcome}");
        let escalated = world.field("approval_type") == "escalated";
        assert_eq!(escalated, state == "waiting", "{outcome}");
    }
    let rejected = in_consensus().refused("reviewer:critic", "on block", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Say what has to change"]);

    // Nobody to review the plan: it is kept, and asked about again up to a limit.
    let mut world = in_consensus();
    for _ in 1..3 {
        world.ends(Outcome::Unavailable, "no workers", json!({}), "consensus(unserved)");
        world.times_out("2min", "consensus");
    }
    world.ends(Outcome::Unavailable, "no workers", json!({}), "failed");
    assert_eq!(world.field("diagnostic"), "no reviewers");

    // The same for a pull request, about which a person decides in the end.
    let mut world = in_review();
    for _ in 1..3 {
        world.ends(Outcome::Unavailable, "no workers", json!({}), "review(unserved)");
        world.times_out("2min", "review");
    }
    world.ends(Outcome::Unavailable, "no workers", json!({}), "merge_ready");
    assert_eq!(world.field("problem"), "nobody reviewed it: no workers");

    // A dispute is for the person who decides on the merge.
    for outcome in [Outcome::Escalated, Outcome::Unresolved] {
        let mut world = in_review();
        world.ends(outcome, "critic is concerned", json!({}), "merge_ready");
        assert_eq!(world.field("problem"), "A person settles the review: critic is concerned");
        let words = json!({ "objection": "use tabs" });
        world.goes("human:kim", "on last_minute_concern", words, "review");
        world.ends(Outcome::Blocked, "use tabs", json!({}), "in_progress");
        assert_eq!(world.field("demands"), "use tabs", "the next reviewers read it");
    }

    // An endless disagreement goes to a person.
    let mut world = in_review();
    for round in 1..=5 {
        let state = if round == 5 { "merge_ready" } else { "in_progress" };
        world.goes(
            "reviewer:critic",
            "on changes_requested",
            json!({ "pr_comments": "no" }),
            state,
        );
        if round < 5 {
            world.is_claimed_by("worker:polecat", "in_progress");
            world.ends(Outcome::Succeeded, "", json!({}), "review");
        }
    }
    assert_eq!(world.field("problem"), "a person settles the review");
    let words = json!({ "objection": "use tabs" });
    world.goes("human:kim", "on last_minute_concern", words, "review");
    assert_eq!(world.count("review_rounds"), 0);
}

#[test]
fn a_run_ends_as_the_table_of_outcomes_says() {
    let table = [
        (Outcome::Crashed, "in_progress"),
        (Outcome::Transient, "in_progress"),
        (Outcome::VerifyFailed, "in_progress"),
        (Outcome::Quota, "in_progress"),
        (Outcome::Auth, "blocked"),
        (Outcome::NeedsPerson, "blocked"),
        (Outcome::OverBudget, "blocked"),
        (Outcome::Exhausted, "failed"),
        (Outcome::Succeeded, "failed"),
    ];
    for (outcome, state) in table {
        let mut world = in_progress();
        world.is_claimed_by("worker:polecat", "in_progress");
        let again_at = Some(world.at("5min"));
        let finish = Finish { detail: "exit code 1".to_owned(), again_at, ..world.ending(outcome) };
        world.finish(finish).expect("it holds the task");
        assert_eq!(world.state(), state, "{outcome}");
        if state == "in_progress" {
            assert!(world.claim("worker:polecat").is_err(), "{outcome}: not before its time");
            world.after("5min");
            world.is_claimed_by("worker:polecat", "in_progress");
        }
    }
    let mut world = in_progress();
    world.is_claimed_by("worker:polecat", "in_progress");
    world.ends(Outcome::Exhausted, "exit code 1", json!({}), "failed");
    assert_eq!(world.field("diagnostic"), "exit code 1");
}

#[test]
fn a_follow_up_has_a_depth() {
    let lifecycle = task_of("autonomous", json!({ "followup_depth": 2 })).lifecycle;
    let new = banksman_core::machine::NewTask {
        title: "and another thing".to_owned(),
        fields: crate::walk::fields(json!({ "followup_depth": 3 })),
        ..Default::default()
    };
    let rejected = World::new(lifecycle, &new).expect_err("two are enough");
    assert_eq!(
        complaints(&rejected),
        ["followup_depth: Follow-ups are nested too deeply (`max_followup_depth`)"]
    );
}

fn subtask() -> World {
    task_of("leaf", json!({ "subtask": "s1", "plan_version": 1 }))
}

#[test]
fn a_merge_that_nobody_answered_is_asked_about_again_and_nothing_is_done_twice() {
    let subtask = || {
        let mut world = subtask();
        world.is_claimed_by("worker:polecat", "in_progress");
        let filed = json!({ "pr_url": "https://forge/pr/456" });
        world.ends(Outcome::Succeeded, "", filed, "review");
        world
    };
    for (mut world, who, trigger) in [
        (in_review(), "human:kim", "on retry"),
        (subtask(), "human:kim", "on retry"),
        (subtask(), "system", "on reset"),
    ] {
        let verdicts = json!({ "verdicts": [{ "verdict": "APPROVE" }] });
        world.ends(Outcome::Approved, "", verdicts, "merge_ready");
        world.times_out("7d", "failed");
        assert_eq!(world.field("retry_from"), "merge");
        world.goes(who, trigger, json!({}), "merge_ready");
        assert_eq!(world.field("retry_from"), &Value::Null);
    }
}

/// A later dependency must not be taken for a missing worker.
#[test]
fn a_retry_forgets_that_a_worker_was_missing() {
    for (mut world, who, trigger) in [
        (task_of("autonomous", json!({})), "human:kim", "on retry"),
        (subtask(), "human:kim", "on retry"),
        (subtask(), "system", "on reset"),
    ] {
        for state in ["pending", "pending", "blocked"] {
            world.goes("system", "on no_worker", json!({}), state);
        }
        assert_eq!(world.field("blocked_on"), "worker");
        world.times_out("14d", "failed");
        world.goes(who, trigger, json!({}), "pending");
        assert_eq!(world.field("blocked_on"), &Value::Null);
    }
}
