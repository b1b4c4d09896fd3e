//! The vendors' ways to say the same: an answer, a tool call, a refusal.
//!
//! The shapes of errors are those that the agents are known to react to; they were not recorded
//! from the vendors.

use serde_json::{Value, json};

use super::model_server::{Call, Input};

/// Every answer costs this much.
pub(super) const INPUT_TOKENS: i64 = 100;
pub(super) const OUTPUT_TOKENS: i64 = 20;

const LIMIT_REACHED: &str = "The usage limit has been reached";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    AnthropicMessages,
    OpenAiResponses,
    OpenAiChat,
    Gemini,
}

/// An answer over HTTP.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content_type: &'static str,
    /// The body, as it is sent piece by piece.
    pub(super) parts: Vec<String>,
}

impl Answer {
    fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_type: "application/json",
            parts: vec![body.to_string()],
        }
    }

    fn stream(parts: Vec<String>) -> Self {
        Self { status: 200, headers: Vec::new(), content_type: "text/event-stream", parts }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn not_found() -> Self {
        Self::json(404, &json!({ "error": { "message": "there is nothing here" } }))
    }
}

/// What an answer consists of.
enum Content<'a> {
    Text(&'a str),
    Call(&'a Call),
}

impl Dialect {
    pub(super) fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        [
            ("/messages", Self::AnthropicMessages),
            ("/responses", Self::OpenAiResponses),
            ("/chat/completions", Self::OpenAiChat),
            (":streamGenerateContent", Self::Gemini),
            (":generateContent", Self::Gemini),
        ]
        .into_iter()
        .find_map(|(ending, dialect)| path.ends_with(ending).then_some(dialect))
    }

    pub(super) fn text(self, number: usize, text: &str, path: &str) -> Answer {
        self.say(number, &Content::Text(text), path)
    }

    pub(super) fn call(self, number: usize, call: &Call, path: &str) -> Answer {
        self.say(number, &Content::Call(call), path)
    }

    fn say(self, number: usize, content: &Content<'_>, path: &str) -> Answer {
        match self {
            Self::AnthropicMessages => Answer::stream(anthropic(number, content)),
            Self::OpenAiResponses => Answer::stream(responses(number, content)),
            Self::OpenAiChat => Answer::stream(chat(number, content)),
            Self::Gemini if path.contains(":stream") => {
                let end = json!([{ "text": "" }]);
                let parts = [gemini(&gemini_parts(content), None), gemini(&end, Some("STOP"))];
                Answer::stream(parts.iter().map(data).collect())
            }
            Self::Gemini => Answer::json(200, &gemini(&gemini_parts(content), Some("STOP"))),
        }
    }

    pub(super) fn rate_limited(self) -> Answer {
        const TEXT: &str = "Too many requests in this minute.";
        let answer = match self {
            Self::AnthropicMessages => anthropic_error(429, "rate_limit_error", TEXT),
            Self::OpenAiResponses | Self::OpenAiChat => {
                openai_error(429, "requests", "rate_limit_exceeded", TEXT)
            }
            Self::Gemini => gemini_quota("PerMinute", TEXT, 1),
        };
        answer.with("retry-after", "1")
    }

    pub(super) fn wait(self, seconds: i64) -> Answer {
        let answer = match self {
            Self::AnthropicMessages => anthropic_error(429, "rate_limit_error", LIMIT_REACHED),
            Self::OpenAiResponses | Self::OpenAiChat => {
                openai_error(429, "requests", "rate_limit_exceeded", LIMIT_REACHED)
            }
            Self::Gemini => gemini_quota("PerDay", LIMIT_REACHED, seconds),
        };
        answer.with("retry-after", seconds.to_string())
    }

    pub(super) fn plan_limit(self, resets_at: i64) -> Answer {
        match self {
            Self::AnthropicMessages => anthropic_error(429, "rate_limit_error", LIMIT_REACHED)
                .with("anthropic-ratelimit-unified-status", "rejected")
                .with("anthropic-ratelimit-unified-reset", resets_at.to_string())
                .with("anthropic-ratelimit-unified-representative-claim", "five_hour")
                .with("anthropic-ratelimit-unified-overage-status", "rejected")
                .with("anthropic-ratelimit-unified-overage-disabled-reason", "org_level_disabled"),
            Self::OpenAiResponses => openai_plan_limit(resets_at),
            // Without a word on when to try again, opencode waits longer each time and for 70
            // seconds in all.
            Self::OpenAiChat => openai_plan_limit(resets_at).with("retry-after", "1"),
            Self::Gemini => gemini_quota("PerDay", "You exceeded your current quota.", 36_000),
        }
    }

    pub(super) fn refused(self) -> Answer {
        const TEXT: &str = "The key is not valid.";
        match self {
            Self::AnthropicMessages => anthropic_error(401, "authentication_error", TEXT),
            Self::OpenAiResponses | Self::OpenAiChat => {
                openai_error(401, "invalid_request_error", "invalid_api_key", TEXT)
            }
            Self::Gemini => gemini_error(401, "UNAUTHENTICATED", TEXT, &json!([])),
        }
    }

    pub(super) fn unavailable(self) -> Answer {
        const TEXT: &str = "Overloaded";
        match self {
            Self::AnthropicMessages => anthropic_error(503, "overloaded_error", TEXT),
            Self::OpenAiResponses | Self::OpenAiChat => {
                openai_error(503, "server_error", "overloaded", TEXT)
            }
            Self::Gemini => gemini_error(503, "UNAVAILABLE", TEXT, &json!([])),
        }
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// A server-sent event whose name is also the type of its data.
fn named(value: &Value) -> String {
    format!("event: {}\n{}", value["type"].as_str().expect("it has a type"), data(value))
}

fn arguments(input: &Input) -> String {
    match input {
        Input::Json(value) => value.to_string(),
        Input::Plain(text) => text.clone(),
    }
}

fn anthropic(number: usize, content: &Content<'_>) -> Vec<String> {
    let (block, delta, reason) = match content {
        Content::Text(text) => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        Content::Call(call) => (
            json!({ "type": "tool_use", "id": format!("toolu_{number}"), "name": call.name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments(&call.input) }),
            "tool_use",
        ),
    };
    let usage = json!({
        "input_tokens": INPUT_TOKENS, "output_tokens": 1,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    });
    let message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": OUTPUT_TOKENS },
        }),
        json!({ "type": "message_stop" }),
    ]
    .iter()
    .map(named)
    .collect()
}

