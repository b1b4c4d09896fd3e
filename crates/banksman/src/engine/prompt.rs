//! What agents are told. Texts that come from outside stand between marks that they cannot imitate, and are named as data.

use banksman_core::fence::fence;
use banksman_core::ids::TaskId;
use banksman_core::machine::Task;
use banksman_core::workflow::assignment::{self, assignment};
use serde_json::{Map, Value};

use super::errand::{Piece, retry_context};
use crate::exec::plan::Checks;
use crate::store::PastRun;

const WORKER: &str = include_str!("../../prompts/worker.md");
const ROLE: &str = include_str!("../../prompts/role.md");
const STEP: &str = include_str!("../../prompts/step.md");
const AGAIN: &str = include_str!("../../prompts/again.md");
const NUDGE: &str = include_str!("../../prompts/nudge.md");
const EVALUATOR: &str = include_str!("../../prompts/evaluator.md");

/// Of one earlier failure, in bytes.
const FAILURE_BYTES: usize = 1_500;
/// Of all earlier failures, in bytes.
const FAILURES_BYTES: usize = 6_000;

/// What a prompt is made of.
pub(super) struct Brief<'a> {
    pub(super) task: &'a Task,
    pub(super) role: &'a str,
    pub(super) fields: &'a Map<String, Value>,
    /// Earlier runs, the oldest first.
    pub(super) past: &'a [&'a PastRun],
    /// Whether the agent still has its own memory of them.
    pub(super) resumes: bool,
}

pub(super) fn for_run(brief: &Brief<'_>, checks: &Checks) -> String {
    let task = brief.task;
    let failures = failures(brief.past);
    if brief.resumes && !failures.is_empty() {
        return again(task.id, &failures, brief.fields, checks);
    }
    let template = if brief.role == "worker" { WORKER } else { ROLE };
    let values = [
        ("task", task.id.to_string()),
        ("role", brief.role.to_owned()),
        ("title", fence(&task.title)),
        ("body", fence(body_of(task))),
        ("feedback", feedback(brief.fields)),
        ("failures", earlier(&failures)),
        ("rules", rules(checks)),
    ];
    fill(template, &values)
}

/// For the agent of a workflow's step.
pub(super) fn for_step(piece: &Piece, brief: &Brief<'_>, checks: &Checks) -> String {
    let spec = &piece.step.spec;
    let signal = assignment::signal(&spec.signal);
    let signal = if signal.is_empty() { signal } else { format!("- {signal}\n") };
    let values = [
        ("step", spec.id.clone()),
        ("role", spec.role.clone()),
        ("assignment", assignment(&piece.flow, spec, retry_context(piece))),
        ("failures", earlier(&failures(brief.past))),
        ("rules", rules(checks)),
        ("signal", signal),
    ];
    fill(STEP, &values)
}

pub(super) fn body_of(task: &Task) -> &str {
    if task.body.trim().is_empty() { "(There is no more text than the title.)" } else { &task.body }
}

/// For an agent that remembers the task; what it does not know yet is what was found and what people said since.
fn again(id: TaskId, failures: &str, fields: &Map<String, Value>, checks: &Checks) -> String {
    let values = [
        ("task", id.to_string()),
        ("failures", fence(failures)),
        ("feedback", feedback(fields)),
        ("rules", rules(checks)),
    ];
    fill(AGAIN, &values)
}

pub(super) fn nudge() -> String {
    NUDGE.to_owned()
}

/// `{evidence}` is left for the keeper to fill in.
pub(super) fn evaluator() -> String {
    EVALUATOR.to_owned()
}

/// Replaces `{name}` by its value, once: what a value brings along is never read as a name.
pub(super) fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        text.push_str(&rest[..open]);
        let name = rest[open + 1..].split('}').next().unwrap_or_default();
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => {
                text.push_str(value);
                rest = &rest[open + name.len() + 2..];
            }
            None => {
                text.push('{');
                rest = &rest[open + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// What went wrong so far, the latest last; of what is too long the oldest goes.
fn failures(past: &[&PastRun]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for run in past.iter().rev() {
        let Some(detail) = run.detail.as_deref().filter(|_| is_failure(run)) else { continue };
        let most = detail.floor_char_boundary(FAILURE_BYTES.min(detail.len()));
        let outcome = run.outcome.as_deref().unwrap_or("unknown");
        let line = format!("Attempt {} ended with {outcome}: {}", run.epoch, &detail[..most]);
        bytes += line.len();
        if bytes > FAILURES_BYTES {
            lines.push("Earlier attempts are left out here.".to_owned());
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

fn is_failure(run: &PastRun) -> bool {
    !matches!(run.outcome.as_deref(), None | Some("succeeded" | "stopped" | "nothing_to_do"))
}

fn earlier(failures: &str) -> String {
    if failures.is_empty() {
        return String::new();
    }
    format!("\nEarlier attempts failed. Do not repeat what did not work:\n\n{}\n", fence(failures))
}

/// What reviewers and people have said about it.
fn feedback(fields: &Map<String, Value>) -> String {
    let said = ["note", "feedback", "pr_comments", "error"];
    let texts = said.iter().filter_map(|name| fields.get(*name)).filter_map(Value::as_str);
    let mut texts: Vec<String> = texts.map(fence).collect();
    texts.dedup();
    if texts.is_empty() {
        return String::new();
    }
    format!("\nThis was said about the work so far:\n\n{}\n", texts.join("\n"))
}

fn rules(checks: &Checks) -> String {
    let list =
        |items: &[String]| items.iter().map(|item| format!("- `{item}`\n")).collect::<String>();
    let mut text = String::new();
    if !checks.allowed_paths.is_empty() {
        text +=
            &format!("\nChange files under these paths only:\n\n{}", list(&checks.allowed_paths));
    }
    if !checks.denied_paths.is_empty() {
        text +=
            &format!("\nNever change files under these paths:\n\n{}", list(&checks.denied_paths));
    }
    if !checks.commands.is_empty() {
        text += &format!(
            "\nThese commands will be run on your commits, and all of them must pass:\n\n{}",
            list(&checks.commands)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_goes_on_is_told_what_people_said() {
        let note = Map::from_iter([("note".to_owned(), Value::from("take the green one"))]);
        let checks = Checks::default();
        let told = again(TaskId(7), "it asked: which one?", &note, &checks);
        assert!(
            told.contains("task t7") && told.contains(&fence("it asked: which one?")),
            "{told}"
        );
        assert!(told.contains(&fence("take the green one")), "{told}");
        let without = again(TaskId(7), "it asked: which one?", &Map::new(), &checks);
        assert!(!without.contains("was said") && !without.contains('{'), "{without}");
    }
}
