//! What may be linked into the program: licences, banned crates, sources, second versions, and the
//! short list of the pure core.
//!
//! It works without a network. `deny.toml` says the same to cargo-deny, which also knows the
//! advisories.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::source::{Violation, root};

const LOCK: &str = "Cargo.lock";
const CORE_MANIFEST: &str = "crates/core/Cargo.toml";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences that allow a program under MIT or Apache-2.0 to be given on without further duties than
/// a notice.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "needs a system library; TLS is rustls with aws-lc-rs"),
    ("native-tls", "behaves differently on each system; TLS is rustls with aws-lc-rs"),
    ("ring", "one TLS provider is enough, and it is aws-lc-rs"),
    ("serde_yaml", "archived; YAML is serde-saphyr"),
    ("chrono", "one time library is enough, and it is jiff"),
];

/// Crates that may be there twice, because two of our dependencies disagree and both copies are
/// small.
const MAY_BE_TWICE: &[&str] = &["bitflags", "fallible-iterator", "syn", "wasi"];

/// All of them pure: they compute, and read or write nothing by themselves.
const CORE_MAY_DEPEND_ON: &[&str] =
    &["annotate-snippets", "jiff", "serde", "serde-saphyr", "serde_json", "sha2", "thiserror"];

fn violation(path: &str, line: usize, rule: &'static str, detail: String) -> Violation {
    Violation { path: path.to_owned(), line, rule, detail }
}

/// Banned crates, foreign sources and second versions, from the lock file's text.
fn lock_violations(lock: &str) -> Vec<Violation> {
    let mut broken = Vec::new();
    let mut versions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, text) in lock.lines().enumerate() {
        let line = index + 1;
        if let Some(name) = quoted(text, "name = ") {
            versions.entry(name).or_default().push(line);
            if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| *banned == name) {
                broken.push(violation(LOCK, line, "banned crate", format!("`{name}`: {reason}")));
            }
        }
        if let Some(source) = quoted(text, "source = ").filter(|source| *source != CRATES_IO) {
            broken.push(violation(LOCK, line, "source", format!("`{source}` is not crates.io")));
        }
    }
    let twice =
        versions.iter().filter(|(name, lines)| lines.len() > 1 && !MAY_BE_TWICE.contains(name));
    broken.extend(twice.map(|(name, lines)| {
        violation(
            LOCK,
            lines[1],
            "second version",
            format!("`{name}` is there {} times; unify it or list it", lines.len()),
        )
    }));
    broken
}

fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix('"')?.strip_suffix('"')
}

/// Licences, and packages from outside the workspace that come from a folder, from `cargo
/// metadata`'s answer.
fn package_violations(metadata: &Value) -> Vec<Violation> {
    let members: Vec<&Value> = array(metadata, "workspace_members").iter().collect();
    let mut broken = Vec::new();
    for package in array(metadata, "packages") {
        let name = package["name"].as_str().expect("cargo gives each package a name");
        if package["source"].is_null() && !members.contains(&&package["id"]) {
            broken.push(violation(
                LOCK,
                1,
                "source",
                format!("`{name}` comes from a folder outside the workspace"),
            ));
        }
        match package["license"].as_str() {
            Some(licence) if is_allowed_licence(licence) => {}
            Some(licence) => {
                broken.push(violation(
                    LOCK,
                    1,
                    "licence",
                    format!("`{name}` is under `{licence}`"),
                ));
            }
            None => {
                broken.push(violation(LOCK, 1, "licence", format!("`{name}` names no licence")));
            }
        }
    }
    broken
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("cargo metadata has no list `{key}`"))
}

/// An SPDX expression: some alternative of every part must be allowed. The old `/` means OR.
fn is_allowed_licence(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (allowed, rest) = any_of(&tokens, 0);
    allowed && rest.is_empty()
}

fn any_of<'t, 'a>(tokens: &'t [&'a str], depth: usize) -> (bool, &'t [&'a str]) {
    let (mut allowed, mut rest) = all_of(tokens, depth);
    while let ["OR", after @ ..] = rest {
        let (next, after) = all_of(after, depth);
        allowed |= next;
        rest = after;
    }
    (allowed, rest)
}

fn all_of<'t, 'a>(tokens: &'t [&'a str], depth: usize) -> (bool, &'t [&'a str]) {
    let (mut allowed, mut rest) = one_licence(tokens, depth);
    while let ["AND", after @ ..] = rest {
        let (next, after) = one_licence(after, depth);
        allowed &= next;
        rest = after;
    }
    (allowed, rest)
}

