//! Where there is no remote, the branch of a task stands for its pull request, and the answer `merge` merges it.

use std::fs;

use super::desk::{Desk, WHOLE, one_piece};

/// A task of one piece whose work is reviewed.
fn reviewed() -> Desk {
    let desk = Desk::new(&[one_piece()]);
    desk.approve();
    desk.until(WHOLE, "merge_ready");
    desk
}

fn branch(desk: &Desk) -> String {
    let url = desk.field("pr_url");
    url.as_str().and_then(|url| url.strip_prefix("local:")).expect("a branch").to_owned()
}

fn refusal(desk: &Desk, args: &[&str]) -> String {
    let output = desk.yard.run(args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn whoever_says_merge_has_it_merged() {
    let desk = reviewed();
    let tip = desk.yard.git(&["rev-parse", &branch(&desk)]);
    desk.yard.ok(&["decisions", "merge", "t1"]);
    assert_eq!(desk.state(WHOLE), "done");
    assert!(desk.yard.git(&["show", "main:work-t1"]).starts_with("r1.2"));
    desk.yard.git(&["merge-base", "--is-ancestor", tip.trim(), "main"]);
    let again = refusal(&desk, &["decisions", "merge", "t1"]);
    assert!(again.contains("nothing is asked") || again.contains("settled"), "{again}");
    desk.until_quiet();
}

#[test]
fn what_was_not_reviewed_is_not_merged() {
    let desk = reviewed();
    let (branch, main) = (branch(&desk), desk.yard.git(&["rev-parse", "main"]));
    let tree = format!("{branch}^{{tree}}");
    let more = desk.yard.git(&["commit-tree", &tree, "-p", &branch, "-m", "more"]);
    desk.yard.git(&["update-ref", &format!("refs/heads/{branch}"), more.trim()]);
    let told = refusal(&desk, &["decisions", "merge", "t1"]);
    assert!(told.contains("nothing was merged: ") && told.contains("reviewed"), "{told}");
    assert!(told.contains("banksman decisions changes d"), "{told}");
    assert_eq!((desk.state(WHOLE), desk.yard.git(&["rev-parse", "main"])), (READY.into(), main));
}

#[test]
fn what_does_not_go_together_is_told_and_nothing_moves() {
    let desk = reviewed();
    fs::write(desk.yard.path("repo/work-t1"), "something else\n").expect("written");
    desk.yard.git(&["add", "work-t1"]);
    desk.yard.git(&["-c", "user.name=kim", "-c", "user.email=k@x", "commit", "-qm", "mine"]);
    let main = desk.yard.git(&["rev-parse", "main"]);
    let told = refusal(&desk, &["decisions", "merge", "t1"]);
    assert!(told.contains("do not go together: work-t1"), "{told}");
    assert_eq!((desk.state(WHOLE), desk.yard.git(&["rev-parse", "main"])), (READY.into(), main));
}

#[test]
fn an_answer_that_would_be_refused_merges_nothing() {
    let desk = reviewed();
    let main = desk.yard.git(&["rev-parse", "main"]);
    refusal(&desk, &["decisions", "merge", "t1", "--seen", "2"]);
    refusal(&desk, &["decisions", "merge", "t1", "--as", "worker:w1"]);
    assert_eq!((desk.state(WHOLE), desk.yard.git(&["rev-parse", "main"])), (READY.into(), main));
}

const READY: &str = "merge_ready";
