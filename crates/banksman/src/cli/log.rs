//! `banksman log`: shows what an agent did and how its run ended. It never changes anything.

mod follow;
mod render;
mod tail;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::str::FromStr;

use banksman_core::ids::{NotAnId, RunId, TaskId};
use banksman_core::receipt::AgentReport;
use banksman_core::time::Instant;
use clap::Args;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, sanitize, sanitize_lines};
use super::symbols::local;
use crate::exec::agent::{AgentEvent, StreamReader, reader};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::keeper::{JobFolder, Lines};
use crate::exec::site::LocalSite;
use crate::store::Store;
use crate::store::runs::PastRun;
use render::EventFormat;
use tail::{Piece, Tail};

/// Files in a run's folder; the keeper writes them.
const OUT: &str = "out.jsonl";
const ERR: &str = "err.log";
const REPORTS: &str = "reports.jsonl";
/// How many runs of a task are searched.
const RUNS: i64 = 1_000;

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

pub(super) fn run(context: &Context, args: &LogArgs) -> Result<Exit, Failure> {
    let store = context.store()?;
    let (run, is_chosen) = match (args.target, args.run) {
        (LogTarget::Run(run), None) => (run, true),
        (LogTarget::Run(RunId { task, .. }) | LogTarget::Task(task), Some(epoch)) => {
            (RunId { task, epoch }, true)
        }
        (LogTarget::Task(task), None) => (last_run(&store, task)?, false),
    };
    let past = past_run(&store, run)?;
    let folder = if args.follow {
        follow::wait_for_folder(context, run, &past)?
    } else {
        folder_of(context, run, &past)?
    };
    let mut log = LogPrinter::new(context, run, &folder, args)?;
    if args.follow {
        follow::follow(context, &store, log, args, is_chosen)?;
        return Ok(Exit::Done);
    }
    log.heading(context, &past);
    log.print_new(folder.path(), None)?;
    log.finish(None)?;
    log.end(&folder, &past)?;
    if past.ended_at.is_none() {
        context.out.next(&[&format!("log {run} -f")]);
    } else if args.target.is_task() {
        suggest_next(context, &folder, &past, run, args);
    }
    Ok(Exit::Done)
}

impl LogTarget {
    fn is_task(self) -> bool {
        matches!(self, Self::Task(_))
    }
}

