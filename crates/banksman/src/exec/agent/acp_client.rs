//! A client of the Agent Client Protocol, version 1: one agent, one session, one prompt.
//!
//! It runs as a process of its own, `banksman acp-client -- PROGRAM ARGS…`, reads its
//! [`AcpRequest`] from standard input and prints every message to standard output. The keeper
//! therefore handles an ACP agent like any other program with an event stream.
//!
//! The client allows each tool call that the policy allows once and never permanently, so that no
//! agent stores a grant in the worktree. It offers no terminals, and offers files only on request:
//! an agent that runs in the worktree reads and writes better by itself.

mod files;
mod link;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use banksman_core::policy::PolicyGuard;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::text::{self, text_of};
use super::{AgentRequest, McpServer, actions};
use files::Files;
use link::{AgentProcess, Received};

/// The hidden subcommand.
pub(super) const COMMAND: &str = "acp-client";
const VERSION: i64 = 1;
/// The limit for one message. The largest messages carry files that an agent reads or writes
/// through the client.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Error codes of JSON-RPC and of the protocol.
const NO_SUCH_METHOD: i64 = -32_601;
const WRONG_PARAMS: i64 = -32_602;
const INTERNAL: i64 = -32_603;
const NOT_FOUND: i64 = -32_002;

/// What the agent is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcpRequest {
    pub model: Option<String>,
    /// Its guard answers permission requests; without one the client allows everything.
    #[serde(flatten)]
    pub ask: AgentRequest,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no agent program given; write it after `acp-client --`")]
    NoProgram,
    #[error("failed to {operation}")]
    Io {
        operation: String,
        #[source]
        source: io::Error,
    },
    #[error("a message from the agent is longer than {MESSAGE_BYTES} bytes")]
    TooLong,
    #[error("the agent exited before it answered `{0}`")]
    Gone(&'static str),
    #[error("the agent speaks version {0} of the protocol, not {VERSION}")]
    Version(i64),
    #[error("the agent refused `{method}`: {message}")]
    Refused { method: &'static str, message: String },
    #[error("the agent opened a session without an id")]
    NoSession,
    #[error("interrupted by a signal")]
    Interrupted,
}

fn failed(operation: &str) -> impl FnOnce(io::Error) -> ClientError + use<'_> {
    move |source| ClientError::Io { operation: operation.to_owned(), source }
}

/// Runs the client if these are its arguments: `acp-client [--files] -- PROGRAM ARGS…`. Only
/// keepers start it, and read what it prints line by line.
pub fn run_if_named(args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.skip(1).peekable();
    args.next_if(|name| name == COMMAND)?;
    let files = args.next_if(|option| option == "--files").is_some();
    args.next_if(|end| end == "--");
    let command: Vec<String> = args.map(|word| word.to_string_lossy().into_owned()).collect();
    let ended = env::current_dir().map_err(failed("find the current folder")).and_then(|folder| {
        run(&command, files, &folder, io::stdin().lock(), &mut io::stdout().lock())
    });
    let error = match ended {
        Ok(true) => return Some(ExitCode::SUCCESS),
        Ok(false) => return Some(ExitCode::FAILURE),
        Err(error) => error,
    };
    let cause = error.source().map(|cause| format!(": {cause}"));
    eprintln!("error: {error}{}", cause.unwrap_or_default());
    Some(ExitCode::FAILURE)
}

/// Reads the request from `input`, runs the agent in `folder` and ends it. Returns whether the
/// agent ended its turn by itself.
fn run(
    command: &[String],
    files: bool,
    folder: &Path,
    input: impl io::Read,
    log: &mut dyn Write,
) -> Result<bool, ClientError> {
    let request: AcpRequest = io::read_to_string(input.take(MESSAGE_BYTES as u64))
        .and_then(|text| serde_json::from_str(&text).map_err(io::Error::from))
        .map_err(failed("read the request from standard input"))?;
    let link = AgentProcess::start(command, folder)?;
    let guard = request.ask.guard.as_deref();
    let (offers_files, files) = (files, Files::new(folder));
    let mut client = Client { link, log, files, offers_files, sent: 0, guard };
    let outcome = client.run_prompt(&request, folder);
    client.link.end(matches!(outcome, Err(ClientError::Interrupted)));
    outcome
}

