//! `banksman lifecycle graph`: draws a lifecycle.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::graph::graph;
use clap::Args;

use crate::cli::drawing::DrawingArgs;
use crate::cli::{Context, Exit, Failure, Result};
use crate::ops::tasks;

/// Draw a lifecycle, or a task's lifecycle with its state marked
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle graph autonomous
  banksman lifecycle graph mission --format svg > mission.svg
  banksman lifecycle graph --task t12 -o t12.svg
")]
pub(in crate::cli) struct GraphArgs {
    /// The lifecycle
    #[arg(value_name = "NAME", required_unless_present = "task")]
    name: Option<String>,
    /// Draw the lifecycle of this task, and mark its state
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    #[command(flatten)]
    drawing: DrawingArgs,
}

pub(super) fn run(context: &Context, args: &GraphArgs) -> Result<Exit> {
    let (lifecycle, current) = match (args.task, &args.name) {
        (Some(id), name) => {
            let stored = tasks::find(&context.session()?, id)?;
            if name.as_ref().is_some_and(|name| *name != stored.lifecycle.id) {
                let message = format!("{id} has the lifecycle {}", stored.lifecycle.id);
                return Err(Failure::argument(message, "omit the name when you pass --task"));
            }
            (stored.lifecycle, Some(stored.task.state))
        }
        (None, name) => {
            (context.library().definition(name.as_deref().unwrap_or_default())?.lifecycle, None)
        }
    };
    args.drawing.draw(context, &graph(&lifecycle, current))
}