fn anthropic_error(status: u16, kind: &str, text: &str) -> Answer {
    let error = json!({ "type": kind, "message": text });
    Answer::json(status, &json!({ "type": "error", "error": error }))
}

fn responses(number: usize, content: &Content<'_>) -> Vec<String> {
    let id = format!("resp_{number}");
    let item = match content {
        Content::Text(text) => json!({
            "type": "message", "id": format!("msg_{number}"), "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Content::Call(call) => {
            let (kind, field) = match call.input {
                Input::Json(_) => ("function_call", "arguments"),
                Input::Plain(_) => ("custom_tool_call", "input"),
            };
            let mut item = json!({
                "type": kind, "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": call.name, field: arguments(&call.input),
            });
            if let Some(namespace) = &call.namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    };
    let usage = json!({
        "input_tokens": INPUT_TOKENS, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": OUTPUT_TOKENS, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    [
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({
            "type": "response.completed",
            "response": { "id": id, "status": "completed", "output": [item], "usage": usage },
        }),
    ]
    .iter()
    .map(named)
    .collect()
}

fn openai_error(status: u16, kind: &str, code: &str, text: &str) -> Answer {
    let error = json!({ "message": text, "type": kind, "code": code, "param": null });
    Answer::json(status, &json!({ "error": error }))
}

fn openai_plan_limit(resets_at: i64) -> Answer {
    let error = json!({
        "type": "usage_limit_reached", "message": LIMIT_REACHED, "plan_type": "plus",
        "resets_at": resets_at,
    });
    Answer::json(429, &json!({ "error": error }))
}

fn chat(number: usize, content: &Content<'_>) -> Vec<String> {
    let (delta, reason) = match content {
        Content::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Content::Call(call) => {
            let function = json!({ "name": call.name, "arguments": arguments(&call.input) });
            let call = json!({
                "index": 0, "id": format!("call_{number}"), "type": "function", "function": function,
            });
            (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
        }
    };
    let usage = json!({
        "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    let chunk = |choices: Value, usage: Value| {
        data(&json!({
            "id": format!("chat_{number}"), "object": "chat.completion.chunk", "created": 0,
            "model": "scripted", "choices": choices, "usage": usage,
        }))
    };
    vec![
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null),
        chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), Value::Null),
        chunk(json!([]), usage),
        "data: [DONE]\n\n".to_owned(),
    ]
}

fn gemini_parts(content: &Content<'_>) -> Value {
    match content {
        Content::Text(text) => json!([{ "text": text }]),
        Content::Call(call) => {
            let args = match &call.input {
                Input::Json(value) => value.clone(),
                Input::Plain(text) => json!({ "input": text }),
            };
            json!([{ "functionCall": { "name": call.name, "args": args } }])
        }
    }
}

/// An answer, or a piece of one that is not yet the last.
fn gemini(parts: &Value, finish: Option<&str>) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    json!({
        "candidates": [{ "content": content, "finishReason": finish, "index": 0 }],
        "usageMetadata": {
            "promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
        },
        "modelVersion": "gemini-2.5-pro",
    })
}

fn gemini_quota(period: &str, text: &str, retry_after_seconds: i64) -> Answer {
    let violation = json!({
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
        "quotaId": format!("GenerateRequests{period}PerProjectPerModel"),
        "quotaValue": "100",
    });
    let retry_delay = format!("{retry_after_seconds}s");
    let details = json!([
        { "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry_delay },
    ]);
    gemini_error(429, "RESOURCE_EXHAUSTED", text, &details)
}

fn gemini_error(code: u16, status: &str, text: &str, details: &Value) -> Answer {
    let error = json!({ "code": code, "message": text, "status": status, "details": details });
    Answer::json(code, &json!({ "error": error }))
}
