//! One life of the whole system under one seed: nodes that pulse, time that passes, people who
//! interfere, and faults; then calm, in which everything has to come to rest.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use banksman::engine::{Engine, EngineConfig, TurnReport};
use banksman::store::{Dispatch, StoreError, Stored};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::StateKind;
use banksman_core::time::{Instant, Span};
use sha2::{Digest, Sha256};

use super::always::Memory;
use super::chance::Chance;
use super::clocks::Clocks;
use super::ground::Ground;
use super::job::Key;
use super::people;
use super::script::Doing;
use super::setup::{Ledger, Rules, task, worker};
use super::site::{Calls, Crash, How, SimProjects, SimSite};

/// When every life begins.
const NOON: Instant = Instant(1_707_739_200_000);
/// Clocks have a chance of their own, so that they do not change what else happens in a life.
const CLOCKS: u64 = 0x0063_6c6f_636b_7321;
const DAY: Span = Span(86_400_000);
/// Rounds in which calm has to come to rest.
const ROUNDS: usize = 1_500;
/// Whole histories are gone through after so many steps.
const THOROUGH: usize = 16;
/// Pulses that may follow each other without time between them.
const IN_A_ROW: usize = 12;
/// Once it is calm, people answer everything after so many rounds, and from one on nothing any
/// more.
const ANSWERS: usize = 6;
const ANSWERED: usize = 200;

/// Where an engine fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// At a call to the outside.
    Call(u32, How),
    /// After so many rows were written.
    Write(u32),
}

/// How wild a life is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) seed: u64,
    pub(super) tasks: usize,
    pub(super) steps: usize,
    /// At the pulse of this number, counted over the whole life.
    pub(super) fault: Option<(usize, Fault)>,
    /// Whether faults and people come by chance.
    pub(super) is_wild: bool,
}

impl Shape {
    pub(super) fn wild(seed: u64) -> Self {
        Self { seed, tasks: 6, steps: 90, fault: None, is_wild: true }
    }
}

/// What came of a life.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Story {
    pub(super) broken: Vec<String>,
    pub(super) trace: Vec<String>,
    /// Over all that happened and all histories.
    pub(super) digest: String,
    /// Calls and written rows of each pulse, for those who want to disturb each of them.
    pub(super) calls: Vec<u32>,
    pub(super) runs: usize,
    pub(super) done: usize,
    /// What came about in it.
    pub(super) seen: BTreeSet<&'static str>,
}

pub(super) struct Node {
    pub(super) terms: EngineConfig,
    site: SimSite,
}

impl Node {
    pub(super) fn request(&self) -> Dispatch {
        let agents = &self.terms.agents;
        Dispatch {
            node: agents.node.clone(),
            workers: self.terms.workers.iter().map(|setup| setup.worker.clone()).collect(),
            capacity: agents.limits.agents,
            limit: agents.limits.total,
            account_limits: agents.accounts.clone(),
            lanes: agents.lanes.clone(),
            day_budget: agents.budgets.day,
            task_budget: agents.budgets.task,
            ttl: agents.limits.lease,
            token: None,
        }
    }
}

pub(super) struct Life {
    shape: Shape,
    pub(super) ledger: Ledger,
    pub(super) ground: Rc<RefCell<Ground>>,
    pub(super) nodes: Vec<Node>,
    pub(super) rules: Rules,
    pub(super) memory: Memory,
    /// Tasks that a worker from outside has taken, which the bounds of nodes do not hold back.
    pub(super) had_outsider: BTreeSet<TaskId>,
    projects: SimProjects,
    calls: Rc<Calls>,
    tasks: Vec<TaskId>,
    outsider: Vec<RunId>,
    pulses: Vec<u32>,
    steps: usize,
    /// Pulses at one moment.
    in_a_row: usize,
}

/// What can happen at one step.
#[derive(Debug, Clone, Copy)]
enum Act {
    Pulse,
    Pass,
    Sleep,
    Person,
    Switch,
    Add,
    Cut,
    Reboot,
    KillKeeper,
    Crane,
    OutsiderClaims,
    OutsiderEnds,
}

