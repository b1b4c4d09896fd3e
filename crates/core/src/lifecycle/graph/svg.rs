//! A lifecycle as an SVG that stands alone: no script, no font, nothing to fetch.
//!
//! It only writes down what `sketch` and `draw` found. No meaning is carried by colour alone: kinds
//! have a word and a sign, the current state a word, the end of a task a double border.

use super::super::{Lifecycle, State, StateId, state_id};
use super::Edge;
use super::card::{Card, HEADER_HEIGHT};
use super::sketch::{Sketch, sketch};
use crate::draw::layout::{self, Plan};
use crate::draw::pen::{Head, MARGIN, Pen, Stroke, TOP, number, width_and_shift};
use crate::draw::route::{self, Ports, Round};
use crate::draw::style::sign;
use crate::draw::words::{INDENT, PADDING};

const ASIDE_GAP: f64 = 28.0;
/// A row of states that were set aside is not a reason to make the picture wider than this.
const MAX_ASIDE_WIDTH: f64 = 1_000.0;
const LEGEND: [&str; 2] = [
    "A line with words leads on. A row in a box is another way out, named by where it leads.",
    "A double border: nothing leads out of this state.",
];

/// The lifecycle as a picture, the current state of a task marked.
#[must_use]
pub fn svg(lifecycle: &Lifecycle, current: Option<StateId>) -> String {
    let sketch = sketch(lifecycle);
    let sizes = sketch.sizes();
    let plan = layout::plan(&sketch.lines, &sketch.order, &sizes);
    let rounds = rounds(&sketch);
    let corners = route::routes(
        &plan,
        &sizes.boxes,
        &rounds.iter().map(|(_, round)| *round).collect::<Vec<_>>(),
    );

    let (width, shift) = width_and_shift(&plan, &corners, aside_width(&sketch));
    let ports = route::ports(&plan, &sizes.boxes, &sketch.lines);
    let mut picture = Picture { pen: Pen::new(shift), lifecycle, current };
    for ((line, _), corners) in rounds.iter().zip(&corners) {
        let title = picture.edge_title(&sketch.edges[sketch.line_edges[*line]]);
        picture.pen.round("lc-edge lc-round", &title, corners);
    }
    for (line, ports) in ports.into_iter().enumerate() {
        picture.line(&sketch, &plan, line, ports);
    }
    picture.start(&plan);
    for (place, state) in sketch.placed.iter().enumerate() {
        let spot = plan.boxes[place];
        let card = &sketch.cards[*state];
        picture.card(&sketch, *state, spot.middle + shift - card.width / 2.0, TOP + spot.top);
    }
    let bottom = TOP + plan.layers.last().map_or(0.0, |layer| layer.bottom);
    let bottom = picture.aside(&sketch, width, bottom);
    let height = picture.pen.legend(&LEGEND, bottom);
    let head = Head {
        class: "banksman-lifecycle",
        title: &format!("Lifecycle {}", lifecycle.id),
        name: &lifecycle.id,
        about: &lifecycle.about,
    };
    picture.pen.finish(&head, width, height)
}

/// The lines that go round, each with its place among the lines.
fn rounds(sketch: &Sketch) -> Vec<(usize, Round)> {
    let around = (0..sketch.lines.len()).filter(|line| !sketch.order.down[*line]);
    let round = |line: usize| {
        let card = &sketch.cards[sketch.placed[sketch.lines[line].from]];
        let row = card.rows.iter().find(|row| row.edge == sketch.line_edges[line]);
        let exit = row.map_or(HEADER_HEIGHT / 2.0, |row| row.baseline - 4.0);
        (line, Round { line: sketch.lines[line], exit })
    };
    around.map(round).collect()
}

/// The width at which the states that were set aside stand in one row, up to a limit.
fn aside_width(sketch: &Sketch) -> f64 {
    let widths = sketch.aside.iter().map(|state| sketch.cards[*state].width + ASIDE_GAP);
    (widths.sum::<f64>() - ASIDE_GAP + 2.0 * MARGIN).min(MAX_ASIDE_WIDTH)
}

struct Picture<'a> {
    pen: Pen,
    lifecycle: &'a Lifecycle,
    current: Option<StateId>,
}

