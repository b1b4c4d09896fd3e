//! Claiming: the first task in the queue that the worker may take, with a lease on it.

use std::sync::Arc;

use banksman_core::ids::RunId;
use banksman_core::machine::{Actor, Claim, Event};
use banksman_core::time::{Instant, Span};

use super::apply::{Applied, apply_to, checked};
use super::conn::Conn;
use super::definitions::Definitions;
use super::row::{Stored, is_damage, lifecycle_version, queue_place, stored};
use super::{Store, StoreError, sql};

/// How far a claim looks past tasks that this worker may not take. Beyond it, another worker has to come.
const LOOK: i64 = 1_000;
/// Rows after the first that are read, and on PostgreSQL locked, at once.
const PAGE: i64 = 32;

#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub actor: Actor,
    /// How long the lease holds without a heartbeat.
    pub ttl: Span,
}

#[derive(Debug, Clone)]
pub struct Claimed {
    pub stored: Stored,
    pub run: RunId,
    pub expires_at: Instant,
}

impl Store {
    /// Takes the first task that is ready and open to this worker; `None` when there is none.
    pub fn claim(
        &self,
        request: ClaimRequest,
        now: Instant,
    ) -> Result<Option<Claimed>, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        self.write(move |conn| claim_in(conn, &definitions, &request, now))
    }
}

fn claim_in(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    request: &ClaimRequest,
    now: Instant,
) -> Result<Option<Claimed>, StoreError> {
    let expires_at = now.plus(request.ttl);
    let event = Event::Claimed(Claim { actor: request.actor.clone(), expires_at });
    let mut after = (i64::MIN, 0);
    let mut looked = 0;
    // The first look is for one row only: almost always it is the one.
    let mut page = 1;
    while looked < LOOK {
        let rows =
            conn.query(sql::QUEUE_HEAD.pick(conn), &[page.into(), after.0.into(), after.1.into()])?;
        for row in &rows {
            after = queue_place(row)?;
            let found = lifecycle_version(row)
                .and_then(|version| definitions.get(conn, version))
                .and_then(|lifecycle| stored(row, lifecycle))
                .and_then(checked);
            match found.and_then(|found| apply_to(conn, definitions, found, &event, None, now)) {
                Ok(applied) => {
                    // A counter at its limit may have led the claim elsewhere; then the next one is looked at.
                    if let Some(claimed) = claimed(applied, expires_at) {
                        return Ok(Some(claimed));
                    }
                }
                // Not for this worker, or damaged: neither may keep others from their work.
                Err(StoreError::Rejected(_) | StoreError::Bug { .. }) => {}
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        looked += page;
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) < page {
            return Ok(None);
        }
        page = PAGE;
    }
    Ok(None)
}

fn claimed(applied: Applied, expires_at: Instant) -> Option<Claimed> {
    let run = applied.stored.task.run()?;
    Some(Claimed { stored: applied.stored, run, expires_at })
}
