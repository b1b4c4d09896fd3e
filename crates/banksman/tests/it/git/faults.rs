//! What goes wrong with worktrees: killed gits, missing parts, other people's hands, full and
//! read-only disks.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use banksman::exec::git::OLDEST;
use banksman::exec::job::Workspace;
use banksman::exec::merge::merge;
use banksman::exec::process::{PlainRunner, Program, ProgramOutput, RunError, Runner};
use banksman::exec::worktree::prepare;
use banksman::exec::worktree::removal::remove;
use banksman_core::receipt::{EndCause, MergeReport, PrepareFault};

use super::{LocksIndex, World, checks, read, said, write};

/// Another attempt would meet the same branch, so a person gets the command that moves it away.
#[test]
fn a_branch_in_the_way_is_for_a_person() {
    let elsewhere: fn(&World) = |world| {
        world.git(&world.repo(), &["checkout", "--quiet", "-b", "banksman/t1"]);
    };
    let taken_meanwhile: fn(&World) = |world| {
        let workspace = world.workspace("t1");
        drop(world.prepare(&workspace));
        world.work(&workspace.worktree, "a", "x");
        world.git(&workspace.worktree, &["checkout", "--quiet", "--detach", "HEAD~1"]);
        world.git(&world.repo(), &["checkout", "--quiet", "banksman/t1"]);
    };
    let above: fn(&World) = |world| {
        world.git(&world.repo(), &["branch", "banksman"]);
    };
    let below: fn(&World) = |world| {
        world.git(&world.repo(), &["branch", "banksman/t1/mine"]);
    };
    for (put, command) in [
        (elsewhere, "git -C"),
        (taken_meanwhile, "git -C"),
        (above, "git branch -m banksman NAME"),
        (below, "git branch -m banksman/t1/mine NAME"),
    ] {
        let world = World::new();
        put(&world);
        let fault = world.try_prepare(&world.workspace("t1")).unwrap_err();
        assert_eq!(fault.class, PrepareFault::Unusable, "{fault}");
        assert!(fault.detail.contains(command), "{fault}");
    }
}

/// A git of this version, as far as it says.
struct Says<'a> {
    plain: PlainRunner,
    version: &'a str,
}

impl Runner for Says<'_> {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        let mut output = self.plain.run(program)?;
        if program.args.last().is_some_and(|last| last == "version") {
            self.version.clone_into(&mut output.stdout);
        }
        Ok(output)
    }
}

