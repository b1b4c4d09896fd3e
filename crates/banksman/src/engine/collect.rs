//! Jobs that have ended: their receipts are judged, and what came of them becomes an event.

use banksman_core::failure::{
    self, Classification, FailureClass, PastFailure, ProofLevel, RetryDecision, RunExpectation,
};
use banksman_core::ids::RunId;
use banksman_core::lifecycle::{Activity, Outcome, Route};
use banksman_core::machine::{ActivityReport, Event, Finish, RejectReason, Rejected};
use banksman_core::quota;
use banksman_core::receipt::{EndCause, MergeReport, Receipt, Usage};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value, json};

use super::panel::reviews::{REVIEW, in_a_line};
use super::plan::expects;
use super::planning::{is_planning, is_spike};
use super::steps::workflow_of;
use super::{Engine, EngineError, Notice, TurnReport};
use crate::exec::job::JobId;
use crate::exec::site::{JobStatus, SiteError};
use crate::store::{PastRun, PauseRequest, RunEnd, StoreError, Stored, local_pull_request};

/// Runs that the failure policy looks back on.
const LOOK_BACK: i64 = 100;
/// The field of a lifecycle whose runs answer by a schema.
const ANSWER: &str = "answer";
/// The field for the commit that is the pull request, where a branch stands for one.
pub(super) const PR_HEAD: &str = "pr_head";
/// Paths that a conflict names.
const PATHS: usize = 10;
/// Doubled with every attempt at a job that was hindered.
const HINDERED_PAUSE: Span = Span(5_000);
/// A key that is refused will be refused to the next task, too.
const AUTH_PAUSE: Span = Span(30 * 60_000);

