//! What is found in a worktree after an agent has ended.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use banksman::exec::evidence::{gather, run_checks};
use banksman::exec::job::{Verification, Workspace};
use banksman::exec::worktree::PreparedWorktree;

use super::{World, checks, read, said, write};

/// A world with a task that is ready to be worked on.
fn begun() -> (World, Workspace, PreparedWorktree) {
    let world = World::new();
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    (world, workspace, prepared)
}

fn only(allowed: &[&str], denied: &[&str]) -> Verification {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    Verification { allowed_paths: owned(allowed), denied_paths: owned(denied), ..checks(&["true"]) }
}

#[test]
fn commits_and_files_are_counted_from_the_base() {
    let (world, workspace, prepared) = begun();
    world.work(&workspace.worktree, "src/a.txt", "one\n2\nthree\nfour\n");
    let head = world.work(&workspace.worktree, "b.txt", "b\n");
    let evidence = world.gather(&workspace, &prepared, &checks(&["test -e b.txt && echo fine"]));
    assert_eq!((&evidence.base, &evidence.head_before), (&prepared.base, &prepared.head));
    assert_eq!((evidence.head.as_str(), evidence.commits), (head.as_str(), 2));
    assert_eq!((evidence.files, evidence.insertions, evidence.deletions), (2, 3, 1));
    assert_eq!(evidence.paths, ["b.txt", "src/a.txt"]);
    assert!(!evidence.was_dirty && evidence.committed.is_none());
    assert!(evidence.outside.is_empty() && evidence.denied.is_empty() && evidence.notes.is_empty());
    let [check] = evidence.checks.as_slice() else { panic!("{:?}", evidence.checks) };
    assert!(check.passed());
    assert_eq!((check.head.as_str(), check.tail.as_str()), (head.as_str(), "fine"));
}

