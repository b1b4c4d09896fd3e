//! Adapter for Gemini CLI: `gemini --output-format stream-json`.
//!
//! Its `result` event ends a run. Its exit code is the provider's HTTP status modulo 256 or one of
//! its own codes; after a signal it exits with 0 and no result, so exit code 0 alone means nothing.
//! It reports retries on standard error.

use std::collections::BTreeMap;

use banksman_core::receipt::{Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::{Value, json};

use super::last_message::LastMessage;
use super::provider::ProviderError;
use super::text::{self, StderrTail, count_of, one_line, text_of};
use super::{
    Adapter, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, StreamReader, actions,
    add_options, schema, set_session,
};

/// The settings file with the highest precedence, so that a repository cannot disable our MCP
/// server. Since 0.61 Gemini CLI reads it only if root alone owns the file and every folder above
/// it, and otherwise continues without it after a warning. A worker of another user that needs our
/// tools runs `gemini --acp` with the `acp` adapter.
const SETTINGS: (&str, &str) = ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "gemini-settings.json");
/// Gemini CLI's default of 10 attempts waits for minutes; the control plane schedules waits
/// instead.
const ATTEMPTS: u32 = 3;
/// Where Gemini CLI ignored the settings, the keeper ends it after this many attempts; the next one
/// would take half a minute.
const GIVE_UP_AT: u32 = ATTEMPTS;

/// Tools that change something.
const NEED_APPROVAL: [&str; 4] = ["run_shell_command", "write_file", "replace", "web_fetch"];

pub(super) const ADAPTER: Adapter = Adapter {
    program: Some("gemini"),
    launch,
    reader: |_| Box::new(Stream::default()),
    interactive: Some(&["--prompt-interactive"]),
    resume: Some("--resume"),
    provider_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"],
};

/// The prompt goes through standard input: there it can be long and begin with a dash, and it does
/// not appear in the process list.
fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    let (program, mut args) = super::program(setup);
    let fixed = ["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"];
    args.extend(fixed.map(str::to_owned));
    add_options(&mut args, [("--model", &setup.model), ("--resume", &request.session)]);
    let (variable, file) = SETTINGS;
    let mut env = BTreeMap::from([
        // The relaunching parent does not forward SIGTERM.
        ("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned()),
        (variable.to_owned(), format!("{{folder}}/{file}")),
    ]);
    env.extend(setup.env.clone());
    let files = vec![(file.to_owned(), settings(request).to_string())];
    Launch { program, args, env, stdin: Some(prompt(request)), files }
}

/// A prompt that begins with a slash would be a Gemini CLI command.
fn prompt(request: &AgentRequest) -> String {
    let prompt = schema::prompt_with_schema(request);
    if prompt.starts_with('/') { format!(" {prompt}") } else { prompt }
}

fn settings(request: &AgentRequest) -> Value {
    let mut settings = json!({ "general": { "maxAttempts": ATTEMPTS, "enableAutoUpdate": false } });
    if let Some(server) = &request.mcp {
        settings["mcpServers"] = json!({ &server.name:
            { "command": server.command, "args": server.args, "env": server.env, "trust": true } });
    }
    settings
}

#[derive(Default)]
struct Stream {
    summary: StreamSummary,
    last_message: LastMessage,
    result: Option<End>,
    /// The last `error` event; a later good result does not cancel it.
    error: Option<String>,
    /// A failed attempt, until an event follows it.
    retry: Option<Fault>,
    /// Why the last tool was refused.
    denied: Option<String>,
    /// From the provider's answer, as Gemini CLI prints it on standard error.
    wait_ms: Option<i64>,
    status: Option<i64>,
    stderr: StderrTail,
}

