//! The only writer of a task's state: load, decide, and write in one transaction.
//!
//! The row is locked from the load on (SQLite has one writer anyway), the update names the version
//! it was decided on, and the primary key of the history (task, number) refuses a second record of
//! the same number. So two writers never both succeed.

use std::sync::Arc;

use banksman_core::closed::closed;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::lifecycle::{Lifecycle, StateKind};
use banksman_core::limits::BATCH_CONCURRENCY;
use banksman_core::machine::{
    self, Actor, Ending, Event, Ignored, ImportedState, NewTask, RejectReason, Rejected,
    StepResult, Task, TaskUpdate, TransitionRequest,
};
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::audit::{GENESIS, HistoryEntry};
use super::conn::storable;
use super::damage::unless_damaged;
use super::definitions::Definition;
use super::follow::follow_up;
use super::invariant::check_step;
use super::notices::{NewNotice, write_notice};
use super::row::{Stored, changing, json};
use super::spent::end_run;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, query, sql};

/// Makes a request repeatable: the second time returns the first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub text: String,
    /// The hash of the request, which shows if a key is used for another request.
    pub request: Vec<u8>,
}

impl IdempotencyKey {
    pub fn new(text: &str, request: &str) -> Self {
        let request = Sha256::digest(request.as_bytes()).to_vec();
        Self { text: storable(text.to_owned()), request }
    }
}

closed! {
    /// How one task depends on another.
    pub enum Edge {
        /// It must be done first.
        Blocks = "blocks",
        /// Its result is useful, but the task does not wait for it.
        Informs = "informs",
    }
}

/// A task to be added.
#[derive(Debug, Clone)]
pub struct Add {
    pub new: NewTask,
    pub definition: Definition,
    pub needs: Vec<(TaskId, Edge)>,
    pub actor: Actor,
    pub key: Option<IdempotencyKey>,
    /// The state of an imported task; `None` for the initial state.
    pub arrival: Option<ImportedState>,
}

/// The result of an event.
#[derive(Debug, Clone)]
pub struct Applied {
    pub stored: Stored,
    /// The record that the event left in the history, if it left one.
    pub entry: Option<HistoryEntry>,
    /// Whether this is the answer to an earlier request with the same key.
    pub replayed: bool,
}

impl Store {
    pub fn add(&self, add: Add, now: Instant) -> Result<Applied> {
        let applied = self.write_keyed(move |tx| add_in(tx, &add, now))?;
        // The answer to a repeated request has the lifecycle of the task, which may be an older
        // one.
        self.definitions.remember(&applied.stored.lifecycle);
        Ok(applied)
    }

    /// Applies an event to a task. A stale write, under an earlier epoch, is refused and recorded.
    pub fn apply(
        &self,
        id: TaskId,
        event: Event,
        key: Option<IdempotencyKey>,
        now: Instant,
    ) -> Result<Applied> {
        self.apply_telling(id, event, key, now, |_| None)
    }

    /// The same with a notice about it, in the same transaction. The answer to a repeated request
    /// has none.
    pub fn apply_telling(
        &self,
        id: TaskId,
        event: Event,
        key: Option<IdempotencyKey>,
        now: Instant,
        tell: impl Fn(&Applied) -> Option<NewNotice> + Clone + Send + 'static,
    ) -> Result<Applied> {
        self.fenced(id, epoch_of(&event), now, move |tx| {
            let old = tx.load_for_update(id)?;
            if let Some(replay) = replay(tx, key.as_ref())? {
                return Ok(replay);
            }
            let applied = apply_to(tx, old, &event, key.as_ref(), now)?;
            tell(&applied).iter().try_for_each(|notice| write_notice(tx, notice, now))?;
            Ok(applied)
        })
    }

