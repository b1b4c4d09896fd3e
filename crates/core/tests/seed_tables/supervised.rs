//! The autonomous supervisor's tasks (seed 004).

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Failed, Queued, Reviewing, Waiting, Working,
};
use serde_json::{Value, json};

use super::play::Play;
use super::{NONE, Quote, Rows, Table, counters, moves, states};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("-- queued|dispatched|running|evaluating|retrying|complete|blocked|failed", states(&[
        ("queued", Queued),
        ("dispatched", Working),
        ("running", Working),
        ("evaluating", Reviewing),
        ("retrying", Queued),
        ("complete", Done),
        ("blocked", Blocked),
        ("failed", Failed),
    ])),
    ("Queue remaining tasks. Start next when a slot frees.", moves(&[
        ("queued", "dispatched", "claim", &["worker"], "compute worker_id"),
    ])),
    ("dispatch `opencode run --format json \"/full-loop tXXX\"`, monitor JSON log", moves(&[
        ("dispatched", "running", "start", &["worker", "system"], ""),
    ])),
    ("Parse worker JSON output for completion signals (`FULL_LOOP_COMPLETE`, PR URL), errors, or stalls.", Rows {
        terminal: &["complete"],
        moves: &[
            ("running", "merging", "ended", &["system"], "if verified"),
            ("running", "failed", "fail", &["worker", "system"], "compute error"),
        ],
        timed: &[("running", "evaluating", "stale", "10min", Progress, "")],
        ..NONE
    }),
    ("Use a cheap AI call (Sonnet, ~30s) for ambiguous outcomes that need reasoning.", Rows {
        moves: &[
            ("running", "evaluating", "ended", &["worker", "system"], ""),
            ("evaluating", "merging", "complete", &["evaluator", "human", "system"], "if pr_head"),
            ("evaluating", "retrying", "complete", &["system"], "set error=nothing shows that the work is done; count retries"),
            ("evaluating", "failed", "fail", &["evaluator", "system"], "compute error"),
        ],
        does: &[("evaluating", "panel", &[("approved", "complete"), ("blocked", "retry")])],
        ..NONE
    }),
    ("`opencode run --session <id> --continue \"Previous attempt failed with: ... Please fix and retry.\"`", moves(&[
        ("running", "retrying", "retry", &["system"], "compute error"),
        ("running", "retrying", "retry", &["worker"], "count retries"),
        ("evaluating", "retrying", "retry", &["evaluator", "human", "system"], "compute error; clear pr_head; count retries"),
        ("retrying", "dispatched", "claim", &["worker"], "compute worker_id"),
    ])),
    ("Up to N retries (default 3) before marking blocked.", counters(&[("retries", Some(3), Some("blocked"))])),
    ("I want blocked tasks to notify me via Matrix/mail with context about what's needed, so I can unblock them without checking manually.", Rows {
        moves: &[("blocked", "queued", "unblock", &["human"], "clear blocked_on; reset unserved, retries, evaluations, over_budget, conflicts, rejections")],
        requires: &[("blocked", &["error"])],
        does: &[("blocked", "human", &[("unblock", "unblock")])],
        effects: &[("blocked", "notify")],
        ..NONE
    }),
];

