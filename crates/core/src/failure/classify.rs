//! Classifies one run: a fixed sequence of rules, of which the first that applies decides.
//!
//! The order: how the job ended, what the agent reported through its tools, faults in structured
//! fields, and the evidence in the worktree; then whether the run is a sound success, and only if
//! it is not, the prose of the agent. The requirements of a workflow step come last, and only a
//! success has to meet them.

#[cfg(test)]
mod tests;

use super::step::{self, CriterionResult, Unmet};
use super::work::{self, ended};
use super::{
    Classification, Deliverable, FailureClass, ProofLevel, RunExpectation, has_any, last_lines,
    signature,
};
use crate::lifecycle::Outcome;
use crate::quota::{self, LONGEST_WAIT};
use crate::receipt::{
    AgentReport, EndCause, Evidence, Fault, FaultKind, PrepareFault, Receipt, StreamSummary,
    Terminal,
};
use crate::text::{end_of, start_of};

/// How much of the reasons is kept, in bytes: they go into prompts, mails and the history.
pub(super) const DETAIL_BYTES: usize = 4 * 1024;
/// Lines of the final message that are searched for a fault; earlier ones were overcome.
const LAST_LINES: usize = 20;
/// The final message of an agent that claims success counts as an error message only if it is this
/// short.
const SHORT_LINES: usize = 10;

/// Classifies a finished run.
pub fn classify(receipt: &Receipt, expectation: &RunExpectation) -> Classification {
    let run = RunFacts::of(receipt, expectation);
    let finding = run.classify();
    let reading = receipt.reading.as_ref();
    let resets_at = reading.and_then(|reading| reading.resets_at).filter(|at| {
        finding.outcome == Outcome::Quota && *at <= receipt.ended_at.plus(LONGEST_WAIT)
    });
    let basis = finding.basis.as_deref().unwrap_or(&finding.detail);
    Classification {
        outcome: finding.outcome,
        class: finding.class,
        level: run.level,
        signature: finding.class.map(|class| signature(class.as_str(), basis)),
        resets_at,
        ambiguous: finding.ambiguous,
        detail: start_of(run.explain(&finding).trim(), DETAIL_BYTES).to_owned(),
    }
}

/// Whether the facts leave the end open, so that asking an evaluator is worth its cost.
pub fn is_ambiguous(receipt: &Receipt, expectation: &RunExpectation) -> bool {
    RunFacts::of(receipt, expectation).classify().ambiguous
}

struct Finding {
    outcome: Outcome,
    class: Option<FailureClass>,
    detail: String,
    /// The text that the signature is made of, if not the detail.
    basis: Option<String>,
    ambiguous: bool,
}

impl Finding {
    fn failure(outcome: Outcome, class: FailureClass, detail: impl Into<String>) -> Self {
        Self { outcome, class: Some(class), detail: detail.into(), basis: None, ambiguous: false }
    }
}

/// A receipt and what was asked for, with facts that several rules need.
struct RunFacts<'a> {
    receipt: &'a Receipt,
    expectation: &'a RunExpectation,
    reading: Option<&'a StreamSummary>,
    evidence: Option<&'a Evidence>,
    terminal: Option<Terminal>,
    level: ProofLevel,
    has_commits: bool,
}

impl<'a> RunFacts<'a> {
    fn of(receipt: &'a Receipt, expectation: &'a RunExpectation) -> Self {
        let reading = receipt.reading.as_ref();
        let evidence = receipt.evidence.as_ref();
        Self {
            receipt,
            expectation,
            reading,
            evidence,
            terminal: reading.and_then(|reading| reading.terminal),
            level: work::level(evidence),
            has_commits: evidence.is_some_and(|evidence| evidence.commits > 0),
        }
    }

    fn classify(&self) -> Finding {
        let finding = self.classify_run();
        let is_success = finding.outcome == Outcome::Succeeded;
        is_success.then(|| self.by_requirements()).flatten().unwrap_or(finding)
    }

    fn classify_run(&self) -> Finding {
        self.by_end_cause()
            .or_else(|| self.by_reports())
            .or_else(|| self.by_fault())
            .or_else(|| self.by_evidence())
            .or_else(|| self.by_failure_signal())
            .or_else(|| self.by_success())
            .or_else(|| self.by_prose())
            .or_else(|| self.by_evaluator())
            .unwrap_or_else(|| self.fallback())
    }

