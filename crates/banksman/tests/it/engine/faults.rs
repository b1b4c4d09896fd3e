//! A fault of one task: it is told and on record, and the other tasks go on in the same turn.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use banksman::store::{HistoryEntry, Node};
use banksman_core::ids::TaskId;
use banksman_core::time::Span;
use rusqlite::Connection;
use serde_json::Value;

use super::driver::{Driver, NODE};
use super::harness::{Harness, is_over, state, tasks};
use super::processes::wait_until;

const PATIENCE: Span = Span(100);
/// What a fault is called in the history of its task.
const FAULT: &str = "engine_fault";

/// The runs of the tasks `t1` and `t2` have ended, and nobody has looked; `t3` can be started.
fn two_ended_runs() -> (Harness, Driver) {
    let harness = Harness::new(&[]);
    let driver = Driver::of(harness.root(), PATIENCE);
    for title in ["first", "second"] {
        harness.add(title, &[]);
    }
    assert_eq!(driver.turn().started.len(), 2);
    wait_until("both runs have ended", || harness.keepers().is_empty());
    harness.add("third", &[]);
    (harness, driver)
}

fn faults(driver: &Driver, id: i64) -> Vec<String> {
    let history = driver.store.history(TaskId(id), 0).expect("a history");
    let faults = history.iter().filter(|entry| entry.record.trigger == FAULT);
    let told = |entry: &HistoryEntry| {
        let reason = entry.record.fields["note.detail"].as_str().expect("the record says why");
        assert!((20..1_010).contains(&reason.len()) && !reason.contains('\n'), "{reason}");
        entry.record.actor.to_string()
    };
    faults.map(told).collect()
}

/// The other tasks got on in this turn, and the fault of the first one was told.
#[track_caller]
fn assert_others_go_on(driver: &Driver, told: &str) {
    let (turn, notices) = (driver.turn(), driver.notices());
    let ended: Vec<String> = turn.ended.iter().map(|(job, how)| format!("{job} {how}")).collect();
    assert!(ended.contains(&"r2.1 succeeded".to_owned()), "{turn:?}");
    let started: Vec<String> = turn.started.iter().map(|(job, _)| job.to_string()).collect();
    assert!(started.contains(&"r3.1".to_owned()), "{turn:?}");
    let told_of = |id: i64| {
        let of_task = notices.iter().filter(move |notice| notice.task == Some(TaskId(id)));
        of_task.filter(|notice| notice.urgent).map(|notice| notice.text.as_str())
    };
    assert!(told_of(1).any(|text| text.contains(told)), "{notices:?}");
    assert_eq!([told_of(2).next(), told_of(3).next()], [None, None]);
}

fn assert_all_done(harness: &Harness, driver: &Driver) {
    driver.turn_until("all tasks are over", |store| {
        tasks(store).iter().all(is_over) && harness.jobs(NODE).is_empty()
    });
    for id in 1..=3 {
        assert_eq!(state(&driver.store, TaskId(id)), "done", "t{id}");
    }
    harness.ok(&["audit", "verify"]);
    harness.assert_clean(&[NODE]);
}

#[test]
fn an_unreadable_receipt_counts_as_a_lost_run() {
    let (harness, driver) = two_ended_runs();
    let receipt = harness.home(NODE).join("runs/r1.1/receipt.json");
    fs::write(receipt, b"\xff\x00 garbage").expect("written");
    assert_others_go_on(&driver, "failed to read the receipt of r1.1");
    assert_eq!(faults(&driver, 1), ["system:collect"]);
    assert_all_done(&harness, &driver);
    assert!(harness.starts().contains(&"r1.2".to_owned()), "it is tried again");
}

/// Opening a pipe waits for a writer, and a device never ends: neither is opened.
#[test]
fn a_receipt_that_is_no_plain_file_holds_up_nobody_else() {
    for (program, args) in [("mkfifo", &[][..]), ("ln", &["-s", "/dev/zero"])] {
        let (harness, driver) = two_ended_runs();
        let receipt = harness.home(NODE).join("runs/r1.1/receipt.json");
        fs::remove_file(&receipt).expect("removed");
        let made = Command::new(program).args(args).arg(&receipt).status().expect("it starts");
        assert!(made.success());
        assert_others_go_on(&driver, "failed to read the receipt of r1.1");
        assert_all_done(&harness, &driver);
    }
}

