//! The outside: jobs with their keepers, worktrees, branches, and the time that passes for all of
//! them.
//!
//! A keeper here keeps the promises of the real one and no others: it takes the lock of its
//! worktree before it works, renews its lease, ends its agent before the lease runs out, ends when
//! it is asked to, and may die at any moment. One that is slow breaks the promise about the lease,
//! so that the store has to fence it. The ground notes what must never be seen from here.

use std::collections::{BTreeMap, BTreeSet};

use banksman::exec::job::{JobId, JobSpec, JobWork};
use banksman::store::{Store, StoreError};
use banksman_core::ids::TaskId;
use banksman_core::receipt::{EndCause, MergeReport, PrepareFault, Receipt};
use banksman_core::time::{Instant, Span};
use serde_json::Value;

use super::answers::Asked;
use super::chance::Chance;
use super::clocks::Clocks;
use super::forge::Forge;
use super::job::{Job, Key, Phase};
use super::lease::Lease;
use super::script::{self, Branch, Doing, Script};

/// How long a keeper waits for the lock of its worktree.
const LOCK_WAIT: Span = Span(30_000);

/// What happens to one job at one moment.
enum Turn {
    Dies,
    Ends(EndCause),
    Lands,
    Renews,
    GivesUpWaiting,
    Finishes,
}

/// What one job does that is not left to chance.
#[derive(Debug, Clone)]
pub(super) struct Direction {
    pub(super) script: Script,
    pub(super) answer: Option<Value>,
    /// Its keeper dies before it has done anything that counts.
    pub(super) dies: bool,
    pub(super) takes: Span,
    pub(super) makes_progress: bool,
}

/// Says what each job does, instead of chance.
pub(super) trait Director {
    fn direct(&mut self, id: JobId, plan: &JobSpec, now: Instant) -> Direction;
}

pub(super) struct Ground {
    pub(super) director: Option<Box<dyn Director>>,
    pub(super) now: Instant,
    pub(super) clocks: Clocks,
    pub(super) chance: Chance,
    /// From now on everything goes well.
    pub(super) is_calm: bool,
    pub(super) is_swept: bool,
    pub(super) jobs: BTreeMap<Key, Job>,
    /// Nodes that can reach the store.
    pub(super) reaches: Vec<bool>,
    pub(super) forge: Forge,
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
    /// What has come about at least once.
    pub(super) seen: BTreeSet<&'static str>,
}

impl Ground {
    /// Jobs of a node whose receipts cannot be read.
    pub(super) fn unreadable(&self, node: usize) -> usize {
        let here = self.jobs.iter().filter(|((at, _), _)| *at == node);
        here.filter(|(_, job)| matches!(job.phase, Phase::Unreadable)).count()
    }

