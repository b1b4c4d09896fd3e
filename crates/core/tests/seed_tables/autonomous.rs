//! The transition table of the non-interactive agent workflow (seed 000).

use std::collections::BTreeSet;

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Failed, Parked, Queued, Reviewing, Waiting, Working,
};
use banksman_core::lifecycle::check::Overrides;
use serde_json::{Value, json};

use super::play::{Play, errors};
use super::{Table, compare, lifecycle};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "autonomous",
    initial: "pending",
    roles: &["worker", "reviewer"],
    states: &[
        ("pending", Queued),
        ("active", Working),
        ("decomposing", Working),
        ("consensus", Reviewing),
        ("waiting", Waiting),
        ("in_progress", Working),
        ("review", Reviewing),
        ("merge_ready", Waiting),
        ("merge_ready(approved)", Reviewing),
        ("merge_ready(merging)", Reviewing),
        ("merge_ready(taking_back)", Reviewing),
        ("done", Done),
        ("blocked", Blocked),
        ("dormant", Parked),
        ("failed", Failed),
        ("cancelled", Cancelled),
    ],
    terminal: &["done", "cancelled"],
    moves: &[
        ("pending", "active", "claim", &["worker"], "compute assignee, worker_id; clear confirmation"),
        // "No Worker Available": three attempts, then blocked until one is available.
        ("pending", "pending", "no_worker", &["system"], "count unserved"),
        ("pending", "pending", "over_budget", &["system"], "compute unblock_condition; count over_budget"),
        ("pending", "cancelled", "cancel", &["human"], ""),
        // A person asks another one.
        ("active", "blocked", "escalate", &["human"], "set asked=true"),
        ("decomposing", "blocked", "escalate", &["human"], "set asked=true"),
        ("in_progress", "blocked", "escalate", &["human"], "set asked=true"),
        ("review", "blocked", "escalate", &["human"], "set asked=true"),
        ("active", "decomposing", "begin_breakdown", &["worker", "system"], ""),
        ("active", "blocked", "dependency_discovered", &["worker", "human", "system"], ""),
        ("decomposing", "decomposing", "iteration_complete", &["system"], "if depth; count depth"),
        ("decomposing", "decomposing", "iteration_complete", &["worker"], "count depth"),
        ("decomposing", "consensus", "proposal_ready", &["worker"], "if subtasks; clear feedback, plan, split; keep subtasks"),
        // The agent's run has one outcome; the guard decides whether it was an iteration or the proposal.
        ("decomposing", "consensus", "iteration_complete", &["system"], "if subtasks; clear feedback; keep subtasks, plan"),
        // The planner itself says that the task cannot be broken down.
        ("decomposing", "failed", "iteration_complete", &["system"], "if irreducible; compute diagnostic"),
        ("decomposing", "blocked", "dependency_found", &["worker", "human"], "compute unblock_condition"),
        ("decomposing", "blocked", "dependency_found", &["system"], "set asked=true; compute unblock_condition"),
        ("decomposing", "failed", "iteration_complete", &["system"], "compute diagnostic"),
        ("decomposing", "failed", "exception", &["worker", "system"], "compute diagnostic"),
        ("decomposing", "cancelled", "cancel", &["human"], ""),
        ("consensus", "waiting", "all_approve", &["system"], "set approval_type=standard; compute decision_deadline"),
        ("consensus", "waiting", "escalate", &["reviewer", "human", "system"], "set approval_type=escalated; compute decision_deadline"),
        ("consensus", "waiting", "unresolved", &["system"], "set approval_type=escalated; compute decision_deadline"),
        ("consensus", "decomposing", "block", &["reviewer", "system"], "if feedback; compute feedback; count blocks"),
        ("consensus", "failed", "no_reviewers", &["system"], "set diagnostic=no reviewers"),
        ("consensus", "cancelled", "cancel", &["human"], ""),
        ("waiting", "in_progress", "approve", &["human"], ""),
        ("waiting", "decomposing", "request_changes", &["human"], "if feedback; renew depth, blocks"),
        ("waiting", "pending", "send_back", &["human"], "clear assignee, worker_id; renew depth, blocks"),
        ("waiting", "dormant", "backburner", &["human"], ""),
        ("waiting", "cancelled", "cancel", &["human"], ""),
        ("in_progress", "review", "pr_filed", &["worker", "system"], "if pr_url; clear pr_comments, pr_head, problem; keep pr_url"),
        ("in_progress", "failed", "pr_filed", &["system"], "if pr_url; set diagnostic=the worker ended without a pull request"),
        ("in_progress", "blocked", "dependency_discovered", &["worker", "human"], "compute unblock_condition"),
        ("in_progress", "blocked", "dependency_discovered", &["system"], "set asked=true; compute unblock_condition"),
        ("in_progress", "failed", "worker_crash", &["worker", "system"], "compute diagnostic"),
        ("in_progress", "cancelled", "cancel", &["human"], ""),
        // "Approve: subtasks created": if they do the work, the task follows the one that is furthest behind.
        ("in_progress", "blocked", "parts_moved", &["system"], "if parts_given_up; set parts_asked=true; compute unblock_condition"),
        ("in_progress", "review", "parts_moved", &["system"], "if parts_open, pr_url; keep pr_url"),
        ("review", "blocked", "parts_moved", &["system"], "if parts_given_up; set parts_asked=true; compute unblock_condition"),
        ("review", "in_progress", "parts_moved", &["system"], "if parts_open"),
        ("review", "merge_ready", "parts_moved", &["system"], "if parts_in_review"),
        ("merge_ready", "review", "parts_moved", &["system"], "if parts_in_review"),
        ("merge_ready", "done", "parts_moved", &["system"], "if parts_waiting; set merged=true"),
        ("review", "merge_ready", "review_consensus", &["reviewer", "human", "system"], "if verdicts; clear problem, objection"),
        ("review", "in_progress", "changes_requested", &["reviewer", "human", "system"], "if pr_comments; compute pr_comments; clear objection; count review_rounds"),
        ("review", "blocked", "dependency_discovered", &["worker", "reviewer", "human", "system"], ""),
        ("review", "blocked", "escalate", &["reviewer", "system"], "set asked=true, unblock_condition=a person settles the review"),
        ("review", "blocked", "no_reviewers", &["system"], "set unblock_condition=reviewers are available"),
        ("review", "cancelled", "pr_closed", &["human", "system"], "set reason=the pull request was closed without a merge"),
        ("merge_ready", "done", "approve_merge", &["human", "system"], "if merged, split"),
        // "Merged": if a branch replaces the pull request, the answer merges it, and the person is asked again if that fails.
        ("merge_ready", "merge_ready(approved)", "approve_merge", &["human"], "if merged, split; clear problem"),
        ("merge_ready(approved)", "merge_ready(merging)", "merge_begun", &["system"], ""),
        ("merge_ready(approved)", "done", "branch_merged", &["system"], "set merged=true"),
        ("merge_ready(approved)", "merge_ready", "merge_failed", &["system"], "compute problem"),
        ("merge_ready(merging)", "done", "branch_merged", &["system"], "set merged=true"),
        ("merge_ready(merging)", "merge_ready", "merge_failed", &["system"], "compute problem"),
        // Before the merge has started it is revoked at once; after that the merge is stopped first, and may have finished.
        ("merge_ready(approved)", "merge_ready", "take_back", &["human"], ""),
        ("merge_ready(approved)", "cancelled", "decline", &["human"], ""),
        ("merge_ready(merging)", "merge_ready(taking_back)", "take_back", &["human"], ""),
        ("merge_ready(taking_back)", "done", "branch_merged", &["system"], "set merged=true"),
        ("merge_ready(taking_back)", "merge_ready", "taken_back", &["system"], ""),
        ("merge_ready(taking_back)", "merge_ready", "merge_failed", &["system"], "compute problem"),
        ("merge_ready", "review", "last_minute_concern", &["reviewer", "human"], "if objection; keep objection"),
        ("merge_ready", "cancelled", "decline", &["human"], ""),
        ("merge_ready", "cancelled", "pr_closed", &["system"], "set reason=the pull request was closed without a merge"),
        ("blocked", "[prior]", "unblock", &["human"], "clear unblock_condition, parts_asked, checkpoint, asked; renew review_rounds, over_budget"),
        ("blocked", "[prior]", "unblock", &["system"], "clear unblock_condition, parts_asked, checkpoint, asked"),
        ("blocked", "[prior]", "go_without", &["human"], "if parts_given_up, left_out; compute left_out; clear unblock_condition, parts_asked, checkpoint, asked"),
        ("blocked", "[prior]", "parts_moved", &["system"], "if parts_given_up; clear unblock_condition, parts_asked, checkpoint, asked"),
        ("blocked", "[prior]", "worker_available", &["system"], "if unblock_condition; clear unblock_condition"),
        ("blocked", "cancelled", "cancel", &["human"], ""),
        ("dormant", "pending", "reactivate", &["human"], "clear assignee, worker_id; renew depth, blocks"),
        ("dormant", "cancelled", "cancel", &["human"], ""),
        ("failed", "merge_ready", "retry", &["human"], "if diagnostic; clear diagnostic"),
        ("failed", "pending", "retry", &["human"], "if confirmation; clear assignee, worker_id, pr_url, pr_head, merged, problem, objection, irreducible, left_out, parts_asked, checkpoint, asked; count retry_count; renew depth, blocks, review_rounds"),
        ("failed", "cancelled", "cancel", &["human"], ""),
    ],
    timed: &[
        ("active", "failed", "claim_timeout", "30s", Entry, "set diagnostic=claim timeout"),
        ("decomposing", "failed", "iteration_timeout", "10min", Progress, "set diagnostic=decomposition timeout"),
        ("decomposing", "blocked", "decomposition_timeout", "2h", Entry, "set checkpoint=true, unblock_condition=a person looks at the breakdown so far"),
        ("consensus", "waiting", "consensus_timeout", "30min", Entry, "set approval_type=escalated; compute decision_deadline"),
        ("waiting", "failed", "approval_timeout", "7d", Entry, "set diagnostic=approval timeout"),
        ("in_progress", "failed", "stall_timeout", "24h", Progress, "set diagnostic=stalled"),
        ("review", "failed", "review_timeout", "7d", Progress, "set diagnostic=review timeout"),
        ("merge_ready(approved)", "merge_ready", "merge_timeout", "1d", Entry, "set problem=no machine has begun the merge"),
        ("merge_ready(merging)", "merge_ready(taking_back)", "merge_timeout", "1d", Entry, "set problem=the merge does not come to an end"),
        ("merge_ready", "failed", "merge_unanswered", "7d", Entry, "set diagnostic=merge approval timeout"),
        ("merge_ready(taking_back)", "merge_ready", "merge_timeout", "1d", Entry, "set problem=nobody could see whether it was merged"),
        ("blocked", "failed", "blocked_timeout", "14d", Entry, "set diagnostic=blocked timeout"),
    ],
    requires: &[
        ("pending", &["followup_depth"]),
        ("waiting", &["approval_type", "decision_deadline"]),
        ("in_progress", &["worker_id"]),
        ("review", &["pr_url"]),
        ("merge_ready", &["pr_url"]),
        ("merge_ready(approved)", &["pr_url"]),
        ("merge_ready(merging)", &["pr_url"]),
        ("merge_ready(taking_back)", &["pr_url"]),
        ("blocked", &["unblock_condition"]),
        ("failed", &["diagnostic"]),
        ("cancelled", &["reason"]),
    ],
    does: &[
        ("active", "wait", &[("met", "begin_breakdown")]),
        (
            "decomposing",
            "agent",
            &[
                ("succeeded", "iteration_complete"),
                ("nothing_to_do", "iteration_complete"),
                ("verify_failed", "again"),
                ("policy", "again"),
                ("quota", "again"),
                ("transient", "again"),
                ("stalled", "exception"),
                ("crashed", "again"),
                ("auth", "dependency_found"),
                ("needs_person", "dependency_found"),
                ("over_budget", "dependency_found"),
                ("otherwise", "exception"),
            ],
        ),
        (
            "consensus",
            "panel",
            &[
                ("approved", "all_approve"),
                ("blocked", "block"),
                ("escalated", "escalate"),
                ("unresolved", "unresolved"),
                ("unavailable", "no_reviewers"),
            ],
        ),
        (
            "waiting",
            "human",
            &[
                ("approve", "approve"),
                ("changes", "request_changes"),
                ("back", "send_back"),
                ("backburner", "backburner"),
                ("cancel", "cancel"),
            ],
        ),
        (
            "in_progress",
            "agent",
            &[
                ("succeeded", "pr_filed"),
                ("verify_failed", "again"),
                ("policy", "again"),
                ("quota", "again"),
                ("transient", "again"),
                ("stalled", "again"),
                ("crashed", "again"),
                ("auth", "dependency_discovered"),
                ("needs_person", "dependency_discovered"),
                ("over_budget", "dependency_discovered"),
                ("otherwise", "worker_crash"),
            ],
        ),
        (
            "review",
            "panel",
            &[
                ("approved", "review_consensus"),
                ("blocked", "changes_requested"),
                ("escalated", "escalate"),
                ("unresolved", "escalate"),
                ("unavailable", "no_reviewers"),
            ],
        ),
        (
            "merge_ready",
            "human",
            &[
                ("merge", "approve_merge"),
                ("changes", "last_minute_concern"),
                ("cancel", "decline"),
            ],
        ),
        (
            "merge_ready(approved)",
            "merge",
            &[("merged", "branch_merged"), ("not_merged", "merge_begun"), ("otherwise", "merge_failed")],
        ),
        ("merge_ready(merging)", "merge", &[("merged", "branch_merged"), ("otherwise", "merge_failed")]),
        (
            "merge_ready(taking_back)",
            "merge",
            &[("merged", "branch_merged"), ("not_merged", "taken_back"), ("otherwise", "merge_failed")],
        ),
        ("blocked", "human", &[("resume", "unblock"), ("without", "go_without"), ("cancel", "cancel")]),
    ],
    effects: &[
        ("waiting", "notify"),
        ("in_progress", "lead_children"),
        ("review", "lead_children"),
        ("merge_ready", "notify"),
        ("done", "notify, clean_up"),
        ("blocked", "notify"),
        ("failed", "alert, lead_children, clean_up"),
        ("cancelled", "lead_children, clean_up"),
    ],
    counters: &[
        ("retry_count", None, None),
        ("depth", Some(10), None),
        ("blocks", Some(5), Some("waiting")),
        ("unserved", Some(3), Some("blocked")),
        ("over_budget", Some(1), Some("blocked")),
        ("review_rounds", Some(5), Some("blocked")),
    ],
};

