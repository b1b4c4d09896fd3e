//! `move`, `history` and `why`.

use std::process::{Child, Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::sandbox::Sandbox;

fn with_task() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    sandbox
}

#[test]
fn a_move_says_what_happened() {
    let sandbox = with_task();
    assert_snapshot!(sandbox.run(&["move", "t1", "active", "--as", "worker:ada"]), @"
    exit 0
    -- stdout
    ● t1  pending → active by worker:ada (claim)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    assert_snapshot!(sandbox.run(&["move", "1", "--on", "dependency_discovered", "--set", "unblock_condition=the key arrives"]), @"
    exit 0
    -- stdout
    ⚠ t1  active → blocked by human:kim (dependency_discovered)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    assert_snapshot!(sandbox.run(&["history", "t1"]), @r#"
    exit 0
    -- stdout
    #  TIME                 MOVE              TRIGGER                BY          CHANGES
    1  0000-00-00 00:00:00  pending           create                 human:kim   lifecycle="autonomous@ffffffffffffffff" project="repo" title="Fix the login"
    2  0000-00-00 00:00:00  pending → active  claim                  worker:ada  assignee="ada" worker_id="ada"
    3  0000-00-00 00:00:00  active → blocked  dependency_discovered  human:kim   prior="active" unblock_condition="the key arrives"
    -- stderr
    next: banksman show t1 · banksman audit export t1
    "#);
}

/// The words of `unblock` go where the lifecycle asks for them, as those of an answer do.
#[test]
fn unblock_gives_the_words_that_the_lifecycle_demands() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "Paint it", "--lifecycle", "mission", "--set", "assigneeIds=[\"ada\"]"]);
    sandbox.ok(&["move", "t1", "ASSIGNED"]);
    let plan = r#"workPlan={"bullets":["look","change","test"]}"#;
    sandbox.ok(&["move", "t1", "IN_PROGRESS", "--set", plan]);
    sandbox.ok(&["move", "t1", "BLOCKED", "--set", "blockReason=no paint"]);
    let why = sandbox.ok(&["why", "t1"]);
    assert!(why.contains("banksman unblock t1 TEXT"), "{why}");
    assert_snapshot!(sandbox.run(&["unblock", "t1"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      clarification: Say what has to be done differently
      allowed now: IN_PROGRESS, ASSIGNED, NEEDS_APPROVAL, CANCELED
    hint: banksman unblock t1 TEXT
    ");
    assert_snapshot!(sandbox.run(&["unblock", "t1", "use the green"]), @"
    exit 0
    -- stdout
    ● t1  BLOCKED → IN_PROGRESS by human:kim (unblock)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    assert_eq!(sandbox.json(&["show", "t1"])["fields"]["clarification"], "use the green");
}

#[test]
fn a_refused_move_says_what_is_missing_and_what_is_allowed() {
    let sandbox = with_task();
    assert_snapshot!(sandbox.run(&["move", "t1", "cancelled"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      reason: Say why it is cancelled
    hint: set a field with `--set FIELD=VALUE`
    ");
    assert_snapshot!(sandbox.run(&["move", "t1", "cancelled", "--json"]), @r#"
    exit 1
    -- stdout
    {"success":false,"errors":[{"field":"reason","message":"Say why it is cancelled"}],"allowedTransitions":[],"code":"BM-E010","hint":"set a field with `--set FIELD=VALUE`"}
    "#);
    assert_snapshot!(sandbox.run(&["move", "t1", "merge_ready"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      to: no transition from pending to merge_ready
      allowed now: cancelled
    ");
    assert_snapshot!(sandbox.run(&["move", "t1", "cancelled", "--as", "worker:ada", "--set", "reason=no"]), @"
    exit 1
    -- stderr
    error: refused (BM-E011)
      actor: worker may not move it to cancelled; human may
      allowed now: active
    hint: identify yourself with `--as ROLE:NAME`
    ");
    assert_eq!(sandbox.json(&["show", "t1"])["version"], 1, "unchanged");
}

#[test]
fn mistyped_names_are_answered_with_near_ones() {
    let sandbox = with_task();
    assert_snapshot!(sandbox.run(&["move", "t1", "activ", "--as", "worker:ada"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      to: the lifecycle autonomous has no state `activ`; did you mean `active`?
      allowed now: active
    ");
    assert_snapshot!(sandbox.run(&["move", "t1", "active", "--as", "wroker:ada"]), @"
    exit 1
    -- stderr
    error: refused (BM-E011)
      actor: the lifecycle autonomous has no role `wroker`; did you mean `worker`?
    hint: identify yourself with `--as ROLE:NAME`
    ");
    assert_snapshot!(sandbox.run(&["move", "t1", "cancelled", "--set", "raeson=no"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      raeson: the lifecycle autonomous has no such field; did you mean `reason`?
      reason: Say why it is cancelled
    hint: set a field with `--set FIELD=VALUE`
    ");
}

#[test]
fn a_move_is_made_once_per_key() {
    let sandbox = with_task();
    let args = ["move", "t1", "cancelled", "--set", "reason=no", "--key", "k", "--json"];
    let (first, again) = (sandbox.run(&args).document(), sandbox.run(&args).document());
    assert_eq!(first, again);
    assert_eq!(first["task"]["version"], 2);
    assert_snapshot!(sandbox.run(&["move", "t1", "dormant", "--key", "k"]), @"
    exit 1
    -- stderr
    error: the key `k` was used for another request (BM-E013)
    hint: use a new key for a new request
    ");
    let refused = sandbox.run(&["move", "t1", "dormant", "--key", "k", "--json"]);
    assert_eq!(refused.error()["code"], "BM-E013");
}

#[test]
fn a_version_that_is_gone_is_refused() {
    let sandbox = with_task();
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada", "--version", "1"]);
    assert_snapshot!(sandbox.run(&["move", "t1", "decomposing", "--as", "worker:ada", "--version", "1"]), @"
    exit 1
    -- stderr
    error: refused (BM-E012)
      version: t1 has moved on: you saw version 1, it is now 2
      allowed now: blocked
    hint: read the task again with `banksman show ID`, then retry
    ");
}

#[test]
fn a_move_needs_a_goal() {
    let sandbox = with_task();
    assert_snapshot!(sandbox.run(&["move", "t1"]), @"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      <STATE>

    Usage: banksman move <ID> <STATE>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.run(&["move", "t1", "active", "--set", "worker_id"]), @"
    exit 2
    -- stderr
    error: invalid value 'worker_id' for '--set <FIELD=VALUE>': write FIELD=VALUE

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.run(&["move", "t1", "active", "--set", "note=a", "--set", "note=b"]), @"
    exit 2
    -- stderr
    error: `note` is set twice (BM-E001)
    hint: set each field once
    ");
}

#[test]
fn fields_take_their_types() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "A mission", "--lifecycle", "mission"]);
    sandbox.ok(&["move", "t1", "ASSIGNED", "--set", "assigneeIds=ada,bo"]);
    let plan = "workPlan.bullets=[\"read\", \"think\", \"write\"]";
    let document = sandbox.json(&["move", "t1", "IN_PROGRESS", "--as", "human:kim", "--set", plan]);
    assert_eq!(document["task"]["fields"]["assigneeIds"], json!(["ada", "bo"]));
    assert_eq!(
        document["task"]["fields"]["workPlan"],
        json!({ "bullets": ["read", "think", "write"] })
    );
}

#[test]
fn why_names_what_a_task_waits_for() {
    let sandbox = with_task();
    sandbox.ok(&["add", "Ship it", "--after", "t1"]);
    assert_snapshot!(sandbox.run(&["why", "t1"]), @"
    exit 0
    -- stdout
    t1 is in pending
    WAITS FOR  UNTIL  WHO        WHAT
    queue             a worker   it is the first in the queue
    machine           a machine  no machine works on this store
    then: start agents: banksman up
    ");
    assert_snapshot!(sandbox.run(&["why", "t2"]), @"
    exit 0
    -- stdout
    t2 is in pending
    WAITS FOR  UNTIL  WHO  WHAT
    task              t1   t1 is pending: Fix the login
    then: it becomes ready when what it waits for is done
    ");
    assert_snapshot!(sandbox.run(&["why", "t2", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "task": "t2",
      "state": "pending",
      "waitingFor": [
        {
          "kind": "task",
          "detail": "t1 is pending: Fix the login",
          "who": "t1"
        }
      ],
      "next": "it becomes ready when what it waits for is done"
    }
    "#);
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada"]);
    assert_snapshot!(sandbox.run(&["why", "t1"]), @"
    exit 0
    -- stdout
    t1 is in active
    WAITS FOR  UNTIL                WHO     WHAT
    timer      0000-00-00 00:00:00  system  claim_timeout leads to failed
    then: it waits until that time
    ");
    sandbox.ok(&["move", "t2", "cancelled", "--set", "reason=no"]);
    assert_snapshot!(sandbox.run(&["why", "t2"]), @"
    exit 0
    -- stdout
    t2 is in cancelled
    then: nothing: cancelled is an end
    ");
}

/// Several processes ask for the same with the same key at the same time: one does it, all get its
/// answer.
#[test]
fn a_key_that_races_in_several_processes_is_used_once() {
    let sandbox = Sandbox::new();
    for round in 0..10 {
        let id = sandbox.add("Fix the login");
        let key = format!("round-{round}");
        let args = ["move", &id, "active", "--as", "worker:ada", "--key", &key, "--json"];
        let started: Vec<Child> = (0..4)
            .map(|_| sandbox.command(&args).stdout(Stdio::piped()).spawn().unwrap())
            .collect();
        let answers: Vec<Value> = started
            .into_iter()
            .map(|child| sandbox.finish(child.wait_with_output().unwrap()).document())
            .collect();
        assert_eq!(answers[0]["success"], Value::Bool(true));
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
        let history = sandbox.json(&["history", &id]);
        assert_eq!(history.as_array().map(Vec::len), Some(2), "born and moved once");
    }
}
