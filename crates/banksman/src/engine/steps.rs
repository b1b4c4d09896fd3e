//! Steps of workflows: what their agents are told, where they work, and where a gate that failed
//! leads back to.
//!
//! A step's task holds what the file said about it (`spec`), so nothing else has to be read to run
//! it. What happens is also written into the repository's `.workflow/` folder, for whoever looks
//! there.

use std::collections::BTreeSet;
use std::path::Path;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::machine::{CounterValue, Event};
use banksman_core::time::Instant;
use banksman_core::workflow::assignment::{self, assignment};
use banksman_core::workflow::{self, Signal, Workflow};
use serde_json::{Value, json};

use super::children::{ABORT, RESET, asked};
use super::plan::agent_setup;
use super::{Engine, EngineError, ManualStep, Notice, TurnReport};
use crate::config::WorkerSetup;
use crate::exec::agent::interactive;
use crate::exec::job::JobId;
use crate::exec::mailbox::Mailbox;
use crate::exec::process::quoted;
use crate::store::outbox::PendingEffect;
use crate::store::{HistoryEntry, Stored};

/// Says that a step is done.
pub(super) const SIGNAL: &str = "signal";
/// The step after it has ended, so a person can no longer veto this one.
const FOLLOWED: &str = "followed";
/// The steps have heard that the workflow runs, and the field that holds it.
pub(super) const LED: &str = "led";
/// All that gates have said to a step; of what is more the oldest goes.
const RETRY_CONTEXT_BYTES: usize = 16_000;
/// Counts the failures of a gate, a person's included.
const ROUNDS: &str = "rounds";

/// A step as its task holds it.
pub(super) struct StepTask {
    pub(super) spec: workflow::Step,
    pub(super) workflow: String,
}

impl StepTask {
    /// None for a task that is no step.
    pub(super) fn of(stored: &Stored) -> Option<Self> {
        let workflow = stored.text("workflow")?.to_owned();
        Some(Self { spec: stored.spec()?, workflow })
    }

    fn gate_id(&self) -> &str {
        self.spec.gate.as_ref().map_or("", |gate| gate.id.as_str())
    }
}

/// The workflow as its task holds it: everything but the steps.
pub(super) fn workflow_of(parent: &Stored) -> Option<Workflow> {
    parent.spec()
}

/// Whether somebody is asked to do the step: the state's offers say so, not its name.
pub(super) fn is_manual(stored: &Stored) -> bool {
    let does = stored.state().does.as_ref();
    does.is_some_and(|does| does.offers.iter().any(|(_, trigger)| trigger == SIGNAL))
}

/// Whether whoever does the step drives its workflow, for which nothing is started and nothing is
/// laid out.
pub(super) fn is_driven_manually(stored: &Stored) -> bool {
    stored.text("driver") == Some("hand")
}

/// Whether the step gets a worktree without a run: it is done by hand, and whoever does it does not
/// drive the workflow.
pub(super) fn may_be_laid_out(stored: &Stored) -> bool {
    stored.text("launch") == Some("interactive") && !is_driven_manually(stored)
}

/// How often the step's gate has failed.
fn rounds(stored: &Stored) -> u32 {
    let counter = stored.lifecycle.counters.iter().position(|counter| counter.name == ROUNDS);
    let count = counter.and_then(|at| stored.task.counters.get(at)).copied();
    count.unwrap_or_else(CounterValue::default).total
}

/// What a gate has said against a step.
struct GateFeedback {
    /// The record of the step's history that brought it.
    seq: i64,
    round: u32,
    text: String,
}

