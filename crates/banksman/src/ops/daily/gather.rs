//! Reads from the store what the sections of a daily note show. Every list is bounded.

use std::collections::BTreeSet;

use banksman_core::daily::{
    Alert, Choice, Completed, NotePage, PendingDecision, PendingDetails, Severity, age,
};
use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::{AnswerName, Field, Purpose, Trigger};
use banksman_core::lifecycle::expr::Fields;
use banksman_core::limits;
use banksman_core::machine::{self, Actor, Event, TransitionRequest};
use banksman_core::time::{Instant, Span};

use super::LocalDay;
use crate::ops::OpsError;
use crate::ops::decisions::{self, InboxItem, Offer, ReviewerVerdict, WorkRecord};
use crate::store::{Store, Stored};

const HOUR: i64 = 3_600_000;
/// Tasks without a change for this long.
const STUCK: [(Span, &str, Severity); 2] = [
    (Span(72 * HOUR), "Task stuck > 72h", Severity::Error),
    (Span(24 * HOUR), "Task stuck > 24h", Severity::Warning),
];
/// In percent of the tasks that ended on the day. A handful of tasks is too few to say anything.
const FAILURE_RATE: usize = 20;
const HANDFUL: usize = 5;
/// The fields in which a task says what is wrong, the likeliest first.
const TROUBLE: [Field; 4] =
    [Field::ReviewSummary, Field::Diagnostic, Field::UnblockCondition, Field::Feedback];
/// Runs whose times are added up.
const RUNS: i64 = 100;
const UNKNOWN: &str = "-";

/// `edited` are the decisions in whose entries people wrote: they are shown wherever they are in
/// the list.
pub(super) fn page(
    store: &Store,
    owner: &Actor,
    day: &LocalDay,
    edited: &BTreeSet<DecisionId>,
    now: Instant,
) -> Result<NotePage, OpsError> {
    let mut page = NotePage::default();
    for item in decisions::open_items(store, None, (owner, now), usize::MAX)? {
        let decision = &item.decision;
        let is_edited = edited.contains(&decision.id);
        let is_put_off = decision.snoozed_until.is_some_and(|until| until > now);
        if is_edited || !is_put_off && page.pending.len() < limits::DAILY_ENTRIES {
            page.pending.push(pending(store, day, &item, now)?);
        } else if !is_put_off {
            page.left_out += 1;
        }
    }
    let ended = |kind| store.ended_between(kind, day.from, day.until, bound());
    let (done, failed) = (ended(StateKind::Done)?, ended(StateKind::Failed)?);
    for stored in done.iter().filter(|stored| is_of_interest(stored)) {
        page.completed.push(completed(store, stored, day)?);
    }
    let done = done.iter().filter(|stored| is_work(stored)).count();
    page.alerts = alerts(store, &failed, done, now)?;
    Ok(page)
}

/// Reviews and questions about budgets are no work of their own that could fail.
fn is_work(stored: &Stored) -> bool {
    !matches!(stored.lifecycle.purpose, Purpose::Review | Purpose::Budget)
}

/// Subtasks are shown with their parent, except those that have a pull request of their own.
fn is_of_interest(stored: &Stored) -> bool {
    stored.task.parent.is_none() || text(stored, Field::PrUrl).is_some()
}

fn pending(
    store: &Store,
    day: &LocalDay,
    item: &InboxItem,
    now: Instant,
) -> Result<PendingDecision, OpsError> {
    let InboxItem { decision, stored, escalated, consequence, .. } = item;
    let choice =
        |offer: &Offer| Choice { action: offer.action.clone(), needs_note: offer.needs_words() };
    let is_merge = item.offers.iter().any(|offer| offer.action == AnswerName::Merge.name());
    // A failed merge is not as ready as the others.
    let about = if is_merge && text(stored, Field::Problem).is_none() {
        let or_unknown = |field| text(stored, field).unwrap_or(UNKNOWN).to_owned();
        PendingDetails::Merge {
            pr: or_unknown(Field::PrUrl),
            tests: or_unknown(Field::Tests),
            reviews: reviews(&decisions::opinions(store, item)?),
        }
    } else if *escalated {
        PendingDetails::Escalated { concern: concern(stored, &decisions::opinions(store, item)?) }
    } else {
        PendingDetails::Standard { risk: text(stored, Field::Risk).unwrap_or(UNKNOWN).to_owned() }
    };
    Ok(PendingDecision {
        id: decision.id,
        version: stored.task.version,
        task: decision.task,
        summary: item.title(),
        asks: decision.asks.clone(),
        question: decision.question.clone(),
        work: decisions::work_of(item).iter().map(WorkRecord::line).collect(),
        answered: decision.answer.as_ref().map(|answer| {
            let (given, at) = (&answer.given, day.time_of(answer.due));
            format!("Answered by {}: {}, takes effect at {at}.", given.by, given.action)
        }),
        age: now.since(decision.opened_at),
        lapse: consequence
            .as_ref()
            .map(|consequence| (consequence.at.since(now), consequence.to.clone())),
        offers: item.possible().map(choice).collect(),
        about,
    })
}

