//! Checks and merges: jobs that effects start. Each is started once, watched until its end is
//! recorded, and started again if its keeper is lost.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::time::Span;

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

/// How often a running job is checked, in case its end goes unnoticed.
pub(super) const AT_WORK: Span = Span(60_000);
/// When to try again to start a job that waits for another job of its task.
pub(super) const SOON: Span = Span(5_000);
/// How often a job that loses its keeper is started again before a person is asked.
pub(super) const MOST_ATTEMPTS: i64 = 5;

pub(super) struct Activities<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    node: &'a str,
    specs: JobSpecs<'a>,
}

impl EffectHandler for Activities<'_> {
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled {
        if !is_wanted(effect, stored) {
            return Ok(EffectResult::Done);
        }
        let job = JobId::Activity { task: effect.task, seq: effect.seq };
        let hindered = match self.site.look(job)? {
            JobStatus::Absent => String::new(),
            JobStatus::Ended(receipt) if receipt.ended.failed_externally() => {
                if is_uncollected(self.site, job)? {
                    return Ok(EffectResult::Later(turn.now.plus(AT_WORK)));
                }
                receipt.ended.to_string()
            }
            JobStatus::Running | JobStatus::Lost | JobStatus::Ended(_) => {
                return Ok(EffectResult::Later(turn.now.plus(AT_WORK)));
            }
        };
        if effect.attempts >= MOST_ATTEMPTS {
            let detail = format!("it was begun {MOST_ATTEMPTS} times in vain. {hindered}");
            report(self.store, stored, Outcome::Exhausted, detail, Fields::new(), turn.now)?;
            return Ok(EffectResult::Done);
        }
        if let Some(node) = done_elsewhere(stored, self.node) {
            // The other node owns the effect from now on, and it is due there at once.
            self.store.keep_effect(effect, node)?;
            return Ok(EffectResult::Later(turn.now));
        }
        if has_other_job(self.site, job)? {
            return Ok(EffectResult::Later(turn.now.plus(SOON)));
        }
        match self.specs.activity(stored, job) {
            Ok(spec) => {
                if !self.store.keep_effect(effect, self.node)? {
                    return Ok(EffectResult::Later(turn.now.plus(AT_WORK)));
                }
                if !self.begin_if_still(&spec, stored)? {
                    return Ok(EffectResult::Later(turn.now.plus(SOON)));
                }
                turn.report.started.push((job, stored.task.title.clone()));
                Ok(EffectResult::Begun(turn.now.plus(AT_WORK)))
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

    /// The task may move right before its job begins. The check runs while the job's folder is
    /// locked, so a turn that looks for jobs after the move sees this one, or it is not begun: no
    /// job takes effect after a turn found none.
    fn begin_if_still(&self, spec: &JobSpec, stored: &Stored) -> Result<bool> {
        let (mut known, mut begins) = (Ok(()), false);
        self.site.begin_if(spec, &mut || {
            let task = self.store.task(stored.task.id);
            begins = task.as_ref().is_ok_and(|now| now.task.entered == stored.task.entered);
            known = task.map(|_| ());
            begins
        })?;
        known?;
        Ok(begins)
    }
}

/// Whether the job ended after this turn collected. The next turn collects it and decides when it
/// begins again.
pub(super) fn is_uncollected(site: &dyn Site, job: JobId) -> Result<bool> {
    Ok(site.jobs()?.contains(&job))
}
