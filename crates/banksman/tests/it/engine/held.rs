//! Why a task does not start, as `why --json` says it: one test for each reason that the scheduler
//! knows.

use banksman::clock;
use banksman::store::Node;
use banksman_core::ids::TaskId;
use banksman_core::schedule::Worker;
use banksman_core::time::Span;
use serde_json::Value;

use super::harness::Harness;
use super::processes::wait_until;

/// At work until the test is over.
const BUSY: &str = "run touch \"$YARD/busy-$BANKSMAN_TASK\"\nsilent\n";

/// A harness in which the first task, `t1`, is at work, and does not end.
fn busy(settings: &[(&str, &str)], more: &[&str]) -> Harness {
    let harness = Harness::new(settings);
    harness.script("any", BUSY);
    start_one(&harness, more);
    harness
}

fn start_one(harness: &Harness, more: &[&str]) {
    let id = harness.add("at work", more);
    harness.pulse();
    wait_until("an agent is at work", || harness.path(&format!("busy-{id}")).exists());
}

/// The reasons against a task, without its place in the queue.
fn reasons(harness: &Harness, id: TaskId) -> Vec<Value> {
    let why = harness.json(&["why", &id.to_string()]);
    let all = why["waiting_for"].as_array().or(why["waitingFor"].as_array()).expect("a list");
    all.iter().filter(|reason| reason["kind"] != "queue").cloned().collect()
}

