//! opencode: what no recording shows.

use std::collections::BTreeMap;

use banksman::exec::agent::{self, AgentKind, AgentRequest, AgentSetup, AgentUsage, McpServer};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{FaultKind, Terminal};
use banksman_core::time::{Instant, Span};
use serde_json::{Value, json};

use super::{NOW, Read, code, read, signal, transcript};

fn step(reason: &str) -> String {
    let tokens =
        json!({ "input": 10, "output": 2, "reasoning": 3, "cache": { "read": 100, "write": 7 } });
    let part = json!({ "reason": reason, "tokens": tokens, "cost": 0.5 });
    json!({ "type": "step_finish", "sessionID": "ses_1", "part": part }).to_string()
}

fn start() -> String {
    json!({ "type": "step_start", "sessionID": "ses_1", "part": {} }).to_string()
}

fn tool(state: &Value) -> String {
    json!({ "type": "tool_use", "sessionID": "ses_1", "part": { "tool": "bash", "state": state } })
        .to_string()
}

fn failed(name: &str, data: Value) -> Read {
    let at = 1_794_725_620_193_i64;
    let mut event = json!({ "type": "error", "timestamp": at, "sessionID": "ses_1", "error": { "name": name } });
    event["error"]["data"] = data;
    read(AgentKind::Opencode, &event.to_string(), code(1))
}

#[test]
fn only_a_stop_with_a_good_exit_is_a_success() {
    let outcome =
        |lines: &[String], exit| read(AgentKind::Opencode, &lines.join("\n"), exit).outcome();
    let [stop, calls] = [step("stop"), step("tool-calls")];
    assert_eq!(outcome(&[start(), stop.clone()], code(0)), Outcome::Succeeded);
    assert_eq!(outcome(&[start(), stop.clone()], code(1)), Outcome::Crashed);
    let killed = read(AgentKind::Opencode, &[start(), stop.clone()].join("\n"), signal(15));
    assert_eq!(killed.reading.terminal, None, "the exit is part of its word");
    assert_eq!(outcome(&[start(), stop.clone()], signal(15)), Outcome::Crashed);
    assert_eq!(
        outcome(&[stop.clone(), start()], code(0)),
        Outcome::Crashed,
        "another step had begun"
    );
    assert_eq!(outcome(&[stop.clone(), calls.clone()], code(0)), Outcome::Crashed);
    assert_eq!(outcome(&[calls, stop.clone()], code(0)), Outcome::Succeeded);
    assert_eq!(outcome(&[step("length")], code(0)), Outcome::OverBudget);
    assert_eq!(outcome(&[step("content-filter")], code(0)), Outcome::Policy);
    assert_eq!(outcome(&[step("unknown")], code(0)), Outcome::Crashed);
    let error =
        json!({ "type": "error", "error": { "name": "UnknownError", "data": {} } }).to_string();
    assert_eq!(outcome(&[error, stop], code(0)), Outcome::Crashed, "an error is not undone");
}

#[test]
fn a_denied_tool_ends_the_run() {
    let denied = json!({ "status": "error", "input": { "command": "rm x" }, "error": "The user rejected permission to use this specific tool call." });
    let run = read(
        AgentKind::Opencode,
        &[start(), tool(&denied), step("tool-calls")].join("\n"),
        code(0),
    );
    assert_eq!((run.outcome(), run.reading.terminal), (Outcome::Policy, Some(Terminal::Error)));
    let broken = json!({ "status": "error", "error": "no such file" });
    let run = read(AgentKind::Opencode, &[tool(&broken), step("tool-calls")].join("\n"), code(0));
    assert_eq!(run.outcome(), Outcome::Crashed);
    let run = read(
        AgentKind::Opencode,
        &[tool(&denied), tool(&json!({ "status": "completed" })), step("stop")].join("\n"),
        code(0),
    );
    assert_eq!(run.outcome(), Outcome::Succeeded, "it found another way");
}

