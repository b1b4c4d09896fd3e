//! A keeper's view of its lease, by the rules of the real one: by its own steady clock, with a
//! reserve before the end, and not to be trusted before it was renewed once if it seems to end at
//! once.

use banksman::exec::job::LeaseConfig;
use banksman_core::time::{Instant, Span};

/// After a renewal that failed.
const RENEW_AGAIN: Span = Span(5_000);

#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) ttl: Span,
    reserve: Span,
    /// By the steady clock of the machine, as is `next`.
    ends: Instant,
    pub(super) next: Instant,
    /// Nothing is touched before it is certain that the lease is ours.
    pub(super) is_doubtful: bool,
    /// What the store has promised, by the store's clock.
    promised: Instant,
}

impl Lease {
    /// `local` is what the machine's clock shows, `now` the steady one.
    pub(super) fn new(terms: &LeaseConfig, grace: Span, local: Instant, now: Instant) -> Self {
        let ttl = Span(terms.ttl_ms);
        let reserve = Span(grace.0.min(ttl.0 / 3) + ttl.0 / 10);
        let left = terms.expires_at.since(local).min(Span(terms.left_ms)).min(ttl);
        let is_doubtful = left <= reserve;
        let (ends, next) = if is_doubtful {
            (now.plus(reserve).plus(Span(ttl.0 / 3)), now)
        } else {
            (now.plus(left), now.plus(Span(left.0 / 3)))
        };
        Self { ttl, reserve, ends, next, is_doubtful, promised: terms.expires_at }
    }

    /// Later than this the agent could no longer be ended in time.
    pub(super) fn last_moment(&self) -> Instant {
        Instant(self.ends.0 - self.reserve.0)
    }

    pub(super) fn due_at(&self) -> Instant {
        self.next.min(self.last_moment())
    }

    pub(super) fn renewed(&mut self, promised: Instant, now: Instant) {
        self.promised = promised;
        self.is_doubtful = false;
        self.ends = now.plus(self.ttl);
        self.next = now.plus(Span(self.ttl.0 / 3));
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.next = now.plus(RENEW_AGAIN);
    }

    /// Whether somebody else may have the task by now.
    pub(super) fn is_over(&self, store: Instant) -> bool {
        self.promised <= store
    }
}
