//! The outbox: what was decided is done here, at least once, and each handler looks before it acts.

use std::collections::BTreeMap;

use banksman_core::ids::RunId;
use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{ActivityReport, Driver, Effect, Event, WaitStatus, hold, waits};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value};

use super::collect::how;
use super::{Engine, EngineError, Notice, TurnReport};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::site::JobStatus;
use crate::store::outbox::{EffectFailure, PendingEffect};
use crate::store::{StoreError, Stored};

/// How long others leave an effect alone that this turn has taken: much longer than it takes to do
/// all of them. If the turn is cut off, they are taken again after this time.
const HOLD: Span = Span(10_000);
/// Effects that are taken at once.
const AT_ONCE: i64 = 100;
/// How often a job that is running is looked at, in case nobody tells of its end; and what cannot
/// be done now.
const AT_WORK: Span = Span(60_000);
/// When a job that another one is in the way of is looked at again.
const SOON: Span = Span(5_000);
/// How often a condition is looked at whose time nobody knows.
pub(super) const LOOK_AGAIN: Span = Span(60_000);
/// How often an activity that loses its keeper is begun again before a person is asked.
const MOST_ATTEMPTS: i64 = 5;
/// Rounds of one turn: what an effect leads to may have effects of its own.
const ROUNDS: usize = 50;

/// What became of an effect.
pub(super) enum EffectResult {
    Done,
    /// Begun, which counts as an attempt, and looked at again at this time.
    Begun(Instant),
    /// Nothing could be done yet; looked at again at this time.
    Later(Instant),
    /// Not to be had; a person has to know.
    Dead(String),
}

