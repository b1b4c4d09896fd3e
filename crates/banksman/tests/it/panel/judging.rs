//! Judges and evaluators of whole lifecycles: who is asked, and what happens to finished work that
//! nobody judges.

use banksman::store::Store;
use banksman_core::ids::TaskId;
use banksman_core::time::Span;
use serde_json::Value;

use super::table::{MINUTE, approval, verdict};
use crate::engine::driver::Driver;
use crate::engine::harness::{Harness, state};
use crate::planning::desk::one_subtask;

/// A commit of its own, and then success.
const WORK: &str = "run echo \"$BANKSMAN_RUN\" >>\"work-$BANKSMAN_TASK\"\nrun git add -A && git \
                    commit -qm \"work of ${BANKSMAN_RUN%%:*}\"\nsuccess it is written\n";

/// A worker that only works, and perhaps others with the same program and one role each.
fn site(others: &[(&str, &str)]) -> Harness {
    let harness = Harness::new(&[
        ("limits.lease", "\"1d\""),
        ("limits.agents", "8"),
        ("limits.idle", "\"40s\""),
        ("panel.retries", "0"),
        ("workers.scripted.roles", "[\"worker\"]"),
    ]);
    for (name, role) in others {
        harness.add_worker(name, role);
    }
    harness.script("t1", WORK);
    harness.script("any", &approval());
    harness
}

fn driver(harness: &Harness) -> Driver {
    Driver::of(harness.root(), Span(100))
}

fn until(driver: &Driver, id: TaskId, wanted: &str) -> Vec<String> {
    driver.turn_until(wanted, |store: &Store| state(store, id) == wanted).notices
}

/// How often the task's own worker ran.
fn runs(harness: &Harness) -> usize {
    harness.starts().iter().filter(|start| start.starts_with("r1.")).count()
}

fn is_merged(harness: &Harness) -> bool {
    harness.git(&["log", "--format=%s", "main"]).contains("work of r1.")
}

const LIFECYCLES: [(&str, &str, &str, &str); 2] = [
    ("judged", "judge", "blocked(no_judge)", "done"),
    ("supervised", "evaluator", "blocked(no_evaluator)", "complete"),
];

fn verdicts(driver: &Driver, review: &str) -> Value {
    let id: TaskId = review.parse().expect("a task");
    driver.store.task(id).expect("the review").task.fields["answer"].clone()
}

/// The worker with the role that the state names answers, and is told what it has to judge.
#[test]
fn whoever_has_the_role_of_the_state_judges_and_is_told_the_task() {
    for (lifecycle, role, _, done) in LIFECYCLES {
        let harness = site(&[("other", role)]);
        let body = harness.path("body.md");
        std::fs::write(&body, "Acceptance: the door is green.").expect("written");
        let body = body.display().to_string();
        let id = harness.add("paint the door", &["--lifecycle", lifecycle, "--body", &body]);
        let driver = driver(&harness);
        until(&driver, id, done);
        assert_eq!(verdicts(&driver, "t2")["verdict"], "APPROVE", "{lifecycle}");
        let review = driver.store.past_runs("t2".parse().expect("a task"), 1).expect("runs");
        assert_eq!(review[0].worker, "other");
        let told = harness.file("prompts/r2.1");
        for needed in ["paint the door", "the door is green", "git diff", "work-t1"] {
            assert!(told.contains(needed), "{lifecycle}: {needed} is missing: {told}");
        }
        assert!(is_merged(&harness) && runs(&harness) == 1, "{lifecycle}");
    }
}

