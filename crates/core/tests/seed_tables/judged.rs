//! The run and judge flow (seed 003), with the reasons of `blocked` as states of that group.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Failed, Queued, Reviewing, Waiting, Working,
};
use banksman_core::lifecycle::check::Overrides;
use serde_json::{Value, json};

use super::play::Play;
use super::{NONE, Pending, Quote, Rows, Table, lifecycle, states, timed};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("Task が `queued` に入る", states(&[("queued", Queued)])),
    ("Dispatcher が lease を取得し task を `running` にする", Rows {
        states: &[("running", Working)],
        moves: &[("queued", "running", "claim", &["worker", "tester", "docser"], "if role")],
        ..NONE
    }),
    ("review が必要なら通常 `blocked(awaiting_judge)`", Rows {
        states: &[("blocked(awaiting_judge)", Reviewing)],
        moves: &[
            ("running", "blocked(awaiting_judge)", "succeed", &["worker", "tester", "docser", "system"], ""),
            ("running", "blocked(awaiting_judge)", "ask_judge", &["worker", "tester", "docser"], ""),
        ],
        ..NONE
    }),
    ("直接完了なら `done`", Rows {
        states: &[("done", Done)],
        terminal: &["done"],
        ..NONE
    }),
    ("Judge が成功 run を評価", Rows {
        moves: &[
            ("blocked(awaiting_judge)", "merging", "approve", &["system"], ""),
            ("blocked(awaiting_judge)", "merging", "approve", &["judge", "human"], "if pr_head"),
        ],
        does: &[("blocked(awaiting_judge)", "panel", &[("approved", "approve")])],
        ..NONE
    }),
    // A signature that repeats trips the circuit breaker of the failure table.
    ("non-approve 昇格、失敗シグネチャ反復、または明示的 autofix 経路", Rows {
        states: &[("blocked(needs_rework)", Blocked)],
        moves: &[
            ("blocked(awaiting_judge)", "blocked(needs_rework)", "request_changes", &["judge", "human", "system"], "compute feedback"),
        ],
        does: &[("blocked(awaiting_judge)", "panel", &[("blocked", "request_changes")])],
        ..NONE
    }),
    ("Approve 後でも merge conflict があれば `[AutoFix-Conflict] PR #...` を生成する場合あり", Rows {
        states: &[("merging", Reviewing)],
        moves: &[("merging", "queued", "merge_conflict", &["system"], "compute feedback; count conflicts")],
        does: &[("merging", "merge", &[("conflict", "merge_conflict")])],
        ..NONE
    }),
    ("`blocked(quota_wait)` for quota signatures", Rows {
        states: &[("blocked(quota_wait)", Blocked)],
        moves: &[("running", "blocked(quota_wait)", "quota_hit", &["worker", "tester", "docser", "system"], "")],
        does: &[("running", "agent", &[("quota", "again quota_hit")])],
        ..NONE
    }),
    ("`failed` otherwise", Rows {
        states: &[("failed", Failed)],
        moves: &[
            ("running", "failed", "fail", &["system"], "compute diagnostic"),
            ("running", "failed", "fail", &["worker", "tester", "docser"], "compute retry_at; count reported_failures"),
        ],
        does: &[("running", "agent", &[("otherwise", "again fail")])],
        ..NONE
    }),
    ("期限切れ lease の cleanup", timed(&[
        ("running", "failed", "lease_expired", "60min", Entry, "set diagnostic=the lease has expired; compute retry_at; count reported_failures"),
    ])),
    ("timeout run の cancellation", timed(&[
        ("running", "failed", "stuck", "15min", Progress, "set diagnostic=the run is stuck; compute retry_at; count reported_failures"),
    ])),
    ("failed task の cooldown requeue", Rows {
        moves: &[("failed", "queued", "retry_due", &["system"], "")],
        does: &[("failed", "wait", &[("met", "retry_due")])],
        ..NONE
    }),
    ("cooldown 後に requeue", Rows {
        moves: &[("blocked(quota_wait)", "queued", "quota_back", &["system"], "")],
        timed: &[("blocked(quota_wait)", "queued", "quota_timeout", "30min", Entry, "count quota_waits")],
        ..NONE
    }),
    ("policy-only violation は `allowedPaths` 調整後の in-place requeue が可能。安全経路がなければ rework split を抑制（retry 上限後に cancel）", Rows {
        states: &[("cancelled", Cancelled)],
        terminal: &["cancelled"],
        timed: &[("blocked(needs_rework)", "queued", "rework_in_place", "2min", Entry, "count reworks")],
        ..NONE
    }),
    ("legacy の `needs_human` は有効な回復経路へ正規化されます。", Rows {
        states: &[("blocked(needs_person)", Waiting)],
        moves: &[("blocked(needs_person)", "queued", "unblock", &["human"], "clear question; reset reported_failures, quota_waits, unserved, judge_attempts, reworks, conflicts, rejections")],
        does: &[("running", "agent", &[("needs_person", "escalate")])],
        ..NONE
    }),
];

