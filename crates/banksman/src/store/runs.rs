//! Runs: open and past, and how a run ends.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use banksman_core::failure::{FailureClass, ProofLevel};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::{Purpose, Trigger};
use banksman_core::machine::{Event, Finish, Heartbeat, LateCost};
use banksman_core::text::line;
use banksman_core::time::{Instant, Span};

use super::accounts::{PauseRequest, pause};
use super::apply::{Applied, apply_to, apply_with_body};
use super::conn::{DbError, Row};
use super::damage::unless_damaged;
use super::feed::{ChangeKind, append};
use super::nodes::now as database_now;
use super::notices::{NewNotice, NoticeKind, write_notice};
use super::spent::clamped;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, sql};

/// Open runs that one query reads. Every limit is checked against all of them, so no store may have
/// more.
pub(super) const OPEN_RUNS: i64 = 10_000;
/// Past runs of one task that one query reads: more than any task has.
pub const PAST_RUNS: i64 = 1_000;
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
    pub outcome: Option<Outcome>,
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

/// How much of a failure one line quotes, in bytes.
const FAILURE_BYTES: usize = 400;

impl PastRun {
    /// Whether it ended without what it was for, and not because somebody stopped it.
    pub fn has_failed(&self) -> bool {
        self.outcome.is_some_and(|outcome| {
            ![Outcome::Succeeded, Outcome::Stopped, Outcome::NothingToDo].contains(&outcome)
        })
    }

    /// How a failed attempt ended, in one line.
    pub fn failure_line(&self) -> String {
        let outcome = self.outcome.map_or("unknown", Outcome::as_str);
        let detail = self
            .detail
            .as_deref()
            .map(|detail| line(detail, FAILURE_BYTES))
            .filter(|detail| !detail.is_empty());
        let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        format!("attempt {} failed: {outcome}{detail}", self.epoch)
    }
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
    pub fn open_runs(&self, node: Option<&str>) -> Result<Vec<OpenRun>> {
        match node {
            None => self.rows(sql::OPEN_RUNS, &params![OPEN_RUNS], open_run),
            Some(node) => self.rows(sql::OPEN_RUNS_OF_NODE, &params![OPEN_RUNS, node], open_run),
        }
    }

    /// Whether a run has its lease, even if its row is damaged otherwise.
    pub fn has_lease(&self, run: RunId) -> Result<bool> {
        self.read(|tx| tx.has(sql::LEASE, &params![run.task, run.epoch]))
    }

    /// Runs of any node whose lease has expired, the longest ago first.
    pub fn expired(&self, now: Instant, at_most: i64) -> Result<Vec<OpenRun>> {
        let params = params![at_most.clamp(1, OPEN_RUNS), now];
        self.rows(sql::EXPIRED_RUNS, &params, open_run)
    }

    /// Runs of a project that were, or may have been, at work on a node within a period.
    pub fn runs_at_work(&self, project: &str, when: &NodeTime<'_>) -> Result<Vec<RunId>> {
        let NodeTime { node, from, until, lingers } = *when;
        let stopped = from.0.saturating_sub(lingers.0);
        let params = params![project, node, from, until, stopped, OPEN_RUNS];
        self.rows(sql::RUNS_AT_WORK, &params, run_id)
    }

    /// The last runs of a task, the oldest first.
    pub fn past_runs(&self, task: TaskId, at_most: i64) -> Result<Vec<PastRun>> {
        let params = params![task, at_most.clamp(1, PAST_RUNS)];
        let mut runs = self.rows(sql::PAST_RUNS, &params, past_run)?;
        runs.reverse();
        Ok(runs)
    }

    /// The average use of past runs of a lifecycle's tasks, by the first tag of their task, which
    /// is its role if it has one.
    pub fn past_of_roles(&self, purpose: Purpose) -> Result<BTreeMap<String, RoleAverage>> {
        self.read(|tx| {
            let mut past: BTreeMap<String, RoleAverage> = BTreeMap::new();
            let params = params![purpose.as_str(), RUNS_AVERAGED];
            for (tags, more) in tx.all(sql::PAST_BY_TAGS, &params, |row| {
                let (runs, millis, priced) = (row.int(1)?, row.int(2)?, row.int(3)?);
                let average = RoleAverage { runs, millis, priced, cost_micros: row.get(4)? };
                Ok::<_, DbError>((row.json::<Vec<String>>(0)?, average))
            })? {
                let Some(role) = tags.into_iter().next() else { continue };
                past.entry(role).and_modify(|known| *known = known.and(more)).or_insert(more);
            }
            Ok(past)
        })
    }

