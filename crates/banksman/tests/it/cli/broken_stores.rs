//! Stores that are damaged, foreign, newer, out of reach, full, or being made by several processes
//! at once.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use super::sandbox::{PROGRAM, Ran, Sandbox};

#[test]
fn a_file_that_is_not_a_store_is_left_alone() {
    let sandbox = Sandbox::empty();
    let file = sandbox.file(
        "notes.txt",
        "These are my notes, and they are longer than a header of a database would be.\n".repeat(3),
    );
    let before = fs::read(&file).unwrap();
    assert_snapshot!(sandbox.run(&["add", "A", "--store", &file]), @"
    exit 4
    -- stderr
    error: `[SANDBOX]/repo/notes.txt` is not a database (BM-E023)
    hint: choose another path; this file was left as it is
    ");
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_snapshot!(sandbox.run(&["list", "--store", "."]), @"
    exit 4
    -- stderr
    error: `[SANDBOX]/repo` is not a database (BM-E023)
    hint: choose another path; this file was left as it is
    ");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let sandbox = Sandbox::empty();
    let path = sandbox.repo().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.pragma_update(None, "application_id", 77).unwrap();
    other.close().unwrap();
    assert_snapshot!(sandbox.run(&["add", "A", "--store", "other.db"]), @"
    exit 4
    -- stderr
    error: `[SANDBOX]/repo/other.db` is a database of another program (application id 77) (BM-E023)
    hint: choose another path; this file was left as it is
    ");
}

#[test]
fn a_truncated_store_is_noticed() {
    let sandbox = Sandbox::new();
    sandbox.add("Precious");
    let file = File::options().write(true).open(sandbox.store()).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    assert_snapshot!(sandbox.run(&["list"]), @"
    exit 4
    -- stderr
    error: the database `[SANDBOX]/kim/data/banksman/banksman.db` is damaged (BM-E025)
    hint: restore the store from a backup; keep the damaged file, parts of it may be readable
    ");
    file.set_len(50).unwrap();
    assert_snapshot!(sandbox.run(&["list"]), @"
    exit 4
    -- stderr
    error: the database `[SANDBOX]/kim/data/banksman/banksman.db` is damaged (BM-E025)
    hint: restore the store from a backup; keep the damaged file, parts of it may be readable
    ");
}

#[test]
fn a_newer_store_is_not_touched() {
    let sandbox = Sandbox::new();
    sandbox.add("Precious");
    let store = rusqlite::Connection::open(sandbox.store()).unwrap();
    let version: i64 = store.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    assert_snapshot!(sandbox.run(&["add", "A"]), @"
    exit 4
    -- stderr
    error: the store has schema version 99, and this program knows versions up to 10 (BM-E024)
    hint: the store was used by a newer banksman; upgrade this one
    ");
    store.pragma_update(None, "user_version", version).unwrap();
    assert_eq!(sandbox.ok(&["list", "-q"]), "t1\n");
}

/// Runs the program as the ordinary user who owns the sandbox. The superuser may write everywhere,
/// so it gives the sandbox to another user first.
fn run_unprivileged(sandbox: &Sandbox, args: &[&str]) -> Ran {
    const NOBODY: u32 = 65_534;
    let mut command = sandbox.command(args);
    if fs::metadata(sandbox.path()).unwrap().uid() == 0 {
        let program = sandbox.path().join("banksman");
        fs::copy(PROGRAM, &program).unwrap();
        let mut chown = Command::new("chown");
        chown.args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(sandbox.path());
        assert!(chown.status().unwrap().success());
        command = Command::new(program);
        sandbox.prepare(&mut command);
        command.args(args).uid(NOBODY).gid(NOBODY);
    }
    sandbox.finish(command.output().unwrap())
}

#[test]
fn a_folder_that_may_not_be_written_is_said_to_be_so() {
    let sandbox = Sandbox::empty();
    let folder = sandbox.repo().join("locked");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    assert_snapshot!(run_unprivileged(&sandbox, &["add", "A", "--store", "locked/tasks.db"]), @"
    exit 4
    -- stderr
    error: cannot write to `[SANDBOX]/repo/locked/tasks.db` (BM-E021)
    hint: check the owner and the permissions of the file and of its folder
    ");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    assert_snapshot!(sandbox.run(&["add", "A", "--store", "/dev/null/tasks.db"]), @"
    exit 4
    -- stderr
    error: failed to open the database `/dev/null/tasks.db` (BM-E022)
      because: Not a directory (os error 20)
    hint: check the path or the address of the store
    ");
}

#[test]
fn a_file_that_may_not_be_written_is_said_to_be_so() {
    let sandbox = Sandbox::empty();
    sandbox.ok(&["add", "A", "--store", "tasks.db"]);
    fs::set_permissions(sandbox.repo().join("tasks.db"), fs::Permissions::from_mode(0o444))
        .unwrap();
    assert_snapshot!(run_unprivileged(&sandbox, &["add", "B", "--store", "tasks.db"]), @"
    exit 4
    -- stderr
    error: cannot write to `[SANDBOX]/repo/tasks.db` (BM-E021)
    hint: check the owner and the permissions of the file and of its folder
    ");
}

/// A file system of 800 KiB in a mount namespace of its own, filled until a task no longer fits.
const FILL_A_DISK: &str = r#"
mount -t tmpfs -o size=800k full "$DISK" || exit 99
store="$DISK/tasks.db"
"$PROGRAM" --store "$store" add -q Precious || exit 98
number=0
while "$PROGRAM" --store "$store" add -q Large --body "$BODY" >/dev/null 2>"$ERROR"; do
    number=$((number + 1))
    [ "$number" -lt 100 ] || exit 97
done
"$PROGRAM" --store "$store" add -q Large --body "$BODY" 2>"$ERROR"
code=$?
cp "$store"* "$RESCUE"
exit "$code"
"#;

/// `namespaces` are those that `unshare` makes; without one for users, only root may mount.
fn fill_a_disk(namespaces: &str) {
    let sandbox = Sandbox::empty();
    let folder = |name: &str| {
        let path = sandbox.repo().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let (disk, rescue, error) = (folder("disk"), folder("rescue"), sandbox.repo().join("error"));
    let mut shell = Command::new("unshare");
    sandbox.prepare(&mut shell);
    shell.env("PROGRAM", PROGRAM).env("DISK", &disk).env("RESCUE", &rescue).env("ERROR", &error);
    shell.env("BODY", sandbox.file("body.txt", vec![b'x'; 60_000]));
    let ran = shell.args([namespaces, "sh", "-c", FILL_A_DISK]).output();
    assert!(error.exists(), "no small file system can be mounted here: {ran:?}");
    let code = ran.unwrap().status.code();
    let said = fs::read_to_string(&error).unwrap();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("no space left") && said.contains("BM-E026"), "{said}");
    // What was acknowledged before is there when the files are where there is room.
    let store = rescue.join("tasks.db");
    let store = store.to_str().unwrap();
    assert!(sandbox.ok(&["--store", store, "list", "-q"]).ends_with("t1\n"));
    sandbox.ok(&["--store", store, "check"]);
    sandbox.ok(&["--store", store, "audit", "verify"]);
    sandbox.ok(&["--store", store, "add", "Goes on"]);
}

mod needs_namespaces {
    #[test]
    fn a_really_full_disk_says_so_and_loses_nothing() {
        super::fill_a_disk("-rm");
    }
}

/// Where ordinary users may make no namespaces, this is what fills a disk.
mod needs_root {
    mod needs_mounts {
        #[test]
        fn a_really_full_disk_says_so_and_loses_nothing() {
            super::super::fill_a_disk("-m");
        }
    }
}

#[test]
fn a_file_that_may_not_grow_loses_nothing() {
    let sandbox = Sandbox::new();
    sandbox.add("Precious");
    let body = sandbox.file("body.txt", vec![b'x'; 200_000]);
    // A file may have no more than this many blocks of 512 bytes: what goes beyond fails.
    let script = format!("trap '' XFSZ; ulimit -f 400; exec {PROGRAM} add Large --body {body}");
    let mut shell = Command::new("sh");
    sandbox.prepare(&mut shell);
    let ran = sandbox.finish(shell.args(["-c", &script]).output().unwrap());
    assert_ne!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.starts_with("error: "), "{ran}");
    assert_eq!(sandbox.ok(&["list", "-q"]), "t1\n");
    sandbox.ok(&["check"]);
    sandbox.ok(&["audit", "verify"]);
}

#[test]
fn many_processes_may_make_the_same_store() {
    let sandbox = Sandbox::empty();
    let start = |number: usize| {
        let mut command = sandbox.command(&["add", "-q", &format!("Task {number}")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..8).map(start).collect();
    for child in children {
        let ran = sandbox.finish(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    assert_eq!(sandbox.ok(&["list", "-q"]).lines().count(), 8);
    sandbox.ok(&["check"]);
    sandbox.ok(&["audit", "verify"]);
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so() {
    let sandbox = Sandbox::empty();
    let ran = sandbox.run(&["list", "--store", "postgres://kim@127.0.0.1:1/tasks", "--json"]);
    assert_eq!(ran.code, Some(4), "{ran}");
    assert_eq!(ran.error()["code"], "BM-E022");
}

#[test]
fn a_store_that_is_held_is_given_up_on_in_time() {
    let sandbox = Sandbox::new();
    let mut store = rusqlite::Connection::open(sandbox.store()).unwrap();
    let held = store.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let output = sandbox
        .command(&["add", "A"])
        .env("BANKSMAN_SQLITE_BUSY_TIMEOUT", "50ms")
        .output()
        .unwrap();
    assert_snapshot!(sandbox.finish(output), @"
    exit 3
    -- stderr
    error: timed out waiting for another writer of the store (BM-E027)
    hint: another process is using the store; wait for it to finish, or end it
    ");
    drop(held);
    sandbox.add("Now it works");
}
