//! What a caller can do next, as data: each surface phrases it in its own terms.

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::contract::{Field, Trigger};

use super::workflows::ReportedOutcome;

pub use crate::exec::process::quoted;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    StartAgents,
    ResumeAgents,
    CheckStore,
    ShowTask(TaskId),
    Why(TaskId),
    /// What the task's last run did.
    Log(TaskId),
    Retry(TaskId),
    Unblock {
        task: TaskId,
        needs_words: bool,
    },
    /// Move it to one of these states.
    MoveTo {
        task: TaskId,
        states: Vec<String>,
    },
    /// Move it by a trigger that may need a text.
    MoveOn {
        task: TaskId,
        trigger: Trigger,
        field: Option<Field>,
    },
    ShowDecision(DecisionId),
    UndoAnswer(DecisionId),
    /// Answer with one of these actions.
    Answer {
        decision: DecisionId,
        actions: Vec<String>,
    },
    /// Do what a workflow waits for.
    DriveWorkflow,
    ReportStep {
        /// A step or a gate.
        step: String,
        word: ReportedOutcome,
        as_reviewer: bool,
        workflow: TaskId,
    },
    ResumeBatch(String),
    /// Raise a limit of its budget.
    RaiseBudget {
        batch: String,
        limit: &'static str,
    },
    RaiseConcurrency {
        batch: String,
    },
    ResumeAccount(String),
    /// Cancel it with a reason.
    Cancel(TaskId),
    ShowPolicy,
    /// Find the files with the settings.
    ListSettings,
}
