//! Notifies other processes of a change, and receives their notifications.
//!
//! NOTIFY inside the writing transactions would make all commits of the server queue for one lock,
//! so a thread with its own connection sends it afterwards, once for many commits. All of it is a
//! hint: a lost one costs time, not correctness.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::link::{Connector, Link};
use crate::store::conn::locked;
use crate::store::conn::wake::WakeSignal;

/// How long to wait before the next attempt to reach a server that does not answer.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The two threads and what they share with their handle.
pub(super) struct Announcer {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    notifier: Option<JoinHandle<()>>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    connector: Arc<Connector>,
    channel: String,
    signal: Arc<WakeSignal>,
    due: Mutex<Due>,
    changed: Condvar,
    /// Interrupts the listener's wait for the server.
    listener: Mutex<Option<Waker>>,
    is_listening: AtomicBool,
    /// The server's id of the teller's session, by which the listener recognises notifications of
    /// its own process.
    notifier_session: AtomicI32,
}

#[derive(Default)]
struct Due {
    /// A commit was not announced yet.
    pending: bool,
    stop: bool,
}

impl Announcer {
    pub(super) fn new(connector: Arc<Connector>, channel: String, signal: Arc<WakeSignal>) -> Self {
        Self {
            shared: Arc::new(Shared {
                connector,
                channel,
                signal,
                due: Mutex::default(),
                changed: Condvar::new(),
                listener: Mutex::new(None),
                is_listening: AtomicBool::new(false),
                notifier_session: AtomicI32::new(0),
            }),
            threads: Mutex::default(),
        }
    }

    /// Announces a commit: at once inside the process, soon outside of it.
    pub(super) fn announce(&self) {
        self.shared.signal.raise();
        locked(&self.shared.due).pending = true;
        self.shared.changed.notify_all();
        let mut threads = locked(&self.threads);
        if threads.notifier.is_none() {
            threads.notifier = self.start("store-teller", Shared::run_notifier);
        }
    }

    /// Starts to listen to other processes, if it has not started yet.
    pub(super) fn listen(&self) {
        let mut threads = locked(&self.threads);
        if threads.listener.is_none() {
            threads.listener = self.start("store-listener", Shared::run_listener);
        }
    }

    /// Whether a notification from another process would arrive now.
    pub(super) fn is_listening(&self) -> bool {
        self.shared.is_listening.load(Ordering::Acquire)
    }

    /// If the system refuses the thread, the next call tries again.
    fn start(&self, name: &str, run: fn(&Shared)) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || run(&shared)).ok()
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        locked(&self.shared.due).stop = true;
        self.shared.changed.notify_all();
        if let Some(waker) = locked(&self.shared.listener).take() {
            waker.wake();
        }
        let threads = std::mem::take(&mut *locked(&self.threads));
        for thread in [threads.notifier, threads.listener].into_iter().flatten() {
            // A panic there has cost hints and nothing else.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        locked(&self.due).stop
    }

    /// Announces commits until the handle is dropped, including the last pending one.
    fn run_notifier(&self) {
        let mut link = None;
        while self.wait_for_commit() {
            // The first failure may only mean that the server restarted while there was nothing to
            // announce.
            if self.notify(&mut link) || self.notify(&mut link) {
                continue;
            }
            locked(&self.due).pending = true;
            if !self.pause() {
                return;
            }
        }
    }

    /// Waits for something to announce and takes it. `false` means that the handle was dropped.
    fn wait_for_commit(&self) -> bool {
        let due = locked(&self.due);
        let mut due = self
            .changed
            .wait_while(due, |due| !due.pending && !due.stop)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut due.pending)
    }

    /// Waits before another attempt. `false` means that the handle was dropped.
    fn pause(&self) -> bool {
        let due = locked(&self.due);
        let (due, _) = self
            .changed
            .wait_timeout_while(due, RETRY_EVERY, |due| !due.stop)
            .unwrap_or_else(PoisonError::into_inner);
        !due.stop
    }

    /// Sends the notification, over a new connection if there is none. `false` means that it
    /// failed.
    fn notify(&self, link: &mut Option<Link>) -> bool {
        if link.is_none() {
            *link = self.connect_notifier();
        }
        let Some(open) = link else { return false };
        let sent = open.control(&format!("NOTIFY {}", self.channel));
        if sent.is_err() {
            *link = None;
        }
        sent.is_ok()
    }

    fn connect_notifier(&self) -> Option<Link> {
        let mut link = Link::connect(&self.connector).ok()?;
        let session = link.control("SELECT pg_backend_pid()").ok()??;
        self.notifier_session.store(session.parse().ok()?, Ordering::Release);
        Some(link)
    }

    fn run_listener(&self) {
        loop {
            if let Some(mut link) = self.connect_listener() {
                self.is_listening.store(true, Ordering::Release);
                // Notifications may have been missed before.
                self.signal.raise();
                link.receive_notifications(
                    |context| {
                        *locked(&self.listener) = Some(context.waker().clone());
                        self.is_stopped()
                    },
                    |pending| {
                        if pending.process_id() != self.notifier_session.load(Ordering::Acquire) {
                            self.signal.raise();
                        }
                    },
                );
                self.is_listening.store(false, Ordering::Release);
                self.signal.raise();
            }
            if !self.pause() {
                return;
            }
        }
    }

    fn connect_listener(&self) -> Option<Link> {
        let mut link = Link::connect(&self.connector).ok()?;
        link.control(&format!("LISTEN {}", self.channel)).ok()?;
        Some(link)
    }
}
