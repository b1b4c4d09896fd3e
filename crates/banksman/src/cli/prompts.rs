//! `banksman prompts`: lists, shows, checks and renders the prompts of agents.

mod render;

use std::path::Path;

use clap::Args;

use super::output::{Cell, cells, sanitize, sanitize_lines, table};
use super::{Context, Exit, Failure, NoArgs, Result, report};
use crate::api::error::FieldMessage;
use crate::api::prompt::{ListedPrompt, Prompt};
use crate::api::{self, Checked};
use crate::ops::error_report::Code;
use crate::ops::prompts::{
    PromptEntry, PromptFinding, find, lint as findings, list as listed, values,
};
use crate::prompts::{Prompts, built_in};

commands! {
    /// List, show, check and render the prompts of agents
    #[command(before_long_help = "Examples:
  banksman prompts list
  banksman prompts show worker
  banksman prompts render t12
  banksman prompts lint
")]
    pub(super) enum PromptsCommand(&Context) {
        /// List the prompt templates of this project
        #[command(before_long_help = "Examples:
  banksman prompts list
  banksman prompts list --json
")]
        List(NoArgs) => list,
        Show(ShowArgs) => show,
        /// Check the prompt templates of this project
        ///
        /// Checks that every placeholder is known and that no required one is missing. Prints
        /// nothing if all are valid; exits with 5 otherwise.
        #[command(before_long_help = "Examples:
  banksman prompts lint
  banksman prompts lint --json
")]
        Lint(NoArgs) => lint,
        Render(render::RenderArgs) => render::run,
    }
}

/// Show a template as this project uses it
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman prompts show worker
  banksman prompts show worker --builtin > .banksman/prompts/worker.md
  banksman prompts show reviewer --schema
")]
pub(super) struct ShowArgs {
    /// The template
    name: String,
    /// Show the built-in template, even if the project overrides it
    #[arg(long)]
    builtin: bool,
    /// Show the JSON schema of the answer that it asks for
    #[arg(long, conflicts_with = "builtin")]
    schema: bool,
}

fn list(context: &Context, _: &NoArgs) -> Result<Exit> {
    let list = listed(&of_project(context))?;
    context.out.answer(
        || {
            api::list(
                "prompts",
                list.iter().map(|one| ListedPrompt::new(one, origin(context, one.file.as_deref()))),
            )
        },
        || table(["NAME", "FROM", "ANSWER", "FOR"], list.iter().map(|one| row(context, one))),
    )?;
    Ok(context.out.next(&["prompts show NAME", "prompts render TASK"]))
}

fn of_project(context: &Context) -> Prompts {
    Prompts::of_project(&context.config.root)
}

pub(super) fn origin(context: &Context, file: Option<&Path>) -> String {
    file.map_or_else(|| "built-in".to_owned(), |file| context.below_root(file))
}

fn row(context: &Context, one: &PromptEntry) -> [Cell; 4] {
    let audience =
        if one.is_sound { one.audience.as_str() } else { "invalid, see `banksman prompts lint`" };
    let origin = origin(context, one.file.as_deref());
    cells([&one.name, &origin, &one.schema.unwrap_or_default(), &audience])
}

fn show(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let prompts = if args.builtin { Prompts::default() } else { of_project(context) };
    let source = match prompts.own_brief(&args.name)? {
        Some(own) => own,
        None => prompts.source(find(&args.name)?)?,
    };
    let built_in = built_in(&args.name);
    let schema = built_in.and_then(|built_in| built_in.schema);
    if args.schema {
        let Some(schema) = schema else {
            let message = format!("the prompt `{}` has no answer schema", sanitize(&args.name));
            let hint = "`banksman prompts list` shows which prompts have one";
            return Err(Failure::argument(message, hint));
        };
        return context.out.answer(|| schema.value(), || schema.text.to_owned());
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
    )
}

fn lint(context: &Context, _: &NoArgs) -> Result<Exit> {
    let found = findings(&of_project(context))?;
    let line = |PromptFinding { path, problem }: &PromptFinding| {
        let place = context.below_root(path);
        let text = format!("{place}:{}: {}; {}", problem.line, problem.message, problem.help);
        format!("{}\n", sanitize(&text))
    };
    let text = || found.iter().map(line).collect();
    let error = |PromptFinding { path, problem }: &PromptFinding| {
        FieldMessage::in_template(context.below_root(path), problem)
    };
    let errors = found.iter().map(error).collect();
    let checked = || Checked::new(Vec::new());
    report::findings(&context.out, Code::InvalidPrompt, errors, checked, text)
}
