//! Child tasks: added, counted and changed together in one transaction.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::machine::{Event, Rejected, Spent, Task};
use banksman_core::time::Instant;

use super::apply::{Add, Applied, Edge, add_in, apply_to, replay};
use super::batches::add_batch;
use super::conn::{DbError, Row};
use super::notices::{NewNotice, write_notice};
use super::query::{Progress, ranges};
use super::row::Stored;
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, sql};

/// One of several tasks that are added together. It names tasks before it by their index in the
/// list.
#[derive(Debug, Clone)]
pub struct NewChild {
    pub add: Add,
    pub parent: Option<usize>,
    pub after: Vec<(usize, Edge)>,
    /// The runs at once of a new batch for it and its children. Its name is that of the task's
    /// batch, with a number if there is one of that name.
    pub own_batch: Option<u32>,
}

/// How many children a task has, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildCounts {
    pub all: i64,
    pub done: i64,
    /// Failed or cancelled.
    pub given_up: i64,
    /// Of the children and of their children, because the reviews of a step are part of its cost.
    pub cost_micros: i64,
}

impl ChildCounts {
    pub fn open(&self) -> i64 {
        self.all - self.done - self.given_up
    }
}

impl Store {
    /// Adds all of them or none. With a key on each, a repeated call returns the same tasks.
    pub fn add_children(&self, children: &[NewChild], now: Instant) -> Result<Vec<Applied>> {
        let list = children.to_vec();
        self.remembering(self.write_keyed(move |tx| add_all(tx, &list, now))?)
    }

    /// The same for workflows of a project, which are made from what runs in it: none if another
    /// one was started after the last that the caller has seen.
    pub fn add_workflows(
        &self,
        children: &[NewChild],
        (project, last): (&str, Option<TaskId>),
        now: Instant,
    ) -> Result<Option<Vec<Applied>>> {
        let (list, project) = (children.to_vec(), params![project]);
        let added = self.write_keyed(move |tx| {
            tx.query(sql::TURN, &[])?;
            if tx.value(sql::LAST_WORKFLOW, &project)? != last {
                return Ok(None);
            }
            add_all(tx, &list, now).map(Some)
        })?;
        added.map(|added| self.remembering(added)).transpose()
    }

    /// The answer to a repeated request has the lifecycles of its tasks, which may be older ones.
    fn remembering(&self, added: Vec<Applied>) -> Result<Vec<Applied>> {
        for applied in &added {
            self.definitions.remember(&applied.stored.lifecycle);
        }
        Ok(added)
    }

    /// The workflow that was started last in a project.
    pub fn last_workflow(&self, project: &str) -> Result<Option<TaskId>> {
        self.read(|tx| tx.value(sql::LAST_WORKFLOW, &params![project]))
    }

    /// Applies an event to each of several tasks in one transaction. Tasks that refuse it do not
    /// change. A notice about all of it is written with them.
    pub fn apply_each(
        &self,
        events: &[(TaskId, Event)],
        notice: Option<NewNotice>,
        now: Instant,
    ) -> Result<Vec<Result<Applied, Rejected>>> {
        let mut events = events.to_vec();
        // Every writer that locks several rows locks them in this order.
        events.sort_by_key(|(id, _)| *id);
        self.write(move |tx| {
            let mut answers = Vec::with_capacity(events.len());
            for (id, event) in &events {
                let old = tx.load_for_update(*id)?;
                answers.push(match apply_to(tx, old, event, None, now) {
                    Err(StoreError::Rejected(rejected)) => Err(rejected),
                    applied => Ok(applied?),
                });
            }
            notice.iter().try_for_each(|notice| write_notice(tx, notice, now))?;
            Ok(answers)
        })
    }

    /// Removes this child as a blocker: its siblings no longer wait for it. Returns how many
    /// waited.
    pub fn leave_out(&self, child: TaskId, now: Instant) -> Result<usize> {
        self.write(move |tx| {
            let parent = tx.load_for_update(child)?.task.parent;
            let mut freed = 0;
            for row in tx.query(sql::WAITING_FOR, &params![child])? {
                let waiting = tx.load_for_update(row.get(0)?)?;
                // A task outside this parent may wait for it, too, and nobody has decided about
                // that.
                if waiting.task.parent != parent {
                    continue;
                }
                tx.write(sql::NEED_INFORMS, &params![waiting.task.id, child])?;
                let left = Event::NeedsLeft(waiting.task.open_needs - 1);
                apply_to(tx, waiting, &left, None, now)?;
                freed += 1;
            }
            tx.notify();
            Ok(freed)
        })
    }

    /// Workflows of a project, or of all, without their bodies: those that have not ended, then
    /// the others, each the latest first.
    pub fn workflows(&self, project: Option<&str>, at_most: i64) -> Result<Vec<Stored>> {
        self.read(|tx| tx.readable_tasks(sql::WORKFLOWS, &params![project, at_most]))
    }

