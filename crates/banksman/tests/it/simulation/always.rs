//! What is always true, looked at after every step. Each rule is one function and says in words
//! what it has found.

use std::collections::{BTreeMap, BTreeSet};

use banksman::engine::TurnReport;
use banksman::exec::job::JobId;
use banksman::store::{HistoryEntry, OpenRun, Store, Stored};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::{Activity, EntryEffect, Lifecycle, Outcome, Route};
use banksman_core::machine::{WaitsFor, waits_for};
use banksman_core::receipt::Receipt;
use banksman_core::schedule::{Area, Budget, Ineligible, areas, overlap};
use banksman_core::time::{Instant, Span};

use super::ground::Ground;
use super::job::Phase;
use super::life::Life;
use super::script::{Doing, marks};
use super::setup::EffectRow;

/// What the engine says about an activity that has lost its keeper too often, and how often that
/// is.
const GAVE_UP: &str = "its keeper was lost 5 times";
const ATTEMPTS: u32 = 5;

/// The longest that anything in the outbox waits for its next look.
const PUT_OFF: Span = Span(200_000);

/// States in which a job proves or merges the work, and the triggers that only such a job gives.
const PROVING: [&str; 5] = [
    "checking",
    "merging",
    "merge_ready(approved)",
    "merge_ready(merging)",
    "merge_ready(taking_back)",
];
const RESULTS: [&str; 6] =
    ["passed", "merged", "rework", "branch_merged", "merge_begun", "taken_back"];
/// What is said about a job that was stopped, which must not count against the stay after it.
const STOPPED: &str = "it was stopped";

/// What was seen of a task's history so far.
#[derive(Debug, Default)]
struct Read {
    upto: i64,
    /// Who holds the lease, by the history.
    holder: Option<RunId>,
    told: BTreeSet<RunId>,
    /// The record by which it came into its state.
    entered: i64,
}

/// What the rules remember from step to step.
#[derive(Debug, Default)]
pub(super) struct Memory {
    read: BTreeMap<TaskId, Read>,
    areas: BTreeMap<RunId, Vec<Area>>,
    /// Every run that was seen.
    pub(super) claimed: BTreeSet<RunId>,
    /// The store as it was at the last look.
    changes: i64,
}

/// What a pulse is compared with.
pub(super) struct Before {
    runs: BTreeSet<RunId>,
    is_paused: bool,
    /// The record by which each task came into its state.
    entered: BTreeMap<TaskId, i64>,
}

impl Life {
    pub(super) fn before(&self) -> Before {
        let open = self.ledger.store.open_runs(None).expect("the runs are read");
        let runs = open.iter().map(|open| open.run).collect();
        let tasks = self.ledger.store.tasks_from(TaskId(0)).expect("the tasks are read");
        let entered = tasks.iter().map(|(stored, _)| (stored.task.id, stored.task.entered));
        let is_paused = self.ledger.store.overview().expect("the switch is read").paused;
        Before { runs, is_paused, entered: entered.collect() }
    }

    /// Everything that must hold at any moment. The whole histories are gone through only now and
    /// then.
    pub(super) fn look(&mut self, is_thorough: bool) {
        let changes = self.ledger.changes();
        if std::mem::replace(&mut self.memory.changes, changes) == changes && !is_thorough {
            return;
        }
        let store = self.ledger.store.clone();
        let mut found = Vec::new();
        let report = store.check().expect("the check runs");
        found.extend(report.findings.iter().map(|found| format!("{}: {}", found.task, found.what)));
        found.extend(report.faults);
        if is_thorough {
            let report = store.verify_history().expect("the histories are read");
            found.extend(report.findings.iter().map(|bad| format!("{}: {}", bad.task, bad.what)));
        }
        let tasks = store.tasks_from(TaskId(0)).expect("the tasks are read");
        let tasks: Vec<Stored> = tasks.into_iter().map(|(stored, _)| stored).collect();
        for stored in &tasks {
            self.stale_words(stored, &mut found);
        }
        self.limits(&tasks, &mut found);
        self.starts(&tasks, &mut found);
        self.records(&tasks, &mut found);
        self.parents(&tasks, &mut found);
        self.look_at_questions();
        let mut ground = self.ground.borrow_mut();
        for what in found {
            ground.breaks(what);
        }
    }