impl Picture<'_> {
    fn edge_title(&self, edge: &Edge) -> String {
        let causes: Vec<String> = edge.causes.iter().map(super::Cause::long_text).collect();
        let from = &self.lifecycle.state(edge.from).name;
        format!("{from} → {}: {}", self.lifecycle.target_name(edge.to), causes.join(", "))
    }

    /// A line that leads down, with its words.
    fn line(&mut self, sketch: &Sketch, plan: &Plan, line: usize, ports: Ports) {
        let Some(way) = &plan.ways[line] else { return };
        let ends = sketch.lines[line];
        let title = self.edge_title(&sketch.edges[sketch.line_edges[line]]);
        let stroke = Stroke {
            class: "lc-edge",
            title: &title,
            ends,
            ports,
            height: sketch.cards[sketch.placed[ends.from]].height,
            words: &sketch.words[line],
        };
        self.pen.line(plan, way, &stroke);
    }

    /// The dot where a task begins.
    fn start(&mut self, plan: &Plan) {
        let Some(spot) = plan.boxes.first() else {
            return;
        };
        let (x, y) = (number(spot.middle + self.pen.shift), TOP + spot.top);
        let (dot, end) = (number(y - 28.0), number(y));
        self.pen.put("<g class=\"lc-edge\">");
        self.pen.title("A task begins here");
        self.pen.put(&format!("<circle class=\"lc-arrow\" cx=\"{x}\" cy=\"{dot}\" r=\"6\"/>"));
        self.pen.put(&format!("<path class=\"lc-line\" d=\"M{x} {dot}V{}\"/>", number(y - 5.0)));
        self.pen.put(&format!("<path class=\"lc-arrow\" d=\"M{x} {end}l-4-8h8z\"/>"));
        self.pen.put("</g>");
    }

    fn card(&mut self, sketch: &Sketch, index: usize, x: f64, y: f64) {
        let state = &self.lifecycle.states[index];
        let card = &sketch.cards[index];
        let is_current = self.current == Some(state_id(index));
        let marked = if is_current { " lc-current" } else { "" };
        self.pen.put(&format!("<g class=\"lc-state lc-{}{marked}\">", state.kind));
        self.pen.title(&state_title(state, is_current));
        self.frame(card, state, x, y);
        self.pen.put(&sign(state.kind, number(x + PADDING), number(y + 11.0)));
        self.pen.text("lc-name", x + PADDING + INDENT, y + 22.0, &card.name);
        self.pen.text("lc-duty", x + PADDING + INDENT, y + 37.0, &card.duty);
        if is_current {
            let (left, top) = (x + card.width - 70.0, y - 9.0);
            let place = format!("x=\"{}\" y=\"{}\"", number(left), number(top));
            self.pen.put(&format!(
                "<rect class=\"lc-badge\" {place} width=\"58\" height=\"18\" rx=\"9\"/>"
            ));
            self.pen.text("lc-badge-text", left + 29.0, top + 13.0, "current");
        }
        for row in &card.rows {
            let title = self.edge_title(&sketch.edges[row.edge]);
            self.pen.row(&title, row, x + PADDING, y + row.baseline);
        }
        self.pen.put("</g>");
    }

    fn frame(&mut self, card: &Card, state: &State, x: f64, y: f64) {
        self.pen.rect("lc-box", (x, y), (card.width, card.height));
        if state.terminal {
            let inside = (card.width - 6.0, card.height - 6.0);
            self.pen.rect("lc-inner", (x + 3.0, y + 3.0), inside);
        }
    }

    /// The states that were set aside, in rows below the rest. Returns where they end.
    fn aside(&mut self, sketch: &Sketch, width: f64, top: f64) -> f64 {
        if sketch.aside.is_empty() {
            return top;
        }
        let mut y = top + 44.0;
        self.pen.text("lc-heading", MARGIN, y, "Reached from many states");
        y += 18.0;
        let (mut x, mut row_height) = (MARGIN, 0.0_f64);
        for state in &sketch.aside {
            let card = &sketch.cards[*state];
            if x > MARGIN && x + card.width > width - MARGIN {
                (x, y) = (MARGIN, y + row_height + ASIDE_GAP);
                row_height = 0.0;
            }
            self.card(sketch, *state, x, y);
            x += card.width + ASIDE_GAP;
            row_height = row_height.max(card.height);
        }
        y + row_height
    }
}

fn state_title(state: &State, is_current: bool) -> String {
    let mut title = format!("{}: {}", state.name, state.kind);
    if state.terminal {
        title.push_str(", the end");
    }
    if is_current {
        title.push_str(", current");
    }
    if !state.about.is_empty() {
        title.push_str(". ");
        title.push_str(&state.about);
    }
    title
}
