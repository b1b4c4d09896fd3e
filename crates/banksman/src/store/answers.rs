//! Answers that people have given and that are not in effect yet. Each is stored with its decision
//! and applied as an ordinary transition when its grace period is over, by whichever turn is first.
//! Until then it can be taken back; if the task moves on meanwhile, it lapses, on record.

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::contract::{AnswerName, Note};
use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine::{self, Actor, Event, HistoryNote, NotAnActor, TransitionRequest};
use banksman_core::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use super::apply::{Applied, IdempotencyKey, apply_to, replay};
use super::conn::{DbError, Row};
use super::notices::{NewNotice, NoticeKind, write_notice};
use super::query::{Decision, decision, records};
use super::row::json;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, Stored, sql};

/// After this time an answer of a damaged task is tried again.
const FAILED_AGAIN: Span = Span(3_600_000);

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// The person, as an actor.
    pub by: String,
    pub action: String,
    pub trigger: String,
    pub note: Option<String>,
    /// All fields that go with it, the note included.
    pub fields: Fields,
    /// The version of the task that it was decided on.
    pub version: i64,
    pub given_at: i64,
    /// The idempotency key and the hash of its request.
    pub key: Option<(String, Vec<u8>)>,
}

/// An answer whose grace period is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingAnswer {
    pub given: GivenAnswer,
    pub due: Instant,
}

impl PendingAnswer {
    pub fn in_words(&self) -> String {
        let GivenAnswer { by, action, .. } = &self.given;
        format!("answered by {by}: {action}, takes effect at {}", self.due)
    }
}

impl GivenAnswer {
    fn actor(&self, task: TaskId) -> Result<Actor> {
        let corrupt = |error: NotAnActor| StoreError::Corrupt { task, what: error.to_string() };
        self.by.parse().map_err(corrupt)
    }

    fn key(&self) -> Option<IdempotencyKey> {
        self.key.clone().map(|(text, request)| IdempotencyKey { text, request })
    }

    pub fn has_key(&self, key: Option<&IdempotencyKey>) -> bool {
        let own = self.key.as_ref().zip(key);
        own.is_some_and(|((text, request), key)| (text, request) == (&key.text, &key.request))
    }

    fn event(&self, task: TaskId) -> Result<Event> {
        Ok(Event::Asked(TransitionRequest {
            actor: self.actor(task)?,
            to: None,
            trigger: Some(self.trigger.clone()),
            fields: self.fields.clone(),
            epoch: None,
            version: None,
        }))
    }
}

impl Store {
    /// Records an answer that takes effect later, and keeps its key for it. None if the decision is
    /// closed or answered.
    pub fn give_answer(
        &self,
        of: &Decision,
        answer: PendingAnswer,
        now: Instant,
    ) -> Result<Option<Applied>> {
        let (id, task) = (of.id, of.task);
        self.write_keyed(move |tx| {
            let stored = tx.load_for_update(task)?;
            let PendingAnswer { given, due } = &answer;
            let key = given.key();
            if replay(tx, key.as_ref())?.is_some()
                || !tx.has(sql::GIVE_ANSWER, &params![id, json(given), *due])?
            {
                return Ok(None);
            }
            let (by, what) =
                (given.actor(task)?, format!("{}, takes effect at {due}", given.action));
            let applied = noted(tx, stored, (&by, Note::AnswerGiven, &what), now)?;
            if let Some(IdempotencyKey { text, request }) = key {
                let version = applied.stored.task.version;
                tx.write(sql::INSERT_KEY, &params![text, request, task, version, now])?;
            }
            Ok(Some(applied))
        })
    }

    /// Takes an answer back that is not in effect. None if there is none any more.
    pub fn take_answer_back(&self, of: &Decision, now: Instant) -> Result<Option<Applied>> {
        let Some(PendingAnswer { given, .. }) = of.answer.clone() else { return Ok(None) };
        let (id, task) = (of.id, of.task);
        self.write(move |tx| {
            let stored = tx.load_for_update(task)?;
            if !tx.has(sql::TAKE_ANSWER_BACK, &params![id, json(&given)])? {
                return Ok(None);
            }
            free_key(tx, &given)?;
            let by = given.actor(task)?;
            noted(tx, stored, (&by, Note::AnswerTakenBack, &given.action), now).map(Some)
        })
    }

    /// The answers that are not in effect yet, of open decisions, the next first.
    pub fn pending_answers(&self, at_most: i64) -> Result<Vec<Decision>> {
        self.rows(sql::PENDING_ANSWERS, &params![Instant(i64::MAX), at_most], decision)
    }

    /// Answers whose grace period is over, whether the rest of them can be read or not.
    pub fn due_answers(&self, now: Instant, at_most: i64) -> Result<Vec<(DecisionId, TaskId)>> {
        let due = |row: &Row| Ok::<_, DbError>((row.get(0)?, row.get(1)?));
        self.rows(sql::DUE_ANSWERS, &params![now, at_most], due)
    }

