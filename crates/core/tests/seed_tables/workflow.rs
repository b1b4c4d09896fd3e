//! The task that holds a workflow's steps (seed 002).

use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{Cancelled, Done, Queued, Reviewing, Waiting, Working};
use banksman_core::lifecycle::check::Overrides;
use serde_json::{Value, json};

use super::play::{Play, errors};
use super::{NONE, Quote, Rows, Table};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("A Task has a name, a linear or branching sequence of Steps, and a terminal state (complete or aborted).", Rows {
        states: &[("complete", Done), ("aborted", Cancelled)],
        terminal: &["complete", "aborted"],
        ..NONE
    }),
    ("next_step: DONE # merge PR, close worktree", Rows {
        states: &[("merging", Reviewing)],
        moves: &[
            ("running", "merging", "finish", &["system"], "if children_open, merges"),
            ("merging", "complete", "finish", &["system"], "if children_open; set merged=true"),
        ],
        does: &[("merging", "merge", &[("merged", "finish")])],
        ..NONE
    }),
];

/// The seed has the end of a workflow, and nothing of what can go wrong before it.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[
        ("running", Working), ("waiting", Waiting), ("conflicted", Queued), ("joining", Working),
        ("complete(unmerged)", Done),
    ],
    terminal: &["complete(unmerged)"],
    moves: &[
        ("running", "waiting", "finish", &["system"], "if children_given_up; set problem=a step was given up"),
        ("running", "complete", "finish", &["system"], "if children_open, merges"),
        ("running", "waiting", "trip", &["human", "system"], "compute problem"),
        ("running", "aborted", "abort", &["human", "system"], ""),
        ("running", "aborted", "cancel", &["human"], ""),
        ("running", "running", "led", &["system"], "set led=true"),
        ("merging", "waiting", "trip", &["system"], "compute problem"),
        ("merging", "aborted", "abort", &["human", "system"], ""),
        ("merging", "aborted", "cancel", &["human"], ""),
        ("waiting", "running", "resume", &["human"], "clear problem, children_open, children_given_up, led, merged; reset conflicts"),
        ("waiting", "running", "taken_up", &["system"], "if children_given_up; clear problem, children_open, children_given_up, led, merged"),
        ("waiting", "complete(unmerged)", "accept", &["human"], "if children_open"),
        ("waiting", "aborted", "abort", &["human", "system"], ""),
        ("merging", "conflicted", "merge_conflict", &["system"], "compute problem; count conflicts"),
        ("conflicted", "joining", "claim", &["worker", "system"], ""),
        ("conflicted", "waiting", "over_budget", &["system"], "compute problem"),
        ("conflicted", "aborted", "abort", &["human", "system"], ""),
        ("conflicted", "aborted", "cancel", &["human"], ""),
        ("joining", "merging", "joined", &["worker", "system"], "clear problem"),
        ("joining", "waiting", "trip", &["human", "system"], "compute problem"),
        ("joining", "waiting", "over_budget", &["system"], "compute problem"),
        ("joining", "aborted", "abort", &["human", "system"], ""),
        ("joining", "aborted", "cancel", &["human"], ""),
        ("waiting", "aborted", "cancel", &["human"], ""),
    ],
    timed: &[
        ("running", "waiting", "trip", "14d", Entry, "set problem=the time limit is reached"),
        ("waiting", "aborted", "unanswered", "7d", Entry, "compute reason"),
        ("merging", "waiting", "trip", "1d", Entry, "set problem=the merge timed out"),
        ("conflicted", "waiting", "not_joined", "1d", Entry, "compute problem"),
        ("joining", "waiting", "stalled", "24h", Progress, "set problem=the agent that joins the branches stalled"),
    ],
    requires: &[("waiting", &["problem"]), ("aborted", &["reason"])],
    does: &[
        ("running", "wait", &[("met", "finish")]),
        ("merging", "merge", &[("conflict", "merge_conflict"), ("otherwise", "trip")]),
        (
            "joining",
            "agent",
            &[
                ("succeeded", "joined"),
                ("verify_failed", "again"),
                ("policy", "again"),
                ("quota", "again"),
                ("transient", "again"),
                ("stalled", "again"),
                ("crashed", "again"),
                ("otherwise", "trip"),
            ],
        ),
        ("waiting", "human", &[("resume", "resume"), ("accept", "accept"), ("abort", "abort")]),
    ],
    effects: &[
        ("running", "lead_children"),
        ("waiting", "notify, lead_children"),
        ("complete", "notify, lead_children, clean_up"),
        ("complete(unmerged)", "notify, lead_children, clean_up"),
        ("aborted", "lead_children, clean_up"),
    ],
    counters: &[("conflicts", Some(3), Some("waiting"))],
};

pub(super) const TABLE: Table = Table {
    name: "workflow",
    initial: "running",
    roles: &["worker"],
    seed: SEED,
    pending: &[],
    added: ADDED,
};

fn running(merges: bool) -> Play {
    let fields = json!({ "merges": merges });
    Play::born("workflow", &Overrides::new(), fields).expect("it needs no other field")
}

#[test]
fn silence_about_a_problem_ends_it_with_the_problem_as_the_reason() {
    let mut play = running(false);
    play.pull("human:kim", "trip", json!({ "problem": "a leak" })).expect("people may");
    assert_eq!(play.wait("6d"), "waiting");
    assert_eq!(play.wait("1d"), "aborted");
    assert_eq!(play.field("reason"), json!("nobody has answered: a leak"));
}

#[test]
fn it_is_complete_when_its_steps_are() {
    for (merges, state) in [(false, "complete"), (true, "merging")] {
        let mut play = running(merges);
        assert!(play.pull("system", "finish", json!({ "children_open": 1 })).is_err());
        let counted = json!({ "children_open": 0, "children_given_up": 0 });
        assert_eq!(play.pull("system", "finish", counted).expect("all done"), state);
    }
}

#[test]
fn a_step_given_up_or_a_breaker_asks_a_person() {
    let mut play = running(true);
    let counted = json!({ "children_open": 2, "children_given_up": 1 });
    assert_eq!(play.pull("system", "finish", counted).expect("a way on"), "waiting");
    assert_eq!(play.ask("human:kim", "running", Value::Null).expect("people resume"), "running");
    assert_eq!(play.field("children_given_up"), Value::Null);
    assert!(
        errors(play.pull("system", "trip", Value::Null))
            .contains(&"problem: Say what the person has to decide".to_owned())
    );
    play.pull("system", "trip", json!({ "problem": "four equal failures" }))
        .expect("the breaker trips");
    assert_eq!(
        errors(play.ask("human:kim", "aborted", Value::Null)),
        ["reason: Say why it is aborted"]
    );
}