#[rustfmt::skip] // One row, one line: it is read as a table.
const PENDING: &[Pending] = &[
    (
        "planner が issue-link metadata 解決まで task を一時待機させ、解決後に `queued` へ戻す",
        &[
            ("queued", "blocked(issue_linking)", "link_issue", &["planner", "system"]),
            ("blocked(issue_linking)", "queued", "linked", &["planner", "system"]),
            ("blocked(issue_linking)", "queued", "link_timeout", &["system"]),
        ],
        "the import of issues",
    ),
    (
        "active run がない orphaned `running` task の回復",
        &[("running", "queued", "orphaned", &["system"])],
        "the recovery of tasks without a run",
    ),
    (
        "PR review task: `awaiting_judge` へ戻す",
        &[("blocked(needs_rework)", "blocked(awaiting_judge)", "settle", &["system"])],
        "tasks that review pull requests",
    ),
    (
        "通常 task: `[Rework] ...` task を生成し、親を failed lineage へ移動",
        &[("blocked(needs_rework)", "failed", "split", &["planner", "system"])],
        "rework tasks",
    ),
    (
        "rework depth が `AUTO_REWORK_MAX_DEPTH` を超えた場合は cancel",
        &[("blocked(needs_rework)", "cancelled", "settle", &["system"])],
        "rework tasks",
    ),
];

