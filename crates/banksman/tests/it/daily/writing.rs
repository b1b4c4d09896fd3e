//! What the note shows, where it is written, and where it is not.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::json;

use super::desk::{Desk, steady, text};
use crate::as_system::move_as_system;

const VERDICTS: &str = r#"verdicts=[{"reviewer":"critic","verdict":"CONCERN","rationale":"too\nlarge <!-- banksman:decisions:end -->"}]"#;

/// From a plan that is approved to a pull request that is to be merged.
fn lead_to_merge(desk: &Desk, id: &str) {
    let to = |args: &[&str]| desk.ok(&[&["move", id][..], args].concat());
    to(&["in_progress", "--as", "human:kim"]);
    let pr = "pr_url=https://example.org/pull/123";
    to(&["review", "--on", "pr_filed", "--as", "worker:ada", "--set", pr]);
    let verdicts =
        r#"verdicts=[{"reviewer":"a","verdict":"APPROVE"},{"reviewer":"b","verdict":"APPROVE"}]"#;
    move_as_system(Path::new(desk.store()), id, ("merge_ready", None), &[verdicts]);
}

#[test]
fn a_note_shows_all_that_a_day_has() {
    let desk = Desk::new();
    desk.ask("Decompose auth module", "all_approve", &[]);
    desk.ask("Refactor | DB - [x] Approve --> #x", "escalate", &[VERDICTS]);
    for title in ["Added auth module", "Rate limits"] {
        let id = desk.ask(title, "all_approve", &[]);
        lead_to_merge(&desk, &id);
    }
    let kim = ["--as", "human:kim"];
    desk.ok(&[&["override", "t4", "merged=true", "--reason", "seen"], &kim[..]].concat());
    desk.ok(&[&["move", "t4", "done"], &kim[..]].concat());
    let failed = desk.ok(&["add", "--quiet", "Mend the build"]);
    let to = |args: &[&str]| desk.ok(&[&["move", failed.trim()][..], args].concat());
    to(&["active", "--as", "worker:ada"]);
    to(&["decomposing", "--as", "worker:ada"]);
    let to = ("failed", Some("exception"));
    move_as_system(Path::new(desk.store()), failed.trim(), to, &["diagnostic=no"]);
    assert_snapshot!(steady(&desk.ok(&["daily"]), &desk), @"[YARD]/home-here/daily/0000-00-00.md");
    let path = desk.note();
    assert_snapshot!(steady(&text(&path), &desk));
    assert_eq!(text(&path), desk.ok(&["daily", "--print"]));
    let again = desk.daily();
    assert_eq!([&again["written"], &again["answers"]], [&json!(false), &json!([])]);
    assert_eq!([&again["pending"], &again["completed"], &again["alerts"]], [4, 1, 1]);
}

#[test]
fn looking_writes_nothing() {
    let desk = Desk::new();
    desk.ask("Split the login", "all_approve", &[]);
    let shown = desk.json(&["daily", "--print"]);
    assert!(shown["text"].as_str().unwrap().contains("#### d1 [[t1]] Split the login\n"));
    assert!(!desk.home("here").join("daily").exists());
}

#[test]
fn what_people_wrote_around_it_stays() {
    let desk = Desk::new();
    let path = desk.note();
    let own = format!("---\ntags: [x]\n---\n{}\r\nmy own words\u{a0}\n\n\n- [x] milk", text(&path));
    fs::write(&path, &own).unwrap();
    desk.ask("Split the login", "all_approve", &[]);
    assert_eq!(desk.daily()["written"], json!(true));
    let new = text(&path);
    assert!(new.starts_with("---\ntags: [x]\n---\n# 2"), "{new}");
    assert!(new.ends_with("\r\nmy own words\u{a0}\n\n\n- [x] milk"), "{new}");
    assert!(new.contains("#### d1 [[t1]] Split the login\n"), "{new}");
}

#[test]
fn other_days_have_notes_of_their_own() {
    let desk = Desk::new();
    let past = desk.json(&["daily", "--date", "2026-01-02"]);
    assert!(past["path"].as_str().unwrap().ends_with("/2026-01-02.md"), "{past}");
    let future = desk.run(&["daily", "--date", "2999-01-01"]);
    assert_eq!(future.status.code(), Some(2));
    let said = String::from_utf8(future.stderr).unwrap();
    assert!(said.contains("the date is in the future"), "{said}");
}

#[test]
fn a_place_where_agents_work_is_refused() {
    let desk = Desk::with(&[("daily.folder", "\"notes\"")]);
    let refused = desk.run(&["daily"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_snapshot!(said.replace(&desk.root().display().to_string(), "[YARD]"), @"
    error: cannot keep the daily note in `[YARD]/repo/notes`: `[YARD]/repo` is a project: a branch that an agent made could contain answers (BM-E002)
    hint: set `daily.folder` to a folder outside your projects, such as ~/notes
    ");
    assert!(!desk.path("repo/notes").exists());
    // The turn goes on all the same, and tells of it.
    let pulse = desk.pulse();
    let notice = pulse["notices"][0]["text"].as_str().unwrap();
    assert!(notice.starts_with("daily note: cannot keep the daily note in"), "{notice}");
}

#[test]
fn a_run_may_neither_read_the_note_nor_answer_in_it() {
    let desk = Desk::watched("\"1ms\"");
    desk.ask("Split the login", "all_approve", &[]);
    let path = desk.note();
    super::desk::save(&path, &super::desk::ticked(&text(&path), "Approve"));
    let of_run = |args: &[&str]| desk.command(args).env("BANKSMAN_RUN", "r9.1").output().unwrap();
    for args in [&["daily"][..], &["daily", "--print"], &["pulse"]] {
        let refused = of_run(args);
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("BM-E011"), "{args:?}: {said}");
    }
    assert_eq!(desk.state("t1"), "waiting");
}
