//! Claims: the first queued task that the worker may take, with a lease on it.
//!
//! A worker from outside names itself and takes what its role may take. `dispatch` chooses for the
//! workers of this program and walks the same queue.

use banksman_core::ids::RunId;
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::Value as Json;
use banksman_core::machine::{Actor, Claim, Event, Task};
use banksman_core::schedule::{Area, Budget, Used, areas};
use banksman_core::time::{Instant, Span};

use super::apply::{Applied, apply_to};
use super::budgets::{day_budget, day_with_open_runs, task_budget};
use super::conn::{Dialect, Row, SqlValue};
use super::damage::is_damage;
use super::row::{Stored, json, queue_place};
use super::tx::{Tx, checked, params};
use super::{Result, Store, StoreError, sql};

/// Queued tasks that one walk looks at. Tasks behind them wait for another worker.
pub(super) const LOOK: i64 = 1_000;
/// Rows after the first that one query reads, and on PostgreSQL locks.
const PAGE: i64 = 32;
/// The columns of `sql::QUEUE_HEAD` after those of the task: whether everything is paused, and
/// whether the task's batch may not start another run.
const PAUSED: usize = 31;
const BATCH_FULL: usize = 32;

#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub actor: Actor,
    /// How long the lease holds without a heartbeat.
    pub ttl: Span,
    /// The limit of all runs of a day; batches have budgets of their own.
    pub day_budget: Budget,
    /// The limit of all runs of one task.
    pub task_budget: Budget,
}

impl ClaimRequest {
    /// A claim without budgets.
    pub fn new(actor: Actor, ttl: Span) -> Self {
        Self { actor, ttl, day_budget: Budget::default(), task_budget: Budget::default() }
    }
}

#[derive(Debug, Clone)]
pub struct Claimed {
    pub stored: Stored,
    pub run: RunId,
}

impl Store {
    /// Claims the first task that this worker may take; `None` if there is none. Pauses, full
    /// batches and used-up budgets apply as they do to `dispatch`.
    pub fn claim(&self, request: ClaimRequest, now: Instant) -> Result<Option<Claimed>> {
        self.write(move |tx| claim_in(tx, &request, now))
    }
}

/// A walk along the queue, without batches that may not start another run.
pub(super) struct Queue {
    rows: std::vec::IntoIter<Row>,
    after: (i64, i64),
    page: i64,
    /// Tasks that the walk may still read; none at the end of the queue.
    left: i64,
}

impl Queue {
    pub(super) fn new() -> Self {
        // The first query reads one row only, because it is almost always the right one.
        Self { rows: Vec::new().into_iter(), after: (i64::MIN, 0), page: 1, left: LOOK }
    }

    fn with_head(head: Row) -> Result<Self> {
        let after = queue_place(&head)?;
        Ok(Self { rows: vec![head].into_iter(), after, page: PAGE, left: LOOK - 1 })
    }

    /// The next task that can be read; none at the end of the queue, or after [`LOOK`] tasks.
    pub(super) fn next(&mut self, tx: &mut Tx<'_>) -> Result<Option<Stored>> {
        loop {
            for row in self.rows.by_ref() {
                if let Some(found) = readable(tx, &row)? {
                    return Ok(Some(found));
                }
            }
            if self.left <= 0 {
                return Ok(None);
            }
            let (rank, id) = self.after;
            let rows = tx.query(sql::QUEUE_PAGE, &params![self.page, rank, id])?;
            let is_full = i64::try_from(rows.len()).unwrap_or(i64::MAX) >= self.page;
            self.left = if is_full { self.left - self.page } else { 0 };
            self.after = rows.last().map_or(Ok(self.after), queue_place)?;
            self.page = PAGE;
            self.rows = rows.into_iter();
        }
    }
}

fn claim_in(tx: &mut Tx<'_>, request: &ClaimRequest, now: Instant) -> Result<Option<Claimed>> {
    let Some(head) = tx.query(sql::QUEUE_HEAD, &[])?.pop() else { return Ok(None) };
    let is_paused = head.get::<Option<bool>>(PAUSED)?.unwrap_or(false);
    let is_batch_full: bool = head.get(BATCH_FULL)?;
    if is_paused || is_day_used_up(tx, request.day_budget, now)? {
        return Ok(None);
    }
    let mut queue = if is_batch_full { Queue::new() } else { Queue::with_head(head)? };
    while let Some(found) = queue.next(tx)? {
        if !is_within(tx, &found, request.task_budget)?
            || !has_room(tx, found.task.batch.as_deref())?
        {
            continue;
        }
        let claim = Claim { actor: request.actor.clone(), expires_at: now.plus(request.ttl) };
        match try_claim(tx, found, claim, now)? {
            ClaimAttempt::Claimed(claimed) => {
                let areas = areas_of(&claimed.stored.task);
                if !areas.is_empty() {
                    set_place(tx, claimed.run, [const { SqlValue::Null }; 3], &areas)?;
                }
                return Ok(Some(*claimed));
            }
            // The turn of a node reports what is broken; others must not wait for it.
            ClaimAttempt::MovedOn | ClaimAttempt::Refused | ClaimAttempt::Broken(_) => {}
        }
    }
    Ok(None)
}

