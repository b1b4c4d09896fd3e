//! Agents of the Agent Client Protocol: what no recording shows.

use std::collections::BTreeMap;

use banksman::exec::agent::acp_client::AcpRequest;
use banksman::exec::agent::{
    self, AgentKind, AgentRequest, AgentSetup, AgentUsage, McpServer, OWN_PROGRAM,
};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{FaultKind, Terminal};
use serde_json::{Value, json};

use super::{Read, code, read, read_all, transcript};

fn message(mark: &str, mut message: Value, key: &str, value: Value) -> String {
    message["jsonrpc"] = json!("2.0");
    message[key] = value;
    format!("{mark} {message}")
}

fn sent(id: i64, method: &str, params: Value) -> String {
    message(">", json!({ "id": id, "method": method }), "params", params)
}

fn answer(id: i64, result: Value) -> String {
    message("<", json!({ "id": id }), "result", result)
}

fn refusal(id: i64, error: Value) -> String {
    message("<", json!({ "id": id }), "error", error)
}

fn update(update: Value) -> String {
    let mut params = json!({ "sessionId": "s" });
    params["update"] = update;
    message("<", json!({ "method": "session/update" }), "params", params)
}

fn said(text: &str) -> String {
    update(
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
    )
}

fn codex(info: Value) -> String {
    let mut about = json!({ "sessionUpdate": "session_info_update", "_meta": {} });
    about["_meta"]["codex"] = info;
    update(about)
}

/// A session up to its prompt, and then these lines.
fn prompted(lines: &[String]) -> Read {
    let start = [
        sent(1, "initialize", json!({})),
        answer(1, json!({})),
        sent(2, "session/new", json!({})),
        answer(2, json!({ "sessionId": "s-1" })),
        sent(3, "session/prompt", json!({ "sessionId": "s-1" })),
    ];
    read(AgentKind::Acp, &[&start[..], lines].concat().join("\n"), code(0))
}

fn kind(run: &Read) -> Option<FaultKind> {
    run.reading.fault.as_ref().map(|fault| fault.kind)
}

#[test]
fn every_reason_to_stop_has_its_outcome() {
    for (reason, expected) in [
        ("end_turn", Outcome::Succeeded),
        ("max_tokens", Outcome::OverBudget),
        ("max_turn_requests", Outcome::OverBudget),
        ("refusal", Outcome::Policy),
        ("cancelled", Outcome::Crashed),
        ("of_next_year", Outcome::Crashed),
    ] {
        let run = prompted(&[said("hello"), answer(3, json!({ "stopReason": reason }))]);
        assert_eq!(run.outcome(), expected, "{reason}");
        assert_eq!(run.reading.session.as_deref(), Some("s-1"));
    }
    assert_eq!(prompted(&[said("hello")]).reading.terminal, None);
    let other = prompted(&[
        answer(2, json!({ "stopReason": "end_turn" })),
        answer(9, json!({ "stopReason": "end_turn" })),
    ]);
    assert_eq!(other.reading.terminal, None, "an answer to something else");
}

