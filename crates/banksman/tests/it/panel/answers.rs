//! What the first pass comes to, also when reviewers answer badly, late or not at all.

use std::fs;

use banksman_core::time::Span;

use super::table::{MINUTE, Table, approval, pairs, review, verdict};
use crate::engine::driver::NODE;
use crate::engine::processes::wait_until;

#[test]
fn what_all_approve_is_approved() {
    let table = Table::new(&[], &[("any", &approval())], &[]);
    table.driver.turn();
    assert_eq!(table.assignments().len(), 2, "all are asked at once");
    table.until_over("approved");
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "APPROVE"), ("critic", "APPROVE")]));
    let verdicts = table.field("verdicts");
    assert_eq!(
        (&verdicts[0]["worker"], &verdicts[0]["agent"]),
        (&"scripted".into(), &"command".into())
    );
    assert_eq!(
        (&verdicts[1]["task"], &verdicts[1]["rationale"]),
        (&"t3".into(), &"it is good".into())
    );
    assert!(table.field("concerns").is_null() && table.field("review_summary").is_null());
    let told = table.prompt("r2.1");
    assert!(told.contains("You are custodiet") && told.contains("You guard the limits"), "{told}");
    assert!(!told.contains("critic"), "nobody hears of the others: {told}");
}

/// Goes on when the test says so; after a minute in any case.
const WHEN_TOLD: &str =
    "run for i in $(seq 1200); do [ ! -f \"$YARD/go\" ] || break; sleep 0.05; done\n";

#[test]
fn a_block_sends_the_others_home_at_once() {
    let block = verdict("BLOCK", "nobody asked for red", &["it is red, not green"]);
    let block = format!("{WHEN_TOLD}{block}");
    let table = Table::new(&[], &[("t2", "silent\n"), ("t3", &block)], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_begun("r3.1");
    fs::write(table.harness.path("go"), "").expect("written");
    let ended = table.until_over("blocked");
    // By the engine, or by its keeper, whichever is first to see that nobody waits for it.
    let sent_home = ["the task was moved on", "its lease is gone"]
        .map(|why| format!("r2.1 it was stopped: {why}"));
    assert!(ended.iter().any(|run| sent_home.contains(run)), "{ended:?}");
    assert_eq!(
        table.assignments(),
        [review("custodiet", 0, "withdrawn"), review("critic", 0, "answered")]
    );
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "MISSING"), ("critic", "BLOCK")]));
    let expected = "critic says BLOCK: nobody asked for red\n- it is red, not green";
    assert_eq!(table.field("feedback").as_str().map(str::trim_end), Some(expected));
}

#[test]
fn what_escalates_goes_to_a_person_with_all_that_was_said() {
    let scripts = [
        ("t2", verdict("ESCALATE", "it touches money", &["who pays?"])),
        ("t3", verdict("CONCERN", "it is red", &["green was meant"])),
    ];
    let scripts = scripts.each_ref().map(|(name, script)| (*name, script.as_str()));
    let table = Table::new(&[], &scripts, &[]);
    table.until_over("escalated");
    let summary = table.field("review_summary");
    let summary = summary.as_str().expect("a summary");
    assert!(
        summary.starts_with("## Unresolved Review Concerns\n\n### Custodiet says:\n\nwho pays?\n")
    );
    assert!(summary.contains("### Critic says:\n\ngreen was meant\n"), "{summary}");
    assert_eq!(table.field("concerns").as_array().map(Vec::len), Some(2));
    assert_eq!(table.assignments().len(), 2, "there is no debate about what a person decides");
}

/// A reviewer that never gives a verdict is asked three times, and then named.
fn is_missing_after_three_times(script: &str) {
    let table = Table::new(&[], &[("t2", script), ("t3", &approval())], &[]);
    table.turn_until_review("t2", "resting(once)");
    table.driver.pass(Span(29_000));
    table.driver.turn();
    table.turn_until_review("t2", "resting(once)");
    table.driver.pass(Span(1_000));
    table.turn_until_review("t2", "resting(twice)");
    table.driver.pass(Span(59_000));
    table.driver.turn();
    table.turn_until_review("t2", "resting(twice)");
    table.driver.pass(Span(1_000));
    table.until_over("unresolved");
    let asked = table.harness.starts().iter().filter(|run| run.starts_with("r2.")).count();
    assert_eq!(asked, 3);
    assert_eq!(
        table.assignments(),
        [review("custodiet", 0, "silent"), review("critic", 0, "answered")]
    );
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "MISSING"), ("critic", "APPROVE")]));
    let summary = table.field("review_summary");
    assert!(
        summary.as_str().is_some_and(|text| text.contains("### Missing verdicts\n\n- custodiet: "))
    );
}

#[test]
fn a_word_that_is_no_verdict_is_none() {
    is_missing_after_three_times(&verdict("MAYBE", "who knows", &[]));
}

#[test]
fn words_without_an_answer_are_no_verdict() {
    is_missing_after_three_times("success I approve of it\n");
}

#[test]
fn nothing_at_all_is_no_verdict() {
    is_missing_after_three_times("exit 0\n");
}

#[test]
fn json_in_another_shape_is_no_verdict() {
    is_missing_after_three_times("answer [\"APPROVE\"]\nsuccess done\n");
}

#[test]
fn reasons_without_a_verdict_are_no_verdict() {
    is_missing_after_three_times("answer {\"rationale\":\"it is fine\"}\nsuccess done\n");
}