    fn by_end_cause(&self) -> Option<Finding> {
        use FailureClass::{Budget, Env, Infra, ModelLoop, Policy, Setup, Stall, Unusable};
        use Outcome::{Crashed, NeedsPerson, OverBudget, Stalled, Transient};
        let stopped;
        let (outcome, class, detail) = match &self.receipt.ended {
            EndCause::Completed | EndCause::Hopeless => return None,
            EndCause::NotPrepared { detail, class } => match class {
                PrepareFault::Environment => (Transient, Env, detail.as_str()),
                PrepareFault::Setup => (Crashed, Setup, detail.as_str()),
                // A person must decide which side is right before an agent continues.
                PrepareFault::Diverged => (NeedsPerson, Setup, detail.as_str()),
                PrepareFault::Unusable => (NeedsPerson, Unusable, detail.as_str()),
            },
            EndCause::NotStarted { detail } => (Transient, Env, detail.as_str()),
            EndCause::TimedOut => (Stalled, Stall, "the run exceeded its time limit"),
            EndCause::Stalled => (Stalled, Stall, "the agent was silent and idle for too long"),
            EndCause::OverBudget { detail } => (OverBudget, Budget, detail.as_str()),
            // Takes precedence over a question, because the person who answers must see what the
            // agent did.
            EndCause::NotAllowed { request } => (NeedsPerson, Policy, request.as_str()),
            EndCause::Loop { summary } => (NeedsPerson, ModelLoop, summary.as_str()),
            EndCause::Stopped { by } => {
                stopped = format!("the run was stopped by {}", start_of(by, 200));
                (Transient, Infra, stopped.as_str())
            }
            EndCause::LeaseLost => (Transient, Infra, "the run lost its lease"),
            EndCause::KeeperLost => (Transient, Infra, "the run lost its keeper"),
        };
        // An agent that asked a question and then waits is not stuck; its question is the result.
        let question = (outcome == Stalled).then(|| self.question()).flatten();
        question.or_else(|| Some(Finding::failure(outcome, class, detail)))
    }

