//! Workflows: reads and checks their files, turns their steps into tasks, and turns reports about a
//! step into moves of its task. Nothing here runs a step: the engine does.

mod lint;
mod manual_check;
mod next;
mod simulate;
mod start;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use banksman_core::closed::closed;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::lifecycle::problem::{Problems, nearest, suggestion};
use banksman_core::lifecycle::{StateKind, Transition};
use banksman_core::limits;
use banksman_core::machine::running_timeouts;
use banksman_core::time::Instant;
use banksman_core::workflow::{self, Step, Workflow};

use super::error_report::{Code, Hint, ReportInstead};
use super::panels::{PendingReview, open_reviews};
use super::principal::{Operation, Principal};
use super::tasks::{MoveRequest, move_task};
use super::{OpsError, Session};
use crate::config::Agents;
use crate::exec::job::JobId;
use crate::exec::site::LocalSite;
use crate::plain_file::read_text;
use crate::store::{Applied, PastRun, Store, StoreError, Stored};

pub use lint::{LintTarget, Linted, lint};
pub use manual_check::{ManualCheck, manual_check};
pub use next::{NextAction, NextActionKind, is_moving, next};
pub use simulate::{Simulated, Verdicts, simulate};
pub use start::{StartRequest, Started, copy_specs, start};

/// Workflows that are searched for a name.
const RECENT: i64 = 1_000;
/// From a review to its step, and from there to the workflow. Nothing is nested deeper.
const DEPTH: usize = 3;
/// The latest runs of a step whose failures are listed.
const RUNS_LISTED: i64 = 20;
/// Names that are listed if none is similar to what was typed.
const NAMES_LISTED: usize = 12;

/// Values by the names of their parameters.
pub type Params = BTreeMap<String, Value>;

#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error("failed to read `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{0}")]
    Unsound(Box<Problems>),
}

/// Reads files and the files that they include, and fills in the parameters. A parameter is given
/// to the files that declare it.
pub fn load(paths: &[PathBuf], params: &Params) -> Result<Vec<Workflow>, OpsError> {
    let sources = Source::read_all(paths, params)?;
    sources.iter().map(|source| Ok(source.flow()?)).collect()
}

/// A file as it is written, with its parameters.
struct Source {
    path: PathBuf,
    text: String,
    /// Otherwise its text has replacement characters for what cannot be read.
    params: Params,
}

