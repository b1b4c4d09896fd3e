//! What git sees of a mailbox in a folder that people have made: their own files, and nothing else.

use std::path::Path;
use std::process::Command;

use banksman_core::time::Instant;

use super::world::World;

fn git(folder: &Path, args: &[&str]) -> String {
    let done = Command::new("git").arg("-C").arg(folder).args(args).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn use_all(world: &World) {
    let mailbox = &world.mailbox;
    mailbox.record("flow", Instant(0), "a line", "t1#1").unwrap();
    mailbox.keep_assignment("X-1", "do it").unwrap();
    mailbox.write_feedback(".workflow/retry-context/G-{n}.md", 1, "not so").unwrap();
    world.write(".workflow/signals/X-1-done.json", "{}");
    mailbox.clear_for(&["X-1".to_owned()], &[], &[], "before-t2").unwrap();
    world.write(".workflow/signals/X-1-done.json", "{}");
}

#[test]
fn in_a_folder_of_peoples_own_only_their_files_are_seen() {
    let world = World::new();
    let root = world.root();
    git(&root, &["init", "--quiet"]);
    world.write(".workflow/specs/flow.yaml", "workflow: { id: flow }\n");
    world.write(".workflow/.gitignore", "*.bak\n");
    world.write("side/.gitignore", "*.tmp\n");
    use_all(&world);
    let seen = git(&root, &["status", "--porcelain", "--untracked-files=all"]);
    let seen: Vec<&str> = seen.lines().collect();
    assert_eq!(
        seen,
        ["?? .workflow/.gitignore", "?? .workflow/specs/flow.yaml", "?? side/.gitignore"]
    );
    assert_eq!(world.read(".workflow/.gitignore"), "*.bak\n", "that is theirs");
    // Whoever commits everything commits what is theirs, also in another worktree.
    git(&root, &["add", "--all"]);
    let author = ["-c", "user.name=Kim", "-c", "user.email=kim@example.org"];
    git(&root, &[&author[..], &["commit", "--quiet", "--message", "all"]].concat());
    let other = world.outside().join("worktree");
    git(&root, &["worktree", "add", "--quiet", &other.display().to_string()]);
    std::fs::create_dir_all(other.join(".workflow/audit")).unwrap();
    std::fs::write(other.join(".workflow/audit/flow.log"), "x").unwrap();
    assert_eq!(git(&other, &["status", "--porcelain"]), "");
}

#[test]
fn a_folder_that_is_no_repository_has_a_mailbox_too() {
    let world = World::new();
    world.write(".workflow/specs/flow.yaml", "workflow: { id: flow }\n");
    use_all(&world);
    assert!(!world.is_there(".git"));
}
