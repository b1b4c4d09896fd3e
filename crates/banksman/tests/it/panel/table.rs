//! A task in front of a panel, and the engine that holds it.

use std::fs;

use banksman::store::{Store, Stored};
use banksman_core::ids::TaskId;
use banksman_core::time::Span;
use serde_json::{Value, json};

use crate::engine::driver::{Driver, NODE};
use crate::engine::harness::{Harness, state, state_of};
use crate::engine::processes::wait_until;

pub(super) const MINUTE: Span = Span(60_000);
/// Every outcome of a panel has a state of its own.
const LIFECYCLE: &str = r"
lifecycle: looked

purpose: task
about: A panel looks at it.
initial: looked_at
settings: { panel_time: 30min }
fields:
  feedback: { type: text, by: anyone }
  verdicts: list
  concerns: { type: list, by: anyone }
  review_summary: { type: text, by: anyone }
  diagnostic: { type: text, by: anyone }
states:
  looked_at:
    kind: reviewing
    about: Reviewers judge it.
    does:
      activity: panel
      role: reviewer
      outcomes: { approved: approve, blocked: block, escalated: escalate, unresolved: settle, unavailable: give_up }
    timeouts:
      - { after: panel_time, to: forgotten, on: forget }
  approved: { kind: done }
  blocked: { kind: done }
  escalated: { kind: done }
  unresolved: { kind: done }
  unavailable: { kind: failed }
  forgotten: { kind: failed }
  cancelled: { kind: cancelled }
transitions:
  - { from: looked_at, to: approved, on: approve, by: [system] }
  - { from: looked_at, to: blocked, on: block, by: [system], compute: { feedback: detail } }
  - { from: looked_at, to: escalated, on: escalate, by: [system] }
  - { from: looked_at, to: unresolved, on: settle, by: [system] }
  - { from: looked_at, to: unavailable, on: give_up, by: [system], compute: { diagnostic: detail } }
  - { from: looked_at, to: cancelled, on: cancel, by: [human] }
  - { from: unavailable, to: looked_at, on: reopen, by: [human] }
";

/// A verdict as an agent gives it.
pub(super) fn verdict(verdict: &str, rationale: &str, concerns: &[&str]) -> String {
    suggesting(verdict, rationale, concerns, &[])
}

pub(super) fn suggesting(
    verdict: &str,
    rationale: &str,
    concerns: &[&str],
    suggestions: &[&str],
) -> String {
    let answer = json!({
        "verdict": verdict, "rationale": rationale, "concerns": concerns, "suggestions": suggestions,
    });
    format!("answer {answer}\nsuccess {answer}\n")
}

pub(super) fn approval() -> String {
    verdict("APPROVE", "it is good", &[])
}

pub(super) fn reply(response: &str, rationale: &str) -> String {
    format!("answer {}\nsuccess done\n", json!({ "response": response, "rationale": rationale }))
}

pub(super) struct Table {
    pub(super) harness: Harness,
    pub(super) driver: Driver,
    pub(super) parent: TaskId,
}

impl Table {
    /// A task in front of its panel. Its reviews are t2, t3 and so on, in the order of the roster.
    pub(super) fn new(settings: &[(&str, &str)], scripts: &[(&str, &str)], add: &[&str]) -> Self {
        // Time passes here by the minute, and no run shall lose its lease by it.
        // A keeper looks up at least once in a quarter of its idle time, whatever wakes it.
        let harness = Harness::new(&[
            ("limits.lease", "\"1d\""),
            ("limits.agents", "8"),
            ("limits.idle", "\"40s\""),
        ]);
        harness.set(settings);
        fs::write(harness.path("repo/.banksman/lifecycles/looked.yaml"), LIFECYCLE)
            .expect("written");
        for (name, script) in scripts {
            harness.script(name, script);
        }
        let parent = harness.add("paint it", &[&["--lifecycle", "looked"], add].concat());
        let driver = Driver::of(harness.root(), Span(100));
        Self { harness, driver, parent }
    }

    /// Turns until the panel has ruled, and everybody has gone home. Answers with how each run has
    /// ended.
    pub(super) fn until_over(&self, expected: &str) -> Vec<String> {
        let is_over = |store: &Store| state(store, self.parent) != "looked_at";
        let ruled = self.driver.turn_until("the panel rules", is_over);
        assert_eq!(state(&self.driver.store, self.parent), expected, "{:#?}", self.assignments());
        let assignments = self.driver.store.children(self.parent).expect("reviews");
        let is_empty = |review: &Stored| review.lifecycle.state(review.task.state).terminal;
        assert!(
            assignments.iter().all(is_empty),
            "somebody was not sent home: {:#?}",
            self.assignments()
        );
        [ruled.outcomes, self.until_home()].concat()
    }

    pub(super) fn until_home(&self) -> Vec<String> {
        let told = self.driver.turn_until("all reviews have ended", |store| {
            let assignments = store.children(self.parent).expect("reviews");
            let over =
                assignments.iter().all(|review| review.lifecycle.state(review.task.state).terminal);
            // A clean-up that finds a run in its way looks again a few seconds later.
            self.driver.pass(Span(1_000));
            over && self.harness.jobs(NODE).is_empty() && self.harness.worktrees().is_empty()
        });
        wait_until("no agent is left", || self.harness.agents().is_empty());
        self.harness.assert_clean(&[NODE]);
        told.outcomes
    }

    pub(super) fn turn_until_review(&self, name: &str, expected: &str) {
        let id: TaskId = name.parse().expect("a task");
        let what = format!("{name} is {expected}");
        self.driver.turn_until(&what, |store| {
            store.task(id).is_ok_and(|stored| state_of(&stored) == expected)
        });
    }

    /// Turns until the agent of a run has begun.
    pub(super) fn turn_until_begun(&self, run: &str) {
        let begun = |_: &Store| self.harness.starts().iter().any(|start| start == run);
        self.driver.turn_until(&format!("{run} has begun"), begun);
    }

    /// Each review: its reviewer, its round and its state.
    pub(super) fn assignments(&self) -> Vec<(String, i64, String)> {
        let assignments = self.driver.store.children(self.parent).expect("reviews");
        let text = |review: &Stored| {
            let fields = &review.task.fields;
            let name = fields["reviewer"].as_str().expect("a name").to_owned();
            (name, fields["round"].as_i64().expect("a round"), state_of(review).to_owned())
        };
        assignments.iter().map(text).collect()
    }

    pub(super) fn field(&self, name: &str) -> Value {
        let stored = self.driver.store.task(self.parent).expect("the task");
        stored.task.fields.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn prompt(&self, run: &str) -> String {
        self.harness.file(&format!("prompts/{run}"))
    }

    /// What the task has on record about each review, without the number of the review's own task.
    pub(super) fn verdicts(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = self.field("verdicts");
        let list = list.as_array().expect("a list").iter();
        list.map(|one| (text(&one["reviewer"]), text(&one["verdict"]))).collect()
    }
}

pub(super) fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

pub(super) fn review(name: &str, round: i64, state: &str) -> (String, i64, String) {
    (name.to_owned(), round, state.to_owned())
}
