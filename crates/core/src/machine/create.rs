//! Creates a task.

use super::apply::{may_give, patch, quiet, too_large, unmet};
use super::ask::role_of;
use super::effect::{DecisionChange, Record, TaskUpdate};
use super::entry::{entry_effects, open_decision, timers};
use super::env::{Moment, TaskEnv};
use super::event::Actor;
use super::fold;
use super::reject::{FieldError, RejectReason, Rejected};
use super::task::{CounterValue, Spent, Task};
use crate::ids::TaskId;
use crate::lifecycle::contract::Note;
use crate::lifecycle::expr::Fields;
use crate::lifecycle::{Lifecycle, StateId};
use crate::limits;
use crate::text::{has_control_characters, tag_problem};
use crate::time::{Instant, Span};

/// A request for a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewTask {
    pub title: String,
    pub body: String,
    pub project: String,
    pub batch: Option<String>,
    pub tags: Vec<String>,
    pub priority: i32,
    pub parent: Option<TaskId>,
    pub fields: Fields,
    /// Tasks that must be done first and are not.
    pub open_needs: i64,
    pub not_before: Option<Instant>,
}

/// The state of a task in the store that it comes from.
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
    new_task(lifecycle, new, None, actor, id, now)
}

/// A task from another store, in the state that it had there.
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
            format!("a task in {} must name its earlier state", state.name)
        } else {
            format!("a task in {} has no earlier state to name", state.name)
        };
        return Err(Rejected::one(RejectReason::Invalid, "prior", message));
    }
    new_task(lifecycle, new, Some(arrival), actor, id, now)
}

fn new_task(
    lifecycle: &Lifecycle,
    new: &NewTask,
    arrival: Option<ImportedState>,
    actor: &Actor,
    id: TaskId,
    now: Instant,
) -> Result<TaskUpdate, Rejected> {
    let state = arrival.map_or(lifecycle.initial, |arrival| arrival.state);
    // The fields were given in the other store, by roles that could give them.
    let system = Actor::system();
    let (trigger, giver) =
        if arrival.is_some() { (Note::Import, &system) } else { (Note::Create, actor) };
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
        fields: Fields::new(),
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
        uncounted: Span(0),
    };
    role_of(lifecycle, actor)?;
    let mut errors = wrong_text(new);
    errors.extend(patch(lifecycle, &mut task.fields, &new.fields, |name| {
        may_give(lifecycle, name, giver)
    }));
    errors.extend(too_large(&task.fields));
    errors.extend(unmet(&lifecycle.state(state).requires, &TaskEnv { task: &task, context: None }));
    if !errors.is_empty() {
        return Err(Rejected::invalid(errors));
    }
    let at = Moment { lifecycle, task: &task, now };
    let timers = timers(at);
    let record = Record {
        from: None,
        to: at.state().name.clone(),
        trigger: trigger.as_str().to_owned(),
        actor: actor.clone(),
        fields: fold::changes(lifecycle, None, &task),
    };
    // A task that has already ended starts no effects.
    let effects = if at.state().terminal { Vec::new() } else { entry_effects(at) };
    let opens = open_decision(lifecycle, &task);
    Ok(TaskUpdate {
        record: Some(record),
        effects,
        timers: (!timers.is_empty()).then_some(timers),
        decision: DecisionChange { settles: false, opens },
        ..quiet(task)
    })
}

/// Text that is shown on one line must be one line, and every text has a limit.
fn wrong_text(new: &NewTask) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |field: &str, is_wrong: bool, message: String| {
        errors.extend(is_wrong.then(|| FieldError::new(field, message)));
    };
    let (title, body, bytes) = (&new.title, &new.body, limits::NAME_BYTES);
    refuse("title", title.trim().is_empty(), "a task needs a title".to_owned());
    let message =
        format!("is longer than {} bytes; put the rest into the body", limits::TITLE_BYTES);
    refuse("title", title.len() > limits::TITLE_BYTES, message);
    let message = "has control characters (a line break, perhaps); keep it to one line";
    refuse("title", title.chars().any(char::is_control), message.to_owned());
    let kib = limits::BODY_BYTES / 1024;
    let message = format!("is larger than {kib} KiB; put it into a file and name that");
    refuse("body", body.len() > limits::BODY_BYTES, message);
    let message = "has control characters other than line breaks and tabs; remove them";
    refuse("body", has_control_characters(body), message.to_owned());
    refuse("tags", new.tags.len() > limits::TAGS, format!("are more than {}", limits::TAGS));
    let odd = new.tags.iter().find_map(|tag| tag_problem(tag));
    refuse("tags", odd.is_some(), odd.unwrap_or_default());
    for (field, name) in [("project", Some(&new.project)), ("batch", new.batch.as_ref())] {
        let is_odd = |name: &String| name.len() > bytes || name.chars().any(char::is_control);
        refuse(field, name.is_some_and(is_odd), format!("is a name of at most {bytes} bytes"));
    }
    let most = limits::PRIORITY;
    let is_beyond = new.priority.unsigned_abs() > most.unsigned_abs();
    refuse("priority", is_beyond, format!("goes from -{most} to {most}"));
    errors
}