/// The seed's document has no cancel and no retry by people, no limit for silent judges, and leaves
/// the merge to the forge. And the lifecycle deviates from it on purpose: what needs no review is
/// merged before it is done, a silent judge is asked again instead of doing the work again, and at
/// a limit a person decides about paid work, where the document cancels it.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[
        ("merging(taking_back)", Reviewing),
        ("merging(hindered)", Waiting),
        ("blocked(no_judge)", Blocked),
        ("blocked(unsettled)", Waiting),
    ],
    terminal: &[],
    moves: &[
        ("queued", "queued", "no_worker", &["system"], "count unserved"),
        ("running", "merging", "succeed", &["system"], "if review_needed"),
        ("merging", "done", "branch_merged", &["system"], "set merged=true"),
        ("merging", "queued", "merge_rejected", &["system"], "compute feedback; count rejections"),
        ("merging", "merging(hindered)", "merge_failed", &["system"], "compute problem; clear reason"),
        ("merging", "merging(taking_back)", "cancel", &["human"], "if reason"),
        ("merging(taking_back)", "merging(taking_back)", "cancel", &["human"], "if reason"),
        ("merging(taking_back)", "done", "branch_merged", &["system"], "set merged=true"),
        ("merging(taking_back)", "merging(hindered)", "merge_failed", &["system"], "compute problem; clear reason"),
        ("merging(taking_back)", "cancelled", "taken_back", &["system"], ""),
        ("merging(taking_back)", "merging(hindered)", "taken_back", &["system"], "set problem=the merge took too long"),
        ("merging(hindered)", "merging", "merge_again", &["human"], "clear problem"),
        ("merging(hindered)", "cancelled", "cancel", &["human"], ""),
        ("queued", "blocked(needs_person)", "escalate", &["human", "system"], "compute question"),
        ("queued", "cancelled", "cancel", &["human"], ""),
        ("running", "blocked(needs_person)", "escalate", &["worker", "tester", "docser", "human", "system"], "compute question"),
        ("running", "cancelled", "cancel", &["human"], ""),
        ("blocked(awaiting_judge)", "blocked(no_judge)", "no_verdict", &["system"], "compute question; count judge_attempts"),
        ("blocked(awaiting_judge)", "blocked(unsettled)", "ask_person", &["system"], "compute question"),
        ("blocked(awaiting_judge)", "queued", "retry", &["human"], "reset reported_failures, quota_waits, unserved, judge_attempts, reworks, conflicts, rejections"),
        ("blocked(awaiting_judge)", "blocked(unsettled)", "escalate", &["judge", "human"], ""),
        ("blocked(awaiting_judge)", "cancelled", "cancel", &["human"], ""),
        ("blocked(no_judge)", "merging", "approve", &["human"], "if pr_head; clear question"),
        ("blocked(no_judge)", "blocked(needs_rework)", "request_changes", &["human"], "clear question; reset judge_attempts, reworks"),
        ("blocked(no_judge)", "blocked(unsettled)", "escalate", &["human"], ""),
        ("blocked(no_judge)", "blocked(awaiting_judge)", "judge_again", &["human"], "clear question; reset judge_attempts"),
        ("blocked(no_judge)", "cancelled", "cancel", &["human"], ""),
        ("blocked(unsettled)", "merging", "approve", &["human"], "if pr_head; clear question"),
        ("blocked(unsettled)", "blocked(needs_rework)", "request_changes", &["human"], "clear question; reset judge_attempts, reworks"),
        ("blocked(unsettled)", "blocked(awaiting_judge)", "judge_again", &["human"], "clear question; reset judge_attempts"),
        ("blocked(unsettled)", "cancelled", "cancel", &["human"], ""),
        ("blocked(quota_wait)", "queued", "retry", &["human"], "reset reported_failures, quota_waits, unserved, judge_attempts, reworks, conflicts, rejections"),
        ("blocked(quota_wait)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(quota_wait)", "cancelled", "cancel", &["human"], ""),
        ("blocked(needs_rework)", "queued", "retry", &["human"], "reset reported_failures, quota_waits, unserved, judge_attempts, reworks, conflicts, rejections"),
        ("blocked(needs_rework)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(needs_rework)", "cancelled", "cancel", &["human"], ""),
        ("blocked(needs_person)", "cancelled", "cancel", &["human"], ""),
        ("failed", "queued", "retry", &["human"], "reset reported_failures, quota_waits, unserved, judge_attempts, reworks, conflicts, rejections"),
        ("failed", "blocked(needs_person)", "escalate", &["human"], ""),
        ("failed", "cancelled", "cancel", &["human"], ""),
    ],
    timed: &[
        ("blocked(awaiting_judge)", "blocked(no_judge)", "judge_timeout", "15min", Entry, "set question=no verdict came in time; count judge_attempts"),
        ("blocked(no_judge)", "blocked(awaiting_judge)", "judge_again", "2min", Entry, ""),
        ("blocked(needs_person)", "cancelled", "unanswered", "14d", Entry, "set reason=nobody has answered"),
        ("blocked(unsettled)", "cancelled", "unanswered", "14d", Entry, "set reason=nobody has answered"),
        ("merging", "merging(taking_back)", "merge_timeout", "1d", Entry, "set reason=null"),
        ("merging(taking_back)", "merging(hindered)", "merge_timeout", "1d", Entry, "set problem=could not determine whether it was merged, reason=null"),
        ("merging(hindered)", "cancelled", "unanswered", "14d", Entry, "compute reason"),
    ],
    requires: &[
        ("blocked(needs_rework)", &["feedback"]),
        ("blocked(needs_person)", &["question"]),
        ("blocked(unsettled)", &["question"]),
        ("merging(hindered)", &["problem"]),
        ("failed", &["diagnostic", "retry_at"]),
        ("cancelled", &["reason"]),
    ],
    does: &[
        ("merging(hindered)", "human", &[("merge", "merge_again"), ("cancel", "cancel")]),
        ("running", "agent", &[("succeeded", "succeed"), ("over_budget", "escalate"), ("exhausted", "escalate")]),
        (
            "merging",
            "merge",
            &[("merged", "branch_merged"), ("rejected", "merge_rejected"), ("otherwise", "merge_failed")],
        ),
        (
            "merging(taking_back)",
            "merge",
            &[("merged", "branch_merged"), ("not_merged", "taken_back"), ("otherwise", "merge_failed")],
        ),
        (
            "blocked(awaiting_judge)",
            "panel",
            &[("escalated", "ask_person"), ("unresolved", "ask_person"), ("unavailable", "no_verdict")],
        ),
        ("blocked(quota_wait)", "wait", &[("met", "quota_back")]),
        ("blocked(needs_person)", "human", &[("resume", "unblock"), ("cancel", "cancel")]),
        (
            "blocked(unsettled)",
            "human",
            &[("approve", "approve"), ("changes", "request_changes"), ("retry", "judge_again"), ("cancel", "cancel")],
        ),
    ],
    effects: &[
        ("merging(hindered)", "notify"),
        ("blocked(needs_rework)", "alert"),
        ("blocked(needs_person)", "notify"),
        ("blocked(unsettled)", "notify"),
        ("done", "clean_up"),
        ("cancelled", "clean_up"),
    ],
    counters: &[
        ("reported_failures", Some(3), Some("blocked(needs_person)")),
        ("quota_waits", Some(48), Some("blocked(needs_person)")),
        ("unserved", Some(3), Some("blocked(needs_person)")),
        ("judge_attempts", Some(3), Some("blocked(unsettled)")),
        ("rejections", Some(3), Some("blocked(needs_person)")),
        ("conflicts", Some(3), Some("blocked(needs_person)")),
        ("reworks", Some(5), Some("blocked(needs_person)")),
    ],
};

