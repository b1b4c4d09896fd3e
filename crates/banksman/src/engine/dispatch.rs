//! Claims tasks for this node's workers and starts their runs.

use std::collections::BTreeMap;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::{Activity, StateKind};
use banksman_core::limits::NODE_GONE;
use banksman_core::machine::{Actor, Event, TransitionRequest};
use banksman_core::receipt::EndCause;
use banksman_core::schedule::{Ineligible, could_serve};
use banksman_core::time::{Instant, Span};
use sha2::{Digest, Sha256};

use super::{Engine, EngineError, Notice, Project, TurnReport};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::site::SiteError;
use crate::store::{Claimed, Dispatch, StoreError, Stored};

/// The dispatcher says at most this often that nobody can take a task.
const UNSERVED_AGAIN: Span = Span(3_600_000);
/// The trigger by which it says so, and the one by which it takes it back.
const NO_WORKER: &str = "no_worker";
const WORKER_AVAILABLE: &str = "worker_available";
/// Tasks that are tried when a worker appears.
const STUCK: i64 = 1_000;

/// A run that was claimed and has no keeper yet.
pub(super) struct ClaimedRun {
    pub(super) stored: Stored,
    pub(super) run: RunId,
    pub(super) worker: String,
    /// By which its agent reports. The store knows its hash.
    pub(super) token: String,
}

