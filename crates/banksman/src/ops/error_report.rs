//! Failures for every surface: a code, a message with its causes, and a hint. This is the one table
//! from errors to codes and hints; a surface only phrases them.

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

use banksman_core::ids::{DecisionId, RunId, TaskId};
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::problem::Problems;
use banksman_core::machine::{FieldError, RejectReason, Rejected};

use super::OpsError;
use super::decisions::DecisionError;
use super::library::LibraryError;
use super::workflows::{ReportedOutcome, WorkflowError};
use crate::config::ConfigError;
use crate::exec::note::NoteError;
use crate::exec::window::WindowHost;
use crate::prompts::PromptError;
use crate::store::StoreError;
use crate::store::conn::DbError;
use crate::store::feed::CursorError;

/// Fields that need no hint.
const OF_EVERY_TASK: [&str; 10] =
    ["to", "state", "title", "body", "tags", "priority", "needs", "batch", "key", "now"];
/// The most causes that are reported.
const CAUSES: usize = 9;

pub(crate) const CHECK_PATH: &str = "check the path and its permissions";

/// What a failure is about; surfaces derive their own codes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeKind {
    /// The call or the setup is wrong.
    Call,
    Request,
    Store,
    /// The same may succeed later.
    Busy,
    /// It was done, and found problems.
    Finding,
}

macro_rules! codes {
    ($($name:ident $kind:ident $number:literal $meaning:literal)*) => {
        /// The kind of failure, for programs. A code never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                self.row().0
            }

            pub fn kind(self) -> CodeKind {
                self.row().1
            }

            pub fn meaning(self) -> &'static str {
                self.row().2
            }

            fn row(self) -> (&'static str, CodeKind, &'static str) {
                match self {
                    $(Self::$name => ($number, CodeKind::$kind, $meaning),)*
                }
            }
        }
    };
}

codes! {
    Usage Call "BM-E001" "the command line is invalid"
    Settings Call "BM-E002" "a setting is invalid"
    Input Request "BM-E003" "the input is invalid"
    File Request "BM-E004" "a file could not be read or written"
    Refused Request "BM-E010" "the lifecycle refuses the request; the message names the fields"
    Forbidden Request "BM-E011" "the caller or its role may not do this"
    Stale Request "BM-E012" "the task has changed since it was read"
    KeyTaken Request "BM-E013" "the idempotency key was used for another request"
    NoTask Request "BM-E014" "there is no such task"
    ProjectTaken Request "BM-E015" "the project name belongs to another folder"
    NoLifecycle Request "BM-E016" "there is no such lifecycle"
    InvalidLifecycle Request "BM-E017" "the lifecycle is invalid"
    InvalidWorkflow Request "BM-E018" "the workflow is invalid"
    NoDecision Request "BM-E019" "there is no such decision"
    NoStore Store "BM-E020" "there is no store yet"
    NoAccess Store "BM-E021" "no permission to read or write the store"
    Unreachable Store "BM-E022" "the store cannot be reached"
    NotAStore Store "BM-E023" "the file is not a store"
    NewerStore Store "BM-E024" "the store was written by a newer version"
    DamagedStore Store "BM-E025" "the store is damaged"
    Full Store "BM-E026" "the disk is full; nothing was changed"
    Busy Busy "BM-E027" "another process kept the store locked for too long"
    Unknown Request "BM-E028" "the connection broke during the commit; check whether the change was made"
    LostPlace Request "BM-E029" "the changes after the cursor are not all kept; start at the current end"
    DamagedTask Request "BM-E030" "one task in the store is damaged; the others are not affected"
    Database Request "BM-E031" "another database error"
    NoRun Request "BM-E032" "there is no such run, or its log is gone"
    OtherNode Request "BM-E033" "the log of the run is on another machine"
    NotAnId Call "BM-E034" "that is not an id"
    NoPrompt Request "BM-E035" "there is no such prompt"
    InvalidPrompt Request "BM-E036" "a prompt template is invalid"
    InvalidPolicy Request "BM-E037" "the policy is invalid"
    NoWorkflow Request "BM-E038" "there is no such workflow, or no such step in it"
    NotACursor Request "BM-E039" "that is not a cursor of the feed"
    NotText Request "BM-E040" "a file or a line of it is too large, or is not text in UTF-8"
    Found Finding "BM-E041" "a check found problems"
    Incomplete Request "BM-E042" "part of it was not done; the message says which"
    Unfinished Busy "BM-E043" "it is not finished or waits for a person; what was started goes on"
    NeedsPermission Request "BM-E044" "the action needs a permission"
    NoName Request "BM-E045" "nothing of that kind has that name"
    NameTaken Request "BM-E046" "the name is already used"
    Bug Request "BM-E099" "a bug in Banksman; nothing was changed"
}

