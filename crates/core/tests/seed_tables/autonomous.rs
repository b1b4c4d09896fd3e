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
use super::{
    NONE, Pending, Quote, Rows, Table, counters, does, lifecycle, moves, requires, states,
    terminal, timed,
};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("| `pending` | - | In queue, not claimed |", states(&[("pending", Queued)])),
    ("| `active` | 1 | Agent claimed, beginning work |", states(&[("active", Working)])),
    ("| `decomposing` | 1 | Effectual planner iterating |", states(&[("decomposing", Working)])),
    ("| `consensus` | 2 | Multi-agent review in progress |", states(&[("consensus", Reviewing)])),
    ("| `waiting` | 3 | Awaiting user decision |", states(&[("waiting", Waiting)])),
    ("| `in_progress` | 4 | Worker executing approved plan |", states(&[("in_progress", Working)])),
    ("| `review` | 5 | PR filed, awaiting review consensus |", states(&[("review", Reviewing)])),
    ("| `merge_ready` | 5 | Reviews done, awaiting merge approval |", states(&[("merge_ready", Waiting)])),
    ("| `done` | 6 | Merged, knowledge captured |", states(&[("done", Done)])),
    ("| `blocked` | any | External dependency, with unblock condition |", states(&[("blocked", Blocked)])),
    ("| `dormant` | - | User-initiated backburner |", states(&[("dormant", Parked)])),
    ("| `failed` | any | Unrecoverable error, with diagnostic |", states(&[("failed", Failed)])),
    ("| `cancelled` | - | Abandoned, with reason |", states(&[("cancelled", Cancelled)])),

    // The transition table.
    ("pending -> active | polecat claims | lock acquired", moves(&[
        ("pending", "active", "claim", &["worker"], "compute assignee, worker_id; clear confirmation"),
    ])),
    ("pending -> cancelled | user cancels | -", moves(&[("pending", "cancelled", "cancel", &["human"], "")])),
    ("active -> decomposing | begin breakdown | -", moves(&[
        ("active", "decomposing", "begin_breakdown", &["worker", "system"], ""),
    ])),
    ("active -> blocked | dependency discovered | unblock_condition set", moves(&[
        ("active", "blocked", "dependency_discovered", &["worker", "human", "system"], ""),
    ])),
    ("active -> failed | claim timeout (30s) | -", timed(&[
        ("active", "failed", "claim_timeout", "30s", Entry, "set diagnostic=claim timeout"),
    ])),
    ("decomposing -> decomposing | iteration complete | depth < MAX_DEPTH (10)", Rows {
        moves: &[
            ("decomposing", "decomposing", "iteration_complete", &["system"], "if depth; count depth"),
            ("decomposing", "decomposing", "iteration_complete", &["worker"], "count depth"),
        ],
        counters: &[("depth", Some(10), None)],
        ..NONE
    }),
    // The agent's run ends in one outcome; whether that was an iteration or the proposal, the guard
    // decides.
    ("decomposing -> consensus | proposal ready | all subtasks PR-sized", moves(&[
        ("decomposing", "consensus", "proposal_ready", &["worker"], "if subtasks; clear feedback, plan, split; keep subtasks"),
        ("decomposing", "consensus", "iteration_complete", &["system"], "if subtasks; clear feedback; keep subtasks, plan"),
    ])),
    ("decomposing -> blocked | external dependency found | unblock_condition set", moves(&[
        ("decomposing", "blocked", "dependency_found", &["worker", "human"], "compute unblock_condition"),
        ("decomposing", "blocked", "dependency_found", &["system"], "set asked=true; compute unblock_condition"),
    ])),
    ("decomposing -> failed | depth >= MAX_DEPTH | diagnostic: \"irreducible\"", moves(&[
        ("decomposing", "failed", "iteration_complete", &["system"], "compute diagnostic"),
    ])),
    ("decomposing -> failed | exception | diagnostic: error message", moves(&[
        ("decomposing", "failed", "exception", &["worker", "system"], "compute diagnostic"),
    ])),
    ("decomposing -> cancelled | user cancels | -", moves(&[("decomposing", "cancelled", "cancel", &["human"], "")])),
    ("consensus -> waiting | all reviewers APPROVE | -", moves(&[
        ("consensus", "waiting", "all_approve", &["system"], "set approval_type=standard; compute decision_deadline; clear demands"),
    ])),
    ("consensus -> decomposing | any reviewer BLOCK | feedback attached", moves(&[
        ("consensus", "decomposing", "block", &["system"], "compute demands, feedback; count blocks"),
        ("consensus", "decomposing", "block", &["reviewer"], "if feedback; compute demands; count blocks"),
    ])),
    ("consensus -> waiting | timeout (30min) | escalate: unresolved concerns", timed(&[
        ("consensus", "waiting", "consensus_timeout", "30min", Entry, "set approval_type=escalated; compute decision_deadline"),
    ])),
    ("consensus -> failed | all reviewers unavailable | diagnostic: \"no reviewers\"", moves(&[
        ("consensus", "failed", "no_reviewers", &["system"], "if unheard; set diagnostic=no reviewers"),
    ])),
    ("consensus -> cancelled | user cancels | -", moves(&[("consensus", "cancelled", "cancel", &["human"], "")])),
    ("waiting -> in_progress | user approves | -", moves(&[("waiting", "in_progress", "approve", &["human"], "")])),
    ("waiting -> decomposing | user requests changes | feedback attached", moves(&[
        ("waiting", "decomposing", "request_changes", &["human"], "if feedback; compute demands; reset depth, blocks"),
    ])),
    ("waiting -> pending | user sends back | assignee cleared", moves(&[
        ("waiting", "pending", "send_back", &["human"], "clear assignee, worker_id; reset depth, blocks"),
    ])),
    ("waiting -> dormant | user backburners | -", moves(&[("waiting", "dormant", "backburner", &["human"], "")])),
    ("waiting -> cancelled | user cancels | reason attached", moves(&[("waiting", "cancelled", "cancel", &["human"], "")])),
    ("waiting -> failed | timeout (7 days) | diagnostic: \"approval timeout\"", timed(&[
        ("waiting", "failed", "approval_timeout", "7d", Entry, "set diagnostic=approval timeout"),
    ])),
    ("in_progress -> review | PR filed | pr_url set", moves(&[
        ("in_progress", "review", "pr_filed", &["worker", "system"], "if pr_url; clear pr_comments, pr_head, problem, verdicts, concerns, review_summary; keep pr_url"),
    ])),
    ("in_progress -> blocked | dependency discovered | unblock_condition set", moves(&[
        ("in_progress", "blocked", "dependency_discovered", &["worker", "human"], "compute unblock_condition"),
        ("in_progress", "blocked", "dependency_discovered", &["system"], "set asked=true; compute unblock_condition"),
    ])),
    ("in_progress -> failed | worker crash | diagnostic: crash report", moves(&[
        ("in_progress", "failed", "worker_crash", &["worker", "system"], "compute diagnostic"),
    ])),
    ("in_progress -> failed | timeout (24h no progress) | diagnostic: \"stalled\"", timed(&[
        ("in_progress", "failed", "stall_timeout", "24h", Progress, "set diagnostic=stalled"),
    ])),
    ("in_progress -> cancelled | user cancels | cleanup triggered", moves(&[
        ("in_progress", "cancelled", "cancel", &["human"], ""),
    ])),
    ("review -> merge_ready | review consensus reached | all APPROVE", moves(&[
        ("review", "merge_ready", "review_consensus", &["reviewer", "human", "system"], "if verdicts; clear problem, objection, demands"),
    ])),
    ("review -> in_progress | changes requested | pr_comments attached", moves(&[
        ("review", "in_progress", "changes_requested", &["system"], "compute demands, pr_comments; clear objection; count review_rounds"),
        ("review", "in_progress", "changes_requested", &["reviewer", "human"], "if pr_comments; compute demands; clear objection; count review_rounds"),
    ])),
    ("review -> blocked | dependency discovered | unblock_condition set", moves(&[
        ("review", "blocked", "dependency_discovered", &["worker", "reviewer", "human", "system"], ""),
    ])),
    ("review -> failed | timeout (7 days no activity) | diagnostic: \"review timeout\"", timed(&[
        ("review", "failed", "review_timeout", "7d", Progress, "set diagnostic=review timeout"),
    ])),
    ("review -> cancelled | PR closed without merge | -", moves(&[
        ("review", "cancelled", "pr_closed", &["human", "system"], "set reason=the pull request was closed without a merge"),
    ])),
    ("merge_ready -> done | user approves merge | merged = true", moves(&[
        ("merge_ready", "done", "approve_merge", &["human", "system"], "if merged, split"),
    ])),
    ("merge_ready -> review | last-minute concern | -", moves(&[
        ("merge_ready", "review", "last_minute_concern", &["human"], "if objection; reset review_rounds, unreviewed; keep objection"),
        ("merge_ready", "review", "last_minute_concern", &["reviewer"], "if objection; keep objection"),
    ])),
    ("merge_ready -> cancelled | user declines | reason attached", moves(&[
        ("merge_ready", "cancelled", "decline", &["human"], ""),
    ])),
    ("blocked -> [prior] | unblock_condition met | restore prior state", moves(&[
        ("blocked", "[prior]", "unblock", &["human"], "if children_cancelled; clear unblock_condition, blocked_on, children_asked, checkpoint, asked; reset unserved, review_rounds, unreviewed, over_budget"),
    ])),
    ("blocked -> failed | timeout (14 days) | diagnostic: \"blocked timeout\"", timed(&[
        ("blocked", "failed", "blocked_timeout", "14d", Entry, "set diagnostic=blocked timeout"),
    ])),
    ("blocked -> cancelled | user cancels | -", moves(&[("blocked", "cancelled", "cancel", &["human"], "")])),
    ("dormant -> pending | user reactivates | priority recalculated", moves(&[
        ("dormant", "pending", "reactivate", &["human"], "clear assignee, worker_id; reset depth, blocks"),
    ])),
    ("dormant -> cancelled | user cancels | -", moves(&[("dormant", "cancelled", "cancel", &["human"], "")])),
    ("done -> [terminal] | - | knowledge extraction complete", terminal(&["done"])),
    ("failed -> pending | user retries | reset with diagnostic", moves(&[
        ("failed", "pending", "retry", &["human"], "if confirmation; clear assignee, worker_id, pr_url, pr_head, merged, problem, objection, irreducible, left_out, children_asked, checkpoint, blocked_on, asked; count retry_count; reset unserved, depth, blocks, unheard, review_rounds, unreviewed"),
    ])),
    ("failed -> cancelled | user abandons | -", moves(&[("failed", "cancelled", "cancel", &["human"], "")])),
    ("cancelled -> [terminal] | - | -", terminal(&["cancelled"])),

    // State invariants and new fields.
    ("`blocked` must have `unblock_condition` field set", requires(&[("blocked", &["unblock_condition"])])),
    ("`failed` must have `diagnostic` field set", requires(&[("failed", &["diagnostic"])])),
    ("`cancelled` must have `reason` field set", requires(&[("cancelled", &["reason"])])),
    ("`in_progress` must have `worker_id` field set", requires(&[("in_progress", &["worker_id"])])),
    ("`review` must have `pr_url` field set", requires(&[("review", &["pr_url"])])),
    ("`pr_url`: string (for `review`, `merge_ready`)", requires(&[("merge_ready", &["pr_url"])])),
    ("`approval_type`: enum (for `waiting`)", requires(&[("waiting", &["approval_type"])])),
    ("`decision_deadline`: timestamp (for `waiting`)", requires(&[("waiting", &["decision_deadline"])])),
    ("Infinite loop prevention: Follow-ups have `depth` field. Max depth = 2.", requires(&[("pending", &["followup_depth"])])),
    ("`retry_count` incremented", counters(&[("retry_count", None, None)])),

    // The phases.
    ("| Single decomposition iteration | 10min | -> `failed` |", timed(&[
        ("decomposing", "failed", "iteration_timeout", "10min", Progress, "set diagnostic=decomposition timeout"),
    ])),
    ("| Total decomposition | 2h | Force checkpoint, surface to user |", timed(&[
        ("decomposing", "blocked", "decomposition_timeout", "2h", Entry, "set checkpoint=true, unblock_condition=a person looks at the breakdown so far"),
    ])),
    ("| All APPROVE | -> `waiting` |", does(&[("consensus", "panel", &[("approved", "all_approve")])])),
    ("| Any BLOCK | -> `decomposing` (with feedback) |", does(&[("consensus", "panel", &[("blocked", "block")])])),
    ("| Any ESCALATE | -> `waiting` (escalated: true) |", Rows {
        moves: &[
            ("consensus", "waiting", "escalate", &["human", "system"], "set approval_type=escalated; compute decision_deadline"),
            ("consensus", "waiting", "escalate", &["reviewer"], "if feedback; set approval_type=escalated; compute decision_deadline"),
        ],
        does: &[("consensus", "panel", &[("escalated", "escalate")])],
        ..NONE
    }),
    ("After round 2, any unresolved concerns synthesized for user", Rows {
        moves: &[("consensus", "waiting", "unresolved", &["system"], "set approval_type=escalated; compute decision_deadline")],
        does: &[("consensus", "panel", &[("unresolved", "unresolved")])],
        ..NONE
    }),
    ("| Approve | -> `in_progress` | Subtasks created, first claimed |", does(&[("waiting", "human", &[("approve", "approve")])])),
    ("| Request Changes | -> `decomposing` | Feedback attached |", does(&[("waiting", "human", &[("changes", "request_changes")])])),
    ("| Send Back | -> `pending` | Assignee cleared, ready for re-claim |", does(&[("waiting", "human", &[("back", "send_back")])])),
    ("| Backburner | -> `dormant` | Preserved but inactive |", does(&[("waiting", "human", &[("backburner", "backburner")])])),
    ("| Cancel | -> `cancelled` | Reason required |", does(&[("waiting", "human", &[("cancel", "cancel")])])),
    ("If no worker available after 3 attempts (1 hour apart):", Rows {
        moves: &[("pending", "pending", "no_worker", &["system"], "count unserved")],
        counters: &[("unserved", Some(3), Some("blocked"))],
        ..NONE
    }),
    ("Auto-retry when any worker becomes available", moves(&[
        ("blocked", "[prior]", "worker_available", &["system"], "if blocked_on; clear unblock_condition, blocked_on"),
    ])),
    ("All APPROVE -> `merge_ready`", does(&[("review", "panel", &[("approved", "review_consensus")])])),
    ("Any BLOCK -> `in_progress` (changes requested, feedback in PR comments)", does(&[("review", "panel", &[("blocked", "changes_requested")])])),
    ("User actions: merge (via GitHub) | request changes | close", does(&[
        ("merge_ready", "human", &[("merge", "approve_merge"), ("changes", "last_minute_concern"), ("cancel", "decline")]),
    ])),
];

