//! Every question to people has a deadline, whatever it is about, so that the inbox can say of each what happens without an answer.

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
            let mut bounds = lifecycle.exits(id).filter_map(|row| row.bound);
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
