//! Writes a graph as a self-contained SVG: no script, no font, nothing to fetch.
//!
//! It only writes what `sketch`, `layout` and `route` computed. Every text is escaped, and every
//! box and line has a title for screen readers. No meaning depends on colour alone: kinds have a
//! sign, the current node a word, edges that send work back are dashed, ends have a double border.

use std::fmt::Write;

use super::layout::{self, Layout, Size, Spot};
use super::route::{self, Corners, Ports};
use super::sketch::{Card, Sketch};
use super::style::{look, sheet};
use super::words::{INDENT, LINE_HEIGHT, PADDING, Row, fitted};
use super::{Graph, GraphEdge, GraphNode, Shape};

/// Room around everything.
const MARGIN: f64 = 24.0;
/// Room for the heading, and for the dot at a start.
const TOP: f64 = 104.0;
const MIN_WIDTH: f64 = 560.0;
const CORNER: f64 = 8.0;
const ASIDE_GAP: f64 = 28.0;
/// A row of nodes that were set aside is not a reason to make the picture wider than this.
const MAX_ASIDE_WIDTH: f64 = 1_000.0;

pub(super) fn svg(graph: &Graph) -> String {
    let sketch = Sketch::new(graph);
    let sizes = sketch.box_sizes();
    let words: Vec<Size> = sketch.words.iter().map(|words| words.size).collect();
    let plan = layout::plan(&sketch.lines, &sketch.order, &sizes, &words);
    let rounds = sketch.rounds();
    let corners = route::routes(&plan, &sizes, &rounds);
    let ports = route::ports(&plan, &sizes, &sketch.lines);
    let (width, shift) = width_and_shift(&sketch, &plan, &corners);

    let mut picture = Picture { graph, sketch: &sketch, plan: &plan, shift, out: String::new() };
    for (round, corners) in rounds.iter().zip(&corners) {
        picture.round(&graph.edges[round.edge], corners);
    }
    for (line, (ports, way)) in ports.into_iter().zip(&plan.ways).enumerate() {
        if let Some(way) = way {
            picture.line(line, ports, way);
        }
    }
    picture.start();
    for (spot, node) in plan.boxes.iter().zip(&sketch.placed) {
        let left = spot.middle + shift - sketch.cards[*node].width / 2.0;
        picture.node(*node, left, TOP + spot.top);
    }
    let bottom = TOP + plan.layers.last().map_or(0.0, |layer| layer.bottom);
    let bottom = picture.aside(width, bottom);
    picture.finish(width, bottom)
}

/// The width of the picture, and how far its plan must move to be centred.
fn width_and_shift(sketch: &Sketch, plan: &Layout, corners: &[Corners]) -> (f64, f64) {
    let layers = plan.layers.iter().flat_map(|layer| [layer.left, layer.right]);
    let reach = layers.chain(corners.iter().flatten().map(|corner| corner.0));
    let (left, right) =
        reach.fold((f64::MAX, f64::MIN), |(left, right), x| (left.min(x), right.max(x)));
    let aside = sketch.aside.iter().map(|node| sketch.cards[*node].width + ASIDE_GAP);
    let aside = (aside.sum::<f64>() - ASIDE_GAP + 2.0 * MARGIN).min(MAX_ASIDE_WIDTH);
    let width = (right - left + 2.0 * MARGIN).max(MIN_WIDTH).max(aside);
    (width, (width - (right - left)) / 2.0 - left)
}

struct Picture<'a> {
    graph: &'a Graph,
    sketch: &'a Sketch,
    plan: &'a Layout,
    /// From the middle of the plan to the middle of the picture.
    shift: f64,
    out: String,
}

