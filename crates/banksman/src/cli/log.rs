//! `banksman log`: shows what an agent did and how its run ended. It never changes anything.

mod render;

use std::io::{self, IsTerminal, Write};
use std::str::FromStr;

use banksman_core::ids::{NotAnId, RunId, TaskId};
use clap::Args;

use super::output::sanitize_lines;
use super::{Context, Exit, Failure, Result};
use crate::ops::runs::{self, LogEntry, LogPart, LogView, ReadLog};
use render::LogFormat;

/// Show what an agent did: the last run of a task, or a given run
///
/// With `-f` it follows the run live. When the run has ended and its task is retried, it continues
/// with the next run, until the task ends or needs a person.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman log t12                   show the last run of the task
  banksman log t12 -f                follow it live
  banksman log t12 --run 1           show the first run
  banksman log r12.1 --stderr        show its standard error
  banksman log t12 --raw > t12.jsonl
")]
pub(super) struct LogArgs {
    /// A task such as t12, or a run such as r12.2
    #[arg(value_name = "ID|RUN")]
    target: LogTarget,
    /// Follow the run live
    #[arg(short, long)]
    follow: bool,
    /// Print the agent's output unchanged
    #[arg(long)]
    raw: bool,
    /// Show standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// The number of the run, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    run: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
enum LogTarget {
    Task(TaskId),
    Run(RunId),
}

impl FromStr for LogTarget {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if text.starts_with('r') {
            return text.parse().map(Self::Run);
        }
        text.parse().map(Self::Task)
    }
}

pub(super) fn run(context: &Context, args: &LogArgs) -> Result<Exit> {
    let session = context.session()?;
    let (run, is_chosen) = match (args.target, args.run) {
        (LogTarget::Run(run), None) => (run, true),
        (LogTarget::Run(RunId { task, .. }) | LogTarget::Task(task), Some(epoch)) => {
            (RunId { task, epoch }, true)
        }
        (LogTarget::Task(task), None) => (runs::last(&session, task)?, false),
    };
    let view = match (args.raw, args.stderr) {
        (true, true) => LogView::RawErrors,
        (true, false) => LogView::RawOutput,
        (false, true) => LogView::Errors,
        (false, false) => LogView::Events,
    };
    let agents = &context.config.agents;
    let mut print = |part: LogPart<'_>| print(context, args.follow, &part);
    if args.follow {
        runs::follow(&session, agents, (run, is_chosen), view, &mut print)?;
        return Ok(Exit::Done);
    }
    let log = runs::read(&session, agents, run, view, &mut print)?;
    if log.past.ended_at.is_none() {
        context.out.next(&[&format!("log {run} -f")]);
    } else if matches!(args.target, LogTarget::Task(_)) {
        suggest_next(context, &log, run, args);
    }
    Ok(Exit::Done)
}

fn suggest_next(context: &Context, log: &ReadLog, run: RunId, args: &LogArgs) {
    let mut next = Vec::new();
    if log.has_errors && !args.stderr {
        next.push(format!("log {run} --stderr"));
    }
    if run.epoch > 1 {
        next.push(format!("log {} --run {}", run.task, run.epoch - 1));
    }
    next.push(format!("show {}", run.task));
    context.out.next(&next);
}

fn print(context: &Context, timed: bool, part: &LogPart<'_>) -> Result<()> {
    let (json, symbols) = (context.out.json, context.out.symbols);
    let format = LogFormat { json, symbols, timed, run: part.run, at: part.at };
    let mut text = String::new();
    for entry in &part.entries {
        match entry {
            LogEntry::Begin(past) => context.out.say(&format.heading(past)),
            LogEntry::Event(event) => text.extend(format.event(event)),
            LogEntry::Report(report) => text.push_str(&format.report(report)),
            LogEntry::ErrorLine(line) => text.push_str(&format.error_line(line)),
            LogEntry::Bytes(bytes) => print_raw(bytes)?,
            LogEntry::Gap => text.push_str(&format.gap()),
            LogEntry::End(receipt, past) => text.push_str(&format.end(receipt.as_deref(), past)),
            LogEntry::Between { state, waits_for, not_before, goes_on } => {
                context.out.say(&format.between(state, waits_for, *not_before, *goes_on));
                if !goes_on {
                    let task = part.run.task;
                    context.out.next(&[&format!("why {task}"), &format!("show {task}")]);
                }
            }
        }
    }
    context.out.text(&text).map(drop)
}

/// Writes the bytes unchanged, except to a terminal, where control characters are replaced.
fn print_raw(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        stdout.write_all(sanitize_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        stdout.write_all(bytes)
    };
    written.and_then(|()| stdout.flush()).map_err(Failure::Output)
}
