//! The one door of the machine.

use super::apply::{Cause, quiet, record, take};
use super::ask::{ask, role_of};
use super::effect::{Effect, TaskUpdate, TimerKind};
use super::env::TransitionContext;
use super::event::{ActivityReport, Actor, Event};
use super::outcome::report;
use super::plan::{due, in_place, plan_timers, running_bounds};
use super::reject::{RejectReason, Rejected};
use super::run::{claim, finish, heartbeat};
use super::task::Task;
use super::wait::{WaitStatus, waits};
use crate::ids::RunId;
use crate::lifecycle::contract::Note;
use crate::lifecycle::expr::Fields;
use crate::lifecycle::{Lifecycle, Outcome, RoleId, StateKind};
use crate::time::Instant;

/// Why an event changes nothing although it is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It belongs to an earlier stay in the state, or what it was for is gone.
    Stale,
    /// The task is already as the event says.
    NothingNew,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StepResult {
    /// To be written as a whole.
    Step(Box<TaskUpdate>),
    /// The timer was early, because the task has got on since it was set: look again at this time.
    Later(Instant),
    Ignored(Ignored),
}

/// The trigger under which the refusal of a late writer is recorded.
pub const STALE_WRITE: &str = Note::StaleWrite.name();
/// The trigger under which the end of a delay is recorded that a person asked for.
pub const DELAY_SKIPPED: &str = Note::DelaySkipped.name();

/// Decides what an event means for a task.
pub fn step(
    lifecycle: &Lifecycle,
    task: &Task,
    event: &Event,
    now: Instant,
) -> Result<StepResult, Rejected> {
    match event {
        Event::Asked(asked) => ask(lifecycle, task, asked, now).map(answer),
        Event::Claimed(claimed) => claim(lifecycle, task, claimed, now).map(answer),
        Event::Heartbeat(beaten) => heartbeat(task, beaten, now).map(answer),
        Event::Finished(finished) => finish(lifecycle, task, finished, now).map(answer),
        Event::Reported(reported) if reported.entered != task.entered => {
            Ok(StepResult::Ignored(Ignored::Stale))
        }
        Event::Reported(reported) => report(lifecycle, task, reported, now).map(answer),
        Event::Due { timer, entered } => fire(lifecycle, task, *timer, *entered, now),
        Event::StaleWrite { epoch } => Ok(answer(stale_write(lifecycle, task, *epoch, now))),
        Event::Noted(noted) => {
            Ok(answer(in_history(lifecycle, task, &noted.trigger, &noted.actor, now)))
        }
        Event::DelaySkipped(actor) => hasten(lifecycle, task, actor, now),
        Event::NeedsLeft(open) => needs_left(lifecycle, task, *open, now),
    }
}

fn answer(step: TaskUpdate) -> StepResult {
    StepResult::Step(Box::new(step))
}

/// The refusal of a late writer is history, but neither a move nor a sign of progress.
fn stale_write(lifecycle: &Lifecycle, task: &Task, epoch: i64, now: Instant) -> TaskUpdate {
    let run = RunId { task: task.id, epoch };
    let actor = Actor { role: "run".to_owned(), name: Some(run.to_string()) };
    in_history(lifecycle, task, STALE_WRITE, &actor, now)
}

/// A record, and nothing else.
fn in_history(
    lifecycle: &Lifecycle,
    task: &Task,
    trigger: &str,
    actor: &Actor,
    now: Instant,
) -> TaskUpdate {
    let next = Task { version: task.version + 1, updated_at: now, ..task.clone() };
    let record = record(lifecycle, Some(task), &next, trigger, actor);
    TaskUpdate { record: Some(record), ..quiet(next) }
}

