//! Bringing branches into their base.

use std::collections::BTreeMap;
use std::fs;

use banksman::exec::job::{Verification, Workspace};
use banksman::exec::merge::{find, merge};
use banksman::exec::process::{PlainRunner, Program, ProgramOutput, RunError, Runner};
use banksman_core::receipt::MergeReport;

use super::{LocksIndex, World, checks, git_with, read, write};

fn try_merge(world: &World, workspace: &Workspace, checks: &Verification) -> MergeReport {
    merge(&mut world.runner(), workspace, checks, "Merge t1\n", None).unwrap()
}

fn try_merge_of(world: &World, workspace: &Workspace, commit: &str) -> MergeReport {
    let passes = checks(&["test -e new.txt"]);
    merge(&mut world.runner(), workspace, &passes, "Merge t1\n", Some(commit)).unwrap()
}

/// A task with one commit on its branch.
fn worked(file: &str, text: &str) -> (World, Workspace) {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, file, text);
    (world, workspace)
}

#[test]
fn the_base_gets_the_branch_and_its_checkout_follows() {
    let (world, workspace) = worked("new.txt", "new");
    let other = world.work(&world.repo(), "other.txt", "other");
    let see_both = checks(&["test -e new.txt && test -e other.txt"]);
    let MergeReport::Merged { head } = try_merge(&world, &workspace, &see_both) else { panic!() };
    assert_eq!(world.rev("main"), head);
    assert_eq!(world.rev("main^1"), other);
    assert_eq!(world.rev("main^2"), world.rev("banksman/t1"));
    assert_eq!(read(&world.repo().join("new.txt")), "new");
    assert_eq!(world.status(&world.repo()), "");
    assert_eq!(world.git(&world.repo(), &["log", "-1", "--format=%s"]), "Merge t1");
}

#[test]
fn merging_again_changes_nothing() {
    let (world, workspace) = worked("new.txt", "new");
    let MergeReport::Merged { head } = try_merge(&world, &workspace, &checks(&[])) else {
        panic!()
    };
    let again = try_merge(&world, &workspace, &checks(&["false"]));
    assert_eq!(again, MergeReport::AlreadyIn { head: head.clone() });
    assert_eq!(world.rev("main"), head);
}

#[test]
fn whoever_only_looks_moves_nothing() {
    let (world, workspace) = worked("new.txt", "new");
    let (main, work) = (world.rev("main"), world.rev("banksman/t1"));
    let look = |commit| find(&mut world.runner(), &workspace, commit).unwrap();
    assert_eq!([look(None), look(Some(&work))], [MergeReport::NotIn, MergeReport::NotIn]);
    assert_eq!(world.rev("main"), main);
    let MergeReport::Merged { head } = try_merge(&world, &workspace, &checks(&[])) else {
        panic!()
    };
    world.work(&workspace.worktree, "more.txt", "more");
    assert_eq!([look(None), look(Some(&work))], [MergeReport::NotIn, already_in(&head)]);
}

#[test]
fn one_commit_is_merged_while_nothing_has_come_after_it() {
    let (world, workspace) = worked("new.txt", "new");
    let (main, wanted) = (world.rev("main"), world.rev("banksman/t1"));
    let more = world.work(&workspace.worktree, "more.txt", "more");
    let moved_on = MergeReport::MovedOn { branch: "banksman/t1".to_owned() };
    assert_eq!(try_merge_of(&world, &workspace, &wanted), moved_on);
    assert_eq!(try_merge_of(&world, &workspace, &main), already_in(&main));
    assert_eq!(world.rev("main"), main);
    let MergeReport::Merged { head } = try_merge_of(&world, &workspace, &more) else { panic!() };
    assert_eq!(world.rev("main^2"), more);
    // What was merged stays merged, whatever becomes of the branch.
    world.work(&workspace.worktree, "late.txt", "late");
    assert_eq!(try_merge_of(&world, &workspace, &more), already_in(&head));
}

#[test]
fn a_commit_whose_branch_is_gone_is_not_merged() {
    let (world, workspace) = worked("new.txt", "new");
    let wanted = world.rev("banksman/t1");
    world.git(&world.repo(), &["update-ref", "-d", "refs/heads/banksman/t1"]);
    let moved_on = MergeReport::MovedOn { branch: "banksman/t1".to_owned() };
    assert_eq!(try_merge_of(&world, &workspace, &wanted), moved_on);
}

fn already_in(head: &str) -> MergeReport {
    MergeReport::AlreadyIn { head: head.to_owned() }
}