#[test]
fn a_crash_is_no_verdict() {
    is_missing_after_three_times("crash\n");
}

#[test]
fn of_two_answers_the_last_one_counts() {
    let twice = format!("answer {{\"verdict\":\"BLOCK\"}}\n{}", approval());
    let table = Table::new(&[], &[("any", &twice)], &[]);
    table.until_over("approved");
}

#[test]
fn one_that_needs_another_try_is_heard() {
    let scripts = [("r2.1", "crash\n".to_owned()), ("any", approval())];
    let scripts = scripts.each_ref().map(|(name, script)| (*name, script.as_str()));
    let table = Table::new(&[], &scripts, &[]);
    table.turn_until_review("t2", "resting(once)");
    table.driver.pass(Span(30_000));
    table.until_over("approved");
}

#[test]
fn a_verdict_that_takes_too_long_is_missing() {
    let table =
        Table::new(&[("panel.retries", "0")], &[("t2", "silent\n"), ("t3", &approval())], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_review("t3", "answered");
    table.driver.pass(Span(10 * MINUTE.0));
    let ended = table.until_over("unresolved");
    assert!(!ended.iter().any(|run| run.contains("stale")), "it was not: {ended:?}");
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "MISSING"), ("critic", "APPROVE")]));
}

#[test]
fn when_the_time_of_the_panel_is_up_a_person_gets_what_there_is() {
    // The lifecycle would move on after 30 minutes, without a word of what was said.
    let settings = [("panel.verdict_timeout", "\"2h\"")];
    let concern = verdict("CONCERN", "it is red", &["green was meant"]);
    let table = Table::new(&settings, &[("t2", "silent\n"), ("t3", &concern)], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_review("t3", "answered");
    table.driver.pass(Span(28 * MINUTE.0));
    table.driver.turn();
    assert_eq!(table.assignments()[0], review("custodiet", 0, "reviewing"));
    table.driver.pass(MINUTE);
    table.until_over("unresolved");
    assert_eq!(
        table.assignments(),
        [review("custodiet", 0, "withdrawn"), review("critic", 0, "answered")]
    );
    let summary = table.field("review_summary");
    let summary = summary.as_str().expect("a summary");
    assert!(summary.contains("green was meant"), "{summary}");
    assert!(summary.contains("- custodiet: did not answer in time"), "{summary}");
}

#[test]
fn an_answer_that_was_there_in_time_counts_however_late_it_is_looked_at() {
    let block = format!("{WHEN_TOLD}{}", verdict("BLOCK", "it is red", &["green was meant"]));
    let table = Table::new(&[("panel.retries", "0")], &[("t2", &block), ("t3", &approval())], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_review("t3", "answered");
    fs::write(table.harness.path("go"), "").expect("written");
    let receipt = table.harness.home(NODE).join("runs/r2.1/receipt.json");
    wait_until("it has answered, and nobody looks", || receipt.exists());
    table.driver.pass(Span(20 * MINUTE.0));
    table.until_over("blocked");
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "BLOCK"), ("critic", "APPROVE")]));
}

#[test]
fn an_answer_after_the_panel_is_over_changes_nothing() {
    let late = format!("{WHEN_TOLD}{}", verdict("BLOCK", "it is red", &["green was meant"]));
    let table = Table::new(&[("panel.retries", "0")], &[("t2", &late), ("t3", &approval())], &[]);
    table.turn_until_begun("r2.1");
    table.turn_until_review("t3", "answered");
    table.harness.ok(&["move", "t2", "withdrawn"]);
    fs::write(table.harness.path("go"), "").expect("written");
    table.until_over("unresolved");
    assert_eq!(
        table.assignments(),
        [review("custodiet", 0, "withdrawn"), review("critic", 0, "answered")]
    );
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "MISSING"), ("critic", "APPROVE")]));
    assert!(table.field("feedback").is_null());
}

/// An approval of so many bytes, or nearly.
fn approval_of(bytes: usize) -> String {
    verdict("APPROVE", &"it is good ".repeat(bytes / 11), &[])
}

#[test]
fn an_answer_of_ten_megabytes_is_no_verdict() {
    is_missing_after_three_times(&approval_of(10 * 1024 * 1024));
}

#[test]
fn an_answer_that_no_task_could_hold_is_no_verdict() {
    is_missing_after_three_times(&approval_of(300 * 1024));
}

#[test]
fn one_that_talks_for_megabytes_before_its_verdict_is_heard() {
    let table = Table::new(&[], &[("any", &format!("flood 10485760\n{}", approval()))], &[]);
    table.until_over("approved");
}

/// What the reviewers said does not fit beside what the task holds already.
#[test]
fn a_task_that_has_no_room_for_the_words_hears_the_ruling() {
    let text = "x".repeat(119_000);
    let concerns = ["c".repeat(1_000).as_str(); 16].map(str::to_owned);
    let concerns: Vec<&str> = concerns.iter().map(String::as_str).collect();
    let full = [format!("feedback={text}"), format!("diagnostic={text}")];
    let add = ["--set", &full[0], "--set", &full[1]];
    let table = Table::new(&[], &[("any", &verdict("ESCALATE", "it is much", &concerns))], &add);
    table.until_over("escalated");
    assert!(table.field("verdicts").is_null() && table.field("review_summary").is_null());
}
