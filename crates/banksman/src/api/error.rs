//! The document of a failure: one shape for every command and every cause.

use banksman_core::lifecycle::problem::{Problem, Problems};
use banksman_core::machine::FieldError;
use banksman_core::prompt::TemplateProblem;
use serde::Serialize;

use crate::ops::error_report::{Code, ErrorReport};

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

/// An answer that falls short of what was asked for: the keys of every failure, and its own.
#[derive(Debug, Serialize)]
pub struct FailedAnswer<T> {
    #[serde(flatten)]
    pub error: ErrorDocument,
    #[serde(flatten)]
    pub answer: T,
}

/// What is wrong with a field, or in a file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FieldMessage {
    pub field: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl FieldMessage {
    pub fn new(field: &str, message: &str) -> Self {
        Self { field: Some(field.to_owned()), message: message.to_owned(), ..Self::default() }
    }

    /// A problem of a file.
    pub fn in_file(file: &impl ToString, problem: &Problem) -> Self {
        Self {
            message: problem.message.clone(),
            file: Some(file.to_string()),
            line: Some(problem.line as usize),
            column: Some(problem.column),
            help: problem.help.clone(),
            ..Self::default()
        }
    }

    /// All problems of a file.
    pub fn of_file(problems: &Problems) -> Vec<Self> {
        problems.list.iter().map(|problem| Self::in_file(&problems.origin, problem)).collect()
    }

    /// A problem of a template.
    pub fn in_template(file: String, problem: &TemplateProblem) -> Self {
        Self {
            message: problem.message.clone(),
            file: Some(file),
            line: Some(problem.line),
            help: Some(problem.help.clone()),
            ..Self::default()
        }
    }
}

impl From<String> for FieldMessage {
    fn from(message: String) -> Self {
        Self { message, ..Self::default() }
    }
}

impl From<&FieldError> for FieldMessage {
    fn from(error: &FieldError) -> Self {
        Self::new(&error.field, &error.message)
    }
}

impl ErrorDocument {
    /// With the hint as the surface phrases it.
    pub fn new(problem: &ErrorReport, hint: Option<String>) -> Self {
        let mut errors: Vec<FieldMessage> = problem.errors.iter().map(FieldMessage::from).collect();
        errors.extend(problem.in_file.iter().flat_map(|problems| FieldMessage::of_file(problems)));
        if errors.is_empty() {
            errors.push(problem.one_line().into());
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

    /// What a check has found.
    pub fn of_findings(code: Code, errors: Vec<FieldMessage>) -> Self {
        let (allowed_transitions, code) = (Vec::new(), code.as_str());
        Self { success: false, errors, allowed_transitions, code, hint: None, decision: None }
    }
}