    fn reports(&self) -> &'a [AgentReport] {
        self.reading.map_or(&[], |reading| &reading.reports)
    }

    fn question(&self) -> Option<Finding> {
        let question = self.reports().iter().rev().find_map(|report| match report {
            AgentReport::NeedsPerson { question } => Some(question),
            AgentReport::Progress { .. } | AgentReport::NothingToDo { .. } => None,
        })?;
        Some(Finding::failure(Outcome::NeedsPerson, FailureClass::NeedsPerson, question))
    }

    fn by_reports(&self) -> Option<Finding> {
        let idle = || {
            let reason = self.reports().iter().rev().find_map(|report| match report {
                AgentReport::NothingToDo { reason } => Some(reason),
                AgentReport::Progress { .. } | AgentReport::NeedsPerson { .. } => None,
            })?;
            Some(Finding::failure(Outcome::NothingToDo, FailureClass::Noop, reason))
        };
        // Commits count, whatever the agent reported.
        self.question().or_else(|| idle().filter(|_| !self.has_commits))
    }

    /// A reported fault decides, unless the agent recovered from it and has a result.
    fn by_fault(&self) -> Option<Finding> {
        let fault = self.reading?.fault.as_ref()?;
        let was_final =
            self.receipt.ended == EndCause::Hopeless || self.terminal == Some(Terminal::Error);
        let got_over = self.is_sound_success() && (self.has_commits || self.has_answer());
        ((fault.structured && !got_over) || was_final).then(|| fault_finding(fault))
    }

    fn by_evidence(&self) -> Option<Finding> {
        let evidence = self.evidence?;
        if let Some(detail) = work::forbidden_paths(evidence) {
            return Some(Finding::failure(Outcome::Policy, FailureClass::Policy, detail));
        }
        if let Some(request) = &evidence.request {
            return Some(Finding::failure(Outcome::NeedsPerson, FailureClass::Policy, request));
        }
        let (class, failed) = work::failed_check(evidence)?;
        let is_ours = class == FailureClass::Env;
        let outcome = if is_ours { Outcome::Transient } else { Outcome::VerifyFailed };
        Some(unmet_finding(outcome, class, failed))
    }

    /// A run that ended well may still report its own failure with its signal.
    fn by_failure_signal(&self) -> Option<Finding> {
        self.is_sound_success()
            .then(|| step::failure_signal(self.evidence?).map(unmet_requirement))?
    }

    /// The further requirements of a successful run.
    fn by_requirements(&self) -> Option<Finding> {
        let evidence = self.evidence?;
        // Without the agent's word, no check was due.
        let unchecked = || step::unchecked(evidence).filter(|_| self.is_sound_success());
        if let Some(unmet) = step::unmet(evidence).or_else(unchecked) {
            return Some(unmet_requirement(unmet));
        }
        let finding = match step::judge_criterion(evidence, self.receipt.opinion.as_ref())? {
            CriterionResult::Met => self.success(),
            CriterionResult::NotMet(unmet) => unmet_requirement(unmet),
            CriterionResult::NotJudged(detail) => {
                Finding::failure(Outcome::NeedsPerson, FailureClass::NeedsPerson, detail)
            }
        };
        Some(Finding { ambiguous: true, ..finding })
    }

    /// The agent claims success, and its exit does not contradict that.
    fn is_sound_success(&self) -> bool {
        self.receipt.ended == EndCause::Completed
            && self.terminal == Some(Terminal::Success)
            && self.exited_cleanly()
    }

    fn exited_cleanly(&self) -> bool {
        self.receipt.exit.is_some_and(|exit| exit.code == Some(0))
    }

    fn has_answer(&self) -> bool {
        self.receipt.answer.is_some()
    }

    /// Whether the answer matches the schema, if one was given. The keeper's objections always
    /// count, even if the caller does not know of a schema.
    fn has_answered(&self) -> bool {
        self.receipt.objections.is_empty() && (self.has_answer() || !self.expectation.schema_given)
    }

    fn text(&self) -> &'a str {
        self.reading.map_or("", |reading| reading.text.trim())
    }

    /// Whether the run delivered what was asked for.
    fn has_delivered(&self) -> bool {
        let has_result = match self.expectation.expects {
            Deliverable::Change => self.has_commits,
            Deliverable::Answer => self.has_answer() || !self.text().is_empty(),
            Deliverable::Anything => true,
        };
        has_result && self.has_answered()
    }

    /// Whether a change was asked for and all commits come from earlier runs.
    fn has_only_old_commits(&self) -> bool {
        self.expectation.expects == Deliverable::Change
            && self.evidence.is_some_and(|evidence| {
                !evidence.head.is_empty() && evidence.head == evidence.head_before
            })
    }

    fn by_success(&self) -> Option<Finding> {
        let is_clear =
            self.is_sound_success() && self.has_delivered() && !self.has_only_old_commits();
        is_clear.then(|| self.success())
    }

    fn success(&self) -> Finding {
        let commits = self.evidence.map_or(0, |evidence| evidence.commits);
        let detail = match self.text() {
            "" => format!("done, with {commits} commits"),
            text => end_of(text, DETAIL_BYTES).to_owned(),
        };
        Finding { outcome: Outcome::Succeeded, class: None, detail, basis: None, ambiguous: false }
    }

    /// Searches the prose, if the end is no sound success and no passing check confirms the work.
    fn by_prose(&self) -> Option<Finding> {
        let is_open = self.is_open();
        if is_open && self.level == ProofLevel::Verified {
            return None;
        }
        if let Some(fault) = self.reading.and_then(|reading| reading.fault.as_ref()) {
            return Some(fault_finding(fault));
        }
        // A fault that an answer describes, such as a quota in a code review, did not happen to the
        // agent.
        let is_answer = self.reading.is_some_and(|reading| reading.answer.is_some());
        if is_answer && !self.has_answered() && self.is_sound_success() {
            return None;
        }
        let lines = last_lines(self.text(), LAST_LINES);
        let claims_done = self.terminal == Some(Terminal::Success);
        if claims_done && lines.len() > SHORT_LINES {
            return None;
        }
        let text = lines.join("\n");
        if let Some(kind) = quota::fault_in(&text) {
            return Some(fault_finding(&Fault { kind, detail: text, structured: false }));
        }
        if !claims_done && has_any(&text, LOOPS) {
            return Some(Finding::failure(Outcome::Crashed, FailureClass::ModelLoop, text));
        }
        let may_be_idle = self.is_sound_success()
            && self.expectation.expects == Deliverable::Change
            && !self.has_commits;
        let says_idle = may_be_idle && has_any(&text, NOTHING_TO_DO);
        says_idle.then(|| Finding::failure(Outcome::NothingToDo, FailureClass::Noop, text))
    }

    /// Whether the facts neither confirm nor contradict that the run is done.
    fn is_open(&self) -> bool {
        if self.receipt.ended != EndCause::Completed {
            return false;
        }
        match self.terminal {
            None => self.exited_cleanly() || self.level == ProofLevel::Verified,
            Some(Terminal::Success) => {
                self.exited_cleanly() && self.has_commits && self.has_only_old_commits()
            }
            Some(Terminal::Error) => false,
        }
    }

    /// An open end: the evaluator decides; without one, passing checks with a clean exit do.
    fn by_evaluator(&self) -> Option<Finding> {
        if !self.is_open() {
            return None;
        }
        let failure =
            |detail: String| Finding::failure(Outcome::Crashed, FailureClass::Model, detail);
        let finding = match &self.receipt.opinion {
            Some(opinion) if !opinion.done => failure(format!("not done: {}", opinion.reason)),
            Some(_) if self.has_delivered() => self.success(),
            Some(opinion)
                if self.expectation.expects == Deliverable::Change && self.has_answered() =>
            {
                Finding::failure(Outcome::NothingToDo, FailureClass::Noop, opinion.reason.as_str())
            }
            Some(_) => failure("the agent ended without the requested answer".to_owned()),
            None if self.level == ProofLevel::Verified
                && self.exited_cleanly()
                && self.has_delivered() =>
            {
                self.success()
            }
            None if self.terminal.is_some() => {
                failure("the agent claims success but made no commit in this run".to_owned())
            }
            None => failure(format!("{}, and never reported an end", self.describe_exit())),
        };
        Some(Finding { ambiguous: true, ..finding })
    }

    /// The detail of a finding. What an agent that ended badly wrote to standard error explains
    /// more than its exit code, to people and to the next attempt.
    fn explain(&self, finding: &Finding) -> String {
        let (detail, errors) = (finding.detail.trim(), self.receipt.stderr.trim());
        let ended_badly = matches!(finding.outcome, Outcome::Crashed | Outcome::Stalled);
        if !ended_badly || errors.is_empty() || self.exited_cleanly() || detail.contains(errors) {
            return detail.to_owned();
        }
        format!("{}\nStandard error ended with:\n{errors}", start_of(detail, DETAIL_BYTES / 2))
    }

    fn describe_exit(&self) -> String {
        match self.receipt.exit {
            Some(exit) => format!("the agent {}", ended(exit)),
            None => "the agent left no exit status".to_owned(),
        }
    }

    fn fallback(&self) -> Finding {
        let why = match self.terminal {
            Some(Terminal::Success) if !self.exited_cleanly() => {
                format!("the agent claims success, but {}", self.describe_exit())
            }
            Some(Terminal::Success) => match self.expectation.expects {
                Deliverable::Change if !self.has_commits => {
                    "the agent claims success but made no commit".to_owned()
                }
                Deliverable::Change | Deliverable::Answer | Deliverable::Anything => {
                    "the agent's answer does not match the schema".to_owned()
                }
            },
            Some(Terminal::Error) => "the agent reported a failure".to_owned(),
            None if self.receipt.ended == EndCause::Hopeless => {
                "the agent could not continue".to_owned()
            }
            None => self.describe_exit(),
        };
        // The signature covers how the run failed; an agent words its own report differently each
        // time.
        let message = start_of(self.text(), DETAIL_BYTES / 2);
        let detail = match self.receipt.objections.as_slice() {
            [] if message.is_empty() => why.clone(),
            [] => format!("{why}: {message}"),
            objections => {
                let objections = objections.join("; ");
                format!("{why}: {}\n{message}", start_of(&objections, DETAIL_BYTES / 4))
            }
        };
        let is_hopeless = self.receipt.ended == EndCause::Hopeless;
        let (outcome, class) = if is_hopeless {
            (Outcome::Transient, FailureClass::Flaky)
        } else if self.is_sound_success() {
            // The agent claims success, but the result is missing.
            (Outcome::VerifyFailed, FailureClass::Model)
        } else {
            (Outcome::Crashed, FailureClass::Model)
        };
        Finding { basis: Some(why), ..Finding::failure(outcome, class, detail) }
    }
}

