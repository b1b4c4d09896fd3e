//! Dispatching: what the scheduler chooses is claimed at once, and its bounds hold over all nodes.

use std::collections::{BTreeMap, BTreeSet};

use banksman::store::batches::BatchChange;
use banksman::store::{Add, ClaimRequest, Dispatch, Dispatched, Node, Store};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::limits::NODE_GONE;
use banksman_core::machine::{Event, Finish, NewTask};
use banksman_core::schedule::{Budget, Ineligible, Worker};
use banksman_core::time::Span;
use serde_json::json;

use super::acts::{
    CRANE, DAY, HOUR, MINUTE, NOON, TTL, actor, add, added, apply, at_once, claim, definition,
    dispatch, ended, exactly, finish, load, node, put_batch, request, state, worker,
};
use super::world::World;
use super::{on_both, on_both_damaging};

on_both!(
    a_dispatched_run_knows_its_node_its_worker_and_its_account,
    the_role_is_one_that_the_task_names_and_the_worker_plays,
    a_state_that_names_a_role_is_taken_in_that_role,
    bounds_hold_over_all_nodes_at_once,
    overlapping_areas_never_run_at_once,
    an_area_of_a_worker_from_outside_counts,
    a_pause_holds_everything_back_and_says_so,
    a_paused_batch_holds_its_own_tasks_only,
    a_full_batch_holds_its_own_tasks_only,
    a_batch_is_never_fuller_than_it_may_be,
    budgets_are_checked_where_tasks_are_claimed,
    what_nobody_can_serve_is_told_apart,
    without_any_worker_nothing_is_unserved,
    only_live_nodes_have_workers,
    an_account_that_is_paused_holds_its_workers_back,
    why_asks_what_the_dispatcher_asks,
);

on_both_damaging!(
    a_long_queue_of_a_paused_batch_keeps_nobody_waiting,
    a_claim_that_breaks_an_invariant_is_told_and_passed_over,
);

/// A task of a batch.
fn of_batch(title: &str, batch: &str) -> Add {
    let new = NewTask { batch: Some(batch.to_owned()), ..load(title).new };
    Add { new, ..load(title) }
}

/// A lifecycle whose tasks say what they touch.
fn painting(title: &str, areas: &[&str]) -> Add {
    let source = "lifecycle: painting
purpose: task
initial: queued
roles: [worker]
fields: { target_area: { type: text, by: anyone }, touches: { type: texts, by: anyone }, allowed_paths: { type: texts, by: anyone } }
states:
  queued: { kind: queued }
  painting:
    kind: working
    does: { activity: agent, role: worker, outcomes: { otherwise: dry } }
    timeouts: [{ after: 1d, to: done, on: late }]
  done: { kind: done }
transitions:
  - { from: queued, to: painting, on: claim, by: [worker] }
  - { from: painting, to: done, on: dry, by: [system] }
";
    let mut add = Add { definition: definition(source), ..load(title) };
    add.new.fields.insert("touches".to_owned(), json!(areas));
    add
}

fn first(dispatched: Dispatched) -> TaskId {
    dispatched.claimed.expect("a task starts").run.task
}

fn kinds(dispatched: &Dispatched) -> Vec<(TaskId, Vec<&'static str>)> {
    let kinds = |held: &[Ineligible]| held.iter().map(Ineligible::kind).collect();
    dispatched.ineligible.iter().map(|(task, held)| (*task, kinds(held))).collect()
}

