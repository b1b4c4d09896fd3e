//! The task state machine with ranks and artifacts (seed 001).

use std::collections::BTreeSet;

use banksman_core::lifecycle::Setting;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Queued, Reviewing, Waiting, Working,
};
use banksman_core::lifecycle::check::Overrides;
use serde_json::{Value, json};

use super::play::{Play, errors};
use super::{NONE, Pending, Quote, Rows, Table, counters, moves, requires, states};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("| **INBOX** | New task, not yet assigned |", states(&[("INBOX", Queued)])),
    ("| **ASSIGNED** | Task assigned to agent(s) |", states(&[("ASSIGNED", Working)])),
    ("| **IN_PROGRESS** | Agent actively working |", states(&[("IN_PROGRESS", Working)])),
    ("| **REVIEW** | Submitted for review |", states(&[("REVIEW", Reviewing)])),
    ("| **NEEDS_APPROVAL** | Waiting for human approval |", states(&[("NEEDS_APPROVAL", Waiting)])),
    ("| **BLOCKED** | Cannot proceed |", states(&[("BLOCKED", Blocked)])),
    ("| **DONE** | Completed and approved |", Rows { states: &[("DONE", Done)], terminal: &["DONE"], ..NONE }),
    ("| **CANCELED** | Abandoned |", Rows { states: &[("CANCELED", Cancelled)], terminal: &["CANCELED"], ..NONE }),

    // Transition rules.
    ("### INBOX → ASSIGNED", Rows {
        moves: &[("INBOX", "ASSIGNED", "assign", &["lead", "human"], "if assigneeIds")],
        requires: &[("ASSIGNED", &["assigneeIds"])],
        ..NONE
    }),
    ("### ASSIGNED → IN_PROGRESS", Rows {
        moves: &[
            ("ASSIGNED", "IN_PROGRESS", "start", &["human"], "clear automatic; keep workPlan"),
            ("ASSIGNED", "IN_PROGRESS", "start", &["intern", "specialist", "lead"], "if assigneeIds; clear automatic; keep workPlan"),
            ("ASSIGNED", "IN_PROGRESS", "start", &["system"], "set automatic=true; keep workPlan"),
        ],
        requires: &[("IN_PROGRESS", &["workPlan", "workPlan", "assigneeIds"])],
        ..NONE
    }),
    ("### IN_PROGRESS → REVIEW", Rows {
        moves: &[
            ("IN_PROGRESS", "REVIEW", "submit", &["human"], "compute costSummary, submittedBy; clear feedback; keep deliverable, reviewChecklist, costSummary"),
            ("IN_PROGRESS", "REVIEW", "submit", &["intern", "specialist", "lead"], "if assigneeIds; compute costSummary, submittedBy; clear feedback; keep deliverable, reviewChecklist, costSummary"),
            ("IN_PROGRESS", "REVIEW", "submit", &["system"], "if reviewChecklist; compute costSummary; clear feedback, submittedBy; keep deliverable, reviewChecklist, costSummary"),
        ],
        requires: &[("REVIEW", &["deliverable", "reviewChecklist", "reviewChecklist", "costSummary"])],
        ..NONE
    }),
    ("### REVIEW → IN_PROGRESS", moves(&[
        ("REVIEW", "IN_PROGRESS", "revise", &["human"], "if feedback; compute loopSummary; clear clarification; count reviewCycles; keep feedback"),
        ("REVIEW", "IN_PROGRESS", "revise", &["specialist", "lead"], "if reviewerIds, feedback, assigneeIds; compute loopSummary; clear clarification; count reviewCycles; keep feedback"),
    ])),
    ("### REVIEW → DONE", Rows {
        moves: &[
            ("REVIEW", "DONE", "approve", &["human"], "if pr_head; compute approvedAt, approvedBy; keep approvedBy, approvedAt, decisionNote"),
            ("REVIEW", "DONE", "approve", &["lead"], "if pr_head, approvedBy, assigneeIds; compute approvedAt, approvedBy; keep approvedBy, approvedAt, decisionNote"),
        ],
        requires: &[("DONE", &["approvedBy", "approvedAt", "decisionNote"])],
        ..NONE
    }),
    ("### Any → NEEDS_APPROVAL", Rows {
        moves: &[
            ("INBOX", "NEEDS_APPROVAL", "escalate", &["system"], "compute approvalRequest"),
            ("ASSIGNED", "NEEDS_APPROVAL", "escalate", &["system"], "if looped; compute approvalRequest"),
            ("IN_PROGRESS", "NEEDS_APPROVAL", "escalate", &["specialist", "lead"], "if assigneeIds"),
            ("IN_PROGRESS", "NEEDS_APPROVAL", "escalate", &["system"], "if looped; compute approvalRequest"),
            ("REVIEW", "NEEDS_APPROVAL", "escalate", &["system"], "compute approvalRequest"),
            ("BLOCKED", "NEEDS_APPROVAL", "escalate", &["system"], "compute approvalRequest"),
        ],
        requires: &[("NEEDS_APPROVAL", &["approvalRequest"])],
        ..NONE
    }),
    ("- **Required:** Block reason documented", requires(&[("BLOCKED", &["blockReason"])])),
    ("- After 3 cycles: Task moves to BLOCKED with Loop Summary", counters(&[("reviewCycles", Some(3), Some("BLOCKED"))])),
    ("- To continue: Human must unblock and clarify requirements", moves(&[
        ("BLOCKED", "IN_PROGRESS", "unblock", &["human"], "if clarification; clear blockReason, looped; reset reviewCycles, incomplete, conflicts, rejections"),
        ("BLOCKED", "ASSIGNED", "unblock", &["human"], "if clarification, workPlan; clear blockReason, looped; reset reviewCycles, incomplete, conflicts, rejections"),
    ])),
    ("| **Specialist** | Above + IN_PROGRESS→BLOCKED (self), claim from INBOX |", moves(&[
        ("INBOX", "ASSIGNED", "claim", &["specialist", "lead"], "compute assigneeIds"),
        ("IN_PROGRESS", "BLOCKED", "block", &["specialist", "lead"], "if assigneeIds; clear clarification"),
    ])),
    // What a run ends with. Nothing blocks a task on which no agent works.
    ("- Repeated tool failures (≥3)", moves(&[
        ("ASSIGNED", "BLOCKED", "escalate", &["system"], "if looped; compute blockReason, loopSummary; clear clarification"),
        ("IN_PROGRESS", "BLOCKED", "escalate", &["system"], "if looped; compute blockReason, loopSummary; clear clarification"),
    ])),
    ("- External dependency unavailable", moves(&[
        ("ASSIGNED", "BLOCKED", "block", &["system"], "compute blockReason; clear clarification"),
        ("IN_PROGRESS", "BLOCKED", "block", &["system"], "compute blockReason; clear clarification"),
    ])),
    // The other cells of the matrix, which is drawn below.
    ("| **Human** | All transitions |", moves(&[
        ("INBOX", "CANCELED", "cancel", &["human"], ""),
        ("ASSIGNED", "INBOX", "unassign", &["human"], "clear assigneeIds"),
        ("ASSIGNED", "CANCELED", "cancel", &["human"], ""),
        ("IN_PROGRESS", "NEEDS_APPROVAL", "escalate", &["human"], ""),
        ("IN_PROGRESS", "BLOCKED", "block", &["human"], "clear clarification"),
        ("IN_PROGRESS", "CANCELED", "cancel", &["human"], ""),
        ("REVIEW", "NEEDS_APPROVAL", "escalate", &["human"], ""),
        ("REVIEW", "BLOCKED", "block", &["human"], "clear clarification"),
        ("REVIEW", "CANCELED", "cancel", &["human"], ""),
        ("NEEDS_APPROVAL", "INBOX", "return", &["human"], "clear assigneeIds"),
        ("NEEDS_APPROVAL", "ASSIGNED", "reassign", &["human"], ""),
        ("NEEDS_APPROVAL", "IN_PROGRESS", "start", &["human"], ""),
        ("NEEDS_APPROVAL", "REVIEW", "submit", &["human"], "compute costSummary, submittedBy"),
        ("NEEDS_APPROVAL", "BLOCKED", "block", &["human"], "clear clarification"),
        ("NEEDS_APPROVAL", "DONE", "complete", &["human"], "if pr_head; compute approvedAt, approvedBy; keep approvedBy, approvedAt, decisionNote"),
        ("NEEDS_APPROVAL", "CANCELED", "cancel", &["human"], ""),
        ("BLOCKED", "ASSIGNED", "reassign", &["human"], "if clarification; clear blockReason, looped; reset reviewCycles, incomplete, conflicts, rejections"),
        ("BLOCKED", "NEEDS_APPROVAL", "escalate", &["human"], ""),
        ("BLOCKED", "CANCELED", "cancel", &["human"], ""),
    ])),
];

