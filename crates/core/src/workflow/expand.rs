//! Expands a file: a step for every value of its matrix, and the steps of included files in place
//! of the step that uses them.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::order::StepOrder;
use super::params::{self, Values};
use super::paths::{self, file_name};
use super::reader::{Reader, Report};
use super::source::{StepSource, WorkflowSource};
use super::steps::commit_mark;
use super::template::{ITEM, Scope};
use super::{Breaker, Need, Signal, Step, Workflow, check, source, steps};
use crate::lifecycle::expr::Value;
use crate::lifecycle::problem::{Problem, Problems};
use crate::limits;
use crate::text::clip;
use crate::yaml::{self, Entries, Name, Spanned, place};

/// In dollars. More is a typing mistake.
const MOST_COST: f64 = 1e9;

/// A file and the chain of files that include it.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) text: &'a str,
    /// Its name in messages.
    pub(super) origin: &'a str,
    /// The including files and the file itself, as paths from the folder of the outermost one.
    pub(super) inside: &'a [String],
    /// Reads a file by its path from the folder of the outermost file.
    pub(super) include: &'a dyn Fn(&str) -> Result<String, String>,
    /// How many files the whole workflow includes so far.
    pub(super) included: &'a Cell<usize>,
    /// The folder of the outermost file, as far as its name contains it, with a trailing slash.
    pub(super) folder: &'a str,
}

/// An expanded file, with the names that its steps are known by.
pub(super) struct ExpandedFile {
    pub(super) flow: Workflow,
    pub(super) groups: Groups,
}

/// The steps that one name stands for, by number: its first and its last ones.
#[derive(Debug, Default, Clone)]
pub(super) struct Group {
    pub(super) first: Vec<usize>,
    pub(super) last: Vec<usize>,
}

pub(super) type Groups = BTreeMap<String, Group>;

/// The expansion of one step of the source for one combination of values.
pub(super) struct Draft<'s> {
    pub(super) source: &'s StepSource,
    pub(super) scope: Scope,
    /// `[linux,2]`, or empty.
    pub(super) suffix: String,
    /// One step, or those of the included file.
    pub(super) steps: Vec<Step>,
    pub(super) groups: Groups,
    /// The number of its first step in the file; `check` assigns it.
    pub(super) number: usize,
}

pub(super) fn expand(file: &File<'_>, given: &Values) -> Result<ExpandedFile, Problems> {
    let (source, unreadable) = source::read_around(file.text);
    let fail = |mut problems: Vec<Problem>| {
        problems.extend(unreadable.clone());
        Problems::new(file.origin, file.text, problems)
    };
    let Some(source) = source else { return Err(fail(Vec::new())) };
    let mut report = Report::default();
    let header = &source.workflow;
    let how = |name: &str| match file.inside {
        [] | [_] => format!("give the parameter `{name}` a value, or a `default`"),
        [_, ..] => format!("add `with: {{ {name}: … }}`, or give it a `default`"),
    };
    let params = params::resolve(&header.params, given, &header.id, &how, &mut report);
    // Missing values would cause follow-up errors in everything below.
    let is_filled = report.problems.is_empty();
    let scope = Scope::of_params(&params);
    let flow = workflow_of(&source, params, &mut Reader { scope: &scope, report: &mut report });
    check::ids(&source, &mut report);
    if !is_filled {
        return Err(fail(report.problems));
    }
    let drafts = drafts(&source, &scope, file, &mut report)?;
    let expanded = drafts.and_then(|drafts| check::resolve(&source, flow, drafts, &mut report));
    let is_sound = report.problems.is_empty() && unreadable.is_empty();
    expanded.filter(|_| is_sound).ok_or_else(|| fail(report.problems))
}

/// The workflow without its steps.
fn workflow_of(source: &WorkflowSource, params: Values, reader: &mut Reader<'_>) -> Workflow {
    let header = &source.workflow;
    reader.report.has_id(&header.id, "workflow");
    let breaker = header.breaker.as_ref();
    let failures = breaker.and_then(|breaker| breaker.failures.as_ref());
    for (key, limit) in [("parallel", header.parallel.as_ref()), ("failures", failures)] {
        if let Some(none) = limit.filter(|limit| limit.value == 0) {
            reader.report.at(none, format!("`{key}` must be at least 1"), "write 1 or more");
        }
    }
    let cost = breaker.and_then(|breaker| breaker.cost.as_ref());
    if let Some(cost) = cost.filter(|cost| !(cost.value > 0.0 && cost.value <= MOST_COST)) {
        reader.report.at(cost, "the cost limit is not valid", "write dollars, such as 20.0");
    }
    Workflow {
        id: header.id.value.clone(),
        name: reader.text_or(header.name.as_ref(), &header.id.value),
        about: reader.text_or(header.description.as_ref(), "").trim().to_owned(),
        context_files: reader.paths(&header.context_files),
        parallel: header.parallel.as_ref().map(|parallel| parallel.value),
        merge: header.merge.unwrap_or(true),
        breaker: Breaker {
            failures: failures.map(|failures| failures.value),
            time: breaker
                .and_then(|breaker| breaker.time.as_ref())
                .and_then(|time| reader.span(time)),
            #[expect(clippy::cast_possible_truncation, reason = "the cost was just bounded")]
            cost_micros: cost.map(|cost| (cost.value * 1e6).round() as i64),
        },
        params,
        steps: Vec::new(),
    }
}

