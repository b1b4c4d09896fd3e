//! Parents and children: a child that moves updates its parent, and a parent that moves leads its
//! children. What the children are for is elsewhere: workflows in `steps`, panels in `panel`, plans
//! in `planning`.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::lifecycle::{Activity, Outcome, StateKind};
use banksman_core::machine::{Event, WaitStatus, waits};
use banksman_core::time::Instant;

use super::event::{ask, report, request};
use super::panel::PanelHandler;
use super::planning::{lead_subtasks, update_planned_parent};
use super::relay::EffectResult;
use super::steps::{StepTask, Steps, is_workflow};
use super::turn::Turn;
use super::{Engine, Result};
use crate::store::batches::BatchChange;
use crate::store::outbox::PendingEffect;
use crate::store::{Store, Stored};

pub(super) struct Children<'a> {
    store: &'a Store,
    panels: PanelHandler<'a>,
    steps: Steps<'a>,
}

impl<'a> Children<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (panels, steps) = (PanelHandler::new(engine), Steps::new(engine));
        Self { store: engine.store, panels, steps }
    }

    /// Handles a child that moved: updates its parent.
    pub(super) fn moved(
        &self,
        effect: &PendingEffect,
        child: &Stored,
        turn: &mut Turn,
    ) -> Result<EffectResult> {
        // A child that was just created has nothing to report.
        let Some(parent) = child.task.parent.filter(|_| effect.seq > 1) else {
            return Ok(EffectResult::Done);
        };
        let parent = self.store.task(parent)?;
        self.panels.close_reviews(child, turn.now)?;
        if let Some(step) = StepTask::of(child)? {
            self.steps.log_record(effect, child, &step, &parent)?;
            if is_current(effect, child) {
                self.steps.moved(child, &step, &parent, turn)?;
            }
        }
        update_planned_parent(self.store, &parent, turn.now)?;
        // A child that has only begun changes no count, and counting reads all of them.
        if child.state().kind != StateKind::Working {
            self.update_parent(&parent, turn.now)?;
        }
        Ok(EffectResult::Done)
    }

    /// Applies the present states of the children to their parent. A parent whose children do its
    /// work has no panel and no question of its own.
    pub(super) fn update_parent(&self, parent: &Stored, now: Instant) -> Result<()> {
        match parent.activity().filter(|_| parent.task.is_active(&parent.lifecycle)) {
            // The effect that began the panel knows when to look again.
            Some(Activity::Panel) => self.panels.advance(parent, now).map(|_| ()),
            Some(Activity::Wait) => self.count_children(parent, now),
            Some(Activity::Human) => self.resume(parent, now),
            Some(
                Activity::Agent
                | Activity::Check
                | Activity::PullRequest
                | Activity::Merge
                | Activity::Capture,
            )
            | None => Ok(()),
        }
    }

    /// A wait may be for children: the engine counts them each time, no field keeps the counts.
    fn count_children(&self, parent: &Stored, now: Instant) -> Result<()> {
        let fields = child_counts(self.store, parent)?;
        if fields.is_empty() || !parent.flag(Field::Led) {
            return Ok(());
        }
        let mut counted = parent.task.clone();
        counted.fields.extend(fields.clone());
        if waits(&parent.lifecycle, &counted, now) == WaitStatus::Met {
            report(self.store, parent, Outcome::Met, String::new(), fields, now)?;
            return Ok(());
        }
        if let Some(detail) = self.steps.tripped(parent)? {
            ask(self.store, parent, Trigger::Trip, [(Field::Problem, Value::from(detail))], now)?;
        }
        Ok(())
    }

    /// A parent that asks about children that failed has its answer when none of them is failed any
    /// more.
    fn resume(&self, parent: &Stored, now: Instant) -> Result<()> {
        let asked = parent.number(Field::ChildrenGivenUp).unwrap_or(0);
        if asked > 0 && self.store.count_children(parent.task.id)?.given_up == 0 {
            ask(self.store, parent, Trigger::Decided, [], now)?;
        }
        Ok(())
    }

    /// The children of a task follow it: they pause while it waits for a person, and end with it.
    pub(super) fn lead(
        &self,
        effect: &PendingEffect,
        parent: &Stored,
        now: Instant,
    ) -> Result<EffectResult> {
        if !is_current(effect, parent) {
            return Ok(EffectResult::Done);
        }
        if !is_workflow(parent) {
            return lead_subtasks(self.store, effect, parent, now);
        }
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
            ask_children(
                self.store,
                parent,
                Trigger::Resume,
                |kind| kind == StateKind::Failed,
                now,
            )?;
            self.steps.log_start(parent, effect)?;
            self.steps.set_led(parent, now)?;
            self.update_parent(&self.store.task(parent.task.id)?, now)?;
        } else {
            self.steps.log_rest(parent, effect)?;
        }
        Ok(EffectResult::Done)
    }
}

/// How many children are open and given up, for a lifecycle that has fields for it.
pub(super) fn child_counts(store: &Store, parent: &Stored) -> Result<Fields> {
    let declared = |field: Field| parent.lifecycle.has_field(field);
    if !declared(Field::ChildrenOpen) {
        return Ok(Fields::new());
    }
    let children = store.count_children(parent.task.id)?;
    let counts =
        [(Field::ChildrenOpen, children.open()), (Field::ChildrenGivenUp, children.given_up)];
    let counts = counts.into_iter().filter(|(field, _)| declared(*field));
    Ok(counts.map(|(field, count)| parent.entry(field, Value::from(count))).collect())
}

/// Asks every open child of these kinds for a transition.
pub(super) fn ask_children(
    store: &Store,
    parent: &Stored,
    trigger: Trigger,
    wanted: impl Fn(StateKind) -> bool,
    now: Instant,
) -> Result<()> {
    let children = store.children(parent.task.id)?;
    let open = children.iter().filter(|child| {
        let state = child.state();
        !state.terminal && wanted(state.kind)
    });
    let events: Vec<(TaskId, Event)> =
        open.map(|child| (child.task.id, request(child, trigger, []))).collect();
    store.apply_each(&events, None, now)?;
    Ok(())
}

/// Whether the task is still in the stay that the effect is of.
fn is_current(effect: &PendingEffect, stored: &Stored) -> bool {
    stored.task.entered <= effect.seq
}
