//! Draws the steps of a large matrix as one, so that people can read the drawing of its workflow.

use std::collections::BTreeMap;

use super::{StepMark, StepMarks};
use crate::lifecycle::StateKind;
use crate::workflow::{Need, Step, Workflow};

/// A matrix of more steps is drawn as one step.
const DRAWN: usize = 3;

/// The kinds of states, the most urgent first: a group has the colour of its most urgent step.
const URGENCY: [StateKind; 9] = [
    StateKind::Failed,
    StateKind::Waiting,
    StateKind::Blocked,
    StateKind::Parked,
    StateKind::Working,
    StateKind::Reviewing,
    StateKind::Queued,
    StateKind::Cancelled,
    StateKind::Done,
];

/// The workflow with one step for each large matrix, and its marks. Unchanged where the steps of
/// two matrices wait for each other in turn.
pub(super) fn grouped(flow: &Workflow, marks: &StepMarks) -> (Workflow, StepMarks) {
    let mut members: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
    for step in &flow.steps {
        members.extend(name_of(&step.id).map(|name| (name, Vec::new())));
    }
    for step in &flow.steps {
        if let Some(group) = name_of(&step.id).and_then(|name| members.get_mut(&name)) {
            group.push(step);
        }
    }
    members.retain(|_, steps| steps.len() > DRAWN);
    let drawn = |id: &str| {
        let steps = name_of(id).and_then(|name| Some((members.get(&name)?.len(), name)));
        steps.map_or_else(|| id.to_owned(), |(count, name)| format!("{name} ×{count}"))
    };
    let mut steps: Vec<Step> = Vec::new();
    for step in &flow.steps {
        let id = drawn(&step.id);
        let needs = step.needs.iter().map(|need| match need {
            Need::Step(needed) => Need::Step(drawn(needed)),
            Need::Elsewhere { .. } => need.clone(),
        });
        let needs = needs.filter(|need| *need != Need::Step(id.clone()));
        let known = steps.iter().position(|known| known.id == id);
        let place = known.unwrap_or_else(|| {
            steps.push(one_of_many(step, &id, &drawn));
            steps.len() - 1
        });
        for need in needs {
            if !steps[place].needs.contains(&need) {
                steps[place].needs.push(need);
            }
        }
    }
    if steps.len() == flow.steps.len() || !can_be_ordered(&steps) {
        return (flow.clone(), marks.clone());
    }
    let mut counted: BTreeMap<String, Vec<&StepMark>> = BTreeMap::new();
    for (id, mark) in marks {
        counted.entry(drawn(id)).or_default().push(mark);
    }
    let marks = counted.into_iter().map(|(id, marks)| (id, mark_of(&marks))).collect();
    (Workflow { steps, ..flow.clone() }, marks)
}

/// The name of the matrix that a step belongs to: `build[linux,2]` to `build`.
fn name_of(id: &str) -> Option<String> {
    let (open, close) = (id.find('[')?, id.find(']')?);
    (open < close).then(|| format!("{}{}", &id[..open], &id[close + 1..]))
}

/// The step that stands for all of its matrix.
fn one_of_many(step: &Step, id: &str, drawn: &impl Fn(&str) -> String) -> Step {
    let mut one = Step { needs: Vec::new(), ..step.clone() };
    if let Some(gate) = &mut one.gate {
        for back in &mut gate.on_fail {
            back.to = back.to.as_ref().map(|to| drawn(to));
        }
        if id != step.id {
            gate.id = name_of(&gate.id).unwrap_or_else(|| gate.id.clone());
        }
    }
    if id != step.id {
        one.name = name_of(&step.name).unwrap_or_else(|| step.name.clone());
    }
    Step { id: id.to_owned(), ..one }
}

fn can_be_ordered(steps: &[Step]) -> bool {
    let mut open: Vec<&Step> = steps.iter().collect();
    loop {
        let waits = |need: &Need| match need {
            Need::Step(id) => open.iter().any(|step| step.id == *id),
            Need::Elsewhere { .. } => false,
        };
        let left: Vec<&Step> =
            open.iter().copied().filter(|step| step.needs.iter().any(waits)).collect();
        if left.len() == open.len() {
            return left.is_empty();
        }
        open = left;
    }
}

/// One mark for several steps: how many are in each state.
fn mark_of(marks: &[&StepMark]) -> StepMark {
    if let [one] = marks {
        return (*one).clone();
    }
    let urgency = |mark: &&&StepMark| URGENCY.iter().position(|kind| *kind == mark.kind);
    let kind = marks.iter().min_by_key(urgency).map_or(StateKind::Queued, |mark| mark.kind);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for mark in marks {
        *counts.entry(mark.word()).or_default() += 1;
    }
    let words: Vec<String> =
        counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
    StepMark { state: words.join(", "), kind, note: String::new() }
}
