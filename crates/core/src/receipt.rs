//! The receipt of a job: how its agent ended, what the agent reported, and the facts that the
//! keeper found in its worktree.
//!
//! The keeper writes it and `failure` classifies it. These are plain data. [`StreamSummary`] is
//! what the agent claims; [`Evidence`] is what Banksman observed itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::closed::closed;
use crate::lifecycle::expr::Value;
use crate::time::Instant;

/// The final report of one job, written once by its keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// `r12.2` for a run, `a12.7` for an activity that needs no lease.
    pub job: String,
    pub started_at: Instant,
    pub ended_at: Instant,
    pub ended: EndCause,
    /// The exit of the agent's process; none if it never started.
    pub exit: Option<ProcessExit>,
    pub reading: Option<StreamSummary>,
    /// The end of what the agent wrote to standard error, at most `limits::STDERR_BYTES`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The answer that matches the requested schema. It was validated, unlike the answer in
    /// `reading`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Why the agent's last answer does not match the requested schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<String>,
    pub evidence: Option<Evidence>,
    /// The result of a merge; none if the job was no merge or ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeReport>,
    /// The evaluator's opinion on an end that the facts leave open.
    pub opinion: Option<EvaluatorOpinion>,
    /// What the evaluator used, whether or not its answer could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judging: Option<Usage>,
    /// Processes that outlived the agent and were killed.
    pub left_over: u32,
    /// How often the agent was prompted to continue after it fell silent.
    pub nudges: u32,
}

impl Receipt {
    /// The receipt of a job of which only the end and its cause are known.
    pub fn new(job: &str, started_at: Instant, ended: EndCause) -> Self {
        Self {
            job: job.to_owned(),
            started_at,
            ended_at: started_at,
            ended,
            exit: None,
            reading: None,
            stderr: String::new(),
            answer: None,
            objections: Vec::new(),
            evidence: None,
            merge: None,
            opinion: None,
            judging: None,
            left_over: 0,
            nudges: 0,
        }
    }
}

impl EndCause {
    /// Whether the job failed for a reason outside of it, so that it may be started again
    /// unchanged.
    pub fn failed_externally(&self) -> bool {
        match self {
            Self::NotPrepared { class, .. } => *class == PrepareFault::Environment,
            Self::NotStarted { .. } | Self::LeaseLost | Self::KeeperLost => true,
            Self::Completed
            | Self::TimedOut
            | Self::Stalled
            | Self::OverBudget { .. }
            | Self::Hopeless
            | Self::NotAllowed { .. }
            | Self::Loop { .. }
            | Self::Stopped { .. } => false,
        }
    }
}

/// Why the job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum EndCause {
    /// All its parts ran, with or without success; the other facts say which.
    Completed,
    /// The worktree, or the program for it, could not be set up.
    NotPrepared { detail: String, class: PrepareFault },
    /// The agent's process could not be started.
    NotStarted { detail: String },
    /// It exceeded its time limit.
    TimedOut,
    /// It was silent and idle for too long, even after a prompt to continue.
    Stalled,
    /// It used more tokens or money than one run may.
    OverBudget { detail: String },
    /// The keeper stopped it because the agent reported a fault that it cannot recover from, such
    /// as a rejected key.
    Hopeless,
    /// It did, or was about to do, something that needs a permission. The text is a
    /// [`crate::policy::PermissionRequest`].
    NotAllowed { request: String },
    /// It repeated the same actions.
    Loop { summary: String },
    /// A person or the engine stopped it.
    Stopped { by: String },
    /// The lease was lost or could not be renewed in time.
    LeaseLost,
    /// The keeper is gone and left no receipt.
    KeeperLost,
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "it ended without a result",
            Self::NotPrepared { detail, .. }
            | Self::NotStarted { detail }
            | Self::OverBudget { detail } => detail,
            Self::TimedOut => "it took too long",
            Self::Stalled => "it stalled",
            Self::Hopeless => "it could not get any further",
            Self::NotAllowed { request } => request,
            Self::Loop { summary } => summary,
            Self::Stopped { by } => return write!(f, "it was stopped: {by}"),
            Self::LeaseLost => "its lease was lost",
            Self::KeeperLost => "its keeper was lost",
        })
    }
}

/// Why a worktree could not be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareFault {
    /// The disk, git itself or a lock: not the task's fault.
    Environment,
    /// The repository's setup command failed.
    Setup,
    /// The branch and its base have diverged.
    Diverged,
    /// Only a person can change it: the program is missing, or something is in the way.
    Unusable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// What an agent's event stream reported.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamSummary {
    /// The agent's own terminal event; none when the stream ended without one.
    pub terminal: Option<Terminal>,
    pub session: Option<String>,
    /// Its last message, cut to [`crate::limits::FINAL_TEXT_BYTES`].
    pub text: String,
    /// Its answer, whether or not it matches a schema.
    pub answer: Option<Value>,
    /// Of this run alone, even if the agent counts over all runs of a session.
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_micros: Option<i64>,
    pub fault: Option<Fault>,
    /// When the provider accepts requests again.
    pub resets_at: Option<Instant>,
    /// What the agent reported through its tools.
    pub reports: Vec<AgentReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    Success,
    Error,
}

