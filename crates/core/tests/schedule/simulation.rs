//! A whole queue at work: tasks arrive, are considered in the order of their rank, run for a while
//! and end. Whatever the tasks and the limits, no limit is exceeded, no two tasks share an area,
//! and every task gets its turn.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Lifecycle;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::machine::{Actor, NewTask, create};
use banksman_core::schedule::{
    AccountLoad, Area, BatchLoad, Budget, Candidate, Ineligible, Load, Running, Used, Worker,
    choose, overlap,
};
use banksman_core::time::Instant;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

use crate::world::{over_random, texts, worker};

/// A tick is an hour, so a step of priority is worth twenty-four.
const TICK_MILLIS: i64 = 3_600_000;
const LONGEST: usize = 6;
const PATHS: [&str; 6] =
    ["path:apps/web", "path:apps/api", "path:apps", "path:docs", "path:src/a", "path:b"];

#[derive(Debug, Clone)]
struct Spec {
    /// Ticks after the one before it.
    after: usize,
    priority: i32,
    project: &'static str,
    batch: Option<&'static str>,
    tags: Vec<String>,
    areas: Vec<Area>,
    ticks: usize,
}

#[derive(Debug, Clone)]
struct System {
    nodes: Vec<Node>,
    limit: Option<u32>,
    account_limit: Option<u32>,
    concurrency: u32,
    batch_runs: Option<i64>,
}

#[derive(Debug, Clone)]
struct Node {
    name: String,
    capacity: u32,
    workers: Vec<Worker>,
}

struct Waiting {
    rank: i64,
    id: TaskId,
    arrived: usize,
    spec: Spec,
}

/// When a task arrived and when it started.
struct Turn {
    /// Its place in the queue: the rank, then the id.
    place: (i64, TaskId),
    arrived: usize,
    started: usize,
}

struct Simulation<'s> {
    system: &'s System,
    all: Vec<Worker>,
    tick: usize,
    queue: Vec<Waiting>,
    /// With the tick in which each ends.
    running: Vec<(Running, usize)>,
    batch_used: i64,
    batch_started: i64,
    turns: Vec<Turn>,
}

impl<'s> Simulation<'s> {
    fn new(system: &'s System) -> Self {
        Self {
            system,
            all: system.nodes.iter().flat_map(|node| node.workers.clone()).collect(),
            tick: 0,
            queue: Vec::new(),
            running: Vec::new(),
            batch_used: 0,
            batch_started: 0,
            turns: Vec::new(),
        }
    }

    fn arrives(&mut self, lifecycle: &Lifecycle, number: i64, spec: &Spec) {
        let new = NewTask { priority: spec.priority, title: "a".to_owned(), ..NewTask::default() };
        let now = Instant(TICK_MILLIS * self.tick as i64);
        let id = TaskId(number);
        let task =
            create(lifecycle, &new, &Actor::human("ann"), id, now).expect("it is valid").task;
        let rank = task.rank(lifecycle).expect("it is queued");
        self.queue.push(Waiting { rank, id, arrived: self.tick, spec: spec.clone() });
        self.queue.sort_by_key(|waiting| (waiting.rank, waiting.id));
    }

    fn load(&self, node: &Node) -> Load {
        let batch = BatchLoad {
            concurrency: self.system.concurrency,
            paused: false,
            budget: Budget { runs: self.system.batch_runs, ..Budget::default() },
            used: Used { runs: self.batch_used, ..Used::default() },
        };
        let account = AccountLoad { limit: self.system.account_limit, ..AccountLoad::default() };
        Load {
            limit: self.system.limit,
            node: node.name.clone(),
            capacity: node.capacity,
            running: self.running.iter().map(|(run, _)| run.clone()).collect(),
            batches: [("night".to_owned(), batch)].into(),
            accounts: [("shared".to_owned(), account)].into(),
            ..Load::default()
        }
    }

