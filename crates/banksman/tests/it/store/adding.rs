//! Adding: what is given is what is read back, and what is refused leaves nothing.

use banksman::store::{Add, Edge, StoreError};
use banksman_core::ids::TaskId;
use banksman_core::machine::{NewTask, RejectReason};
use serde_json::json;

use super::acts::{
    DAY, HARNESS, NOON, actor, add, added, apply, arriving, ask, claim, fields, load, refused,
    state,
};
use super::on_both;
use super::world::World;

on_both!(
    everything_given_is_read_back,
    a_refused_add_leaves_nothing,
    what_is_needed_must_exist,
    a_task_arrives_in_the_state_that_it_had_elsewhere,
);

fn everything_given_is_read_back(world: &World) {
    let store = world.open();
    let first = add(&store, "Der Kran steht schief: 起重机 🏗");
    let other = add(&store, "other");
    let given = json!({
        "feedback": "https://forge/7?a=b&c='d'\"e\"",
        "weight": 12.5,
        "fragile": true,
        "wanted_by": "2024-03-01T00:00:00Z",
        "parts": ["hook", {"rope": 3}, null],
        "size": "large",
        "crate": {"label": "Größe $1 ?2 {int}", "count": 2},
        "extra": {"deep": [[["\u{0}\u{1F3D7}"]]]},
    });
    let new = NewTask {
        title: "  Lift „it“ \u{200d} 吊る  ".to_owned(),
        body: "line 1\r\nline 2\tend 🏗\n'--; DROP TABLE tasks".to_owned(),
        project: "site".to_owned(),
        batch: Some("friday".to_owned()),
        tags: vec!["ätzend".to_owned(), "b".to_owned(), "ätzend".to_owned()],
        priority: -7,
        parent: Some(first),
        fields: given.as_object().expect("an object").clone(),
        open_needs: 99,
        not_before: Some(NOON.plus(DAY)),
    };
    let needs = vec![(first, Edge::Blocks), (other, Edge::Informs), (first, Edge::Informs)];
    let answer = added(&store, Add { new: new.clone(), needs, ..load("") });
    let id = answer.stored.task.id;
    let read = world.open().task(id).expect("the task is there");
    assert_eq!(read.task, answer.stored.task);
    assert_eq!(read.lifecycle.version, HARNESS.lifecycle.version);
    let task = read.task;
    assert_eq!(task.title, new.title.trim());
    assert_eq!((&task.body, &task.project, &task.batch), (&new.body, &new.project, &new.batch));
    assert_eq!((&task.tags, task.priority, task.parent), (&new.tags, -7, Some(first)));
    assert_eq!(task.fields, new.fields);
    assert_eq!((task.open_needs, task.not_before), (1, new.not_before));
    assert_eq!((task.version, task.entered, task.epoch, task.lease), (1, 1, 0, None));
    assert_eq!([task.created_at, task.updated_at, task.entered_at, task.progress_at], [NOON; 4]);
    let edges: Vec<(TaskId, Edge, bool)> =
        store.needs(id).unwrap().iter().map(|need| (need.task, need.edge, need.done)).collect();
    let all = [
        (first, Edge::Blocks, false),
        (first, Edge::Informs, false),
        (other, Edge::Informs, false),
    ];
    assert_eq!(edges, all);
    let history = store.history(id, 0).unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history.first(), answer.entry.as_ref());
    assert_eq!(history[0].record.actor, actor("human:kim"));
}

fn a_refused_add_leaves_nothing(world: &World) {
    let store = world.open();
    let wrong = |new: NewTask, field: &str| {
        let rejected = refused(store.add(Add { new, ..load("") }, NOON));
        assert_eq!(rejected.why, RejectReason::Invalid);
        assert_eq!(rejected.errors[0].field, field, "{rejected}");
    };
    wrong(NewTask { title: " \t".to_owned(), ..NewTask::default() }, "title");
    let titled = || NewTask { title: "lift".to_owned(), ..NewTask::default() };
    wrong(NewTask { tags: vec!["two words".to_owned()], ..titled() }, "tags");
    let unknown = json!({ "colour": "red" }).as_object().cloned().expect("an object");
    wrong(NewTask { fields: unknown, ..titled() }, "colour");
    let mut raw = world.raw();
    for table in ["tasks", "audit", "timers", "edges", "bodies", "keys", "outbox", "lifecycles"] {
        assert_eq!(raw.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    add(&store, "this one is fine");
}

fn what_is_needed_must_exist(world: &World) {
    let store = world.open();
    let nobody = TaskId(4711);
    for missing in [
        Add { needs: vec![(nobody, Edge::Blocks)], ..load("a") },
        Add { needs: vec![(nobody, Edge::Informs)], ..load("b") },
        Add { new: NewTask { parent: Some(nobody), ..load("c").new }, ..load("c") },
    ] {
        let error = store.add(missing, NOON).expect_err("there is no such task");
        assert!(matches!(error, StoreError::NoTask(id) if id == nobody), "{error:?}");
    }
    assert_eq!(world.raw().number("SELECT count(*) FROM tasks"), 0);
}

fn a_task_arrives_in_the_state_that_it_had_elsewhere(world: &World) {
    let store = world.open();
    let arrived = added(&store, arriving(&HARNESS, "lifting", None)).stored.task;
    assert_eq!(HARNESS.lifecycle.state(arrived.state).name, "lifting");
    // The bound on progress rests while nobody works on it.
    assert_eq!(store.detail(arrived.id).unwrap().timers.len(), 1);
    let claimed = claim(&store, "worker:w1", NOON).expect("it waits for a worker");
    assert_eq!(claimed.stored.task.id, arrived.id);
    let mut held = arriving(&HARNESS, "held", Some("checking"));
    held.new.fields = fields(&[("waits_for", "wind"), ("pr_url", "https://forge/1")]);
    let held = added(&store, held).stored.task.id;
    apply(&store, held, ask("human:kim", "[prior]", &[]), NOON);
    assert_eq!(state(&store, held), "checking");
    let rejected = refused(store.add(arriving(&HARNESS, "held", None), NOON));
    assert_eq!(rejected.errors[0].field, "prior");
}
