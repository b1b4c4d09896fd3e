//! What a reader sees first: how files open, how long they are, how modules are called, and the
//! short cuts that are not taken.
//!
//! The length of functions and the number of parameters are clippy's to count.

use super::source::{SourceFile, Violation, found};

const LINES_LISTED: usize = 500;
const LINES_AT_MOST: usize = 800;

/// Names that say nothing about a duty. A module that ends in one of the last three is the same
/// drawer.
const DRAWERS: &[&str] =
    &["util", "helper", "common", "types", "misc", "utils", "helpers", "manager"];
const DRAWER_ENDINGS: &[&str] = &["_utils", "_helpers", "_manager"];

pub(super) fn opening(file: &SourceFile) -> Vec<Violation> {
    if !file.is_rust() || file.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![file.violation(0, "opening", "the first line is `//! ` and says what the file is for")]
}

pub(super) fn drawers(file: &SourceFile) -> Vec<Violation> {
    const RULE: &str = "module name";
    if !file.is_rust() {
        return Vec::new();
    }
    let parts = file.path.trim_end_matches(".rs").split('/').filter(|part| is_drawer(part));
    let named = parts.map(|part| file.violation(0, RULE, format!("`{part}` names no duty")));
    let declared = file.code.match_indices("mod ").filter_map(|(offset, keyword)| {
        let rest = &file.code[offset + keyword.len()..];
        let name = &rest[..rest.find([';', ' ', '{'])?];
        is_drawer(name).then(|| file.violation(offset, RULE, format!("`{name}` names no duty")))
    });
    named.chain(declared).collect()
}

fn is_drawer(name: &str) -> bool {
    DRAWERS.contains(&name) || DRAWER_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

pub(super) fn too_long(file: &SourceFile) -> Vec<Violation> {
    let lines = production_lines(file);
    if lines <= LINES_AT_MOST {
        return Vec::new();
    }
    vec![file.violation(
        0,
        "file length",
        format!("{lines} lines before its tests, at most {LINES_AT_MOST}; split by duty"),
    )]
}

/// Files that are longer than they should be and not yet too long.
pub(super) fn long(files: &[SourceFile]) -> Vec<String> {
    let long = files
        .iter()
        .map(|file| (production_lines(file), file))
        .filter(|(lines, _)| *lines > LINES_LISTED);
    long.map(|(lines, file)| {
        format!("{}: {lines} lines before its tests, better at most {LINES_LISTED}", file.path)
    })
    .collect()
}

fn production_lines(file: &SourceFile) -> usize {
    if !file.is_rust() || file.tests_from == 0 {
        return 0;
    }
    file.text[..file.tests_from].lines().count()
}

struct ShortCut {
    rule: &'static str,
    needles: &'static [&'static str],
    instead: &'static str,
}

/// Not taken anywhere.
const NOWHERE: &[ShortCut] = &[
    ShortCut {
        rule: "allow",
        needles: &["#[allow(", "#![allow("],
        instead: "use `#[expect(…, reason = \"…\")]`, which tells when it is no longer needed",
    },
    ShortCut { rule: "ignored test", needles: &["#[ignore"], instead: "a test runs or is deleted" },
    ShortCut {
        rule: "should_panic",
        needles: &["should_panic"],
        instead: "it cannot tell which panic; match the typed error",
    },
];

/// Not taken outside tests.
const NOT_IN_PRODUCTION: &[ShortCut] = &[ShortCut {
    rule: "lost result",
    needles: &["let _ =", ".ok();"],
    instead: "return the error or handle it; `drop(…)` with the reason if it truly does not matter",
}];

