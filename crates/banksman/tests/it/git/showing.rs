//! What whoever judges a change is shown of it, whatever its author does to the repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use banksman::exec::git::Git;

use super::{World, write};

type Trick = fn(&World, &Path);

/// A driver for differences that runs a program, which leaves a trace and prints the same of each
/// version.
fn add_driver(world: &World, option: &str) {
    let program = world.root().join("driver");
    write(&program, &format!("#!/bin/sh\ntouch '{}'\necho nothing\n", trace(world).display()));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    world.git(&world.repo(), &["config", option, &format!("'{}'", program.display())]);
    write(&world.repo().join(".git/info/attributes"), "* diff=m\n");
}

fn trace(world: &World) -> PathBuf {
    world.root().join("it ran")
}

/// Has git show another object in place of the one that a name stands for.
fn replace(world: &World, at: &Path, name: &str, by: &str) {
    let ids = [name, by].map(|name| world.git(at, &["rev-parse", name]));
    world.git(at, &["replace", "--force", &ids[0], &ids[1]]);
}

#[test]
fn no_line_is_hidden_and_no_program_runs() {
    let tricks: [Trick; 10] = [
        |world, at| drop(world.work(at, ".gitattributes", "* -diff\n")),
        |world, at| drop(world.work(at, ".gitattributes", "* binary\n")),
        |world, _| write(&world.repo().join(".git/info/attributes"), "* -diff\n"),
        |world, _| add_driver(world, "diff.m.textconv"),
        |world, _| add_driver(world, "diff.m.command"),
        |world, _| add_driver(world, "diff.external"),
        |world, at| {
            drop(world.git(at, &["config", "diff.context", "0"]));
            drop(world.git(at, &["config", "diff.orderFile", "gone"]));
        },
        |world, at| replace(world, at, "HEAD:src/a.txt", "main:src/a.txt"),
        |world, at| replace(world, at, "HEAD", "main"),
        |world, at| {
            let head = world.git(at, &["rev-parse", "HEAD"]);
            write(&world.repo().join(".git/info/grafts"), &format!("{head}\n"));
        },
    ];
    for (number, trick) in tricks.into_iter().enumerate() {
        let world = World::new();
        let workspace = world.workspace("t1");
        let prepared = world.prepare(&workspace);
        let at = &workspace.worktree;
        // A shell runs a script with such a byte, which git takes for no text.
        world.work(at, "src/a.txt", "one\ntwo\nevil\nthree\n\0\n");
        trick(&world, at);
        let shown = Git::at(&mut world.runner(), at).diff(&prepared.base, "HEAD").unwrap();
        assert!(shown.contains(" two\n+evil\n three\n"), "trick {number}: {shown}");
        assert!(!trace(&world).exists(), "trick {number} ran a program");
    }
}