/// The seed demands that nothing waits for ever, and its table only says what silence about a plan
/// leads to. Silence about a merge leads to the same, and a person who resumes the task is asked
/// again: approved work is not done twice.
const PAIRS_OF_SILENCE: [(&str, &str); 2] = [("merge_ready", "failed"), ("failed", "merge_ready")];

/// The pairs of the seed's own table, copied row by row: no other lifecycle row may add a pair.
const SEED_PAIRS: [(&str, &str); 42] = [
    ("pending", "active"),
    ("pending", "cancelled"),
    ("active", "decomposing"),
    ("active", "blocked"),
    ("active", "failed"),
    ("decomposing", "decomposing"),
    ("decomposing", "consensus"),
    ("decomposing", "blocked"),
    ("decomposing", "failed"),
    ("decomposing", "failed"),
    ("decomposing", "cancelled"),
    ("consensus", "waiting"),
    ("consensus", "decomposing"),
    ("consensus", "waiting"),
    ("consensus", "failed"),
    ("consensus", "cancelled"),
    ("waiting", "in_progress"),
    ("waiting", "decomposing"),
    ("waiting", "pending"),
    ("waiting", "dormant"),
    ("waiting", "cancelled"),
    ("waiting", "failed"),
    ("in_progress", "review"),
    ("in_progress", "blocked"),
    ("in_progress", "failed"),
    ("in_progress", "failed"),
    ("in_progress", "cancelled"),
    ("review", "merge_ready"),
    ("review", "in_progress"),
    ("review", "blocked"),
    ("review", "failed"),
    ("review", "cancelled"),
    ("merge_ready", "done"),
    ("merge_ready", "review"),
    ("merge_ready", "cancelled"),
    ("blocked", "[prior]"),
    ("blocked", "failed"),
    ("blocked", "cancelled"),
    ("dormant", "pending"),
    ("dormant", "cancelled"),
    ("failed", "pending"),
    ("failed", "cancelled"),
];

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

