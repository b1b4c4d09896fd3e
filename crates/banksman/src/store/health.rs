//! Checks the whole store: no task is stuck or invalid, and every history leads to its task.

use std::collections::BTreeSet;
use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Lifecycle;
use banksman_core::machine::{
    self, Actor, Dated, Effect, Event, FieldError, Folded, Missing, StoredMovers, Task, Timer,
    TimerKind,
};
use banksman_core::schedule::could_serve;
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::apply::apply_to;
use super::audit::{GENESIS, HistoryEntry, hex};
use super::conn::{DbError, Row};
use super::damage::damage_of;
use super::dispatch::roles_of;
use super::feed;
use super::query::{self, PAGE};
use super::row::Stored;
use super::runs::past_run;
use super::tx::{Tx, params};
use super::{Damage, Result, Store, StoreError, sql};

/// A problem of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthFinding {
    pub task: TaskId,
    pub what: String,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthReport {
    pub tasks: i64,
    pub records: i64,
    pub findings: Vec<HealthFinding>,
    /// What is sound and still needs somebody, such as a task that no worker can take.
    pub warnings: Vec<HealthFinding>,
    /// Problems of the store that belong to no task.
    pub faults: Vec<String>,
    /// The hash over the heads of all histories. Compared with a copy kept elsewhere, it shows even
    /// the loss of a whole task.
    pub digest: String,
}

/// Pairs of tasks of which one waits for the other that are searched for circles.
const MOST_NEEDS: i64 = 100_000;
/// The check stops after this many findings: the store is broken, and people know.
const MOST_FINDINGS: usize = 1_000;

impl Store {
    /// Checks every task: its invariants, what will move it on, its place in the queue, timers,
    /// needs and runs. Then the switch, the accounts and the sums of what was used. And it reads
    /// everything that others read, to name what is damaged.
    pub fn check(&self) -> Result<HealthReport> {
        // Damage that others have noted is not a result of this check.
        let own = Self { damaged: Arc::default(), ..self.clone() };
        let mut report = own.check_tasks(|tx, stored, _| {
            let mut findings = Vec::new();
            state_findings(tx, stored, &mut findings)?;
            for missing in missing_of(tx, stored)? {
                findings.push(match missing {
                    Missing::Mover => {
                        let state = &stored.state().name;
                        format!("is stranded in {state}: nothing will move it on")
                    }
                    other => other.to_string(),
                });
            }
            run_findings(tx, &stored.task, &mut findings)?;
            query::read_all(tx, stored.task.id)?;
            Ok((findings, 0))
        })?;
        report.findings.extend(own.read(orphaned_records)?);
        report.findings.extend(own.read(circles)?);
        report.faults = own.read(faults)?;
        own.read_all()?;
        for Damage { task, what } in own.take_damaged() {
            match task {
                None => report.faults.push(what),
                Some(task) => {
                    let finding = HealthFinding { task, what };
                    if !report.findings.contains(&finding) {
                        report.findings.push(finding);
                    }
                }
            }
        }
        Ok(report)
    }

    /// Makes again what the store lacks for its tasks: timers, decisions, places in the queue and
    /// starts of activities, as the lifecycle and the task say. Every task that lacked something
    /// gets a record of it, and no task gets another state. A task with another fault is left
    /// alone, because what follows from it may be just as wrong. Returns what was made.
    pub fn repair(&self, actor: &Actor, now: Instant) -> Result<Vec<HealthFinding>> {
        let own = Self { damaged: Arc::default(), ..self.clone() };
        let lacking = own.check_tasks(|tx, stored, _| {
            let restorable = restorable(tx, stored)?;
            Ok((restorable.iter().map(Missing::to_string).collect(), 0))
        })?;
        let tasks: BTreeSet<TaskId> = lacking.findings.iter().map(|found| found.task).collect();
        let mut repaired = Vec::new();
        for id in tasks {
            let actor = actor.clone();
            let done = self.write(move |tx| {
                let old = tx.load_for_update(id)?;
                if restorable(tx, &old)?.is_empty() {
                    return Ok(None);
                }
                let movers = stored_movers(tx, &old)?;
                let event = Event::Restored { actor: actor.clone(), movers };
                Ok(apply_to(tx, old, &event, None, now)?.entry)
            });
            let entry = match done {
                Err(error) if error.is_of_database() => return Err(error),
                // The check still names the task.
                Err(_) => None,
                Ok(entry) => entry,
            };
            if entry.is_some() {
                let found = lacking.findings.iter().filter(|found| found.task == id);
                repaired.extend(found.cloned());
            }
        }
        Ok(repaired)
    }

