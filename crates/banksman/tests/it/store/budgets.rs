//! Budgets of a day and of a batch: one question for all that wait, and a yes is as much again.

use std::sync::{Arc, LazyLock};
use std::thread;

use banksman::store::batches::BatchChange;
use banksman::store::conn::Target;
use banksman::store::notices::{NewNotice, NoticeKind};
use banksman::store::{
    Add, ClaimRequest, Definition, Dispatch, IdempotencyKey, Store, Stored, scope_name,
};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::check::{Overrides, read_again};
use banksman_core::lifecycle::{Outcome, builtin};
use banksman_core::machine::{Actor, Event, Finish, HistoryNote, NewTask, TransitionRequest};
use banksman_core::schedule::{
    Budget, BudgetAction, BudgetFacts, BudgetScope, RequestLog, RequestedBudget, Used,
    decide_budget,
};
use banksman_core::time::Instant;
use serde_json::json;

use super::acts::{
    DAY, HOUR, MINUTE, NOON, TTL, actor, add, added, apply, ask, at_once, definition, exactly,
    finish, key, load, node, request, state, worker,
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
    a_task_that_only_looks_like_a_request_grants_nothing,
    requests_of_a_former_build_are_carried_over,
    a_person_who_continues_a_task_raises_its_budget,
    a_raised_budget_of_a_former_build_is_carried_over,
);

const RUN: Budget = Budget { runs: Some(1), tokens: None, cost_micros: None, time: None };
const RUNS: fn(i64) -> Budget = |runs| Budget { runs: Some(runs), ..RUN };
const BATCH: &str = "friday";

static QUESTION: LazyLock<Definition> =
    LazyLock::new(|| definition(builtin::source("budget").expect("it ships")));

fn load_of_batch(title: &str) -> Add {
    let new = NewTask { batch: Some(BATCH.to_owned()), ..load(title).new };
    Add { new, ..load(title) }
}

/// The request that a node adds for what it has decided to ask.
fn question(facts: &BudgetFacts, budget: RequestedBudget, node: &str, now: Instant) -> Add {
    let (title, actor) = ("more?".to_owned(), Actor::system());
    let fields = budget.fields(scope_name(&facts.scope, now), node, title.clone());
    let new = NewTask { title, fields, ..NewTask::default() };
    Add { new, definition: QUESTION.clone(), needs: Vec::new(), actor, key: None, arrival: None }
}

