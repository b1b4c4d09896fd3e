//! The keeper: one small process per job, which owns the job from its spec to its receipt and
//! outlives the control plane.
//!
//! It prepares the worktree, runs the agent, gathers the evidence and writes the receipt. It never
//! opens the store: a short-lived child renews its lease. It has one loop and no threads, and the
//! processes that it started can be ended without it: see [`super::site`]. Its standard input is
//! the lock on its folder, which no child inherits.

mod agent_turn;
pub(in crate::exec) mod cgroup;
mod folder;
mod inspect;
mod join;
mod lease;
mod lines;
mod log;
mod mailbox;
mod program;
mod pull;
mod signal;
mod stages;
mod status;
pub(in crate::exec) mod tree;
mod wake;
mod watch;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant as Moment};

use banksman_core::receipt::{EndCause, Receipt};
use rustix::process::{getpid, setsid};

pub use super::files::FileError;
pub use folder::{ERR_FILE, JobFolder, KeeperStart, OUT_FILE, REPORTS_FILE, StopRequest};
pub use lines::Lines;
pub use status::{KeeperStatus, Stage};

use super::files::with_cause;
use super::job::JobSpec;
use crate::clock;
use crate::config::{EnvVars, Environment};
use cgroup::Cgroup;
use lease::{LeaseRenewal, millis};
use status::KeeperStatusWriter;
use wake::Wake;

/// In the environment of everything that a job starts: the job's name and a random number.
pub const MARKER: &str = EnvVars::RUN;
/// The hidden subcommand.
pub const COMMAND: &str = crate::config::KEEPER;

/// The keeper retries to write a receipt for a minute: the disk may be full, and the work must not
/// be lost.
const RECEIPT_TRIES: u32 = 60;
const BETWEEN_RECEIPT_TRIES: Duration = Duration::from_secs(1);

/// The job's folder, if these are the arguments of a keeper. `main` asks this before it sets
/// anything else up, so that a keeper stays small.
pub fn folder_in(mut args: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let command = args.nth(1)?;
    let folder = args.next()?;
    (command == COMMAND && args.next().is_none()).then(|| folder.into())
}

