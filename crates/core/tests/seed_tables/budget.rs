//! The question about a budget of a day or of a batch. No seed has it; the rule that budgets are
//! decided by people does.

use banksman_core::lifecycle::Since::Entry;
use banksman_core::lifecycle::StateKind::{Cancelled, Done, Waiting};
use banksman_core::lifecycle::check::Overrides;
use serde_json::json;

use super::play::{Play, errors};
use super::{NONE, Rows, Table};

#[rustfmt::skip] // One row, one line: it is read as a table.
pub(super) const TABLE: Table = Table {
    name: "budget",
    initial: "asking",
    roles: &[],
    seed: &[],
    pending: &[],
    added: Rows {
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
            ("asking", "refused", "cancel", &["human"], "set refused=true"),
            ("asking", "closed", "close", &["system"], "set reason=the budget is no longer used up"),
        ],
        timed: &[("asking", "closed", "lapse", "7d", Entry, "set reason=nobody has answered")],
        requires: &[("asking", &["scope", "problem"])],
        does: &[("asking", "human", &[("approve", "go_on"), ("cancel", "stop")])],
        effects: &[("asking", "alert")],
        ..NONE
    },
};

/// What is asked and what a yes adds is not for anybody to write who could also say yes.
#[test]
fn only_the_system_asks() {
    let fields = json!({ "scope": "day:2026-03-01", "problem": "more?" });
    let refused = Play::born("budget", &Overrides::new(), fields).map(|_| "born");
    let complaints = errors(refused);
    let expected = ["problem: may be set only by system", "scope: may be set only by system"];
    assert_eq!(complaints[..2], expected, "{complaints:?}");
}