    /// Ends a run: the transition of its outcome, the facts about the run, the pause of its account
    /// and what it used, all or nothing. A run that has lost its lease is refused, as in
    /// [`Store::apply`], but its cost is stored.
    pub fn end_run(&self, id: TaskId, end: RunEnd, now: Instant) -> Result<Applied> {
        let epoch = end.finish.epoch;
        let (tokens, cost_micros) = (clamped(end.finish.tokens), clamped(end.finish.cost_micros));
        let ended = self.fenced(id, Some(epoch), now, move |tx| {
            let old = tx.load_for_update(id)?;
            let finished = Event::Finished(end.finish.clone());
            let applied = match &end.body {
                None => apply_to(tx, old, &finished, None, now)?,
                Some(body) => apply_with_body(tx, old, &finished, body, now)?,
            };
            write_facts(tx, id, &end, now)?;
            Ok(applied)
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
    ) -> Result<()> {
        self.write(move |tx| {
            let Some(stored) = unless_damaged(tx.load_for_update(run.task))? else {
                return Ok(());
            };
            let columns = params![run.task, run.epoch, tokens, cost_micros];
            let account = tx.first(sql::RUN_LATE_COST, &columns, |row| row.get(0))?;
            let Some(account): Option<Option<String>> = account else { return Ok(()) };
            append(tx, ChangeKind::RunReported, Some(run.task), run.epoch, now)?;
            let cost = LateCost { epoch: run.epoch, tokens, cost_micros };
            apply_to(tx, stored, &Event::LateCost(cost), None, now)?;
            account.map_or(Ok(()), |account| {
                let scope = format!("account:{account}");
                tx.write(sql::SPEND_LATE, &params![scope, tokens, cost_micros])
            })
        })
    }

    /// Stores the hash of the token with which a run's agent reports. Returns whether the run is
    /// still open. Writes nothing if the run has this token already, which is usual since the claim
    /// stores it.
    pub fn set_token(&self, run: RunId, hash: &[u8]) -> Result<bool> {
        if self.run_of_token(hash)? == Some(run) {
            return Ok(true);
        }
        let columns = params![run.task, run.epoch, hash.to_vec()];
        self.write(move |tx| tx.has(sql::RUN_TOKEN, &columns))
    }

    /// Whether the run's agent reports with the token of this hash, also after the run has ended.
    pub fn has_token(&self, run: RunId, hash: &[u8]) -> Result<bool> {
        let columns = params![run.task, run.epoch, hash.to_vec()];
        self.read(|tx| tx.has(sql::RUN_HAS_TOKEN, &columns))
    }

    /// The run that a token belongs to, while the run has its lease.
    pub fn run_of_token(&self, hash: &[u8]) -> Result<Option<RunId>> {
        self.row(sql::RUN_OF_TOKEN, &params![hash.to_vec()], run_id)
    }

    /// Renews a lease, and returns when it expires. If several machines share the store, the
    /// database's clock counts, so that no keeper depends on a wrong clock.
    pub fn renew(&self, run: RunId, ttl: Span, progressed: bool, now: Instant) -> Result<Instant> {
        let RunId { task: id, epoch } = run;
        let applied = self.fenced(id, Some(epoch), now, move |tx| {
            let now = database_now(tx, now)?;
            let old = tx.load_for_update(id)?;
            let heartbeat = Heartbeat { epoch, expires_at: now.plus(ttl), progressed };
            apply_to(tx, old, &Event::Heartbeat(heartbeat), None, now)
        })?;
        let lease = applied.stored.task.lease;
        Ok(lease.map_or(now, |lease| lease.expires_at))
    }

    /// Queued tasks of which a notice said that no worker can take them, since they were queued.
    pub fn queued_without_worker(&self, at_most: i64) -> Result<Vec<TaskId>> {
        let kind = NoticeKind::NoWorker.as_str();
        self.rows(sql::QUEUED_WITHOUT_WORKER, &params![kind, at_most], |row| row.get(0))
    }

    /// Tasks that are blocked because no worker could take them: their state has a transition on
    /// `worker_available`.
    pub fn stuck_without_worker(&self, at_most: i64) -> Result<Vec<TaskId>> {
        self.read(|tx| {
            let mut stuck = Vec::new();
            let wanted = usize::try_from(at_most.clamp(1, OPEN_RUNS)).unwrap_or(1);
            for row in tx.query(sql::BLOCKED_STATES, &params![BLOCKED_STATES])? {
                let (version, state) = (row.text(0)?, row.text(1)?);
                let Some(lifecycle) = unless_damaged(tx.lifecycle(version))? else { continue };
                let waits = |id| lifecycle.has_exit(id, Trigger::WorkerAvailable);
                if lifecycle.find_state(state).is_some_and(waits) && stuck.len() < wanted {
                    let left = i64::try_from(wanted - stuck.len()).unwrap_or(1);
                    let place = params![version, state, left];
                    stuck.extend(tx.all(sql::BLOCKED_IN, &place, |row| row.get::<TaskId>(0))?);
                }
            }
            Ok(stuck)
        })
    }
}

fn write_facts(tx: &mut Tx<'_>, id: TaskId, end: &RunEnd, now: Instant) -> Result<()> {
    let epoch = end.finish.epoch;
    let detail: String = end.finish.detail.chars().take(DETAIL_CHARS).collect();
    let columns = params![
        id,
        epoch,
        end.class.map(FailureClass::as_str),
        end.signature.as_deref(),
        end.session.as_deref(),
        end.agent.as_deref(),
        end.head.as_deref(),
        end.level.map(ProofLevel::as_str),
        detail,
        clamped(end.input_tokens),
        clamped(end.output_tokens),
    ];
    tx.write(sql::RUN_FACTS, &columns)?;
    append(tx, ChangeKind::RunReported, Some(id), epoch, now)?;
    if end.answers {
        tx.write(sql::ACCOUNT_ANSWERED, &params![id, epoch])?;
    }
    if let Some(request) = &end.pause {
        pause(tx, request)?;
        let PauseRequest { account, until, reason, .. } = request;
        let text = format!("account {account} is paused until {until}: {reason}");
        let notice = NewNotice::alert(NoticeKind::AccountPaused, Some(id), text);
        write_notice(tx, &notice, now)?;
    }
    end.notice.iter().try_for_each(|notice| write_notice(tx, notice, now))
}

fn run_id(row: &Row) -> Result<RunId, DbError> {
    Ok(RunId { task: row.get(0)?, epoch: row.int(1)? })
}

/// `ada` of `worker:ada`: a lease names the role, too, and the registry only the name.
pub(super) fn name_of(actor: &str) -> &str {
    actor.split_once(':').map_or(actor, |(_, name)| name)
}

/// `worker` of `worker:ada`.
pub(super) fn role_of(actor: &str) -> &str {
    actor.split_once(':').map_or(actor, |(role, _)| role)
}

pub(super) fn open_run(row: &Row) -> Result<OpenRun, DbError> {
    Ok(OpenRun {
        run: run_id(row)?,
        worker: name_of(row.text(2)?).to_owned(),
        node: row.get(3)?,
        account: row.get(4)?,
        expires_at: row.get(5)?,
        started_at: row.get(6)?,
    })
}

pub(super) fn past_run(row: &Row) -> Result<PastRun> {
    Ok(PastRun {
        epoch: row.int(0)?,
        worker: name_of(row.text(1)?).to_owned(),
        node: row.get(2)?,
        agent: row.get(3)?,
        session: row.get(4)?,
        outcome: parsed(row, 5)?,
        class: parsed(row, 6)?,
        signature: row.get(7)?,
        detail: row.get(8)?,
        head: row.get(9)?,
        level: parsed(row, 10)?,
        tokens: row.int(11)?,
        cost_micros: row.int(12)?,
        started_at: row.get(13)?,
        ended_at: row.get(14)?,
        input_tokens: row.int(15)?,
        output_tokens: row.int(16)?,
    })
}

/// Reads a word of a closed list from the row of a run. An unknown word is damage.
fn parsed<T>(row: &Row, column: usize) -> Result<Option<T>>
where
    T: FromStr<Err: Display>,
{
    let task = row.get(17)?;
    let damage =
        |error: T::Err| StoreError::Corrupt { task, what: format!("one of its runs: {error}") };
    row.get::<Option<&str>>(column)?.map(|text| text.parse().map_err(damage)).transpose()
}
