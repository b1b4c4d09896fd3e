//! Wakes those who wait for a change: a counter with a condition variable inside the process, a
//! small file next to the database between processes.
//!
//! All of this is a hint. Correctness must not depend on it: a waiter queries the database again.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::locked;

/// A point in time, as [`super::Db::mark`] saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeMark(u64);

/// Why [`super::Db::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Something may have changed.
    Notified,
    TimedOut,
}

/// Counts notifications and wakes waiters when the count changes.
#[derive(Debug, Default)]
pub(super) struct WakeSignal {
    count: Mutex<u64>,
    moved: Condvar,
}

impl WakeSignal {
    pub(super) fn mark(&self) -> WakeMark {
        WakeMark(*locked(&self.count))
    }

    pub(super) fn raise(&self) {
        *locked(&self.count) += 1;
        self.moved.notify_all();
    }

    pub(super) fn wait(&self, mark: WakeMark, at_most: Duration) -> Waited {
        let count = locked(&self.count);
        let (count, _) = self
            .moved
            .wait_timeout_while(count, at_most, |count| *count == mark.0)
            .unwrap_or_else(PoisonError::into_inner);
        if *count == mark.0 { Waited::TimedOut } else { Waited::Notified }
    }

    /// Waits in slices and calls `check` after each, which returns whether a hint was lost.
    pub(super) fn wait_and_check(
        &self,
        mark: WakeMark,
        at_most: Duration,
        slice: Duration,
        mut check: impl FnMut() -> bool,
    ) -> Waited {
        // A time too far in the future for the clock is treated as one in a year.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let end = Instant::now() + at_most.min(LONGEST);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.wait(mark, left.min(slice)) == Waited::Notified {
                return Waited::Notified;
            }
            if left <= slice {
                return Waited::TimedOut;
            }
            if check() {
                self.raise();
            }
        }
    }
}

/// The file next to an SQLite database that is touched after each commit that matters to waiters.
///
/// Watching the database's own log instead would be wrong: it is written before the commit is
/// visible.
pub(super) struct WakeFile {
    path: PathBuf,
    file: Mutex<File>,
    /// None if the system has no watch left (it limits them); it is not asked again.
    watcher: OnceLock<Option<RecommendedWatcher>>,
}

impl WakeFile {
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wake");
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self { file: Mutex::new(options.open(&path)?), path, watcher: OnceLock::new() })
    }

    /// Notifies other processes. If this fails, their own checks find the change within a second.
    pub(super) fn touch(&self) -> io::Result<()> {
        let mut file = locked(&self.file);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(b"!")
    }

    /// Makes touches of the file raise the signal, as far as the system allows.
    pub(super) fn watch(&self, signal: &Arc<WakeSignal>) -> Watch {
        let mut began = false;
        let watcher = self.watcher.get_or_init(|| {
            began = true;
            self.start(Arc::clone(signal)).ok()
        });
        if began {
            Watch::Began
        } else if watcher.is_some() {
            Watch::Running
        } else {
            Watch::Unavailable
        }
    }

    fn start(&self, signal: Arc<WakeSignal>) -> notify::Result<RecommendedWatcher> {
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // An error may mean lost events, which is a reason to query as well.
                if event.map_or(true, |event| matches!(event.kind, EventKind::Modify(_))) {
                    signal.raise();
                }
            })?;
        watcher.watch(&self.path, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }
}

/// Whether touches of the file are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// This call started the watch; what happened before is unknown.
    Began,
    Running,
    Unavailable,
}
