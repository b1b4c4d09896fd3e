//! Things that are allowed in named files only: threads, time, chance, the environment, other
//! programs; and the whole outside world for the pure core.
//!
//! The lists are data. A new entry is a decision about the architecture and belongs in the same
//! commit as its reason.

use super::source::{SourceFile, Violation, found};

struct Place {
    rule: &'static str,
    needles: &'static [&'static str],
    /// Files and folders of the program's source.
    only_in: &'static [&'static str],
    /// Whether tests and benches may do it as well.
    tests_may: bool,
    instead: &'static str,
}

const PLACES: &[Place] = &[
    Place {
        rule: "spawn",
        needles: &[
            "thread::spawn",
            "thread::Builder",
            "thread::scope",
            "tokio::spawn",
            "task::spawn",
            "task::spawn_blocking",
            "task::spawn_local",
            "task::JoinSet",
        ],
        only_in: &["store/conn/", "engine/", "exec/process.rs", "cli/up.rs"],
        tests_may: true,
        instead: "work that nobody joins is forgotten by a restart; make it an effect",
    },
    Place {
        rule: "wall clock",
        needles: &["SystemTime::now", "Timestamp::now", "Zoned::now"],
        only_in: &["clock.rs"],
        tests_may: false,
        instead: "take the time as an argument, from `clock`",
    },
    Place {
        rule: "monotonic clock",
        needles: &["Instant::now"],
        only_in: &["clock.rs", "store/conn/", "exec/process.rs"],
        tests_may: true,
        instead: "take the time as an argument, from `clock`",
    },
    Place {
        rule: "randomness",
        needles: &[
            "rand",
            "getrandom",
            "fastrand",
            "Uuid::new_v4",
            "Uuid::now_v7",
            "RandomState::new",
        ],
        only_in: &["clock.rs"],
        tests_may: false,
        instead: "take the id or the seed as an argument, from `clock`",
    },
    Place {
        rule: "environment",
        needles: &[
            "env::var",
            "env::var_os",
            "env::vars",
            "env::vars_os",
            "env::set_var",
            "env::remove_var",
            "env::home_dir",
        ],
        only_in: &["config.rs", "config/"],
        tests_may: true,
        instead: "add a setting to `Config`",
    },
    Place {
        rule: "other programs",
        needles: &["process::Command"],
        // The client of the Agent Client Protocol is a program of its own: it lives as long as its
        // agent, and the keeper of the run bounds both.
        only_in: &[
            "exec/process.rs",
            // A keeper's children, and the keepers themselves.
            "exec/process/child.rs",
            "exec/site/local.rs",
            "exec/agent/acp_client/link.rs",
        ],
        tests_may: true,
        instead: "go through `exec::process`, which bounds time and output",
    },
];

pub(super) fn violations(file: &SourceFile) -> Vec<Violation> {
    let inside = file.path.strip_prefix("crates/banksman/src/").unwrap_or_default();
    let broken = |place: &'static Place| {
        let is_named = place.only_in.iter().any(|named| is_in(inside, named));
        file.mentions
            .iter()
            .filter(move |_| !is_named)
            .filter(|mention| place.needles.iter().any(|needle| mention.has(needle)))
            .filter(|mention| !(place.tests_may && file.is_test_at(mention.offset)))
            .map(|mention| file.violation(mention.offset, place.rule, allowed_in(place)))
    };
    PLACES.iter().flat_map(broken).collect()
}

/// The only caller of the git program.
const GIT: &str = "exec/git.rs";

pub(super) fn other_git(file: &SourceFile) -> Vec<Violation> {
    if !file.path.starts_with("crates/banksman/src/") || file.path.ends_with(GIT) {
        return Vec::new();
    }
    let starts = file.literals.iter().filter(|literal| {
        let before = &file.code[..literal.offset];
        let before = before.trim_end_matches('"').trim_end();
        literal.text == "git" && before.ends_with("Program::new(")
    });
    let starts = starts.filter(|literal| !file.is_test_at(literal.offset));
    let says = format!("only {GIT} calls it, without hooks, signatures and prompts; use `Git`");
    starts.map(|literal| file.violation(literal.offset, "git", says.clone())).collect()
}

fn is_in(inside: &str, named: &str) -> bool {
    if named.ends_with('/') { inside.starts_with(named) } else { inside == named }
}

fn allowed_in(place: &Place) -> String {
    format!("only in {}; {}", place.only_in.join(", "), place.instead)
}

/// What would let the core touch the world, or answer differently the second time.
const NOT_IN_CORE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::thread",
    "std::process",
    "std::io",
    "std::time::SystemTime",
    "std::time::Instant",
    "SystemTime::now",
    "Instant::now",
    "tokio",
    "rand",
    "tracing",
    "log",
];
const NO_PRINTING_IN_CORE: &[&str] = &["println!", "print!", "eprintln!", "eprint!"];

