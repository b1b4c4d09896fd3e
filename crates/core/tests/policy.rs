//! Permissions read from the history of a task, and loops in it.

use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::{AnswerEffect, AnswerName, Note};
use banksman_core::loops::{LoopSample, RepeatedFailures, back_and_forth};
use banksman_core::machine::{Actor, Record};
use banksman_core::policy::{Action, grants, with_permission};
use serde_json::{Map, Value, json};

fn record(by: &str, from: &str, to: &str, trigger: &str, fields: Value) -> Record {
    let fields = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let actor: Actor = by.parse().expect("an actor");
    let (from, to) = (Some(from.to_owned()), to.to_owned());
    Record { from, to, trigger: trigger.to_owned(), actor, fields }
}

fn asked() -> Record {
    let text = "RED: run \"git push --force\"\n- why";
    record(
        "system",
        "IN_PROGRESS",
        "NEEDS_APPROVAL",
        "escalate",
        json!({ "approvalRequest": text }),
    )
}

/// The granted actions after these records, as commands.
fn allowed(records: &[Record]) -> Vec<String> {
    let lifecycle = builtin::get("mission", &Overrides::new()).expect("it is built in");
    let lifecycle = lifecycle.expect("it is sound");
    let numbered = (1..).zip(records);
    let actions = grants(&lifecycle, numbered).into_iter().flat_map(|grant| grant.actions);
    actions.map(|action| action.parts().1.to_owned()).collect()
}

