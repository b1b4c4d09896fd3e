//! Adapter for Gemini CLI: `gemini --output-format stream-json`.
//!
//! Its `result` event ends a run. Its exit code is the provider's HTTP status modulo 256 or one of
//! its own codes; after a signal it exits with 0 and no result, so exit code 0 alone means nothing.
//! It reports retries on standard error.

use std::collections::BTreeMap;

use banksman_core::receipt::{Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::{Value, json};

use super::provider::Trouble;
use super::text::{self, Tail, count_of, one_line, text_of};
use super::words::Words;
use super::{AgentEvent, AgentRequest, AgentSetup, Launch, StreamReader, ToolCall, acts, schema};

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
const HOPELESS_FROM: u32 = ATTEMPTS;

/// Tools that change something.
const NEED_APPROVAL: [&str; 4] = ["run_shell_command", "write_file", "replace", "web_fetch"];

/// The prompt goes through standard input: there it can be long and begin with a dash, and it does
/// not appear in the process list.
pub(super) fn launch(setup: &AgentSetup, ask: &AgentRequest) -> Launch {
    let (program, mut args) = super::program(setup, "gemini");
    let fixed = ["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"];
    args.extend(fixed.map(str::to_owned));
    if let Some(model) = &setup.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some(session) = &ask.session {
        args.extend(["--resume".to_owned(), session.clone()]);
    }
    let (variable, file) = SETTINGS;
    let mut env = BTreeMap::from([
        // The relaunching parent does not forward SIGTERM.
        ("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned()),
        (variable.to_owned(), format!("{{folder}}/{file}")),
    ]);
    env.extend(setup.env.clone());
    let files = vec![(file.to_owned(), settings(ask).to_string())];
    Launch { program, args, env, stdin: Some(prompt(ask)), files }
}

/// A prompt that begins with a slash would be a Gemini CLI command.
fn prompt(ask: &AgentRequest) -> String {
    let prompt = schema::asked(ask);
    if prompt.starts_with('/') { format!(" {prompt}") } else { prompt }
}

fn settings(ask: &AgentRequest) -> Value {
    let mut settings = json!({ "general": { "maxAttempts": ATTEMPTS, "enableAutoUpdate": false } });
    if let Some(server) = &ask.mcp {
        settings["mcpServers"] = json!({ &server.name:
            { "command": server.command, "args": server.args, "env": server.env, "trust": true } });
    }
    settings
}

#[derive(Default)]
pub(super) struct Stream {
    session: Option<String>,
    words: Words,
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
    stderr: Tail,
}

struct End {
    ok: bool,
    kind: String,
    message: String,
    at: Option<Instant>,
    input_tokens: i64,
    output_tokens: i64,
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, seen: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else { return };
        match text_of(&event, "type") {
            "init" => {
                let id = text::cut(text_of(&event, "session_id"), text::DETAIL_BYTES);
                if !id.is_empty() {
                    self.session = Some(id.clone());
                    seen.push(AgentEvent::Session { id });
                }
            }
            "message" => self.message(&event, seen),
            "tool_use" => {
                self.goes_on();
                self.words.end();
                let name = text_of(&event, "tool_name").to_owned();
                let id = one_line(text_of(&event, "tool_id"));
                let call = ToolCall { id, acts: acts::of_tool(&name, &event["parameters"]) };
                let detail = text::tool_detail(&event["parameters"]);
                seen.push(AgentEvent::Tool { name, detail, call });
            }
            "tool_result" => self.tool_result(&event, seen),
            "error" => {
                let message = one_line(text_of(&event, "message"));
                seen.push(AgentEvent::Note { text: message.clone() });
                if text_of(&event, "severity") != "warning" {
                    self.error = Some(message);
                }
            }
            "result" => self.result(&event, seen),
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, seen: &mut Vec<AgentEvent>) {
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
        if let Some(attempt) = retried(line) {
            let detail = one_line(line);
            seen.push(AgentEvent::Note { text: detail.clone() });
            if attempt >= HOPELESS_FROM {
                seen.push(AgentEvent::Hopeless { reason: detail.clone() });
            }
            let kind = text::fault_in(line).unwrap_or(FaultKind::Transient);
            self.retry = Some(Fault { kind, detail, structured: false });
        }
        self.stderr.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let terminal = self.terminal();
        let trouble = self.trouble(exit);
        let fault = if terminal == Some(Terminal::Success) {
            // The agent continued after the refusal and reports success, but the last tool that it
            // asked for never ran.
            self.denied.map(|detail| Fault {
                kind: FaultKind::Permission,
                detail,
                structured: true,
            })
        } else {
            own_code(exit, &self.stderr.text())
                .or_else(|| trouble.fault())
                .or_else(|| own_fault(&trouble.message))
                .or_else(|| {
                    self.result
                        .is_none()
                        .then(|| self.stderr.fault(self.session.is_some(), exit))
                        .flatten()
                })
                .or(self.retry)
        };
        let said_at = self.result.as_ref().and_then(|end| end.at).unwrap_or(now);
        let resets_at = fault.is_some().then(|| trouble.resets_at(said_at)).flatten();
        let (input_tokens, output_tokens) =
            self.result.map_or((0, 0), |end| (end.input_tokens, end.output_tokens));
        StreamSummary {
            terminal,
            session: self.session,
            text: self.words.last(),
            answer: self.words.answer(),
            input_tokens,
            output_tokens,
            cost_micros: None,
            fault,
            resets_at,
            reports: Vec::new(),
        }
    }
}

impl Stream {
    fn message(&mut self, event: &Value, seen: &mut Vec<AgentEvent>) {
        if text_of(event, "role") != "assistant" {
            return;
        }
        self.goes_on();
        let piece = text_of(event, "content");
        if event["delta"] != true {
            self.words.end();
        }
        self.words.add("", piece);
        seen.push(AgentEvent::Text { text: one_line(piece) });
    }

    /// The model answered, so the retry worked.
    fn goes_on(&mut self) {
        self.retry = None;
    }

    fn tool_result(&mut self, event: &Value, seen: &mut Vec<AgentEvent>) {
        let ok = text_of(event, "status") != "error";
        let error = &event["error"];
        let said = if ok { text_of(event, "output") } else { text_of(error, "message") };
        let id = text_of(event, "tool_id");
        seen.push(AgentEvent::ToolResult { ok, detail: one_line(said), id: one_line(id) });
        let is_refused = match text_of(error, "type") {
            "policy_violation" => true,
            // Gemini CLI removes these tools if nobody can approve them; the model made up any
            // other name.
            "tool_not_registered" => NEED_APPROVAL.iter().any(|tool| id.starts_with(tool)),
            _ => false,
        };
        self.denied = (!ok && is_refused).then(|| one_line(said));
    }

    fn result(&mut self, event: &Value, seen: &mut Vec<AgentEvent>) {
        let error = &event["error"];
        let stats = &event["stats"];
        let end = End {
            ok: text_of(event, "status") == "success",
            kind: text::cut(text_of(error, "type"), text::DETAIL_BYTES),
            message: text::cut(text_of(error, "message"), 16 * text::DETAIL_BYTES),
            at: text_of(event, "timestamp").parse().ok(),
            input_tokens: count_of(stats, "input_tokens"),
            output_tokens: count_of(stats, "output_tokens"),
        };
        seen.push(AgentEvent::Spent {
            input_tokens: end.input_tokens,
            output_tokens: end.output_tokens,
            cost_micros: None,
        });
        let said = if end.ok { self.words.text() } else { &end.message };
        seen.push(AgentEvent::Ended { ok: end.ok, text: one_line(said) });
        self.result = Some(end);
    }

    fn terminal(&self) -> Option<Terminal> {
        let end = self.result.as_ref()?;
        Some(if end.ok && self.error.is_none() { Terminal::Success } else { Terminal::Error })
    }

    /// What is known of the provider's answer, from the result's message, the exit code and
    /// standard error.
    fn trouble(&self, exit: ProcessExit) -> Trouble {
        let mut trouble = Trouble::default();
        if let Some(end) = self.result.as_ref().filter(|end| !end.ok) {
            trouble.body_in(&end.message);
            trouble.name(&end.kind);
            trouble.status = trouble.status.or_else(|| status_of(exit)).or(self.status);
            if trouble.message.is_empty() {
                trouble.message.clone_from(&end.message);
            }
        }
        if trouble.message.is_empty() {
            trouble.message = self.error.clone().unwrap_or_default();
        }
        trouble.wait(self.wait_ms.unwrap_or(-1));
        trouble
    }
}

/// The exit codes of Gemini CLI's own faults, with or without a result event.
fn own_code(exit: ProcessExit, stderr: &str) -> Option<Fault> {
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
    Some(Fault { kind, detail: detail.to_owned(), structured: true })
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
fn retried(line: &str) -> Option<u32> {
    let (number, rest) = line.trim_start().strip_prefix("Attempt ")?.split_once(' ')?;
    let number = number.parse().ok()?;
    rest.starts_with("failed").then_some(number)
}

fn own_fault(message: &str) -> Option<Fault> {
    own_words(message).map(|kind| Fault { kind, detail: one_line(message), structured: false })
}

/// Recognises Gemini CLI's own errors by their text; the stream has no names for them.
fn own_words(message: &str) -> Option<FaultKind> {
    let message = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["session turns"]) || (has(&["maximum"]) && has(&["output", "max_tokens"])) {
        Some(FaultKind::Budget)
    } else if has(&["blocked", "safety", "recitation"]) {
        Some(FaultKind::Permission)
    } else if message.contains("exceeds the maximum number of tokens") {
        Some(FaultKind::Session)
    } else if has(&["empty response", "thinking", "transient", "malformed"]) {
        Some(FaultKind::Transient)
    } else {
        None
    }
}
