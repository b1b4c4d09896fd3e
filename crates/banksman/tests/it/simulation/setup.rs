//! What a life begins with: a store in a folder of its own, nodes with their settings, lifecycles,
//! tasks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use banksman::config::{
    self, AgentLimits, Agents, BudgetSettings, Environment, Flags, Panels, PolicyFile, Verify,
    WorkerSetup, Worktrees,
};
use banksman::engine::EngineConfig;
use banksman::store::conn::{Options, Target};
use banksman::store::{Add, Definition, Edge, Store};
use banksman_core::failure::RetryPolicy;
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::builtin;
use banksman_core::machine::{Actor, NewTask};
use banksman_core::schedule::Budget;
use banksman_core::time::{Instant, Span};
use serde_json::{Map, json};
use tempfile::TempDir;

use super::chance::Chance;
use crate::engine::cutting::FULL;
use crate::store::acts::definition;

pub(super) const BATCHES: [&str; 2] = ["spring", "autumn"];
const AREAS: [&str; 4] = ["crates/core", "crates/core/src", "docs/guide", "docser:global"];

static LIFECYCLES: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let built_in = ["autonomous", "supervised", "judged", "mission"];
    let sources = built_in.iter().map(|name| builtin::source(name).expect("it is built in"));
    let own = [include_str!("../../../demo/lifecycle.yaml"), include_str!("proven.yaml")];
    sources.chain(own).map(definition).collect()
});

/// How often each of them is drawn: those that do the most the most often.
const DRAWN: [(usize, usize); 6] = [(6, 0), (3, 1), (3, 2), (1, 3), (4, 4), (6, 5)];

/// An empty store, made once and copied for every life.
static TEMPLATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = folder();
    let path = folder.path().join("store.db");
    drop(Store::open(&Target::Sqlite(path.clone()), &options()).expect("a store is made"));
    let raw = rusqlite::Connection::open(&path).expect("the file opens");
    raw.execute_batch(&faults()).expect("the triggers are made");
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("the log is empty");
    drop(raw);
    fs::read(&path).expect("the file is read")
});

/// Writes that fail: after `left` more rows every write is refused, as if the machine had died
/// between two of them. The engine cannot tell it from a store that is gone, and what it had
/// written stays.
fn faults() -> String {
    let mut sql =
        format!("CREATE TABLE fault (left INTEGER NOT NULL); INSERT INTO fault VALUES (-1);{FULL}");
    let writes = ["tasks", "runs", "outbox", "nodes", "accounts", "timers", "spent"];
    for table in writes {
        for write in ["INSERT", "UPDATE", "DELETE"] {
            sql += &format!(
                "CREATE TRIGGER fault_{write}_{table} AFTER {write} ON {table} BEGIN \
                 INSERT INTO no_space SELECT NULL FROM fault WHERE left = 0; \
                 UPDATE fault SET left = left - 1 WHERE left > 0; END;"
            );
        }
    }
    sql
}

/// In memory where the system has a place for that: a life writes thousands of times.
fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let made = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    made.or_else(|_| TempDir::new()).expect("a temporary folder")
}

fn options() -> Options {
    Options { connections: 2, ..Options::default() }
}

/// An effect that is still to be done.
pub(super) struct EffectRow {
    pub(super) task: TaskId,
    /// The record that asked for it.
    pub(super) seq: i64,
    /// The start of an activity, or something else.
    pub(super) is_start: bool,
    pub(super) attempts: u32,
    pub(super) due_at: Instant,
}

pub(super) struct RunRow {
    pub(super) run: RunId,
    pub(super) node: Option<String>,
    pub(super) batch: Option<String>,
    pub(super) ended_at: Option<Instant>,
    pub(super) tokens: i64,
    pub(super) cost_micros: i64,
}