impl Engine<'_> {
    pub(super) fn mailbox(&self, project: &str) -> Result<Option<Mailbox>, EngineError> {
        Ok(self.projects.find(project)?.map(|project| Mailbox::new(&project.path)))
    }

    /// One line of the workflow's log for one record of a step's history, and the feedback that
    /// came with it. Steps that start again are named in one line by the gate that leads back.
    pub(super) fn note(
        &self,
        effect: &PendingEffect,
        child: &Stored,
        step: &StepTask,
        parent: &Stored,
    ) -> Result<(), EngineError> {
        let Some(mailbox) = self.mailbox(&parent.task.project)? else { return Ok(()) };
        let entries = self.store.history(child.task.id, effect.seq - 1)?;
        let Some(entry) = entries.first().filter(|entry| entry.seq == effect.seq) else {
            return Ok(());
        };
        if entry.record.trigger == RESET {
            return Ok(());
        }
        let mark = format!("{}#{}", child.task.id, effect.seq);
        mailbox.record(&step.workflow, entry.ts, &line(step, entry), &mark)?;
        self.write_feedback(&mailbox, child, step, entry)
    }

    /// The start of a workflow, or that it goes on.
    pub(super) fn note_run(
        &self,
        parent: &Stored,
        effect: &PendingEffect,
    ) -> Result<(), EngineError> {
        let Some(flow) = workflow_of(parent) else { return Ok(()) };
        let Some(mailbox) = self.mailbox(&parent.task.project)? else { return Ok(()) };
        let id = parent.task.id;
        let children = self.store.children(id)?;
        let begins = effect.seq == 1;
        if begins {
            let steps: Vec<StepTask> = children.iter().filter_map(StepTask::of).collect();
            let ids: Vec<String> = steps.iter().map(|step| step.spec.id.clone()).collect();
            let gates = || steps.iter().filter_map(|step| step.spec.gate.as_ref());
            let gate_ids: Vec<String> = gates().map(|gate| gate.id.clone()).collect();
            let backs = gates().flat_map(|gate| &gate.on_fail);
            let backs = backs.map(|back| back.retry_context_path.clone());
            let signals = steps.iter().filter_map(|step| match &step.spec.signal {
                Signal::SentinelFile { path } => Some(path.clone()),
                Signal::GitCommit { .. } | Signal::PrCreation | Signal::StdoutExit => None,
            });
            let paths: Vec<String> = backs.chain(signals).collect();
            mailbox.clear_for(&ids, &gate_ids, &paths, &format!("before-{id}"))?;
        }
        let what = if begins { "started" } else { "goes on" };
        let steps = match children.len() {
            1 => "1 step".to_owned(),
            many => format!("{many} steps"),
        };
        let text = format!("workflow {} {what} as {id} with {steps}", flow.id);
        mailbox.record(&flow.id, parent.task.updated_at, &text, &format!("{id}#{}", effect.seq))?;
        Ok(())
    }

    /// That it has ended, or why it waits.
    pub(super) fn note_rest(
        &self,
        parent: &Stored,
        effect: &PendingEffect,
    ) -> Result<(), EngineError> {
        let Some(flow) = workflow_of(parent) else { return Ok(()) };
        let Some(mailbox) = self.mailbox(&parent.task.project)? else { return Ok(()) };
        let (id, state) = (parent.task.id, &parent.state().name);
        let why = ["reason", "problem"].into_iter().find_map(|field| parent.text(field));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let merged = if parent.flag("merged") { ", its work is merged" } else { "" };
        let text = format!("workflow {} ({id}) is {state}{merged}{why}", flow.id);
        mailbox.record(&flow.id, parent.task.updated_at, &text, &format!("{id}#{}", effect.seq))?;
        Ok(())
    }

    /// What the present state of a step means for the others.
    pub(super) fn lead_on_from(
        &self,
        child: &Stored,
        step: &StepTask,
        parent: &Stored,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        if child.flag("sent_back") {
            return self.lead_back(child, step, parent, now, pulse);
        }
        if is_manual(child) {
            self.forget_early_signals(child, step, now)?;
            if may_be_laid_out(child) {
                self.lay_out(child, step, parent, pulse)?;
            }
            return Ok(());
        }
        if child.state().kind == StateKind::Done {
            for need in self.store.needs(child.task.id)? {
                let before = self.store.task(need.task)?;
                if before.flag("open_to_veto") {
                    self.ask_of(need.task, FOLLOWED, [], now)?;
                }
            }
        }
        Ok(())
    }

    /// A step that somebody does by hand: its worktree is made, and what it is about is written
    /// down, with the command that begins it.
    fn lay_out(
        &self,
        child: &Stored,
        step: &StepTask,
        parent: &Stored,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let (Some(project), Some(flow)) =
            (self.projects.find(&child.task.project)?, workflow_of(parent))
        else {
            return Ok(());
        };
        let job = JobId::Activity { task: child.task.id, seq: child.task.entered };
        let plan = self.lay_out_plan(child, job, &project)?;
        let Some(folder) = plan.workspace.as_ref().map(|workspace| workspace.worktree.clone())
        else {
            return Ok(());
        };
        self.site.begin(&plan)?;
        let retry = child.text("retry_context").unwrap_or_default();
        let words = assignment(&flow, &step.spec, retry);
        let found = child.text("diagnostic").unwrap_or_default();
        let unproven = assignment::check_findings(found);
        let words = format!("{words}{unproven}\n{}\n", assignment::signal(&step.spec.signal));
        let file = Mailbox::new(&project.path).keep_assignment(&step.spec.id, words.trim_end())?;
        let command = self.manual(step).map(|words| manual_command(&words, &folder, &file));
        let shown = command.clone().unwrap_or_else(|| format!("see {}", file.display()));
        let again = found.lines().next().map(|found| format!("is not proven ({found}) and "));
        let text =
            format!("{} {}is done by hand: {shown}", step.spec.id, again.unwrap_or_default());
        pulse.notices.push(Notice { task: Some(child.task.id), urgent: false, text });
        if let Some(command) = command {
            let name = child.task.id.to_string();
            pulse.manual_steps.push(ManualStep { name, folder: project.path.clone(), command });
        }
        Ok(())
    }

    /// What begins an agent in front of a person, without the prompt; none where no worker has such
    /// an agent.
    fn manual(&self, step: &StepTask) -> Option<Vec<String>> {
        let fits = |setup: &&WorkerSetup| match &step.spec.worker {
            Some(name) => setup.worker.name == *name,
            None => true,
        };
        let able = |setup: &&WorkerSetup| setup.worker.capabilities.contains(&step.spec.role);
        let workers = || self.config.workers.iter().filter(fits);
        let setup = workers().find(able).or_else(|| workers().next())?;
        interactive(&agent_setup(setup)?)
    }

    /// All that the step's gate has ever said against it, the oldest first. Every failure keeps its
    /// words, also one that asks a person instead of leading back.
    fn all_feedback(
        &self,
        child: &Stored,
        step: &StepTask,
    ) -> Result<Vec<GateFeedback>, EngineError> {
        if rounds(child) == 0 {
            return Ok(Vec::new());
        }
        let kept = self.store.detail(child.task.id)?.artifacts;
        let feedback = kept.iter().filter(|artifact| artifact.name == "feedback");
        let texts = feedback.filter_map(|artifact| Some((artifact.seq, artifact.value.as_str()?)));
        let gate = step.gate_id();
        let said = texts.zip(1_u32..).map(|((seq, said), round)| {
            let text = format!("## Gate {gate}, failure {round}\n\n{}\n", said.trim());
            GateFeedback { seq, round, text }
        });
        Ok(said.collect())
    }

    /// Feedback belongs into the folder before anybody is led back. It is written for the record
    /// that brought it and for no later one: by then a person may have changed the file, or the
    /// reason that chose its place is forgotten.
    fn write_feedback(
        &self,
        mailbox: &Mailbox,
        child: &Stored,
        step: &StepTask,
        entry: &HistoryEntry,
    ) -> Result<(), EngineError> {
        let all = self.all_feedback(child, step)?;
        let Some(said) = all.iter().find(|said| said.seq == entry.seq) else { return Ok(()) };
        let reason = entry.record.fields.get("failed_for").and_then(Value::as_str);
        let reason = reason.or(child.text("failed_for"));
        let gate = step.spec.gate.as_ref();
        if let Some(back) = gate.and_then(|gate| gate.retry_route(reason)) {
            mailbox.write_feedback(&back.retry_context_path, said.round, &said.text)?;
        }
        Ok(())
    }

    /// A gate has failed: the step that it leads back to starts again with all that come after it,
    /// and no other. The line in the log comes first, because nobody would write it after a
    /// crash: the step has left the state that asks for it.
    fn lead_back(
        &self,
        child: &Stored,
        step: &StepTask,
        parent: &Stored,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let gate = step.spec.gate.as_ref();
        let Some(back) = gate.and_then(|gate| gate.retry_route(child.text("failed_for"))) else {
            self.ask_of(child.task.id, RESET, [], now)?;
            return Ok(());
        };
        let said = self.all_feedback(child, step)?;
        let Some(target) = &back.to else {
            let feedback = child.text("feedback").unwrap_or_default();
            let reason = format!("gate {} of {} failed: {feedback}", step.gate_id(), step.spec.id);
            self.ask_of(parent.task.id, ABORT, [("reason", json!(reason))], now)?;
            return Ok(());
        };
        let children = self.store.children(parent.task.id)?;
        let Some(mut flow) = workflow_of(parent) else { return Ok(()) };
        flow.steps = children.iter().filter_map(Stored::spec).collect();
        let reset: Vec<&str> =
            flow.downstream(target).iter().map(|step| step.id.as_str()).collect();
        let names: BTreeSet<&str> = reset.iter().copied().collect();
        let is_reset =
            |other: &&Stored| other.text("step").is_some_and(|step| names.contains(step));
        let again: Vec<&Stored> = children.iter().filter(is_reset).collect();
        let told = [Some(target.as_str()), child.text("step")];
        let events: Vec<(TaskId, Event)> = again
            .iter()
            .map(|other| {
                let event = if told.contains(&other.text("step")) {
                    let before = other.text("retry_context").unwrap_or_default().to_owned();
                    let all = said.iter().fold(before, |before, said| joined(&before, &said.text));
                    asked(RESET, [("retry_context", json!(all))])
                } else {
                    asked(RESET, [])
                };
                (other.task.id, event)
            })
            .collect();
        let text = format!(
            "gate {} leads back to {target}; these start again: {}",
            step.gate_id(),
            reset.join(", ")
        );
        if let Some(mailbox) = self.mailbox(&parent.task.project)? {
            let mark = format!("{}#{}-back", child.task.id, child.task.entered);
            mailbox.record(&step.workflow, now, &text, &mark)?;
        }
        self.store.apply_each(&events, now)?;
        pulse.notices.push(Notice { task: Some(child.task.id), urgent: false, text });
        Ok(())
    }

    /// What the breaker of a workflow says, if it trips.
    pub(super) fn tripped(&self, parent: &Stored) -> Result<Option<String>, EngineError> {
        let Some(Workflow { breaker, .. }) = workflow_of(parent) else { return Ok(None) };
        if breaker.cost_micros.is_none() && breaker.failures.is_none() {
            return Ok(None);
        }
        let counted = self.store.count_children(parent.task.id)?;
        let forgiven =
            |name: &str| parent.task.fields.get(name).and_then(Value::as_i64).unwrap_or(0);
        if let Some(most) = breaker.cost_micros
            && counted.cost_micros - forgiven(FORGIVEN_COST) >= most
        {
            let cost = dollars(counted.cost_micros);
            return Ok(Some(format!("its runs have cost {cost} of {}", dollars(most))));
        }
        let Some(most) = breaker.failures else { return Ok(None) };
        let failures = self.failures_of(parent)?;
        let over = failures - forgiven(FORGIVEN_FAILURES) >= i64::from(most);
        Ok(over.then(|| format!("its gates have failed {failures} times")))
    }

    /// The steps have heard that it runs. A person who lets it go on has seen what tripped the
    /// breaker, so that counts no more.
    pub(super) fn set_led(&self, parent: &Stored, now: Instant) -> Result<(), EngineError> {
        if self.tripped(parent)?.is_none() {
            self.ask_of(parent.task.id, LED, [], now)?;
            return Ok(());
        }
        let counted = self.store.count_children(parent.task.id)?;
        let failures = self.failures_of(parent)?;
        let fields =
            [(FORGIVEN_FAILURES, json!(failures)), (FORGIVEN_COST, json!(counted.cost_micros))];
        self.ask_of(parent.task.id, LED, fields, now)?;
        Ok(())
    }

    fn failures_of(&self, parent: &Stored) -> Result<i64, EngineError> {
        let children = self.store.children(parent.task.id)?;
        Ok(children.iter().map(|child| i64::from(rounds(child))).sum())
    }
}

