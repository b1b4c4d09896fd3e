//! Why a command failed: the one table from errors to codes and hints. `report` prints it.

use std::io;
use std::path::{Path, PathBuf};

use banksman_core::ids::TaskId;
use banksman_core::machine::{FieldError, RejectReason, Rejected};

use super::exit::Code;
use crate::config::ConfigError;
use crate::engine::EngineError;
use crate::engine::wake::WakeError;
use crate::exec::keeper::FileError;
use crate::exec::note::NoteError;
use crate::exec::site::SiteError;
use crate::ops::OpsError;
use crate::ops::decisions::DecisionError;
use crate::ops::library::LibraryError;
use crate::ops::workflows::WorkflowError;
use crate::prompts::PromptError;
use crate::store::StoreError;
use crate::store::conn::DbError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}", first_line(.0))]
    Usage(#[source] Box<clap::Error>),
    #[error(transparent)]
    Settings(#[from] ConfigError),
    #[error(transparent)]
    Ops(#[from] OpsError),
    #[error("{message}")]
    Argument { message: String, hint: String },
    #[error("{message}")]
    Input { message: String, hint: String },
    /// A refusal with better advice than the general one.
    #[error("{rejected}")]
    Refused { rejected: Rejected, hint: String },
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
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Wake(#[from] WakeError),
    #[error("`up` is already running here, as process {pid}")]
    AlreadyUp { pid: String },
    #[error(transparent)]
    Note(NoteError),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Site(_) | EngineError::Mailbox(_) | EngineError::Project { .. } => {
                Self::Engine(error)
            }
        }
    }
}

impl From<SiteError> for Failure {
    fn from(error: SiteError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<FileError> for Failure {
    fn from(FileError { action, path, source }: FileError) -> Self {
        Self::File { operation: action, path, source }
    }
}

impl From<NoteError> for Failure {
    fn from(error: NoteError) -> Self {
        match error {
            NoteError::File(error) => error.into(),
            NoteError::Unusable { .. } | NoteError::Place { .. } => Self::Note(error),
        }
    }
}

impl From<PromptError> for Failure {
    fn from(error: PromptError) -> Self {
        match error {
            PromptError::Read { path, source } => Self::File { operation: "read", path, source },
            PromptError::Unsound { .. } => Self::Input {
                message: error.to_string(),
                hint: "fix what `banksman prompts lint` reports".to_owned(),
            },
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Ops(error.into())
    }
}

impl From<WorkflowError> for Failure {
    fn from(error: WorkflowError) -> Self {
        Self::Ops(error.into())
    }
}

impl From<LibraryError> for Failure {
    fn from(error: LibraryError) -> Self {
        Self::Ops(error.into())
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::Ops(StoreError::from(error).into())
    }
}

/// The first line of a usage error, without colours.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// A code, and what to type next.
type Class = (Code, Option<String>);

fn hinted(code: Code, hint: impl Into<String>) -> Class {
    (code, Some(hint.into()))
}

impl Failure {
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Usage(_) => hinted(
                Code::Usage,
                "`banksman help` lists the commands, `banksman help COMMAND` explains one",
            ),
            Self::Settings(error) => hinted(Code::Settings, error.hint()),
            Self::Ops(error) => classify_ops(error),
            Self::Argument { hint, .. } => hinted(Code::Usage, hint),
            Self::Input { hint, .. } => hinted(Code::Input, hint),
            Self::Refused { rejected, hint } => hinted(rejection_code(rejected), hint),
            Self::File { .. } => hinted(Code::File, "check the path and its permissions"),
            Self::NoStore(_) => hinted(
                Code::NoStore,
                "`banksman init` creates it; `banksman config get store` prints its location",
            ),
            Self::NoHome => hinted(Code::Settings, "choose a location: --store PATH"),
            Self::Output(_) | Self::Program(_) => (Code::File, None),
            Self::Engine(EngineError::Project { .. }) => {
                hinted(Code::Settings, "fix its .banksman/config.toml")
            }
            Self::Engine(
                EngineError::Store(_) | EngineError::Site(_) | EngineError::Mailbox(_),
            )
            | Self::Wake(_) => hinted(
                Code::File,
                "check the home folder (`banksman config get home`) and its free disk space",
            ),
            Self::Note(NoteError::Place { .. }) => hinted(
                Code::Settings,
                "set `daily.folder` to a folder outside your projects, such as ~/notes",
            ),
            Self::Note(NoteError::Unusable { .. } | NoteError::File(_)) => {
                hinted(Code::File, "replace it with a plain text file, or move it away")
            }
            Self::AlreadyUp { .. } => {
                hinted(Code::Busy, "`banksman status` shows its work, `banksman down` stops it")
            }
        }
    }

    pub(super) fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Ops(OpsError::Store(StoreError::Rejected(rejected)))
            | Self::Refused { rejected, .. } => Some(rejected),
            Self::Ops(_) | Self::Usage(_) | Self::Settings(_) => None,
            Self::Argument { .. } | Self::Input { .. } => None,
            Self::File { .. } | Self::NoStore(_) | Self::NoHome | Self::Output(_) => None,
            Self::Program(_) | Self::Engine(_) | Self::Wake(_) | Self::AlreadyUp { .. } => None,
            Self::Note(_) => None,
        }
    }

    /// The reader of the output closed it, as in `banksman list | head -1`. That is not an error.
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The task that somebody named in place of a file.
fn named_task(path: &Path) -> Option<TaskId> {
    path.to_str()?.parse().ok()
}

fn classify_ops(error: &OpsError) -> Class {
    match error {
        OpsError::Store(error) => classify_store(error),
        OpsError::Library(error) => classify_library(error),
        OpsError::Workflow(WorkflowError::Read { path, .. }) => match named_task(path) {
            Some(_) => {
                hinted(Code::File, "expected a file; to continue the task, run `banksman up`")
            }
            None => hinted(Code::File, "check that the file exists and is readable"),
        },
        OpsError::Workflow(WorkflowError::Unsound(_)) => {
            hinted(Code::InvalidWorkflow, "fix what `banksman workflow lint FILE` reports")
        }
        OpsError::Decision(error) => classify_decision(error),
        OpsError::Id(_) => {
            hinted(Code::Input, "a task id is a number, with or without a leading `t`")
        }
        OpsError::Line { source, .. } => {
            let (code, _) = classify_ops(source);
            hinted(
                code,
                "fix the line and import the file again; imported tasks are not added twice",
            )
        }
        OpsError::Input { hint, .. } => hinted(Code::Input, hint),
    }
}

fn classify_decision(error: &DecisionError) -> Class {
    const INBOX: &str = "`banksman decisions` lists the open decisions";
    match error {
        DecisionError::Unknown(_)
        | DecisionError::NothingAsked(_)
        | DecisionError::NothingToUndo { .. } => hinted(Code::NoDecision, INBOX),
        DecisionError::NotOffered { id, .. } => hinted(
            Code::Refused,
            format!("`banksman decisions show {id}` shows what each answer does"),
        ),
        DecisionError::Settled { task, .. } => {
            hinted(Code::Stale, format!("`banksman history {task}` shows what happened"))
        }
        DecisionError::MovedOn { id, .. } => hinted(
            Code::Stale,
            format!(
                "`banksman decisions show {id}` shows the new state and the `--seen N` to answer with"
            ),
        ),
        DecisionError::NeedsWords { id, action, .. } => {
            hinted(Code::Refused, format!("banksman decisions answer {id} {action} --note TEXT"))
        }
        DecisionError::NoPlaceForWords { .. } => {
            hinted(Code::Refused, "remove the note, or set a field with `--set FIELD=VALUE`")
        }
        DecisionError::NothingToAllow(id) => {
            hinted(Code::Refused, format!("`banksman decisions show {id}` lists the answers"))
        }
        DecisionError::OfRun => hinted(
            Code::Forbidden,
            "report what you need and stop; a person answers outside the run",
        ),
        DecisionError::NotAPerson(_) => {
            hinted(Code::Forbidden, "identify yourself with `--as human:NAME`")
        }
        DecisionError::DueBefore { .. } | DecisionError::TooLong => {
            hinted(Code::Refused, "choose a shorter time, or answer now")
        }
        DecisionError::StillOpen(id) => {
            hinted(Code::Refused, format!("banksman decisions show {id}"))
        }
        DecisionError::NotYours { .. } | DecisionError::TooLate { .. } => {
            hinted(Code::Refused, "`banksman move ID STATE` makes any allowed move")
        }
        DecisionError::GoneOn { task, .. } => {
            hinted(Code::Stale, format!("`banksman show {task}` lists the allowed moves"))
        }
        DecisionError::NoWayBack { task, .. } => {
            hinted(Code::Refused, format!("`banksman show {task}` lists the allowed moves"))
        }
    }
}

fn classify_library(error: &LibraryError) -> Class {
    match error {
        LibraryError::Unknown { .. } => {
            hinted(Code::NoLifecycle, "`banksman lifecycle list` lists the lifecycles")
        }
        LibraryError::Read { .. } => {
            hinted(Code::File, "check that the file exists and is readable")
        }
        LibraryError::Unsound(_) => {
            hinted(Code::InvalidLifecycle, "fix what `banksman lifecycle lint` reports")
        }
    }
}

fn classify_store(error: &StoreError) -> Class {
    match error {
        StoreError::Db(error) => (db_code(error), error.hint().map(str::to_owned)),
        StoreError::Rejected(rejected) => {
            let hint = match rejected.why {
                RejectReason::Invalid => missing_field(rejected),
                RejectReason::Forbidden => {
                    Some("identify yourself with `--as ROLE:NAME`".to_owned())
                }
                RejectReason::StaleLease | RejectReason::StaleVersion => {
                    Some("read the task again with `banksman show ID`, then retry".to_owned())
                }
            };
            (rejection_code(rejected), hint)
        }
        StoreError::NoTask(_) => hinted(Code::NoTask, "`banksman list` lists the tasks"),
        StoreError::KeyTaken { .. } => hinted(Code::KeyTaken, "use a new key for a new request"),
        StoreError::Corrupt { .. } => hinted(
            Code::DamagedTask,
            "`banksman check` and `banksman audit verify` show the details",
        ),
        StoreError::Bug { .. } => {
            hinted(Code::Bug, "please report it, with the output of `banksman version`")
        }
        StoreError::Definition { .. } | StoreError::NoDefinition(_) => {
            hinted(Code::DamagedTask, "`banksman check` lists the affected tasks")
        }
        StoreError::ProjectTaken(..) => {
            hinted(Code::ProjectTaken, "choose another name: `banksman init --name NAME`")
        }
    }
}

fn rejection_code(rejected: &Rejected) -> Code {
    match rejected.why {
        RejectReason::Invalid => Code::Refused,
        RejectReason::Forbidden => Code::Forbidden,
        RejectReason::StaleLease | RejectReason::StaleVersion => Code::Stale,
    }
}

/// The hint for a missing or invalid field. Fields that every task has need no hint.
fn missing_field(rejected: &Rejected) -> Option<String> {
    const OF_EVERY_TASK: [&str; 10] =
        ["to", "state", "title", "body", "tags", "priority", "needs", "batch", "key", "now"];
    let is_own = |error: &FieldError| !OF_EVERY_TASK.contains(&error.field.as_str());
    let has_own = rejected.errors.iter().any(is_own);
    has_own.then(|| "set a field with `--set FIELD=VALUE`".to_owned())
}

fn db_code(error: &DbError) -> Code {
    match error {
        DbError::Busy { .. } | DbError::Timeout { .. } => Code::Busy,
        DbError::Disconnected { .. } | DbError::Open { .. } => Code::Unreachable,
        DbError::CommitUnknown { .. } => Code::Unknown,
        DbError::Full { .. } => Code::Full,
        DbError::ReadOnly { .. } => Code::NoAccess,
        DbError::Corrupt { .. } | DbError::Column { .. } => Code::DamagedStore,
        DbError::NotADatabase { .. } | DbError::Foreign { .. } => Code::NotAStore,
        DbError::NewerSchema { .. } => Code::NewerStore,
        DbError::Target { .. } => Code::Settings,
        DbError::Migration { source, .. } => db_code(source),
        DbError::Other { .. } => Code::Database,
        DbError::Unique { .. }
        | DbError::WriteInRead
        | DbError::Nested
        | DbError::Panicked { .. }
        | DbError::Closed => Code::Bug,
    }
}
