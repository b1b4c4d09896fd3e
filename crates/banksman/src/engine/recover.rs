//! Recovers runs that lost something: a node that died between the claim and the start, a lease
//! that expired, a job whose task moved on.

use banksman_core::receipt::EndCause;
use banksman_core::time::Span;

use super::run_end::RunEnds;
use super::run_start::{ClaimedRun, RunStarts};
use super::turn::{Reconciler, Turn};
use super::{Engine, EngineConfig, Result};
use crate::exec::job::JobId;
use crate::exec::site::{JobStatus, Site};
use crate::store::{OpenRun, Store};

/// Leases that one turn looks at.
const AT_ONCE: i64 = 500;
/// A keeper that was killed is gone at once, unless the system is in trouble.
const LOOK_AGAIN: Span = Span(1_000);

pub(super) struct Recover<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    config: &'a EngineConfig,
    starts: RunStarts<'a>,
    ends: RunEnds<'a>,
}

impl Reconciler for Recover<'_> {
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        // The jobs first: a job that begins meanwhile had its lease before.
        let jobs = self.site.jobs()?;
        let now = turn.now;
        let open = self.store.open_runs(Some(&self.config.agents.node))?;
        for run in open.iter().filter(|open| open.expires_at > now) {
            let begun = self.begin_again(run, turn);
            turn.contain(Some(run.run.task), begun)?;
        }
        for job in jobs {
            let stopped = self.stop_if_stale(job, turn);
            turn.contain(Some(job.task()), stopped)?;
        }
        for open in self.store.expired(now, AT_ONCE)? {
            let ended = self.expire(&open, turn);
            turn.contain(Some(open.run.task), ended)?;
        }
        Ok(())
    }
}

impl<'a> Recover<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let Engine { store, site, config, .. } = *engine;
        Self { store, site, config, starts: RunStarts::new(engine), ends: RunEnds::new(engine) }
    }

    /// The turn that claimed a task may have died before it started the keeper.
    fn begin_again(&self, open: &OpenRun, turn: &mut Turn) -> Result<()> {
        let job = JobId::Run(open.run);
        if self.site.look(job)? == JobStatus::Absent {
            let stored = self.store.task(open.run.task)?;
            // Its key went with that turn: only a hash is kept.
            let (run, worker, key) = (open.run, open.worker.clone(), (self.config.secret)());
            self.starts.begin(ClaimedRun { stored, run, worker, key }, turn)?;
            turn.report.recovered.push(job);
        }
        Ok(())
    }

    /// A job must not go on after its task moved on, went to another run or ended, even if it
    /// was not stopped in time: a merge would still merge a task that was cancelled.
    fn stop_if_stale(&self, job: JobId, turn: &mut Turn) -> Result<()> {
        let by = match job {
            JobId::Run(run) if !self.store.has_lease(run)? => "its lease is gone",
            JobId::Activity { task, seq } if self.store.task(task)?.task.entered > seq => {
                "the task was moved on"
            }
            JobId::Run(_) | JobId::Activity { .. } | JobId::CleanUp { .. } | JobId::Poll { .. } => {
                return Ok(());
            }
        };
        if self.site.look(job)? == JobStatus::Absent {
            // Its keeper was never started, and never will be.
            self.site.put_away(job, turn.now)?;
        } else {
            self.site.stop(job, by)?;
        }
        Ok(())
    }

    /// A lease of any node that expired. The keeper of such a run has ended its agent before that
    /// moment. A keeper of this node is told again, and the task goes to another run only when the
    /// keeper is gone.
    fn expire(&self, open: &OpenRun, turn: &mut Turn) -> Result<()> {
        let job = JobId::Run(open.run);
        let ours = open.node.as_deref() == Some(self.config.agents.node.as_str());
        if ours && self.site.look(job)? == JobStatus::Running {
            // Where everything stood still, its keeper renews it as soon as it goes on, too.
            if turn.seen_before.is_none_or(|seen| seen < open.expires_at) {
                turn.look_at(turn.now.plus(LOOK_AGAIN));
                return Ok(());
            }
            // As long as its keeper lives no other run may have the worktree, and its end comes
            // with its receipt.
            self.site.stop(job, "its lease ran out")?;
            let overdue_at = open.expires_at.plus(Span(4 * self.config.agents.limits.grace.0));
            if turn.now >= overdue_at {
                self.site.kill_keeper(job)?;
            }
            // A keeper that hangs gives no sign by which a turn would look again.
            turn.look_at(overdue_at.max(turn.now.plus(LOOK_AGAIN)));
            return Ok(());
        }
        if ours {
            self.site.end_left_over(job)?;
        }
        let outcome = self.ends.end_without_receipt(open.run, EndCause::LeaseLost, turn)?;
        turn.report.recovered.push(job);
        turn.report.ended.push((job, outcome));
        Ok(())
    }
}