#[test]
fn a_turn_that_ends_well_after_a_fault_is_none() {
    let too_many = json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 429 } });
    let end = |usage: Value| answer(3, json!({ "stopReason": "end_turn", "usage": usage }));
    let words = "exceeded retry limit, last status: 429 Too Many Requests";
    let status = |status: &str| codex(json!({ "threadStatus": { "type": status } }));
    let retry = codex(
        json!({ "error": { "message": "Reconnecting... 1/5", "codexErrorInfo": too_many, "willRetry": true } }),
    );

    let broken = prompted(&[
        status("active"),
        retry.clone(),
        status("systemError"),
        said(words),
        end(Value::Null),
    ]);
    assert_eq!(
        (broken.outcome(), broken.reading.terminal),
        (Outcome::Quota, Some(Terminal::Error))
    );
    assert!(broken.reading.fault.unwrap().structured);
    let untold = prompted(&[status("systemError"), said("it broke"), end(Value::Null)]);
    assert_eq!(
        (untold.outcome(), untold.reading.terminal),
        (Outcome::Crashed, Some(Terminal::Error))
    );
    assert_eq!(
        prompted(&[said(words), end(Value::Null)]).outcome(),
        Outcome::Quota,
        "nobody counted a token"
    );
    let zero = json!({ "inputTokens": 5, "outputTokens": 0, "totalTokens": 5 });
    assert_eq!(prompted(&[said("Rate limit reached"), end(zero)]).outcome(), Outcome::Quota);

    let spoke = json!({ "inputTokens": 5, "outputTokens": 9, "totalTokens": 14 });
    let recovered = [
        status("active"),
        retry,
        said("the code handles status 429 well"),
        status("idle"),
        end(spoke),
    ];
    assert_eq!(prompted(&recovered).outcome(), Outcome::Succeeded, "a retry that worked");
    let review = "The rate limit is handled. ".repeat(30);
    assert_eq!(
        prompted(&[said(&review), end(Value::Null)]).outcome(),
        Outcome::Succeeded,
        "a text about limits"
    );
}

#[test]
fn faults_by_code_and_data() {
    let outcome = |error: Value| prompted(&[refusal(3, error)]).outcome();
    let internal =
        |data: Value| json!({ "code": -32603, "message": "Internal error", "data": data });
    assert_eq!(outcome(json!({ "code": 429, "message": "m" })), Outcome::Quota);
    assert_eq!(outcome(json!({ "code": 401, "message": "m" })), Outcome::Auth);
    assert_eq!(outcome(json!({ "code": 503, "message": "m" })), Outcome::Transient);
    assert_eq!(
        outcome(json!({ "code": -32000, "message": "Authentication required" })),
        Outcome::Auth
    );
    assert_eq!(outcome(internal(json!({ "errorKind": "overloaded" }))), Outcome::Transient);
    assert_eq!(outcome(internal(json!({ "errorKind": "billing_error" }))), Outcome::Quota);
    assert_eq!(
        outcome(internal(json!({ "codexErrorInfo": "usageLimitExceeded" }))),
        Outcome::Quota
    );
    assert_eq!(
        outcome(internal(
            json!({ "codexErrorInfo": { "httpConnectionFailed": { "httpStatusCode": 401 } } })
        )),
        Outcome::Auth
    );
    assert_eq!(
        outcome(internal(json!({ "codexErrorInfo": { "responseStreamDisconnected": {} } }))),
        Outcome::Transient
    );
    assert_eq!(
        outcome(internal(json!({ "codexErrorInfo": "contextWindowExceeded" }))),
        Outcome::Transient
    );
    assert_eq!(outcome(internal(Value::Null)), Outcome::Crashed);
}

#[test]
fn a_refused_start_is_told_apart() {
    let start = |method: &str, error: Value| {
        let lines = [
            sent(1, "initialize", json!({})),
            answer(1, json!({})),
            sent(2, method, json!({ "sessionId": "old" })),
            refusal(2, error),
        ];
        read(AgentKind::Acp, &lines.join("\n"), code(1))
    };
    let vague = json!({ "code": -32603, "message": "Internal error" });
    assert_eq!(kind(&start("session/load", vague.clone())), Some(FaultKind::Session));
    assert_eq!(
        kind(&start(
            "session/resume",
            json!({ "code": -32002, "message": "Resource not found: old" })
        )),
        Some(FaultKind::Session)
    );
    assert_eq!(
        kind(&start("session/load", json!({ "code": -32000, "message": "log in" }))),
        Some(FaultKind::Auth)
    );
    assert_eq!(kind(&start("session/new", vague)), None);
    let gone = read_all(
        AgentKind::Acp,
        AgentUsage::default(),
        ("", "error: failed to start `nothing`"),
        code(1),
    );
    assert_eq!(kind(&gone), Some(FaultKind::Setup));
}

