//! From the first look at a task to its subtasks merged.

use banksman_core::time::Span;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::desk::{Desk, PARENT, answer, plan, rate_limits, subtask};
use crate::engine::cutting::FULL;

fn child(name: &str, state: &str, needs: &[&str]) -> (String, String, Vec<String>) {
    (name.to_owned(), state.to_owned(), needs.iter().map(|need| (*need).to_owned()).collect())
}

/// `why` of the parent says what to type where one of its subtasks waits for a person.
fn assert_names_who_waits(desk: &Desk, child: &str) {
    let next = desk.harness.json(&["why", "t1"])["next"].clone();
    let child = desk.child(child);
    let asked =
        format!("its subtasks move it on; {child} waits for a person: banksman decisions show d");
    assert!(next.as_str().is_some_and(|next| next.starts_with(&asked)), "{next}");
}

/// The parent shows the progress of its subtasks as its own. Its reviews are children as well, and
/// are not counted.
fn assert_progress(desk: &Desk, done: i64, total: i64) {
    let document = desk.harness.json(&["show", "t1"]);
    assert_eq!(document["children"]["done"], done, "{document}");
    assert_eq!(document["children"]["total"], total, "{document}");
    let shown = desk.harness.ok(&["show", "t1"]);
    let counted = shown.lines().find(|line| line.starts_with("children ")).expect("a line");
    assert!(counted.contains(&format!(" {done} of {total} done")), "{shown}");
    let listed =
        shown.lines().filter(|line| line.contains("  Do ") || line.contains("  Spike: ")).count();
    assert_eq!(i64::try_from(listed), Ok(total), "each has a line: {shown}");
    let list = desk.harness.ok(&["list"]);
    assert!(list.contains(&format!("in_progress ({done} of {total})")), "{list}");
    let page = desk.harness.json(&["list"]);
    let tasks = page["tasks"].as_array().expect("tasks");
    let counted: Vec<&str> = tasks
        .iter()
        .filter(|task| task["children"]["done"] == done && task["children"]["total"] == total)
        .filter_map(|task| task["id"].as_str())
        .collect();
    assert_eq!(counted, ["t1"], "only a parent has children: {page}");
    let status = desk.harness.json(&["status"]);
    assert_eq!(status["parents"][0]["task"], "t1", "{status}");
    assert_eq!(status["parents"][0]["children"]["total"], total, "{status}");
}

/// When the last subtask waits for its merge, so does the parent; but only the subtask has a
/// question.
fn assert_only_the_part_asks(desk: &Desk, name: &str) {
    let child = desk.child(name);
    let mut told = desk.until(child, "merge_ready");
    told.notices.extend(desk.until(PARENT, "merge_ready").notices);
    told.add(desk.driver.turn(), desk.driver.notices());
    let asks = format!("{child} is merge_ready: Do {name}");
    assert!(told.notices.iter().any(|text| text.starts_with(&asks)), "{told:?}");
    assert!(!told.notices.iter().any(|text| text.starts_with("t1 ")), "{told:?}");
}

