//! The outside: jobs with their keepers, worktrees, branches, and the time that passes for all of them.
//!
//! A keeper here keeps the promises of the real one and no others: it takes the lock of its worktree before it works,
//! renews its lease, ends its agent before the lease runs out, ends when it is asked to, and may die at any moment. One
//! that is slow breaks the promise about the lease, so that the store has to fence it. The ground notes what must never
//! be seen from here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use banksman::exec::plan::{JobId, Plan};
use banksman::store::{Store, StoreError};
use banksman_core::ids::TaskId;
use banksman_core::receipt::{Ended, MergeReport, PrepareFault, Receipt};
use banksman_core::time::{Instant, Span};

use super::chance::Chance;
use super::script::{self, Branch, Doing, Script};

/// How long a keeper waits for the lock of its worktree.
const LOCK_WAIT: Span = Span(30_000);
/// After a renewal that failed.
const RENEW_AGAIN: Span = Span(5_000);

/// A node by its number, and a job on it.
pub(super) type Key = (usize, JobId);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// There is a plan, and no keeper has ever taken it up.
    Unborn,
    /// Somebody else has the worktree.
    Waiting {
        until: Instant,
    },
    Working,
    Ended(Box<Receipt>),
    Unreadable,
    /// The keeper is gone; so many processes of the job are not.
    Lost {
        left: u32,
    },
    PutAway(Option<Box<Receipt>>),
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    expires_at: Instant,
    ttl: Span,
    next: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) doing: Doing,
    pub(super) phase: Phase,
    pub(super) stop_asked: bool,
    worktree: Option<PathBuf>,
    script: Script,
    began: Instant,
    takes: Span,
    done_at: Instant,
    dies_at: Option<Instant>,
    ending: Option<(Instant, Ended)>,
    lease: Option<Lease>,
    grace: Span,
    /// Notices nothing in time.
    is_slow: bool,
    makes_progress: bool,
    head_before: u32,
}

impl Job {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::Working)
    }

    fn touches_worktree(&self) -> bool {
        match self.phase {
            Phase::Working => true,
            Phase::Lost { left } => left > 0,
            Phase::Unborn
            | Phase::Waiting { .. }
            | Phase::Ended(_)
            | Phase::Unreadable
            | Phase::PutAway(_) => false,
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let own = match self.phase {
            Phase::Waiting { until } => until,
            Phase::Working => self.done_at,
            Phase::Unborn
            | Phase::Ended(_)
            | Phase::Unreadable
            | Phase::Lost { .. }
            | Phase::PutAway(_) => return None,
        };
        let ending = self.ending.as_ref().map(|(at, _)| *at);
        let renewal = self.lease.filter(|_| ending.is_none()).map(|lease| lease.next);
        [Some(own), self.dies_at, ending, renewal].into_iter().flatten().min()
    }
}

/// What happens to one job at one moment.
enum Turn {
    Dies,
    Ends(Ended),
    Renews,
    GivesUpWaiting,
    Finishes,
}

pub(super) struct Ground {
    pub(super) now: Instant,
    pub(super) chance: Chance,
    /// From now on everything goes well.
    pub(super) is_calm: bool,
    pub(super) is_swept: bool,
    pub(super) jobs: BTreeMap<Key, Job>,
    /// Nodes that can reach the store.
    pub(super) reaches: Vec<bool>,
    /// Commits on the branch of a task.
    heads: BTreeMap<TaskId, u32>,
    /// Heads that are in the base, with the record that asked for the merge.
    merged: BTreeMap<TaskId, Vec<(i64, u32)>>,
    pub(super) worktrees: BTreeSet<(usize, TaskId)>,
    /// A keeper could not be started, which is a fault that a pulse may fail by.
    pub(super) no_keepers: bool,
    /// Keepers that each job has had.
    pub(super) begins: BTreeMap<JobId, u32>,
    /// Clean-ups that failed, of which a person was told.
    pub(super) not_cleaned: BTreeSet<TaskId>,
    /// What must never be.
    pub(super) broken: Vec<String>,
    pub(super) trace: Vec<String>,
}