#[rustfmt::skip] // One row, one line: it is read as a table.
const PENDING: &[Pending] = &[(
    "| **System** | Any→BLOCKED, Any→NEEDS_APPROVAL |",
    &[
        ("INBOX", "BLOCKED", "block", &["system"]),
        ("REVIEW", "BLOCKED", "block", &["system"]),
        ("NEEDS_APPROVAL", "BLOCKED", "block", &["system"]),
    ],
    "what else may block a task on which no agent works",
)];

#[rustfmt::skip] // One row, one line: it is read as a table.
const AGENT_OF_PLAN: &[(&str, &str)] = &[
    ("succeeded", "start"), ("verify_failed", "again"), ("policy", "again"), ("quota", "again"), ("transient", "again"),
    ("stalled", "again"), ("crashed", "again"), ("needs_person", "escalate"), ("over_budget", "escalate"), ("otherwise", "block"),
];
#[rustfmt::skip] // One row, one line: it is read as a table.
const AGENT_OF_WORK: &[(&str, &str)] = &[
    ("succeeded", "submit"), ("verify_failed", "again"), ("policy", "again"), ("quota", "again"), ("transient", "again"),
    ("stalled", "again"), ("crashed", "again"), ("needs_person", "escalate"), ("over_budget", "escalate"), ("otherwise", "block"),
];

