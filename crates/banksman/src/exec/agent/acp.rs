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

use super::acp_client::AcpRequest;
use super::acts;
use super::provider::Trouble;
use super::text::{self, Tail, count_of, one_line, text_of};
use super::words::Words;
use super::{
    AgentEvent, AgentRequest, AgentSetup, Launch, OURSELVES, StreamReader, ToolCall, schema,
};

/// If a worker sets this variable, its agent cannot reach the worktree itself and reads and writes
/// files through the client.
const FILES: &str = "BANKSMAN_ACP_FILES";
/// The most requests that may be unanswered at once.
const PENDING: usize = 16;

pub(super) fn launch(setup: &AgentSetup, ask: &AgentRequest) -> Launch {
    let mut args = vec!["acp-client".to_owned()];
    let mut env = setup.env.clone();
    if env.remove(FILES).is_some() {
        args.push("--files".to_owned());
    }
    args.push("--".to_owned());
    args.extend(setup.command.iter().cloned());
    let order = AcpRequest {
        prompt: schema::asked(ask),
        session: ask.session.clone(),
        model: setup.model.clone(),
        mcp: ask.mcp.clone(),
        guard: ask.guard.clone(),
    };
    Launch {
        program: OURSELVES.to_owned(),
        args,
        env,
        stdin: Some(json!(order).to_string()),
        files: Vec::new(),
    }
}

#[derive(Default)]
pub(super) struct Stream {
    session: Option<String>,
    words: Words,
    pending: Vec<(Value, Asked)>,
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
    hint: Option<Trouble>,
    stderr: Tail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Initialize,
    NewSession,
    OldSession,
    Prompt,
}

enum End {
    /// The agent's stop reason.
    Stopped(String),
    Refused(Asked, Trouble),
}

/// The announcement of a tool may lack its arguments; the permission request has them.
fn asks_permission(tool: &Value, seen: &mut Vec<AgentEvent>) {
    let call = ToolCall { id: String::new(), acts: acts::of_acp(tool) };
    let name = format!("asks to: {}", one_line(text_of(tool, "title")));
    seen.push(AgentEvent::Tool { name, detail: text::tool_detail(&tool["rawInput"]), call });
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, seen: &mut Vec<AgentEvent>) {
        let line = line.trim_start();
        if let Some(message) = line.strip_prefix('>').and_then(text::object) {
            self.sent(&message);
        } else if let Some(message) = line.strip_prefix('<').and_then(text::object) {
            self.received(&message, seen);
        }
    }

    fn error_line(&mut self, line: &str, _seen: &mut Vec<AgentEvent>) {
        self.stderr.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let silent_fault = self.silent_fault();
        let (terminal, trouble) = match &self.end {
            None => (None, None),
            Some(End::Refused(_, trouble)) => (Some(Terminal::Error), Some(trouble)),
            Some(End::Stopped(_)) if silent_fault.is_some() => {
                (Some(Terminal::Error), silent_fault.as_ref())
            }
            Some(End::Stopped(reason)) if reason == "end_turn" && !self.is_broken => {
                (Some(Terminal::Success), None)
            }
            Some(End::Stopped(_)) => (Some(Terminal::Error), None),
        };
        let fault = match &self.end {
            None => self.stderr.fault(self.session.is_some(), exit),
            Some(End::Refused(asked, trouble)) => refusal(*asked, trouble),
            Some(End::Stopped(reason)) => stop(reason).or_else(|| trouble.and_then(Trouble::fault)),
        };
        let resets_at =
            trouble.filter(|_| fault.is_some()).and_then(|trouble| trouble.resets_at(now));
        StreamSummary {
            terminal,
            text: self.words.last(),
            answer: self.words.answer(),
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens.unwrap_or_default(),
            cost_micros: self.cost(),
            session: self.session,
            fault,
            resets_at,
            reports: Vec::new(),
        }
    }
}