/// The finished run is kept: it costs no second one, people hear of the missing role once, and at
/// the limit one of them decides.
#[test]
fn work_that_nobody_can_judge_is_kept_until_a_person_decides() {
    for (lifecycle, role, rests, done) in LIFECYCLES {
        let harness = site(&[]);
        let id = harness.add("paint it", &["--lifecycle", lifecycle]);
        let driver = driver(&harness);
        let mut told = until(&driver, id, rests);
        for _ in 0..2 {
            driver.pass(MINUTE);
            driver.pass(MINUTE);
            told.extend(driver.turn_until("it is judged again", |_| true).notices);
        }
        told.extend(until(&driver, id, "blocked(unsettled)"));
        let alerts: Vec<&String> =
            told.iter().filter(|text| text.starts_with("nobody judges t1: ")).collect();
        assert_eq!(alerts.len(), 1, "{told:?}");
        assert!(alerts[0].contains(&format!("no worker has the role {role}")), "{alerts:?}");
        assert_eq!(runs(&harness), 1, "{lifecycle}: the worker ran again");
        assert!(!is_merged(&harness), "nobody has accepted it");
        harness.ok(&["decisions", "approve", "t1"]);
        until(&driver, id, done);
        assert!(is_merged(&harness), "{lifecycle}");
    }
}

/// Every page says the same about a task that rests: what is missing, when it goes on by itself and
/// which attempt that was, and none of them asks a person.
fn tells_the_rest(harness: &Harness, because: &str, attempt: i64) {
    let why = harness.json(&["why", "t1"]);
    let waits = why["waitingFor"].as_array().expect("a list");
    let detail = waits[0]["detail"].as_str().expect("a text");
    assert_eq!(waits[0]["kind"], "delay", "{why}");
    assert!(detail.contains(because) && waits[0]["until"].is_string(), "{why}");
    assert!(!waits.iter().any(|one| one["kind"] == "person"), "{why}");
    assert_eq!(why["next"], "it is tried again at its time, or now: banksman retry t1");
    let status = harness.json(&["status"]);
    assert_eq!(status["needsPerson"], serde_json::json!([]), "{status}");
    let retry = &status["retrying"][0];
    assert_eq!((&retry["task"], &retry["nextTryAt"]), (&"t1".into(), &waits[0]["until"]));
    assert_eq!(retry["attempt"], attempt, "{status}");
    assert_eq!(status["nextTimer"], retry["nextTryAt"], "{status}");
    assert!(harness.ok(&["list"]).contains("↻"), "{}", harness.ok(&["list"]));
}

#[test]
fn what_rests_says_until_when_and_asks_nobody() {
    for (lifecycle, role, rests, _) in LIFECYCLES {
        let harness = site(&[]);
        let id = harness.add("paint it", &["--lifecycle", lifecycle]);
        until(&driver(&harness), id, rests);
        let because = format!(
            "it is asked again at this time, because no worker has the role {role} (attempt 1 of 3)"
        );
        tells_the_rest(&harness, &because, 2);
    }
    let harness = site(&[]);
    harness.script("t1", "crash\n");
    let id = harness.add("paint it", &["--lifecycle", "judged"]);
    until(&driver(&harness), id, "failed");
    tells_the_rest(&harness, "it is tried again at this time, because r1.1 ended with", 2);
}

/// Whoever has set up a judge need not wait, and the worker does not run again.
#[test]
fn retry_asks_for_a_judgement_at_once() {
    for (lifecycle, role, rests, done) in LIFECYCLES {
        let harness = site(&[]);
        let id = harness.add("paint it", &["--lifecycle", lifecycle]);
        until(&driver(&harness), id, rests);
        harness.add_worker("late", role);
        harness.ok(&["retry", "t1"]);
        until(&driver(&harness), id, done);
        assert_eq!(runs(&harness), 1, "{lifecycle}");
    }
}

/// Nonsense is no verdict, and no reason to run the worker again.
#[test]
fn a_judge_that_answers_nonsense_is_asked_again_and_the_worker_is_not() {
    for (lifecycle, role, rests, _) in LIFECYCLES {
        let harness = site(&[("other", role)]);
        harness.script("any", "success I have no idea\n");
        let id = harness.add("paint it", &["--lifecycle", lifecycle]);
        let driver = driver(&harness);
        for _ in 0..2 {
            until(&driver, id, rests);
            driver.pass(MINUTE);
            driver.pass(MINUTE);
        }
        until(&driver, id, "blocked(unsettled)");
        assert_eq!(runs(&harness), 1, "{lifecycle}");
    }
}

