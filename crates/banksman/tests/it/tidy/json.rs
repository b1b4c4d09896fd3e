//! Untyped JSON has three places: the values of expressions, the formats of agents, and the
//! documents of `api`. Elsewhere a shape that is known is a type. What acts on the outside world
//! and the settings have no values of expressions either.

use super::source::{SourceFile, Violation, found};

const RULE: &str = "untyped JSON";
const NEEDLES: [&str; 5] = [
    "serde_json::Value",
    "serde_json::value::Value",
    "serde_json::Map",
    "serde_json::json",
    "serde_json::*",
];

/// Another name for it, and where nothing needs values of expressions.
const ALIASES: [&str; 2] =
    ["banksman_core::lifecycle::expr::Value", "banksman_core::lifecycle::expr::Fields"];
const WITHOUT_EXPRESSIONS: [&str; 2] = ["crates/banksman/src/exec/", "crates/banksman/src/config"];

/// Files and folders that may use it.
const ONLY_IN: [&str; 3] = [
    "crates/core/src/lifecycle/expr/",
    "crates/banksman/src/exec/agent/",
    "crates/banksman/src/api/",
];

pub(super) fn violations(file: &SourceFile) -> Vec<Violation> {
    let is_free = |named: &&str| file.path.starts_with(*named);
    let is_source = file.path.starts_with("crates/") && file.path.contains("/src/");
    if !is_source || ONLY_IN.iter().any(is_free) {
        return Vec::new();
    }
    let is_bare = WITHOUT_EXPRESSIONS.iter().any(|named| file.path.starts_with(named));
    let needles = || NEEDLES.iter().chain(ALIASES.iter().filter(|_| is_bare));
    let untyped = file.mentions.iter().filter(|mention| {
        !file.is_test_at(mention.offset) && needles().any(|needle| mention.has(needle))
    });
    let detail = "use a struct, or `lifecycle::expr::Value` for the value of a field";
    untyped.map(|mention| file.violation(mention.offset, RULE, detail)).collect()
}

#[test]
fn untyped_json_is_found_by_every_way_to_name_it() {
    let path = "crates/banksman/src/cli/list.rs";
    for text in [
        "use serde_json::{Number, Value};",
        "use serde_json::json;",
        "use serde_json::*;",
        "fn a() -> serde_json::Value { serde_json::Value::Null }",
        "fn a(fields: &serde_json::Map<String, u8>) {}",
    ] {
        assert!(!found(violations, path, text).is_empty(), "{text}");
    }
    let typed = "use banksman_core::lifecycle::expr::{Fields, Value};\nuse serde_json::Number;";
    assert_eq!(found(violations, path, typed), [""; 0]);
    let alias = "use banksman_core::lifecycle::expr::{self, Fields};\nfn a(value: &expr::Value) {}";
    assert_eq!(found(violations, path, alias), [""; 0]);
    for path in ["crates/banksman/src/exec/job.rs", "crates/banksman/src/config/keys.rs"] {
        assert!(!found(violations, path, typed).is_empty(), "{path}");
    }
}

#[test]
fn untyped_json_is_allowed_in_its_places_and_in_tests() {
    let text = "use serde_json::Value;";
    for path in ONLY_IN {
        assert_eq!(found(violations, &format!("{path}mod.rs"), text), [""; 0]);
    }
    assert_eq!(found(violations, "crates/banksman/tests/it/cli/list.rs", text), [""; 0]);
    let tests = format!("#[cfg(test)]\nmod tests {{\n    {text}\n}}\n");
    assert_eq!(found(violations, "crates/banksman/src/cli/list.rs", &tests), [""; 0]);
}