fn a_dispatched_run_knows_its_node_its_worker_and_its_account(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let dear = Worker { cost: 5, ..worker("dear") };
    let cheap = Worker { account: "api".to_owned(), ..worker("cheap") };
    let dispatched = dispatch(&store, &node("n1", &[dear, cheap]), NOON);
    assert_eq!(dispatched.worker.as_deref(), Some("cheap"));
    let claimed = dispatched.claimed.expect("it is ready");
    assert_eq!((claimed.run.task, claimed.run.epoch), (id, 1));
    let lease = store.task(id).unwrap().task.lease.expect("it is held");
    assert_eq!((lease.worker.as_str(), lease.expires_at), ("worker:cheap", NOON.plus(TTL)));
    let [open] = &store.open_runs(Some("n1")).unwrap()[..] else { panic!("one run") };
    assert_eq!((open.run, open.worker.as_str()), (claimed.run, "cheap"));
    assert_eq!((open.node.as_deref(), open.account.as_deref()), (Some("n1"), Some("api")));
    assert_eq!((open.expires_at, open.started_at), (NOON.plus(TTL), NOON));
    assert_eq!(store.open_runs(Some("n2")).unwrap(), []);
    assert_eq!(store.open_runs(None).unwrap(), std::slice::from_ref(open));
    assert!(dispatch(&store, &node("n1", &[worker("w")]), NOON).claimed.is_none());
}

fn the_role_is_one_that_the_task_names_and_the_worker_plays(world: &World) {
    let store = world.open();
    let heavy = added(&store, Add { definition: CRANE.clone(), ..load("for a crane") });
    let heavy = heavy.stored.task.id;
    let light = add(&store, "for a worker");
    let plays = |name: &str, role: &str| Worker {
        roles: BTreeSet::from([role.to_owned()]),
        ..worker(name)
    };
    let site = node("n1", &[plays("hand", "worker"), plays("hook", "crane")]);
    let taken = [dispatch(&store, &site, NOON), dispatch(&store, &site, NOON)];
    let names: Vec<_> = taken.iter().map(|taken| taken.worker.as_deref()).collect();
    assert_eq!(names, [Some("hook"), Some("hand")]);
    let who = |id| store.task(id).unwrap().task.lease.expect("it is held").worker;
    assert_eq!((who(heavy), who(light)), ("crane:hook".to_owned(), "worker:hand".to_owned()));
}

fn a_state_that_names_a_role_is_taken_in_that_role(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let site = node("n1", &[worker("ada")]);
    let run = dispatch(&store, &site, NOON).claimed.expect("it is ready").run;
    apply(&store, id, Event::Finished(finish(run.epoch, Outcome::Crashed)), NOON);
    assert_eq!(state(&store, id), "lifting");
    let crane = Worker { roles: BTreeSet::from(["crane".to_owned()]), ..worker("hook") };
    let other = dispatch(&store, &node("n1", &[crane]), NOON);
    assert!(other.claimed.is_none());
    assert_eq!(other.unserved.len(), 1);
    let again = dispatch(&store, &site, NOON).claimed.expect("it is ready");
    assert_eq!((again.run.task, again.run.epoch), (id, 2));
}

/// Lets eight threads of four nodes dispatch until nothing starts any more.
fn all_start(world: &World, bounded: impl Fn(&Node) -> Dispatch + Sync) -> Vec<TaskId> {
    let handles = [world.open(), world.open()];
    let started = at_once(8, |thread| {
        let store = &handles[thread % 2];
        let site = node(&format!("n{}", thread % 4), &[worker("ada")]);
        let mut mine = Vec::new();
        while let Some(claimed) = store.dispatch(bounded(&site), NOON).unwrap().claimed {
            mine.push(claimed.run.task);
        }
        mine
    });
    started.into_iter().flatten().collect()
}

fn bounds_hold_over_all_nodes_at_once(world: &World) {
    let store = world.open();
    for number in 0..40 {
        add(&store, &number.to_string());
    }
    let limits = BTreeMap::from([("plan".to_owned(), 7)]);
    let by_limit = |site: &Node| Dispatch { limit: Some(5), ..request(site) };
    assert_eq!(all_start(world, by_limit).len(), 5);
    let by_account = |site: &Node| Dispatch { account_limits: limits.clone(), ..request(site) };
    assert_eq!(all_start(world, by_account).len(), 2);
    // Three on each of the four nodes, less what is there.
    let by_node = |site: &Node| Dispatch { capacity: 3, ..request(site) };
    all_start(world, by_node);
    for number in 0..4 {
        let there = store.open_runs(Some(&format!("n{number}"))).unwrap().len();
        assert!(there >= 3, "{there} on n{number}");
    }
    let budget = Budget { runs: Some(20), ..Budget::default() };
    all_start(world, |site| Dispatch { day_budget: budget, ..request(site) });
    assert_eq!(store.open_runs(None).unwrap().len(), 20);
    assert_eq!(store.overview().unwrap().running, 20);
}

