//! `up` is killed while it plans, while a panel sits, between an approval and the subtasks that
//! come of it, and while these are merged: all ends as if nothing had been, with every subtask,
//! every reviewer and every merge once.

use std::collections::BTreeMap;
use std::fs;

use banksman_core::ids::{RunId, TaskId};

use super::desk::{ANYBODY, Desk, PARENT, answer, plan, rate_limits, subtask};
use crate::engine::cutting::{kill_amid, kill_when};
use crate::engine::harness::{state_of, tasks};
use crate::engine::processes::wait_until;

const CONCERN: &str = r#"answer {"verdict":"CONCERN","rationale":"where are counts kept?","concerns":["no spike"],"suggestions":[]}
success looked
"#;
const WITHDRAWS: &str = r#"answer {"response":"WITHDRAW","rationale":"Redis is in use already"}
success looked
"#;

/// When `up` is killed.
#[derive(Clone, Copy)]
enum Moment {
    /// The agent of this run has begun. It is at work until then.
    Begun(&'static str),
    /// The task has come into this state.
    In(TaskId, &'static str),
    /// In the middle of a transaction, right after it has written this.
    Amid(&'static str),
}

use Moment::{Amid, Begun, In};

const PLANNING: [Moment; 9] = [
    Begun("r1.1"),
    Amid("UPDATE ON tasks WHEN NEW.id = 1 AND json_extract(NEW.fields, '$.plan_version') = 1"),
    Begun("r1.2"),
    // The second of two reviewers.
    Amid("INSERT ON tasks WHEN NEW.id = 3"),
    Begun("r3.1"),
    Amid("UPDATE ON tasks WHEN NEW.id = 3 AND NEW.kind = 'done'"),
    Amid("INSERT ON tasks WHEN NEW.title LIKE 'critic debates%'"),
    Begun("r4.1"),
    Amid("UPDATE ON tasks WHEN NEW.id = 1 AND NEW.state = 'waiting'"),
];
const SPLITTING: [Moment; 6] = [
    // Between the first subtask and the last, between the subtasks and what they need, and when
    // all is there but not known to be.
    Amid("INSERT ON tasks WHEN NEW.title = 'Do routes'"),
    Amid("INSERT ON edges"),
    Amid("UPDATE ON outbox WHEN NEW.task = 1 AND NEW.state = 'done'"),
    Begun("r5.1"),
    In(TaskId(5), "review"),
    In(TaskId(5), "merge_ready"),
];
/// The first subtask waits for its merge before it is asked about.
const WORKING: [Moment; 1] = [In(TaskId(5), "merge_ready")];
const FOLLOWING: [Moment; 6] = [
    // Before the merge that a person has said yes to, when it was begun but is not known to be,
    // and when it is done but not known to be.
    Amid("UPDATE ON tasks WHEN NEW.id = 5 AND NEW.state = 'merge_ready(merging)'"),
    In(TaskId(5), "merge_ready(merging)"),
    Amid("UPDATE ON outbox WHEN NEW.task = 5 AND NEW.attempts = 1"),
    Amid("UPDATE ON tasks WHEN NEW.id = 5 AND NEW.state = 'done'"),
    Amid("UPDATE ON tasks WHEN NEW.id = 1 AND NEW.state = 'review'"),
    Amid("UPDATE ON tasks WHEN NEW.id = 1 AND NEW.state = 'merge_ready'"),
];

/// One plan that is too big and one that is not, and a concern that is given up. An agent that `up`
/// is killed beside waits until then.
fn desk(killed_at: [&[Moment]; 3]) -> Desk {
    let desk = Desk::empty();
    let until_go = "run until [ -f \"$YARD/go-${BANKSMAN_RUN%%:*}\" ]; do sleep 0.02; done\n";
    let too_big = answer(&plan(&[subtask("everything", 15)], &[]));
    let good = answer(&rate_limits());
    let scripts = [
        ("r1.1", &*too_big),
        ("r1.2", &*good),
        ("r3.1", CONCERN),
        ("r4.1", WITHDRAWS),
        ("r5.1", ANYBODY),
    ];
    for (run, script) in scripts {
        let waits = killed_at.concat().iter().any(|at| matches!(at, Begun(begun) if *begun == run));
        let before = if waits { until_go } else { "" };
        desk.harness.script(run, &format!("{before}{script}"));
    }
    desk
}

fn kill_at(desk: &Desk, moment: Moment) {
    match moment {
        Begun(run) => {
            kill_when(desk.harness.up(), || desk.harness.starts().iter().any(|one| one == run));
            fs::write(desk.harness.path(&format!("go-{run}")), "").expect("written");
        }
        In(id, state) => kill_when(desk.harness.up(), || has_been(desk, id, state)),
        Amid(write) => kill_amid(&desk.harness, &desk.driver.store, write, || desk.harness.up()),
    }
}

/// It may not be there yet.
fn is_in(desk: &Desk, id: TaskId, state: &str) -> bool {
    desk.driver.store.task(id).is_ok_and(|stored| state_of(&stored) == state)
}

fn has_been(desk: &Desk, id: TaskId, state: &str) -> bool {
    let history = desk.driver.store.history(id, 0);
    history.is_ok_and(|all| all.iter().any(|entry| entry.record.to == state))
}

/// All that is left in the end, without times, and without the numbers of tasks that are made side
/// by side.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    /// Each task by its title, how often there is one, and how it stands.
    tasks: BTreeMap<String, usize>,
    starts: Vec<String>,
    /// How the parent has moved.
    moves: Vec<String>,
    children: Vec<(String, String, Vec<String>)>,
    /// What was merged.
    merges: Vec<String>,
    body: String,
    verdicts: String,
}

impl Left {
    fn of(desk: &Desk) -> Self {
        let store = &desk.driver.store;
        let mut all = BTreeMap::new();
        for stored in tasks(store) {
            let how = format!("{}: {}", stored.task.title, state_of(&stored));
            *all.entry(how).or_default() += 1;
        }
        let title = |run: &String| {
            let run: RunId = run.parse().expect("a run");
            let title = store.task(run.task).expect("its task").task.title;
            format!("{title}, {}", run.epoch)
        };
        let mut starts: Vec<String> = desk.harness.starts().iter().map(title).collect();
        starts.sort();
        let history = store.history(PARENT, 0).expect("a history");
        let moves = history.iter().map(|entry| &entry.record);
        let verdicts = desk.field("verdicts");
        Self {
            tasks: all,
            starts,
            moves: moves.map(|record| format!("{} -> {}", record.trigger, record.to)).collect(),
            children: desk.children(),
            merges: {
                let log = desk.harness.git(&["log", "--merges", "--format=%s", "main"]);
                let mut subjects: Vec<String> = log.lines().map(str::to_owned).collect();
                subjects.sort();
                subjects
            },
            body: desk.parent().task.body,
            verdicts: verdicts.to_string(),
        }
    }
}

/// The whole way, with `up` killed at moments.
fn lived(desk: &Desk, [planning, splitting, following]: [&[Moment]; 3]) -> Left {
    let kill = |moments: &[Moment]| moments.iter().for_each(|moment| kill_at(desk, *moment));
    let until = |id: TaskId, state: &str| wait_until(state, || is_in(desk, id, state));
    kill(planning);
    let up = desk.harness.up();
    until(PARENT, "waiting");
    assert_eq!(desk.children(), [], "nothing is made before a person has approved it");
    up.kill();
    desk.harness.ok(&["decisions", "approve", "t1"]);
    kill(splitting);
    let merge = |id: TaskId| {
        until(id, "merge_ready");
        desk.harness.ok(&["decisions", "merge", &id.to_string()]);
    };
    let up = desk.harness.up();
    merge(TaskId(7));
    up.kill();
    desk.harness.ok(&["decisions", "merge", "t5"]);
    kill(following);
    let up = desk.harness.up();
    until(PARENT, "merge_ready");
    merge(TaskId(6));
    until(PARENT, "done");
    wait_until("all is put away", || {
        desk.harness.jobs("here").is_empty() && desk.harness.worktrees().is_empty()
    });
    up.stop();
    desk.harness.assert_clean(&["here"]);
    Left::of(desk)
}

/// No task is there twice and nothing was lost, wherever `up` is killed.
#[track_caller]
fn ends_the_same(killed_at: [&[Moment]; 3]) {
    let undisturbed: [&[Moment]; 3] = [&[], &WORKING, &[]];
    let expected = lived(&desk(undisturbed), undisturbed);
    assert!(expected.tasks.values().all(|count| *count == 1), "{expected:#?}");
    assert_eq!((expected.children.len(), expected.merges.len()), (3, 3));
    assert!(expected.verdicts.contains("WITHDRAWN"), "{}", expected.verdicts);
    assert_eq!(lived(&desk(killed_at), killed_at), expected);
}

#[test]
fn a_plan_whose_up_is_killed_while_it_is_made_ends_the_same() {
    ends_the_same([&PLANNING, &WORKING, &[]]);
}

#[test]
fn a_plan_whose_up_is_killed_while_it_is_carried_out_ends_the_same() {
    ends_the_same([&[], &SPLITTING, &FOLLOWING]);
}
