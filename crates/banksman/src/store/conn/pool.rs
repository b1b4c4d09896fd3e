//! A bounded connection pool.
//!
//! It does not know what a connection is. A connection that is not given back is closed, because
//! its state is unknown.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::error::DbError;
use super::{Result, locked};

pub(super) struct Pool<L> {
    limit: usize,
    timeout: Duration,
    state: Mutex<PoolState<L>>,
    returned: Condvar,
}

struct PoolState<L> {
    idle: Vec<L>,
    lent: usize,
}

impl<L> Pool<L> {
    pub(super) fn new(limit: usize, timeout: Duration) -> Self {
        Self {
            limit: limit.max(1),
            timeout,
            state: Mutex::new(PoolState { idle: Vec::new(), lent: 0 }),
            returned: Condvar::new(),
        }
    }

    /// Lends a connection within the limit. `choose` gets an idle one, if any, and returns that or
    /// a new one.
    pub(super) fn borrow(
        &self,
        choose: impl FnOnce(Option<L>) -> Result<L>,
    ) -> Result<Borrowed<'_, L>> {
        let (mut state, _) = self
            .returned
            .wait_timeout_while(locked(&self.state), self.timeout, |state| state.lent >= self.limit)
            .unwrap_or_else(PoisonError::into_inner);
        if state.lent >= self.limit {
            return Err(DbError::Busy { what: "a free connection to the store" });
        }
        state.lent += 1;
        let idle = state.idle.pop();
        drop(state);
        let slot = Slot { pool: self };
        Ok(Borrowed { link: choose(idle)?, slot })
    }

    /// Closes idle connections after a sign that all are broken.
    pub(super) fn clear(&self) {
        let idle = std::mem::take(&mut locked(&self.state).idle);
        drop(idle);
    }
}

/// A borrowed connection.
pub(super) struct Borrowed<'a, L> {
    pub(super) link: L,
    slot: Slot<'a, L>,
}

impl<L> Borrowed<'_, L> {
    pub(super) fn give_back(self) {
        locked(&self.slot.pool.state).idle.push(self.link);
    }
}

/// The right to one connection.
struct Slot<'a, L> {
    pool: &'a Pool<L>,
}

impl<L> Drop for Slot<'_, L> {
    fn drop(&mut self) {
        locked(&self.pool.state).lent -= 1;
        self.pool.returned.notify_one();
    }
}