fn overlapping_areas_never_run_at_once(world: &World) {
    let store = world.open();
    for number in 0..24 {
        let area = ["apps/web", "apps/web/src", "crates/core", "docs"][number % 4];
        added(&store, painting(&number.to_string(), &[&format!("{area}/**")]));
    }
    let mut rounds = 0;
    while store.overview().unwrap().ready > 0 {
        let started = all_start(world, request);
        // Both areas under apps/web are one.
        assert!((1..=3).contains(&started.len()), "{started:?}");
        for open in store.open_runs(None).unwrap() {
            let end = Event::Finished(finish(open.run.epoch, Outcome::Succeeded));
            apply(&store, open.run.task, end, NOON);
        }
        rounds += 1;
        assert!(rounds <= 24, "it does not come to an end");
    }
    assert_eq!(rounds, 12);
}

fn an_area_of_a_worker_from_outside_counts(world: &World) {
    let store = world.open();
    let outside = added(&store, painting("outside", &["apps/web"])).stored.task.id;
    let inside = added(&store, painting("inside", &["apps/web"])).stored.task.id;
    assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, outside);
    let site = node("n1", &[worker("ada")]);
    let held = dispatch(&store, &site, NOON);
    assert_eq!(kinds(&held), [(inside, vec!["area_taken"])]);
    // What the run makes of its task meanwhile does not move the fence.
    let dry = Event::Finished(finish(1, Outcome::Succeeded));
    apply(&store, outside, dry, NOON);
    assert_eq!(first(dispatch(&store, &site, NOON)), inside);
}

fn a_pause_holds_everything_back_and_says_so(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    assert!(!store.overview().unwrap().paused);
    store.set_paused(true, "human:kim", NOON).unwrap();
    assert!(world.open().overview().unwrap().paused);
    let site = node("n1", &[worker("ada")]);
    let held = dispatch(&store, &site, NOON);
    assert!(held.claimed.is_none());
    assert_eq!(kinds(&held), [(id, vec!["paused"])]);
    assert!(claim(&store, "worker:w1", NOON).is_none());
    assert!(store.overview().unwrap().paused);
    let by = world.raw().value("SELECT changed_by FROM switches");
    assert_eq!(by.as_deref(), Some("human:kim"));
    store.set_paused(false, "human:kim", NOON).unwrap();
    assert_eq!(first(dispatch(&store, &site, NOON)), id);
}

fn a_paused_batch_holds_its_own_tasks_only(world: &World) {
    let store = world.open();
    let friday = added(&store, of_batch("of friday", "friday")).stored.task.id;
    let monday = added(&store, of_batch("of monday", "monday")).stored.task.id;
    let alone = add(&store, "of no batch");
    let pause = |paused| BatchChange { paused: Some(paused), ..BatchChange::default() };
    assert!(store.set_batch("friday", pause(true)).unwrap());
    assert!(!store.set_batch("sunday", pause(true)).unwrap());
    let site = node("n1", &[worker("ada")]);
    assert_eq!(first(dispatch(&store, &site, NOON)), monday);
    assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, alone);
    assert!(claim(&store, "worker:w1", NOON).is_none());
    let nothing = dispatch(&store, &site, NOON);
    assert!(nothing.claimed.is_none() && nothing.ineligible.is_empty());
    store.set_batch("friday", pause(false)).unwrap();
    assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, friday);
}

