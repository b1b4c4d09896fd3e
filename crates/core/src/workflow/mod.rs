//! Workflows: turns a YAML file of steps and gates into a fully resolved [`Workflow`].
//!
//! `source` parses the file with positions, `expand` fills in parameters, matrices and included
//! files, `check` resolves names and reports errors by line, `lint` reports warnings. Nothing here
//! starts anything: the engine turns steps into tasks.

pub mod assignment;
mod check;
mod criterion;
mod expand;
mod gates;
pub mod graph;
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

use crate::lifecycle::expr::Value;
use crate::lifecycle::problem::Problems;
use crate::time::Span;

use order::StepOrder;

pub use crate::lifecycle::contract::{EscalationLevel, LaunchMode};
pub use lint::{default_warnings, lint};
pub use paths::file_name;

/// The target of a gate without a next step.
pub const DONE: &str = "DONE";
/// The target of a failed gate that aborts the workflow.
pub const ABORT: &str = "ABORT";
/// Failures of a gate before a person is asked, if the file does not say.
pub const MAX_RETRIES: u32 = 3;

/// Loads a workflow. `origin` is the name of the file in messages. `params` are the user's values;
/// each may be a text. `include` reads another file by its path from the folder of this one, also
/// for nested inclusions.
///
/// A loaded workflow has these properties: its dependencies have no cycle; a retry route leads to
/// the step itself or to one that it waits for; every id, signal and feedback path belongs to one
/// step.
///
/// # Errors
///
/// Every problem of the file, or of the first included file with problems.
pub fn load(
    text: &str,
    origin: &str,
    params: &BTreeMap<String, Value>,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Workflow, Problems> {
    let (folder, name) = origin.rfind('/').map_or(("", origin), |at| origin.split_at(at + 1));
    let (inside, included) = ([name.to_owned()], Cell::new(0));
    let file = expand::File { text, origin, inside: &inside, include, included: &included, folder };
    expand::expand(&file, params).map(|unit| unit.flow)
}

/// What a file declares, before anything is filled in. Empty for an unreadable text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkflowOutline {
    /// The names of its parameters.
    pub params: Vec<String>,
    /// A valid value for each parameter without a default.
    pub sample_values: BTreeMap<String, Value>,
    /// The files that it includes, as paths from its folder.
    pub uses: Vec<String>,
}

pub fn outline(text: &str) -> WorkflowOutline {
    let Ok(source) = source::read(text) else { return WorkflowOutline::default() };
    WorkflowOutline {
        sample_values: params::sample_values(&source.workflow.params),
        params: source.workflow.params.0.into_iter().map(|(name, _)| name.value).collect(),
        uses: source.steps.into_iter().filter_map(|step| Some(step.uses?.value)).collect(),
    }
}

/// A workflow as it runs: parameters are filled in, matrices expanded and other files included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub id: String,
    pub name: String,
    pub about: String,
    /// Files that every agent of the workflow reads.
    pub context_files: Vec<String>,
    /// How many steps may run at the same time; none leaves it to the configuration.
    pub parallel: Option<u32>,
    /// Whether the work is merged into the base branch when every step has passed.
    pub merge: bool,
    pub breaker: Breaker,
    pub params: BTreeMap<String, Value>,
    /// In the order of the file.
    pub steps: Vec<Step>,
}

/// The circuit breaker: limits that stop the whole workflow and ask a person.
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
    /// As in the file: `X-1`; `build[linux,2]` of a matrix; `release/X-1` of an included file.
    pub id: String,
    pub name: String,
    /// The agent type, which is the role that the agent plays.
    pub role: String,
    /// The only worker that may take it, if the file names one.
    pub worker: Option<String>,
    pub launch: LaunchMode,
    /// Steps with the same worktree share it and its branch, one at a time.
    pub worktree: Option<String>,
    /// The command that does the step instead of an agent; its exit code says whether it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Further instructions for this step's agent.
    pub prompt: String,
    /// Files that the agent reads besides the inputs.
    pub context: Vec<String>,
    /// Files and globs.
    pub inputs: Vec<String>,
    /// Files and globs; each must match when the step ends.
    pub outputs: Vec<String>,
    pub criterion: Option<Criterion>,
    pub signal: Signal,
    /// What must have passed first, from `needs` and from the gates that lead here.
    pub needs: Vec<Need>,
    /// None for a step that passes as soon as it has signalled.
    pub gate: Option<Gate>,
    /// The time limit of one attempt.
    pub timeout: Option<Span>,
    /// The folder of its run inside each folder of the mailbox, while another run of the workflow
    /// uses the folders themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The line of its id in the file.
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// A step of the same workflow, by id.
    Step(String),
    /// A step of another workflow of the same project, or every step that a name stands for there;
    /// see [`matches_step`].
    Elsewhere { workflow: String, step: String },
}

