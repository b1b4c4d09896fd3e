//! A word names one type, and what to type is said by the command line alone.
//!
//! The documents of `api` are left out: there a word names the same thing as it goes over the wire.

use super::source::{SourceFile, Violation};

const GLOSSARY: &str = "docs/glossary.md";
const DECLARATIONS: [&str; 4] = ["struct ", "enum ", "trait ", "type "];
/// Folders that speak another language than ours, where a word is read with its module.
const OTHER_LANGUAGES: [(&str, &str); 4] = [
    ("crates/banksman/src/store/conn/", "databases: rows, links, requests, pools"),
    ("crates/banksman/src/exec/agent/", "agents: each adapter has its stream and its end"),
    ("crates/banksman/src/mcp/", "JSON-RPC: calls, answers, refusals"),
    ("crates/core/src/draw/", "drawings: lines, cells, sides"),
];
/// Ends of names that are read with their module everywhere.
const OF_THEIR_MODULE: [(&str, &str); 3] = [
    ("Args", "the arguments of a command"),
    ("Result", "a result with the module's error"),
    ("Cursor", "a place in whatever the module reads"),
];

/// A type that others can see shares its name with no other, and a term of the glossary names one
/// type.
pub(super) fn two_types_of_a_word(files: &[SourceFile]) -> Vec<Violation> {
    let glossary = files.iter().find(|file| file.path == GLOSSARY);
    let terms = glossary.map(|file| type_names(&file.text)).unwrap_or_default();
    let sources = files.iter().filter(|file| is_ours(&file.path));
    let declared: Vec<_> =
        sources.flat_map(|file| types(file).map(move |declared| (file, declared))).collect();
    let counts = |file: &SourceFile, declared: &Declared<'_>| {
        let is_term = terms.iter().any(|term| term == declared.name);
        let is_exempt = OTHER_LANGUAGES.iter().any(|(folder, _)| file.path.starts_with(folder))
            || OF_THEIR_MODULE.iter().any(|(end, _)| declared.name.ends_with(end));
        is_term || !is_exempt
    };
    let counted: Vec<_> = declared.iter().filter(|(file, one)| counts(file, one)).collect();
    let again = counted.iter().enumerate().filter_map(|(index, (file, one))| {
        let same = |other: &&&(&SourceFile, Declared<'_>)| other.1.name == one.name;
        let is_term = terms.iter().any(|term| term == one.name);
        let is_seen = is_term || counted.iter().filter(same).any(|(_, other)| other.is_visible);
        let (first, _) = counted[..index].iter().find(same).filter(|_| is_seen)?;
        let detail = format!("`{}` names a type in {}, too", one.name, first.path);
        Some(file.violation(one.offset, "one word", detail))
    });
    again.collect()
}

fn is_ours(path: &str) -> bool {
    path.ends_with(".rs")
        && path.contains("/src/")
        && !path.starts_with("crates/banksman/src/api/")
        && !path.starts_with("crates/scripted-agent/")
}

/// The terms as Rust spells types: `budget request` is `BudgetRequest`.
fn type_names(glossary: &str) -> Vec<String> {
    let terms = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    terms.map(|term| term.split(' ').map(capitalised).collect()).collect()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

struct Declared<'a> {
    offset: usize,
    name: &'a str,
    /// Whether other modules can see it.
    is_visible: bool,
}

/// The types that the code of the program declares. An associated type belongs to its trait.
fn types(file: &SourceFile) -> impl Iterator<Item = Declared<'_>> {
    let code = &file.code[..file.tests_from];
    DECLARATIONS.iter().flat_map(move |keyword| {
        code.match_indices(keyword).filter_map(move |(offset, _)| {
            let line = code[..offset].rfind('\n').map_or(0, |end| end + 1);
            let before = code[line..offset].trim_start();
            let is_visible = before.starts_with("pub");
            let is_associated = *keyword == "type " && code[line..].starts_with(' ');
            let rest = &code[offset + keyword.len()..];
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
            let is_declaration = (before.is_empty() || is_visible) && !is_associated;
            (is_declaration && end > 0).then_some(Declared {
                offset,
                name: &rest[..end],
                is_visible,
            })
        })
    })
}

const COMMANDS: &str = "docs/reference/cli.md";
/// The command line itself, and what documents settings and templates.
const MAY_SAY_COMMANDS: [&str; 4] = [
    "crates/banksman/src/cli/",
    "crates/banksman/src/config.rs",
    "crates/banksman/src/config/",
    "crates/banksman/src/prompts.rs",
];

