//! Views of a damaged store: whatever column is damaged, every view shows what others have, shows
//! nothing in place of what is damaged, and `check` names it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;

use banksman::store::notices::{NewNotice, NoticeKind};
use banksman::store::query::Filter;
use banksman::store::{Add, Definition, Node, Store};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{Event, Finish, NewTask};
use banksman_core::schedule::Budget;

use super::acts::{
    HARNESS, NOON, apply, ask, claim_first, definition, dispatch, fields, finish, key, load, node,
    worker,
};
use super::on_both_damaging;
use super::raw::Raw;
use super::world::World;

on_both_damaging!(a_word_or_json_that_does_not_read_is_left_out_and_named);

/// One of everything, twice: what is damaged belongs to the tasks `DAMAGED`, the rest to `OTHERS`.
const DAMAGED: [TaskId; 3] = [TaskId(1), TaskId(3), TaskId(5)];
const OTHERS: [TaskId; 3] = [TaskId(2), TaskId(4), TaskId(6)];

/// The rows of a table that the damage is in.
const ROWS: &[(&str, &str)] = &[
    ("tasks", "id IN (1, 3, 5)"),
    ("lifecycles", "id = 'dock'"),
    ("projects", "name = 'first'"),
    ("batches", "name = 'first'"),
    ("nodes", "name = 'first'"),
    ("accounts", "name = 'first'"),
    ("spent", "scope = 'batch:first'"),
    ("budget_requests", "scope = 'batch:first'"),
    ("switches", "name = 'paused'"),
    ("notice_deliveries", "notice = (SELECT min(id) FROM notices WHERE task = 1)"),
    ("bodies", OF_TASK),
    ("edges", OF_TASK),
    ("runs", OF_TASK),
    ("timers", OF_TASK),
    ("outbox", OF_TASK),
    ("keys", OF_TASK),
    ("artifacts", OF_TASK),
    ("decisions", OF_TASK),
    ("audit", OF_TASK),
    ("changes", OF_TASK),
    ("notices", OF_TASK),
];
const OF_TASK: &str = "task IN (1, 3, 5)";

/// Columns of closed words and of JSON: other text in them is damage on both engines.
const WORDS: &[(&str, &str)] = &[
    ("tasks", "state"),
    ("tasks", "kind"),
    ("tasks", "fields"),
    ("tasks", "counters"),
    ("tasks", "tags"),
    ("lifecycles", "source"),
    ("nodes", "workers"),
    ("edges", "kind"),
    ("runs", "class"),
    ("runs", "level"),
    ("runs", "areas"),
    ("artifacts", "value"),
    ("decisions", "offers"),
    ("changes", "kind"),
    ("notices", "kind"),
];

fn build(world: &World) {
    let store = world.open();
    let own =
        definition(&include_str!("harness.yaml").replace("lifecycle: harness", "lifecycle: dock"));
    let groups: [(&str, &Definition); 2] = [("first", &own), ("second", &HARNESS)];
    let new = |(group, definition): (&str, &Definition), title: &str, needs: &[TaskId]| {
        let mut add = Add { definition: definition.clone(), ..load(title) };
        add.needs = needs.iter().map(|id| (*id, banksman::store::Edge::Informs)).collect();
        add.key = key(&format!("{group}-{title}"), title);
        add.new = NewTask {
            project: group.to_owned(),
            batch: Some(group.to_owned()),
            body: format!("the body of {title}"),
            tags: vec!["code".to_owned()],
            ..add.new
        };
        store.add(add, NOON).expect("the task is added").stored.task.id
    };
    for group in groups {
        store.put_project(group.0, &format!("/{}", group.0), NOON).unwrap();
        let id = new(group, "asked", &[]);
        let epoch = claim_first(&store, id, NOON);
        let lifted = Finish {
            fields: fields(&[("pr_url", "https://forge/1")]),
            ..finish(epoch, Outcome::Succeeded)
        };
        apply(&store, id, Event::Finished(lifted), NOON);
        apply(&store, id, ask("crane:c1", "asking", &[]), NOON);
        let text = "somebody should look".to_owned();
        store.notice(NewNotice::new(NoticeKind::Fault, Some(id), text), NOON).unwrap();
    }
    for (at, group) in groups.into_iter().enumerate() {
        new(group, "running", &[TaskId(1 + at as i64)]);
        let workers = vec![worker(&format!("ada-{}", group.0))];
        let request = node(group.0, &workers);
        assert!(dispatch(&store, &request, NOON).claimed.is_some());
        let name = group.0.to_owned();
        store.put_node(&Node { name, seen_at: NOON, capacity: 9, workers, awake: None }).unwrap();
    }
    for group in groups {
        new(group, "queued", &[]);
    }
    let mut raw = world.raw();
    for (group, task) in [("first", 1), ("second", 2)] {
        raw.run(&format!(
            "INSERT INTO accounts (name, paused_until, reason, hits, probing) VALUES ('{group}', 9, 'full', 1, 0);
             INSERT INTO artifacts (task, seq, name, hash, value) VALUES ({task}, 9, 'plan', {}, '7');
             INSERT INTO budget_requests (scope, number, task, refused) VALUES ('batch:{group}', 1, {task}, '[]')",
            raw.bytes("00ff")
        ));
    }
}

type Views = BTreeMap<&'static str, Vec<(Option<TaskId>, String)>>;

fn items<T: Debug>(
    items: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> Option<TaskId>,
) -> Vec<(Option<TaskId>, String)> {
    items.into_iter().map(|item| (of(&item), format!("{item:?}"))).collect()
}

