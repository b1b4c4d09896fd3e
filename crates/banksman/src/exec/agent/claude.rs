//! Adapter for Claude Code: `claude -p --output-format stream-json`.
//!
//! Its `result` event ends a turn. Claude Code also writes `subtype: "success"` after API errors,
//! so a success needs `is_error: false` as well. The adapter recognises faults by the names and
//! statuses in events, because the prose differs between versions.

use std::collections::BTreeMap;

use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::{Fault, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde_json::Value;

use super::text::{self, StderrTail, count_of, one_line, text_of};
use super::{
    Adapter, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, StreamReader, actions,
    add_options, set_reset, set_session,
};

/// Claude Code's default of 10 retries waits for three minutes; the control plane schedules waits
/// instead.
const RETRIES: &str = "3";
const MCP_FILE: &str = "mcp.json";

pub(super) const ADAPTER: Adapter = Adapter {
    program: Some("claude"),
    launch,
    reader: |before| Box::new(Stream { before, ..Stream::default() }),
    interactive: Some(&[]),
    resume: Some("--resume"),
    provider_variables: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    ],
};

/// The prompt goes through standard input: there it can have any size and begin with a dash, and it
/// does not appear in the process list.
fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    let (program, mut args) = super::program(setup);
    let fixed = ["-p", "--output-format", "stream-json", "--verbose"];
    args.extend(fixed.map(str::to_owned));
    args.push("--dangerously-skip-permissions".to_owned());
    let schema = request.schema.as_ref().map(ToString::to_string);
    let budget = request.cost_micros.map(|micros| micros.max(0));
    let budget = budget.map(|micros| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
    // A file, because the server's environment may hold the run's token.
    let server = request.mcp.as_ref().map(|_| format!("{{folder}}/{MCP_FILE}"));
    let options = [
        ("--resume", &request.session),
        ("--model", &setup.model),
        ("--json-schema", &schema),
        ("--max-budget-usd", &budget),
        ("--mcp-config", &server),
    ];
    add_options(&mut args, options);
    let mut files = Vec::new();
    if let Some(server) = &request.mcp {
        args.push("--strict-mcp-config".to_owned());
        files.push((MCP_FILE.to_owned(), server.config().to_string()));
    }
    let mut env = BTreeMap::from(
        [
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", RETRIES),
            // Claude Code refuses to run as root without it. It creates no sandbox: the agent has
            // all rights of its user.
            ("IS_SANDBOX", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    env.extend(setup.env.clone());
    Launch { program, args, env, stdin: Some(request.prompt.clone()), files }
}

#[derive(Default)]
struct Stream {
    before: AgentUsage,
    summary: StreamSummary,
    /// Whether the stream had any event.
    had_events: bool,
    /// A fault that the agent retries after; it is the reason for the end if no event follows.
    pending: Option<Fault>,
    /// When a rejected limit ends.
    limit_resets_at: Option<Instant>,
    /// The error name in a message that the agent wrote in place of the model.
    error_name: String,
    /// Usage counted from messages until a result arrives, and the last counted message: a message
    /// is repeated for each of its blocks.
    live: AgentUsage,
    live_message: String,
    /// The sum of all results so far, for versions that count each result separately.
    results: Option<AgentUsage>,
    tail: StderrTail,
}

impl Stream {
    fn system(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        match text_of(event, "subtype") {
            "init" => {
                let servers = event["mcp_servers"].as_array().into_iter().flatten();
                let broken = servers.filter(|server| text_of(server, "status") == "failed");
                events.extend(broken.map(|server| {
                    note(&format!("the MCP server {} failed", text_of(server, "name")))
                }));
            }
            "api_retry" => self.retry(event, events),
            "permission_denied" => events.push(note(text_of(event, "message"))),
            _ => {}
        }
    }

    fn retry(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        /// The first refusal may be an expired token that the agent is renewing.
        const GIVE_UP_AT: i64 = 2;
        let status = event["error_status"].as_i64();
        let name = text_of(event, "error");
        let kind = kind_of(&[name], status).unwrap_or(FaultKind::Transient);
        let status = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        let (attempt, most) = (count_of(event, "attempt"), count_of(event, "max_retries"));
        let detail = one_line(&format!("retry {attempt} of {most}: {status} {name}"));
        events.push(note(&detail));
        if kind == FaultKind::Auth && attempt >= GIVE_UP_AT {
            events.push(AgentEvent::Hopeless { reason: detail.clone() });
        }
        self.pending = Some(Fault { kind, detail, structured: true });
    }

    /// `allowed` and `allowed_warning` are not faults.
    fn rate_limit(&mut self, info: &Value, events: &mut Vec<AgentEvent>) {
        let status = text_of(info, "status");
        if matches!(status, "" | "allowed") {
            return;
        }
        let detail = one_line(&format!("limit {}: {status}", text_of(info, "rateLimitType")));
        events.push(note(&detail));
        if status == "rejected" {
            self.limit_resets_at = text::at_epoch(&info["resetsAt"]).or(self.limit_resets_at);
            self.pending = Some(Fault { kind: FaultKind::Quota, detail, structured: true });
        }
    }

    fn assistant(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let message = &event["message"];
        let is_error = event["is_api_error_message"] == true || !text_of(event, "error").is_empty();
        if is_error {
            self.error_name = one_line(text_of(event, "error"));
            let limit = &event["api_error_params"]["rate_limit_info"];
            self.limit_resets_at = text::at_epoch(&limit["resetsAt"]).or(self.limit_resets_at);
        } else {
            self.pending = None;
            self.count(message, events);
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match text_of(block, "type") {
                "text" if is_error => events.push(note(text_of(block, "text"))),
                "text" => {
                    let text = text::cut(text_of(block, "text"), FINAL_TEXT_BYTES);
                    // A subagent's text is not the agent's answer.
                    if event["parent_tool_use_id"].is_null() {
                        self.summary.text.clone_from(&text);
                    }
                    events.push(AgentEvent::Text { text });
                }
                "tool_use" => events.push(AgentEvent::Tool {
                    name: one_line(text_of(block, "name")),
                    detail: text::tool_detail(&block["input"]),
                    id: one_line(text_of(block, "id")),
                    actions: actions::of_tool(text_of(block, "name"), &block["input"]),
                }),
                _ => {}
            }
        }
    }

    fn count(&mut self, message: &Value, events: &mut Vec<AgentEvent>) {
        let id = text_of(message, "id");
        if id.is_empty() || id == self.live_message {
            return;
        }
        self.live_message = text::cut(id, text::DETAIL_BYTES);
        let usage = &message["usage"];
        self.live = self.live.plus(AgentUsage {
            input_tokens: input_of(usage),
            output_tokens: count_of(usage, "output_tokens"),
            cost_micros: None,
        });
        events.push(AgentEvent::Spent(self.live));
    }

    fn result(&mut self, event: &Value, events: &mut Vec<AgentEvent>) {
        let is_success = event["is_error"] == false && text_of(event, "subtype") == "success";
        let output = text_of(event, "result");
        if !output.is_empty() {
            self.summary.text = text::cut(output, FINAL_TEXT_BYTES);
        }
        let errors = event["errors"].as_array().into_iter().flatten();
        let errors: Vec<&str> = errors.filter_map(Value::as_str).take(10).collect();
        let why = if errors.is_empty() { output.to_owned() } else { errors.join("; ") };
        self.summary.terminal = Some(if is_success { Terminal::Success } else { Terminal::Error });
        self.summary.answer = Some(event["structured_output"].clone()).filter(|it| !it.is_null());
        let fault = if is_success { withheld(event) } else { self.fault(event, &why) };
        if !is_success && fault.is_none() && self.summary.text.is_empty() {
            self.summary.text = text::cut(&why, FINAL_TEXT_BYTES);
        }
        self.summary.fault = fault;
        self.pending = None;
        self.error_name.clear();
        let counts = self.counts(event);
        self.results = Some(counts);
        events.push(AgentEvent::Spent(counts));
        events.push(AgentEvent::Ended { ok: is_success, text: one_line(&why) });
    }

    /// Why a turn failed: a cap, then what the API or the agent named, then prose.
    fn fault(&mut self, event: &Value, why: &str) -> Option<Fault> {
        let subtype = text_of(event, "subtype");
        let fault = |kind, structured| Some(Fault { kind, detail: one_line(why), structured });
        if matches!(subtype, "error_max_turns" | "error_max_budget_usd") {
            return fault(FaultKind::Budget, true);
        }
        if let Some(pending) = self.pending.take().filter(|it| it.kind == FaultKind::Quota) {
            return fault(pending.kind, true);
        }
        let status = event["api_error_status"].as_i64();
        let api_error = text_of(event, "api_error");
        let names = [api_error, self.error_name.as_str(), text_of(event, "api_error_type")];
        if let Some(kind) = kind_of(&names, status) {
            return fault(kind, true);
        }
        let id = text_of(event, "session_id");
        if count_of(event, "num_turns") == 0 && !id.is_empty() && why.contains(id) {
            return fault(FaultKind::Session, true);
        }
        if text_of(event, "stop_reason") == "refusal" {
            return fault(FaultKind::Permission, true);
        }
        // A prompt that no longer fits needs a new session.
        if text_of(event, "terminal_reason") == "prompt_too_long" || status == Some(413) {
            return fault(FaultKind::Session, true);
        }
        let is_api = text_of(event, "terminal_reason") == "api_error" && status.is_none();
        match text::fault_in(why) {
            Some(kind) => fault(kind, false),
            None if status == Some(400) => fault(FaultKind::Setup, true),
            None if is_api => fault(FaultKind::Transient, true),
            None => None,
        }
    }

    fn counts(&self, event: &Value) -> AgentUsage {
        let past = self.results.unwrap_or_default();
        let Some(models) = event["model_usage_since_last_result"].as_object() else {
            return self.counts_from_totals(event, past);
        };
        let of_model = |model: &Value| AgentUsage {
            input_tokens: model_input(model),
            output_tokens: count_of(model, "outputTokens"),
            cost_micros: text::micros(&model["costUSD"]),
        };
        let free = AgentUsage { cost_micros: Some(0), ..AgentUsage::default() };
        models.values().map(of_model).fold(past.plus(free), AgentUsage::plus)
    }

    /// Usage from versions that do not count each result separately. Some of them sum the cost over
    /// all runs of a session: then the per-model sum covers more tokens than this run used. When a
    /// cap ends the turn they report a usage of zero.
    fn counts_from_totals(&self, event: &Value, past: AgentUsage) -> AgentUsage {
        let usage = &event["usage"];
        let input = past.input_tokens.saturating_add(input_of(usage)).max(self.live.input_tokens);
        let output = past.output_tokens.saturating_add(count_of(usage, "output_tokens"));
        let models = event["modelUsage"].as_object().into_iter().flat_map(|it| it.values());
        let all_models: i64 = models.map(model_input).fold(0, i64::saturating_add);
        let before = self.before.cost_micros.filter(|_| all_models > input).unwrap_or_default();
        let total = text::micros(&event["total_cost_usd"]);
        AgentUsage {
            input_tokens: input,
            output_tokens: output.max(self.live.output_tokens),
            cost_micros: total.map(|total| text::increase(total, before)),
        }
    }
}

impl StreamReader for Stream {
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let Some(event) = text::object(line) else {
            return;
        };
        self.had_events = true;
        set_session(&mut self.summary, text_of(&event, "session_id"), events);
        match text_of(&event, "type") {
            "system" => self.system(&event, events),
            "rate_limit_event" => self.rate_limit(&event["rate_limit_info"], events),
            "assistant" => self.assistant(&event, events),
            "user" => tool_results(&event, events),
            "result" => self.result(&event, events),
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, _events: &mut Vec<AgentEvent>) {
        self.tail.push(line);
    }

    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary {
        let mut summary = self.summary;
        if summary.terminal.is_none() {
            summary.fault = self.pending.or_else(|| self.tail.fault(self.had_events, exit));
        }
        self.results.unwrap_or(self.live).write_to(&mut summary);
        set_reset(&mut summary, self.limit_resets_at, now);
        summary
    }
}

/// The kind of the first known name, or of the status.
fn kind_of(names: &[&str], status: Option<i64>) -> Option<FaultKind> {
    let named = names.iter().find_map(|name| text::kind_of_name(name));
    // `unknown`, `invalid_request` and the status 400 do not identify a fault.
    named.or_else(|| status.and_then(text::kind_of_status))
}

/// The fault of a turn that ended well although it lacked something: Banksman denied a tool, or the
/// model refused to answer.
fn withheld(event: &Value) -> Option<Fault> {
    let denials = event["permission_denials"].as_array().into_iter().flatten();
    let tools: Vec<&str> = denials.map(|denial| text_of(denial, "tool_name")).take(10).collect();
    let detail = if !tools.is_empty() {
        format!("denied: {}", tools.join(", "))
    } else if text_of(event, "stop_reason") == "refusal" {
        "the model refused to answer".to_owned()
    } else {
        return None;
    };
    Some(text::named_fault(FaultKind::Permission, &detail))
}

/// All tokens that went into the model, cached or not, as the other agents count them.
fn input_of(usage: &Value) -> i64 {
    let keys = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    keys.iter().map(|key| count_of(usage, key)).fold(0, i64::saturating_add)
}

fn model_input(model: &Value) -> i64 {
    let keys = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    keys.iter().map(|key| count_of(model, key)).fold(0, i64::saturating_add)
}

fn tool_results(event: &Value, events: &mut Vec<AgentEvent>) {
    let blocks = event["message"]["content"].as_array().into_iter().flatten();
    let results = blocks.filter(|block| text_of(block, "type") == "tool_result");
    events.extend(results.map(|block| {
        let content = &block["content"];
        let output = content.as_str().unwrap_or_else(|| text_of(&content[0], "text"));
        let id = one_line(text_of(block, "tool_use_id"));
        AgentEvent::ToolResult { ok: block["is_error"] != true, detail: one_line(output), id }
    }));
}

fn note(text: &str) -> AgentEvent {
    AgentEvent::Note { text: one_line(text) }
}
