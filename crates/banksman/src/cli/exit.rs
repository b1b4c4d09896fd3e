//! Exit codes and error codes: one table for the program, its help and its manual.

use std::process::ExitCode;

/// How a command ended, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    GaveUp,
    NoStore,
    Findings,
}

impl Exit {
    pub(crate) const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::Usage, Self::GaveUp, Self::NoStore, Self::Findings];

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::GaveUp => 3,
            Self::NoStore => 4,
            Self::Findings => 5,
        }
    }

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Failed => "the request was refused or failed",
            Self::Usage => "the command line or the settings are invalid; nothing was done",
            Self::GaveUp => "cancelled, timed out, or waiting for a person; try again later",
            Self::NoStore => {
                "the store is unusable: missing, not permitted, unreachable, full or damaged"
            }
            Self::Findings => {
                "a check found problems (check, audit verify, lifecycle lint, workflow lint)"
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// What went wrong, for programs. A code never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Usage,
    Settings,
    Input,
    File,
    Refused,
    Forbidden,
    Stale,
    KeyTaken,
    NoTask,
    ProjectTaken,
    NoLifecycle,
    InvalidLifecycle,
    InvalidWorkflow,
    NoDecision,
    NoStore,
    NoAccess,
    Unreachable,
    NotAStore,
    NewerStore,
    DamagedStore,
    Full,
    Busy,
    Unknown,
    DamagedTask,
    Database,
    Bug,
}

impl Code {
    pub(crate) const ALL: [Self; 26] = [
        Self::Usage,
        Self::Settings,
        Self::Input,
        Self::File,
        Self::Refused,
        Self::Forbidden,
        Self::Stale,
        Self::KeyTaken,
        Self::NoTask,
        Self::ProjectTaken,
        Self::NoLifecycle,
        Self::InvalidLifecycle,
        Self::InvalidWorkflow,
        Self::NoDecision,
        Self::NoStore,
        Self::NoAccess,
        Self::Unreachable,
        Self::NotAStore,
        Self::NewerStore,
        Self::DamagedStore,
        Self::Full,
        Self::Busy,
        Self::Unknown,
        Self::DamagedTask,
        Self::Database,
        Self::Bug,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn exit(self) -> Exit {
        self.row().1
    }

    pub(crate) fn meaning(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, Exit, &'static str) {
        match self {
            Self::Usage => ("BM-E001", Exit::Usage, "the command line is invalid"),
            Self::Settings => ("BM-E002", Exit::Usage, "a setting is invalid"),
            Self::Input => ("BM-E003", Exit::Failed, "the input is invalid"),
            Self::File => ("BM-E004", Exit::Failed, "a file could not be read or written"),
            Self::Refused => (
                "BM-E010",
                Exit::Failed,
                "the lifecycle refuses the request; the message names the fields",
            ),
            Self::Forbidden => {
                ("BM-E011", Exit::Failed, "the transition is not allowed for this role")
            }
            Self::Stale => ("BM-E012", Exit::Failed, "the task has changed since it was read"),
            Self::KeyTaken => {
                ("BM-E013", Exit::Failed, "the idempotency key was used for another request")
            }
            Self::NoTask => ("BM-E014", Exit::Failed, "there is no such task"),
            Self::ProjectTaken => {
                ("BM-E015", Exit::Failed, "the project name belongs to another folder")
            }
            Self::NoLifecycle => ("BM-E016", Exit::Failed, "there is no such lifecycle"),
            Self::InvalidLifecycle => ("BM-E017", Exit::Failed, "the lifecycle is invalid"),
            Self::InvalidWorkflow => ("BM-E018", Exit::Failed, "the workflow is invalid"),
            Self::NoDecision => ("BM-E019", Exit::Failed, "there is no such decision"),
            Self::NoStore => ("BM-E020", Exit::NoStore, "there is no store yet"),
            Self::NoAccess => {
                ("BM-E021", Exit::NoStore, "no permission to read or write the store")
            }
            Self::Unreachable => ("BM-E022", Exit::NoStore, "the store cannot be reached"),
            Self::NotAStore => ("BM-E023", Exit::NoStore, "the file is not a store"),
            Self::NewerStore => {
                ("BM-E024", Exit::NoStore, "the store was written by a newer version")
            }
            Self::DamagedStore => ("BM-E025", Exit::NoStore, "the store is damaged"),
            Self::Full => ("BM-E026", Exit::NoStore, "the disk is full; nothing was changed"),
            Self::Busy => {
                ("BM-E027", Exit::GaveUp, "another process kept the store locked for too long")
            }
            Self::Unknown => (
                "BM-E028",
                Exit::Failed,
                "the connection broke during the commit; check whether the change was made",
            ),
            Self::DamagedTask => (
                "BM-E030",
                Exit::Failed,
                "one task in the store is damaged; the others are not affected",
            ),
            Self::Database => ("BM-E031", Exit::Failed, "another database error"),
            Self::Bug => ("BM-E099", Exit::Failed, "a bug in Banksman; nothing was changed"),
        }
    }
}