impl Ground {
    pub(super) fn new(chance: Chance, now: Instant, nodes: usize) -> Self {
        Self {
            now,
            chance,
            is_calm: false,
            is_swept: false,
            jobs: BTreeMap::new(),
            reaches: vec![true; nodes],
            heads: BTreeMap::new(),
            merged: BTreeMap::new(),
            worktrees: BTreeSet::new(),
            no_keepers: false,
            begins: BTreeMap::new(),
            not_cleaned: BTreeSet::new(),
            broken: Vec::new(),
            trace: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, line: &str) {
        self.trace.push(format!("{} {line}", self.now));
    }

    pub(super) fn breaks(&mut self, what: String) {
        self.note(&format!("BROKEN: {what}"));
        self.broken.push(what);
    }

    /// A keeper starts; answers whether it could be started.
    pub(super) fn begin(&mut self, node: usize, plan: &Plan) -> bool {
        let id: JobId = plan.job.parse().expect("the engine names jobs");
        match self.jobs.get(&(node, id)).map(|job| &job.phase) {
            None | Some(Phase::Unborn | Phase::PutAway(None)) => {}
            Some(Phase::PutAway(Some(receipt))) if receipt.ended.is_hindered() => {}
            Some(_) => return true,
        }
        self.look_for_others(node, id);
        let mut job = self.new_job(Doing::of(&plan.work), id, plan);
        let is_born = self.is_calm || !self.chance.percent(3);
        if is_born {
            *self.begins.entry(id).or_default() += 1;
            self.note(&format!("node {node}: {id} begins, {:?} for {}", job.script, job.takes));
        } else {
            job.phase = Phase::Unborn;
            self.no_keepers = true;
            self.note(&format!("node {node}: {id} gets no keeper"));
        }
        self.jobs.insert((node, id), job);
        self.hand_over_worktrees();
        is_born
    }

    fn new_job(&mut self, doing: Doing, id: JobId, plan: &Plan) -> Job {
        let (now, calm) = (self.now, self.is_calm);
        let chance = &mut self.chance;
        let script = if calm { Script::Succeeds } else { Script::draw(doing, chance) };
        let takes = match doing {
            Doing::Agent | Doing::Check | Doing::Merge | Doing::CleanUp if calm => Span(20_000),
            Doing::Agent => *chance.pick(&[Span(2_000), Span(90_000), Span(700_000)]),
            Doing::Check | Doing::Merge => {
                *chance.pick(&[Span(3_000), Span(50_000), Span(400_000)])
            }
            Doing::CleanUp => *chance.pick(&[Span(500), Span(20_000)]),
        };
        let dies = !calm && chance.percent(12);
        let dies_at = dies.then(|| now.plus(Span(takes.0 * 2 / 3)));
        let lease = plan.lease.as_ref().map(|lease| Lease {
            expires_at: lease.expires_at,
            ttl: Span(lease.ttl_ms),
            next: now.plus(Span(lease.expires_at.since(now).0 / 3)),
        });
        Job {
            doing,
            phase: Phase::Waiting { until: now.plus(LOCK_WAIT) },
            stop_asked: false,
            worktree: plan.workspace.as_ref().map(|place| place.worktree.clone()),
            script,
            began: now,
            takes,
            done_at: now.plus(takes),
            dies_at,
            ending: None,
            lease,
            grace: Span(plan.limits.grace_ms),
            is_slow: !calm && chance.percent(8),
            makes_progress: calm || chance.percent(85),
            head_before: self.heads.get(&id.task()).copied().unwrap_or_default(),
        }
    }

    /// What nobody may begin beside.
    fn look_for_others(&mut self, node: usize, id: JobId) {
        let mut found = Vec::new();
        for ((at, other), job) in &self.jobs {
            let is_live = job.is_live();
            // After a sweep every node takes away the worktree that it has itself.
            let is_swept = self.is_swept && matches!(id, JobId::CleanUp { .. });
            if *at != node && *other == id && is_live && !is_swept {
                found.push(format!("{id} begins on node {node} while it is at work on node {at}"));
            }
            let both_runs = matches!((id, other), (JobId::Run(_), JobId::Run(_)));
            let beside = *at == node && *other != id && other.task() == id.task() && is_live;
            if beside && both_runs && !job.stop_asked && job.ending.is_none() {
                found.push(format!("{id} begins beside {other}, which nobody has stopped"));
            }
        }
        for what in found {
            self.breaks(what);
        }
    }

    /// A free worktree goes to the first who waits for it.
    fn hand_over_worktrees(&mut self) {
        let waiting: Vec<Key> = self
            .jobs
            .iter()
            .filter_map(|(key, job)| matches!(job.phase, Phase::Waiting { .. }).then_some(*key))
            .collect();
        for key in waiting {
            let wanted = self.jobs[&key].worktree.clone();
            let is_locked = wanted.is_some()
                && self.jobs.iter().any(|(other, job)| {
                    *other != key && job.worktree == wanted && job.phase == Phase::Working
                });
            if is_locked {
                continue;
            }
            let now = self.now;
            if let Some(job) = self.jobs.get_mut(&key) {
                job.phase = Phase::Working;
                job.done_at = now.plus(job.takes);
                if job.doing == Doing::Agent && wanted.is_some() {
                    self.worktrees.insert((key.0, key.1.task()));
                }
            }
            self.look_at_worktree(key);
        }
    }

    fn look_at_worktree(&mut self, key: Key) {
        let Some(worktree) = self.jobs[&key].worktree.clone() else { return };
        let others = self.jobs.iter().filter(|(other, job)| {
            **other != key && job.touches_worktree() && job.worktree.as_ref() == Some(&worktree)
        });
        let others: Vec<JobId> = others.map(|((_, other), _)| *other).collect();
        for other in others {
            self.breaks(format!("{} works in the worktree in which {other} is at work", key.1));
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.jobs.values().filter_map(Job::next_event).min()
    }

    /// Lets time pass, and everything happen that is due on the way.
    pub(super) fn advance(&mut self, to: Instant, store: &Store) {
        // Each turn ends a job or moves its next event on by seconds.
        for _ in 0..100_000 {
            let due = self.jobs.iter().filter_map(|(key, job)| Some((job.next_event()?, *key)));
            let Some((at, key)) = due.min().filter(|(at, _)| *at <= to) else { break };
            self.now = self.now.max(at);
            self.turn(key, store);
            self.hand_over_worktrees();
        }
        self.now = self.now.max(to);
    }

    fn turn(&mut self, key: Key, store: &Store) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&key) else { return };
        let turn = if job.dies_at.is_some_and(|at| at <= now) {
            Turn::Dies
        } else if let Some((_, ended)) = job.ending.take_if(|(at, _)| *at <= now) {
            Turn::Ends(ended)
        } else if job.ending.is_none() && job.lease.is_some_and(|lease| lease.next <= now) {
            Turn::Renews
        } else if job.phase == Phase::Working {
            Turn::Finishes
        } else {
            Turn::GivesUpWaiting
        };
        match turn {
            Turn::Dies => self.lose_keeper(key, true),
            Turn::Ends(ended) => {
                let receipt = script::plain(key.1, ended, job.began, now);
                self.write_receipt(key, receipt);
            }
            Turn::Renews => self.renew(key, store),
            Turn::GivesUpWaiting => {
                let detail = "somebody else has it for too long".to_owned();
                let ended = Ended::NotPrepared { detail, class: PrepareFault::Environment };
                let receipt = script::plain(key.1, ended, job.began, now);
                self.write_receipt(key, receipt);
            }
            Turn::Finishes => self.finish(key),
        }
    }

