//! Every question to people has a deadline, so that the inbox can say what happens without an
//! answer. Questions after a failure come with a reminder first.

use std::collections::BTreeSet;
use std::sync::Arc;

use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::lifecycle::contract::{AnswerRole, Field, Trigger};
use banksman_core::lifecycle::{
    Activity, Outcome, RoleId, Route, Setting, Since, State, StateId, StateKind, Transition,
    TransitionTarget,
};
use banksman_core::machine::{
    Event, NewTask, RejectReason, Rejected, StepResult, TaskUpdate, TransitionRequest,
};
use serde_json::json;

use crate::random::every_lifecycle;
use crate::walk::{asking, born, complaints};
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
    assert_eq!(asked, 22);
}

/// Accepted work whose merge is hindered has nothing left to be done by an agent, so no answer that
/// lets it go on pays for a run.
#[test]
fn an_answer_about_a_hindered_merge_starts_no_agent() {
    let mut answers = 0;
    for lifecycle in every_lifecycle() {
        let reaches = |from: StateId, trigger: &str, role: RoleId| -> Vec<StateId> {
            let rows = lifecycle.exits(from).filter(|row| row.trigger == trigger);
            let rows = rows.filter(|row| row.roles.contains(&role));
            let target = |row: &Transition| match row.to {
                TransitionTarget::State(to) => Some(to),
                TransitionTarget::Prior => None,
            };
            rows.filter_map(target).collect()
        };
        for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
            let merges = state.does.as_ref().filter(|does| does.activity == Activity::Merge);
            let Some(Route::Trigger(fails)) =
                merges.and_then(|does| does.route(Outcome::Exhausted))
            else {
                continue;
            };
            for asked in reaches(id, fails, RoleId::SYSTEM) {
                let offers = lifecycle.state(asked).does.iter().flat_map(|does| &does.offers);
                for (action, trigger) in offers {
                    if lifecycle.answer_role(asked, action, trigger) != AnswerRole::GoOn {
                        continue;
                    }
                    for to in reaches(asked, trigger, RoleId::HUMAN) {
                        let to = lifecycle.state(to);
                        let activity = to.does.as_ref().map(|does| does.activity);
                        answers += 1;
                        assert!(
                            to.kind != StateKind::Queued && activity != Some(Activity::Agent),
                            "{}: `{action}` in {} leads to {}",
                            lifecycle.id,
                            lifecycle.state(asked).name,
                            to.name
                        );
                    }
                }
            }
        }
    }
    assert!(answers > 5, "{answers}");
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

const ASKED_AT_WORK: &str = "
lifecycle: asked
purpose: task
initial: queued
roles: [worker, lead]
settings: { lead_may_approve: false }
states:
  queued: { kind: queued }
  asking:
    kind: working
    does: { activity: human, asks: Go on?, offers: { approve: finish } }
    timeouts: [{ after: 1d, to: done }]
  done: { kind: done }
transitions:
  - { from: queued, to: asking, on: claim, by: [worker, lead] }
  - { from: asking, to: done, on: finish, by: [human, worker, lead] }
  - { from: asking, to: queued, on: hand_back, by: [worker, lead] }
";

/// The task of a run of `role` that holds its lease while people are asked, and what the machine
/// says to a transition that the run asks for.
fn asked_by_run(role: &str, trigger: &str, leads: bool) -> Result<TaskUpdate, Rejected> {
    let overrides = Overrides::from([("lead_may_approve".to_owned(), Setting::Flag(leads))]);
    let lifecycle = check(ASKED_AT_WORK, "asked", &overrides).expect("it is sound");
    let mut world = born(Arc::new(lifecycle), NewTask::default());
    world.is_claimed_by(role, "asking");
    let ask = TransitionRequest {
        epoch: Some(world.task.epoch),
        ..asking(role, &format!("on {trigger}"), json!({}))
    };
    let stepped = world.meet(&Event::Asked(ask))?;
    let StepResult::Step(step) = stepped else { panic!("{stepped:?}") };
    Ok(*step)
}

/// Whatever roles the row of an answer names, only a person's word counts, or a lead's where the
/// project says so.
#[test]
fn a_run_does_not_answer_the_question_that_people_are_asked() {
    let refused = asked_by_run("worker:ada", "finish", true).expect_err("it is a person's answer");
    assert_eq!(
        (refused.why, complaints(&refused)),
        (
            RejectReason::Forbidden,
            vec!["actor: the run may not answer the question about t1; human may".to_owned()]
        )
    );
    asked_by_run("lead:lea", "finish", false).expect_err("leads may not approve here");
    asked_by_run("lead:lea", "finish", true).expect("leads may approve here");
    asked_by_run("worker:ada", "hand_back", false).expect("that answers nothing");
}

/// `cancel` works wherever a task is that has not ended, and asks for nothing but a reason. A merge
/// is taken back first: from where one runs, it leads to where it is stopped.
#[test]
fn every_task_can_be_cancelled_until_it_ends() {
    for lifecycle in every_lifecycle() {
        for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
            if state.terminal || state.kind == StateKind::Done {
                continue;
            }
            let name = format!("{} {}", lifecycle.id, state.name);
            let is_cancel = |row: &&Transition| {
                row.trigger == Trigger::Cancel.name() && row.roles.contains(&RoleId::HUMAN)
            };
            let row = lifecycle.exits(id).find(is_cancel).unwrap_or_else(|| panic!("{name}"));
            let asks_more = row.guards.iter().any(|guard| guard.field != Field::Reason.name());
            assert!(!asks_more, "{name} asks for more than a reason");
            let TransitionTarget::State(to) = row.to else { panic!("{name} leads back") };
            let to = lifecycle.state(to);
            let merges = |state: &State| state.activity() == Some(Activity::Merge);
            // A workflow is aborted at once, also while it merges.
            let runs = merges(state)
                && lifecycle.id != "workflow"
                && state.does.as_ref().is_some_and(|does| !does.only_checks());
            assert_eq!(runs, runs && merges(to), "{name} is cancelled while it is merged");
            let is_end = matches!(to.kind, StateKind::Cancelled | StateKind::Failed);
            assert!(is_end || merges(to), "{name} goes on in {}", to.name);
        }
    }
}