#[rustfmt::skip] // One row, one line: it is read as a table.
const PENDING: &[Pending] = &[
    (
        "| `pull_request.closed` (not merged) | -> `cancelled` |",
        &[("merge_ready", "cancelled", "pr_closed", &["system"])],
        "the reader of a forge's events",
    ),
    (
        "blocked -> [prior] | unblock_condition met | restore prior state",
        &[("blocked", "[prior]", "unblock", &["system"])],
        "the check of unblock conditions",
    ),
];

/// What the seed does not state: merges by the engine, subtasks, budgets, questions from people to
/// people, and an end for everything that the seed lets wait without one.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[
        ("consensus(unserved)", Blocked),
        ("review(unserved)", Blocked),
        ("merge_ready(approved)", Reviewing),
        ("merge_ready(merging)", Reviewing),
        ("merge_ready(taking_back)", Reviewing),
    ],
    terminal: &[],
    moves: &[
        ("pending", "pending", "over_budget", &["system"], "compute unblock_condition; count over_budget"),
        // A person asks another one.
        ("active", "blocked", "escalate", &["human"], "set asked=true"),
        ("decomposing", "blocked", "escalate", &["human"], "set asked=true"),
        ("in_progress", "blocked", "escalate", &["human"], "set asked=true"),
        ("review", "blocked", "escalate", &["human"], "set asked=true"),
        // The planner says itself that it cannot be broken down.
        ("decomposing", "failed", "iteration_complete", &["system"], "if irreducible; compute diagnostic"),
        ("in_progress", "failed", "pr_filed", &["system"], "if pr_url; set diagnostic=the worker ended without a pull request"),
        // Where subtasks do the work, the task follows the one that is the furthest behind.
        ("in_progress", "blocked", "children_moved", &["system"], "if children_given_up; set children_asked=true; compute unblock_condition"),
        ("review", "in_progress", "children_moved", &["system"], "if pr_url"),
        ("merge_ready", "in_progress", "children_moved", &["system"], "if pr_url"),
        ("in_progress", "done", "children_moved", &["system"], "if children_done"),
        ("review", "done", "children_moved", &["system"], "if children_done"),
        ("merge_ready", "done", "children_moved", &["system"], "if children_done"),
        ("in_progress", "review", "children_moved", &["system"], "if children_open, pr_url; keep pr_url"),
        ("review", "blocked", "children_moved", &["system"], "if children_given_up; set children_asked=true; compute unblock_condition"),
        ("review", "in_progress", "children_moved", &["system"], "if children_open"),
        ("review", "merge_ready", "children_moved", &["system"], "if children_in_review"),
        ("merge_ready", "review", "children_moved", &["system"], "if children_in_review"),
        ("merge_ready", "done", "children_moved", &["system"], "if children_waiting; set merged=true"),
        ("blocked", "[prior]", "go_without", &["human"], "if children_given_up, left_out; compute left_out; clear unblock_condition, blocked_on, children_asked, checkpoint, asked"),
        ("blocked", "[prior]", "children_moved", &["system"], "if children_given_up; clear unblock_condition, blocked_on, children_asked, checkpoint, asked"),
        ("review", "merge_ready", "escalate", &["system"], "compute problem; clear objection"),
        ("review", "merge_ready", "escalate", &["reviewer"], "if pr_comments; compute problem; clear objection"),
        ("review", "review(unserved)", "no_reviewers", &["system"], "compute problem; count unreviewed"),
        ("review(unserved)", "cancelled", "cancel", &["human"], ""),
        // Before the limit the plan is kept and reviewed later.
        ("decomposing", "decomposing", "no_worker", &["system"], "count unserved"),
        ("in_progress", "in_progress", "no_worker", &["system"], "count unserved"),
        ("consensus", "consensus(unserved)", "no_reviewers", &["system"], "count unheard"),
        ("consensus(unserved)", "cancelled", "cancel", &["human"], ""),
        // Where the branch stands for the pull request, the answer has it merged, and it is asked
        // again if it cannot be.
        ("merge_ready", "merge_ready(approved)", "approve_merge", &["human"], "if merged, split; clear problem"),
        ("merge_ready(approved)", "merge_ready(merging)", "merge_begun", &["system"], ""),
        ("merge_ready(approved)", "done", "branch_merged", &["system"], "set merged=true; clear reason"),
        ("merge_ready(approved)", "merge_ready", "merge_failed", &["system"], "compute problem; clear reason"),
        ("merge_ready(merging)", "done", "branch_merged", &["system"], "set merged=true; clear reason"),
        ("merge_ready(merging)", "merge_ready", "merge_failed", &["system"], "compute problem; clear reason"),
        // What an agent can resolve is work for one, and is reviewed and approved anew.
        ("merge_ready(merging)", "in_progress", "merge_conflict", &["system"], "compute pr_comments; count conflicts"),
        ("merge_ready(merging)", "in_progress", "merge_rejected", &["system"], "compute pr_comments; count rejections"),
        // Before the merge has started it is revoked at once; after that the merge is stopped
        // first, and may have finished.
        ("merge_ready(approved)", "merge_ready", "take_back", &["human"], ""),
        ("merge_ready(approved)", "cancelled", "decline", &["human"], ""),
        ("merge_ready(merging)", "merge_ready(taking_back)", "take_back", &["human"], "clear reason"),
        ("merge_ready(taking_back)", "done", "branch_merged", &["system"], "set merged=true; clear reason"),
        ("merge_ready(taking_back)", "merge_ready", "taken_back", &["system"], ""),
        // A person cancels a task wherever it is; a merge that runs is stopped first.
        ("active", "cancelled", "cancel", &["human"], ""),
        ("review", "cancelled", "cancel", &["human"], ""),
        ("merge_ready", "cancelled", "cancel", &["human"], ""),
        ("merge_ready(approved)", "cancelled", "cancel", &["human"], ""),
        ("merge_ready(merging)", "merge_ready(taking_back)", "cancel", &["human"], "if reason"),
        ("merge_ready(taking_back)", "merge_ready(taking_back)", "cancel", &["human"], "if reason"),
        ("merge_ready(taking_back)", "cancelled", "taken_back", &["system"], "if reason"),
        ("merge_ready(taking_back)", "merge_ready", "merge_failed", &["system"], "compute problem; clear reason"),
        ("failed", "merge_ready", "retry", &["human"], "if retry_from; clear diagnostic, retry_from"),
    ],
    timed: &[
        // Nobody decides whether to retry it.
        ("failed", "cancelled", "unanswered", "14d", Entry, "compute reason"),
        ("consensus(unserved)", "consensus", "review_again", "2min", Entry, ""),
        ("review(unserved)", "review", "review_again", "2min", Entry, ""),
        ("merge_ready(approved)", "merge_ready", "merge_timeout", "1d", Entry, "set problem=no machine has begun the merge"),
        ("merge_ready(merging)", "merge_ready(taking_back)", "merge_timeout", "1d", Entry, "set problem=the merge timed out, reason=null"),
        ("merge_ready", "failed", "merge_unanswered", "7d", Entry, "set diagnostic=merge approval timeout, retry_from=merge"),
        ("merge_ready(taking_back)", "merge_ready", "merge_timeout", "1d", Entry, "set problem=could not determine whether it was merged, reason=null"),
    ],
    requires: &[
        ("review(unserved)", &["pr_url"]),
        ("merge_ready(approved)", &["pr_url"]),
        ("merge_ready(merging)", &["pr_url"]),
        ("merge_ready(taking_back)", &["pr_url"]),
    ],
    does: &[
        ("active", "wait", &[("met", "begin_breakdown")]),
        (
            "decomposing",
            "agent",
            &[
                ("succeeded", "iteration_complete"),
                ("nothing_to_do", "dependency_found"),
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
        ("consensus", "panel", &[("unavailable", "no_reviewers")]),
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
                ("nothing_to_do", "dependency_discovered"),
                ("auth", "dependency_discovered"),
                ("needs_person", "dependency_discovered"),
                ("over_budget", "dependency_discovered"),
                ("otherwise", "worker_crash"),
            ],
        ),
        ("review", "panel", &[("escalated", "escalate"), ("unresolved", "escalate"), ("unavailable", "no_reviewers")]),
        (
            "merge_ready(approved)",
            "merge",
            &[("merged", "branch_merged"), ("not_merged", "merge_begun"), ("otherwise", "merge_failed")],
        ),
        (
            "merge_ready(merging)",
            "merge",
            &[
                ("merged", "branch_merged"),
                ("conflict", "merge_conflict"),
                ("rejected", "merge_rejected"),
                ("otherwise", "merge_failed"),
            ],
        ),
        ("failed", "human", &[("retry", "retry"), ("cancel", "cancel")]),
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
        ("blocks", Some(5), Some("waiting")),
        ("over_budget", Some(1), Some("blocked")),
        ("review_rounds", Some(5), Some("merge_ready")),
        ("unreviewed", Some(3), Some("merge_ready")),
        ("unheard", Some(3), None),
        ("conflicts", Some(3), Some("merge_ready")),
        ("rejections", Some(3), Some("merge_ready")),
    ],
};

