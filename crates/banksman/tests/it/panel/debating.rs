//! Concerns are debated: withdrawn they are gone, maintained they go to a person.

use banksman_core::time::Span;
use serde_json::json;

use super::table::{MINUTE, Table, approval, pairs, reply, review, verdict};

fn concern() -> String {
    verdict("CONCERN", "the choice is open", &["no spike for Redis"])
}

fn table(scripts: &[(&str, String)]) -> Table {
    let scripts: Vec<(&str, &str)> =
        scripts.iter().map(|(name, script)| (*name, script.as_str())).collect();
    Table::new(&[], &scripts, &[])
}

#[test]
fn a_concern_that_is_withdrawn_is_gone() {
    let approve = verdict("APPROVE", "Redis is in use already", &[]);
    let table =
        table(&[("t2", approve), ("t3", concern()), ("t4", reply("WITHDRAW", "Redis is in use"))]);
    table.until_over("approved");
    let expected = [
        review("custodiet", 0, "answered"),
        review("critic", 0, "answered"),
        review("critic", 1, "answered"),
    ];
    assert_eq!(table.assignments(), expected, "only who has a concern is asked");
    assert_eq!(table.verdicts(), pairs(&[("custodiet", "APPROVE"), ("critic", "WITHDRAWN")]));
    assert!(table.field("concerns").is_null());
    let told = table.prompt("r4.1");
    assert!(told.contains("round 1 of 2"), "{told}");
    assert!(told.contains("critic: CONCERN: the choice is open\n- no spike for Redis"), "{told}");
    assert!(told.contains("custodiet: APPROVE: Redis is in use already"), "{told}");
}

#[test]
fn what_is_maintained_twice_goes_to_a_person() {
    let table = table(&[
        ("t2", verdict("CONCERN", "it is much", &["is it in scope?"])),
        ("t3", concern()),
        ("t4", reply("WITHDRAW", "it is in scope")),
        ("t5", reply("MAINTAIN", "nobody has measured it")),
        ("t6", reply("MAINTAIN", "nor has anybody now")),
    ]);
    table.until_over("unresolved");
    let rounds: Vec<(String, i64)> =
        table.assignments().into_iter().map(|(name, round, _)| (name, round)).collect();
    let expected =
        [("custodiet", 0), ("critic", 0), ("custodiet", 1), ("critic", 1), ("critic", 2)];
    assert_eq!(rounds, expected.map(|(name, round)| (name.to_owned(), round)));
    let first = table.prompt("r4.1");
    assert!(first.contains("no spike for Redis") && !first.contains("MAINTAIN: "), "{first}");
    let second = table.prompt("r6.1");
    assert!(second.contains("round 2 of 2"), "{second}");
    assert!(second.contains("custodiet, round 1: WITHDRAW: it is in scope"), "{second}");
    assert!(second.contains("critic, round 1: MAINTAIN: nobody has measured it"), "{second}");
    let open = json!([{
        "reviewer": "critic", "concern": "no spike for Redis", "response": "nor has anybody now",
    }]);
    assert_eq!(table.field("concerns"), open);
    insta::assert_snapshot!(table.field("review_summary").as_str().unwrap(), @"
    ## Unresolved Review Concerns

    ### Critic says:

    no spike for Redis
    Response: nor has anybody now
    Resolution: UNRESOLVED - user must decide
    ");
}

#[test]
fn silence_in_a_round_is_to_maintain() {
    let table = table(&[("t2", approval()), ("t3", concern()), ("t4", "silent\n".to_owned())]);
    table.turn_until_begun("r4.1");
    table.driver.pass(Span(10 * MINUTE.0));
    table.until_over("unresolved");
    assert_eq!(table.assignments()[2..], [review("critic", 1, "withdrawn")]);
    let summary = table.field("review_summary");
    let silence = "Response: none; silence counts as MAINTAIN";
    assert!(summary.as_str().is_some_and(|text| text.contains(silence)), "{summary}");
}

#[test]
fn a_reply_that_takes_too_long_is_asked_for_again() {
    let withdraws = reply("WITHDRAW", "it is not worth it");
    let scripts =
        [("t2", approval()), ("t3", concern()), ("r4.1", "silent\n".to_owned()), ("t4", withdraws)];
    let table = table(&scripts);
    table.turn_until_begun("r4.1");
    table.driver.pass(Span(5 * MINUTE.0 - 1_000));
    table.driver.turn();
    assert_eq!(table.assignments()[2..], [review("critic", 1, "reviewing")]);
    table.driver.pass(Span(1_000));
    table.turn_until_review("t4", "resting(once)");
    table.driver.pass(Span(30_000));
    table.until_over("approved");
}

#[test]
fn a_reply_that_makes_no_sense_is_to_maintain() {
    let nonsense = reply("PERHAPS", "");
    let table = Table::new(
        &[("panel.retries", "0"), ("panel.rounds", "1")],
        &[("t2", &approval()), ("t3", &concern()), ("t4", &nonsense)],
        &[],
    );
    table.until_over("unresolved");
    assert_eq!(table.assignments()[2..], [review("critic", 1, "silent")]);
}

#[test]
fn without_rounds_a_concern_goes_to_a_person() {
    let scripts = [("t2", approval()), ("t3", concern())];
    let scripts = scripts.each_ref().map(|(name, script)| (*name, script.as_str()));
    let table = Table::new(&[("panel.rounds", "0")], &scripts, &[]);
    table.until_over("unresolved");
    assert_eq!(table.assignments().len(), 2);
}
