//! The keyboard in single-key mode, for commands that react to keys.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Failure, Result};

/// The longest wait for a key. A signal that arrives just before the wait is noticed after it.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// Keys that follow each other faster than this are a text.
const BURST: Timespec = Timespec { tv_sec: 0, tv_nsec: 30_000_000 };
/// The longest text that is read.
const LINE_BYTES: usize = 16 * 1024;

pub(super) const CTRL_C: u8 = 3;
pub(super) const CTRL_D: u8 = 4;

/// What a wait for a key came to.
pub(super) enum Pressed {
    Key(u8),
    Nothing,
    /// The terminal is closed, or the program is told to end.
    Closed,
}

/// A line that a person typed.
pub(super) enum TypedLine {
    Text(String),
    Empty,
    /// The terminal is closed, or the person gave up.
    Closed,
}

/// The keyboard without echo and without line editing. Dropping it restores the terminal.
pub(super) struct Keys {
    before: Termios,
    stop: Arc<AtomicBool>,
}

impl Keys {
    pub(super) fn new() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Output)?;
        }
        let keys = Self { before: tcgetattr(io::stdin()).map_err(failed)?, stop };
        keys.enable_single_keys()?;
        Ok(keys)
    }

    fn enable_single_keys(&self) -> Result<()> {
        let mut single = self.before.clone();
        // Ctrl-C and its like are keys, which only quit the command.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Now, &single).map_err(failed)
    }

    /// Reads one edited line.
    pub(super) fn line(&self) -> Result<TypedLine> {
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).map_err(failed)?;
        let mut line = Vec::new();
        let mut is_closed = false;
        while line.len() < LINE_BYTES && !is_closed {
            match self.wait()? {
                Pressed::Key(b'\n') => break,
                Pressed::Closed => is_closed = true,
                Pressed::Key(byte) => line.push(byte),
                Pressed::Nothing => {}
            }
        }
        self.enable_single_keys()?;
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        Ok(match (is_closed, text.is_empty()) {
            (true, _) => TypedLine::Closed,
            (false, true) => TypedLine::Empty,
            (false, false) => TypedLine::Text(text),
        })
    }

    /// Drops keys that were typed before anybody could see what they mean, and says whether there
    /// were any.
    pub(super) fn drop_typed(&self) -> Result<bool> {
        let mut any = false;
        loop {
            let stdin = io::stdin();
            let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&BURST));
            if !matches!(ready, Ok(1..)) || !matches!(self.wait()?, Pressed::Key(_)) {
                return Ok(any);
            }
            any = true;
        }
    }

    /// Waits for a key until the next tick. It bypasses the buffer of the standard input, because
    /// `poll` does not see bytes that are already buffered.
    pub(super) fn wait(&self) -> Result<Pressed> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Pressed::Closed);
        }
        let (stdin, mut byte) = (io::stdin(), [0]);
        let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&TICK));
        let read = ready.and_then(|ready| match ready {
            0 => Err(Errno::INTR),
            _ => rustix::io::read(&stdin, &mut byte),
        });
        match read {
            Ok(0) => Ok(Pressed::Closed),
            Ok(_) => Ok(Pressed::Key(byte[0])),
            Err(Errno::INTR) => Ok(Pressed::Nothing),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).unwrap_or_default();
    }
}

fn failed(error: Errno) -> Failure {
    Failure::Output(error.into())
}