fn a_full_batch_holds_its_own_tasks_only(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 1);
    let ids: Vec<TaskId> = (0..2)
        .map(|number| added(&store, of_batch(&number.to_string(), "friday")).stored.task.id)
        .collect();
    let alone = add(&store, "of no batch");
    let site = node("n1", &[worker("ada")]);
    assert_eq!(first(dispatch(&store, &site, NOON)), ids[0]);
    assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, alone);
    assert!(dispatch(&store, &site, NOON).claimed.is_none());
    assert!(claim(&store, "worker:w1", NOON).is_none());
    store
        .set_batch("friday", BatchChange { concurrency: Some(2), ..BatchChange::default() })
        .unwrap();
    assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, ids[1]);
}

fn a_batch_is_never_fuller_than_it_may_be(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 3);
    for number in 0..30 {
        added(&store, of_batch(&number.to_string(), "friday"));
    }
    let handles = [world.open(), world.open()];
    at_once(8, |thread| {
        let (store, site) = (&handles[thread % 2], node(&format!("n{thread}"), &[worker("ada")]));
        for _ in 0..4 {
            // Workers from outside and the dispatcher at the same time.
            if thread % 2 == 0 {
                claim(store, "worker:w1", NOON);
            } else {
                dispatch(store, &site, NOON);
            }
        }
    });
    assert_eq!(store.open_runs(None).unwrap().len(), 3);
    let [batch] = &store.batches().unwrap()[..] else { panic!("one batch") };
    assert_eq!((batch.running, batch.tasks), (3, 30));
}

fn budgets_are_checked_where_tasks_are_claimed(world: &World) {
    let store = world.open();
    let site = node("n1", &[worker("ada")]);
    let id = added(&store, of_batch("lift", "friday")).stored.task.id;
    let run = dispatch(&store, &site, NOON).claimed.expect("ready").run;
    let cost = Finish { tokens: 100, cost_micros: 7, ..finish(run.epoch, Outcome::Crashed) };
    store.end_run(id, ended(cost), NOON.plus(MINUTE)).unwrap();
    let at = NOON.plus(HOUR);
    let tight = [
        Budget { runs: Some(1), ..Budget::default() },
        Budget { tokens: Some(100), ..Budget::default() },
        Budget { cost_micros: Some(7), ..Budget::default() },
        Budget { time: Some(MINUTE), ..Budget::default() },
    ];
    let held = |dispatch: Dispatch| store.dispatch(dispatch, at).unwrap();
    let from_outside = ClaimRequest::new(actor("worker:w1"), TTL);
    let set_budget = |budget| {
        let change = BatchChange { budget: exactly(budget), ..BatchChange::default() };
        assert!(store.set_batch("friday", change).unwrap());
    };
    let wide = Budget { runs: Some(2), tokens: Some(101), cost_micros: Some(8), time: Some(HOUR) };
    for budget in tight {
        let whose = [
            Dispatch { day_budget: budget, ..request(&site) },
            Dispatch { task_budget: budget, ..request(&site) },
        ];
        for request in whose {
            assert_eq!(kinds(&held(request)), [(id, vec!["over_budget"])], "{budget:?}");
        }
        let whose = [
            ClaimRequest { day_budget: budget, ..from_outside.clone() },
            ClaimRequest { task_budget: budget, ..from_outside.clone() },
        ];
        for request in whose {
            assert!(store.claim(request, at).unwrap().is_none(), "{budget:?}");
        }
        set_budget(budget);
        assert!(held(request(&site)).claimed.is_none(), "{budget:?}");
        assert!(claim(&store, "worker:w1", at).is_none(), "{budget:?}");
        set_budget(wide);
    }
    let request = Dispatch { day_budget: wide, task_budget: wide, ..request(&site) };
    // The next day has a budget of its own, but this one is not used up either.
    assert_eq!(first(held(request)), id);
}

