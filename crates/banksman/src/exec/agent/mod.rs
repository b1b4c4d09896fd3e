//! Adapters for agent command lines: how to start and resume each agent, and how to read its event
//! stream.
//!
//! Each agent has one file. An adapter only translates: it starts no process, touches no file and
//! knows nothing of tasks or the store. A run succeeds only by the agent's own terminal event,
//! never by its exit code alone.

mod acp;
pub mod acp_client;
mod actions;
mod claude;
mod codex;
mod command;
mod gemini;
mod last_message;
mod opencode;
mod provider;
pub mod schema;
mod text;

use std::collections::BTreeMap;

use banksman_core::closed::closed;
use banksman_core::lifecycle::Outcome;
use banksman_core::policy::{Action, PolicyGuard};
use banksman_core::receipt::{AgentReport, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use actions::can_change;
pub use text::StderrTail;

/// What Banksman needs to know about an agent. Each agent's file has one, and `adapters!` lists
/// them.
pub struct Adapter {
    /// The agent's own program. Where it is found, it becomes a worker if none is configured.
    pub program: Option<&'static str>,
    /// Builds the command line for one request.
    launch: fn(&AgentSetup, &AgentRequest) -> Launch,
    /// A reader for one run. The argument is what the session had used when the run began, for
    /// agents that count per session.
    reader: fn(AgentUsage) -> Box<dyn StreamReader>,
    /// The flags that start the agent in a person's terminal; none without an interactive mode.
    interactive: Option<&'static [&'static str]>,
    /// The flag that resumes a session in a person's terminal.
    pub resume: Option<&'static str>,
    /// Variables of our environment that the agent gets for its provider.
    pub provider_variables: &'static [&'static str],
}

/// Makes [`AgentKind`] from the table of adapters.
macro_rules! adapters {
    ($($kind:ident = $name:literal: $module:ident,)+) => {
        closed! {
            /// The agents that Banksman has an adapter for.
            pub enum AgentKind {
                $($kind = $name,)+
            }
        }

        impl AgentKind {
            pub fn adapter(self) -> &'static Adapter {
                match self {
                    $(Self::$kind => &$module::ADAPTER,)+
                }
            }
        }
    };
}

adapters! {
    Claude = "claude": claude,
    Codex = "codex": codex,
    Gemini = "gemini": gemini,
    Opencode = "opencode": opencode,
    Acp = "acp": acp,
    Command = "command": command,
}

/// The agent of a worker; the same for all its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSetup {
    pub kind: AgentKind,
    /// The program and its fixed arguments; the adapter's flags follow.
    pub command: Vec<String>,
    pub model: Option<String>,
    /// Variables that the agent gets in addition to the allowed ones of our environment.
    pub env: BTreeMap<String, String>,
    /// Variables of our environment that only this agent gets, such as its provider's key.
    /// Banksman stores only their names.
    #[serde(default)]
    pub pass: Vec<String>,
}

/// What a run asks of its agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentRequest {
    pub prompt: String,
    /// The session to resume.
    pub session: Option<String>,
    /// The JSON Schema of the final answer.
    pub schema: Option<Value>,
    /// Whether an answer that does not match the schema is read as one that plainly means the same.
    #[serde(default)]
    pub lenient: bool,
    pub mcp: Option<McpServer>,
    /// What this run may still spend, for agents that enforce it themselves.
    pub cost_micros: Option<i64>,
    /// The policy the run obeys; none where no policy applies.
    #[serde(default)]
    pub guard: Option<Box<PolicyGuard>>,
}

/// The command that starts an agent in a person's terminal, to which the caller appends the prompt;
/// none for an agent without an interactive mode.
pub fn interactive(setup: &AgentSetup) -> Option<Vec<String>> {
    let flags = setup.kind.adapter().interactive?;
    let (program, mut words) = program(setup);
    words.insert(0, program);
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Some(words)
}

impl McpServer {
    /// The configuration file that several agents read.
    fn config(&self) -> Value {
        let Self { name, command, args, env } = self;
        json!({ "mcpServers": { name: { "command": command, "args": args, "env": env } } })
    }
}

/// An MCP server that the agent starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// Placeholder in [`Launch::program`] for the path of our own executable, which an adapter does not
/// know.
pub const OWN_PROGRAM: &str = "{banksman}";

/// A program to start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Launch {
    /// [`OWN_PROGRAM`] where a subcommand of Banksman talks to the agent.
    pub program: String,
    pub args: Vec<String>,
    /// In addition to the scrubbed environment that every agent gets.
    pub env: BTreeMap<String, String>,
    /// Written to standard input, which is then closed.
    pub stdin: Option<String>,
    /// Files to write into the run's folder before the start, by name; `{folder}` in `args` and
    /// `env` stands for that folder.
    pub files: Vec<(String, String)>,
}

