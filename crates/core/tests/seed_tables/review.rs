//! A reviewer's seat: one verdict on the work of another task.

use banksman_core::lifecycle::Kind::{Cancelled, Done, Failed, Queued, Working};
use banksman_core::lifecycle::Since::Entry;

use super::{Table, compare};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "review",
    initial: "pending",
    roles: &["reviewer"],
    states: &[
        ("pending", Queued),
        ("reviewing", Working),
        ("answered", Done),
        ("silent", Failed),
        ("withdrawn", Cancelled),
    ],
    terminal: &["answered", "silent", "withdrawn"],
    moves: &[
        ("pending", "reviewing", "claim", &["reviewer", "system"], ""),
        ("pending", "withdrawn", "close", &["human", "system"], ""),
        ("reviewing", "answered", "answered", &["system"], ""),
        ("reviewing", "silent", "unanswered", &["system"], "compute diagnostic"),
        ("reviewing", "withdrawn", "close", &["human", "system"], ""),
    ],
    timed: &[
        ("pending", "silent", "timeout", "2h", Entry, "set diagnostic=nobody was free to review it"),
        ("reviewing", "silent", "timeout", "10min", Entry, "set diagnostic=it took longer than it may"),
    ],
    requires: &[("answered", &["answer"])],
    does: &[
        (
            "reviewing",
            "agent",
            &[
                ("succeeded", "answered"),
                ("quota", "again"),
                ("transient", "again"),
                ("stalled", "again"),
                ("crashed", "again"),
                ("verify_failed", "again"),
                ("otherwise", "unanswered"),
            ],
        ),
    ],
    effects: &[
        ("answered", "tell_parent, clean_up"),
        ("silent", "tell_parent, clean_up"),
        ("withdrawn", "tell_parent, clean_up"),
    ],
    counters: &[],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}