fn is_day_used_up(tx: &mut Tx<'_>, budget: Budget, now: Instant) -> Result<bool> {
    if budget == Budget::default() {
        return Ok(false);
    }
    let used = day_with_open_runs(tx, now)?;
    Ok(day_budget(tx, budget, &used, now)?.is_used_up(&used))
}

/// Whether a batch may start another run. On PostgreSQL another node may have started one since the
/// queue was read, so this waits for the lock and reads again.
fn has_room(tx: &mut Tx<'_>, batch: Option<&str>) -> Result<bool> {
    match (batch, tx.dialect()) {
        (None, _) | (Some(_), Dialect::Sqlite) => Ok(true),
        (Some(batch), Dialect::Postgres) => {
            tx.query(sql::TURN, &[])?;
            tx.has(sql::OPEN_BATCH, &params![batch])
        }
    }
}

fn is_within(tx: &mut Tx<'_>, stored: &Stored, budget: Budget) -> Result<bool> {
    let used = task_used(tx, &stored.task, &budget)?;
    let budget = task_budget(tx, stored, budget, &used)?;
    Ok(!budget.is_used_up(&used))
}

/// What the runs of a task have used. Their time is summed only if it has a limit.
pub(super) fn task_used(tx: &mut Tx<'_>, task: &Task, budget: &Budget) -> Result<Used> {
    let time = match budget.time {
        Some(_) => Span(tx.count(sql::TASK_TIME, &params![task.id])?),
        None => Span(0),
    };
    let spent = task.spent;
    Ok(Used { runs: spent.runs, tokens: spent.tokens, cost_micros: spent.cost_micros, time })
}

/// A queued task; `None` for a damaged one, which must not block others.
pub(super) fn readable(tx: &mut Tx<'_>, row: &Row) -> Result<Option<Stored>> {
    let read = tx.task(row).and_then(checked);
    tx.unless_damaged(row, read)
}

/// The result of an attempt to claim a task.
pub(super) enum ClaimAttempt {
    Claimed(Box<Claimed>),
    /// A counter at its limit led the task to another state.
    MovedOn,
    Refused,
    /// The step broke an invariant; nothing of it was written.
    Broken(StoreError),
}

/// Claims a task for a worker.
pub(super) fn try_claim(
    tx: &mut Tx<'_>,
    found: Stored,
    claim: Claim,
    now: Instant,
) -> Result<ClaimAttempt> {
    match apply_to(tx, found, &Event::Claimed(claim), None, now) {
        Ok(Applied { stored, .. }) => Ok(match stored.task.run() {
            Some(run) => ClaimAttempt::Claimed(Box::new(Claimed { stored, run })),
            None => ClaimAttempt::MovedOn,
        }),
        Err(StoreError::Rejected(_)) => Ok(ClaimAttempt::Refused),
        Err(error @ StoreError::Bug { .. }) => Ok(ClaimAttempt::Broken(error)),
        Err(error) if is_damage(&error) => Ok(ClaimAttempt::Refused),
        Err(error) => Err(error),
    }
}

/// Stores where a run takes place (its node, its account and the hash of its token) and which areas
/// it locks. The areas are those at the time of the claim: what the run changes in the task does
/// not move them.
pub(super) fn set_place(
    tx: &mut Tx<'_>,
    run: RunId,
    [node, account, token]: [SqlValue; 3],
    areas: &[Area],
) -> Result<()> {
    tx.write(sql::RUN_PLACED, &params![run.task, run.epoch, node, account, json(&areas), token])
}

/// The areas of a task, by its fields.
pub(super) fn areas_of(task: &Task) -> Vec<Area> {
    let target = task.fields.get(Field::TargetArea.name());
    let list = |field: Field| -> Vec<String> {
        let items = task.fields.get(field.name()).and_then(Json::as_array).into_iter().flatten();
        items.filter_map(Json::as_str).map(str::to_owned).collect()
    };
    areas(target.and_then(Json::as_str), &list(Field::Touches), &list(Field::AllowedPaths))
}