fn one_licence<'t, 'a>(tokens: &'t [&'a str], depth: usize) -> (bool, &'t [&'a str]) {
    /// Deeper than any licence is nested; beyond it the expression is not allowed.
    const DEEPEST: usize = 8;
    match tokens {
        ["(", inner @ ..] if depth < DEEPEST => match any_of(inner, depth + 1) {
            (allowed, [")", rest @ ..]) => (allowed, rest),
            (_, rest) => (false, rest),
        },
        [licence, "WITH", exception, rest @ ..] => {
            (LICENCES.contains(&format!("{licence} WITH {exception}").as_str()), rest)
        }
        [licence, rest @ ..] => (LICENCES.contains(licence), rest),
        [] => (false, tokens),
    }
}

/// The core's manifest: every dependency is one of the few.
fn core_violations(manifest: &str) -> Vec<Violation> {
    let document: toml_edit::DocumentMut = manifest.parse().expect("the core's manifest is TOML");
    let unlisted = ["dependencies", "build-dependencies", "target"].into_iter().flat_map(|table| {
        let names = document.get(table).and_then(toml_edit::Item::as_table_like).into_iter();
        names.flat_map(|table| table.iter().map(|(name, _)| name.to_owned()))
    });
    let line_of = |name: &str| {
        manifest.lines().position(|line| line.starts_with(name)).map_or(1, |index| index + 1)
    };
    unlisted
        .filter(|name| !CORE_MAY_DEPEND_ON.contains(&name.as_str()))
        .map(|name| {
            violation(
                CORE_MANIFEST,
                line_of(&name),
                "pure core",
                format!("may not depend on `{name}`"),
            )
        })
        .collect()
}

/// From the file in `BANKSMAN_TEST_METADATA`, for a user who may not run the cargo that built this
/// test.
fn metadata() -> Value {
    if let Some(path) = env::var_os("BANKSMAN_TEST_METADATA") {
        let text = fs::read(path).expect("BANKSMAN_TEST_METADATA names a readable file");
        return serde_json::from_slice(&text).expect("it holds what cargo metadata printed");
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo starts, since it built this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo metadata failed; run `cargo fetch --locked` first\n{errors}"
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata answers in JSON")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("failed to read {path}: {error}"))
}

/// All rules of this file on the repository as it is.
pub(super) fn violations() -> Vec<Violation> {
    let mut broken = lock_violations(&read(LOCK));
    broken.extend(package_violations(&metadata()));
    broken.extend(core_violations(&read(CORE_MANIFEST)));
    broken
}

fn lines(broken: &[Violation]) -> Vec<String> {
    broken.iter().map(|found| format!("{}:{}: {}", found.path, found.line, found.rule)).collect()
}

#[test]
fn a_bad_lock_file_is_found() {
    let lock = "[[package]]\nname = \"chrono\"\n[[package]]\nname = \"axum\"\n[[package]]\nname = \"axum\"\n\
                source = \"git+https://example.org/axum#1\"\n[[package]]\nname = \"syn\"\n[[package]]\nname = \"syn\"\n";
    assert_eq!(
        lines(&lock_violations(lock)),
        ["Cargo.lock:2: banned crate", "Cargo.lock:7: source", "Cargo.lock:6: second version"]
    );
}

#[test]
fn bad_packages_are_found() {
    let metadata = serde_json::json!({
        "workspace_members": ["ours"],
        "packages": [
            { "id": "ours", "name": "ours", "source": null, "license": "MIT OR Apache-2.0" },
            { "id": "beside", "name": "beside", "source": null, "license": "MIT" },
            { "id": "a", "name": "a", "source": CRATES_IO, "license": "AGPL-3.0-only" },
            { "id": "b", "name": "b", "source": CRATES_IO, "license": null },
        ],
    });
    let details: Vec<String> =
        package_violations(&metadata).into_iter().map(|found| found.detail).collect();
    assert_eq!(
        details,
        [
            "`beside` comes from a folder outside the workspace",
            "`a` is under `AGPL-3.0-only`",
            "`b` names no licence"
        ]
    );
}

#[test]
fn licence_expressions_are_read() {
    let check = |expression: &str, expected: bool| {
        assert_eq!(is_allowed_licence(expression), expected, "{expression}");
    };
    check("MIT", true);
    check("MIT/GPL-3.0", true);
    check("GPL-3.0 OR (MIT AND ISC)", true);
    check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
    check("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true);
    check("MIT AND GPL-3.0", false);
    check("(MIT OR Apache-2.0) AND GPL-3.0", false);
    check("MIT OR Apache-2.0 )", false);
    check("", false);
    check(&format!("{}MIT{}", "(".repeat(100), ")".repeat(100)), false);
}

#[test]
fn a_core_that_gains_a_dependency_is_found() {
    let manifest = "[dependencies]\nserde.workspace = true\ntokio = \"1\"\n\n[dev-dependencies]\ninsta = \"1\"\n";
    assert_eq!(lines(&core_violations(manifest)), ["crates/core/Cargo.toml:3: pure core"]);
}
