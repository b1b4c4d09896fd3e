//! Everything has a size limit, and a refusal for size never strands a task.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::expr::MAX_JOINED_BYTES;
use banksman_core::limits;
use banksman_core::machine::{
    Actor, Effect, Finish, ImportedState, NewTask, RejectReason, create, import,
};
use serde_json::{Value, json};

use crate::walk::{builtin_with, complaints, fields, of_source};
use crate::world::{START, World};

const SOURCE: &str = "
lifecycle: sized
purpose: task
initial: work
roles: [worker]
fields:
  log: { type: text, by: anyone }
  tree: { type: any, by: anyone }
  list: { type: list, by: anyone }
  owner: { type: text, by: anyone }
  diagnostic: { type: text, by: anyone }
states:
  work:
    kind: working
    does: { activity: agent, role: worker, outcomes: { succeeded: end, crashed: again, otherwise: fail } }
    requires: [{ field: owner, that: owner == null or count(owner) <= 5, message: Use a short name }]
    timeouts: [{ after: 1h, to: failed, set: { diagnostic: it took too long } }]
  done: { kind: done }
  failed: { kind: failed, requires: [diagnostic] }
transitions:
  - { from: work, to: work, on: save, by: [worker, human] }
  - { from: work, to: done, on: end, by: [system] }
  - { from: work, to: failed, on: fail, by: [system], compute: { diagnostic: detail } }
  - { from: failed, to: work, on: retry, by: [human] }
";

/// The largest text that fits alone: a name, two quotes and the rest.
fn largest() -> String {
    "x".repeat(limits::FIELDS_BYTES - "log".len() - 2)
}

fn full() -> World {
    let mut world = of_source(SOURCE);
    world.goes("human:kim", "on save", json!({ "log": largest() }), "work");
    world
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(
        json!(1),
        |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({ "in": inner }) },
    )
}

#[test]
fn fields_have_a_size() {
    let mut world = full();
    let rejected = world.refused("human:kim", "on save", json!({ "owner": "kim" }));
    assert_eq!(
        complaints(&rejected),
        ["fields: all fields together are larger than 256 KiB; put long text into a file"]
    );
    world.goes("human:kim", "on save", json!({ "owner": "kim", "log": null }), "work");
    let many: Vec<u64> = (0..40_000).collect();
    assert_eq!(
        world.refused("human:kim", "on save", json!({ "list": many })).errors[0].field,
        "fields"
    );
}

#[test]
fn fields_have_a_depth() {
    let mut world = of_source(SOURCE);
    world.goes("human:kim", "on save", json!({ "tree": nested(limits::FIELD_DEPTH) }), "work");
    for levels in [limits::FIELD_DEPTH + 1, 60] {
        let rejected = world.refused("human:kim", "on save", json!({ "tree": nested(levels) }));
        assert_eq!(complaints(&rejected), ["tree: is nested deeper than 16 levels"], "{levels}");
    }
}

#[test]
fn a_bound_fires_however_full_the_task_is() {
    let mut world = full();
    world.times_out("1h", "failed");
    world.goes("human:kim", "on retry", json!({}), "work");
}

#[test]
fn a_run_that_says_too_much_is_cut_short() {
    for words in ["é".repeat(MAX_JOINED_BYTES), "e".repeat(MAX_JOINED_BYTES * 8)] {
        let mut world = full();
        world.is_claimed_by("worker:w1", "work");
        world.ends(Outcome::Policy, &words, json!({}), "failed");
        let kept = world.field("diagnostic").as_str().expect("it says what went wrong").len();
        assert!(kept <= MAX_JOINED_BYTES && kept + 1 >= MAX_JOINED_BYTES, "{kept}");
    }
}