impl Stream {
    fn sent(&mut self, message: &Value) {
        let asked = match text_of(message, "method") {
            "initialize" => Asked::Initialize,
            "session/new" => Asked::NewSession,
            "session/load" | "session/resume" => {
                self.session = session(&message["params"]);
                Asked::OldSession
            }
            "session/prompt" => {
                self.prompted = true;
                self.words = Words::default();
                self.end = None;
                self.cost_before = self.cost_micros.unwrap_or_default();
                Asked::Prompt
            }
            _ => return,
        };
        if self.pending.len() == PENDING {
            self.pending.remove(0);
        }
        self.pending.push((message["id"].clone(), asked));
    }

    fn received(&mut self, message: &Value, seen: &mut Vec<AgentEvent>) {
        match text_of(message, "method") {
            "" => self.answered(message, seen),
            "session/update" => self.update(&message["params"]["update"], seen),
            "session/request_permission" => asks_permission(&message["params"]["toolCall"], seen),
            _ => {}
        }
    }

    fn answered(&mut self, message: &Value, seen: &mut Vec<AgentEvent>) {
        let Some(index) = self.pending.iter().position(|(id, _)| *id == message["id"]) else {
            return;
        };
        let (_, asked) = self.pending.remove(index);
        if message["error"].is_object() {
            let trouble = trouble_of(&message["error"]);
            seen.push(AgentEvent::Ended { ok: false, text: one_line(&trouble.message) });
            self.end = Some(End::Refused(asked, trouble));
            return;
        }
        let result = &message["result"];
        match asked {
            Asked::Initialize => {}
            Asked::NewSession | Asked::OldSession => self.opened(result, seen),
            Asked::Prompt => self.stopped(result, seen),
        }
    }

    fn opened(&mut self, result: &Value, seen: &mut Vec<AgentEvent>) {
        self.session = session(result).or(self.session.take());
        seen.extend(self.session.iter().map(|id| AgentEvent::Session { id: id.clone() }));
    }

    fn stopped(&mut self, result: &Value, seen: &mut Vec<AgentEvent>) {
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
        self.spent(seen);
        let reason = text::cut(text_of(result, "stopReason"), text::DETAIL_BYTES);
        seen.push(AgentEvent::Ended {
            ok: reason == "end_turn",
            text: one_line(self.words.text()),
        });
        self.end = Some(End::Stopped(reason));
    }

    fn update(&mut self, update: &Value, seen: &mut Vec<AgentEvent>) {
        let kind = text_of(update, "sessionUpdate");
        match kind {
            "usage_update" => {
                self.cost_micros = text::micros(&update["cost"]["amount"]).or(self.cost_micros);
                if self.prompted {
                    self.spent(seen);
                }
            }
            "session_info_update" => self.codex(&update["_meta"]["codex"], seen),
            _ if !self.prompted => {}
            "agent_message_chunk" => {
                let piece = text_of(&update["content"], "text");
                self.words.add(text_of(update, "messageId"), piece);
                if !piece.is_empty() {
                    seen.push(AgentEvent::Text { text: one_line(piece) });
                }
            }
            "tool_call" | "tool_call_update" => self.tool(kind, update, seen),
            _ => {}
        }
    }

    fn tool(&mut self, kind: &str, update: &Value, seen: &mut Vec<AgentEvent>) {
        if kind == "tool_call" {
            self.tools += 1;
            self.words.end();
            let name = one_line(text_of(update, "title"));
            let path = update["locations"][0]["path"].as_str();
            let input = Some(&update["rawInput"]).filter(|input| **input != json!({}));
            let detail =
                path.map_or_else(|| input.map(text::tool_detail).unwrap_or_default(), one_line);
            let call = ToolCall {
                id: one_line(text_of(update, "toolCallId")),
                acts: acts::of_acp(update),
            };
            seen.push(AgentEvent::Tool { name, detail, call });
        }
        let ok = match text_of(update, "status") {
            "completed" => true,
            "failed" => false,
            _ => return,
        };
        // Not every agent announces a tool before it reports the result.
        self.words.end();
        let content = text_of(&update["content"][0]["content"], "text");
        let said = if content.is_empty() { text_of(update, "title") } else { content };
        let id = one_line(text_of(update, "toolCallId"));
        seen.push(AgentEvent::ToolResult { ok, detail: one_line(said), id });
    }

