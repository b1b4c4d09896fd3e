//! What the box of a state says, and how much room that takes.
//!
//! A box names its state and lists the ways out that no line with words on it shows: those to where
//! many states lead, those back, and those to itself. It decides no position.

use super::super::{Lifecycle, State, Target};
use super::Edge;

/// The box of one state, with all places counted from its upper left corner.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Name and second line, shortened to what fits.
    pub(super) name: String,
    pub(super) duty: String,
    pub(super) rows: Vec<Row>,
}

/// A way out that is listed in the box.
#[derive(Debug)]
pub(super) struct Row {
    /// Index of its edge.
    pub(super) edge: usize,
    pub(super) target: String,
    pub(super) lines: Vec<String>,
    /// The height of its first line's letters.
    pub(super) baseline: f64,
}

/// The words on a line.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) lines: Vec<String>,
}

pub(super) const HEADER_HEIGHT: f64 = 46.0;
pub(super) const PADDING: f64 = 12.0;
pub(super) const LINE_HEIGHT: f64 = 15.0;
/// Where text begins that stands right of a small sign.
pub(super) const INDENT: f64 = 18.0;
const MIN_WIDTH: f64 = 180.0;
/// Rows are filled to this width, or to that of the longest cause.
const USUAL_TEXT_WIDTH: f64 = 250.0;
/// Lines of a row or of the words on a line. All is said in the title.
const MAX_LINES: usize = 5;
const MAX_NAME_CHARS: usize = 40;

/// Width of a letter for one unit of font size. Taken from wide fonts, so that text never leaves
/// its box.
const LETTER: f64 = 0.6;
const BOLD_LETTER: f64 = 0.67;
const SMALL: f64 = 11.0;
const LARGE: f64 = 14.0;

/// `listed`: the edges that the box shows as rows.
pub(super) fn card(lifecycle: &Lifecycle, state: &State, edges: &[Edge], listed: &[usize]) -> Card {
    let name = shortened(&state.name);
    let duty = shortened(&duty(state));
    let mut top = HEADER_HEIGHT;
    let mut rows: Vec<Row> = Vec::with_capacity(listed.len());
    let widest = listed
        .iter()
        .flat_map(|edge| &edges[*edge].causes)
        .map(|cause| text_width(&cause.text(), SMALL, LETTER));
    let room = widest.fold(USUAL_TEXT_WIDTH, f64::max);
    for edge in listed {
        let row = row(lifecycle, edges, *edge, (top, room));
        top += lines_height(row.lines.len());
        rows.push(row);
    }
    let name_width = text_width(&name, LARGE, BOLD_LETTER) + 2.0 * INDENT;
    let header_width = name_width.max(text_width(&duty, SMALL, LETTER) + INDENT);
    let row_width = rows.iter().map(Row::width).fold(0.0, f64::max);
    let width = header_width.max(row_width).max(MIN_WIDTH) + 2.0 * PADDING;
    let height = if rows.is_empty() { top } else { top + PADDING };
    Card { width, height, name, duty, rows }
}

pub(super) fn words(edge: &Edge) -> Words {
    let lines = capped(edge.causes.iter().map(super::Cause::text).collect());
    let width = lines.iter().map(|line| text_width(line, SMALL, LETTER)).fold(0.0, f64::max);
    Words { width, height: lines_height(lines.len()), lines }
}

impl Row {
    fn width(&self) -> f64 {
        let head = text_width(&self.target, SMALL, BOLD_LETTER) + 2.0 * SMALL;
        let mut widths = self.lines.iter().map(|line| text_width(line, SMALL, LETTER));
        let first = head + widths.next().unwrap_or_default();
        INDENT + widths.fold(first, f64::max)
    }
}

/// The kind as a word, and what is done meanwhile.
fn duty(state: &State) -> String {
    let Some(does) = &state.does else {
        return state.kind.to_string();
    };
    match &does.role {
        Some(role) => format!("{} · {} {role}", state.kind, does.activity.as_str()),
        None => format!("{} · {}", state.kind, does.activity.as_str()),
    }
}

fn row(lifecycle: &Lifecycle, edges: &[Edge], index: usize, (top, room): (f64, f64)) -> Row {
    let edge = &edges[index];
    let target = match edge.to {
        Target::State(id) if id == edge.from => "itself".to_owned(),
        Target::State(_) | Target::Prior => shortened(lifecycle.target_name(edge.to)),
    };
    let head = text_width(&target, SMALL, BOLD_LETTER) + 2.0 * SMALL;
    let causes = edge.causes.iter().map(super::Cause::text);
    Row { edge: index, target, lines: capped(wrapped(causes, room, head)), baseline: top + 11.0 }
}

/// Fills lines with causes; the first has less room by what stands before it.
fn wrapped(causes: impl Iterator<Item = String>, full: f64, taken: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = full - taken;
    for cause in causes {
        let line = lines.last_mut().expect("it begins with one line and only grows");
        let with_comma = if line.is_empty() { cause.clone() } else { format!(", {cause}") };
        let fits = text_width(line, SMALL, LETTER) + text_width(&with_comma, SMALL, LETTER) <= room;
        if fits || line.is_empty() {
            line.push_str(&with_comma);
        } else {
            line.push(',');
            lines.push(cause);
            room = full;
        }
    }
    lines
}

fn capped(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > MAX_LINES {
        let more = lines.len() - (MAX_LINES - 1);
        lines.truncate(MAX_LINES - 1);
        lines.push(format!("and {more} more"));
    }
    lines
}

fn lines_height(lines: usize) -> f64 {
    LINE_HEIGHT * f64::from(u32::try_from(lines).unwrap_or(u32::MAX))
}

/// As much of a small text as fits a width.
pub(super) fn fitted(text: &str, width: f64) -> String {
    let mut room = width - SMALL;
    let fits = |character: &char| {
        room -= text_width(character.encode_utf8(&mut [0; 4]), SMALL, LETTER);
        room >= 0.0
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_NAME_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect()
}

fn text_width(text: &str, size: f64, letter: f64) -> f64 {
    // Letters of East Asian scripts are as wide as they are high.
    text.chars().map(|character| if character >= '\u{1100}' { size } else { size * letter }).sum()
}
