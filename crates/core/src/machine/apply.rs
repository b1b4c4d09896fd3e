//! Applies one transition: checks its guards and requirements, and computes the new task.

use super::allowed::asks_who;
use super::effect::{Artifact, DecisionChange, Effect, Ending, Record, TaskUpdate};
use super::entry::{asks_people, effects_in_place, entry_effects, open_decision, plan_timers};
use super::env::{Moment, TaskEnv, TransitionContext};
use super::event::Actor;
use super::fact::{forget_overridden, in_contract, sets};
use super::fold;
use super::reject::FieldError;
use super::task::{CounterValue, Task};
use crate::lifecycle::contract::Field;
use crate::lifecycle::expr::{Fields, Value};
use crate::lifecycle::problem::suggestion;
use crate::lifecycle::{
    Activity, CounterId, CounterOverflow, FieldUpdates, Lifecycle, Outcome, Requirement, RoleId,
    State, StateId, StateKind, Transition, TransitionTarget,
};
use crate::limits;
use crate::time::{Instant, Span};

/// What causes a transition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cause<'a> {
    pub(super) context: TransitionContext<'a>,
    pub(super) fields: &'a Fields,
    /// Whether the run with the lease has ended by itself.
    pub(super) run_ended: bool,
    /// No other run may start before this time.
    pub(super) again_at: Option<Instant>,
}

impl<'a> Cause<'a> {
    /// A transition that is not caused by an outcome.
    pub(super) fn by(actor: &'a Actor, fields: &'a Fields, now: Instant) -> Self {
        let context = TransitionContext { actor, now, outcome: None };
        Self { context, fields, run_ended: false, again_at: None }
    }
}

/// Applies a transition, or returns every reason against it. `at.task` is the task before the move,
/// with the changes that the event itself makes.
pub(super) fn apply_transition(
    at: Moment<'_>,
    row: &Transition,
    cause: &Cause<'_>,
) -> Result<TaskUpdate, Vec<FieldError>> {
    let Moment { lifecycle, task: old, .. } = at;
    let mut task = old.clone();
    let own = |name: &str| sets(&row.changes, name);
    let is_given = |name: &str| may_give(lifecycle, name, cause.context.actor);
    // A value that the transition replaces needs no permission, and neither guards nor expressions
    // see it.
    let given = cause.fields.clone().into_iter();
    let (replaced, given): (Fields, Fields) =
        given.partition(|(name, _)| own(name) && !is_given(name));
    let mut errors = patch(lifecycle, &mut task.fields, &given, is_given);
    errors.extend(failed_guards(row, old, &task, cause.context));
    let diverted = count(lifecycle, &mut task, &row.changes, &mut errors);
    let unknown = update_fields(lifecycle, &mut task, &row.changes, cause);
    let forged = unknown.into_iter().filter(|name| replaced.contains_key(*name));
    errors.extend(forged.map(|name| FieldError::new(name, writers(lifecycle, name))));
    if let Some(counter) = diverted {
        update_fields(lifecycle, &mut task, &lifecycle.counter(counter).changes, cause);
    }
    let is_system = cause.context.actor.is_system();
    let is_found = |name: &str| own(name) || is_system && cause.fields.contains_key(name);
    forget_overridden(&mut task, lifecycle, is_found);
    let then = diverted.and_then(|counter| lifecycle.counter(counter).then);
    let Some(to) = then.or_else(|| resolve(row.to, old)) else {
        errors.push(FieldError::new("to", "there is no earlier state to go back to"));
        return Err(errors);
    };
    errors.extend(unmet(&lifecycle.state(to).requires, &TaskEnv { task: &task, context: None }));
    // Only a caller that gives fields is told that they are too large. What the lifecycle sets is
    // limited by itself, and a timeout that was refused for its size would strand the task.
    if !cause.fields.is_empty() {
        errors.extend(too_large(&task.fields));
    }
    if !errors.is_empty() {
        errors.dedup();
        return Err(errors);
    }
    let keeps = &row.changes.keeps;
    let artifacts = keeps.iter().filter_map(|name| kept(name, &task.fields)).collect();
    let step = enter(at, task, to, cause);
    let record = at.record(&step.task, &row.trigger, cause.context.actor);
    Ok(TaskUpdate { record: Some(record), artifacts, ..step })
}

/// The guards that do not hold. A guard about the actor reads the task before the move, so that an
/// actor cannot make itself an assignee, or a stranger, with a field that it gives.
fn failed_guards(
    row: &Transition,
    old: &Task,
    new: &Task,
    context: TransitionContext<'_>,
) -> Vec<FieldError> {
    let before = TaskEnv { task: old, context: Some(context) };
    let after = TaskEnv { task: new, context: Some(context) };
    let seen = |guard: &Requirement| if asks_who(guard) { &before } else { &after };
    row.guards.iter().filter(|guard| !guard.that.holds(seen(guard))).map(error_of).collect()
}

fn error_of(requirement: &Requirement) -> FieldError {
    FieldError { field: requirement.field.clone(), message: requirement.message.clone() }
}

