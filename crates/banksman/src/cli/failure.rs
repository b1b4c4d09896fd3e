//! Why a command failed: what `ops` reports, and what can go wrong at the command line itself.
//! `report` prints it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use banksman_core::ids::NotAnId;
use banksman_core::machine::FieldError;
use clap::error::{ContextKind, ContextValue};

use crate::ops::OpsError;
use crate::ops::error_report::{Code, ErrorReport, Hint, of_read};

/// What a command and its parts return.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}", in_words(.0))]
    Usage(Box<clap::Error>),
    #[error(transparent)]
    Ops(OpsError),
    /// With a code or a hint of its own.
    #[error("{}", .0.message)]
    ErrorReport(Box<ErrorReport>),
    /// The command line or what it names is invalid.
    #[error("{message}")]
    Invalid { code: Code, message: String, hint: String },
    #[error("failed to {operation} `{}`", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no store at `{0}`")]
    NoStore(String),
    #[error("no location for the store: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
    #[error("failed to write the output")]
    Output(#[source] io::Error),
    #[error("failed to find the path of the running program")]
    Program(#[source] io::Error),
    #[error("`up` is already running here, as process {pid}")]
    AlreadyUp { pid: String },
}

impl From<ErrorReport> for Failure {
    fn from(problem: ErrorReport) -> Self {
        Self::ErrorReport(Box::new(problem))
    }
}

impl<E> From<E> for Failure
where
    OpsError: From<E>,
{
    fn from(error: E) -> Self {
        Self::Ops(error.into())
    }
}

/// A usage error in one line: what is wrong, with the arguments and values that it names, but
/// without the usage and without colours.
fn in_words(error: &clap::Error) -> String {
    let text = error.render().to_string().replace("\n\n  tip:", ";");
    let said = text.split("\n\nUsage:").next().unwrap_or(&text);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    let lines = said.trim_start_matches("error: ").lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    plain(&lines.join(" "))
}

/// What the parsers of the standard library say, in the words of this program.
pub(super) fn plain(text: &str) -> String {
    let [none, not_one, too_large, too_small] = [
        "cannot parse integer from empty string",
        "invalid digit found in string",
        "number too large to fit in target type",
        "number too small to fit in target type",
    ];
    let text = text.replace(none, "it is empty").replace(not_one, "it is not a whole number");
    text.replace(too_large, "the number is too large").replace(too_small, "the number is too small")
}

impl Failure {
    /// An argument is invalid; nothing was done.
    pub(super) fn argument(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { code: Code::Usage, message: message.into(), hint: hint.into() }
    }

    /// What an argument names does not exist.
    pub(super) fn unknown(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { code: Code::NoName, message: message.into(), hint: hint.into() }
    }

    /// What was read is invalid. An empty hint is not printed.
    pub(super) fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { code: Code::Input, message: message.into(), hint: hint.into() }
    }

    pub(super) fn file(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::File { operation, path: path.to_owned(), source }
    }

    pub(super) fn problem(&self) -> ErrorReport {
        let (code, hint) = match self {
            Self::Ops(error) => return error.into(),
            Self::ErrorReport(problem) => return problem.as_ref().clone(),
            Self::Usage(error) => return usage(error, self),
            Self::Invalid { code, hint, .. } => {
                (*code, (!hint.is_empty()).then(|| hint.clone().into()))
            }
            Self::File { source, .. } => {
                let (code, hint) = of_read(source);
                (code, Some(hint))
            }
            Self::NoStore(_) => (Code::NoStore, Some(Hint::CreateStore)),
            Self::NoHome => (Code::Settings, Some(Hint::ChooseStore)),
            Self::Output(_) | Self::Program(_) => (Code::File, None),
            Self::AlreadyUp { .. } => (Code::Busy, Some(Hint::SeeUp)),
        };
        ErrorReport::new(code, hint, self)
    }

    /// The reader of the output closed it, as in `banksman list | head -1`. That is not an error.
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The argument that a usage error is about is its field.
fn usage(error: &clap::Error, failure: &Failure) -> ErrorReport {
    let is_no_id = error.source().is_some_and(<dyn Error>::is::<NotAnId>);
    let code = if is_no_id { Code::NotAnId } else { Code::Usage };
    let problem = ErrorReport::new(code, Hint::ListCommands, failure);
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return problem;
    };
    ErrorReport { errors: vec![FieldError::new(argument, &problem.message)], ..problem }
}
