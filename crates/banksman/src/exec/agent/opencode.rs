//! Adapter for opencode: `opencode run --format json`.
//!
//! The prompt goes through standard input: opencode puts quotes around an argument that contains a
//! space. A run succeeds if it exits with 0 after a last step that ended with `stop`; neither is
//! enough alone, because a run whose tool was denied also exits with 0.
//!
//! opencode retries what the provider refuses without an event, for as long as the provider says,
//! even hours. Only its log shows the retries, so the adapter asks for the log on standard error.

use std::collections::BTreeMap;

use banksman_core::receipt::{Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::{Map, Value, json};

use super::last_message::LastMessage;
use super::provider::ProviderError;
use super::text::{self, StderrTail, count_of, one_line, text_of};
use super::{
    Adapter, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, McpServer, StreamReader,
    actions, add_options, schema, set_session,
};

const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
/// Without a title opencode asks the model for one.
const TITLE: &str = "banksman";

pub(super) const ADAPTER: Adapter = Adapter {
    program: Some("opencode"),
    launch,
    reader: |_| Box::new(Stream::default()),
    interactive: Some(&["--prompt"]),
    resume: Some("--session"),
    provider_variables: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"],
};

fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    let (program, mut args) = super::program(setup);
    args.extend(["run", "--format", "json", "--auto", "--title", TITLE].map(str::to_owned));
    // opencode rejects an option that is given twice.
    if !args.iter().any(|arg| arg == "--print-logs" || arg.starts_with("--log-level")) {
        args.extend(["--print-logs", "--log-level", "ERROR"].map(str::to_owned));
    }
    add_options(&mut args, [("--model", &setup.model), ("--session", &request.session)]);
    Launch {
        program,
        args,
        env: environment(&setup.env, request.mcp.as_ref()),
        stdin: Some(schema::prompt_with_schema(request)),
        files: Vec::new(),
    }
}

/// The worker's variables, with our settings merged into its opencode configuration.
fn environment(
    given: &BTreeMap<String, String>,
    mcp: Option<&McpServer>,
) -> BTreeMap<String, String> {
    let mut env = given.clone();
    let own = given.get(CONFIG).map_or(Some(Map::new()), |text| serde_json::from_str(text).ok());
    // Leave a text that we cannot parse to the worker: opencode also accepts comments. `--auto`
    // still allows tools.
    if let Some(mut config) = own {
        config.insert("permission".to_owned(), json!("allow"));
        config.insert("autoupdate".to_owned(), json!(false));
        if let Some(mcp) = mcp {
            let servers = config.entry("mcp").or_insert_with(|| json!({}));
            if let Some(servers) = servers.as_object_mut() {
                servers.insert(mcp.name.clone(), server(mcp));
            }
        }
        env.insert(CONFIG.to_owned(), Value::Object(config).to_string());
    }
    env
}

fn server(mcp: &McpServer) -> Value {
    let command: Vec<&String> = std::iter::once(&mcp.command).chain(&mcp.args).collect();
    json!({ "type": "local", "command": command, "environment": mcp.env, "enabled": true })
}

#[derive(Default)]
struct Stream {
    summary: StreamSummary,
    last_message: LastMessage,
    /// How the last step ended; none while a step runs.
    reason: Option<String>,
    error: Option<(ProviderError, Option<Instant>)>,
    /// The provider's last refusal, until an event follows it.
    pending: Option<ProviderError>,
    /// Why the last tool was refused.
    denied: Option<String>,
    stderr: StderrTail,
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else { return };
        if self.summary.session.is_none() {
            set_session(&mut self.summary, text_of(&event, "sessionID"), events);
        }
        let part = &event["part"];
        self.pending = None;
        match text_of(&event, "type") {
            "step_start" => self.reason = None,
            "text" => {
                let chunk = text_of(part, "text");
                self.last_message.add(text_of(part, "messageID"), chunk);
                events.push(AgentEvent::Text { text: one_line(chunk) });
            }
            "tool_use" => self.tool(part, events),
            "step_finish" => self.step(part, events),
            "error" => self.error(&event, events),
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let line = anstream::adapter::strip_str(line).to_string();
        let Some(refusal) = refusal_in(&line) else { return self.stderr.push(&line) };
        events.push(AgentEvent::Note { text: one_line(&refusal) });
        self.pending = Some(ProviderError::new(None, &refusal));
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let terminal = self.terminal(exit);
        let fault = if terminal == Some(Terminal::Success) { None } else { self.fault(exit) };
        let resets_at = match (&self.error, &self.pending) {
            (Some((reported, at)), _) => reported.resets_at(at.unwrap_or(now)),
            (None, Some(pending)) => pending.resets_at(now),
            (None, None) => None,
        };
        StreamSummary {
            terminal,
            text: self.last_message.bounded(),
            answer: self.last_message.answer(),
            resets_at: resets_at.filter(|_| fault.is_some()),
            fault,
            ..self.summary
        }
    }
}

