//! Classifies receipts that differ from a good one in one fact.

use super::*;
use crate::receipt::{CheckResult, EvaluatorOpinion, ProcessExit};
use crate::time::Instant;
use serde_json::json;

const CHANGE: RunExpectation = RunExpectation { expects: Deliverable::Change, schema_given: false };
const ANSWER: RunExpectation = RunExpectation { expects: Deliverable::Answer, ..CHANGE };
const SHAPED: RunExpectation = RunExpectation { schema_given: true, ..ANSWER };
const ANYTHING: RunExpectation = RunExpectation { expects: Deliverable::Anything, ..CHANGE };
const ENDED_AT: Instant = Instant(1_795_000_000_000);

fn exit(code: i32) -> Option<ProcessExit> {
    Some(ProcessExit { code: Some(code), signal: None })
}

fn killed() -> Option<ProcessExit> {
    Some(ProcessExit { code: None, signal: Some(9) })
}

fn check(code: i32, tail: &str) -> CheckResult {
    let (command, head) = ("make test".to_owned(), "b".repeat(40));
    let exit = ProcessExit { code: Some(code), signal: None };
    CheckResult { command, head, exit, millis: 1, tail: tail.to_owned() }
}

/// A run that did everything right; each test changes one thing.
fn good() -> Receipt {
    Receipt {
        job: "r83.1".to_owned(),
        started_at: Instant(0),
        ended_at: ENDED_AT,
        ended: EndCause::Completed,
        exit: exit(0),
        reading: Some(StreamSummary {
            terminal: Some(Terminal::Success),
            text: "The login works.".to_owned(),
            ..StreamSummary::default()
        }),
        stderr: String::new(),
        answer: None,
        objections: Vec::new(),
        evidence: Some(Evidence {
            base: "a".repeat(40),
            head: "b".repeat(40),
            head_before: "a".repeat(40),
            commits: 1,
            checks: vec![check(0, "ok")],
            ..Evidence::default()
        }),
        merge: None,
        opinion: None,
        judging: None,
        left_over: 0,
        nudges: 0,
    }
}

fn with(change: impl FnOnce(&mut Receipt)) -> Receipt {
    let mut receipt = good();
    change(&mut receipt);
    receipt
}

fn reading(receipt: &mut Receipt) -> &mut StreamSummary {
    receipt.reading.as_mut().expect("a good run has one")
}

fn evidence(receipt: &mut Receipt) -> &mut Evidence {
    receipt.evidence.as_mut().expect("a good run has it")
}

fn no_commits(receipt: &mut Receipt) {
    receipt.evidence = Some(Evidence {
        base: "a".repeat(40),
        head: "a".repeat(40),
        head_before: "a".repeat(40),
        ..Evidence::default()
    });
}

fn fault(receipt: &mut Receipt, kind: FaultKind, structured: bool) {
    let detail = "the provider said so".to_owned();
    reading(receipt).fault = Some(Fault { kind, detail, structured });
}

fn opinion(receipt: &mut Receipt, done: bool) {
    let reason = "by the log".to_owned();
    receipt.opinion = Some(EvaluatorOpinion { done, reason });
}

#[track_caller]
fn expect(
    asked: &RunExpectation,
    receipt: &Receipt,
    outcome: Outcome,
    class: Option<FailureClass>,
) -> Classification {
    let classification = classify(receipt, asked);
    assert_eq!(
        (classification.outcome, classification.class),
        (outcome, class),
        "{classification:?}"
    );
    assert_eq!(classification.ambiguous, is_ambiguous(receipt, asked));
    assert_eq!(classification.signature.is_some(), class.is_some());
    classification
}

#[test]
fn a_success_has_its_terminal_event_its_exit_and_its_commits() {
    let classification = expect(&CHANGE, &good(), Outcome::Succeeded, None);
    assert_eq!((classification.level, classification.ambiguous), (ProofLevel::Verified, false));
    assert_eq!(classification.detail, "The login works.");
    let unchecked = with(|receipt| evidence(receipt).checks.clear());
    assert_eq!(expect(&CHANGE, &unchecked, Outcome::Succeeded, None).level, ProofLevel::Observed);
}

