//! Reads recorded agent output with an adapter, outside of a run. It starts nothing.

use std::io::{self, BufRead};

use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{ProcessExit, StreamSummary, Terminal};
use banksman_core::time::Instant;

use crate::exec::agent::{AgentEvent, AgentUsage, StreamReader, outcome_of, reader};
use crate::exec::keeper::Lines;

pub use crate::exec::agent::AgentKind;

/// A recorded event stream, read as a run would read it.
pub struct Recording(Box<dyn StreamReader>);

impl Recording {
    pub fn new(agent: AgentKind) -> Self {
        Self(reader(agent, AgentUsage::default()))
    }

    pub fn read_output(&mut self, input: impl BufRead) -> io::Result<()> {
        each_line(input, |line, seen| self.0.line(line, seen))
    }

    pub fn read_errors(&mut self, input: impl BufRead) -> io::Result<()> {
        each_line(input, |line, seen| self.0.error_line(line, seen))
    }

    /// How such a run ends, according to the stream and the exit status alone, and why.
    pub fn finish(
        self,
        exit: ProcessExit,
        now: Instant,
    ) -> (StreamSummary, Outcome, Option<String>) {
        let summary = self.0.finish(exit, now);
        let (outcome, detail) = (outcome_of(&summary, exit), detail(&summary, exit));
        (summary, outcome, detail)
    }
}

fn detail(reading: &StreamSummary, exit: ProcessExit) -> Option<String> {
    if let Some(fault) = &reading.fault {
        return Some(fault.detail.clone());
    }
    let ending = match (exit.signal, exit.code) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exited with {code}"),
        (None, None) => "exit status unknown".to_owned(),
    };
    match reading.terminal {
        Some(Terminal::Success) if exit.code == Some(0) => None,
        Some(Terminal::Success) => Some(format!("{ending} after reporting success")),
        Some(Terminal::Error) => Some(format!("{ending} after reporting an error")),
        None => Some(format!("{ending} without a terminal event")),
    }
}

fn each_line(
    mut input: impl BufRead,
    mut take: impl FnMut(&str, &mut Vec<AgentEvent>),
) -> io::Result<()> {
    let (mut lines, mut seen) = (Lines::default(), Vec::new());
    let mut take = |line: &str| {
        take(line, &mut seen);
        seen.clear();
    };
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            lines.finish(&mut take);
            return Ok(());
        }
        lines.push(chunk, &mut take);
        let read = chunk.len();
        input.consume(read);
    }
}
