//! The life of a run: claim, heartbeats, end.

use super::apply::{Cause, apply_transition, quiet};
use super::ask::{lease_of, role_of};
use super::effect::TaskUpdate;
use super::entry::{in_place, plan_timers};
use super::env::Moment;
use super::event::{Claim, Finish, Heartbeat};
use super::outcome::{End, lead_on};
use super::reject::{RejectReason, Rejected};
use super::task::{Lease, Task};
use crate::lifecycle::contract::Trigger;
use crate::lifecycle::expr::Fields;
use crate::lifecycle::{RoleId, StateKind, Transition};

pub(super) fn claim(at: Moment<'_>, claim: &Claim) -> Result<TaskUpdate, Rejected> {
    let Moment { lifecycle, task, now } = at;
    if task.rank(lifecycle).is_none() {
        let message = format!("{} cannot be claimed now", task.id);
        return Err(Rejected::one(RejectReason::Invalid, "task", message));
    }
    let role = role_of(lifecycle, &claim.actor)?;
    let mut step = if at.state().kind == StateKind::Queued {
        by_row(at, claim, role)?
    } else {
        is_for(at, claim)?;
        in_place(task, now)
    };
    // A counter at its limit may divert a claim to a state without work, which gives no lease.
    let kind = lifecycle.state(step.task.state).kind;
    match kind {
        StateKind::Queued | StateKind::Working | StateKind::Reviewing => {}
        StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked
        | StateKind::Done
        | StateKind::Failed
        | StateKind::Cancelled => return Ok(step),
    }
    let worker = claim.actor.to_string();
    step.task.epoch = task.epoch + 1;
    step.task.lease = Some(Lease { epoch: step.task.epoch, worker, expires_at: claim.expires_at });
    step.timers = plan_timers(at, &step.task);
    step.task.spent.runs = task.spent.runs.saturating_add(1);
    step.record = Some(at.record(&step.task, Trigger::Claim.name(), &claim.actor));
    Ok(step)
}

/// Work that is assigned goes to its assignees only.
fn is_for(Moment { lifecycle, task, .. }: Moment<'_>, claim: &Claim) -> Result<(), Rejected> {
    let assignees = task.assignees(lifecycle);
    let is_named = |name: &String| assignees.contains(name);
    if assignees.is_empty() || claim.actor.name.as_ref().is_some_and(is_named) {
        return Ok(());
    }
    let message = format!("{} is assigned to {}", task.id, assignees.join(", "));
    Err(Rejected::one(RejectReason::Forbidden, "actor", message))
}

fn by_row(at: Moment<'_>, claim: &Claim, role: RoleId) -> Result<TaskUpdate, Rejected> {
    let is_claim =
        |row: &&Transition| row.trigger == Trigger::Claim.name() && row.roles.contains(&role);
    let fields = Fields::new();
    let cause = Cause::by(&claim.actor, &fields, at.now);
    let mut errors = vec![];
    for row in at.exits().filter(is_claim) {
        match apply_transition(at, row, &cause) {
            Ok(step) => return Ok(step),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() {
        let message = format!("{} may not claim from {}", claim.actor.role, at.state().name);
        return Err(Rejected::one(RejectReason::Forbidden, "actor", message));
    }
    Err(Rejected::invalid(errors))
}

pub(super) fn heartbeat(at: Moment<'_>, heartbeat: &Heartbeat) -> Result<TaskUpdate, Rejected> {
    let lease = lease_of(at.task, heartbeat.epoch)?;
    let expires_at = lease.expires_at.max(heartbeat.expires_at);
    let lease = Some(Lease { expires_at, ..lease.clone() });
    let progress_at = if heartbeat.progressed { at.now } else { at.task.progress_at };
    Ok(quiet(Task { lease, progress_at, ..at.task.clone() }))
}

/// A run has ended, and the lifecycle says where its outcome leads.
pub(super) fn finish(at: Moment<'_>, finish: &Finish) -> Result<TaskUpdate, Rejected> {
    lease_of(at.task, finish.epoch)?;
    lead_on(at, End { finish, of_run: true })
}