/// Runs the whole job.
pub fn run(folder: &Path) -> ExitCode {
    match run_job(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} {}", clock::now(), with_cause(&error));
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum KeeperError {
    #[error("a keeper must be started by banksman, with the lock of its folder as standard input")]
    NoLock,
    #[error("the folder has no job spec (`job.json`)")]
    NoSpec,
    #[error("failed to {action}")]
    SetUp {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

fn run_job(folder: &Path) -> Result<(), KeeperError> {
    let folder =
        folder.canonicalize().map_err(|source| setup_error("find the job's folder", source))?;
    let folder = JobFolder::new(folder);
    if !holds_lock(&folder) {
        return Err(KeeperError::NoLock);
    }
    if folder.begun()?.is_some() {
        // Another keeper started this job and died. Processes that it started may still run.
        return Ok(());
    }
    let mut spec = match folder.spec() {
        Ok(Some(spec)) => spec,
        Ok(None) => return Err(KeeperError::NoSpec),
        // A retry would fail in the same way, so the job ends here.
        Err(error) => {
            folder.write_receipt(&invalid_spec_receipt(&folder, &error))?;
            return Ok(folder.mark_ended()?);
        }
    };
    // The variables that the spec names come from our own environment; the values in the spec
    // override them.
    let mut env = Environment::passed(&spec.pass);
    let own = folder.path().to_string_lossy().into_owned();
    env.insert(EnvVars::RUN_FOLDER.to_owned(), own);
    env.append(&mut spec.env);
    spec.env = env;
    let mut keeper = Keeper::begin(folder, spec)?;
    keeper.work();
    keeper.close()
}

fn invalid_spec_receipt(folder: &JobFolder, error: &FileError) -> Receipt {
    let job = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    Receipt::new(&job, clock::now(), EndCause::NotStarted { detail: with_cause(error) })
}

fn setup_error(action: &'static str, source: io::Error) -> KeeperError {
    KeeperError::SetUp { action, source }
}

/// Locking a file again through the same open file changes nothing, so this only checks.
fn holds_lock(folder: &JobFolder) -> bool {
    let Ok(own) = io::stdin().as_fd().try_clone_to_owned().map(File::from) else { return false };
    let is_same =
        |own: Metadata, lock: Metadata| (own.dev(), own.ino()) == (lock.dev(), lock.ino());
    let metadata = own.metadata().ok().zip(fs::metadata(folder.lock_path()).ok());
    metadata.is_some_and(|(own, lock)| is_same(own, lock)) && own.try_lock().is_ok()
}

struct Keeper {
    folder: JobFolder,
    spec: Rc<JobSpec>,
    /// The value of [`MARKER`].
    marker: String,
    receipt: Receipt,
    /// The deadline for the work; none while the keeper gathers evidence, which has its own time
    /// limits.
    wall: Option<Moment>,
    wake: Wake,
    lease: Option<LeaseRenewal>,
    cgroup: Option<Cgroup>,
    status_file: KeeperStatusWriter,
    next_tick: Moment,
    /// When the keeper runs again at the latest, unless it is stopped.
    runs_at: Moment,
    /// Why the whole job must end now.
    interrupt: Option<EndCause>,
    /// Whether there was output since the last renewal of the lease.
    progressed: bool,
    reported_bytes: u64,
    /// Whether nothing was started since the last sweep.
    nothing_started: bool,
}

impl Keeper {
    fn begin(folder: JobFolder, spec: JobSpec) -> Result<Self, KeeperError> {
        // This fails only for a process group leader: a person started this keeper in a terminal.
        log_error(setsid().map(drop), "start a new session");
        become_reaper();
        let wake =
            Wake::install().map_err(|source| setup_error("install signal handlers", source))?;
        let marker = format!("{}:{:016x}", spec.job, clock::nonce());
        let cgroup = Cgroup::planned(&format!("banksman-{}", marker.replace(':', "-")));
        let pid = getpid().as_raw_pid();
        let started_at = clock::now();
        folder.write_begun(&KeeperStart {
            pid,
            process_start: tree::start_time(pid).unwrap_or(0),
            at: started_at,
            marker: marker.clone(),
            cgroup: cgroup.as_ref().map(|group| group.folder().to_owned()),
        })?;
        let cgroup = cgroup.and_then(Cgroup::enter);
        let now = clock::monotonic();
        let lease = spec.lease.as_ref().map(|config| LeaseRenewal::new(config, &spec.limits, now));
        Ok(Self {
            wall: Some(now + millis(spec.limits.wall_ms)),
            receipt: Receipt::new(&spec.job, started_at, EndCause::Completed),
            folder,
            spec: Rc::new(spec),
            marker,
            wake,
            lease,
            cgroup,
            status_file: KeeperStatusWriter::new(now),
            next_tick: now,
            runs_at: now,
            interrupt: None,
            progressed: false,
            reported_bytes: 0,
            nothing_started: true,
        })
    }

    /// Writes the receipt, then the marker that announces it.
    fn close(mut self) -> Result<(), KeeperError> {
        self.status_file.write(&self.folder, clock::monotonic());
        let mut tries = 1;
        while let Err(error) = self.folder.write_receipt(&self.receipt) {
            if tries == RECEIPT_TRIES {
                return Err(error.into());
            }
            tries += 1;
            self.pause(BETWEEN_RECEIPT_TRIES);
        }
        if let Some(lease) = &mut self.lease {
            lease.stop_renewal();
        }
        // Recovery finds a receipt without a marker. Leaving the group comes last because the
        // kernel is slow at it and nothing waits for it.
        let marked = self.folder.mark_ended();
        if let Some(group) = self.cgroup.take() {
            group.leave();
        }
        Ok(marked?)
    }

    /// Waits, and keeps renewing the lease and watching for stop requests meanwhile.
    fn pause(&mut self, span: Duration) {
        let until = clock::monotonic() + span;
        loop {
            let now = clock::monotonic();
            if now >= until {
                return;
            }
            // Whatever it asks for, the processes are being ended already.
            drop(self.tick(now));
            self.wait(until, None);
        }
    }
}

/// Logs the error of something that the job can do without.
fn log_error(result: Result<(), impl Display>, operation: &str) {
    if let Err(error) = result {
        eprintln!("{} failed to {operation}: {error}", clock::now());
    }
}

/// Makes every orphaned process below the keeper a child of the keeper.
#[cfg(target_os = "linux")]
fn become_reaper() {
    let result = rustix::process::set_child_subreaper(Some(getpid()));
    log_error(result, "become the subreaper of orphaned processes");
}

#[cfg(not(target_os = "linux"))]
fn become_reaper() {}
