//! Which module may use which: the table of the architecture, checked against every path in the
//! program's source.
//!
//! Test code is free, because a test may build the world that its subject lives in.

use super::source::{SourceFile, Violation, found};

const RULE: &str = "import direction";
const PROGRAM: &str = "crates/banksman/src/";
/// The name under which the table speaks of the other crate.
const CORE: &str = "core";

/// What the store answers with: rows and views, and nothing that reaches the database.
const ROWS: [&str; 11] = [
    "store::{Stored, Applied, Edge, HistoryEntry, hex}",
    "store::query::{Dependency, Detail, Filter, Overview, PAGE, Progress, StateCount}",
    "store::query::{Decision, DecisionEnd}",
    "store::answers::PendingAnswer",
    "store::feed::{Change, ChangeDetail, Cursor}",
    "store::notices::{Notice, NoticeKind}",
    "store::health::{HealthFinding, HealthReport}",
    "store::batches::{Batch, BatchChange, BudgetChange, NewBound}",
    "store::accounts::AccountRow",
    "store::nodes::Node",
    "store::runs::{OpenRun, PastRun}",
];

/// A module, or one of its files, and what it may use; `rows` stands for [`ROWS`]. A part of a
/// module with a row of its own, such as `exec::agent`, may use only itself of its module.
const MAY_USE: &[(&str, &[&str])] = &[
    ("plain_file", &[]),
    ("prompts", &[CORE, "plain_file"]),
    ("config", &[CORE, "prompts", "plain_file", "exec::agent"]),
    ("clock", &[CORE]),
    ("store", &[CORE]),
    ("exec", &[CORE, "config", "clock", "plain_file"]),
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
            "plain_file",
            // What reads runs, worktrees and notes, asks jobs to stop, and opens windows for
            // people: never what starts a job.
            "exec::agent::{AgentEvent, AgentKind, AgentSetup, AgentUsage, StreamReader}",
            "exec::agent::{outcome_of, reader}",
            "exec::files::{if_exists, missing}",
            "exec::git::Git",
            "exec::job::{AgentWork, JobId, JobSpec}",
            "exec::keeper::{FileError, JobFolder, KeeperStatus, Lines, Stage}",
            "exec::keeper::{ERR_FILE, OUT_FILE, REPORTS_FILE}",
            "exec::mailbox::{Mailbox, SPECS, SpecCopy}",
            "exec::note",
            "exec::process::{PlainRunner, quoted}",
            "exec::site::{JobStatus, LocalSite, Site, SiteError}",
            "exec::window",
            "exec::worktree::{mark, removal}",
        ],
    ),
    ("engine", &[CORE, "store", "exec", "config", "clock", "prompts"]),
    ("api", &[CORE, "ops", "rows", "config::{ConfigFile, EffectiveSetting}"]),
    (
        "mcp",
        &[CORE, "ops::OpsError", "ops::error_report", "ops::reports", "api::report", "api::error"],
    ),
    ("web", &["api"]),
    ("tui", &["api"]),
    (
        "cli",
        &[
            CORE,
            "ops",
            "rows",
            "store::conn::{Waited, WakeMark}",
            "config",
            "clock",
            "prompts",
            // Texts that people name may come from a pipe.
            "plain_file::text_of",
            "api",
            "mcp",
            "web",
            "tui",
        ],
    ),
    // The only file of the command line that opens a store.
    ("cli/context", &["store::Store", "store::conn::{Options, Target}"]),
    // A keeper must not touch the command line, nor must the client of an agent.
    ("main", &["cli", "exec::keeper", "exec::agent::acp_client"]),
];