/// No attempt and no agent changes that.
#[test]
fn a_git_that_is_too_old_is_for_a_person() {
    for (version, is_enough) in [
        ("git version 2.20.1\n", false),
        ("git version 2.38.9\n", false),
        ("git version 2.39.5\n", true),
        ("git version 3.0.0\n", true),
        ("git of mine\n", true),
    ] {
        let world = World::new();
        let mut says = Says { plain: world.runner(), version };
        match prepare(&mut says, &world.workspace("t1")) {
            Ok(_) => assert!(is_enough, "{version}"),
            Err(EndCause::NotPrepared { detail, class }) => {
                assert_eq!((class, is_enough), (PrepareFault::Unusable, false), "{detail}");
                assert!(detail.contains(version.trim()) && detail.contains(OLDEST), "{detail}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// A repository with a submodule at `lib`, and where that comes from.
fn with_submodule() -> (World, PathBuf) {
    let world = World::new();
    let source = world.root().join("source");
    world.git(world.root(), &["init", "--quiet", "-b", "main", "source"]);
    world.work(&source, "a", "x");
    let allowed = ["-c", "protocol.file.allow=always"];
    let add = ["submodule", "--quiet", "add", source.to_str().unwrap(), "lib"];
    world.git(&world.repo(), &[&allowed[..], &add[..]].concat());
    world.commit_in(&world.repo(), "a submodule");
    (world, source)
}

const FETCHES: &str = "git -c protocol.file.allow=always submodule update --init";

#[test]
fn a_submodule_that_cannot_be_had_is_for_a_person() {
    let (world, source) = with_submodule();
    let workspace = Workspace { setup: Some(FETCHES.to_owned()), ..world.workspace("t1") };
    let away = world.root().join("away");
    fs::rename(&source, &away).unwrap();
    // It is fetched from the repository that has it.
    fs::remove_dir_all(world.repo().join(".git/modules")).unwrap();
    for _ in 0..2 {
        let fault = world.try_prepare(&workspace).unwrap_err();
        assert_eq!(fault.class, PrepareFault::Unusable, "{fault}");
        assert!(fault.detail.contains("git -C "), "{fault}");
    }
    fs::rename(away, source).unwrap();
    let prepared = world.prepare(&workspace);
    assert!(!said(&prepared.notes, "submodule"), "{:?}", prepared.notes);
    assert_eq!(read(&workspace.worktree.join("lib/a")), "x");

    let other = Workspace { setup: Some("echo no >&2; false".to_owned()), ..world.workspace("t2") };
    assert_eq!(world.try_prepare(&other).unwrap_err().class, PrepareFault::Setup);
}

#[test]
fn a_worktree_says_that_its_submodules_are_empty() {
    let (world, _) = with_submodule();
    let prepared = world.prepare(&world.workspace("t1"));
    assert!(said(&prepared.notes, "empty submodules: lib;"), "{:?}", prepared.notes);
}

/// Each attempt would meet the same damage.
#[test]
fn what_git_cannot_read_is_made_again() {
    for damaged in ["worktrees/t1/HEAD", "worktrees/t1/index", "refs/heads/banksman/t1"] {
        let world = World::new();
        let workspace = world.workspace("t1");
        let prepared = world.prepare(&workspace);
        let head = world.work(&workspace.worktree, "a", "x");
        let damaged = world.repo().join(".git").join(damaged);
        write(&damaged, "garbage\n");
        let evidence = world.gather(&workspace, &prepared, &checks(&["test -e a"]));
        assert_eq!((&evidence.head, evidence.commits, evidence.checks.len()), (&head, 1, 1));
        drop(prepared);
        write(&damaged, "garbage\n");
        let prepared = world.prepare(&workspace);
        assert_eq!(prepared.head, head);
        assert!(!prepared.notes.is_empty() && world.status(&workspace.worktree).is_empty());
        drop(prepared);
        write(&damaged, "garbage\n");
        assert!(world.remove(&workspace).rescue.is_some());
    }
}

/// Whatever an agent makes of its branch, no other branch of the repository is written or deleted.
#[test]
fn a_branch_that_points_to_another_one_becomes_one_of_its_own() {
    let to_base = |world: &World, at: &Path| {
        world.git(at, &["checkout", "--quiet", "--detach"]);
        world.git(at, &["symbolic-ref", "refs/heads/banksman/t1", "refs/heads/main"]);
        world.git(at, &["symbolic-ref", "HEAD", "refs/heads/banksman/t1"]);
    };
    let world = World::new();
    let workspace = world.workspace("t1");
    let main = world.rev("main");
    let prepared = world.prepare(&workspace);
    to_base(&world, &workspace.worktree);
    write(&workspace.worktree.join("left"), "x");
    let evidence = world.gather(&workspace, &prepared, &checks(&[]));
    drop(prepared);
    assert_eq!(evidence.committed.as_ref(), Some(&world.rev("banksman/t1")));
    assert_eq!(world.rev("main"), main);

    to_base(&world, &workspace.worktree);
    assert_eq!(world.prepare(&workspace).head, main);
    world.work(&workspace.worktree, "a", "x");
    assert_eq!(world.rev("main"), main);

    to_base(&world, &workspace.worktree);
    world.remove(&workspace);
    assert_eq!(world.rev("main"), main);
    assert!(!world.has_ref("refs/heads/banksman/t1"));

    world.git(&world.repo(), &["symbolic-ref", "refs/heads/banksman/t1", "refs/heads/main"]);
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "a", "x");
    assert_eq!(world.rev("main"), main);
}

#[test]
fn a_deleted_branch_gets_its_last_commit_back() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "a", "x");
    write(&workspace.worktree.join("left"), "x");
    world.git(&world.repo(), &["update-ref", "-d", "refs/heads/banksman/t1"]);
    let prepared = world.prepare(&workspace);
    assert_eq!(prepared.head, head);
    assert!(said(&prepared.notes, "was gone"), "{:?}", prepared.notes);
    assert_eq!(world.status(&workspace.worktree), "?? left");
    world.git(&world.repo(), &["update-ref", "-d", "refs/heads/banksman/t1"]);
    assert_eq!(world.gather(&workspace, &prepared, &checks(&[])).commits, 2);
}

#[test]
fn a_detached_head_is_taken_along() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.git(&workspace.worktree, &["checkout", "--quiet", "--detach"]);
    let head = world.work(&workspace.worktree, "a", "x");
    assert_eq!(world.prepare(&workspace).head, head);
    assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), "banksman/t1");
}

