//! Reads the evidence: how well the work is verified, and what contradicts it.

use super::step::Unmet;
use super::{FailureClass, ProofLevel, has_any, last_lines};
use crate::limits;
use crate::receipt::{CheckResult, Evidence, ProcessExit};
use crate::text::{end_of, start_of};

/// Paths in one message.
const PATHS: usize = 20;
/// How much of a path or a command a message shows.
const NAME_BYTES: usize = 200;
/// Lines at the end of a check's output, where programs say why they stop.
const LAST_LINES: usize = 12;

/// Verified if all checks passed on exactly the head, observed if there are commits, otherwise
/// claimed.
pub(super) fn level(evidence: Option<&Evidence>) -> ProofLevel {
    let Some(evidence) = evidence.filter(|evidence| evidence.commits > 0) else {
        return ProofLevel::Claimed;
    };
    let passed_here = |check: &CheckResult| check.passed() && ran_on_head(evidence, check);
    if !evidence.checks.is_empty() && evidence.checks.iter().all(passed_here) {
        ProofLevel::Verified
    } else {
        ProofLevel::Observed
    }
}

/// A check of another commit proves nothing.
fn ran_on_head(evidence: &Evidence, check: &CheckResult) -> bool {
    !evidence.head.is_empty() && check.head == evidence.head
}

/// A message about the changed paths that may not be changed.
pub(super) fn forbidden_paths(evidence: &Evidence) -> Option<String> {
    let groups = [("denied", &evidence.denied), ("not allowed", &evidence.outside)];
    let parts: Vec<String> = groups
        .into_iter()
        .filter(|(_, paths)| !paths.is_empty())
        .map(|(what, paths)| format!("{what}: {}", list(paths)))
        .collect();
    (!parts.is_empty()).then(|| format!("the run changed paths that are {}", parts.join("; ")))
}

pub(super) fn list(paths: &[String]) -> String {
    let named: Vec<&str> =
        paths.iter().take(PATHS).map(|path| start_of(path, NAME_BYTES)).collect();
    match paths.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A check that failed on the head.
pub(super) fn failed_check(evidence: &Evidence) -> Option<(FailureClass, Unmet)> {
    let check =
        evidence.checks.iter().find(|check| !check.passed() && ran_on_head(evidence, check))?;
    let command = start_of(&check.command, NAME_BYTES);
    let last = last_lines(tail(check), LAST_LINES).join(" ");
    let basis = format!("{command} {} {last}", ended(check.exit));
    Some((class_of(check), Unmet { detail: describe_check(check), basis }))
}

/// A command with its exit and the end of its output.
pub(super) fn describe_check(check: &CheckResult) -> String {
    let ended = format!("`{}` {}", start_of(&check.command, NAME_BYTES), ended(check.exit));
    match tail(check) {
        "" => ended,
        tail => format!("{ended}:\n{tail}"),
    }
}

fn tail(check: &CheckResult) -> &str {
    end_of(&check.tail, limits::CHECK_TAIL_BYTES / 2).trim()
}

/// How a program ended, as part of a sentence.
pub(super) fn ended(exit: ProcessExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "left no exit status".to_owned(),
    }
}