#[test]
fn the_end_of_the_job_comes_before_everything() {
    let said = || "because".to_owned();
    let not_prepared = |class| EndCause::NotPrepared { detail: said(), class };
    for (ended, outcome, class) in [
        (not_prepared(PrepareFault::Environment), Outcome::Transient, FailureClass::Env),
        (not_prepared(PrepareFault::Setup), Outcome::Crashed, FailureClass::Setup),
        (not_prepared(PrepareFault::Diverged), Outcome::NeedsPerson, FailureClass::Setup),
        (EndCause::NotStarted { detail: said() }, Outcome::Transient, FailureClass::Env),
        (EndCause::TimedOut, Outcome::Stalled, FailureClass::Stall),
        (EndCause::Stalled, Outcome::Stalled, FailureClass::Stall),
        (EndCause::OverBudget { detail: said() }, Outcome::OverBudget, FailureClass::Budget),
        (EndCause::Stopped { by: said() }, Outcome::Transient, FailureClass::Infra),
        (EndCause::LeaseLost, Outcome::Transient, FailureClass::Infra),
        (EndCause::KeeperLost, Outcome::Transient, FailureClass::Infra),
    ] {
        let receipt = with(|receipt| {
            receipt.ended = ended;
            fault(receipt, FaultKind::Auth, true);
            opinion(receipt, true);
        });
        assert!(!expect(&CHANGE, &receipt, outcome, Some(class)).ambiguous);
    }
}

#[test]
fn a_hopeless_run_is_judged_by_what_it_was_stuck_on() {
    let hopeless = |receipt: &mut Receipt| {
        receipt.ended = EndCause::Hopeless;
        receipt.exit = killed();
        reading(receipt).terminal = None;
    };
    let told = with(|receipt| {
        hopeless(receipt);
        fault(receipt, FaultKind::Auth, false);
    });
    expect(&CHANGE, &told, Outcome::Auth, Some(FailureClass::Auth));
    expect(&CHANGE, &with(hopeless), Outcome::Transient, Some(FailureClass::Flaky));
    let claimed = with(|receipt| receipt.ended = EndCause::Hopeless);
    expect(&CHANGE, &claimed, Outcome::Transient, Some(FailureClass::Flaky));
}

#[test]
fn a_question_stops_the_task_even_if_the_agent_then_waited_in_vain() {
    let ask = |receipt: &mut Receipt| {
        let question = "Which of both databases?".to_owned();
        reading(receipt).reports = vec![
            AgentReport::NeedsPerson { question },
            AgentReport::NothingToDo { reason: "so".to_owned() },
        ];
    };
    for ended in [EndCause::Completed, EndCause::Stalled, EndCause::TimedOut] {
        let receipt = with(|receipt| {
            ask(receipt);
            receipt.ended = ended;
        });
        let classification =
            expect(&CHANGE, &receipt, Outcome::NeedsPerson, Some(FailureClass::NeedsPerson));
        assert_eq!(classification.detail, "Which of both databases?");
    }
}

#[test]
fn nothing_to_do_counts_only_where_nothing_was_done() {
    let tell = |receipt: &mut Receipt| {
        reading(receipt).reports =
            vec![AgentReport::NothingToDo { reason: "it is there".to_owned() }];
    };
    expect(&CHANGE, &with(tell), Outcome::Succeeded, None);
    let idle = with(|receipt| {
        tell(receipt);
        no_commits(receipt);
    });
    let classification = expect(&CHANGE, &idle, Outcome::NothingToDo, Some(FailureClass::Noop));
    assert_eq!(classification.detail, "it is there");
}

#[test]
fn named_faults_have_their_outcomes() {
    for (kind, outcome, class) in [
        (FaultKind::Quota, Outcome::Quota, FailureClass::Quota),
        (FaultKind::Auth, Outcome::Auth, FailureClass::Auth),
        (FaultKind::Transient, Outcome::Transient, FailureClass::Flaky),
        (FaultKind::Budget, Outcome::OverBudget, FailureClass::Budget),
        (FaultKind::Permission, Outcome::Policy, FailureClass::Permission),
        (FaultKind::Session, Outcome::Transient, FailureClass::Session),
        (FaultKind::Setup, Outcome::Crashed, FailureClass::Setup),
    ] {
        // Unfinished work fails its checks; the fault that interrupted it is what counts.
        for structured in [true, false] {
            let receipt = with(|receipt| {
                fault(receipt, kind, structured);
                reading(receipt).terminal = Some(Terminal::Error);
                receipt.exit = exit(1);
                evidence(receipt).checks = vec![check(1, "boom")];
            });
            expect(&CHANGE, &receipt, outcome, Some(class));
        }
        let got_over = with(|receipt| fault(receipt, kind, true));
        expect(&CHANGE, &got_over, Outcome::Succeeded, None);
        for structured in [true, false] {
            let nothing_to_show = with(|receipt| {
                fault(receipt, kind, structured);
                no_commits(receipt);
            });
            expect(&CHANGE, &nothing_to_show, outcome, Some(class));
        }
    }
}

