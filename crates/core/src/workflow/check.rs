//! Resolves the names between the expanded steps of one file, or reports everything that is wrong
//! with them.
//!
//! A step waits for the steps in its `needs`, for those whose gate leads to it, and for those that
//! its own gate may send back to. The last rule guarantees that going back to a step resets the
//! gate that sent it back: a reset covers the step and everything downstream of it.

use std::collections::BTreeMap;

use super::expand::{Draft, ExpandedFile, Group, Groups};
use super::gates::{self, UnresolvedGate};
use super::order::{Place, StepOrder};
use super::reader::{Reader, Report};
use super::source::{GateSource, WorkflowSource};
use super::{ABORT, DONE, Need, Step, Workflow, paths};
use crate::lifecycle::problem::{Problem, suggestion};
use crate::limits;
use crate::text::clip;
use crate::yaml::{Name, place};

/// Checks that the ids of a file are valid and unique.
pub(super) fn ids(source: &WorkflowSource, report: &mut Report) {
    if source.steps.is_empty() {
        report.at(&source.workflow.id, "the workflow has no steps", "add at least one to `steps`");
    }
    let steps: Vec<&Name> = source.steps.iter().map(|step| &step.id).collect();
    let gates: Vec<&Name> = source.gates.iter().map(|gate| &gate.id).collect();
    for (ids, what) in [(steps, "step"), (gates, "gate")] {
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for id in ids {
            if !report.has_id(id, what) {
                continue;
            }
            if [DONE, ABORT].contains(&id.value.as_str()) {
                let message = format!(
                    "`{}` is reserved for the end of a gate and cannot be a {what} id",
                    id.value
                );
                report.at(id, message, "choose another id");
            } else if let Some(line) = seen.insert(&id.value, place(id).0) {
                let message = format!("duplicate {what} `{}`, first on line {line}", id.value);
                report.at(id, message, "give this one another id");
            }
        }
    }
}

/// Joins the steps of a file; none if they have problems.
pub(super) fn resolve(
    source: &WorkflowSource,
    mut flow: Workflow,
    mut drafts: Vec<Draft<'_>>,
    report: &mut Report,
) -> Option<ExpandedFile> {
    let (steps, groups) = numbered(&mut drafts);
    let order = StepOrder::of_steps(&steps);
    let mut resolver = Resolver { id: &flow.id, steps, groups, order, is_full: false, report };
    resolver.long_ids();
    let gated = resolver.gates(source, &drafts);
    for (draft, gated) in drafts.iter().zip(&gated) {
        resolver.needs(draft);
        if let Some(gated) = gated {
            resolver.passes(gated, draft.number);
        }
    }
    if !resolver.has_no_cycle() || !resolver.report.problems.is_empty() {
        return None;
    }
    resolver.attach(&drafts, gated);
    let Resolver { mut steps, groups, order, .. } = resolver;
    write_needs(&mut steps, &order);
    paths::make_files_unique(&mut steps).into_iter().for_each(|problem| report.add(problem));
    flow.steps = steps;
    Some(ExpandedFile { flow, groups })
}

/// All steps in the order of the file, and the step numbers that each name stands for.
fn numbered(drafts: &mut [Draft<'_>]) -> (Vec<Step>, Groups) {
    let mut steps: Vec<Step> = Vec::new();
    let mut groups = Groups::new();
    for draft in drafts {
        let offset = steps.len();
        draft.number = offset;
        let base = &draft.source.id.value;
        let own = format!("{base}{}", draft.suffix);
        let alone = Group { first: vec![0], last: vec![0] };
        let single = draft.source.uses.is_none().then(|| (own.clone(), alone));
        for (name, group) in std::mem::take(&mut draft.groups).into_iter().chain(single) {
            let shifted = |numbers: &[usize]| numbers.iter().map(move |n| n + offset).collect();
            let group = Group { first: shifted(&group.first), last: shifted(&group.last) };
            // The name without the values of the matrix stands for the steps of all values.
            if let Some(rest) = name.strip_prefix(&own).filter(|_| !draft.suffix.is_empty()) {
                let all = groups.entry(format!("{base}{rest}")).or_default();
                all.first.extend(&group.first);
                all.last.extend(&group.last);
            }
            groups.insert(name, group);
        }
        steps.append(&mut draft.steps);
    }
    (steps, groups)
}

struct Resolver<'a> {
    id: &'a str,
    steps: Vec<Step>,
    groups: Groups,
    order: StepOrder,
    /// The limit on dependencies is reached and was reported.
    is_full: bool,
    report: &'a mut Report,
}

