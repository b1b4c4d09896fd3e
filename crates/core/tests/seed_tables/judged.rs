//! The run and judge flow (seed 003), with the reasons of `blocked` as states of that group.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Failed, Queued, Reviewing, Waiting, Working,
};
use banksman_core::lifecycle::check::Overrides;
use serde_json::{Value, json};

use super::play::Play;
use super::{Table, compare, lifecycle};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "judged",
    initial: "queued",
    roles: &["worker", "tester", "docser", "judge", "planner"],
    states: &[
        ("queued", Queued),
        ("running", Working),
        ("blocked(awaiting_judge)", Reviewing),
        ("blocked(quota_wait)", Blocked),
        ("blocked(needs_rework)", Blocked),
        ("blocked(issue_linking)", Blocked),
        // The seed's `needs_human`: what only a person can permit.
        ("blocked(needs_person)", Waiting),
        ("done", Done),
        ("failed", Failed),
        ("cancelled", Cancelled),
    ],
    terminal: &["done", "cancelled"],
    moves: &[
        ("queued", "running", "claim", &["worker", "tester", "docser"], ""),
        ("queued", "blocked(issue_linking)", "link_issue", &["planner", "system"], ""),
        ("queued", "blocked(needs_person)", "escalate", &["human", "system"], "compute question"),
        ("queued", "cancelled", "cancel", &["human"], ""),
        ("running", "done", "succeed", &["system"], "if review_needed"),
        ("running", "blocked(awaiting_judge)", "succeed", &["worker", "tester", "docser", "system"], ""),
        ("running", "blocked(awaiting_judge)", "ask_judge", &["worker", "tester", "docser"], ""),
        ("running", "blocked(quota_wait)", "quota_hit", &["worker", "tester", "docser", "system"], ""),
        ("running", "blocked(needs_rework)", "rework", &["system"], "compute feedback"),
        ("running", "failed", "fail", &["worker", "tester", "docser", "system"], "compute diagnostic"),
        ("running", "queued", "orphaned", &["system"], ""),
        ("running", "blocked(needs_person)", "escalate", &["worker", "tester", "docser", "human", "system"], "compute question"),
        ("running", "cancelled", "cancel", &["human"], ""),
        ("blocked(awaiting_judge)", "done", "approve", &["judge", "human", "system"], ""),
        ("blocked(awaiting_judge)", "blocked(needs_rework)", "request_changes", &["judge", "human", "system"], "compute feedback"),
        ("blocked(awaiting_judge)", "blocked(needs_rework)", "merge_conflict", &["judge", "system"], "set feedback=the approved change no longer merges"),
        ("blocked(awaiting_judge)", "queued", "judge_timeout", &["system"], "count judge_attempts"),
        ("blocked(awaiting_judge)", "queued", "retry", &["human"], "renew retries, quota_waits, judge_attempts, reworks"),
        ("blocked(awaiting_judge)", "blocked(needs_person)", "escalate", &["judge", "human"], ""),
        ("blocked(awaiting_judge)", "cancelled", "cancel", &["human"], ""),
        ("blocked(quota_wait)", "queued", "quota_back", &["system"], "count quota_waits"),
        ("blocked(quota_wait)", "queued", "retry", &["human"], "renew retries, quota_waits, judge_attempts, reworks"),
        ("blocked(quota_wait)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(quota_wait)", "cancelled", "cancel", &["human"], ""),
        ("blocked(needs_rework)", "blocked(awaiting_judge)", "settle", &["system"], "if pr_review; count reworks"),
        ("blocked(needs_rework)", "cancelled", "settle", &["system"], "if rework_depth; set reason=the rework of a rework is not reworked again"),
        ("blocked(needs_rework)", "failed", "split", &["planner", "system"], "if rework_task; compute diagnostic"),
        ("blocked(needs_rework)", "queued", "retry", &["human"], "renew retries, quota_waits, judge_attempts, reworks"),
        ("blocked(needs_rework)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(needs_rework)", "cancelled", "cancel", &["human"], ""),
        ("blocked(issue_linking)", "queued", "linked", &["planner", "system"], ""),
        ("blocked(issue_linking)", "queued", "retry", &["human"], "renew retries, quota_waits, judge_attempts, reworks"),
        ("blocked(issue_linking)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(issue_linking)", "cancelled", "cancel", &["human"], ""),
        ("blocked(needs_person)", "queued", "unblock", &["human"], "clear question; renew retries, quota_waits, judge_attempts, reworks"),
        ("blocked(needs_person)", "cancelled", "cancel", &["human"], ""),
        ("failed", "queued", "retry", &["human"], "renew retries, quota_waits, judge_attempts, reworks"),
        ("failed", "blocked(needs_person)", "escalate", &["human"], ""),
        ("failed", "cancelled", "cancel", &["human"], ""),
    ],
    timed: &[
        ("running", "failed", "stuck", "15min", Progress, "set diagnostic=the run is stuck"),
        ("running", "failed", "lease_expired", "60min", Entry, "set diagnostic=the lease has expired"),
        ("blocked(awaiting_judge)", "queued", "judge_timeout", "15min", Progress, "count judge_attempts"),
        ("blocked(quota_wait)", "queued", "quota_timeout", "30min", Entry, "count quota_waits"),
        ("blocked(needs_rework)", "queued", "rework_in_place", "2min", Entry, "count reworks"),
        ("blocked(issue_linking)", "queued", "link_timeout", "2min", Entry, ""),
        ("blocked(needs_person)", "cancelled", "unanswered", "14d", Entry, "set reason=nobody has answered"),
        ("failed", "queued", "retry_due", "30s", Entry, "count retries"),
    ],
    requires: &[
        ("blocked(needs_rework)", &["feedback"]),
        ("blocked(needs_person)", &["question"]),
        ("failed", &["diagnostic"]),
        ("cancelled", &["reason"]),
    ],
    does: &[
        (
            "running",
            "agent",
            &[
                ("succeeded", "succeed"),
                ("quota", "quota_hit"),
                ("nothing_to_do", "rework"),
                ("policy", "rework"),
                ("over_budget", "escalate"),
                ("needs_person", "escalate"),
                ("otherwise", "fail"),
            ],
        ),
        (
            "blocked(awaiting_judge)",
            "panel",
            &[
                ("approved", "approve"),
                ("blocked", "request_changes"),
                ("escalated", "request_changes"),
                ("unresolved", "request_changes"),
                ("unavailable", "judge_timeout"),
            ],
        ),
        ("blocked(quota_wait)", "wait", &[("met", "quota_back")]),
        ("blocked(needs_rework)", "wait", &[("met", "settle")]),
        ("blocked(issue_linking)", "wait", &[("met", "linked")]),
        ("blocked(needs_person)", "human", &[("resume", "unblock"), ("cancel", "cancel")]),
    ],
    effects: &[
        ("blocked(needs_rework)", "alert"),
        ("blocked(needs_person)", "notify"),
        ("done", "clean_up"),
        ("cancelled", "clean_up"),
    ],
    counters: &[
        ("retries", Some(3), Some("blocked(needs_rework)")),
        ("quota_waits", Some(48), Some("failed")),
        ("judge_attempts", Some(3), Some("failed")),
        ("reworks", Some(5), Some("cancelled")),
    ],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

