//! Refusals: what is wrong, in which field, and what could be done instead.

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub(super) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

/// Why an event was refused. Surfaces choose their status by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// The move does not exist or something that it needs is missing.
    Invalid,
    /// The move exists, but this role may not take it.
    Forbidden,
    /// The writer's lease is not the current one.
    StaleLease,
    /// The task has changed since the writer looked.
    StaleVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Rejected {
    pub why: RejectReason,
    pub errors: Vec<FieldError>,
    /// States that the actor could move the task to now.
    pub allowed: Vec<String>,
}

impl Rejected {
    pub fn one(why: RejectReason, field: &str, message: impl Into<String>) -> Self {
        Self { why, ..Self::invalid(vec![FieldError::new(field, message)]) }
    }

    pub(super) fn invalid(errors: Vec<FieldError>) -> Self {
        Self { why: RejectReason::Invalid, errors, allowed: Vec::new() }
    }

    fn summary(&self) -> String {
        let parts: Vec<String> =
            self.errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
        parts.join("; ")
    }
}
