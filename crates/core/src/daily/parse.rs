//! Parses a note that people have edited: its sections, their entries, and the answers in them.
//!
//! It makes one pass over the lines. A section or an entry counts only if both of its markers are
//! there, so a file that was cut off while it was written contains no answers. A marker without its
//! partner is text.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::render::{ACTION, NOTE, action_of, is_generated_head, is_same};
use super::{Marker, Pin, Section};
use crate::ids::DecisionId;
use crate::limits;

/// An entry for an open or former decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteEntry {
    pub id: DecisionId,
    pub version: i64,
    pub answer: NoteAnswer,
    /// Whether the entry is closed and nobody has changed it since.
    pub is_processed: bool,
    /// Whether a person changed anything in it.
    pub is_edited: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteAnswer {
    /// Nobody has ticked a box or written an action.
    Nothing,
    /// `word` is as the person wrote it, or the label of the ticked box.
    Answer { word: String, note: Option<String> },
    /// The answer is ambiguous, for this reason.
    Unclear(String),
}

/// The entry of each decision that counts; copies are left out.
pub fn parse(text: &str) -> Vec<NoteEntry> {
    let fragments = fragments(text);
    let first = entries(&fragments).into_iter().filter(|(_, is_first)| *is_first);
    first.map(|(raw, _)| raw.entry()).collect()
}

/// All entries of a note, and whether each counts: the first entry of its decision, an open one
/// before a closed one.
pub(super) fn entries<'p, 't>(fragments: &'p [NoteFragment<'t>]) -> Vec<(&'p RawEntry<'t>, bool)> {
    let mut all = Vec::new();
    for fragment in fragments {
        let NoteFragment::Section(_, parts) = fragment else { continue };
        all.extend(parts.iter().filter_map(|part| match part {
            NoteRegion::Entry(raw) => Some(raw),
            NoteRegion::Line(_) => None,
        }));
    }
    let mut first: BTreeMap<DecisionId, usize> = BTreeMap::new();
    for (at, raw) in all.iter().enumerate() {
        let known = first.entry(raw.pin.id).or_insert(at);
        if raw.fingerprint.is_none() && all[*known].fingerprint.is_some() {
            *known = at;
        }
    }
    (0..).zip(all).map(|(at, raw)| (raw, first.get(&raw.pin.id) == Some(&at))).collect()
}

/// A part of the file.
pub(super) enum NoteFragment<'t> {
    Text(&'t str),
    Section(Section, Vec<NoteRegion<'t>>),
}

/// A part of a section.
pub(super) enum NoteRegion<'t> {
    Line(&'t str),
    Entry(RawEntry<'t>),
}

pub(super) struct RawEntry<'t> {
    pub(super) pin: Pin,
    /// The fingerprint of the content when the entry was closed; none while it is open.
    pub(super) fingerprint: Option<String>,
    pub(super) head: Vec<&'t str>,
    pub(super) body: Vec<&'t str>,
}

/// Splits the text into parts that add up to the whole text.
pub(super) fn fragments(text: &str) -> Vec<NoteFragment<'_>> {
    let mut fragments = Vec::new();
    let (mut at, mut shown) = (0, 0);
    let mut open: Option<(Section, usize, usize)> = None;
    for line in text.split_inclusive('\n') {
        let (from, to) = (at, at + line.len());
        at = to;
        match Marker::parse(line) {
            // A section that is still open here has lost its end marker, and is text.
            Some(Marker::Begin(section)) => open = Some((section, from, to)),
            Some(Marker::End(section)) => {
                let begun = open.take().filter(|(begun, ..)| *begun == section);
                let Some((_, outer, inner)) = begun else { continue };
                fragments.push(NoteFragment::Text(&text[shown..outer]));
                fragments.push(NoteFragment::Section(section, parts(&text[inner..from])));
                shown = to;
            }
            Some(Marker::Entry(..) | Marker::Answer(_) | Marker::EntryEnd(_)) | None => {}
        }
    }
    fragments.push(NoteFragment::Text(&text[shown..]));
    fragments
}

fn parts(text: &str) -> Vec<NoteRegion<'_>> {
    let mut parts = Vec::new();
    let mut entry: Option<(RawEntry<'_>, bool)> = None;
    for line in text.split_inclusive('\n') {
        match Marker::parse(line) {
            Some(Marker::Entry(pin, fingerprint)) => {
                let next = RawEntry { pin, fingerprint, head: Vec::new(), body: Vec::new() };
                push_lines(entry.replace((next, false)), &mut parts);
            }
            Some(Marker::Answer(id)) => match &mut entry {
                Some((raw, is_below)) if raw.pin.id == id => *is_below = true,
                Some(_) | None => {}
            },
            Some(Marker::EntryEnd(id)) => match entry.take() {
                Some((raw, true)) if raw.pin.id == id => parts.push(NoteRegion::Entry(raw)),
                broken => push_lines(broken, &mut parts),
            },
            Some(Marker::Begin(_) | Marker::End(_)) => {}
            None => match &mut entry {
                Some((raw, true)) => raw.body.push(line),
                Some((raw, false)) => raw.head.push(line),
                None => parts.push(NoteRegion::Line(line)),
            },
        }
    }
    push_lines(entry, &mut parts);
    parts
}

/// An entry without its end marker becomes plain lines.
fn push_lines<'t>(entry: Option<(RawEntry<'t>, bool)>, parts: &mut Vec<NoteRegion<'t>>) {
    let Some((raw, _)) = entry else { return };
    parts.extend(raw.head.into_iter().chain(raw.body).map(NoteRegion::Line));
}

impl RawEntry<'_> {
    pub(super) fn entry(&self) -> NoteEntry {
        let answer = self.answer();
        let is_processed =
            self.fingerprint.as_ref().is_some_and(|fingerprint| *fingerprint == self.fingerprint());
        NoteEntry {
            id: self.pin.id,
            version: self.pin.version,
            is_edited: answer != NoteAnswer::Nothing || self.has_edits(),
            answer,
            is_processed,
        }
    }

    /// What people wrote, including lines that they added above the answer.
    pub(super) fn human_text(&self) -> String {
        let strays = self.head.iter().filter(|line| !is_generated_head(line));
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
    pub(super) fn fingerprint(&self) -> String {
        fingerprint_of(&self.human_text())
    }

    fn has_edits(&self) -> bool {
        let is_empty_field = |line: &str| [ACTION, NOTE].contains(&line.trim());
        let is_own =
            |line: &&str| !(line.trim().is_empty() || is_empty_field(line) || tick(line).is_some());
        self.body.iter().any(is_own) || self.head.iter().any(|line| !is_generated_head(line))
    }

    fn answer(&self) -> NoteAnswer {
        let ticked = self.body.iter().filter_map(|line| tick(line)).filter(|(is_set, _)| *is_set);
        let fields = self.body.iter().filter_map(|line| line.trim().strip_prefix(ACTION));
        let given = ticked.map(|(_, label)| label).chain(fields.map(str::trim));
        let mut words: Vec<String> = given.map(action_of).filter(|word| !word.is_empty()).collect();
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

pub(super) fn fingerprint_of(human_text: &str) -> String {
    let digest = Sha256::digest(human_text.trim_end().as_bytes());
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
