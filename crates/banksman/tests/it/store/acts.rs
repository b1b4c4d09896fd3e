//! What the tests do to a store: tasks with one default and one difference, and events in one line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, LazyLock};
use std::thread;

use banksman::ops::Session;
use banksman::store::batches::{BatchChange, BudgetChange, NewBound};
use banksman::store::conn::DbError;
use banksman::store::outbox::PendingEffect;
use banksman::store::{
    Add, Applied, ClaimRequest, Claimed, Definition, Dispatch, Dispatched, Edge, IdempotencyKey,
    Node, RunEnd, Store, StoreError,
};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::machine::{
    Actor, Event, Finish, Heartbeat, ImportedState, NewTask, RejectReason, Rejected,
    TransitionRequest,
};
use banksman_core::schedule::{Budget, Worker};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value};

/// When every test begins.
pub(crate) const NOON: Instant = Instant(1_707_739_200_000);
pub(crate) const MINUTE: Span = Span(60_000);
pub(crate) const HOUR: Span = Span(3_600_000);
pub(crate) const DAY: Span = Span(86_400_000);
/// How long a lease of the tests holds.
pub(crate) const TTL: Span = Span(900_000);

/// A lifecycle with one of everything.
pub(crate) static HARNESS: LazyLock<Definition> =
    LazyLock::new(|| definition(include_str!("harness.yaml")));

/// One whose tasks only a `crane` may claim.
pub(crate) static CRANE: LazyLock<Definition> = LazyLock::new(|| {
    definition(
        "lifecycle: crane-only
purpose: task
initial: queued
roles: [crane]
states:
  queued: { kind: queued }
  lifting:
    kind: working
    does: { activity: agent, role: crane, outcomes: { otherwise: down } }
    timeouts: [{ after: 1d, to: done, on: late }]
  done: { kind: done }
transitions:
  - { from: queued, to: lifting, on: claim, by: [crane] }
  - { from: lifting, to: done, on: down, by: [crane, system] }
",
    )
});

pub(crate) fn definition(source: &str) -> Definition {
    let overrides = Overrides::new();
    let lifecycle =
        check(source, "a test", &overrides).unwrap_or_else(|problems| panic!("{problems}"));
    Definition { lifecycle: Arc::new(lifecycle), source: source.to_owned(), overrides }
}

/// The store as a caller has it.
pub(crate) fn session(store: &Store, who: &Actor) -> Session {
    Session::outside(store.clone(), who.clone()).unwrap()
}

pub(crate) fn actor(text: &str) -> Actor {
    text.parse().expect("an actor")
}

/// A task of the harness with this title and nothing else.
pub(crate) fn load(title: &str) -> Add {
    let new = NewTask { title: title.to_owned(), project: "site".to_owned(), ..NewTask::default() };
    let actor = Actor::human("kim");
    Add { new, definition: HARNESS.clone(), needs: Vec::new(), actor, key: None, arrival: None }
}

/// The same, once these are done.
pub(crate) fn load_after(title: &str, needs: &[TaskId]) -> Add {
    let needs = needs.iter().map(|id| (*id, Edge::Blocks)).collect();
    Add { needs, ..load(title) }
}

/// A task that comes from elsewhere in the middle of its life; `prior` is for a state that
/// remembers.
pub(crate) fn arriving(definition: &Definition, state: &str, prior: Option<&str>) -> Add {
    let find = |name| definition.lifecycle.find_state(name).expect("the lifecycle has the state");
    let arrival = Some(ImportedState { state: find(state), prior: prior.map(find) });
    Add { definition: definition.clone(), arrival, ..load(state) }
}

/// A task of the harness with a body, and with a key for the request.
pub(crate) fn load_keyed(title: &str, text: &str) -> Add {
    let mut add = Add { key: key(text, title), ..load(title) };
    add.new.body = format!("the body of {title}");
    add
}

/// A batch with a limit and nothing else.
pub(crate) fn put_batch(store: &Store, name: &str, concurrency: u32) {
    let change = BatchChange { concurrency: Some(concurrency), ..BatchChange::default() };
    assert!(store.create_batch(name, change, NOON).expect("it is created"));
}

pub(crate) fn add(store: &Store, title: &str) -> TaskId {
    added(store, load(title)).stored.task.id
}

pub(crate) fn added(store: &Store, add: Add) -> Applied {
    store.add(add, NOON).expect("the task is added")
}

