//! Worktrees that nobody took away in time, beside the repository and by a template that is no longer in force.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use banksman::exec::plan::Workspace;
use banksman::exec::process::Plain;
use banksman::exec::worktree::{names, prepare};

use super::processes::wait_until;
use super::yard::Yard;

const BESIDE: (&str, &str) = ("worktrees.path", r#""{repo_parent}/{repo}-feature-{task}""#);
const BELOW: (&str, &str) = ("worktrees.path", r#""{home}/worktrees/{repo}-{hash}/{task}""#);

/// Three tasks that are done, of which the machine has forgotten that it has put everything away.
fn all_done() -> Yard {
    let yard = Yard::new(&[BESIDE, ("worktrees.warn_above", "1")]);
    for number in 1..=3 {
        yard.add(&format!("part {number}"), &[]);
    }
    let up = yard.up();
    yard.until_over(&["here"]);
    up.stop();
    yard.assert_clean(&["here"]);
    fs::remove_dir_all(yard.home("here").join("past")).expect("removed");
    yard
}

/// A worktree as a late attempt at the task makes it, with something in it that is nowhere else.
fn leak(yard: &Yard, task: &str) -> PathBuf {
    let worktree = yard.path(&format!("repo-feature-{task}"));
    let workspace = Workspace {
        task: task.to_owned(),
        repo: yard.path("repo"),
        worktree: worktree.clone(),
        branch: format!("late/{task}"),
        base: "main".to_owned(),
        remote: None,
        setup: None,
        spare: names::spare_folder(&yard.home("here")),
        brings: Vec::new(),
        retry: Vec::new(),
    };
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    drop(prepare(&mut Plain, &workspace, &env).expect("a worktree"));
    fs::write(worktree.join("late"), "x".repeat(3_000_000)).expect("written");
    worktree
}

fn rescued(yard: &Yard) -> usize {
    let names = yard.git(&["for-each-ref", "--format=%(refname)", "refs/banksman/rescue/"]);
    let late = names.lines().filter(|name| {
        yard.git(&["ls-tree", "--name-only", name]).lines().any(|file| file == "late")
    });
    late.count()
}

#[test]
fn leaks_beside_the_repository_are_told_of_rescued_and_removed() {
    let yard = all_done();
    let leaks = [leak(&yard, "t1"), leak(&yard, "t2")];
    // At the place of a task that is done, too, but made by a person.
    let theirs = yard.path("repo-feature-t3");
    yard.git(&["worktree", "add", "-q", "-b", "mine", theirs.to_str().expect("a name")]);
    fs::write(theirs.join("late"), "mine\n").expect("written");

    let status = yard.ok(&["status"]);
    assert!(status.contains("worktrees  2, "), "{status}");
    assert!(status.contains("warning    more than 1 worktrees"), "{status}");
    let bytes = yard.json(&["status"])["disk"]["bytes"].as_u64().expect("a number");
    assert!(bytes > 6_000_000, "{bytes}");

    yard.pulse();
    wait_until("the leaks are put away", || {
        yard.pulse();
        !leaks.iter().any(|leak| leak.exists()) && yard.jobs("here").is_empty()
    });
    assert_eq!(rescued(&yard), 2);
    assert_eq!(yard.worktrees(), [theirs.display().to_string()]);
    assert_eq!(fs::read_to_string(theirs.join("late")).expect("it is there"), "mine\n");
    assert_eq!(yard.json(&["status"])["worktrees"], 0);
    yard.assert_clean(&["here"]);
}

#[test]
fn a_leak_is_removed_after_its_template_was_changed_and_itself_was_moved() {
    let yard = all_done();
    let (leak, moved) = (leak(&yard, "t1"), yard.path("put aside"));
    let [from, to] = [&leak, &moved].map(|path| path.to_str().expect("a name"));
    yard.git(&["worktree", "move", from, to]);
    yard.set(&[BELOW]);
    assert_eq!(yard.json(&["status"])["worktrees"], 1);
    wait_until("the leak is put away", || {
        yard.pulse();
        !moved.exists() && yard.jobs("here").is_empty()
    });
    assert_eq!(rescued(&yard), 1);
    assert_eq!(yard.worktrees(), Vec::<String>::new());
    yard.assert_clean(&["here"]);
}
