//! `banksman add`: adds a task.

use std::path::PathBuf;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Field, Purpose};
use banksman_core::lifecycle::{Activity, State};
use banksman_core::limits;
use banksman_core::machine::NewTask;
use clap::Args;

use super::arguments::{ActorArgs, FieldArgs, When, when};
use super::output::sanitize;
use super::{Context, Exit, Result, files};
use crate::api::task::TransitionResponse;
use crate::ops::projects;
use crate::ops::tasks::{self, AddRequest};
use crate::store::Stored;

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
    /// The title, on one line
    title: String,
    /// Read the description from FILE; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Tag the task; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Higher runs first; one step outweighs one day of waiting
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// A task that must be done first; may be repeated
    #[arg(long, value_name = "ID")]
    after: Vec<TaskId>,
    /// A task whose result the agent is told; may be repeated
    #[arg(long, value_name = "ID")]
    informed_by: Vec<TaskId>,
    /// The parent task
    #[arg(long, value_name = "ID")]
    parent: Option<TaskId>,
    /// The lifecycle, see `banksman lifecycle list`
    #[arg(long, value_name = "NAME")]
    lifecycle: Option<String>,
    /// The batch to add the task to
    #[arg(long, value_name = "NAME")]
    batch: Option<String>,
    /// Start the task no earlier than this
    #[arg(long, value_name = "TIME|SPAN", value_parser = when)]
    not_before: Option<When>,
    /// Idempotency key: repeating the command with the same key returns the same task
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &AddArgs) -> Result<Exit> {
    let body =
        args.body.as_deref().map(|path| files::read_text(path, limits::BODY_BYTES)).transpose()?;
    let session = context.session_or_new(&args.actor)?;
    let new = NewTask {
        title: args.title.clone(),
        body: body.unwrap_or_default(),
        project: context.project(&session)?,
        batch: args.batch.clone(),
        tags: args.tags.clone(),
        priority: args.priority,
        parent: args.parent,
        fields: args.fields.fields()?,
        not_before: args.not_before.map(|when| when.from(context.now)),
        ..NewTask::default()
    };
    let request = AddRequest {
        new,
        lifecycle: args.lifecycle.clone().unwrap_or_else(|| context.config.lifecycle.clone()),
        after: args.after.clone(),
        informed_by: args.informed_by.clone(),
        key: args.key.clone(),
    };
    let added = tasks::add(&session, &context.library(), &request, context.now)?;
    let view = tasks::view_of(&session, added.stored)?;
    let task = &view.stored.task;
    context.out.answer(
        || TransitionResponse::made(&view, added.entry.as_ref()),
        || {
            let state = view.stored.lifecycle.state(task.state);
            if context.out.quiet {
                return format!("{}\n", task.id);
            }
            let again = if added.replayed { "  (already added with this key)" } else { "" };
            format!(
                "{} {}  {}  {}{again}\n",
                context.out.symbols.of(state.kind),
                task.id,
                state.name,
                sanitize(&task.title)
            )
        },
    )?;
    if !projects::is_set_up(&session, &task.project)? {
        let name = &task.project;
        context.out.say(&format!(
            "note: no folder is set up as the project `{name}`, so no agent starts; run `banksman \
             init` in its repository, or name another project with --project"
        ));
    }
    if is_unproven(context, &view.stored) {
        context.out.say(
            "note: no checks are set, so others judge whether the work is done; set \
             `verify.commands` in .banksman/config.toml, or give a task its own with \
             --set verify='[\"COMMAND\"]'",
        );
    }
    Ok(context.out.next(&[&format!("show {}", task.id), &format!("why {}", task.id)]))
}

/// Whether an agent works on the task, and nothing is set that could prove its work. Of another
/// project than that of this folder, the settings are not known here.
fn is_unproven(context: &Context, stored: &Stored) -> bool {
    let works =
        |state: &State| state.does.as_ref().is_some_and(|does| does.activity == Activity::Agent);
    let has_own = !stored.list(Field::Verify).is_empty();
    let config = &context.config;
    config.project.is_none()
        && config.agents.verify.commands.is_empty()
        && !has_own
        && stored.lifecycle.purpose == Purpose::Task
        && stored.lifecycle.states.iter().any(works)
}
