//! Taking worktrees away: nothing goes that is not saved.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use banksman::exec::job::Workspace;
use banksman::exec::process::{PlainRunner, Program, ProgramOutput, RunError, Runner};
use banksman::exec::worktree::mark::{self, TaskWorktree};
use banksman::exec::worktree::prepare;
use banksman::exec::worktree::removal::{SPARES, disk_use, empty_trash, remove};

use super::{World, read, write};

#[test]
fn what_is_in_the_base_needs_no_rescue() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let removed = world.remove(&workspace);
    assert_eq!((removed.rescue, removed.kept), (None, None));
    assert!(!workspace.worktree.exists());
    assert!(!world.has_ref("refs/heads/banksman/t1"), "a branch with nothing on it goes too");
    assert!(!world.has_ref("refs/banksman"));
}

#[test]
fn a_branch_that_is_not_merged_stays_and_is_rescued() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "a", "x");
    let removed = world.remove(&workspace);
    assert_eq!(removed.rescue.as_deref(), Some("refs/banksman/rescue/t1/1"));
    assert_eq!(world.rev("refs/banksman/rescue/t1/1"), head);
    assert_eq!(world.rev("banksman/t1"), head);
}

#[test]
fn everything_that_is_only_there_is_saved() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let at = &workspace.worktree;
    let head = world.work(at, "a", "committed\n");
    write(&at.join("a"), "staged\n");
    world.git(at, &["add", "a"]);
    write(&at.join("a"), "in the file\n");
    write(&at.join("two\nlines"), "untracked\n");
    write(&at.join("-rf"), "untracked\n");
    write(&at.join("ignored/x"), "x");
    fs::remove_file(at.join("README.md")).unwrap();
    let before = world.status(at);
    // A commit that is reachable from nowhere but this worktree's head.
    let name = world.remove(&workspace).rescue.unwrap();
    assert!(!before.is_empty());
    let show = |what: &str| world.git(&world.repo(), &["show", &format!("{name}{what}")]);
    assert_eq!(show(":a"), "in the file");
    assert_eq!(show("^2:a"), "staged");
    assert_eq!(show(":two\nlines"), "untracked");
    assert_eq!(world.rev(&format!("{name}^1")), head);
    let files = world.git(&world.repo(), &["ls-tree", "-r", "--name-only", &name]);
    assert!(files.lines().any(|file| file == "-rf") && !files.contains("README"), "{files}");
    assert!(!files.contains("ignored/x"));
    let found =
        world.git(&world.repo(), &["for-each-ref", "--format=%(refname)", "refs/banksman/rescue/"]);
    assert_eq!(found, name);
}

#[test]
fn a_detached_head_is_saved() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.git(&workspace.worktree, &["checkout", "--quiet", "--detach"]);
    let head = world.work(&workspace.worktree, "a", "x");
    let name = world.remove(&workspace).rescue.unwrap();
    assert_eq!(world.rev(&name), head);
}

#[test]
fn a_conflict_in_the_middle_is_saved() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "README.md", "mine\n");
    world.work(&world.repo(), "README.md", "theirs\n");
    let merging = std::process::Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@x", "merge", "main"])
        .current_dir(&workspace.worktree)
        .output()
        .unwrap();
    assert!(!merging.status.success());
    let name = world.remove(&workspace).rescue.unwrap();
    let saved = world.git(&world.repo(), &["show", &format!("{name}:README.md")]);
    assert!(saved.contains("<<<<<<<"), "{saved}");
    assert!(!workspace.worktree.exists());
}

#[test]
fn each_rescue_has_its_own_number_and_the_same_work_is_saved_once() {
    let world = World::new();
    let workspace = world.workspace("t1");
    for (text, expected) in [("x", 1), ("x", 1), ("y", 2)] {
        drop(world.prepare(&workspace));
        write(&workspace.worktree.join("left"), text);
        let name = world.remove(&workspace).rescue.unwrap();
        assert_eq!(name, format!("refs/banksman/rescue/t1/{expected}"));
    }
}

#[test]
fn a_repository_inside_is_kept_as_it_is() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.git(&workspace.worktree, &["init", "--quiet", "inner"]);
    write(&workspace.worktree.join("inner/x"), "precious");
    write(&workspace.worktree.join("y"), "saved");
    let removed = world.remove(&workspace);
    let kept = removed.kept.unwrap();
    assert_eq!(read(&kept.join("inner/x")), "precious");
    let name = removed.rescue.unwrap();
    assert_eq!(world.git(&world.repo(), &["show", &format!("{name}:y")]), "saved");
    assert!(!workspace.worktree.exists());
    assert_eq!(empty_trash(&mut world.runner(), &world.spare()).unwrap(), 0);
    assert!(kept.exists());
}