#[test]
fn nothing_done_is_nothing_to_check() {
    let (world, workspace, prepared) = begun();
    write(&workspace.worktree.join("ignored/x"), "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.commits, evidence.files, evidence.was_dirty), (0, 0, false));
    assert!(evidence.checks.is_empty() && evidence.paths.is_empty());
}

#[test]
fn what_was_left_is_committed_in_our_name() {
    let (world, workspace, prepared) = begun();
    let odd = ["-rf", "two\nlines", "spaced name", "ünïcödé", "quote\"d", "a\\b"];
    for name in odd {
        write(&workspace.worktree.join(name), name);
    }
    let bytes = OsStr::from_bytes(b"not-\xff-utf8");
    fs::write(workspace.worktree.join(bytes), "x").unwrap();
    fs::remove_file(workspace.worktree.join("README.md")).unwrap();
    write(&workspace.worktree.join("ignored/x"), "x");
    let hook = world.repo().join(".git/hooks/pre-commit");
    write(&hook, "#!/bin/sh\nexit 1\n");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();

    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert!(evidence.was_dirty);
    assert_eq!(evidence.committed.as_ref(), Some(&evidence.head));
    assert_eq!((evidence.commits, evidence.files), (1, 8));
    for name in odd {
        assert!(evidence.paths.iter().any(|path| path == name), "{name:?} in {:?}", evidence.paths);
    }
    assert!(evidence.paths.iter().any(|path| path == "not-\u{fffd}-utf8"));
    assert_eq!(world.status(&workspace.worktree), "");
    let by = world.git(&workspace.worktree, &["log", "-1", "--format=%an <%ae> %s"]);
    assert_eq!(by, "Banksman <banksman@localhost> what was left");
    assert_eq!(evidence.checks.len(), 1);
}

#[test]
fn the_repository_s_own_name_is_used_if_it_has_one() {
    let (world, workspace, prepared) = begun();
    world.git(&world.repo(), &["config", "user.name", "Own"]);
    world.git(&world.repo(), &["config", "user.email", "own@localhost"]);
    write(&workspace.worktree.join("x"), "x");
    world.gather(&workspace, &prepared, &checks(&[]));
    assert_eq!(world.git(&workspace.worktree, &["log", "-1", "--format=%ae"]), "own@localhost");
}

#[test]
fn without_a_message_nothing_is_committed_and_nothing_proven() {
    let (world, workspace, prepared) = begun();
    let head = world.work(&workspace.worktree, "a", "x");
    write(&workspace.worktree.join("left"), "x");
    let evidence =
        gather(&mut world.runner(), &workspace, &prepared, &checks(&["true"]), None).unwrap();
    assert!(evidence.was_dirty && evidence.committed.is_none() && evidence.checks.is_empty());
    assert_eq!((evidence.head, evidence.paths), (head, vec!["a".to_owned(), "left".to_owned()]));
    assert_eq!(evidence.unchecked.as_deref(), Some("there are uncommitted files"));
}

#[test]
fn paths_that_are_not_allowed_are_named_and_not_committed() {
    let (world, workspace, prepared) = begun();
    world.work(&workspace.worktree, "src/ok.txt", "x");
    world.git(&workspace.worktree, &["mv", "README.md", "src/README.md"]);
    world.commit_in(&workspace.worktree, "moved");
    write(&workspace.worktree.join("src/.env"), "secret");
    let evidence = world.gather(&workspace, &prepared, &only(&["src/**"], &[".env"]));
    assert_eq!(evidence.outside, ["README.md"], "the side that a rename came from counts");
    assert_eq!(evidence.denied, ["src/.env"]);
    assert!(evidence.committed.is_none() && evidence.checks.is_empty() && evidence.was_dirty);

    let evidence = world.gather(&workspace, &prepared, &only(&["src/", "*.md"], &[]));
    assert_eq!((evidence.outside.len(), evidence.denied.len()), (0, 0));
    assert!(evidence.committed.is_some());
    assert_eq!(evidence.checks.len(), 1);
}

#[test]
fn links_that_lead_out_are_not_allowed() {
    let (world, workspace, prepared) = begun();
    symlink("/etc/passwd", workspace.worktree.join("committed")).unwrap();
    symlink("src/a.txt", workspace.worktree.join("fine")).unwrap();
    world.commit_in(&workspace.worktree, "links");
    symlink("../../../x", workspace.worktree.join("src/left")).unwrap();
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    let expected = ["committed (a link to /etc/passwd)", "src/left (a link to ../../../x)"];
    assert_eq!(evidence.outside, expected);
    assert!(evidence.committed.is_none() && evidence.checks.is_empty());
}

/// Whoever replaces the folder of the answers of a workflow could commit answers.
#[test]
fn what_takes_the_place_of_the_mailbox_is_denied() {
    for is_committed in [false, true] {
        let (world, workspace, prepared) = begun();
        symlink("src", workspace.worktree.join(".workflow")).unwrap();
        if is_committed {
            world.commit_in(&workspace.worktree, "a link");
        }
        let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
        assert_eq!(evidence.denied, [".workflow"]);
        assert!(evidence.checks.is_empty());
    }
}

#[test]
fn a_repository_inside_is_refused() {
    let (world, workspace, prepared) = begun();
    world.git(&workspace.worktree, &["init", "--quiet", "inner"]);
    write(&workspace.worktree.join("inner/x"), "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&[]));
    assert_eq!(evidence.outside, ["inner/ (a nested repository)"]);
    assert!(evidence.was_dirty && evidence.committed.is_none());

    world.commit_in(&workspace.worktree.join("inner"), "inner");
    world.git(&workspace.worktree, &["add", "inner"]);
    world.git(&workspace.worktree, &["commit", "--quiet", "-m", "as a submodule"]);
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!(evidence.outside, ["inner (a submodule)"]);
    assert!(evidence.checks.is_empty());
}

#[test]
fn checks_stop_at_the_first_that_fails() {
    let (world, workspace, prepared) = begun();
    world.work(&workspace.worktree, "a", "x");
    let commands = ["echo one", "echo out; echo because >&2; exit 7", "touch never"];
    let evidence = world.gather(&workspace, &prepared, &checks(&commands));
    let told: Vec<_> =
        evidence.checks.iter().map(|check| (check.exit.code, check.tail.as_str())).collect();
    assert_eq!(told, [(Some(0), "one"), (Some(7), "out\nbecause")]);
    assert!(!workspace.worktree.join("never").exists());
}

#[test]
fn a_check_that_changes_what_it_proves_has_not_passed() {
    let (world, workspace, prepared) = begun();
    world.work(&workspace.worktree, "a", "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["echo more >> a", "true"]));
    let [check] = evidence.checks.as_slice() else { panic!("{:?}", evidence.checks) };
    assert!(!check.passed() && check.tail.contains("changed tracked files"), "{check:?}");

    world.git(&workspace.worktree, &["checkout", "--quiet", "a"]);
    let moves = "git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x";
    let evidence = world.gather(&workspace, &prepared, &checks(&[moves]));
    assert!(evidence.checks[0].tail.contains("moved the head"), "{:?}", evidence.checks);
    assert_eq!(evidence.checks[0].head, evidence.head);
}

#[test]
fn what_checks_leave_behind_is_not_taken_for_work() {
    let (world, workspace, prepared) = begun();
    world.work(&workspace.worktree, "a", "x");
    let evidence = world.gather(
        &workspace,
        &prepared,
        &checks(&["mkdir -p ignored; echo x | tee report ignored/cache"]),
    );
    assert!(evidence.checks[0].passed());
    assert_eq!(world.status(&workspace.worktree), "");
    assert_eq!(read(&workspace.worktree.join("ignored/cache")), "x\n", "caches stay");
}

#[test]
fn a_check_has_its_time() {
    let (world, workspace, _prepared) = begun();
    world.work(&workspace.worktree, "a", "x");
    let slow = Verification { timeout_ms: 200, ..checks(&["echo begun; sleep 30"]) };
    let proof = run_checks(&mut world.runner(), &workspace.worktree, &slow).unwrap();
    assert!(
        !proof.checks[0].passed() && proof.checks[0].tail.contains("timed out after"),
        "{proof:?}"
    );
    assert!(proof.checks[0].tail.starts_with("begun"), "{proof:?}");
}

#[test]
fn work_on_no_branch_is_brought_to_the_branch() {
    let (world, workspace, prepared) = begun();
    world.git(&workspace.worktree, &["checkout", "--quiet", "--detach"]);
    let head = world.work(&workspace.worktree, "a", "x");
    write(&workspace.worktree.join("left"), "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!(evidence.commits, 2);
    assert_eq!(world.rev("banksman/t1^"), head);
    assert_eq!(world.rev("banksman/t1"), evidence.head);
    assert!(said(&evidence.notes, "on no branch"), "{:?}", evidence.notes);
    assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), "banksman/t1");
    assert_eq!(evidence.checks.len(), 1);
}

#[test]
fn work_on_another_branch_is_found_or_told() {
    let (world, workspace, prepared) = begun();
    world.git(&workspace.worktree, &["checkout", "--quiet", "-b", "own-idea"]);
    let head = world.work(&workspace.worktree, "a", "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.head.as_str(), evidence.commits), (head.as_str(), 1));
    assert!(said(&evidence.notes, "`own-idea`"), "{:?}", evidence.notes);

    world.git(&workspace.worktree, &["checkout", "--quiet", "--orphan", "unrelated"]);
    let away = world.commit_in(&workspace.worktree, "unrelated");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!(evidence.head, head, "the task's branch is what counts");
    assert!(evidence.checks.is_empty());
    assert!(said(&evidence.notes, &away), "{:?}", evidence.notes);
}

#[test]
fn work_on_the_base_branch_is_told() {
    let (world, workspace, prepared) = begun();
    world.git(&world.repo(), &["checkout", "--quiet", "--detach"]);
    world.git(&workspace.worktree, &["checkout", "--quiet", "main"]);
    let head = world.work(&workspace.worktree, "a", "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.head.as_str(), evidence.commits), (head.as_str(), 1));
    assert!(said(&evidence.notes, "`main`"), "{:?}", evidence.notes);
}

#[test]
fn a_repository_in_the_worktree_s_place_is_not_believed() {
    let (world, workspace, prepared) = begun();
    fs::remove_file(workspace.worktree.join(".git")).unwrap();
    world.git(&workspace.worktree, &["init", "--quiet"]);
    world.commit_in(&workspace.worktree, "forged");
    let mut runner = world.runner();
    let error = gather(&mut runner, &workspace, &prepared, &checks(&["true"]), Some("x"));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("a repository of its own"), "{error}");
}

#[test]
fn a_worktree_without_its_link_gets_it_back() {
    let (world, workspace, prepared) = begun();
    let head = world.work(&workspace.worktree, "a", "x");
    fs::remove_file(workspace.worktree.join(".git")).unwrap();
    assert_eq!(world.gather(&workspace, &prepared, &checks(&[])).head, head);
}

#[test]
fn a_huge_change_is_bounded() {
    let (world, workspace, prepared) = begun();
    for number in 0..3_000 {
        write(&workspace.worktree.join(format!("many/{number:05}")), "x\n");
    }
    write(&workspace.worktree.join("long"), &"line\n".repeat(500_000));
    let evidence = world.gather(&workspace, &prepared, &only(&["long"], &["many/"]));
    assert_eq!(
        (evidence.paths.len(), evidence.outside.len(), evidence.denied.len()),
        (500, 500, 500)
    );
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.files, evidence.insertions), (3_001, 503_000));
    assert_eq!(evidence.paths.len(), 500);
}

#[test]
fn a_head_behind_its_base_is_no_work() {
    let (world, workspace, _prepared) = begun();
    world.work(&world.repo(), "b", "x");
    let prepared = world.prepare_again(&workspace, _prepared);
    world.git(&workspace.worktree, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.commits, evidence.checks.len()), (0, 0));
}

