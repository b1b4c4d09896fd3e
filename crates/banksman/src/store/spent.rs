//! What runs have used, by day, batch and account: written at the end of each run, read by budgets.
//!
//! All ending runs share the rows of a day and of a batch, so these rows are written last, and no
//! transaction waits for another row while it holds them.

use banksman_core::machine::{Spent, TaskUpdate};
use banksman_core::schedule::{BudgetScope, Used};
use banksman_core::time::{Instant, Span};

use super::conn::{DbError, Row};
use super::tx::{Tx, params};
use super::{Result, sql};

/// The most that one run adds to a sum: a trillion tokens, a million dollars. A worker that reports
/// more must not make a sum overflow, because then no later run could end.
const MOST_OF_A_RUN: i64 = 1_000_000_000_000;

/// The stored name of a scope: `day:2026-03-01`, `batch:spring`, `task:t12`.
pub fn scope_name(scope: &BudgetScope, now: Instant) -> String {
    match scope {
        BudgetScope::Task(task) => format!("task:{task}"),
        BudgetScope::Batch(batch) => batch_scope(batch),
        BudgetScope::Day => day_scope(now),
    }
}

/// Days are days of UTC, so that all nodes agree when one ends.
pub(super) fn day_scope(now: Instant) -> String {
    let text = now.to_string();
    format!("day:{}", text.split('T').next().unwrap_or_default())
}

pub(super) fn batch_scope(batch: &str) -> String {
    format!("batch:{batch}")
}

pub(super) fn day_used(tx: &mut Tx<'_>, now: Instant) -> Result<Used> {
    let spent = tx.first(sql::SPENT, &params![day_scope(now)], |row| used(row, 0))?;
    Ok(spent.unwrap_or_default())
}

/// Reads four columns from `first` on; zero if nothing was used yet.
pub(super) fn used(row: &Row, first: usize) -> Result<Used, DbError> {
    let column = |at: usize| row.get(first + at).map(Option::unwrap_or_default);
    Ok(Used {
        runs: column(0)?,
        tokens: column(1)?,
        cost_micros: column(2)?,
        time: Span(column(3)?),
    })
}

/// An amount within the bounds of what is stored.
pub(super) fn clamped(amount: i64) -> i64 {
    amount.clamp(0, MOST_OF_A_RUN)
}

/// Ends the run that a step ended, if any, and adds its cost to its scopes. A cost without a run is
/// added as well.
pub(super) fn end_run(
    tx: &mut Tx<'_>,
    before: Spent,
    step: &TaskUpdate,
    now: Instant,
) -> Result<()> {
    let task = &step.task;
    let tokens = clamped(task.spent.tokens.saturating_sub(before.tokens));
    let cost_micros = clamped(task.spent.cost_micros.saturating_sub(before.cost_micros));
    let batch = task.batch.as_deref().map(batch_scope);
    let scopes = batch.into_iter().chain([day_scope(now)]);
    let Some((epoch, outcome)) = &step.ended_run else {
        for scope in scopes.filter(|_| tokens + cost_micros > 0) {
            tx.write(sql::SPEND_LATE, &params![scope, tokens, cost_micros])?;
        }
        return Ok(());
    };
    let (id, epoch) = (task.id, *epoch);
    tx.write(sql::END_RUN, &params![id, epoch, now, outcome.as_str(), tokens, cost_micros])?;
    tx.write(sql::SPEND_OF_ACCOUNT, &params![id, epoch, tokens, cost_micros, now])?;
    for scope in scopes {
        tx.write(sql::SPEND, &params![id, epoch, tokens, cost_micros, now, scope])?;
    }
    Ok(())
}
