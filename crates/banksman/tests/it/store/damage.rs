//! Damaged data: it is named, and it harms the task that it belongs to and no other.

use banksman::store::conn::Target;
use banksman::store::query::Filter;
use banksman::store::{Add, Edge, StoreError, TimerResult};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::contract::{Field, Purpose};
use banksman_core::lifecycle::expr::{Fields, value_of};
use banksman_core::machine::{Actor, NewTask, Task};
use banksman_core::schedule::{Budget, Used};
use serde_json::json;

use super::acts::{
    CRANE, DAY, HARNESS, HOUR, NOON, add, added, apply, arriving, ask, claim, definition, dispatch,
    load, load_after, node, worker,
};
use super::on_both_damaging;
use super::world::{World, findings};

on_both_damaging!(
    a_corrupt_row_harms_its_own_task_only,
    an_unreadable_lifecycle_harms_its_own_tasks_only,
    a_missing_lifecycle_harms_its_own_tasks_only,
    a_changed_lifecycle_harms_its_own_tasks_only,
    a_timer_of_no_known_kind_harms_nothing,
    a_wrong_place_in_the_queue_is_found,
    a_lost_timer_is_found,
    a_split_task_without_subtasks_is_found,
    a_damaged_budget_request_is_named,
    a_damaged_record_is_named,
    nobody_creates_a_task_without_what_its_purpose_demands,
    a_wrong_count_of_needs_is_found,
    a_lease_without_a_run_is_found,
    a_run_without_a_lease_is_found,
    sums_that_do_not_add_up_are_found,
    a_damaged_child_does_not_hide_the_others,
    a_run_with_an_unknown_failure_class_is_found,
);

/// A store in which two tasks stand in everybody's way: first in the queue, first among the timers,
/// and waiting for a task that is about to be done.
struct Site {
    /// First in the queue, with timers.
    first: TaskId,
    /// Waits for `needed`.
    waiting: TaskId,
    needed: TaskId,
    /// Claimable, after the first.
    healthy: TaskId,
    /// Has a timer, after those of the first.
    delayed: TaskId,
}

/// The two live by their own lifecycle, so that it can be damaged without the others.
fn site(world: &World) -> Site {
    let store = world.open();
    let own =
        definition(&include_str!("harness.yaml").replace("lifecycle: harness", "lifecycle: dock"));
    let needed = add(&store, "needed");
    let urgent = NewTask { priority: 9, ..load("first").new };
    let first = Add { new: urgent, ..arriving(&own, "lifting", None) };
    let first = added(&store, first).stored.task.id;
    let waiting = Add { definition: own, ..load_after("waiting", &[needed]) };
    let waiting = added(&store, waiting).stored.task.id;
    let healthy = add(&store, "healthy");
    let new = NewTask { not_before: Some(NOON.plus(HOUR)), priority: -9, ..load("delayed").new };
    let delayed = added(&store, Add { new, ..load("") }).stored.task.id;
    Site { first, waiting, needed, healthy, delayed }
}

impl Site {
    /// Everything that others do goes on, and the damaged tasks are named by all who look.
    fn assert_harm_is_contained(&self, world: &World, damage: &str) {
        // A handle that has read nothing yet.
        let store = world.open();
        let damaged = [self.first, self.waiting];
        for id in damaged {
            let moved =
                store.apply(id, ask("human:kim", "cancelled", &[("reason", "x")]), None, NOON);
            assert_damaged(moved.map(|applied| applied.stored.task), damage);
        }
        let (listed, next) = store.list(&Filter::default(), None, 100).expect(damage);
        let mut listed: Vec<TaskId> = listed.iter().map(|stored| stored.task.id).collect();
        // What can still be read is shown, even if it is impossible.
        listed.retain(|id| !damaged.contains(id));
        assert_eq!(listed, [self.delayed, self.healthy, self.needed], "{damage}");
        assert_eq!(next, None);
        assert_eq!(store.overview().expect(damage).states.iter().map(|s| s.tasks).sum::<i64>(), 5);
        for report in [store.check().expect(damage), store.verify_history().expect(damage)] {
            let named: Vec<TaskId> = report.findings.iter().map(|finding| finding.task).collect();
            assert!(
                named.iter().all(|id| damaged.contains(id)),
                "{damage}: {:?}",
                findings(&report)
            );
            assert_eq!(report.tasks, 5);
        }
        let named = store.check().expect(damage).findings;
        for id in damaged {
            assert!(named.iter().any(|finding| finding.task == id), "{damage}: {named:?}");
        }
        apply(&store, self.needed, ask("human:kim", "done", &[]), NOON);
        let claimed = claim(&store, "worker:w1", NOON).expect(damage);
        assert_eq!(claimed.run.task, self.healthy, "{damage}");
        assert!(claim(&store, "worker:w1", NOON).is_none(), "{damage}");
        let fired = store.fire_due(NOON.plus(HOUR), 100).expect(damage).results;
        assert!(fired.contains(&TimerResult::Moved(self.delayed)), "{damage}: {fired:?}");
        assert!(!fired.contains(&TimerResult::Moved(self.first)), "{damage}: {fired:?}");
        // The damaged one stays out of the way of the next look.
        assert_eq!(store.fire_due(NOON.plus(HOUR), 100).expect(damage).results, [], "{damage}");
        let on_top = Add { needs: vec![(self.first, Edge::Blocks)], ..load("on top") };
        assert_eq!(store.add(on_top, NOON).expect(damage).stored.task.open_needs, 1);
    }
}

