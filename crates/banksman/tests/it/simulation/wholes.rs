//! What is always true of a task whose plan was split, and of the parts that came of it.

use std::collections::BTreeSet;

use banksman::store::Stored;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Kind;
use serde_json::Value;

use super::life::Life;

fn kind(stored: &Stored) -> Kind {
    stored.lifecycle.state(stored.task.state).kind
}

fn is_over(part: &Stored) -> bool {
    matches!(kind(part), Kind::Done | Kind::Failed | Kind::Cancelled)
}

fn is_given_up(part: &Stored) -> bool {
    matches!(kind(part), Kind::Failed | Kind::Cancelled)
}

fn is_left_out(whole: &Stored, part: &Stored) -> bool {
    let id = Value::from(part.task.id.to_string());
    let all = whole.task.fields.get("left_out").and_then(Value::as_array);
    all.is_some_and(|all| all.contains(&id))
}

fn name(part: &Stored) -> Option<(TaskId, i64, &str)> {
    let version = part.task.fields.get("plan_version").and_then(Value::as_i64)?;
    Some((part.task.parent?, version, part.text("subtask")?))
}

/// The parts of the plan that the task has now.
fn parts<'t>(whole: &Stored, tasks: &'t [Stored]) -> Vec<&'t Stored> {
    let version = whole.task.fields.get("plan_version").and_then(Value::as_i64);
    let is_part = |part: &&Stored| {
        name(part).is_some_and(|(of, at, _)| of == whole.task.id && Some(at) == version)
    };
    tasks.iter().filter(is_part).collect()
}

impl Life {
    /// Each part is there once, and nothing that its parts do is done by the whole.
    pub(super) fn wholes(&self, tasks: &[Stored], found: &mut Vec<String>) {
        let mut names = BTreeSet::new();
        for part in tasks {
            let Some(named) = name(part) else { continue };
            self.ground.borrow_mut().seen.insert("a plan in parts");
            if is_given_up(part) {
                self.ground.borrow_mut().seen.insert("a part that was given up");
            }
            if !names.insert(named) {
                found.push(format!("{named:?} is there twice"));
            }
        }
        for whole in tasks.iter().filter(|whole| whole.flag("split")) {
            if whole.flag("parts_asked") {
                self.ground.borrow_mut().seen.insert("a person who is asked about parts");
            }
            let entered = Value::from(whole.task.entered);
            let sits = |seat: &&Stored| {
                seat.task.parent == Some(whole.task.id)
                    && seat.task.fields.get("asked_at") == Some(&entered)
            };
            if let Some(seat) =
                tasks.iter().find(sits).filter(|_| !whole.task.is_active(&whole.lifecycle))
            {
                found.push(format!(
                    "{} sits on a panel that its parts have in its place",
                    seat.task.id
                ));
            }
            let parts = parts(whole, tasks);
            if kind(whole) != Kind::Done {
                continue;
            }
            self.ground.borrow_mut().seen.insert("a whole whose parts are done");
            let open = parts.iter().filter(|part| kind(part) != Kind::Done);
            for part in open.filter(|part| !is_left_out(whole, part)) {
                found.push(format!("{} is done, and {} is not", whole.task.id, part.task.id));
            }
        }
    }

    /// A whole that rests waits for a part that can still move, or a person is asked; and what has ended has no open part.
    pub(super) fn wholes_at_rest(&self, found: &mut Vec<String>) {
        let tasks = self.ledger.store.tasks_from(TaskId(0)).expect("the tasks are read");
        let tasks: Vec<Stored> = tasks.into_iter().map(|(stored, _)| stored).collect();
        for whole in tasks.iter().filter(|whole| whole.flag("split")) {
            let (id, state) = (whole.task.id, &whole.lifecycle.state(whole.task.state).name);
            let parts = parts(whole, &tasks);
            let is_open = parts.iter().any(|part| !is_over(part));
            let is_asked_about =
                parts.iter().any(|part| is_given_up(part) && !is_left_out(whole, part));
            match kind(whole) {
                Kind::Working | Kind::Reviewing if parts.is_empty() => {
                    found.push(format!("{id} is {state}, and its parts were never made"));
                }
                Kind::Working | Kind::Reviewing if is_asked_about => {
                    found.push(format!("{id} is {state}, and nobody is asked about its parts"));
                }
                Kind::Working | Kind::Reviewing if !is_open => {
                    found.push(format!("{id} is {state}, and all of its parts are over"));
                }
                Kind::Done | Kind::Failed | Kind::Cancelled if is_open => {
                    found.push(format!("{id} is {state}, and its parts go on"));
                }
                Kind::Queued
                | Kind::Working
                | Kind::Reviewing
                | Kind::Waiting
                | Kind::Blocked
                | Kind::Parked
                | Kind::Done
                | Kind::Failed
                | Kind::Cancelled => {}
            }
        }
    }
}
