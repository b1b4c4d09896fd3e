//! The daily note: a Markdown file of one day that shows what waits for people and takes their
//! answers.
//!
//! `render` writes the sections, `parse` finds them again in a file that people have edited,
//! `merge` puts new ones into such a file. All three are pure. Whatever stands outside of the
//! sections is never changed, and nothing that people wrote inside of an entry is lost; a text of
//! somebody else, such as a title, can never make an entry or tick a box.

mod merge;
mod parse;
mod render;

#[cfg(test)]
mod tests;

use crate::ids::{DecisionId, TaskId};
use crate::time::Span;

pub use merge::{EntryOutcome, merge};
pub use parse::{NoteAnswer, NoteEntry, Parsed, parse};
pub use render::{age, is_same, label};

/// What the sections of a note show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotePage {
    pub pending: Vec<PendingDecision>,
    /// Open questions that are not shown for want of room.
    pub left_out: usize,
    pub completed: Vec<Completed>,
    pub alerts: Vec<Alert>,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDecision {
    pub id: DecisionId,
    /// The version of the task that the note shows; an answer is for this one.
    pub version: i64,
    pub task: TaskId,
    pub summary: String,
    pub asks: String,
    pub age: Span,
    /// How much time is left, and the state that follows if nobody answers.
    pub lapse: Option<(Span, String)>,
    pub offers: Vec<Choice>,
    pub about: PendingDetails,
}

/// What is worth knowing before an answer, by the table that the question stands in.
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
    /// The address of its pull request; empty if there was none.
    pub pr: String,
    /// The time of day.
    pub at: String,
    pub effort: String,
    pub learnings: String,
    pub follow_ups: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Our own word.
    pub condition: &'static str,
    pub severity: Severity,
    pub task: Option<TaskId>,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Warning => "Warning",
        }
    }
}

/// The parts of a note that are ours, in the order in which a new one has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Decisions,
    Merge,
    Completed,
    Alerts,
}

impl Section {
    const ALL: [Self; 4] = [Self::Decisions, Self::Merge, Self::Completed, Self::Alerts];

    fn word(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Merge => "merge",
            Self::Completed => "completed",
            Self::Alerts => "alerts",
        }
    }

    fn of(about: &PendingDetails) -> Self {
        match about {
            PendingDetails::Standard { .. } | PendingDetails::Escalated { .. } => Self::Decisions,
            PendingDetails::Merge { .. } => Self::Merge,
        }
    }
}

/// The lines by which the parts of a note are found again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Marker {
    Begin(Section),
    End(Section),
    /// An entry that waits for an answer.
    Open(Pin),
    /// An entry that needs none any more, with the print of what people had written into it.
    Closed(Pin, String),
    /// What follows belongs to people.
    Answer(DecisionId),
    EntryEnd(DecisionId),
}

/// A question, and the version of its task that was shown with it.
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
            Self::Begin(section) => section.word().to_owned(),
            Self::End(section) => format!("{}:end", section.word()),
            Self::Open(Pin { id, version }) => format!("entry {id}@{version}"),
            Self::Closed(Pin { id, version }, print) => format!("closed {id}@{version} {print}"),
            Self::Answer(id) => format!("answer {id}"),
            Self::EntryEnd(id) => format!("entry:end {id}"),
        };
        format!("{BEFORE}{words}{AFTER}")
    }

    /// A marker is a line of its own, spelled as we spell it.
    fn read(line: &str) -> Option<Self> {
        let words = line.trim().strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
        let words: Vec<&str> = words.split(' ').take(4).collect();
        match words[..] {
            [word] => {
                let named = |word: &str| Section::ALL.into_iter().find(|one| one.word() == word);
                match word.strip_suffix(":end") {
                    Some(word) => named(word).map(Self::End),
                    None => named(word).map(Self::Begin),
                }
            }
            ["entry", pin] => Pin::read(pin).map(Self::Open),
            ["closed", pin, print] => Pin::read(pin).map(|pin| Self::Closed(pin, print.to_owned())),
            ["answer", id] => id.parse().ok().map(Self::Answer),
            ["entry:end", id] => id.parse().ok().map(Self::EntryEnd),
            _ => None,
        }
    }
}

impl Pin {
    fn read(text: &str) -> Option<Self> {
        let (id, version) = text.split_once('@')?;
        Some(Self { id: id.parse().ok()?, version: version.parse().ok()? })
    }
}
