//! `banksman daily`: writes the note of a day and applies the answers in it. `up` and `pulse` do
//! the same on every turn.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use banksman_core::daily::EntryOutcome;
use banksman_core::ids::DecisionId;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};
use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::sanitize;
use crate::config::Config;
use crate::exec::note;
use crate::ops::daily::{self, LocalDay, RefreshedNote};
use crate::ops::decisions::DecisionError;
use crate::store::Store;

/// The default folder, below `home`.
const FOLDER: &str = "daily";
/// How often the note is read again because somebody saved it meanwhile.
const ATTEMPTS: usize = 5;
/// The shortest time between two updates of the note by `up`.
const MIN_INTERVAL: Span = Span(2_000);

/// Write today's note and apply the answers in it
///
/// The note is a Markdown file that lists open decisions, work that is ready to merge, completed
/// tasks and alerts. To answer, tick a box or write an action after `Action`; text after `Note`
/// goes with the answer. Banksman keeps everything you write outside its sections. With the setting
/// `daily.folder`, `up` and `pulse` update the note themselves.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman daily                     write today's note and print its path
  banksman daily --print             print the note; write and answer nothing
  banksman daily --date 2026-11-14   write the note of another day
")]
pub(super) struct DailyArgs {
    /// The day, such as 2026-11-14 [default: today]
    #[arg(long, value_name = "DATE")]
    date: Option<Date>,
    /// Print the note instead of writing it; answers are not applied
    #[arg(long)]
    print: bool,
}

pub(super) fn run(context: &Context, args: &DailyArgs) -> Result<Exit, Failure> {
    if context.config.is_inside_run && !args.print {
        return Err(Failure::Ops(DecisionError::OfRun.into()));
    }
    let store = context.store()?;
    let day = day_of(context.now, args.date)?;
    let owner = &context.config.daily.owner;
    let folder = folder(&context.config)?;
    if args.print {
        let path = folder.join(day.file_name());
        let text = note::read(&path)?.map(|seen| seen.text).unwrap_or_default();
        let preview = daily::preview(&store, owner, &day, &text, context.now)?;
        context.out.answer(|| document(&day, &path, &preview, None), || preview.text.clone())?;
        return Ok(Exit::Done);
    }
    let path = open(&folder, &store)?.join(day.file_name());
    let (refreshed, written) = sync(&path, &store, owner, &day, context.now)?;
    context.out.answer(
        || document(&day, &path, &refreshed, Some(written)),
        || format!("{}\n", sanitize(&path.display().to_string())),
    )?;
    for (_, line) in lines(&refreshed.reports) {
        context.out.say(&line);
    }
    let is_refused = |report: &EntryOutcome| matches!(report, EntryOutcome::Refused(_));
    let any_refused = refreshed.reports.values().any(is_refused);
    Ok(if any_refused { Exit::Failed } else { Exit::Done })
}

fn day_of(now: Instant, date: Option<Date>) -> Result<LocalDay, Failure> {
    let zone = TimeZone::system();
    let wrong = |message: &str| Failure::Argument {
        message: message.to_owned(),
        hint: "write the date as 2026-11-14".to_owned(),
    };
    let today = LocalDay::at(now, &zone).ok_or_else(|| wrong("invalid date"))?;
    match date {
        None => Ok(today),
        Some(date) if date > today.date => Err(wrong("the date is in the future")),
        Some(date) => LocalDay::new(date, &zone).ok_or_else(|| wrong("invalid date")),
    }
}

fn folder(config: &Config) -> Result<PathBuf, Failure> {
    if let Some(folder) = &config.daily.folder {
        return Ok(folder.clone());
    }
    let home = &config.agents.home;
    if home.as_os_str().is_empty() { Err(Failure::NoHome) } else { Ok(home.join(FOLDER)) }
}

fn open(folder: &Path, store: &Store) -> Result<PathBuf, Failure> {
    let projects = store.projects()?.into_iter().map(|(_, path)| PathBuf::from(path));
    Ok(note::open_folder(folder, &projects.collect::<Vec<_>>())?)
}

/// Applies the answers and writes the note unless it is up to date. Returns whether it wrote the
/// note.
fn sync(
    path: &Path,
    store: &Store,
    owner: &Actor,
    day: &LocalDay,
    now: Instant,
) -> Result<(RefreshedNote, bool), Failure> {
    let mut reports: BTreeMap<DecisionId, EntryOutcome> = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        let seen = note::read(path)?.map(|seen| seen.text);
        let text = seen.as_deref().unwrap_or_default();
        let mut refreshed = daily::refresh(store, owner, day, text, now)?;
        reports.append(&mut refreshed.reports);
        let is_same = seen.as_ref() == Some(&refreshed.text);
        if is_same || note::replace(path, seen.as_deref(), &refreshed.text)? {
            refreshed.reports = reports;
            return Ok((refreshed, !is_same));
        }
    }
    Err(Failure::Input {
        message: format!("`{}` keeps changing while it is updated", path.display()),
        hint: "its answers were applied; try again when no editor is saving it".to_owned(),
    })
}

