//! The only writer of a task's state: load, decide, and write in one transaction.
//!
//! The row is locked from the load on (SQLite has one writer anyway), the update names the version
//! it was decided on, and the primary key of the history (task, number) refuses a second record of
//! the same number. So two writers never both succeed.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Lifecycle, StateKind};
use banksman_core::machine::{
    self, Actor, Broken, Ending, Event, Ignored, ImportedState, NewTask, RejectReason, Rejected,
    StepResult, TaskUpdate,
};
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::audit::{GENESIS, HistoryEntry};
use super::batches::ensure_batch;
use super::conn::{Conn, DbError, Value};
use super::definitions::{Definition, Definitions};
use super::follow::follow_up;
use super::invariant::check_step;
use super::notices::{NewNotice, write_notice};
use super::row::{Stored, changing, is_damage, json, lifecycle_version, stored};
use super::spent::end_run;
use super::{Store, StoreError, query, sql};

/// Makes a request repeatable: the second time returns the first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub text: String,
    /// The hash of the request, which shows if a key is used for another request.
    pub request: Vec<u8>,
}

impl IdempotencyKey {
    #[must_use]
    pub fn new(text: &str, request: &str) -> Self {
        Self { text: text.to_owned(), request: Sha256::digest(request.as_bytes()).to_vec() }
    }
}

/// How one task depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// It must be done first.
    Blocks,
    /// Its result is useful, but the task does not wait for it.
    Informs,
}

impl Edge {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Informs => "informs",
        }
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
    pub fn add(&self, add: Add, now: Instant) -> Result<Applied, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        let applied = self.retry_if_taken(move |store| {
            let (add, definitions) = (add.clone(), Arc::clone(&definitions));
            store.write(move |conn| add_in(conn, &definitions, &add, now))
        })?;
        // The answer to a repeated request has the lifecycle of the task, which may be an older one.
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
    ) -> Result<Applied, StoreError> {
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
    ) -> Result<Applied, StoreError> {
        let epoch = epoch_of(&event);
        self.fenced(id, epoch, now, move |store| {
            store.attempt(id, &event, key.as_ref(), now, tell.clone())
        })
    }

    /// Writes under an epoch, if any. A stale write is refused and recorded.
    pub(super) fn fenced(
        &self,
        id: TaskId,
        epoch: Option<i64>,
        now: Instant,
        attempt: impl Fn(&Self) -> Result<Applied, StoreError>,
    ) -> Result<Applied, StoreError> {
        let applied = self.retry_if_taken(attempt);
        if let (Err(StoreError::Rejected(rejected)), Some(epoch)) = (&applied, epoch)
            && rejected.why == RejectReason::StaleLease
        {
            // Once for each epoch, so that a writer that repeats it does not fill the history.
            let text = format!("came-late-{id}-{epoch}");
            let (event, key) = (Event::StaleWrite { epoch }, IdempotencyKey::new(&text, &text));
            self.retry_if_taken(|store| store.attempt(id, &event, Some(&key), now, |_| None))?;
        }
        applied
    }

    fn attempt(
        &self,
        id: TaskId,
        event: &Event,
        key: Option<&IdempotencyKey>,
        now: Instant,
        tell: impl Fn(&Applied) -> Option<NewNotice> + Send + 'static,
    ) -> Result<Applied, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        let (event, key) = (event.clone(), key.cloned());
        self.write(move |conn| {
            let old = load_for_update(conn, &definitions, id)?;
            if let Some(replay) = replay(conn, &definitions, key.as_ref())? {
                return Ok(replay);
            }
            let applied = apply_to(conn, &definitions, old, &event, key.as_ref(), now)?;
            if let Some(notice) = tell(&applied) {
                write_notice(conn, &notice, now)?;
            }
            Ok(applied)
        })
    }

    /// Repeats a write after a unique violation. Two writers with one key may both find it free;
    /// the loser then finds the winner's row.
    pub(super) fn retry_if_taken<T>(
        &self,
        attempt: impl Fn(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match attempt(self) {
            Err(StoreError::Db(DbError::Unique { .. })) => attempt(self),
            other => other,
        }
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
        | Event::NeedsLeft(_) => None,
    }
}