    /// The result of a run that has no lease never changes a task: its words are not in the
    /// history.
    fn stale_words(&mut self, stored: &Stored, found: &mut Vec<String>) {
        let read = self.memory.read.entry(stored.task.id).or_default();
        if read.upto == stored.task.version {
            return;
        }
        let records = self.ledger.store.history(stored.task.id, read.upto).expect("it is read");
        for entry in records {
            let fields = &entry.record.fields;
            let text = serde_json::to_string(fields).expect("it is JSON");
            for run in marks(&text).filter(|run| !read.told.contains(run)).collect::<Vec<_>>() {
                // What a reviewer said comes from its own review, whose history is held to the
                // same rule.
                let is_of_a_review = run.task != stored.task.id
                    && self
                        .ledger
                        .store
                        .task(run.task)
                        .is_ok_and(|review| review.task.parent == Some(stored.task.id));
                if read.holder != Some(run) && !is_of_a_review {
                    found.push(format!("record {} has words of {run} without a lease", entry.seq));
                }
                read.told.insert(run);
            }
            if text.contains(GAVE_UP) && !had_its_attempts(&self.ground.borrow(), stored) {
                found.push(format!("record {} gives a job up too early", entry.seq));
            }
            if let Some(lease) = fields.get("lease") {
                let taken = lease.as_str().and_then(|run| run.parse().ok());
                if let (Some(old), Some(new)) = (read.holder, taken)
                    && old != new
                {
                    found.push(format!("{new} has got the lease while {old} had it"));
                }
                read.holder = taken;
            }
            let (from, to) = (entry.record.from.as_deref(), entry.record.to.as_str());
            let is_result =
                RESULTS.contains(&entry.record.trigger.as_str()) || text.contains(STOPPED);
            let ground = self.ground.borrow();
            if from.is_some_and(|from| PROVING.contains(&from))
                && is_result
                && !has_ended(&ground, stored.task.id, read.entered)
            {
                found.push(format!("record {} has the result of an earlier stay", entry.seq));
            }
            let says_merged =
                from.is_some_and(|from| is_merged(&stored.lifecycle, from, &entry.record.trigger));
            if says_merged && !ground.forge.is_in(stored.task.id) {
                found.push(format!("record {} says merged, and the work is not there", entry.seq));
            }
            drop(ground);
            found.extend(taken_back(&mut self.ground.borrow_mut(), stored, &entry));
            if from != Some(to) {
                read.entered = entry.seq;
            }
            read.upto = entry.seq;
        }
        if read.holder != stored.task.run() {
            found.push(format!("{}: its history gives the lease to another", stored.task.id));
        }
    }

    /// Nothing runs beyond a bound: of everything, a node, a worker, an account; and no areas meet.
    fn limits(&mut self, tasks: &[Stored], found: &mut Vec<String>) {
        let open = self.ledger.store.open_runs(None).expect("the runs are read");
        let ours: Vec<&OpenRun> = open.iter().filter(|open| open.node.is_some()).collect();
        let mut bound = |what: String, count: usize, most: u32| {
            if count > most as usize {
                found.push(format!("{count} runs of {what}, where {most} may be"));
            }
        };
        bound("all nodes".to_owned(), ours.len(), self.rules.total);
        for node in &self.nodes {
            let agents = &node.terms.agents;
            let here = |open: &&&OpenRun| open.node.as_deref() == Some(agents.node.as_str());
            bound(agents.node.clone(), ours.iter().filter(here).count(), agents.limits.agents);
            for setup in &node.terms.workers {
                let name = &setup.worker.name;
                let of = ours.iter().filter(here).filter(|open| open.worker == *name).count();
                bound(format!("{name} on {}", agents.node), of, setup.worker.max_concurrent);
            }
        }
        for (account, most) in &self.rules.accounts {
            let of = ours.iter().filter(|open| open.account.as_ref() == Some(account)).count();
            bound(account.clone(), of, *most);
        }
        for stored in tasks.iter().filter(|stored| stored.task.spent.runs > self.rules.task_runs) {
            // A person may have given it as much again.
            let limit = Budget { runs: Some(self.rules.task_runs), ..Budget::default() };
            let limit = self.ledger.store.task_budget(stored.task.id, limit).expect("a task");
            let most = limit.runs.expect("it has a limit");
            if stored.task.spent.runs > most && !self.had_outsider.contains(&stored.task.id) {
                found.push(format!("{} has had more runs than its budget", stored.task.id));
            }
        }
        self.areas(&ours, tasks, found);
    }

