//! Checks the whole store: no task is stuck or invalid, and every history leads to its task.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Lifecycle;
use banksman_core::lifecycle::contract::{Field, Purpose};
use banksman_core::machine::{self, Dated, Folded, Task, WaitsFor};
use banksman_core::schedule::BudgetRequest;
use sha2::{Digest, Sha256};

use super::audit::{GENESIS, HistoryEntry, hex};
use super::conn::DbError;
use super::damage::damage_of;
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
    /// Problems of the store that belong to no task.
    pub faults: Vec<String>,
    /// The hash over the heads of all histories. Compared with a copy kept elsewhere, it shows even
    /// the loss of a whole task.
    pub digest: String,
}

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
            run_findings(tx, &stored.task, &mut findings)?;
            query::read_all(tx, stored.task.id)?;
            Ok((findings, 0))
        })?;
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

    /// Verifies every history: its hash chain, its numbers, and that it leads to the task.
    pub fn verify_history(&self) -> Result<HealthReport> {
        self.check_tasks(|tx, stored, digest| {
            digest.update(stored.task.id.0.to_be_bytes());
            digest.update(&stored.head);
            history_findings(tx, stored)
        })
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
        report.findings.extend(self.read(orphaned_records)?);
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
    let numbers = [Field::Node, Field::Used, Field::Limit, Field::More];
    if lifecycle.purpose == Purpose::Budget
        && numbers.into_iter().all(|field| lifecycle.has_field(field))
        && let Err(damage) = BudgetRequest::read(lifecycle, task, false)
    {
        findings.push(damage.to_string());
    }
    if stored.queue_rank != task.rank(lifecycle) {
        findings.push("its place in the queue is wrong".to_owned());
    }
    let timers = query::timers(tx, task.id)?;
    let waits_for = machine::waits_for(lifecycle, task, timers.first().map(|(timer, _)| timer.due));
    let led_by_nobody =
        waits_for == WaitsFor::Subtasks && tx.count(sql::COUNT_LED, &params![task.id])? == 0;
    if waits_for == WaitsFor::Stranded || led_by_nobody {
        findings.push(format!(
            "is stranded in {}: nothing will move it on",
            lifecycle.state(task.state).name
        ));
    }
    // A surplus timer changes nothing when it is due: earlier releases set some for queued tasks.
    for (row, _) in machine::running_timeouts(lifecycle, task) {
        let is_its = |(timer, entered): &(machine::Timer, i64)| {
            timer.kind == machine::TimerKind::Timeout(row) && *entered == task.entered
        };
        if !timers.iter().any(is_its) {
            let trigger = &lifecycle.transitions[row as usize].trigger;
            findings.push(format!("has no timer for its bound `{trigger}`"));
        }
    }
    if task.not_before.is_some()
        != timers.iter().any(|(timer, _)| timer.kind == machine::TimerKind::Ready)
    {
        findings.push("is delayed without a timer, or the other way round".to_owned());
    }
    let open = tx.count(sql::COUNT_OPEN_NEEDS, &params![task.id])?;
    if open != task.open_needs {
        findings.push(format!("waits for {} tasks, but {open} are open", task.open_needs));
    }
    Ok(())
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
