//! Branches of other tasks that a task goes on from.

use std::collections::BTreeMap;
use std::fs;

use banksman::exec::job::{LeftOut, Verification, Workspace};
use banksman::exec::process::{PlainRunner, Program, ProgramOutput, RunError, Runner};
use banksman::exec::worktree::prepare;
use banksman_core::receipt::PrepareFault;

use super::{World, checks, read, said, write};

/// A task that has worked: its branch has one commit.
fn worked(world: &World, task: &str, file: &str, text: &str) -> String {
    let workspace = world.workspace(task);
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, file, text)
}

fn after(world: &World, task: &str, others: &[&str]) -> Workspace {
    let merges_in = others.iter().map(|other| format!("banksman/{other}")).collect();
    Workspace { merges_in, ..world.workspace(task) }
}

fn holds(world: &World, branch: &str, commit: &str) -> bool {
    let found = world.git(&world.repo(), &["branch", "--list", branch, "--contains", commit]);
    !found.is_empty()
}

#[test]
fn one_branch_is_gone_on_from_as_it_is() {
    let world = World::new();
    let first = worked(&world, "t1", "test.py", "v1\n");
    let workspace = after(&world, "t2", &["t1"]);
    let prepared = world.prepare(&workspace);
    assert_eq!((&prepared.head, &prepared.base), (&first, &first), "no merge is needed");
    assert_eq!(read(&workspace.worktree.join("test.py")), "v1\n");
    assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), "banksman/t2");
    assert_eq!(world.rev("banksman/t1"), first);
}

#[test]
fn several_are_put_together_and_what_is_there_already_is_not_brought_again() {
    let world = World::new();
    let tips = [worked(&world, "t1", "a", "x"), worked(&world, "t2", "b", "x")];
    let workspace = after(&world, "t3", &["t1", "t2", "t3"]);
    let prepared = world.prepare(&workspace);
    assert!(tips.iter().all(|tip| holds(&world, "banksman/t3", tip)));
    assert_eq!(world.status(&workspace.worktree), "");
    assert_eq!(prepared.head, world.rev("banksman/t3"));
    let head = prepared.head.clone();
    drop(prepared);
    assert_eq!(world.prepare(&workspace).head, head);

    let more = world.work(&world.workspace("t2").worktree, "b", "y");
    let again = world.prepare(&workspace);
    assert_ne!(again.head, head);
    assert!(holds(&world, "banksman/t3", &more));
    assert_eq!(read(&workspace.worktree.join("b")), "y");
}

/// Neither its commits nor its paths are this task's, at the first attempt and at those after it.
#[test]
fn what_was_brought_is_not_taken_for_the_task_s_own_work() {
    let world = World::new();
    worked(&world, "t1", "tests/a", "x\n");
    worked(&world, "t2", "tests/b", "x\n");
    let workspace = after(&world, "t3", &["t1", "t2"]);
    let only_src = Verification { allowed_paths: vec!["src/**".to_owned()], ..checks(&["true"]) };
    for attempt in 1..=2 {
        let prepared = world.prepare(&workspace);
        let idle = world.gather(&workspace, &prepared, &only_src);
        assert_eq!((idle.commits, idle.outside.len()), (0, 0), "attempt {attempt}");
    }
    let prepared = world.prepare(&workspace);
    world.work(&workspace.worktree, "src/own", "x\n");
    let evidence = world.gather(&workspace, &prepared, &only_src);
    assert_eq!((evidence.commits, evidence.insertions), (1, 1));
    assert_eq!(evidence.paths, ["src/own"]);
    assert_eq!((evidence.outside.len(), evidence.checks.len()), (0, 1));
    drop(prepared);
    let prepared = world.prepare(&workspace);
    world.work(&workspace.worktree, "other", "x\n");
    let evidence = world.gather(&workspace, &prepared, &only_src);
    assert_eq!(evidence.paths, ["other", "src/own"]);
    assert_eq!(evidence.outside, ["other"]);
}

