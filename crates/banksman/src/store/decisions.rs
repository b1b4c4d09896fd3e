//! The inbox: decisions in the order of their deadlines, how each was settled, and snoozing.
//!
//! `follow` opens and settles a decision with the transition that asks or answers. Nothing here
//! changes a task.

use std::sync::Arc;

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::machine::Actor;
use banksman_core::time::Instant;

use super::apply::load_for_update;
use super::audit::HistoryEntry;
use super::query::{Decision, PAGE, all, decision};
use super::{Store, StoreError, sql};

impl Store {
    /// Open decisions, the earliest deadline first, at most one page.
    pub fn inbox(&self) -> Result<Vec<Decision>, StoreError> {
        self.read(|conn| all(conn, sql::INBOX, &[PAGE.into()], decision))
    }

    /// A decision, open or settled.
    pub fn decision(&self, id: DecisionId) -> Result<Option<Decision>, StoreError> {
        self.read(|conn| Ok(all(conn, sql::DECISION, &[id.0.into()], decision)?.pop()))
    }

    /// The newest decision about a task, open or settled.
    pub fn last_decision(&self, task: TaskId) -> Result<Option<Decision>, StoreError> {
        self.read(|conn| Ok(all(conn, sql::LAST_DECISION_OF, &[task.0.into()], decision)?.pop()))
    }

    /// The last decision that a person answered, if not before a time.
    pub fn last_answer(
        &self,
        by: &Actor,
        not_before: Instant,
    ) -> Result<Option<Decision>, StoreError> {
        let params = [by.to_string().into(), not_before.0.into()];
        self.read(|conn| Ok(all(conn, sql::LAST_ANSWER_BY, &params, decision)?.pop()))
    }

    /// One record of a task's history.
    pub fn record(&self, task: TaskId, seq: i64) -> Result<Option<HistoryEntry>, StoreError> {
        let params = [task.0.into(), (seq - 1).into(), seq.into(), 1.into()];
        let read = |row: &_| HistoryEntry::read(task, row);
        self.read(|conn| Ok(all(conn, sql::HISTORY, &params, read)?.pop()))
    }

    /// Snoozes the reminders of an open decision. Returns false if it is settled by now.
    pub fn snooze_if_open(&self, open: &Decision, until: Instant) -> Result<bool, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        let (id, task) = (open.id, open.task);
        self.write(move |conn| {
            // A transition that settles it also resets the timers, so the two writes must not
            // overlap.
            load_for_update(conn, &definitions, task)?;
            if conn.query(sql::SNOOZE_DECISION, &[id.0.into(), until.0.into()])?.is_empty() {
                return Ok(false);
            }
            conn.write(sql::DROP_SNOOZED_REMINDERS, &[task.0.into(), until.0.into()])?;
            conn.write(sql::PUT_OFF_REMINDER, &[task.0.into(), until.0.into()])?;
            conn.notify();
            Ok(true)
        })
    }
}
