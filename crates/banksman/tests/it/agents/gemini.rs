//! Gemini CLI: what no recording shows.

use std::collections::BTreeMap;

use banksman::exec::agent::{
    self, AgentEvent, AgentKind, AgentRequest, AgentSetup, AgentUsage, McpServer,
};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{FaultKind, Terminal};
use banksman_core::time::Instant;
use serde_json::{Value, json};

use super::{Read, code, read, read_all, signal, transcript};

fn result(status: &str, error: Value) -> String {
    let stats = json!({ "input_tokens": 7, "output_tokens": 3 });
    let mut event = json!({ "type": "result", "timestamp": "2026-11-15T07:00:00Z", "status": status, "stats": stats });
    event["error"] = error;
    event.to_string()
}

fn refused(message: &str) -> String {
    result("error", json!({ "type": "unknown", "message": message }))
}

fn kind(run: &Read) -> Option<FaultKind> {
    run.reading.fault.as_ref().map(|fault| fault.kind)
}

#[test]
fn the_exit_code_is_a_status() {
    let outcome = |exit: i32| {
        read(AgentKind::Gemini, &refused("[API Error: something]"), code(exit)).outcome()
    };
    for (status, expected) in [
        (400, Outcome::Crashed),
        (401, Outcome::Auth),
        (402, Outcome::Quota),
        (403, Outcome::Auth),
        (404, Outcome::Crashed),
        (408, Outcome::Transient),
        (429, Outcome::Quota),
        (500, Outcome::Transient),
        (502, Outcome::Transient),
        (503, Outcome::Transient),
        (504, Outcome::Transient),
        (520, Outcome::Transient),
        (529, Outcome::Transient),
    ] {
        assert_eq!(outcome(status % 256), expected, "{status}");
    }
    assert_eq!(outcome(1), Outcome::Crashed);
    let unsaid = read(AgentKind::Gemini, "", code(173));
    assert_eq!(unsaid.outcome(), Outcome::Crashed, "without a result it is no status");
}

#[test]
fn its_own_codes_mean_the_same_with_and_without_a_result() {
    for (exit, expected) in [
        (41, FaultKind::Auth),
        (42, FaultKind::Setup),
        (44, FaultKind::Setup),
        (52, FaultKind::Setup),
        (53, FaultKind::Budget),
        (55, FaultKind::Setup),
    ] {
        for stdout in [String::new(), refused("Reached something")] {
            assert_eq!(
                kind(&read(AgentKind::Gemini, &stdout, code(exit))),
                Some(expected),
                "{exit}"
            );
        }
    }
    let resume = read_all(
        AgentKind::Gemini,
        AgentUsage::default(),
        ("", "Error resuming session: none"),
        code(42),
    );
    assert_eq!(kind(&resume), Some(FaultKind::Session));
    assert_eq!(read(AgentKind::Gemini, "", code(130)).outcome(), Outcome::Crashed);
}

