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

use clap::Args;

use super::{Context, Failure, NoArgs, Result};
use crate::ops::Session;
use crate::ops::projects;
use crate::ops::workflows::{self, Params, WorkflowStatus};

commands! {
    /// Check, simulate and run workflows: files of steps and gates
    #[command(before_long_help = "Examples:
  banksman workflow lint                          check everything in .workflow/specs
  banksman workflow simulate phase-4.yaml         simulate it, starting nothing
  banksman workflow run phase-4.yaml              create its tasks and run agents on them
  banksman workflow status                        show its progress
  banksman workflow report XG-2-end pass          answer a gate
  banksman workflow graph -o phase-4.svg          draw its current state
")]
    pub(super) enum WorkflowCommand(&Context) {
        Lint(lint::LintArgs) => lint::run,
        Simulate(simulate::SimulateArgs) => simulate::run,
        Run(run::RunArgs) => run::run,
        Status(status::StatusArgs) => status::run,
        Next(next::NextArgs) => next::run,
        Report(report::ReportArgs) => report::run,
        Graph(graph::GraphArgs) => graph::run,
        /// Print the JSON schema of workflow files, for editors
        ///
        /// Editors with a YAML language server complete and explain the keys of a file that starts
        /// with `# yaml-language-server: $schema=workflow.schema.json`.
        #[command(before_long_help = "Examples:
  banksman workflow schema > .workflow/workflow.schema.json
")]
        Schema(NoArgs) => schema::run,
    }
}

/// A started workflow.
#[derive(Debug, Args)]
struct WhichArgs {
    /// The workflow: its name, or the id of its task or of one of its steps [default: the last one
    /// started]
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
    fn params(&self) -> Result<Params> {
        let mut params = Params::new();
        for given in &self.params {
            let Some((name, value)) = given.split_once('=') else {
                let message = format!("`{given}` is not of the form NAME=VALUE");
                return Err(Failure::argument(message, "write --param NAME=VALUE"));
            };
            if params.insert(name.to_owned(), value.into()).is_some() {
                let message = format!("the parameter `{name}` appears twice");
                return Err(Failure::argument(message, "keep one of them"));
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

/// The state of a started workflow: the named one, or the last one of this project.
fn standing(context: &Context, session: &Session, name: Option<&str>) -> Result<WorkflowStatus> {
    let project = project_here(context, session)?;
    let found = workflows::find(session, project.as_deref(), name)?;
    Ok(workflows::status(session, &context.config.agents, found)?)
}

/// The project of the current folder: step ids such as `X-1` repeat across repositories. None
/// outside all projects.
fn project_here(context: &Context, session: &Session) -> Result<Option<String>> {
    match &context.config.project {
        Some(name) => Ok(Some(name.clone())),
        None => Ok(projects::at(session, &context.config.folder)?),
    }
}
