//! Runs: who is at work where, what becomes of a lease, and what a run leaves behind.

use banksman::store::conn::Target;
use banksman::store::notices::{NewNotice, NoticeKind};
use banksman::store::runs::RoleAverage;
use banksman::store::{Dispatch, NodeTime, PastRun, PauseRequest, RunEnd, Store, StoreError};
use banksman_core::failure::{FailureClass, ProofLevel};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::{Note, Purpose};
use banksman_core::machine::{Effect, Event, Finish, RejectReason, Spent};
use banksman_core::time::{Instant, Span};

use super::acts::{
    DAY, HOUR, MINUTE, NOON, TTL, add, added, apply, arriving, ask, at_once, claim, claim_first,
    definition, dispatch, ended, finish, load, node, pending, refused_because, request, state,
    worker,
};
use super::world::World;
use super::{on_both, on_both_damaging};

on_both!(
    an_end_writes_everything_that_is_known,
    a_run_ends_once_with_everything,
    an_end_that_is_refused_writes_nothing,
    what_a_run_used_is_added_to_its_scopes,
    a_run_that_was_stopped_has_cost_what_it_cost,
    a_sum_never_overflows,
    a_lease_is_renewed_by_the_clock_of_the_store,
    a_lease_that_is_lost_is_not_renewed,
    leases_that_ran_out_are_found_wherever_they_were,
    a_token_is_good_while_the_run_holds_its_lease,
    a_token_comes_with_the_claim,
    a_stop_goes_to_the_node_of_its_run,
    what_waits_for_a_worker_is_found,
    a_persons_word_counts_by_its_place_and_not_by_its_time,
    what_runs_of_a_role_used_is_averaged,
    who_was_at_work_at_a_time_is_known,
    a_text_with_a_nul_is_stored_alike,
    a_lease_is_known_whatever_else_of_its_run_is_damaged,
);

on_both_damaging!(an_unknown_word_in_the_row_of_a_run_is_damage);

fn start(store: &Store, node_name: &str, now: Instant) -> RunId {
    let site = node(node_name, &[worker("ada")]);
    dispatch(store, &site, now).claimed.expect("a task is ready").run
}

fn known(epoch: i64) -> RunEnd {
    RunEnd {
        body: None,
        input_tokens: 0,
        output_tokens: 0,
        finish: Finish { tokens: 120, cost_micros: 3_400, ..finish(epoch, Outcome::Crashed) },
        class: Some(FailureClass::Model),
        signature: Some("exit 1".to_owned()),
        session: Some("s-1".to_owned()),
        agent: Some("claude".to_owned()),
        head: Some("abc".to_owned()),
        level: Some(ProofLevel::Observed),
        pause: None,
        notice: None,
        answers: false,
    }
}

/// `runs, tokens, cost_micros, millis` of a scope.
fn spent(world: &World, scope: &str) -> Vec<i64> {
    let query =
        format!("SELECT runs, tokens, cost_micros, millis FROM spent WHERE scope = '{scope}'");
    let mut rows = world.raw().rows(&query);
    let row = rows.pop().unwrap_or_default().into_iter().flatten();
    row.map(|number| number.parse().expect("a number")).collect()
}

fn an_end_writes_everything_that_is_known(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let first = start(&store, "n1", NOON);
    let at = NOON.plus(MINUTE);
    let applied = store.end_run(id, known(first.epoch), at).unwrap();
    assert_eq!(applied.stored.task.lease, None);
    assert_eq!(applied.stored.task.spent.tokens, 120);
    start(&store, "n2", at);
    let past = world.open().past_runs(id, 10).unwrap();
    let expected = PastRun {
        input_tokens: 0,
        output_tokens: 0,
        epoch: 1,
        worker: "ada".to_owned(),
        node: Some("n1".to_owned()),
        agent: Some("claude".to_owned()),
        session: Some("s-1".to_owned()),
        outcome: Some(Outcome::Crashed),
        class: Some(FailureClass::Model),
        signature: Some("exit 1".to_owned()),
        detail: Some("the rope broke".to_owned()),
        head: Some("abc".to_owned()),
        level: Some(ProofLevel::Observed),
        tokens: 120,
        cost_micros: 3_400,
        started_at: NOON,
        ended_at: Some(at),
    };
    assert_eq!(past[0], expected);
    assert_eq!((past.len(), past[1].epoch, past[1].ended_at), (2, 2, None));
    let last = store.past_runs(id, 1).unwrap();
    assert_eq!(last.iter().map(|run| run.epoch).collect::<Vec<_>>(), [2]);
}