pub(super) fn impure_core(file: &SourceFile) -> Vec<Violation> {
    const RULE: &str = "pure core";
    if !file.path.starts_with("crates/core/src/") || !file.is_rust() {
        return Vec::new();
    }
    let paths = file.mentions.iter().filter(|mention| !file.is_test_at(mention.offset)).filter_map(
        |mention| {
            let path = mention.segments.join("::");
            let is_outside =
                |banned: &&&str| path == **banned || path.starts_with(&format!("{banned}::"));
            let banned = NOT_IN_CORE.iter().find(is_outside)?;
            Some(file.violation(
                mention.offset,
                RULE,
                format!("no `{banned}` in the core; take the value as an argument"),
            ))
        },
    );
    let prints = NO_PRINTING_IN_CORE
        .iter()
        .flat_map(|print| file.code.match_indices(print))
        .filter(|(offset, _)| !file.is_test_at(*offset) && !follows_a_name(&file.code, *offset))
        .map(|(offset, print)| {
            file.violation(offset, RULE, format!("no `{print}` in the core; return the text"))
        });
    paths.chain(prints).collect()
}

fn follows_a_name(code: &str, offset: usize) -> bool {
    code[..offset].ends_with(|before: char| before == '_' || before.is_alphanumeric())
}

#[test]
fn each_kind_is_found_outside_its_place() {
    let text = "use std::thread;\nuse std::process::{Command, Stdio};\nfn a() {\n    thread::spawn(b);\n    \
                jiff::Timestamp::now();\n    std::time::Instant::now();\n    rand::random();\n    std::env::var(NAME);\n}\n";
    let mut lines = found(violations, "crates/banksman/src/ops/tasks.rs", text);
    lines.sort();
    assert_eq!(
        lines,
        [
            "crates/banksman/src/ops/tasks.rs:2: other programs",
            "crates/banksman/src/ops/tasks.rs:4: spawn",
            "crates/banksman/src/ops/tasks.rs:5: wall clock",
            "crates/banksman/src/ops/tasks.rs:6: monotonic clock",
            "crates/banksman/src/ops/tasks.rs:7: randomness",
            "crates/banksman/src/ops/tasks.rs:8: environment",
        ]
    );
}

#[test]
fn a_second_caller_of_git_is_found() {
    let text =
        "fn a() {\n    Program::new(\n        \"git\", b);\n    Program::new(\"tmux\", b);\n}\n";
    let of = |inside: &str| found(other_git, &format!("crates/banksman/src/{inside}"), text);
    assert_eq!(of("exec/site.rs"), ["crates/banksman/src/exec/site.rs:3: git"]);
    assert_eq!(of(GIT), [""; 0]);
}

#[test]
fn each_kind_is_free_in_its_place() {
    let check = |path: &str, text: &str| {
        assert_eq!(found(violations, path, text), [""; 0], "{path}: {text}");
    };
    check(
        "crates/banksman/src/clock.rs",
        "fn a() { std::time::SystemTime::now(); Instant::now(); rand::random(); }",
    );
    check(
        "crates/banksman/src/store/conn/sqlite.rs",
        "fn a() { Instant::now(); thread::spawn(b); }",
    );
    check("crates/banksman/src/exec/process.rs", "use std::process::Command;");
    check("crates/banksman/src/config.rs", "fn a() { env::var(NAME); }");
    check(
        "crates/banksman/tests/it/cli.rs",
        "fn a() { Instant::now(); env::var(NAME); process::Command::new(b); }",
    );
}

#[test]
fn tests_may_not_read_the_wall_clock_either() {
    assert_eq!(
        found(violations, "crates/banksman/tests/it/cli.rs", "fn a() { Timestamp::now(); }").len(),
        1
    );
}

#[test]
fn words_in_comments_and_strings_do_not_count() {
    let text = "// thread::spawn\nconst A: &str = \"env::var\";\n";
    assert_eq!(found(violations, "crates/banksman/src/ops/tasks.rs", text), [""; 0]);
}

#[test]
fn a_core_that_touches_the_world_is_found() {
    let text = "use std::{fmt, fs};\nfn a() {\n    println!();\n    tokio::spawn(b);\n    my_println!();\n}\n";
    let path = "crates/core/src/machine/step.rs";
    let expected = [1, 4, 3].map(|line| format!("{path}:{line}: pure core"));
    assert_eq!(found(impure_core, path, text), expected);
    assert_eq!(found(impure_core, "crates/banksman/src/cli/add.rs", text), [""; 0]);
    assert_eq!(
        found(impure_core, path, "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"),
        [""; 0]
    );
}
