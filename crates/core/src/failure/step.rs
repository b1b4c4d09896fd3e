//! The requirements of a workflow step beyond its work: its outputs, its signal, and a criterion
//! that an evaluator judges.
//!
//! They can only fail a run: nothing here turns a failure into a success.

use super::work;
use crate::receipt::{EvaluatorOpinion, Evidence};
use crate::text::start_of;

/// How much of a criterion a message quotes, in bytes.
const CRITERION_BYTES: usize = 1_000;

/// A requirement that is not met.
pub(super) struct Unmet {
    pub(super) detail: String,
    /// What equal failures have in common; a step words its own report differently each time.
    pub(super) basis: String,
}

/// The first requirement that the facts contradict. The step's own report comes first, because it
/// explains the rest.
pub(super) fn unmet(evidence: &Evidence) -> Option<Unmet> {
    failure_signal(evidence)
        .or_else(|| unfinished_work(evidence))
        .or_else(|| missing_outputs(evidence))
        .or_else(|| missing_signal(evidence))
}

/// The step's signal, if it reports a failure.
pub(super) fn failure_signal(evidence: &Evidence) -> Option<Unmet> {
    let signal = evidence.signal.as_ref().filter(|signal| signal.found && signal.failed)?;
    let basis = format!("its signal {} reports a failure", signal.detail);
    let note = signal.note.as_ref().map(|note| format!(": {note}"));
    Some(Unmet { detail: format!("{basis}{}", note.unwrap_or_default()), basis })
}

fn unfinished_work(evidence: &Evidence) -> Option<Unmet> {
    let first = evidence.unmerged.first()?;
    let rest = evidence.unmerged[1..].iter().map(|other| format!("; {other}"));
    let rest: String = rest.collect();
    let detail = format!("the branch does not have the whole work: {first}{rest}");
    Some(Unmet { basis: detail.clone(), detail })
}

/// Checks that were set and prove nothing, because they did not run.
pub(super) fn unchecked(evidence: &Evidence) -> Option<Unmet> {
    let detail = format!("the checks did not run: {}", evidence.unchecked.as_ref()?);
    Some(Unmet { basis: detail.clone(), detail })
}

fn missing_outputs(evidence: &Evidence) -> Option<Unmet> {
    if evidence.missing.is_empty() {
        return None;
    }
    let detail = format!("missing output: {}", work::list(&evidence.missing));
    Some(Unmet { basis: detail.clone(), detail })
}

fn missing_signal(evidence: &Evidence) -> Option<Unmet> {
    let signal = evidence.signal.as_ref().filter(|signal| !signal.found)?;
    let basis = format!("the step ended, but the signal {} was not given", signal.detail);
    let note = signal.note.as_ref().map(|note| format!(" ({note})"));
    Some(Unmet { detail: format!("{basis}{}", note.unwrap_or_default()), basis })
}

/// The result for a criterion in prose.
pub(super) enum CriterionResult {
    Met,
    NotMet(Unmet),
    /// There is no evaluator, or it gave no answer.
    NotJudged(String),
}

