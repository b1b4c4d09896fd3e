//! The log of a workflow, the texts of workflows, and how the folder is made.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::Barrier;
use std::thread;

use banksman::exec::mailbox::{Mailbox, MailboxError, SpecCopy, file_name};
use banksman_core::time::Instant;
use proptest::prelude::*;

use super::world::World;

const AT: Instant = Instant(1_700_000_000_000);
const LOG: &str = ".workflow/audit/w.log";

fn record(world: &World, text: &str, mark: &str) -> bool {
    world.mailbox.record("w", AT, text, mark).unwrap()
}

#[test]
fn a_line_is_written_once() {
    let world = World::new();
    assert!(record(&world, "XG-1-2 passed", "t12#7"));
    assert!(!record(&world, "XG-1-2 passed", "t12#7"));
    assert!(record(&world, "XG-1-2 failed\nbadly", "t12#71"), "a longer mark is another one");
    assert!(record(&world, "see [t12#8]", "t12#9"));
    assert!(record(&world, "a mark in a text is no mark", "t12#8"));
    assert_eq!(
        world.read(LOG),
        "2023-11-14T22:13:20Z XG-1-2 passed [t12#7]\n\
         2023-11-14T22:13:20Z XG-1-2 failed badly [t12#71]\n\
         2023-11-14T22:13:20Z see (t12#8) [t12#9]\n\
         2023-11-14T22:13:20Z a mark in a text is no mark [t12#8]\n"
    );
}

#[test]
fn marks_that_could_not_be_found_again_are_refused() {
    let world = World::new();
    for mark in ["", "a b", "a\n", "[a]", "ä", &"x".repeat(101)] {
        let refused = world.mailbox.record("w", AT, "text", mark);
        assert!(matches!(refused, Err(MailboxError::Mark(_))), "{mark:?}: {refused:?}");
    }
    assert_eq!(world.files(), [""; 0]);
}

#[test]
fn wherever_a_crash_cuts_the_last_line_every_line_is_there_once() {
    let line = "2023-11-14T22:13:20Z said (t1#1) and [t1#22]\n";
    for length in 0..=line.len() {
        let world = World::new();
        let first = "2023-11-14T22:13:20Z first [t1#0]\n";
        world.write(LOG, format!("{first}{}", &line[..length]));
        assert!(!record(&world, "first", "t1#0"));
        record(&world, "said [t1#1] and", "t1#22");
        assert!(record(&world, "the last", "t1#2"), "{length}");
        let log = world.read(LOG);
        assert!(log.starts_with(first) && log.ends_with("the last [t1#2]\n"), "{log}");
        let count = |line: &str| log.lines().filter(|found| *found == line).count();
        assert_eq!(count(line.trim_end()), 1, "{length}: {log}");
        assert!(log.lines().count() <= 4 && !log.contains("\n\n"), "{length}: {log}");
        // Nothing of what was there is gone.
        assert!(log.starts_with(&format!("{first}{}", &line[..length])), "{length}: {log}");
    }
}

