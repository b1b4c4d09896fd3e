//! The switch that pauses the whole store.

use banksman_core::time::Instant;

use super::tx::{Tx, params};
use super::{Result, Store, sql};

impl Store {
    pub fn paused(&self) -> Result<bool> {
        self.read(is_paused)
    }

    /// Sets whether everything is paused. Runs under way continue.
    pub fn set_paused(&self, paused: bool, who: &str, now: Instant) -> Result<()> {
        let columns = params![paused, who, now];
        self.write(move |tx| {
            tx.write(sql::SET_PAUSED, &columns)?;
            tx.notify();
            Ok(())
        })
    }
}

/// Whether everything is paused.
pub(super) fn is_paused(tx: &mut Tx<'_>) -> Result<bool> {
    Ok(tx.value(sql::PAUSED, &[])?.unwrap_or(false))
}