/// A check that could not run says nothing about the work.
fn class_of(check: &CheckResult) -> FailureClass {
    /// The exit codes of a shell for a program that it cannot run or find.
    const NOT_RUN: [i32; 2] = [126, 127];
    // Phrases, separated by commas.
    const SETUP: &str = "no test files found, no tests found, no tests ran, no tests to run, \
        no test specified, missing script, script not found, err_pnpm_no_script, \
        no makefile found, does not contain recipe, no such command, unknown command, \
        : no module named pytest, command not found, no rule to make target";
    const MACHINE: &str = "no space left on device, cannot allocate memory";
    let lines = last_lines(&check.tail, LAST_LINES);
    // A file that a make rule needs is missing from the work, not from the setup.
    let says = |phrases: &str| {
        let fits = |line: &&str| has_any(line, phrases) && !has_any(line, "needed by");
        lines.iter().any(fits)
    };
    if check.exit.code.is_some_and(|code| NOT_RUN.contains(&code)) || says(SETUP) {
        FailureClass::Setup
    } else if says(MACHINE) {
        FailureClass::Env
    } else {
        FailureClass::Test
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, tail: &str) -> CheckResult {
        let exit = ProcessExit { code: Some(code), signal: None };
        let (command, head) = ("make test".to_owned(), "b".repeat(40));
        CheckResult { command, head, exit, millis: 1, tail: tail.to_owned() }
    }

    #[test]
    fn checks_that_could_not_try_are_faults_of_the_set_up() {
        for (code, tail) in [
            (127, "sh: 1: cargo: not found"),
            (126, "sh: 1: ./test: Permission denied"),
            (1, "No test files found, exiting with code 1"),
            (1, "No tests found, exiting with code 1"),
            (5, "==== no tests ran in 0.01s ===="),
            (1, "npm error Missing script: \"check\""),
            (1, "ERR_PNPM_NO_SCRIPT  Missing script: check"),
            (1, "error: Script not found \"check\""),
            (1, "Error: no test specified"),
            (2, "make: *** No rule to make target 'check'.  Stop."),
            (2, "make: *** No targets specified and no makefile found.  Stop."),
            (1, "error: Justfile does not contain recipe `check`."),
            (101, "error: no such command: `nextest`"),
            (1, "/usr/bin/python3: No module named pytest"),
        ] {
            assert_eq!(class_of(&check(code, tail)), FailureClass::Setup, "{tail}");
        }
    }

    #[test]
    fn a_failing_test_is_a_fault_of_the_work() {
        let early = format!("No tests found in docs\n{}", "ok\n".repeat(20));
        for tail in [
            "",
            "test result: FAILED. 3 passed; 1 failed",
            "ModuleNotFoundError: No module named 'login'",
            "make: *** No rule to make target 'a.h', needed by 'a.o'.  Stop.",
            early.as_str(),
        ] {
            assert_eq!(class_of(&check(1, tail)), FailureClass::Test, "{tail}");
        }
        assert_eq!(class_of(&check(1, "write: No space left on device")), FailureClass::Env);
    }

    #[test]
    fn only_a_check_of_the_head_proves_something() {
        let head = "b".repeat(40);
        let passed = check(0, "");
        let stale = CheckResult { head: "a".repeat(40), ..check(0, "") };
        let stale_failure = CheckResult { head: "a".repeat(40), ..check(1, "boom") };
        let work = |commits: u32, checks: &[&CheckResult]| Evidence {
            head: head.clone(),
            commits,
            checks: checks.iter().map(|check| (*check).clone()).collect(),
            ..Evidence::default()
        };
        assert_eq!(level(None), ProofLevel::Claimed);
        assert_eq!(level(Some(&work(0, &[&passed]))), ProofLevel::Claimed);
        assert_eq!(level(Some(&work(1, &[]))), ProofLevel::Observed);
        assert_eq!(level(Some(&work(1, &[&passed]))), ProofLevel::Verified);
        assert_eq!(level(Some(&work(1, &[&passed, &stale]))), ProofLevel::Observed);
        assert_eq!(level(Some(&work(1, &[&passed, &check(1, "")]))), ProofLevel::Observed);
        assert!(failed_check(&work(1, &[&stale_failure])).is_none());
        assert!(failed_check(&work(1, &[&passed, &check(1, "boom")])).is_some());
        let nowhere = Evidence { head: String::new(), ..work(1, &[]) };
        let checks = vec![CheckResult { head: String::new(), ..passed }];
        assert_eq!(level(Some(&Evidence { checks, ..nowhere })), ProofLevel::Observed);
    }

    #[test]
    fn long_lists_of_paths_are_cut() {
        let paths: Vec<String> =
            (0..500).map(|number| format!("{number}{}", "x".repeat(5_000))).collect();
        let evidence =
            Evidence { denied: vec![".env".to_owned()], outside: paths, ..Evidence::default() };
        let told = forbidden_paths(&evidence).expect("there are such paths");
        assert!(
            told.starts_with("the run changed paths that are denied: .env; not allowed: 0x"),
            "{told}"
        );
        assert!(told.ends_with(" and 480 more"), "{told}");
        assert!(told.len() < 4_500, "{}", told.len());
    }
}