#[test]
fn a_reset_time_belongs_to_a_quota_and_is_believable() {
    let limited = |at: i64| {
        with(|receipt| {
            fault(receipt, FaultKind::Quota, true);
            reading(receipt).terminal = Some(Terminal::Error);
            reading(receipt).resets_at = Some(Instant(at));
        })
    };
    let soon = ENDED_AT.0 + 3_600_000;
    assert_eq!(classify(&limited(soon), &CHANGE).resets_at, Some(Instant(soon)));
    assert_eq!(classify(&limited(ENDED_AT.0 + LONGEST_WAIT.0 + 1), &CHANGE).resets_at, None);
    let other = with(|receipt| reading(receipt).resets_at = Some(Instant(soon)));
    assert_eq!(classify(&other, &CHANGE).resets_at, None);
}

#[test]
fn forbidden_paths_come_before_the_claim_and_the_checks() {
    let receipt = with(|receipt| {
        evidence(receipt).outside = vec!["infra/prod.tf".to_owned()];
        evidence(receipt).denied = vec![".env".to_owned()];
        evidence(receipt).checks = vec![check(1, "boom")];
    });
    let classification = expect(&CHANGE, &receipt, Outcome::Policy, Some(FailureClass::Policy));
    let expected = "the run changed paths that are denied: .env; not allowed: infra/prod.tf";
    assert_eq!(classification.detail, expected);
}

#[test]
fn a_failed_check_tells_its_command_and_the_end_of_its_output() {
    let failed =
        |code, tail: &str| with(|receipt| evidence(receipt).checks = vec![check(code, tail)]);
    let classification =
        expect(&CHANGE, &failed(2, "1 failed"), Outcome::VerifyFailed, Some(FailureClass::Test));
    assert_eq!(classification.detail, "`make test` exited with code 2:\n1 failed");
    assert_eq!(classification.level, ProofLevel::Observed);
    assert_eq!(
        classification.signature.as_deref(),
        Some("test:make test exited with code <n> <n> failed")
    );
    expect(&CHANGE, &failed(127, ""), Outcome::VerifyFailed, Some(FailureClass::Setup));
    let full = failed(1, "write: No space left on device");
    expect(&CHANGE, &full, Outcome::Transient, Some(FailureClass::Env));
}

#[test]
fn a_check_of_another_commit_neither_proves_nor_refutes() {
    for code in [0, 1] {
        let receipt = with(|receipt| {
            evidence(receipt).checks =
                vec![CheckResult { head: "a".repeat(40), ..check(code, "") }];
        });
        assert_eq!(expect(&CHANGE, &receipt, Outcome::Succeeded, None).level, ProofLevel::Observed);
    }
}

#[test]
fn who_claims_to_be_done_without_a_commit_is_not_believed() {
    let lie = with(no_commits);
    let classification = expect(&CHANGE, &lie, Outcome::VerifyFailed, Some(FailureClass::Model));
    let expected = "the agent claims success but made no commit: The login works.";
    assert_eq!(
        (classification.detail.as_str(), classification.level),
        (expected, ProofLevel::Claimed)
    );
    let no_evidence = with(|receipt| receipt.evidence = None);
    expect(&CHANGE, &no_evidence, Outcome::VerifyFailed, Some(FailureClass::Model));
    let idle = with(|receipt| {
        no_commits(receipt);
        reading(receipt).text = "No changes needed, it is Already Implemented.".to_owned();
    });
    expect(&CHANGE, &idle, Outcome::NothingToDo, Some(FailureClass::Noop));
    let limited = with(|receipt| {
        no_commits(receipt);
        reading(receipt).text = "You've hit your usage limit.".to_owned();
    });
    expect(&CHANGE, &limited, Outcome::Quota, Some(FailureClass::Quota));
    expect(&ANYTHING, &lie, Outcome::Succeeded, None);
}

#[test]
fn long_prose_of_an_agent_that_is_done_is_no_error_message() {
    let receipt = with(|receipt| {
        no_commits(receipt);
        reading(receipt).text = format!("{}Quota exceeded", "I looked around.\n".repeat(10));
    });
    expect(&CHANGE, &receipt, Outcome::VerifyFailed, Some(FailureClass::Model));
}

#[test]
fn words_do_not_undo_a_success() {
    let receipt = with(|receipt| {
        reading(receipt).text = "Quota exceeded is now answered with 429.".to_owned();
        fault(receipt, FaultKind::Quota, false);
    });
    expect(&CHANGE, &receipt, Outcome::Succeeded, None);
}

