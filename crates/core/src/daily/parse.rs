//! Parses a note that people have edited: its sections, their entries, and the answers in them.
//!
//! It makes one pass over the lines. A section or an entry counts only if both of its markers are
//! there, so a file that was cut off while it was written contains no answers. A marker without its
//! partner is text.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::render::{ACTION, NOTE, is_of_head, is_same, unlabelled};
use super::{Marker, Pin, Section};
use crate::ids::DecisionId;
use crate::limits;

/// A parsed note.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The entry of each decision that counts; copies are left out.
    pub entries: Vec<NoteEntry>,
}

/// An entry for an open or former decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteEntry {
    pub id: DecisionId,
    pub version: i64,
    pub said: NoteAnswer,
    /// Whether the entry is closed and nobody has changed it since.
    pub is_dealt_with: bool,
    /// Whether a person changed anything in it.
    pub is_edited: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteAnswer {
    Nothing,
    Answer {
        /// As the person wrote it, or the label of the ticked box.
        word: String,
        note: Option<String>,
    },
    /// The answer is ambiguous, for this reason.
    Unclear(String),
}

#[must_use]
pub fn parse(text: &str) -> Parsed {
    let pieces = pieces(text);
    let first = entries(&pieces).into_iter().filter(|(_, is_first)| *is_first);
    Parsed { entries: first.map(|(raw, _)| raw.entry()).collect() }
}

/// All entries of a note, and whether each counts: the first entry of its decision, an open one
/// before a closed one.
pub(super) fn entries<'p, 't>(pieces: &'p [NoteFragment<'t>]) -> Vec<(&'p Raw<'t>, bool)> {
    let parts = pieces.iter().flat_map(|piece| match piece {
        NoteFragment::Section(_, parts) => parts.as_slice(),
        NoteFragment::Text(_) => &[],
    });
    let all = parts.filter_map(|part| match part {
        NoteRegion::Entry(raw) => Some(raw),
        NoteRegion::Line(_) => None,
    });
    let all: Vec<&Raw<'_>> = all.collect();
    let mut first: BTreeMap<DecisionId, usize> = BTreeMap::new();
    for (at, raw) in all.iter().enumerate() {
        let known = first.entry(raw.pin.id).or_insert(at);
        if raw.print.is_none() && all[*known].print.is_some() {
            *known = at;
        }
    }
    let counts = |(at, raw): (usize, &&'p Raw<'t>)| (*raw, first.get(&raw.pin.id) == Some(&at));
    all.iter().enumerate().map(counts).collect()
}

/// A part of the file.
pub(super) enum NoteFragment<'t> {
    Text(&'t str),
    Section(Section, Vec<NoteRegion<'t>>),
}

/// A part of a section.
pub(super) enum NoteRegion<'t> {
    Line(&'t str),
    Entry(Raw<'t>),
}

pub(super) struct Raw<'t> {
    pub(super) pin: Pin,
    /// The fingerprint of the content when the entry was closed; none while it is open.
    pub(super) print: Option<String>,
    pub(super) head: Vec<&'t str>,
    pub(super) body: Vec<&'t str>,
}

/// Splits the text into parts that add up to the whole text.
pub(super) fn pieces(text: &str) -> Vec<NoteFragment<'_>> {
    let mut pieces = Vec::new();
    let (mut at, mut shown) = (0, 0);
    let mut open: Option<(Section, usize, usize)> = None;
    for line in text.split_inclusive('\n') {
        let (from, to) = (at, at + line.len());
        at = to;
        match Marker::read(line) {
            // A section that is still open here has lost its end marker, and is text.
            Some(Marker::Begin(section)) => open = Some((section, from, to)),
            Some(Marker::End(section)) => {
                let begun = open.take().filter(|(begun, ..)| *begun == section);
                let Some((_, outer, inner)) = begun else { continue };
                pieces.push(NoteFragment::Text(&text[shown..outer]));
                pieces.push(NoteFragment::Section(section, parts(&text[inner..from])));
                shown = to;
            }
            Some(
                Marker::Open(_) | Marker::Closed(..) | Marker::Answer(_) | Marker::EntryEnd(_),
            )
            | None => {}
        }
    }
    pieces.push(NoteFragment::Text(&text[shown..]));
    pieces
}

