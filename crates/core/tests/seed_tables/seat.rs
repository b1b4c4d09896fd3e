//! One reviewer's place on a panel (seed 000: ten minutes for a verdict, two retries after 30 and
//! 60 seconds, then none).

use banksman_core::lifecycle::Since::Entry;
use banksman_core::lifecycle::StateKind::{Blocked, Cancelled, Done, Failed, Queued, Working};

use super::{Table, compare};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "seat",
    initial: "pending",
    roles: &["reviewer"],
    states: &[
        ("pending", Queued),
        ("reviewing", Working),
        ("resting(once)", Blocked),
        ("resting(twice)", Blocked),
        ("answered", Done),
        ("silent", Failed),
        ("withdrawn", Cancelled),
    ],
    terminal: &["answered", "silent", "withdrawn"],
    moves: &[
        ("pending", "reviewing", "claim", &["reviewer", "system"], ""),
        ("reviewing", "answered", "answered", &["system"], "clear diagnostic"),
        ("reviewing", "resting(once)", "unanswered", &["system"], "compute diagnostic; count misses"),
        ("resting(once)", "resting(twice)", "rest_longer", &["system"], ""),
        ("resting(once)", "pending", "retry", &["human"], ""),
        ("resting(twice)", "pending", "retry", &["human"], ""),
        ("pending", "withdrawn", "close", &["human", "system"], ""),
        ("reviewing", "withdrawn", "close", &["human", "system"], ""),
        ("resting(once)", "withdrawn", "close", &["human", "system"], ""),
        ("resting(twice)", "withdrawn", "close", &["human", "system"], ""),
    ],
    timed: &[
        ("pending", "silent", "timeout", "30min", Entry, "set diagnostic=nobody was free to review it"),
        ("reviewing", "resting(once)", "timeout", "10min", Entry, "set diagnostic=it took longer than it may; count misses"),
        ("resting(once)", "pending", "rested", "30s", Entry, ""),
        ("resting(twice)", "pending", "rested", "60s", Entry, ""),
    ],
    requires: &[("answered", &["answer"])],
    does: &[
        ("reviewing", "agent", &[("succeeded", "answered"), ("quota", "again"), ("otherwise", "unanswered")]),
        ("resting(once)", "wait", &[("met", "rest_longer")]),
    ],
    effects: &[
        ("answered", "tell_parent, clean_up"),
        ("silent", "tell_parent, clean_up"),
        ("withdrawn", "tell_parent, clean_up"),
    ],
    counters: &[("misses", Some(3), Some("silent"))],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}
