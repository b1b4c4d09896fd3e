//! The jobs of this node: starts them, reports their status and ends them.
//!
//! The engine sees jobs only through [`Site`], so that a simulation can replace it.

mod local;

use std::io;
use std::path::PathBuf;

use banksman_core::receipt::Receipt;
use banksman_core::time::Instant;

pub use local::LocalSite;

use super::files::FileError;
use super::job::{JobId, JobSpec};
use super::worktree::mark::TaskWorktree;

/// The status of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobStatus {
    /// There is no folder, or a spec that no keeper has started on.
    Absent,
    Running,
    Ended(Box<Receipt>),
    /// The keeper died without a receipt; processes of the job may still run.
    Lost,
}

#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("failed to start the keeper of {job}")]
    Keeper {
        job: String,
        #[source]
        source: io::Error,
    },
    #[error("failed to read the receipt of {job}: {reason}")]
    Receipt { job: String, reason: String },
}

type Result<T, E = SiteError> = std::result::Result<T, E>;

/// The jobs of a node.
pub trait Site {
    /// Writes the job spec and starts the keeper. Does nothing for a job that runs or has ended, so
    /// it can be repeated after a crash.
    fn begin(&self, spec: &JobSpec) -> Result<()> {
        self.begin_if(spec, &mut || true)
    }
    /// Does the same if `may_begin` returns true. `may_begin` is called with the job locked: no
    /// other process can start the job meanwhile.
    fn begin_if(&self, spec: &JobSpec, may_begin: &mut dyn FnMut() -> bool) -> Result<()>;
    fn look(&self, job: JobId) -> Result<JobStatus>;
    /// Jobs that have ended or lost their keeper and are not archived yet.
    fn ended(&self) -> Result<Vec<JobId>>;
    /// Every job that has a folder and is not archived.
    fn jobs(&self) -> Result<Vec<JobId>>;
    /// Asks the keeper to end the job: the agent gets SIGTERM, and SIGKILL after its grace period.
    fn stop(&self, job: JobId, by: &str) -> Result<()>;
    /// Kills the keeper of a job that ignores a stop request, so that the rest of the job can be
    /// ended. Without keepers there is nothing to kill.
    fn kill_keeper(&self, _job: JobId) -> Result<()> {
        Ok(())
    }
    /// Ends the processes that a lost keeper left behind and returns how many there were. Finds
    /// them by the marker in their environment or by their cgroup, never by name.
    fn end_left_over(&self, job: JobId) -> Result<u32>;
    /// The worktrees of this node's tasks, in these repositories and in its home, including those
    /// that should be gone.
    fn worktrees(&self, _repos: &[PathBuf]) -> Result<Vec<TaskWorktree>> {
        Ok(Vec::new())
    }
    /// Archives a job whose end is recorded: it is no longer among the jobs. Its log stays for
    /// `log` until it expires.
    fn put_away(&self, job: JobId, now: Instant) -> Result<()>;
}
