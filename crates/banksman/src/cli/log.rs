//! `banksman log`: what an agent did and said, and how it ended. It only looks.

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
use super::output::{Output, shown, shown_lines};
use super::signs::local;
use crate::exec::agent::{AgentEvent, StreamReader, reader};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::keeper::{JobFolder, Lines};
use crate::exec::site::LocalSite;
use crate::store::Store;
use crate::store::runs::PastRun;
use render::Look;
use tail::{Piece, Tail};

/// Files of a run's folder; the keeper writes them.
const OUT: &str = "out.jsonl";
const ERR: &str = "err.log";
const REPORTS: &str = "reports.jsonl";
/// Runs of a task among which one is looked for.
const RUNS: i64 = 1_000;

/// Show what an agent did: the last run of a task, or a run of your choice
///
/// With `-f` it goes on as the agent does. When a run has ended and its task is tried again, it
/// goes on with the next run, until the task is over or needs a person.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman log t12                   the last run of the task
  banksman log t12 -f                as it happens
  banksman log t12 --run 1           the first run
  banksman log r12.1 --stderr        what it printed on standard error
  banksman log t12 --raw > t12.jsonl
")]
pub(super) struct LogArgs {
    /// A task such as t12, or a run such as r12.2
    #[arg(value_name = "ID|RUN")]
    target: LogTarget,
    /// Go on as the agent does
    #[arg(short, long)]
    follow: bool,
    /// The agent's own bytes, not read and not rendered
    #[arg(long)]
    raw: bool,
    /// Standard error, not standard output
    #[arg(long)]
    stderr: bool,
    /// The nth run of the task
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
        follow::begun(context, run, &past)?
    } else {
        folder_of(context, run, &past)?
    };
    let mut log = Shown::new(context, run, &folder, args)?;
    if args.follow {
        follow::follow(context, &store, log, args, is_chosen)?;
        return Ok(Exit::Done);
    }
    log.heading(context, &past);
    log.more(folder.path(), None)?;
    log.finish(None)?;
    log.end(&folder, &past)?;
    if past.ended_at.is_none() {
        context.out.next(&[&format!("log {run} -f")]);
    } else if args.target.is_task() {
        hint_at_others(context, &folder, &past, run, args);
    }
    Ok(Exit::Done)
}

impl LogTarget {
    fn is_task(self) -> bool {
        matches!(self, Self::Task(_))
    }
}

fn hint_at_others(
    context: &Context,
    folder: &JobFolder,
    past: &PastRun,
    run: RunId,
    args: &LogArgs,
) {
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
            message: format!("no agent has worked on {task} yet"),
            hint: format!("`banksman why {task}` says what it waits for"),
        });
    }
    Ok(RunId { task, epoch })
}

pub(super) fn past_run(store: &Store, run: RunId) -> Result<PastRun, Failure> {
    store.task(run.task)?;
    let mut runs = store.past_runs(run.task, RUNS)?.into_iter();
    runs.find(|past| past.epoch == run.epoch).ok_or_else(|| Failure::Input {
        message: format!("there is no run {run}"),
        hint: format!("`banksman show {}` lists the runs of the task", run.task),
    })
}

/// The folder of a run of this machine, or where else it is.
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
            format!("the log of {run} is on the machine `{node}`"),
            format!("ask there: banksman log {run}"),
        ),
        Some(_) if past.ended_at.is_none() => (
            format!("{run} has not begun yet"),
            format!(
                "`banksman log {run} -f` waits for it; `banksman pulse` begins what was claimed"
            ),
        ),
        Some(_) => (
            format!("the log of {run} is no longer kept"),
            format!(
                "`banksman show {}` has how it ended, `banksman config get home` where logs are",
                run.task
            ),
        ),
        None => (
            format!("{run} is the work of {}, who is not one of our agents", past.worker),
            format!("`banksman history {}` has what is known of it", run.task),
        ),
    };
    Err(Failure::Input { message, hint })
}