#[test]
fn a_persons_yes_to_a_request_is_leave_for_it() {
    let yes = record("human:kim", "NEEDS_APPROVAL", "IN_PROGRESS", "resume", json!({}));
    assert_eq!(allowed(&[asked(), yes.clone()]), ["git push --force"]);
    let noted =
        record("human:kim", "NEEDS_APPROVAL", "NEEDS_APPROVAL", Note::Allow.as_str(), json!({}));
    assert_eq!(allowed(&[asked(), noted.clone()]), ["git push --force"]);
    assert_eq!(
        grants(
            &builtin::get("mission", &Overrides::new()).expect("built in").expect("sound"),
            [(4, &asked()), (5, &yes)],
        )[0]
        .seq,
        5
    );

    // Nothing else is.
    for (what, records) in [
        ("no answer", vec![asked()]),
        (
            "another answer",
            vec![asked(), record("human:kim", "NEEDS_APPROVAL", "INBOX", "return", json!({}))],
        ),
        (
            "a cancel",
            vec![asked(), record("human:kim", "NEEDS_APPROVAL", "CANCELED", "cancel", json!({}))],
        ),
        (
            "an agent's yes",
            vec![asked(), record("lead:lu", "NEEDS_APPROVAL", "IN_PROGRESS", "resume", json!({}))],
        ),
        (
            "a run's note",
            vec![
                asked(),
                record(
                    "run:r1.2",
                    "NEEDS_APPROVAL",
                    "NEEDS_APPROVAL",
                    Note::Allow.as_str(),
                    json!({}),
                ),
            ],
        ),
        ("a yes to nothing", vec![yes.clone()]),
        (
            "a note later on",
            vec![
                asked(),
                record("human:kim", "NEEDS_APPROVAL", "INBOX", "return", json!({})),
                record("human:kim", "INBOX", "INBOX", Note::Allow.as_str(), json!({})),
            ],
        ),
        (
            "a request that no question was asked with",
            vec![
                record(
                    "specialist:ada",
                    "ASSIGNED",
                    "IN_PROGRESS",
                    "start",
                    json!({ "feedback": "RED: run \"sudo\"" }),
                ),
                record("human:kim", "IN_PROGRESS", "IN_PROGRESS", Note::Allow.as_str(), json!({})),
            ],
        ),
    ] {
        assert_eq!(allowed(&records), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn only_the_newest_request_is_allowed() {
    let other = record(
        "system",
        "IN_PROGRESS",
        "NEEDS_APPROVAL",
        "escalate",
        json!({ "approvalRequest": "YELLOW: use \"WebFetch\"" }),
    );
    let back = record("human:kim", "NEEDS_APPROVAL", "INBOX", "return", json!({}));
    let yes = record("human:kim", "NEEDS_APPROVAL", "IN_PROGRESS", "resume", json!({}));
    assert_eq!(allowed(&[asked(), back, other, yes]), ["WebFetch"]);
    assert_eq!(Action::Use("x".to_owned()).parts(), ("use", "x"));
}

#[test]
fn leave_that_is_taken_back_before_an_agent_works_is_none() {
    let yes = record("human:kim", "NEEDS_APPROVAL", "IN_PROGRESS", "resume", json!({}));
    let back = |by: &str| record(by, "IN_PROGRESS", "NEEDS_APPROVAL", "escalate", json!({}));
    let claim =
        record("specialist:ada", "IN_PROGRESS", "IN_PROGRESS", "claim", json!({ "epoch": 2 }));
    assert_eq!(allowed(&[asked(), yes.clone(), back("human:kim")]), [""; 0]);
    assert_eq!(allowed(&[asked(), yes.clone(), back("system")]), ["git push --force"]);
    assert_eq!(allowed(&[asked(), yes, claim, back("human:kim")]), ["git push --force"]);
}

#[test]
fn a_request_is_answered_with_leave_where_no_answer_gives_it() {
    let offers = |words: &[&str]| -> Vec<(String, String)> {
        words.iter().map(|word| ((*word).to_owned(), format!("by {word}"))).collect()
    };
    let words = |words: &[&str], opened: &Record| -> Vec<(String, String)> {
        with_permission(&offers(words), opened)
    };
    let leave = (Note::Allow.to_string(), "by resume".to_owned());
    assert_eq!(words(&["cancel", "resume"], &asked())[0], leave);
    for plain in [&["approve", "resume"][..], &["cancel"]] {
        assert_eq!(words(plain, &asked()), offers(plain), "{plain:?}");
    }
    let other = record("system", "a", "b", "escalate", json!({ "question": "RED herring" }));
    assert_eq!(words(&["resume"], &other), offers(&["resume"]));
}

#[test]
fn the_same_failure_three_times_in_a_row_is_a_loop() {
    let mut failures = RepeatedFailures::default();
    let mut fail = |what: &str, said: &str| {
        failures.record_call("1", what, true);
        failures.record_result("1", false, said, 3)
    };
    assert_eq!(fail("run make", "no rule"), None);
    assert_eq!(fail("run make", "no rule"), None);
    let summary = fail("run make", "no rule").expect("the third time");
    assert_eq!(
        summary,
        "Loop: the same call has failed 3 times.\nCall: run make\nLast message: no rule"
    );
}

#[test]
fn a_failure_that_changes_or_work_in_between_is_none() {
    let mut failures = RepeatedFailures::default();
    for round in 0..10 {
        // Tests fail, something is edited, they fail again: that is work.
        failures.record_call("t", "run cargo test", true);
        assert_eq!(failures.record_result("t", false, "1 failed", 3), None, "{round}");
        failures.record_call("e", "write src/a.rs", true);
        assert_eq!(failures.record_result("e", true, "", 3), None);
    }
    let mut failures = RepeatedFailures::default();
    for round in 0..10 {
        failures.record_call("t", "run cargo test", true);
        assert_eq!(failures.record_result("t", false, &format!("{round} failed"), 3), None);
    }
}

#[test]
fn looking_again_between_two_failures_changes_nothing() {
    let mut failures = RepeatedFailures::default();
    let mut found = None;
    for _ in 0..3 {
        failures.record_call("e", "write src/a.rs", true);
        found = failures.record_result("e", false, "the text is not there", 3);
        failures.record_call("r", "read src/a.rs", false);
        assert_eq!(failures.record_result("r", true, "text", 3), None);
    }
    assert!(found.is_some());
}

#[test]
fn results_find_their_calls_by_id_or_by_order() {
    let mut failures = RepeatedFailures::default();
    for number in 0..3 {
        failures.record_call("a", "use x", false);
        failures.record_call("b", "use y", false);
        assert_eq!(failures.record_result("b", true, "", 3), None);
        assert_eq!(
            failures.record_result("", false, "no", 3).is_some(),
            number == 2,
            "the oldest is meant"
        );
    }
    assert_eq!(failures.record_result("unknown", false, "no", 2), None);
    for number in 0..10_000 {
        failures.record_call(&number.to_string(), "never ends", false);
    }
}

fn to_and_fro(times: usize) -> Vec<Record> {
    let there = record("system", "work", "review", "done", json!({}));
    let back = record("system", "review", "work", "rework", json!({ "feedback": "not yet" }));
    (0..times).flat_map(|_| [there.clone(), back.clone()]).collect()
}

fn looped(records: &[Record], produces: impl Fn(usize) -> bool) -> Option<String> {
    let turns = records.iter().enumerate();
    let turns: Vec<LoopSample<'_>> =
        turns.map(|(at, record)| LoopSample { record, has_new_work: produces(at) }).collect();
    back_and_forth(&turns, 3)
}

#[test]
fn to_and_fro_three_times_without_anything_new_is_a_loop() {
    assert_eq!(looped(&to_and_fro(2), |_| false), None);
    let summary = looped(&to_and_fro(3), |_| false).expect("three times");
    assert!(
        summary.starts_with("Loop: moved back and forth between work and review 3 times"),
        "{summary}"
    );
    assert!(summary.contains("- work by system (rework) not yet"), "{summary}");
    // A repeated message is no change, so the later records do not contain it.
    let mut repeated = to_and_fro(3);
    let reworks = repeated.iter_mut().filter(|record| record.trigger == "rework");
    reworks.skip(1).for_each(|record| record.fields.clear());
    assert_eq!(looped(&repeated, |_| false), Some(summary));

    assert_eq!(looped(&to_and_fro(5), |at| at == 5), None, "a commit in between is progress");
    let mut seen = to_and_fro(3);
    seen.insert(2, record("human:kim", "work", "work", "note", json!({})));
    assert_eq!(looped(&seen, |_| false), None, "a person has looked");
    let mut elsewhere = to_and_fro(2);
    elsewhere.push(record("system", "work", "blocked", "block", json!({})));
    elsewhere.push(record("system", "blocked", "work", "unblock", json!({})));
    assert_eq!(looped(&elsewhere, |_| false), None, "it was somewhere else");
    let mut heartbeats = to_and_fro(3);
    heartbeats.insert(3, record("system", "review", "review", "again", json!({})));
    assert!(looped(&heartbeats, |_| false).is_some(), "what stays in its place is no move");
}

/// What grants a request also continues the work, so whoever permits an action has an answer.
#[test]
fn every_answer_that_grants_can_be_given_with_a_permission() {
    let effects = [AnswerEffect::Grants, AnswerEffect::Continues];
    for word in ["approve", "allow", "yes", "pass", "resume", "unblock", "retry"] {
        let offers = [("cancel", "no"), (word, "on")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(AnswerName::clearest(&offers, &effects), Some(&offers[1]), "{word}");
    }
    let both = ["unblock", "resume", "pass"].map(|word| (word.to_owned(), word.to_owned()));
    assert_eq!(AnswerName::clearest(&both, &effects), Some(&both[2]));
    assert_eq!(AnswerName::clearest(&both, &[AnswerEffect::Continues]), Some(&both[1]));
    assert_eq!(AnswerName::clearest(&both[..0], &effects), None);
}
