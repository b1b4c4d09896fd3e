//! Where there is no remote, the branch of a task stands for its pull request, and the answer
//! `merge` merges it.

use std::fs;
use std::path::PathBuf;

use banksman_core::time::Span;
use rusqlite::Connection;
use serde_json::json;

use super::desk::{Desk, PARENT, one_subtask, plan, subtask};
use crate::daily::desk::{save, text, ticked};
use crate::engine::processes::wait_until;

pub(super) const READY: &str = "merge_ready";
pub(super) const APPROVED: &str = "merge_ready(approved)";
const MERGING: &str = "merge_ready(merging)";
const MAX_CONFLICTS: usize = 3;
const MOVED_ON: &str = "is no longer what was accepted";
/// Passes on the branch. On what would be merged it waits for somebody who says how it ends.
const PATIENT: &str = r#"case "$PWD" in */merging/*) harness=${PWD%%/home-here/*}; : >"$harness/checking"; until [ -s "$harness/go" ]; do sleep 0.02; done; cat "$harness/go"; grep -q good "$harness/go";; esac"#;

/// A task of one piece whose work is reviewed.
pub(super) fn reviewed() -> Desk {
    reviewed_with(&[])
}

fn reviewed_with(settings: &[(&str, &str)]) -> Desk {
    let desk = Desk::with(settings, &[one_subtask()]);
    desk.approve();
    desk.until(PARENT, READY);
    desk
}

/// One whose merge takes until [`decide`].
pub(super) fn held() -> Desk {
    reviewed_with(&[("verify.commands", &json!([PATIENT]).to_string())])
}

/// Turns until the merge waits for somebody who decides it.
pub(super) fn until_checked(desk: &Desk) {
    desk.driver.turn_until("the check runs", |_| desk.harness.path("checking").exists());
}

pub(super) fn decide(desk: &Desk, word: &str) {
    fs::write(desk.harness.path("go"), word).expect("written");
}

pub(super) fn branch(desk: &Desk) -> String {
    let url = desk.field("pr_url");
    url.as_str().and_then(|url| url.strip_prefix("local:")).expect("a branch").to_owned()
}

pub(super) fn main(desk: &Desk) -> String {
    desk.harness.git(&["rev-parse", "main"])
}

