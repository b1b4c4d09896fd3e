//! A yes to a merge is taken back: at once while nothing has begun, and otherwise when it is known
//! what came of the merge. Whatever is quicker, nothing is both merged and cancelled.

use std::cell::Cell;

use banksman::engine::Engine;
use banksman::exec::job::{JobId, JobSpec, JobWork};
use banksman::exec::site::{JobStatus, Site, SiteError};
use banksman_core::time::{Instant, Span};
use serde_json::json;

use super::desk::{Desk, PARENT};
use super::merging::{
    APPROVED, READY, branch, decide, held, main, refusal, reviewed, until_checked, waiting_for,
};
use crate::engine::cutting::kill_amid;
use crate::engine::processes::wait_until;

const TAKING_BACK: &str = "merge_ready(taking_back)";

/// Nobody is at work, and nobody has to come before the answer is taken back.
#[test]
fn a_yes_that_nobody_has_taken_up_is_taken_back_at_once() {
    let desk = reviewed();
    let before = main(&desk);
    let said = desk.harness.run(&["decisions", "merge", "t1"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("decisions undo"), "{said}");
    desk.harness.ok(&["decisions", "undo"]);
    assert_eq!(desk.state(PARENT), READY);
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.harness.ok(&["move", "t1", "cancelled", "--set", "reason=not now"]);
    desk.until_quiet();
    assert_eq!((desk.state(PARENT), main(&desk)), ("cancelled".into(), before));
}

/// The look that comes before a merge moves nothing, so its end does not either when somebody was
/// quicker.
#[test]
fn a_yes_is_taken_back_while_a_machine_looks() {
    let desk = reviewed();
    let before = main(&desk);
    desk.harness.ok(&["decisions", "merge", "t1"]);
    desk.driver.turn();
    let looks = desk.harness.jobs("here").iter().any(|job| job.starts_with("a1."));
    assert_eq!((looks, desk.state(PARENT)), (true, APPROVED.into()));
    desk.harness.ok(&["move", "t1", "cancelled", "--set", "reason=not now"]);
    desk.until_quiet();
    assert_eq!((desk.state(PARENT), main(&desk)), ("cancelled".into(), before));
}

/// The merge is ended before anybody can cancel, and then it is asked again.
#[test]
fn a_merge_that_is_under_way_is_ended_before_it_can_be_cancelled() {
    let desk = held();
    let before = main(&desk);
    desk.harness.ok(&["decisions", "merge", "t1"]);
    until_checked(&desk);
    let keeper = desk.harness.only_keeper();
    keeper.freeze();
    desk.harness.ok(&["move", "t1", "taking_back"]);
    for _ in 0..5 {
        desk.driver.pass(Span(6_000));
        desk.driver.turn();
    }
    let jobs = desk.harness.jobs("here");
    let jobs = jobs.iter().filter(|job| job.starts_with("a1."));
    assert_eq!(jobs.count(), 1, "nobody looks while it may still be merged");
    keeper.thaw();
    let words = format!("it is found out whether {} is in its base", branch(&desk));
    assert_eq!(waiting_for(&desk), ["merge", words.as_str()]);
    let refused = refusal(&desk, &["move", "t1", "cancelled", "--set", "reason=no"]);
    assert!(refused.contains("human may not move it to cancelled"), "{refused}");
    desk.until(PARENT, READY);
    assert!(!keeper.is_alive(), "nobody merges any more");
    desk.harness.ok(&["decisions", "cancel", "t1", "not now"]);
    decide(&desk, "good");
    desk.until_quiet();
    assert_eq!((desk.state(PARENT), main(&desk)), ("cancelled".into(), before));
}

/// What has landed is found, although whoever merged it could not say so any more.
#[test]
fn a_merge_that_was_quicker_than_whoever_takes_it_back_is_done() {
    let desk = held();
    desk.harness.ok(&["decisions", "merge", "t1"]);
    until_checked(&desk);
    desk.harness.ok(&["move", "t1", "taking_back"]);
    let branch = branch(&desk);
    desk.harness.git(&["merge", "-q", "--no-ff", "-m", "by hand\n\nTask: t1", &branch]);
    desk.until(PARENT, "done");
    assert_eq!(desk.field("merged"), json!(true));
    let refused = refusal(&desk, &["move", "t1", "cancelled", "--set", "reason=no"]);
    assert!(refused.contains("t1 is done and cannot change"), "{refused}");
    desk.until_quiet();
}

/// `up` is killed when it has ended the merge and nobody knows yet what came of it.
#[test]
fn a_yes_is_taken_back_although_up_is_killed() {
    let desk = held();
    let before = main(&desk);
    desk.harness.ok(&["decisions", "merge", "t1"]);
    until_checked(&desk);
    desk.harness.ok(&["move", "t1", "taking_back"]);
    let to_ready = "UPDATE ON tasks WHEN NEW.id = 1 AND NEW.state = 'merge_ready'";
    kill_amid(&desk.harness, &desk.driver.store, to_ready, || desk.harness.up());
    assert_eq!(desk.state(PARENT), TAKING_BACK);
    desk.until(PARENT, READY);
    desk.harness.ok(&["decisions", "cancel", "t1", "not now"]);
    decide(&desk, "good");
    desk.until_quiet();
    assert_eq!((desk.state(PARENT), main(&desk)), ("cancelled".into(), before));
}

/// The site of a machine on which somebody takes the yes back in the very moment in which its merge
/// is to begin.
struct Sudden<'d> {
    desk: &'d Desk,
    has_come: Cell<bool>,
}