fn an_unknown_word_in_the_row_of_a_run_is_damage(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    store.end_run(id, known(run.epoch), NOON).unwrap();
    for (column, word) in [("level", "proven"), ("class", "agent_crash")] {
        world.raw().run(&format!("UPDATE runs SET {column} = '{word}'"));
        assert_eq!(store.past_runs(id, 1).expect("the others are shown"), []);
        let damaged = store.take_damaged();
        let expected = format!("one of its runs: `{word}` is not one of: ");
        assert!(
            damaged.iter().any(|it| it.task == Some(id) && it.what.starts_with(&expected)),
            "{damaged:?}"
        );
    }
}

fn a_run_ends_once_with_everything(world: &World) {
    let handles = [world.open(), world.open()];
    let id = add(&handles[0], "lift");
    let run = start(&handles[0], "n1", NOON);
    let answers = at_once(4, |thread| handles[thread % 2].end_run(id, known(run.epoch), NOON));
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(|answer| refused_because(answer, RejectReason::StaleLease));
    assert_eq!(spent(world, "account:plan"), [1, 120, 3_400, 0], "it is paid once");
    let history = handles[0].history(id, 0).unwrap();
    let late =
        history.iter().filter(|entry| entry.record.trigger == Note::StaleWrite.as_str()).count();
    assert_eq!(late, 1, "the losers are on record, once");
}

fn an_end_that_is_refused_writes_nothing(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    let mut end = known(run.epoch);
    end.finish.fields.insert("colour".to_owned(), "red".into());
    let (account, reason) = ("plan".to_owned(), "limit".to_owned());
    end.pause = Some(PauseRequest { account, until: NOON.plus(DAY), reason, hits: 1 });
    refused_because(store.end_run(id, end, NOON), RejectReason::Invalid);
    assert_eq!(store.accounts().unwrap(), []);
    assert_eq!(spent(world, "account:plan"), [0; 0]);
    assert_eq!(store.past_runs(id, 9).unwrap()[0].class, None);
    assert_eq!(store.open_runs(None).unwrap().len(), 1);
}

fn what_a_run_used_is_added_to_its_scopes(world: &World) {
    let store = world.open();
    let mut of_batch = load("lift");
    of_batch.new.batch = Some("friday".to_owned());
    let id = added(&store, of_batch).stored.task.id;
    for (from, to) in [(NOON, NOON.plus(MINUTE)), (NOON.plus(DAY), NOON.plus(DAY))] {
        let run = start(&store, "n1", from);
        store.end_run(id, known(run.epoch), to).unwrap();
    }
    // A worker from outside has no account; a clock that went back gives no time.
    let epoch = claim_first(&store, id, NOON.plus(DAY));
    store.end_run(id, known(epoch), NOON).unwrap();
    assert_eq!(spent(world, "day:2024-02-12"), [2, 240, 6_800, 60_000]);
    assert_eq!(spent(world, "day:2024-02-13"), [1, 120, 3_400, 0]);
    assert_eq!(spent(world, "batch:friday"), [3, 360, 10_200, 60_000]);
    assert_eq!(spent(world, "account:plan"), [2, 240, 6_800, 60_000]);
    let [batch] = &store.batches().unwrap()[..] else { panic!("one batch") };
    assert_eq!((batch.used.runs, batch.used.tokens, batch.used.time), (3, 360, MINUTE));
}

