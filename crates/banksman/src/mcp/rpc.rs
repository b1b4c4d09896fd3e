//! JSON-RPC 2.0, as far as an MCP server needs it: one message in, at most one answer out.
//!
//! It keeps no state between messages, so the order of messages and restarts of the client do not
//! matter.

use banksman_core::limits::{TOOL_BATCH, TOOL_MESSAGE_BYTES};
use serde_json::{Value, json};

use super::run_folder::RunFolder;
use super::tools;

/// Supported versions of the protocol, the newest first. They differ in nothing that is used here,
/// except that 2025-03-26 has batches.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str = "Tools of the run that you are working in. Report progress after each major step. \
                            Ask a person only if you cannot continue without one, and end your turn afterwards.";

const NOT_JSON: i64 = -32700;
const NOT_A_REQUEST: i64 = -32600;
const NO_SUCH_METHOD: i64 = -32601;
pub(super) const WRONG_PARAMS: i64 = -32602;

/// A request that is invalid. A tool's failure is not one: that is the tool's result.
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The answer to one line; none for a notification.
pub(super) fn answer(run: &RunFolder, line: &[u8]) -> Option<Value> {
    match serde_json::from_slice(line) {
        Err(_) => Some(refused(&Value::Null, &Refusal::new(NOT_JSON, "the line is not JSON"))),
        Ok(Value::Array(messages)) => batch(run, &messages),
        Ok(message) => one(run, &message),
    }
}

pub(super) fn too_long() -> Value {
    let message = format!("a message may have at most {TOOL_MESSAGE_BYTES} bytes");
    refused(&Value::Null, &Refusal::new(NOT_A_REQUEST, message))
}

fn batch(run: &RunFolder, messages: &[Value]) -> Option<Value> {
    if messages.is_empty() || messages.len() > TOOL_BATCH {
        let message = format!("a batch has 1 to {TOOL_BATCH} messages");
        return Some(refused(&Value::Null, &Refusal::new(NOT_A_REQUEST, message)));
    }
    let answers: Vec<Value> = messages.iter().filter_map(|message| one(run, message)).collect();
    (!answers.is_empty()).then_some(Value::Array(answers))
}

fn one(run: &RunFolder, message: &Value) -> Option<Value> {
    let id = message.get("id");
    let is_answer = message.get("result").is_some() || message.get("error").is_some();
    match (message["method"].as_str(), id) {
        // This server sends no requests, so an answer can only be a mistake, and answering it would
        // be another.
        (None, Some(_)) if is_answer => None,
        _ if message["jsonrpc"] != "2.0" => {
            Some(refused(&Value::Null, &Refusal::new(NOT_A_REQUEST, "`jsonrpc` must be \"2.0\"")))
        }
        (None, _) => {
            Some(refused(&Value::Null, &Refusal::new(NOT_A_REQUEST, "`method` is missing")))
        }
        (Some(_), None) => None,
        (Some(method), Some(id @ (Value::String(_) | Value::Number(_)))) => {
            Some(match request(run, method, &message["params"]) {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                Err(refusal) => refused(id, &refusal),
            })
        }
        (Some(_), Some(_)) => {
            let refusal = Refusal::new(NOT_A_REQUEST, "`id` must be a string or a number");
            Some(refused(&Value::Null, &refusal))
        }
    }
}

fn request(run: &RunFolder, method: &str, params: &Value) -> Result<Value, Refusal> {
    match method {
        "initialize" => Ok(initialize(params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools::list() })),
        "tools/call" => tools::call(run, params),
        _ => Err(Refusal::new(NO_SUCH_METHOD, format!("there is no method `{method}`"))),
    }
}

/// The client's version if it is supported, else the newest: the client decides whether to
/// continue.
fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str();
    let version = VERSIONS.into_iter().find(|known| asked == Some(known)).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "banksman", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    })
}

fn refused(id: &Value, refusal: &Refusal) -> Value {
    let error = json!({ "code": refusal.code, "message": refusal.message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}