#[test]
fn a_worktree_left_on_something_else_is_brought_back_and_that_is_saved() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "a", "x");
    world.git(&workspace.worktree, &["checkout", "--quiet", "--orphan", "unrelated"]);
    let away = world.commit_in(&workspace.worktree, "unrelated");
    write(&workspace.worktree.join("a"), "changed there");
    let prepared = world.prepare(&workspace);
    assert_eq!(prepared.head, head);
    assert!(said(&prepared.notes, "refs/banksman/rescue/t1/1"), "{:?}", prepared.notes);
    assert_eq!(world.rev("refs/banksman/rescue/t1/1^1"), away);
    let saved = world.git(&world.repo(), &["show", "refs/banksman/rescue/t1/1:a"]);
    assert_eq!(saved, "changed there");
}

/// git reads the records of all worktrees before it does anything with one, and gives up at the
/// sight of this.
#[test]
fn a_record_that_a_killed_git_left_half_written_is_in_nobodys_way() {
    let world = World::new();
    let [first, second] = ["t1", "t2"].map(|id| world.workspace(id));
    drop(world.prepare(&first));
    let record = world.repo().join(".git/worktrees/t1");
    write(&record.join("commondir"), "");
    write(&record.join("locked"), "initializing");
    assert!(world.prepare(&second).fresh);
    write(&record.join("commondir"), "");
    assert!(world.prepare(&first).fresh);
    assert_eq!(world.git(&first.worktree, &["branch", "--show-current"]), "banksman/t1");
}

#[test]
fn a_rebase_left_half_way_is_undone() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "README.md", "mine\n");
    world.work(&world.repo(), "README.md", "theirs\n");
    let rebase = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@x", "rebase", "main"])
        .current_dir(&workspace.worktree)
        .output()
        .unwrap();
    assert!(!rebase.status.success());
    write(&workspace.worktree.join("README.md"), "half resolved\n");
    let prepared = world.prepare(&workspace);
    assert_eq!(prepared.head, head);
    assert_eq!(world.status(&workspace.worktree), "");
    assert!(said(&prepared.notes, "rebase"), "{:?}", prepared.notes);
    let saved = world.git(&world.repo(), &["show", "refs/banksman/rescue/t1/1:README.md"]);
    assert_eq!(saved, "half resolved");
}

#[test]
fn locks_of_a_killed_git_are_removed_and_those_of_a_living_one_are_not() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let record = world.repo().join(".git/worktrees/t1");
    for lock in ["index.lock", "HEAD.lock"] {
        write(&record.join(lock), "");
    }
    write(&world.repo().join(".git/refs/heads/banksman/t1.lock"), "");
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "a", "x");

    let open = fs::File::create(record.join("index.lock")).unwrap();
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert!(fault.detail.contains("open"), "{fault}");
    drop(open);
    drop(world.prepare(&workspace));
}

#[test]
fn a_record_that_was_pruned_is_made_again_around_the_files() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "a", "x");
    write(&workspace.worktree.join("left"), "x");
    write(&workspace.worktree.join("a"), "changed");
    fs::remove_dir_all(world.repo().join(".git/worktrees/t1")).unwrap();
    let prepared = world.prepare(&workspace);
    assert_eq!((prepared.head, prepared.fresh), (head, false));
    assert_eq!(world.status(&workspace.worktree), " M a\n?? left");
}