#[test]
fn the_pairs_are_those_of_the_seed_and_no_others() {
    let lifecycle = lifecycle("autonomous");
    // That no worker can take a task is prose of phase 4 there and moves it nowhere; its budget
    // decides when it may use no more.
    let in_queue = ["no_worker", "over_budget"];
    let rows = lifecycle.transitions.iter().filter(|row| !in_queue.contains(&row.trigger.as_str()));
    // The seed has one state for work that is ready to merge, so transitions inside of it are no
    // pair.
    let pairs =
        rows.map(|row| (lifecycle.state(row.from).name.as_str(), lifecycle.target_name(row.to)));
    let is: BTreeSet<(&str, &str)> = pairs
        .filter(|(from, to)| base(from) != base(to) || from == to)
        .map(|(from, to)| (base(from), base(to)))
        .collect();
    let wanted = SEED_PAIRS.into_iter().chain(PAIRS_OF_SILENCE);
    assert_eq!(is, wanted.collect::<BTreeSet<_>>());
}

/// The state of the seed that a state belongs to.
fn base(name: &str) -> &str {
    name.split_once('(').map_or(name, |(base, _)| base)
}

#[test]
fn a_counter_leads_only_where_a_row_of_the_seed_does() {
    let lifecycle = lifecycle("autonomous");
    for row in &lifecycle.transitions {
        for then in row.changes.count.iter().filter_map(|id| lifecycle.counter(*id).then) {
            let pair =
                (lifecycle.state(row.from).name.as_str(), lifecycle.state(then).name.as_str());
            // The table has no such row; "No Worker Available" of phase 4 has, and a used-up budget
            // is like it.
            let by_prose = pair == ("pending", "blocked");
            assert!(SEED_PAIRS.contains(&pair) || by_prose, "{pair:?}");
        }
    }
}

