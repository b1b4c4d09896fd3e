//! Draws a workflow as a self-contained SVG: no script, no font, nothing to fetch.
//!
//! It only writes what `shape` and `draw` computed. No meaning depends on colour alone: a status
//! has a word and a sign, retry routes are dashed, steps of other workflows dotted, and ends have a
//! double border.

use std::collections::BTreeMap;

use super::shape::{Form, Note, Shape, shape};
use super::{Edge, EdgeDirection, Net, Node, StepMark, Workflow};
use crate::draw::layout::{self, Line, Order, Plan, Sizes};
use crate::draw::pen::{Head, Pen, Stroke, TOP, number, pair, width_and_shift};
use crate::draw::route::{self, Corners, Ports, Round};
use crate::draw::style::sign;
use crate::draw::words::{INDENT, LINE_HEIGHT, PADDING, Words};

const LEGEND: [&str; 3] = [
    "A diamond is a gate. A dashed line shows where it sends the work when it fails;",
    "≤ is the number of the failure that asks a person instead.",
    "A dotted box is a step of another workflow. A double border is an end.",
];

/// The workflow as a picture; marked steps show their status.
#[must_use]
pub fn svg(flow: &Workflow, marks: &BTreeMap<String, StepMark>) -> String {
    let net = Net::new(flow);
    let sketch = Sketch::new(&net, marks);
    let sizes = sketch.sizes();
    let plan = layout::plan(&sketch.lines, &sketch.order, &sizes);
    let round_edges: Vec<usize> =
        (0..net.edges.len()).filter(|edge| !sketch.order.down[*edge]).collect();
    let rounds: Vec<Round> = round_edges.iter().map(|edge| sketch.round(*edge)).collect();
    let mut corners = vec![Corners::new(); net.edges.len()];
    for (edge, route) in round_edges.iter().zip(route::routes(&plan, &sizes.boxes, &rounds)) {
        corners[*edge] = sketch.led_from_outline(&plan, *edge, route);
    }

    let (width, shift) = width_and_shift(&plan, &corners, 0.0);
    let ports = route::ports(&plan, &sizes.boxes, &sketch.lines);
    let mut picture = Picture { pen: Pen::new(shift), net: &net, sketch: &sketch, plan: &plan };
    for edge in round_edges {
        let class = format!("{} lc-round", class(&net.edges[edge]));
        picture.pen.round(&class, &net.edge_title(&net.edges[edge]), &corners[edge]);
    }
    for (edge, ports) in ports.into_iter().enumerate() {
        picture.line(edge, ports);
    }
    for place in 0..net.nodes.len() {
        picture.node(place, &corners, marks);
    }
    let bottom = TOP + plan.layers.last().map_or(0.0, |layer| layer.bottom);
    let height = picture.pen.legend(&LEGEND, bottom);
    let about = if flow.about.is_empty() { &flow.id } else { &flow.about };
    let head = Head {
        class: "banksman-workflow",
        title: &format!("Workflow {}", flow.id),
        name: &flow.name,
        about,
    };
    picture.pen.finish(&head, width, height)
}

/// The contents of the picture before anything has a position. The lines are the edges, in their
/// order.
struct Sketch {
    shapes: Vec<Shape>,
    lines: Vec<Line>,
    words: Vec<Words>,
    order: Order,
}

impl Sketch {
    fn new(net: &Net<'_>, marks: &BTreeMap<String, StepMark>) -> Self {
        let line = |edge: &Edge| Line { from: edge.from, to: edge.to };
        let lines: Vec<Line> = net.edges.iter().map(line).collect();
        let leads =
            |edge: &&Edge| edge.direction == EdgeDirection::Forward || is_end(net.nodes[edge.to]);
        let leading: Vec<Line> = net.edges.iter().filter(leads).map(line).collect();
        let order = layout::order_along(net.nodes.len(), &lines, &leading);

        let mut listed = vec![Vec::new(); net.nodes.len()];
        for (index, edge) in net.edges.iter().enumerate() {
            if !order.down[index] {
                listed[edge.from].push(index);
            }
        }
        let nodes = net.nodes.iter().zip(&listed);
        let shapes = nodes.map(|(node, listed)| shape(net, *node, listed, marks)).collect();
        let words = net.edges.iter().map(|edge| Words::new(edge.words.clone())).collect();
        Self { shapes, lines, words, order }
    }

    fn sizes(&self) -> Sizes {
        let boxes = self.shapes.iter().map(|shape| (shape.width, shape.height));
        let words = self.words.iter().map(|words| (words.width, words.height));
        Sizes { boxes: boxes.collect(), words: words.collect() }
    }

    fn round(&self, edge: usize) -> Round {
        let line = self.lines[edge];
        Round { line, exit: self.shapes[line.from].side_exit(edge) }
    }

    /// Extends a line that goes round from the outline of a diamond to the border of its box.
    fn led_from_outline(&self, plan: &Plan, edge: usize, route: Corners) -> Corners {
        let from = self.lines[edge].from;
        let (shape, spot) = (&self.shapes[from], plan.boxes[from]);
        let (Form::Diamond { .. }, Some(first)) = (&shape.form, route.first()) else {
            return route;
        };
        let exit = shape.side_exit(edge);
        let half = shape.half_at(exit);
        let x = spot.middle + if first.0 < spot.middle { -half } else { half };
        let y = spot.top + exit;
        let leave = if first.1 == y { vec![(x, y)] } else { vec![(x, y), (first.0, y)] };
        leave.into_iter().chain(route).collect()
    }
}

