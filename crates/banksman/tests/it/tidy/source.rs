//! The repository's text files, each scanned once for all rules, and what is test code in them.
//!
//! It never runs another program and never writes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::scan::{Literal, Mention, blank_comments_and_literals, mentions};

/// Deeper trees than this are a mistake (a link that leads back, a build folder that was not
/// recognised).
const MAX_FOLDER_DEPTH: usize = 16;
const TEXT_EXTENSIONS: &[&str] = &[
    "rs", "toml", "md", "yaml", "yml", "sh", "sql", "json", "jsonl", "snap", "html", "css", "js",
    "txt", "lock",
];
/// Folders whose files are scripts without an extension.
const SCRIPT_FOLDERS: &[&str] = &["scripts/", ".ci/"];

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) rule: &'static str,
    pub(super) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.rule, self.detail)
    }
}

/// One text file of the repository, scanned once for all rules.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// From the repository's root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments and the insides of literals blanked, byte for byte as long as the
    /// text.
    pub(super) code: String,
    pub(super) literals: Vec<Literal>,
    pub(super) mentions: Vec<Mention>,
    /// Where the test code begins: 0 in a test file, the end of the text in a file without tests.
    pub(super) tests_from: usize,
    line_starts: Vec<usize>,
}

impl SourceFile {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let (code, literals) = if path.ends_with(".rs") {
            blank_comments_and_literals(text)
        } else {
            (text.to_owned(), Vec::new())
        };
        let mentions = if path.ends_with(".rs") { mentions(&code) } else { Vec::new() };
        let tests_from = if is_test_path(path) { 0 } else { inline_tests_from(&code) };
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            literals,
            mentions,
            tests_from,
            line_starts,
        }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    pub(super) fn is_test_at(&self, offset: usize) -> bool {
        offset >= self.tests_from
    }

    pub(super) fn violation(
        &self,
        offset: usize,
        rule: &'static str,
        detail: impl Into<String>,
    ) -> Violation {
        Violation {
            path: self.path.clone(),
            line: self.line_of(offset),
            rule,
            detail: detail.into(),
        }
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text file of the repository, except what is built or hidden.
pub(super) fn load_tree() -> Vec<SourceFile> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, "", 0, &mut paths);
    let mut files: Vec<SourceFile> = paths
        .iter()
        .filter_map(|path| match fs::read_to_string(root.join(path)) {
            Ok(text) => Some(SourceFile::new(path, &text)),
            // A file may go away between the listing and the reading, for example a temporary one.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => panic!("failed to read {path} as text: {error}"),
        })
        .collect();
    mark_test_modules(&mut files);
    files
}

fn walk(root: &Path, folder: &str, depth: usize, found: &mut Vec<String>) {
    assert!(depth <= MAX_FOLDER_DEPTH, "{folder}: more than {MAX_FOLDER_DEPTH} folders deep");
    let entries = fs::read_dir(root.join(folder))
        .unwrap_or_else(|error| panic!("failed to list {folder:?}: {error}"));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("failed to list {folder:?}: {error}"));
        let name = entry.file_name().into_string().expect("a file name of the repository is UTF-8");
        let path = format!("{folder}{name}");
        let kind =
            entry.file_type().unwrap_or_else(|error| panic!("failed to look at {path}: {error}"));
        let is_hidden =
            name.starts_with('.') && ![".ci", ".config", ".github"].contains(&name.as_str());
        let is_built = name.starts_with("target") || name == "node_modules";
        if kind.is_dir() && !is_hidden && !is_built {
            walk(root, &format!("{path}/"), depth + 1, found);
        } else if kind.is_file() && is_text(&path) {
            found.push(path);
        }
    }
}

fn is_text(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    match extension {
        Some(extension) => TEXT_EXTENSIONS.contains(&extension),
        None => {
            SCRIPT_FOLDERS.iter().any(|folder| path.starts_with(folder)) || path == ".gitignore"
        }
    }
}

/// Integration tests, benches, and the scripted agent, which exists for tests only.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "benches")
        || path.starts_with("crates/scripted-agent/")
}

/// A file declared as `#[cfg(test)] mod name;` is test code although its path does not say so.
fn mark_test_modules(files: &mut [SourceFile]) {
    let declared: BTreeSet<String> = files.iter().flat_map(declared_test_modules).collect();
    for file in files {
        let is_declared = |module: &String| {
            file.path
                .strip_prefix(module)
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if declared.iter().any(is_declared) {
            file.tests_from = 0;
        }
    }
}

/// The paths (without `.rs`) of the modules that this file declares for tests only.
fn declared_test_modules(file: &SourceFile) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let base = match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        other => format!("{folder}/{}", other.trim_end_matches(".rs")),
    };
    test_modules(&file.code)
        .filter(|(_, _, next)| *next == ';')
        .map(|(_, name, _)| format!("{base}/{name}"))
        .collect()
}

fn inline_tests_from(code: &str) -> usize {
    test_modules(code).find(|(_, _, next)| *next == '{').map_or(code.len(), |(offset, _, _)| offset)
}

/// Each `#[cfg(test)] mod name`, `pub(super)` or not, with its offset, its name and the character
/// after the name.
fn test_modules(code: &str) -> impl Iterator<Item = (usize, &str, char)> {
    code.match_indices("#[cfg(test)]").filter_map(|(offset, attribute)| {
        let item = code[offset + attribute.len()..].trim_start();
        let rest = item.strip_prefix("pub(super) ").unwrap_or(item).strip_prefix("mod ")?;
        let end = rest.find(|character: char| !is_name_character(character))?;
        let next = rest[end..].trim_start().chars().next()?;
        Some((offset, &rest[..end], next))
    })
}

fn is_name_character(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// What a rule finds in a snippet, as the lines it would print; for the tests of the rules.
pub(super) fn found(
    rule: fn(&SourceFile) -> Vec<Violation>,
    path: &str,
    text: &str,
) -> Vec<String> {
    rule(&SourceFile::new(path, text))
        .iter()
        .map(|violation| format!("{}:{}: {}", violation.path, violation.line, violation.rule))
        .collect()
}

#[test]
fn test_code_begins_at_the_test_module() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
    let file = SourceFile::new("crates/banksman/src/a.rs", text);
    assert_eq!(file.line_of(file.tests_from), 2);
    assert!(!file.is_test_at(0));
    assert!(SourceFile::new("crates/banksman/tests/it/a.rs", text).is_test_at(0));
}

#[test]
fn a_module_declared_for_tests_is_test_code() {
    let mut files = [
        SourceFile::new(
            "crates/banksman/src/store/mod.rs",
            "#[cfg(test)]\nmod conformance;\n#[cfg(test)]\npub(super) mod world;\nmod sql;\n",
        ),
        SourceFile::new("crates/banksman/src/store/conformance.rs", "fn a() {}"),
        SourceFile::new("crates/banksman/src/store/world.rs", "fn a() {}"),
        SourceFile::new("crates/banksman/src/store/sql.rs", "fn a() {}"),
    ];
    mark_test_modules(&mut files);
    assert_eq!(files.map(|file| file.is_test_at(0)), [false, true, true, false]);
}
