//! The log of a workflow when something goes wrong around it: every line is there, once, and tells
//! the truth.

use std::cell::Cell;
use std::fs;

use banksman::clock;
use banksman::engine::{Engine, EngineError, Project, Projects};
use banksman::exec::repo;
use banksman_core::time::Span;

use super::{Bench, WAIT, verdict};
use crate::engine::processes::wait_until;

const SPEC: &str = "
workflow: { id: w, name: Led back, merge: false }
steps:
  - { id: A }
  - { id: B, needs: [A], gate: G }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE }, on_fail: { next_step: A } }
";
/// What cannot be done now is looked at again after this time at the latest.
const LATER: Span = Span(61_000);
/// More than a turn of this workflow has.
const MOST_FINDS: u32 = 60;

/// The project of a bench, which cannot be found at one of the times that it is looked for.
struct Lost<'a> {
    bench: &'a Bench,
    finds_left: Cell<u32>,
}

impl Projects for Lost<'_> {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError> {
        let left = self.finds_left.get();
        self.finds_left.set(left.wrapping_sub(1));
        if left == 0 {
            let message = "its disk is away for a moment".to_owned();
            return Err(EngineError::Unread { project: name.to_owned(), message });
        }
        let path = self.bench.harness.path("repo");
        let (base, remote) = ("main".to_owned(), repo::remote(&path));
        Ok(Some(Project { path, base, remote, agents: self.bench.driver.terms.agents.clone() }))
    }
}

/// A gate fails in a turn in which the project is away at one moment: the answer says whether the
/// turn got so far.
fn led_back_with(finds: u32) -> bool {
    let bench = Bench::new(SPEC);
    bench.script("G.1", &format!("{WAIT}{}", verdict("BLOCK", "once more, please")));
    bench.holds("A.2");
    // The verdict is there, and no turn has taken it.
    bench.until_started("G.1");
    bench.go("G.1");
    wait_until("the reviewer has ended", || {
        bench.harness.agents().is_empty() && bench.harness.keepers().is_empty()
    });
    let lost = Lost { bench: &bench, finds_left: Cell::new(finds) };
    let driver = &bench.driver;
    let turn = Engine::new(&driver.store, &driver.site, &lost, &driver.terms).pulse(clock::now());
    let was_lost = lost.finds_left.get() > finds;
    assert!(turn.is_ok() || was_lost, "{turn:?}");
    bench.driver.pass(LATER);
    bench.until_started("A.2");
    let lines = bench.logged("gate G failed; A starts again, with all steps after it: A, B");
    assert_eq!(lines, 1, "away at find {finds}: {:#?}", bench.log());
    was_lost
}

/// `.workflow/` is for people and never the truth.
#[test]
fn a_log_that_cannot_be_written_holds_up_no_step() {
    let bench = Bench::new(SPEC);
    fs::create_dir_all(bench.harness.path("repo/.workflow/audit/w.log")).expect("a folder");
    bench.fails("G.1", "once more, please");
    let told = bench.until_over("complete");
    assert!(bench.has_started("A.2"));
    let alerts = told.notices.iter().filter(|text| text.contains("w.log"));
    assert!(alerts.count() > 0, "{told:?}");
}

#[test]
fn the_line_of_a_way_back_outlives_every_fault_around_it() {
    let faults = (0..MOST_FINDS).take_while(|finds| led_back_with(*finds)).count();
    assert!(faults >= 3, "the project was away {faults} times only");
}
