//! Why a task does not start, as `why --json` says it: one test for each reason that the scheduler knows.

use banksman::clock;
use banksman::store::Node;
use banksman_core::ids::TaskId;
use banksman_core::schedule::Worker;
use banksman_core::time::Span;
use serde_json::Value;

use super::processes::wait_until;
use super::yard::Yard;

/// At work until the test is over.
const BUSY: &str = "run touch \"$YARD/busy-$BANKSMAN_TASK\"\nsilent\n";

/// A yard in which the first task, `t1`, is at work, and does not end.
fn busy(settings: &[(&str, &str)], more: &[&str]) -> Yard {
    let yard = Yard::new(settings);
    yard.script("any", BUSY);
    start_one(&yard, more);
    yard
}

fn start_one(yard: &Yard, more: &[&str]) {
    let id = yard.add("at work", more);
    yard.pulse();
    wait_until("an agent is at work", || yard.path(&format!("busy-{id}")).exists());
}

/// The reasons against a task, without its place in the queue.
fn reasons(yard: &Yard, id: TaskId) -> Vec<Value> {
    let why = yard.json(&["why", &id.to_string()]);
    let all = why["waiting_for"].as_array().or(why["waitingFor"].as_array()).expect("a list");
    all.iter().filter(|reason| reason["kind"] != "queue").cloned().collect()
}

/// Adds a task that is held back for one reason, which a pulse obeys.
#[track_caller]
fn assert_held(yard: &Yard, more: &[&str], kind: &str, detail: &str) -> Value {
    let starts = yard.starts().len();
    let id = yard.add("held back", more);
    let pulse = yard.pulse();
    assert_eq!(pulse["started"], Value::Array(Vec::new()), "it was started");
    let reasons = reasons(yard, id);
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
    assert_eq!(yard.starts().len(), starts);
    reasons[0].clone()
}

#[test]
fn nobody_has_looked_yet() {
    let yard = Yard::new(&[]);
    let id = yard.add("held back", &[]);
    let reasons = reasons(&yard, id);
    assert_eq!(reasons[0]["detail"], "no machine works on this store");
}

#[test]
fn no_worker() {
    let yard = Yard::new(&[]);
    let detail = "no worker has all that it needs; missing: gpu";
    assert_held(&yard, &["--tag", "needs:gpu"], "no_worker", detail);
}

#[test]
fn paused() {
    let yard = Yard::new(&[]);
    yard.ok(&["pause"]);
    assert_held(&yard, &[], "paused", "everything is paused");
    yard.ok(&["resume"]);
    assert_eq!(yard.pulse()["started"][0]["job"], "r1.1");
}

#[test]
fn batch_paused() {
    let yard = Yard::new(&[]);
    yard.ok(&["batch", "create", "spring"]);
    yard.ok(&["batch", "pause", "spring"]);
    assert_held(&yard, &["--batch", "spring"], "batch_paused", "batch spring is paused");
    yard.ok(&["batch", "resume", "spring"]);
    assert_eq!(yard.pulse()["started"][0]["job"], "r1.1");
}

#[test]
fn over_budget() {
    let yard = Yard::new(&[]);
    yard.script("any", BUSY);
    yard.ok(&["batch", "create", "spring", "--runs", "1"]);
    start_one(&yard, &["--batch", "spring"]);
    let id = yard.add("held back", &["--batch", "spring"]);
    assert_eq!(yard.pulse()["started"], Value::Array(Vec::new()), "it was started");
    let reasons = reasons(&yard, id);
    assert_eq!(reasons[0]["detail"], "batch spring has used up its runs: 1 of 1");
    assert_eq!(reasons[0]["who"], "human");
    assert_eq!((&reasons[1]["kind"], &reasons[1]["who"]), (&"decision".into(), &"human".into()));
    assert_eq!(
        yard.json(&["why", &id.to_string()])["next"],
        "a person answers: banksman decisions show d1, then banksman decisions approve|cancel d1"
    );
}

