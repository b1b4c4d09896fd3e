//! Relays effects from the outbox to their handlers, at least once: each handler looks before it
//! acts.

use banksman_core::ids::RunId;
use banksman_core::lifecycle::Activity;
use banksman_core::machine::{Effect, WaitStatus, waits};
use banksman_core::time::{Instant, Span};

use super::activity::Activities;
use super::children::Children;
use super::event::end_wait;
use super::panel::PanelHandler;
use super::turn::{Reconciler, Turn};
use super::{Engine, Result};
use crate::exec::job::JobId;
use crate::exec::site::Site;
use crate::store::outbox::{EffectFailure, PendingEffect};
use crate::store::{Store, StoreError, Stored};

/// How long others leave an effect alone that this turn has taken: much longer than it takes to do
/// all of them. If the turn is cut off, they are taken again after this time.
const TAKEN_FOR: Span = Span(10_000);
/// Effects that are taken at once.
const AT_ONCE: i64 = 100;
/// When an effect that had a fault is tried again, and how often a condition is looked at whose
/// time is not known.
pub(super) const LOOK_AGAIN: Span = Span(60_000);
/// Rounds of one turn: what an effect leads to may have effects of its own.
const ROUNDS: usize = 50;

/// What became of an effect.
pub(super) enum EffectResult {
    Done,
    /// Begun, which counts as an attempt, and looked at again at this time.
    Begun(Instant),
    /// Nothing could be done yet; looked at again at this time.
    Later(Instant),
    /// Cannot be done; a person has to know.
    Dead(String),
}

pub(super) struct Relay<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    node: &'a str,
    activities: Activities<'a>,
    panels: PanelHandler<'a>,
    children: Children<'a>,
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
            // What is done is on record whatever became of the rest, and with one commit for all
            // of it.
            self.store.effects_done(&done)?;
            all?;
            turn.report.effects += effects.len();
        }
        Ok(())
    }
}

impl<'a> Relay<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self {
            store: engine.store,
            site: engine.site,
            node: &engine.config.agents.node,
            activities: Activities::new(engine),
            panels: PanelHandler::new(engine),
            children: Children::new(engine),
        }
    }

    /// One after the other. Those that are done go to `done`; what becomes of the others is put on
    /// record at once.
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

    /// The handlers, one for each kind of effect.
    fn handle(&self, effect: &PendingEffect, turn: &mut Turn) -> Result<EffectResult> {
        let stored = match self.store.task(effect.task) {
            Ok(stored) => stored,
            Err(StoreError::Corrupt { what, .. }) => return Ok(EffectResult::Dead(what)),
            Err(error) => return Err(error.into()),
        };
        match effect.effect {
            Effect::Start { activity } => self.start(effect, activity, stored, turn),
            Effect::Stop { epoch } => {
                let job = JobId::Run(RunId { task: effect.task, epoch });
                self.site.stop(job, "the task was moved on")?;
                Ok(EffectResult::Done)
            }
            Effect::CleanUp => self.activities.clean_up(effect, &stored, turn),
            // An earlier version wrote these; now notices come with their transition.
            Effect::Notify | Effect::Alert | Effect::Remind { .. } => {
                let timers = self.store.detail(effect.task)?.timers;
                let next = timers.first().map(|timer| timer.due);
                self.store.notice_of_effect(effect, &stored, next, turn.now)?;
                Ok(EffectResult::Done)
            }
            Effect::TellParent => self.children.moved(effect, &stored, turn),
            Effect::LeadChildren => self.children.lead(effect, &stored, turn.now),
        }
    }

    fn start(
        &self,
        effect: &PendingEffect,
        activity: Activity,
        stored: Stored,
        turn: &mut Turn,
    ) -> Result<EffectResult> {
        let still = stored.task.entered <= effect.seq && stored.activity() == Some(activity);
        if !still || !stored.task.is_active(&stored.lifecycle) {
            if activity == Activity::Panel {
                self.panels.close_reviews(&stored, turn.now)?;
            }
            return Ok(EffectResult::Done);
        }
        match activity {
            Activity::Wait => match waits(&stored.lifecycle, &stored.task, turn.now) {
                WaitStatus::Not => Ok(EffectResult::Done),
                WaitStatus::Met => {
                    end_wait(self.store, stored, turn.now)?;
                    Ok(EffectResult::Done)
                }
                WaitStatus::Until(at) => {
                    self.children.update_parent(&stored, turn.now)?;
                    let soon = turn.now.plus(LOOK_AGAIN);
                    Ok(EffectResult::Later(at.map_or(soon, |at| at.min(soon))))
                }
            },
            Activity::Check | Activity::Merge => self.activities.start(effect, &stored, turn),
            Activity::Panel => self.panels.advance(&stored, turn.now),
            Activity::PullRequest | Activity::Capture => {
                let name = activity.as_str();
                Ok(EffectResult::Dead(format!("`{name}` is not available in this version")))
            }
            Activity::Agent | Activity::Human => Ok(EffectResult::Done),
        }
    }
}
