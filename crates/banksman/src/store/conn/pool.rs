//! A bounded connection pool.
//!
//! It does not know what a connection is. A connection that is not given back is closed, because
//! its state is unknown.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::error::DbError;
use super::locked;

pub(super) struct Pool<L> {
    limit: usize,
    patience: Duration,
    shelf: Mutex<Shelf<L>>,
    returned: Condvar,
}

struct Shelf<L> {
    idle: Vec<L>,
    lent: usize,
}

impl<L> Pool<L> {
    pub(super) fn new(limit: usize, patience: Duration) -> Self {
        Self {
            limit: limit.max(1),
            patience,
            shelf: Mutex::new(Shelf { idle: Vec::new(), lent: 0 }),
            returned: Condvar::new(),
        }
    }

    /// Lends a connection within the limit. `choose` gets an idle one, if any, and returns that or
    /// a new one.
    pub(super) fn borrow<E: From<DbError>>(
        &self,
        choose: impl FnOnce(Option<L>) -> Result<L, E>,
    ) -> Result<Lent<'_, L>, E> {
        let (mut shelf, _) = self
            .returned
            .wait_timeout_while(locked(&self.shelf), self.patience, |shelf| {
                shelf.lent >= self.limit
            })
            .unwrap_or_else(PoisonError::into_inner);
        if shelf.lent >= self.limit {
            return Err(E::from(DbError::Busy { what: "a free connection to the store" }));
        }
        shelf.lent += 1;
        let idle = shelf.idle.pop();
        drop(shelf);
        let place = Place { pool: self };
        Ok(Lent { link: choose(idle)?, place })
    }

    /// Closes idle connections after a sign that all are broken.
    pub(super) fn clear(&self) {
        let idle = std::mem::take(&mut locked(&self.shelf).idle);
        drop(idle);
    }
}

/// A borrowed connection.
pub(super) struct Lent<'a, L> {
    link: L,
    place: Place<'a, L>,
}

impl<L> Lent<'_, L> {
    pub(super) fn give_back(self) {
        locked(&self.place.pool.shelf).idle.push(self.link);
    }
}

impl<L> Deref for Lent<'_, L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.link
    }
}

impl<L> DerefMut for Lent<'_, L> {
    fn deref_mut(&mut self) -> &mut L {
        &mut self.link
    }
}

/// The right to one connection.
struct Place<'a, L> {
    pool: &'a Pool<L>,
}

impl<L> Drop for Place<'_, L> {
    fn drop(&mut self) {
        locked(&self.pool.shelf).lent -= 1;
        self.pool.returned.notify_one();
    }
}
