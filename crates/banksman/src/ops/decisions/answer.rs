//! Gives an answer: finds it among the offers of the decision, pins it to the version that the
//! person saw, and applies it once.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{AnswerName, Note};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::lifecycle::{Lifecycle, RankedOffer};
use banksman_core::machine::{self, Actor, Event, RejectReason, Rejected, TransitionRequest};
use banksman_core::time::{Instant, Span};

use super::refused::{may_answer, record_refusal};
use super::{DecisionError, DecisionRef, InboxItem, Offer, find, inbox, offer};
use crate::ops::tasks::{coerced, key};
use crate::ops::{OpsError, Session};
use crate::store::answers::{GivenAnswer, PendingAnswer, permission_key};
use crate::store::notices::NewNotice;
use crate::store::query::Decision;
use crate::store::{Applied, HistoryEntry, IdempotencyKey, Store, StoreError, Stored};

/// Other words for an action, for decisions that do not offer the person's own word.
const SYNONYMS: [(AnswerName, &[&str]); 3] = [
    (AnswerName::Approve, &["pass", "yes"]),
    (AnswerName::Changes, &["fail", "veto", "no"]),
    (AnswerName::Cancel, &["abort", "decline"]),
];
/// Records that are shown of what has happened meanwhile.
const TOLD: usize = 3;

#[derive(Debug, Clone)]
pub struct AnswerRequest {
    pub which: DecisionRef,
    /// An action of the decision, its trigger, or a synonym.
    pub word: String,
    pub note: Option<String>,
    pub fields: Fields,
    /// The version of the task that the person saw; by default, the one that opened the decision.
    pub seen: Option<i64>,
    pub key: Option<String>,
    /// How long it can be taken back before it takes effect.
    pub grace: Span,
}

/// The result of an answer.
#[derive(Debug, Clone)]
pub struct AnswerResult {
    pub decision: Decision,
    pub action: String,
    pub applied: Applied,
    /// None if it is in effect.
    pub takes_effect: Option<Instant>,
}

/// Gives an answer, or refuses it and changes nothing. A refusal because of the caller, or of the
/// version that they saw, is recorded.
pub fn answer(
    session: &Session,
    given: &AnswerRequest,
    now: Instant,
) -> Result<AnswerResult, OpsError> {
    answer_telling(session, given, None, now)
}

/// Makes the notice about an answer, from the action that the answer means.
pub(in crate::ops) type TellAnswer<'t> = dyn Fn(&str) -> NewNotice + 't;

/// The same with a notice about the answer, in the same transaction.
pub(in crate::ops) fn answer_telling(
    session: &Session,
    given: &AnswerRequest,
    tell: Option<&TellAnswer<'_>>,
    now: Instant,
) -> Result<AnswerResult, OpsError> {
    let store = may_answer(session, Some(given.which), now)?;
    let (actor, now) = (&session.actor(), store.now(now)?);
    let decision = find(store, given.which)?;
    let answered = give(store, actor, given, decision.clone(), tell, now);
    if let Err(OpsError::Decision(error)) = &answered {
        record_refusal(store, actor, &decision, given.seen, error, now)?;
    }
    answered
}

