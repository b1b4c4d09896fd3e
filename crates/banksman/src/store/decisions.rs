//! The inbox of people: questions in the order of their deadlines, how one was settled, and putting
//! off a reminder.
//!
//! Questions are opened and settled in `follow`, with the move that asks or answers. Nothing here
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
    /// Open questions, the one that is due first in front, at most a page of them.
    pub fn inbox(&self) -> Result<Vec<Decision>, StoreError> {
        self.read(|conn| all(conn, sql::INBOX, &[PAGE.into()], decision))
    }

    /// A question, open or settled.
    pub fn decision(&self, id: DecisionId) -> Result<Option<Decision>, StoreError> {
        self.read(|conn| Ok(all(conn, sql::DECISION, &[id.0.into()], decision)?.pop()))
    }

    /// The newest question about a task, open or settled.
    pub fn last_decision(&self, task: TaskId) -> Result<Option<Decision>, StoreError> {
        self.read(|conn| Ok(all(conn, sql::LAST_DECISION_OF, &[task.0.into()], decision)?.pop()))
    }

    /// The question that somebody answered last, if that was not before a time.
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

    /// Puts the reminders of an open question off. False if it is settled by now.
    pub fn snooze_if_open(&self, open: &Decision, until: Instant) -> Result<bool, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        let (id, task) = (open.id, open.task);
        self.write(move |conn| {
            // A move that settles it also sets the timers anew, so the two must not be written at
            // the same time.
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