fn parts(text: &str) -> Vec<NoteRegion<'_>> {
    let mut parts = Vec::new();
    let mut entry: Option<(Raw<'_>, bool)> = None;
    for line in text.split_inclusive('\n') {
        match Marker::read(line) {
            Some(Marker::Open(pin)) => {
                give_up(entry.take(), &mut parts);
                entry = Some((Raw { pin, print: None, head: Vec::new(), body: Vec::new() }, false));
            }
            Some(Marker::Closed(pin, print)) => {
                give_up(entry.take(), &mut parts);
                let print = Some(print);
                entry = Some((Raw { pin, print, head: Vec::new(), body: Vec::new() }, false));
            }
            Some(Marker::Answer(id)) => match &mut entry {
                Some((raw, is_below)) if raw.pin.id == id => *is_below = true,
                Some(_) | None => {}
            },
            Some(Marker::EntryEnd(id)) => match entry.take() {
                Some((raw, true)) if raw.pin.id == id => parts.push(NoteRegion::Entry(raw)),
                broken => give_up(broken, &mut parts),
            },
            Some(Marker::Begin(_) | Marker::End(_)) => {}
            None => match &mut entry {
                Some((raw, true)) => raw.body.push(line),
                Some((raw, false)) => raw.head.push(line),
                None => parts.push(NoteRegion::Line(line)),
            },
        }
    }
    give_up(entry, &mut parts);
    parts
}

/// An entry without its end marker becomes plain lines.
fn give_up<'t>(entry: Option<(Raw<'t>, bool)>, parts: &mut Vec<NoteRegion<'t>>) {
    let Some((raw, _)) = entry else { return };
    parts.extend(raw.head.into_iter().chain(raw.body).map(NoteRegion::Line));
}

impl Raw<'_> {
    pub(super) fn entry(&self) -> NoteEntry {
        let said = self.said();
        let is_dealt_with = self.print.as_ref().is_some_and(|print| *print == self.print());
        NoteEntry {
            id: self.pin.id,
            version: self.pin.version,
            is_edited: said != NoteAnswer::Nothing || self.has_own_words(),
            said,
            is_dealt_with,
        }
    }

    /// What people wrote, including lines that they added above the answer.
    pub(super) fn kept(&self) -> String {
        let strays = self.head.iter().filter(|line| !is_of_head(line));
        let mut body = self.body.concat();
        for stray in strays {
            if !body.is_empty() && !body.ends_with('\n') {
                body.push('\n');
            }
            body.push_str(stray);
        }
        body
    }

    /// The fingerprint that shows whether people changed the entry later.
    pub(super) fn print(&self) -> String {
        print_of(&self.kept())
    }

    fn has_own_words(&self) -> bool {
        let is_empty_field = |line: &str| [ACTION, NOTE].contains(&line.trim());
        let is_own =
            |line: &&str| !(line.trim().is_empty() || is_empty_field(line) || tick(line).is_some());
        self.body.iter().any(is_own) || self.head.iter().any(|line| !is_of_head(line))
    }

    fn said(&self) -> NoteAnswer {
        let ticked = self.body.iter().filter_map(|line| tick(line)).filter(|(is_set, _)| *is_set);
        let fields = self.body.iter().filter_map(|line| line.trim().strip_prefix(ACTION));
        let given = ticked.map(|(_, label)| label).chain(fields.map(str::trim));
        let mut words: Vec<String> =
            given.map(unlabelled).filter(|word| !word.is_empty()).collect();
        words.dedup_by(|one, other| is_same(one, other));
        let note = self.note();
        let is_long = note.as_ref().is_some_and(|note| note.len() > limits::REPORT_TEXT_BYTES);
        match &words[..] {
            [] => NoteAnswer::Nothing,
            [_] if is_long => NoteAnswer::Unclear("the note is too long".to_owned()),
            [word] => NoteAnswer::Answer { word: word.clone(), note },
            several => {
                let several: Vec<&str> = several.iter().take(5).map(String::as_str).collect();
                NoteAnswer::Unclear(format!("more than one answer: {}", several.join(", ")))
            }
        }
    }

    /// The text after `Note`, with the indented lines below it.
    fn note(&self) -> Option<String> {
        let mut lines = self.body.iter().skip_while(|line| !line.trim().starts_with(NOTE));
        let first = lines.next()?.trim().strip_prefix(NOTE)?.trim();
        let more =
            lines.take_while(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
        let words: Vec<&str> = [first].into_iter().chain(more.map(|line| line.trim())).collect();
        Some(words.join("\n").trim().to_owned()).filter(|note| !note.is_empty())
    }
}

pub(super) fn print_of(kept: &str) -> String {
    let digest = Sha256::digest(kept.trim_end().as_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// A line with a checkbox: whether it is ticked, and its label without our hint.
fn tick(line: &str) -> Option<(bool, &str)> {
    let line = line.trim();
    let rest = line.strip_prefix(['-', '*', '+'])?.trim_start().strip_prefix('[')?;
    let (mark, label) = rest.split_once(']')?;
    let is_set = match mark {
        "x" | "X" => true,
        "" | " " => false,
        _ => return None,
    };
    let label = label.trim();
    Some((is_set, label.split_once(" (").map_or(label, |(label, _)| label)))
}
