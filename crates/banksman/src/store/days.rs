//! Reads for the daily note: tasks that ended on a day, and tasks without progress.
//!
//! There is no index by time, because nothing else needs one. So these queries read only the newest
//! tasks, which bounds the work.

use banksman_core::lifecycle::StateKind;
use banksman_core::time::Instant;

use super::tx::params;
use super::{Result, Store, Stored, sql};

/// The newest tasks that a query reads.
const NEWEST: i64 = 20_000;

impl Store {
    /// Tasks that entered a state of this kind within a period and are still in it, the latest
    /// first.
    pub fn ended_between(
        &self,
        kind: StateKind,
        from: Instant,
        until: Instant,
        at_most: i64,
    ) -> Result<Vec<Stored>> {
        let params = params![kind.as_str(), from, until, NEWEST, at_most];
        self.read(|tx| tx.readable_tasks(sql::ENDED_BETWEEN, &params))
    }

    /// Tasks that are working, under review or blocked and made no progress since a time, the
    /// longest first.
    pub fn silent_since(&self, since: Instant, at_most: i64) -> Result<Vec<Stored>> {
        self.read(|tx| tx.readable_tasks(sql::SILENT_SINCE, &params![since, NEWEST, at_most]))
    }
}
