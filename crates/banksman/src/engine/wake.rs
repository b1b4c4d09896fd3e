//! The waker of `up`. It wakes on a change in the store, a job that has ended, a file in a folder
//! of signals, or a signal to the process; in between, `up` sleeps and uses no processor.
//!
//! Nothing depends on a wake: the next regular turn finds what was missed here.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, SystemTime};

use notify::event::{CreateKind, EventKind, ModifyKind, RenameMode};
use notify::{EventHandler, RecommendedWatcher, RecursiveMode, Watcher};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock;
use crate::store::Store;
use crate::store::conn::Waited;

/// Why `up` wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// Something may have changed, or the time is over.
    Look,
    /// The process was asked to end.
    Stop,
}

/// How long a thread waits for the store before it checks whether the receiver is gone.
const SIT: Duration = Duration::from_secs(30);
/// Folders of signals that are watched at once. A system allows some thousands for all programs of
/// a user.
const FOLDERS: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    #[error("failed to watch the folder of ended jobs")]
    Watch(#[source] notify::Error),
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
}

/// Everything that can wake `up`.
pub struct Waker {
    receiver: Receiver<()>,
    wakes: WakeSender,
    folders: Folders,
}

/// Wakes `up`. Wakes during a turn are one wake after it.
#[derive(Clone)]
struct WakeSender {
    sender: SyncSender<()>,
    /// The process was asked to end.
    stops: Arc<AtomicBool>,
}

impl WakeSender {
    /// Returns whether anybody is left to wake.
    fn wake(&self) -> bool {
        // A full channel means that a wake is already pending.
        !matches!(self.sender.try_send(()), Err(TrySendError::Disconnected(())))
    }
}

impl Waker {
    /// `ended` is the folder in which keepers leave a marker when their job is over.
    pub fn new(store: &Store, ended: &Path) -> Result<Self, WakeError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let wakes = WakeSender { sender, stops: Arc::default() };
        listen_to_store(store.clone(), wakes.clone());
        listen_to_signals(wakes.clone())?;
        let on_news = wakes.clone();
        let mut folders = Folders::watched_by(move |event: notify::Result<notify::Event>| {
            if is_news(&event) {
                on_news.wake();
            }
        })?;
        folders.watcher.watch(ended, RecursiveMode::NonRecursive).map_err(WakeError::Watch)?;
        Ok(Self { receiver, wakes, folders })
    }

    /// Watches these folders of signals and no others. To be called on every turn: a folder that
    /// was created or replaced is watched from the turn after it appeared. Files that were in a
    /// folder before are not missed, because watching a new folder is itself a wake. Folders beyond
    /// the bound are left to the regular turns.
    pub fn watch_signals(&mut self, folders: &[PathBuf]) {
        if self.folders.follow(folders) {
            self.wakes.wake();
        }
    }

    /// Sleeps until something happens or the time is over.
    pub fn wait(&self, at_most: Duration) -> WakeReason {
        match self.receiver.recv_timeout(at_most) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let stops = self.wakes.stops.load(Ordering::SeqCst);
        if stops { WakeReason::Stop } else { WakeReason::Look }
    }

    /// Sleeps until the time is over or the process shall end, whatever else happens.
    pub fn rest(&self, time: Duration) -> WakeReason {
        let began = clock::monotonic();
        loop {
            let left = time.saturating_sub(began.elapsed());
            if self.wait(left) == WakeReason::Stop {
                return WakeReason::Stop;
            } else if left.is_zero() {
                return WakeReason::Look;
            }
        }
    }
}

/// The folders that are watched.
struct Folders {
    watcher: RecommendedWatcher,
    signals: BTreeMap<PathBuf, Identity>,
}

/// The folder behind a path: the system watches the folder, and another one may take its path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    /// Numbers of removed folders are used again.
    created: Option<SystemTime>,
}

impl Identity {
    fn of(folder: &Path) -> Option<Self> {
        let meta = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
        let (device, inode, created) = (meta.dev(), meta.ino(), meta.created().ok());
        Some(Self { device, inode, created })
    }
}

impl Folders {
    fn watched_by(handler: impl EventHandler) -> Result<Self, WakeError> {
        let watcher = notify::recommended_watcher(handler).map_err(WakeError::Watch)?;
        Ok(Self { watcher, signals: BTreeMap::new() })
    }

