//! Where the roads begin: a store, one machine with two workers, and a task of each lifecycle.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Mutex;

use banksman::config::Agents;
use banksman::engine::{EngineConfig, EngineError, Project, Projects};
use banksman::ops::library::Library;
use banksman::ops::{Session, workflows};
use banksman::store::{Add, Store, Stored};
use banksman_core::failure::RetryPolicy;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::lifecycle::contract::{Field, Purpose};
use banksman_core::lifecycle::{State, StateKind};
use banksman_core::machine::{Actor, NewTask};
use banksman_core::schedule::Budget;
use banksman_core::time::{Instant, Span};
use banksman_core::workflow;
use tempfile::TempDir;

use super::plot::{Plot, Step, Told};
use crate::simulation::chance::Chance;
use crate::simulation::clocks::Clocks;
use crate::simulation::ground::Ground;
use crate::simulation::setup::{Ledger, Rules, secret, worker};
use crate::simulation::site::{Calls, SimSite};
use crate::store::acts::definition;

/// When every road begins.
pub(super) const NOON: Instant = Instant(1_707_739_200_000);
const LEASE: Span = Span(3_600_000);

/// A workflow of one step.
const FLOW: &str = "
workflow: { id: flow, name: Flow }
steps:
  - { id: A, name: first, STEP }
gates:
  - { id: GA, reviewer: { level: LEVEL }, on_pass: { next_step: DONE } }
";
/// What its step is, and the level of its gate.
const STEPS: [(&str, &str, &str); 4] = [
    ("workflow", "gate: GA", "auto"),
    ("notify", "gate: GA", "notify"),
    ("gate", "gate: GA", "human"),
    ("manual", "gate: GA, agent: { launch: interactive }, success_criterion: It is there.", "auto"),
];

/// What a scene begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// A task whose plan is so many subtasks, if it is planned.
    Task { lifecycle: &'static str, subtasks: usize },
    /// The first is shown as a whole, of the others what they add.
    Workflow(usize),
    /// A task and a day on which one run is allowed.
    Budget,
}

/// A beginning, and the lifecycles whose roads are walked from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) root: Root,
    pub(super) purposes: &'static [Purpose],
}

impl Scene {
    /// Whether the roads of a task are walked in this scene.
    pub(super) fn shows(&self, stored: &Stored, kind: StateKind, is_active: bool) -> bool {
        let is_split = stored.flag(Field::Split);
        let is_of_it = self.purposes.contains(&stored.lifecycle.purpose);
        match self.root {
            Root::Task { subtasks, .. } if subtasks > 1 => {
                // Of the parent, what it does because of its subtasks.
                let is_of_them = is_split && (!is_active || kind == StateKind::Blocked);
                is_of_them || stored.lifecycle.purpose == Purpose::Subtask
            }
            Root::Task { .. } | Root::Workflow(0) | Root::Budget => is_of_it && !is_split,
            Root::Workflow(_) => is_of_it && kind != StateKind::Working,
        }
    }
}

/// One scene for each built-in lifecycle for tasks, and one for each other purpose.
pub(super) fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (name, source) in builtin::SOURCES {
        let lifecycle = check(source, name, &Overrides::new()).expect("it is built in");
        if lifecycle.purpose != Purpose::Task {
            continue;
        }
        let plans = lifecycle.states.iter().any(State::plans);
        let root = Root::Task { lifecycle: name, subtasks: 1 };
        let purposes: &[Purpose] =
            if plans { &[Purpose::Task, Purpose::Review] } else { &[Purpose::Task] };
        scenes.push(Scene { name, root, purposes });
        if plans {
            let root = Root::Task { lifecycle: name, subtasks: 2 };
            scenes.push(Scene { name: "subtasks", root, purposes: &[Purpose::Subtask] });
        }
    }
    for (at, (name, _, _)) in STEPS.into_iter().enumerate() {
        let both: &[Purpose] = &[Purpose::Workflow, Purpose::Step];
        let purposes = if at == 0 { both } else { &both[1..] };
        scenes.push(Scene { name, root: Root::Workflow(at), purposes });
    }
    scenes.push(Scene { name: "budget", root: Root::Budget, purposes: &[Purpose::Budget] });
    scenes
}

/// A place with a repository, where the engine may also keep a mailbox.
pub(super) struct RoadProjects {
    path: PathBuf,
    agents: Agents,
}

impl Projects for RoadProjects {
    fn find(&self, _: &str) -> Result<Option<Project>, EngineError> {
        Ok(Some(Project {
            path: self.path.clone(),
            base: "main".to_owned(),
            remote: None,
            agents: self.agents.clone(),
        }))
    }
}

