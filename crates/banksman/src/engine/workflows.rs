//! Workflows: their steps start and end with them, and pause while they wait for a person.

use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::{CounterName, Field, Trigger};
use banksman_core::lifecycle::expr::Value;
use banksman_core::time::Instant;
use banksman_core::workflow::{Signal, Workflow};

use super::children::{ask_children, is_current};
use super::event::ask;
use super::project::Settings;
use super::relay::{EffectHandler, EffectResult, Handled};
use super::steps::{StepTask, workflow_of};
use super::turn::Turn;
use super::{Engine, Result};
use crate::store::batches::BatchChange;
use crate::store::outbox::PendingEffect;
use crate::store::{Store, Stored};

pub(super) struct Workflows<'a> {
    store: &'a Store,
    settings: Settings<'a>,
}

impl EffectHandler for Workflows<'_> {
    /// Leads the steps of a workflow that has moved.
    fn handle(&self, effect: &PendingEffect, flow: &Stored, turn: &mut Turn) -> Handled {
        if flow.is_workflow() && is_current(effect, flow) {
            self.lead(effect, flow, turn)?;
        }
        Ok(EffectResult::Done)
    }
}

impl<'a> Workflows<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, settings: engine.settings() }
    }

    fn lead(&self, effect: &PendingEffect, parent: &Stored, turn: &mut Turn) -> Result<()> {
        let now = turn.now;
        let kind = parent.state().kind;
        let rests = match kind {
            StateKind::Waiting | StateKind::Blocked | StateKind::Parked => true,
            StateKind::Queued | StateKind::Working | StateKind::Reviewing => false,
            StateKind::Done | StateKind::Failed | StateKind::Cancelled => {
                ask_children(self.store, parent, Trigger::Close, |_| true, now)?;
                false
            }
        };
        if let Some(batch) = &parent.task.batch {
            if rests {
                let change = BatchChange { paused: Some(true), ..BatchChange::default() };
                self.store.set_batch(batch, change)?;
            } else {
                // Its children have waited for a person, through no fault of their own.
                self.store.resume_batch(batch, now)?;
            }
        }
        if kind == StateKind::Working && !parent.flag(Field::Led) {
            // A person has resumed it, and with it the children that failed.
            let has_failed = |kind| kind == StateKind::Failed;
            ask_children(self.store, parent, Trigger::TakeUp, has_failed, now)?;
            self.log_start(parent, effect, turn)?;
            self.set_led(parent, now)?;
        } else {
            self.log_rest(parent, effect, turn)?;
        }
        Ok(())
    }

    /// Logs that a workflow starts or resumes.
    fn log_start(&self, parent: &Stored, effect: &PendingEffect, turn: &mut Turn) -> Result<()> {
        let Some(flow) = workflow_of(parent)? else { return Ok(()) };
        let Some(mailbox) = self.settings.mailbox(&parent.task.project)? else { return Ok(()) };
        let (id, at) = (parent.task.id, parent.task.updated_at);
        let children = self.store.children(id)?;
        let begins = effect.seq == 1;
        if begins {
            let mut steps: Vec<StepTask> = Vec::new();
            for child in &children {
                steps.extend(StepTask::of(child)?);
            }
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
            let place = steps.first().and_then(|step| step.spec.place.as_deref());
            let own = mailbox.of_run(place);
            own.clear_for(&ids, &gate_ids, &paths, &format!("before-{id}"))?;
        }
        let what = if begins { "started" } else { "goes on" };
        let steps = match children.len() {
            1 => "1 step".to_owned(),
            many => format!("{many} steps"),
        };
        let text = format!("workflow {} {what} as {id} with {steps}", flow.id);
        turn.log(&mailbox, id, (&flow.id, at), &text, &format!("{id}#{}", effect.seq))
    }

    /// Logs that a workflow has ended, or why it waits.
    fn log_rest(&self, parent: &Stored, effect: &PendingEffect, turn: &mut Turn) -> Result<()> {
        let Some(flow) = workflow_of(parent)? else { return Ok(()) };
        let Some(mailbox) = self.settings.mailbox(&parent.task.project)? else { return Ok(()) };
        let (id, state) = (parent.task.id, &parent.state().name);
        let why = [Field::Reason, Field::Problem].into_iter().find_map(|field| parent.text(field));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let merged = if parent.flag(Field::Merged) { ", its work is merged" } else { "" };
        let text = format!("workflow {} ({id}) is {state}{merged}{why}", flow.id);
        let at = parent.task.updated_at;
        turn.log(&mailbox, id, (&flow.id, at), &text, &format!("{id}#{}", effect.seq))
    }

    /// Records that the steps have been told. A person who resumes a workflow has seen what tripped
    /// the breaker, so that no longer counts.
    fn set_led(&self, parent: &Stored, now: Instant) -> Result<()> {
        if tripped(self.store, parent)?.is_none() {
            ask(self.store, parent, Trigger::Led, [], now)?;
            return Ok(());
        }
        let counted = self.store.count_children(parent.task.id)?;
        let failures = failures_of(self.store, parent)?;
        let fields = [
            (Field::ForgivenFailures, Value::from(failures)),
            (Field::ForgivenCost, Value::from(counted.cost_micros)),
        ];
        ask(self.store, parent, Trigger::Led, fields, now)?;
        Ok(())
    }
}

/// Why the breaker of a workflow trips, if it does.
pub(super) fn tripped(store: &Store, parent: &Stored) -> Result<Option<String>> {
    let Some(Workflow { breaker, .. }) = workflow_of(parent)? else { return Ok(None) };
    if breaker.cost_micros.is_none() && breaker.failures.is_none() {
        return Ok(None);
    }
    let counted = store.count_children(parent.task.id)?;
    let forgiven = |field: Field| parent.number(field).unwrap_or(0);
    if let Some(most) = breaker.cost_micros
        && counted.cost_micros - forgiven(Field::ForgivenCost) >= most
    {
        let cost = dollars(counted.cost_micros);
        return Ok(Some(format!("its runs have cost {cost} of {}", dollars(most))));
    }
    let Some(most) = breaker.failures else { return Ok(None) };
    let failures = failures_of(store, parent)?;
    let over = failures - forgiven(Field::ForgivenFailures) >= i64::from(most);
    Ok(over.then(|| format!("its gates have failed {failures} times")))
}

fn failures_of(store: &Store, parent: &Stored) -> Result<i64> {
    let children = store.all_children(parent.task.id)?;
    Ok(children.iter().map(|child| i64::from(child.count(CounterName::Rounds))).sum())
}

fn dollars(micros: i64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}