impl Source {
    fn read_all(paths: &[PathBuf], params: &Params) -> Result<Vec<Self>, OpsError> {
        let mut sources = Vec::new();
        for path in paths {
            let fault = |source| WorkflowError::Read { path: path.clone(), source };
            let text = read_text(path, limits::WORKFLOW_BYTES).map_err(fault)?;
            sources.push(Self { path: path.clone(), text, params: params.clone() });
        }
        if sources.len() > 1 {
            share(&mut sources, params)?;
        }
        Ok(sources)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn flow(&self) -> Result<Workflow, WorkflowError> {
        let origin = self.path.display().to_string();
        let include = |name: &str| {
            let included = read_text(&self.folder().join(name), limits::WORKFLOW_BYTES);
            included.map_err(|error| error.to_string())
        };
        workflow::load(&self.text, &origin, &self.params, &include)
            .map_err(|problems| WorkflowError::Unsound(Box::new(problems)))
    }
}

/// A single file reports unknown parameters itself, with the line. Of several files, each gets the
/// parameters that it declares, and one that none of them declares is a typing mistake.
fn share(sources: &mut [Source], params: &Params) -> Result<(), OpsError> {
    let declared: Vec<Vec<String>> =
        sources.iter().map(|source| workflow::outline(&source.text).params).collect();
    for name in params.keys() {
        let mut known = declared.iter().flatten().map(String::as_str);
        if !known.clone().any(|declared| declared == name) {
            let message = format!("none of these files has a parameter `{name}`");
            return Err(OpsError::input(message, named_near(name, &mut known)));
        }
    }
    for (source, declared) in sources.iter_mut().zip(&declared) {
        source.params.retain(|name, _| declared.contains(name));
    }
    Ok(())
}

/// Workflows of a project, or of all, the one that was started last first.
pub fn recent(session: &Session, project: Option<&str>) -> Result<Vec<Stored>, OpsError> {
    recent_in(session.may(Operation::ReadStore)?, project)
}

fn recent_in(store: &Store, project: Option<&str>) -> Result<Vec<Stored>, OpsError> {
    let mut found = store.workflows(project, RECENT)?;
    found.sort_by_key(|stored| Reverse(stored.task.id));
    Ok(found)
}

/// The workflow that a word names: by its own name, the one that was started last; or by the id of
/// its task, or of one of its steps or reviews. Without a word, the last of all.
pub fn find(
    session: &Session,
    project: Option<&str>,
    word: Option<&str>,
) -> Result<Stored, OpsError> {
    let (store, all) = (session.may(Operation::ReadStore)?, recent(session, project)?);
    let Some(word) = word else {
        return all.into_iter().next().ok_or_else(none_yet);
    };
    if let Some(named) = all.iter().find(|stored| stored.text(Field::Workflow) == Some(word)) {
        return Ok(named.clone());
    }
    if let Ok(id) = word.parse::<TaskId>() {
        return parent_of(store, id);
    }
    if all.is_empty() {
        return Err(none_yet());
    }
    let mut known = all.iter().filter_map(|stored| stored.text(Field::Workflow));
    let hint = named_near(word, &mut known);
    Err(no_workflow(format!("no workflow `{word}` was started"), hint))
}

/// The workflow of a task, or the task itself if it is one.
fn parent_of(store: &Store, id: TaskId) -> Result<Stored, OpsError> {
    let mut stored = store.task(id)?;
    for _ in 0..DEPTH {
        if stored.is_workflow() {
            return Ok(stored);
        }
        let Some(parent) = stored.task.parent else { break };
        stored = store.task(parent)?;
    }
    Err(no_workflow(format!("{id} belongs to no workflow"), Hint::ListWorkflows))
}

fn no_workflow(message: impl Into<String>, hint: impl Into<Hint>) -> OpsError {
    OpsError::about(Code::NoWorkflow, message, hint)
}

fn none_yet() -> OpsError {
    no_workflow("no workflow was started here yet", Hint::StartWorkflow(None))
}

/// The similar names, or all of them if they are few.
fn named_near(word: &str, known: &mut dyn Iterator<Item = &str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    known.dedup();
    // A step of a matrix, or of an included file.
    if let Some(longer) = known.iter().find(|known| known.starts_with(word)) {
        return format!("did you mean `{longer}`?");
    }
    if known.len() <= NAMES_LISTED || nearest(word, known.iter().copied()).is_some() {
        return suggestion(word, known);
    }
    format!("there are {}, {} among them", known.len(), known[..3].join(", "))
}

/// Where a person does a manual step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkPlace {
    pub worktree: PathBuf,
    pub branch: String,
}

impl WorkPlace {
    /// The worktree that was made for the step, if it is on this machine.
    fn of(agents: &Agents, step: &Stored) -> Option<Self> {
        let at_work = step.is_manual_step() && !step.is_driven_by_person();
        let job = JobId::Activity { task: step.task.id, seq: step.task.entered };
        let folder = LocalSite::find(&agents.home, job).filter(|_| at_work)?;
        let workspace = folder.spec().ok()??.workspace?;
        Some(Self { worktree: workspace.worktree, branch: workspace.branch })
    }
}

impl fmt::Display for WorkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work in `{}`, on the branch `{}`", self.worktree.display(), self.branch)
    }
}

/// The status of a workflow, its steps in an order in which they can start.
#[derive(Debug, Clone)]
pub struct WorkflowStatus {
    pub workflow: Stored,
    pub steps: Vec<Stored>,
    pub flow: Workflow,
    /// The cost of all its runs that have ended, including those of reviewers.
    pub cost_micros: i64,
    /// The attempts of each step that failed, the oldest first.
    pub failed: BTreeMap<TaskId, Vec<PastRun>>,
    /// Where people do manual steps, as far as that is on this machine.
    pub places: BTreeMap<TaskId, WorkPlace>,
    /// The reviews that steps at a gate of agents wait for.
    pub reviews: BTreeMap<TaskId, Vec<PendingReview>>,
}