fn a_run_that_was_stopped_has_cost_what_it_cost(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "the wind")]), NOON);
    assert_eq!(spent(world, "account:plan"), [1, 0, 0, 0]);
    for _ in 0..2 {
        refused_because(store.end_run(id, known(run.epoch), NOON), RejectReason::StaleLease);
        assert_eq!(spent(world, "account:plan"), [1, 120, 3_400, 0]);
        assert_eq!(spent(world, "day:2024-02-12"), [1, 120, 3_400, 0]);
    }
    let past = store.past_runs(id, 9).unwrap();
    assert_eq!((past[0].tokens, past[0].outcome), (120, Some(Outcome::Stopped)));
    let task = store.task(id).unwrap().task;
    let used = Spent { runs: 1, tokens: 120, cost_micros: 3_400 };
    assert_eq!((state(&store, id).as_str(), task.spent), ("held", used));
    let late = store.history(id, 0).unwrap().pop().expect("a record").record;
    assert_eq!((late.trigger.as_str(), late.changes_task()), (Note::LateCost.as_str(), false));
}

fn a_sum_never_overflows(world: &World) {
    let store = world.open();
    for number in 0..3 {
        let id = add(&store, &number.to_string());
        let run = start(&store, "n1", NOON);
        let mut end = known(run.epoch);
        end.finish = Finish {
            tokens: i64::MAX,
            cost_micros: i64::MIN,
            ..finish(run.epoch, Outcome::Policy)
        };
        store.end_run(id, end, NOON).unwrap();
    }
    assert_eq!(spent(world, "account:plan"), [3, 3_000_000_000_000, 0, 0]);
}

fn a_lease_is_renewed_by_the_clock_of_the_store(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    let clock = store.now(NOON.plus(MINUTE)).unwrap();
    let until = store.renew(run, TTL, true, NOON.plus(MINUTE)).unwrap();
    let task = store.task(id).unwrap().task;
    assert_eq!(task.lease.expect("it holds").expires_at, until);
    match world.target {
        Target::Sqlite(_) => {
            assert_eq!((clock, until), (NOON.plus(MINUTE), NOON.plus(MINUTE).plus(TTL)));
            assert_eq!(task.progress_at, NOON.plus(MINUTE));
        }
        Target::Postgres(_) => {
            // The caller's clock stands in 2024, the server's does not.
            let after = store.now(NOON).unwrap();
            assert!(clock > NOON.plus(DAY) && clock <= after);
            assert!((clock.plus(TTL)..=after.plus(TTL)).contains(&until));
        }
    }
    let silent = store.renew(run, Span(0), false, NOON.plus(HOUR)).unwrap();
    assert!(silent >= until, "a lease is never shortened");
    assert_eq!(store.task(id).unwrap().task.progress_at, task.progress_at);
    assert_eq!(store.history(id, 0).unwrap().len(), 2);
}

fn a_lease_that_is_lost_is_not_renewed(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "the wind")]), NOON);
    for _ in 0..2 {
        match store.renew(run, TTL, true, NOON) {
            Err(StoreError::Rejected(rejected)) => {
                assert_eq!(rejected.why, RejectReason::StaleLease);
            }
            other => panic!("{other:?}"),
        }
    }
    let history = store.history(id, 0).unwrap();
    assert_eq!(history.last().expect("a record").record.trigger, Note::StaleWrite.as_str());
    assert_eq!(history.len(), 4);
}

