//! Making worktrees ready, and taking them over.

use std::fs;
use std::thread;

use banksman::exec::job::Workspace;
use banksman::exec::worktree::removal::SPARES;
use banksman_core::receipt::PrepareFault;
use banksman_core::time::Instant;

use super::{World, read, said, write};

#[test]
fn a_new_task_gets_a_worktree_on_its_own_branch() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    assert!(prepared.fresh);
    assert_eq!((&prepared.base, &prepared.head), (&world.rev("main"), &world.rev("main")));
    assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), "banksman/t1");
    assert_eq!(read(&workspace.worktree.join("README.md")), "hello\n");
    let config = read(&world.repo().join(".git/config"));
    assert!(!config.contains("banksman/t1"), "{config}");
}

#[test]
fn the_next_attempt_finds_everything_as_it_was_left() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "new.txt", "new");
    write(&workspace.worktree.join("README.md"), "not committed\n");
    write(&workspace.worktree.join("untracked"), "x");
    let again = world.prepare(&workspace);
    assert!(!again.fresh);
    assert_eq!((again.head, again.base), (head, world.rev("main")));
    assert_eq!(world.status(&workspace.worktree), " M README.md\n?? untracked");
}

#[test]
fn a_branch_without_its_worktree_is_checked_out_again() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "new.txt", "new");
    fs::remove_dir_all(&workspace.worktree).unwrap();
    let again = world.prepare(&workspace);
    assert!(again.fresh);
    assert_eq!(again.head, head);
    assert_eq!(read(&workspace.worktree.join("new.txt")), "new");
}

#[test]
fn a_stale_branch_is_rebased_if_that_goes() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let old = world.work(&workspace.worktree, "new.txt", "new");
    let base = world.work(&world.repo(), "other.txt", "other");
    let again = world.prepare(&workspace);
    assert_eq!(again.base, base);
    assert_ne!(again.head, old);
    assert!(workspace.worktree.join("other.txt").exists());
    assert_eq!(world.git(&workspace.worktree, &["rev-list", "--count", "main..HEAD"]), "1");
}

#[test]
fn a_stale_branch_with_a_conflict_stays_as_it_was() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let base = world.prepare(&workspace).base;
    let head = world.work(&workspace.worktree, "README.md", "mine\n");
    world.work(&world.repo(), "README.md", "theirs\n");
    let again = world.prepare(&workspace);
    assert_eq!((again.head, again.base), (head, base));
    assert!(said(&again.notes, "conflicts with this branch"), "{:?}", again.notes);
    assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), "banksman/t1");
    assert_eq!(world.status(&workspace.worktree), "");
}

#[test]
fn uncommitted_work_keeps_a_stale_branch_where_it_is() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let base = world.prepare(&workspace).base;
    world.work(&world.repo(), "other.txt", "other");
    write(&workspace.worktree.join("mine"), "x");
    assert_eq!(world.prepare(&workspace).base, base);
    assert_eq!(world.status(&workspace.worktree), "?? mine");
}

#[test]
fn work_starts_from_what_the_remote_has() {
    let world = World::new();
    let remote = world.add_remote();
    let other = world.root().join("other");
    world.git(world.root(), &["clone", "--quiet", remote.to_str().unwrap(), "other"]);
    let pushed = world.work(&other, "pushed.txt", "x");
    world.git(&other, &["push", "--quiet", "origin", "main"]);
    let mut workspace = world.workspace("t1");
    workspace.remote = Some("origin".to_owned());
    assert_eq!(world.prepare(&workspace).base, pushed);
    let config = read(&world.repo().join(".git/config"));
    assert!(!config.contains("banksman/t1"), "{config}");
}

#[test]
fn local_merges_that_are_not_pushed_count() {
    let world = World::new();
    world.add_remote();
    let local = world.work(&world.repo(), "local.txt", "x");
    let mut workspace = world.workspace("t1");
    workspace.remote = Some("origin".to_owned());
    assert_eq!(world.prepare(&workspace).base, local);
}

/// What a task needs was merged here and is not pushed, and others have pushed something else.
#[test]
fn local_merges_count_although_others_have_pushed() {
    let world = World::new();
    let remote = world.add_remote();
    let other = world.root().join("other");
    world.git(world.root(), &["clone", "--quiet", remote.to_str().unwrap(), "other"]);
    world.work(&other, "pushed.txt", "x");
    world.git(&other, &["push", "--quiet", "origin", "main"]);
    let local = world.work(&world.repo(), "local.txt", "x");
    let mut workspace = world.workspace("t1");
    workspace.remote = Some("origin".to_owned());
    let prepared = world.prepare(&workspace);
    assert_eq!(prepared.base, local);
    assert!(said(&prepared.notes, "have diverged; the local one is used"), "{:?}", prepared.notes);
}

