//! A lifecycle as an SVG that stands alone: no script, no font, nothing to fetch.
//!
//! It only writes down what `sketch`, `layout` and `route` found. Every text is escaped, every state
//! and edge has a title for those who cannot see it, and no meaning is carried by colour alone: kinds
//! have a word and a sign, the current state a word, the end of a task a double border.

use std::fmt::Write;

use super::super::{Lifecycle, State, StateId, state_id};
use super::Edge;
use super::card::{self, Card, HEADER_HEIGHT, INDENT, LINE_HEIGHT, PADDING, Row, Words};
use super::layout::{self, Plan};
use super::route::{self, Corners, Ports, Round};
use super::sketch::{Sketch, sketch};
use super::style::{STYLE, sign};

/// Room around everything.
const MARGIN: f64 = 24.0;
/// Room for the name of the lifecycle, and for the dot where a task begins.
const TOP: f64 = 104.0;
const MIN_WIDTH: f64 = 560.0;
const CORNER: f64 = 8.0;
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

    let (left, right) = reach(&plan, &corners);
    let width = (right - left + 2.0 * MARGIN).max(MIN_WIDTH).max(aside_width(&sketch));
    // What is narrower than the picture stands in its middle.
    let shift = (width - (right - left)) / 2.0 - left;
    let ports = route::ports(&plan, &sizes.boxes, &sketch.lines);
    let mut pen = Pen { out: String::new(), lifecycle, current, shift };
    for ((line, _), corners) in rounds.iter().zip(&corners) {
        pen.round(&sketch.edges[sketch.line_edges[*line]], corners);
    }
    for (line, ports) in ports.into_iter().enumerate() {
        pen.line(&sketch, &plan, line, ports);
    }
    pen.start(&plan);
    for (place, state) in sketch.placed.iter().enumerate() {
        let spot = plan.boxes[place];
        let card = &sketch.cards[*state];
        pen.card(&sketch, *state, spot.middle + shift - card.width / 2.0, TOP + spot.top);
    }
    let bottom = TOP + plan.layers.last().map_or(0.0, |layer| layer.bottom);
    let bottom = pen.aside(&sketch, width, bottom);
    let height = pen.legend(bottom);
    pen.finish(width, height)
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

/// How far the drawing reaches to the left and to the right.
fn reach(plan: &Plan, corners: &[Corners]) -> (f64, f64) {
    let corners = || corners.iter().flatten().map(|corner| corner.0);
    let left = plan.layers.iter().map(|layer| layer.left).chain(corners()).fold(f64::MAX, f64::min);
    let right =
        plan.layers.iter().map(|layer| layer.right).chain(corners()).fold(f64::MIN, f64::max);
    (left, right)
}

/// The width at which the states that were set aside stand in one row, up to a limit.
fn aside_width(sketch: &Sketch) -> f64 {
    let widths = sketch.aside.iter().map(|state| sketch.cards[*state].width + ASIDE_GAP);
    (widths.sum::<f64>() - ASIDE_GAP + 2.0 * MARGIN).min(MAX_ASIDE_WIDTH)
}

struct Pen<'a> {
    out: String,
    lifecycle: &'a Lifecycle,
    current: Option<StateId>,
    /// From the plan's middle to the picture's.
    shift: f64,
}