/// The seed bounds nothing in time and says nothing about how people are asked.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[("merging", Reviewing), ("merging(taking_back)", Reviewing), ("merging(hindered)", Waiting)],
    requires: &[("merging", &["approvedBy", "approvedAt", "decisionNote"]), ("merging(hindered)", &["problem"])],
    // What is approved goes back to where it came from; what has commits is merged before its end.
    moves: &[
        ("NEEDS_APPROVAL", "[prior]", "resume", &["human"], ""),
        ("IN_PROGRESS", "IN_PROGRESS", "submit", &["system"], "set clarification=null, feedback=Every item of the review checklist must be completed; count incomplete"),
        ("REVIEW", "merging", "approve", &["human"], "if pr_head; compute approvedAt, approvedBy; keep approvedBy, approvedAt, decisionNote"),
        ("REVIEW", "merging", "approve", &["lead"], "if pr_head, approvedBy, assigneeIds; compute approvedAt, approvedBy; keep approvedBy, approvedAt, decisionNote"),
        ("NEEDS_APPROVAL", "merging", "complete", &["human"], "if pr_head; compute approvedAt, approvedBy; keep approvedBy, approvedAt, decisionNote"),
        ("merging", "DONE", "branch_merged", &["system"], "set merged=true"),
        ("merging(taking_back)", "DONE", "branch_merged", &["system"], "set merged=true"),
        ("merging", "IN_PROGRESS", "merge_conflict", &["system"], "compute feedback; clear approvedBy, approvedAt, decisionNote, clarification; count conflicts"),
        ("merging", "IN_PROGRESS", "merge_rejected", &["system"], "compute feedback; clear approvedBy, approvedAt, decisionNote, clarification; count rejections"),
        ("merging", "merging(hindered)", "merge_failed", &["system"], "compute problem; clear reason"),
        ("merging(taking_back)", "merging(hindered)", "merge_failed", &["system"], "compute problem; clear reason"),
        ("merging", "merging(taking_back)", "cancel", &["human"], "if reason"),
        ("merging(taking_back)", "merging(taking_back)", "cancel", &["human"], "if reason"),
        ("merging(taking_back)", "CANCELED", "taken_back", &["system"], "if reason"),
        ("merging(taking_back)", "merging(hindered)", "taken_back", &["system"], "set problem=the merge took too long"),
        ("merging(hindered)", "merging", "merge_again", &["human"], "clear problem"),
        ("merging(hindered)", "CANCELED", "cancel", &["human"], ""),
    ],
    counters: &[
        ("incomplete", Some(3), Some("BLOCKED")),
        ("conflicts", Some(3), Some("BLOCKED")),
        ("rejections", Some(3), Some("BLOCKED")),
    ],
    timed: &[
        ("ASSIGNED", "BLOCKED", "stalled", "24h", Progress, "set blockReason=no work plan for too long, clarification=null"),
        ("IN_PROGRESS", "BLOCKED", "stalled", "24h", Progress, "set blockReason=no progress for too long, clarification=null"),
        ("REVIEW", "BLOCKED", "unanswered", "7d", Entry, "set blockReason=nobody has reviewed it, clarification=null"),
        ("NEEDS_APPROVAL", "BLOCKED", "unanswered", "7d", Entry, "set clarification=null; compute blockReason"),
        ("merging", "merging(taking_back)", "merge_timeout", "1d", Entry, "set reason=null"),
        ("merging(taking_back)", "merging(hindered)", "merge_timeout", "1d", Entry, "set problem=could not determine whether it was merged, reason=null"),
        ("merging(hindered)", "CANCELED", "unanswered", "14d", Entry, "compute reason"),
        ("BLOCKED", "CANCELED", "unanswered", "14d", Entry, "compute reason"),
    ],
    does: &[
        ("merging(hindered)", "human", &[("merge", "merge_again"), ("cancel", "cancel")]),
        ("ASSIGNED", "agent", AGENT_OF_PLAN),
        ("IN_PROGRESS", "agent", AGENT_OF_WORK),
        ("merging", "merge", &[("merged", "branch_merged"), ("conflict", "merge_conflict"), ("rejected", "merge_rejected"), ("otherwise", "merge_failed")]),
        ("merging(taking_back)", "merge", &[("merged", "branch_merged"), ("not_merged", "taken_back"), ("otherwise", "merge_failed")]),
        ("REVIEW", "human", &[("approve", "approve"), ("changes", "revise"), ("block", "block"), ("cancel", "cancel")]),
        ("NEEDS_APPROVAL", "human", &[("approve", "resume"), ("back", "return"), ("block", "block"), ("cancel", "cancel")]),
        ("BLOCKED", "human", &[("unblock", "unblock"), ("back", "reassign"), ("cancel", "cancel")]),
    ],
    effects: &[
        ("merging(hindered)", "notify"),
        ("REVIEW", "notify"),
        ("NEEDS_APPROVAL", "notify"),
        ("BLOCKED", "notify"),
        ("DONE", "notify, clean_up"),
        ("CANCELED", "clean_up"),
    ],
    ..NONE
};

