//! The only entry point of the machine.

use super::apply::{Cause, apply_transition, quiet};
use super::ask::{ask, role_of};
use super::effect::{Effect, NOTE_DETAIL, TaskUpdate, TimerKind};
use super::entry::{due, in_place, plan_timers, running_timeouts};
use super::env::Moment;
use super::event::{ActivityReport, Actor, Event, LateCost, Uncounted};
use super::fact::override_facts;
use super::liveness::restore;
use super::outcome::report;
use super::reject::{RejectReason, Rejected};
use super::run::{claim, finish, heartbeat};
use super::task::Task;
use super::wait::{WaitStatus, waits};
use crate::ids::RunId;
use crate::lifecycle::contract::Note;
use crate::lifecycle::expr::Fields;
use crate::lifecycle::{Lifecycle, Outcome, RoleId, StateKind};
use crate::limits;
use crate::text::line;
use crate::time::{Instant, Span};

/// Why an event changes nothing although it is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is about an earlier stay in the state, or about something that no longer exists.
    Stale,
    /// The task is already as the event says.
    NothingNew,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StepResult {
    /// The update, which is written completely or not at all.
    Step(Box<TaskUpdate>),
    /// The timer was early, because the task has made progress since it was set: try again at this
    /// time.
    Later(Instant),
    Ignored(Ignored),
}

/// Decides what an event means for a task.
pub fn step(
    lifecycle: &Lifecycle,
    task: &Task,
    event: &Event,
    now: Instant,
) -> Result<StepResult, Rejected> {
    let at = Moment { lifecycle, task, now };
    match event {
        Event::Asked(asked) => ask(at, asked).map(answer),
        Event::Claimed(claimed) => claim(at, claimed).map(answer),
        Event::Heartbeat(event) => heartbeat(at, event).map(answer),
        Event::Finished(finished) => finish(at, finished).map(answer),
        Event::Reported(reported) if reported.entered != task.entered => {
            Ok(StepResult::Ignored(Ignored::Stale))
        }
        Event::Reported(reported) => report(at, reported).map(answer),
        Event::Due { timer, entered } => fire(at, *timer, *entered),
        Event::StaleWrite { epoch } => Ok(stale_write(at, *epoch)),
        Event::Noted(noted) => {
            Ok(in_history(at, &noted.trigger, &noted.actor, noted.detail.as_deref()))
        }
        Event::Overridden(request) => override_facts(at, request).map(answer),
        Event::DelaySkipped(actor) => skip_delay(at, actor),
        Event::Restored { actor, movers } => {
            let restored = restore(at, movers, actor).map(answer);
            Ok(restored.unwrap_or(StepResult::Ignored(Ignored::NothingNew)))
        }
        Event::NeedsLeft(open) => needs_left(at, *open),
        Event::LateCost(cost) => Ok(late_cost(at, *cost)),
        Event::Uncounted(uncounted) => Ok(leave_out(at, *uncounted)),
    }
}

fn answer(step: TaskUpdate) -> StepResult {
    StepResult::Step(Box::new(step))
}

/// A refused stale write is recorded, but it is neither a move nor progress.
fn stale_write(at: Moment<'_>, epoch: i64) -> StepResult {
    in_history(at, Note::StaleWrite.as_str(), &run_of(at, epoch), None)
}

fn run_of(at: Moment<'_>, epoch: i64) -> Actor {
    let run = RunId { task: at.task.id, epoch };
    Actor { role: "run".to_owned(), name: Some(run.to_string()) }
}

/// What a stopped run has used is part of what its task has used, even if that has ended.
fn late_cost(at: Moment<'_>, LateCost { epoch, tokens, cost_micros }: LateCost) -> StepResult {
    let mut next = Task { version: at.task.version + 1, updated_at: at.now, ..at.task.clone() };
    next.spent.add(tokens, cost_micros);
    let record = at.record(&next, Note::LateCost.as_str(), &run_of(at, epoch));
    answer(TaskUpdate { record: Some(record), ..quiet(next) })
}

/// An update with a record and no change of the task.
fn in_history(at: Moment<'_>, trigger: &str, actor: &Actor, detail: Option<&str>) -> StepResult {
    let next = Task { version: at.task.version + 1, updated_at: at.now, ..at.task.clone() };
    let mut record = at.record(&next, trigger, actor);
    let detail = detail.map(|text| line(text, limits::NOTE_DETAIL_BYTES).into());
    record.fields.extend(detail.map(|text| (NOTE_DETAIL.to_owned(), text)));
    answer(TaskUpdate { record: Some(record), ..quiet(next) })
}

