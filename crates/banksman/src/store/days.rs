//! Reads for the daily note: tasks that ended on a day, and tasks without progress.
//!
//! There is no index by time, because nothing else needs one. So these queries read only the newest
//! tasks, which bounds the work.

use banksman_core::lifecycle::StateKind;
use banksman_core::time::Instant;

use super::conn::{Conn, Value};
use super::definitions::Definitions;
use super::row::{Stored, is_damage, lifecycle_version, stored};
use super::{Store, StoreError, sql};

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
    ) -> Result<Vec<Stored>, StoreError> {
        let params =
            [kind.as_str().into(), from.0.into(), until.0.into(), NEWEST.into(), at_most.into()];
        self.read(|conn| readable(conn, &self.definitions, sql::ENDED_BETWEEN, &params))
    }

    /// Tasks that are working, under review or blocked and made no progress since a time, the
    /// longest first.
    pub fn silent_since(&self, since: Instant, at_most: i64) -> Result<Vec<Stored>, StoreError> {
        let params = [since.0.into(), NEWEST.into(), at_most.into()];
        self.read(|conn| readable(conn, &self.definitions, sql::SILENT_SINCE, &params))
    }
}

/// Skips damaged tasks; `check` names them.
fn readable(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    statement: &'static str,
    params: &[Value],
) -> Result<Vec<Stored>, StoreError> {
    let mut found = Vec::new();
    for row in conn.query(statement, params)? {
        let read = lifecycle_version(&row)
            .and_then(|version| definitions.get(conn, version))
            .and_then(|lifecycle| stored(&row, lifecycle));
        match read {
            Err(error) if is_damage(&error) => {}
            read => found.push(read?),
        }
    }
    Ok(found)
}
