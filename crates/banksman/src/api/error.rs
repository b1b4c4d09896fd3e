//! The document of a failure: one shape for every command and every cause.

use banksman_core::machine::FieldError;
use serde::Serialize;

use crate::ops::error_report::ErrorReport;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDocument {
    /// Always false.
    pub success: bool,
    /// Never empty. A failure that is about no field has one entry without a field.
    pub errors: Vec<FieldMessage>,
    /// The moves that a refused task can make instead.
    pub allowed_transitions: Vec<String>,
    pub code: &'static str,
    pub hint: Option<String>,
    /// The decision whose answer failed; only where several are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct FieldMessage {
    pub field: Option<String>,
    pub message: String,
}

impl FieldMessage {
    #[must_use]
    pub fn new(field: &str, message: &str) -> Self {
        Self { field: Some(field.to_owned()), message: message.to_owned() }
    }
}

impl From<&FieldError> for FieldMessage {
    fn from(error: &FieldError) -> Self {
        Self::new(&error.field, &error.message)
    }
}

impl ErrorDocument {
    /// With the hint as the surface phrases it.
    #[must_use]
    pub fn new(problem: &ErrorReport, hint: Option<String>) -> Self {
        let mut errors: Vec<FieldMessage> = problem.errors.iter().map(FieldMessage::from).collect();
        if errors.is_empty() {
            errors.push(FieldMessage { field: None, message: problem.one_line() });
        }
        Self {
            success: false,
            errors,
            allowed_transitions: problem.allowed.clone(),
            code: problem.code.as_str(),
            hint,
            decision: None,
        }
    }
}
