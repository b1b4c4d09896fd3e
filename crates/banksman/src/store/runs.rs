//! Runs: open and past, and how a run ends.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use banksman_core::failure::{FailureClass, ProofLevel};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::contract::{Purpose, Trigger};
use banksman_core::machine::{Event, Finish, Heartbeat};
use banksman_core::time::{Instant, Span};

use super::accounts::{PauseRequest, pause};
use super::apply::{Applied, apply_to, apply_with_body, load_for_update};
use super::conn::{Conn, DbError, Row, Value};
use super::feed::{ChangeKind, tell_run};
use super::nodes::now as database_now;
use super::notices::{NewNotice, NoticeKind, write_notice};
use super::row::is_damage;
use super::spent::{batch_scope, clamped, day_scope};
use super::{Store, StoreError, sql};

/// Open runs that one query reads. Every limit is checked against all of them, so no store may have
/// more.
pub(super) const OPEN_RUNS: i64 = 10_000;
/// Past runs of one task that one query reads.
const PAST_RUNS: i64 = 1_000;
/// The latest runs that make an average. Older runs say little about the next one.
const RUNS_AVERAGED: i64 = 10_000;
/// The stored length of a run's detail, in characters; the run's folder has all of it.
const DETAIL_CHARS: usize = 2_000;
/// Pairs of a lifecycle and a state in which tasks are blocked.
const BLOCKED_STATES: i64 = 10_000;

/// A run that holds its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    pub run: RunId,
    /// The worker's name, without the role that it plays.
    pub worker: String,
    /// `None` for a worker from outside.
    pub node: Option<String>,
    pub account: Option<String>,
    pub expires_at: Instant,
    pub started_at: Instant,
}

/// A period on a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeTime<'a> {
    pub node: &'a str,
    pub from: Instant,
    pub until: Instant,
    /// How long the agent of a stopped run may continue.
    pub lingers: Span,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRun {
    pub epoch: i64,
    /// The worker's name, without the role that it played.
    pub worker: String,
    pub node: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub outcome: Option<String>,
    pub class: Option<FailureClass>,
    pub signature: Option<String>,
    pub detail: Option<String>,
    pub head: Option<String>,
    pub level: Option<ProofLevel>,
    pub tokens: i64,
    pub cost_micros: i64,
    pub started_at: Instant,
    pub ended_at: Option<Instant>,
    /// Of the agent's session, for agents that continue to count when it is resumed.
    pub input_tokens: i64,
    pub output_tokens: i64,
}

/// The average use of the runs of one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleAverage {
    pub runs: i64,
    pub millis: i64,
    /// Runs that reported their cost.
    pub priced: i64,
    /// The average cost of those; `None` if there are none.
    pub cost_micros: Option<i64>,
}

impl RoleAverage {
    /// The average of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mean = |(one, weight): (i64, i64), (another, more): (i64, i64)| {
            let sum = i128::from(one) * i128::from(weight) + i128::from(another) * i128::from(more);
            i64::try_from(sum / i128::from((weight + more).max(1))).unwrap_or(i64::MAX)
        };
        let cost = match (self.cost_micros, other.cost_micros) {
            (Some(one), Some(another)) => Some(mean((one, self.priced), (another, other.priced))),
            (one, another) => one.or(another),
        };
        Self {
            runs: self.runs + other.runs,
            millis: mean((self.millis, self.runs), (other.millis, other.runs)),
            priced: self.priced + other.priced,
            cost_micros: cost,
        }
    }
}

/// The end of a run with everything that is known about it.
#[derive(Debug, Clone)]
pub struct RunEnd {
    pub finish: Finish,
    /// The new body of the task, if the run changed it.
    pub body: Option<String>,
    pub class: Option<FailureClass>,
    pub signature: Option<String>,
    pub session: Option<String>,
    pub agent: Option<String>,
    pub head: Option<String>,
    pub level: Option<ProofLevel>,
    /// Of the agent's session; `finish` has everything that the run used.
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub pause: Option<PauseRequest>,
    /// A notice about the end; the pause has its own.
    pub notice: Option<NewNotice>,
    /// The provider answered, which ends a probe after a pause.
    pub answers: bool,
}