/// The one budget that has to be looked at.
fn only_budget(store: &Store, day: &Budget, now: Instant) -> BudgetFacts {
    let mut found = store.budgets(day, now).expect("it is read");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// What node `n1` decides about it.
fn decided(store: &Store, day: &Budget, now: Instant) -> BudgetAction {
    decide_budget(&only_budget(store, day, now), "n1")
}

/// What a node would withdraw.
fn moot(store: &Store, day: &Budget, node: &str, now: Instant) -> Vec<TaskId> {
    let found = store.budgets(day, now).expect("it is read");
    let closed = found.iter().filter_map(|facts| match decide_budget(facts, node) {
        BudgetAction::Close(task) => Some(task),
        BudgetAction::Wait | BudgetAction::Ask(_) | BudgetAction::Raise { .. } => None,
    });
    closed.collect()
}

/// Asks as node `n1` does, and answers with the question.
fn asks(store: &Store, day: &Budget, now: Instant) -> TaskId {
    let facts = only_budget(store, day, now);
    let BudgetAction::Ask(budget) = decide_budget(&facts, "n1") else { panic!("{facts:?}") };
    let add = question(&facts, budget, "n1", now);
    let id = store.add_budget_request(&facts, add, now).expect("written").expect("added");
    assert_eq!(decided(store, day, now), BudgetAction::Wait, "it is asked already");
    assert_eq!(store.open_budget_request(&facts.scope, now).expect("it is read"), Some(id));
    id
}

/// The numbers of what node `n1` would ask.
fn asked_numbers(store: &Store, day: &Budget, now: Instant) -> RequestedBudget {
    let action = decided(store, day, now);
    let BudgetAction::Ask(budget) = action else { panic!("{action:?}") };
    budget
}

/// Applies the grant that the store has to apply.
fn raises(store: &Store, id: TaskId) {
    let action = decided(store, &Budget::default(), NOON);
    let BudgetAction::Raise { batch, request, from, to } = action else { panic!("{action:?}") };
    assert_eq!((batch.as_str(), request), (BATCH, id));
    store.raise_batch(&batch, request, (from, to), NOON).expect("it is raised");
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
    assert_eq!(store.budgets(&RUN, NOON).unwrap(), []);
    assert!(claims(&store, RUN, NOON) && !claims(&store, RUN, NOON));
    let found = only_budget(&store, &RUN, NOON);
    assert_eq!((found.scope.clone(), found.used.runs, found.waiting), (BudgetScope::Day, 1, 5));

    let first = asks(&store, &RUN, NOON);
    assert!(!claims(&store, RUN, NOON), "a question is not yet an answer");
    says(&store, first, "granted", NOON);
    assert!(claims(&store, RUN, NOON) && !claims(&store, RUN, NOON), "as much again, and no more");
    let second = asks(&store, &RUN, NOON);
    assert_ne!(first, second);
    says(&store, second, "granted", NOON);
    assert!(claims(&store, RUN, NOON) && !claims(&store, RUN, NOON));
    let used_up = asked_numbers(&store, &RUN, NOON);
    assert_eq!(used_up.limit, RUNS(3));
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
    assert_eq!(asked_numbers(&store, &RUN, NOON).limit, RUNS(OFTEN + 1));
}

fn a_no_holds_for_the_bounds_that_it_was_about(world: &World) {
    let store = world.open();
    for number in 0..4 {
        add(&store, &format!("lift {number}"));
    }
    assert!(claims(&store, RUN, NOON));
    let id = asks(&store, &RUN, NOON);
    says(&store, id, "refused", NOON);
    assert_eq!(decided(&store, &RUN, NOON), BudgetAction::Wait, "nobody is asked again");
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
    // Whichever node looks: the day is over for all of them.
    assert_eq!(moot(&store, &RUN, "n2", tomorrow), [id]);
    says(&store, id, "granted", tomorrow);
    assert!(claims(&store, RUN, tomorrow), "the day has its own budget");
    assert!(!claims(&store, RUN, tomorrow), "and a yes to the day before adds nothing to it");
}

fn a_batch_is_raised_once_and_stays_as_a_person_has_set_it_since(world: &World) {
    let store = world.open();
    batch_used_up(&store, 1);
    let id = asks(&store, &Budget::default(), NOON);
    says(&store, id, "granted", NOON);
    let others: Vec<Store> = (0..4).map(|_| world.open()).collect();
    let raise = |store: &Store| store.raise_batch(BATCH, id, (RUN, RUNS(2)), NOON);
    at_once(4, |number| raise(&others[number]).expect("it is raised"));
    assert_eq!(batch_runs(&store), Some(2));
    set_runs(&store, 1);
    raise(&store).unwrap();
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
        let raising = scope.spawn(|| store.raise_batch(BATCH, id, (RUN, RUNS(2)), NOON));
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
        raises(&store, id);
        assert_eq!(batch_runs(&store), Some(limit));
        while claims(&store, Budget::default(), NOON) {}
    }
    // A budget that somebody has chosen since is what is given again, and a yes that came too late
    // changes nothing of it.
    set_runs(&store, 5);
    let late = asks(&store, &Budget::default(), NOON);
    says(&store, late, "granted", NOON);
    set_runs(&store, 3);
    raises(&store, late);
    assert_eq!(batch_runs(&store), Some(3));
}

fn a_question_is_moot_when_the_budget_was_raised(world: &World) {
    let store = world.open();
    batch_used_up(&store, 1);
    let id = asks(&store, &Budget::default(), NOON);
    let moot = || moot(&store, &Budget::default(), "n2", NOON.plus(HOUR));
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
    assert_eq!(moot(&store, &RUNS(9), "n2", NOON), []);
    assert_eq!(moot(&store, &RUN, "n1", NOON), []);
    assert_eq!(moot(&store, &RUNS(9), "n1", NOON), [id]);
}

