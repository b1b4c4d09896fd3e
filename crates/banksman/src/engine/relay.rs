//! Relays effects from the outbox to the handlers that `mod.rs` declares, at least once, and
//! records the result of each.

use banksman_core::ids::RunId;
use banksman_core::lifecycle::Activity;
use banksman_core::machine::Effect;
use banksman_core::time::{Instant, Span};

use super::turn::{Reconciler, Turn};
use super::{Engine, Result, handlers};
use crate::exec::job::JobId;
use crate::exec::site::Site;
use crate::store::outbox::{EffectFailure, PendingEffect};
use crate::store::{Store, StoreError, Stored};

/// How long other nodes leave an effect alone that this turn has taken: much longer than handling
/// all of them takes. If the turn is cut off, they are taken again after this time.
const TAKEN_FOR: Span = Span(10_000);
/// Effects that are taken at once.
const AT_ONCE: i64 = 100;
/// When an effect with a fault is tried again, and how often a condition without a known time is
/// checked.
pub(super) const LOOK_AGAIN: Span = Span(60_000);
/// Rounds of one turn: an effect may cause further effects.
const ROUNDS: usize = 50;

/// The result of an effect.
pub(super) enum EffectResult {
    Done,
    /// Started, which counts as an attempt; tried again at this time.
    Begun(Instant),
    /// Nothing could be done yet; tried again at this time.
    Later(Instant),
    /// Cannot be done; a person has to know.
    Dead(String),
}

pub(super) type Handled = Result<EffectResult>;

/// Carries out effects of one kind, at least once: it checks before it acts.
pub(super) trait EffectHandler {
    /// `stored` is the task of the effect as it is now.
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled;
}

/// A handler's name, by which its faults are recorded, and how it is made.
pub(super) type HandlerRow = (&'static str, for<'a> fn(&Engine<'a>) -> Box<dyn EffectHandler + 'a>);

pub(super) struct Relay<'a> {
    engine: Engine<'a>,
    store: &'a Store,
    node: &'a str,
}

impl Reconciler for Relay<'_> {
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        for _ in 0..ROUNDS {
            let effects = self.store.take_effects(self.node, turn.now, TAKEN_FOR, AT_ONCE)?;
            if effects.is_empty() {
                return Ok(());
            }
            let mut done = Vec::new();
            let all = self.handle_all(&effects, turn, &mut done);
            // Completed effects are recorded even if another one failed, all of them in one commit.
            self.store.effects_done(&done)?;
            all?;
            turn.report.effects += effects.len();
        }
        Ok(())
    }
}

impl<'a> Relay<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { engine: *engine, store: engine.store, node: &engine.config.agents.node }
    }

    /// One after the other. Those that are done go to `done`; the results of the others are
    /// recorded at once.
    fn handle_all<'e>(
        &self,
        effects: &'e [PendingEffect],
        turn: &mut Turn,
        done: &mut Vec<&'e PendingEffect>,
    ) -> Result<()> {
        for effect in effects {
            let handled = self.handle(effect, turn);
            let result = turn.contain(Some(effect.task), handled)?;
            match result.unwrap_or(EffectResult::Later(turn.now.plus(LOOK_AGAIN))) {
                EffectResult::Done => done.push(effect),
                EffectResult::Begun(at) => {
                    let again = EffectFailure::Again(at);
                    self.store.effect_failed(effect, "not yet", again, turn.now)?;
                }
                EffectResult::Later(at) => {
                    self.store.effect_later(effect, at.max(turn.now.plus(Span(1))))?;
                }
                EffectResult::Dead(text) => {
                    self.store.effect_failed(effect, &text, EffectFailure::Dead, turn.now)?;
                }
            }
        }
        Ok(())
    }

    /// One handler after the other, until one is not done.
    fn handle(&self, effect: &PendingEffect, turn: &mut Turn) -> Handled {
        let stored = match self.store.task(effect.task) {
            Ok(stored) => stored,
            Err(StoreError::Corrupt { what, .. }) => return Ok(EffectResult::Dead(what)),
            Err(error) => return Err(error.into()),
        };
        for (name, make) in handlers(&effect.effect) {
            let handled = turn.run_part(name, effect.task, |turn| {
                make(&self.engine).handle(effect, &stored, turn)
            })?;
            match handled {
                Some(EffectResult::Done) => {}
                Some(result) => return Ok(result),
                None => return Ok(EffectResult::Later(turn.now.plus(LOOK_AGAIN))),
            }
        }
        Ok(EffectResult::Done)
    }
}

/// Whether the task is still in the stay, and at the activity, that an effect starts.
pub(super) fn is_wanted(effect: &PendingEffect, stored: &Stored) -> bool {
    let Effect::Start { activity } = effect.effect else { return false };
    stored.task.entered <= effect.seq
        && stored.activity() == Some(activity)
        && stored.task.is_active(&stored.lifecycle)
}

/// Stops runs whose task was moved on.
pub(super) struct Stops<'a>(pub(super) &'a dyn Site);

impl EffectHandler for Stops<'_> {
    fn handle(&self, effect: &PendingEffect, _: &Stored, _: &mut Turn) -> Handled {
        if let Effect::Stop { epoch } = effect.effect {
            let job = JobId::Run(RunId { task: effect.task, epoch });
            self.0.stop(job, "the task was moved on")?;
        }
        Ok(EffectResult::Done)
    }
}

/// Activities that this version does not have.
pub(super) struct Unavailable;

impl EffectHandler for Unavailable {
    fn handle(&self, effect: &PendingEffect, stored: &Stored, _: &mut Turn) -> Handled {
        let name = stored.activity().filter(|_| is_wanted(effect, stored)).map(Activity::as_str);
        Ok(name.map_or(EffectResult::Done, |name| {
            EffectResult::Dead(format!("`{name}` is not available in this version"))
        }))
    }
}