/// A store and the way past it.
pub(super) struct Ledger {
    pub(super) store: Store,
    raw: rusqlite::Connection,
    folder: TempDir,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self::copied(&TEMPLATE)
    }

    /// A store of its own with the same in it.
    pub(super) fn copied(file: &[u8]) -> Self {
        let folder = folder();
        let path = folder.path().join("store.db");
        fs::write(&path, file).expect("the file is written");
        let store = Store::open(&Target::Sqlite(path.clone()), &options()).expect("it opens");
        let raw = rusqlite::Connection::open(&path).expect("the file opens");
        Self { store, raw, folder }
    }

    /// The whole store as a file.
    pub(super) fn file(&self) -> Vec<u8> {
        let emptied = self.raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.expect("the log is empty");
        fs::read(self.folder.path().join("store.db")).expect("the file is read")
    }

    /// Lets writes fail after so many more rows, or no more.
    pub(super) fn fail_after(&self, left: Option<u32>) {
        let left = left.map_or(-1, i64::from);
        self.raw.execute("UPDATE fault SET left = $1", [left]).expect("the counter is set");
    }

    /// A number that is another one after every change of the store.
    pub(super) fn changes(&self) -> i64 {
        let version = self.raw.pragma_query_value(None, "data_version", |row| row.get(0));
        version.expect("the number is there")
    }

    /// What is still to be done.
    pub(super) fn outbox(&self) -> Vec<EffectRow> {
        let sql = "SELECT task, seq, effect LIKE '%\"start\"%', attempts, due_at FROM outbox WHERE state = 'pending'";
        let mut found = self.raw.prepare_cached(sql).expect("the statement is right");
        let rows = found.query_map([], |row| {
            Ok(EffectRow {
                task: TaskId(row.get(0)?),
                seq: row.get(1)?,
                is_start: row.get(2)?,
                attempts: row.get(3)?,
                due_at: Instant(row.get(4)?),
            })
        });
        rows.expect("the query runs").map(|row| row.expect("the row is read")).collect()
    }

    /// Every run that there ever was.
    pub(super) fn runs(&self) -> Vec<RunRow> {
        let sql = "SELECT r.task, r.epoch, r.node, t.batch, r.ended_at, r.tokens, r.cost_micros \
                   FROM runs r JOIN tasks t ON t.id = r.task";
        let mut found = self.raw.prepare_cached(sql).expect("the statement is right");
        let rows = found.query_map([], |row| {
            Ok(RunRow {
                run: RunId { task: TaskId(row.get(0)?), epoch: row.get(1)? },
                node: row.get(2)?,
                batch: row.get(3)?,
                ended_at: row.get::<_, Option<i64>>(4)?.map(Instant),
                tokens: row.get(5)?,
                cost_micros: row.get(6)?,
            })
        });
        rows.expect("the query runs").map(|row| row.expect("the row is read")).collect()
    }
}

thread_local! {
    static SECRETS: Cell<u64> = const { Cell::new(0) };
}

/// Tokens of runs only have to differ.
pub(super) fn secret() -> String {
    let number = SECRETS.get() + 1;
    SECRETS.set(number);
    format!("secret {number}")
}

/// The settings of all nodes of a life, as one organisation would have them.
pub(super) struct Rules {
    pub(super) total: u32,
    pub(super) accounts: BTreeMap<String, u32>,
    pub(super) task_runs: i64,
    pub(super) day: Budget,
}