#[test]
fn a_remote_that_cannot_be_reached_is_no_fault() {
    let world = World::new();
    let remote = world.add_remote();
    fs::remove_dir_all(remote).unwrap();
    let mut workspace = world.workspace("t1");
    workspace.remote = Some("origin".to_owned());
    let prepared = world.prepare(&workspace);
    assert_eq!(prepared.base, world.rev("main"));
    assert!(said(&prepared.notes, "failed to fetch"), "{:?}", prepared.notes);
}

#[test]
fn what_others_pushed_onto_the_branch_is_taken_over() {
    let world = World::new();
    let remote = world.add_remote();
    let mut workspace = world.workspace("t1");
    workspace.remote = Some("origin".to_owned());
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "mine.txt", "x");
    world.git(&workspace.worktree, &["push", "--quiet", "origin", "banksman/t1"]);
    let other = world.root().join("other");
    world.git(
        world.root(),
        &["clone", "--quiet", "-b", "banksman/t1", remote.to_str().unwrap(), "other"],
    );
    let theirs = world.work(&other, "theirs.txt", "x");
    world.git(&other, &["push", "--quiet", "origin", "banksman/t1"]);
    assert_eq!(world.prepare(&workspace).head, theirs);

    world.git(&other, &["reset", "--quiet", "--hard", "HEAD~2"]);
    world.work(&other, "anew.txt", "x");
    world.git(&other, &["push", "--quiet", "--force", "origin", "banksman/t1"]);
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Diverged, "{fault}");
    assert!(workspace.worktree.join("theirs.txt").exists());
}

#[test]
fn a_branch_moved_from_outside_of_its_worktree_is_diverged() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "new.txt", "new");
    world.git(&world.repo(), &["update-ref", "refs/heads/banksman/t1", "main"]);
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Diverged, "{fault}");
    world.git(&world.repo(), &["update-ref", "refs/heads/banksman/t1", &head]);
    assert_eq!(world.prepare(&workspace).head, head);
}

#[test]
fn set_up_runs_once_and_again_after_it_failed() {
    let world = World::new();
    let mut workspace = world.workspace("t1");
    let log = world.root().join("log");
    let flag = world.root().join("may succeed");
    workspace.setup = Some(format!(
        "echo ran >> '{}'; echo because; test -e '{}'",
        log.display(),
        flag.display()
    ));
    for _ in 0..2 {
        let fault = world.try_prepare(&workspace).unwrap_err();
        assert_eq!(fault.class, PrepareFault::Setup);
        assert!(fault.detail.contains("because"), "{fault}");
    }
    write(&flag, "");
    drop(world.prepare(&workspace));
    drop(world.prepare(&workspace));
    assert_eq!(read(&log), "ran\nran\nran\n");
    world.remove(&workspace);
    drop(world.prepare(&workspace));
    assert_eq!(read(&log), "ran\nran\nran\nran\n", "a worktree that is used again is set up again");
}

#[test]
fn sixteen_at_once_get_a_worktree_each() {
    let world = World::new();
    world.add_remote();
    for round in 0..3 {
        let prepare = |number: u32| {
            let mut workspace = world.workspace(&format!("t{round}-{number}"));
            workspace.remote = Some("origin".to_owned());
            let prepared = world.prepare(&workspace);
            assert!(prepared.fresh);
            assert_eq!(world.status(&workspace.worktree), "");
            assert_eq!(
                world.git(&workspace.worktree, &["branch", "--show-current"]),
                workspace.branch
            );
            workspace
        };
        let made: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> =
                (0..16).map(|number| scope.spawn(move || prepare(number))).collect();
            started.into_iter().map(|one| one.join().unwrap()).collect()
        });
        // The next round finds spare worktrees that it has to share out.
        thread::scope(|scope| {
            for workspace in &made {
                scope.spawn(|| world.remove(workspace));
            }
        });
    }
    let listed = world.git(&world.repo(), &["worktree", "list", "--porcelain"]);
    let count = listed.lines().filter(|line| line.starts_with("worktree ")).count();
    assert!(count <= 1 + SPARES, "{listed}");
}

#[test]
fn two_attempts_never_share_a_worktree() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let first = world.prepare(&workspace);
    thread::scope(|scope| {
        let second = scope.spawn(|| world.prepare(&workspace));
        write(&workspace.worktree.join("by the first"), "x");
        world.commit_in(&workspace.worktree, "by the first");
        let head = world.rev("banksman/t1");
        drop(first);
        assert_eq!(second.join().unwrap().head, head);
    });
}

#[test]
fn names_that_git_does_not_take_are_refused() {
    let world = World::new();
    for name in ["-rf", "a..b", "a b", "", "x.lock", "HEAD"] {
        let mut workspace = world.workspace("t1");
        workspace.branch = name.to_owned();
        let fault = world.try_prepare(&workspace).unwrap_err();
        assert!(fault.detail.contains("is not a valid git name"), "{name}: {fault}");
    }
}

