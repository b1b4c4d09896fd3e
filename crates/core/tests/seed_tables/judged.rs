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
        moves: &[("queued", "running", "claim", &["worker", "tester", "docser"], "")],
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
        moves: &[("running", "done", "succeed", &["system"], "if review_needed")],
        ..NONE
    }),
    ("Judge が成功 run を評価", Rows {
        moves: &[("blocked(awaiting_judge)", "done", "approve", &["judge", "human", "system"], "")],
        does: &[("blocked(awaiting_judge)", "panel", &[("approved", "approve")])],
        ..NONE
    }),
    ("non-approve 昇格、失敗シグネチャ反復、または明示的 autofix 経路", Rows {
        states: &[("blocked(needs_rework)", Blocked)],
        moves: &[
            ("blocked(awaiting_judge)", "blocked(needs_rework)", "request_changes", &["judge", "human", "system"], "compute feedback"),
            ("running", "blocked(needs_rework)", "rework", &["system"], "compute feedback"),
        ],
        does: &[("blocked(awaiting_judge)", "panel", &[("blocked", "request_changes")])],
        counters: &[("retries", Some(3), Some("blocked(needs_rework)"))],
        ..NONE
    }),
    ("`blocked(quota_wait)` for quota signatures", Rows {
        states: &[("blocked(quota_wait)", Blocked)],
        moves: &[("running", "blocked(quota_wait)", "quota_hit", &["worker", "tester", "docser", "system"], "")],
        does: &[("running", "agent", &[("quota", "quota_hit")])],
        ..NONE
    }),
    ("`failed` otherwise", Rows {
        states: &[("failed", Failed)],
        moves: &[("running", "failed", "fail", &["worker", "tester", "docser", "system"], "compute diagnostic")],
        does: &[("running", "agent", &[("otherwise", "fail")])],
        ..NONE
    }),
    ("期限切れ lease の cleanup", timed(&[
        ("running", "failed", "lease_expired", "60min", Entry, "set diagnostic=the lease has expired"),
    ])),
    ("timeout run の cancellation", timed(&[
        ("running", "failed", "stuck", "15min", Progress, "set diagnostic=the run is stuck"),
    ])),
    ("failed task の cooldown requeue", timed(&[("failed", "queued", "retry_due", "30s", Entry, "count retries")])),
    ("それ以外は timeout-requeue", timed(&[
        ("blocked(awaiting_judge)", "queued", "judge_timeout", "15min", Progress, "count judge_attempts"),
    ])),
    ("cooldown 後に requeue", Rows {
        moves: &[("blocked(quota_wait)", "queued", "quota_back", &["system"], "count quota_waits")],
        timed: &[("blocked(quota_wait)", "queued", "quota_timeout", "30min", Entry, "count quota_waits")],
        ..NONE
    }),
    ("policy-only violation は `allowedPaths` 調整後の in-place requeue が可能。安全経路がなければ rework split を抑制（retry 上限後に cancel）", Rows {
        states: &[("cancelled", Cancelled)],
        terminal: &["cancelled"],
        timed: &[("blocked(needs_rework)", "queued", "rework_in_place", "2min", Entry, "count reworks")],
        does: &[("running", "agent", &[("policy", "rework")])],
        counters: &[("reworks", Some(5), Some("cancelled"))],
        ..NONE
    }),
    ("legacy の `needs_human` は有効な回復経路へ正規化されます。", Rows {
        states: &[("blocked(needs_person)", Waiting)],
        moves: &[("blocked(needs_person)", "queued", "unblock", &["human"], "clear question; reset retries, quota_waits, judge_attempts, reworks")],
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
        "Approve 後でも merge conflict があれば `[AutoFix-Conflict] PR #...` を生成する場合あり",
        &[("blocked(awaiting_judge)", "blocked(needs_rework)", "merge_conflict", &["judge", "system"])],
        "the merge of judged work",
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

/// The seed's document has no cancel and no retry by people, and no limit for silent judges.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[],
    terminal: &[],
    moves: &[
        ("queued", "blocked(needs_person)", "escalate", &["human", "system"], "compute question"),
        ("queued", "cancelled", "cancel", &["human"], ""),
        ("running", "blocked(needs_person)", "escalate", &["worker", "tester", "docser", "human", "system"], "compute question"),
        ("running", "cancelled", "cancel", &["human"], ""),
        ("blocked(awaiting_judge)", "queued", "judge_timeout", &["system"], "count judge_attempts"),
        ("blocked(awaiting_judge)", "queued", "retry", &["human"], "reset retries, quota_waits, judge_attempts, reworks"),
        ("blocked(awaiting_judge)", "blocked(needs_person)", "escalate", &["judge", "human"], ""),
        ("blocked(awaiting_judge)", "cancelled", "cancel", &["human"], ""),
        ("blocked(quota_wait)", "queued", "retry", &["human"], "reset retries, quota_waits, judge_attempts, reworks"),
        ("blocked(quota_wait)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(quota_wait)", "cancelled", "cancel", &["human"], ""),
        ("blocked(needs_rework)", "queued", "retry", &["human"], "reset retries, quota_waits, judge_attempts, reworks"),
        ("blocked(needs_rework)", "blocked(needs_person)", "escalate", &["human"], ""),
        ("blocked(needs_rework)", "cancelled", "cancel", &["human"], ""),
        ("blocked(needs_person)", "cancelled", "cancel", &["human"], ""),
        ("failed", "queued", "retry", &["human"], "reset retries, quota_waits, judge_attempts, reworks"),
        ("failed", "blocked(needs_person)", "escalate", &["human"], ""),
        ("failed", "cancelled", "cancel", &["human"], ""),
    ],
    timed: &[("blocked(needs_person)", "cancelled", "unanswered", "14d", Entry, "set reason=nobody has answered")],
    requires: &[
        ("blocked(needs_rework)", &["feedback"]),
        ("blocked(needs_person)", &["question"]),
        ("failed", &["diagnostic"]),
        ("cancelled", &["reason"]),
    ],
    does: &[
        ("running", "agent", &[("succeeded", "succeed"), ("nothing_to_do", "rework"), ("over_budget", "escalate")]),
        (
            "blocked(awaiting_judge)",
            "panel",
            &[("escalated", "request_changes"), ("unresolved", "request_changes"), ("unavailable", "judge_timeout")],
        ),
        ("blocked(quota_wait)", "wait", &[("met", "quota_back")]),
        ("blocked(needs_person)", "human", &[("resume", "unblock"), ("cancel", "cancel")]),
    ],
    effects: &[
        ("blocked(needs_rework)", "alert"),
        ("blocked(needs_person)", "notify"),
        ("done", "clean_up"),
        ("cancelled", "clean_up"),
    ],
    counters: &[("quota_waits", Some(48), Some("failed")), ("judge_attempts", Some(3), Some("failed"))],
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
