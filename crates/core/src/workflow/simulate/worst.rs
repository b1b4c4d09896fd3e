//! The worst case: an upper limit on the runs of agents before only people can continue.
//!
//! A gate sends back at most `max_retries - 1` times, because the next failure asks a person, and
//! all gates together fewer times than trip the circuit breaker. Going back to a step repeats the
//! steps downstream of it that have run. Steps that need the failed step have not run: they start
//! only after it has passed, and are reset whenever it is. Hence a step runs at most once, plus
//! once for each failure whose retry route reaches it and that it does not come after.
//!
//! Gates of level `human` count like the others: people may send back as well.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{StepCount, questions, reviewers};
use crate::workflow::Workflow;
use crate::workflow::order::StepOrder;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorstCase {
    /// Runs of the steps' agents, all together.
    pub runs: usize,
    /// Verdicts and debate replies of agents, all together.
    pub reviews: usize,
    /// Failures that send back.
    pub failures: usize,
    /// Whether the circuit breaker ends it before the gates have failed as often as they may.
    pub breaker: bool,
    /// The worst case of each step alone. If a gate has several routes, or the circuit breaker
    /// ends it, they do not all happen in one simulation, so the sum may exceed `runs`.
    pub steps: BTreeMap<String, StepCount>,
}

/// `rounds` are the debate rounds that several reviewers of one gate may have.
pub fn worst(flow: &Workflow, rounds: usize) -> WorstCase {
    let bounds = RepeatBounds::new(flow);
    let asked = |count: usize| count.saturating_mul(questions(count, rounds));
    let reviews: Vec<usize> = flow.steps.iter().map(|step| asked(reviewers(step).len())).collect();
    let steps = flow.steps.iter().enumerate().map(|(place, step)| {
        let runs = bounds.of_step(place);
        (step.id.clone(), StepCount { runs, reviews: runs.saturating_mul(reviews[place]) })
    });
    WorstCase {
        runs: bounds.most(|_| 1),
        reviews: bounds.most(|place| reviews[place]),
        failures: bounds.failures,
        breaker: bounds.breaker,
        steps: steps.collect(),
    }
}

/// What all gates together can repeat.
pub(super) struct RepeatBounds {
    steps: usize,
    gates: Vec<GateRepeats>,
    failures: usize,
    breaker: bool,
}

/// What one gate can repeat.
struct GateRepeats {
    /// How often it can send back.
    times: usize,
    /// For each of its routes, which steps run again.
    ways: Vec<Vec<bool>>,
}

impl RepeatBounds {
    pub(super) fn new(flow: &Workflow) -> Self {
        let order = StepOrder::of_steps(&flow.steps);
        let steps = flow.steps.len();
        let gates: Vec<GateRepeats> =
            (0..steps).filter_map(|place| GateRepeats::new(flow, &order, place)).collect();
        let possible = gates.iter().fold(0_usize, |sum, gate| sum.saturating_add(gate.times));
        let limit = flow.breaker.failures.map(|limit| limit.saturating_sub(1) as usize);
        let failures = limit.map_or(possible, |limit| limit.min(possible));
        Self { steps, gates, failures, breaker: failures < possible }
    }

    /// The largest total weight of all runs, if one run of a step weighs `weight`. The heaviest
    /// failures come first.
    pub(super) fn most(&self, weight: impl Fn(usize) -> usize) -> usize {
        let sum = |places: &mut dyn Iterator<Item = usize>| {
            places.map(&weight).fold(0, usize::saturating_add)
        };
        let of_way = |way: &Vec<bool>| sum(&mut (0..self.steps).filter(|place| way[*place]));
        let mut gates: Vec<(usize, usize)> = self
            .gates
            .iter()
            .map(|gate| (gate.ways.iter().map(of_way).max().unwrap_or(0), gate.times))
            .collect();
        gates.sort_unstable_by(|left, right| right.cmp(left));
        let mut most = sum(&mut (0..self.steps));
        let mut left = self.failures;
        for (weight, times) in gates {
            let taken = times.min(left);
            most = most.saturating_add(weight.saturating_mul(taken));
            left -= taken;
        }
        most
    }

    /// The most runs of one step.
    fn of_step(&self, place: usize) -> usize {
        let reaching = self.gates.iter().filter(|gate| gate.ways.iter().any(|way| way[place]));
        let times = reaching.fold(0_usize, |sum, gate| sum.saturating_add(gate.times));
        times.min(self.failures).saturating_add(1)
    }
}

impl GateRepeats {
    fn new(flow: &Workflow, order: &StepOrder, place: usize) -> Option<Self> {
        let gate = flow.steps[place].gate.as_ref()?;
        let mut behind = order.downstream(place);
        behind[place] = false;
        let targets = gate.on_fail.iter().filter_map(|back| order.number(back.to.as_deref()?));
        let ways: Vec<Vec<bool>> = targets
            .map(|target| {
                let reset = order.downstream(target);
                reset.iter().zip(&behind).map(|(reset, behind)| *reset && !*behind).collect()
            })
            .collect();
        let times = if ways.is_empty() { 0 } else { gate.max_retries.saturating_sub(1) as usize };
        Some(Self { times, ways })
    }
}
