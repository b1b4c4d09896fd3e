//! Classifies a check job: somebody reported a task as done, and the evidence says whether it is.
//!
//! The report itself does not count. A criterion in prose is left to the evaluator or, without one,
//! to a person.

use super::classify::DETAIL_BYTES;
use super::step::{self, CriterionResult};
use super::work;
use crate::lifecycle::Outcome;
use crate::receipt::{EvaluatorOpinion, Evidence};
use crate::text::start_of;

/// The result of a check job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    pub outcome: Outcome,
    /// What contradicts it, for the person or agent that reported the task as done.
    pub detail: String,
    /// Whether the facts leave it to an evaluator, so that asking one is worth its cost.
    pub ambiguous: bool,
}

/// Facts come first: the evaluator's opinion counts only if no fact contradicts it.
pub fn check(evidence: &Evidence, opinion: Option<&EvaluatorOpinion>) -> CheckOutcome {
    let checked = |outcome, detail: &str, ambiguous| {
        let detail = start_of(detail.trim(), DETAIL_BYTES).to_owned();
        CheckOutcome { outcome, detail, ambiguous }
    };
    if let Some(mut detail) = contradiction(evidence) {
        // For example, that the work was on another branch, which explains why it was not found.
        for note in &evidence.notes {
            detail += &format!("\n({note})");
        }
        return checked(Outcome::Failed, &detail, false);
    }
    match step::judge_criterion(evidence, opinion) {
        None => checked(Outcome::Passed, "", false),
        Some(CriterionResult::Met) => checked(Outcome::Passed, "", true),
        Some(CriterionResult::NotMet(unmet)) => checked(Outcome::Failed, &unmet.detail, true),
        Some(CriterionResult::NotJudged(detail)) => checked(Outcome::Exhausted, &detail, true),
    }
}

fn contradiction(evidence: &Evidence) -> Option<String> {
    let missing = || {
        let unmet = step::unmet(evidence).or_else(|| step::unchecked(evidence));
        unmet.map(|unmet| unmet.detail)
    };
    let failed = || evidence.checks.iter().find(|check| !check.passed()).map(work::describe_check);
    work::forbidden_paths(evidence).or_else(missing).or_else(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::{CheckResult, ProcessExit};

    fn ran(command: &str, code: i32) -> CheckResult {
        let exit = ProcessExit { code: Some(code), signal: None };
        let (command, tail) = (command.to_owned(), "2 of 3 failed\n".to_owned());
        CheckResult { command, head: "b".to_owned(), exit, millis: 1, tail }
    }

    fn opinion(done: bool) -> EvaluatorOpinion {
        let reason = "two pages are empty".to_owned();
        EvaluatorOpinion { done, reason }
    }

    #[track_caller]
    fn expect(
        evidence: &Evidence,
        said: Option<&EvaluatorOpinion>,
        outcome: Outcome,
        detail: &str,
    ) -> bool {
        let checked = check(evidence, said);
        assert_eq!(checked.outcome, outcome, "{checked:?}");
        assert!(checked.detail.contains(detail), "{checked:?}");
        checked.ambiguous
    }

    #[test]
    fn without_anything_against_it_it_has_passed() {
        let evidence = Evidence { checks: vec![ran("make", 0)], ..Evidence::default() };
        assert!(!expect(&evidence, None, Outcome::Passed, ""));
        assert!(!expect(&Evidence::default(), None, Outcome::Passed, ""));
    }

    /// An evaluator's opinion does not count against the facts.
    #[test]
    fn facts_speak_for_themselves() {
        type Break = fn(&mut Evidence);
        let broken: [(Break, &str); 6] = [
            (|found| found.missing = vec!["a.md".to_owned()], "missing output: a.md"),
            (|found| found.denied = vec!["keys/a".to_owned()], "denied: keys/a"),
            (|found| found.outside = vec!["b".to_owned()], "not allowed: b"),
            (|found| found.unchecked = Some("a reason".to_owned()), "did not run: a reason"),
            (
                |found| found.checks = vec![CheckResult { tail: String::new(), ..ran("make", 2) }],
                "`make` exited with code 2\n(it was on another branch)",
            ),
            (
                |found| found.checks = vec![ran("true", 0), ran("make", 2)],
                "`make` exited with code 2:\n2 of 3 failed\n(it was on another branch)",
            ),
        ];
        for (change, detail) in broken {
            let mut evidence = Evidence {
                criterion: Some("every page has a text".to_owned()),
                notes: vec!["it was on another branch".to_owned()],
                ..Evidence::default()
            };
            change(&mut evidence);
            for said in [None, Some(&opinion(true))] {
                assert!(!expect(&evidence, said, Outcome::Failed, detail));
            }
        }
    }

    #[test]
    fn a_criterion_in_prose_is_a_judges_and_without_one_a_persons() {
        let criterion = Some("every page has a text".to_owned());
        let evidence = Evidence { criterion, ..Evidence::default() };
        let no = "`every page has a text` is not met: two pages are empty";
        assert!(expect(&evidence, Some(&opinion(false)), Outcome::Failed, no));
        assert!(expect(&evidence, Some(&opinion(true)), Outcome::Passed, ""));
        let nobody = "no evaluator has judged: every page has a text";
        assert!(expect(&evidence, None, Outcome::Exhausted, nobody));
    }
}
