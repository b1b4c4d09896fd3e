//! The store and the pure machine side by side: random events give the same tasks, whatever is
//! closed or lost in between.
//!
//! The model holds in memory what the machine says a store has to hold. It knows nothing of rows
//! and transactions.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use banksman::store::conn::{Options, Target};
use banksman::store::{Add, ClaimRequest, Edge, Store, StoreError, TimerResult};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Lifecycle, Outcome};
use banksman_core::machine::{
    self, Actor, Claim, Effect, Ending, Event, Finish, Heartbeat, NewTask, RejectReason, Rejected,
    StepResult, Task, TaskUpdate, TimerKind, TransitionRequest,
};
use banksman_core::time::{Instant, Span};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;

use super::acts::{HARNESS, MINUTE, NOON, TTL, actor, fields, finish, load, pending};

/// Tasks of one history at most.
const TASKS: usize = 5;
const EVENTS: usize = 60;
const CASES: u32 = 64;

/// What is tried, in words that mean something whatever came before.
#[derive(Debug, Clone)]
enum Op {
    Add {
        needs: u8,
        delay_minutes: Option<u8>,
        priority: i8,
    },
    /// One of the ways out of where the task is, by one of those who may take it or by somebody
    /// else.
    Ask {
        task: u8,
        way: u8,
        by: u8,
        gives: bool,
    },
    Claim {
        crane: bool,
    },
    Beat {
        task: u8,
        stale: bool,
        progressed: bool,
    },
    Finish {
        task: u8,
        stale: bool,
        outcome: u8,
        gives: bool,
        again: bool,
    },
    /// Time passes, and what came due fires.
    Pass {
        minutes: u16,
    },
    /// The handle is closed and another one opened.
    Reopen,
    /// What is on the disk at this moment is all that is left.
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let delay = proptest::option::weighted(0.2, any::<u8>());
    // Bits of the tasks that are needed; most tasks need none.
    let needs = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    prop_oneof![
        5 => (needs, delay, -3..3_i8)
            .prop_map(|(needs, delay_minutes, priority)| Op::Add { needs, delay_minutes, priority }),
        4 => (any::<u8>(), any::<u8>(), any::<u8>(), proptest::bool::weighted(0.8))
            .prop_map(|(task, way, by, gives)| Op::Ask { task, way, by, gives }),
        6 => proptest::bool::weighted(0.1).prop_map(|crane| Op::Claim { crane }),
        5 => (any::<u8>(), proptest::bool::weighted(0.2), proptest::bool::weighted(0.7))
            .prop_map(|(task, stale, progressed)| Op::Beat { task, stale, progressed }),
        2 => (any::<u8>(), proptest::bool::weighted(0.2), any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(task, stale, outcome, gives, again)| Op::Finish { task, stale, outcome, gives, again }),
        6 => (1..70_u16).prop_map(|minutes| Op::Pass { minutes }),
        1 => (70..6_000_u16).prop_map(|minutes| Op::Pass { minutes }),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ]
}

/// A task and all that hangs on it.
#[derive(Debug)]
struct Twin {
    task: Task,
    timers: Vec<(TimerKind, i64, Instant)>,
    needs: Vec<TaskId>,
    effects: Vec<(i64, i64, Effect)>,
    open_decision: Option<i64>,
    /// Epoch and outcome.
    runs: Vec<(i64, Option<Outcome>)>,
    artifacts: usize,
}

struct Model {
    lifecycle: Arc<Lifecycle>,
    twins: BTreeMap<TaskId, Twin>,
}

