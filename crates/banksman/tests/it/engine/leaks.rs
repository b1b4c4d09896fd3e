//! Worktrees that nobody took away in time, beside the repository and by a template that is no
//! longer in force.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use banksman::exec::job::Workspace;
use banksman::exec::process::PlainRunner;
use banksman::exec::worktree::{names, prepare};

use super::harness::Harness;
use super::processes::wait_until;
use crate::programs;

const BESIDE: (&str, &str) = ("worktrees.path", r#""{repo_parent}/{repo}-feature-{task}""#);
const BELOW: (&str, &str) = ("worktrees.path", r#""{home}/worktrees/{repo}-{hash}/{task}""#);

/// Three tasks that are done, of which the machine has forgotten that it has put everything away.
fn all_done() -> Harness {
    let harness = Harness::new(&[BESIDE, ("worktrees.warn_above", "1")]);
    for number in 1..=3 {
        harness.add(&format!("part {number}"), &[]);
    }
    let up = harness.up();
    harness.until_over(&["here"]);
    up.stop();
    harness.assert_clean(&["here"]);
    fs::remove_dir_all(harness.home("here").join("past")).expect("removed");
    harness
}

/// A worktree as a late attempt at the task makes it, with something in it that is nowhere else.
fn leak(harness: &Harness, task: &str) -> PathBuf {
    let worktree = harness.path(&format!("repo-feature-{task}"));
    let workspace = Workspace {
        task: task.to_owned(),
        repo: harness.path("repo"),
        worktree: worktree.clone(),
        branch: format!("late/{task}"),
        base: "main".to_owned(),
        remote: None,
        setup: None,
        spare: names::spare_folder(&harness.home("here")),
        merges_in: Vec::new(),
        left_out: Default::default(),
        since: banksman_core::time::Instant(1),
        has_begun: true,
        retry: Vec::new(),
    };
    let env = BTreeMap::from([("PATH".to_owned(), programs::path())]);
    drop(prepare(&mut PlainRunner { env }, &workspace).expect("a worktree"));
    fs::write(worktree.join("late"), "x".repeat(3_000_000)).expect("written");
    worktree
}

fn rescued(harness: &Harness) -> usize {
    let names = harness.git(&["for-each-ref", "--format=%(refname)", "refs/banksman/rescue/"]);
    let late = names.lines().filter(|name| {
        harness.git(&["ls-tree", "--name-only", name]).lines().any(|file| file == "late")
    });
    late.count()
}

#[test]
fn leaks_beside_the_repository_are_told_of_rescued_and_removed() {
    let harness = all_done();
    let leaks = [leak(&harness, "t1"), leak(&harness, "t2")];
    // At the place of a task that is done, too, but made by a person.
    let theirs = harness.path("repo-feature-t3");
    harness.git(&["worktree", "add", "-q", "-b", "mine", theirs.to_str().expect("a name")]);
    fs::write(theirs.join("late"), "mine\n").expect("written");

    let status = harness.ok(&["status"]);
    assert!(status.contains("worktrees  2, "), "{status}");
    assert!(status.contains("warning    more than 1 worktrees"), "{status}");
    let bytes = harness.json(&["status"])["disk"]["bytes"].as_u64().expect("a number");
    assert!(bytes > 6_000_000, "{bytes}");

    harness.pulse();
    wait_until("the leaks are put away", || {
        harness.pulse();
        !leaks.iter().any(|leak| leak.exists()) && harness.jobs("here").is_empty()
    });
    assert_eq!(rescued(&harness), 2);
    assert_eq!(harness.worktrees(), [theirs.display().to_string()]);
    assert_eq!(fs::read_to_string(theirs.join("late")).expect("it is there"), "mine\n");
    assert_eq!(harness.json(&["status"])["worktrees"], 0);
    harness.assert_clean(&["here"]);
}

#[test]
fn a_leak_is_removed_after_its_template_was_changed_and_itself_was_moved() {
    let harness = all_done();
    let (leak, moved) = (leak(&harness, "t1"), harness.path("put aside"));
    let [from, to] = [&leak, &moved].map(|path| path.to_str().expect("a name"));
    harness.git(&["worktree", "move", from, to]);
    harness.set(&[BELOW]);
    assert_eq!(harness.json(&["status"])["worktrees"], 1);
    wait_until("the leak is put away", || {
        harness.pulse();
        !moved.exists() && harness.jobs("here").is_empty()
    });
    assert_eq!(rescued(&harness), 1);
    assert_eq!(harness.worktrees(), Vec::<String>::new());
    harness.assert_clean(&["here"]);
}
