//! Claiming: the right task, to the right worker, once.

use std::collections::BTreeSet;

use banksman::store::{Add, ClaimRequest};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{Effect, NewTask, TimerKind};
use banksman_core::time::Span;

use super::acts::{
    CRANE, DAY, HARNESS, HOUR, MINUTE, NOON, TTL, actor, add, added, apply, ask, at_once, claim,
    claim_first, load, pending,
};
use super::on_both;
use super::world::World;

on_both!(
    the_queue_goes_by_priority_and_then_by_age,
    a_day_of_waiting_is_worth_one_step_of_priority,
    what_the_role_may_not_take_is_passed_over,
    a_claim_looks_past_many_tasks_of_others,
    every_task_goes_to_one_of_many_workers,
    a_delayed_task_is_claimed_when_its_time_has_come,
    a_claim_gives_a_lease_and_starts_a_run,
    nothing_is_claimed_where_nothing_waits,
);

fn the_queue_goes_by_priority_and_then_by_age(world: &World) {
    let store = world.open();
    let given = [("old", 0, 0), ("urgent", 5, 2), ("low", -1, 0), ("young", 0, 1), ("twin", 0, 1)];
    let mut ids = std::collections::BTreeMap::new();
    for (title, priority, minutes) in given {
        let new = NewTask { priority, ..load(title).new };
        let at = NOON.plus(Span(minutes * MINUTE.0));
        let id = store.add(Add { new, ..load(title) }, at).unwrap().stored.task.id;
        ids.insert(title, id);
    }
    let ahead: Vec<i64> = given
        .iter()
        .map(|(title, ..)| store.detail(ids[title]).unwrap().ahead.expect("it is in the queue"))
        .collect();
    assert_eq!(ahead, [1, 0, 4, 2, 2]);
    let order: Vec<String> = (0..5)
        .map(|_| claim(&store, "worker:w1", NOON.plus(HOUR)).expect("ready").stored.task.title)
        .collect();
    assert_eq!(order, ["urgent", "old", "young", "twin", "low"]);
}

fn a_day_of_waiting_is_worth_one_step_of_priority(world: &World) {
    let store = world.open();
    let old = add(&store, "waits for two days");
    let new = NewTask { priority: 1, ..load("urgent").new };
    let later = NOON.plus(Span(2 * DAY.0));
    store.add(Add { new, ..load("urgent") }, later).unwrap();
    claim_first(&store, old, later);
}

fn what_the_role_may_not_take_is_passed_over(world: &World) {
    let store = world.open();
    let crane = Add { definition: CRANE.clone(), ..load("only for a crane") };
    let heavy = added(&store, crane).stored.task.id;
    let light = add(&store, "for anybody");
    assert_eq!(claim(&store, "worker:w1", NOON).expect("the second").run.task, light);
    assert!(claim(&store, "worker:w1", NOON).is_none());
    assert!(claim(&store, "stranger:s1", NOON).is_none());
    assert_eq!(store.overview().unwrap().ready, 1);
    assert_eq!(claim(&store, "crane:c1", NOON).expect("the first").run.task, heavy);
}

fn a_claim_looks_past_many_tasks_of_others(world: &World) {
    let store = world.open();
    for number in 0..70 {
        let title = format!("for a crane {number}");
        added(&store, Add { definition: CRANE.clone(), ..load(&title) });
    }
    let light = add(&store, "for anybody");
    claim_first(&store, light, NOON);
    assert_eq!(store.overview().unwrap().ready, 70);
}

fn every_task_goes_to_one_of_many_workers(world: &World) {
    const TASKS: usize = 400;
    const THREADS: usize = 8;
    let handles = [world.open(), world.open()];
    at_once(THREADS, |thread| {
        for number in 0..TASKS / THREADS {
            add(&handles[thread % 2], &format!("{thread}.{number}"));
        }
    });
    let claimed = at_once(THREADS, |thread| {
        let worker = format!("worker:w{thread}");
        let mut mine = Vec::new();
        // On PostgreSQL a claim passes over what another one holds at that moment, so `None` is not
        // yet the end.
        while handles[thread % 2].overview().unwrap().ready > 0 {
            mine.extend(claim(&handles[thread % 2], &worker, NOON).map(|claimed| claimed.run));
        }
        mine
    });
    let runs: Vec<_> = claimed.into_iter().flatten().collect();
    let tasks: BTreeSet<TaskId> = runs.iter().map(|run| run.task).collect();
    assert_eq!((runs.len(), tasks.len()), (TASKS, TASKS));
    assert!(runs.iter().all(|run| run.epoch == 1));
    assert_eq!(world.raw().number("SELECT count(*) FROM runs"), 400);
}