/// The example of the document: two iterations, the panel, a person, subtasks, their pull requests,
/// the merge.
#[test]
fn a_task_is_planned_approved_and_carried_out_in_subtasks() {
    let mut second = rate_limits();
    second["spikes"] =
        json!([{ "id": "store", "question": "Redis or in memory?", "blocks": ["limiter"] }]);
    let desk = Desk::new(&[plan(&[subtask("everything", 15)], &[]), second]);
    desk.harness.script("t4", "success Redis is in use already\n");
    desk.until(PARENT, "waiting");
    assert_eq!(desk.harness.starts().iter().filter(|run| run.starts_with("r1.")).count(), 2);
    let told = desk.prompt("r1.2");
    assert!(told.contains("## Decomposition Proposal v1"), "{told}");
    assert!(told.contains("everything: it touches 15 files, more than the limit of 10"), "{told}");
    let body = desk.parent().task.body;
    assert!(
        body.contains("## Decomposition Proposal v2") && !body.contains("Proposal v1"),
        "{body}"
    );
    assert!(body.contains("| limiter | Do limiter | 2h       | medium     |"), "{body}");
    assert!(
        body.contains(
            "store -> limiter (blocks)\nlimiter -> routes (blocks)\nlimiter ~> docs (informs)"
        ),
        "{body}"
    );
    assert!(body.contains("- [ ] store: Redis or in memory?"), "{body}");
    assert_eq!(desk.field("approval_type"), "standard");
    assert_eq!(desk.children(), [], "nothing is made before a person has approved it");

    desk.harness.ok(&["decisions", "approve", "t1"]);
    desk.driver.turn();
    assert_eq!(desk.state(PARENT), "in_progress");
    let children: Vec<_> =
        desk.children().into_iter().map(|(name, _, needs)| (name, needs)).collect();
    let expected = [
        child("store", "", &[]),
        child("limiter", "", &["blocks t4"]),
        child("routes", "", &["blocks t5"]),
        child("docs", "", &["informs t5"]),
    ];
    assert_eq!(children, expected.map(|(name, _, needs)| (name, needs)));
    let limiter = desk.driver.store.detail(desk.child("limiter")).expect("it is there").stored;
    assert_eq!((limiter.task.priority, limiter.task.tags.as_slice()), (3, &["api".to_owned()][..]));
    assert!(
        limiter.task.body.contains("- [ ] limiter works")
            && limiter.task.body.contains("plan v2 of t1")
    );
    let why = desk.harness.json(&["why", "t1"]);
    assert_eq!(why["waitingFor"][0]["kind"], "child", "{why}");
    assert_progress(&desk, 0, 4);

    desk.merge("docs");
    assert_progress(&desk, i64::from(desk.state(desk.child("store")) == "done") + 1, 4);
    desk.until(desk.child("limiter"), "merge_ready");
    assert_names_who_waits(&desk, "limiter");
    let told = desk.prompt("r5.1");
    assert!(told.contains("Redis is in use already"), "{told}");
    assert_eq!(desk.state(desk.child("routes")), "pending", "it waits for the merge");
    assert_eq!(desk.state(PARENT), "in_progress");
    desk.merge("limiter");
    assert_only_the_part_asks(&desk, "routes");
    let links = desk.field("pr_url");
    assert_eq!(links.as_str().expect("links").split(' ').count(), 3, "{links}");
    assert_eq!(
        desk.driver.store.detail(PARENT).expect("it is there").decision,
        None,
        "nobody is asked twice"
    );
    desk.merge("routes");
    desk.until(PARENT, "done");
    let agents = desk.harness.starts();
    assert_eq!(agents.iter().filter(|run| run.starts_with("r1.")).count(), 2, "{agents:?}");
    desk.until_quiet();
}

#[test]
fn a_plan_of_one_subtask_is_carried_out_by_its_task() {
    let desk = Desk::new(&[plan(&[subtask("all", 3)], &[])]);
    desk.approve();
    desk.until(PARENT, "merge_ready");
    assert_eq!(desk.children(), []);
    assert_eq!(desk.field("split"), json!(false));
    assert!(desk.harness.starts().contains(&"r1.2".to_owned()), "a worker did it");
}

/// Every write after the approval is refused in turn, as if the machine had died there: there are
/// as many subtasks as planned.
#[test]
fn subtasks_are_made_once_wherever_it_is_cut_off() {
    let desk = Desk::new(&[rate_limits()]);
    desk.approve();
    let raw = Connection::open(desk.harness.path("store.db")).expect("the file opens");
    raw.execute_batch(&faults()).expect("the triggers are made");
    let mut cut_off = 0;
    for left in 0..200 {
        raw.execute("UPDATE fault SET left = ?1", [left]).expect("set");
        // An effect that was taken is taken again when the hold of the turn that died is over.
        desk.driver.pass(Span(11_000));
        if desk.driver.try_turn().is_ok() {
            break;
        }
        cut_off += 1;
        assert!([0, 3].contains(&desk.children().len()), "all of them or none");
    }
    raw.execute("UPDATE fault SET left = -1", []).expect("set");
    desk.driver.turn();
    assert!(cut_off > 10, "{cut_off} writes were refused");
    assert_eq!(desk.children().len(), 3);
    desk.harness.ok(&["check"]);
    desk.harness.ok(&["audit", "verify"]);
}

