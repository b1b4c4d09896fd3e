//! The audit log of a workflow: one line per event, written once and never changed.
//!
//! A line is `TIME TEXT [MARK]`, and no text contains a bracket. A complete mark therefore differs
//! from the beginning of a longer one and from words in a truncated line.

use std::fs::File;
use std::io::{self, ErrorKind, Write};

use banksman_core::text::start_of;
use banksman_core::time::Instant;

use super::{AUDIT, Mailbox, MailboxError, Result, disk, file_name, place};
use crate::exec::files::{AtPath, read_end};

/// A line is for reading; longer content has a file of its own.
const TEXT_BYTES: usize = 800;
const MARK_BYTES: usize = 100;
/// How much of the end of the log is searched for a mark.
///
/// A line is written twice only by a process that died, or lost the store, between writing the line
/// and recording that. The next turns repeat it, so only lines of the same workflow from that time
/// lie in between. This size holds more than 250 lines of maximum length and thousands of ordinary
/// ones; no workflow has that many steps, let alone verdicts within minutes.
const TAIL_BYTES: u64 = 256 * 1_024;

impl Mailbox {
    /// Appends a line to a workflow's log, unless it already has a line with this mark. Returns
    /// whether it was appended.
    ///
    /// The line is not synced to disk: the history in the store is the truth and this is a copy for
    /// reading, and a sync per line would cost more than the turn that writes it. A power failure
    /// may lose the last lines.
    pub fn record(&self, workflow: &str, at: Instant, text: &str, mark: &str) -> Result<bool> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'[' | b']');
        if mark.is_empty() || mark.len() > MARK_BYTES || !mark.bytes().all(is_plain) {
            let shown = mark.chars().filter(|char| !char.is_control());
            return Err(MailboxError::Mark(shown.take(MARK_BYTES).collect()));
        }
        let _lock = self.lock()?;
        let path = place::created(&self.root, &format!("{AUDIT}/{}.log", file_name(workflow)))?;
        let mut log = disk::open_log(&path).at("open", &path)?;
        let added = add(&mut log, &format!("{at} {} [{mark}]\n", one_line(text)), mark);
        let added = added.at("write", &path)?;
        if added.is_first {
            disk::sync_folder(place::parent(&path))?;
        }
        Ok(added.is_new)
    }
}

struct Added {
    is_new: bool,
    /// The log was empty before.
    is_first: bool,
}

fn add(log: &mut File, line: &str, mark: &str) -> io::Result<Added> {
    let length = log.metadata()?.len();
    let tail = read_end(log, TAIL_BYTES)?;
    let tail = String::from_utf8_lossy(&tail);
    let is_torn = !tail.is_empty() && !tail.ends_with('\n');
    let marker = format!(" [{mark}]");
    let is_new = !tail.contains(&format!("{marker}\n")) && !tail.ends_with(&marker);
    // A line that a crash truncated gets its own line ending, so that it does not swallow the next
    // line.
    let mut bytes = if is_torn { "\n".to_owned() } else { String::new() };
    if is_new {
        bytes.push_str(line);
    }
    // One write per line, so that a reader never sees part of it.
    if !bytes.is_empty() && log.write(bytes.as_bytes())? < bytes.len() {
        return Err(ErrorKind::StorageFull.into());
    }
    Ok(Added { is_new, is_first: length == 0 })
}

/// The text on one line, without control characters and bidirectional overrides.
fn one_line(text: &str) -> String {
    let is_unprintable = |char: char| {
        let is_bidi = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        char.is_control() || is_bidi || matches!(char, '\u{2028}' | '\u{2029}')
    };
    let short = start_of(text, TEXT_BYTES);
    let cleaned = |char: char| match char {
        '[' => '(',
        ']' => ')',
        unprintable if is_unprintable(unprintable) => ' ',
        plain => plain,
    };
    let mut line: String = short.chars().map(cleaned).collect();
    if short.len() < text.len() {
        line.push('…');
    }
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_of_bounded_length() {
        assert_eq!(one_line("a\r\nb\u{1b}[2J\u{202e}c\u{2028}d\0"), "a  b (2J c d");
        let long = one_line(&"長".repeat(1_000));
        assert!(long.len() <= TEXT_BYTES + '…'.len_utf8() && long.ends_with("長…"), "{long}");
    }
}
