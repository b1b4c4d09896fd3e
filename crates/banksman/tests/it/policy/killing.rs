//! Budgets that are used up while everything is cut off or killed: each time one question, a yes
//! that counts once, never a run beyond it, and nothing that goes on waiting for nobody.

use std::collections::BTreeMap;

use banksman::store::Stored;
use banksman_core::ids::TaskId;
use banksman_core::time::Span;
use serde_json::Value;

use crate::engine::cutting::{cut_every_turn_off, kill_amid, kill_when};
use crate::engine::driver::Driver;
use crate::engine::harness::{Harness, Up, is_over, state_of};
use crate::engine::machines::Database;
use crate::engine::processes::wait_until;

const TASKS: usize = 3;
/// Time is passed in leaps here, and nobody renews a lease meanwhile.
const LEASE: (&str, &str) = ("limits.lease", "\"1d\"");
const ONE_A_DAY: (&str, &str) = ("budget.day_runs", "1");

/// Three tasks with a budget for one of them.
struct Desk {
    harness: Harness,
    driver: Driver,
}

impl Desk {
    fn of_day(harness: Harness) -> Self {
        harness.set(&[LEASE, ONE_A_DAY]);
        Self::with_tasks(harness, &[])
    }

    fn of_batch(harness: Harness) -> Self {
        harness.set(&[LEASE]);
        harness.ok(&["batch", "create", "spring", "--concurrency", "8", "--runs", "1"]);
        Self::with_tasks(harness, &["--batch", "spring"])
    }

    fn with_tasks(harness: Harness, more: &[&str]) -> Self {
        for number in 1..=TASKS {
            harness.add(&format!("part {number}"), more);
        }
        let driver = Driver::on(harness.root(), harness.store(), Span(100)).at_noon();
        Self { harness, driver }
    }

    /// The one question that is open.
    fn asked(&self) -> Option<String> {
        let mut inbox = self.driver.store.inbox().expect("readable");
        assert!(inbox.len() <= 1, "one question for all that wait: {inbox:?}");
        inbox.pop().map(|decision| decision.id.to_string())
    }

    fn until_asked(&self) -> String {
        wait_until("a person is asked", || self.asked().is_some());
        self.asked().expect("it was there")
    }

    fn is_over(&self) -> bool {
        let parts = (1..=TASKS).map(|number| TaskId(i64::try_from(number).expect("few")));
        let mut parts = parts.map(|id| self.driver.store.task(id).expect("a part"));
        parts.all(|part| is_over(&part))
            && self.harness.jobs("here").is_empty()
            && self.harness.worktrees().is_empty()
    }

    /// A person who says yes to whatever is asked; nobody starts more than that allows.
    fn yes(&self) -> impl FnMut() -> bool {
        let mut allowed = 1;
        move || {
            let starts = self.harness.starts();
            assert!(starts.len() <= allowed, "{allowed} were allowed: {starts:?}");
            if let Some(decision) = self.asked() {
                self.harness.ok(&["decisions", "approve", &decision]);
                allowed += 1;
            }
            self.is_over()
        }
    }

    fn left(&self) -> Left {
        self.harness.assert_clean(&["here"]);
        let all = self.harness.tasks();
        let moves_of = |id: TaskId| {
            let history = self.driver.store.history(id, 0).expect("a history");
            let moves = history.iter().map(|entry| &entry.record);
            moves.map(|record| format!("{} -> {}", record.trigger, record.to)).collect()
        };
        let questions = all.iter().filter(|stored| stored.lifecycle.id == "budget");
        let batches = self.harness.json(&["batch", "list"]);
        let mut starts = self.harness.starts();
        starts.sort();
        Left {
            tasks: {
                let how = |stored| format!("{}: {}", title(stored), state_of(stored));
                let mut tasks: Vec<String> = all.iter().map(how).collect();
                tasks.sort();
                tasks
            },
            starts,
            answers: questions
                .map(|stored| (title(stored).to_owned(), moves_of(stored.task.id)))
                .collect(),
            budget: batches["batches"][0]["budget"]["runs"].clone(),
        }
    }
}

fn title(stored: &Stored) -> &str {
    &stored.task.title
}

/// All that is left in the end, without times.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    tasks: Vec<String>,
    starts: Vec<String>,
    /// How each question has moved.
    answers: BTreeMap<String, Vec<String>>,
    /// The runs of the batch.
    budget: Value,
}