struct Client<'l> {
    link: AgentProcess,
    log: &'l mut dyn Write,
    files: Files,
    offers_files: bool,
    /// Requests sent so far; ids count up from 1.
    sent: i64,
    guard: Option<&'l PolicyGuard>,
}

impl Client<'_> {
    fn run_prompt(&mut self, request: &AcpRequest, folder: &Path) -> Result<bool, ClientError> {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": self.offers_files, "writeTextFile": self.offers_files },
                "terminal": false,
            },
            "clientInfo": { "name": "banksman", "version": env!("CARGO_PKG_VERSION") },
        });
        let agent = self.ask("initialize", &params)?;
        match agent["protocolVersion"].as_i64() {
            Some(VERSION) => {}
            other => return Err(ClientError::Version(other.unwrap_or_default())),
        }
        let session = self.open(request, &agent["agentCapabilities"], folder)?;
        let prompt = json!([{ "type": "text", "text": request.ask.prompt }]);
        let end = self.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }))?;
        Ok(text_of(&end, "stopReason") == "end_turn")
    }

    /// Opens a new session or resumes the given one. If the agent's capabilities rule out resuming,
    /// the client still sends the plain request: the log then holds the refusal, and the next run
    /// starts a new session.
    fn open(
        &mut self,
        request: &AcpRequest,
        capabilities: &Value,
        folder: &Path,
    ) -> Result<String, ClientError> {
        let servers: Vec<Value> = request.ask.mcp.iter().map(server).collect();
        let mut params = json!({ "cwd": folder, "mcpServers": servers });
        let (session, opened) = match &request.ask.session {
            None => {
                let opened = self.ask("session/new", &params)?;
                (opened["sessionId"].as_str().unwrap_or_default().to_owned(), opened)
            }
            Some(session) => {
                params["sessionId"] = json!(session);
                // `resume` does not replay the whole history into the log; `load` does.
                let method = if capabilities["sessionCapabilities"]["resume"].is_object() {
                    "session/resume"
                } else {
                    "session/load"
                };
                (session.clone(), self.ask(method, &params)?)
            }
        };
        if session.is_empty() {
            return Err(ClientError::NoSession);
        }
        if let Some(model) = &request.model {
            self.set_model(&session, model, &opened)?;
        }
        Ok(session)
    }

    /// Selects the model in whichever of the two ways the agent offers.
    fn set_model(&mut self, session: &str, model: &str, opened: &Value) -> Result<(), ClientError> {
        let option = opened["configOptions"].as_array().into_iter().flatten();
        let is_option = option.into_iter().any(|option| text_of(option, "id") == "model");
        let (method, params) = if is_option {
            let params = json!({ "sessionId": session, "configId": "model", "value": model });
            ("session/set_config_option", params)
        } else {
            ("session/set_model", json!({ "sessionId": session, "modelId": model }))
        };
        self.ask(method, &params).map(drop)
    }

    /// Sends a request and serves the agent until the agent answers.
    fn ask(&mut self, method: &'static str, params: &Value) -> Result<Value, ClientError> {
        self.sent += 1;
        let id = json!(self.sent);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let line = match self.link.receive()? {
                Received::Line(line) => line,
                Received::Closed => return Err(ClientError::Gone(method)),
                Received::Interrupted => return Err(ClientError::Interrupted),
            };
            // Programs also print banners and warnings; only JSON objects are messages.
            let Some(message) = text::object(&line) else { continue };
            self.print('<', &line)?;
            if message["method"].is_string() {
                self.serve(&message)?;
            } else if message["id"] == id {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => {
                        let message = text::one_line(text_of(error, "message"));
                        Err(ClientError::Refused { method, message })
                    }
                };
            }
        }
    }

    /// Answers a request from the agent. Notifications need no answer.
    fn serve(&mut self, message: &Value) -> Result<(), ClientError> {
        let id = &message["id"];
        if id.is_null() {
            return Ok(());
        }
        let params = &message["params"];
        let answer = match text_of(message, "method") {
            "session/request_permission" => Ok(permission(params, self.guard)),
            "fs/read_text_file" if self.offers_files => self.files.read(params),
            "fs/write_text_file" if self.offers_files => self.files.write(params),
            method => Err((NO_SUCH_METHOD, format!("this client does not support `{method}`"))),
        };
        self.send(&match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
            }
        })
    }

    fn send(&mut self, message: &Value) -> Result<(), ClientError> {
        let line = message.to_string();
        self.print('>', &line)?;
        self.link.send(&line);
        Ok(())
    }

    fn print(&mut self, direction: char, line: &str) -> Result<(), ClientError> {
        writeln!(self.log, "{direction} {line}")
            .and_then(|()| self.log.flush())
            .map_err(failed("write to standard output"))
    }
}

