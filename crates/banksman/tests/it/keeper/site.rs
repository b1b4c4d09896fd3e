//! The home of jobs: what has ended, what is put away, what is too old.

use std::fs;

use banksman::clock;
use banksman::exec::site::{JobStatus, Site, SiteError};
use banksman_core::time::Span;

use super::world::{SUCCESS, World, job, plan};

#[test]
fn what_has_ended_is_listed_until_it_is_put_away() {
    let world = World::new();
    for name in ["r2.1", "r10.1", "a3.4"] {
        world.run(&plan(name, SUCCESS));
    }
    // Without its sign it is found as well.
    fs::remove_file(world.path("ended/r2.1")).unwrap();
    let all = ["r2.1", "r10.1", "a3.4"].map(job);
    assert_eq!(world.site.ended().unwrap(), all);
    assert_eq!(world.site.jobs().unwrap(), all);

    world.site.put_away(job("r2.1"), clock::now()).unwrap();
    world.site.put_away(job("r10.1"), clock::now()).unwrap();
    assert_eq!(world.site.ended().unwrap(), [job("a3.4")]);
    // Whoever asks again, as after a crash, still learns how it ended.
    assert!(matches!(world.site.look(job("r2.1")).unwrap(), JobStatus::Ended(_)));
    world.site.begin(&plan("r2.1", SUCCESS)).unwrap();
    assert_eq!(world.site.jobs().unwrap(), [job("a3.4")], "and it is not done again");
    let past = world.site.past_folder(job("r2.1"));
    assert!(past.path().join("out.jsonl").is_file());
    assert!(past.receipt().unwrap().is_some());
    assert!(!world.path("ended/r10.1").exists());
    // After a crash it is done again.
    world.site.put_away(job("r2.1"), clock::now()).unwrap();
    assert!(past.path().is_dir());
}

#[test]
fn a_sign_without_a_job_goes_away() {
    let world = World::new();
    fs::write(world.path("ended/r1.1"), "").unwrap();
    fs::write(world.path("ended/.hidden"), "").unwrap();
    assert_eq!(world.site.ended().unwrap(), []);
    assert!(!world.path("ended/r1.1").exists());
    assert!(world.path("ended/.hidden").exists());
}

#[test]
fn old_logs_go_and_young_ones_stay() {
    let world = World::new();
    world.run(&plan("r1.1", SUCCESS));
    world.run(&plan("r2.1", SUCCESS));
    let now = clock::now();
    world.site.put_away(job("r1.1"), now.plus(Span(13 * 86_400_000))).unwrap();
    assert!(world.site.past_folder(job("r1.1")).path().is_dir());
    // Each process thins out with the first that it puts away, and then now and again.
    world.another_site().put_away(job("r2.1"), now.plus(Span(15 * 86_400_000))).unwrap();
    assert!(!world.site.past_folder(job("r1.1")).path().exists());
}

#[test]
fn a_receipt_that_cannot_be_read_hides_no_other() {
    let world = World::new();
    world.run(&plan("r1.1", SUCCESS));
    world.run(&plan("r2.1", SUCCESS));
    fs::write(world.folder("r1.1").path().join("receipt.json"), "{}").unwrap();
    assert_eq!(world.site.ended().unwrap(), [job("r1.1"), job("r2.1")]);
    let error = world.site.look(job("r1.1")).unwrap_err();
    assert!(matches!(&error, SiteError::Receipt { job, .. } if job == "r1.1"), "{error:?}");
}

#[test]
fn a_job_with_a_name_that_is_none_is_refused() {
    let world = World::new();
    for name in ["../r1.1", "r1", "", "r1.1/.."] {
        assert!(world.site.begin(&plan(name, SUCCESS)).is_err(), "{name}");
    }
    assert_eq!(fs::read_dir(world.path("runs")).unwrap().count(), 0);
}
