//! Budgets of a day and of a batch that are used up: what people have added to them, and whether one has to be asked.
//!
//! The question is a task of the lifecycle `allowance`. Those about one day or one batch are numbered and found by their keys, so that
//! however many nodes see the same, one is made. A yes about a day counts while its budget is looked at, and is looked for only
//! when the budget is used up without it; a yes about a batch raises the bounds of the batch, once. Nothing here asks by itself.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Kind;
use banksman_core::machine::{Actor, Event, Note};
use banksman_core::schedule::{BatchLoad, Budget, Used, over};
use banksman_core::time::Instant;
use serde_json::Value as Json;

use super::apply::{Key, apply_to, load_for_update, replay};
use super::audit::Entry;
use super::claim::readable;
use super::conn::Conn;
use super::definitions::Definitions;
use super::dispatch::{batch_load, whole};
use super::places::set_batch_budget;
use super::query::task;
use super::row::{Stored, is_damage};
use super::spent::{batch_scope, day_scope, day_used, number};
use super::{Store, StoreError, sql};

/// The lifecycle of such a question.
pub const ALLOWANCE: &str = "allowance";
/// The note that says that the bounds of a batch were raised.
const RAISED: &str = "raised";

/// Questions about one day or one batch: whoever has answered so many will raise the budget itself.
const MOST: u32 = 50;
/// Batches with a budget for which tasks wait, and open questions, that are looked at.
const LOOKED_AT: i64 = 1_000;

/// What a budget is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Day,
    Batch(String),
}

impl Scope {
    /// As it is kept: `day:2026-03-01`, `batch:spring`.
    #[must_use]
    pub fn name(&self, now: Instant) -> String {
        match self {
            Self::Day => day_scope(now),
            Self::Batch(batch) => batch_scope(batch),
        }
    }
}

/// A budget that is used up while tasks wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedUp {
    pub scope: Scope,
    /// With runs that are under way.
    pub used: Used,
    /// The bounds with all that people have added.
    pub limit: Budget,
    /// What a yes adds to what is used.
    pub more: Budget,
    /// Tasks in the queue that no pause of their batch holds back.
    pub waiting: i64,
    pub next: Next,
}

/// What has to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A person is asked already or has said no, or a yes would change nothing.
    Nothing,
    /// A person has said yes to this question, and the batch does not know yet.
    Raise(TaskId),
    /// A person is to be asked, once, under this key.
    Ask(String),
}

impl Store {
    /// Every budget that holds tasks back. While everything is paused none does, nor that of a batch that is paused.
    pub fn used_up(&self, day: &Budget, now: Instant) -> Result<Vec<UsedUp>, StoreError> {
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

    /// Gives a batch what a person has said yes to, once. A budget that somebody has changed since stays as it is.
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
            if let Some((name, batch)) = batch_of(conn, scope)?
                && batch.budget == answer.limit
            {
                set_batch_budget(conn, &name, &answer.more.beyond(&answer.used))?;
            }
            let note = Note { actor: Actor::system(), trigger: RAISED.to_owned() };
            apply_to(conn, &definitions, asked, &Event::Noted(note), Some(&key), now)?;
            conn.notify();
            Ok(())
        })
    }

    /// Open questions that are needed no more: their day is over, or the budget is not used up, because somebody has raised it. A
    /// node may have settings of its own for the day, so only the one that has asked takes its question back.
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
    pub fn allowance(&self, scope: &Scope, now: Instant) -> Result<Option<TaskId>, StoreError> {
        self.read(|conn| {
            let chain = Chain::read(conn, &self.definitions, &scope.name(now))?;
            Ok(chain.list.last().filter(|asked| asked.is_open()).map(|asked| asked.task))
        })
    }
}

/// Whether nothing is left for another run.
pub(super) fn is_over(budget: &Budget, used: &Used) -> bool {
    !over("", budget, used).is_empty()
}

/// What was used up on a day, with the runs that are under way.
pub(super) fn day_with_open_runs(conn: &mut dyn Conn, now: Instant) -> Result<Used, StoreError> {
    let under_way = whole(number(conn, sql::COUNT_OPEN_RUNS, &[])?);
    Ok(day_used(conn, now)?.with_runs(under_way))
}

/// The budget of a day with all that people have added to it. They are asked for it only where it is used up without that.
pub(super) fn day_budget(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    budget: Budget,
    used: &Used,
    now: Instant,
) -> Result<Budget, StoreError> {
    if !is_over(&budget, used) {
        return Ok(budget);
    }
    Ok(Chain::read(conn, definitions, &day_scope(now))?.added_to(budget))
}

fn used_up_day(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    day: Budget,
    now: Instant,
) -> Result<Option<UsedUp>, StoreError> {
    if day == Budget::default() {
        return Ok(None);
    }
    let used = day_with_open_runs(conn, now)?;
    if !is_over(&day, &used) {
        return Ok(None);
    }
    let waiting = number(conn, sql::COUNT_QUEUE_NOT_PAUSED, &[])?;
    if waiting == 0 {
        return Ok(None);
    }
    let chain = Chain::read(conn, definitions, &day_scope(now))?;
    let limit = chain.added_to(day);
    if !is_over(&limit, &used) {
        return Ok(None);
    }
    let next = chain.next(&limit, &day, &used);
    Ok(Some(UsedUp { scope: Scope::Day, used, limit, more: day, waiting, next }))
}

