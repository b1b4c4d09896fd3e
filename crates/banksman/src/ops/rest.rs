//! Tasks that rest and go on by themselves: until when, why, and which attempt comes next. `why`,
//! `list` and `status` say the same about them, and none of them asks a person.

use banksman_core::ids::RunId;
use banksman_core::lifecycle::{Outcome, StateKind};
use banksman_core::machine::{self, WaitsFor, attempts, rests, rests_for_reviewers, waits_for};
use banksman_core::text::line;
use banksman_core::time::Instant;

use super::OpsError;
use super::status::last_run;
use crate::store::{Store, Stored};

/// How much of a reason is shown, in bytes.
const REASON_BYTES: usize = 500;

/// The rest of a task before its next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rest {
    pub until: Instant,
    /// The number of the next attempt.
    pub attempt: i64,
    /// How its last run ended, if that is why it rests, and otherwise what is missing.
    pub outcome: Option<Outcome>,
    pub why: String,
    /// The same as a sentence.
    pub sentence: String,
}

/// Whether a task goes on by itself although nothing works on it: it is retried, or its state leads
/// on.
pub fn goes_on_by_itself(stored: &Stored) -> bool {
    let Stored { task, lifecycle, .. } = stored;
    retried_at(stored).is_some() || rests(lifecycle, task)
}

/// When a task without a run is retried. A task that was never started is only delayed.
pub fn retried_at(stored: &Stored) -> Option<Instant> {
    let task = &stored.task;
    task.not_before.filter(|_| task.lease.is_none() && task.epoch > 0 && !stored.state().terminal)
}

/// The rest of a task that goes on by itself. None for every other one.
pub(super) fn rest(store: &Store, stored: &Stored) -> Result<Option<Rest>, OpsError> {
    let Stored { task, lifecycle, .. } = stored;
    if !goes_on_by_itself(stored) {
        return Ok(None);
    }
    let until = match task.not_before {
        Some(at) => at,
        None => {
            let next = store.timers_of(task.id)?.iter().map(|timer| timer.due).min();
            let WaitsFor::Timer(at) = waits_for(lifecycle, task, next) else { return Ok(None) };
            at
        }
    };
    let told = machine::question(lifecycle, task).filter(|_| task.not_before.is_none());
    let told = told.map(|told| line(told, REASON_BYTES));
    let is_of_run = told.is_none() || stored.state().kind == StateKind::Failed;
    let last = if is_of_run { last_run(store, task.id)? } else { None };
    let again = if rests_for_reviewers(lifecycle, task) { "asked" } else { "tried" };
    if let Some(last) = last {
        let (run, why) = (RunId { task: task.id, epoch: last.epoch }, last.detail);
        let why = line(why.as_deref().unwrap_or_default(), REASON_BYTES);
        let ended = last.outcome.map_or("no result", Outcome::as_str);
        let because = if why.is_empty() { String::new() } else { format!(": {why}") };
        let sentence =
            format!("it is {again} again at this time, because {run} ended with {ended}{because}");
        let attempt = task.epoch + 1;
        return Ok(Some(Rest { until, attempt, outcome: last.outcome, why, sentence }));
    }
    let why = told.unwrap_or_default();
    let because = if why.is_empty() { String::new() } else { format!(", because {why}") };
    let counted = attempts(lifecycle, task).filter(|(used, _)| *used > 0);
    let count = counted.map(|(used, limit)| format!(" (attempt {used} of {limit})"));
    let count = count.unwrap_or_default();
    let sentence = format!("it is {again} again at this time{because}{count}");
    let attempt = counted.map_or(task.epoch, |(used, _)| i64::from(used)) + 1;
    Ok(Some(Rest { until, attempt, outcome: None, why, sentence }))
}
