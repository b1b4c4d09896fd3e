//! Builds the drawing of a workflow: steps, their gates, steps of other workflows and the ends,
//! with the status of each step if it is known.

mod group;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use super::order::StepOrder;
use super::{ABORT, DONE, Gate, Need, Step, Workflow};
use crate::draw::{Graph, GraphEdge, GraphNode, Shape};
use crate::lifecycle::StateKind;

/// The status of each step, by its id.
pub type StepMarks = BTreeMap<String, StepMark>;

/// The status of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepMark {
    /// One word, such as the state of its task.
    pub state: String,
    /// Its colour and its sign.
    pub kind: StateKind,
    /// A detail, such as `attempt 2, 3m`.
    pub note: String,
}

impl StepMark {
    /// The word next to the colour, never empty.
    fn word(&self) -> &str {
        if self.state.trim().is_empty() { self.kind.as_str() } else { &self.state }
    }

    fn text(&self) -> String {
        let note = if self.note.is_empty() { "" } else { " · " };
        format!("{}{note}{}", self.word(), self.note)
    }

    /// Whether the step is at its gate.
    fn is_at_gate(&self) -> bool {
        matches!(self.kind, StateKind::Reviewing | StateKind::Waiting)
    }
}

const LEGEND: &[&str] = &[
    "A box with cut corners is a gate. A dashed line shows where it sends the work when it fails;",
    "≤ is the number of the failure that asks a person instead.",
    "A dotted box is a step of another workflow. A double border is an end.",
];

/// The drawing of a workflow; marked steps show their status.
pub fn graph(flow: &Workflow, marks: &StepMarks) -> Graph {
    let about = if flow.about.is_empty() { &flow.id } else { &flow.about };
    let (drawn, drawn_marks) = group::grouped(flow, marks);
    let net = Net::new(&drawn, &drawn_marks);
    Graph {
        class: "banksman-workflow",
        title: format!("Workflow {}", flow.id),
        name: flow.name.clone(),
        about: about.clone(),
        legend: LEGEND,
        start: None,
        nodes: net.nodes,
        edges: net.edges,
    }
}

#[derive(Default)]
struct Net {
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
}

impl Net {
    fn new(flow: &Workflow, marks: &StepMarks) -> Self {
        let order = StepOrder::of_steps(&flow.steps);
        let mut net = Self::default();
        // The node of each step, and the node that leads on from it: its gate, or the step itself.
        let mut steps = Vec::with_capacity(flow.steps.len());
        let mut exits = Vec::with_capacity(flow.steps.len());
        for step in &flow.steps {
            let mark = marks.get(&step.id);
            let place = net.add(step_node(step, mark));
            steps.push(place);
            let gate = step.gate.as_ref().map(|gate| net.add(gate_node(gate, mark)));
            exits.push(gate.unwrap_or(place));
        }
        net.add_other_workflows(flow, &steps);
        let done = net.add(done_node(flow, marks));
        let mut abort = None;
        for (index, step) in flow.steps.iter().enumerate() {
            let (place, exit) = (steps[index], exits[index]);
            if exit != place {
                net.add_edge(place, exit, None);
            }
            let word = step.gate.as_ref().map(|_| "pass");
            for next in order.after(index) {
                net.add_edge(exit, steps[*next], word);
            }
            if order.is_last(index) {
                net.add_edge(exit, done, word);
            }
            let Some(gate) = &step.gate else { continue };
            for back in &gate.on_fail {
                let to = match &back.to {
                    Some(id) => order.number(id).map(|number| steps[number]),
                    None => Some(*abort.get_or_insert_with(|| net.add(abort_node()))),
                };
                if let Some(to) = to {
                    net.add_retry_route(exit, to, gate, back.reason.as_deref());
                }
            }
        }
        net
    }