/// git makes the file first and writes it then.
#[test]
fn a_worktree_whose_git_file_was_never_written_is_tied_again_or_made_anew() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "a", "x");
    write(&workspace.worktree.join("left"), "x");
    write(&workspace.worktree.join(".git"), "");
    let prepared = world.prepare(&workspace);
    assert_eq!((&prepared.head, prepared.fresh), (&head, false));
    assert_eq!(world.status(&workspace.worktree), "?? left");
    drop(prepared);
    write(&workspace.worktree.join(".git"), "");
    write(&world.repo().join(".git/worktrees/t1/locked"), "initializing");
    let prepared = world.prepare(&workspace);
    assert_eq!((&prepared.head, prepared.fresh), (&head, true), "nobody has worked in it yet");
    assert_eq!(world.status(&workspace.worktree), "");
}

#[test]
fn a_worktree_that_was_moved_is_tied_again_and_a_copy_is_not_taken_for_it() {
    let world = World::new();
    let mut workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    let head = world.work(&workspace.worktree, "a", "x");
    let to = world.root().join("home/worktrees/app/moved");
    fs::rename(&workspace.worktree, &to).unwrap();
    let from = std::mem::replace(&mut workspace.worktree, to);
    assert_eq!(world.prepare(&workspace).head, head);
    let copied = Command::new("cp").arg("-a").arg(&workspace.worktree).arg(&from).status().unwrap();
    assert!(copied.success());
    workspace.worktree = from;
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert!(fault.detail.contains("a copy of"), "{fault}");
}

#[test]
fn a_worktree_of_another_repository_is_not_touched() {
    let world = World::new();
    world.add_remote();
    let workspace = world.workspace("t1");
    let path = workspace.worktree.to_str().unwrap();
    world.git(&world.root().join("remote.git"), &["worktree", "add", "--quiet", "-b", "x", path]);
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert!(fault.detail.contains("another repository"), "{fault}");
}

/// Lets a number of programs run, then kills the next one after a while, as a crash of the machine
/// would.
struct Kills {
    plain: PlainRunner,
    calls: u32,
    after: Duration,
    is_dead: bool,
}

impl Runner for Kills {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        if self.is_dead {
            return Err(RunError::Interrupted);
        }
        if self.calls > 0 {
            self.calls -= 1;
            return self.plain.run(program);
        }
        self.is_dead = true;
        self.plain.run(&Program { timeout: self.after, ..program.clone() })?;
        Err(RunError::Interrupted)
    }
}

fn many_files(world: &World) {
    for number in 0..300 {
        write(&world.repo().join(format!("many/{number}")), &format!("{number}\n").repeat(200));
    }
    world.commit_in(&world.repo(), "many");
}

/// In parts, so that none needs more than a fraction of its time limit.
mod a_git_killed_anywhere_leaves_nothing_that_stops_the_next {
    use super::killed_and_used_again;

    #[test]
    fn early() {
        killed_and_used_again(0..8);
    }

    #[test]
    fn later() {
        killed_and_used_again(8..16);
    }

    #[test]
    fn late() {
        killed_and_used_again(16..24);
    }
}

