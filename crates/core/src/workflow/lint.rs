//! Lint warnings for a valid workflow: it will run, but perhaps not as its author intended. Nothing
//! here is an error.

use std::collections::BTreeMap;

use super::assignment::in_worktree;
use super::order::StepOrder;
use super::{
    Breaker, Criterion, EscalationLevel, Gate, LaunchMode, MAX_RETRIES, Need, Step, Workflow,
    source,
};
use crate::lifecycle::problem::Problem;
use crate::limits;
use crate::yaml::problem_at;

/// Failures that a gate may have without a circuit breaker. Each can cost as much as the whole
/// workflow.
const MANY_RETRIES: u32 = 10;
/// Pairs of steps reported for one file or worktree. More would say nothing new.
const PAIRS: usize = 3;
/// Banksman writes this folder itself, so no step needs to produce it.
const OWN_FOLDER: &str = ".workflow/";

/// The warnings by line. `exists` says whether a path or glob matches something in the repository.
pub fn lint(flow: &Workflow, exists: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let mut view = LintContext::of(flow);
    let mut warnings = Vec::new();
    for path in &flow.context_files {
        let mut expected =
            flow.steps.iter().map(|step| in_worktree(step.worktree.as_deref(), path));
        let missing = expected.find(|inside| !exists(inside) && view.producers(inside).is_empty());
        if let Some(inside) = missing {
            let what = described_path(path, &inside);
            let message =
                format!("the context file {what} does not exist, and no step produces it");
            warnings.push(Problem::of_whole(message, None));
        }
    }
    for (number, step) in flow.steps.iter().enumerate() {
        warnings.extend(isolated_step(&view, number));
        warnings.extend(unverified(step));
        warnings.extend(missing_inputs(&mut view, number, exists));
        if let Some(gate) = &step.gate {
            warnings.extend(many_retries(flow, gate));
            warnings.extend(ignored_settings(gate));
        }
        if warnings.len() > limits::WORKFLOW_PROBLEMS {
            break;
        }
    }
    warnings.extend(collisions(&mut view));
    warnings.sort();
    warnings.dedup();
    warnings.truncate(limits::WORKFLOW_PROBLEMS);
    warnings
}

/// A workflow with cached answers.
struct LintContext<'a> {
    flow: &'a Workflow,
    order: StepOrder,
    downstream: BTreeMap<usize, Vec<bool>>,
    producers: BTreeMap<String, Vec<usize>>,
}

impl<'a> LintContext<'a> {
    fn of(flow: &'a Workflow) -> Self {
        let order = StepOrder::of_steps(&flow.steps);
        Self { flow, order, downstream: BTreeMap::new(), producers: BTreeMap::new() }
    }

    /// Whether a step has always passed when another one starts.
    fn comes_before(&mut self, step: usize, other: usize) -> bool {
        self.downstream.entry(step).or_insert_with(|| self.order.downstream(step))[other]
    }

    /// The steps that produce something at a path of a worktree.
    fn producers(&mut self, path: &str) -> &[usize] {
        if !self.producers.contains_key(path) {
            let makes = |step: &Step| {
                let worktree = step.worktree.as_deref();
                step.outputs.iter().any(|output| may_overlap(&in_worktree(worktree, output), path))
            };
            let steps = self.flow.steps.iter().enumerate().filter(|(_, step)| makes(step));
            self.producers.insert(path.to_owned(), steps.map(|(number, _)| number).collect());
        }
        &self.producers[path]
    }

    /// Whether a step starts after one of another workflow, whose outputs are unknown here.
    fn waits_for_other_workflow(&mut self, number: usize) -> bool {
        let flow = self.flow;
        (0..flow.steps.len())
            .filter(|other| needs_another_workflow(&flow.steps[*other]))
            .any(|other| other == number || self.comes_before(other, number))
    }
}

fn needs_another_workflow(step: &Step) -> bool {
    step.needs.iter().any(|need| matches!(need, Need::Elsewhere { .. }))
}