struct End {
    ok: bool,
    kind: String,
    message: String,
    at: Option<Instant>,
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else { return };
        match text_of(&event, "type") {
            "init" => set_session(&mut self.summary, text_of(&event, "session_id"), events),
            "message" => self.message(&event, events),
            "tool_use" => {
                self.retry = None;
                self.last_message.end();
                let name = text_of(&event, "tool_name").to_owned();
                let id = one_line(text_of(&event, "tool_id"));
                let actions = actions::of_tool(&name, &event["parameters"]);
                let detail = text::tool_detail(&event["parameters"]);
                events.push(AgentEvent::Tool { name, detail, id, actions });
            }
            "tool_result" => self.tool_result(&event, events),
            "error" => {
                let message = one_line(text_of(&event, "message"));
                events.push(AgentEvent::Note { text: message.clone() });
                if text_of(&event, "severity") != "warning" {
                    self.error = Some(message);
                }
            }
            "result" => self.result(&event, events),
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let line = &anstream::adapter::strip_str(line).to_string();
        if let Some((name, value)) = line.trim().trim_end_matches(',').split_once(": ") {
            match name {
                "retryDelayMs" => self.wait_ms = value.parse().ok().or(self.wait_ms),
                "status" | "code" => {
                    let status = value.parse().ok().filter(|status| (400..600).contains(status));
                    self.status = status.or(self.status);
                }
                _ => {}
            }
        }
        if let Some(attempt) = failed_attempt(line) {
            let detail = one_line(line);
            events.push(AgentEvent::Note { text: detail.clone() });
            if attempt >= GIVE_UP_AT {
                events.push(AgentEvent::Hopeless { reason: detail.clone() });
            }
            let kind = text::fault_in(line).unwrap_or(FaultKind::Transient);
            self.retry = Some(Fault { kind, detail, structured: false });
        }
        self.stderr.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let terminal = self.terminal();
        let provider_error = self.provider_error(exit);
        let fault = if terminal == Some(Terminal::Success) {
            // The agent continued after the refusal and reports success, but the last tool that it
            // asked for never ran.
            self.denied.map(|detail| text::named_fault(FaultKind::Permission, &detail))
        } else {
            exit_code_fault(exit, &self.stderr.text())
                .or_else(|| provider_error.fault())
                .or_else(|| message_fault(&provider_error.message))
                .or_else(|| match self.result {
                    None => self.stderr.fault(self.summary.session.is_some(), exit),
                    Some(_) => None,
                })
                .or(self.retry)
        };
        let sent_at = self.result.as_ref().and_then(|end| end.at).unwrap_or(now);
        let resets_at = fault.is_some().then(|| provider_error.resets_at(sent_at)).flatten();
        StreamSummary {
            terminal,
            text: self.last_message.bounded(),
            answer: self.last_message.answer(),
            fault,
            resets_at,
            ..self.summary
        }
    }
}

impl Stream {
    fn message(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        if text_of(event, "role") != "assistant" {
            return;
        }
        // The model answered, so the retry worked.
        self.retry = None;
        let chunk = text_of(event, "content");
        if event["delta"] != true {
            self.last_message.end();
        }
        self.last_message.add("", chunk);
        events.push(AgentEvent::Text { text: one_line(chunk) });
    }

    fn tool_result(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let ok = text_of(event, "status") != "error";
        let error = &event["error"];
        let output = if ok { text_of(event, "output") } else { text_of(error, "message") };
        let id = text_of(event, "tool_id");
        events.push(AgentEvent::ToolResult { ok, detail: one_line(output), id: one_line(id) });
        let is_refused = match text_of(error, "type") {
            "policy_violation" => true,
            // Gemini CLI removes these tools if nobody can approve them; the model made up any
            // other name.
            "tool_not_registered" => NEED_APPROVAL.iter().any(|tool| id.starts_with(tool)),
            _ => false,
        };
        self.denied = (!ok && is_refused).then(|| one_line(output));
    }