#[test]
fn reminders_are_those_of_the_seed() {
    let lifecycle = lifecycle("autonomous");
    let waiting = lifecycle.find_state("waiting").expect("a state of the table");
    let remind = lifecycle.state(waiting).remind.as_ref().expect("escalated ones are reminded of");
    let ages: Vec<String> = remind.after.iter().map(ToString::to_string).collect();
    assert_eq!(ages, ["3d", "5d", "7d"]);
    assert!(remind.when.is_some(), "standard approvals are not reminded of");
}

/// A task that `wim` has claimed and begun to break down.
fn decomposing() -> Play {
    let mut play = Play::of("autonomous");
    play.claim("worker:wim").expect("it is queued");
    play.walk(&[("system", "decomposing")]);
    play
}

fn waiting() -> Play {
    let mut play = decomposing();
    play.walk(&[("worker:wim", "consensus"), ("system", "waiting")]);
    play
}

fn in_review() -> Play {
    let mut play = waiting();
    play.walk(&[("human:kim", "in_progress")]);
    play.ask("worker:wim", "review", json!({ "pr_url": "https://forge.test/1" }))
        .expect("the pull request is filed");
    play
}

fn failed() -> Play {
    let mut play = waiting();
    play.wait("7d");
    play
}

#[test]
fn the_seeds_walkthrough_ends_in_done() {
    let mut play = in_review();
    assert_eq!(play.artifacts(), ["pr_url"]);
    play.walk(&[("system", "merge_ready")]);
    assert_eq!(
        errors(play.ask("human:kim", "done", Value::Null)),
        ["merged: The pull request is not merged yet"]
    );
    assert_eq!(
        play.ask("human:kim", "done", json!({ "merged": true })).expect("it is merged"),
        "done"
    );
}