/// Warnings about settings that the file leaves to defaults and that people may want to choose. An
/// unreadable text has none.
pub fn default_warnings(text: &str) -> Vec<Problem> {
    let Ok(source) = source::read(text) else { return Vec::new() };
    let silent = source.gates.iter().filter(|gate| gate.max_retries.is_none());
    let warning = |gate: &source::GateSource| {
        let message = format!(
            "the gate `{}` has no `max_retries`: a person is asked after {MAX_RETRIES} failures",
            gate.id.value
        );
        problem_at(&gate.id, message, "add `max_retries`")
    };
    silent.map(warning).collect()
}

/// A step without dependencies in either direction, in a workflow that otherwise has some.
fn isolated_step(view: &LintContext<'_>, number: usize) -> Option<Problem> {
    let (step, order) = (&view.flow.steps[number], &view.order);
    let is_alone = order.is_first(number) && order.is_last(number) && !needs_another_workflow(step);
    (is_alone && !order.is_empty()).then(|| {
        let message = format!("no step leads to `{}`, so it starts at once", step.id);
        Problem::in_line(step.line, message, "name it in an `on_pass`, or give it `needs`")
    })
}

/// A path as it is written and, if it differs, the place where it is expected.
fn described_path(path: &str, inside: &str) -> String {
    if path == inside {
        format!("`{path}`")
    } else {
        format!("`{path}` (`{inside}` in its worktree)")
    }
}

