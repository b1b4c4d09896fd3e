//! What a decision asks for: everything that one transaction writes and what is done after it.

use serde::{Deserialize, Serialize};

use crate::lifecycle::Activity;
use crate::lifecycle::contract::Field;
use crate::lifecycle::expr::{Fields, Value};
use crate::machine::event::Actor;
use crate::machine::task::Task;
use crate::time::Instant;

/// Work for the outside, done after the commit, at least once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Effect {
    /// Begin what the state does. Agents are not started so: their tasks wait in the queue.
    Start {
        activity: Activity,
    },
    /// End a run that has lost its right to work.
    Stop {
        epoch: i64,
    },
    Notify,
    Alert,
    CleanUp,
    Remind {
        age_days: i64,
    },
    /// The parent looks at its parts again.
    TellParent,
    /// The parts of the task follow it.
    #[serde(alias = "lead_parts")]
    LeadChildren,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// A bound of the state: the row's index in the lifecycle.
    Bound(u32),
    /// The task may be claimed from now on.
    Ready,
    /// A reminder of the state, by its number.
    Remind(u32),
}

impl TimerKind {
    /// As it is written into the store.
    pub fn code(self) -> (&'static str, i64) {
        match self {
            Self::Bound(row) => ("bound", i64::from(row)),
            Self::Ready => ("ready", 0),
            Self::Remind(number) => ("remind", i64::from(number)),
        }
    }

    pub fn from_code(kind: &str, number: i64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        match kind {
            "bound" => Some(Self::Bound(number)),
            "ready" => Some(Self::Ready),
            "remind" => Some(Self::Remind(number)),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    pub kind: TimerKind,
    pub due: Instant,
}

/// A question that people have to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDecision {
    pub asks: String,
    /// Actions and the triggers that they take.
    pub offers: Vec<(String, String)>,
    pub deadline: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionChange {
    /// The open question of the state that was left is settled by this move.
    pub settles: bool,
    pub opens: Option<OpenDecision>,
}

/// A field's value, kept as it was at this move.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    pub name: String,
    pub value: Value,
}

/// What the task means to those that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is done: whoever waits for it may go on.
    Done,
    /// It ended otherwise: whoever waits for it goes on waiting, for a person.
    Otherwise,
    /// It was done and is so no more: whoever waits for it waits again.
    TakenBack,
}

/// What the history keeps of a move.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub from: Option<String>,
    pub to: String,
    pub trigger: String,
    pub actor: Actor,
    /// Everything about the task that changed, by name; `null` where it was removed.
    pub fields: Fields,
}

/// The entry of a record's fields with the detail of a note. It is no attribute of the task; no
/// field has a dot in its name.
pub(super) const NOTE_DETAIL: &str = "note.detail";

impl Record {
    /// What a note says, such as the reason of a fault.
    pub fn note_detail(&self) -> Option<&str> {
        self.fields.get(NOTE_DETAIL).and_then(Value::as_str)
    }

    /// The text that a field was set to.
    pub fn text(&self, field: Field) -> Option<&str> {
        self.fields.get(field.name()).and_then(Value::as_str)
    }
}

/// A decision of the machine: to be written as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskUpdate {
    pub task: Task,
    /// `None` for what leaves no trace in the history, such as a heartbeat.
    pub record: Option<Record>,
    pub effects: Vec<Effect>,
    /// The timers of the task from now on; `None` leaves those there are.
    pub timers: Option<Vec<Timer>>,
    pub decision: DecisionChange,
    pub artifacts: Vec<Artifact>,
    /// The run that this move ended, by its epoch, and how it ended.
    pub ended_run: Option<(i64, String)>,
    /// Set when the move brought the task to its end, or back from it.
    pub ending: Option<Ending>,
}
