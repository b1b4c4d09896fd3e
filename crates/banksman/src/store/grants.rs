//! What people have allowed on a task, told by its history, and notes that only belong there.

use banksman_core::ids::TaskId;
use banksman_core::machine::{Actor, Event, Note};
use banksman_core::policy::{self, Grant};
use banksman_core::time::Instant;

use super::query::PAGE;
use super::{Applied, Entry, Key, Store, StoreError};

/// Pages of a history that are read; what is older than this is forgotten, and has to be asked for again.
const PAGES: usize = 50;

impl Store {
    /// Everything that people have allowed agents to do on this task.
    pub fn grants(&self, id: TaskId) -> Result<Vec<Grant>, StoreError> {
        let stored = self.task(id)?;
        let entries = self.whole_history(id)?;
        let records = entries.iter().map(|entry| (entry.seq, &entry.record));
        Ok(policy::grants(&stored.lifecycle, records))
    }

    /// The records of a task from the first on.
    pub fn whole_history(&self, id: TaskId) -> Result<Vec<Entry>, StoreError> {
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..PAGES {
            let after = entries.last().map_or(0, |entry| entry.seq);
            let page = self.history(id, after)?;
            let is_last = i64::try_from(page.len()).unwrap_or(PAGE) < PAGE;
            entries.extend(page);
            if is_last {
                break;
            }
        }
        Ok(entries)
    }

    /// Puts something on record that changes nothing. The same text as a key puts it there once.
    pub fn note(
        &self,
        id: TaskId,
        actor: &Actor,
        trigger: &str,
        key: &str,
        now: Instant,
    ) -> Result<Applied, StoreError> {
        let note = Note { actor: actor.clone(), trigger: trigger.to_owned() };
        self.apply(id, Event::Noted(note), Some(Key::new(key, key)), now)
    }
}
