//! The log of a run as typed entries, also while it grows.

use std::fs;
use std::path::Path;

use banksman_core::ids::RunId;
use banksman_core::machine::WaitsFor;
use banksman_core::receipt::{AgentReport, Receipt};
use banksman_core::time::Instant;

use super::tail::{Piece, Tail};
use crate::config::Agents;
use crate::exec::agent::{AgentEvent, StreamReader, reader};
use crate::exec::job::JobSpec;
use crate::exec::keeper::{ERR_FILE, JobFolder, Lines, OUT_FILE, REPORTS_FILE};
use crate::ops::OpsError;
use crate::ops::Session;
use crate::store::runs::PastRun;

/// What to read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogView {
    /// What the agent did and reported.
    Events,
    /// The lines of its standard error.
    Errors,
    /// The bytes of its standard output.
    RawOutput,
    /// The bytes of its standard error.
    RawErrors,
}

/// Entries of one run, in order.
#[derive(Debug)]
pub struct LogPart<'a> {
    pub run: RunId,
    /// When they were seen; known only when following.
    pub at: Option<Instant>,
    pub entries: Vec<LogEntry<'a>>,
}

#[derive(Debug)]
pub enum LogEntry<'a> {
    /// The log of a run begins.
    Begin(&'a PastRun),
    Event(AgentEvent),
    /// A report that the agent sent with its tools.
    Report(AgentReport),
    /// A line of standard error.
    ErrorLine(String),
    Bytes(&'a [u8]),
    /// Output was dropped before it could be read.
    Gap,
    /// How the run ended: what its keeper found, and the outcome.
    End(Option<Box<Receipt>>, &'a PastRun),
    /// The run has ended, and its task has no new run yet.
    Between {
        state: String,
        waits_for: WaitsFor,
        not_before: Option<Instant>,
        goes_on: bool,
    },
}

/// A log that was read to its end.
#[derive(Debug)]
pub struct ReadLog {
    pub past: PastRun,
    /// Whether the agent wrote to its standard error.
    pub has_errors: bool,
}

/// Receives the parts of a log. An error stops the reading.
pub type TakeLog<'t, E> = dyn FnMut(LogPart<'_>) -> Result<(), E> + 't;

/// Reads what was logged so far, and how the run ended if it has.
pub fn read<E: From<OpsError>>(
    session: &Session,
    agents: &Agents,
    run: RunId,
    view: LogView,
    take: &mut TakeLog<'_, E>,
) -> Result<ReadLog, E> {
    let past = super::past(session, run)?;
    let folder = super::folder(agents, run, &past)?;
    let mut log = LogReader::new(run, &folder, view, take)?;
    log.begin(&past)?;
    log.read_new(folder.path())?;
    log.finish()?;
    log.end(&folder, &past)?;
    let has_errors = fs::metadata(folder.file(ERR_FILE)).is_ok_and(|file| file.len() > 0);
    Ok(ReadLog { past, has_errors })
}

/// Reads the log of one run.
pub(super) struct LogReader<'t, E> {
    pub(super) run: RunId,
    /// The time of the next entries, if it is known.
    pub(super) at: Option<Instant>,
    sources: Vec<Source>,
    take: &'t mut TakeLog<'t, E>,
}

/// A file of the log, and its last line as far as it is known.
struct Source {
    tail: Tail,
    lines: Lines,
    kind: SourceKind,
}

enum SourceKind {
    /// Read by the adapter of the agent; without one, each line is a text.
    Events(Option<Box<dyn StreamReader>>),
    Reports,
    Errors,
    Raw,
}

impl<'t, E: From<OpsError>> LogReader<'t, E> {
    pub(super) fn new(
        run: RunId,
        folder: &JobFolder,
        view: LogView,
        take: &'t mut TakeLog<'t, E>,
    ) -> Result<Self, OpsError> {
        let files = match view {
            LogView::Events => {
                let plan = folder.spec()?;
                let work = plan.as_ref().and_then(JobSpec::agent);
                let reader = work.map(|work| reader(work.setup.kind, work.before));
                vec![(OUT_FILE, SourceKind::Events(reader)), (REPORTS_FILE, SourceKind::Reports)]
            }
            LogView::Errors => vec![(ERR_FILE, SourceKind::Errors)],
            LogView::RawOutput => vec![(OUT_FILE, SourceKind::Raw)],
            LogView::RawErrors => vec![(ERR_FILE, SourceKind::Raw)],
        };
        let source = |(name, kind)| Source { tail: Tail::new(name), lines: Lines::default(), kind };
        Ok(Self { run, at: None, sources: files.into_iter().map(source).collect(), take })
    }

    fn pass_on(&mut self, entries: Vec<LogEntry<'_>>) -> Result<(), E> {
        (self.take)(LogPart { run: self.run, at: self.at, entries })
    }

    pub(super) fn begin(&mut self, past: &PastRun) -> Result<(), E> {
        self.pass_on(vec![LogEntry::Begin(past)])
    }

    /// Passes on what was logged since the last call.
    pub(super) fn read_new(&mut self, folder: &Path) -> Result<(), E> {
        let Self { run, at, sources, take } = self;
        for Source { tail, lines, kind } in sources {
            tail.read(folder, &mut |piece| {
                let mut entries = Vec::new();
                match (piece, &mut *kind) {
                    (Piece::Bytes(bytes), SourceKind::Raw) => entries.push(LogEntry::Bytes(bytes)),
                    (Piece::Bytes(bytes), kind) => {
                        lines.push(bytes, &mut |line| kind.read(line, &mut entries));
                    }
                    (Piece::Gap, SourceKind::Raw | SourceKind::Reports) => {}
                    (Piece::Gap, SourceKind::Events(_) | SourceKind::Errors) => {
                        entries.push(LogEntry::Gap);
                    }
                }
                take(LogPart { run: *run, at: *at, entries })
            })?;
        }
        Ok(())
    }

    /// The run has ended: a last line without a line end counts as well.
    pub(super) fn finish(&mut self) -> Result<(), E> {
        let mut entries = Vec::new();
        for Source { lines, kind, .. } in &mut self.sources {
            lines.finish(&mut |line| kind.read(line, &mut entries));
        }
        self.pass_on(entries)
    }

    /// Nothing for raw bytes, and for a run that has not ended.
    pub(super) fn end(&mut self, folder: &JobFolder, past: &PastRun) -> Result<(), E> {
        let receipt = folder.receipt().map_err(OpsError::from)?.map(Box::new);
        let is_raw = self.sources.iter().any(|source| matches!(source.kind, SourceKind::Raw));
        if is_raw || (receipt.is_none() && past.ended_at.is_none()) {
            return Ok(());
        }
        self.at = past.ended_at;
        self.pass_on(vec![LogEntry::End(receipt, past)])
    }
}

impl SourceKind {
    fn read(&mut self, line: &str, entries: &mut Vec<LogEntry<'_>>) {
        match self {
            Self::Events(Some(reader)) => {
                let mut seen = Vec::new();
                reader.line(line, &mut seen);
                entries.extend(seen.into_iter().map(LogEntry::Event));
            }
            Self::Events(None) => {
                entries.push(LogEntry::Event(AgentEvent::Text { text: line.to_owned() }));
            }
            // The agent can write to this file itself, so other lines are ignored.
            Self::Reports => entries.extend(serde_json::from_str(line).ok().map(LogEntry::Report)),
            Self::Errors => entries.push(LogEntry::ErrorLine(line.to_owned())),
            Self::Raw => {}
        }
    }
}