    /// Reads what the Codex adapter reports about its thread. After a rate limit that adapter
    /// answers `end_turn`, and only this report tells the failure from a success.
    fn codex(&mut self, codex: &Value, seen: &mut Vec<AgentEvent>) {
        if let Some(status) = codex["threadStatus"]["type"].as_str() {
            self.is_broken = status == "systemError";
        }
        let error = &codex["error"];
        if error.is_object() {
            let mut trouble = Trouble::new(None, text_of(error, "message"));
            codex_names(&mut trouble, &error["codexErrorInfo"]);
            seen.push(AgentEvent::Note { text: one_line(&trouble.message) });
            self.hint = Some(trouble);
        }
    }

    fn spent(&self, seen: &mut Vec<AgentEvent>) {
        seen.push(AgentEvent::Spent {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens.unwrap_or_default(),
            cost_micros: self.cost(),
        });
    }

    fn cost(&self) -> Option<i64> {
        self.cost_micros.map(|cost| text::since(cost, self.cost_before))
    }

    /// The fault behind an `end_turn`: the thread broke, or the model produced nothing and the
    /// agent shows an error in place of its answer.
    fn silent_fault(&self) -> Option<Trouble> {
        let shown = self.words.text();
        let never_spoke = match self.output_tokens {
            Some(tokens) => tokens == 0,
            // The agent did not count tokens. A short text that names an HTTP status is an error,
            // not an answer.
            None => shown.len() <= text::DETAIL_BYTES && text::status_in(shown).is_some(),
        };
        let is_none_of_its_words = never_spoke && self.tools == 0;
        if !self.is_broken && !is_none_of_its_words {
            return None;
        }
        let mut trouble = Trouble::new(None, shown);
        if self.is_broken
            && let Some(hint) = &self.hint
        {
            trouble.adopt(hint);
        }
        trouble.fault().is_some().then_some(trouble)
    }
}

fn session(params: &Value) -> Option<String> {
    params["sessionId"].as_str().map(|id| text::cut(id, text::DETAIL_BYTES))
}

/// The error in an answer. Google's agents put the provider's HTTP status into the code; others put
/// it into the data.
fn trouble_of(error: &Value) -> Trouble {
    /// The protocol's `auth_required`.
    const LOG_IN: i64 = -32_000;
    let code = error["code"].as_i64();
    let data = &error["data"];
    let telling = data["message"].as_str().or_else(|| data["details"].as_str());
    let message = telling.unwrap_or_else(|| text_of(error, "message"));
    let mut trouble = Trouble::new(code.filter(|code| (400..600).contains(code)), message);
    if code == Some(LOG_IN) {
        trouble.name("auth_required");
    }
    trouble.name(text_of(data, "errorKind"));
    codex_names(&mut trouble, &data["codexErrorInfo"]);
    trouble.body_in(message);
    trouble
}

/// Codex's error info is a name, or an object with one key that holds the HTTP status.
fn codex_names(trouble: &mut Trouble, info: &Value) {
    trouble.name(info.as_str().unwrap_or_default());
    for (name, detail) in info.as_object().into_iter().flatten().take(1) {
        trouble.status = detail["httpStatusCode"].as_i64().or(trouble.status);
        trouble.name(name);
    }
}

/// A session that cannot be loaded is a session fault, unless the refusal names another reason.
fn refusal(asked: Asked, trouble: &Trouble) -> Option<Fault> {
    let named = trouble.fault();
    match asked {
        Asked::OldSession => named.or_else(|| {
            let detail = one_line(&trouble.message);
            Some(Fault { kind: FaultKind::Session, detail, structured: true })
        }),
        Asked::Initialize | Asked::NewSession | Asked::Prompt => named,
    }
}

/// The fault that a stop reason implies.
fn stop(reason: &str) -> Option<Fault> {
    let (kind, detail) = match reason {
        "max_tokens" => (FaultKind::Budget, "the model reached its token limit"),
        "max_turn_requests" => (FaultKind::Budget, "the turn limit was reached"),
        "refusal" => (FaultKind::Permission, "the model refused"),
        _ => return None,
    };
    Some(Fault { kind, detail: detail.to_owned(), structured: true })
}
