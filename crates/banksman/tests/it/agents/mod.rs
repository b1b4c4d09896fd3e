//! The adapters of agents against what the real command lines wrote: `transcripts/` holds recorded
//! streams, and nothing in it was edited but paths and ports.

mod acp;
mod acp_client;
mod bend;
mod command;
mod fuzz;
mod gemini;
mod launch;
mod opencode;
mod promise;
mod read;
mod recorded;
mod stream;

use std::fs;
use std::path::PathBuf;

use banksman::api::run::LogEvent;
use banksman::exec::agent::{self, AgentEvent, AgentKind, AgentUsage};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{ProcessExit, StreamSummary};
use banksman_core::time::Instant;

/// Within the time of the recordings.
const NOW: Instant = Instant(1_794_700_000_000);

fn transcripts() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/agents/transcripts")
}

fn transcript(file: &str) -> String {
    let path = transcripts().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What came of a stream.
struct Read {
    reading: StreamSummary,
    seen: Vec<AgentEvent>,
    exit: ProcessExit,
}

impl Read {
    fn outcome(&self) -> Outcome {
        agent::outcome_of(&self.reading, self.exit)
    }

    /// What people who watch see, an event a line.
    fn log(&self) -> String {
        let line = |seen: &AgentEvent| serde_json::to_string(&LogEvent::from(seen)).unwrap();
        self.seen.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn code(code: i32) -> ProcessExit {
    ProcessExit { code: Some(code), signal: None }
}

fn signal(signal: i32) -> ProcessExit {
    ProcessExit { code: None, signal: Some(signal) }
}

fn read(kind: AgentKind, stdout: &str, exit: ProcessExit) -> Read {
    read_all(kind, AgentUsage::default(), (stdout, ""), exit)
}

/// Reads standard output and error, in this order.
fn read_all(kind: AgentKind, before: AgentUsage, streams: (&str, &str), exit: ProcessExit) -> Read {
    let mut reader = agent::reader(kind, before);
    let mut seen = Vec::new();
    streams.0.split('\n').for_each(|line| reader.line(line, &mut seen));
    streams.1.split('\n').for_each(|line| reader.error_line(line, &mut seen));
    Read { reading: reader.finish(exit, NOW), seen, exit }
}