#[test]
fn not_here() {
    let yard = Yard::new(&[]);
    let workers = vec![Worker {
        name: "cruncher".to_owned(),
        capabilities: ["gpu".to_owned()].into(),
        roles: [].into(),
        cost: 1,
        speed: 1,
        max_concurrent: 1,
        account: "other".to_owned(),
    }];
    // The other machine has no place left.
    let other = Node { name: "far".to_owned(), seen_at: clock::now(), capacity: 0, workers };
    yard.open().put_node(&other).expect("a node");
    let id = yard.add("held back", &["--tag", "gpu"]);
    assert_eq!(yard.pulse()["started"], Value::Array(Vec::new()));
    let kinds: Vec<Value> =
        reasons(&yard, id).iter().map(|reason| reason["kind"].clone()).collect();
    assert_eq!(kinds, ["not_here", "node_full"]);
}

#[test]
fn account_paused() {
    let yard = Yard::new(&[]);
    let reset = clock::now().plus(Span(3_600_000));
    yard.script("t1", &format!("quota {reset}\n"));
    yard.add("hits the wall", &[]);
    wait_until("the account is paused", || {
        yard.pulse();
        yard.json(&["accounts", "list"])["accounts"][0]["pausedUntil"].is_string()
    });
    let detail = format!(
        "account command is paused: quota hit, the provider says that it resets at {reset}"
    );
    let held = assert_held(&yard, &[], "account_paused", &detail);
    assert_eq!(held["until"], reset.to_string());
    assert_eq!(held["who"], "command");
}

#[test]
fn account_probing() {
    let yard = Yard::new(&[]);
    yard.script("any", BUSY);
    yard.script("r1.1", &format!("quota {}\n", clock::now().plus(Span(1_500))));
    yard.add("hits the wall", &[]);
    wait_until("one run tries the account again", || {
        yard.pulse();
        yard.path("busy-t1").exists()
    });
    let detail = "account command was paused, and one run tries it first";
    assert_held(&yard, &[], "account_probing", detail);
}

#[test]
fn area_taken_and_promised() {
    let yard = busy(&[], &["--set", "touches=[\"apps/web/**\"]"]);
    let taken = &["--set", "touches=[\"apps/web/form\", \"apps/db\"]"][..];
    let held = assert_held(&yard, taken, "area_taken", "t1 is at work in path:apps/web");
    assert_eq!(held["who"], "t1");
    let promised = &["--set", "touches=[\"apps/db\"]"][..];
    let detail = "t2 is before it in the queue and waits for path:apps/db";
    let held = assert_held(&yard, promised, "area_promised", detail);
    assert_eq!(held["who"], "t2");
}

#[test]
fn account_full() {
    let yard = busy(&[("accounts.command.max_concurrent", "1")], &[]);
    assert_held(&yard, &[], "account_full", "account command is full: 1 run at most");
}

#[test]
fn worker_busy() {
    let yard = busy(&[("workers.scripted.max_concurrent", "1")], &[]);
    assert_held(&yard, &[], "worker_busy", "worker scripted is full: 1 run at most");
}

#[test]
fn full() {
    let yard = busy(&[("limits.total", "1")], &[]);
    assert_held(&yard, &[], "full", "the whole system is full: 1 run at most");
}

#[test]
fn node_full() {
    let yard = busy(&[("limits.agents", "1")], &[]);
    assert_held(&yard, &[], "node_full", "node here is full: 1 run at most");
}

#[test]
fn batch_full() {
    let yard = Yard::new(&[]);
    yard.script("any", BUSY);
    yard.ok(&["batch", "create", "spring", "--concurrency", "1"]);
    start_one(&yard, &["--batch", "spring"]);
    let detail = "batch spring is full: 1 run at most";
    assert_held(&yard, &["--batch", "spring"], "batch_full", detail);
}
