//! Chooses a worker for a task. It runs once for every task at the head of the queue while the
//! store's lock is held, so it visits each run and each worker only once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Area, BatchLoad, BudgetScope, Candidate, Ineligible, Load, Worker, overlap};
use crate::ids::TaskId;
use crate::time::Instant;

/// The worker that takes the task now, or every reason against it.
///
/// `all` are the workers of every live node, `here` those of this one. An error holds at least one
/// reason, each once, in the order of [`Ineligible`]. Reasons of workers and accounts appear only
/// if no worker has room, those of the preferred worker first.
pub fn choose<'w>(
    candidate: &Candidate<'_>,
    load: &Load,
    here: &'w [Worker],
    all: &[Worker],
    now: Instant,
) -> Result<&'w Worker, Vec<Ineligible>> {
    let needs = required(candidate.tags, here, all);
    let mut suitable: Vec<&Worker> =
        here.iter().filter(|worker| can_take(worker, candidate, &needs)).collect();
    suitable.sort_by_key(|worker| (is_avoided(worker, candidate.tags), preference(worker)));
    let counts = RunCounts::count(load, candidate.batch);

    let mut reasons = Vec::new();
    let elsewhere =
        suitable.is_empty().then(|| other_nodes(candidate, load, &needs, all)).flatten();
    if suitable.is_empty() && elsewhere.is_none() {
        reasons.push(no_worker(candidate, &needs, here, all));
    }
    let queue = QueueHead { candidate, load, counts: &counts };
    queue.pause_and_budget_reasons(&mut reasons);
    reasons.extend(elsewhere);
    let free = first_with_room(&suitable, load, &counts, now);
    let worker_reasons = free.as_ref().err().cloned().unwrap_or_default();
    let (short, long): (Vec<Ineligible>, Vec<Ineligible>) =
        worker_reasons.into_iter().partition(Ineligible::ends_with_a_run);
    reasons.extend(long);
    queue.area_reasons(&mut reasons);
    reasons.extend(short);
    queue.capacity_reasons(&mut reasons);
    match free {
        Ok(worker) if reasons.is_empty() => Ok(worker),
        Ok(_) | Err(_) => Err(reasons),
    }
}

/// Prefix of a tag that requires a capability even if no worker has it.
const NEEDS: &str = "needs:";
/// Prefix of a tag that names a worker to avoid.
const AVOID: &str = "avoid:";

/// Whether any worker has everything that these tags require, whatever else may stand against it.
#[must_use]
pub fn could_serve(tags: &[String], workers: &[Worker]) -> bool {
    let needs = required(tags, &[], workers);
    workers.iter().any(|worker| lacks(worker, &needs).next().is_none())
}

fn required<'a>(tags: &'a [String], here: &[Worker], all: &[Worker]) -> Vec<&'a str> {
    // This node counts even while `all` does not contain it yet.
    let is_capability =
        |tag: &str| all.iter().chain(here).any(|worker| worker.capabilities.contains(tag));
    let mut needs = Vec::new();
    for tag in tags {
        let word = match tag.strip_prefix(NEEDS) {
            Some(word) => Some(word.trim()).filter(|word| !word.is_empty()),
            None => Some(tag.as_str()).filter(|tag| is_capability(tag)),
        };
        if let Some(word) = word.filter(|word| !needs.contains(word)) {
            needs.push(word);
        }
    }
    needs
}

fn is_avoided(worker: &Worker, tags: &[String]) -> bool {
    tags.iter().any(|tag| tag.strip_prefix(AVOID) == Some(worker.name.as_str()))
}

fn plays_a_role(worker: &Worker, candidate: &Candidate<'_>) -> bool {
    candidate.roles.iter().any(|role| worker.plays(role))
}

fn can_take(worker: &Worker, candidate: &Candidate<'_>, needs: &[&str]) -> bool {
    plays_a_role(worker, candidate) && lacks(worker, needs).next().is_none()
}

