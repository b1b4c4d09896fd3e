//! `banksman down`: stops the `up` of this home and, with `--agents`, its agents.
//!
//! It signals a process only while that process holds the lock of this home: a process id in a file
//! may have been reused.

use std::env;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use banksman_core::time::Span;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use crate::clock;
use crate::exec::job::JobId;
use crate::exec::site::{JobStatus, LocalSite, Site};

/// A turn of `up` may be waiting for a busy store.
const UP_STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// On top of twice the grace period: the keeper records the state of the worktree before it exits.
const KEEPER_STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Stop a running `up`; agents continue unless `--agents` is given
///
/// With `--agents`, every agent of this machine is asked to exit, and killed if it does not. Its
/// work so far stays in its worktree, and its task returns to the queue at the next pulse.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman down
  banksman down --agents
  banksman pause && banksman down --agents      stop all, start none until `resume`
")]
pub(super) struct DownArgs {
    /// Stop the agents of this machine as well
    #[arg(long)]
    agents: bool,
}

pub(super) fn run(context: &Context, args: &DownArgs) -> Result<Exit, Failure> {
    let home = &context.config.agents.home;
    let up = RunningUp::of(home)?;
    let pid = match &up {
        Some(up) => Some(up.end()?),
        None => None,
    };
    let ended = if args.agents { stop_agents(context)? } else { StoppedJobs::default() };
    context.out.answer(
        || {
            json!({
                "up": pid.map(Pid::as_raw_pid),
                "ended": names(&ended.ended),
                "stillRunning": names(&ended.still_running),
            })
        },
        || text(pid, args.agents, &ended),
    )?;
    if !ended.still_running.is_empty() {
        return Ok(Exit::GaveUp);
    }
    context.out.next(&["status", "up"]);
    Ok(Exit::Done)
}

fn names(jobs: &[JobId]) -> Vec<String> {
    jobs.iter().map(ToString::to_string).collect()
}

fn text(pid: Option<Pid>, with_agents: bool, agents: &StoppedJobs) -> String {
    let mut text = match pid {
        Some(pid) => format!("stopped `up`, process {}\n", pid.as_raw_pid()),
        None => "`up` is not running here\n".to_owned(),
    };
    for job in &agents.ended {
        text.push_str(&format!("stopped {job} of {}\n", job.task()));
    }
    for job in &agents.still_running {
        text.push_str(&format!("{job} of {} is still running; try again\n", job.task()));
    }
    if with_agents && agents.ended.is_empty() && agents.still_running.is_empty() {
        text.push_str("no agent was running\n");
    }
    text
}

/// An `up` that holds the lock of its home.
struct RunningUp {
    path: PathBuf,
    file: File,
    pid: Pid,
}

impl RunningUp {
    /// None when no process holds the lock.
    fn of(home: &Path) -> Result<Option<Self>, Failure> {
        let path = home.join("up.lock");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(read_error(&path, source)),
        };
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
                return Err(Failure::Input {
                    message: format!(
                        "`{}` does not name the process that holds it",
                        path.display()
                    ),
                    hint: "find the process and stop it yourself".to_owned(),
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    /// Asks it to exit and waits until it is gone.
    fn end(&self) -> Result<Pid, Failure> {
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

    fn failed(&self, what: &str, source: &io::Error) -> Failure {
        let pid = self.pid.as_raw_pid();
        Failure::Input {
            message: format!("`up`, process {pid}, {what}: {source}"),
            hint: format!("inspect it: ps -p {pid}"),
        }
    }
}

fn read_error(path: &Path, source: io::Error) -> Failure {
    Failure::File { operation: "read", path: path.to_owned(), source }
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

#[derive(Default)]
struct StoppedJobs {
    ended: Vec<JobId>,
    still_running: Vec<JobId>,
}

/// Stops all jobs of this home, including checks and merges, and waits until their keepers have
/// written receipts.
fn stop_agents(context: &Context) -> Result<StoppedJobs, Failure> {
    let agents = &context.config.agents;
    let program = env::current_exe().map_err(Failure::Program)?;
    let site = LocalSite::open(&agents.home, &program)?;
    let by = format!("{} by `banksman down`", context.actor(None));
    let mut running = Vec::new();
    for job in site.jobs()? {
        if site.look(job)? == JobStatus::Running {
            site.stop(job, &by)?;
            running.push(job);
        }
    }
    let Span(grace) = agents.limits.grace;
    let grace = Duration::from_millis(u64::try_from(grace).unwrap_or_default());
    let until = clock::monotonic() + 2 * grace + KEEPER_STOP_TIMEOUT;
    let mut ended = StoppedJobs { ended: Vec::new(), still_running: running };
    loop {
        let mut left = Vec::new();
        for job in ended.still_running {
            let list =
                if site.look(job)? == JobStatus::Running { &mut left } else { &mut ended.ended };
            list.push(job);
        }
        ended.still_running = left;
        if ended.still_running.is_empty() || clock::monotonic() > until {
            return Ok(ended);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