fn what_nobody_can_serve_is_told_apart(world: &World) {
    let store = world.open();
    let tagged = |title: &str, tag: &str| {
        let new = NewTask { tags: vec![tag.to_owned()], ..load(title).new };
        added(&store, Add { new, ..load(title) }).stored.task.id
    };
    let welding = tagged("weld", "needs:welding");
    let lifting = tagged("lift", "needs:lifting");
    let lifter = Worker { capabilities: BTreeSet::from(["lifting".to_owned()]), ..worker("ada") };
    store.put_node(&node("n2", std::slice::from_ref(&lifter))).unwrap();
    let elsewhere = dispatch(&store, &node("n1", &[worker("bob")]), NOON);
    assert_eq!(kinds(&elsewhere), [(lifting, vec!["not_here"])]);
    let [(unserved, held)] = &elsewhere.unserved[..] else { panic!("{elsewhere:?}") };
    assert_eq!((*unserved, held[0].kind()), (welding, "no_worker"));
    assert_eq!(first(dispatch(&store, &node("n2", &[lifter]), NOON)), lifting);
}

fn without_any_worker_nothing_is_unserved(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let held = dispatch(&store, &node("n1", &[]), NOON);
    assert_eq!((kinds(&held), held.unserved.len()), (vec![(id, vec!["no_worker"])], 0));
}

fn only_live_nodes_have_workers(world: &World) {
    let store = world.open();
    let new = NewTask { tags: vec!["needs:lifting".to_owned()], ..load("lift").new };
    added(&store, Add { new, ..load("lift") });
    let lifter = Worker { capabilities: BTreeSet::from(["lifting".to_owned()]), ..worker("ada") };
    store.put_node(&node("n2", &[lifter])).unwrap();
    let here = node("n1", &[worker("bob")]);
    let (live, gone) = (NOON.plus(NODE_GONE), NOON.plus(NODE_GONE).plus(Span(1)));
    assert_eq!(store.dispatch(request(&here), live).unwrap().unserved.len(), 0);
    assert_eq!(store.dispatch(request(&here), gone).unwrap().unserved.len(), 1);
    let names = |now| -> Vec<String> {
        store.live_nodes(now).unwrap().into_iter().map(|node| node.name).collect()
    };
    assert_eq!((names(live), names(gone)), (vec!["n2".to_owned()], Vec::new()));
}

fn an_account_that_is_paused_holds_its_workers_back(world: &World) {
    let store = world.open();
    let site = node("n1", &[worker("ada")]);
    let ids: Vec<TaskId> = (0..3).map(|number| add(&store, &number.to_string())).collect();
    let run = dispatch(&store, &site, NOON).claimed.expect("ready").run;
    let mut end =
        ended(Finish { again_at: Some(NOON.plus(DAY)), ..finish(run.epoch, Outcome::Crashed) });
    end.pause = Some(super::accounts::pause("plan", NOON.plus(HOUR)));
    store.end_run(run.task, end, NOON).unwrap();
    let held = dispatch(&store, &site, NOON);
    assert_eq!(kinds(&held), [(ids[1], vec!["account_paused"]), (ids[2], vec!["account_paused"])]);
    let at = NOON.plus(HOUR);
    assert_eq!(store.end_pauses(at).unwrap(), ["plan"]);
    // One tries, and the others wait for what it finds.
    let trial = dispatch(&store, &site, at).claimed.expect("one tries").run;
    assert_eq!(trial.task, ids[1]);
    assert_eq!(kinds(&dispatch(&store, &site, at)), [(ids[2], vec!["account_probing"])]);
    let mut answered = ended(finish(trial.epoch, Outcome::Policy));
    answered.answers = true;
    store.end_run(trial.task, answered, at).unwrap();
    assert_eq!(first(dispatch(&store, &site, at)), ids[2]);
}