    pub(super) fn new(chance: Chance, clocks: Clocks, now: Instant, nodes: usize) -> Self {
        Self {
            director: None,
            now,
            clocks,
            chance,
            is_calm: false,
            is_swept: false,
            jobs: BTreeMap::new(),
            reaches: vec![true; nodes],
            forge: Forge::default(),
            worktrees: BTreeSet::new(),
            no_keepers: false,
            begins: BTreeMap::new(),
            not_cleaned: BTreeSet::new(),
            broken: Vec::new(),
            trace: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// The time by which the store lives.
    pub(super) fn store_now(&self) -> Instant {
        self.clocks.store(self.now)
    }

    pub(super) fn note(&mut self, line: &str) {
        self.trace.push(format!("{} {line}", self.now));
    }

    pub(super) fn breaks(&mut self, what: String) {
        self.note(&format!("BROKEN: {what}"));
        self.broken.push(what);
    }

    /// A keeper starts; answers whether it could be started.
    pub(super) fn begin(&mut self, node: usize, plan: &JobSpec) -> bool {
        let id: JobId = plan.job.parse().expect("the engine names jobs");
        match self.jobs.get(&(node, id)).map(|job| &job.phase) {
            None | Some(Phase::Unborn | Phase::PutAway(None)) => {}
            Some(Phase::PutAway(Some(receipt))) if receipt.ended.failed_externally() => {}
            Some(_) => return true,
        }
        self.look_for_others(node, id, matches!(plan.work, JobWork::Merge { .. }));
        let mut job = self.new_job(node, Doing::of(&plan.work), id, plan);
        if let Some(director) = &mut self.director {
            job.follow(director.direct(id, plan, self.now));
        }
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

    fn new_job(&mut self, node: usize, doing: Doing, id: JobId, plan: &JobSpec) -> Job {
        let (now, calm) = (self.now, self.is_calm);
        let local = self.clocks.local(node, now);
        let grace = Span(plan.limits.grace_ms);
        let chance = &mut self.chance;
        let script = if calm { Script::Succeeds } else { Script::draw(doing, chance) };
        let takes = match doing {
            // Sooner than anybody ends who was asked to.
            Doing::FindMerge if calm => Span(500),
            Doing::Agent | Doing::Check | Doing::Merge | Doing::CleanUp if calm => Span(20_000),
            Doing::Agent => *chance.pick(&[Span(2_000), Span(90_000), Span(700_000)]),
            Doing::Check | Doing::Merge => {
                *chance.pick(&[Span(3_000), Span(50_000), Span(400_000)])
            }
            Doing::FindMerge | Doing::CleanUp => *chance.pick(&[Span(500), Span(20_000)]),
        };
        let asked = Asked::of(&plan.work);
        let answer = asked.map(|asked| asked.answer(id, calm, chance));
        let dies = !calm && chance.percent(12);
        // Before or after the decisive moment of a merge.
        let tenths = if dies { *chance.pick(&[6, 9]) } else { 0 };
        let dies_at = dies.then(|| now.plus(Span(takes.0 * tenths / 10)));
        let lease = plan.lease.as_ref().map(|terms| Lease::new(terms, grace, local, now));
        if lease.is_some_and(|lease| lease.is_doubtful) {
            self.seen.insert("a keeper that doubts its lease");
        }
        let doubt = lease.filter(|lease| lease.is_doubtful).map_or(Span(0), |lease| lease.ttl);
        Job {
            doing,
            phase: Phase::Waiting { until: now.plus(LOCK_WAIT).plus(doubt) },
            stop_asked: false,
            // Who only looks for a merge works in no worktree, so nothing but the engine keeps it
            // from looking too early.
            worktree: plan
                .workspace
                .as_ref()
                .filter(|_| doing != Doing::FindMerge)
                .map(|place| place.worktree.clone()),
            script,
            answer,
            began: now,
            takes,
            done_at: now.plus(takes),
            dies_at,
            wanted: match &plan.work {
                JobWork::Merge { commit, .. } => commit.clone(),
                JobWork::Agent(_)
                | JobWork::Check { .. }
                | JobWork::Inspect { .. }
                | JobWork::FindMerge { .. }
                | JobWork::CleanUp
                | JobWork::Poll => None,
            },
            lands_at: None,
            landed: None,
            ending: None,
            lease,
            grace,
            is_slow: !calm && chance.percent(8),
            has_slept: false,
            makes_progress: calm || chance.percent(85),
            head_before: self.forge.head(id.task()),
        }
    }

    /// What nobody may begin beside.
    fn look_for_others(&mut self, node: usize, id: JobId, is_merge: bool) {
        let mut found = Vec::new();
        for ((at, other), job) in &self.jobs {
            let is_live = job.is_live();
            // After a sweep every node takes away the worktree that it has itself.
            let is_swept = self.is_swept && matches!(id, JobId::CleanUp { .. });
            if *at != node && *other == id && is_live && !is_swept {
                found.push(format!("{id} begins on node {node} while it is at work on node {at}"));
            }
            let both_runs = matches!((id, other), (JobId::Run(_), JobId::Run(_)));
            let both_merge = is_merge && job.doing == Doing::Merge && other.task() == id.task();
            if both_merge && *other != id && is_live && !job.stop_asked && self.reaches[*at] {
                found.push(format!("{id} begins on node {node} while {other} merges on node {at}"));
            }
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
            .filter(|(_, job)| matches!(job.phase, Phase::Waiting { .. }))
            .filter(|(_, job)| job.lease.is_none_or(|lease| !lease.is_doubtful))
            .map(|(key, _)| *key)
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
                let merges = job.doing == Doing::Merge;
                job.lands_at = merges.then(|| now.plus(Span(job.takes.0 * 3 / 4)));
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
        let (now, store_now) = (self.now, self.store_now());
        let Some(job) = self.jobs.get_mut(&key) else { return };
        let is_awake = !job.is_slow && !job.has_slept && job.phase == Phase::Working;
        if is_awake && job.lease.is_some_and(|lease| lease.is_over(store_now)) {
            self.breaks(format!("the keeper of {} works beyond its lease", key.1));
            return self.lose_keeper(key, false);
        }
        let turn = if job.dies_at.is_some_and(|at| at <= now) {
            Turn::Dies
        } else if let Some((_, ended)) = job.ending.take_if(|(at, _)| *at <= now) {
            Turn::Ends(ended)
        } else if job.lands_at.take_if(|at| *at <= now).is_some() {
            Turn::Lands
        } else if job.ending.is_none() && job.lease.is_some_and(|lease| job.renews_at(lease) <= now)
        {
            Turn::Renews
        } else if job.phase == Phase::Working {
            Turn::Finishes
        } else {
            Turn::GivesUpWaiting
        };
        match turn {
            Turn::Dies => self.lose_keeper(key, true),
            Turn::Ends(ended) => self.end(key, ended),
            Turn::Lands => self.land(key),
            Turn::Renews => self.renew(key, store),
            Turn::GivesUpWaiting => {
                let detail = "timed out, because another process holds it".to_owned();
                self.end(key, EndCause::NotPrepared { detail, class: PrepareFault::Environment });
            }
            Turn::Finishes => self.finish(key),
        }
    }

    /// An end before the job was done.
    fn end(&mut self, key: Key, ended: EndCause) {
        let (began, now) = self.times(key);
        self.write_receipt(key, script::plain(key.1, ended, began, now));
    }

    /// When a job began and what time it is now, as its keeper sees it.
    fn times(&self, key: Key) -> (Instant, Instant) {
        let began = self.jobs.get(&key).map_or(self.now, |job| job.began);
        (self.clocks.local(key.0, began), self.clocks.local(key.0, self.now))
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
            if matches!(job.landed, Some(MergeReport::Merged { .. })) {
                self.seen.insert("a merge without a receipt");
            }
            job.dies_at = None;
            job.lands_at = None;
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
        let (now, store_now, reaches) = (self.now, self.store_now(), self.reaches[key.0]);
        let job = self.jobs.get_mut(&key).expect("it is just having its turn");
        let (JobId::Run(run), Some(lease)) = (key.1, job.lease.as_mut()) else { return };
        if now >= lease.last_moment() && !job.is_slow {
            let at = now.plus(Span(job.grace.0 / 2));
            job.ending = Some((at, EndCause::LeaseLost));
            return;
        }
        if !reaches {
            lease.failed(now);
            return;
        }
        match store.renew(run, lease.ttl, job.makes_progress, store_now) {
            Ok(expires_at) => {
                lease.renewed(expires_at, now);
                job.has_slept = false;
            }
            Err(StoreError::Rejected(_)) => {
                let delay = if job.is_slow { job.grace.0 * 3 } else { job.grace.0 / 2 };
                job.ending = Some((now.plus(Span(delay)), EndCause::LeaseLost));
            }
            Err(error) => self.breaks(format!("the renewal of {run} failed: {error}")),
        }
    }

    /// The base moves, if the merge comes so far; what follows may still be lost.
    fn land(&mut self, key: Key) {
        let JobId::Activity { task, seq } = key.1 else { return };
        let Some(job) = self.jobs.get_mut(&key) else { return };
        job.landed = self.forge.merge((task, seq), job.wanted.as_deref(), job.script);
        match &job.landed {
            Some(MergeReport::Merged { .. }) if job.wanted.is_some() => {
                self.seen.insert("a merge by an answer")
            }
            Some(MergeReport::Merged { .. }) => self.seen.insert("a merge"),
            Some(MergeReport::AlreadyIn { .. }) => self.seen.insert("a merge that was there"),
            Some(MergeReport::NotIn | MergeReport::Hindered { .. }) => false,
            Some(MergeReport::Conflict { .. }) => self.seen.insert("a conflict"),
            Some(MergeReport::Rejected { .. }) => self.seen.insert("a merge that was rejected"),
            Some(MergeReport::MovedOn { .. }) => self.seen.insert("a branch that has moved on"),
            None => false,
        };
        if self.forge.is_doubled(task, seq) {
            self.breaks(format!("{} has merged twice", key.1));
        }
    }

    fn finish(&mut self, key: Key) {
        let task = key.1.task();
        let (began, now) = self.times(key);
        let Some(job) = self.jobs.get_mut(&key) else { return };
        let (script, head_before) = (job.script, job.head_before);
        let answer = job.answer.take();
        let receipt = match job.doing {
            Doing::Agent => {
                let has_place = job.worktree.is_some();
                if script.commits() {
                    self.forge.commit(task);
                }
                let branch = Branch { head_before, head: self.forge.head(task) };
                let mut receipt = script::agent_receipt(script, key.1, branch, began, now);
                receipt.evidence = receipt.evidence.filter(|_| has_place);
                receipt.answer = answer.filter(|_| script.answers());
                receipt
            }
            Doing::Merge => script::job_receipt(script, key.1, job.landed.take(), began, now),
            Doing::FindMerge => {
                let found = self.forge.find(task);
                script::job_receipt(script, key.1, Some(found), began, now)
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

    /// All machines sleep: nothing happens until they wake, and then everything is late.
    pub(super) fn sleep(&mut self, span: Span) {
        self.now = self.now.plus(span);
        for job in self.jobs.values_mut() {
            job.has_slept = true;
        }
    }

    /// Somebody asks for the end of a job.
    pub(super) fn stop(&mut self, node: usize, id: JobId, by: &str) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&(node, id)).filter(|job| job.is_live()) else { return };
        job.stop_asked = true;
        if job.ending.is_none() {
            let delay = if job.is_slow { job.grace.0 * 6 } else { job.grace.0 / 2 };
            job.ending = Some((now.plus(Span(delay)), EndCause::Stopped { by: by.to_owned() }));
            self.note(&format!("node {node}: {id} is asked to end: {by}"));
        }
    }
}
