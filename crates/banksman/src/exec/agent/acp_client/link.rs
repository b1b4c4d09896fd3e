//! The agent's process and its two pipes, polled together with signals to this process.
//!
//! One poll covers all of them, so the agent and the client never block each other by writing at
//! the same time. Both buffers are bounded.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{ClientError, MESSAGE_BYTES, failed};

const CHUNK: usize = 64 * 1024;
/// The interval between checks whether the agent has exited.
const EXIT_POLL_NANOS: i64 = 20_000_000;
/// Checks after each step of ending the agent: two seconds.
const EXIT_POLLS: u32 = 100;

pub(super) struct AgentProcess {
    child: Child,
    /// None once the agent has closed it.
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    /// Readable after a signal that asks this process to end.
    signals: UnixStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// The length of the prefix of `incoming` that holds no line ending.
    searched: usize,
}

pub(super) enum Received {
    Line(String),
    /// The agent closed its output.
    Closed,
    Interrupted,
}

impl AgentProcess {
    pub(super) fn start(command: &[String], folder: &Path) -> Result<Self, ClientError> {
        let (program, args) = command.split_first().ok_or(ClientError::NoProgram)?;
        let (signals, write) = UnixStream::pair().map_err(failed("create a pipe for signals"))?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let write = write.try_clone().map_err(failed("create a pipe for signals"))?;
            signal_hook::low_level::pipe::register(signal, write)
                .map_err(failed("watch for signals"))?;
        }
        let mut child = Command::new(program)
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed(&format!("start `{program}`")))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut link = Self {
            child,
            input,
            output,
            signals,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            searched: 0,
        };
        if let Err(source) = link.set_nonblocking() {
            link.end(true);
            return Err(failed("set up the agent's pipes")(source));
        }
        Ok(link)
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        let fds = [self.input.as_ref().map(AsFd::as_fd), self.output.as_ref().map(AsFd::as_fd)];
        Ok(fds.into_iter().flatten().try_for_each(|fd| ioctl_fionbio(fd, true))?)
    }

    /// Queues a line; [`Self::receive`] sends it.
    pub(super) fn send(&mut self, line: &str) {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.outgoing.push(b'\n');
    }

    /// Waits for the agent's next line and sends queued lines meanwhile.
    pub(super) fn receive(&mut self) -> Result<Received, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Received::Line(line));
            }
            if self.incoming.len() > MESSAGE_BYTES {
                return Err(ClientError::TooLong);
            }
            if self.output.is_none() {
                return Ok(self.take_rest());
            }
            if self.wait().map_err(failed("communicate with the agent"))? {
                return Ok(Received::Interrupted);
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let found = self.incoming[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(found) = found else {
            self.searched = self.incoming.len();
            return None;
        };
        let line: Vec<u8> = self.incoming.drain(..=self.searched + found).collect();
        self.searched = 0;
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// A last line without a line ending.
    fn take_rest(&mut self) -> Received {
        if self.incoming.is_empty() {
            return Received::Closed;
        }
        self.searched = 0;
        Received::Line(
            String::from_utf8_lossy(&std::mem::take(&mut self.incoming)).trim_end().to_owned(),
        )
    }

    /// Waits until there is something to do and does it. Returns whether a signal arrived.
    fn wait(&mut self) -> io::Result<bool> {
        // An agent that sends requests without reading the answers must wait until it reads them.
        let may_read = self.outgoing.len() <= MESSAGE_BYTES;
        let output = self.output.as_ref().filter(|_| may_read);
        let input = self.input.as_ref().filter(|_| !self.outgoing.is_empty());
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(output.map(|output| PollFd::new(output, PollFlags::IN)));
        fds.extend(input.map(|input| PollFd::new(input, PollFlags::OUT)));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let was_interrupted = ready.next().unwrap_or_default();
        let has_output = output.is_some() && ready.next().unwrap_or_default();
        let takes_input = ready.next().unwrap_or_default();
        if takes_input && !was_interrupted {
            self.write()?;
        }
        if has_output && !was_interrupted {
            self.read()?;
        }
        Ok(was_interrupted)
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let mut chunk = [0; CHUNK];
        match output.read(&mut chunk) {
            Ok(0) => self.output = None,
            Ok(count) => self.incoming.extend_from_slice(&chunk[..count]),
            Err(error) if is_retryable(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match input.write(&self.outgoing) {
            Ok(count) => drop(self.outgoing.drain(..count)),
            Err(error) if is_retryable(&error) => {}
            // The agent closed its input; its output still counts.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.input = None;
                self.outgoing.clear();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends the agent: closes its input, then sends SIGTERM, then SIGKILL.
    pub(super) fn end(&mut self, at_once: bool) {
        self.input = None;
        let has_exited = !at_once && self.wait_for_exit();
        if has_exited || (self.signal(Signal::TERM) && self.wait_for_exit()) {
            return;
        }
        self.signal(Signal::KILL);
        self.wait_for_exit();
    }

    fn signal(&self, signal: Signal) -> bool {
        kill_process(Pid::from_child(&self.child), signal).is_ok()
    }

    /// Keeps reading meanwhile, so that a full pipe does not block the agent.
    fn wait_for_exit(&mut self) -> bool {
        let pause = Timespec { tv_sec: 0, tv_nsec: EXIT_POLL_NANOS };
        for _ in 0..EXIT_POLLS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            self.incoming.clear();
            let readable = self.output.as_ref().map(|output| PollFd::new(output, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = readable.into_iter().collect();
            if poll(&mut fds, Some(&pause)).is_ok_and(|ready| ready > 0) && self.read().is_err() {
                self.output = None;
            }
        }
        false
    }
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