pub(super) const TABLE: Table = Table {
    name: "judged",
    initial: "queued",
    roles: &["worker", "tester", "docser", "judge"],
    seed: SEED,
    pending: PENDING,
    added: ADDED,
};

#[test]
fn the_reasons_of_blocked_are_one_group() {
    let lifecycle = lifecycle("judged");
    let members = lifecycle.states.iter().filter(|state| state.group.as_deref() == Some("blocked"));
    let names: Vec<&str> = members.map(|state| state.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "blocked(awaiting_judge)",
            "blocked(no_judge)",
            "blocked(unsettled)",
            "blocked(quota_wait)",
            "blocked(needs_rework)",
            "blocked(needs_person)"
        ]
    );
    assert_eq!(lifecycle.find_state("quota_wait"), lifecycle.find_state("blocked(quota_wait)"));
}

fn ended(fields: Value, outcome: Outcome) -> Play {
    let mut play =
        Play::born("judged", &Overrides::new(), fields).expect("it needs no other field");
    run(&mut play, outcome, Value::Null);
    play
}

fn run(play: &mut Play, outcome: Outcome, facts: Value) {
    play.claim("worker:wim").expect("it is queued");
    play.end_run(outcome, "the tests are red", facts);
}

#[test]
fn outcomes_lead_where_the_seed_says() {
    for (outcome, state) in [
        (Outcome::Succeeded, "blocked(awaiting_judge)"),
        (Outcome::Quota, "blocked(quota_wait)"),
        // `needs_human` recovers: a person is asked, and the task is queued again.
        (Outcome::NeedsPerson, "blocked(needs_person)"),
        (Outcome::OverBudget, "blocked(needs_person)"),
        (Outcome::Exhausted, "blocked(needs_person)"),
    ] {
        assert_eq!(ended(json!({}), outcome).state(), state, "{outcome}");
    }
    for outcome in [Outcome::VerifyFailed, Outcome::Crashed, Outcome::Policy] {
        let mut play = Play::of("judged");
        run(&mut play, outcome, json!({ "retry_at": "2030-01-01T00:00:00Z" }));
        assert_eq!(play.state(), "failed", "{outcome}");
        assert_eq!(play.field("diagnostic"), json!("the tests are red"));
    }
    for (needed, verified, state) in [
        (false, true, "merging"),
        (false, false, "blocked(awaiting_judge)"),
        (true, true, "blocked(awaiting_judge)"),
    ] {
        let mut play = Play::born("judged", &Overrides::new(), json!({ "review_needed": needed }))
            .expect("it needs no other field");
        run(&mut play, Outcome::Succeeded, json!({ "verified": verified }));
        assert_eq!(play.state(), state, "{needed} {verified}");
    }
}

#[test]
fn the_fifth_rework_in_place_is_left_to_a_person() {
    let mut play = ended(json!({}), Outcome::Succeeded);
    let feedback = json!({ "feedback": "no tests" });
    for rework in 1..=5 {
        play.pull("judge:jo", "request_changes", feedback.clone()).expect("a judge may");
        let state = if rework < 5 { "queued" } else { "blocked(needs_person)" };
        assert_eq!(play.wait("2min"), state, "{rework}");
        if rework < 5 {
            run(&mut play, Outcome::Succeeded, Value::Null);
        }
    }
}

#[test]
fn a_judge_who_is_silent_three_times_is_replaced_by_a_person() {
    let mut play = ended(json!({}), Outcome::Succeeded);
    for state in ["blocked(no_judge)", "blocked(no_judge)", "blocked(unsettled)"] {
        assert_eq!(play.wait("15min"), state);
        if state == "blocked(no_judge)" {
            assert_eq!(play.wait("2min"), "blocked(awaiting_judge)");
        }
    }
}

#[test]
fn a_quota_wait_ends_by_itself() {
    let mut play = ended(json!({}), Outcome::Quota);
    assert_eq!(play.wait("29min"), "blocked(quota_wait)");
    assert_eq!(play.wait("1min"), "queued");
}
