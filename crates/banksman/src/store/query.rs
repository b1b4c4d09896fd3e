//! Reads for the command line and the API. Nothing here writes.

use std::collections::BTreeMap;

use banksman_core::ids::{DecisionId, RunId, TaskId};
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::expr::Value as Json;
use banksman_core::machine::Timer;
use banksman_core::time::Instant;

use super::accounts::{AccountRow, account};
use super::answers::PendingAnswer;
use super::apply::Edge;
use super::audit::{HistoryEntry, hex};
use super::batches::{Batch, batches};
use super::conn::{DbError, Row, SqlValue};
use super::damage::{damage_in, damage_of};
use super::row::Stored;
use super::switches::is_paused;
use super::timers::armed;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, sql};

/// The most rows of one answer.
pub const PAGE: i64 = 1_000;

/// Which tasks to list. One condition uses an index; the others are checked row by row.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// A state, a group or a kind.
    pub state: Option<String>,
    pub project: Option<String>,
    pub batch: Option<String>,
    pub tag: Option<String>,
}

/// A task that another one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub task: TaskId,
    pub edge: Edge,
    pub done: bool,
    pub title: String,
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub id: DecisionId,
    pub task: TaskId,
    pub title: String,
    /// The version of the task that the decision is about.
    pub seq: i64,
    /// The lifecycle's question, which is the same each time.
    pub asks: String,
    /// What it is about this time, in the words of the agent or of whoever else asks.
    pub question: Option<String>,
    pub offers: Vec<(String, String)>,
    pub opened_at: Instant,
    pub deadline: Option<Instant>,
    /// No reminder before this time.
    pub snoozed_until: Option<Instant>,
    /// None while it is open.
    pub settled: Option<DecisionEnd>,
    /// What a person has answered, until it takes effect.
    pub answer: Option<PendingAnswer>,
}

impl Decision {
    /// The most specific question.
    pub fn text(&self) -> &str {
        self.question.as_deref().unwrap_or(&self.asks)
    }
}

/// How a decision ended: a person answered, or the task moved on for another reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionEnd {
    pub at: Instant,
    pub by: String,
    /// The version of the task after that transition.
    pub seq: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactRow {
    pub seq: i64,
    pub name: String,
    pub hash: String,
    pub value: Json,
}

/// A task with everything that is known about it.
#[derive(Debug, Clone)]
pub struct Detail {
    pub stored: Stored,
    pub needs: Vec<Dependency>,
    pub artifacts: Vec<ArtifactRow>,
    pub decision: Option<Decision>,
    pub timers: Vec<Timer>,
    /// Tasks before it in the queue, if it is queued.
    pub ahead: Option<i64>,
}

/// The progress of a task's children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub total: i64,
    pub done: i64,
    pub at_work: i64,
    /// Waiting for a person, a time or anything but the queue.
    pub blocked: i64,
    pub failed: i64,
    pub cancelled: i64,
}

impl Progress {
    pub(super) fn add(&mut self, kind: StateKind, children: i64) {
        self.total += children;
        match kind {
            StateKind::Queued => {}
            StateKind::Working | StateKind::Reviewing => self.at_work += children,
            StateKind::Waiting | StateKind::Blocked | StateKind::Parked => self.blocked += children,
            StateKind::Done => self.done += children,
            StateKind::Failed => self.failed += children,
            StateKind::Cancelled => self.cancelled += children,
        }
    }
}

/// One line of the overview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateCount {
    pub state: String,
    pub kind: String,
    pub tasks: i64,
}

/// A summary of the whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overview {
    pub states: Vec<StateCount>,
    /// Finished reviews among them.
    pub ended_reviews: Vec<StateCount>,
    pub ready: i64,
    pub open_decisions: i64,
    pub pending_effects: i64,
    pub dead_effects: i64,
    pub next_timer: Option<Instant>,
    /// Runs under way.
    pub running: i64,
    /// Whether everything is paused.
    pub paused: bool,
    pub paused_accounts: Vec<(String, AccountRow)>,
    pub projects: Vec<(String, String)>,
    pub batches: Vec<Batch>,
}

impl Store {
    /// A task, with its body.
    pub fn task(&self, id: TaskId) -> Result<Stored> {
        self.read(|tx| task(tx, id))
    }

