//! What reviewers suggest is kept whatever their verdict, and shown to people. Who works next is
//! told it, too; see `planning::advising`.

use serde_json::json;

use super::table::{Table, approval, reply, suggesting};

#[test]
fn what_an_approval_suggests_is_on_record_and_shown() {
    let suggests = suggesting("APPROVE", "it is good", &[], &["name the\nlimit", "test zero"]);
    let table = Table::new(&[], &[("t2", &suggests), ("t3", &approval())], &[]);
    table.until_over("approved");
    let verdicts = table.field("verdicts");
    assert_eq!(verdicts[0]["suggestions"], json!(["name the limit", "test zero"]));
    assert_eq!(verdicts[1].get("suggestions"), None, "{verdicts}");
    let shown = table.harness.ok(&["show", "t1"]);
    let expected = "custodiet APPROVE: it is good\n      suggests: name the limit\n      suggests: test zero\n";
    assert!(shown.contains(expected), "{shown}");
    assert!(!shown.contains("\"reviewer\""), "words, and no JSON: {shown}");
}

#[test]
fn a_run_of_a_reviewer_ends_with_its_verdict_in_a_line() {
    let concern = suggesting("CONCERN", "the choice\nis open", &["no spike"], &["a spike"]);
    let maintains = reply("MAINTAIN", "nobody has measured it");
    let scripts = [("t2", approval()), ("t3", concern), ("any", maintains)];
    let scripts = scripts.each_ref().map(|(name, script)| (*name, script.as_str()));
    let table = Table::new(&[("panel.rounds", "1")], &scripts, &[]);
    table.until_over("unresolved");
    let detail = |task: &str| table.harness.json(&["show", task])["runs"][0]["detail"].clone();
    let expected =
        ["APPROVE: it is good", "CONCERN: the choice is open", "MAINTAIN: nobody has measured it"];
    assert_eq!(["t2", "t3", "t4"].map(detail), expected.map(|text| json!(text)));
    let told = table.prompt("r4.1");
    assert!(told.contains("- no spike\n- suggestion: a spike\n"), "{told}");
}
