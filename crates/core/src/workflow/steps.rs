//! Builds one step, with placeholders filled in and defaults applied. `check` adds its dependencies
//! and its gate.

use super::paths::{self, file_name};
use super::reader::Reader;
use super::source::{AgentSource, CriterionSource, SignalSource, SignalType, StepSource};
use super::{Criterion, LaunchMode, Signal, Step, criterion};
use crate::lifecycle::contract::AgentRole;
use crate::text::clip;
use crate::yaml::{self, Name, Spanned, TextOr, place};

/// `suffix` is what the step's matrix adds to its id.
pub(super) fn step(source: &StepSource, suffix: &str, reader: &mut Reader<'_>) -> Step {
    let id = format!("{}{suffix}", source.id.value);
    let agent = source.agent.as_ref().map(|agent| &agent.value);
    let criterion = source.success_criterion.as_ref();
    let list = |written: &Option<Spanned<Vec<Name>>>, reader: &mut Reader<'_>| {
        written.as_ref().map_or_else(Vec::new, |list| reader.paths(&list.value))
    };
    let role = agent.and_then(|agent| agent.role.as_ref());
    let run = source.run.as_ref().and_then(|run| command(source, run, reader));
    let default_role = if run.is_some() { AgentRole::Command } else { AgentRole::Worker };
    let worker = agent.and_then(|agent| agent.worker.as_ref());
    let launch = agent.and_then(|agent| agent.launch.as_ref());
    let launch = launch.and_then(|launch| reader.report.known(launch, &LaunchMode::NAMES));
    Step {
        name: reader.text_or(source.name.as_ref(), &id),
        role: role.map_or_else(|| default_role.to_string(), |role| reader.word(role, "agent type")),
        worker: worker.map(|worker| reader.word(worker, "worker name")),
        launch: launch.unwrap_or(LaunchMode::Headless),
        worktree: agent.and_then(|agent| worktree(agent, reader)),
        run,
        prompt: reader.text_or(source.prompt.as_ref(), ""),
        context: agent.map_or_else(Vec::new, |agent| reader.paths(&agent.context)),
        inputs: list(&source.inputs, reader),
        outputs: list(&source.outputs, reader),
        criterion: criterion.and_then(|criterion| parse_criterion(criterion, reader)),
        signal: signal(source, &id, suffix, reader),
        needs: Vec::new(),
        gate: None,
        timeout: source.timeout.as_ref().and_then(|timeout| reader.span(timeout)),
        place: None,
        line: place(&source.id).0,
        id,
    }
}

/// The command of a step that has no agent, and the keys that mean nothing there.
fn command(source: &StepSource, run: &Name, reader: &mut Reader<'_>) -> Option<String> {
    let agent = source.agent.as_ref().map(|agent| (agent, &agent.value));
    let for_agents = agent.filter(|(_, agent)| {
        let AgentSource { role, launch, context, worker, worktree: _ } = agent;
        role.is_some() || launch.is_some() || worker.is_some() || !context.is_empty()
    });
    if let Some((written, _)) = for_agents {
        let message = "a step with `run` has no agent";
        reader.report.at(written, message, "keep only `worktree`, or remove `run`");
    }
    if let Some(prompt) = &source.prompt {
        reader.report.at(prompt, "nobody reads the prompt of a step with `run`", "remove it");
    }
    if let Some(signal) = &source.signal {
        let message = "the exit code of `run` is the signal of its step";
        reader.report.at(signal, message, "remove `signal`");
    }
    let command = reader.text(run);
    if command.trim().is_empty() {
        reader.report.at(run, "the command is empty", "write a command, such as `cargo test`");
        return None;
    }
    Some(command)
}

fn worktree(agent: &AgentSource, reader: &mut Reader<'_>) -> Option<String> {
    let written = agent.worktree.as_ref()?;
    let folder = paths::folder(&reader.path(written));
    if folder.is_empty() {
        let help = "name a folder, or remove `worktree`";
        reader.report.at(written, "the worktree of a step cannot be the repository itself", help);
    }
    Some(folder)
}

fn parse_criterion(
    source: &Spanned<TextOr<CriterionSource>>,
    reader: &mut Reader<'_>,
) -> Option<Criterion> {
    let full = match &source.value {
        TextOr::Text(text) => {
            let text = reader.text(&yaml::at(source, text));
            return not_empty(source, &text, reader).then(|| criterion::interpret(&text));
        }
        TextOr::Full(full) => full,
    };
    let meant = match (&full.command, &full.file, &full.judged) {
        (Some(command), None, None) => Criterion::Command(reader.text(command)),
        (None, Some(file), None) => Criterion::File(reader.path(file)),
        (None, None, Some(judged)) => Criterion::Judged(reader.text(judged)),
        (None | Some(_), None | Some(_), None | Some(_)) => {
            let message = "a criterion needs exactly one of `command`, `file` and `judged`";
            reader.report.at(source, message, "keep one of them");
            return None;
        }
    };
    let (Criterion::Command(text) | Criterion::File(text) | Criterion::Judged(text)) = &meant;
    not_empty(source, text, reader).then_some(meant)
}

fn not_empty<T>(at: &Spanned<T>, text: &str, reader: &mut Reader<'_>) -> bool {
    let says = !text.trim().is_empty();
    if !says {
        reader.report.at(at, "the criterion is empty", "say how to verify that the step is done");
    }
    says
}

fn signal(source: &StepSource, id: &str, suffix: &str, reader: &mut Reader<'_>) -> Signal {
    let Some(written) = &source.signal else { return Signal::StdoutExit };
    let SignalSource { kind, value } = &written.value;
    if kind.is_none() {
        reader.report.at(written, "missing key `type`", "add `type: …`");
    }
    let kind = kind.as_ref().and_then(|kind| reader.report.known(kind, &SignalType::NAMES));
    let Some(kind) = kind else { return Signal::StdoutExit };
    match kind {
        SignalType::SentinelFile => Signal::SentinelFile {
            path: value.as_ref().map_or_else(
                || format!(".workflow/signals/{}-done.json", file_name(id)),
                |path| reader.path(path),
            ),
        },
        SignalType::GitCommit => {
            let mark = value.as_ref().map(|mark| reader.name(mark));
            if let Some(mark) = mark.as_ref().filter(|mark| mark.value.trim().is_empty()) {
                let message = "the mark is empty, so every commit would match";
                reader.report.at(mark, message, "write `[GATE:…]`");
            }
            let gate = source.gate.as_ref().map(|gate| reader.text(gate) + suffix);
            let otherwise = || commit_mark(gate.as_deref().unwrap_or(id));
            Signal::GitCommit { mark: mark.map_or_else(otherwise, |mark| mark.value) }
        }
        SignalType::PrCreation => without_value(Signal::PrCreation, value.as_ref(), reader),
        SignalType::StdoutExit => without_value(Signal::StdoutExit, value.as_ref(), reader),
    }
}

fn without_value(signal: Signal, value: Option<&Name>, reader: &mut Reader<'_>) -> Signal {
    if let Some(value) = value {
        let message =
            format!("this signal type takes no value, but `{}` is given", clip(&value.value));
        reader.report.at(value, message, "remove `value`");
    }
    signal
}

/// The mark in a commit message that signals a gate, if the file names no other.
pub(super) fn commit_mark(gate: &str) -> String {
    format!("[GATE:{gate}]")
}
