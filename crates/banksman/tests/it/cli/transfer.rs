//! `export` and `import`.

use banksman_core::lifecycle::contract::Purpose;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::sandbox::Sandbox;

#[test]
fn tasks_go_from_store_to_store() {
    let sandbox = Sandbox::new();
    sandbox.add("Gone before");
    sandbox.ok(&[
        "add",
        "First",
        "--tag",
        "a",
        "--priority",
        "2",
        "--batch",
        "b",
        "--set",
        "note=hm",
    ]);
    sandbox.feed(
        &["add", "Second", "--after", "t2", "--informed-by", "t1", "--parent", "t2", "--body", "-"],
        "ü\n".as_bytes(),
    );
    sandbox.ok(&["move", "t2", "cancelled", "--set", "reason=no"]);
    let lines = sandbox.ok(&["export"]);
    let other = Sandbox::new();
    other.add("Here before");
    assert_snapshot!(other.feed(&["import"], lines.as_bytes()), @"
    exit 0
    -- stdout
    t1 → t2
    t2 → t3
    t3 → t4
    -- stderr
    3 imported, 0 skipped as already imported
    ");
    let file = other.file("tasks.jsonl", &lines);
    assert_snapshot!(other.run(&["import", &file]), @"
    exit 0
    -- stdout
    t1 → t2  (already imported)
    t2 → t3  (already imported)
    t3 → t4  (already imported)
    -- stderr
    0 imported, 3 skipped as already imported
    ");
    let task = other.json(&["show", "t4"]);
    assert_eq!(
        (&task["title"], &task["body"], &task["parent"]),
        (&json!("Second"), &json!("ü\n"), &json!("t3"))
    );
    // A person is asked about what needs a cancelled task.
    assert_eq!((&task["needs"], &task["informedBy"]), (&json!([]), &json!(["t2", "t3"])));
    let same = |key: &str| {
        assert_eq!(other.json(&["show", "t3"])[key], sandbox.json(&["show", "t2"])[key], "{key}");
    };
    ["title", "state", "tags", "priority", "batch", "fields", "project", "lifecycle"]
        .into_iter()
        .for_each(same);
    assert_eq!(task["state"], "blocked");
    other.ok(&["check"]);
    other.ok(&["audit", "verify"]);
}

#[test]
fn a_line_needs_a_title_only() {
    let sandbox = Sandbox::new();
    let ran = sandbox.feed(&["import", "--json"], b"{\"title\":\"One\"}\n\n{\"title\":\"Two\"}\n");
    assert_snapshot!(ran, @r#"
    exit 0
    -- stdout
    {
      "imported": [
        {
          "from": null,
          "known": false,
          "to": "t1"
        },
        {
          "from": null,
          "known": false,
          "to": "t2"
        }
      ]
    }
    "#);
    assert_eq!(sandbox.json(&["show", "t1"])["project"], "repo");
}

#[test]
fn tasks_that_wait_for_each_other_are_refused() {
    let sandbox = Sandbox::new();
    let lines = [
        json!({ "id": "t0", "title": "Free" }),
        json!({ "id": "t1", "title": "A", "needs": ["t2"] }),
        json!({ "id": "t2", "title": "B", "needs": ["t1"] }),
    ];
    let text: String = lines.iter().map(|line: &Value| format!("{line}\n")).collect();
    assert_snapshot!(sandbox.feed(&["import"], text.as_bytes()), @"
    exit 1
    -- stderr
    error: these tasks wait for each other: t1, t2; nothing was imported (BM-E003)
    hint: remove one of the `needs` that close the circle
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "", "nothing was imported");
}

/// The engine alone creates tasks of its own purposes; an export has them with their state, and all
/// that they need.
#[test]
fn nobody_adds_a_task_of_the_engine() {
    const ENGINES: &str = "and only the engine creates such tasks";
    let sandbox = Sandbox::new();
    for purpose in Purpose::ALL {
        let Some(own) = purpose.engine_lifecycle() else { continue };
        let refused = sandbox.run(&["add", "x", "--lifecycle", own]);
        assert!(refused.stderr.contains(ENGINES), "{refused}");
        let line = json!({ "title": "x", "lifecycle": own });
        let refused = sandbox.feed(&["import"], format!("{line}\n").as_bytes());
        assert!(refused.stderr.contains(ENGINES), "{refused}");
    }
    let line = json!({ "title": "x", "lifecycle": "workflow", "state": "running" });
    assert_snapshot!(sandbox.feed(&["import"], format!("{line}\n").as_bytes()), @"
    exit 1
    -- stderr
    error: line 1: workflow: is missing, and every workflow is created with it; spec: is missing, and every workflow is created with it (BM-E010)
    hint: fix the line and import the file again; imported tasks are not added twice
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "", "nothing was created");
}

#[test]
fn a_bad_line_is_named_and_the_rest_can_be_repeated() {
    let sandbox = Sandbox::new();
    let good = "{\"id\":\"t1\",\"title\":\"Good\"}\n";
    assert_snapshot!(sandbox.feed(&["import"], format!("{good}{{\"title\":\n").as_bytes()), @"
    exit 1
    -- stderr
    error: line 2: is not JSON from column 9 on (BM-E003)
    hint: each line is one task as JSON, as `banksman export` writes it
    ");
    assert_snapshot!(sandbox.feed(&["import"], format!("{good}{{\"title\":\"B\",\"state\":\"pendin\"}}\n").as_bytes()), @"
    exit 1
    -- stderr
    error: line 2: state: the lifecycle autonomous has no such state; did you mean `pending`? (BM-E010)
    hint: fix the line and import the file again; imported tasks are not added twice
    ");
    assert_snapshot!(sandbox.feed(&["import"], good.as_bytes()), @"
    exit 0
    -- stdout
    t1 → t1  (already imported)
    -- stderr
    0 imported, 1 skipped as already imported
    ");
    for (line, said) in [
        ("[]", "line 1: is a list, and a task is an object (BM-E003)"),
        ("not json", "line 1: is not JSON from column 2 on (BM-E003)"),
        (
            r#"{"title":"a","lifecyle":"mission"}"#,
            "line 1: a task has no key `lifecyle`; did you mean `lifecycle`? (BM-E003)",
        ),
        (
            r#"{"title":"a","dueDate":"today"}"#,
            "line 1: a task has no key `dueDate`; known here: id, title, ",
        ),
        (
            r#"{"title":1}"#,
            "line 1: invalid type: integer `1`, expected a string at column 10 (BM-E003)",
        ),
    ] {
        let refused = sandbox.feed(&["import"], format!("{line}\n").as_bytes());
        assert!(refused.stderr.contains(said), "{refused}");
    }
    assert_snapshot!(sandbox.feed(&["import"], b"{\"title\":\"\xff\"}\n"), @"
    exit 1
    -- stderr
    error: line 1: is not UTF-8 after byte 10 (BM-E040)
    hint: each line is one task as JSON, as `banksman export` writes it
    ");
    assert_snapshot!(sandbox.run(&["import", "nowhere.jsonl"]), @"
    exit 1
    -- stderr
    error: failed to open `nowhere.jsonl` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
    let long = format!("{{\"title\":\"{}\"}}\n", "x".repeat(10 * 1024 * 1024));
    assert_snapshot!(sandbox.run(&["import", &sandbox.file("long.jsonl", long)]), @"
    exit 1
    -- stderr
    error: line 1: is longer than 2 MiB (BM-E040)
    hint: each line is one task as JSON, as `banksman export` writes it
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "t1\n");
}

#[test]
fn a_blocked_task_still_knows_where_it_came_from() {
    let sandbox = Sandbox::new();
    sandbox.add("Waits for the wording");
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada"]);
    let condition = "unblock_condition=agreed";
    sandbox.ok(&["move", "t1", "blocked", "--as", "worker:ada", "--set", condition]);
    let lines = sandbox.ok(&["export"]);
    let other = Sandbox::new();
    other.feed(&["import"], lines.as_bytes());
    assert_eq!(other.json(&["show", "t1"])["prior"], json!("active"));
    other.ok(&["move", "t1", "[prior]"]);
    assert_eq!(other.json(&["show", "t1"])["state"], json!("active"));
}
