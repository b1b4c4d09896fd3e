//! Who may move a mission from where to where: every cell of the seed's permission table, checked
//! against the machine.

use std::collections::BTreeSet;

use banksman_core::lifecycle::Setting;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Actor, HistoryNote};
use banksman_core::machine::{Event, StepResult};
use serde_json::{Value, json};

use crate::walk::{builtin_with, of_lifecycle, task_of};
use crate::world::World;

const STATES: [&str; 8] =
    ["INBOX", "ASSIGNED", "IN_PROGRESS", "REVIEW", "NEEDS_APPROVAL", "BLOCKED", "DONE", "CANCELED"];

/// Every field that any transition asks for. Superfluous ones do no harm.
fn everything() -> Value {
    json!({
        "workPlan": { "bullets": ["look", "change", "test"] },
        "deliverable": { "content": "a patch", "artifacts": [] },
        "reviewChecklist": { "type": "code", "items": [{ "name": "tests", "completed": true }] },
        "feedback": "once more",
        "approvalRequest": "more money",
        "decisionNote": "good",
        "blockReason": "the service is down",
    })
}

/// A mission in this state, assigned to ada and handed in by her; rob reviews it.
fn in_state(state: &str, lead_may_close: bool) -> World {
    let lifecycle = builtin_with("mission", &[("lead_may_approve", Setting::Flag(lead_may_close))]);
    let mut world = of_lifecycle(lifecycle, json!({ "reviewerIds": ["rob"] }));
    let way: &[&str] = match state {
        "INBOX" => &[],
        "ASSIGNED" => &["ASSIGNED"],
        "IN_PROGRESS" => &["ASSIGNED", "IN_PROGRESS"],
        "REVIEW" => &["ASSIGNED", "IN_PROGRESS", "REVIEW"],
        "DONE" => &["ASSIGNED", "IN_PROGRESS", "REVIEW", "DONE"],
        "CANCELED" => &["CANCELED"],
        "NEEDS_APPROVAL" | "BLOCKED" => &["ASSIGNED", "IN_PROGRESS"],
        other => panic!("{other} is no state"),
    };
    for to in way {
        let mut fields = everything();
        if *to == "ASSIGNED" {
            fields["assigneeIds"] = json!(["ada"]);
        }
        world.goes("human:kim", &format!("to {to}"), fields, to);
    }
    if matches!(state, "NEEDS_APPROVAL" | "BLOCKED") {
        world.goes("human:kim", &format!("to {state}"), everything(), state);
    }
    world
}

/// Whether a role gets from one state to another. Agents are those that a transition is meant for:
/// the worker is assigned, the reviewer reviews.
fn may(role: &str, from: &str, to: &str, lead_may_close: bool) -> bool {
    let who = match (role, from) {
        ("human", _) => "human:kim".to_owned(),
        ("system", _) => "system".to_owned(),
        (_, "REVIEW") => format!("{role}:rob"),
        (_, _) => format!("{role}:ada"),
    };
    let mut fields = everything();
    if matches!(role, "human" | "lead") {
        fields["assigneeIds"] = json!(["ada"]);
    }
    if role == "human" {
        fields["clarification"] = json!("use the other service");
    }
    let mut world = in_state(from, lead_may_close);
    world.ask(&who, &format!("to {to}"), fields).is_ok()
}

/// The seed's table, and what its rules add for agents: a reviewer sends back, an agent asks for
/// approval.
fn seed(role: &str, lead_may_close: bool) -> BTreeSet<(&'static str, &'static str)> {
    let intern = [("ASSIGNED", "IN_PROGRESS"), ("IN_PROGRESS", "REVIEW")];
    let specialist = [
        ("IN_PROGRESS", "BLOCKED"),
        ("INBOX", "ASSIGNED"),
        ("REVIEW", "IN_PROGRESS"),
        ("IN_PROGRESS", "NEEDS_APPROVAL"),
    ];
    let matrix = [
        "-x-----x", "x-x----x", "---xxx-x", "--x-xxxx", "xxxx-xxx", "-xx-x--x", "--------",
        "--------",
    ];
    match role {
        "intern" => intern.into(),
        "specialist" => intern.into_iter().chain(specialist).collect(),
        "lead" => {
            let closes = lead_may_close.then_some(("REVIEW", "DONE"));
            intern.into_iter().chain(specialist).chain(closes).collect()
        }
        "system" => {
            // It leads on at the end of a run. Its other ways to BLOCKED are pending.
            let open = STATES[..6].iter().filter(|from| **from != "NEEDS_APPROVAL");
            let asks = open.map(|from| (*from, "NEEDS_APPROVAL"));
            let runs = [
                ("ASSIGNED", "IN_PROGRESS"),
                ("ASSIGNED", "BLOCKED"),
                ("IN_PROGRESS", "IN_PROGRESS"),
                ("IN_PROGRESS", "REVIEW"),
                ("IN_PROGRESS", "BLOCKED"),
            ];
            asks.chain(runs).collect()
        }
        "human" => {
            let cells = STATES.iter().zip(matrix).flat_map(|(from, row)| {
                let to = row.chars().zip(STATES).filter(|(cell, _)| *cell == 'x');
                to.map(move |(_, to)| (*from, to))
            });
            cells.collect()
        }
        other => panic!("{other} is no role"),
    }
}

#[test]
fn every_cell_of_the_table_of_permissions_is_checked_in_the_machine() {
    for lead_may_close in [false, true] {
        for role in ["intern", "specialist", "lead", "human", "system"] {
            let cells = STATES.iter().flat_map(|from| STATES.map(|to| (*from, to)));
            let allowed: BTreeSet<_> =
                cells.filter(|(from, to)| may(role, from, to, lead_may_close)).collect();
            assert_eq!(
                allowed,
                seed(role, lead_may_close),
                "{role}, lead may close: {lead_may_close}"
            );
        }
    }
}

/// A granted permission or a refused answer is recorded in the history and changes nothing else.
#[test]
fn a_note_is_a_record_and_changes_nothing() {
    let mut world = task_of("mission", json!({}));
    world.goes("human:kim", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
    let before = world.task.clone();
    let note =
        HistoryNote { actor: Actor::human("kim"), trigger: Note::Allow.to_string(), detail: None };
    let StepResult::Step(step) = world.meet(&Event::Noted(note)).expect("it is always legal")
    else {
        panic!("it leaves a record");
    };
    let record = step.record.expect("a record");
    assert_eq!((record.trigger.as_str(), record.fields.len()), (Note::Allow.as_str(), 0));
    assert_eq!((record.from.as_deref(), record.to.as_str()), (Some("ASSIGNED"), "ASSIGNED"));
    assert!(step.effects.is_empty() && step.timers.is_none());
    let same = banksman_core::machine::Task {
        version: before.version,
        updated_at: before.updated_at,
        ..step.task
    };
    assert_eq!(same, before);
}