    /// Tasks that wait for one that has ended and is not done. Only people know what then: the task
    /// is sound, and waits for ever.
    pub fn waiting_in_vain(&self) -> Result<Vec<HealthFinding>> {
        let rows = |tx: &mut Tx<'_>| {
            let pair = |row: &Row| Ok::<_, DbError>((row.get(0)?, row.get(1)?));
            tx.all(sql::GIVEN_UP_NEEDS, &params![PAGE], pair)
        };
        let pairs: Vec<(TaskId, TaskId)> = self.read(rows)?;
        let mut findings = Vec::new();
        for (task, need) in pairs {
            let Some(need) = self.readable_task(need)? else { continue };
            if need.state().terminal {
                let (id, state) = (need.task.id, &need.state().name);
                let what = format!("waits for {id}, which has ended in {state}");
                findings.push(HealthFinding { task, what });
            }
        }
        Ok(findings)
    }

    /// Tasks in the queue that no worker of a live node could take. Without a live node nobody
    /// knows.
    pub fn unserved(&self, now: Instant) -> Result<Vec<HealthFinding>> {
        let workers = self.live_workers(now)?;
        if workers.is_empty() {
            return Ok(Vec::new());
        }
        let queued = self.read(|tx| tx.readable_tasks(sql::QUEUED, &params![PAGE]))?;
        let unserved = queued.into_iter().filter_map(|stored| {
            let roles = roles_of(&stored, stored.task.state);
            let tags = &stored.task.tags;
            if roles.is_empty() || could_serve(tags, &roles, &workers) {
                return None;
            }
            let (roles, tags) = (roles.join(" or "), tags.join(", "));
            let what = format!("no worker can take it: it is for {roles}, with the tags [{tags}]");
            Some(HealthFinding { task: stored.task.id, what })
        });
        Ok(unserved.collect())
    }

    /// Verifies every history: its hash chain, its numbers, and that it leads to the task.
    pub fn verify_history(&self) -> Result<HealthReport> {
        let mut report = self.check_tasks(|tx, stored, digest| {
            digest.update(stored.task.id.0.to_be_bytes());
            digest.update(&stored.head);
            history_findings(tx, stored)
        })?;
        report.findings.extend(self.read(orphaned_records)?);
        Ok(report)
    }

    /// Reads what belongs to no single task.
    fn read_all(&self) -> Result<()> {
        self.overview()?;
        self.nodes()?;
        self.open_runs(None)?;
        let mut after = None;
        loop {
            let page = self.changes(after, feed::PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.cursor);
        }
    }

    fn check_tasks(&self, check: TaskCheck) -> Result<HealthReport> {
        let mut report = HealthReport::default();
        let mut digest = Sha256::new();
        let mut after = Some(TaskId(0));
        while let Some(last) = after
            && report.findings.len() < MOST_FINDINGS
        {
            // Each page is one snapshot, so that a check of a large store does not block its
            // writers. A read may run again, so it changes copies.
            (report, digest, after) = self.read(|tx| {
                let (mut report, mut digest) = (report.clone(), digest.clone());
                let next = check_page(tx, last, check, &mut report, &mut digest)?;
                Ok((report, digest, next))
            })?;
        }
        report.digest = hex(&digest.finalize());
        Ok(report)
    }
}

