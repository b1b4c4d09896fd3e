//! The life of a run: a worker takes the task, shows that it is alive, and ends.

use super::ask::role_of;
use super::effect::Step;
use super::env::Light;
use super::event::{Beat, Claim, Finish};
use super::outcome::{End, lead_on};
use super::plan::{in_place, plan_timers};
use super::reject::{Rejected, Why};
use super::settle::{Cause, quiet, record, take};
use super::task::{Lease, Task};
use crate::lifecycle::{CLAIM, Kind, Lifecycle, RoleId};
use crate::time::Instant;

pub(super) fn claim(
    lifecycle: &Lifecycle,
    task: &Task,
    claim: &Claim,
    now: Instant,
) -> Result<Step, Rejected> {
    if task.rank(lifecycle).is_none() {
        return Err(Rejected::one(
            Why::Invalid,
            "task",
            format!("{} cannot be claimed now", task.id),
        ));
    }
    let role = role_of(lifecycle, &claim.actor)?;
    let mut step = if lifecycle.state(task.state).kind == Kind::Queued {
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
    step.task.spent.runs += 1;
    step.record = Some(record(lifecycle, Some(task), &step.task, CLAIM, &claim.actor));
    Ok(step)
}

/// A counter at its limit may lead a claim to where there is nothing to work on; it gives no lease then.
fn has_work(kind: Kind) -> bool {
    match kind {
        Kind::Queued | Kind::Working | Kind::Reviewing => true,
        Kind::Waiting | Kind::Blocked | Kind::Parked => false,
        Kind::Done | Kind::Failed | Kind::Cancelled => false,
    }
}

fn by_row(
    lifecycle: &Lifecycle,
    task: &Task,
    claim: &Claim,
    role: RoleId,
    now: Instant,
) -> Result<Step, Rejected> {
    let rows =
        lifecycle.exits(task.state).filter(|row| row.trigger == CLAIM && row.roles.contains(&role));
    let light = Light { actor: &claim.actor, now, outcome: None };
    let fields = serde_json::Map::new();
    let cause = Cause { light, fields: &fields, run_ended: false };
    let mut errors = vec![];
    for row in rows {
        match take(lifecycle, task, row, &cause) {
            Ok(step) => return Ok(step),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() {
        return Err(Rejected::one(
            Why::Forbidden,
            "actor",
            format!("{} may not claim from {}", claim.actor.role, lifecycle.state(task.state).name),
        ));
    }
    Err(Rejected { why: Why::Invalid, errors, allowed: Vec::new() })
}

fn holds(task: &Task, epoch: i64) -> Result<&Lease, Rejected> {
    let lease = task.lease.as_ref().filter(|lease| lease.epoch == epoch);
    lease.ok_or_else(|| {
        Rejected::one(
            Why::StaleLease,
            "epoch",
            format!("{epoch} is not the current lease of {}", task.id),
        )
    })
}

pub(super) fn beat(task: &Task, beat: &Beat, now: Instant) -> Result<Step, Rejected> {
    let lease = holds(task, beat.epoch)?;
    let expires_at = lease.expires_at.max(beat.expires_at);
    let lease = Some(Lease { expires_at, ..lease.clone() });
    let progress_at = if beat.progressed { now } else { task.progress_at };
    Ok(quiet(Task { lease, progress_at, ..task.clone() }))
}

/// A run has ended, and its outcome leads where the lifecycle says.
pub(super) fn finish(
    lifecycle: &Lifecycle,
    task: &Task,
    finish: &Finish,
    now: Instant,
) -> Result<Step, Rejected> {
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
