//! Wire types: the only place where domain types become JSON, for every surface.
//!
//! Keys and types are a contract: keys may be added; renames, removals and type changes need a note
//! in the change log. Times are RFC 3339 in UTC, ids are strings such as `t12`.

mod table;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Lifecycle;
use banksman_core::machine::{self, Rejected};
use banksman_core::time::Instant;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::ops::status::{ActiveRun, NeedsPerson, ParentProgress, PendingRetry, StatusSummary};
use crate::ops::tasks::TaskView;
use crate::ops::why;
use crate::store::batches::Batch;
use crate::store::health::HealthReport;
use crate::store::query::{Overview, Progress};
use crate::store::runs::PastRun;
use crate::store::{Edge, HistoryEntry, hex};

pub use table::{lifecycle, setting};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub title: String,
    pub body: String,
    pub project: String,
    pub lifecycle: String,
    pub lifecycle_version: String,
    pub state: String,
    pub kind: &'static str,
    pub group: Option<String>,
    /// Where `[prior]` leads, while the task is blocked or parked.
    pub prior: Option<String>,
    pub version: i64,
    pub priority: i32,
    pub batch: Option<String>,
    pub tags: Vec<String>,
    pub parent: Option<String>,
    /// Tasks that must be done first.
    pub needs: Vec<String>,
    /// Tasks whose results the agent is told.
    pub informed_by: Vec<String>,
    /// The progress of its children; only for a task that has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildProgress>,
    /// The lifecycle's fields, including its counters.
    pub fields: Map<String, Value>,
    pub lease: Option<Lease>,
    pub not_before: Option<Instant>,
    pub created_at: Instant,
    pub updated_at: Instant,
    pub entered_at: Instant,
}

/// The progress of a task's children. Those that are none of these are queued.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildProgress {
    pub done: i64,
    pub total: i64,
    pub at_work: i64,
    pub blocked: i64,
    pub failed: i64,
    pub cancelled: i64,
}

