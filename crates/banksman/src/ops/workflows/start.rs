//! Starts workflows: creates a task for each workflow and each step, and their dependencies, in one
//! transaction. Everything after that is up to the engine.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::{Path, PathBuf};

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Setting;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::{DrivenBy, Field, NO_GATE, Purpose, SettingName};
use banksman_core::lifecycle::expr::{Fields, Value, value_of};
use banksman_core::limits;
use banksman_core::machine::{Actor, NewTask};
use banksman_core::schedule::COMMAND_WORKER;
use banksman_core::time::{Instant, Span};
use banksman_core::workflow::{self, Criterion, LaunchMode, Need, Step, Workflow, matches_step};

use super::{find_step, named_near, no_workflow, recent_in};
use crate::exec::mailbox::{Mailbox, SpecCopy};
use crate::ops::error_report::Hint;
use crate::ops::library::Library;
use crate::ops::principal::Operation;
use crate::ops::tasks::named;
use crate::ops::{OpsError, Session, request_text};
use crate::store::conn::DbError;
use crate::store::{
    Add, Applied, Definition, Edge, IdempotencyKey, NewChild, Store, StoreError, Stored,
};

/// The time limit of steps and gates in a manual workflow, so that its driver loses neither.
const MANUAL_PATIENCE: Span = Span(14 * 86_400_000);

/// How often a start is planned anew because another one came first.
const TRIES: usize = 50;

/// How a workflow is started.
#[derive(Debug, Clone, Default)]
pub struct StartRequest {
    pub project: String,
    pub priority: i32,
    /// Banksman starts nothing: the driver does every step, answers every gate of agents, and
    /// reports.
    pub manual: bool,
    pub key: Option<String>,
}

/// A started workflow: its task, and those of its steps in the order of the file.
#[derive(Debug, Clone)]
pub struct Started {
    pub workflow: Stored,
    pub steps: Vec<Stored>,
    /// Whether this is the answer to an earlier request with the same key.
    pub replayed: bool,
}

/// Starts workflows: all tasks of all of them are created in one transaction.
pub fn start(
    session: &Session,
    library: &Library,
    flows: &[Workflow],
    request: &StartRequest,
    now: Instant,
) -> Result<Vec<Started>, OpsError> {
    let store = session.may(Operation::AddTasks)?;
    for _ in 0..TRIES {
        let last = store.last_workflow(&request.project)?;
        let planned = plan(store, &session.actor(), library, flows, request)?;
        let seen = (request.project.as_str(), last);
        let Some(added) = store.add_workflows(&planned.children, seen, now)? else { continue };
        let started = flows.iter().zip(&planned.heads).map(|(flow, head)| {
            let place = |step: &Step| planned.places[&(flow.id.clone(), step.id.clone())];
            let steps = flow.steps.iter().map(|step| added[place(step)].stored.clone()).collect();
            let Applied { stored, replayed, .. } = added[*head].clone();
            Started { workflow: stored, steps, replayed }
        });
        return Ok(started.collect());
    }
    Err(StoreError::Db(DbError::Conflict).into())
}

/// The tasks of workflows, as they have to be by what runs in the project.
struct StartPlan {
    children: Vec<NewChild>,
    heads: Vec<usize>,
    places: BTreeMap<(String, String), usize>,
}

fn plan(
    store: &Store,
    actor: &Actor,
    library: &Library,
    flows: &[Workflow],
    request: &StartRequest,
) -> Result<StartPlan, OpsError> {
    let path = store.project(&request.project)?;
    let mut start = WorkflowStart {
        has_repo: path.is_some_and(|path| Path::new(&path).join(".git").exists()),
        store,
        library,
        actor,
        request,
        children: Vec::new(),
        places: BTreeMap::new(),
        mailboxes: BTreeMap::new(),
        known: BTreeMap::new(),
    };
    let sorted = start.in_order(flows)?;
    let mut heads = Vec::new();
    for flow in flows {
        heads.push(start.workflow(flow)?);
    }
    for (which, step) in sorted {
        start.step(&flows[which], heads[which], step)?;
    }
    let WorkflowStart { children, places, .. } = start;
    Ok(StartPlan { children, heads, places })
}

/// What the files of steps in the mailbox are named after.
fn file_names(steps: &[Step]) -> BTreeSet<String> {
    let gates = steps.iter().filter_map(|step| step.gate.as_ref()).map(|gate| gate.id.clone());
    steps.iter().map(|step| step.id.clone()).chain(gates).collect()
}