/// Then the file with the checked-out branch names none, and neither does any other.
#[test]
fn a_repository_with_a_reftable_is_for_a_person() {
    let world = World::new();
    fs::remove_file(world.repo().join(".git/refs/heads/main")).unwrap();
    write(&world.repo().join(".git/HEAD"), "ref: refs/heads/.invalid\n");
    let base = banksman::exec::repo::base_branch(&world.repo()).unwrap();
    let fault = world.try_prepare(&Workspace { base, ..world.workspace("t1") }).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Unusable, "{fault}");
    assert!(fault.detail.contains("git refs migrate"), "{fault}");
}

#[test]
fn our_rules_for_names_are_those_of_git() {
    use banksman::exec::worktree::names::is_branch_name;
    let world = World::new();
    let names = [
        "a",
        "a/b",
        "a..b",
        "a.lock",
        "a.lock/b",
        "a/.b",
        ".a",
        "a.",
        "a b",
        "a~",
        "a^",
        "a:",
        "a?",
        "a*",
        "a[",
        "a\\",
        "a@{b",
        "a@",
        "a//b",
        "/a",
        "a/",
        "ä",
        "a\tb",
        "日本",
        "a/b.c-d_e",
        "x/HEAD",
    ];
    for name in names {
        let output = std::process::Command::new("git")
            .arg("check-ref-format")
            .arg(format!("refs/heads/{name}"))
            .current_dir(world.root())
            .env_clear()
            .envs(world.env())
            .output()
            .unwrap();
        assert_eq!(is_branch_name(name), output.status.success(), "{name}");
    }
    // These are refs, but a command line takes them for something else.
    assert!(["-a", "@", "HEAD"].iter().all(|name| !is_branch_name(name)));
}

#[test]
fn a_repository_without_a_commit_is_told() {
    let world = World::new();
    world.git(world.root(), &["init", "--quiet", "-b", "main", "empty"]);
    let mut workspace = world.workspace("t1");
    workspace.repo = world.root().join("empty");
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert!(fault.detail.contains("no commit"), "{fault}");
    workspace.repo = world.root().join("nowhere");
    assert!(world.try_prepare(&workspace).unwrap_err().detail.contains("nowhere"));
}

#[test]
fn a_bare_repository_and_a_linked_one_serve_as_well() {
    let world = World::new();
    let bare = world.add_remote();
    let mut workspace = world.workspace("t1");
    workspace.repo = bare;
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "new.txt", "x");
    assert_eq!(world.prepare(&workspace).base, world.rev("main"));

    let linked = world.root().join("linked");
    world.git(&world.repo(), &["worktree", "add", "--quiet", "--detach", linked.to_str().unwrap()]);
    let mut workspace = world.workspace("t2");
    workspace.repo = linked;
    assert!(world.prepare(&workspace).fresh);
    assert!(!world.prepare(&workspace).fresh);
}

/// Whatever is on such a branch would count as the task's work, even if its agent did nothing.
#[test]
fn a_branch_that_was_not_made_for_the_task_is_not_taken_for_its_own() {
    let world = World::new();
    let workspace = Workspace { has_begun: false, ..world.workspace("t1") };
    world.git(&world.repo(), &["branch", "banksman/t1"]);
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Unusable);
    assert!(fault.detail.contains("`git branch -m banksman/t1 NAME`"), "{fault}");
    world.git(&world.repo(), &["branch", "-m", "banksman/t1", "old"]);
    drop(world.prepare(&workspace));

    // What was made for it stays its own, also without its worktree.
    let work = world.work(&workspace.worktree, "a.txt", "x");
    drop(world.prepare(&workspace));
    fs::remove_dir_all(&workspace.worktree).unwrap();
    assert_eq!(world.prepare(&workspace).head, work);
    // A task of another store has the same id, and its home may be the same.
    let other = Workspace { since: Instant(2), ..workspace.clone() };
    let fault = world.try_prepare(&other).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Unusable);
    assert!(fault.detail.contains("of a task of another store"), "{fault}");
    fs::remove_dir_all(&workspace.worktree).unwrap();
    let fault = world.try_prepare(&other).unwrap_err();
    assert!(fault.detail.contains("was not made for this task"), "{fault}");
    // A store that knows of its work needs no record in the home.
    assert_eq!(world.prepare(&Workspace { has_begun: true, ..other }).head, work);
}

#[test]
fn a_branch_of_others_on_the_remote_is_not_taken_either() {
    let world = World::new();
    let remote = world.add_remote();
    world.git(&remote, &["branch", "banksman/t1", "main"]);
    let workspace = world.workspace("t1");
    let workspace = Workspace { has_begun: false, remote: Some("origin".to_owned()), ..workspace };
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Unusable);
    assert!(fault.detail.contains("`origin` has a branch `banksman/t1`"), "{fault}");
    drop(world.prepare(&Workspace { has_begun: true, ..workspace }));
}