#[test]
fn an_exit_against_the_claim_is_no_success() {
    for end in [exit(1), killed(), None] {
        let receipt = with(|receipt| {
            receipt.exit = end;
            opinion(receipt, true);
        });
        let classification = expect(&CHANGE, &receipt, Outcome::Crashed, Some(FailureClass::Model));
        assert!(!classification.ambiguous, "{classification:?}");
    }
}

#[test]
fn a_reported_error_is_no_success_even_if_all_checks_pass() {
    let receipt = with(|receipt| {
        reading(receipt).terminal = Some(Terminal::Error);
        opinion(receipt, true);
    });
    assert!(!expect(&CHANGE, &receipt, Outcome::Crashed, Some(FailureClass::Model)).ambiguous);
}

fn silent(end: Option<ProcessExit>) -> Receipt {
    with(|receipt| {
        reading(receipt).terminal = None;
        receipt.exit = end;
    })
}

#[test]
fn without_a_terminal_event_the_evaluator_or_the_checks_decide() {
    let expect_open = |receipt: &Receipt, outcome, class| {
        assert!(expect(&CHANGE, receipt, outcome, class).ambiguous);
    };
    expect_open(&silent(exit(0)), Outcome::Succeeded, None);
    for end in [exit(0), exit(1), killed()] {
        let mut receipt = silent(end);
        opinion(&mut receipt, true);
        expect_open(&receipt, Outcome::Succeeded, None);
        opinion(&mut receipt, false);
        expect_open(&receipt, Outcome::Crashed, Some(FailureClass::Model));
    }
    // After a bad exit the evaluator must confirm the work; green checks may cover only half of it.
    expect_open(&silent(exit(1)), Outcome::Crashed, Some(FailureClass::Model));
    expect_open(&silent(killed()), Outcome::Crashed, Some(FailureClass::Model));
    let mut unchecked = silent(exit(0));
    evidence(&mut unchecked).checks.clear();
    expect_open(&unchecked, Outcome::Crashed, Some(FailureClass::Model));
    opinion(&mut unchecked, true);
    expect_open(&unchecked, Outcome::Succeeded, None);
}

#[test]
fn no_opinion_makes_up_for_missing_work() {
    let mut receipt = silent(exit(0));
    no_commits(&mut receipt);
    assert!(expect(&CHANGE, &receipt, Outcome::Crashed, Some(FailureClass::Model)).ambiguous);
    opinion(&mut receipt, true);
    expect(&CHANGE, &receipt, Outcome::NothingToDo, Some(FailureClass::Noop));
    expect(&SHAPED, &receipt, Outcome::Crashed, Some(FailureClass::Model));
    expect(&ANSWER, &receipt, Outcome::Succeeded, None);
}

#[test]
fn a_plain_crash_is_not_open() {
    let mut receipt = silent(exit(1));
    evidence(&mut receipt).checks.clear();
    assert!(!expect(&CHANGE, &receipt, Outcome::Crashed, Some(FailureClass::Model)).ambiguous);
    no_commits(&mut receipt);
    reading(&mut receipt).text.clear();
    let classification = expect(&CHANGE, &receipt, Outcome::Crashed, Some(FailureClass::Model));
    assert_eq!(classification.detail, "the agent exited with code 1");
}

#[test]
fn a_run_that_lives_on_earlier_commits_is_open() {
    let old = |receipt: &mut Receipt| evidence(receipt).head_before = "b".repeat(40);
    assert!(expect(&CHANGE, &with(old), Outcome::Succeeded, None).ambiguous);
    let doubted = with(|receipt| {
        old(receipt);
        opinion(receipt, false);
    });
    expect(&CHANGE, &doubted, Outcome::Crashed, Some(FailureClass::Model));
    let unchecked = with(|receipt| {
        old(receipt);
        evidence(receipt).checks.clear();
    });
    expect(&CHANGE, &unchecked, Outcome::Crashed, Some(FailureClass::Model));
    assert!(!expect(&ANSWER, &with(old), Outcome::Succeeded, None).ambiguous);
}

