//! The result of a step: everything that one transaction writes, and the effects that follow it.

use serde::{Deserialize, Serialize};

use crate::lifecycle::contract::Field;
use crate::lifecycle::expr::{Fields, Value};
use crate::lifecycle::{Activity, Outcome};
use crate::machine::event::Actor;
use crate::machine::task::Task;
use crate::time::Instant;

/// Work outside the store, done after the commit, at least once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Effect {
    /// Start the activity of the state. Agents start differently: their tasks wait in the queue.
    Start {
        activity: Activity,
    },
    /// Stop a run that has lost its lease.
    Stop {
        epoch: i64,
    },
    Notify,
    Alert,
    CleanUp,
    Remind {
        age_days: i64,
    },
    /// Let the parent check its children.
    TellParent,
    /// Close the reviews of the panel that the task has left.
    CloseReviews,
    /// Move the children of the task along with it.
    #[serde(alias = "lead_parts")]
    LeadChildren,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// A timeout of the state, by the index of its transition in the lifecycle.
    Timeout(u32),
    /// The delay of the task is over.
    Ready,
    /// A reminder of the state, by its number.
    Remind(u32),
}

impl TimerKind {
    /// The timer as the store has it.
    pub fn code(self) -> (&'static str, i64) {
        match self {
            Self::Timeout(row) => ("bound", i64::from(row)),
            Self::Ready => ("ready", 0),
            Self::Remind(number) => ("remind", i64::from(number)),
        }
    }

    pub fn from_code(kind: &str, number: i64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        match kind {
            "bound" => Some(Self::Timeout(number)),
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
    /// What it is about, in the words of the agent or of whoever else brought the task here.
    pub question: Option<String>,
    /// The actions, and the trigger of each.
    pub offers: Vec<(String, String)>,
    pub deadline: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionChange {
    /// The move answers the open question of the state that it leaves.
    pub settles: bool,
    pub opens: Option<OpenDecision>,
}

/// A field's value at the time of a move.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    pub name: String,
    pub value: Value,
}

/// What the move means for tasks that wait for this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The task is done: tasks that wait for it may start.
    Done,
    /// The task ended otherwise: tasks that wait for it continue to wait, for a person.
    Otherwise,
    /// The task is no longer done: tasks that wait for it wait again.
    TakenBack,
}

/// The history's record of a move.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub from: Option<String>,
    pub to: String,
    pub trigger: String,
    pub actor: Actor,
    /// Every changed attribute of the task, by name; `null` for a removed one.
    pub fields: Fields,
}

/// The key of a note's detail among a record's fields. It is no attribute of the task, and no field
/// has a dot in its name.
pub(super) const NOTE_DETAIL: &str = "note.detail";

/// The key of what a task has used among the fields of a record.
pub(super) const SPENT: &str = "spent";

/// The key of the epoch of a run among the fields of the record that starts it.
pub(super) const EPOCH: &str = "epoch";

impl Record {
    /// Whether it changed anything about the task that people decide on; a note does not, nor does
    /// a cost that was reported late.
    pub fn changes_task(&self) -> bool {
        let is_said = |name: &String| ![NOTE_DETAIL, SPENT].contains(&name.as_str());
        self.from.as_deref() != Some(&self.to) || self.fields.keys().any(is_said)
    }

    /// The epoch of the run that it starts.
    pub fn epoch(&self) -> Option<i64> {
        self.fields.get(EPOCH).and_then(Value::as_i64)
    }

    /// The text that a field was set to.
    pub fn text(&self, field: Field) -> Option<&str> {
        self.fields.get(field.name()).and_then(Value::as_str)
    }
}

/// A decision of the machine, which is written completely or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskUpdate {
    pub task: Task,
    /// `None` if the history records nothing, as for a heartbeat.
    pub record: Option<Record>,
    pub effects: Vec<Effect>,
    /// The new timers of the task; `None` keeps the present ones.
    pub timers: Option<Vec<Timer>>,
    pub decision: DecisionChange,
    pub artifacts: Vec<Artifact>,
    /// The run that this move ended, by its epoch, and how it ended.
    pub ended_run: Option<(i64, Outcome)>,
    /// Set if the move ended the task, or undid its end.
    pub ending: Option<Ending>,
}
