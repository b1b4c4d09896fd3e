//! The part of a run's folder that its agent may use: it appends reports and reads its task.
//!
//! A report is one line, written with one call to an append-only file, so that several servers of
//! one run (an agent may start one for each subagent) do not mix their lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use banksman_core::limits::{BODY_BYTES, REPORTS, REPORTS_BYTES, REPORTS_KEPT_FREE, TITLE_BYTES};
use banksman_core::policy::{Action, PolicyGuard};
use banksman_core::receipt::AgentReport;
use serde::Deserialize;

use crate::ops::OpsError;

/// One [`AgentReport`] per line.
const REPORTS_FILE: &str = "reports.jsonl";
/// The run's task, written next to the job spec.
const TASK_FILE: &str = "task.json";
/// JSON needs at most six bytes for a byte of text.
const TASK_BYTES: u64 = 6 * (BODY_BYTES + TITLE_BYTES) as u64 + 1024;

/// The policy that applies to the run.
const GUARD_FILE: &str = "guard.json";
/// The largest policy file, with a reason for each rule.
const GUARD_BYTES: u64 = 4 * 1024 * 1024;

/// The answer to a request for permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    GoOn,
    /// The question, which a person must answer now.
    Asked(String),
}

#[derive(Debug)]
pub struct RunFolder {
    folder: PathBuf,
}

/// What the agent may know about its task.
#[derive(Debug, Deserialize)]
pub(super) struct TaskText {
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ReportError {
    #[error("this run has reached its limit of reports; continue without reporting")]
    Full,
    #[error("failed to write the report")]
    File(#[source] io::Error),
}

impl RunFolder {
    /// The folder of the run that the caller's processes belong to, as far as that is known.
    pub fn open(folder: &Path, run: Option<&str>) -> Result<Self, OpsError> {
        // The folder itself, whatever link leads to it.
        let real = folder.canonicalize().unwrap_or_default();
        if run.is_none_or(|run| real.file_name().is_some_and(|name| name == run)) {
            return Ok(Self { folder: real });
        }
        let message = format!("`{}` is the folder of another run", folder.display());
        Err(OpsError::input(message, "leave BANKSMAN_RUN_FOLDER as the run has it"))
    }

    pub(super) fn report(&self, report: &AgentReport) -> Result<(), ReportError> {
        let path = self.folder.join(REPORTS_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(ReportError::File)?;
        let mut line = serde_json::to_vec(report).expect("a report is plain data");
        line.push(b'\n');
        if !has_room(&file, report, line.len() as u64).map_err(ReportError::File)? {
            return Err(ReportError::Full);
        }
        file.write_all(&line).map_err(ReportError::File)
    }

    /// Checks whether an action needs permission, and if so records the question for a person. The
    /// error is for the agent.
    pub fn request_permission(&self, action: &Action, words: &str) -> Result<Permission, String> {
        let guard = self.guard().map_err(|error| format!("failed to read the policy: {error}"))?;
        let Some(guard) = guard else { return Ok(Permission::GoOn) };
        let Some(request) = guard.stops(std::slice::from_ref(action)) else {
            return Ok(Permission::GoOn);
        };
        let question = request.with_words(words).to_string();
        self.report(&AgentReport::NeedsPerson { question: question.clone() }).map_err(|error| {
            match error {
                ReportError::Full => error.to_string(),
                ReportError::File(ref cause) => format!("{error}: {cause}"),
            }
        })?;
        Ok(Permission::Asked(question))
    }

    /// None for a run without a policy.
    fn guard(&self) -> io::Result<Option<PolicyGuard>> {
        let file = match File::open(self.folder.join(GUARD_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(GUARD_BYTES).read_to_end(&mut text)?;
        serde_json::from_slice(&text).map(Some).map_err(io::Error::from)
    }

    /// None if the run has no such file: then the prompt says everything.
    pub(super) fn task(&self) -> io::Result<Option<TaskText>> {
        let file = match File::open(self.folder.join(TASK_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(TASK_BYTES).read_to_end(&mut text)?;
        serde_json::from_slice(&text).map(Some).map_err(io::Error::from)
    }
}

/// The limits may be exceeded by one report per server that writes at the same moment.
fn has_room(file: &File, report: &AgentReport, more: u64) -> io::Result<bool> {
    let kept_free = match report {
        AgentReport::Progress { .. } => REPORTS_KEPT_FREE,
        AgentReport::NeedsPerson { .. } | AgentReport::NothingToDo { .. } => 0,
    };
    let share = |of: u64| of - of * kept_free as u64 / REPORTS as u64;
    if file.metadata()?.len() + more > share(REPORTS_BYTES) {
        return Ok(false);
    }
    let mut written = Vec::new();
    file.take(REPORTS_BYTES).read_to_end(&mut written)?;
    let lines = written.iter().filter(|byte| **byte == b'\n').count();
    Ok(lines < REPORTS - kept_free)
}