#[test]
fn removing_again_or_what_was_never_there_is_no_fault() {
    let world = World::new();
    let workspace = world.workspace("t1");
    assert_eq!(world.remove(&workspace).rescue, None);
    drop(world.prepare(&workspace));
    fs::remove_dir_all(&workspace.worktree).unwrap();
    world.remove(&workspace);
    world.remove(&workspace);
    assert!(!world.git(&world.repo(), &["worktree", "list"]).contains("t1"));
    assert_eq!(fs::read_dir(world.spare().join("locks")).unwrap().count(), 0);
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let world = World::new();
    let workspace = world.workspace("t1");
    write(&workspace.worktree.join("precious"), "x");
    let error = remove(&mut world.runner(), &workspace).unwrap_err();
    assert!(error.to_string().contains("belong to no worktree"), "{error}");
    assert!(world.try_prepare(&workspace).is_err());
    assert_eq!(read(&workspace.worktree.join("precious")), "x");
}

#[test]
fn a_spare_worktree_holds_nothing_of_its_last_task() {
    let world = World::new();
    let first = world.workspace("t1");
    drop(world.prepare(&first));
    write(&first.worktree.join("left"), "x");
    write(&first.worktree.join("ignored/secret"), "x");
    world.git(&first.worktree, &["init", "--quiet", "ignored/inner"]);
    world.remove(&first);
    let inode = |path: &PathBuf| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let pool = fs::read_dir(world.spare().join("pool")).unwrap().next().unwrap().unwrap().path();
    let spare = fs::read_dir(&pool).unwrap().next().unwrap().unwrap().path();
    let spare_inode = inode(&spare);
    // A prune by the user must not take its record away.
    world.git(&world.repo(), &["worktree", "prune"]);

    let base = world.work(&world.repo(), "new base", "x");
    let second = world.workspace("t2");
    let prepared = world.prepare(&second);
    assert_eq!(inode(&second.worktree), spare_inode, "it was used again");
    assert!(prepared.fresh);
    assert_eq!(prepared.head, base);
    let ignored = world.git(&second.worktree, &["status", "--porcelain", "--ignored"]);
    assert_eq!(ignored, "");
    assert!(second.worktree.join("new base").exists() && !second.worktree.join("left").exists());
    let listed = world.git(&world.repo(), &["worktree", "list", "--porcelain"]);
    assert!(listed.contains("/t2\n") && !listed.contains("locked"), "{listed}");
}

