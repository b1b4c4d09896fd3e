//! Colours, signs, pipes: how answers are shown.

use std::process::Stdio;

use insta::assert_snapshot;

use super::sandbox::Sandbox;

#[test]
fn colours_are_for_terminals_and_those_who_ask() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    let coloured = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = sandbox.command(&[&["list"], args].concat());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        sandbox.finish(output).stdout.contains('\u{1b}')
    };
    assert!(!coloured(&[], &[]), "a pipe has no colours");
    assert!(coloured(&["--color", "always"], &[]));
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(coloured(&[], &[("BANKSMAN_COLOR", "always")]));
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!coloured(&["--json"], &[("CLICOLOR_FORCE", "1")]), "documents have none");
}

#[test]
fn signs_are_ascii_where_nothing_else_can_be_shown() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada"]);
    let shown = |name: &str, value: &str| {
        let mut command = sandbox.command(&["history", "t1", "-q"]);
        sandbox.finish(command.env(name, value).output().unwrap()).stdout
    };
    assert!(shown("LANG", "C.UTF-8").contains("pending → active"));
    assert!(shown("LC_ALL", "C").contains("pending -> active"));
    assert!(shown("TERM", "dumb").contains("pending -> active"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    for args in [
        &["list"][..],
        &["show", "t1", "--json"],
        &["export"],
        &["help"],
        &["completion", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(&[args, &["-q"]].concat());
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let ran = sandbox.finish(output);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}: {ran}");
    }
}

#[test]
fn talk_goes_to_stderr_and_can_be_switched_off() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    assert!(sandbox.run(&["list"]).stderr.starts_with("next: banksman"));
    for args in [["list", "-q"], ["list", "--json"], ["status", "-q"], ["status", "--json"]] {
        assert_eq!(sandbox.run(&args).stderr, "", "{args:?}");
    }
}

#[test]
fn causes_are_told_and_end_with_a_hint() {
    let sandbox = Sandbox::empty();
    assert_snapshot!(sandbox.run(&["list", "--store", "nowhere/at/all.db"]), @"
    exit 4
    -- stderr
    error: there is no store at `[SANDBOX]/repo/nowhere/at/all.db` (BM-E020)
    hint: `banksman init` creates it; `banksman config get store` prints its location
    ");
    assert_snapshot!(sandbox.run(&["lifecycle", "lint", "./nowhere.yaml"]), @"
    exit 1
    -- stderr
    error: failed to read the lifecycle `./nowhere.yaml` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
}