    /// Applies an answer whose grace period is over, or records why it lapsed.
    pub fn take_effect(&self, id: DecisionId, task: TaskId, now: Instant) -> Result<()> {
        self.write(move |tx| {
            let stored = tx.load_for_update(task)?;
            // Another turn may have been faster, or the person has taken it back and answered
            // anew, so the answer is read only now that the task is locked.
            let asked = tx.first(sql::DECISION, &params![id], decision)?;
            let due = asked.and_then(|asked| Some((asked.answer.clone()?, asked)));
            let Some((PendingAnswer { given, .. }, asked)) = due.filter(|(it, _)| it.due <= now)
            else {
                return Ok(());
            };
            tx.write(sql::ANSWER_IN_EFFECT, &params![id])?;
            free_key(tx, &given)?;
            match lapse(tx, &asked, &stored, &given, now)? {
                None => apply(tx, &asked, stored, &given, now),
                Some(why) => {
                    let what = format!("{} by {}: {why}", given.action, given.by);
                    let text = format!("{} lapsed: {what}", asked.id);
                    let system = (&Actor::system(), Note::AnswerLapsed, what.as_str());
                    noted(tx, stored, system, now)?;
                    let notice = NewNotice::alert(NoticeKind::Decision, Some(task), text);
                    write_notice(tx, &notice, now)
                }
            }
        })
    }

    /// Puts off an answer that cannot be applied, because it or its task is damaged.
    pub fn put_answer_off(&self, id: DecisionId, now: Instant) -> Result<()> {
        let later = now.plus(FAILED_AGAIN);
        self.write(move |tx| tx.write(sql::PUT_ANSWER_OFF, &params![id, later]))
    }
}

fn noted(
    tx: &mut Tx<'_>,
    stored: Stored,
    (actor, note, detail): (&Actor, Note, &str),
    now: Instant,
) -> Result<Applied> {
    let (actor, trigger) = (actor.clone(), note.to_string());
    let note = HistoryNote { actor, trigger, detail: Some(detail.to_owned()) };
    apply_to(tx, stored, &Event::Noted(note), None, now)
}

/// The key goes with the answer: to what it leads to, or back to the person.
fn free_key(tx: &mut Tx<'_>, given: &GivenAnswer) -> Result<()> {
    given.key().map_or(Ok(()), |key| tx.write(sql::FREE_KEY, &params![key.text, key.request]))
}

/// Why an answer cannot take effect any more.
fn lapse(
    tx: &mut Tx<'_>,
    asked: &Decision,
    stored: &Stored,
    given: &GivenAnswer,
    now: Instant,
) -> Result<Option<String>> {
    let since = records(tx, stored.task.id, given.version, i64::MAX)?;
    let changed = since.iter().find(|entry| entry.record.changes_task());
    if asked.settled.is_some() || changed.is_some() {
        let by =
            changed.map(|entry| format!(" ({} by {})", entry.record.trigger, entry.record.actor));
        return Ok(Some(format!("the task has changed meanwhile{}", by.unwrap_or_default())));
    }
    // Former releases did not keep the key of an answer for it.
    if let Some(key) = given.key()
        && tx.has(sql::KEY, &params![&key.text])?
    {
        return Ok(Some(StoreError::KeyTaken { key: key.text }.to_string()));
    }
    let event = given.event(stored.task.id)?;
    let tried = machine::step(&stored.lifecycle, &stored.task, &event, now);
    Ok(tried.err().map(|rejected| rejected.to_string()))
}

fn apply(
    tx: &mut Tx<'_>,
    asked: &Decision,
    mut stored: Stored,
    given: &GivenAnswer,
    now: Instant,
) -> Result<()> {
    if given.action == AnswerName::Allow.name() {
        // The permission is recorded before the work continues with it, once for each decision.
        let text = permission_key(asked.id);
        let key = IdempotencyKey::new(&text, &text);
        if replay(tx, Some(&key))?.is_none() {
            let (actor, trigger) = (given.actor(asked.task)?, Note::Allow.to_string());
            let note = Event::Noted(HistoryNote { actor, trigger, detail: None });
            stored = apply_to(tx, stored, &note, Some(&key), now)?.stored;
        }
    }
    match apply_to(tx, stored, &given.event(asked.task)?, given.key().as_ref(), now) {
        // A step that was tried just now is not refused; a fault of the store undoes all of it.
        Ok(_) => Ok(()),
        Err(StoreError::Rejected(rejected)) => Err(StoreError::Corrupt {
            task: asked.task,
            what: format!("its answer was refused: {rejected}"),
        }),
        Err(error) => Err(error),
    }
}

/// The key under which a permission is recorded.
pub fn permission_key(id: DecisionId) -> String {
    format!("{}-{id}", Note::Allow)
}
