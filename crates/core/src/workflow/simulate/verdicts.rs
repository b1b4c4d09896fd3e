//! Supplies the verdicts of the gates in a simulation. Where a verdict leads is decided elsewhere.

use std::collections::{HashMap, VecDeque};

use super::random::SeededRandom;
use super::{GateScript, GateVerdict};
use crate::workflow::{Gate, Workflow};

pub(super) enum GateVerdicts<'a> {
    /// For each step, whether its gate has asked a person.
    Fail(Vec<bool>),
    Chosen(HashMap<&'a str, VecDeque<&'a GateVerdict>>),
    Random(SeededRandom),
}

impl<'a> GateVerdicts<'a> {
    pub(super) fn new(flow: &Workflow, policy: &GateScript<'a>) -> Self {
        match *policy {
            GateScript::Fail => Self::Fail(vec![false; flow.steps.len()]),
            GateScript::Chosen(verdicts) => {
                let mut by_gate: HashMap<&str, VecDeque<&GateVerdict>> = HashMap::new();
                for (gate, verdict) in verdicts {
                    by_gate.entry(gate).or_default().push_back(verdict);
                }
                Self::Chosen(by_gate)
            }
            GateScript::Random { seed } => Self::Random(SeededRandom::new(seed)),
        }
    }

    pub(super) fn verdict(&mut self, place: usize, gate: &Gate) -> GateVerdict {
        match self {
            Self::Fail(asked) if asked[place] => GateVerdict::Pass,
            Self::Fail(_) => GateVerdict::Fail { reason: None },
            Self::Chosen(by_gate) => {
                let next = by_gate.get_mut(gate.id.as_str()).and_then(VecDeque::pop_front);
                next.cloned().unwrap_or(GateVerdict::Pass)
            }
            Self::Random(random) => {
                if random.next() >> 63 == 1 {
                    return GateVerdict::Pass;
                }
                let back = random.one_of(&gate.on_fail);
                GateVerdict::Fail { reason: back.and_then(|back| back.reason.clone()) }
            }
        }
    }

    /// Records that a person was asked at this step's gate.
    pub(super) fn person_asked(&mut self, place: usize) {
        match self {
            Self::Fail(asked) => asked[place] = true,
            Self::Chosen(_) | Self::Random(_) => {}
        }
    }
}
