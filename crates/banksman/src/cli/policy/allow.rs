//! `banksman policy allow`: grants the requested permission, and the task continues.

use clap::Args;

use crate::api::policy::Granted;
use crate::cli::arguments::ActorArgs;
use crate::cli::output::sanitize;
use crate::cli::{Context, Exit, Result};
use crate::ops::decisions::DecisionRef;
use crate::ops::policy;

/// Grant exactly the permission that a decision asks for, and continue the task
///
/// The permission covers this task and exactly this action. `banksman decisions show` prints the
/// request.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy allow d12
  banksman policy allow t12 --note 'only this once'
")]
pub(in crate::cli) struct AllowArgs {
    /// The decision or its task
    #[arg(value_name = "ID")]
    which: DecisionRef,
    /// Your text
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &AllowArgs) -> Result<Exit> {
    let session = context.session_as(&args.actor)?;
    let allowed = policy::allow(
        &session,
        args.which,
        args.note.as_deref(),
        context.config.grace,
        context.now,
    )?;
    let answered = allowed.answered.as_ref().map(|answered| answered.action.as_str());
    context.out.answer(
        || Granted::new(allowed.decision.to_string(), &allowed.actions, answered),
        || {
            let lines = allowed.actions.iter().map(|allowed| {
                let (word, what) = allowed.parts();
                format!("  {word} {}\n", sanitize(what))
            });
            let then = answered.map_or("; answer the decision to continue the task", |_| "");
            format!("{} grants{then}\n{}", allowed.decision, lines.collect::<String>())
        },
    )
}