impl Model {
    /// Writes a step into memory.
    fn keep(&mut self, id: TaskId, step: TaskUpdate, now: Instant) {
        let twin = self.twins.get_mut(&id).expect("the task is there");
        let version = step.task.version;
        let had = twin.effects.iter().filter(|(seq, _, _)| *seq == version).count();
        let numbers = i64::try_from(had).expect("few")..;
        let is_notice = |effect: &Effect| {
            matches!(effect, Effect::Notify | Effect::Alert | Effect::Remind { .. })
        };
        let carried_out = step.effects.into_iter().filter(|effect| !is_notice(effect));
        twin.effects
            .extend(numbers.zip(carried_out).map(|(number, effect)| (version, number, effect)));
        if step.task.epoch > twin.task.epoch {
            twin.runs.push((step.task.epoch, None));
        }
        if let Some((epoch, outcome)) = step.ended_run {
            let run = twin.runs.iter_mut().find(|run| run.0 == epoch);
            run.expect("a run that ends has begun").1 = Some(outcome);
        }
        if step.decision.settles {
            twin.open_decision = None;
        }
        if step.decision.opens.is_some() {
            twin.open_decision = Some(version);
        }
        twin.artifacts += step.artifacts.len();
        if let Some(timers) = step.timers {
            let entered = step.task.entered;
            twin.timers = timers.iter().map(|timer| (timer.kind, entered, timer.due)).collect();
        }
        twin.task = step.task;
        if step.ending == Some(Ending::Done) {
            self.release(id, now);
        }
    }

    fn release(&mut self, done: TaskId, now: Instant) {
        let waiting: Vec<TaskId> = self
            .twins
            .iter()
            .filter(|(_, twin)| twin.needs.contains(&done))
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let left = Event::NeedsLeft(self.twins[&id].task.open_needs - 1);
            self.let_happen(id, &left, now).expect("one need less is never refused");
        }
    }

    fn let_happen(&mut self, id: TaskId, event: &Event, now: Instant) -> Result<(), Rejected> {
        if let StepResult::Step(step) =
            machine::step(&self.lifecycle, &self.twins[&id].task, event, now)?
        {
            self.keep(id, *step, now);
        }
        Ok(())
    }

    fn add(&mut self, new: &NewTask, needs: Vec<TaskId>, now: Instant) {
        let id = TaskId(i64::try_from(self.twins.len()).expect("few") + 1);
        let not_done =
            |id: &&TaskId| self.lifecycle.state(self.twins[*id].task.state).name != "done";
        let open_needs = i64::try_from(needs.iter().filter(not_done).count()).expect("few");
        let new = NewTask { open_needs, ..new.clone() };
        let step = machine::create(&self.lifecycle, &new, &Actor::human("kim"), id, now)
            .expect("it is sound");
        let empty = Twin {
            task: step.task.clone(),
            timers: Vec::new(),
            needs,
            effects: Vec::new(),
            open_decision: None,
            runs: Vec::new(),
            artifacts: 0,
        };
        self.twins.insert(id, empty);
        self.keep(id, step, now);
    }

    /// The first in the queue that lets itself be claimed.
    fn claim(&mut self, claim: &Claim, now: Instant) -> Option<TaskId> {
        let mut queue: Vec<(i64, TaskId)> = self
            .twins
            .iter()
            .filter_map(|(id, twin)| Some((twin.task.rank(&self.lifecycle)?, *id)))
            .collect();
        queue.sort();
        let event = Event::Claimed(claim.clone());
        queue.into_iter().map(|(_, id)| id).find(|id| self.let_happen(*id, &event, now).is_ok())
    }

    /// Fires what was due when the look began, in the order of the store.
    fn fire(&mut self, now: Instant) -> Vec<TimerResult> {
        let mut due: Vec<(Instant, TaskId, TimerKind, i64)> = Vec::new();
        for (id, twin) in &self.twins {
            let mine = twin.timers.iter().filter(|(_, _, due)| *due <= now);
            due.extend(mine.map(|(kind, entered, due)| (*due, *id, *kind, *entered)));
        }
        due.sort_by_key(|(due, id, kind, _)| (*due, Reverse(kind.code().0), *id, kind.code().1));
        due.into_iter()
            .map(|(_, id, kind, entered)| self.fire_one(id, kind, entered, now))
            .collect()
    }

    fn fire_one(&mut self, id: TaskId, kind: TimerKind, entered: i64, now: Instant) -> TimerResult {
        let twin = self.twins.get_mut(&id).expect("the task is there");
        let Some(at) = twin.timers.iter().position(|timer| (timer.0, timer.1) == (kind, entered))
        else {
            return TimerResult::Void(id);
        };
        let event = Event::Due { timer: kind, entered };
        match machine::step(&self.lifecycle, &twin.task, &event, now) {
            Ok(StepResult::Step(step)) => {
                if step.timers.is_none() {
                    twin.timers.remove(at);
                }
                self.keep(id, *step, now);
                TimerResult::Moved(id)
            }
            Ok(StepResult::Later(due)) => {
                twin.timers[at].2 = due;
                TimerResult::Later(id)
            }
            Ok(StepResult::Ignored(_)) => {
                twin.timers.remove(at);
                TimerResult::Void(id)
            }
            Err(rejected) => panic!("a bound of a sound lifecycle was refused: {rejected}"),
        }
    }
}

