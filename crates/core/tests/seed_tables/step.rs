//! The step and its gate (seed 002).

use banksman_core::lifecycle::Since::{Entry, Progress};
use banksman_core::lifecycle::StateKind::{
    Blocked, Cancelled, Done, Failed, Queued, Reviewing, Waiting, Working,
};
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Outcome, Setting};
use serde_json::{Value, json};

use super::play::{Play, errors};
use super::{NONE, Quote, Rows, Table, counters, states};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("A discrete work chunk executed by a **single agent**.", Rows {
        states: &[("pending", Queued), ("running", Working)],
        moves: &[("pending", "running", "claim", &["agent", "system"], "if launch, runs_command")],
        ..NONE
    }),
    ("launch: <method> # interactive | headless | subagent", Rows {
        states: &[("interactive", Waiting)],
        moves: &[("pending", "interactive", "open", &["human", "system"], "if launch")],
        ..NONE
    }),
    ("The mechanism by which a Step announces completion and triggers its downstream Gate.", Rows {
        moves: &[
            ("running", "gate(auto)", "signal", &["agent", "human", "system"], SIGNALLED),
            ("running", "gate(notify)", "signal", &["agent", "human", "system"], SIGNALLED),
            ("running", "gate(human)", "signal", &["agent", "human", "system"], SIGNALLED),
            ("interactive", "gate(auto)", "signal", &["agent", "human", "system"], SIGNALLED),
            ("interactive", "gate(notify)", "signal", &["agent", "human", "system"], SIGNALLED),
            ("interactive", "gate(human)", "signal", &["agent", "human", "system"], SIGNALLED),
        ],
        does: &[
            ("running", "agent", &[("succeeded", "signal")]),
            ("interactive", "human", &[("done", "signal")]),
        ],
        ..NONE
    }),
    ("| Automated | `auto` | Agent | Yes | No (records kept) | No |", Rows {
        states: &[("gate(auto)", Reviewing)],
        moves: &[("gate(auto)", "passed", "pass", &["reviewer", "human", "system"], "compute note")],
        does: &[("gate(auto)", "panel", &[("approved", "pass"), ("blocked", "fail")])],
        ..NONE
    }),
    ("| Notify | `notify` | Agent | Yes | Yes (can veto) | No |", Rows {
        states: &[("gate(notify)", Reviewing), ("gate(veto)", Waiting)],
        moves: &[
            ("gate(notify)", "gate(veto)", "pass", &["reviewer", "system"], "compute note"),
            ("gate(veto)", "sent_back", "veto", &["human"], "if feedback; set sent_back=true; count rounds; reset failures; keep feedback"),
        ],
        timed: &[("gate(veto)", "passed", "unopposed", "15min", Entry, "set open_to_veto=true")],
        does: &[
            ("gate(notify)", "panel", &[("approved", "pass"), ("blocked", "fail")]),
            ("gate(veto)", "human", &[("veto", "veto")]),
        ],
        ..NONE
    }),
    ("| Human | `human` | Human | No | Yes | Yes |", Rows {
        states: &[("gate(human)", Waiting)],
        moves: &[("gate(human)", "passed", "pass", &["human"], "clear feedback, failed_for, diagnostic; reset failures")],
        does: &[("gate(human)", "human", &[("pass", "pass"), ("fail", "fail")])],
        ..NONE
    }),
    ("| `on_pass` | Which Step to proceed to |", states(&[("passed", Done)])),
    ("When a Gate fails, the reviewer writes structured feedback to a known location before routing back to the Step.", Rows {
        states: &[("sent_back", Blocked)],
        moves: &[
            ("gate(auto)", "sent_back", "fail", &["reviewer", "system"], "if feedback; set sent_back=true; compute feedback; count failures, rounds; keep feedback"),
            ("gate(auto)", "sent_back", "fail", &["human"], FAILED_BY_PERSON),
            ("gate(notify)", "sent_back", "fail", &["reviewer", "system"], "if feedback; set sent_back=true; compute feedback; count failures, rounds; keep feedback"),
            ("gate(notify)", "sent_back", "fail", &["human"], FAILED_BY_PERSON),
            ("gate(human)", "sent_back", "fail", &["human"], FAILED_BY_PERSON),
        ],
        ..NONE
    }),
    ("| `on_fail` | Which Step to return to (with retry context) |", Rows {
        moves: &[("sent_back", "pending", "reset", &["system"], BEGUN_AGAIN)],
        counters: &[("rounds", None, None)],
        ..NONE
    }),
    ("| `max_retries` | Maximum failures before forced human escalation |", counters(&[("failures", Some(3), Some("gate(human)"))])),
];

