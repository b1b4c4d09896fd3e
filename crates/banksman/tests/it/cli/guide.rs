//! Help, completions, manuals and the version.

use std::fs;

use insta::assert_snapshot;

use super::sandbox::Sandbox;

#[test]
fn every_command_has_examples_before_its_options() {
    let sandbox = Sandbox::empty();
    for path in super::reference::commands(&sandbox) {
        let help =
            sandbox
                .ok(&[&path.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--help"]]
                    .concat());
        let (examples, usage) = (help.find("Examples:"), help.find("Usage:"));
        assert!(examples.is_some() && examples < usage, "{path:?}\n{help}");
    }
}

#[test]
fn help_explains_commands_and_topics() {
    let sandbox = Sandbox::empty();
    assert_eq!(
        sandbox.ok(&["help", "lifecycle", "graph"]),
        sandbox.ok(&["lifecycle", "graph", "--help"])
    );
    assert_eq!(sandbox.ok(&["help"]), sandbox.ok(&["--help"]));
    for topic in ["exit-codes", "environment", "states", "formatting"] {
        assert!(sandbox.ok(&["help", topic]).lines().count() > 5, "{topic}");
    }
    assert_snapshot!(sandbox.run(&["help", "exit-cods"]), @"
    exit 2
    -- stderr
    error: unknown command or topic `exit-cods` (BM-E001)
    hint: did you mean `exit-codes`?
    ");
    assert_snapshot!(sandbox.run(&["help", "states"]), @"
    exit 0
    -- stdout
    States

    Each lifecycle names its own states (`banksman lifecycle show NAME`). Every state has one kind:

      ◌ o  queued     in the queue for a worker
      ● *  working    an agent is running, or about to start
      ◎ @  reviewing  the work is under review
      ! !  waiting    needs you: a person must answer
      ⚠ #  blocked    waits for something outside
      ‖ =  parked     put aside by a person
      ✓ +  done       completed
      ✗ x  failed     ended without success
      – -  cancelled  abandoned by a person
      ↻ ~  a task of any kind that goes on by itself, such as a retry; `why` says when

    A state such as `blocked(quota_wait)` belongs to the group `blocked`. `list --state` takes a
    state, a group or a kind. The second symbol is used on terminals without UTF-8.
    ");
}

#[test]
fn every_shell_gets_its_completions() {
    let sandbox = Sandbox::empty();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.ok(&["completion", shell]);
        assert!(script.contains("lifecycle") && script.contains("not-before"), "{shell}");
    }
}

#[test]
fn every_command_gets_its_manual() {
    let sandbox = Sandbox::empty();
    sandbox.ok(&["man", "-o", "man"]);
    let mut pages: Vec<String> = fs::read_dir(sandbox.repo().join("man"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut wanted: Vec<String> = super::reference::commands(&sandbox)
        .iter()
        .map(|path| format!("{}.1", [&["banksman".to_owned()], &path[..]].concat().join("-")))
        .collect();
    wanted.sort();
    assert_eq!(pages, wanted);
    let page = fs::read_to_string(sandbox.repo().join("man/banksman-audit-export.1")).unwrap();
    assert_eq!(page.matches("banksman audit export t12").count(), 1, "{page}");
    assert_eq!(
        sandbox.ok(&["man"]),
        fs::read_to_string(sandbox.repo().join("man/banksman.1")).unwrap()
    );
}

#[test]
fn the_version_is_the_same_everywhere() {
    let sandbox = Sandbox::empty();
    let version = format!("banksman {}", env!("CARGO_PKG_VERSION"));
    assert!(sandbox.ok(&["version"]).starts_with(&version));
    assert_eq!(sandbox.ok(&["--version"]).trim_end(), version);
}