impl Store {
    /// Open runs, of one node or of all.
    pub fn open_runs(&self, node: Option<&str>) -> Result<Vec<OpenRun>, StoreError> {
        self.read(|conn| {
            let rows = match node {
                None => conn.query(sql::OPEN_RUNS, &[OPEN_RUNS.into()]),
                Some(node) => conn.query(sql::OPEN_RUNS_OF_NODE, &[OPEN_RUNS.into(), node.into()]),
            };
            rows?.iter().map(open_run).collect()
        })
    }

    /// Runs of any node whose lease has expired, the longest ago first.
    pub fn expired(&self, now: Instant, at_most: i64) -> Result<Vec<OpenRun>, StoreError> {
        let params = [at_most.clamp(1, OPEN_RUNS).into(), now.0.into()];
        self.read(|conn| conn.query(sql::EXPIRED_RUNS, &params)?.iter().map(open_run).collect())
    }

    /// Runs of a project that were, or may have been, at work on a node within a period.
    pub fn runs_at_work(
        &self,
        project: &str,
        when: &NodeTime<'_>,
    ) -> Result<Vec<RunId>, StoreError> {
        let NodeTime { node, from, until, lingers } = *when;
        let stopped = from.0.saturating_sub(lingers.0);
        let params: [Value; 6] = [
            project.into(),
            node.into(),
            from.0.into(),
            until.0.into(),
            stopped.into(),
            OPEN_RUNS.into(),
        ];
        self.read(|conn| conn.query(sql::RUNS_AT_WORK, &params)?.iter().map(run_id).collect())
    }

    /// The last runs of a task, the oldest first.
    pub fn past_runs(&self, task: TaskId, at_most: i64) -> Result<Vec<PastRun>, StoreError> {
        let params = [task.0.into(), at_most.clamp(1, PAST_RUNS).into()];
        self.read(|conn| {
            let rows = conn.query(sql::PAST_RUNS, &params)?;
            rows.iter().rev().map(|row| past_run(task, row)).collect()
        })
    }

    /// The average use of past runs of a lifecycle's tasks, by the first tag of their task, which
    /// is its role if it has one.
    pub fn past_of_roles(
        &self,
        purpose: Purpose,
    ) -> Result<BTreeMap<String, RoleAverage>, StoreError> {
        self.read(|conn| {
            let mut past: BTreeMap<String, RoleAverage> = BTreeMap::new();
            let params = [purpose.as_str().into(), RUNS_AVERAGED.into()];
            for row in conn.query(sql::PAST_BY_TAGS, &params)? {
                // `check` reports a damaged row; an average can do without it.
                let tags: Vec<String> = serde_json::from_str(row.text(0)?).unwrap_or_default();
                let Some(role) = tags.into_iter().next() else { continue };
                let (runs, millis, priced) = (row.int(1)?, row.int(2)?, row.int(3)?);
                let more = RoleAverage { runs, millis, priced, cost_micros: row.opt_int(4)? };
                past.entry(role).and_modify(|known| *known = known.and(more)).or_insert(more);
            }
            Ok(past)
        })
    }

    /// Ends a run: the transition of its outcome, the facts about the run, the pause of its account
    /// and what it used, all or nothing. A run that has lost its lease is refused, as in
    /// [`Store::apply`], but its cost is stored.
    pub fn end_run(&self, id: TaskId, end: RunEnd, now: Instant) -> Result<Applied, StoreError> {
        let epoch = end.finish.epoch;
        let (tokens, cost_micros) = (clamped(end.finish.tokens), clamped(end.finish.cost_micros));
        let definitions = Arc::clone(&self.definitions);
        let ended = self.fenced(id, Some(epoch), now, move |store| {
            let (end, definitions) = (end.clone(), Arc::clone(&definitions));
            store.write(move |conn| {
                let old = load_for_update(conn, &definitions, id)?;
                let finished = Event::Finished(end.finish.clone());
                let applied = match &end.body {
                    None => apply_to(conn, &definitions, old, &finished, None, now)?,
                    Some(body) => apply_with_body(conn, &definitions, old, &finished, body, now)?,
                };
                write_facts(conn, id, &end, now)?;
                Ok(applied)
            })
        });
        if ended.is_err() && tokens + cost_micros > 0 {
            self.keep_late_cost(RunId { task: id, epoch }, tokens, cost_micros, now)?;
        }
        ended
    }

