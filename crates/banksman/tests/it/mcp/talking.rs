//! The protocol: who answers what, and what is refused how.

use std::fs;

use banksman_core::limits::{TOOL_BATCH, TOOL_MESSAGE_BYTES};
use serde_json::{Value, json};

use super::session::{RunDir, Session, command};

fn with_session(test: impl FnOnce(&mut Session)) {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    test(&mut session);
    session.close();
}

fn error_code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("not an error: {answer}"))
}

#[test]
fn the_handshake() {
    with_session(|session| {
        let version = |session: &mut Session, asked: &str| {
            let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": {} });
            session.request("initialize", &params)["result"].clone()
        };
        for spoken in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
            assert_eq!(version(session, spoken)["protocolVersion"], spoken);
        }
        let answer = version(session, "2099-01-01");
        assert_eq!(answer["protocolVersion"], "2025-11-25");
        assert_eq!(answer["capabilities"], json!({ "tools": {} }));
        assert_eq!(answer["serverInfo"]["name"], "banksman");
        session.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(session.request("ping", &Value::Null)["result"], json!({}));
    });
}

#[test]
fn the_tools_are_listed_with_their_arguments() {
    with_session(|session| {
        let answer = session.request("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap();
        let listed: Vec<(&str, &Value)> = tools
            .iter()
            .map(|tool| (tool["name"].as_str().unwrap(), &tool["inputSchema"]["required"]))
            .collect();
        assert_eq!(
            listed,
            [
                ("report_progress", &json!(["step"])),
                ("ask_person", &json!(["question"])),
                ("request_approval", &json!(["reason"])),
                ("nothing_to_do", &json!(["reason"])),
                ("task", &json!([])),
            ]
        );
        for tool in tools {
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert!(tool["description"].as_str().unwrap().len() > 20);
            assert_eq!(tool["_meta"], json!({ "anthropic/alwaysLoad": true }));
        }
    });
}

#[test]
fn unknown_methods_are_refused_and_unknown_notifications_are_not_answered() {
    with_session(|session| {
        for method in ["server/discover", "resources/list", "tools/run", ""] {
            assert_eq!(error_code(&session.request(method, &json!({}))), -32601, "{method}");
        }
        session.send(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        );
        session.send(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        session.send("");
        assert_eq!(session.request("ping", &Value::Null)["result"], json!({}));
    });
}

#[test]
fn what_is_no_request_is_refused_and_the_server_goes_on() {
    with_session(|session| {
        for (line, code) in [
            (&b"{\"jsonrpc\":"[..], -32700),
            (b"not json", -32700),
            (b"\xff\xfe", -32700),
            (b"null", -32600),
            (b"7", -32600),
            (b"[]", -32600),
            (br#"{"jsonrpc":"2.0","id":1}"#, -32600),
            (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        ] {
            session.send(line);
            let answer = session.receive();
            let shown = String::from_utf8_lossy(line);
            assert_eq!((error_code(&answer), &answer["id"]), (code, &Value::Null), "{shown}");
        }
        session.send("[".repeat(100_000));
        assert_eq!(error_code(&session.receive()), -32700);
        session.send(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#);
        assert_eq!(session.receive(), json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
    });
}

#[test]
fn a_huge_line_is_passed_over() {
    with_session(|session| {
        let ping = |bytes: usize| {
            let around = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":""}"#;
            around.replace("\"\"", &format!("\"{}\"", "x".repeat(bytes - around.len())))
        };
        session.send(ping(TOOL_MESSAGE_BYTES));
        assert_eq!(session.receive()["result"], json!({}));
        session.send(ping(TOOL_MESSAGE_BYTES + 1));
        assert_eq!(error_code(&session.receive()), -32600);
        session.send(ping(8 * TOOL_MESSAGE_BYTES));
        assert_eq!(error_code(&session.receive()), -32600);
        assert_eq!(session.request("ping", &Value::Null)["result"], json!({}));
    });
}

#[test]
fn a_batch_is_answered_as_one() {
    with_session(|session| {
        let ping = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        session.send(json!([ping(1), note, ping(2), 3]).to_string());
        let answers = session.receive();
        let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [&json!(1), &json!(2), &Value::Null]);
        session.send(json!([note]).to_string());
        session.send(Value::from_iter((0..=TOOL_BATCH).map(ping)).to_string());
        assert_eq!(error_code(&session.receive()), -32600);
    });
}

#[test]
fn a_last_line_without_an_end_is_answered() {
    let folder = RunDir::new();
    let mut child = command(folder.path()).spawn().unwrap();
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), line).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["result"], json!({}));
}

#[test]
fn without_a_run_it_says_so() {
    let folder = RunDir::new();
    let missing = command(folder.path()).env_remove("BANKSMAN_RUN_FOLDER").output().unwrap();
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(text.contains("BANKSMAN_RUN_FOLDER is not set"), "{text}");
    assert_eq!(missing.status.code(), Some(2));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let wrong = command(folder.path()).env("BANKSMAN_RUN_FOLDER", &file).output().unwrap();
    assert_ne!(wrong.status.code(), Some(0));
    assert_eq!(wrong.stdout, b"");
}

#[test]
fn the_folder_of_another_run_is_not_served() {
    let folder = RunDir::new();
    let status = |run: &str| command(folder.path()).env("BANKSMAN_RUN", run).output().unwrap();
    assert!(status("r1.1:4711").status.success());
    let other = status("r2.1:4712");
    assert_eq!(other.status.code(), Some(1));
    let text = String::from_utf8(other.stderr).unwrap();
    assert!(text.contains("is the folder of another run"), "{text}");
}
