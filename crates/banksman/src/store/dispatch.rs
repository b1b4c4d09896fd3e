//! Dispatch: the scheduler's choice and the claim that follows, in one transaction.
//!
//! It reads the load, walks the queue and asks `schedule::choose` about each task while no other
//! node can start a run, so every limit holds across all nodes. Nothing here chooses.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{AgentRole, Field, Trigger};
use banksman_core::lifecycle::{
    Lifecycle, Outcome, RoleId, Route, StateActivity, StateId, StateKind, Transition,
    TransitionTarget,
};
use banksman_core::machine::{Actor, Claim};
use banksman_core::schedule::{
    AccountLoad, Area, BatchLoad, Budget, BudgetScope, COMMAND_WORKER, Candidate, Ineligible, Load,
    Running, Used, Worker, choose,
};
use banksman_core::time::{Instant, Span};

use super::accounts::{ACCOUNTS, AccountRow, account};
use super::batches::{BATCHES, budget};
use super::budgets::{day_budget, task_budget};
use super::claim::{
    ClaimAttempt, Claimed, LOOK, Queue, areas_of, readable, set_place, task_used, try_claim,
};
use super::conn::{DbError, Row};
use super::nodes::{NODES, live_since};
use super::query::task;
use super::row::Stored;
use super::runs::{OPEN_RUNS, name_of, role_of};
use super::spent::{day_used, used};
use super::sql::Pair;
use super::switches::is_paused;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, sql};

/// Tasks that an answer lists with the reasons why they wait.
const MOST_LISTED: usize = 100;

/// What a node can start, and the limits of its settings.
#[derive(Debug, Clone)]
pub struct Dispatch {
    pub node: String,
    pub workers: Vec<Worker>,
    pub capacity: u32,
    /// Runs at once over all nodes.
    pub limit: Option<u32>,
    pub account_limits: BTreeMap<String, u32>,
    /// Runs at once over all nodes, by role.
    pub lanes: BTreeMap<String, u32>,
    pub day_budget: Budget,
    pub task_budget: Budget,
    /// How long the lease holds without a heartbeat.
    pub ttl: Span,
    /// The hash of the token with which the agent of the claimed run reports, stored with the
    /// claim.
    pub token: Option<Vec<u8>>,
}

/// The result of a walk along the queue.
#[derive(Debug, Default)]
pub struct Dispatched {
    pub claimed: Option<Claimed>,
    /// The worker that was chosen for it.
    pub worker: Option<String>,
    /// Tasks that were passed over, with every reason; at most 100.
    pub ineligible: Vec<(TaskId, Vec<Ineligible>)>,
    /// Tasks that no worker of a live node can take; at most 100.
    pub unserved: Vec<(TaskId, Vec<Ineligible>)>,
    /// Tasks whose own budget is used up; at most 100.
    pub over_budget: Vec<OverBudget>,
    /// Tasks whose claim broke an invariant and was not written.
    pub broken: Vec<(TaskId, StoreError)>,
}

/// A task that has used up its own budget.
#[derive(Debug, Clone, PartialEq)]
pub struct OverBudget {
    pub task: TaskId,
    pub used: Used,
    /// The limits that are reached.
    pub limits: Vec<Ineligible>,
}

/// What the scheduler is told about a task.
struct Considered<'a> {
    stored: &'a Stored,
    /// The roles that may take it, in the order of the lifecycle.
    roles: Vec<String>,
    /// The only workers that may take it, if it is assigned.
    assignees: Vec<String>,
    /// The roles as which their workers act.
    acts_as: Vec<String>,
    areas: Vec<Area>,
    spent: Used,
    budget: Budget,
}

impl Considered<'_> {
    fn candidate(&self) -> Candidate<'_> {
        let task = &self.stored.task;
        Candidate {
            task: task.id,
            project: &task.project,
            batch: task.batch.as_deref(),
            tags: &task.tags,
            roles: &self.roles,
            assignees: &self.assignees,
            lanes: &self.acts_as,
            model: self.stored.text(Field::Model),
            areas: &self.areas,
            spent: self.spent,
            budget: self.budget,
        }
    }
}

