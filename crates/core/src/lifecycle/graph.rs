//! Builds the drawing of a lifecycle: its states, and one edge for all transitions from one state
//! to another. Nothing here decides anything about a task.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::{
    Counter, Lifecycle, RoleId, Since, State, StateId, StateKind, Transition, TransitionTarget,
    state_id,
};
use crate::draw::{Graph, GraphEdge, GraphNode, Shape};

const LEGEND: &[&str] = &[
    "A line with words leads on. A row in a box is another way out, named by where it leads.",
    "A double border: nothing leads out of this state.",
];

/// The drawing of a lifecycle, the current state of a task marked.
pub fn graph(lifecycle: &Lifecycle, current: Option<StateId>) -> Graph {
    let node = |(index, state)| node(lifecycle, state, state_id(index), current);
    Graph {
        class: "banksman-lifecycle",
        title: format!("Lifecycle {}", lifecycle.id),
        name: lifecycle.id.clone(),
        about: lifecycle.about.clone(),
        legend: LEGEND,
        start: Some(usize::from(lifecycle.initial.0)),
        nodes: lifecycle.states.iter().enumerate().map(node).collect(),
        edges: edges(lifecycle),
    }
}

fn node(lifecycle: &Lifecycle, state: &State, id: StateId, current: Option<StateId>) -> GraphNode {
    let is_current = current == Some(id);
    // A state that is called like a group is drawn in it.
    let names_group =
        || lifecycle.states.iter().any(|other| other.group.as_ref() == Some(&state.name));
    let group = state.group.clone().or_else(|| names_group().then(|| state.name.clone()));
    GraphNode {
        name: state.name.clone(),
        lines: vec![duty(state)],
        title: title(state, is_current),
        shape: if state.terminal { Shape::End } else { Shape::Box },
        kind: state.kind,
        has_sign: true,
        is_current,
        group,
        may_be_aside: lies_beside(state.kind) && id != lifecycle.initial,
    }
}

/// The kind as a word, and what is done meanwhile.
fn duty(state: &State) -> String {
    let Some(does) = &state.does else {
        return state.kind.to_string();
    };
    let role = does.role.iter().map(|role| format!(" {role}"));
    format!("{} · {}{}", state.kind, does.activity.as_str(), role.collect::<String>())
}

fn title(state: &State, is_current: bool) -> String {
    let end = if state.terminal { ", the end" } else { "" };
    let current = if is_current { ", current" } else { "" };
    let about = if state.about.is_empty() { "" } else { ". " };
    format!("{}: {}{end}{current}{about}{}", state.name, state.kind, state.about)
}

/// Whether states of a kind lie beside the way of a task that goes well.
fn lies_beside(kind: StateKind) -> bool {
    use StateKind::{Blocked, Cancelled, Failed, Parked};
    matches!(kind, Blocked | Parked | Failed | Cancelled)
}

/// One of the triggers of an edge.
struct EdgeLabel {
    /// The trigger, with its time if it is a timeout: `approve`, `timeout 7d`.
    what: String,
    /// The roles that may take it. Empty for what only the system takes when its time has come.
    who: Vec<String>,
}

/// Parallel transitions, by where they lead, in the order in which the file first names each.
#[derive(Default)]
struct Merge {
    edges: Vec<(GraphEdge, Vec<EdgeLabel>)>,
    edge_of: HashMap<(usize, Option<usize>), usize>,
}

fn edges(lifecycle: &Lifecycle) -> Vec<GraphEdge> {
    let mut merge = Merge::default();
    for transition in &lifecycle.transitions {
        let target = match transition.to {
            TransitionTarget::State(id) => Some(id),
            TransitionTarget::Prior => None,
        };
        merge.add(transition.from, target, cause(lifecycle, transition, None));
        for counter in transition.changes.count.iter().map(|id| lifecycle.counter(*id)) {
            if let Some(then) = counter.then {
                let cause = cause(lifecycle, transition, Some(counter));
                merge.add(transition.from, Some(then), cause);
            }
        }
    }
    let edge = |(edge, causes): (GraphEdge, Vec<EdgeLabel>)| GraphEdge {
        words: causes.iter().map(text).collect(),
        ..edge
    };
    merge.edges.into_iter().map(edge).collect()
}

impl Merge {
    fn add(&mut self, from: StateId, to: Option<StateId>, cause: EdgeLabel) {
        let (from, to) = (usize::from(from.0), to.map(|to| usize::from(to.0)));
        let edge = *self.edge_of.entry((from, to)).or_insert(self.edges.len());
        if edge == self.edges.len() {
            self.edges
                .push((GraphEdge { from, to, is_back: false, words: Vec::new() }, Vec::new()));
        }
        let causes = &mut self.edges[edge].1;
        match causes.iter_mut().find(|known| known.what == cause.what) {
            None => causes.push(cause),
            Some(known) => {
                let is_new = |role: &String| !known.who.contains(role);
                let others: Vec<String> = cause.who.into_iter().filter(is_new).collect();
                known.who.extend(others);
            }
        }
    }
}

fn text(cause: &EdgeLabel) -> String {
    if cause.who.is_empty() {
        return cause.what.clone();
    }
    format!("{} ({})", cause.what, cause.who.join(", "))
}

/// `reached` is the counter whose limit the move reaches, so that it leads elsewhere.
fn cause(lifecycle: &Lifecycle, transition: &Transition, reached: Option<&Counter>) -> EdgeLabel {
    let mut what = transition.trigger.clone();
    if let Some(timeout) = transition.timeout {
        let since = match timeout.since {
            Since::Progress => " without progress",
            Since::Entry => "",
        };
        what = format!("{what} {}{since}", timeout.time);
    }
    if let Some(counter) = reached {
        what = match counter.limit {
            Some(limit) => format!("{what}, {} = {limit}", counter.name),
            None => format!("{what}, {} at its limit", counter.name),
        };
    }
    let timed_by_system = transition.timeout.is_some() && transition.roles == [RoleId::SYSTEM];
    let roles = transition.roles.iter().map(|role| lifecycle.role_name(*role).to_owned());
    let who = if timed_by_system { Vec::new() } else { roles.collect() };
    EdgeLabel { what, who }
}