/// What a module passes on of another, or whoever uses the one could use all of the other. All of
/// them are parts of answers.
const PASSED_ON: &[(&str, &[&str])] = &[
    ("ops/agents.rs", &["exec::agent::AgentKind"]),
    ("ops/runs.rs", &["exec::agent::{AgentEvent, AgentUsage}", "exec::window::WindowHost"]),
    ("ops/shutdown.rs", &["exec::job::JobId"]),
    ("ops/status.rs", &["exec::keeper::{KeeperStatus, Stage}", "exec::worktree::removal::DiskUse"]),
    // How a shell reads a word.
    ("ops/suggestion.rs", &["exec::process::quoted"]),
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
    let of_file = inside.trim_end_matches(".rs");
    let rows = MAY_USE.iter().filter(|(name, _)| [owner, of_file].contains(name));
    let others = rows.flat_map(|(_, allowed)| *allowed).flat_map(written_out);
    let may_use: Vec<String> = others.chain([owner.to_owned()]).collect();
    if part.is_none() && !is_module(owner) && owner != "main" {
        return vec![file.violation(
            0,
            RULE,
            format!("`{owner}` is not in the table of modules; decide what it may use"),
        )];
    }
    let production = file.mentions.iter().filter(|mention| !file.is_test_at(mention.offset));
    production
        .filter_map(|mention| Some((mention.offset, target(&module, &mention.segments)?)))
        .filter(|(_, target)| is_module(&target[0]) && !is_allowed(&may_use, target))
        .map(|(offset, target)| {
            file.violation(offset, RULE, format!("`{owner}` may not use `{}`", target.join("::")))
        })
        .collect()
}

/// A name of another module that a file makes its own. This holds for the wiring, too.
pub(super) fn passed_on(file: &SourceFile) -> Vec<Violation> {
    let Some(inside) = file.path.strip_prefix(PROGRAM) else { return Vec::new() };
    let module = module_path(inside);
    let listed = PASSED_ON.iter().filter(|(path, _)| *path == inside);
    let listed: Vec<String> = listed.flat_map(|(_, names)| *names).flat_map(written_out).collect();
    let is_public = |offset: usize| {
        let statement = file.code[..offset].rsplit([';', '}']).next().unwrap_or_default();
        let before = statement.trim_start().strip_prefix("pub").map(str::trim_start);
        before.is_some_and(|rest| rest.starts_with("use ") || rest.starts_with('('))
            && statement.contains("use ")
    };
    let named = file.mentions.iter().filter(|mention| is_public(mention.offset));
    let named =
        named.filter_map(|mention| Some((mention.offset, target(&module, &mention.segments)?)));
    let is_foreign = |target: &[String]| is_module(&target[0]) && module.first() != target.first();
    let foreign = named.filter(|(_, target)| is_foreign(target) && !is_allowed(&listed, target));
    let says = |target: &[String]| format!("passes on `{}` of another module", target.join("::"));
    foreign.map(|(offset, target)| file.violation(offset, RULE, says(&target))).collect()
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

/// `store::{Stored, Edge}` is two paths.
fn written_out(allowed: &&str) -> Vec<String> {
    if *allowed == "rows" {
        return ROWS.iter().flat_map(written_out).collect();
    }
    let Some((module, names)) = allowed.split_once('{') else { return vec![(*allowed).to_owned()] };
    let names = names.trim_end_matches('}').split(", ");
    names.map(|name| format!("{module}{name}")).collect()
}

fn is_allowed(may_use: &[String], target: &[String]) -> bool {
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
fn a_way_round_through_another_module_is_found() {
    let text = "use crate::exec::Site;\npub use self::own::Name;\npub use crate::exec::agent::reader;\n\
                pub(super) use crate::engine::{\n    Engine,\n};\nfn a() { crate::exec::b(); }\n";
    let of = |inside: &str| found(passed_on, &format!("{PROGRAM}{inside}"), text);
    let lines = |inside: &str| [3, 5].map(|line| format!("{PROGRAM}{inside}:{line}: {RULE}"));
    assert_eq!(of("ops/agents.rs"), lines("ops/agents.rs"));
    assert_eq!(of("cli/up.rs"), lines("cli/up.rs"), "the wiring, too");
    let listed = "pub use crate::exec::agent::AgentKind;\n";
    assert_eq!(found(passed_on, &format!("{PROGRAM}ops/agents.rs"), listed), [""; 0]);
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
    assert_eq!(found(violations, path, "use crate::store::query::Detail;"), [""; 0]);
    assert_eq!(
        found(violations, path, "use crate::store::{query::Detail, apply::apply};").len(),
        1
    );
    assert_eq!(found(violations, path, "use crate::store::notices::NewNotice;").len(), 1);
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
fn one_file_of_the_command_line_opens_the_store() {
    let check = |path: &str| found(violations, path, "use crate::store::Store;").len();
    assert_eq!(check("crates/banksman/src/cli/context.rs"), 0);
    assert_eq!(check("crates/banksman/src/cli/list.rs"), 1);
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
