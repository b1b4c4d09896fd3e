//! Workflows: a YAML file of steps and gates becomes a [`Workflow`], in which everything is
//! resolved and nothing is left to guess.
//!
//! `source` reads the file with its places, `expand` puts in parameters, matrices and other files,
//! `check` resolves the names and reports what is wrong by line, `lint` what is doubtful. Nothing
//! here starts anything: a flow's steps become tasks elsewhere.

pub mod assignment;
mod check;
mod criterion;
mod expand;
mod gates;
pub mod graph;
mod links;
mod lint;
mod order;
mod params;
mod paths;
mod reader;
#[cfg(test)]
mod samples;
pub mod simulate;
mod source;
mod steps;
mod template;
use std::cell::Cell;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lifecycle::problem::Problems;
use crate::time::Span;

use links::Links;

pub use lint::{lint, unsaid};
pub use paths::file_name;

/// Where a gate leads that has nothing behind it.
pub const DONE: &str = "DONE";
/// Where a failed gate leads that gives the workflow up.
pub const ABORT: &str = "ABORT";
/// Failures of a gate before a person is asked, where the file does not say.
pub const MAX_RETRIES: u32 = 3;

/// Reads a workflow. `origin` is the name of the file in messages, `params` what the user gives,
/// where every value may be a text; `include` reads another file by its path from the folder of
/// this one, also for files that are included by included ones.
///
/// The accepted flow keeps these promises: no step waits for itself through others; a way back
/// leads to the step itself or to one that it waits for; every id, signal and place for feedback
/// belongs to one step.
///
/// # Errors
///
/// All that is wrong with the file, or with the first included file that is wrong.
pub fn load(
    text: &str,
    origin: &str,
    params: &BTreeMap<String, Value>,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Workflow, Problems> {
    let (folder, name) = origin.rfind('/').map_or(("", origin), |at| origin.split_at(at + 1));
    let loading = expand::Loading { include, included: Cell::new(0), folder };
    let file = expand::File { text, origin, inside: &[name.to_owned()] };
    expand::unit(&file, params, &loading).map(|unit| unit.flow)
}

/// What a file says of itself before anything is put in. A text that cannot be read says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkflowOutline {
    /// The names of its parameters.
    pub params: Vec<String>,
    /// A value that fits for each of them that has none by itself.
    pub stand_ins: BTreeMap<String, Value>,
    /// The files that it includes, by their paths from its folder.
    pub uses: Vec<String>,
}

#[must_use]
pub fn outline(text: &str) -> WorkflowOutline {
    let Ok(source) = source::read(text) else { return WorkflowOutline::default() };
    WorkflowOutline {
        stand_ins: params::stand_ins(&source.workflow.params),
        params: source.workflow.params.0.into_iter().map(|(name, _)| name.value).collect(),
        uses: source
            .steps
            .into_iter()
            .filter_map(|step| step.uses)
            .map(|name| name.value)
            .collect(),
    }
}

/// A workflow as it is run: parameters are filled in, matrices are spelled out, other files are
/// included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub id: String,
    pub name: String,
    pub about: String,
    /// Files that every agent of the workflow reads.
    pub context_files: Vec<String>,
    /// Steps that may run at the same time; none leaves it to the configuration.
    pub parallel: Option<u32>,
    /// Whether the work goes into the base branch when every step has passed.
    pub merge: bool,
    pub breaker: Breaker,
    pub params: BTreeMap<String, Value>,
    /// In the order of the file.
    pub steps: Vec<Step>,
}

/// What stops the workflow as a whole and asks a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Breaker {
    /// Failed gates of all steps together.
    pub failures: Option<u32>,
    /// Since the start.
    pub time: Option<Span>,
    pub cost_micros: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As the file says: `X-1`; `build[linux,2]` of a matrix; `release/X-1` of an included file.
    pub id: String,
    pub name: String,
    /// The agent's type: whose part it plays.
    pub role: String,
    /// The one worker that may take it, where the file names one.
    pub worker: Option<String>,
    pub launch: LaunchMode,
    /// Steps that name the same worktree share it and its branch, one at a time.
    pub worktree: Option<String>,
    /// More that this step's agent is told.
    pub prompt: String,
    /// Files that the agent reads beside the inputs.
    pub context: Vec<String>,
    /// Files and globs.
    pub inputs: Vec<String>,
    /// Files and globs; each must be there when the step has ended.
    pub outputs: Vec<String>,
    pub criterion: Option<Criterion>,
    pub signal: Signal,
    /// What must have passed first, by the file's `needs` and by the gates that lead here.
    pub needs: Vec<Need>,
    /// None for a step that passes as soon as it has signalled.
    pub gate: Option<Gate>,
    /// The longest that one attempt may take.
    pub timeout: Option<Span>,
    /// Line of its id in the file.
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// A step of the same workflow, by its id.
    Step(String),
    /// A step of another workflow of the same project, or all that a name stands for there: see
    /// [`means`].
    Elsewhere { workflow: String, step: String },
}

