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
            Self::Done => "it is done",
            Self::Failed => "it was refused, or it failed",
            Self::Usage => "the command line or the settings are wrong; nothing was done",
            Self::GaveUp => "it was cancelled, took too long, or waits for a person; go on later",
            Self::NoStore => {
                "the store cannot be used: missing, no permission, unreachable, full or damaged"
            }
            Self::Findings => {
                "a check found something wrong (check, audit verify, lifecycle lint, workflow lint)"
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// What went wrong, as programs tell it apart. A code keeps its meaning for ever.
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
    UnsoundLifecycle,
    UnsoundWorkflow,
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
        Self::UnsoundLifecycle,
        Self::UnsoundWorkflow,
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
            Self::Usage => ("BM-E001", Exit::Usage, "the command line cannot be understood"),
            Self::Settings => ("BM-E002", Exit::Usage, "a setting cannot be used"),
            Self::Input => ("BM-E003", Exit::Failed, "what was given cannot be used"),
            Self::File => ("BM-E004", Exit::Failed, "a file could not be read or written"),
            Self::Refused => (
                "BM-E010",
                Exit::Failed,
                "the lifecycle refuses it, with the fields that are wrong",
            ),
            Self::Forbidden => ("BM-E011", Exit::Failed, "the move exists, but not for this role"),
            Self::Stale => ("BM-E012", Exit::Failed, "the task has changed since it was looked at"),
            Self::KeyTaken => {
                ("BM-E013", Exit::Failed, "the idempotency key was used for another request")
            }
            Self::NoTask => ("BM-E014", Exit::Failed, "there is no such task"),
            Self::ProjectTaken => {
                ("BM-E015", Exit::Failed, "the project's name belongs to another folder")
            }
            Self::NoLifecycle => ("BM-E016", Exit::Failed, "there is no such lifecycle"),
            Self::UnsoundLifecycle => ("BM-E017", Exit::Failed, "the lifecycle is not sound"),
            Self::UnsoundWorkflow => ("BM-E018", Exit::Failed, "the workflow is not sound"),
            Self::NoDecision => ("BM-E019", Exit::Failed, "there is no such decision"),
            Self::NoStore => ("BM-E020", Exit::NoStore, "there is no store yet"),
            Self::NoAccess => ("BM-E021", Exit::NoStore, "the store may not be read or written"),
            Self::Unreachable => ("BM-E022", Exit::NoStore, "the store cannot be reached"),
            Self::NotAStore => ("BM-E023", Exit::NoStore, "the file is not a store"),
            Self::NewerStore => ("BM-E024", Exit::NoStore, "the store belongs to a newer version"),
            Self::DamagedStore => ("BM-E025", Exit::NoStore, "the store is damaged"),
            Self::Full => ("BM-E026", Exit::NoStore, "no space is left; nothing was changed"),
            Self::Busy => ("BM-E027", Exit::GaveUp, "another process held the store for too long"),
            Self::Unknown => (
                "BM-E028",
                Exit::Failed,
                "the connection broke at the end; look whether it was done",
            ),
            Self::DamagedTask => (
                "BM-E030",
                Exit::Failed,
                "one task of the store is damaged; the others are not touched by it",
            ),
            Self::Database => ("BM-E031", Exit::Failed, "the database failed in another way"),
            Self::Bug => ("BM-E099", Exit::Failed, "a fault of Banksman; nothing was changed"),
        }
    }
}