#[test]
fn a_body_in_the_message_says_more_than_the_exit() {
    let body = json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down",
        "details": [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s" }] } });
    let run = read(AgentKind::Gemini, &refused(&format!("[API Error: {body}]")), code(1));
    assert_eq!(run.outcome(), Outcome::Quota);
    assert_eq!(run.reading.resets_at, "2026-11-15T07:00:34Z".parse::<Instant>().ok());
    assert_eq!(run.reading.fault.unwrap().detail, "slow down");
}

#[test]
fn the_error_on_standard_error_fills_in() {
    let dump = "TerminalQuotaError: gone\n  retryDelayMs: 90000,\n  status: 429\n}";
    let run = read_all(
        AgentKind::Gemini,
        AgentUsage::default(),
        (&refused("[API Error: gone]"), dump),
        code(1),
    );
    assert_eq!(run.outcome(), Outcome::Quota);
    assert_eq!(run.reading.resets_at, "2026-11-15T07:01:30Z".parse::<Instant>().ok());
}

#[test]
fn an_error_of_its_own_spoils_a_good_result() {
    let error = |severity: &str, message: &str| {
        let event = json!({ "type": "error", "severity": severity, "message": message });
        read(
            AgentKind::Gemini,
            &[event.to_string(), result("success", Value::Null)].join("\n"),
            code(0),
        )
    };
    assert_eq!(error("error", "Maximum session turns exceeded").outcome(), Outcome::OverBudget);
    assert_eq!(error("error", "something new").outcome(), Outcome::Crashed);
    assert_eq!(error("warning", "Loop detected").outcome(), Outcome::Succeeded);
    let bare = read(AgentKind::Gemini, &result("error", Value::Null), code(0));
    assert_eq!((bare.outcome(), bare.reading.terminal), (Outcome::Crashed, Some(Terminal::Error)));
}

#[test]
fn a_retry_that_worked_is_forgotten() {
    let retry = "Attempt 1 failed with status 503. Retrying with backoff...";
    let message = json!({ "type": "message", "role": "assistant", "content": "ok", "delta": true })
        .to_string();
    let mut reader = agent::reader(AgentKind::Gemini, AgentUsage::default());
    let mut seen = Vec::new();
    reader.error_line(retry, &mut seen);
    assert!(matches!(&seen[..], [AgentEvent::Note { .. }]), "{seen:?}");
    reader.line(&message, &mut seen);
    let reading = reader.finish(signal(9), super::NOW);
    assert_eq!((reading.fault, reading.text.as_str()), (None, "ok"));
}

#[test]
fn only_a_tool_that_was_taken_away_was_denied() {
    let run = |id: &str, kind: &str, after: &str| {
        let result_of = |id: &str, status: &str, error: Value| {
            json!({ "type": "tool_result", "tool_id": id, "status": status, "error": error })
                .to_string()
        };
        let mut lines = vec![result_of(id, "error", json!({ "type": kind, "message": "no" }))];
        if !after.is_empty() {
            lines.push(result_of(after, "success", Value::Null));
        }
        lines.push(result("success", Value::Null));
        read(AgentKind::Gemini, &lines.join("\n"), code(0)).outcome()
    };
    assert_eq!(run("write_file__1", "tool_not_registered", ""), Outcome::Policy);
    assert_eq!(
        run("wriet_file__1", "tool_not_registered", ""),
        Outcome::Succeeded,
        "a misspelled name"
    );
    assert_eq!(run("x__1", "policy_violation", ""), Outcome::Policy);
    assert_eq!(run("x__1", "policy_violation", "y__2"), Outcome::Succeeded, "it found another way");
    assert_eq!(run("write_file__1", "file_not_found", ""), Outcome::Succeeded);
}

#[test]
fn the_answer_is_what_came_after_the_last_tool() {
    let say = |text: &str| {
        json!({ "type": "message", "role": "assistant", "content": text, "delta": true })
            .to_string()
    };
    let tool = json!({ "type": "tool_use", "tool_name": "t", "tool_id": "t__1", "parameters": {} })
        .to_string();
    let user = json!({ "type": "message", "role": "user", "content": "{\"mine\":1}" }).to_string();
    let lines = [
        user,
        say("{\"early\":1}"),
        tool,
        say("{\"ok\""),
        say(":true}"),
        result("success", Value::Null),
    ];
    let reading = read(AgentKind::Gemini, &lines.join("\n"), code(0)).reading;
    assert_eq!(
        (reading.text.as_str(), reading.answer),
        ("{\"ok\":true}", Some(json!({ "ok": true })))
    );
    assert_eq!((reading.input_tokens, reading.output_tokens), (7, 3));
}

#[test]
fn what_people_see() {
    let run = read(AgentKind::Gemini, &transcript("gemini-edit.jsonl"), code(0));
    insta::assert_snapshot!(run.log(), @r#"
    {"event":"session","id":"5e4b4c6e-8974-4431-9979-c1831a8be0ce"}
    {"event":"tool","name":"write_file","detail":"/repo/hello.txt"}
    {"event":"tool_result","ok":true,"detail":""}
    {"event":"tool","name":"run_shell_command","detail":"cat hello.txt && git status --short"}
    {"event":"tool_result","ok":true,"detail":"hi from fake ?? hello.txt"}
    {"event":"text","text":"done: wrote hello.txt"}
    {"event":"spent","input_tokens":300,"output_tokens":60,"cost_micros":null}
    {"event":"ended","ok":true,"text":"done: wrote hello.txt"}
    "#);
}

#[test]
fn launch() {
    let setup = AgentSetup {
        kind: AgentKind::Gemini,
        command: Vec::new(),
        model: Some("gemini-2.5-pro".to_owned()),
        env: BTreeMap::from([("GEMINI_API_KEY".to_owned(), "k".to_owned())]),
        pass: Vec::new(),
    };
    let mut ask = AgentRequest {
        prompt: "/etc/hosts is wrong".to_owned(),
        session: Some("s-1".to_owned()),
        schema: None,
        lenient: false,
        mcp: None,
        cost_micros: None,
        guard: None,
    };
    let launch = agent::launch(&setup, &ask);
    assert_eq!(launch.program, "gemini");
    assert_eq!(
        launch.args.join(" "),
        "--output-format stream-json --approval-mode yolo --skip-trust --model gemini-2.5-pro --resume s-1"
    );
    assert_eq!(launch.stdin.as_deref(), Some(" /etc/hosts is wrong"), "not a command of its own");
    let env: Vec<String> =
        launch.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        env,
        [
            "GEMINI_API_KEY=k",
            "GEMINI_CLI_NO_RELAUNCH=true",
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH={folder}/gemini-settings.json"
        ]
    );
    ask.mcp = Some(McpServer {
        name: "banksman".to_owned(),
        command: "/bin/banksman".to_owned(),
        args: vec!["mcp".to_owned()],
        env: BTreeMap::new(),
    });
    let files = agent::launch(&setup, &ask).files;
    let settings: Value = serde_json::from_str(&files[0].1).unwrap();
    assert_eq!(files[0].0, "gemini-settings.json");
    let server = json!({ "command": "/bin/banksman", "args": ["mcp"], "env": {}, "trust": true });
    assert_eq!(settings["mcpServers"], json!({ "banksman": server }));
}
