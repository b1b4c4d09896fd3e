//! Which module may use which: the table of the architecture, checked against every path in the
//! program's source.
//!
//! Test code is free, because a test may build the world that its subject lives in.

use super::source::{SourceFile, Violation, found};

const RULE: &str = "import direction";
const PROGRAM: &str = "crates/banksman/src/";
/// The name under which the table speaks of the other crate.
const CORE: &str = "core";

/// A module and what it may use. `store::query` allows that part of `store` only. A part with a row
/// of its own may use only itself of its module.
const MAY_USE: &[(&str, &[&str])] = &[
    ("prompts", &[CORE]),
    ("config", &[CORE, "prompts", "exec::agent"]),
    ("clock", &[CORE]),
    ("store", &[CORE]),
    ("exec", &[CORE, "config", "clock"]),
    // The settings name agents, so that adapters must not see the settings.
    ("exec::agent", &[CORE]),
    (
        "ops",
        &[
            CORE,
            "store",
            "config",
            "clock",
            "prompts",
            // What reads runs, worktrees and notes, asks jobs to stop, and opens windows for people:
            // never what starts a job.
            "exec::agent",
            "exec::files",
            "exec::git",
            "exec::job",
            "exec::keeper",
            "exec::mailbox",
            "exec::note",
            "exec::process",
            "exec::site",
            "exec::window",
            "exec::worktree",
        ],
    ),
    ("engine", &[CORE, "store", "exec", "config", "clock", "prompts"]),
    (
        "api",
        &[
            CORE,
            "ops",
            "store::query",
            "store::feed",
            "store::notices",
            "store::health",
            "store::batches",
            "store::accounts",
            "store::nodes",
            "store::runs",
            "store::Stored",
            "store::Edge",
            "store::HistoryEntry",
            "store::hex",
            "config",
        ],
    ),
    ("mcp", &[CORE, "ops", "api::report"]),
    ("web", &["api"]),
    ("tui", &["api"]),
    (
        "cli",
        &[
            CORE,
            "ops",
            // What is read and shown, each beside the writes of its part of the domain.
            "store::query",
            "store::feed",
            "store::health",
            "store::runs",
            "store::batches",
            "store::accounts",
            "store::nodes",
            "store::conn",
            "store::Store",
            "store::StoreError",
            "store::Stored",
            "store::Applied",
            "store::Edge",
            "config",
            "clock",
            "prompts",
            "api",
            "mcp",
            "web",
            "tui",
        ],
    ),
    // A keeper must not touch the command line.
    ("main", &["cli", "exec::keeper"]),
];

/// The files that put the parts together and may therefore see all of them.
const WIRING: [&str; 2] = ["crates/banksman/src/cli/up.rs", "crates/banksman/src/cli/demo.rs"];

pub(super) fn violations(file: &SourceFile) -> Vec<Violation> {
    let Some(inside) = file.path.strip_prefix(PROGRAM) else {
        return Vec::new();
    };
    if inside == "lib.rs" || WIRING.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let module = module_path(inside);
    let owner = module.first().map_or("main", String::as_str);
    let part = module.get(..2).map(|part| part.join("::"));
    let part = part.filter(|part| MAY_USE.iter().any(|(name, _)| name == part));
    let owner = part.as_deref().unwrap_or(owner);
    let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == owner) else {
        return vec![file.violation(
            0,
            RULE,
            format!("`{owner}` is not in the table of modules; decide what it may use"),
        )];
    };
    let production = file.mentions.iter().filter(|mention| !file.is_test_at(mention.offset));
    production
        .filter_map(|mention| Some((mention.offset, target(&module, &mention.segments)?)))
        .filter(|(_, target)| {
            is_module(&target[0]) && !is_allowed(&[owner], target) && !is_allowed(may_use, target)
        })
        .map(|(offset, target)| {
            file.violation(offset, RULE, format!("`{owner}` may not use `{}`", target.join("::")))
        })
        .collect()
}

/// `store/conn/sqlite.rs` is `[store, conn, sqlite]`, `store/mod.rs` is `[store]`, `main.rs` is the
/// root.
fn module_path(inside: &str) -> Vec<String> {
    let stem = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    stem.split('/').filter(|part| *part != "main").map(str::to_owned).collect()
}

