//! Classifies runs and decides on retries: the facts of a receipt become an outcome, and a failure
//! becomes the time of the next attempt or the end of all attempts.
//!
//! Facts come first and prose last. An agent's claim to be done counts only with its own terminal
//! event. Nothing here changes a task: the lifecycle decides where an outcome leads.

mod check;
mod classify;
mod link;
mod retry;
mod signature;
mod step;
mod work;

pub use check::{CheckOutcome, check};
pub use classify::{classify, is_ambiguous};
pub use link::pr_link;
pub use retry::{PastFailure, RetryDecision, RetryPolicy, RetryRule, next};
pub use signature::signature;

use serde::{Deserialize, Serialize};

use crate::closed::closed;
use crate::lifecycle::Outcome;
use crate::time::Instant;

closed! {
    /// Why a run failed, as far as it decides whether and when to retry.
    pub enum FailureClass {
        /// A tool was needed and denied.
        Permission = "permission",
        /// There was nothing to do.
        Noop = "noop",
        /// It changed something that it may not change.
        Policy = "policy",
        /// The setup of the repository or the agent is broken: a missing script, no test files, a
        /// branch that diverged.
        Setup = "setup",
        /// The machine: disk, git, a program that does not start.
        Env = "env",
        /// The provider rejects the key.
        Auth = "auth",
        /// The provider's quota is used up.
        Quota = "quota",
        /// The checks failed on the work.
        Test = "test",
        /// A server or network fault that may be gone at the next attempt.
        Flaky = "flaky",
        /// The model was stuck in a loop.
        ModelLoop = "model_loop",
        /// The agent failed, or made a false claim.
        Model = "model",
        /// A limit on tokens, turns or money.
        Budget = "budget",
        /// It fell silent or took too long.
        Stall = "stall",
        /// It needs a person to continue.
        NeedsPerson = "needs_person",
        /// Banksman lost the run: its keeper, node or lease.
        Infra = "infra",
        /// The session to resume is gone.
        Session = "session",
        /// The machine or the repository, until a person changes it: a missing program, no commits,
        /// something in the way of the worktree.
        Unusable = "unusable",
    }
}

impl FailureClass {
    /// Why a person is asked at once, without a retry.
    pub fn why_not_retried(self) -> String {
        let words = match self {
            Self::Permission => "the agent was denied a tool that it needs",
            Self::Noop => "the agent says that there is nothing to do",
            Self::Auth => "the provider refuses the login of the agent",
            Self::Budget => "a limit of the run is reached",
            Self::NeedsPerson => "the agent needs a person",
            Self::Unusable => "only a person can change this",
            Self::Policy
            | Self::Setup
            | Self::Env
            | Self::Quota
            | Self::Test
            | Self::Flaky
            | Self::ModelLoop
            | Self::Model
            | Self::Stall
            | Self::Infra
            | Self::Session => return format!("the settings allow no retry for {self}"),
        };
        words.to_owned()
    }

    /// Whether the failure says something about the task. Other failures use up no retries of the
    /// task and do not trip its circuit breaker.
    pub fn is_task_failure(self) -> bool {
        match self {
            Self::Env | Self::Infra | Self::Quota | Self::Session | Self::Unusable => false,
            Self::Permission
            | Self::Noop
            | Self::Policy
            | Self::Setup
            | Self::Test
            | Self::Flaky
            | Self::ModelLoop
            | Self::Model
            | Self::Auth
            | Self::Budget
            | Self::Stall
            | Self::NeedsPerson => true,
        }
    }
}

/// What a run must deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deliverable {
    /// Commits on its branch.
    Change,
    /// An answer, such as a verdict or a plan.
    Answer,
    /// The run decides.
    Anything,
}

/// What a run was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunExpectation {
    pub expects: Deliverable,
    /// Whether the answer must match a schema.
    pub schema_given: bool,
}

