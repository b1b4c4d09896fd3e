//! What a step writes besides the task's row: history, key, timers, outbox, the start of a run,
//! artifacts, decisions, notices, and the place of all that in the feed.

use banksman_core::ids::RunId;
use banksman_core::lifecycle::{Activity, Lifecycle};
use banksman_core::machine::{Effect, Task, TaskUpdate};
use banksman_core::policy;
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::apply::IdempotencyKey;
use super::audit::HistoryEntry;
use super::conn::{Conn, Value};
use super::feed::{ChangeKind, tell_record, tell_run};
use super::notices::{notice_of, write_notice};
use super::row::json;
use super::{StoreError, sql};

/// Writes everything of a step besides the row.
pub(super) fn follow_up(
    conn: &mut dyn Conn,
    lifecycle: &Lifecycle,
    step: &TaskUpdate,
    entry: Option<&HistoryEntry>,
    key: Option<&IdempotencyKey>,
    now: Instant,
) -> Result<(), StoreError> {
    let (id, version) = (step.task.id.0, step.task.version);
    if let Some(entry) = entry {
        entry.insert(conn)?;
        tell_record(conn, entry)?;
        conn.notify();
    }
    if let Some(key) = key {
        let request = key.request.clone().into();
        let columns = [key.text.as_str().into(), request, id.into(), version.into(), now.0.into()];
        conn.write(sql::INSERT_KEY, &columns)?;
    }
    write_timers(conn, step)?;
    write_effects(conn, step, entry.is_some(), now)?;
    for artifact in &step.artifacts {
        let value = json(&artifact.value);
        let hash = Sha256::digest(value.as_bytes()).to_vec().into();
        let columns =
            [id.into(), version.into(), artifact.name.as_str().into(), hash, value.into()];
        conn.write(sql::INSERT_ARTIFACT, &columns)?;
    }
    if let Some((epoch, _)) = &step.ended_run {
        tell_run(conn, ChangeKind::RunEnded, RunId { task: step.task.id, epoch: *epoch }, now)?;
    }
    write_decision(conn, step, entry, now)?;
    started_run(conn, lifecycle, step, entry, now)?;
    let next_timer = step.timers.iter().flatten().map(|timer| timer.due).min();
    for effect in &step.effects {
        if let Some(notice) = notice_of(lifecycle, &step.task, effect, next_timer) {
            write_notice(conn, &notice, now)?;
        }
    }
    Ok(())
}

fn write_timers(conn: &mut dyn Conn, step: &TaskUpdate) -> Result<(), StoreError> {
    let Some(timers) = &step.timers else { return Ok(()) };
    let id = Value::from(step.task.id.0);
    conn.write(sql::DELETE_TIMERS, std::slice::from_ref(&id))?;
    for timer in timers {
        let (kind, number) = timer.kind.code();
        let entered = step.task.entered.into();
        let columns = [id.clone(), kind.into(), number.into(), entered, timer.due.0.into()];
        conn.write(sql::INSERT_TIMER, &columns)?;
    }
    Ok(())
}

fn write_decision(
    conn: &mut dyn Conn,
    step: &TaskUpdate,
    entry: Option<&HistoryEntry>,
    now: Instant,
) -> Result<(), StoreError> {
    let (id, version) = (step.task.id.0, step.task.version);
    if step.decision.settles {
        let by = entry.map_or_else(String::new, |entry| entry.record.actor.to_string());
        let columns = [id.into(), now.0.into(), by.into(), version.into()];
        conn.write(sql::SETTLE_DECISION, &columns)?;
        let is_answer = entry.is_some_and(|entry| entry.record.actor.is_human());
        let kind =
            if is_answer { ChangeKind::DecisionAnswered } else { ChangeKind::DecisionLapsed };
        let columns = [now.0.into(), kind.as_str().into(), id.into(), version.into()];
        conn.write(sql::TELL_SETTLED_DECISION.pick(conn), &columns)?;
    }
    if let Some(decision) = &step.decision.opens {
        let offers = match entry {
            Some(entry) => json(&policy::with_permission(&decision.offers, &entry.record)),
            None => json(&decision.offers),
        };
        let (asks, offers) = (decision.asks.as_str().into(), offers.into());
        let deadline = decision.deadline.map(|at| at.0).into();
        let columns = [id.into(), version.into(), asks, offers, now.0.into(), deadline];
        conn.write(sql::INSERT_DECISION, &columns)?;
        let kind = ChangeKind::DecisionOpened.as_str().into();
        let columns = [now.0.into(), kind, id.into(), version.into()];
        conn.write(sql::TELL_OPENED_DECISION.pick(conn), &columns)?;
    }
    Ok(())
}

fn write_effects(
    conn: &mut dyn Conn,
    step: &TaskUpdate,
    recorded: bool,
    now: Instant,
) -> Result<(), StoreError> {
    let task = &step.task;
    let outside = || step.effects.iter().filter(|effect| !is_notice(effect));
    if outside().next().is_none() {
        return Ok(());
    }
    // A step without a record shares its version with the step before, whose effects have the first
    // numbers.
    let first = if recorded {
        0
    } else {
        let rows = conn.query(sql::NEXT_EFFECT_NUMBER, &[task.id.0.into(), task.version.into()])?;
        rows.first().map_or(Ok(0), |row| row.int(0))?
    };
    for (number, effect) in (first..).zip(outside()) {
        let of_run = of_run(task, effect);
        conn.write(
            sql::INSERT_EFFECT,
            &[
                task.id.0.into(),
                task.version.into(),
                number.into(),
                json(effect).into(),
                now.0.into(),
                of_run.into(),
            ],
        )?;
    }
    conn.notify();
    Ok(())
}

/// Notices are written at once and need nobody to carry them out.
fn is_notice(effect: &Effect) -> bool {
    matches!(effect, Effect::Notify | Effect::Alert | Effect::Remind { .. })
}

/// The run whose node carries out an effect. Work in a worktree stays on the node of the last run:
/// another node would find no job and start the same work again.
fn of_run(task: &Task, effect: &Effect) -> Option<i64> {
    match effect {
        Effect::Stop { epoch } => Some(*epoch),
        Effect::CleanUp => Some(task.epoch),
        Effect::Start { activity } => match activity {
            Activity::Check | Activity::Merge => Some(task.epoch),
            Activity::Agent
            | Activity::Panel
            | Activity::Human
            | Activity::PullRequest
            | Activity::Capture
            | Activity::Wait => None,
        },
        Effect::Notify
        | Effect::Alert
        | Effect::Remind { .. }
        | Effect::TellParent
        | Effect::LeadChildren => None,
    }
}

/// Only a claim starts a new epoch.
fn started_run(
    conn: &mut dyn Conn,
    lifecycle: &Lifecycle,
    step: &TaskUpdate,
    entry: Option<&HistoryEntry>,
    now: Instant,
) -> Result<(), StoreError> {
    let task = &step.task;
    let claimed = entry.is_some_and(|entry| entry.record.fields.contains_key("epoch"));
    let Some(lease) = task.lease.as_ref().filter(|_| claimed) else {
        return Ok(());
    };
    let activity =
        lifecycle.state(task.state).does.as_ref().map_or("none", |does| does.activity.as_str());
    let columns = [
        task.id.0.into(),
        lease.epoch.into(),
        lease.worker.as_str().into(),
        activity.into(),
        now.0.into(),
    ];
    conn.write(sql::INSERT_RUN, &columns)?;
    tell_run(conn, ChangeKind::RunStarted, RunId { task: task.id, epoch: lease.epoch }, now)
}
