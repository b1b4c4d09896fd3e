//! The feed: one ordered list of everything that changed in the store.
//!
//! Each change is a row, written in the transaction of what it tells. A row only refers to the
//! history, a run, a decision or a notice; the reader joins them. There is no counter that every
//! commit would update: on SQLite, with its one writer, the row's number follows the commits. On
//! PostgreSQL it does not, so a row also has its transaction's number, and a reader gets only rows
//! of transactions before which none is open any more. `docs/design/0005-feed.md` has the reasons.

use std::fmt;
use std::str::FromStr;

use banksman_core::ids::{DecisionId, RunId, TaskId};
use banksman_core::time::{Instant, Span};
use sha2::{Digest, Sha256};

use super::audit::HistoryEntry;
use super::conn::{Conn, DbError, Row};
use super::notices::Notice;
use super::row::words;
use super::{Store, StoreError, sql};

/// How long changes and notices are kept.
pub const KEPT: Span = Span(30 * 24 * 60 * 60_000);
/// Changes that one call reads; `sql::CHANGES` has the same number.
pub const PAGE: i64 = 1_000;
/// Pages that one call of [`Store::prune`] removes. The next call goes on.
const PRUNED_PAGES: usize = 100;

words! {
    /// What a change tells.
    pub enum ChangeKind {
        /// The first record of a task.
        Created = "created",
        /// A record that brought a task into another state.
        Moved = "moved",
        /// A record that left a task in its state.
        Noted = "noted",
        RunStarted = "run_started",
        RunEnded = "run_ended",
        /// What is known about an ended run was stored, such as its cost.
        RunReported = "run_reported",
        DecisionOpened = "decision_opened",
        /// A person answered.
        DecisionAnswered = "decision_answered",
        /// It closed without a person's answer: its time was over, or its task moved on.
        DecisionLapsed = "decision_lapsed",
        Notice = "notice",
    }
}

/// A place in the feed. For callers it is text without a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    xid: i64,
    seq: i64,
    /// A hash of the change, which shows that the cursor is of this store as it is now.
    check: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.xid, self.seq, self.check)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    #[error("`{0}` is not a cursor")]
    NotACursor(String),
    #[error("the changes after the cursor {0} are no longer all kept")]
    TooOld(Cursor),
    #[error("the cursor {0} is not of this store, or the store was restored from a backup")]
    Foreign(Cursor),
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let read = || {
            let mut parts = text.split('-');
            let (xid, seq) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let check = u32::from_str_radix(parts.next()?, 16).ok()?;
            Some(Self { xid, seq, check }).filter(|cursor| cursor.to_string() == text)
        };
        read().ok_or_else(|| CursorError::NotACursor(text.chars().take(64).collect()))
    }
}

/// A change of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Reading after it continues with the next change.
    pub cursor: Cursor,
    pub at: Instant,
    pub kind: ChangeKind,
    pub task: Option<TaskId>,
    pub detail: ChangeDetail,
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeDetail {
    /// A record of the task's history, without its fields.
    Record {
        seq: i64,
        from: Option<String>,
        to: String,
        trigger: String,
        actor: String,
    },
    /// The outcome is of the end of the run.
    Run {
        run: RunId,
        worker: String,
        outcome: Option<String>,
    },
    Decision {
        id: DecisionId,
        asks: String,
        settled_by: Option<String>,
    },
    Notice(Notice),
}

impl Store {
    /// The changes after a cursor, or from the oldest that is kept, in the order that every reader
    /// sees. Nothing will ever come before the last of them.
    pub fn changes(&self, after: Option<Cursor>, at_most: i64) -> Result<Vec<Change>, StoreError> {
        self.adopt_restored()?;
        self.read(|conn| {
            let (mut xid, mut seq) = after.map_or((0, 0), |cursor| (cursor.xid, cursor.seq));
            if let Some(cursor) = after {
                check(conn, cursor)?;
            }
            loop {
                let params = [xid.into(), seq.into(), at_most.clamp(0, PAGE).into()];
                let rows = conn.query(sql::CHANGES.pick(conn), &params)?;
                let page: Vec<_> = rows
                    .iter()
                    .filter_map(|row| change(row).transpose())
                    .collect::<Result<_, _>>()?;
                match rows.last() {
                    // All of them tell notices that are removed: this is not the end of the feed.
                    Some(last) if page.is_empty() => (xid, seq) = (last.int(0)?, last.int(1)?),
                    Some(_) | None => return Ok(page),
                }
            }
        })
    }

    /// The cursor of the latest change; none if the feed is empty.
    pub fn feed_end(&self) -> Result<Option<Cursor>, StoreError> {
        self.adopt_restored()?;
        self.read(|conn| conn.query(sql::FEED_END.pick(conn), &[])?.first().map(cursor).transpose())
    }

