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
    let counts = RunCounts::count(load, candidate.batch);
    let mut needs = required(candidate.tags, here, all);
    needs.extend(candidate.model);
    let queue = QueueHead { candidate, load, counts, needs, now };
    let mut suitable: Vec<&Worker> = here.iter().filter(|worker| queue.fits(worker)).collect();
    suitable.sort_by_key(preference);

    let mut reasons = Vec::new();
    let elsewhere = suitable.is_empty().then(|| queue.other_nodes(all)).flatten();
    if suitable.is_empty() && elsewhere.is_none() {
        reasons.push(queue.no_worker(all.iter().chain(here)));
    }
    queue.pause_and_budget_reasons(&mut reasons);
    reasons.extend(elsewhere);
    let free = queue.first_with_room(&suitable);
    let worker_reasons = free.as_ref().err().cloned().unwrap_or_default();
    let (short, long): (Vec<Ineligible>, Vec<Ineligible>) =
        worker_reasons.into_iter().partition(Ineligible::ends_with_a_run);
    reasons.extend(long);
    queue.area_reasons(&mut reasons);
    reasons.extend(short);
    reasons.extend(queue.full_lane());
    queue.capacity_reasons(&mut reasons);
    match free {
        Ok(worker) if reasons.is_empty() => Ok(worker),
        Ok(_) | Err(_) => Err(reasons),
    }
}

/// Prefix of a tag that requires a capability even if no worker has it.
const NEEDS: &str = "needs:";
/// Prefix of a tag that names a worker which must not take the task.
const AVOID: &str = "avoid:";

/// Whether any worker plays one of the roles and has everything that these tags require, whatever
/// else may stand against it.
pub fn could_serve(tags: &[String], roles: &[impl AsRef<str>], workers: &[Worker]) -> bool {
    let needs = required(tags, &[], workers);
    workers.iter().any(|worker| {
        roles.iter().any(|role| worker.plays(role.as_ref()))
            && !is_avoided(worker, tags)
            && lacks(worker, &needs).next().is_none()
    })
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

fn lacks<'n>(worker: &Worker, needs: &'n [&'n str]) -> impl Iterator<Item = &'n str> {
    let has = |need: &str| {
        let is_own = worker.name == need || worker.model.as_deref() == Some(need);
        is_own || worker.capabilities.contains(need)
    };
    needs.iter().copied().filter(move |need| !has(need))
}

/// Lowest first: cheap, then fast, then by name, so that the choice is deterministic.
fn preference<'w>(worker: &&'w Worker) -> (u32, Reverse<u32>, &'w str) {
    (worker.cost, Reverse(worker.speed), &worker.name)
}

/// Counts of runs, made in one pass.
#[derive(Default)]
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
        let mut counts = Self::default();
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
}

/// The task at the head of the queue, and what runs already.
struct QueueHead<'a> {
    candidate: &'a Candidate<'a>,
    load: &'a Load,
    counts: RunCounts<'a>,
    /// The capabilities that the task requires.
    needs: Vec<&'a str>,
    now: Instant,
}

impl QueueHead<'_> {
    fn plays_a_role(&self, worker: &Worker) -> bool {
        self.is_assigned(worker) && self.candidate.roles.iter().any(|role| worker.plays(role))
    }

    fn is_assigned(&self, worker: &Worker) -> bool {
        let assignees = self.candidate.assignees;
        assignees.is_empty() || assignees.contains(&worker.name)
    }

    /// Whether a worker can do the task, whether or not it has room.
    fn fits(&self, worker: &Worker) -> bool {
        self.plays_a_role(worker)
            && !is_avoided(worker, self.candidate.tags)
            && lacks(worker, &self.needs).next().is_none()
    }

    /// The task's lane, if none of its roles may have another run.
    fn full_lane(&self) -> Option<Ineligible> {
        let is_full = |role: &String| self.load.is_lane_full(role);
        let role =
            self.candidate.lanes.first().filter(|_| self.candidate.lanes.iter().all(is_full))?;
        let limit = self.load.lanes.get(role).copied().unwrap_or_default();
        Some(Ineligible::LaneFull { role: role.clone(), limit })
    }

    fn other_nodes(&self, all: &[Worker]) -> Option<Ineligible> {
        let mut able: Vec<&Worker> = all.iter().filter(|worker| self.fits(worker)).collect();
        able.sort_by_key(preference);
        let mut workers: Vec<String> = Vec::new();
        for worker in able {
            if !workers.contains(&worker.name) {
                workers.push(worker.name.clone());
            }
        }
        let node = self.load.node.clone();
        (!workers.is_empty()).then_some(Ineligible::NotHere { node, workers })
    }

    fn no_worker<'w>(&self, workers: impl Iterator<Item = &'w Worker> + Clone) -> Ineligible {
        if self.candidate.roles.is_empty() {
            return Ineligible::NoActivity;
        }
        let assignees = self.candidate.assignees;
        if !assignees.is_empty() && !workers.clone().any(|worker| self.is_assigned(worker)) {
            return Ineligible::NotAssigned { assignees: assignees.to_vec() };
        }
        let players = workers.filter(|worker| self.plays_a_role(worker));
        let nearest =
            players.min_by_key(|worker| (lacks(worker, &self.needs).count(), preference(worker)));
        let missing: Vec<&str> = nearest
            .map_or_else(|| self.needs.clone(), |nearest| lacks(nearest, &self.needs).collect());
        Ineligible::NoWorker {
            role: self.candidate.roles.join(" or "),
            needs: missing.into_iter().map(str::to_owned).collect(),
        }
    }

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
    /// The first worker with room, or every reason against each.
    fn first_with_room<'w>(&self, suitable: &[&'w Worker]) -> Result<&'w Worker, Vec<Ineligible>> {
        let mut worker_reasons = Vec::new();
        let mut seen_accounts: Vec<&str> = Vec::new();
        for worker in suitable {
            let reasons = self.account_reasons(&worker.account);
            let running = self.counts.workers.get(&*worker.name).copied().unwrap_or_default();
            let is_busy = running >= worker.max_concurrent;
            if reasons.is_empty() && !is_busy {
                return Ok(worker);
            }
            // Workers that share an account share its reasons.
            if !seen_accounts.contains(&worker.account.as_str()) {
                seen_accounts.push(&worker.account);
                worker_reasons.extend(reasons);
            }
            if is_busy {
                let (worker, max_concurrent) = (worker.name.clone(), worker.max_concurrent);
                worker_reasons.push(Ineligible::WorkerBusy { worker, max_concurrent });
            }
        }
        Err(worker_reasons)
    }

    fn account_reasons(&self, name: &str) -> Vec<Ineligible> {
        let Some(load) = self.load.accounts.get(name) else { return Vec::new() };
        let account = name.to_owned();
        let running = self.counts.accounts.get(name).copied().unwrap_or_default();
        let mut reasons = Vec::new();
        if let Some(until) = load.paused_until.filter(|until| self.now < *until) {
            let (account, reason) = (account.clone(), load.reason.clone());
            reasons.push(Ineligible::AccountPaused { account, until, reason });
        } else if running > 0 && (load.probing || load.paused_until.is_some()) {
            reasons.push(Ineligible::AccountProbing { account: account.clone() });
        }
        if let Some(limit) = load.limit.filter(|limit| running >= *limit) {
            reasons.push(Ineligible::AccountFull { account, limit });
        }
        reasons
    }
}

fn all_running(load: &Load) -> u32 {
    u32::try_from(load.running.len()).unwrap_or(u32::MAX)
}