pub fn status(
    session: &Session,
    agents: &Agents,
    workflow: Stored,
) -> Result<WorkflowStatus, OpsError> {
    let store = session.may(Operation::ReadStore)?;
    let steps = store.children(workflow.task.id)?;
    let mut flow: Workflow = workflow.owed(Field::Spec)?;
    for step in &steps {
        flow.steps.push(step.owed(Field::Spec)?);
    }
    // A workflow has its own batch, which includes its reviews.
    let batch = workflow.task.batch.as_deref();
    let cost_micros = batch.map_or(Ok(0), |batch| store.cost_of_batch(batch))?;
    let (mut reviews, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for step in &steps {
        reviews.insert(step.task.id, open_reviews(store, step)?);
        if step.task.epoch > 0 {
            let past = store.past_runs(step.task.id, RUNS_LISTED)?;
            failed.insert(step.task.id, past.into_iter().filter(PastRun::has_failed).collect());
        }
    }
    reviews.retain(|_, open| !open.is_empty());
    let place = |step: &Stored| Some((step.task.id, WorkPlace::of(agents, step)?));
    let places = steps.iter().filter_map(place).collect();
    Ok(WorkflowStatus { workflow, steps, flow, cost_micros, failed, places, reviews })
}

/// Finds a step by its id in the file, or by the id of its gate or of its task.
fn find_step<'s>(steps: &'s [Stored], word: &str) -> Result<&'s Stored, OpsError> {
    let gates: Vec<Option<String>> =
        steps.iter().map(gate_of).collect::<Result<_, StoreError>>()?;
    let by_file = steps.iter().zip(&gates).find(|(stored, gate)| {
        stored.text(Field::Step) == Some(word) || gate.as_deref() == Some(word)
    });
    let by_task = || {
        let id = word.parse::<TaskId>().ok()?;
        steps.iter().find(|stored| stored.task.id == id)
    };
    by_file.map(|(stored, _)| stored).or_else(by_task).ok_or_else(|| {
        let ids = steps.iter().filter_map(|stored| stored.text(Field::Step));
        let hint = named_near(word, &mut ids.chain(gates.iter().flatten().map(String::as_str)));
        no_workflow(format!("there is no step or gate `{word}`"), hint)
    })
}

fn gate_of(stored: &Stored) -> Result<Option<String>, StoreError> {
    let step: Option<Step> = stored.data(Field::Spec)?;
    Ok(step.and_then(|step| step.gate).map(|gate| gate.id))
}

/// Until when people may veto a step that an agent has let pass. Then it continues by itself.
pub fn veto_ends(stored: &Stored) -> Option<Instant> {
    let offers = &stored.state().does.as_ref()?.offers;
    let (_, bound) = running_timeouts(&stored.lifecycle, &stored.task)
        .min_by_key(|(_, timeout)| timeout.time)?;
    let is_open = offers.iter().any(|(_, trigger)| trigger == Trigger::Veto.name());
    is_open.then(|| stored.task.entered_at.plus(bound.time))
}

closed! {
    /// How a step or a gate ended, in the words of people.
    pub enum ReportedOutcome {
        Done = "done",
        Pass = "pass",
        Fail = "fail",
        Veto = "veto",
        Abort = "abort",
        Retry = "retry",
        Skip = "skip",
    }
}

impl ReportedOutcome {
    /// The trigger that it requests, and the field of its note.
    fn meaning(self) -> (Trigger, Field) {
        match self {
            Self::Done => (Trigger::Signal, Field::Note),
            Self::Pass => (Trigger::Pass, Field::Note),
            Self::Fail => (Trigger::Fail, Field::Feedback),
            Self::Veto => (Trigger::Veto, Field::Feedback),
            Self::Abort => (Trigger::Abort, Field::Reason),
            Self::Retry => (Trigger::Retry, Field::Note),
            Self::Skip => (Trigger::Skip, Field::Note),
        }
    }

    /// Whether it is useless without a note.
    pub fn needs_note(self) -> bool {
        match self {
            Self::Fail | Self::Veto | Self::Abort => true,
            Self::Done | Self::Pass | Self::Retry | Self::Skip => false,
        }
    }
}

