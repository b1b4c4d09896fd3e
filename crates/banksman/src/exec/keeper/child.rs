//! A child in a keeper's care: started with a given environment, its pipes never waited for.
//!
//! Nothing here waits for a child to end: the keeper reaps all of its children in one place,
//! adopted ones too.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use banksman_core::receipt::ProcessExit;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, WaitOptions, WaitStatus};

/// What to start. The environment is all that the child gets.
pub(super) struct Start<'a> {
    pub(super) program: &'a str,
    pub(super) args: &'a [String],
    pub(super) folder: &'a Path,
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) stdin: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Out,
    Err,
}

/// What is still to be written to a child.
struct Input {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) exit: Option<ProcessExit>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    input: Option<Input>,
}

impl Child {
    /// Starts a program in a process group of its own.
    pub(super) fn start(start: &Start<'_>) -> io::Result<Self> {
        let mut command = Command::new(start.program);
        command.args(start.args).current_dir(start.folder).env_clear().envs(start.env);
        Self::spawn(&mut command, start.stdin)
    }

    /// Starts a program of ours, with the keeper's own environment.
    pub(super) fn start_own(argv: &[String], more: &[&str]) -> io::Result<Self> {
        let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        Self::spawn(Command::new(program).args(args).args(more), None)
    }

    fn spawn(command: &mut Command, stdin: Option<&str>) -> io::Result<Self> {
        // The keeper's own standard input is its lock, which a child must never get.
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let out = child.stdout.take().map(OwnedFd::from);
        let err = child.stderr.take().map(OwnedFd::from);
        let input = child.stdin.take().zip(stdin).map(|(pipe, text)| Input {
            pipe: pipe.into(),
            bytes: text.as_bytes().to_vec(),
            written: 0,
        });
        let pipes = [out.as_ref(), err.as_ref(), input.as_ref().map(|input| &input.pipe)];
        for pipe in pipes.into_iter().flatten() {
            ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pid, exit: None, out, err, input })
    }

    /// Whether everything that it will ever print has been read.
    pub(super) fn is_silent(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    pub(super) fn readable(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.out, &self.err].into_iter().flatten()
    }

    pub(super) fn writable(&self) -> Option<&OwnedFd> {
        self.input.as_ref().map(|input| &input.pipe)
    }

    /// Reads what is there, at most `turns` times the buffer from each side, so that nobody else
    /// has to wait for long.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        turns: usize,
        hear: &mut dyn FnMut(Side, &[u8]),
    ) {
        for side in [Side::Out, Side::Err] {
            for _ in 0..turns {
                let slot = match side {
                    Side::Out => &mut self.out,
                    Side::Err => &mut self.err,
                };
                let Some(pipe) = slot else { break };
                match rustix::io::read(&*pipe, &mut *buffer) {
                    Ok(0) => *slot = None,
                    Ok(count) => hear(side, &buffer[..count]),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    // A pipe that cannot be read has nothing more to say.
                    Err(_) => *slot = None,
                }
            }
        }
    }

    /// Writes as much of the input as the child takes now, and closes it after the last byte.
    pub(super) fn write(&mut self) {
        while let Some(input) = &mut self.input {
            match rustix::io::write(&input.pipe, &input.bytes[input.written..]) {
                Ok(count) => input.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // A child that does not want its input is free not to read it.
                Err(_) => input.written = input.bytes.len(),
            }
            if input.written >= input.bytes.len() {
                self.input = None;
            }
        }
    }
}

/// Every child that has ended since the last call, adopted ones too.
pub(super) fn reap() -> Vec<(Pid, ProcessExit)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        ended.push((pid, exit(status)));
    }
    ended
}

fn exit(status: WaitStatus) -> ProcessExit {
    ProcessExit { code: status.exit_status(), signal: status.terminating_signal() }
}
