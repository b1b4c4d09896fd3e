//! Someone asks for a move.

use super::allowed::allowed;
use super::apply::{Cause, take};
use super::effect::TaskUpdate;
use super::env::TransitionContext;
use super::event::{Actor, TransitionRequest};
use super::plan::due;
use super::reject::{FieldError, RejectReason, Rejected};
use super::task::Task;
use crate::lifecycle::contract::Trigger;
use crate::lifecycle::problem::suggestion;
use crate::lifecycle::{Lifecycle, PRIOR, RoleId, Transition, TransitionTarget};
use crate::time::Instant;

pub(super) fn ask(
    lifecycle: &Lifecycle,
    task: &Task,
    ask: &TransitionRequest,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    try_rows(lifecycle, task, ask, now).map_err(|rejected| {
        let refused = ask.to.as_deref().and_then(|to| lifecycle.find_state(to));
        let refused = refused.map(|id| lifecycle.state(id).name.as_str());
        let mut instead = allowed(lifecycle, task, &ask.actor, now);
        instead.retain(|name| Some(name.as_str()) != refused);
        rejected.allowing(instead)
    })
}

fn try_rows(
    lifecycle: &Lifecycle,
    task: &Task,
    ask: &TransitionRequest,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    fresh(task, ask)?;
    let role = role_of(lifecycle, &ask.actor)?;
    let rows = matching(lifecycle, task, ask)?;
    let mine: Vec<&Transition> =
        rows.iter().copied().filter(|row| row.roles.contains(&role)).collect();
    if mine.is_empty() {
        return Err(forbidden(lifecycle, ask, &rows));
    }
    let context = TransitionContext { actor: &ask.actor, now, outcome: None };
    let cause = Cause { context, fields: &ask.fields, run_ended: false };
    let mut refusals: Vec<Vec<FieldError>> = Vec::new();
    for row in mine {
        let tried = match too_soon(task, row, now) {
            Some(error) => Err(vec![error]),
            None => take(lifecycle, task, row, &cause),
        };
        match tried {
            Ok(step) => return Ok(step),
            Err(errors) => refusals.push(errors),
        }
    }
    Err(Rejected { why: RejectReason::Invalid, errors: nearest(refusals), allowed: Vec::new() })
}

