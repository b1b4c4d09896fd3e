//! `banksman decisions`: the inbox of people, its answers, and all that is refused.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::harness::steady;
use super::sandbox::{Ran, Sandbox};
use crate::as_system::move_as_system;

/// Brings a new task before a person; `trigger` is how the panel has ended.
pub(super) fn ask(sandbox: &Sandbox, title: &str, trigger: &str, fields: &[&str]) -> String {
    let id = sandbox.add(title);
    let to = |args: &[&str]| sandbox.ok(&[&["move", &id][..], args].concat());
    to(&["active", "--as", "worker:ada"]);
    to(&["decomposing", "--as", "worker:ada"]);
    to(&["consensus", "--as", "worker:ada", "--set", "subtasks=[{\"pr_sized\":true}]"]);
    move_as_system(&sandbox.store(), &id, ("waiting", Some(trigger)), fields);
    id
}

fn state(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.json(&["show", id])["state"].clone()
}

fn fails(ran: &Ran) -> String {
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.to_string()
}

#[test]
fn the_inbox_marks_what_was_escalated() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run(&["decisions"]), @"
    exit 0
    -- stdout
    no open decisions
    ");
    ask(&sandbox, "Split the login", "all_approve", &[]);
    ask(&sandbox, "Refactor the database", "escalate", &[]);
    assert_snapshot!(steady(&sandbox.run(&["decisions"])), @"
    exit 0
    -- stdout
    ID TASK SINCE LEFT THEN ACTIONS QUESTION
    ! d1 t1 N s 7 d → failed approve changes back cancel backburner Split the login: Shall this plan be carried out?
    !! d2 t2 N s 7 d → failed approve changes back cancel backburner Refactor the database: Shall this plan be carried out?
    -- stderr
    next: banksman decisions show d1 · banksman decisions triage
    ");
    assert_snapshot!(steady(&sandbox.run(&["decisions", "--escalated"])), @"
    exit 0
    -- stdout
    ID TASK SINCE LEFT THEN ACTIONS QUESTION
    !! d2 t2 N s 7 d → failed approve changes back cancel backburner Refactor the database: Shall this plan be carried out?
    -- stderr
    next: banksman decisions show d2 · banksman decisions triage
    ");
    assert_eq!(sandbox.ok(&["decisions", "-q"]), "d1\nd2\n");
    let listed = sandbox.json(&["decisions"]);
    let second = &listed["decisions"][1];
    assert_eq!(
        [&second["id"], &second["task"], &second["escalated"], &second["then"]["to"]],
        [&json!("d2"), &json!("t2"), &json!(true), &json!("failed")]
    );
    assert_eq!(sandbox.ok(&["decisions", "-q", "--project", "elsewhere"]), "");
}

#[test]
fn a_page_has_all_that_is_needed_and_dissent_comes_first() {
    let sandbox = Sandbox::new();
    let verdicts = r#"verdicts=[{"reviewer":"lgtm","verdict":"APPROVE","rationale":"fine","suggestions":["split it\u001b[2J"]},{"reviewer":"critic","verdict":"CONCERN","rationale":"too \u001b[2Jlarge"}]"#;
    ask(&sandbox, "Refactor the database", "unresolved", &[verdicts, "note=mind the index"]);
    assert_snapshot!(steady(&sandbox.run(&["decisions", "show", "d1"])), @"
    exit 0
    -- stdout
    !! d1 escalated Shall this plan be carried out?
    ✗ critic CONCERN: too �[2Jlarge
    ✓ lgtm APPROVE: fine
    suggests: split it�[2J
    task t1 Refactor the database
    state waiting, version 5
    since 0000-00-00 00:00:00, by system (unresolved)
    deadline 0000-00-00 00:00:00, in 7 d; then → failed (approval_timeout)
    assignee ada
    note mind the index

    ACTION LEADS TO
    approve → in_progress
    changes → decomposing needs your text: Say what has to change
    back → pending
    cancel → cancelled needs your text: Say why it is cancelled
    backburner → dormant
    -- stderr
    next: banksman decisions answer d1 approve --seen 5 · banksman show t1
    ");
    let shown = sandbox.json(&["decisions", "show", "t1"]);
    assert_eq!(shown["verdicts"][0]["who"], "critic");
    assert_eq!(shown["actions"][1]["noteField"], "feedback");
    assert_eq!([&shown["seq"], &shown["version"]], [5, 5]);
    assert_snapshot!(sandbox.run(&["decisions", "show", "d7"]), @"
    exit 1
    -- stderr
    error: there is no decision d7 (BM-E019)
    hint: `banksman decisions` lists the open decisions
    ");
    assert_snapshot!(sandbox.run(&["decisions", "show", "7"]), @"
    exit 2
    -- stderr
    error: invalid value '7' for '<ID>': `7` is not a decision (d12) or task (t12) id

    For more information, try '--help'.
    ");
}

#[test]
fn every_answer_leads_where_the_lifecycle_says() {
    let sandbox = Sandbox::new();
    let answers: [(&[&str], &str); 5] = [
        (&["approve", "t1", "--note", "proceed with caution"], "in_progress"),
        (&["changes", "d2", "need a spike on X first"], "decomposing"),
        (&["back", "d3"], "pending"),
        (&["backburner", "d4"], "dormant"),
        (&["cancel", "d5", "out of scope"], "cancelled"),
    ];
    for number in 1..=answers.len() {
        ask(&sandbox, &format!("Task {number}"), "all_approve", &[]);
    }
    for (number, (words, expected)) in (1..).zip(answers) {
        sandbox.ok(&[&["decisions"][..], words].concat());
        assert_eq!(state(&sandbox, &format!("t{number}")), expected);
    }
    let fields = |id: &str| sandbox.json(&["show", id])["fields"].clone();
    assert_eq!(fields("t1")["note"], "proceed with caution");
    assert_eq!(fields("t1")["worker_id"], "ada", "no place for words");
    assert_eq!(fields("t2")["feedback"], "need a spike on X first");
    assert_eq!(fields("t5")["reason"], "out of scope");
    assert_eq!(sandbox.ok(&["decisions"]), "no open decisions\n");
}

#[test]
fn what_cannot_be_answered_changes_nothing() {
    let sandbox = Sandbox::new();
    ask(&sandbox, "Refactor the database", "all_approve", &[]);
    let run = |args: &[&str]| sandbox.run(&[&["decisions"][..], args].concat());
    assert_snapshot!(fails(&run(&["merge", "d1"])), @"
    exit 1
    -- stderr
    error: this decision does not offer `merge`; d1 offers approve, changes, back, backburner, cancel (BM-E010)
    hint: `banksman decisions show d1` shows what each answer does
    ");
    assert_snapshot!(fails(&run(&["changes", "d1"])), @"
    exit 1
    -- stderr
    error: `changes` needs your words: Say what has to change (BM-E010)
    hint: banksman decisions answer d1 changes --note TEXT
    ");
    assert_snapshot!(fails(&run(&["answer", "d1", "approve", "--as", "worker:ada"])), @"
    exit 1
    -- stderr
    error: worker:ada is not a person, and decisions are made by people (BM-E011)
    hint: ask a person to do this
    ");
    assert_snapshot!(run(&["changes", "d1", "more", "tests"]), @"
    exit 2
    -- stderr
    error: `more` is not an id, and more words follow (BM-E001)
    hint: put the ids first and quote your text
    ");
    assert_snapshot!(fails(&run(&["approve", "d1", "--seen", "4"])), @"
    exit 1
    -- stderr
    error: t1 has changed since version 4, and d1 was not answered: waiting by system (all_approve) at 0000-00-00 00:00:00 (BM-E012)
    hint: `banksman decisions show d1` shows the new state and the `--seen N` to answer with
    ");
    let task = sandbox.json(&["show", "t1"]);
    assert_eq!((&task["state"], &task["version"]), (&json!("waiting"), &json!(7)));
    let records = sandbox.json(&["history", "t1"]);
    let refused: Vec<&str> = records.as_array().expect("a list")[5..]
        .iter()
        .map(|record| record["actor"].as_str().expect("somebody"))
        .collect();
    assert_eq!(refused, ["worker:ada", "human:kim"], "both refusals are on record");
}

#[test]
fn a_late_answer_is_told_what_has_happened_and_by_whom() {
    let sandbox = Sandbox::new();
    ask(&sandbox, "Refactor the database", "all_approve", &[]);
    sandbox.ok(&["decisions", "approve", "d1", "--as", "human:robin", "--key", "k1"]);
    let late = sandbox.run(&["decisions", "cancel", "d1", "too late"]);
    assert_snapshot!(fails(&late), @"
    exit 1
    -- stderr
    error: d1 is settled, and nothing was changed: in_progress by human:robin (approve) at 0000-00-00 00:00:00 (BM-E012)
    hint: `banksman history t1` shows what happened
    ");
    let late = sandbox.run(&["decisions", "cancel", "t1", "too late", "--json"]);
    assert_eq!((late.code, &late.error()["code"]), (Some(1), &json!("BM-E012")));
    let again = sandbox.json(&["decisions", "approve", "d1", "--as", "human:robin", "--key", "k1"]);
    assert_eq!([&again["replayed"], &again["success"]], [true, true]);
    assert_eq!(again["transition"]["seq"], 6);
    assert_eq!(state(&sandbox, "t1"), "in_progress");
}

#[test]
fn an_agents_run_decides_nothing() {
    let sandbox = Sandbox::new();
    ask(&sandbox, "Refactor the database", "all_approve", &[]);
    for variable in ["BANKSMAN_TOKEN", "BANKSMAN_RUN", "BANKSMAN_RUN_FOLDER"] {
        let attempts: [&[&str]; 4] =
            [&["approve", "d1"], &["answer", "d1", "approve"], &["snooze", "d1", "1h"], &["undo"]];
        for words in attempts {
            let mut command = sandbox.command(&[&["decisions"][..], words].concat());
            let ran = sandbox.finish(command.env(variable, "x").output().unwrap());
            assert_eq!(ran.code, Some(1), "{ran}");
            assert!(ran.stderr.contains("(BM-E011)"), "{ran}");
        }
    }
    for words in [
        &["move", "t1", "--on", "approve"][..],
        &["move", "t1", "--on", "approve", "--as", "human:kim"],
    ] {
        let ran = sandbox.finish(sandbox.command(words).env("BANKSMAN_RUN", "x").output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran}");
    }
    assert_eq!(state(&sandbox, "t1"), "waiting");
    let mut looks = sandbox.command(&["decisions", "-q"]);
    let ran = sandbox.finish(looks.env("BANKSMAN_RUN", "x").output().unwrap());
    assert!(ran.stderr.contains("(BM-E011)"), "{ran}");
}

#[test]
fn several_are_answered_at_once_each_by_itself() {
    let sandbox = Sandbox::new();
    for number in 1..=4 {
        ask(&sandbox, &format!("Task {number}"), "all_approve", &[]);
    }
    ask(&sandbox, "Quarrel", "escalate", &[]);
    sandbox.ok(&["decisions", "backburner", "d2"]);
    assert_snapshot!(fails(&sandbox.run(&["decisions", "approve", "d1", "d2", "t3"])), @"
    exit 1
    -- stdout
    ✓ d1 t1  approve: waiting → in_progress by human:kim
    ✗ d2  d2 is settled, and nothing was changed: dormant by human:kim (backburner) at 0000-00-00T00:00:00Z (BM-E012)
    ✓ d3 t3  approve: waiting → in_progress by human:kim
    -- stderr
    next: banksman decisions
    ");
    let all = sandbox.json(&["decisions", "approve", "--all"]);
    assert_eq!(all["answers"].as_array().unwrap().len(), 1, "what was escalated stays: {all}");
    assert_eq!(sandbox.ok(&["decisions", "-q"]), "d5\n");
    sandbox.ok(&["decisions", "approve", "--all", "--escalated=yes"]);
    assert_eq!(state(&sandbox, "t5"), "in_progress");
    assert_snapshot!(sandbox.run(&["decisions", "approve", "--all"]), @"
    exit 0
    -- stdout
    no matching decisions
    -- stderr
    next: banksman decisions
    ");
}

#[test]
fn what_is_put_off_comes_back() {
    let sandbox = Sandbox::new();
    ask(&sandbox, "Refactor the database", "escalate", &[]);
    assert_snapshot!(fails(&sandbox.run(&["decisions", "snooze", "d1", "8d"])), @"
    exit 1
    -- stderr
    error: d1 is due at 0000-00-00 00:00:00, before the time that it would be put off to (BM-E010)
    hint: choose a shorter time, or answer now
    ");
    sandbox.ok(&["decisions", "snooze", "d1", "2h"]);
    assert_snapshot!(sandbox.run(&["decisions"]), @"
    exit 0
    -- stdout
    no open decisions
    -- stderr
    1 snoozed (--snoozed shows them)
    ");
    assert_eq!(sandbox.ok(&["decisions", "-q", "--snoozed"]), "d1\n");
    assert_eq!(sandbox.json(&["decisions"])["snoozed"], 1);
    sandbox.ok(&["decisions", "snooze", "d1", "0s"]);
    assert_eq!(sandbox.ok(&["decisions", "-q"]), "d1\n");
}

#[test]
fn an_answer_is_undone_only_where_there_is_a_way_back() {
    let sandbox = Sandbox::new();
    assert_snapshot!(fails(&sandbox.run(&["decisions", "undo"])), @"
    exit 1
    -- stderr
    error: human:kim has answered nothing in the last 5min (BM-E019)
    hint: `banksman decisions` lists the open decisions
    ");
    ask(&sandbox, "Refactor the database", "all_approve", &[]);
    assert_snapshot!(fails(&sandbox.run(&["decisions", "undo", "d1"])), @"
    exit 1
    -- stderr
    error: d1 is still open: there is nothing to undo (BM-E010)
    hint: `banksman decisions show d1` shows what each answer does
    ");
    sandbox.ok(&["decisions", "approve", "d1"]);
    assert_snapshot!(fails(&sandbox.run(&["decisions", "undo"])), @"
    exit 1
    -- stderr
    error: no transition for people from in_progress back to waiting: the lifecycle has no such move (BM-E010)
    hint: `banksman show t1` lists the allowed moves
    ");
    assert_eq!(state(&sandbox, "t1"), "in_progress");
    // A merge that was doubted goes to review, and people may bring it back from there.
    let to = |args: &[&str]| sandbox.ok(&[&["move", "t1"][..], args].concat());
    to(&["review", "--as", "worker:ada", "--set", "pr_url=https://forge/1"]);
    let verdicts = r#"verdicts=[{"reviewer":"zed","verdict":"APPROVE"}]"#;
    sandbox.ok(&["override", "t1", verdicts, "--reason", "zed told me"]);
    to(&["merge_ready"]);
    assert_snapshot!(sandbox.run(&["decisions", "changes", "d2", "no docs"]), @"
    exit 0
    -- stdout
    ✓ d2 t1  changes: merge_ready → review by human:kim
    -- stderr
    next: banksman show t1 · banksman decisions undo d2 · banksman decisions
    ");
    assert_snapshot!(sandbox.run(&["decisions", "undo"]), @"
    exit 0
    -- stdout
    ✓ d2 t1  undo: review → merge_ready by human:kim
    -- stderr
    next: banksman show t1 · banksman decisions
    ");
    let history = sandbox.json(&["history", "t1"]);
    let last = history.as_array().unwrap().last().unwrap();
    assert_eq!([&last["to"], &last["idempotency_key"]], ["merge_ready", "undo-d2"]);
    sandbox.ok(&["decisions", "changes", "d3", "no docs"]);
    to(&["in_progress", "--as", "reviewer:rob", "--set", "pr_comments=no docs"]);
    assert_snapshot!(fails(&sandbox.run(&["decisions", "undo", "d3"])), @"
    exit 1
    -- stderr
    error: d3 is not undone, because t1 has gone on since: in_progress by reviewer:rob (changes_requested) at 0000-00-00 00:00:00 (BM-E012)
    hint: `banksman show t1` lists the allowed moves
    ");
    // What the question offered is of no use to whoever comes too late.
    assert_snapshot!(fails(&sandbox.run(&["decisions", "backburner", "d3"])), @"
    exit 1
    -- stderr
    error: d3 is settled, and nothing was changed: review by human:kim (last_minute_concern) at 0000-00-00 00:00:00; in_progress by reviewer:rob (changes_requested) at 0000-00-00 00:00:00 (BM-E012)
    hint: `banksman history t1` shows what happened
    ");
}

#[test]
fn triage_needs_a_terminal() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run(&["decisions", "triage"]), @"
    exit 2
    -- stderr
    error: triage needs a terminal, because it reads single keys (BM-E001)
    hint: `banksman decisions --json` lists the decisions for scripts
    ");
}

#[test]
fn why_names_what_to_type() {
    let sandbox = Sandbox::new();
    let id = ask(&sandbox, "Refactor the database", "unresolved", &[]);
    assert_eq!(
        sandbox.json(&["why", &id])["next"],
        "a person answers: banksman decisions show d1, then banksman decisions approve|changes|back|backburner|cancel d1"
    );
    sandbox.ok(&["decisions", "approve", "d1"]);
    let next = sandbox.json(&["why", &id])["next"].to_string();
    assert!(!next.contains("decisions"), "{next}");
}