    fn areas(&mut self, ours: &[&OpenRun], tasks: &[Stored], found: &mut Vec<String>) {
        // The areas of a run are those of the moment of its claim.
        let mut now: BTreeMap<RunId, Vec<Area>> = BTreeMap::new();
        for open in ours {
            let Some(stored) = tasks.iter().find(|stored| stored.task.id == open.run.task) else {
                continue;
            };
            let target = stored.task.fields.get("target_area").and_then(|area| area.as_str());
            let known = self.memory.areas.remove(&open.run);
            let held = known.unwrap_or_else(|| areas(target, &[], &[]));
            for (other, theirs) in &now {
                let same = tasks.iter().any(|task| {
                    task.task.id == other.task && task.task.project == stored.task.project
                });
                if let Some(area) = overlap(&held, theirs).filter(|_| same) {
                    found.push(format!("{} and {other} both hold {}", open.run, area.0));
                }
            }
            now.insert(open.run, held);
        }
        self.memory.areas = now;
    }

    /// What the outside is to do about a state stays in the outbox until the state is left.
    fn starts(&self, tasks: &[Stored], found: &mut Vec<String>) {
        let pending = self.ledger.outbox();
        let latest = self.now().plus(PUT_OFF).plus(self.ground.borrow().clocks.set_back());
        for &EffectRow { task, seq, is_start, attempts, due_at } in &pending {
            let id =
                if is_start { JobId::Activity { task, seq } } else { JobId::CleanUp { task, seq } };
            let begins = self.ground.borrow().begins.get(&id).copied().unwrap_or_default();
            if attempts > begins {
                found.push(format!(
                    "{attempts} attempts at {id} are counted, and {begins} were made"
                ));
            }
            if due_at > latest {
                found.push(format!("{id} is put off until {due_at}"));
            }
        }
        for stored in tasks {
            let task = &stored.task;
            let does = stored.lifecycle.state(task.state).does.as_ref();
            let is_awaited = does.is_some_and(|does| match does.activity {
                Activity::Check | Activity::Merge | Activity::Wait => true,
                Activity::Agent
                | Activity::Panel
                | Activity::Human
                | Activity::PullRequest
                | Activity::Capture => false,
            });
            let is_there = pending
                .iter()
                .any(|row| row.is_start && row.task == task.id && row.seq >= task.entered);
            if is_awaited && !is_there {
                let name = &stored.lifecycle.state(task.state).name;
                found.push(format!("{} is in {name}, and nobody is to do that", task.id));
            }
        }
    }

    /// A job is put away when its end is on record, and not before.
    fn records(&self, tasks: &[Stored], found: &mut Vec<String>) {
        let ground = self.ground.borrow();
        let away = ground.jobs.iter().filter(|(_, job)| matches!(job.phase, Phase::PutAway(_)));
        for ((_, id), job) in away {
            let Some(stored) = tasks.iter().find(|stored| stored.task.id == id.task()) else {
                continue;
            };
            let is_awaited = match *id {
                JobId::Run(run) => stored.task.run() == Some(run),
                // One that was hindered is begun again, so its end is none.
                JobId::Activity { seq, .. } => {
                    let ended = |receipt: &Receipt| !receipt.ended.failed_externally();
                    let has_ended = matches!(&job.phase, Phase::PutAway(Some(it)) if ended(it));
                    stored.task.entered <= seq && has_ended
                }
                JobId::CleanUp { .. } | JobId::Poll { .. } => false,
            };
            if is_awaited {
                found.push(format!("{id} was put away before its end was on record"));
            }
        }
    }

    /// What a pulse leaves behind that nothing disturbed.
    pub(super) fn look_at_pulse(
        &mut self,
        node: usize,
        before: &Before,
        pulse: &TurnReport,
        now: Instant,
    ) {
        let store = &self.ledger.store;
        let mut found = Vec::new();
        let open = store.open_runs(None).expect("the runs are read");
        let accounts = store.accounts().expect("the accounts are read");
        let new: Vec<&OpenRun> =
            open.iter().filter(|open| !before.runs.contains(&open.run)).collect();
        for open in &new {
            if before.is_paused {
                found.push(format!("{} was started in a pause", open.run));
            }
            let account = accounts.iter().find(|(name, _)| open.account.as_ref() == Some(name));
            if account.is_some_and(|(_, row)| row.paused_until.is_some_and(|until| until > now)) {
                found.push(format!("{} was started on an account that rests", open.run));
            }
            let of = |other: &&&OpenRun| other.account == open.account;
            if account.is_some_and(|(_, row)| row.probing) && new.iter().filter(of).count() > 1 {
                found.push(format!("{} does not wait for the trial of its account", open.run));
            }
            let stored = store.task(open.run.task).expect("the task is read");
            if stored.task.open_needs > 0 {
                found.push(format!("{} was started before what it needs", open.run));
            }
        }
        for (id, _) in pulse.ended.iter().filter(|(_, outcome)| outcome == "quota") {
            let past = store.past_runs(id.task(), 1_000).expect("the runs are read");
            let run = past
                .iter()
                .find(|past| JobId::Run(RunId { task: id.task(), epoch: past.epoch }) == *id);
            let workers = &self.nodes[node].terms.workers;
            let worker =
                workers.iter().find(|known| run.is_some_and(|run| run.worker == known.worker.name));
            let account = worker.map(|setup| setup.worker.account.as_str());
            let rests = |name: &str| {
                let row = accounts.iter().find(|(known, _)| known == name);
                row.is_some_and(|(_, row)| row.paused_until.is_some_and(|until| until > now))
            };
            if account.is_some_and(|account| !rests(account)) {
                found.push(format!("{id} has hit its quota, and its account does not rest"));
            }
        }
        let mut ground = self.ground.borrow_mut();
        rightless(&ground, node, &open, before, &mut found);
        let here = self.nodes[node].terms.agents.node.as_str();
        let held = open.iter().filter(|open| open.node.as_deref() == Some(here));
        for open in held.filter(|open| open.expires_at > now) {
            unbegun(&ground, node, open.run, store, &mut found);
        }
        for what in found {
            ground.breaks(what);
        }
    }

