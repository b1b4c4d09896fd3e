//! Steps of workflows: logs what happens to them, lays out manual steps, and sends steps back when
//! a gate fails.
//!
//! A step's task holds its part of the file (`spec`), so nothing else has to be read to run it.
//! What happens is also written to the repository's `.workflow/` folder, for people who look there.

use std::collections::BTreeSet;
use std::path::Path;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::{CounterName, Field, LaunchMode, Purpose, Trigger};
use banksman_core::lifecycle::expr::Value;
use banksman_core::machine::Event;
use banksman_core::workflow::assignment::{self, assignment};
use banksman_core::workflow::{self, Workflow};

use super::children::{is_current, parent_of};
use super::event::{ask, request};
use super::job::{JobSpecs, RUNS_TOLD};
use super::project::Settings;
use super::relay::{EffectHandler, EffectResult, Handled};
use super::signals::discard_early_signals;
use super::turn::Turn;
use super::{Engine, ManualStep, Result};
use crate::config::WorkerSetup;
use crate::exec::agent::interactive;
use crate::exec::job::JobId;
use crate::exec::mailbox::Mailbox;
use crate::exec::process::quoted;
use crate::exec::site::Site;
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::outbox::PendingEffect;
use crate::store::{HistoryEntry, PastRun, Store, Stored};

/// The feedback of all gates to a step, in bytes; the oldest goes first.
const RETRY_CONTEXT_BYTES: usize = 16_000;

/// A step as its task holds it.
pub(super) struct StepTask {
    pub(super) spec: workflow::Step,
    pub(super) workflow: String,
}

impl StepTask {
    /// None for a task that is no step.
    pub(super) fn of(stored: &Stored) -> Result<Option<Self>> {
        let workflow = stored.text(Field::Workflow).unwrap_or_default().to_owned();
        let is_step = stored.lifecycle.purpose == Purpose::Step;
        let spec = if is_step { stored.data(Field::Spec)? } else { None };
        Ok(spec.map(|spec| Self { spec, workflow }))
    }

    fn gate_id(&self) -> &str {
        self.spec.gate.as_ref().map_or("", |gate| gate.id.as_str())
    }
}

/// A step that has moved, and its workflow.
#[derive(Clone, Copy)]
struct MovedStep<'s> {
    child: &'s Stored,
    step: &'s StepTask,
    parent: &'s Stored,
}

/// The workflow as its task holds it: everything but the steps.
pub(super) fn workflow_of(parent: &Stored) -> Result<Option<Workflow>> {
    Ok(if parent.is_workflow() { parent.data(Field::Spec)? } else { None })
}

/// Whether the step gets a worktree without a run: it is a manual step of a workflow that the
/// engine drives.
pub(super) fn may_be_laid_out(stored: &Stored) -> bool {
    stored.text(Field::Launch) == Some(LaunchMode::Interactive.as_str())
        && !stored.is_driven_by_person()
}

/// The feedback of a gate on a step.
struct GateFeedback {
    /// The record of the step's history that carries it.
    seq: i64,
    round: u32,
    text: String,
}

pub(super) struct Steps<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    settings: Settings<'a>,
    workers: &'a [WorkerSetup],
    specs: JobSpecs<'a>,
}

impl EffectHandler for Steps<'_> {
    /// Logs what happened to a step, and applies it to the other steps.
    fn handle(&self, effect: &PendingEffect, child: &Stored, turn: &mut Turn) -> Handled {
        let Some(step) = StepTask::of(child)? else { return Ok(EffectResult::Done) };
        let Some(parent) = parent_of(self.store, effect, child)? else {
            return Ok(EffectResult::Done);
        };
        let moved = MovedStep { child, step: &step, parent: &parent };
        self.log_record(effect, moved, turn)?;
        if is_current(effect, child) {
            self.follow(moved, turn)?;
        }
        Ok(EffectResult::Done)
    }
}

