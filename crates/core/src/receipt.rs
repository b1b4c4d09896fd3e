//! What a run leaves behind: how its agent ended, what it said, and the facts that were found in
//! its worktree.
//!
//! The keeper writes it, the failure policy judges it. These are plain data: an agent's words in
//! [`StreamSummary`] are a hint, what is in [`Evidence`] was looked at.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Instant;

/// The end of one job, written once by its keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// `r12.2` for a run, `a12.7` for an activity that needs no lease.
    pub job: String,
    pub started_at: Instant,
    pub ended_at: Instant,
    pub ended: EndCause,
    /// The agent's own exit; none when it was never started.
    pub exit: Option<ProcessExit>,
    pub reading: Option<StreamSummary>,
    /// The answer in the shape that was asked for. It was checked, unlike the one in the reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// What was wrong with the last answer of an agent that was to give one in a certain shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<String>,
    pub evidence: Option<Evidence>,
    /// What came of a merge; none for a job that was not one, or that did not get so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeReport>,
    /// What the cheap evaluator said about an end that the facts left open.
    pub opinion: Option<EvaluatorOpinion>,
    /// What asking it has used, whatever its answer was worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judging: Option<Usage>,
    /// Processes that outlived the agent and were ended.
    pub left_over: u32,
    /// How often the agent was prompted to go on after it had fallen silent.
    pub nudges: u32,
}

impl Receipt {
    /// Of a job of which nothing is known but that it is over, and why.
    #[must_use]
    pub fn new(job: &str, started_at: Instant, ended: EndCause) -> Self {
        Self {
            job: job.to_owned(),
            started_at,
            ended_at: started_at,
            ended,
            exit: None,
            reading: None,
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
    /// Whether the job could not be done for a reason outside of it, so that it may be begun again
    /// as it is.
    #[must_use]
    pub fn is_hindered(&self) -> bool {
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

/// Why the job is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum EndCause {
    /// Everything that was to be done was done, well or badly; the other facts say which.
    Completed,
    /// The worktree or its set-up could not be made ready.
    NotPrepared { detail: String, class: PrepareFault },
    /// The agent's program could not be started.
    NotStarted { detail: String },
    /// It took longer than it may.
    TimedOut,
    /// It was silent and idle for too long, also after it was prompted to go on.
    Stalled,
    /// It used more tokens or money than this run may.
    OverBudget { detail: String },
    /// The keeper ended it because the agent was stuck on a fault that it told of, such as a
    /// refused key.
    Hopeless,
    /// It did, or was about to do, what it had to ask for first. The text is a
    /// [`crate::policy::Request`].
    NotAllowed { request: String },
    /// It did the same again and again.
    Loop { summary: String },
    /// Somebody asked for its end.
    Stopped { by: String },
    /// The lease was lost or could not be renewed in time.
    LeaseLost,
    /// The keeper is gone and left no word.
    KeeperLost,
}

/// What kept a worktree from being made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareFault {
    /// The disk, git itself, a lock: not the task's fault.
    Environment,
    /// The repository's set-up command failed.
    Setup,
    /// The branch no longer goes together with its base.
    Diverged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// What an agent's event stream said.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamSummary {
    /// The agent's own terminal event; none when the stream ended without one.
    pub terminal: Option<Terminal>,
    pub session: Option<String>,
    /// The last thing that it said, cut to [`crate::limits::FINAL_TEXT_BYTES`].
    pub text: String,
    /// What it gave as an answer, whatever its shape.
    pub answer: Option<Value>,
    /// Of this run alone, also where the agent counts over all runs of a session.
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_micros: Option<i64>,
    pub fault: Option<Fault>,
    /// When the provider lets us go on.
    pub resets_at: Option<Instant>,
    /// What the agent told through its tools.
    pub reports: Vec<AgentReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    Success,
    Error,
}

/// A fault that the agent or its provider named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    pub detail: String,
    /// From a structured field; otherwise from a pattern in a text.
    pub structured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A plan limit, a rate limit, an empty credit balance.
    Quota,
    /// No key, or one that is refused.
    Auth,
    /// A server or network fault that may be gone at the next try.
    Transient,
    /// A limit of turns, tokens or money that was set for the run.
    Budget,
    /// A tool was needed and denied.
    Permission,
    /// The session to be resumed is not known; a new one has to be started.
    Session,
    /// The agent's program is not set up: a flag, a version, trust of the folder.
    Setup,
}

/// Something that the agent told through its tools while it worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum AgentReport {
    Progress {
        step: String,
        files: Vec<String>,
        blockers: Vec<String>,
    },
    /// It cannot go on without a person.
    NeedsPerson {
        question: String,
    },
    /// There was nothing to do.
    NothingToDo {
        reason: String,
    },
}

/// What was found in the worktree after the agent had ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The commit that the branch started from.
    pub base: String,
    pub head: String,
    /// The head when this run began: commits of earlier runs are not this one's.
    pub head_before: String,
    /// From the base to the head.
    pub commits: u32,
    pub files: u32,
    pub insertions: u32,
    pub deletions: u32,
    /// Changed paths, the first [`crate::limits::EVIDENCE_PATHS`].
    pub paths: Vec<String>,
    /// Changed paths that are not under any allowed one.
    pub outside: Vec<String>,
    /// Changed paths that are under a denied one.
    pub denied: Vec<String>,
    /// Whether files were still not committed when the agent ended.
    pub was_dirty: bool,
    /// The commit that was made of them.
    pub committed: Option<String>,
    /// The commands that prove the work, in order, up to the first that failed.
    pub checks: Vec<CheckResult>,
    /// What else a person should know: work on another branch, a check that changed what it was to
    /// prove.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Files that the run had to leave and that are not there, or are empty and must not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What became of the signal that was demanded; none where nothing but a successful end was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<ObservedSignal>,
    /// What was changed and had to be asked for first, as a [`crate::policy::Request`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What the evaluator has to find met before the run is a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
}

/// How a step said that it is finished, or that it did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSignal {
    pub found: bool,
    /// What was looked for, so that "the signal … was not given" is a sentence.
    pub detail: String,
    /// What the step said with it.
    pub note: Option<String>,
    /// Whether the step itself says that it failed.
    pub failed: bool,
}

/// One verify command, and the head that it ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub command: String,
    pub head: String,
    pub exit: ProcessExit,
    pub millis: i64,
    /// The end of what it printed.
    pub tail: String,
}

impl CheckResult {
    #[must_use]
    pub fn passed(&self) -> bool {
        self.exit.code == Some(0)
    }
}

/// What came of bringing a branch into its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "merge", rename_all = "snake_case")]
pub enum MergeReport {
    /// The base's new head.
    Merged {
        head: String,
    },
    /// Everything was in the base already.
    AlreadyIn {
        head: String,
    },
    /// The base was only looked at, and does not have it.
    NotIn,
    Conflict {
        paths: Vec<String>,
    },
    /// A check failed on the result.
    Rejected {
        check: CheckResult,
    },
    /// The branch is not at the commit any more that was to be merged.
    MovedOn {
        branch: String,
    },
}

/// The evaluator's word about an ambiguous end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatorOpinion {
    pub done: bool,
    pub reason: String,
}

/// What an agent has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub tokens: i64,
    /// Millionths of a US dollar.
    pub cost_micros: i64,
}