#[test]
fn there_are_only_so_many_spares_and_the_rest_can_be_deleted() {
    let world = World::new();
    let workspaces: Vec<_> =
        (0..SPARES + 2).map(|number| world.workspace(&format!("t{number}"))).collect();
    for workspace in &workspaces {
        drop(world.prepare(workspace));
    }
    // A folder that may not be written to is of no use to anybody and still has to go.
    let stubborn = workspaces[0].worktree.join("ignored/stubborn");
    write(&stubborn.join("x"), "x");
    fs::set_permissions(&stubborn, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    for workspace in &workspaces {
        world.remove(workspace);
    }
    let pool = fs::read_dir(world.spare().join("pool")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(&pool).unwrap().count(), SPARES);
    let deleted = empty_trash(&mut world.runner(), &world.spare()).unwrap();
    assert!(deleted >= 1, "{deleted}");
    assert_eq!(fs::read_dir(world.spare().join("trash")).unwrap().count(), 0);
    let listed = world.git(&world.repo(), &["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1 + SPARES, "{listed}");
}

/// One beside the repository, as a template may have it.
fn beside(world: &World, task: &str) -> Workspace {
    let worktree = world.root().join(format!("app-feature-{task}"));
    Workspace { worktree, ..world.workspace(task) }
}

fn found(world: &World, home: &str) -> Vec<TaskWorktree> {
    mark::worktrees(&world.root().join(home), &[world.root().join("gone"), world.repo()]).unwrap()
}

fn of_task(workspace: &Workspace, repo: Option<PathBuf>) -> TaskWorktree {
    let task = workspace.task.parse().unwrap();
    TaskWorktree { task, path: workspace.worktree.clone(), repo }
}

#[test]
fn worktrees_are_found_wherever_they_are() {
    let world = World::new();
    assert_eq!(found(&world, "home"), []);
    let (below, aside) = (world.workspace("t1"), beside(&world, "t2"));
    drop(world.prepare(&below));
    drop(world.prepare(&aside));
    write(&world.root().join("home/worktrees/app/t9/x"), "not a worktree");
    let repo = || Some(world.repo());
    let all = [of_task(&below, repo()), of_task(&aside, repo())];
    assert_eq!(found(&world, "home"), all);
    // Another home has its own.
    fs::create_dir_all(world.root().join("other/worktrees/.spare")).unwrap();
    assert_eq!(found(&world, "other"), []);
    // Where the record is gone, the place below our own folder tells as much.
    fs::remove_dir_all(world.repo().join(".git/worktrees")).unwrap();
    assert_eq!(found(&world, "home"), [of_task(&below, None)]);
}

#[test]
fn a_worktree_of_a_person_is_never_taken_for_ours() {
    let world = World::new();
    let ours = beside(&world, "t1");
    drop(world.prepare(&ours));
    let theirs = beside(&world, "t2").worktree;
    world.git(&world.repo(), &["worktree", "add", "-q", "-b", "mine", theirs.to_str().unwrap()]);
    assert_eq!(found(&world, "home"), [of_task(&ours, Some(world.repo()))]);
    // Nor the one that they make where ours was.
    world.remove(&ours);
    let place = ours.worktree.to_str().unwrap();
    world.git(&world.repo(), &["worktree", "add", "-q", "-b", "again", place]);
    assert_eq!(found(&world, "home"), []);
}

/// Dies after a git with this word in its arguments has done its work.
struct DiesAfter {
    plain: PlainRunner,
    word: &'static str,
}

impl Runner for DiesAfter {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        let output = self.plain.run(program)?;
        let is_it = program.args.iter().any(|arg| arg == self.word);
        if is_it { Err(RunError::Interrupted) } else { Ok(output) }
    }
}

#[test]
fn a_worktree_whose_maker_died_before_its_note_is_found_and_can_be_put_away() {
    let world = World::new();
    // A new one, and one that was a spare.
    for (task, word) in [("t1", "add"), ("t2", "switch")] {
        let workspace = beside(&world, task);
        assert!(prepare(&mut DiesAfter { plain: world.runner(), word }, &workspace).is_err());
        assert!(workspace.worktree.join(".git").exists(), "{task} was not begun");
        assert_eq!(found(&world, "home"), [of_task(&workspace, Some(world.repo()))]);
        world.remove(&workspace);
        assert_eq!(found(&world, "home"), []);
        // The next attempt leaves the same as the first one would have.
        drop(world.prepare(&workspace));
        assert_eq!(found(&world, "home"), [of_task(&workspace, Some(world.repo()))]);
        world.remove(&workspace);
    }
    let intents = fs::read_dir(world.spare().join("intended")).unwrap().count();
    assert_eq!(intents, 0);
}

#[test]
fn what_a_person_makes_where_ours_was_to_be_is_theirs() {
    let world = World::new();
    let workspace = beside(&world, "t1");
    // It dies before there is anything of a worktree.
    let mut dies = DiesAfter { plain: world.runner(), word: "update-ref" };
    assert!(prepare(&mut dies, &workspace).is_err());
    let intents = fs::read_dir(world.spare().join("intended")).unwrap().count();
    assert_eq!((intents, found(&world, "home")), (1, Vec::new()));
    let place = workspace.worktree.to_str().unwrap();
    world.git(&world.repo(), &["worktree", "add", "-q", "-b", "mine", place]);
    assert_eq!(found(&world, "home"), []);
}

#[test]
fn a_worktree_that_was_moved_is_found_where_it_is() {
    let world = World::new();
    let workspace = beside(&world, "t1");
    drop(world.prepare(&workspace));
    let to = world.root().join("elsewhere");
    let [from, to] = [&workspace.worktree, &to].map(|path| path.to_str().unwrap());
    world.git(&world.repo(), &["worktree", "move", from, to]);
    let moved = Workspace { worktree: to.into(), ..workspace };
    assert_eq!(found(&world, "home"), [of_task(&moved, Some(world.repo()))]);
}

#[test]
fn a_spare_worktree_is_nobodys_until_it_has_its_next_task() {
    let world = World::new();
    let (first, next) = (beside(&world, "t1"), beside(&world, "t2"));
    drop(world.prepare(&first));
    world.remove(&first);
    assert_eq!(found(&world, "home"), []);
    drop(world.prepare(&next));
    assert_eq!(found(&world, "home"), [of_task(&next, Some(world.repo()))]);
    let records = fs::read_dir(world.repo().join(".git/worktrees")).unwrap().count();
    assert_eq!(records, 1, "the spare one was used again");
}

#[test]
fn disk_use_is_counted_up_to_a_bound() {
    let world = World::new();
    let folder = world.root().join("big");
    for number in 0..10 {
        write(&folder.join(format!("{number}/file")), &"x".repeat(5_000));
    }
    std::os::unix::fs::symlink("/", folder.join("link")).unwrap();
    let all = disk_use(&folder, 1_000);
    assert_eq!((all.entries, all.complete), (21, true));
    assert!(all.bytes >= 50_000, "{all:?}");
    let some = disk_use(&folder, 5);
    assert_eq!((some.entries, some.complete), (5, false));
}
