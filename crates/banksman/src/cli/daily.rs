//! `banksman daily`: writes the note of a day and applies the answers in it. `up` and `pulse` do
//! the same on every turn.

use std::path::PathBuf;

use banksman_core::daily::EntryOutcome;
use banksman_core::time::Instant;
use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::output::sanitize;
use super::{Context, Exit, Failure, Result, report};
use crate::api::daily::DailyNote as Document;
use crate::config::Config;
use crate::ops::daily::{LocalDay, note};
use crate::ops::error_report::Code;

/// The default folder, below `home`.
const FOLDER: &str = "daily";

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
    #[arg(long, value_name = "DATE", value_parser = date)]
    date: Option<Date>,
    /// Print the note instead of writing it; answers are not applied
    #[arg(long)]
    print: bool,
}

pub(super) fn run(context: &Context, args: &DailyArgs) -> Result<Exit> {
    let owner = &context.config.daily.owner;
    let session = context.session()?;
    let day = day_of(context.now, args.date)?;
    let folder = folder(&context.config)?;
    if args.print {
        let path = folder.join(day.file_name());
        let preview = note::preview(&path, &session, owner, &day, context.now)?;
        return context.out.answer(
            || Document::new(&day, path.display().to_string(), &preview, None),
            || preview.text.clone(),
        );
    }
    let path = note::open_folder(&folder, &session)?.join(day.file_name());
    let (refreshed, written) = note::sync(&path, &session, owner, &day, context.now)?;
    let reports = || refreshed.reports.iter();
    let refused = reports().filter(|(_, end)| matches!(end, EntryOutcome::Refused(_)));
    let refused = refused.map(|(id, end)| note::line(*id, end)).collect();
    let place = path.display().to_string();
    let document = || Document::new(&day, place.clone(), &refreshed, Some(written));
    let text = || format!("{}\n", sanitize(&place));
    let exit = report::answer(&context.out, Code::Incomplete, refused, document, text)?;
    for (id, outcome) in reports() {
        context.out.say(&sanitize(&note::line(*id, outcome)));
    }
    Ok(exit)
}

fn date(text: &str) -> Result<Date, &'static str> {
    text.parse().map_err(|_| "write the date as 2026-11-14")
}

fn day_of(now: Instant, date: Option<Date>) -> Result<LocalDay> {
    let zone = TimeZone::system();
    let wrong =
        |message: &str| Failure::argument(message.to_owned(), "write the date as 2026-11-14");
    let today = LocalDay::at(now, &zone).ok_or_else(|| wrong("invalid date"))?;
    match date {
        None => Ok(today),
        Some(date) if date > today.date => Err(wrong("the date is in the future")),
        Some(date) => LocalDay::new(date, &zone).ok_or_else(|| wrong("invalid date")),
    }
}

fn folder(config: &Config) -> Result<PathBuf> {
    if let Some(folder) = &config.daily.folder {
        return Ok(folder.clone());
    }
    let home = &config.agents.home;
    if home.as_os_str().is_empty() { Err(Failure::NoHome) } else { Ok(home.join(FOLDER)) }
}