fn leases_that_ran_out_are_found_wherever_they_were(world: &World) {
    let store = world.open();
    let mut runs = Vec::new();
    for number in 0..3 {
        add(&store, &number.to_string());
        let at = NOON.plus(Span(number * MINUTE.0));
        runs.push(start(&store, &format!("n{number}"), at));
    }
    let outside = add(&store, "outside");
    claim(&store, "worker:w1", NOON.plus(HOUR)).expect("it is ready");
    let expired = |at: Instant, most| -> Vec<RunId> {
        store.expired(at, most).unwrap().into_iter().map(|open| open.run).collect()
    };
    let out = NOON.plus(TTL);
    assert_eq!(expired(Instant(out.0 - 1), 9), []);
    assert_eq!(expired(out, 9), runs[..1]);
    assert_eq!(expired(out.plus(HOUR), 2), runs[..2]);
    let all = store.expired(out.plus(HOUR), 9).unwrap();
    assert_eq!((all.len(), all[3].run.task, all[3].node.clone()), (4, outside, None));
    let run = runs[0];
    store.end_run(run.task, known(run.epoch), out).unwrap();
    assert_eq!(expired(out, 9), []);
}

fn a_token_is_good_while_the_run_holds_its_lease(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    assert_eq!(store.run_of_token(b"secret").unwrap(), None);
    assert!(store.set_token(run, b"secret").unwrap());
    assert_eq!(world.open().run_of_token(b"secret").unwrap(), Some(run));
    assert_eq!(store.run_of_token(b"secret ").unwrap(), None);
    store.end_run(id, known(run.epoch), NOON).unwrap();
    assert_eq!(store.run_of_token(b"secret").unwrap(), None);
    assert!(!store.set_token(run, b"late").unwrap());
    let next = start(&store, "n1", NOON);
    assert_eq!(store.run_of_token(b"secret").unwrap(), None, "a run's token is its own");
    assert!(store.set_token(next, b"secret").is_err(), "and nobody else gets the same");
}

/// Whoever dies right after the claim leaves no run without one.
fn a_token_comes_with_the_claim(world: &World) {
    let store = world.open();
    add(&store, "lift");
    let site = node("n1", &[worker("ada")]);
    let given = Dispatch { token: Some(b"secret".to_vec()), ..request(&site) };
    let run = store.dispatch(given, NOON).unwrap().claimed.expect("a task is ready").run;
    assert_eq!(store.run_of_token(b"secret").unwrap(), Some(run));
    assert!(store.set_token(run, b"another").unwrap());
    assert_eq!(store.run_of_token(b"another").unwrap(), Some(run));
    assert_eq!(store.run_of_token(b"secret").unwrap(), None, "there is one at a time");
}

fn a_stop_goes_to_the_node_of_its_run(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let run = start(&store, "n1", NOON);
    let outside = add(&store, "outside");
    claim(&store, "worker:w1", NOON).expect("it is ready");
    for id in [id, outside] {
        apply(&store, id, ask("human:kim", "held", &[("waits_for", "the wind")]), NOON);
    }
    let stops = |node: &str| -> Vec<TaskId> {
        let taken = store.take_effects(node, NOON, Span(0), 100).unwrap();
        let stops = taken.iter().filter(|taken| matches!(taken.effect, Effect::Stop { .. }));
        stops.map(|taken| taken.task).collect()
    };
    assert_eq!(stops("n2"), [outside]);
    assert_eq!(stops("n1"), [id, outside]);
    // A node that is gone for good leaves nothing undone.
    store.put_node(&node("n1", &[])).unwrap();
    assert!(store.remove_node("n1").unwrap());
    assert!(!store.remove_node("n1").unwrap());
    assert_eq!(stops("n2"), [id, outside]);
    let epochs = pending(&store, NOON).into_iter().map(|taken| taken.effect);
    assert!(epochs.into_iter().any(|effect| effect == Effect::Stop { epoch: run.epoch }));
}

