//! What people are told of a panel that is at work.

use serde_json::{Value, json};

use super::table::{Table, approval};

fn waits_for_seats(why: &Value) -> Vec<(&str, &str)> {
    let list = why["waitingFor"].as_array().expect("a list");
    list.iter()
        .filter(|one| one["kind"] == "seat")
        .map(|one| (one["who"].as_str().expect("who"), one["detail"].as_str().expect("what")))
        .collect()
}

#[test]
fn why_names_each_seat_and_what_it_does() {
    let scripts = [("r2.1", "success I approve of it\n"), ("t3", "silent\n"), ("any", &approval())];
    let table = Table::new(&[], &scripts, &[]);
    let before = table.yard.json(&["why", "t1"]);
    assert_eq!(before["next"], "the next turn of a running `up` asks its reviewers", "{before}");

    table.turn_until_seat("t2", "resting(once)");
    table.turn_until_begun("r3.1");
    let why = table.yard.json(&["why", "t1"]);
    let [(first, again), (second, reads)] = waits_for_seats(&why)[..] else {
        panic!("two seats: {why}")
    };
    assert_eq!((first, second, reads), ("custodiet", "critic", "t3: critic reads (r3.1)"));
    let because =
        "t2: custodiet is asked again at this time, because its last answer did not count: ";
    assert!(again.starts_with(because) && again.len() > because.len(), "{again}");
    assert!(why["waitingFor"][0]["until"].is_string(), "{why}");
    assert_eq!(why["waitingFor"][2]["kind"], "timer", "the bound of the state is told, too: {why}");
    assert_eq!(
        why["next"],
        "they answer, and it is decided; see banksman log t2; banksman retry t2 asks it at once"
    );

    let document = table.yard.json(&["show", "t1"]);
    assert_eq!(document.get("parts"), None, "those who review do none of the work: {document}");
    assert_eq!(table.yard.json(&["status"])["inParts"], json!([]));
    table.yard.ok(&["move", "t1", "--on", "cancel"]);
    table.until_home();
}
