//! Unblocks tasks that waited for a worker, once one of a live node could take them.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::machine::{StepResult, step};
use banksman_core::schedule::{Worker, could_serve};
use banksman_core::time::Instant;

use super::event::{apply, if_unchanged};
use super::turn::{Reconciler, Turn};
use super::{Engine, Result};
use crate::store::{Store, roles_of};

/// Blocked tasks that one turn tries.
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
        let event = if_unchanged(&stored, Trigger::WorkerAvailable);
        // A guard may say that it waits for something else.
        let Ok(StepResult::Step(next)) = step(&stored.lifecycle, &stored.task, &event, now) else {
            return Ok(());
        };
        let roles = roles_of(&stored, next.task.state);
        if could_serve(&stored.task.tags, &roles, workers) {
            apply(self.store, id, event, now)?;
        }
        Ok(())
    }
}

impl Reconciler for Unblock<'_> {
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        let workers = self.store.live_workers(turn.now)?;
        for id in self.store.stuck_without_worker(BLOCKED)? {
            let unblocked = self.unblock(id, &workers, turn.now);
            turn.contain(Some(id), unblocked)?;
        }
        Ok(())
    }
}
