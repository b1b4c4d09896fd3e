//! `banksman daily`: the note of a day is written and its answers are taken; and the same for every
//! turn of `up` and `pulse`.

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
use super::output::shown;
use crate::config::Config;
use crate::exec::note;
use crate::ops::daily::{self, LocalDay, RefreshedNote};
use crate::ops::decisions::DecisionError;
use crate::store::Store;

/// The folder in `home`, where none is set.
const FOLDER: &str = "daily";
/// How often a note is looked at anew because somebody has written meanwhile.
const TRIES: usize = 5;
/// `up` does not make the note anew more often than this, however much happens.
const PACE: Span = Span(2_000);

/// Write the note of the day, and take the answers that you ticked in it
///
/// The note is a Markdown file: what waits for you, what is ready to merge, what was completed, and
/// alerts. A ticked box or a word behind `Action` is an answer; words behind `Note` go with it.
/// What you write around the sections stays as it is. With the setting `daily.folder`, `up` and
/// `pulse` do this by themselves.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman daily                     write today's note and say where it is
  banksman daily --print             show it, and neither write nor answer
  banksman daily --date 2026-11-14   the note of another day
")]
pub(super) struct DailyArgs {
    /// Another day than today, such as 2026-11-14
    #[arg(long, value_name = "DATE")]
    date: Option<Date>,
    /// Show the note instead of writing it; no answer is taken
    #[arg(long)]
    print: bool,
}

pub(super) fn run(context: &Context, args: &DailyArgs) -> Result<Exit, Failure> {
    if context.config.is_of_run && !args.print {
        return Err(Failure::Ops(DecisionError::OfRun.into()));
    }
    let store = context.store()?;
    let day = wanted(context.now, args.date)?;
    let owner = &context.config.daily.owner;
    let folder = folder(&context.config)?;
    if args.print {
        let path = folder.join(day.file_name());
        let text = note::read(&path)?.map(|seen| seen.text).unwrap_or_default();
        let shown = daily::preview(&store, owner, &day, &text, context.now)?;
        context.out.answer(|| document(&day, &path, &shown, None), || shown.text.clone())?;
        return Ok(Exit::Done);
    }
    let path = open(&folder, &store)?.join(day.file_name());
    let (refreshed, written) = sync(&path, &store, owner, &day, context.now)?;
    context.out.answer(
        || document(&day, &path, &refreshed, Some(written)),
        || format!("{}\n", shown(&path.display().to_string())),
    )?;
    for (_, line) in lines(&refreshed.reports) {
        context.out.say(&line);
    }
    let is_refused = |report: &EntryOutcome| matches!(report, EntryOutcome::Refused(_));
    let any_refused = refreshed.reports.values().any(is_refused);
    Ok(if any_refused { Exit::Failed } else { Exit::Done })
}