fn nothing_is_asked_where_a_yes_would_change_nothing(world: &World) {
    let store = world.open();
    assert_eq!(store.budgets(&RUNS(0), NOON).unwrap(), [], "nothing waits");
    add(&store, "lift");
    // A bound of nothing is a stop.
    assert_eq!(decided(&store, &RUNS(0), NOON), BudgetAction::Wait);
    let waits = added(&store, load_of_batch("lift")).stored.task.id;
    set_runs(&store, 0);
    assert_eq!(decided(&store, &Budget::default(), NOON), BudgetAction::Wait);
    store.set_paused(true, "kim", NOON).unwrap();
    assert_eq!(store.budgets(&RUNS(0), NOON).unwrap(), [], "everything is paused");
    store.set_paused(false, "kim", NOON).unwrap();
    let change = BatchChange { paused: Some(true), ..BatchChange::default() };
    assert!(store.set_batch(BATCH, change).unwrap());
    assert_eq!(store.budgets(&Budget::default(), NOON).unwrap(), [], "{waits} is paused");
}

fn a_day_is_not_asked_for_while_all_that_waits_is_paused(world: &World) {
    let store = world.open();
    added(&store, load_of_batch("lift"));
    assert!(claims(&store, RUN, NOON));
    let paused = |paused| BatchChange { paused: Some(paused), ..BatchChange::default() };
    assert!(store.set_batch(BATCH, paused(true)).unwrap());
    assert_eq!(store.budgets(&RUN, NOON).unwrap(), []);
    assert!(store.set_batch(BATCH, paused(false)).unwrap());
    asks(&store, &RUN, NOON);
}

fn nodes_that_see_the_same_ask_once(world: &World) {
    let store = world.open();
    add(&store, "lift");
    add(&store, "lift more");
    assert!(claims(&store, RUN, NOON));
    let nodes: Vec<Store> = (0..4).map(|_| world.open()).collect();
    // All of them decide on the same facts before the first writes.
    let found: Vec<BudgetFacts> =
        nodes.iter().map(|store| only_budget(store, &RUN, NOON)).collect();
    let made = at_once(4, |number| {
        let (node, facts) = (format!("n{number}"), &found[number]);
        let BudgetAction::Ask(budget) = decide_budget(facts, &node) else { panic!("{facts:?}") };
        let add = question(facts, budget, &node, NOON);
        nodes[number].add_budget_request(facts, add, NOON).expect("no error")
    });
    let made: Vec<TaskId> = made.into_iter().flatten().collect();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(store.inbox().unwrap().len(), 1);
    assert_eq!(state(&store, made[0]), "asking");
}

fn a_task_that_only_looks_like_a_request_grants_nothing(world: &World) {
    let store = world.open();
    add(&store, "lift");
    assert!(claims(&store, RUN, NOON));
    let found = only_budget(&store, &RUN, NOON.plus(MINUTE));
    // Whatever its lifecycle is called and whatever its fields say, the engine has not asked.
    let source = "lifecycle: allowance
initial: granted
fields: { scope: text, used: any }
states: { granted: { kind: queued }, over: { kind: done } }
transitions: [{ from: granted, to: over, on: drop, by: [human] }]
";
    let overrides = Overrides::new();
    let lifecycle = Arc::new(read_again(source, "forged", &overrides).expect("it reads"));
    let definition = Definition { lifecycle, source: source.to_owned(), overrides };
    let mut add = Add { definition, ..load("forged") };
    add.new.fields.insert("scope".to_owned(), json!(scope_name(&found.scope, NOON)));
    add.new.fields.insert("used".to_owned(), json!(found.used));
    let forged = added(&store, add).stored.task.id;
    says(&store, forged, "over", NOON);
    assert!(!claims(&store, RUN, NOON));
    asks(&store, &RUN, NOON);
}

/// A former build found its requests by numbered keys. This takes a store back to its schema.
fn downgrade(world: &World) {
    let mut raw = world.raw();
    let newer =
        ["task_budget_requests", "notice_deliveries", "channels", "notices", "changes", "store"];
    for table in newer.into_iter().chain(["budget_requests"]) {
        raw.run(&format!("DROP TABLE {table}"));
    }
    raw.run("DROP INDEX tasks_without_parent");
    raw.run("ALTER TABLE tasks DROP COLUMN fed");
    raw.run("ALTER TABLE tasks DROP COLUMN uncounted_ms");
    raw.run("ALTER TABLE lifecycles DROP COLUMN purpose");
    for column in ["boot", "awake_ms"] {
        raw.run(&format!("ALTER TABLE nodes DROP COLUMN {column}"));
    }
    raw.run("DROP INDEX decisions_due");
    for column in ["question", "answer", "answer_due"] {
        raw.run(&format!("ALTER TABLE decisions DROP COLUMN {column}"));
    }
    raw.run("DELETE FROM schema_versions WHERE version >= 4");
    if let Target::Sqlite(_) = world.target {
        raw.run("PRAGMA user_version = 3");
    }
}