impl Picture<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn open(&mut self, class: &str, title: &str) {
        self.put(&format!("<g class=\"{class}\">\n<title>{}</title>", escaped(title)));
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y) = (number(x), number(y));
        self.put(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(text)));
    }

    fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let place = format!("x=\"{}\" y=\"{}\"", number(x), number(y));
        let size = format!("width=\"{}\" height=\"{}\"", number(width), number(height));
        self.put(&format!("<rect class=\"{class}\" {place} {size} rx=\"8\"/>"));
    }

    fn path(&mut self, class: &str, path: &str) {
        self.put(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// A line that leads down, with its words.
    fn line(&mut self, index: usize, ports: Ports, way: &[Spot]) {
        let (line, words) = (self.sketch.lines[index], &self.sketch.words[index]);
        let (from, to) = (self.plan.boxes[line.from], self.plan.boxes[line.to]);
        let height = self.sketch.cards[self.sketch.placed[line.from]].height;
        let mut x = from.middle + self.shift + ports.start;
        let mut y = TOP + self.plan.layers[from.layer].bottom;
        let mut path = format!("M{}V{}", pair((x, TOP + from.top + height)), number(y));
        for (index, spot) in way.iter().enumerate() {
            let layer = self.plan.layers[spot.layer];
            curve(&mut path, (x, y), (spot.middle + self.shift, TOP + layer.top));
            (x, y) = (spot.middle + self.shift, TOP + layer.bottom);
            // The line leaves room for its words, which are at the first position.
            if index == 0 {
                path.push_str(&format!("M{}", pair((x, TOP + layer.top + words.size.1))));
            }
            path.push_str(&format!("V{}", number(y)));
        }
        let end = (to.middle + self.shift + ports.arrow, TOP + to.top);
        curve(&mut path, (x, y), (end.0, end.1 - 5.0));

        let edge = &self.graph.edges[self.sketch.line_edges[index]];
        self.open(class(edge), &self.graph.edge_title(edge));
        self.path("lc-line", &path);
        self.path("lc-arrow", &format!("M{}l-4-8h8z", pair(end)));
        let first = way[0];
        let mut baseline = TOP + first.top + 11.0;
        for text in &words.lines {
            self.text("lc-words", (first.middle + self.shift, baseline), text);
            baseline += LINE_HEIGHT;
        }
        self.put("</g>");
    }

    /// A line that goes round at the side. Its words are in the box that it leaves.
    fn round(&mut self, edge: &GraphEdge, corners: &[(f64, f64)]) {
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
        self.open(&format!("{} lc-round", class(edge)), &self.graph.edge_title(edge));
        self.path("lc-line", &rounded(&corners));
        self.path("lc-arrow", &format!("M{}{arrow}", pair(*last)));
        self.put("</g>");
    }

    /// The dot where a task begins.
    fn start(&mut self) {
        let Some(spot) = self.graph.start.and(self.plan.boxes.first()) else {
            return;
        };
        let (x, y) = (number(spot.middle + self.shift), number(TOP + spot.top));
        self.open("lc-edge", "A task begins here");
        self.put(&format!("<circle class=\"lc-arrow\" cx=\"{x}\" cy=\"{}\" r=\"6\"/>", y - 28));
        self.path("lc-line", &format!("M{x} {}V{}", y - 28, y - 5));
        self.path("lc-arrow", &format!("M{x} {y}l-4-8h8z"));
        self.put("</g>");
    }

    fn node(&mut self, index: usize, x: f64, y: f64) {
        let (node, card) = (&self.graph.nodes[index], &self.sketch.cards[index]);
        let dotted = if node.shape == Shape::Elsewhere { " lc-dotted" } else { "" };
        let current = if node.is_current { " lc-current" } else { "" };
        self.open(&format!("lc-state lc-{}{dotted}{current}", node.kind), &node.title);
        self.frame(card, node.shape, x, y);
        self.head(card, node, x, y);
        for row in &card.rows {
            self.row(row, x + PADDING, y + row.baseline);
        }
        self.put("</g>");
    }

    fn frame(&mut self, card: &Card, shape: Shape, x: f64, y: f64) {
        let (width, height) = (card.width, card.height);
        match shape {
            Shape::Box | Shape::Elsewhere => self.rect("lc-box", (x, y), (width, height)),
            Shape::End => {
                self.rect("lc-box", (x, y), (width, height));
                self.rect("lc-inner", (x + 3.0, y + 3.0), (width - 6.0, height - 6.0));
            }
            Shape::Gate => {
                let cut = PADDING;
                let (right, bottom) = (number(x + width - cut), number(y + height - cut));
                let path = format!("M{}H{right}l{cut} {cut}V{bottom}", pair((x + cut, y)));
                let back = format!("l-{cut} {cut}H{}l-{cut}-{cut}", number(x + cut));
                self.path("lc-box", &format!("{path}{back}V{}z", number(y + cut)));
            }
        }
    }

    fn head(&mut self, card: &Card, node: &GraphNode, x: f64, y: f64) {
        let mut left = x + PADDING;
        if node.has_sign {
            let place = format!("transform=\"translate({} {})\"", number(left), number(y + 11.0));
            let path = look(node.kind).path;
            self.put(&format!("<path class=\"lc-sign\" {place} d=\"{path}\"/>"));
            left += INDENT;
        }
        let mut baseline = y + 22.0;
        self.text("lc-name", (left, baseline), &card.name);
        for line in &card.lines {
            baseline += LINE_HEIGHT;
            self.text("lc-duty", (left, baseline), line);
        }
        if node.is_current {
            let (left, top) = (x + card.width - 70.0, y - 9.0);
            self.rect("lc-badge", (left, top), (58.0, 18.0));
            self.text("lc-badge-text", (left + 29.0, top + 13.0), "current");
        }
    }

    /// An edge that is listed in a box.
    fn row(&mut self, row: &Row, x: f64, mut baseline: f64) {
        self.open("lc-edge", &self.graph.edge_title(&self.graph.edges[row.edge]));
        let (target, first) = (escaped(&row.target), escaped(&row.lines[0]));
        let place = format!("x=\"{}\" y=\"{}\"", number(x), number(baseline));
        let head = format!("<tspan class=\"lc-target\">→ {target}</tspan>");
        self.put(&format!("<text class=\"lc-row\" {place}>{head}  {first}</text>"));
        for line in &row.lines[1..] {
            baseline += LINE_HEIGHT;
            self.text("lc-row", (x + INDENT, baseline), line);
        }
        self.put("</g>");
    }

    /// The nodes that were set aside, in rows below the rest. Returns where they end.
    fn aside(&mut self, width: f64, top: f64) -> f64 {
        if self.sketch.aside.is_empty() {
            return top;
        }
        let mut y = top + 44.0;
        self.text("lc-heading", (MARGIN, y), "Reached from many states");
        y += 18.0;
        let (mut x, mut row_height) = (MARGIN, 0.0_f64);
        for node in &self.sketch.aside {
            let card = &self.sketch.cards[*node];
            if x > MARGIN && x + card.width > width - MARGIN {
                (x, y) = (MARGIN, y + row_height + ASIDE_GAP);
                row_height = 0.0;
            }
            self.node(*node, x, y);
            x += card.width + ASIDE_GAP;
            row_height = row_height.max(card.height);
        }
        y + row_height
    }

    /// Adds the legend, and what stands before the nodes.
    fn finish(mut self, width: f64, bottom: f64) -> String {
        let mut y = bottom + 36.0;
        for line in self.graph.legend {
            self.text("lc-legend", (MARGIN, y), line);
            y += LINE_HEIGHT;
        }
        let (graph, body) = (self.graph, std::mem::take(&mut self.out));
        let about = fitted(&graph.about, width - 2.0 * MARGIN);
        let (width, height) = (number(width), number(y + MARGIN - LINE_HEIGHT));
        self.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{}\" role=\"img\" \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">",
            graph.class
        ));
        let (title, desc) = (escaped(&graph.title), escaped(&graph.about));
        self.put(&format!("<title>{title}</title>\n<desc>{desc}</desc>"));
        self.put(&format!("<style>\n{}</style>", sheet(graph.class)));
        self.put(&format!("<rect class=\"lc-paper\" width=\"{width}\" height=\"{height}\"/>"));
        self.text("lc-heading", (MARGIN, 34.0), &graph.name);
        self.text("lc-legend", (MARGIN, 52.0), &about);
        self.out.push_str(&body);
        self.put("</svg>");
        self.out
    }
}

fn class(edge: &GraphEdge) -> &'static str {
    if edge.is_back { "lc-edge lc-dashed" } else { "lc-edge" }
}

fn curve(path: &mut String, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
    let half = number((y + to_y) / 2.0);
    let (from, x, y) = (number(x), number(to_x), number(to_y));
    write!(path, "C{from} {half} {x} {half} {x} {y}").expect("writing to a string does not fail");
}

/// A path along rounded corners.
fn rounded(corners: &[(f64, f64)]) -> String {
    let Some((first, rest)) = corners.split_first() else {
        return String::new();
    };
    let mut path = format!("M{}", pair(*first));
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

/// A point near a corner towards another, at most half way.
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

/// Whole pixels: no visible difference, and the text is the same on every machine.
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
            // XML cannot represent them.
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}