    /// Everything has come to rest: each task is over, or waits for somebody by name.
    pub(super) fn look_at_rest(&mut self) {
        let mut found = Vec::new();
        let store = &self.ledger.store;
        let tasks = store.tasks_from(TaskId(0)).expect("the tasks are read");
        for (stored, _) in &tasks {
            let (task, lifecycle) = (&stored.task, &stored.lifecycle);
            let name = &lifecycle.state(task.state).name;
            let detail = store.detail(task.id).expect("the task is read");
            let timer = detail.timers.iter().map(|timer| timer.due).min();
            match waits_for(lifecycle, task, timer) {
                WaitsFor::Ended
                | WaitsFor::Person
                | WaitsFor::Needs(_)
                | WaitsFor::Subtasks
                | WaitsFor::Parent(_) => {}
                WaitsFor::Queue => self.held_for_good(task.id, &mut found),
                held @ (WaitsFor::Lease(_) | WaitsFor::Timer(_) | WaitsFor::Stranded) => {
                    found.push(format!("{} rests in {name}: {held:?}", task.id));
                }
            }
            let state = lifecycle.state(task.state);
            let ground = self.ground.borrow();
            let node = store.past_runs(task.id, 1).expect("the runs are read").pop();
            let node = node.and_then(|run| self.number_of(run.node.as_deref()?));
            let is_left = node.is_some_and(|node| ground.worktrees.contains(&(node, task.id)));
            let is_excused = ground.not_cleaned.contains(&task.id);
            if state.on_entry.contains(&EntryEffect::CleanUp) && is_left && !is_excused {
                found.push(format!("{} is in {name}, and its worktree is still there", task.id));
            }
        }
        self.parents_at_rest(&mut found);
        let mut ground = self.ground.borrow_mut();
        // A plan of a clean-up that nobody took up and that is no longer wanted is in nobody's way.
        let left = ground.jobs.iter().filter(|((_, id), job)| match job.phase {
            Phase::PutAway(_) => false,
            Phase::Unborn => !matches!(id, JobId::CleanUp { .. }),
            Phase::Waiting { .. }
            | Phase::Working
            | Phase::Ended(_)
            | Phase::Unreadable
            | Phase::Lost { .. } => true,
        });
        let left: Vec<String> =
            left.map(|((node, id), _)| format!("{id} on node {node}")).collect();
        found.extend(left.iter().map(|job| format!("{job} was never put away")));
        for what in found {
            ground.breaks(what);
        }
    }

    /// A task may wait in the queue for ever only for a budget or for a worker that nobody has.
    fn held_for_good(&self, id: TaskId, found: &mut Vec<String>) {
        for node in &self.nodes {
            let now = self.now();
            let request = node.request();
            let chosen = self.ledger.store.choice(id, &request, now).expect("it is read");
            let Some(chosen) = chosen else { continue };
            let reasons = chosen.err().unwrap_or_default();
            let is_named = reasons.iter().any(|held| {
                matches!(held, Ineligible::OverBudget { .. } | Ineligible::NoWorker { .. })
            });
            let is_elsewhere =
                reasons.iter().any(|held| matches!(held, Ineligible::NotHere { .. }));
            if !is_named && !is_elsewhere {
                let node = &node.terms.agents.node;
                found.push(format!("{id} rests in the queue; {node} says {reasons:?}"));
            }
        }
    }
}

