//! Clean-ups: jobs that remove the worktree of a task that has ended.

use super::Engine;
use super::activity::{AT_WORK, MOST_ATTEMPTS, SOON, is_uncollected};
use super::assignment::is_cleaned_up_by_another;
use super::job::{JobSpecs, has_other_job};
use super::relay::{EffectHandler, EffectResult, Handled};
use super::turn::Turn;
use crate::exec::job::JobId;
use crate::exec::site::{JobStatus, Site};
use crate::store::outbox::PendingEffect;
use crate::store::{Store, Stored};

pub(super) struct CleanUps<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    node: &'a str,
    specs: JobSpecs<'a>,
}

impl<'a> CleanUps<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (store, site, node) = (engine.store, engine.site, &engine.config.agents.node);
        Self { store, site, node, specs: JobSpecs::new(engine) }
    }
}

impl EffectHandler for CleanUps<'_> {
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled {
        let job = JobId::CleanUp { task: effect.task, seq: effect.seq };
        match self.site.look(job)? {
            JobStatus::Running => return Ok(EffectResult::Later(turn.now.plus(AT_WORK))),
            JobStatus::Ended(receipt) if receipt.ended.failed_externally() => {
                if is_uncollected(self.site, job)? {
                    return Ok(EffectResult::Later(turn.now.plus(AT_WORK)));
                }
            }
            JobStatus::Ended(_) => return Ok(EffectResult::Done),
            // The processes of a lost keeper are ended first.
            JobStatus::Lost => return Ok(EffectResult::Later(turn.now.plus(SOON))),
            JobStatus::Absent => {}
        }
        let state = stored.state();
        // A person may have sent the task back to work; then it needs its worktree again.
        if stored.task.entered > effect.seq && !state.terminal {
            return Ok(EffectResult::Done);
        }
        if effect.attempts >= MOST_ATTEMPTS {
            return Ok(EffectResult::Dead("its worktree could not be put away".to_owned()));
        }
        if is_cleaned_up_by_another(self.store, stored)? {
            return Ok(EffectResult::Done);
        }
        if has_other_job(self.site, job)? {
            return Ok(EffectResult::Later(turn.now.plus(SOON)));
        }
        match self.specs.clean_up(stored, job)? {
            Some(spec) => {
                if !self.store.keep_effect(effect, self.node)? {
                    return Ok(EffectResult::Later(turn.now.plus(AT_WORK)));
                }
                self.site.begin(&spec)?;
                Ok(EffectResult::Begun(turn.now.plus(AT_WORK)))
            }
            None => Ok(EffectResult::Done),
        }
    }
}
