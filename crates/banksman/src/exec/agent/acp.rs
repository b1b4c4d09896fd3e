//! Adapter for every agent that speaks the Agent Client Protocol, through our client
//! [`super::acp_client`].
//!
//! The client prints every message, `> ` to the agent and `< ` from it, so this file reads a live
//! run and a recording alike. A run succeeds when the agent answers the prompt with `end_turn`,
//! unless it reported a fault before: some agents answer `end_turn` after a fault and mention the
//! fault only in a message.

use banksman_core::receipt::{Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::{Value, json};

use super::acp_client::{AcpRequest, COMMAND};
use super::actions;
use super::last_message::LastMessage;
use super::provider::ProviderError;
use super::text::{self, StderrTail, count_of, one_line, text_of};
use super::{
    Adapter, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, OWN_PROGRAM, StreamReader,
    schema,
};

/// If a worker sets this variable, its agent cannot reach the worktree itself and reads and writes
/// files through the client.
const FILES_VARIABLE: &str = "BANKSMAN_ACP_FILES";
/// The most requests that may be unanswered at once.
const MAX_PENDING: usize = 16;

pub(super) const ADAPTER: Adapter = Adapter {
    program: None,
    launch,
    reader: |_| Box::new(Stream::default()),
    interactive: None,
    resume: None,
    provider_variables: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"],
};

fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    let mut args = vec![COMMAND.to_owned()];
    let mut env = setup.env.clone();
    if env.remove(FILES_VARIABLE).is_some() {
        args.push("--files".to_owned());
    }
    args.push("--".to_owned());
    args.extend(setup.command.iter().cloned());
    let ask = AgentRequest { prompt: schema::prompt_with_schema(request), ..request.clone() };
    let acp_request = AcpRequest { model: setup.model.clone(), ask };
    Launch {
        program: OWN_PROGRAM.to_owned(),
        args,
        env,
        stdin: Some(json!(acp_request).to_string()),
        files: Vec::new(),
    }
}

#[derive(Default)]
struct Stream {
    session: Option<String>,
    last_message: LastMessage,
    pending: Vec<(Value, RequestKind)>,
    /// Updates before the prompt are the history of a resumed session.
    prompted: bool,
    tools: u64,
    input_tokens: i64,
    output_tokens: Option<i64>,
    /// The cost of the whole session as the agent counts it, and the part of it that was spent
    /// before the prompt.
    cost_micros: Option<i64>,
    cost_before: i64,
    end: Option<End>,
    /// The thread behind the agent is in an error state.
    is_broken: bool,
    /// The last fault that the agent reported outside its answers.
    hint: Option<ProviderError>,
    stderr: StderrTail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    NewSession,
    ResumeSession,
    Prompt,
}

enum End {
    /// The agent's stop reason.
    Stopped(String),
    Refused(RequestKind, ProviderError),
}

/// The announcement of a tool may lack its arguments; the permission request has them.
fn asks_permission(tool: &Value, events: &mut Vec<AgentEvent>) {
    events.push(AgentEvent::Tool {
        name: format!("asks to: {}", one_line(text_of(tool, "title"))),
        detail: text::tool_detail(&tool["rawInput"]),
        id: String::new(),
        actions: actions::of_acp(tool),
    });
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let line = line.trim_start();
        if let Some(message) = line.strip_prefix('>').and_then(text::object) {
            self.sent(&message);
        } else if let Some(message) = line.strip_prefix('<').and_then(text::object) {
            self.received(&message, events);
        }
    }

    fn error_line(&mut self, line: &str, _events: &mut Vec<AgentEvent>) {
        self.stderr.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let silent_fault = self.silent_fault();
        let (terminal, provider_error, fault) = match &self.end {
            None => (None, None, self.stderr.fault(self.session.is_some(), exit)),
            Some(End::Refused(request, error)) => {
                (Some(Terminal::Error), Some(error), refusal(*request, error))
            }
            Some(End::Stopped(reason)) => {
                let error = silent_fault.as_ref();
                let is_success = error.is_none() && reason == "end_turn" && !self.is_broken;
                let terminal = if is_success { Terminal::Success } else { Terminal::Error };
                let fault = stop(reason).or_else(|| error.and_then(ProviderError::fault));
                (Some(terminal), error, fault)
            }
        };
        let resets_at =
            provider_error.filter(|_| fault.is_some()).and_then(|error| error.resets_at(now));
        let mut usage = StreamSummary::default();
        self.usage().write_to(&mut usage);
        StreamSummary {
            terminal,
            text: self.last_message.bounded(),
            answer: self.last_message.answer(),
            session: self.session,
            fault,
            resets_at,
            ..usage
        }
    }
}

