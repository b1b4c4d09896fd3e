//! The protocol of `command`, which any program can speak.

use banksman::exec::agent::AgentKind;
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{AgentReport, FaultKind, Terminal};
use banksman_core::time::{Instant, Span};
use serde_json::json;

use super::{NOW, Read, code, read, signal};

fn spoken(lines: &[&str], code_of_exit: i32) -> Read {
    read(AgentKind::Command, &lines.join("\n"), code(code_of_exit))
}

#[test]
fn a_run_from_its_first_to_its_last_line() {
    let run = spoken(
        &[
            r#"{"type":"session","id":"s-1"}"#,
            "looking around",
            r#"{"type":"tool","name":"edit","detail":"src/main.rs"}"#,
            r#"{"type":"text","text":"nearly there"}"#,
            r#"{"type":"usage","input_tokens":10,"output_tokens":2}"#,
            r#"{"type":"result","status":"success","text":"done","answer":{"ok":true},
                "usage":{"input_tokens":30,"output_tokens":6,"cost_usd":0.012}}"#
                .replace('\n', "")
                .as_str(),
        ],
        0,
    );
    assert_eq!(run.outcome(), Outcome::Succeeded);
    insta::assert_snapshot!(run.log(), @r#"
    {"event":"session","id":"s-1"}
    {"event":"text","text":"looking around"}
    {"event":"tool","name":"edit","detail":"src/main.rs"}
    {"event":"text","text":"nearly there"}
    {"event":"spent","input_tokens":10,"output_tokens":2,"cost_micros":null}
    {"event":"spent","input_tokens":30,"output_tokens":6,"cost_micros":12000}
    {"event":"ended","ok":true,"text":"done"}
    "#);
    let reading = run.reading;
    assert_eq!(reading.session.as_deref(), Some("s-1"));
    assert_eq!(reading.text, "done");
    assert_eq!(reading.answer, Some(json!({ "ok": true })));
    assert_eq!((reading.input_tokens, reading.output_tokens), (30, 6));
    assert_eq!(reading.cost_micros, Some(12_000));
}

#[test]
fn an_exit_code_is_only_a_claim() {
    let run = spoken(&["I am done!", r#"{"verdict":"good"}"#], 0);
    assert_eq!((run.outcome(), run.reading.terminal), (Outcome::Crashed, None));
    assert_eq!(run.reading.text, r#"{"verdict":"good"}"#, "JSON that is no event is a text");
    assert_eq!(run.reading.answer, Some(json!({ "verdict": "good" })));
    let success = r#"{"type":"result","status":"success"}"#;
    assert_eq!(spoken(&[success], 1).outcome(), Outcome::Crashed);
    assert_eq!(read(AgentKind::Command, success, signal(9)).outcome(), Outcome::Crashed);
    assert_eq!(spoken(&[r#"{"type":"result","status":"SUCCESS"}"#], 0).outcome(), Outcome::Crashed);
}

#[test]
fn each_kind_of_error_has_its_outcome() {
    let check = |kind: &str, expected: Outcome| {
        let error = json!({ "type": "result", "status": "error", "error": { "kind": kind, "message": "m" } });
        let run = spoken(&[&error.to_string()], 1);
        assert_eq!(run.outcome(), expected, "{kind}");
        assert_eq!(run.reading.terminal, Some(Terminal::Error));
        if let Some(fault) = run.reading.fault {
            assert!(fault.structured && fault.detail == "m", "{kind}");
        }
    };
    check("quota", Outcome::Quota);
    check("auth", Outcome::Auth);
    check("transient", Outcome::Transient);
    check("budget", Outcome::OverBudget);
    check("permission", Outcome::Policy);
    check("session", Outcome::Transient);
    check("setup", Outcome::Crashed);
    check("rate_limit", Outcome::Quota);
    check("never heard of", Outcome::Crashed);
}

#[test]
fn a_quota_may_name_its_end() {
    let resets = |error: serde_json::Value| {
        let event = json!({ "type": "result", "status": "error", "error": error });
        spoken(&[&event.to_string()], 1).reading.resets_at
    };
    let at = Instant(1_893_456_000_000);
    assert_eq!(resets(json!({ "kind": "quota", "resets_at": "2030-01-01T00:00:00Z" })), Some(at));
    assert_eq!(resets(json!({ "kind": "quota", "resets_at": 1_893_456_000 })), Some(at));
    let minute = Some(NOW.plus(Span(60_000)));
    assert_eq!(resets(json!({ "kind": "quota", "message": "retry in 60s" })), minute);
    assert_eq!(resets(json!({ "kind": "quota", "resets_at": "tomorrow" })), None);
}

#[test]
fn reports_are_taken_as_they_are_told() {
    let person = r#"{"type":"report","tell":"needs_person","question":"which colour?"}"#;
    let nothing = r#"{"type":"report","tell":"nothing_to_do","reason":"it is done"}"#;
    let success = r#"{"type":"result","status":"success"}"#;
    let run = spoken(&[person, success], 0);
    assert_eq!(run.outcome(), Outcome::NeedsPerson);
    let question = "which colour?".to_owned();
    assert_eq!(run.reading.reports, [AgentReport::NeedsPerson { question }]);
    assert_eq!(spoken(&[nothing, success], 0).outcome(), Outcome::NothingToDo);
    assert_eq!(spoken(&[nothing], 0).outcome(), Outcome::Crashed);
    let wrong = spoken(&[r#"{"type":"report","tell":"a lie"}"#, success], 0);
    assert_eq!((wrong.outcome(), wrong.reading.reports.len()), (Outcome::Succeeded, 0));
    assert_eq!(spoken(&vec![nothing; 5_000], 0).reading.reports.len(), 100);
}

#[test]
fn a_fault_is_found_in_what_the_program_says_of_itself() {
    let fault = |stderr: &str| {
        let before = banksman::exec::agent::AgentUsage::default();
        let read = super::read_all(AgentKind::Command, before, ("", stderr), code(1));
        read.reading.fault.map(|fault| fault.kind)
    };
    assert_eq!(fault("Error: invalid API key"), Some(FaultKind::Auth));
    assert_eq!(fault("Segmentation fault"), None);
}
