//! The JSON that scripts rely on, key by key.

use insta::assert_snapshot;
use serde_json::Value;

use super::reference::commands;
use super::sandbox::Sandbox;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_task() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "Fix the login", "--tag", "bug", "--set", "note=soon"]);
    assert_snapshot!(sandbox.run(&["show", "t1", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "id": "t1",
      "title": "Fix the login",
      "body": "",
      "project": "repo",
      "lifecycle": "autonomous",
      "lifecycleVersion": "ffffffffffffffff",
      "state": "pending",
      "kind": "queued",
      "group": null,
      "prior": null,
      "version": 1,
      "priority": 0,
      "batch": null,
      "tags": [
        "bug"
      ],
      "parent": null,
      "needs": [],
      "informedBy": [],
      "fields": {
        "blocks": 0,
        "conflicts": 0,
        "depth": 0,
        "note": "soon",
        "over_budget": 0,
        "rejections": 0,
        "retry_count": 0,
        "review_rounds": 0,
        "unheard": 0,
        "unreviewed": 0,
        "unserved": 0
      },
      "lease": null,
      "notBefore": null,
      "createdAt": "0000-00-00T00:00:00Z",
      "updatedAt": "0000-00-00T00:00:00Z",
      "enteredAt": "0000-00-00T00:00:00Z",
      "allowedTransitions": [
        "cancelled"
      ],
      "runs": []
    }
    "#);
    let page = sandbox.json(&["list"]);
    assert_eq!(keys(&page), ["next", "tasks"]);
    let shown = sandbox.json(&["show", "t1"]);
    let own = ["allowedTransitions", "runs"];
    let of_both: Vec<&str> = keys(&shown).into_iter().filter(|key| !own.contains(key)).collect();
    assert_eq!(keys(&page["tasks"][0]), of_both);
}

#[test]
fn a_move() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    let made = sandbox.json(&["move", "t1", "active", "--as", "worker:ada"]);
    assert_eq!(keys(&made), ["success", "task", "transition"]);
    let history = sandbox.json(&["history", "t1"]);
    assert_eq!(made["transition"], history[1]);
    let refused = sandbox.run(&["move", "t1", "done", "--json"]);
    assert_eq!(refused.code, Some(1));
    assert_eq!(refused.error()["errors"][0]["field"], "to");
}

#[test]
fn a_history() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "Fix the login", "--key", "k"]);
    assert_snapshot!(sandbox.run(&["history", "t1", "--json"]), @r#"
    exit 0
    -- stdout
    [
      {
        "ts": "0000-00-00T00:00:00Z",
        "task": "t1",
        "from": null,
        "to": "pending",
        "trigger": "create",
        "actor": "human:kim",
        "idempotency_key": "k",
        "seq": 1,
        "fields": {
          "lifecycle": "autonomous@ffffffffffffffff",
          "project": "repo",
          "title": "Fix the login"
        },
        "prev": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "hash": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
      }
    ]
    "#);
}

#[test]
fn an_exported_record_begins_with_the_keys_of_the_transition_log() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    let line = sandbox.ok(&["audit", "export"]);
    let order = [
        "ts",
        "task",
        "from",
        "to",
        "trigger",
        "actor",
        "idempotency_key",
        "seq",
        "fields",
        "prev",
        "hash",
    ];
    let places: Vec<usize> =
        order.iter().map(|key| line.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{line}");
}

#[test]
fn a_lifecycle() {
    let sandbox = Sandbox::empty();
    let document = sandbox.json(&["lifecycle", "show", "autonomous"]);
    assert_eq!(
        (&document["id"], &document["initial"]),
        (&Value::from("autonomous"), &Value::from("pending"))
    );
    let states = document["states"].as_array().unwrap();
    assert!(states.iter().all(|state| {
        ["id", "kind", "group", "terminal"].iter().all(|key| state.get(key).is_some())
    }));
    let rows = document["transitions"].as_array().unwrap();
    assert!(
        rows.iter()
            .all(|row| ["from", "to", "trigger", "roles"].iter().all(|key| row.get(key).is_some()))
    );
    let has = |from: &str, to: &str, trigger: &str| {
        rows.iter().any(|row| row["from"] == from && row["to"] == to && row["trigger"] == trigger)
    };
    assert!(has("pending", "active", "claim"));
    assert!(rows.iter().any(|row| row["from"] == "blocked" && row["to"] == "[prior]"));
    let bound = rows
        .iter()
        .find(|row| row["from"] == "active" && row["trigger"] == "claim_timeout")
        .unwrap();
    assert_eq!(bound["roles"], serde_json::json!(["system"]));
}

