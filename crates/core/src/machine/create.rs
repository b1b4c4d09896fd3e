//! The birth of a task.

use serde_json::{Map, Value};

use super::apply::{may_give, patch, quiet, record, too_large, unmet};
use super::ask::role_of;
use super::effect::{DecisionChange, TaskUpdate};
use super::env::TaskEnv;
use super::event::Actor;
use super::plan::{entry_effects, open_decision, timers};
use super::reject::{FieldError, RejectReason, Rejected};
use super::task::{CounterValue, Spent, Task};
use crate::ids::TaskId;
use crate::lifecycle::{Lifecycle, StateId};
use crate::limits;
use crate::time::Instant;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewTask {
    pub title: String,
    pub body: String,
    pub project: String,
    pub batch: Option<String>,
    pub tags: Vec<String>,
    pub priority: i32,
    pub parent: Option<TaskId>,
    pub fields: Map<String, Value>,
    /// Tasks that must be done first and are not.
    pub open_needs: i64,
    pub not_before: Option<Instant>,
}

/// Where a task of another store was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportedState {
    pub state: StateId,
    /// Where `[prior]` leads, for a state that remembers.
    pub prior: Option<StateId>,
}

/// A task in the initial state of its lifecycle.
pub fn create(
    lifecycle: &Lifecycle,
    new: &NewTask,
    actor: &Actor,
    id: TaskId,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    born(lifecycle, new, None, actor, id, now)
}

/// A task that comes from another store, in the state that it had there.
pub fn import(
    lifecycle: &Lifecycle,
    new: &NewTask,
    arrival: ImportedState,
    actor: &Actor,
    id: TaskId,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    let state = lifecycle.state(arrival.state);
    if state.remembers != arrival.prior.is_some() {
        let message = if state.remembers {
            format!("a task in {} must say where it came from", state.name)
        } else {
            format!("a task in {} does not go back to where it came from", state.name)
        };
        return Err(Rejected::one(RejectReason::Invalid, "prior", message));
    }
    born(lifecycle, new, Some(arrival), actor, id, now)
}

fn born(
    lifecycle: &Lifecycle,
    new: &NewTask,
    arrival: Option<ImportedState>,
    actor: &Actor,
    id: TaskId,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    let state = arrival.map_or(lifecycle.initial, |arrival| arrival.state);
    // What another store has kept was given there by those who may.
    let system = Actor::system();
    let (trigger, giver) = if arrival.is_some() { ("import", &system) } else { ("create", actor) };
    let mut task = Task {
        id,
        title: new.title.trim().to_owned(),
        body: new.body.clone(),
        project: new.project.clone(),
        batch: new.batch.clone(),
        tags: new.tags.clone(),
        priority: new.priority,
        parent: new.parent,
        state,
        prior: arrival.and_then(|arrival| arrival.prior),
        version: 1,
        entered: 1,
        fields: Map::new(),
        counters: vec![CounterValue::default(); lifecycle.counters.len()],
        open_needs: new.open_needs.max(0),
        not_before: new.not_before.filter(|at| *at > now),
        lease: None,
        epoch: 0,
        spent: Spent::default(),
        created_at: now,
        updated_at: now,
        entered_at: now,
        progress_at: now,
    };
    role_of(lifecycle, actor)?;
    let mut errors = wrong_text(new);
    errors.extend(patch(lifecycle, &mut task.fields, &new.fields, |name| {
        may_give(lifecycle, name, giver)
    }));
    errors.extend(too_large(&task.fields));
    errors.extend(unmet(&lifecycle.state(state).requires, &TaskEnv { task: &task, context: None }));
    if !errors.is_empty() {
        return Err(Rejected { why: RejectReason::Invalid, errors, allowed: Vec::new() });
    }
    let timers = timers(lifecycle, &task, now);
    let record = record(lifecycle, None, &task, trigger, actor);
    let state = lifecycle.state(state);
    // What has ended elsewhere is not told again.
    let effects = if state.terminal { Vec::new() } else { entry_effects(lifecycle, &task, now) };
    let opens = open_decision(lifecycle, &task);
    Ok(TaskUpdate {
        record: Some(record),
        effects,
        timers: (!timers.is_empty()).then_some(timers),
        decision: DecisionChange { settles: false, opens },
        ..quiet(task)
    })
}

/// Text that people read on one line must be one line, and everything has its size.
fn wrong_text(new: &NewTask) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut wrong = |field: &str, message: String| {
        errors.push(FieldError { field: field.to_owned(), message });
    };
    if new.title.trim().is_empty() {
        wrong("title", "a task needs a title".to_owned());
    }
    if new.title.len() > limits::TITLE_BYTES {
        wrong(
            "title",
            format!("is longer than {} bytes; put the rest into the body", limits::TITLE_BYTES),
        );
    }
    if new.title.chars().any(char::is_control) {
        wrong(
            "title",
            "has control characters (a line break, perhaps); keep it to one line".to_owned(),
        );
    }
    if new.body.len() > limits::BODY_BYTES {
        wrong(
            "body",
            format!(
                "is larger than {} KiB; put it into a file and name that",
                limits::BODY_BYTES / 1024
            ),
        );
    }
    if new.body.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
        wrong(
            "body",
            "has control characters other than line breaks and tabs; remove them".to_owned(),
        );
    }
    if new.tags.len() > limits::TAGS {
        wrong("tags", format!("are more than {}", limits::TAGS));
    }
    let odd = |text: &String| {
        text.is_empty()
            || text.len() > limits::NAME_BYTES
            || text.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    if let Some(tag) = new.tags.iter().find(|tag| odd(tag)) {
        wrong(
            "tags",
            format!(
                "`{}` is not a tag: one word of at most {} bytes",
                tag.escape_debug().take(64).collect::<String>(),
                limits::NAME_BYTES
            ),
        );
    }
    let places = [("project", Some(&new.project)), ("batch", new.batch.as_ref())];
    for (field, name) in places {
        if name.is_some_and(|name| {
            name.len() > limits::NAME_BYTES || name.chars().any(char::is_control)
        }) {
            wrong(field, format!("is a name of at most {} bytes", limits::NAME_BYTES));
        }
    }
    if new.priority.unsigned_abs() > limits::PRIORITY.unsigned_abs() {
        wrong("priority", format!("goes from -{0} to {0}", limits::PRIORITY));
    }
    errors
}
