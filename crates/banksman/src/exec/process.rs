//! Runs other programs with a given environment, bounded in time and output.
//!
//! Nothing here knows what a program is for. A program's failure is an [`Output`]; an error means
//! that the program could not be run or watched.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use banksman_core::receipt::ProcessExit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

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

#[derive(Debug, Clone)]
pub struct Output {
    pub exit: ProcessExit,
    pub stdout: String,
    pub stderr: String,
    /// Whether bytes of a stream were dropped.
    pub cut: bool,
    pub timed_out: bool,
    pub millis: i64,
}

impl Output {
    #[must_use]
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

/// Runs programs. A keeper's runner keeps renewing the lease and watching the limits meanwhile.
pub trait Runner {
    fn run(&mut self, program: &Program) -> Result<Output, RunError>;
}

/// A runner that does nothing else: it waits, reads, and kills the program's group on timeout.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainRunner;

impl Runner for PlainRunner {
    fn run(&mut self, program: &Program) -> Result<Output, RunError> {
        let mut running = Running::start(program)?;
        let watched = running.watch(program.timeout);
        if watched.is_err() {
            running.end();
        }
        let (status, timed_out) = watched
            .map_err(|source| RunError::Read { program: program.program.clone(), source })?;
        let millis = i64::try_from(running.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let (stdout, stderr) = (running.stdout.text(), running.stderr.text());
        Ok(Output {
            exit: ProcessExit { code: status.code(), signal: status.signal() },
            stdout,
            stderr,
            cut: running.stdout.cut || running.stderr.cut,
            timed_out,
            millis,
        })
    }
}

/// How often to check for the exit of a child that cannot be polled together with its pipes.
const TICK: Duration = Duration::from_millis(20);
const CHUNK_BYTES: usize = 64 * 1024;
/// The most chunks read after the exit of a program whose children keep printing into its pipes.
const LAST_CHUNKS: usize = 256;

struct Running {
    child: Child,
    began: Instant,
    stdin: Option<ChildStdin>,
    unwritten: Vec<u8>,
    stdout: Tail<ChildStdout>,
    stderr: Tail<ChildStderr>,
}

impl Running {
    fn start(program: &Program) -> Result<Self, RunError> {
        let failed = |source| RunError::Start { program: program.program.clone(), source };
        let mut child = Command::new(&program.program)
            .args(&program.args)
            .current_dir(&program.folder)
            .env_clear()
            .envs(&program.env)
            .stdin(if program.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let running = Self {
            began: Instant::now(),
            stdin: child.stdin.take(),
            unwritten: program.stdin.clone().unwrap_or_default().into_bytes(),
            stdout: Tail::new(child.stdout.take(), program.keep),
            stderr: Tail::new(child.stderr.take(), program.keep),
            child,
        };
        match running.set_nonblocking() {
            Ok(()) => Ok(running),
            Err(source) => {
                let mut running = running;
                running.end();
                Err(failed(source))
            }
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        let pipes = [
            self.stdin.as_ref().map(AsFd::as_fd),
            self.stdout.pipe.as_ref().map(AsFd::as_fd),
            self.stderr.pipe.as_ref().map(AsFd::as_fd),
        ];
        for pipe in pipes.into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(())
    }

    /// Waits for the program's exit or its timeout. A grandchild that holds the pipes open does not
    /// delay this.
    fn watch(&mut self, timeout: Duration) -> io::Result<(ExitStatus, bool)> {
        let end = ExitWatch::of(&self.child)?;
        loop {
            let left = timeout.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                self.kill()?;
                let status = self.child.wait()?;
                self.read_last()?;
                return Ok((status, true));
            }
            self.wait(&end, left)?;
            self.write_some()?;
            self.stdout.read_some()?;
            self.stderr.read_some()?;
            if let Some(status) = self.child.try_wait()? {
                self.read_last()?;
                return Ok((status, false));
            }
        }
    }

    /// Waits until there is something to do, at most for the remaining time.
    fn wait(&self, end: &ExitWatch, left: Duration) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(4);
        let watched = [
            (self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (self.stdout.pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (self.stderr.pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (end.fd(), PollFlags::IN),
        ];
        for (fd, flags) in watched {
            fds.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, flags)));
        }
        let at_most = if end.fd().is_some() { left } else { left.min(TICK) };
        let at_most = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut fds, Some(&at_most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn write_some(&mut self) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        while !self.unwritten.is_empty() {
            match stdin.write(&self.unwritten) {
                Ok(written) => {
                    self.unwritten.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A program may exit or close its input without reading all of it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        self.stdin = None;
        Ok(())
    }

    fn read_last(&mut self) -> io::Result<()> {
        for _ in 0..LAST_CHUNKS {
            let out_has_more = self.stdout.read_some()?;
            let more_err = self.stderr.read_some()?;
            if !out_has_more && !more_err {
                break;
            }
        }
        Ok(())
    }

    /// Kills the whole group, because the program's own children would survive it.
    fn kill(&mut self) -> io::Result<()> {
        let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else {
            return self.child.kill();
        };
        match kill_process_group(group, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Cleans up after an error, which matters more than a failure here.
    fn end(&mut self) {
        if self.kill().is_ok() {
            // The error that led here is told; a child that cannot be reaped adds nothing to it.
            drop(self.child.wait());
        }
    }
}

/// Makes the exit of a child pollable, where the system can do that.
struct ExitWatch(#[cfg(target_os = "linux")] Option<rustix::fd::OwnedFd>);

impl ExitWatch {
    #[cfg(target_os = "linux")]
    fn of(child: &Child) -> io::Result<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return Ok(Self(None));
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(Some(fd))),
            // In a sandbox without this call the runner checks periodically.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => Ok(Self(None)),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(target_os = "linux")]
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_child: &Child) -> io::Result<Self> {
        Ok(Self())
    }

    #[cfg(not(target_os = "linux"))]
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The last bytes of a pipe's output.
struct Tail<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
    keep: usize,
    cut: bool,
}

impl<R: Read> Tail<R> {
    fn new(pipe: Option<R>, keep: usize) -> Self {
        Self { pipe, bytes: Vec::new(), keep, cut: false }
    }

    /// Reads one chunk; returns whether there was one.
    fn read_some(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let mut chunk = [0; CHUNK_BYTES];
        match pipe.read(&mut chunk) {
            Ok(0) => {
                self.pipe = None;
                Ok(false)
            }
            Ok(got) => {
                self.bytes.extend_from_slice(&chunk[..got]);
                // Trimming at twice the size moves each byte at most once on average.
                if self.bytes.len() > self.keep.saturating_mul(2).max(CHUNK_BYTES) {
                    self.cut_to_size();
                }
                Ok(true)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn cut_to_size(&mut self) {
        let excess = self.bytes.len().saturating_sub(self.keep);
        self.cut |= excess > 0;
        self.bytes.drain(..excess);
    }

    fn text(&mut self) -> String {
        self.cut_to_size();
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
/// Quotes a word for a shell.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