    /// Stores the cost of a stopped run, because budgets count it.
    fn keep_late_cost(
        &self,
        run: RunId,
        tokens: i64,
        cost_micros: i64,
        now: Instant,
    ) -> Result<(), StoreError> {
        let definitions = Arc::clone(&self.definitions);
        self.write(move |conn| {
            let task = match load_for_update(conn, &definitions, run.task) {
                Err(error) if is_damage(&error) => return Ok(()),
                loaded => loaded?.task,
            };
            let cost: [Value; 2] = [tokens.into(), cost_micros.into()];
            let mut columns = key(run).to_vec();
            columns.extend(cost.clone());
            let told = conn.query(sql::RUN_LATE_COST, &columns)?;
            let Some(row) = told.first() else { return Ok(()) };
            tell_run(conn, ChangeKind::RunReported, run, now)?;
            let account = row.opt_text(0)?.map(|account| format!("account:{account}"));
            let batch = task.batch.as_deref().map(batch_scope);
            for scope in account.into_iter().chain(batch).chain([day_scope(now)]) {
                let [tokens, cost_micros] = cost.clone();
                conn.write(sql::SPEND_LATE, &[scope.into(), tokens, cost_micros])?;
            }
            Ok(())
        })
    }

    /// Stores the hash of the token with which a run's agent reports. Returns whether the run is
    /// still open. Writes nothing if the run has this token already, which is usual since the claim
    /// stores it.
    pub fn set_token(&self, run: RunId, hash: &[u8]) -> Result<bool, StoreError> {
        if self.run_of_token(hash)? == Some(run) {
            return Ok(true);
        }
        let [task, epoch] = key(run);
        let columns = [task, epoch, hash.to_vec().into()];
        self.write(move |conn| Ok(!conn.query(sql::RUN_TOKEN, &columns)?.is_empty()))
    }

    /// The run that a token belongs to, while the run has its lease.
    pub fn run_of_token(&self, hash: &[u8]) -> Result<Option<RunId>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::RUN_OF_TOKEN, &[hash.to_vec().into()])?;
            rows.first().map(run_id).transpose()
        })
    }

    /// Renews a lease, and returns when it expires. If several machines share the store, the
    /// database's clock counts, so that no keeper depends on a wrong clock.
    pub fn renew(
        &self,
        run: RunId,
        ttl: Span,
        progressed: bool,
        now: Instant,
    ) -> Result<Instant, StoreError> {
        let RunId { task: id, epoch } = run;
        let definitions = Arc::clone(&self.definitions);
        let applied = self.fenced(id, Some(epoch), now, move |store| {
            let definitions = Arc::clone(&definitions);
            store.write(move |conn| {
                let now = database_now(conn, now)?;
                let old = load_for_update(conn, &definitions, id)?;
                let heartbeat =
                    Event::Heartbeat(Heartbeat { epoch, expires_at: now.plus(ttl), progressed });
                apply_to(conn, &definitions, old, &heartbeat, None, now)
            })
        })?;
        let lease = applied.stored.task.lease;
        Ok(lease.map_or(now, |lease| lease.expires_at))
    }

    /// Tasks that are blocked because no worker could take them: their state has a transition on
    /// `worker_available`.
    pub fn stuck_without_worker(&self, at_most: i64) -> Result<Vec<TaskId>, StoreError> {
        self.read(|conn| {
            let mut stuck = Vec::new();
            let wanted = usize::try_from(at_most.clamp(1, OPEN_RUNS)).unwrap_or(1);
            for row in conn.query(sql::BLOCKED_STATES, &[BLOCKED_STATES.into()])? {
                let (version, state) = (row.text(0)?, row.text(1)?);
                let lifecycle = match self.definitions.get(conn, version) {
                    Err(error) if is_damage(&error) => continue,
                    read => read?,
                };
                let waits = lifecycle
                    .find_state(state)
                    .is_some_and(|id| lifecycle.has_exit(id, Trigger::WorkerAvailable));
                if !waits {
                    continue;
                }
                let left = i64::try_from(wanted - stuck.len()).unwrap_or(1);
                let place = [version.into(), state.into(), left.into()];
                for row in conn.query(sql::BLOCKED_IN, &place)? {
                    stuck.push(TaskId(row.int(0)?));
                }
                if stuck.len() >= wanted {
                    break;
                }
            }
            Ok(stuck)
        })
    }
}

