//! Every question to people has a deadline, so that the inbox can say what happens without an
//! answer. Questions after a failure come with a reminder first.

use std::collections::BTreeSet;

use banksman_core::lifecycle::{Since, StateId};

use crate::random::every_lifecycle;
use crate::world::asks_people;

#[test]
fn every_question_has_a_deadline() {
    let mut asked = 0;
    for lifecycle in every_lifecycle() {
        for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
            if !asks_people(&lifecycle, id) {
                continue;
            }
            asked += 1;
            let mut bounds = lifecycle.exits(id).filter_map(|row| row.timeout);
            let has_one = bounds.any(|bound| bound.since == Since::Entry);
            assert!(
                has_one,
                "nothing happens where nobody answers: {} {}",
                lifecycle.id, state.name
            );
        }
    }
    assert_eq!(asked, 15);
}

/// Nothing went wrong before these: work is handed in as planned, or a veto window is open for
/// minutes. A used-up budget is asked about again, with an alert, each time its question closes.
const NOT_REMINDED_OF: [(&str, &str); 4] = [
    ("mission", "REVIEW"),
    ("mission", "NEEDS_APPROVAL"),
    ("step", "gate(veto)"),
    ("budget", "asking"),
];

#[test]
fn every_question_that_can_be_an_escalation_is_reminded_of() {
    let mut silent = BTreeSet::new();
    for lifecycle in every_lifecycle() {
        for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
            let Some(remind) = &state.remind else {
                if asks_people(&lifecycle, id) {
                    silent.insert((lifecycle.id.clone(), state.name.clone()));
                }
                continue;
            };
            let days: Vec<String> = remind.after.iter().map(ToString::to_string).collect();
            assert_eq!(days, ["3d", "5d", "7d"], "{} {}", lifecycle.id, state.name);
        }
    }
    let named = NOT_REMINDED_OF.map(|(lifecycle, state)| (lifecycle.to_owned(), state.to_owned()));
    assert_eq!(silent, BTreeSet::from(named));
}