impl Store {
    /// Claims the first task of the queue that a worker of this node may take now.
    pub fn dispatch(&self, request: Dispatch, now: Instant) -> Result<Dispatched> {
        self.write(move |tx| {
            let load = snapshot(tx, &request, sql::TURN, now)?;
            let all = registry(tx, &request, now)?;
            Selection { tx, request: &request, all, load, now }.run()
        })
    }

    /// The load on which [`Store::dispatch`] decides, to explain why a task waits.
    pub fn load(&self, request: &Dispatch, now: Instant) -> Result<Load> {
        self.read(|tx| whole_load(tx, request, now))
    }

    /// What [`Store::dispatch`] would decide about a task, whatever stands before it: the name of
    /// its worker, or every reason against it; `None` if it is not queued.
    pub fn choice(
        &self,
        id: TaskId,
        request: &Dispatch,
        now: Instant,
    ) -> Result<Option<Result<String, Vec<Ineligible>>>> {
        self.read(|tx| {
            let stored = task(tx, id)?;
            let Some(rank) = stored.queue_rank else { return Ok(None) };
            let load = whole_load(tx, request, now)?;
            let all = registry(tx, request, now)?;
            let mut selection = Selection { tx, request, all, load, now };
            selection.promise_ahead(&stored, rank)?;
            let considered = selection.read(&stored)?;
            Ok(Some(selection.choose(&considered).map(|worker| worker.name.clone())))
        })
    }
}

/// One walk along the queue.
struct Selection<'a, 't> {
    tx: &'a mut Tx<'t>,
    request: &'a Dispatch,
    all: Vec<Worker>,
    load: Load,
    now: Instant,
}