    /// The keeper dies; its processes go on if they were not killed with it.
    pub(super) fn lose_keeper(&mut self, key: Key, leaves_agent: bool) {
        let left = if leaves_agent { self.chance.below(3) } else { 0 };
        let left = u32::try_from(left).expect("a small number");
        self.note(&format!(
            "node {}: the keeper of {} dies, {left} processes are left",
            key.0, key.1
        ));
        if let Some(job) = self.jobs.get_mut(&key) {
            job.dies_at = None;
            let left = if job.phase == Phase::Working { left } else { 0 };
            job.phase = Phase::Lost { left };
        }
    }

    fn write_receipt(&mut self, key: Key, receipt: Receipt) {
        self.note(&format!("node {}: {} has ended: {:?}", key.0, key.1, receipt.ended));
        if let Some(job) = self.jobs.get_mut(&key) {
            let is_unreadable = job.script == Script::Unreadable;
            let readable = Phase::Ended(Box::new(receipt));
            job.phase = if is_unreadable { Phase::Unreadable } else { readable };
        }
    }

    fn renew(&mut self, key: Key, store: &Store) {
        let (now, reaches) = (self.now, self.reaches[key.0]);
        let progressed = self.jobs[&key].makes_progress;
        let job = self.jobs.get_mut(&key).expect("it is just having its turn");
        let (JobId::Run(run), Some(mut lease)) = (key.1, job.lease) else { return };
        let reserve = job.grace.0.min(lease.ttl.0 / 3) + lease.ttl.0 / 10;
        let last_moment = Instant(lease.expires_at.0 - reserve);
        if now >= last_moment && !job.is_slow {
            let at = now.plus(Span(job.grace.0 / 2));
            job.ending = Some((at, Ended::LeaseLost));
            return;
        }
        if !reaches {
            let again = now.plus(RENEW_AGAIN);
            lease.next = if job.is_slow { again } else { again.min(last_moment) };
            job.lease = Some(lease);
            return;
        }
        match store.renew(run, lease.ttl, progressed, now) {
            Ok(expires_at) => {
                let next = now.plus(Span((expires_at.since(now).0 / 3).max(1_000)));
                job.lease = Some(Lease { expires_at, next, ..lease });
            }
            Err(StoreError::Rejected(_)) => {
                let delay = if job.is_slow { job.grace.0 * 3 } else { job.grace.0 / 2 };
                job.ending = Some((now.plus(Span(delay)), Ended::LeaseLost));
            }
            Err(error) => self.breaks(format!("the renewal of {run} failed: {error}")),
        }
    }

