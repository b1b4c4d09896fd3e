//! The daily note: a Markdown file for one day that lists open decisions and takes people's
//! answers.
//!
//! `render` writes the sections, `parse` finds them in a file that people have edited, and `merge`
//! updates the sections of such a file. All three are pure. Text outside of the sections is never
//! changed, and nothing that people wrote inside an entry is lost. Foreign text, such as a title,
//! can never create an entry or tick a box.

mod merge;
mod parse;
mod render;

#[cfg(test)]
mod tests;

use crate::closed::closed;
use crate::ids::{DecisionId, TaskId};
use crate::time::Span;

pub use merge::{EntryOutcome, merge};
pub use parse::{NoteAnswer, NoteEntry, parse};
pub use render::{age, is_same, label};

/// The content of the sections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotePage {
    pub pending: Vec<PendingDecision>,
    /// Open decisions that are not shown because the note is full.
    pub left_out: usize,
    pub completed: Vec<Completed>,
    pub alerts: Vec<Alert>,
}

/// A decision that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDecision {
    pub id: DecisionId,
    /// The version of the task that the note shows; an answer applies to this version.
    pub version: i64,
    pub task: TaskId,
    pub summary: String,
    pub asks: String,
    /// What it is about this time, in the words of whoever asks.
    pub question: Option<String>,
    /// What a person has to judge, each part in a line.
    pub work: Vec<String>,
    /// Who has answered, until that takes effect.
    pub answered: Option<String>,
    pub age: Span,
    /// The time left, and the state that follows if nobody answers.
    pub lapse: Option<(Span, String)>,
    pub offers: Vec<Choice>,
    pub about: PendingDetails,
}

/// What a person needs to know before they answer, for each table of the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingDetails {
    Standard { risk: String },
    Escalated { concern: String },
    Merge { pr: String, tests: String, reviews: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub action: String,
    pub needs_note: bool,
}

/// A task that was completed on the day of the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    pub task: TaskId,
    pub title: String,
    /// The URL of its pull request; empty if there is none.
    pub pr: String,
    /// Whether its work is on the base branch.
    pub merged: bool,
    /// Who said so, where nobody has proven it.
    pub unproven: Option<String>,
    /// The time of day.
    pub at: String,
    pub effort: String,
    pub learnings: String,
    pub follow_ups: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// A fixed text of the program, so it needs no escaping.
    pub condition: &'static str,
    pub severity: Severity,
    pub task: Option<TaskId>,
    pub detail: String,
}

closed! {
    pub enum Severity {
        Error = "Error",
        Warning = "Warning",
    }
}

closed! {
    /// The sections that Banksman writes, in the order of a new note.
    enum Section {
        Decisions = "decisions",
        Merge = "merge",
        Completed = "completed",
        Alerts = "alerts",
    }
}

impl Section {
    fn of(about: &PendingDetails) -> Self {
        match about {
            PendingDetails::Standard { .. } | PendingDetails::Escalated { .. } => Self::Decisions,
            PendingDetails::Merge { .. } => Self::Merge,
        }
    }
}

/// The comment lines that mark sections and entries.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Marker {
    Begin(Section),
    End(Section),
    /// An entry. The fingerprint of what people wrote in it says that it needs no answer any more.
    Entry(Pin, Option<String>),
    /// The lines below belong to people.
    Answer(DecisionId),
    EntryEnd(DecisionId),
}

/// A decision and the version of its task that the note showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pin {
    id: DecisionId,
    version: i64,
}

const BEFORE: &str = "<!-- banksman:";
const AFTER: &str = " -->";

impl Marker {
    fn line(&self) -> String {
        let words = match self {
            Self::Begin(section) => section.as_str().to_owned(),
            Self::End(section) => format!("{}:end", section.as_str()),
            Self::Entry(Pin { id, version }, None) => format!("entry {id}@{version}"),
            Self::Entry(Pin { id, version }, Some(fingerprint)) => {
                format!("closed {id}@{version} {fingerprint}")
            }
            Self::Answer(id) => format!("answer {id}"),
            Self::EntryEnd(id) => format!("entry:end {id}"),
        };
        format!("{BEFORE}{words}{AFTER}")
    }

    /// Parses a marker; it must be a line of its own, spelled exactly as [`Self::line`] does.
    fn parse(line: &str) -> Option<Self> {
        let words = line.trim().strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
        let words: Vec<&str> = words.split(' ').take(4).collect();
        match words[..] {
            [word] => match word.strip_suffix(":end") {
                Some(word) => word.parse().ok().map(Self::End),
                None => word.parse().ok().map(Self::Begin),
            },
            ["entry", pin] => Some(Self::Entry(Pin::parse(pin)?, None)),
            ["closed", pin, fingerprint] => {
                Some(Self::Entry(Pin::parse(pin)?, Some(fingerprint.to_owned())))
            }
            ["answer", id] => id.parse().ok().map(Self::Answer),
            ["entry:end", id] => id.parse().ok().map(Self::EntryEnd),
            _ => None,
        }
    }
}

impl Pin {
    fn parse(text: &str) -> Option<Self> {
        let (id, version) = text.split_once('@')?;
        Some(Self { id: id.parse().ok()?, version: version.parse().ok()? })
    }
}