/// The two, side by side.
struct Pair {
    store: Option<Store>,
    folder: TempDir,
    model: Model,
    now: Instant,
    /// Epochs whose late writers are on record.
    late: BTreeSet<(TaskId, i64)>,
}

impl Pair {
    fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let model = Model { lifecycle: Arc::clone(&HARNESS.lifecycle), twins: BTreeMap::new() };
        let late = BTreeSet::new();
        Self { store: Some(open(&folder)), folder, model, now: NOON, late }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// A task, if there is one yet.
    fn pick(&self, number: u8) -> Option<TaskId> {
        let count = self.model.twins.len();
        self.model.twins.keys().nth(usize::from(number) % count.max(1)).copied()
    }

    /// A task with a run, if there is one; otherwise any.
    fn pick_running(&self, number: u8) -> Option<TaskId> {
        let running = self.model.twins.iter().filter(|(_, twin)| twin.task.lease.is_some());
        let running: Vec<TaskId> = running.map(|(id, _)| *id).collect();
        let nth = usize::from(number) % running.len().max(1);
        running.get(nth).copied().or_else(|| self.pick(number))
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Add { needs, delay_minutes, priority } => {
                self.add(*needs, *delay_minutes, *priority);
            }
            Op::Ask { task, way, by, gives } => {
                if let Some((id, ask)) =
                    self.pick(*task).and_then(|id| Some((id, self.ask(id, *way, *by, *gives)?)))
                {
                    self.both(id, &Event::Asked(ask));
                }
            }
            Op::Claim { crane } => self.claim(if *crane { "crane:c1" } else { "worker:w1" }),
            Op::Beat { task, stale, progressed } => {
                if let Some(id) = self.pick_running(*task) {
                    let epoch = self.model.twins[&id].task.epoch - i64::from(*stale);
                    let heartbeat = Heartbeat {
                        epoch,
                        expires_at: self.now.plus(TTL),
                        progressed: *progressed,
                    };
                    self.both(id, &Event::Heartbeat(heartbeat));
                }
            }
            Op::Finish { task, stale, outcome, gives, again } => {
                if let Some(id) = self.pick_running(*task) {
                    let epoch = self.model.twins[&id].task.epoch - i64::from(*stale);
                    let event = self.finish(epoch, *outcome, *gives, *again);
                    self.both(id, &event);
                }
            }
            Op::Pass { minutes } => {
                self.now = self.now.plus(Span(i64::from(*minutes) * MINUTE.0));
                let fired = self.store().fire_due(self.now, 1_000).expect("timers fire").results;
                assert_eq!(fired, self.model.fire(self.now));
            }
            Op::Reopen => {
                self.store = None;
                self.store = Some(open(&self.folder));
            }
            Op::Crash => self.crash(),
        }
    }

    fn add(&mut self, needs: u8, delay_minutes: Option<u8>, priority: i8) {
        if self.model.twins.len() == TASKS {
            return;
        }
        let ids = self.model.twins.keys().enumerate();
        let needs: Vec<TaskId> =
            ids.filter(|(bit, _)| needs >> bit & 1 == 1).map(|(_, id)| *id).collect();
        let delay = delay_minutes.map(|minutes| self.now.plus(Span(i64::from(minutes) * MINUTE.0)));
        let title = format!("load {}", self.model.twins.len());
        let new = NewTask { priority: priority.into(), not_before: delay, ..load(&title).new };
        let edges = needs.iter().map(|id| (*id, Edge::Blocks)).collect();
        let add = Add { new: new.clone(), needs: edges, ..load("") };
        self.store().add(add, self.now).expect("the task is added");
        self.model.add(&new, needs, self.now);
    }

    fn ask(&self, id: TaskId, way: u8, by: u8, gives: bool) -> Option<TransitionRequest> {
        let lifecycle = &self.model.lifecycle;
        let ways: Vec<_> = lifecycle
            .exits(self.model.twins[&id].task.state)
            .filter(|row| row.timeout.is_none())
            .collect();
        let row = ways.get(usize::from(way) % ways.len().max(1))?;
        let role = match row.roles.get(usize::from(by) % (row.roles.len() + 1)) {
            Some(role) => lifecycle.role_name(*role),
            None => "crane",
        };
        Some(TransitionRequest {
            actor: actor(&format!("{role}:a{by}")),
            to: None,
            trigger: Some(row.trigger.clone()),
            fields: if gives { given() } else { serde_json::Map::new() },
            epoch: None,
            version: None,
        })
    }

    fn finish(&self, epoch: i64, outcome: u8, gives: bool, again: bool) -> Event {
        let outcomes = Activity::Agent.outcomes();
        let outcome: Outcome = outcomes[usize::from(outcome) % outcomes.len()];
        Event::Finished(Finish {
            fields: if gives { given() } else { serde_json::Map::new() },
            tokens: 7,
            cost_micros: 11,
            again_at: again.then(|| self.now.plus(MINUTE)),
            ..finish(epoch, outcome)
        })
    }

    fn both(&mut self, id: TaskId, event: &Event) {
        let stored = match self.store().apply(id, event.clone(), None, self.now) {
            Ok(_) => Ok(()),
            Err(StoreError::Rejected(rejected)) => Err(rejected),
            Err(error) => panic!("{event:?}: {error:?}"),
        };
        let expected = self.model.let_happen(id, event, self.now);
        assert_eq!(stored, expected, "{event:?}");
        let late = expected.is_err_and(|rejected| rejected.why == RejectReason::StaleLease);
        let epoch = match event {
            Event::Heartbeat(heartbeat) => Some(heartbeat.epoch),
            Event::Finished(finish) => Some(finish.epoch),
            Event::Asked(_)
            | Event::Claimed(_)
            | Event::Reported(_)
            | Event::Due { .. }
            | Event::StaleWrite { .. }
            | Event::Noted(_)
            | Event::DelaySkipped(_)
            | Event::Overridden(_)
            | Event::Restored { .. }
            | Event::NeedsLeft(_)
            | Event::Uncounted(_)
            | Event::LateCost(_) => None,
        };
        // The refusal of a late writer is recorded, once for each epoch.
        if let Some(epoch) = epoch.filter(|epoch| late && self.late.insert((id, *epoch))) {
            let noted = self.model.let_happen(id, &Event::StaleWrite { epoch }, self.now);
            noted.expect("it is no refusal itself");
        }
    }

    fn claim(&mut self, who: &str) {
        let request = ClaimRequest::new(actor(who), TTL);
        let claimed = self.store().claim(request, self.now).expect("claiming works");
        let claim = Claim { actor: actor(who), expires_at: self.now.plus(TTL) };
        let expected = self.model.claim(&claim, self.now);
        assert_eq!(claimed.map(|claimed| claimed.run.task), expected);
    }

    /// The files as they are while the store is still open, which is what a dead process leaves.
    fn crash(&mut self) {
        let after = TempDir::new().expect("a temporary folder");
        for name in ["store.db", "store.db-wal"] {
            fs::copy(self.folder.path().join(name), after.path().join(name))
                .expect("the file is copied");
        }
        self.store = Some(open(&after));
        self.folder = after;
    }

    fn assert_same(&self) {
        for (id, twin) in &self.model.twins {
            let detail = self.store().detail(*id).expect("the task is there");
            assert_eq!(detail.stored.task, twin.task);
            let mut timers: Vec<_> =
                detail.timers.iter().map(|timer| (timer.due, timer.kind)).collect();
            let mut expected: Vec<_> =
                twin.timers.iter().map(|(kind, _, due)| (*due, *kind)).collect();
            timers.sort();
            expected.sort();
            assert_eq!(timers, expected, "timers of {id}");
            assert_eq!(
                detail.decision.map(|decision| decision.seq),
                twin.open_decision,
                "decision of {id}"
            );
            let runs = self.store().past_runs(*id, 1_000).expect("the runs are read");
            let runs: Vec<_> = runs.into_iter().map(|run| (run.epoch, run.outcome)).collect();
            assert_eq!(runs, twin.runs, "runs of {id}");
            assert_eq!(detail.artifacts.len(), twin.artifacts, "artifacts of {id}");
        }
    }

    fn assert_same_at_the_end(&self) {
        let mut stored = pending(self.store(), Instant(i64::MAX));
        stored.sort_by_key(|pending| (pending.task, pending.seq, pending.number));
        let stored: Vec<_> = stored
            .into_iter()
            .map(|pending| (pending.task, (pending.seq, pending.number, pending.effect)))
            .collect();
        let expected: Vec<_> = self
            .model
            .twins
            .iter()
            .flat_map(|(id, twin)| twin.effects.iter().map(|effect| (*id, effect.clone())))
            .collect();
        assert_eq!(stored, expected);
        let report = self.store().check().expect("the check runs");
        assert_eq!((report.findings, report.faults), (vec![], vec![]));
        assert_eq!(self.store().verify_history().expect("the histories are read").findings, []);
    }
}

