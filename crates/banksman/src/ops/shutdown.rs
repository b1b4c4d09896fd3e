//! Stops the `up` of a home and its jobs.
//!
//! It signals a process only while that process holds the lock of this home: a process id in a file
//! may have been reused.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use banksman_core::time::Span;
use rustix::process::{Pid, Signal, kill_process};

use super::OpsError;
use super::principal::{Operation, Principal};
use crate::clock;
use crate::config::Agents;
use crate::exec::files::if_exists;
use crate::exec::keeper::FileError;
use crate::exec::site::{JobStatus, LocalSite, Site, SiteError};
use crate::plain_file::open;

pub use crate::exec::job::JobId;

/// A turn of `up` may be waiting for a busy store.
const UP_STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// On top of twice the grace period: the keeper records the state of the worktree before it exits.
const KEEPER_STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Stops the `up` of a home and returns its process id; none if no `up` is running.
pub fn stop_up(caller: &Principal, home: &Path) -> Result<Option<i32>, OpsError> {
    caller.may(Operation::RunAgents, None)?;
    let up = RunningUp::of(home)?;
    up.map(|up| up.end().map(Pid::as_raw_pid)).transpose()
}

/// The file that the `up` of a home locks, with its process id.
pub fn up_lock(home: &Path) -> PathBuf {
    home.join("up.lock")
}

/// An `up` that holds the lock of its home.
struct RunningUp {
    path: PathBuf,
    file: File,
    pid: Pid,
}

impl RunningUp {
    /// None when no process holds the lock.
    fn of(home: &Path) -> Result<Option<Self>, OpsError> {
        let path = up_lock(home);
        let opened = if_exists(open(&path)).map_err(|source| read_error(&path, source))?;
        let Some(file) = opened else { return Ok(None) };
        let mut polls = 0;
        let mut before = None;
        // `up` writes its process id right after it takes the lock, so the file may hold the id of
        // its predecessor for a moment. Only an id that stays is trusted.
        while is_held(&file).map_err(|source| read_error(&path, source))? {
            let pid = pid_in(&file).map_err(|source| read_error(&path, source))?;
            if let Some(pid) = pid.filter(|_| pid == before) {
                return Ok(Some(Self { path, file, pid }));
            }
            before = pid;
            polls += 1;
            if polls > 100 {
                let path = path.display();
                return Err(OpsError::input(
                    format!("`{path}` does not name the process that holds it"),
                    "find the process and stop it yourself",
                ));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    /// Asks it to exit and waits until it is gone.
    fn end(&self) -> Result<Pid, OpsError> {
        let held = || is_held(&self.file).map_err(|source| read_error(&self.path, source));
        let until = clock::monotonic() + UP_STOP_TIMEOUT;
        if held()? {
            match kill_process(self.pid, Signal::TERM) {
                // The process is already gone.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(self.failed("cannot be stopped by you", &error.into())),
            }
        }
        while held()? {
            if clock::monotonic() > until {
                let source = io::Error::from(io::ErrorKind::TimedOut);
                return Err(self.failed("is still running after it was told to stop", &source));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(self.pid)
    }

    fn failed(&self, what: &str, source: &io::Error) -> OpsError {
        let pid = self.pid.as_raw_pid();
        let message = format!("`up`, process {pid}, {what}: {source}");
        OpsError::input(message, format!("inspect it: ps -p {pid}"))
    }
}

fn read_error(path: &Path, source: io::Error) -> OpsError {
    FileError { action: "read", path: path.to_owned(), source }.into()
}

/// A shared lock can be released at once, and several readers do not see each other.
fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn pid_in(mut file: &File) -> io::Result<Option<Pid>> {
    let mut text = String::new();
    file.rewind()?;
    file.take(64).read_to_string(&mut text)?;
    Ok(text.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw))
}

#[derive(Debug, Default)]
pub struct StoppedJobs {
    pub ended: Vec<JobId>,
    pub still_running: Vec<JobId>,
    /// Jobs whose folder cannot be read, so that it is unknown whether they run.
    pub unreadable: Vec<(JobId, SiteError)>,
}

/// Stops all jobs of this home, including checks and merges, and waits until their keepers have
/// written receipts. A job that cannot be read keeps no other from being stopped. `program` is our
/// own program.
pub fn stop_jobs(
    caller: &Principal,
    agents: &Agents,
    program: &Path,
) -> Result<StoppedJobs, OpsError> {
    caller.may(Operation::RunAgents, None)?;
    let by = format!("{} by `down`", caller.actor());
    let site = LocalSite::open(&agents.home, program)?;
    let mut stopped = StoppedJobs::default();
    for job in site.jobs()? {
        match stop_if_running(&site, job, &by) {
            Ok(true) => stopped.still_running.push(job),
            Ok(false) => {}
            Err(error) => stopped.unreadable.push((job, error)),
        }
    }
    let Span(grace) = agents.limits.grace;
    let grace = Duration::from_millis(u64::try_from(grace).unwrap_or_default());
    let until = clock::monotonic() + 2 * grace + KEEPER_STOP_TIMEOUT;
    loop {
        for job in std::mem::take(&mut stopped.still_running) {
            match site.look(job) {
                Ok(JobStatus::Running) => stopped.still_running.push(job),
                Ok(JobStatus::Absent | JobStatus::Lost | JobStatus::Ended(_)) => {
                    stopped.ended.push(job);
                }
                Err(error) => stopped.unreadable.push((job, error)),
            }
        }
        if stopped.still_running.is_empty() || clock::monotonic() > until {
            return Ok(stopped);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns whether the job was running.
fn stop_if_running(site: &LocalSite, job: JobId, by: &str) -> Result<bool, SiteError> {
    let is_running = site.look(job)? == JobStatus::Running;
    if is_running {
        site.stop(job, by)?;
    }
    Ok(is_running)
}
