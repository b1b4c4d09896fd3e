//! What the agent of a run may do with its run's folder: it appends reports and reads its task. The
//! store's address may hold a password, which no agent gets, so all of this works without a store.
//!
//! A report is one line, written with one call to an append-only file, so that several servers of
//! one run (an agent may start one for each subagent) do not mix their lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use banksman_core::ids::RunId;
use banksman_core::limits::{REPORTS, REPORTS_BYTES, REPORTS_KEPT_FREE};
use banksman_core::policy::Action;
use banksman_core::receipt::{AgentReport, TaskText};
use sha2::{Digest, Sha256};

use super::OpsError;
use super::principal::{Operation, Principal, RunCaller};
use crate::config::EnvVars;
use crate::exec::job::{AgentWork, JobSpec};
use crate::exec::keeper::{FileError, JobFolder, REPORTS_FILE};

/// The folder of a run, and its caller.
#[derive(Debug)]
pub struct RunFolder {
    folder: JobFolder,
    /// Has the run's task and its policy.
    spec: Option<JobSpec>,
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
        let folder = JobFolder::new(folder.clone());
        let spec = folder.spec()?;
        let token = spec.as_ref().and_then(|spec| spec.env.get(EnvVars::TOKEN));
        let is_proven = token.is_some_and(|token| Some(&*Sha256::digest(token)) == token_hash);
        let own = is_proven.then_some(run);
        let caller = Principal::Run(RunCaller { own, ..RunCaller::unproven(Some(&own_name)) });
        Ok(Self { run, caller, folder, spec })
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
        let path = self.folder.file(REPORTS_FILE);
        if append(&path).map_err(|source| FileError { action: "write", path, source })? {
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
        let Some(guard) = self.work().and_then(|work| work.ask.guard.as_deref()) else {
            return Err(OpsError::input("the run has no policy", "ask a person instead"));
        };
        let Some(request) = guard.stops(std::slice::from_ref(action)) else { return Ok(None) };
        let question = request.with_words(words).to_string();
        self.append(&AgentReport::NeedsPerson { question: question.clone() })?;
        Ok(Some(question))
    }

    pub fn task(&self) -> Result<Option<&TaskText>, OpsError> {
        self.may(Operation::ReadTask)?;
        Ok(self.work().map(|work| &work.about))
    }

    fn work(&self) -> Option<&AgentWork> {
        self.spec.as_ref().and_then(JobSpec::agent)
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