/// Whoever reviews it, or goes on with it, has to see it; that it conflicts is for whoever merges
/// it.
#[test]
fn one_branch_that_conflicts_with_the_base_is_gone_on_from_as_it_stands() {
    let world = World::new();
    let first = worked(&world, "t1", "a", "theirs\n");
    world.work(&world.repo(), "a", "ours\n");
    let workspace = after(&world, "t2", &["t1"]);
    for attempt in 1..=2 {
        let prepared = world.prepare(&workspace);
        assert_eq!((&prepared.head, &prepared.base), (&first, &first), "attempt {attempt}");
        assert_eq!(read(&workspace.worktree.join("a")), "theirs\n");
        assert_eq!(world.status(&workspace.worktree), "");
        let is_told = said(&prepared.notes, "`banksman/t1` conflicts with the current `main`");
        assert_eq!(is_told, attempt == 1, "{:?}", prepared.notes);
    }
    write(&workspace.worktree.join("by hand"), "work");
    assert_eq!(world.prepare(&workspace).head, first);
    assert_eq!(read(&workspace.worktree.join("by hand")), "work");
}

#[test]
fn a_branch_that_is_not_there_is_passed_over_with_a_word() {
    let world = World::new();
    worked(&world, "t1", "a", "x");
    let mut workspace = after(&world, "t2", &["t9", "t1"]);
    workspace.merges_in.push("-rf".to_owned());
    let prepared = world.prepare(&workspace);
    assert!(said(&prepared.notes, "no branch `banksman/t9`"), "{:?}", prepared.notes);
    assert!(said(&prepared.notes, "no branch `-rf`"), "{:?}", prepared.notes);
    assert!(workspace.worktree.join("a").exists());
}

#[test]
fn a_branch_that_only_the_remote_has_is_fetched() {
    let world = World::new();
    let remote = world.add_remote();
    let tip = worked(&world, "t1", "a", "x");
    world.git(&world.repo(), &["push", "--quiet", "origin", "banksman/t1"]);
    world.remove(&world.workspace("t1"));
    for name in ["refs/heads/banksman/t1", "refs/remotes/origin/banksman/t1"] {
        world.git(&world.repo(), &["update-ref", "-d", name]);
    }
    let mut workspace = after(&world, "t2", &["t1"]);
    workspace.remote = Some("origin".to_owned());
    assert_eq!(world.prepare(&workspace).head, tip);
    assert!(remote.exists());
}

#[test]
fn a_conflict_is_named_and_leaves_no_trace() {
    let world = World::new();
    worked(&world, "t1", "README.md", "one\n");
    let other = worked(&world, "t2", "README.md", "two\n");
    let workspace = after(&world, "t3", &["t1", "t2"]);
    for _ in 0..2 {
        let prepared = world.prepare(&workspace);
        let [conflict] = prepared.conflicts.as_slice() else { panic!("{prepared:?}") };
        assert_eq!(conflict.to_string(), "`banksman/t2` conflicts in README.md");
        assert_eq!(conflict.tip, other);
        assert_eq!(world.status(&workspace.worktree), "");
        assert_eq!(read(&workspace.worktree.join("README.md")), "one\n");
        assert!(!holds(&world, "banksman/t3", &other));
    }
    // As soon as one of them gives way, it goes.
    world.work(&world.workspace("t2").worktree, "README.md", "hello\n");
    drop(world.prepare(&workspace));
    assert_eq!(read(&workspace.worktree.join("README.md")), "one\n");
}

#[test]
fn uncommitted_work_is_not_run_over() {
    let world = World::new();
    let workspace = after(&world, "t2", &["t1"]);
    drop(world.prepare(&workspace));
    worked(&world, "t1", "README.md", "one\n");
    write(&workspace.worktree.join("README.md"), "half of a thought\n");
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Diverged, "{fault}");
    assert!(fault.detail.contains("`banksman/t1`"), "{fault}");
    assert_eq!(read(&workspace.worktree.join("README.md")), "half of a thought\n");
    fs::remove_file(workspace.worktree.join("README.md")).unwrap();
    world.git(&workspace.worktree, &["checkout", "--quiet", "README.md"]);
    drop(world.prepare(&workspace));
    assert_eq!(read(&workspace.worktree.join("README.md")), "one\n");
}