impl<'a> Selection<'a, '_> {
    fn run(mut self) -> Result<Dispatched> {
        let mut dispatched = Dispatched::default();
        let mut queue = Queue::new();
        while let Some(found) = queue.next(self.tx)? {
            if self.consider(&found, &mut dispatched)?.is_break() {
                break;
            }
        }
        Ok(dispatched)
    }

    /// Promises areas to the tasks ahead of this one, as the walk along the queue does.
    fn promise_ahead(&mut self, asked: &Stored, rank: i64) -> Result<()> {
        if areas_of(&asked.task).is_empty() {
            return Ok(());
        }
        let place = params![rank, asked.task.id, LOOK];
        for row in self.tx.query(sql::QUEUE_AHEAD, &place)? {
            let Some(found) = readable(self.tx, &row)? else { continue };
            let considered = self.read(&found)?;
            if let Err(reasons) = self.choose(&considered) {
                self.load.reserve_areas(&considered.candidate(), &reasons);
            }
        }
        Ok(())
    }

    /// Reads what the scheduler has to know about a task and its batch.
    fn read<'s>(&mut self, stored: &'s Stored) -> Result<Considered<'s>> {
        let budget = self.request.task_budget;
        let spent = task_used(self.tx, &stored.task, &budget)?;
        let budget = task_budget(self.tx, stored, budget, &spent)?;
        load_batch(self.tx, &mut self.load, stored.task.batch.as_deref())?;
        let assignees = stored.task.assignees(&stored.lifecycle);
        let mut roles = roles_of(stored, stored.task.state);
        if !assignees.is_empty() && !roles.is_empty() {
            // An assignee works in a role of its own.
            let own = stored.lifecycle.agent_roles().map(str::to_owned);
            roles.extend(own.filter(|role| !roles.contains(role)).collect::<Vec<_>>());
        }
        let areas = areas_of(&stored.task);
        let acts_as = roles.iter().map(|role| acting_role(&stored.lifecycle, role)).collect();
        Ok(Considered { stored, roles, assignees, acts_as, areas, spent, budget })
    }

    fn choose(&self, considered: &Considered<'_>) -> Result<&'a Worker, Vec<Ineligible>> {
        let (load, here) = (&self.load, self.request.workers.as_slice());
        choose(&considered.candidate(), load, here, &self.all, self.now)
    }

    fn consider(&mut self, found: &Stored, dispatched: &mut Dispatched) -> Result<ControlFlow<()>> {
        let considered = self.read(found)?;
        let worker = match self.choose(&considered) {
            Ok(worker) => worker,
            Err(reasons) => return Ok(self.pass_over(&considered, reasons, dispatched)),
        };
        for role in considered.roles.iter().filter(|role| worker.plays(role)) {
            let role = acting_role(&found.lifecycle, role);
            if self.load.is_lane_full(&role) {
                continue;
            }
            let actor = Actor { role, name: Some(worker.name.clone()) };
            let claim = Claim { actor, expires_at: self.now.plus(self.request.ttl) };
            match try_claim(self.tx, found.clone(), claim, self.now)? {
                ClaimAttempt::Claimed(claimed) => {
                    let Dispatch { node, token, .. } = self.request;
                    let place = params![node, &worker.account, token.clone()];
                    set_place(self.tx, claimed.run, place, &considered.areas)?;
                    dispatched.worker = Some(worker.name.clone());
                    dispatched.claimed = Some(*claimed);
                    return Ok(ControlFlow::Break(()));
                }
                ClaimAttempt::MovedOn => break,
                ClaimAttempt::Refused => {}
                ClaimAttempt::Broken(error) => {
                    dispatched.broken.push((found.task.id, error));
                    break;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Notes why a task is passed over, and returns whether the walk continues.
    fn pass_over(
        &mut self,
        considered: &Considered<'_>,
        reasons: Vec<Ineligible>,
        dispatched: &mut Dispatched,
    ) -> ControlFlow<()> {
        let (task, used) = (considered.stored.task.id, considered.spent);
        self.load.reserve_areas(&considered.candidate(), &reasons);
        let is_end = reasons.iter().any(applies_to_all);
        let is_own = |reason: &&Ineligible| {
            matches!(reason, Ineligible::OverBudget { scope: BudgetScope::Task(_), .. })
        };
        let own: Vec<Ineligible> = reasons.iter().filter(is_own).cloned().collect();
        if !own.is_empty() && dispatched.over_budget.len() < MOST_LISTED {
            dispatched.over_budget.push(OverBudget { task, used, limits: own });
        }
        // Without any worker, workers are missing in general and not one for this task.
        let is_unserved = !is_end
            && self.all.iter().any(|worker| worker.name != COMMAND_WORKER)
            && reasons.iter().any(|reason| matches!(reason, Ineligible::NoWorker { .. }));
        let list = if is_unserved { &mut dispatched.unserved } else { &mut dispatched.ineligible };
        if list.len() < MOST_LISTED {
            list.push((task, reasons));
        }
        if is_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Whether a reason against one task applies to every other task.
fn applies_to_all(reason: &Ineligible) -> bool {
    match reason {
        Ineligible::Paused
        | Ineligible::OverBudget { scope: BudgetScope::Day, .. }
        | Ineligible::Full { .. }
        | Ineligible::NodeFull { .. } => true,
        Ineligible::NoActivity
        | Ineligible::NotAssigned { .. }
        | Ineligible::NoWorker { .. }
        | Ineligible::OverBudget { scope: BudgetScope::Task(_) | BudgetScope::Batch(_), .. }
        | Ineligible::BatchPaused { .. }
        | Ineligible::NotHere { .. }
        | Ineligible::AccountPaused { .. }
        | Ineligible::AccountProbing { .. }
        | Ineligible::AreaTaken { .. }
        | Ineligible::AreaReserved { .. }
        | Ineligible::AccountFull { .. }
        | Ineligible::WorkerBusy { .. }
        | Ineligible::LaneFull { .. }
        | Ineligible::BatchFull { .. } => false,
    }
}

/// The running runs and what was used. Batches are added when their tasks come up.
fn snapshot(
    tx: &mut Tx<'_>,
    request: &Dispatch,
    switch: impl Into<Pair>,
    now: Instant,
) -> Result<Load> {
    let mut load = Load {
        paused: is_paused(tx, switch)?,
        limit: request.limit,
        node: request.node.clone(),
        capacity: request.capacity,
        lanes: request.lanes.clone(),
        ..Load::default()
    };
    // A day without a budget needs no sum that can be read.
    if request.day_budget != Budget::default() {
        load.day = day_used(tx, now)?;
    }
    for row in &tx.query(sql::RUNNING, &params![OPEN_RUNS])? {
        let known = tx.unless_damaged(row, running(row).map_err(StoreError::from))?;
        // A damaged run counts, too, but nobody knows what it locks.
        load.running.push(known.map_or_else(|| unknown_run(row), Ok)?);
    }
    for (name, account) in tx.all(sql::ACCOUNTS, &params![ACCOUNTS], account)? {
        let limit = request.account_limits.get(&name).copied();
        let AccountRow { paused_until, reason, probing, hits: _ } = account;
        load.accounts.insert(name, AccountLoad { paused_until, reason, probing, limit });
    }
    for (name, limit) in &request.account_limits {
        load.accounts.entry(name.clone()).or_default().limit = Some(*limit);
    }
    let open_runs = u32::try_from(load.running.len()).unwrap_or(u32::MAX);
    let used = load.day.with_runs(open_runs);
    load.day_budget = day_budget(tx, request.day_budget, &used, now)?;
    Ok(load)
}

/// The same with every batch that has queued tasks.
fn whole_load(tx: &mut Tx<'_>, request: &Dispatch, now: Instant) -> Result<Load> {
    let mut load = snapshot(tx, request, sql::PAUSED, now)?;
    load.batches.extend(tx.all(sql::READY_BATCHES, &params![BATCHES], batch_load)?);
    Ok(load)
}

/// No task of a damaged batch starts, because its limits are not known.
fn load_batch(tx: &mut Tx<'_>, load: &mut Load, batch: Option<&str>) -> Result<()> {
    if let Some(name) = batch.filter(|batch| !load.batches.contains_key(*batch)) {
        let rows = tx.query(sql::BATCH_LOAD, &params![name])?;
        let Some(row) = rows.first() else { return Ok(()) };
        let batch = tx.unless_damaged(row, batch_load(row).map_err(StoreError::from))?;
        let closed = || BatchLoad { paused: true, ..BatchLoad::default() };
        let batch = batch.map_or_else(closed, |(_, batch)| batch);
        load.batches.insert(name.to_owned(), batch);
    }
    Ok(())
}

pub(super) fn batch_load(row: &Row) -> Result<(String, BatchLoad), DbError> {
    let batch = BatchLoad {
        concurrency: saturating_u32(row.int(1)?),
        paused: row.get(2)?,
        budget: budget(row, 3)?,
        used: used(row, 7)?,
    };
    Ok((row.get(0)?, batch))
}

fn running(row: &Row) -> Result<Running, DbError> {
    Ok(Running {
        project: row.get(1)?,
        batch: row.get(2)?,
        worker: name_of(row.text(3)?).to_owned(),
        role: role_of(row.text(3)?).to_owned(),
        account: row.get::<Option<_>>(4)?.unwrap_or_default(),
        node: row.get::<Option<_>>(5)?.unwrap_or_default(),
        areas: row.json(6)?,
        ..unknown_run(row)?
    })
}

fn unknown_run(row: &Row) -> Result<Running, DbError> {
    let text = String::new;
    Ok(Running {
        task: row.get(0)?,
        project: text(),
        batch: None,
        worker: text(),
        account: text(),
        node: text(),
        role: text(),
        areas: Vec::new(),
    })
}

/// The workers of every live node. Those of this node come from the request and not from its row.
fn registry(tx: &mut Tx<'_>, request: &Dispatch, now: Instant) -> Result<Vec<Worker>> {
    let live = params![live_since(now), request.node.as_str(), NODES];
    let mut all = request.workers.clone();
    // A newer build on another node may write workers that this one cannot read; that node still
    // dispatches its own.
    let others = tx.all(sql::LIVE_WORKERS, &live, |row| row.json::<Vec<Worker>>(0))?;
    all.extend(others.into_iter().flatten());
    Ok(all)
}

/// The roles of workers that may take a task in a state. The task's own role stands in for those of
/// its queue and for `worker`; a task without one that is for workers is for nobody else.
pub fn roles_of(stored: &Stored, state: StateId) -> Vec<String> {
    let roles = worker_roles(&stored.lifecycle, state);
    let worker = AgentRole::Worker.as_str();
    let is_for_workers = roles.iter().any(|role| role == worker);
    match stored.text(Field::Role) {
        Some(_) if roles.is_empty() => roles,
        Some(own) if is_for_workers || is_queue_of(&stored.lifecycle, state, &roles) => {
            vec![own.to_owned()]
        }
        None if is_for_workers => vec![worker.to_owned()],
        Some(_) | None => roles,
    }
}

/// Whether a queue is for roles of the lifecycle, and not for one that only a later activity names.
fn is_queue_of(lifecycle: &Lifecycle, state: StateId, roles: &[String]) -> bool {
    let is_own = |role: &String| lifecycle.find_role(role).is_some();
    lifecycle.state(state).kind == StateKind::Queued && roles.iter().all(is_own)
}

/// The roles in which agents of this program may take a task in a state: those of the claims out of
/// a queue that lead to an activity, else the role of the state's activity. What names no activity
/// is left to workers outside of this program.
fn worker_roles(lifecycle: &Lifecycle, id: StateId) -> Vec<String> {
    let state = lifecycle.state(id);
    match state.kind {
        StateKind::Working | StateKind::Reviewing => {
            state.does.iter().filter_map(|does| does.role.clone()).collect()
        }
        StateKind::Queued => {
            let mut roles: Vec<String> = Vec::new();
            let claims = lifecycle.exits(id).filter(|row| row.trigger == Trigger::Claim.name());
            for row in claims {
                let does = claimed_state(row).and_then(|to| lifecycle.state(to).does.as_ref());
                let Some(does) = does else { continue };
                let next = after_wait(lifecycle, row, does);
                let own = claim_roles(lifecycle, std::iter::once(row));
                for name in next.map_or_else(|| own.collect(), |role| vec![role]) {
                    if !roles.iter().any(|known| known == name) {
                        roles.push(name.to_owned());
                    }
                }
            }
            roles
        }
        StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked
        | StateKind::Done
        | StateKind::Failed
        | StateKind::Cancelled => Vec::new(),
    }
}

fn claimed_state(row: &Transition) -> Option<StateId> {
    match row.to {
        TransitionTarget::State(to) => Some(to),
        TransitionTarget::Prior => None,
    }
}

/// The role of the agent that begins as soon as a claim's wait is over: whoever claims is that
/// agent.
fn after_wait<'a>(
    lifecycle: &'a Lifecycle,
    claim: &Transition,
    does: &StateActivity,
) -> Option<&'a str> {
    let Some(Route::Trigger(met)) = does.outcomes.get(&Outcome::Met) else { return None };
    let from = claimed_state(claim)?;
    let row = lifecycle.exits(from).find(|row| row.trigger == *met)?;
    lifecycle.state(claimed_state(row)?).does.as_ref()?.role.as_deref()
}

/// A state may name a role that only selects worker and prompt, such as a planner. Its lease then
/// has the role of a claim from the queue.
fn acting_role(lifecycle: &Lifecycle, role: &str) -> String {
    if lifecycle.find_role(role).is_some() {
        return role.to_owned();
    }
    claim_roles(lifecycle, lifecycle.transitions.iter()).next().unwrap_or(role).to_owned()
}

/// The roles of workers that may take the claims among some transitions.
fn claim_roles<'a>(
    lifecycle: &'a Lifecycle,
    rows: impl Iterator<Item = &'a Transition>,
) -> impl Iterator<Item = &'a str> {
    rows.filter(|row| row.trigger == Trigger::Claim.name())
        .flat_map(|row| &row.roles)
        .filter(|role| ![RoleId::HUMAN, RoleId::SYSTEM].contains(role))
        .map(|role| lifecycle.role_name(*role))
}

/// A count from a wider column.
pub(super) fn saturating_u32(count: i64) -> u32 {
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}