pub(super) const TABLE: Table = Table {
    name: "mission",
    initial: "INBOX",
    roles: &["intern", "specialist", "lead"],
    seed: SEED,
    pending: PENDING,
    added: ADDED,
};

const ORDER: [&str; 8] =
    ["INBOX", "ASSIGNED", "IN_PROGRESS", "REVIEW", "NEEDS_APPROVAL", "BLOCKED", "DONE", "CANCELED"];

/// The seed's matrix as it is drawn there: rows from, columns to.
const MATRIX: [(&str, &str); 8] = [
    ("INBOX", "-x-----x"),
    ("ASSIGNED", "x-x----x"),
    ("IN_PROGRESS", "---xxx-x"),
    ("REVIEW", "--x-xxxx"),
    ("NEEDS_APPROVAL", "xxxx-xxx"),
    ("BLOCKED", "-xx-x--x"),
    ("DONE", "--------"),
    ("CANCELED", "--------"),
];

#[test]
fn people_may_make_exactly_the_moves_of_the_matrix() {
    let mut drawn = BTreeSet::new();
    for (from, cells) in MATRIX {
        drawn.extend(
            cells.chars().zip(ORDER).filter(|(cell, _)| *cell == 'x').map(|(_, to)| (from, to)),
        );
    }
    // The seed knows no merge, and `[prior]` is one of the states of its matrix.
    let is_drawn = |row: &&(&str, &str)| ORDER.contains(&row.0) && ORDER.contains(&row.1);
    let rows = TABLE.all(|rows| rows.moves).into_iter().filter(|row| row.3.contains(&"human"));
    let rows: Vec<(&str, &str)> = rows.map(|row| (row.0, row.1)).collect();
    assert_eq!(rows.iter().filter(is_drawn).copied().collect::<BTreeSet<_>>(), drawn);
}

