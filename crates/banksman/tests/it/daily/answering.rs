//! Answers in the note: given once, for what was seen, and told of when they cannot be given.

use serde_json::{Value, json};

use super::desk::{Desk, save, text, ticked};

fn details(answers: &Value) -> Vec<(bool, String)> {
    let one = |answer: &Value| {
        (answer["answered"].as_bool().unwrap(), answer["detail"].as_str().unwrap().to_owned())
    };
    answers["answers"].as_array().unwrap().iter().map(one).collect()
}

fn refused(answers: &Value) -> String {
    match &details(answers)[..] {
        [(false, why)] => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ticked_box_is_an_answer() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    save(&path, &ticked(&text(&path), "Approve"));
    let answers = desk.daily();
    assert_eq!(details(&answers), [(true, "approve by human:kim".to_owned())]);
    assert_eq!(desk.state("t1"), "in_progress");
    let [record] = &desk.answers("t1")[..] else { panic!("{:?}", desk.answers("t1")) };
    assert_eq!([&record["actor"], &record["trigger"]], [&json!("human:kim"), &json!("approve")]);
    let note = text(&path);
    assert!(note.contains("> **Answered**: approve by human:kim\n"), "{note}");
    assert!(note.contains("- [x] Approve\n"), "{note}");
    assert_eq!(details(&desk.daily()), [], "it is dealt with");
    assert_eq!(text(&path), note);
}

#[test]
fn an_edited_action_is_an_answer_and_the_note_goes_with_it() {
    let desk = Desk::with(&[("daily.owner", "\"Bo\"")]);
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    let words = "- **Action**: Changes\n- **Note**: need a spike\n  on X first\n";
    save(&path, &text(&path).replace("- **Action**:\n- **Note**:\n", words));
    assert_eq!(details(&desk.daily()), [(true, "changes by human:Bo".to_owned())]);
    let task = desk.json(&["show", "t1"]);
    assert_eq!(
        [&task["state"], &task["fields"]["feedback"]],
        [&json!("decomposing"), &json!("need a spike\non X first")]
    );
}

#[test]
fn what_cannot_be_carried_out_is_told_and_changes_nothing() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    let fresh = text(&path);
    let two = ticked(&ticked(&fresh, "Approve"), "Cancel");
    let unknown = fresh.replace("- **Action**:", "- **Action**: aprove");
    let wordless = ticked(&fresh, "Request Changes");
    let unseen = ticked(&fresh, "Approve").replace("d1@5", "d1@4");
    let gone = ticked(&fresh, "Approve").replace("d1", "d99");
    for (edited, why) in [
        (two, "more than one answer: Approve, Cancel"),
        (unknown, "this decision does not offer `aprove`; d1 offers approve, changes"),
        (wordless, "`changes` needs your words: Say what has to change"),
        (unseen, "t1 has changed since version 4, and d1 was not answered"),
        (gone, "there is no decision d99"),
    ] {
        save(&path, &edited);
        let said = refused(&desk.daily());
        assert!(said.starts_with(why), "{said}");
        assert_eq!(desk.run(&["daily"]).status.code(), Some(i32::from(!why.ends_with("d99"))));
        assert_eq!(desk.state("t1"), "waiting");
        let note = text(&path);
        assert!(note.contains("> **Not carried out**: "), "{note}");
        let own = |text: &str| text.lines().filter(|line| line.contains("[x]")).count();
        assert_eq!(own(&note), own(&edited), "{note}");
    }
    assert_eq!(desk.answers("t1"), [] as [Value; 0]);
    // When it is mended, it counts, and what was told goes.
    let note = text(&path);
    save(&path, &ticked(&note, "Backburner"));
    assert_eq!(details(&desk.daily()), [(true, "backburner by human:kim".to_owned())]);
    assert_eq!(desk.state("t1"), "dormant");
}

#[test]
fn a_crash_between_the_answer_and_the_note_repeats_nothing() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    let edited = ticked(&text(&path), "Approve");
    save(&path, &edited);
    desk.daily();
    let written = text(&path);
    // As if the new text had never come into the file.
    save(&path, &edited);
    assert_eq!(details(&desk.daily()), [(true, "approve by human:kim".to_owned())]);
    assert_eq!(text(&path), written);
    assert_eq!(desk.answers("t1").len(), 1);
    assert_eq!(desk.state("t1"), "in_progress");
}

#[test]
fn the_first_of_two_answers_counts_and_the_second_is_told() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    let fresh = text(&path);
    save(&path, &ticked(&fresh, "Approve"));
    desk.daily();
    // The other one had the old note before him.
    save(&path, &format!("{}\nwords of the other\n", ticked(&fresh, "Backburner")));
    let said = refused(&desk.daily());
    assert!(
        said.starts_with("d1 is settled, and nothing was changed: in_progress by human:kim"),
        "{said}"
    );
    assert_eq!(desk.state("t1"), "in_progress");
    let note = text(&path);
    assert!(note.contains("- [x] Backburner\n"), "{note}");
    assert!(note.ends_with("\nwords of the other\n"), "{note}");
    // In the note as it is now, an answered entry may be ticked as well.
    let third = note.replace("[x] Backburner", "[ ] Backburner");
    save(&path, &ticked(&third, "Send Back"));
    assert!(refused(&desk.daily()).starts_with("d1 is settled"));
    assert_eq!(details(&desk.daily()), [], "it was told once");
    assert_eq!(desk.answers("t1").len(), 1);
}

#[test]
fn a_question_that_was_answered_elsewhere_is_told_of() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    desk.ok(&["decisions", "back", "d1"]);
    save(&path, &ticked(&text(&path), "Approve"));
    assert!(refused(&desk.daily()).starts_with("d1 is settled"));
    assert_eq!(desk.state("t1"), "pending");
}

/// A crash after the answer loses no notice of it: both are in one transaction.
#[test]
fn an_answer_is_committed_with_its_notice() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    save(&path, &ticked(&text(&path), "Approve"));
    desk.daily();
    desk.daily();
    let changes = desk.ok(&["changes", "--json"]);
    let kinds = changes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let notices: Vec<Value> =
        kinds.filter(|change| change["notice"]["kind"] == "daily_note").collect();
    let [notice] = &notices[..] else { panic!("{changes}") };
    assert_eq!(notice["notice"]["text"], "d1 in the daily note: approve by human:kim");
}
