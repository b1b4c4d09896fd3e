//! `up`, `down`, `pulse`, `pause`, `resume`, `retry`, `unblock`, `cancel`, `batch`, `workers`,
//! `accounts`, `agents`, `why` and `demo`: agents set to work and held back.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::json;

use super::harness::{DONE, GATE, Harness, SAY, WORK, steady};
use super::sandbox::{Ran, Sandbox};

const FAILS: &str = r#"echo '{"type":"result","status":"error","error":{"kind":"permission","message":"not allowed"}}'; exit 1"#;
const ASKS: &str = r#"echo '{"tell":"needs_person","question":"which colour?"}' >>"$BANKSMAN_RUN_FOLDER/reports.jsonl""#;
const BUSY: &str = r#"echo '{"type":"result","status":"error","error":{"kind":"transient","message":"the server is busy"}}'; exit 1"#;
const QUOTA: &str = r#"echo '{"type":"result","status":"error","error":{"kind":"quota","message":"come back later","resets_at":"2099-01-01T00:00:00Z"}}'; exit 1"#;

/// Times of the day in front of lines.
fn without_times(ran: &Ran) -> String {
    let line = |line: &str| {
        let time =
            line.get(..8).filter(|time| time.bytes().filter(|byte| *byte == b':').count() == 2);
        time.map_or_else(|| line.to_owned(), |time| line.replacen(time, "TIME", 1))
    };
    ran.to_string().lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_pulse_starts_what_is_due_and_takes_what_has_ended() {
    let harness = Harness::new();
    harness.task("Build a wall", &[WORK, DONE]);
    assert_snapshot!(without_times(&harness.run(&["pulse"])), @"
    exit 0
    -- stdout
    TIME started   r1.1  Build a wall
    ");
    harness.wait_for_end("r1.1");
    let pulse = harness.pulse();
    assert_eq!(pulse["ended"], json!([{ "job": "r1.1", "outcome": "succeeded" }]));
    harness.pulse_until("t1", "done");
    assert_eq!(harness.pulse()["started"], json!([]));
}

#[test]
fn up_runs_tasks_to_their_end_and_down_ends_it() {
    let harness = Harness::new();
    let mut up = harness.start(&["up"]);
    let mut said = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    let hello = said.next().unwrap();
    assert!(hello.starts_with("up on harness with at most 4 agents; workers: ada;"), "{hello}");
    harness.task("Build a wall", &[WORK, DONE]);
    harness.until("the task is done", || harness.json(&["show", "t1"])["state"] == "done");
    let second = harness.run(&["up"]);
    assert_eq!(second.code, Some(3), "{second}");
    assert!(second.stderr.contains(&format!("as process {} (BM-E027)", up.id())), "{second}");
    let down = harness.run(&["down"]);
    assert_eq!(down.stdout, format!("stopped `up`, process {}\n", up.id()), "{down}");
    assert!(up.wait().unwrap().success());
    assert_eq!(said.next().unwrap(), "stopped; no agent was running");
    assert_snapshot!(harness.run(&["down"]), @"
    exit 0
    -- stdout
    `up` is not running here
    -- stderr
    next: banksman status · banksman up
    ");
}

#[test]
fn a_turn_that_fails_is_reported_with_its_cause_and_repeated() {
    for flag in ["--json", "-q"] {
        let harness = Harness::new();
        let mut up = harness.start(&["up", flag]);
        let (out, err) = (up.stdout.take().unwrap(), up.stderr.take().unwrap());
        let mut out = BufReader::new(out).lines().map(Result::unwrap);
        let mut err = BufReader::new(err).lines().map(Result::unwrap);
        harness.task("Build a wall", &[SAY, DONE]);
        assert!(out.next().unwrap().contains("r1.1"), "it takes turns");
        harness.wait_for_end("r1.1");
        let runs = harness.runs().join("runs");
        fs::rename(&runs, harness.runs().join("away")).unwrap();
        fs::write(&runs, "no folder").unwrap();
        harness.add("Another");
        // A turn between the two steps finds nothing there.
        let is_cause = |line: &String| line.contains("(os error 20)");
        let (said, expected) = match flag {
            "--json" => (out.find(is_cause), "\"success\":false"),
            _ => (err.find(is_cause), "warning: "),
        };
        let said = said.unwrap();
        assert!(said.contains(expected) && said.contains("BM-E004"), "{flag}: {said}");
        fs::remove_file(&runs).unwrap();
        fs::rename(harness.runs().join("away"), &runs).unwrap();
        assert!(out.any(|line| line.contains("r2.1")), "{flag}: it goes on");
        harness.ok(&["down"]);
        assert!(up.wait().unwrap().success());
    }
}

#[test]
fn down_signals_nobody_whose_lock_is_free() {
    let harness = Harness::new();
    // It lives until its input is closed.
    let mut innocent = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    fs::write(harness.runs().join("up.lock"), format!("{}\n", innocent.id())).unwrap();
    let nobody = json!({ "up": null, "ended": [], "stillRunning": [], "unreadable": [] });
    assert_eq!(harness.json(&["down", "--agents"]), nobody);
    drop(innocent.stdin.take());
    assert_eq!(innocent.wait().unwrap().code(), Some(0), "it was not ended by a signal");
}

#[test]
fn down_stops_the_others_when_a_job_cannot_be_read() {
    let harness = Harness::new();
    harness.task("Build a wall", &[SAY, GATE]);
    harness.pulse();
    harness.wait_for_words("r1.1");
    let unreadable = harness.runs().join("runs/r1.2");
    fs::create_dir(&unreadable).unwrap();
    fs::write(unreadable.join("receipt.json"), "garbage").unwrap();
    let down = harness.run(&["down", "--agents"]);
    assert_eq!(down.code, Some(1), "{down}");
    assert!(down.stdout.contains("stopped r1.1 of t1\n"), "{down}");
    let told = "r1.2 of t1 is in an unknown state: failed to read the receipt of r1.2: ";
    assert!(down.stdout.contains(told), "{down}");
    let again = harness.run(&["down", "--agents", "--json"]);
    let document = again.failed_answer();
    assert_eq!((&document["unreadable"], &document["code"]), (&json!(["r1.2"]), &json!("BM-E004")));
}

#[test]
fn down_with_agents_ends_them_and_their_tasks_come_back() {
    let harness = Harness::new();
    harness.task("Build a wall", &["trap '' TERM", SAY, GATE]);
    harness.pulse();
    harness.wait_for_words("r1.1");
    let down = harness.run(&["down"]);
    assert_eq!(down.stdout, "`up` is not running here\n", "agents go on");
    assert_snapshot!(steady(&harness.run(&["down", "--agents"])), @"
    exit 0
    -- stdout
    `up` is not running here
    stopped r1.1 of t1
    -- stderr
    next: banksman status · banksman up
    ");
    assert_snapshot!(steady(&harness.run(&["down", "--agents"])), @"
    exit 0
    -- stdout
    `up` is not running here
    no agent was running
    -- stderr
    next: banksman status · banksman up
    ");
    harness.ok(&["pause"]);
    assert_eq!(harness.pulse()["ended"][0]["job"], "r1.1");
    let task = harness.json(&["show", "t1"]);
    assert_eq!((&task["lease"], &task["state"]), (&json!(null), &json!("working")));
    let log = harness.ok(&["log", "t1"]);
    assert!(log.contains("stopped: human:kim by `down`"), "{log}");
}

#[test]
fn a_pause_starts_nothing_until_it_is_over() {
    let harness = Harness::new();
    harness.task("Build a wall", &[WORK, DONE]);
    assert_snapshot!(harness.run(&["pause"]), @"
    exit 0
    -- stdout
    paused: no agents will start; none is running
    -- stderr
    next: banksman resume
    ");
    assert_eq!(harness.pulse()["started"], json!([]));
    let why = harness.json(&["why", "t1"]);
    assert!(why["waitingFor"].as_array().unwrap().iter().any(|it| it["kind"] == "paused"), "{why}");
    assert_snapshot!(harness.run(&["resume"]), @"
    exit 0
    -- stdout
    resumed: agents will start again
    -- stderr
    next: banksman status
    ");
    assert_eq!(harness.pulse()["started"][0]["job"], "r1.1");
    assert_eq!(harness.json(&["pause"]), json!({ "paused": true, "running": 1 }));
    harness.wait_for_end("r1.1");
}

#[test]
fn a_blocked_task_is_unblocked() {
    let harness = Harness::new();
    let id = harness.task("Ask kim", &[ASKS, DONE]);
    harness.first_run(&id);
    let why = steady(&harness.run(&["why", &id]));
    assert!(
        why.contains("decision 0000-00-00 00:00:00 human which colour? (unblock, cancel)"),
        "{why}"
    );
    assert_snapshot!(harness.run(&["unblock", &id]), @"
    exit 0
    -- stdout
    ◌ t1  blocked → queued by human:kim (unblock)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    harness.script(&id, &[WORK, DONE]);
    harness.pulse_until(&id, "done");
    assert_eq!(harness.run(&["cancel", &id, "too late"]).code, Some(1));
}

#[test]
fn cancelling_ends_the_agent() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[SAY, GATE]);
    harness.pulse();
    harness.wait_for_words("r1.1");
    assert_snapshot!(harness.run(&["cancel", &id, "nobody wants it"]), @"
    exit 0
    -- stdout
    – t1  working → cancelled by human:kim (cancel)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    harness.pulse();
    harness.wait_for_end("r1.1");
    harness.pulse();
    assert_eq!(harness.json(&["show", &id])["fields"]["reason"], "nobody wants it");
    assert_eq!(harness.json(&["status"])["running"], json!([]));
}

#[test]
fn batches_have_bounds() {
    let harness = Harness::new();
    assert_snapshot!(harness.run(&["batch", "create", "spring", "--concurrency", "1"]), @"
    exit 0
    -- stdout
    BATCH           DONE    RUNNING  GIVEN UP  RUNS  BUDGET
    spring  active  0 of 0  0 of 1   0         0
    -- stderr
    next: banksman batch list
    ");
    assert_snapshot!(harness.run(&["batch", "list"]), @"
    exit 0
    -- stdout
    BATCH           DONE    RUNNING  GIVEN UP  RUNS  BUDGET
    spring  active  0 of 0  0 of 1   0         0
    ");
    assert_snapshot!(harness.run(&["batch", "create", "spring", "--cost", "20"]), @"
    exit 1
    -- stderr
    error: there is a batch `spring` already (BM-E046)
    hint: change it: banksman batch set spring
    ");
    let cost = harness.json(&["batch", "list"])["batches"][0]["budget"]["costMicros"].clone();
    assert_eq!(cost, json!(null), "it stays as it is");
    assert_snapshot!(harness.run(&["batch", "pause", "autumn"]), @"
    exit 1
    -- stderr
    error: there is no batch `autumn` (BM-E045)
    hint: create it: banksman batch create autumn
    ");
    assert_snapshot!(harness.run(&["batch", "set", "spring", "--cost=-1"]), @"
    exit 2
    -- stderr
    error: invalid value '-1' for '--cost <DOLLARS|none>': expected an amount in dollars from 0 to 1000000000, such as 2.50, or none

    For more information, try '--help'.
    ");
    for title in ["First", "Second"] {
        let id = harness.ok(&["add", "-q", title, "--batch", "spring"]);
        harness.script(id.trim_end(), &[SAY, GATE]);
    }
    assert_eq!(harness.pulse()["started"].as_array().unwrap().len(), 1);
    let why = harness.json(&["why", "t2"]);
    assert!(
        why["waitingFor"].as_array().unwrap().iter().any(|it| it["kind"] == "batch_full"),
        "{why}"
    );
    assert_eq!(harness.json(&["batch", "pause", "spring"])["paused"], true);
    assert_eq!(harness.json(&["batch", "resume", "spring"])["running"], 1);
    harness.ok(&["down", "--agents"]);
}

#[test]
fn the_bounds_of_a_batch_that_are_not_named_stay() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["batch", "create", "spring", "--cost=-1"]).code, Some(2));
    assert_eq!(
        harness.json(&["batch", "list"])["batches"],
        json!([]),
        "what is refused makes nothing"
    );
    harness.ok(&["batch", "create", "spring", "--runs", "10", "--cost", "20", "--time", "2h"]);
    let budget = json!({ "runs": 10, "tokens": null, "costMicros": 40_000_000, "time": "2h" });
    assert_eq!(harness.json(&["batch", "set", "spring", "--cost", "40"])["budget"], budget);
    assert_eq!(harness.json(&["batch", "pause", "spring"])["budget"], budget);
    assert_eq!(
        harness.json(&["status"])["batches"][0]["budget"],
        budget,
        "told the same everywhere"
    );
}

#[test]
fn a_bound_of_a_batch_is_lifted_by_none() {
    let harness = Harness::new();
    harness.ok(&["batch", "create", "spring", "--runs", "10", "--tokens", "500", "--cost", "20"]);
    assert_snapshot!(harness.run(&["batch", "set", "spring", "--cost", "none"]), @"
    exit 0
    -- stdout
    BATCH           DONE    RUNNING  GIVEN UP  RUNS  BUDGET
    spring  active  0 of 0  0 of 4   0         0     runs: 0 of 10, tokens: 0 of 500
    -- stderr
    next: banksman batch list
    ");
    let budget = json!({ "runs": 10, "tokens": 500, "costMicros": null, "time": null });
    assert_eq!(harness.json(&["batch", "list"])["batches"][0]["budget"], budget);
    harness.ok(&["batch", "set", "spring", "--runs", "none", "--tokens", "none", "--time", "none"]);
    let nothing = json!({ "runs": null, "tokens": null, "costMicros": null, "time": null });
    assert_eq!(harness.json(&["batch", "list"])["batches"][0]["budget"], nothing);
    for odd in ["--runs=0", "--tokens=some", "--cost=lots", "--cost=-1", "--time=nothing"] {
        assert_eq!(harness.run(&["batch", "set", "spring", odd]).code, Some(2), "{odd}");
    }
    assert_snapshot!(harness.run(&["batch", "set", "spring", "--cost", "lots"]), @"
    exit 2
    -- stderr
    error: invalid value 'lots' for '--cost <DOLLARS|none>': expected an amount in dollars from 0 to 1000000000, such as 2.50, or none

    For more information, try '--help'.
    ");
}

#[test]
fn a_batch_is_only_made_if_tasks_can_be_in_it() {
    let harness = Harness::new();
    assert_snapshot!(harness.run(&["batch", "create", "spring cleaning"]), @"
    exit 2
    -- stderr
    error: invalid value 'spring cleaning' for '<NAME>': a batch name is one word of at most 64 bytes, such as spring-cleaning

    For more information, try '--help'.
    ");
    let long = "x".repeat(65);
    for odd in ["", " ", "a\tb", long.as_str()] {
        assert_eq!(harness.run(&["batch", "create", odd]).code, Some(2), "{odd:?}");
        assert_ne!(harness.run(&["add", "A task", "--batch", odd]).code, Some(0), "{odd:?}");
    }
    assert_eq!(harness.json(&["batch", "list"])["batches"], json!([]));
    for name in ["t12", "a/b:c", "größe", &long[1..]] {
        harness.ok(&["batch", "create", name]);
        harness.ok(&["add", "A task", "--batch", name]);
    }
    assert_eq!(harness.json(&["batch", "list"])["batches"].as_array().map(Vec::len), Some(4));
}

#[test]
fn workers_and_accounts_are_listed() {
    let harness = Harness::new();
    assert_snapshot!(harness.run(&["workers"]), @"
    exit 0
    -- stdout
    WORKER  NODE    RUNNING  COST  SPEED  ACCOUNT  CAPABILITIES
    -- stderr
    no machine has used this store yet
    next: banksman up
    ");
    assert_snapshot!(harness.run(&["accounts", "list"]), @"
    exit 0
    -- stdout
    no account was ever paused
    ");
    let id = harness.task("Build a wall", &[QUOTA]);
    harness.first_run(&id);
    assert_snapshot!(harness.run(&["workers"]), @"
    exit 0
    -- stdout
    WORKER  NODE           RUNNING  COST  SPEED  ACCOUNT  CAPABILITIES
    ada     harness  live  0 of 4   3     3      command  code docs refactor test
    ");
    assert_eq!(harness.json(&["workers"])["nodes"][0]["workers"][0]["account"], "command");
    assert_eq!(
        harness.ok(&["workers", "list"]),
        harness.ok(&["workers"]),
        "as other lists are asked for"
    );
    let accounts = harness.ok(&["accounts", "list"]);
    assert!(accounts.contains("command  paused until 2"), "{accounts}");
    let second = harness.task("Build another", &[WORK, DONE]);
    harness.pulse();
    let why = harness.json(&["why", &second]);
    assert!(
        why["waitingFor"].as_array().unwrap().iter().any(|it| it["kind"] == "account_paused"),
        "{why}"
    );
    assert_snapshot!(harness.run(&["accounts", "resume", "command"]), @"
    exit 0
    -- stdout
    resumed account command
    ");
    assert_snapshot!(harness.run(&["accounts", "resume", "nobody"]), @"
    exit 1
    -- stderr
    error: the account `nobody` was never paused (BM-E045)
    hint: `banksman accounts list` lists the accounts that were
    ");
    let pulse = harness.pulse();
    let started: Vec<&str> =
        pulse["started"].as_array().unwrap().iter().filter_map(|it| it["job"].as_str()).collect();
    assert_eq!(started, ["r1.2", "r2.1"]);
    harness.wait_for_end("r1.2");
    harness.wait_for_end("r2.1");
}

#[test]
fn why_names_what_holds_a_task_back() {
    let harness = Harness::new();
    harness.task("Build a wall", &[SAY, GATE]);
    let second = harness.ok(&["add", "-q", "Paint the wall", "--set", "target_area=wall"]);
    let third = harness.ok(&["add", "-q", "Paint it twice", "--set", "target_area=wall"]);
    let strange =
        harness.ok(&["add", "-q", "Fly to the moon", "--tag", "refactor", "--priority", "-1"]);
    harness.script(second.trim_end(), &[SAY, GATE]);
    harness.script(strange.trim_end(), &[SAY, GATE]);
    harness.pulse();
    let why = harness.json(&["why", third.trim_end()]);
    assert!(
        why["waitingFor"].as_array().unwrap().iter().any(|it| it["kind"] == "area_taken"),
        "{why}"
    );
    let running = harness.json(&["why", "t1"]);
    assert_eq!(running["waitingFor"][0]["kind"], "run");
    harness.ok(&["down", "--agents"]);
}

#[test]
fn a_recorded_stream_is_read() {
    let sandbox = Sandbox::empty();
    let stream = "{\"type\":\"session\",\"id\":\"s1\"}\n{\"type\":\"result\",\"status\":\"success\",\"text\":\"done\"}\n";
    let file = sandbox.file("out.jsonl", stream);
    let read = sandbox.json(&["agents", "read", "command", &file, "--exit", "0"]);
    assert_eq!((&read["outcome"], &read["session"]), (&json!("succeeded"), &json!("s1")));
    let read = sandbox.json(&["agents", "read", "command", &file, "--exit", "1"]);
    assert_eq!(read["outcome"], "crashed");
}

#[test]
fn a_task_that_was_given_up_can_be_retried() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[FAILS]);
    harness.first_run(&id);
    let shown = harness.json(&["show", &id]);
    assert_eq!(
        (&shown["state"], &shown["runs"][0]["class"]),
        (&json!("failed"), &json!("permission"))
    );
    harness.script(&id, &[WORK, DONE]);
    assert_snapshot!(harness.run(&["retry", &id, "--confirm", "it may now"]), @"
    exit 0
    -- stdout
    ◌ t1  failed → queued by human:kim (retry)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    harness.pulse_until(&id, "done");
}

/// A task that is tried again by itself, only later: people who ask for a retry mean now.
#[test]
fn a_retry_of_what_is_tried_again_later_is_now() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[BUSY]);
    let before = harness.run(&["retry", &id]);
    assert_eq!(before.code, Some(1), "what was never tried cannot be tried again: {before}");
    harness.first_run(&id);
    assert_eq!(harness.pulse()["started"], json!([]), "it waits for its next try");
    assert_snapshot!(steady(&harness.run(&["why", &id])), @"
    exit 0
    -- stdout
    t1 is in working
    WAITS FOR UNTIL WHO WHAT
    delay 0000-00-00 00:00:00 it is tried again at this time, because r1.1 ended with transient: the server is busy
    then: it is tried again at its time, or now: banksman retry t1
    ");
    harness.script(&id, &[WORK, DONE]);
    assert_snapshot!(harness.run(&["retry", &id]), @"
    exit 0
    -- stdout
    ● t1  working → working by human:kim (delay_skipped)
    -- stderr
    retrying now instead of waiting
    next: banksman show t1 · banksman why t1
    ");
    assert_snapshot!(harness.run(&["retry", &id]), @"
    exit 0
    -- stdout
    ● t1  unchanged
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    let skipped = |line: &&str| line.contains("delay_skipped");
    assert_eq!(harness.ok(&["history", &id]).lines().filter(skipped).count(), 1, "it is on record");
    assert_eq!(harness.pulse()["started"][0]["job"], "r1.2");
    harness.wait_for_end("r1.2");
    harness.pulse_until(&id, "done");
    assert_eq!(harness.json(&["check"])["ok"], true);
}

#[test]
fn the_demo_ends_as_it_promises() {
    let sandbox = Sandbox::empty();
    // Whoever runs it signs commits, has hooks and ignores files everywhere.
    let hooks = sandbox.file("hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(&hooks, fs::Permissions::from_mode(0o755)).unwrap();
    let hooks = Path::new(&hooks).parent().unwrap().display();
    let ignored = sandbox.file("ignored", "*.sh\n");
    let settings = format!(
        "[commit]\ngpgSign = true\n[gpg]\nprogram = /bin/false\n[core]\nhooksPath = {hooks}\n\
         excludesFile = {ignored}\n"
    );
    fs::write(sandbox.home().join(".gitconfig"), settings).unwrap();
    let folder = sandbox.path().join("demo");
    let demo = sandbox.json(&["demo", "--folder", folder.to_str().unwrap()]);
    let states: Vec<&str> = demo["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["done", "done", "done", "done", "done", "done", "blocked", "done"]);
    let again = sandbox.run(&["demo", "--folder", folder.to_str().unwrap()]);
    assert_eq!(again.code, Some(1), "a folder of somebody else is not touched: {again}");
    let store = demo["store"].as_str().unwrap();
    let log = sandbox.ok(&["--store", store, "log", "t5", "--run", "1"]);
    assert!(log.contains("outcome  verify_failed"), "{log}");
}