fn assert_damaged(read: Result<Task, StoreError>, damage: &str) {
    match read {
        Err(
            StoreError::Corrupt { .. }
            | StoreError::Definition { .. }
            | StoreError::NoDefinition(_),
        ) => {}
        other => panic!("{damage}: {other:?}"),
    }
}

fn a_corrupt_row_harms_its_own_task_only(world: &World) {
    let mut damages = vec![
        "state = 'nowhere'",
        "fields = '{\"pr_url\"'",
        "fields = '{\"colour\": \"red\"}'",
        "fields = '{\"fragile\": 7}'",
        "state = 'held'",
        "state = 'checking'",
        "prior = 'asking'",
        "tags = '7'",
        "counters = 'none'",
        "counters = '[[0,1],[0,0]]'",
        "priority = 5000000000",
        "lease_worker = 'worker:w1'",
        "entered = 9",
        "open_needs = -1",
        "epoch = -1",
        "epoch = 9223372036854775807",
        "version = 9223372036854775807",
    ];
    if let Target::Sqlite(_) = world.target {
        // Only SQLite keeps such values in such columns.
        damages.extend(["version = 'two'", "head = 'text'", "title = x'00ff'"]);
    }
    for damage in damages {
        let world = &world.another();
        let site = site(world);
        let mut raw = world.raw();
        raw.lift_constraints();
        let damaged = format!("({}, {})", site.first.0, site.waiting.0);
        raw.run(&format!("UPDATE tasks SET {damage} WHERE id IN {damaged}"));
        site.assert_harm_is_contained(world, damage);
    }
}

fn an_unreadable_lifecycle_harms_its_own_tasks_only(world: &World) {
    let site = site(world);
    world.raw().run("UPDATE lifecycles SET source = 'states: [' WHERE id = 'dock'");
    site.assert_harm_is_contained(world, "a lifecycle that is not YAML");
}

fn a_missing_lifecycle_harms_its_own_tasks_only(world: &World) {
    let site = site(world);
    let mut raw = world.raw();
    raw.lift_constraints();
    raw.run("DELETE FROM lifecycles WHERE id = 'dock'");
    site.assert_harm_is_contained(world, "a lifecycle that is not there");
}

fn a_changed_lifecycle_harms_its_own_tasks_only(world: &World) {
    let site = site(world);
    // It is sound, but it is not the one that the tasks began with.
    world.raw().run("UPDATE lifecycles SET source = replace(source, '7d', '1d') WHERE id = 'dock'");
    site.assert_harm_is_contained(world, "a lifecycle that was changed");
}

fn a_timer_of_no_known_kind_harms_nothing(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let new = NewTask { not_before: Some(NOON.plus(HOUR)), ..load("delayed").new };
    let delayed = added(&store, Add { new, definition: CRANE.clone(), ..load("") }).stored.task.id;
    let mut raw = world.raw();
    raw.lift_constraints();
    raw.run(&format!(
        "INSERT INTO timers (task, kind, number, entered, due_at) VALUES ({0}, 'alarm', 0, 1, 0), ({0}, 'bound', -1, 1, 0)",
        id.0
    ));
    let fired = store.fire_due(NOON.plus(HOUR), 100).expect("the others fire").results;
    assert!(fired.contains(&TimerResult::Moved(delayed)), "{fired:?}");
    assert_eq!(store.fire_due(NOON.plus(HOUR), 100).expect("they are out of the way").results, []);
    let found = findings(&store.check().expect("the check runs"));
    assert_eq!(found, [format!("{id}: a timer of no known kind")]);
}

fn found_by_check(world: &World, damage: &str, expected: &str) {
    let mut raw = world.raw();
    raw.lift_constraints();
    raw.run(damage);
    let report = world.open().check().expect("the check runs");
    assert_eq!(findings(&report), [expected], "{damage}");
}

