//! The dependencies between the steps of a workflow, by step number, so that ids are looked up only
//! once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::{Need, Step};
use crate::limits;

/// Line and column.
pub(super) type Place = (u32, u32);

#[derive(Debug, Default)]
pub(super) struct StepOrder {
    /// The steps that each step needs, and where the file says so.
    needs: Vec<BTreeMap<usize, Place>>,
    /// The steps that need each step.
    after: Vec<Vec<usize>>,
    count: usize,
    numbers: HashMap<String, usize>,
    /// The steps that need one that does not exist, so that they can never start.
    stuck: Vec<bool>,
}

impl StepOrder {
    fn of(steps: usize) -> Self {
        let (needs, after) = (vec![BTreeMap::new(); steps], vec![Vec::new(); steps]);
        Self { needs, after, stuck: vec![false; steps], ..Self::default() }
    }

    /// The dependencies of these steps.
    pub(super) fn of_steps(steps: &[Step]) -> Self {
        let mut order = Self::of(steps.len());
        order.numbers = steps.iter().map(|step| step.id.clone()).zip(0..).collect();
        for (number, step) in steps.iter().enumerate() {
            for need in &step.needs {
                let Need::Step(id) = need else { continue };
                match order.number(id) {
                    Some(needed) => order.link(number, needed, (step.line, 1)),
                    None => order.stuck[number] = true,
                }
            }
        }
        order
    }

    pub(super) fn number(&self, id: &str) -> Option<usize> {
        self.numbers.get(id).copied()
    }

    /// Whether no further dependency may be added.
    pub(super) fn is_full(&self) -> bool {
        self.count >= limits::WORKFLOW_NEEDS
    }

    pub(super) fn link(&mut self, step: usize, needed: usize, at: Place) {
        if let Entry::Vacant(entry) = self.needs[step].entry(needed) {
            entry.insert(at);
            self.after[needed].push(step);
            self.count += 1;
        }
    }

    /// The steps that a step needs, in the order of the file.
    pub(super) fn needs(&self, step: usize) -> impl Iterator<Item = usize> {
        self.needs[step].keys().copied()
    }

    /// The steps that need a step, in the order of the file.
    pub(super) fn after(&self, step: usize) -> &[usize] {
        &self.after[step]
    }

    /// Whether a step needs one that does not exist.
    pub(super) fn is_stuck(&self, step: usize) -> bool {
        self.stuck[step]
    }

    pub(super) fn place(&self, step: usize, needed: usize) -> Place {
        self.needs[step].get(&needed).copied().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no step comes before it.
    pub(super) fn is_first(&self, step: usize) -> bool {
        self.needs[step].is_empty()
    }

    /// Whether no step comes after it.
    pub(super) fn is_last(&self, step: usize) -> bool {
        self.after[step].is_empty()
    }

    /// For every step, whether it comes after this one, directly or not. A step comes after itself.
    pub(super) fn downstream(&self, step: usize) -> Vec<bool> {
        self.reached(step, |next, open| open.extend(&self.after[next]))
    }

    /// For every step, whether it comes before this one, directly or not. A step comes before
    /// itself.
    pub(super) fn upstream(&self, step: usize) -> Vec<bool> {
        self.reached(step, |next, open| open.extend(self.needs(next)))
    }

    fn reached(&self, step: usize, neighbours: impl Fn(usize, &mut Vec<usize>)) -> Vec<bool> {
        let mut reached = vec![false; self.after.len()];
        let mut open = vec![step];
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut reached[next], true) {
                neighbours(next, &mut open);
            }
        }
        reached
    }

    /// A cycle: each step needs the next one, and the last needs the first; none if there is no
    /// cycle.
    pub(super) fn cycle(&self) -> Option<Vec<usize>> {
        let mut open: Vec<usize> = self.needs.iter().map(BTreeMap::len).collect();
        let mut free: Vec<usize> = (0..open.len()).filter(|step| open[*step] == 0).collect();
        while let Some(step) = free.pop() {
            for after in &self.after[step] {
                open[*after] -= 1;
                if open[*after] == 0 {
                    free.push(*after);
                }
            }
        }
        // Each remaining step needs another remaining one, so following them finds a cycle.
        let mut at = open.iter().position(|needs| *needs > 0)?;
        let mut way = Vec::new();
        while !way.contains(&at) {
            way.push(at);
            at = self.needs(at).find(|needed| open[*needed] > 0)?;
        }
        let start = way.iter().position(|step| *step == at)?;
        Some(way.split_off(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(steps: usize, needs: &[(usize, usize)]) -> StepOrder {
        let mut order = StepOrder::of(steps);
        needs.iter().for_each(|(step, needed)| order.link(*step, *needed, (1, 1)));
        order
    }

    #[test]
    fn a_circle_is_found_without_what_leads_to_it() {
        assert_eq!(order(3, &[(1, 0), (2, 1), (2, 0)]).cycle(), None);
        assert_eq!(order(1, &[(0, 0)]).cycle(), Some(vec![0]));
        assert_eq!(
            order(5, &[(1, 0), (1, 3), (2, 1), (3, 2), (4, 3)]).cycle(),
            Some(vec![1, 3, 2])
        );
    }

    #[test]
    fn what_comes_before_and_after_is_found_through_others() {
        let order = order(4, &[(1, 0), (2, 1)]);
        assert_eq!(order.downstream(0), [true, true, true, false]);
        assert_eq!(order.downstream(2), [false, false, true, false]);
        assert_eq!(order.upstream(1), [true, true, false, false]);
    }
}