/// "System: Any→BLOCKED, Any→NEEDS_APPROVAL". It may ask already; that it may block is pending.
#[test]
fn the_system_may_block_or_ask_about_every_task_that_is_not_finished() {
    let asks = TABLE.all(|rows| rows.moves).into_iter().filter(|row| {
        let is_seeds = ORDER.contains(&row.0) && ["BLOCKED", "NEEDS_APPROVAL"].contains(&row.1);
        row.3.contains(&"system") && is_seeds
    });
    let blocks = PENDING.iter().flat_map(|(_, rows, _)| *rows).map(|row| (row.0, row.1));
    let rows: BTreeSet<(&str, &str)> = asks.map(|row| (row.0, row.1)).chain(blocks).collect();
    let open = &ORDER[..6];
    let wanted = open
        .iter()
        .flat_map(|from| ["BLOCKED", "NEEDS_APPROVAL"].map(|to| (*from, to)))
        .filter(|(from, to)| from != to);
    assert_eq!(rows, wanted.collect());
}

#[test]
fn an_intern_may_make_two_moves() {
    let rows = TABLE.all(|rows| rows.moves).into_iter().filter(|row| row.3.contains(&"intern"));
    assert_eq!(
        rows.map(|row| (row.0, row.1)).collect::<Vec<_>>(),
        [("ASSIGNED", "IN_PROGRESS"), ("IN_PROGRESS", "REVIEW")]
    );
}

fn plan(bullets: usize) -> Value {
    json!({ "workPlan": { "bullets": vec!["step"; bullets] } })
}

fn submission() -> Value {
    json!({
        "deliverable": { "content": "the text", "artifacts": [] },
        "reviewChecklist": { "type": "docs", "items": [{ "label": "read it again", "completed": true }] },
    })
}

/// A task that `ada`, a specialist, has claimed and started.
fn begun(overrides: &Overrides) -> Play {
    let mut play = Play::born("mission", overrides, json!({ "reviewerIds": ["bo", "ada"] }))
        .expect("it needs no fields");
    play.ask("specialist:ada", "ASSIGNED", Value::Null).expect("specialists may claim");
    play.ask("specialist:ada", "IN_PROGRESS", plan(3)).expect("it is hers");
    play
}

fn submitted(overrides: &Overrides) -> Play {
    let mut play = begun(overrides);
    play.ask("specialist:ada", "REVIEW", submission()).expect("it is hers");
    play
}

#[test]
fn a_specialist_claims_for_itself() {
    let mut play = Play::of("mission");
    assert_eq!(play.ask("specialist:ada", "ASSIGNED", Value::Null).expect("a claim"), "ASSIGNED");
    assert_eq!((play.trigger(), play.field("assigneeIds")), ("claim", json!(["ada"])));
}

#[test]
fn a_lead_assigns_others_or_claims() {
    let mut play = Play::of("mission");
    play.ask("lead:lu", "ASSIGNED", json!({ "assigneeIds": ["ada"] })).expect("leads assign");
    assert_eq!((play.trigger(), play.field("assigneeIds")), ("assign", json!(["ada"])));
    let mut play = Play::of("mission");
    play.ask("lead:lu", "ASSIGNED", Value::Null).expect("leads claim");
    assert_eq!((play.trigger(), play.field("assigneeIds")), ("claim", json!(["lu"])));
}

#[test]
fn a_person_must_name_an_assignee() {
    let mut play = Play::of("mission");
    assert_eq!(
        errors(play.ask("human:kim", "ASSIGNED", Value::Null)),
        ["assigneeIds: Must have at least one assignee"]
    );
}

#[test]
fn the_errors_and_the_way_out_are_those_of_the_seed() {
    let mut play = begun(&Overrides::new());
    play.ask("human:kim", "NEEDS_APPROVAL", json!({ "approvalRequest": "more money" }))
        .expect("people escalate");
    let refused =
        play.ask("human:kim", "IN_PROGRESS", json!({ "workPlan": null, "assigneeIds": [] }));
    assert_eq!(
        errors(refused),
        [
            "workPlan: Work plan required for IN_PROGRESS",
            "assigneeIds: Must have at least one assignee"
        ]
    );
    let play = begun(&Overrides::new());
    // What is not of the seed, the system does at the end of a run.
    assert_eq!(play.allowed("system"), ["REVIEW", "IN_PROGRESS", "NEEDS_APPROVAL", "BLOCKED"]);
}