fn used_up_batch(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    name: String,
    batch: &BatchLoad,
    now: Instant,
) -> Result<Option<UsedUp>, StoreError> {
    let (limit, used) = (batch.budget, batch_used(conn, &name, batch)?);
    if !is_over(&limit, &used) {
        return Ok(None);
    }
    let waiting = number(conn, sql::COUNT_QUEUE_OF_BATCH, &[name.as_str().into()])?;
    if waiting == 0 {
        return Ok(None);
    }
    let scope = Scope::Batch(name);
    let chain = Chain::read(conn, definitions, &scope.name(now))?;
    // As long as nobody has changed the bounds since the last yes, the next one adds as much as that one.
    let last = chain.granted().filter(|last| last.more.beyond(&last.used) == limit);
    let more = last.map_or(limit, |last| last.more);
    let next = match chain.list.last().filter(|last| last.kind == Kind::Done) {
        Some(last) if !is_known(conn, &raised_key(last.task))? => Next::Raise(last.task),
        Some(_) | None => chain.next(&limit, &more, &used),
    };
    Ok(Some(UsedUp { scope, used, limit, more, waiting, next }))
}

fn batch_used(conn: &mut dyn Conn, name: &str, batch: &BatchLoad) -> Result<Used, StoreError> {
    let under_way = match batch.budget.runs {
        Some(_) => whole(number(conn, sql::COUNT_RUNNING_OF_BATCH, &[name.into()])?),
        None => 0,
    };
    Ok(batch.used.with_runs(under_way))
}

/// The batch that a question is about.
fn batch_of(conn: &mut dyn Conn, scope: &str) -> Result<Option<(String, BatchLoad)>, StoreError> {
    let Some(name) = scope.strip_prefix(&batch_scope("")) else { return Ok(None) };
    conn.query(sql::BATCH_LOAD, &[name.into()])?.first().map(batch_load).transpose()
}

fn is_moot(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    asked: &Stored,
    (day, node): (Budget, &str),
    now: Instant,
) -> Result<bool, StoreError> {
    let scope = asked.text("scope").unwrap_or_default();
    if let Some((name, batch)) = batch_of(conn, scope)? {
        return Ok(!is_over(&batch.budget, &batch_used(conn, &name, &batch)?));
    }
    if scope != day_scope(now) {
        return Ok(true);
    }
    let used = day_with_open_runs(conn, now)?;
    let budget = day_budget(conn, definitions, day, &used, now)?;
    Ok(asked.text("node") == Some(node) && !is_over(&budget, &used))
}

fn raised_key(id: TaskId) -> Key {
    let text = format!("{ALLOWANCE}-{RAISED}-{id}");
    Key::new(&text, &text)
}

fn is_known(conn: &mut dyn Conn, key: &Key) -> Result<bool, StoreError> {
    Ok(!conn.query(sql::KEY, &[key.text.as_str().into()])?.is_empty())
}

/// Whether a task was made by the system under this key.
fn is_by_system(conn: &mut dyn Conn, id: TaskId, key: &str) -> Result<bool, StoreError> {
    let rows = conn.query(sql::HISTORY, &[id.0.into(), 0.into(), 1.into(), 1.into()])?;
    let entry = rows.first().map(|row| Entry::read(id, row)).transpose()?;
    let is_own =
        |entry: &Entry| entry.key.as_deref() == Some(key) && entry.record.actor == Actor::system();
    Ok(entry.as_ref().is_some_and(is_own))
}

/// One question about a budget.
struct Asked {
    task: TaskId,
    kind: Kind,
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
        self.kind == Kind::Waiting
    }
}

/// All questions about one day or one batch, the oldest first.
struct Chain {
    list: Vec<Asked>,
    /// The key of the next one; none when there have been enough.
    free: Option<String>,
}

impl Chain {
    fn read(
        conn: &mut dyn Conn,
        definitions: &Definitions,
        scope: &str,
    ) -> Result<Self, StoreError> {
        let mut list = Vec::new();
        for number in 1..=MOST {
            let key = format!("{ALLOWANCE}-{scope}-{number}");
            let rows = conn.query(sql::KEY, &[key.as_str().into()])?;
            let Some(row) = rows.first() else { return Ok(Self { list, free: Some(key) }) };
            let id = TaskId(row.int(1)?);
            // Somebody may have used the key for something else, and that grants nothing: only the system asks.
            if !is_by_system(conn, id, &key)? {
                continue;
            }
            match task(conn, definitions, id) {
                Ok(found) => list.push(Asked::read(&found)),
                // Nor does a damaged one, and it must not keep others from their work.
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { list, free: None })
    }

    /// The last one that somebody has said yes to.
    fn granted(&self) -> Option<&Asked> {
        self.list.iter().rev().find(|asked| asked.kind == Kind::Done)
    }

    /// The budget of a day with what the last yes has added to it.
    fn added_to(&self, budget: Budget) -> Budget {
        self.granted().map_or(budget, |granted| budget.beyond(&granted.used))
    }

    fn next(self, limit: &Budget, more: &Budget, used: &Used) -> Next {
        // A bound of nothing is a stop and not a question: twice nothing is nothing.
        let would_help = !is_over(&more.beyond(used), used);
        let is_asked = self.list.last().is_some_and(Asked::is_open);
        // Who has said no is not asked again about the same bounds.
        let is_refused = self.list.iter().any(|asked| asked.refused && asked.limit == *limit);
        match self.free.filter(|_| would_help && !is_asked && !is_refused) {
            Some(key) => Next::Ask(key),
            None => Next::Nothing,
        }
    }
}