impl From<&Progress> for ChildProgress {
    fn from(progress: &Progress) -> Self {
        let Progress { total, done, at_work, held: blocked, failed, cancelled } = *progress;
        Self { done, total, at_work, blocked, failed, cancelled }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub run: String,
    pub epoch: i64,
    pub expires_at: Instant,
    pub worker: String,
}

impl From<&TaskView> for Task {
    fn from(view: &TaskView) -> Self {
        let (task, lifecycle) = (&view.stored.task, &view.stored.lifecycle);
        let state = lifecycle.state(task.state);
        let needs = |edge| {
            view.needs
                .iter()
                .filter(move |need| need.edge == edge)
                .map(|need| need.task.to_string())
                .collect()
        };
        Self {
            id: task.id.to_string(),
            title: task.title.clone(),
            body: task.body.clone(),
            project: task.project.clone(),
            lifecycle: lifecycle.id.clone(),
            lifecycle_version: lifecycle.version.clone(),
            state: state.name.clone(),
            kind: state.kind.as_str(),
            group: state.group.clone(),
            prior: task.prior.map(|id| lifecycle.state(id).name.clone()),
            version: task.version,
            priority: task.priority,
            batch: task.batch.clone(),
            tags: task.tags.clone(),
            parent: task.parent.map(|id| id.to_string()),
            needs: needs(Edge::Blocks),
            informed_by: needs(Edge::Informs),
            children: view.progress.as_ref().map(ChildProgress::from),
            fields: fields(lifecycle, task),
            lease: lease(task),
            not_before: task.not_before,
            created_at: task.created_at,
            updated_at: task.updated_at,
            entered_at: task.entered_at,
        }
    }
}

fn fields(lifecycle: &Lifecycle, task: &machine::Task) -> Map<String, Value> {
    let counters = lifecycle.counters.iter().zip(&task.counters);
    let mut fields = task.fields.clone();
    fields.extend(counters.map(|(counter, count)| (counter.name.clone(), json!(count.used()))));
    fields
}

fn lease(task: &machine::Task) -> Option<Lease> {
    let (lease, run) = (task.lease.as_ref()?, task.run()?);
    Some(Lease {
        run: run.to_string(),
        epoch: lease.epoch,
        expires_at: lease.expires_at,
        worker: lease.worker.clone(),
    })
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

/// A run, current or past.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub run: String,
    pub worker: String,
    pub node: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub outcome: Option<String>,
    pub class: Option<String>,
    pub detail: Option<String>,
    pub head: Option<String>,
    /// How far its work is verified.
    pub level: Option<String>,
    pub tokens: i64,
    pub cost_micros: i64,
    pub started_at: Instant,
    pub ended_at: Option<Instant>,
}

impl Run {
    #[must_use]
    pub fn of(task: TaskId, run: &PastRun) -> Self {
        Self {
            run: RunId { task, epoch: run.epoch }.to_string(),
            worker: run.worker.clone(),
            node: run.node.clone(),
            agent: run.agent.clone(),
            session: run.session.clone(),
            outcome: run.outcome.clone(),
            class: run.class.map(|class| class.as_str().to_owned()),
            detail: run.detail.clone(),
            head: run.head.clone(),
            level: run.level.map(|level| level.as_str().to_owned()),
            tokens: run.tokens,
            cost_micros: run.cost_micros,
            started_at: run.started_at,
            ended_at: run.ended_at,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskPage {
    pub tasks: Vec<Task>,
    /// The id to pass as `before` to get the next page.
    pub next: Option<String>,
}

/// The answer to a request that changes a task.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum TransitionResponse {
    Made {
        success: True,
        task: Box<Task>,
        transition: Option<Record>,
    },
    #[serde(rename_all = "camelCase")]
    Refused {
        success: False,
        errors: Vec<FieldError>,
        allowed_transitions: Vec<String>,
    },
}

/// Serializes as `true`, so that the shape of an answer always matches its `success`.
#[derive(Debug, Clone, Copy)]
pub struct True;
/// Serializes as `false`.
#[derive(Debug, Clone, Copy)]
pub struct False;

impl Serialize for True {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl Serialize for False {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

impl TransitionResponse {
    #[must_use]
    pub fn made(view: &TaskView, entry: Option<&HistoryEntry>) -> Self {
        Self::Made {
            success: True,
            task: Box::new(view.into()),
            transition: entry.map(Record::from),
        }
    }
}

impl From<&Rejected> for TransitionResponse {
    fn from(rejected: &Rejected) -> Self {
        let errors = rejected
            .errors
            .iter()
            .map(|error| FieldError { field: error.field.clone(), message: error.message.clone() });
        Self::Refused {
            success: False,
            errors: errors.collect(),
            allowed_transitions: rejected.allowed.clone(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

/// One record of a history. The first seven keys are those of `transitions.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    pub ts: Instant,
    pub task: String,
    pub from: Option<String>,
    pub to: String,
    pub trigger: String,
    pub actor: String,
    pub idempotency_key: Option<String>,
    pub seq: i64,
    pub fields: Map<String, Value>,
    pub prev: String,
    pub hash: String,
}

impl From<&HistoryEntry> for Record {
    fn from(entry: &HistoryEntry) -> Self {
        Self {
            ts: entry.ts,
            task: entry.task.to_string(),
            from: entry.record.from.clone(),
            to: entry.record.to.clone(),
            trigger: entry.record.trigger.clone(),
            actor: entry.record.actor.to_string(),
            idempotency_key: entry.key.clone(),
            seq: entry.seq,
            fields: entry.record.fields.clone(),
            prev: hex(&entry.prev),
            hash: hex(&entry.hash),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub task: String,
    pub state: String,
    pub waiting_for: Vec<Waiting>,
    pub next: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Waiting {
    pub kind: &'static str,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

impl From<&why::Explanation> for Why {
    fn from(why: &why::Explanation) -> Self {
        let waiting = why.waiting_for.iter().map(|waiting| Waiting {
            kind: waiting.kind,
            detail: waiting.detail.clone(),
            until: waiting.until,
            who: waiting.who.clone(),
        });
        Self {
            task: why.task.to_string(),
            state: why.state.clone(),
            waiting_for: waiting.collect(),
            next: why.next.clone(),
        }
    }
}

/// The output of `status`.
#[must_use]
pub fn summary(summary: &StatusSummary) -> Value {
    let mut document = overview(&summary.overview);
    let accounts = summary.overview.paused_accounts.iter().map(|(name, account)| {
        json!({ "name": name, "until": account.paused_until, "reason": account.reason })
    });
    document["paused"] = json!(summary.overview.paused);
    document["pausedAccounts"] = accounts.collect();
    document["running"] = summary.at_work.iter().map(at_work).collect();
    document["retrying"] = summary.retries.iter().map(retry).collect();
    document["needsPerson"] = summary.asks.iter().map(ask).collect();
    document["parents"] = summary.parents.iter().map(parent).collect();
    document
}

fn at_work(at_work: &ActiveRun) -> Value {
    json!({
        "task": at_work.run.task.to_string(),
        "run": at_work.run.to_string(),
        "attempt": at_work.run.epoch,
        "title": at_work.title,
        "state": at_work.state,
        "worker": at_work.worker,
        "node": at_work.node,
        "startedAt": at_work.started_at,
    })
}

fn retry(retry: &PendingRetry) -> Value {
    json!({
        "task": retry.task.to_string(),
        "attempt": retry.attempt,
        "title": retry.title,
        "state": retry.state,
        "nextTryAt": retry.at,
        "lastOutcome": retry.outcome,
        "lastError": retry.error,
    })
}

fn ask(ask: &NeedsPerson) -> Value {
    json!({
        "task": ask.task.to_string(),
        "title": ask.title,
        "state": ask.state,
        "what": ask.what,
        "since": ask.since,
        "until": ask.until,
    })
}

fn parent(parent: &ParentProgress) -> Value {
    json!({
        "task": parent.task.to_string(),
        "title": parent.title,
        "state": parent.state,
        "children": ChildProgress::from(&parent.progress),
    })
}

/// The counts of the store.
#[must_use]
pub fn overview(overview: &Overview) -> Value {
    let states = overview
        .states
        .iter()
        .map(|count| json!({ "state": count.state, "kind": count.kind, "tasks": count.tasks }));
    let projects =
        overview.projects.iter().map(|(name, path)| json!({ "name": name, "path": path }));
    json!({
        "states": states.collect::<Vec<_>>(),
        "ready": overview.ready,
        "openDecisions": overview.open_decisions,
        "pendingEffects": overview.pending_effects,
        "deadEffects": overview.dead_effects,
        "nextTimer": overview.next_timer,
        "projects": projects.collect::<Vec<_>>(),
        "batches": overview.batches.iter().map(batch).collect::<Vec<_>>(),
    })
}

/// A batch: its limits, its use and its progress.
#[must_use]
pub fn batch(batch: &Batch) -> Value {
    let Batch { budget, used, .. } = batch;
    json!({
        "name": batch.name,
        "concurrency": batch.concurrency,
        "paused": batch.paused,
        "tasks": batch.tasks,
        "running": batch.running,
        "done": batch.done,
        "givenUp": batch.given_up,
        "budget": {
            "runs": budget.runs,
            "tokens": budget.tokens,
            "costMicros": budget.cost_micros,
            "time": budget.time,
        },
        "used": {
            "runs": used.runs,
            "tokens": used.tokens,
            "costMicros": used.cost_micros,
            "time": used.time,
        },
    })
}

/// The findings of `check`.
#[must_use]
pub fn report(report: &HealthReport) -> Value {
    let findings = report
        .findings
        .iter()
        .map(|finding| json!({ "task": finding.task.to_string(), "what": finding.what }));
    let findings =
        findings.chain(report.faults.iter().map(|fault| json!({ "task": null, "what": fault })));
    json!({
        "ok": report.findings.is_empty() && report.faults.is_empty(),
        "tasks": report.tasks,
        "findings": findings.collect::<Vec<_>>(),
    })
}

/// The findings of `audit verify`, and the digest of all histories.
#[must_use]
pub fn verification(report: &HealthReport, expected: Option<&str>) -> Value {
    let mut document = self::report(report);
    let is_expected = expected.is_none_or(|digest| digest == report.digest);
    document["ok"] = json!(report.findings.is_empty() && is_expected);
    document["records"] = json!(report.records);
    document["digest"] = json!(report.digest);
    document["expected"] = json!(expected);
    document
}