#[test]
fn a_work_plan_has_three_to_six_bullets() {
    for (bullets, fits) in [(0, false), (2, false), (3, true), (6, true), (7, false)] {
        let mut play = Play::of("mission");
        play.ask("specialist:ada", "ASSIGNED", Value::Null).expect("a claim");
        let begun = play.ask("specialist:ada", "IN_PROGRESS", plan(bullets));
        assert_eq!(begun.is_ok(), fits, "{bullets}");
        if !fits {
            assert_eq!(errors(begun), ["workPlan: Work plan must have 3 to 6 bullets"]);
        }
    }
}

#[test]
fn only_the_assignee_begins() {
    let mut play = Play::of("mission");
    play.ask("specialist:ada", "ASSIGNED", Value::Null).expect("a claim");
    let refused = play.ask("intern:ian", "IN_PROGRESS", plan(3));
    assert_eq!(errors(refused), ["assigneeIds: Only an assignee may do this"]);
    assert_eq!(play.ask("intern:ada", "IN_PROGRESS", plan(3)).expect("by name"), "IN_PROGRESS");
}

#[test]
fn no_agent_reviews_its_own_work_but_people_may_do_all() {
    let policy = Overrides::from([("lead_may_approve".to_owned(), Setting::Flag(true))]);
    let fields = json!({ "decisionNote": "mine", "feedback": "mine" });
    let own = ["assigneeIds: Nobody reviews their own work"];
    assert_eq!(errors(submitted(&policy).ask("lead:ada", "DONE", fields.clone())), own);
    assert_eq!(submitted(&policy).ask("human:ada", "DONE", fields.clone()).expect("all"), "DONE");

    let mut play = begun(&policy);
    let mut handed_in = submission();
    handed_in["assigneeIds"] = json!(["bo"]);
    play.ask("human:kim", "REVIEW", handed_in).expect("a person hands it in");
    assert_eq!(errors(play.ask("lead:kim", "DONE", fields)), own, "who handed it in is kept");
}

#[test]
fn agents_act_only_on_what_is_assigned_to_them() {
    let mut play = begun(&Overrides::new());
    for (actor, to, fields) in [
        ("intern:ian", "REVIEW", submission()),
        ("specialist:bo", "REVIEW", submission()),
        ("lead:lu", "BLOCKED", json!({ "blockReason": "no" })),
        ("specialist:bo", "NEEDS_APPROVAL", json!({ "approvalRequest": "no" })),
    ] {
        assert_eq!(
            errors(play.ask(actor, to, fields)),
            ["assigneeIds: Only an assignee may do this"],
            "{actor} to {to}"
        );
    }
    play.ask("specialist:ada", "BLOCKED", json!({ "blockReason": "the service is down" }))
        .expect("her own task");
    assert!(
        play.ask("specialist:ada", "IN_PROGRESS", Value::Null).is_err(),
        "only a person unblocks"
    );
}

#[test]
fn the_system_sums_up_the_cost() {
    let mut play = begun(&Overrides::new());
    assert_eq!(
        errors(play.ask("specialist:ada", "REVIEW", Value::Null)),
        [
            "deliverable: Deliverable required for REVIEW",
            "reviewChecklist: Review checklist required for REVIEW",
        ]
    );
    let mut unfinished = submission();
    unfinished["reviewChecklist"]["items"][0]["completed"] = json!(false);
    assert_eq!(
        errors(play.ask("specialist:ada", "REVIEW", unfinished)),
        ["reviewChecklist: Every item of the review checklist must be completed"]
    );
    play.ask("specialist:ada", "REVIEW", submission()).expect("all there");
    assert_eq!(play.artifacts(), ["deliverable", "reviewChecklist", "costSummary"]);
    assert_eq!(
        play.field("costSummary"),
        json!({ "totalCost": 0.0, "runCount": 0, "tokenCount": 0 })
    );
}

#[test]
fn an_approval_is_recorded() {
    let mut play = submitted(&Overrides::new());
    assert_eq!(
        errors(play.ask("human:kim", "DONE", Value::Null)),
        ["decisionNote: Decision note required for DONE"]
    );
    let note = json!({ "decisionNote": "good" });
    assert_eq!(
        errors(play.ask("lead:lu", "DONE", note.clone())),
        ["approvedBy: Only a person may approve here"]
    );
    play.ask("human:kim", "DONE", note).expect("a person approves");
    assert_eq!(
        (play.field("approvedBy"), play.field("approvedAt")),
        (json!("kim"), json!("2023-11-14T22:13:20Z"))
    );
    assert_eq!(play.artifacts(), ["approvedBy", "approvedAt", "decisionNote"]);
}