    /// Returns whether a folder was added.
    fn follow(&mut self, wanted: &[PathBuf]) -> bool {
        let there = wanted.iter().filter_map(|folder| Some((folder, Identity::of(folder)?)));
        let there: BTreeMap<&PathBuf, Identity> = there.take(FOLDERS).collect();
        let watcher = &mut self.watcher;
        self.signals.retain(|folder, identity| {
            let stays = there.get(folder) == Some(identity);
            if !stays {
                // The system has already stopped watching a folder that is gone.
                drop(watcher.unwatch(folder));
            }
            stays
        });
        let mut came = false;
        for (folder, identity) in there {
            if self.signals.contains_key(folder) {
                continue;
            }
            // A folder that cannot be watched, for example because of the system's limit, is tried
            // again on the next turn.
            if self.watcher.watch(folder, RecursiveMode::NonRecursive).is_ok() {
                self.signals.insert(folder.clone(), identity);
                came = true;
            }
        }
        came
    }
}

/// Each turn lists folders, removes markers and moves signals into a folder that it creates, which
/// must not cause another turn. An error may mean that events were lost.
fn is_news(event: &notify::Result<notify::Event>) -> bool {
    let Ok(event) = event else { return true };
    let is_own = event.kind.is_access()
        || event.kind.is_remove()
        || matches!(
            event.kind,
            EventKind::Create(CreateKind::Folder)
                | EventKind::Modify(ModifyKind::Name(RenameMode::From))
        );
    !is_own
}

fn listen_to_store(store: Store, wakes: WakeSender) {
    let mut mark = store.mark();
    thread::spawn(move || {
        loop {
            let waited = store.wait(mark, SIT);
            // Taken before the turn, so that any later change wakes again.
            mark = store.mark();
            if waited == Waited::Notified && !wakes.wake() {
                return;
            }
        }
    });
}

