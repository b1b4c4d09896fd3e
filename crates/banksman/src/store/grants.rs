//! What people have granted to a task, read from its history.
//!
//! Permissions and raised budgets are stored nowhere else, so every grant has a record of the
//! person who gave it.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::lifecycle::{Lifecycle, StateKind};
use banksman_core::machine::{Actor, Event, HistoryNote, Task, TransitionRequest};
use banksman_core::policy::{self, Grant};
use banksman_core::schedule::{Budget, Used};
use banksman_core::time::{Instant, Span};

use super::notices::NewNotice;
use super::query;
use super::tx::Tx;
use super::{Applied, HistoryEntry, IdempotencyKey, Result, Store, Stored};

/// Records of a history that are read. Older grants are forgotten, and the agent has to ask again.
const RECORDS: i64 = 50_000;
/// The prefix of the key of a transition that asks for more than a task's budget; what was used
/// follows. The key identifies it, because anybody could write the words of the transition.
const OVER_BUDGET: &str = "over-budget-";

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
        self.read(|tx| latest(tx, &stored.task))
    }

    /// Asks for a transition because the task's budget is used up. A person who continues the task
    /// grants it as much again.
    pub fn ask_for_budget(
        &self,
        stored: &Stored,
        ask: TransitionRequest,
        used: &Used,
        notice: NewNotice,
        now: Instant,
    ) -> Result<Applied> {
        let key = key_of(stored, used);
        let ask =
            TransitionRequest { actor: Actor::system(), version: Some(stored.task.version), ..ask };
        let (event, key) = (Event::Asked(ask), Some(IdempotencyKey::new(&key, &key)));
        self.apply_telling(stored.task.id, event, key, now, move |_| Some(notice.clone()))
    }

    /// What a task had used when a person last granted it its budget again.
    pub fn raised_at(&self, id: TaskId) -> Result<Option<Used>> {
        let stored = self.task(id)?;
        Ok(raised_at(&stored.lifecycle, &self.latest_history(&stored)?))
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

/// The budget of a task with everything that people have granted. The history is read only if the
/// budget is used up without that.
pub(super) fn budget_of(
    tx: &mut Tx<'_>,
    stored: &Stored,
    budget: Budget,
    used: &Used,
) -> Result<Budget> {
    if !budget.is_used_up(used) {
        return Ok(budget);
    }
    let raised_at = raised_at(&stored.lifecycle, &latest(tx, &stored.task)?);
    Ok(raised_at.map_or(budget, |used| budget.beyond(&used)))
}

/// The latest records of a task, oldest first.
fn latest(tx: &mut Tx<'_>, task: &Task) -> Result<Vec<HistoryEntry>> {
    query::records(tx, task.id, task.version.saturating_sub(RECORDS).max(0), i64::MAX)
}

fn key_of(stored: &Stored, used: &Used) -> String {
    let Used { runs, tokens, cost_micros, time } = used;
    format!("{OVER_BUDGET}{}-{runs}-{tokens}-{cost_micros}-{}", stored.task.entered, time.0)
}

fn used_in(key: &str) -> Option<Used> {
    let numbers = key.strip_prefix(OVER_BUDGET)?.split('-').map(|number| number.parse().ok());
    let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
    let [_entered, runs, tokens, cost_micros, time] = numbers[..] else { return None };
    Some(Used { runs, tokens, cost_micros, time: Span(time) })
}

/// The system asks, and the next record is the transition of a person who continues the task.
fn raised_at(lifecycle: &Lifecycle, entries: &[HistoryEntry]) -> Option<Used> {
    let (mut asked, mut raised) = (None, None);
    for HistoryEntry { record, key, .. } in entries {
        if record.from.as_deref() == Some(record.to.as_str()) {
            continue;
        }
        let by = |actor: Actor| record.actor.role == actor.role;
        if asked.is_some() && by(Actor::human("")) && goes_on(lifecycle, &record.to) {
            raised = asked;
        }
        asked = key.as_deref().filter(|_| by(Actor::system())).and_then(used_in);
    }
    raised
}

fn goes_on(lifecycle: &Lifecycle, state: &str) -> bool {
    let kind = lifecycle.find_state(state).map(|id| lifecycle.state(id).kind);
    !matches!(kind, None | Some(StateKind::Failed | StateKind::Cancelled | StateKind::Parked))
}