/// The path from the crate's root that a mention leads to; none when it leads out of our crates or
/// nowhere.
fn target(module: &[String], segments: &[String]) -> Option<Vec<String>> {
    let (first, rest) = segments.split_first()?;
    let path: Vec<String> = match first.as_str() {
        "crate" | "banksman" => rest.to_vec(),
        "banksman_core" => std::iter::once(CORE.to_owned()).chain(rest.iter().cloned()).collect(),
        "self" => module.iter().chain(rest).cloned().collect(),
        "super" => {
            let up = segments.iter().take_while(|segment| *segment == "super").count();
            let base = module.len().checked_sub(up)?;
            module[..base].iter().chain(&segments[up..]).cloned().collect()
        }
        _ => return None,
    };
    (!path.is_empty()).then_some(path)
}

fn is_module(name: &str) -> bool {
    name == CORE || MAY_USE.iter().any(|(module, _)| *module == name)
}

fn is_allowed(may_use: &[&str], target: &[String]) -> bool {
    may_use.iter().any(|allowed| {
        let allowed: Vec<&str> = allowed.split("::").collect();
        target.len() >= allowed.len()
            && allowed.iter().zip(target).all(|(wanted, got)| wanted == got)
    })
}

#[test]
fn an_arrow_against_the_table_is_found() {
    let text = "use banksman_core::ids::TaskId;\nuse crate::{\n    config::Config,\n    store::apply,\n};\n";
    assert_eq!(
        found(violations, "crates/banksman/src/exec/git.rs", text),
        ["crates/banksman/src/exec/git.rs:4: import direction"]
    );
    assert_eq!(found(violations, "crates/banksman/src/engine/relay.rs", text), [""; 0]);
}

#[test]
fn a_way_round_through_super_is_found() {
    let text = "fn a() {\n    super::super::engine::pulse();\n    super::dto::x();\n}\n";
    assert_eq!(
        found(violations, "crates/banksman/src/api/tasks.rs", text),
        ["crates/banksman/src/api/tasks.rs:2: import direction"]
    );
}

#[test]
fn a_part_of_a_module_may_be_allowed_alone() {
    let path = "crates/banksman/src/api/tasks.rs";
    assert_eq!(found(violations, path, "use crate::store::query::Page;"), [""; 0]);
    assert_eq!(found(violations, path, "use crate::store::{query::Page, apply::apply};").len(), 1);
    assert_eq!(found(violations, path, "use crate::store;").len(), 1);
}

#[test]
fn a_part_with_a_row_of_its_own_does_not_see_its_module() {
    let path = "crates/banksman/src/exec/agent/acp_client/link.rs";
    assert_eq!(found(violations, path, "use crate::exec::agent::text;"), [""; 0]);
    assert_eq!(found(violations, path, "use super::failed;\nuse banksman_core::ids;"), [""; 0]);
    assert_eq!(found(violations, path, "use crate::exec::process::Program;").len(), 1);
    assert_eq!(found(violations, path, "use crate::config::Config;").len(), 1);
}

#[test]
fn a_command_reaches_the_outside_world_only_through_the_use_cases() {
    let path = "crates/banksman/src/cli/log.rs";
    assert_eq!(found(violations, path, "use crate::ops::runs::AgentEvent;"), [""; 0]);
    assert_eq!(found(violations, path, "use crate::exec::agent::AgentEvent;").len(), 1);
    assert_eq!(found(violations, path, "use crate::engine::Engine;").len(), 1);
}

#[test]
fn pages_do_not_see_the_core() {
    assert_eq!(
        found(violations, "crates/banksman/src/web/board.rs", "use banksman_core::machine::Task;")
            .len(),
        1
    );
}

#[test]
fn a_module_that_the_table_does_not_know_is_found() {
    assert_eq!(found(violations, "crates/banksman/src/glue.rs", "//! Glue.").len(), 1);
}

#[test]
fn wiring_tests_and_the_own_module_are_free() {
    assert_eq!(found(violations, WIRING[0], "use crate::engine::Engine;"), [""; 0]);
    assert_eq!(
        found(violations, "crates/banksman/src/store/query.rs", "use crate::store::sql;"),
        [""; 0]
    );
    let text = "#[cfg(test)]\nmod tests {\n    use crate::store::Store;\n}\n";
    assert_eq!(found(violations, "crates/banksman/src/exec/git.rs", text), [""; 0]);
}