/// None if a step cannot be expanded: references to it would be reported as unknown.
fn drafts<'s>(
    source: &'s WorkflowSource,
    scope: &Scope,
    file: &File<'_>,
    report: &mut Report,
) -> Result<Option<Vec<Draft<'s>>>, Problems> {
    let mut drafts: Vec<Draft<'s>> = Vec::new();
    let mut is_whole = true;
    let mut total = 0;
    for step in &source.steps {
        check_uses(step, report);
        let combinations = combinations(step, scope, report);
        is_whole &= !combinations.is_empty();
        for own in combinations {
            let scope = scope.with(&own);
            let suffix = suffix(&own);
            let (steps, groups) = match &step.uses {
                Some(uses) => {
                    let id = format!("{}{suffix}", step.id.value);
                    match include(step, uses, &scope, file, report)? {
                        Some(expanded) => prefixed(expanded, &id, step),
                        None => {
                            is_whole = false;
                            continue;
                        }
                    }
                }
                None => {
                    let reader = &mut Reader { scope: &scope, report };
                    (vec![steps::step(step, &suffix, reader)], Groups::new())
                }
            };
            total += steps.len();
            if !report.fits(&step.id, total, limits::WORKFLOW_STEPS) {
                return Ok(None);
            }
            drafts.push(Draft { source: step, scope, suffix, steps, groups, number: 0 });
        }
    }
    Ok(is_whole.then_some(drafts))
}

/// A step either does work or includes a file.
fn check_uses(step: &StepSource, report: &mut Report) {
    if step.uses.is_none() {
        if let Some((name, _)) = step.with.0.first() {
            report.at(name, "`with` needs `uses`", "add `uses: FILE`");
        }
        return;
    }
    let own = [
        ("agent", step.agent.as_ref().map(place)),
        ("inputs", step.inputs.as_ref().map(place)),
        ("outputs", step.outputs.as_ref().map(place)),
        ("success_criterion", step.success_criterion.as_ref().map(place)),
        ("signal", step.signal.as_ref().map(place)),
        ("gate", step.gate.as_ref().map(place)),
        ("prompt", step.prompt.as_ref().map(place)),
        ("timeout", step.timeout.as_ref().map(place)),
    ];
    for (key, at) in own {
        if let Some((line, column)) = at {
            let message = format!("`{key}` cannot be combined with `uses`");
            let help = Some("write it in the included file".to_owned());
            report.add(Problem { line, column, message, help });
        }
    }
}

/// The values of each step that a matrix expands to, by placeholder name; one empty set without a
/// matrix.
fn combinations(
    step: &StepSource,
    scope: &Scope,
    report: &mut Report,
) -> Vec<Vec<(String, String)>> {
    let mut sets = vec![Vec::new()];
    let named = step.matrix.0.iter().map(|(name, list)| (format!("matrix.{}", name.value), list));
    let item = step.for_each.iter().map(|list| (ITEM.to_owned(), list));
    for (name, list) in named.chain(item) {
        let values = values(list, scope, report);
        if !report.fits(list, sets.len().saturating_mul(values.len()), limits::WORKFLOW_MATRIX) {
            return Vec::new();
        }
        let mut longer = Vec::with_capacity(sets.len() * values.len());
        for set in &sets {
            let with = |value: &String| [&set[..], &[(name.clone(), value.clone())]].concat();
            longer.extend(values.iter().map(with));
        }
        sets = longer;
    }
    for (index, set) in sets.iter().enumerate() {
        if sets[..index].iter().any(|other| suffix(other) == suffix(set)) {
            let message = format!("two steps would get the id `{}{}`", step.id.value, suffix(set));
            report.at(&step.id, message, "remove or rename one of these values");
        }
    }
    sets
}

/// The suffix for the id of a step with these values.
fn suffix(own: &[(String, String)]) -> String {
    if own.is_empty() {
        return String::new();
    }
    let part = |(_, value): &(String, String)| match file_name(value) {
        name if name.is_empty() => "_".to_owned(),
        name => name,
    };
    format!("[{}]", own.iter().map(part).collect::<Vec<_>>().join(","))
}