    /// The same where others must be shown without it: none for a damaged task.
    pub fn readable_task(&self, id: TaskId) -> Result<Option<Stored>> {
        self.read(|tx| {
            let row = task_row(tx, id)?;
            let read = with_body(tx, id, &row);
            tx.unless_damaged(&row, read)
        })
    }

    pub fn detail(&self, id: TaskId) -> Result<Detail> {
        self.read(|tx| {
            let stored = task(tx, id)?;
            let ahead = match stored.queue_rank {
                Some(rank) => Some(tx.count(sql::COUNT_AHEAD, &params![rank])?),
                None => None,
            };
            Ok(Detail {
                needs: needs(tx, id)?,
                artifacts: artifacts(tx, id)?,
                decision: tx.all(sql::OPEN_DECISION_OF, &params![id], decision)?.pop(),
                timers: timers(tx, id)?.into_iter().map(|(timer, _)| timer).collect(),
                ahead,
                stored,
            })
        })
    }

    /// The timers of a task, the next first.
    pub fn timers_of(&self, id: TaskId) -> Result<Vec<Timer>> {
        self.read(|tx| Ok(timers(tx, id)?.into_iter().map(|(timer, _)| timer).collect()))
    }

    pub fn needs(&self, id: TaskId) -> Result<Vec<Dependency>> {
        self.read(|tx| needs(tx, id))
    }

    /// Tasks that match, newest first, and the start of the next page if there is one.
    pub fn list(
        &self,
        filter: &Filter,
        before: Option<TaskId>,
        at_most: i64,
    ) -> Result<(Vec<Stored>, Option<TaskId>)> {
        let wanted = usize::try_from(at_most.clamp(1, PAGE)).unwrap_or(1);
        self.read(|tx| {
            let mut found = Vec::new();
            let mut before = before.map_or(i64::MAX, |id| id.0);
            loop {
                let rows = narrowed(tx, filter, before)?;
                let exhausted = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
                for row in &rows {
                    before = row.int(0)?;
                    let candidate = tx.task(row);
                    let candidate = tx.unless_damaged(row, candidate)?;
                    found.extend(candidate.filter(|candidate| fits(candidate, filter)));
                    if found.len() == wanted {
                        return Ok((found, Some(TaskId(before))));
                    }
                }
                if exhausted {
                    return Ok((found, None));
                }
            }
        })
    }

    /// A page of all tasks, oldest first, each with its body and its needs; empty at the end.
    pub fn tasks_from(&self, mut after: TaskId) -> Result<Vec<(Stored, Vec<Dependency>)>> {
        self.read(|tx| {
            loop {
                let page = tx.query(sql::TASKS_FROM, &params![after, PAGE])?;
                let Some(last) = page.last() else { return Ok(Vec::new()) };
                after = last.get(0)?;
                let tasks = tx.tasks(&page)?;
                let tasks = completed(tx, tasks)?;
                // All tasks of a page may be damaged.
                if !tasks.is_empty() {
                    return Ok(tasks);
                }
            }
        })
    }

    /// Listed tasks, each with its body and its needs.
    pub fn complete(&self, tasks: &[Stored]) -> Result<Vec<(Stored, Vec<Dependency>)>> {
        self.read(|tx| completed(tx, tasks.to_vec()))
    }

    /// The epoch of the first run after a person's last transition; failures before it no longer
    /// count. Decided by the order of the records and not by their times, because clocks can be set
    /// back.
    pub fn first_run_after_a_person(&self, id: TaskId) -> Result<Option<i64>> {
        self.read(|tx| {
            let word = tx.count(sql::LAST_WORD_OF_A_PERSON, &params![id])?;
            for row in &tx.query(sql::HISTORY, &params![id, word, i64::MAX, PAGE])? {
                let entry = HistoryEntry::read(row).map_err(|error| damage_in(row, error))?;
                let lease = entry.record.fields.get("lease").and_then(Json::as_str);
                if let Some(run) = lease.and_then(|run| run.parse::<RunId>().ok()) {
                    return Ok(Some(run.epoch));
                }
            }
            Ok(None)
        })
    }

    pub fn history(&self, id: TaskId, after: i64) -> Result<Vec<HistoryEntry>> {
        self.read(|tx| {
            if !tx.has(sql::TASK, &params![id])? {
                return Err(StoreError::NoTask(id));
            }
            tx.every(sql::HISTORY, &params![id, after, i64::MAX, PAGE], HistoryEntry::read)
        })
    }

