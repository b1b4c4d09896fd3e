//! Reads for the command line and the API. Nothing here writes.

use std::collections::BTreeMap;

use banksman_core::ids::{DecisionId, RunId, TaskId};
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::expr::Value as Json;
use banksman_core::machine::Timer;
use banksman_core::machine::TimerKind;
use banksman_core::time::Instant;

use super::accounts::{AccountRow, account};
use super::apply::Edge;
use super::audit::{HistoryEntry, hex};
use super::batches::{Batch, batches};
use super::conn::{Conn, Row};
use super::definitions::Definitions;
use super::row::{Stored, is_damage, lifecycle_version, stored};
use super::{Store, StoreError, sql};

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
pub struct RunRow {
    pub id: RunId,
    pub worker: String,
    pub activity: String,
    pub started_at: Instant,
    pub ended_at: Option<Instant>,
    pub outcome: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub id: DecisionId,
    pub task: TaskId,
    pub title: String,
    /// The version of the task that the decision is about.
    pub seq: i64,
    pub asks: String,
    pub offers: Vec<(String, String)>,
    pub opened_at: Instant,
    pub deadline: Option<Instant>,
    /// No reminder before this time.
    pub snoozed_until: Option<Instant>,
    /// None while it is open.
    pub settled: Option<DecisionEnd>,
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
    pub runs: Vec<RunRow>,
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
    pub held: i64,
    pub failed: i64,
    pub cancelled: i64,
}

