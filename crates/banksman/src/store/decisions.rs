//! The inbox: decisions in the order of their deadlines, how each was settled, and snoozing.
//!
//! `follow` opens and settles a decision with the transition that asks or answers. Nothing here
//! changes a task.

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::machine::Actor;
use banksman_core::time::Instant;

use super::audit::HistoryEntry;
use super::query::{Decision, PAGE, decision};
use super::tx::params;
use super::{Result, Store, sql};

impl Store {
    /// Open decisions, the earliest deadline first, at most one page.
    pub fn inbox(&self) -> Result<Vec<Decision>> {
        self.rows(sql::INBOX, &params![PAGE], decision)
    }

    /// A decision, open or settled.
    pub fn decision(&self, id: DecisionId) -> Result<Option<Decision>> {
        self.row(sql::DECISION, &params![id], decision)
    }

    /// The newest decision about a task, open or settled.
    pub fn last_decision(&self, task: TaskId) -> Result<Option<Decision>> {
        Ok(self.decisions_of(task, 1)?.pop())
    }

    /// The decisions about a task, the newest first.
    pub fn decisions_of(&self, task: TaskId, at_most: i64) -> Result<Vec<Decision>> {
        self.rows(sql::DECISIONS_OF, &params![task, at_most], decision)
    }

    /// The last decision that a person answered, if not before a time.
    pub fn last_answer(&self, by: &Actor, not_before: Instant) -> Result<Option<Decision>> {
        self.row(sql::LAST_ANSWER_BY, &params![by.to_string(), not_before], decision)
    }

    /// One record of a task's history.
    pub fn record(&self, task: TaskId, seq: i64) -> Result<Option<HistoryEntry>> {
        let params = params![task, seq - 1, seq, 1_i64];
        Ok(self.rows(sql::HISTORY, &params, HistoryEntry::read)?.pop())
    }

    /// Snoozes the reminders of an open decision. Returns false if it is settled by now.
    pub fn snooze_if_open(&self, open: &Decision, until: Instant) -> Result<bool> {
        let (id, task) = (open.id, open.task);
        self.write(move |tx| {
            // A transition that settles it also resets the timers, so the two writes must not
            // overlap.
            tx.load_for_update(task)?;
            if !tx.has(sql::SNOOZE_DECISION, &params![id, until])? {
                return Ok(false);
            }
            tx.write(sql::DROP_SNOOZED_REMINDERS, &params![task, until])?;
            tx.write(sql::PUT_OFF_REMINDER, &params![task, until])?;
            tx.notify();
            Ok(true)
        })
    }
}
