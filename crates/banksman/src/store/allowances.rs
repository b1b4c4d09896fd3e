//! Budgets of a day and of a batch that are used up: what people have added to them, and whether
//! one has to be asked.
//!
//! The question is a task of the lifecycle `allowance`. Those about one day or one batch are
//! numbered and found by their keys, so that however many nodes see the same, one is made. A yes
//! about a day counts while its budget is looked at, and is looked for only when the budget is used
//! up without it; a yes about a batch raises the bounds of the batch, once. Nothing here asks by
//! itself.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::machine::{Actor, Event, HistoryNote};
use banksman_core::schedule::{BatchLoad, Budget, BudgetScope, Used};
use banksman_core::time::Instant;
use serde_json::Value as Json;

use super::apply::{IdempotencyKey, apply_to, load_for_update, replay};
use super::batches::set_budget_if;
use super::claim::readable;
use super::conn::Conn;
use super::definitions::Definitions;
use super::dispatch::{batch_load, whole};
use super::row::Stored;
use super::spent::{batch_scope, day_scope, day_used, number, scope_name};
use super::{Store, StoreError, sql};

/// The lifecycle of such a question.
pub const ALLOWANCE: &str = "allowance";
/// The note that says that the bounds of a batch were raised.
const RAISED: &str = "raised";

/// The latest questions about one day or one batch that are looked at. What was said before them is
/// forgotten, and at worst asked for again.
const LATEST: u32 = 20;
/// No question has a number beyond this.
const LAST_NUMBER: u32 = 1 << 31;
/// Batches with a budget for which tasks wait, and open questions, that are looked at.
const LOOKED_AT: i64 = 1_000;

/// A budget that is used up while tasks wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExhaustedBudget {
    pub scope: BudgetScope,
    /// With runs that are under way.
    pub used: Used,
    /// The bounds with all that people have added.
    pub limit: Budget,
    /// What a yes adds to what is used.
    pub more: Budget,
    /// Tasks in the queue that no pause of their batch holds back.
    pub waiting: i64,
    pub next: BudgetAction,
}

/// What has to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetAction {
    /// A person is asked already or has said no, or a yes would change nothing.
    Nothing,
    /// A person has said yes to this question, and the batch does not know yet.
    Raise(TaskId),
    /// A person is to be asked, once, under this key.
    Ask(String),
}

impl Store {
    /// Every budget that holds tasks back. While everything is paused none does, nor that of a
    /// batch that is paused.
    pub fn used_up(&self, day: &Budget, now: Instant) -> Result<Vec<ExhaustedBudget>, StoreError> {
        self.read(|conn| {
            if number(conn, sql::PAUSED, &[])? != 0 {
                return Ok(Vec::new());
            }
            let mut list = Vec::from_iter(used_up_day(conn, &self.definitions, *day, now)?);
            for row in conn.query(sql::BUDGETED_BATCHES, &[LOOKED_AT.into()])? {
                let (name, batch) = batch_load(&row)?;
                list.extend(used_up_batch(conn, &self.definitions, name, &batch, now)?);
            }
            Ok(list)
        })
    }

    /// Gives a batch what a person has said yes to, once. A budget that somebody has changed since
    /// stays as it is.
    pub fn raise_batch(&self, id: TaskId, now: Instant) -> Result<(), StoreError> {
        let definitions = Arc::clone(&self.definitions);
        self.write(move |conn| {
            let asked = load_for_update(conn, &definitions, id)?;
            let key = raised_key(id);
            if replay(conn, &definitions, Some(&key))?.is_some() {
                return Ok(());
            }
            let answer = Asked::read(&asked);
            let scope = asked.text("scope").unwrap_or_default();
            if let Some(name) = batch_in(scope) {
                set_budget_if(conn, name, &answer.limit, &answer.more.beyond(&answer.used))?;
            }
            let note = HistoryNote { actor: Actor::system(), trigger: RAISED.to_owned() };
            apply_to(conn, &definitions, asked, &Event::Noted(note), Some(&key), now)?;
            conn.notify();
            Ok(())
        })
    }