fn why_asks_what_the_dispatcher_asks(world: &World) {
    let store = world.open();
    let site = node("n1", &[worker("ada")]);
    let taken = added(&store, painting("taken", &["apps/web"])).stored.task.id;
    let mut held = painting("held", &["apps/web"]);
    held.new.batch = Some("friday".to_owned());
    let held = added(&store, held).stored.task.id;
    assert_eq!(first(dispatch(&store, &site, NOON)), taken);
    let why =
        |store: &Store| store.choice(held, &request(&site), NOON).unwrap().expect("it is queued");
    let dispatched = dispatch(&store, &site, NOON);
    assert_eq!(dispatched.ineligible, [(held, why(&store).expect_err("it is held"))]);
    assert_eq!(store.choice(taken, &request(&site), NOON).unwrap(), None);
    // The dispatcher does not even look at a paused batch, but who asks is told.
    let pause = BatchChange { paused: Some(true), ..BatchChange::default() };
    store.set_batch("friday", pause).unwrap();
    let reasons = why(&store).expect_err("it is held");
    let reasons: Vec<_> = reasons.iter().map(Ineligible::kind).collect();
    assert_eq!(reasons, ["batch_paused", "area_taken"]);
    let load = store.load(&request(&site), NOON).unwrap();
    assert_eq!((load.running.len(), load.batches["friday"].paused), (1, true));
    apply(&store, taken, Event::Finished(finish(1, Outcome::Succeeded)), NOON);
    store.set_batch("friday", BatchChange { paused: Some(false), ..pause }).unwrap();
    assert_eq!(why(&store), Ok("ada".to_owned()));
    assert_eq!(first(dispatch(&store, &site, NOON)), held);
}

/// Tasks of a paused batch that stand before all others: more than a claim looks at.
const AHEAD: i64 = 3_000;

fn a_long_queue_of_a_paused_batch_keeps_nobody_waiting(world: &World) {
    let store = world.open();
    let first_one = added(&store, of_batch("of friday", "friday")).stored.task.id;
    multiply(world, first_one, AHEAD);
    let pause = BatchChange { paused: Some(true), ..BatchChange::default() };
    store.set_batch("friday", pause).unwrap();
    let site = node("n1", &[worker("ada")]);
    let mut others = Vec::new();
    for number in 0..10 {
        let new = NewTask { priority: -9, ..load(&number.to_string()).new };
        others.push(added(&store, Add { new, ..load("") }).stored.task.id);
    }
    for pair in others.chunks(2) {
        assert_eq!(first(dispatch(&store, &site, NOON)), pair[0]);
        assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, pair[1]);
    }
}

/// A number of runs at its end cannot count one more.
fn a_claim_that_breaks_an_invariant_is_told_and_passed_over(world: &World) {
    let store = world.open();
    let broken = add(&store, "counted out");
    let behind = [add(&store, "behind"), add(&store, "last")];
    let end = format!("UPDATE tasks SET spent_runs = {} WHERE id = {}", i64::MAX, broken.0);
    world.raw().run(&end);
    let dispatched = dispatch(&store, &node("n1", &[worker("ada"), worker("bob")]), NOON);
    let told: Vec<_> =
        dispatched.broken.iter().map(|(task, said)| (*task, said.to_string())).collect();
    let [(task, said)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*task, broken);
    assert!(said.contains("the run is not counted in the usage"), "{said}");
    assert_eq!(first(dispatched), behind[0]);
    assert_eq!(claim(&store, "worker:w1", NOON).expect("ready").run.task, behind[1]);
    assert_eq!(state(&store, broken), "queued");
}

/// Copies a row of the queue many times, past the store: only the queue is read here.
fn multiply(world: &World, id: TaskId, times: i64) {
    let mut raw = world.raw();
    let columns = raw.rows(&format!("SELECT * FROM tasks WHERE id = {}", id.0))[0].len();
    assert_eq!(columns, 32, "a column is missing below");
    let rest = "project, batch, lifecycle, title, tags, priority, parent, state, kind, state_group, prior, version, \
                entered, fields, counters, open_needs, not_before, queue_rank, epoch, lease_worker, lease_expires_at, \
                spent_runs, spent_tokens, spent_cost_micros, created_at, updated_at, entered_at, progress_at, head, fed, uncounted_ms";
    raw.run(&format!(
        "INSERT INTO tasks (id, {rest}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {times}) \
         SELECT -i, {rest} FROM tasks, n WHERE id = {}",
        id.0
    ));
}