const FORGIVEN_FAILURES: &str = "forgiven_failures";
const FORGIVEN_COST: &str = "forgiven_cost";

fn dollars(micros: i64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
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

/// What was said before and what is said now, the latest whole and of the older as much as fits.
fn joined(before: &str, said: &str) -> String {
    if before.contains(said) {
        return before.to_owned();
    }
    let text = if before.is_empty() { said.to_owned() } else { format!("{before}\n{said}") };
    let from = text.ceil_char_boundary(text.len().saturating_sub(RETRY_CONTEXT_BYTES));
    text[from..].to_owned()
}

/// A record of a step's history in one line that says what happened, by whom, and why.
fn line(step: &StepTask, entry: &HistoryEntry) -> String {
    let record = &entry.record;
    let from = record.from.as_deref().unwrap_or("nothing");
    let said = |name: &str| record.fields.get(name).and_then(Value::as_str);
    let why = ["feedback", "diagnostic", "reason", "note"].into_iter().find_map(said);
    let gate = step.gate_id();
    let at = if gate.is_empty() { String::new() } else { format!(" (gate {gate})") };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let (id, name) = (&step.spec.id, &step.spec.name);
    let name = if name == id { String::new() } else { format!(" {name}") };
    format!("{id}{name}{at} {from} -> {} on {} by {}{why}", record.to, record.trigger, record.actor)
}