    pub fn decisions(&self, after: i64) -> Result<Vec<Decision>> {
        self.rows(sql::OPEN_DECISIONS, &params![after, PAGE], decision)
    }

    pub fn overview(&self) -> Result<Overview> {
        self.read(|tx| {
            let paused = |(_, account): &(String, AccountRow)| account.paused_until.is_some();
            let accounts = tx.all(sql::ACCOUNTS, &params![PAGE], account)?;
            Ok(Overview {
                states: tx.all(sql::COUNT_BY_STATE, &[], state_count)?,
                ended_reviews: tx.all(sql::COUNT_ENDED_REVIEWS, &[], state_count)?,
                ready: tx.count(sql::COUNT_QUEUE, &[])?,
                open_decisions: tx.count(sql::COUNT_OPEN_DECISIONS, &[])?,
                pending_effects: tx.count(sql::COUNT_PENDING_EFFECTS, &[])?,
                dead_effects: tx.count(sql::COUNT_DEAD_EFFECTS, &[])?,
                projects: tx.all(sql::PROJECTS, &params![PAGE], project)?,
                batches: batches(tx)?,
                running: tx.count(sql::COUNT_OPEN_RUNS, &[])?,
                paused: is_paused(tx, sql::PAUSED)?,
                paused_accounts: accounts.into_iter().filter(paused).collect(),
                next_timer: tx.all(sql::NEXT_TIMER, &[], |row| row.get(0))?.pop().flatten(),
            })
        })
    }

    pub fn projects(&self) -> Result<Vec<(String, String)>> {
        self.rows(sql::PROJECTS, &params![PAGE], project)
    }
}

/// The name of a project and its folder.
fn project(row: &Row) -> Result<(String, String), DbError> {
    Ok((row.get(0)?, row.get(1)?))
}

fn state_count(row: &Row) -> Result<StateCount, DbError> {
    Ok(StateCount { state: row.get(0)?, kind: row.get(1)?, tasks: row.get(2)? })
}

fn narrowed(tx: &mut Tx<'_>, filter: &Filter, before: i64) -> Result<Vec<Row>> {
    let (statement, word) = match (&filter.state, &filter.batch, &filter.project) {
        (Some(state), _, _) => (sql::TASKS_BY_STATE, Some(state)),
        (None, Some(batch), _) => (sql::TASKS_OF_BATCH, Some(batch)),
        (None, None, Some(project)) => (sql::TASKS_OF_PROJECT, Some(project)),
        (None, None, None) => (sql::TASKS_BEFORE, None),
    };
    let mut params = params![before, PAGE].to_vec();
    params.extend(word.map(SqlValue::from));
    tx.query(statement, &params)
}

fn fits(stored: &Stored, filter: &Filter) -> bool {
    let task = &stored.task;
    let same = |wanted: &Option<String>, is: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
    };
    same(&filter.project, Some(&task.project))
        && same(&filter.batch, task.batch.as_deref())
        && filter.tag.as_ref().is_none_or(|tag| task.tags.contains(tag))
}

pub(super) fn task(tx: &mut Tx<'_>, id: TaskId) -> Result<Stored> {
    let row = task_row(tx, id)?;
    with_body(tx, id, &row)
}

fn task_row(tx: &mut Tx<'_>, id: TaskId) -> Result<Row> {
    tx.query(sql::TASK, &params![id])?.pop().ok_or(StoreError::NoTask(id))
}

fn with_body(tx: &mut Tx<'_>, id: TaskId, row: &Row) -> Result<Stored> {
    let mut stored = tx.task(row)?;
    stored.task.body = body(tx, id)?;
    Ok(stored)
}

pub(super) fn body(tx: &mut Tx<'_>, id: TaskId) -> Result<String> {
    Ok(tx.value(sql::BODY, &params![id])?.unwrap_or_default())
}

/// The records of a task between two of them, without the first, however many there are.
pub(super) fn records(
    tx: &mut Tx<'_>,
    id: TaskId,
    after: i64,
    until: i64,
) -> Result<Vec<HistoryEntry>> {
    tx.every(sql::HISTORY, &params![id, after, until, i64::MAX], HistoryEntry::read)
}

