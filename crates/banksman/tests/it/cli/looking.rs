//! `list`, `show`, `status`, `check` and `audit`: looking without touching.

use insta::assert_snapshot;
use serde_json::json;

use super::sandbox::Sandbox;

/// Three tasks in three states.
fn busy() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "Draw the plan", "--tag", "plan"]);
    sandbox.ok(&["add", "Lay the bricks", "--after", "t1", "--batch", "wall"]);
    sandbox.ok(&["add", "Paint the door", "--project", "door"]);
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada"]);
    sandbox.ok(&["move", "t3", "cancelled", "--set", "reason=nobody wants it"]);
    sandbox
}

#[test]
fn a_list_is_a_table() {
    assert_snapshot!(busy().run(&["list"]), @"
    exit 0
    -- stdout
       ID  STATE      SINCE  PROJECT  TITLE
    –  t3  cancelled  now    door     Paint the door
    ◌  t2  pending    now    repo     Lay the bricks
    ●  t1  active     now    repo     Draw the plan
    -- stderr
    next: banksman show ID · banksman why ID
    ");
}

#[test]
fn a_list_can_be_narrowed() {
    let sandbox = busy();
    let ids = |args: &[&str]| {
        sandbox.ok(&[&["list", "-q"], args].concat()).lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(&[]), "t3 t2 t1");
    assert_eq!(ids(&["--state", "active"]), "t1", "a state");
    assert_eq!(ids(&["--state", "queued"]), "t2", "a kind");
    assert_eq!(ids(&["--project", "door"]), "t3");
    assert_eq!(ids(&["--batch", "wall"]), "t2");
    assert_eq!(ids(&["--tag", "plan"]), "t1");
    assert_eq!(ids(&["--limit", "2"]), "t3 t2");
    assert_eq!(ids(&["--before", "t2"]), "t1");
    assert_snapshot!(sandbox.run(&["list", "--tag", "nothing"]), @"
    exit 0
    -- stderr
    no matching tasks
    next: banksman add 'TITLE' · banksman status
    ");
    assert_snapshot!(sandbox.run(&["list", "--state", "pendign"]), @"
    exit 0
    -- stderr
    no matching tasks, and no lifecycle here has a state `pendign`; did you mean `pending`?
    next: banksman add 'TITLE' · banksman status
    ");
}

#[test]
fn pages_lead_to_each_other() {
    let sandbox = busy();
    let page = sandbox.json(&["list", "--limit", "2"]);
    assert_eq!(page["next"], "t2");
    let page = sandbox.json(&["list", "--limit", "2", "--before", "t2"]);
    assert_eq!(page["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(page["next"], json!(null));
}

#[test]
fn a_list_has_bodies_and_needs_too() {
    let sandbox = Sandbox::new();
    sandbox.add("First");
    sandbox.feed(&["add", "Second", "--after", "1", "--body", "-"], b"text");
    let page = sandbox.json(&["list"]);
    assert_eq!(page["tasks"][0]["body"], "text");
    assert_eq!(page["tasks"][0]["needs"], json!(["t1"]));
}

#[test]
fn show_says_everything() {
    let sandbox = busy();
    assert_snapshot!(sandbox.run(&["show", "t1"]), @"
    exit 0
    -- stdout
    ● t1  Draw the plan
    state      active (working) since 0000-00-00 00:00:00
    lifecycle  autonomous ffffffffffffffff
    project    repo
    tags       plan
    assignee   ada
    worker_id  ada
    added      0000-00-00 00:00:00
    changed    0000-00-00 00:00:00, version 2
    allowed    blocked, cancelled
    -- stderr
    next: banksman why t1 · banksman history t1 · banksman move t1 STATE
    ");
    assert_snapshot!(sandbox.run(&["show", "2"]), @"
    exit 0
    -- stdout
    ◌ t2  Lay the bricks
    state      pending (queued) since 0000-00-00 00:00:00
    lifecycle  autonomous ffffffffffffffff
    project    repo
    batch      wall
    after      t1 active: Draw the plan
    added      0000-00-00 00:00:00
    changed    0000-00-00 00:00:00, version 1
    allowed    cancelled
    -- stderr
    next: banksman why t2 · banksman history t2 · banksman move t2 STATE
    ");
    assert_snapshot!(sandbox.run(&["show", "t9"]), @"
    exit 1
    -- stderr
    error: there is no task t9 (BM-E014)
    hint: `banksman list` lists the tasks
    ");
    assert_snapshot!(sandbox.run(&["show", "nine"]), @"
    exit 2
    -- stderr
    error: invalid value 'nine' for '<ID>': `nine` is not a task id

    For more information, try '--help'.
    ");
}

#[test]
fn what_is_allowed_depends_on_who_asks() {
    let sandbox = busy();
    let allowed =
        |role: &str| sandbox.json(&["show", "t2", "--as", role])["allowedTransitions"].clone();
    assert_eq!(allowed("human"), json!(["cancelled"]));
    assert_eq!(allowed("worker"), json!(["active"]));
}

#[test]
fn status_is_the_store_at_a_glance() {
    assert_snapshot!(busy().run(&["status"]), @"
    exit 0
    -- stdout
       STATE      KIND       TASKS
    ●  active     working    1
    –  cancelled  cancelled  1
    ◌  pending    queued     1
    ready      0
    running    0
    decisions  0 open
    effects    3 pending
    next timer 0000-00-00 00:00:00
    project    repo  [SANDBOX]/repo
    batch      wall  0 of 1 done, 0 of 4 running
    -- stderr
    next: banksman list --state STATE
    ");
    assert_snapshot!(Sandbox::new().run(&["status"]), @"
    exit 0
    -- stdout
    no tasks
    ready      0
    running    0
    decisions  0 open
    effects    0 pending
    project    repo  [SANDBOX]/repo
    -- stderr
    next: banksman add 'TITLE'
    ");
}

#[test]
fn a_sound_store_has_nothing_to_find() {
    let sandbox = busy();
    assert_snapshot!(sandbox.run(&["check"]), @"
    exit 0
    -- stdout
    3 tasks, no problems
    ");
    assert_snapshot!(sandbox.run(&["check", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "findings": [],
      "ok": true,
      "repaired": [],
      "tasks": 3,
      "warnings": []
    }
    "#);
    assert_snapshot!(sandbox.run(&["audit", "verify"]), @"
    exit 0
    -- stdout
    3 tasks, 5 records, no problems
    digest ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
    ");
}

#[test]
fn the_digest_notices_any_change() {
    let sandbox = busy();
    let digest = sandbox.json(&["audit", "verify"])["digest"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.run(&["audit", "verify", "--expect", &digest]).code, Some(0));
    sandbox.add("One more");
    assert_snapshot!(sandbox.run(&["audit", "verify", "--expect", &digest]), @"
    exit 5
    -- stdout
    the digest differs from the expected one: a task was added, changed or deleted
    4 tasks, 6 records, no problems
    digest ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
    ");
    let document = sandbox.run(&["audit", "verify", "--json", "--expect", &digest]).document();
    assert_eq!((&document["ok"], &document["expected"]), (&json!(false), &json!(digest)));
}

#[test]
fn the_history_is_written_out() {
    let sandbox = busy();
    let all = sandbox.ok(&["audit", "export"]);
    assert_eq!(all.lines().count(), 5);
    let own = sandbox.ok(&["audit", "export", "t1"]);
    assert_eq!(own.lines().count(), 2);
    assert!(all.starts_with(&own), "{all}");
    let file = sandbox.repo().join("t1.jsonl");
    sandbox.ok(&["audit", "export", "t1", "-o", file.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), own);
    assert_snapshot!(sandbox.run(&["audit", "export", "t1", "-o", "nowhere/t1.jsonl"]), @"
    exit 1
    -- stderr
    error: failed to write `nowhere/t1.jsonl` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
}
