//! What a lifecycle's expressions can read of a task and of a move.

use std::borrow::Cow;

use crate::lifecycle::expr::{Env, ResolvedName, Value};
use crate::lifecycle::{Lifecycle, Outcome, State, Transition};
use crate::machine::event::Actor;
use crate::machine::task::Task;
use crate::time::Instant;

/// A task at the time of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) lifecycle: &'a Lifecycle,
    pub(super) task: &'a Task,
    pub(super) now: Instant,
}

impl<'a> Moment<'a> {
    pub(super) fn state(self) -> &'a State {
        self.lifecycle.state(self.task.state)
    }

    /// The transitions that leave the task's state.
    pub(super) fn exits(self) -> impl Iterator<Item = &'a Transition> {
        self.lifecycle.exits(self.task.state)
    }
}

/// The move that an expression is evaluated for.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransitionContext<'a> {
    pub(super) actor: &'a Actor,
    pub(super) now: Instant,
    pub(super) outcome: Option<(Outcome, &'a str)>,
}

/// A task, and the move if there is one.
pub(super) struct TaskEnv<'a> {
    pub(super) task: &'a Task,
    pub(super) context: Option<TransitionContext<'a>>,
}

const NULL: Value = Value::Null;

impl Env for TaskEnv<'_> {
    fn value(&self, name: &ResolvedName) -> Cow<'_, Value> {
        let text = |text: &str| Cow::Owned(Value::String(text.to_owned()));
        match name {
            ResolvedName::Field(path) => {
                let first = path.first().and_then(|name| self.task.fields.get(name));
                let value = path
                    .iter()
                    .skip(1)
                    .fold(first, |value, key| value.and_then(|value| value.get(key)));
                Cow::Borrowed(value.unwrap_or(&NULL))
            }
            ResolvedName::Constant(value) => Cow::Owned(value.clone()),
            ResolvedName::Counter(id) => Cow::Owned(self.task.count(*id).used().into()),
            ResolvedName::Title => text(&self.task.title),
            ResolvedName::Tags => Cow::Owned(self.task.tags.clone().into()),
            ResolvedName::Priority => Cow::Owned(self.task.priority.into()),
            ResolvedName::Spent(None) => Cow::Owned(self.task.spent.to_json()),
            ResolvedName::Spent(Some(member)) => {
                Cow::Owned(self.task.spent.to_json()[member.as_str()].take())
            }
            ResolvedName::ActorRole => {
                self.context.map_or(Cow::Borrowed(&NULL), |context| text(&context.actor.role))
            }
            ResolvedName::ActorName => {
                let name = self.context.and_then(|context| context.actor.name.as_deref());
                name.map_or(Cow::Borrowed(&NULL), text)
            }
            ResolvedName::Now => {
                self.context.map_or(Cow::Borrowed(&NULL), |context| text(&context.now.to_string()))
            }
            ResolvedName::Outcome => {
                let outcome = self.context.and_then(|context| context.outcome);
                outcome.map_or(Cow::Borrowed(&NULL), |(outcome, _)| text(outcome.as_str()))
            }
            ResolvedName::Detail => {
                let outcome = self.context.and_then(|context| context.outcome);
                outcome.map_or(Cow::Borrowed(&NULL), |(_, detail)| text(detail))
            }
        }
    }
}
