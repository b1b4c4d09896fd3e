//! Why a command failed: what `ops` reports, and what can go wrong at the command line itself.
//! `report` prints it.

use std::io;
use std::path::{Path, PathBuf};

use crate::ops::OpsError;
use crate::ops::error_report::{Code, ErrorReport, Hint, of_read};

/// What a command and its parts return.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}", first_line(.0))]
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

/// The first line of a usage error, without colours.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
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
            Self::Usage(_) => (Code::Usage, Some(Hint::ListCommands)),
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
