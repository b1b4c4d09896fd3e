//! Tasks and their parts: a part tells its parent how it stands, a parent leads its parts. Nothing
//! here knows what the parts are for: workflows are in `steps`, panels in `panel`, plans in
//! `planning`.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Outcome, StateKind};
use banksman_core::machine::{ActivityReport, Actor, Event, TransitionRequest, WaitStatus, waits};
use banksman_core::time::Instant;
use serde_json::{Map, Value, json};

use super::relay::EffectResult;
use super::steps::{LED, StepTask, workflow_of};
use super::{Engine, EngineError, TurnReport};
use crate::store::batches::BatchChange;
use crate::store::outbox::PendingEffect;
use crate::store::{StoreError, Stored};

/// What the engine asks of parts, where their lifecycles have it.
pub(super) const RESET: &str = "reset";
/// What was given up is begun again where it stood.
const TAKE_UP: &str = "take_up";
pub(super) const CLOSE: &str = "close";
const TRIP: &str = "trip";
/// A person has decided about every part that was given up, and the whole waited for nothing else.
const TAKEN_UP: &str = "taken_up";
/// Facts about its parts that a waiting task may wait for, where its lifecycle has fields for them.
const CHILDREN_OPEN: &str = "parts_open";
const CHILDREN_GIVEN_UP: &str = "parts_given_up";
pub(super) const ABORT: &str = "abort";

