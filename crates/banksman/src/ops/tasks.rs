//! Adding and moving tasks.

use std::collections::BTreeMap;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Lifecycle;
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::lifecycle::expr::{Fields, Type, Value};
use banksman_core::limits;
use banksman_core::machine::{
    Actor, Event, FactOverride, FieldError, NewTask, Spent, TransitionRequest, allowed,
};
use banksman_core::time::Instant;
use serde::Serialize;

use super::decisions::DecisionError;
use super::library::Library;
use super::principal::Operation;
use super::{OpsError, Session, decisions, refuse, request_text};
use crate::store::query::{Dependency, Detail, Filter, PAGE, Progress};
use crate::store::runs::{PAST_RUNS, PastRun};
use crate::store::{Add, Applied, Edge, HistoryEntry, IdempotencyKey, Store, StoreError, Stored};

/// Runs that are shown with a task.
const RUNS: i64 = 20;

#[derive(Debug, Clone, Default)]
pub struct AddRequest {
    pub new: NewTask,
    pub lifecycle: String,
    pub after: Vec<TaskId>,
    pub informed_by: Vec<TaskId>,
    pub key: Option<String>,
}

/// Adds a task in the initial state of its lifecycle.
pub fn add(
    session: &Session,
    library: &Library,
    request: &AddRequest,
    now: Instant,
) -> Result<Applied, OpsError> {
    let (store, actor) = (session.may(Operation::AddTasks)?, session.actor());
    let now = store.now(now)?;
    let definition = library.definition(&request.lifecycle)?;
    made_by_people(&definition.lifecycle)?;
    let fields = coerced(&definition.lifecycle, &request.new.fields);
    let new = NewTask { fields, open_needs: 0, ..request.new.clone() };
    let needs = edges(request)?;
    if let Some(batch) = &new.batch {
        named(batch)?;
    }
    let asked = (
        "add",
        &new.title,
        &new.body,
        &new.project,
        &request.lifecycle,
        &new.batch,
        &new.tags,
        new.priority,
        new.parent.map(|id| id.0),
        needs.iter().map(|(id, edge)| (id.0, edge.as_str())).collect::<Vec<_>>(),
        &new.fields,
        new.not_before.map(|at| at.0),
        actor.to_string(),
    );
    let key = key(request.key.as_deref(), &asked)?;
    Ok(store.add(Add { new, definition, needs, actor, key, arrival: None }, now)?)
}

/// The engine alone creates tasks of the other purposes.
pub(super) fn made_by_people(lifecycle: &Lifecycle) -> Result<(), OpsError> {
    let Lifecycle { id, purpose, .. } = lifecycle;
    match purpose.engine_lifecycle() {
        None => Ok(()),
        Some(_) => {
            let message =
                format!("{id} has the purpose `{purpose}`, and only the engine creates such tasks");
            Err(refuse("lifecycle", message))
        }
    }
}

fn edges(request: &AddRequest) -> Result<Vec<(TaskId, Edge)>, OpsError> {
    let blocks = request.after.iter().map(|id| (*id, Edge::Blocks));
    let informs = request.informed_by.iter().map(|id| (*id, Edge::Informs));
    let mut needs: Vec<(TaskId, Edge)> = blocks.chain(informs).collect();
    needs.sort_unstable();
    needs.dedup();
    if needs.len() > limits::NEEDS {
        return Err(refuse("needs", format!("are more than {}", limits::NEEDS)));
    }
    Ok(needs)
}

pub(super) fn named(batch: &str) -> Result<&str, OpsError> {
    if is_batch_name(batch) {
        Ok(batch)
    } else {
        Err(refuse("batch", format!("is one word of at most {} bytes", limits::NAME_BYTES)))
    }
}

/// Whether a batch can have this name.
pub fn is_batch_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= limits::NAME_BYTES
        && !name.chars().any(|c| c.is_control() || c.is_whitespace())
}

#[derive(Debug, Clone, Default)]
pub struct MoveRequest {
    /// A state; optional if there is a trigger.
    pub to: Option<String>,
    pub trigger: Option<String>,
    pub fields: Fields,
    pub key: Option<String>,
    pub version: Option<i64>,
}

impl MoveRequest {
    pub(super) fn by(trigger: Trigger, fields: Fields) -> Self {
        Self { trigger: Some(trigger.to_string()), fields, ..Self::default() }
    }
}

