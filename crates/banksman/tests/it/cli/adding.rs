//! `init` and `add`.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use super::sandbox::Sandbox;

#[test]
fn init_makes_a_store_and_a_file_and_says_what_is_next() {
    let sandbox = Sandbox::empty();
    assert_snapshot!(sandbox.run(&["init"]), @"
    exit 0
    -- stdout
    project   repo
    folder    [SANDBOX]/repo
    store     [SANDBOX]/kim/data/banksman/banksman.db
    settings  [SANDBOX]/repo/.banksman/config.toml (written)
    -- stderr
    next: banksman add 'TITLE' · banksman list · banksman help
    ");
    let settings = fs::read_to_string(sandbox.repo().join(".banksman/config.toml")).unwrap();
    let values = settings
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with('['));
    assert_eq!(values.count(), 0, "every value of the template is a comment: {settings}");
}

#[test]
fn init_twice_changes_nothing() {
    let sandbox = Sandbox::new();
    let file = sandbox.file(".banksman/config.toml", "lifecycle = \"mission\"\n");
    assert_snapshot!(sandbox.run(&["init"]), @"
    exit 0
    -- stdout
    project   repo
    folder    [SANDBOX]/repo
    store     [SANDBOX]/kim/data/banksman/banksman.db
    settings  [SANDBOX]/repo/.banksman/config.toml (unchanged)
    -- stderr
    next: banksman add 'TITLE' · banksman list · banksman help
    ");
    assert_eq!(fs::read_to_string(file).unwrap(), "lifecycle = \"mission\"\n");
    assert_eq!(sandbox.json(&["status"])["projects"].as_array().unwrap().len(), 1);
}

#[test]
fn init_finds_the_root_from_below() {
    let sandbox = Sandbox::empty();
    let below = sandbox.repo().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let output = sandbox
        .command(&["init", "--name", "shop", "--json"])
        .current_dir(&below)
        .output()
        .unwrap();
    let document = sandbox.finish(output).document();
    assert_eq!(document["project"], "shop");
    assert_eq!(document["path"], json!(sandbox.repo()));
    let output =
        sandbox.command(&["add", "From below", "--json"]).current_dir(&below).output().unwrap();
    assert_eq!(sandbox.finish(output).document()["task"]["project"], "shop");
}

#[test]
fn a_project_has_one_name_and_a_name_one_project() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run(&["init", "--name", "other"]), @"
    exit 1
    -- stderr
    error: this folder is already the project repo (BM-E003)
    hint: leave the name out, or give repo
    ");
    fs::create_dir_all(sandbox.path().join("second/.git")).unwrap();
    let output = sandbox
        .command(&["init", "--name", "repo"])
        .current_dir(sandbox.path().join("second"))
        .output();
    assert_snapshot!(sandbox.finish(output.unwrap()), @"
    exit 1
    -- stderr
    error: the project repo is already known at [SANDBOX]/repo (BM-E015)
    hint: choose another name: `banksman init --name NAME`
    ");
    assert_snapshot!(sandbox.run(&["init", "--name", "Bad Name"]), @"
    exit 1
    -- stderr
    error: this folder is already the project repo (BM-E003)
    hint: leave the name out, or give repo
    ");
}

#[test]
fn add_answers_with_the_task() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run(&["add", "Fix the login"]), @r#"
    exit 0
    -- stdout
    ◌ t1  pending  Fix the login
    -- stderr
    note: no checks are set, so others judge whether the work is done; set `verify.commands` in .banksman/config.toml, or give a task its own with --set verify='["COMMAND"]'
    next: banksman show t1 · banksman why t1
    "#);
    assert_snapshot!(sandbox.run(&["add", "-q", "Fix the logout"]), @"
    exit 0
    -- stdout
    t2
    ");
}

#[test]
fn add_takes_everything_that_a_task_has() {
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.add("First"), sandbox.add("Second"));
    let body = sandbox.file("body.md", "The whole story.\n\n\tIndented, with ümlauts.\n");
    let document = sandbox.json(&[
        "add",
        "Third",
        "--body",
        &body,
        "--tag",
        "bug",
        "--tag",
        "ui",
        "--priority",
        "-3",
        "--after",
        &first,
        "--informed-by",
        &second,
        "--parent",
        "1",
        "--batch",
        "night",
        "--project",
        "shop",
        "--set",
        "followup_depth=2",
        "--not-before",
        "2099-01-01T00:00:00Z",
        "--as",
        "worker:ada",
        "--key",
        "k1",
    ]);
    let task = &document["task"];
    assert_eq!(document["success"], true);
    assert_eq!(task["body"], "The whole story.\n\n\tIndented, with ümlauts.\n");
    assert_eq!(task["tags"], json!(["bug", "ui"]));
    assert_eq!(
        (&task["priority"], &task["project"], &task["batch"]),
        (&json!(-3), &json!("shop"), &json!("night"))
    );
    assert_eq!(
        (&task["needs"], &task["informedBy"], &task["parent"]),
        (&json!(["t1"]), &json!(["t2"]), &json!("t1"))
    );
    assert_eq!(task["fields"]["followup_depth"], 2);
    assert_eq!(task["notBefore"], "2099-01-01T00:00:00Z");
    assert_eq!(document["transition"]["actor"], "worker:ada");
    assert_eq!(document["transition"]["idempotency_key"], "k1");
}

#[test]
fn a_body_comes_from_standard_input() {
    let sandbox = Sandbox::new();
    let ran = sandbox.feed(&["add", "Notes", "--body", "-", "--json"], b"one\ntwo\n");
    assert_eq!(ran.document()["task"]["body"], "one\ntwo\n");
}

#[test]
fn the_same_key_adds_once() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["add", "Once", "--key", "k"]);
    assert_snapshot!(sandbox.run(&["add", "Once", "--key", "k"]), @r#"
    exit 0
    -- stdout
    ◌ t1  pending  Once  (already added with this key)
    -- stderr
    note: no checks are set, so others judge whether the work is done; set `verify.commands` in .banksman/config.toml, or give a task its own with --set verify='["COMMAND"]'
    next: banksman show t1 · banksman why t1
    "#);
    assert_snapshot!(sandbox.run(&["add", "Something else", "--key", "k"]), @"
    exit 1
    -- stderr
    error: the key `k` was used for another request (BM-E013)
    hint: use a new key for a new request
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "t1\n");
}