impl Progress {
    pub(super) fn add(&mut self, kind: StateKind, children: i64) {
        self.total += children;
        match kind {
            StateKind::Queued => {}
            StateKind::Working | StateKind::Reviewing => self.at_work += children,
            StateKind::Waiting | StateKind::Blocked | StateKind::Parked => self.held += children,
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
    pub fn task(&self, id: TaskId) -> Result<Stored, StoreError> {
        self.read(|conn| task(conn, &self.definitions, id))
    }

    pub fn detail(&self, id: TaskId) -> Result<Detail, StoreError> {
        self.read(|conn| {
            let stored = task(conn, &self.definitions, id)?;
            let ahead = match stored.queue_rank {
                Some(rank) => Some(number(conn, sql::COUNT_AHEAD, rank)?),
                None => None,
            };
            Ok(Detail {
                needs: needs(conn, id)?,
                runs: all(conn, sql::RUNS_OF, &[id.0.into(), PAGE.into()], |row| run(id, row))?,
                artifacts: all(conn, sql::ARTIFACTS_OF, &[id.0.into(), PAGE.into()], artifact)?,
                decision: all(conn, sql::OPEN_DECISION_OF, &[id.0.into()], decision)?
                    .into_iter()
                    .next(),
                timers: timers(conn, id)?.into_iter().map(|(timer, _)| timer).collect(),
                ahead,
                stored,
            })
        })
    }

    /// The timers of a task, the next first.
    pub fn timers_of(&self, id: TaskId) -> Result<Vec<Timer>, StoreError> {
        self.read(|conn| Ok(timers(conn, id)?.into_iter().map(|(timer, _)| timer).collect()))
    }

    pub fn needs(&self, id: TaskId) -> Result<Vec<Dependency>, StoreError> {
        self.read(|conn| needs(conn, id))
    }

    /// Tasks that match, newest first, and the start of the next page if there is one. Damaged
    /// tasks are left out, because one of them must not hide all others; `check` names them.
    pub fn list(
        &self,
        filter: &Filter,
        before: Option<TaskId>,
        at_most: i64,
    ) -> Result<(Vec<Stored>, Option<TaskId>), StoreError> {
        let wanted = usize::try_from(at_most.clamp(1, PAGE)).unwrap_or(1);
        self.read(|conn| {
            let mut found = Vec::new();
            let mut before = before.map_or(i64::MAX, |id| id.0);
            loop {
                let rows = narrowed(conn, filter, before)?;
                let exhausted = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
                for row in &rows {
                    before = row.int(0)?;
                    let candidate = lifecycle_version(row)
                        .and_then(|version| self.definitions.get(conn, version))
                        .and_then(|lifecycle| stored(row, lifecycle));
                    let candidate = match candidate {
                        Err(error) if is_damage(&error) => continue,
                        read => read?,
                    };
                    if fits(&candidate, filter) {
                        found.push(candidate);
                    }
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

    /// A page of all tasks, oldest first, each with its body and its needs.
    pub fn tasks_from(&self, after: TaskId) -> Result<Vec<(Stored, Vec<Dependency>)>, StoreError> {
        self.read(|conn| {
            let mut page = Vec::new();
            for row in conn.query(sql::TASKS_FROM, &[after.0.into(), PAGE.into()])? {
                let lifecycle = self.definitions.get(conn, lifecycle_version(&row)?)?;
                page.push(stored(&row, lifecycle)?);
            }
            completed(conn, page)
        })
    }

    /// Listed tasks, each with its body and its needs.
    pub fn complete(&self, tasks: &[Stored]) -> Result<Vec<(Stored, Vec<Dependency>)>, StoreError> {
        self.read(|conn| completed(conn, tasks.to_vec()))
    }

    /// The epoch of the first run after a person's last transition; failures before it no longer
    /// count. Decided by the order of the records and not by their times, because clocks can be set
    /// back.
    pub fn first_run_after_a_person(&self, id: TaskId) -> Result<Option<i64>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::LAST_WORD_OF_A_PERSON, &[id.0.into()])?;
            let word = rows.first().map_or(Ok(None), |row| row.opt_int(0))?.unwrap_or(0);
            let after = [id.0.into(), word.into(), i64::MAX.into(), PAGE.into()];
            for row in &conn.query(sql::HISTORY, &after)? {
                let entry = HistoryEntry::read(id, row)?;
                let lease = entry.record.fields.get("lease").and_then(Json::as_str);
                if let Some(run) = lease.and_then(|run| run.parse::<RunId>().ok()) {
                    return Ok(Some(run.epoch));
                }
            }
            Ok(None)
        })
    }

    pub fn history(&self, id: TaskId, after: i64) -> Result<Vec<HistoryEntry>, StoreError> {
        self.read(|conn| {
            if conn.query(sql::TASK, &[id.0.into()])?.is_empty() {
                return Err(StoreError::NoTask(id));
            }
            history(conn, id, after)
        })
    }

    pub fn decisions(&self, after: i64) -> Result<Vec<Decision>, StoreError> {
        self.read(|conn| all(conn, sql::OPEN_DECISIONS, &[after.into(), PAGE.into()], decision))
    }

    pub fn overview(&self) -> Result<Overview, StoreError> {
        self.read(|conn| {
            let mut overview = Overview {
                states: all(conn, sql::COUNT_BY_STATE, &[], state_count)?,
                ended_reviews: all(conn, sql::COUNT_ENDED_REVIEWS, &[], state_count)?,
                ready: first(conn, sql::COUNT_QUEUE)?,
                open_decisions: first(conn, sql::COUNT_OPEN_DECISIONS)?,
                pending_effects: first(conn, sql::COUNT_PENDING_EFFECTS)?,
                dead_effects: first(conn, sql::COUNT_DEAD_EFFECTS)?,
                projects: all(conn, sql::PROJECTS, &[PAGE.into()], |row| {
                    Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))
                })?,
                batches: batches(conn)?,
                running: first(conn, sql::COUNT_OPEN_RUNS)?,
                paused: first(conn, sql::PAUSED)? != 0,
                ..Overview::default()
            };
            let accounts = all(conn, sql::ACCOUNTS, &[PAGE.into()], account)?.into_iter();
            overview.paused_accounts =
                accounts.filter(|(_, account)| account.paused_until.is_some()).collect();
            let next = conn.query(sql::NEXT_TIMER, &[])?;
            overview.next_timer = next.first().map_or(Ok(None), |row| row.opt_int(0))?.map(Instant);
            Ok(overview)
        })
    }

    pub fn projects(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.read(|conn| {
            all(conn, sql::PROJECTS, &[PAGE.into()], |row| {
                Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))
            })
        })
    }
}