fn lacks<'n>(worker: &Worker, needs: &'n [&'n str]) -> impl Iterator<Item = &'n str> {
    let has = |need: &str| worker.name == need || worker.capabilities.contains(need);
    needs.iter().copied().filter(move |need| !has(need))
}

/// Lowest first: cheap, then fast, then by name, so that the choice is deterministic.
fn preference<'w>(worker: &&'w Worker) -> (u32, Reverse<u32>, &'w str) {
    (worker.cost, Reverse(worker.speed), &worker.name)
}

fn other_nodes(
    candidate: &Candidate<'_>,
    load: &Load,
    needs: &[&str],
    all: &[Worker],
) -> Option<Ineligible> {
    let mut able: Vec<&Worker> =
        all.iter().filter(|worker| can_take(worker, candidate, needs)).collect();
    able.sort_by_key(preference);
    let mut workers: Vec<String> = Vec::new();
    for worker in able {
        if !workers.contains(&worker.name) {
            workers.push(worker.name.clone());
        }
    }
    (!workers.is_empty()).then(|| Ineligible::NotHere { node: load.node.clone(), workers })
}

fn no_worker(
    candidate: &Candidate<'_>,
    needs: &[&str],
    here: &[Worker],
    all: &[Worker],
) -> Ineligible {
    let players = all.iter().chain(here).filter(|worker| plays_a_role(worker, candidate));
    let nearest = players.min_by_key(|worker| (lacks(worker, needs).count(), preference(worker)));
    let missing: Vec<&str> =
        nearest.map_or_else(|| needs.to_vec(), |nearest| lacks(nearest, needs).collect());
    Ineligible::NoWorker {
        role: candidate.roles.join(" or "),
        needs: missing.into_iter().map(str::to_owned).collect(),
    }
}

/// Counts of runs, made in one pass.
struct RunCounts<'l> {
    on_node: u32,
    in_batch: u32,
    /// On this node, by worker: a worker's limit is a setting of its node.
    workers: BTreeMap<&'l str, u32>,
    /// On all nodes, by account: they share it.
    accounts: BTreeMap<&'l str, u32>,
}

impl<'l> RunCounts<'l> {
    fn count(load: &'l Load, batch: Option<&str>) -> Self {
        let mut counts =
            Self { on_node: 0, in_batch: 0, workers: BTreeMap::new(), accounts: BTreeMap::new() };
        for run in &load.running {
            *counts.accounts.entry(&run.account).or_default() += 1;
            counts.in_batch += u32::from(batch.is_some() && run.batch.as_deref() == batch);
            if run.node == load.node {
                counts.on_node += 1;
                *counts.workers.entry(&run.worker).or_default() += 1;
            }
        }
        counts
    }

    fn of_worker(&self, name: &str) -> u32 {
        self.workers.get(name).copied().unwrap_or_default()
    }

    fn of_account(&self, name: &str) -> u32 {
        self.accounts.get(name).copied().unwrap_or_default()
    }
}

/// The task at the head of the queue, and what runs already.
struct QueueHead<'a> {
    candidate: &'a Candidate<'a>,
    load: &'a Load,
    counts: &'a RunCounts<'a>,
}