pub(super) const TABLE: Table = Table {
    name: "autonomous",
    initial: "pending",
    roles: &["worker", "reviewer"],
    seed: SEED,
    pending: PENDING,
    added: ADDED,
};

/// The pairs that the seed's transition table has, read from the quotes.
fn seed_pairs() -> BTreeSet<(&'static str, &'static str)> {
    let quoted = SEED.iter().filter(|(_, rows)| !rows.moves.is_empty() || !rows.timed.is_empty());
    quoted.filter_map(|(says, _)| pair(says)).collect()
}

/// From and to of a line such as `waiting -> pending | user sends back | assignee cleared`.
fn pair(says: &'static str) -> Option<(&'static str, &'static str)> {
    let (from, rest) = says.split_once(" -> ")?;
    let (to, _) = rest.split_once(" | ")?;
    (!from.contains('|')).then_some((from, to))
}

#[test]
fn each_row_of_the_seeds_table_is_carried_out_by_rows_between_its_states() {
    assert_eq!(seed_pairs().len(), 39, "the pairs of its 44 rows, without the two terminal ones");
    for (says, rows) in SEED {
        let Some(wanted) = pair(says) else { continue };
        let moves = rows.moves.iter().map(|row| (row.0, row.1));
        for is in moves.chain(rows.timed.iter().map(|row| (row.0, row.1))) {
            assert_eq!(is, wanted, "{says}");
        }
    }
}