/// The run claims success but does not meet a requirement.
fn unmet_requirement(unmet: Unmet) -> Finding {
    unmet_finding(Outcome::VerifyFailed, FailureClass::Model, unmet)
}

fn unmet_finding(outcome: Outcome, class: FailureClass, unmet: Unmet) -> Finding {
    Finding { basis: Some(unmet.basis), ..Finding::failure(outcome, class, unmet.detail) }
}

fn fault_finding(fault: &Fault) -> Finding {
    let (outcome, class) = match fault.kind {
        FaultKind::Quota => (Outcome::Quota, FailureClass::Quota),
        FaultKind::Auth => (Outcome::Auth, FailureClass::Auth),
        FaultKind::Transient => (Outcome::Transient, FailureClass::Flaky),
        FaultKind::Budget => (Outcome::OverBudget, FailureClass::Budget),
        FaultKind::Permission => (Outcome::Policy, FailureClass::Permission),
        FaultKind::Session => (Outcome::Transient, FailureClass::Session),
        FaultKind::Setup => (Outcome::Crashed, FailureClass::Setup),
    };
    let detail = fault.detail.trim();
    Finding::failure(outcome, class, if detail.is_empty() { class.as_str() } else { detail })
}

const LOOPS: &str = "doom loop, doom_loop, loop detected, loop was detected";

const NOTHING_TO_DO: &str = "nothing to do, nothing to change, no changes needed, \
    no changes are needed, no changes were needed, no change is needed, already done, \
    already implemented";