impl Engine<'_> {
    pub(super) fn collect(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        for job in self.site.ended()? {
            let Some(receipt) = self.receipt_of(job, now, pulse) else { continue };
            let outcome = match job {
                JobId::Run(run) => self.end_run(run, &receipt, now, pulse)?,
                JobId::Activity { seq, .. } => self.end_activity(job, seq, &receipt, now)?,
                JobId::CleanUp { .. } => self.end_clean_up(job, &receipt, pulse),
                JobId::Look { task, .. } => self.end_look(task, &receipt, now, pulse)?,
            };
            self.site.put_away(job, now)?;
            self.look_again_at(job, &receipt.ended, now)?;
            pulse.ended.push((job, outcome));
        }
        Ok(())
    }

    /// The effect behind an activity is held until its next look, which may be a minute away. It is
    /// settled in this turn, or begun again if its keeper was lost; one that was hindered is
    /// begun again after a while. That is decided here, by the clock of the store: the receipt
    /// has the time of a machine whose clock may be wrong.
    fn look_again_at(&self, job: JobId, ended: &EndCause, now: Instant) -> Result<(), EngineError> {
        let waits = ended.failed_externally() && *ended != EndCause::KeeperLost;
        let due = move |attempts: i64| if waits { now.plus(pause_after(attempts)) } else { now };
        match job {
            JobId::Run(_) | JobId::Look { .. } => Ok(()),
            JobId::Activity { task, seq } | JobId::CleanUp { task, seq } => {
                Ok(self.store.effects_due((task, seq), &self.config.agents.node, due)?)
            }
        }
    }

    /// How a job ended; none if it has not, or if what it left behind cannot be ended yet.
    fn receipt_of(&self, job: JobId, now: Instant, pulse: &mut TurnReport) -> Option<Receipt> {
        let mut tell = |error: SiteError| {
            let text = error.to_string();
            pulse.notices.push(Notice { task: Some(job.task()), urgent: true, text });
        };
        match self.site.look(job) {
            Ok(JobStatus::Ended(receipt)) => return Some(*receipt),
            Ok(JobStatus::Absent | JobStatus::Running) => return None,
            Ok(JobStatus::Lost) => {}
            // What cannot be read proves nothing: the work is judged as lost, and its folder stays
            // for a look.
            Err(error @ SiteError::Receipt { .. }) => tell(error),
            Err(error @ (SiteError::File { .. } | SiteError::Keeper { .. })) => {
                tell(error);
                return None;
            }
        }
        if let Err(error) = self.site.end_left_over(job) {
            tell(error);
            return None;
        }
        pulse.recovered.push(job);
        Some(lost(job, EndCause::KeeperLost, now))
    }

    /// A run that left no receipt of its own.
    pub(super) fn end_lost(
        &self,
        run: RunId,
        ended: EndCause,
        now: Instant,
    ) -> Result<String, EngineError> {
        let receipt = lost(JobId::Run(run), ended, now);
        self.end_run(run, &receipt, now, &mut TurnReport::default())
    }

    fn end_run(
        &self,
        run: RunId,
        receipt: &Receipt,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<String, EngineError> {
        let stored = self.store.task(run.task)?;
        let past = self.store.past_runs(run.task, LOOK_BACK)?;
        let branch = self.branch_of(&stored)?;
        let asked = RunExpectation {
            expects: expects(&stored),
            task: &run.task.to_string(),
            branch: &branch,
            schema_given: stored.lifecycle.fields.contains_key(ANSWER) || is_planning(&stored),
        };
        let classification = failure::classify(receipt, &asked);
        let classification = self.look_for_a_loop(&stored, receipt, classification, &past)?;
        let end = self.run_end(&stored, run, receipt, &classification, &past, now)?;
        if let Some(pause) = &end.pause {
            let text = format!(
                "account {} is paused until {}: {}",
                pause.account, pause.until, pause.reason
            );
            pulse.notices.push(Notice { task: Some(run.task), urgent: true, text });
        }
        let outcome = end.finish.outcome.as_str().to_owned();
        match self.store.end_run(run.task, end.clone(), now) {
            Ok(_) => Ok(outcome),
            // It has ended all the same: a run that could not would hold up the end of every other
            // one.
            Err(StoreError::Rejected(rejected)) if rejected.why == RejectReason::Invalid => {
                let bare = without_what_it_brought(end, &rejected);
                let outcome = bare.finish.outcome.as_str().to_owned();
                self.store.end_run(run.task, bare, now)?;
                Ok(outcome)
            }
            // Somebody else has ended it, or moved the task on: the store has put that on record.
            Err(StoreError::Rejected(rejected)) if rejected.why == RejectReason::StaleLease => {
                Ok(unawaited(&receipt.ended))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn run_end(
        &self,
        stored: &Stored,
        run: RunId,
        receipt: &Receipt,
        classification: &Classification,
        past: &[PastRun],
        now: Instant,
    ) -> Result<RunEnd, EngineError> {
        let this = past.iter().find(|past| past.epoch == run.epoch);
        let worker = this.and_then(|run| self.worker(&run.worker));
        let account = worker.map(|setup| setup.worker.account.as_str());
        let pause =
            account.map(|account| self.pause(account, run, classification, now)).transpose()?;
        let pause = pause.flatten();
        let first = self.store.first_run_after_a_person(run.task)?.unwrap_or(run.epoch);
        let counts = |past: &&PastRun| (first..run.epoch).contains(&past.epoch);
        let past: Vec<&PastRun> = past.iter().filter(counts).collect();
        let (outcome, detail, again_at) =
            self.follow_policy(stored, run, classification, &past, now);
        let mut fields = self.collected(stored, receipt, classification, pause.as_ref())?;
        let answer = receipt.answer.as_ref().filter(|_| outcome == Outcome::Succeeded);
        let planned = answer.filter(|_| is_planning(stored));
        let planned = planned.map(|answer| self.planned(stored, answer)).transpose()?;
        // Whoever answers by a schema has no words for people; the log has the answer as it came.
        let verdict = answer.filter(|_| stored.lifecycle.id == REVIEW).and_then(in_a_line);
        let in_words = planned.as_ref().map(|one| one.line.clone()).or(verdict);
        let (changed, body) = planned.map(|one| (one.fields, one.body)).unzip();
        fields.extend(changed.unwrap_or_default());
        let reading = receipt.reading.as_ref();
        let judging = receipt.judging.unwrap_or_default();
        let tokens = reading.map_or(0, |said| said.input_tokens + said.output_tokens);
        let cost_micros = reading.and_then(|said| said.cost_micros).unwrap_or_default();
        Ok(RunEnd {
            finish: Finish {
                epoch: run.epoch,
                outcome,
                detail: in_words.unwrap_or(detail),
                fields,
                tokens: tokens.saturating_add(judging.tokens),
                cost_micros: cost_micros.saturating_add(judging.cost_micros),
                // A pause of the account holds back all that draws on it. The task itself does not
                // wait: another account may take it, and so may this one as soon as
                // somebody ends the pause.
                again_at: again_at.filter(|_| pause.is_none()),
            },
            body,
            class: classification.class,
            signature: classification.signature.clone(),
            session: reading.and_then(|said| said.session.clone()),
            agent: worker.map(|setup| setup.agent.clone()),
            head: receipt.evidence.as_ref().map(|found| found.head.clone()),
            level: Some(classification.level),
            input_tokens: reading.map_or(0, |said| said.input_tokens),
            output_tokens: reading.map_or(0, |said| said.output_tokens),
            answers: reading.is_some() && pause.is_none(),
            pause,
        })
    }

    /// The facts that the lifecycle has a field for.
    fn collected(
        &self,
        stored: &Stored,
        receipt: &Receipt,
        classification: &Classification,
        pause: Option<&PauseRequest>,
    ) -> Result<Map<String, Value>, EngineError> {
        let reading = receipt.reading.as_ref();
        let resets_at = classification.resets_at.or(pause.map(|pause| pause.until));
        let (pr_url, pr_head) = self.pull_request(stored, receipt, classification)?;
        let facts = [
            ("pr_url", pr_url.map(Value::from)),
            (PR_HEAD, pr_head.map(Value::from)),
            (ANSWER, receipt.answer.clone()),
            ("findings", findings(stored, receipt)),
            ("quota_resets_at", resets_at.map(|at| json!(at))),
            ("session_id", reading.and_then(|said| said.session.clone()).map(Value::from)),
        ];
        let known = |name: &str| stored.lifecycle.fields.contains_key(name);
        let facts = facts.into_iter().filter(|(name, _)| known(name));
        Ok(facts.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    /// The pull request that the agent named. In a repository without a remote the branch itself
    /// stands for it, at the commit that the run has left.
    fn pull_request(
        &self,
        stored: &Stored,
        receipt: &Receipt,
        classification: &Classification,
    ) -> Result<(Option<String>, Option<String>), EngineError> {
        if classification.pr_url.is_some() || classification.outcome != Outcome::Succeeded {
            return Ok((classification.pr_url.clone(), None));
        }
        let project = self.projects.find(&stored.task.project)?;
        let is_local = project.is_some_and(|project| project.remote.is_none());
        if !is_local || classification.level < ProofLevel::Observed {
            return Ok((None, None));
        }
        let head = receipt.evidence.as_ref().map(|found| found.head.clone());
        Ok((Some(local_pull_request(&self.branch_of(stored)?)), head))
    }

    /// An outcome that the lifecycle wants tried again is tried again only as long as the failure
    /// policy allows it.
    fn follow_policy(
        &self,
        stored: &Stored,
        run: RunId,
        classification: &Classification,
        past: &[&PastRun],
        now: Instant,
    ) -> (Outcome, String, Option<Instant>) {
        let detail = classification.detail.clone();
        let does = stored.state().does.as_ref();
        let route = does.and_then(|does| does.outcomes.get(&classification.outcome));
        if route != Some(&Route::Again) {
            return (classification.outcome, detail, None);
        }
        let before: Vec<PastFailure> = past
            .iter()
            .filter(|past| past.outcome.is_some())
            .map(|past| PastFailure { class: past.class, signature: past.signature.clone() })
            .collect();
        let key = run.task.to_string();
        match failure::next(&self.config.policy, classification, &before, &key, now) {
            RetryDecision::Retry { at, .. } => (classification.outcome, detail, Some(at)),
            RetryDecision::GiveUp { reason } => {
                (Outcome::Exhausted, format!("{reason}: {detail}"), None)
            }
        }
    }

    /// A provider that refuses one run would refuse the next one, too, so the account rests.
    fn pause(
        &self,
        account: &str,
        run: RunId,
        classification: &Classification,
        now: Instant,
    ) -> Result<Option<PauseRequest>, EngineError> {
        let account = account.to_owned();
        if classification.outcome == Outcome::Auth {
            let reason = format!("its key is refused: {}", classification.detail);
            return Ok(Some(PauseRequest {
                account,
                until: now.plus(AUTH_PAUSE),
                reason,
                hits: 1,
            }));
        }
        if classification.outcome != Outcome::Quota {
            return Ok(None);
        }
        let known = self.store.accounts()?.into_iter().find(|(name, _)| *name == account);
        let previous = known.and_then(|(_, row)| {
            Some(quota::QuotaPause { until: row.paused_until?, reason: row.reason, hits: row.hits })
        });
        let key = format!("{account}-{run}");
        let pause = quota::pause_after_hit(previous.as_ref(), classification.resets_at, now, &key);
        Ok(Some(PauseRequest {
            account,
            until: pause.until,
            reason: pause.reason,
            hits: pause.hits,
        }))
    }

    fn end_activity(
        &self,
        job: JobId,
        seq: i64,
        receipt: &Receipt,
        now: Instant,
    ) -> Result<String, EngineError> {
        let stored = self.store.task(job.task())?;
        let activity = stored.activity();
        // What was hindered or lost leaves the effect pending, which begins the activity again.
        if receipt.ended.failed_externally() || stored.task.entered > seq {
            return Ok("lost".to_owned());
        }
        let told = activity.and_then(|activity| activity_outcome(activity, receipt));
        let Some((outcome, detail)) = told else {
            let manual = activity == Some(Activity::Human);
            return Ok(if manual { "laid out" } else { "came late" }.to_owned());
        };
        let mut fields = Map::new();
        if outcome == Outcome::Merged && stored.lifecycle.fields.contains_key("merged") {
            fields.insert("merged".to_owned(), json!(true));
        }
        // For any other task the reviewers who sat on its panels would be counted.
        if workflow_of(&stored).is_some() {
            fields.extend(self.child_counts(&stored)?);
        }
        let entered = stored.task.entered;
        let Usage { tokens, cost_micros } = receipt.judging.unwrap_or_default();
        let report = ActivityReport { entered, outcome, detail, fields, tokens, cost_micros };
        match self.store.apply(stored.task.id, Event::Reported(report), None, now) {
            Ok(_) | Err(StoreError::Rejected(_)) => Ok(outcome.as_str().to_owned()),
            Err(error) => Err(error.into()),
        }
    }

    fn end_clean_up(&self, job: JobId, receipt: &Receipt, pulse: &mut TurnReport) -> String {
        match &receipt.ended {
            EndCause::Completed => "cleaned up".to_owned(),
            EndCause::NotPrepared { detail, .. } | EndCause::NotStarted { detail } => {
                let text = format!("the worktree of {} is still there: {detail}", job.task());
                pulse.notices.push(Notice { task: Some(job.task()), urgent: true, text });
                "not cleaned up".to_owned()
            }
            EndCause::TimedOut
            | EndCause::Stalled
            | EndCause::OverBudget { .. }
            | EndCause::Hopeless
            | EndCause::NotAllowed { .. }
            | EndCause::Loop { .. }
            | EndCause::Stopped { .. }
            | EndCause::LeaseLost
            | EndCause::KeeperLost => "lost".to_owned(),
        }
    }
}

/// The end of a run that is refused because of what it brings: only what it has used up is kept.
fn without_what_it_brought(end: RunEnd, refused: &Rejected) -> RunEnd {
    let finish = Finish {
        outcome: Outcome::Exhausted,
        detail: format!("the task cannot take what it brought: {refused}"),
        fields: Map::new(),
        again_at: None,
        ..end.finish
    };
    RunEnd { finish, body: None, class: Some(FailureClass::Model), ..end }
}

/// The last words of an agent that was asked a question.
fn findings(stored: &Stored, receipt: &Receipt) -> Option<Value> {
    let text = receipt.reading.as_ref().map(|said| said.text.trim());
    text.filter(|text| is_spike(stored) && !text.is_empty()).map(Value::from)
}

/// How long a job that was hindered waits: 10 seconds, and each time twice as long.
fn pause_after(attempts: i64) -> Span {
    Span(HINDERED_PAUSE.0 << attempts.clamp(1, 10))
}

/// A receipt for a job that could not write one.
fn lost(job: JobId, ended: EndCause, now: Instant) -> Receipt {
    Receipt::new(&job.to_string(), now, ended)
}

fn activity_outcome(activity: Activity, receipt: &Receipt) -> Option<(Outcome, String)> {
    match activity {
        Activity::Check => {
            let found = receipt.evidence.as_ref().filter(|_| receipt.ended == EndCause::Completed);
            let checked = found.map(|found| failure::check(found, receipt.opinion.as_ref()));
            Some(checked.map_or_else(
                || (Outcome::Exhausted, how(&receipt.ended)),
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
                (Outcome::Rejected, format!("`{branch}` is not what was reviewed any more"))
            }
            None => (Outcome::Exhausted, how(&receipt.ended)),
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

/// The end of a run that its task has not waited for. Late is only what has come to an end by
/// itself.
fn unawaited(ended: &EndCause) -> String {
    if *ended == EndCause::Completed { "came late".to_owned() } else { how(ended) }
}

/// An end in words.
pub(super) fn how(ended: &EndCause) -> String {
    match ended {
        EndCause::Completed => "it ended without a result".to_owned(),
        EndCause::NotPrepared { detail, .. } | EndCause::NotStarted { detail } => detail.clone(),
        EndCause::TimedOut => "it took too long".to_owned(),
        EndCause::Stalled => "it stalled".to_owned(),
        EndCause::OverBudget { detail } => detail.clone(),
        EndCause::Hopeless => "it could not get any further".to_owned(),
        EndCause::NotAllowed { request } => request.clone(),
        EndCause::Loop { summary } => summary.clone(),
        EndCause::Stopped { by } => format!("it was stopped: {by}"),
        EndCause::LeaseLost => "its lease was lost".to_owned(),
        EndCause::KeeperLost => "its keeper was lost".to_owned(),
    }
}