/// Whether a name in `needs` stands for the step `id` of another workflow: the name is its id, the
/// matrix that it was expanded from, or the step that includes it. Waiting for all steps of a file
/// amounts to waiting for its last ones.
pub fn matches_step(name: &str, id: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '/']))
}

/// How to decide whether a step has done its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// It exits with 0.
    Command(String),
    /// It exists and is not empty.
    File(String),
    /// The evaluator judges it.
    Judged(String),
}

/// How a step reports that it is finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Signal {
    /// A JSON file, by its path from the root of the repository.
    SentinelFile { path: String },
    /// A commit whose message contains this mark.
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
    /// The types of the agents that decide, for levels where agents do: at least one, none twice.
    pub reviewers: Vec<String>,
    /// Where a failure leads. The last route has no reason and takes every failure that no other
    /// route takes.
    pub on_fail: Vec<RetryRoute>,
    pub max_retries: u32,
    /// How long people can veto before the next step starts; none leaves it to the lifecycle.
    pub veto_window: Option<Span>,
    /// The time limit of a verdict; none leaves it to the lifecycle.
    pub timeout: Option<Span>,
    pub line: u32,
}

/// Where a failed gate sends the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRoute {
    /// The reviewer's reason that selects this route.
    pub reason: Option<String>,
    /// The id of a step of the same workflow; none aborts the workflow.
    pub to: Option<String>,
    /// The file for the feedback; `{n}` is the number of the failure.
    pub retry_context_path: String,
}

impl Workflow {
    /// A step and everything that depends on it, directly or not, in the order of the file: what
    /// going back to it resets.
    pub fn downstream(&self, id: &str) -> Vec<&Step> {
        let order = StepOrder::of_steps(&self.steps);
        let Some(number) = order.number(id) else { return Vec::new() };
        let reached = order.downstream(number);
        let steps = self.steps.iter().zip(reached);
        steps.filter_map(|(step, is_reached)| is_reached.then_some(step)).collect()
    }
}

/// The folders of the mailbox in which each run may have one of its own.
const MAILBOX: [&str; 3] = [".workflow/signals/", ".workflow/retry-context/", ".workflow/steps/"];

impl Step {
    /// The step of a run that has a place of its own in the mailbox: its paths there lead to it.
    #[must_use]
    pub fn placed(mut self, place: &str) -> Self {
        let moved = |path: &mut String| {
            let folder = MAILBOX.iter().find(|folder| path.starts_with(**folder));
            if let Some(folder) = folder {
                path.insert_str(folder.len(), &format!("{place}/"));
            }
        };
        let lists = [&mut self.inputs, &mut self.outputs, &mut self.context];
        lists.into_iter().flatten().for_each(moved);
        if let Some(Criterion::File(path)) = &mut self.criterion {
            moved(path);
        }
        if let Signal::SentinelFile { path } = &mut self.signal {
            moved(path);
        }
        let backs = self.gate.iter_mut().flat_map(|gate| &mut gate.on_fail);
        backs.for_each(|back| moved(&mut back.retry_context_path));
        self.place = Some(place.to_owned());
        self
    }
}

impl Gate {
    /// The agents that decide; empty if a person does.
    pub fn deciders(&self) -> &[String] {
        match self.level {
            EscalationLevel::Auto | EscalationLevel::Notify => &self.reviewers,
            EscalationLevel::Human => &[],
        }
    }

    /// The reasons with a route of their own.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.on_fail.iter().filter_map(|back| back.reason.as_deref())
    }

    /// The route for a reviewer's reason.
    pub fn retry_route(&self, reason: Option<&str>) -> Option<&RetryRoute> {
        let route = |reason| self.on_fail.iter().find(|back| back.reason.as_deref() == reason);
        route(reason).or_else(|| route(None))
    }
}