#[test]
fn a_job_folder_that_cannot_be_read_waits_until_it_can() {
    let (harness, driver) = two_ended_runs();
    let folder = harness.home(NODE).join("runs/r1.1");
    let kept = ["keeper.json", "receipt.json"].map(|name| {
        let path = folder.join(name);
        (fs::read(&path).expect("a file of a job"), path)
    });
    fs::write(folder.join("keeper.json"), "{").expect("written");
    fs::remove_file(folder.join("receipt.json")).expect("removed");

    assert_others_go_on(&driver, "keeper.json");
    let recorded = faults(&driver, 1);
    assert!(recorded.contains(&"system:collect".to_owned()), "{recorded:?}");
    let again = driver.turn();
    assert_eq!(driver.notices(), [], "it is told once");
    assert_eq!(faults(&driver, 1), recorded, "it is recorded once");
    assert!(again.next.is_some_and(|next| next.since(again.at) <= Span(60_000)), "{again:?}");

    for (bytes, path) in kept {
        fs::write(path, bytes).expect("written");
    }
    assert_all_done(&harness, &driver);
    assert!(!harness.starts().contains(&"r1.2".to_owned()), "its work was not thrown away");
}

#[test]
fn a_damaged_task_waits_until_it_is_repaired() {
    let (harness, driver) = two_ended_runs();
    let raw = Connection::open(harness.path("store.db")).expect("the file opens");
    let read = "SELECT fields FROM tasks WHERE id = 1";
    let fields: String = raw.query_row(read, [], |row| row.get(0)).expect("a task");
    let write = "UPDATE tasks SET fields = ?1 WHERE id = 1";
    raw.execute(write, ["{\"pr_url\""]).expect("written");

    assert_others_go_on(&driver, "task t1 is damaged in the store");
    let check = harness.run(&["check"]);
    assert!(!check.status.success());
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.contains("t1"), "{said}");

    raw.execute(write, [&fields]).expect("written");
    assert_all_done(&harness, &driver);
    assert!(!harness.starts().contains(&"r1.2".to_owned()), "its work was not thrown away");
}

/// As a text is that the database refuses, or a panic in a transaction.
#[test]
fn a_broken_constraint_of_one_task_stops_no_other() {
    let (harness, driver) = two_ended_runs();
    let raw = Connection::open(harness.path("store.db")).expect("the file opens");
    let columns = "ts, from_state, to_state, trigger_name, actor, fields, prev, hash";
    let ahead = format!(
        "INSERT INTO audit (task, seq, {columns}) SELECT task, seq + 1, {columns} FROM audit
         WHERE task = 1 AND seq = (SELECT version FROM tasks WHERE id = 1)"
    );
    raw.execute(&ahead, []).expect("written");

    assert_others_go_on(&driver, "a row with this key already exists");

    let repair =
        "DELETE FROM audit WHERE task = 1 AND seq > (SELECT version FROM tasks WHERE id = 1)";
    raw.execute(repair, []).expect("written");
    assert_all_done(&harness, &driver);
}

/// A row that a query leaves out is told by the turn, and not only at the end of a command.
#[test]
fn what_a_turn_leaves_out_is_told_once() {
    let harness = Harness::new(&[]);
    let driver = Driver::of(harness.root(), PATIENCE);
    let seen_at = driver.now();
    let far =
        Node { name: "far".to_owned(), seen_at, capacity: 1, workers: Vec::new(), awake: None };
    driver.store.put_node(&far).expect("a node");
    let raw = Connection::open(harness.path("store.db")).expect("the file opens");
    raw.execute("UPDATE nodes SET workers = '['", []).expect("written");
    driver.turn();
    let told = driver.notices();
    assert!(matches!(told.as_slice(), [one] if one.urgent), "{told:?}");
    assert!(told[0].text.starts_with("damaged in the store: `far`: "), "{told:?}");
    driver.turn();
    assert_eq!(driver.notices(), []);
}

/// A task of another project.
fn two_projects() -> (Harness, PathBuf) {
    let harness = Harness::new(&[]);
    let (repo, other) = (harness.path("repo"), harness.path("other"));
    let copied = Command::new("cp").arg("-r").arg(&repo).arg(&other).status().expect("cp starts");
    assert!(copied.success());
    for args in [&["init"][..], &["add", "first"]] {
        let output = harness.command(args).current_dir(&other).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
    }
    harness.add("second", &[]);
    assert_eq!(harness.pulse()["started"].as_array().map(Vec::len), Some(2));
    wait_until("both runs have ended", || harness.keepers().is_empty());
    (harness, other.join(".banksman/config.toml"))
}

/// An effect's fault is that of the handler which could not carry it out.
#[test]
fn a_fault_of_an_effect_names_its_handler() {
    let (harness, settings) = two_projects();
    // Its run is put on record, and its merge ends.
    harness.pulse();
    wait_until("the merge has ended", || harness.keepers().is_empty());
    harness.ok(&["cancel", "t1", "too late"]);
    fs::write(&settings, "limits = = \n").expect("written");
    harness.pulse();
    let history = harness.ok(&["history", "t1"]);
    // The sweep of left worktrees needs the settings, too.
    for reconciler in ["system:clean_ups", "system:sweep"] {
        assert!(history.contains(reconciler), "{reconciler}: {history}");
    }
}