/// A quarrel is for a person, whose words reach the worker and the next judge.
#[test]
fn a_person_settles_a_concern_with_words_that_the_next_judge_reads() {
    for (lifecycle, role, _, done) in LIFECYCLES {
        let harness = site(&[("other", role)]);
        harness.script("t2", &verdict("CONCERN", "is it green?", &["it may be blue"]));
        let id = harness.add("paint it", &["--lifecycle", lifecycle]);
        let driver = driver(&harness);
        until(&driver, id, "blocked(unsettled)");
        harness.ok(&["decisions", "changes", "t1", "use more green"]);
        driver.pass(MINUTE);
        driver.pass(MINUTE);
        until(&driver, id, done);
        assert!(harness.file("prompts/r1.2").contains("use more green"), "{lifecycle}");
        assert!(harness.file("prompts/r3.1").contains("use more green"), "{lifecycle}");
    }
}

/// A worker that alone has the role judges itself with a warning, or not at all.
#[test]
fn own_work_is_judged_with_a_warning_or_not_at_all() {
    for (own_work, wanted) in [("allow", "done"), ("refuse", "blocked(no_judge)")] {
        let harness = site(&[]);
        harness.set(&[
            ("workers.scripted.roles", "[\"worker\", \"judge\"]"),
            ("panel.own_work", &format!("{own_work:?}")),
        ]);
        let id = harness.add("paint it", &["--lifecycle", "judged"]);
        let driver = driver(&harness);
        let told = until(&driver, id, wanted);
        let task = driver.store.task(id).expect("the task").task;
        if own_work == "allow" {
            let warning = "judged its own work, because no other worker could";
            assert_eq!(task.fields["verdicts"][0]["warning"], warning);
            let decided = harness.ok(&["show", "t1"]);
            assert!(decided.contains(warning), "{decided}");
        } else {
            let reason = "only scripted, which did the work, has the role judge";
            assert!(told.iter().any(|text| text.contains(reason)), "{told:?}");
        }
    }
}

/// A task is for workers of its role and its model, and a lane bounds each role.
#[test]
fn the_role_and_the_model_of_a_task_choose_its_worker() {
    let harness = site(&[("doc", "docser"), ("deep", "worker")]);
    harness.set(&[("workers.deep.model", "\"opus\""), ("workers.deep.cost", "5")]);
    for name in ["t1", "t2", "t3", "t4"] {
        harness.script(name, "silent\n");
    }
    let add = |more: &[&str]| harness.add("x", &[&["--lifecycle", "judged"], more].concat());
    let plain = add(&[]);
    let docs = add(&["--set", "role=docser"]);
    let deep = add(&["--set", "model=opus"]);
    let more = add(&["--set", "role=docser"]);
    let driver = driver(&harness);
    driver.turn_until("three have begun", |_| harness.starts().len() == 3);
    let worker =
        |id: TaskId| driver.store.past_runs(id, 1).expect("runs").pop().map(|run| run.worker);
    assert_eq!(worker(plain).as_deref(), Some("scripted"));
    assert_eq!(worker(docs).as_deref(), Some("doc"));
    assert_eq!(worker(deep).as_deref(), Some("deep"));
    assert_eq!(worker(more), None);
    let why = harness.ok(&["why", "t4"]);
    assert!(why.contains("the lane of docser is full: the limit is 1 run"), "{why}");
    for id in [plain, docs, deep, more] {
        harness.ok(&["cancel", &id.to_string(), "over"]);
    }
    driver.turn_until("all have ended", |_| harness.agents().is_empty());
}