impl Resolver<'_> {
    fn long_ids(&mut self) {
        for step in &self.steps {
            if step.id.len() > limits::WORKFLOW_ID_BYTES {
                let message =
                    format!("the id of a step is longer than {} bytes", limits::WORKFLOW_ID_BYTES);
                let help = format!("use shorter names or values: `{}…`", clip(&step.id));
                self.report.add(Problem::in_line(step.line, message, help));
            }
        }
    }

    /// The gate of each draft, if it has one.
    fn gates(
        &mut self,
        source: &WorkflowSource,
        drafts: &[Draft<'_>],
    ) -> Vec<Option<UnresolvedGate>> {
        let mut owners: BTreeMap<&str, &Name> = BTreeMap::new();
        let mut gated = Vec::new();
        for draft in drafts {
            let found = self.gate_of(source, draft);
            let id = &draft.source.id;
            gated.push(found.map(|gate| {
                let owner = owners.entry(&gate.id.value).or_insert(id);
                if owner.value != id.value
                    && let Some(at) = &draft.source.gate
                {
                    let (gate, line) = (&gate.id.value, place(owner).0);
                    let message = format!(
                        "the gate `{gate}` already belongs to `{}`, on line {line}",
                        owner.value
                    );
                    self.report.at(at, message, "give each step its own gate");
                }
                let reader = &mut Reader { scope: &draft.scope, report: self.report };
                gates::gate(gate, &draft.suffix, reader)
            }));
        }
        for gate in &source.gates {
            let is_named = |id: &Name| id.value == gate.id.value;
            let is_meant = source.steps.iter().any(|step| step.gate.as_ref().is_some_and(is_named));
            if !is_meant && !owners.contains_key(gate.id.value.as_str()) {
                let message = format!("no step uses the gate `{}`", gate.id.value);
                self.report.at(&gate.id, message, "write `gate:` in a step, or remove the gate");
            }
        }
        gated
    }

    fn gate_of<'s>(
        &mut self,
        source: &'s WorkflowSource,
        draft: &Draft<'_>,
    ) -> Option<&'s GateSource> {
        let written = draft.source.gate.as_ref()?;
        let name = Reader { scope: &draft.scope, report: self.report }.name(written);
        let found = source.gates.iter().find(|gate| gate.id.value == name.value);
        if found.is_none() {
            let known = source.gates.iter().map(|gate| gate.id.value.as_str());
            let help = suggestion(&name.value, known);
            self.report.at(&name, format!("unknown gate `{}`", clip(&name.value)), help);
        }
        found
    }

    /// Adds the `needs` of a step. If the step includes a file, all first steps of that file wait.
    fn needs(&mut self, draft: &Draft<'_>) {
        let Some(written) = &draft.source.needs else { return };
        let names = Reader { scope: &draft.scope, report: self.report }.one_or_many(written);
        let own = format!("{}{}", draft.source.id.value, draft.suffix);
        let waiting = self.groups.get(&own).map_or_else(Vec::new, |group| group.first.clone());
        for name in names {
            if self.is_full {
                return;
            }
            if let Some(group) = self.groups.get(&name.value) {
                for needed in group.last.clone() {
                    waiting.iter().for_each(|step| self.link(*step, needed, &name));
                }
            } else if let Some(need) = self.other_workflow_step(&name) {
                for step in &waiting {
                    if !self.steps[*step].needs.contains(&need) {
                        self.steps[*step].needs.push(need.clone());
                    }
                }
            }
        }
    }

    /// `other/X-2`: a step of another workflow. Any other name is reported.
    fn other_workflow_step(&mut self, name: &Name) -> Option<Need> {
        match name.value.split_once('/') {
            Some((workflow, step))
                if paths::is_id(workflow)
                    && workflow != self.id
                    && !self.groups.contains_key(workflow)
                    && is_step_id(step) =>
            {
                Some(Need::Elsewhere { workflow: workflow.to_owned(), step: step.to_owned() })
            }
            Some(_) | None => {
                self.unknown(name, &[]);
                None
            }
        }
    }

    fn unknown(&mut self, name: &Name, also: &[&str]) {
        let known = self.groups.keys().map(String::as_str).chain(also.iter().copied());
        // A list of all steps of a large matrix would help nobody.
        let help = suggestion(&name.value, known.take(limits::WORKFLOW_ITEMS));
        let help: String = help.chars().take(300).collect();
        self.report.at(name, format!("unknown step `{}`", clip(&name.value)), help);
    }

    fn link(&mut self, step: usize, needed: usize, at: &Name) {
        if self.is_full {
            return;
        }
        self.is_full = self.order.is_full();
        if self.is_full {
            let message =
                format!("the steps have more than {} dependencies", limits::WORKFLOW_NEEDS);
            self.report.at(at, message, "put one step between two large matrices");
        } else {
            self.order.link(step, needed, place(at));
        }
    }

    fn passes(&mut self, gated: &UnresolvedGate, number: usize) {
        for name in &gated.pass {
            if name.value == DONE {
                continue;
            }
            if name.value == ABORT {
                let help = format!("write `{DONE}`, or put `{ABORT}` into `on_fail`");
                self.report.at(name, "a gate that passes cannot abort", help);
            } else if let Some(group) = self.groups.get(&name.value) {
                for next in group.first.clone() {
                    self.link(next, number, name);
                }
            } else {
                self.unknown(name, &[DONE]);
            }
        }
    }

    /// Whether the dependencies have no cycle; reports one otherwise.
    fn has_no_cycle(&mut self) -> bool {
        let Some(cycle) = self.order.cycle() else { return true };
        let next = |index: usize| cycle[(index + 1) % cycle.len()];
        let ids = |step: usize| self.steps[step].id.as_str();
        let links = (0..cycle.len()).map(|index| (cycle[index], next(index)));
        let says = |(step, needed): (usize, usize)| {
            let (line, _) = self.order.place(step, needed);
            format!("`{}` waits for `{}` (line {line})", ids(step), ids(needed))
        };
        let ways: Vec<String> = links.clone().take(8).map(says).collect();
        // The line that leads from a later step to an earlier one is most likely the wrong one.
        let back = links.clone().find(|(step, needed)| needed >= step);
        let (line, column) =
            back.map_or(Place::default(), |(step, needed)| self.order.place(step, needed));
        let message = match cycle.as_slice() {
            [one] => format!("`{}` waits for itself", ids(*one)),
            [..] => format!("the steps wait for each other in a cycle: {}", ways.join(", ")),
        };
        let help = Some(
            "a retry route belongs in `on_fail`; `on_pass` and `needs` lead forward".to_owned(),
        );
        self.report.add(Problem { line, column, message, help });
        false
    }

    /// Gives each step its gate, and makes it wait for every step that the gate may send back to.
    fn attach(&mut self, drafts: &[Draft<'_>], gated: Vec<Option<UnresolvedGate>>) {
        for (draft, gated) in drafts.iter().zip(gated) {
            let number = draft.number;
            if let Some(UnresolvedGate { mut gate, targets, .. }) = gated {
                let (mut before, after) =
                    (self.order.upstream(number), self.order.downstream(number));
                for (way, name) in gate.on_fail.iter_mut().zip(&targets) {
                    way.to = match name {
                        None => Some(self.steps[number].id.clone()),
                        Some(name) if name.value == ABORT => None,
                        Some(name) => {
                            self.retry_route(name, &gate.id, draft, (&mut before, &after))
                        }
                    };
                }
                self.steps[number].gate = Some(gate);
            }
        }
    }

    fn retry_route(
        &mut self,
        name: &Name,
        gate: &str,
        draft: &Draft<'_>,
        (before, after): (&mut Vec<bool>, &[bool]),
    ) -> Option<String> {
        let from = draft.number;
        let target = self.single(name, &draft.suffix)?;
        let (start, end) = (&self.steps[from], &self.steps[target]);
        let id = end.id.clone();
        if target == from {
            return Some(id);
        }
        if after[target] {
            let message =
                format!("the gate `{gate}` sends back to `{}`, which comes after it", end.id);
            let help = format!(
                "`{}` (line {}) waits for `{}` (line {}); name that one, or one before it",
                end.id, end.line, start.id, start.line
            );
            self.report.at(name, message, help);
            return None;
        }
        if !before[target] {
            self.link(from, target, name);
            *before = self.order.upstream(from);
        }
        Some(id)
    }

    /// The one step that a failure leads to. In a matrix it is the step with the same values.
    fn single(&mut self, name: &Name, suffix: &str) -> Option<usize> {
        if name.value == DONE {
            let help = format!("name a step, or `{ABORT}`");
            self.report.at(name, format!("a gate that fails cannot lead to `{DONE}`"), help);
            return None;
        }
        let Some(group) = self.groups.get(&name.value) else {
            self.unknown(name, &[ABORT]);
            return None;
        };
        let same = self.groups.get(&format!("{}{suffix}", name.value));
        let same = same.map(|group| group.first.as_slice());
        match (group.first.as_slice(), same) {
            ([one], _) | (_, Some([one])) => Some(*one),
            (several, _) => {
                let help = format!("name one of them, such as `{}`", self.steps[several[0]].id);
                let message = format!("`{}` stands for {} steps", clip(&name.value), several.len());
                self.report.at(name, message, help);
                None
            }
        }
    }
}

/// The final id of a step: `X-1`, `build[linux,2]`, `release/X-1`.
fn is_step_id(id: &str) -> bool {
    let is_part = |part: &str| {
        let (base, values) = part.split_once('[').unwrap_or((part, "]"));
        let values = values.strip_suffix(']');
        paths::is_id(base) && values.is_some_and(|values| !values.contains(['[', ']']))
    };
    id.len() <= limits::WORKFLOW_ID_BYTES && id.split('/').all(is_part)
}

fn write_needs(steps: &mut [Step], order: &StepOrder) {
    let ids: Vec<String> = steps.iter().map(|step| step.id.clone()).collect();
    for (number, step) in steps.iter_mut().enumerate() {
        let is_elsewhere = |need: &Need| matches!(need, Need::Elsewhere { .. });
        let elsewhere: Vec<Need> = step.needs.drain(..).filter(is_elsewhere).collect();
        let own = order.needs(number).map(|needed| Need::Step(ids[needed].clone()));
        step.needs = own.chain(elsewhere).collect();
    }
}