/// A fault that the agent or its provider reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    pub detail: String,
    /// Whether it comes from a structured field; otherwise it was recognised in prose.
    pub structured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A plan limit, a rate limit or an empty credit balance.
    Quota,
    /// A missing or rejected key.
    Auth,
    /// A server or network fault that may be gone at the next attempt.
    Transient,
    /// A limit on turns, tokens or money that was set for the run.
    Budget,
    /// A tool was needed and denied.
    Permission,
    /// The session to resume does not exist; a new one must be started.
    Session,
    /// The agent's program is not set up: a flag, a version or trust in the folder.
    Setup,
}

/// What a task says, for the tools of its agent. The keeper writes it into the run's folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskText {
    #[serde(default)]
    pub body: String,
    pub title: String,
}

closed! {
    /// The tools that an agent has for its own run. A call of one is no action of the agent.
    pub enum AgentTool {
        Progress = "report_progress",
        Ask = "ask_person",
        Approval = "request_approval",
        Nothing = "nothing_to_do",
        Task = "task",
    }
}

/// A report that the agent made through its tools while it worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum AgentReport {
    /// What it works on, which files it has changed, and what is in its way.
    Progress { step: String, files: Vec<String>, blockers: Vec<String> },
    /// It needs a person to continue.
    NeedsPerson { question: String },
    /// The work was done before, or is not needed.
    NothingToDo { reason: String },
}

/// What the keeper found in the worktree after the agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The commit that the branch started from.
    pub base: String,
    pub head: String,
    /// The head when this run began: commits of earlier runs do not count for this one.
    pub head_before: String,
    /// From the base to the head.
    pub commits: u32,
    pub files: u32,
    pub insertions: u32,
    pub deletions: u32,
    /// Changed paths, the first [`crate::limits::EVIDENCE_PATHS`].
    pub paths: Vec<String>,
    /// Changed paths that no allowed pattern matches.
    pub outside: Vec<String>,
    /// Changed paths that a denied pattern matches.
    pub denied: Vec<String>,
    /// The web page of a pull request that the agent named, if the remote has it with this head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<String>,
    /// Whether there were uncommitted files when the agent ended.
    pub was_dirty: bool,
    /// The commit that the keeper made of the uncommitted files.
    pub committed: Option<String>,
    /// The commands that verify the work, in order, up to the first failure.
    pub checks: Vec<CheckResult>,
    /// Why checks that were set did not run, although there was something to check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// Other facts for people: work on another branch, a check that changed the files it verifies.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Files that the run had to produce and that are missing, or empty where that is not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Why the head is not the whole work: conflicts that nobody has resolved, or a worktree that
    /// was left on other work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmerged: Vec<String>,
    /// The signal that the step had to give; none if a successful end is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<ObservedSignal>,
    /// A change that needed a permission, as a [`crate::policy::PermissionRequest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What the evaluator must find met before the run counts as a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
}

/// Whether a step gave the signal that says it is finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSignal {
    pub found: bool,
    /// The expected signal, worded so that "the signal … was not given" is a sentence.
    pub detail: String,
    /// The note in the signal.
    pub note: Option<String>,
    /// Whether the step reports its own failure.
    pub failed: bool,
}

/// One check command, and the commit that it ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub command: String,
    pub head: String,
    pub exit: ProcessExit,
    pub millis: i64,
    /// The end of its output.
    pub tail: String,
}

impl CheckResult {
    pub fn passed(&self) -> bool {
        self.exit.code == Some(0)
    }
}

/// Where merged work is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedAs {
    pub base: String,
    /// The commit of the base that has it.
    pub head: String,
    /// Banksman pushes nothing there.
    pub remote: Option<String>,
}

/// The result of merging a branch into its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "merge", rename_all = "snake_case")]
pub enum MergeReport {
    /// The new head of the base.
    Merged { head: String },
    /// The base already contained everything.
    AlreadyIn { head: String },
    /// The base was only inspected, and does not contain the branch.
    NotIn,
    /// Both sides have changed these files.
    Conflict { paths: Vec<String> },
    /// Something that only a person can change is in the way.
    Hindered { detail: String },
    /// A check failed on the merge result.
    Rejected { check: CheckResult },
    /// The branch is no longer at the commit that was to be merged.
    MovedOn { branch: String },
}

/// The evaluator's opinion on an ambiguous end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatorOpinion {
    pub done: bool,
    pub reason: String,
}

/// What an agent used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub tokens: i64,
    /// Millionths of a US dollar.
    pub cost_micros: i64,
}