/// Whether a move out of this state says that the work of the task was merged.
fn is_merged(lifecycle: &Lifecycle, from: &str, trigger: &str) -> bool {
    let state = lifecycle.find_state(from).map(|id| lifecycle.state(id));
    let does = state.and_then(|state| state.does.as_ref());
    let does = does.filter(|does| does.activity == Activity::Merge);
    let route = does.and_then(|does| does.outcomes.get(&Outcome::Merged));
    route.is_some_and(|route| match route {
        Route::Trigger(way) => way == trigger,
        Route::Again(_) => false,
    })
}

/// A person has the last word about a merge again only when nobody is at it any more.
fn taken_back(ground: &mut Ground, stored: &Stored, entry: &HistoryEntry) -> Option<String> {
    let task = stored.task.id;
    if entry.record.from.as_deref() != Some("merge_ready(taking_back)") {
        return None;
    }
    if entry.record.trigger == "branch_merged" {
        ground.seen.insert("a merge that was quicker than whoever took it back");
    }
    if entry.record.trigger != "taken_back" {
        return None;
    }
    ground.seen.insert("a merge that was taken back");
    let is_earlier = |id: &JobId| match *id {
        JobId::Activity { task: of, seq } => of == task && seq < entry.seq,
        JobId::Run(_) | JobId::CleanUp { .. } | JobId::Poll { .. } => false,
    };
    let mut jobs = ground.jobs.iter().filter(|((_, id), _)| is_earlier(id));
    let at_work = jobs.find(|(_, job)| job.doing == Doing::Merge && job.is_live());
    at_work.map(|((_, id), _)| format!("record {} takes back what {id} merges", entry.seq))
}

/// Whether a check or a merge that was asked for in this stay has ended.
fn has_ended(ground: &Ground, task: TaskId, entered: i64) -> bool {
    ground.jobs.iter().any(|((_, id), job)| {
        let is_of_stay = match *id {
            JobId::Activity { task: of, seq } => of == task && seq >= entered,
            JobId::Run(_) | JobId::CleanUp { .. } | JobId::Poll { .. } => false,
        };
        is_of_stay && matches!(job.phase, Phase::Ended(_) | Phase::PutAway(Some(_)))
    })
}

fn had_its_attempts(ground: &Ground, stored: &Stored) -> bool {
    let mut begins = ground.begins.iter().filter(|(id, _)| id.task() == stored.task.id);
    begins.any(|(id, count)| matches!(id, JobId::Activity { .. }) && *count >= ATTEMPTS)
}

/// After a pulse every run of its node has a keeper, unless another job of the task has yet to end.
fn unbegun(ground: &Ground, node: usize, run: RunId, store: &Store, found: &mut Vec<String>) {
    let stored = store.task(run.task).expect("the task is read");
    let does = stored.lifecycle.state(stored.task.state).does.as_ref();
    let is_agents = does.is_some_and(|does| does.activity == Activity::Agent);
    let is_there = |id: &JobId| {
        let job = ground.jobs.get(&(node, *id));
        job.is_some_and(|job| !matches!(job.phase, Phase::Unborn | Phase::PutAway(_)))
    };
    let mut others = ground.jobs.keys().filter(|(at, id)| *at == node && id.task() == run.task);
    if is_agents && !is_there(&JobId::Run(run)) && !others.any(|(_, id)| is_there(id)) {
        found.push(format!("{run} holds its task, and nobody has begun it"));
    }
}

/// After a pulse nothing on its node works without a right to it, and nothing that is over lies
/// about.
fn rightless(
    ground: &Ground,
    node: usize,
    open: &[OpenRun],
    before: &Before,
    found: &mut Vec<String>,
) {
    for ((_, id), job) in ground.jobs.iter().filter(|((at, _), _)| *at == node) {
        match &job.phase {
            Phase::Ended(_) | Phase::Unreadable | Phase::Lost { .. } => {
                found.push(format!("{id} is over, and the pulse has not put it away"));
            }
            Phase::Waiting { .. } | Phase::Working => {
                let has_right = match *id {
                    JobId::Run(run) => open.iter().any(|open| open.run == run),
                    JobId::Activity { task, seq } => before.entered[&task] <= seq,
                    JobId::CleanUp { .. } | JobId::Poll { .. } => true,
                };
                if !has_right && !job.stop_asked {
                    found.push(format!("{id} has no right to work, and nobody has stopped it"));
                }
            }
            Phase::Unborn | Phase::PutAway(_) => {}
        }
    }
}