struct Picture<'a> {
    pen: Pen,
    net: &'a Net<'a>,
    sketch: &'a Sketch,
    plan: &'a Plan,
}

impl Picture<'_> {
    /// A line that leads down, with its words.
    fn line(&mut self, edge: usize, ports: Ports) {
        let Some(way) = &self.plan.ways[edge] else { return };
        let ends = self.sketch.lines[edge];
        let stroke = Stroke {
            class: class(&self.net.edges[edge]),
            title: &self.net.edge_title(&self.net.edges[edge]),
            ends,
            ports,
            height: self.sketch.shapes[ends.from].bottom_exit(ports.start),
            words: &self.sketch.words[edge],
        };
        self.pen.line(self.plan, way, &stroke);
    }

    fn node(&mut self, place: usize, corners: &[Corners], marks: &BTreeMap<String, StepMark>) {
        let (node, shape, spot) =
            (self.net.nodes[place], &self.sketch.shapes[place], self.plan.boxes[place]);
        let dotted = if matches!(node, Node::Elsewhere { .. }) { " lc-dotted" } else { "" };
        self.pen.put(&format!("<g class=\"lc-state lc-{}{dotted}\">", shape.kind));
        self.pen.title(&node_title(node, marks));
        let (middle, top) = (spot.middle + self.pen.shift, TOP + spot.top);
        match &shape.form {
            Form::Box { rows } => {
                let left = middle - shape.width / 2.0;
                self.frame(shape, is_end(node), left, top);
                for row in rows {
                    let title = self.net.edge_title(&self.net.edges[row.edge]);
                    self.pen.row(&title, row, left + PADDING, top + row.baseline);
                }
            }
            Form::Diamond { half, notes } => {
                self.diamond(shape, *half, middle, top);
                for note in notes {
                    let leaves_left =
                        corners[note.edge].first().is_some_and(|(x, _)| *x < spot.middle);
                    self.note(shape, note, leaves_left, (middle, top));
                }
            }
        }
        self.pen.put("</g>");
    }

    fn frame(&mut self, shape: &Shape, is_end: bool, left: f64, top: f64) {
        self.pen.rect("lc-box", (left, top), (shape.width, shape.height));
        if is_end {
            let inside = (shape.width - 6.0, shape.height - 6.0);
            self.pen.rect("lc-inner", (left + 3.0, top + 3.0), inside);
        }
        if shape.is_marked {
            self.pen.put(&sign(shape.kind, number(left + PADDING), number(top + 11.0)));
        }
        let x = left + PADDING + if shape.is_marked { INDENT } else { 0.0 };
        let mut baseline = top + 22.0;
        self.pen.text("lc-name", x, baseline, &shape.name);
        for line in &shape.lines {
            baseline += LINE_HEIGHT;
            self.pen.text("lc-duty", x, baseline, line);
        }
    }

    fn diamond(&mut self, shape: &Shape, half: f64, middle: f64, top: f64) {
        let y = top + shape.height / 2.0;
        let corners =
            [(middle, top), (middle + half, y), (middle, top + shape.height), (middle - half, y)];
        let points = corners.map(pair).join(" ");
        self.pen.put(&format!("<polygon class=\"lc-box\" points=\"{points}\"/>"));
        if shape.is_marked {
            self.pen.put(&sign(shape.kind, number(middle - 6.0), number(y - 28.0)));
        }
        self.pen.text("lc-name lc-middle", middle, y + 1.0, &shape.name);
        for line in &shape.lines {
            self.pen.text("lc-duty lc-middle", middle, y + 1.0 + LINE_HEIGHT, line);
        }
    }

    /// Placed on its line, on the side where the line leaves.
    fn note(&mut self, shape: &Shape, note: &Note, leaves_left: bool, (middle, top): (f64, f64)) {
        // Below the tip the diamond is wider at the height of the letters than at the height of the
        // line.
        let half = shape.half_at(note.exit).max(shape.half_at(note.exit - LINE_HEIGHT)) + 6.0;
        let baseline = top + note.exit - 4.0;
        self.pen.put("<g class=\"lc-edge\">");
        self.pen.title(&self.net.edge_title(&self.net.edges[note.edge]));
        if leaves_left {
            self.pen.text("lc-row lc-left", middle - half, baseline, &note.text);
        } else {
            self.pen.text("lc-row", middle + half, baseline, &note.text);
        }
        self.pen.put("</g>");
    }
}

fn class(edge: &Edge) -> &'static str {
    match edge.direction {
        EdgeDirection::Forward => "lc-edge",
        EdgeDirection::Back => "lc-edge lc-dashed",
    }
}

fn is_end(node: Node<'_>) -> bool {
    match node {
        Node::Done | Node::Abort => true,
        Node::Step(_) | Node::Gate { .. } | Node::Elsewhere { .. } => false,
    }
}

fn node_title(node: Node<'_>, marks: &BTreeMap<String, StepMark>) -> String {
    match node {
        Node::Step(step) => {
            let mark = marks.get(&step.id).map(|mark| format!(". {}", mark.text()));
            let about = format!("Step {}: {}, by {}", step.id, step.name, step.role);
            format!("{about}{}", mark.unwrap_or_default())
        }
        Node::Gate { gate, .. } => {
            let level = gate.level.as_str();
            let limit = gate.max_retries;
            format!("Gate {}: {}, level {level}, max_retries {limit}", gate.id, gate.name)
        }
        Node::Elsewhere { workflow, step } => format!("Step {step} of the workflow {workflow}"),
        Node::Done => "The end: every step has passed".to_owned(),
        Node::Abort => "The end: the workflow is aborted".to_owned(),
    }
}