impl Engine<'_> {
    /// A part has moved: what that means for the whole.
    pub(super) fn tell_parent(
        &self,
        effect: &PendingEffect,
        child: &Stored,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<EffectResult, EngineError> {
        // One that was just made has nothing to tell.
        let Some(parent) = child.task.parent.filter(|_| effect.seq > 1) else {
            return Ok(EffectResult::Done);
        };
        let parent = self.store.task(parent)?;
        self.close_reviews(child, now)?;
        if let Some(step) = StepTask::of(child) {
            self.note(effect, child, &step, &parent)?;
            if self.is_current(effect, child) {
                self.lead_on_from(child, &step, &parent, now, pulse)?;
            }
        }
        self.look_at_planned(&parent, now)?;
        // A part that has only begun changes no count, and counting looks at all of them.
        if child.state().kind != StateKind::Working {
            self.look_at_children(&parent, now)?;
        }
        Ok(EffectResult::Done)
    }

    /// Whether the task is still in the stay that the effect is of.
    fn is_current(&self, effect: &PendingEffect, stored: &Stored) -> bool {
        stored.task.entered <= effect.seq
    }

    /// What a whole makes of its parts as they stand now. One whose parts do its work has no panel
    /// and no question of its own.
    pub(super) fn look_at_children(
        &self,
        parent: &Stored,
        now: Instant,
    ) -> Result<(), EngineError> {
        match parent.activity().filter(|_| parent.task.is_active(&parent.lifecycle)) {
            // When to look again is known to the effect that began the panel.
            Some(Activity::Panel) => self.hold_panel(parent, now).map(|_| ()),
            Some(Activity::Wait) => self.count_children(parent, now),
            Some(Activity::Human) => self.take_up(parent, now),
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

    /// A wait may be for parts: the counts are facts that the engine brings along, not fields that
    /// somebody keeps.
    fn count_children(&self, parent: &Stored, now: Instant) -> Result<(), EngineError> {
        let fields = self.child_counts(parent)?;
        if fields.is_empty() || !parent.flag(LED) {
            return Ok(());
        }
        let mut counted = parent.task.clone();
        counted.fields.extend(fields.clone());
        if waits(&parent.lifecycle, &counted, now) == WaitStatus::Met {
            let (outcome, detail) = (Outcome::Met, String::new());
            let (entered, tokens, cost_micros) = (parent.task.entered, 0, 0);
            let report = ActivityReport { entered, outcome, detail, fields, tokens, cost_micros };
            self.tolerant(parent.task.id, Event::Reported(report), now)?;
            return Ok(());
        }
        if let Some(detail) = self.tripped(parent)? {
            self.ask_of(parent.task.id, TRIP, [("problem", json!(detail))], now)?;
        }
        Ok(())
    }

    /// A whole that asks what becomes of parts that were given up has its answer when none of them
    /// is so any more.
    fn take_up(&self, parent: &Stored, now: Instant) -> Result<(), EngineError> {
        let asked = parent.task.fields.get(CHILDREN_GIVEN_UP).and_then(Value::as_i64).unwrap_or(0);
        if asked > 0 && self.store.count_children(parent.task.id)?.given_up == 0 {
            self.ask_of(parent.task.id, TAKEN_UP, [], now)?;
        }
        Ok(())
    }

    /// How many parts there are of each kind, for a lifecycle that has fields for it.
    pub(super) fn child_counts(&self, parent: &Stored) -> Result<Map<String, Value>, EngineError> {
        let declared = |name: &str| parent.lifecycle.fields.contains_key(name);
        if !declared(CHILDREN_OPEN) {
            return Ok(Map::new());
        }
        let children = self.store.count_children(parent.task.id)?;
        let counts = [(CHILDREN_OPEN, children.open()), (CHILDREN_GIVEN_UP, children.given_up)];
        let counts = counts.into_iter().filter(|(name, _)| declared(name));
        Ok(counts.map(|(name, count)| (name.to_owned(), json!(count))).collect())
    }

    /// The parts of a task follow it: they rest while it waits for a person, and end when it does.
    pub(super) fn lead_children(
        &self,
        effect: &PendingEffect,
        parent: &Stored,
        now: Instant,
    ) -> Result<EffectResult, EngineError> {
        if !self.is_current(effect, parent) {
            return Ok(EffectResult::Done);
        }
        if workflow_of(parent).is_none() {
            return self.lead_planned(effect, parent, now);
        }
        let kind = parent.state().kind;
        let rests = match kind {
            StateKind::Waiting | StateKind::Blocked | StateKind::Parked => true,
            StateKind::Queued | StateKind::Working | StateKind::Reviewing => false,
            StateKind::Done | StateKind::Failed | StateKind::Cancelled => {
                self.ask_children(parent, CLOSE, |_| true, now)?;
                false
            }
        };
        if let Some(batch) = &parent.task.batch {
            if rests {
                let change = BatchChange { paused: Some(true), ..BatchChange::default() };
                self.store.set_batch(batch, change)?;
            } else {
                // Its parts have waited for a person, through no fault of theirs.
                self.store.resume_batch(batch, now)?;
            }
        }
        if kind == StateKind::Working && !parent.flag(LED) {
            // A person has taken it up again, and with it what was given up.
            self.ask_children(parent, TAKE_UP, |kind| kind == StateKind::Failed, now)?;
            self.note_run(parent, effect)?;
            self.set_led(parent, now)?;
            self.look_at_children(&self.store.task(parent.task.id)?, now)?;
        } else {
            self.note_rest(parent, effect)?;
        }
        Ok(EffectResult::Done)
    }

    pub(super) fn ask_children(
        &self,
        parent: &Stored,
        trigger: &str,
        wanted: impl Fn(StateKind) -> bool,
        now: Instant,
    ) -> Result<(), EngineError> {
        let children = self.store.children(parent.task.id)?;
        let open = children.iter().filter(|child| {
            let state = child.state();
            !state.terminal && wanted(state.kind)
        });
        let events: Vec<(TaskId, Event)> =
            open.map(|child| (child.task.id, asked(trigger, []))).collect();
        self.store.apply_each(&events, now)?;
        Ok(())
    }

    /// Asks as the system; a refusal is an answer.
    pub(super) fn ask_of<const N: usize>(
        &self,
        id: TaskId,
        trigger: &str,
        fields: [(&str, Value); N],
        now: Instant,
    ) -> Result<bool, EngineError> {
        self.tolerant(id, asked(trigger, fields), now)
    }

    fn tolerant(&self, id: TaskId, event: Event, now: Instant) -> Result<bool, EngineError> {
        match self.store.apply(id, event, None, now) {
            Ok(_) => Ok(true),
            Err(StoreError::Rejected(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The system asks for a move by its trigger.
pub(super) fn asked<const N: usize>(trigger: &str, fields: [(&str, Value); N]) -> Event {
    Event::Asked(TransitionRequest {
        actor: Actor::system(),
        to: None,
        trigger: Some(trigger.to_owned()),
        fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        epoch: None,
        version: None,
    })
}