/// Requests a transition of a task.
pub fn move_task(
    session: &Session,
    id: TaskId,
    request: &MoveRequest,
    now: Instant,
) -> Result<Applied, OpsError> {
    let store = decisions::may_move(session, id, now)?;
    moved(store, id, (&session.actor(), session.epoch()), request, now)
}

/// Requests a transition as an actor, under the epoch of a run if the actor is one.
pub(super) fn moved(
    store: &Store,
    id: TaskId,
    (actor, epoch): (&Actor, Option<i64>),
    request: &MoveRequest,
    now: Instant,
) -> Result<Applied, OpsError> {
    let now = store.now(now)?;
    let stored = store.task(id)?;
    let fields = coerced(&stored.lifecycle, &request.fields);
    let MoveRequest { to, trigger, version, .. } = request;
    let asked = ("move", id.0, to, trigger, &fields, actor.to_string(), epoch, version);
    // A run has keys of its own, so that it cannot use up a key of another caller.
    let own_key = request.key.as_ref().map(|key| match epoch {
        Some(epoch) => format!("{}:{key}", RunId { task: id, epoch }),
        None => key.clone(),
    });
    let key = key(own_key.as_deref(), &asked)?;
    let ask = TransitionRequest {
        actor: actor.clone(),
        to: request.to.clone(),
        trigger: request.trigger.clone(),
        fields,
        epoch,
        version: request.version,
    };
    Ok(store.apply(id, Event::Asked(ask), key, now)?)
}

/// Records what a person says although there is no proof.
pub fn override_facts(
    session: &Session,
    id: TaskId,
    facts: &Fields,
    reason: &str,
    now: Instant,
) -> Result<Applied, OpsError> {
    let store = session.may_on(Operation::OverrideFacts, id)?;
    let now = store.now(now)?;
    let fields = coerced(&store.task(id)?.lifecycle, facts);
    let request = FactOverride { actor: session.actor(), fields, reason: reason.to_owned() };
    Ok(store.apply(id, Event::Overridden(request), None, now)?)
}

/// Retries a task. A task that waits for its retry starts now.
pub fn retry(
    session: &Session,
    id: TaskId,
    words: Option<&str>,
    now: Instant,
) -> Result<Applied, OpsError> {
    let store = decisions::may_move(session, id, now)?;
    let Stored { task, lifecycle, .. } = store.task(id)?;
    let has_a_way = lifecycle.has_exit(task.state, Trigger::Retry);
    let is_tried_again = task.epoch > 0 && task.is_claimable(&lifecycle);
    if is_tried_again && !has_a_way {
        return Ok(store.apply(id, Event::DelaySkipped(session.actor()), None, store.now(now)?)?);
    }
    steered(store, id, (&session.actor(), session.epoch()), (Trigger::Retry, words), now)
}

/// The most common moves, by their trigger, with a person's words.
pub fn steer(
    session: &Session,
    id: TaskId,
    trigger: Trigger,
    words: Option<&str>,
    now: Instant,
) -> Result<Applied, OpsError> {
    let store = decisions::may_move(session, id, now)?;
    steered(store, id, (&session.actor(), session.epoch()), (trigger, words), now)
}

/// Puts the words where an answer to a decision would put them. Words that the caller need not give
/// and that would be lost are refused.
pub(super) fn steered(
    store: &Store,
    id: TaskId,
    caller: (&Actor, Option<i64>),
    (trigger, words): (Trigger, Option<&str>),
    now: Instant,
) -> Result<Applied, OpsError> {
    let Stored { task, lifecycle, .. } = store.task(id)?;
    let named = if trigger == Trigger::Retry {
        lifecycle.retry_trigger(task.state)
    } else {
        trigger.name_in(&lifecycle)
    };
    let place = decisions::place_for_words(&lifecycle, &task, caller.0, named, store.now(now)?);
    let is_optional = matches!(trigger, Trigger::Unblock | Trigger::Retry);
    let has_a_way = lifecycle.exits(task.state).any(|row| row.trigger == named);
    if words.is_some() && place.is_none() && is_optional && has_a_way {
        let (lifecycle, action) = (lifecycle.id.clone(), named.to_owned());
        return Err(DecisionError::NoPlaceForWords { lifecycle, action }.into());
    }
    let given = place.clone().zip(words).map(|(field, words)| (field, Value::from(words)));
    let (trigger_name, fields) = (Some(named.to_owned()), given.into_iter().collect());
    let request = MoveRequest { trigger: trigger_name, fields, ..MoveRequest::default() };
    match moved(store, id, caller, &request, now) {
        Err(OpsError::Store(StoreError::Rejected(rejected))) if words.is_none() => {
            let is_wanted = |error: &FieldError| Some(&error.field) == place.as_ref();
            Err(match rejected.errors.iter().any(is_wanted) {
                true => OpsError::NeedsWords { task: id, trigger, rejected },
                false => StoreError::Rejected(rejected).into(),
            })
        }
        done => done,
    }
}

