//! Pull requests as a signal, with a bare repository in a forge's place: what it publishes counts,
//! and what anybody says does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use banksman_core::time::Span;

use super::{Bench, DONE, WAIT, WORK, runs};
use crate::engine::driver::{Driver, NODE};
use crate::engine::harness::Harness;

fn git_in(folder: &Path, args: &[&str]) -> String {
    let done = Command::new("git").arg("-C").arg(folder).args(args).output().expect("git starts");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// Puts a forge beside the repository of a harness. Somebody's pull request from long ago is at the
/// base.
fn forge_of(harness: &Harness) -> PathBuf {
    let forge = harness.path("forge.git");
    harness.git(&["clone", "--quiet", "--bare", ".", &forge.display().to_string()]);
    harness.git(&["remote", "add", "origin", &forge.display().to_string()]);
    git_in(&forge, &["update-ref", "refs/pull/1/head", "main"]);
    forge
}

#[test]
fn a_step_of_an_agent_is_done_when_the_forge_has_its_pull_request() {
    let mut bench = Bench::new(
        "
workflow: { id: w, name: With a forge, merge: false }
steps:
  - { id: opens, signal: { type: pr_creation } }
  - { id: forgets, signal: { type: pr_creation } }
",
    );
    let forge = forge_of(&bench.harness);
    bench.driver = Driver::of(bench.harness.root(), Span(100));
    let push = "run git push -q origin HEAD";
    bench.script("opens", &format!("{WORK}{push} HEAD:refs/merge-requests/7/head\n{DONE}"));
    bench.script("forgets.1", &format!("{WORK}{push}\n{DONE}"));
    bench.script("forgets.2", &format!("{WAIT}{DONE}"));
    bench.until_started("forgets.2");
    let runs = bench.driver.store.past_runs(bench.step("forgets").task.id, 8).expect("runs");
    let detail = runs.first().and_then(|run| run.detail.clone()).unwrap_or_default();
    assert!(detail.contains("the signal of a pull request for"), "{detail}");
    // Somebody opens it for the agent, which has nothing more to do.
    let branches = git_in(&forge, &["for-each-ref", "--format=%(refname)", "refs/heads/banksman"]);
    let branch = branches.lines().find(|name| name.contains("forgets")).expect("it was pushed");
    git_in(&forge, &["update-ref", "refs/pull/8/head", branch]);
    bench.go("forgets.2");
    bench.until_over("complete");
    assert_eq!(runs_of(&bench, "opens"), 1, "it was there at once");
}

fn runs_of(bench: &Bench, step: &str) -> i64 {
    runs(&bench.driver.store, bench.step(step).task.id)
}

const BY_HAND: &str = "
workflow: { id: w, name: By hand, merge: false }
steps:
  - { id: X, agent: { launch: interactive }, signal: { type: pr_creation }, gate: G }
gates:
  - { id: G, reviewer: { level: human }, on_pass: { next_step: DONE } }
";
/// Longer than the longest wait between two looks.
const A_WHILE: Span = Span(20 * 60_000);

fn by_hand() -> (Bench, PathBuf) {
    let mut bench = Bench::new(BY_HAND);
    let forge = forge_of(&bench.harness);
    bench.driver = Driver::of(bench.harness.root(), Span(100));
    bench.until("the step is laid out", |bench| {
        !bench.harness.worktrees().is_empty() && bench.harness.jobs(NODE).is_empty()
    });
    (bench, forge)
}

/// The looks at the remote that are over and kept.
fn looks(bench: &Bench) -> Vec<String> {
    let past = fs::read_dir(bench.harness.home(NODE).join("past")).expect("a folder");
    let names = past.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('l')).collect()
}

/// Lets time pass until the remote was looked at once more.
fn look_again(bench: &Bench) {
    let before = looks(bench);
    bench.driver.pass(A_WHILE);
    bench.until("it was looked at", |bench| looks(bench) != before);
    let look = looks(bench);
    bench.settle();
    assert_eq!(looks(bench), look, "one look, and not one for each turn");
    assert_eq!(look.len(), 1, "only the last is kept");
}

fn commit(worktree: &Path, text: &str) {
    fs::write(worktree.join("idea.txt"), text).expect("written");
    git_in(worktree, &["add", "--all"]);
    git_in(worktree, &["commit", "--quiet", "--message", text]);
}

#[test]
fn a_step_by_hand_is_done_when_the_forge_has_its_pull_request() {
    let (bench, forge) = by_hand();
    let worktree = PathBuf::from(&bench.harness.worktrees()[0]);
    look_again(&bench);
    assert_eq!(bench.state("X"), "interactive", "the base has somebody's pull request, X has none");
    commit(&worktree, "an idea");
    git_in(&worktree, &["push", "--quiet", "origin", "HEAD"]);
    look_again(&bench);
    assert_eq!(bench.state("X"), "interactive", "nobody has opened it");
    let branch = git_in(&worktree, &["symbolic-ref", "HEAD"]);
    git_in(&forge, &["update-ref", "refs/pull/7/head", &branch]);
    look_again(&bench);
    assert_eq!(bench.state("X"), "gate(human)");
    assert_eq!(bench.logged("pull request 7 for X: signal taken"), 1, "{:?}", bench.log());

    // Sent back, it is not done before something has changed.
    bench.says(&["G", "fail", "--note", "another idea, please"]);
    bench.until_state("X", "interactive");
    bench.until("it is laid out again", |bench| bench.harness.jobs(NODE).is_empty());
    for _ in 0..2 {
        look_again(&bench);
        assert_eq!(bench.state("X"), "interactive");
    }
    assert_eq!(bench.logged("it was taken before and changes nothing"), 1, "{:?}", bench.log());

    // The person goes on, and somebody on the forge brings the branch up to date.
    commit(&worktree, "a better idea");
    git_in(&worktree, &["push", "--quiet", "origin", "HEAD"]);
    let other = bench.harness.path("other");
    git_in(bench.harness.root(), &["clone", "--quiet", "forge.git", "other"]);
    let name = branch.trim_start_matches("refs/heads/");
    git_in(&other, &["switch", "--quiet", name]);
    let author = ["-c", "user.name=Kim", "-c", "user.email=kim@example.org"];
    let merge = ["commit", "--quiet", "--allow-empty", "--message", "up to date"];
    git_in(&other, &[&author[..], &merge[..]].concat());
    git_in(&other, &["push", "--quiet", "origin", "HEAD"]);
    git_in(&forge, &["update-ref", "refs/pull/7/head", &branch]);
    look_again(&bench);
    assert_eq!(bench.state("X"), "gate(human)", "{:?}", bench.log());
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}

#[test]
fn a_remote_that_cannot_be_asked_is_told_of_once_and_asked_again() {
    let (bench, forge) = by_hand();
    let worktree = PathBuf::from(&bench.harness.worktrees()[0]);
    commit(&worktree, "an idea");
    git_in(&worktree, &["push", "--quiet", "origin", "HEAD", "HEAD:refs/pull/7/head"]);
    let away = bench.harness.path("away.git");
    fs::rename(&forge, &away).expect("moved");
    for _ in 0..2 {
        look_again(&bench);
        assert_eq!(bench.state("X"), "interactive");
    }
    assert_eq!(bench.logged("no pull request for X can be looked for"), 1, "{:?}", bench.log());
    fs::rename(&away, &forge).expect("moved");
    look_again(&bench);
    assert_eq!(bench.state("X"), "gate(human)");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}