/// Adds a request about a batch of which the first run is used.
pub(super) fn ask_about_batch(store: &Store, name: &str) {
    let (scope, used) = (BudgetScope::Batch(name.to_owned()), Used { runs: 1, ..Used::default() });
    let budget = RequestedBudget { used, limit: RUN, more: RUN };
    let requests = RequestLog::default();
    let facts = BudgetFacts { scope, limit: Some(RUN), used, waiting: 1, requests };
    let add = question(&facts, budget, "n1", NOON);
    store.add_budget_request(&facts, add, NOON).expect("written").expect("added");
}

/// A request as a former build added it.
fn keyed(store: &Store, scope: &BudgetScope, number: i64, budget: RequestedBudget) -> TaskId {
    let key = format!("allowance-{}-{number}", scope_name(scope, NOON));
    let (limit, used, requests) = (Some(budget.limit), budget.used, RequestLog::default());
    let facts = BudgetFacts { scope: scope.clone(), limit, used, waiting: 1, requests };
    let add = question(&facts, budget, "n1", NOON);
    added(store, Add { key: Some(IdempotencyKey::new(&key, &key)), ..add }).stored.task.id
}

fn requests_of_a_former_build_are_carried_over(world: &World) {
    let store = world.open();
    for number in 0..6 {
        add(&store, &format!("lift {number}"));
    }
    let day = |used: i64, limit| RequestedBudget {
        used: Used { runs: used, ..Used::default() },
        limit: RUNS(limit),
        more: RUN,
    };
    let batch = |name: &str| BudgetScope::Batch(name.to_owned());
    // A day with a grant and a refusal after it, a batch whose grant was applied, and one whose
    // grant was not. A batch may be called as if it had a number.
    let granted = keyed(&store, &BudgetScope::Day, 1, day(1, 1));
    says(&store, granted, "granted", NOON);
    let refused = keyed(&store, &BudgetScope::Day, 2, day(2, 2));
    says(&store, refused, "refused", NOON);
    let [applied, unapplied, open] =
        ["a-1", "a-1-1", "b"].map(|name| keyed(&store, &batch(name), 1, day(1, 1)));
    for id in [applied, unapplied] {
        says(&store, id, "granted", NOON);
    }
    let note = HistoryNote { actor: Actor::system(), trigger: "raised".to_owned(), detail: None };
    let raised = key(&format!("allowance-raised-{applied}"), "raised");
    store.apply(applied, Event::Noted(note), raised, NOON).unwrap();
    let forged = Add { key: key("allowance-batch:c-1", "mine"), ..load("forged") };
    added(&store, forged);
    drop(store);
    downgrade(world);

    let store = world.open();
    let rows = world.raw().rows(
        "SELECT scope, number, task, granted, refused, applied FROM budget_requests ORDER BY task",
    );
    let today = scope_name(&BudgetScope::Day, NOON);
    let expected = [
        (today.as_str(), 1, granted, None, 0),
        (today.as_str(), 2, refused, Some(granted), 0),
        ("batch:a-1", 1, applied, None, 1),
        ("batch:a-1-1", 1, unapplied, None, 0),
        ("batch:b", 1, open, None, 0),
    ];
    let expected = expected.map(|(scope, number, task, granted, applied)| {
        let text = |text: &dyn ToString| Some(text.to_string());
        let granted = granted.map(|granted: TaskId| granted.0.to_string());
        vec![text(&scope), text(&number), text(&task.0), granted, text(&"[]"), text(&applied)]
    });
    assert_eq!(rows, expected);
    assert_eq!(store.open_budget_request(&batch("b"), NOON).unwrap(), Some(open));
    // The grant still counts, and so does the refusal.
    assert!(claims(&store, RUN, NOON) && claims(&store, RUN, NOON) && !claims(&store, RUN, NOON));
    let found = store.budgets(&RUN, NOON).unwrap();
    let of_day = found.iter().find(|facts| facts.scope == BudgetScope::Day).expect("it is used up");
    assert_eq!(decide_budget(of_day, "n1"), BudgetAction::Wait);
}