#[test]
fn faults_by_status_name_and_body() {
    let status = |status: i64, body: &str| {
        let data = json!({ "message": "m", "statusCode": status, "isRetryable": false, "responseBody": body });
        let run = failed("APIError", data);
        assert_eq!(run.reading.terminal, Some(Terminal::Error));
        run.outcome()
    };
    assert_eq!(status(429, ""), Outcome::Quota);
    assert_eq!(status(402, "not json"), Outcome::Quota);
    assert_eq!(status(401, ""), Outcome::Auth);
    assert_eq!(status(403, "<html>"), Outcome::Auth);
    assert_eq!(status(500, ""), Outcome::Transient);
    assert_eq!(status(503, ""), Outcome::Transient);
    assert_eq!(
        status(529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#),
        Outcome::Transient
    );
    assert_eq!(status(400, r#"{"error":{"code":"insufficient_quota"}}"#), Outcome::Quota);
    assert_eq!(status(400, r#"{"error":{"code":"context_length_exceeded"}}"#), Outcome::Transient);
    assert_eq!(status(400, r#"{"error":{"type":"invalid_request_error"}}"#), Outcome::Crashed);
    assert_eq!(status(404, ""), Outcome::Crashed);
    let named =
        |name: &str| failed(name, json!({ "message": "m" })).reading.fault.map(|fault| fault.kind);
    assert_eq!(named("ProviderAuthError"), Some(FaultKind::Auth));
    assert_eq!(named("ContextOverflowError"), Some(FaultKind::Session));
    assert_eq!(named("MessageOutputLengthError"), Some(FaultKind::Budget));
    assert_eq!(named("ContentFilterError"), Some(FaultKind::Permission));
    assert_eq!(named("MessageAbortedError"), None);
    let network =
        failed("APIError", json!({ "message": "Unable to connect.", "isRetryable": true }));
    assert_eq!(network.outcome(), Outcome::Transient);
}

#[test]
fn waits_count_from_the_event() {
    let resets = |headers: Value| {
        let data = json!({ "message": "m", "statusCode": 429, "responseHeaders": headers });
        failed("APIError", data).reading.resets_at
    };
    assert_eq!(resets(json!({ "retry-after": "60" })), Some(Instant(1_794_725_680_193)));
    assert_eq!(
        resets(json!({ "x-ratelimit-reset-requests": "1m30s" })),
        Some(Instant(1_794_725_710_193))
    );
    assert_eq!(resets(json!({})), None);
    let bare = json!({ "type": "error", "error": { "data": { "statusCode": 429, "responseHeaders": { "retry-after": "1" } } } });
    let read = read(AgentKind::Opencode, &bare.to_string(), code(1));
    assert_eq!(
        read.reading.resets_at,
        Some(Instant(NOW.0 + 1_000)),
        "without a time of its own it was just now"
    );
}

#[test]
fn every_step_is_counted_with_its_cache_and_its_thoughts() {
    let run = read(AgentKind::Opencode, &[step("tool-calls"), step("stop")].join("\n"), code(0));
    let reading = run.reading;
    assert_eq!((reading.input_tokens, reading.output_tokens), (234, 10));
    assert_eq!(reading.cost_micros, Some(1_000_000));
}

#[test]
fn the_answer_is_in_the_last_message() {
    let text = |message: &str, text: &str| {
        json!({ "type": "text", "sessionID": "s", "part": { "messageID": message, "text": text } })
            .to_string()
    };
    let lines = [
        text("m1", r#"I will answer {"no": 1}"#),
        text("m2", "```json\n{\"ok\":"),
        text("m2", " true}\n```"),
        step("stop"),
    ];
    let reading = read(AgentKind::Opencode, &lines.join("\n"), code(0)).reading;
    assert_eq!(reading.answer, Some(json!({ "ok": true })));
    assert_eq!(reading.text, "```json\n{\"ok\": true}\n```");
}

#[test]
fn what_people_see() {
    let run = read(AgentKind::Opencode, &transcript("opencode-edit.jsonl"), code(0));
    insta::assert_snapshot!(run.log(), @r#"
    {"event":"session","id":"ses_e22059805ffeUbJ6lLRg3x4YvY"}
    {"event":"tool","name":"write","detail":"/repo/hello.txt"}
    {"event":"tool_result","ok":true,"detail":"Wrote file successfully."}
    {"event":"spent","input_tokens":100,"output_tokens":20,"cost_micros":140}
    {"event":"tool","name":"bash","detail":"cat hello.txt && git status --short"}
    {"event":"tool_result","ok":true,"detail":"hi from fake ?? hello.txt"}
    {"event":"spent","input_tokens":200,"output_tokens":40,"cost_micros":280}
    {"event":"text","text":"done: wrote hello.txt"}
    {"event":"spent","input_tokens":300,"output_tokens":60,"cost_micros":420}
    {"event":"ended","ok":true,"text":"done: wrote hello.txt"}
    "#);
}

/// It waits for as long as the provider says, and only its log tells of it.
#[test]
fn a_refusal_in_the_log_counts_until_something_comes_after_it() {
    let refused = |small: bool| {
        format!(
            "timestamp=2026-11-15T15:58:08.476Z level=ERROR run=21c1a00c message=\"stream error\" small={small} mode=primary \
             error.error=\"AI_APICallError: The \\\"plus\\\" usage limit has been reached, try again in 2 hours\""
        )
    };
    let read = |err: &str, out: &str| {
        let mut reader = agent::reader(AgentKind::Opencode, AgentUsage::default());
        reader.error_line(err, &mut Vec::new());
        reader.line(out, &mut Vec::new());
        reader.finish(signal(9), NOW)
    };
    let waiting = read(&refused(false), "");
    let fault = waiting.fault.expect("the refusal");
    assert_eq!(fault.kind, FaultKind::Quota);
    assert_eq!(fault.detail, "The \"plus\" usage limit has been reached, try again in 2 hours");
    assert_eq!(waiting.resets_at, Some(NOW.plus(Span(7_200_000))));
    let got_over = read(&refused(false), &start());
    assert_eq!((got_over.fault, got_over.resets_at), (None, None));
    assert_eq!(read(&refused(true), "").fault, None, "nobody needs a title");
    assert_eq!(read(&refused(false).replace("stream", "other"), "").fault, None);
}

#[test]
fn launch() {
    let setup = |env: &[(&str, &str)]| AgentSetup {
        kind: AgentKind::Opencode,
        command: vec!["oc".to_owned(), "--print-logs".to_owned()],
        model: Some("a/b".to_owned()),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        pass: Vec::new(),
    };
    let ask = AgentRequest {
        prompt: "do \"it\"".to_owned(),
        session: Some("ses_1".to_owned()),
        schema: Some(json!({ "type": "object" })),
        lenient: false,
        mcp: Some(McpServer {
            name: "banksman".to_owned(),
            command: "/bin/banksman".to_owned(),
            args: vec!["mcp".to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
        }),
        cost_micros: None,
        guard: None,
    };
    let plain = AgentSetup { command: Vec::new(), ..setup(&[]) };
    let expected = "run --format json --auto --title banksman --print-logs --log-level ERROR --model a/b --session ses_1";
    assert_eq!(agent::launch(&plain, &ask).args.join(" "), expected);
    let launch = agent::launch(&setup(&[]), &ask);
    assert_eq!(launch.program, "oc");
    let expected =
        "--print-logs run --format json --auto --title banksman --model a/b --session ses_1";
    assert_eq!(launch.args.join(" "), expected);
    let stdin = launch.stdin.unwrap();
    assert!(stdin.starts_with("do \"it\"\n") && stdin.contains(r#"{"type":"object"}"#), "{stdin}");
    let config = |launch: &agent::Launch| -> Value {
        serde_json::from_str(&launch.env["OPENCODE_CONFIG_CONTENT"]).unwrap()
    };
    let server = json!({ "type": "local", "command": ["/bin/banksman", "mcp"], "environment": { "TOKEN": "secret" }, "enabled": true });
    let ours = json!({ "permission": "allow", "autoupdate": false, "mcp": { "banksman": server } });
    assert_eq!(config(&agent::launch(&setup(&[]), &ask)), ours);

    let own = r#"{"provider":{"p":{}},"permission":"ask","mcp":{"other":{}}}"#;
    let merged = config(&agent::launch(&setup(&[("OPENCODE_CONFIG_CONTENT", own)]), &ask));
    assert_eq!(merged["provider"], json!({ "p": {} }));
    assert_eq!(merged["permission"], "allow");
    assert_eq!(merged["mcp"], json!({ "other": {}, "banksman": server }));
    let with_comments = "{ // mine\n }";
    let kept = agent::launch(&setup(&[("OPENCODE_CONFIG_CONTENT", with_comments)]), &ask);
    assert_eq!(kept.env["OPENCODE_CONFIG_CONTENT"], with_comments);
}
