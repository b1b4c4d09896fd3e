//! A word is not enough: what is demanded of a step is looked at, also where somebody does it by
//! hand. Who said it too early is told what was found, and may say it again.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Bench, DONE};

fn by_hand(demands: &str) -> String {
    format!(
        "workflow: {{ id: w, name: By hand }}
steps:
  - {{ id: A, agent: {{ launch: interactive }}, {demands} }}
"
    )
}

/// A step that somebody is asked to do, and the worktree that is made for it.
fn laid_out(settings: &[(&str, &str)], demands: &str) -> (Bench, PathBuf) {
    let bench = Bench::with(settings, &by_hand(demands));
    bench.until_state("A", "interactive");
    bench.settle();
    let worktree = bench.harness.worktrees().pop().expect("a worktree");
    (bench, worktree.into())
}

/// Somebody says that it is done, and it is not.
fn says_in_vain(bench: &Bench, found: &str) {
    bench.says(&["A", "done"]);
    bench.until("it is looked at", |bench| bench.diagnostic("A").contains(found));
    assert_eq!(bench.state("A"), "interactive");
    let words = bench.harness.file("repo/.workflow/steps/A.md");
    assert!(words.contains(found), "{words}");
    let next = bench.harness.ok(&["workflow", "next"]);
    assert!(next.contains(found), "{next}");
    bench.settle();
}

#[test]
fn a_command_runs_in_the_worktree_also_where_nothing_was_changed() {
    let (bench, worktree) = laid_out(&[], "success_criterion: { command: test -s proof }");
    says_in_vain(&bench, "`test -s proof` exited with code 1");
    fs::write(bench.harness.path("repo/proof"), "not here\n").expect("written");
    says_in_vain(&bench, "`test -s proof` exited with code 1");
    fs::remove_file(bench.harness.path("repo/proof")).expect("removed");
    fs::write(worktree.join("proof"), "so it is\n").expect("written");
    bench.says(&["A", "done"]);
    bench.until_over("complete");
    assert_eq!(bench.harness.git(&["show", "main:proof"]), "so it is\n");
    assert_eq!(bench.starts(), Vec::<String>::new(), "no agent was asked");
}

#[test]
fn a_headless_step_without_a_change_has_to_pass_its_command_as_well() {
    let spec = "
workflow: { id: w, name: Without a change, merge: false }
steps:
  - { id: A, success_criterion: { command: test -s proof } }
";
    let bench = Bench::new(spec);
    bench.script("A.1", DONE);
    bench.script("A.2", "run echo so >proof\nsuccess it is written\n");
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "A.2"]);
    assert!(bench.prompt("A.2").contains("`test -s proof` exited with code 1"));
}

#[test]
fn paths_that_are_denied_are_denied_to_hands_as_well() {
    let denied = [("verify.denied_paths", "[\"keys/\"]")];
    let (bench, worktree) = laid_out(&denied, "outputs: [a.txt]");
    fs::write(worktree.join("a.txt"), "a\n").expect("written");
    fs::create_dir(worktree.join("keys")).expect("a folder");
    fs::write(worktree.join("keys/mine"), "secret\n").expect("written");
    says_in_vain(&bench, "the run changed paths that are denied: keys/mine");
    fs::remove_dir_all(worktree.join("keys")).expect("removed");
    bench.says(&["A", "done"]);
    bench.until_over("complete");
}

#[test]
fn work_on_another_branch_is_not_the_steps_and_that_is_said() {
    let (bench, worktree) = laid_out(&[], "outputs: [horse.txt]");
    let git = |args: &[&str]| {
        let done = Command::new("git").arg("-C").arg(&worktree).args(args).output();
        assert!(done.expect("git starts").status.success(), "{args:?}");
    };
    git(&["switch", "--quiet", "--orphan", "elsewhere"]);
    fs::write(worktree.join("horse.txt"), "a horse\n").expect("written");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "nothing in common"]);
    says_in_vain(&bench, "missing output: horse.txt");
    assert!(bench.diagnostic("A").contains("elsewhere"), "{}", bench.diagnostic("A"));
}

#[test]
fn who_says_it_again_and_again_in_vain_leaves_it_to_a_person() {
    let (bench, _) = laid_out(&[], "success_criterion: { command: 'false' }");
    for _ in 0..9 {
        bench.says(&["A", "done"]);
        bench.until_state("A", "interactive");
        bench.settle();
    }
    bench.says(&["A", "done"]);
    bench.until_state("A", "gate(human)");
    assert!(
        bench.diagnostic("A").contains("without passing its check"),
        "{}",
        bench.diagnostic("A")
    );
    bench.says(&["A", "pass"]);
    bench.until_over("complete");
}
