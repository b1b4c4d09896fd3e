//! The agents' command lines: how each is started and resumed, and what its event stream means.
//!
//! One file for each agent. An adapter only translates: it starts no process, touches no file and
//! knows nothing of tasks or of the store. A run is a success only by the agent's own terminal
//! event, never by its exit code alone.

mod acp;
pub mod acp_client;
mod acts;
mod claude;
mod codex;
mod command;
mod gemini;
mod opencode;
mod provider;
pub mod schema;
mod text;
mod words;

use std::collections::BTreeMap;

use banksman_core::lifecycle::Outcome;
use banksman_core::policy::{Action, PolicyGuard};
use banksman_core::receipt::{AgentReport, FaultKind, ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use acts::changes;

/// The closed set of agents that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    Claude,
    Codex,
    Opencode,
    Gemini,
    Acp,
    Command,
}

impl AgentKind {
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Opencode, Self::Gemini, Self::Acp, Self::Command];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Acp => "acp",
            Self::Command => "command",
        }
    }
}

/// How the agent of a worker is set up; the same for all its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSetup {
    pub kind: AgentKind,
    /// The program and what always comes after it; the adapter's own flags follow.
    pub command: Vec<String>,
    pub model: Option<String>,
    /// Variables that the agent gets beside the allowed ones of our own environment.
    pub env: BTreeMap<String, String>,
    /// Variables of our own environment that this agent gets and nothing else does, such as the
    /// key of its provider. Only their names are written down.
    #[serde(default)]
    pub pass: Vec<String>,
}

/// What a run asks of its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRequest {
    pub prompt: String,
    /// The session to go on with.
    pub session: Option<String>,
    /// The shape that the final answer must have.
    pub schema: Option<Value>,
    pub mcp: Option<McpServer>,
    /// What this run may still spend, for agents that can watch it themselves.
    pub cost_micros: Option<i64>,
    /// What it has to ask for first; none where nobody watches.
    #[serde(default)]
    pub guard: Option<Box<PolicyGuard>>,
}

/// How an agent is begun in front of a person, its prompt to be added as the last word; none for
/// one that has no such face.
#[must_use]
pub fn interactive(setup: &AgentSetup) -> Option<Vec<String>> {
    let flags: &[&str] = match setup.kind {
        AgentKind::Claude | AgentKind::Codex => &[],
        AgentKind::Gemini => &["--prompt-interactive"],
        AgentKind::Opencode => &["--prompt"],
        AgentKind::Acp | AgentKind::Command => return None,
    };
    let (program, mut words) = program(setup, setup.kind.as_str());
    words.insert(0, program);
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Some(words)
}

/// A server of tools that the agent starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// Stands for the file of our own program in [`Launch::program`]; an adapter does not know where
/// that is.
pub const OURSELVES: &str = "{banksman}";

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Launch {
    /// [`OURSELVES`] where a part of our own program speaks with the agent.
    pub program: String,
    pub args: Vec<String>,
    /// Beside the scrubbed environment that every agent gets.
    pub env: BTreeMap<String, String>,
    /// What is written to its standard input, which is closed after it.
    pub stdin: Option<String>,
    /// Files to be written into the run's folder first, by name; `{folder}` in `args` and `env`
    /// stands for that folder.
    pub files: Vec<(String, String)>,
}

/// What a line of the stream meant, for people who watch and for the limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
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
        #[serde(skip)]
        call: ToolCall,
    },
    ToolResult {
        ok: bool,
        detail: String,
        /// Of the call that it is the result of; empty where the agent does not say.
        #[serde(skip)]
        id: String,
    },
    /// Something of the agent itself: a retry, a warning.
    Note {
        text: String,
    },
    /// Tokens and money of this run so far.
    Spent {
        input_tokens: i64,
        output_tokens: i64,
        cost_micros: Option<i64>,
    },
    /// The agent will not get any further by itself and should be ended, such as one that retries a
    /// refused key.
    Hopeless {
        reason: String,
    },
    Ended {
        ok: bool,
        text: String,
    },
}

/// One call of a tool, beyond what is shown of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCall {
    /// By which its result names it; empty where the agent gives none.
    pub id: String,
    pub acts: Vec<Action>,
}

/// Reads the lines of one run. Bounded: what it keeps does not grow with the stream.
pub trait StreamReader {
    /// One line of standard output, without its end.
    fn line(&mut self, line: &str, seen: &mut Vec<AgentEvent>);
    /// One line of standard error.
    fn error_line(&mut self, line: &str, seen: &mut Vec<AgentEvent>);
    /// What it all came to.
    fn finish(self: Box<Self>, exit: ProcessExit, now: Instant) -> StreamSummary;
}

/// How the agent is started for what is asked.
#[must_use]
pub fn launch(setup: &AgentSetup, ask: &AgentRequest) -> Launch {
    match setup.kind {
        AgentKind::Claude => claude::launch(setup, ask),
        AgentKind::Codex => codex::launch(setup, ask),
        AgentKind::Opencode => opencode::launch(setup, ask),
        AgentKind::Gemini => gemini::launch(setup, ask),
        AgentKind::Acp => acp::launch(setup, ask),
        AgentKind::Command => command::launch(setup, ask),
    }
}

/// A reader for one run. `before` is what the session had used up when the run began, for agents
/// that go on counting.
#[must_use]
pub fn reader(kind: AgentKind, before: PriorUsage) -> Box<dyn StreamReader> {
    match kind {
        AgentKind::Claude => Box::new(claude::Stream::new(before)),
        AgentKind::Codex => Box::new(codex::Stream::new(before)),
        AgentKind::Opencode => Box::new(opencode::Stream::default()),
        AgentKind::Gemini => Box::new(gemini::Stream::default()),
        AgentKind::Acp => Box::new(acp::Stream::default()),
        AgentKind::Command => Box::new(command::Stream::default()),
    }
}

/// How a run ended by its stream and its exit alone, without a look at the work. A fault that was
/// named says more than the exit does; a success needs both the agent's own word and a good exit.
#[must_use]
pub fn outcome_of(reading: &StreamSummary, exit: ProcessExit) -> Outcome {
    if let Some(fault) = &reading.fault {
        return match fault.kind {
            FaultKind::Quota => Outcome::Quota,
            FaultKind::Auth => Outcome::Auth,
            FaultKind::Transient if text::says_idle(&fault.detail) => Outcome::Stalled,
            // A new session is all that it takes to try again.
            FaultKind::Transient | FaultKind::Session => Outcome::Transient,
            FaultKind::Budget => Outcome::OverBudget,
            FaultKind::Permission => Outcome::Policy,
            FaultKind::Setup => Outcome::Crashed,
        };
    }
    let told = |wanted: fn(&AgentReport) -> bool| reading.reports.iter().any(wanted);
    if told(|it| matches!(it, AgentReport::NeedsPerson { .. })) {
        return Outcome::NeedsPerson;
    }
    match (reading.terminal, exit.code) {
        (Some(Terminal::Success), Some(0)) => {
            let is_nothing = told(|it| matches!(it, AgentReport::NothingToDo { .. }));
            if is_nothing { Outcome::NothingToDo } else { Outcome::Succeeded }
        }
        (Some(Terminal::Success | Terminal::Error) | None, _) => Outcome::Crashed,
    }
}

/// The program of a worker and what always comes after it.
fn program(setup: &AgentSetup, default: &str) -> (String, Vec<String>) {
    match setup.command.split_first() {
        Some((program, args)) => (program.clone(), args.to_vec()),
        None => (default.to_owned(), Vec::new()),
    }
}

/// What a resumed session had used up before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PriorUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_micros: i64,
}
