//! A subtask of an approved plan. No seed has this lifecycle: it is `autonomous` from the approval
//! on, so its table is derived from that one, and only a subtask's own rows are written down here.

use super::{Doing, Move, Rows, Table, Text, autonomous};

/// States of the phases that are over when a subtask is created.
const PHASES: [&str; 5] = ["active", "decomposing", "consensus", "consensus(unserved)", "waiting"];
/// Triggers of a task that has subtasks, and the answer for one of them.
const OF_PARENTS: [&str; 2] = ["children_moved", "go_without"];
/// Fields and counters of planning, and of a task that has subtasks.
const OF_PLANNING: [&str; 9] = [
    "split",
    "children_asked",
    "children_cancelled",
    "checkpoint",
    "irreducible",
    "left_out",
    "depth",
    "blocks",
    "unheard",
];

#[rustfmt::skip] // One row, one line: it is read as a table.
const OWN_MOVES: [Move; 15] = [
    ("pending", "in_progress", "claim", &["worker"], "compute assignee, worker_id; clear confirmation"),
    ("pending", "blocked", "escalate", &["human"], "set asked=true"),
    ("pending", "dormant", "backburner", &["human"], ""),
    ("in_progress", "done", "pr_filed", &["system"], "if spike; keep findings"),
    ("failed", "merge_ready", "reset", &["system"], "if retry_from; clear diagnostic, retry_from"),
    ("failed", "pending", "reset", &["system"], "clear assignee, worker_id, pr_url, pr_head, merged, problem, objection, blocked_on, asked; count retry_count"),
    // What is just being merged is not closed: whether it is in the base is known when that is
    // over.
    ("pending", "cancelled", "close", &["system"], CLOSED),
    ("in_progress", "cancelled", "close", &["system"], CLOSED),
    ("review", "cancelled", "close", &["system"], CLOSED),
    ("review(unserved)", "cancelled", "close", &["system"], CLOSED),
    ("merge_ready", "cancelled", "close", &["system"], CLOSED),
    ("merge_ready(approved)", "cancelled", "close", &["system"], CLOSED),
    ("blocked", "cancelled", "close", &["system"], CLOSED),
    ("dormant", "cancelled", "close", &["system"], CLOSED),
    ("failed", "cancelled", "close", &["system"], CLOSED),
];
const CLOSED: &str = "set reason=its parent has ended";

const OWN_EFFECTS: [(Text, Text); 10] = [
    ("pending", "tell_parent"),
    ("in_progress", "tell_parent"),
    ("review", "tell_parent"),
    ("review(unserved)", "tell_parent"),
    ("merge_ready", "notify, tell_parent"),
    ("done", "tell_parent, clean_up"),
    ("blocked", "notify, tell_parent"),
    ("dormant", "tell_parent"),
    ("failed", "alert, tell_parent, clean_up"),
    ("cancelled", "tell_parent, clean_up"),
];

/// A table is made of texts that never go away, so the derived ones stay until the test is over.
pub(super) fn table() -> Table {
    let whole = autonomous::TABLE;
    let stays = |state: &str| !PHASES.contains(&state);
    let states = whole.all(|rows| rows.states).into_iter().filter(|(name, _)| stays(name));
    let moves = whole.all(|rows| rows.moves).into_iter().filter(|(from, to, trigger, ..)| {
        stays(from) && stays(to) && !OF_PARENTS.contains(trigger)
    });
    let moves =
        moves.map(|(from, to, on, by, wants)| (*from, *to, *on, *by, without_planning(wants)));
    let timed = whole.all(|rows| rows.timed).into_iter();
    let timed = timed.filter(|row| stays(row.0) && stays(row.1) && row.0 != ASKED_BY_PARENT);
    let requires = whole.all(|rows| rows.requires).into_iter();
    let requires = requires.filter(|(state, _)| stays(state) && *state != whole.initial);
    let does = whole.all(|rows| rows.does).into_iter();
    let does = does.filter(|(state, ..)| stays(state) && *state != ASKED_BY_PARENT);
    let counters = whole.all(|rows| rows.counters).into_iter();
    Table {
        name: "leaf",
        seed: &[],
        pending: &[],
        added: Rows {
            states: states.copied().collect::<Vec<_>>().leak(),
            terminal: &["done", "cancelled"],
            moves: moves.chain(OWN_MOVES).collect::<Vec<_>>().leak(),
            timed: timed.copied().collect::<Vec<_>>().leak(),
            requires: requires
                .copied()
                .chain([("pending", &["subtask"][..])])
                .collect::<Vec<_>>()
                .leak(),
            does: does.map(answered_by_it).collect::<Vec<_>>().leak(),
            effects: &OWN_EFFECTS,
            counters: counters
                .filter(|(name, ..)| !OF_PLANNING.contains(name))
                .copied()
                .collect::<Vec<_>>()
                .leak(),
        },
        ..whole
    }
}

/// A subtask that failed is a matter of its parent, which asks with a deadline of its own.
const ASKED_BY_PARENT: &str = "failed";

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