fn given() -> serde_json::Map<String, serde_json::Value> {
    fields(&[
        ("pr_url", "https://forge/1"),
        ("feedback", "higher"),
        ("waits_for", "the wind"),
        ("diagnostic", "the rope broke"),
        ("reason", "rain"),
    ])
}

fn open(folder: &TempDir) -> Store {
    let target = Target::Sqlite(folder.path().join("store.db"));
    Store::open(&target, &Options::default()).expect("the store opens")
}

/// In parts, so that none needs more than a fraction of its time limit.
mod the_store_holds_what_the_machine_decides {
    use super::{HARNESS, RngAlgorithm, TestRng, search};

    #[test]
    fn here() {
        let entered = search(TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        // The search is worth something only if it gets around.
        assert_eq!(entered, HARNESS.lifecycle.states.len());
    }

    #[test]
    fn there() {
        let entered = search(TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]));
        assert!(entered + 1 >= HARNESS.lifecycle.states.len());
    }
}

/// `PROPTEST_CASES` widens the search; the histories are the same every time.
///
/// Returns in how many states tasks were.
fn search(random: TestRng) -> usize {
    let cases =
        std::env::var("PROPTEST_CASES").map_or(CASES, |cases| cases.parse().expect("a number"));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, random);
    let entered = RefCell::new(BTreeSet::new());
    let tested = runner.run(&vec(op(), 1..=EVENTS), |ops| {
        let mut pair = Pair::new();
        for op in &ops {
            pair.play(op);
            pair.assert_same();
            entered.borrow_mut().extend(pair.model.twins.values().map(|twin| twin.task.state));
        }
        pair.assert_same_at_the_end();
        Ok(())
    });
    tested.unwrap_or_else(|failure| panic!("{failure}"));
    entered.into_inner().len()
}
