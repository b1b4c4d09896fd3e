//! Adapter for Codex: `codex exec --json`.
//!
//! Only `turn.completed` is a success and only `turn.failed` is a final error: after a bare `error`
//! Codex may reconnect and go on. Errors are prose on this stream, so the adapter looks for the
//! HTTP status they name and then for known phrases.

use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::policy::Action;
use banksman_core::receipt::{Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::{Map, Value, json};
use toml_edit::{Array, InlineTable};

use super::text::{self, StderrTail, count_of, one_line, text_of};
use super::{
    Adapter, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, McpServer, StreamReader,
    actions, add_options, set_reset, set_session,
};

const SCHEMA_FILE: &str = "schema.json";
/// The most files taken from one change.
const MAX_CHANGES: usize = 100;

pub(super) const ADAPTER: Adapter = Adapter {
    program: Some("codex"),
    launch,
    reader: |before| Box::new(Stream { before, ..Stream::default() }),
    interactive: Some(&[]),
    resume: Some("resume"),
    provider_variables: &["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"],
};

/// The options go before `resume`, which does not accept all of them. The prompt goes through
/// standard input.
fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    let (program, mut args) = super::program(setup);
    // Without the last three options Codex contacts other servers first and takes seconds to start.
    let fixed = "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
                 -c analytics.enabled=false --disable plugins --disable apps";
    args.extend(fixed.split_whitespace().map(str::to_owned));
    let server = request.mcp.as_ref().map(mcp_setting);
    let schema = request.schema.as_ref().map(|_| format!("{{folder}}/{SCHEMA_FILE}"));
    let options = [
        ("-m", &setup.model),
        ("-c", &server),
        ("--output-schema", &schema),
        ("resume", &request.session),
    ];
    add_options(&mut args, options);
    let mut env = setup.env.clone();
    env.extend(request.mcp.iter().flat_map(|server| server.env.clone()));
    let files = request.schema.iter();
    let files = files.map(|schema| (SCHEMA_FILE.to_owned(), strict(schema).to_string())).collect();
    args.push("-".to_owned());
    Launch { program, args, env, stdin: Some(request.prompt.clone()), files }
}

/// Passes the server's variables by name, so that the arguments hold no values.
fn mcp_setting(server: &McpServer) -> String {
    let mut table = InlineTable::new();
    table.insert("command", server.command.as_str().into());
    table.insert("args", server.args.iter().collect::<Array>().into());
    table.insert("env_vars", server.env.keys().collect::<Array>().into());
    format!("mcp_servers.{}={table}", server.name)
}