/// What a person can do next. A surface phrases it in its own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    ListCommands,
    CreateStore,
    ChooseStore,
    CheckHome,
    /// An `up` is running.
    SeeUp,
    /// A task was named where a file is expected.
    ContinueTask,
    ListTasks,
    /// The given text is no cursor of the feed.
    GiveCursor,
    /// The feed no longer has that place.
    StartAtEnd,
    ShowMoves(TaskId),
    ShowHistory(TaskId),
    Why(TaskId),
    ListRuns(TaskId),
    /// The log of a run is on another machine.
    LogThere(RunId),
    WaitForRun(RunId),
    ShowEnd(TaskId),
    RunInside(WindowHost),
    ReadTaskAgain,
    MoveTask,
    SetField,
    /// The fields are facts, which nobody types.
    OverrideFact,
    /// The caller's role may not do this.
    ActAs,
    /// Only a person may do this.
    AskPerson,
    ListDecisions,
    ShowAnswers(DecisionId),
    ShowNewState(DecisionId),
    UndoAnswer(DecisionId),
    AnswerWithNote(DecisionId, String),
    /// The same command with words.
    SteerWithWords(TaskId, Trigger),
    DropNote,
    ListLifecycles,
    ListSettingsFiles,
    ListPrompts,
    ListWorkflows,
    /// A workflow that was never started; its name, if one was meant.
    StartWorkflow(Option<String>),
    NameWorkflowFile,
    /// Tasks are imported as an export writes them.
    WriteTaskLines,
    /// What can be reported on a step instead.
    ReportInstead(Box<ReportInstead>),
    Lint(LintedFiles),
    CheckStore,
    ListDamaged,
    RenameProject,
    ReportBug,
    Text(Cow<'static, str>),
}

impl Hint {
    /// A hint that names no command, so that it is the same on every surface.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Files that have a check of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LintedFiles {
    Lifecycles,
    Workflows,
    Prompts,
}

/// Why a report on a step is not possible, and which ones are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportInstead {
    NeedsNote,
    Words {
        task: TaskId,
        step: String,
        /// The status of the step.
        status: String,
        role: String,
        /// None if this role has nothing to report.
        words: Vec<ReportedOutcome>,
    },
}

impl From<&'static str> for Hint {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// A failure as surfaces report it.
#[derive(Debug, Clone)]
pub struct ErrorReport {
    pub code: Code,
    pub hint: Option<Hint>,
    pub message: String,
    /// Without causes that repeat an earlier one.
    pub causes: Vec<String>,
    /// What a refusal says about each field; empty for everything else.
    pub errors: Vec<FieldError>,
    /// The moves that a refused task can make instead.
    pub allowed: Vec<String>,
    /// What is wrong with a file; the message says the same in words.
    pub in_file: Option<Box<Problems>>,
}

impl ErrorReport {
    pub fn new(code: Code, hint: impl Into<Option<Hint>>, error: &dyn Error) -> Self {
        let mut messages = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(error) = cause.filter(|_| messages.len() <= CAUSES) {
            let text = error.to_string();
            if !messages.iter().any(|said| said.contains(&text)) {
                messages.push(text);
            }
            cause = error.source();
        }
        let causes = messages.split_off(1);
        let (message, hint) = (messages.concat(), hint.into());
        let (errors, allowed) = (Vec::new(), Vec::new());
        Self { code, hint, message, causes, errors, allowed, in_file: None }
    }

    /// The message and its causes.
    pub fn one_line(&self) -> String {
        let causes = self.causes.iter().map(|cause| format!(": {cause}"));
        self.message.clone() + &causes.collect::<String>()
    }
}

impl From<&OpsError> for ErrorReport {
    fn from(error: &OpsError) -> Self {
        let (code, hint) = of_ops(error);
        let mut problem = Self::new(code, hint, error);
        if let OpsError::Store(StoreError::Rejected(rejected))
        | OpsError::NeedsWords { rejected, .. } = error
        {
            problem.errors.clone_from(&rejected.errors);
            problem.allowed.clone_from(&rejected.allowed);
        }
        if let OpsError::Library(LibraryError::Unsound(problems))
        | OpsError::Workflow(WorkflowError::Unsound(problems)) = error
        {
            problem.in_file = Some(problems.clone());
        }
        problem
    }
}