/// What every view shows, item by item, without counts and what they are made of.
fn views(store: &Store, damage: &str) -> Views {
    let task = |stored: banksman::store::Stored| (stored.state().name.clone(), stored.task);
    let of_task = |it: &(String, banksman_core::machine::Task)| Some(it.1.id);
    let (listed, _) = store.list(&Filter::default(), None, 100).expect(damage);
    let exported = store.tasks_from(TaskId(0)).expect(damage);
    let overview = store.overview().expect(damage);
    let batches = overview.batches.into_iter().map(|it| (it.name, it.concurrency, it.paused));
    let named = overview
        .projects
        .into_iter()
        .chain(overview.paused_accounts.into_iter().map(|(name, account)| (name, account.reason)));
    let mut views = Views::from([
        ("list", items(listed.into_iter().map(task), of_task)),
        ("export", items(exported.into_iter().map(|(stored, _)| task(stored)), of_task)),
        ("inbox", items(store.inbox().expect(damage), |it| Some(it.task))),
        ("decisions", items(store.decisions(0).expect(damage), |it| Some(it.task))),
        ("changes", items(store.changes(None, 1_000).expect(damage), |it| it.task)),
        ("runs", items(store.open_runs(None).expect(damage), |it| Some(it.run.task))),
        ("batches", items(batches, |_| None)),
        ("named", items(named, |_| None)),
        ("nodes", items(store.nodes().expect(damage), |_| None)),
        ("delayed", items(store.delayed(9).expect(damage), |it| Some(it.0))),
    ]);
    store.budgets(&Budget::default(), NOON).expect(damage);
    for id in OTHERS {
        let detail = store.detail(id).expect(damage);
        views.entry("timers").or_default().extend(items(detail.timers, |_| Some(id)));
        views.entry("artifacts").or_default().extend(items(detail.artifacts, |_| Some(id)));
        let past = store.past_runs(id, 9).expect(damage);
        views.entry("past runs").or_default().extend(items(past, |_| Some(id)));
    }
    views
}

/// Damages a column, and looks at every view through a handle that has read nothing yet.
fn assert_contained(
    world: &World,
    table: &str,
    column: &str,
    before: &Views,
    mut raw: Raw,
    value: &str,
) {
    let (_, rows) = ROWS.iter().find(|(of, _)| *of == table).expect("a table of the store");
    let damage = format!("{table}.{column} = {value}");
    raw.lift_constraints();
    raw.run(&format!("UPDATE {table} SET {column} = {value} WHERE {rows}"));
    let store = world.open();
    let after = views(&store, &damage);
    let mut is_complete = true;
    for (view, items) in before {
        for item in &after[view] {
            assert!(items.contains(item), "{damage}: {view} shows {item:?}");
        }
        for item in items.iter().filter(|item| !after[view].contains(item)) {
            is_complete = false;
            let is_others = item.0.is_some_and(|task| OTHERS.contains(&task));
            assert!(!is_others && !item.1.contains("second"), "{damage}: {view} lacks {item:?}");
        }
    }
    let report = store.check().expect(&damage);
    let others = report.findings.iter().find(|finding| !DAMAGED.contains(&finding.task));
    assert_eq!(others, None, "{damage}");
    let named = report.findings.len() + report.faults.len();
    assert!(is_complete || named > 0, "{damage}: nobody names it");
    // Nothing starts while nobody knows whether everything is paused.
    if table != "switches" {
        let request = node("second", &[worker("bob")]);
        let dispatched = dispatch(&store, &request, NOON);
        assert!(dispatched.claimed.is_some(), "{damage}: {dispatched:?}");
    }
}

fn a_word_or_json_that_does_not_read_is_left_out_and_named(world: &World) {
    for (table, column) in WORDS {
        let world = world.another();
        build(&world);
        let before = views(&world.open(), "sound");
        assert_contained(&world, table, column, &before, world.raw(), "'nonsense'");
    }
}

/// SQLite keeps a value of any type in any column. In parts, because there are many columns.
mod a_value_of_another_type_in_any_column_is_left_out_and_named {
    use super::{ROWS, damage_columns_of};

    #[test]
    fn of_tasks() {
        damage_columns_of(&ROWS[..1]);
    }

    #[test]
    fn of_named_things() {
        damage_columns_of(&ROWS[1..12]);
    }

    #[test]
    fn of_what_belongs_to_tasks() {
        damage_columns_of(&ROWS[12..]);
    }
}

fn damage_columns_of(tables: &[(&str, &str)]) {
    let template = World::sqlite();
    build(&template);
    let before = views(&template.open(), "sound");
    for (table, _) in tables {
        let columns = template.raw().rows(&format!("PRAGMA table_info({table})"));
        assert!(!columns.is_empty(), "{table}");
        // A key is what a row is found by.
        let is_key = |column: &&Vec<Option<String>>| column[5].as_deref() != Some("0");
        for column in columns.iter().filter(|column| !is_key(column)) {
            let (column, holds) = (column[1].as_deref().expect("a name"), column[2].as_deref());
            let is_bytes = holds == Some("BLOB");
            // Some columns are unique.
            let wrong = if is_bytes { "CAST(random() AS TEXT)" } else { "randomblob(8)" };
            let world = World::sqlite();
            for suffix in ["", "-wal"] {
                let name = |world: &World| format!("{}{suffix}", world.file().display());
                if fs::exists(name(&template)).unwrap() {
                    fs::copy(name(&template), name(&world)).unwrap();
                }
            }
            assert_contained(&world, table, column, &before, world.raw(), wrong);
        }
    }
}
