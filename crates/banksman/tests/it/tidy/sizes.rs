//! Files that are written to be read whole keep their size, and comments their width.

use super::source::{SourceFile, Violation};

/// The most lines of a file.
const LINES: &[(&str, usize)] = &[
    ("crates/core/src/lifecycle/builtin/autonomous.yaml", 449),
    ("crates/core/src/lifecycle/builtin/leaf.yaml", 99),
];
/// Texts that people read as files; rows of tables cannot be wrapped.
const READ: [(&str, &str); 6] = [
    ("README.md", ""),
    ("ARCHITECTURE.md", ""),
    ("crates/banksman/default-config.toml", ""),
    ("crates/core/src/lifecycle/builtin/", ".yaml"),
    ("crates/core/src/policy/builtin.yaml", ""),
    ("crates/banksman/prompts/", ""),
];
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
    let is_wide = |line: &&str| !line.starts_with('|') && line.chars().count() > COLUMNS;
    let mut wide = file.text.lines().filter(|line| is_read && is_wide(line));
    let wide = wide.next().map(|line| violation(0, format!("over {COLUMNS} columns: {line}")));
    let comments = wide_comments(file).map(|at| violation(at, format!("over {COLUMNS} columns")));
    let terms = if file.path == GLOSSARY { terms(&file.text) } else { 0 };
    let many = (terms > TERMS).then(|| violation(0, format!("{terms} terms, at most {TERMS}")));
    long.into_iter().chain(wide).chain(many).chain(comments).collect()
}

/// Where comments of Rust are wider than the code. A row of a table cannot be wrapped.
fn wide_comments(file: &SourceFile) -> impl Iterator<Item = usize> {
    let lines = file.text.lines().filter(|_| file.path.ends_with(".rs"));
    let wide = lines.filter(|line| {
        let comment = line.trim_start().strip_prefix("//");
        let text = comment.map(|text| text.trim_start_matches(['/', '!', ' ']));
        text.is_some_and(|text| !text.starts_with('|')) && line.chars().count() > COLUMNS
    });
    wide.map(|line| line.as_ptr() as usize - file.text.as_ptr() as usize)
}

/// The rows of its tables, without their heads, and the terms in bold that they define besides.
fn terms(text: &str) -> usize {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|row| !row.starts_with("| term ") && !row.starts_with("| ---"));
    rows.map(|row| 1 + row.matches("**").count() / 2).sum()
}

#[test]
fn a_large_file_is_found() {
    let found = |path: &str, text: &str| too_large(&SourceFile::new(path, text)).len();
    assert_eq!(found(LINES[1].0, &"a\n".repeat(99)), 0);
    assert_eq!(found(LINES[1].0, &"a\n".repeat(100)), 1);
    assert_eq!(found(LINES[1].0, &"a".repeat(101)), 1);
    assert_eq!(found("crates/banksman/prompts/gate.md", &"a".repeat(101)), 1);
    assert_eq!(found("README.md", &format!("| {}\n", "a".repeat(100))), 0);
    assert_eq!(found("crates/core/src/policy/builtin.yaml", &"a".repeat(101)), 1);
    let glossary =
        |rows| "| term | meaning |\n| --- | --- |\n".to_owned() + &"| a | b |\n".repeat(rows);
    assert_eq!((found(GLOSSARY, &glossary(40)), found(GLOSSARY, &glossary(41))), (0, 1));
    assert_eq!(found(GLOSSARY, &(glossary(39) + "| a | b, **c** |\n")), 1, "bold ones count");
    assert_eq!(found("README.md", &"| a |\n".repeat(500)), 0);
    let comment = |start: &str, width| format!("    {start:a<width$}\nlet b = 1;\n");
    let of = |start, width| found("crates/core/src/a.rs", &comment(start, width));
    assert_eq!((of("//! a", 96), of("//! a", 97), of("/// a", 97), of("// a", 97)), (0, 1, 1, 1));
    assert_eq!((of("//! | a", 97), of("a", 97)), (0, 0));
}