/// None if there is no criterion to judge.
pub(super) fn judge_criterion(
    evidence: &Evidence,
    opinion: Option<&EvaluatorOpinion>,
) -> Option<CriterionResult> {
    let criterion = start_of(evidence.criterion.as_deref()?.trim(), CRITERION_BYTES);
    Some(match opinion {
        Some(opinion) if opinion.done => CriterionResult::Met,
        Some(opinion) => {
            let basis = format!("`{criterion}` is not met");
            CriterionResult::NotMet(Unmet { detail: format!("{basis}: {}", opinion.reason), basis })
        }
        None => CriterionResult::NotJudged(format!("no evaluator has judged: {criterion}")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        Classification, Deliverable, FailureClass, ProofLevel, RunExpectation, classify,
        is_ambiguous,
    };
    use crate::lifecycle::Outcome;
    use crate::receipt::{
        AgentReport, EndCause, EvaluatorOpinion, Evidence, ObservedSignal, ProcessExit, Receipt,
        StreamSummary, Terminal,
    };
    use crate::time::Instant;

    const STEP: RunExpectation =
        RunExpectation { expects: Deliverable::Change, schema_given: false };

    /// A successful run with one change.
    fn with(change: impl FnOnce(&mut Receipt, &mut Evidence)) -> Receipt {
        let mut receipt = Receipt::new("r83.1", Instant(0), EndCause::Completed);
        receipt.exit = Some(ProcessExit { code: Some(0), signal: None });
        receipt.reading =
            Some(StreamSummary { terminal: Some(Terminal::Success), ..StreamSummary::default() });
        let mut evidence = Evidence {
            base: "a".to_owned(),
            head_before: "a".to_owned(),
            head: "b".to_owned(),
            commits: 1,
            ..Evidence::default()
        };
        change(&mut receipt, &mut evidence);
        receipt.evidence = Some(evidence);
        receipt
    }

    fn signal(found: bool, failed: bool, note: Option<&str>) -> Option<ObservedSignal> {
        let detail = "`.workflow/signals/X-1-done.json`".to_owned();
        Some(ObservedSignal { found, detail, note: note.map(str::to_owned), failed })
    }

    fn opinion(done: bool) -> Option<EvaluatorOpinion> {
        let reason = "two of three pages are empty".to_owned();
        Some(EvaluatorOpinion { done, reason })
    }

    #[track_caller]
    fn expect(receipt: &Receipt, outcome: Outcome, detail: &str) -> Classification {
        let classification = classify(receipt, &STEP);
        assert_eq!(classification.outcome, outcome, "{classification:?}");
        assert!(classification.detail.contains(detail), "{classification:?}");
        assert_eq!(classification.ambiguous, is_ambiguous(receipt, &STEP));
        classification
    }

    #[test]
    fn outputs_that_are_not_there_are_listed() {
        let missing = || vec!["src/index.py".to_owned(), "docs/*.md".to_owned()];
        let receipt = with(|_, evidence| evidence.missing = missing());
        let classification = expect(&receipt, Outcome::VerifyFailed, "src/index.py, docs/*.md");
        assert_eq!(
            (classification.class, classification.ambiguous),
            (Some(FailureClass::Model), false)
        );
        assert_eq!(classification.level, ProofLevel::Observed);
    }

    #[test]
    fn a_signal_that_was_demanded_must_be_given() {
        let given = with(|_, evidence| evidence.signal = signal(true, false, Some("all green")));
        expect(&given, Outcome::Succeeded, "done");
        let silent = with(|_, evidence| evidence.signal = signal(false, false, None));
        let words = "the signal `.workflow/signals/X-1-done.json` was not given";
        let classification = expect(&silent, Outcome::VerifyFailed, words);
        assert_eq!(
            (classification.class, classification.ambiguous),
            (Some(FailureClass::Model), false)
        );
        let garbled = with(|_, evidence| evidence.signal = signal(false, false, Some("no JSON")));
        expect(&garbled, Outcome::VerifyFailed, "was not given (no JSON)");
    }

    #[test]
    fn checks_that_did_not_run_prove_nothing() {
        let why = "there are uncommitted files";
        let receipt = with(|_, evidence| evidence.unchecked = Some(why.to_owned()));
        expect(&receipt, Outcome::VerifyFailed, &format!("the checks did not run: {why}"));
        // Where the agent reported no end, somebody else decides, and no check was due.
        let open = with(|receipt, evidence| {
            receipt.reading = Some(StreamSummary::default());
            receipt.opinion = opinion(true);
            evidence.unchecked = Some("the agent did not report success".to_owned());
        });
        expect(&open, Outcome::Succeeded, "");
    }

    #[test]
    fn a_step_that_says_it_failed_is_believed_whatever_it_left() {
        let says = |note| {
            move |_: &mut Receipt, evidence: &mut Evidence| {
                evidence.signal = signal(true, true, Some(note));
            }
        };
        let one = expect(&with(says("no database")), Outcome::VerifyFailed, "failure: no database");
        let other = classify(&with(says("the database is away")), &STEP);
        assert_eq!(one.signature, other.signature, "the same failure in other words");
        let idle = with(|receipt, evidence| {
            says("no database")(receipt, evidence);
            (evidence.head, evidence.commits) = ("a".to_owned(), 0);
        });
        expect(&idle, Outcome::VerifyFailed, "no database");
        let first = with(|receipt, evidence| {
            says("no database")(receipt, evidence);
            evidence.missing = vec!["a".to_owned()];
        });
        expect(&first, Outcome::VerifyFailed, "no database");
    }

    /// All requirements of the step are met, and still each of these failures stays a failure.
    #[test]
    fn nothing_makes_a_success_of_a_failure() {
        let complete = |receipt: &mut Receipt, evidence: &mut Evidence| {
            evidence.signal = signal(true, false, Some("done"));
            evidence.criterion = Some("every page has a text".to_owned());
            receipt.opinion = opinion(true);
        };
        expect(&with(complete), Outcome::Succeeded, "done");
        type Break = fn(&mut Receipt, &mut Evidence);
        let broken: [(Break, Outcome); 6] = [
            (|receipt, _| receipt.ended = EndCause::Stalled, Outcome::Stalled),
            (|receipt, _| receipt.exit = None, Outcome::Crashed),
            (
                |receipt, _| {
                    let reading = receipt.reading.as_mut().expect("a good run has one");
                    reading.terminal = Some(Terminal::Error);
                },
                Outcome::Crashed,
            ),
            (
                |receipt, _| {
                    let reading = receipt.reading.as_mut().expect("a good run has one");
                    reading.reports =
                        vec![AgentReport::NeedsPerson { question: "which?".to_owned() }];
                },
                Outcome::NeedsPerson,
            ),
            (|_, evidence| evidence.denied = vec![".env".to_owned()], Outcome::Policy),
            (
                |_, evidence| (evidence.head, evidence.commits) = ("a".to_owned(), 0),
                Outcome::VerifyFailed,
            ),
        ];
        for (number, (change, outcome)) in broken.into_iter().enumerate() {
            let receipt = with(|receipt, evidence| {
                complete(receipt, evidence);
                change(receipt, evidence);
            });
            let classification = classify(&receipt, &STEP);
            assert_eq!(classification.outcome, outcome, "{number}: {classification:?}");
        }
    }

    #[test]
    fn a_criterion_in_prose_leaves_a_success_open_until_somebody_has_judged() {
        let asked = |opinion: Option<EvaluatorOpinion>| {
            with(|receipt, evidence| {
                evidence.criterion = Some("every page has a text".to_owned());
                receipt.opinion = opinion;
            })
        };
        let nobody = expect(
            &asked(None),
            Outcome::NeedsPerson,
            "no evaluator has judged: every page has a text",
        );
        assert_eq!((nobody.class, nobody.ambiguous), (Some(FailureClass::NeedsPerson), true));
        let no = expect(&asked(opinion(false)), Outcome::VerifyFailed, "two of three pages");
        assert_eq!((no.class, no.ambiguous), (Some(FailureClass::Model), true));
        assert!(expect(&asked(opinion(true)), Outcome::Succeeded, "done").ambiguous);
    }

    #[test]
    fn a_criterion_is_not_judged_where_the_facts_speak() {
        for change in [
            (|evidence| evidence.missing = vec!["a".to_owned()]) as fn(&mut Evidence),
            |evidence| evidence.signal = signal(false, false, None),
            |evidence| evidence.denied = vec![".env".to_owned()],
        ] {
            let receipt = with(|_, evidence| {
                evidence.criterion = Some("every page has a text".to_owned());
                change(evidence);
            });
            assert!(!is_ambiguous(&receipt, &STEP));
        }
    }

    /// An open end that the evaluator accepts must meet the same requirements.
    #[test]
    fn an_open_end_has_to_bring_it_as_well() {
        let open = |change: fn(&mut Evidence)| {
            with(|receipt, evidence| {
                receipt.reading = Some(StreamSummary::default());
                receipt.opinion = opinion(true);
                change(evidence);
            })
        };
        expect(&open(|_| {}), Outcome::Succeeded, "");
        let missing = open(|evidence| evidence.missing = vec!["a.md".to_owned()]);
        expect(&missing, Outcome::VerifyFailed, "a.md");
        let silent = open(|evidence| evidence.signal = signal(false, false, None));
        expect(&silent, Outcome::VerifyFailed, "was not given");
    }
}
