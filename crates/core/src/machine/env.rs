//! What the expressions of a lifecycle see of a task and of a move.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::lifecycle::Outcome;
use crate::lifecycle::expr::{Env, Name};
use crate::machine::event::Actor;
use crate::machine::task::Task;
use crate::time::Instant;

/// The move in whose light an expression is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Light<'a> {
    pub(super) actor: &'a Actor,
    pub(super) now: Instant,
    pub(super) outcome: Option<(Outcome, &'a str)>,
}

/// A task, and the move if there is one.
pub(super) struct Seen<'a> {
    pub(super) task: &'a Task,
    pub(super) light: Option<Light<'a>>,
}

const NULL: Value = Value::Null;

impl Env for Seen<'_> {
    fn value(&self, name: &Name) -> Cow<'_, Value> {
        let text = |text: &str| Cow::Owned(Value::String(text.to_owned()));
        match name {
            Name::Field(path) => {
                let first = path.first().and_then(|name| self.task.fields.get(name));
                let value = path
                    .iter()
                    .skip(1)
                    .fold(first, |value, key| value.and_then(|value| value.get(key)));
                Cow::Borrowed(value.unwrap_or(&NULL))
            }
            Name::Constant(value) => Cow::Owned(value.clone()),
            Name::Counter(id) => Cow::Owned(json!(self.task.count(*id).used())),
            Name::Title => text(&self.task.title),
            Name::Tags => Cow::Owned(json!(self.task.tags)),
            Name::Priority => Cow::Owned(json!(self.task.priority)),
            Name::Spent(None) => Cow::Owned(self.task.spent.to_json()),
            Name::Spent(Some(member)) => {
                Cow::Owned(self.task.spent.to_json()[member.as_str()].take())
            }
            Name::ActorRole => {
                self.light.map_or(Cow::Borrowed(&NULL), |light| text(&light.actor.role))
            }
            Name::ActorName => {
                let name = self.light.and_then(|light| light.actor.name.as_deref());
                name.map_or(Cow::Borrowed(&NULL), text)
            }
            Name::Now => {
                self.light.map_or(Cow::Borrowed(&NULL), |light| text(&light.now.to_string()))
            }
            Name::Outcome => {
                let outcome = self.light.and_then(|light| light.outcome);
                outcome.map_or(Cow::Borrowed(&NULL), |(outcome, _)| text(outcome.as_str()))
            }
            Name::Detail => {
                let outcome = self.light.and_then(|light| light.outcome);
                outcome.map_or(Cow::Borrowed(&NULL), |(_, detail)| text(detail))
            }
        }
    }
}
