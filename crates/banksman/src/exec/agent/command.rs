//! Adapter for any program, with a small protocol: a line of text is output, a line of JSON is an
//! event.
//!
//! Only the `result` event makes a run succeed. A program that writes none has at most claimed, by
//! its exit code, that it is done. `docs/agents.md` describes the protocol.

use std::collections::BTreeMap;

use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::{AgentReport, Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::Value;

use super::text::{self, StderrTail, count_of, one_line, text_of};
use super::{
    Adapter, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, StreamReader, actions,
    set_reset, set_session,
};

const SCHEMA_FILE: &str = "schema.json";
const MCP_FILE: &str = "mcp.json";
/// The most reports kept from one run.
const REPORTS: usize = 100;

pub(super) const ADAPTER: Adapter = Adapter {
    program: None,
    launch,
    reader: |_| Box::new(Stream::default()),
    interactive: None,
    resume: None,
    provider_variables: &[],
};

/// The prompt goes to standard input and replaces `{prompt}` in the command.
fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    let (program, args) = super::program(setup);
    let session = request.session.clone().unwrap_or_default();
    let model = setup.model.clone().unwrap_or_default();
    // Replaced last, so that placeholders inside the prompt stay as they are.
    let fill = |arg: String| {
        arg.replace("{session}", &session)
            .replace("{model}", &model)
            .replace("{prompt}", &request.prompt)
    };
    let mut env = BTreeMap::new();
    let mut files = Vec::new();
    env.extend(request.session.clone().map(|session| ("BANKSMAN_SESSION".to_owned(), session)));
    env.extend(setup.model.clone().map(|model| ("BANKSMAN_MODEL".to_owned(), model)));
    let mut pass_file = |variable: &str, name: &str, content: Value| {
        env.insert(variable.to_owned(), format!("{{folder}}/{name}"));
        files.push((name.to_owned(), content.to_string()));
    };
    if let Some(schema) = &request.schema {
        pass_file("BANKSMAN_SCHEMA", SCHEMA_FILE, schema.clone());
    }
    if let Some(server) = &request.mcp {
        pass_file("BANKSMAN_MCP", MCP_FILE, server.config());
    }
    env.extend(setup.env.clone());
    let args = args.into_iter().map(fill).collect();
    Launch { program, args, env, stdin: Some(request.prompt.clone()), files }
}

#[derive(Default)]
struct Stream {
    summary: StreamSummary,
    tail: StderrTail,
}

impl Stream {
    fn say(&mut self, text: &str, events: &mut Vec<AgentEvent>) {
        let text = text::cut(text, FINAL_TEXT_BYTES);
        if !text.trim().is_empty() {
            self.summary.text.clone_from(&text);
            events.push(AgentEvent::Text { text });
        }
    }

    fn spent(&mut self, usage: &Value, events: &mut Vec<AgentEvent>) {
        if !usage.is_object() {
            return;
        }
        let summary = &mut self.summary;
        summary.input_tokens = count_of(usage, "input_tokens");
        summary.output_tokens = count_of(usage, "output_tokens");
        summary.cost_micros = text::micros(&usage["cost_usd"]);
        events.push(AgentEvent::Spent(AgentUsage::of(summary)));
    }

    fn result(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        set_session(&mut self.summary, text_of(event, "session"), events);
        self.spent(&event["usage"], events);
        let output = text_of(event, "text");
        if !output.is_empty() {
            self.summary.text = text::cut(output, FINAL_TEXT_BYTES);
        }
        self.summary.answer = Some(event["answer"].clone()).filter(|answer| !answer.is_null());
        let is_success = text_of(event, "status") == "success";
        let error = &event["error"];
        let message = error.as_str().unwrap_or_else(|| text_of(error, "message"));
        self.summary.terminal = Some(if is_success { Terminal::Success } else { Terminal::Error });
        self.summary.fault = if is_success { None } else { fault(text_of(error, "kind"), message) };
        self.summary.resets_at = resets_at(&error["resets_at"]);
        if !is_success && self.summary.fault.is_none() && !message.is_empty() {
            self.summary.text = text::cut(message, FINAL_TEXT_BYTES);
        }
        let text = if is_success { output } else { message };
        events.push(AgentEvent::Ended { ok: is_success, text: one_line(text) });
    }

    fn report(&mut self, event: Value, events: &mut Vec<AgentEvent>) {
        match serde_json::from_value::<AgentReport>(event) {
            Ok(report) if self.summary.reports.len() < REPORTS => self.summary.reports.push(report),
            Ok(_) => {}
            Err(error) => {
                let text = one_line(&format!("invalid report: {error}"));
                events.push(AgentEvent::Note { text });
            }
        }
    }
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else {
            return self.say(line, events);
        };
        match text_of(&event, "type") {
            "text" => self.say(text_of(&event, "text"), events),
            "tool" => events.push(AgentEvent::Tool {
                name: one_line(text_of(&event, "name")),
                detail: one_line(text_of(&event, "detail")),
                id: one_line(text_of(&event, "id")),
                actions: actions::of_text(text_of(&event, "name"), text_of(&event, "detail")),
            }),
            "tool_result" => events.push(AgentEvent::ToolResult {
                ok: event["ok"] != false,
                detail: one_line(text_of(&event, "detail")),
                id: one_line(text_of(&event, "id")),
            }),
            "session" => set_session(&mut self.summary, text_of(&event, "id"), events),
            "usage" => self.spent(&event, events),
            "report" => self.report(event, events),
            "result" => self.result(&event, events),
            // JSON that is not one of our events is output.
            _ => self.say(line, events),
        }
    }

    fn error_line(&mut self, line: &str, _events: &mut Vec<AgentEvent>) {
        self.tail.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let mut summary = self.summary;
        if summary.terminal.is_none() {
            // `true`: a program without events has still run, so its standard error is all there
            // is.
            summary.fault = self.tail.fault(true, exit);
        }
        summary.answer = summary.answer.or_else(|| text::object(&summary.text));
        let named = summary.resets_at;
        set_reset(&mut summary, named, now);
        summary
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
