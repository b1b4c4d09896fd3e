//! What happened on a day, for the daily note: tasks that ended on it, and tasks that nothing has
//! happened to for long.
//!
//! There is no index by time, because nothing else needs one. So only the newest tasks are looked
//! at, and the work is bounded however many there are.

use banksman_core::lifecycle::StateKind;
use banksman_core::time::Instant;

use super::conn::{Conn, Value};
use super::definitions::Definitions;
use super::row::{Stored, is_damage, lifecycle_version, stored};
use super::{Store, StoreError, sql};

/// Tasks that are looked at.
const NEWEST: i64 = 20_000;

impl Store {
    /// Tasks that came into a state of this kind in a stretch of time and are still in it, the
    /// latest first.
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

    /// Tasks at work, under review or blocked that have not got on since a time, the longest first.
    pub fn silent_since(&self, since: Instant, at_most: i64) -> Result<Vec<Stored>, StoreError> {
        let params = [since.0.into(), NEWEST.into(), at_most.into()];
        self.read(|conn| readable(conn, &self.definitions, sql::SILENT_SINCE, &params))
    }
}

/// What is too damaged to be read is left out; `check` names it.
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