#[test]
fn the_reasons_of_blocked_are_one_group() {
    let lifecycle = lifecycle("judged");
    let members = lifecycle.states.iter().filter(|state| state.group.as_deref() == Some("blocked"));
    let names: Vec<&str> = members.map(|state| state.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "blocked(awaiting_judge)",
            "blocked(quota_wait)",
            "blocked(needs_rework)",
            "blocked(issue_linking)",
            "blocked(needs_person)"
        ]
    );
    assert_eq!(lifecycle.find_state("quota_wait"), lifecycle.find_state("blocked(quota_wait)"));
}

fn ended(fields: Value, outcome: Outcome) -> Play {
    let mut play =
        Play::born("judged", &Overrides::new(), fields).expect("it needs no other field");
    run(&mut play, outcome);
    play
}

fn run(play: &mut Play, outcome: Outcome) {
    play.claim("worker:wim").expect("it is queued");
    play.end_run(outcome, "the tests are red", Value::Null);
}

#[test]
fn outcomes_lead_where_the_seed_says() {
    for (outcome, state) in [
        (Outcome::Succeeded, "blocked(awaiting_judge)"),
        (Outcome::Quota, "blocked(quota_wait)"),
        (Outcome::VerifyFailed, "failed"),
        (Outcome::Crashed, "failed"),
        (Outcome::Policy, "blocked(needs_rework)"),
        (Outcome::NothingToDo, "blocked(needs_rework)"),
        // `needs_human` recovers: a person is asked, and the task is queued again.
        (Outcome::NeedsPerson, "blocked(needs_person)"),
        (Outcome::OverBudget, "blocked(needs_person)"),
    ] {
        assert_eq!(ended(json!({}), outcome).state(), state, "{outcome}");
    }
    assert_eq!(ended(json!({ "review_needed": false }), Outcome::Succeeded).state(), "done");
    assert_eq!(
        ended(json!({ "review_needed": true }), Outcome::Succeeded).state(),
        "blocked(awaiting_judge)"
    );
}

