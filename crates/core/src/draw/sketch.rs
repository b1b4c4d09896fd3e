//! Decides how each edge is shown, and computes the texts and the size of every box. It decides no
//! position.
//!
//! An edge is a line with its words, a row of the box that it leaves with a line that goes round,
//! or a row only. A lifecycle has few ways forward and many ways out: nearly every state may be
//! cancelled, fail or be blocked. Lines for all of them would hide what a task normally does, so
//! the nodes where many edges lead are set aside. No edge is left out.

use super::layout::{self, LayerOrder, Line, Size};
use super::route::Round;
use super::words::{
    INDENT, LINE_HEIGHT, PADDING, Row, Words, name_width, shortened, small_width, times,
};
use super::{Graph, GraphEdge, Shape};

pub(super) struct Sketch {
    /// The nodes that are placed in layers, the start first.
    pub(super) placed: Vec<usize>,
    pub(super) aside: Vec<usize>,
    /// The box of each node.
    pub(super) cards: Vec<Card>,
    /// The lines between placed nodes, by their places in `placed`, and the edge of each.
    pub(super) lines: Vec<Line>,
    pub(super) line_edges: Vec<usize>,
    /// The words on each line.
    pub(super) words: Vec<Words>,
    pub(super) order: LayerOrder,
}

/// A box, with all positions relative to its upper left corner.
pub(super) struct Card {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Shortened to what fits.
    pub(super) name: String,
    pub(super) lines: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// From so many edges on, lines to a node would hide the rest.
const MANY: usize = 3;
const MIN_WIDTH: f64 = 120.0;
/// Height of the name and the room below the last line.
const HEAD: f64 = 31.0;
/// Rows are filled to this width, or to that of the longest text.
const ROW_ROOM: f64 = 220.0;

impl Sketch {
    pub(super) fn new(graph: &Graph) -> Self {
        let is_aside = set_aside(graph);
        let others = (0..graph.nodes.len()).filter(|node| Some(*node) != graph.start);
        let (aside, mut placed): (Vec<usize>, Vec<usize>) =
            others.partition(|node| is_aside[*node]);
        placed.splice(0..0, graph.start);

        let mut place_of = vec![None; graph.nodes.len()];
        for (place, node) in placed.iter().enumerate() {
            place_of[*node] = Some(place);
        }
        let (mut lines, mut line_edges, mut leading) = (Vec::new(), Vec::new(), Vec::new());
        for (index, edge) in graph.edges.iter().enumerate() {
            let Some(line) = line(edge, &place_of) else { continue };
            lines.push(line);
            line_edges.push(index);
            if !edge.is_back || edge.to.is_some_and(|to| graph.nodes[to].shape == Shape::End) {
                leading.push(line);
            }
        }
        let order = layout::order(placed.len(), &lines, &leading);

        let mut is_labelled = vec![false; graph.edges.len()];
        for (edge, down) in line_edges.iter().zip(&order.down) {
            is_labelled[*edge] = *down;
        }
        let mut listed = vec![Vec::new(); graph.nodes.len()];
        for (index, edge) in graph.edges.iter().enumerate().filter(|(at, _)| !is_labelled[*at]) {
            listed[edge.from].push(index);
        }
        let cards = listed.iter().enumerate().map(|(node, listed)| card(graph, node, listed));
        let cards = cards.collect();
        let words = line_edges.iter().map(|edge| Words::new(&graph.edges[*edge].words)).collect();
        Self { placed, aside, cards, lines, line_edges, words, order }
    }

    /// The sizes of the placed boxes.
    pub(super) fn box_sizes(&self) -> Vec<Size> {
        let boxes = self.placed.iter().map(|node| &self.cards[*node]);
        boxes.map(|card| (card.width, card.height)).collect()
    }

    /// The lines that go round.
    pub(super) fn rounds(&self) -> Vec<Round> {
        let around = (0..self.lines.len()).filter(|line| !self.order.down[*line]);
        let round = |index: usize| {
            let (line, edge) = (self.lines[index], self.line_edges[index]);
            let rows = &self.cards[self.placed[line.from]].rows;
            let row = rows.iter().find(|row| row.edge == edge);
            Round { line, edge, exit: row.map_or(HEAD, |row| row.baseline - 4.0) }
        };
        around.map(round).collect()
    }
}

/// The line of an edge, if both its nodes are placed and differ.
fn line(edge: &GraphEdge, place_of: &[Option<usize>]) -> Option<Line> {
    let (from, to) = (place_of[edge.from]?, place_of[edge.to?]?);
    (from != to).then_some(Line { from, to })
}

/// `listed` are the edges that the box shows as rows.
fn card(graph: &Graph, node: usize, listed: &[usize]) -> Card {
    let edges = || listed.iter().map(|edge| (*edge, &graph.edges[*edge]));
    let node = &graph.nodes[node];
    let name = shortened(&node.name);
    let lines: Vec<String> = node.lines.iter().map(|line| shortened(line)).collect();
    let widest = edges().flat_map(|(_, edge)| &edge.words).map(|word| small_width(word));
    let room = widest.fold(ROW_ROOM, f64::max);
    let mut height = HEAD + times(lines.len(), LINE_HEIGHT);
    let mut rows = Vec::with_capacity(listed.len());
    for (index, edge) in edges() {
        let is_loop = edge.to == Some(edge.from);
        let target = if is_loop { "itself" } else { graph.target_name(edge) };
        let row = Row::new(index, shortened(target), &edge.words, (height, room));
        height += row.height();
        rows.push(row);
    }
    height += if rows.is_empty() { 0.0 } else { PADDING };
    let widths = lines.iter().map(|line| small_width(line) + INDENT);
    let widths = widths.chain(rows.iter().map(Row::width));
    let head = (name_width(&name) + INDENT).max(MIN_WIDTH);
    let width = widths.fold(head, f64::max) + 2.0 * PADDING;
    Card { width, height, name, lines, rows }
}

/// For each node, whether so many edges lead there that lines would hide the rest.
///
/// The others must stay reachable without them, or the picture would have no way to show how.
fn set_aside(graph: &Graph) -> Vec<bool> {
    let mut entries = vec![0_usize; graph.nodes.len()];
    let mut exits = vec![Vec::new(); graph.nodes.len()];
    for edge in &graph.edges {
        if let Some(to) = edge.to.filter(|to| *to != edge.from) {
            entries[to] += 1;
            exits[edge.from].push(to);
        }
    }
    let nodes = graph.nodes.iter().zip(entries);
    let mut aside: Vec<bool> =
        nodes.map(|(node, entries)| node.may_be_aside && entries >= MANY).collect();
    if !others_reachable(graph.start, &exits, &aside) {
        for (aside, node) in aside.iter_mut().zip(&graph.nodes) {
            *aside &= node.shape == Shape::End;
        }
    }
    aside
}

fn others_reachable(start: Option<usize>, exits: &[Vec<usize>], aside: &[bool]) -> bool {
    let mut reached = aside.to_vec();
    let mut open: Vec<usize> = start.into_iter().collect();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            open.extend(&exits[node]);
        }
    }
    reached.into_iter().all(|reached| reached)
}
