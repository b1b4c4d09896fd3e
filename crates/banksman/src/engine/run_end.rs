//! The end of a run: judges its receipt, asks the failure policy whether to try again, and hands
//! all of it to the store as one event.

use std::fmt::Display;

use banksman_core::failure::{
    self, Classification, Deliverable, FailureClass, PastFailure, ProofLevel, RetryDecision,
    RunExpectation,
};
use banksman_core::ids::RunId;
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::{Fields, Value, value_of};
use banksman_core::lifecycle::{Outcome, Route};
use banksman_core::machine::{Broken, Finish, RejectReason};
use banksman_core::quota;
use banksman_core::receipt::{EndCause, Receipt};
use banksman_core::time::{Instant, Span};

use super::collect::receipt_without_keeper;
use super::job::expects;
use super::panel::reviews::summary_line;
use super::planning::{is_planning, is_spike, planned};
use super::policy::escalate_loops;
use super::project::Settings;
use super::submission::Submission;
use super::turn::Turn;
use super::{Engine, EngineConfig, Result, workers};
use crate::exec::job::JobId;
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{PastRun, PauseRequest, RunEnd, Store, StoreError, Stored, local_pull_request};

/// Runs that the failure policy looks back on.
const LOOK_BACK: i64 = 100;
/// A key that the provider refuses once would be refused for the next task too.
const AUTH_PAUSE: Span = Span(30 * 60_000);

#[derive(Clone, Copy)]
pub(super) struct RunEnds<'a> {
    store: &'a Store,
    settings: Settings<'a>,
    config: &'a EngineConfig,
}

