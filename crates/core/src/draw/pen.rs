//! Writes the parts of a self-contained SVG: no script, no font, nothing to fetch.
//!
//! It only writes what `layout` and `route` computed. Every text is escaped, and every box and line
//! has a title for screen readers.

use std::fmt::Write;

use super::layout::{Line, Plan, Way};
use super::route::{Corners, Ports};
use super::style;
use super::words::{self, INDENT, LINE_HEIGHT, Row, Words};

/// Room around everything.
pub(crate) const MARGIN: f64 = 24.0;
/// Room for the heading, and for the dot at a start.
pub(crate) const TOP: f64 = 104.0;
const MIN_WIDTH: f64 = 560.0;
const CORNER: f64 = 8.0;

pub(crate) struct Pen {
    out: String,
    /// From the middle of the plan to the middle of the picture.
    pub(crate) shift: f64,
}

/// How a line is drawn, besides its path.
pub(crate) struct Stroke<'a> {
    /// Its class in the style sheet.
    pub(crate) class: &'a str,
    pub(crate) title: &'a str,
    pub(crate) ends: Line,
    pub(crate) ports: Ports,
    /// The height of the box that it leaves.
    pub(crate) height: f64,
    pub(crate) words: &'a Words,
}

/// The title and description of the picture.
pub(crate) struct Head<'a> {
    /// The class of the picture: its style rules apply to nothing else on a page.
    pub(crate) class: &'a str,
    pub(crate) title: &'a str,
    pub(crate) name: &'a str,
    pub(crate) about: &'a str,
}

/// The width of a picture, and how far its plan must move to be centred.
pub(crate) fn width_and_shift(plan: &Plan, corners: &[Corners], at_least: f64) -> (f64, f64) {
    let (left, right) = reach(plan, corners);
    let width = (right - left + 2.0 * MARGIN).max(MIN_WIDTH).max(at_least);
    (width, (width - (right - left)) / 2.0 - left)
}

/// The left and right extent of the drawing.
fn reach(plan: &Plan, corners: &[Corners]) -> (f64, f64) {
    let corners = || corners.iter().flatten().map(|corner| corner.0);
    let left = plan.layers.iter().map(|layer| layer.left).chain(corners()).fold(f64::MAX, f64::min);
    let right =
        plan.layers.iter().map(|layer| layer.right).chain(corners()).fold(f64::MIN, f64::max);
    (left, right)
}

impl Pen {
    /// `shift` leads from the middle of the plan to the middle of the picture.
    pub(crate) fn new(shift: f64) -> Self {
        Self { out: String::new(), shift }
    }

    pub(crate) fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    pub(crate) fn title(&mut self, text: &str) {
        self.put(&format!("<title>{}</title>", escaped(text)));
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let (x, y) = (number(x), number(y));
        self.put(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(text)));
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let place = format!("x=\"{}\" y=\"{}\"", number(x), number(y));
        let size = format!("width=\"{}\" height=\"{}\"", number(width), number(height));
        self.put(&format!("<rect class=\"{class}\" {place} {size} rx=\"8\"/>"));
    }

    /// A line that leads down, with its words.
    pub(crate) fn line(&mut self, plan: &Plan, way: &Way, stroke: &Stroke<'_>) {
        let (from, to) = (plan.boxes[stroke.ends.from], plan.boxes[stroke.ends.to]);
        let mut x = from.middle + self.shift + stroke.ports.start;
        let mut y = TOP + plan.layers[from.layer].bottom;
        let mut path =
            format!("M{} {}V{}", number(x), number(TOP + from.top + stroke.height), number(y));
        for (index, spot) in way.through.iter().enumerate() {
            let layer = plan.layers[spot.layer];
            curve(&mut path, (x, y), (spot.middle + self.shift, TOP + layer.top));
            (x, y) = (spot.middle + self.shift, TOP + layer.bottom);
            // The line leaves room for its words, which are at the first position.
            let step = if index == 0 {
                let below = TOP + layer.top + stroke.words.height;
                format!("M{} {}V{}", number(x), number(below), number(y))
            } else {
                format!("V{}", number(y))
            };
            path.push_str(&step);
        }
        let end = (to.middle + self.shift + stroke.ports.arrow, TOP + to.top);
        curve(&mut path, (x, y), (end.0, end.1 - 5.0));

        self.put(&format!("<g class=\"{}\">", stroke.class));
        self.title(stroke.title);
        self.put(&format!("<path class=\"lc-line\" d=\"{path}\"/>"));
        self.put(&format!("<path class=\"lc-arrow\" d=\"M{}l-4-8h8z\"/>", pair(end)));
        if let Some(first) = way.through.first() {
            self.words(stroke.words, first.middle + self.shift, TOP + first.top);
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

    /// A line that goes round at the side. Its words are in the box that it leaves.
    pub(crate) fn round(&mut self, class: &str, title: &str, corners: &[(f64, f64)]) {
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
        self.put(&format!("<g class=\"{class}\">"));
        self.title(title);
        self.put(&format!("<path class=\"lc-line\" d=\"{}\"/>", rounded(&corners)));
        self.put(&format!("<path class=\"lc-arrow\" d=\"M{}{arrow}\"/>", pair(*last)));
        self.put("</g>");
    }

    /// An edge that is listed in a box.
    pub(crate) fn row(&mut self, title: &str, row: &Row, x: f64, baseline: f64) {
        self.put("<g class=\"lc-edge\">");
        self.title(title);
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

    /// Writes the legend and returns the height of the picture.
    pub(crate) fn legend(&mut self, lines: &[&str], bottom: f64) -> f64 {
        let mut y = bottom + 36.0;
        for line in lines {
            self.text("lc-legend", MARGIN, y, line);
            y += LINE_HEIGHT;
        }
        y + MARGIN - LINE_HEIGHT
    }

    pub(crate) fn finish(mut self, head: &Head<'_>, width: f64, height: f64) -> String {
        let body = std::mem::take(&mut self.out);
        let shown = words::fitted(head.about, width - 2.0 * MARGIN);
        let (width, height) = (number(width), number(height));
        self.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{}\" role=\"img\" \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">",
            head.class
        ));
        self.title(head.title);
        self.put(&format!("<desc>{}</desc>", escaped(head.about)));
        self.put(&format!("<style>\n{}</style>", style::sheet(head.class)));
        self.put(&format!("<rect class=\"lc-paper\" width=\"{width}\" height=\"{height}\"/>"));
        self.text("lc-heading", MARGIN, 34.0, head.name);
        self.text("lc-legend", MARGIN, 52.0, &shown);
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

pub(crate) fn pair((x, y): (f64, f64)) -> String {
    format!("{} {}", number(x), number(y))
}

/// Whole pixels: no visible difference, and the text is the same on every machine.
pub(crate) fn number(value: f64) -> i64 {
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
