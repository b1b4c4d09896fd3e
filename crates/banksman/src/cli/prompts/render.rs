//! `banksman prompts render`: prints the exact prompt that an agent would get for a task now.

use banksman_core::ids::TaskId;
use banksman_core::prompt::Truncation;
use clap::Args;
use serde_json::{Value, json};

use super::origin;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::{sanitize, sanitize_lines};
use crate::cli::up::Runtime;
use crate::engine::{PreviewRequest, PromptPreview};

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
pub(super) struct RenderArgs {
    /// The task
    #[arg(value_name = "TASK")]
    task: TaskId,
    /// Render for this role or reviewer, whatever state the task is in
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Render as if this worker of this machine took the task
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
}

pub(super) fn run(context: &Context, args: &RenderArgs) -> Result<Exit, Failure> {
    // Rendering must not create a missing store.
    drop(context.store()?);
    let runtime = Runtime::of(&context.config)?;
    let wish = PreviewRequest { role: args.role.clone(), worker: args.worker.clone() };
    let now = runtime.store.now(context.now)?;
    let is_known = |name: &String| {
        runtime.engine_config.workers.iter().any(|setup| setup.worker.name == *name)
    };
    let hint = match &args.worker {
        Some(name) if !is_known(name) => "`banksman workers` lists the workers".to_owned(),
        Some(_) | None => format!("`banksman why {}` explains what it waits for", args.task),
    };
    let rendered = runtime.engine().render(args.task, &wish, now)?;
    let rendered = rendered.map_err(|message| Failure::Input { message, hint })?;
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

fn document(context: &Context, rendered: &PromptPreview) -> Value {
    let told = &rendered.prompt;
    let cut = |cut: &Truncation| json!({ "part": cut.part, "leftOut": cut.left_out, "of": cut.of });
    json!({
        "template": told.template,
        "origin": origin(context, told.file.as_deref()),
        "state": rendered.state,
        "role": rendered.role,
        "worker": rendered.worker,
        "text": told.text,
        "bytes": told.text.len(),
        "schema": rendered.schema,
        "cut": told.cuts.iter().map(cut).collect::<Vec<_>>(),
        "open": rendered.open,
    })
}
