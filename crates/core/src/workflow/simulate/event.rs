//! The events of a simulation, as data and as one line of text each.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SimulationEvent {
    Started {
        step: String,
        attempt: usize,
        round: usize,
    },
    /// A step without a gate passes as soon as it has signalled.
    Passed {
        step: String,
        gate: Option<String>,
        by: Option<Decider>,
    },
    SentBack {
        step: String,
        gate: String,
        reason: Option<String>,
        /// The number of this failure of this gate.
        failure: u32,
        to: String,
        /// Every step that must pass again, in the order of the file.
        resets: Vec<String>,
    },
    /// The gate has failed `max_retries` times, so a person is asked.
    Asked {
        step: String,
        gate: String,
        reason: Option<String>,
        failure: u32,
        max_retries: u32,
    },
    /// All gates together have failed as often as the circuit breaker allows.
    Tripped {
        step: String,
        gate: String,
        reason: Option<String>,
        failures: u32,
    },
    /// The retry route aborts the workflow.
    Aborted {
        step: String,
        gate: String,
        reason: Option<String>,
        failure: u32,
    },
    Ended {
        how: SimulationEnd,
    },
}

/// Who lets a step pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    Agent,
    Person,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulationEnd {
    /// Every step has passed.
    Done,
    Aborted,
    /// The circuit breaker tripped, and a person decides.
    Person,
    /// The remaining steps can never start: they need each other, a missing step, or one that
    /// failed and was not reset.
    Stuck,
    /// It exceeded the limit on events.
    CutOff,
}

/// Names in one line; the data contains all of them.
const NAMES_SHOWN: usize = 8;

impl fmt::Display for SimulationEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { step, attempt, round } => {
                write!(f, "round {round}: {step} starts, attempt {attempt}")
            }
            Self::Passed { step, gate, by } => match (gate, by) {
                (None, _) => write!(f, "{step} passes without a gate"),
                (Some(gate), Some(Decider::Person)) => {
                    write!(f, "{step} passes {gate}, decided by a person")
                }
                (Some(gate), Some(Decider::Agent) | None) => write!(f, "{step} passes {gate}"),
            },
            Self::SentBack { gate, reason, failure, to, resets, .. } => {
                write_failure(f, gate, reason.as_ref(), *failure)?;
                let shown = &resets[..resets.len().min(NAMES_SHOWN)];
                write!(f, ": back to {to}, resets {}", shown.join(", "))?;
                match resets.len() - shown.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Asked { gate, reason, failure, max_retries, .. } => {
                write_failure(f, gate, reason.as_ref(), *failure)?;
                write!(f, " (max_retries {max_retries}): a person is asked")
            }
            Self::Tripped { gate, reason, failures, .. } => {
                write_failure(f, gate, reason.as_ref(), *failures)?;
                f.write_str(" of all gates: the breaker trips and a person is asked")
            }
            Self::Aborted { gate, reason, failure, .. } => {
                write_failure(f, gate, reason.as_ref(), *failure)?;
                f.write_str(": the workflow is aborted")
            }
            Self::Ended { how } => how.fmt(f),
        }
    }
}

fn write_failure(
    f: &mut fmt::Formatter<'_>,
    gate: &str,
    reason: Option<&String>,
    number: u32,
) -> fmt::Result {
    let because = reason.map(|reason| format!(" because of {reason}")).unwrap_or_default();
    write!(f, "{gate} fails{because}, failure {number}")
}

impl fmt::Display for SimulationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done: every step has passed",
            Self::Aborted => "aborted",
            Self::Person => "a person decides how to continue",
            Self::Stuck => "stuck: the remaining steps can never start",
            Self::CutOff => "cut off: the simulation is too long",
        })
    }
}
