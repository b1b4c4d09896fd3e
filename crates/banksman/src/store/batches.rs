//! Batches: their limits, their budgets and how far their tasks are.

use banksman_core::limits::BATCH_CONCURRENCY;
use banksman_core::schedule::{Budget, Used};
use banksman_core::time::{Instant, Span};

use super::conn::{DbError, Row, SqlValue};
use super::spent::{batch_scope, used};
use super::tx::{Tx, params};
use super::{Result, Store, sql};

/// Batches that one query reads.
pub(super) const BATCHES: i64 = 1_000;

/// A batch: its limits, what it has used, and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub name: String,
    /// Runs at once.
    pub concurrency: i64,
    pub paused: bool,
    pub budget: Budget,
    /// By ended runs.
    pub used: Used,
    pub tasks: i64,
    pub running: i64,
    pub done: i64,
    /// Failed or cancelled.
    pub given_up: i64,
}

/// A change to a batch; `None` keeps a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchChange {
    pub concurrency: Option<u32>,
    pub paused: Option<bool>,
    pub budget: BudgetChange,
}

/// A change to the budget of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetChange {
    pub runs: NewBound<i64>,
    pub tokens: NewBound<i64>,
    pub cost_micros: NewBound<i64>,
    pub time: NewBound<Span>,
}

/// A change to one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewBound<T> {
    #[default]
    AsBefore,
    Lifted,
    Most(T),
}

impl<T> NewBound<T> {
    fn after(self, before: Option<T>) -> Option<T> {
        match self {
            Self::AsBefore => before,
            Self::Lifted => None,
            Self::Most(most) => Some(most),
        }
    }
}

impl BudgetChange {
    fn after(self, before: &Budget) -> Budget {
        Budget {
            runs: self.runs.after(before.runs),
            tokens: self.tokens.after(before.tokens),
            cost_micros: self.cost_micros.after(before.cost_micros),
            time: self.time.after(before.time),
        }
    }
}

impl Store {
    /// Creates a batch. False if there is one of this name, which does not change.
    pub fn create_batch(&self, name: &str, change: BatchChange, now: Instant) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |tx| {
            let at_once = change.concurrency.unwrap_or(BATCH_CONCURRENCY);
            Ok(insert_batch(tx, &name, at_once, now)? && set_batch(tx, &name, change)?)
        })
    }

    /// Changes a batch, and returns whether it exists.
    pub fn set_batch(&self, name: &str, change: BatchChange) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |tx| set_batch(tx, &name, change))
    }

    /// Whether the batch of a task, if it has one, is paused.
    pub fn is_paused(&self, batch: Option<&str>) -> Result<bool> {
        self.read(|tx| is_paused(tx, batch))
    }

    pub fn batches(&self) -> Result<Vec<Batch>> {
        self.read(batches)
    }

    pub fn batch(&self, name: &str) -> Result<Option<Batch>> {
        self.row(sql::BATCH, &params![name], batch)
    }

    /// What the ended runs of a batch have cost.
    pub fn cost_of_batch(&self, name: &str) -> Result<i64> {
        let used = self.row(sql::SPENT, &params![batch_scope(name)], |row| used(row, 0))?;
        Ok(used.unwrap_or_default().cost_micros)
    }
}

/// Adds a batch under the first free name: `spring`, `spring-2`, …
pub(super) fn add_batch(
    tx: &mut Tx<'_>,
    name: &str,
    concurrency: u32,
    now: Instant,
) -> Result<String> {
    let (mut free, mut number) = (name.to_owned(), 1);
    while !insert_batch(tx, &free, concurrency, now)? {
        number += 1;
        free = format!("{name}-{number}");
    }
    Ok(free)
}

/// Returns whether the name was free.
fn insert_batch(tx: &mut Tx<'_>, name: &str, concurrency: u32, now: Instant) -> Result<bool> {
    tx.has(sql::INSERT_BATCH, &params![name, concurrency.max(1), now])
}

pub(super) fn set_batch(tx: &mut Tx<'_>, name: &str, change: BatchChange) -> Result<bool> {
    let columns = params![name, change.concurrency.map(|most| most.max(1)), change.paused];
    let before = tx.first(sql::SET_BATCH, &columns, |row| budget(row, 0))?;
    let Some(before) = before else { return Ok(false) };
    let after = change.budget.after(&before);
    if after != before {
        set_budget_if(tx, name, &before, &after)?;
    }
    tx.notify();
    Ok(true)
}

/// Changes the budget of a batch, if it is still the one that the change was decided on.
pub(super) fn set_budget_if(
    tx: &mut Tx<'_>,
    name: &str,
    before: &Budget,
    after: &Budget,
) -> Result<()> {
    let mut columns = vec![name.into()];
    columns.extend([after, before].into_iter().flat_map(bounds));
    tx.write(sql::SET_BATCH_BUDGET, &columns)
}

fn bounds(budget: &Budget) -> [SqlValue; 4] {
    let time = budget.time.map(|time| time.0);
    [budget.runs, budget.tokens, budget.cost_micros, time]
        .map(|most| most.map(|most| most.max(0)).into())
}

pub(super) fn batches(tx: &mut Tx<'_>) -> Result<Vec<Batch>> {
    tx.all(sql::BATCHES, &params![BATCHES], batch)
}

fn batch(row: &Row) -> Result<Batch, DbError> {
    Ok(Batch {
        name: row.get(0)?,
        concurrency: row.int(1)?,
        paused: row.get(2)?,
        budget: budget(row, 3)?,
        used: used(row, 7)?,
        tasks: row.int(11)?,
        running: row.int(12)?,
        done: row.int(13)?,
        given_up: row.int(14)?,
    })
}

/// Reads four columns from `first` on.
pub(super) fn budget(row: &Row, first: usize) -> Result<Budget, DbError> {
    Ok(Budget {
        runs: row.get(first)?,
        tokens: row.get(first + 1)?,
        cost_micros: row.get(first + 2)?,
        time: row.get(first + 3)?,
    })
}

pub(super) fn is_paused(tx: &mut Tx<'_>, batch: Option<&str>) -> Result<bool> {
    batch.map_or(Ok(false), |batch| tx.has(sql::PAUSED_BATCH, &params![batch]))
}
