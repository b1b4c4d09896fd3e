//! The daily note: applies the answers that people wrote into it and updates its sections. It works
//! on text; `note` reads and writes the file.
//!
//! Reading the same text twice answers once: the key of an answer is derived from what was written.
//! A refused answer is explained in its entry and changes nothing. The notice about an answer is
//! committed with it.

mod gather;
pub mod note;

use std::collections::{BTreeMap, BTreeSet};

use banksman_core::daily::{self, EntryOutcome, NoteAnswer, NoteEntry};
use banksman_core::ids::DecisionId;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::decisions::{self, AnswerRequest, DecisionError, DecisionRef};
use super::principal::Operation;
use super::{OpsError, Session, request_text};
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{Store, StoreError, hex};

/// How long the same message about a note is not repeated.
const SAME_NOTE: Span = Span(24 * 60 * 60_000);

/// A day in the reader's time zone.
#[derive(Debug, Clone)]
pub struct LocalDay {
    pub date: Date,
    zone: TimeZone,
    from: Instant,
    until: Instant,
}

impl LocalDay {
    /// None for a date that the calendar cannot place.
    pub fn new(date: Date, zone: &TimeZone) -> Option<Self> {
        let begin = |date: Date| {
            let zoned = date.to_zoned(zone.clone());
            zoned.map(|zoned| Instant(zoned.timestamp().as_millisecond()))
        };
        let (from, until) = (begin(date).ok()?, begin(date.tomorrow().ok()?).ok()?);
        Some(Self { date, zone: zone.clone(), from, until })
    }

    pub fn at(now: Instant, zone: &TimeZone) -> Option<Self> {
        let now = jiff::Timestamp::from_millisecond(now.0).ok()?;
        Self::new(now.to_zoned(zone.clone()).date(), zone)
    }

    pub fn yesterday(&self) -> Option<Self> {
        Self::new(self.date.yesterday().ok()?, &self.zone)
    }

    /// The name of its note.
    pub fn file_name(&self) -> String {
        format!("{}.md", self.date)
    }

    fn time_of(&self, instant: Instant) -> String {
        let timestamp = jiff::Timestamp::from_millisecond(instant.0);
        let zoned = timestamp.map(|timestamp| timestamp.to_zoned(self.zone.clone()));
        zoned.map(|zoned| zoned.strftime("%H:%M").to_string()).unwrap_or_default()
    }
}

/// A note after it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshedNote {
    pub text: String,
    /// The results of the answers in it that were not processed before.
    pub reports: BTreeMap<DecisionId, EntryOutcome>,
    pub pending: usize,
    pub completed: usize,
    pub alerts: usize,
}

/// Applies the answers in a note and updates its sections. After a crash in between, or if the new
/// text could not be written to the file, the same is done again and answers nothing twice.
pub fn refresh(
    session: &Session,
    day: &LocalDay,
    text: &str,
    now: Instant,
) -> Result<RefreshedNote, OpsError> {
    let store = session.may(Operation::AnswerDecision)?;
    let reports = answers(session, store, text, now)?;
    made(store, &session.actor(), day, (text, reports), now)
}

/// Whether the note has an answer that was not processed.
pub fn has_answers(text: &str) -> bool {
    daily::parse(text).iter().any(is_to_be_looked_at)
}

fn is_to_be_looked_at(entry: &NoteEntry) -> bool {
    entry.answer != NoteAnswer::Nothing && !entry.is_processed
}

fn made(
    store: &Store,
    owner: &Actor,
    day: &LocalDay,
    (text, reports): (&str, BTreeMap<DecisionId, EntryOutcome>),
    now: Instant,
) -> Result<RefreshedNote, OpsError> {
    let now = store.now(now)?;
    let edited = daily::parse(text).into_iter().filter(|entry| entry.is_edited);
    let edited: BTreeSet<DecisionId> = edited.map(|entry| entry.id).collect();
    let page = gather::page(store, owner, day, &edited, now)?;
    Ok(RefreshedNote {
        text: daily::merge(text, &day.date.to_string(), &page, &reports),
        reports,
        pending: page.pending.len() + page.left_out,
        completed: page.completed.len(),
        alerts: page.alerts.len(),
    })
}

fn answers(
    session: &Session,
    store: &Store,
    text: &str,
    now: Instant,
) -> Result<BTreeMap<DecisionId, EntryOutcome>, OpsError> {
    let mut reports = BTreeMap::new();
    for entry in daily::parse(text).iter().filter(|entry| is_to_be_looked_at(entry)) {
        let report = match &entry.answer {
            NoteAnswer::Nothing => continue,
            NoteAnswer::Unclear(why) => EntryOutcome::Refused(why.clone()),
            NoteAnswer::Answer { word, note } => {
                match answer(session, store, (entry, word, note.as_ref()), now) {
                    Ok(done) => EntryOutcome::Answered(done),
                    Err(error) => EntryOutcome::Refused(told(error)?),
                }
            }
        };
        if let EntryOutcome::Refused(_) = report {
            let text = note::line(entry.id, &report);
            let now = store.now(now)?;
            store.notice(NewNotice { urgent: true, ..notice(text, now) }, now)?;
        }
        reports.insert(entry.id, report);
    }
    Ok(reports)
}

fn answer(
    session: &Session,
    store: &Store,
    (entry, word, note): (&NoteEntry, &str, Option<&String>),
    now: Instant,
) -> Result<String, OpsError> {
    let decision = decisions::find(store, DecisionRef::Decision(entry.id))?;
    let offered = decision.offers.iter().map(|(action, _)| action);
    let meant = offered.into_iter().find(|action| daily::is_same(action, word));
    let given = AnswerRequest {
        which: DecisionRef::Decision(entry.id),
        word: meant.cloned().unwrap_or_else(|| word.to_lowercase()),
        note: note.cloned(),
        fields: Fields::new(),
        seen: Some(entry.version),
        key: Some(key(entry, word, note)),
        // The note has been left alone for its own time by now.
        grace: Span(0),
    };
    let (actor, at) = (session.actor(), store.now(now)?);
    let done = |action: &str| format!("{action} by {actor}");
    let told =
        |action: &str| notice(note::line(entry.id, &EntryOutcome::Answered(done(action))), at);
    let answered = decisions::answer_telling(session, &given, Some(&told), now)?;
    Ok(done(&answered.action))
}

/// A message about the note. The same message is sent once a day.
fn notice(text: String, now: Instant) -> NewNotice {
    NewNotice::new(NoticeKind::DailyNote, None, text).once_per(SAME_NOTE, "daily-note", now)
}

/// The same words for the same decision are the same answer, however often and from whichever copy
/// they are read.
fn key(entry: &NoteEntry, word: &str, note: Option<&String>) -> String {
    let digest = Sha256::digest(request_text(&(word.to_lowercase(), note)).as_bytes());
    format!("note-{}-v{}-{}", entry.id, entry.version, hex(&digest[..8]))
}

/// A refusal in words. Faults of the program or of the store do not belong in the note.
fn told(error: OpsError) -> Result<String, OpsError> {
    let is_refusal = matches!(
        error,
        OpsError::Decision(_)
            | OpsError::Input { .. }
            | OpsError::Store(
                StoreError::Rejected(_)
                    | StoreError::KeyTaken { .. }
                    | StoreError::NoTask(_)
                    | StoreError::Corrupt { .. }
            )
    );
    if let OpsError::Decision(DecisionError::MovedOn { .. }) = error {
        return Ok(format!(
            "{error}. Take the answer out of this entry, look again, and then give it anew"
        ));
    }
    if is_refusal { Ok(error.to_string()) } else { Err(error) }
}
