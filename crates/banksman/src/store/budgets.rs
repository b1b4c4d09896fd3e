//! Budgets of days, batches and tasks: what is used of each, and the requests to people for more.
//!
//! `core::schedule` decides on the facts that this module collects, and the engine carries the
//! decision out. Each request about a day or a batch has a row with the number of its scope's next
//! request, so that nodes that decide the same at the same time add one question. A request about a
//! task is a transition of the task itself, and its row has the number of the record. Nothing here
//! decides.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Actor, Event, HistoryNote, TransitionRequest};
use banksman_core::schedule::{
    BatchLoad, Budget, BudgetAnswer, BudgetFacts, BudgetRequest, BudgetScope, RequestLog, Used,
    task_limit,
};
use banksman_core::time::Instant;

use super::apply::{Add, Applied, add_in, apply_to};
use super::batches::{BATCHES, set_budget_if};
use super::claim::readable;
use super::damage::unless_damaged;
use super::dispatch::{batch_load, saturating_u32};
use super::notices::{NewNotice, write_notice};
use super::row::{Stored, json};
use super::spent::{batch_scope, day_scope, day_used, scope_name, used};
use super::switches::is_paused;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, query, sql};

/// The latest requests about a task that are read. A grant before them is forgotten, and a person
/// is asked again.
const REQUESTS: i64 = 100;

impl Store {
    /// The facts about every budget that is used up while tasks wait for it or that has an open
    /// request. While everything is paused, no task waits for a budget, nor does one of a paused
    /// batch.
    pub fn budgets(&self, day: &Budget, now: Instant) -> Result<Vec<BudgetFacts>> {
        self.read(|tx| {
            let params = params![BATCHES];
            let open: Vec<String> = tx.all(sql::OPEN_BUDGET_REQUESTS, &params, |row| row.get(0))?;
            // A damaged budget must not hide the others.
            let facts =
                |tx: &mut Tx<'_>, scope: &String| unless_damaged(facts(tx, scope, (day, now)));
            let mut list = Vec::new();
            for scope in &open {
                list.extend(facts(tx, scope)?);
            }
            if is_paused(tx, sql::PAUSED)? {
                return Ok(list);
            }
            let has_day_budget = *day != Budget::default();
            let mut scopes = Vec::from_iter(has_day_budget.then(|| day_scope(now)));
            for (name, batch) in tx.all(sql::BUDGETED_BATCHES, &params, batch_load)? {
                if batch.budget.is_used_up(&batch_used(tx, &name, &batch)?) {
                    scopes.push(batch_scope(&name));
                }
            }
            for scope in scopes.into_iter().filter(|scope| !open.contains(scope)) {
                list.extend(facts(tx, &scope)?.filter(|facts| facts.waiting > 0));
            }
            Ok(list)
        })
    }

    /// Adds a budget request that was decided on these facts. Answers none if another request about
    /// the same scope was added since.
    pub fn add_budget_request(
        &self,
        facts: &BudgetFacts,
        add: Add,
        now: Instant,
    ) -> Result<Option<TaskId>> {
        let scope = scope_name(&facts.scope, now);
        let (after, requests) = (facts.requests.number, &facts.requests);
        let granted = requests.last_granted().map(|granted| granted.task);
        let refused = json(&requests.refused_limits());
        self.write_keyed(move |tx| {
            if tx.count(sql::BUDGET_REQUEST, &params![&scope])? != after {
                return Ok(None);
            }
            let task = add_in(tx, &add, now)?.stored.task.id;
            let row = params![&scope, after + 1, task, granted, &refused];
            tx.write(sql::INSERT_BUDGET_REQUEST, &row)?;
            Ok(Some(task))
        })
    }

    /// Gives a batch the limit that a person granted, once. A limit that somebody has changed since
    /// stays as it is.
    pub fn raise_batch(
        &self,
        batch: &str,
        request: TaskId,
        (from, to): (Budget, Budget),
        now: Instant,
    ) -> Result<()> {
        let batch = batch.to_owned();
        self.write(move |tx| {
            let asked = tx.load_for_update(request)?;
            if !tx.has(sql::APPLY_BUDGET_REQUEST, &params![request])? {
                return Ok(());
            }
            set_budget_if(tx, &batch, &from, &to)?;
            let trigger = Note::Raised.to_string();
            let note = HistoryNote { actor: Actor::system(), trigger, detail: None };
            apply_to(tx, asked, &Event::Noted(note), None, now)?;
            tx.notify();
            Ok(())
        })
    }

    /// Asks for a transition because the task's budget is used up. A person who continues the task
    /// grants it as much again.
    pub fn ask_for_budget(
        &self,
        stored: &Stored,
        ask: TransitionRequest,
        used: Used,
        notice: NewNotice,
        now: Instant,
    ) -> Result<Applied> {
        let (id, version) = (stored.task.id, Some(stored.task.version));
        let ask = Event::Asked(TransitionRequest { actor: Actor::system(), version, ..ask });
        self.write(move |tx| {
            let old = tx.load_for_update(id)?;
            let applied = apply_to(tx, old, &ask, None, now)?;
            let Used { runs, tokens, cost_micros, time } = used;
            let row = params![id, applied.stored.task.version, runs, tokens, cost_micros, time];
            tx.write(sql::INSERT_TASK_BUDGET_REQUEST, &row)?;
            write_notice(tx, &notice, now)?;
            Ok(applied)
        })
    }

