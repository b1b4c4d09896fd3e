//! Feedback for the next attempt: written beside what is there and confined to the repository.

use std::fs;
use std::os::unix::fs::symlink;

use banksman::exec::mailbox::MailboxError;
use proptest::prelude::*;

use super::world::World;

const TEMPLATE: &str = ".workflow/retry-context/XG-1-2-attempt-{n}.md";

fn write(world: &World, n: u32, text: &str) -> String {
    world.mailbox.write_feedback(TEMPLATE, n, text).unwrap()
}

#[test]
fn the_same_text_is_written_once_and_another_one_beside_it() {
    let world = World::new();
    let path = ".workflow/retry-context/XG-1-2-attempt-2.md";
    assert_eq!(write(&world, 2, "no tests"), path);
    assert_eq!(write(&world, 2, "no tests"), path);
    let second = ".workflow/retry-context/XG-1-2-attempt-2-2.md";
    assert_eq!(write(&world, 2, "no tests at all"), second);
    assert_eq!(write(&world, 2, "no tests at all"), second, "also after a crash");
    assert_eq!(write(&world, 2, ""), ".workflow/retry-context/XG-1-2-attempt-2-3.md");
    assert_eq!(
        (world.read(path).as_str(), world.read(second).as_str()),
        ("no tests", "no tests at all")
    );
    let fixed = world.mailbox.write_feedback("./notes//why.md", 3, "x").unwrap();
    assert_eq!(fixed, "notes/why.md");
}

#[test]
fn a_draft_that_a_crash_left_is_not_kept() {
    let world = World::new();
    let draft = ".workflow/retry-context/.banksman-draft";
    world.write(draft, "half a sen");
    write(&world, 1, "whole");
    assert!(!world.is_there(draft));
    // A link in the draft's place is not written through.
    let victim = world.outside().join("victim");
    fs::write(&victim, "theirs").unwrap();
    symlink(&victim, world.root().join(draft)).unwrap();
    write(&world, 2, "whole");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs");
}

#[test]
fn a_name_that_reads_like_a_pattern_is_a_name() {
    let world = World::new();
    let path = world.mailbox.write_feedback("notes/G[linux,2]-{n}.md", 1, "x").unwrap();
    assert_eq!((path.as_str(), world.read(&path).as_str()), ("notes/G[linux,2]-1.md", "x"));
}

#[test]
fn a_long_text_is_truncated() {
    let world = World::new();
    let long = "長".repeat(200_000);
    let written = write(&world, 200, &long);
    let text = world.read(&written);
    assert!(text.len() <= 256 * 1_024 && text.ends_with("[truncated]\n"));
    assert_eq!(write(&world, 200, &long), written, "cut off it is still the same");
}

#[test]
fn no_path_leads_out_of_the_repository() {
    let world = World::new();
    let outside = world.outside();
    fs::write(outside.join("secret.md"), "secret").unwrap();
    fs::create_dir_all(world.root().join(".git/hooks")).unwrap();
    symlink(&outside, world.root().join("out")).unwrap();
    symlink(".git", world.root().join("meta")).unwrap();
    symlink(world.root().join("nowhere"), world.root().join("dangling")).unwrap();
    let absolute = outside.join("x.md").to_str().unwrap().to_owned();
    for path in [
        "../x.md",
        "a/../../x.md",
        "out/x.md",
        "out/deep/x.md",
        ".git/hooks/x",
        "meta/x",
        &absolute,
    ] {
        let refused = world.mailbox.write_feedback(path, 1, "x");
        assert!(matches!(refused, Err(MailboxError::Path { .. })), "{path}: {refused:?}");
    }
    assert!(world.mailbox.write_feedback("dangling/x.md", 1, "x").is_err());
    assert!(!world.is_there("nowhere"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was written there");

    world.write("notes/a.md", "a");
    symlink(outside.join("secret.md"), world.root().join("notes/b.md")).unwrap();
    let beside = world.mailbox.write_feedback("notes/b.md", 1, "x").unwrap();
    assert_eq!(beside, "notes/b-2.md", "a link is something that is there");
    assert_eq!(fs::read_to_string(outside.join("secret.md")).unwrap(), "secret");
    // A link that stays inside is a person's own arrangement.
    symlink("notes", world.root().join("inside")).unwrap();
    assert_eq!(world.mailbox.write_feedback("inside/c.md", 1, "c").unwrap(), "inside/c.md");
    assert_eq!(world.read("notes/c.md"), "c");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn hostile_paths_stay_inside(path in "([a.{n}/\\\\*~ ]|\\.\\./|/|\\.git|out/|\\PC){0,12}", text in any::<String>()) {
        let world = World::new();
        let outside = world.outside();
        symlink(&outside, world.root().join("out")).unwrap();
        if let Ok(written) = world.mailbox.write_feedback(&path, 1, &text) {
            prop_assert_eq!(world.read(&written), text.clone());
            prop_assert_eq!(world.mailbox.write_feedback(&path, 1, &text).unwrap(), written.clone());
        }
        prop_assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        prop_assert_eq!(fs::read_dir(outside.parent().unwrap()).unwrap().count(), 2);
    }
}
