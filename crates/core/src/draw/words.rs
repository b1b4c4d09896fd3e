//! Text in a picture: its width, how much of it fits, and how it fills lines. It decides no
//! position.

use super::layout::Size;

/// The words on a line.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) size: Size,
    pub(super) lines: Vec<String>,
}

/// An edge that is listed in a box.
#[derive(Debug)]
pub(super) struct Row {
    /// Index of its edge.
    pub(super) edge: usize,
    pub(super) target: String,
    /// At least one.
    pub(super) lines: Vec<String>,
    /// The baseline of its first line.
    pub(super) baseline: f64,
}

pub(super) const PADDING: f64 = 12.0;
pub(super) const LINE_HEIGHT: f64 = 15.0;
/// The indent of text next to a small sign.
pub(super) const INDENT: f64 = 18.0;
/// Lines of a row or of the words on a line. The title contains all of them.
const MAX_LINES: usize = 5;
const MAX_NAME_CHARS: usize = 40;

/// The width of a letter relative to the font size, from wide fonts, so that text never leaves its
/// box.
const LETTER: f64 = 0.6;
const BOLD_LETTER: f64 = 0.67;
const SMALL: f64 = 11.0;
const LARGE: f64 = 14.0;

impl Words {
    pub(super) fn new(lines: &[String]) -> Self {
        let lines = capped(lines.to_vec());
        let width = lines.iter().map(|line| small_width(line)).fold(0.0, f64::max);
        Self { size: (width, times(lines.len(), LINE_HEIGHT)), lines }
    }
}

impl Row {
    /// `top` is where it begins in its box, `room` the width that its lines fill.
    pub(super) fn new(
        edge: usize,
        target: String,
        words: &[String],
        (top, room): (f64, f64),
    ) -> Self {
        let head = Self::head_width(&target);
        Self { edge, target, lines: capped(wrapped(words, room, head)), baseline: top + 11.0 }
    }

    pub(super) fn width(&self) -> f64 {
        let mut widths = self.lines.iter().map(|line| small_width(line));
        let first = Self::head_width(&self.target) + widths.next().unwrap_or_default();
        INDENT + widths.fold(first, f64::max)
    }

    pub(super) fn height(&self) -> f64 {
        times(self.lines.len(), LINE_HEIGHT)
    }

    fn head_width(target: &str) -> f64 {
        text_width(target, SMALL, BOLD_LETTER) + 2.0 * SMALL
    }
}

/// Fills lines with words; the first has less room because of its head.
fn wrapped(words: &[String], full: f64, taken: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = full - taken;
    for word in words {
        let line = lines.last_mut().expect("it starts with one line and only grows");
        let with_comma = if line.is_empty() { word.clone() } else { format!(", {word}") };
        let fits = small_width(line) + small_width(&with_comma) <= room;
        if fits || line.is_empty() {
            line.push_str(&with_comma);
        } else {
            line.push(',');
            lines.push(word.clone());
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

pub(super) fn times(count: usize, step: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * step
}

/// As much of a small text as fits in a width.
pub(super) fn fitted(text: &str, width: f64) -> String {
    let mut room = width - SMALL;
    let fits = |character: &char| {
        room -= small_width(character.encode_utf8(&mut [0; 4]));
        room >= 0.0
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A name, cut to the room in a box.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_NAME_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect()
}

/// The width of a name in the head of a box.
pub(super) fn name_width(text: &str) -> f64 {
    text_width(text, LARGE, BOLD_LETTER)
}

/// The width of any other text.
pub(super) fn small_width(text: &str) -> f64 {
    text_width(text, SMALL, LETTER)
}

fn text_width(text: &str, size: f64, letter: f64) -> f64 {
    // East Asian characters are as wide as they are high.
    text.chars().map(|character| if character >= '\u{1100}' { size } else { size * letter }).sum()
}
