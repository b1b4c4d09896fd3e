//! What wakes a keeper: the exit of a child, SIGUSR1 after a stop request, and other signals.
//!
//! A handler only sets a flag and writes one byte; the loop does the rest. Children inherit ignored
//! signals but not handlers.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level::pipe};

pub(super) struct Wake {
    waker: UnixStream,
    termination_requested: Arc<AtomicBool>,
}

impl Wake {
    pub(super) fn install() -> io::Result<Self> {
        let (waker, sender) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        let termination_requested = Arc::new(AtomicBool::new(false));
        // Register the flag first, so that it is set when the loop wakes.
        flag::register(SIGTERM, Arc::clone(&termination_requested))?;
        for signal in [SIGCHLD, SIGUSR1, SIGTERM] {
            pipe::register(signal, sender.try_clone()?)?;
        }
        // A closed terminal or Ctrl-C in it must not end the keeper.
        for signal in [SIGHUP, SIGINT] {
            flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { waker, termination_requested })
    }

    /// Whether a signal arrived since the last call.
    pub(super) fn woken(&mut self) -> bool {
        let mut bytes = [0; 64];
        let mut woken = false;
        loop {
            match self.waker.read(&mut bytes) {
                Ok(0) => return woken,
                Ok(_) => woken = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing more to read.
                Err(_) => return woken,
            }
        }
    }

    pub(super) fn termination_requested(&self) -> bool {
        self.termination_requested.load(Ordering::Acquire)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
