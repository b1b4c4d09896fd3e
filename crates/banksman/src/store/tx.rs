//! A transaction of the store: its statements, and the tasks that its rows hold.
//!
//! Everything that runs inside a transaction takes a [`Tx`] and nothing else of the store, so that
//! it cannot start another one.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Lifecycle;
use banksman_core::machine;

use super::conn::{Conn, Dialect, FromValue, Row, SqlValue};
use super::damage::{DamageLog, damage_in};
use super::definitions::Definitions;
use super::row::{LIFECYCLE, Stored, stored};
use super::sql::{self, Pair};
use super::{Result, StoreError};

/// The parameters of a statement, from anything that a column can hold.
macro_rules! params {
    ($($value:expr),* $(,)?) => { [$($crate::store::conn::SqlValue::from($value)),*] };
}
pub(super) use params;

pub(super) struct Tx<'a> {
    pub(super) conn: &'a mut dyn Conn,
    pub(super) definitions: &'a Definitions,
    pub(super) damaged: &'a DamageLog,
}

impl Tx<'_> {
    /// Runs a statement and returns its rows.
    pub(super) fn query(
        &mut self,
        statement: impl Into<Pair>,
        params: &[SqlValue],
    ) -> Result<Vec<Row>> {
        Ok(self.conn.query(statement.into().pick(self.conn), params)?)
    }

    /// Runs a statement without returning rows; see [`Conn::write`].
    pub(super) fn write(&mut self, statement: impl Into<Pair>, params: &[SqlValue]) -> Result<()> {
        Ok(self.conn.write(statement.into().pick(self.conn), params)?)
    }

    /// Wakes waiters after the commit.
    pub(super) fn notify(&mut self) {
        self.conn.notify();
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.conn.dialect()
    }

    /// Reads the rows of an answer with one function, without the damaged ones; see [`DamageLog`].
    pub(super) fn all<T, E: Into<StoreError>>(
        &mut self,
        statement: impl Into<Pair>,
        params: &[SqlValue],
        read: impl Fn(&Row) -> Result<T, E>,
    ) -> Result<Vec<T>> {
        let rows = self.query(statement, params)?;
        let read = |row| self.damaged.leave_out(row, read(row).map_err(Into::into)).transpose();
        rows.iter().filter_map(read).collect()
    }

    /// The same for what is only right with every row: a damaged one is an error.
    pub(super) fn every<T>(
        &mut self,
        statement: impl Into<Pair>,
        params: &[SqlValue],
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let rows = self.query(statement, params)?;
        rows.iter().map(|row| read(row).map_err(|error| damage_in(row, error))).collect()
    }

    /// Reads the first row of an answer.
    pub(super) fn first<T, E: Into<StoreError>>(
        &mut self,
        statement: impl Into<Pair>,
        params: &[SqlValue],
        read: impl Fn(&Row) -> Result<T, E>,
    ) -> Result<Option<T>> {
        let rows = self.query(statement, params)?;
        let read = |row| read(row).map_err(|error| damage_in(row, error.into()));
        rows.first().map(read).transpose()
    }

    /// Whether a statement returns any row.
    pub(super) fn has(&mut self, statement: impl Into<Pair>, params: &[SqlValue]) -> Result<bool> {
        Ok(!self.query(statement, params)?.is_empty())
    }

    /// The first column of the first row; none without a row or a value.
    pub(super) fn value<T: for<'r> FromValue<'r>>(
        &mut self,
        statement: impl Into<Pair>,
        params: &[SqlValue],
    ) -> Result<Option<T>> {
        Ok(self.first(statement, params, |row| row.get(0))?.flatten())
    }

    /// The number that a statement returns; zero without a row.
    pub(super) fn count(&mut self, statement: impl Into<Pair>, params: &[SqlValue]) -> Result<i64> {
        Ok(self.value(statement, params)?.unwrap_or(0))
    }

    pub(super) fn lifecycle(&mut self, version: &str) -> Result<Arc<Lifecycle>> {
        self.definitions.get(self.conn, version)
    }

    /// What was read of a row; `None` if it is damaged.
    pub(super) fn unless_damaged<T>(&self, row: &Row, read: Result<T>) -> Result<Option<T>> {
        self.damaged.leave_out(row, read)
    }

    /// The task of a row of `sql::task_columns`, without its body.
    pub(super) fn task(&mut self, row: &Row) -> Result<Stored> {
        let damage = |error| damage_in(row, error);
        let version = row.text(LIFECYCLE).map_err(|error| damage(error.into()))?;
        let lifecycle = self.lifecycle(version)?;
        stored(row, lifecycle).map_err(damage)
    }

    /// The tasks of an answer without the damaged ones.
    pub(super) fn readable_tasks(
        &mut self,
        statement: impl Into<Pair>,
        params: &[SqlValue],
    ) -> Result<Vec<Stored>> {
        let rows = self.query(statement, params)?;
        self.tasks(&rows)
    }

    pub(super) fn tasks(&mut self, rows: &[Row]) -> Result<Vec<Stored>> {
        let damaged = self.damaged;
        rows.iter().filter_map(|row| damaged.leave_out(row, self.task(row)).transpose()).collect()
    }

    /// Loads a task and locks its row until the transaction ends.
    pub(super) fn load_for_update(&mut self, id: TaskId) -> Result<Stored> {
        let rows = self.query(sql::TASK_FOR_UPDATE, &params![id])?;
        checked(self.task(rows.first().ok_or(StoreError::NoTask(id))?)?)
    }
}

/// Checks the invariants of a task that was read. A damaged task is an error of its own, and other
/// tasks are not affected.
pub(super) fn checked(stored: Stored) -> Result<Stored> {
    match machine::check(&stored.lifecycle, &stored.task) {
        Ok(()) => Ok(stored),
        Err(broken) => Err(StoreError::Corrupt { task: stored.task.id, what: broken.to_string() }),
    }
}
