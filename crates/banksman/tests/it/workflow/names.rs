//! The engine reads fields of the lifecycles that ship with the program and asks for their triggers
//! by name. A name that is spelled otherwise there would be read as "nothing", or refused in
//! silence.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use banksman::prompts::BUILT_IN;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Lifecycle, builtin};
use banksman_core::panel::fields;
use banksman_core::schedule::BUDGET_REQUEST;

/// What is made by the engine, or led by it.
const LED: [&str; 5] = ["workflow", "step", "seat", "leaf", BUDGET_REQUEST];
/// Files that know these lifecycles; folders stand for all that is in them.
const KNOWING: [&str; 8] = [
    "engine/steps.rs",
    "engine/parts.rs",
    "engine/errand.rs",
    "engine/panel.rs",
    "engine/panel",
    "engine/budgets.rs",
    "ops/workflows.rs",
    "ops/workflows",
];
/// The role that the facts answer for; it sits at none of these.
const ELSEWHERE: &str = "evaluator";

fn lifecycles() -> Vec<Lifecycle> {
    let get = |name: &&str| {
        builtin::get(name, &Overrides::new()).expect("it ships").expect("it is sound")
    };
    LED.iter().map(get).collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    for name in KNOWING.map(|name| root.join(name)) {
        match fs::read_dir(&name) {
            Ok(files) => paths.extend(files.map(|file| file.expect("a file").path())),
            Err(_) => paths.push(name),
        }
    }
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).expect("a source"));
    paths.into_iter().map(read).collect()
}

/// What stands between one of these beginnings and the next quotation mark.
fn quoted<'s>(text: &'s str, beginning: &str) -> Vec<&'s str> {
    let after = text.match_indices(beginning).map(|(at, _)| &text[at + beginning.len()..]);
    after.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_field_that_is_read_is_a_field_of_a_lifecycle() {
    let lifecycles = lifecycles();
    let fields: BTreeSet<&str> =
        lifecycles.iter().flat_map(|one| one.fields.keys()).map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    for (path, text) in &sources() {
        for beginning in [".text(\"", ".flag(\"", ".fields.get(\""] {
            for name in quoted(text, beginning) {
                assert!(fields.contains(name), "{}: there is no field `{name}`", path.display());
                seen.insert(name.to_owned());
            }
        }
    }
    assert!(seen.len() > 12, "this test looks at the wrong files: {seen:?}");
    for name in [fields::VERDICTS, fields::CONCERNS, fields::SUMMARY, fields::OBJECTION] {
        assert!(fields.contains(name), "there is no field `{name}`");
    }
}

#[test]
fn every_name_that_has_a_constant_is_in_a_lifecycle_or_of_a_template() {
    let lifecycles = lifecycles();
    let mut names: BTreeSet<&str> = LED.into();
    for one in &lifecycles {
        names.extend(one.fields.keys().chain(one.settings.keys()).map(String::as_str));
        names.extend(one.transitions.iter().map(|row| row.trigger.as_str()));
        names.extend(one.counters.iter().map(|counter| counter.name.as_str()));
        names.extend(one.roles.iter().map(String::as_str));
    }
    // One of the words of the field `driver`.
    assert!(builtin::source("step").expect("it ships").contains("driver: [engine, hand]"));
    names.insert("hand");
    names.extend(BUILT_IN.iter().map(|template| template.name));
    let mut seen = 0;
    for (path, text) in &sources() {
        let lines = text.lines().filter_map(|line| line.split_once("const "));
        let constants = lines.filter_map(|(_, rest)| rest.split_once(": &str = \""));
        let values = constants.map(|(_, value)| value.trim_end_matches("\";"));
        let is_name = |value: &&str| value.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        for value in values.filter(is_name).filter(|value| *value != ELSEWHERE) {
            assert!(
                names.contains(value),
                "{}: no lifecycle and no template has `{value}`",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 15, "this test looks at the wrong files: {seen}");
}
