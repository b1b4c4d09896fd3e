//! What concerns the whole store: its id, and the switch that pauses it.

use banksman_core::time::Instant;

use super::sql::Pair;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, sql};

impl Store {
    /// The name of this store among all stores; none if it is damaged.
    pub fn id(&self) -> Result<Option<String>> {
        Ok(self.rows(sql::STORE_ID, &[], |row| row.get(0))?.pop())
    }

    /// Sets whether everything is paused. Runs under way continue.
    pub fn set_paused(&self, paused: bool, who: &str, now: Instant) -> Result<()> {
        let columns = params![paused, who, now];
        self.write(move |tx| {
            tx.notify();
            tx.write(sql::SET_PAUSED, &columns)
        })
    }
}

/// Whether everything is paused. A claim reads it by `sql::TURN`, and so waits for others that do.
/// A switch that cannot be read lets nothing start.
pub(super) fn is_paused(tx: &mut Tx<'_>, statement: impl Into<Pair>) -> Result<bool> {
    let rows = tx.query(statement, &[])?;
    let Some(row) = rows.first() else { return Ok(false) };
    let value = row.get(0).map_err(StoreError::from);
    Ok(tx.unless_damaged(row, value)?.unwrap_or(true))
}