/// A lock on all refs counts as left behind only after half a minute.
fn let_time_pass(world: &World) {
    let lock = world.repo().join(".git/packed-refs.lock");
    if let Ok(lock) = fs::File::options().write(true).open(lock) {
        lock.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
}

/// The round says which program is killed, and after how many milliseconds.
fn killed_and_used_again(rounds: Range<u32>) {
    let world = World::new();
    many_files(&world);
    for round in rounds {
        let workspace = world.workspace(&format!("t{round}"));
        let mut kills = Kills {
            plain: world.runner(),
            calls: round % 6,
            after: Duration::from_micros(u64::from(round) * 1_000),
            is_dead: false,
        };
        let killed = prepare(&mut kills, &workspace);
        drop(killed);
        let prepared = world.prepare(&workspace);
        assert_eq!(prepared.head, world.rev("main"), "round {round}");
        assert_eq!(world.status(&workspace.worktree), "", "round {round}");
        assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), workspace.branch);
        drop(prepared);
        write(&workspace.worktree.join("many/7"), "work");
        let mut kills = Kills { calls: (round / 2) % 12, is_dead: false, ..kills };
        let killed = remove(&mut kills, &workspace);
        drop(killed);
        let_time_pass(&world);
        remove(&mut world.runner(), &workspace).unwrap();
        assert!(!workspace.worktree.exists());
        let rescues = format!("refs/banksman/rescue/t{round}/");
        let found = world.git(&world.repo(), &["for-each-ref", "--format=%(refname)", &rescues]);
        let name = found.lines().next().unwrap_or_else(|| panic!("nothing saved in round {round}"));
        let saved = world.git(&world.repo(), &["show", &format!("{name}:many/7")]);
        assert_eq!(saved, "work", "round {round}");
    }
}

#[test]
fn a_rebase_killed_in_the_middle_loses_nothing() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    for number in 0..5 {
        world.work(&workspace.worktree, &format!("work/{number}"), "x");
    }
    for round in 0..8_u32 {
        world.work(&world.repo(), &format!("base/{round}"), "x");
        for calls in [4, 7, 8] {
            let after = Duration::from_millis(u64::from(round) * 8);
            let plain = world.runner();
            drop(prepare(&mut Kills { plain, calls, after, is_dead: false }, &workspace));
        }
        let prepared = world.prepare(&workspace);
        for number in 0..5 {
            let file = workspace.worktree.join(format!("work/{number}"));
            assert!(file.exists(), "round {round}: {:?}", prepared.notes);
        }
        assert_eq!(world.git(&workspace.worktree, &["branch", "--show-current"]), "banksman/t1");
    }
    assert_eq!(world.prepare(&workspace).base, world.rev("main"));
}

/// Leaves what a git leaves that dies while it writes files: some are there, one of them in part,
/// and no ref has moved.
struct DiesWriting<'a> {
    plain: PlainRunner,
    command: &'a str,
    files: &'a [(&'a str, &'a str)],
}

impl Runner for DiesWriting<'_> {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        if !program.args.iter().any(|arg| arg == self.command) {
            return self.plain.run(program);
        }
        for (name, text) in self.files {
            write(&program.folder.join(name), text);
        }
        Err(RunError::Interrupted)
    }
}

#[test]
fn files_of_a_git_that_died_writing_them_are_nobodys_work() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "mine", "work");
    world.work(&world.repo(), "theirs", "all of it");
    let files = [("theirs", "all of"), ("README.md", "changed on the way")];
    let mut dies = DiesWriting { plain: world.runner(), command: "rebase", files: &files };
    drop(prepare(&mut dies, &workspace).unwrap_err());
    let prepared = world.prepare(&workspace);
    assert_eq!(prepared.base, world.rev("main"), "{:?}", prepared.notes);
    assert_eq!(world.status(&workspace.worktree), "");
    assert_eq!(read(&workspace.worktree.join("theirs")), "all of it");
    drop(prepared);

    drop(world.prepare(&world.workspace("t2")));
    world.work(&world.workspace("t2").worktree, "others", "all of it");
    let merges_in = Workspace { merges_in: vec!["banksman/t2".to_owned()], ..workspace.clone() };
    let files = [("others", "all"), ("mine", "changed on the way")];
    let mut dies = DiesWriting { plain: world.runner(), command: "merge", files: &files };
    drop(prepare(&mut dies, &merges_in).unwrap_err());
    let prepared = world.prepare(&merges_in);
    assert!(said(&prepared.notes, "interrupted"), "{:?}", prepared.notes);
    assert_eq!(world.status(&workspace.worktree), "");
    assert_eq!(read(&workspace.worktree.join("others")), "all of it");
    assert_eq!(read(&workspace.worktree.join("mine")), "work");
}