#[test]
fn silence_about_a_merge_fails_and_a_retry_asks_again_without_new_work() {
    let mut play = in_review();
    play.walk(&[("system", "merge_ready")]);
    assert_eq!(play.wait("6d"), "merge_ready");
    assert_eq!(play.wait("1d"), "failed");
    assert_eq!(play.field("diagnostic"), json!("merge approval timeout"));
    assert_eq!(play.pull("human:kim", "retry", Value::Null).expect("people may"), "merge_ready");
    assert_eq!(play.field("diagnostic"), Value::Null);
    assert_eq!(play.field("pr_url"), json!("https://forge.test/1"));
    assert_eq!(play.wait("7d"), "failed", "again after as long");
}

#[test]
fn what_failed_before_its_merge_is_retried_from_the_beginning() {
    let mut play = failed();
    assert_eq!(play.pull("human:kim", "retry", Value::Null).expect("people may"), "pending");
}

#[test]
fn a_claim_names_the_worker_and_a_send_back_forgets_it() {
    let mut play = waiting();
    assert_eq!((play.field("worker_id"), play.field("assignee")), (json!("wim"), json!("wim")));
    assert_eq!(
        play.pull("human:kim", "send_back", Value::Null).expect("people send back"),
        "pending"
    );
    assert_eq!((play.field("worker_id"), play.field("assignee")), (Value::Null, Value::Null));
}