pub(super) fn refusal(desk: &Desk, args: &[&str]) -> String {
    let output = desk.harness.run(args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Says `merge`, which leads back to the question. Answers with what stood against it.
fn merge_in_vain(desk: &Desk) -> String {
    let before = main(desk);
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, READY);
    assert_eq!(main(desk), before, "nothing moves");
    assert_eq!(desk.field("merged"), json!(null));
    desk.field("problem").as_str().expect("a reason").to_owned()
}

/// Somebody changes the same file on the base.
fn write_to_main(desk: &Desk) {
    fs::write(desk.harness.path("repo/work-t1"), "something else\n").expect("written");
    desk.harness.git(&["add", "work-t1"]);
    desk.harness.git(&["commit", "-qm", "mine"]);
}

/// How often the work of a task was merged.
fn merges(desk: &Desk, id: &str) -> usize {
    let message = format!("--grep=Task: {id}$");
    desk.harness.git(&["log", "--merges", "--format=%H", &message, "main"]).lines().count()
}

#[test]
fn whoever_says_merge_has_it_merged() {
    let desk = reviewed();
    let (branch, tip) = (branch(&desk), desk.harness.git(&["rev-parse", &branch(&desk)]));
    let said = desk.harness.run(&["decisions", "merge", "t1"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let told = format!("merging {branch}; `banksman why t1` shows the progress\n");
    assert!(said.contains(&told), "{said}");
    assert_eq!(desk.state(PARENT), APPROVED);
    assert_eq!(
        waiting_for(&desk),
        ["merge", &format!("it is found out whether {branch} is in its base")]
    );
    desk.until(PARENT, "done");
    assert!(desk.harness.git(&["show", "main:work-t1"]).starts_with("r1.2"));
    desk.harness.git(&["merge-base", "--is-ancestor", tip.trim(), "main"]);
    assert_eq!((desk.field("merged"), merges(&desk, "t1")), (json!(true), 1));
    let head = main(&desk);
    let shown = desk.harness.ok(&["show", "t1"]);
    assert!(shown.contains(&format!("into `main` at {}\n", &head[..7])), "{shown}");
    assert!(shown.contains("there are commits; no checks ran"), "{shown}");
    let why = desk.harness.ok(&["why", "t1"]);
    assert!(why.contains("nothing: done is an end; the work is in `main`"), "{why}");
    let again = refusal(&desk, &["decisions", "merge", "t1"]);
    assert!(again.contains("settled"), "{again}");
    desk.until_quiet();
}

/// Longer than anybody is waited for.
const A_WEEK: Span = Span(7 * 86_400_000 + 1);

/// Nobody acts until the parent is in this state. What is typed afterwards is typed today.
fn silent_until(desk: &Desk, state: &str) {
    desk.driver.pass(A_WEEK);
    desk.until(PARENT, state);
    desk.driver.pass(Span(-A_WEEK.0));
}

#[test]
fn a_merge_that_nobody_answers_fails_and_a_retry_asks_about_the_same_commit() {
    let desk = reviewed();
    let (pull, head) = (desk.field("pr_url"), desk.field("pr_head"));
    silent_until(&desk, "failed");
    desk.until_quiet();
    desk.harness.ok(&["retry", "t1"]);
    assert_eq!(desk.state(PARENT), READY);
    assert_eq!((desk.field("pr_url"), desk.field("pr_head")), (pull, head));
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, "done");
    assert_eq!(merges(&desk, "t1"), 1);
    desk.harness.ok(&["check"]);
}

#[test]
fn silence_about_a_subtask_comes_back_as_a_decision_and_nothing_is_done_twice() {
    let desk = Desk::new(&[plan(&[subtask("limiter", 1), subtask("docs", 1)], &[])]);
    desk.approve();
    desk.driver.turn_until("its subtasks are made", |_| desk.children().len() == 2);
    let children = ["limiter", "docs"].map(|name| desk.child(name));
    for child in children {
        desk.until(child, READY);
    }
    silent_until(&desk, "blocked");
    let runs =
        || children.map(|child| desk.driver.store.task(child).expect("it is there").task.epoch);
    let before = runs();
    desk.harness.ok(&["decisions", "answer", "t1", "resume"]);
    for (name, child) in ["limiter", "docs"].into_iter().zip(children) {
        desk.until(child, READY);
        desk.merge(name);
    }
    desk.until(PARENT, "done");
    assert_eq!(runs(), before, "nobody has worked again");
}

/// What `why` names first.
pub(super) fn waiting_for(desk: &Desk) -> [String; 2] {
    let why = desk.harness.json(&["why", "t1"]);
    ["kind", "detail"].map(|name| why["waitingFor"][0][name].as_str().expect("words").to_owned())
}

#[test]
fn without_anybody_at_work_a_pulse_merges() {
    let desk = reviewed();
    let raw = Connection::open(desk.harness.path("store.db")).expect("the file opens");
    raw.execute("UPDATE nodes SET seen_at = 0", []).expect("nobody was seen for long");
    let said = desk.harness.run(&["decisions", "merge", "t1"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("no machine is running tasks of this store: start `banksman up`"),
        "{said}"
    );
    let why = desk.harness.json(&["why", "t1"]);
    let who = &why["waitingFor"][0]["who"];
    assert_eq!([who, &why["next"]], ["a machine", "start agents: banksman up"], "{why}");
    wait_until("pulses have merged it", || {
        desk.harness.pulse();
        desk.state(PARENT) == "done"
    });
    assert_eq!(merges(&desk, "t1"), 1);
}

/// Somebody adds a commit to the branch after its review. Returns why it is not merged.
fn add_to_branch(desk: &Desk) -> String {
    let branch = branch(desk);
    let tree = format!("{branch}^{{tree}}");
    let more = desk.harness.git(&["commit-tree", &tree, "-p", &branch, "-m", "more"]);
    desk.harness.git(&["update-ref", &format!("refs/heads/{branch}"), more.trim()]);
    format!("`{branch}` {MOVED_ON}")
}

#[test]
fn what_was_not_reviewed_is_not_merged() {
    let desk = reviewed();
    let refused = add_to_branch(&desk);
    assert_eq!(merge_in_vain(&desk), refused);
}

/// Whoever writes to the branch while its merge is under way is too late for it.
#[test]
fn what_comes_during_the_merge_is_not_merged() {
    let desk = held();
    desk.harness.ok(&["decisions", "merge", "t1"]);
    until_checked(&desk);
    fs::write(desk.harness.path("repo/other"), "elsewhere\n").expect("written");
    desk.harness.git(&["add", "other"]);
    desk.harness.git(&["commit", "-qm", "the base moves on"]);
    let refused = add_to_branch(&desk);
    decide(&desk, "good");
    desk.until(PARENT, READY);
    assert_eq!(desk.field("problem"), json!(refused));
    assert_eq!(merges(&desk, "t1"), 0);
}

/// The worker resolves a conflict, and the result is reviewed and asked about anew.
#[test]
fn a_conflict_goes_back_to_the_worker_with_its_paths() {
    let desk = reviewed();
    write_to_main(&desk);
    let base = main(&desk);
    desk.harness.script(
        "r1.3",
        "run git merge -q -X ours main -m 'both'\nsuccess it is brought up to date\n",
    );
    let reviews = || desk.harness.ok(&["list", "--all"]).matches(" reviews ").count();
    let before = reviews();
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, "in_progress");
    assert_eq!((main(&desk), desk.field("merged")), (base, json!(null)), "nothing moves");
    desk.until(PARENT, READY);
    let prompt = desk.prompt("r1.3");
    assert!(prompt.contains("It conflicts with its base. it conflicts in work-t1"), "{prompt}");
    assert!(reviews() > before, "what was changed is reviewed");
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, "done");
    assert_eq!(merges(&desk, "t1"), 1);
    desk.until_quiet();
}

#[test]
fn a_conflict_that_no_worker_resolves_comes_to_a_person() {
    let desk = reviewed();
    write_to_main(&desk);
    for _ in 0..MAX_CONFLICTS {
        desk.harness.ok(&["decisions", "merge", "t1"]);
        desk.until(PARENT, "in_progress");
        desk.until(PARENT, READY);
    }
    assert_eq!(merge_in_vain(&desk), "it conflicts with its base again and again");
    let page = desk.harness.ok(&["decisions", "show", "t1"]);
    assert!(page.contains("escalated") && page.contains("again and again"), "{page}");
    // What a person asks for is not counted.
    let reviews = || desk.harness.ok(&["list", "--all"]).matches(" reviews ").count();
    let before = reviews();
    desk.harness.script(
        "r1.6",
        "run git merge -q -X ours main -m 'both'\nsuccess it is brought up to date\n",
    );
    desk.harness.ok(&["decisions", "changes", "t1", "bring it up to date"]);
    desk.until(PARENT, "in_progress");
    assert_eq!(reviews(), before, "no reviewer is asked whether a person is right");
    desk.until(PARENT, READY);
    assert!(desk.prompt("r1.6").contains("bring it up to date"));
    assert_eq!((desk.field("problem"), desk.field("objection")), (json!(null), json!(null)));
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, "done");
}

