//! Unblocks tasks that waited for a worker when one appears.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::schedule::{Worker, could_serve};
use banksman_core::time::Instant;

use super::event::ask_if_unchanged;
use super::turn::{Reconciler, Turn};
use super::workers::live_workers;
use super::{Engine, Result};
use crate::store::Store;

/// Tasks that are tried when a worker appears.
const BLOCKED: i64 = 1_000;

pub(super) struct Unblock<'a> {
    store: &'a Store,
}

impl<'a> Unblock<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store }
    }

    fn unblock(&self, id: TaskId, workers: &[Worker], now: Instant) -> Result<()> {
        let stored = self.store.task(id)?;
        if could_serve(&stored.task.tags, workers) {
            ask_if_unchanged(self.store, &stored, Trigger::WorkerAvailable, now)?;
        }
        Ok(())
    }
}

impl Reconciler for Unblock<'_> {
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        if !turn.workers_joined {
            return Ok(());
        }
        let workers = live_workers(self.store, turn.now)?;
        for id in self.store.stuck_without_worker(BLOCKED)? {
            let unblocked = self.unblock(id, &workers, turn.now);
            turn.contain(Some(id), unblocked)?;
        }
        Ok(())
    }
}