fn server(mcp: &McpServer) -> Value {
    let env: Vec<Value> =
        mcp.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "name": mcp.name, "command": mcp.command, "args": mcp.args, "env": env })
}

/// Allows a tool once, never permanently: a permanent grant would be stored where the next agent
/// finds it. The client rejects what a person must allow first; the keeper reads the same request
/// and asks a person.
fn permission(params: &Value, guard: Option<&PolicyGuard>) -> Value {
    let options = || params["options"].as_array().into_iter().flatten();
    let actions = actions::of_acp(&params["toolCall"]);
    let needs_permission = guard.is_some_and(|guard| guard.stops(&actions).is_some());
    let kinds: &[&str] =
        if needs_permission { &["reject_once"] } else { &["allow_once", "reject_once"] };
    let chosen =
        kinds.iter().find_map(|kind| options().find(|option| text_of(option, "kind") == *kind));
    let outcome = match chosen {
        Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
        None => json!({ "outcome": "cancelled" }),
    };
    json!({ "outcome": outcome })
}

#[cfg(test)]
mod tests {
    use banksman_core::policy;

    use super::*;

    fn chosen(kinds: &[&str]) -> Value {
        let options: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({ "optionId": format!("id-{kind}"), "kind": kind }))
            .collect();
        permission(&json!({ "options": options }), None)["outcome"].clone()
    }

    #[test]
    fn a_tool_is_allowed_once_and_never_permanently() {
        let selected = |id: &str| json!({ "outcome": "selected", "optionId": id });
        assert_eq!(
            chosen(&["allow_always", "allow_once", "reject_once"]),
            selected("id-allow_once")
        );
        assert_eq!(
            chosen(&["allow_always", "reject_always", "reject_once"]),
            selected("id-reject_once")
        );
        assert_eq!(chosen(&["allow_always"]), json!({ "outcome": "cancelled" }));
        assert_eq!(permission(&json!({ "options": "x" }), None)["outcome"]["outcome"], "cancelled");
    }

    #[test]
    fn a_call_that_needs_permission_is_rejected() {
        let guard = PolicyGuard {
            policy: policy::builtin(),
            rank: policy::Rank::Specialist,
            allowed: Vec::new(),
            root: String::new(),
        };
        let answer = |command: &str| {
            let params = json!({
                "options": [{ "optionId": "y", "kind": "allow_once" }, { "optionId": "n", "kind": "reject_once" }],
                "toolCall": { "kind": "execute", "title": "run it", "rawInput": { "command": command } },
            });
            permission(&params, Some(&guard))["outcome"]["optionId"].clone()
        };
        assert_eq!(answer("cargo test"), "y");
        assert_eq!(answer("git push --force"), "n");
    }
}