    /// Open questions that are needed no more: their day is over, or the budget is not used up,
    /// because somebody has raised it. A node may have settings of its own for the day, so only
    /// the one that has asked takes its question back.
    pub fn moot_allowances(
        &self,
        day: &Budget,
        node: &str,
        now: Instant,
    ) -> Result<Vec<TaskId>, StoreError> {
        self.read(|conn| {
            let mut moot = Vec::new();
            for row in conn.query(sql::OPEN_ALLOWANCES, &[ALLOWANCE.into(), LOOKED_AT.into()])? {
                let Some(asked) = readable(conn, &self.definitions, &row)? else { continue };
                if is_moot(conn, &self.definitions, &asked, (*day, node), now)? {
                    moot.push(asked.task.id);
                }
            }
            Ok(moot)
        })
    }

    /// The open question about a budget.
    pub fn allowance(
        &self,
        scope: &BudgetScope,
        now: Instant,
    ) -> Result<Option<TaskId>, StoreError> {
        self.read(|conn| {
            let chain = Chain::read(conn, &self.definitions, &scope_name(scope, now))?;
            Ok(chain.list.first().filter(|asked| asked.is_open()).map(|asked| asked.task))
        })
    }
}

/// What was used up on a day, with the runs that are under way.
pub(super) fn day_with_open_runs(conn: &mut dyn Conn, now: Instant) -> Result<Used, StoreError> {
    let under_way = whole(number(conn, sql::COUNT_OPEN_RUNS, &[])?);
    Ok(day_used(conn, now)?.with_runs(under_way))
}

/// The budget of a day with all that people have added to it. They are asked for it only where it
/// is used up without that.
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
    Ok(Chain::read(conn, definitions, &day_scope(now))?.added_to(budget))
}

fn used_up_day(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    day: Budget,
    now: Instant,
) -> Result<Option<ExhaustedBudget>, StoreError> {
    if day == Budget::default() {
        return Ok(None);
    }
    let used = day_with_open_runs(conn, now)?;
    if !day.is_used_up(&used) {
        return Ok(None);
    }
    let waiting = number(conn, sql::COUNT_QUEUE_NOT_PAUSED, &[])?;
    if waiting == 0 {
        return Ok(None);
    }
    let chain = Chain::read(conn, definitions, &day_scope(now))?;
    let limit = chain.added_to(day);
    if !limit.is_used_up(&used) {
        return Ok(None);
    }
    let next = chain.next(&limit, &day, &used);
    Ok(Some(ExhaustedBudget { scope: BudgetScope::Day, used, limit, more: day, waiting, next }))
}

fn used_up_batch(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    name: String,
    batch: &BatchLoad,
    now: Instant,
) -> Result<Option<ExhaustedBudget>, StoreError> {
    let (limit, used) = (batch.budget, batch_used(conn, &name, batch)?);
    if !limit.is_used_up(&used) {
        return Ok(None);
    }
    let waiting = number(conn, sql::COUNT_QUEUE_OF_BATCH, &[name.as_str().into()])?;
    if waiting == 0 {
        return Ok(None);
    }
    let scope = BudgetScope::Batch(name);
    let chain = Chain::read(conn, definitions, &scope_name(&scope, now))?;
    // As long as nobody has changed the bounds since the last yes, the next one adds as much as
    // that one.
    let last = chain.granted().filter(|last| last.more.beyond(&last.used) == limit);
    let more = last.map_or(limit, |last| last.more);
    let next = match chain.list.first().filter(|last| last.kind == StateKind::Done) {
        Some(last) if !is_known(conn, &raised_key(last.task))? => BudgetAction::Raise(last.task),
        Some(_) | None => chain.next(&limit, &more, &used),
    };
    Ok(Some(ExhaustedBudget { scope, used, limit, more, waiting, next }))
}

fn batch_used(conn: &mut dyn Conn, name: &str, batch: &BatchLoad) -> Result<Used, StoreError> {
    let under_way = match batch.budget.runs {
        Some(_) => whole(number(conn, sql::COUNT_RUNNING_OF_BATCH, &[name.into()])?),
        None => 0,
    };
    Ok(batch.used.with_runs(under_way))
}

/// The batch that a question is about, by its scope.
fn batch_in(scope: &str) -> Option<&str> {
    scope.strip_prefix(&batch_scope(""))
}