    /// The budget of a task with what people have granted.
    pub fn task_budget(&self, id: TaskId, settings: Budget) -> Result<Budget> {
        self.read(|tx| {
            let stored = query::task(tx, id)?;
            granted(tx, &stored, settings)
        })
    }

    /// The open request about a budget.
    pub fn open_budget_request(&self, scope: &BudgetScope, now: Instant) -> Result<Option<TaskId>> {
        self.read(|tx| {
            let requests = requests(tx, &scope_name(scope, now))?;
            Ok(requests.latest.filter(BudgetRequest::is_open).map(|latest| latest.task))
        })
    }
}

/// What was used on a day, including the runs under way.
pub(super) fn day_with_open_runs(tx: &mut Tx<'_>, now: Instant) -> Result<Used> {
    let under_way = saturating_u32(tx.count(sql::COUNT_OPEN_RUNS, &[])?);
    Ok(day_used(tx, now)?.with_runs(under_way))
}

/// The budget of a day with what people have granted. Grants are read only if the budget is used up
/// without them.
pub(super) fn day_budget(
    tx: &mut Tx<'_>,
    budget: Budget,
    used: &Used,
    now: Instant,
) -> Result<Budget> {
    if !budget.is_used_up(used) {
        return Ok(budget);
    }
    Ok(requests(tx, &day_scope(now))?.day_limit(budget))
}

/// The budget of a task with what people have granted. Grants are read only if the budget is used
/// up without them.
pub(super) fn task_budget(
    tx: &mut Tx<'_>,
    stored: &Stored,
    settings: Budget,
    used: &Used,
) -> Result<Budget> {
    if settings.is_used_up(used) { granted(tx, stored, settings) } else { Ok(settings) }
}

fn granted(tx: &mut Tx<'_>, stored: &Stored, settings: Budget) -> Result<Budget> {
    let id = stored.task.id;
    let mut answers = Vec::new();
    for row in tx.query(sql::TASK_BUDGET_ANSWERS, &params![id, REQUESTS])? {
        let what = "was changed: no actor".to_owned();
        let by = row.text(4)?.parse().map_err(|_| StoreError::Corrupt { task: id, what })?;
        answers.push(BudgetAnswer { used: used(&row, 0)?, by, to: row.get(5)? });
    }
    Ok(task_limit(&stored.lifecycle, settings, &answers))
}

/// The facts about the budget of a scope. Tasks are counted only if the configured limit is used
/// up.
fn facts(tx: &mut Tx<'_>, scope_name: &str, (day, now): (&Budget, Instant)) -> Result<BudgetFacts> {
    let (scope, limit, used, count, params) = match scope_name.strip_prefix(&batch_scope("")) {
        Some(name) => {
            let batch = tx.first(sql::BATCH_LOAD, &params![name], batch_load)?;
            let batch = batch.map(|(_, batch)| batch);
            let used = batch.as_ref().map(|batch| batch_used(tx, name, batch)).transpose()?;
            let limit = batch.map(|batch| batch.budget);
            let params = params![name].to_vec();
            let scope = BudgetScope::Batch(name.to_owned());
            (scope, limit, used.unwrap_or_default(), sql::COUNT_QUEUE_OF_BATCH, params)
        }
        None => {
            let limit = (scope_name == day_scope(now)).then_some(*day);
            let used = day_with_open_runs(tx, now)?;
            (BudgetScope::Day, limit, used, sql::COUNT_QUEUE_NOT_PAUSED, Vec::new())
        }
    };
    let is_used_up = limit.is_some_and(|limit| limit.is_used_up(&used));
    let waiting = if is_used_up { tx.count(count, &params)? } else { 0 };
    let requests = requests(tx, scope_name)?;
    Ok(BudgetFacts { scope, limit, used, waiting, requests })
}

fn batch_used(tx: &mut Tx<'_>, name: &str, batch: &BatchLoad) -> Result<Used> {
    let under_way = match batch.budget.runs {
        Some(_) => saturating_u32(tx.count(sql::COUNT_RUNNING_OF_BATCH, &params![name])?),
        None => 0,
    };
    Ok(batch.used.with_runs(under_way))
}

/// The requests about a scope.
fn requests(tx: &mut Tx<'_>, scope: &str) -> Result<RequestLog> {
    let rows = tx.query(sql::BUDGET_REQUEST, &params![scope])?;
    let Some(row) = rows.first() else { return Ok(RequestLog::default()) };
    Ok(RequestLog {
        number: row.get(0)?,
        latest: request(tx, row.get(1)?, row.get(4)?)?,
        granted: request(tx, row.get(2)?, true)?,
        // At worst a person is asked once more.
        refused: serde_json::from_str(row.text(3)?).unwrap_or_default(),
    })
}

/// Reads one request. A damaged one grants nothing and must not stop the turn; `check` names it.
fn request(tx: &mut Tx<'_>, task: Option<TaskId>, applied: bool) -> Result<Option<BudgetRequest>> {
    let Some(task) = task else { return Ok(None) };
    let rows = tx.query(sql::TASK, &params![task])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let stored = readable(tx, row)?;
    let read = |stored: Stored| BudgetRequest::read(&stored.lifecycle, &stored.task, applied);
    unless_damaged(stored.map(read).transpose().map_err(Into::into)).map(Option::flatten)
}
