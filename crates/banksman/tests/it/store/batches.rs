//! Projects and batches.

use std::thread;

use banksman::store::batches::{Batch, BatchChange, BudgetChange, NewBound};
use banksman::store::{Add, Store, StoreError};
use banksman_core::machine::NewTask;
use banksman_core::schedule::{Budget, Used};

use super::acts::{HOUR, NOON, added, at_once, exactly, load, put_batch};
use super::on_both;
use super::world::World;
use crate::engine::processes::wait_until;

on_both!(
    a_project_has_one_folder,
    projects_that_race_have_one_folder,
    a_batch_counts_its_tasks,
    a_bound_that_is_lifted_is_gone_and_the_others_stay,
    bounds_that_two_people_set_at_once_are_both_kept,
    a_batch_is_created_with_its_limits_or_not_at_all,
    one_batch_is_read_however_many_there_are,
);

fn a_project_has_one_folder(world: &World) {
    let store = world.open();
    store.put_project("site", "/srv/site", NOON).unwrap();
    store.put_project("site", "/srv/site", NOON).expect("the same again is fine");
    store.put_project("größe", "/srv/größe 1", NOON).unwrap();
    let error = store.put_project("site", "/srv/other", NOON).expect_err("the name is taken");
    assert_eq!(error.to_string(), "the project site is already known at /srv/site");
    let known = [("größe", "/srv/größe 1"), ("site", "/srv/site")];
    let known = known.map(|(name, path)| (name.to_owned(), path.to_owned()));
    let mut projects = world.open().projects().unwrap();
    projects.sort();
    assert_eq!(projects, known);
    assert_eq!(store.overview().unwrap().projects.len(), 2);
}

fn projects_that_race_have_one_folder(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..20 {
        let name = format!("p{round}");
        let answers = at_once(4, |thread| {
            handles[thread % 2].put_project(&name, ["/a", "/b"][thread / 2], NOON)
        });
        let folder = world.raw().value(&format!("SELECT path FROM projects WHERE name = '{name}'"));
        for (thread, answer) in answers.into_iter().enumerate() {
            let own = Some(["/a", "/b"][thread / 2].to_owned()) == folder;
            match answer {
                Ok(()) => assert!(own, "round {round}: {thread} got {folder:?}"),
                Err(StoreError::ProjectTaken(_, _)) => assert!(!own, "round {round}"),
                Err(error) => panic!("round {round}: {error:?}"),
            }
        }
    }
}

fn a_batch_counts_its_tasks(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 2);
    let change = BatchChange { concurrency: Some(9), ..change(exactly(Budget::default())) };
    assert!(!store.create_batch("friday", change, NOON).unwrap(), "it is there and stays as it is");
    put_batch(&store, "empty", 0);
    for number in 0..3 {
        let new = NewTask { batch: Some("friday".to_owned()), ..load(&number.to_string()).new };
        added(&store, Add { new, ..load("") });
    }
    added(&store, load("of no batch"));
    let batch = |name: &str, concurrency, tasks| Batch {
        name: name.to_owned(),
        concurrency,
        paused: false,
        budget: Budget::default(),
        used: Used::default(),
        tasks,
        running: 0,
        done: 0,
        given_up: 0,
    };
    assert_eq!(
        world.open().overview().unwrap().batches,
        [batch("empty", 1, 0), batch("friday", 2, 3)]
    );
}

fn budget(store: &Store) -> Budget {
    store.batches().expect("the batches are read").remove(0).budget
}

fn change(budget: BudgetChange) -> BatchChange {
    BatchChange { budget, ..BatchChange::default() }
}

fn a_bound_that_is_lifted_is_gone_and_the_others_stay(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 2);
    let all = Budget { runs: Some(3), tokens: Some(500), cost_micros: Some(7), time: Some(HOUR) };
    assert!(store.set_batch("friday", change(exactly(all))).unwrap());
    assert_eq!(budget(&store), all);
    let lifted = BudgetChange { cost_micros: NewBound::Lifted, ..BudgetChange::default() };
    assert!(store.set_batch("friday", change(lifted)).unwrap());
    assert_eq!(budget(&store), Budget { cost_micros: None, ..all });
    assert!(store.set_batch("friday", change(exactly(Budget::default()))).unwrap());
    assert_eq!(budget(&store), Budget::default());
}

fn bounds_that_two_people_set_at_once_are_both_kept(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 2);
    let mut somebody = world.raw();
    somebody.run("BEGIN; UPDATE batches SET budget_tokens = 500 WHERE name = 'friday'");
    let runs = BudgetChange { runs: NewBound::Most(3), ..BudgetChange::default() };
    thread::scope(|scope| {
        let second = scope.spawn(|| store.set_batch("friday", change(runs)));
        wait_until("the second waits", || somebody.is_waited_for() != Some(false));
        somebody.run("COMMIT");
        assert!(second.join().expect("no panic").expect("it is set"));
    });
    let both = Budget { runs: Some(3), tokens: Some(500), ..Budget::default() };
    assert_eq!(budget(&store), both);
}

fn a_batch_is_created_with_its_limits_or_not_at_all(world: &World) {
    let store = world.open();
    let of = |runs| change(BudgetChange { runs: NewBound::Most(runs), ..BudgetChange::default() });
    let handles = [world.open(), world.open()];
    let created = at_once(4, |thread| {
        handles[thread % 2].create_batch("friday", of(thread as i64 + 1), NOON).unwrap()
    });
    let winner = created.iter().position(|created| *created).expect("one of them");
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
    assert_eq!(budget(&store).runs, Some(winner as i64 + 1));
    assert!(!store.create_batch("friday", of(9), NOON).unwrap());
    assert_eq!(budget(&store).runs, Some(winner as i64 + 1));
}

fn one_batch_is_read_however_many_there_are(world: &World) {
    let store = world.open();
    let mut raw = world.raw();
    let row = |number: i32| format!("('a{number:04}', 1, 0)");
    let rows: Vec<String> = (0..1_000).map(row).collect();
    raw.run(&format!(
        "INSERT INTO batches (name, concurrency, created_at) VALUES {}",
        rows.join(", ")
    ));
    put_batch(&store, "zeta", 2);
    let new = NewTask { batch: Some("zeta".to_owned()), ..load("lift").new };
    added(&store, Add { new, ..load("") });
    assert!(store.batches().unwrap().iter().all(|batch| batch.name != "zeta"));
    let zeta = store.batch("zeta").unwrap().expect("it is found by its name");
    assert_eq!((zeta.concurrency, zeta.tasks), (2, 1));
    assert_eq!(store.batch("omega").unwrap(), None);
}
