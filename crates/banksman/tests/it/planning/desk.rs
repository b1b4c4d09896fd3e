//! A task that is planned, and the engine that does it.

use banksman::store::{Store, Stored};
use banksman_core::ids::TaskId;
use banksman_core::time::Span;
use serde_json::{Value, json};

use crate::engine::driver::{Driver, Told};
use crate::engine::harness::{Harness, state, state_of};

/// The task that is planned; its first panel has the reviews t2 and t3.
pub(super) const PARENT: TaskId = TaskId(1);

/// One commit of its own, and an approval for whoever is asked for one.
pub(super) const ANYBODY: &str = r#"run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
run git add -A && git commit -qm "work of ${BANKSMAN_RUN%%:*}"
answer {"verdict":"APPROVE","rationale":"it is good","concerns":[],"suggestions":[]}
success it is written
"#;

pub(crate) fn subtask(id: &str, files: usize) -> Value {
    let files: Vec<String> = (0..files).map(|at| format!("src/{id}-{at}.rs")).collect();
    json!({
        "id": id,
        "title": format!("Do {id}"),
        "description": format!("All about {id}."),
        "estimate_minutes": 120,
        "confidence": "medium",
        "files": files,
        "purposes": ["requests are limited"],
        "tested_by": "a unit test",
        "review_minutes": 10,
        "acceptance": [format!("{id} works")],
        "tags": [],
    })
}

pub(crate) fn plan(subtasks: &[Value], edges: &[(&str, &str, &str)]) -> Value {
    let edge =
        |(from, to, kind): &(&str, &str, &str)| json!({ "from": from, "to": to, "kind": kind });
    let edges: Vec<Value> = edges.iter().map(edge).collect();
    json!({
        "subtasks": subtasks, "edges": edges, "spikes": [], "assumptions": ["One process serves all"],
        "risks": [{ "risk": "Clients are locked out", "mitigation": "a flag" }], "irreducible": "",
    })
}

/// Three subtasks: the limiter first, then the routes; the docs are told of it.
pub(super) fn rate_limits() -> Value {
    let subtasks = [subtask("limiter", 2), subtask("routes", 3), subtask("docs", 1)];
    plan(&subtasks, &[("limiter", "routes", "blocks"), ("limiter", "docs", "informs")])
}

/// A task that is small enough as it is.
pub(crate) fn one_subtask() -> Value {
    plan(&[subtask("all", 1)], &[])
}

pub(super) fn answer(plan: &Value) -> String {
    format!("answer {plan}\nsuccess planned\n")
}

pub(super) struct Desk {
    pub(super) harness: Harness,
    pub(super) driver: Driver,
}

impl Desk {
    /// With what the planner answers in each of its runs.
    pub(super) fn new(answers: &[Value]) -> Self {
        Self::with(&[], answers)
    }

    /// The same with settings of its own.
    pub(super) fn with(settings: &[(&str, &str)], answers: &[Value]) -> Self {
        let desk = Self::set_up(settings);
        for (at, plan) in answers.iter().enumerate() {
            desk.harness.script(&format!("r1.{}", at + 1), &answer(plan));
        }
        desk
    }

    pub(super) fn empty() -> Self {
        Self::set_up(&[])
    }

    fn set_up(settings: &[(&str, &str)]) -> Self {
        let usual =
            [("limits.lease", "\"1d\""), ("limits.agents", "8"), ("limits.idle", "\"40s\"")];
        let harness = Harness::new(&[&usual, settings].concat());
        harness.script("any", ANYBODY);
        let more = ["--lifecycle", "autonomous", "--tag", "api", "--priority", "3"];
        harness.add("Add rate limiting to API endpoints", &more);
        let driver = Driver::of(harness.root(), Span(100));
        Self { harness, driver }
    }

    pub(super) fn until(&self, id: TaskId, expected: &str) -> Told {
        let what = format!("{id} is {expected}");
        self.driver.turn_until(&what, |store| {
            store.task(id).is_ok_and(|stored| state_of(&stored) == expected)
        })
    }

    /// Turns until a person is asked about the plan, and approves it.
    pub(super) fn approve(&self) {
        self.until(PARENT, "waiting");
        self.harness.ok(&["decisions", "approve", "t1"]);
    }

    pub(super) fn parent(&self) -> Stored {
        self.driver.store.detail(PARENT).expect("the task").stored
    }

    pub(super) fn field(&self, name: &str) -> Value {
        self.parent().task.fields.get(name).cloned().unwrap_or_default()
    }

    /// The subtasks of the plan: their names, their states, and what they wait for.
    pub(super) fn children(&self) -> Vec<(String, String, Vec<String>)> {
        let children = self.driver.store.children(PARENT).expect("subtasks");
        let planned = children.iter().filter(|child| child.task.fields.contains_key("subtask"));
        planned
            .map(|child| {
                let needs = self.driver.store.needs(child.task.id).expect("needs");
                let needs =
                    needs.iter().map(|need| format!("{} {}", need.edge.as_str(), need.task));
                (self.name(child), state_of(child).to_owned(), needs.collect())
            })
            .collect()
    }

    fn name(&self, child: &Stored) -> String {
        child.task.fields["subtask"].as_str().expect("a name").to_owned()
    }

    /// The task of a subtask of the plan.
    pub(super) fn child(&self, name: &str) -> TaskId {
        let children = self.driver.store.children(PARENT).expect("subtasks");
        let of_name = |child: &&Stored| child.task.fields.get("subtask") == Some(&json!(name));
        children.iter().rev().find(of_name).expect("the subtask is there").task.id
    }

    pub(super) fn merge(&self, name: &str) {
        let id = self.child(name);
        self.until(id, "merge_ready");
        self.harness.ok(&["decisions", "merge", &id.to_string()]);
        self.until(id, "done");
    }

    pub(super) fn state(&self, id: TaskId) -> String {
        state(&self.driver.store, id)
    }

    pub(super) fn prompt(&self, run: &str) -> String {
        self.harness.file(&format!("prompts/{run}"))
    }

    /// Turns until nothing is at work, and nothing is wrong.
    pub(super) fn until_quiet(&self) {
        self.driver.turn_until("all is put away", |_: &Store| {
            self.driver.pass(Span(1_000));
            self.harness.jobs("here").is_empty() && self.harness.worktrees().is_empty()
        });
        self.harness.assert_clean(&["here"]);
    }
}