/// The result of each answer on one line, and whether it needs attention.
fn lines(reports: &BTreeMap<DecisionId, EntryOutcome>) -> Vec<(bool, String)> {
    let line = |(id, report): (&DecisionId, &EntryOutcome)| match report {
        EntryOutcome::Answered(what) => {
            (false, format!("{id} in the daily note: {}", sanitize(what)))
        }
        EntryOutcome::Refused(why) => {
            (true, format!("{id} in the daily note was rejected: {}", sanitize(why)))
        }
    };
    reports.iter().map(line).collect()
}

fn document(day: &LocalDay, path: &Path, note: &RefreshedNote, written: Option<bool>) -> Value {
    let answer = |(id, report): (&DecisionId, &EntryOutcome)| {
        let (done, detail) = match report {
            EntryOutcome::Answered(what) => (true, what),
            EntryOutcome::Refused(why) => (false, why),
        };
        json!({ "decision": id.to_string(), "answered": done, "detail": detail })
    };
    let mut document = json!({
        "date": day.date.to_string(),
        "path": path.display().to_string(),
        "pending": note.pending,
        "completed": note.completed,
        "alerts": note.alerts,
    });
    match written {
        Some(written) => {
            document["written"] = json!(written);
            document["answers"] = note.reports.iter().map(answer).collect();
        }
        None => document["text"] = json!(note.text),
    }
    document
}

/// The daily note as `up` and `pulse` maintain it.
pub(super) struct DailyNote {
    folder: PathBuf,
    owner: Actor,
    settle: Span,
    min_interval: Span,
    last: RefCell<Option<LastWrite>>,
    /// Rejections and errors that were already reported, so that later turns do not repeat them.
    reported: RefCell<Vec<String>>,
}

/// The note as Banksman last wrote it.
struct LastWrite {
    path: PathBuf,
    text: String,
    at: Instant,
}

/// The result of one update of the note.
#[derive(Default)]
pub(super) struct NoteUpdate {
    /// Messages for people, and whether each is urgent.
    pub(super) notices: Vec<(bool, String)>,
    /// The note must be read again after at most this time.
    pub(super) retry_after: Option<Span>,
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
    /// None unless the settings ask for an automatic note. Inside an agent's run there is none,
    /// because a run must not answer decisions.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let folder = config.daily.folder.clone().filter(|_| !config.is_inside_run)?;
        Some(Self {
            folder,
            owner: config.daily.owner.clone(),
            settle: config.daily.settle,
            min_interval: Span(0),
            last: RefCell::default(),
            reported: RefCell::default(),
        })
    }

    pub(super) fn throttled(self) -> Self {
        Self { min_interval: MIN_INTERVAL, ..self }
    }

    /// The folder of the notes.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies answers and updates the note. A faulty note is reported and stops nothing else.
    pub(super) fn update(&self, store: &Store, now: Instant) -> NoteUpdate {
        let mut update = NoteUpdate::default();
        if let Err(failure) = self.sync_notes(store, now, &mut update) {
            update.notices.push((true, format!("daily note: {}", sanitize(&failure.to_string()))));
        }
        let mut reported = self.reported.borrow_mut();
        let urgent = update.notices.iter().filter(|(urgent, _)| *urgent);
        let reported_now: Vec<String> = urgent.map(|(_, text)| text.clone()).collect();
        update.notices.retain(|(urgent, text)| !*urgent || !reported.contains(text));
        if update.retry_after.is_none() {
            *reported = reported_now;
        }
        update
    }

    fn sync_notes(
        &self,
        store: &Store,
        now: Instant,
        update: &mut NoteUpdate,
    ) -> Result<(), Failure> {
        let today = day_of(now, None)?;
        let folder = open(&self.folder, store)?;
        if let Some(yesterday) = today.yesterday() {
            // Around midnight people may still edit yesterday's note.
            let path = folder.join(yesterday.file_name());
            let is_answered = note::read(&path)?.is_some_and(|seen| daily::has_answers(&seen.text));
            if is_answered && self.is_settled(&path, now, update)? {
                let (refreshed, written) = sync(&path, store, &self.owner, &yesterday, now)?;
                update.report(&refreshed, written);
            }
        }
        let path = folder.join(today.file_name());
        if !self.is_settled(&path, now, update)? {
            return Ok(());
        }
        let (refreshed, written) = sync(&path, store, &self.owner, &today, now)?;
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
    ) -> Result<bool, Failure> {
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
