//! A question with one default answer, for tests that change one thing, and random ones, the same
//! every time.

use std::collections::BTreeSet;
use std::fmt::Debug;

use banksman_core::ids::TaskId;
use banksman_core::schedule::{
    Area, Budget, Candidate, Ineligible, Load, Running, Used, Worker, choose,
};
use banksman_core::time::Instant;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

pub(crate) const NOW: Instant = Instant(1_000_000);
pub(crate) const NODE: &str = "here";

pub(crate) fn worker(name: &str, capabilities: &[&str]) -> Worker {
    Worker {
        name: name.to_owned(),
        capabilities: set(capabilities),
        roles: BTreeSet::new(),
        cost: 3,
        speed: 3,
        max_concurrent: 2,
        account: format!("{name}-account"),
        model: None,
    }
}

pub(crate) fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A run of this node, without a batch and without areas.
pub(crate) fn run(task: i64, worker: &str) -> Running {
    Running {
        task: TaskId(task),
        project: "shop".to_owned(),
        batch: None,
        worker: worker.to_owned(),
        account: format!("{worker}-account"),
        node: NODE.to_owned(),
        role: "worker".to_owned(),
        areas: Vec::new(),
    }
}

/// Everything that an answer depends on.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) batch: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) roles: Vec<String>,
    pub(crate) assignees: Vec<String>,
    pub(crate) areas: Vec<Area>,
    pub(crate) spent: Used,
    pub(crate) budget: Budget,
    pub(crate) load: Load,
    pub(crate) here: Vec<Worker>,
    /// Workers of other nodes.
    pub(crate) elsewhere: Vec<Worker>,
}

impl Question {
    /// An idle node with one worker, and a task that it can take.
    pub(crate) fn new() -> Self {
        Self {
            batch: None,
            tags: Vec::new(),
            roles: texts(&["worker"]),
            assignees: Vec::new(),
            areas: Vec::new(),
            spent: Used::default(),
            budget: Budget::default(),
            load: Load { node: NODE.to_owned(), capacity: 4, ..Load::default() },
            here: vec![worker("ann", &["code"])],
            elsewhere: Vec::new(),
        }
    }

    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut question = Self::new();
        change(&mut question);
        question
    }

    pub(crate) fn candidate(&self) -> Candidate<'_> {
        Candidate {
            task: TaskId(1),
            project: "shop",
            batch: self.batch.as_deref(),
            tags: &self.tags,
            roles: &self.roles,
            assignees: &self.assignees,
            lanes: &self.roles,
            model: None,
            areas: &self.areas,
            spent: self.spent,
            budget: self.budget,
        }
    }

    pub(crate) fn answer(&self) -> Result<String, Vec<Ineligible>> {
        let all: Vec<Worker> = self.here.iter().chain(&self.elsewhere).cloned().collect();
        choose(&self.candidate(), &self.load, &self.here, &all, NOW)
            .map(|worker| worker.name.clone())
    }

    /// The name of the worker, or the kinds of the reasons.
    pub(crate) fn outcome(&self) -> Result<String, Vec<&'static str>> {
        self.answer().map_err(|held| held.iter().map(Ineligible::kind).collect())
    }
}

/// Runs a test over random values, the same ones every time. `PROPTEST_CASES` widens the search.
pub(crate) fn over_random<S: Strategy>(
    values: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: Debug,
{
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    match runner.run(values, test) {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{reason}\n  {value:#?}"),
        Err(TestError::Abort(reason)) => panic!("the search was given up: {reason}"),
    }
}