impl Site for Sudden<'_> {
    fn begin_if(
        &self,
        plan: &JobSpec,
        may_begin: &mut dyn FnMut() -> bool,
    ) -> Result<(), SiteError> {
        if matches!(plan.work, JobWork::Merge { .. }) && !self.has_come.replace(true) {
            self.desk.harness.ok(&["move", "t1", "taking_back"]);
        }
        self.desk.driver.site.begin_if(plan, may_begin)
    }
    fn look(&self, job: JobId) -> Result<JobStatus, SiteError> {
        self.desk.driver.site.look(job)
    }
    fn ended(&self) -> Result<Vec<JobId>, SiteError> {
        self.desk.driver.site.ended()
    }
    fn jobs(&self) -> Result<Vec<JobId>, SiteError> {
        self.desk.driver.site.jobs()
    }
    fn stop(&self, job: JobId, by: &str) -> Result<(), SiteError> {
        self.desk.driver.site.stop(job, by)
    }
    fn end_left_over(&self, job: JobId) -> Result<u32, SiteError> {
        self.desk.driver.site.end_left_over(job)
    }
    fn put_away(&self, job: JobId, now: Instant) -> Result<(), SiteError> {
        self.desk.driver.site.put_away(job, now)
    }
}

/// A second engine on the same machine could look, and find nothing, before the job of the first is
/// there.
#[test]
fn a_merge_does_not_begin_when_its_yes_was_just_taken_back() {
    let desk = reviewed();
    let before = main(&desk);
    desk.harness.ok(&["decisions", "merge", "t1"]);
    let site = Sudden { desk: &desk, has_come: Cell::new(false) };
    let Desk { driver, .. } = &desk;
    let mut begun = Vec::new();
    wait_until("somebody has come", || {
        let engine = Engine::new(&driver.store, &site, &driver.projects, &driver.terms);
        let pulse = engine.pulse(driver.now()).expect("a turn");
        begun.extend(pulse.started.into_iter().map(|(job, _)| job));
        site.has_come.get()
    });
    let state = desk.state(PARENT);
    assert_eq!((begun.len(), state.as_str()), (1, TAKING_BACK), "only the look: {begun:?}");
    desk.until(PARENT, READY);
    assert_eq!(main(&desk), before);
}