impl World {
    fn prepare_again(&self, workspace: &Workspace, before: PreparedWorktree) -> PreparedWorktree {
        drop(before);
        self.prepare(workspace)
    }
}

#[test]
fn user_hooks_and_settings_do_not_reach_us() {
    let (world, workspace, prepared) = begun();
    let trace = world.root().join("trace");
    let script = format!("!echo ran >> '{}'", trace.display());
    for (name, value) in [
        ("core.pager", script.trim_start_matches('!')),
        ("diff.external", "false"),
        ("color.ui", "always"),
        ("status.short", "true"),
        ("core.quotePath", "false"),
        ("commit.gpgSign", "true"),
        ("diff.noprefix", "true"),
        ("status.showUntrackedFiles", "no"),
        ("diff.renames", "false"),
    ] {
        world.git(&world.repo(), &["config", name, value]);
    }
    write(&workspace.worktree.join("ä"), "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.paths, evidence.commits), (vec!["ä".to_owned()], 1));
    assert!(!Path::new(&trace).exists());
}

/// Whatever works like a merge can end half-way, and the markers in its files are no work.
#[test]
fn a_conflict_that_nobody_resolved_is_not_committed() {
    const MINE: &str = "one\nmine\nthree\n";
    let failing = |world: &World, at: &Path, args: &[&str]| {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
        let output = std::process::Command::new("git")
            .args([&identity[..], args].concat())
            .current_dir(at)
            .env_clear()
            .envs(world.env())
            .output()
            .unwrap();
        assert!(!output.status.success(), "{args:?} has no conflict");
    };
    let ends: [(&str, &[&[&str]]); 6] = [
        ("conflict markers are left in src/a.txt", &[&["merge", "other"]]),
        ("conflict markers are left in src/a.txt", &[&["merge", "other"], &["add", "--all"]]),
        ("conflict markers are left in src/a.txt", &[&["cherry-pick", "other"]]),
        ("conflict markers are left in src/a.txt", &[&["revert", "--no-edit", "HEAD~1"]]),
        ("conflict markers are left in src/a.txt", &[&["stash", "apply", "other-stash"]]),
        ("the conflict in src/a.txt is not resolved", &[&["merge", "removing"]]),
    ];
    for (expected, commands) in ends {
        let (world, workspace, prepared) = begun();
        let at = &workspace.worktree;
        world.git(at, &["checkout", "--quiet", "-b", "other"]);
        world.work(at, "src/a.txt", "one\ntheirs\nthree\n");
        world.git(at, &["checkout", "--quiet", "-b", "removing", "HEAD~1"]);
        world.git(at, &["rm", "--quiet", "src/a.txt"]);
        world.commit_in(at, "removed");
        world.git(at, &["checkout", "--quiet", "banksman/t1"]);
        write(&at.join("src/a.txt"), "one\nstashed\nthree\n");
        world.git(at, &["stash", "--quiet"]);
        world.git(at, &["tag", "other-stash", "stash@{0}"]);
        world.work(at, "src/a.txt", "one\nfirst\nthree\n");
        world.work(at, "src/a.txt", MINE);
        let (first, rest) = commands.split_first().unwrap();
        failing(&world, at, first);
        for command in rest {
            world.git(at, command);
        }
        let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
        assert!(evidence.unmerged[0].starts_with(expected), "{commands:?}: {evidence:?}");
        assert_eq!((&evidence.committed, evidence.checks.len()), (&None, 0), "{commands:?}");
        // Resolved, it is committed, whether or not anybody has told git so.
        write(&at.join("src/a.txt"), "one\nboth\nthree\n");
        if expected.starts_with("the conflict") {
            world.git(at, &["add", "src/a.txt"]);
        }
        let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
        assert_eq!((evidence.unmerged.len(), evidence.checks.len()), (0, 1), "{commands:?}");
        assert!(evidence.committed.is_some(), "{commands:?}");
    }
}

#[test]
fn a_worktree_left_on_other_work_proves_nothing() {
    let (world, workspace, prepared) = begun();
    let at = &workspace.worktree;
    let head = world.work(at, "a", "bad");
    world.git(at, &["checkout", "--quiet", "--detach", "main"]);
    world.work(at, "a", "good");
    let evidence = world.gather(&workspace, &prepared, &checks(&["grep good a"]));
    assert!(said(&evidence.unmerged, "not based on `banksman/t1`"), "{evidence:?}");
    assert_eq!((&evidence.head, evidence.checks.len()), (&head, 0));

    // Where nothing is that anybody could lose, the checks see the branch.
    for elsewhere in ["main", "banksman/t1~1"] {
        world.git(at, &["checkout", "--quiet", "--detach", elsewhere]);
        let evidence = world.gather(&workspace, &prepared, &checks(&["grep good a"]));
        assert_eq!((&evidence.head, evidence.unmerged.len()), (&head, 0), "{elsewhere}");
        assert!(!evidence.checks[0].passed(), "{elsewhere}");
        assert_eq!(world.git(at, &["branch", "--show-current"]), "banksman/t1");
    }
}

#[test]
fn commits_that_change_nothing_are_no_work() {
    let (world, workspace, prepared) = begun();
    let at = &workspace.worktree;
    world.git(at, &["commit", "--quiet", "--allow-empty", "-m", "all done"]);
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.commits, evidence.checks.len()), (0, 0));
    world.work(at, "a", "x");
    world.git(at, &["revert", "--no-edit", "HEAD"]);
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!((evidence.commits, evidence.checks.len()), (0, 0));
    world.work(at, "a", "x");
    assert_eq!(world.gather(&workspace, &prepared, &checks(&["true"])).commits, 4);
}