pub(super) fn short_cuts(file: &SourceFile) -> Vec<Violation> {
    if !file.is_rust() {
        return Vec::new();
    }
    let taken = |short_cut: &'static ShortCut| {
        let needles = short_cut.needles.iter().flat_map(|needle| file.code.match_indices(needle));
        needles.map(move |(offset, _)| (offset, short_cut))
    };
    let nowhere = NOWHERE.iter().flat_map(taken);
    let production =
        NOT_IN_PRODUCTION.iter().flat_map(taken).filter(|(offset, _)| !file.is_test_at(*offset));
    // A benchmark measures what happens while nothing does, and a scripted agent is told to dawdle.
    let may_sleep =
        file.path.starts_with("crates/scripted-agent/") || file.path.contains("/benches/");
    let sleeps = file
        .mentions
        .iter()
        .filter(|mention| mention.has("thread::sleep") || mention.has("time::sleep"))
        .filter(|mention| file.is_test_at(mention.offset) && !may_sleep)
        .map(|mention| {
            file.violation(
                mention.offset,
                "sleep in a test",
                "wait for the event, or move a manual clock",
            )
        });
    let short_cuts = nowhere
        .chain(production)
        .map(|(offset, found)| file.violation(offset, found.rule, found.instead));
    short_cuts.chain(sleeps).collect()
}

#[test]
fn a_file_without_its_duty_is_found() {
    let path = "crates/core/src/ids.rs";
    assert_eq!(found(opening, path, "use std::fmt;\n"), ["crates/core/src/ids.rs:1: opening"]);
    assert_eq!(found(opening, path, "//! Names of things.\n"), [""; 0]);
    assert_eq!(found(opening, "README.md", "# Banksman\n"), [""; 0]);
}

#[test]
fn drawers_are_found_by_file_folder_and_declaration() {
    let path = "crates/core/src/utils/text.rs";
    assert_eq!(found(drawers, path, "//! A.\n"), ["crates/core/src/utils/text.rs:1: module name"]);
    assert_eq!(found(drawers, "crates/core/src/run_manager.rs", "").len(), 1);
    assert_eq!(
        found(drawers, "crates/core/src/lib.rs", "//! A.\nmod common;\nmod machine;\n"),
        ["crates/core/src/lib.rs:2: module name"]
    );
    assert_eq!(found(drawers, "crates/core/src/common_ancestor.rs", "mod model;"), [""; 0]);
}

#[test]
fn only_lines_before_the_tests_count() {
    let path = "crates/core/src/a.rs";
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(LINES_AT_MOST));
    let of = |lines: usize| format!("{}{tests}", "\n".repeat(lines));
    assert_eq!(found(too_long, path, &of(LINES_AT_MOST)), [""; 0]);
    assert_eq!(
        found(too_long, path, &of(LINES_AT_MOST + 1)),
        ["crates/core/src/a.rs:1: file length"]
    );
    assert_eq!(long(&[SourceFile::new(path, &of(LINES_LISTED))]), [""; 0]);
    assert_eq!(long(&[SourceFile::new(path, &of(LINES_LISTED + 1))]).len(), 1);
}

#[test]
fn short_cuts_are_found() {
    let text = "#[allow(dead_code)]\nfn a() {\n    let _ = b();\n    c().ok();\n}\n#[cfg(test)]\nmod tests {\n    \
                #[test]\n    #[ignore = \"slow\"]\n    #[should_panic]\n    fn d() {\n        let _ = b();\n        \
                std::thread::sleep(e);\n    }\n}\n";
    assert_eq!(
        found(short_cuts, "crates/core/src/a.rs", text),
        [
            "crates/core/src/a.rs:1: allow",
            "crates/core/src/a.rs:9: ignored test",
            "crates/core/src/a.rs:10: should_panic",
            "crates/core/src/a.rs:3: lost result",
            "crates/core/src/a.rs:4: lost result",
            "crates/core/src/a.rs:13: sleep in a test",
        ]
    );
    assert_eq!(
        found(
            short_cuts,
            "crates/core/src/a.rs",
            "#[expect(dead_code, reason = \"…\")]\nfn a() {}\n"
        ),
        [""; 0]
    );
}
