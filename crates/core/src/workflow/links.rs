//! The steps of a workflow by index, and their dependencies, so that ids are looked up only once.
//!
//! Used by [`Workflow::downstream`] and by code that needs it thousands of times.

use std::collections::HashMap;

use super::{Need, Step, Workflow};

pub(super) struct Links<'a> {
    place_of: HashMap<&'a str, usize>,
    /// For each step, the steps of the same workflow that it needs. None if one of them does not
    /// exist, so the step can never start.
    pub(super) needs: Vec<Option<Vec<usize>>>,
    /// For each step, the steps that need it.
    pub(super) after: Vec<Vec<usize>>,
}

impl<'a> Links<'a> {
    pub(super) fn new(flow: &'a Workflow) -> Self {
        let mut place_of = HashMap::with_capacity(flow.steps.len());
        for (place, step) in flow.steps.iter().enumerate() {
            place_of.entry(step.id.as_str()).or_insert(place);
        }
        let places = |step: &'a Step| -> Option<Vec<usize>> {
            let ids = step.needs.iter().filter_map(own);
            ids.map(|id| place_of.get(id).copied()).collect()
        };
        let needs: Vec<_> = flow.steps.iter().map(places).collect();
        let mut after = vec![Vec::new(); flow.steps.len()];
        for (place, step) in flow.steps.iter().enumerate() {
            for needed in step.needs.iter().filter_map(own).filter_map(|id| place_of.get(id)) {
                if after[*needed].last() != Some(&place) {
                    after[*needed].push(place);
                }
            }
        }
        Self { place_of, needs, after }
    }

    pub(super) fn place(&self, id: &str) -> Option<usize> {
        self.place_of.get(id).copied()
    }

    /// For each step, whether it is this one or depends on it, directly or not.
    pub(super) fn downstream(&self, place: usize) -> Vec<bool> {
        let mut reached = vec![false; self.after.len()];
        let mut open = vec![place];
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut reached[next], true) {
                open.extend(&self.after[next]);
            }
        }
        reached
    }
}

fn own(need: &Need) -> Option<&str> {
    match need {
        Need::Step(id) => Some(id),
        Need::Elsewhere { .. } => None,
    }
}
