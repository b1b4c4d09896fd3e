//! Projects and batches.

use banksman::store::places::Batch;
use banksman::store::{Add, StoreError};
use banksman_core::machine::NewTask;
use banksman_core::schedule::{Budget, Used};

use super::acts::{NOON, added, at_once, load};
use super::on_both;
use super::world::World;

on_both!(a_project_has_one_folder, projects_that_race_have_one_folder, a_batch_counts_its_tasks);

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
    store.put_batch("friday", 2, NOON).unwrap();
    store.put_batch("friday", 9, NOON).expect("one that is there stays as it is");
    store.put_batch("empty", 0, NOON).unwrap();
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