fn of_ops(error: &OpsError) -> (Code, Option<Hint>) {
    let (code, hint) = match error {
        OpsError::Store(error) => return of_store(error),
        OpsError::Library(error) => of_library(error),
        OpsError::Workflow(WorkflowError::Read { path, .. }) if is_task(path) => {
            (Code::File, Hint::ContinueTask)
        }
        OpsError::Workflow(WorkflowError::Read { source, .. }) => of_read(source),
        OpsError::Workflow(WorkflowError::Unsound(_)) => {
            (Code::InvalidWorkflow, Hint::Lint(LintedFiles::Workflows))
        }
        OpsError::Decision(error) => of_decision(error),
        OpsError::NeedsWords { task, trigger, .. } => {
            (Code::Refused, Hint::SteerWithWords(*task, *trigger))
        }
        OpsError::Forbidden(error) if error.is_of_run => (
            Code::Forbidden,
            Hint::from("report what you need and stop; a person does this outside the run"),
        ),
        OpsError::Forbidden(_) => (Code::Forbidden, Hint::AskPerson),
        OpsError::Id(_) => {
            (Code::NotAnId, "a task id is a number, with or without a leading `t`".into())
        }
        OpsError::Line { source, .. } => (
            of_ops(source).0,
            "fix the line and import the file again; imported tasks are not added twice".into(),
        ),
        OpsError::Settings(error) => (Code::Settings, of_settings(error)),
        OpsError::Prompt(PromptError::Unsound { .. }) => {
            (Code::InvalidPrompt, Hint::Lint(LintedFiles::Prompts))
        }
        OpsError::Prompt(PromptError::Read { .. })
        | OpsError::File(_)
        | OpsError::Note(NoteError::File(_)) => (Code::File, CHECK_PATH.into()),
        OpsError::Site(_) => (Code::File, Hint::CheckHome),
        OpsError::Note(NoteError::Place { .. }) => (
            Code::Settings,
            "set `daily.folder` to a folder outside your projects, such as ~/notes".into(),
        ),
        OpsError::Note(NoteError::Unusable { .. }) => {
            (Code::File, "replace it with a plain text file, or move it away".into())
        }
        OpsError::Input { code, hint, .. } => (*code, hint.clone()),
    };
    (code, Some(hint))
}

/// A file that could not be read, or is not such a text as is expected.
pub(crate) fn of_read(error: &io::Error) -> (Code, Hint) {
    match error.kind() {
        ErrorKind::FileTooLarge => (Code::NotText, "put the long part into another file".into()),
        ErrorKind::InvalidData => (Code::NotText, "save it as text in UTF-8".into()),
        _ => (Code::File, CHECK_PATH.into()),
    }
}

fn of_settings(error: &ConfigError) -> Hint {
    match error {
        ConfigError::Value { hint, .. } => hint.clone().into(),
        ConfigError::Read { .. } => Hint::ListSettingsFiles,
        ConfigError::Variable { .. } => "set it to UTF-8 text, or unset it".into(),
        ConfigError::Folder(_) => "change to a folder that exists".into(),
    }
}

/// Whether a task was named where a file is expected.
fn is_task(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.parse::<TaskId>().is_ok())
}

fn of_decision(error: &DecisionError) -> (Code, Hint) {
    match error {
        DecisionError::Unknown(_)
        | DecisionError::NothingAsked(_)
        | DecisionError::NothingToUndo { .. } => (Code::NoDecision, Hint::ListDecisions),
        DecisionError::NotOffered { id, .. }
        | DecisionError::NothingToAllow(id)
        | DecisionError::StillOpen(id) => (Code::Refused, Hint::ShowAnswers(*id)),
        DecisionError::Settled { task, .. } => (Code::Stale, Hint::ShowHistory(*task)),
        DecisionError::Answered { id, .. } => (Code::Stale, Hint::UndoAnswer(*id)),
        DecisionError::MovedOn { id, .. } => (Code::Stale, Hint::ShowNewState(*id)),
        DecisionError::NeedsWords { id, action, .. } => {
            (Code::Refused, Hint::AnswerWithNote(*id, action.clone()))
        }
        DecisionError::NoPlaceForWords { .. } => (Code::Refused, Hint::DropNote),
        DecisionError::OfRun => (
            Code::Forbidden,
            "report what you need and stop; a person answers outside the run".into(),
        ),
        DecisionError::NotAPerson(_) => (Code::Forbidden, Hint::AskPerson),
        DecisionError::DueBefore { .. } | DecisionError::TooLong => {
            (Code::Refused, "choose a shorter time, or answer now".into())
        }
        DecisionError::NotYours { .. } | DecisionError::TooLate { .. } => {
            (Code::Refused, Hint::MoveTask)
        }
        DecisionError::GoneOn { task, .. } => (Code::Stale, Hint::ShowMoves(*task)),
        DecisionError::NoWayBack { task, .. } => (Code::Refused, Hint::ShowMoves(*task)),
    }
}

