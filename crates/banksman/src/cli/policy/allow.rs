//! `banksman policy allow`: a person gives leave for exactly what was asked, and the task goes on.

use clap::Args;
use serde_json::json;

use crate::cli::arguments::ActorArgs;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::shown;
use crate::ops::decisions::DecisionRef;
use crate::ops::policy;

/// Allow exactly what a decision asks for, and let the task go on
///
/// The leave holds for this task and for these very words. `banksman decisions show` has the
/// request.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy allow d12
  banksman policy allow t12 --note 'only this once'
")]
pub(super) struct AllowArgs {
    /// The decision, or its task
    #[arg(value_name = "ID")]
    which: DecisionRef,
    /// Your words
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &AllowArgs) -> Result<Exit, Failure> {
    let store = context.store()?;
    context.no_run_decides(&store, args.which)?;
    let actor = context.actor(args.actor.actor.as_ref());
    let allowed = match policy::allow(&store, &actor, args.which, args.note.as_deref(), context.now)
    {
        Ok(allowed) => allowed,
        Err(error) => return context.refused(error),
    };
    let action = allowed.answered.as_ref().map(|answered| answered.action.clone());
    context.out.answer(
        || json!({ "decision": allowed.decision.to_string(), "actions": allowed.actions, "answered": action }),
        || {
            let lines = allowed.actions.iter().map(|allowed| {
                let (word, what) = allowed.parts();
                format!("  {word} {}\n", shown(what))
            });
            let then = action.as_ref().map_or("; answer the decision to let it go on", |_| "");
            format!("{} allows{then}\n{}", allowed.decision, lines.collect::<String>())
        },
    )?;
    Ok(Exit::Done)
}
