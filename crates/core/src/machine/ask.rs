//! Handles a request for a transition.

use super::allowed::allowed;
use super::apply::{Cause, apply_transition};
use super::effect::TaskUpdate;
use super::entry::{due, open_decision};
use super::env::Moment;
use super::event::{Actor, TransitionRequest};
use super::reject::{FieldError, RejectReason, Rejected};
use super::task::{Lease, Task};
use crate::lifecycle::contract::{AgentRole, SettingName, Trigger};
use crate::lifecycle::problem::suggestion;
use crate::lifecycle::{Lifecycle, PRIOR, RoleId, Transition, TransitionTarget};
use crate::text::clip;

pub(super) fn ask(at: Moment<'_>, ask: &TransitionRequest) -> Result<TaskUpdate, Rejected> {
    try_rows(at, ask).map_err(|rejected| {
        let Moment { lifecycle, task, now } = at;
        let refused = ask.to.as_deref().and_then(|to| lifecycle.find_state(to));
        let refused = refused.map(|id| lifecycle.state(id).name.as_str());
        let mut instead = allowed(lifecycle, task, &ask.actor, now);
        instead.retain(|name| Some(name.as_str()) != refused);
        Rejected { allowed: instead, ..rejected }
    })
}

fn try_rows(at: Moment<'_>, ask: &TransitionRequest) -> Result<TaskUpdate, Rejected> {
    fresh(at.task, ask)?;
    let role = role_of(at.lifecycle, &ask.actor)?;
    let rows = matching(at, ask)?;
    let mine: Vec<&Transition> =
        rows.iter().copied().filter(|row| row.roles.contains(&role)).collect();
    if mine.is_empty() {
        return Err(forbidden(at.lifecycle, ask, &rows));
    }
    if mine.iter().any(|row| answers_as_run(at, ask, row)) {
        let message =
            format!("the run may not answer the question about {}; human may", at.task.id);
        return Err(Rejected::one(RejectReason::Forbidden, "actor", message));
    }
    let cause = Cause::by(&ask.actor, &ask.fields, at.now);
    let mut refusals: Vec<Vec<FieldError>> = Vec::new();
    for row in mine {
        let tried = match too_soon(at, row) {
            Some(error) => Err(vec![error]),
            None => apply_transition(at, row, &cause),
        };
        match tried {
            Ok(step) => return Ok(step),
            Err(errors) => refusals.push(errors),
        }
    }
    Err(Rejected::invalid(nearest(refusals)))
}

/// Whether a run would answer the question that people are asked. A lifecycle may let leads
/// approve.
fn answers_as_run(at: Moment<'_>, ask: &TransitionRequest, row: &Transition) -> bool {
    let Moment { lifecycle, task, .. } = at;
    let leads =
        ask.actor.role == AgentRole::Lead.as_str() && lifecycle.flag(SettingName::LeadMayApprove);
    let is_offered = || {
        let open = open_decision(lifecycle, task);
        open.is_some_and(|open| open.offers.iter().any(|(_, trigger)| *trigger == row.trigger))
    };
    ask.epoch.is_some() && !leads && is_offered()
}

/// Of the errors of refused transitions, those of the ones with the fewest.
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

/// A time, or a task that is not done, which the move must wait for.
fn too_soon(at: Moment<'_>, row: &Transition) -> Option<FieldError> {
    let Moment { task, now, .. } = at;
    let due = row.timeout.map(|timeout| due(task, timeout.time, timeout.since));
    if let Some(due) = due.filter(|due| *due > now) {
        return Some(FieldError::new("to", format!("is not due before {due}")));
    }
    if row.trigger != Trigger::Claim.name() {
        return None;
    }
    if task.open_needs > 0 {
        let message = format!("{} of the tasks it waits for are not done", task.open_needs);
        return Some(FieldError::new("needs", message));
    }
    let later = task.not_before.filter(|at| *at > now)?;
    Some(FieldError::new("notBefore", format!("is not to start before {later}")))
}

fn fresh(task: &Task, ask: &TransitionRequest) -> Result<(), Rejected> {
    if let Some(epoch) = ask.epoch {
        lease_of(task, epoch)?;
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

/// The lease of the run with this epoch, if it is the current one.
pub(super) fn lease_of(task: &Task, epoch: i64) -> Result<&Lease, Rejected> {
    let lease = task.lease.as_ref().filter(|lease| lease.epoch == epoch);
    lease.ok_or_else(|| {
        let message = format!("{epoch} is not the current lease of {}", task.id);
        Rejected::one(RejectReason::StaleLease, "epoch", message)
    })
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

/// The transitions that lead where the request asks to go, whichever roles may take them.
fn matching<'a>(at: Moment<'a>, ask: &TransitionRequest) -> Result<Vec<&'a Transition>, Rejected> {
    let (task, here) = (at.task, at.state());
    let refuse = |message: &str| Err(Rejected::one(RejectReason::Invalid, "to", message));
    if here.terminal {
        return refuse(&format!("{} is {} and cannot change", task.id, here.name));
    }
    let goal = ask.to.as_deref().map(|to| goal(at.lifecycle, to)).transpose()?;
    if goal.is_none() && ask.trigger.is_none() {
        return refuse("name a state or a trigger");
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
    let rows: Vec<&Transition> = at.exits().filter(leads_there).filter(triggered).collect();
    if rows.is_empty() {
        let wanted = match (&ask.to, &ask.trigger) {
            (Some(to), Some(trigger)) => format!("to {to} by `{}`", clip(trigger)),
            (Some(to), None) => format!("to {to}"),
            (None, Some(trigger)) => format!("by `{}`", clip(trigger)),
            (None, None) => String::new(),
        };
        return refuse(&format!("no transition from {} {wanted}", here.name));
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
        let hint = suggestion(name, lifecycle.states.iter().map(|state| state.name.as_str()));
        format!("the lifecycle {} has no state `{}`; {hint}", lifecycle.id, clip(name))
    } else {
        format!("`{name}` is a group; say which: {}", members.join(", "))
    };
    Err(Rejected::one(RejectReason::Invalid, "to", message))
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