/// A rebase would make copies of the brought commits, which the next merge would take for changes
/// of its own.
#[test]
fn commits_that_two_branches_share_are_not_written_anew() {
    let world = World::new();
    let brought = worked(&world, "t1", "test.py", "v1\n");
    let workspace = after(&world, "t2", &["t1"]);
    drop(world.prepare(&workspace));
    let own = world.work(&workspace.worktree, "test.py", "v2\n");
    world.work(&world.repo(), "other.txt", "the base moves on");

    let again = world.prepare(&workspace);
    assert_eq!((&again.head, &again.base), (&own, &brought));
    drop(again);
    assert_eq!(world.prepare(&world.workspace("t1")).head, brought);
    // The first one does more, and both still go together.
    world.work(&world.workspace("t1").worktree, "more.py", "x\n");
    drop(world.prepare(&workspace));
    assert_eq!(read(&workspace.worktree.join("test.py")), "v2\n");
    assert!(workspace.worktree.join("more.py").exists());
}

#[test]
fn a_worktree_of_one_task_is_taken_up_by_the_next_on_the_same_branch() {
    let world = World::new();
    let first = world.workspace("t1");
    drop(world.prepare(&first));
    let head = world.work(&first.worktree, "a", "x");
    write(&first.worktree.join("left"), "x");
    // Another task's plan that names the same place.
    let second = Workspace { ..first.clone() };
    let prepared = world.prepare(&second);
    assert!(!prepared.fresh && prepared.notes.is_empty(), "{:?}", prepared.notes);
    assert_eq!(prepared.head, head);
    assert_eq!(world.status(&second.worktree), "?? left");
    drop(prepared);
    // The first one is cleaned up: the second goes on from the branch.
    assert!(world.remove(&first).rescue.is_some());
    let prepared = world.prepare(&second);
    assert_eq!((prepared.fresh, prepared.head), (true, head));
}

/// Runs a number of programs and nothing after them, as a keeper that is killed there.
struct EndsAfter {
    plain: PlainRunner,
    programs: u32,
}

impl Runner for EndsAfter {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        self.programs = self.programs.checked_sub(1).ok_or(RunError::Interrupted)?;
        self.plain.run(program)
    }
}

/// Three steps share a branch: the first passed, the second is skipped, the third begins.
fn with_a_skipped_step(world: &World) -> Workspace {
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let passed = world.work(&workspace.worktree, "passed", "x");
    let skipped = world.work(&workspace.worktree, "skipped", "x");
    let shared = BTreeMap::from([(workspace.branch.clone(), vec![passed])]);
    let left_out = LeftOut { commits: vec![skipped], shared };
    Workspace { left_out, ..workspace }
}

/// In parts, so that none needs more than a fraction of its time limit.
mod passed_work_stays_wherever_the_skipped_work_beside_it_is_being_left_out {
    use super::*;

    fn interrupted_after(parts: u32, part: u32) {
        for programs in (0..).filter(|programs| programs % parts == part) {
            let world = World::new();
            let workspace = with_a_skipped_step(&world);
            let mut ends = EndsAfter { plain: world.runner(), programs };
            let is_whole = prepare(&mut ends, &workspace).is_ok();
            drop(world.prepare(&workspace));
            let has = |file: &str| workspace.worktree.join(file).exists();
            assert!(has("passed") && !has("skipped"), "after {programs} programs");
            if is_whole {
                return;
            }
        }
    }

    #[test]
    fn first() {
        interrupted_after(3, 0);
    }

    #[test]
    fn second() {
        interrupted_after(3, 1);
    }

    #[test]
    fn third() {
        interrupted_after(3, 2);
    }
}

/// The copies that a rebase makes of passed work are that work.
#[test]
fn passed_work_that_was_rebased_is_not_merged_again() {
    let world = World::new();
    let workspace = with_a_skipped_step(&world);
    drop(world.prepare(&workspace));
    world.work(&world.repo(), "other.txt", "the base moves on");
    let rebased = world.prepare(&workspace).head;
    assert_eq!(world.git(&workspace.worktree, &["rev-list", "--merges", "main.."]), "");
    assert_eq!(world.rev("banksman/t1^"), world.rev("main"));
    assert_eq!(world.prepare(&workspace).head, rebased);
}
