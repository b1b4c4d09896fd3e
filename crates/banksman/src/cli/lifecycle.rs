//! `banksman lifecycle`: lists, shows, checks and draws lifecycles.

mod graph;
mod lint;
mod show;

use clap::{Args, Subcommand};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, table};
use crate::api;
use crate::api::lifecycle::ListedLifecycle;
use crate::ops::library::{Library, LibraryError, LifecycleOrigin};

/// List, show, check and draw lifecycles
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle list
  banksman lifecycle show autonomous
  banksman lifecycle lint
  banksman lifecycle graph mission -o mission.svg
")]
pub(super) struct LifecycleArgs {
    #[command(subcommand)]
    command: LifecycleCommand,
}

#[derive(Debug, Subcommand)]
enum LifecycleCommand {
    List(ListArgs),
    Show(show::ShowArgs),
    Lint(lint::LintArgs),
    Graph(graph::GraphArgs),
}

/// List the lifecycles that this project can use
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle list
  banksman lifecycle list --json
")]
struct ListArgs {}

pub(super) fn run(context: &Context, args: &LifecycleArgs) -> Result<Exit, Failure> {
    match &args.command {
        LifecycleCommand::List(_) => list(context),
        LifecycleCommand::Show(args) => show::run(context, args),
        LifecycleCommand::Lint(args) => lint::run(context, args),
        LifecycleCommand::Graph(args) => graph::run(context, args),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let library = context.library();
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut documents = Vec::new();
    for (id, origin) in library.names()? {
        let (version, about) = summary(&library, &id)?;
        let origin = origin_text(context, &origin);
        rows.push(vec![
            id.as_str().into(),
            version.clone().unwrap_or_default().into(),
            origin.as_str().into(),
            about.as_str().into(),
        ]);
        documents.push(ListedLifecycle { about, id, ok: version.is_some(), origin, version });
    }
    context.out.answer(
        || api::list("lifecycles", documents),
        || table(&["NAME", "VERSION", "FROM", "ABOUT"], &rows),
    )?;
    context.out.next(&["lifecycle show NAME", "lifecycle graph NAME"]);
    Ok(Exit::Done)
}

/// The version and the description; an invalid lifecycle has no version.
fn summary(library: &Library, name: &str) -> Result<(Option<String>, String), Failure> {
    match library.definition(name) {
        Ok(definition) => {
            Ok((Some(definition.lifecycle.version.clone()), definition.lifecycle.about.clone()))
        }
        Err(LibraryError::Unsound(_)) => {
            Ok((None, "invalid, see `banksman lifecycle lint`".to_owned()))
        }
        Err(error @ (LibraryError::Unknown { .. } | LibraryError::Read { .. })) => {
            Err(error.into())
        }
    }
}

/// The origin of a lifecycle; a file is shown relative to the project's root.
fn origin_text(context: &Context, origin: &LifecycleOrigin) -> String {
    match origin {
        LifecycleOrigin::BuiltIn => "built-in".to_owned(),
        LifecycleOrigin::File(path) => {
            path.strip_prefix(&context.config.root).unwrap_or(path).display().to_string()
        }
    }
}
