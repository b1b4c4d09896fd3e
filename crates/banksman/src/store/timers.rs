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

/// When a timer whose move was refused is looked at again. The lint makes this impossible for a
/// sound lifecycle.
const REFUSED_AGAIN: Span = Span(3_600_000);
/// The code of a timer that ends a stay.
const BOUND: &str = "bound";

/// What came of a timer that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerResult {
    Moved(TaskId),
    Later(TaskId),
    Void(TaskId),
    /// The lifecycle did not allow the move, or the task is damaged: a fault that `check` reports.
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
                // A damaged task or timer must not keep the timers after it from firing, now and at
                // the next look.
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

    /// Lets a batch go on, and answers whether there is one of that name. The bounds of all that it
    /// has held up begin anew before: a batch that was not paused has held up nothing.
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

    /// Tasks that are not to start before a time, and that time, the next one first.
    pub fn delayed(&self, at_most: i64) -> Result<Vec<(TaskId, Instant)>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::DELAYED, &[at_most.into()])?;
            rows.iter().map(|row| Ok((TaskId(row.int(0)?), Instant(row.int(1)?)))).collect()
        })
    }

    /// When there is something to do for a node, if nothing else happens before: the earliest of
    /// all that has a time.
    pub fn next_work(&self, node: &str, now: Instant) -> Result<Option<Instant>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::NEXT_WORK, &[node.into(), now.0.into()])?;
            let at = rows.first().map_or(Ok(None), |row| row.opt_int(0))?;
            Ok(at.map(Instant))
        })
    }

    /// When the next timer comes due.
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
    match machine::step(&old.lifecycle, &old.task, &Event::Due { timer, entered }, now) {
        Ok(StepResult::Step(step)) => {
            if step.timers.is_none() {
                gone(conn)?;
            }
            save_if_version(conn, definitions, old, *step, None, now)?;
            // The end of a delay leaves no record, but there is work for those who wait for some.
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

/// Whether nothing happens to the task while its batch is paused: it waits to be taken, or for
/// others that do. Its bounds stand still for as long, because whoever has paused the batch is
/// slow, and not the task. What somebody works on goes on.
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

/// How long the stay may last that a timer ends; none for a timer that ends none.
fn bound_of(stored: &Stored, timer: TimerKind) -> Option<Span> {
    match timer {
        TimerKind::Bound(row) => {
            let row = stored.lifecycle.transitions.get(row as usize)?;
            row.bound.as_ref().map(|bound| bound.time)
        }
        TimerKind::Ready | TimerKind::Remind(_) => None,
    }
}

/// Whether a timer is still there, now that the task is locked.
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