impl<'a> RunEnds<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, settings: engine.settings(), config: engine.config }
    }

    /// Ends a run that left no receipt of its own.
    pub(super) fn end_without_receipt(
        &self,
        run: RunId,
        ended: EndCause,
        turn: &mut Turn,
    ) -> Result<String> {
        let receipt = receipt_without_keeper(JobId::Run(run), ended, turn.now);
        self.end_telling(run, &receipt, not_started(run, &receipt.ended), turn)
    }

    /// Records the end of a run and returns its outcome in a word.
    pub(super) fn end(&self, run: RunId, receipt: &Receipt, turn: &mut Turn) -> Result<String> {
        self.end_telling(run, receipt, None, turn)
    }

    fn end_telling(
        &self,
        run: RunId,
        receipt: &Receipt,
        notice: Option<NewNotice>,
        turn: &mut Turn,
    ) -> Result<String> {
        let now = turn.now;
        let stored = self.store.task(run.task)?;
        let past = self.store.past_runs(run.task, LOOK_BACK)?;
        let asked = RunExpectation {
            expects: expects(&stored),
            schema_given: stored.lifecycle.has_field(Field::Answer)
                || is_planning(&stored)
                || Submission::of(&stored).is_some(),
        };
        let classification = failure::classify(receipt, &asked);
        let ended = (&stored, receipt);
        let looped = escalate_loops(self.store, self.settings, ended, &classification, &past);
        // The run has ended, even if nobody can tell whether its task loops.
        let looped = turn.contain(Some(run.task), looped)?.flatten();
        let classification = looped.unwrap_or(classification);
        let mut end = self.run_end(&stored, run, receipt, &classification, &past, now)?;
        let proof = proven(run, asked.expects, end.finish.outcome, classification.level);
        if let Err(error) = proof {
            end = without_results(end, &error);
            turn.contain::<()>(Some(run.task), Err(error.into()))?;
        }
        let end = RunEnd { notice, ..end };
        let outcome = end.finish.outcome.as_str().to_owned();
        match self.store.end_run(run.task, end.clone(), now) {
            Ok(_) => Ok(outcome),
            // The run has ended all the same; otherwise its task would wait for it forever.
            Err(StoreError::Rejected(rejected)) if rejected.why == RejectReason::Invalid => {
                let bare = without_results(end, &rejected);
                let outcome = bare.finish.outcome.as_str().to_owned();
                self.store.end_run(run.task, bare, now)?;
                Ok(outcome)
            }
            // Another turn has ended it, or the task has moved on: the store has recorded that.
            Err(StoreError::Rejected(rejected)) if rejected.why == RejectReason::StaleLease => {
                let is_stale = receipt.ended == EndCause::Completed;
                Ok(if is_stale { "stale".to_owned() } else { receipt.ended.to_string() })
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
    ) -> Result<RunEnd> {
        let this = past.iter().find(|past| past.epoch == run.epoch);
        let worker = this.and_then(|run| workers::claimed(&self.config.workers, &run.worker));
        let worker = worker.as_ref();
        let account = worker.map(|setup| setup.worker.account.as_str());
        let pause =
            account.map(|account| self.pause(account, run, classification, now)).transpose()?;
        let pause = pause.flatten();
        let first = self.store.first_run_after_a_person(run.task)?.unwrap_or(run.epoch);
        let counts = |past: &&PastRun| (first..run.epoch).contains(&past.epoch);
        let past: Vec<&PastRun> = past.iter().filter(counts).collect();
        let (outcome, detail, again_at) =
            self.follow_policy(stored, run, classification, &past, now);
        let mut fields = self.collected_fields(stored, receipt, classification, pause.as_ref())?;
        let retry_at = again_at.or(pause.as_ref().map(|pause| pause.until));
        if let Some(at) = retry_at.filter(|_| stored.lifecycle.has_field(Field::RetryAt)) {
            fields.extend([stored.entry(Field::RetryAt, value_of(&at))]);
        }
        let answer = receipt.answer.as_ref().filter(|_| outcome == Outcome::Succeeded);
        let plan = answer.filter(|_| is_planning(stored));
        let planned = plan.map(|answer| planned(stored, answer)).transpose()?;
        // An answer by a schema has no text for people; the log has the answer as it came.
        let verdict = answer.filter(|_| stored.is_review()).and_then(summary_line);
        let in_words = planned.as_ref().map(|one| one.line.clone()).or(verdict);
        let submission = answer.and_then(|answer| Some((Submission::of(stored)?, answer)));
        if let Some((submission, answer)) = submission {
            let work = self.delivered(stored, receipt, classification)?;
            let work = work.as_ref().map(|(at, commit)| (at.as_str(), commit.as_str()));
            fields.extend(submission.fields(stored, answer, work));
        }
        let (changed, body) = planned.map(|one| (one.fields, one.body)).unzip();
        fields.extend(changed.unwrap_or_default());
        let reading = receipt.reading.as_ref();
        let judging = receipt.judging.unwrap_or_default();
        let tokens = reading.map_or(0, |it| it.input_tokens.saturating_add(it.output_tokens));
        let cost_micros = reading.and_then(|reading| reading.cost_micros).unwrap_or_default();
        Ok(RunEnd {
            finish: Finish {
                epoch: run.epoch,
                outcome,
                detail: in_words.unwrap_or(detail),
                fields,
                tokens: tokens.saturating_add(judging.tokens),
                cost_micros: cost_micros.saturating_add(judging.cost_micros),
                // A pause of the account delays all runs that use it. The task itself does not
                // wait: another account may take it, and so may this one when a person ends the
                // pause.
                again_at: again_at.filter(|_| pause.is_none()),
            },
            body,
            class: classification.class,
            signature: classification.signature.clone(),
            session: reading.and_then(|reading| reading.session.clone()),
            agent: worker.map(|setup| setup.agent.kind.to_string()),
            head: receipt.evidence.as_ref().map(|found| found.head.clone()),
            level: Some(classification.level),
            input_tokens: reading.map_or(0, |reading| reading.input_tokens),
            output_tokens: reading.map_or(0, |reading| reading.output_tokens),
            answers: reading.is_some() && pause.is_none(),
            notice: None,
            pause,
        })
    }

    /// The facts that the lifecycle has a field for.
    fn collected_fields(
        &self,
        stored: &Stored,
        receipt: &Receipt,
        classification: &Classification,
        pause: Option<&PauseRequest>,
    ) -> Result<Fields> {
        let reading = receipt.reading.as_ref();
        let resets_at = classification.resets_at.or(pause.map(|pause| pause.until));
        // An answer, such as a plan, is not the work, whatever is on the branch.
        let delivered = self.delivered(stored, receipt, classification)?;
        let delivered = delivered.filter(|_| expects(stored) != Deliverable::Answer);
        let (pr_url, pr_head) = delivered.unzip();
        let facts = [
            (Field::PrUrl, pr_url.map(Value::from)),
            (Field::PrHead, pr_head.map(Value::from)),
            (Field::Verified, Some((classification.level == ProofLevel::Verified).into())),
            (Field::Answer, receipt.answer.clone()),
            (Field::Findings, findings(stored, receipt)),
            (Field::Looped, Some((classification.class == Some(FailureClass::ModelLoop)).into())),
            (Field::QuotaResetsAt, resets_at.map(|at| value_of(&at))),
            (Field::SessionId, reading.and_then(|it| it.session.clone()).map(Value::from)),
        ];
        let known = facts.into_iter().filter(|(field, _)| stored.lifecycle.has_field(*field));
        Ok(known.filter_map(|(field, value)| Some(stored.entry(field, value?))).collect())
    }

    /// The evidence of a run that succeeded: the pull request that the remote has, or the branch,
    /// and the commit that counts. What another run claimed is not evidence of this one.
    fn delivered(
        &self,
        stored: &Stored,
        receipt: &Receipt,
        classification: &Classification,
    ) -> Result<Option<(String, String)>> {
        let found = receipt.evidence.as_ref().filter(|_| {
            classification.outcome == Outcome::Succeeded
                && classification.level >= ProofLevel::Observed
        });
        let Some(found) = found else { return Ok(None) };
        let url = match &found.pull_request {
            Some(url) => url.clone(),
            None => local_pull_request(&self.settings.branch_of(stored)?),
        };
        Ok(Some((url, found.head.clone())))
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
        let route = does.and_then(|does| does.route(classification.outcome));
        if !matches!(route, Some(Route::Again(_))) {
            return (classification.outcome, detail, None);
        }
        let before: Vec<PastFailure> = past
            .iter()
            .filter(|past| past.outcome.is_some())
            .map(|past| PastFailure { class: past.class, signature: past.signature.clone() })
            .collect();
        let key = run.task.to_string();
        let mut policy = self.config.policy.clone();
        policy.most = stored.lifecycle.max_retries().or(policy.most);
        match failure::next(&policy, classification, &before, &key, now) {
            RetryDecision::Retry { at, .. } => (classification.outcome, detail, Some(at)),
            RetryDecision::GiveUp { reason } => {
                (Outcome::Exhausted, format!("{reason}: {detail}"), None)
            }
        }
    }

    /// Pauses an account whose provider refuses runs: it would refuse the next one, too.
    fn pause(
        &self,
        account: &str,
        run: RunId,
        classification: &Classification,
        now: Instant,
    ) -> Result<Option<PauseRequest>> {
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
        // The pause before a probe has ended, but it counts until the provider answers.
        let previous = known.map(|(_, row)| quota::QuotaPause {
            until: row.paused_until.unwrap_or(now),
            reason: row.reason,
            hits: row.hits,
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
}

/// The end of a run whose results the task cannot take: only its usage is kept.
fn without_results(end: RunEnd, refused: &dyn Display) -> RunEnd {
    let finish = Finish {
        outcome: Outcome::Exhausted,
        detail: format!("the task cannot take its results: {refused}"),
        fields: Fields::new(),
        again_at: None,
        ..end.finish
    };
    RunEnd { finish, body: None, class: Some(FailureClass::Model), ..end }
}

/// A change that succeeded has commits, whatever the agent said.
fn proven(
    run: RunId,
    expects: Deliverable,
    outcome: Outcome,
    level: ProofLevel,
) -> Result<(), StoreError> {
    let succeeded = outcome == Outcome::Succeeded && expects == Deliverable::Change;
    if !succeeded || level >= ProofLevel::Observed {
        return Ok(());
    }
    let what = format!("{run} would succeed without a commit");
    Err(StoreError::Bug { task: run.task, broken: Broken(what) })
}

/// The last words of an agent that answers a question.
fn findings(stored: &Stored, receipt: &Receipt) -> Option<Value> {
    let text = receipt.reading.as_ref().map(|reading| reading.text.trim());
    text.filter(|text| is_spike(stored) && !text.is_empty()).map(Value::from)
}

fn not_started(run: RunId, ended: &EndCause) -> Option<NewNotice> {
    let EndCause::NotStarted { detail } = ended else { return None };
    let text = format!("{run} could not be started: {detail}");
    Some(NewNotice::alert(NoticeKind::NotStarted, Some(run.task), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_without_a_commit_is_no_success() {
        let run: RunId = "r1.2".parse().expect("a run");
        let (done, claimed) = (Outcome::Succeeded, ProofLevel::Claimed);
        let error = proven(run, Deliverable::Change, done, claimed).expect_err("only a claim");
        let says = "refused to write task t1: r1.2 would succeed without a commit";
        assert_eq!(error.to_string(), says);
        assert!(proven(run, Deliverable::Answer, done, claimed).is_ok());
        assert!(proven(run, Deliverable::Change, done, ProofLevel::Observed).is_ok());
        assert!(proven(run, Deliverable::Change, Outcome::Crashed, claimed).is_ok());
    }
}