/// Reads what belongs to a task, for the sake of what is noted as damaged.
pub(super) fn read_all(tx: &mut Tx<'_>, id: TaskId) -> Result<()> {
    tx.all(sql::BODIES_BETWEEN, &params![id, id], |row| row.get::<String>(1))?;
    needs(tx, id)?;
    artifacts(tx, id)?;
    tx.all(sql::DECISIONS_OF, &params![id, PAGE], decision).map(|_| ())
}

pub(super) fn timers(tx: &mut Tx<'_>, id: TaskId) -> Result<Vec<(Timer, i64)>> {
    tx.all(sql::TIMERS_OF, &params![id], armed)
}

fn needs(tx: &mut Tx<'_>, id: TaskId) -> Result<Vec<Dependency>> {
    tx.all(sql::NEEDS_BETWEEN, &params![id, id], need)
}

/// Everything but the kind of the edge belongs to the task that is needed.
fn need(row: &Row) -> Result<Dependency> {
    let (task, edge) = (row.get(0)?, row.word(1)?);
    let need = || -> Result<Dependency, DbError> {
        let (title, state) = (row.get(3)?, row.get(4)?);
        Ok(Dependency { task, edge, done: row.text(2)? == StateKind::Done.as_str(), title, state })
    };
    need().map_err(|error| damage_of(task, error.into()))
}

/// Ranges that cover these ids: one if they are close together, else one for each, because a sparse
/// range could cover any number of other tasks.
pub(super) fn ranges(ids: &[TaskId]) -> Vec<[SqlValue; 2]> {
    let (Some(least), Some(most)) = (ids.iter().min(), ids.iter().max()) else {
        return Vec::new();
    };
    let close = usize::try_from(most.0 - least.0).is_ok_and(|span| span <= ids.len() * 4);
    if close {
        vec![params![*least, *most]]
    } else {
        ids.iter().map(|id| params![*id, *id]).collect()
    }
}

/// Adds bodies and needs. A task whose body is damaged is left out.
fn completed(tx: &mut Tx<'_>, tasks: Vec<Stored>) -> Result<Vec<(Stored, Vec<Dependency>)>> {
    let ids: Vec<TaskId> = tasks.iter().map(|stored| stored.task.id).collect();
    let mut bodies: BTreeMap<TaskId, Option<String>> = BTreeMap::new();
    let mut edges: BTreeMap<TaskId, Vec<Dependency>> = BTreeMap::new();
    for range in ranges(&ids) {
        for row in &tx.query(sql::BODIES_BETWEEN, &range)? {
            let body = row.get(1).map_err(StoreError::from);
            bodies.insert(row.get(0)?, tx.unless_damaged(row, body)?);
        }
        for (of, need) in tx
            .all(sql::NEEDS_BETWEEN, &range, |row| Ok::<_, StoreError>((row.get(5)?, need(row)?)))?
        {
            edges.entry(of).or_default().push(need);
        }
    }
    let complete = tasks.into_iter().filter_map(|mut stored| {
        let id = stored.task.id;
        stored.task.body = bodies.remove(&id).unwrap_or(Some(String::new()))?;
        Some((stored, edges.remove(&id).unwrap_or_default()))
    });
    Ok(complete.collect())
}

fn artifacts(tx: &mut Tx<'_>, id: TaskId) -> Result<Vec<ArtifactRow>> {
    tx.all(sql::ARTIFACTS_OF, &params![id, PAGE], artifact)
}

fn artifact(row: &Row) -> Result<ArtifactRow, DbError> {
    let (seq, name, hash) = (row.int(0)?, row.get(1)?, hex(row.get(2)?));
    Ok(ArtifactRow { seq, name, hash, value: row.json(3)? })
}

pub(super) fn decision(row: &Row) -> Result<Decision, DbError> {
    let settled = match (row.get(9)?, row.get(10)?) {
        (Some(at), Some(by)) => Some(DecisionEnd { at, by, seq: row.int(11)? }),
        (_, _) => None,
    };
    let answer = match row.get(14)? {
        Some(due) => Some(PendingAnswer { given: row.json(13)?, due }),
        None => None,
    };
    Ok(Decision {
        answer,
        id: row.get(0)?,
        task: row.get(1)?,
        title: row.get(7)?,
        seq: row.int(2)?,
        asks: row.get(3)?,
        question: row.get(12)?,
        offers: row.json(4)?,
        opened_at: row.get(5)?,
        deadline: row.get(6)?,
        snoozed_until: row.get(8)?,
        settled,
    })
}