/// The seed names its states and few of the ways between them. It lets nobody cancel a task, and
/// says nothing of workers that are missing, of budgets, or of how the work gets into its base.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[
        ("cancelled", Cancelled),
        ("merging", Reviewing),
        ("merging(taking_back)", Reviewing),
        ("merging(hindered)", Waiting),
        ("blocked(no_evaluator)", Blocked),
        ("blocked(unsettled)", Waiting),
    ],
    terminal: &["cancelled"],
    moves: &[
        ("queued", "queued", "no_worker", &["system"], "count unserved"),
        ("blocked", "queued", "worker_available", &["system"], "if blocked_on; clear error, blocked_on"),
        ("queued", "blocked", "block", &["human", "system"], "compute error"),
        ("queued", "cancelled", "cancel", &["human"], ""),
        ("dispatched", "failed", "fail", &["worker", "system"], "compute error"),
        ("dispatched", "cancelled", "cancel", &["human"], ""),
        ("running", "blocked", "block", &["worker", "human", "system"], "compute error"),
        ("running", "cancelled", "cancel", &["human"], ""),
        ("evaluating", "blocked", "block", &["evaluator", "human", "system"], "compute error"),
        ("retrying", "retrying", "over_budget", &["system"], "compute error; count over_budget"),
        ("queued", "blocked", "escalate", &["human"], ""),
        ("running", "blocked", "escalate", &["human"], ""),
        ("evaluating", "blocked", "escalate", &["human"], ""),
        ("retrying", "cancelled", "cancel", &["human"], ""),
        ("blocked", "cancelled", "cancel", &["human"], ""),
        ("evaluating", "cancelled", "cancel", &["human"], ""),
        ("failed", "cancelled", "cancel", &["human"], ""),
        ("failed", "queued", "retry", &["human"], "reset unserved, retries, evaluations"),
        ("evaluating", "blocked(no_evaluator)", "no_verdict", &["system"], "compute error; count evaluations"),
        ("evaluating", "blocked(unsettled)", "ask_person", &["system"], "compute error"),
        ("blocked(no_evaluator)", "merging", "complete", &["human"], "if pr_head; clear error"),
        ("blocked(no_evaluator)", "retrying", "retry", &["human"], "if feedback; clear pr_head; reset retries, evaluations"),
        ("blocked(no_evaluator)", "blocked(unsettled)", "escalate", &["human"], ""),
        ("blocked(no_evaluator)", "evaluating", "evaluate_again", &["human"], "clear error; reset evaluations"),
        ("blocked(no_evaluator)", "cancelled", "cancel", &["human"], ""),
        ("blocked(unsettled)", "merging", "complete", &["human"], "if pr_head; clear error"),
        ("blocked(unsettled)", "retrying", "retry", &["human"], "if feedback; clear pr_head; reset retries, evaluations"),
        ("blocked(unsettled)", "evaluating", "evaluate_again", &["human"], "clear error; reset evaluations"),
        ("blocked(unsettled)", "cancelled", "cancel", &["human"], ""),
        ("merging", "complete", "branch_merged", &["system"], "set merged=true"),
        ("merging", "retrying", "merge_conflict", &["system"], "compute error; clear pr_head; count conflicts"),
        ("merging", "retrying", "merge_rejected", &["system"], "compute error; clear pr_head; count rejections"),
        ("merging", "merging(hindered)", "merge_failed", &["system"], "compute problem; clear reason"),
        ("retrying", "retrying", "no_worker", &["system"], "count unserved"),
        ("merging", "merging(taking_back)", "cancel", &["human"], "if reason"),
        ("merging(taking_back)", "merging(taking_back)", "cancel", &["human"], "if reason"),
        ("merging(taking_back)", "complete", "branch_merged", &["system"], "set merged=true"),
        ("merging(taking_back)", "merging(hindered)", "merge_failed", &["system"], "compute problem; clear reason"),
        ("merging(taking_back)", "cancelled", "taken_back", &["system"], ""),
        ("merging(taking_back)", "merging(hindered)", "taken_back", &["system"], "set problem=the merge took too long"),
        ("merging(hindered)", "merging", "merge_again", &["human"], "clear problem"),
        ("merging(hindered)", "cancelled", "cancel", &["human"], ""),
    ],
    timed: &[
        ("dispatched", "retrying", "never_started", "10min", Entry, "set error=the worker never started; count retries"),
        ("failed", "cancelled", "unanswered", "14d", Entry, "compute reason"),
        ("merging", "merging(taking_back)", "merge_timeout", "1d", Entry, "set reason=null"),
        ("merging(taking_back)", "merging(hindered)", "merge_timeout", "1d", Entry, "set problem=could not determine whether it was merged, reason=null"),
        ("merging(hindered)", "cancelled", "unanswered", "14d", Entry, "compute reason"),
        ("running", "retrying", "timeout", "60min", Entry, "set error=the worker ran out of time; count retries"),
        ("evaluating", "blocked(no_evaluator)", "timeout", "30min", Entry, "set error=no verdict came in time; count evaluations"),
        ("blocked(no_evaluator)", "evaluating", "evaluate_again", "2min", Entry, ""),
        ("blocked(unsettled)", "cancelled", "unanswered", "14d", Entry, "compute reason"),
        ("blocked", "cancelled", "unanswered", "14d", Entry, "compute reason"),
    ],
    requires: &[("merging(hindered)", &["problem"]), ("blocked(unsettled)", &["error"]), ("retrying", &["error"]), ("failed", &["error"]), ("cancelled", &["reason"])],
    does: &[
        ("merging(hindered)", "human", &[("merge", "merge_again"), ("cancel", "cancel")]),
        ("dispatched", "wait", &[("met", "start")]),
        (
            "running",
            "agent",
            &[
                ("succeeded", "ended"),
                ("needs_person", "block"),
                ("over_budget", "block"),
                ("exhausted", "block"),
                ("otherwise", "again retry"),
            ],
        ),
        (
            "merging",
            "merge",
            &[
                ("merged", "branch_merged"),
                ("conflict", "merge_conflict"),
                ("rejected", "merge_rejected"),
                ("otherwise", "merge_failed"),
            ],
        ),
        (
            "merging(taking_back)",
            "merge",
            &[("merged", "branch_merged"), ("not_merged", "taken_back"), ("otherwise", "merge_failed")],
        ),
        ("failed", "human", &[("retry", "retry"), ("cancel", "cancel")]),
        ("evaluating", "panel", &[("unavailable", "no_verdict"), ("otherwise", "ask_person")]),
        (
            "blocked(unsettled)",
            "human",
            &[("approve", "complete"), ("changes", "retry"), ("retry", "evaluate_again"), ("cancel", "cancel")],
        ),
        ("blocked", "human", &[("cancel", "cancel")]),
    ],
    effects: &[
        ("merging(hindered)", "notify"),
        ("complete", "notify, clean_up"),
        ("blocked(unsettled)", "notify"),
        ("failed", "alert, clean_up"),
        ("cancelled", "clean_up"),
    ],
    counters: &[
        ("unserved", Some(3), Some("blocked")),
        ("over_budget", Some(1), Some("blocked")),
        ("evaluations", Some(3), Some("blocked(unsettled)")),
        ("conflicts", Some(3), Some("blocked")),
        ("rejections", Some(3), Some("blocked")),
    ],
};

