//! A result that is dropped on purpose says why: a comment within the two lines before it.

use super::source::{SourceFile, Violation, found};

/// Lines that a reason may be away.
const NEAR: usize = 2;

/// What makes nothing of any error.
const ERROR_ARMS: [&str; 5] =
    ["Err(_) => Ok(())", "Err(_) => {}", "Err(_) => return", "Err(_) => continue", "entry.ok()"];

pub(super) fn unexplained(file: &SourceFile) -> Vec<Violation> {
    if !file.is_rust() {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let is_explained = |line: usize| {
        lines[line.saturating_sub(1 + NEAR)..line].iter().any(|line| line.contains("//"))
    };
    let dropped =
        file.code.match_indices("drop(").map(|(at, _)| at).filter(|at| is_drop(file, *at));
    let listed = file.code.match_indices("entries.flatten()").map(|(at, _)| at);
    let emptied = file.code.match_indices(".unwrap_or_default()").map(|(at, _)| at);
    let emptied = emptied.filter(|at| {
        let statement = file.code[..*at].rsplit([';', '{', '}']).next().unwrap_or("");
        let is_last = file.code[*at..].starts_with(".unwrap_or_default();");
        reads(statement) || (is_last && is_unused(statement))
    });
    let arms = ERROR_ARMS.iter().flat_map(|arm| file.code.match_indices(arm)).map(|(at, _)| at);
    let asked = file.code.match_indices("if let Ok(").map(|(at, _)| at);
    let asked = asked.filter(|at| {
        let condition = file.code[*at..].split('{').next().unwrap_or("");
        ["fs::", "read", "lock"].iter().any(|call| condition.contains(call))
    });
    let says = "handle the error, or say in a comment why it does not matter";
    dropped
        .chain(listed)
        .chain(emptied)
        .chain(arms)
        .chain(asked)
        .filter(|at| !file.is_test_at(*at) && !is_explained(file.line_of(*at)))
        .map(|at| file.violation(at, "lost result", says))
        .collect()
}

/// Whether a call's result is dropped there. Values that are taken out of something are no results,
/// and after a `?` only the success is left.
fn is_drop(file: &SourceFile, at: usize) -> bool {
    let (before, rest) = (&file.code[..at], &file.code[at + "drop(".len()..]);
    let mut depth = 1;
    let end = rest.find(|one: char| {
        depth += i32::from(one == '(') - i32::from(one == ')');
        depth == 0
    });
    let inside = rest[..end.unwrap_or(0)].trim_end();
    let is_call = inside.contains('(') && !inside.contains(".drain(");
    let takes = [".take()", ".pop()", "?"].iter().any(|end| inside.ends_with(end));
    is_call && !takes && !before.ends_with(|one: char| one == '_' || one.is_alphanumeric())
}

/// Whether a statement reads a file, data or the store.
fn reads(statement: &str) -> bool {
    ["serde_json::from_", "::deserialize(", "fs::read", "(session, "]
        .iter()
        .any(|call| statement.contains(call))
}

/// Whether nobody gets the value of a statement. Then its default is nothing, too, and what is lost
/// is an error.
fn is_unused(statement: &str) -> bool {
    !["let ", "return ", " = ", " += "].iter().any(|word| statement.contains(word))
}

#[test]
fn a_result_that_is_dropped_without_a_reason_is_found() {
    let text = "fn a() {\n    drop(b());\n    let c = fs::read(d).unwrap_or_default();\n    \
                let e = entries.flatten();\n\n\n    // It is a hint.\n    drop(b());\n    drop(guard);\n    \
                drop(f.take());\n\n    drop(g()?);\n\n    h().send(1)\n        .unwrap_or_default();\n\n    \
                let i = serde_json::from_str(\n        j,\n    )\n    .unwrap_or_default();\n    \
                let k = l.get().unwrap_or_default();\n    m += l.get().unwrap_or_default();\n}\n";
    let lines = [2, 4, 3, 15, 20].map(|line| format!("crates/core/src/a.rs:{line}: lost result"));
    assert_eq!(found(unexplained, "crates/core/src/a.rs", text), lines);
    for slip in [
        "let past = past_runs(session, id).unwrap_or_default();",
        "if let Ok(target) = fs::read_link(path) {\n        note(target);\n    }",
        "match found {\n        Ok(_) => remove(path),\n        Err(_) => Ok(()),\n    }",
        "names.filter_map(|entry| entry.ok()?.file_name())",
    ] {
        let text = |before: &str| format!("fn a() {{\n\n    {before}{slip}\n}}\n");
        assert_eq!(found(unexplained, "crates/core/src/a.rs", &text("")).len(), 1, "{slip}");
    }
}