pub(super) fn add_in(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    add: &Add,
    now: Instant,
) -> Result<Applied, StoreError> {
    if let Some(mut replay) = replay(conn, definitions, add.key.as_ref())? {
        let task = &mut replay.stored.task;
        task.body = query::body(conn, task.id)?;
        return Ok(replay);
    }
    let lifecycle = &add.definition.lifecycle;
    if !definitions.has(&lifecycle.version) {
        definitions.keep(conn, &add.definition, now)?;
    }
    let open_needs = open_needs(conn, add)?;
    let id = conn.query(sql::NEXT_TASK_ID.pick(conn), &[])?;
    let id = TaskId(id.first().map_or(Ok(1), |row| row.int(0))?);
    let new = NewTask { open_needs, ..add.new.clone() };
    let step = match add.arrival {
        None => machine::create(lifecycle, &new, &add.actor, id, now)?,
        Some(arrival) => machine::import(lifecycle, &new, arrival, &add.actor, id, now)?,
    };
    insert(conn, lifecycle, add, step, now)
}

/// Counts the needs that are not done, and locks them until the transaction ends.
fn open_needs(conn: &mut dyn Conn, add: &Add) -> Result<i64, StoreError> {
    let mut open = 0;
    for (needed, edge) in &add.needs {
        let rows = conn.query(sql::NEEDED_TASK.pick(conn), &[needed.0.into()])?;
        let kind = rows.first().ok_or(StoreError::NoTask(*needed))?.text(0)?;
        if *edge == Edge::Blocks && kind != StateKind::Done.as_str() {
            open += 1;
        }
    }
    if let Some(parent) = add.new.parent {
        let rows = conn.query(sql::NEEDED_TASK.pick(conn), &[parent.0.into()])?;
        rows.first().ok_or(StoreError::NoTask(parent))?;
    }
    Ok(open)
}

fn insert(
    conn: &mut dyn Conn,
    lifecycle: &Arc<Lifecycle>,
    add: &Add,
    step: TaskUpdate,
    now: Instant,
) -> Result<Applied, StoreError> {
    let task = &step.task;
    machine::check(lifecycle, task).map_err(|broken| bug(task.id, broken))?;
    let entry = step
        .record
        .clone()
        .map(|record| entry(&step, record, add.key.as_ref(), GENESIS.to_vec(), now));
    let head = entry.as_ref().map_or_else(|| GENESIS.to_vec(), |entry| entry.hash.clone());
    let columns = changing(task, lifecycle);
    let mut row: Vec<Value> = vec![
        task.id.0.into(),
        task.project.as_str().into(),
        task.batch.as_deref().into(),
        lifecycle.version.as_str().into(),
        task.title.as_str().into(),
        json(&task.tags).into(),
        i64::from(task.priority).into(),
        task.parent.map(|id| id.0).into(),
    ];
    row.extend(columns.state);
    row.push(task.created_at.0.into());
    row.extend(columns.times);
    row.push(head.clone().into());
    conn.write(sql::INSERT_TASK, &row)?;
    if let Some(batch) = &task.batch {
        ensure_batch(conn, batch, now)?;
    }
    if !task.body.is_empty() {
        conn.write(sql::INSERT_BODY, &[task.id.0.into(), task.body.as_str().into()])?;
    }
    for (needed, edge) in &add.needs {
        conn.write(sql::INSERT_EDGE, &[task.id.0.into(), needed.0.into(), edge.as_str().into()])?;
    }
    follow_up(conn, lifecycle, &step, entry.as_ref(), add.key.as_ref(), now)?;
    let queue_rank = task.rank(lifecycle);
    let stored = Stored { task: step.task, lifecycle: Arc::clone(lifecycle), head, queue_rank };
    Ok(Applied { stored, entry, replayed: false })
}

/// Loads a task and locks its row until the transaction ends.
pub(super) fn load_for_update(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    id: TaskId,
) -> Result<Stored, StoreError> {
    let rows = conn.query(sql::TASK_FOR_UPDATE.pick(conn), &[id.0.into()])?;
    let row = rows.first().ok_or(StoreError::NoTask(id))?;
    let lifecycle = definitions.get(conn, lifecycle_version(row)?)?;
    checked(stored(row, lifecycle)?)
}

/// Checks the invariants of a task that was read. A damaged task is an error of its own, and other
/// tasks are not affected.
pub(super) fn checked(stored: Stored) -> Result<Stored, StoreError> {
    match machine::check(&stored.lifecycle, &stored.task) {
        Ok(()) => Ok(stored),
        Err(broken) => Err(StoreError::Corrupt { task: stored.task.id, what: broken.to_string() }),
    }
}

fn bug(task: TaskId, broken: Broken) -> StoreError {
    StoreError::Bug { task, broken }
}

