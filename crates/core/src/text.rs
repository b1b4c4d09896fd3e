//! Shortens texts for people, and checks what a text may contain.

use crate::limits;

/// The start of a text, cut at a character boundary.
pub fn start_of(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The end of a text, cut at a character boundary.
pub fn end_of(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// A text on one line, cut to `most` bytes.
pub fn line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut text = printable(words.join(" ").chars());
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

pub(crate) fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest).collect()
}

/// Shortens a name for a message and replaces its control characters.
pub fn clip(text: &str) -> String {
    printable(text.chars().take(limits::NAME_BYTES))
}

fn printable(text: impl Iterator<Item = char>) -> String {
    text.map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Whether a text of several lines has control characters besides line breaks and tabs.
pub(crate) fn has_control_characters(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

/// Why a text cannot be the tag of a task, if it cannot.
pub(crate) fn tag_problem(text: &str) -> Option<String> {
    let (breaks, most) = (|c: char| c.is_control() || c.is_whitespace(), limits::NAME_BYTES);
    let is_tag = !text.is_empty() && text.len() <= most && !text.chars().any(breaks);
    let shown = || text.escape_debug().take(most).collect::<String>();
    (!is_tag).then(|| format!("`{}` is not a tag: one word of at most {most} bytes", shown()))
}
