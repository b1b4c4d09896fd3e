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

use super::{LocalDay, RefreshedNote, has_answers, made, refresh};
use crate::config::Config;
use crate::exec::note;
use crate::ops::principal::Operation;
use crate::ops::{OpsError, Session, decisions, projects};

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

/// The result of each answer on one line, and whether it needs attention.
#[must_use]
pub fn lines(reports: &BTreeMap<DecisionId, EntryOutcome>) -> Vec<(bool, String)> {
    let line = |(id, report): (&DecisionId, &EntryOutcome)| match report {
        EntryOutcome::Answered(what) => (false, format!("{id} in the daily note: {what}")),
        EntryOutcome::Refused(why) => (true, format!("{id} in the daily note was rejected: {why}")),
    };
    reports.iter().map(line).collect()
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

/// The result of one update of the note.
#[derive(Debug, Default)]
pub struct NoteUpdate {
    /// Messages for people, and whether each is urgent.
    pub notices: Vec<(bool, String)>,
    /// The note must be read again after at most this time.
    pub retry_after: Option<Span>,
}

impl NoteUpdate {
    /// A note that was not rewritten has nothing new to report.
    fn report(&mut self, refreshed: &RefreshedNote, written: bool) {
        if written {
            self.notices.extend(lines(&refreshed.reports));
        }
    }
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
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies answers and updates the note. A faulty note is reported and stops nothing else.
    #[must_use]
    pub fn update(&self, now: Instant) -> NoteUpdate {
        let mut update = NoteUpdate::default();
        if let Err(error) = self.sync_notes(now, &mut update) {
            update.notices.push((true, format!("daily note: {error}")));
        }
        update
    }

    fn sync_notes(&self, now: Instant, update: &mut NoteUpdate) -> Result<(), OpsError> {
        let session = &self.session;
        let today = LocalDay::at(now, &TimeZone::system());
        let today = today.ok_or_else(|| OpsError::input("invalid date", "check the clock"))?;
        let folder = open_folder(&self.folder, session)?;
        if let Some(yesterday) = today.yesterday() {
            // Around midnight people may still edit yesterday's note.
            let path = folder.join(yesterday.file_name());
            let is_answered = note::read(&path)?.is_some_and(|seen| has_answers(&seen.text));
            if is_answered && self.is_settled(&path, now, update)? {
                let (refreshed, written) = sync_as_owner(&path, session, &yesterday, now)?;
                update.report(&refreshed, written);
            }
        }
        let path = folder.join(today.file_name());
        if !self.is_settled(&path, now, update)? {
            return Ok(());
        }
        let (refreshed, written) = sync_as_owner(&path, session, &today, now)?;
        update.report(&refreshed, written);
        *self.last.borrow_mut() = Some(LastWrite { path, text: refreshed.text, at: now });
        Ok(())
    }

    /// Whether nobody is editing the note, and, if Banksman wrote it last, whether that was long
    /// enough ago.
    fn is_settled(
        &self,
        path: &Path,
        now: Instant,
        update: &mut NoteUpdate,
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
        update.retry_after =
            Some(update.retry_after.map_or(left, |retry_after| retry_after.min(left)));
        Ok(false)
    }
}