fn a_wrong_place_in_the_queue_is_found(world: &World) {
    let id = add(&world.open(), "lift");
    let wrong = format!("{id}: its place in the queue is wrong");
    found_by_check(world, "UPDATE tasks SET queue_rank = queue_rank + 1", &wrong);
    found_by_check(world, "UPDATE tasks SET queue_rank = NULL", &wrong);
}

fn a_lost_timer_is_found(world: &World) {
    let store = world.open();
    let id = super::acts::to_checking(&store, "lift");
    let mut raw = world.raw();
    raw.run("DELETE FROM timers");
    let found = findings(&store.check().expect("the check runs"));
    assert_eq!(found, [format!("{id}: has no timer for its bound `nobody_checked`")]);
    let new = NewTask { not_before: Some(NOON.plus(DAY)), ..load("delayed").new };
    let delayed = added(&store, Add { new, ..load("") }).stored.task.id;
    raw.run("DELETE FROM timers");
    let found = findings(&store.check().expect("the check runs"));
    let lost = format!("{delayed}: is delayed without a timer, or the other way round");
    assert!(found.contains(&lost), "{found:?}");
    assert_eq!(store.task(id).unwrap().lifecycle.version, HARNESS.lifecycle.version);
}

/// Its timeouts rest and nobody is asked, because subtasks should do the work.
fn a_split_task_without_subtasks_is_found(world: &World) {
    let store = world.open();
    let own = definition(builtin::source("autonomous").expect("it is built in"));
    let mut split = arriving(&own, "in_progress", None);
    split.new.fields = Fields::from_iter([
        ("split".to_owned(), true.into()),
        ("worker_id".to_owned(), "w".into()),
    ]);
    let id = added(&store, split).stored.task.id;
    let mut raw = world.raw();
    let found = || findings(&store.check().expect("the check runs"));
    assert_eq!(found(), [""; 0], "subtasks may still be created");
    raw.run("UPDATE outbox SET state = 'done'");
    assert_eq!(found(), [format!("{id}: is stranded in in_progress: nothing will move it on")]);
    let child = NewTask { parent: Some(id), ..load("child").new };
    added(&store, Add { new: child, ..load("") });
    assert_eq!(found(), [""; 0]);
}

/// Its numbers are plain data to the lifecycle, and a budget to the program.
fn a_damaged_budget_request_is_named(world: &World) {
    let store = world.open();
    let own = definition(builtin::source("budget").expect("it is built in"));
    let mut request = Add { definition: own, actor: Actor::system(), ..load("more?") };
    let fields = [
        ("scope", json!("batch:spring")),
        ("node", json!("n1")),
        ("problem", json!("more?")),
        ("used", value_of(&Used::default())),
        ("limit", value_of(&Budget::default())),
        ("more", value_of(&Budget::default())),
    ];
    request.new.fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let fields = request.new.fields.clone();
    let id = added(&store, request).stored.task.id;
    let damaged = Fields::from_iter(fields.into_iter().chain([("used".into(), json!("much"))]));
    let why = "invalid type: string \"much\", expected struct Used";
    found_by_check(
        world,
        &format!("UPDATE tasks SET fields = '{}' WHERE id = {}", json!(damaged), id.0),
        &format!("{id}: its field `used` does not read: {why}"),
    );
}

/// A record of the system that does not read is never taken for none.
fn a_damaged_record_is_named(world: &World) {
    for (field, forged) in [("overridden", json!("kim")), ("merged_as", json!({ "base": 1 }))] {
        let store = world.open();
        let id = add(&store, field);
        let fields = json!({ field: forged });
        world.raw().run(&format!("UPDATE tasks SET fields = '{fields}' WHERE id = {}", id.0));
        let error = store.task(id).expect_err("its record is damaged");
        assert!(error.to_string().contains(&format!("its field `{field}`")), "{error}");
        assert!(error.to_string().contains(&id.to_string()), "{error}");
        let listed = store.list(&Filter::default(), None, 100).expect("others are listed").0;
        assert!(listed.iter().all(|stored| stored.task.id != id));
        let moved = store.apply(id, ask("human:kim", "cancelled", &[("reason", "x")]), None, NOON);
        assert_damaged(moved.map(|applied| applied.stored.task), field);
        let found = store.check().expect("the check runs").findings;
        assert!(found.iter().any(|found| found.task == id), "{found:?}");
    }
}