const ACTS: &[(usize, Act)] = &[
    (44, Act::Pulse),
    (27, Act::Pass),
    (1, Act::Sleep),
    (9, Act::Person),
    (4, Act::Switch),
    (4, Act::Add),
    (4, Act::Cut),
    (1, Act::Reboot),
    (3, Act::KillKeeper),
    (1, Act::Crane),
    (2, Act::OutsiderClaims),
    (2, Act::OutsiderEnds),
];
const TAME_ACTS: &[(usize, Act)] = &[(2, Act::Pulse), (1, Act::Pass)];

impl Life {
    fn new(shape: Shape) -> Self {
        let mut chance = Chance::new(shape.seed);
        let nodes = 1 + chance.below(3);
        let rules = Rules::draw(&mut chance);
        let calls = Rc::new(Calls::default());
        let terms: Vec<EngineConfig> =
            (0..nodes).map(|node| rules.terms(node, &mut chance)).collect();
        let mut of_clocks = Chance::new(shape.seed ^ CLOCKS);
        let clocks = Clocks::draw(&mut of_clocks, nodes, NOON);
        let ground = Rc::new(RefCell::new(Ground::new(chance, clocks, NOON, nodes)));
        let site = |node| SimSite { node, ground: Rc::clone(&ground), calls: Rc::clone(&calls) };
        let nodes = terms.into_iter().enumerate();
        let nodes = nodes.map(|(number, terms)| Node { terms, site: site(number) }).collect();
        Self {
            shape,
            ledger: Ledger::new(),
            nodes,
            memory: Memory::default(),
            had_outsider: BTreeSet::new(),
            projects: SimProjects { agents: rules.agents(0, 1), calls: Rc::clone(&calls) },
            rules,
            ground,
            calls,
            tasks: Vec::new(),
            outsider: Vec::new(),
            pulses: Vec::new(),
            steps: 0,
            in_a_row: 0,
        }
    }

    fn note(&self, line: &str) {
        self.ground.borrow_mut().note(line);
    }

    fn is_broken(&self) -> bool {
        !self.ground.borrow().broken.is_empty()
    }

