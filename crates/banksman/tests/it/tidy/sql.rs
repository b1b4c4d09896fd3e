//! Where SQL may stand, and who may change a task's state.
//!
//! The rules look at string literals. Tests and benches may talk to a database directly, because
//! that is how they see what the store wrote.

use std::collections::BTreeSet;

use super::scan::Literal;
use super::source::{SourceFile, Violation, found};

const PROGRAM: &str = "crates/banksman/src/";
const STORE: &str = "crates/banksman/src/store/";
const STATEMENTS: &str = "crates/banksman/src/store/sql.rs";
const WRITER: &str = "crates/banksman/src/store/apply.rs";

/// SQL outside the store.
pub(super) fn violations(file: &SourceFile) -> Vec<Violation> {
    let is_program = file.path.starts_with(PROGRAM) && !file.path.starts_with(STORE);
    if !is_program || file.tests_from == 0 {
        return Vec::new();
    }
    let statements = file.literals.iter().filter(|literal| is_sql(&literal.text));
    statements
        .map(|literal| file.violation(literal.offset, "SQL", "only in store/; add a query there"))
        .collect()
}

/// Statements that change a task's state stand in `store/sql.rs` as constants, and only
/// `store/apply.rs` uses them.
pub(super) fn state_writers(files: &[SourceFile]) -> Vec<Violation> {
    const RULE: &str = "state writer";
    let mut broken = Vec::new();
    let mut constants = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.starts_with(PROGRAM)) {
        for literal in file.literals.iter().filter(|literal| changes_state(&literal.text)) {
            if file.is_test_at(literal.offset) || file.path == WRITER {
                continue;
            }
            match constant_of(file, literal).filter(|_| file.path == STATEMENTS) {
                Some(name) => {
                    constants.insert(name);
                }
                None => broken.push(file.violation(
                    literal.offset,
                    RULE,
                    "a statement that changes a task's state is a constant of store/sql.rs",
                )),
            }
        }
    }
    for file in
        files.iter().filter(|file| file.path.starts_with(PROGRAM) && file.path != STATEMENTS)
    {
        for (offset, name) in constants.iter().flat_map(|name| words(&file.code, name)) {
            if file.path != WRITER && !file.is_test_at(offset) {
                broken.push(file.violation(
                    offset,
                    RULE,
                    format!("only store/apply.rs may use `{name}`"),
                ));
            }
        }
    }
    broken
}

/// Upper-case keywords anywhere; lower-case ones only at the beginning, because they are also
/// English.
fn is_sql(text: &str) -> bool {
    let text = one_line(text);
    let has_shape = |text: &str| {
        text.starts_with("SELECT ") && text.contains(" FROM ")
            || text.starts_with("INSERT INTO ")
            || text.starts_with("INSERT OR ")
            || text.starts_with("UPDATE ") && text.contains(" SET ")
            || text.starts_with("DELETE FROM ")
            || text.starts_with("CREATE TABLE ")
    };
    let starts_a_word = |offset: usize| !text[..offset].ends_with(char::is_alphanumeric);
    has_shape(&text.to_ascii_uppercase())
        || text
            .char_indices()
            .any(|(offset, _)| starts_a_word(offset) && has_shape(&text[offset..]))
}

/// `INSERT INTO tasks`, or `UPDATE tasks` that assigns the column `state`.
fn changes_state(text: &str) -> bool {
    let text = one_line(text).to_ascii_lowercase();
    let inserts = words(&text, "into tasks").next().is_some();
    let updates = words(&text, "update tasks").any(|(offset, _)| {
        let rest = &text[offset..];
        let assignments = &rest[..rest.find(" where ").unwrap_or(rest.len())];
        words(assignments, "state")
            .any(|(at, word)| assignments[at + word.len()..].trim_start().starts_with('='))
    });
    inserts || updates
}

/// Statements are broken over lines, with and without a `\` at the end.
fn one_line(text: &str) -> String {
    text.replace("\\\n", " ").replace("\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name that this literal is assigned to: `const NAME: &str = "…"`, or `NAME = "…"` in a macro
/// that declares constants.
fn constant_of(file: &SourceFile, literal: &Literal) -> Option<String> {
    let before = &file.code[..literal.offset];
    let statement = &before[before.rfind(';').map_or(0, |end| end + 1)..];
    let assigned = &statement[..statement.rfind('=')?];
    let is_constant_byte =
        |byte: u8| byte == b'_' || byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let mut names =
        assigned.split(|character: char| character != '_' && !character.is_alphanumeric());
    // A single capital is a type parameter.
    names.rfind(|name| name.len() > 1 && name.bytes().all(is_constant_byte)).map(str::to_owned)
}

/// Where `word` stands by itself in `text`.
fn words<'a>(text: &'a str, word: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_name = |character: char| character == '_' || character.is_alphanumeric();
    text.match_indices(word).filter(move |(offset, word)| {
        !text[..*offset].ends_with(is_name) && !text[offset + word.len()..].starts_with(is_name)
    })
}

#[test]
fn sql_outside_the_store_is_found() {
    let path = "crates/banksman/src/ops/tasks.rs";
    let text = "const A: &str = \"SELECT id\n  FROM tasks\";\nconst B: &str = r#\"update tasks set x = 1\"#;\n";
    let expected = [1, 3].map(|line| format!("{path}:{line}: SQL"));
    assert_eq!(found(violations, path, text), expected);
    assert_eq!(found(violations, "crates/banksman/src/store/query.rs", text), [""; 0]);
    assert_eq!(found(violations, "crates/banksman/benches/store.rs", text), [""; 0]);
}

#[test]
fn sql_in_the_middle_of_a_text_is_found_and_english_is_not() {
    let check = |text: &str, expected: usize| {
        let text = format!("const A: &str = \"{text}\";");
        assert_eq!(
            found(violations, "crates/banksman/src/ops/tasks.rs", &text).len(),
            expected,
            "{text}"
        );
    };
    check("WITH a AS (SELECT 1 FROM b) DELETE FROM c", 1);
    check("could not delete from the list, nor update the set", 0);
    check("the SELECTED task came FROM here", 0);
}

#[test]
fn a_second_writer_of_state_is_found() {
    let sql = "pub(super) const SAVE: &str = \"UPDATE tasks SET version = $1, state = $2\";\n\
               pub(super) const TOUCH: &str = \"UPDATE tasks SET seen_at = $1 WHERE state = $2\";\n\
               statements! { LIST: &str; PLACE = \"INSERT INTO tasks (id) VALUES ($1)\"; }\n";
    let user = "fn a() {\n    conn.write(sql::TOUCH);\n    conn.write(sql::SAVE);\n    conn.write(sql::PLACE);\n}";
    let stray = "fn a() { conn.write(\"INSERT INTO tasks (id) VALUES ($1)\"); }";
    let files = [
        SourceFile::new(STATEMENTS, sql),
        SourceFile::new(WRITER, user),
        SourceFile::new("crates/banksman/src/store/lease.rs", user),
        SourceFile::new("crates/banksman/src/store/query.rs", stray),
    ];
    let lines: Vec<String> = state_writers(&files)
        .iter()
        .map(|found| format!("{}:{}", found.path, found.line))
        .collect();
    assert_eq!(
        lines,
        [
            "crates/banksman/src/store/query.rs:1",
            "crates/banksman/src/store/lease.rs:4",
            "crates/banksman/src/store/lease.rs:3",
        ]
    );
}
