//! Timers: retries, deadlines, reminders and delays, all in one table and none in memory.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, StateKind};
use banksman_core::machine::{self, Event, StepResult, TimerKind};
use banksman_core::time::{Instant, Span};

use super::apply::{load_for_update, save_if_version};
use super::batches::{BatchChange, is_paused};
use super::conn::Conn;
use super::definitions::Definitions;
use super::row::is_damage;
use super::{Store, StoreError, Stored, sql};

/// After this time a timer whose transition was refused is tried again. Lint excludes that for a
/// sound lifecycle.
const REFUSED_AGAIN: Span = Span(3_600_000);
/// The stored kind of a timer that bounds the time in a state.
const BOUND: &str = "bound";

/// The result of a due timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerResult {
    Moved(TaskId),
    Later(TaskId),
    Void(TaskId),
    /// The lifecycle refused the transition, or the task is damaged: a fault that `check` reports.
    Refused(TaskId),
}

impl Store {
    /// Fires timers that are due, the oldest first, each in its own transaction.
    pub fn fire_due(&self, now: Instant, at_most: i64) -> Result<Vec<TimerResult>, StoreError> {
        let due = self.read(|conn| {
            conn.query(sql::DUE_TIMERS, &[now.0.into(), at_most.into()]).map_err(StoreError::from)
        })?;
        let mut fired = Vec::with_capacity(due.len());
        for row in &due {
            let (id, entered) = (TaskId(row.int(0)?), row.int(3)?);
            let (kind, number) = (row.text(1)?.to_owned(), row.int(2)?);
            let timer = TimerKind::from_code(&kind, number);
            let definitions = Arc::clone(&self.definitions);
            let tried = timer.map(|timer| {
                self.write(move |conn| fire(conn, &definitions, id, timer, entered, now))
            });
            fired.push(match tried {
                Some(Err(error)) if !is_damage(&error) => return Err(error),
                Some(Ok(done)) => done,
                // A damaged task or timer must not stop the timers after it, now or at the next
                // look.
                Some(Err(_)) | None => {
                    let later = now.plus(REFUSED_AGAIN).0;
                    let columns = [id.0.into(), kind.into(), number.into(), later.into()];
                    self.write(move |conn| Ok(conn.write(sql::TIMER_LATER, &columns)?))?;
                    TimerResult::Refused(id)
                }
            });
        }
        Ok(fired)
    }

    /// Resumes a batch, and returns whether it exists. The timeouts of the tasks that the pause
    /// stopped start again; a batch that was not paused stopped none.
    pub fn resume_batch(&self, name: &str, now: Instant) -> Result<bool, StoreError> {
        if self.is_paused(Some(name))? {
            self.begin_bounds_anew(name, now)?;
        }
        self.set_batch(name, BatchChange { paused: Some(false), ..BatchChange::default() })
    }

    fn begin_bounds_anew(&self, batch: &str, now: Instant) -> Result<(), StoreError> {
        let rows = self.read(|conn| {
            conn.query(sql::BOUNDS_OF_BATCH, &[batch.into()]).map_err(StoreError::from)
        })?;
        for row in &rows {
            let (id, number) = (TaskId(row.int(0)?), row.int(1)?);
            let definitions = Arc::clone(&self.definitions);
            self.write(move |conn| {
                let stored = load_for_update(conn, &definitions, id)?;
                let timer = TimerKind::from_code(BOUND, number).filter(|_| is_held_up(&stored));
                let Some(time) = timer.and_then(|timer| bound_of(&stored, timer)) else {
                    return Ok(());
                };
                let due = now.plus(time).0;
                let columns = [id.0.into(), BOUND.into(), number.into(), due.into()];
                Ok(conn.write(sql::TIMER_LATER, &columns)?)
            })?;
        }
        Ok(())
    }