#[test]
fn an_answer_has_to_be_there_in_its_shape() {
    expect(&ANSWER, &good(), Outcome::Succeeded, None);
    expect(&SHAPED, &good(), Outcome::VerifyFailed, Some(FailureClass::Model));
    let answered = with(|receipt| receipt.answer = Some(json!({"verdict": "approve"})));
    expect(&SHAPED, &answered, Outcome::Succeeded, None);
    let unchecked = with(|receipt| reading(receipt).answer = Some(json!({"verdict": "approve"})));
    expect(&SHAPED, &unchecked, Outcome::VerifyFailed, Some(FailureClass::Model));
    let mute = with(|receipt| reading(receipt).text.clear());
    expect(&ANSWER, &mute, Outcome::VerifyFailed, Some(FailureClass::Model));
    let shaped_anything = RunExpectation { schema_given: true, ..ANYTHING };
    expect(&shaped_anything, &good(), Outcome::VerifyFailed, Some(FailureClass::Model));
    let shaped_change = RunExpectation { schema_given: true, ..CHANGE };
    expect(&shaped_change, &good(), Outcome::VerifyFailed, Some(FailureClass::Model));
    expect(&shaped_change, &answered, Outcome::Succeeded, None);
}

#[test]
fn an_answer_that_was_objected_to_is_a_failure_with_the_reason() {
    let mut receipt = with(|receipt| {
        let text = r#"{"verdict":"You have exceeded your usage limit."}"#;
        reading(receipt).text = text.to_owned();
        reading(receipt).answer = Some(json!({"verdict": "maybe"}));
        receipt.objections = vec!["/score is missing".to_owned(), "/verdict is odd".to_owned()];
    });
    // Even if the caller does not know that it gave a schema.
    for asked in [SHAPED, ANSWER, ANYTHING, CHANGE] {
        let classification =
            expect(&asked, &receipt, Outcome::VerifyFailed, Some(FailureClass::Model));
        let named = "/score is missing; /verdict is odd";
        assert!(classification.detail.contains(named), "{}", classification.detail);
    }
    let signature = classify(&receipt, &SHAPED).signature;
    receipt.objections = vec!["/verdict is too long".to_owned()];
    assert_eq!(classify(&receipt, &SHAPED).signature, signature, "the same failure");
    reading(&mut receipt).terminal = None;
    opinion(&mut receipt, true);
    for asked in [SHAPED, ANSWER, ANYTHING, CHANGE] {
        expect(&asked, &receipt, Outcome::Crashed, Some(FailureClass::Model));
    }
}

/// Some agents report success when their provider rejected the request.
#[test]
fn words_in_place_of_an_answer_may_be_an_error_message() {
    let receipt = with(|receipt| {
        no_commits(receipt);
        reading(receipt).text = "You've hit your usage limit.".to_owned();
        receipt.objections = vec!["there was no answer".to_owned()];
    });
    expect(&SHAPED, &receipt, Outcome::Quota, Some(FailureClass::Quota));
}

#[test]
fn words_explain_an_end_that_nothing_else_explains() {
    for (text, outcome, class) in [
        ("Quota exceeded", Outcome::Quota, FailureClass::Quota),
        ("Invalid API key", Outcome::Auth, FailureClass::Auth),
        ("read ECONNRESET", Outcome::Transient, FailureClass::Flaky),
        ("A potential loop was detected.", Outcome::Crashed, FailureClass::ModelLoop),
        ("I have no idea.", Outcome::Crashed, FailureClass::Model),
    ] {
        let mut receipt = silent(exit(1));
        no_commits(&mut receipt);
        reading(&mut receipt).text = text.to_owned();
        expect(&CHANGE, &receipt, outcome, Some(class));
    }
}

#[test]
fn a_bad_end_is_explained_by_standard_error() {
    const STDERR: &str = "Traceback:\nKeyError: 'ssn'";
    let crashed = |code: i32, text: &str| {
        with(|receipt| {
            no_commits(receipt);
            receipt.exit = exit(code);
            receipt.stderr = STDERR.to_owned();
            (reading(receipt).terminal, reading(receipt).text) = (None, text.to_owned());
        })
    };
    let explained = |detail: &str| format!("{detail}\nStandard error ended with:\n{STDERR}");
    let model = Some(FailureClass::Model);
    let classification = expect(&CHANGE, &crashed(3, ""), Outcome::Crashed, model);
    assert_eq!(classification.detail, explained("the agent exited with code 3"));
    let other = expect(&CHANGE, &crashed(3, "I cannot"), Outcome::Crashed, model);
    assert_eq!(other.detail, explained("the agent exited with code 3: I cannot"));
    assert_eq!(other.signature, classification.signature, "the same failure");
    let said = expect(&CHANGE, &crashed(3, STDERR), Outcome::Crashed, model);
    assert_eq!(said.detail.matches("KeyError").count(), 1, "{}", said.detail);
    // Warnings of an agent that ended well explain nothing.
    let warned = with(|receipt| receipt.stderr = STDERR.to_owned());
    assert_eq!(expect(&CHANGE, &warned, Outcome::Succeeded, None).detail, "The login works.");
}
