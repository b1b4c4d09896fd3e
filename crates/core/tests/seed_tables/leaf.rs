//! A subtask of an approved plan: what the default lifecycle says from the approval on, and what
//! its parent asks of it.
//!
//! Its table is the default one without the first three phases and their fields; only the subtask's
//! own rows are written here.

use super::{Doing, Move, Table, Text, Timed, autonomous, compare};

/// States of the phases that are over when a subtask is created.
const PHASES: [&str; 4] = ["active", "decomposing", "consensus", "waiting"];
/// Triggers of a task with subtasks, and the answer for one of them.
const OF_PARENTS: [&str; 2] = ["parts_moved", "go_without"];
/// Fields and counters of planning, and of a task with subtasks.
const OF_PLANNING: [&str; 7] =
    ["split", "parts_asked", "checkpoint", "irreducible", "left_out", "depth", "blocks"];

#[rustfmt::skip] // One row, one line: it is read as a table.
const OWN_MOVES: [Move; 14] = [
    ("pending", "in_progress", "claim", &["worker"], "compute assignee, worker_id; clear confirmation"),
    ("pending", "blocked", "escalate", &["human"], "set asked=true"),
    ("pending", "dormant", "backburner", &["human"], ""),
    ("in_progress", "done", "pr_filed", &["system"], "if spike; keep findings"),
    ("failed", "merge_ready", "reset", &["system"], "if diagnostic; clear diagnostic"),
    ("failed", "pending", "reset", &["system"], "clear assignee, worker_id, pr_url, pr_head, merged, problem, objection, asked; count retry_count"),
    // A subtask that is being merged is not closed: its result is known when the merge ends.
    ("pending", "cancelled", "close", &["system"], CLOSED),
    ("in_progress", "cancelled", "close", &["system"], CLOSED),
    ("review", "cancelled", "close", &["system"], CLOSED),
    ("merge_ready", "cancelled", "close", &["system"], CLOSED),
    ("merge_ready(approved)", "cancelled", "close", &["system"], CLOSED),
    ("blocked", "cancelled", "close", &["system"], CLOSED),
    ("dormant", "cancelled", "close", &["system"], CLOSED),
    ("failed", "cancelled", "close", &["system"], CLOSED),
];
const CLOSED: &str = "set reason=what it is part of has come to an end";

const OWN_EFFECTS: [(Text, Text); 9] = [
    ("pending", "tell_parent"),
    ("in_progress", "tell_parent"),
    ("review", "tell_parent"),
    ("merge_ready", "notify, tell_parent"),
    ("done", "tell_parent, clean_up"),
    ("blocked", "notify, tell_parent"),
    ("dormant", "tell_parent"),
    ("failed", "alert, tell_parent, clean_up"),
    ("cancelled", "tell_parent, clean_up"),
];

/// A table consists of `'static` texts, so texts that are built here are leaked for the test.
pub(super) fn table() -> Table {
    let whole = autonomous::TABLE;
    let stays = |state: &str| !PHASES.contains(&state);
    let moves = whole.moves.iter().filter(|(from, to, trigger, ..)| {
        stays(from) && stays(to) && !OF_PARENTS.contains(trigger)
    });
    let moves =
        moves.map(|(from, to, on, by, wants)| (*from, *to, *on, *by, without_planning(wants)));
    let timed = whole.timed.iter().filter(|row: &&Timed| stays(row.0) && stays(row.1));
    let requires =
        whole.requires.iter().filter(|(state, _)| stays(state) && *state != whole.initial);
    let does = whole.does.iter().filter(|(state, ..)| stays(state)).map(answered_by_it);
    let counters = whole.counters.iter().filter(|(name, ..)| !OF_PLANNING.contains(name));
    Table {
        name: "leaf",
        states: whole
            .states
            .iter()
            .filter(|(name, _)| stays(name))
            .copied()
            .collect::<Vec<_>>()
            .leak(),
        moves: moves.chain(OWN_MOVES).collect::<Vec<_>>().leak(),
        timed: timed.copied().collect::<Vec<_>>().leak(),
        requires: requires
            .copied()
            .chain([("pending", &["subtask"][..])])
            .collect::<Vec<_>>()
            .leak(),
        does: does.collect::<Vec<_>>().leak(),
        effects: &OWN_EFFECTS,
        counters: counters.copied().collect::<Vec<_>>().leak(),
        ..whole
    }
}

/// What a transition requires and changes, without the names that a subtask does not have.
fn without_planning(wants: &str) -> Text {
    let clause = |clause: &str| {
        let (word, names) = clause.split_once(' ')?;
        let kept: Vec<&str> =
            names.split(", ").filter(|name| !OF_PLANNING.contains(name)).collect();
        (!kept.is_empty()).then(|| format!("{word} {}", kept.join(", ")))
    };
    wants.split("; ").filter_map(clause).collect::<Vec<_>>().join("; ").leak()
}

fn answered_by_it(&(state, activity, routes): &Doing) -> Doing {
    let own = routes.iter().filter(|(_, trigger)| !OF_PARENTS.contains(trigger));
    (state, activity, own.copied().collect::<Vec<_>>().leak())
}

#[test]
fn the_lifecycle_is_the_table() {
    compare(&table());
}
