//! The texts of each node in the picture and the room that they need: boxes, and diamonds for
//! gates. It decides no position.
//!
//! An edge that cannot be drawn as a labelled line is a row: below the texts of a box, or beside a
//! diamond on the side where the line leaves.

use std::collections::BTreeMap;

use super::{Net, Node, StepMark, Tone, gate_line, mark_at_gate};
use crate::draw::words::{
    INDENT, LINE_HEIGHT, PADDING, Row, fitted, name_width, shortened, small_width,
};
use crate::lifecycle::StateKind;

/// All positions are relative to the upper left corner.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Its colours.
    pub(super) kind: StateKind,
    pub(super) name: String,
    /// Below the name.
    pub(super) lines: Vec<String>,
    /// Whether the sign of its kind is next to its name.
    pub(super) is_marked: bool,
    pub(super) form: Form,
}

#[derive(Debug)]
pub(super) enum Form {
    Box {
        rows: Vec<Row>,
    },
    /// `half` is the distance from the middle to the side tips. The notes are beside it.
    Diamond {
        half: f64,
        notes: Vec<Note>,
    },
}

/// A row beside a diamond.
#[derive(Debug)]
pub(super) struct Note {
    /// Index of its edge.
    pub(super) edge: usize,
    pub(super) text: String,
    /// How far below the top its line leaves.
    pub(super) exit: f64,
}

const MIN_WIDTH: f64 = 120.0;
/// Height of the name and the room below the last line.
const HEAD: f64 = 31.0;
const ROW_ROOM: f64 = 200.0;
const DIAMOND_HEIGHT: f64 = 76.0;
const MIN_HALF: f64 = 58.0;
/// The part of a diamond's width that is free at the height of its name, and of the line below it.
const NAME_PART: f64 = 0.66;
const LINE_PART: f64 = 0.48;
/// Distance between two lines that leave a diamond, and of the outermost from its tips.
const EXIT_STEP: f64 = 17.0;
const TIP_ROOM: f64 = 34.0;
/// Beside a note, up to where its line turns.
const NOTE_MARGIN: f64 = 34.0;

/// `listed` are the edges that are shown as rows.
pub(super) fn shape(
    net: &Net<'_>,
    node: Node<'_>,
    listed: &[usize],
    marks: &BTreeMap<String, StepMark>,
) -> Shape {
    match node {
        Node::Step(step) => {
            let mark = marks.get(&step.id);
            let lines = vec![step.name.clone(), step.role.clone()];
            let lines = lines.into_iter().chain(mark.map(StepMark::text)).collect();
            let kind = mark.map_or(StateKind::Queued, |mark| mark.tone.kind());
            boxed(net, listed, Text { kind, name: &step.id, lines, is_marked: mark.is_some() })
        }
        Node::Gate { gate, step } => {
            let mark = mark_at_gate(step, marks);
            let kind = mark.map_or(StateKind::Parked, |mark| mark.tone.kind());
            let line = gate_line(gate, mark);
            let text = Text { kind, name: &gate.id, lines: vec![line], is_marked: mark.is_some() };
            diamond(net, listed, text)
        }
        Node::Elsewhere { workflow, step } => {
            let lines = vec![format!("of {workflow}")];
            boxed(
                net,
                listed,
                Text { kind: StateKind::Parked, name: step, lines, is_marked: false },
            )
        }
        // While steps are running, its colour must not say that the end is reached.
        Node::Done if marks.is_empty() || all_passed(net, marks) => {
            ending(net, listed, node, (StateKind::Done, "every step has passed"))
        }
        Node::Done => ending(net, listed, node, (StateKind::Queued, "not every step has passed")),
        Node::Abort => ending(net, listed, node, (StateKind::Cancelled, "aborted")),
    }
}

fn all_passed(net: &Net<'_>, marks: &BTreeMap<String, StepMark>) -> bool {
    let is_left = |node: &Node<'_>| match node {
        Node::Step(step) => marks.get(&step.id).is_none_or(|mark| mark.tone != Tone::Passed),
        Node::Gate { .. } | Node::Elsewhere { .. } | Node::Done | Node::Abort => false,
    };
    !net.nodes.iter().any(is_left)
}

