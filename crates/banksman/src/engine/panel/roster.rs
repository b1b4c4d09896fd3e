//! Who sits on a panel and which workers may play them: those that the gate of a workflow's step
//! names, or else those of the settings.

use banksman_core::lifecycle::Activity;
use banksman_core::limits::NODE_GONE;
use banksman_core::panel::registry::{Reviewer, roster};
use banksman_core::schedule::Worker;
use banksman_core::time::Instant;

use crate::config::{Panels, WorkerSetup};
use crate::engine::steps::StepTask;
use crate::engine::{Engine, EngineError};
use crate::store::Stored;

/// Whose panel is the whole roster; a panel of another role has one seat of that name. Whoever
/// plays it takes every seat.
pub(super) const REVIEWER: &str = "reviewer";

/// Whose part the panel of the task's state is; that of reviewers where it has none.
pub(in crate::engine) fn role_of_panel(parent: &Stored) -> &str {
    let does = parent.state().does.as_ref().filter(|does| does.activity == Activity::Panel);
    does.and_then(|does| does.role.as_deref()).unwrap_or(REVIEWER)
}

/// Those who are asked about a task.
pub(in crate::engine) fn reviewers(
    parent: &Stored,
    role: &str,
    step: Option<&StepTask>,
    panels: &Panels,
) -> Vec<Reviewer> {
    match (step.and_then(|step| step.spec.gate.as_ref()), role) {
        (Some(gate), _) => gate.reviewers.iter().map(|name| panels.called(name)).collect(),
        (None, REVIEWER) => roster(&panels.reviewers, &panels.specialists, &parent.task.tags),
        (None, other) => vec![panels.called(other)],
    }
}

impl Engine<'_> {
    /// Those of all live machines that review.
    pub(super) fn reviewing_workers(&self, now: Instant) -> Result<Vec<Worker>, EngineError> {
        let nodes = self.store.nodes()?.into_iter();
        let live = nodes.filter(|node| now.since(node.seen_at) < NODE_GONE);
        let workers = live.flat_map(|node| node.workers).chain(self.workers());
        Ok(workers.filter(|worker| worker.plays(REVIEWER)).collect())
    }

    /// What a seat asks of its worker: to be the one that the reviewer names, or if it can be
    /// another one than did the work.
    pub(super) fn tags_of(
        &self,
        reviewer: &Reviewer,
        last: Option<&str>,
        workers: &[Worker],
    ) -> Vec<String> {
        let own = reviewer.name.clone();
        let wish = match &reviewer.model {
            Some(model) => Some(format!("needs:{}", self.player(model, last, workers))),
            None => last.map(|last| format!("avoid:{last}")),
        };
        [own].into_iter().chain(wish).collect()
    }

    /// The worker whose name, model or agent this is; of several rather one that did not do the
    /// work, and the cheapest.
    fn player(&self, model: &str, last: Option<&str>, workers: &[Worker]) -> String {
        let here =
            |setup: &&WorkerSetup| setup.model.as_deref() == Some(model) || setup.agent == model;
        let mut named: Vec<&Worker> = workers.iter().filter(|one| one.name == model).collect();
        if named.is_empty() {
            let setups = self.config.workers.iter().filter(here).map(|setup| &setup.worker);
            named = setups.filter(|worker| worker.plays(REVIEWER)).collect();
        }
        // Of other machines no more is known than the account, which is the agent's name unless
        // somebody gave it another one.
        if named.is_empty() {
            named = workers.iter().filter(|worker| worker.account == model).collect();
        }
        let best = named
            .into_iter()
            .min_by_key(|worker| (last == Some(worker.name.as_str()), worker.cost, &worker.name));
        best.map_or_else(|| model.to_owned(), |worker| worker.name.clone())
    }
}
