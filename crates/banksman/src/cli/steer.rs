//! `banksman retry`, `unblock`, `cancel` and `escalate`: the most common moves, by name.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Note, Trigger};
use clap::Args;

use super::arguments::ActorArgs;
use super::{Context, Exit, Result, moves};
use crate::ops::policy;
use crate::ops::tasks;

/// Try a failed or blocked task again
///
/// If the task already waits for a retry, the retry starts now. If its finished work waits for a
/// judge, only the judgement is tried again.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman retry t12
  banksman retry t12 --confirm 'the network is back'
")]
pub(super) struct RetryArgs {
    /// The task
    id: TaskId,
    /// Why it should succeed this time; some lifecycles demand it
    #[arg(long, value_name = "TEXT")]
    confirm: Option<String>,
}

/// Continue a blocked task
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman unblock t12
  banksman unblock t12 'take the MIT licence'
")]
pub(super) struct UnblockArgs {
    /// The task
    id: TaskId,
    /// Your words for the agent, added to its next prompt; some lifecycles demand them
    #[arg(value_name = "TEXT")]
    note: Option<String>,
}

/// Cancel a task; its agent is stopped and its work is kept under a rescue ref
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman cancel t12 'no longer needed'
")]
pub(super) struct CancelArgs {
    /// The task
    id: TaskId,
    /// The reason
    reason: String,
}

/// Ask a person about a task, where its lifecycle allows that
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman escalate t12 'this needs a larger budget'
")]
pub(super) struct EscalateArgs {
    /// The task
    id: TaskId,
    /// The question to decide
    reason: String,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn escalate(context: &Context, args: &EscalateArgs) -> Result<Exit> {
    let session = context.session_as(&args.actor)?;
    let moved = policy::escalate(&session, args.id, &args.reason, context.now)?;
    moves::show(context, &session, moved, &["decisions"])
}

pub(super) fn retry(context: &Context, args: &RetryArgs) -> Result<Exit> {
    let session = context.session()?;
    let moved = tasks::retry(&session, args.id, args.confirm.as_deref(), context.now)?;
    if moved
        .entry
        .as_ref()
        .is_some_and(|entry| entry.record.trigger.parse() == Ok(Note::DelaySkipped))
    {
        context.out.say("retrying now instead of waiting");
    }
    moves::print(context, &session, args.id, moved)
}

pub(super) fn unblock(context: &Context, args: &UnblockArgs) -> Result<Exit> {
    steer(context, args.id, Trigger::Unblock, args.note.as_deref())
}

pub(super) fn cancel(context: &Context, args: &CancelArgs) -> Result<Exit> {
    steer(context, args.id, Trigger::Cancel, Some(&args.reason))
}

fn steer(context: &Context, id: TaskId, trigger: Trigger, words: Option<&str>) -> Result<Exit> {
    let session = context.session()?;
    let moved = tasks::steer(&session, id, trigger, words, context.now)?;
    if trigger == Trigger::Unblock {
        moves::say_pause(context, &session, id)?;
    }
    moves::print(context, &session, id, moved)
}