/// Of several ways that are all refused, people are told what they lack for the one that lacks
/// least.
fn nearest(refusals: Vec<Vec<FieldError>>) -> Vec<FieldError> {
    let least = refusals.iter().map(Vec::len).min().unwrap_or_default();
    let mut errors: Vec<FieldError> = Vec::new();
    for error in refusals.into_iter().filter(|errors| errors.len() == least).flatten() {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    errors
}

/// What the clock or another task has to do first.
fn too_soon(task: &Task, row: &Transition, now: Instant) -> Option<FieldError> {
    let error = |field: &str, message| Some(FieldError { field: field.to_owned(), message });
    let due = row.timeout.map(|bound| due(task, bound.time, bound.since));
    if let Some(due) = due.filter(|due| *due > now) {
        return error("to", format!("is not due before {due}"));
    }
    if row.trigger != Trigger::Claim.name() {
        return None;
    }
    if task.open_needs > 0 {
        return error(
            "needs",
            format!("{} of the tasks it waits for are not done", task.open_needs),
        );
    }
    let later = task.not_before.filter(|at| *at > now)?;
    error("notBefore", format!("is not to start before {later}"))
}

fn fresh(task: &Task, ask: &TransitionRequest) -> Result<(), Rejected> {
    if let Some(epoch) = ask.epoch
        && task.lease.as_ref().map(|lease| lease.epoch) != Some(epoch)
    {
        return Err(Rejected::one(
            RejectReason::StaleLease,
            "epoch",
            format!("{epoch} is not the current lease of {}", task.id),
        ));
    }
    match ask.version {
        Some(seen) if seen != task.version => {
            let message = format!(
                "{} has moved on: you saw version {seen}, it is now {}",
                task.id, task.version
            );
            Err(Rejected::one(RejectReason::StaleVersion, "version", message))
        }
        Some(_) | None => Ok(()),
    }
}

/// The actor's role, if the lifecycle has it.
pub(super) fn role_of(lifecycle: &Lifecycle, actor: &Actor) -> Result<RoleId, Rejected> {
    lifecycle.find_role(&actor.role).ok_or_else(|| {
        let hint = suggestion(&actor.role, lifecycle.roles.iter().map(String::as_str));
        let message =
            format!("the lifecycle {} has no role `{}`; {hint}", lifecycle.id, actor.role);
        Rejected::one(RejectReason::Forbidden, "actor", message)
    })
}

/// The rows that lead where it is asked to go, whoever may take them.
fn matching<'a>(
    lifecycle: &'a Lifecycle,
    task: &Task,
    ask: &TransitionRequest,
) -> Result<Vec<&'a Transition>, Rejected> {
    let here = lifecycle.state(task.state);
    if here.terminal {
        let message = format!("{} is {} and stays so", task.id, here.name);
        return Err(Rejected::one(RejectReason::Invalid, "to", message));
    }
    let goal = ask.to.as_deref().map(|to| goal(lifecycle, to)).transpose()?;
    if goal.is_none() && ask.trigger.is_none() {
        return Err(Rejected::one(
            RejectReason::Invalid,
            "to",
            "say where to: a state or a trigger",
        ));
    }
    let leads_there = |row: &&Transition| match goal {
        None => true,
        Some(TransitionTarget::Prior) => row.to == TransitionTarget::Prior,
        Some(TransitionTarget::State(id)) => {
            row.to == TransitionTarget::State(id)
                || (row.to == TransitionTarget::Prior && task.prior == Some(id))
        }
    };
    let triggered =
        |row: &&Transition| ask.trigger.as_ref().is_none_or(|trigger| *trigger == row.trigger);
    let rows: Vec<&Transition> =
        lifecycle.exits(task.state).filter(leads_there).filter(triggered).collect();
    if rows.is_empty() {
        let wanted = match (&ask.to, &ask.trigger) {
            (Some(to), Some(trigger)) => format!("to {to} by `{}`", clip(trigger)),
            (Some(to), None) => format!("to {to}"),
            (None, Some(trigger)) => format!("by `{}`", clip(trigger)),
            (None, None) => String::new(),
        };
        return Err(Rejected::one(
            RejectReason::Invalid,
            "to",
            format!("there is no way from {} {wanted}", here.name),
        ));
    }
    Ok(rows)
}

fn goal(lifecycle: &Lifecycle, name: &str) -> Result<TransitionTarget, Rejected> {
    if name == PRIOR {
        return Ok(TransitionTarget::Prior);
    }
    if let Some(id) = lifecycle.find_state(name) {
        return Ok(TransitionTarget::State(id));
    }
    let members: Vec<&str> = lifecycle
        .states
        .iter()
        .filter(|state| state.group.as_deref() == Some(name))
        .map(|state| state.name.as_str())
        .collect();
    let message = if members.is_empty() {
        let known = lifecycle.states.iter().map(|state| state.name.as_str());
        format!(
            "the lifecycle {} has no state `{}`; {}",
            lifecycle.id,
            clip(name),
            suggestion(name, known)
        )
    } else {
        format!("`{name}` is a group; say which: {}", members.join(", "))
    };
    Err(Rejected::one(RejectReason::Invalid, "to", message))
}

fn clip(text: &str) -> String {
    text.chars().take(64).filter(|c| !c.is_control()).collect()
}

fn forbidden(lifecycle: &Lifecycle, ask: &TransitionRequest, rows: &[&Transition]) -> Rejected {
    let mut roles: Vec<&str> =
        rows.iter().flat_map(|row| row.roles.iter().map(|id| lifecycle.role_name(*id))).collect();
    roles.sort_unstable();
    roles.dedup();
    let to = rows.first().map_or("", |row| lifecycle.target_name(row.to));
    let message = format!("{} may not move it to {to}; {} may", ask.actor.role, roles.join(", "));
    Rejected::one(RejectReason::Forbidden, "actor", message)
}
