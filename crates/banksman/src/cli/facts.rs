//! `banksman override`: says what the system has no proof of.

use banksman_core::ids::TaskId;
use clap::Args;

use super::arguments::{ActorArgs, field, fields_of};
use super::{Context, Exit, Result, moves};
use crate::ops::tasks;

/// Override a fact that the system has not found out
///
/// Facts, such as `merged` or the pull request, come from what Banksman has seen itself. If you
/// know better, say so with your name and a reason: both stay in the history, and the task shows
/// that the fact is not proven. The state stays; move the task or answer its question afterwards.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman override t12 merged=true --reason 'merged by hand, see #41'
  banksman override t12 pr_url=https://example.org/41 --reason 'opened it' --as human:kim
")]
pub(super) struct OverrideArgs {
    /// The task
    id: TaskId,
    /// The facts
    #[arg(value_name = "FACT=VALUE", required = true, value_parser = field)]
    facts: Vec<(String, String)>,
    /// How you know
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &OverrideArgs) -> Result<Exit> {
    let facts = fields_of(&args.facts)?;
    let session = context.session_as(&args.actor)?;
    let made = tasks::override_facts(&session, args.id, &facts, &args.reason, context.now)?;
    moves::print(context, &session, args.id, made)
}
