//! No test passes because something is missing: what it needs is in its name, so that the runner
//! skips it and counts it as skipped.

use std::collections::BTreeSet;

use super::source::{SourceFile, Violation, found};

/// Where the names are detected.
const SCRIPT: &str = "scripts/test";

/// A test that ends early, or that says itself that it is skipped.
pub(super) fn early_ends(file: &SourceFile) -> Vec<Violation> {
    let says = "put the test into a module `needs_…` that scripts/test knows; then fail without it";
    // This file has the word for its own tests, and benchmarks are not tests.
    let is_free = file.path.ends_with("tidy/skips.rs") || file.path.contains("/benches/");
    let spoken = file.literals.iter().filter(|literal| {
        !is_free && file.is_test_at(literal.offset) && literal.text.contains("SKIPPED")
    });
    let ends = test_bodies(&file.code).flat_map(|(from, body)| {
        let blocks = body.match_indices('{').filter(|(at, _)| {
            let before = body[..*at].trim_end();
            let condition = before.rsplit(['{', ';', '}']).next().unwrap_or_default();
            before.ends_with("else") || condition.trim_start().starts_with("if !")
        });
        let blocks = blocks.map(move |(at, _)| (from + at, &body[at + 1..]));
        blocks.filter(|(_, rest)| {
            let rest = rest.trim_start().strip_prefix("return");
            let rest = rest.map(|rest| rest.strip_prefix(';').unwrap_or(rest).trim_start());
            rest.is_some_and(|rest| rest.starts_with('}'))
        })
    });
    let offsets = spoken.map(|literal| literal.offset).chain(ends.map(|(offset, _)| offset));
    offsets.map(|offset| file.violation(offset, "skip that passes", says)).collect()
}

/// The bodies of test functions: a line with the attribute begins one, and the next brace in the
/// same column ends it.
fn test_bodies(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("#[test]\n").map(|(at, _)| {
        let column = at - code[..at].rfind('\n').map_or(0, |line| line + 1);
        let end = format!("\n{}}}", " ".repeat(column));
        let length = code[at..].find(&end).unwrap_or(code.len() - at);
        (at, &code[at..at + length])
    })
}

/// Modules called for a need that the script does not detect.
pub(super) fn unknown_needs(files: &[SourceFile]) -> Vec<Violation> {
    let script = files.iter().find(|file| file.path == SCRIPT).map_or("", |file| &file.text);
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    let is_word = |one: char| one == '_' || one.is_alphanumeric();
    let words: BTreeSet<&str> = lines.flat_map(|line| line.split(|one| !is_word(one))).collect();
    let unknown = |file: &SourceFile| {
        let modules = file.code.match_indices("mod needs_").filter_map(|(at, _)| {
            let need = file.code[at + "mod needs_".len()..].split(|one| !is_word(one)).next()?;
            let says = format!("{SCRIPT} does not look for `{need}`");
            (!words.contains(need)).then(|| file.violation(at, "unknown need", says))
        });
        modules.collect::<Vec<_>>()
    };
    files.iter().filter(|file| file.is_rust()).flat_map(unknown).collect()
}

#[test]
fn a_test_that_ends_early_is_found() {
    let text = "#[test]\nfn a() {\n    let Some(b) = c() else { return };\n    b();\n}\n\nfn d() {\n    \
                let Some(b) = c() else { return };\n}\n\nmod e {\n    #[test]\n    fn f() {\n        let Ok(b) = \
                c() else {\n            return;\n        };\n        eprintln!(\"SKIPPED: none\");\n    }\n}\n";
    assert_eq!(
        found(early_ends, "crates/core/tests/a.rs", text),
        [17, 3, 14].map(|line| format!("crates/core/tests/a.rs:{line}: skip that passes"))
    );
    let text =
        "#[test]\nfn a() {\n    if !has_tmux() {\n        return;\n    }\n    b(|| return);\n}\n";
    assert_eq!(found(early_ends, "crates/core/tests/a.rs", text).len(), 1);
}

#[test]
fn a_need_that_nobody_looks_for_is_found() {
    let rust = "mod needs_a;\nmod needs_b {}\nmod needs_c;\n";
    let rust = SourceFile::new("crates/core/tests/a.rs", rust);
    let files = [SourceFile::new(SCRIPT, "# needs_c: b\nhas a 'there is none' a -V\n"), rust];
    let lines: Vec<usize> = unknown_needs(&files).iter().map(|one| one.line).collect();
    assert_eq!(lines, [2, 3], "a comment is not enough");
}