    /// Walks the queue from its head and starts the first task that may start.
    fn starts_one(&mut self, node: &Node) -> Result<bool, TestCaseError> {
        let mut load = self.load(node);
        let all = &self.all;
        let roles = texts(&["agent"]);
        for index in 0..self.queue.len() {
            let waiting = &self.queue[index];
            let candidate = Candidate {
                task: waiting.id,
                project: waiting.spec.project,
                batch: waiting.spec.batch,
                tags: &waiting.spec.tags,
                roles: &roles,
                assignees: &[],
                lanes: &roles,
                model: None,
                areas: &waiting.spec.areas,
                spent: Used::default(),
                budget: Budget::default(),
            };
            match choose(&candidate, &load, &node.workers, all, Instant(0)) {
                Ok(worker) => {
                    self.starts(index, node, worker);
                    self.keeps_every_bound()?;
                    return Ok(true);
                }
                Err(held) => {
                    prop_assert!(!held.is_empty());
                    load.reserve_areas(&candidate, &held);
                }
            }
        }
        Ok(false)
    }

    fn starts(&mut self, index: usize, node: &Node, worker: &Worker) {
        let Waiting { rank, id, arrived, spec } = self.queue.remove(index);
        self.turns.push(Turn { place: (rank, id), arrived, started: self.tick });
        self.batch_started += i64::from(spec.batch.is_some());
        let run = Running {
            task: id,
            project: spec.project.to_owned(),
            batch: spec.batch.map(str::to_owned),
            worker: worker.name.clone(),
            account: worker.account.clone(),
            node: node.name.clone(),
            role: "agent".to_owned(),
            areas: spec.areas,
        };
        self.running.push((run, self.tick + spec.ticks));
    }

    fn ticks(&mut self) -> Result<(), TestCaseError> {
        let (over, running) =
            std::mem::take(&mut self.running).into_iter().partition(|(_, end)| *end <= self.tick);
        self.running = running;
        let over: Vec<(Running, usize)> = over;
        self.batch_used += over.iter().filter(|(run, _)| run.batch.is_some()).count() as i64;
        for node in &self.system.nodes {
            while self.starts_one(node)? {}
        }
        self.tick += 1;
        Ok(())
    }

    /// Continues without new tasks for at most so many ticks, or until nothing is left to do.
    fn runs_out(&mut self, ticks: usize) -> Result<(), TestCaseError> {
        for _ in 0..ticks {
            if self.queue.is_empty() && self.running.is_empty() {
                break;
            }
            self.ticks()?;
        }
        Ok(())
    }

    fn count(&self, counts: impl Fn(&Running) -> bool) -> u32 {
        self.running.iter().filter(|(run, _)| counts(run)).count() as u32
    }

    fn keeps_every_bound(&self) -> Result<(), TestCaseError> {
        let system = self.system;
        prop_assert!(system.limit.is_none_or(|limit| self.count(|_| true) <= limit));
        prop_assert!(
            system
                .account_limit
                .is_none_or(|most| self.count(|run| run.account == "shared") <= most)
        );
        prop_assert!(self.count(|run| run.batch.is_some()) <= system.concurrency);
        prop_assert!(system.batch_runs.is_none_or(|most| self.batch_started <= most));
        for node in &system.nodes {
            prop_assert!(self.count(|run| run.node == node.name) <= node.capacity);
            for worker in &node.workers {
                let own = |run: &Running| run.node == node.name && run.worker == worker.name;
                prop_assert!(self.count(own) <= worker.max_concurrent);
            }
        }
        for (index, (run, _)) in self.running.iter().enumerate() {
            for (other, _) in &self.running[index + 1..] {
                let meet =
                    run.project == other.project && overlap(&run.areas, &other.areas).is_some();
                prop_assert!(!meet, "{} and {} meet", run.task, other.task);
            }
        }
        Ok(())
    }
}

fn area() -> impl Strategy<Value = Area> {
    select(&PATHS[..]).prop_map(|path| Area(path.to_owned()))
}