/// After `left` more rows every write is refused.
fn faults() -> String {
    let mut sql =
        format!("CREATE TABLE fault (left INTEGER NOT NULL); INSERT INTO fault VALUES (-1);{FULL}");
    for table in ["tasks", "edges", "outbox", "audit", "bodies"] {
        for write in ["INSERT", "UPDATE"] {
            sql += &format!(
                "CREATE TRIGGER fault_{write}_{table} AFTER {write} ON {table} BEGIN \
                 INSERT INTO no_space SELECT NULL FROM fault WHERE left = 0; \
                 UPDATE fault SET left = left - 1 WHERE left > 0; END;"
            );
        }
    }
    sql
}

/// What a person blocks and lets go on comes by the same way again.
#[test]
fn a_parent_that_resumes_creates_no_second_set_of_subtasks() {
    let desk = Desk::new(&[rate_limits()]);
    desk.approve();
    desk.driver.turn();
    assert_eq!(desk.children().len(), 3);
    desk.harness.ok(&["move", "t1", "blocked", "--set", "unblock_condition=wait"]);
    desk.harness.ok(&["unblock", "t1"]);
    desk.driver.turn();
    assert_eq!((desk.state(PARENT), desk.children().len()), ("in_progress".to_owned(), 3));
}

#[test]
fn parts_of_a_task_that_ends_end_with_it() {
    let desk = Desk::new(&[rate_limits()]);
    desk.harness.script("any", "answer {\"verdict\":\"APPROVE\",\"rationale\":\"good\",\"concerns\":[],\"suggestions\":[]}\nsuccess good\n");
    desk.approve();
    desk.driver.turn();
    desk.harness.ok(&["cancel", "t1", "out of scope"]);
    desk.driver.turn_until("all subtasks are cancelled", |_| {
        desk.children().iter().all(|(_, state, _)| state == "cancelled")
    });
    assert_eq!(desk.state(PARENT), "cancelled");
    desk.until_quiet();
}

/// It has no merge of its own that a person could tell it of.
#[test]
fn a_parent_is_not_done_before_its_subtasks_are() {
    let desk = Desk::new(&[rate_limits()]);
    desk.approve();
    desk.driver.turn();
    desk.merge("limiter");
    desk.merge("docs");
    desk.until(desk.child("routes"), "merge_ready");
    desk.until(PARENT, "merge_ready");
    desk.harness.ok(&["override", "t1", "merged=true", "--reason", "seen"]);
    let said = desk.harness.run(&["move", "t1", "done"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("done when each of its subtasks is merged"), "{said}");
    assert_eq!(desk.state(PARENT), "merge_ready");
    desk.merge("routes");
    desk.until(PARENT, "done");
}

/// Otherwise whoever splits a task decides what proves it.
#[test]
fn what_proves_and_bounds_a_task_holds_for_its_subtasks() {
    let desk = Desk::empty();
    let harness = &desk.harness;
    let given = [
        ("verify", json!(["true"])),
        ("allowed_paths", json!(["work-*"])),
        ("denied_paths", json!(["secret/"])),
        ("model", json!("scripted")),
    ];
    let set: Vec<String> = given
        .iter()
        .map(|(name, value)| {
            format!("{name}={}", value.as_str().map_or(value.to_string(), str::to_owned))
        })
        .collect();
    let set: Vec<&str> = set.iter().flat_map(|one| ["--set", one]).collect();
    let options = [&["--lifecycle", "autonomous"], set.as_slice()].concat();
    let id = harness.add("bounded", &options);
    harness.script(&id.to_string(), &answer(&rate_limits()));
    desk.until(id, "waiting");
    harness.ok(&["decisions", "approve", &id.to_string()]);
    desk.until(id, "in_progress");
    let children = desk.driver.store.children(id).expect("subtasks");
    let parts = children.iter().filter(|child| child.task.fields.contains_key("subtask"));
    let held = |name: &str| -> Vec<Value> {
        parts.clone().map(|part| part.task.fields[name].clone()).collect()
    };
    for (name, value) in given {
        assert_eq!(held(name), vec![value; 3], "{name}");
    }
}