impl Rules {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let most =
            |chance: &mut Chance| u32::try_from(1 + chance.below(3)).expect("a small number");
        Self {
            total: 1 + most(chance),
            accounts: BTreeMap::from([("plan-a".to_owned(), most(chance))]),
            task_runs: *chance.pick(&[4, 25]),
            day: Budget {
                runs: Some(*chance.pick(&[8, 60])),
                // A run that says something uses 1,000 tokens and 2,000 millionths of a dollar.
                tokens: *chance.pick(&[None, None, Some(9_500)]),
                cost_micros: *chance.pick(&[None, None, Some(13_000)]),
                time: None,
            },
        }
    }

    pub(super) fn agents(&self, node: usize, capacity: u32) -> Agents {
        let runs = |runs| Budget { runs: Some(runs), ..Budget::default() };
        Agents {
            policy: PolicyFile::default(),
            home: PathBuf::from(format!("/srv/node{node}")).into(),
            node: format!("node{node}"),
            limits: AgentLimits {
                agents: capacity,
                total: Some(self.total),
                lease: Span(180_000),
                run: Span(3_600_000),
                idle: Span(600_000),
                grace: Span(10_000),
                output_bytes: 1_024,
            },
            budgets: BudgetSettings {
                task: runs(self.task_runs),
                day: self.day,
                run: Budget::default(),
            },
            worktrees: Worktrees {
                path: "{home}/worktrees/{task}".to_owned(),
                branch: "banksman/{task}".to_owned(),
                base: None,
                setup: None,
                warn_above: 10,
            },
            verify: Verify {
                commands: vec!["make test".to_owned()],
                timeout: Span(60_000),
                allowed_paths: Vec::new(),
                denied_paths: Vec::new(),
            },
            workers: Vec::new(),
            accounts: self.accounts.clone(),
            lanes: BTreeMap::new(),
            evaluator: None,
            evaluator_timeout: Span(60_000),
            panels: panels(),
            pass: Vec::new(),
        }
    }

    pub(super) fn terms(&self, node: usize, chance: &mut Chance) -> EngineConfig {
        let capacity = u32::try_from(1 + chance.below(3)).expect("a small number");
        let mut workers = vec![worker("ada", "command", "plan-a", &["code"])];
        if chance.percent(60) {
            workers.push(worker("bob", "claude", "plan-b", &["code", "docs"]));
        }
        EngineConfig {
            agents: self.agents(node, capacity),
            workers,
            program: PathBuf::from("/usr/bin/banksman"),
            policy: RetryPolicy::default(),
            secret,
            awake: || None,
        }
    }
}

pub(super) fn worker(name: &str, agent: &str, account: &str, can: &[&str]) -> WorkerSetup {
    let mut setup = WorkerSetup::of(name, agent.parse().unwrap());
    setup.worker.account = account.to_owned();
    setup.worker.capabilities = can.iter().map(|word| (*word).to_owned()).collect();
    setup.worker.max_concurrent = 2;
    setup
}

/// A task that somebody adds.
pub(super) fn task(chance: &mut Chance, known: &[TaskId], now: Instant) -> Add {
    let definition = LIFECYCLES[chance.weighted(&DRAWN)].clone();
    let number = known.len() + 1;
    let has = |name: &str| definition.lifecycle.fields.contains_key(name);
    let mut fields = Map::new();
    if chance.percent(40) && has("target_area") {
        fields.insert("target_area".to_owned(), json!(chance.pick(&AREAS)));
    }
    if has("review_needed") {
        fields.insert("review_needed".to_owned(), json!(chance.percent(50)));
    }
    let tags = match chance.below(10) {
        0 => vec!["needs:crane".to_owned()],
        1 => vec!["docs".to_owned(), "red".to_owned()],
        _ => vec!["code".to_owned()],
    };
    let mut needs = Vec::new();
    if !known.is_empty() && chance.percent(25) {
        needs.push((*chance.pick(known), Edge::Blocks));
    }
    let later = chance.percent(10);
    let new = NewTask {
        title: format!("job {number}"),
        body: String::new(),
        project: if chance.percent(90) { "site" } else { "nowhere" }.to_owned(),
        batch: chance.percent(40).then(|| (*chance.pick(&BATCHES)).to_owned()),
        tags,
        priority: i32::try_from(chance.below(5)).expect("a small number") - 2,
        parent: None,
        fields,
        open_needs: 0,
        not_before: later.then(|| now.plus(chance.seconds(1, 3_000))),
    };
    let actor = Actor::human("kim");
    Add { new, definition, needs, actor, key: None, arrival: None }
}

/// As they are by default.
fn panels() -> Panels {
    let nowhere = Path::new("/nowhere");
    let config = config::resolve(&Flags::new(), &Environment::default(), nowhere);
    config.expect("the defaults are enough").agents.panels
}