fn areas(at_most: usize) -> impl Strategy<Value = Vec<Area>> {
    btree_set(area(), 0..=at_most).prop_map(|areas| areas.into_iter().collect())
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let tags = vec(select(&["code", "ci", "label", "needs:gpu"][..]), 0..2);
    let spec = (
        0..3_usize,
        -2..3_i32,
        select(&["shop", "blog"][..]),
        option::weighted(0.3, Just("night")),
        tags,
        areas(3),
        1..=LONGEST,
    );
    let spec = spec.prop_map(|(after, priority, project, batch, tags, areas, ticks)| Spec {
        after,
        priority,
        project,
        batch,
        tags: texts(&tags),
        areas,
        ticks,
    });
    vec(spec, 1..40)
}

fn systems() -> impl Strategy<Value = System> {
    let worker = |name: &'static str| {
        let capabilities = btree_set(select(&["code", "ci", "gpu"][..]), 0..3);
        (capabilities, 1..3_u32, 1..4_u32, any::<bool>()).prop_map(
            move |(capabilities, cost, max_concurrent, shares)| {
                let words: Vec<&str> = capabilities.into_iter().collect();
                let base = worker(name, &words);
                let account = if shares { "shared".to_owned() } else { base.account.clone() };
                Worker { cost, max_concurrent, account, ..base }
            },
        )
    };
    let node = move |name: &'static str| {
        (1..5_u32, worker("ann"), worker("bob")).prop_map(move |(capacity, ann, bob)| Node {
            name: name.to_owned(),
            capacity,
            workers: vec![ann, bob],
        })
    };
    let bounds = (option::of(1..6_u32), option::of(1..3_u32), 1..4_u32, option::of(0..6_i64));
    (node("n1"), node("n2"), bounds).prop_map(
        |(one, two, (limit, account_limit, concurrency, batch_runs))| System {
            nodes: vec![one, two],
            limit,
            account_limit,
            concurrency,
            batch_runs,
        },
    )
}

fn lifecycle() -> Lifecycle {
    builtin::get("judged", &Overrides::new()).expect("it is in the list").expect("it is valid")
}

/// Only the registry and the batch's budget may keep a task out for good, and while anything can
/// run, something does: so the last task has started after as many ticks as all of them take
/// together.
#[test]
fn bounds_hold_and_every_task_that_can_run_gets_its_turn() {
    let lifecycle = lifecycle();
    over_random(&(systems(), specs()), |(system, specs)| {
        let mut simulation = Simulation::new(&system);
        for (spec, number) in specs.iter().zip(1..) {
            for _ in 0..spec.after {
                simulation.ticks()?;
            }
            simulation.arrives(&lifecycle, number, spec);
        }
        let longest: usize = specs.iter().map(|spec| spec.ticks).sum();
        simulation.runs_out(longest + 1)?;
        prop_assert!(simulation.running.is_empty());
        let can = |spec: &Spec| {
            let workers = || system.nodes.iter().flat_map(|node| &node.workers);
            let needs: Vec<&str> = spec
                .tags
                .iter()
                .filter_map(|tag| match tag.strip_prefix("needs:") {
                    Some(word) => Some(word),
                    None => workers().any(|w| w.capabilities.contains(tag)).then_some(tag),
                })
                .collect();
            workers().any(|worker| needs.iter().all(|need| worker.capabilities.contains(*need)))
        };
        let used_up = system.batch_runs.is_some_and(|most| simulation.batch_started == most);
        for left in &simulation.queue {
            let out_of_budget = left.spec.batch.is_some() && used_up;
            prop_assert!(!can(&left.spec) || out_of_budget, "{} never started", left.id);
        }
        Ok(())
    });
}

