//! What the entry into a state entails: timers, effects and the question for people.

use super::apply::quiet;
use super::effect::{Effect, OpenDecision, TaskUpdate, Timer, TimerKind};
use super::env::{Moment, TaskEnv};
use super::task::Task;
use super::wait::{WaitStatus, waits};
use crate::lifecycle::contract::Field;
use crate::lifecycle::expr::{ResolvedName, Type, Value};
use crate::lifecycle::{
    Activity, EntryEffect, FieldDecl, Lifecycle, Since, State, StateKind, Timeout, Transition,
    TransitionTarget,
};
use crate::time::{Instant, Span};

pub(super) fn asks_people(state: &State) -> bool {
    state.does.as_ref().is_some_and(|does| does.activity == Activity::Human)
}

/// The effects of the entry into the task's present state.
pub(super) fn entry_effects(at: Moment<'_>) -> Vec<Effect> {
    let Moment { lifecycle, task, .. } = at;
    let state = at.state();
    let does = state.does.as_ref().filter(|_| task.is_active(lifecycle));
    let start = does.and_then(|does| match does.activity {
        Activity::Agent | Activity::Human => None,
        Activity::Panel
        | Activity::Check
        | Activity::PullRequest
        | Activity::Merge
        | Activity::Capture => Some(Effect::Start { activity: does.activity }),
        // In a queue, the last task that this one needs starts it.
        Activity::Wait if state.kind == StateKind::Queued && task.open_needs > 0 => None,
        Activity::Wait if rests(at) => None,
        Activity::Wait => Some(Effect::Start { activity: does.activity }),
    });
    let own = state.on_entry.iter().filter_map(|effect| match effect {
        EntryEffect::Notify => Some(Effect::Notify),
        EntryEffect::Alert => Some(Effect::Alert),
        EntryEffect::CleanUp => Some(Effect::CleanUp),
        EntryEffect::TellParent => task.parent.map(|_| Effect::TellParent),
        EntryEffect::LeadChildren => Some(Effect::LeadChildren),
    });
    start.into_iter().chain(own).collect()
}

/// A move that keeps the state may still satisfy the state's wait.
pub(super) fn effects_in_place(before: Moment<'_>, after: Moment<'_>) -> Option<Effect> {
    let Moment { lifecycle, task, now } = after;
    let begins = rests(before) && waits(lifecycle, task, now) == WaitStatus::Met;
    begins.then_some(Effect::Start { activity: Activity::Wait })
}

/// Whether a wait in a queue needs no polling: it is not over, and only moves can end it, because
/// it depends only on fields that callers give. What the system finds out by itself, such as the
/// time, comes without a move.
fn rests(at: Moment<'_>) -> bool {
    let Moment { lifecycle, task, now } = at;
    let state = at.state();
    let until = state.does.as_ref().and_then(|does| does.until.as_ref());
    let is_given_by_caller = |name: &ResolvedName| match name.field() {
        Some(path) => {
            let field = path.first().and_then(|field| lifecycle.fields.get(field));
            field.is_some_and(FieldDecl::is_given_by_callers)
        }
        None => name.constant().is_some(),
    };
    state.kind == StateKind::Queued
        && until.is_some_and(|until| until.names().all(is_given_by_caller))
        && waits(lifecycle, task, now) == WaitStatus::Until(None)
}

/// The question of a state in which people are asked.
pub(super) fn open_decision(lifecycle: &Lifecycle, task: &Task) -> Option<OpenDecision> {
    let state = lifecycle.state(task.state);
    let asks = asks_people(state) && task.is_active(lifecycle);
    let does = state.does.as_ref().filter(|_| asks)?;
    let timeouts = lifecycle.exits(task.state).filter_map(|row| row.timeout);
    let deadline = timeouts.map(|timeout| due(task, timeout.time, timeout.since)).min();
    let asks = does.asks.clone().unwrap_or_else(|| state.about.clone());
    let question = question(lifecycle, task).map(str::to_owned);
    Some(OpenDecision { asks, question, offers: does.offers.clone(), deadline })
}

