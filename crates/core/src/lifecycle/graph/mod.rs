//! Draws a lifecycle for people: as Mermaid text and as a picture that stands alone.
//!
//! Both drawings show the same [`Edge`]s: every way from one state to another once, with all that
//! may cause it. The output depends on the lifecycle alone, so it can be kept and compared.
//! Nothing here decides anything about a task.

mod card;
mod mermaid;
mod sketch;
mod svg;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::{Counter, Lifecycle, RoleId, Since, StateId, Transition, TransitionTarget};

pub use mermaid::mermaid;
pub use svg::svg;

/// Every way from one state to another, parallel transitions merged.
#[derive(Debug)]
struct Edge {
    from: StateId,
    to: TransitionTarget,
    causes: Vec<Cause>,
}

/// One of the triggers of an edge.
#[derive(Debug, PartialEq, Eq)]
struct Cause {
    /// The trigger, with its time if it is a bound: `approve`, `timeout 7d`.
    what: String,
    /// Who may take it. Empty for what only the system takes when its time has come.
    who: Vec<String>,
    /// What else there is to know of it, for those who ask.
    note: &'static str,
}

impl Cause {
    fn text(&self) -> String {
        if self.who.is_empty() {
            self.what.clone()
        } else {
            format!("{} ({})", self.what, self.who.join(", "))
        }
    }

    fn long_text(&self) -> String {
        format!("{}{}", self.text(), self.note)
    }
}

/// The edges in the order in which the file first speaks of them.
fn edges(lifecycle: &Lifecycle) -> Vec<Edge> {
    let mut merge = Merge::default();
    for transition in &lifecycle.transitions {
        merge.add(transition.from, transition.to, cause(lifecycle, transition, None));
        for id in &transition.changes.count {
            let counter = lifecycle.counter(*id);
            if let Some(then) = counter.then {
                merge.add(
                    transition.from,
                    TransitionTarget::State(then),
                    cause(lifecycle, transition, Some(counter)),
                );
            }
        }
    }
    merge.edges
}

/// Edges, with where each is, and where each trigger is among its causes.
#[derive(Default)]
struct Merge {
    edges: Vec<Edge>,
    edge_of: HashMap<(StateId, Option<StateId>), usize>,
    cause_of: HashMap<(usize, String), usize>,
}

impl Merge {
    fn add(&mut self, from: StateId, to: TransitionTarget, cause: Cause) {
        let goal = match to {
            TransitionTarget::State(id) => Some(id),
            TransitionTarget::Prior => None,
        };
        let edge = *self.edge_of.entry((from, goal)).or_insert(self.edges.len());
        if edge == self.edges.len() {
            self.edges.push(Edge { from, to, causes: Vec::new() });
        }
        let causes = &mut self.edges[edge].causes;
        let place = *self.cause_of.entry((edge, cause.what.clone())).or_insert(causes.len());
        match causes.get_mut(place) {
            None => causes.push(cause),
            Some(known) => {
                let others = cause
                    .who
                    .into_iter()
                    .filter(|role| !known.who.contains(role))
                    .collect::<Vec<_>>();
                known.who.extend(others);
            }
        }
    }
}

/// `reached` is the counter whose limit the move reaches, so that it leads elsewhere.
fn cause(lifecycle: &Lifecycle, transition: &Transition, reached: Option<&Counter>) -> Cause {
    let mut what = transition.trigger.clone();
    if let Some(bound) = transition.timeout {
        what = format!("{what} {}", bound.time);
    }
    if let Some(counter) = reached {
        what = match counter.limit {
            Some(limit) => format!("{what}, {} = {limit}", counter.name),
            None => format!("{what}, {} at its limit", counter.name),
        };
    }
    let note = match transition.timeout.map(|bound| bound.since) {
        Some(Since::Progress) => " without progress",
        Some(Since::Entry) | None => "",
    };
    let timed_by_system = transition.timeout.is_some() && transition.roles == [RoleId::SYSTEM];
    let roles = transition.roles.iter().map(|role| lifecycle.role_name(*role).to_owned());
    let who = if timed_by_system { Vec::new() } else { roles.collect() };
    Cause { what, who, note }
}
