//! The job spec: one file in the run's folder, written before the keeper starts and never changed.
//!
//! The spec holds everything that the job needs, so a keeper asks nobody. It holds no secret of the
//! control plane: the store's address is in the keeper's environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use banksman_core::failure::Deliverable;
use banksman_core::ids::{NotAnId, RunId, TaskId};
use banksman_core::receipt::{EndCause, TaskText};
use banksman_core::time::Instant;
use banksman_core::workflow::Signal;
use serde::{Deserialize, Serialize};

use super::agent::{AgentRequest, AgentSetup, AgentUsage};

/// The result of a part of a job; an error is a premature end of the whole job.
pub type JobResult<T> = Result<T, EndCause>;

/// Identifies a job and names its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobId {
    /// A run of an agent under a lease: `r12.2`.
    Run(RunId),
    /// An activity that needs no lease, by the history record that requested it: `a12.7`.
    Activity { task: TaskId, seq: i64 },
    /// The removal of a finished task's worktree, by the history record of its end: `c12.9`.
    CleanUp { task: TaskId, seq: i64 },
    /// A check of the remote for the signal of a manual step, by the second at which it was due:
    /// `l12.1767225600`.
    Poll { task: TaskId, due: i64 },
}

impl JobId {
    pub fn task(self) -> TaskId {
        match self {
            Self::Run(run) => run.task,
            Self::Activity { task, .. } | Self::CleanUp { task, .. } | Self::Poll { task, .. } => {
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
            Self::Poll { task, due } => write!(f, "l{}.{due}", task.0),
        }
    }
}

impl FromStr for JobId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let Some((kind @ ("a" | "c" | "l"), rest)) = text.split_at_checked(1) else {
            return text.parse().map(Self::Run);
        };
        let RunId { task, epoch: number } = format!("r{rest}").parse()?;
        Ok(match kind {
            "a" => Self::Activity { task, seq: number },
            "c" => Self::CleanUp { task, seq: number },
            _ => Self::Poll { task, due: number },
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// A [`JobId`].
    pub job: String,
    /// The task's id as text.
    pub task: String,
    /// None for a task without a repository: it works in the run's folder.
    pub workspace: Option<Workspace>,
    pub work: JobWork,
    pub lease: Option<LeaseConfig>,
    pub limits: RunLimits,
    /// The environment of everything that the job starts, besides `pass`.
    pub env: BTreeMap<String, String>,
    /// Variables taken from the keeper's own environment. Only their names are stored, because
    /// some are secrets.
    pub pass: Vec<String>,
}

impl JobSpec {
    /// None for a job without an agent.
    pub fn agent(&self) -> Option<&AgentWork> {
        if let JobWork::Agent(work) = &self.work { Some(work) } else { None }
    }
}

/// The worktree that the job works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The id of its task as text.
    pub task: String,
    /// The repository that the worktree belongs to.
    pub repo: PathBuf,
    pub worktree: PathBuf,
    pub branch: String,
    /// The branch that the work starts from and is merged into.
    pub base: String,
    /// When the task was made: ids of tasks of different stores are the same.
    #[serde(default = "nowhen")]
    pub since: Instant,
    /// Whether the store knows that somebody has worked here, so that the branch was made for it.
    #[serde(default)]
    pub has_begun: bool,
    /// The remote to fetch the base from; none for a repository without one.
    pub remote: Option<String>,
    /// A command to run in a new worktree before anything else.
    pub setup: Option<String>,
    /// The folder for spare and removed worktrees.
    pub spare: PathBuf,
    /// Branches to merge into the task's own before it begins.
    #[serde(default, alias = "produces", alias = "brings")]
    pub merges_in: Vec<String>,
    #[serde(default)]
    pub left_out: LeftOut,
    /// Globs of feedback on earlier attempts, from the root of the mailbox. Matching files are
    /// copied to the same place in the worktree.
    #[serde(default)]
    pub retry: Vec<String>,
}

fn nowhen() -> Instant {
    Instant(0)
}

/// Work that people go on without.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// The commits of that work.
    pub commits: Vec<String>,
    /// Branches that it shares with other work, and the commits of the other work.
    pub shared: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobWork {
    Agent(Box<AgentWork>),
    /// Only runs the verify commands, on the task's head.
    Check {
        checks: Verification,
        /// If set, commits uncommitted files first, with this message.
        #[serde(default)]
        message: Option<String>,
        /// Decides whether a criterion in prose is met.
        #[serde(default)]
        judge: Option<Box<StepJudge>>,
    },
    /// Only inspects files in a folder that is nobody's worktree and runs the commands there.
    /// Commits, removes and locks nothing.
    Inspect {
        folder: PathBuf,
        checks: Verification,
    },
    /// Merges the task's branch into its base if the checks pass on the result.
    Merge {
        checks: Verification,
        message: String,
        /// If set, merges only this commit, and only while the branch has not moved on.
        #[serde(default)]
        commit: Option<String>,
    },
    /// Checks whether the branch, or this commit of it, is in its base, and changes nothing.
    FindMerge {
        commit: Option<String>,
    },
    /// Saves what is only in the worktree under a rescue ref, then removes the worktree.
    CleanUp,
    /// Checks whether the branch has a pull request, and changes nothing.
    #[serde(alias = "look")]
    Poll,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    /// The command of a step without an agent, which `setup` runs; its exit code is the result.
    #[serde(default)]
    pub command: Option<String>,
    pub setup: AgentSetup,
    pub ask: AgentRequest,
    /// What the resumed session had used before.
    pub before: AgentUsage,
    /// The prompt for an agent that has stalled.
    pub nudge: String,
    /// What the prompt says if branches conflict that the work builds on; `{conflicts}` stands for
    /// them. Without it, such a run does not begin.
    #[serde(default)]
    pub join: Option<String>,
    pub about: TaskText,
    /// What the run must produce.
    pub expects: Deliverable,
    pub checks: Verification,
    /// The message for committing files that the agent left uncommitted.
    pub commit_message: String,
    /// Whether commits of earlier runs count as this run's: they waited for a permission that was
    /// granted.
    #[serde(default)]
    pub counts_earlier: bool,
    /// Whether the prompt ends with the changes that the work consists of.
    #[serde(default)]
    pub shows_changes: bool,
    /// Consulted about an end that the facts leave open.
    pub evaluator: Option<Evaluator>,
}

/// How the work is verified.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    pub commands: Vec<String>,
    /// Whether the commands also run if nothing changed: a step need not change anything.
    #[serde(default)]
    pub even_unchanged: bool,
    pub timeout_ms: i64,
    /// Globs; empty allows everything.
    pub allowed_paths: Vec<String>,
    /// Globs; these take precedence.
    pub denied_paths: Vec<String>,
    /// Files and globs from the worktree's root. Each must match a file when the agent has ended.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Files and globs that must match a non-empty file.
    #[serde(default)]
    pub files: Vec<String>,
    /// A criterion in prose that the evaluator must find met.
    #[serde(default)]
    pub criterion: Option<String>,
    /// How the agent must signal that it is finished.
    #[serde(default)]
    pub signal: Option<Signal>,
    /// The root of the repository whose `.workflow/` all steps share.
    #[serde(default)]
    pub mailbox: Option<PathBuf>,
}