/// Adds a task that is held back for one reason, which a pulse obeys.
#[track_caller]
fn assert_held(harness: &Harness, more: &[&str], kind: &str, detail: &str) -> Value {
    let starts = harness.starts().len();
    let id = harness.add("held back", more);
    let pulse = harness.pulse();
    assert_eq!(pulse["started"], Value::Array(Vec::new()), "it was started");
    let reasons = reasons(harness, id);
    let said: Vec<(&str, &str)> = reasons
        .iter()
        .map(|reason| {
            (
                reason["kind"].as_str().unwrap_or_default(),
                reason["detail"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(said, [(kind, detail)]);
    assert_eq!(harness.starts().len(), starts);
    reasons[0].clone()
}

#[test]
fn nobody_has_looked_yet() {
    let harness = Harness::new(&[]);
    let id = harness.add("held back", &[]);
    let reasons = reasons(&harness, id);
    assert_eq!(reasons[0]["detail"], "no machine works on this store");
}

#[test]
fn no_worker() {
    let harness = Harness::new(&[]);
    let detail = "no worker has all required capabilities; missing: gpu";
    assert_held(&harness, &["--tag", "needs:gpu"], "no_worker", detail);
}

#[test]
fn paused() {
    let harness = Harness::new(&[]);
    harness.ok(&["pause"]);
    assert_held(&harness, &[], "paused", "all work is paused");
    harness.ok(&["resume"]);
    assert_eq!(harness.pulse()["started"][0]["job"], "r1.1");
}

#[test]
fn batch_paused() {
    let harness = Harness::new(&[]);
    harness.ok(&["batch", "create", "spring"]);
    harness.ok(&["batch", "pause", "spring"]);
    assert_held(&harness, &["--batch", "spring"], "batch_paused", "batch spring is paused");
    harness.ok(&["batch", "resume", "spring"]);
    assert_eq!(harness.pulse()["started"][0]["job"], "r1.1");
}

#[test]
fn over_budget() {
    let harness = Harness::new(&[]);
    harness.script("any", BUSY);
    harness.ok(&["batch", "create", "spring", "--runs", "1"]);
    start_one(&harness, &["--batch", "spring"]);
    let id = harness.add("held back", &["--batch", "spring"]);
    assert_eq!(harness.pulse()["started"], Value::Array(Vec::new()), "it was started");
    let reasons = reasons(&harness, id);
    assert_eq!(reasons[0]["detail"], "batch spring has used up its runs: 1 of 1");
    assert_eq!(reasons[0]["who"], "human");
    assert_eq!((&reasons[1]["kind"], &reasons[1]["who"]), (&"decision".into(), &"human".into()));
    assert_eq!(
        harness.json(&["why", &id.to_string()])["next"],
        "a person answers: banksman decisions show d1, then banksman decisions approve|cancel d1"
    );
}

#[test]
fn not_here() {
    let harness = Harness::new(&[]);
    let workers = vec![Worker {
        name: "cruncher".to_owned(),
        capabilities: ["gpu".to_owned()].into(),
        roles: [].into(),
        cost: 1,
        speed: 1,
        max_concurrent: 1,
        account: "other".to_owned(),
        model: None,
    }];
    // The other machine has no place left.
    let other =
        Node { name: "far".to_owned(), seen_at: clock::now(), capacity: 0, workers, awake: None };
    harness.open().put_node(&other).expect("a node");
    let id = harness.add("held back", &["--tag", "gpu"]);
    assert_eq!(harness.pulse()["started"], Value::Array(Vec::new()));
    let kinds: Vec<Value> =
        reasons(&harness, id).iter().map(|reason| reason["kind"].clone()).collect();
    assert_eq!(kinds, ["not_here", "node_full"]);
}

#[test]
fn account_paused() {
    let harness = Harness::new(&[]);
    let reset = clock::now().plus(Span(3_600_000));
    harness.script("t1", &format!("quota {reset}\n"));
    harness.add("hits the wall", &[]);
    wait_until("the account is paused", || {
        harness.pulse();
        harness.json(&["accounts", "list"])["accounts"][0]["pausedUntil"].is_string()
    });
    let detail = format!("account command is paused: quota hit; the provider resets it at {reset}");
    let held = assert_held(&harness, &[], "account_paused", &detail);
    assert_eq!(held["until"], reset.to_string());
    assert_eq!(held["who"], "command");
}

#[test]
fn account_probing() {
    let harness = Harness::new(&[]);
    harness.script("any", BUSY);
    harness.script("r1.1", &format!("quota {}\n", clock::now().plus(Span(1_500))));
    harness.add("hits the wall", &[]);
    wait_until("one run tries the account again", || {
        harness.pulse();
        harness.path("busy-t1").exists()
    });
    let detail = "account command was paused, and one run probes it first";
    assert_held(&harness, &[], "account_probing", detail);
}

#[test]
fn area_taken_and_promised() {
    let harness = busy(&[], &["--set", "touches=[\"apps/web/**\"]"]);
    let taken = &["--set", "touches=[\"apps/web/form\", \"apps/db\"]"][..];
    let held = assert_held(&harness, taken, "area_taken", "t1 is working in path:apps/web");
    assert_eq!(held["who"], "t1");
    let promised = &["--set", "touches=[\"apps/db\"]"][..];
    let detail = "t2 is ahead of it in the queue and waits for path:apps/db";
    let held = assert_held(&harness, promised, "area_reserved", detail);
    assert_eq!(held["who"], "t2");
}

#[test]
fn account_full() {
    let harness = busy(&[("accounts.command.max_concurrent", "1")], &[]);
    assert_held(&harness, &[], "account_full", "account command is full: the limit is 1 run");
}

#[test]
fn worker_busy() {
    let harness = busy(&[("workers.scripted.max_concurrent", "1")], &[]);
    assert_held(&harness, &[], "worker_busy", "worker scripted is full: the limit is 1 run");
}

#[test]
fn full() {
    let harness = busy(&[("limits.total", "1")], &[]);
    assert_held(&harness, &[], "full", "the whole system is full: the limit is 1 run");
}

#[test]
fn node_full() {
    let harness = busy(&[("limits.agents", "1")], &[]);
    assert_held(&harness, &[], "node_full", "node here is full: the limit is 1 run");
}

#[test]
fn batch_full() {
    let harness = Harness::new(&[]);
    harness.script("any", BUSY);
    harness.ok(&["batch", "create", "spring", "--concurrency", "1"]);
    start_one(&harness, &["--batch", "spring"]);
    let detail = "batch spring is full: the limit is 1 run";
    assert_held(&harness, &["--batch", "spring"], "batch_full", detail);
}
