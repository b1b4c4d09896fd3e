//! Starts the keeper of a claimed run.

use banksman_core::ids::RunId;
use banksman_core::lifecycle::Activity;
use banksman_core::receipt::{EndCause, PrepareFault};

use super::event::end_wait;
use super::job::{JobSpecs, SpecError, has_other_job};
use super::run_end::RunEnds;
use super::turn::{Turn, with_causes};
use super::{Engine, EngineError, Result};
use crate::config::hash_of_token;
use crate::exec::job::{JobId, JobSpec};
use crate::exec::site::{Site, SiteError};
use crate::store::{Store, StoreError, Stored};

/// A run that was claimed and has no keeper yet.
pub(super) struct ClaimedRun {
    pub(super) stored: Stored,
    pub(super) run: RunId,
    pub(super) worker: String,
    /// The key of its keeper.
    pub(super) key: String,
}

pub(super) struct RunStarts<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    specs: JobSpecs<'a>,
    ends: RunEnds<'a>,
}

impl<'a> RunStarts<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (specs, ends) = (JobSpecs::new(engine), RunEnds::new(engine));
        Self { store: engine.store, site: engine.site, specs, ends }
    }

    /// Starts the keeper of a claimed run. May be called again for the same run after a crash. A
    /// run that cannot be started ends, so that its task is not held up by it.
    pub(super) fn begin(&self, claimed: ClaimedRun, turn: &mut Turn) -> Result<()> {
        let run = claimed.run;
        let stored = end_wait(self.store, claimed.stored, turn.now)?;
        let is_agents = stored.activity() == Some(Activity::Agent);
        if stored.task.run() != Some(run) || !is_agents {
            // A worker outside of this program may have claimed a task of a state that no agent
            // works in.
            return Ok(());
        }
        if has_other_job(self.site, JobId::Run(run))? {
            // The turn that collects the other job finds this run without a keeper and begins it.
            return Ok(());
        }
        let claimed = ClaimedRun { stored, ..claimed };
        let started = match self.specs.run(&claimed, turn.now) {
            Ok(spec) => self.begin_with_token(&claimed, &spec)?.map_err(|it| with_causes(&it)),
            Err(SpecError::Impossible(detail)) => {
                let ended = EndCause::NotPrepared { detail, class: PrepareFault::Unusable };
                return self.ends.end_without_receipt(run, ended, turn).map(drop);
            }
            Err(SpecError::Engine(error @ EngineError::Store(_))) => return Err(error),
            // Only a person can change the settings of a project.
            Err(SpecError::Engine(error @ EngineError::Project { .. })) => {
                let detail = format!("{}. Correct that file first", with_causes(&error));
                let ended = EndCause::NotPrepared { detail, class: PrepareFault::Unusable };
                return self.ends.end_without_receipt(run, ended, turn).map(drop);
            }
            Err(SpecError::Engine(error)) => Err(with_causes(&error)),
        };
        if let Err(detail) = started {
            let ended = EndCause::NotStarted { detail };
            return self.ends.end_without_receipt(run, ended, turn).map(drop);
        }
        turn.report.started.push((JobId::Run(run), claimed.stored.task.title));
        Ok(())
    }

    /// Another process of this node may be about to start the same run, with a key of its own.
    /// The store keeps the hash of the one that starts it; a run that is over does not start.
    fn begin_with_token(
        &self,
        ClaimedRun { run, key, .. }: &ClaimedRun,
        spec: &JobSpec,
    ) -> Result<Result<(), SiteError>, StoreError> {
        let mut is_known = Ok(true);
        let begun = self.site.begin_if(spec, &mut || {
            is_known = self.store.set_token(*run, &hash_of_token(key));
            matches!(is_known, Ok(true))
        });
        is_known.map(|_| begun)
    }
}
