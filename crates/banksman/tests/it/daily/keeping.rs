//! The note that `pulse` and `up` look after.

use std::fs;
use std::path::PathBuf;

use jiff::ToSpan;
use serde_json::Value;

use super::desk::{Desk, rest, save, text, ticked};
use crate::engine::processes::wait_until;

/// The only note in the folder.
fn only(desk: &Desk) -> PathBuf {
    let entries = fs::read_dir(desk.folder()).unwrap().map(|entry| entry.unwrap().path());
    let notes: Vec<_> = entries.collect();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    note.clone()
}

fn notices(pulse: &Value) -> Vec<String> {
    let list = pulse["notices"].as_array().unwrap().iter();
    list.map(|notice| notice["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn nothing_is_written_unless_it_was_asked_for() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    desk.pulse();
    assert!(!desk.home("here").join("daily").exists());
}

#[test]
fn a_pulse_takes_answers_from_a_note_that_is_at_rest() {
    let desk = Desk::watched("\"30min\"");
    desk.ask("Split the login", "all_approve", &[]);
    desk.pulse();
    let path = only(&desk);
    fs::write(&path, ticked(&text(&path), "Approve")).unwrap();
    desk.pulse();
    assert_eq!(desk.state("t1"), "waiting", "somebody may still be writing");
    rest(&path);
    let pulse = desk.pulse();
    let told = "d1 in the daily note: approve by human:kim";
    assert!(notices(&pulse).contains(&told.to_owned()), "{pulse}");
    assert_eq!(desk.state("t1"), "in_progress");
    // The same turn has put it into the note.
    assert!(text(&path).contains("> **Answered**: approve by human:kim\n"));
    rest(&path);
    let before = text(&path);
    desk.pulse();
    assert_eq!(text(&path), before);
}

#[test]
fn what_was_not_carried_out_is_told_once() {
    let desk = Desk::watched("\"1ms\"");
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    save(&path, &ticked(&text(&path), "Cancel"));
    let about = |pulse: &Value| {
        notices(pulse).into_iter().filter(|notice| notice.contains("was rejected")).count()
    };
    assert_eq!(about(&desk.pulse()), 1);
    assert!(text(&path).contains("> **Not carried out**: \\`cancel\\` needs your words"));
    assert_eq!(about(&desk.pulse()), 0);
    assert_eq!(desk.state("t1"), "waiting");
}

#[test]
fn an_answer_in_the_note_of_yesterday_still_counts() {
    let desk = Desk::watched("\"1ms\"");
    desk.ask("Split the login", "all_approve", &[]);
    let today = desk.note();
    let name = today.file_stem().unwrap().to_str().unwrap();
    let date: jiff::civil::Date = name.parse().unwrap();
    let yesterday = date.checked_sub(1.day()).unwrap();
    let path = today.with_file_name(format!("{yesterday}.md"));
    save(&path, &ticked(&text(&today), "Approve"));
    fs::remove_file(&today).unwrap();
    desk.pulse();
    assert_eq!(desk.state("t1"), "in_progress");
    assert!(text(&path).contains("> **Answered**: approve by human:kim\n"));
    assert!(!text(&today).contains("#### d1 "), "there it is asked no more");
}

#[test]
fn up_writes_the_note_and_hears_of_answers() {
    let desk = Desk::watched("\"1ms\"");
    desk.ask("Split the login", "all_approve", &[]);
    let up = desk.up();
    wait_until("the note is written", || {
        note(&desk).is_some_and(|path| text(&path).contains("#### d1 "))
    });
    let path = note(&desk).unwrap();
    // Written in its place, as some editors do.
    fs::write(&path, ticked(&text(&path), "Approve")).unwrap();
    wait_until("the answer is carried out", || desk.state("t1") == "in_progress");
    wait_until("the note tells of it", || text(&path).contains("> **Answered**: approve"));
    // What comes later comes into the note as well.
    desk.ask("Refactor the database", "escalate", &[]);
    wait_until("the next question is asked", || text(&path).contains("#### d2 "));
    let said = up.stop();
    assert!(said.contains("d1 in the daily note: approve by human:kim"), "{said}");
    assert_eq!(only(&desk), path, "no draft is left");
}

/// The note, if it is there. While `up` is at work, its draft may lie beside it.
fn note(desk: &Desk) -> Option<PathBuf> {
    let entries = fs::read_dir(desk.folder()).ok()?.map(|entry| entry.unwrap().path());
    let is_note = |path: &PathBuf| {
        path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    entries.into_iter().find(is_note)
}
