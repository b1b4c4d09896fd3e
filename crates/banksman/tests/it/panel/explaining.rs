//! What people are told of a panel that is at work.

use serde_json::{Value, json};

use super::table::{Table, approval};

fn waits_for_reviews(why: &Value) -> Vec<(&str, &str)> {
    let list = why["waitingFor"].as_array().expect("a list");
    list.iter()
        .filter(|one| one["kind"] == "review")
        .map(|one| (one["who"].as_str().expect("who"), one["detail"].as_str().expect("what")))
        .collect()
}

#[test]
fn why_names_each_review_and_what_it_does() {
    let scripts = [("r2.1", "success I approve of it\n"), ("t3", "silent\n"), ("any", &approval())];
    let table = Table::new(&[], &scripts, &[]);
    let before = table.harness.json(&["why", "t1"]);
    assert_eq!(before["next"], "the next turn of a running `up` asks its reviewers", "{before}");

    table.turn_until_review("t2", "resting(once)");
    table.turn_until_begun("r3.1");
    let why = table.harness.json(&["why", "t1"]);
    let [(first, again), (second, reads)] = waits_for_reviews(&why)[..] else {
        panic!("two reviews: {why}")
    };
    assert_eq!((first, second, reads), ("custodiet", "critic", "t3: critic reads (r3.1)"));
    let because =
        "t2: custodiet is asked again at this time, because its last answer did not count: ";
    assert!(again.starts_with(because) && again.len() > because.len(), "{again}");
    assert!(why["waitingFor"][0]["until"].is_string(), "{why}");
    assert_eq!(why["waitingFor"][2]["kind"], "timer", "the bound of the state is told, too: {why}");
    assert_eq!(
        why["next"],
        "they answer, and it is decided; a retry asks at once: banksman log t2, then banksman retry t2"
    );

    let document = table.harness.json(&["show", "t1"]);
    assert_eq!(document.get("children"), None, "those who review do none of the work: {document}");
    assert_eq!(table.harness.json(&["status"])["parents"], json!([]));
    table.harness.ok(&["move", "t1", "--on", "cancel"]);
    table.until_home();
}

#[test]
fn a_list_hides_finished_reviews_and_says_so() {
    let table = Table::new(&[], &[("t3", "silent\n"), ("any", &approval())], &[]);
    table.turn_until_review("t2", "answered");
    table.turn_until_begun("r3.1");
    let ids = |args: &[&str]| -> Vec<String> {
        let listed = table.harness.ok(&[&["list"], args].concat());
        let words = listed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        words.map(str::to_owned).collect()
    };
    assert_eq!(ids(&[]), ["t3", "t1"], "who still reads is shown");
    assert_eq!(ids(&["--all"]), ["t3", "t2", "t1"]);
    assert_eq!(ids(&["--limit", "2"]), ["t3", "t1"], "a page is filled with what is shown");
    let hidden = "1 finished review hidden (--all shows it)";
    let told = |args: &[&str]| String::from_utf8(table.harness.run(args).stderr).expect("text");
    assert!(told(&["list"]).contains(hidden), "{}", told(&["list"]));
    assert!(!told(&["list", "--all"]).contains("hidden"));
    let none = told(&["list", "--state", "answered"]);
    assert!(none.starts_with(&format!("no matching tasks\n{hidden}")), "{none}");
    assert_eq!(table.harness.ok(&["list", "-q"]), "t3\nt2\nt1\n", "programs get all of them");
    let page = table.harness.json(&["list"]);
    assert_eq!(page["tasks"].as_array().expect("tasks").len(), 3, "{page}");
    let status = table.harness.ok(&["status"]);
    let states = || status.lines().take_while(|line| !line.starts_with("ready "));
    assert!(!states().any(|line| line.contains(" answered ")), "{status}");
    assert!(states().any(|line| line.contains(" reviewing ")), "{status}");
    assert!(status.contains("hidden     1 finished review (banksman list --all)"), "{status}");
    let counted = &table.harness.json(&["status"])["states"];
    let mut states = counted.as_array().expect("states").iter();
    let answered = states.find(|one| one["state"] == "answered");
    assert_eq!(answered.expect("programs get all of them")["tasks"], 1, "{counted}");
    table.harness.ok(&["move", "t1", "--on", "cancel"]);
    table.until_home();
}