#[test]
fn the_other_documents() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    assert_snapshot!(sandbox.run(&["status", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "batches": [],
      "deadEffects": 0,
      "disk": {
        "bytes": 0,
        "complete": true
      },
      "needsPerson": [],
      "nextTimer": null,
      "openDecisions": 0,
      "parents": [],
      "paused": false,
      "pausedAccounts": [],
      "pendingEffects": 0,
      "projects": [
        {
          "name": "repo",
          "path": "[SANDBOX]/repo"
        }
      ],
      "ready": 1,
      "retrying": [],
      "running": [],
      "states": [
        {
          "kind": "queued",
          "state": "pending",
          "tasks": 1
        }
      ],
      "worktrees": 0
    }
    "#);
    assert_snapshot!(sandbox.run(&["audit", "verify", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "digest": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
      "expected": null,
      "findings": [],
      "ok": true,
      "records": 1,
      "tasks": 1
    }
    "#);
    assert_snapshot!(sandbox.run(&["init", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "path": "[SANDBOX]/repo",
      "project": "repo",
      "settings": "[SANDBOX]/repo/.banksman/config.toml",
      "settingsWritten": false,
      "store": "[SANDBOX]/kim/data/banksman/banksman.db"
    }
    "#);
    let version = sandbox.json(&["version"]);
    assert_eq!(keys(&version), ["arch", "commit", "os", "version"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_failure_is_one_document_on_stdout() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run(&["show", "t1", "--json"]), @r#"
    exit 1
    -- stdout
    {"success":false,"errors":[{"field":null,"message":"there is no task t1"}],"allowedTransitions":[],"code":"BM-E014","hint":"`banksman list` lists the tasks"}
    "#);
    assert_snapshot!(sandbox.run(&["show", "--json", "--frob"]), @r#"
    exit 2
    -- stdout
    {"success":false,"errors":[{"field":"--frob","message":"unexpected argument '--frob' found; to pass '--frob' as a value, use '-- --frob'"}],"allowedTransitions":[],"code":"BM-E001","hint":"`banksman help` lists the commands, `banksman help COMMAND` explains one"}
    "#);
    let failed = sandbox.run(&["add", "A", "--lifecycle", "none", "--json"]);
    assert_eq!(failed.error()["code"], "BM-E016");
    let missing = sandbox.run(&["move", "t1", "done", "--json", "--store", "none.db"]);
    assert_eq!((missing.code, &missing.error()["code"]), (Some(4), &Value::from("BM-E020")));
}

/// A usage error says in one document all that it says to people.
#[test]
fn a_usage_error_is_whole() {
    let sandbox = Sandbox::new();
    for (args, field, parts) in [
        (&["add"][..], Value::Null, &["<TITLE>"][..]),
        (&["--color", "red", "list"], "--color <WHEN>".into(), &["'red'", "auto, always, never"]),
        (&["list", "--limit", "x"], "--limit <N>".into(), &["'x'", "not a whole number"]),
        (
            &["daily", "--date", "x"],
            "--date <DATE>".into(),
            &["'x'", "write the date as 2026-11-14"],
        ),
        (&["show", "zz"], "<ID>".into(), &["`zz` is not a task id"]),
    ] {
        let error = sandbox.run(&[args, &["--json"]].concat()).error();
        let one = &error["errors"][0];
        let message = one["message"].as_str().unwrap();
        assert_eq!(one["field"], field, "{args:?}: {error}");
        assert!(parts.iter().all(|part| message.contains(part)), "{args:?}: {message}");
        assert!(!message.contains("Usage") && !message.contains("--help"), "{message}");
    }
    for (args, code) in [
        (&["show", "zz"][..], "BM-E034"),
        (&["list", "--as", "system"], "BM-E001"),
        (&["add", "A", "--as", "system"], "BM-E011"),
        (&["lifecycle", "graph", "mission", "-o", "x.bmp"], "BM-E001"),
    ] {
        assert_eq!(sandbox.run(&[args, &["--json"]].concat()).error()["code"], code, "{args:?}");
    }
    let empty = sandbox.run(&["--project", "nope", "list"]).stderr;
    assert!(empty.contains("no project `nope` was set up here"), "{empty}");
    let far = sandbox.run(&["help", "nope"]).stderr;
    assert!(!far.contains("did you mean"), "{far}");
}

#[test]
fn a_refusal_has_the_shape_of_every_failure() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    assert_snapshot!(sandbox.run(&["move", "t1", "cancelled", "--json"]), @r#"
    exit 1
    -- stdout
    {"success":false,"errors":[{"field":"reason","message":"Say why it is cancelled"}],"allowedTransitions":[],"code":"BM-E010","hint":"set a field with `--set FIELD=VALUE`"}
    "#);
    let several = sandbox.run(&["decisions", "approve", "t1", "d9", "--json"]);
    assert_eq!(several.code, Some(1), "{several}");
    let document = several.document();
    assert_eq!(document["refused"], 2);
    for (answer, decision) in document["answers"].as_array().unwrap().iter().zip(["t1", "d9"]) {
        let shape = ["allowedTransitions", "code", "decision", "errors", "hint", "success"];
        assert_eq!(keys(answer), shape);
        assert_eq!(answer["decision"], decision);
    }
}

#[test]
fn an_answer_that_ends_with_a_failing_exit_code_has_the_keys_of_every_failure() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    for (args, exit, code, own) in [
        (&["policy", "test", "git push --force"][..], 1, "BM-E044", "needsApproval"),
        (&["decisions", "approve", "t1", "d9"], 1, "BM-E019", "answers"),
        (&["audit", "verify", "--expect", "none"], 5, "BM-E041", "digest"),
    ] {
        let ran = sandbox.run(&[args, &["--json"]].concat());
        let document = ran.failed_answer();
        assert_eq!((ran.code, &document["code"]), (Some(exit), &code.into()), "{ran}");
        assert!(!document[own].is_null(), "its own keys stand beside them: {ran}");
    }
    let connection = rusqlite::Connection::open(sandbox.store()).unwrap();
    connection.execute("UPDATE tasks SET state = 'nowhere'", []).unwrap();
    let ran = sandbox.run(&["check", "--json"]);
    let document = ran.failed_answer();
    assert_eq!((ran.code, &document["code"]), (Some(5), &"BM-E041".into()), "{ran}");
    assert_eq!((&document["ok"], &document["findings"][0]["task"]), (&false.into(), &"t1".into()));
}

#[test]
fn an_output_that_cannot_be_written_is_reported_on_stderr() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    let output = sandbox.command(&["export", "--json"]).stdout(full()).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), &document["code"]), (Some(1), &Value::from("BM-E004")));
}

/// A device that no byte can be written to: then stderr is the only place left.
fn full() -> std::fs::File {
    std::fs::File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn what_a_lint_finds_is_the_document_of_every_failure() {
    let sandbox = Sandbox::empty();
    sandbox.file(".banksman/lifecycles/broken.yaml", "lifecycle: broken\n");
    sandbox.file(".workflow/specs/broken.yaml", "workflow: { id: w, nmae: W }\nsteps: []\n");
    sandbox.file(".banksman/prompts/wroker.md", "{nobody}\n");
    sandbox.file("policy.yaml", "commands:\n  - { run: make, class: BLUE }\n");
    for (args, code) in [
        (&["lifecycle", "lint"][..], "BM-E017"),
        (&["workflow", "lint"], "BM-E018"),
        (&["prompts", "lint"], "BM-E036"),
        (&["policy", "lint", "policy.yaml"], "BM-E037"),
    ] {
        let ran = sandbox.run(&[args, &["--json"]].concat());
        let error = ran.error();
        assert_eq!((ran.code, &error["code"]), (Some(5), &code.into()), "{args:?}: {ran}");
        for problem in error["errors"].as_array().unwrap() {
            assert!(problem["file"].is_string() && problem["line"].is_number(), "{ran}");
        }
    }
}

#[test]
fn topics_and_errors_fit_a_terminal_of_a_hundred_columns() {
    let sandbox = Sandbox::empty();
    for topic in ["exit-codes", "environment", "states", "formatting"] {
        let text = sandbox.ok(&["help", topic]);
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{topic}: {long:?}");
    }
}

/// Every command of the program with `t1` for each argument that it demands.
fn with_arguments(sandbox: &Sandbox) -> Vec<Vec<String>> {
    let filled = |mut path: Vec<String>| {
        let help = sandbox.ok(&[&path[..], &["-h".to_owned()]].concat());
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap();
        let demanded = usage.split_whitespace().filter(|word| word.starts_with('<'));
        let count = demanded.filter(|word| !word.contains("COMMAND")).count();
        path.extend(std::iter::repeat_n("t1".to_owned(), count));
        path
    };
    // The demo brings its own store.
    let all = commands(sandbox).into_iter().skip(1).filter(|path| path[0] != "demo");
    all.map(filled).collect()
}

#[test]
fn every_command_reports_a_bad_argument_the_same_way() {
    let sandbox = Sandbox::empty();
    for path in commands(&sandbox) {
        let ran = sandbox.run(&[&path[..], &["--frob".to_owned(), "--json".to_owned()]].concat());
        assert_eq!(
            (ran.code, &ran.error()["code"]),
            (Some(2), &Value::from("BM-E001")),
            "{path:?}"
        );
    }
}

#[test]
fn every_command_reports_a_store_that_cannot_be_there_the_same_way() {
    let sandbox = Sandbox::empty();
    let store = format!("{}/banksman.db", sandbox.file("file", "no folder"));
    let mut without_store = 0;
    for args in with_arguments(&sandbox) {
        let more = ["--json", "--store", &store].map(str::to_owned);
        let ran = sandbox.run(&[&args[..], &more].concat());
        assert_eq!(ran.stderr, "", "{args:?}: {ran}");
        if ran.code != Some(0) {
            let error = ran.error();
            without_store += usize::from(ran.code == Some(4));
            assert!(error["code"].as_str().unwrap().starts_with("BM-E"), "{args:?}: {ran}");
        }
    }
    assert!(without_store > 25, "only {without_store} commands noticed that there is no store");
}