impl<'a> Steps<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let Engine { store, site, config, .. } = *engine;
        let (settings, specs) = (engine.settings(), JobSpecs::new(engine));
        Self { store, site, settings, workers: &config.workers, specs }
    }

    /// Logs one record of a step's history, and writes the feedback that came with it. The gate
    /// that sends steps back names all of them in one line.
    fn log_record(
        &self,
        effect: &PendingEffect,
        moved: MovedStep<'_>,
        turn: &mut Turn,
    ) -> Result<()> {
        let MovedStep { child, step, parent } = moved;
        let Some(mailbox) = self.settings.mailbox(&parent.task.project)? else { return Ok(()) };
        let entries = self.store.history(child.task.id, effect.seq - 1)?;
        let Some(entry) = entries.first().filter(|entry| entry.seq == effect.seq) else {
            return Ok(());
        };
        if entry.record.trigger == Trigger::Reset.name() {
            return Ok(());
        }
        let mark = format!("{}#{}", child.task.id, effect.seq);
        let text = match self.failed_attempt(child, entry)? {
            Some(failed) => format!("{} {}", step.spec.id, failed.failure_line()),
            None => line(step, entry),
        };
        turn.log(&mailbox, child.task.id, (&step.workflow, entry.ts), &text, &mark)?;
        self.write_feedback(&mailbox, child, step, entry)
    }

    /// The run whose failure a record without a move is about.
    fn failed_attempt(&self, child: &Stored, entry: &HistoryEntry) -> Result<Option<PastRun>> {
        let record = &entry.record;
        if record.from.as_ref() != Some(&record.to) {
            return Ok(None);
        }
        let past = self.store.past_runs(child.task.id, RUNS_TOLD)?;
        Ok(past.into_iter().find(|run| run.has_failed() && run.ended_at == Some(entry.ts)))
    }

    /// Applies the present state of a step to the other steps.
    fn follow(&self, moved: MovedStep<'_>, turn: &mut Turn) -> Result<()> {
        let MovedStep { child, step, .. } = moved;
        if child.flag(Field::SentBack) {
            return self.send_back(moved, turn);
        }
        if child.is_manual_step() {
            discard_early_signals(self.store, self.settings, child, step, turn.now)?;
            if may_be_laid_out(child) {
                self.lay_out(moved, turn)?;
            }
            return Ok(());
        }
        if child.state().kind == StateKind::Done {
            for need in self.store.needs(child.task.id)? {
                let before = self.store.task(need.task)?;
                if before.flag(Field::OpenToVeto) {
                    ask(self.store, &before, Trigger::Followed, [], turn.now)?;
                }
            }
        }
        Ok(())
    }

    /// Lays out a manual step: makes its worktree, and writes its assignment with the command that
    /// begins it.
    fn lay_out(&self, moved: MovedStep<'_>, turn: &mut Turn) -> Result<()> {
        let MovedStep { child, step, parent } = moved;
        let (Some(project), Some(flow)) =
            (self.settings.project_of(self.store, child)?, workflow_of(parent)?)
        else {
            return Ok(());
        };
        let job = JobId::Activity { task: child.task.id, seq: child.task.entered };
        let spec = self.specs.lay_out(child, job, &project)?;
        let Some(folder) = spec.workspace.as_ref().map(|workspace| workspace.worktree.clone())
        else {
            return Ok(());
        };
        self.site.begin(&spec)?;
        let retry = child.text(Field::RetryContext).unwrap_or_default();
        let words = assignment(&flow, &step.spec, retry);
        let found = child.text(Field::Diagnostic).unwrap_or_default();
        let unproven = assignment::check_findings(found);
        let place = spec.workspace.as_ref().map(|workspace| {
            let (worktree, branch) = (workspace.worktree.display(), &workspace.branch);
            let at_end = "When it is done, commit and report it as done";
            format!("\nWork in `{worktree}`, on the branch `{branch}`. {at_end}.\n")
        });
        let place = place.unwrap_or_default();
        let words =
            format!("{words}{unproven}{place}\n{}\n", assignment::signal(&step.spec.signal));
        let mailbox = Mailbox::new(&project.path).of_run(step.spec.place.as_deref());
        let file = mailbox.keep_assignment(&step.spec.id, words.trim_end())?;
        let command =
            self.interactive_command(step).map(|words| manual_command(&words, &folder, &file));
        let shown = command.clone().unwrap_or_else(|| format!("see {}", file.display()));
        let again = found.lines().next().map(|found| format!("is not proven ({found}) and "));
        let text =
            format!("{} {}is a manual step: {shown}", step.spec.id, again.unwrap_or_default());
        let notice = NewNotice::new(NoticeKind::ManualStep, Some(child.task.id), text);
        self.store.notice(notice.once(format!("laid-out-{job}")), turn.now)?;
        if let Some(command) = command {
            let name = child.task.id.to_string();
            turn.report.manual_steps.push(ManualStep {
                name,
                folder: project.path.clone(),
                command,
            });
        }
        Ok(())
    }

    /// The command that starts an agent for a person, without the prompt; none where no worker has
    /// such an agent.
    fn interactive_command(&self, step: &StepTask) -> Option<Vec<String>> {
        let fits = |setup: &&WorkerSetup| match &step.spec.worker {
            Some(name) => setup.worker.name == *name,
            None => true,
        };
        let able = |setup: &&WorkerSetup| setup.worker.capabilities.contains(&step.spec.role);
        let workers = || self.workers.iter().filter(fits);
        let setup = workers().find(able).or_else(|| workers().next())?;
        interactive(&setup.agent)
    }

    /// All feedback of the step's gate, the oldest first. Every failure has its feedback, even one
    /// that asks a person instead of sending steps back.
    fn all_feedback(&self, child: &Stored, step: &StepTask) -> Result<Vec<GateFeedback>> {
        if child.count(CounterName::Rounds) == 0 {
            return Ok(Vec::new());
        }
        let kept = self.store.detail(child.task.id)?.artifacts;
        let feedback = kept.iter().filter(|artifact| artifact.name == Field::Feedback.name());
        let texts = feedback.filter_map(|artifact| Some((artifact.seq, artifact.value.as_str()?)));
        let gate = step.gate_id();
        let all = texts.zip(1_u32..).map(|((seq, text), round)| {
            let text = format!("## Gate {gate}, failure {round}\n\n{}\n", text.trim());
            GateFeedback { seq, round, text }
        });
        Ok(all.collect())
    }

    /// Writes feedback to the mailbox before steps go back. It is written with the record that
    /// carries it and never later: a person may have changed the file by then, or the reason that
    /// chose its path is gone.
    fn write_feedback(
        &self,
        mailbox: &Mailbox,
        child: &Stored,
        step: &StepTask,
        entry: &HistoryEntry,
    ) -> Result<()> {
        let all = self.all_feedback(child, step)?;
        let Some(latest) = all.iter().find(|one| one.seq == entry.seq) else { return Ok(()) };
        let reason = entry.record.text(Field::FailedFor);
        let reason = reason.or(child.text(Field::FailedFor));
        let gate = step.spec.gate.as_ref();
        if let Some(back) = gate.and_then(|gate| gate.retry_route(reason)) {
            mailbox.write_feedback(&back.retry_context_path, latest.round, &latest.text)?;
        }
        Ok(())
    }

    /// Handles a failed gate: the step that it sends the work back to starts again with all steps
    /// after it, and no other. The log comes first, because no turn would write it after a crash:
    /// by then the step has left the state that asks for it.
    fn send_back(&self, moved: MovedStep<'_>, turn: &mut Turn) -> Result<()> {
        let MovedStep { child, step, parent } = moved;
        let gate = step.spec.gate.as_ref();
        let Some(back) = gate.and_then(|gate| gate.retry_route(child.text(Field::FailedFor)))
        else {
            ask(self.store, child, Trigger::Reset, [], turn.now)?;
            return Ok(());
        };
        let all = self.all_feedback(child, step)?;
        let Some(target) = &back.to else {
            let feedback = child.text(Field::Feedback).unwrap_or_default();
            let reason = format!("gate {} of {} failed: {feedback}", step.gate_id(), step.spec.id);
            let fields = [(Field::Reason, Value::from(reason))];
            ask(self.store, parent, Trigger::Abort, fields, turn.now)?;
            return Ok(());
        };
        let children = self.store.all_children(parent.task.id)?;
        let Some(mut flow) = workflow_of(parent)? else { return Ok(()) };
        for child in &children {
            flow.steps.extend(StepTask::of(child)?.map(|step| step.spec));
        }
        let reset: Vec<&str> =
            flow.downstream(target).iter().map(|step| step.id.as_str()).collect();
        let names: BTreeSet<&str> = reset.iter().copied().collect();
        let is_reset =
            |other: &&Stored| other.text(Field::Step).is_some_and(|step| names.contains(step));
        let again: Vec<&Stored> = children.iter().filter(is_reset).collect();
        let informed = [Some(target.as_str()), child.text(Field::Step)];
        let events: Vec<(TaskId, Event)> = again
            .iter()
            .map(|other| {
                let event = if informed.contains(&other.text(Field::Step)) {
                    let before = other.text(Field::RetryContext).unwrap_or_default().to_owned();
                    let context = all.iter().fold(before, |before, one| joined(&before, &one.text));
                    request(other, Trigger::Reset, [(Field::RetryContext, Value::from(context))])
                } else {
                    request(other, Trigger::Reset, [])
                };
                (other.task.id, event)
            })
            .collect();
        let text = format!(
            "gate {} failed; {target} starts again, with all steps after it: {}",
            step.gate_id(),
            reset.join(", ")
        );
        if let Some(mailbox) = self.settings.mailbox(&parent.task.project)? {
            let mark = format!("{}#{}-back", child.task.id, child.task.entered);
            turn.log(&mailbox, child.task.id, (&step.workflow, turn.now), &text, &mark)?;
        }
        let notice = NewNotice::new(NoticeKind::SentBack, Some(child.task.id), text);
        self.store.apply_each(&events, Some(notice), turn.now)?;
        Ok(())
    }
}

