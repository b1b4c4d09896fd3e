//! Claims tasks for this node's workers and starts their runs.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::{CounterName, Trigger};
use banksman_core::schedule::{Ineligible, Worker};
use banksman_core::time::{Instant, Span};

use super::event::if_unchanged;
use super::policy::ask_for_budget;
use super::run_start::{ClaimedRun, RunStarts};
use super::turn::{Reconciler, Turn};
use super::{Engine, EngineConfig, Result};
use crate::config::hash_of_token;
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{Applied, Claimed, Dispatch, Store, StoreError};

/// The dispatcher reports at most this often that no worker can take a task.
const UNSERVED_AGAIN: Span = Span(3_600_000);

pub(super) struct Dispatcher<'a> {
    store: &'a Store,
    config: &'a EngineConfig,
    starts: RunStarts<'a>,
}

impl Reconciler for Dispatcher<'_> {
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        let (mut unserved, mut over_budget) = (Vec::new(), Vec::new());
        for _ in 0..self.config.agents.limits.agents {
            let key = (self.config.secret)();
            let request = self.request(hash_of_token(&key));
            let dispatched = self.store.dispatch(request, turn.now)?;
            (unserved, over_budget) = (dispatched.unserved, dispatched.over_budget);
            for (task, error) in dispatched.broken {
                turn.contain::<()>(Some(task), Err(error.into()))?;
            }
            let (Some(claimed), Some(worker)) = (dispatched.claimed, dispatched.worker) else {
                break;
            };
            let Claimed { stored, run, .. } = claimed;
            let begun = self.starts.begin(ClaimedRun { stored, run, worker, key }, turn);
            turn.contain(Some(run.task), begun)?;
        }
        for (task, reasons) in unserved {
            let detail = reasons.first().map(Ineligible::detail).unwrap_or_default();
            let reported = self.report_unserved(task, detail, turn.now);
            turn.contain(Some(task), reported)?;
        }
        for over in over_budget {
            let asked = ask_for_budget(self.store, &over, turn.now);
            turn.contain(Some(over.task), asked)?;
        }
        Ok(())
    }
}

impl<'a> Dispatcher<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, config: engine.config, starts: RunStarts::new(engine) }
    }

    /// What this node offers, and its limits.
    fn request(&self, token: Vec<u8>) -> Dispatch {
        let agents = &self.config.agents;
        let own = self.config.workers.iter().map(|setup| setup.worker.clone());
        Dispatch {
            node: agents.node.clone(),
            workers: Worker::all_of_node(own).collect(),
            capacity: agents.limits.agents,
            limit: agents.limits.total,
            account_limits: agents.accounts.clone(),
            lanes: agents.lanes.clone(),
            day_budget: agents.budgets.day,
            task_budget: agents.budgets.task,
            ttl: agents.limits.lease,
            token: Some(token),
        }
    }

    fn report_unserved(&self, id: TaskId, detail: String, now: Instant) -> Result<()> {
        let stored = self.store.task(id)?;
        let task = &stored.task;
        let was_reported = stored.count(CounterName::Unserved) > 0;
        let is_due = !was_reported || now.since(task.updated_at) >= UNSERVED_AGAIN;
        if !is_due || !stored.has_exit(Trigger::NoWorker) {
            return Ok(());
        }
        let unserved = move |moved: &Applied| {
            let blocked = moved.stored.state().kind == StateKind::Blocked;
            let then =
                if blocked { "it waits until there is one" } else { "tried again in an hour" };
            let text = format!("nobody can take {id}: {detail}; {then}");
            Some(NewNotice::alert(NoticeKind::NoWorker, Some(id), text))
        };
        let ask = if_unchanged(&stored, Trigger::NoWorker);
        match self.store.apply_telling(id, ask, None, now, unserved) {
            Ok(_) | Err(StoreError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