fn write_facts(
    conn: &mut dyn Conn,
    id: TaskId,
    end: &RunEnd,
    now: Instant,
) -> Result<(), StoreError> {
    let reported = RunId { task: id, epoch: end.finish.epoch };
    let run = key(reported);
    let detail: String = end.finish.detail.chars().take(DETAIL_CHARS).collect();
    let mut columns = run.to_vec();
    columns.extend([
        end.class.map(FailureClass::as_str).into(),
        end.signature.as_deref().into(),
        end.session.as_deref().into(),
        end.agent.as_deref().into(),
        end.head.as_deref().into(),
        end.level.map(ProofLevel::as_str).into(),
        detail.into(),
        clamped(end.input_tokens).into(),
        clamped(end.output_tokens).into(),
    ]);
    conn.write(sql::RUN_FACTS, &columns)?;
    tell_run(conn, ChangeKind::RunReported, reported, now)?;
    if end.answers {
        conn.write(sql::ACCOUNT_ANSWERED, &run)?;
    }
    if let Some(told) = &end.pause {
        pause(conn, told)?;
        let text =
            format!("account {} is paused until {}: {}", told.account, told.until, told.reason);
        let notice = NewNotice::alert(NoticeKind::AccountPaused, Some(id), text);
        write_notice(conn, &notice, now)?;
    }
    end.notice.iter().try_for_each(|notice| write_notice(conn, notice, now))
}

fn key(run: RunId) -> [Value; 2] {
    [run.task.0.into(), run.epoch.into()]
}

fn run_id(row: &Row) -> Result<RunId, StoreError> {
    Ok(RunId { task: TaskId(row.int(0)?), epoch: row.int(1)? })
}

/// `ada` of `worker:ada`: a lease names the role, too, and the registry only the name.
pub(super) fn name_of(actor: &str) -> &str {
    actor.split_once(':').map_or(actor, |(_, name)| name)
}

fn open_run(row: &Row) -> Result<OpenRun, StoreError> {
    Ok(OpenRun {
        run: run_id(row)?,
        worker: name_of(row.text(2)?).to_owned(),
        node: row.opt_text(3)?.map(str::to_owned),
        account: row.opt_text(4)?.map(str::to_owned),
        expires_at: Instant(row.int(5)?),
        started_at: Instant(row.int(6)?),
    })
}

pub(super) fn past_run(task: TaskId, row: &Row) -> Result<PastRun, StoreError> {
    let text =
        |at: usize| -> Result<Option<String>, DbError> { Ok(row.opt_text(at)?.map(str::to_owned)) };
    Ok(PastRun {
        epoch: row.int(0)?,
        worker: name_of(row.text(1)?).to_owned(),
        node: text(2)?,
        agent: text(3)?,
        session: text(4)?,
        outcome: text(5)?,
        class: parsed(row, 6, task)?,
        signature: text(7)?,
        detail: text(8)?,
        head: text(9)?,
        level: parsed(row, 10, task)?,
        tokens: row.int(11)?,
        cost_micros: row.int(12)?,
        started_at: Instant(row.int(13)?),
        ended_at: row.opt_int(14)?.map(Instant),
        input_tokens: row.int(15)?,
        output_tokens: row.int(16)?,
    })
}

/// Reads a word of a closed list from the row of a run. An unknown word is damage.
fn parsed<T>(row: &Row, column: usize, task: TaskId) -> Result<Option<T>, StoreError>
where
    T: FromStr<Err: Display>,
{
    let damage =
        |error: T::Err| StoreError::Corrupt { task, what: format!("one of its runs: {error}") };
    row.opt_text(column)?.map(|text| text.parse().map_err(damage)).transpose()
}
