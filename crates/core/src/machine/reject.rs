//! Refusals: what is wrong, in which field, and which moves are possible.

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

/// Why an event was refused. Surfaces choose their exit code or status by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// There is no such transition, or something that it needs is missing.
    Invalid,
    /// The transition exists, but not for this role.
    Forbidden,
    /// The writer's lease is not the current one.
    StaleLease,
    /// The task has changed since the caller read it.
    StaleVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Rejected {
    pub why: RejectReason,
    pub errors: Vec<FieldError>,
    /// The states that the actor could move the task to now.
    pub allowed: Vec<String>,
}

impl Rejected {
    pub fn one(why: RejectReason, field: &str, message: impl Into<String>) -> Self {
        Self { why, ..Self::invalid(vec![FieldError::new(field, message)]) }
    }

    pub fn invalid(errors: Vec<FieldError>) -> Self {
        Self { why: RejectReason::Invalid, errors, allowed: Vec::new() }
    }

    fn summary(&self) -> String {
        let parts: Vec<String> =
            self.errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
        parts.join("; ")
    }
}
