//! `banksman add`: a new task.

use std::path::PathBuf;

use banksman_core::ids::TaskId;
use banksman_core::limits;
use clap::Args;

use super::arguments::{ActorArgs, FieldArgs, When, when};
use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::files;
use super::output::shown;
use crate::api::dto::TransitionResponse;
use crate::ops::tasks::{self, AddRequest};

/// Add a task
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman add 'Fix the login'
  banksman add 'Fix the login' --body notes.md --tag bug --priority 2
  git log -5 | banksman add 'Write the release notes' --body -
  banksman add 'Deploy' --after t3 --after t4 --not-before 2h
  id=$(banksman add -q 'Fix the login')
")]
pub(super) struct AddArgs {
    /// What is to be done, on one line
    title: String,
    /// A file with the whole story; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// A word to find it by
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Higher goes first; one step is worth a day of waiting
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// A task that must be done first
    #[arg(long, value_name = "ID")]
    after: Vec<TaskId>,
    /// A task whose result is of interest
    #[arg(long, value_name = "ID")]
    informed_by: Vec<TaskId>,
    /// The task that this one is a part of
    #[arg(long, value_name = "ID")]
    parent: Option<TaskId>,
    /// What may happen to it, see `banksman lifecycle list`
    #[arg(long, value_name = "NAME")]
    lifecycle: Option<String>,
    /// The batch that it belongs to
    #[arg(long, value_name = "NAME")]
    batch: Option<String>,
    /// Nobody takes it before this time
    #[arg(long, value_name = "TIME|SPAN", value_parser = when)]
    not_before: Option<When>,
    /// Makes a repeated request harmless: the same key gives the same task
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &AddArgs) -> Result<Exit, Failure> {
    let body =
        args.body.as_deref().map(|path| files::read_text(path, limits::BODY_BYTES)).transpose()?;
    let store = context.store_or_new()?;
    let request = AddRequest {
        title: args.title.clone(),
        body: body.unwrap_or_default(),
        project: context.project(&store)?,
        lifecycle: args.lifecycle.clone().unwrap_or_else(|| context.config.lifecycle.clone()),
        batch: args.batch.clone(),
        tags: args.tags.clone(),
        priority: args.priority,
        parent: args.parent,
        after: args.after.clone(),
        informed_by: args.informed_by.clone(),
        fields: args.fields.fields()?,
        not_before: args.not_before.map(|when| when.from(context.now)),
        key: args.key.clone(),
    };
    let actor = context.actor(args.actor.actor.as_ref());
    let added = match tasks::add(&store, &context.library(), &actor, &request, context.now) {
        Ok(added) => added,
        Err(error) => return context.refused(error),
    };
    let view = tasks::view_of(&store, added.stored)?;
    let task = &view.stored.task;
    context.out.answer(
        || TransitionResponse::made(&view, added.entry.as_ref()),
        || {
            let state = view.stored.lifecycle.state(task.state);
            if context.out.quiet {
                return format!("{}\n", task.id);
            }
            let again = if added.replayed { "  (added before with this key)" } else { "" };
            format!(
                "{} {}  {}  {}{again}\n",
                context.out.signs.of(state.kind),
                task.id,
                state.name,
                shown(&task.title)
            )
        },
    )?;
    context.out.next(&[&format!("show {}", task.id), &format!("why {}", task.id)]);
    Ok(Exit::Done)
}
