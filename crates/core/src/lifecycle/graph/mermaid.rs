//! A lifecycle as a Mermaid state diagram, for places that draw Mermaid by themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Lifecycle, State, StateId, StateKind, TransitionTarget, state_id};
use super::{Edge, edges};
use crate::draw::mermaid::{Lines, label, unique};
use crate::draw::style::mermaid_style;

/// The lifecycle as a `stateDiagram-v2`, the current state of a task highlighted.
#[must_use]
pub fn mermaid(lifecycle: &Lifecycle, current: Option<StateId>) -> String {
    let edges = edges(lifecycle);
    let ids = Ids::new(lifecycle);
    let mut lines = Lines(String::from("stateDiagram-v2\n"));
    lines.push("direction TB");
    declare_states(&mut lines, lifecycle, &ids);
    declare_histories(&mut lines, lifecycle, &ids);
    lines.push(format!("[*] --> {}", ids.state(lifecycle.initial)));
    for edge in &edges {
        lines.push(arrow(edge, &ids));
    }
    for (index, state) in lifecycle.states.iter().enumerate() {
        if state.terminal {
            lines.push(format!("{} --> [*]", ids.state(state_id(index))));
        }
    }
    declare_classes(&mut lines, lifecycle, current, &ids);
    lines.0
}

fn declare_states(lines: &mut Lines, lifecycle: &Lifecycle, ids: &Ids) {
    let mut grouped: BTreeSet<&String> = BTreeSet::new();
    for (index, state) in lifecycle.states.iter().enumerate() {
        let Some(group) = ids.group_of(state) else {
            lines.push(ids.declaration(lifecycle, state_id(index)));
            continue;
        };
        if !grouped.insert(group) {
            continue;
        }
        lines.push(format!("state \"{}\" as {} {{", label(group), ids.groups[group]));
        for (member, other) in lifecycle.states.iter().enumerate() {
            if ids.group_of(other) == Some(group) {
                lines.push(format!("    {}", ids.declaration(lifecycle, state_id(member))));
            }
        }
        lines.push("}");
    }
}

/// Mermaid has no history state, so `[prior]` is a node of its own beside the state that remembers.
fn declare_histories(lines: &mut Lines, lifecycle: &Lifecycle, ids: &Ids) {
    for (index, state) in lifecycle.states.iter().enumerate() {
        if state.remembers {
            lines.push(format!("state \"[H]\" as {}", ids.history(state_id(index))));
        }
    }
}

fn arrow(edge: &Edge, ids: &Ids) -> String {
    let to = match edge.to {
        TransitionTarget::State(id) => ids.state(id).to_owned(),
        TransitionTarget::Prior => ids.history(edge.from),
    };
    let causes: Vec<String> = edge.causes.iter().map(|cause| label(&cause.text())).collect();
    format!("{} --> {to} : {}", ids.state(edge.from), causes.join("<br/>"))
}

fn declare_classes(lines: &mut Lines, lifecycle: &Lifecycle, current: Option<StateId>, ids: &Ids) {
    for kind in StateKind::ALL {
        let of_kind = lifecycle.states.iter().enumerate().filter(|(_, state)| state.kind == kind);
        let members: Vec<&str> = of_kind.map(|(index, _)| ids.state(state_id(index))).collect();
        if !members.is_empty() {
            lines.push(format!("classDef kind_{kind} {}", mermaid_style(kind)));
            lines.push(format!("class {} kind_{kind}", members.join(", ")));
        }
    }
    if let Some(current) = current {
        lines.push("classDef current stroke-width:4px,font-weight:bold");
        lines.push(format!("class {} current", ids.state(current)));
    }
}

/// What Mermaid calls each state and each group.
struct Ids {
    states: Vec<String>,
    groups: BTreeMap<String, String>,
}

impl Ids {
    fn new(lifecycle: &Lifecycle) -> Self {
        let mut taken = BTreeSet::new();
        let states =
            lifecycle.states.iter().map(|state| unique(&state.name, "state", &mut taken)).collect();
        let mut groups = BTreeMap::new();
        for group in lifecycle.states.iter().filter_map(|state| state.group.as_ref()) {
            if !groups.contains_key(group) {
                groups
                    .insert(group.clone(), unique(&format!("group_{group}"), "state", &mut taken));
            }
        }
        Self { states, groups }
    }

    /// The group in which a state is drawn. One that is called like a group stands in it.
    fn group_of<'s>(&self, state: &'s State) -> Option<&'s String> {
        state
            .group
            .as_ref()
            .or_else(|| Some(&state.name).filter(|name| self.groups.contains_key(*name)))
    }

    fn state(&self, id: StateId) -> &str {
        &self.states[usize::from(id.0)]
    }

    /// No state's id holds two underscores in a row, so this is never one of them.
    fn history(&self, id: StateId) -> String {
        format!("{}__history", self.state(id))
    }

    fn declaration(&self, lifecycle: &Lifecycle, id: StateId) -> String {
        format!("state \"{}\" as {}", label(&lifecycle.state(id).name), self.state(id))
    }
}
