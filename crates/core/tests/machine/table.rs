//! The whole table of each built-in lifecycle, state by state and role by role, so that a review
//! shows every change of permissions. `INSTA_UPDATE=always` rewrites the files.

use std::fmt::Write;

use banksman_core::lifecycle::{Lifecycle, RoleId, Since, StateId, Transition, TransitionTarget};

use crate::random::every_lifecycle;

#[test]
fn who_may_do_what() {
    for lifecycle in every_lifecycle() {
        insta::assert_snapshot!(lifecycle.id.clone(), table(&lifecycle));
    }
}

fn table(lifecycle: &Lifecycle) -> String {
    let mut text = String::new();
    for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
        let end = match (state.terminal, state.provisional) {
            (true, _) => ", the end",
            (false, true) => ", provisional",
            (false, false) => "",
        };
        let back = if state.remembers { ", remembers where it came from" } else { "" };
        line(&mut text, &format!("{} ({}{end}{back})", state.name, state.kind));
        for (role, name) in (0_u16..).map(RoleId).zip(&lifecycle.roles) {
            let moves: Vec<String> =
                rows(lifecycle, id, role).map(|row| moved(lifecycle, row)).collect();
            if !moves.is_empty() {
                line(&mut text, &format!("  {name}: {}", moves.join(", ")));
            }
        }
        for (row, bound) in
            lifecycle.exits(id).filter_map(|row| row.timeout.map(|bound| (row, bound)))
        {
            let since = match bound.since {
                Since::Entry => "",
                Since::Progress => " without progress",
            };
            line(&mut text, &format!("  after {}{since}: {}", bound.time, moved(lifecycle, row)));
        }
    }
    text
}

fn line(text: &mut String, words: &str) {
    writeln!(text, "{words}").expect("a String takes everything");
}

fn rows(lifecycle: &Lifecycle, from: StateId, role: RoleId) -> impl Iterator<Item = &Transition> {
    lifecycle.exits(from).filter(move |row| row.timeout.is_none() && row.roles.contains(&role))
}

/// `trigger -> target`, with its guards and diversions.
fn moved(lifecycle: &Lifecycle, row: &Transition) -> String {
    let mut text = format!("{} -> {}", row.trigger, lifecycle.target_name(row.to));
    let guards: Vec<&str> = row.guards.iter().map(|guard| guard.field.as_str()).collect();
    if !guards.is_empty() {
        text.push_str(&format!(" if {}", guards.join(" and ")));
    }
    for counter in row.changes.count.iter().map(|id| lifecycle.counter(*id)) {
        let limit = counter.limit.map_or(String::new(), |limit| format!(" up to {limit}"));
        let then = counter
            .then
            .map_or(String::new(), |then| format!(", then {}", lifecycle.state(then).name));
        text.push_str(&format!(" [{}{limit}{then}]", counter.name));
    }
    text
}

/// People read the table, so it must not be empty: every state except an end has a line with its
/// own transitions.
#[test]
fn the_table_has_a_line_for_every_way_out() {
    for lifecycle in every_lifecycle() {
        let text = table(&lifecycle);
        for row in &lifecycle.transitions {
            let to = match row.to {
                TransitionTarget::State(to) => lifecycle.state(to).name.as_str(),
                TransitionTarget::Prior => "[prior]",
            };
            assert!(
                text.contains(&format!("{} -> {to}", row.trigger)),
                "{}: {} -> {to}",
                lifecycle.id,
                row.trigger
            );
        }
        let ends = lifecycle.states.iter().filter(|state| state.terminal);
        assert_eq!(ends.count(), text.matches(", the end").count(), "{}", lifecycle.id);
    }
}