#[test]
fn a_check_that_fails_on_the_result_goes_back_to_the_worker_with_its_last_words() {
    let desk = held();
    decide(&desk, "bad: two tests fail");
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, "in_progress");
    desk.until(PARENT, READY);
    let prompt = desk.prompt("r1.3");
    assert!(prompt.contains("failed on the result: bad: two tests fail"), "{prompt}");
    decide(&desk, "good");
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.until(PARENT, "done");
}

#[test]
fn an_answer_that_is_refused_merges_nothing() {
    let desk = reviewed();
    let before = main(&desk);
    refusal(&desk, &["decisions", "merge", "t1", "--seen", "2"]);
    refusal(&desk, &["decisions", "merge", "t1", "--as", "worker:w1"]);
    desk.driver.turn();
    assert_eq!((desk.state(PARENT), main(&desk)), (READY.into(), before));
}

#[test]
fn a_merge_whose_keeper_is_killed_is_done_once() {
    let desk = held();
    desk.harness.ok(&["decisions", "merge", "t1"]);
    until_checked(&desk);
    let keeper = desk.harness.only_keeper();
    keeper.kill();
    decide(&desk, "good");
    desk.until(PARENT, "done");
    assert_eq!(merges(&desk, "t1"), 1);
    desk.until_quiet();
}