impl Stream {
    fn sent(&mut self, message: &Value) {
        let request = match text_of(message, "method") {
            "initialize" => RequestKind::Initialize,
            "session/new" => RequestKind::NewSession,
            "session/load" | "session/resume" => {
                self.session = session(&message["params"]);
                RequestKind::ResumeSession
            }
            "session/prompt" => {
                self.prompted = true;
                self.last_message = LastMessage::default();
                self.end = None;
                self.cost_before = self.cost_micros.unwrap_or_default();
                RequestKind::Prompt
            }
            _ => return,
        };
        if self.pending.len() == MAX_PENDING {
            self.pending.remove(0);
        }
        self.pending.push((message["id"].clone(), request));
    }

    fn received(&mut self, message: &Value, events: &mut Vec<AgentEvent>) {
        match text_of(message, "method") {
            "" => self.answered(message, events),
            "session/update" => self.update(&message["params"]["update"], events),
            "session/request_permission" => asks_permission(&message["params"]["toolCall"], events),
            _ => {}
        }
    }

    fn answered(&mut self, message: &Value, events: &mut Vec<AgentEvent>) {
        let Some(index) = self.pending.iter().position(|(id, _)| *id == message["id"]) else {
            return;
        };
        let (_, request) = self.pending.remove(index);
        if message["error"].is_object() {
            let provider_error = provider_error_of(&message["error"]);
            events.push(AgentEvent::Ended { ok: false, text: one_line(&provider_error.message) });
            self.end = Some(End::Refused(request, provider_error));
            return;
        }
        let result = &message["result"];
        match request {
            RequestKind::Initialize => {}
            RequestKind::NewSession | RequestKind::ResumeSession => self.opened(result, events),
            RequestKind::Prompt => self.stopped(result, events),
        }
    }

    fn opened(&mut self, result: &Value, events: &mut Vec<AgentEvent>) {
        self.session = session(result).or(self.session.take());
        events.extend(self.session.iter().map(|id| AgentEvent::Session { id: id.clone() }));
    }

    fn stopped(&mut self, result: &Value, events: &mut Vec<AgentEvent>) {
        let (usage, counted) = (&result["usage"], &result["_meta"]["quota"]["token_count"]);
        if usage.is_object() {
            let output = count_of(usage, "outputTokens");
            // Some agents count cached tokens as input and some do not; the total always includes
            // them.
            let rest = count_of(usage, "totalTokens") - output - count_of(usage, "thoughtTokens");
            self.input_tokens = count_of(usage, "inputTokens").max(rest);
            self.output_tokens = Some(output);
        } else if counted.is_object() {
            self.input_tokens = count_of(counted, "input_tokens");
            self.output_tokens = Some(count_of(counted, "output_tokens"));
        }
        events.push(AgentEvent::Spent(self.usage()));
        let reason = text::cut(text_of(result, "stopReason"), text::DETAIL_BYTES);
        events.push(AgentEvent::Ended {
            ok: reason == "end_turn",
            text: one_line(self.last_message.text()),
        });
        self.end = Some(End::Stopped(reason));
    }

    fn update(&mut self, update: &Value, events: &mut Vec<AgentEvent>) {
        let kind = text_of(update, "sessionUpdate");
        match kind {
            "usage_update" => {
                self.cost_micros = text::micros(&update["cost"]["amount"]).or(self.cost_micros);
                if self.prompted {
                    events.push(AgentEvent::Spent(self.usage()));
                }
            }
            "session_info_update" => self.codex(&update["_meta"]["codex"], events),
            _ if !self.prompted => {}
            "agent_message_chunk" => {
                let chunk = text_of(&update["content"], "text");
                self.last_message.add(text_of(update, "messageId"), chunk);
                if !chunk.is_empty() {
                    events.push(AgentEvent::Text { text: one_line(chunk) });
                }
            }
            "tool_call" | "tool_call_update" => self.tool(kind, update, events),
            _ => {}
        }
    }

