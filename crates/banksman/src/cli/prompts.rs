//! `banksman prompts`: lists, shows, checks and renders the prompts of agents.

mod render;

use std::path::Path;

use clap::{Args, Subcommand};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, sanitize, sanitize_lines, table};
use crate::api::prompt::{ListedPrompt, Prompt};
use crate::api::{self, Problem};
use crate::ops::prompts::{
    PromptEntry, PromptFinding, find, lint as findings, list as listed, values,
};
use crate::prompts::{Prompts, built_in};

/// List, show, check and render the prompts of agents
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman prompts list
  banksman prompts show worker
  banksman prompts render t12
  banksman prompts lint
")]
pub(super) struct PromptsArgs {
    #[command(subcommand)]
    command: PromptsCommand,
}

#[derive(Debug, Subcommand)]
enum PromptsCommand {
    List(ListArgs),
    Show(ShowArgs),
    Lint(LintArgs),
    Render(render::RenderArgs),
}

/// List the prompt templates of this project
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman prompts list
  banksman prompts list --json
")]
struct ListArgs {}

/// Show a template as this project uses it
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman prompts show worker
  banksman prompts show worker --builtin > .banksman/prompts/worker.md
  banksman prompts show reviewer --schema
")]
struct ShowArgs {
    /// The template
    #[arg(value_name = "NAME")]
    name: String,
    /// Show the built-in template, even if the project overrides it
    #[arg(long)]
    builtin: bool,
    /// Show the JSON schema of the answer that it asks for
    #[arg(long, conflicts_with = "builtin")]
    schema: bool,
}

/// Check the prompt templates of this project
///
/// Checks that every placeholder is known and that no required one is missing. Prints nothing if
/// all are valid; exits with 5 otherwise.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman prompts lint
  banksman prompts lint --json
")]
struct LintArgs {}

pub(super) fn run(context: &Context, args: &PromptsArgs) -> Result<Exit, Failure> {
    match &args.command {
        PromptsCommand::List(_) => list(context),
        PromptsCommand::Show(args) => show(context, args),
        PromptsCommand::Lint(_) => lint(context),
        PromptsCommand::Render(args) => render::run(context, args),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let list = listed(&of_project(context))?;
    context.out.answer(
        || api::list("prompts", list.iter().map(|one| document(context, one))),
        || {
            let rows: Vec<Vec<Cell>> = list.iter().map(|one| row(context, one)).collect();
            table(&["NAME", "FROM", "ANSWER", "FOR"], &rows)
        },
    )?;
    context.out.next(&["prompts show NAME", "prompts render TASK"]);
    Ok(Exit::Done)
}

fn of_project(context: &Context) -> Prompts {
    Prompts::of_project(&context.config.root)
}

fn origin(context: &Context, file: Option<&Path>) -> String {
    file.map_or_else(|| "built-in".to_owned(), |file| below_root(context, file))
}

fn below_root(context: &Context, path: &Path) -> String {
    path.strip_prefix(&context.config.root).unwrap_or(path).display().to_string()
}

fn document<'a>(context: &Context, one: &'a PromptEntry) -> ListedPrompt<'a> {
    ListedPrompt::new(one, origin(context, one.file.as_deref()))
}

fn row(context: &Context, one: &PromptEntry) -> Vec<Cell> {
    let told =
        if one.is_sound { one.told.as_str() } else { "invalid, see `banksman prompts lint`" };
    vec![
        one.name.as_str().into(),
        origin(context, one.file.as_deref()).into(),
        one.schema.unwrap_or_default().into(),
        told.into(),
    ]
}

fn show(context: &Context, args: &ShowArgs) -> Result<Exit, Failure> {
    let prompts = if args.builtin { Prompts::default() } else { of_project(context) };
    let source = match prompts.own_brief(&args.name)? {
        Some(own) => own,
        None => prompts.source(find(&args.name)?)?,
    };
    let built_in = built_in(&args.name);
    let schema = built_in.and_then(|built_in| built_in.schema);
    if args.schema {
        let Some(schema) = schema else {
            return Err(Failure::Argument {
                message: format!("the prompt `{}` has no answer schema", sanitize(&args.name)),
                hint: "`banksman prompts list` shows which prompts have one".to_owned(),
            });
        };
        context.out.answer(|| schema.value(), || schema.text.to_owned())?;
        return Ok(Exit::Done);
    }
    let origin = origin(context, source.file.as_deref());
    context.out.answer(
        || Prompt {
            name: &source.name,
            origin: &origin,
            schema: schema.map(|schema| schema.name),
            text: &source.text,
            values: built_in.map(values).unwrap_or_default(),
        },
        || sanitize_lines(&source.text),
    )?;
    Ok(Exit::Done)
}

fn lint(context: &Context) -> Result<Exit, Failure> {
    let found = findings(&of_project(context))?;
    let line = |PromptFinding { path, problem }: &PromptFinding| {
        let place = below_root(context, path);
        let text = format!("{place}:{}: {}; {}", problem.line, problem.message, problem.help);
        format!("{}\n", sanitize(&text))
    };
    context.out.answer(
        || {
            api::checked(
                found.is_empty(),
                "findings",
                found.iter().map(|one| problem(context, one)),
            )
        },
        || found.iter().map(line).collect(),
    )?;
    Ok(if found.is_empty() { Exit::Done } else { Exit::Findings })
}

fn problem<'a>(context: &Context, finding: &'a PromptFinding) -> Problem<'a> {
    Problem::at(&below_root(context, &finding.path), &finding.problem)
}