/// The reviewers of a plan and of its pull request are different ones.
#[test]
fn plans_and_pull_requests_have_reviewers_of_their_own() {
    let harness = site(&[("other", "reviewer"), ("pia", "planner")]);
    harness.set(&[
        ("panel.reviewers", "[\"critic\"]"),
        ("panel.plan_reviewers", "[\"architect\", \"custodiet\"]"),
    ]);
    let plan = one_subtask();
    harness.script("r1.1", &format!("answer {plan}\nsuccess the plan is ready\n"));
    let id = harness.add("paint it", &["--lifecycle", "autonomous"]);
    let driver = driver(&harness);
    until(&driver, id, "waiting");
    let who = |driver: &Driver| -> Vec<String> {
        let task = driver.store.task(id).expect("the task").task;
        let list = task.fields["verdicts"].as_array().expect("verdicts").clone();
        list.iter().filter_map(|one| Some(one["reviewer"].as_str()?.to_owned())).collect()
    };
    assert_eq!(who(&driver), ["architect", "custodiet"]);
    harness.ok(&["decisions", "approve", "t1"]);
    until(&driver, id, "merge_ready");
    assert_eq!(who(&driver), ["critic"]);
}

/// A reviewer whose task has moved on is stopped at once, and none begins after that.
#[test]
fn reviewers_go_home_when_their_task_moves_on() {
    let harness = site(&[("other", "judge")]);
    harness.set(&[("panel.retries", "2")]);
    harness.script("t2", "silent\n");
    let id = harness.add("paint it", &["--lifecycle", "judged"]);
    let driver = driver(&harness);
    driver.turn_until("the judge has begun", |_| {
        harness.starts().iter().any(|start| start.starts_with("r2.1"))
    });
    harness.ok(&["cancel", &id.to_string(), "not wanted"]);
    driver.turn();
    let review = "t2".parse().expect("a task");
    assert_eq!(state(&driver.store, review), "withdrawn");
    driver.turn_until("the judge is gone", |_| harness.agents().is_empty());
    for _ in 0..4 {
        driver.pass(MINUTE);
        driver.turn();
    }
    assert!(!harness.starts().iter().any(|start| start.starts_with("r2.2")), "asked again");
}

/// Verdicts that are there when the time is over are on record, also if nobody was looking then.
#[test]
fn the_end_of_the_time_keeps_the_verdicts_that_are_there() {
    let harness = site(&[("other", "reviewer"), ("pia", "planner")]);
    let plan = one_subtask();
    harness.script("t1", &format!("answer {plan}\nsuccess the plan is ready\n"));
    harness.script("t3", "silent\n");
    let id = harness.add("paint it", &["--lifecycle", "autonomous"]);
    let driver = driver(&harness);
    driver.turn_until("one has answered", |store| {
        let review = "t2".parse().expect("a task");
        store.task(review).is_ok_and(|stored| stored.state().name == "answered")
    });
    for _ in 0..60 {
        driver.pass(MINUTE);
    }
    until(&driver, id, "waiting");
    let task = driver.store.task(id).expect("the task").task;
    assert_eq!(task.fields["verdicts"][0]["verdict"], "APPROVE");
    assert_eq!(task.fields["verdicts"][1]["verdict"], "MISSING");
    assert_eq!(task.fields["approval_type"], "escalated");
    driver.turn_until("all have gone home", |_| harness.agents().is_empty());
}

/// The words of a veto reach those who review the next version of the plan.
#[test]
fn the_next_reviewers_of_a_plan_read_the_veto() {
    let harness = site(&[("other", "reviewer"), ("pia", "planner")]);
    harness.set(&[("panel.reviewers", "[\"critic\"]")]);
    let plan = one_subtask();
    harness.script("t1", &format!("answer {plan}\nsuccess the plan is ready\n"));
    harness.script("t2", &verdict("BLOCK", "there is no spike for Redis", &[]));
    let id = harness.add("paint it", &["--lifecycle", "autonomous"]);
    let driver = driver(&harness);
    until(&driver, id, "waiting");
    let told = harness.file("prompts/r3.1");
    assert!(told.contains("there is no spike for Redis"), "{told}");
}
