//! The drawing model of lifecycles and workflows: nodes, edges and a legend, with one Mermaid and
//! one SVG writer.
//!
//! `lifecycle::graph` and `workflow::graph` build a [`Graph`] and know what a node stands for;
//! nothing here does. The same graph gives the same text on every machine.

mod layout;
mod mermaid;
mod route;
mod sketch;
mod style;
mod svg;
#[cfg(test)]
mod tests;
mod words;

use crate::lifecycle::StateKind;

#[derive(Debug)]
pub struct Graph {
    /// The class of the picture: its style rules apply to nothing else on a page.
    pub(crate) class: &'static str,
    pub(crate) title: String,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) legend: &'static [&'static str],
    /// The node that a dot leads to.
    pub(crate) start: Option<usize>,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) edges: Vec<GraphEdge>,
}

#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) name: String,
    /// Below the name.
    pub(crate) lines: Vec<String>,
    /// For those who point at it or have it read aloud.
    pub(crate) title: String,
    pub(crate) shape: Shape,
    /// Its colours.
    pub(crate) kind: StateKind,
    /// Whether the sign of its kind is next to its name.
    pub(crate) has_sign: bool,
    pub(crate) is_current: bool,
    pub(crate) group: Option<String>,
    /// Whether it may be set aside if many edges lead to it.
    pub(crate) may_be_aside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Box,
    /// Cut corners; a diamond in Mermaid.
    Gate,
    /// A double border.
    End,
    /// A dotted border.
    Elsewhere,
}

/// An edge between two nodes, by index.
#[derive(Debug)]
pub(crate) struct GraphEdge {
    pub(crate) from: usize,
    /// None leads to where the task was before.
    pub(crate) to: Option<usize>,
    /// Whether it sends work back: it is dashed, and only an end is below where it comes from.
    pub(crate) is_back: bool,
    pub(crate) words: Vec<String>,
}

impl Graph {
    /// A Mermaid flowchart, for places that render Mermaid themselves.
    pub fn mermaid(&self) -> String {
        mermaid::mermaid(self)
    }

    /// A picture that needs nothing from outside.
    pub fn svg(&self) -> String {
        svg::svg(self)
    }

    pub(crate) fn target_name(&self, edge: &GraphEdge) -> &str {
        edge.to.map_or(crate::lifecycle::PRIOR, |to| &self.nodes[to].name)
    }

    /// The full text of an edge.
    pub(crate) fn edge_title(&self, edge: &GraphEdge) -> String {
        let ends = format!("{} → {}", self.nodes[edge.from].name, self.target_name(edge));
        if edge.words.is_empty() { ends } else { format!("{ends}: {}", edge.words.join(", ")) }
    }
}