/// What a person is asked about, in the words of the agent or of whoever else brought the task
/// here: the text that a way into the state takes over from there, else the one that the state
/// requires. The lifecycle's own question is the same each time.
pub fn question<'t>(lifecycle: &Lifecycle, task: &'t Task) -> Option<&'t str> {
    let state = lifecycle.state(task.state);
    let enters = |row: &&Transition| row.to == TransitionTarget::State(task.state);
    let taken = lifecycle.transitions.iter().filter(enters).filter_map(Transition::takes_detail);
    let required = state.requires.iter().map(|requirement| requirement.field.as_str());
    let is_words = |name: &&str| {
        let is_text = lifecycle.fields.get(*name).is_some_and(|field| field.kind == Type::Text);
        // A remark is no question, and what the task was made with is not about its state.
        let is_other = Field::named(name)
            .is_some_and(|field| field.is_fact() || [Field::Note, Field::Scope].contains(&field));
        is_text && !is_other
    };
    let names = taken.chain(required).filter(is_words);
    let texts = names.filter_map(|name| task.fields.get(name)?.as_str());
    texts.map(str::trim).find(|text| !text.is_empty())
}

/// When a timeout is due for the task.
pub(super) fn due(task: &Task, time: Span, since: Since) -> Instant {
    match since {
        Since::Entry => task.entered_at.plus(time).plus(task.uncounted),
        Since::Progress => task.progress_at.plus(time),
    }
}

/// The timers that the task needs in its state; `None` if there are none before or after.
pub(super) fn plan_timers(before: Moment<'_>, task: &Task) -> Option<Vec<Timer>> {
    let timers = timers(Moment { task, ..before });
    let had = before.task.not_before.is_some()
        || before.state().remind.is_some()
        || before.exits().any(|row| row.timeout.is_some());
    (had || !timers.is_empty()).then_some(timers)
}

/// Reminders come first: if both are due, the last one is sent before a timeout ends the stay.
pub(super) fn timers(at: Moment<'_>) -> Vec<Timer> {
    let Moment { lifecycle, task, now } = at;
    let mut timers = Vec::new();
    if let Some(remind) = &at.state().remind {
        let seen = TaskEnv { task, context: None };
        let wanted = remind.when.as_ref().is_none_or(|when| when.holds(&seen));
        let ages = remind.after.iter().zip(0_u32..).filter(|_| wanted);
        let reminders = ages.map(|(age, number)| Timer {
            kind: TimerKind::Remind(number),
            due: task.entered_at.plus(*age),
        });
        // New timers do not restart the stay, so reminders that were already sent are not sent
        // again.
        timers.extend(reminders.filter(|timer| timer.due > now));
    }
    timers.extend(running_timeouts(lifecycle, task).map(|(index, timeout)| Timer {
        kind: TimerKind::Timeout(index),
        due: due(task, timeout.time, timeout.since),
    }));
    timers.extend(task.not_before.map(|due| Timer { kind: TimerKind::Ready, due }));
    timers
}

/// The timeouts of the task's state that run now, by the index of their transition. A timeout on
/// progress is suspended while the task waits in the queue for an agent or for a quota, because
/// nobody works on it. While subtasks do the work of the state, their timeouts run instead.
pub fn running_timeouts<'a>(
    lifecycle: &'a Lifecycle,
    task: &Task,
) -> impl Iterator<Item = (u32, Timeout)> + use<'a> {
    let (state, rests) = (task.state, task.is_claimable(lifecycle));
    let by_children = is_left_to_children(lifecycle, task);
    let of_state = move |row: &Transition| row.from == state && !by_children;
    let rows = lifecycle.transitions.iter().zip(0_u32..).filter(move |(row, _)| of_state(row));
    rows.filter_map(|(row, index)| Some((index, row.timeout?)))
        .filter(move |(_, timeout)| !(rests && timeout.since == Since::Progress))
}

/// Whether the task's subtasks do the work of its state. A task that the engine has not split has
/// none, whatever the `when` of its state says.
pub(super) fn is_left_to_children(lifecycle: &Lifecycle, task: &Task) -> bool {
    let split = task.fields.get(Field::Split.name_in(lifecycle));
    is_silent(lifecycle, task) && split == Some(&Value::Bool(true))
}

/// Whether the state does nothing for the task, because its `when` does not hold. A state that
/// waits for people does so whether it asks them or not.
pub(super) fn is_silent(lifecycle: &Lifecycle, task: &Task) -> bool {
    use StateKind::*;
    let may_be = match lifecycle.state(task.state).kind {
        Queued | Working | Reviewing | Waiting => true,
        Blocked | Parked | Done | Failed | Cancelled => false,
    };
    may_be && !task.is_active(lifecycle)
}

/// The start of an update that keeps the state and is recorded in the history.
pub(super) fn in_place(task: &Task, now: Instant) -> TaskUpdate {
    let version = task.version + 1;
    quiet(Task { version, updated_at: now, progress_at: now, not_before: None, ..task.clone() })
}