#[test]
fn a_failure_is_queued_again_until_it_needs_rework() {
    let mut play = ended(json!({}), Outcome::VerifyFailed);
    for state in ["queued", "queued", "queued", "blocked(needs_rework)"] {
        assert_eq!(play.field("diagnostic"), json!("the tests are red"));
        assert_eq!(play.wait("29s"), "failed");
        assert_eq!(play.wait("1s"), state);
        if state == "queued" {
            run(&mut play, Outcome::VerifyFailed);
        }
    }
    assert_eq!(play.wait("2min"), "queued");
    assert_eq!(play.trigger(), "rework_in_place");
}

#[test]
fn the_fifth_rework_in_place_is_the_end() {
    let mut play = ended(json!({}), Outcome::Policy);
    for rework in 1..5 {
        assert_eq!(play.wait("2min"), "queued", "{rework}");
        run(&mut play, Outcome::Policy);
    }
    assert_eq!(play.wait("2min"), "cancelled");
    assert_eq!(play.field("reason"), json!("it was reworked too often"));
}

#[test]
fn the_rework_of_a_rework_is_cancelled_and_a_pull_request_goes_back_to_the_judge() {
    let mut play = ended(json!({ "rework_depth": 2 }), Outcome::Policy);
    assert_eq!(play.pull("system", "settle", Value::Null).expect("it is deep enough"), "cancelled");
    let mut play = ended(json!({ "rework_depth": 1 }), Outcome::Policy);
    assert!(play.pull("system", "settle", Value::Null).is_err());
    let mut play = ended(json!({ "pr_review": true }), Outcome::Policy);
    assert_eq!(
        play.pull("system", "settle", Value::Null).expect("it is a review"),
        "blocked(awaiting_judge)"
    );
}

#[test]
fn a_judge_who_is_silent_three_times_fails_the_task() {
    let mut play = ended(json!({}), Outcome::Succeeded);
    for state in ["queued", "queued", "failed"] {
        assert_eq!(play.wait("15min"), state);
        if state == "queued" {
            run(&mut play, Outcome::Succeeded);
        }
    }
}

#[test]
fn a_quota_wait_ends_by_itself() {
    let mut play = ended(json!({}), Outcome::Quota);
    assert_eq!(play.wait("29min"), "blocked(quota_wait)");
    assert_eq!(play.wait("1min"), "queued");
}