/// The end of a delay before its time. Whoever asks twice has what it wanted the first time.
fn hasten(
    lifecycle: &Lifecycle,
    task: &Task,
    actor: &Actor,
    now: Instant,
) -> Result<StepResult, Rejected> {
    if role_of(lifecycle, actor)? != RoleId::HUMAN {
        let message = format!("{} may not end the delay; human may", actor.role);
        return Err(Rejected::one(RejectReason::Forbidden, "actor", message));
    }
    if task.not_before.is_none() {
        return Ok(StepResult::Ignored(Ignored::NothingNew));
    }
    let step = in_place(task, now);
    let timers = plan_timers(lifecycle, task, &step.task, now);
    let record = record(lifecycle, Some(task), &step.task, DELAY_SKIPPED, actor);
    Ok(answer(TaskUpdate { timers, record: Some(record), ..step }))
}

/// A task whose queue waits for no worker but for what comes first goes on once nothing is in the
/// way.
fn needs_left(
    lifecycle: &Lifecycle,
    task: &Task,
    open: i64,
    now: Instant,
) -> Result<StepResult, Rejected> {
    let open_needs = open.max(0);
    if task.open_needs == open_needs {
        return Ok(StepResult::Ignored(Ignored::NothingNew));
    }
    let freed = Task { open_needs, ..task.clone() };
    let queued = lifecycle.state(task.state).kind == StateKind::Queued;
    if queued && waits(lifecycle, &freed, now) == WaitStatus::Met {
        let fields = Fields::new();
        let met = ActivityReport {
            entered: task.entered,
            outcome: Outcome::Met,
            detail: String::new(),
            fields,
            tokens: 0,
            cost_micros: 0,
        };
        return report(lifecycle, &freed, &met, now).map(answer);
    }
    Ok(answer(quiet(freed)))
}

fn fire(
    lifecycle: &Lifecycle,
    task: &Task,
    timer: TimerKind,
    entered: i64,
    now: Instant,
) -> Result<StepResult, Rejected> {
    match timer {
        TimerKind::Ready => Ok(ready(lifecycle, task, now)),
        TimerKind::Bound(_) | TimerKind::Remind(_) if entered != task.entered => {
            Ok(StepResult::Ignored(Ignored::Stale))
        }
        TimerKind::Bound(row) => bound(lifecycle, task, row, now),
        TimerKind::Remind(number) => Ok(remind(lifecycle, task, number, now)),
    }
}

fn ready(lifecycle: &Lifecycle, task: &Task, now: Instant) -> StepResult {
    match task.not_before {
        None => StepResult::Ignored(Ignored::NothingNew),
        Some(due) if due > now => StepResult::Later(due),
        Some(_) => {
            let ready = Task { not_before: None, ..task.clone() };
            let timers = plan_timers(lifecycle, task, &ready, now);
            answer(TaskUpdate { timers, ..quiet(ready) })
        }
    }
}

fn bound(
    lifecycle: &Lifecycle,
    task: &Task,
    row: u32,
    now: Instant,
) -> Result<StepResult, Rejected> {
    let Some((_, bound)) = running_bounds(lifecycle, task).find(|(index, _)| *index == row) else {
        return Ok(StepResult::Ignored(Ignored::Stale));
    };
    let row = &lifecycle.transitions[row as usize];
    let due = due(task, bound.time, bound.since);
    if due > now {
        return Ok(StepResult::Later(due));
    }
    let (actor, fields) = (Actor::system(), Fields::new());
    let context = TransitionContext { actor: &actor, now, outcome: None };
    let cause = Cause { context, fields: &fields, run_ended: false };
    let taken = take(lifecycle, task, row, &cause);
    taken.map(answer).map_err(|errors| Rejected {
        why: RejectReason::Invalid,
        errors,
        allowed: Vec::new(),
    })
}

fn remind(lifecycle: &Lifecycle, task: &Task, number: u32, now: Instant) -> StepResult {
    let remind = lifecycle.state(task.state).remind.as_ref();
    let Some(age) = remind.and_then(|remind| remind.after.get(number as usize)) else {
        return StepResult::Ignored(Ignored::Stale);
    };
    let due = task.entered_at.plus(*age);
    if due > now {
        return StepResult::Later(due);
    }
    let age_days = age.0 / 86_400_000;
    answer(TaskUpdate { effects: vec![Effect::Remind { age_days }], ..quiet(task.clone()) })
}
