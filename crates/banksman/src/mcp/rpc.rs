//! JSON-RPC 2.0, as far as an MCP server needs it: one message in, at most one answer out.
//!
//! It keeps no state between messages, so the order of messages and restarts of the client do not
//! matter.

use std::collections::BTreeMap;

use banksman_core::limits::{TOOL_BATCH, TOOL_MESSAGE_BYTES};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;

use super::tools::{self, Tool, ToolResult};
use crate::ops::reports::RunFolder;

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
#[derive(Serialize)]
pub(super) struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// A message of the client. Every member may be missing or of any type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    jsonrpc: Option<Given<String>>,
    #[serde(deserialize_with = "present")]
    id: Option<Given<Id>>,
    method: Option<Given<String>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

/// A member that is there; its type may be wrong.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Given<T> {
    Fits(T),
    Wrong(IgnoredAny),
}

impl<T> Given<T> {
    pub(super) fn fitting(self) -> Option<T> {
        match self {
            Self::Fits(value) => Some(value),
            Self::Wrong(_) => None,
        }
    }
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(Number),
}

/// Tells `null` from a missing member.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The members of an object, or none of them if it is not one that can be read.
fn members<'a, T: Default + Deserialize<'a>>(object: &'a RawValue) -> T {
    // A struct could be read from a list, too.
    let text = Some(object.get()).filter(|text| text.starts_with('{'));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[derive(Serialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
    id: Option<Id>,
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<MethodResult>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum MethodResult {
    #[serde(rename_all = "camelCase")]
    Initialize {
        capabilities: BTreeMap<&'static str, BTreeMap<&'static str, bool>>,
        instructions: &'static str,
        protocol_version: &'static str,
        server_info: BTreeMap<&'static str, &'static str>,
    },
    Ping {},
    List {
        tools: Vec<Tool>,
    },
    Call(ToolResult),
}

/// The answer to one line; none for a notification.
pub(super) fn answer(run: &RunFolder, line: &[u8]) -> Option<String> {
    let Ok(message) = serde_json::from_slice::<&RawValue>(line) else {
        return Some(text(&refused(NOT_JSON, "the line is not JSON")));
    };
    match serde_json::from_str::<Vec<&RawValue>>(message.get()) {
        Ok(messages) => batch(run, &messages),
        Err(_) => one(run, message).as_ref().map(text),
    }
}

pub(super) fn too_long() -> String {
    let message = format!("a message may have at most {TOOL_MESSAGE_BYTES} bytes");
    text(&refused(NOT_A_REQUEST, message))
}

fn text(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("answers are plain data")
}

fn batch(run: &RunFolder, messages: &[&RawValue]) -> Option<String> {
    if messages.is_empty() || messages.len() > TOOL_BATCH {
        let message = format!("a batch has 1 to {TOOL_BATCH} messages");
        return Some(text(&refused(NOT_A_REQUEST, message)));
    }
    let answers: Vec<Answer> = messages.iter().filter_map(|message| one(run, message)).collect();
    (!answers.is_empty()).then(|| text(&answers))
}

fn one(run: &RunFolder, message: &RawValue) -> Option<Answer> {
    let Message { jsonrpc, id, method, params, result, error } = members(message);
    let is_answer = result.is_some() || error.is_some();
    let version = jsonrpc.and_then(Given::fitting);
    match (method.and_then(Given::fitting), id) {
        // This server sends no requests, so an answer can only be a mistake, and answering it would
        // be another.
        (None, Some(_)) if is_answer => None,
        _ if version.as_deref() != Some("2.0") => {
            Some(refused(NOT_A_REQUEST, "`jsonrpc` must be \"2.0\""))
        }
        (None, _) => Some(refused(NOT_A_REQUEST, "`method` is missing")),
        (Some(_), None) => None,
        (Some(method), Some(Given::Fits(id))) => Some(match request(run, &method, params) {
            Ok(result) => Answer { result: Some(result), ..Answer::to(Some(id)) },
            Err(refusal) => Answer { error: Some(refusal), ..Answer::to(Some(id)) },
        }),
        (Some(_), Some(Given::Wrong(_))) => {
            Some(refused(NOT_A_REQUEST, "`id` must be a string or a number"))
        }
    }
}

fn request(
    run: &RunFolder,
    method: &str,
    params: Option<&RawValue>,
) -> Result<MethodResult, Refusal> {
    match method {
        "initialize" => Ok(initialize(params.map(members).unwrap_or_default())),
        "ping" => Ok(MethodResult::Ping {}),
        "tools/list" => Ok(MethodResult::List { tools: tools::list() }),
        "tools/call" => {
            tools::call(run, params.map(members).unwrap_or_default()).map(MethodResult::Call)
        }
        _ => Err(Refusal::new(NO_SUCH_METHOD, format!("there is no method `{method}`"))),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InitializeParams {
    protocol_version: Option<Given<String>>,
}

/// The client's version if it is supported, else the newest: the client decides whether to
/// continue.
fn initialize(params: InitializeParams) -> MethodResult {
    let asked = params.protocol_version.and_then(Given::fitting);
    let version = VERSIONS.into_iter().find(|known| asked.as_deref() == Some(known));
    MethodResult::Initialize {
        capabilities: [("tools", BTreeMap::new())].into(),
        instructions: INSTRUCTIONS,
        protocol_version: version.unwrap_or(VERSIONS[0]),
        server_info: [("name", "banksman"), ("version", env!("CARGO_PKG_VERSION"))].into(),
    }
}

impl Answer {
    fn to(id: Option<Id>) -> Self {
        Self { error: None, id, jsonrpc: "2.0", result: None }
    }
}

fn refused(code: i64, message: impl Into<String>) -> Answer {
    Answer { error: Some(Refusal::new(code, message)), ..Answer::to(None) }
}