/// What others brought to the base meanwhile is their work, however a run takes it over.
#[test]
fn what_reached_the_base_meanwhile_is_not_the_run_s_own_work() {
    let takes: [&[&str]; 3] =
        [&["merge", "--ff-only", "main"], &["rebase", "main"], &["merge", "--no-ff", "main"]];
    for take in takes {
        for has_own in [false, true] {
            let (world, workspace, prepared) = begun();
            world.work(&world.repo(), ".github/workflows/ci.yml", "theirs");
            if has_own {
                world.work(&workspace.worktree, "own", "x");
            }
            if !(has_own && take.contains(&"--ff-only")) {
                world.git(&workspace.worktree, take);
            }
            let denied = only(&[], &[".github/"]);
            let evidence = world.gather(&workspace, &prepared, &denied);
            let own: &[&str] = if has_own { &["own"] } else { &[] };
            assert_eq!(evidence.commits > 0, has_own, "{take:?}");
            assert_eq!(evidence.paths, own, "{take:?}");
            assert_eq!(evidence.denied, [""; 0], "{take:?}");
        }
    }
}

/// The checks would see what the commit does not have.
#[test]
fn changes_that_git_was_told_to_overlook_are_work() {
    for mark in ["--skip-worktree", "--assume-unchanged"] {
        let (world, workspace, prepared) = begun();
        let at = &workspace.worktree;
        world.work(at, "code ä.txt", "bad");
        world.git(at, &["update-index", mark, "code ä.txt"]);
        write(&at.join("code ä.txt"), "good");
        let evidence = world.gather(&workspace, &prepared, &checks(&["grep good code*"]));
        assert!(evidence.was_dirty && evidence.committed.is_some(), "{mark}: {evidence:?}");
        let shown = world.git(&world.repo(), &["show", "banksman/t1:code ä.txt"]);
        assert_eq!((shown.as_str(), evidence.checks[0].passed()), ("good", true), "{mark}");
    }
}

