//! What wakes `up`: a change in the store, a job that has ended, a signal. Between them it sleeps and uses no processor.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::store::Store;
use crate::store::conn::Waited;

/// Why `up` looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Something may have changed, or the time has come.
    Look,
    /// The process was asked to end.
    Stop,
}

/// How long a waiter sits in the store before it looks whether anybody still listens.
const SIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    #[error("failed to watch the folder of ended jobs")]
    Watch(#[source] notify::Error),
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
}

/// Everything that `up` sleeps on.
pub struct Bell {
    receiver: Receiver<Wake>,
    /// Watches as long as it lives.
    _watcher: RecommendedWatcher,
}

impl Bell {
    /// `ended` is the folder in which keepers leave a mark when their job is over.
    pub fn hang(store: &Store, ended: &Path) -> Result<Self, WakeError> {
        let (sender, receiver) = mpsc::channel();
        listen_to_store(store.clone(), sender.clone());
        listen_to_signals(sender.clone())?;
        // When nobody listens any more, the watcher goes with the listener.
        let on_change = move |event: notify::Result<notify::Event>| {
            if is_news(&event) {
                sender.send(Wake::Look).unwrap_or_default();
            }
        };
        let mut watcher = notify::recommended_watcher(on_change).map_err(WakeError::Watch)?;
        watcher.watch(ended, RecursiveMode::NonRecursive).map_err(WakeError::Watch)?;
        Ok(Self { receiver, _watcher: watcher })
    }

    /// Sleeps until something happens or the time is over. Many wakes at once are one.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> Wake {
        let first = match self.receiver.recv_timeout(at_most) {
            Ok(wake) => wake,
            Err(RecvTimeoutError::Timeout) => Wake::Look,
            Err(RecvTimeoutError::Disconnected) => Wake::Stop,
        };
        let stop = self.receiver.try_iter().any(|wake| wake == Wake::Stop);
        if stop { Wake::Stop } else { first }
    }
}

/// Each turn lists the folder and takes marks away, which must not be a reason for another turn. An error may mean that
/// events were lost.
fn is_news(event: &notify::Result<notify::Event>) -> bool {
    event.as_ref().map_or(true, |event| !event.kind.is_access() && !event.kind.is_remove())
}

fn listen_to_store(store: Store, sender: Sender<Wake>) {
    let mut mark = store.mark();
    thread::spawn(move || {
        loop {
            let waited = store.wait(mark, SIT);
            // Taken before the look, so that what comes after it wakes again.
            mark = store.mark();
            if waited == Waited::Notified && sender.send(Wake::Look).is_err() {
                return;
            }
        }
    });
}

fn listen_to_signals(sender: Sender<Wake>) -> Result<(), WakeError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGCHLD]).map_err(WakeError::Signals)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // A keeper that is killed leaves no mark in the folder; its parent hears of it all the same.
            let wake = if signal == SIGCHLD { Wake::Look } else { Wake::Stop };
            if sender.send(wake).is_err() {
                return;
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, AccessMode, CreateKind, EventKind};

    use super::*;

    #[test]
    fn a_look_at_the_folder_is_no_news() {
        let news = |kind: EventKind| is_news(&Ok(notify::Event::new(kind)));
        assert!(!news(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(news(EventKind::Create(CreateKind::File)));
        assert!(is_news(&Err(notify::Error::generic("events were lost"))));
    }
}