#[test]
fn a_conflict_names_its_paths_and_changes_nothing() {
    let (world, workspace) = worked("ä b.txt", "mine\n");
    let main = world.work(&world.repo(), "ä b.txt", "theirs\n");
    let merged = try_merge(&world, &workspace, &checks(&[]));
    assert_eq!(merged, MergeReport::Conflict { paths: vec!["ä b.txt".to_owned()] });
    assert_eq!(world.rev("main"), main);
    assert_eq!(world.status(&world.repo()), "");
}

#[test]
fn a_check_that_fails_on_the_result_keeps_it_out() {
    let (world, workspace) = worked("new.txt", "new");
    let main = world.work(&world.repo(), "other.txt", "other");
    // Each side passes this alone.
    let not_both =
        checks(&["true", "echo both are here; ! { test -e new.txt && test -e other.txt; }"]);
    let MergeReport::Rejected { check } = try_merge(&world, &workspace, &not_both) else {
        panic!()
    };
    assert_eq!((check.exit.code, check.tail.as_str()), (Some(1), "both are here"));
    assert_eq!(world.rev("main"), main);
    assert!(!world.repo().join("new.txt").exists());
}

#[test]
fn set_up_runs_where_the_checks_run() {
    let (world, mut workspace) = worked("new.txt", "new");
    workspace.setup = Some("mkdir ignored && echo ready > ignored/tool".to_owned());
    let uses_it = checks(&["grep ready ignored/tool"]);
    assert!(matches!(try_merge(&world, &workspace, &uses_it), MergeReport::Merged { .. }));

    world.work(&workspace.worktree, "more.txt", "x");
    workspace.setup = Some("echo no tools; exit 9".to_owned());
    let MergeReport::Rejected { check } = try_merge(&world, &workspace, &uses_it) else { panic!() };
    assert_eq!((check.exit.code, check.tail.as_str()), (Some(9), "no tools"));
}

#[test]
fn a_checkout_with_changes_in_the_way_keeps_everything_as_it_is() {
    let (world, workspace) = worked("README.md", "changed by the task\n");
    let main = world.rev("main");
    write(&world.repo().join("README.md"), "being edited\n");
    let MergeReport::Hindered { detail } = try_merge(&world, &workspace, &checks(&[])) else {
        panic!()
    };
    assert!(detail.contains("is in the way; commit, stash or remove"), "{detail}");
    assert!(detail.contains("README.md"), "{detail}");
    assert_eq!(world.rev("main"), main);
    assert_eq!(read(&world.repo().join("README.md")), "being edited\n");
}

#[test]
fn changes_that_are_not_in_the_way_stay() {
    let (world, workspace) = worked("new.txt", "new");
    write(&world.repo().join("README.md"), "being edited\n");
    assert!(matches!(try_merge(&world, &workspace, &checks(&[])), MergeReport::Merged { .. }));
    assert_eq!(world.status(&world.repo()), " M README.md");
    assert!(world.repo().join("new.txt").exists());
}

/// Another node, or a person who commits, is no reason to send an agent back to work.
#[test]
fn a_merge_waits_while_another_git_has_locked_the_checkout() {
    let (world, workspace) = worked("new.txt", "new");
    write(&world.repo().join(".git/index.lock"), "");
    let mut other = LocksIndex { plain: world.runner(), world: &world, waits: 3 };
    let merged = merge(&mut other, &workspace, &checks(&[]), "m", None).unwrap();
    assert_eq!(merged, MergeReport::Merged { head: world.rev("main") });
    assert!(world.repo().join("new.txt").exists());
}

#[test]
fn a_checkout_that_stays_locked_is_an_error_and_no_rejection() {
    let (world, workspace) = worked("new.txt", "new");
    let main = world.rev("main");
    write(&world.repo().join(".git/index.lock"), "");
    let mut other = LocksIndex { plain: world.runner(), world: &world, waits: u32::MAX };
    let error = merge(&mut other, &workspace, &checks(&[]), "m", None).unwrap_err();
    assert!(error.to_string().contains("index.lock"), "{error}");
    assert_eq!(world.rev("main"), main);
}

#[test]
fn a_base_that_nobody_has_checked_out_moves_alone() {
    let (world, workspace) = worked("new.txt", "new");
    world.git(&world.repo(), &["checkout", "--quiet", "-b", "something-else"]);
    let MergeReport::Merged { head } = try_merge(&world, &workspace, &checks(&[])) else {
        panic!()
    };
    assert_eq!(world.rev("main"), head);
    assert!(!world.repo().join("new.txt").exists());
    assert_eq!(world.status(&world.repo()), "");
}

