//! What the gates of a walk say, by its policy. Where a verdict leads is not known here.

use std::collections::{HashMap, VecDeque};

use super::chance::Chance;
use super::{Policy, Verdict};
use crate::workflow::{Flow, Gate};

pub(super) enum Judge<'a> {
    Pass,
    /// For each step, whether its gate has asked a person.
    Fail(Vec<bool>),
    Chosen(HashMap<&'a str, VecDeque<&'a Verdict>>),
    Random(Chance),
}

impl<'a> Judge<'a> {
    pub(super) fn new(flow: &Flow, policy: &Policy<'a>) -> Self {
        match *policy {
            Policy::Pass => Self::Pass,
            Policy::Fail => Self::Fail(vec![false; flow.steps.len()]),
            Policy::Chosen(verdicts) => {
                let mut by_gate: HashMap<&str, VecDeque<&Verdict>> = HashMap::new();
                for (gate, verdict) in verdicts {
                    by_gate.entry(gate).or_default().push_back(verdict);
                }
                Self::Chosen(by_gate)
            }
            Policy::Random { seed } => Self::Random(Chance::new(seed)),
        }
    }

    pub(super) fn verdict(&mut self, place: usize, gate: &Gate) -> Verdict {
        match self {
            Self::Pass => Verdict::Pass,
            Self::Fail(asked) if asked[place] => Verdict::Pass,
            Self::Fail(_) => Verdict::Fail { reason: None },
            Self::Chosen(by_gate) => {
                let next = by_gate.get_mut(gate.id.as_str()).and_then(VecDeque::pop_front);
                next.cloned().unwrap_or(Verdict::Pass)
            }
            Self::Random(chance) => {
                if chance.coin() {
                    return Verdict::Pass;
                }
                let back = chance.one_of(&gate.on_fail);
                Verdict::Fail { reason: back.and_then(|back| back.reason.clone()) }
            }
        }
    }

    /// A person was asked at this step's gate.
    pub(super) fn asked(&mut self, place: usize) {
        match self {
            Self::Fail(asked) => asked[place] = true,
            Self::Pass | Self::Chosen(_) | Self::Random(_) => {}
        }
    }
}
