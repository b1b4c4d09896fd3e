//! Where an actor could move a task: for `allowedTransitions`, and for refusals.

use super::apply::resolve;
use super::env::{TaskEnv, TransitionContext};
use super::event::Actor;
use super::task::Task;
use crate::lifecycle::expr::ResolvedName;
use crate::lifecycle::{CounterId, Lifecycle, Requirement};
use crate::time::Instant;

/// The states that an actor could move the task to, if fields given with the move could satisfy the
/// remaining guards.
pub fn allowed(lifecycle: &Lifecycle, task: &Task, actor: &Actor, now: Instant) -> Vec<String> {
    let Some(role) = lifecycle.find_role(&actor.role) else {
        return Vec::new();
    };
    let seen = TaskEnv { task, context: Some(TransitionContext { actor, now, outcome: None }) };
    let mut names = Vec::new();
    let rows = lifecycle
        .exits(task.state)
        .filter(|row| row.timeout.is_none() && row.roles.contains(&role));
    for row in rows {
        let open =
            row.guards.iter().filter(|guard| is_hard(guard)).all(|guard| guard.that.holds(&seen));
        let spare = row.changes.count.iter().all(|id| !refuses(lifecycle, task, *id));
        let Some(to) = resolve(row.to, task).filter(|_| open && spare) else {
            continue;
        };
        let name = &lifecycle.state(to).name;
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn refuses(lifecycle: &Lifecycle, task: &Task, id: CounterId) -> bool {
    let counter = lifecycle.counter(id);
    counter.then.is_none() && counter.limit.is_some_and(|limit| task.count(id).used() >= limit)
}

/// A guard that no field given with the move can satisfy: it asks about the actor, or about no
/// field at all.
fn is_hard(guard: &Requirement) -> bool {
    asks_who(guard) || !guard.that.names().any(|name| matches!(name, ResolvedName::Field(_)))
}

/// Whether a guard depends on the move and so has no value without one.
pub(super) fn asks_about_the_move(guard: &Requirement) -> bool {
    use ResolvedName::{ActorName, ActorRole, Detail, Now, Outcome};
    let mut names = guard.that.names();
    names.any(|name| matches!(name, ActorName | ActorRole | Now | Outcome | Detail))
}

pub(super) fn asks_who(guard: &Requirement) -> bool {
    guard.that.names().any(|name| matches!(name, ResolvedName::ActorName | ResolvedName::ActorRole))
}