fn kept(name: &str, fields: &Fields) -> Option<Artifact> {
    fields.get(name).map(|value| Artifact { name: name.to_owned(), value: value.clone() })
}

impl Moment<'_> {
    /// The record of a computed update.
    pub(super) fn record(self, new: &Task, trigger: &str, actor: &Actor) -> Record {
        Record {
            from: Some(self.state().name.clone()),
            to: self.lifecycle.state(new.state).name.clone(),
            trigger: trigger.to_owned(),
            actor: actor.clone(),
            fields: fold::changes(self.lifecycle, Some(self.task), new),
        }
    }
}

/// An update without a record, which changes only what the task already shows.
pub(super) fn quiet(task: Task) -> TaskUpdate {
    TaskUpdate {
        task,
        record: None,
        effects: Vec::new(),
        timers: None,
        decision: DecisionChange::default(),
        artifacts: Vec::new(),
        ended_run: None,
        ending: None,
    }
}

/// Sets the fields that an event gives, and checks each against its type.
pub(super) fn patch(
    lifecycle: &Lifecycle,
    fields: &mut Fields,
    given: &Fields,
    may_give: impl Fn(&str) -> bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, value) in given {
        let checked = match lifecycle.fields.get(name) {
            Some(_) if !may_give(name) => Err(writers(lifecycle, name)),
            Some(kind) if depth(value, 0) <= limits::FIELD_DEPTH => kind.accepts(value),
            Some(_) => Err(format!("is nested deeper than {} levels", limits::FIELD_DEPTH)),
            None => {
                let hint = suggestion(name, lifecycle.fields.keys().map(String::as_str));
                Err(format!("the lifecycle {} has no such field; {hint}", lifecycle.id))
            }
        };
        match checked {
            Err(message) => errors.push(FieldError::new(name, message)),
            Ok(()) => put(fields, name, value),
        }
    }
    errors
}

/// Sets a field; null removes it.
pub(super) fn put(fields: &mut Fields, name: &str, value: &Value) {
    if value.is_null() {
        fields.remove(name);
    } else {
        fields.insert(name.to_owned(), value.clone());
    }
}

/// Which roles may set a field.
fn writers(lifecycle: &Lifecycle, field: &str) -> String {
    let known = in_contract(lifecycle, field);
    if known.is_some_and(Field::is_record) {
        return "is a record that the system keeps; nobody sets it".to_owned();
    }
    if known.is_some_and(Field::is_fact) {
        return "is a fact: the system writes it from evidence, and a person overrides it with a \
                reason"
            .to_owned();
    }
    let roles = lifecycle.fields.get(field).map_or(&[][..], |field| field.by.roles());
    let others = roles.iter().filter(|role| **role != RoleId::SYSTEM);
    let names = others.chain([&RoleId::SYSTEM]).map(|role| lifecycle.role_name(*role));
    format!("may be set only by {}", names.collect::<Vec<_>>().join(", "))
}

pub(super) fn may_give(lifecycle: &Lifecycle, field: &str, giver: &Actor) -> bool {
    let declared = lifecycle.fields.get(field);
    let given = lifecycle.find_role(&giver.role).zip(declared);
    given.is_some_and(|(role, declared)| {
        let known = in_contract(lifecycle, field);
        declared.may_be_given_by(role) && known.is_none_or(|known| known.is_for(role))
    })
}

fn depth(value: &Value, reached: usize) -> usize {
    if reached > limits::FIELD_DEPTH {
        return reached;
    }
    let below = |item: &Value| depth(item, reached + 1);
    let deepest = match value {
        Value::Array(items) => items.iter().map(below).max(),
        Value::Object(members) => members.values().map(below).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    deepest.unwrap_or(reached)
}

pub(super) fn too_large(fields: &Fields) -> Option<FieldError> {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + weight(value)).sum();
    let most = limits::FIELDS_BYTES / 1024;
    let message =
        format!("all fields together are larger than {most} KiB; put long text into a file");
    (bytes > limits::FIELDS_BYTES).then(|| FieldError::new("fields", message))
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum::<usize>() + 2
        }
    }
}

pub(super) fn unmet<'a>(
    requirements: &'a [Requirement],
    seen: &'a TaskEnv<'a>,
) -> impl Iterator<Item = FieldError> + 'a {
    requirements.iter().filter(|requirement| !requirement.that.holds(seen)).map(error_of)
}