/// Silence about a merge fails it, as silence about a plan does, and a retry asks again: approved
/// work is not done twice.
const PAIRS_OF_SILENCE: [(&str, &str); 2] = [("merge_ready", "failed"), ("failed", "merge_ready")];
/// A person cancels it also while it is claimed, and once more while a merge is stopped: a
/// deviation, so that `cancel` works wherever a task is.
const PAIRS_OF_CANCELLING: [(&str, &str); 2] =
    [("active", "cancelled"), ("merge_ready", "merge_ready")];
/// The seed leaves the merge to the forge; ours meets conflicts that an agent resolves.
const PAIRS_OF_MERGING: [(&str, &str); 1] = [("merge_ready", "in_progress")];
/// Subtasks that all ended without a change leave nothing to review or merge.
const PAIRS_OF_SUBTASKS: [(&str, &str); 2] = [("in_progress", "done"), ("review", "done")];

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
    let ours = PAIRS_OF_SILENCE.into_iter().chain(PAIRS_OF_MERGING).chain(PAIRS_OF_CANCELLING);
    let wanted = seed_pairs().into_iter().chain(ours).chain(PAIRS_OF_SUBTASKS);
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
            let inside = base(pair.0) == base(pair.1);
            assert!(seed_pairs().contains(&pair) || by_prose || inside, "{pair:?}");
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

