//! The table of adapters is the only list of agents: no other file spells the name of one.

use banksman::exec::agent::AgentKind;

use super::source::{SourceFile, Violation, found};

const PROGRAM: &str = "crates/banksman/src/";
const CORE: &str = "crates/core/src/";
const ADAPTERS: &str = "exec/agent/";
const TABLE: &str = "exec/agent/mod.rs";
/// Files of other words that an agent has as its name, and what they mean.
const HOMONYMS: &[(&str, &str, &str)] = &[
    ("", "command", "a command line"),
    ("exec/agent/acp_client.rs", "acp", "the protocol, in the name of its command"),
    ("exec/agent/acp.rs", "codex", "a member of a message of its protocol"),
];

pub(super) fn spelled(file: &SourceFile) -> Vec<Violation> {
    let inside = [PROGRAM, CORE].iter().find_map(|source| file.path.strip_prefix(source));
    let Some(inside) = inside.filter(|inside| *inside != TABLE) else { return Vec::new() };
    let is_own = |name: &str| inside == format!("{ADAPTERS}{name}.rs");
    let is_homonym = |name: &str| {
        HOMONYMS.iter().any(|(path, word, _)| inside.starts_with(path) && *word == name)
    };
    let literals = file.literals.iter().filter(|literal| {
        // A model or a tool has the agent's name in front.
        let name = literal.text.split(['-', '_', '/', ':']).next().unwrap_or_default();
        let counts = AgentKind::NAMES.contains(&name) && !is_own(name) && !is_homonym(name);
        counts && !file.is_test_at(literal.offset)
    });
    let says = "read it from `AgentKind`, whose table has one row for each agent";
    literals.map(|literal| file.violation(literal.offset, "spelled agent", says)).collect()
}

#[test]
fn a_second_list_of_agents_is_found() {
    let list = "const AGENTS: [&str; 3] = [\"claude\", \"codex\", \"command\"];\n";
    let of = |inside: &str, text: &str| found(spelled, &format!("{PROGRAM}{inside}"), text).len();
    assert_eq!(of("config/keys.rs", list), 2);
    assert_eq!(of("exec/agent/claude.rs", list), 1);
    assert_eq!(of(TABLE, list), 0);
    assert_eq!(of("ops/runs.rs", "fn a() { b.starts_with(\"claude-\"); c(\"claudette\"); }"), 1);
    assert_eq!(found(spelled, "crates/core/src/quota.rs", list).len(), 2);
    let test = format!("#[cfg(test)]\nmod tests {{\n    {list}}}\n");
    assert_eq!(of("config/keys.rs", &test), 0);
}
