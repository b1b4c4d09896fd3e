//! `banksman import`: adds tasks from lines of JSON.

use std::path::PathBuf;

use clap::Args;

use super::arguments::ActorArgs;
use super::output::sanitize;
use super::{Context, Exit, Result, files};
use crate::api;
use crate::ops::transfer::{self, Defaults, Imported};

/// Add tasks from lines of JSON, as `banksman export` writes them
///
/// Tasks get new ids, and `needs` and `parent` are adjusted. A line that was imported before is not
/// added twice, so a failed import can be repeated.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman import tasks.jsonl
  echo '{\"title\":\"Fix the login\"}' | banksman import
")]
pub(super) struct ImportArgs {
    /// The file; `-` reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &ImportArgs) -> Result<Exit> {
    let input = files::open(&args.file)?;
    let session = context.session_or_new(&args.actor)?;
    let project = context.project(&session)?;
    let defaults = Defaults { project: &project, lifecycle: &context.config.lifecycle };
    let imported = transfer::import(&session, &context.library(), &defaults, input, context.now)?;
    context.out.answer(
        || api::list("imported", imported.iter().map(api::task::Imported::new)),
        || imported.iter().map(|task| line(context, task)).collect(),
    )?;
    let known = imported.iter().filter(|task| task.known).count();
    context
        .out
        .say(&format!("{} imported, {known} skipped as already imported", imported.len() - known));
    Ok(Exit::Done)
}

fn line(context: &Context, task: &Imported) -> String {
    let from = task
        .from
        .as_deref()
        .map(|from| format!("{} {} ", sanitize(from), context.out.symbols.arrow()))
        .unwrap_or_default();
    let known = if task.known { "  (already imported)" } else { "" };
    if context.out.quiet { format!("{}\n", task.to) } else { format!("{from}{}{known}\n", task.to) }
}