pub(super) const TABLE: Table = Table {
    name: "supervised",
    initial: "queued",
    roles: &["worker", "evaluator"],
    seed: SEED,
    pending: &[],
    added: ADDED,
};

fn started(play: &mut Play) {
    play.claim("worker:wim").expect("it is queued");
    assert_eq!(play.state(), "dispatched");
    play.walk(&[("system", "running")]);
}

#[test]
fn checks_that_passed_are_merged_and_anything_else_is_evaluated() {
    for (facts, state) in [
        (json!({ "verified": true }), "merging"),
        (json!({ "pr_url": "https://forge.test/1" }), "evaluating"),
        (Value::Null, "evaluating"),
    ] {
        let mut play = Play::of("supervised");
        started(&mut play);
        assert_eq!(play.end_run(Outcome::Succeeded, "", facts), state);
    }
}

#[test]
fn three_retries_then_it_is_blocked_and_an_unblock_gives_a_new_allowance() {
    let mut play = Play::of("supervised");
    for state in ["retrying", "retrying", "retrying", "blocked"] {
        started(&mut play);
        let error = json!({ "error": "segmentation fault" });
        assert_eq!(play.pull("worker:wim", "retry", error).expect("a worker may"), state);
    }
    assert_eq!(play.field("error"), json!("retried too often: segmentation fault"));
    play.walk(&[("human:kim", "queued")]);
    started(&mut play);
    assert_eq!(play.end_run(Outcome::Crashed, "again", Value::Null), "retrying");
}

#[test]
fn silence_of_people_ends_what_is_blocked_at_last() {
    let mut play = Play::of("supervised");
    play.pull("human:kim", "block", json!({ "error": "a key is missing" })).expect("people may");
    assert_eq!(play.wait("13d"), "blocked");
    assert_eq!(play.wait("1d"), "cancelled");
    assert_eq!(play.field("reason"), json!("nobody has answered: a key is missing"));
}

#[test]
fn silence_is_evaluated_and_a_silent_evaluation_is_repeated() {
    let mut play = Play::of("supervised");
    started(&mut play);
    assert_eq!(play.wait("10min"), "evaluating");
    assert_eq!(play.wait("30min"), "blocked(no_evaluator)");
    assert_eq!(play.wait("2min"), "evaluating");
}