    /// Removes changes and notices that are older than [`KEPT`]. The last of the old changes stays:
    /// it is the cursor of readers that have missed nothing.
    pub fn prune(&self, now: Instant) -> Result<(), StoreError> {
        let limit = now.0 - KEPT.0;
        for _ in 0..PRUNED_PAGES {
            let removed = self.write(move |conn| {
                let params = [limit.into(), PAGE.into()];
                let changes = conn.query(sql::PRUNE_CHANGES.pick(conn), &params)?.len();
                Ok(changes + conn.query(sql::PRUNE_NOTICES, &params)?.len())
            })?;
            if removed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A dump of a PostgreSQL store may be restored on a server that counts its transactions from a
    /// lower number. The restored rows then come first, in the order of their own numbers.
    fn adopt_restored(&self) -> Result<(), StoreError> {
        if self.read(|conn| Ok(conn.query(sql::RESTORED.pick(conn), &[])?.is_empty()))? {
            return Ok(());
        }
        self.write(|conn| {
            // This waits for their writers, so that no change with a former number comes later.
            conn.write(sql::ADOPT_RESTORED_TASKS.pick(conn), &[])?;
            Ok(conn.write(sql::ADOPT_RESTORED.pick(conn), &[])?)
        })
    }
}

/// Adds a change to the feed. `number` is that of the record, the run, the decision or the notice.
pub(super) fn tell(
    conn: &mut dyn Conn,
    kind: ChangeKind,
    task: Option<TaskId>,
    number: i64,
    now: Instant,
) -> Result<(), StoreError> {
    let columns =
        [now.0.into(), kind.as_str().into(), task.map(|task| task.0).into(), number.into()];
    Ok(conn.write(sql::INSERT_CHANGE.pick(conn), &columns)?)
}

pub(super) fn tell_record(conn: &mut dyn Conn, entry: &HistoryEntry) -> Result<(), StoreError> {
    let kind = match &entry.record.from {
        None => ChangeKind::Created,
        Some(from) if *from != entry.record.to => ChangeKind::Moved,
        Some(_) => ChangeKind::Noted,
    };
    tell(conn, kind, Some(entry.task), entry.seq, entry.ts)
}

pub(super) fn tell_run(
    conn: &mut dyn Conn,
    kind: ChangeKind,
    run: RunId,
    now: Instant,
) -> Result<(), StoreError> {
    tell(conn, kind, Some(run.task), run.epoch, now)
}

/// The cursor's change must still be there and be the same.
fn check(conn: &mut dyn Conn, given: Cursor) -> Result<(), StoreError> {
    let rows = conn.query(sql::CHANGE_AT, &[given.xid.into(), given.seq.into()])?;
    if rows.first().map(cursor).transpose()? == Some(given) {
        return Ok(());
    }
    let oldest = conn.query(sql::FEED_START.pick(conn), &[])?.first().map(cursor).transpose()?;
    let is_old = oldest.is_some_and(|oldest| (given.xid, given.seq) < (oldest.xid, oldest.seq));
    Err(if is_old { CursorError::TooOld(given) } else { CursorError::Foreign(given) }.into())
}

/// Reads the first columns of `sql::CHANGES`.
fn cursor(row: &Row) -> Result<Cursor, StoreError> {
    let (xid, seq) = (row.int(0)?, row.int(1)?);
    let (kind, task) = (row.text(3)?, row.opt_int(4)?);
    let told = format!("{xid} {seq} {} {kind} {task:?} {}", row.int(2)?, row.int(5)?);
    let hash = Sha256::digest(told.as_bytes());
    Ok(Cursor { xid, seq, check: u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) })
}

/// None if it told a notice that is removed.
fn change(row: &Row) -> Result<Option<Change>, StoreError> {
    let (cursor, task, number) = (cursor(row)?, row.opt_int(4)?.map(TaskId), row.int(5)?);
    let kind = ChangeKind::read_word(row, 3)?;
    let text = |column: usize| Ok::<_, StoreError>(row.opt_text(column)?.map(str::to_owned));
    let run = |outcome| {
        let run = RunId { task: TaskId(row.int(4)?), epoch: number };
        Ok::<_, StoreError>(ChangeDetail::Run { run, worker: row.text(10)?.to_owned(), outcome })
    };
    let decision = |settled_by| {
        let asks = row.text(12)?.to_owned();
        Ok::<_, StoreError>(ChangeDetail::Decision { id: DecisionId(number), asks, settled_by })
    };
    let detail = match kind {
        ChangeKind::Created | ChangeKind::Moved | ChangeKind::Noted => ChangeDetail::Record {
            seq: number,
            from: text(6)?,
            to: row.text(7)?.to_owned(),
            trigger: row.text(8)?.to_owned(),
            actor: row.text(9)?.to_owned(),
        },
        ChangeKind::RunStarted => run(None)?,
        ChangeKind::RunEnded | ChangeKind::RunReported => run(text(11)?)?,
        ChangeKind::DecisionOpened => decision(None)?,
        ChangeKind::DecisionAnswered | ChangeKind::DecisionLapsed => decision(text(13)?)?,
        ChangeKind::Notice if row.opt_int(14)?.is_none() => return Ok(None),
        ChangeKind::Notice => ChangeDetail::Notice(Notice::read(row, 14)?),
    };
    Ok(Some(Change { cursor, at: Instant(row.int(2)?), kind, task, detail }))
}
