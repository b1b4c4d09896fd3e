//! `banksman move`: requests a transition of a task.

use banksman_core::ids::TaskId;
use banksman_core::machine::Record;
use clap::Args;

use super::arguments::{ActorArgs, FieldArgs};
use super::output::sanitize;
use super::symbols::{Symbols, local};
use super::{Context, Exit, Result};
use crate::api::task::TransitionResponse;
use crate::ops::Session;
use crate::ops::remedy::refused_account;
use crate::ops::tasks::{self, MoveRequest};
use crate::store::Applied;

/// Move a task to another state
///
/// A refused move changes nothing, exits with 1, and prints what is missing and which moves are
/// allowed.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman move t12 active --as worker:ada
  banksman move t12 blocked --set unblock_condition='the key has arrived'
  banksman move t12 --on approve
  banksman move t12 cancelled --set reason='not needed' --key cancel-t12
")]
pub(super) struct MoveArgs {
    /// The task
    id: TaskId,
    /// The target state; optional with --on
    #[arg(value_name = "STATE", required_unless_present = "trigger")]
    to: Option<String>,
    /// The trigger, if several lead to the same state
    #[arg(long = "on", value_name = "TRIGGER", id = "trigger")]
    trigger: Option<String>,
    /// Idempotency key: repeating the command with the same key returns the first answer
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Move only if the task still has this version
    #[arg(long, value_name = "N")]
    version: Option<i64>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &MoveArgs) -> Result<Exit> {
    let request = MoveRequest {
        to: args.to.clone(),
        trigger: args.trigger.clone(),
        fields: args.fields.fields()?,
        key: args.key.clone(),
        version: args.version,
    };
    let session = context.session_as(&args.actor)?;
    let moved = tasks::move_task(&session, args.id, &request, context.now)?;
    print(context, &session, args.id, moved)
}

/// Prints a move, and what to type next about its task.
pub(super) fn print(
    context: &Context,
    session: &Session,
    id: TaskId,
    moved: Applied,
) -> Result<Exit> {
    show(context, session, moved, &[&format!("show {id}"), &format!("why {id}")])
}

/// Says that the next run waits for an account whose login was refused.
pub(super) fn say_pause(context: &Context, session: &Session, id: TaskId) -> Result<()> {
    if let Some((account, until)) = refused_account(session, id, context.now)? {
        context.out.say(&format!(
            "its account {} is paused until {}; after a login, `banksman accounts resume {}` ends that",
            sanitize(&account),
            local(until),
            sanitize(&account)
        ));
    }
    Ok(())
}

/// Prints the result of a move, and what to type next.
pub(super) fn show(
    context: &Context,
    session: &Session,
    moved: Applied,
    next: &[&str],
) -> Result<Exit> {
    let id = moved.stored.task.id;
    let view = tasks::view_of(session, moved.stored)?;
    context.out.answer(
        || TransitionResponse::made(&view, moved.entry.as_ref()),
        || {
            let symbols = context.out.symbols;
            let record = moved.entry.as_ref().map(|entry| &entry.record);
            let (sign, how) = (symbols.of(view.stored.state().kind), transition(symbols, record));
            let by = record.map(|record| format!(" ({})", record.trigger)).unwrap_or_default();
            format!("{sign} {id}  {how}{by}{}\n", again(moved.replayed))
        },
    )?;
    Ok(context.out.next(next))
}

/// What a move changed, and who made it.
pub(super) fn transition(symbols: Symbols, record: Option<&Record>) -> String {
    let Some(record) = record else { return "unchanged".to_owned() };
    let from = record.from.as_deref().unwrap_or_default();
    format!("{from} {} {} by {}", symbols.arrow(), record.to, record.actor)
}

/// Marks an answer that an earlier request with the same key has got.
pub(super) fn again(is_replayed: bool) -> &'static str {
    if is_replayed { "  (already done with this key)" } else { "" }
}