const SIGNALLED: &str = "if level; clear feedback, diagnostic, verdicts, concerns, review_summary";
const FAILED_BY_PERSON: &str = "if feedback; set sent_back=true; count rounds; reset failures, unproven, attempts; keep feedback";
const BEGUN_AGAIN: &str = "clear sent_back, open_to_veto, failed_for, diagnostic, reason, retry_from, note, done_in, done_on, is_skipped";

/// The seed has steps, gates and their levels. How a step is checked, given up, begun again with
/// others and closed with its workflow is ours.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
    states: &[("checking", Reviewing), ("given_up", Failed), ("complete", Done), ("aborted", Cancelled), ("pending(command)", Queued), ("running(command)", Working), ("skipped", Done), ("skipped(for_good)", Done)],
    terminal: &["complete", "aborted", "skipped(for_good)"],
    moves: &[
        ("pending", "gate(human)", "escalate", &["human", "system"], "compute diagnostic"),
        ("pending", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("pending", "aborted", "close", &["system"], "clear sent_back"),
        ("pending", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("pending", "given_up", "cancel", &["human"], "clear sent_back"),
        ("running", "passed", "signal", &["agent", "human", "system"], SIGNALLED),
        ("running", "gate(human)", "escalate", &["agent", "human", "system"], "compute diagnostic; clear feedback"),
        ("running", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("running", "aborted", "close", &["system"], "clear sent_back"),
        ("running", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("running", "given_up", "cancel", &["human"], "clear sent_back"),
        ("pending(command)", "given_up", "cancel", &["human"], "clear sent_back"),
        ("running(command)", "given_up", "cancel", &["human"], "clear sent_back"),
        ("interactive", "checking", "signal", &["agent", "human", "system"], "if proof; clear diagnostic"),
        ("interactive", "passed", "signal", &["agent", "human", "system"], SIGNALLED),
        ("interactive", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("interactive", "aborted", "close", &["system"], "clear sent_back"),
        ("interactive", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("interactive", "given_up", "cancel", &["human"], "clear sent_back"),
        ("checking", "interactive", "unproven", &["system"], "compute diagnostic; clear note, done_in, done_on; count unproven"),
        ("checking", "passed", "proven", &["system"], SIGNALLED),
        ("checking", "gate(auto)", "proven", &["system"], SIGNALLED),
        ("checking", "gate(notify)", "proven", &["system"], SIGNALLED),
        ("checking", "gate(human)", "proven", &["system"], SIGNALLED),
        ("checking", "gate(human)", "escalate", &["agent", "human", "system"], "compute diagnostic; clear feedback"),
        ("checking", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("checking", "aborted", "close", &["system"], "clear sent_back"),
        ("checking", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("checking", "given_up", "cancel", &["human"], "clear sent_back"),
        ("gate(auto)", "gate(human)", "escalate", &["reviewer", "human", "system"], "compute diagnostic"),
        ("gate(auto)", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("gate(auto)", "aborted", "close", &["system"], "clear sent_back"),
        ("gate(auto)", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("gate(auto)", "given_up", "cancel", &["human"], "clear sent_back"),
        ("gate(notify)", "passed", "pass", &["human"], ""),
        ("gate(notify)", "gate(human)", "escalate", &["reviewer", "human", "system"], "compute diagnostic"),
        ("gate(notify)", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("gate(notify)", "aborted", "close", &["system"], "clear sent_back"),
        ("gate(notify)", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("gate(notify)", "given_up", "cancel", &["human"], "clear sent_back"),
        ("gate(veto)", "passed", "pass", &["human"], "set open_to_veto=true"),
        ("gate(veto)", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("gate(veto)", "aborted", "close", &["system"], "clear sent_back"),
        ("gate(veto)", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("gate(veto)", "given_up", "cancel", &["human"], "clear sent_back"),
        ("gate(human)", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("gate(human)", "aborted", "close", &["system"], "clear sent_back"),
        ("gate(human)", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("gate(human)", "given_up", "cancel", &["human"], "clear sent_back"),
        ("sent_back", "aborted", "close", &["system"], "clear sent_back"),
        ("sent_back", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("sent_back", "given_up", "cancel", &["human"], "clear sent_back"),
        ("passed", "sent_back", "veto", &["human"], "if open_to_veto, feedback; set sent_back=true; clear open_to_veto; count rounds; reset failures; keep feedback"),
        ("passed", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("passed", "passed", "followed", &["system"], "clear open_to_veto"),
        ("passed", "complete", "close", &["system"], "clear open_to_veto"),
        ("given_up", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("given_up", "aborted", "close", &["system"], "clear sent_back"),
        ("given_up", "aborted", "cancel", &["human"], ""),
        ("given_up", "gate(human)", "retry", &["human"], "if retry_from; clear reason, retry_from"),
        ("given_up", "gate(human)", "take_up", &["system"], "if retry_from; clear reason, retry_from"),
        ("given_up", "pending", "take_up", &["system"], "clear failed_for, diagnostic, reason, note, done_in, done_on"),
        ("given_up", "pending", "retry", &["human"], "clear failed_for, diagnostic, reason, note, done_in, done_on; reset failures, unproven, attempts"),
        ("given_up", "skipped", "skip", &["human"], "set is_skipped=true; clear reason, diagnostic"),
        ("skipped", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("skipped", "skipped(for_good)", "close", &["system"], ""),
        ("skipped", "sent_back", "veto", &["human"], "if level, feedback; set sent_back=true; clear is_skipped; count rounds; reset failures; keep feedback"),
        ("pending", "pending(command)", "open", &["system"], "if runs_command"),
        ("pending(command)", "running(command)", "claim", &["shell", "system"], ""),
        ("pending(command)", "gate(human)", "escalate", &["human", "system"], "compute diagnostic"),
        ("pending(command)", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("pending(command)", "aborted", "close", &["system"], "clear sent_back"),
        ("pending(command)", "given_up", "abort", &["human", "system"], "clear sent_back"),
        ("running(command)", "passed", "signal", &["agent", "human", "system"], SIGNALLED),
        ("running(command)", "gate(auto)", "signal", &["agent", "human", "system"], SIGNALLED),
        ("running(command)", "gate(notify)", "signal", &["agent", "human", "system"], SIGNALLED),
        ("running(command)", "gate(human)", "signal", &["agent", "human", "system"], SIGNALLED),
        ("running(command)", "sent_back", "command_failed", &["system"], "if level; set sent_back=true; compute feedback; count failures, rounds; keep feedback"),
        ("running(command)", "pending(command)", "command_failed", &["system"], "if level; compute diagnostic; count attempts"),
        ("running(command)", "gate(human)", "escalate", &["agent", "human", "system"], "compute diagnostic; clear feedback"),
        ("running(command)", "pending", "reset", &["system"], BEGUN_AGAIN),
        ("running(command)", "aborted", "close", &["system"], "clear sent_back"),
        ("running(command)", "given_up", "abort", &["human", "system"], "clear sent_back"),
    ],
    timed: &[
        ("running", "gate(human)", "stalled", "24h", Progress, "set diagnostic=stalled, feedback=null"),
        ("running(command)", "gate(human)", "stalled", "24h", Progress, "set diagnostic=stalled, feedback=null"),
        ("checking", "gate(human)", "not_checked", "1d", Entry, "set diagnostic=the check timed out, feedback=null"),
        ("gate(auto)", "gate(human)", "gate_timeout", "30min", Entry, "set diagnostic=no verdict"),
        ("gate(notify)", "gate(human)", "gate_timeout", "30min", Entry, "set diagnostic=no verdict"),
        ("interactive", "given_up", "unanswered", "7d", Entry, "set reason=nobody has done it"),
        ("gate(human)", "given_up", "unanswered", "7d", Entry, "set reason=nobody has decided at its gate, retry_from=gate"),
        ("sent_back", "gate(human)", "not_led_back", "3d", Entry, "set diagnostic=was not sent back in time, sent_back=false"),
    ],
    requires: &[("pending", &["spec", "workflow"]), ("given_up", &["reason"])],
    does: &[
        ("pending", "wait", &[("met", "open")]),
        ("interactive", "human", &[("abort", "abort")]),
        ("checking", "check", &[("passed", "proven"), ("failed", "unproven"), ("otherwise", "escalate")]),
        (
            "running",
            "agent",
            &[
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
            "running(command)",
            "agent",
            &[
                ("succeeded", "signal"),
                ("nothing_to_do", "signal"),
                ("verify_failed", "command_failed"),
                ("stalled", "command_failed"),
                ("crashed", "command_failed"),
                ("transient", "again"),
                ("otherwise", "escalate"),
            ],
        ),
        ("gate(auto)", "panel", &[("otherwise", "escalate")]),
        ("gate(notify)", "panel", &[("otherwise", "escalate")]),
        ("gate(veto)", "human", &[("pass", "pass"), ("abort", "abort")]),
        ("gate(human)", "human", &[("abort", "abort")]),
    ],
    effects: &[
        ("pending", "tell_parent"),
        ("running", "tell_parent"),
        ("interactive", "notify, tell_parent"),
        ("checking", "tell_parent"),
        ("gate(auto)", "tell_parent"),
        ("gate(notify)", "tell_parent"),
        ("gate(veto)", "notify, tell_parent"),
        ("gate(human)", "notify, tell_parent"),
        ("sent_back", "tell_parent"),
        ("passed", "tell_parent"),
        ("given_up", "tell_parent"),
        ("pending(command)", "tell_parent"),
        ("running(command)", "tell_parent"),
        ("skipped", "tell_parent"),
        ("skipped(for_good)", "clean_up"),
        ("complete", "clean_up"),
        ("aborted", "tell_parent, clean_up"),
    ],
    counters: &[("unproven", Some(10), Some("gate(human)")), ("attempts", Some(3), Some("gate(human)"))],
};

pub(super) const TABLE: Table = Table {
    name: "step",
    initial: "pending",
    roles: &["agent", "reviewer", "shell"],
    seed: SEED,
    pending: &[],
    added: ADDED,
};

/// A step of a workflow that has not started.
fn pending(level: Option<&str>, overrides: &Overrides) -> Play {
    let fields = json!({ "workflow": "search", "spec": { "id": "X-1" }, "level": level });
    Play::born("step", overrides, fields).expect("it needs no other field")
}

/// A step at its gate.
fn signalled(level: Option<&str>) -> Play {
    let mut play = pending(level, &Overrides::new());
    run(&mut play);
    play
}

fn run(play: &mut Play) {
    play.claim("agent:al").expect("it is queued");
    play.end_run(Outcome::Succeeded, "", Value::Null);
}

/// The gate fails and the workflow sends the step back to its beginning.
fn fails(play: &mut Play, who: &str, feedback: &str) {
    let came = play.ask(who, "sent_back", json!({ "feedback": feedback })).expect("it may fail");
    assert_eq!(came, "sent_back");
    assert_eq!(play.artifacts(), ["feedback"]);
    play.walk(&[("system", "pending")]);
    assert_eq!(play.field("feedback"), feedback, "the next attempt has it in its context");
}

#[test]
fn the_level_chooses_the_gate() {
    let gates = [
        (Some("auto"), "gate(auto)"),
        (Some("notify"), "gate(notify)"),
        (Some("human"), "gate(human)"),
        (None, "gate(human)"),
        // A step without a gate.
        (Some("none"), "passed"),
    ];
    for (level, gate) in gates {
        assert_eq!(signalled(level).state(), gate);
    }
}

#[test]
fn what_an_agent_lets_pass_waits_for_a_veto() {
    let at_veto = || {
        let mut play = signalled(Some("notify"));
        play.walk(&[("reviewer:ru", "gate(veto)")]);
        play
    };
    let mut play = at_veto();
    assert_eq!(play.wait("14min"), "gate(veto)");
    assert_eq!(play.wait("1min"), "passed");
    // Even if the next step has already started.
    play.ask("human:kim", "sent_back", json!({ "feedback": "no" })).expect("people may veto");
    assert_eq!(play.trigger(), "veto");
    let mut play = at_veto();
    assert_eq!(
        errors(play.ask("human:kim", "sent_back", Value::Null)),
        ["feedback: Say what has to change"]
    );
    play.ask("human:kim", "sent_back", json!({ "feedback": "no" })).expect("people may veto");
    assert_eq!(play.trigger(), "veto");
}

#[test]
fn failing_needs_feedback_and_the_last_retry_forces_a_person() {
    for (level, gate) in [("auto", "gate(auto)"), ("notify", "gate(notify)")] {
        for max_retries in 1..=3_u32 {
            let limit = Setting::Number(f64::from(max_retries));
            let overrides = Overrides::from([("max_retries".to_owned(), limit)]);
            let mut play = pending(Some(level), &overrides);
            for failure in 1..max_retries {
                run(&mut play);
                assert_eq!(
                    errors(play.ask("reviewer:ru", "sent_back", Value::Null)),
                    ["feedback: Say what has to change"]
                );
                fails(&mut play, "reviewer:ru", &format!("attempt {failure}"));
            }
            run(&mut play);
            let last = json!({ "feedback": "again" });
            let came = play.ask("reviewer:ru", "sent_back", last).expect("a reviewer");
            assert_eq!(came, "gate(human)", "failure {max_retries} at {gate}");
            assert!(
                play.ask("reviewer:ru", "passed", Value::Null).is_err(),
                "only a person decides"
            );
            fails(&mut play, "human:kim", "once more");
            run(&mut play);
            assert_eq!(play.state(), gate, "a new allowance");
        }
    }
}

#[test]
fn a_gate_of_a_person_is_never_anybody_elses() {
    let mut play = signalled(Some("human"));
    for who in ["reviewer:ru", "agent:al", "system"] {
        assert!(play.ask(who, "passed", Value::Null).is_err(), "{who}");
        assert!(play.ask(who, "sent_back", json!({ "feedback": "no" })).is_err(), "{who}");
    }
    assert_eq!(play.wait("6d"), "gate(human)");
    for round in 1..=5 {
        fails(&mut play, "human:kim", &format!("round {round}"));
        run(&mut play);
    }
    play.walk(&[("human:kim", "passed"), ("system", "complete")]);
}

#[test]
fn a_silent_gate_goes_to_a_person() {
    for level in ["auto", "notify"] {
        assert_eq!(signalled(Some(level)).wait("30min"), "gate(human)");
    }
}

/// Finished work stays finished: a person who resumes the step is asked once more, and no agent
/// works in vain.
#[test]
fn silence_at_a_gate_gives_the_step_up_and_taking_it_up_asks_again() {
    for (who, trigger) in [("human:kim", "retry"), ("system", "take_up")] {
        let mut play = signalled(Some("human"));
        assert_eq!(play.wait("7d"), "given_up");
        assert_eq!(play.field("reason"), json!("nobody has decided at its gate"));
        assert_eq!(play.wait("90d"), "given_up", "its workflow asks");
        assert_eq!(play.pull(who, trigger, Value::Null).expect("it may"), "gate(human)");
        assert_eq!(play.field("reason"), Value::Null);
        play.walk(&[("human:kim", "passed")]);
    }
}

#[test]
fn silence_about_a_step_done_by_hand_gives_it_up_and_it_begins_again() {
    for (who, trigger) in [("human:kim", "retry"), ("system", "take_up")] {
        let fields =
            json!({ "workflow": "search", "spec": { "id": "X-1" }, "launch": "interactive" });
        let mut play =
            Play::born("step", &Overrides::new(), fields).expect("it needs no other field");
        play.walk(&[("system", "interactive")]);
        assert_eq!(play.wait("7d"), "given_up");
        assert_eq!(play.pull(who, trigger, Value::Null).expect("it may"), "pending");
    }
}

/// A failure may lead further back than its own step: the steps in between start again as well.
#[test]
fn a_step_that_has_passed_can_be_sent_back_until_the_workflow_is_over() {
    let mut play = signalled(Some("auto"));
    play.walk(&[("reviewer:ru", "passed"), ("system", "pending")]);
    run(&mut play);
    play.walk(&[("reviewer:ru", "passed"), ("system", "complete")]);
    assert!(play.ask("system", "pending", Value::Null).is_err(), "what is over is over");
}

#[test]
fn a_person_gives_a_step_up_tries_it_again_or_goes_on_without_it() {
    for (to, trigger) in [("pending", "retry"), ("skipped", "skip")] {
        let mut play = signalled(Some("human"));
        assert_eq!(
            errors(play.ask("human:kim", "given_up", Value::Null)),
            ["reason: Say why it is given up"]
        );
        play.ask("human:kim", "given_up", json!({ "reason": "no use" })).expect("people may");
        assert_eq!(play.wait("90d"), "given_up", "it waits for a person");
        play.walk(&[("human:kim", to)]);
        assert_eq!((play.trigger(), play.field("reason")), (trigger, Value::Null));
    }
}