/// The schema as OpenAI demands it: every object is closed, every property is required, and an
/// optional property may be null. [`super::schema::without_optional_nulls`] removes those nulls
/// from the answer.
fn strict(schema: &Value) -> Value {
    /// Keywords that OpenAI rejects; Banksman checks the answer against the whole schema
    /// afterwards.
    const DROPPED: [&str; 6] =
        ["minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "default"];
    let Some(object) = schema.as_object() else {
        return schema.clone();
    };
    let mut closed: Map<String, Value> = object
        .iter()
        .filter(|(key, _)| !DROPPED.contains(&key.as_str()))
        .map(|(key, value)| {
            (key.clone(), if key == "items" { strict(value) } else { value.clone() })
        })
        .collect();
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        let required = object.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        let property = |(name, schema): (&String, &Value)| {
            let mut schema = strict(schema);
            if !is_required(name) {
                schema = json!({ "anyOf": [schema, { "type": "null" }] });
            }
            (name.clone(), schema)
        };
        closed.insert("properties".to_owned(), properties.iter().map(property).collect());
        closed.insert("required".to_owned(), properties.keys().cloned().collect());
        closed.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(closed)
}

#[derive(Default)]
struct Stream {
    before: AgentUsage,
    summary: StreamSummary,
    had_events: bool,
    /// The last error that Codex may still recover from.
    pending: Option<String>,
    tail: StderrTail,
}

impl Stream {
    fn item(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let is_done = text_of(event, "type") == "item.completed";
        let item = &event["item"];
        let kind = text_of(item, "type");
        if kind != "error" {
            self.pending = None;
        }
        match kind {
            "agent_message" if is_done => {
                let whole = text_of(item, "text");
                let text = text::cut(whole, FINAL_TEXT_BYTES);
                // Parsed from the whole text: an answer may be longer than the kept text.
                self.summary.answer = text::object(whole);
                self.summary.text.clone_from(&text);
                events.push(AgentEvent::Text { text });
            }
            "error" => events.push(AgentEvent::Note { text: one_line(text_of(item, "message")) }),
            "command_execution" | "file_change" | "mcp_tool_call" | "web_search"
            | "collab_tool_call" => {
                events.push(if is_done { tool_result(item) } else { tool(item) });
            }
            _ => {}
        }
    }

    fn completed(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let usage = &event["usage"];
        let summary = &mut self.summary;
        summary.terminal = Some(Terminal::Success);
        summary.fault = None;
        self.pending = None;
        let since = |before, key: &str| text::increase(count_of(usage, key), before);
        summary.input_tokens = since(self.before.input_tokens, "input_tokens");
        summary.output_tokens = since(self.before.output_tokens, "output_tokens");
        events.push(AgentEvent::Spent(AgentUsage::of(summary)));
        events.push(AgentEvent::Ended { ok: true, text: one_line(&summary.text) });
    }

    fn failed(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let error = &event["error"];
        let message = error.as_str().unwrap_or_else(|| text_of(error, "message"));
        self.summary.terminal = Some(Terminal::Error);
        self.summary.fault = fault(error, message);
        if self.summary.fault.is_none() && !message.is_empty() {
            self.summary.text = text::cut(message, FINAL_TEXT_BYTES);
        }
        self.pending = None;
        events.push(AgentEvent::Ended { ok: false, text: one_line(message) });
    }
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else {
            return;
        };
        self.had_events = true;
        match text_of(&event, "type") {
            "thread.started" => {
                set_session(&mut self.summary, text_of(&event, "thread_id"), events);
            }
            // A new turn cancels the end of the previous one.
            "turn.started" => self.summary.terminal = None,
            "item.started" | "item.completed" => self.item(&event, events),
            "turn.completed" => self.completed(&event, events),
            "turn.failed" => self.failed(&event, events),
            "error" => {
                let message = one_line(text_of(&event, "message"));
                events.push(AgentEvent::Note { text: message.clone() });
                self.pending = Some(message);
            }
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, _events: &mut Vec<AgentEvent>) {
        self.tail.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let mut summary = self.summary;
        if summary.terminal.is_none() {
            let pending = self.pending.and_then(|message| fault(&Value::Null, &message));
            summary.fault = pending.or_else(|| self.tail.fault(self.had_events, exit));
        }
        set_reset(&mut summary, None, now);
        summary
    }
}

/// The fault in an error. A code beside the message takes precedence; this stream has none so far,
/// but Codex's session files do. For a bad request the message holds the provider's answer
/// verbatim.
fn fault(error: &Value, message: &str) -> Option<Fault> {
    let info = &error["codex_error_info"];
    let inner = info.as_object().and_then(|object| object.iter().next());
    let status = inner.and_then(|(_, value)| value["http_status_code"].as_i64());
    let answer = text::object(message).unwrap_or_default();
    let names = [
        info.as_str(),
        inner.map(|(name, _)| name.as_str()),
        error["code"].as_str(),
        answer["error"]["code"].as_str(),
        answer["error"]["type"].as_str(),
    ];
    let named = status
        .and_then(text::kind_of_status)
        .or_else(|| names.into_iter().flatten().find_map(text::kind_of_name));
    let structured = named.is_some();
    let reply = answer["error"]["message"].as_str().unwrap_or(message);
    let refused = answer["error"].is_object().then_some(FaultKind::Setup);
    let kind = named.or_else(|| text::fault_in(reply)).or(refused)?;
    Some(Fault { kind, detail: one_line(reply), structured })
}

fn tool(item: &Value) -> AgentEvent {
    let (name, detail) = match text_of(item, "type") {
        "command_execution" => ("shell".to_owned(), one_line(text_of(item, "command"))),
        "file_change" => {
            let changes = item["changes"].as_array().into_iter().flatten().take(10);
            let paths: Vec<&str> = changes.map(|change| text_of(change, "path")).collect();
            ("edit".to_owned(), one_line(&paths.join(", ")))
        }
        "mcp_tool_call" => {
            let name = format!("{}.{}", text_of(item, "server"), text_of(item, "tool"));
            (one_line(&name), text::tool_detail(&item["arguments"]))
        }
        other => (one_line(other), text::tool_detail(item)),
    };
    let id = one_line(text_of(item, "id"));
    AgentEvent::Tool { actions: actions(&name, item), name, detail, id }
}

fn actions(name: &str, item: &Value) -> Vec<Action> {
    let mut actions = match text_of(item, "type") {
        "command_execution" => actions::of_tool(name, &json!({ "command": item["command"] })),
        "mcp_tool_call" => actions::of_tool(name, &item["arguments"]),
        _ => actions::of_tool(name, &Value::Null),
    };
    let changes = item["changes"].as_array().into_iter().flatten().take(MAX_CHANGES);
    actions.extend(changes.map(|change| actions::file(text_of(change, "path"), true)));
    actions
}

fn tool_result(item: &Value) -> AgentEvent {
    let ok = matches!(text_of(item, "status"), "completed" | "")
        && item["exit_code"].as_i64().unwrap_or_default() == 0
        && item["error"].is_null();
    let output = text_of(item, "aggregated_output");
    let error = item["error"].as_str().unwrap_or_else(|| text_of(&item["error"], "message"));
    let reply = text_of(&item["result"]["content"][0], "text");
    let detail = [error, output, reply].into_iter().find(|text| !text.is_empty());
    let id = one_line(text_of(item, "id"));
    AgentEvent::ToolResult { ok, detail: one_line(detail.unwrap_or_default()), id }
}