    fn finish(&mut self, key: Key) {
        let (now, task) = (self.now, key.1.task());
        let Some(job) = self.jobs.get(&key) else { return };
        let (script, began, head_before) = (job.script, job.began, job.head_before);
        let receipt = match job.doing {
            Doing::Agent => {
                let has_place = job.worktree.is_some();
                let head = self.heads.entry(task).or_default();
                *head += u32::from(script.commits());
                let branch = Branch { head_before, head: *head };
                let mut receipt = script::agent_receipt(script, key.1, branch, began, now);
                receipt.evidence = receipt.evidence.filter(|_| has_place);
                receipt
            }
            Doing::Merge => {
                let report = self.merge(key, script);
                script::job_receipt(script, key.1, report, began, now)
            }
            Doing::Check => script::job_receipt(script, key.1, None, began, now),
            Doing::CleanUp => {
                if matches!(script, Script::NotPrepared(_)) {
                    self.not_cleaned.insert(task);
                } else {
                    self.worktrees.remove(&(key.0, task));
                }
                script::job_receipt(script, key.1, None, began, now)
            }
        };
        self.write_receipt(key, receipt);
    }

    fn merge(&mut self, key: Key, script: Script) -> Option<MergeReport> {
        let (JobId::Activity { task, seq }, head) =
            (key.1, self.heads.get(&key.1.task()).copied().unwrap_or_default())
        else {
            return None;
        };
        let base = script::commit(head);
        if script == Script::Conflicts {
            return Some(MergeReport::Conflict { paths: vec!["a".to_owned()] });
        } else if script == Script::Rejected {
            return Some(script::rejected(head));
        } else if !matches!(script, Script::Succeeds | Script::Unreadable) {
            return None;
        }
        let done = self.merged.entry(task).or_default();
        if done.iter().any(|(_, old)| *old == head) {
            return Some(MergeReport::AlreadyIn { head: base });
        }
        let is_again = done.iter().any(|(entry, _)| *entry == seq);
        done.push((seq, head));
        if is_again {
            self.breaks(format!("{} is merged twice", key.1));
        }
        Some(MergeReport::Merged { head: base })
    }

    /// Somebody asks for the end of a job.
    pub(super) fn stop(&mut self, node: usize, id: JobId, by: &str) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&(node, id)).filter(|job| job.is_live()) else { return };
        job.stop_asked = true;
        if job.ending.is_none() {
            let delay = if job.is_slow { job.grace.0 * 6 } else { job.grace.0 / 2 };
            job.ending = Some((now.plus(Span(delay)), Ended::Stopped { by: by.to_owned() }));
            self.note(&format!("node {node}: {id} is asked to end: {by}"));
        }
    }
}
