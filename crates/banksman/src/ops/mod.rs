//! The use cases: the only entry to everything that changes or explains a task. Surfaces parse,
//! call one function of this folder, and show the result; they decide nothing.

pub mod agents;
pub mod capacity;
pub mod changes;
pub mod daily;
pub mod decisions;
pub mod error_report;
pub mod health;
pub mod library;
pub mod panels;
pub mod policy;
pub mod principal;
pub mod projects;
pub mod prompts;
pub mod remedy;
pub mod reports;
pub mod rest;
pub mod runs;
mod session;
pub mod shutdown;
pub mod status;
pub mod suggestion;
pub mod tasks;
pub mod transfer;
pub mod why;
pub mod workflows;

use banksman_core::ids::{NotAnId, TaskId};
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::machine::{RejectReason, Rejected};
use serde::Serialize;

use crate::config::ConfigError;
use crate::exec::keeper::FileError;
use crate::exec::note::NoteError;
use crate::exec::site::SiteError;
use crate::prompts::PromptError;
use crate::store::StoreError;
use crate::store::conn::DbError;
use decisions::DecisionError;
use error_report::{Code, Hint};
use library::LibraryError;
use workflows::WorkflowError;

pub use principal::Forbidden;
pub use session::Session;

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
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Id(#[from] NotAnId),
    #[error("{rejected}")]
    NeedsWords { task: TaskId, trigger: Trigger, rejected: Rejected },
    #[error("line {line}: {source}")]
    Line { line: usize, source: Box<OpsError> },
    #[error("{message}")]
    Input { code: Code, message: String, hint: Hint },
    #[error(transparent)]
    Settings(#[from] ConfigError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Site(#[from] SiteError),
    #[error(transparent)]
    Note(#[from] NoteError),
}

impl OpsError {
    pub(crate) fn input(message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::about(Code::Input, message, hint)
    }

    pub(crate) fn about(code: Code, message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Input { code, message: message.into(), hint: hint.into() }
    }
}

impl From<DbError> for OpsError {
    fn from(error: DbError) -> Self {
        Self::Store(error.into())
    }
}

/// A refusal because of an argument, before the machine is called.
pub(crate) fn refuse(field: &str, message: impl Into<String>) -> OpsError {
    OpsError::Store(StoreError::Rejected(Rejected::one(RejectReason::Invalid, field, message)))
}

/// A request as text, so that its idempotency key distinguishes it from others.
fn request_text(request: &impl Serialize) -> String {
    serde_json::to_string(request).expect("requests are plain data")
}

#[cfg(test)]
mod tests {
    use banksman_core::lifecycle::expr::Fields;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_a_request_is_that_of_earlier_versions() {
        let fields = Fields::from_iter([("b".to_owned(), json!([1.5])), ("a".into(), json!("x"))]);
        let request = ("add", "a \"title\"", None::<i64>, vec![(3, "blocks")], &fields, -7);
        let array = json!(["add", "a \"title\"", null, [[3, "blocks"]], fields, -7]);
        assert_eq!(request_text(&request), array.to_string());
    }
}
