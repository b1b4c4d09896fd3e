//! The reviewers of a panel and the workers that may play them: those that the gate of a workflow's
//! step names, or else those of the settings.

use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::AgentRole;
use banksman_core::panel::registry::{Reviewer, roster};
use banksman_core::schedule::Worker;
use banksman_core::time::Instant;

use crate::config::{Panels, WorkerSetup};
use crate::engine::Result;
use crate::engine::steps::StepTask;
use crate::engine::workers::live_workers;
use crate::store::{Store, Stored};

/// The role whose panel is the whole roster; a panel of another role has one reviewer of that name.
/// A worker with this role takes any review.
pub(super) const REVIEWER: &str = AgentRole::Reviewer.as_str();

/// The role of the panel in the task's state; `reviewer` where it has none.
pub(in crate::engine) fn role_of_panel(parent: &Stored) -> &str {
    let does = parent.state().does.as_ref().filter(|does| does.activity == Activity::Panel);
    does.and_then(|does| does.role.as_deref()).unwrap_or(REVIEWER)
}

/// The reviewers of a task.
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

/// The workers of all live nodes that review.
pub(super) fn reviewing_workers(
    store: &Store,
    here: &[WorkerSetup],
    now: Instant,
) -> Result<Vec<Worker>> {
    let here = here.iter().map(|setup| setup.worker.clone());
    let workers = live_workers(store, now)?.into_iter().chain(here);
    Ok(workers.filter(|worker| worker.plays(REVIEWER)).collect())
}

/// The tags of a review: the worker that the reviewer names, or if possible another one than did
/// the work.
pub(super) fn tags_of(
    reviewer: &Reviewer,
    last: Option<&str>,
    here: &[WorkerSetup],
    workers: &[Worker],
) -> Vec<String> {
    let own = reviewer.name.clone();
    let wish = match &reviewer.model {
        Some(model) => Some(format!("needs:{}", player(model, last, here, workers))),
        None => last.map(|last| format!("avoid:{last}")),
    };
    [own].into_iter().chain(wish).collect()
}

/// The worker whose name, model or agent this is; of several, rather one that did not do the work,
/// and the cheapest.
fn player(model: &str, last: Option<&str>, here: &[WorkerSetup], workers: &[Worker]) -> String {
    let runs_it = |setup: &&WorkerSetup| {
        let agent = &setup.agent;
        agent.model.as_deref() == Some(model) || agent.kind.as_str() == model
    };
    let mut named: Vec<&Worker> = workers.iter().filter(|one| one.name == model).collect();
    if named.is_empty() {
        let setups = here.iter().filter(runs_it).map(|setup| &setup.worker);
        named = setups.filter(|worker| worker.plays(REVIEWER)).collect();
    }
    // Of other nodes only the account is known, which is the agent's name unless the settings name
    // another.
    if named.is_empty() {
        named = workers.iter().filter(|worker| worker.account == model).collect();
    }
    let best = named
        .into_iter()
        .min_by_key(|worker| (last == Some(worker.name.as_str()), worker.cost, &worker.name));
    best.map_or_else(|| model.to_owned(), |worker| worker.name.clone())
}