/// A report about a step.
#[derive(Debug, Clone, Copy)]
pub struct StepReport<'a> {
    pub word: ReportedOutcome,
    /// Where it was done, for the driver of a manual workflow.
    pub place: Option<WorkFolder<'a>>,
    pub note: Option<&'a str>,
    pub reason: Option<&'a str>,
    pub key: Option<&'a str>,
}

/// A folder, and the machine that has it.
#[derive(Debug, Clone, Copy)]
pub struct WorkFolder<'a> {
    pub folder: &'a str,
    pub node: &'a str,
}

/// Requests the move that a report means. A manual step need not wait for Banksman to prepare it:
/// the report opens it, with a move and not in a turn of the engine, because the reporting machine
/// need not run one.
pub fn report(
    session: &Session,
    step: &Stored,
    said: StepReport<'_>,
    now: Instant,
) -> Result<Applied, OpsError> {
    if said.word == ReportedOutcome::Done && next::awaits_manual_step(step) {
        let open = MoveRequest::by(Trigger::Open, Fields::new());
        match move_task(session, step.task.id, &open, now) {
            // The engine was faster, or the caller may not open it: the report's own move decides.
            Ok(_) | Err(OpsError::Store(StoreError::Rejected(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let (trigger, field) = said.word.meaning();
    let note = said.note.map(|note| (field, note));
    let reason = said.reason.map(|reason| (Field::FailedFor, reason));
    let place =
        said.place.filter(|_| said.word == ReportedOutcome::Done && step.flag(Field::Proof));
    let place =
        place.map(|WorkFolder { folder, node }| [(Field::DoneIn, folder), (Field::DoneOn, node)]);
    let fields = note.into_iter().chain(reason).chain(place.into_iter().flatten());
    let fields = fields.map(|(field, text)| (field.to_string(), text.into())).collect();
    let key = said.key.map(str::to_owned);
    let request = MoveRequest { key, ..MoveRequest::by(trigger, fields) };
    move_task(session, step.task.id, &request, now)
}

/// What can be reported instead of a refused report.
pub fn instead(session: &Session, step: &Stored, said: StepReport<'_>) -> ReportInstead {
    let role = session.actor().role;
    let lifecycle = &step.lifecycle;
    let may = |row: &&Transition| row.roles.iter().any(|id| lifecycle.role_name(*id) == role);
    let open = |word: ReportedOutcome| {
        let mut rows = lifecycle.exits(step.task.state).filter(may);
        rows.any(|row| row.trigger == word.meaning().0.name())
    };
    if open(said.word) && said.word.needs_note() && said.note.is_none() {
        return ReportInstead::NeedsNote;
    }
    let fits = |word: &ReportedOutcome| {
        open(*word) || (*word == ReportedOutcome::Done && next::awaits_manual_step(step))
    };
    let status = match step.state() {
        state if state.kind == StateKind::Queued && step.task.open_needs > 0 => {
            format!("{} and waits for other steps", state.name)
        }
        state => state.name.clone(),
    };
    ReportInstead::Words {
        task: step.task.id,
        step: step.text(Field::Step).unwrap_or_default().to_owned(),
        words: ReportedOutcome::ALL.into_iter().filter(fits).collect(),
        status,
        role,
    }
}

/// A step by its id in the file, its gate's, or its task's.
pub fn step_named(
    session: &Session,
    project: Option<&str>,
    workflow: Option<&str>,
    word: &str,
) -> Result<Stored, OpsError> {
    if let Principal::Run(_) = session.principal() {
        return super::tasks::find(session, word.parse()?);
    }
    let store = session.may(Operation::ReadStore)?;
    let of = |parent: &Stored| -> Result<Stored, OpsError> {
        find_step(&store.children(parent.task.id)?, word).cloned()
    };
    let here = find(session, project, workflow).and_then(|parent| of(&parent));
    match (here, workflow, word.parse::<TaskId>()) {
        // The id of a task identifies its workflow too. An id in a file may also be a number, and
        // takes precedence.
        (Err(OpsError::Input { .. }), None, Ok(id)) => of(&parent_of(store, id)?),
        (here, _, _) => here,
    }
}