/// A cheap second opinion. `{evidence}` in the prompt stands for the facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluator {
    pub setup: AgentSetup,
    pub prompt: String,
    pub timeout_ms: i64,
}

/// Judges work that no run has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepJudge {
    pub evaluator: Evaluator,
    /// The report of the person who did the work.
    pub said: String,
}

/// Printed in place of an expiry if the run no longer owns the lease.
pub const LOST: &str = "lost";

/// How the keeper renews its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseConfig {
    pub expires_at: Instant,
    pub ttl_ms: i64,
    /// The time left when the spec was written, by the store's clock: this machine's clock may be
    /// behind. Without it, the keeper must renew the lease first.
    #[serde(default)]
    pub left_ms: i64,
    /// The command that renews it, with `--progressed` if the run has made progress: it prints the
    /// new expiry in RFC 3339, or [`LOST`], and exits with 0. Anything else is a transient
    /// failure.
    pub renew: Vec<String>,
    /// Proves to that command that a keeper calls it. No agent gets it.
    #[serde(default)]
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    pub wall_ms: i64,
    /// No output and no CPU use for this long is a stall.
    pub idle_ms: i64,
    /// The time between SIGTERM and SIGKILL.
    pub grace_ms: i64,
    /// The limit for standard output and for standard error; beyond it the oldest half is dropped.
    pub output_bytes: u64,
    pub tokens: Option<i64>,
    pub cost_micros: Option<i64>,
}
