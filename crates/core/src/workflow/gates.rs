//! Builds the gate of one step, with the step's values filled in and defaults applied. Its targets
//! are still names as written; `check` resolves them.

use super::paths::file_name;
use super::reader::Reader;
use super::source::{FailSource, GateSource, PassSource};
use super::{Gate, MAX_RETRIES, RetryRoute};
use crate::lifecycle::contract::{AgentRole, EscalationLevel};
use crate::limits;
use crate::text::clip;
use crate::yaml::{self, Name, OneOrMany, Spanned, place};

/// A gate whose targets are not resolved yet.
pub(super) struct UnresolvedGate {
    /// The targets of its `on_fail` are in `targets`.
    pub(super) gate: Gate,
    pub(super) pass: Vec<Name>,
    /// One for each of `gate.on_fail`; none means the step itself.
    pub(super) targets: Vec<Option<Name>>,
}

/// `suffix` is what the step's matrix adds to its id.
pub(super) fn gate(source: &GateSource, suffix: &str, reader: &mut Reader<'_>) -> UnresolvedGate {
    let id = format!("{}{suffix}", source.id.value);
    let pass = match &source.on_pass {
        Some(PassSource { next_step }) => {
            let pass = reader.one_or_many(next_step);
            if pass.is_empty() {
                let help = "name a step, or `DONE`";
                reader.report.at(next_step, "the gate leads nowhere", help);
            }
            pass
        }
        None => {
            let message = format!("the gate `{}` has no `on_pass`", source.id.value);
            let help = "add `on_pass: { next_step: … }`, with a step or `DONE`";
            reader.report.at(&source.id, message, help);
            Vec::new()
        }
    };
    let (on_fail, targets) = retry_routes(source.on_fail.as_ref(), &source.id, &id, reader);
    let reviewer = &source.reviewer;
    let level = reviewer.level.as_ref();
    if level.is_none() {
        let message = format!("the gate `{}` does not say who decides", source.id.value);
        reader.report.at(&source.id, message, "add `reviewer: { level: human }`");
    }
    let level = level.and_then(|level| reader.report.known(level, &EscalationLevel::NAMES));
    let mut span = |text: &Option<Name>| text.as_ref().and_then(|text| reader.span(text));
    let (veto_window, timeout) = (span(&reviewer.veto_window), span(&reviewer.timeout));
    let reviewers = reviewers(reviewer.agent_type.as_ref(), reader);
    let gate = Gate {
        name: reader.text_or(source.name.as_ref(), &source.id.value),
        level: level.unwrap_or(EscalationLevel::Human),
        reviewers,
        on_fail,
        max_retries: source.max_retries.unwrap_or(MAX_RETRIES),
        veto_window,
        timeout,
        line: place(&source.id).0,
        id,
    };
    UnresolvedGate { gate, pass, targets }
}

/// The reviewers, each once.
fn reviewers(written: Option<&Spanned<OneOrMany>>, reader: &mut Reader<'_>) -> Vec<String> {
    let Some(written) = written else { return vec![AgentRole::Reviewer.to_string()] };
    let named = reader.one_or_many(written);
    if named.is_empty() {
        let help = "name an agent type, or remove `agent_type`";
        reader.report.at(written, "the gate has no reviewer", help);
    }
    reader.report.fits(written, named.len(), limits::REVIEWERS);
    let mut reviewers: Vec<String> = Vec::new();
    for name in named.into_iter().take(limits::REVIEWERS) {
        reader.report.is_id(&name, "agent type");
        if reviewers.contains(&name.value) {
            let message = format!("duplicate reviewer `{}`", clip(&name.value));
            reader.report.at(&name, message, "each reviewer gives one verdict; name it once");
        }
        reviewers.push(name.value);
    }
    reviewers
}

fn retry_routes(
    source: Option<&FailSource>,
    gate: &Name,
    id: &str,
    reader: &mut Reader<'_>,
) -> (Vec<RetryRoute>, Vec<Option<Name>>) {
    let written = source.and_then(|on_fail| on_fail.retry_context_path.as_ref());
    let general = match written {
        Some(path) => feedback_path(path, reader),
        None => format!(".workflow/retry-context/{}-attempt-{{n}}.md", file_name(id)),
    };
    let mut ways = Vec::new();
    let mut targets = Vec::new();
    let routes = source.map_or(&[][..], |on_fail| &on_fail.routes);
    reader.report.fits(gate, routes.len(), limits::WORKFLOW_ITEMS);
    for route in routes.iter().take(limits::WORKFLOW_ITEMS) {
        let reason = reader.word(&route.reason, "reason");
        if ways.iter().any(|back: &RetryRoute| back.reason.as_deref() == Some(&reason)) {
            let message = format!("duplicate route for the reason `{}`", clip(&reason));
            reader.report.at(&route.reason, message, "remove one of them");
        }
        let path = route.retry_context_path.as_ref();
        let path = path.map_or_else(|| general.clone(), |path| feedback_path(path, reader));
        targets.push(Some(reader.name(&route.next_step)));
        ways.push(RetryRoute { reason: Some(reason), to: None, retry_context_path: path });
    }
    let next = source.and_then(|on_fail| on_fail.next_step.as_ref());
    targets.push(next.map(|next| reader.name(next)));
    ways.push(RetryRoute { reason: None, to: None, retry_context_path: general });
    (ways, targets)
}

fn feedback_path(path: &Name, reader: &mut Reader<'_>) -> String {
    let filled = reader.path(path);
    let at: Name = yaml::at(path, filled);
    if !at.value.contains("{n}") {
        let message = format!("`{}` is the same file for every failure", clip(&at.value));
        let help = "add `{n}`, the number of the failure; inside braces, put the path in quotes";
        reader.report.at(&at, message, help);
    }
    at.value
}