/// The meaning of a line of the stream, for people who watch and for the limits.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    Session {
        id: String,
    },
    Text {
        text: String,
    },
    Tool {
        name: String,
        detail: String,
        /// The id that its result refers to; empty where the agent gives none.
        id: String,
        actions: Vec<Action>,
    },
    ToolResult {
        ok: bool,
        detail: String,
        /// The id of the call; empty where the agent reports none.
        id: String,
    },
    /// A message from the agent program: a retry, a warning.
    Note {
        text: String,
    },
    /// Tokens and money that this run has used so far.
    Spent(AgentUsage),
    /// The agent cannot continue by itself and should be ended, for example because it retries a
    /// refused key.
    Hopeless {
        reason: String,
    },
    Ended {
        ok: bool,
        text: String,
    },
}

/// Reads the lines of one run. What it keeps does not grow with the stream.
pub trait StreamReader {
    /// Reads one line of standard output, without its line ending.
    fn line(&mut self, line: &str, events: &mut Vec<AgentEvent>);
    /// Reads one line of standard error.
    fn error_line(&mut self, line: &str, events: &mut Vec<AgentEvent>);
    /// Summarises the stream.
    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary;
}

/// The program that runs this agent on this request.
pub fn launch(setup: &AgentSetup, request: &AgentRequest) -> Launch {
    (setup.kind.adapter().launch)(setup, request)
}

/// A reader for one run. `before` is what the session had used when the run began, for agents that
/// count per session.
pub fn reader(kind: AgentKind, before: AgentUsage) -> Box<dyn StreamReader> {
    (kind.adapter().reader)(before)
}

/// The outcome of a run by its stream and exit code alone, without looking at the work. A named
/// fault says more than the exit code; a success needs the agent's terminal event and exit code 0.
pub fn outcome_of(summary: &StreamSummary, exit: ProcessExit) -> Outcome {
    if let Some(fault) = &summary.fault {
        return match fault.kind {
            FaultKind::Quota => Outcome::Quota,
            FaultKind::Auth => Outcome::Auth,
            FaultKind::Transient if text::is_idle_timeout(&fault.detail) => Outcome::Stalled,
            // A new session is enough to try again.
            FaultKind::Transient | FaultKind::Session => Outcome::Transient,
            FaultKind::Budget => Outcome::OverBudget,
            FaultKind::Permission => Outcome::Policy,
            FaultKind::Setup => Outcome::Crashed,
        };
    }
    let reported = |wanted: fn(&AgentReport) -> bool| summary.reports.iter().any(wanted);
    if reported(|it| matches!(it, AgentReport::NeedsPerson { .. })) {
        return Outcome::NeedsPerson;
    }
    match (summary.terminal, exit.code) {
        (Some(Terminal::Success), Some(0)) => {
            let is_nothing = reported(|it| matches!(it, AgentReport::NothingToDo { .. }));
            if is_nothing { Outcome::NothingToDo } else { Outcome::Succeeded }
        }
        (Some(Terminal::Success | Terminal::Error) | None, _) => Outcome::Crashed,
    }
}

/// A worker's program and its fixed arguments.
fn program(setup: &AgentSetup) -> (String, Vec<String>) {
    match setup.command.split_first() {
        Some((program, args)) => (program.clone(), args.to_vec()),
        None => (setup.kind.adapter().program.unwrap_or("true").to_owned(), Vec::new()),
    }
}

/// Appends the options that have a value.
fn add_options<const N: usize>(args: &mut Vec<String>, options: [(&str, &Option<String>); N]) {
    for (name, value) in options {
        args.extend(value.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
}

/// Records the session and reports it, unless it is known.
fn set_session(summary: &mut StreamSummary, id: &str, events: &mut Vec<AgentEvent>) {
    let id = text::one_line(id);
    if !id.is_empty() && summary.session.as_ref() != Some(&id) {
        summary.session = Some(id.clone());
        events.push(AgentEvent::Session { id });
    }
}

/// Sets when a used-up quota is available again: at a time that the agent named, or at one in the
/// text of the fault.
fn set_reset(summary: &mut StreamSummary, named: Option<Instant>, now: Instant) {
    if let Some(fault) = summary.fault.as_ref().filter(|fault| fault.kind == FaultKind::Quota) {
        summary.resets_at = named.or_else(|| text::resets_in(&fault.detail, now));
    }
}

/// Tokens and money, of a run or of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_micros: Option<i64>,
}

impl AgentUsage {
    pub fn of(summary: &StreamSummary) -> Self {
        let StreamSummary { input_tokens, output_tokens, cost_micros, .. } = *summary;
        Self { input_tokens, output_tokens, cost_micros }
    }

    fn write_to(self, summary: &mut StreamSummary) {
        summary.input_tokens = self.input_tokens;
        summary.output_tokens = self.output_tokens;
        summary.cost_micros = self.cost_micros;
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: match (self.cost_micros, other.cost_micros) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            },
        }
    }
}
