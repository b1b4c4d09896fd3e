//! Collects jobs that have ended: the result of each becomes an event of its task.

use banksman_core::failure;
use banksman_core::lifecycle::contract::{Field, Purpose};
use banksman_core::lifecycle::expr::{Fields, Value, value_of};
use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{ActivityReport, Broken, Event};
use banksman_core::receipt::{EndCause, MergeReport, MergedAs, Receipt, Usage};
use banksman_core::time::{Instant, Span};

use super::children::child_counts;
use super::event;
use super::project::{Project, Settings};
use super::pulls::PullRequests;
use super::run_end::RunEnds;
use super::turn::{Reconciler, Turn};
use super::{Engine, Result};
use crate::exec::job::JobId;
use crate::exec::site::{JobStatus, Site, SiteError};
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{Store, StoreError, Stored};

/// Paths that a conflict names.
const PATHS: usize = 10;
/// Doubled with every attempt of a job that failed for external reasons.
const HINDERED_PAUSE: Span = Span(5_000);

pub(super) struct Collect<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    node: &'a str,
    settings: Settings<'a>,
    runs: RunEnds<'a>,
    pulls: PullRequests<'a>,
}

impl Reconciler for Collect<'_> {
    /// A job whose end cannot be recorded stays where it is, and the next turn tries again.
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        for job in self.site.ended()? {
            let collected = self.collect(job, turn);
            turn.contain(Some(job.task()), collected)?;
        }
        Ok(())
    }
}

impl<'a> Collect<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self {
            store: engine.store,
            site: engine.site,
            node: &engine.config.agents.node,
            settings: engine.settings(),
            runs: RunEnds::new(engine),
            pulls: PullRequests::new(engine),
        }
    }

    fn collect(&self, job: JobId, turn: &mut Turn) -> Result<()> {
        let Some(receipt) = self.receipt_of(job, turn)? else { return Ok(()) };
        let outcome = match job {
            JobId::Run(run) => self.runs.end(run, &receipt, turn)?,
            JobId::Activity { seq, .. } => self.end_activity(job, seq, &receipt, turn.now)?,
            JobId::CleanUp { .. } => end_clean_up(self.store, job, &receipt, turn.now)?,
            JobId::Poll { task, .. } => self.pulls.end_poll(task, &receipt, turn)?,
        };
        self.site.put_away(job, turn.now)?;
        self.make_effect_due(job, &receipt.ended, turn.now)?;
        turn.report.ended.push((job, outcome));
        Ok(())
    }

    /// Makes the effect behind a job due now, instead of at its next check, which may be a minute
    /// away. This turn completes it, or starts the job again if its keeper was lost; after an
    /// external failure it is delayed. The store's clock decides that: the receipt has the time of
    /// a node whose clock may be wrong.
    fn make_effect_due(&self, job: JobId, ended: &EndCause, now: Instant) -> Result<()> {
        let waits = ended.failed_externally() && *ended != EndCause::KeeperLost;
        // 10 seconds, and twice as long each time.
        let pause = |attempts: i64| Span(HINDERED_PAUSE.0 << attempts.clamp(1, 10));
        let due = move |attempts| if waits { now.plus(pause(attempts)) } else { now };
        match job {
            JobId::Run(_) | JobId::Poll { .. } => Ok(()),
            JobId::Activity { task, seq } | JobId::CleanUp { task, seq } => {
                Ok(self.store.effects_due((task, seq), self.node, due)?)
            }
        }
    }

    /// How a job ended; none if it has not. Nothing can be concluded from a receipt that cannot be
    /// read: the work counts as lost, and its folder stays for people to look at.
    fn receipt_of(&self, job: JobId, turn: &mut Turn) -> Result<Option<Receipt>> {
        match self.site.look(job) {
            Ok(JobStatus::Ended(receipt)) => match of_job(job, *receipt) {
                Ok(receipt) => return Ok(Some(receipt)),
                Err(error) => drop(turn.contain::<()>(Some(job.task()), Err(error.into()))?),
            },
            Ok(JobStatus::Absent | JobStatus::Running) => return Ok(None),
            Ok(JobStatus::Lost) => {}
            Err(error @ SiteError::Receipt { .. }) => {
                turn.contain::<()>(Some(job.task()), Err(error.into()))?;
            }
            Err(error @ (SiteError::File(_) | SiteError::Keeper { .. })) => {
                return Err(error.into());
            }
        }
        self.site.end_left_over(job)?;
        turn.report.recovered.push(job);
        Ok(Some(receipt_without_keeper(job, EndCause::KeeperLost, turn.now)))
    }

    fn end_activity(
        &self,
        job: JobId,
        seq: i64,
        receipt: &Receipt,
        now: Instant,
    ) -> Result<String> {
        let stored = self.store.task(job.task())?;
        let activity = stored.activity();
        // The effect of a job that failed externally or was lost stays pending and starts the job
        // again.
        if receipt.ended.failed_externally() || stored.task.entered > seq {
            return Ok("lost".to_owned());
        }
        let reported = activity.and_then(|activity| activity_outcome(activity, receipt));
        let Some((outcome, detail)) = reported else {
            let manual = activity == Some(Activity::Human);
            return Ok(if manual { "laid out" } else { "stale" }.to_owned());
        };
        let mut fields = self.merged_fields(&stored, receipt)?;
        if outcome == Outcome::Passed {
            fields.extend(proven_head(&stored, receipt));
        }
        // For any other task this would count its reviews.
        if stored.is_workflow() {
            fields.extend(child_counts(self.store, &stored)?);
        }
        let entered = stored.task.entered;
        let Usage { tokens, cost_micros } = receipt.judging.unwrap_or_default();
        let report = ActivityReport { entered, outcome, detail, fields, tokens, cost_micros };
        event::apply(self.store, stored.task.id, Event::Reported(report), now)?;
        Ok(outcome.as_str().to_owned())
    }
}

