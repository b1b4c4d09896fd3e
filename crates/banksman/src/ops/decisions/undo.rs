//! Takes an answer back: before it takes effect, whatever it was; shortly afterwards only by a
//! transition of the lifecycle.
//!
//! Until an answer takes effect, it is simply removed. Afterwards a run may have started; the move
//! back ends it as any other move would. Without a transition back, nothing changes and the caller
//! is told; history is never rewritten.

use banksman_core::ids::DecisionId;
use banksman_core::lifecycle::RoleId;
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::machine::{self, Actor, Event, TransitionRequest};
use banksman_core::time::{Instant, Span};

use super::answer::{changes_something, since, stale};
use super::refused::may_answer;
use super::words::may_give;
use super::{AnswerResult, DecisionError, DecisionRef, find};
use crate::ops::tasks::each_record_of;
use crate::ops::{OpsError, Session, request_text};
use crate::store::answers::PendingAnswer;
use crate::store::query::{Decision, DecisionEnd, PAGE};
use crate::store::{HistoryEntry, IdempotencyKey, Store, StoreError, Stored};

/// How long an answer can be taken back.
pub const UNDO_WINDOW: Span = Span(300_000);

/// Takes an answer back: the named one, or the actor's last one.
pub fn undo(
    session: &Session,
    which: Option<DecisionRef>,
    window: Span,
    now: Instant,
) -> Result<AnswerResult, OpsError> {
    let store = may_answer(session, which, now)?;
    let (actor, now) = (&session.actor(), store.now(now)?);
    let decision = match which {
        Some(which) => find(store, which)?,
        None => last_answered(store, actor, window, now)?,
    };
    if let Some(PendingAnswer { given, .. }) = &decision.answer {
        if given.by != actor.to_string() {
            return Err(DecisionError::NotYours { id: decision.id, by: given.by.clone() }.into());
        }
        // It may have taken effect meanwhile.
        let stale = || stale(store, &decision, decision.seq);
        let Some(applied) = store.take_answer_back(&decision, now)? else {
            return Err(stale()?.into());
        };
        let action = "undo".to_owned();
        return Ok(AnswerResult { action, applied, decision, takes_effect: None });
    }
    let settled = mine(&decision, actor, window, now)?;
    let stored = store.task(decision.task)?;
    let later = store.history(decision.task, settled.seq)?;
    if later.iter().any(changes_something) {
        let (id, task) = (decision.id, decision.task);
        let since = since(store, task, settled.seq)?;
        return Err(DecisionError::GoneOn { id, task, since }.into());
    }
    let (answer, before) = around(store, &decision, settled)?;
    let ask = way_back(&stored, actor, &answer, &before);
    if let Err(rejected) =
        machine::step(&stored.lifecycle, &stored.task, &Event::Asked(ask.clone()), now)
    {
        let (from, to) = (answer.record.to.clone(), answer.record.from.clone().unwrap_or_default());
        let errors =
            rejected.errors.iter().map(|error| format!("{}: {}", error.field, error.message));
        let why = if leads_to(&stored, &to) {
            errors.collect::<Vec<_>>().join("; ")
        } else {
            "the lifecycle has no such move".to_owned()
        };
        return Err(DecisionError::NoWayBack { task: decision.task, from, to, why }.into());
    }
    let applied = store.apply(decision.task, Event::Asked(ask), Some(mark(decision.id)), now)?;
    Ok(AnswerResult { action: "undo".to_owned(), applied, decision, takes_effect: None })
}