/// Whoever creates a task gives it what its purpose demands.
fn nobody_creates_a_task_without_what_its_purpose_demands(world: &World) {
    let store = world.open();
    for purpose in Purpose::ALL {
        let Some(own) = purpose.engine_lifecycle() else { continue };
        let own = definition(builtin::source(own).expect("it is built in"));
        let first = own.lifecycle.state(own.lifecycle.initial).requires.is_empty();
        let add = Add { definition: own, actor: Actor::system(), ..load("x") };
        let Err(StoreError::Rejected(rejected)) = store.add(add, NOON) else {
            panic!("{purpose}: it is created");
        };
        // What the first state requires is refused before the rest is looked at.
        let owed = |name: &str| Field::named(name).is_some_and(|known| known.is_owed_to(purpose));
        let names: Vec<&str> = rejected.errors.iter().map(|error| error.field.as_str()).collect();
        assert!(names.iter().all(|name| owed(name)), "{purpose}: {rejected}");
        let all = Field::RULES.iter().filter(|rule| owed(rule.name)).count();
        assert!(!names.is_empty() && (names.len() == all || !first), "{purpose}: {rejected}");
    }
}

fn a_wrong_count_of_needs_is_found(world: &World) {
    let store = world.open();
    let a = add(&store, "a");
    let waiting = added(&store, load_after("waiting", &[a])).stored.task.id;
    let found = format!("{waiting}: waits for 2 tasks, but 1 are open");
    found_by_check(
        world,
        &format!("UPDATE tasks SET open_needs = 2 WHERE id = {}", waiting.0),
        &found,
    );
}

fn a_damaged_child_does_not_hide_the_others(world: &World) {
    let store = world.open();
    let parent = add(&store, "parent");
    let child = |title: &str| {
        let new = NewTask { parent: Some(parent), ..load(title).new };
        added(&store, Add { new, ..load("") }).stored.task.id
    };
    let (damaged, sound) = (child("a"), child("b"));
    world.raw().run(&format!("UPDATE tasks SET fields = 'nonsense' WHERE id = {}", damaged.0));
    let ids: Vec<TaskId> = store.children(parent).unwrap().iter().map(|one| one.task.id).collect();
    assert_eq!(ids, [sound]);
    // A decision about the parent must not be taken without it.
    let error = store.all_children(parent).expect_err("one of them is damaged");
    let says = format!("task {damaged} is damaged in the store: its fields are not JSON");
    assert_eq!(error.to_string(), says);
}

fn a_run_with_an_unknown_failure_class_is_found(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    claim(&store, "worker:w1", NOON).expect("it is ready");
    found_by_check(
        world,
        "UPDATE runs SET class = 'bad_luck'",
        &format!(
            "{id}: one of its runs: `bad_luck` is not one of: permission, noop, policy, setup, env, auth, quota, test, \
             flaky, model_loop, model, budget, stall, needs_person, infra, session, unusable"
        ),
    );
}

fn a_lease_without_a_run_is_found(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    claim(&store, "worker:w1", NOON).expect("it is ready");
    let found = format!("{id}: its lease 1 has no run that is under way");
    world.raw().run("DELETE FROM changes WHERE kind = 'run_started'");
    found_by_check(world, "DELETE FROM runs", &found);
}

fn a_run_without_a_lease_is_found(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    claim(&store, "worker:w1", NOON).expect("it is ready");
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "wind")]), NOON);
    let found = format!("{id}: its run 1 is under way without a lease");
    found_by_check(world, "UPDATE runs SET ended_at = NULL, outcome = NULL", &found);
}

fn sums_that_do_not_add_up_are_found(world: &World) {
    let store = world.open();
    let new = NewTask { batch: Some("friday".to_owned()), ..load("lift").new };
    let id = added(&store, Add { new, ..load("lift") }).stored.task.id;
    dispatch(&store, &node("n1", &[worker("ada")]), NOON).claimed.expect("it is ready");
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "wind")]), NOON);
    let faults = || store.check().expect("the check runs").faults;
    assert_eq!(faults(), [""; 0]);
    let mut raw = world.raw();
    raw.lift_constraints();
    raw.run("UPDATE spent SET runs = runs + 1");
    let wrong = |scope: &str| format!("what was used by {scope} is not what its runs add up to");
    assert_eq!(faults(), [wrong("account:plan"), wrong("batch:friday")]);
    raw.run("DELETE FROM spent; DELETE FROM switches");
    raw.run("INSERT INTO accounts (name, reason, hits, probing) VALUES ('plan', '', -1, 0)");
    assert_eq!(
        faults(),
        [
            "the switch that pauses everything is gone".to_owned(),
            "the account plan is in no possible state".to_owned(),
            wrong("batch:friday"),
        ]
    );
}
