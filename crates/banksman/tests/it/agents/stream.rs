//! What the streams of Claude Code and Codex mean beyond their outcome: events for people, counts
//! of one run, faults that are none, and ends that only look good.

use banksman::exec::agent::{AgentEvent, AgentKind, AgentUsage};
use banksman_core::lifecycle::Outcome;
use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::{Fault, FaultKind, Terminal};
use banksman_core::time::Span;
use serde_json::json;

use super::{NOW, code, read, read_all, signal, transcript};

const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;

fn claude(lines: &[&str]) -> Outcome {
    read(AgentKind::Claude, &lines.join("\n"), code(0)).outcome()
}

fn failed_turn(message: &str) -> String {
    json!({ "type": "turn.failed", "error": { "message": message } }).to_string()
}

#[test]
fn people_see_what_claude_does() {
    let log = read(AgentKind::Claude, &transcript("claude-edit.jsonl"), code(0)).log();
    insta::assert_snapshot!(log, @r#"
    {"event":"session","id":"be6bf926-b8a7-4eb2-b683-dcbc2da32784"}
    {"event":"spent","input_tokens":100,"output_tokens":1,"cost_micros":null}
    {"event":"tool","name":"Write","detail":"/repo/hello.txt"}
    {"event":"tool_result","ok":true,"detail":"File created successfully at: /repo/hello.txt (file state is current in your context — no need to Read it back)"}
    {"event":"spent","input_tokens":200,"output_tokens":2,"cost_micros":null}
    {"event":"tool","name":"Bash","detail":"cat hello.txt && git status --short"}
    {"event":"tool_result","ok":true,"detail":"hi from fake ?? hello.txt"}
    {"event":"spent","input_tokens":300,"output_tokens":3,"cost_micros":null}
    {"event":"text","text":"done: wrote hello.txt"}
    {"event":"spent","input_tokens":300,"output_tokens":60,"cost_micros":2400}
    {"event":"ended","ok":true,"text":"done: wrote hello.txt"}
    "#);
}

#[test]
fn people_see_what_codex_does() {
    let edit = read(AgentKind::Codex, &transcript("codex-edit.jsonl"), code(0)).log();
    insta::assert_snapshot!(edit, @r#"
    {"event":"session","id":"01a1ddf7-7cf3-7142-998a-f83430a25bb7"}
    {"event":"tool","name":"edit","detail":"/repo/hello.txt"}
    {"event":"tool_result","ok":true,"detail":""}
    {"event":"tool","name":"shell","detail":"/bin/bash -lc 'cat hello.txt && git status --short'"}
    {"event":"tool_result","ok":true,"detail":"hi from fake ?? hello.txt"}
    {"event":"text","text":"done: wrote hello.txt"}
    {"event":"spent","input_tokens":300,"output_tokens":60,"cost_micros":null}
    {"event":"ended","ok":true,"text":"done: wrote hello.txt"}
    "#);
    let mcp = read(AgentKind::Codex, &transcript("codex-mcp.jsonl"), code(0)).log();
    insta::assert_snapshot!(mcp, @r#"
    {"event":"session","id":"01a1ddf8-e4a4-77f2-8d09-ed9fde6d7cc3"}
    {"event":"tool","name":"plane.report_done","detail":"{\"summary\":\"all good\"}"}
    {"event":"tool_result","ok":true,"detail":"recorded: all good"}
    {"event":"text","text":"reported"}
    {"event":"spent","input_tokens":200,"output_tokens":40,"cost_micros":null}
    {"event":"ended","ok":true,"text":"reported"}
    "#);
}

#[test]
fn a_refused_key_is_hopeless_from_the_second_refusal_on() {
    let log = read(AgentKind::Claude, &transcript("claude-auth401.jsonl"), code(143)).log();
    let first: Vec<&str> = log.lines().take(5).collect();
    insta::assert_snapshot!(first.join("\n"), @r#"
    {"event":"session","id":"3b300424-3f2f-4674-9190-622ba2d54efd"}
    {"event":"note","text":"retry 1 of 10: 401 authentication_failed"}
    {"event":"note","text":"retry 2 of 10: 401 authentication_failed"}
    {"event":"cannot_continue","reason":"retry 2 of 10: 401 authentication_failed"}
    {"event":"note","text":"retry 3 of 10: 401 authentication_failed"}
    "#);
    let busy = read(AgentKind::Claude, &transcript("claude-429-retries2.jsonl"), code(1));
    assert!(!busy.seen.iter().any(|seen| matches!(seen, AgentEvent::Hopeless { .. })));
}

#[test]
fn answers_in_a_shape_are_found() {
    let answer = |kind, file: &str| read(kind, &transcript(file), code(0)).reading.answer;
    let good = Some(json!({ "verdict": "good", "score": 7 }));
    assert_eq!(answer(AgentKind::Claude, "claude-schema.jsonl"), good);
    assert_eq!(answer(AgentKind::Codex, "codex-schema.jsonl"), good);
    assert_eq!(answer(AgentKind::Claude, "claude-schema-bad.jsonl"), None);
    assert_eq!(answer(AgentKind::Codex, "codex-schema-bad.jsonl"), None);
}

#[test]
fn an_answer_of_codex_may_be_longer_than_what_is_kept_of_its_words() {
    let answer = json!({ "note": "x".repeat(2 * FINAL_TEXT_BYTES), "hint": null });
    let message = json!({ "type": "item.completed", "item": { "type": "agent_message",
        "text": answer.to_string() } });
    let read = read(AgentKind::Codex, &message.to_string(), code(0));
    assert_eq!(read.reading.answer, Some(answer));
    assert!(read.reading.text.len() <= FINAL_TEXT_BYTES);
}

#[test]
fn only_what_this_run_has_used_is_counted() {
    let before = AgentUsage { input_tokens: 100, output_tokens: 20, cost_micros: Some(800) };
    let counts = |kind, file: &str, before| {
        let reading = read_all(kind, before, (&transcript(file), ""), code(0)).reading;
        (reading.input_tokens, reading.output_tokens, reading.cost_micros)
    };
    assert_eq!(counts(AgentKind::Codex, "codex-resume.jsonl", before), (100, 20, None));
    assert_eq!(counts(AgentKind::Claude, "claude-resume.jsonl", before), (100, 20, Some(800)));
    // The older version did not add up, so there is nothing to take off.
    assert_eq!(counts(AgentKind::Claude, "claude-197-resume.jsonl", before), (112, 20, Some(1046)));
    // A session that has begun to count anew.
    let much = AgentUsage { input_tokens: 9_000, output_tokens: 900, cost_micros: Some(90_000) };
    assert_eq!(counts(AgentKind::Codex, "codex-resume.jsonl", much), (200, 40, None));
}

#[test]
fn money_that_is_added_up_over_runs_is_taken_apart() {
    let result = json!({ "type": "result", "subtype": "success", "is_error": false,
        "usage": { "input_tokens": 100, "output_tokens": 20 }, "total_cost_usd": 0.0016,
        "modelUsage": { "a": { "inputTokens": 150 }, "b": { "inputTokens": 50 } } });
    let before = AgentUsage { input_tokens: 100, output_tokens: 20, cost_micros: Some(700) };
    let read = read_all(AgentKind::Claude, before, (&result.to_string(), ""), code(0));
    assert_eq!(read.reading.cost_micros, Some(900));
}

#[test]
fn several_results_are_added_and_the_last_one_counts() {
    let result = |is_error: bool, cost: f64| {
        let usage = json!({ "m": { "inputTokens": 10, "outputTokens": 1, "costUSD": cost } });
        json!({ "type": "result", "subtype": "success", "is_error": is_error, "result": "x",
            "model_usage_since_last_result": usage })
        .to_string()
    };
    let stream = [result(true, 0.5), result(false, 0.25)].join("\n");
    let read = read(AgentKind::Claude, &stream, code(0));
    assert_eq!(read.outcome(), Outcome::Succeeded);
    assert_eq!((read.reading.input_tokens, read.reading.cost_micros), (20, Some(750_000)));
    assert_eq!(claude(&[&result(false, 0.0), &result(true, 0.0)]), Outcome::Crashed);
}

#[test]
fn a_run_that_was_killed_has_used_what_it_has_used() {
    let block = |id: &str| {
        json!({ "type": "assistant", "message": { "id": id,
            "usage": { "input_tokens": 100, "output_tokens": 5 }, "content": [] } })
        .to_string()
    };
    let stream = [block("a"), block("a"), block("b")].join("\n");
    let reading = read(AgentKind::Claude, &stream, signal(9)).reading;
    assert_eq!((reading.input_tokens, reading.output_tokens, reading.cost_micros), (200, 10, None));
}

#[test]
fn a_limit_that_is_near_is_no_fault() {
    let limit = |status: &str| {
        json!({ "type": "rate_limit_event", "rate_limit_info": { "status": status, "resetsAt": 1_893_456_000 } })
            .to_string()
    };
    for status in ["allowed", "allowed_warning", "something_new"] {
        let read = read(AgentKind::Claude, &[&limit(status), SUCCESS].join("\n"), code(0));
        assert_eq!(
            (read.outcome(), read.reading.resets_at),
            (Outcome::Succeeded, None),
            "{status}"
        );
        let ended = super::read(AgentKind::Claude, &limit(status), signal(15));
        assert_eq!(ended.outcome(), Outcome::Crashed, "{status}");
    }
    // Paid for beyond the plan: the limit rejects and the run goes on.
    assert_eq!(claude(&[&limit("rejected"), SUCCESS]), Outcome::Succeeded);
    let ended = read(AgentKind::Claude, &limit("rejected"), signal(15));
    assert_eq!(ended.outcome(), Outcome::Quota);
    assert_eq!(ended.reading.resets_at.map(|at| at.0), Some(1_893_456_000_000));
}

#[test]
fn a_retry_counts_only_while_nothing_came_after_it() {
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":1,"error_status":529}"#;
    let answer =
        r#"{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"go"}]}}"#;
    let ended = |lines: &[&str]| read(AgentKind::Claude, &lines.join("\n"), signal(15)).outcome();
    assert_eq!(ended(&[retry]), Outcome::Transient);
    assert_eq!(ended(&[retry, answer]), Outcome::Crashed);
    let reconnect = r#"{"type":"error","message":"Reconnecting... 1/5 (unexpected status 503)"}"#;
    let item = r#"{"type":"item.started","item":{"type":"command_execution","command":"ls"}}"#;
    let ended = |lines: &[&str]| read(AgentKind::Codex, &lines.join("\n"), signal(15)).outcome();
    assert_eq!(ended(&[reconnect]), Outcome::Transient);
    assert_eq!(ended(&[reconnect, item]), Outcome::Crashed);
}

#[test]
fn a_success_needs_the_word_of_the_agent_and_a_good_exit() {
    let result = |fields: &str| format!(r#"{{"type":"result"{fields}}}"#);
    assert_eq!(claude(&[SUCCESS]), Outcome::Succeeded);
    let doubtful = [
        "",
        r#","subtype":"success""#,
        r#","is_error":false"#,
        r#","subtype":"success","is_error":"false""#,
    ];
    for fields in doubtful {
        assert_eq!(claude(&[&result(fields)]), Outcome::Crashed, "{fields}");
    }
    for exit in [code(1), code(143), signal(15), signal(9)] {
        let read = read(AgentKind::Claude, SUCCESS, exit);
        assert_eq!(read.reading.terminal, Some(Terminal::Success));
        assert_eq!(read.outcome(), Outcome::Crashed, "{exit:?}");
    }
    assert_eq!(claude(&[]), Outcome::Crashed);
    let begun_again = "{\"type\":\"turn.completed\"}\n{\"type\":\"turn.started\"}";
    assert_eq!(read(AgentKind::Codex, begun_again, code(0)).outcome(), Outcome::Crashed);
}

#[test]
fn an_unknown_session_is_known_by_its_own_name() {
    let result = |error: &str, turns: i64| {
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": turns,
            "session_id": "5e55-10n", "errors": [error] })
        .to_string()
    };
    let kind = |error: &str, turns: i64| {
        let fault = read(AgentKind::Claude, &result(error, turns), code(1)).reading.fault;
        fault.map(|fault| (fault.kind, fault.structured))
    };
    assert_eq!(kind("gone: 5e55-10n", 0), Some((FaultKind::Session, true)));
    assert_eq!(kind("gone: 5e55-10n", 3), None, "it was known for three turns");
    assert_eq!(kind("gone: something else", 0), None);
}

#[test]
fn a_tool_result_that_looks_like_a_result_is_none() {
    let fake = json!({ "type": "user", "message": { "content": [
        { "type": "tool_result", "content": SUCCESS } ] } });
    assert_eq!(claude(&[&fake.to_string()]), Outcome::Crashed);
}

#[test]
fn standard_error_explains_an_end_that_nothing_else_does() {
    let fault = |kind, stdout: &str, stderr: &str, exit| {
        let read = read_all(kind, AgentUsage::default(), (stdout, stderr), exit);
        read.reading.fault.map(|fault| (fault.kind, fault.structured))
    };
    let limit = "boot\nError: rate limit reached, try again in 5 minutes\n";
    assert_eq!(fault(AgentKind::Claude, "", limit, code(1)), Some((FaultKind::Quota, false)));
    assert_eq!(
        fault(AgentKind::Codex, "", "error: unknown flag", code(2)),
        Some((FaultKind::Setup, false))
    );
    let begun = r#"{"type":"thread.started","thread_id":"x"}"#;
    assert_eq!(fault(AgentKind::Codex, begun, "error: unknown flag", code(2)), None);
    assert_eq!(fault(AgentKind::Claude, "", limit, code(0)), None, "it claims to be well");
    assert_eq!(fault(AgentKind::Claude, "", limit, code(143)), None, "it was ended from outside");
    assert_eq!(fault(AgentKind::Claude, SUCCESS, limit, code(0)), None);
}

#[test]
fn codex_tells_of_faults_in_prose() {
    let check = |message: &str, expected: Outcome| {
        let read = read(AgentKind::Codex, &failed_turn(message), code(1));
        assert_eq!(read.outcome(), expected, "{message}");
    };
    check("unexpected status 401 Unauthorized: no", Outcome::Auth);
    check("exceeded retry limit, last status: 429 Too Many Requests", Outcome::Quota);
    check("exceeded retry limit, last status: 502 Bad Gateway", Outcome::Transient);
    check("You\u{2019}ve hit your usage limit.", Outcome::Quota);
    check("You've hit your usage limit. Try again in 3 days 4 hours.", Outcome::Quota);
    check("Quota exceeded. Check your plan and billing details.", Outcome::Quota);
    check(
        "Your access token could not be refreshed. Please log out and sign in again.",
        Outcome::Auth,
    );
    check(
        "stream disconnected before completion: Rate limit is exceeded. Try again in 4 seconds.",
        Outcome::Quota,
    );
    check("stream disconnected before completion: error sending request", Outcome::Transient);
    check("stream disconnected before completion: idle timeout waiting for SSE", Outcome::Stalled);
    check("shared rollout token budget exhausted", Outcome::OverBudget);
    check("something that nobody has seen", Outcome::Crashed);
    check("", Outcome::Crashed);
}

#[test]
fn a_code_beside_the_message_is_believed_first() {
    let check = |error: serde_json::Value, kind: FaultKind| {
        let event = json!({ "type": "turn.failed", "error": error }).to_string();
        let fault = read(AgentKind::Codex, &event, code(1)).reading.fault;
        let expected = Fault { kind, detail: "rate limit reached".to_owned(), structured: true };
        assert_eq!(fault, Some(expected));
    };
    let message = "rate limit reached";
    check(json!({ "message": message, "codex_error_info": "unauthorized" }), FaultKind::Auth);
    check(json!({ "message": message, "code": "contextWindowExceeded" }), FaultKind::Session);
    let attempts = json!({ "response_too_many_failed_attempts": { "http_status_code": 503 } });
    check(json!({ "message": message, "codex_error_info": attempts }), FaultKind::Transient);
}

#[test]
fn reset_times_are_taken_from_prose_where_there_is_no_other() {
    let resets =
        |message: &str| read(AgentKind::Codex, &failed_turn(message), code(1)).reading.resets_at;
    let usage = "You\u{2019}ve hit your usage limit.";
    let minutes = |minutes: i64| Some(NOW.plus(Span(minutes * 60_000)));
    assert_eq!(resets(&format!("{usage} Try again in 2 hours 5 minutes.")), minutes(125));
    assert_eq!(resets(&format!("{usage} Try again later.")), None);
    assert!(resets(&format!("{usage} Or try again at 8:38 AM.")).is_some_and(|at| at > NOW));
    let far = resets(&format!("{usage} Or try again at Jan 31st, 2030 11:05 PM."));
    let dated =
        jiff::civil::date(2030, 1, 31).at(23, 5, 0, 0).to_zoned(jiff::tz::TimeZone::system());
    assert_eq!(far.map(|at| at.0), Some(dated.unwrap().timestamp().as_millisecond()));
    assert_eq!(resets("unexpected status 503, try again in 5 minutes"), None, "no quota, no reset");
}

#[test]
fn texts_are_kept_up_to_their_bound() {
    let long = "ä".repeat(FINAL_TEXT_BYTES);
    let result =
        json!({ "type": "result", "subtype": "success", "is_error": false, "result": long });
    let text = read(AgentKind::Claude, &result.to_string(), code(0)).reading.text;
    assert!(text.len() <= FINAL_TEXT_BYTES && text.len() > FINAL_TEXT_BYTES - 8);
    assert!(text.ends_with("ä…"));
}

#[test]
fn a_subagent_does_not_speak_for_the_agent() {
    let say = |text: &str, parent: Option<&str>| {
        json!({ "type": "assistant", "parent_tool_use_id": parent,
            "message": { "id": text, "content": [{ "type": "text", "text": text }] } })
        .to_string()
    };
    let stream = [say("mine", None), say("of a subagent", Some("toolu_1"))].join("\n");
    assert_eq!(read(AgentKind::Claude, &stream, signal(9)).reading.text, "mine");
}