#[test]
fn the_tenth_iteration_is_allowed_and_the_next_one_is_irreducible() {
    let mut play = decomposing();
    let too_big = json!({ "subtasks": [{ "id": "s1", "pr_sized": false }] });
    play.end_run(Outcome::Succeeded, "", too_big.clone());
    assert_eq!(play.state(), "decomposing");
    for iteration in 2..=10 {
        assert_eq!(
            play.ask("worker:wim", "decomposing", Value::Null).expect("one is left"),
            "decomposing",
            "{iteration}"
        );
    }
    assert_eq!(
        errors(play.ask("worker:wim", "decomposing", Value::Null)),
        ["depth: has reached its limit of 10"]
    );
    play.claim("worker:wim").expect("an agent is wanted here");
    assert_eq!(play.end_run(Outcome::Succeeded, "", too_big), "failed");
    assert_eq!(play.field("diagnostic"), json!("irreducible after 10 iterations"));
}

#[test]
fn a_proposal_is_ready_when_every_subtask_is_small_enough() {
    let mut play = decomposing();
    let subtasks = json!({ "subtasks": [{ "id": "s1", "pr_sized": true }, { "id": "s2", "pr_sized": false }] });
    assert_eq!(
        errors(play.ask("worker:wim", "consensus", subtasks)),
        ["subtasks: Every subtask must be PR-sized"]
    );
    let subtasks = json!({ "subtasks": [{ "id": "s1", "pr_sized": true }] });
    assert_eq!(play.end_run(Outcome::Succeeded, "", subtasks), "consensus");
    assert_eq!(play.artifacts(), ["subtasks"]);
}

#[test]
fn an_iteration_has_ten_minutes_and_all_of_them_two_hours() {
    assert_eq!(decomposing().wait("10min"), "failed");
    let mut play = decomposing();
    for _ in 0..13 {
        assert_eq!(play.wait("9min"), "decomposing");
        play.heartbeat();
    }
    assert_eq!(play.wait("3min"), "blocked");
    assert_eq!(play.field("unblock_condition"), json!("a person looks at the breakdown so far"));
}

#[test]
fn the_panel_sends_back_with_feedback_until_a_person_must_decide() {
    let mut play = decomposing();
    play.walk(&[("worker:wim", "consensus")]);
    assert_eq!(
        errors(play.ask("reviewer:ru", "decomposing", Value::Null)),
        ["feedback: Say what has to change"]
    );
    for state in ["decomposing", "decomposing", "decomposing", "decomposing", "waiting"] {
        let feedback = json!({ "feedback": "no spike" });
        assert_eq!(
            play.ask("reviewer:ru", "decomposing", feedback).expect("reviewers block"),
            state
        );
        if state == "decomposing" {
            play.walk(&[("worker:wim", "consensus")]);
            assert_eq!(play.field("feedback"), Value::Null, "the next block needs its own words");
        }
    }
    assert_eq!(play.field("approval_type"), json!("escalated"));
}

#[test]
fn silence_of_the_panel_escalates_and_silence_of_the_person_fails() {
    let mut play = decomposing();
    play.walk(&[("worker:wim", "consensus")]);
    assert_eq!(play.wait("30min"), "waiting");
    assert_eq!(play.field("approval_type"), json!("escalated"));
    assert_eq!(play.wait("6d"), "waiting");
    assert_eq!(play.wait("1d"), "failed");
    assert_eq!(
        (play.trigger(), play.field("diagnostic")),
        ("approval_timeout", json!("approval timeout"))
    );
}

#[test]
fn the_third_retry_wants_an_explanation() {
    let mut play = failed();
    for _ in 0..2 {
        play.walk(&[("human:kim", "pending")]);
        assert!(play.field("diagnostic").is_string(), "what went wrong is kept");
        play.claim("worker:wim").expect("it is queued");
        assert_eq!(play.wait("30s"), "failed");
        assert_eq!(play.field("diagnostic"), json!("claim timeout"));
    }
    let unexplained = "confirmation: Confirm one more retry and explain why it will go better";
    assert_eq!(errors(play.ask("human:kim", "pending", Value::Null)), [unexplained]);
    play.ask("human:kim", "pending", json!({ "confirmation": "the network is back" }))
        .expect("it is explained");
    play.claim("worker:wim").expect("it is queued");
    play.wait("30s");
    assert_eq!(
        errors(play.ask("human:kim", "pending", Value::Null)),
        [unexplained],
        "each one wants its own"
    );
}

