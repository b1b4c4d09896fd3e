//! Checks, merges, and clean-ups, which remove the worktree of a task that has ended: jobs that
//! effects start. Each is started once, watched until its end is recorded, and started again if its
//! keeper is lost.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine::Effect;
use banksman_core::time::Span;

use super::assignment::is_cleaned_up_by_another;
use super::event::report;
use super::job::{JobSpecs, SpecError, has_other_job};
use super::manual::done_elsewhere;
use super::relay::{EffectHandler, EffectResult, Handled, is_wanted};
use super::turn::Turn;
use super::{Engine, Result};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::site::{JobStatus, Site};
use crate::store::outbox::PendingEffect;
use crate::store::{Store, Stored};

/// How often a running job is checked, in case its end goes unnoticed: a keeper that dies before it
/// begins leaves no trace.
const AT_WORK: Span = Span(20_000);
/// When to try again to start a job that waits for another job of its task.
const SOON: Span = Span(5_000);
/// How often a job that loses its keeper is started again before a person is asked.
const MOST_ATTEMPTS: i64 = 5;

pub(super) struct Activities<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    node: &'a str,
    specs: JobSpecs<'a>,
}

impl EffectHandler for Activities<'_> {
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled {
        if effect.effect == Effect::CleanUp {
            return self.clean_up(effect, stored, turn);
        }
        if !is_wanted(effect, stored) {
            return Ok(EffectResult::Done);
        }
        let job = JobId::Activity { task: effect.task, seq: effect.seq };
        let hindered = match self.earlier(job, turn)? {
            Ok(hindered) => hindered,
            Err(result) => return Ok(result),
        };
        if effect.attempts >= MOST_ATTEMPTS {
            let detail = format!("{MOST_ATTEMPTS} attempts failed. {hindered}");
            report(self.store, stored, Outcome::Exhausted, detail, Fields::new(), turn.now)?;
            return Ok(EffectResult::Done);
        }
        if let Some(node) = done_elsewhere(stored, self.node) {
            // The other node owns the effect from now on, and it is due there at once.
            self.store.keep_effect(effect, node)?;
            return Ok(EffectResult::Later(turn.now));
        }
        match self.specs.activity(stored, job) {
            Ok(spec) => {
                let begun = self.begin(effect, stored, &spec, turn)?;
                if matches!(begun, EffectResult::Begun(_)) {
                    turn.report.started.push((job, stored.task.title.clone()));
                }
                Ok(begun)
            }
            Err(SpecError::Engine(error)) => Err(error),
            Err(SpecError::Impossible(reason)) => {
                report(self.store, stored, Outcome::Exhausted, reason, Fields::new(), turn.now)?;
                Ok(EffectResult::Done)
            }
        }
    }
}

impl<'a> Activities<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (store, site, node) = (engine.store, engine.site, &engine.config.agents.node);
        Self { store, site, node, specs: JobSpecs::new(engine) }
    }

    fn clean_up(&self, effect: &PendingEffect, stored: &Stored, turn: &Turn) -> Handled {
        // A person may have sent the task back to work; then it needs its worktree again.
        let is_at_work = stored.task.entered > effect.seq && !stored.state().terminal;
        if is_at_work || is_cleaned_up_by_another(self.store, stored)? {
            return Ok(EffectResult::Done);
        }
        let job = JobId::CleanUp { task: effect.task, seq: effect.seq };
        if let Err(result) = self.earlier(job, turn)? {
            return Ok(result);
        }
        if effect.attempts >= MOST_ATTEMPTS {
            return Ok(EffectResult::Dead("its worktree could not be put away".to_owned()));
        }
        let spec = self.specs.clean_up(stored, job)?;
        spec.map_or(Ok(EffectResult::Done), |spec| self.begin(effect, stored, &spec, turn))
    }

    /// How the last attempt at a job failed, if there was one, or why the job does not begin now.
    fn earlier(&self, job: JobId, turn: &Turn) -> Result<Result<String, EffectResult>> {
        let later = |after: Span| Ok(Err(EffectResult::Later(turn.now.plus(after))));
        let failed = match (self.site.look(job)?, job) {
            (JobStatus::Absent, _) => String::new(),
            (JobStatus::Ended(receipt), _) if receipt.ended.failed_externally() => {
                if self.site.jobs()?.contains(&job) {
                    // It ended after this turn collected. The next turn collects it and decides
                    // when it begins again.
                    return later(AT_WORK);
                }
                receipt.ended.to_string()
            }
            (JobStatus::Ended(_), JobId::CleanUp { .. }) => return Ok(Err(EffectResult::Done)),
            // The processes of a lost keeper are ended first.
            (JobStatus::Lost, _) => return later(SOON),
            (JobStatus::Running | JobStatus::Ended(_), _) => return later(AT_WORK),
        };
        if has_other_job(self.site, job)? { later(SOON) } else { Ok(Ok(failed)) }
    }

    /// The task may move right before its job begins. The check runs while the job's folder is
    /// locked, so a turn that looks for jobs after the move sees this one, or it is not begun: no
    /// job takes effect after a turn found none.
    fn begin(
        &self,
        effect: &PendingEffect,
        stored: &Stored,
        spec: &JobSpec,
        turn: &Turn,
    ) -> Handled {
        if !self.store.keep_effect(effect, self.node)? {
            return Ok(EffectResult::Later(turn.now.plus(AT_WORK)));
        }
        let (mut known, mut begins) = (Ok(()), false);
        self.site.begin_if(spec, &mut || {
            let task = self.store.task(stored.task.id);
            begins = task.as_ref().is_ok_and(|now| now.task.entered == stored.task.entered);
            known = task.map(|_| ());
            begins
        })?;
        known?;
        Ok(match begins {
            true => EffectResult::Begun(turn.now.plus(AT_WORK)),
            false => EffectResult::Later(turn.now.plus(SOON)),
        })
    }
}
