//! The life of a run: a worker takes the task, shows that it is alive, and ends.

use super::apply::{Cause, quiet, record, take};
use super::ask::role_of;
use super::effect::TaskUpdate;
use super::env::TransitionContext;
use super::event::{Claim, Finish, Heartbeat};
use super::outcome::{End, lead_on};
use super::plan::{in_place, plan_timers};
use super::reject::{RejectReason, Rejected};
use super::task::{Lease, Task};
use crate::lifecycle::contract::Trigger;
use crate::lifecycle::expr::Fields;
use crate::lifecycle::{Lifecycle, RoleId, StateKind};
use crate::time::Instant;

pub(super) fn claim(
    lifecycle: &Lifecycle,
    task: &Task,
    claim: &Claim,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    if task.rank(lifecycle).is_none() {
        return Err(Rejected::one(
            RejectReason::Invalid,
            "task",
            format!("{} cannot be claimed now", task.id),
        ));
    }
    let role = role_of(lifecycle, &claim.actor)?;
    let mut step = if lifecycle.state(task.state).kind == StateKind::Queued {
        by_row(lifecycle, task, claim, role, now)?
    } else {
        in_place(task, now)
    };
    if !has_work(lifecycle.state(step.task.state).kind) {
        return Ok(step);
    }
    let worker = claim.actor.to_string();
    step.task.epoch = task.epoch + 1;
    step.task.lease = Some(Lease { epoch: step.task.epoch, worker, expires_at: claim.expires_at });
    step.timers = plan_timers(lifecycle, task, &step.task, now);
    step.task.spent.runs = task.spent.runs.saturating_add(1);
    step.record =
        Some(record(lifecycle, Some(task), &step.task, Trigger::Claim.name(), &claim.actor));
    Ok(step)
}

/// A counter at its limit may lead a claim to where there is nothing to work on; it gives no lease
/// then.
fn has_work(kind: StateKind) -> bool {
    match kind {
        StateKind::Queued | StateKind::Working | StateKind::Reviewing => true,
        StateKind::Waiting | StateKind::Blocked | StateKind::Parked => false,
        StateKind::Done | StateKind::Failed | StateKind::Cancelled => false,
    }
}

fn by_row(
    lifecycle: &Lifecycle,
    task: &Task,
    claim: &Claim,
    role: RoleId,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    let rows = lifecycle
        .exits(task.state)
        .filter(|row| row.trigger == Trigger::Claim.name() && row.roles.contains(&role));
    let context = TransitionContext { actor: &claim.actor, now, outcome: None };
    let fields = Fields::new();
    let cause = Cause { context, fields: &fields, run_ended: false };
    let mut errors = vec![];
    for row in rows {
        match take(lifecycle, task, row, &cause) {
            Ok(step) => return Ok(step),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() {
        return Err(Rejected::one(
            RejectReason::Forbidden,
            "actor",
            format!("{} may not claim from {}", claim.actor.role, lifecycle.state(task.state).name),
        ));
    }
    Err(Rejected { why: RejectReason::Invalid, errors, allowed: Vec::new() })
}

fn holds(task: &Task, epoch: i64) -> Result<&Lease, Rejected> {
    let lease = task.lease.as_ref().filter(|lease| lease.epoch == epoch);
    lease.ok_or_else(|| {
        Rejected::one(
            RejectReason::StaleLease,
            "epoch",
            format!("{epoch} is not the current lease of {}", task.id),
        )
    })
}

pub(super) fn heartbeat(
    task: &Task,
    heartbeat: &Heartbeat,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    let lease = holds(task, heartbeat.epoch)?;
    let expires_at = lease.expires_at.max(heartbeat.expires_at);
    let lease = Some(Lease { expires_at, ..lease.clone() });
    let progress_at = if heartbeat.progressed { now } else { task.progress_at };
    Ok(quiet(Task { lease, progress_at, ..task.clone() }))
}

/// A run has ended, and its outcome leads where the lifecycle says.
pub(super) fn finish(
    lifecycle: &Lifecycle,
    task: &Task,
    finish: &Finish,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    holds(task, finish.epoch)?;
    let end = End {
        outcome: finish.outcome,
        detail: &finish.detail,
        fields: &finish.fields,
        of_run: true,
        tokens: finish.tokens,
        cost_micros: finish.cost_micros,
        again_at: finish.again_at,
    };
    lead_on(lifecycle, task, &end, now)
}
