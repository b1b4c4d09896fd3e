//! Estimates the cost of a workflow from past runs of the same roles.
//!
//! Roles without past runs are listed and count as zero, so the sums are too small; `unknown` says
//! by how many runs.

use std::collections::BTreeMap;
use std::iter;

use serde::Serialize;

use super::worst::RepeatBounds;
use super::{Simulation, questions, reviewers};
use crate::lifecycle::contract::AgentRole;
use crate::workflow::{Step, Workflow};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Each step and each review once.
    pub best: Cost,
    pub walk: Option<Cost>,
    /// An upper limit, for each number separately.
    pub worst: Cost,
    /// Roles of steps and reviewers without past runs.
    pub unknown_roles: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    pub micros: i64,
    /// The working time of agents, added up even if they work at the same time.
    pub seconds: i64,
    /// Runs and reviews of roles with past runs.
    pub known: usize,
    /// Runs and reviews of other roles.
    pub unknown: usize,
}

/// `past` is what one run of a role costs, in millionths of the currency and in seconds. `rounds`
/// are the debate rounds that several reviewers may have.
pub fn cost(
    flow: &Workflow,
    taken: Option<&Simulation>,
    past: &dyn Fn(&str) -> Option<(i64, i64)>,
    rounds: usize,
) -> Estimate {
    let mut roles: Past<'_> = BTreeMap::new();
    // A command is no agent, so it costs nothing.
    let past = |role: &str| {
        if role == AgentRole::Command.as_str() { Some((0, 0)) } else { past(role) }
    };
    for role in flow.steps.iter().flat_map(roles_of) {
        roles.entry(role).or_insert_with(|| past(role));
    }
    let most_asked = |step: &Step| questions(reviewers(step).len(), rounds);
    let rows: Vec<Cost> =
        flow.steps.iter().map(|step| of_step(step, &roles, 1, most_asked(step))).collect();
    let once = flow.steps.iter().map(|step| of_step(step, &roles, 1, 1));
    let bounds = RepeatBounds::new(flow);
    let most = |part: fn(&Cost) -> usize| bounds.most(|place| part(&rows[place]));
    let amount = |part: fn(&Cost) -> i64| {
        let sum = bounds.most(|place| usize::try_from(part(&rows[place])).unwrap_or(0));
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    let unknown = roles.iter().filter(|(_, past)| past.is_none());
    Estimate {
        best: once.fold(Cost::default(), Cost::plus),
        walk: taken.map(|walk| of_walk(flow, walk, &roles)),
        worst: Cost {
            micros: amount(|cost| cost.micros),
            seconds: amount(|cost| cost.seconds),
            known: most(|cost| cost.known),
            unknown: most(|cost| cost.unknown),
        },
        unknown_roles: unknown.map(|(role, _)| (*role).to_owned()).collect(),
    }
}

type Past<'a> = BTreeMap<&'a str, Option<(i64, i64)>>;

fn roles_of(step: &Step) -> impl Iterator<Item = &str> {
    iter::once(step.role.as_str()).chain(reviewers(step).iter().map(String::as_str))
}

/// So many runs of a step and their reviews, if each reviewer is asked this often.
fn of_step(step: &Step, past: &Past<'_>, runs: usize, questions: usize) -> Cost {
    let times = iter::once(runs).chain(iter::repeat(questions));
    let parts = roles_of(step).zip(times).map(|(role, times)| Cost::of(past[role], times));
    parts.fold(Cost::default(), Cost::plus)
}

fn of_walk(flow: &Workflow, walk: &Simulation, past: &Past<'_>) -> Cost {
    let steps = flow.steps.iter().map(|step| {
        let count = walk.steps.get(&step.id).copied().unwrap_or_default();
        let each = count.reviews.checked_div(reviewers(step).len()).unwrap_or_default();
        of_step(step, past, count.runs, each)
    });
    steps.fold(Cost::default(), Cost::plus)
}

impl Cost {
    fn of(each: Option<(i64, i64)>, times: usize) -> Self {
        let Some((micros, seconds)) = each else {
            return Self { unknown: times, ..Self::default() };
        };
        let factor = i64::try_from(times).unwrap_or(i64::MAX);
        Self {
            micros: micros.saturating_mul(factor),
            seconds: seconds.saturating_mul(factor),
            known: times,
            unknown: 0,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            micros: self.micros.saturating_add(other.micros),
            seconds: self.seconds.saturating_add(other.seconds),
            known: self.known.saturating_add(other.known),
            unknown: self.unknown.saturating_add(other.unknown),
        }
    }
}