/// A task with one commit, which was reviewed, and all that a merge of that commit says and does.
struct Reviewed {
    world: World,
    workspace: Workspace,
    base: String,
    commit: String,
}

impl Reviewed {
    fn new() -> Self {
        let world = World::new();
        let workspace = Workspace { setup: Some("true".to_owned()), ..world.workspace("t1") };
        drop(world.prepare(&workspace));
        let commit = world.work(&workspace.worktree, "new.txt", "new\n");
        let base = world.work(&world.repo(), "other.txt", "other\n");
        Self { world, workspace, base, commit }
    }

    fn merge(&self, runner: &mut dyn Runner) -> Result<MergeReport, RunError> {
        let passes = checks(&["test -e new.txt && test -e other.txt"]);
        merge(runner, &self.workspace, &passes, "m", Some(&self.commit))
    }

    /// Whether it is merged: then as one merge of that very commit, and else nothing has moved.
    fn is_merged(&self) -> bool {
        let main = self.world.rev("main");
        let parents = self.world.git(&self.world.repo(), &["log", "-1", "--format=%P", "main"]);
        assert!(main == self.base || parents == format!("{} {}", self.base, self.commit));
        main != self.base
    }

    /// A git that was killed in the checkout has left it to the person whose checkout it is.
    fn tidy(&self) {
        let repo = self.world.repo();
        for lock in ["index.lock", "HEAD.lock", "ORIG_HEAD.lock", "refs/heads/main.lock"] {
            drop(fs::remove_file(repo.join(".git").join(lock)));
        }
        self.world.git(&repo, &["reset", "--quiet", "--hard"]);
        self.world.git(&repo, &["clean", "--quiet", "-fd"]);
    }

    /// Somebody goes on working on the branch.
    fn moves_on(&self) {
        self.world.work(&self.workspace.worktree, "late.txt", "late\n");
    }

    fn assert_in_order(&self) {
        let repo = self.world.repo();
        assert_eq!(self.world.status(&repo), "");
        assert_eq!(repo.join("new.txt").exists(), self.is_merged());
        assert!(!repo.join("late.txt").exists());
    }
}

#[test]
fn a_merge_of_one_commit_killed_anywhere_is_made_once_or_not_at_all() {
    let mut calls = 0;
    loop {
        let reviewed = Reviewed::new();
        let after = Duration::from_millis(u64::from(calls % 4) * 2);
        let plain = reviewed.world.runner();
        let is_killed = reviewed.merge(&mut Kills { plain, calls, after, is_dead: false }).is_err();
        let was_merged = reviewed.is_merged();
        let has_moved_on = calls % 2 == 1;
        if has_moved_on {
            reviewed.moves_on();
        }
        let again = || {
            reviewed
                .merge(&mut reviewed.world.runner())
                .unwrap_or_else(|error| panic!("{calls}: {error}"))
        };
        let again = match again() {
            MergeReport::Hindered { .. } => {
                reviewed.tidy();
                again()
            }
            done => done,
        };
        match again {
            MergeReport::AlreadyIn { .. } => assert!(was_merged, "{calls}"),
            MergeReport::Merged { .. } => assert!(!was_merged && !has_moved_on, "{calls}"),
            MergeReport::MovedOn { .. } => assert!(!was_merged && has_moved_on, "{calls}"),
            MergeReport::NotIn
            | MergeReport::Conflict { .. }
            | MergeReport::Hindered { .. }
            | MergeReport::Rejected { .. } => panic!("{calls}: {again:?}"),
        }
        // The branch moves after the files do, so it can be left behind them and never the other
        // way round.
        if is_killed && !reviewed.is_merged() {
            reviewed.tidy();
        }
        reviewed.assert_in_order();
        if !is_killed {
            break;
        }
        calls += 1;
        assert!(calls < 100, "it never ends");
    }
    assert!(calls > 8, "{calls} calls");
}