fn a_delayed_task_is_claimed_when_its_time_has_come(world: &World) {
    let store = world.open();
    let due = NOON.plus(HOUR);
    let new = NewTask { not_before: Some(due), ..load("later").new };
    let later = added(&store, Add { new, ..load("later") }).stored.task.id;
    assert_eq!(store.overview().unwrap().next_timer, Some(due));
    let early = NOON.plus(Span(HOUR.0 - 1));
    assert_eq!(store.fire_due(early, 10).unwrap().results, []);
    assert!(claim(&store, "worker:w1", early).is_none());
    let timers = store.detail(later).unwrap().timers;
    assert_eq!(timers.iter().map(|timer| timer.kind).collect::<Vec<_>>(), [TimerKind::Ready]);
    assert_eq!(store.fire_due(due, 10).unwrap().results.len(), 1);
    assert_eq!(store.overview().unwrap().next_timer, None);
    claim_first(&store, later, due);
    let past = NewTask { not_before: Some(NOON), ..load("at once").new };
    let past = added(&store, Add { new: past, ..load("at once") }).stored.task;
    assert_eq!(past.not_before, None);
    claim_first(&store, past.id, NOON);
}

fn a_claim_gives_a_lease_and_starts_a_run(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let request = ClaimRequest::new(actor("worker:w1"), TTL);
    let claimed = store.claim(request, NOON).unwrap().expect("it is ready");
    assert_eq!((claimed.run.task, claimed.run.epoch), (id, 1));
    let detail = world.open().detail(id).unwrap();
    assert_eq!(detail.stored.task, claimed.stored.task);
    let lease = detail.stored.task.lease.expect("a lease");
    assert_eq!(
        (lease.epoch, lease.worker.as_str(), lease.expires_at),
        (1, "worker:w1", NOON.plus(TTL))
    );
    assert_eq!((detail.stored.task.spent.runs, detail.ahead), (1, None));
    assert_eq!(detail.stored.task.counters[0].total, 1);
    let runs = store.past_runs(id, 9).unwrap();
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!((run.epoch, run.worker.as_str()), (claimed.run.epoch, "w1"));
    let of_agents = "SELECT count(*) FROM runs WHERE worker = 'worker:w1' AND activity = 'agent'";
    assert_eq!(world.raw().number(of_agents), 1);
    assert_eq!((run.started_at, run.ended_at, run.outcome), (NOON, None, None));
    let expiring = "SELECT id FROM tasks WHERE lease_expires_at <= 1707740100000";
    assert_eq!(world.raw().number(expiring), id.0);
    // Somebody takes it away: the run has to be told to stop.
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "the wind")]), NOON.plus(MINUTE));
    let detail = store.detail(id).unwrap();
    assert_eq!(detail.stored.task.lease, None);
    let runs = store.past_runs(id, 9).unwrap();
    assert_eq!(runs[0].outcome, Some(Outcome::Stopped));
    assert_eq!(runs[0].ended_at, Some(NOON.plus(MINUTE)));
    let effects = pending(&store, NOON.plus(HOUR));
    assert!(
        effects.iter().any(|pending| pending.effect == Effect::Stop { epoch: 1 }),
        "{effects:?}"
    );
}

fn nothing_is_claimed_where_nothing_waits(world: &World) {
    let store = world.open();
    assert!(claim(&store, "worker:w1", NOON).is_none());
    let id = added(&store, load("lift")).stored.task.id;
    apply(&store, id, ask("human:kim", "parked", &[]), NOON);
    assert!(claim(&store, "worker:w1", NOON).is_none());
    assert_eq!(store.task(id).unwrap().lifecycle.version, HARNESS.lifecycle.version);
}
