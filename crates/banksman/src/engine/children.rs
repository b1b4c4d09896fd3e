//! Parents and children: a child that moves updates its parent, whose wait may be for children.
//! What the children are for is elsewhere: workflows in `workflows` and `steps`, panels in `panel`,
//! plans in `planning`.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::lifecycle::{Activity, Outcome, StateKind};
use banksman_core::machine::{Effect, Event, WaitStatus, waits};
use banksman_core::time::Instant;

use super::event::{ask, end_wait, report, request};
use super::relay::{EffectHandler, EffectResult, Handled, LOOK_AGAIN, is_wanted};
use super::turn::Turn;
use super::workflows::tripped;
use super::{Engine, Result};
use crate::store::outbox::PendingEffect;
use crate::store::{Store, Stored};

pub(super) struct Children<'a> {
    store: &'a Store,
}

impl EffectHandler for Children<'_> {
    /// Begins a wait, or applies the states of the children to a parent whose child has moved.
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled {
        let kind = stored.state().kind;
        let parent = match effect.effect {
            Effect::Start { .. } => return self.wait(effect, stored, turn.now),
            // A child that has only started changes no count, and counting reads all of them.
            Effect::TellParent if kind != StateKind::Working => {
                parent_of(self.store, effect, stored)?
            }
            Effect::LeadChildren if stored.is_workflow() && kind == StateKind::Working => {
                Some(self.store.task(stored.task.id)?)
            }
            Effect::TellParent
            | Effect::LeadChildren
            | Effect::Stop { .. }
            | Effect::Notify
            | Effect::Alert
            | Effect::CleanUp
            | Effect::CloseReviews
            | Effect::Remind { .. } => None,
        };
        parent.map_or(Ok(()), |parent| self.update(&parent, turn.now))?;
        Ok(EffectResult::Done)
    }
}

impl<'a> Children<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store }
    }

    fn wait(&self, effect: &PendingEffect, stored: &Stored, now: Instant) -> Result<EffectResult> {
        if !is_wanted(effect, stored) {
            return Ok(EffectResult::Done);
        }
        match waits(&stored.lifecycle, &stored.task, now) {
            WaitStatus::Not => Ok(EffectResult::Done),
            WaitStatus::Met => {
                end_wait(self.store, stored.clone(), now)?;
                Ok(EffectResult::Done)
            }
            WaitStatus::Until(at) => {
                self.count(stored, now)?;
                let soon = now.plus(LOOK_AGAIN);
                Ok(EffectResult::Later(at.map_or(soon, |at| at.min(soon))))
            }
        }
    }

    /// Applies the present states of the children to their parent. A parent whose children do its
    /// work has no question of its own. Panels look after themselves.
    fn update(&self, parent: &Stored, now: Instant) -> Result<()> {
        match parent.activity().filter(|_| parent.task.is_active(&parent.lifecycle)) {
            Some(Activity::Wait) => self.count(parent, now),
            Some(Activity::Human) => self.resume(parent, now),
            Some(
                Activity::Agent
                | Activity::Panel
                | Activity::Check
                | Activity::PullRequest
                | Activity::Merge
                | Activity::Capture,
            )
            | None => Ok(()),
        }
    }

    /// A wait may be for children: the engine counts them each time, no field keeps the counts.
    fn count(&self, parent: &Stored, now: Instant) -> Result<()> {
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
        if let Some(detail) = tripped(self.store, parent)? {
            ask(self.store, parent, Trigger::Trip, [(Field::Problem, Value::from(detail))], now)?;
        }
        Ok(())
    }

    /// A parent that asks about failed children is answered when none is failed any more.
    fn resume(&self, parent: &Stored, now: Instant) -> Result<()> {
        let asked = parent.number(Field::ChildrenGivenUp).unwrap_or(0);
        if asked > 0 && self.store.count_children(parent.task.id)?.given_up == 0 {
            ask(self.store, parent, Trigger::TakenUp, [], now)?;
        }
        Ok(())
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

/// The parent of a child that has moved; none for one that was just created, which has nothing to
/// report.
pub(super) fn parent_of(
    store: &Store,
    effect: &PendingEffect,
    child: &Stored,
) -> Result<Option<Stored>> {
    let parent = child.task.parent.filter(|_| effect.seq > 1);
    Ok(parent.map(|parent| store.task(parent)).transpose()?)
}

/// Whether the task is still in the same stay in its state as when the effect was created.
pub(super) fn is_current(effect: &PendingEffect, stored: &Stored) -> bool {
    stored.task.entered <= effect.seq
}