#[test]
fn a_lead_approves_where_the_policy_says_so() {
    let policy = Overrides::from([("lead_may_approve".to_owned(), Setting::Flag(true))]);
    let mut play = submitted(&policy);
    let note = json!({ "decisionNote": "good" });
    assert_eq!(play.ask("lead:lu", "DONE", note).expect("the policy allows it"), "DONE");
}

#[test]
fn reviewers_of_the_task_send_it_back_with_feedback() {
    let mut play = submitted(&Overrides::new());
    let feedback = json!({ "feedback": "shorter" });
    assert_eq!(
        errors(play.ask("specialist:cy", "IN_PROGRESS", feedback.clone())),
        ["reviewerIds: Only a reviewer of this task may do this"]
    );
    assert_eq!(
        errors(play.ask("specialist:ada", "IN_PROGRESS", feedback.clone())),
        ["assigneeIds: Nobody reviews their own work"]
    );
    assert_eq!(
        errors(play.ask("specialist:bo", "IN_PROGRESS", Value::Null)),
        ["feedback: Revision feedback required"]
    );
    assert_eq!(
        play.ask("specialist:bo", "IN_PROGRESS", feedback).expect("a reviewer"),
        "IN_PROGRESS"
    );
}

#[test]
fn the_third_review_cycle_blocks_with_a_loop_summary_until_a_person_unblocks() {
    let mut play = begun(&Overrides::new());
    for (round, state) in ["IN_PROGRESS", "IN_PROGRESS", "BLOCKED"].iter().enumerate() {
        play.ask("specialist:ada", "REVIEW", submission()).expect("her task");
        let feedback = json!({ "feedback": format!("round {}", round + 1) });
        assert_eq!(play.ask("specialist:bo", "IN_PROGRESS", feedback).expect("a reviewer"), *state);
    }
    let summary = json!("1. bo: round 1; 2. bo: round 2; 3. bo: round 3; ");
    assert_eq!(play.field("loopSummary"), summary);
    assert_eq!(play.field("blockReason"), json!("the review went round too often"));
    for actor in ["intern:ian", "specialist:ada", "lead:lu", "system"] {
        assert!(play.ask(actor, "IN_PROGRESS", Value::Null).is_err(), "{actor}");
    }
    assert_eq!(
        errors(play.ask("human:kim", "IN_PROGRESS", Value::Null)),
        ["clarification: Say what has to be done differently"]
    );
    let clear = json!({ "clarification": "only the parser" });
    play.ask("human:kim", "IN_PROGRESS", clear).expect("people unblock");
    play.ask("specialist:ada", "REVIEW", submission()).expect("her task");
    let again = json!({ "feedback": "still" });
    assert_eq!(
        play.ask("human:kim", "IN_PROGRESS", again).expect("a new allowance"),
        "IN_PROGRESS"
    );
}

#[test]
fn silence_of_people_blocks_the_task_and_ends_it_at_last() {
    let mut reviewed = begun(&Overrides::new());
    reviewed.ask("specialist:ada", "REVIEW", submission()).expect("her task");
    let mut asked = begun(&Overrides::new());
    let request = json!({ "approvalRequest": "a new key" });
    asked.ask("specialist:ada", "NEEDS_APPROVAL", request).expect("her task");
    let why = ["nobody has reviewed it", "nobody has answered: a new key"];
    for (mut play, why) in [reviewed, asked].into_iter().zip(why) {
        assert_eq!(play.wait("7d"), "BLOCKED");
        assert_eq!(play.field("blockReason"), json!(why));
        assert_eq!(play.wait("13d"), "BLOCKED");
        assert_eq!(play.wait("1d"), "CANCELED");
        assert_eq!(play.field("reason"), json!(format!("nobody has answered: {why}")));
    }
}

#[test]
fn silence_blocks_the_work() {
    let mut play = begun(&Overrides::new());
    assert_eq!(play.wait("23h"), "IN_PROGRESS");
    assert_eq!(play.wait("1h"), "BLOCKED");
    assert_eq!(play.field("blockReason"), json!("no progress for too long"));
}