pub(super) struct World {
    pub(super) ledger: Ledger,
    pub(super) ground: Rc<RefCell<Ground>>,
    pub(super) calls: Rc<Calls>,
    pub(super) site: SimSite,
    pub(super) projects: RoadProjects,
    pub(super) config: EngineConfig,
    pub(super) plot: Rc<RefCell<Plot>>,
    pub(super) root: TaskId,
    _folder: TempDir,
}

impl World {
    pub(super) fn new(scene: Scene, route: &[Step], cell: Option<&Step>) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("site");
        fs::create_dir_all(path.join(".git")).expect("a folder");
        let runs = if scene.root == Root::Budget { 1 } else { 10_000 };
        let day = Budget { runs: Some(runs), ..Budget::default() };
        let rules = Rules { total: 4, accounts: BTreeMap::new(), task_runs: 10_000, day };
        let mut agents = rules.agents(0, 4);
        agents.limits.lease = LEASE;
        let workers = vec![
            worker("ada", "command", "plan-a", &["code"]),
            worker("bob", "claude", "plan-b", &["code"]),
        ];
        let (file, root) = template(scene);
        let ledger = Ledger::copied(&file);
        let clocks = Clocks::right(1, NOON);
        let mut ground = Ground::new(Chance::new(7), clocks, NOON, 1);
        ground.is_calm = true;
        let subtasks = match scene.root {
            Root::Task { subtasks, .. } => subtasks,
            Root::Workflow(_) | Root::Budget => 1,
        };
        let store = ledger.store.clone();
        let plot = Plot::new(store, route.to_vec(), cell.cloned(), subtasks);
        let plot = Rc::new(RefCell::new(plot));
        ground.director = Some(Box::new(Told(Rc::clone(&plot))));
        let ground = Rc::new(RefCell::new(ground));
        let calls = Rc::new(Calls::default());
        let site = SimSite { node: 0, ground: Rc::clone(&ground), calls: Rc::clone(&calls) };
        let projects = RoadProjects { path, agents: agents.clone() };
        let config = EngineConfig {
            agents,
            workers,
            program: PathBuf::from("/usr/bin/banksman"),
            policy: RetryPolicy::default(),
            secret,
            awake: || None,
        };
        Self { ledger, ground, calls, site, projects, config, plot, root, _folder: folder }
    }
}

/// The store with which all roads of a scene begin, and its root. To prove a lifecycle takes longer
/// than to walk a road.
fn template(scene: Scene) -> (Vec<u8>, TaskId) {
    static KNOWN: Mutex<BTreeMap<&str, (Vec<u8>, TaskId)>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("nobody panics with it");
    let new = || {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let ledger = Ledger::new();
        let path = folder.path().display().to_string();
        ledger.store.put_project("site", &path, NOON).expect("it is known");
        let root = add(&ledger.store, scene.root);
        (ledger.file(), root)
    };
    known.entry(scene.name).or_insert_with(new).clone()
}

fn add(store: &Store, root: Root) -> TaskId {
    let name = match root {
        Root::Task { lifecycle, .. } => lifecycle,
        Root::Budget => "supervised",
        Root::Workflow(at) => return add_workflow(store, at),
    };
    let new = |title: &str| NewTask {
        title: title.to_owned(),
        project: "site".to_owned(),
        tags: vec!["code".to_owned()],
        ..NewTask::default()
    };
    let one = |title: &str| Add {
        new: new(title),
        definition: definition(builtin::source(name).expect("it is built in")),
        needs: Vec::new(),
        actor: Actor::human("kim"),
        key: None,
        arrival: None,
    };
    if root == Root::Budget {
        store.add(one("the task before"), NOON).expect("it is added");
    }
    store.add(one("the task"), NOON).expect("it is added").stored.task.id
}

fn add_workflow(store: &Store, at: usize) -> TaskId {
    let (_, step, level) = STEPS[at];
    let text = FLOW.replace("STEP", step).replace("LEVEL", level);
    let none = |path: &str| Err(format!("there is no {path}"));
    let flow = workflow::load(&text, "flow.yaml", &BTreeMap::new(), &none)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let session = Session::outside(store.clone(), Actor::human("kim")).expect("a person");
    let request = workflows::StartRequest {
        project: "site".to_owned(),
        ..workflows::StartRequest::default()
    };
    let started = workflows::start(&session, &Library::default(), &[flow], &request, NOON);
    started.expect("it starts")[0].workflow.task.id
}