    fn result(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let error = &event["error"];
        let stats = &event["stats"];
        let end = End {
            ok: text_of(event, "status") == "success",
            kind: text::cut(text_of(error, "type"), text::DETAIL_BYTES),
            message: text::cut(text_of(error, "message"), 16 * text::DETAIL_BYTES),
            at: text_of(event, "timestamp").parse().ok(),
        };
        self.summary.input_tokens = count_of(stats, "input_tokens");
        self.summary.output_tokens = count_of(stats, "output_tokens");
        events.push(AgentEvent::Spent(AgentUsage::of(&self.summary)));
        let output = if end.ok { self.last_message.text() } else { &end.message };
        events.push(AgentEvent::Ended { ok: end.ok, text: one_line(output) });
        self.result = Some(end);
    }

    fn terminal(&self) -> Option<Terminal> {
        let end = self.result.as_ref()?;
        Some(if end.ok && self.error.is_none() { Terminal::Success } else { Terminal::Error })
    }

    /// What is known of the provider's answer, from the result's message, the exit code and
    /// standard error.
    fn provider_error(&self, exit: ProcessExit) -> ProviderError {
        let mut provider_error = ProviderError::default();
        if let Some(end) = self.result.as_ref().filter(|end| !end.ok) {
            provider_error.body_in(&end.message);
            provider_error.name(&end.kind);
            provider_error.status =
                provider_error.status.or_else(|| status_of(exit)).or(self.status);
            if provider_error.message.is_empty() {
                provider_error.message.clone_from(&end.message);
            }
        }
        if provider_error.message.is_empty() {
            provider_error.message = self.error.clone().unwrap_or_default();
        }
        provider_error.wait(self.wait_ms.unwrap_or(-1));
        provider_error
    }
}

/// The exit codes of Gemini CLI's own faults, with or without a result event.
fn exit_code_fault(exit: ProcessExit, stderr: &str) -> Option<Fault> {
    let (kind, detail) = match exit.code? {
        41 => (FaultKind::Auth, "no usable login is configured"),
        42 if stderr.to_ascii_lowercase().contains("session") => {
            (FaultKind::Session, "the session cannot be resumed")
        }
        42 => (FaultKind::Setup, "Gemini CLI rejected the input or a flag"),
        44 => (FaultKind::Setup, "its sandbox is not usable"),
        52 => (FaultKind::Setup, "its settings are invalid"),
        53 => (FaultKind::Budget, "the turn limit was reached"),
        55 => (FaultKind::Setup, "the folder is not trusted"),
        _ => return None,
    };
    Some(text::named_fault(kind, detail))
}

/// The status behind an exit code, which is the status modulo 256. Small codes are Gemini CLI's
/// own, except the range that CDN statuses (520 and above) map to.
fn status_of(exit: ProcessExit) -> Option<i64> {
    let code = i64::from(exit.code?);
    match code {
        144..=255 => Some(code + 256),
        8..=17 => Some(code + 512),
        _ => None,
    }
}

/// The number of the failed attempt: `Attempt 2 failed with status 503. Retrying with backoff...`.
fn failed_attempt(line: &str) -> Option<u32> {
    let (number, rest) = line.trim_start().strip_prefix("Attempt ")?.split_once(' ')?;
    let number = number.parse().ok()?;
    rest.starts_with("failed").then_some(number)
}

/// Recognises Gemini CLI's own errors by their text; the stream has no names for them.
fn message_fault(message: &str) -> Option<Fault> {
    let lower = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let kind = if has(&["session turns"]) || (has(&["maximum"]) && has(&["output", "max_tokens"])) {
        FaultKind::Budget
    } else if has(&["blocked", "safety", "recitation"]) {
        FaultKind::Permission
    } else if has(&["exceeds the maximum number of tokens"]) {
        FaultKind::Session
    } else if has(&["empty response", "thinking", "transient", "malformed"]) {
        FaultKind::Transient
    } else {
        return None;
    };
    Some(Fault { kind, detail: one_line(message), structured: false })
}
