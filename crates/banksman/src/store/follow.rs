//! What a step writes besides the task's row: history, key, timers, outbox, the start of a run,
//! artifacts, decisions, notices, and the place of all that in the feed.

use banksman_core::lifecycle::{Activity, Lifecycle};
use banksman_core::machine::{Effect, Task, TaskUpdate};
use banksman_core::policy;
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::apply::IdempotencyKey;
use super::audit::HistoryEntry;
use super::feed::{ChangeKind, append, append_record};
use super::notices::{notice_of, write_notice};
use super::row::json;
use super::tx::{Tx, params};
use super::{Result, sql};

/// Writes everything of a step besides the row.
pub(super) fn follow_up(
    tx: &mut Tx<'_>,
    lifecycle: &Lifecycle,
    step: &TaskUpdate,
    entry: Option<&HistoryEntry>,
    key: Option<&IdempotencyKey>,
    now: Instant,
) -> Result<()> {
    let (id, version) = (step.task.id, step.task.version);
    if let Some(entry) = entry {
        entry.insert(tx)?;
        append_record(tx, entry)?;
        tx.notify();
    }
    if let Some(key) = key {
        let columns = params![&key.text, key.request.clone(), id, version, now];
        tx.write(sql::INSERT_KEY, &columns)?;
    }
    write_timers(tx, step)?;
    write_effects(tx, step, entry.is_some(), now)?;
    for artifact in &step.artifacts {
        let value = json(&artifact.value);
        let hash = Sha256::digest(value.as_bytes()).to_vec();
        tx.write(sql::INSERT_ARTIFACT, &params![id, version, &artifact.name, hash, value])?;
    }
    if let Some((epoch, _)) = &step.ended_run {
        append(tx, ChangeKind::RunEnded, Some(id), *epoch, now)?;
    }
    write_decision(tx, step, entry, now)?;
    started_run(tx, lifecycle, step, entry, now)?;
    let next_timer = step.timers.iter().flatten().map(|timer| timer.due).min();
    let told = |effect| notice_of(lifecycle, &step.task, effect, next_timer);
    step.effects.iter().filter_map(told).try_for_each(|notice| write_notice(tx, &notice, now))
}

fn write_timers(tx: &mut Tx<'_>, step: &TaskUpdate) -> Result<()> {
    let Some(timers) = &step.timers else { return Ok(()) };
    let (id, entered) = (step.task.id, step.task.entered);
    tx.write(sql::DELETE_TIMERS, &params![id])?;
    for timer in timers {
        let (kind, number) = timer.kind.code();
        tx.write(sql::INSERT_TIMER, &params![id, kind, number, entered, timer.due])?;
    }
    Ok(())
}

fn write_decision(
    tx: &mut Tx<'_>,
    step: &TaskUpdate,
    entry: Option<&HistoryEntry>,
    now: Instant,
) -> Result<()> {
    let (id, version) = (step.task.id, step.task.version);
    if step.decision.settles {
        let by = entry.map_or_else(String::new, |entry| entry.record.actor.to_string());
        tx.write(sql::SETTLE_DECISION, &params![id, now, by, version])?;
        let is_answer = entry.is_some_and(|entry| entry.record.actor.is_human());
        let kind =
            if is_answer { ChangeKind::DecisionAnswered } else { ChangeKind::DecisionLapsed };
        tx.write(sql::APPEND_SETTLED_DECISION, &params![now, kind.as_str(), id, version])?;
    }
    if let Some(decision) = &step.decision.opens {
        let offers = match entry {
            Some(entry) => json(&policy::with_permission(&decision.offers, &entry.record)),
            None => json(&decision.offers),
        };
        let question = decision.question.as_deref();
        let columns =
            params![id, version, &decision.asks, offers, now, decision.deadline, question];
        tx.write(sql::INSERT_DECISION, &columns)?;
        let kind = ChangeKind::DecisionOpened.as_str();
        tx.write(sql::APPEND_OPENED_DECISION, &params![now, kind, id, version])?;
    }
    Ok(())
}

fn write_effects(tx: &mut Tx<'_>, step: &TaskUpdate, recorded: bool, now: Instant) -> Result<()> {
    let task = &step.task;
    // Notices are written at once and need nobody to carry them out.
    let is_notice =
        |effect: &Effect| matches!(effect, Effect::Notify | Effect::Alert | Effect::Remind { .. });
    let outside = || step.effects.iter().filter(|effect| !is_notice(effect));
    if outside().next().is_none() {
        return Ok(());
    }
    // A step without a record shares its version with the step before, whose effects have the first
    // numbers.
    let first = if recorded {
        0
    } else {
        tx.count(sql::NEXT_EFFECT_NUMBER, &params![task.id, task.version])?
    };
    for (number, effect) in (first..).zip(outside()) {
        let run = of_run(task, effect);
        let columns = params![task.id, task.version, number, json(effect), now, run];
        tx.write(sql::INSERT_EFFECT, &columns)?;
    }
    tx.notify();
    Ok(())
}

/// The run whose node carries out an effect. Work in a worktree stays on the node of the last run:
/// another node would find no job and start the same work again.
fn of_run(task: &Task, effect: &Effect) -> Option<i64> {
    match effect {
        Effect::Stop { epoch } => Some(*epoch),
        Effect::CleanUp | Effect::Start { activity: Activity::Check | Activity::Merge } => {
            Some(task.epoch)
        }
        Effect::Start {
            activity:
                Activity::Agent
                | Activity::Panel
                | Activity::Human
                | Activity::PullRequest
                | Activity::Capture
                | Activity::Wait,
        }
        | Effect::Notify
        | Effect::Alert
        | Effect::Remind { .. }
        | Effect::CloseReviews
        | Effect::TellParent
        | Effect::LeadChildren => None,
    }
}

/// Only a claim starts a new epoch.
fn started_run(
    tx: &mut Tx<'_>,
    lifecycle: &Lifecycle,
    step: &TaskUpdate,
    entry: Option<&HistoryEntry>,
    now: Instant,
) -> Result<()> {
    let task = &step.task;
    let claimed = entry.is_some_and(|entry| entry.record.epoch().is_some());
    let Some(lease) = task.lease.as_ref().filter(|_| claimed) else {
        return Ok(());
    };
    let activity = lifecycle.state(task.state).activity().map_or("none", Activity::as_str);
    let columns = params![task.id, lease.epoch, &lease.worker, activity, now];
    tx.write(sql::INSERT_RUN, &columns)?;
    append(tx, ChangeKind::RunStarted, Some(task.id), lease.epoch, now)
}
