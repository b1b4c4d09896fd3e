//! `banksman changes`: the feed of the store, one line per change.

use clap::Args;

use super::output::{json_line, sanitize};
use super::symbols::local;
use super::{Context, Exit, Result, hints};
use crate::api::changes as dto;
use crate::ops::changes::{self, Request};
use crate::store::feed::{Change, ChangeDetail};

/// List what changed in the store, oldest first
///
/// Tasks that were created or moved, runs, decisions and notices, each once and in an order that
/// never changes. With `--json`, each line is a document with its cursor: keep the cursor of the
/// last line that you have handled and pass it to `--after`, and you miss nothing and get nothing
/// twice. Changes are kept for 30 days.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman changes --limit 20
  banksman changes -f
  banksman changes --json --follow --after \"$(banksman changes --end)\" | while read -r line; do …
")]
pub(super) struct ChangesArgs {
    /// Continue after this change
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Stop after N changes
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Wait for more changes at the end
    #[arg(short, long)]
    follow: bool,
    /// Print only the cursor of the latest change; nothing if there is none
    #[arg(long, conflicts_with_all = ["after", "limit", "follow"])]
    end: bool,
}

pub(super) fn run(context: &Context, args: &ChangesArgs) -> Result<Exit> {
    let session = context.session()?;
    if args.end {
        let end = changes::end(&session)?.map(|cursor| cursor.to_string());
        let text = || end.as_ref().map(|cursor| format!("{cursor}\n")).unwrap_or_default();
        return context.out.answer(|| end.clone(), text);
    }
    let after = match args.after.as_deref() {
        None | Some("") => None,
        Some(text) => Some(changes::cursor(text)?),
    };
    let request = Request { after, limit: args.limit, follow: args.follow };
    changes::read(&session, request, |page| context.out.text(&lines(context, page)).map(drop))?;
    Ok(Exit::Done)
}

fn lines(context: &Context, page: &[Change]) -> String {
    let line = |change| match context.out.json {
        true => json_line(&dto::Change::new(change)),
        false => line(context, change),
    };
    page.iter().map(|change| line(change) + "\n").collect()
}

fn line(context: &Context, change: &Change) -> String {
    let task = change.task.map(|task| task.to_string()).unwrap_or_default();
    let detail = match &change.detail {
        ChangeDetail::Record { from, to, trigger, actor, .. } => {
            let from = from.as_ref().filter(|from| *from != to);
            let arrow = context.out.symbols.arrow();
            let from = from.map(|from| format!("{from} {arrow} ")).unwrap_or_default();
            format!("{from}{to} ({trigger} by {actor})")
        }
        ChangeDetail::Run { run, worker, outcome } => {
            let outcome = outcome.as_deref().map(|outcome| format!(": {outcome}"));
            format!("{run} of {worker}{}", outcome.unwrap_or_default())
        }
        ChangeDetail::Decision { id, asks, settled_by } => {
            let by = settled_by.as_deref().map(|by| format!(" (by {by})"));
            format!("{id}: {asks}{}", by.unwrap_or_default())
        }
        ChangeDetail::Notice(notice) => hints::notice(notice),
    };
    let (at, kind) = (local(change.at), change.kind.as_str());
    let one_line = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    sanitize(format!("{at}  {kind:<17}  {task:<5}  {one_line}").trim_end())
}