    /// Writes under an epoch, if any. A stale write is refused and recorded.
    pub(super) fn fenced(
        &self,
        id: TaskId,
        epoch: Option<i64>,
        now: Instant,
        job: impl FnMut(&mut Tx<'_>) -> Result<Applied> + Clone + Send + 'static,
    ) -> Result<Applied> {
        let applied = self.write_keyed(job);
        if let (Err(StoreError::Rejected(rejected)), Some(epoch)) = (&applied, epoch)
            && rejected.why == RejectReason::StaleLease
        {
            // Once for each epoch, so that a writer that repeats it does not fill the history.
            let text = format!("stale-write-{id}-{epoch}");
            let key = IdempotencyKey::new(&text, &text);
            self.apply(id, Event::StaleWrite { epoch }, Some(key), now)?;
        }
        applied
    }
}

/// The epoch under which an event was sent.
fn epoch_of(event: &Event) -> Option<i64> {
    match event {
        Event::Asked(ask) => ask.epoch,
        Event::Heartbeat(heartbeat) => Some(heartbeat.epoch),
        Event::Finished(finish) => Some(finish.epoch),
        Event::Claimed(_)
        | Event::Reported(_)
        | Event::Due { .. }
        | Event::StaleWrite { .. }
        | Event::Noted(_)
        | Event::DelaySkipped(_)
        | Event::Overridden(_)
        | Event::Restored { .. }
        | Event::NeedsLeft(_)
        | Event::Uncounted(_)
        | Event::LateCost(_) => None,
    }
}

pub(super) fn add_in(tx: &mut Tx<'_>, add: &Add, now: Instant) -> Result<Applied> {
    if let Some(mut replay) = replay(tx, add.key.as_ref())? {
        let task = &mut replay.stored.task;
        task.body = query::body(tx, task.id)?;
        return Ok(replay);
    }
    let lifecycle = &add.definition.lifecycle;
    if !tx.definitions.has(&lifecycle.version) {
        tx.definitions.keep(tx.conn, &add.definition, now)?;
    }
    let (open_needs, ended) = open_needs(tx, add)?;
    let id = tx.value(sql::NEXT_TASK_ID, &[])?.unwrap_or(TaskId(1));
    let new = NewTask { open_needs, ..add.new.clone() };
    let step = match add.arrival {
        None => machine::create(lifecycle, &new, &add.actor, id, now)?,
        Some(arrival) => machine::import(lifecycle, &new, arrival, &add.actor, id, now)?,
    };
    let unreadable = machine::unreadable(lifecycle, &step.task);
    if !unreadable.is_empty() {
        return Err(Rejected::invalid(unreadable).into());
    }
    let mut added = insert(tx, add, step, now)?;
    for needed in ended {
        let Some(ended) = unless_damaged(tx.load_for_update(needed))? else { continue };
        if ended.state().terminal {
            added.stored = ask_about(tx, added.stored, &ended.task, &ended.lifecycle, now)?;
        }
    }
    Ok(added)
}

/// Counts the needs that are not done, and locks them and the parent until the transaction ends.
/// Some of them may never be done.
fn open_needs(tx: &mut Tx<'_>, add: &Add) -> Result<(i64, Vec<TaskId>)> {
    let parent = add.new.parent.map(|parent| (parent, Edge::Informs));
    let (mut open, mut ended) = (0, Vec::new());
    for (needed, edge) in add.needs.iter().copied().chain(parent) {
        let kind: Option<String> = tx.value(sql::NEEDED_TASK, &params![needed])?;
        let kind = kind.ok_or(StoreError::NoTask(needed))?;
        if edge == Edge::Blocks && kind != StateKind::Done.as_str() {
            open += 1;
            let is_given_up = [StateKind::Failed, StateKind::Cancelled].map(StateKind::as_str);
            ended.extend(is_given_up.contains(&kind.as_str()).then_some(needed));
        }
    }
    Ok((open, ended))
}

fn insert(tx: &mut Tx<'_>, add: &Add, step: TaskUpdate, now: Instant) -> Result<Applied> {
    let (task, lifecycle) = (&step.task, &add.definition.lifecycle);
    machine::check(lifecycle, task).map_err(|broken| StoreError::Bug { task: task.id, broken })?;
    let entry = HistoryEntry::of(&step, add.key.as_ref(), &GENESIS, now);
    let head = entry.as_ref().map_or_else(|| GENESIS.to_vec(), |entry| entry.hash.clone());
    let mut row = params![
        task.id,
        &task.project,
        task.batch.as_deref(),
        &lifecycle.version,
        &task.title,
        json(&task.tags),
        i64::from(task.priority),
        task.parent,
        task.created_at,
    ]
    .to_vec();
    row.extend(changing(task, lifecycle));
    row.push(head.clone().into());
    tx.write(sql::INSERT_TASK, &row)?;
    if let Some(batch) = &task.batch {
        // Every batch that has tasks has a row, because the queue is read batch by batch.
        tx.write(sql::INSERT_BATCH, &params![batch, BATCH_CONCURRENCY, now])?;
    }
    if !task.body.is_empty() {
        tx.write(sql::SAVE_BODY, &params![task.id, &task.body])?;
    }
    for (needed, edge) in &add.needs {
        tx.write(sql::INSERT_EDGE, &params![task.id, *needed, edge.as_str()])?;
    }
    follow_up(tx, lifecycle, &step, entry.as_ref(), add.key.as_ref(), now)?;
    Ok(applied(step.task, Arc::clone(lifecycle), head, entry))
}

fn applied(
    task: Task,
    lifecycle: Arc<Lifecycle>,
    head: Vec<u8>,
    entry: Option<HistoryEntry>,
) -> Applied {
    let queue_rank = task.rank(&lifecycle);
    Applied { stored: Stored { task, lifecycle, head, queue_rank }, entry, replayed: false }
}

/// The answer to an earlier request with this key: the task as it was then.
pub(super) fn replay(tx: &mut Tx<'_>, key: Option<&IdempotencyKey>) -> Result<Option<Applied>> {
    let Some(key) = key else { return Ok(None) };
    let rows = tx.query(sql::KEY, &params![&key.text])?;
    let Some(row) = rows.first() else { return Ok(None) };
    if row.get::<&[u8]>(0)? != key.request {
        return Err(StoreError::KeyTaken { key: key.text.clone() });
    }
    let (id, seq) = (row.get::<TaskId>(1)?, row.int(2)?);
    let current = tx.load_for_update(id)?;
    let entries = query::records(tx, id, 0, seq)?;
    let dated: Vec<_> = entries.iter().map(HistoryEntry::dated).collect();
    let task = machine::rewind(&current.lifecycle, &current.task, &dated)
        .map_err(|error| StoreError::Corrupt { task: id, what: error.to_string() })?;
    let entry = entries.into_iter().next_back();
    Ok(Some(Applied { stored: Stored { task, ..current }, entry, replayed: true }))
}

/// Decides and writes. The row of `old` is locked.
pub(super) fn apply_to(
    tx: &mut Tx<'_>,
    old: Stored,
    event: &Event,
    key: Option<&IdempotencyKey>,
    now: Instant,
) -> Result<Applied> {
    match machine::step(&old.lifecycle, &old.task, event, now)? {
        StepResult::Step(step) => save_if_version(tx, (old, event), *step, key, now),
        StepResult::Later(due) => {
            let late =
                Rejected::one(RejectReason::Invalid, "now", format!("is not due before {due}"));
            Err(StoreError::Rejected(late))
        }
        StepResult::Ignored(Ignored::NothingNew | Ignored::Stale) => {
            Ok(Applied { stored: old, entry: None, replayed: false })
        }
    }
}

/// The same for an event that also changes the body. The body is part of the record, because the
/// history must lead to the task.
pub(super) fn apply_with_body(
    tx: &mut Tx<'_>,
    old: Stored,
    event: &Event,
    body: &str,
    now: Instant,
) -> Result<Applied> {
    let body = storable(body.to_owned());
    let StepResult::Step(mut step) = machine::step(&old.lifecycle, &old.task, event, now)? else {
        return apply_to(tx, old, event, None, now);
    };
    if let Some(record) = &mut step.record {
        tx.write(sql::SAVE_BODY, &params![old.task.id, &body])?;
        record.fields.insert("body".to_owned(), body.into());
    }
    save_if_version(tx, (old, event), *step, None, now)
}

/// Writes a step: the row, the history, the timers, the outbox and the rest, or nothing.
pub(super) fn save_if_version(
    tx: &mut Tx<'_>,
    (old, event): (Stored, &Event),
    step: TaskUpdate,
    key: Option<&IdempotencyKey>,
    now: Instant,
) -> Result<Applied> {
    let lifecycle = old.lifecycle;
    let task = &step.task;
    check_step(&lifecycle, &old.task, event, &step)
        .map_err(|broken| StoreError::Bug { task: task.id, broken })?;
    let entry = HistoryEntry::of(&step, key, &old.head, now);
    let head = entry.as_ref().map_or(old.head, |entry| entry.hash.clone());
    let mut row = changing(task, &lifecycle).to_vec();
    row.extend(params![head.clone(), task.id, old.task.version]);
    tx.write(sql::SAVE_TASK_IF_VERSION, &row)?;
    follow_up(tx, &lifecycle, &step, entry.as_ref(), key, now)?;
    match step.ending {
        Some(Ending::Done) => update_waiting(tx, task.id, -1, now)?,
        Some(Ending::TakenBack) => update_waiting(tx, task.id, 1, now)?,
        Some(Ending::Otherwise) => ask_about_waiting(tx, &step.task, &lifecycle, now)?,
        None => {}
    }
    end_run(tx, old.task.spent, &step, now)?;
    Ok(applied(step.task, lifecycle, head, entry))
}

/// Asks people about the tasks that wait for one that will never be done. Whoever lets such a task
/// go on does so without it. A parent decides about its own children.
fn ask_about_waiting(
    tx: &mut Tx<'_>,
    ended: &Task,
    lifecycle: &Lifecycle,
    now: Instant,
) -> Result<()> {
    for row in tx.query(sql::WAITING_FOR, &params![ended.id])? {
        if let Some(waiting) = unless_damaged(tx.load_for_update(row.get(0)?))? {
            ask_about(tx, waiting, ended, lifecycle, now)?;
        }
    }
    Ok(())
}

fn ask_about(
    tx: &mut Tx<'_>,
    waiting: Stored,
    ended: &Task,
    lifecycle: &Lifecycle,
    now: Instant,
) -> Result<Stored> {
    let (id, state) = (waiting.task.id, &lifecycle.state(ended.state).name);
    let is_led = waiting.task.parent.is_some() && waiting.task.parent == ended.parent;
    let question = waiting.lifecycle.budget_question(waiting.task.state);
    let Some((trigger, field)) = question.filter(|_| !is_led) else { return Ok(waiting) };
    let words = format!("It needs {}, which ended in {state}. Going on means without it", ended.id);
    let fields = Fields::from_iter([(field.to_owned(), words.into())]);
    let ask = TransitionRequest::of_system(trigger, fields);
    let asked = match apply_to(tx, waiting.clone(), &Event::Asked(ask), None, now) {
        // Its guards forbid it; the check names it.
        Err(StoreError::Rejected(_)) => return Ok(waiting),
        asked => asked?.stored,
    };
    tx.write(sql::NEED_INFORMS, &params![id, ended.id])?;
    let left = Event::NeedsLeft(asked.task.open_needs - 1);
    Ok(apply_to(tx, asked, &left, None, now)?.stored)
}

/// Updates the tasks that wait for one that is done, or no longer done.
fn update_waiting(tx: &mut Tx<'_>, done: TaskId, more: i64, now: Instant) -> Result<()> {
    for row in tx.query(sql::WAITING_FOR, &params![done])? {
        // A damaged task must not stop the task that it waits for; `check` names it.
        let Some(waiting) = unless_damaged(tx.load_for_update(row.get(0)?))? else { continue };
        let left = Event::NeedsLeft(waiting.task.open_needs + more);
        apply_to(tx, waiting, &left, None, now)?;
        tx.notify();
    }
    Ok(())
}
