//! Simulates a workflow: what starts, what is sent back, when a person is asked, and how many runs
//! it may take. Nothing is executed.
//!
//! A step starts when all its dependencies have passed. Steps that can start together do so in one
//! round, as far as the workflow's `parallel` and shared worktrees allow; then their gates decide.
//! A gate that fails sends back to a step, which resets that step and everything downstream of it.
//! The failure whose number is the gate's `max_retries` asks a person instead, who lets it pass;
//! the one that trips the circuit breaker ends the simulation. Steps of other workflows count as
//! passed.
//!
//! Every simulation ends: a step runs again only after a failure that sent back, of which each gate
//! has fewer than its `max_retries` (`worst` counts them), and a simulation that would exhaust the
//! memory before that is cut off.

mod cost;
mod event;
mod random;
#[cfg(test)]
mod tests;
mod verdicts;
mod worst;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::order::StepOrder;
use super::{EscalationLevel, Gate, RetryRoute, Step, Workflow};
use verdicts::GateVerdicts;

pub use cost::{Cost, Estimate, cost};
pub use event::{Decider, SimulationEnd, SimulationEvent};
pub use worst::{WorstCase, worst};

/// The verdicts of the gates in a simulation.
#[derive(Debug, Clone, Copy)]
pub enum GateScript<'a> {
    /// Each gate fails without a reason until it has asked a person, and passes from then on.
    Fail,
    /// Verdicts by gate id, in order for each gate; a gate without further verdicts passes.
    Chosen(&'a [(String, GateVerdict)]),
    /// Random verdicts; each retry route is equally likely. The same seed gives the same
    /// simulation.
    Random { seed: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    Pass,
    Fail { reason: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Simulation {
    pub events: Vec<SimulationEvent>,
    /// Runs of the steps' agents.
    pub runs: usize,
    /// Verdicts of agents.
    pub reviews: usize,
    /// How often a person is asked: at each verdict of a gate of level `human`, at each failure
    /// that no longer sends back, and when the circuit breaker trips.
    pub person: usize,
    /// Rounds: the runs of one round happen at the same time.
    pub longest: usize,
    pub steps: BTreeMap<String, StepCount>,
    pub ended: SimulationEnd,
}

/// The counts of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StepCount {
    pub runs: usize,
    pub reviews: usize,
}

/// Events of a simulation and names in them. `max_retries` may be any number, so a limit must
/// protect the memory; nobody would read more.
const MAX_SIMULATION_ENTRIES: usize = 1_000_000;

pub fn run_simulation(flow: &Workflow, policy: &GateScript<'_>) -> Simulation {
    let mut simulator = Simulator::new(flow, policy);
    let ended = loop {
        if let Some(end) = simulator.round() {
            break end;
        }
    };
    simulator.finish(ended)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepProgress {
    Open,
    Running,
    /// Its gate failed, and the retry route leads neither to it nor to a step before it.
    Failed,
    Passed,
}

struct Simulator<'a> {
    flow: &'a Workflow,
    order: StepOrder,
    verdicts: GateVerdicts<'a>,
    progress: Vec<StepProgress>,
    counts: Vec<StepCount>,
    /// By step: the failures of its gate.
    failures: Vec<u32>,
    all_failures: u32,
    rounds: usize,
    person: usize,
    events: Vec<SimulationEvent>,
    entries: usize,
}

impl<'a> Simulator<'a> {
    fn new(flow: &'a Workflow, policy: &GateScript<'a>) -> Self {
        let count = flow.steps.len();
        Self {
            flow,
            order: StepOrder::of_steps(&flow.steps),
            verdicts: GateVerdicts::new(flow, policy),
            progress: vec![StepProgress::Open; count],
            counts: vec![StepCount::default(); count],
            failures: vec![0; count],
            all_failures: 0,
            rounds: 0,
            person: 0,
            events: Vec::new(),
            entries: 0,
        }
    }

    /// Starts the steps that can start, then asks their gates. Returns the end of the simulation
    /// when it is reached.
    fn round(&mut self) -> Option<SimulationEnd> {
        let started = self.ready();
        if started.is_empty() {
            let done = self.progress.iter().all(|step| *step == StepProgress::Passed);
            return Some(if done { SimulationEnd::Done } else { SimulationEnd::Stuck });
        }
        if self.entries >= MAX_SIMULATION_ENTRIES {
            return Some(SimulationEnd::CutOff);
        }
        self.rounds += 1;
        for place in &started {
            self.progress[*place] = StepProgress::Running;
            self.counts[*place].runs += 1;
            let (step, attempt) = (self.id(*place), self.counts[*place].runs);
            self.record(SimulationEvent::Started { step, attempt, round: self.rounds }, 1);
        }
        for place in started {
            // An earlier gate of this round may have sent back to a dependency of this step, which
            // discards its run.
            if self.progress[place] == StepProgress::Running
                && let Some(end) = self.decide(place)
            {
                return Some(end);
            }
        }
        None
    }

    fn ready(&self) -> Vec<usize> {
        let limit = self.flow.parallel.map_or(usize::MAX, |limit| limit.max(1) as usize);
        let mut worktrees: BTreeSet<&str> = BTreeSet::new();
        let mut ready = Vec::new();
        for (place, step) in self.flow.steps.iter().enumerate() {
            if ready.len() == limit {
                break;
            }
            let can_start = self.progress[place] == StepProgress::Open && self.needs_passed(place);
            if can_start && step.worktree.as_ref().is_none_or(|shared| worktrees.insert(shared)) {
                ready.push(place);
            }
        }
        ready
    }

    fn needs_passed(&self, place: usize) -> bool {
        !self.order.is_stuck(place)
            && self.order.needs(place).all(|need| self.progress[need] == StepProgress::Passed)
    }

    /// Applies the gate's verdict to a finished run.
    fn decide(&mut self, place: usize) -> Option<SimulationEnd> {
        let Some(gate) = &self.flow.steps[place].gate else {
            self.pass(place, None, None);
            return None;
        };
        let decider = match gate.level {
            EscalationLevel::Auto | EscalationLevel::Notify => {
                self.counts[place].reviews += gate.deciders().len();
                Decider::Agent
            }
            EscalationLevel::Human => {
                self.person += 1;
                Decider::Person
            }
        };
        match self.verdicts.verdict(place, gate) {
            GateVerdict::Pass => {
                self.pass(place, Some(gate), Some(decider));
                None
            }
            GateVerdict::Fail { reason } => self.fail(place, gate, reason),
        }
    }

    fn pass(&mut self, place: usize, gate: Option<&Gate>, by: Option<Decider>) {
        self.progress[place] = StepProgress::Passed;
        let (step, gate) = (self.id(place), gate.map(|gate| gate.id.clone()));
        self.record(SimulationEvent::Passed { step, gate, by }, 1);
    }

    fn fail(&mut self, place: usize, gate: &Gate, reason: Option<String>) -> Option<SimulationEnd> {
        self.failures[place] = self.failures[place].saturating_add(1);
        self.all_failures = self.all_failures.saturating_add(1);
        let (step, failure) = (self.id(place), self.failures[place]);
        let id = gate.id.clone();
        if self.flow.breaker.failures.is_some_and(|limit| self.all_failures >= limit) {
            self.person += 1;
            let failures = self.all_failures;
            self.record(SimulationEvent::Tripped { step, gate: id, reason, failures }, 1);
            return Some(SimulationEnd::Person);
        }
        let route = gate.retry_route(reason.as_deref()).filter(|_| failure < gate.max_retries);
        if matches!(route, Some(RetryRoute { to: None, .. })) {
            self.record(SimulationEvent::Aborted { step, gate: id, reason, failure }, 1);
            return Some(SimulationEnd::Aborted);
        }
        // A route to a missing step asks a person as well.
        let target = route.and_then(|route| self.order.number(route.to.as_deref()?));
        if let Some(target) = target {
            self.progress[place] = StepProgress::Failed;
            let (to, resets) = (self.id(target), self.reset(target));
            let weight = 1 + resets.len();
            let event = SimulationEvent::SentBack { step, gate: id, reason, failure, to, resets };
            self.record(event, weight);
        } else {
            self.person += 1;
            self.verdicts.person_asked(place);
            let max_retries = gate.max_retries;
            let event = SimulationEvent::Asked { step, gate: id, reason, failure, max_retries };
            self.record(event, 1);
            self.pass(place, Some(gate), Some(Decider::Person));
        }
        None
    }

    fn reset(&mut self, target: usize) -> Vec<String> {
        let reached = self.order.downstream(target);
        let places = (0..reached.len()).filter(|place| reached[*place]);
        let mut resets = Vec::new();
        for place in places {
            self.progress[place] = StepProgress::Open;
            resets.push(self.id(place));
        }
        resets
    }

    fn id(&self, place: usize) -> String {
        self.flow.steps[place].id.clone()
    }

    fn record(&mut self, event: SimulationEvent, weight: usize) {
        self.entries += weight;
        self.events.push(event);
    }

    fn finish(mut self, ended: SimulationEnd) -> Simulation {
        self.events.push(SimulationEvent::Ended { how: ended });
        let sum = |of: fn(&StepCount) -> usize| self.counts.iter().map(of).sum();
        Simulation {
            runs: sum(|count| count.runs),
            reviews: sum(|count| count.reviews),
            person: self.person,
            longest: self.rounds,
            steps: self.flow.steps.iter().map(|step| step.id.clone()).zip(self.counts).collect(),
            events: self.events,
            ended,
        }
    }
}

/// The types of the agents that decide at the step's gate.
fn reviewers(step: &Step) -> &[String] {
    step.gate.as_ref().map_or(&[], Gate::deciders)
}

/// How often each of several reviewers may be asked about one run: for its verdict, and in each
/// round of a debate. A single reviewer has nobody to debate with.
fn questions(reviewers: usize, rounds: usize) -> usize {
    if reviewers > 1 { rounds.saturating_add(1) } else { 1 }
}
