//! How bad it can get: a bound on the runs of agents before only people can go on.
//!
//! A gate sends back at most `max_retries - 1` times, because the failure after that asks a person,
//! and all gates together fewer times than trip the breaker. Going back to a step repeats those of
//! its downstream that have run. Of these, what needs the failed step itself has not: it starts
//! only after that step has passed, and is reset whenever that step is. Hence a step runs at most
//! once, and once more for each failure whose way back reaches it and that it does not come after.
//!
//! Gates of level `human` count like the others: people may send back as well.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{StepCount, questions, reviewers};
use crate::workflow::Workflow;
use crate::workflow::links::Links;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worst {
    /// Runs of the steps' agents, all together.
    pub runs: usize,
    /// Verdicts of agents and what they say in debates, all together.
    pub reviews: usize,
    /// Failures that lead back.
    pub failures: usize,
    /// Whether it is the breaker that ends it, before the gates have failed as often as they may.
    pub breaker: bool,
    /// The worst for each step alone. Not all of it happens on one walk where a gate has several
    /// ways back, or where the breaker ends it, so the sum may be more than `runs`.
    pub steps: BTreeMap<String, StepCount>,
}

/// `rounds`: of debate, that several reviewers of one gate may have.
#[must_use]
pub fn worst(flow: &Workflow, rounds: usize) -> Worst {
    let bounds = Bounds::new(flow);
    let asked = |count: usize| count.saturating_mul(questions(count, rounds));
    let reviews: Vec<usize> = flow.steps.iter().map(|step| asked(reviewers(step).len())).collect();
    let steps = flow.steps.iter().enumerate().map(|(place, step)| {
        let runs = bounds.of_step(place);
        (step.id.clone(), StepCount { runs, reviews: runs.saturating_mul(reviews[place]) })
    });
    Worst {
        runs: bounds.most(|_| 1),
        reviews: bounds.most(|place| reviews[place]),
        failures: bounds.failures,
        breaker: bounds.breaker,
        steps: steps.collect(),
    }
}

/// What all gates together can cause.
pub(super) struct Bounds {
    steps: usize,
    gates: Vec<Repeats>,
    failures: usize,
    breaker: bool,
}

/// What one gate can cause.
struct Repeats {
    /// How often it can send back.
    times: usize,
    /// For each of its ways back, which steps run again.
    ways: Vec<Vec<bool>>,
}

impl Bounds {
    pub(super) fn new(flow: &Workflow) -> Self {
        let links = Links::new(flow);
        let steps = flow.steps.len();
        let gates: Vec<Repeats> =
            (0..steps).filter_map(|place| Repeats::new(flow, &links, place)).collect();
        let possible = gates.iter().fold(0_usize, |sum, gate| sum.saturating_add(gate.times));
        let limit = flow.breaker.failures.map(|limit| limit.saturating_sub(1) as usize);
        let failures = limit.map_or(possible, |limit| limit.min(possible));
        Self { steps, gates, failures, breaker: failures < possible }
    }

    /// The most that all runs can weigh, where `weight` says what one run of a step weighs. The
    /// heaviest failures come first.
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

    /// The most that one step can run.
    fn of_step(&self, place: usize) -> usize {
        let reaching = self.gates.iter().filter(|gate| gate.ways.iter().any(|way| way[place]));
        let times = reaching.fold(0_usize, |sum, gate| sum.saturating_add(gate.times));
        times.min(self.failures).saturating_add(1)
    }
}

impl Repeats {
    fn new(flow: &Workflow, links: &Links<'_>, place: usize) -> Option<Self> {
        let gate = flow.steps[place].gate.as_ref()?;
        let mut behind = links.downstream(place);
        behind[place] = false;
        let targets = gate.on_fail.iter().filter_map(|back| links.place(back.to.as_deref()?));
        let ways: Vec<Vec<bool>> = targets
            .map(|target| {
                let reset = links.downstream(target);
                reset.iter().zip(&behind).map(|(reset, behind)| *reset && !*behind).collect()
            })
            .collect();
        let times = if ways.is_empty() { 0 } else { gate.max_retries.saturating_sub(1) as usize };
        Some(Self { times, ways })
    }
}
