//! What a keeper is told: one file in the run's folder, written before the keeper starts and never
//! changed.
//!
//! The plan holds everything that the job needs, so that a keeper asks nobody. It holds no secret
//! of the control plane: the store's address travels in the keeper's environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use banksman_core::failure::Deliverable;
use banksman_core::ids::{NotAnId, RunId, TaskId};
use banksman_core::time::Instant;
use banksman_core::workflow::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::{AgentRequest, AgentSetup, PriorUsage};

/// Names a folder of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobId {
    /// A run of an agent under a lease: `r12.2`.
    Run(RunId),
    /// An activity that needs no lease, by the record that asked for it: `a12.7`.
    Activity { task: TaskId, seq: i64 },
    /// The worktree of a task that is over is put away, by the record of its end: `c12.9`.
    CleanUp { task: TaskId, seq: i64 },
    /// A look at the remote for what a step that is done by hand signals with, by the second it was
    /// due: `l12.1767225600`.
    Look { task: TaskId, due: i64 },
}

impl JobId {
    #[must_use]
    pub fn task(self) -> TaskId {
        match self {
            Self::Run(run) => run.task,
            Self::Activity { task, .. } | Self::CleanUp { task, .. } | Self::Look { task, .. } => {
                task
            }
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "{run}"),
            Self::Activity { task, seq } => write!(f, "a{}.{seq}", task.0),
            Self::CleanUp { task, seq } => write!(f, "c{}.{seq}", task.0),
            Self::Look { task, due } => write!(f, "l{}.{due}", task.0),
        }
    }
}

impl FromStr for JobId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let numbers = |rest: &str| format!("r{rest}").parse::<RunId>();
        if let Some(rest) = text.strip_prefix('a') {
            let RunId { task, epoch: seq } = numbers(rest)?;
            return Ok(Self::Activity { task, seq });
        }
        if let Some(rest) = text.strip_prefix('c') {
            let RunId { task, epoch: seq } = numbers(rest)?;
            return Ok(Self::CleanUp { task, seq });
        }
        if let Some(rest) = text.strip_prefix('l') {
            let RunId { task, epoch: due } = numbers(rest)?;
            return Ok(Self::Look { task, due });
        }
        text.parse().map(Self::Run)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// A [`JobId`].
    pub job: String,
    /// The task's id, as people write it.
    pub task: String,
    /// None for a task that belongs to no repository: it works in the run's folder.
    pub workspace: Option<Workspace>,
    pub work: JobWork,
    pub lease: Option<LeaseConfig>,
    pub limits: RunLimits,
    /// What everything that the job starts has in its environment, beside `pass`.
    pub env: BTreeMap<String, String>,
    /// Variables that it gets from the keeper's own environment. Only their names are written
    /// down, because some are secrets.
    pub pass: Vec<String>,
}

impl JobSpec {
    /// None for a job without an agent.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentWork> {
        if let JobWork::Agent(work) = &self.work { Some(work) } else { None }
    }
}

