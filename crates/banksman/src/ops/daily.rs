//! The daily note: answers that people wrote into it are given, and its sections are made anew.
//! Text in, text out; the file is somebody else's matter.
//!
//! Reading the same text twice answers once: each answer has a key that is made of what was
//! written. What cannot be carried out is told beside its entry and changes nothing.

mod gather;

use std::collections::{BTreeMap, BTreeSet};

use banksman_core::daily::{self, EntryOutcome, NoteAnswer, NoteEntry};
use banksman_core::ids::DecisionId;
use banksman_core::machine::Actor;
use banksman_core::time::Instant;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Map;
use sha2::{Digest, Sha256};

use super::OpsError;
use super::decisions::{self, AnswerRequest, DecisionError, DecisionRef};
use crate::store::{Store, StoreError};

/// A day where the reader is.
#[derive(Debug, Clone)]
pub struct LocalDay {
    pub date: Date,
    zone: TimeZone,
    from: Instant,
    until: Instant,
}

impl LocalDay {
    /// None for a date that the calendar cannot place.
    #[must_use]
    pub fn new(date: Date, zone: &TimeZone) -> Option<Self> {
        let begin = |date: Date| {
            let zoned = date.to_zoned(zone.clone());
            zoned.map(|zoned| Instant(zoned.timestamp().as_millisecond()))
        };
        let (from, until) = (begin(date).ok()?, begin(date.tomorrow().ok()?).ok()?);
        Some(Self { date, zone: zone.clone(), from, until })
    }

    #[must_use]
    pub fn at(now: Instant, zone: &TimeZone) -> Option<Self> {
        let now = jiff::Timestamp::from_millisecond(now.0).ok()?;
        Self::new(now.to_zoned(zone.clone()).date(), zone)
    }

    #[must_use]
    pub fn yesterday(&self) -> Option<Self> {
        Self::new(self.date.yesterday().ok()?, &self.zone)
    }

    /// The name of its note.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.md", self.date)
    }

    fn time_of(&self, instant: Instant) -> String {
        let timestamp = jiff::Timestamp::from_millisecond(instant.0);
        let zoned = timestamp.map(|timestamp| timestamp.to_zoned(self.zone.clone()));
        zoned.map(|zoned| zoned.strftime("%H:%M").to_string()).unwrap_or_default()
    }
}

/// A note after a look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshedNote {
    pub text: String,
    /// What became of the answers in it that were not dealt with before.
    pub reports: BTreeMap<DecisionId, EntryOutcome>,
    pub pending: usize,
    pub completed: usize,
    pub alerts: usize,
}

/// Gives the answers that stand in a note, and makes its sections anew. After a crash in between,
/// or when the new text could not be put into the file, the same is done again and gives nothing
/// twice.
pub fn refresh(
    store: &Store,
    owner: &Actor,
    day: &LocalDay,
    text: &str,
    now: Instant,
) -> Result<RefreshedNote, OpsError> {
    let reports = answers(store, owner, text, now)?;
    made(store, owner, day, (text, reports), now)
}

/// The note as it would be, without an answer being given.
pub fn preview(
    store: &Store,
    owner: &Actor,
    day: &LocalDay,
    text: &str,
    now: Instant,
) -> Result<RefreshedNote, OpsError> {
    made(store, owner, day, (text, BTreeMap::new()), now)
}

/// Whether there is an answer in a note that was not dealt with.
#[must_use]
pub fn has_answers(text: &str) -> bool {
    daily::parse(text).entries.iter().any(is_to_be_looked_at)
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
    let edited = daily::parse(text).entries.into_iter().filter(|entry| entry.is_edited);
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
    store: &Store,
    owner: &Actor,
    text: &str,
    now: Instant,
) -> Result<BTreeMap<DecisionId, EntryOutcome>, OpsError> {
    let mut reports = BTreeMap::new();
    for entry in daily::parse(text).entries.iter().filter(|entry| is_to_be_looked_at(entry)) {
        let report = match &entry.answer {
            NoteAnswer::Nothing => continue,
            NoteAnswer::Unclear(why) => EntryOutcome::Refused(why.clone()),
            NoteAnswer::Answer { word, note } => {
                match answer(store, owner, (entry, word, note.as_ref()), now) {
                    Ok(done) => EntryOutcome::Answered(done),
                    Err(error) => EntryOutcome::Refused(told(error)?),
                }
            }
        };
        reports.insert(entry.id, report);
    }
    Ok(reports)
}

fn answer(
    store: &Store,
    owner: &Actor,
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
        fields: Map::new(),
        seen: Some(entry.version),
        key: Some(key(entry, word, note)),
    };
    let answered = decisions::answer(store, owner, &given, now)?;
    Ok(format!("{} by {owner}", answered.action))
}

/// The same words for the same question are the same answer, however often and from whichever copy
/// they are read.
fn key(entry: &NoteEntry, word: &str, note: Option<&String>) -> String {
    let said = serde_json::json!([word.to_lowercase(), note]);
    let digest = Sha256::digest(said.to_string().as_bytes());
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("note-{}-v{}-{short}", entry.id, entry.version)
}

/// A refusal in words. What is a fault of ours or of the store is not the note's business.
fn told(error: OpsError) -> Result<String, OpsError> {
    match &error {
        OpsError::Decision(DecisionError::MovedOn { .. }) => Ok(format!(
            "{error}. Take the answer out of this entry, look again, and then give it anew"
        )),
        OpsError::Decision(_)
        | OpsError::Input { .. }
        | OpsError::Store(
            StoreError::Rejected(_)
            | StoreError::KeyTaken { .. }
            | StoreError::NoTask(_)
            | StoreError::Corrupt { .. },
        ) => Ok(error.to_string()),
        OpsError::Store(
            StoreError::Db(_)
            | StoreError::Bug { .. }
            | StoreError::Definition { .. }
            | StoreError::NoDefinition(_)
            | StoreError::ProjectTaken(..),
        )
        | OpsError::Library(_)
        | OpsError::Workflow(_)
        | OpsError::Id(_)
        | OpsError::Line { .. } => Err(error),
    }
}
