//! Runs for people: their list, where they work and what they logged. It only reads, and opens
//! windows for people who ask for one.

mod follow;
mod location;
mod log;
mod tail;
mod window;

use banksman_core::ids::{RunId, TaskId};

use super::error_report::{Code, Hint};
use super::{OpsError, Session, tasks};
use crate::config::Agents;
use crate::exec::job::JobId;
use crate::exec::keeper::JobFolder;
use crate::exec::site::LocalSite;
use crate::store::runs::PastRun;

pub use crate::exec::agent::{AgentEvent, AgentUsage};
pub use crate::exec::window::WindowHost;
pub use follow::follow;
pub use location::RunLocation;
pub use log::{LogEntry, LogPart, LogView, ReadLog, TakeLog, read};
pub use window::{open_window, window_host};

/// The latest run of a task.
pub fn last(session: &Session, task: TaskId) -> Result<RunId, OpsError> {
    match tasks::find(session, task)?.task.epoch {
        0 => Err(no_run(format!("{task} has no runs yet"), Hint::Why(task))),
        epoch => Ok(RunId { task, epoch }),
    }
}

pub fn past(session: &Session, run: RunId) -> Result<PastRun, OpsError> {
    let mut runs = tasks::past_runs(session, run.task)?.into_iter();
    let found = runs.find(|past| past.epoch == run.epoch);
    let unknown = || no_run(format!("there is no run {run}"), Hint::ListRuns(run.task));
    found.ok_or_else(unknown)
}

/// The folder of a run of this machine; the error names the machine that has it.
fn folder(agents: &Agents, run: RunId, past: &PastRun) -> Result<JobFolder, OpsError> {
    if let Some(folder) = LocalSite::find(&agents.home, JobId::Run(run)) {
        return Ok(folder);
    }
    let (message, hint) = match &past.node {
        Some(node) if *node != agents.node => {
            let message = format!("the log of {run} is on machine `{node}`");
            return Err(OpsError::about(Code::OtherNode, message, Hint::LogThere(run)));
        }
        Some(_) if past.ended_at.is_none() => {
            (format!("{run} has not started yet"), Hint::WaitForRun(run))
        }
        Some(_) => (format!("the log of {run} was deleted"), Hint::ShowEnd(run.task)),
        None => (
            format!("{run} belongs to {}, a worker outside Banksman", past.worker),
            Hint::ShowHistory(run.task),
        ),
    };
    Err(no_run(message, hint))
}

fn no_run(message: String, hint: Hint) -> OpsError {
    OpsError::about(Code::NoRun, message, hint)
}