fn values(list: &Spanned<Value>, scope: &Scope, report: &mut Report) -> Vec<String> {
    let whole = list.value.as_str().and_then(|text| scope.whole(text));
    let parts = whole.unwrap_or(&list.value).as_array();
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
        let help = "write `[a, b]`, or `${{ params.NAME }}` of a parameter that is a list";
        report.at(list, "expected a list that is not empty", help);
        return Vec::new();
    };
    let mut values = Vec::new();
    for part in parts {
        match part {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                let text = yaml::at(list, super::template::as_text(part));
                values.push(Reader { scope, report }.text(&text));
            }
            Value::Null | Value::Array(_) | Value::Object(_) => {
                report.at(list, "expected a text, a number, or true or false for each value", "");
            }
        }
    }
    values
}

/// The file that a step includes; none if the step itself has a problem, which was reported.
fn include(
    step: &StepSource,
    uses: &Name,
    scope: &Scope,
    file: &File<'_>,
    report: &mut Report,
) -> Result<Option<ExpandedFile>, Problems> {
    let uses = Reader { scope, report }.name(uses);
    let given = given(&step.with, scope, report);
    // Problems of this file are reported before those of the files that it includes.
    if !report.problems.is_empty() {
        return Ok(None);
    }
    let including = file.inside.last().map_or("", String::as_str);
    let Some(path) = paths::beside(including, &uses.value) else {
        let message = format!("`{}` is outside of the workflow's folder", clip(&uses.value));
        report.at(&uses, message, "write a path relative to the folder of this file");
        return Ok(None);
    };
    let inside = [file.inside, std::slice::from_ref(&path)].concat();
    if file.inside.contains(&path) {
        report.at(&uses, format!("`{path}` includes itself"), inside.join(" -> "));
        return Ok(None);
    }
    if file.inside.len() > limits::WORKFLOW_DEPTH {
        let message = format!("more than {} levels of included files", limits::WORKFLOW_DEPTH);
        report.at(&uses, message, inside.join(" -> "));
        return Ok(None);
    }
    file.included.set(file.included.get() + 1);
    if !report.fits(&uses, file.included.get(), limits::WORKFLOW_INCLUDES) {
        return Ok(None);
    }
    let text = match (file.include)(&path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", clip(&uses.value));
            report.at(&uses, message, "the path is relative to the folder of this file");
            return Ok(None);
        }
    };
    let origin = format!("{}{path}", file.folder);
    let included = File { text: &text, origin: &origin, inside: &inside, ..*file };
    let expanded = expand(&included, &given);
    expanded.map(Some).map_err(|problems| included_by(problems, file.origin, place(&uses).0))
}

/// The values of `with`, with placeholders filled in. A value that is only a placeholder keeps its
/// type, such as a list.
fn given(with: &Entries<Spanned<Value>>, scope: &Scope, report: &mut Report) -> Values {
    let mut given = Values::new();
    for (name, written) in &with.0 {
        let value = match &written.value {
            Value::String(text) => scope
                .whole(text)
                .cloned()
                .unwrap_or_else(|| Reader { scope, report }.text(&yaml::at(written, text)).into()),
            other => other.clone(),
        };
        given.insert(name.value.clone(), value);
    }
    given
}

/// Adds where the file is included, because its reader may not know that it is.
fn included_by(mut problems: Problems, origin: &str, line: u32) -> Problems {
    for problem in &mut problems.list {
        let note = format!("included by {origin}, line {line}");
        problem.help = Some(match problem.help.take() {
            Some(help) => format!("{help} ({note})"),
            None => note,
        });
    }
    problems
}

/// The steps of an included file, with ids prefixed by the id of the step that includes it. They
/// take its place.
fn prefixed(expanded: ExpandedFile, id: &str, at: &StepSource) -> (Vec<Step>, Groups) {
    let order = StepOrder::of_steps(&expanded.flow.steps);
    let numbers = || 0..expanded.flow.steps.len();
    let whole = Group {
        first: numbers().filter(|step| order.is_first(*step)).collect(),
        last: numbers().filter(|step| order.is_last(*step)).collect(),
    };
    let under = |name: &str| format!("{id}/{name}");
    let mut groups: Groups =
        expanded.groups.iter().map(|(name, group)| (under(name), group.clone())).collect();
    groups.insert(id.to_owned(), whole);
    let mut steps = expanded.flow.steps;
    for step in &mut steps {
        let gate = step.gate.as_ref().map_or(step.id.as_str(), |gate| gate.id.as_str());
        if let Signal::GitCommit { mark } = &mut step.signal
            && *mark == commit_mark(gate)
        {
            *mark = commit_mark(&under(gate));
        }
        step.id = under(&step.id);
        step.line = place(&at.id).0;
        step.worktree = step.worktree.take().map(|folder| format!("{}/{folder}", file_name(id)));
        step.context.extend(expanded.flow.context_files.iter().cloned());
        for need in &mut step.needs {
            if let Need::Step(needed) = need {
                *needed = under(needed);
            }
        }
        if let Some(gate) = &mut step.gate {
            gate.id = under(&gate.id);
            gate.line = step.line;
            for back in &mut gate.on_fail {
                back.to = back.to.take().map(|to| under(&to));
            }
        }
    }
    (steps, groups)
}