    fn tool(&mut self, kind: &str, update: &Value, events: &mut Vec<AgentEvent>) {
        if kind == "tool_call" {
            self.tools += 1;
            self.last_message.end();
            let name = one_line(text_of(update, "title"));
            let path = update["locations"][0]["path"].as_str();
            let input = Some(&update["rawInput"]).filter(|input| **input != json!({}));
            let detail =
                path.map_or_else(|| input.map(text::tool_detail).unwrap_or_default(), one_line);
            let id = one_line(text_of(update, "toolCallId"));
            events.push(AgentEvent::Tool { name, detail, id, actions: actions::of_acp(update) });
        }
        let ok = match text_of(update, "status") {
            "completed" => true,
            "failed" => false,
            _ => return,
        };
        // Not every agent announces a tool before it reports the result.
        self.last_message.end();
        let content = text_of(&update["content"][0]["content"], "text");
        let output = if content.is_empty() { text_of(update, "title") } else { content };
        let id = one_line(text_of(update, "toolCallId"));
        events.push(AgentEvent::ToolResult { ok, detail: one_line(output), id });
    }

    /// Reads what the Codex adapter reports about its thread. After a rate limit that adapter
    /// answers `end_turn`, and only this report tells the failure from a success.
    fn codex(&mut self, codex: &Value, events: &mut Vec<AgentEvent>) {
        if let Some(status) = codex["threadStatus"]["type"].as_str() {
            self.is_broken = status == "systemError";
        }
        let error = &codex["error"];
        if error.is_object() {
            let mut provider_error = ProviderError::new(None, text_of(error, "message"));
            codex_names(&mut provider_error, &error["codexErrorInfo"]);
            events.push(AgentEvent::Note { text: one_line(&provider_error.message) });
            self.hint = Some(provider_error);
        }
    }

    fn usage(&self) -> AgentUsage {
        AgentUsage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens.unwrap_or_default(),
            cost_micros: self.cost_micros.map(|cost| text::increase(cost, self.cost_before)),
        }
    }

    /// The fault behind an `end_turn`: the thread broke, or the model produced nothing and the
    /// agent shows an error in place of its answer.
    fn silent_fault(&self) -> Option<ProviderError> {
        let shown = self.last_message.text();
        let produced_nothing = match self.output_tokens {
            Some(tokens) => tokens == 0,
            // The agent did not count tokens. A short text that names an HTTP status is an error,
            // not an answer.
            None => shown.len() <= text::DETAIL_BYTES && text::status_in(shown).is_some(),
        };
        let was_silent = produced_nothing && self.tools == 0;
        if !self.is_broken && !was_silent {
            return None;
        }
        let mut provider_error = ProviderError::new(None, shown);
        if self.is_broken
            && let Some(hint) = &self.hint
        {
            provider_error.adopt(hint);
        }
        provider_error.fault().is_some().then_some(provider_error)
    }
}

fn session(params: &Value) -> Option<String> {
    params["sessionId"].as_str().map(|id| text::cut(id, text::DETAIL_BYTES))
}

/// The error in an answer. Google's agents put the provider's HTTP status into the code; others put
/// it into the data.
fn provider_error_of(error: &Value) -> ProviderError {
    /// The protocol's `auth_required`.
    const AUTH_REQUIRED: i64 = -32_000;
    let code = error["code"].as_i64();
    let data = &error["data"];
    let details = data["message"].as_str().or_else(|| data["details"].as_str());
    let message = details.unwrap_or_else(|| text_of(error, "message"));
    let mut provider_error =
        ProviderError::new(code.filter(|code| (400..600).contains(code)), message);
    if code == Some(AUTH_REQUIRED) {
        provider_error.name("auth_required");
    }
    provider_error.name(text_of(data, "errorKind"));
    codex_names(&mut provider_error, &data["codexErrorInfo"]);
    provider_error.body_in(message);
    provider_error
}

/// Codex's error info is a name, or an object with one key that holds the HTTP status.
fn codex_names(provider_error: &mut ProviderError, info: &Value) {
    provider_error.name(info.as_str().unwrap_or_default());
    for (name, detail) in info.as_object().into_iter().flatten().take(1) {
        provider_error.status = detail["httpStatusCode"].as_i64().or(provider_error.status);
        provider_error.name(name);
    }
}

/// A session that cannot be loaded is a session fault, unless the refusal names another reason.
fn refusal(request: RequestKind, provider_error: &ProviderError) -> Option<Fault> {
    let unnamed = || text::named_fault(FaultKind::Session, &provider_error.message);
    let resumes = request == RequestKind::ResumeSession;
    provider_error.fault().or_else(|| resumes.then(unnamed))
}

/// The fault that a stop reason implies.
fn stop(reason: &str) -> Option<Fault> {
    let (kind, detail) = match reason {
        "max_tokens" => (FaultKind::Budget, "the model reached its token limit"),
        "max_turn_requests" => (FaultKind::Budget, "the turn limit was reached"),
        "refusal" => (FaultKind::Permission, "the model refused"),
        _ => return None,
    };
    Some(text::named_fault(kind, detail))
}