/// A task with what surfaces show beside its row.
#[derive(Debug, Clone)]
pub struct TaskView {
    pub stored: Stored,
    pub needs: Vec<Dependency>,
    /// The progress of its children, if it has any and it was read.
    pub progress: Option<Progress>,
}

/// Completes a task that was listed or has just been moved: rows come without their bodies.
pub fn view_of(session: &Session, mut stored: Stored) -> Result<TaskView, OpsError> {
    let store = session.may_on(Operation::ReadTask, stored.task.id)?;
    let id = stored.task.id;
    if stored.task.body.is_empty() {
        stored.task.body = store.task(id)?.task.body;
    }
    let progress = store.progress(&[id])?.remove(&id);
    Ok(TaskView { needs: store.needs(id)?, stored, progress })
}

/// Matching tasks, newest first, and the start of the next page if there is one.
pub fn page(
    session: &Session,
    filter: &Filter,
    before: Option<TaskId>,
    at_most: i64,
) -> Result<(Vec<TaskView>, Option<TaskId>), OpsError> {
    let store = session.may(Operation::ReadStore)?;
    let (tasks, next) = store.list(filter, before, at_most)?;
    let mut progress = store.progress(&ids(&tasks))?;
    let complete = store.complete(&tasks)?.into_iter();
    let view = |(stored, needs): (Stored, Vec<Dependency>)| {
        let progress = progress.remove(&stored.task.id);
        TaskView { stored, needs, progress }
    };
    Ok((complete.map(view).collect(), next))
}

/// A page of tasks for people.
#[derive(Debug, Default)]
pub struct TaskListing {
    pub tasks: Vec<Stored>,
    /// The start of the next page if there is one.
    pub next: Option<TaskId>,
    /// Finished reviews that the page hides.
    pub left_out: i64,
}

/// A finished review. Its verdict is recorded with the reviewed task, and such tasks would soon
/// outnumber everything else.
pub fn is_finished_review(stored: &Stored) -> bool {
    stored.is_review() && stored.state().terminal
}

/// Matching tasks, newest first, without those that are hidden.
pub fn listed(
    session: &Session,
    filter: &Filter,
    before: Option<TaskId>,
    at_most: i64,
    is_hidden: fn(&Stored) -> bool,
) -> Result<TaskListing, OpsError> {
    let store = session.may(Operation::ReadStore)?;
    let wanted = usize::try_from(at_most.clamp(1, PAGE)).unwrap_or(1);
    let mut listed = TaskListing { next: before, ..TaskListing::default() };
    loop {
        let (tasks, next) = store.list(filter, listed.next, PAGE)?;
        for stored in tasks {
            if is_hidden(&stored) {
                listed.left_out += 1;
                continue;
            }
            listed.next = Some(stored.task.id);
            listed.tasks.push(stored);
            if listed.tasks.len() == wanted {
                return Ok(listed);
            }
        }
        listed.next = next;
        if next.is_none() {
            return Ok(listed);
        }
    }
}

fn ids(tasks: &[Stored]) -> Vec<TaskId> {
    tasks.iter().map(|stored| stored.task.id).collect()
}

/// Reads every task, oldest first, without the progress of its children: those are read themselves.
pub fn each_task<E: From<OpsError>>(
    session: &Session,
    mut show: impl FnMut(&TaskView) -> Result<(), E>,
) -> Result<(), E> {
    let store = session.may(Operation::ReadStore)?;
    let mut after = TaskId(0);
    loop {
        let page = store.tasks_from(after).map_err(OpsError::from)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.0.task.id;
        for (stored, needs) in page {
            show(&TaskView { stored, needs, progress: None })?;
        }
    }
}

/// Reads every record of a task, oldest first.
pub fn each_record<E: From<OpsError>>(
    session: &Session,
    id: TaskId,
    show: impl FnMut(&HistoryEntry) -> Result<(), E>,
) -> Result<(), E> {
    each_record_of(session.may_on(Operation::ReadTask, id)?, id, show)
}

