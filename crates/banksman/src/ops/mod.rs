//! The use cases: the one door for everything that changes or explains a task. Surfaces parse, call
//! one function of this folder, and show the result; they decide nothing.

pub mod daily;
pub mod decisions;
pub mod library;
pub mod panels;
pub mod policy;
pub mod projects;
pub mod prompts;
pub mod status;
pub mod tasks;
pub mod transfer;
pub mod why;
pub mod workflows;

use banksman_core::ids::NotAnId;
use banksman_core::machine::{RejectReason, Rejected};

use crate::store::StoreError;
use decisions::DecisionError;
use library::LibraryError;
use workflows::WorkflowError;

#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error(transparent)]
    Decision(#[from] DecisionError),
    #[error(transparent)]
    Id(#[from] NotAnId),
    #[error("line {line}: {source}")]
    Line { line: usize, source: Box<OpsError> },
    #[error("{message}")]
    Input { message: String, hint: String },
}

impl OpsError {
    pub(crate) fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Input { message: message.into(), hint: hint.into() }
    }

    /// The refusal of the machine, if that is what it is.
    #[must_use]
    pub fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Store(StoreError::Rejected(rejected)) => Some(rejected),
            Self::Line { source, .. } => source.rejected(),
            Self::Store(_)
            | Self::Library(_)
            | Self::Workflow(_)
            | Self::Decision(_)
            | Self::Id(_)
            | Self::Input { .. } => None,
        }
    }
}

/// A refusal because of what was given, before the machine was asked.
pub(crate) fn refuse(field: &str, message: impl Into<String>) -> OpsError {
    OpsError::Store(StoreError::Rejected(Rejected::one(RejectReason::Invalid, field, message)))
}
