//! Tasks, their runs, their history and what they wait for, as JSON.

use banksman_core::failure::{FailureClass, ProofLevel};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine;
use banksman_core::time::Instant;
use serde::Serialize;

use crate::ops::tasks::TaskView;
use crate::ops::{transfer, why};
use crate::store::query::Progress;
use crate::store::runs::PastRun;
use crate::store::{Edge, HistoryEntry, Stored, hex};

documents! {
    Task(view: &TaskView) {
        id: String = view.stored.task.id.to_string(),
        title: String = view.stored.task.title.clone(),
        body: String = view.stored.task.body.clone(),
        project: String = view.stored.task.project.clone(),
        lifecycle: String = view.stored.lifecycle.id.clone(),
        lifecycle_version: String = view.stored.lifecycle.version.clone(),
        state: String = view.stored.state().name.clone(),
        kind: &'static str = view.stored.state().kind.as_str(),
        group: Option<String> = view.stored.state().group.clone(),
        /// Where `[prior]` leads, while the task is blocked or parked.
        prior: Option<String> = view.stored.task.prior.map(|id| view.stored.lifecycle.state(id).name.clone()),
        version: i64 = view.stored.task.version,
        priority: i32 = view.stored.task.priority,
        batch: Option<String> = view.stored.task.batch.clone(),
        tags: Vec<String> = view.stored.task.tags.clone(),
        parent: Option<String> = view.stored.task.parent.map(|id| id.to_string()),
        /// Tasks that must be done first.
        needs: Vec<String> = needs(view, Edge::Blocks),
        /// Tasks whose results the agent is told.
        informed_by: Vec<String> = needs(view, Edge::Informs),
        /// The progress of its children; only for a task that has some.
        #[serde(skip_serializing_if = "Option::is_none")]
        children: Option<ChildProgress> = view.progress.as_ref().map(ChildProgress::new),
        /// The lifecycle's fields, including its counters.
        fields: Fields = fields(&view.stored),
        lease: Option<Lease> = lease(&view.stored.task),
        not_before: Option<Instant> = view.stored.task.not_before,
        created_at: Instant = view.stored.task.created_at,
        updated_at: Instant = view.stored.task.updated_at,
        entered_at: Instant = view.stored.task.entered_at,
    }

    /// The progress of a task's children. Those that are none of these are queued.
    ChildProgress(progress: &Progress) {
        done: i64 = progress.done,
        total: i64 = progress.total,
        running: i64 = progress.at_work,
        blocked: i64 = progress.blocked,
        failed: i64 = progress.failed,
        cancelled: i64 = progress.cancelled,
    }

    Lease(id: RunId, lease: &machine::Lease) {
        run: String = id.to_string(),
        epoch: i64 = lease.epoch,
        expires_at: Instant = lease.expires_at,
        worker: String = lease.worker.clone(),
    }
}

fn needs(view: &TaskView, edge: Edge) -> Vec<String> {
    let needs = view.needs.iter().filter(|need| need.edge == edge);
    needs.map(|need| need.task.to_string()).collect()
}

fn fields(stored: &Stored) -> Fields {
    let counters = stored.lifecycle.counters.iter().zip(&stored.task.counters);
    let mut fields = stored.task.fields.clone();
    fields.extend(counters.map(|(counter, count)| (counter.name.clone(), count.used().into())));
    fields
}

fn lease(task: &machine::Task) -> Option<Lease> {
    Some(Lease::new(task.run()?, task.lease.as_ref()?))
}

/// A task, and where the actor may move it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: Task,
    pub allowed_transitions: Vec<String>,
    /// Its last runs, oldest first.
    pub runs: Vec<Run>,
}

documents! {
    /// A run, current or past.
    Run(task: TaskId, past: &PastRun) {
        run: String = RunId { task, epoch: past.epoch }.to_string(),
        worker: String = past.worker.clone(),
        node: Option<String> = past.node.clone(),
        agent: Option<String> = past.agent.clone(),
        session: Option<String> = past.session.clone(),
        outcome: Option<&'static str> = past.outcome.map(Outcome::as_str),
        class: Option<&'static str> = past.class.map(FailureClass::as_str),
        detail: Option<String> = past.detail.clone(),
        head: Option<String> = past.head.clone(),
        /// How far its work is verified.
        level: Option<&'static str> = past.level.map(ProofLevel::as_str),
        tokens: i64 = past.tokens,
        cost_micros: i64 = past.cost_micros,
        started_at: Instant = past.started_at,
        ended_at: Option<Instant> = past.ended_at,
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskPage {
    pub tasks: Vec<Task>,
    /// The id to pass as `before` to get the next page.
    pub next: Option<String>,
}

/// The answer to a request that changed a task.
#[derive(Debug, Clone, Serialize)]
pub struct TransitionResponse {
    /// Always true; a refusal is an [`ErrorDocument`](super::error::ErrorDocument).
    pub success: bool,
    pub task: Task,
    pub transition: Option<Record>,
}

impl TransitionResponse {
    pub fn made(view: &TaskView, entry: Option<&HistoryEntry>) -> Self {
        Self { success: true, task: Task::new(view), transition: entry.map(Record::new) }
    }
}

documents! {
    /// One record of a history. The first seven keys are those of `transitions.jsonl`.
    Record(entry: &HistoryEntry) {
        ts: Instant = entry.ts,
        task: String = entry.task.to_string(),
        from: Option<String> = entry.record.from.clone(),
        to: String = entry.record.to.clone(),
        trigger: String = entry.record.trigger.clone(),
        actor: String = entry.record.actor.to_string(),
        #[serde(rename = "idempotency_key")]
        idempotency_key: Option<String> = entry.key.clone(),
        seq: i64 = entry.seq,
        fields: Fields = entry.record.fields.clone(),
        prev: String = hex(&entry.prev),
        hash: String = hex(&entry.hash),
    }

    /// With what happens next, and what to do about it, as the surface phrases it.
    Why<'a>(why: &'a why::Explanation, phrased: String) {
        task: String = why.task.to_string(),
        state: &'a str = &why.state,
        waiting_for: Vec<Waiting<'a>> = why.waiting_for.iter().map(Waiting::new).collect(),
        next: String = phrased,
    }

    Waiting<'a>(waiting: &'a why::WaitReason) {
        kind: &'static str = waiting.kind,
        detail: &'a str = &waiting.detail,
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Instant> = waiting.until,
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<&'a str> = waiting.who.as_deref(),
    }

    /// A task that was imported.
    Imported<'a>(task: &'a transfer::Imported) {
        from: Option<&'a str> = task.from.as_deref(),
        known: bool = task.known,
        to: String = task.to.to_string(),
    }
}
