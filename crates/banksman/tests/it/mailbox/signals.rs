//! Signals: read when they are whole, taken once, and left when they are not what was read.

use std::fs;
use std::os::unix::fs::symlink;

use banksman::exec::mailbox::{Content, ExpectedSignal, MailboxError, SignalFile, SignalResult};
use banksman_core::time::Instant;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::world::{WRITTEN, World, gate, set_modified, step};

const MINUTE: i64 = 60_000;

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn done(failed: bool, note: Option<&str>) -> Content {
    Content::Done { failed, note: note.map(str::to_owned) }
}

fn fail(note: &str, reason: Option<&str>) -> Content {
    Content::Fail { note: note.to_owned(), reason: reason.map(str::to_owned) }
}

/// What a file of this name and text says.
fn content(what: &ExpectedSignal, name: &str, text: &str) -> Content {
    let world = World::new();
    let path = format!(".workflow/signals/{name}");
    world.write(&path, text);
    let seen = world.only(what.clone());
    assert_eq!((&seen.what, &seen.path, seen.modified), (what, &path, WRITTEN));
    seen.content
}

#[test]
fn steps_say_that_they_are_done() {
    let check = |text: &str, expected: Content| {
        assert_eq!(content(&step("X-1"), "X-1-done.json", text), expected, "{text}");
    };
    check("{}", done(false, None));
    check("true", done(false, Some("true")));
    check(r#"{"status":"done","note":" all of it "}"#, done(false, Some("all of it")));
    check("\u{feff}{\"summary\":\"x\"}\n", done(false, Some("x")));
    check(r#"{"status":"FAILED","message":"no disk"}"#, done(true, Some("no disk")));
    check(r#"{"failed":true}"#, done(true, None));
    check(r#"{"success":false,"note":7}"#, done(true, None));
    check(r#"{"failed":"no","status":"successful"}"#, done(false, None));
}

#[test]
fn gates_say_that_they_have_passed_or_failed() {
    let check = |name: &str, text: &str, expected: Content| {
        assert_eq!(content(&gate("G"), name, text), expected, "{name}: {text}");
    };
    check("G-pass", "", Content::Pass { note: None });
    check("G-pass.md", "fine by me\n", Content::Pass { note: some("fine by me") });
    check("G-pass.json", r#"{"note":"ok"}"#, Content::Pass { note: some("ok") });
    check("G-fail", "no tests\n\nat all", fail("no tests\n\nat all", None));
    check(
        "G-fail.txt",
        r#"{"feedback":"no tests","reason":"tests"}"#,
        fail("no tests", Some("tests")),
    );
    check("G-fail.json", r#"{"message":"m","note":"n"}"#, fail("n", None));
    check("G-fail.json", r#"{"verdict":"bad"}"#, fail(r#"{"verdict":"bad"}"#, None));
    check("G-fail.json", r#""just words""#, fail("just words", None));
    check("G-fail.md", "{not json", fail("{not json", None));
}

#[test]
fn half_a_file_is_waited_for_and_then_told_of() {
    for (name, text, reason) in [
        ("G-fail", "", "empty"),
        ("G-fail.md", " \n", "empty"),
        ("G-pass.json", "", "empty"),
        ("G-pass.json", r#"{"note":"o"#, "not JSON"),
        ("G-pass.json", &"[".repeat(100_000), "not JSON"),
        ("G-fail.md", &"x".repeat(300_000), "larger than 256 KiB"),
    ] {
        let world = World::new();
        let path = format!(".workflow/signals/{name}");
        world.write(&path, text);
        let look = |at: i64| world.mailbox.look(&[gate("G")], Instant(at)).unwrap().remove(0);
        for now in [WRITTEN.0 - MINUTE, WRITTEN.0, WRITTEN.0 + 10 * MINUTE] {
            let early = look(now);
            assert!(
                matches!(&early.content, Content::NotYet { why } if why.contains(reason)),
                "{early:?}"
            );
            assert!(matches!(
                world.mailbox.take_from(&world.mailbox, &early),
                Err(MailboxError::NotYet(_))
            ));
        }
        for now in [WRITTEN.0 + 10 * MINUTE + 1, WRITTEN.0 - 11 * MINUTE] {
            let late = look(now);
            assert!(
                matches!(&late.content, Content::Unreadable { why } if why.contains(reason)),
                "{late:?}"
            );
        }
        let put_aside =
            world.mailbox.take_from(&world.mailbox, &look(WRITTEN.0 + 11 * MINUTE)).unwrap();
        assert!(matches!(put_aside, SignalResult::Moved(_)), "a person may want it out of the way");
        assert!(world.look(&[gate("G")]).is_empty());
    }
}

#[test]
fn what_is_no_plain_file_is_not_read() {
    let world = World::new();
    let secret = world.outside().join("secret");
    fs::write(&secret, "secret").unwrap();
    let signals = world.mailbox.signals_folder();
    fs::create_dir_all(signals.join("F-fail")).unwrap();
    symlink(&secret, signals.join("L-fail")).unwrap();
    mknodat(CWD, signals.join("P-fail"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for id in ["F", "L", "P"] {
        set_modified(&signals.join(format!("{id}-fail")), WRITTEN);
        let late = world.mailbox.look(&[gate(id)], Instant(WRITTEN.0 + 11 * MINUTE)).unwrap();
        assert!(matches!(late[0].content, Content::Unreadable { .. }), "{late:?}");
    }
    world.write(".workflow/signals/U-fail", b"\xff\xfe");
    assert!(matches!(world.only(gate("U")).content, Content::NotYet { .. }));
}

/// A branch that was merged may have brought a link, and what it leads to.
#[test]
fn no_answer_is_read_through_a_link() {
    let world = World::new();
    world.write("wf/signals/G-pass", "");
    symlink("wf", world.root().join(".workflow")).unwrap();
    let looked = world.mailbox.look(&[gate("G")], Instant(WRITTEN.0 + 11 * MINUTE));
    assert!(matches!(looked, Err(MailboxError::Path { .. })), "{looked:?}");
}

#[test]
fn of_two_verdicts_the_one_against_it_comes_first() {
    let world = World::new();
    assert!(world.look(&[gate("G"), step("X")]).is_empty(), "nothing is made by looking");
    assert_eq!(world.files(), [""; 0]);
    world.write(".workflow/signals/G-pass", "");
    world.write(".workflow/signals/G-fail.md", "no");
    world.write(".workflow/signals/X-done.json", "{}");
    world.write(".workflow/signals/taken/G-fail.1", "old");
    world.write(".workflow/signals/GG-fail", "of another gate");
    let paths: Vec<String> =
        world.look(&[step("X"), gate("G")]).into_iter().map(|seen| seen.path).collect();
    let names =
        ["X-done.json", "G-fail.md", "G-pass"].map(|name| format!(".workflow/signals/{name}"));
    assert_eq!(paths, names);
}

#[test]
fn a_signal_is_taken_once_and_stays_readable() {
    let world = World::new();
    let path = ".workflow/signals/release+X-1-done.json";
    let mut keys = Vec::new();
    for number in 1..=3 {
        world.write(path, "{}");
        let seen = world.only(step("release/X-1"));
        assert_eq!(world.only(step("release/X-1")).key(), seen.key(), "a look changes nothing");
        keys.push(seen.key());
        let taken = format!(".workflow/signals/taken/release+X-1-done.{number}.json");
        assert_eq!(
            world.mailbox.take_from(&world.mailbox, &seen).unwrap(),
            SignalResult::Moved(taken.clone())
        );
        assert_eq!(
            world.mailbox.take_from(&world.mailbox, &seen).unwrap(),
            SignalResult::Gone,
            "done again after a crash"
        );
        assert_eq!(world.read(&taken), "{}");
        assert!(world.look(&[step("release/X-1")]).is_empty());
    }
    keys.dedup();
    assert_eq!(keys.len(), 3, "the same words again are a new signal: {keys:?}");
}

#[test]
fn what_changed_since_it_was_read_is_left() {
    let world = World::new();
    let path = ".workflow/signals/G-pass";
    world.write(path, "");
    let seen = world.only(gate("G"));
    world.write(path, "no, wait");
    assert_eq!(world.mailbox.take_from(&world.mailbox, &seen).unwrap(), SignalResult::Changed);
    assert_eq!(world.read(path), "no, wait");

    let seen = world.only(gate("G"));
    set_modified(&world.root().join(path), Instant(WRITTEN.0 + 5));
    assert_eq!(
        world.mailbox.take_from(&world.mailbox, &seen).unwrap(),
        SignalResult::Changed,
        "the same words at another time"
    );

    let seen = world.only(gate("G"));
    fs::remove_file(world.root().join(path)).unwrap();
    symlink("/dev/null", world.root().join(path)).unwrap();
    assert_eq!(world.mailbox.take_from(&world.mailbox, &seen).unwrap(), SignalResult::Changed);
    assert!(!world.is_there(".workflow/signals/taken/G-pass.1"));
}

fn at(id: &str, path: &str) -> ExpectedSignal {
    ExpectedSignal::Step { id: id.to_owned(), path: Some(path.to_owned()) }
}

#[test]
fn a_step_may_have_a_path_of_its_own() {
    let world = World::new();
    world.write("out/finished.txt", "");
    let seen = world.only(at("X", "out/finished.txt"));
    assert_eq!(seen.content, done(false, None));
    let taken = world.mailbox.take_from(&world.mailbox, &seen).unwrap();
    assert_eq!(taken, SignalResult::Moved(".workflow/signals/taken/finished.1.txt".to_owned()));
}

#[test]
fn a_path_that_leads_out_does_not_hide_the_others() {
    let world = World::new();
    fs::write(world.outside().join("x.json"), "{}").unwrap();
    symlink(world.outside(), world.root().join("out")).unwrap();
    world.write(".workflow/signals/G-pass", "");
    let expected = [at("A", "out/x.json"), at("B", "../outside/x.json"), gate("G")];
    let seen = world.look(&expected);
    let is_refused = |seen: &SignalFile| matches!(seen.content, Content::Unreadable { .. });
    assert!(is_refused(&seen[0]) && is_refused(&seen[1]), "{seen:?}");
    assert_eq!(seen[2].content, Content::Pass { note: None });
    assert!(matches!(
        world.mailbox.take_from(&world.mailbox, &seen[0]),
        Err(MailboxError::Path { .. })
    ));

    let elsewhere = World::new();
    symlink(world.outside(), elsewhere.root().join(".workflow")).unwrap();
    fs::create_dir(world.outside().join("signals")).unwrap();
    let refused = elsewhere.mailbox.look(&[gate("G")], WRITTEN);
    assert!(matches!(refused, Err(MailboxError::Path { .. })), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_id_and_any_words_are_read_and_taken(id in any::<String>(), words in any::<Vec<u8>>()) {
        let world = World::new();
        let name = banksman::exec::mailbox::file_name(&id);
        for ending in ["-fail", "-pass.md", "-fail.json"] {
            world.write(&format!(".workflow/signals/{name}{ending}"), &words);
        }
        world.write(&format!(".workflow/signals/{name}-done.json"), &words);
        let late = Instant(WRITTEN.0 + 11 * MINUTE);
        let seen = world.mailbox.look(&[gate(&id), step(&id)], late).unwrap();
        prop_assert_eq!(seen.len(), 4);
        for seen in &seen {
            prop_assert!(matches!(world.mailbox.take_from(&world.mailbox, seen).unwrap(), SignalResult::Moved(_)));
        }
        prop_assert!(world.mailbox.look(&[gate(&id), step(&id)], late).unwrap().is_empty());
    }
}
