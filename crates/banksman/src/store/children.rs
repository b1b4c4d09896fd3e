//! Child tasks: added, counted and changed together in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::machine::{Event, Rejected};
use banksman_core::time::Instant;

use super::apply::{Add, Applied, Edge, add_in, apply_to, load_for_update};
use super::conn::{Conn, Row};
use super::definitions::Definitions;
use super::notices::{NewNotice, write_notice};
use super::query::Progress;
use super::row::{Stored, is_damage, lifecycle_version, stored};
use super::{Store, StoreError, sql};

/// One of several tasks that are added together. It names tasks before it by their index in the
/// list.
#[derive(Debug, Clone)]
pub struct NewChild {
    pub add: Add,
    pub parent: Option<usize>,
    pub after: Vec<(usize, Edge)>,
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
    #[must_use]
    pub fn open(&self) -> i64 {
        self.all - self.done - self.given_up
    }
}

impl Store {
    /// Adds all of them or none. With a key on each, a repeated call returns the same tasks.
    pub fn add_children(
        &self,
        children: &[NewChild],
        now: Instant,
    ) -> Result<Vec<Applied>, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        let list = children.to_vec();
        let added = self.write(move |conn| add_all(conn, &definitions, &list, now))?;
        for applied in &added {
            self.definitions.remember(&applied.stored.lifecycle);
        }
        Ok(added)
    }

    /// Applies an event to each of several tasks in one transaction. Tasks that refuse it do not
    /// change. A notice about all of it is written with them.
    pub fn apply_each(
        &self,
        events: &[(TaskId, Event)],
        notice: Option<NewNotice>,
        now: Instant,
    ) -> Result<Vec<Result<Applied, Rejected>>, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        let mut events = events.to_vec();
        // Every writer that locks several rows locks them in this order.
        events.sort_by_key(|(id, _)| *id);
        self.write(move |conn| {
            let mut answers = Vec::with_capacity(events.len());
            for (id, event) in &events {
                let old = load_for_update(conn, &definitions, *id)?;
                answers.push(match apply_to(conn, &definitions, old, event, None, now) {
                    Ok(applied) => Ok(applied),
                    Err(StoreError::Rejected(rejected)) => Err(rejected),
                    Err(error) => return Err(error),
                });
            }
            if let Some(notice) = &notice {
                write_notice(conn, notice, now)?;
            }
            Ok(answers)
        })
    }

    /// Removes this child as a blocker: its siblings no longer wait for it. Returns how many
    /// waited.
    pub fn leave_out(&self, child: TaskId, now: Instant) -> Result<usize, StoreError> {
        let definitions = Arc::clone(&self.definitions);
        self.write(move |conn| {
            let parent = load_for_update(conn, &definitions, child)?.task.parent;
            let mut freed = 0;
            for row in conn.query(sql::WAITING_FOR, &[child.0.into()])? {
                let waiting = load_for_update(conn, &definitions, TaskId(row.int(0)?))?;
                // A task outside this parent may wait for it, too, and nobody has decided about
                // that.
                if waiting.task.parent != parent {
                    continue;
                }
                conn.write(sql::NEED_INFORMS, &[waiting.task.id.0.into(), child.0.into()])?;
                let left = Event::NeedsLeft(waiting.task.open_needs - 1);
                apply_to(conn, &definitions, waiting, &left, None, now)?;
                freed += 1;
            }
            conn.notify();
            Ok(freed)
        })
    }

    /// Tasks with children, the latest first.
    pub fn parents(&self, at_most: i64) -> Result<Vec<TaskId>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::PARENTS, &[at_most.into()])?;
            rows.iter().map(|row| Ok(TaskId(row.int(0)?))).collect()
        })
    }

    pub fn count_children(&self, parent: TaskId) -> Result<ChildCounts, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::COUNT_CHILDREN, &[parent.0.into()])?;
            let Some(row) = rows.first() else { return Ok(ChildCounts::default()) };
            let (all, done) = (row.int(0)?, row.int(1)?);
            Ok(ChildCounts { all, done, given_up: row.int(2)?, cost_micros: row.int(3)? })
        })
    }

    /// The progress of those of the given tasks that have children. Reviews are not counted.
    pub fn progress(&self, of: &[TaskId]) -> Result<BTreeMap<TaskId, Progress>, StoreError> {
        let ids = || of.iter().map(|id| id.0);
        let (Some(least), Some(most)) = (ids().min(), ids().max()) else {
            return Ok(BTreeMap::new());
        };
        // A sparse range could cover the children of any number of other tasks.
        let close = usize::try_from(most - least).is_ok_and(|span| span <= of.len() * 4);
        let ranges: Vec<(i64, i64)> =
            if close { vec![(least, most)] } else { ids().map(|id| (id, id)).collect() };
        self.read(|conn| {
            let mut found: BTreeMap<TaskId, Progress> = BTreeMap::new();
            for (first, last) in &ranges {
                for row in conn.query(sql::PROGRESS, &[(*first).into(), (*last).into()])? {
                    let (parent, kind) = (TaskId(row.int(0)?), row.text(1)?);
                    let unknown = || StoreError::Corrupt {
                        task: parent,
                        what: format!("a part of the kind `{kind}`"),
                    };
                    let kind = StateKind::ALL.into_iter().find(|known| known.as_str() == kind);
                    let kind = kind.ok_or_else(unknown)?;
                    found.entry(parent).or_default().add(kind, row.int(2)?);
                }
            }
            found.retain(|parent, _| of.contains(parent));
            Ok(found)
        })
    }

    /// Tasks with children that have not ended, the latest first.
    pub fn open_parents(&self, at_most: i64) -> Result<Vec<TaskId>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::OPEN_PARENTS, &[at_most.into()])?;
            rows.iter().map(|row| Ok(TaskId(row.int(0)?))).collect()
        })
    }

    /// The children of a task in the order in which they were added, without their bodies. A damaged
    /// one is left out, so that it does not hide the others; `check` names it.
    pub fn children(&self, parent: TaskId) -> Result<Vec<Stored>, StoreError> {
        self.children_by(sql::PARTS, parent.0, is_damage)
    }

    /// The same for decisions that need every child. A damaged one is an error that names it.
    pub fn all_children(&self, parent: TaskId) -> Result<Vec<Stored>, StoreError> {
        self.children_by(sql::PARTS, parent.0, |_| false)
    }

    /// Waiting children of any task.
    pub fn waiting_children(&self, at_most: i64) -> Result<Vec<Stored>, StoreError> {
        self.children_by(sql::WAITING_CHILDREN, at_most, is_damage)
    }

    fn children_by(
        &self,
        statement: &'static str,
        parameter: i64,
        is_left_out: fn(&StoreError) -> bool,
    ) -> Result<Vec<Stored>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(statement, &[parameter.into()])?;
            let children = rows.iter().map(|row| read(conn, &self.definitions, row));
            children.filter(|child| !child.as_ref().is_err_and(is_left_out)).collect()
        })
    }

    /// The same for callers that look often: a child that has not changed since the last look is
    /// not read again.
    pub fn refresh_children(
        &self,
        parent: TaskId,
        known: &mut BTreeMap<TaskId, Stored>,
    ) -> Result<(), StoreError> {
        let marks = self.read(|conn| {
            let rows = conn.query(sql::MARKS_OF_CHILDREN, &[parent.0.into()])?;
            let mark = |row: &Row| Ok((TaskId(row.int(0)?), (row.int(1)?, row.int(2)?)));
            rows.iter().map(mark).collect::<Result<Vec<_>, StoreError>>()
        })?;
        for (id, mark) in marks {
            let old = known.get(&id).map(|child| (child.task.version, child.task.open_needs));
            if old != Some(mark) {
                known.insert(id, self.task(id)?);
            }
        }
        Ok(())
    }

    /// What each child of a task needs, among all tasks.
    pub fn needs_of_children(
        &self,
        parent: TaskId,
    ) -> Result<BTreeMap<TaskId, Vec<TaskId>>, StoreError> {
        self.read(|conn| {
            let mut needs: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
            for row in conn.query(sql::NEEDS_OF_CHILDREN, &[parent.0.into()])? {
                needs.entry(TaskId(row.int(0)?)).or_default().push(TaskId(row.int(1)?));
            }
            Ok(needs)
        })
    }
}

fn read(conn: &mut dyn Conn, definitions: &Definitions, row: &Row) -> Result<Stored, StoreError> {
    let lifecycle = definitions.get(conn, lifecycle_version(row)?)?;
    stored(row, lifecycle)
}

fn add_all(
    conn: &mut dyn Conn,
    definitions: &Definitions,
    children: &[NewChild],
    now: Instant,
) -> Result<Vec<Applied>, StoreError> {
    let mut added: Vec<Applied> = Vec::with_capacity(children.len());
    for child in children {
        let mut add = child.add.clone();
        if let Some(parent) = child.parent {
            add.new.parent = Some(added[parent].stored.task.id);
        }
        add.needs.extend(child.after.iter().map(|(at, edge)| (added[*at].stored.task.id, *edge)));
        added.push(add_in(conn, definitions, &add, now)?);
    }
    Ok(added)
}
