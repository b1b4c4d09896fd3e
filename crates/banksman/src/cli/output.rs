//! Writes to the terminal: data to stdout, messages to stderr, and never a raw control character
//! from another's text.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use serde::Serialize;

use super::symbols::Symbols;
use super::{Exit, Failure, Result};

/// Stands for a character that must not reach a terminal.
const REPLACEMENT: &str = "\u{fffd}";

/// How a command prints its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) color: ColorChoice,
    pub(crate) symbols: Symbols,
}

impl Output {
    /// Prints a document for programs, or a text for people.
    pub(crate) fn answer<T: Serialize>(
        &self,
        document: impl FnOnce() -> T,
        text: impl FnOnce() -> String,
    ) -> Result<Exit> {
        if self.json { self.json(&document()) } else { self.text(&text()) }
    }

    pub(crate) fn text(&self, text: &str) -> Result<Exit> {
        self.stream(|out| out.write_all(text.as_bytes()).map_err(Failure::Output))
    }

    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<Exit> {
        self.text(&format!("{}\n", json_text(value)))
    }

    /// For answers that are too long to hold in memory.
    pub(crate) fn stream(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<Exit> {
        let mut out = BufWriter::new(AutoStream::new(io::stdout().lock(), self.color));
        write(&mut out)?;
        out.flush().map(|()| Exit::Done).map_err(Failure::Output)
    }

    /// A message beside the answer, on stderr; not printed with --json or -q.
    pub(crate) fn say(&self, text: &str) {
        if self.json || self.quiet {
            return;
        }
        let mut stderr = AutoStream::new(io::stderr().lock(), self.color);
        // The answer on stdout is what matters, so a failure here is ignored.
        drop(writeln!(stderr, "{text}"));
    }

    /// A warning on stderr, which is printed with --json and -q, too.
    pub(crate) fn warn(&self, text: &str) {
        let mut stderr = AutoStream::new(io::stderr().lock(), self.color);
        // The answer on stdout is what matters, so a failure here is ignored.
        drop(writeln!(stderr, "warning: {}", sanitize(text)));
    }

    /// Suggests what to type next: the command is done.
    pub(crate) fn next<S: Display>(&self, commands: &[S]) -> Exit {
        let dim = Style::new().dimmed();
        let commands: Vec<String> =
            commands.iter().map(|command| format!("banksman {command}")).collect();
        self.say(&format!("{dim}next: {}{dim:#}", commands.join(self.symbols.or())));
        Exit::Done
    }
}

/// JSON whose strings cannot move a terminal's cursor: serde does not escape control characters
/// above ASCII.
pub(crate) fn json_text<T: Serialize>(value: &T) -> String {
    escaped(&serde_json::to_string_pretty(value).expect("wire types are made of plain data"))
}

/// The same on one line.
pub(crate) fn json_line<T: Serialize>(value: &T) -> String {
    escaped(&serde_json::to_string(value).expect("wire types are made of plain data"))
}

/// Outside strings, JSON has no such characters but line breaks, so all others can be escaped.
fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_unsafe(c) {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Another's text, safe to print on one line.
pub(crate) fn sanitize(text: &str) -> String {
    text.replace(is_unsafe, REPLACEMENT)
}

/// Another's text, safe to print, with its line breaks and tabs.
pub(crate) fn sanitize_lines(text: &str) -> String {
    text.replace(|c| is_unsafe(c) && c != '\n' && c != '\t', REPLACEMENT)
}

/// Control characters, and characters that change the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One cell of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// What can stand in a table: everything that can be printed, and cells with a style.
pub(crate) trait ToCell {
    fn to_cell(&self) -> Cell;
}

impl<T: Display> ToCell for T {
    fn to_cell(&self) -> Cell {
        Cell { text: sanitize(&self.to_string()), style: Style::new() }
    }
}

impl ToCell for Cell {
    fn to_cell(&self) -> Cell {
        self.clone()
    }
}

/// One row of a table.
pub(crate) fn cells<const COLUMNS: usize>(content: [&dyn ToCell; COLUMNS]) -> [Cell; COLUMNS] {
    content.map(ToCell::to_cell)
}

impl Cell {
    /// A text that keeps its line breaks; only for the last column.
    pub(crate) fn lines(text: &str) -> Self {
        Self { text: sanitize_lines(text.trim_end()), style: Style::new() }
    }
}

/// Names and values, one per line; empty values are left out.
pub(crate) fn facts<'n>(facts: impl IntoIterator<Item = (&'n str, String)>) -> String {
    let known = facts.into_iter().filter(|(_, value)| !value.trim().is_empty());
    let rows = known.map(|(name, value)| cells([&name, &Cell::lines(&value)]));
    // These lines need no header.
    table(["", ""], rows).split_once('\n').map(|(_, lines)| lines.to_owned()).unwrap_or_default()
}

/// Aligned columns. Free text goes into the last column, which has no fixed width and may have
/// several lines.
pub(crate) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [Cell; COLUMNS]>,
) -> String {
    let style = Style::new().dimmed();
    let header = header.map(|name| Cell { text: name.to_owned(), style });
    let lines: Vec<[Cell; COLUMNS]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].text.chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|at| width(at).unwrap_or_default());
    let mut text = String::new();
    for line in &lines {
        let (mut padding, mut begins) = (0, 0);
        for (cell, width) in line.iter().zip(&widths) {
            for (number, part) in cell.text.lines().enumerate() {
                if number > 0 {
                    text.push('\n');
                    padding = begins;
                }
                if !part.is_empty() {
                    text.extend(std::iter::repeat_n(' ', padding));
                    padding = 0;
                    text.push_str(&format!("{0}{part}{0:#}", cell.style));
                }
            }
            padding += width - cell.text.chars().count() + 2;
            begins += width + 2;
        }
        text.push('\n');
    }
    text
}

/// A table after a blank line; nothing without rows.
pub(crate) fn section<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [Cell; COLUMNS]>,
) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    if rows.is_empty() { String::new() } else { format!("\n{}", table(header, rows)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_json_can_move_the_cursor() {
        let text = json_line(&"a\u{1b}[2J\u{9b}2J\u{7f}\u{202e}ü");
        assert_eq!(text, r#""a\u001b[2J\u009b2J\u007f\u202eü""#);
        assert_eq!(
            serde_json::from_str::<String>(&text).unwrap(),
            "a\u{1b}[2J\u{9b}2J\u{7f}\u{202e}ü"
        );
    }

    #[test]
    fn all_lines_of_a_text_begin_below_its_first_one() {
        let known = [("name", "a".to_owned()), ("text", "## One\n\n- two\u{1b}\n".to_owned())];
        let nothing = [("none", String::new())];
        let text = facts(known.into_iter().chain(nothing));
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(text, "name  a\ntext  ## One\n\n      - two\u{fffd}\n");
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let rows = [cells([&"t1", &"", &"Ä\u{1b}b"]), cells([&"t10", &"x", &""])];
        let text = anstream::adapter::strip_str(&table(["ID", "B", "C"], rows)).to_string();
        assert_eq!(text, "ID   B  C\nt1      Ä\u{fffd}b\nt10  x\n");
    }
}