    pub(super) fn number_of(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|known| known.terms.agents.node == node)
    }

    /// Chance by itself, so that what it is asked for may use the ground.
    fn chance<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.ground.borrow_mut().chance)
    }

    /// The time of the store, which everybody goes by who writes to it.
    pub(super) fn now(&self) -> Instant {
        self.ground.borrow().store_now()
    }

    fn step(&mut self) {
        let acts = if self.shape.is_wild { ACTS } else { TAME_ACTS };
        let act = self.chance(|chance| chance.weighted(acts));
        let done = self.act(act);
        match done {
            Ok(line) => self.note(&line),
            Err(error) => self.ground.borrow_mut().breaks(format!("{act:?} failed: {error}")),
        }
        self.steps += 1;
        let is_thorough = self.steps.is_multiple_of(THOROUGH);
        self.look(is_thorough);
    }

    fn act(&mut self, act: Act) -> Result<String, StoreError> {
        let (store, now) = (self.ledger.store.clone(), self.now());
        match act {
            Act::Pulse => {
                let node = self.chance(|chance| chance.below(64)) % self.nodes.len();
                Ok(self.pulse_by_chance(node))
            }
            Act::Pass => {
                let to = self.soon();
                self.ground.borrow_mut().advance(to, &store);
                Ok("time passes".to_owned())
            }
            Act::Sleep => {
                // A machine that sleeps does nothing on time when it wakes.
                self.ground.borrow_mut().sleep(Span(2 * 3_600_000));
                Ok("all machines have slept".to_owned())
            }
            Act::Person => {
                let mut chance = self.ground.borrow().chance.clone();
                let id = self.of_interest(&mut chance);
                let done = people::person_moves(&store, id, &mut chance, now);
                self.ground.borrow_mut().chance = chance;
                done
            }
            Act::Switch => self.chance(|chance| people::person_switches(&store, chance, now)),
            Act::Add => self.add(),
            Act::Cut => Ok(self.cut()),
            Act::Reboot => Ok(self.reboot()),
            Act::KillKeeper => Ok(self.kill_keeper()),
            Act::Crane => Ok(self.change_workers()),
            Act::OutsiderClaims => {
                let done = people::outsider_claims(&store, &mut self.outsider, now);
                self.had_outsider.extend(self.outsider.iter().map(|run| run.task));
                self.look_at_claims();
                done
            }
            Act::OutsiderEnds => people::outsider_ends(&store, &mut self.outsider, now),
        }
    }

    /// People like to interfere with what is under way.
    fn of_interest(&self, chance: &mut Chance) -> TaskId {
        let ground = self.ground.borrow();
        let live = ground.jobs.iter().filter(|(_, job)| job.is_live() && job.doing != Doing::Agent);
        let live: Vec<TaskId> = live.map(|((_, id), _)| id.task()).collect();
        if !live.is_empty() && chance.percent(40) {
            return *chance.pick(&live);
        }
        // Subtasks of a plan are tasks like any other; reviewers of a panel are left alone.
        let all = self.ledger.store.tasks_from(TaskId(0)).expect("the tasks are read");
        let all = all.iter().map(|(stored, _)| stored);
        let all: Vec<&Stored> = all.filter(|stored| stored.lifecycle.id != "review").collect();
        let asked = all.iter().filter(|stored| asks(stored)).map(|stored| stored.task.id);
        let asked: Vec<TaskId> = asked.collect();
        if !asked.is_empty() && chance.percent(40) {
            return *chance.pick(&asked);
        }
        chance.pick(&all).task.id
    }

    fn add(&mut self) -> Result<String, StoreError> {
        let now = self.now();
        let add = self.chance(|chance| task(chance, &self.tasks, now));
        let name = add.definition.lifecycle.id.clone();
        let id = self.ledger.store.add(add, now)?.stored.task.id;
        self.tasks.push(id);
        Ok(format!("kim adds {id} ({name})"))
    }

    /// The next event, or some time before or after it.
    fn soon(&self) -> Instant {
        let mut ground = self.ground.borrow_mut();
        let (now, next) = (ground.now, ground.next_event());
        match ground.chance.below(4) {
            0 => now.plus(ground.chance.seconds(0, 5)),
            1 => now.plus(ground.chance.seconds(5, 120)),
            2 => now.plus(ground.chance.seconds(60, 900)),
            _ => next.unwrap_or_else(|| now.plus(Span(60_000))),
        }
    }

    /// A node loses its way to the store, or finds it again.
    fn cut(&mut self) -> String {
        let mut ground = self.ground.borrow_mut();
        let nodes = ground.reaches.len();
        let node = ground.chance.below(nodes);
        // Most of the time the way is there.
        ground.reaches[node] = !ground.reaches[node] || ground.chance.percent(50);
        format!("node {node} reaches the store: {}", ground.reaches[node])
    }

    fn reboot(&mut self) -> String {
        let mut ground = self.ground.borrow_mut();
        let nodes = ground.reaches.len();
        let node = ground.chance.below(nodes);
        let live = ground.jobs.iter().filter(|((at, _), job)| *at == node && job.is_live());
        let live: Vec<Key> = live.map(|(key, _)| *key).collect();
        for key in live {
            ground.lose_keeper(key, false);
        }
        format!("node {node} has started again")
    }

    fn kill_keeper(&mut self) -> String {
        let mut ground = self.ground.borrow_mut();
        let live = ground.jobs.iter().filter(|(_, job)| job.is_live());
        let live: Vec<Key> = live.map(|(key, _)| *key).collect();
        if !live.is_empty() {
            let key = *ground.chance.pick(&live);
            ground.lose_keeper(key, true);
        }
        "somebody kills a keeper".to_owned()
    }

    /// The first node gets a worker with a crane, or loses it.
    fn change_workers(&mut self) -> String {
        let workers = &mut self.nodes[0].terms.workers;
        let had = workers.len();
        workers.retain(|setup| setup.worker.name != "eve");
        if workers.len() == had {
            workers.push(worker("eve", "codex", "plan-c", &["code", "crane", "docs"]));
        }
        "the workers of node 0 have changed".to_owned()
    }

    fn pulse_by_chance(&mut self, node: usize) -> String {
        if !self.ground.borrow().reaches[node] {
            return format!("node {node} cannot pulse");
        }
        let planned = self.shape.fault.filter(|(at, _)| *at == self.pulses.len());
        let by_chance = self.shape.is_wild && self.chance(|chance| chance.percent(30));
        let fault = match planned {
            Some((_, fault)) => Some(fault),
            None if by_chance => Some(self.chance(|chance| {
                let at = u32::try_from(chance.below(14)).expect("a small number");
                if chance.percent(50) {
                    Fault::Write(at)
                } else {
                    Fault::Call(at, *chance.pick(&How::ALL))
                }
            })),
            None => None,
        };
        self.pulse(node, fault)
    }

    /// One turn of a node's engine, cut off if there is a fault. An engine has no memory, so the
    /// next one is a new one.
    fn pulse(&mut self, node: usize, fault: Option<Fault>) -> String {
        let (now, before) = (self.now(), self.before());
        let unreadable = self.ground.borrow().unreadable(node);
        let (call, write) = match fault {
            Some(Fault::Call(at, how)) => (Some((at, how)), None),
            Some(Fault::Write(at)) => (None, Some(at)),
            None => (None, None),
        };
        self.calls.arm(call);
        if write.is_some() {
            self.ledger.fail_after(write);
        }
        let here = &self.nodes[node];
        let engine = Engine::new(&self.ledger.store, &here.site, &self.projects, &here.terms);
        let pulsed = catch_unwind(AssertUnwindSafe(|| engine.pulse(now)));
        let mut has_failed = self.calls.has_failed();
        has_failed |= std::mem::take(&mut self.ground.borrow_mut().no_keepers);
        if write.is_some() {
            has_failed |= matches!(pulsed, Ok(Err(_)));
            self.ledger.fail_after(None);
        }
        self.look_at_claims();
        self.pulses.push(self.calls.made());
        self.calls.arm(None);

        match pulsed {
            Err(panic) if panic.is::<Crash>() => format!("node {node} crashes: {fault:?}"),
            Err(panic) => resume_unwind(panic),
            Ok(Err(_)) if has_failed => format!("node {node} fails: {fault:?}"),
            Ok(Err(error)) => {
                let what = format!("the pulse of node {node} failed without a fault: {error:?}");
                self.ground.borrow_mut().breaks(what);
                String::new()
            }
            Ok(Ok(pulse)) => {
                if !has_failed {
                    if pulse.faults > unreadable {
                        let what = format!("node {node} has faults of its own: {pulse:?}");
                        self.ground.borrow_mut().breaks(what);
                    }
                    self.look_at_pulse(node, &before, &pulse, now);
                }
                let line = told(node, &pulse);
                let name = &self.nodes[node].terms.agents.node;
                let next = self.ledger.store.next_work(name, now).expect("the times are read");
                // An engine asks for a short sleep before it looks again at what is overdue.
                if fault.is_none() && next.is_some_and(|next| next <= now) {
                    self.pulse_until_quiet(node, &line)
                } else {
                    line
                }
            }
        }
    }

    /// What a turn starts may give the next one something to do at once, but not for ever: `up`
    /// would use all it can get.
    fn pulse_until_quiet(&mut self, node: usize, line: &str) -> String {
        self.note(line);
        self.in_a_row += 1;
        if self.in_a_row > IN_A_ROW {
            let what = format!("node {node} pulses without a pause");
            self.ground.borrow_mut().breaks(what);
            return String::new();
        }
        let line = self.pulse(node, None);
        self.in_a_row = 0;
        line
    }

    /// A node that was away for long finds worktrees that nobody else could take away.
    fn sweep(&self) {
        self.ground.borrow_mut().is_swept = true;
        for here in &self.nodes {
            let engine = Engine::new(&self.ledger.store, &here.site, &self.projects, &here.terms);
            engine.sweep(self.now()).expect("nothing fails any more");
        }
    }

    /// Faults are over and everybody is there; everything has to come to rest.
    fn calm_down(&mut self) -> Result<(), StoreError> {
        let store = self.ledger.store.clone();
        self.note("calm");
        {
            let mut ground = self.ground.borrow_mut();
            ground.is_calm = true;
            ground.reaches.fill(true);
        }
        people::person_resumes_all(&store, self.now())?;
        let mut idle_days = 0;
        let mut is_swept = false;
        for round in 1..ROUNDS {
            if round < ANSWERED && round.is_multiple_of(ANSWERS) {
                self.answer_all()?;
            }
            for node in 0..self.nodes.len() {
                let line = self.pulse(node, None);
                self.note(&line);
            }
            self.take_back()?;
            self.look(false);
            if self.is_broken() {
                return Ok(());
            }
            let next = [self.ground.borrow().next_event(), self.next_work()?];
            let now = self.ground.borrow().now;
            let to = match next.into_iter().flatten().min() {
                Some(next) => next.max(now.plus(Span(1_000))),
                // Budgets of a day come back with the next one.
                None if idle_days < 3 => {
                    idle_days += 1;
                    now.plus(DAY)
                }
                None if !is_swept => {
                    is_swept = true;
                    self.sweep();
                    now.plus(Span(1_000))
                }
                None => {
                    self.look_at_rest();
                    return Ok(());
                }
            };
            self.ground.borrow_mut().advance(to, &store);
        }
        self.ground.borrow_mut().breaks("it does not come to rest".to_owned());
        Ok(())
    }

    /// Some are in time, and some come when the work has landed and nobody knows.
    fn take_back(&mut self) -> Result<(), StoreError> {
        let store = self.ledger.store.clone();
        for (stored, _) in store.tasks_from(TaskId(0))? {
            let is_in = self.ground.borrow().forge.is_in(stored.task.id);
            let comes_late = (stored.task.id.0 / 2) % 2 == 0;
            if comes_late != is_in {
                continue;
            }
            if let Some(line) = people::person_takes_back(&store, &stored, self.now())? {
                self.note(&line);
                self.look(false);
            }
        }
        Ok(())
    }

    fn answer_all(&mut self) -> Result<(), StoreError> {
        let store = self.ledger.store.clone();
        for (stored, _) in store.tasks_from(TaskId(0))? {
            if let Some(line) = people::person_says_yes(&store, stored.task.id, self.now())? {
                self.note(&line);
                self.look(false);
            }
        }
        Ok(())
    }

    /// When the first of the nodes has something to do. It sleeps so long as the store's clock
    /// says, and sees then.
    fn next_work(&self) -> Result<Option<Instant>, StoreError> {
        let mut first = None;
        let (now, store_now) = (self.ground.borrow().now, self.now());
        for node in &self.nodes {
            let next = self.ledger.store.next_work(&node.terms.agents.node, store_now)?;
            let next = next.map(|next| now.plus(next.since(store_now)));
            first = [first, next].into_iter().flatten().min();
        }
        Ok(first)
    }

    fn tell(self) -> Story {
        let report = self.ledger.store.verify_history().expect("the histories are read");
        let overview = self.ledger.store.overview().expect("the overview is read");
        let done = overview.states.iter().filter(|count| count.kind == "done");
        let done = done.map(|count| usize::try_from(count.tasks).expect("a count")).sum();
        let ground = self.ground.borrow();
        let mut digest = Sha256::new();
        for line in &ground.trace {
            digest.update(line.as_bytes());
        }
        digest.update(report.digest.as_bytes());
        let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Story {
            broken: ground.broken.clone(),
            trace: ground.trace.clone(),
            digest,
            runs: ground.jobs.len(),
            calls: self.pulses.clone(),
            done,
            seen: ground.seen.clone(),
        }
    }
}

