//! The review of one reviewer of a panel (seed 000).

use banksman_core::lifecycle::Since::Entry;
use banksman_core::lifecycle::StateKind::{Blocked, Cancelled, Done, Failed, Queued, Working};

use super::{NONE, Quote, Rows, Table, moves, timed};

#[rustfmt::skip] // One row, one line: it is read as a table.
const SEED: &[Quote] = &[
    ("Else wait for all (with individual 10min timeouts)", timed(&[
        ("reviewing", "resting(once)", "timeout", "10min", Entry, "set diagnostic=the time limit is reached; count misses"),
    ])),
    ("If ANY returns BLOCK: short-circuit, cancel pending reviewers, return to `decomposing`", moves(&[
        ("pending", "withdrawn", "close", &["human", "system"], ""),
        ("pending", "withdrawn", "cancel", &["human"], ""),
        ("reviewing", "withdrawn", "close", &["human", "system"], ""),
        ("reviewing", "withdrawn", "cancel", &["human"], ""),
        ("resting(once)", "withdrawn", "close", &["human", "system"], ""),
        ("resting(once)", "withdrawn", "cancel", &["human"], ""),
        ("resting(twice)", "withdrawn", "close", &["human", "system"], ""),
        ("resting(twice)", "withdrawn", "cancel", &["human"], ""),
    ])),
    // The first question and two more.
    ("| Reviewer invocation | 2 | 30s, 60s | Timeout verdict |", Rows {
        timed: &[
            ("resting(once)", "pending", "rested", "30s", Entry, ""),
            ("resting(twice)", "pending", "rested", "60s", Entry, ""),
        ],
        counters: &[("misses", Some(3), Some("silent"))],
        ..NONE
    }),
];

/// The seed has the rules of a reviewer, but no states for one.
#[rustfmt::skip] // One row, one line: it is read as a table.
const ADDED: Rows = Rows {
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
    ],
    timed: &[("pending", "silent", "timeout", "30min", Entry, "set diagnostic=no reviewer was free")],
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
    counters: &[],
};

pub(super) const TABLE: Table = Table {
    name: "review",
    initial: "pending",
    roles: &["reviewer"],
    seed: SEED,
    pending: &[],
    added: ADDED,
};