/// The actor's last answer: one that is not in effect yet, else the newest one that is.
fn last_answered(
    store: &Store,
    actor: &Actor,
    window: Span,
    now: Instant,
) -> Result<Decision, OpsError> {
    let is_own = |pending: &PendingAnswer| pending.given.by == actor.to_string();
    let pending = store.pending_answers(PAGE)?.into_iter();
    let pending = pending.filter(|asked| asked.settled.is_none());
    let pending = pending.filter(|asked| asked.answer.as_ref().is_some_and(is_own));
    let given_at = |asked: &Decision| asked.answer.as_ref().map(|answer| answer.given.given_at);
    if let Some(last) = pending.max_by_key(given_at) {
        return Ok(last);
    }
    let not_before = Instant(now.0.saturating_sub(window.0));
    let nothing = || DecisionError::NothingToUndo { by: actor.clone(), window };
    Ok(store.last_answer(actor, not_before)?.ok_or_else(nothing)?)
}

/// Whether people have a transition back from an answer. Its fields may still be missing.
pub fn has_way_back(answered: &AnswerResult) -> bool {
    if answered.takes_effect.is_some() {
        return true;
    }
    let from = answered.applied.entry.as_ref().and_then(|entry| entry.record.from.as_deref());
    from.is_some_and(|from| leads_to(&answered.applied.stored, from))
}

fn leads_to(stored: &Stored, name: &str) -> bool {
    let Stored { task, lifecycle, .. } = stored;
    let wanted = lifecycle.find_state(name);
    let mut rows = lifecycle.exits(task.state).filter(|row| row.timeout.is_none());
    rows.any(|row| {
        let to = machine::resolve(row.to, task);
        to.is_some() && to == wanted && row.roles.contains(&RoleId::HUMAN)
    })
}

/// The key of the move that takes an answer back, which the history accepts once.
fn mark(id: DecisionId) -> IdempotencyKey {
    let text = format!("undo-{id}");
    IdempotencyKey::new(&text, &request_text(&("undo", id.0)))
}

fn mine<'d>(
    decision: &'d Decision,
    actor: &Actor,
    window: Span,
    now: Instant,
) -> Result<&'d DecisionEnd, DecisionError> {
    let id = decision.id;
    let settled = decision.settled.as_ref().ok_or(DecisionError::StillOpen(id))?;
    if settled.by != actor.to_string() {
        return Err(DecisionError::NotYours { id, by: settled.by.clone() });
    }
    if now.since(settled.at) > window {
        return Err(DecisionError::TooLate { id, at: settled.at, window });
    }
    Ok(settled)
}

/// The record of the answer, and the task's fields before it.
fn around(
    store: &Store,
    decision: &Decision,
    settled: &DecisionEnd,
) -> Result<(HistoryEntry, Fields), OpsError> {
    let mut before: Vec<HistoryEntry> = Vec::new();
    each_record_of(store, decision.task, |entry| {
        if entry.seq <= settled.seq {
            before.push(entry.clone());
        }
        Ok::<_, OpsError>(())
    })?;
    let damaged = |what: String| OpsError::from(StoreError::Corrupt { task: decision.task, what });
    let answer = before.pop().ok_or_else(|| damaged("a history without the answer".to_owned()))?;
    let folded = machine::fold(before.iter().map(|entry| (entry.seq, &entry.record)));
    Ok((answer, folded.map_err(|error| damaged(error.to_string()))?.attributes))
}

/// A request for the state before the answer, with the fields that the answer changed as they were.
fn way_back(
    stored: &Stored,
    actor: &Actor,
    answer: &HistoryEntry,
    before: &Fields,
) -> TransitionRequest {
    let lifecycle = &stored.lifecycle;
    let role = lifecycle.find_role(&actor.role).unwrap_or(RoleId::HUMAN);
    let is_field =
        |name: &&String| lifecycle.fields.contains_key(*name) && may_give(lifecycle, name, role);
    let was = |name: &String| (name.clone(), before.get(name).cloned().unwrap_or(Value::Null));
    TransitionRequest {
        actor: actor.clone(),
        to: answer.record.from.clone(),
        trigger: None,
        fields: answer.record.fields.keys().filter(is_field).map(was).collect(),
        epoch: None,
        version: Some(stored.task.version),
    }
}
