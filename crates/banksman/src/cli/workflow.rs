//! `banksman workflow`: checks, draws, simulates and runs files of steps and gates, and drives
//! manual workflows.

mod graph;
mod lint;
mod next;
mod report;
mod run;
mod schema;
mod simulate;
mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use crate::ops::Session;
use crate::ops::projects;
use crate::ops::workflows::Params;

/// Check, simulate and run workflows: files of steps and gates
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow lint                          check everything in .workflow/specs
  banksman workflow simulate phase-4.yaml         simulate it, starting nothing
  banksman workflow run phase-4.yaml              create its tasks and run agents on them
  banksman workflow status                        show its progress
  banksman workflow report XG-2-end pass          answer a gate
  banksman workflow graph -o phase-4.svg          draw its current state
")]
pub(super) struct WorkflowArgs {
    #[command(subcommand)]
    command: WorkflowCommand,
}

#[derive(Debug, Subcommand)]
enum WorkflowCommand {
    Lint(lint::LintArgs),
    Simulate(simulate::SimulateArgs),
    Run(run::RunArgs),
    Status(status::StatusArgs),
    Next(next::NextArgs),
    Report(report::ReportArgs),
    Graph(graph::GraphArgs),
    Schema(schema::SchemaArgs),
}

/// A started workflow.
#[derive(Debug, Args)]
struct WhichArgs {
    /// The workflow: its name, or the id of its task or of one of its steps [default: the last one
    /// started]
    #[arg(value_name = "WORKFLOW")]
    workflow: Option<String>,
}

/// Values for the parameters of a file.
#[derive(Debug, Args)]
struct ParamArgs {
    /// Set a parameter of the file; may be repeated
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
}

impl ParamArgs {
    fn params(&self) -> Result<Params, Failure> {
        let mut params = Params::new();
        for given in &self.params {
            let Some((name, value)) = given.split_once('=') else {
                return Err(Failure::Argument {
                    message: format!("`{given}` is not of the form NAME=VALUE"),
                    hint: "write --param NAME=VALUE".to_owned(),
                });
            };
            if params.insert(name.to_owned(), value.into()).is_some() {
                return Err(Failure::Argument {
                    message: format!("the parameter `{name}` appears twice"),
                    hint: "keep one of them".to_owned(),
                });
            }
        }
        Ok(params)
    }

    /// The parameters as flags, for a suggested command.
    fn as_flags(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "=._,:/-".contains(c);
        let one = |given: &String| match given.split_once('=') {
            Some((name, _)) if !given.chars().all(is_plain) => format!(" --param {name}=VALUE"),
            Some(_) | None => format!(" --param {given}"),
        };
        self.params.iter().map(one).collect()
    }
}

/// One or more files.
#[derive(Debug, Args)]
struct FileArgs {
    /// The file; several if their steps depend on each other
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    params: ParamArgs,
}

/// The project of the current folder: step ids such as `X-1` repeat across repositories. None
/// outside all projects.
fn project_here(context: &Context, session: &Session) -> Result<Option<String>, Failure> {
    match &context.config.project {
        Some(name) => Ok(Some(name.clone())),
        None => Ok(projects::at(session, &context.config.folder)?),
    }
}

pub(super) fn run(context: &Context, args: &WorkflowArgs) -> Result<Exit, Failure> {
    match &args.command {
        WorkflowCommand::Lint(args) => lint::run(context, args),
        WorkflowCommand::Simulate(args) => simulate::run(context, args),
        WorkflowCommand::Run(args) => run::run(context, args),
        WorkflowCommand::Status(args) => status::run(context, args),
        WorkflowCommand::Next(args) => next::run(context, args),
        WorkflowCommand::Report(args) => report::run(context, args),
        WorkflowCommand::Graph(args) => graph::run(context, args),
        WorkflowCommand::Schema(args) => schema::run(context, args),
    }
}
