//! `banksman agents`: reads recorded event streams of agents.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use banksman_core::limits::STREAM_LINE_BYTES;
use banksman_core::receipt::{ProcessExit as AgentExit, StreamSummary, Terminal};
use banksman_core::time::Instant;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::files;
use super::output::{Cell, sanitize_lines, table};
use super::symbols::local;
use crate::exec::agent::{self, AgentKind, PriorUsage};

/// Inspect what agents write
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman agents read claude out.jsonl --exit 1
")]
pub(super) struct AgentsArgs {
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    Read(ReadArgs),
}

/// Read a recorded event stream as a run would
///
/// Prints how such a run ends, judged by the stream, standard error and the exit status alone. The
/// work itself is not checked.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman agents read claude out.jsonl
  banksman agents read codex out.jsonl --stderr err.log --exit 1 --json
")]
struct ReadArgs {
    /// The agent that wrote the stream
    #[arg(value_name = "AGENT", value_parser = kinds())]
    agent: AgentKind,
    /// Its standard output; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its standard error
    #[arg(long, value_name = "FILE")]
    stderr: Option<PathBuf>,
    /// Its exit code, or a signal as a negative number
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    exit: i32,
    /// When the stream was written, in RFC 3339; times such as `try again at 5 pm` count from then
    /// [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Instant>,
}

fn kinds() -> impl TypedValueParser<Value = AgentKind> {
    let named = |name: String| {
        let kind = AgentKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        kind.expect("clap has checked the name")
    };
    PossibleValuesParser::new(AgentKind::ALL.map(AgentKind::as_str)).map(named)
}

pub(super) fn run(context: &Context, args: &AgentsArgs) -> Result<Exit, Failure> {
    match &args.command {
        AgentsCommand::Read(args) => read(context, args),
    }
}

fn read(context: &Context, args: &ReadArgs) -> Result<Exit, Failure> {
    let exit = exit_of(args.exit);
    let mut reader = agent::reader(args.agent, PriorUsage::default());
    let mut seen = Vec::new();
    each_line(&args.file, |line| {
        reader.line(line, &mut seen);
        seen.clear();
    })?;
    if let Some(path) = &args.stderr {
        each_line(path, |line| {
            reader.error_line(line, &mut seen);
            seen.clear();
        })?;
    }
    let reading = reader.finish(exit, args.at.unwrap_or(context.now));
    context.out.answer(|| document(&reading, exit), || text(&reading, exit))?;
    Ok(Exit::Done)
}

/// Most programs report a signal as a negative number.
fn exit_of(number: i32) -> AgentExit {
    if number < 0 {
        AgentExit { code: None, signal: Some(number.saturating_neg()) }
    } else {
        AgentExit { code: Some(number), signal: None }
    }
}

/// Calls `take` with each line, without its line end. Skips lines that are longer than a run would
/// read; replaces bytes that are not UTF-8.
fn each_line(path: &Path, mut take: impl FnMut(&str)) -> Result<(), Failure> {
    let mut input = files::open(path)?;
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let failed = |source| Failure::File { operation: "read", path: path.to_owned(), source };
        let chunk = input.fill_buf().map_err(failed)?;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(chunk.len(), |end| end + 1);
        let is_last = chunk.is_empty();
        is_too_long |= line.len() + taken > STREAM_LINE_BYTES;
        if !is_too_long {
            line.extend_from_slice(&chunk[..end.unwrap_or(taken)]);
        }
        input.consume(taken);
        if end.is_some() || is_last {
            if !is_too_long && !line.is_empty() {
                take(&String::from_utf8_lossy(&line));
            }
            line.clear();
            is_too_long = false;
        }
        if is_last {
            return Ok(());
        }
    }
}

fn document(reading: &StreamSummary, exit: AgentExit) -> Value {
    json!({
        "outcome": agent::outcome_of(reading, exit).as_str(),
        "terminal": reading.terminal.is_some(),
        "session": reading.session,
        "text": reading.text,
        "usage": { "inputTokens": reading.input_tokens, "outputTokens": reading.output_tokens },
        "cost": reading.cost_micros.map(dollars),
        "resetsAt": reading.resets_at,
        "detail": detail(reading, exit),
    })
}

#[expect(clippy::cast_precision_loss, reason = "no run costs billions of dollars")]
fn dollars(micros: i64) -> f64 {
    micros as f64 / 1e6
}

fn detail(reading: &StreamSummary, exit: AgentExit) -> Option<String> {
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

fn text(reading: &StreamSummary, exit: AgentExit) -> String {
    let rows = [
        ("terminal", Some(if reading.terminal.is_some() { "yes" } else { "no" }.to_owned())),
        ("session", reading.session.clone()),
        ("tokens", Some(format!("{} in, {} out", reading.input_tokens, reading.output_tokens))),
        ("cost", reading.cost_micros.map(|micros| format!("${}", dollars(micros)))),
        ("resets", reading.resets_at.map(local)),
        ("detail", detail(reading, exit)),
    ];
    let row = |(name, value): (&str, Option<String>)| -> Option<Vec<Cell>> {
        Some(vec![name.into(), value?.into()])
    };
    let rows: Vec<Vec<Cell>> = rows.into_iter().filter_map(row).collect();
    let outcome = agent::outcome_of(reading, exit);
    let table = table(&["OUTCOME", outcome.as_str()], &rows);
    let said = if reading.text.is_empty() {
        String::new()
    } else {
        format!("\n{}\n", sanitize_lines(&reading.text))
    };
    table + &said
}