fn wanted(now: Instant, date: Option<Date>) -> Result<LocalDay, Failure> {
    let zone = TimeZone::system();
    let wrong = |message: &str| Failure::Argument {
        message: message.to_owned(),
        hint: "a date is written as 2026-11-14".to_owned(),
    };
    let today = LocalDay::at(now, &zone).ok_or_else(|| wrong("there is no such day"))?;
    match date {
        None => Ok(today),
        Some(date) if date > today.date => Err(wrong("this day is yet to come")),
        Some(date) => LocalDay::new(date, &zone).ok_or_else(|| wrong("there is no such day")),
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

/// Takes the answers and writes the note, unless it is as it should be already. Says whether it was
/// written.
fn sync(
    path: &Path,
    store: &Store,
    owner: &Actor,
    day: &LocalDay,
    now: Instant,
) -> Result<(RefreshedNote, bool), Failure> {
    let mut reports: BTreeMap<DecisionId, EntryOutcome> = BTreeMap::new();
    for _ in 0..TRIES {
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
        message: format!("`{}` is being written all the time", path.display()),
        hint: "its answers were taken; try again when nobody saves it".to_owned(),
    })
}

/// What became of answers, in one line each, and whether it needs a look.
fn lines(reports: &BTreeMap<DecisionId, EntryOutcome>) -> Vec<(bool, String)> {
    let line = |(id, report): (&DecisionId, &EntryOutcome)| match report {
        EntryOutcome::Answered(what) => (false, format!("{id} in the daily note: {}", shown(what))),
        EntryOutcome::Refused(why) => {
            (true, format!("{id} in the daily note was not carried out: {}", shown(why)))
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

/// The note that `up` and `pulse` look after.
pub(super) struct Desk {
    folder: PathBuf,
    owner: Actor,
    settle: Span,
    pace: Span,
    last: RefCell<Option<Last>>,
    /// The refusals and faults that were told, so that each turn does not tell them again.
    told: RefCell<Vec<String>>,
}

/// The note as we left it.
struct Last {
    path: PathBuf,
    text: String,
    at: Instant,
}

/// What a look at the note came to.
#[derive(Default)]
pub(super) struct Turn {
    /// What people should hear of, and whether it is urgent.
    pub(super) notices: Vec<(bool, String)>,
    /// When it is to be looked at again, at the latest.
    pub(super) again: Option<Span>,
}

impl Turn {
    /// What stands in the note already was told before.
    fn tell(&mut self, refreshed: &RefreshedNote, written: bool) {
        if written {
            self.notices.extend(lines(&refreshed.reports));
        }
    }
}

impl Desk {
    /// None where the note is not written by itself. What an agent's run has started answers
    /// nothing.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let folder = config.daily.folder.clone().filter(|_| !config.is_of_run)?;
        Some(Self {
            folder,
            owner: config.daily.owner.clone(),
            settle: config.daily.settle,
            pace: Span(0),
            last: RefCell::default(),
            told: RefCell::default(),
        })
    }

    pub(super) fn at_a_pace(self) -> Self {
        Self { pace: PACE, ..self }
    }

    /// Where people write.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes answers and makes the note anew. Whatever is wrong with the note is told and holds up
    /// nothing else.
    pub(super) fn turn(&self, store: &Store, now: Instant) -> Turn {
        let mut turn = Turn::default();
        if let Err(failure) = self.look(store, now, &mut turn) {
            turn.notices.push((true, format!("daily note: {}", shown(&failure.to_string()))));
        }
        let mut told = self.told.borrow_mut();
        let urgent = turn.notices.iter().filter(|(urgent, _)| *urgent);
        let now_told: Vec<String> = urgent.map(|(_, text)| text.clone()).collect();
        turn.notices.retain(|(urgent, text)| !*urgent || !told.contains(text));
        if turn.again.is_none() {
            *told = now_told;
        }
        turn
    }

    fn look(&self, store: &Store, now: Instant, turn: &mut Turn) -> Result<(), Failure> {
        let today = wanted(now, None)?;
        let folder = open(&self.folder, store)?;
        if let Some(yesterday) = today.yesterday() {
            // Around midnight people still have the old one before them.
            let path = folder.join(yesterday.file_name());
            let is_answered = note::read(&path)?.is_some_and(|seen| daily::has_answers(&seen.text));
            if is_answered && self.is_at_rest(&path, now, turn)? {
                let (refreshed, written) = sync(&path, store, &self.owner, &yesterday, now)?;
                turn.tell(&refreshed, written);
            }
        }
        let path = folder.join(today.file_name());
        if !self.is_at_rest(&path, now, turn)? {
            return Ok(());
        }
        let (refreshed, written) = sync(&path, store, &self.owner, &today, now)?;
        turn.tell(&refreshed, written);
        *self.last.borrow_mut() = Some(Last { path, text: refreshed.text, at: now });
        Ok(())
    }

    /// Whether nobody writes to it at the moment; and if only we did, whether that is long enough
    /// ago.
    fn is_at_rest(&self, path: &Path, now: Instant, turn: &mut Turn) -> Result<bool, Failure> {
        let Some(seen) = note::read(path)? else { return Ok(true) };
        let last = self.last.borrow();
        let own = last.as_ref().filter(|last| last.path == path && last.text == seen.text);
        let (since, rest) = match own {
            Some(last) => (last.at, self.pace),
            None => (seen.modified, self.settle),
        };
        // What was written in the future was written by another clock, long enough ago for all we
        // know.
        let past = now.since(since);
        if past >= rest || since > now {
            return Ok(true);
        }
        let left = Span(rest.0 - past.0);
        turn.again = Some(turn.again.map_or(left, |again| again.min(left)));
        Ok(false)
    }
}