/// The question about the budget of a task.
fn question_about(store: &Store, id: TaskId) -> (Stored, TransitionRequest) {
    let stored = store.task(id).unwrap();
    let (trigger, field) = stored.lifecycle.budget_question(stored.task.state).expect("it asks");
    let fields = [(field.to_owned(), json!("over budget"))].into_iter().collect();
    let (actor, trigger) = (Actor::system(), Some(trigger.to_owned()));
    let ask = TransitionRequest { actor, to: None, trigger, fields, epoch: None, version: None };
    (stored, ask)
}

pub(super) fn ask_about_task(store: &Store, title: &str, runs: i64) -> TaskId {
    let source = builtin::source("autonomous").expect("it ships");
    let id = added(store, Add { definition: definition(source), ..load(title) }).stored.task.id;
    ask_again(store, id, runs);
    id
}

fn ask_again(store: &Store, id: TaskId, runs: i64) {
    let (stored, ask) = question_about(store, id);
    let notice = NewNotice::alert(NoticeKind::OverBudget, Some(id), "over budget".to_owned());
    let used = Used { runs, ..Used::default() };
    store.ask_for_budget(&stored, ask, used, notice, NOON).unwrap();
}

fn on(store: &Store, id: TaskId, who: &str, trigger: &str) {
    let trigger = Some(trigger.to_owned());
    let Event::Asked(ask) = ask(who, "", &[("reason", "enough")]) else { panic!("a request") };
    apply(store, id, Event::Asked(TransitionRequest { to: None, trigger, ..ask }), NOON);
}

fn task_runs(store: &Store, id: TaskId) -> Option<i64> {
    store.task_budget(id, RUN).unwrap().runs
}

fn a_person_who_continues_a_task_raises_its_budget(world: &World) {
    let store = world.open();
    // Two tasks that have used as much are two questions.
    let [raised, cancelled] = ["a", "b"].map(|title| ask_about_task(&store, title, 1));
    for id in [raised, cancelled] {
        assert_eq!(state(&store, id), "blocked");
        assert_eq!(task_runs(&store, id), Some(1), "nobody has answered");
    }
    on(&store, raised, "human:kim", "unblock");
    on(&store, cancelled, "human:kim", "cancel");
    assert_eq!((task_runs(&store, raised), task_runs(&store, cancelled)), (Some(2), Some(1)));
    ask_again(&store, raised, 2);
    assert_eq!(task_runs(&store, raised), Some(2), "the first grant counts");
    on(&store, raised, "human:kim", "unblock");
    assert_eq!(task_runs(&store, raised), Some(3));
}

/// A former build wrote what a task had used into a key.
fn a_raised_budget_of_a_former_build_is_carried_over(world: &World) {
    let store = world.open();
    let source = builtin::source("autonomous").expect("it ships");
    let load = |title| Add { definition: definition(source), ..load(title) };
    let [raised, open] = ["raised", "open"].map(|title| {
        let id = added(&store, load(title)).stored.task.id;
        let (stored, ask) = question_about(&store, id);
        let text = format!("over-budget-{}-{}-20-300-4000", stored.task.entered, id.0);
        store.apply(id, Event::Asked(ask), key(&text, &text), NOON).unwrap();
        id
    });
    on(&store, raised, "human:kim", "unblock");
    let forged = Add { key: key("over-budget-1-9-9-9-9", "mine"), ..load("forged") };
    let forged = added(&store, forged).stored.task.id;
    drop(store);
    downgrade(world);

    let store = world.open();
    let rows = "SELECT task, seq, runs, tokens, cost_micros, millis FROM task_budget_requests ORDER BY task";
    let numbers = [raised, open].map(|id| [id.0, 2, id.0, 20, 300, 4_000]);
    let numbers = numbers.map(|row| row.map(|number| Some(number.to_string())).to_vec());
    assert_eq!(world.raw().rows(rows), numbers);
    let runs = [raised, open, forged].map(|id| task_runs(&store, id));
    assert_eq!(runs, [Some(1 + raised.0), Some(1), Some(1)]);
}