fn what_waits_for_a_worker_is_found(world: &World) {
    let store = world.open();
    let hiring = definition(
        "lifecycle: hiring
purpose: task
initial: queued
roles: [worker]
states:
  queued: { kind: queued }
  idle: { kind: blocked }
  held: { kind: blocked }
  done: { kind: done }
transitions:
  - { from: queued, to: done, on: claim, by: [worker] }
  - { from: queued, to: idle, on: no_worker, by: [system] }
  - { from: idle, to: queued, on: worker_available, by: [system] }
  - { from: idle, to: queued, on: resume, by: [human] }
  - { from: queued, to: held, on: hold, by: [human] }
  - { from: held, to: queued, on: resume, by: [human] }
",
    );
    let arrive = |state: &str| added(&store, arriving(&hiring, state, None)).stored.task.id;
    arrive("held");
    let stuck = [arrive("idle"), arrive("idle")];
    arrive("queued");
    let elsewhere = add(&store, "held elsewhere");
    claim_first(&store, elsewhere, NOON);
    apply(&store, elsewhere, ask("human:kim", "held", &[("waits_for", "the wind")]), NOON);
    assert_eq!(world.open().stuck_without_worker(100).unwrap(), stuck);
    assert_eq!(store.stuck_without_worker(1).unwrap(), stuck[..1]);
}

fn a_persons_word_counts_by_its_place_and_not_by_its_time(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let first = || store.first_run_after_a_person(id).unwrap();
    assert_eq!(first(), None);
    // The clock is set back between the word that added it and everything else.
    let early = Instant(NOON.0 - HOUR.0);
    for epoch in 1..=2 {
        assert_eq!(claim_first(&store, id, early), epoch);
        assert_eq!(first(), Some(1));
        apply(&store, id, Event::Finished(finish(epoch, Outcome::Crashed)), early);
    }
    // Somebody whose clock is far behind puts it back.
    let long_ago = Instant(early.0 - DAY.0);
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "wind")]), long_ago);
    apply(&store, id, ask("human:kim", "lifting", &[]), long_ago);
    assert_eq!(first(), None, "nothing counts until it is given out again");
    assert_eq!(claim_first(&store, id, early), 3);
    assert_eq!(first(), Some(3));
}

/// A role is the first tag. A run that cost nothing did not tell what it cost, one under way has
/// not used anything yet, and tasks of other lifecycles are not asked.
fn what_runs_of_a_role_used_is_averaged(world: &World) {
    let store = world.open();
    let run = |tags: &[&str]| {
        let mut add = load("lift");
        add.new.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        added(&store, add);
        start(&store, "n1", NOON)
    };
    for (tags, minutes, cost_micros) in [
        (&["tester", "large"][..], 1, 1_000),
        (&["tester"], 4, 4_000),
        (&["tester"], 4, 0),
        (&["coder"], 2, 0),
        (&[], 9, 9_000),
    ] {
        let RunId { task, epoch } = run(tags);
        let finish = Finish { cost_micros, ..finish(epoch, Outcome::Auth) };
        let end = RunEnd { finish, ..known(epoch) };
        store.end_run(task, end, NOON.plus(Span(minutes * MINUTE.0))).unwrap();
    }
    run(&["coder"]);
    let past = store.past_of_roles(Purpose::Task).unwrap();
    let tester = RoleAverage { runs: 3, millis: 3 * MINUTE.0, priced: 2, cost_micros: Some(2_500) };
    let coder = RoleAverage { runs: 1, millis: 2 * MINUTE.0, priced: 0, cost_micros: None };
    let expected = [("coder".to_owned(), coder), ("tester".to_owned(), tester)];
    assert_eq!(past.into_iter().collect::<Vec<_>>(), expected);
    assert!(store.past_of_roles(Purpose::Review).unwrap().is_empty());
}