impl Engine<'_> {
    pub(super) fn relay(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        for _ in 0..ROUNDS {
            let node = &self.config.agents.node;
            let effects = self.store.take_effects(node, now, HOLD, AT_ONCE)?;
            if effects.is_empty() {
                return Ok(());
            }
            let mut done = Vec::new();
            let all = self.do_effects(&effects, now, pulse, &mut done);
            // What is done is on record whatever became of the rest, and with one commit for all of
            // it.
            self.store.effects_done(&done)?;
            all?;
            pulse.effects += effects.len();
        }
        Ok(())
    }

    /// One after the other. Those that are done go to `done`; what becomes of the others is put on
    /// record at once.
    fn do_effects<'e>(
        &self,
        effects: &'e [PendingEffect],
        now: Instant,
        pulse: &mut TurnReport,
        done: &mut Vec<&'e PendingEffect>,
    ) -> Result<(), EngineError> {
        for effect in effects {
            let did = match self.do_effect(effect, now, pulse) {
                Ok(did) => did,
                Err(EngineError::Store(error)) => return Err(error.into()),
                // One that cannot be done now must not hold up the others, and it is not the
                // effect's fault.
                Err(
                    error @ (EngineError::Site(_)
                    | EngineError::Mailbox(_)
                    | EngineError::Project { .. }),
                ) => {
                    let (task, text) = (Some(effect.task), error.to_string());
                    pulse.notices.push(Notice { task, urgent: true, text });
                    EffectResult::Later(now.plus(AT_WORK))
                }
            };
            match did {
                EffectResult::Done => done.push(effect),
                EffectResult::Begun(at) => {
                    self.store.effect_failed(effect, "not yet", EffectFailure::Again(at))?
                }
                EffectResult::Later(at) => {
                    self.store.effect_later(effect, at.max(now.plus(Span(1))))?
                }
                EffectResult::Dead(text) => {
                    self.store.effect_failed(effect, &text, EffectFailure::Dead)?;
                    pulse.notices.push(Notice { task: Some(effect.task), urgent: true, text });
                }
            }
        }
        Ok(())
    }

    fn do_effect(
        &self,
        effect: &PendingEffect,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<EffectResult, EngineError> {
        let stored = match self.store.task(effect.task) {
            Ok(stored) => stored,
            Err(StoreError::Corrupt { what, .. }) => return Ok(EffectResult::Dead(what)),
            Err(error) => return Err(error.into()),
        };
        match effect.effect {
            Effect::Start { activity } => self.start(effect, activity, stored, now, pulse),
            Effect::Stop { epoch } => {
                let job = JobId::Run(RunId { task: effect.task, epoch });
                self.site.stop(job, "the task was moved on")?;
                Ok(EffectResult::Done)
            }
            Effect::CleanUp => self.clean_up(effect, &stored, now),
            Effect::Notify => self.tell(pulse, &stored, false, ""),
            Effect::Alert => self.tell(pulse, &stored, true, ""),
            Effect::Remind { age_days } => {
                self.tell(pulse, &stored, false, &format!(", for {age_days} days now"))
            }
            Effect::TellParent => self.tell_parent(effect, &stored, now, pulse),
            Effect::LeadChildren => self.lead_children(effect, &stored, now),
        }
    }

    fn start(
        &self,
        effect: &PendingEffect,
        activity: Activity,
        stored: Stored,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<EffectResult, EngineError> {
        let still = stored.task.entered <= effect.seq && stored.activity() == Some(activity);
        if !still || !stored.task.is_active(&stored.lifecycle) {
            if activity == Activity::Panel {
                self.close_reviews(&stored, now)?;
            }
            return Ok(EffectResult::Done);
        }
        match activity {
            Activity::Wait => match waits(&stored.lifecycle, &stored.task, now) {
                WaitStatus::Not => Ok(EffectResult::Done),
                WaitStatus::Met => {
                    self.advance(stored, now)?;
                    Ok(EffectResult::Done)
                }
                WaitStatus::Until(at) => {
                    self.look_at_children(&stored, now)?;
                    let soon = now.plus(LOOK_AGAIN);
                    Ok(EffectResult::Later(at.map_or(soon, |at| at.min(soon))))
                }
            },
            Activity::Check | Activity::Merge => self.start_job(effect, &stored, now, pulse),
            Activity::Panel => self.hold_panel(&stored, now),
            Activity::PullRequest | Activity::Capture => {
                let what = activity.as_str();
                Ok(EffectResult::Dead(format!("`{what}` is not available in this version")))
            }
            Activity::Agent | Activity::Human => Ok(EffectResult::Done),
        }
    }

    /// An activity of a keeper: begun once, looked after until its end is on record, begun again if
    /// its keeper is lost.
    fn start_job(
        &self,
        effect: &PendingEffect,
        stored: &Stored,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<EffectResult, EngineError> {
        let job = JobId::Activity { task: effect.task, seq: effect.seq };
        let hindered = match self.site.look(job)? {
            JobStatus::Absent => String::new(),
            JobStatus::Ended(receipt) if receipt.ended.failed_externally() => {
                if self.is_yet_to_be_collected(job)? {
                    return Ok(EffectResult::Later(now.plus(AT_WORK)));
                }
                how(&receipt.ended)
            }
            JobStatus::Running | JobStatus::Lost | JobStatus::Ended(_) => {
                return Ok(EffectResult::Later(now.plus(AT_WORK)));
            }
        };
        if effect.attempts >= MOST_ATTEMPTS {
            let detail = format!("it was begun {MOST_ATTEMPTS} times in vain. {hindered}");
            self.report(stored, Outcome::Exhausted, detail, Map::new(), now)?;
            return Ok(EffectResult::Done);
        }
        if let Some(node) = self.done_elsewhere(stored) {
            // It is the other's from now on, and due there at once.
            self.store.keep_effect(effect, node)?;
            return Ok(EffectResult::Later(now));
        }
        if self.is_in_the_way(job)? {
            return Ok(EffectResult::Later(now.plus(SOON)));
        }
        let mut projects = BTreeMap::new();
        match self.activity_plan(stored, job, &mut projects)? {
            Ok(plan) => {
                if !self.store.keep_effect(effect, &self.config.agents.node)? {
                    return Ok(EffectResult::Later(now.plus(AT_WORK)));
                }
                if !self.begin_if_still(&plan, stored)? {
                    return Ok(EffectResult::Later(now.plus(SOON)));
                }
                pulse.started.push((job, stored.task.title.clone()));
                Ok(EffectResult::Begun(now.plus(AT_WORK)))
            }
            Err(reason) => {
                self.report(stored, Outcome::Exhausted, reason, Map::new(), now)?;
                Ok(EffectResult::Done)
            }
        }
    }

    /// Somebody may move the task on right before its job begins. Whoever looks for jobs of the
    /// task after that move sees this one, because it is asked for with its folder held, or it
    /// is not begun: so nothing lands after others have found nothing.
    fn begin_if_still(&self, plan: &JobSpec, stored: &Stored) -> Result<bool, EngineError> {
        let (mut known, mut begins) = (Ok(()), false);
        self.site.begin_if(plan, &mut || {
            let task = self.store.task(stored.task.id);
            begins = task.as_ref().is_ok_and(|now| now.task.entered == stored.task.entered);
            known = task.map(|_| ());
            begins
        })?;
        known?;
        Ok(begins)
    }

    fn clean_up(
        &self,
        effect: &PendingEffect,
        stored: &Stored,
        now: Instant,
    ) -> Result<EffectResult, EngineError> {
        let job = JobId::CleanUp { task: effect.task, seq: effect.seq };
        match self.site.look(job)? {
            JobStatus::Running => return Ok(EffectResult::Later(now.plus(AT_WORK))),
            JobStatus::Ended(receipt) if receipt.ended.failed_externally() => {
                if self.is_yet_to_be_collected(job)? {
                    return Ok(EffectResult::Later(now.plus(AT_WORK)));
                }
            }
            JobStatus::Ended(_) => return Ok(EffectResult::Done),
            // What a lost keeper has left is ended first.
            JobStatus::Lost => return Ok(EffectResult::Later(now.plus(SOON))),
            JobStatus::Absent => {}
        }
        let state = stored.state();
        // A person may have sent the task back to work meanwhile; then its worktree is needed
        // again.
        if stored.task.entered > effect.seq && !state.terminal {
            return Ok(EffectResult::Done);
        }
        if effect.attempts >= MOST_ATTEMPTS {
            return Ok(EffectResult::Dead("its worktree could not be put away".to_owned()));
        }
        if self.is_put_away_by_another(stored)? {
            return Ok(EffectResult::Done);
        }
        if self.is_in_the_way(job)? {
            return Ok(EffectResult::Later(now.plus(SOON)));
        }
        let mut projects = BTreeMap::new();
        match self.clean_up_plan(stored, job, &mut projects)? {
            Some(plan) => {
                if !self.store.keep_effect(effect, &self.config.agents.node)? {
                    return Ok(EffectResult::Later(now.plus(AT_WORK)));
                }
                self.site.begin(&plan)?;
                Ok(EffectResult::Begun(now.plus(AT_WORK)))
            }
            None => Ok(EffectResult::Done),
        }
    }

    /// A job that has ended since this turn looked for such jobs is the next turn's, which also
    /// says when it is begun again.
    fn is_yet_to_be_collected(&self, job: JobId) -> Result<bool, EngineError> {
        Ok(self.site.jobs()?.contains(&job))
    }

    /// Whether the task took it: it may have moved on, or have no room for all that is told.
    pub(super) fn report(
        &self,
        stored: &Stored,
        outcome: Outcome,
        detail: String,
        fields: Map<String, Value>,
        now: Instant,
    ) -> Result<bool, EngineError> {
        let (entered, tokens, cost_micros) = (stored.task.entered, 0, 0);
        let report = ActivityReport { entered, outcome, detail, fields, tokens, cost_micros };
        match self.store.apply(stored.task.id, Event::Reported(report), None, now) {
            Ok(_) => Ok(true),
            Err(StoreError::Rejected(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells people of a state, and what to type where one of them is asked. A state whose parts do
    /// what it is for asks nobody, and they speak for themselves.
    fn tell(
        &self,
        pulse: &mut TurnReport,
        stored: &Stored,
        urgent: bool,
        more: &str,
    ) -> Result<EffectResult, EngineError> {
        let (task, state) = (&stored.task, stored.state());
        let detail = self.store.detail(task.id)?;
        let next = detail.timers.first().map(|timer| timer.due);
        let hold = hold(&stored.lifecycle, task, next);
        if hold == Driver::Parts {
            return Ok(EffectResult::Done);
        }
        let to_type = match detail.decision {
            Some(decision) => format!(" (banksman decisions show {})", decision.id),
            None if hold == Driver::Person => format!(" (banksman why {})", task.id),
            None => String::new(),
        };
        let text = format!("{} is {}{more}: {}{to_type}", task.id, state.name, task.title);
        pulse.notices.push(Notice { task: Some(task.id), urgent, text });
        Ok(EffectResult::Done)
    }
}
