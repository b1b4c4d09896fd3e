//! Updates the sections of a note that people may have edited.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::{self, NoteFragment, NoteRegion, RawEntry, fingerprint_of, fragments};
use super::render::{self, DONE, EntryText, REFUSED, body, escaped, head, is_generated, refusal};
use super::{NoteAnswer, NotePage, PendingDecision, Pin, Section};
use crate::ids::DecisionId;

/// What happened to the answer in an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It was recorded.
    Answered(String),
    /// It was not carried out, for this reason.
    Refused(String),
}

/// Returns the note with new sections. The text outside of them stays the same, byte for byte;
/// lines that people added inside a section move below it.
pub fn merge(
    existing: &str,
    date: &str,
    page: &NotePage,
    reports: &BTreeMap<DecisionId, EntryOutcome>,
) -> String {
    let fragments = fragments(existing);
    let texts = EntryTexts::of(&fragments, page, reports);
    let mut note = String::with_capacity(existing.len());
    let mut written = BTreeSet::new();
    for fragment in fragments {
        match fragment {
            NoteFragment::Text(text) => note.push_str(text),
            NoteFragment::Section(section, parts) => {
                // A second section of the same name is a copy that a person made; only their own
                // lines are kept.
                if written.insert(section) {
                    note.push_str(&texts.section(section, page));
                }
                for part in parts {
                    match part {
                        NoteRegion::Line(line) if !is_generated(line) => push_line(&mut note, line),
                        NoteRegion::Line(_) | NoteRegion::Entry(_) => {}
                    }
                }
            }
        }
    }
    if existing.is_empty() {
        note.push_str(&format!("# {}\n", escaped(date)));
    }
    for section in Section::ALL.into_iter().filter(|section| !written.contains(section)) {
        push_line(&mut note, "\n");
        note.push_str(&texts.section(section, page));
    }
    note
}

/// Appends a full line; the text before it may lack its line break.
fn push_line(note: &mut String, line: &str) {
    if !note.is_empty() && !note.ends_with('\n') {
        note.push('\n');
    }
    note.push_str(line);
    if !line.ends_with('\n') {
        note.push('\n');
    }
}

/// All entries of the new note.
struct EntryTexts {
    open: BTreeMap<DecisionId, EntryText>,
    closed: Vec<EntryText>,
}

impl EntryTexts {
    fn of(
        fragments: &[NoteFragment<'_>],
        page: &NotePage,
        reports: &BTreeMap<DecisionId, EntryOutcome>,
    ) -> Self {
        let fresh = |one: &PendingDecision| {
            let pin = Pin { id: one.id, version: one.version };
            (one.id, EntryText { pin, fingerprint: None, head: head(one, None), body: body(one) })
        };
        let mut entries =
            Self { open: page.pending.iter().map(fresh).collect(), closed: Vec::new() };
        // A file that was saved from two editors may contain the same entry twice.
        let mut known = BTreeSet::new();
        let edited = parse::entries(fragments).into_iter().filter(|(raw, _)| raw.entry().is_edited);
        let (current, copies): (Vec<_>, Vec<_>) = edited.partition(|(_, counts)| *counts);
        for (raw, _) in current {
            known.insert((raw.pin.id, raw.fingerprint()));
            entries.keep(raw, page, reports.get(&raw.pin.id));
        }
        for (raw, _) in copies {
            if known.insert((raw.pin.id, raw.fingerprint())) {
                let why = "this entry was in the note twice, and only the first one is read";
                entries.closed.push(closed(raw, Some(&EntryOutcome::Refused(why.to_owned()))));
            }
        }
        entries
    }

    /// Carries over what people wrote in an entry.
    fn keep(&mut self, raw: &RawEntry<'_>, page: &NotePage, report: Option<&EntryOutcome>) {
        let pending = page.pending.iter().find(|one| one.id == raw.pin.id);
        let (Some(one), None) = (pending, &raw.fingerprint) else {
            self.closed.push(closed(raw, report));
            return;
        };
        let refused = match report {
            Some(EntryOutcome::Refused(why)) => Some(why.as_str()),
            Some(EntryOutcome::Answered(_)) | None => None,
        };
        // An answer stays pinned to the version that its writer saw. An entry without one shows the
        // current version.
        let is_unanswered = raw.entry().answer == NoteAnswer::Nothing;
        let version = if is_unanswered { one.version } else { raw.pin.version };
        let pin = Pin { version, ..raw.pin };
        let text =
            EntryText { pin, fingerprint: None, head: head(one, refused), body: raw.human_text() };
        self.open.insert(one.id, text);
    }

    fn section(&self, section: Section, page: &NotePage) -> String {
        let of_section = page.pending.iter().filter(|one| Section::of(&one.about) == section);
        let open: Vec<EntryText> =
            of_section.filter_map(|one| self.open.get(&one.id)).cloned().collect();
        render::section(section, page, &open, &self.closed)
    }
}

/// An entry that needs no answer any more, with what people wrote in it.
fn closed(raw: &RawEntry<'_>, report: Option<&EntryOutcome>) -> EntryText {
    let body = raw.human_text();
    let head_lines = |what: &str| {
        let lines = raw.head.iter().filter(|line| line.starts_with(what));
        lines.map(|line| format!("{}\n", line.trim_end())).collect::<String>()
    };
    let news = match report {
        Some(EntryOutcome::Answered(what)) => format!("{DONE} {}\n", escaped(what)),
        Some(EntryOutcome::Refused(why)) => format!("{}{}", head_lines(DONE), refusal(why)),
        None if raw.fingerprint.is_some() => format!("{}{}", head_lines(DONE), head_lines(REFUSED)),
        None => refusal("this decision is no longer open"),
    };
    let fingerprint = Some(fingerprint_of(&body));
    EntryText { pin: raw.pin, fingerprint, head: format!("{}\n{news}", head_lines("#### ")), body }
}
