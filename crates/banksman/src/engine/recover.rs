//! Runs that lost something: a node that died between the claim and the start, a lease that ran
//! out, a job without a right to work.

use std::collections::{BTreeMap, BTreeSet};

use banksman_core::receipt::EndCause;
use banksman_core::time::{Instant, Span};

use super::dispatch::ClaimedRun;
use super::{Engine, EngineError, Notice, TurnReport};
use crate::exec::job::JobId;
use crate::exec::site::JobStatus;
use crate::store::OpenRun;

/// Leases that one turn looks at.
const PER_TURN: i64 = 500;
/// A keeper that was killed is gone at once, unless the system is in trouble.
const LOOK_AGAIN: Span = Span(1_000);

impl Engine<'_> {
    pub(super) fn recover(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        // The jobs first: whoever has begun one in the meantime had its lease before.
        let jobs = self.site.jobs()?;
        let open = self.store.open_runs(Some(&self.config.agents.node))?;
        self.begin_what_was_claimed(&open, now, pulse)?;
        self.end_what_has_no_right(&jobs, &open, now)?;
        self.expire(now, pulse)
    }

    /// The turn that claimed a task may have died before it started the keeper.
    fn begin_what_was_claimed(
        &self,
        open: &[OpenRun],
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let mut projects = BTreeMap::new();
        for open in open.iter().filter(|open| open.expires_at > now) {
            let job = JobId::Run(open.run);
            if self.site.look(job)? == JobStatus::Absent {
                let stored = self.store.task(open.run.task)?;
                // Its token went with that turn: only the hash is kept.
                let (run, worker, token) = (open.run, open.worker.clone(), (self.config.secret)());
                self.begin(ClaimedRun { stored, run, worker, token }, &mut projects, now, pulse)?;
                pulse.recovered.push(job);
            }
        }
        Ok(())
    }

    /// A job whose task was moved on, given to another or ended must not go on, even if nobody said
    /// so in time: a merge that goes on after somebody has cancelled the task would still merge
    /// it.
    fn end_what_has_no_right(
        &self,
        jobs: &[JobId],
        open: &[OpenRun],
        now: Instant,
    ) -> Result<(), EngineError> {
        let rightful: BTreeSet<JobId> = open.iter().map(|open| JobId::Run(open.run)).collect();
        for job in jobs.iter().copied() {
            let by = match job {
                JobId::Run(_) if !rightful.contains(&job) => "its lease is gone",
                JobId::Activity { task, seq } if self.store.task(task)?.task.entered > seq => {
                    "the task was moved on"
                }
                JobId::Run(_)
                | JobId::Activity { .. }
                | JobId::CleanUp { .. }
                | JobId::Look { .. } => continue,
            };
            if self.site.look(job)? == JobStatus::Absent {
                // Its keeper was never started, and nobody will start it any more.
                self.site.put_away(job, now)?;
            } else {
                self.site.stop(job, by)?;
            }
        }
        Ok(())
    }

    /// Leases of any node that ran out. The keeper of such a run has ended its agent before that
    /// moment; where it is one of ours it is told again, and the task is given on only when it
    /// is gone.
    fn expire(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        for open in self.store.expired(now, PER_TURN)? {
            let job = JobId::Run(open.run);
            let ours = open.node.as_deref() == Some(self.config.agents.node.as_str());
            if ours && self.site.look(job)? == JobStatus::Running {
                // As long as its keeper lives nobody else may have the worktree, and its end comes
                // with its receipt.
                self.site.stop(job, "its lease ran out")?;
                let overdue_at = open.expires_at.plus(Span(4 * self.config.agents.limits.grace.0));
                if now >= overdue_at {
                    self.site.kill_keeper(job)?;
                }
                // One that hangs gives no sign by which anybody would look again.
                pulse.look_at(overdue_at.max(now.plus(LOOK_AGAIN)));
                continue;
            }
            if ours && let Err(error) = self.site.end_left_over(job) {
                // What cannot even be killed must not keep the other tasks from going on.
                let text = format!("{job} cannot be ended: {error}");
                pulse.notices.push(Notice { task: Some(open.run.task), urgent: true, text });
                continue;
            }
            let outcome = self.end_lost(open.run, EndCause::LeaseLost, now)?;
            pulse.recovered.push(job);
            pulse.ended.push((job, outcome));
        }
        Ok(())
    }
}
