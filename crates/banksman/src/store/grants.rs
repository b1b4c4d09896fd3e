//! The permissions that people have granted to a task, read from its history.
//!
//! They are stored nowhere else, so every grant has a record of the person who gave it.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Actor, Event, HistoryNote, Task};
use banksman_core::policy::{self, Grant};
use banksman_core::time::Instant;

use super::query;
use super::{Applied, HistoryEntry, IdempotencyKey, Result, Store, Stored};

/// Records of a history that are read. Older grants are forgotten, and the agent has to ask again.
const RECORDS: i64 = 50_000;

impl Store {
    /// Every permission that people gave to agents on this task.
    pub fn grants(&self, id: TaskId) -> Result<Vec<Grant>> {
        let stored = self.task(id)?;
        let entries = self.latest_history(&stored)?;
        let records = entries.iter().map(|entry| (entry.seq, &entry.record));
        Ok(policy::grants(&stored.lifecycle, records))
    }

    /// The records of a task, oldest first; only the latest of a very long history.
    pub fn latest_history(&self, stored: &Stored) -> Result<Vec<HistoryEntry>> {
        let Task { id, version, .. } = stored.task;
        let first = version.saturating_sub(RECORDS).max(0);
        self.read(|tx| query::records(tx, id, first, i64::MAX))
    }

    /// Adds a record that changes nothing else. With the same text as a key, it is added once.
    pub fn note(
        &self,
        id: TaskId,
        actor: &Actor,
        note: Note,
        key: &str,
        now: Instant,
    ) -> Result<Applied> {
        let note = HistoryNote { actor: actor.clone(), trigger: note.to_string(), detail: None };
        self.apply(id, Event::Noted(note), Some(IdempotencyKey::new(key, key)), now)
    }
}
