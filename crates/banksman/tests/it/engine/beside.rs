//! A turn beside another one on the same machine, as a `pulse` by hand beside `up`: both begin what
//! was claimed, one keeper starts, and its agent has the token that the store knows.

use std::cell::RefCell;
use std::fs;
use std::sync::mpsc;
use std::thread;

use banksman::engine::{Engine, EngineError, Project, Projects};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::time::Span;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::driver::{Driver, NODE};
use super::harness::Harness;
use super::processes::wait_until;

const RUN: RunId = RunId { task: TaskId(1), epoch: 1 };

/// Lets something else happen between a claim, or the sight of one without a keeper, and the start
/// of that keeper.
struct Meanwhile<'a, F> {
    driver: &'a Driver,
    act: RefCell<Option<F>>,
}

impl<F: FnOnce()> Projects for Meanwhile<'_, F> {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError> {
        let is_claimed = !self.driver.store.open_runs(Some(NODE))?.is_empty();
        if let Some(act) = self.act.borrow_mut().take_if(|_| is_claimed) {
            act();
        }
        self.driver.projects.find(name)
    }
}

fn turn_with(driver: &Driver, act: impl FnOnce()) {
    let meanwhile = Meanwhile { driver, act: RefCell::new(Some(act)) };
    let engine = Engine::new(&driver.store, &driver.site, &meanwhile, &driver.terms);
    engine.pulse(driver.now()).expect("a turn");
    assert!(meanwhile.act.borrow().is_none(), "nothing was claimed");
}

fn with_a_task() -> Harness {
    let harness = Harness::new(&[("limits.lease", "\"1d\"")]);
    harness.script("any", "run until [ -f \"$YARD/go\" ]; do sleep 0.02; done\nsuccess done\n");
    harness.add("part 1", &[]);
    harness
}

fn assert_its_token_is_known(harness: &Harness) {
    let store = harness.open();
    let plan = fs::read(harness.home(NODE).join(format!("runs/{RUN}/job.json"))).expect("a plan");
    let plan: Value = serde_json::from_slice(&plan).expect("a document");
    let token = plan["env"]["BANKSMAN_TOKEN"].as_str().expect("a token");
    let known = store.run_of_token(&Sha256::digest(token)).expect("readable");
    assert_eq!(known, Some(RUN), "the agent could not report");
    assert_eq!(harness.keepers().len(), 1);
    fs::write(harness.path("go"), "").expect("written");
}

#[test]
fn who_comes_while_a_run_is_being_started_does_not_change_its_token() {
    let harness = with_a_task();
    let (claimed, is_claimed) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    thread::scope(|scope| {
        let root = harness.root();
        let claimer = scope.spawn(move || {
            let driver = Driver::of(root, Span(100));
            turn_with(&driver, || {
                claimed.send(()).expect("somebody waits");
                may_go.recv().expect("somebody lets it go on");
            });
        });
        let driver = Driver::of(harness.root(), Span(100));
        is_claimed.recv().expect("it is claimed");
        // This one has seen that there is no keeper, and the claimer is faster.
        turn_with(&driver, || {
            go.send(()).expect("somebody waits");
            claimer.join().expect("a turn");
        });
    });
    assert_its_token_is_known(&harness);
}

#[test]
fn who_claims_and_is_too_slow_to_start_does_not_change_the_token_either() {
    let harness = with_a_task();
    let [claimer, other] = [(); 2].map(|()| Driver::of(harness.root(), Span(100)));
    turn_with(&claimer, || {
        other.turn();
    });
    assert_its_token_is_known(&harness);
}

/// Runs are named by their tasks, so those of two stores have the same names.
#[test]
fn two_stores_that_share_a_home_share_no_run() {
    let harness = Harness::new(&[]);
    let of = |store: &str, args: &[&str]| {
        let output = harness.command(args).env("BANKSMAN_STORE", harness.path(store)).output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    for store in ["store.db", "other.db"] {
        of(store, &["init"]);
        of(store, &["add", "--quiet", &format!("work in {store}")]);
        wait_until("its run is over", || {
            of(store, &["pulse"]);
            of(store, &["show", "t1", "--json"]).contains("\"kind\": \"done\"")
                || of(store, &["list", "--json"]).contains("\"done\"")
        });
    }
    assert_eq!(harness.starts(), ["r1.1", "r1.1"]);
    let home = harness.home(NODE);
    let others: Vec<_> = fs::read_dir(home.join("stores")).expect("a folder").collect();
    let other = others[0].as_ref().expect("a folder").path();
    assert_eq!(others.len(), 1);
    assert!([home, other].iter().all(|home| home.join("past/r1.1").is_dir()));
}
