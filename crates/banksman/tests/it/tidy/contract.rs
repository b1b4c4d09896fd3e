//! No file of the program spells a name of the contract with a lifecycle: it uses the typed one.
//!
//! A name of several words is no accident anywhere. A single word may be English, so it counts only
//! in the engine and the store, and the list below has the exceptions.

use std::collections::BTreeSet;

use banksman_core::lifecycle::contract::{
    AgentRole, ContractRow, CounterName, DrivenBy, Field, LaunchMode, Note, SettingName, Trigger,
};

use super::source::{SourceFile, Violation, found};

const FOLDERS: [&str; 4] = ["engine/", "store/", "ops/", "exec/"];
/// Words of agents.
const WIRE_FORMATS: &str = "exec/agent/";
/// Files, the words in them that mean something else, and what they mean.
const HOMONYMS: &[(&str, &[&str], &str)] = &[
    ("engine/mod.rs", &["unblock"], "the name of a reconciler"),
    ("engine/signals.rs", &["signal"], "the name of an actor"),
    ("engine/planning.rs", &["plan"], "the plan among its own subtasks"),
    ("engine/prompt.rs", &["feedback", "signal", "step"], "variables and templates"),
    (
        "engine/panel/prompts.rs",
        &["brief", "reason", "reviewer", "round", "rounds"],
        "variables of templates",
    ),
    ("store/conn/sqlite/open.rs", &["open"], "an operation"),
    ("store/notices.rs", &["no_worker", "over_budget", "sent_back", "signal"], "kinds of notices"),
];

fn names() -> BTreeSet<&'static str> {
    fn of<T>(rules: &'static [ContractRow<T>]) -> impl Iterator<Item = &'static str> {
        rules.iter().flat_map(|rule| [rule.name].into_iter().chain(rule.former))
    }
    let words =
        [&AgentRole::NAMES[..], &DrivenBy::NAMES, &LaunchMode::NAMES, &Note::NAMES].concat();
    let rules = of(Trigger::RULES).chain(of(Field::RULES));
    rules.chain(of(CounterName::RULES)).chain(of(SettingName::RULES)).chain(words).collect()
}

pub(super) fn spelled(file: &SourceFile) -> Vec<Violation> {
    let Some(inside) = file.path.strip_prefix("crates/banksman/src/") else { return Vec::new() };
    if !FOLDERS.iter().any(|folder| inside.starts_with(folder)) || inside.starts_with(WIRE_FORMATS)
    {
        return Vec::new();
    }
    let names = names();
    let is_strict = inside.starts_with("engine/") || inside.starts_with("store/");
    let is_homonym = |word: &str| {
        HOMONYMS.iter().any(|(path, words, _)| inside == *path && words.contains(&word))
    };
    let literals = file.literals.iter().filter(|literal| {
        let word = literal.text.as_str();
        let counts = (is_strict || word.contains('_')) && !is_homonym(word);
        counts && names.contains(word) && !file.is_test_at(literal.offset)
    });
    let says = "use the typed name of `banksman_core::lifecycle::contract`";
    literals.map(|literal| file.violation(literal.offset, "spelled contract", says)).collect()
}

#[test]
fn a_spelled_name_is_found() {
    let text = "fn a() {\n    b(\"pr_url\");\n    b(\"close\");\n    b(\"parts_open\");\n}\n";
    let of = |path: &str| found(spelled, path, text).len();
    assert_eq!(of("crates/banksman/src/engine/a.rs"), 3);
    assert_eq!(of("crates/banksman/src/ops/a.rs"), 2);
    assert_eq!(of("crates/banksman/src/exec/agent/a.rs"), 0);
    assert_eq!(of("crates/banksman/src/cli/a.rs"), 0);
}
