//! Text that Mermaid reads as intended: lines, ids and labels, for every kind of diagram.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Reserved words of Mermaid's grammars, in lower case.
const RESERVED: [&str; 25] = [
    "acctitle",
    "accdescr",
    "as",
    "call",
    "class",
    "classdef",
    "click",
    "default",
    "direction",
    "end",
    "flowchart",
    "fork",
    "graph",
    "hide",
    "href",
    "interpolate",
    "join",
    "linkstyle",
    "note",
    "root",
    "scale",
    "state",
    "style",
    "subgraph",
    // The tip of an arrow that leads down.
    "v",
];

/// A diagram under construction.
pub(crate) struct Lines(pub(crate) String);

impl Lines {
    pub(crate) fn push(&mut self, line: impl AsRef<str>) {
        writeln!(self.0, "    {}", line.as_ref()).expect("writing to a string does not fail");
    }
}

/// A Mermaid id for a name: the name itself if the grammar allows it, else with a prefix, and
/// always unique.
pub(crate) fn unique(name: &str, prefix: &str, taken: &mut BTreeSet<String>) -> String {
    let words: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut plain = words.join("_");
    let starts_badly = !plain.starts_with(|first: char| first.is_ascii_alphabetic());
    if starts_badly || RESERVED.contains(&plain.to_ascii_lowercase().as_str()) {
        plain = format!("{prefix}_{plain}");
    }
    let mut id = plain.clone();
    // Each name is taken once, so this ends after at most as many rounds as there are names.
    for number in 2.. {
        if taken.insert(id.clone()) {
            break;
        }
        id = format!("{plain}_{number}");
    }
    id
}

/// A text without characters that Mermaid would interpret.
pub(crate) fn label(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    // Mermaid reads a line that begins like a list item as one, and shows an error instead.
    let mut may_be_item = true;
    for character in text.chars() {
        let marks_item = may_be_item && "-.)".contains(character);
        may_be_item &= character.is_ascii_digit() || character == ' ';
        let is_plain = character.is_alphanumeric() || " _-.,()=/".contains(character);
        if is_plain && !marks_item {
            safe.push(character);
        } else {
            write!(safe, "#{};", u32::from(character)).expect("writing to a string does not fail");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_no_markup_and_no_item_of_a_list() {
        let labels = ["a-b 1. (c)", "\"<b>&;", "1. plan", " - plan", "2) plan", "3 plans."];
        let safe = [
            "a-b 1. (c)",
            "#34;#60;b#62;#38;#59;",
            "1#46; plan",
            " #45; plan",
            "2#41; plan",
            "3 plans.",
        ];
        assert_eq!(labels.map(label), safe);
    }
}