#[test]
fn what_others_put_there_meanwhile_is_never_lost() {
    let (world, workspace) = worked("new.txt", "new");
    // The first time that the check runs, somebody else is faster.
    let flag = world.root().join("flag");
    let repo = world.repo();
    let quicker = format!(
        "test -e '{0}' || {{ touch '{0}'; cd '{1}'; echo x > quick.txt; git add quick.txt; \
         git -c user.name=x -c user.email=x@x commit -qm quicker; }}",
        flag.display(),
        repo.display()
    );
    let MergeReport::Merged { head } = try_merge(&world, &workspace, &checks(&[&quicker])) else {
        panic!()
    };
    assert_eq!(world.git(&repo, &["log", "-1", "--format=%s", &format!("{head}^1")]), "quicker");
    assert!(repo.join("quick.txt").exists() && repo.join("new.txt").exists());
    assert_eq!(world.status(&repo), "");
}

/// Stops at the given call, as a keeper does whose lease is lost.
struct StopsAt {
    plain: PlainRunner,
    calls: u32,
}

impl Runner for StopsAt {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        self.calls = self.calls.checked_sub(1).ok_or(RunError::Interrupted)?;
        self.plain.run(program)
    }
}

#[test]
fn a_merge_that_is_cut_short_anywhere_can_be_repeated() {
    let (world, mut workspace) = worked("new.txt", "new");
    workspace.setup = Some("true".to_owned());
    let passes = checks(&["test -e new.txt"]);
    let mut calls = 0;
    let merged = loop {
        assert!(calls < 100, "it never ends");
        let before = world.rev("main");
        let mut stops = StopsAt { plain: world.runner(), calls };
        match merge(&mut stops, &workspace, &passes, "m", None) {
            Ok(merged) => break merged,
            Err(RunError::Interrupted) => {}
            Err(error) => panic!("after {calls} calls: {error}"),
        }
        let after = world.rev("main");
        assert!(after == before || world.rev("main^2") == world.rev("banksman/t1"));
        calls += 1;
    };
    assert!(calls > 8, "{calls} calls");
    assert!(
        matches!(merged, MergeReport::Merged { .. } | MergeReport::AlreadyIn { .. }),
        "{merged:?}"
    );
    assert_eq!(world.status(&world.repo()), "");
    assert_eq!(world.git(&world.repo(), &["rev-list", "--count", "main"]), "3");
}

#[test]
fn a_branch_that_is_not_there_hinders_the_merge() {
    let world = World::new();
    let nobodys = world.workspace("t9");
    let report = merge(&mut world.runner(), &nobodys, &checks(&[]), "m", None).unwrap();
    assert_eq!(report, MergeReport::Hindered { detail: "there is no branch `banksman/t9`".into() });
    let workspace = Workspace { base: "gone".to_owned(), ..nobodys };
    let report = find(&mut world.runner(), &workspace, None).unwrap();
    assert_eq!(report, MergeReport::Hindered { detail: "there is no branch `gone`".into() });
}

#[test]
fn merges_leave_one_spare_worktree_at_most() {
    let (world, workspace) = worked("new.txt", "new");
    for number in 0..3 {
        world.work(&workspace.worktree, &format!("{number}"), "x");
        assert!(matches!(
            try_merge(&world, &workspace, &checks(&["true"])),
            MergeReport::Merged { .. }
        ));
    }
    let pool = world.spare().join("pool");
    let pool = fs::read_dir(pool).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(pool).unwrap().count(), 1);
}

/// An agent may keep its objects outside of the repository, in a folder that goes away.
#[test]
fn merged_work_is_in_the_repository_itself() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let objects = world.repo().join(".git/objects");
    let elsewhere = world.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut env = world.env();
    for (name, path) in
        [("GIT_OBJECT_DIRECTORY", &elsewhere), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects)]
    {
        env.insert(name.to_owned(), path.display().to_string());
    }
    for number in 0..2 {
        write(&workspace.worktree.join("new.txt"), &number.to_string());
        for args in [&["add", "--all"][..], &["commit", "--quiet", "-m", "work"]] {
            git_with(env.clone(), &workspace.worktree, args);
        }
    }
    write(&objects.join("info/alternates"), &format!("{}\n", elsewhere.display()));
    let merged = try_merge(&world, &workspace, &checks(&["test -e new.txt"]));
    let MergeReport::Merged { head } = merged else { panic!("{merged:?}") };
    fs::remove_dir_all(elsewhere).unwrap();
    fs::remove_file(objects.join("info/alternates")).unwrap();
    world.git(&world.repo(), &["rev-list", "--objects", &head]);
    assert_eq!(world.git(&world.repo(), &["show", "main:new.txt"]), "1");
    world.git(&world.repo(), &["fsck", "--connectivity-only"]);
}
