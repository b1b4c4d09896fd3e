//! A child process in a group of its own, with non-blocking pipes.
//!
//! Nothing here waits for a child to exit: a keeper reaps all its children, including adopted ones,
//! in one place.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use banksman_core::receipt::ProcessExit;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group};

use super::Program;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Side {
    Out,
    Err,
}

/// Input that is still to be written to a child.
struct Input {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

pub(in crate::exec) struct Child {
    pub(in crate::exec) pid: Pid,
    pub(in crate::exec) exit: Option<ProcessExit>,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    input: Option<Input>,
}

impl Child {
    /// Starts a program. Its limits are up to the caller.
    pub(in crate::exec) fn start(program: &Program) -> io::Result<Self> {
        let mut command = Command::new(&program.program);
        command.args(&program.args).current_dir(&program.folder).env_clear().envs(&program.env);
        Self::spawn(&mut command, program.stdin.as_deref())
    }

    /// Starts one of our own programs, with the keeper's environment and one variable more.
    pub(in crate::exec) fn start_own(
        argv: &[String],
        more: &[&str],
        (name, value): (&str, &str),
    ) -> io::Result<Self> {
        let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        Self::spawn(Command::new(program).args(args).args(more).env(name, value), None)
    }

    fn spawn(command: &mut Command, stdin: Option<&str>) -> io::Result<Self> {
        // The keeper's standard input is its lock, which a child must never inherit.
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
        let set = pipes.into_iter().flatten().try_for_each(|pipe| ioctl_fionbio(pipe, true));
        if let Err(error) = set {
            // The error matters more than a child that cannot be ended.
            drop(child.kill().and_then(|()| child.wait()));
            return Err(error.into());
        }
        Ok(Self { pid, exit: None, out, err, input })
    }

    /// Signals the whole group, because the program's own children would survive it.
    pub(in crate::exec) fn signal_group(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.pid, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether all its output has been read.
    pub(in crate::exec) fn is_silent(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    pub(in crate::exec) fn readable(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.out, &self.err].into_iter().flatten()
    }

    pub(in crate::exec) fn writable(&self) -> Option<&OwnedFd> {
        self.input.as_ref().map(|input| &input.pipe)
    }

    /// Reads available output, at most `turns` buffers from each stream, so that the rest of the
    /// loop does not wait long.
    pub(in crate::exec) fn read(
        &mut self,
        buffer: &mut [u8],
        turns: usize,
        on_output: &mut dyn FnMut(Side, &[u8]),
    ) {
        for (side, slot) in [(Side::Out, &mut self.out), (Side::Err, &mut self.err)] {
            for _ in 0..turns {
                let Some(pipe) = &*slot else { break };
                match rustix::io::read(pipe, &mut *buffer) {
                    Ok(0) => *slot = None,
                    Ok(count) => on_output(side, &buffer[..count]),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    // A pipe that cannot be read has no more output.
                    Err(_) => *slot = None,
                }
            }
        }
    }

    /// Writes as much input as the child accepts now and closes the pipe after the last byte.
    pub(in crate::exec) fn write(&mut self) {
        while let Some(input) = &mut self.input {
            match rustix::io::write(&input.pipe, &input.bytes[input.written..]) {
                Ok(count) => input.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // A child need not read its input.
                Err(_) => input.written = input.bytes.len(),
            }
            if input.written >= input.bytes.len() {
                self.input = None;
            }
        }
    }
}

/// Every child that exited since the last call, including adopted ones.
pub(in crate::exec) fn reap() -> Vec<(Pid, ProcessExit)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        ended.push((pid, exit(status)));
    }
    ended
}

pub(super) fn exit(status: WaitStatus) -> ProcessExit {
    ProcessExit { code: status.exit_status(), signal: status.terminating_signal() }
}
