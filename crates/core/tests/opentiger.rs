//! The cases that openTiger tests its own rules with, as tables of what Banksman makes of each.
//! A row that differs on purpose says so; `docs/reference/roads.md` has the same list in words.

use banksman_core::failure::{
    Classification, Deliverable, FailureClass, PastFailure, ProofLevel, RetryDecision, RetryPolicy,
    RunExpectation, classify, next, signature,
};
use banksman_core::lifecycle::Outcome;
use banksman_core::quota::{pause_after_hit, reset_time};
use banksman_core::receipt::{
    CheckResult, EndCause, Evidence, Fault, FaultKind, PrepareFault, ProcessExit, Receipt,
    StreamSummary, Terminal,
};
use banksman_core::schedule::{areas, overlap};
use banksman_core::time::{Instant, Span};
use jiff::tz::TimeZone;

const NOW: Instant = Instant(1_771_594_895_000);

/// What a run shows of a failure.
enum Shown {
    /// A check with this exit code and this output.
    Check(i32, &'static str),
    /// The worktree could not be set up.
    NotSetUp(PrepareFault),
    /// A fault that the agent's stream names.
    Fault(FaultKind),
    /// Only words of an agent that failed.
    Words(&'static str),
    /// A change outside of the allowed paths.
    Outside(&'static str),
    Claim(&'static str),
}

fn receipt(shown: &Shown) -> Receipt {
    let mut receipt = Receipt::new("r1.1", NOW, EndCause::Completed);
    receipt.exit = Some(ProcessExit { code: Some(0), signal: None });
    let mut said = StreamSummary {
        terminal: Some(Terminal::Success),
        text: "done".to_owned(),
        ..StreamSummary::default()
    };
    let (base, head) = ("a".repeat(40), "b".repeat(40));
    let mut found = Evidence {
        head_before: base.clone(),
        base,
        head: head.clone(),
        commits: 1,
        files: 1,
        ..Evidence::default()
    };
    match shown {
        Shown::Check(code, tail) => found.checks.push(CheckResult {
            command: "make test".to_owned(),
            head,
            exit: ProcessExit { code: Some(*code), signal: None },
            millis: 1,
            tail: (*tail).to_owned(),
        }),
        Shown::NotSetUp(class) => {
            receipt.ended = EndCause::NotPrepared { detail: "no".to_owned(), class: *class };
        }
        Shown::Fault(kind) => {
            said.terminal = Some(Terminal::Error);
            let detail = "refused".to_owned();
            said.fault = Some(Fault { kind: *kind, detail, structured: true });
        }
        Shown::Words(text) => {
            said.terminal = Some(Terminal::Error);
            (*text).clone_into(&mut said.text);
            receipt.exit = Some(ProcessExit { code: Some(1), signal: None });
        }
        Shown::Outside(path) => found.outside.push((*path).to_owned()),
        Shown::Claim(text) => {
            (*text).clone_into(&mut said.text);
            (found.commits, found.head) = (0, found.base.clone());
        }
    }
    receipt.reading = Some(said);
    receipt.evidence = Some(found);
    receipt
}

fn classified(shown: &Shown) -> Classification {
    let asked = RunExpectation { expects: Deliverable::Change, schema_given: false };
    classify(&receipt(shown), &asked)
}

/// Their case, what a run shows of it, our class, and our retries. Theirs retry no `setup` that a
/// verify command shows; a person is asked sooner there.
#[test]
fn failure_classifier() {
    let missing_script = "ERR_PNPM_NO_SCRIPT Missing script: verify";
    let cases = [
        ("a command in a format that cannot run", Shown::Check(127, "not found"), "setup", 3),
        ("a missing make target", Shown::Check(2, "No rule to make target 'verify'"), "setup", 3),
        ("a missing script", Shown::Check(1, missing_script), "setup", 3),
        ("no test files", Shown::Check(1, "No test files found, exiting with code 1"), "setup", 3),
        ("commands that need a shell", Shown::Check(126, "cannot execute"), "setup", 3),
        ("bootstrap", Shown::NotSetUp(PrepareFault::Setup), "setup", 3),
        ("a failed verification", Shown::Check(1, "2 of 30 failed"), "test", 3),
        ("a denied permission", Shown::Fault(FaultKind::Permission), "permission", 0),
        // They find the permission in prose; here an agent's prose cannot make a task hopeless.
        (
            "a permission in prose",
            Shown::Words("Permission required: external_directory"),
            "model",
            3,
        ),
        // As their cycle manager has it, and not as their core has it.
        ("a missing script in prose", Shown::Words(missing_script), "model", 3),
        ("an unknown failure", Shown::Words("something went wrong"), "model", 3),
        ("a policy violation", Shown::Outside("Makefile"), "policy", 3),
        ("nothing to do", Shown::Claim("No changes needed."), "noop", 0),
        ("a fault of the server", Shown::Fault(FaultKind::Transient), "flaky", 6),
        // Theirs is `env` with 5; here an account is paused, and the task keeps its retries.
        ("a used-up quota", Shown::Fault(FaultKind::Quota), "quota", 50),
    ];
    let rules = RetryPolicy::default().rules;
    for (case, shown, class, retries) in cases {
        let found = classified(&shown).class.unwrap_or_else(|| panic!("{case} is a failure"));
        assert_eq!((found.as_str(), rules[&found].retries), (class, retries), "{case}");
    }
}

#[test]
fn the_violations_of_a_policy_are_named() {
    let found = classified(&Shown::Outside("Makefile"));
    assert_eq!(found.outcome, Outcome::Policy);
    assert!(found.detail.contains("Makefile"), "{}", found.detail);
}

#[test]
fn a_signature_begins_with_its_class() {
    let found = classified(&Shown::Check(1, "stderr unavailable")).signature;
    let found = found.expect("a failure has one");
    assert_eq!(found.split(':').next(), Some("test"), "{found}");
    assert_eq!(signature("test", "7 failed in 12 ms"), signature("test", "9 failed in 31 ms"));
}

/// Their limits by category; `env` is 10 here, because the machine's faults use up no retries of
/// the task and have a bound of their own.
#[test]
fn failure_retry_policy() {
    let theirs = [
        ("permission", 0, 0),
        ("noop", 0, 0),
        ("policy", 3, 3),
        ("setup", 3, 3),
        ("env", 5, 10),
        ("test", 3, 3),
        ("flaky", 6, 6),
        ("model_loop", 1, 1),
        ("model", 3, 3),
    ];
    let rules = RetryPolicy::default().rules;
    for (name, _, ours) in theirs {
        let class: FailureClass = name.parse().expect("both have it");
        assert_eq!(rules[&class].retries, ours, "{name}");
    }
    let named = theirs.map(|(name, _, _)| name);
    let own = FailureClass::ALL.into_iter().filter(|class| !named.contains(&class.as_str()));
    let own: Vec<&str> = own.map(FailureClass::as_str).collect();
    let added =
        ["auth", "quota", "budget", "stall", "needs_person", "infra", "session", "unusable"];
    assert_eq!(own, added, "classes that openTiger does not have");
    let differing: Vec<&str> =
        theirs.iter().filter(|(_, one, other)| one != other).map(|(name, ..)| *name).collect();
    assert_eq!(differing, ["env"]);
}

#[test]
fn a_limit_over_all_classes_caps_that_of_a_class() {
    let policy = RetryPolicy { most: Some(2), ..RetryPolicy::default() };
    let retries = |class: FailureClass| {
        let policy = policy.clone();
        (0..10_usize).take_while(move |before| {
            let past: Vec<PastFailure> = (0..*before)
                .map(|at| PastFailure { class: Some(class), signature: Some(at.to_string()) })
                .collect();
            let failed = Classification {
                outcome: Outcome::Transient,
                class: Some(class),
                level: ProofLevel::Claimed,
                detail: String::new(),
                signature: Some("another".to_owned()),
                resets_at: None,
                ambiguous: false,
            };
            matches!(next(&policy, &failed, &past, "t1", NOW), RetryDecision::Retry { .. })
        })
    };
    assert_eq!(retries(FailureClass::Flaky).count(), 2);
    assert_eq!(retries(FailureClass::Permission).count(), 0);
}

/// A clock time is today's, or tomorrow's if it has passed, to the second.
#[test]
fn quota_retry() {
    let at = |text: &str| text.parse::<Instant>().expect("a time");
    let cases = [
        ("2026-02-20T13:41:35Z", "1:50 PM", 505_000),
        ("2026-02-20T13:41:35Z", "1:10 PM", 84_505_000),
        ("2026-02-20T13:00:00Z", "2:00 PM", 3_600_000),
    ];
    for (now, clock, wait) in cases {
        let text = format!("You've hit your usage limit. Try again at {clock}.");
        let resets = reset_time(&text, at(now), &TimeZone::UTC, &|_| None);
        assert_eq!(resets, Some(at(now).plus(Span(wait))), "{now} {clock}");
        // An explicit time has no jitter.
        let pause = pause_after_hit(None, resets, at(now), "task-1");
        assert_eq!(pause.until, at(now).plus(Span(wait)));
    }
}

/// The named area, the touched and the allowed paths, and the areas.
type Case<'a> = (Option<&'a str>, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

#[test]
fn target_area() {
    let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    let judge = ["apps/judge/src/judge-loops.ts", "apps/judge/src/judge-retry.ts"];
    let cases: [Case<'_>; 6] = [
        (Some("docser:global"), &["docs/guide.md"], &["docs/**"], &["docser:global"]),
        (None, &judge, &["apps/**"], &["path:apps/judge"]),
        (None, &[], &["packages/core/**"], &["path:packages/core"]),
        // There is no kind `research` here; whoever adds the task names the area.
        (Some("research:job-123"), &[], &[], &["research:job-123"]),
        // Theirs has none. Who touches everything collides with everybody.
        (None, &["**"], &["*"], &["path:."]),
        // Theirs takes the first area only, so that two tasks can collide in the second.
        (None, &["apps/api/a.ts", "apps/web/b.ts"], &[], &["path:apps/api", "path:apps/web"]),
    ];
    for (target, touches, allowed, expected) in cases {
        let found = areas(target, &paths(touches), &paths(allowed));
        let found: Vec<&str> = found.iter().map(|area| area.0.as_str()).collect();
        assert_eq!(found, expected, "{target:?} {touches:?} {allowed:?}");
    }
    assert_eq!(areas(None, &[], &paths(&["*"])), [], "a permission names no area");
}

/// Of their lanes, Banksman has the one rule that keeps work from colliding.
#[test]
fn lane_policy() {
    let area = |path: &str| areas(Some(path), &[], &[]);
    let (api, judge) = (area("apps/api"), area("apps/judge"));
    assert!(overlap(&api, &api).is_some(), "not two tasks in one area");
    assert!(overlap(&api, &judge).is_none());
}