fn is_moot(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    asked: &Stored,
    (day, node): (Budget, &str),
    now: Instant,
) -> Result<bool, StoreError> {
    let scope = asked.text("scope").unwrap_or_default();
    if let Some(name) = batch_in(scope) {
        let rows = conn.query(sql::BATCH_LOAD, &[name.into()])?;
        let Some((_, batch)) = rows.first().map(batch_load).transpose()? else { return Ok(true) };
        return Ok(!batch.budget.is_used_up(&batch_used(conn, name, &batch)?));
    }
    if scope != day_scope(now) {
        return Ok(true);
    }
    let used = day_with_open_runs(conn, now)?;
    let budget = day_budget(conn, definitions, day, &used, now)?;
    Ok(asked.text("node") == Some(node) && !budget.is_used_up(&used))
}

fn raised_key(id: TaskId) -> IdempotencyKey {
    let text = format!("{ALLOWANCE}-{RAISED}-{id}");
    IdempotencyKey::new(&text, &text)
}

fn is_known(conn: &mut dyn Conn, key: &IdempotencyKey) -> Result<bool, StoreError> {
    Ok(!conn.query(sql::KEY, &[key.text.as_str().into()])?.is_empty())
}

/// One question about a budget.
struct Asked {
    task: TaskId,
    kind: StateKind,
    refused: bool,
    used: Used,
    limit: Budget,
    more: Budget,
}

impl Asked {
    fn read(stored: &Stored) -> Self {
        let field = |name: &str| stored.task.fields.get(name).cloned().unwrap_or(Json::Null);
        Self {
            task: stored.task.id,
            kind: stored.state().kind,
            refused: stored.flag("refused"),
            used: serde_json::from_value(field("used")).unwrap_or_default(),
            limit: serde_json::from_value(field("limit")).unwrap_or_default(),
            more: serde_json::from_value(field("more")).unwrap_or_default(),
        }
    }

    fn is_open(&self) -> bool {
        self.kind == StateKind::Waiting
    }
}

/// The latest questions about one day or one batch, the newest first.
struct Chain {
    list: Vec<Asked>,
    /// The key of the next one.
    free: String,
}

impl Chain {
    fn read(
        conn: &mut dyn Conn,
        definitions: &Definitions,
        scope: &str,
    ) -> Result<Self, StoreError> {
        let last = last_number(conn, scope)?;
        let mut list = Vec::new();
        for number in (last.saturating_sub(LATEST) + 1..=last).rev() {
            // Somebody may have used the key for something else, and that grants nothing. Nor does
            // a damaged one, and it must not keep others from their work.
            for row in conn.query(sql::MADE_BY_SYSTEM, &[numbered_key(scope, number).into()])? {
                let asked = readable(conn, definitions, &row)?;
                list.extend(asked.as_ref().map(Asked::read));
            }
        }
        Ok(Self { list, free: numbered_key(scope, last + 1) })
    }

    /// The last one that somebody has said yes to.
    fn granted(&self) -> Option<&Asked> {
        self.list.iter().find(|asked| asked.kind == StateKind::Done)
    }

    /// The budget of a day with what the last yes has added to it.
    fn added_to(&self, budget: Budget) -> Budget {
        self.granted().map_or(budget, |granted| budget.beyond(&granted.used))
    }

    fn next(self, limit: &Budget, more: &Budget, used: &Used) -> BudgetAction {
        // A bound of nothing is a stop and not a question: twice nothing is nothing.
        let would_help = !more.beyond(used).is_used_up(used);
        let is_asked = self.list.first().is_some_and(Asked::is_open);
        // Who has said no is not asked again about the same bounds.
        let is_refused = self.list.iter().any(|asked| asked.refused && asked.limit == *limit);
        if would_help && !is_asked && !is_refused {
            BudgetAction::Ask(self.free)
        } else {
            BudgetAction::Nothing
        }
    }
}

fn numbered_key(scope: &str, number: u32) -> String {
    format!("{ALLOWANCE}-{scope}-{number}")
}

/// The number of the last question about a budget; 0 if there was none. They are numbered without
/// gaps, so that a few looks find it, however many there are.
fn last_number(conn: &mut dyn Conn, scope: &str) -> Result<u32, StoreError> {
    let mut is_taken = |number: u32| -> Result<bool, StoreError> {
        Ok(!conn.query(sql::KEY, &[numbered_key(scope, number).into()])?.is_empty())
    };
    let mut free = 1;
    while free < LAST_NUMBER && is_taken(free)? {
        free *= 2;
    }
    let mut last = free / 2;
    while free - last > 1 {
        let between = last + (free - last) / 2;
        if is_taken(between)? {
            last = between;
        } else {
            free = between;
        }
    }
    Ok(last)
}
