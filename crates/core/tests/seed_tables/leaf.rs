//! A subtask of an approved plan: what the default lifecycle says from the approval on, and what its parent asks of it.

use std::collections::BTreeSet;

use banksman_core::lifecycle::Kind::{
    Blocked, Cancelled, Done, Failed, Parked, Queued, Reviewing, Waiting, Working,
};
use banksman_core::lifecycle::Since::{Entry, Progress};

use super::{Table, compare, lifecycle};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "leaf",
    initial: "pending",
    roles: &["worker", "reviewer"],
    states: &[
        ("pending", Queued),
        ("in_progress", Working),
        ("review", Reviewing),
        ("merge_ready", Waiting),
        ("done", Done),
        ("blocked", Blocked),
        ("dormant", Parked),
        ("failed", Failed),
        ("cancelled", Cancelled),
    ],
    terminal: &["done", "cancelled"],
    moves: &[
        ("pending", "in_progress", "claim", &["worker"], "compute assignee, worker_id; clear confirmation"),
        ("pending", "pending", "no_worker", &["system"], "count unserved"),
        ("pending", "pending", "over_budget", &["system"], "compute unblock_condition; count over_budget"),
        ("in_progress", "blocked", "escalate", &["human"], "set asked=true"),
        ("review", "blocked", "escalate", &["human"], "set asked=true"),
        ("pending", "dormant", "backburner", &["human"], ""),
        ("pending", "cancelled", "cancel", &["human"], ""),
        ("in_progress", "done", "pr_filed", &["system"], "if spike; keep findings"),
        ("in_progress", "review", "pr_filed", &["worker", "system"], "if pr_url; clear pr_comments; keep pr_url"),
        ("in_progress", "failed", "pr_filed", &["system"], "if pr_url; set diagnostic=the worker ended without a pull request"),
        ("in_progress", "blocked", "dependency_discovered", &["worker", "human"], "compute unblock_condition"),
        ("in_progress", "blocked", "dependency_discovered", &["system"], "set asked=true; compute unblock_condition"),
        ("in_progress", "failed", "worker_crash", &["worker", "system"], "compute diagnostic"),
        ("in_progress", "cancelled", "cancel", &["human"], ""),
        ("review", "merge_ready", "review_consensus", &["reviewer", "human", "system"], "if verdicts"),
        ("review", "in_progress", "changes_requested", &["reviewer", "human", "system"], "if pr_comments; compute pr_comments; count review_rounds"),
        ("review", "blocked", "dependency_discovered", &["worker", "reviewer", "human", "system"], ""),
        ("review", "blocked", "escalate", &["reviewer", "system"], "set unblock_condition=a person settles the review"),
        ("review", "blocked", "no_reviewers", &["system"], "set unblock_condition=reviewers are available"),
        ("review", "cancelled", "pr_closed", &["human", "system"], "set reason=the pull request was closed without a merge"),
        ("merge_ready", "done", "approve_merge", &["human", "system"], "if merged"),
        ("merge_ready", "review", "last_minute_concern", &["reviewer", "human"], ""),
        ("merge_ready", "cancelled", "decline", &["human"], ""),
        ("merge_ready", "cancelled", "pr_closed", &["system"], "set reason=the pull request was closed without a merge"),
        ("blocked", "[prior]", "unblock", &["human"], "clear unblock_condition, asked; renew review_rounds, over_budget"),
        ("blocked", "[prior]", "unblock", &["system"], "clear unblock_condition, asked"),
        ("blocked", "[prior]", "worker_available", &["system"], "if unblock_condition; clear unblock_condition"),
        ("blocked", "cancelled", "cancel", &["human"], ""),
        ("dormant", "pending", "reactivate", &["human"], "clear assignee, worker_id"),
        ("dormant", "cancelled", "cancel", &["human"], ""),
        ("failed", "pending", "retry", &["human"], "if confirmation; clear assignee, worker_id, pr_url, merged; count retry_count; renew review_rounds"),
        ("failed", "cancelled", "cancel", &["human"], ""),
        ("failed", "pending", "reset", &["system"], "clear assignee, worker_id, pr_url, merged; count retry_count"),
        ("pending", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
        ("in_progress", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
        ("review", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
        ("merge_ready", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
        ("blocked", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
        ("dormant", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
        ("failed", "cancelled", "close", &["system"], "set reason=what it is part of has come to an end"),
    ],
    timed: &[
        ("in_progress", "failed", "stall_timeout", "24h", Progress, "set diagnostic=stalled"),
        ("review", "failed", "review_timeout", "7d", Progress, "set diagnostic=review timeout"),
        ("blocked", "failed", "blocked_timeout", "14d", Entry, "set diagnostic=blocked timeout"),
    ],
    requires: &[
        ("pending", &["subtask"]),
        ("in_progress", &["worker_id"]),
        ("review", &["pr_url"]),
        ("merge_ready", &["pr_url"]),
        ("blocked", &["unblock_condition"]),
        ("failed", &["diagnostic"]),
        ("cancelled", &["reason"]),
    ],
    does: &[
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
        ("blocked", "human", &[("resume", "unblock"), ("cancel", "cancel")]),
        (
            "merge_ready",
            "human",
            &[
                ("merge", "approve_merge"),
                ("changes", "last_minute_concern"),
                ("cancel", "decline"),
            ],
        ),
    ],
    effects: &[
        ("pending", "tell_parent"),
        ("in_progress", "tell_parent"),
        ("review", "tell_parent"),
        ("merge_ready", "notify, tell_parent"),
        ("done", "tell_parent, clean_up"),
        ("blocked", "notify, tell_parent"),
        ("dormant", "tell_parent"),
        ("failed", "alert, tell_parent, clean_up"),
        ("cancelled", "tell_parent, clean_up"),
    ],
    counters: &[
        ("retry_count", None, None),
        ("unserved", Some(3), Some("blocked")),
        ("over_budget", Some(1), Some("blocked")),
        ("review_rounds", Some(5), Some("blocked")),
    ],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

#[test]
fn it_is_the_default_without_its_first_three_phases() {
    let (leaf, whole) = (lifecycle("leaf"), lifecycle("autonomous"));
    let names = |lifecycle: &banksman_core::lifecycle::Lifecycle| -> BTreeSet<String> {
        lifecycle.states.iter().map(|state| format!("{} {}", state.name, state.kind)).collect()
    };
    let planning =
        ["active working", "decomposing working", "consensus reviewing", "waiting waiting"];
    let rest: BTreeSet<String> =
        names(&whole).into_iter().filter(|name| !planning.contains(&name.as_str())).collect();
    assert_eq!(names(&leaf), rest);
}