/// Three runs of one project: one that has ended, one that was stopped and one that goes on,
/// elsewhere.
fn who_was_at_work_at_a_time_is_known(world: &World) {
    let store = world.open();
    let ended = add(&store, "lift");
    let first = start(&store, "n1", NOON);
    let one = NOON.plus(MINUTE);
    store.end_run(ended, known(first.epoch), one).unwrap();
    apply(&store, ended, ask("human:kim", "held", &[("waits_for", "the wind")]), one);
    let stopped = add(&store, "load");
    let second = start(&store, "n1", NOON.plus(HOUR));
    assert_eq!(second.task, stopped);
    let two = NOON.plus(HOUR).plus(MINUTE);
    apply(&store, stopped, ask("human:kim", "held", &[("waits_for", "the wind")]), two);
    let outside = add(&store, "look");
    let later = NOON.plus(DAY);
    let third = RunId { task: outside, epoch: claim_first(&store, outside, later) };

    let at = |node: &str, from: Instant, until: Instant| {
        let when = NodeTime { node, from, until, lingers: Span(5 * MINUTE.0) };
        store.runs_at_work("site", &when).unwrap()
    };
    let none = Vec::<RunId>::new();
    assert_eq!(at("n1", Instant(NOON.0 - 2), Instant(NOON.0 - 1)), none, "before it began");
    for moment in [NOON, NOON.plus(Span(1)), one] {
        assert_eq!(at("n1", moment, moment), [first], "{moment}");
    }
    assert_eq!(at("n1", one.plus(Span(1)), one.plus(MINUTE)), none, "after its end");
    assert_eq!(at("n2", NOON, one), none, "on another machine");
    assert_eq!(at("n1", NOON, two), [first, second], "all that were at work meanwhile");
    let lingers = two.plus(Span(5 * MINUTE.0));
    assert_eq!(at("n1", lingers, lingers), [second], "its agent may not have heard of it");
    assert_eq!(at("n1", lingers.plus(Span(1)), lingers.plus(MINUTE)), none);
    // Where a worker from outside is at work nobody knows.
    for node in ["n1", "n2"] {
        assert_eq!(at(node, later.plus(DAY), later.plus(DAY)), [third], "{node}");
    }
    let when = NodeTime { node: "n1", from: NOON, until: later, lingers: Span(0) };
    assert_eq!(store.runs_at_work("elsewhere", &when).unwrap(), none);
}

/// The last output of a check may be anything, and PostgreSQL holds no NUL.
fn a_text_with_a_nul_is_stored_alike(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    let odd = || "out\0put".to_owned();
    let pause =
        PauseRequest { account: "plan".to_owned(), until: NOON.plus(DAY), reason: odd(), hits: 1 };
    let end = RunEnd {
        body: Some(odd()),
        pause: Some(pause),
        notice: Some(NewNotice::new(NoticeKind::Fault, Some(id), odd())),
        ..ended(Finish { detail: odd(), ..finish(epoch, Outcome::Crashed) })
    };
    store.end_run(id, end, NOON).expect("it is stored");
    let clean = "out\u{FFFD}put";
    assert_eq!(store.past_runs(id, 1).unwrap()[0].detail.as_deref(), Some(clean));
    assert_eq!(store.task(id).unwrap().task.body, clean);
    assert_eq!(store.accounts().unwrap()[0].1.reason, clean);
    let texts = "SELECT count(*) FROM notices WHERE text LIKE '%out%put%'";
    assert_eq!(world.raw().number(texts), 2);
}

fn a_lease_is_known_whatever_else_of_its_run_is_damaged(world: &World) {
    let store = world.open();
    let lifter = node("n1", &[worker("ada")]);
    add(&store, "lift");
    let run = dispatch(&store, &lifter, NOON).claimed.expect("it is ready").run;
    let other = RunId { epoch: run.epoch + 1, ..run };
    assert_eq!((store.has_lease(run).unwrap(), store.has_lease(other).unwrap()), (true, false));
    if let Target::Sqlite(_) = world.target {
        world.raw().run("UPDATE runs SET account = X'FF', worker = X'FF', started_at = 'x'");
        assert_eq!(store.open_runs(Some("n1")).unwrap(), []);
        assert!(store.has_lease(run).unwrap());
        world.raw().run("UPDATE runs SET account = 'plan', worker = 'worker:ada', started_at = 5");
    }
    let end = ended(finish(run.epoch, Outcome::Crashed));
    store.end_run(run.task, end, NOON).unwrap();
    assert!(!store.has_lease(run).unwrap());
}
