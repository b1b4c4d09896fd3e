//! Nobody but a person answers, and only what he has seen: every other answer is refused and on
//! record.

use std::fs;
use std::process::Output;

use banksman_core::ids::TaskId;

use crate::engine::harness::{Harness, PROGRAM, state};

/// A task about which a person is asked.
fn asked() -> (Harness, TaskId) {
    let harness = Harness::new(&[]);
    harness.script("r1.1", "needs-person MIT or Apache?\nsuccess I have asked\n");
    let id = harness.add("choose", &[]);
    let up = harness.up();
    harness.until("it is blocked", |store| state(store, id) == "blocked");
    up.stop();
    (harness, id)
}

/// Who was refused on a task, in order.
fn refused(harness: &Harness, id: TaskId) -> Vec<String> {
    let records = harness.open().history(id, 0).expect("a history");
    let refusals = records.iter().filter(|entry| entry.record.trigger == "answer_refused");
    refusals.map(|entry| entry.record.actor.to_string()).collect()
}

fn in_run(harness: &Harness, args: &[&str]) -> Output {
    let mut command = harness.command(args);
    command.env("BANKSMAN_RUN", "r1.1:4711").env("BANKSMAN_TOKEN", "secret");
    command.output().expect("the program starts")
}

#[test]
fn a_run_that_answers_is_refused_and_on_record_once() {
    let (harness, id) = asked();
    for args in [
        &["decisions", "answer", "d1", "unblock"][..],
        &["decisions", "answer", "d1", "unblock", "--as", "human:kim"],
        &["decisions", "snooze", "d1", "1h"],
        &["policy", "allow", "d1", "--as", "human:kim"],
    ] {
        let said = in_run(&harness, args);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && text.contains("BM-E011"), "{args:?}: {text}");
    }
    let once = ["run:unknown"];
    assert_eq!(refused(&harness, id), once, "one that goes on knocking is on record once");
    // The same by way of a move, with a trick or two.
    for args in [
        &["unblock", "t1"][..],
        &["move", "t1", "--on", "unblock", "--as", "human:kim"],
        &["move", "t1", "cancelled", "--as", "lead:lu", "--set", "reason=x"],
        &["cancel", "t1", "no"],
        &["escalate", "t1", "no"],
    ] {
        let said = in_run(&harness, args);
        assert!(!said.status.success(), "{args:?}: {said:?}");
    }
    assert_eq!(harness.state(id), "blocked");
    assert_eq!(refused(&harness, id), once, "by the decision, or by its task");
    // A name that anybody can give itself writes into no history.
    let other = harness.add("not asked about", &[]);
    for args in [&["decisions", "undo"][..], &["decisions", "answer", "d78", "approve"]] {
        let mut command = harness.command(args);
        command.env("BANKSMAN_RUN", format!("r{}.1:4711", other.0)).env("BANKSMAN_TOKEN", "junk");
        assert!(!command.output().expect("the program starts").status.success());
    }
    assert_eq!(refused(&harness, other), [""; 0]);
    harness.ok(&["audit", "verify"]);
    harness.ok(&["check"]);
    // What was refused has changed nothing that a person could not answer any more.
    harness.ok(&["decisions", "answer", "d1", "unblock"]);
    assert_eq!(harness.state(id), "queued");
}

/// It has forgotten who it is, and has let go of its parent as well.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_empties_its_environment_is_known_by_its_keeper() {
    let (harness, id) = asked();
    let root = harness.root().display();
    let (home, store) = (harness.home("here"), harness.store());
    let bare = format!(
        "env -i PATH=/usr/bin:/bin HOME={root} USER=kim BANKSMAN_STORE={store} BANKSMAN_HOME={} {PROGRAM}",
        home.display()
    );
    let script = format!(
        "cd /\n{bare} decisions answer d1 unblock >{root}/said 2>&1\n\
         {bare} unblock t1 >>{root}/said 2>&1\n\
         (setsid sh -c '{bare} policy allow d1 --as human:kim >{root}/orphan 2>&1; echo over >{root}/over' &)\n\
         while ! test -e {root}/over; do sleep 0.05; done\n"
    );
    fs::write(harness.path("sly.sh"), script).expect("written");
    harness.script("r2.1", "run sh \"$YARD/sly.sh\"\nwrite a.txt x\ncommit work\nsuccess done\n");
    let other = harness.add("answer it yourself", &[]);
    let up = harness.up();
    harness.until("the other one is done", |store| state(store, other) == "done");
    up.stop();
    assert_eq!(harness.state(id), "blocked", "{}", harness.file("said"));
    assert_eq!(harness.file("said").matches("BM-E011").count(), 2, "{}", harness.file("said"));
    assert!(harness.file("orphan").contains("BM-E011"), "{}", harness.file("orphan"));
    assert_eq!(refused(&harness, id), ["run:unknown"], "without its token it is nobody's run");
    harness.ok(&["audit", "verify"]);
    harness.ok(&["decisions", "answer", "d1", "unblock"]);
}

#[test]
fn an_answer_that_comes_twice_or_too_late_is_refused_and_on_record() {
    let (harness, id) = asked();
    harness.ok(&["decisions", "answer", "d1", "unblock", "--key", "k"]);
    let version = harness.open().task(id).expect("the task").task.version;
    // The same request again gets its first answer, and nothing happens twice.
    let again = harness.json(&["decisions", "answer", "d1", "unblock", "--key", "k"]);
    assert_eq!(again["replayed"], true);
    assert_eq!(harness.open().task(id).expect("the task").task.version, version);
    assert_eq!(refused(&harness, id), Vec::<String>::new());

    let replayed = harness.run(&["decisions", "answer", "d1", "unblock"]);
    assert!(String::from_utf8_lossy(&replayed.stderr).contains("BM-E012"), "{replayed:?}");
    assert_eq!(refused(&harness, id), ["human:kim"]);
    assert_eq!(harness.state(id), "queued");
    harness.ok(&["audit", "verify"]);
}

#[test]
fn an_answer_to_an_old_revision_or_by_no_person_is_refused_and_on_record() {
    let (harness, id) = asked();
    let old = harness.run(&["decisions", "answer", "d1", "unblock", "--seen", "1"]);
    assert!(String::from_utf8_lossy(&old.stderr).contains("BM-E012"), "{old:?}");
    let agent = harness.run(&["decisions", "answer", "d1", "unblock", "--as", "worker:bob"]);
    assert!(String::from_utf8_lossy(&agent.stderr).contains("BM-E011"), "{agent:?}");
    assert_eq!(refused(&harness, id), ["human:kim", "worker:bob"]);
    assert_eq!(harness.state(id), "blocked");
    harness.ok(&["audit", "verify"]);
    harness.ok(&["decisions", "answer", "d1", "unblock"]);
}

#[test]
fn what_asks_for_no_action_cannot_be_allowed() {
    let (harness, id) = asked();
    let said = harness.run(&["policy", "allow", "d1"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("asks for no action"), "{said:?}");
    assert_eq!(harness.state(id), "blocked");
}