/// Checks one task, and returns its findings and the number of records that were read.
type TaskCheck = fn(&mut Tx<'_>, &Stored, &mut Sha256) -> Result<(Vec<String>, i64)>;

/// Checks a page of tasks, and returns the last of them.
fn check_page(
    tx: &mut Tx<'_>,
    after: TaskId,
    check: TaskCheck,
    report: &mut HealthReport,
    digest: &mut Sha256,
) -> Result<Option<TaskId>> {
    let mut last = None;
    for row in &tx.query(sql::TASKS_FROM, &params![after, PAGE])? {
        let id = row.get(0)?;
        last = Some(id);
        report.tasks += 1;
        let found = match tx.task(row).and_then(|task| check(tx, &task, digest)) {
            Ok((findings, records)) => {
                report.records += records;
                findings
            }
            Err(error) => match damage_of(id, error) {
                StoreError::Corrupt { what, .. } => vec![what],
                error => return Err(error),
            },
        };
        report.findings.extend(found.into_iter().map(|what| HealthFinding { task: id, what }));
    }
    Ok(last)
}

/// Records whose task is missing.
fn orphaned_records(tx: &mut Tx<'_>) -> Result<Vec<HealthFinding>> {
    tx.all(sql::STRAY_RECORDS, &params![PAGE], |row| {
        let what = "has a history but is not there".to_owned();
        Ok::<_, DbError>(HealthFinding { task: row.get(0)?, what })
    })
}

/// Every lease must have an open run, every open run a lease, and every run words that are known.
fn run_findings(tx: &mut Tx<'_>, task: &Task, findings: &mut Vec<String>) -> Result<()> {
    let held = task.lease.as_ref().map(|lease| lease.epoch);
    let mut open = Vec::new();
    for row in tx.query(sql::PAST_RUNS, &params![task.id, i64::MAX])?.iter().rev() {
        // Whether it is open counts, even if the rest of the run is damaged.
        if row.get::<Option<i64>>(14).is_ok_and(|ended_at| ended_at.is_none()) {
            open.push(row.int(0)?);
        }
        tx.unless_damaged(row, past_run(row))?;
    }
    if let Some(epoch) = held.filter(|epoch| !open.contains(epoch)) {
        findings.push(format!("its lease {epoch} has no run that is under way"));
    }
    for epoch in open.into_iter().filter(|epoch| held != Some(*epoch)) {
        findings.push(format!("its run {epoch} is under way without a lease"));
    }
    Ok(())
}

fn faults(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    if !tx.has(sql::PAUSED, &[])? {
        faults.push("the switch that pauses everything is gone".to_owned());
    }
    let looks = [
        (sql::STRAY_DECISIONS, "the decision", "is about no task"),
        (sql::WRONG_ACCOUNT_ROWS, "the account", "is in no possible state"),
        (sql::WRONG_ACCOUNTS, "what was used by", "is not what its runs add up to"),
        (sql::WRONG_BATCHES, "what was used by", "is not what its runs add up to"),
    ];
    for (statement, before, after) in looks {
        let names = tx.all(statement, &params![PAGE], |row| row.get::<String>(0))?;
        faults.extend(names.iter().map(|name| format!("{before} {name} {after}")));
    }
    Ok(faults)
}

fn state_findings(tx: &mut Tx<'_>, stored: &Stored, findings: &mut Vec<String>) -> Result<()> {
    let (task, lifecycle) = (&stored.task, &stored.lifecycle);
    if let Err(broken) = machine::check(lifecycle, task) {
        findings.push(broken.to_string());
    }
    for FieldError { field, message } in machine::unreadable(lifecycle, task) {
        findings.push(format!("its field `{field}` {message}"));
    }
    let open = tx.count(sql::COUNT_OPEN_NEEDS, &params![task.id])?;
    if open != task.open_needs {
        findings.push(format!("waits for {} tasks, but {open} are open", task.open_needs));
    }
    Ok(())
}

fn missing_of(tx: &mut Tx<'_>, stored: &Stored) -> Result<Vec<Missing>> {
    Ok(machine::missing(&stored.lifecycle, &stored.task, &stored_movers(tx, stored)?))
}

/// What can be made again for a task: nothing while something else about it is wrong.
fn restorable(tx: &mut Tx<'_>, stored: &Stored) -> Result<Vec<Missing>> {
    let mut faults = Vec::new();
    state_findings(tx, stored, &mut faults)?;
    run_findings(tx, &stored.task, &mut faults)?;
    if !faults.is_empty() {
        return Ok(Vec::new());
    }
    let mut missing = missing_of(tx, stored)?;
    missing.retain(Missing::can_be_restored);
    Ok(missing)
}

/// What the store has that could move a task on. A surplus timer changes nothing when it is due:
/// earlier releases set some for queued tasks.
fn stored_movers(tx: &mut Tx<'_>, stored: &Stored) -> Result<StoredMovers> {
    let Task { id, entered, .. } = stored.task;
    let timers = query::timers(tx, id)?.into_iter();
    let is_its = |(timer, of): &(Timer, i64)| timer.kind == TimerKind::Ready || *of == entered;
    let effects = tx.query(sql::PENDING_SINCE, &params![id, entered])?;
    let is_start =
        |row: &Row| row.json(0).is_ok_and(|effect: Effect| matches!(effect, Effect::Start { .. }));
    Ok(StoredMovers {
        timers: timers.filter(is_its).map(|(timer, _)| timer).collect(),
        is_asked: tx.has(sql::OPEN_DECISION_OF, &params![id])?,
        is_started: effects.iter().any(is_start),
        children: tx.count(sql::COUNT_LED, &params![id])?,
        queue_rank: stored.queue_rank,
    })
}

/// Tasks that wait for each other, and so for ever.
fn circles(tx: &mut Tx<'_>) -> Result<Vec<HealthFinding>> {
    let pair = |row: &Row| Ok::<_, DbError>((row.get::<TaskId>(0)?, row.get::<TaskId>(1)?));
    let mut waits = tx.all(sql::NEEDS_THAT_WAIT, &params![MOST_NEEDS], pair)?;
    loop {
        let waiting: BTreeSet<TaskId> = waits.iter().map(|(task, _)| *task).collect();
        let before = waits.len();
        waits.retain(|(_, need)| waiting.contains(need));
        if waits.len() == before {
            break;
        }
    }
    // What is left is in a circle, or only waits for one.
    let what = |need| format!("waits for {need}, which waits for it in turn");
    let in_turn = waits.iter().filter(|(task, need)| leads_to(&waits, *need, *task));
    Ok(in_turn.map(|(task, need)| HealthFinding { task: *task, what: what(need) }).collect())
}

/// Whether a task waits for another one, directly or through others.
fn leads_to(waits: &[(TaskId, TaskId)], from: TaskId, to: TaskId) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
    while let Some(task) = next.pop().filter(|task| *task != to) {
        let start = waits.partition_point(|(waiting, _)| *waiting < task);
        let needs = waits[start..].iter().take_while(|(waiting, _)| *waiting == task);
        next.extend(needs.map(|(_, need)| *need).filter(|need| seen.insert(*need)));
    }
    seen.contains(&to)
}

