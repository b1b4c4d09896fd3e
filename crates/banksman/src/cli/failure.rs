//! Why a command failed: the one table from errors to codes and hints. `report` shows it.

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
    /// A refusal for which there is better advice than the general one.
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
    #[error("there is no place for the store: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
    #[error("failed to write the answer")]
    Output(#[source] io::Error),
    #[error("failed to find our own program")]
    Program(#[source] io::Error),
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Wake(#[from] WakeError),
    #[error("`up` is already at work here, as process {pid}")]
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
                hint: "mend it until `banksman prompts lint` is content".to_owned(),
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

/// The message of a usage error without its colours and its tail.
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
            Self::Ops(error) => of_ops(error),
            Self::Argument { hint, .. } => hinted(Code::Usage, hint),
            Self::Input { hint, .. } => hinted(Code::Input, hint),
            Self::Refused { rejected, hint } => hinted(of_rejected(rejected), hint),
            Self::File { .. } => {
                hinted(Code::File, "check that the path is right and that you may use it")
            }
            Self::NoStore(_) => hinted(
                Code::NoStore,
                "`banksman init` makes it; `banksman config list` says where it is to be",
            ),
            Self::NoHome => hinted(Code::Settings, "say where it is: --store PATH"),
            Self::Output(_) | Self::Program(_) => (Code::File, None),
            Self::Engine(EngineError::Project { .. }) => {
                hinted(Code::Settings, "mend its .banksman/config.toml")
            }
            Self::Engine(
                EngineError::Store(_) | EngineError::Site(_) | EngineError::Mailbox(_),
            )
            | Self::Wake(_) => hinted(
                Code::File,
                "check the folder of runs: `banksman config get home`, and the space on its disk",
            ),
            Self::Note(NoteError::Place { .. }) => hinted(
                Code::Settings,
                "set `daily.folder` to a folder of your own, such as ~/notes",
            ),
            Self::Note(NoteError::Unusable { .. } | NoteError::File(_)) => {
                hinted(Code::File, "put a plain text file in its place, or move it away")
            }
            Self::AlreadyUp { .. } => {
                hinted(Code::Busy, "`banksman status` shows what it does, `banksman down` ends it")
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

    /// The reader of our output went away, as in `banksman list | head -1`. That is not an error.
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The task that somebody has named in place of a file.
fn named_task(path: &Path) -> Option<TaskId> {
    path.to_str()?.parse().ok()
}

fn of_ops(error: &OpsError) -> Class {
    match error {
        OpsError::Store(error) => of_store(error),
        OpsError::Library(error) => of_library(error),
        OpsError::Workflow(WorkflowError::Read { path, .. }) => match named_task(path) {
            Some(id) => hinted(
                Code::File,
                format!("a file is wanted; if you mean the task, `banksman up` goes on with {id}"),
            ),
            None => hinted(Code::File, "check that the file is there and that you may read it"),
        },
        OpsError::Workflow(WorkflowError::Unsound(_)) => {
            hinted(Code::UnsoundWorkflow, "mend it until `banksman workflow lint FILE` is content")
        }
        OpsError::Decision(error) => of_decision(error),
        OpsError::Id(_) => hinted(Code::Input, "a task's id is a number, with or without its `t`"),
        OpsError::Line { source, .. } => {
            let (code, _) = of_ops(source);
            hinted(
                code,
                "mend the line and import the file again: what is already there is not imported twice",
            )
        }
        OpsError::Input { hint, .. } => hinted(Code::Input, hint),
    }
}

fn of_decision(error: &DecisionError) -> Class {
    const INBOX: &str = "`banksman decisions` lists what is open";
    match error {
        DecisionError::Unknown(_)
        | DecisionError::NothingAsked(_)
        | DecisionError::NothingToUndo { .. } => hinted(Code::NoDecision, INBOX),
        DecisionError::NotOffered { id, .. } => {
            hinted(Code::Refused, format!("`banksman decisions show {id}` says what each would do"))
        }
        DecisionError::Settled { task, .. } => {
            hinted(Code::Stale, format!("`banksman history {task}` has all of it"))
        }
        DecisionError::MovedOn { id, .. } => hinted(
            Code::Stale,
            format!(
                "look again: `banksman decisions show {id}` says which `--seen N` to answer with"
            ),
        ),
        DecisionError::NeedsWords { id, action, .. } => {
            hinted(Code::Refused, format!("banksman decisions answer {id} {action} --note TEXT"))
        }
        DecisionError::NoPlaceForWords { .. } => {
            hinted(Code::Refused, "leave the note out, or give a field with `--set FIELD=VALUE`")
        }
        DecisionError::NothingToAllow(id) => {
            hinted(Code::Refused, format!("`banksman decisions show {id}` lists the answers"))
        }
        DecisionError::OfRun => hinted(
            Code::Forbidden,
            "report what you need and end; a person answers outside of the run",
        ),
        DecisionError::NotAPerson(_) => {
            hinted(Code::Forbidden, "say who you are with `--as human:NAME`")
        }
        DecisionError::DueBefore { .. } | DecisionError::TooLong => {
            hinted(Code::Refused, "choose a shorter time, or decide now")
        }
        DecisionError::StillOpen(id) => {
            hinted(Code::Refused, format!("banksman decisions show {id}"))
        }
        DecisionError::NotYours { .. } | DecisionError::TooLate { .. } => {
            hinted(Code::Refused, "`banksman move ID STATE` makes any move that is allowed")
        }
        DecisionError::GoneOn { task, .. } => {
            hinted(Code::Stale, format!("`banksman show {task}` says where you may move it"))
        }
        DecisionError::NoWayBack { task, .. } => {
            hinted(Code::Refused, format!("`banksman show {task}` says where you may move it"))
        }
    }
}

fn of_library(error: &LibraryError) -> Class {
    match error {
        LibraryError::Unknown { .. } => {
            hinted(Code::NoLifecycle, "`banksman lifecycle list` shows which there are")
        }
        LibraryError::Read { .. } => {
            hinted(Code::File, "check that the file is there and that you may read it")
        }
        LibraryError::Unsound(_) => {
            hinted(Code::UnsoundLifecycle, "mend it until `banksman lifecycle lint` is content")
        }
    }
}

fn of_store(error: &StoreError) -> Class {
    match error {
        StoreError::Db(error) => (of_db(error), error.hint().map(str::to_owned)),
        StoreError::Rejected(rejected) => {
            let hint = match rejected.why {
                RejectReason::Invalid => missing_field(rejected),
                RejectReason::Forbidden => Some("say who you are with `--as ROLE:NAME`".to_owned()),
                RejectReason::StaleLease | RejectReason::StaleVersion => {
                    Some("look again with `banksman show ID`, then decide anew".to_owned())
                }
            };
            (of_rejected(rejected), hint)
        }
        StoreError::NoTask(_) => hinted(Code::NoTask, "`banksman list` shows the tasks"),
        StoreError::KeyTaken { .. } => hinted(Code::KeyTaken, "use a new key for a new request"),
        StoreError::Corrupt { .. } => hinted(
            Code::DamagedTask,
            "`banksman check` and `banksman audit verify` say what is wrong",
        ),
        StoreError::Bug { .. } => {
            hinted(Code::Bug, "please report it, with the output of `banksman version`")
        }
        StoreError::Definition { .. } | StoreError::NoDefinition(_) => {
            hinted(Code::DamagedTask, "`banksman check` says which tasks it concerns")
        }
        StoreError::ProjectTaken(..) => {
            hinted(Code::ProjectTaken, "choose another name: `banksman init --name NAME`")
        }
    }
}

fn of_rejected(rejected: &Rejected) -> Code {
    match rejected.why {
        RejectReason::Invalid => Code::Refused,
        RejectReason::Forbidden => Code::Forbidden,
        RejectReason::StaleLease | RejectReason::StaleVersion => Code::Stale,
    }
}

/// What to do about a field that is missing or wrong; what is wrong with the rest says so itself.
fn missing_field(rejected: &Rejected) -> Option<String> {
    const OF_EVERY_TASK: [&str; 10] =
        ["to", "state", "title", "body", "tags", "priority", "needs", "batch", "key", "now"];
    let is_own = |error: &FieldError| !OF_EVERY_TASK.contains(&error.field.as_str());
    let has_own = rejected.errors.iter().any(is_own);
    has_own.then(|| "give a field with `--set FIELD=VALUE`".to_owned())
}

fn of_db(error: &DbError) -> Code {
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
        DbError::Migration { source, .. } => of_db(source),
        DbError::Other { .. } => Code::Database,
        DbError::Unique { .. }
        | DbError::WriteInRead
        | DbError::Nested
        | DbError::Panicked { .. }
        | DbError::Closed => Code::Bug,
    }
}
