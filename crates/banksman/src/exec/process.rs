//! Runs other programs with a given environment, bounded in time and output.
//!
//! Nothing here knows what a program is for. A program's failure is a [`ProgramOutput`]; an error
//! means that the program could not be run or watched.

pub(super) mod child;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use banksman_core::receipt::ProcessExit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use child::{Child, Side};

/// The limits of a program that states none: it takes milliseconds and prints a few lines.
const USUAL_TIME: Duration = Duration::from_secs(30);
const USUAL_BYTES: usize = 16 * 1024;

/// A program to run to completion.
#[derive(Debug, Clone)]
pub struct Program {
    pub program: String,
    pub args: Vec<String>,
    pub folder: PathBuf,
    /// Its whole environment; it inherits nothing of ours.
    pub env: BTreeMap<String, String>,
    pub stdin: Option<String>,
    pub timeout: Duration,
    /// How many of the last bytes of each stream are kept.
    pub keep: usize,
}

impl Program {
    /// A program without input, with the usual limits.
    pub fn new(
        program: &str,
        args: impl IntoIterator<Item = impl Into<String>>,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            folder: folder.to_owned(),
            env: env.clone(),
            stdin: None,
            timeout: USUAL_TIME,
            keep: USUAL_BYTES,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ProgramOutput {
    pub exit: ProcessExit,
    pub stdout: String,
    pub stderr: String,
    /// Whether bytes of a stream were dropped.
    pub cut: bool,
    pub timed_out: bool,
    pub millis: i64,
}

impl ProgramOutput {
    pub fn ok(&self) -> bool {
        self.exit.code == Some(0) && !self.timed_out
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("failed to start `{program}`")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("failed to read the output of `{program}`")]
    Read {
        program: String,
        #[source]
        source: io::Error,
    },
    /// It ran and failed, and the caller cannot continue without it.
    #[error("{what} failed: {detail}")]
    Failed { what: String, detail: String },
    /// The job that this belongs to must end.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    pub fn failed(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), detail: detail.into() }
    }
}

/// Whether a program could not be started because it is missing, or nobody may run it.
pub(in crate::exec) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Runs programs. A keeper's runner keeps renewing the lease and watching the limits meanwhile.
pub trait Runner {
    /// The environment of what it runs.
    fn env(&self) -> &BTreeMap<String, String>;
    fn run(&mut self, program: &Program) -> Result<ProgramOutput>;
}

/// A runner that does nothing else: it waits, reads, and kills the program's group on timeout.
#[derive(Debug, Clone, Default)]
pub struct PlainRunner {
    pub env: BTreeMap<String, String>,
}

impl Runner for PlainRunner {
    fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput> {
        let began = Instant::now();
        let mut child = Child::start(program)
            .map_err(|source| RunError::Start { program: program.program.clone(), source })?;
        let mut tails = OutputTails::new(program.keep);
        let watched = watch(&mut child, &mut tails, (began, program.timeout));
        let (exit, timed_out) = watched.map_err(|source| {
            // The error matters more than a child that cannot be ended.
            drop(child.signal_group(Signal::KILL).and_then(|()| wait_for(&child, true)));
            RunError::Read { program: program.program.clone(), source }
        })?;
        Ok(tails.into_output(exit, timed_out, began.elapsed()))
    }
}

/// How often to check for the exit of a child that cannot be polled together with its pipes.
const TICK: Duration = Duration::from_millis(20);
const CHUNK_BYTES: usize = 64 * 1024;
/// The most chunks read after the exit of a program whose children keep printing into its pipes.
const LAST_CHUNKS: usize = 256;

/// Waits for the program's exit or its timeout. A grandchild that holds the pipes open does not
/// delay this.
fn watch(
    child: &mut Child,
    tails: &mut OutputTails,
    (began, timeout): (Instant, Duration),
) -> io::Result<(ProcessExit, bool)> {
    let exit_fd = exit_fd(child.pid)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        let timed_out = left.is_zero();
        if timed_out {
            child.signal_group(Signal::KILL)?;
        } else {
            wait_for_event(child, exit_fd.as_ref(), left)?;
            child.write();
            child.read(&mut buffer, 1, &mut |side, bytes| tails.push(side, bytes));
        }
        if let Some(exit) = wait_for(child, timed_out)? {
            child.read(&mut buffer, LAST_CHUNKS, &mut |side, bytes| tails.push(side, bytes));
            return Ok((exit, timed_out));
        }
    }
}

/// Reaps the child if it has exited, or when it does.
fn wait_for(child: &Child, blocking: bool) -> io::Result<Option<ProcessExit>> {
    let options = if blocking { WaitOptions::empty() } else { WaitOptions::NOHANG };
    let ended = retry_on_intr(|| waitpid(Some(child.pid), options))?;
    Ok(ended.map(|(_, status)| child::exit(status)))
}

/// Waits until there is something to do, at most for the remaining time.
fn wait_for_event(child: &Child, exit_fd: Option<&OwnedFd>, left: Duration) -> io::Result<()> {
    let readable = child.readable().chain(exit_fd).map(|fd| PollFd::new(fd, PollFlags::IN));
    let writable = child.writable().map(|fd| PollFd::new(fd, PollFlags::OUT));
    let mut fds: Vec<PollFd<'_>> = readable.chain(writable).collect();
    let at_most = if exit_fd.is_some() { left } else { left.min(TICK) };
    let at_most = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut fds, Some(&at_most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the exit of a child pollable, where the system can do that.
#[cfg(target_os = "linux")]
fn exit_fd(child: Pid) -> io::Result<Option<OwnedFd>> {
    use rustix::process::{PidfdFlags, pidfd_open};
    match pidfd_open(child, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        // In a sandbox without this call the runner checks periodically.
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exit_fd(_child: Pid) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

/// The tails of both output streams.
pub(super) struct OutputTails {
    out: OutputTail,
    err: OutputTail,
}

impl OutputTails {
    pub(super) fn new(keep: usize) -> Self {
        let tail = || OutputTail { keep, bytes: Vec::new(), cut: false };
        Self { out: tail(), err: tail() }
    }

    pub(super) fn push(&mut self, side: Side, bytes: &[u8]) {
        match side {
            Side::Out => self.out.push(bytes),
            Side::Err => self.err.push(bytes),
        }
    }

    pub(super) fn into_output(
        mut self,
        exit: ProcessExit,
        timed_out: bool,
        took: Duration,
    ) -> ProgramOutput {
        let (stdout, stderr) = (self.out.text(), self.err.text());
        let millis = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        ProgramOutput { exit, stdout, stderr, cut: self.out.cut || self.err.cut, timed_out, millis }
    }
}

struct OutputTail {
    keep: usize,
    bytes: Vec<u8>,
    cut: bool,
}

impl OutputTail {
    /// Buffers up to twice the kept size, so that each byte moves at most once.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > self.keep.saturating_mul(2) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let beyond = self.bytes.len().saturating_sub(self.keep);
        self.cut |= beyond > 0;
        self.bytes.drain(..beyond);
    }

    fn text(&mut self) -> String {
        self.trim();
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_is_kept() {
        for size in 1..9 {
            let mut tail = OutputTail { keep: 4, bytes: Vec::new(), cut: false };
            b"0123456789".chunks(size).for_each(|chunk| tail.push(chunk));
            assert_eq!((tail.text().as_str(), tail.cut), ("6789", true), "{size} bytes each");
        }
        let mut tail = OutputTail { keep: 4, bytes: Vec::new(), cut: false };
        tail.push(b"0123");
        assert_eq!((tail.text().as_str(), tail.cut), ("0123", false));
    }
}