#[test]
fn many_writers_at_once_write_every_line_once() {
    let world = World::new();
    // All of them write the same line at the same time, line by line.
    let together = Barrier::new(4);
    let new: usize = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let mailbox = Mailbox::new(world.root());
                let together = &together;
                scope.spawn(move || {
                    let marks = (0..50).map(|number| format!("t1#{number}"));
                    let is_new = |mark: &String| {
                        together.wait();
                        mailbox.record("w", AT, "same", mark).unwrap()
                    };
                    marks.filter(is_new).count()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(new, 50);
    let log = world.read(LOG);
    assert_eq!(log.lines().count(), 50, "{log}");
    for number in 0..50 {
        assert_eq!(log.matches(&format!(" same [t1#{number}]\n")).count(), 1);
    }
    let git_ignores = world.read(".workflow/.gitignore");
    assert_eq!(git_ignores, "/signals/\n/retry-context/\n/steps/\n/audit/\n/past/\n");
    let files = [".workflow/.gitignore", ".workflow/audit/.lock", LOG];
    assert_eq!(world.files(), files, "no drafts are left");
}

#[test]
fn among_ten_thousand_lines_a_late_one_is_found() {
    let world = World::new();
    let line = |number: u32| format!("{AT} XG-1-2 passed: all tests are green [t1#{number}]\n");
    let log: String = (0..10_000).map(line).collect();
    world.write(LOG, &log);
    // Everything that may be repeated after a crash, and then what is new.
    for number in (7_000..10_000).step_by(300).chain([9_999]) {
        assert!(!record(&world, "XG-1-2 passed", &format!("t1#{number}")), "{number}");
    }
    assert_eq!(world.read(LOG), log);
    for number in 10_000..10_020 {
        assert!(record(&world, "XG-1-2 passed: all tests are green", &format!("t1#{number}")));
    }
    let all: String = (0..10_020).map(line).collect();
    assert_eq!(world.read(LOG), all);
}

#[test]
fn a_huge_log_is_searched_at_its_end_only() {
    let world = World::new();
    world.write(LOG, "");
    let log = OpenOptions::new().append(true).open(world.root().join(LOG)).unwrap();
    // Full of holes: reading all of it would take memory that nobody has.
    log.set_len(1 << 40).unwrap();
    (&log).write_all(b"\n2023-11-14T22:13:20Z done [t1#1]\n").unwrap();
    assert!(!record(&world, "done", "t1#1"));
    assert!(record(&world, "done", "t1#2"));
    assert_eq!(log.metadata().unwrap().len(), (1 << 40) + 34 + 33);
}

#[test]
fn what_is_no_plain_file_is_not_written_to() {
    let world = World::new();
    let victim = world.outside().join("victim");
    fs::write(&victim, "").unwrap();
    fs::create_dir_all(world.root().join(".workflow/audit")).unwrap();
    symlink(&victim, world.root().join(LOG)).unwrap();
    assert!(matches!(world.mailbox.record("w", AT, "x", "t1#1"), Err(MailboxError::File(_))));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "");

    let elsewhere = World::new();
    symlink(world.outside(), elsewhere.root().join(".workflow")).unwrap();
    let refused = elsewhere.mailbox.record("w", AT, "x", "t1#1");
    assert!(matches!(refused, Err(MailboxError::Path { .. })), "{refused:?}");
    assert_eq!(fs::read_dir(world.outside()).unwrap().count(), 1);
}

#[test]
fn a_lock_that_somebody_keeps_is_not_waited_for_for_ever() {
    let world = World::new();
    record(&world, "x", "t1#1");
    let lock = fs::File::open(world.root().join(".workflow/audit/.lock")).unwrap();
    lock.lock().unwrap();
    let busy = world.mailbox.record("w", AT, "x", "t1#2");
    assert!(matches!(busy, Err(MailboxError::Busy(_))), "{busy:?}");
    drop(lock);
    assert!(record(&world, "x", "t1#2"));
}

#[test]
fn git_is_told_only_by_who_makes_the_folder() {
    let ignore = ".workflow/.gitignore";
    let theirs = World::new();
    theirs.write(".workflow/specs/w.yaml", "theirs");
    record(&theirs, "x", "t1#1");
    assert!(!theirs.is_there(ignore));

    let own = World::new();
    own.write(ignore, "*\n");
    record(&own, "x", "t1#1");
    assert_eq!(own.read(ignore), "*\n");

    // A crash right after the folder was made, or while the file was being written.
    let torn = World::new();
    torn.write(".workflow/.0123.banksman-draft", "/sig");
    record(&torn, "x", "t1#1");
    assert!(torn.read(ignore).contains("/signals/"));
    assert!(!torn.read(ignore).contains("specs"));
}

#[test]
fn a_spec_is_kept_and_never_replaced() {
    let world = World::new();
    let keep = |text: &str| world.mailbox.keep_spec("team/w", text).unwrap();
    let path = ".workflow/specs/team+w.yaml".to_owned();
    assert_eq!(keep("a: 1\n"), SpecCopy::Written(path.clone()));
    assert_eq!(keep("a: 1\n"), SpecCopy::AlreadyThere(path.clone()));
    assert_eq!(keep("a: 2\n"), SpecCopy::Differs(path.clone()));
    assert_eq!(keep("a: 1"), SpecCopy::Differs(path.clone()), "also where one begins the other");
    assert_eq!(world.read(&path), "a: 1\n");
    world.write(".workflow/specs/.banksman-draft", "half of som");
    assert!(matches!(world.mailbox.keep_spec("other", "b: 1"), Ok(SpecCopy::Written(_))));
    assert_eq!(world.read(".workflow/specs/other.yaml"), "b: 1");
    assert!(!world.is_there(".workflow/specs/.banksman-draft"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_one_line_with_its_mark(texts in prop::collection::vec(any::<String>(), 1..6), id in any::<String>()) {
        let world = World::new();
        for _ in 0..2 {
            for (number, text) in texts.iter().enumerate() {
                world.mailbox.record(&id, AT, text, &format!("t1#{number}")).unwrap();
            }
        }
        let log = world.read(&format!(".workflow/audit/{}.log", file_name(&id)));
        let lines: Vec<&str> = log.lines().collect();
        prop_assert_eq!(lines.len(), texts.len());
        for (number, line) in lines.iter().enumerate() {
            let mark = format!(" [t1#{number}]");
            prop_assert!(line.len() < 1_000 && line.ends_with(&mark) && !line.contains(char::is_control));
        }
    }

    #[test]
    fn ids_have_names_of_their_own(one in any::<String>(), two in any::<String>()) {
        let (first, second) = (file_name(&one), file_name(&two));
        prop_assert_eq!(one == two, first == second);
        prop_assert!(!first.is_empty() && first.len() <= 160);
        prop_assert!(!first.starts_with(['.', '-']) && !first.contains(['/', '\0', '\\', ' ', '*', '[']));
    }
}
