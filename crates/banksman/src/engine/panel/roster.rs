//! The reviewers of a panel and the workers that may play them: those that the gate of a workflow's
//! step names, or else those of the settings.

use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::{AgentRole, Field};
use banksman_core::panel::registry::{Reviewer, roster};
use banksman_core::schedule::{Worker, could_serve};
use banksman_core::time::Instant;

use crate::config::{Panels, WorkerSetup};
use crate::engine::Result;
use crate::engine::steps::StepTask;
use crate::store::{Store, Stored};

/// The role whose panel is the whole roster; a panel of another role has one reviewer of that name.
const REVIEWER: &str = AgentRole::Reviewer.as_str();

/// The role of the panel in the task's state; `reviewer` where it has none. Workers with this role
/// take its reviews.
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
    let always = if is_about_plan(parent) { &panels.plan_reviewers } else { &panels.reviewers };
    match (step.and_then(|step| step.spec.gate.as_ref()), role) {
        (Some(gate), _) => gate.reviewers.iter().map(|name| panels.called(name)).collect(),
        (None, REVIEWER) => roster(always, &panels.specialists, &parent.task.tags),
        (None, other) => vec![panels.called(other)],
    }
}

/// Whether a panel judges a proposal: there is no work yet.
pub(super) fn is_about_plan(parent: &Stored) -> bool {
    let is_planned = [Field::Plan, Field::Subtasks].iter().any(|it| parent.value(*it).is_some());
    is_planned && parent.text(Field::PrUrl).is_none()
}

/// The worker of the task's last run, whose work a panel judges.
pub(super) fn doer_of(store: &Store, parent: &Stored) -> Result<Option<String>> {
    Ok(store.past_runs(parent.task.id, 1)?.pop().map(|run| run.worker))
}

/// The workers that may play the reviewers of a panel.
pub(super) struct Players<'a> {
    role: &'a str,
    here: &'a [WorkerSetup],
    /// Those of all live nodes that have the panel's role.
    workers: Vec<Worker>,
    doer: Option<String>,
    /// Whether the doer may judge its own work if nobody else can.
    own_work: bool,
}

impl<'a> Players<'a> {
    pub(super) fn find(
        store: &Store,
        here: &'a [WorkerSetup],
        parent: &'a Stored,
        own_work: bool,
        now: Instant,
    ) -> Result<Self> {
        let role = role_of_panel(parent);
        let of_node = here.iter().map(|setup| setup.worker.clone());
        let mut workers: Vec<Worker> =
            store.live_workers(now)?.into_iter().chain(of_node).collect();
        workers.retain(|worker| worker.plays(role));
        Ok(Self { role, here, workers, doer: doer_of(store, parent)?, own_work })
    }

    /// Whether any worker could take a review with these tags.
    pub(super) fn could_serve(&self, tags: &[String]) -> bool {
        could_serve(tags, &[self.role], &self.workers)
    }

    /// The tags of a review: the worker that the reviewer names, and never the one that did the
    /// work, unless only that one can judge it and the settings allow it.
    pub(super) fn tags_of(&self, reviewer: &Reviewer) -> Vec<String> {
        let named = match &reviewer.model {
            Some(model) => self.named(model),
            None => self.workers.iter().collect(),
        };
        let is_doer = |worker: &&Worker| self.doer.as_deref() == Some(worker.name.as_str());
        let (own, others): (Vec<&Worker>, Vec<&Worker>) = named.into_iter().partition(is_doer);
        let judges_itself = others.is_empty() && !own.is_empty() && self.own_work;
        let free = if judges_itself { own } else { others };
        let best = free.into_iter().min_by_key(|worker| (worker.cost, &worker.name));
        let wish = reviewer.model.as_ref().map(|model| {
            format!("needs:{}", best.map_or(model.as_str(), |worker| worker.name.as_str()))
        });
        let avoids = self.doer.as_ref().filter(|_| !judges_itself);
        let avoids = avoids.map(|doer| format!("avoid:{doer}"));
        [reviewer.name.clone()].into_iter().chain(wish).chain(avoids).collect()
    }

    /// The workers whose name, model or agent this is, in this order.
    fn named(&self, model: &str) -> Vec<&Worker> {
        let runs_it = |worker: &&Worker| {
            let setup = self.here.iter().find(|setup| setup.worker.name == worker.name);
            let is_agent = setup.is_some_and(|setup| setup.agent.kind.as_str() == model);
            worker.model.as_deref() == Some(model) || is_agent
        };
        let all = || self.workers.iter();
        let by_name: Vec<&Worker> = all().filter(|one| one.name == model).collect();
        let by_model: Vec<&Worker> = all().filter(runs_it).collect();
        // Of other nodes only the account tells the agent, unless the settings name another.
        let by_account = all().filter(|worker| worker.account == model).collect();
        [by_name, by_model, by_account]
            .into_iter()
            .find(|some| !some.is_empty())
            .unwrap_or_default()
    }

    /// Why nobody can take any of these reviews.
    pub(super) fn missing(&self, asked: &[Reviewer]) -> String {
        let is_doer = |worker: &Worker| self.doer.as_deref() == Some(worker.name.as_str());
        let Self { role, .. } = self;
        match (self.workers.is_empty(), self.workers.iter().all(is_doer), &self.doer) {
            (true, _, _) => format!("no worker has the role {role}"),
            (_, true, Some(doer)) if !self.own_work => {
                format!("only {doer}, which did the work, has the role {role}")
            }
            (_, _, _) => {
                let names: Vec<&str> = asked.iter().map(|one| one.name.as_str()).collect();
                format!("no worker with the role {role} can play {}", names.join(", "))
            }
        }
    }
}
