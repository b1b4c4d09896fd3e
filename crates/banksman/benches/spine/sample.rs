//! What is measured on: folders, stores, a small lifecycle, and callers that start together.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use banksman::clock;
use banksman::store::conn::{Options, Target};
use banksman::store::{Add, ClaimRequest, Claimed, Definition, Store};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::machine::{Actor, Event, Finish, NewTask, TransitionRequest};
use banksman_core::time::Span;
use serde_json::Map;
use tempfile::TempDir;

use crate::frame::Fault;

/// A queue, a state of work with a bound (so that timers are written), and two states to go to and
/// fro between.
const LIFECYCLE: &str = "\
lifecycle: spine
purpose: task
about: The smallest one that writes what real ones write.
initial: queued
roles: [worker]
fields: { note: { type: text, by: anyone }, diagnostic: { type: text, by: anyone }, reason: { type: text, by: anyone } }
counters: { rounds: {} }
states:
  queued: { kind: queued }
  left: { kind: waiting }
  right: { kind: waiting }
  working:
    kind: working
    does: { activity: agent, role: worker, outcomes: { succeeded: finish, otherwise: give_up } }
    timeouts: [{ after: 24h, since: progress, to: failed, on: stalled, set: { diagnostic: stalled } }]
  done: { kind: done }
  failed: { kind: failed, requires: [diagnostic] }
  cancelled: { kind: cancelled, requires: [reason] }
transitions:
  - { from: queued, to: working, on: claim, by: [worker, system] }
  - { from: working, to: done, on: finish, by: [worker, system] }
  - { from: working, to: failed, on: give_up, by: [worker, system], set: { diagnostic: gave up } }
  - { from: queued, to: left, on: put, by: [human] }
  - { from: left, to: right, on: go, by: [human], count: [rounds] }
  - { from: right, to: left, on: back, by: [human] }
  - { from: any, to: cancelled, on: cancel, by: [human] }
";

pub(crate) fn definition() -> Result<Definition, Fault> {
    let overrides = Overrides::new();
    let lifecycle = check(LIFECYCLE, "the benchmark's lifecycle", &overrides)
        .map_err(|problems| problems.to_string())?;
    Ok(Definition { lifecycle: Arc::new(lifecycle), source: LIFECYCLE.to_owned(), overrides })
}

/// A folder on the disk that temporary files are on; `TMPDIR` moves it.
pub(crate) fn folder() -> Result<TempDir, Fault> {
    Ok(tempfile::Builder::new().prefix("banksman-bench.").tempdir()?)
}

pub(crate) fn sqlite_store(folder: &TempDir, name: &str) -> Result<Store, Fault> {
    let target = Target::Sqlite(folder.path().join(name));
    Ok(Store::open(&target, &Options::default())?)
}

/// A task as people write them.
pub(crate) fn new_task(definition: &Definition, number: usize) -> Add {
    Add {
        new: NewTask {
            title: format!("Say which file was not found when the import fails, number {number}"),
            project: "spine".to_owned(),
            tags: vec!["import".to_owned(), "errors".to_owned()],
            ..NewTask::default()
        },
        definition: definition.clone(),
        needs: Vec::new(),
        actor: Actor::human("kim"),
        key: None,
        arrival: None,
    }
}

pub(crate) fn worker() -> Actor {
    Actor { role: "worker".to_owned(), name: Some("ada".to_owned()) }
}

pub(crate) fn claim(store: &Store) -> Result<Option<Claimed>, Fault> {
    let request = ClaimRequest::new(worker(), Span(60_000));
    Ok(store.claim(request, clock::now())?)
}

pub(crate) fn finish(store: &Store, claimed: &Claimed) -> Result<(), Fault> {
    let finished = Event::Finished(Finish {
        epoch: claimed.run.epoch,
        outcome: Outcome::Succeeded,
        detail: String::new(),
        fields: Map::new(),
        tokens: 1_000,
        cost_micros: 20_000,
        again_at: None,
    });
    store.apply(claimed.run.task, finished, None, clock::now())?;
    Ok(())
}

pub(crate) fn move_to(store: &Store, task: TaskId, state: &str) -> Result<(), Fault> {
    let asked = Event::Asked(TransitionRequest {
        actor: Actor::human("kim"),
        to: Some(state.to_owned()),
        trigger: None,
        fields: Map::new(),
        epoch: None,
        version: None,
    });
    store.apply(task, asked, None, clock::now())?;
    Ok(())
}

/// Lets `callers` threads do their work at the same time, each so many times; answers with how
/// often per second.
pub(crate) fn rate(
    callers: usize,
    times_each: usize,
    work: impl Fn(usize, usize) -> Result<(), Fault> + Sync,
) -> Result<f64, Fault> {
    let start = Barrier::new(callers + 1);
    let (work, start) = (&work, &start);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                scope.spawn(move || {
                    start.wait();
                    (0..times_each).try_for_each(|time| work(caller, time))
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| "a caller panicked")??;
        }
        Ok(per_second(callers * times_each, began))
    })
}

pub(crate) fn per_second(times: usize, began: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a count of some thousands")]
    let times = times as f64;
    times / began.elapsed().as_secs_f64()
}