impl Stream {
    fn tool(&mut self, part: &Value, events: &mut Vec<AgentEvent>) {
        let state = &part["state"];
        let name = text_of(part, "tool").to_owned();
        let input = &state["input"];
        let actions = actions::of_tool(&name, input);
        let id = one_line(text_of(part, "callID"));
        // opencode's own tools use another name for a file argument.
        let path = input["filePath"].as_str();
        let detail = path.map_or_else(|| text::tool_detail(input), one_line);
        events.push(AgentEvent::Tool { name, detail, id: id.clone(), actions });
        let ok = text_of(state, "status") != "error";
        let output = text_of(state, if ok { "output" } else { "error" });
        events.push(AgentEvent::ToolResult { ok, detail: one_line(output), id });
        self.denied = (!ok && is_refusal(output)).then(|| one_line(output));
    }

    fn step(&mut self, part: &Value, events: &mut Vec<AgentEvent>) {
        let tokens = &part["tokens"];
        let cache = &tokens["cache"];
        // `input` excludes cached tokens, and `output` excludes reasoning.
        let input = [count_of(tokens, "input"), count_of(cache, "read"), count_of(cache, "write")];
        let output = [count_of(tokens, "output"), count_of(tokens, "reasoning")];
        let sum = |counts: &[i64]| counts.iter().copied().fold(0, i64::saturating_add);
        let total = AgentUsage::of(&self.summary).plus(AgentUsage {
            input_tokens: sum(&input),
            output_tokens: sum(&output),
            cost_micros: text::micros(&part["cost"]),
        });
        total.write_to(&mut self.summary);
        self.reason = Some(text::cut(text_of(part, "reason"), text::DETAIL_BYTES));
        events.push(AgentEvent::Spent(total));
        if self.reason.as_deref() == Some("stop") {
            events.push(AgentEvent::Ended { ok: true, text: one_line(self.last_message.text()) });
        }
    }

    fn error(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let error = &event["error"];
        let data = &error["data"];
        let mut provider_error =
            ProviderError::new(data["statusCode"].as_i64(), text_of(data, "message"));
        provider_error.is_retryable = data["isRetryable"] == true;
        // opencode gives this name to every answer with an error status.
        let name = Some(text_of(error, "name")).filter(|name| *name != "APIError");
        provider_error.name(name.unwrap_or_default());
        provider_error.headers(&data["responseHeaders"]);
        provider_error.body_in(text_of(data, "responseBody"));
        if provider_error.message.is_empty() {
            provider_error.message = text_of(error, "name").to_owned();
        }
        events.push(AgentEvent::Ended { ok: false, text: one_line(&provider_error.message) });
        self.error = Some((provider_error, text::at_epoch(&event["timestamp"])));
    }

    fn terminal(&self, exit: ProcessExit) -> Option<Terminal> {
        match (&self.error, self.reason.as_deref(), exit.code) {
            (Some(_), _, _) => Some(Terminal::Error),
            (None, Some("stop"), Some(0)) => Some(Terminal::Success),
            // opencode stopped by itself in the middle of the work, for example after a denied tool
            // or at the model's limit.
            (None, Some(reason), Some(0)) if reason != "stop" => Some(Terminal::Error),
            (None, _, _) => None,
        }
    }

    fn fault(&self, exit: ProcessExit) -> Option<Fault> {
        if let Some((provider_error, _)) = &self.error {
            return provider_error.fault();
        }
        if let Some(fault) = self.pending.as_ref().and_then(ProviderError::fault) {
            return Some(fault);
        }
        let structured = |kind, detail: &str| Some(text::named_fault(kind, detail));
        match (exit.code, self.reason.as_deref()) {
            (Some(0), Some("tool-calls")) => {
                structured(FaultKind::Permission, self.denied.as_deref()?)
            }
            (Some(0), Some("length")) => {
                structured(FaultKind::Budget, "the model reached its output limit")
            }
            (Some(0), Some("content-filter")) => {
                structured(FaultKind::Permission, "the provider filtered the answer")
            }
            (Some(0) | None, _) => None,
            (Some(_), _) => self.stderr.fault(self.summary.session.is_some(), exit),
        }
    }
}

/// The provider's message, from a line of the log such as `level=ERROR message="stream error"
/// small=false error.error="AI_APICallError: Too many requests"`. Small models only write titles,
/// so their errors do not matter.
fn refusal_in(line: &str) -> Option<String> {
    let is_refusal = line.contains(" level=ERROR ")
        && line.contains(r#" message="stream error" "#)
        && !line.contains(" small=true ");
    let (_, error) = line.split_once(" error.error=").filter(|_| is_refusal)?;
    let mut values = serde_json::Deserializer::from_str(error).into_iter::<String>();
    let error = match values.next() {
        Some(Ok(text)) => text,
        Some(Err(_)) | None => error.split(' ').next().unwrap_or_default().to_owned(),
    };
    Some(error.strip_prefix("AI_APICallError: ").unwrap_or(&error).to_owned())
}

/// Whether a tool failed because it is forbidden. opencode says so in prose only.
fn is_refusal(error: &str) -> bool {
    const WORDS: [&str; 5] =
        ["reject", "denied", "not allowed", "prevents you from using", "permission"];
    text::contains_any(error, &WORDS)
}