fn state_count(row: &Row) -> Result<StateCount, StoreError> {
    Ok(StateCount {
        state: row.text(0)?.to_owned(),
        kind: row.text(1)?.to_owned(),
        tasks: row.int(2)?,
    })
}

fn narrowed(conn: &mut dyn Conn, filter: &Filter, before: i64) -> Result<Vec<Row>, StoreError> {
    let (statement, word) = match (&filter.state, &filter.batch, &filter.project) {
        (Some(state), _, _) => (sql::TASKS_BY_STATE, Some(state)),
        (None, Some(batch), _) => (sql::TASKS_OF_BATCH, Some(batch)),
        (None, None, Some(project)) => (sql::TASKS_OF_PROJECT, Some(project)),
        (None, None, None) => (sql::TASKS_BEFORE, None),
    };
    let mut params = vec![before.into(), PAGE.into()];
    params.extend(word.map(|word| word.as_str().into()));
    Ok(conn.query(statement, &params)?)
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

pub(super) fn task(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    id: TaskId,
) -> Result<Stored, StoreError> {
    let rows = conn.query(sql::TASK, &[id.0.into()])?;
    let row = rows.first().ok_or(StoreError::NoTask(id))?;
    let lifecycle = definitions.get(conn, lifecycle_version(row)?)?;
    let mut stored = stored(row, lifecycle)?;
    stored.task.body = body(conn, id)?;
    Ok(stored)
}

pub(super) fn body(conn: &mut dyn Conn, id: TaskId) -> Result<String, StoreError> {
    let rows = conn.query(sql::BODY, &[id.0.into()])?;
    Ok(rows.first().map_or(Ok(""), |row| row.text(0))?.to_owned())
}

pub(super) fn history(
    conn: &mut dyn Conn,
    id: TaskId,
    after: i64,
) -> Result<Vec<HistoryEntry>, StoreError> {
    all(conn, sql::HISTORY, &[id.0.into(), after.into(), i64::MAX.into(), PAGE.into()], |row| {
        HistoryEntry::read(id, row)
    })
}

pub(super) fn timers(conn: &mut dyn Conn, id: TaskId) -> Result<Vec<(Timer, i64)>, StoreError> {
    let rows = conn.query(sql::TIMERS_OF, &[id.0.into()])?;
    let mut timers = Vec::with_capacity(rows.len());
    for row in &rows {
        let kind = TimerKind::from_code(row.text(0)?, row.int(1)?);
        let kind = kind.ok_or_else(|| StoreError::Corrupt {
            task: id,
            what: "a timer of no known kind".to_owned(),
        })?;
        timers.push((Timer { kind, due: Instant(row.int(3)?) }, row.int(2)?));
    }
    Ok(timers)
}

fn needs(conn: &mut dyn Conn, id: TaskId) -> Result<Vec<Dependency>, StoreError> {
    all(conn, sql::NEEDS_OF, &[id.0.into()], need)
}

fn need(row: &Row) -> Result<Dependency, StoreError> {
    let edge = if row.text(1)? == Edge::Blocks.as_str() { Edge::Blocks } else { Edge::Informs };
    Ok(Dependency {
        task: TaskId(row.int(0)?),
        edge,
        done: row.text(2)? == "done",
        title: row.text(3)?.to_owned(),
        state: row.text(4)?.to_owned(),
    })
}

/// Adds bodies and needs: with two queries if the ids are close together, else with two for each
/// task, because a sparse range could cover any number of other tasks.
fn completed(
    conn: &mut dyn Conn,
    tasks: Vec<Stored>,
) -> Result<Vec<(Stored, Vec<Dependency>)>, StoreError> {
    let ids = || tasks.iter().map(|stored| stored.task.id.0);
    let (Some(least), Some(most)) = (ids().min(), ids().max()) else { return Ok(Vec::new()) };
    let close = usize::try_from(most - least).is_ok_and(|span| span <= tasks.len() * 4);
    let mut bodies: BTreeMap<i64, String> = BTreeMap::new();
    let mut edges: BTreeMap<i64, Vec<Dependency>> = BTreeMap::new();
    if close {
        let range = [least.into(), most.into()];
        for row in conn.query(sql::BODIES_BETWEEN, &range)? {
            bodies.insert(row.int(0)?, row.text(1)?.to_owned());
        }
        for row in conn.query(sql::NEEDS_BETWEEN, &range)? {
            edges.entry(row.int(5)?).or_default().push(need(&row)?);
        }
    } else {
        for id in ids().map(TaskId) {
            bodies.insert(id.0, body(conn, id)?);
            edges.insert(id.0, needs(conn, id)?);
        }
    }
    let complete = tasks.into_iter().map(|mut stored| {
        let id = stored.task.id.0;
        stored.task.body = bodies.remove(&id).unwrap_or_default();
        (stored, edges.remove(&id).unwrap_or_default())
    });
    Ok(complete.collect())
}

fn run(task: TaskId, row: &Row) -> Result<RunRow, StoreError> {
    Ok(RunRow {
        id: RunId { task, epoch: row.int(0)? },
        worker: row.text(1)?.to_owned(),
        activity: row.text(2)?.to_owned(),
        started_at: Instant(row.int(3)?),
        ended_at: row.opt_int(4)?.map(Instant),
        outcome: row.opt_text(5)?.map(str::to_owned),
    })
}

fn artifact(row: &Row) -> Result<ArtifactRow, StoreError> {
    // Whoever wants to be sure compares the hash.
    let value = serde_json::from_str(row.text(3)?).unwrap_or(Json::Null);
    Ok(ArtifactRow {
        seq: row.int(0)?,
        name: row.text(1)?.to_owned(),
        hash: hex(row.blob(2)?),
        value,
    })
}

pub(super) fn decision(row: &Row) -> Result<Decision, StoreError> {
    let task = TaskId(row.int(1)?);
    let settled = match (row.opt_int(9)?, row.opt_text(10)?, row.opt_int(11)?) {
        (Some(at), Some(by), Some(seq)) => {
            Some(DecisionEnd { at: Instant(at), by: by.to_owned(), seq })
        }
        (_, _, _) => None,
    };
    let offers = serde_json::from_str(row.text(4)?);
    Ok(Decision {
        id: DecisionId(row.int(0)?),
        task,
        title: row.text(7)?.to_owned(),
        seq: row.int(2)?,
        asks: row.text(3)?.to_owned(),
        offers: offers.map_err(|_| StoreError::Corrupt {
            task,
            what: "a decision without actions".to_owned(),
        })?,
        opened_at: Instant(row.int(5)?),
        deadline: row.opt_int(6)?.map(Instant),
        snoozed_until: row.opt_int(8)?.map(Instant),
        settled,
    })
}

/// Reads every row of an answer with one function.
pub(super) fn all<T>(
    conn: &mut dyn Conn,
    statement: &'static str,
    params: &[super::conn::Value],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    conn.query(statement, params)?.iter().map(read).collect()
}

fn first(conn: &mut dyn Conn, statement: &'static str) -> Result<i64, StoreError> {
    Ok(conn.query(statement, &[])?.first().map_or(Ok(0), |row| row.int(0))?)
}

fn number(conn: &mut dyn Conn, statement: &'static str, argument: i64) -> Result<i64, StoreError> {
    Ok(conn.query(statement, &[argument.into()])?.first().map_or(Ok(0), |row| row.int(0))?)
}
