//! `changes`: lines for people, documents with cursors for programs.

use serde_json::Value;

use super::sandbox::Sandbox;

fn moved() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "Draw the plan"]);
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada"]);
    sandbox.ok(&["add", "Paint the door"]);
    sandbox
}

fn documents(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
}

/// Each line without its time, its padding and the name of whoever runs the test.
fn told(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
    let lines = text.lines().map(words);
    lines.map(|line| line.split(" by ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn changes_are_lines_in_their_order() {
    let sandbox = moved();
    let expected = [
        "created t1 pending (create",
        "moved t1 pending → active (activate",
        "created t2 pending (create",
    ];
    let all = told(&sandbox.ok(&["changes"]));
    assert_eq!(all.len(), 3, "{all:?}");
    for (line, expected) in all.iter().zip(expected) {
        let (kind_and_task, _) = expected.split_once(" (").expect("a trigger");
        assert!(line.starts_with(kind_and_task), "{line}");
    }
    assert_eq!(told(&sandbox.ok(&["changes", "--limit", "2"])), all[..2]);
    assert_eq!(sandbox.ok(&["changes", "--limit", "0"]), "");
}

#[test]
fn a_program_continues_at_its_cursor() {
    let sandbox = moved();
    let all = documents(&sandbox.ok(&["changes", "--json"]));
    assert_eq!(all[1]["kind"], "moved");
    assert_eq!(all[1]["task"], "t1");
    assert_eq!(all[1]["record"]["seq"], 2);
    assert_eq!(all[1]["record"]["to"], "active");
    assert_eq!(all[1]["record"]["actor"], "worker:ada");
    let cursor = |at: usize| all[at]["cursor"].as_str().expect("text");
    let rest = sandbox.ok(&["changes", "--json", "--after", cursor(0)]);
    assert_eq!(documents(&rest), all[1..]);
    let end = sandbox.ok(&["changes", "--end"]);
    assert_eq!(end.trim(), cursor(2));
    assert_eq!(sandbox.ok(&["changes", "--after", end.trim()]), "");
    assert_eq!(documents(&sandbox.ok(&["changes", "--json", "--after", ""])), all);
}

#[test]
fn a_cursor_that_cannot_be_used_says_what_to_do() {
    let sandbox = moved();
    let damaged = sandbox.run(&["changes", "--after", "yesterday"]).to_string();
    assert!(damaged.contains("`yesterday` is not a cursor (BM-E039)"), "{damaged}");
    let foreign = sandbox.run(&["changes", "--after", "0-2-00000000"]).to_string();
    assert!(foreign.contains("is not of this store") && foreign.contains("BM-E029"), "{foreign}");
    assert!(foreign.contains("banksman changes --end"), "{foreign}");
}