fn suggest_next(context: &Context, folder: &JobFolder, past: &PastRun, run: RunId, args: &LogArgs) {
    let has_more = std::fs::metadata(folder.path().join(ERR)).is_ok_and(|file| file.len() > 0);
    let mut next = Vec::new();
    if has_more && !args.stderr {
        next.push(format!("log {run} --stderr"));
    }
    if past.epoch > 1 {
        next.push(format!("log {} --run {}", run.task, past.epoch - 1));
    }
    next.push(format!("show {}", run.task));
    context.out.next(&next.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The latest run of a task.
pub(super) fn last_run(store: &Store, task: TaskId) -> Result<RunId, Failure> {
    let epoch = store.task(task)?.task.epoch;
    if epoch == 0 {
        return Err(Failure::Input {
            message: format!("{task} has no runs yet"),
            hint: format!("`banksman why {task}` explains what it waits for"),
        });
    }
    Ok(RunId { task, epoch })
}

pub(super) fn past_run(store: &Store, run: RunId) -> Result<PastRun, Failure> {
    store.task(run.task)?;
    let mut runs = store.past_runs(run.task, RUNS)?.into_iter();
    runs.find(|past| past.epoch == run.epoch).ok_or_else(|| Failure::Input {
        message: format!("there is no run {run}"),
        hint: format!("`banksman show {}` lists its runs", run.task),
    })
}

/// The folder of a run of this machine; the error names the machine that has it.
pub(super) fn folder_of(
    context: &Context,
    run: RunId,
    past: &PastRun,
) -> Result<JobFolder, Failure> {
    let agents = &context.config.agents;
    if let Some(folder) = LocalSite::find(&agents.home, JobId::Run(run)) {
        return Ok(folder);
    }
    let (message, hint) = match &past.node {
        Some(node) if *node != agents.node => (
            format!("the log of {run} is on machine `{node}`"),
            format!("run `banksman log {run}` there"),
        ),
        Some(_) if past.ended_at.is_none() => (
            format!("{run} has not started yet"),
            format!("`banksman log {run} -f` waits for it; `banksman pulse` starts claimed runs"),
        ),
        Some(_) => (
            format!("the log of {run} was deleted"),
            format!(
                "`banksman show {}` shows how it ended, `banksman config get home` where logs are kept",
                run.task
            ),
        ),
        None => (
            format!("{run} belongs to {}, a worker outside Banksman", past.worker),
            format!("`banksman history {}` shows what it reported", run.task),
        ),
    };
    Err(Failure::Input { message, hint })
}

/// Writes the log of one run to stdout.
struct LogPrinter {
    run: RunId,
    name: String,
    out: Output,
    mode: Mode,
    is_timed: bool,
}

enum Mode {
    Raw(Tail),
    Lines(Tail, Lines),
    Events(Box<Events>),
}

struct Events {
    out: Tail,
    lines: Lines,
    reader: Option<Box<dyn StreamReader>>,
    reports: Tail,
    report_lines: Lines,
}

impl LogPrinter {
    fn new(
        context: &Context,
        run: RunId,
        folder: &JobFolder,
        args: &LogArgs,
    ) -> Result<Self, Failure> {
        let stream = if args.stderr { ERR } else { OUT };
        let mode = match (args.raw, args.stderr) {
            (true, _) => Mode::Raw(Tail::new(stream)),
            (false, true) => Mode::Lines(Tail::new(stream), Lines::default()),
            (false, false) => Mode::Events(Box::new(Events {
                out: Tail::new(stream),
                lines: Lines::default(),
                reader: reader_of(folder)?,
                reports: Tail::new(REPORTS),
                report_lines: Lines::default(),
            })),
        };
        Ok(Self { run, name: run.to_string(), out: context.out, mode, is_timed: args.follow })
    }

    fn heading(&self, context: &Context, past: &PastRun) {
        let node = past.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let since = local(past.started_at);
        let text = format!("{} of {}{node}, since {since}", self.name, past.worker);
        context.out.say(&sanitize(&text));
    }

    /// Writes what was logged since the last call.
    fn print_new(&mut self, folder: &Path, at: Option<Instant>) -> Result<(), Failure> {
        let event_format = event_format(self.out, self.is_timed, &self.name);
        let mut text = String::new();
        let out = self.out;
        match &mut self.mode {
            Mode::Raw(tail) => tail.read(folder, &mut |piece| raw(&piece)),
            Mode::Lines(tail, lines) => tail.read(folder, &mut |piece| {
                match piece {
                    Piece::Bytes(bytes) => {
                        lines.push(bytes, &mut |line| {
                            text.push_str(&event_format.error_line(line, at));
                        });
                    }
                    Piece::Gap => text.push_str(&event_format.gap()),
                }
                out.text(&std::mem::take(&mut text))
            }),
            Mode::Events(events) => {
                let Events { out: tail, lines, reader, reports, report_lines } = events.as_mut();
                tail.read::<Failure>(folder, &mut |piece| {
                    match piece {
                        Piece::Bytes(bytes) => lines.push(bytes, &mut |line| {
                            text.push_str(&event_lines(
                                &event_format,
                                reader.as_deref_mut(),
                                line,
                                at,
                            ));
                        }),
                        Piece::Gap => text.push_str(&event_format.gap()),
                    }
                    out.text(&std::mem::take(&mut text))
                })?;
                reports.read(folder, &mut |piece| {
                    if let Piece::Bytes(bytes) = piece {
                        report_lines.push(bytes, &mut |line| {
                            text.push_str(&report_line(&event_format, line, at));
                        });
                    }
                    out.text(&std::mem::take(&mut text))
                })
            }
        }
    }

    /// The run has ended: a last line without a line end counts as well.
    fn finish(&mut self, at: Option<Instant>) -> Result<(), Failure> {
        let mut text = String::new();
        let event_format = event_format(self.out, self.is_timed, &self.name);
        match &mut self.mode {
            Mode::Raw(_) => {}
            Mode::Lines(_, lines) => {
                lines.finish(&mut |line| text.push_str(&event_format.error_line(line, at)));
            }
            Mode::Events(events) => {
                let Events { lines, reader, .. } = events.as_mut();
                lines.finish(&mut |line| {
                    text.push_str(&event_lines(&event_format, reader.as_deref_mut(), line, at));
                });
            }
        }
        self.out.text(&text)
    }

    fn end(&self, folder: &JobFolder, past: &PastRun) -> Result<(), Failure> {
        let receipt = folder.receipt()?;
        if matches!(self.mode, Mode::Raw(_)) || (receipt.is_none() && past.ended_at.is_none()) {
            return Ok(());
        }
        self.out
            .text(&event_format(self.out, self.is_timed, &self.name).end(receipt.as_ref(), past))
    }
}

fn event_format(out: Output, timed: bool, run: &str) -> EventFormat<'_> {
    EventFormat { json: out.json, symbols: out.symbols, timed, run }
}

fn reader_of(folder: &JobFolder) -> Result<Option<Box<dyn StreamReader>>, Failure> {
    let plan = folder.plan()?;
    let work = plan.as_ref().and_then(JobSpec::agent);
    Ok(work.map(|work| reader(work.setup.kind, work.before)))
}

fn event_lines(
    event_format: &EventFormat<'_>,
    reader: Option<&mut (dyn StreamReader + 'static)>,
    line: &str,
    at: Option<Instant>,
) -> String {
    let mut seen = Vec::new();
    match reader {
        Some(reader) => reader.line(line, &mut seen),
        None => seen.push(AgentEvent::Text { text: line.to_owned() }),
    }
    seen.iter().filter_map(|seen| event_format.event(seen, at)).collect()
}

/// Ignores lines that are not reports: the agent can write to this file itself.
fn report_line(event_format: &EventFormat<'_>, line: &str, at: Option<Instant>) -> String {
    serde_json::from_str::<AgentReport>(line)
        .map(|report| event_format.report(&report, at))
        .unwrap_or_default()
}

/// Writes the bytes unchanged, except to a terminal, where control characters are replaced.
fn raw(piece: &Piece<'_>) -> Result<(), Failure> {
    let Piece::Bytes(bytes) = piece else { return Ok(()) };
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        stdout.write_all(sanitize_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        stdout.write_all(bytes)
    };
    written.and_then(|()| stdout.flush()).map_err(Failure::Output)
}