fn expected(whose: &str, moves: &[&str], budget: Value) -> Left {
    let asked = |how: &str| format!("The budget of {whose} is used up (runs: {how}");
    let questions = [asked("1 of 1); 2 tasks wait"), asked("2 of 2); 1 task waits")];
    let moves: Vec<String> = moves.iter().map(|one| (*one).to_owned()).collect();
    let granted = questions.iter().map(|question| format!("{question}: granted"));
    let done = (1..=TASKS).map(|number| format!("part {number}: done"));
    Left {
        tasks: granted.chain(done).collect(),
        starts: ["r1.1", "r2.1", "r3.1"].map(str::to_owned).to_vec(),
        answers: questions.into_iter().map(|question| (question, moves.clone())).collect(),
        budget,
    }
}

fn expected_of_day() -> Left {
    expected("the day", &["create -> asking", "go_on -> granted"], Value::Null)
}

fn expected_of_batch() -> Left {
    let moves = ["create -> asking", "go_on -> granted", "raised -> granted"];
    expected("batch spring", &moves, Value::from(TASKS))
}

fn cut_off(desk: &Desk) -> Left {
    let cuts = cut_every_turn_off(&desk.driver, &desk.harness, desk.yes());
    // Three runs begin and end, and two questions are asked, each with writes behind it.
    assert!(cuts >= 8, "it was cut off {cuts} times only");
    desk.left()
}

#[test]
fn the_budget_of_a_day_in_turns_that_are_cut_off_is_asked_about_once_each_time() {
    let desk = Desk::of_day(Harness::new(&[]));
    assert_eq!(cut_off(&desk), expected_of_day());
}

#[test]
fn the_budget_of_a_batch_in_turns_that_are_cut_off_is_raised_once_by_each_yes() {
    assert_eq!(cut_off(&Desk::of_batch(Harness::new(&[]))), expected_of_batch());
}

/// Until there is a question: a run that is claimed, and the question itself with what belongs to
/// it.
const ASKING: [&str; 4] = [
    "INSERT ON runs WHEN NEW.task = 1",
    "INSERT ON tasks WHEN NEW.title LIKE 'The budget%'",
    "INSERT ON decisions",
    "INSERT ON budget_requests",
];
/// A yes, as the person's own process writes it.
const ANSWERING: [&str; 2] = ["UPDATE ON tasks WHEN NEW.state = 'granted'", "UPDATE ON decisions"];
/// The budget that is raised, what says that it was, and the next run.
const GOING_ON: [&str; 3] = [
    "UPDATE OF budget_runs ON batches",
    "UPDATE OF applied ON budget_requests",
    "INSERT ON runs WHEN NEW.task = 2",
];

#[test]
fn a_budget_whose_up_is_killed_again_and_again_is_asked_about_and_raised_once_each_time() {
    let desk = Desk::of_batch(Harness::new(&[]));
    let Desk { harness, driver } = &desk;
    let amid = |write: &str| kill_amid(harness, &driver.store, write, || harness.up());
    ASKING.into_iter().for_each(amid);
    assert_eq!(desk.asked(), None);
    let up = harness.up();
    let first = desk.until_asked();
    kill_when(up, || harness.starts().len() == 1);
    let approve = ["decisions", "approve", &first];
    for write in ANSWERING {
        let person = || Up::start(harness.command(&approve), &harness.path("person.log"));
        kill_amid(harness, &driver.store, write, person);
        assert_eq!(desk.asked().as_ref(), Some(&first), "nobody has answered");
    }
    harness.ok(&approve);
    GOING_ON.into_iter().for_each(amid);
    assert_eq!(harness.starts(), ["r1.1"]);
    let up = harness.up();
    let second = desk.until_asked();
    kill_when(up, || harness.starts().len() == 2);
    harness.ok(&["decisions", "approve", &second]);
    let up = harness.up();
    wait_until("all is done", || desk.is_over());
    up.stop();
    assert_eq!(desk.left(), expected_of_batch());
}

mod needs_postgres {
    use super::*;

    #[test]
    fn the_budget_of_a_day_in_turns_that_are_cut_off_on_postgresql() {
        let database = Database::at_noon("cut_day");
        let desk = Desk::of_day(Harness::on_postgres(&database.url, &[]));
        assert_eq!(cut_off(&desk), expected_of_day());
    }

    #[test]
    fn the_budget_of_a_batch_in_turns_that_are_cut_off_on_postgresql() {
        let database = Database::new("cut_batch");
        let desk = Desk::of_batch(Harness::on_postgres(&database.url, &[]));
        assert_eq!(cut_off(&desk), expected_of_batch());
    }
}
