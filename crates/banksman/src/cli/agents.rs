//! `banksman agents`: reads recorded event streams of agents.

use std::path::PathBuf;

use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{ProcessExit as AgentExit, StreamSummary};
use banksman_core::time::Instant;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::output::{cells, sanitize_lines, table};
use super::symbols::local;
use super::{Context, Exit, Failure, Result, files};
use crate::api::agent::{Stream, dollars};
use crate::ops::agents::{AgentKind, Recording};

commands! {
    /// Inspect what agents write
    #[command(before_long_help = "Examples:
  banksman agents read claude out.jsonl --exit 1
")]
    pub(super) enum AgentsCommand(&Context) {
        Read(ReadArgs) => read,
    }
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
pub(super) struct ReadArgs {
    /// The agent that wrote the stream
    #[arg(value_name = "AGENT", value_parser = kinds())]
    agent: AgentKind,
    /// Its standard output; `-` reads standard input
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
    PossibleValuesParser::new(AgentKind::NAMES)
        .map(|name| name.parse().expect("clap has checked the name"))
}

fn read(context: &Context, args: &ReadArgs) -> Result<Exit> {
    let exit = exit_of(args.exit);
    let mut recording = Recording::new(args.agent);
    recording.read_output(files::open(&args.file)?).map_err(Failure::file("read", &args.file))?;
    if let Some(path) = &args.stderr {
        recording.read_errors(files::open(path)?).map_err(Failure::file("read", path))?;
    }
    let (reading, outcome, detail) = recording.finish(exit, args.at.unwrap_or(context.now));
    context.out.answer(
        || Stream::new(&reading, outcome.as_str(), detail.clone()),
        || text(&reading, outcome, detail.clone()),
    )
}

/// Most programs report a signal as a negative number.
fn exit_of(number: i32) -> AgentExit {
    if number < 0 {
        AgentExit { code: None, signal: Some(number.saturating_neg()) }
    } else {
        AgentExit { code: Some(number), signal: None }
    }
}

fn text(reading: &StreamSummary, outcome: Outcome, detail: Option<String>) -> String {
    let rows = [
        ("terminal", Some(if reading.terminal.is_some() { "yes" } else { "no" }.to_owned())),
        ("session", reading.session.clone()),
        ("tokens", Some(format!("{} in, {} out", reading.input_tokens, reading.output_tokens))),
        ("cost", reading.cost_micros.map(|micros| format!("${}", dollars(micros)))),
        ("resets", reading.resets_at.map(local)),
        ("detail", detail),
    ];
    let row = |(name, value): (&str, Option<String>)| Some(cells([&name, &value?]));
    let mut text = table(["OUTCOME", outcome.as_str()], rows.into_iter().filter_map(row));
    if !reading.text.is_empty() {
        text.push_str(&format!("\n{}\n", sanitize_lines(&reading.text)));
    }
    text
}
