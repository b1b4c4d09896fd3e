//! Budgets of days and batches: what is used of each, and the requests to people for more.
//!
//! `schedule::decide_budget` decides on the facts that this module collects, and the engine carries
//! the decision out. Each request has a row with the number of its scope's next request, so that
//! nodes that decide the same at the same time add one question. Nothing here decides.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Actor, Event, HistoryNote};
use banksman_core::schedule::{
    BatchLoad, Budget, BudgetFacts, BudgetRequest, BudgetScope, RequestLog, Used,
};
use banksman_core::time::Instant;

use super::apply::{Add, add_in, apply_to, load_for_update};
use super::batches::{BATCHES, set_budget_if};
use super::claim::readable;
use super::conn::Conn;
use super::definitions::Definitions;
use super::dispatch::{batch_load, saturating_u32};
use super::row::json;
use super::spent::{batch_scope, day_scope, day_used, number, scope_name};
use super::{Store, StoreError, sql};

impl Store {
    /// The facts about every budget that is used up while tasks wait for it or that has an open
    /// request. While everything is paused, no task waits for a budget, nor does one of a paused
    /// batch.
    pub fn budgets(&self, day: &Budget, now: Instant) -> Result<Vec<BudgetFacts>, StoreError> {
        self.read(|conn| {
            let mut list = Vec::new();
            let mut open = Vec::new();
            for row in conn.query(sql::OPEN_BUDGET_REQUESTS, &[BATCHES.into()])? {
                let scope = row.text(0)?.to_owned();
                list.push(facts(conn, &self.definitions, &scope, (day, now))?);
                open.push(scope);
            }
            if number(conn, sql::PAUSED, &[])? != 0 {
                return Ok(list);
            }
            let has_day_budget = *day != Budget::default();
            let mut scopes = Vec::from_iter(has_day_budget.then(|| day_scope(now)));
            for row in conn.query(sql::BUDGETED_BATCHES, &[BATCHES.into()])? {
                let (name, batch) = batch_load(&row)?;
                if batch.budget.is_used_up(&batch_used(conn, &name, &batch)?) {
                    scopes.push(batch_scope(&name));
                }
            }
            for scope in scopes.into_iter().filter(|scope| !open.contains(scope)) {
                let facts = facts(conn, &self.definitions, &scope, (day, now))?;
                list.extend((facts.waiting > 0).then_some(facts));
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
    ) -> Result<Option<TaskId>, StoreError> {
        let scope = scope_name(&facts.scope, now);
        let (after, requests) = (facts.requests.number, &facts.requests);
        let granted = requests.last_granted().map(|granted| granted.task.0);
        let refused = json(&requests.refused_limits());
        self.retry_if_taken(move |store| {
            let (scope, refused, add) = (scope.clone(), refused.clone(), add.clone());
            let definitions = Arc::clone(&store.definitions);
            store.write(move |conn| {
                if number(conn, sql::LAST_BUDGET_REQUEST, &[scope.as_str().into()])? != after {
                    return Ok(None);
                }
                let task = add_in(conn, &definitions, &add, now)?.stored.task.id;
                let scope = scope.as_str().into();
                let refused = refused.as_str().into();
                let row = [scope, (after + 1).into(), task.0.into(), granted.into(), refused];
                conn.write(sql::INSERT_BUDGET_REQUEST, &row)?;
                Ok(Some(task))
            })
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
    ) -> Result<(), StoreError> {
        let (definitions, batch) = (Arc::clone(&self.definitions), batch.to_owned());
        self.write(move |conn| {
            let asked = load_for_update(conn, &definitions, request)?;
            if conn.query(sql::APPLY_BUDGET_REQUEST, &[request.0.into()])?.is_empty() {
                return Ok(());
            }
            set_budget_if(conn, &batch, &from, &to)?;
            let note = HistoryNote { actor: Actor::system(), trigger: Note::Raised.to_string() };
            apply_to(conn, &definitions, asked, &Event::Noted(note), None, now)?;
            conn.notify();
            Ok(())
        })
    }

    /// The open request about a budget.
    pub fn open_budget_request(
        &self,
        scope: &BudgetScope,
        now: Instant,
    ) -> Result<Option<TaskId>, StoreError> {
        self.read(|conn| {
            let requests = requests(conn, &self.definitions, &scope_name(scope, now))?;
            Ok(requests.latest.filter(BudgetRequest::is_open).map(|latest| latest.task))
        })
    }
}

/// What was used on a day, including the runs under way.
pub(super) fn day_with_open_runs(conn: &mut dyn Conn, now: Instant) -> Result<Used, StoreError> {
    let under_way = saturating_u32(number(conn, sql::COUNT_OPEN_RUNS, &[])?);
    Ok(day_used(conn, now)?.with_runs(under_way))
}

/// The budget of a day with what people have granted. Grants are read only if the budget is used up
/// without them.
pub(super) fn day_budget(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    budget: Budget,
    used: &Used,
    now: Instant,
) -> Result<Budget, StoreError> {
    if !budget.is_used_up(used) {
        return Ok(budget);
    }
    Ok(requests(conn, definitions, &day_scope(now))?.day_limit(budget))
}

/// The facts about the budget of a scope. Tasks are counted only if the configured limit is used
/// up.
fn facts(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    scope_name: &str,
    (day, now): (&Budget, Instant),
) -> Result<BudgetFacts, StoreError> {
    let (scope, limit, used, count, params) = match scope_name.strip_prefix(&batch_scope("")) {
        Some(name) => {
            let rows = conn.query(sql::BATCH_LOAD, &[name.into()])?;
            let batch = rows.first().map(batch_load).transpose()?.map(|(_, batch)| batch);
            let used = batch.as_ref().map(|batch| batch_used(conn, name, batch)).transpose()?;
            let limit = batch.map(|batch| batch.budget);
            let params = vec![name.into()];
            let scope = BudgetScope::Batch(name.to_owned());
            (scope, limit, used.unwrap_or_default(), sql::COUNT_QUEUE_OF_BATCH, params)
        }
        None => {
            let limit = (scope_name == day_scope(now)).then_some(*day);
            let used = day_with_open_runs(conn, now)?;
            (BudgetScope::Day, limit, used, sql::COUNT_QUEUE_NOT_PAUSED, Vec::new())
        }
    };
    let is_used_up = limit.is_some_and(|limit| limit.is_used_up(&used));
    let waiting = if is_used_up { number(conn, count, &params)? } else { 0 };
    let requests = requests(conn, definitions, scope_name)?;
    Ok(BudgetFacts { scope, limit, used, waiting, requests })
}

fn batch_used(conn: &mut dyn Conn, name: &str, batch: &BatchLoad) -> Result<Used, StoreError> {
    let under_way = match batch.budget.runs {
        Some(_) => saturating_u32(number(conn, sql::COUNT_RUNNING_OF_BATCH, &[name.into()])?),
        None => 0,
    };
    Ok(batch.used.with_runs(under_way))
}

/// The requests about a scope.
fn requests(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    scope: &str,
) -> Result<RequestLog, StoreError> {
    let rows = conn.query(sql::BUDGET_REQUEST, &[scope.into()])?;
    let Some(row) = rows.first() else { return Ok(RequestLog::default()) };
    let (task, granted, applied) = (row.int(1)?, row.opt_int(2)?, row.int(4)? != 0);
    Ok(RequestLog {
        number: row.int(0)?,
        latest: request(conn, definitions, task, applied)?,
        granted: match granted {
            Some(granted) => request(conn, definitions, granted, true)?,
            None => None,
        },
        // At worst a person is asked once more.
        refused: serde_json::from_str(row.text(3)?).unwrap_or_default(),
    })
}

/// Reads one request; none for a damaged one, which grants nothing and must not stop the turn.
fn request(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    task: i64,
    applied: bool,
) -> Result<Option<BudgetRequest>, StoreError> {
    let rows = conn.query(sql::TASK, &[task.into()])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let stored = readable(conn, definitions, row)?;
    Ok(stored.and_then(|stored| BudgetRequest::read(&stored.task, stored.state().kind, applied)))
}