/// A run may leave its own commits, and those of earlier runs, for others.
#[test]
fn commits_that_a_run_leaves_are_saved() {
    type Leaves = fn(&World, &Path);
    let table: [(Leaves, usize); 5] = [
        (|world, at| drop(world.git(at, &["reset", "--quiet", "--hard", "main"])), 1),
        (
            |world, at| {
                world.git(at, &["checkout", "--quiet", "--detach", "main"]);
                world.git(at, &["branch", "--quiet", "-D", "banksman/t1"]);
            },
            1,
        ),
        (|world, at| drop(world.git(at, &["rebase", "--quiet", "main"])), 0),
        (|world, at| drop(world.git(at, &["commit", "--quiet", "--amend", "-m", "other"])), 0),
        (
            |world, at| {
                world.git(at, &["reset", "--quiet", "--soft", "HEAD~2"]);
                world.git(at, &["commit", "--quiet", "-m", "squashed"]);
            },
            0,
        ),
    ];
    for (number, (leaves, saved)) in table.into_iter().enumerate() {
        let (world, workspace, prepared) = begun();
        let at = &workspace.worktree;
        world.work(&world.repo(), "of the base", "x");
        world.work(at, "one", "x");
        let last = world.work(at, "precious", "x");
        leaves(&world, at);
        let evidence = world.gather(&workspace, &prepared, &checks(&[]));
        let refs = world.git(&world.repo(), &["for-each-ref", "refs/banksman/rescue/t1/"]);
        assert_eq!(refs.lines().count(), saved, "{number}: {evidence:?}");
        assert_eq!(refs.starts_with(&last), saved == 1, "{number}: {evidence:?}");
        assert_eq!(said(&evidence.notes, "refs/banksman/rescue/t1/1"), saved == 1, "{number}");
    }
}

