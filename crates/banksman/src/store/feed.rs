//! The feed: one ordered list of everything that changed in the store.
//!
//! Each change is a row, written in the transaction of what it tells. A row only refers to the
//! history, a run, a decision or a notice; the reader joins them. There is no counter that every
//! commit would update: on SQLite, with its one writer, the row's number follows the commits. On
//! PostgreSQL it does not, so a row also has its transaction's number, and a reader gets only rows
//! of transactions before which none is open any more. `docs/design/0005-feed.md` has the reasons.

use std::fmt;
use std::str::FromStr;

use banksman_core::closed::closed;
use banksman_core::ids::{DecisionId, RunId, TaskId};
use banksman_core::time::{Instant, Span};
use sha2::{Digest, Sha256};

use super::audit::HistoryEntry;
use super::conn::{DbError, Row};
use super::notices::Notice;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, sql};

/// How long changes and notices are kept.
pub const KEPT: Span = Span(30 * 24 * 60 * 60_000);
/// Changes that one call reads; `sql::CHANGES` has the same number.
pub const PAGE: i64 = 1_000;
/// Pages that one call of [`Store::prune`] removes. The next call goes on.
const PRUNED_PAGES: usize = 100;

closed! {
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
    pub fn changes(&self, after: Option<Cursor>, at_most: i64) -> Result<Vec<Change>> {
        self.read(|tx| {
            let (mut xid, mut seq) = after.map_or((0, 0), |cursor| (cursor.xid, cursor.seq));
            if let Some(cursor) = after {
                check(tx, cursor)?;
            }
            loop {
                let params = params![xid, seq, at_most.clamp(0, PAGE)];
                let rows = tx.query(sql::CHANGES, &params)?;
                let mut page = Vec::with_capacity(rows.len());
                for row in &rows {
                    let change = change(row).map_err(StoreError::from);
                    page.extend(tx.unless_damaged(row, change)?.flatten());
                }
                match rows.last() {
                    // All of them are damaged, or tell notices that are removed: this is not the
                    // end of the feed.
                    Some(last) if page.is_empty() => (xid, seq) = (last.int(0)?, last.int(1)?),
                    Some(_) | None => return Ok(page),
                }
            }
        })
    }

    /// The cursor of the latest change; none if the feed is empty.
    pub fn feed_end(&self) -> Result<Option<Cursor>> {
        self.read(|tx| tx.first(sql::FEED_END, &[], cursor))
    }

    /// Removes changes and notices that are older than [`KEPT`]. The last of the old changes stays:
    /// it is the cursor of readers that have missed nothing.
    pub fn prune(&self, now: Instant) -> Result<()> {
        let limit = now.0 - KEPT.0;
        for _ in 0..PRUNED_PAGES {
            let removed = self.write(move |tx| {
                let params = params![limit, PAGE];
                let changes = tx.query(sql::PRUNE_CHANGES, &params)?.len();
                Ok(changes + tx.query(sql::PRUNE_NOTICES, &params)?.len())
            })?;
            if removed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A dump of a PostgreSQL store may be restored on a server that counts its transactions from a
    /// lower number. The restored rows then come first, in the order of their own numbers.
    pub(super) fn adopt_restored(&self) -> Result<()> {
        if !self.read(|tx| tx.has(sql::RESTORED, &[]))? {
            return Ok(());
        }
        self.write(|tx| {
            // This waits for their writers, so that no change with a former number comes later.
            tx.write(sql::ADOPT_RESTORED_TASKS, &[])?;
            tx.write(sql::ADOPT_RESTORED, &[])
        })
    }
}

/// Adds a change to the feed. `number` is that of the record, the run, the decision or the notice.
pub(super) fn append(
    tx: &mut Tx<'_>,
    kind: ChangeKind,
    task: Option<TaskId>,
    number: i64,
    now: Instant,
) -> Result<()> {
    tx.write(sql::INSERT_CHANGE, &params![now, kind.as_str(), task, number])
}

pub(super) fn append_record(tx: &mut Tx<'_>, entry: &HistoryEntry) -> Result<()> {
    let kind = match &entry.record.from {
        None => ChangeKind::Created,
        Some(from) if *from != entry.record.to => ChangeKind::Moved,
        Some(_) => ChangeKind::Noted,
    };
    append(tx, kind, Some(entry.task), entry.seq, entry.ts)
}

/// The cursor's change must still be there and be the same.
fn check(tx: &mut Tx<'_>, given: Cursor) -> Result<()> {
    if tx.first(sql::CHANGE_AT, &params![given.xid, given.seq], cursor)? == Some(given) {
        return Ok(());
    }
    let oldest = tx.first(sql::FEED_START, &[], cursor)?;
    let is_old = oldest.is_some_and(|oldest| (given.xid, given.seq) < (oldest.xid, oldest.seq));
    Err(if is_old { CursorError::TooOld(given) } else { CursorError::Foreign(given) }.into())
}

/// Reads the first columns of `sql::CHANGES`.
fn cursor(row: &Row) -> Result<Cursor, DbError> {
    let (xid, seq) = (row.int(0)?, row.int(1)?);
    let (kind, task) = (row.text(3)?, row.get::<Option<i64>>(4)?);
    let told = format!("{xid} {seq} {} {kind} {task:?} {}", row.int(2)?, row.int(5)?);
    let hash = Sha256::digest(told.as_bytes());
    Ok(Cursor { xid, seq, check: u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) })
}

/// None if it told a notice that is removed.
fn change(row: &Row) -> Result<Option<Change>, DbError> {
    let (cursor, task, number) = (cursor(row)?, row.get(4)?, row.int(5)?);
    let kind = row.word(3)?;
    let run = |outcome| {
        let run = RunId { task: row.get(4)?, epoch: number };
        Ok::<_, DbError>(ChangeDetail::Run { run, worker: row.get(10)?, outcome })
    };
    let decision = |settled_by| {
        let (id, asks) = (DecisionId(number), row.get(12)?);
        Ok::<_, DbError>(ChangeDetail::Decision { id, asks, settled_by })
    };
    let detail = match kind {
        ChangeKind::Created | ChangeKind::Moved | ChangeKind::Noted => ChangeDetail::Record {
            seq: number,
            from: row.get(6)?,
            to: row.get(7)?,
            trigger: row.get(8)?,
            actor: row.get(9)?,
        },
        ChangeKind::RunStarted => run(None)?,
        ChangeKind::RunEnded | ChangeKind::RunReported => run(row.get(11)?)?,
        ChangeKind::DecisionOpened => decision(None)?,
        ChangeKind::DecisionAnswered | ChangeKind::DecisionLapsed => decision(row.get(13)?)?,
        ChangeKind::Notice if row.get::<Option<i64>>(14)?.is_none() => return Ok(None),
        ChangeKind::Notice => ChangeDetail::Notice(Notice::read(row, 14)?),
    };
    Ok(Some(Change { cursor, at: row.get(2)?, kind, task, detail }))
}