/// A subtask that is being merged is past its review, and what its parent comes to does not tear it
/// away from the merge.
#[test]
fn the_end_of_the_parent_waits_for_a_subtask_that_is_being_merged() {
    for (word, end) in [("good", "done"), ("bad", "cancelled")] {
        let settings = [("verify.commands", &*json!([PATIENT]).to_string())];
        let desk = Desk::with(&settings, &[plan(&[subtask("a", 1), subtask("b", 1)], &[])]);
        desk.approve();
        desk.until(PARENT, READY);
        let (a, b) = (desk.child("a"), desk.child("b"));
        desk.harness.ok(&["decisions", "merge", &a.to_string()]);
        until_checked(&desk);
        desk.harness.ok(&["decisions", "changes", &b.to_string(), "look again"]);
        desk.until(PARENT, "review");
        desk.until(b, READY);
        desk.until(PARENT, READY);
        assert_eq!(desk.state(a), MERGING);
        assert_eq!(desk.field("children_waiting"), json!(2));
        desk.harness.ok(&["move", "t1", "cancelled", "--set", "reason=out of scope"]);
        desk.until(b, "cancelled");
        assert_eq!(desk.state(a), MERGING);
        decide(&desk, word);
        desk.until(a, end);
        assert_eq!(merges(&desk, &a.to_string()), usize::from(word == "good"));
        desk.until_quiet();
    }
}

/// The box of the daily note, which nobody but `up` reads.
fn tick(desk: &Desk) -> PathBuf {
    let folder = format!("{:?}", desk.harness.path("notes").display().to_string());
    desk.harness.set(&[("daily.folder", &folder), ("daily.settle", "\"1ms\"")]);
    let note = desk.harness.json(&["daily"]);
    let path: PathBuf = note["path"].as_str().expect("a path").into();
    save(&path, &ticked(&text(&path), "Merge"));
    path
}

#[test]
fn a_ticked_box_merges() {
    let desk = reviewed();
    let path = tick(&desk);
    let up = desk.harness.up();
    wait_until("it is done", || desk.state(PARENT) == "done");
    wait_until("the note says so", || text(&path).contains("merged at"));
    up.stop();
    assert_eq!(merges(&desk, "t1"), 1);
}

#[test]
fn a_ticked_box_that_cannot_be_merged_is_asked_about_again() {
    let desk = reviewed();
    add_to_branch(&desk);
    let path = tick(&desk);
    let asked = desk.harness.json(&["decisions"])["decisions"][0]["id"].clone();
    let up = desk.harness.up();
    wait_until("it is asked again", || {
        let open = desk.harness.json(&["decisions"])["decisions"][0]["id"].clone();
        open.is_string() && open != asked
    });
    wait_until("the note says why", || text(&path).contains(MOVED_ON));
    up.stop();
    assert_eq!((desk.state(PARENT), merges(&desk, "t1")), (READY.to_owned(), 0));
    let note = text(&path);
    let (before, after) = note.split_once("### Escalated").expect("it needs a look");
    assert!(!before.contains(MOVED_ON) && after.contains("- [ ] Merge"), "{note}");
}