/// Inputs and context files that may not exist when the step starts.
fn missing_inputs(
    view: &mut LintContext<'_>,
    number: usize,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Problem> {
    let step = &view.flow.steps[number];
    let id = &step.id;
    let mut warnings = Vec::new();
    for path in step.inputs.iter().chain(&step.context) {
        let inside = in_worktree(step.worktree.as_deref(), path);
        if inside.starts_with(OWN_FOLDER) || exists(&inside) {
            continue;
        }
        let mut producers = view.producers(&inside).to_vec();
        producers.retain(|producer| *producer != number);
        if producers.iter().any(|producer| view.comes_before(*producer, number)) {
            continue;
        }
        warnings.push(match producers.first() {
            None if view.waits_for_other_workflow(number) => continue,
            None => {
                let what = described_path(path, &inside);
                let message =
                    format!("`{id}` reads {what}, which does not exist and which no step produces");
                Problem::in_line(step.line, message, "add it to the `outputs` of an earlier step")
            }
            Some(producer) => {
                let producer = &view.flow.steps[*producer].id;
                let message = format!(
                    "`{id}` reads `{path}`, but does not wait for `{producer}`, which produces it"
                );
                Problem::in_line(step.line, message, "add that step to its `needs`")
            }
        });
    }
    warnings
}

/// Whether two paths or globs may name the same file: equal, one inside the other, or equal up to
/// the first wildcard. In doubt they do.
fn may_overlap(a: &str, b: &str) -> bool {
    fn fixed(path: &str) -> (&str, bool) {
        let end = path.find(['*', '?', '[', '{']);
        (path[..end.unwrap_or(path.len())].trim_end_matches('/'), end.is_some())
    }
    let ((a, a_is_glob), (b, b_is_glob)) = (fixed(a), fixed(b));
    let is_below = |outer: &str, inner: &str, glob: bool| {
        inner.strip_prefix(outer).is_some_and(|rest| {
            glob || outer.is_empty() || rest.is_empty() || rest.starts_with('/')
        })
    };
    is_below(a, b, a_is_glob) || is_below(b, a, b_is_glob)
}

fn unverified(step: &Step) -> Option<Problem> {
    // The exit code of a command verifies itself.
    let by_agent = step.run.is_none() || matches!(step.criterion, Some(Criterion::Judged(_)));
    if !by_agent {
        return None;
    }
    let (message, help) = match (&step.criterion, step.launch) {
        (Some(Criterion::Judged(text)), _) => {
            let said: String = text.chars().take(60).collect();
            let message = format!("an agent will judge the criterion of `{}`: {said}", step.id);
            (message, "if it is a command, write `success_criterion: { command: … }`")
        }
        (None, LaunchMode::Headless | LaunchMode::Subagent)
            if step.outputs.is_empty() && step.gate.is_none() =>
        {
            let message = format!("nothing verifies the work of `{}`", step.id);
            (message, "give it `outputs`, a `success_criterion` or a `gate`")
        }
        (Some(Criterion::Command(_) | Criterion::File(_)) | None, _) => return None,
    };
    Some(Problem::in_line(step.line, message, help))
}

/// A gate that may send back very often without a circuit breaker.
fn many_retries(flow: &Workflow, gate: &Gate) -> Option<Problem> {
    let is_unlimited = flow.breaker == Breaker::default();
    (gate.max_retries > MANY_RETRIES && is_unlimited).then(|| {
        let message = format!(
            "the gate `{}` may fail {} times before a person is asked, and no breaker stops it earlier",
            gate.id, gate.max_retries
        );
        Problem::in_line(gate.line, message, "add `breaker: { failures: …, time: …, cost: … }` to the workflow")
    })
}

/// Settings of a gate that its level ignores.
fn ignored_settings(gate: &Gate) -> Vec<Problem> {
    let has_window = gate.veto_window.is_some();
    let (window, reviewers) = match gate.level {
        EscalationLevel::Notify => (false, false),
        EscalationLevel::Auto => (has_window, false),
        EscalationLevel::Human => (has_window, gate.reviewers.len() > 1),
    };
    let window = window.then(|| {
        let message = format!("the gate `{}` has a veto window, which its level ignores", gate.id);
        Problem::in_line(gate.line, message, "only the level `notify` uses it")
    });
    let reviewers = reviewers.then(|| {
        let message = format!("the gate `{}` names reviewers, but a person decides", gate.id);
        Problem::in_line(gate.line, message, "only the levels `auto` and `notify` ask agents")
    });
    window.into_iter().chain(reviewers).collect()
}

/// Steps that can run at the same time and write the same file or share a worktree.
fn collisions(view: &mut LintContext<'_>) -> Vec<Problem> {
    let mut claims: BTreeMap<(bool, &str), Vec<usize>> = BTreeMap::new();
    for (number, step) in view.flow.steps.iter().enumerate() {
        let outputs = step.outputs.iter().map(|output| (false, output.as_str()));
        for claim in outputs.chain(step.worktree.iter().map(|folder| (true, folder.as_str()))) {
            claims.entry(claim).or_default().push(number);
        }
    }
    let mut warnings = Vec::new();
    for ((is_worktree, path), steps) in claims {
        let pairs = steps.iter().enumerate();
        let pairs =
            pairs.flat_map(|(index, one)| steps[index + 1..].iter().map(|other| (*one, *other)));
        let at_once = |(one, other): &(usize, usize)| {
            !view.comes_before(*one, *other) && !view.comes_before(*other, *one)
        };
        let pairs: Vec<(usize, usize)> = pairs.filter(at_once).take(PAIRS).collect();
        warnings
            .extend(pairs.into_iter().map(|pair| collision(view.flow, pair, path, is_worktree)));
        if warnings.len() > limits::WORKFLOW_PROBLEMS {
            break;
        }
    }
    warnings
}

fn collision(
    flow: &Workflow,
    (one, other): (usize, usize),
    path: &str,
    is_worktree: bool,
) -> Problem {
    let (one, other) = (&flow.steps[one], &flow.steps[other]);
    let share = one.worktree.is_some() && one.worktree == other.worktree;
    let (what, help) = if is_worktree {
        let what = format!("share the worktree `{path}`, so they take turns");
        (what, "give each its own worktree, or let one need the other")
    } else if share {
        (format!("both write `{path}`, in any order"), "let one need the other")
    } else {
        let what = format!("can run at the same time and both write `{path}`");
        (what, "let one need the other, or their changes will conflict")
    };
    Problem::in_line(other.line, format!("`{}` and `{}` {what}", one.id, other.id), help)
}
