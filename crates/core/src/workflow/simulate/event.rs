//! The events of a simulation, as data and as one line of text each.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SimulationEvent {
    /// A run of the step's agent.
    Started { step: String, attempt: usize, round: usize },
    /// A step without a gate passes as soon as it has signalled, and nobody decides.
    Passed { step: String, gate: Option<String>, by: Option<Decider> },
    /// The gate has failed for the time with this number. `resets` are all steps that must pass
    /// again, in the order of the file.
    SentBack {
        step: String,
        gate: String,
        reason: Option<String>,
        failure: u32,
        to: String,
        resets: Vec<String>,
    },
    /// The gate has failed `max_retries` times, so a person is asked.
    Asked { step: String, gate: String, reason: Option<String>, failure: u32, max_retries: u32 },
    /// All gates together have failed as often as the circuit breaker allows.
    Tripped { step: String, gate: String, reason: Option<String>, failures: u32 },
    /// The retry route aborts the workflow.
    Aborted { step: String, gate: String, reason: Option<String>, failure: u32 },
    /// The last event.
    Ended { how: SimulationEnd },
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
                let shown = &resets[..resets.len().min(NAMES_SHOWN)];
                let failed = failed(gate, reason, *failure);
                write!(f, "{failed}: back to {to}, resets {}", shown.join(", "))?;
                match resets.len() - shown.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Asked { gate, reason, failure, max_retries, .. } => {
                let failed = failed(gate, reason, *failure);
                write!(f, "{failed} (max_retries {max_retries}): a person is asked")
            }
            Self::Tripped { gate, reason, failures, .. } => {
                let failed = failed(gate, reason, *failures);
                write!(f, "{failed} of all gates: the breaker trips and a person is asked")
            }
            Self::Aborted { gate, reason, failure, .. } => {
                write!(f, "{}: the workflow is aborted", failed(gate, reason, *failure))
            }
            Self::Ended { how } => how.fmt(f),
        }
    }
}

fn failed(gate: &str, reason: &Option<String>, number: u32) -> String {
    let because = reason.as_ref().map(|reason| format!(" because of {reason}"));
    format!("{gate} fails{}, failure {number}", because.unwrap_or_default())
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
