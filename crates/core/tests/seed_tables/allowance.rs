//! The budget request of a day or a batch. No seed has it; it follows from the rule that people
//! decide about budgets.

use banksman_core::lifecycle::Since::Entry;
use banksman_core::lifecycle::StateKind::{Cancelled, Done, Waiting};
use banksman_core::lifecycle::check::Overrides;
use serde_json::json;

use super::play::{Play, errors};
use super::{Table, compare};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "allowance",
    initial: "asking",
    roles: &[],
    states: &[
        ("asking", Waiting),
        ("granted", Done),
        ("refused", Cancelled),
        ("closed", Cancelled),
    ],
    terminal: &["granted", "refused", "closed"],
    moves: &[
        ("asking", "granted", "go_on", &["human"], ""),
        ("asking", "refused", "stop", &["human"], "set refused=true"),
        ("asking", "closed", "close", &["system"], "set reason=the budget is not used up any more"),
    ],
    timed: &[("asking", "closed", "lapse", "7d", Entry, "set reason=nobody has answered")],
    requires: &[("asking", &["scope", "problem"])],
    does: &[("asking", "human", &[("approve", "go_on"), ("cancel", "stop")])],
    effects: &[("asking", "alert")],
    counters: &[],
};

#[test]
fn the_lifecycle_is_the_table() {
    compare(&TABLE);
}

/// Nobody who could approve the request may write what it asks for or what a yes adds.
#[test]
fn only_the_system_asks() {
    let fields = json!({ "scope": "day:2026-03-01", "problem": "more?" });
    let refused = Play::born("allowance", &Overrides::new(), fields).map(|_| "born");
    let complaints = errors(refused);
    let expected = ["problem: is not for this role to set", "scope: is not for this role to set"];
    assert_eq!(complaints[..2], expected, "{complaints:?}");
}