impl Engine<'_> {
    pub(super) fn dispatch(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        let mut projects = BTreeMap::new();
        let (mut unserved, mut over_budget) = (Vec::new(), Vec::new());
        for _ in 0..self.config.agents.limits.agents {
            let token = (self.config.secret)();
            let request = Dispatch { token: Some(hash_of(&token)), ..self.request(now) };
            let dispatched = self.store.dispatch(request, now)?;
            (unserved, over_budget) = (dispatched.unserved, dispatched.over_budget);
            let (Some(claimed), Some(worker)) = (dispatched.claimed, dispatched.worker) else {
                break;
            };
            let Claimed { stored, run, .. } = claimed;
            self.begin(ClaimedRun { stored, run, worker, token }, &mut projects, now, pulse)?;
        }
        for (task, reasons) in unserved {
            let detail = reasons.first().map(Ineligible::detail).unwrap_or_default();
            self.say_unserved(task, &detail, now, pulse)?;
        }
        for over in over_budget {
            self.ask_for_budget(&over, now, pulse)?;
        }
        Ok(())
    }

    /// What this node offers and is bound by.
    pub(super) fn request(&self, now: Instant) -> Dispatch {
        let agents = &self.config.agents;
        Dispatch {
            node: agents.node.clone(),
            workers: self.workers(),
            capacity: agents.limits.agents,
            limit: agents.limits.total,
            account_limits: agents.accounts.clone(),
            day_budget: agents.budgets.day,
            task_budget: agents.budgets.task,
            ttl: agents.limits.lease,
            alive_after: Instant(now.0 - NODE_GONE.0),
            token: None,
        }
    }

    /// Starts the keeper of a run that was claimed. May be called again for the same run after a
    /// crash.
    pub(super) fn begin(
        &self,
        taken: ClaimedRun,
        projects: &mut BTreeMap<String, Option<Project>>,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let run = taken.run;
        let taken = ClaimedRun { stored: self.advance(taken.stored, now)?, ..taken };
        let stored = &taken.stored;
        let is_agents = stored.activity() == Some(Activity::Agent);
        if stored.task.run() != Some(run) || !is_agents {
            // A worker outside of this program may have claimed a task of a state that no agent
            // works in.
            return Ok(());
        }
        if self.is_in_the_way(JobId::Run(run))? {
            // The turn that takes the other's end finds this run without a keeper and begins it.
            return Ok(());
        }
        let started = match self.run_plan(&taken, projects, now) {
            Ok(Ok(plan)) => self.begin_known(&taken, &plan)?.map_err(|error| error.to_string()),
            Ok(Err(reason)) => Err(reason),
            Err(EngineError::Store(error)) => return Err(error.into()),
            // One project with wrong settings must not hold up the others.
            Err(
                error @ (EngineError::Site(_)
                | EngineError::Mailbox(_)
                | EngineError::Project { .. }),
            ) => Err(error.to_string()),
        };
        match started {
            Ok(()) => pulse.started.push((JobId::Run(run), stored.task.title.clone())),
            Err(detail) => {
                let text = format!("{run} could not be started: {detail}");
                pulse.notices.push(Notice { task: Some(run.task), urgent: true, text });
                self.end_lost(run, EndCause::NotStarted { detail }, now)?;
            }
        }
        Ok(())
    }

    /// Another process of this machine may be about to begin the same run, with a token of its own.
    /// The store knows that of the one who does; a run that is over is begun by nobody.
    fn begin_known(
        &self,
        ClaimedRun { run, token, .. }: &ClaimedRun,
        plan: &JobSpec,
    ) -> Result<Result<(), SiteError>, StoreError> {
        let mut is_known = Ok(true);
        let begun = self.site.begin_if(plan, &mut || {
            is_known = self.store.set_token(*run, &hash_of(token));
            matches!(is_known, Ok(true))
        });
        is_known.map(|_| begun)
    }

    fn say_unserved(
        &self,
        id: TaskId,
        detail: &str,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let stored = self.store.task(id)?;
        let (task, lifecycle) = (&stored.task, &stored.lifecycle);
        let counter = lifecycle.counters.iter().position(|counter| counter.name == "unserved");
        let said =
            counter.and_then(|at| task.counters.get(at)).is_some_and(|count| count.total > 0);
        let due = !said || now.since(task.updated_at) >= UNSERVED_AGAIN;
        if !due || !has_exit(&stored, NO_WORKER) {
            return Ok(());
        }
        let moved = self.ask(&stored, NO_WORKER, now)?;
        if let Some(moved) = moved {
            let blocked = moved.state().kind == StateKind::Blocked;
            let then =
                if blocked { "it waits until there is one" } else { "tried again in an hour" };
            let text = format!("nobody can take {id}: {detail}; {then}");
            pulse.notices.push(Notice { task: Some(id), urgent: true, text });
        }
        Ok(())
    }

    /// A worker has appeared: what waited for one comes back, as far as its lifecycle lets it.
    pub(super) fn serve_the_stuck(&self, now: Instant) -> Result<(), EngineError> {
        for id in self.store.stuck_without_worker(STUCK)? {
            let stored = self.store.task(id)?;
            if self.could_be_served(&stored, now)? {
                self.ask(&stored, WORKER_AVAILABLE, now)?;
            }
        }
        Ok(())
    }

    fn could_be_served(&self, stored: &Stored, now: Instant) -> Result<bool, EngineError> {
        let all = self.store.nodes()?;
        let live = all.iter().filter(|node| now.since(node.seen_at) < NODE_GONE);
        let workers: Vec<_> = live.flat_map(|node| node.workers.iter().cloned()).collect();
        Ok(could_serve(&stored.task.tags, &workers))
    }

    /// Asks for a move as the system; a refusal is an answer.
    pub(super) fn ask(
        &self,
        stored: &Stored,
        trigger: &str,
        now: Instant,
    ) -> Result<Option<Stored>, EngineError> {
        let ask = TransitionRequest {
            actor: Actor::system(),
            to: None,
            trigger: Some(trigger.to_owned()),
            fields: serde_json::Map::new(),
            epoch: None,
            version: Some(stored.task.version),
        };
        match self.store.apply(stored.task.id, Event::Asked(ask), None, now) {
            Ok(applied) => Ok(Some(applied.stored)),
            Err(StoreError::Rejected(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn hash_of(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

fn has_exit(stored: &Stored, trigger: &str) -> bool {
    stored.lifecycle.exits(stored.task.state).any(|row| row.trigger == trigger)
}