pub(super) fn each_record_of<E: From<OpsError>>(
    store: &Store,
    id: TaskId,
    mut show: impl FnMut(&HistoryEntry) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = 0;
    loop {
        let page = store.history(id, after).map_err(OpsError::from)?;
        for entry in &page {
            after = entry.seq;
            show(entry)?;
        }
        if i64::try_from(page.len()).unwrap_or(PAGE) < PAGE {
            return Ok(());
        }
    }
}

/// Everything about one task.
#[derive(Debug, Clone)]
pub struct TaskPage {
    pub detail: Detail,
    pub progress: Option<Progress>,
    /// The states that the caller could move it to now.
    pub allowed: Vec<String>,
    /// The last runs, the oldest first.
    pub runs: Vec<PastRun>,
    /// Its subtasks and reviews.
    pub children: Vec<Stored>,
    /// By the task and its children.
    pub spent: Spent,
}

pub fn everything(session: &Session, id: TaskId, now: Instant) -> Result<TaskPage, OpsError> {
    let store = session.may_on(Operation::ReadTask, id)?;
    let detail = store.detail(id)?;
    let Stored { task, lifecycle, .. } = &detail.stored;
    Ok(TaskPage {
        allowed: allowed(lifecycle, task, &session.actor(), now),
        progress: store.progress(&[id])?.remove(&id),
        runs: store.past_runs(id, RUNS)?,
        children: store.children(id)?,
        spent: store.spent_with_children(task)?,
        detail,
    })
}

/// The progress of the children of listed tasks.
pub fn progress_of(
    session: &Session,
    tasks: &[Stored],
) -> Result<BTreeMap<TaskId, Progress>, OpsError> {
    Ok(session.may(Operation::ReadStore)?.progress(&ids(tasks))?)
}

/// The records of a task after a number, at most a page of them.
pub fn records_after(
    session: &Session,
    id: TaskId,
    after: i64,
) -> Result<Vec<HistoryEntry>, OpsError> {
    Ok(session.may_on(Operation::ReadTask, id)?.history(id, after)?)
}

/// Reads the children of a task that have changed since they were read.
pub fn refresh_children(
    session: &Session,
    parent: TaskId,
    known: &mut BTreeMap<TaskId, Stored>,
) -> Result<(), OpsError> {
    Ok(session.may_on(Operation::ReadTask, parent)?.refresh_children(parent, known)?)
}

/// The runs of a task, only the last ones if there are very many.
pub fn past_runs(session: &Session, id: TaskId) -> Result<Vec<PastRun>, OpsError> {
    let store = session.may_on(Operation::ReadTask, id)?;
    store.task(id)?;
    Ok(store.past_runs(id, PAST_RUNS)?)
}

/// One task.
pub fn find(session: &Session, id: TaskId) -> Result<Stored, OpsError> {
    Ok(session.may_on(Operation::ReadTask, id)?.task(id)?)
}

pub(super) fn key(
    text: Option<&str>,
    asked: &impl Serialize,
) -> Result<Option<IdempotencyKey>, OpsError> {
    let Some(text) = text else { return Ok(None) };
    if text.is_empty() || text.len() > limits::KEY_BYTES || text.chars().any(char::is_control) {
        let rule = format!("is 1 to {} bytes without control characters", limits::KEY_BYTES);
        return Err(refuse("key", rule));
    }
    Ok(Some(IdempotencyKey::new(text, &request_text(asked))))
}

/// Values as people type them, converted to the types that the lifecycle declares.
/// `workPlan.bullets` sets a member.
pub(super) fn coerced(lifecycle: &Lifecycle, given: &Fields) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in given {
        let kind = lifecycle.fields.get(name).map(|field| &field.kind);
        if let (None, Some((record, member))) = (kind, name.split_once('.')) {
            set_member(lifecycle, &mut fields, record, member, value);
        } else {
            fields.insert(name.clone(), coerce(kind, value));
        }
    }
    fields
}

fn coerce(kind: Option<&Type>, value: &Value) -> Value {
    kind.map_or_else(|| value.clone(), |kind| kind.coerce(value.clone()))
}

fn set_member(
    lifecycle: &Lifecycle,
    fields: &mut Fields,
    record: &str,
    member: &str,
    value: &Value,
) {
    let kind = match lifecycle.fields.get(record).map(|field| &field.kind) {
        Some(Type::Record(members)) => members.get(member),
        Some(_) | None => None,
    };
    let record = fields.entry(record.to_owned()).or_insert_with(|| Value::Object(Fields::new()));
    if let Value::Object(members) = record {
        members.insert(member.to_owned(), coerce(kind, value));
    }
}
