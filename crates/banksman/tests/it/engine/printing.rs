//! Notices and the processes that print them: what a crash kept from the terminal is printed by the
//! next one, and what was printed is not printed again.

use banksman::store::notices::Channel;
use banksman_core::time::Span;

use super::driver::Driver;
use super::harness::Harness;
use super::processes::wait_until;

const SAID: &str = "t1 is blocked: first: which one? (banksman decisions show d1)";

/// A task waits for a person, and nobody has printed that yet.
fn with_a_question() -> Harness {
    let harness = Harness::new(&[]);
    harness.ok(&["pause"]);
    harness.add("first", &[]);
    harness.ok(&["move", "t1", "blocked", "--set", "question=which one?"]);
    harness
}

/// What an `up` prints until it is known to have had a turn.
fn said_by_up(harness: &Harness) -> String {
    let (up, log) = (harness.up(), harness.path("up-here.log"));
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let before = said().matches("is blocked: again").count();
    let id = harness.add("again", &[]).to_string();
    harness.ok(&["move", &id, "blocked", "--set", "question=and now?"]);
    wait_until("it has printed the other one", || {
        said().matches("is blocked: again").count() > before
    });
    up.stop()
}

#[test]
fn a_notice_is_printed_by_the_next_up_and_not_again() {
    let harness = with_a_question();
    assert_eq!(said_by_up(&harness).matches(SAID).count(), 1);
    // The log of the first one is in that of the second.
    assert_eq!(said_by_up(&harness).matches(SAID).count(), 1);
    assert_eq!(harness.pulse()["notices"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_notice_that_was_taken_by_a_process_that_died_is_printed() {
    let harness = with_a_question();
    let driver = Driver::of(harness.root(), Span(100));
    let long_ago = banksman::clock::now().0 - 60_000;
    let taken =
        driver.store.take_notices(Channel::Terminal, banksman_core::time::Instant(long_ago));
    assert_eq!(taken.expect("notices").len(), 1);
    let pulse = harness.pulse();
    assert_eq!(pulse["notices"][0]["text"], "t1 is blocked: first: which one?", "{pulse}");
    assert_eq!(pulse["notices"][0]["kind"], "decision");
    assert_eq!(pulse["notices"][0]["decision"], "d1");
    let again = harness.pulse();
    assert_eq!(again["notices"].as_array().map(Vec::len), Some(0), "{again}");
}