/// The answer to an earlier request with this key: the task as it was then.
pub(super) fn replay(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    key: Option<&IdempotencyKey>,
) -> Result<Option<Applied>, StoreError> {
    let Some(key) = key else { return Ok(None) };
    let rows = conn.query(sql::KEY, &[key.text.as_str().into()])?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    if row.blob(0)? != key.request {
        return Err(StoreError::KeyTaken { key: key.text.clone() });
    }
    let (id, seq) = (TaskId(row.int(1)?), row.int(2)?);
    let current = load_for_update(conn, definitions, id)?;
    let rows = conn.query(sql::HISTORY, &[id.0.into(), 0.into(), seq.into(), i64::MAX.into()])?;
    let entries =
        rows.iter().map(|row| HistoryEntry::read(id, row)).collect::<Result<Vec<_>, _>>()?;
    let dated: Vec<machine::Dated<'_>> =
        entries.iter().map(|entry| (entry.seq, entry.ts, &entry.record)).collect();
    let task = machine::rewind(&current.lifecycle, &current.task, &dated)
        .map_err(|error| StoreError::Corrupt { task: id, what: error.to_string() })?;
    let entry = entries.into_iter().next_back();
    Ok(Some(Applied { stored: Stored { task, ..current }, entry, replayed: true }))
}

/// Decides and writes. The row of `old` is locked.
pub(super) fn apply_to(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    old: Stored,
    event: &Event,
    key: Option<&IdempotencyKey>,
    now: Instant,
) -> Result<Applied, StoreError> {
    match machine::step(&old.lifecycle, &old.task, event, now)? {
        StepResult::Step(step) => save_if_version(conn, definitions, (old, event), *step, key, now),
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
    conn: &mut dyn Conn,
    definitions: &Definitions,
    old: Stored,
    event: &Event,
    body: &str,
    now: Instant,
) -> Result<Applied, StoreError> {
    let StepResult::Step(mut step) = machine::step(&old.lifecycle, &old.task, event, now)? else {
        return apply_to(conn, definitions, old, event, None, now);
    };
    let Some(record) = &mut step.record else {
        return save_if_version(conn, definitions, (old, event), *step, None, now);
    };
    record.fields.insert("body".to_owned(), body.into());
    conn.write(sql::SAVE_BODY, &[old.task.id.0.into(), body.into()])?;
    save_if_version(conn, definitions, (old, event), *step, None, now)
}

/// Writes a step: the row, the history, the timers, the outbox and the rest, or nothing.
pub(super) fn save_if_version(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    (old, event): (Stored, &Event),
    step: TaskUpdate,
    key: Option<&IdempotencyKey>,
    now: Instant,
) -> Result<Applied, StoreError> {
    let lifecycle = old.lifecycle;
    let task = &step.task;
    check_step(&lifecycle, &old.task, event, &step).map_err(|broken| bug(task.id, broken))?;
    let entry = step.record.clone().map(|record| entry(&step, record, key, old.head.clone(), now));
    let head = entry.as_ref().map_or(old.head, |entry| entry.hash.clone());
    let columns = changing(task, &lifecycle);
    let mut row: Vec<Value> = columns.state.into();
    row.extend(columns.times);
    row.extend([head.clone().into(), task.id.0.into(), old.task.version.into()]);
    conn.write(sql::SAVE_TASK_IF_VERSION.pick(conn), &row)?;
    follow_up(conn, &lifecycle, &step, entry.as_ref(), key, now)?;
    match step.ending {
        Some(Ending::Done) => update_waiting(conn, definitions, task.id, -1, now)?,
        Some(Ending::TakenBack) => update_waiting(conn, definitions, task.id, 1, now)?,
        Some(Ending::Otherwise) | None => {}
    }
    end_run(conn, old.task.spent, &step, now)?;
    let queue_rank = task.rank(&lifecycle);
    Ok(Applied {
        stored: Stored { task: step.task, lifecycle, head, queue_rank },
        entry,
        replayed: false,
    })
}

fn entry(
    step: &TaskUpdate,
    record: machine::Record,
    key: Option<&IdempotencyKey>,
    prev: Vec<u8>,
    now: Instant,
) -> HistoryEntry {
    HistoryEntry::new(
        step.task.id,
        step.task.version,
        now,
        record,
        key.map(|key| key.text.clone()),
        prev,
    )
}

/// Updates the tasks that wait for one that is done, or no longer done.
fn update_waiting(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    done: TaskId,
    more: i64,
    now: Instant,
) -> Result<(), StoreError> {
    for row in conn.query(sql::WAITING_FOR, &[done.0.into()])? {
        let waiting = match load_for_update(conn, definitions, TaskId(row.int(0)?)) {
            // A damaged task must not stop the task that it waits for; `check` names it.
            Err(error) if is_damage(&error) => continue,
            loaded => loaded?,
        };
        let left = Event::NeedsLeft(waiting.task.open_needs + more);
        apply_to(conn, definitions, waiting, &left, None, now)?;
        conn.notify();
    }
    Ok(())
}
