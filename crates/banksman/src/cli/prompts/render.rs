//! `banksman prompts render`: exactly what an agent would be told about a task now.

use banksman_core::ids::TaskId;
use banksman_core::prompt::Truncation;
use clap::Args;
use serde_json::{Value, json};

use super::origin;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::{shown, shown_lines};
use crate::cli::up::Parts;
use crate::engine::{PreviewRequest, PromptPreview};

/// Show exactly what an agent would be told about a task now
///
/// The words come from where a run gets them. Nothing is claimed, started or changed; what is not
/// known before the claim is named on stderr.
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
    /// For this part or reviewer, whatever state the task is in
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// As if this worker of this machine took it
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
}

pub(super) fn run(context: &Context, args: &RenderArgs) -> Result<Exit, Failure> {
    // A store that is not there is not made by looking.
    drop(context.store()?);
    let parts = Parts::of(&context.config)?;
    let wish = PreviewRequest { role: args.role.clone(), worker: args.worker.clone() };
    let now = parts.store.now(context.now)?;
    let is_known =
        |name: &String| parts.terms.workers.iter().any(|setup| setup.worker.name == *name);
    let hint = match &args.worker {
        Some(name) if !is_known(name) => "`banksman workers` lists those there are".to_owned(),
        Some(_) | None => format!("`banksman why {}` says what it waits for", args.task),
    };
    let rendered = parts.engine().render(args.task, &wish, now)?;
    let rendered = rendered.map_err(|message| Failure::Input { message, hint })?;
    let told = &rendered.told;
    context.out.answer(|| document(context, &rendered), || shown_lines(&told.text))?;
    let from = origin(context, told.file.as_deref());
    context.out.say(&shown(&format!(
        "{} as {} in {}, by the template {} ({from}), {} bytes",
        args.task,
        rendered.role,
        rendered.state,
        told.template,
        told.text.len()
    )));
    for cut in &told.cuts {
        context.out.say(&shown(&format!("left out: {}", cut.describe())));
    }
    for open in &rendered.open {
        context.out.say(&shown(&format!("known only when it is claimed: {open}")));
    }
    Ok(Exit::Done)
}

fn document(context: &Context, rendered: &PromptPreview) -> Value {
    let told = &rendered.told;
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
