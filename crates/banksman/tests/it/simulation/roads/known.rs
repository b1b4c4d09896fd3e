//! Cells that are known not to keep the rules, each with the reason. One that keeps them has to
//! leave the list.

use super::Row;

const MISSION: &str = "only people move it; a matter of the agents of missions";

/// The scene, the name of a cell, or its beginning before a `*`, and why it does not keep the
/// rules.
const KNOWN: &[(&str, &str, &str)] = &[
    ("mission", "mission ASSIGNED: silence", MISSION),
    ("mission", "mission INBOX: no worker", MISSION),
    (
        "autonomous",
        "autonomous blocked: answer without",
        "it is offered where no subtask has failed; a matter of the decisions",
    ),
    (
        "supervised",
        "supervised blocked(unsettled): answer approve",
        "a stale run left no commit, and the inbox does not offer what the lifecycle would refuse",
    ),
    (
        "workflow",
        "workflow waiting: answer accept",
        "it is offered while steps are open; a matter of the decisions",
    ),
    (
        "autonomous",
        "review pending: no worker",
        "a review is claimed in the turn that creates it, so nobody leaves before",
    ),
];

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// Why a cell is known not to keep the rules.
pub(super) fn reason(scene: &str, row: &Row) -> Option<&'static str> {
    let name = row.name();
    let is_it = |(of, pattern, _): &&(&str, &str, &str)| *of == scene && fits(pattern, &name);
    KNOWN.iter().find(is_it).map(|(.., why)| *why)
}

pub(super) fn check(scene: &str, rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        match (row.broken.is_empty(), reason(scene, row)) {
            (false, None) => {
                wrong.push(format!("{}\n    {}", row.name(), row.broken.join("\n    ")));
            }
            (true, Some(_)) => wrong.push(format!("{} keeps the rules; take it off", row.name())),
            (true, None) | (false, Some(_)) => {}
        }
    }
    assert!(wrong.is_empty(), "{scene}: {} cells\n{}", wrong.len(), wrong.join("\n"));
}
