//! `banksman lifecycle graph`: draws a lifecycle.

use std::path::PathBuf;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::graph::{mermaid, svg};
use clap::{Args, ValueEnum};

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::files;

/// Draw a lifecycle, or the one of a task with its state marked
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle graph autonomous
  banksman lifecycle graph mission --format svg > mission.svg
  banksman lifecycle graph --task t12 -o t12.svg
")]
pub(super) struct GraphArgs {
    /// The lifecycle
    #[arg(value_name = "NAME", required_unless_present = "task")]
    name: Option<String>,
    /// Mermaid text or an SVG picture; the file's ending decides if left out
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Draw the lifecycle that this task lives by, and mark its state
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// A file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Mermaid,
    Svg,
}

pub(super) fn run(context: &Context, args: &GraphArgs) -> Result<Exit, Failure> {
    let (lifecycle, current) = match (args.task, &args.name) {
        (Some(id), name) => {
            let stored = context.store()?.task(id)?;
            if name.as_ref().is_some_and(|name| *name != stored.lifecycle.id) {
                let message = format!("{id} lives by the lifecycle {}", stored.lifecycle.id);
                return Err(Failure::Argument {
                    message,
                    hint: "leave the name out when a task is given".to_owned(),
                });
            }
            (stored.lifecycle, Some(stored.task.state))
        }
        (None, name) => {
            (context.library().definition(name.as_deref().unwrap_or_default())?.lifecycle, None)
        }
    };
    let is_svg_file =
        args.output.as_ref().is_some_and(|path| path.extension().is_some_and(|end| end == "svg"));
    let format = args.format.unwrap_or(if is_svg_file { Format::Svg } else { Format::Mermaid });
    let drawing = match format {
        Format::Mermaid => mermaid(&lifecycle, current),
        Format::Svg => svg(&lifecycle, current),
    };
    let written = match &args.output {
        Some(path) => {
            files::write(path, |out| out.write_all(drawing.as_bytes()).map_err(Failure::Output))
        }
        None => context.out.text(&drawing),
    };
    written.map(|()| Exit::Done)
}