/// A run's log on its way to stdout.
struct Shown {
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

impl Shown {
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
        context.out.say(&shown(&text));
    }

    /// Shows what has come since the last time.
    fn more(&mut self, folder: &Path, at: Option<Instant>) -> Result<(), Failure> {
        let look = look(self.out, self.is_timed, &self.name);
        let mut text = String::new();
        let out = self.out;
        match &mut self.mode {
            Mode::Raw(tail) => tail.read(folder, &mut |piece| raw(&piece)),
            Mode::Lines(tail, lines) => tail.read(folder, &mut |piece| {
                match piece {
                    Piece::Bytes(bytes) => {
                        lines.push(bytes, &mut |line| text.push_str(&look.error_line(line, at)));
                    }
                    Piece::Gap => text.push_str(&look.gap()),
                }
                out.text(&std::mem::take(&mut text))
            }),
            Mode::Events(events) => {
                let Events { out: tail, lines, reader, reports, report_lines } = events.as_mut();
                tail.read::<Failure>(folder, &mut |piece| {
                    match piece {
                        Piece::Bytes(bytes) => lines.push(bytes, &mut |line| {
                            text.push_str(&event_lines(&look, reader.as_deref_mut(), line, at));
                        }),
                        Piece::Gap => text.push_str(&look.gap()),
                    }
                    out.text(&std::mem::take(&mut text))
                })?;
                reports.read(folder, &mut |piece| {
                    if let Piece::Bytes(bytes) = piece {
                        report_lines.push(bytes, &mut |line| {
                            text.push_str(&report_line(&look, line, at));
                        });
                    }
                    out.text(&std::mem::take(&mut text))
                })
            }
        }
    }

    /// The run is over: what stands behind the last line end counts, too.
    fn finish(&mut self, at: Option<Instant>) -> Result<(), Failure> {
        let mut text = String::new();
        let look = look(self.out, self.is_timed, &self.name);
        match &mut self.mode {
            Mode::Raw(_) => {}
            Mode::Lines(_, lines) => {
                lines.finish(&mut |line| text.push_str(&look.error_line(line, at)));
            }
            Mode::Events(events) => {
                let Events { lines, reader, .. } = events.as_mut();
                lines.finish(&mut |line| {
                    text.push_str(&event_lines(&look, reader.as_deref_mut(), line, at));
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
        self.out.text(&look(self.out, self.is_timed, &self.name).end(receipt.as_ref(), past))
    }
}

fn look(out: Output, timed: bool, run: &str) -> Look<'_> {
    Look { json: out.json, signs: out.signs, timed, run }
}

fn reader_of(folder: &JobFolder) -> Result<Option<Box<dyn StreamReader>>, Failure> {
    let plan = folder.plan()?;
    let work = plan.as_ref().and_then(JobSpec::agent);
    Ok(work.map(|work| reader(work.setup.kind, work.before)))
}

fn event_lines(
    look: &Look<'_>,
    reader: Option<&mut (dyn StreamReader + 'static)>,
    line: &str,
    at: Option<Instant>,
) -> String {
    let mut seen = Vec::new();
    match reader {
        Some(reader) => reader.line(line, &mut seen),
        None => seen.push(AgentEvent::Text { text: line.to_owned() }),
    }
    seen.iter().filter_map(|seen| look.event(seen, at)).collect()
}

/// A line that says nothing known is passed over: the agent could write here itself.
fn report_line(look: &Look<'_>, line: &str, at: Option<Instant>) -> String {
    serde_json::from_str::<AgentReport>(line).map(|told| look.told(&told, at)).unwrap_or_default()
}

/// The bytes as they are. A terminal would obey some of them, so there they are made harmless.
fn raw(piece: &Piece<'_>) -> Result<(), Failure> {
    let Piece::Bytes(bytes) = piece else { return Ok(()) };
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        stdout.write_all(shown_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        stdout.write_all(bytes)
    };
    written.and_then(|()| stdout.flush()).map_err(Failure::Output)
}
