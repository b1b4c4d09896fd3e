//! The step and its gate (seed 002).

use banksman_core::lifecycle::Kind::{Cancelled, Done, Queued, Reviewing, Waiting, Working};
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::check::Overrides;
use serde_json::{Value, json};

use super::play::{Play, errors};
use super::{Table, compare};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "step",
    initial: "pending",
    roles: &["agent", "reviewer"],
    states: &[
        ("pending", Queued),
        ("running", Working),
        ("gate(auto)", Reviewing),
        ("gate(notify)", Reviewing),
        ("gate(veto)", Waiting),
        ("gate(human)", Waiting),
        ("complete", Done),
        ("aborted", Cancelled),
    ],
    terminal: &["complete", "aborted"],
    moves: &[
        ("pending", "running", "claim", &["agent", "system"], ""),
        ("pending", "aborted", "abort", &["human"], ""),
        ("running", "gate(auto)", "signal", &["agent", "human", "system"], "if level; clear feedback"),
        ("running", "gate(notify)", "signal", &["agent", "human", "system"], "if level; clear feedback"),
        ("running", "gate(human)", "signal", &["agent", "human", "system"], "if level; clear feedback"),
        ("running", "gate(human)", "escalate", &["agent", "human", "system"], "compute diagnostic"),
        ("running", "aborted", "abort", &["human"], ""),
        ("gate(auto)", "complete", "pass", &["reviewer", "human", "system"], ""),
        ("gate(auto)", "pending", "fail", &["reviewer", "system"], "if feedback; compute feedback; count failures; keep feedback"),
        ("gate(auto)", "pending", "fail", &["human"], "if feedback; renew failures; keep feedback"),
        ("gate(auto)", "gate(human)", "escalate", &["reviewer", "human", "system"], "compute diagnostic"),
        ("gate(auto)", "aborted", "abort", &["human"], ""),
        ("gate(notify)", "gate(veto)", "pass", &["reviewer", "human", "system"], ""),
        ("gate(notify)", "pending", "fail", &["reviewer", "system"], "if feedback; compute feedback; count failures; keep feedback"),
        ("gate(notify)", "pending", "fail", &["human"], "if feedback; renew failures; keep feedback"),
        ("gate(notify)", "gate(human)", "escalate", &["reviewer", "human", "system"], "compute diagnostic"),
        ("gate(notify)", "aborted", "abort", &["human"], ""),
        ("gate(veto)", "complete", "pass", &["human"], ""),
        ("gate(veto)", "pending", "veto", &["human"], "if feedback; renew failures; keep feedback"),
        ("gate(veto)", "aborted", "abort", &["human"], ""),
        ("gate(human)", "complete", "pass", &["human"], ""),
        ("gate(human)", "pending", "fail", &["human"], "if feedback; renew failures; keep feedback"),
        ("gate(human)", "aborted", "abort", &["human"], ""),
    ],
    timed: &[
        ("running", "gate(human)", "stalled", "24h", Progress, "set diagnostic=stalled"),
        ("gate(auto)", "gate(human)", "gate_timeout", "30min", Progress, "set diagnostic=no verdict"),
        ("gate(notify)", "gate(human)", "gate_timeout", "30min", Progress, "set diagnostic=no verdict"),
        ("gate(veto)", "complete", "unopposed", "15min", Entry, ""),
    ],
    requires: &[("aborted", &["reason"])],
    does: &[
        (
            "running",
            "agent",
            &[
                ("succeeded", "signal"),
                ("nothing_to_do", "signal"),
                ("auth", "escalate"),
                ("needs_person", "escalate"),
                ("over_budget", "escalate"),
                ("exhausted", "escalate"),
                ("verify_failed", "again"),
                ("policy", "again"),
                ("quota", "again"),
                ("transient", "again"),
                ("stalled", "again"),
                ("crashed", "again"),
            ],
        ),
        (
            "gate(auto)",
            "panel",
            &[
                ("approved", "pass"),
                ("blocked", "fail"),
                ("otherwise", "escalate"),
            ],
        ),
        (
            "gate(notify)",
            "panel",
            &[
                ("approved", "pass"),
                ("blocked", "fail"),
                ("otherwise", "escalate"),
            ],
        ),
        (
            "gate(veto)",
            "human",
            &[("pass", "pass"), ("veto", "veto"), ("abort", "abort")],
        ),
        (
            "gate(human)",
            "human",
            &[("pass", "pass"), ("fail", "fail"), ("abort", "abort")],
        ),
    ],
    effects: &[
        ("gate(veto)", "notify"),
        ("gate(human)", "notify"),
        ("aborted", "clean_up"),
    ],
    counters: &[("failures", Some(3), Some("gate(human)"))],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

/// A step at its gate.
fn signalled(level: Option<&str>) -> Play {
    let mut play = Play::born("step", &Overrides::new(), json!({ "level": level }))
        .expect("it needs no other field");
    run(&mut play);
    play
}

fn run(play: &mut Play) {
    play.claim("agent:al").expect("it is queued");
    play.end_run(Outcome::Succeeded, "", Value::Null);
}

#[test]
fn the_level_chooses_the_gate() {
    let gates = [
        (Some("auto"), "gate(auto)"),
        (Some("notify"), "gate(notify)"),
        (Some("human"), "gate(human)"),
        (None, "gate(human)"),
    ];
    for (level, gate) in gates {
        assert_eq!(signalled(level).state(), gate);
    }
}

#[test]
fn what_an_agent_lets_pass_waits_for_a_veto() {
    let mut play = signalled(Some("notify"));
    play.walk(&[("reviewer:ru", "gate(veto)")]);
    assert_eq!(play.wait("14min"), "gate(veto)");
    assert_eq!(play.wait("1min"), "complete");
    let mut play = signalled(Some("notify"));
    play.walk(&[("reviewer:ru", "gate(veto)")]);
    assert_eq!(
        errors(play.ask("human:kim", "pending", Value::Null)),
        ["feedback: Say what has to change"]
    );
    play.ask("human:kim", "pending", json!({ "feedback": "no" })).expect("people may veto");
    assert_eq!(play.trigger(), "veto");
}

#[test]
fn failing_needs_feedback_and_the_last_retry_forces_a_person() {
    let mut play = signalled(Some("auto"));
    assert_eq!(
        errors(play.ask("reviewer:ru", "pending", Value::Null)),
        ["feedback: Say what has to change"]
    );
    for (attempt, state) in ["pending", "pending", "gate(human)"].iter().enumerate() {
        if attempt > 0 {
            run(&mut play);
        }
        let feedback = json!({ "feedback": format!("attempt {}", attempt + 1) });
        assert_eq!(play.ask("reviewer:ru", "pending", feedback).expect("a reviewer"), *state);
        assert_eq!(play.artifacts(), ["feedback"]);
    }
    assert!(play.ask("reviewer:ru", "complete", Value::Null).is_err(), "now only a person decides");
    play.ask("human:kim", "pending", json!({ "feedback": "once more" }))
        .expect("people may fail it");
    run(&mut play);
    assert_eq!(play.state(), "gate(auto)");
    assert_eq!(
        play.ask("reviewer:ru", "pending", json!({ "feedback": "no" })).expect("a new allowance"),
        "pending"
    );
}

#[test]
fn a_silent_gate_goes_to_a_person() {
    for level in ["auto", "notify"] {
        assert_eq!(signalled(Some(level)).wait("30min"), "gate(human)");
    }
}
