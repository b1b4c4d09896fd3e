//! Tasks and their parts: a part tells its parent how it stands, a parent leads its parts. Nothing here knows what the parts are
//! for: workflows are in `steps`, panels in `panel`, plans in `planning`.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Kind, Outcome};
use banksman_core::machine::{Actor, Ask, Event, Report, Waits, waits};
use banksman_core::time::Instant;
use serde_json::{Map, Value, json};

use super::relay::Did;
use super::steps::{LED, Step, flow_of};
use super::{Engine, EngineError, Pulse};
use crate::store::outbox::Pending;
use crate::store::places::BatchChange;
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
const PARTS_OPEN: &str = "parts_open";
const PARTS_GIVEN_UP: &str = "parts_given_up";
pub(super) const ABORT: &str = "abort";

impl Engine<'_> {
    /// A part has moved: what that means for the whole.
    pub(super) fn tell_parent(
        &self,
        effect: &Pending,
        part: &Stored,
        now: Instant,
        pulse: &mut Pulse,
    ) -> Result<Did, EngineError> {
        // One that was just made has nothing to tell.
        let Some(parent) = part.task.parent.filter(|_| effect.seq > 1) else {
            return Ok(Did::Done);
        };
        let whole = self.store.task(parent)?;
        self.close_seats(part, now)?;
        if let Some(step) = Step::of(part) {
            self.note(effect, part, &step, &whole)?;
            if self.is_current(effect, part) {
                self.lead_on_from(part, &step, &whole, now, pulse)?;
            }
        }
        self.look_at_planned(&whole, now)?;
        // A part that has only begun changes no count, and counting looks at all of them.
        if part.state().kind != Kind::Working {
            self.look_at_parts(&whole, now)?;
        }
        Ok(Did::Done)
    }

    /// Whether the task is still in the stay that the effect is of.
    fn is_current(&self, effect: &Pending, stored: &Stored) -> bool {
        stored.task.entered <= effect.seq
    }

    /// What a whole makes of its parts as they stand now. One whose parts do its work has no panel and no question of its own.
    pub(super) fn look_at_parts(&self, whole: &Stored, now: Instant) -> Result<(), EngineError> {
        match whole.activity().filter(|_| whole.task.is_active(&whole.lifecycle)) {
            // When to look again is known to the effect that began the panel.
            Some(Activity::Panel) => self.hold_panel(whole, now).map(|_| ()),
            Some(Activity::Wait) => self.count_parts(whole, now),
            Some(Activity::Human) => self.take_up(whole, now),
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

    /// A wait may be for parts: the counts are facts that the engine brings along, not fields that somebody keeps.
    fn count_parts(&self, whole: &Stored, now: Instant) -> Result<(), EngineError> {
        let fields = self.counts_of_parts(whole)?;
        if fields.is_empty() || !whole.flag(LED) {
            return Ok(());
        }
        let mut counted = whole.task.clone();
        counted.fields.extend(fields.clone());
        if waits(&whole.lifecycle, &counted, now) == Waits::Met {
            let (outcome, detail) = (Outcome::Met, String::new());
            let (entered, tokens, cost_micros) = (whole.task.entered, 0, 0);
            let report = Report { entered, outcome, detail, fields, tokens, cost_micros };
            self.tolerant(whole.task.id, Event::Reported(report), now)?;
            return Ok(());
        }
        if let Some(detail) = self.tripped(whole)? {
            self.ask_of(whole.task.id, TRIP, [("problem", json!(detail))], now)?;
        }
        Ok(())
    }

    /// A whole that asks what becomes of parts that were given up has its answer when none of them is so any more.
    fn take_up(&self, whole: &Stored, now: Instant) -> Result<(), EngineError> {
        let asked = whole.task.fields.get(PARTS_GIVEN_UP).and_then(Value::as_i64).unwrap_or(0);
        if asked > 0 && self.store.count_parts(whole.task.id)?.given_up == 0 {
            self.ask_of(whole.task.id, TAKEN_UP, [], now)?;
        }
        Ok(())
    }

    /// How many parts there are of each kind, for a lifecycle that has fields for it.
    pub(super) fn counts_of_parts(
        &self,
        whole: &Stored,
    ) -> Result<Map<String, Value>, EngineError> {
        let declared = |name: &str| whole.lifecycle.fields.contains_key(name);
        if !declared(PARTS_OPEN) {
            return Ok(Map::new());
        }
        let parts = self.store.count_parts(whole.task.id)?;
        let counts = [(PARTS_OPEN, parts.open()), (PARTS_GIVEN_UP, parts.given_up)];
        let counts = counts.into_iter().filter(|(name, _)| declared(name));
        Ok(counts.map(|(name, count)| (name.to_owned(), json!(count))).collect())
    }

    /// The parts of a task follow it: they rest while it waits for a person, and end when it does.
    pub(super) fn lead_parts(
        &self,
        effect: &Pending,
        whole: &Stored,
        now: Instant,
    ) -> Result<Did, EngineError> {
        if !self.is_current(effect, whole) {
            return Ok(Did::Done);
        }
        if flow_of(whole).is_none() {
            return self.lead_planned(effect, whole, now);
        }
        let kind = whole.state().kind;
        let rests = match kind {
            Kind::Waiting | Kind::Blocked | Kind::Parked => true,
            Kind::Queued | Kind::Working | Kind::Reviewing => false,
            Kind::Done | Kind::Failed | Kind::Cancelled => {
                self.ask_parts(whole, CLOSE, |_| true, now)?;
                false
            }
        };
        if let Some(batch) = &whole.task.batch {
            if rests {
                let change = BatchChange { paused: Some(true), ..BatchChange::default() };
                self.store.set_batch(batch, change)?;
            } else {
                // Its parts have waited for a person, through no fault of theirs.
                self.store.resume_batch(batch, now)?;
            }
        }
        if kind == Kind::Working && !whole.flag(LED) {
            // A person has taken it up again, and with it what was given up.
            self.ask_parts(whole, TAKE_UP, |kind| kind == Kind::Failed, now)?;
            self.note_run(whole, effect)?;
            self.set_led(whole, now)?;
            self.look_at_parts(&self.store.task(whole.task.id)?, now)?;
        } else {
            self.note_rest(whole, effect)?;
        }
        Ok(Did::Done)
    }

    pub(super) fn ask_parts(
        &self,
        whole: &Stored,
        trigger: &str,
        wanted: impl Fn(Kind) -> bool,
        now: Instant,
    ) -> Result<(), EngineError> {
        let parts = self.store.parts(whole.task.id)?;
        let open = parts.iter().filter(|part| {
            let state = part.state();
            !state.terminal && wanted(state.kind)
        });
        let events: Vec<(TaskId, Event)> =
            open.map(|part| (part.task.id, asked(trigger, []))).collect();
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
    Event::Asked(Ask {
        actor: Actor::system(),
        to: None,
        trigger: Some(trigger.to_owned()),
        fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        epoch: None,
        version: None,
    })
}
