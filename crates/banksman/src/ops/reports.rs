//! What the agent of a run may do with its run's folder: it appends reports and reads its task. The
//! store's address may hold a password, which no agent gets, so all of this works without a store.
//!
//! A report is one line, written with one call to an append-only file, so that several servers of
//! one run (an agent may start one for each subagent) do not mix their lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use banksman_core::ids::RunId;
use banksman_core::limits::{BODY_BYTES, REPORTS, REPORTS_BYTES, REPORTS_KEPT_FREE, TITLE_BYTES};
use banksman_core::policy::{Action, PolicyGuard};
use banksman_core::receipt::{AgentReport, TaskText};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::OpsError;
use super::principal::{Operation, Principal, RunCaller};
use crate::config::EnvVars;
use crate::exec::files::if_exists;
use crate::exec::keeper::{FileError, JobFolder};

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

/// The folder of a run, and its caller.
#[derive(Debug)]
pub struct RunFolder {
    folder: PathBuf,
    run: RunId,
    caller: Principal,
}

impl RunFolder {
    /// For a caller inside a run. Its token proves that it is this one; `name` is the run that its
    /// processes belong to, as far as that is known.
    pub fn open(
        folder: &Path,
        name: Option<&str>,
        token_hash: Option<&[u8]>,
    ) -> Result<Self, OpsError> {
        let refuse = |what| {
            let message = format!("`{}` is {what}", folder.display());
            OpsError::input(message, "leave BANKSMAN_RUN_FOLDER as the run has it")
        };
        // The folder itself, whatever link leads to it.
        let folder = folder.canonicalize().unwrap_or_default();
        let own_name = folder.file_name().unwrap_or_default().to_string_lossy();
        let run: RunId = own_name.parse().map_err(|_| refuse("not the folder of a run"))?;
        if name.is_some_and(|name| name != own_name) {
            return Err(refuse("the folder of another run"));
        }
        let spec = JobFolder::new(folder.clone()).spec()?;
        let token = spec.as_ref().and_then(|spec| spec.env.get(EnvVars::TOKEN));
        let is_proven = token.is_some_and(|token| Some(&*Sha256::digest(token)) == token_hash);
        let own = is_proven.then_some(run);
        let caller = Principal::Run(RunCaller { own, ..RunCaller::unproven(Some(&own_name)) });
        Ok(Self { run, caller, folder })
    }

    fn may(&self, operation: Operation) -> Result<(), OpsError> {
        Ok(self.caller.may(operation, Some(self.run.task))?)
    }

    /// Appends a report.
    pub fn report(&self, report: &AgentReport) -> Result<(), OpsError> {
        self.may(Operation::ReportRun)?;
        self.append(report)
    }

    fn append(&self, report: &AgentReport) -> Result<(), OpsError> {
        let mut line = serde_json::to_vec(report).expect("a report is plain data");
        line.push(b'\n');
        let append = |path: &Path| {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            let has_room = has_room(&file, report, line.len() as u64)?;
            if has_room {
                file.write_all(&line)?;
            }
            Ok(has_room)
        };
        if self.with_file("write", REPORTS_FILE, append)? {
            return Ok(());
        }
        let message = "this run has reached its limit of reports; continue without reporting";
        Err(OpsError::input(message, "the run reported too much"))
    }

    /// Checks whether an action needs permission, and if so records the question for a person.
    pub fn request_permission(
        &self,
        action: &Action,
        words: &str,
    ) -> Result<Option<String>, OpsError> {
        self.may(Operation::AskPermission)?;
        // A run may have no policy.
        let guard: Option<PolicyGuard> = self.read(GUARD_FILE, GUARD_BYTES)?;
        let request = guard.and_then(|guard| guard.stops(std::slice::from_ref(action)));
        let Some(request) = request else { return Ok(None) };
        let question = request.with_words(words).to_string();
        self.append(&AgentReport::NeedsPerson { question: question.clone() })?;
        Ok(Some(question))
    }

    /// None if the run has no such file: then the prompt says everything.
    pub fn task(&self) -> Result<Option<TaskText>, OpsError> {
        self.may(Operation::ReadTask)?;
        self.read(TASK_FILE, TASK_BYTES)
    }

    /// None if there is no such file.
    fn read<T: DeserializeOwned>(&self, name: &str, at_most: u64) -> Result<Option<T>, OpsError> {
        self.with_file("read", name, |path| {
            let Some(file) = if_exists(File::open(path))? else { return Ok(None) };
            let mut text = Vec::new();
            file.take(at_most).read_to_end(&mut text)?;
            serde_json::from_slice(&text).map(Some).map_err(io::Error::from)
        })
    }

    fn with_file<T>(
        &self,
        action: &'static str,
        name: &str,
        job: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, OpsError> {
        let path = self.folder.join(name);
        job(&path).map_err(|source| FileError { action, path, source }.into())
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
