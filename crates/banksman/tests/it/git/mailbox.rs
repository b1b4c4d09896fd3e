//! The folders in which the steps of a workflow leave word for each other are nobody's work.

use banksman::exec::job::Verification;

use super::{World, checks, read, write};

const SIGNAL: &str = ".workflow/signals/X-1-done.json";
const FEEDBACK: &str = ".workflow/retry-context/XG-1-2-attempt-1.md";
const AUDIT: &str = ".workflow/audit/flow.log";
const WORDS: &str = ".workflow/steps/X-1.md";
const PAST: &str = ".workflow/past/before-t1/signals/X-1-done.json";

/// Nothing but the source may be changed.
fn only_src() -> Verification {
    Verification { allowed_paths: vec!["src/**".to_owned()], ..checks(&["true"]) }
}

fn files_of(world: &World, branch: &str) -> String {
    world.git(&world.repo(), &["ls-tree", "-r", "--name-only", branch, ".workflow"])
}

#[test]
fn what_was_left_there_is_neither_committed_nor_counted() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    for file in [SIGNAL, FEEDBACK, AUDIT, WORDS, PAST] {
        write(&workspace.worktree.join(file), "{}");
    }
    let evidence = world.gather(&workspace, &prepared, &only_src());
    assert!(!evidence.was_dirty && evidence.committed.is_none(), "{evidence:?}");
    assert_eq!((evidence.commits, evidence.files, evidence.outside.len()), (0, 0, 0));

    write(&workspace.worktree.join("src/own"), "x");
    world.git(&workspace.worktree, &["add", SIGNAL]);
    let evidence = world.gather(&workspace, &prepared, &only_src());
    assert_eq!((evidence.commits, evidence.paths), (1, vec!["src/own".to_owned()]));
    assert_eq!((evidence.outside.len(), evidence.checks.len()), (0, 1));
    assert!(evidence.checks[0].passed(), "{:?}", evidence.checks);
    assert_eq!(files_of(&world, "banksman/t1"), "");
    // Other files of a workflow are files like all others.
    write(&workspace.worktree.join(".workflow/specs/flow.yaml"), "x");
    let evidence = world.gather(&workspace, &prepared, &only_src());
    assert_eq!(evidence.outside, [".workflow/specs/flow.yaml"]);
}

#[test]
fn what_the_agent_has_committed_there_goes_out_again() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    for file in [SIGNAL, FEEDBACK, AUDIT, WORDS, PAST, "src/own"] {
        write(&workspace.worktree.join(file), "{}");
    }
    let own = world.commit_in(&workspace.worktree, "everything");
    std::fs::remove_file(workspace.worktree.join(SIGNAL)).unwrap();
    let evidence = world.gather(&workspace, &prepared, &only_src());
    assert_eq!(evidence.paths, ["src/own"]);
    assert_ne!(evidence.head, own);
    assert_eq!(evidence.committed.as_ref(), Some(&evidence.head));
    assert_eq!(files_of(&world, "banksman/t1"), "");
    assert_eq!((evidence.outside.len(), evidence.checks.len()), (0, 1));
    assert!(evidence.checks[0].passed(), "{:?}", evidence.checks);
}

#[test]
fn what_the_repository_has_there_stays_as_it_is() {
    let world = World::new();
    world.work(&world.repo(), AUDIT, "by people\n");
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    write(&workspace.worktree.join(AUDIT), "by an agent\n");
    write(&workspace.worktree.join("src/own"), "x");
    world.commit_in(&workspace.worktree, "everything");
    let evidence = world.gather(&workspace, &prepared, &only_src());
    assert_eq!(evidence.outside.len(), 0, "{:?}", evidence.outside);
    assert_eq!(files_of(&world, "banksman/t1"), AUDIT);
    let text = world.git(&world.repo(), &["show", &format!("banksman/t1:{AUDIT}")]);
    assert_eq!(text, "by people");
}

/// `git add` takes offence at paths that are named and ignored.
#[test]
fn a_repository_that_ignores_it_is_committed_to_all_the_same() {
    let world = World::new();
    world.work(&world.repo(), ".gitignore", ".workflow/signals/\n");
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    write(&workspace.worktree.join(SIGNAL), "{}");
    write(&workspace.worktree.join("src/own"), "x");
    let evidence = world.gather(&workspace, &prepared, &only_src());
    assert_eq!((evidence.commits, evidence.paths), (1, vec!["src/own".to_owned()]));
    assert_eq!(read(&workspace.worktree.join(SIGNAL)), "{}");
}

/// A worktree with nothing but such files in it is rebased like a clean one.
#[test]
fn it_does_not_keep_a_branch_from_its_base() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "new.txt", "new");
    write(&workspace.worktree.join(FEEDBACK), "x");
    let base = world.work(&world.repo(), "other.txt", "other");
    assert_eq!(world.prepare(&workspace).base, base);
}