#[test]
fn what_a_task_cannot_be_is_refused_all_at_once() {
    let sandbox = Sandbox::new();
    let args = ["add", "", "--tag", "two words", "--priority", "5000", "--set", "colour=red"];
    assert_snapshot!(sandbox.run(&args), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      title: a task needs a title
      tags: `two words` is not a tag: one word of at most 64 bytes
      priority: goes from -1000 to 1000
      colour: the lifecycle autonomous has no such field; known here: allowed_paths, approval_type, asked, assignee, blocked_on, checkpoint, children_asked, children_cancelled, children_done, children_given_up, children_in_review, children_merged, children_open, children_problem, children_waiting, concerns, confirmation, decision_deadline, demands, denied_paths, diagnostic, estimate, feedback, followup_depth, given_up, irreducible, left_out, merged, merged_as, model, note, objection, overridden, plan, plan_history, plan_version, pr_comments, pr_head, pr_url, problem, reason, retry_from, review_summary, role, split, subtasks, target_area, touches, unblock_condition, verdicts, verify, worker_id
    hint: set a field with `--set FIELD=VALUE`
    ");
    assert_snapshot!(sandbox.run(&[&args[..], &["--json"]].concat()), @r#"
    exit 1
    -- stdout
    {"success":false,"errors":[{"field":"title","message":"a task needs a title"},{"field":"tags","message":"`two words` is not a tag: one word of at most 64 bytes"},{"field":"priority","message":"goes from -1000 to 1000"},{"field":"colour","message":"the lifecycle autonomous has no such field; known here: allowed_paths, approval_type, asked, assignee, blocked_on, checkpoint, children_asked, children_cancelled, children_done, children_given_up, children_in_review, children_merged, children_open, children_problem, children_waiting, concerns, confirmation, decision_deadline, demands, denied_paths, diagnostic, estimate, feedback, followup_depth, given_up, irreducible, left_out, merged, merged_as, model, note, objection, overridden, plan, plan_history, plan_version, pr_comments, pr_head, pr_url, problem, reason, retry_from, review_summary, role, split, subtasks, target_area, touches, unblock_condition, verdicts, verify, worker_id"}],"allowedTransitions":[],"code":"BM-E010","hint":"set a field with `--set FIELD=VALUE`"}
    "#);
    assert_snapshot!(sandbox.run(&["add", "Late", "--after", "t9"]), @"
    exit 1
    -- stderr
    error: there is no task t9 (BM-E014)
    hint: `banksman list` lists the tasks
    ");
    assert_snapshot!(sandbox.run(&["add", "Odd", "--lifecycle", "autonomus"]), @"
    exit 1
    -- stderr
    error: there is no lifecycle `autonomus`; did you mean `autonomous`? (BM-E016)
    hint: `banksman lifecycle list` lists the lifecycles
    ");
    assert_eq!(sandbox.ok(&["list", "-q"]), "");
}
