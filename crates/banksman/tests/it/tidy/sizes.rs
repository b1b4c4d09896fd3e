//! Files that are written to be read whole keep their size.

use super::source::{SourceFile, Violation};

/// The most lines of a file.
const LINES: &[(&str, usize)] = &[
    ("crates/core/src/lifecycle/builtin/autonomous.yaml", 449),
    ("crates/core/src/lifecycle/builtin/leaf.yaml", 99),
];
/// Texts that people read as files.
const READ: [(&str, &str); 2] =
    [("crates/core/src/lifecycle/builtin/", ".yaml"), ("crates/banksman/prompts/", "")];
const COLUMNS: usize = 100;
const GLOSSARY: &str = "docs/glossary.md";
const TERMS: usize = 40;

pub(super) fn too_large(file: &SourceFile) -> Vec<Violation> {
    let violation = |line, detail| file.violation(line, "size", detail);
    let limit = LINES.iter().find(|(path, _)| *path == file.path).map(|(_, limit)| *limit);
    let lines = file.text.lines().count();
    let long = limit.filter(|limit| lines > *limit);
    let long = long.map(|limit| violation(0, format!("{lines} lines, at most {limit}")));
    let is_read =
        READ.iter().any(|(folder, end)| file.path.starts_with(folder) && file.path.ends_with(end));
    let mut wide = file.text.lines().filter(|line| is_read && line.chars().count() > COLUMNS);
    let wide = wide.next().map(|line| violation(0, format!("over {COLUMNS} columns: {line}")));
    let terms = if file.path == GLOSSARY { terms(&file.text) } else { 0 };
    let many = (terms > TERMS).then(|| violation(0, format!("{terms} terms, at most {TERMS}")));
    long.into_iter().chain(wide).chain(many).collect()
}

/// The rows of its tables, without their heads.
fn terms(text: &str) -> usize {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.filter(|row| !row.starts_with("| term ") && !row.starts_with("| ---")).count()
}

#[test]
fn a_large_file_is_found() {
    let found = |path: &str, text: &str| too_large(&SourceFile::new(path, text)).len();
    assert_eq!(found(LINES[1].0, &"a\n".repeat(99)), 0);
    assert_eq!(found(LINES[1].0, &"a\n".repeat(100)), 1);
    assert_eq!(found(LINES[1].0, &"a".repeat(101)), 1);
    assert_eq!(found("crates/banksman/prompts/gate.md", &"a".repeat(101)), 1);
    let glossary =
        |rows| "| term | meaning |\n| --- | --- |\n".to_owned() + &"| a | b |\n".repeat(rows);
    assert_eq!((found(GLOSSARY, &glossary(40)), found(GLOSSARY, &glossary(41))), (0, 1));
    assert_eq!(found("README.md", &"| a |\n".repeat(500)), 0);
}