fn ending(
    net: &Net<'_>,
    listed: &[usize],
    node: Node<'_>,
    (kind, line): (StateKind, &str),
) -> Shape {
    let lines = vec![line.to_owned()];
    boxed(net, listed, Text { kind, name: node.name(), lines, is_marked: true })
}

struct Text<'a> {
    kind: StateKind,
    name: &'a str,
    lines: Vec<String>,
    is_marked: bool,
}

impl Text<'_> {
    fn shape(self, (width, height): (f64, f64), form: Form) -> Shape {
        let Self { kind, name, lines, is_marked } = self;
        Shape { width, height, kind, name: shortened(name), lines, is_marked, form }
    }
}

fn boxed(net: &Net<'_>, listed: &[usize], mut text: Text<'_>) -> Shape {
    text.lines.retain(|line| !line.is_empty());
    text.lines.iter_mut().for_each(|line| *line = shortened(line));
    let mut height = HEAD + times(text.lines.len(), LINE_HEIGHT);
    let mut rows = Vec::with_capacity(listed.len());
    for index in listed {
        let edge = &net.edges[*index];
        let target = shortened(net.nodes[edge.to].name());
        let row = Row::new(*index, target, edge.words.iter().cloned(), (height, ROW_ROOM));
        height += row.height();
        rows.push(row);
    }
    height += if rows.is_empty() { 0.0 } else { PADDING };
    let widths = text.lines.iter().map(|line| small_width(line) + INDENT);
    let widths = widths.chain(rows.iter().map(Row::width));
    let name = name_width(&shortened(text.name)) + INDENT;
    let width = widths.fold(name.max(MIN_WIDTH), f64::max) + 2.0 * PADDING;
    text.shape((width, height), Form::Box { rows })
}

fn diamond(net: &Net<'_>, listed: &[usize], mut text: Text<'_>) -> Shape {
    text.lines.iter_mut().for_each(|line| *line = shortened(line));
    let below = text.lines.iter().map(|line| small_width(line)).fold(0.0, f64::max);
    let name = name_width(&shortened(text.name));
    let half = (name / 2.0 / NAME_PART).max(below / 2.0 / LINE_PART).max(MIN_HALF);
    let height = DIAMOND_HEIGHT.max(times(listed.len(), EXIT_STEP) + TIP_ROOM);
    let first = (height - times(listed.len().saturating_sub(1), EXIT_STEP)) / 2.0;
    let notes: Vec<Note> = listed
        .iter()
        .enumerate()
        .map(|(row, index)| {
            let edge = &net.edges[*index];
            let words = format!("→ {}: {}", net.nodes[edge.to].name(), edge.words.join(", "));
            let exit = first + times(row, EXIT_STEP);
            Note { edge: *index, text: fitted(&words, ROW_ROOM), exit }
        })
        .collect();
    let widest = notes.iter().map(|note| small_width(&note.text) + NOTE_MARGIN).fold(0.0, f64::max);
    text.shape((2.0 * (half + widest), height), Form::Diamond { half, notes })
}

fn times(count: usize, step: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * step
}

impl Shape {
    /// How far below the top the line of an edge leaves at a side.
    pub(super) fn side_exit(&self, edge: usize) -> f64 {
        let exit = match &self.form {
            Form::Box { rows } => {
                rows.iter().find(|row| row.edge == edge).map(|row| row.baseline - 4.0)
            }
            Form::Diamond { notes, .. } => {
                notes.iter().find(|note| note.edge == edge).map(|note| note.exit)
            }
        };
        exit.unwrap_or(self.height / 2.0)
    }

    /// How far below the top a line leaves that starts this far from the middle.
    pub(super) fn bottom_exit(&self, offset: f64) -> f64 {
        match &self.form {
            Form::Box { .. } => self.height,
            Form::Diamond { half, .. } => {
                self.height * (1.0 - offset.abs().min(*half) / half / 2.0)
            }
        }
    }

    /// How far the outline is from the middle at a height.
    pub(super) fn half_at(&self, exit: f64) -> f64 {
        match &self.form {
            Form::Box { .. } => self.width / 2.0,
            Form::Diamond { half, .. } => {
                let middle = self.height / 2.0;
                half * (1.0 - (exit - middle).abs() / middle)
            }
        }
    }
}
