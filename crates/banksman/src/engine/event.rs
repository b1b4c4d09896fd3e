//! Events that the engine applies to tasks as the system. A rejection is an answer: the task has
//! moved on, or its lifecycle does not have the transition.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::machine::{ActivityReport, Event, TransitionRequest, WaitStatus, waits};
use banksman_core::time::Instant;

use super::Result;
use crate::store::{Store, StoreError, Stored};

/// The system asks for a transition of the task by its trigger.
pub(super) fn request<const N: usize>(
    stored: &Stored,
    trigger: Trigger,
    fields: [(Field, Value); N],
) -> Event {
    Event::Asked(transition(stored, trigger, fields))
}

pub(super) fn transition<const N: usize>(
    stored: &Stored,
    trigger: Trigger,
    fields: [(Field, Value); N],
) -> TransitionRequest {
    // A task may have begun before the engine knew a field.
    let known = fields.into_iter().filter(|(field, _)| stored.lifecycle.has_field(*field));
    by_name(stored.trigger(trigger), known.map(|(field, value)| stored.entry(field, value)))
}

/// The same where the lifecycle itself names the trigger.
pub(super) fn by_name(
    trigger: &str,
    fields: impl IntoIterator<Item = (String, Value)>,
) -> TransitionRequest {
    TransitionRequest::of_system(trigger, fields.into_iter().collect())
}

/// Asks for a transition, and returns whether the task took it.
pub(super) fn ask<const N: usize>(
    store: &Store,
    stored: &Stored,
    trigger: Trigger,
    fields: [(Field, Value); N],
    now: Instant,
) -> Result<bool> {
    Ok(apply(store, stored.task.id, request(stored, trigger, fields), now)?.is_some())
}

/// The same for a task that is still as it was read. Returns the task after the transition.
pub(super) fn ask_if_unchanged(
    store: &Store,
    stored: &Stored,
    trigger: Trigger,
    now: Instant,
) -> Result<Option<Stored>> {
    apply(store, stored.task.id, if_unchanged(stored, trigger), now)
}

pub(super) fn if_unchanged(stored: &Stored, trigger: Trigger) -> Event {
    let version = Some(stored.task.version);
    Event::Asked(TransitionRequest { version, ..transition(stored, trigger, []) })
}

/// The report of an activity that used no tokens.
pub(super) fn outcome(
    stored: &Stored,
    outcome: Outcome,
    detail: String,
    fields: Fields,
) -> ActivityReport {
    let entered = stored.task.entered;
    ActivityReport { entered, outcome, detail, fields, tokens: 0, cost_micros: 0 }
}

/// Reports the outcome of an activity, and returns whether the task accepted it: the task may have
/// moved on, or have no room for all of the fields.
pub(super) fn report(
    store: &Store,
    stored: &Stored,
    outcome: Outcome,
    detail: String,
    fields: Fields,
    now: Instant,
) -> Result<bool> {
    let report = self::outcome(stored, outcome, detail, fields);
    Ok(apply(store, stored.task.id, Event::Reported(report), now)?.is_some())
}

/// The task after the event; none if the event was rejected.
pub(super) fn apply(
    store: &Store,
    id: TaskId,
    event: Event,
    now: Instant,
) -> Result<Option<Stored>> {
    match store.apply(id, event, None, now) {
        Ok(applied) => Ok(Some(applied.stored)),
        Err(StoreError::Rejected(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Moves a task whose wait is over. Returns the task as it is then.
pub(super) fn end_wait(store: &Store, stored: Stored, now: Instant) -> Result<Stored> {
    if waits(&stored.lifecycle, &stored.task, now) != WaitStatus::Met {
        return Ok(stored);
    }
    let report = outcome(&stored, Outcome::Met, String::new(), Fields::new());
    Ok(store.apply(stored.task.id, Event::Reported(report), None, now)?.stored)
}
