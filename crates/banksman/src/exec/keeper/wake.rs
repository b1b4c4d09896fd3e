//! What interrupts a keeper's waiting: the end of a child, a poke after a request to stop, and
//! signals from outside.
//!
//! A handler only notes and writes one byte; everything is done by the loop. Handlers, unlike
//! ignored signals, are not handed on to children.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level::pipe};

pub(super) struct Wake {
    waker: UnixStream,
    asked_to_end: Arc<AtomicBool>,
}

impl Wake {
    pub(super) fn install() -> io::Result<Self> {
        let (waker, ringer) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        let asked_to_end = Arc::new(AtomicBool::new(false));
        // The flag first: who is woken must find it set.
        flag::register(SIGTERM, Arc::clone(&asked_to_end))?;
        for signal in [SIGCHLD, SIGUSR1, SIGTERM] {
            pipe::register(signal, ringer.try_clone()?)?;
        }
        // A terminal that closes or is typed at must not end what shall outlive it.
        for signal in [SIGHUP, SIGINT] {
            flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { waker, asked_to_end })
    }

    /// Whether something happened since the last call.
    pub(super) fn woken(&mut self) -> bool {
        let mut bytes = [0; 64];
        let mut woken = false;
        loop {
            match self.waker.read(&mut bytes) {
                Ok(0) => return woken,
                Ok(_) => woken = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return woken,
            }
        }
    }

    pub(super) fn asked_to_end(&self) -> bool {
        self.asked_to_end.load(Ordering::Acquire)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
