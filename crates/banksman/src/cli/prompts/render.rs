//! `banksman prompts render`: prints the exact prompt that an agent would get for a task now.

use banksman_core::ids::TaskId;
use clap::Args;

use super::origin;
use crate::api::prompt::{Cut, RenderedPrompt};
use crate::cli::output::{sanitize, sanitize_lines};
use crate::cli::up::{self, PreviewRequest, PromptPreview};
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
    let wish = PreviewRequest { role: args.role.clone(), worker: args.worker.clone() };
    let rendered = up::preview(context, args.task, &wish)?;
    let told = &rendered.prompt;
    context.out.answer(|| document(context, &rendered), || sanitize_lines(&told.text))?;
    let from = origin(context, told.file.as_deref());
    context.out.say(&sanitize(&format!(
        "{} as {} in {}, from the template {} ({from}), {} bytes",
        args.task,
        rendered.role,
        rendered.state,
        told.template,
        told.text.len()
    )));
    for cut in &told.cuts {
        context.out.say(&sanitize(&format!("truncated: {}", cut.describe())));
    }
    for open in &rendered.open {
        context.out.say(&sanitize(&format!("known only after the claim: {open}")));
    }
    Ok(Exit::Done)
}

fn document<'a>(context: &Context, rendered: &'a PromptPreview) -> RenderedPrompt<'a> {
    let told = &rendered.prompt;
    RenderedPrompt {
        bytes: told.text.len(),
        cut: told.cuts.iter().map(Cut::new).collect(),
        open: &rendered.open,
        origin: origin(context, told.file.as_deref()),
        role: &rendered.role,
        schema: rendered.schema.as_ref(),
        state: &rendered.state,
        template: &told.template,
        text: &told.text,
        worker: rendered.worker.as_deref(),
    }
}