    pub fn count_children(&self, parent: TaskId) -> Result<ChildCounts> {
        let counts = self.row(sql::COUNT_CHILDREN, &params![parent], |row| {
            let (all, done, given_up) = (row.int(0)?, row.int(1)?, row.int(2)?);
            Ok::<_, DbError>(ChildCounts { all, done, given_up, cost_micros: row.int(3)? })
        })?;
        Ok(counts.unwrap_or_default())
    }

    /// What a task has used together with its children and theirs: its reviews, its subtasks, and
    /// the reviews of those.
    pub fn spent_with_children(&self, task: &Task) -> Result<Spent> {
        let below = self.row(sql::SPENT_BELOW, &params![task.id], |row| {
            let (runs, tokens, cost_micros) = (row.int(0)?, row.int(1)?, row.int(2)?);
            Ok::<_, DbError>(Spent { runs, tokens, cost_micros })
        })?;
        let (own, below) = (task.spent, below.unwrap_or_default());
        Ok(Spent {
            runs: own.runs.saturating_add(below.runs),
            tokens: own.tokens.saturating_add(below.tokens),
            cost_micros: own.cost_micros.saturating_add(below.cost_micros),
        })
    }

    /// The progress of those of the given tasks that have children. Reviews are not counted.
    pub fn progress(&self, of: &[TaskId]) -> Result<BTreeMap<TaskId, Progress>> {
        self.read(|tx| {
            let mut found: BTreeMap<TaskId, Progress> = BTreeMap::new();
            for range in ranges(of) {
                for (parent, kind, children) in tx.all(sql::PROGRESS, &range, |row| {
                    Ok::<_, DbError>((row.get(0)?, row.word(1)?, row.int(2)?))
                })? {
                    found.entry(parent).or_default().add(kind, children);
                }
            }
            found.retain(|parent, _| of.contains(parent));
            Ok(found)
        })
    }

    /// Tasks with children that have not ended, the latest first.
    pub fn open_parents(&self, at_most: i64) -> Result<Vec<TaskId>> {
        self.rows(sql::OPEN_PARENTS, &params![at_most], |row| row.get(0))
    }

    /// The children of a task in the order in which they were added, without their bodies. A
    /// damaged one is left out, so that it does not hide the others; `check` names it.
    pub fn children(&self, parent: TaskId) -> Result<Vec<Stored>> {
        self.read(|tx| tx.readable_tasks(sql::CHILDREN_OF, &params![parent]))
    }

    /// The same for decisions that need every child. A damaged one is an error that names it.
    pub fn all_children(&self, parent: TaskId) -> Result<Vec<Stored>> {
        self.read(|tx| {
            let rows = tx.query(sql::CHILDREN_OF, &params![parent])?;
            rows.iter().map(|row| tx.task(row)).collect()
        })
    }

    /// Waiting steps of any workflow, the latest first.
    pub fn waiting_steps(&self, at_most: i64) -> Result<Vec<Stored>> {
        self.read(|tx| tx.readable_tasks(sql::WAITING_STEPS, &params![at_most]))
    }

    /// The same for callers that look often: a child that has not changed since the last look is
    /// not read again.
    pub fn refresh_children(
        &self,
        parent: TaskId,
        known: &mut BTreeMap<TaskId, Stored>,
    ) -> Result<()> {
        let mark = |row: &Row| Ok::<_, DbError>((row.get(0)?, (row.int(1)?, row.int(2)?)));
        for (id, mark) in self.rows(sql::MARKS_OF_CHILDREN, &params![parent], mark)? {
            let old = known.get(&id).map(|child| (child.task.version, child.task.open_needs));
            if old != Some(mark) {
                known.extend(self.readable_task(id)?.map(|child| (id, child)));
            }
        }
        Ok(())
    }

    /// What each child of a task needs, among all tasks.
    pub fn needs_of_children(&self, parent: TaskId) -> Result<BTreeMap<TaskId, Vec<TaskId>>> {
        self.read(|tx| {
            let mut needs: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
            for row in tx.query(sql::NEEDS_OF_CHILDREN, &params![parent])? {
                needs.entry(row.get(0)?).or_default().push(row.get(1)?);
            }
            Ok(needs)
        })
    }
}

fn add_all(tx: &mut Tx<'_>, children: &[NewChild], now: Instant) -> Result<Vec<Applied>> {
    let mut added: Vec<Applied> = Vec::with_capacity(children.len());
    for child in children {
        let mut add = child.add.clone();
        if let Some(parent) = child.parent {
            let parent = &added[parent].stored.task;
            add.new.parent = Some(parent.id);
            add.new.batch = add.new.batch.or_else(|| parent.batch.clone());
        }
        if let (Some(name), Some(at_once)) = (&add.new.batch, child.own_batch)
            && replay(tx, add.key.as_ref())?.is_none()
        {
            add.new.batch = Some(add_batch(tx, name, at_once, now)?);
        }
        add.needs.extend(child.after.iter().map(|(at, edge)| (added[*at].stored.task.id, *edge)));
        added.push(add_in(tx, &add, now)?);
    }
    Ok(added)
}