fn propose(play: &mut Play) {
    let small = json!({ "subtasks": [{ "id": "s1", "pr_sized": true }] });
    assert_eq!(play.ask("worker:wim", "consensus", small).expect("it is small"), "consensus");
}

fn approve(play: &mut Play) {
    let verdicts = json!({ "verdicts": [{ "verdict": "APPROVE" }] });
    assert_eq!(play.ask("system", "merge_ready", verdicts).expect("all approve"), "merge_ready");
}

fn waiting() -> Play {
    let mut play = decomposing();
    propose(&mut play);
    play.walk(&[("system", "waiting")]);
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
    approve(&mut play);
    assert_eq!(
        errors(play.ask("human:kim", "done", Value::Null)),
        ["merged: The pull request is not merged yet"]
    );
    assert_eq!(
        play.ask("system", "done", json!({ "merged": true })).expect("it is merged"),
        "done"
    );
}

#[test]
fn silence_about_a_merge_fails_and_a_retry_asks_again_without_new_work() {
    let mut play = in_review();
    approve(&mut play);
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
    propose(&mut play);
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
            propose(&mut play);
            assert_eq!(play.field("feedback"), Value::Null, "the next block needs its own words");
        }
    }
    assert_eq!(play.field("approval_type"), json!("escalated"));
}

#[test]
fn silence_of_the_panel_escalates_and_silence_of_the_person_fails() {
    let mut play = decomposing();
    propose(&mut play);
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
    for state in ["in_progress", "in_progress", "in_progress", "in_progress", "merge_ready"] {
        assert_eq!(
            play.ask("reviewer:ru", "in_progress", comments.clone()).expect("reviewers ask"),
            state
        );
        if state == "in_progress" {
            play.walk(&[("worker:wim", "review")]);
        }
    }
    assert_eq!(play.field("problem"), json!("a person settles the review"));
    play.ask("human:kim", "review", json!({ "objection": "a test is missing" })).expect("words");
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
