//! `banksman prompts render`: prints the exact prompt that an agent would get for a task now.

use banksman_core::ids::TaskId;
use clap::Args;

use crate::api::prompt::RenderedPrompt;
use crate::cli::output::{sanitize, sanitize_lines};
use crate::cli::up;
use crate::cli::{Context, Exit, Result};

/// Print the exact prompt that an agent would get for a task now
///
/// It uses the code that a run uses, but claims, starts and changes nothing. Values that are known
/// only after the claim are listed on stderr.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman prompts render t12
  banksman prompts render t12 --role critic     as a reviewer of a panel
  banksman prompts render t12 --worker claude   as if this worker took it
")]
pub(in crate::cli) struct RenderArgs {
    /// The task
    task: TaskId,
    /// Render for this role or reviewer, whatever state the task is in
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Render as if this worker of this machine took the task
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
}

pub(super) fn run(context: &Context, args: &RenderArgs) -> Result<Exit> {
    let rendered = up::preview(context, args.task, args.role.clone(), args.worker.clone())?;
    context.out.answer(|| &rendered, || sanitize_lines(&rendered.text))?;
    let RenderedPrompt { role, state, template, origin, bytes, .. } = &rendered;
    context.out.say(&sanitize(&format!(
        "{} as {role} in {state}, from the template {template} ({origin}), {bytes} bytes",
        args.task
    )));
    for cut in &rendered.cut {
        context.out.say(&sanitize(&format!("truncated: {}", cut.words)));
    }
    for open in &rendered.open {
        context.out.say(&sanitize(&format!("known only after the claim: {open}")));
    }
    Ok(Exit::Done)
}