fn listen_to_signals(wakes: WakeSender) -> Result<(), WakeError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGCHLD]).map_err(WakeError::Signals)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // A keeper that is killed leaves no marker, but its parent gets this signal.
            wakes.stops.fetch_or(signal != SIGCHLD, Ordering::SeqCst);
            if !wakes.wake() {
                return;
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use banksman_core::time::Instant;
    use notify::event::{AccessKind, AccessMode, RemoveKind};
    use tempfile::TempDir;

    use super::*;
    use crate::exec::mailbox::{ExpectedSignal, Mailbox, SignalResult};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn waker() -> (Waker, WakeSender) {
        let (sender, receiver) = mpsc::sync_channel(1);
        let wakes = WakeSender { sender, stops: Arc::default() };
        let folders = Folders::watched_by(|_| {}).unwrap();
        (Waker { receiver, wakes: wakes.clone(), folders }, wakes)
    }

    /// A store that cannot be reached wakes `up` again and again.
    #[test]
    fn a_rest_ends_early_only_to_stop() {
        let (waker, wakes) = waker();
        let (rest, began) = (Duration::from_millis(100), clock::monotonic());
        wakes.wake();
        assert_eq!(waker.rest(rest), WakeReason::Look);
        assert!(began.elapsed() >= rest, "a wake ended it");
        wakes.stops.store(true, Ordering::SeqCst);
        assert!(wakes.wake());
        assert_eq!(waker.rest(PATIENCE), WakeReason::Stop);
    }

    /// Events of a turn that takes long do not pile up, and none hides that the process shall end.
    #[test]
    fn many_wakes_are_one() {
        let (waker, wakes) = waker();
        assert!((0..1_000).all(|_| wakes.wake()));
        assert_eq!(waker.wait(PATIENCE), WakeReason::Look);
        assert_eq!(waker.receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
        wakes.wake();
        wakes.stops.store(true, Ordering::SeqCst);
        assert!(wakes.wake());
        assert_eq!(waker.wait(PATIENCE), WakeReason::Stop);
        drop(waker);
        assert!(!wakes.wake(), "nobody is left");
    }

    fn folders() -> (Folders, Receiver<notify::Event>) {
        let (sender, events) = mpsc::channel();
        let handler = move |event: notify::Result<notify::Event>| {
            sender.send(event.unwrap()).unwrap_or_default();
        };
        (Folders::watched_by(handler).unwrap(), events)
    }

    /// Puts a file there and waits until it is heard of; what was heard of before is the answer.
    fn heard_until(path: &Path, events: &Receiver<notify::Event>) -> Vec<notify::Event> {
        fs::write(path, "x").unwrap();
        let mut before = Vec::new();
        loop {
            let event =
                events.recv_timeout(PATIENCE).expect("a file in a watched folder is heard of");
            if event.paths.iter().any(|heard| heard == path) && is_news(&Ok(event.clone())) {
                return before;
            }
            before.push(event);
        }
    }

    #[test]
    fn a_look_at_the_folder_is_no_news() {
        let news = |kind: EventKind| is_news(&Ok(notify::Event::new(kind)));
        assert!(!news(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!news(EventKind::Remove(RemoveKind::File)));
        assert!(!news(EventKind::Create(CreateKind::Folder)));
        assert!(!news(EventKind::Modify(ModifyKind::Name(RenameMode::From))));
        assert!(news(EventKind::Modify(ModifyKind::Name(RenameMode::To))));
        assert!(news(EventKind::Create(CreateKind::File)));
        assert!(is_news(&Err(notify::Error::generic("events were lost"))));
    }

    #[test]
    fn taking_signals_wakes_nobody() {
        let root = TempDir::new().unwrap();
        let root = root.path().canonicalize().unwrap();
        let mailbox = Mailbox::new(&root);
        let signals = mailbox.signals_folder();
        fs::create_dir_all(&signals).unwrap();
        for name in ["G-pass", "H-fail.md"] {
            fs::write(signals.join(name), "words").unwrap();
        }
        let (mut folders, events) = folders();
        assert!(folders.follow(std::slice::from_ref(&signals)));

        let gates = ["G", "H"].map(|id| ExpectedSignal::Gate { id: id.to_owned() });
        let seen = mailbox.look(&gates, Instant(0)).unwrap();
        assert_eq!(seen.len(), 2);
        assert!(matches!(mailbox.take_from(&mailbox, &seen[0]).unwrap(), SignalResult::Moved(_)));
        let moved = mailbox.clear_for(&[], &["G".to_owned(), "H".to_owned()], &[], "r1").unwrap();
        assert_eq!(moved, 2);
        mailbox.record("w", Instant(0), "it was taken", "t1#1").unwrap();

        let before = heard_until(&signals.join("I-pass"), &events);
        assert!(!before.is_empty(), "the moves were heard of");
        let news: Vec<_> = before.into_iter().filter(|event| is_news(&Ok(event.clone()))).collect();
        assert_eq!(news, [], "none of it is a reason to look");
    }

    #[test]
    fn folders_come_go_and_are_replaced() {
        let root = TempDir::new().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [one, two] = ["one", "two"].map(|name| root.join(name));
        let both = [one.clone(), two.clone()];
        let (mut folders, events) = folders();
        assert!(!folders.follow(&both), "neither is there");
        fs::create_dir(&one).unwrap();
        assert!(folders.follow(&both));
        assert!(!folders.follow(&both), "nothing new");
        heard_until(&one.join("a"), &events);

        // It is made while the first one is there, so that it cannot get its number.
        fs::create_dir(root.join("new")).unwrap();
        fs::remove_dir_all(&one).unwrap();
        fs::rename(root.join("new"), &one).unwrap();
        fs::create_dir(&two).unwrap();
        assert!(folders.follow(&both), "another folder has the name");
        heard_until(&one.join("b"), &events);
        heard_until(&two.join("c"), &events);

        fs::rename(&one, root.join("old")).unwrap();
        fs::create_dir(&one).unwrap();
        assert!(folders.follow(&both));
        heard_until(&one.join("d"), &events);

        assert!(!folders.follow(std::slice::from_ref(&two)));
        fs::write(one.join("e"), "x").unwrap();
        let before = heard_until(&two.join("f"), &events);
        let of_one = |event: &&notify::Event| event.paths.contains(&one.join("e"));
        assert_eq!(before.iter().find(of_one), None, "it is not watched any more");
    }

    #[test]
    fn no_more_folders_than_the_bound_are_watched() {
        let root = TempDir::new().unwrap();
        let many: Vec<PathBuf> =
            (0..FOLDERS + 5).map(|number| root.path().join(number.to_string())).collect();
        many.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let (mut folders, _events) = folders();
        assert!(folders.follow(&many));
        assert_eq!(folders.signals.len(), FOLDERS);
        assert!(!folders.follow(&many), "those that are watched stay the same");
    }
}