struct WorkflowStart<'a> {
    store: &'a Store,
    library: &'a Library,
    actor: &'a Actor,
    request: &'a StartRequest,
    children: Vec<NewChild>,
    /// The index of each step in `children`, by its workflow and its id.
    places: BTreeMap<(String, String), usize>,
    /// The place in the mailbox of each workflow, and the names of its files there.
    mailboxes: BTreeMap<String, (Option<String>, BTreeSet<String>)>,
    /// A lifecycle is proven once for all steps with the same settings.
    known: BTreeMap<String, Definition>,
    has_repo: bool,
}

impl WorkflowStart<'_> {
    /// Every step after those that it needs, also across the workflows that are started together.
    fn in_order<'f>(&self, flows: &'f [Workflow]) -> Result<Vec<(usize, &'f Step)>, OpsError> {
        let mut waiting: Vec<(usize, &Step)> = Vec::new();
        for (which, flow) in flows.iter().enumerate() {
            if flows[..which].iter().any(|other| other.id == flow.id) {
                let message = format!("the workflow `{}` is given twice", flow.id);
                return Err(OpsError::input(message, "leave one of the files out"));
            }
            waiting.extend(flow.steps.iter().map(|step| (which, step)));
        }
        if let Some(problem) = without_meaning(flows) {
            return Err(problem);
        }
        let mut placed: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut sorted = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let is_ready = |(which, step): &(usize, &Step)| {
                step.needs.iter().all(|need| match need {
                    Need::Step(id) => placed.contains(&(flows[*which].id.as_str(), id.as_str())),
                    Need::Elsewhere { workflow, step: name } => {
                        let here = flows.iter().filter(|flow| flow.id == *workflow);
                        let mut meant = here
                            .flat_map(|flow| &flow.steps)
                            .filter(|step| matches_step(name, &step.id));
                        meant.all(|step| placed.contains(&(workflow.as_str(), step.id.as_str())))
                    }
                })
            };
            let (ready, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_ready);
            if ready.is_empty() {
                let names: Vec<&str> =
                    rest.iter().take(8).map(|(_, step)| step.id.as_str()).collect();
                let message =
                    format!("steps of these workflows wait for each other: {}", names.join(", "));
                return Err(OpsError::input(message, "take one of them out of some `needs`"));
            }
            placed.extend(
                ready.iter().map(|(which, step)| (flows[*which].id.as_str(), step.id.as_str())),
            );
            sorted.extend(ready);
            waiting = rest;
        }
        Ok(sorted)
    }

    /// Adds the task of the workflow and returns its index.
    fn workflow(&mut self, flow: &Workflow) -> Result<usize, OpsError> {
        let limit = flow.breaker.time.map(|time| timeout(SettingName::TimeLimit, time));
        let head = Workflow { steps: Vec::new(), ..flow.clone() };
        // Without a repository there is nothing to merge, and manual work has no branches of ours.
        let merges = flow.merge && self.has_repo && !self.request.manual;
        let fields = [
            (Field::Workflow, flow.id.as_str().into()),
            (Field::Spec, value_of(&head)),
            (Field::Merges, merges.into()),
        ];
        let mut child = self.child(
            Purpose::Workflow,
            limit.into_iter().collect(),
            &flow.name,
            fields.into(),
            &flow.id,
        )?;
        child.add.new.body = flow.about.clone();
        // Batches are named after their workflow: `phase-4`, `phase-4-2`, …
        child.add.new.batch = Some(named(&flow.id)?.to_owned());
        child.own_batch = Some(flow.parallel.unwrap_or(limits::BATCH_CONCURRENCY));
        self.children.push(child);
        Ok(self.children.len() - 1)
    }

    fn step(&mut self, flow: &Workflow, head: usize, step: &Step) -> Result<(), OpsError> {
        let launch = if self.request.manual { LaunchMode::Interactive } else { step.launch };
        let runs = step.run.is_some() && !self.request.manual;
        let level = step.gate.as_ref().map_or(NO_GATE, |gate| gate.level.as_str());
        let driver = if self.request.manual { DrivenBy::Person } else { DrivenBy::Engine };
        let proof = launch == LaunchMode::Interactive && self.can_be_shown(step);
        let fields = [
            (Field::Workflow, flow.id.as_str().into()),
            (Field::Step, step.id.as_str().into()),
            (Field::Spec, value_of(step)),
            (Field::Level, level.into()),
            (Field::Launch, value_of(&launch)),
            (Field::StepDriver, driver.as_str().into()),
            (Field::Proof, proof.into()),
            (Field::RunsCommand, runs.into()),
        ];
        let title = if step.name == step.id {
            step.id.clone()
        } else {
            format!("{} {}", step.id, step.name)
        };
        let key = format!("{}/{}", flow.id, step.id);
        let settings = self.settings(step);
        let mut child = self.child(Purpose::Step, settings, title.trim(), fields.into(), &key)?;
        // After its key, so that a repeated start is the same request.
        if let Some(place) = self.place(flow)? {
            let spec = value_of(&step.clone().placed(&place));
            child.add.new.fields.insert(Field::Spec.to_string(), spec);
        }
        child.add.new.body = step.prompt.clone();
        let tag = if runs { format!("needs:{COMMAND_WORKER}") } else { step.role.clone() };
        child.add.new.tags = vec![tag];
        child.add.new.tags.extend(step.worker.as_ref().map(|worker| format!("needs:{worker}")));
        child.parent = Some(head);
        for need in &step.needs {
            match need {
                Need::Step(id) => {
                    let place = self.places[&(flow.id.clone(), id.clone())];
                    child.after.push((place, Edge::Blocks));
                }
                Need::Elsewhere { workflow, step } => {
                    self.need_elsewhere(&mut child, workflow, step)?;
                }
            }
        }
        child.after.sort_unstable();
        child.after.dedup();
        self.places.insert((flow.id.clone(), step.id.clone()), self.children.len());
        self.children.push(child);
        Ok(())
    }

    /// Whether facts can show that a manual step is done. If Banksman drives the workflow, the step
    /// is checked in a worktree, and an agent judges the rest; in a manual workflow, facts alone
    /// show it, and the gate judges the rest.
    fn can_be_shown(&self, step: &Step) -> bool {
        let by_criterion =
            matches!(step.criterion, Some(Criterion::Command(_) | Criterion::File(_)));
        let by_facts = by_criterion || step.run.is_some() || !step.outputs.is_empty();
        if self.request.manual {
            return by_facts;
        }
        self.has_repo && (by_facts || step.criterion.is_some())
    }

    /// Where this run exchanges files, if another workflow with a step or gate of the same name is
    /// still using the folders of the mailbox: `NAME-2`.
    fn place(&mut self, flow: &Workflow) -> Result<Option<String>, OpsError> {
        if let Some((known, _)) = self.mailboxes.get(&flow.id) {
            return Ok(known.clone());
        }
        let own = file_names(&flow.steps);
        let beside = self.mailboxes.values().filter(|(_, names)| !names.is_disjoint(&own));
        let mut taken: BTreeSet<Option<String>> = beside.map(|(place, _)| place.clone()).collect();
        let mut open = recent_in(self.store, Some(&self.request.project))?;
        open.retain(|stored| !stored.state().terminal);
        for stored in &open {
            let steps = self.store.children(stored.task.id)?;
            let specs = steps.iter().filter_map(|step| step.data::<Step>(Field::Spec).transpose());
            let specs: Vec<Step> = specs.collect::<Result<_, _>>()?;
            if !file_names(&specs).is_disjoint(&own) {
                taken.extend(specs.into_iter().map(|spec| spec.place));
            }
        }
        let name = workflow::file_name(&flow.id);
        let numbered = (2..).map(|number| Some(format!("{name}-{number}")));
        let place = iter::once(None).chain(numbered).find(|place| !taken.contains(place)).flatten();
        self.mailboxes.insert(flow.id.clone(), (place.clone(), own));
        Ok(place)
    }

    /// The file's options of the gate, as settings of the step's lifecycle.
    fn settings(&self, step: &Step) -> Overrides {
        let manual = self.request.manual.then_some(MANUAL_PATIENCE);
        let mut overrides = Overrides::new();
        overrides.extend(manual.map(|time| timeout(SettingName::AnswerTimeout, time)));
        let Some(gate) = &step.gate else { return overrides };
        // No retries mean the same as one: the first failure asks a person.
        let retries = Setting::Number(f64::from(gate.max_retries.max(1)));
        overrides.insert(SettingName::MaxRetries.to_string(), retries);
        overrides.extend(gate.veto_window.map(|time| timeout(SettingName::VetoWindow, time)));
        let patience = manual.or(gate.timeout);
        overrides.extend(patience.map(|time| timeout(SettingName::GateTimeout, time)));
        overrides
    }

    fn child(
        &mut self,
        purpose: Purpose,
        overrides: Overrides,
        title: &str,
        fields: Vec<(Field, Value)>,
        key: &str,
    ) -> Result<NewChild, OpsError> {
        let lifecycle = purpose.engine_lifecycle().unwrap_or_default();
        let definition = match self.known.entry(format!("{lifecycle} {overrides:?}")) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                new.insert(self.library.definition_with(lifecycle, overrides)?).clone()
            }
        };
        let fields: Fields =
            fields.into_iter().map(|(field, value)| (field.to_string(), value)).collect();
        let key = self.request.key.as_ref().map(|word| {
            let text = format!("{word}:{key}");
            IdempotencyKey::new(&text, &request_text(&(&text, title, &fields)))
        });
        let new = NewTask {
            title: title.to_owned(),
            project: self.request.project.clone(),
            priority: self.request.priority,
            fields,
            ..NewTask::default()
        };
        let add = Add {
            new,
            definition,
            needs: Vec::new(),
            actor: self.actor.clone(),
            key,
            arrival: None,
        };
        Ok(NewChild { add, parent: None, after: Vec::new(), own_batch: None })
    }

    /// Lets a step wait for what a name means in a workflow that is started together with its own,
    /// or was started before.
    fn need_elsewhere(
        &self,
        child: &mut NewChild,
        workflow: &str,
        name: &str,
    ) -> Result<(), OpsError> {
        let is_meant =
            |((of, id), _): &(&(String, String), &usize)| of == workflow && matches_step(name, id);
        let together = self.places.iter().filter(is_meant).map(|(_, place)| (*place, Edge::Blocks));
        let before = child.after.len();
        child.after.extend(together);
        if child.after.len() == before {
            let started = self.started_before(workflow, name)?;
            child.add.needs.extend(started.into_iter().map(|task| (task, Edge::Blocks)));
        }
        Ok(())
    }

    fn started_before(&self, workflow: &str, name: &str) -> Result<Vec<TaskId>, OpsError> {
        let Some(latest) = latest(self.store, &self.request.project, workflow)? else {
            return Err(no_workflow(
                format!("the workflow `{workflow}` was never started in this project"),
                Hint::StartWorkflow(Some(workflow.to_owned())),
            ));
        };
        let steps = self.store.children(latest.task.id)?;
        let is_meant =
            |step: &&Stored| step.text(Field::Step).is_some_and(|id| matches_step(name, id));
        let meant: Vec<TaskId> = steps.iter().filter(is_meant).map(|step| step.task.id).collect();
        if meant.is_empty() {
            return find_step(&steps, name).map(|step| vec![step.task.id]);
        }
        Ok(meant)
    }
}

