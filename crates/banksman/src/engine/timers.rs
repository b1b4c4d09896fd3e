//! Fires due timers, and ends pauses of accounts whose time is over.

use super::turn::{Reconciler, Turn};
use super::{Engine, Result};
use crate::store::Store;

/// Timers that are fired at once.
const AT_ONCE: i64 = 1_000;

pub(super) struct Timers<'a> {
    store: &'a Store,
}

impl<'a> Timers<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store }
    }
}

impl Reconciler for Timers<'_> {
    /// The store puts off the timers of a damaged task, so that they do not keep others waiting.
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        loop {
            let fired = self.store.fire_due(turn.now, AT_ONCE)?.len();
            turn.report.timers += fired;
            if i64::try_from(fired).unwrap_or(i64::MAX) < AT_ONCE {
                break;
            }
        }
        self.store.end_pauses(turn.now)?;
        Ok(())
    }
}
