//! The clocks of a life. The time by which it is lived passes evenly and nobody sees it; what
//! machines see is ahead or behind, drifts, and may be set back once.
//!
//! There are two kinds of places. On one machine (SQLite) everybody has the same clock, and the
//! store has no other. Where many machines share a database (PostgreSQL), `Store::now` answers with
//! the time of the database, and only what a keeper does by itself follows the clock of its
//! machine.

use banksman_core::time::{Instant, Span};

use super::chance::Chance;

const MINUTE: i64 = 60;
/// How far a clock may be off, in seconds. Far more than a lease holds.
const MOST_OFF: i64 = 12 * MINUTE;
/// How far a clock may be set back, in seconds.
const MOST_BACK: i64 = 40 * MINUTE;
/// In millionths: ten times what a bad quartz does.
const MOST_DRIFT: i64 = 1_000;
/// When a clock is set back, in seconds after the beginning: while something happens.
const WITHIN: i64 = 3 * 60 * MINUTE;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
    ahead: i64,
    drift: i64,
    set_back: Option<(Instant, Span)>,
}

impl Clock {
    fn right(began: Instant) -> Self {
        Self { began, ahead: 0, drift: 0, set_back: None }
    }

    fn draw(chance: &mut Chance, began: Instant) -> Self {
        let off = chance.seconds(0, 2 * MOST_OFF).0 - MOST_OFF * 1_000;
        let drift = chance.seconds(0, 2 * MOST_DRIFT).0 / 1_000 - MOST_DRIFT;
        let at = began.plus(chance.seconds(0, WITHIN));
        let back = chance.seconds(0, MOST_BACK);
        let set_back = chance.percent(50).then_some((at, back));
        let ahead = if chance.percent(70) { off } else { 0 };
        Self { began, ahead, drift, set_back }
    }

    fn shows(&self, at: Instant) -> Instant {
        let drifted = at.since(self.began).0 * self.drift / 1_000_000;
        let back = self.set_back.filter(|(when, _)| *when <= at).map_or(0, |(_, back)| back.0);
        Instant(at.0 + self.ahead + drifted - back)
    }
}

#[derive(Debug)]
pub(super) enum Clocks {
    OneMachine(Clock),
    Database(Vec<Clock>),
}

impl Clocks {
    /// All right, which is what a database that all nodes share looks like at its best.
    pub(super) fn right(nodes: usize, began: Instant) -> Self {
        Self::Database(vec![Clock::right(began); nodes])
    }

    pub(super) fn draw(chance: &mut Chance, nodes: usize, began: Instant) -> Self {
        match chance.below(10) {
            0..3 => Self::right(nodes, began),
            3..6 => Self::OneMachine(Clock::draw(chance, began)),
            _ => Self::Database((0..nodes).map(|_| Clock::draw(chance, began)).collect()),
        }
    }

    /// What `Store::now` answers: the time by which leases, timers and effects are kept.
    pub(super) fn store(&self, at: Instant) -> Instant {
        match self {
            Self::OneMachine(clock) => clock.shows(at),
            Self::Database(_) => at,
        }
    }

    /// What the clock of a node's machine shows.
    pub(super) fn local(&self, node: usize, at: Instant) -> Instant {
        match self {
            Self::OneMachine(clock) => clock.shows(at),
            Self::Database(clocks) => clocks[node].shows(at),
        }
    }

    /// By how much a time that the store once named may have moved away since then.
    pub(super) fn set_back(&self) -> Span {
        match self {
            Self::OneMachine(clock) => clock.set_back.map_or(Span(0), |(_, back)| back),
            Self::Database(_) => Span(0),
        }
    }
}
