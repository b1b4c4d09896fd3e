//! Input that is too large, not text, or meant to confuse a terminal. Each is refused or shown
//! harmlessly, and nothing is lost.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use insta::assert_snapshot;

use super::sandbox::Sandbox;

#[test]
fn a_title_without_end_is_refused() {
    let sandbox = Sandbox::new();
    let title = "x".repeat(100_000);
    assert_snapshot!(sandbox.run(&["add", &title]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      title: is longer than 500 bytes; put the rest into the body
    ");
    assert_snapshot!(sandbox.run(&["add", "two\nlines"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      title: has control characters (a line break, perhaps); keep it to one line
    ");
}

#[test]
fn a_body_without_end_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("body.txt", vec![b'x'; 10 * 1024 * 1024]);
    assert_snapshot!(sandbox.run(&["add", "A", "--body", &file]), @"
    exit 1
    -- stderr
    error: failed to read `[SANDBOX]/repo/body.txt` (BM-E040)
      because: larger than 256 KiB
    hint: put the long part into another file
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "");
}

#[test]
fn what_is_not_utf8_is_refused() {
    let sandbox = Sandbox::new();
    let args: Vec<OsString> = vec!["add".into(), OsStr::from_bytes(b"a\xffb").to_owned()];
    assert_snapshot!(sandbox.run(&args), @"
    exit 2
    -- stderr
    error: invalid UTF-8 was detected in one or more arguments

    Usage: banksman add [OPTIONS] <TITLE>

    For more information, try '--help'.
    ");
    let file = sandbox.file("body.txt", b"ab\xff");
    assert_snapshot!(sandbox.run(&["add", "A", "--body", &file]), @"
    exit 1
    -- stderr
    error: failed to read `[SANDBOX]/repo/body.txt` (BM-E040)
      because: not UTF-8 after byte 2
    hint: save it as text in UTF-8
    ");
    let output = sandbox
        .command(&["add", "A"])
        .env("BANKSMAN_ACTOR", OsStr::from_bytes(b"\xff"))
        .output()
        .unwrap();
    assert_snapshot!(sandbox.finish(output), @"
    exit 2
    -- stderr
    error: the environment variable BANKSMAN_ACTOR is not UTF-8 (BM-E002)
    hint: set it to UTF-8 text, or unset it
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "");
}

#[test]
fn a_body_with_control_characters_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("body.txt", b"red: \x1b[31m\n");
    assert_snapshot!(sandbox.run(&["add", "A", "--body", &file]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      body: has control characters other than line breaks and tabs; remove them
    ");
    assert_snapshot!(sandbox.run(&["add", "A", "--body", "nowhere.txt"]), @"
    exit 1
    -- stderr
    error: failed to open `nowhere.txt` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
}

#[test]
fn nothing_reaches_the_terminal_raw() {
    let sandbox = Sandbox::new();
    let evil = "note=\u{1b}[2J\u{9b}31m\u{202e}evil";
    sandbox.ok(&["add", "A \u{202e}title", "--set", evil]);
    sandbox.ok(&["move", "t1", "active", "--as", "worker:\u{2066}ada"]);
    for args in [
        &["show", "t1"][..],
        &["history", "t1"],
        &["list"],
        &["show", "t1", "--json"],
        &["audit", "export"],
        &["why", "t1"],
    ] {
        let ran = sandbox.run(args);
        let raw = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!ran.stdout.contains(raw), "{args:?}: {:?}", ran.stdout);
    }
    for args in [&["move", "t1", "\u{1b}[2Jx"][..], &["\u{1b}[2Jx"], &["show", "\u{1b}[2Jx"]] {
        let ran = sandbox.run(&[args, &["--color", "always"]].concat());
        assert!(!ran.stderr.contains("\u{1b}[2J"), "{:?}", ran.stderr);
    }
}

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let sandbox = Sandbox::new();
    for args in [
        &["frob"][..],
        &["list", "--limit", "0"],
        &["list", "--limit", "5000"],
        &["add"],
        &["add", "A", "--priority", "high"],
        &["add", "A", "--not-before", "tomorrow"],
        &["add", "A", "--as", ":"],
        &["show", "t0"],
        &["show", "99999999999999999999"],
        &["completion", "tcsh"],
        &["--color", "sometimes", "list"],
    ] {
        let ran = sandbox.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran}");
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {ran}");
        let ran = sandbox.run(&[args, &["--json"]].concat());
        let is_id = args[0] == "show";
        assert_eq!(ran.error()["code"], if is_id { "BM-E034" } else { "BM-E001" }, "{args:?}");
    }
}
