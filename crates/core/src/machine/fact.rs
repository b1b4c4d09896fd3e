//! A person overrides facts: by name and with a reason, says what the system has no proof of.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::apply::{patch, quiet, too_large, unmet};
use super::ask::role_of;
use super::effect::{NOTE_DETAIL, TaskUpdate};
use super::entry::{effects_in_place, plan_timers};
use super::env::{Moment, TaskEnv};
use super::event::FactOverride;
use super::reject::{FieldError, RejectReason, Rejected};
use super::task::{Damaged, Task};
use crate::lifecycle::contract::{Field, Note};
use crate::lifecycle::expr::{Fields, value_of};
use crate::lifecycle::{FieldUpdates, Lifecycle, RoleId};
use crate::limits;
use crate::receipt::MergedAs;
use crate::text::line;

/// The facts of a task that stand on a person's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overridden {
    /// Who gave the newest of them.
    pub by: String,
    pub reason: String,
    pub facts: Fields,
}

impl Overridden {
    /// The facts of this task that nobody has proven.
    pub fn of(task: &Task, lifecycle: &Lifecycle) -> Result<Option<Self>, Damaged> {
        record(task, lifecycle, Field::Overridden)
    }
}

/// Where the task's work was merged, if it was.
pub fn merged_as(task: &Task, lifecycle: &Lifecycle) -> Result<Option<MergedAs>, Damaged> {
    record(task, lifecycle, Field::MergedAs)
}

/// A record that the system keeps. Another field of that name, in a lifecycle from before the
/// record, is none.
fn record<T: DeserializeOwned>(
    task: &Task,
    lifecycle: &Lifecycle,
    field: Field,
) -> Result<Option<T>, Damaged> {
    let declared = lifecycle.fields.get(field.name());
    let is_record = declared.is_some_and(|declared| field.shape().fits(&declared.kind));
    if is_record { task.data(lifecycle, field) } else { Ok(None) }
}

/// The field of the contract that has this name in the lifecycle.
pub(super) fn in_contract(lifecycle: &Lifecycle, name: &str) -> Option<Field> {
    let mut known = Field::RULES.iter().map(|rule| rule.item);
    known.find(|field| field.name_in(lifecycle) == name)
}

/// Sets facts without a transition.
pub(super) fn override_facts(
    at: Moment<'_>,
    request: &FactOverride,
) -> Result<TaskUpdate, Rejected> {
    let Moment { lifecycle, task: old, now } = at;
    let who = request.actor.name.as_ref();
    let Some(by) = who.filter(|_| role_of(lifecycle, &request.actor) == Ok(RoleId::HUMAN)) else {
        let message = "only a person with a name may override facts".to_owned();
        return Err(Rejected::one(RejectReason::Forbidden, "actor", message));
    };
    if at.state().terminal {
        let message = format!("{} is {} and cannot change", old.id, at.state().name);
        return Err(Rejected::one(RejectReason::Invalid, "fields", message));
    }
    let mut errors = Vec::new();
    let mut demand = |holds: bool, field: &str, message: &str| {
        if !holds {
            errors.push(FieldError::new(field, message.to_owned()));
        }
    };
    demand(!request.reason.trim().is_empty(), Field::Reason.name(), "Say how you know");
    demand(!request.fields.is_empty(), "fields", "Name at least one fact, such as merged=true");
    for name in request.fields.keys().filter(|name| lifecycle.fields.contains_key(*name)) {
        let is_fact = in_contract(lifecycle, name).is_some_and(Field::is_fact);
        demand(is_fact, name, "is no fact; give it with a move");
    }
    let earlier = Overridden::of(old, lifecycle);
    let damage = earlier.as_ref().err().map(ToString::to_string).unwrap_or_default();
    demand(damage.is_empty(), Field::Overridden.name(), &damage);
    let mut task = old.clone();
    errors.extend(patch(lifecycle, &mut task.fields, &request.fields, |_| true));
    let mut facts = earlier.ok().flatten().map(|earlier| earlier.facts).unwrap_or_default();
    facts.extend(request.fields.clone());
    let (by, reason) = (by.clone(), line(&request.reason, limits::NOTE_DETAIL_BYTES));
    let overridden = Overridden { by, reason: reason.clone(), facts };
    task.fields.insert(Field::Overridden.name().to_owned(), value_of(&overridden));
    errors.extend(too_large(&task.fields));
    errors.extend(unmet(&at.state().requires, &TaskEnv { task: &task, context: None }));
    if !errors.is_empty() {
        return Err(Rejected::invalid(errors));
    }
    // A fact is no progress, and it ends no delay.
    let step = quiet(Task { version: old.version + 1, updated_at: now, ..task });
    let mut record = at.record(&step.task, Note::Override.as_str(), &request.actor);
    record.fields.insert(NOTE_DETAIL.to_owned(), reason.into());
    let after = Moment { task: &step.task, ..at };
    let (timers, effects) =
        (plan_timers(at, &step.task), effects_in_place(at, after).into_iter().collect());
    Ok(TaskUpdate { timers, effects, record: Some(record), ..step })
}

/// Forgets what was overridden where the system has found the fact since, or the lifecycle has set
/// or cleared it.
pub(super) fn forget_overridden(
    task: &mut Task,
    lifecycle: &Lifecycle,
    found: impl Fn(&str) -> bool,
) {
    let Ok(Some(mut overridden)) = Overridden::of(task, lifecycle) else { return };
    overridden.facts.retain(|name, value| task.fields.get(name) == Some(value) && !found(name));
    let name = Field::Overridden.name();
    if overridden.facts.is_empty() {
        task.fields.remove(name);
    } else {
        task.fields.insert(name.to_owned(), value_of(&overridden));
    }
}

/// Whether a transition itself sets the field.
pub(super) fn sets(changes: &FieldUpdates, name: &str) -> bool {
    changes.compute.contains_key(name) || changes.set.contains_key(name)
}
