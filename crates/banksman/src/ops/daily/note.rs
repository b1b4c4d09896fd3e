//! The file of the daily note: reads it, applies its answers and writes it, for the command and for
//! every turn of `up` and `pulse`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use banksman_core::daily::EntryOutcome;
use banksman_core::ids::DecisionId;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};
use jiff::tz::TimeZone;

use super::{LocalDay, RefreshedNote, has_answers, made, notice, refresh};
use crate::config::Config;
use crate::exec::note;
use crate::ops::principal::Operation;
use crate::ops::{OpsError, Session, decisions, projects};
use crate::store::notices::NewNotice;

/// How often the note is read again because somebody saved it meanwhile.
const ATTEMPTS: usize = 5;
/// The shortest time between two updates of the note by `up`.
const MIN_INTERVAL: Span = Span(2_000);

/// Creates the folder of the notes if needed; refuses one in which agents work.
pub fn open_folder(folder: &Path, session: &Session) -> Result<PathBuf, OpsError> {
    let projects = projects::folders(session)?.into_iter().map(|(_, path)| PathBuf::from(path));
    Ok(note::open_folder(folder, &projects.collect::<Vec<_>>())?)
}

/// Applies the answers of the note's owner and writes the note unless it is up to date. Returns
/// whether it wrote the note. Only a person may have this done.
pub fn sync(
    path: &Path,
    session: &Session,
    owner: &Actor,
    day: &LocalDay,
    now: Instant,
) -> Result<(RefreshedNote, bool), OpsError> {
    decisions::require_person(session, now)?;
    sync_as_owner(path, &session.on_behalf_of(owner)?, day, now)
}

fn sync_as_owner(
    path: &Path,
    session: &Session,
    day: &LocalDay,
    now: Instant,
) -> Result<(RefreshedNote, bool), OpsError> {
    let mut reports: BTreeMap<DecisionId, EntryOutcome> = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        let seen = note::read(path)?.map(|seen| seen.text);
        let text = seen.as_deref().unwrap_or_default();
        let mut refreshed = refresh(session, day, text, now)?;
        reports.append(&mut refreshed.reports);
        let is_same = seen.as_ref() == Some(&refreshed.text);
        if is_same || note::replace(path, seen.as_deref(), &refreshed.text)? {
            refreshed.reports = reports;
            return Ok((refreshed, !is_same));
        }
    }
    Err(OpsError::input(
        format!("`{}` keeps changing while it is updated", path.display()),
        "its answers were applied; try again when no editor is saving it",
    ))
}

/// The note as it would be written, without an answer being given.
pub fn preview(
    path: &Path,
    session: &Session,
    owner: &Actor,
    day: &LocalDay,
    now: Instant,
) -> Result<RefreshedNote, OpsError> {
    let text = note::read(path)?.map(|seen| seen.text).unwrap_or_default();
    made(session.may(Operation::ReadStore)?, owner, day, (&text, BTreeMap::new()), now)
}

/// The result of an answer on one line.
pub fn line(id: DecisionId, outcome: &EntryOutcome) -> String {
    match outcome {
        EntryOutcome::Answered(what) => format!("{id} in the daily note: {what}"),
        EntryOutcome::Refused(why) => format!("{id} in the daily note was rejected: {why}"),
    }
}

/// The daily note as `up` and `pulse` maintain it.
pub struct DailyNote {
    folder: PathBuf,
    /// Of the owner.
    session: Session,
    settle: Span,
    min_interval: Span,
    last: RefCell<Option<LastWrite>>,
}

/// The note as Banksman last wrote it.
#[derive(Debug)]
struct LastWrite {
    path: PathBuf,
    text: String,
    at: Instant,
}

impl DailyNote {
    /// None unless the settings ask for an automatic note. Only a person may have it kept, because
    /// its answers are those of its owner.
    pub fn of(config: &Config, caller: &Session) -> Result<Option<Self>, OpsError> {
        let Some(folder) = config.daily.folder.clone() else { return Ok(None) };
        Ok(Some(Self {
            folder,
            session: caller.on_behalf_of(&config.daily.owner)?,
            settle: config.daily.settle,
            min_interval: Span(0),
            last: RefCell::default(),
        }))
    }

    #[must_use]
    pub fn throttled(self) -> Self {
        Self { min_interval: MIN_INTERVAL, ..self }
    }

    /// The folder of the notes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies answers, updates the note, and returns after what time it must be read again. A
    /// faulty note is reported and stops nothing else.
    pub fn update(&self, now: Instant) -> Result<Option<Span>, OpsError> {
        let mut retry_after = None;
        if let Err(error) = self.sync_notes(now, &mut retry_after) {
            let store = self.session.may(Operation::AnswerDecision)?;
            let now = store.now(now)?;
            let notice = notice(format!("daily note: {error}"), now);
            store.notice(NewNotice { urgent: true, ..notice }, now)?;
        }
        Ok(retry_after)
    }

    fn sync_notes(&self, now: Instant, retry_after: &mut Option<Span>) -> Result<(), OpsError> {
        let session = &self.session;
        let today = LocalDay::at(now, &TimeZone::system());
        let today = today.ok_or_else(|| OpsError::input("invalid date", "check the clock"))?;
        let folder = open_folder(&self.folder, session)?;
        if let Some(yesterday) = today.yesterday() {
            // Around midnight people may still edit yesterday's note.
            let path = folder.join(yesterday.file_name());
            let is_answered = note::read(&path)?.is_some_and(|seen| has_answers(&seen.text));
            if is_answered && self.is_settled(&path, now, retry_after)? {
                sync_as_owner(&path, session, &yesterday, now)?;
            }
        }
        let path = folder.join(today.file_name());
        if !self.is_settled(&path, now, retry_after)? {
            return Ok(());
        }
        let (refreshed, _) = sync_as_owner(&path, session, &today, now)?;
        *self.last.borrow_mut() = Some(LastWrite { path, text: refreshed.text, at: now });
        Ok(())
    }

    /// Whether nobody is editing the note, and, if Banksman wrote it last, whether that was long
    /// enough ago.
    fn is_settled(
        &self,
        path: &Path,
        now: Instant,
        retry_after: &mut Option<Span>,
    ) -> Result<bool, OpsError> {
        let Some(seen) = note::read(path)? else { return Ok(true) };
        let last = self.last.borrow();
        let own = last.as_ref().filter(|last| last.path == path && last.text == seen.text);
        let (since, rest) = match own {
            Some(last) => (last.at, self.min_interval),
            None => (seen.modified, self.settle),
        };
        // A modification time in the future comes from another clock; treat it as old enough.
        let past = now.since(since);
        if past >= rest || since > now {
            return Ok(true);
        }
        let left = Span(rest.0 - past.0);
        *retry_after = Some(retry_after.map_or(left, |earlier| earlier.min(left)));
        Ok(false)
    }
}
