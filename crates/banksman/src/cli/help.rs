//! `banksman help`: explains commands and topics.

use banksman_core::lifecycle::StateKind;
use clap::Args;

use super::symbols::Symbols;
use super::{Exit, Failure, Output, Result, command};
use crate::config::documented;
use crate::ops::error_report::Code;

/// Explain a command or a topic
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman help add
  banksman help lifecycle graph
  banksman help exit-codes
")]
#[command(after_help = "Topics: exit-codes, environment, states, formatting")]
pub(super) struct HelpArgs {
    /// A command, or a topic: exit-codes, environment, states, formatting
    #[arg(value_name = "COMMAND|TOPIC")]
    about: Vec<String>,
}

type Topic = (&'static str, fn() -> String);
const TOPICS: [Topic; 4] = [
    ("exit-codes", exit_codes),
    ("environment", environment),
    ("states", states),
    ("formatting", || FORMATTING.to_owned()),
];

pub(super) fn run(out: Output, args: &HelpArgs) -> Result<Exit> {
    let topic = TOPICS.iter().find(|(name, _)| args.about.len() == 1 && args.about[0] == *name);
    let text = match topic {
        Some((_, text)) => text(),
        None => command_help(&args.about)?,
    };
    out.text(&text)
}

fn command_help(path: &[String]) -> Result<String> {
    let mut found = command();
    found.build();
    for name in path {
        let known: Vec<String> =
            found.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
        let Some(inner) = found.find_subcommand(name).cloned() else {
            let topics = TOPICS.iter().map(|(name, _)| *name).filter(|_| path.len() == 1);
            let hint = banksman_core::lifecycle::problem::suggestion(
                name,
                known.iter().map(String::as_str).chain(topics),
            );
            return Err(Failure::argument(format!("unknown command or topic `{name}`"), hint));
        };
        found = inner;
    }
    Ok(found.render_long_help().ansi().to_string())
}

fn exit_codes() -> String {
    let exits = Exit::ALL.map(|(exit, meaning)| format!("  {}  {meaning}\n", exit as u8));
    let codes = Code::ALL.iter().map(|code| {
        let exit = Exit::from(*code) as u8;
        format!("  {}  exit {exit}  {}\n", code.as_str(), code.meaning())
    });
    format!(
        "Exit codes\n\n{}  130  interrupted by Ctrl-C, as shells report it\n\n\
         Error codes, in messages and in JSON; a code never changes its meaning\n\n{}{ERROR_DOCUMENT}",
        exits.concat(),
        codes.collect::<String>()
    )
}

const ERROR_DOCUMENT: &str = "
With --json, every failure of every command is this document on stdout; warnings go to stderr. A
command that writes JSON lines writes it as its last line. An answer that comes with a failing exit
code has these keys beside its own.

  {\"success\": false, \"errors\": [{\"field\", \"message\"}], \"allowedTransitions\": [], \"code\",
   \"hint\"}

  errors              at least one entry; `field` is null unless the message is about one field of a
                      task; a problem of a file has `file`, `line`, `column` and `help`
  allowedTransitions  the states that a task can move to instead, if a move was refused
  code                an error code of the table above
  hint                what to type next, or null
";

fn environment() -> String {
    let lines = documented().map(|(name, meaning)| format!("  {name:<36}{meaning}\n"));
    let lines: String = lines.collect();
    format!(
        "Environment variables\n\n{lines}\nFlags override variables, and variables override files:\n\
         `banksman config list --show-origin`.\n"
    )
}

fn states() -> String {
    let line = |kind: StateKind| {
        let (unicode, ascii) = (Symbols::Unicode.of(kind), Symbols::Ascii.of(kind));
        format!("  {unicode} {ascii}  {:<10} {}\n", kind.as_str(), meaning(kind))
    };
    format!(
        "States\n\nEach lifecycle names its own states (`banksman lifecycle show NAME`). \
         Every state has one kind:\n\n{}  {} {}  a task of any kind that goes on by itself, such as a retry; `why` says when\n\n\
         A state such as `blocked(quota_wait)` belongs to the group `blocked`. `list --state` takes a\n\
         state, a group or a kind. The second symbol is used on terminals without UTF-8.\n",
        StateKind::ALL.map(line).concat(),
        Symbols::Unicode.retrying(),
        Symbols::Ascii.retrying(),
    )
}

fn meaning(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Queued => "in the queue for a worker",
        StateKind::Working => "an agent is running, or about to start",
        StateKind::Reviewing => "the work is under review",
        StateKind::Waiting => "needs you: a person must answer",
        StateKind::Blocked => "waits for something outside",
        StateKind::Parked => "put aside by a person",
        StateKind::Done => "completed",
        StateKind::Failed => "ended without success",
        StateKind::Cancelled => "abandoned by a person",
    }
}

const FORMATTING: &str = "Formatting

  Data goes to stdout, messages and errors to stderr. Colour never carries meaning alone: symbols
  and words say the same.

  --json     The answer is one JSON document on stdout; `changes`, `log` and `up` write JSON lines,
             `export` and `audit export` always do. A failure is a document on stdout, too, whatever
             its cause; warnings go to stderr. See `banksman help exit-codes`.
  -q         Only the essentials: `add` and `list` print ids; no next commands are suggested.
  --color    auto, always or never; NO_COLOR, CLICOLOR_FORCE and TERM=dumb are respected.

  Times are RFC 3339 in UTC in JSON, and local otherwise. Spans are a number and a unit: 30s, 10min,
  2h, 7d. Ids are `t12` or `12`. Control characters in texts are shown as a replacement character,
  and escaped in JSON.
  JSON keys may be added; renames and removals are listed in the change log.
";