impl Pen<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn title(&mut self, text: &str) {
        self.put(&format!("<title>{}</title>", escaped(text)));
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let (x, y) = (number(x), number(y));
        self.put(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(text)));
    }

    fn edge_title(&self, edge: &Edge) -> String {
        let causes: Vec<String> = edge.causes.iter().map(super::Cause::long_text).collect();
        let from = &self.lifecycle.state(edge.from).name;
        format!("{from} → {}: {}", self.lifecycle.target_name(edge.to), causes.join(", "))
    }

    /// A line that leads down, with its words.
    fn line(&mut self, sketch: &Sketch, plan: &Plan, line: usize, ports: Ports) {
        let Some(way) = &plan.ways[line] else { return };
        let ends = sketch.lines[line];
        let (from, to) = (plan.boxes[ends.from], plan.boxes[ends.to]);
        let card = &sketch.cards[sketch.placed[ends.from]];
        let mut x = from.middle + self.shift + ports.start;
        let mut y = TOP + plan.layers[from.layer].bottom;
        let mut path =
            format!("M{} {}V{}", number(x), number(TOP + from.top + card.height), number(y));
        for (index, spot) in way.through.iter().enumerate() {
            let layer = plan.layers[spot.layer];
            curve(&mut path, (x, y), (spot.middle + self.shift, TOP + layer.top));
            (x, y) = (spot.middle + self.shift, TOP + layer.bottom);
            // The line makes room for its words, which are at the first place.
            let step = if index == 0 {
                let below = TOP + layer.top + sketch.words[line].height;
                format!("M{} {}V{}", number(x), number(below), number(y))
            } else {
                format!("V{}", number(y))
            };
            path.push_str(&step);
        }
        let end = (to.middle + self.shift + ports.arrow, TOP + to.top);
        curve(&mut path, (x, y), (end.0, end.1 - 5.0));

        let title = self.edge_title(&sketch.edges[sketch.line_edges[line]]);
        self.put("<g class=\"lc-edge\">");
        self.title(&title);
        self.put(&format!("<path class=\"lc-line\" d=\"{path}\"/>"));
        self.put(&format!(
            "<path class=\"lc-arrow\" d=\"M{} {}l-4-8h8z\"/>",
            number(end.0),
            number(end.1)
        ));
        if let Some(first) = way.through.first() {
            self.words(&sketch.words[line], first.middle + self.shift, TOP + first.top);
        }
        self.put("</g>");
    }

    fn words(&mut self, words: &Words, middle: f64, top: f64) {
        let mut baseline = top + 11.0;
        for line in &words.lines {
            self.text("lc-words", middle, baseline, line);
            baseline += LINE_HEIGHT;
        }
    }

    /// A line that goes round at the side. Its words are in the box it leaves.
    fn round(&mut self, edge: &Edge, corners: &[(f64, f64)]) {
        let corners: Vec<(f64, f64)> =
            corners.iter().map(|(x, y)| (x + self.shift, TOP + y)).collect();
        let [.., before, last] = corners.as_slice() else {
            return;
        };
        let arrow = if before.1 < last.1 {
            "l-4-8h8z"
        } else if before.0 < last.0 {
            "l-8-4v8z"
        } else {
            "l8-4v8z"
        };
        let title = self.edge_title(edge);
        self.put("<g class=\"lc-edge lc-round\">");
        self.title(&title);
        self.put(&format!("<path class=\"lc-line\" d=\"{}\"/>", rounded(&corners)));
        self.put(&format!(
            "<path class=\"lc-arrow\" d=\"M{} {}{arrow}\"/>",
            number(last.0),
            number(last.1)
        ));
        self.put("</g>");
    }

    /// The dot where a task begins.
    fn start(&mut self, plan: &Plan) {
        let Some(spot) = plan.boxes.first() else {
            return;
        };
        let (x, y) = (number(spot.middle + self.shift), TOP + spot.top);
        let (dot, end) = (number(y - 28.0), number(y));
        self.put("<g class=\"lc-edge\">");
        self.title("A task begins here");
        self.put(&format!("<circle class=\"lc-arrow\" cx=\"{x}\" cy=\"{dot}\" r=\"6\"/>"));
        self.put(&format!("<path class=\"lc-line\" d=\"M{x} {dot}V{}\"/>", number(y - 5.0)));
        self.put(&format!("<path class=\"lc-arrow\" d=\"M{x} {end}l-4-8h8z\"/>"));
        self.put("</g>");
    }

    fn card(&mut self, sketch: &Sketch, index: usize, x: f64, y: f64) {
        let state = &self.lifecycle.states[index];
        let card = &sketch.cards[index];
        let is_current = self.current == Some(state_id(index));
        let marked = if is_current { " lc-current" } else { "" };
        self.put(&format!("<g class=\"lc-state lc-{}{marked}\">", state.kind));
        self.title(&state_title(state, is_current));
        self.frame(card, state, x, y);
        self.put(&sign(state.kind, number(x + PADDING), number(y + 11.0)));
        self.text("lc-name", x + PADDING + INDENT, y + 22.0, &card.name);
        self.text("lc-duty", x + PADDING + INDENT, y + 37.0, &card.duty);
        if is_current {
            let (left, top) = (x + card.width - 70.0, y - 9.0);
            let place = format!("x=\"{}\" y=\"{}\"", number(left), number(top));
            self.put(&format!(
                "<rect class=\"lc-badge\" {place} width=\"58\" height=\"18\" rx=\"9\"/>"
            ));
            self.text("lc-badge-text", left + 29.0, top + 13.0, "current");
        }
        for row in &card.rows {
            self.row(&sketch.edges[row.edge], row, x + PADDING, y + row.baseline);
        }
        self.put("</g>");
    }

    fn frame(&mut self, card: &Card, state: &State, x: f64, y: f64) {
        self.rect("lc-box", x, y, card.width, card.height);
        if state.terminal {
            self.rect("lc-inner", x + 3.0, y + 3.0, card.width - 6.0, card.height - 6.0);
        }
    }

    fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let place = format!("x=\"{}\" y=\"{}\"", number(x), number(y));
        let size = format!("width=\"{}\" height=\"{}\"", number(width), number(height));
        self.put(&format!("<rect class=\"{class}\" {place} {size} rx=\"8\"/>"));
    }

    fn row(&mut self, edge: &Edge, row: &Row, x: f64, baseline: f64) {
        let title = self.edge_title(edge);
        self.put("<g class=\"lc-edge\">");
        self.title(&title);
        let mut lines = row.lines.iter();
        let (head, first) =
            (escaped(&row.target), escaped(lines.next().map_or("", String::as_str)));
        let place = format!("x=\"{}\" y=\"{}\"", number(x), number(baseline));
        let head = format!("<tspan class=\"lc-target\">→ {head}</tspan>");
        self.put(&format!("<text class=\"lc-row\" {place}>{head}  {first}</text>"));
        let mut baseline = baseline;
        for line in lines {
            baseline += LINE_HEIGHT;
            self.text("lc-row", x + INDENT, baseline, line);
        }
        self.put("</g>");
    }

    /// The states that were set aside, in rows below the rest. Returns where they end.
    fn aside(&mut self, sketch: &Sketch, width: f64, top: f64) -> f64 {
        if sketch.aside.is_empty() {
            return top;
        }
        let mut y = top + 44.0;
        self.text("lc-heading", MARGIN, y, "Reached from many states");
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

    /// How to read it. Returns the height of the picture.
    fn legend(&mut self, bottom: f64) -> f64 {
        let mut y = bottom + 36.0;
        for line in LEGEND {
            self.text("lc-legend", MARGIN, y, line);
            y += LINE_HEIGHT;
        }
        y + MARGIN - LINE_HEIGHT
    }

    fn finish(mut self, width: f64, height: f64) -> String {
        let body = std::mem::take(&mut self.out);
        let about = card::fitted(&self.lifecycle.about, width - 2.0 * MARGIN);
        let (width, height) = (number(width), number(height));
        let name = &self.lifecycle.id;
        self.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"banksman-lifecycle\" role=\"img\" \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">"
        ));
        self.title(&format!("Lifecycle {name}"));
        self.put(&format!("<desc>{}</desc>", escaped(&self.lifecycle.about)));
        self.put(&format!("<style>\n{STYLE}</style>"));
        self.put(&format!("<rect class=\"lc-paper\" width=\"{width}\" height=\"{height}\"/>"));
        self.text("lc-heading", MARGIN, 34.0, name);
        self.text("lc-legend", MARGIN, 52.0, &about);
        self.out.push_str(&body);
        self.put("</svg>");
        self.out
    }
}