/// Ends a delay early. A repeated request finds nothing to do.
fn skip_delay(at: Moment<'_>, actor: &Actor) -> Result<StepResult, Rejected> {
    if role_of(at.lifecycle, actor)? != RoleId::HUMAN {
        let message = format!("{} may not end the delay; human may", actor.role);
        return Err(Rejected::one(RejectReason::Forbidden, "actor", message));
    }
    if at.task.not_before.is_none() {
        return Ok(StepResult::Ignored(Ignored::NothingNew));
    }
    let step = in_place(at.task, at.now);
    let timers = plan_timers(at, &step.task);
    let record = at.record(&step.task, Note::DelaySkipped.as_str(), actor);
    Ok(answer(TaskUpdate { timers, record: Some(record), ..step }))
}

/// A queued task that waits for no worker, but only for other tasks, starts when the last of them
/// is done.
fn needs_left(at: Moment<'_>, open: i64) -> Result<StepResult, Rejected> {
    let Moment { lifecycle, task, now } = at;
    let open_needs = open.max(0);
    if task.open_needs == open_needs {
        return Ok(StepResult::Ignored(Ignored::NothingNew));
    }
    let freed = Task { open_needs, ..task.clone() };
    let queued = at.state().kind == StateKind::Queued;
    if queued && waits(lifecycle, &freed, now) == WaitStatus::Met {
        let met = ActivityReport {
            entered: task.entered,
            outcome: Outcome::Met,
            detail: String::new(),
            fields: Fields::new(),
            tokens: 0,
            cost_micros: 0,
        };
        return report(Moment { task: &freed, ..at }, &met).map(answer);
    }
    Ok(answer(quiet(freed)))
}

/// Leaves time out of the stay and of the silence that its timeouts measure.
fn leave_out(at: Moment<'_>, Uncounted { span, since }: Uncounted) -> StepResult {
    let Moment { task: old, now, .. } = at;
    if at.state().terminal {
        return StepResult::Ignored(Ignored::Stale);
    }
    let began_after = |begin: Instant| (since..=now).contains(&begin);
    let mut task = old.clone();
    if !began_after(task.entered_at) {
        task.uncounted = Span(task.uncounted.0.saturating_add(span.0));
    }
    if !began_after(task.progress_at) {
        task.progress_at = task.progress_at.plus(span).min(now);
    }
    if task == *old {
        return StepResult::Ignored(Ignored::NothingNew);
    }
    answer(TaskUpdate { timers: plan_timers(at, &task), ..quiet(task) })
}

fn fire(at: Moment<'_>, timer: TimerKind, entered: i64) -> Result<StepResult, Rejected> {
    match timer {
        TimerKind::Ready => Ok(ready(at)),
        TimerKind::Timeout(_) | TimerKind::Remind(_) if entered != at.task.entered => {
            Ok(StepResult::Ignored(Ignored::Stale))
        }
        TimerKind::Timeout(row) => time_out(at, row),
        TimerKind::Remind(number) => Ok(remind(at, number)),
    }
}

fn ready(at: Moment<'_>) -> StepResult {
    match at.task.not_before {
        None => StepResult::Ignored(Ignored::NothingNew),
        Some(due) if due > at.now => StepResult::Later(due),
        Some(_) => {
            let ready = Task { not_before: None, ..at.task.clone() };
            answer(TaskUpdate { timers: plan_timers(at, &ready), ..quiet(ready) })
        }
    }
}

fn time_out(at: Moment<'_>, row: u32) -> Result<StepResult, Rejected> {
    let Moment { lifecycle, task, now } = at;
    let Some((_, timeout)) = running_timeouts(lifecycle, task).find(|(index, _)| *index == row)
    else {
        return Ok(StepResult::Ignored(Ignored::Stale));
    };
    let row = &lifecycle.transitions[row as usize];
    let due = due(task, timeout.time, timeout.since);
    if due > now {
        return Ok(StepResult::Later(due));
    }
    let (actor, fields) = (Actor::system(), Fields::new());
    let applied = apply_transition(at, row, &Cause::by(&actor, &fields, now));
    applied.map(answer).map_err(Rejected::invalid)
}

fn remind(at: Moment<'_>, number: u32) -> StepResult {
    let remind = at.state().remind.as_ref();
    let Some(age) = remind.and_then(|remind| remind.after.get(number as usize)) else {
        return StepResult::Ignored(Ignored::Stale);
    };
    let due = at.task.entered_at.plus(*age);
    if due > at.now {
        return StepResult::Later(due);
    }
    let age_days = age.0 / 86_400_000;
    answer(TaskUpdate { effects: vec![Effect::Remind { age_days }], ..quiet(at.task.clone()) })
}
