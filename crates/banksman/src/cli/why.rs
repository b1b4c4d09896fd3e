//! `banksman why`: explains what a task waits for.

use banksman_core::ids::TaskId;
use clap::Args;

use super::output::{Cell, cells, sanitize, table};
use super::symbols::{local, with_local_times};
use super::{Context, Exit, Result, hints};
use crate::api::task::Why;
use crate::ops::why;

/// Explain what a task waits for
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman why t12
  banksman why t12 --json
")]
pub(super) struct WhyArgs {
    /// The task
    id: TaskId,
}

pub(super) fn run(context: &Context, args: &WhyArgs) -> Result<Exit> {
    let agents = &context.config.agents;
    let bounds = why::WhyLimits {
        total: agents.limits.total,
        accounts: agents.accounts.clone(),
        lanes: agents.lanes.clone(),
        day: agents.budgets.day,
        task: agents.budgets.task,
    };
    let why = why::why(&context.session()?, args.id, &bounds, context.now)?;
    context.out.answer(|| Why::new(&why, hints::next_step(&why.next)), || text(&why))
}

fn text(why: &why::Explanation) -> String {
    let mut text = format!("{} is in {}\n", why.task, why.state);
    if !why.waiting_for.is_empty() {
        let row = |waiting: &why::WaitReason| {
            let until = waiting.until.map(local).unwrap_or_default();
            let who = waiting.who.as_deref().unwrap_or_default();
            cells([&waiting.kind, &until, &who, &Cell::lines(&with_local_times(&waiting.detail))])
        };
        text.push_str(&table(
            ["WAITS FOR", "UNTIL", "WHO", "WHAT"],
            why.waiting_for.iter().map(row),
        ));
    }
    let next = with_local_times(&hints::next_step(&why.next));
    text + &format!("then: {}\n", sanitize(&next))
}
