//! Tasks that nobody can take: they are tried three times, block, and come back by themselves when
//! somebody appears.

use std::collections::BTreeSet;

use banksman::store::Node;
use banksman::store::notices::Notice;
use banksman_core::time::Span;

use super::driver::{Driver, NODE};
use super::harness::{Harness, is_over, state, tasks};

const PATIENCE: Span = Span(100);
const HOUR: Span = Span(3_600_000);
/// The lifecycle of the demo with a way out for tasks that nobody serves.
const CHANGES: [(&str, &str); 2] = [
    (
        "counters:\n",
        "counters:\n  unserved: { limit: 3, then: blocked, set: { question: nobody can take it } }\n",
    ),
    (
        "transitions:\n",
        "transitions:\n  - { from: queued, to: queued, on: no_worker, by: [system], count: [unserved] }\n  - { from: blocked, to: queued, on: worker_available, by: [system], clear: [question] }\n",
    ),
];

fn turn_and_notices(driver: &Driver) -> Vec<Notice> {
    driver.turn();
    driver.notices()
}

#[test]
fn a_task_that_nobody_can_take_blocks_and_comes_back_when_somebody_can() {
    // Time passes here by the hour, and no run shall lose its lease by it.
    let harness = Harness::new(&[("limits.lease", "\"1d\"")]);
    let path = harness.path("repo/.banksman/lifecycles/demo.yaml");
    let mut lifecycle = std::fs::read_to_string(&path).expect("a lifecycle");
    for (from, to) in CHANGES {
        lifecycle = lifecycle.replacen(from, to, 1);
    }
    std::fs::write(&path, lifecycle).expect("written");
    let id = harness.add("crunch", &["--tag", "needs:gpu"]);
    let other = harness.add("anybody can", &[]);
    let mut driver = Driver::of(harness.root(), PATIENCE);

    let told = driver.turn_until("the other task is done", |store| state(store, other) == "done");
    let mut said: Vec<String> = told.notices;
    said.retain(|text| text.contains("t1"));
    driver.pass(HOUR);
    for hour in 1..3 {
        // Within the hour it is said once, however often one looks.
        let told: Vec<String> =
            (0..3).flat_map(|_| turn_and_notices(&driver)).map(|it| it.text).collect();
        let mut of_it = told.into_iter().filter(|text| text.starts_with("nobody can take t1"));
        said.push(of_it.next().unwrap_or_default());
        assert_eq!(of_it.next(), None);
        assert_eq!(state(&driver.store, id), if hour < 2 { "queued" } else { "blocked" });
        driver.pass(HOUR);
    }
    let missing = "nobody can take t1: no worker has all required capabilities; missing: gpu";
    assert_eq!(said[0], format!("{missing}; tried again in an hour"));
    assert_eq!(said[1], format!("{missing}; tried again in an hour"));
    assert_eq!(said[2], format!("{missing}; it waits until there is one"));

    // It has the capability, but does not do the work of such tasks.
    driver.hire("critic", "gpu");
    driver.terms.workers[1].worker.roles = BTreeSet::from(["reviewer".to_owned()]);
    driver.turn();
    assert_eq!(state(&driver.store, id), "blocked");

    driver.hire("cruncher", "gpu");
    driver.terms.workers[2].worker.roles.clear();
    // A turn was cut off right after it had put its new worker on record.
    let workers = driver.terms.workers.iter().map(|setup| setup.worker.clone()).collect();
    let node =
        Node { name: NODE.to_owned(), seen_at: driver.now(), capacity: 4, workers, awake: None };
    driver.store.put_node(&node).expect("a node");
    driver.turn_until("all are over", |store| {
        tasks(store).iter().all(is_over) && harness.jobs(NODE).is_empty()
    });
    assert_eq!(state(&driver.store, id), "done");
    assert_eq!(harness.starts().iter().filter(|run| *run == "r1.1").count(), 1);
    harness.assert_clean(&[NODE]);
}