    fn add(&mut self, node: GraphNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn add_edge(&mut self, from: usize, to: usize, word: Option<&str>) {
        let words = word.map(str::to_owned).into_iter().collect();
        self.edges.push(GraphEdge { from, to: Some(to), is_back: false, words });
    }

    fn add_other_workflows(&mut self, flow: &Workflow, steps: &[usize]) {
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for (to, step) in steps.iter().zip(&flow.steps) {
            for need in &step.needs {
                let Need::Elsewhere { workflow, step } = need else { continue };
                let from = *known
                    .entry((workflow, step))
                    .or_insert_with(|| self.add(elsewhere_node(workflow, step)));
                self.add_edge(from, *to, Some("needed"));
            }
        }
    }

    /// Adds a retry route of a gate; routes to the same target share one edge.
    fn add_retry_route(&mut self, from: usize, to: usize, gate: &Gate, reason: Option<&str>) {
        let word = format!("{} ≤ {}", reason.unwrap_or("fail"), gate.max_retries);
        let is_same =
            |edge: &&mut GraphEdge| edge.is_back && edge.from == from && edge.to == Some(to);
        match self.edges.iter_mut().rev().find(is_same) {
            Some(edge) => edge.words.push(word),
            None => {
                self.edges.push(GraphEdge { from, to: Some(to), is_back: true, words: vec![word] });
            }
        }
    }
}

fn node(name: &str, title: String, shape: Shape, kind: StateKind, lines: &[&str]) -> GraphNode {
    let lines = lines.iter().filter(|line| !line.is_empty()).map(|line| (*line).to_owned());
    GraphNode {
        name: name.to_owned(),
        lines: lines.collect(),
        title,
        shape,
        kind,
        has_sign: shape == Shape::End,
        is_current: false,
        group: None,
        may_be_aside: false,
    }
}

fn step_node(step: &Step, mark: Option<&StepMark>) -> GraphNode {
    let status = mark.map(StepMark::text).unwrap_or_default();
    let dot = if mark.is_some() { ". " } else { "" };
    let title = format!("Step {}: {}, by {}{dot}{status}", step.id, step.name, step.role);
    let kind = mark.map_or(StateKind::Queued, |mark| mark.kind);
    let lines = [&*step.name, &step.role, &status];
    GraphNode { has_sign: mark.is_some(), ..node(&step.id, title, Shape::Box, kind, &lines) }
}

/// A gate shows the status of its step while the step is there.
fn gate_node(gate: &Gate, mark: Option<&StepMark>) -> GraphNode {
    let mark = mark.filter(|mark| mark.is_at_gate());
    let (level, limit) = (gate.level.as_str(), gate.max_retries);
    let title = format!("Gate {}: {}, level {level}, max_retries {limit}", gate.id, gate.name);
    let mut line = level.to_owned();
    if let several @ 2.. = gate.deciders().len() {
        line = format!("{line} · {several} reviewers");
    }
    if let Some(mark) = mark {
        line = format!("{line} · {}", mark.word());
    }
    let kind = mark.map_or(StateKind::Parked, |mark| mark.kind);
    GraphNode { has_sign: mark.is_some(), ..node(&gate.id, title, Shape::Gate, kind, &[&line]) }
}

fn elsewhere_node(workflow: &str, step: &str) -> GraphNode {
    let title = format!("Step {step} of the workflow {workflow}");
    node(step, title, Shape::Elsewhere, StateKind::Parked, &[&format!("of {workflow}")])
}

/// While steps are running, its colour must not say that the end is reached.
fn done_node(flow: &Workflow, marks: &StepMarks) -> GraphNode {
    let has_passed = |step: &Step| marks.get(&step.id).is_some_and(|m| m.kind == StateKind::Done);
    let title = "The end: every step has passed".to_owned();
    let (kind, line) = if marks.is_empty() || flow.steps.iter().all(has_passed) {
        (StateKind::Done, "every step has passed")
    } else {
        (StateKind::Queued, "not every step has passed")
    };
    node(DONE, title, Shape::End, kind, &[line])
}

fn abort_node() -> GraphNode {
    let title = "The end: the workflow is aborted".to_owned();
    node(ABORT, title, Shape::End, StateKind::Cancelled, &["aborted"])
}