impl QueueHead<'_> {
    fn batch(&self) -> Option<(&String, &BatchLoad)> {
        self.candidate.batch.and_then(|name| self.load.batches.get_key_value(name))
    }

    fn pause_and_budget_reasons(&self, reasons: &mut Vec<Ineligible>) {
        let Self { candidate, load, .. } = self;
        if load.paused {
            reasons.push(Ineligible::Paused);
        }
        if let Some((name, _)) = self.batch().filter(|(_, batch)| batch.paused) {
            reasons.push(Ineligible::BatchPaused { batch: name.clone() });
        }
        let task = BudgetScope::Task(candidate.task);
        reasons.extend(Ineligible::over_budget(&task, &candidate.budget, &candidate.spent));
        if let Some((name, batch)) = self.batch() {
            let used = batch.used.with_runs(self.counts.in_batch);
            let scope = BudgetScope::Batch(name.clone());
            reasons.extend(Ineligible::over_budget(&scope, &batch.budget, &used));
        }
        let used = load.day.with_runs(all_running(load));
        reasons.extend(Ineligible::over_budget(&BudgetScope::Day, &load.day_budget, &used));
    }

    fn area_reasons(&self, reasons: &mut Vec<Ineligible>) {
        let Candidate { project, task, areas, .. } = self.candidate;
        let shared = |its_project: &str, its_task: TaskId, its_areas: &[Area]| {
            let is_other = its_project == *project && its_task != *task;
            is_other.then(|| overlap(areas, its_areas).cloned()).flatten()
        };
        let taken = self.load.running.iter().filter_map(|run| {
            let area = shared(&run.project, run.task, &run.areas)?;
            Some(Ineligible::AreaTaken { area, by: run.task })
        });
        let reserved = self.load.reserved.iter().filter_map(|next| {
            let area = shared(&next.project, next.task, &next.areas)?;
            Some(Ineligible::AreaReserved { area, to: next.task })
        });
        reasons.extend(taken.chain(reserved));
    }

    fn capacity_reasons(&self, reasons: &mut Vec<Ineligible>) {
        let Self { load, counts, .. } = self;
        if let Some(limit) = load.limit.filter(|limit| all_running(load) >= *limit) {
            reasons.push(Ineligible::Full { limit });
        }
        if counts.on_node >= load.capacity {
            reasons.push(Ineligible::NodeFull { node: load.node.clone(), capacity: load.capacity });
        }
        let full = self.batch().filter(|(_, batch)| counts.in_batch >= batch.concurrency);
        if let Some((name, batch)) = full {
            let (batch, concurrency) = (name.clone(), batch.concurrency);
            reasons.push(Ineligible::BatchFull { batch, concurrency });
        }
    }
}

/// The first worker with room, or every reason against each.
fn first_with_room<'w>(
    suitable: &[&'w Worker],
    load: &Load,
    counts: &RunCounts<'_>,
    now: Instant,
) -> Result<&'w Worker, Vec<Ineligible>> {
    let mut worker_reasons = Vec::new();
    let mut seen_accounts: Vec<&str> = Vec::new();
    for worker in suitable {
        let mut reasons = account_reasons(&worker.account, load, counts, now);
        let is_busy = counts.of_worker(&worker.name) >= worker.max_concurrent;
        if reasons.is_empty() && !is_busy {
            return Ok(worker);
        }
        // Workers that share an account share its reasons.
        if !seen_accounts.contains(&worker.account.as_str()) {
            seen_accounts.push(&worker.account);
            worker_reasons.append(&mut reasons);
        }
        if is_busy {
            let (worker, max_concurrent) = (worker.name.clone(), worker.max_concurrent);
            worker_reasons.push(Ineligible::WorkerBusy { worker, max_concurrent });
        }
    }
    Err(worker_reasons)
}

fn account_reasons(
    name: &str,
    load: &Load,
    counts: &RunCounts<'_>,
    now: Instant,
) -> Vec<Ineligible> {
    let Some(account) = load.accounts.get(name) else {
        return Vec::new();
    };
    let running = counts.of_account(name);
    let mut worker_reasons = Vec::new();
    if let Some(until) = account.paused_until.filter(|until| now < *until) {
        let (account, reason) = (name.to_owned(), account.reason.clone());
        worker_reasons.push(Ineligible::AccountPaused { account, until, reason });
    } else if running > 0 && (account.probing || account.paused_until.is_some()) {
        worker_reasons.push(Ineligible::AccountProbing { account: name.to_owned() });
    }
    if let Some(limit) = account.limit.filter(|limit| running >= *limit) {
        worker_reasons.push(Ineligible::AccountFull { account: name.to_owned(), limit });
    }
    worker_reasons
}

fn all_running(load: &Load) -> u32 {
    u32::try_from(load.running.len()).unwrap_or(u32::MAX)
}
