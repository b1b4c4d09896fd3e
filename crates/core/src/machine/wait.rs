//! Whether what a task waits for has come true.

use super::env::{Light, Seen};
use super::event::Actor;
use super::task::Task;
use crate::lifecycle::expr::{Name, Type};
use crate::lifecycle::{Activity, Lifecycle};
use crate::time::Instant;

/// How a `wait` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// The task's state waits for nothing.
    Not,
    Met,
    /// It is not met; it may be at this time, as far as the task's own times say.
    Until(Option<Instant>),
}

#[must_use]
pub fn waits(lifecycle: &Lifecycle, task: &Task, now: Instant) -> Waits {
    let does = lifecycle.state(task.state).does.as_ref();
    let Some(does) = does.filter(|does| does.activity == Activity::Wait) else {
        return Waits::Not;
    };
    let actor = Actor::system();
    let seen = Seen { task, light: Some(Light { actor: &actor, now, outcome: None }) };
    let Some(until) = &does.until else { return Waits::Until(None) };
    if until.holds(&seen) {
        return Waits::Met;
    }
    let time = |name: &Name| match name {
        Name::Field(path) => {
            let field = path.first()?;
            let is_time = path.len() == 1 && lifecycle.fields.get(field) == Some(&Type::Time);
            let text = task.fields.get(field).filter(|_| is_time)?.as_str()?;
            text.parse::<Instant>().ok().filter(|at| *at > now)
        }
        Name::Constant(_)
        | Name::Counter(_)
        | Name::Title
        | Name::Tags
        | Name::Priority
        | Name::Spent(_)
        | Name::ActorRole
        | Name::ActorName
        | Name::Now
        | Name::Outcome
        | Name::Detail => None,
    };
    Waits::Until(until.names().filter_map(time).min())
}
