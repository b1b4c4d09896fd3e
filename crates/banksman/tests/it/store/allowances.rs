//! Budgets of a day and of a batch: one question for all that wait, and a yes is as much again.

use std::sync::LazyLock;
use std::thread;

use banksman::store::allowances::{ALLOWANCE, BudgetAction, ExhaustedBudget};
use banksman::store::batches::BatchChange;
use banksman::store::{Add, ClaimRequest, Definition, Dispatch, IdempotencyKey, Store, scope_name};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Outcome, builtin};
use banksman_core::machine::{Actor, Event, Finish, NewTask};
use banksman_core::schedule::{Budget, BudgetScope};
use banksman_core::time::Instant;
use serde_json::json;

use super::acts::{
    DAY, HOUR, MINUTE, NOON, TTL, actor, add, added, apply, ask, at_once, definition, exactly,
    finish, load, node, request, state, worker,
};
use super::on_both;
use super::world::World;
use crate::engine::processes::wait_until;

on_both!(
    a_yes_gives_a_day_as_much_again_and_the_next_question_is_another_one,
    people_are_asked_however_often_they_were_before,
    a_no_holds_for_the_bounds_that_it_was_about,
    a_day_that_is_over_asks_no_more,
    a_batch_is_raised_once_and_stays_as_a_person_has_set_it_since,
    a_yes_does_not_undo_what_somebody_sets_at_the_same_time,
    another_yes_adds_as_much_to_a_batch_as_the_first,
    a_question_is_moot_when_the_budget_was_raised,
    only_the_node_that_asked_about_the_day_takes_its_question_back,
    nothing_is_asked_where_a_yes_would_change_nothing,
    a_day_is_not_asked_for_while_all_that_waits_is_paused,
    nodes_that_see_the_same_ask_once,
    a_key_that_belongs_to_something_else_grants_nothing,
);

const RUN: Budget = Budget { runs: Some(1), tokens: None, cost_micros: None, time: None };
const RUNS: fn(i64) -> Budget = |runs| Budget { runs: Some(runs), ..RUN };
const BATCH: &str = "friday";

static QUESTION: LazyLock<Definition> =
    LazyLock::new(|| definition(builtin::source(ALLOWANCE).expect("it ships")));

fn load_of_batch(title: &str) -> Add {
    let new = NewTask { batch: Some(BATCH.to_owned()), ..load(title).new };
    Add { new, ..load(title) }
}

fn question(used_up: &ExhaustedBudget, key: &str, node: &str, now: Instant) -> Add {
    let fields = json!({
        "scope": scope_name(&used_up.scope, now), "node": node, "problem": "more?",
        "used": used_up.used, "limit": used_up.limit, "more": used_up.more,
    });
    let fields = fields.as_object().cloned().expect("an object");
    let (actor, key) = (Actor::system(), Some(IdempotencyKey::new(key, key)));
    let new = NewTask { title: "more?".to_owned(), fields, ..NewTask::default() };
    Add { new, definition: QUESTION.clone(), needs: Vec::new(), actor, key, arrival: None }
}

