//! No file of the program spells a name of the contract with a lifecycle: it uses the typed one.
//!
//! The list below has the only exceptions: words that mean something else where they stand.

use std::collections::BTreeSet;

use banksman_core::lifecycle::contract::{
    AgentRole, AnswerName, ContractRow, CounterName, DrivenBy, Field, LaunchMode, Note,
    SettingName, Trigger,
};

use super::source::{SourceFile, Violation, found, load_tree};

/// The files that declare the names.
const CONTRACT: &str = "core/src/lifecycle/contract";
/// Words of agents.
const WIRE_FORMATS: &str = "banksman/src/exec/agent/";

/// What words mean instead, the words, and the files where they mean that.
type Homonym = (&'static str, &'static [&'static str], &'static [&'static str]);

const HOMONYMS: &[Homonym] = &[
    (
        "answers and verdicts, as people and agents type them",
        &[
            "abort",
            "allow",
            "approve",
            "back",
            "backburner",
            "cancel",
            "changes",
            "fail",
            "feedback",
            "merge",
            "pass",
            "resume",
            "veto",
            "yes",
        ],
        &[
            "banksman/src/cli/agents.rs",
            "banksman/src/cli/decisions.rs",
            "banksman/src/cli/hints.rs",
            "banksman/src/ops/decisions/answer.rs",
            "banksman/src/cli/workflow/simulate.rs",
            "banksman/src/ops/decisions/verdicts.rs",
        ],
    ),
    (
        "reports about a step, as people type them",
        &["abort", "fail", "pass", "retry", "skip", "veto"],
        &["banksman/src/ops/workflows.rs"],
    ),
    (
        "names and keys of signal files",
        &["error", "fail", "feedback", "note", "pass", "reason"],
        &["banksman/src/exec/mailbox/signals.rs"],
    ),
    (
        "options of the command line",
        &["limit", "note", "workflow"],
        &[
            "banksman/src/cli/changes.rs",
            "banksman/src/cli/decisions/answer.rs",
            "banksman/src/cli/workflow/status.rs",
        ],
    ),
    ("a level of proof", &["verified"], &["core/src/failure.rs"]),
    (
        "the model and the role of agents, in settings, templates and expressions",
        &["model", "role"],
        &[
            "banksman/src/config/agents.rs",
            "banksman/src/config/keys.rs",
            "banksman/src/config/panel.rs",
            "banksman/src/engine/prompt.rs",
            "banksman/src/ops/decisions/verdicts.rs",
            "banksman/src/prompts.rs",
            "core/src/failure.rs",
            "core/src/lifecycle/check.rs",
            "core/src/lifecycle/names.rs",
            "core/src/panel/registry.rs",
        ],
    ),
    (
        "names of templates, of fragments and of settings",
        &["allow", "spike", "subtasks"],
        &[
            "banksman/src/config/panel.rs",
            "banksman/src/engine/job.rs",
            "banksman/src/prompts.rs",
            "core/src/lifecycle/builtin.rs",
        ],
    ),
    (
        "what is counted in a message",
        &["error", "learnings", "problem", "spike", "step", "subtask", "subtasks"],
        &[
            "banksman/src/cli/audit.rs",
            "banksman/src/cli/check.rs",
            "banksman/src/cli/lifecycle/lint.rs",
            "banksman/src/cli/workflow/lint.rs",
            "banksman/src/cli/workflow/run.rs",
            "banksman/src/ops/daily/gather.rs",
            "core/src/lifecycle/problem.rs",
            "core/src/plan.rs",
            "core/src/plan/proposal.rs",
            "core/src/workflow/check.rs",
        ],
    ),
    (
        "labels of a log and of a run",
        &["agent", "answer", "note", "resume", "used"],
        &[
            "banksman/src/cli/attach.rs",
            "banksman/src/cli/log/render.rs",
            "banksman/src/cli/status.rs",
            "banksman/src/exec/keeper/status.rs",
        ],
    ),
    (
        "operations on a file",
        &["create", "open"],
        &[
            "banksman/src/cli/demo.rs",
            "banksman/src/cli/files.rs",
            "banksman/src/cli/man.rs",
            "banksman/src/cli/mcp.rs",
            "banksman/src/exec/keeper/folder.rs",
            "banksman/src/exec/mailbox.rs",
            "banksman/src/exec/mailbox/audit.rs",
            "banksman/src/exec/note.rs",
            "banksman/src/exec/site/local.rs",
            "banksman/src/store/conn/sqlite/open.rs",
        ],
    ),
    (
        "keys of settings",
        &["agent", "brief", "node", "pass"],
        &[
            "banksman/src/config.rs",
            "banksman/src/config/agents.rs",
            "banksman/src/config/keys.rs",
            "banksman/src/config/panel.rs",
        ],
    ),
    (
        "prompts and their variables",
        &[
            "brief",
            "evaluator",
            "feedback",
            "plan",
            "planner",
            "reason",
            "reviewer",
            "round",
            "rounds",
            "signal",
            "step",
            "worker",
        ],
        &[
            "banksman/src/engine/panel/prompts.rs",
            "banksman/src/engine/prompt.rs",
            "banksman/src/prompts.rs",
        ],
    ),
    ("parameters of tools", &["reason", "step"], &["banksman/src/mcp/tools.rs"]),
    (
        "kinds of notices, reasons and outcomes",
        &["agent", "merged", "no_worker", "over_budget", "person", "reason", "sent_back", "signal"],
        &[
            "banksman/src/ops/why.rs",
            "banksman/src/store/notices.rs",
            "core/src/lifecycle/mod.rs",
            "core/src/schedule/ineligible.rs",
        ],
    ),
    (
        "ids of lifecycles, and the keys of files",
        &["agent", "answer", "reason", "reset", "reviewer", "signal", "step", "workflow"],
        &[
            "core/src/daily.rs",
            "core/src/lifecycle/builtin.rs",
            "core/src/lifecycle/source.rs",
            "core/src/panel/fields.rs",
            "core/src/workflow/expand.rs",
            "core/src/workflow/gates.rs",
        ],
    ),
    ("the labels of a drawing's edges", &["fail", "pass"], &["core/src/workflow/graph.rs"]),
    (
        "words in texts, commands and paths of others",
        &["error", "node", "retry", "tests", "verify"],
        &[
            "core/src/quota/prose.rs",
            "core/src/quota/reset.rs",
            "core/src/schedule/areas.rs",
            "core/src/workflow/criterion.rs",
        ],
    ),
    ("a trigger of the demo's own lifecycle", &["merged"], &["banksman/src/cli/demo.rs"]),
    ("the name of a reconciler", &["unblock"], &["banksman/src/engine/mod.rs"]),
    ("the name of an actor", &["signal"], &["banksman/src/engine/signals.rs"]),
    ("the plan among its own subtasks", &["plan"], &["banksman/src/engine/planning.rs"]),
    ("a command", &["resume"], &["banksman/src/cli/pause.rs"]),
    (
        "operations with a key",
        &["answer", "import"],
        &["banksman/src/ops/decisions/answer.rs", "banksman/src/ops/transfer.rs"],
    ),
    ("the rank of an agent", &["lead"], &["core/src/policy.rs"]),
    ("a level of proof", &["verified"], &["core/src/failure.rs"]),
    ("the name of a lock", &["merges"], &["banksman/src/exec/merge.rs"]),
    (
        "an activity, and an operation of git",
        &["merge"],
        &[
            "banksman/src/exec/keeper/status.rs",
            "banksman/src/exec/worktree/merging.rs",
            "banksman/src/exec/worktree/recover.rs",
            "banksman/src/ops/why.rs",
            "core/src/daily.rs",
            "core/src/lifecycle/mod.rs",
            "core/src/receipt.rs",
        ],
    ),
];

fn names() -> BTreeSet<&'static str> {
    fn of<T>(rules: &'static [ContractRow<T>]) -> impl Iterator<Item = &'static str> {
        rules.iter().flat_map(|rule| [rule.name].into_iter().chain(rule.former))
    }
    let words =
        [&AgentRole::NAMES[..], &DrivenBy::NAMES, &LaunchMode::NAMES, &Note::NAMES].concat();
    let rules = of(Trigger::RULES).chain(of(Field::RULES));
    let rules = rules.chain(of(CounterName::RULES)).chain(of(AnswerName::RULES));
    rules.chain(of(SettingName::RULES)).chain(words).collect()
}

/// The words of the contract that a file spells, with their places.
fn words(file: &SourceFile) -> Vec<(usize, &str)> {
    let inside = file.path.strip_prefix("crates/").unwrap_or_default();
    let is_source = inside.starts_with("banksman/src/") || inside.starts_with("core/src/");
    if !is_source || inside.starts_with(CONTRACT) || inside.starts_with(WIRE_FORMATS) {
        return Vec::new();
    }
    let names = names();
    let literals = file.literals.iter().map(|literal| (literal.offset, literal.text.as_str()));
    literals.filter(|(at, word)| names.contains(word) && !file.is_test_at(*at)).collect()
}

fn is_homonym(path: &str, word: &str) -> bool {
    let path = path.strip_prefix("crates/").unwrap_or_default();
    HOMONYMS.iter().any(|(_, words, files)| words.contains(&word) && files.contains(&path))
}

pub(super) fn spelled(file: &SourceFile) -> Vec<Violation> {
    let says = "use the typed name of `banksman_core::lifecycle::contract`";
    let mut words = words(file);
    words.retain(|(_, word)| !is_homonym(&file.path, word));
    words.iter().map(|(at, _)| file.violation(*at, "spelled contract", says)).collect()
}

#[test]
fn a_spelled_name_is_found() {
    let text = "fn a() {\n    b(\"pr_url\");\n    b(\"close\");\n    b(\"parts_open\");\n}\n";
    let of = |path: &str| found(spelled, path, text).len();
    for path in ["engine/a.rs", "ops/a.rs", "cli/a.rs", "mcp/a.rs", "a.rs"] {
        assert_eq!(of(&format!("crates/banksman/src/{path}")), 3, "{path}");
    }
    assert_eq!(of("crates/core/src/machine/a.rs"), 3);
    assert_eq!(of("crates/banksman/src/exec/agent/a.rs"), 0);
    assert_eq!(of("crates/core/tests/a.rs"), 0);
    let homonym = "fn a() {\n    b(\"open\");\n    b(\"close\");\n}\n";
    assert_eq!(found(spelled, "crates/banksman/src/cli/files.rs", homonym).len(), 1);
}

/// An exception that is no longer needed would hide the next name.
#[test]
fn every_homonym_stands_somewhere() {
    let tree = load_tree();
    let spelled = |path: &str| -> BTreeSet<&str> {
        let file = tree.iter().find(|file| file.path.strip_prefix("crates/") == Some(path));
        file.map(words).into_iter().flatten().map(|(_, word)| word).collect()
    };
    for (meaning, words, files) in HOMONYMS {
        let mut found = BTreeSet::new();
        for path in *files {
            let own: BTreeSet<&str> =
                spelled(path).into_iter().filter(|word| words.contains(word)).collect();
            assert!(!own.is_empty(), "{meaning}: none of them is in {path}");
            found.extend(own);
        }
        let listed: BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(found, listed, "{meaning}");
    }
}
