//! The end of an activity, and where its outcome leads.

use super::apply::{Cause, apply_transition, patch, too_large, unmet};
use super::effect::{Effect, TaskUpdate};
use super::entry::{in_place, plan_timers};
use super::env::{Moment, TaskEnv, TransitionContext};
use super::event::{ActivityReport, Actor, Finish};
use super::fact::forget_overridden;
use super::fold;
use super::reject::{FieldError, RejectReason, Rejected};
use super::task::Task;
use crate::lifecycle::contract::Purpose;
use crate::lifecycle::expr::MAX_JOINED_BYTES;
use crate::lifecycle::problem::suggestion;
use crate::lifecycle::{Activity, EntryEffect, Outcome, RoleId, Route, Transition};
use crate::text::start_of;

/// How an activity ended, whichever event reports it.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) finish: &'a Finish,
    /// Whether it ended a run, and with it the run's lease.
    pub(super) of_run: bool,
}

/// An activity without a lease has ended: a panel, a check, a merge. Agents report by the end of
/// their run.
pub(super) fn report(at: Moment<'_>, report: &ActivityReport) -> Result<TaskUpdate, Rejected> {
    let state = at.state();
    let is_silent = |activity| matches!(activity, Activity::Agent | Activity::Human);
    let does = state.does.as_ref().filter(|does| !is_silent(does.activity));
    let Some(does) = does else {
        let message = format!("nothing in {} reports an outcome", state.name);
        return Err(Rejected::one(RejectReason::Invalid, "outcome", message));
    };
    let known = does.activity.outcomes();
    let is_mapped = does.outcomes.contains_key(&report.outcome);
    if !is_mapped && !known.contains(&report.outcome) && report.outcome != Outcome::Exhausted {
        let hint = suggestion(report.outcome.as_str(), known.iter().map(|known| known.as_str()));
        let (activity, outcome) = (does.activity.as_str(), report.outcome.as_str());
        let message = format!("`{activity}` has no outcome `{outcome}`; {hint}");
        return Err(Rejected::one(RejectReason::Invalid, "outcome", message));
    }
    let ActivityReport { outcome, tokens, cost_micros, .. } = *report;
    let (epoch, detail, fields) = (at.task.epoch, report.detail.clone(), report.fields.clone());
    let finish = Finish { epoch, outcome, detail, fields, tokens, cost_micros, again_at: None };
    lead_on(at, End { finish: &finish, of_run: false })
}

/// Adds the cost of the activity, and applies the transition that its outcome leads to.
pub(super) fn lead_on(at: Moment<'_>, end: End<'_>) -> Result<TaskUpdate, Rejected> {
    let task = at.task;
    let mut spent = task.spent;
    spent.add(end.finish.tokens, end.finish.cost_micros);
    let mut step = lead(Moment { task: &Task { spent, ..task.clone() }, ..at }, end)?;
    if let Some(record) = &mut step.record {
        // The cost is part of this change, so the record starts from the task as it was before.
        record.fields = fold::changes(at.lifecycle, Some(task), &step.task);
    }
    Ok(step)
}

/// Applies the transition that the outcome leads to. If none is possible, the task stays with an
/// alert, and the timeouts of its state continue.
fn lead(at: Moment<'_>, end: End<'_>) -> Result<TaskUpdate, Rejected> {
    let Some(does) = &at.state().does else {
        return stay(at, end, None);
    };
    let otherwise = does.otherwise.as_ref().and_then(Route::trigger);
    match does.route(end.finish.outcome) {
        Some(Route::Again(None)) => {
            let again = (!end.of_run).then_some(Effect::Start { activity: does.activity });
            stay(at, end, again)
        }
        Some(Route::Trigger(trigger) | Route::Again(Some(trigger))) => {
            let otherwise = otherwise.filter(|otherwise| otherwise != trigger);
            follow(at, end, &[Some(trigger), otherwise])
        }
        None => follow(at, end, &[]),
    }
}

fn follow(at: Moment<'_>, end: End<'_>, triggers: &[Option<&str>]) -> Result<TaskUpdate, Rejected> {
    let actor = Actor::system();
    let mut errors: Vec<FieldError> = Vec::new();
    for trigger in triggers.iter().copied().flatten() {
        let mut detail = detail_of(end);
        if !errors.is_empty() {
            let reasons: Vec<String> =
                errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
            detail = format!("{detail} ({})", reasons.join("; "));
        }
        let outcome = Some((end.finish.outcome, detail.as_str()));
        let context = TransitionContext { actor: &actor, now: at.now, outcome };
        let again_at = end.finish.again_at.filter(|again| *again > at.now);
        let fields = &end.finish.fields;
        let cause = Cause { context, fields, run_ended: end.of_run, again_at };
        let mine = |row: &&Transition| {
            row.timeout.is_none() && row.trigger == *trigger && row.roles.contains(&RoleId::SYSTEM)
        };
        for row in at.exits().filter(mine) {
            match apply_transition(at, row, &cause) {
                Ok(mut step) => {
                    // A run that ended by itself is recorded with its outcome; a run that a report
                    // stopped is not.
                    if let Some((_, outcome)) = step.ended_run.as_mut().filter(|_| end.of_run) {
                        *outcome = end.finish.outcome;
                    }
                    return Ok(step);
                }
                Err(more) => errors.extend(more),
            }
        }
    }
    stay(at, end, Some(Effect::Alert))
}

/// The detail of an outcome, shortened; without one, the name of the outcome.
fn detail_of(end: End<'_>) -> String {
    let detail = end.finish.detail.trim();
    let detail = if detail.is_empty() { end.finish.outcome.as_str() } else { detail };
    start_of(detail, MAX_JOINED_BYTES).to_owned()
}

fn stay(at: Moment<'_>, end: End<'_>, effect: Option<Effect>) -> Result<TaskUpdate, Rejected> {
    let mut step = in_place(at.task, at.now);
    let mut errors = patch(at.lifecycle, &mut step.task.fields, &end.finish.fields, |_| true);
    forget_overridden(&mut step.task, at.lifecycle, |name| end.finish.fields.contains_key(name));
    errors.extend(too_large(&step.task.fields));
    let seen = TaskEnv { task: &step.task, context: None };
    errors.extend(unmet(&at.state().requires, &seen));
    if !errors.is_empty() {
        return Err(Rejected::invalid(errors));
    }
    let outcome = end.finish.outcome;
    if end.of_run {
        step.ended_run = step.task.lease.take().map(|lease| (lease.epoch, outcome));
        step.task.not_before = end.finish.again_at.filter(|again| *again > at.now);
    }
    step.timers = plan_timers(at, &step.task);
    step.record = Some(at.record(&step.task, outcome.as_str(), &Actor::system()));
    step.effects.extend(effect);
    // The log of its workflow names each attempt that failed.
    let is_told = end.of_run
        && at.lifecycle.purpose == Purpose::Step
        && at.state().on_entry.contains(&EntryEffect::TellParent);
    step.effects.extend((is_told && at.task.parent.is_some()).then_some(Effect::TellParent));
    Ok(step)
}