/// The one budget that is used up.
fn used_up(store: &Store, day: &Budget, now: Instant) -> ExhaustedBudget {
    let mut found = store.used_up(day, now).expect("it is read");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Asks as node `n1` does, and answers with the question.
fn asks(store: &Store, day: &Budget, now: Instant) -> TaskId {
    let found = used_up(store, day, now);
    let BudgetAction::Ask(key) = &found.next else { panic!("{found:?}") };
    let id = store.add(question(&found, key, "n1", now), now).expect("added").stored.task.id;
    assert_eq!(used_up(store, day, now).next, BudgetAction::Nothing, "it is asked already");
    assert_eq!(store.allowance(&found.scope, now).expect("it is read"), Some(id));
    id
}

fn says(store: &Store, id: TaskId, to: &str, now: Instant) {
    apply(store, id, ask("human:kim", to, &[]), now);
}

fn claims(store: &Store, day: Budget, now: Instant) -> bool {
    let site = node("n1", &[worker("ada")]);
    let request = Dispatch { day_budget: day, ..request(&site) };
    let from_outside =
        ClaimRequest { day_budget: day, ..ClaimRequest::new(actor("worker:w1"), TTL) };
    // What the load says is what `why` goes by.
    let limit = store.load(&request, now).expect("the load is read").day_budget;
    let Some(claimed) = store.dispatch(request, now).expect("dispatching works").claimed else {
        assert!(store.claim(from_outside, now).expect("claiming works").is_none());
        return false;
    };
    assert!(limit.runs >= day.runs);
    end(store, claimed.run.task, claimed.run.epoch, now);
    true
}

fn end(store: &Store, id: TaskId, epoch: i64, now: Instant) {
    let crashed = Finish { tokens: 100, ..finish(epoch, Outcome::Crashed) };
    apply(store, id, Event::Finished(crashed), now);
}

fn batch_runs(store: &Store) -> Option<i64> {
    store.batches().expect("the batches are read").remove(0).budget.runs
}

fn set_runs(store: &Store, runs: i64) {
    let change = BatchChange { budget: exactly(RUNS(runs)), ..BatchChange::default() };
    assert!(store.set_batch(BATCH, change).expect("it is set"));
}

/// A batch with a budget of so many runs, all of them used up, and a task that waits.
fn batch_used_up(store: &Store, runs: i64) {
    for number in 0..=runs {
        added(store, load_of_batch(&format!("lift {number}")));
    }
    set_runs(store, runs);
    for _ in 0..runs {
        assert!(claims(store, Budget::default(), NOON));
    }
    assert!(!claims(store, Budget::default(), NOON));
}

fn a_yes_gives_a_day_as_much_again_and_the_next_question_is_another_one(world: &World) {
    let store = world.open();
    for number in 0..5 {
        add(&store, &format!("lift {number}"));
    }
    assert_eq!(store.used_up(&RUN, NOON).unwrap(), []);
    assert!(claims(&store, RUN, NOON) && !claims(&store, RUN, NOON));
    let found = used_up(&store, &RUN, NOON);
    assert_eq!((found.scope.clone(), found.used.runs, found.waiting), (BudgetScope::Day, 1, 5));

    let first = asks(&store, &RUN, NOON);
    assert!(!claims(&store, RUN, NOON), "a question is not yet an answer");
    says(&store, first, "granted", NOON);
    assert!(claims(&store, RUN, NOON) && !claims(&store, RUN, NOON), "as much again, and no more");
    let second = asks(&store, &RUN, NOON);
    assert_ne!(first, second);
    says(&store, second, "granted", NOON);
    assert!(claims(&store, RUN, NOON) && !claims(&store, RUN, NOON));
    assert_eq!(used_up(&store, &RUN, NOON).limit, RUNS(3));
}

/// Whoever says yes all day long is asked all day long, each time by one question.
fn people_are_asked_however_often_they_were_before(world: &World) {
    const OFTEN: i64 = 66;
    let store = world.open();
    for number in 0..=OFTEN {
        add(&store, &format!("lift {number}"));
    }
    assert!(claims(&store, RUN, NOON));
    for number in 1..=OFTEN {
        let id = asks(&store, &RUN, NOON);
        assert_eq!(store.inbox().unwrap().len(), 1);
        says(&store, id, "granted", NOON);
        assert!(claims(&store, RUN, NOON), "the yes number {number} counts");
    }
    assert_eq!(used_up(&store, &RUN, NOON).limit, RUNS(OFTEN + 1));
}

fn a_no_holds_for_the_bounds_that_it_was_about(world: &World) {
    let store = world.open();
    for number in 0..4 {
        add(&store, &format!("lift {number}"));
    }
    assert!(claims(&store, RUN, NOON));
    let id = asks(&store, &RUN, NOON);
    says(&store, id, "refused", NOON);
    assert_eq!(used_up(&store, &RUN, NOON).next, BudgetAction::Nothing, "nobody is asked again");
    assert!(!claims(&store, RUN, NOON));
    // Somebody changes the settings after all, and those are used up as well.
    assert!(claims(&store, RUNS(2), NOON) && !claims(&store, RUNS(2), NOON));
    asks(&store, &RUNS(2), NOON);
}

fn a_day_that_is_over_asks_no_more(world: &World) {
    let store = world.open();
    add(&store, "lift");
    add(&store, "lift more");
    assert!(claims(&store, RUN, NOON));
    let id = asks(&store, &RUN, NOON);
    let tomorrow = NOON.plus(DAY);
    assert_eq!(store.used_up(&RUN, tomorrow).unwrap(), []);
    // Whichever node looks: the day is over for all of them.
    assert_eq!(store.moot_allowances(&RUN, "n2", tomorrow).unwrap(), [id]);
    says(&store, id, "granted", tomorrow);
    assert!(claims(&store, RUN, tomorrow), "the day has its own budget");
    assert!(!claims(&store, RUN, tomorrow), "and a yes to the day before adds nothing to it");
}

fn a_batch_is_raised_once_and_stays_as_a_person_has_set_it_since(world: &World) {
    let store = world.open();
    batch_used_up(&store, 1);
    let id = asks(&store, &Budget::default(), NOON);
    says(&store, id, "granted", NOON);
    assert_eq!(used_up(&store, &Budget::default(), NOON).next, BudgetAction::Raise(id));
    let others: Vec<Store> = (0..4).map(|_| world.open()).collect();
    at_once(4, |number| others[number].raise_batch(id, NOON).expect("it is raised"));
    assert_eq!(batch_runs(&store), Some(2));
    set_runs(&store, 1);
    store.raise_batch(id, NOON).unwrap();
    assert_eq!(batch_runs(&store), Some(1));
    // It is used up again, so there is another question.
    assert_ne!(asks(&store, &Budget::default(), NOON), id);
}

fn a_yes_does_not_undo_what_somebody_sets_at_the_same_time(world: &World) {
    let store = world.open();
    batch_used_up(&store, 1);
    let id = asks(&store, &Budget::default(), NOON);
    says(&store, id, "granted", NOON);
    let mut somebody = world.raw();
    somebody.run(&format!("BEGIN; UPDATE batches SET budget_runs = 9 WHERE name = '{BATCH}'"));
    thread::scope(|scope| {
        let raising = scope.spawn(|| store.raise_batch(id, NOON));
        wait_until("the yes waits for them", || somebody.is_waited_for() != Some(false));
        somebody.run("COMMIT");
        raising.join().expect("no panic").expect("it is on record");
    });
    assert_eq!(batch_runs(&store), Some(9));
}

fn another_yes_adds_as_much_to_a_batch_as_the_first(world: &World) {
    let store = world.open();
    batch_used_up(&store, 2);
    for limit in [4, 6] {
        let id = asks(&store, &Budget::default(), NOON);
        says(&store, id, "granted", NOON);
        store.raise_batch(id, NOON).unwrap();
        assert_eq!(batch_runs(&store), Some(limit));
        while claims(&store, Budget::default(), NOON) {}
    }
    // A budget that somebody has chosen since is what is given again, and a yes that came too late
    // changes nothing of it.
    set_runs(&store, 5);
    let late = asks(&store, &Budget::default(), NOON);
    says(&store, late, "granted", NOON);
    set_runs(&store, 3);
    store.raise_batch(late, NOON).unwrap();
    assert_eq!(batch_runs(&store), Some(3));
}

fn a_question_is_moot_when_the_budget_was_raised(world: &World) {
    let store = world.open();
    batch_used_up(&store, 1);
    let id = asks(&store, &Budget::default(), NOON);
    let moot = || store.moot_allowances(&Budget::default(), "n2", NOON.plus(HOUR)).unwrap();
    assert_eq!(moot(), []);
    set_runs(&store, 2);
    assert_eq!(moot(), [id]);
    apply(&store, id, ask("system", "closed", &[]), NOON);
    assert_eq!(moot(), []);
    set_runs(&store, 1);
    assert_ne!(asks(&store, &Budget::default(), NOON), id);
}

fn only_the_node_that_asked_about_the_day_takes_its_question_back(world: &World) {
    let store = world.open();
    add(&store, "lift");
    add(&store, "lift more");
    assert!(claims(&store, RUN, NOON));
    let id = asks(&store, &RUN, NOON);
    // Another node with other settings does not see the day used up; the question stands none the
    // less.
    assert_eq!(store.moot_allowances(&RUNS(9), "n2", NOON).unwrap(), []);
    assert_eq!(store.moot_allowances(&RUN, "n1", NOON).unwrap(), []);
    assert_eq!(store.moot_allowances(&RUNS(9), "n1", NOON).unwrap(), [id]);
}

fn nothing_is_asked_where_a_yes_would_change_nothing(world: &World) {
    let store = world.open();
    assert_eq!(store.used_up(&RUNS(0), NOON).unwrap(), [], "nothing waits");
    add(&store, "lift");
    // A bound of nothing is a stop.
    assert_eq!(used_up(&store, &RUNS(0), NOON).next, BudgetAction::Nothing);
    let waits = added(&store, load_of_batch("lift")).stored.task.id;
    set_runs(&store, 0);
    assert_eq!(used_up(&store, &Budget::default(), NOON).next, BudgetAction::Nothing);
    store.set_paused(true, "kim", NOON).unwrap();
    assert_eq!(store.used_up(&RUNS(0), NOON).unwrap(), [], "everything is paused");
    store.set_paused(false, "kim", NOON).unwrap();
    let change = BatchChange { paused: Some(true), ..BatchChange::default() };
    assert!(store.set_batch(BATCH, change).unwrap());
    assert_eq!(store.used_up(&Budget::default(), NOON).unwrap(), [], "{waits} is paused");
}

fn a_day_is_not_asked_for_while_all_that_waits_is_paused(world: &World) {
    let store = world.open();
    added(&store, load_of_batch("lift"));
    assert!(claims(&store, RUN, NOON));
    let paused = |paused| BatchChange { paused: Some(paused), ..BatchChange::default() };
    assert!(store.set_batch(BATCH, paused(true)).unwrap());
    assert_eq!(store.used_up(&RUN, NOON).unwrap(), []);
    assert!(store.set_batch(BATCH, paused(false)).unwrap());
    asks(&store, &RUN, NOON);
}

fn nodes_that_see_the_same_ask_once(world: &World) {
    let store = world.open();
    add(&store, "lift");
    add(&store, "lift more");
    assert!(claims(&store, RUN, NOON));
    let nodes: Vec<Store> = (0..4).map(|_| world.open()).collect();
    let made = at_once(4, |number| {
        let now = NOON.plus(banksman_core::time::Span(i64::try_from(number).expect("few")));
        let found = used_up(&nodes[number], &RUN, now);
        let BudgetAction::Ask(key) = &found.next else { return None };
        let name = format!("n{number}");
        Some(
            nodes[number]
                .add(question(&found, key, &name, now), now)
                .expect("added")
                .stored
                .task
                .id,
        )
    });
    let mut made: Vec<TaskId> = made.into_iter().flatten().collect();
    made.dedup();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(store.inbox().unwrap().len(), 1);
    assert_eq!(state(&store, made[0]), "asking");
}

fn a_key_that_belongs_to_something_else_grants_nothing(world: &World) {
    let store = world.open();
    add(&store, "lift");
    assert!(claims(&store, RUN, NOON));
    let found = used_up(&store, &RUN, NOON.plus(MINUTE));
    let BudgetAction::Ask(key) = &found.next else { panic!("{found:?}") };
    // Whatever its lifecycle is called and whatever it says, the system has not asked.
    let forged = "lifecycle: allowance
initial: granted
fields: { scope: text, used: any }
states: { granted: { kind: queued }, over: { kind: done } }
transitions: [{ from: granted, to: over, on: drop, by: [human] }]
";
    let mut add = Add { definition: definition(forged), ..load("forged") };
    add.new.fields.insert("scope".to_owned(), json!(scope_name(&found.scope, NOON)));
    add.new.fields.insert("used".to_owned(), json!(found.used));
    let forged =
        added(&store, Add { key: Some(IdempotencyKey::new(key, "mine")), ..add }).stored.task.id;
    says(&store, forged, "over", NOON);
    assert!(!claims(&store, RUN, NOON));
    asks(&store, &RUN, NOON);
}
