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
use serde::de::DeserializeOwned;

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

    /// Appends a report. The error is for the agent.
    pub(super) fn report(&self, report: &AgentReport) -> Result<(), String> {
        match self.append(report) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err("this run has reached its limit of reports; continue without reporting"
                    .to_owned())
            }
            Err(error) => Err(format!("failed to write the report: {error}")),
        }
    }

    /// Returns whether there was room for the report.
    fn append(&self, report: &AgentReport) -> io::Result<bool> {
        let path = self.folder.join(REPORTS_FILE);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut line = serde_json::to_vec(report).expect("a report is plain data");
        line.push(b'\n');
        let has_room = has_room(&file, report, line.len() as u64)?;
        if has_room {
            file.write_all(&line)?;
        }
        Ok(has_room)
    }

    /// Checks whether an action needs permission, and if so records the question for a person. The
    /// error is for the agent.
    pub fn request_permission(
        &self,
        action: &Action,
        words: &str,
    ) -> Result<Option<String>, String> {
        // A run may have no policy.
        let guard: Option<PolicyGuard> = self
            .read(GUARD_FILE, GUARD_BYTES)
            .map_err(|error| format!("failed to read the policy: {error}"))?;
        let request = guard.and_then(|guard| guard.stops(std::slice::from_ref(action)));
        let Some(request) = request else { return Ok(None) };
        let question = request.with_words(words).to_string();
        self.report(&AgentReport::NeedsPerson { question: question.clone() })?;
        Ok(Some(question))
    }

    /// None if the run has no such file: then the prompt says everything.
    pub(super) fn task(&self) -> io::Result<Option<TaskText>> {
        self.read(TASK_FILE, TASK_BYTES)
    }

    /// None if there is no such file.
    fn read<T: DeserializeOwned>(&self, name: &str, at_most: u64) -> io::Result<Option<T>> {
        let file = match File::open(self.folder.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(at_most).read_to_end(&mut text)?;
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