fn give(
    store: &Store,
    actor: &Actor,
    given: &AnswerRequest,
    decision: Decision,
    tell: Option<&TellAnswer<'_>>,
    now: Instant,
) -> Result<AnswerResult, OpsError> {
    if let Some(pending) = &decision.answer {
        return answered_before(store, given, (&decision, pending), actor);
    }
    // A settled decision has no offers.
    let (action, trigger) = match offered(&decision, &given.word) {
        Ok(meant) => meant,
        Err(_) if decision.settled.is_some() => {
            return Err(stale(store, &decision, decision.seq)?.into());
        }
        Err(error) => return Err(error.into()),
    };
    let mut stored = store.task(decision.task)?;
    let seen = given.seen.unwrap_or(decision.seq);
    // The permission is recorded before the work continues with it.
    let is_current =
        |stored: &Stored| Ok::<_, OpsError>(pin(store, stored, seen)? == stored.task.version);
    let waits = given.grace > Span(0) && decision.settled.is_none();
    let allows = action == AnswerName::Allow.name() && decision.settled.is_none();
    if allows && !waits && is_current(&stored)? {
        record_permission(store, &decision, actor, now)?;
        stored = store.task(decision.task)?;
    }
    let mut fields = coerced(&stored.lifecycle, &given.fields);
    let mut version = decision.seq;
    // An answer to a settled decision is applied all the same: the same key gets its first result
    // again, and all others are refused, because the version that opened the decision is gone.
    let offer = (decision.settled.is_none()).then(|| {
        let ranked = RankedOffer::of(&stored.lifecycle, stored.task.state, action, trigger);
        offer(&stored, actor, ranked, now)
    });
    if let Some(offer) = &offer {
        version = pin(store, &stored, seen)?;
        fields.extend(said(&stored.lifecycle, offer, given.note.as_deref())?);
    }
    let key = key_of(given, &decision, trigger, actor)?;
    let ask = TransitionRequest {
        actor: actor.clone(),
        to: None,
        trigger: Some(trigger.to_owned()),
        fields,
        epoch: None,
        version: Some(version),
    };
    if waits {
        let event = Event::Asked(ask.clone());
        let tried = machine::step(&stored.lifecycle, &stored.task, &event, now);
        if let Err(rejected) = tried {
            return Err(refusal(store, &decision, seen, offer.as_ref(), rejected)?);
        }
        let answer = GivenAnswer {
            by: actor.to_string(),
            action: action.to_owned(),
            trigger: trigger.to_owned(),
            note: given.note.clone(),
            fields: ask.fields,
            version,
            given_at: now.0,
            key: key.map(|key| (key.text, key.request)),
        };
        return wait(store, decision, answer, given.grace, now);
    }
    let (action, notice) = (action.to_owned(), tell.map(|tell| tell(action)));
    match store.apply_telling(decision.task, Event::Asked(ask), key, now, move |_| notice.clone()) {
        Ok(applied) => Ok(AnswerResult { action, applied, decision, takes_effect: None }),
        Err(StoreError::Rejected(rejected)) => {
            Err(refusal(store, &decision, seen, offer.as_ref(), rejected)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Records the answer until its grace period is over. The deadline does not overtake it.
fn wait(
    store: &Store,
    decision: Decision,
    given: GivenAnswer,
    grace: Span,
    now: Instant,
) -> Result<AnswerResult, OpsError> {
    let before_deadline = decision.deadline.map(|deadline| Instant(deadline.0 - 1).max(now));
    let due = now.plus(grace).min(before_deadline.unwrap_or(Instant(i64::MAX)));
    let (action, key) = (given.action.clone(), given.key.clone());
    match store.give_answer(&decision, PendingAnswer { given, due }, now)? {
        Some(applied) => Ok(AnswerResult { action, applied, decision, takes_effect: Some(due) }),
        None => match store.decision(decision.id)?.and_then(|decision| decision.answer) {
            Some(first) if first.given.key.is_some() && first.given.key == key => {
                Ok(as_before(store, decision, &first)?)
            }
            Some(first) => Err(already(&decision, &first).into()),
            None => Err(stale(store, &decision, decision.seq)?.into()),
        },
    }
}

/// The same request again has the same answer; any other one is refused.
fn answered_before(
    store: &Store,
    given: &AnswerRequest,
    (decision, pending): (&Decision, &PendingAnswer),
    actor: &Actor,
) -> Result<AnswerResult, OpsError> {
    let key = key_of(given, decision, &pending.given.trigger, actor)?;
    if !pending.given.has_key(key.as_ref()) {
        return Err(already(decision, pending).into());
    }
    Ok(as_before(store, decision.clone(), pending)?)
}

fn as_before(
    store: &Store,
    decision: Decision,
    pending: &PendingAnswer,
) -> Result<AnswerResult, StoreError> {
    let stored = store.task(decision.task)?;
    Ok(AnswerResult {
        action: pending.given.action.clone(),
        applied: Applied { stored, entry: None, replayed: true },
        decision,
        takes_effect: Some(pending.due),
    })
}

fn already(decision: &Decision, PendingAnswer { given, due }: &PendingAnswer) -> DecisionError {
    let (by, action) = (given.by.clone(), given.action.clone());
    DecisionError::Answered { id: decision.id, by, action, due: *due }
}

fn key_of(
    given: &AnswerRequest,
    decision: &Decision,
    trigger: &str,
    actor: &Actor,
) -> Result<Option<IdempotencyKey>, OpsError> {
    let by = actor.to_string();
    let asked = ("answer", decision.id.0, trigger, &given.note, &given.fields, given.seen, by);
    key(given.key.as_deref(), &asked)
}

fn offered<'d>(decision: &'d Decision, word: &str) -> Result<(&'d str, &'d str), DecisionError> {
    let by_action = decision.offers.iter().find(|(action, _)| action == word);
    let by_trigger = || decision.offers.iter().find(|(_, trigger)| trigger == word);
    let by_synonym = || {
        let mut same = synonyms(word)
            .iter()
            .filter_map(|other| decision.offers.iter().find(|(action, _)| action == other));
        // An ambiguous word matches nothing.
        same.next().filter(|_| same.next().is_none())
    };
    let found = by_action.or_else(by_trigger).or_else(by_synonym);
    found.map(|(action, trigger)| (action.as_str(), trigger.as_str())).ok_or_else(|| {
        DecisionError::NotOffered {
            id: decision.id,
            word: word.chars().take(64).collect(),
            offers: decision.offers.iter().map(|(action, _)| action.clone()).collect(),
        }
    })
}

/// Records a permission once for each decision, however often it is granted.
pub(in crate::ops) fn record_permission(
    store: &Store,
    decision: &Decision,
    actor: &Actor,
    now: Instant,
) -> Result<(), StoreError> {
    store.note(decision.task, actor, Note::Allow, &permission_key(decision.id), now).map(drop)
}

/// Actions with the same meaning as a word.
fn synonyms(word: &str) -> &'static [&'static str] {
    SYNONYMS.iter().find(|(known, _)| known.name() == word).map_or(&[], |(_, same)| same)
}

/// The version that the answer applies to: the one that the person saw, or a later one without a
/// relevant change. A refused stale write is recorded, but changes nothing that the person decides
/// on.
fn pin(store: &Store, stored: &Stored, seen: i64) -> Result<i64, OpsError> {
    let task = &stored.task;
    let changed =
        seen > task.version || store.history(task.id, seen)?.iter().any(changes_something);
    Ok(if changed { seen } else { task.version })
}

pub(super) fn changes_something(entry: &HistoryEntry) -> bool {
    entry.record.changes_task()
}

/// The words in their field.
fn said(
    lifecycle: &Lifecycle,
    offer: &Offer,
    note: Option<&str>,
) -> Result<BTreeMap<String, Value>, DecisionError> {
    let Some(note) = note else { return Ok(BTreeMap::new()) };
    let Some(field) = &offer.words else {
        return Err(DecisionError::NoPlaceForWords {
            lifecycle: lifecycle.id.clone(),
            action: offer.action.clone(),
        });
    };
    Ok(BTreeMap::from([(field.clone(), note.into())]))
}

/// The refusal in the words of the inbox; a reason that only the lifecycle can explain stays as it
/// is.
fn refusal(
    store: &Store,
    decision: &Decision,
    seen: i64,
    offer: Option<&Offer>,
    rejected: Rejected,
) -> Result<OpsError, OpsError> {
    match rejected.why {
        RejectReason::StaleVersion | RejectReason::StaleLease => {
            Ok(stale(store, decision, seen)?.into())
        }
        RejectReason::Invalid | RejectReason::Forbidden => {
            let missing = |offer: &&Offer| {
                let is_missing = |error: &_| offer.missing.contains(error);
                offer.needs_words() && rejected.errors.iter().all(is_missing)
            };
            Ok(match (offer.filter(missing), rejected.errors.first()) {
                (Some(offer), Some(error)) => DecisionError::NeedsWords {
                    id: decision.id,
                    action: offer.action.clone(),
                    message: error.message.clone(),
                }
                .into(),
                (_, _) => StoreError::Rejected(rejected).into(),
            })
        }
    }
}

/// What has happened since the person looked, and by whom.
pub(super) fn stale(
    store: &Store,
    decision: &Decision,
    seen: i64,
) -> Result<DecisionError, OpsError> {
    let (id, task) = (decision.id, decision.task);
    let settled = store.decision(id)?.and_then(|decision| decision.settled);
    let since = since(store, task, seen)?;
    Ok(match settled {
        Some(_) => DecisionError::Settled { id, task, since },
        None => DecisionError::MovedOn { id, task, seen, since },
    })
}

/// The first moves after a version, each in one line.
pub(super) fn since(store: &Store, task: TaskId, seen: i64) -> Result<Vec<String>, OpsError> {
    let history = store.history(task, seen)?;
    let moves: Vec<&HistoryEntry> =
        history.iter().filter(|entry| changes_something(entry)).collect();
    let told = |entry: &&HistoryEntry| {
        let record = &entry.record;
        format!("{} by {} ({}) at {}", record.to, record.actor, record.trigger, entry.ts)
    };
    let mut lines: Vec<String> = moves.iter().take(TOLD).map(told).collect();
    if moves.len() > TOLD {
        lines.push(format!("and {} more", moves.len() - TOLD));
    }
    if lines.is_empty() {
        lines.push(format!("its version is {}", store.task(task)?.task.version));
    }
    Ok(lines)
}

/// The open decisions that offer an action, matched as an answer would be; `escalated` says which
/// of them, if not all.
pub fn offering(
    session: &Session,
    project: Option<&str>,
    word: &str,
    escalated: Option<bool>,
    now: Instant,
) -> Result<Vec<DecisionRef>, OpsError> {
    let now = session.now(now)?;
    let offers = |item: &InboxItem| {
        let mut actions = item.possible().map(|offer| offer.action.as_str());
        actions.any(|action| action == word || synonyms(word).contains(&action))
    };
    let is_wanted = |item: &InboxItem| escalated.is_none_or(|wanted| item.escalated == wanted);
    let mut items = inbox(session, project, now)?;
    let is_open = |item: &InboxItem| !item.is_snoozed(now) && item.decision.answer.is_none();
    items.retain(|item| is_open(item) && offers(item) && is_wanted(item));
    Ok(items.iter().map(|item| DecisionRef::Decision(item.decision.id)).collect())
}

/// Answers one decision after the other. A refused answer does not stop the others.
pub fn answer_each<'a>(
    session: &'a Session,
    requests: &'a mut [AnswerRequest],
    now: Instant,
) -> impl Iterator<Item = (DecisionRef, Result<AnswerResult, OpsError>)> {
    requests.iter_mut().map(move |request| {
        let which = request.which;
        // An idempotency key covers one request, and each answer is one.
        request.key = request.key.as_ref().map(|key| format!("{key}/{which}"));
        (which, answer(session, request, now))
    })
}
