//! The events that can happen to a task.

use std::fmt;
use std::str::FromStr;

use crate::lifecycle::Outcome;
use crate::lifecycle::contract::AgentRole;
use crate::lifecycle::expr::Fields;
use crate::limits;
use crate::machine::effect::TimerKind;
use crate::machine::liveness::StoredMovers;
use crate::time::{Instant, Span};

/// The source of an event: a role of the lifecycle and a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    pub role: String,
    pub name: Option<String>,
}

impl Actor {
    const SYSTEM: &str = "system";
    const HUMAN: &str = "human";
    /// The role of a run whose state names none.
    pub const AGENT: &str = AgentRole::Agent.as_str();

    /// Banksman itself.
    pub fn system() -> Self {
        Self { role: Self::SYSTEM.to_owned(), name: None }
    }

    pub fn human(name: &str) -> Self {
        Self { role: Self::HUMAN.to_owned(), name: Some(name.to_owned()) }
    }

    pub fn is_human(&self) -> bool {
        self.role == Self::HUMAN
    }

    pub fn is_system(&self) -> bool {
        self.role == Self::SYSTEM
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}:{name}", self.role),
            None => f.write_str(&self.role),
        }
    }
}

/// A text that names no actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an actor; write ROLE or ROLE:NAME, such as human:kim")]
pub struct NotAnActor(pub String);

impl FromStr for Actor {
    type Err = NotAnActor;

    fn from_str(text: &str) -> Result<Self, NotAnActor> {
        let (role, name) = match text.split_once(':') {
            Some((role, name)) => (role, Some(name)),
            None => (text, None),
        };
        let sound = |part: &str| {
            !part.is_empty()
                && part.len() <= limits::ACTOR_BYTES
                && !part.chars().any(char::is_control)
        };
        if !sound(role) || name.is_some_and(|name| !sound(name)) {
            return Err(NotAnActor(text.chars().take(64).collect()));
        }
        Ok(Self { role: role.to_owned(), name: name.map(str::to_owned) })
    }
}

/// A request for a transition: by the state it leads to, by its trigger, or by both.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionRequest {
    pub actor: Actor,
    pub to: Option<String>,
    pub trigger: Option<String>,
    pub fields: Fields,
    /// The epoch of the run that asks; refused if it is not the current one.
    pub epoch: Option<i64>,
    /// The version that the caller saw; refused if the task has changed since.
    pub version: Option<i64>,
}

impl TransitionRequest {
    /// The system asks for a trigger that the lifecycle names.
    pub fn of_system(trigger: &str, fields: Fields) -> Self {
        let (actor, trigger) = (Actor::system(), Some(trigger.to_owned()));
        Self { actor, to: None, trigger, fields, epoch: None, version: None }
    }
}

/// A worker claims the task.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub actor: Actor,
    pub expires_at: Instant,
}

/// A run renews its lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    pub epoch: i64,
    pub expires_at: Instant,
    /// Whether the run has made progress.
    pub progressed: bool,
}

/// A run has ended, or its keeper has disappeared.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    pub epoch: i64,
    pub outcome: Outcome,
    /// Details for people: the crash report, the reviewer's words.
    pub detail: String,
    /// Collected facts, such as `pr_url`.
    pub fields: Fields,
    pub tokens: i64,
    pub cost_micros: i64,
    /// When to try again, according to the failure policy, for an outcome that leads to `again`.
    pub again_at: Option<Instant>,
}

/// An activity other than an agent's has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityReport {
    /// The entry into the state that started the activity. A report about an earlier stay changes
    /// nothing.
    pub entered: i64,
    pub outcome: Outcome,
    pub detail: String,
    pub fields: Fields,
    /// What an agent used that the activity asked.
    pub tokens: i64,
    pub cost_micros: i64,
}

/// A note in the history that changes nothing about the task, such as a permission or a refused
/// answer.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryNote {
    pub actor: Actor,
    /// The kind of note, as one word.
    pub trigger: String,
    /// What a person should know about it, as one line of the record.
    pub detail: Option<String>,
}

/// A person says what is true although the system has no proof of it.
#[derive(Debug, Clone, PartialEq)]
pub struct FactOverride {
    pub actor: Actor,
    /// The facts by name; null removes one.
    pub fields: Fields,
    pub reason: String,
}

/// What a run has used that was stopped before it reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateCost {
    pub epoch: i64,
    pub tokens: i64,
    pub cost_micros: i64,
}

/// Time has passed that no timeout of the task counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncounted {
    /// Negative if a clock was put back.
    pub span: Span,
    /// What has begun from here on did so after that time.
    pub since: Instant,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Asked(TransitionRequest),
    Claimed(Claim),
    Heartbeat(Heartbeat),
    Finished(Finish),
    Reported(ActivityReport),
    /// A timer is due. It names the entry into the state that set it.
    Due {
        timer: TimerKind,
        entered: i64,
    },
    /// A stale write was refused: its epoch is not the current one.
    StaleWrite {
        epoch: i64,
    },
    Noted(HistoryNote),
    /// A person skips the delay of a task.
    DelaySkipped(Actor),
    Overridden(FactOverride),
    /// What the store lacks for the task is made again, by this actor.
    Restored {
        actor: Actor,
        movers: StoredMovers,
    },
    /// The number of tasks that this one still waits for has changed.
    NeedsLeft(i64),
    Uncounted(Uncounted),
    LateCost(LateCost),
}