/// Increments the counters of a transition. Returns the counter that diverts the task, if one has
/// reached its limit.
fn count(
    lifecycle: &Lifecycle,
    task: &mut Task,
    changes: &FieldUpdates,
    errors: &mut Vec<FieldError>,
) -> Option<CounterId> {
    let mut diverted = None;
    task.counters.resize(lifecycle.counters.len(), CounterValue::default());
    for id in &changes.reset {
        let count = &mut task.counters[usize::from(id.0)];
        count.reset_at = count.total;
    }
    for id in &changes.count {
        let counter = lifecycle.counter(*id);
        let count = &mut task.counters[usize::from(id.0)];
        let full = counter.limit.is_some_and(|limit| count.used() >= limit);
        if full && counter.then.is_none() {
            let limit = counter.limit.unwrap_or_default();
            let message = format!("has reached its limit of {limit}");
            errors.push(FieldError::new(&counter.name, message));
        }
        if !full {
            count.total = count.total.saturating_add(1);
        }
        let reached = match counter.diverts {
            CounterOverflow::AtLimit => counter.limit.is_some_and(|limit| count.used() >= limit),
            CounterOverflow::BeyondLimit => full,
        };
        if reached && counter.then.is_some() {
            diverted = diverted.or(Some(*id));
        }
    }
    diverted
}

/// Makes the changes, and returns the fields that have no computed value of their type and stay as
/// they are.
fn update_fields<'c>(
    lifecycle: &Lifecycle,
    task: &mut Task,
    changes: &'c FieldUpdates,
    cause: &Cause<'_>,
) -> Vec<&'c str> {
    for name in &changes.clear {
        // A field that is given with the move is not cleared: the given value is the new one.
        if !cause.fields.contains_key(name) {
            task.fields.remove(name);
        }
    }
    // Nor is a reason that is given with the move replaced by a fixed one.
    let reason = Field::Reason.name_in(lifecycle);
    let has_reason = cause.fields.get(reason).is_some_and(|reason| !reason.is_null());
    for (name, value) in &changes.set {
        if has_reason && name == reason {
            continue;
        }
        put(&mut task.fields, name, value);
    }
    let seen = TaskEnv { task, context: Some(cause.context) };
    let computed = changes.compute.iter().map(|(name, expr)| (name.as_str(), expr.eval(&seen)));
    let is_known = |(name, value): &(&str, Value)| {
        let field = lifecycle.fields.get(*name);
        !value.is_null() && field.is_none_or(|field| field.accepts(value).is_ok())
    };
    let (computed, unknown): (Vec<_>, Vec<_>) = computed.partition(is_known);
    task.fields.extend(computed.into_iter().map(|(name, value)| (name.to_owned(), value)));
    unknown.into_iter().map(|(name, _)| name).collect()
}

/// The state that a transition leads the task to.
pub fn resolve(target: TransitionTarget, task: &Task) -> Option<StateId> {
    match target {
        TransitionTarget::State(id) => Some(id),
        TransitionTarget::Prior => task.prior,
    }
}

/// Moves the task into a state and computes what follows.
fn enter(at: Moment<'_>, mut task: Task, to: StateId, cause: &Cause<'_>) -> TaskUpdate {
    let Moment { lifecycle, task: old, now } = at;
    let (left, entered) = (at.state(), lifecycle.state(to));
    let moved = old.state != to;
    task.state = to;
    task.version = old.version + 1;
    task.updated_at = now;
    task.progress_at = now;
    task.prior = remembered(left, entered, old);
    if moved {
        task.entered = task.version;
        task.entered_at = now;
        task.uncounted = Span(0);
    }
    if moved || cause.again_at.is_some() {
        // Where a worker is to take it again, whatever the state is called.
        let for_worker = entered.kind == StateKind::Queued;
        let for_worker = for_worker || entered.activity() == Some(Activity::Agent);
        task.not_before = cause.again_at.filter(|_| for_worker);
    }
    let mut effects = Vec::new();
    // A claim may lead to a queue of tasks that are taken and not yet started.
    let begun = matches!(left.kind, StateKind::Working | StateKind::Queued)
        && entered.kind == StateKind::Working;
    let stays = begun && !cause.run_ended;
    let ended_run = if stays { None } else { task.lease.take() };
    if let Some(lease) = &ended_run
        && !cause.run_ended
    {
        effects.push(Effect::Stop { epoch: lease.epoch });
    }
    let next = Moment { task: &task, ..at };
    if moved {
        let had_panel = left.activity() == Some(Activity::Panel);
        effects.extend(had_panel.then_some(Effect::CloseReviews));
        effects.extend(entry_effects(next));
    } else {
        effects.extend(effects_in_place(at, next));
    }
    let timers = plan_timers(at, &task);
    let decision = DecisionChange {
        settles: moved && asks_people(left),
        opens: moved.then(|| open_decision(lifecycle, &task)).flatten(),
    };
    let ending = match (left.kind == StateKind::Done, entered.kind == StateKind::Done) {
        (false, true) => Some(Ending::Done),
        (true, false) => Some(Ending::TakenBack),
        (true, true) => None,
        (false, false) => entered.terminal.then_some(Ending::Otherwise),
    };
    let ended_run = ended_run.map(|lease| (lease.epoch, Outcome::Stopped));
    TaskUpdate { effects, timers, decision, ended_run, ending, ..quiet(task) }
}

fn remembered(left: &State, entered: &State, old: &Task) -> Option<StateId> {
    match (left.remembers, entered.remembers) {
        (_, false) => None,
        (true, true) => old.prior,
        (false, true) => Some(old.state),
    }
}
