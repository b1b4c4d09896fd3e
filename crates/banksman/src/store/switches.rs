//! The switch that pauses the whole store.

use banksman_core::time::Instant;

use super::spent::number;
use super::{Store, StoreError, sql};

impl Store {
    /// Sets whether everything is paused. Runs under way continue.
    pub fn paused(&self) -> Result<bool, StoreError> {
        self.read(|conn| Ok(number(conn, sql::PAUSED, &[])? != 0))
    }

    pub fn set_paused(&self, paused: bool, who: &str, now: Instant) -> Result<(), StoreError> {
        let columns = [i64::from(paused).into(), who.into(), now.0.into()];
        self.write(move |conn| {
            conn.write(sql::SET_PAUSED, &columns)?;
            conn.notify();
            Ok(())
        })
    }
}