/// Tasks keep arriving, many want several areas, and there are workers for all: the first task in
/// the queue starts when the runs in its areas have ended, so no task waits longer than those
/// before it take.
#[test]
fn nobody_waits_for_ever_while_others_keep_coming() {
    let lifecycle = lifecycle();
    let stream = vec((-1..2_i32, areas(3), 1..=LONGEST), 40..70);
    over_random(&(1..6_u32, stream), |(capacity, stream)| {
        let ann = Worker { max_concurrent: 9, ..worker("ann", &[]) };
        let system = System {
            nodes: vec![Node { name: "n1".to_owned(), capacity, workers: vec![ann] }],
            limit: None,
            account_limit: None,
            concurrency: 1,
            batch_runs: None,
        };
        let mut simulation = Simulation::new(&system);
        for ((priority, areas, ticks), number) in stream.iter().zip(1..) {
            let spec = Spec {
                after: 1,
                priority: *priority,
                project: "shop",
                batch: None,
                tags: Vec::new(),
                areas: areas.clone(),
                ticks: *ticks,
            };
            simulation.arrives(&lifecycle, number, &spec);
            simulation.ticks()?;
        }
        simulation.runs_out(stream.len() * LONGEST)?;
        prop_assert_eq!(simulation.turns.len(), stream.len());
        for turn in &simulation.turns {
            let overtakes =
                |other: &&Turn| other.place < turn.place && other.started >= turn.arrived;
            let before = simulation.turns.iter().filter(overtakes).count();
            // A late arrival with a better rank costs its own turn and the wait that had begun for
            // another.
            let most = (2 * before + 1) * LONGEST;
            prop_assert!(
                turn.started - turn.arrived <= most,
                "{} > {most}",
                turn.started - turn.arrived
            );
        }
        Ok(())
    });
}

/// Tasks in `web` and in `docs` take turns so that one of them is always running. A task that needs
/// both gets its turn anyway, because its areas are reserved.
#[test]
fn a_task_with_two_areas_is_not_starved_by_those_with_one() {
    let lifecycle = lifecycle();
    let system = System {
        nodes: vec![Node {
            name: "n1".to_owned(),
            capacity: 4,
            workers: vec![Worker { max_concurrent: 4, ..worker("ann", &[]) }],
        }],
        limit: None,
        account_limit: None,
        concurrency: 1,
        batch_runs: None,
    };
    let spec = |paths: &[&str]| Spec {
        after: 0,
        priority: 0,
        project: "shop",
        batch: None,
        tags: Vec::new(),
        areas: paths.iter().map(|path| Area((*path).to_owned())).collect(),
        ticks: 2,
    };
    let mut simulation = Simulation::new(&system);
    let mut started = BTreeMap::new();
    let (both, at) = (TaskId(1_000), 20);
    for number in 1..=100 {
        let path = if number % 2 == 0 { "path:web" } else { "path:docs" };
        simulation.arrives(&lifecycle, number, &spec(&[path]));
        if number == at {
            simulation.arrives(&lifecycle, both.0, &spec(&["path:web", "path:docs"]));
        }
        simulation.ticks().expect("it keeps every bound");
        for (run, _) in &simulation.running {
            started.entry(run.task).or_insert(simulation.tick);
        }
    }
    let waited = started.get(&both).map(|tick| *tick as i64 - at);
    assert!(waited.is_some_and(|ticks| ticks <= 2), "{waited:?}");
}

/// The reasons explain the pass: the task behind is told which task it waits for.
#[test]
fn the_one_behind_is_told_whom_the_area_is_promised_to() {
    let area = || vec![Area("path:web".to_owned())];
    let ann = [worker("ann", &[])];
    let run = Running { areas: area(), ..crate::world::run(7, "bob") };
    let mut load = Load { capacity: 4, running: vec![run], ..Load::default() };
    let roles = texts(&["agent"]);
    let wide: Vec<Area> = [area(), vec![Area("path:docs".to_owned())]].concat();
    let candidate = |task, areas| Candidate {
        task: TaskId(task),
        project: "shop",
        batch: None,
        tags: &[],
        roles: &roles,
        assignees: &[],
        lanes: &roles,
        model: None,
        areas,
        spent: Used::default(),
        budget: Budget::default(),
    };
    let first = candidate(8, &wide);
    let held = choose(&first, &load, &ann, &ann, Instant(0)).expect_err("its area is taken");
    load.reserve_areas(&first, &held);
    let docs = [wide[1].clone()];
    let behind = choose(&candidate(9, &docs), &load, &ann, &ann, Instant(0));
    assert_eq!(
        behind,
        Err(vec![Ineligible::AreaReserved { area: docs[0].clone(), to: TaskId(8) }])
    );
}