/// The checkout is somebody's own, so what a killed git has left in it is told and not tidied away.
#[test]
fn a_merge_that_died_in_the_checkout_says_what_is_in_the_way_until_that_is_gone() {
    let reviewed = Reviewed::new();
    let files = [(".git/index.lock", ""), ("new.txt", "ne")];
    let plain = reviewed.world.runner();
    let mut dies = DiesWriting { plain: plain.clone(), command: "--ff-only", files: &files };
    reviewed.merge(&mut dies).unwrap_err();
    assert!(!reviewed.is_merged());
    let remove = |name: &str| fs::remove_file(reviewed.world.repo().join(name)).unwrap();
    let mut locked = LocksIndex { plain: plain.clone(), world: &reviewed.world, waits: u32::MAX };
    let error = reviewed.merge(&mut locked).unwrap_err();
    assert!(error.to_string().contains("index.lock"), "{error}");
    remove(".git/index.lock");
    let again = reviewed.merge(&mut plain.clone()).unwrap();
    let MergeReport::Hindered { detail } = again else { panic!("{again:?}") };
    assert!(detail.contains("new.txt"), "{detail}");
    assert!(!reviewed.is_merged());
    remove("new.txt");
    assert!(matches!(reviewed.merge(&mut plain.clone()), Ok(MergeReport::Merged { .. })));
    reviewed.assert_in_order();
}

#[test]
fn what_is_written_after_a_refused_merge_is_kept() {
    let world = World::new();
    let workspace = world.workspace("t1");
    drop(world.prepare(&workspace));
    world.work(&workspace.worktree, "a", "ours");
    let other = world.workspace("t2");
    drop(world.prepare(&other));
    world.work(&other.worktree, "a", "theirs");
    let merges_in = Workspace { merges_in: vec![other.branch], ..workspace };
    assert_eq!(world.prepare(&merges_in).conflicts.len(), 1);
    write(&merges_in.worktree.join("by hand"), "work");
    assert_eq!(world.prepare(&merges_in).conflicts.len(), 1);
    assert_eq!(read(&merges_in.worktree.join("by hand")), "work");
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let world = World::new();
    let workspace = world.workspace("t1");
    let folder = workspace.worktree.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(folder.join("probe"), "").is_ok() {
        // Permissions do not bind the superuser; a file in the folder's place binds everybody.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_dir_all(folder).unwrap();
        fs::write(folder, "").unwrap();
    }
    let fault = world.try_prepare(&workspace).unwrap_err();
    assert_eq!(fault.class, PrepareFault::Environment, "{fault}");
}

mod needs_root {
    mod needs_mounts {
        use super::super::*;

        /// A file system of one megabyte.
        struct SmallDisk<'a>(&'a Path);

        impl<'a> SmallDisk<'a> {
            fn mount(at: &'a Path) -> Self {
                fs::create_dir_all(at).unwrap();
                let mounted = Command::new("mount")
                    .args(["-t", "tmpfs", "-o", "size=1m", "banksman-test"])
                    .arg(at)
                    .output();
                let output = mounted.expect("mount starts");
                assert!(output.status.success(), "{output:?}");
                Self(at)
            }
        }

        impl Drop for SmallDisk<'_> {
            fn drop(&mut self) {
                let unmounted = Command::new("umount").arg(self.0).status();
                assert!(unmounted.is_ok_and(|status| status.success()));
            }
        }

        #[test]
        fn a_full_disk_is_told_and_leaves_nothing_that_stops_the_next() {
            let world = World::new();
            many_files(&world);
            write(&world.repo().join("large"), &"0123456789abcdef".repeat(200_000));
            world.commit_in(&world.repo(), "large");
            let folder = world.root().join("home/worktrees");
            let disk = SmallDisk::mount(&folder);
            let workspace = world.workspace("t1");
            let fault = world.try_prepare(&workspace).unwrap_err();
            assert_eq!(fault.class, PrepareFault::Environment, "{fault}");
            assert!(fault.detail.contains("No space") || fault.detail.contains("write"), "{fault}");
            drop(disk);
            assert_eq!(world.prepare(&workspace).head, world.rev("main"));
            assert_eq!(world.status(&workspace.worktree), "");
            assert_eq!(read(&workspace.worktree.join("README.md")), "hello\n");
        }
    }
}