/// The program as it is: projects are read from their folders.
#[test]
fn a_project_whose_settings_do_not_parse_holds_up_its_own_tasks_only() {
    let (harness, settings) = two_projects();
    harness.add("third", &[]);
    let kept = fs::read(&settings).expect("settings");
    fs::write(&settings, "limits = = \n").expect("written");

    let pulse = harness.pulse();
    let jobs = |of: &str| -> Vec<String> {
        let all = pulse[of].as_array().into_iter().flatten();
        all.filter_map(|it| it["job"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(jobs("ended"), ["r2.1"], "{pulse}");
    assert!(jobs("started").contains(&"r3.1".to_owned()), "{pulse}");
    let told = |notice: &&Value| notice["task"] == "t1" && notice["urgent"] == true;
    let told: Vec<&Value> =
        pulse["notices"].as_array().into_iter().flatten().filter(told).collect();
    assert_eq!(told.len(), 1, "{pulse}");
    let text = told[0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("the settings of project other cannot be used: "), "{text}");
    let history = harness.ok(&["history", "t1"]);
    assert!(history.contains(FAULT), "{history}");

    fs::write(&settings, kept).expect("written");
    wait_until("all tasks are over", || {
        harness.pulse();
        harness.tasks().iter().all(is_over) && harness.jobs("here").is_empty()
    });
    assert_eq!(harness.state(TaskId(1)), "done");
    assert!(!harness.starts().contains(&"r1.2".to_owned()), "its work was not thrown away");
}

/// No further attempt would change it, so it is not tried again until a person says so.
#[test]
fn a_run_whose_settings_do_not_parse_goes_to_a_person_at_once() {
    let (harness, settings) = two_projects();
    let mut add = harness.command(&["add", "not begun"]);
    let added = add.current_dir(harness.path("other")).output().expect("it starts");
    assert!(added.status.success(), "{added:?}");
    let id = TaskId(3);
    let kept = fs::read(&settings).expect("settings");
    fs::write(&settings, "limits = = \n").expect("written");
    harness.pulse();
    assert_eq!(harness.state(id), "blocked");
    let asked = harness.ok(&["decisions", "show", "d1"]);
    assert!(asked.contains(".banksman/config.toml:"), "{asked}");
    let started = || harness.starts().iter().filter(|run| run.starts_with("r3.")).count();
    assert_eq!(started(), 0);

    fs::write(&settings, kept).expect("written");
    harness.ok(&["retry", "t3"]);
    wait_until("it is done", || {
        harness.pulse();
        harness.state(id) == "done"
    });
    assert_eq!(started(), 1);
}

/// Work in an empty folder proves nothing and is merged nowhere, so nobody is paid for it.
#[test]
fn no_agent_works_where_the_project_has_no_repository() {
    for (project, reason) in [("nowhere", "no folder is set up"), ("plain", "git init")] {
        for lifecycle in ["autonomous", "judged", "supervised", "mission"] {
            let harness = Harness::new(&[]);
            let plain = harness.path("plain");
            fs::create_dir(&plain).expect("created");
            let init = harness.command(&["init"]).current_dir(&plain).output().expect("it starts");
            assert!(init.status.success(), "{init:?}");
            let id = harness.add("lost", &["--lifecycle", lifecycle, "--project", project]);
            harness.pulse();
            harness.pulse();
            assert!(harness.starts().is_empty(), "{lifecycle}");
            let asked = harness.ok(&["decisions", "show", "t1"]);
            assert!(asked.contains(reason), "{lifecycle} {id}: {asked}");
        }
    }
}

/// A repository may hold anything; whoever opens a pipe waits for ever.
#[test]
fn a_pipe_in_a_project_holds_up_its_own_tasks_only() {
    let (harness, settings) = two_projects();
    let folder = settings.parent().expect("a folder");
    fs::create_dir_all(folder.join("prompts")).expect("created");
    // More tasks than the machine has room for: none may keep a slot that it cannot use.
    for number in 0..6 {
        let mut add = harness.command(&["add", &format!("waiting {number}")]);
        let added = add.current_dir(harness.path("other")).output().expect("it starts");
        assert!(added.status.success(), "{added:?}");
    }
    for name in ["config.toml", "policy.yaml", "prompts/worker.md"] {
        let (path, kept) = (folder.join(name), folder.join("kept"));
        if path.exists() {
            fs::rename(&path, &kept).expect("renamed");
        }
        assert!(Command::new("mkfifo").arg(&path).status().expect("it starts").success());
        let added = harness.command(&["add", name]).current_dir(harness.path("other")).output();
        assert_eq!(added.expect("it starts").status.success(), name == "prompts/worker.md");
        let id = harness.add("beside it", &[]);
        wait_until("the task of the other project is over", || {
            let pulse = harness.run(&["pulse", "--json"]);
            assert!(!pulse.stdout.is_empty(), "{pulse:?}");
            harness.state(id) == "done"
        });
        fs::remove_file(&path).expect("removed");
        if kept.exists() {
            fs::rename(&kept, &path).expect("renamed");
        }
    }
}