/// A name that means nothing in a workflow that is started together with the one that needs it.
fn without_meaning(flows: &[Workflow]) -> Option<OpsError> {
    let needs = flows.iter().flat_map(|flow| &flow.steps).flat_map(|step| &step.needs);
    needs.into_iter().find_map(|need| match need {
        Need::Step(_) => None,
        Need::Elsewhere { workflow, step: name } => {
            let flow = flows.iter().find(|flow| flow.id == *workflow)?;
            let mut ids = flow.steps.iter().map(|step| step.id.as_str());
            if ids.clone().any(|id| matches_step(name, id)) {
                return None;
            }
            let message = format!("the workflow `{workflow}` has no step `{name}`");
            Some(OpsError::input(message, named_near(name, &mut ids)))
        }
    })
}

fn timeout(name: SettingName, time: Span) -> (String, Setting) {
    (name.to_string(), Setting::Time(time))
}

fn latest(store: &Store, project: &str, id: &str) -> Result<Option<Stored>, OpsError> {
    let all = recent_in(store, Some(project))?;
    Ok(all.into_iter().find(|stored| stored.text(Field::Workflow) == Some(id)))
}

/// Copies the files into the project's mailbox for readers. The tasks have everything that is
/// needed, so a failure is only reported.
pub fn copy_specs(
    session: &Session,
    project: &str,
    files: &[PathBuf],
    flows: &[Workflow],
) -> Result<Vec<String>, OpsError> {
    let store = session.may(Operation::AddTasks)?;
    let Some(root) = store.project(project)?.filter(|root| Path::new(root).join(".git").exists())
    else {
        return Ok(Vec::new());
    };
    let mailbox = Mailbox::new(root);
    let warning = |(file, flow): (&PathBuf, &Workflow)| {
        let name = file.display();
        match mailbox.keep_spec_file(&flow.id, file) {
            Ok(SpecCopy::Written(_) | SpecCopy::AlreadyThere(_)) => None,
            Ok(SpecCopy::Differs(path)) => {
                Some(format!("{path} differs and was not overwritten; the workflow runs {name}"))
            }
            Err(error) => Some(format!("failed to copy {name}: {error}")),
        }
    };
    Ok(files.iter().zip(flows).filter_map(warning).collect())
}
