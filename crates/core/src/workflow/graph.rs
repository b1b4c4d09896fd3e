//! Draws a workflow as Mermaid text and as a self-contained SVG, with the status of each step if it
//! is known.
//!
//! Both drawings show the same [`Net`]: steps, their gates, steps of other workflows and the ends,
//! and every edge between them. The output depends only on the workflow and the marks.

mod mermaid;
mod shape;
mod svg;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use super::links::Links;
use super::{ABORT, DONE, Gate, Need, Step, Workflow};
use crate::lifecycle::StateKind;

pub use mermaid::mermaid;
pub use svg::svg;

/// The status of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepMark {
    /// One word, such as the state of its task.
    pub state: String,
    pub tone: Tone,
    /// A detail, such as `attempt 2, 3m`.
    pub note: String,
}

/// What a state means for the workflow: its colour and its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Waiting,
    Working,
    Reviewing,
    Person,
    Passed,
    Failed,
}

impl Tone {
    const ALL: [Self; 6] =
        [Self::Waiting, Self::Working, Self::Reviewing, Self::Person, Self::Passed, Self::Failed];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::Reviewing => "reviewing",
            Self::Person => "person",
            Self::Passed => "passed",
            Self::Failed => "failed",
        }
    }

    /// The state kind with the same colours.
    fn kind(self) -> StateKind {
        match self {
            Self::Waiting => StateKind::Queued,
            Self::Working => StateKind::Working,
            Self::Reviewing => StateKind::Reviewing,
            Self::Person => StateKind::Waiting,
            Self::Passed => StateKind::Done,
            Self::Failed => StateKind::Failed,
        }
    }

    /// Whether the step is at its gate.
    fn at_gate(self) -> bool {
        match self {
            Self::Reviewing | Self::Person => true,
            Self::Waiting | Self::Working | Self::Passed | Self::Failed => false,
        }
    }
}

impl StepMark {
    /// The word next to the colour, never empty.
    fn word(&self) -> &str {
        if self.state.trim().is_empty() { self.tone.as_str() } else { &self.state }
    }

    fn text(&self) -> String {
        if self.note.is_empty() {
            self.word().to_owned()
        } else {
            format!("{} · {}", self.word(), self.note)
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Node<'a> {
    Step(&'a Step),
    Gate { gate: &'a Gate, step: &'a Step },
    Elsewhere { workflow: &'a str, step: &'a str },
    Done,
    Abort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EdgeDirection {
    Forward,
    /// From a failed gate.
    Back,
}

/// An edge between two nodes, by index.
#[derive(Debug)]
struct Edge {
    from: usize,
    to: usize,
    direction: EdgeDirection,
    words: Vec<String>,
}

/// The graph to draw.
struct Net<'a> {
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge>,
}

impl<'a> Net<'a> {
    fn new(flow: &'a Workflow) -> Self {
        let links = Links::new(flow);
        let mut net = Self { nodes: Vec::new(), edges: Vec::new() };
        // The node of each step, and the node that leads on from it: its gate, or the step itself.
        let mut steps = Vec::with_capacity(flow.steps.len());
        let mut exits = Vec::with_capacity(flow.steps.len());
        for step in &flow.steps {
            let place = net.add(Node::Step(step));
            steps.push(place);
            exits.push(match &step.gate {
                Some(gate) => net.add(Node::Gate { gate, step }),
                None => place,
            });
        }
        net.add_other_workflows(flow, &steps);
        let done = net.add(Node::Done);
        let mut abort = None;
        for (index, step) in flow.steps.iter().enumerate() {
            let (place, exit) = (steps[index], exits[index]);
            if exit != place {
                net.add_edge(place, exit, Vec::new());
            }
            let words = || step.gate.iter().map(|_| "pass".to_owned()).collect();
            for next in &links.after[index] {
                net.add_edge(exit, steps[*next], words());
            }
            if links.after[index].is_empty() {
                net.add_edge(exit, done, words());
            }
            if let Some(gate) = &step.gate {
                net.add_retry_routes(exit, gate, |net, to| match to {
                    Some(id) => links.place(id).map(|place| steps[place]),
                    None => Some(*abort.get_or_insert_with(|| net.add(Node::Abort))),
                });
            }
        }
        net
    }

    fn add(&mut self, node: Node<'a>) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds the steps of other workflows.
    fn add_other_workflows(&mut self, flow: &'a Workflow, steps: &[usize]) {
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for (to, step) in steps.iter().zip(&flow.steps) {
            for need in &step.needs {
                let Need::Elsewhere { workflow, step } = need else { continue };
                let from = *known
                    .entry((workflow, step))
                    .or_insert_with(|| self.add(Node::Elsewhere { workflow, step }));
                self.add_edge(from, *to, vec!["needed".to_owned()]);
            }
        }
    }

    fn add_edge(&mut self, from: usize, to: usize, words: Vec<String>) {
        self.edges.push(Edge { from, to, direction: EdgeDirection::Forward, words });
    }

    /// Adds the retry routes of a gate; routes to the same target share one edge.
    fn add_retry_routes(
        &mut self,
        from: usize,
        gate: &Gate,
        mut place_of: impl FnMut(&mut Self, Option<&str>) -> Option<usize>,
    ) {
        let first = self.edges.len();
        for back in &gate.on_fail {
            let Some(to) = place_of(self, back.to.as_deref()) else { continue };
            let reason = back.reason.as_deref().unwrap_or("fail");
            let word = format!("{reason} ≤ {}", gate.max_retries);
            match self.edges[first..].iter_mut().find(|edge| edge.to == to) {
                Some(edge) => edge.words.push(word),
                None => {
                    self.edges.push(Edge {
                        from,
                        to,
                        direction: EdgeDirection::Back,
                        words: vec![word],
                    });
                }
            }
        }
    }

    /// The full text of an edge, for its tooltip.
    fn edge_title(&self, edge: &Edge) -> String {
        let (from, to) = (self.nodes[edge.from].name(), self.nodes[edge.to].name());
        if edge.words.is_empty() {
            return format!("{from} → {to}");
        }
        format!("{from} → {to}: {}", edge.words.join(", "))
    }
}

impl<'a> Node<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::Step(step) => &step.id,
            Self::Gate { gate, .. } => &gate.id,
            Self::Elsewhere { step, .. } => step,
            Self::Done => DONE,
            Self::Abort => ABORT,
        }
    }
}

/// The mark of a step that is at its gate; the gate shows it as well.
fn mark_at_gate<'a>(step: &Step, marks: &'a BTreeMap<String, StepMark>) -> Option<&'a StepMark> {
    marks.get(&step.id).filter(|mark| mark.tone.at_gate())
}

fn gate_line(gate: &Gate, mark: Option<&StepMark>) -> String {
    let level = gate.level.as_str();
    let who = match gate.deciders() {
        [] | [_] => level.to_owned(),
        several => format!("{level} · {} reviewers", several.len()),
    };
    mark.map_or_else(|| who.clone(), |mark| format!("{who} · {}", mark.word()))
}