#[test]
fn a_cancel_always_needs_a_reason_but_a_closed_pull_request_gives_its_own() {
    for mut play in [Play::of("autonomous"), decomposing(), waiting(), failed()] {
        assert_eq!(
            errors(play.ask("human:kim", "cancelled", Value::Null)),
            ["reason: Say why it is cancelled"]
        );
        play.ask("human:kim", "cancelled", json!({ "reason": "out of scope" }))
            .expect("with a reason");
    }
    let mut play = in_review();
    play.walk(&[("system", "cancelled")]);
    assert_eq!(play.field("reason"), json!("the pull request was closed without a merge"));
}

#[test]
fn the_invariants_of_the_states_hold() {
    assert_eq!(
        errors(decomposing().ask("worker:wim", "blocked", Value::Null)),
        ["unblock_condition: Say what has to happen before it can go on"]
    );
    assert_eq!(
        errors(decomposing().ask("worker:wim", "failed", Value::Null)),
        ["diagnostic: Say what went wrong"]
    );
    let mut play = waiting();
    assert_eq!(
        errors(play.ask("human:kim", "in_progress", json!({ "worker_id": null }))),
        ["worker_id: worker_id required for in_progress"]
    );
    play.walk(&[("human:kim", "in_progress")]);
    assert_eq!(
        errors(play.ask("worker:wim", "review", Value::Null)),
        ["pr_url: pr_url required for review"]
    );
}

#[test]
fn blocked_goes_back_to_where_it_came_from() {
    let mut play = in_review();
    let condition = json!({ "unblock_condition": "the other service is released" });
    play.ask("worker:wim", "blocked", condition).expect("with a condition");
    assert_eq!(play.ask("human:kim", "[prior]", Value::Null).expect("people unblock"), "review");
    assert_eq!(play.field("unblock_condition"), Value::Null);
    let mut play = decomposing();
    play.ask("worker:wim", "blocked", json!({ "unblock_condition": "a licence" }))
        .expect("with a condition");
    assert_eq!(play.wait("14d"), "failed");
    assert_eq!(play.field("diagnostic"), json!("blocked timeout"));
}

#[test]
fn an_endless_review_waits_for_a_person_who_gives_a_new_allowance() {
    let mut play = in_review();
    let wordless = play.ask("reviewer:ru", "in_progress", Value::Null);
    assert_eq!(errors(wordless), ["pr_comments: Say what has to change"]);
    let comments = json!({ "pr_comments": "a test is missing" });
    for state in ["in_progress", "in_progress", "in_progress", "in_progress", "blocked"] {
        assert_eq!(
            play.ask("reviewer:ru", "in_progress", comments.clone()).expect("reviewers ask"),
            state
        );
        if state == "in_progress" {
            play.walk(&[("worker:wim", "review")]);
        }
    }
    assert_eq!(play.field("unblock_condition"), json!("a person settles the review"));
    play.walk(&[("human:kim", "review")]);
    assert_eq!(
        play.ask("reviewer:ru", "in_progress", comments).expect("a new allowance"),
        "in_progress"
    );
}

#[test]
fn a_run_without_a_pull_request_and_a_silent_worker_fail() {
    let mut play = waiting();
    play.walk(&[("human:kim", "in_progress")]);
    play.claim("worker:wim").expect("an agent is wanted here");
    assert_eq!(play.end_run(Outcome::Succeeded, "", Value::Null), "failed");
    assert_eq!(play.field("diagnostic"), json!("the worker ended without a pull request"));
    let mut play = waiting();
    play.walk(&[("human:kim", "in_progress")]);
    assert_eq!(play.wait("1d"), "in_progress", "nobody is silent while nobody has it");
    play.claim("worker:wim").expect("an agent is wanted here");
    assert_eq!(play.wait("1d"), "failed");
    assert_eq!(play.field("diagnostic"), json!("stalled"));
}

#[test]
fn a_follow_up_is_at_most_two_deep() {
    for (depth, fits) in [(0, true), (2, true), (3, false)] {
        let born = Play::born("autonomous", &Overrides::new(), json!({ "followup_depth": depth }));
        assert_eq!(born.is_ok(), fits, "{depth}");
    }
}
