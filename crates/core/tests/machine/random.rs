//! Random histories of every built-in lifecycle: no event breaks a law.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use banksman_core::lifecycle::builtin::{self, SOURCES};
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Lifecycle, Transition};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::play::{Op, ops, play, start};
use crate::world::{Violation, World};

/// Events of one history. Longer ones find no more and take longer to read.
pub(crate) const EVENTS: usize = 40;

/// The minimum number of histories of one lifecycle: enough to take nearly every row of the largest
/// one.
const HISTORIES: u32 = 1_000;

static BUILTIN: LazyLock<Vec<Arc<Lifecycle>>> = LazyLock::new(|| {
    let get = |name| builtin::get(name, &Overrides::new()).expect("it is in the list");
    SOURCES
        .iter()
        .map(|(name, _)| Arc::new(get(name).unwrap_or_else(|problems| panic!("{problems}"))))
        .collect()
});

pub(crate) fn every_lifecycle() -> impl Iterator<Item = Arc<Lifecycle>> {
    BUILTIN.iter().cloned()
}

/// Runs a test over random histories, the same ones every time. `PROPTEST_CASES` widens the search.
pub(crate) fn over_histories(
    lifecycle: &Arc<Lifecycle>,
    test: impl Fn(World, &[Op]) -> Result<(), Violation>,
) {
    let wanted = Config::default();
    let cases = wanted.cases.max(HISTORIES);
    let config = Config { cases, failure_persistence: None, ..wanted };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tested = runner.run(&(start(lifecycle), ops(lifecycle, EVENTS)), |(start, ops)| {
        test(start.world(lifecycle), &ops)
            .map_err(|violation| TestCaseError::fail(violation.to_string()))
    });
    match tested {
        Ok(()) => {}
        Err(TestError::Fail(reason, (start, ops))) => {
            panic!("{reason}\n  {start:?}, then {ops:#?}")
        }
        Err(TestError::Abort(reason)) => panic!("the search was given up: {reason}"),
    }
}

/// The search must cover the lifecycle: it has to enter every state and take nearly every row. The
/// rest are rows that a random history rarely reaches.
#[test]
fn no_event_breaks_a_law() {
    for lifecycle in every_lifecycle() {
        let taken = RefCell::new(BTreeSet::new());
        over_histories(&lifecycle, |mut world, ops| {
            ops.iter().try_for_each(|op| play(&mut world, op))?;
            let records =
                world.history.into_iter().map(|record| (record.from, record.to, record.trigger));
            taken.borrow_mut().extend(records);
            Ok(())
        });
        let taken = taken.into_inner();
        let unseen = |name: &&str| !taken.iter().any(|(from, to, _)| from.is_some() && to == name);
        let states: Vec<&str> =
            lifecycle.states.iter().map(|state| state.name.as_str()).filter(unseen).collect();
        let only_at_birth = [lifecycle.state(lifecycle.initial).name.as_str()];
        assert!(
            states.is_empty() || states == only_at_birth,
            "{}: never entered {states:?}",
            lifecycle.id
        );
        let by = |row: &Transition| (lifecycle.state(row.from).name.clone(), row.trigger.clone());
        let rows: BTreeSet<_> = lifecycle.transitions.iter().map(by).collect();
        let unseen = |(from, trigger): &&(String, String)| {
            !taken.iter().any(|(left, _, on)| left.as_ref() == Some(from) && on == trigger)
        };
        let missed: Vec<_> = rows.iter().filter(unseen).collect();
        assert!(
            missed.len() * 20 <= rows.len(),
            "{}: of {} rows never taken {missed:?}",
            lifecycle.id,
            rows.len()
        );
    }
}