fn curve(path: &mut String, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
    let half = number((y + to_y) / 2.0);
    let (from, x, y) = (number(x), number(to_x), number(to_y));
    write!(path, "C{from} {half} {x} {half} {x} {y}").expect("writing to a string does not fail");
}

/// A path along corners that are rounded off.
fn rounded(corners: &[(f64, f64)]) -> String {
    let Some(((x, y), rest)) = corners.split_first() else {
        return String::new();
    };
    let mut path = format!("M{} {}", number(*x), number(*y));
    for (index, corner) in rest.iter().enumerate() {
        let before = corners[index];
        let entry = towards(*corner, before);
        let step = match rest.get(index + 1) {
            Some(after) => {
                let leave = towards(*corner, *after);
                let (entry, corner) = (pair(entry), pair(*corner));
                format!("L{entry}Q{corner} {}", pair(leave))
            }
            None => format!("L{}", pair(*corner)),
        };
        path.push_str(&step);
    }
    path
}

/// A point near a corner on the way to another, at most half of it.
fn towards(from: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let step = |from: f64, to: f64| {
        let distance = to - from;
        from + distance.signum() * (distance.abs() / 2.0).min(CORNER)
    };
    (step(from.0, to.0), step(from.1, to.1))
}

fn pair((x, y): (f64, f64)) -> String {
    format!("{} {}", number(x), number(y))
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

/// Whole pixels: the eye sees no difference, and the text stays the same on every machine.
fn number(value: f64) -> i64 {
    value.round() as i64
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write them.
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}
