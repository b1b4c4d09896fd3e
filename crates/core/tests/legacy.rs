//! Lifecycles from before purposes were declared. Tasks may still live by such a source, so it must
//! load as it did when it was taken into use.
//!
//! The files of `legacy` are the built-in lifecycles of the last version that had no purposes.
//! Their numbers are counted from the YAML, apart from the program.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::check::{Overrides, check, read_again};
use banksman_core::lifecycle::contract::{DrivenBy, Field, Note, Purpose, Trigger};
use banksman_core::lifecycle::{FieldWriters, Lifecycle, builtin};
use banksman_core::machine::{
    Actor, Event, NewTask, StepResult, Task, TransitionRequest, create, step,
};
use banksman_core::time::Instant;
use serde_json::{Map, Value, json};

const NOW: Instant = Instant(1_700_000_000_000);

struct Old {
    name: &'static str,
    source: &'static str,
    purpose: Purpose,
    states: usize,
    rows: usize,
    timeouts: usize,
    /// Without those that every lifecycle has.
    fields: usize,
}

macro_rules! old {
    ($name:literal, $purpose:ident, $states:literal, $rows:literal, $timeouts:literal, $fields:literal) => {
        Old {
            name: $name,
            source: include_str!(concat!("legacy/", $name, ".yaml")),
            purpose: Purpose::$purpose,
            states: $states,
            rows: $rows,
            timeouts: $timeouts,
            fields: $fields,
        }
    };
}

#[rustfmt::skip] // One row, one line: it is read as a table.
const SOURCES: [Old; 9] = [
    //  name          purpose   states rows timeouts fields
    old!("autonomous", Task,     16,    77,  12,      37),
    old!("leaf",       Subtask,  12,    56,  7,       21),
    old!("mission",    Task,     8,     42,  4,       16),
    old!("step",       Step,     13,    70,  8,       20),
    old!("workflow",   Workflow, 5,     13,  3,       12),
    old!("seat",       Review,   7,     10,  4,       7),
    old!("judged",     Task,     10,    39,  8,       12),
    old!("supervised", Task,     9,     30,  5,       9),
    old!("allowance",  Budget,   4,     3,   1,       9),
];