    /// Delayed tasks with the time at which each may start, the next first.
    pub fn delayed(&self, at_most: i64) -> Result<Vec<(TaskId, Instant)>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::DELAYED, &[at_most.into()])?;
            rows.iter().map(|row| Ok((TaskId(row.int(0)?), Instant(row.int(1)?)))).collect()
        })
    }

    /// The next time at which a node has something to do, if nothing else happens before.
    pub fn next_work(&self, node: &str, now: Instant) -> Result<Option<Instant>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::NEXT_WORK, &[node.into(), now.0.into()])?;
            let at = rows.first().map_or(Ok(None), |row| row.opt_int(0))?;
            Ok(at.map(Instant))
        })
    }

    /// The time of the next timer.
    pub fn next_due(&self) -> Result<Option<Instant>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::NEXT_TIMER, &[])?;
            let due = rows.first().map_or(Ok(None), |row| row.opt_int(0))?;
            Ok(due.map(Instant))
        })
    }
}

fn fire(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    id: TaskId,
    timer: TimerKind,
    entered: i64,
    now: Instant,
) -> Result<TimerResult, StoreError> {
    let old = load_for_update(conn, definitions, id)?;
    if !timer_is_set(conn, id, timer, entered)? {
        return Ok(TimerResult::Void(id));
    }
    let (kind, number) = timer.code();
    if let Some(time) = bound_of(&old, timer)
        && is_held_up(&old)
        && is_paused(conn, old.task.batch.as_deref())?
    {
        let due = now.plus(time).0;
        conn.write(sql::TIMER_LATER, &[id.0.into(), kind.into(), number.into(), due.into()])?;
        return Ok(TimerResult::Later(id));
    }
    let later = |conn: &mut dyn Conn, due: Instant| {
        conn.write(sql::TIMER_LATER, &[id.0.into(), kind.into(), number.into(), due.0.into()])
    };
    let gone = |conn: &mut dyn Conn| {
        conn.write(sql::DELETE_TIMER, &[id.0.into(), kind.into(), number.into(), entered.into()])
    };
    let event = Event::Due { timer, entered };
    match machine::step(&old.lifecycle, &old.task, &event, now) {
        Ok(StepResult::Step(step)) => {
            if step.timers.is_none() {
                gone(conn)?;
            }
            save_if_version(conn, definitions, (old, &event), *step, None, now)?;
            // The end of a delay leaves no record, but workers that wait for a task must be woken.
            conn.notify();
            Ok(TimerResult::Moved(id))
        }
        Ok(StepResult::Later(due)) => {
            later(conn, due)?;
            Ok(TimerResult::Later(id))
        }
        Ok(StepResult::Ignored(_)) => {
            gone(conn)?;
            Ok(TimerResult::Void(id))
        }
        Err(_) => {
            later(conn, now.plus(REFUSED_AGAIN))?;
            Ok(TimerResult::Refused(id))
        }
    }
}

/// Whether the pause of its batch stops the task: it is queued, or waits for others that are. Its
/// timeouts then stop, too, because the pause causes the delay and not the task. A task under way
/// continues.
fn is_held_up(stored: &Stored) -> bool {
    let state = stored.state();
    let is_panel = || stored.activity() == Some(Activity::Panel);
    let waits = match state.kind {
        StateKind::Queued | StateKind::Blocked => true,
        StateKind::Reviewing => is_panel(),
        StateKind::Working
        | StateKind::Waiting
        | StateKind::Parked
        | StateKind::Done
        | StateKind::Failed
        | StateKind::Cancelled => false,
    };
    waits && stored.task.lease.is_none()
}

/// The longest stay in a state that a timer bounds; none for other timers.
fn bound_of(stored: &Stored, timer: TimerKind) -> Option<Span> {
    match timer {
        TimerKind::Bound(row) => {
            let row = stored.lifecycle.transitions.get(row as usize)?;
            row.timeout.as_ref().map(|bound| bound.time)
        }
        TimerKind::Ready | TimerKind::Remind(_) => None,
    }
}

/// Whether a timer still exists, now that the task is locked.
fn timer_is_set(
    conn: &mut dyn Conn,
    id: TaskId,
    timer: TimerKind,
    entered: i64,
) -> Result<bool, StoreError> {
    let (kind, number) = timer.code();
    Ok(!conn
        .query(sql::TIMER, &[id.0.into(), kind.into(), number.into(), entered.into()])?
        .is_empty())
}