fn text(stored: &Stored, field: Field) -> Option<&str> {
    stored.text(field).map(str::trim).filter(|text| !text.is_empty())
}

/// What went wrong, or who objects, and to what.
fn concern(stored: &Stored, verdicts: &[ReviewerVerdict]) -> String {
    let objects = verdicts.iter().find(|verdict| verdict.dissents);
    let said = objects.map(|verdict| format!("{}: {}", verdict.who, verdict.words));
    let told = || TROUBLE.iter().find_map(|field| text(stored, *field)).map(str::to_owned);
    let problem = text(stored, Field::Problem).map(str::to_owned);
    problem.or(said).or_else(told).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn reviews(verdicts: &[ReviewerVerdict]) -> String {
    let given = || verdicts.iter().filter(|verdict| !verdict.verdict.is_empty());
    let (all, yes) = (given().count(), given().filter(|verdict| !verdict.dissents).count());
    if all == 0 { UNKNOWN.to_owned() } else { format!("{yes}/{all} APPROVE") }
}

fn completed(store: &Store, stored: &Stored, day: &LocalDay) -> Result<Completed, OpsError> {
    let task = &stored.task;
    let runs = store.past_runs(task.id, RUNS)?;
    let took = |run: &crate::store::runs::PastRun| {
        run.ended_at.map_or(0, |ended| ended.since(run.started_at).0)
    };
    let spent: i64 = runs.iter().map(took).sum();
    let estimated =
        text(stored, Field::Estimate).map(|estimate| format!(" (estimated {estimate})"));
    let effort = match runs.len() {
        0 => String::new(),
        _ => format!("{}{}", age(Span(spent)), estimated.unwrap_or_default()),
    };
    let count = |field| stored.list(field).len();
    let counted = |number: usize, one: &str, many: &str| match number {
        0 => String::new(),
        1 => format!("1 {one}"),
        more => format!("{more} {many}"),
    };
    Ok(Completed {
        task: task.id,
        title: task.title.clone(),
        pr: text(stored, Field::PrUrl).unwrap_or_default().to_owned(),
        merged: stored.flag(Field::Merged),
        unproven: stored.overridden_by(),
        at: day.time_of(task.entered_at),
        effort,
        learnings: counted(count(Field::Learnings), "learning", "learnings"),
        follow_ups: counted(count(Field::FollowUps), "task created", "tasks created"),
    })
}

fn alerts(
    store: &Store,
    failed: &[Stored],
    done: usize,
    now: Instant,
) -> Result<Vec<Alert>, OpsError> {
    let mut alerts = Vec::new();
    let about = |condition, severity, stored: &Stored| Alert {
        condition,
        severity,
        task: Some(stored.task.id),
        detail: stored.task.title.clone(),
    };
    for stored in failed.iter().filter(|stored| is_of_interest(stored)) {
        alerts.push(about("Task failed", Severity::Error, stored));
    }
    let failures = failed.iter().filter(|stored| is_work(stored)).count();
    let ended = failures + done;
    if ended >= HANDFUL && failures * 100 > ended * FAILURE_RATE {
        let detail = format!("{failures} of {ended} tasks that ended");
        let (condition, severity) = ("Failure rate > 20%", Severity::Error);
        alerts.push(Alert { condition, severity, task: None, detail });
    }
    // A task may also be blocked by a dispute or by another task.
    let mut unserved: BTreeSet<TaskId> =
        store.queued_without_worker(bound())?.into_iter().collect();
    for id in store.stuck_without_worker(bound())? {
        let stored = store.readable_task(id)?;
        if stored.is_some_and(|stored| waits_for_worker(&stored, now)) {
            unserved.insert(id);
        }
    }
    for id in &unserved {
        let Some(stored) = store.readable_task(*id)? else { continue };
        alerts.push(about("No workers available", Severity::Warning, &stored));
    }
    let [_, (shortest, ..)] = STUCK;
    for stored in store.silent_since(Instant(now.0.saturating_sub(shortest.0)), bound())? {
        let silent = now.since(stored.task.progress_at.max(stored.task.entered_at));
        let level = STUCK.iter().find(|(span, ..)| silent >= *span);
        let is_known = unserved.contains(&stored.task.id);
        let Some((_, condition, severity)) = level.filter(|_| !is_known) else { continue };
        alerts.push(about(condition, *severity, &stored));
    }
    alerts.sort_by_key(|alert| alert.severity);
    alerts.truncate(limits::DAILY_LINES);
    Ok(alerts)
}

/// Whether the arrival of a worker would let the task go on.
fn waits_for_worker(stored: &Stored, now: Instant) -> bool {
    let event = Event::Asked(TransitionRequest {
        actor: Actor::system(),
        to: None,
        trigger: Some(Trigger::WorkerAvailable.name().to_owned()),
        fields: Fields::new(),
        epoch: None,
        version: None,
    });
    machine::step(&stored.lifecycle, &stored.task, &event, now).is_ok()
}

fn bound() -> i64 {
    i64::try_from(limits::DAILY_LINES).unwrap_or(i64::MAX)
}