/// Whether a name in `needs` means the step `id` of another workflow: its own name, that of the
/// matrix that it was made by, or that of the file that it was included with. To wait for all steps
/// of a file is to wait for its last ones.
#[must_use]
pub fn means(name: &str, id: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '/']))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchMode {
    /// A worker takes it.
    Headless,
    /// A person, or an agent in front of one, takes it and signals.
    Interactive,
    /// The agent that drives the workflow gives it to an agent of its own; where none drives it, a
    /// worker takes it.
    Subagent,
}

/// How it is known that a step has done what it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Exits with 0.
    Command(String),
    /// Is there and not empty.
    File(String),
    /// An agent judges it.
    Judged(String),
}

/// How a step says that it is finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Signal {
    /// A JSON file, by its path from the root of the repository.
    SentinelFile { path: String },
    /// A commit whose message holds this mark.
    GitCommit { mark: String },
    /// A pull request for the step's branch.
    PrCreation,
    /// The agent's own successful end.
    StdoutExit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    pub id: String,
    pub name: String,
    pub level: EscalationLevel,
    /// The types of the agents that decide, at the levels where agents do: at least one, none
    /// twice.
    pub reviewers: Vec<String>,
    /// Where a failure leads. The last has no reason and takes all that no other one takes.
    pub on_fail: Vec<RetryRoute>,
    pub max_retries: u32,
    /// How long people can say no before the next step begins; none leaves it to the lifecycle.
    pub veto_window: Option<Span>,
    /// How long a verdict may take; none leaves it to the lifecycle.
    pub timeout: Option<Span>,
    pub line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationLevel {
    /// Agents decide.
    Auto,
    /// Agents decide, and people are told and may say no.
    Notify,
    Human,
}

impl EscalationLevel {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Notify => "notify",
            Self::Human => "human",
        }
    }
}

/// One way back from a failed gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRoute {
    /// The reviewer's reason that leads here.
    pub reason: Option<String>,
    /// The id of a step of the same workflow; none gives the workflow up.
    pub to: Option<String>,
    /// Where the feedback is written; `{n}` is the number of the failure.
    pub retry_context_path: String,
}

impl Workflow {
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// The steps that need a step, directly.
    pub fn after<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Step> {
        self.steps.iter().filter(move |step| step.follows(id))
    }

    /// A step and all that need it, directly or not, in the order of the file: what going back to
    /// it resets.
    #[must_use]
    pub fn downstream(&self, id: &str) -> Vec<&Step> {
        let links = Links::new(self);
        let Some(place) = links.place(id) else { return Vec::new() };
        let reached = links.downstream(place);
        self.steps
            .iter()
            .zip(reached)
            .filter(|(_, is_reached)| *is_reached)
            .map(|(step, _)| step)
            .collect()
    }
}

impl Step {
    /// Whether it needs another one of the same workflow, directly.
    #[must_use]
    pub fn follows(&self, id: &str) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::Step(needed) if needed == id))
    }
}

impl Gate {
    /// The agents that decide; none where a person does.
    #[must_use]
    pub fn deciders(&self) -> &[String] {
        match self.level {
            EscalationLevel::Auto | EscalationLevel::Notify => &self.reviewers,
            EscalationLevel::Human => &[],
        }
    }

    /// The reasons that have a way back of their own.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.on_fail.iter().filter_map(|back| back.reason.as_deref())
    }

    /// The way back for a reviewer's reason.
    #[must_use]
    pub fn way_back(&self, reason: Option<&str>) -> Option<&RetryRoute> {
        let named = self
            .on_fail
            .iter()
            .find(|back| back.reason.is_some() && back.reason.as_deref() == reason);
        named.or_else(|| self.on_fail.iter().find(|back| back.reason.is_none()))
    }
}
