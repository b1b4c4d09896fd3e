//! Adapter for any program, with a small protocol: a line of text is output, a line of JSON is an
//! event.
//!
//! Only the `result` event makes a run succeed. A program that writes none has at most claimed, by
//! its exit code, that it is done. `docs/agents.md` describes the protocol.

use std::collections::BTreeMap;

use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::{AgentReport, Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::{Value, json};

use super::text::{self, Tail, count_of, one_line, text_of};
use super::{AgentEvent, AgentRequest, AgentSetup, Launch, StreamReader, ToolCall, acts};

const SCHEMA_FILE: &str = "schema.json";
const MCP_FILE: &str = "mcp.json";
/// The most reports kept from one run.
const REPORTS: usize = 100;

/// The prompt goes to standard input and replaces `{prompt}` in the command.
pub(super) fn launch(setup: &AgentSetup, ask: &AgentRequest) -> Launch {
    let (program, args) = super::program(setup, "true");
    let session = ask.session.clone().unwrap_or_default();
    let model = setup.model.clone().unwrap_or_default();
    // Replaced last, so that placeholders inside the prompt stay as they are.
    let fill = |arg: String| {
        arg.replace("{session}", &session)
            .replace("{model}", &model)
            .replace("{prompt}", &ask.prompt)
    };
    let mut env = BTreeMap::new();
    let mut files = Vec::new();
    env.extend(ask.session.clone().map(|session| ("BANKSMAN_SESSION".to_owned(), session)));
    env.extend(setup.model.clone().map(|model| ("BANKSMAN_MODEL".to_owned(), model)));
    let mut hand_over = |variable: &str, name: &str, content: Value| {
        env.insert(variable.to_owned(), format!("{{folder}}/{name}"));
        files.push((name.to_owned(), content.to_string()));
    };
    if let Some(schema) = &ask.schema {
        hand_over("BANKSMAN_SCHEMA", SCHEMA_FILE, schema.clone());
    }
    if let Some(server) = &ask.mcp {
        let config = json!({ "mcpServers": { &server.name:
            { "command": server.command, "args": server.args, "env": server.env } } });
        hand_over("BANKSMAN_MCP", MCP_FILE, config);
    }
    env.extend(setup.env.clone());
    let args = args.into_iter().map(fill).collect();
    Launch { program, args, env, stdin: Some(ask.prompt.clone()), files }
}

#[derive(Default)]
pub(super) struct Stream {
    reading: StreamSummary,
    tail: Tail,
}

impl Stream {
    fn say(&mut self, text: &str, seen: &mut Vec<AgentEvent>) {
        let text = text::cut(text, FINAL_TEXT_BYTES);
        if !text.trim().is_empty() {
            self.reading.text.clone_from(&text);
            seen.push(AgentEvent::Text { text });
        }
    }

    fn session(&mut self, event: &Value, key: &str, seen: &mut Vec<AgentEvent>) {
        let id = one_line(text_of(event, key));
        if !id.is_empty() && self.reading.session.as_ref() != Some(&id) {
            self.reading.session = Some(id.clone());
            seen.push(AgentEvent::Session { id });
        }
    }

    fn spent(&mut self, usage: &Value, seen: &mut Vec<AgentEvent>) {
        if !usage.is_object() {
            return;
        }
        let reading = &mut self.reading;
        reading.input_tokens = count_of(usage, "input_tokens");
        reading.output_tokens = count_of(usage, "output_tokens");
        reading.cost_micros = text::micros(&usage["cost_usd"]);
        seen.push(AgentEvent::Spent {
            input_tokens: reading.input_tokens,
            output_tokens: reading.output_tokens,
            cost_micros: reading.cost_micros,
        });
    }

    fn result(&mut self, event: &Value, seen: &mut Vec<AgentEvent>) {
        self.session(event, "session", seen);
        self.spent(&event["usage"], seen);
        let said = text_of(event, "text");
        if !said.is_empty() {
            self.reading.text = text::cut(said, FINAL_TEXT_BYTES);
        }
        self.reading.answer = Some(event["answer"].clone()).filter(|answer| !answer.is_null());
        let is_success = text_of(event, "status") == "success";
        let error = &event["error"];
        let message = error.as_str().unwrap_or_else(|| text_of(error, "message"));
        self.reading.terminal = Some(if is_success { Terminal::Success } else { Terminal::Error });
        self.reading.fault = if is_success { None } else { fault(text_of(error, "kind"), message) };
        self.reading.resets_at = resets_at(&error["resets_at"]);
        if !is_success && self.reading.fault.is_none() && !message.is_empty() {
            self.reading.text = text::cut(message, FINAL_TEXT_BYTES);
        }
        let text = if is_success { said } else { message };
        seen.push(AgentEvent::Ended { ok: is_success, text: one_line(text) });
    }

    fn told(&mut self, event: Value, seen: &mut Vec<AgentEvent>) {
        match serde_json::from_value::<AgentReport>(event) {
            Ok(told) if self.reading.reports.len() < REPORTS => self.reading.reports.push(told),
            Ok(_) => {}
            Err(error) => {
                let text = one_line(&format!("invalid report: {error}"));
                seen.push(AgentEvent::Note { text });
            }
        }
    }
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, seen: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else {
            return self.say(line, seen);
        };
        match text_of(&event, "type") {
            "text" => self.say(text_of(&event, "text"), seen),
            "tool" => seen.push(AgentEvent::Tool {
                name: one_line(text_of(&event, "name")),
                detail: one_line(text_of(&event, "detail")),
                call: ToolCall {
                    id: one_line(text_of(&event, "id")),
                    acts: acts::of_words(text_of(&event, "name"), text_of(&event, "detail")),
                },
            }),
            "tool_result" => seen.push(AgentEvent::ToolResult {
                ok: event["ok"] != false,
                detail: one_line(text_of(&event, "detail")),
                id: one_line(text_of(&event, "id")),
            }),
            "session" => self.session(&event, "id", seen),
            "usage" => self.spent(&event, seen),
            "report" => self.told(event, seen),
            "result" => self.result(&event, seen),
            // JSON that is not one of our events is output.
            _ => self.say(line, seen),
        }
    }

    fn error_line(&mut self, line: &str, _seen: &mut Vec<AgentEvent>) {
        self.tail.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let mut reading = self.reading;
        if reading.terminal.is_none() {
            // `true`: a program without events has still run, so its standard error is all there
            // is.
            reading.fault = self.tail.fault(true, exit);
        }
        reading.answer = reading.answer.or_else(|| text::object(&reading.text));
        if let Some(fault) = reading.fault.as_ref().filter(|it| it.kind == FaultKind::Quota) {
            let named = reading.resets_at;
            reading.resets_at = named.or_else(|| text::resets_in(&fault.detail, now));
        }
        reading
    }
}

fn fault(kind: &str, message: &str) -> Option<Fault> {
    let ours = serde_json::from_value::<FaultKind>(Value::from(kind));
    let named = ours.map_or_else(|_| text::kind_of_name(kind), Some);
    let structured = named.is_some();
    let kind = named.or_else(|| text::fault_in(message))?;
    Some(Fault { kind, detail: one_line(message), structured })
}

/// Accepts RFC 3339 or seconds since 1970.
fn resets_at(value: &Value) -> Option<Instant> {
    let written = value.as_str().and_then(|text| text.parse().ok());
    written.or_else(|| text::at_epoch(value))
}
