//! What a caller can do next, as data: each surface says in its own terms how it is done.

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::contract::Field;

use super::workflows::ReportedOutcome;

pub use crate::exec::process::quoted;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    StartAgents,
    ResumeAgents,
    CheckStore,
    ShowTask(TaskId),
    Why(TaskId),
    /// What the last run of a task did.
    Log(TaskId),
    Retry(TaskId),
    Unblock(TaskId),
    /// To one of these states.
    MoveTo {
        task: TaskId,
        states: Vec<String>,
    },
    /// By a trigger that may ask for a text.
    MoveOn {
        task: TaskId,
        trigger: String,
        field: Option<Field>,
    },
    ShowDecision(DecisionId),
    /// With one of these actions.
    Answer {
        decision: DecisionId,
        actions: Vec<String>,
    },
    /// What a workflow waits for.
    DriveWorkflow,
    ReportStep {
        /// A step or a gate.
        step: String,
        word: ReportedOutcome,
        as_reviewer: bool,
        workflow: TaskId,
    },
    ResumeBatch(String),
    /// A limit of its budget.
    RaiseBudget {
        batch: String,
        limit: &'static str,
    },
    RaiseConcurrency {
        batch: String,
    },
    ResumeAccount(String),
}
