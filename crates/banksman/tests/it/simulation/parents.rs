//! What is always true of a task whose plan was split, and of its subtasks.

use std::collections::BTreeSet;

use banksman::store::Stored;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::Field;
use serde_json::Value;

use super::life::Life;

fn kind(stored: &Stored) -> StateKind {
    stored.lifecycle.state(stored.task.state).kind
}

fn is_over(child: &Stored) -> bool {
    matches!(kind(child), StateKind::Done | StateKind::Failed | StateKind::Cancelled)
}

fn is_given_up(child: &Stored) -> bool {
    matches!(kind(child), StateKind::Failed | StateKind::Cancelled)
}

fn is_left_out(parent: &Stored, child: &Stored) -> bool {
    let id = Value::from(child.task.id.to_string());
    let all = parent.task.fields.get("left_out").and_then(Value::as_array);
    all.is_some_and(|all| all.contains(&id))
}

fn name(child: &Stored) -> Option<(TaskId, i64, &str)> {
    let version = child.task.fields.get("plan_version").and_then(Value::as_i64)?;
    Some((child.task.parent?, version, child.text(Field::Subtask)?))
}

/// The subtasks of the task's present plan.
fn children<'t>(parent: &Stored, tasks: &'t [Stored]) -> Vec<&'t Stored> {
    let version = parent.task.fields.get("plan_version").and_then(Value::as_i64);
    let is_subtask = |child: &&Stored| {
        name(child).is_some_and(|(of, at, _)| of == parent.task.id && Some(at) == version)
    };
    tasks.iter().filter(is_subtask).collect()
}

impl Life {
    /// Each subtask is there once, and the parent does nothing that its subtasks do.
    pub(super) fn parents(&self, tasks: &[Stored], found: &mut Vec<String>) {
        let mut names = BTreeSet::new();
        for child in tasks {
            let Some(named) = name(child) else { continue };
            self.ground.borrow_mut().seen.insert("a plan with subtasks");
            if is_given_up(child) {
                self.ground.borrow_mut().seen.insert("a subtask that was given up");
            }
            if !names.insert(named) {
                found.push(format!("{named:?} is there twice"));
            }
        }
        for parent in tasks.iter().filter(|parent| parent.flag(Field::Split)) {
            if parent.flag(Field::ChildrenAsked) {
                self.ground.borrow_mut().seen.insert("a person who is asked about subtasks");
            }
            let entered = Value::from(parent.task.entered);
            let is_review = |review: &&Stored| {
                review.task.parent == Some(parent.task.id)
                    && review.task.fields.get("asked_at") == Some(&entered)
            };
            if let Some(review) =
                tasks.iter().find(is_review).filter(|_| !parent.task.is_active(&parent.lifecycle))
            {
                found.push(format!(
                    "{} is a review of a panel that the subtasks have instead",
                    review.task.id
                ));
            }
            let children = children(parent, tasks);
            if kind(parent) != StateKind::Done {
                continue;
            }
            self.ground.borrow_mut().seen.insert("a parent whose subtasks are done");
            let open = children.iter().filter(|child| kind(child) != StateKind::Done);
            for child in open.filter(|child| !is_left_out(parent, child)) {
                found.push(format!("{} is done, and {} is not", parent.task.id, child.task.id));
            }
        }
    }

    /// A parent at rest waits for a subtask that can still move, or a person is asked; and an ended
    /// parent has no open subtask.
    pub(super) fn parents_at_rest(&self, found: &mut Vec<String>) {
        let tasks = self.ledger.store.tasks_from(TaskId(0)).expect("the tasks are read");
        let tasks: Vec<Stored> = tasks.into_iter().map(|(stored, _)| stored).collect();
        for parent in tasks.iter().filter(|parent| parent.flag(Field::Split)) {
            let (id, state) = (parent.task.id, &parent.lifecycle.state(parent.task.state).name);
            let children = children(parent, &tasks);
            let is_open = children.iter().any(|child| !is_over(child));
            let is_asked_about =
                children.iter().any(|child| is_given_up(child) && !is_left_out(parent, child));
            match kind(parent) {
                StateKind::Working | StateKind::Reviewing if children.is_empty() => {
                    found.push(format!("{id} is {state}, and its subtasks were never created"));
                }
                StateKind::Working | StateKind::Reviewing if is_asked_about => {
                    found.push(format!("{id} is {state}, and nobody is asked about its subtasks"));
                }
                StateKind::Working | StateKind::Reviewing if !is_open => {
                    found.push(format!("{id} is {state}, and all of its subtasks are over"));
                }
                StateKind::Done | StateKind::Failed | StateKind::Cancelled if is_open => {
                    found.push(format!("{id} is {state}, and its subtasks continue"));
                }
                StateKind::Queued
                | StateKind::Working
                | StateKind::Reviewing
                | StateKind::Waiting
                | StateKind::Blocked
                | StateKind::Parked
                | StateKind::Done
                | StateKind::Failed
                | StateKind::Cancelled => {}
            }
        }
    }
}