fn history_findings(tx: &mut Tx<'_>, stored: &Stored) -> Result<(Vec<String>, i64)> {
    let id = stored.task.id;
    let mut findings = Vec::new();
    let entries = query::records(tx, id, 0, i64::MAX)?;
    let mut prev = GENESIS.as_slice();
    for (place, entry) in (1..).zip(&entries) {
        chain(entry, prev, place, &mut findings);
        prev = &entry.hash;
    }
    if prev != stored.head {
        findings.push(format!(
            "its history ends at record {}, which is not the one that the task names",
            entries.last().map_or(0, |entry| entry.seq)
        ));
    }
    let task = Task { body: query::body(tx, id)?, ..stored.task.clone() };
    let history: Vec<_> = entries.iter().map(HistoryEntry::dated).collect();
    findings.extend(fold_finding(&stored.lifecycle, &task, &history));
    Ok((findings, i64::try_from(history.len()).unwrap_or(i64::MAX)))
}

/// Whether the history leads to the task as stored: its state, its attributes and its times.
fn fold_finding(lifecycle: &Lifecycle, task: &Task, history: &[Dated<'_>]) -> Option<String> {
    let folded = match machine::fold(history.iter().map(|(seq, _, record)| (*seq, *record))) {
        Err(error) => return Some(error.to_string()),
        Ok(folded) => folded,
    };
    let row = Folded::of(lifecycle, task);
    if let Some(difference) = difference(&folded, &row) {
        return Some(difference);
    }
    let then = match machine::rewind(lifecycle, task, history) {
        Err(error) => return Some(error.to_string()),
        Ok(then) => then,
    };
    let born = history.first().map(|(_, ts, _)| *ts);
    let same = then.entered == task.entered
        && then.entered_at == task.entered_at
        && born == Some(task.created_at);
    (!same).then(|| "its times are not what its history says".to_owned())
}

fn chain(entry: &HistoryEntry, prev: &[u8], place: usize, findings: &mut Vec<String>) {
    if entry.hash != entry.computed_hash() {
        findings.push(format!("record {} was changed: its hash does not fit", entry.seq));
    }
    if entry.prev != prev {
        findings.push(format!(
            "record {} does not follow the one before it: a record is missing or out of order",
            entry.seq
        ));
    }
    if usize::try_from(entry.seq).ok() != Some(place) {
        findings.push(format!("record {} stands at place {place}", entry.seq));
    }
}

fn difference(folded: &Folded, row: &Folded) -> Option<String> {
    if folded.version != row.version || folded.state != row.state {
        return Some(format!(
            "its history leads to {} at version {}, the task is in {} at version {}",
            folded.state, folded.version, row.state, row.version
        ));
    }
    let names = folded.attributes.keys().chain(row.attributes.keys());
    let differing =
        names.into_iter().find(|name| folded.attributes.get(*name) != row.attributes.get(*name))?;
    Some(format!("its {differing} is not what its history says"))
}
