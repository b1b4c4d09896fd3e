//! The SQLite driver: one writer with group commit, a few readers, and wake-ups from other
//! processes.
//!
//! Any number of processes may have the file open. The writer never waits for a reader before it
//! commits, and a reader never waits for the writer.

mod open;
mod transaction;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;

use self::transaction::Link;
use self::writer::Writer;
use super::error::DbError;
use super::pool::Pool;
use super::wake::{Waited, WakeFile, WakeMark, WakeSignal, Watch};
use super::{Access, Conn, Migration, Options, Result, run_job};

/// How often a waiter checks the file by itself, in case a hint was lost.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// While hints arrive, at most one in this many checks wakes the waiter. Commits that matter give a
/// hint, so a check mostly finds commits that nobody waits for, such as lease renewals; a steady
/// trickle of them must not keep every waiter awake.
const CHECKS_PER_WAKE: u32 = 10;

/// The same as [`CHECK_INTERVAL`] where the system provides no hints from other processes.
const CHECK_INTERVAL_WITHOUT_HINTS: Duration = Duration::from_millis(50);

pub(super) struct Sqlite {
    pub(super) writer: Writer,
    /// Read connections, opened when first needed.
    readers: Pool<Link>,
    path: PathBuf,
    busy_timeout: Duration,
    pub(super) signal: Arc<WakeSignal>,
    wake_file: Arc<WakeFile>,
    /// Checks whether another connection has changed the file. Only the waiter that holds the lock
    /// checks.
    detector: Mutex<Option<ChangeDetector>>,
}

impl Sqlite {
    pub(super) fn open(path: &Path, options: &Options, migrations: &[Migration]) -> Result<Self> {
        let (link, wake_file) = open::open(path, options, migrations)?;
        let signal = Arc::new(WakeSignal::default());
        let wake_file = Arc::new(wake_file);
        let path = link.path.clone();
        let writer = Writer::start(link, Arc::clone(&signal), Arc::clone(&wake_file))
            .map_err(|error| DbError::other("start the store's writer", error))?;
        Ok(Self {
            writer,
            readers: Pool::new(options.connections, options.busy_timeout),
            path,
            busy_timeout: options.busy_timeout,
            signal,
            wake_file,
            detector: Mutex::new(None),
        })
    }

    pub(super) fn read<T, E: From<DbError>>(
        &self,
        mut job: impl FnMut(&mut dyn Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut reader = self.readers.borrow(|idle| idle.map_or_else(|| self.reader(), Ok))?;
        reader.link.control("BEGIN")?;
        let ran = run_job(&mut job, &mut reader.link);
        if reader.link.is_in_transaction() {
            reader.link.control("ROLLBACK")?;
        }
        reader.give_back();
        ran.unless_lost()
    }

    pub(super) fn wait(&self, mark: WakeMark, at_most: Duration) -> Waited {
        let (slice, checks) = match self.wake_file.watch(&self.signal) {
            Watch::Began => {
                self.check(1);
                return Waited::Notified;
            }
            Watch::Running => (CHECK_INTERVAL, CHECKS_PER_WAKE),
            Watch::Unavailable => (CHECK_INTERVAL_WITHOUT_HINTS, 1),
        };
        self.signal.wait_and_check(mark, at_most, slice, || self.check(checks))
    }

    fn reader(&self) -> Result<Link> {
        let connection = open::connect(&self.path, self.busy_timeout, Access::Read)?;
        Ok(Link::new(connection, self.path.clone(), Access::Read))
    }

    /// Returns whether the file may have changed, at most once in `checks` checks. If the check
    /// fails, it may have.
    fn check(&self, checks: u32) -> bool {
        let Ok(mut detector) = self.detector.try_lock() else {
            return false;
        };
        if detector.is_none() {
            *detector = self.reader().ok().map(|reader| ChangeDetector::new(reader.connection));
        }
        detector.as_mut().is_none_or(|detector| detector.check(checks))
    }
}

struct ChangeDetector {
    connection: Connection,
    seen: i64,
    has_unreported: bool,
    /// Checks since the last one that returned true.
    checks: u32,
}

impl ChangeDetector {
    /// Earlier commits do not count.
    fn new(connection: Connection) -> Self {
        let mut detector = Self { connection, seen: 0, has_unreported: false, checks: u32::MAX };
        detector.has_changed();
        detector
    }

    fn has_changed(&mut self) -> bool {
        // This number changes whenever another connection, in any process, commits.
        let Ok(now) = self.connection.pragma_query_value(None, "data_version", |row| row.get(0))
        else {
            return true;
        };
        std::mem::replace(&mut self.seen, now) != now
    }

    /// Whether there was an unreported commit; reports at most once in `checks` checks.
    fn check(&mut self, checks: u32) -> bool {
        self.has_unreported |= self.has_changed();
        self.checks = self.checks.saturating_add(1);
        let reports = self.has_unreported && self.checks >= checks;
        if reports {
            (self.has_unreported, self.checks) = (false, 0);
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_commits_are_reported_at_a_bounded_rate() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("store.db")).unwrap();
        let writer = open();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE notes (name)").unwrap();
        let commit = || writer.execute("INSERT INTO notes (name) VALUES ('silent')", []).unwrap();
        let mut detector = ChangeDetector::new(open());
        assert!(!detector.check(3), "what was there before is no news");
        commit();
        assert!(detector.check(3), "after a rest it is told of at once");
        let reported: Vec<bool> = (0..6)
            .map(|_| {
                commit();
                detector.check(3)
            })
            .collect();
        assert_eq!(reported, [false, false, true, false, false, true]);
        commit();
        let reported: Vec<bool> = (0..4).map(|_| detector.check(3)).collect();
        assert_eq!(reported, [false, false, true, false], "and the last one is not forgotten");
    }
}