/// Whether people are asked about it.
fn asks(stored: &Stored) -> bool {
    matches!(
        stored.lifecycle.state(stored.task.state).kind,
        StateKind::Waiting | StateKind::Blocked
    )
}

fn told(node: usize, pulse: &TurnReport) -> String {
    let ended: Vec<String> = pulse.ended.iter().map(|(id, how)| format!("{id} {how}")).collect();
    let started: Vec<String> = pulse.started.iter().map(|(id, _)| id.to_string()).collect();
    format!(
        "node {node} pulses: ended {ended:?}, started {started:?}, recovered {}, {} timers, {} effects",
        pulse.recovered.len(),
        pulse.timers,
        pulse.effects
    )
}

/// Lives a whole life, or until the first thing that must never be.
pub(super) fn live(shape: Shape) -> Story {
    let mut life = Life::new(shape);
    for _ in 0..shape.tasks {
        match life.add() {
            Ok(line) => life.note(&line),
            Err(error) => life.ground.borrow_mut().breaks(format!("adding failed: {error}")),
        }
    }
    for _ in 0..shape.steps {
        if life.is_broken() {
            return life.tell();
        }
        life.step();
    }
    if !life.is_broken()
        && let Err(error) = life.calm_down()
    {
        life.ground.borrow_mut().breaks(format!("the store failed in calm: {error}"));
    }
    life.look(true);
    life.tell()
}