/// Whether prose names a flag. The command lines of other programs have theirs between words.
fn names_a_flag(text: &str) -> bool {
    ["`--", ": --"].iter().any(|before| {
        let mut rest = text.split(before).skip(1);
        rest.any(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
    })
}

/// Texts with a command or a flag to type. Another surface would show them, too, and has neither.
pub(super) fn commands_in_texts(files: &[SourceFile]) -> Vec<Violation> {
    let reference = files.iter().find(|file| file.path == COMMANDS);
    let lines = reference.map(|file| file.text.lines()).into_iter().flatten();
    let commands: Vec<&str> = lines.filter_map(|line| line.strip_prefix("## ")).collect();
    let is_free = |file: &&SourceFile| MAY_SAY_COMMANDS.iter().any(|at| file.path.starts_with(at));
    let sources = files.iter().filter(|file| is_ours(&file.path) && !is_free(file));
    let found = sources.flat_map(|file| {
        let in_program = file.literals.iter().filter(|text| !file.is_test_at(text.offset));
        let says = |text: &str| {
            names_a_flag(text) || commands.iter().skip(1).any(|command| text.contains(command))
        };
        in_program.filter(move |literal| says(&literal.text)).map(|literal| {
            let detail = "make it a `Hint` or a `Suggestion`, and phrase it in cli/hints.rs";
            file.violation(literal.offset, "command in a text", detail)
        })
    });
    found.collect()
}

#[test]
fn a_command_in_a_text_is_found() {
    let found = |path: &str, text: &str| {
        let reference = SourceFile::new(COMMANDS, "## banksman\n\n## banksman up\n");
        commands_in_texts(&[reference, SourceFile::new(path, text)]).len()
    };
    let text = "const A: &str = \"start it: banksman up\";";
    assert_eq!(found("crates/banksman/src/ops/why.rs", text), 1);
    assert_eq!(found("crates/core/src/plan.rs", text), 1);
    assert_eq!(found("crates/banksman/src/cli/hints.rs", text), 0);
    assert_eq!(found("crates/banksman/src/ops/why.rs", "// banksman up\n"), 0);
    for flag in ["leave `--name` out", "say for whom: --role worker"] {
        let text = format!("const A: &str = {flag:?};");
        assert_eq!(found("crates/banksman/src/ops/projects.rs", &text), 1, "{flag}");
        assert_eq!(found("crates/banksman/src/cli/init.rs", &text), 0, "{flag}");
    }
    let git = "const A: &str = \"git merge --ff-only: -- --x\";";
    assert_eq!(found("crates/banksman/src/exec/merge.rs", git), 0);
    assert_eq!(found("crates/banksman/src/ops/why.rs", "const A: &str = \"a running `up`\";"), 0);
}

#[test]
fn a_word_for_two_types_is_found() {
    let found = |second: &str, text: &str| {
        let files = [
            SourceFile::new(
                GLOSSARY,
                "| term | meaning |\n| --- | --- |\n| budget request | a |\n",
            ),
            SourceFile::new("crates/core/src/a.rs", "pub struct BudgetRequest;\nstruct Row;\n"),
            SourceFile::new(second, text),
        ];
        two_types_of_a_word(&files).len()
    };
    let program = "crates/banksman/src/b.rs";
    assert_eq!(found(program, "    pub(super) enum BudgetRequest<'a> {}\n"), 1);
    assert_eq!(found(program, "type BudgetRequest = u8;\n"), 1);
    assert_eq!(found(program, "pub(super) struct Row;\n"), 1, "others see one of the two");
    assert_eq!(found(program, "struct Row;\npub struct Args;\n"), 0, "nobody else sees either");
    assert_eq!(
        found(
            program,
            "// struct BudgetRequest\nstruct Row;\nimpl A {\n    type BudgetRequest = u8;\n}\n"
        ),
        0
    );
    assert_eq!(found("crates/banksman/src/store/conn/b.rs", "pub struct Row;\n"), 0);
    assert_eq!(found("crates/banksman/src/store/conn/b.rs", "pub struct BudgetRequest;\n"), 1);
    assert_eq!(found("crates/banksman/src/api/b.rs", "pub struct BudgetRequest;\n"), 0);
    assert_eq!(found("crates/banksman/tests/it/b.rs", "struct BudgetRequest;\n"), 0);
}