/// The worktree that the job works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The id of the task that it is for, as people write it.
    pub task: String,
    /// The repository that the worktree belongs to.
    pub repo: PathBuf,
    pub worktree: PathBuf,
    pub branch: String,
    /// The branch that the work starts from and goes back to.
    pub base: String,
    /// Where the base is fetched from; none for a repository without one.
    pub remote: Option<String>,
    /// Run in a fresh worktree before anything else.
    pub setup: Option<String>,
    /// Where worktrees that are no longer needed wait for their next use, and where removed ones
    /// go.
    pub spare: PathBuf,
    /// Branches whose work is merged into the task's own before it begins.
    #[serde(default)]
    pub produces: Vec<String>,
    /// Globs of feedback on earlier attempts, from the root of the mailbox. What they match is
    /// copied to the same place in the worktree.
    #[serde(default)]
    pub retry: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobWork {
    Agent(Box<AgentWork>),
    /// Only the verify commands, on the task's head.
    Check {
        checks: Verification,
        /// With it, files that somebody left uncommitted are committed first.
        #[serde(default)]
        message: Option<String>,
        /// Asked whether a criterion in prose is met.
        #[serde(default)]
        judge: Option<Box<StepJudge>>,
    },
    /// Only a look: at files as they lie in a folder that is nobody's worktree, and at what the
    /// commands say there. Nothing is committed, taken away or held.
    Inspect {
        folder: PathBuf,
        checks: Verification,
    },
    /// The task's branch goes into its base, if the checks pass on the result.
    Merge {
        checks: Verification,
        message: String,
        /// With it, this commit alone is merged, and only while the branch has not moved on from
        /// it.
        #[serde(default)]
        commit: Option<String>,
    },
    /// Looks whether the branch, or this commit of it, is in its base, and touches nothing.
    FindMerge {
        commit: Option<String>,
    },
    /// Saves what is only in the worktree under a rescue ref, then takes the worktree away.
    CleanUp,
    /// Looks whether the branch has a pull request, and touches nothing.
    Look,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    pub setup: AgentSetup,
    pub ask: AgentRequest,
    /// What the session to be resumed had used up.
    pub before: PriorUsage,
    /// What to say to an agent that has fallen silent.
    pub nudge: String,
    /// The task's title and body, for the agent's tools.
    pub about: Value,
    /// What the run has to bring.
    pub expects: Deliverable,
    pub checks: Verification,
    /// The message of the commit that is made of files which the agent left uncommitted.
    pub commit_message: String,
    /// Whether the commits of earlier runs count as this one's: they waited for a person's leave,
    /// and it is here.
    #[serde(default)]
    pub counts_earlier: bool,
    /// Asked about an end that the facts leave open.
    pub evaluator: Option<Evaluator>,
}

/// What proves the work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    pub commands: Vec<String>,
    /// Whether they also run where nothing was changed: what is demanded of a step need not be a
    /// change.
    #[serde(default)]
    pub even_unchanged: bool,
    pub timeout_ms: i64,
    /// Globs; empty allows everything.
    pub allowed_paths: Vec<String>,
    /// Globs; these win.
    pub denied_paths: Vec<String>,
    /// Files and globs, from the top of the worktree. Each must match a file when the agent has
    /// ended.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Files and globs that must match a file which is not empty.
    #[serde(default)]
    pub files: Vec<String>,
    /// Prose that the evaluator has to find met.
    #[serde(default)]
    pub criterion: Option<String>,
    /// How the agent has to say that it is finished.
    #[serde(default)]
    pub signal: Option<Signal>,
    /// The root of the repository whose `.workflow/` all steps share.
    #[serde(default)]
    pub mailbox: Option<PathBuf>,
}

/// A cheap second look. `{evidence}` in the prompt stands for the facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluator {
    pub setup: AgentSetup,
    pub prompt: String,
    pub timeout_ms: i64,
}

/// Who judges work that no run has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepJudge {
    pub evaluator: Evaluator,
    /// What whoever did the work said about it.
    pub said: String,
}

/// What is printed instead of an expiry when the lease belongs to the run no more.
pub const LOST: &str = "lost";

/// How the right to work is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseConfig {
    pub expires_at: Instant,
    pub ttl_ms: i64,
    /// What was left of it when the plan was made, by the clock that gave it: the clock of this
    /// machine may be behind. Of a plan that does not say so the lease has to be renewed
    /// first.
    #[serde(default)]
    pub left_ms: i64,
    /// Started to renew it, with `--progressed` if the run has got on: it prints the new expiry in
    /// RFC 3339, or [`LOST`], and exits with 0. Anything else is a fault that may pass.
    pub renew: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    pub wall_ms: i64,
    /// Silence and no use of the processor for this long is a stall.
    pub idle_ms: i64,
    /// Between the request to end and the kill.
    pub grace_ms: i64,
    /// Of standard output and error each; beyond it the oldest half goes.
    pub output_bytes: u64,
    pub tokens: Option<i64>,
    pub cost_micros: Option<i64>,
}