/// A run cannot leave the task in a state that it may not be in, even where it is retried.
#[test]
fn a_run_brings_nothing_that_does_not_fit() {
    let table = [
        (json!({ "owner": "nobody" }), "owner: Use a short name"),
        (json!({ "owner": 7 }), "owner: must be text, not a number"),
        (
            json!({ "ownr": "kim" }),
            "ownr: the lifecycle sized has no such field; did you mean `owner`?",
        ),
    ];
    for (given, complaint) in table {
        let mut world = of_source(SOURCE);
        world.is_claimed_by("worker:w1", "work");
        let finish = Finish { fields: fields(given), ..world.ending(Outcome::Crashed) };
        let rejected = world.finish(finish).expect_err(complaint);
        assert_eq!(
            (rejected.why, complaints(&rejected)),
            (RejectReason::Invalid, vec![complaint.to_owned()])
        );
        assert!(world.task.lease.is_some(), "the lease is left to expire");
    }
}

#[test]
fn a_new_task_is_readable() {
    let new = || NewTask { title: "a title".to_owned(), ..NewTask::default() };
    let table = [
        (NewTask { title: " ".to_owned(), ..new() }, "title: a task needs a title"),
        (
            NewTask { title: "t".repeat(501), ..new() },
            "title: is longer than 500 bytes; put the rest into the body",
        ),
        (
            NewTask { title: "a\nb".to_owned(), ..new() },
            "title: has control characters (a line break, perhaps); keep it to one line",
        ),
        (
            NewTask { body: "b".repeat(256 * 1024 + 1), ..new() },
            "body: is larger than 256 KiB; put it into a file and name that",
        ),
        (
            NewTask { body: "a\u{7}".to_owned(), ..new() },
            "body: has control characters other than line breaks and tabs; remove them",
        ),
        (NewTask { tags: vec!["t".to_owned(); 33], ..new() }, "tags: are more than 32"),
        (
            NewTask { tags: vec!["two words".to_owned()], ..new() },
            "tags: `two words` is not a tag: one word of at most 64 bytes",
        ),
        (NewTask { priority: 1_001, ..new() }, "priority: goes from -1000 to 1000"),
        (NewTask { priority: i32::MIN, ..new() }, "priority: goes from -1000 to 1000"),
        (
            NewTask { fields: fields(json!({ "log": 1 })), ..new() },
            "log: must be text, not a number",
        ),
    ];
    let lifecycle = of_source(SOURCE).lifecycle;
    for (new, complaint) in table {
        let rejected =
            create(&lifecycle, &new, &Actor::human("kim"), TaskId(1), START).expect_err(complaint);
        assert_eq!(complaints(&rejected), [complaint]);
    }
    let body = "one\n\ttwo\r\n".to_owned();
    let born = create(
        &lifecycle,
        &NewTask { title: "  a title ".to_owned(), body, ..new() },
        &Actor::human("kim"),
        TaskId(1),
        START,
    );
    assert_eq!(born.expect("line breaks are fine").task.title, "a title");
}

/// An imported task gets everything that the state needs from then on.
#[test]
fn an_imported_task_is_taken_care_of() {
    let lifecycle = builtin_with("autonomous", &[]);
    let bring = |state: &str, given: Value| {
        let new = NewTask {
            title: "from elsewhere".to_owned(),
            fields: fields(given),
            ..NewTask::default()
        };
        let state = lifecycle.find_state(state).expect("the state exists");
        let arrival = ImportedState { state, prior: None };
        import(&lifecycle, &new, arrival, &Actor::human("kim"), TaskId(1), START)
    };
    let born = bring(
        "waiting",
        json!({ "approval_type": "standard", "decision_deadline": "2024-02-19T10:40:00Z" }),
    )
    .expect("all is there");
    assert_eq!((born.decision.opens.is_some(), born.effects), (true, vec![Effect::Notify]));
    assert_eq!(born.timers.map(|timers| timers.len()), Some(1));
    let born = bring("consensus", json!({})).expect("all is there");
    assert!(matches!(born.effects[..], [Effect::Start { .. }]));
    let born = bring("done", json!({})).expect("all is there");
    assert_eq!(
        (born.effects, born.timers, born.ending),
        (vec![], None, None),
        "it ended elsewhere"
    );
    assert_eq!(
        complaints(&bring("review", json!({})).expect_err("no pull request")),
        ["pr_url: pr_url required for review"]
    );
    assert_eq!(
        complaints(
            &bring("blocked", json!({ "unblock_condition": "x" })).expect_err("from where?")
        ),
        ["prior: a task in blocked must name its earlier state"]
    );
}