fn loaded(name: &str) -> Lifecycle {
    let old = SOURCES.iter().find(|old| old.name == name).expect("a file of the folder");
    read_again(old.source, name, &Overrides::new()).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn each_loads_with_its_purpose_and_all_its_rows() {
    for old in &SOURCES {
        let lifecycle = loaded(old.name);
        assert_eq!((lifecycle.id.as_str(), lifecycle.purpose), (old.name, old.purpose));
        assert!(lifecycle.legacy, "{}", old.name);
        let timeouts = lifecycle.transitions.iter().filter(|row| row.timeout.is_some()).count();
        let own = lifecycle.fields.values().filter(|field| field.line > 0).count();
        assert_eq!(
            (lifecycle.states.len(), lifecycle.transitions.len() - timeouts, timeouts, own),
            (old.states, old.rows, old.timeouts, old.fields),
            "{}: states, rows, timeouts, fields",
            old.name
        );
    }
}

#[test]
fn none_can_be_taken_into_use_again() {
    for old in &SOURCES {
        let problems = check(old.source, old.name, &Overrides::new()).expect_err("it is old");
        assert_eq!(problems.list[0].message, "`purpose` is missing", "{}", old.name);
    }
}

#[test]
fn the_version_is_that_of_the_text() {
    for old in &SOURCES {
        let (first, second) = (loaded(old.name).version, loaded(old.name).version);
        assert_eq!(first, second, "{}", old.name);
        let today = builtin::get(old.name, &Overrides::new()).and_then(Result::ok);
        assert_ne!(Some(first), today.map(|lifecycle| lifecycle.version), "{}", old.name);
    }
}

#[test]
fn the_engine_uses_the_names_of_the_source() {
    for (field, old, name, today) in [
        (Field::ChildrenOpen, "workflow", "parts_open", "children_open"),
        (Field::ChildrenGivenUp, "workflow", "parts_given_up", "children_given_up"),
        (Field::ChildrenAsked, "autonomous", "parts_asked", "children_asked"),
        (Field::ChildrenInReview, "autonomous", "parts_in_review", "children_in_review"),
        (Field::ChildrenWaiting, "autonomous", "parts_waiting", "children_waiting"),
        (Field::ChildrenDone, "autonomous", "parts_done", "children_done"),
        (Field::ChildrenProblem, "autonomous", "parts_problem", "children_problem"),
        (Field::Reviewer, "seat", "seat", "reviewer"),
        (Field::PrUrl, "autonomous", "pr_url", "pr_url"),
    ] {
        let lifecycle = loaded(old);
        assert_eq!((field.name_in(&lifecycle), field.name()), (name, today));
        assert!(lifecycle.has_field(field), "{old}: {name}");
    }
    let lifecycle = loaded("autonomous");
    let review = lifecycle.find_state("review").expect("a state of its own");
    assert_eq!(Trigger::ChildrenMoved.name_in(&lifecycle), "parts_moved");
    assert!(lifecycle.has_exit(review, Trigger::ChildrenMoved));
    let today = builtin::get("autonomous", &Overrides::new()).and_then(Result::ok);
    assert_eq!(Trigger::ChildrenMoved.name_in(&today.expect("it is sound")), "children_moved");
}

/// Every demand of today's contract that an old source can meet is met under its old name.
#[test]
fn each_meets_the_demands_of_its_purpose() {
    for old in &SOURCES {
        let lifecycle = loaded(old.name);
        for rule in Field::RULES.iter().filter(|rule| rule.demanded_by.contains(&old.purpose)) {
            assert!(lifecycle.has_field(rule.item), "{}: {}", old.name, rule.name);
        }
        for rule in Trigger::RULES.iter().filter(|rule| rule.demanded_by.contains(&old.purpose)) {
            let name = rule.item.name_in(&lifecycle);
            let found = lifecycle.transitions.iter().any(|row| row.trigger == name);
            assert!(found, "{}: {name}", old.name);
        }
    }
}

#[test]
fn only_restricts_a_field_and_all_others_are_free() {
    let lifecycle = loaded("mission");
    let roles = |field: &str| match &lifecycle.fields[field].by {
        FieldWriters::Anyone => vec!["anyone"],
        FieldWriters::Computed => Vec::new(),
        FieldWriters::Roles(roles) => roles.iter().map(|role| lifecycle.role_name(*role)).collect(),
    };
    assert_eq!(roles("assigneeIds"), ["lead", "human"]);
    assert_eq!(roles("approvedBy"), ["system"]);
    assert_eq!(roles("workPlan"), ["anyone"]);
}

/// A task of an old source, with the fields that it is created with.
struct Life {
    lifecycle: Lifecycle,
    task: Task,
}

fn object(fields: Value) -> Map<String, Value> {
    serde_json::from_value(fields).expect("fields are an object")
}

impl Life {
    fn of(name: &str, fields: Value, by: &Actor) -> Self {
        let new = NewTask { title: "old".to_owned(), fields: object(fields), ..NewTask::default() };
        let lifecycle = loaded(name);
        let born = create(&lifecycle, &new, by, TaskId(1), NOW);
        let task = born.unwrap_or_else(|rejected| panic!("{name}: {rejected}")).task;
        Self { lifecycle, task }
    }

    fn asks(&mut self, actor: &str, trigger: &str, fields: Value) -> Result<&str, String> {
        let request = TransitionRequest {
            actor: actor.parse().expect("ROLE:NAME"),
            to: None,
            trigger: Some(trigger.to_owned()),
            fields: object(fields),
            epoch: None,
            version: None,
        };
        match step(&self.lifecycle, &self.task, &Event::Asked(request), NOW) {
            Ok(StepResult::Step(step)) => self.task = step.task,
            Ok(other) => panic!("{trigger}: {other:?}"),
            Err(rejected) => return Err(rejected.to_string()),
        }
        Ok(&self.lifecycle.state(self.task.state).name)
    }
}

#[test]
fn tasks_of_old_sources_still_come_to_their_end() {
    let mut workflow = Life::of("workflow", json!({}), &Actor::system());
    let given_up = json!({ "parts_open": 0, "parts_given_up": 1 });
    assert_eq!(workflow.asks("system", "finish", given_up), Ok("waiting"));
    assert_eq!(workflow.asks("human:kim", "accept", json!({})), Ok("complete"));

    let asked = json!({ "scope": "day:2026-03-01", "problem": "more?" });
    let mut allowance = Life::of("allowance", asked, &Actor::system());
    assert_eq!(allowance.asks("human:kim", "stop", json!({})), Ok("refused"));
    assert_eq!(allowance.task.fields["refused"], json!(true));

    let mut seat = Life::of("seat", json!({ "seat": "critic" }), &Actor::system());
    assert_eq!(seat.asks("system", "close", json!({})), Ok("withdrawn"));

    let mut judged = Life::of("judged", json!({}), &Actor::human("kim"));
    assert_eq!(judged.asks("planner:pia", "link_issue", json!({})), Ok("blocked(issue_linking)"));
    assert_eq!(judged.asks("planner:pia", "linked", json!({})), Ok("queued"));

    let mut mission = Life::of("mission", json!({}), &Actor::human("kim"));
    let refused = mission.asks("specialist:ada", "claim", json!({ "reviewerIds": ["bo"] }));
    assert!(refused.is_err(), "only a lead or a person says who reviews");
    assert_eq!(mission.asks("specialist:ada", "claim", json!({})), Ok("ASSIGNED"));
    let stopped = json!({ "blockReason": "a loop" });
    assert_eq!(mission.asks("system", "block", stopped), Ok("BLOCKED"));
}

/// What decides is the key, however it is written.
#[test]
fn a_source_with_a_purpose_is_one_of_today() {
    const REST: &str = "initial: a\nstates:\n  a: { kind: queued }\n  b: { kind: done }\n\
                        transitions:\n  - { from: a, to: b, on: go, by: [human] }\n";
    for purpose in ["purpose: task", "purpose : task", "\"purpose\": task", "? purpose\n: task"] {
        let lifecycle = check(&format!("lifecycle: x\n{purpose}\n{REST}"), "x", &Overrides::new());
        let lifecycle = lifecycle.unwrap_or_else(|problems| panic!("{purpose}: {problems}"));
        assert!(!lifecycle.legacy, "{purpose}");
    }
    let flow = "{lifecycle: x, purpose: task, initial: a, states: {a: {kind: queued}, b: {kind: \
                done}}, transitions: [{from: a, to: b, on: go, by: [human]}]}";
    assert!(check(flow, "x", &Overrides::new()).is_ok_and(|lifecycle| !lifecycle.legacy));
}

/// Only the engine's own lifecycles of these names had the fields that it gives their tasks.
#[test]
fn a_project_could_use_the_names_of_the_engine() {
    for id in ["leaf", "workflow", "step", "seat", "allowance"] {
        let text = format!(
            "lifecycle: {id}\ninitial: open\nstates: {{ open: {{ kind: queued }}, done: {{ kind: done }} }}\n\
             transitions: [{{ from: open, to: done, on: finish, by: [human] }}]\n"
        );
        let lifecycle = read_again(&text, "x", &Overrides::new()).expect("it is sound");
        assert_eq!(lifecycle.purpose, Purpose::Task, "{id}");
    }
}

/// A later version asks for more, and the tasks that live by such a source must come to their end.
#[test]
fn what_is_refused_today_still_loads() {
    for source in [
        include_str!("broken/activity-of-pull-requests.yaml"),
        include_str!("broken/activity-that-captures.yaml"),
        include_str!("broken/children-moved-without-a-planner.yaml"),
        include_str!("broken/over-budget-without-a-text.yaml"),
        include_str!("broken/role-named-twice.yaml"),
        include_str!("broken/system-twice-fires-nothing.yaml"),
    ] {
        assert!(check(source, "x", &Overrides::new()).is_err(), "{source}");
        let lifecycle = read_again(source, "x", &Overrides::new());
        lifecycle.unwrap_or_else(|problems| panic!("{problems}"));
    }
}

/// Stores keep the words that they were written with.
#[test]
fn former_words_are_read_and_no_longer_written() {
    for (former, note, today) in [
        ("came_late", Note::StaleWrite, "stale_write"),
        ("hastened", Note::DelaySkipped, "delay_skipped"),
    ] {
        assert_eq!((former.parse(), today.parse()), (Ok(note), Ok(note)));
        assert_eq!(note.as_str(), today);
    }
    assert_eq!(serde_json::from_value(json!("hand")).ok(), Some(DrivenBy::Person));
    assert_eq!((json!(DrivenBy::Person), "hand".parse()), (json!("person"), Ok(DrivenBy::Person)));
}
