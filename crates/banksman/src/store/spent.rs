//! What runs have used, by day, batch and account: written at the end of each run, read by budgets.
//!
//! All ending runs share the rows of a day and of a batch, so these rows are written last, and no
//! transaction waits for another row while it holds them.

use banksman_core::machine::{Spent, TaskUpdate};
use banksman_core::schedule::{BudgetScope, Used};
use banksman_core::time::{Instant, Span};

use super::conn::{Conn, Row, Value};
use super::{StoreError, sql};

/// The most that one run adds to a sum: a trillion tokens, a million dollars. A worker that reports
/// more must not make a sum overflow, because then no later run could end.
const MOST_OF_A_RUN: i64 = 1_000_000_000_000;

/// The stored name of a scope: `day:2026-03-01`, `batch:spring`, `task:t12`.
#[must_use]
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

pub(super) fn day_used(conn: &mut dyn Conn, now: Instant) -> Result<Used, StoreError> {
    let rows = conn.query(sql::SPENT, &[day_scope(now).into()])?;
    rows.first().map_or(Ok(Used::default()), |row| used(row, 0))
}

/// Reads four columns from `first` on; zero if nothing was used yet.
pub(super) fn used(row: &Row, first: usize) -> Result<Used, StoreError> {
    let column = |at: usize| row.opt_int(first + at).map(Option::unwrap_or_default);
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
    conn: &mut dyn Conn,
    before: Spent,
    step: &TaskUpdate,
    now: Instant,
) -> Result<(), StoreError> {
    let task = &step.task;
    let tokens = clamped(task.spent.tokens.saturating_sub(before.tokens));
    let cost_micros = clamped(task.spent.cost_micros.saturating_sub(before.cost_micros));
    let batch = task.batch.as_deref().map(batch_scope);
    let scopes = batch.into_iter().chain([day_scope(now)]);
    let Some((epoch, outcome)) = &step.ended_run else {
        for scope in scopes.filter(|_| tokens + cost_micros > 0) {
            conn.write(sql::SPEND_LATE, &[scope.into(), tokens.into(), cost_micros.into()])?;
        }
        return Ok(());
    };
    let key: [Value; 2] = [task.id.0.into(), (*epoch).into()];
    let cost: [Value; 2] = [tokens.into(), cost_micros.into()];
    let mut columns = key.to_vec();
    columns.extend([now.0.into(), outcome.as_str().into()]);
    columns.extend(cost.clone());
    conn.write(sql::END_RUN, &columns)?;
    let mut columns = key.to_vec();
    columns.extend(cost);
    columns.push(now.0.into());
    conn.write(sql::SPEND_OF_ACCOUNT, &columns)?;
    for scope in scopes {
        let mut columns = columns.clone();
        columns.push(scope.into());
        conn.write(sql::SPEND, &columns)?;
    }
    Ok(())
}

/// The number that a statement returns.
pub(super) fn number(
    conn: &mut dyn Conn,
    statement: &'static str,
    params: &[Value],
) -> Result<i64, StoreError> {
    Ok(conn.query(statement, params)?.first().map_or(Ok(0), |row| row.int(0))?)
}