#[test]
fn conflict_markers_that_the_work_adds_are_found() {
    let world = World::new();
    let marked = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> other\n";
    world.work(&world.repo(), "docs/conflicts.md", marked);
    let workspace = world.workspace("t1");
    let prepared = world.prepare(&workspace);
    write(&workspace.worktree.join("docs/conflicts.md"), &format!("{marked}\nMore.\n"));
    world.work(&workspace.worktree, "docs/title.md", "Title\n=======\n");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert!(evidence.unmerged.is_empty(), "{:?}", evidence.unmerged);
    assert_eq!(evidence.checks.len(), 1);

    write(&workspace.worktree.join("src/a.txt"), "one\n>>>>>>> other\n");
    world.work(&workspace.worktree, "ä b.txt", marked);
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert_eq!(
        evidence.unmerged,
        ["conflict markers are left in src/a.txt", "conflict markers are left in ä b.txt"]
    );

    world.work(&workspace.worktree, ".gitattributes", "*.txt conflict-marker-size=32\n");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert!(evidence.unmerged.is_empty(), "{:?}", evidence.unmerged);
}

/// Only what a commit shows may hide a file: checks would see it, and nobody else.
#[test]
fn a_file_that_was_hidden_during_the_run_is_told() {
    let (world, workspace, prepared) = begun();
    let exclude = world.repo().join(".git/info/exclude");
    let before = read(&exclude);
    write(&exclude, &format!("{before}code.txt\nscratch/\n"));
    write(&workspace.worktree.join(".gitignore"), "ignored/\nscratch/\n");
    write(&workspace.worktree.join("scratch/x"), "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert!(evidence.unmerged.is_empty() && evidence.commits == 1, "{evidence:?}");
    write(&workspace.worktree.join("code.txt"), "GOOD");
    let evidence = world.gather(&workspace, &prepared, &checks(&["grep -q GOOD code.txt"]));
    assert!(said(&evidence.unmerged, "hides code.txt since the run"), "{evidence:?}");
    // Whoever begins with that list has not hidden anything.
    let prepared = world.prepare_again(&workspace, prepared);
    let evidence = world.gather(&workspace, &prepared, &checks(&["true"]));
    assert!(evidence.unmerged.is_empty(), "{evidence:?}");
}