pub(crate) fn fields(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// `ask("human:kim", "done", &[])`: somebody wants the task in a state.
pub(crate) fn ask(who: &str, to: &str, given: &[(&str, &str)]) -> Event {
    Event::Asked(TransitionRequest {
        actor: actor(who),
        to: Some(to.to_owned()),
        trigger: None,
        fields: fields(given),
        epoch: None,
        version: None,
    })
}

/// The same under an epoch, as a run asks.
pub(crate) fn ask_under(epoch: i64, who: &str, to: &str, given: &[(&str, &str)]) -> Event {
    match ask(who, to, given) {
        Event::Asked(ask) => Event::Asked(TransitionRequest { epoch: Some(epoch), ..ask }),
        other => other,
    }
}

pub(crate) fn finish(epoch: i64, outcome: Outcome) -> Finish {
    Finish {
        epoch,
        outcome,
        detail: "the rope broke".to_owned(),
        fields: Map::new(),
        tokens: 0,
        cost_micros: 0,
        again_at: None,
    }
}

pub(crate) fn heartbeat(epoch: i64, expires_at: Instant) -> Event {
    Event::Heartbeat(Heartbeat { epoch, expires_at, progressed: true })
}

pub(crate) fn apply(store: &Store, id: TaskId, event: Event, now: Instant) -> Applied {
    store.apply(id, event, None, now).expect("the event is accepted")
}

/// A request that may be repeated.
pub(crate) fn key(text: &str, request: &str) -> Option<IdempotencyKey> {
    Some(IdempotencyKey::new(text, request))
}

pub(crate) fn claim(store: &Store, who: &str, now: Instant) -> Option<Claimed> {
    store.claim(ClaimRequest::new(actor(who), TTL), now).expect("claiming works")
}

/// The effects that are due now for any node, which stay due.
pub(crate) fn pending(store: &Store, now: Instant) -> Vec<PendingEffect> {
    store.take_effects("any", now, Span(0), 1_000).expect("the outbox is read")
}

/// Claims the task that must be first in the queue, and answers with its epoch.
pub(crate) fn claim_first(store: &Store, id: TaskId, now: Instant) -> i64 {
    let claimed = claim(store, "worker:w1", now).expect("a task is ready");
    assert_eq!(claimed.run.task, id);
    claimed.run.epoch
}

/// Brings a new task to the end of its run, where it is checked.
pub(crate) fn to_checking(store: &Store, title: &str) -> TaskId {
    let id = add(store, title);
    let epoch = claim_first(store, id, NOON);
    let lifted = Finish {
        fields: fields(&[("pr_url", "https://forge/1")]),
        ..finish(epoch, Outcome::Succeeded)
    };
    apply(store, id, Event::Finished(lifted), NOON);
    id
}

/// Brings a new task before a person.
pub(crate) fn to_asking(store: &Store, title: &str) -> TaskId {
    let id = to_checking(store, title);
    apply(store, id, ask("crane:c1", "asking", &[]), NOON);
    id
}

pub(crate) fn state(store: &Store, id: TaskId) -> String {
    let stored = store.task(id).expect("the task is there");
    stored.lifecycle.state(stored.task.state).name.clone()
}

/// Lets an event be refused, and answers with the refusal.
pub(crate) fn refused(result: Result<Applied, StoreError>) -> Rejected {
    match result {
        Err(StoreError::Rejected(rejected)) => rejected,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

pub(crate) fn refused_because(result: Result<Applied, StoreError>, why: RejectReason) {
    let rejected = refused(result);
    assert_eq!(rejected.why, why, "{rejected}");
}

/// What a database error is, for tests that expect one.
pub(crate) fn db_error(error: StoreError) -> DbError {
    match error {
        StoreError::Db(error) => error,
        other => panic!("expected an error of the database, got {other:?}"),
    }
}

/// The change that leaves a batch with these bounds and no others.
pub(crate) fn exactly(budget: Budget) -> BudgetChange {
    fn bound<T>(most: Option<T>) -> NewBound<T> {
        most.map_or(NewBound::Lifted, NewBound::Most)
    }
    BudgetChange {
        runs: bound(budget.runs),
        tokens: bound(budget.tokens),
        cost_micros: bound(budget.cost_micros),
        time: bound(budget.time),
    }
}

/// Runs a job in that many threads, all let go at the same moment, and answers with what they
/// answered, in their order.
pub(crate) fn at_once<T: Send>(threads: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let gate = Barrier::new(threads);
    thread::scope(|scope| {
        let run = |number| {
            let (gate, job) = (&gate, &job);
            scope.spawn(move || {
                gate.wait();
                job(number)
            })
        };
        let started: Vec<_> = (0..threads).map(run).collect();
        started.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

/// A worker that plays every role and draws on the account `plan`.
pub(crate) fn worker(name: &str) -> Worker {
    Worker {
        name: name.to_owned(),
        capabilities: BTreeSet::new(),
        roles: BTreeSet::new(),
        cost: 1,
        speed: 1,
        max_concurrent: 100,
        account: "plan".to_owned(),
        model: None,
    }
}

/// A node that lives at noon and has room.
pub(crate) fn node(name: &str, workers: &[Worker]) -> Node {
    let (name, workers) = (name.to_owned(), workers.to_vec());
    Node { name, seen_at: NOON, capacity: 100, workers, awake: None }
}

/// What a node asks for when nothing bounds it.
pub(crate) fn request(node: &Node) -> Dispatch {
    Dispatch {
        node: node.name.clone(),
        workers: node.workers.clone(),
        capacity: node.capacity,
        limit: None,
        account_limits: BTreeMap::new(),
        lanes: BTreeMap::new(),
        day_budget: Budget::default(),
        task_budget: Budget::default(),
        ttl: TTL,
        token: None,
    }
}

pub(crate) fn dispatch(store: &Store, node: &Node, now: Instant) -> Dispatched {
    store.dispatch(request(node), now).expect("dispatching works")
}

/// The end of a run of which nothing more is known.
pub(crate) fn ended(finish: Finish) -> RunEnd {
    RunEnd {
        body: None,
        input_tokens: 0,
        output_tokens: 0,
        finish,
        class: None,
        signature: None,
        session: None,
        agent: None,
        head: None,
        level: None,
        pause: None,
        notice: None,
        answers: false,
    }
}