#[test]
fn the_history_of_a_resumed_session_is_not_this_run() {
    let cost = |amount: f64| {
        update(
            json!({ "sessionUpdate": "usage_update", "used": 1, "cost": { "amount": amount, "currency": "USD" } }),
        )
    };
    let lines = [
        sent(1, "session/load", json!({ "sessionId": "old" })),
        said("{\"old\":1}"),
        update(json!({ "sessionUpdate": "tool_call", "title": "old tool", "status": "completed" })),
        cost(0.5),
        answer(1, Value::Null),
        sent(2, "session/prompt", json!({})),
        cost(0.75),
        answer(
            2,
            json!({ "stopReason": "end_turn", "usage": { "inputTokens": 10, "outputTokens": 4, "cachedReadTokens": 90, "totalTokens": 104 } }),
        ),
    ];
    let run = read(AgentKind::Acp, &lines.join("\n"), code(0));
    assert!(!run.log().contains("old tool"), "{}", run.log());
    let reading = run.reading;
    assert_eq!((reading.text.as_str(), reading.answer), ("", None));
    assert_eq!((reading.session.as_deref(), reading.cost_micros), (Some("old"), Some(250_000)));
    assert_eq!(
        (reading.input_tokens, reading.output_tokens),
        (100, 4),
        "what came from the cache counts"
    );
}

#[test]
fn what_people_see() {
    let run = read(AgentKind::Acp, &transcript("acp-opencode.jsonl"), code(0));
    insta::assert_snapshot!(run.log(), @r#"
    {"event":"session","id":"ses_e21f8cec2ffem7hyI5dehMOt17"}
    {"event":"tool","name":"write","detail":""}
    {"event":"tool","name":"asks to: /repo/hello.txt","detail":"{\"diff\":\"Index: /repo/hello.txt\\n===================================================================\\n--- /repo/hello.txt\\n+++ /repo/hello.txt\\n@@ -0,0 +1,1 @@\\n+hi\\n\",\"filepath\":\"/repo/hello.txt\"}"}
    {"event":"tool_result","ok":true,"detail":"Wrote file successfully."}
    {"event":"text","text":"done"}
    {"event":"spent","input_tokens":0,"output_tokens":0,"cost_micros":280}
    {"event":"spent","input_tokens":100,"output_tokens":20,"cost_micros":280}
    {"event":"ended","ok":true,"text":"done"}
    "#);
}

#[test]
fn launch() {
    let env = BTreeMap::from([("KEY".to_owned(), "k".to_owned())]);
    let mut setup = AgentSetup {
        kind: AgentKind::Acp,
        command: vec!["gemini".to_owned(), "--acp".to_owned()],
        model: None,
        env,
        pass: Vec::new(),
    };
    let mcp = McpServer {
        name: "b".to_owned(),
        command: "/b".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
    };
    let ask = AgentRequest {
        prompt: "do it".to_owned(),
        session: Some("s".to_owned()),
        schema: Some(json!({ "type": "object" })),
        lenient: false,
        mcp: Some(mcp.clone()),
        cost_micros: None,
        guard: None,
    };
    let launch = agent::launch(&setup, &ask);
    assert_eq!(launch.program, OWN_PROGRAM);
    assert_eq!(launch.args.join(" "), "acp-client -- gemini --acp");
    let order: AcpRequest = serde_json::from_str(&launch.stdin.unwrap()).unwrap();
    assert!(
        order.ask.prompt.starts_with("do it\n")
            && order.ask.prompt.contains(r#"{"type":"object"}"#)
    );
    assert_eq!((order.ask.session.as_deref(), order.ask.mcp), (Some("s"), Some(mcp)));
    setup.env.insert("BANKSMAN_ACP_FILES".to_owned(), "1".to_owned());
    let launch = agent::launch(&setup, &ask);
    assert_eq!(launch.args.join(" "), "acp-client --files -- gemini --acp");
    assert_eq!(launch.env.keys().collect::<Vec<_>>(), ["KEY"]);
}
