//! Exit codes, and the one that each error code leads to.

use std::process::ExitCode;

use crate::ops::error_report::{Code, CodeKind};

/// How a command ended, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    GaveUp = 3,
    NoStore = 4,
    Findings = 5,
}

impl Exit {
    /// Every exit code, and what it means.
    pub(crate) const ALL: [(Self, &str); 6] = [
        (Self::Done, "success"),
        (Self::Failed, "the request was refused or failed"),
        (Self::Usage, "the command line or the settings are invalid; nothing was done"),
        (Self::GaveUp, "cancelled, timed out, or waiting for a person; try again later"),
        (Self::NoStore, "the store is missing, not permitted, unreachable, full or damaged"),
        (Self::Findings, "a check found problems (check, audit verify, workflow simulate, lints)"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<Code> for Exit {
    fn from(code: Code) -> Self {
        match code.kind() {
            CodeKind::Call => Self::Usage,
            CodeKind::Request => Self::Failed,
            CodeKind::Store => Self::NoStore,
            CodeKind::Busy => Self::GaveUp,
            CodeKind::Finding => Self::Findings,
        }
    }
}
