//! `banksman lifecycle`: lists, shows, checks and draws lifecycles.

mod graph;
mod lint;
mod show;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, table};
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
    let mut documents: Vec<Value> = Vec::new();
    for (name, origin) in library.names()? {
        let (version, about) = summary(&library, &name)?;
        let origin = origin_text(context, &origin);
        documents.push(json!({
            "id": name,
            "version": version,
            "origin": origin,
            "about": about,
            "ok": version.is_some(),
        }));
        rows.push(vec![
            name.into(),
            version.unwrap_or_default().into(),
            origin.into(),
            about.into(),
        ]);
    }
    context.out.answer(
        || json!({ "lifecycles": documents }),
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