impl Collect<'_> {
    /// What a merge says about the task.
    fn merged_fields(&self, stored: &Stored, receipt: &Receipt) -> Result<Fields> {
        let Some(MergeReport::Merged { head } | MergeReport::AlreadyIn { head }) = &receipt.merge
        else {
            return Ok(Fields::new());
        };
        let project = self.settings.project_of(self.store, stored)?;
        let merged_as = project.map(|Project { base, remote, .. }| {
            value_of(&MergedAs { base, head: head.clone(), remote })
        });
        let facts = [(Field::Merged, Some(Value::from(true))), (Field::MergedAs, merged_as)];
        let known = facts.into_iter().filter(|(field, _)| stored.lifecycle.has_field(*field));
        Ok(known.filter_map(|(field, value)| Some(stored.entry(field, value?))).collect())
    }
}

/// The commit of a manual step, which no run has recorded.
fn proven_head(stored: &Stored, receipt: &Receipt) -> Option<(String, Value)> {
    let is_step = stored.lifecycle.purpose == Purpose::Step;
    let head = receipt.evidence.as_ref().map(|found| found.head.as_str());
    let head = head.filter(|head| is_step && !head.is_empty());
    let head = head.filter(|_| stored.lifecycle.has_field(Field::PrHead));
    Some(stored.entry(Field::PrHead, Value::from(head?)))
}

/// A receipt counts for the job that it names and for no other.
fn of_job(job: JobId, receipt: Receipt) -> Result<Receipt, StoreError> {
    if receipt.job == job.to_string() {
        return Ok(receipt);
    }
    let what = format!("the receipt in the folder of {job} is that of {}", receipt.job);
    Err(StoreError::Bug { task: job.task(), broken: Broken(what) })
}

fn end_clean_up(store: &Store, job: JobId, receipt: &Receipt, now: Instant) -> Result<String> {
    let end = match &receipt.ended {
        EndCause::Completed => "cleaned up",
        EndCause::NotPrepared { detail, .. } | EndCause::NotStarted { detail } => {
            let text = format!("the worktree of {} is still there: {detail}", job.task());
            let notice = NewNotice::alert(NoticeKind::CleanUp, Some(job.task()), text);
            store.notice(notice.once(format!("left-{job}")), now)?;
            "not cleaned up"
        }
        EndCause::TimedOut
        | EndCause::Stalled
        | EndCause::OverBudget { .. }
        | EndCause::Hopeless
        | EndCause::NotAllowed { .. }
        | EndCause::Loop { .. }
        | EndCause::Stopped { .. }
        | EndCause::LeaseLost
        | EndCause::KeeperLost => "lost",
    };
    Ok(end.to_owned())
}

/// A receipt for a job that could not write one.
pub(super) fn receipt_without_keeper(job: JobId, ended: EndCause, now: Instant) -> Receipt {
    Receipt::new(&job.to_string(), now, ended)
}

fn activity_outcome(activity: Activity, receipt: &Receipt) -> Option<(Outcome, String)> {
    match activity {
        Activity::Check => {
            let found = receipt.evidence.as_ref().filter(|_| receipt.ended == EndCause::Completed);
            let checked = found.map(|found| failure::check(found, receipt.opinion.as_ref()));
            Some(checked.map_or_else(
                || (Outcome::Exhausted, receipt.ended.to_string()),
                |checked| (checked.outcome, checked.detail),
            ))
        }
        Activity::Merge => Some(match &receipt.merge {
            Some(MergeReport::Merged { .. } | MergeReport::AlreadyIn { .. }) => {
                (Outcome::Merged, String::new())
            }
            Some(MergeReport::NotIn) => (Outcome::NotMerged, String::new()),
            Some(MergeReport::Conflict { paths }) => {
                (Outcome::Conflict, format!("it conflicts in {}", some_of(paths)))
            }
            Some(MergeReport::Rejected { check }) => (
                Outcome::Rejected,
                format!("`{}` failed on the result: {}", check.command, check.tail),
            ),
            Some(MergeReport::MovedOn { branch }) => {
                (Outcome::Exhausted, format!("`{branch}` is no longer what was accepted"))
            }
            Some(MergeReport::Hindered { detail }) => (Outcome::Exhausted, detail.clone()),
            None => (Outcome::Exhausted, receipt.ended.to_string()),
        }),
        Activity::Agent
        | Activity::Panel
        | Activity::Human
        | Activity::PullRequest
        | Activity::Capture
        | Activity::Wait => None,
    }
}

/// The first paths, and how many there are beyond them.
fn some_of(paths: &[String]) -> String {
    let (named, rest) = paths.split_at(paths.len().min(PATHS));
    match rest.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_of_another_job_does_not_count() {
        let job: JobId = "r1.2".parse().expect("a job");
        let receipt = |name: &str| Receipt::new(name, Instant(0), EndCause::Completed);
        assert!(of_job(job, receipt("r1.2")).is_ok());
        let error = of_job(job, receipt("r1.1")).expect_err("it is of the run before");
        let says = "refused to write task t1: the receipt in the folder of r1.2 is that of r1.1";
        assert_eq!(error.to_string(), says);
    }
}