/// The worktree is being made while people read this, so the command waits for it.
fn manual_command(words: &[String], folder: &Path, file: &Path) -> String {
    let folder = quoted(&folder.display().to_string());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let file = quoted(&file.display().to_string());
    format!(
        "until [ -e {folder}/.git ]; do sleep 1; done; cd {folder} && {} \"$(cat {file})\"",
        words.join(" ")
    )
}

/// The earlier feedback and the new one; of the earlier, as much as fits.
fn joined(before: &str, new: &str) -> String {
    if before.contains(new) {
        return before.to_owned();
    }
    let text = if before.is_empty() { new.to_owned() } else { format!("{before}\n{new}") };
    let from = text.ceil_char_boundary(text.len().saturating_sub(RETRY_CONTEXT_BYTES));
    text[from..].to_owned()
}

/// A record of a step's history as a log line: what happened, by whom, and why.
fn line(step: &StepTask, entry: &HistoryEntry) -> String {
    let record = &entry.record;
    let from = record.from.as_deref().unwrap_or("nothing");
    let why = [Field::Feedback, Field::Diagnostic, Field::Reason, Field::Note];
    let why = why.into_iter().find_map(|field| record.text(field));
    let gate = step.gate_id();
    let at = if gate.is_empty() { String::new() } else { format!(" (gate {gate})") };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let (id, name) = (&step.spec.id, &step.spec.name);
    let name = if name == id { String::new() } else { format!(" {name}") };
    format!("{id}{name}{at} {from} -> {} on {} by {}{why}", record.to, record.trigger, record.actor)
}