closed! {
    /// How well the work is verified.
    pub enum ProofLevel {
        /// Only the agent's claim.
        Claimed = "claimed",
        /// Commits exist.
        Observed = "observed",
        /// All checks passed on exactly the head.
        Verified = "verified",
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// One of the outcomes of the activity `agent`.
    pub outcome: Outcome,
    /// None for a success.
    pub class: Option<FailureClass>,
    pub level: ProofLevel,
    /// For people and for the next prompt, cut to a few KiB.
    pub detail: String,
    /// Identifies failures with the same cause.
    pub signature: Option<String>,
    /// When the provider accepts requests again, for a quota.
    pub resets_at: Option<Instant>,
    /// Whether the facts leave the end open, so that an evaluator may be asked.
    pub ambiguous: bool,
}

/// Whether a text contains one of the phrases, which are separated by commas, whatever its case.
fn has_any(text: &str, phrases: &str) -> bool {
    let text = text.to_lowercase();
    phrases.split(", ").any(|phrase| text.contains(phrase))
}

/// The last lines of a text that are not blank.
fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(count).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Activity;
    use crate::quota::LONGEST_WAIT;
    use crate::receipt::{
        AgentReport, CheckResult, EndCause, EvaluatorOpinion, Evidence, Fault, FaultKind,
        ObservedSignal, PrepareFault, ProcessExit, Receipt, StreamSummary, Terminal,
    };
    use proptest::option;
    use proptest::prelude::{
        Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };
    use proptest::sample::select;
    use serde_json::json;

    #[test]
    fn every_class_reads_what_it_prints() {
        for class in FailureClass::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        let error = "Quota".parse::<FailureClass>().expect_err("the words are lower case");
        assert!(error.to_string().starts_with("`Quota` is not one of: permission, noop, "));
        assert!(FailureClass::ALL.is_sorted(), "each class once, in the order of the enum");
    }

    #[test]
    fn levels_are_ordered() {
        assert!(
            ProofLevel::Claimed < ProofLevel::Observed
                && ProofLevel::Observed < ProofLevel::Verified
        );
    }

    fn any_text() -> impl Strategy<Value = String> {
        let telling = select(vec![
            "Quota exceeded, resets 5pm",
            "Invalid API key",
            "read ECONNRESET",
            "nothing to do",
            "doom loop",
            "t83: https://github.com/o/r/pull/5",
            "\u{1b}[31mboom\u{1b}[0m",
            "No tests found",
            "",
        ]);
        prop_oneof![
            telling.prop_map(str::to_owned),
            "(?s).{0,60}",
            (1_usize..9_000).prop_map(|count| "ü\n".repeat(count)),
        ]
    }

    fn any_exit() -> impl Strategy<Value = ProcessExit> {
        let code =
            option::of(prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(127), 1 => any::<i32>()]);
        (code, option::of(1..32)).prop_map(|(code, signal)| ProcessExit { code, signal })
    }

    fn any_ended() -> impl Strategy<Value = EndCause> {
        let fault = select(vec![
            PrepareFault::Environment,
            PrepareFault::Setup,
            PrepareFault::Diverged,
            PrepareFault::Unusable,
        ]);
        let plain = select(vec![
            EndCause::TimedOut,
            EndCause::Stalled,
            EndCause::Hopeless,
            EndCause::LeaseLost,
            EndCause::KeeperLost,
        ]);
        prop_oneof![
            8 => Just(EndCause::Completed),
            1 => (any_text(), fault).prop_map(|(detail, class)| EndCause::NotPrepared { detail, class }),
            1 => any_text().prop_map(|detail| EndCause::NotStarted { detail }),
            1 => any_text().prop_map(|detail| EndCause::OverBudget { detail }),
            1 => any_text().prop_map(|by| EndCause::Stopped { by }),
            1 => any_text().prop_map(|request| EndCause::NotAllowed { request }),
            1 => any_text().prop_map(|summary| EndCause::Loop { summary }),
            3 => plain,
        ]
    }

    fn any_told() -> impl Strategy<Value = AgentReport> {
        prop_oneof![
            any_text().prop_map(|question| AgentReport::NeedsPerson { question }),
            any_text().prop_map(|reason| AgentReport::NothingToDo { reason }),
            any_text().prop_map(|step| AgentReport::Progress {
                step,
                files: vec![],
                blockers: vec![]
            }),
        ]
    }

    fn any_reading() -> impl Strategy<Value = StreamSummary> {
        let kind = select(vec![
            FaultKind::Quota,
            FaultKind::Auth,
            FaultKind::Transient,
            FaultKind::Budget,
            FaultKind::Permission,
            FaultKind::Session,
            FaultKind::Setup,
        ]);
        let fault = (kind, any_text(), any::<bool>())
            .prop_map(|(kind, detail, structured)| Fault { kind, detail, structured });
        let terminal = prop_oneof![
            2 => Just(Some(Terminal::Success)),
            1 => Just(Some(Terminal::Error)),
            1 => Just(None),
        ];
        let told = proptest::collection::vec(any_told(), 0..2);
        let answer = option::of(Just(json!({"verdict": "approve"})));
        let fault = option::weighted(0.3, fault);
        (terminal, any_text(), answer, fault, any::<Option<i64>>(), told).prop_map(
            |(terminal, text, answer, fault, resets_at, reports)| {
                let resets_at = resets_at.map(Instant);
                StreamSummary {
                    terminal,
                    text,
                    answer,
                    fault,
                    resets_at,
                    reports,
                    ..StreamSummary::default()
                }
            },
        )
    }

    fn any_evidence() -> impl Strategy<Value = Evidence> {
        let head = || select(vec!["", "a", "b"]).prop_map(str::to_owned);
        let check =
            (any_text(), head(), any_exit(), any_text()).prop_map(|(command, head, exit, tail)| {
                CheckResult { command, head, exit, millis: 1, tail }
            });
        let paths =
            || prop_oneof![4 => Just(vec![]), 1 => proptest::collection::vec(".{0,30}", 0..40)];
        let checks = proptest::collection::vec(check, 0..3);
        let signal = (any::<bool>(), any_text(), option::of(any_text()), any::<bool>()).prop_map(
            |(found, detail, note, failed)| ObservedSignal { found, detail, note, failed },
        );
        let demanded = (paths(), option::weighted(0.3, signal), option::weighted(0.3, any_text()));
        (head(), head(), 0_u32..3, paths(), paths(), checks, demanded).prop_map(
            |(head, head_before, commits, outside, denied, checks, demanded)| Evidence {
                missing: demanded.0,
                signal: demanded.1,
                criterion: demanded.2,
                head,
                head_before,
                commits,
                outside,
                denied,
                checks,
                ..Evidence::default()
            },
        )
    }

    fn any_receipt() -> impl Strategy<Value = Receipt> {
        let opinion = (any::<bool>(), any_text())
            .prop_map(|(done, reason)| EvaluatorOpinion { done, reason });
        let answer = option::of(Just(json!({"verdict": "approve"})));
        let objections = prop_oneof![3 => Just(vec![]), 1 => any_text().prop_map(|one| vec![one])];
        let parts = (
            any_ended(),
            option::of(any_exit()),
            option::weighted(0.9, any_reading()),
            (answer, objections),
            option::weighted(0.9, any_evidence()),
            option::of(opinion),
            any::<i64>(),
        );
        parts.prop_map(|(ended, exit, reading, answered, evidence, opinion, ended_at)| Receipt {
            job: "r83.1".to_owned(),
            started_at: Instant(0),
            ended_at: Instant(ended_at),
            ended,
            exit,
            reading,
            stderr: String::new(),
            answer: answered.0,
            objections: answered.1,
            evidence,
            merge: None,
            opinion,
            judging: None,
            left_over: 0,
            nudges: 0,
        })
    }

    proptest! {
        /// No receipt, however odd, is classified as a success that its facts contradict.
        #[test]
        fn every_receipt_has_a_sound_and_bounded_judgement(
            receipt in any_receipt(),
            expects in select(vec![Deliverable::Change, Deliverable::Answer, Deliverable::Anything]),
            schema_given in any::<bool>(),
        ) {
            let asked = RunExpectation { expects, schema_given };
            let classification = classify(&receipt, &asked);
            prop_assert!(Activity::Agent.outcomes().contains(&classification.outcome));
            prop_assert!(classification.detail.len() <= classify::DETAIL_BYTES);
            prop_assert!(classification.signature.as_ref().is_none_or(|made| made.chars().count() <= 500));
            prop_assert_eq!(classification.ambiguous, is_ambiguous(&receipt, &asked));
            prop_assert!(!classification.ambiguous || receipt.ended == EndCause::Completed);
            prop_assert_eq!(classification.class.is_none(), classification.outcome == Outcome::Succeeded);
            prop_assert_eq!(classification.signature.is_none(), classification.outcome == Outcome::Succeeded);
            let named = classification.resets_at;
            prop_assert!(named.is_none() || classification.outcome == Outcome::Quota);
            prop_assert!(named.is_none_or(|at| at <= receipt.ended_at.plus(LONGEST_WAIT)));

            let evidence = receipt.evidence.clone().unwrap_or_default();
            let here = |check: &&CheckResult| check.head == evidence.head && !evidence.head.is_empty();
            if classification.level == ProofLevel::Verified {
                prop_assert!(evidence.commits > 0 && !evidence.checks.is_empty());
                prop_assert!(evidence.checks.iter().all(|check| check.passed() && here(&check)));
            }
            if classification.outcome != Outcome::Succeeded {
                return Ok(());
            }
            let reading = receipt.reading.clone().unwrap_or_default();
            let exited_well = receipt.exit.is_some_and(|exit| exit.code == Some(0));
            let opined = receipt.opinion.as_ref().is_some_and(|opinion| opinion.done);
            prop_assert_eq!(&receipt.ended, &EndCause::Completed);
            prop_assert!(reading.terminal != Some(Terminal::Error));
            prop_assert!(reading.terminal.is_some() || classification.ambiguous);
            prop_assert!(exited_well || (classification.ambiguous && opined));
            prop_assert!(opined || !classification.ambiguous || classification.level == ProofLevel::Verified);
            prop_assert!(evidence.outside.is_empty() && evidence.denied.is_empty());
            prop_assert!(evidence.missing.is_empty());
            prop_assert!(evidence.signal.is_none_or(|signal| signal.found && !signal.failed));
            prop_assert!(evidence.criterion.is_none() || opined);
            prop_assert!(evidence.checks.iter().filter(here).all(CheckResult::passed));
            prop_assert!(expects != Deliverable::Change || evidence.commits > 0);
            prop_assert!(!schema_given || receipt.answer.is_some());
            prop_assert!(receipt.objections.is_empty());
        }
    }
}