fn of_library(error: &LibraryError) -> (Code, Hint) {
    match error {
        LibraryError::Unknown { .. } => (Code::NoLifecycle, Hint::ListLifecycles),
        LibraryError::Read { source, .. } => of_read(source),
        LibraryError::Unsound(_) => (Code::InvalidLifecycle, Hint::Lint(LintedFiles::Lifecycles)),
    }
}

fn of_store(error: &StoreError) -> (Code, Option<Hint>) {
    let (code, hint) = match error {
        StoreError::Db(error) => return of_database(error),
        StoreError::Rejected(rejected) => return of_rejection(rejected),
        StoreError::Cursor(CursorError::NotACursor(_)) => (Code::NotACursor, Hint::GiveCursor),
        StoreError::Cursor(CursorError::TooOld(_) | CursorError::Foreign(_)) => {
            (Code::LostPlace, Hint::StartAtEnd)
        }
        StoreError::NoTask(_) => (Code::NoTask, Hint::ListTasks),
        StoreError::KeyTaken { .. } => (Code::KeyTaken, "use a new key for a new request".into()),
        StoreError::Corrupt { .. } => (Code::DamagedTask, Hint::CheckStore),
        StoreError::Bug { .. } => (Code::Bug, Hint::ReportBug),
        StoreError::Definition { .. } | StoreError::NoDefinition(_) => {
            (Code::DamagedTask, Hint::ListDamaged)
        }
        StoreError::ProjectTaken(..) => (Code::ProjectTaken, Hint::RenameProject),
    };
    (code, Some(hint))
}

fn of_rejection(rejected: &Rejected) -> (Code, Option<Hint>) {
    match rejected.why {
        RejectReason::Invalid => {
            let is_own = |error: &FieldError| !OF_EVERY_TASK.contains(&error.field.as_str());
            let is_fact =
                |error: &FieldError| Field::named(&error.field).is_some_and(Field::is_fact);
            let mut own = rejected.errors.iter().filter(|error| is_own(error)).peekable();
            let hint = own.peek().is_some().then(|| match own.all(is_fact) {
                true => Hint::OverrideFact,
                false => Hint::SetField,
            });
            (Code::Refused, hint)
        }
        RejectReason::Forbidden => (Code::Forbidden, Some(Hint::ActAs)),
        RejectReason::StaleLease | RejectReason::StaleVersion => {
            (Code::Stale, Some(Hint::ReadTaskAgain))
        }
    }
}

fn of_database(error: &DbError) -> (Code, Option<Hint>) {
    let (code, hint) = match error {
        DbError::Busy { .. } | DbError::Conflict => {
            (Code::Busy, "another process is using the store; wait for it to finish, or end it")
        }
        DbError::Timeout { .. } => {
            (Code::Busy, "the database is overloaded, or its statement timeout is too short")
        }
        DbError::Disconnected { .. } => {
            (Code::Unreachable, "check that the database server is running")
        }
        DbError::Open { .. } => (Code::Unreachable, "check the path or the address of the store"),
        DbError::CommitUnknown { .. } => {
            (Code::Unknown, "check whether the change was made before you try again")
        }
        DbError::Full { .. } => (Code::Full, "free some space on the disk that holds the store"),
        DbError::ReadOnly { .. } => {
            (Code::NoAccess, "check the owner and the permissions of the file and of its folder")
        }
        DbError::Corrupt { .. } => (
            Code::DamagedStore,
            "restore the store from a backup; keep the damaged file, parts of it may be readable",
        ),
        DbError::NotADatabase { .. } | DbError::Foreign { .. } => {
            (Code::NotAStore, "choose another path; this file was left as it is")
        }
        DbError::NewerSchema { .. } => {
            (Code::NewerStore, "the store was used by a newer banksman; upgrade this one")
        }
        DbError::Target { .. } => {
            (Code::Settings, "write a path, sqlite:PATH or postgres://USER@HOST/DATABASE")
        }
        DbError::Migration { source, .. } => return of_database(source),
        DbError::Column { .. } => return (Code::DamagedStore, None),
        DbError::Other { .. } => return (Code::Database, None),
        DbError::Unique { .. }
        | DbError::WriteInRead
        | DbError::Nested
        | DbError::Panicked { .. }
        | DbError::Closed => return (Code::Bug, None),
    };
    (code, Some(hint.into()))
}
