//! Timers: retries, deadlines, reminders and delays, all in one table and none in memory.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, StateKind};
use banksman_core::machine::{self, Event, StepResult, Timer, TimerKind, Uncounted};
use banksman_core::time::{Instant, Span};

use super::apply::{apply_to, save_if_version};
use super::batches::{BatchChange, is_paused, set_batch};
use super::conn::{DbError, Row};
use super::damage::unless_damaged;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, Stored, sql};

/// After this time a timer whose transition was refused is tried again. Lint excludes that for a
/// sound lifecycle.
const REFUSED_AGAIN: Span = Span(3_600_000);

/// The result of a due timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerResult {
    Moved(TaskId),
    Later(TaskId),
    Void(TaskId),
}

/// What became of the due timers.
#[derive(Debug, Default)]
pub struct FiredTimers {
    pub results: Vec<TimerResult>,
    /// Timers that were put off, because the lifecycle refused the transition or the task is
    /// damaged, each with its task if the row names one.
    pub refused: Vec<(Option<TaskId>, StoreError)>,
}

impl Store {
    /// Fires timers that are due, the oldest first, each in its own transaction.
    pub fn fire_due(&self, now: Instant, at_most: i64) -> Result<FiredTimers> {
        let due = self.read(|tx| tx.query(sql::DUE_TIMERS, &params![now, at_most]))?;
        let mut fired = FiredTimers::default();
        for row in &due {
            let tried = armed(row).and_then(|(timer, entered)| {
                let id = row.get(0)?;
                self.write(move |tx| fire(tx, id, timer.kind, entered, now))
            });
            match tried {
                Ok(done) => fired.results.push(done),
                Err(error) if error.is_of_database() => return Err(error),
                // It must not stop the timers after it, now or at the next look.
                Err(error) => {
                    let again = now.plus(REFUSED_AGAIN).into();
                    let columns = [row.get(0)?, row.get(1)?, row.get(2)?, again];
                    self.write(move |tx| tx.write(sql::TIMER_LATER, &columns))?;
                    fired.refused.push((row.get(0).ok(), error));
                }
            }
        }
        Ok(fired)
    }

    /// Resumes a batch, and returns whether it exists. The timeouts of the tasks that the pause
    /// stopped start again; a batch that was not paused stopped none.
    pub fn resume_batch(&self, name: &str, now: Instant) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |tx| {
            if is_paused(tx, Some(&name))? {
                for id in tx.all(sql::TIMED_IN_BATCH, &params![&name], |row| row.get(0))? {
                    // A damaged task must not keep the others paused; `check` names it.
                    unless_damaged(restart_timeouts(tx, id, now))?;
                }
            }
            set_batch(tx, &name, BatchChange { paused: Some(false), ..BatchChange::default() })
        })
    }

    /// Delayed tasks with the time at which each may start, the next first.
    pub fn delayed(&self, at_most: i64) -> Result<Vec<(TaskId, Instant)>> {
        let delayed = |row: &Row| Ok::<_, DbError>((row.get(0)?, row.get(1)?));
        self.rows(sql::DELAYED, &params![at_most], delayed)
    }

    /// The next time at which a node has something to do, if nothing else happens before.
    pub fn next_work(&self, node: &str, now: Instant) -> Result<Option<Instant>> {
        self.read(|tx| tx.value(sql::NEXT_WORK, &params![node, now]))
    }
}

/// Starts the timeouts that a pause has stopped again, as if the stay began now.
fn restart_timeouts(tx: &mut Tx<'_>, id: TaskId, now: Instant) -> Result<()> {
    let old = tx.load_for_update(id)?;
    if !is_stopped_by_pause(&old) {
        return Ok(());
    }
    let span = Span(now.since(old.task.entered_at).0 - old.task.uncounted.0);
    let uncounted = Event::Uncounted(Uncounted { span, since: Instant(i64::MAX) });
    apply_to(tx, old, &uncounted, None, now).map(drop)
}

/// Reads a timer, and the stay in a state that armed it.
pub(super) fn armed(row: &Row) -> Result<(Timer, i64)> {
    let kind = TimerKind::from_code(row.text(1)?, row.int(2)?);
    let what = "a timer of no known kind".to_owned();
    let kind = kind.ok_or(StoreError::Corrupt { task: row.get(0)?, what })?;
    Ok((Timer { kind, due: row.get(4)? }, row.int(3)?))
}

fn fire(
    tx: &mut Tx<'_>,
    id: TaskId,
    timer: TimerKind,
    entered: i64,
    now: Instant,
) -> Result<TimerResult> {
    let old = tx.load_for_update(id)?;
    let (kind, number) = timer.code();
    // It may be gone, now that the task is locked.
    if !tx.has(sql::TIMER, &params![id, kind, number, entered])? {
        return Ok(TimerResult::Void(id));
    }
    let later = |tx: &mut Tx<'_>, due: Instant| {
        tx.write(sql::TIMER_LATER, &params![id, kind, number, due])?;
        Ok(TimerResult::Later(id))
    };
    let gone = |tx: &mut Tx<'_>| tx.write(sql::DELETE_TIMER, &params![id, kind, number, entered]);
    if let Some(time) = bound_of(&old, timer)
        && is_stopped_by_pause(&old)
        && is_paused(tx, old.task.batch.as_deref())?
    {
        return later(tx, now.plus(time));
    }
    let event = Event::Due { timer, entered };
    match machine::step(&old.lifecycle, &old.task, &event, now)? {
        StepResult::Step(step) => {
            if step.timers.is_none() {
                gone(tx)?;
            }
            save_if_version(tx, (old, &event), *step, None, now)?;
            // The end of a delay leaves no record, but workers that wait for a task must be woken.
            tx.notify();
            Ok(TimerResult::Moved(id))
        }
        StepResult::Later(due) => later(tx, due),
        StepResult::Ignored(_) => gone(tx).map(|()| TimerResult::Void(id)),
    }
}

/// Whether the pause of its batch stops the task: it is queued, or waits for others that are. Its
/// timeouts then stop, too, because the pause causes the delay and not the task. A task under way
/// continues.
fn is_stopped_by_pause(stored: &Stored) -> bool {
    let waits = match stored.state().kind {
        StateKind::Queued | StateKind::Blocked => true,
        StateKind::Reviewing => stored.activity() == Some(Activity::Panel),
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
        TimerKind::Timeout(row) => {
            let row = stored.lifecycle.transitions.get(row as usize)?;
            row.timeout.as_ref().map(|bound| bound.time)
        }
        TimerKind::Ready | TimerKind::Remind(_) => None,
    }
}
