//! The folder of this node's jobs: beginning one, looking at it, ending it.
//!
//! The engine sees jobs only through [`Site`], so that a simulation can stand in its place.

mod local;

use std::io;
use std::path::PathBuf;

use banksman_core::receipt::Receipt;
use banksman_core::time::Instant;

pub use local::LocalSite;

use super::job::{JobId, JobSpec};
use super::keeper::FileError;
use super::worktree::mark::TaskWorktree;

/// What there is to be seen of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobStatus {
    /// There is no folder, or a plan that no keeper ever took up.
    Absent,
    Running,
    Ended(Box<Receipt>),
    /// The keeper is gone and has left no receipt; processes of the job may still be there.
    Lost,
}

#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error("failed to {action} `{}`", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to start the keeper of {job}")]
    Keeper {
        job: String,
        #[source]
        source: io::Error,
    },
    #[error("the receipt of {job} cannot be read: {reason}")]
    Receipt { job: String, reason: String },
}

impl From<FileError> for SiteError {
    fn from(FileError { action, path, source }: FileError) -> Self {
        Self::File { action, path, source }
    }
}

/// The jobs of a node.
pub trait Site {
    /// Writes the plan and starts the keeper. Does nothing for a job that is running or has ended,
    /// so it may be called again after a crash.
    fn begin(&self, plan: &JobSpec) -> Result<(), SiteError> {
        self.begin_if(plan, &mut || true)
    }
    /// The same, if that may be. Whoever is asked is the one whose plan is begun: nobody else can
    /// begin the job meanwhile.
    fn begin_if(
        &self,
        plan: &JobSpec,
        may_begin: &mut dyn FnMut() -> bool,
    ) -> Result<(), SiteError>;
    fn look(&self, job: JobId) -> Result<JobStatus, SiteError>;
    /// Jobs that have ended, or lost their keeper, and were not yet put away.
    fn ended(&self) -> Result<Vec<JobId>, SiteError>;
    /// Every job that has a folder and was not put away.
    fn jobs(&self) -> Result<Vec<JobId>, SiteError>;
    /// Asks the keeper to end the job: the agent is told first and killed after its grace.
    fn stop(&self, job: JobId, by: &str) -> Result<(), SiteError>;
    /// Kills the keeper of a job that does not do what it is asked for, so that what is left of the
    /// job can be ended. Where there are no keepers there is nothing to kill.
    fn kill_keeper(&self, _job: JobId) -> Result<(), SiteError> {
        Ok(())
    }
    /// Ends the processes that a lost keeper has left; answers how many there were. Finds them by
    /// the run that is written into their environment, or by their cgroup, never by their name.
    fn end_left_over(&self, job: JobId) -> Result<u32, SiteError>;
    /// The worktrees that tasks of this node have, or should no longer have, in these repositories
    /// and in its home.
    fn worktrees(&self, _repos: &[PathBuf]) -> Result<Vec<TaskWorktree>, SiteError> {
        Ok(Vec::new())
    }
    /// The end of the job is on record: it is no longer among the jobs. Its log stays for `log`
    /// until it is too old.
    fn put_away(&self, job: JobId, now: Instant) -> Result<(), SiteError>;
}
