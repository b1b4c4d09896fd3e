//! Decisions of people: the inbox, everything that is needed to decide, and what each answer would
//! do.
//!
//! The machine computes what an answer would do: an offer is applied to the present task and not
//! written. `answer` gives an answer, `undo` takes one back if the lifecycle has a transition for
//! it, `words` finds the field for a person's words.

mod answer;
mod diff;
mod refused;
mod undo;
mod verdicts;
mod words;
mod work;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use banksman_core::ids::{DecisionId, NotAnId, TaskId};
use banksman_core::lifecycle::contract::{AnswerRole, ApprovalType, Field, Trigger};
use banksman_core::lifecycle::expr::Fields;
use banksman_core::lifecycle::{Activity, Lifecycle, RankedOffer, StateKind, Transition};
use banksman_core::machine::{
    self, Actor, Event, FieldError, Spent, StepResult, Task, TransitionRequest, running_timeouts,
};
use banksman_core::time::{Instant, Span};

use super::error_report::CHECK_PATH;
use super::principal::Operation;
use super::remedy::remedy;
use super::why::NextStep;
use super::{OpsError, Session};
use crate::config::Environment;
use crate::exec::git::Git;
use crate::exec::process::PlainRunner;
use crate::store::query::{Decision, Detail};
use crate::store::runs::PastRun;
use crate::store::{HistoryEntry, Store, Stored};

pub use answer::{AnswerRequest, AnswerResult, answer, answer_each, offering};
pub(super) use answer::{answer_telling, record_permission};
pub use diff::Diff;
pub use refused::require_person;
pub(super) use refused::{may_answer, may_move, settled};
pub use undo::{UNDO_WINDOW, has_way_back, undo};
pub use verdicts::ReviewerVerdict;
pub use work::WorkRecord;

/// Runs that are shown with a decision.
const RUNS: i64 = 10;
/// The longest snooze: longer than anybody is away.
const LONGEST_SNOOZE: Span = Span(90 * 86_400_000);

/// Which decision: by its own id, or the open one of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionRef {
    Decision(DecisionId),
    Task(TaskId),
}

impl FromStr for DecisionRef {
    type Err = NotAnId;

    /// The letter is required, because a bare number could be either.
    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let refuse = || NotAnId {
            text: text.chars().take(64).collect(),
            kind: "decision (d12) or task (t12)",
        };
        match text.chars().next() {
            Some('d') => text.parse().map(Self::Decision).map_err(|_| refuse()),
            Some('t') => text.parse().map(Self::Task).map_err(|_| refuse()),
            Some(_) | None => Err(refuse()),
        }
    }
}

impl fmt::Display for DecisionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decision(id) => id.fmt(f),
            Self::Task(id) => id.fmt(f),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    #[error("there is no decision {0}")]
    Unknown(DecisionId),
    #[error("{0} has no open or past decision")]
    NothingAsked(TaskId),
    #[error("this decision does not offer `{word}`; {id} offers {}", offers.join(", "))]
    NotOffered { id: DecisionId, word: String, offers: Vec<String> },
    #[error("{id} is settled, and nothing was changed: {}", since.join("; "))]
    Settled { id: DecisionId, task: TaskId, since: Vec<String> },
    #[error("{task} has changed since version {seen}, and {id} was not answered: {}", since.join("; "))]
    MovedOn { id: DecisionId, task: TaskId, seen: i64, since: Vec<String> },
    #[error("{id} is answered by {by}: {action}, takes effect at {due}")]
    Answered { id: DecisionId, by: String, action: String, due: Instant },
    #[error("`{action}` needs your words: {message}")]
    NeedsWords { id: DecisionId, action: String, message: String },
    #[error("the lifecycle {lifecycle} keeps no note with `{action}`")]
    NoPlaceForWords { lifecycle: String, action: String },
    #[error("an agent's run cannot answer, put off or undo a decision")]
    OfRun,
    #[error("{0} asks for no action that could be allowed; answer it instead")]
    NothingToAllow(DecisionId),
    #[error("{0} is not a person, and decisions are made by people")]
    NotAPerson(Actor),
    #[error("{id} is due at {deadline}, before the time that it would be put off to")]
    DueBefore { id: DecisionId, deadline: Instant },
    #[error("a decision can be put off for at most {}", LONGEST_SNOOZE)]
    TooLong,
    #[error("{by} has answered nothing in the last {window}")]
    NothingToUndo { by: Actor, window: Span },
    #[error("{0} is still open: there is nothing to undo")]
    StillOpen(DecisionId),
    #[error("{id} was settled by {by}; only who answered can undo it")]
    NotYours { id: DecisionId, by: String },
    #[error("{id} was answered at {at}, and an answer can be undone for {window}")]
    TooLate { id: DecisionId, at: Instant, window: Span },
    #[error("{id} is not undone, because {task} has gone on since: {}", since.join("; "))]
    GoneOn { id: DecisionId, task: TaskId, since: Vec<String> },
    #[error("no transition for people from {from} back to {to}: {why}")]
    NoWayBack { task: TaskId, from: String, to: String, why: String },
}

/// One open decision in the inbox.
#[derive(Debug, Clone)]
pub struct InboxItem {
    pub decision: Decision,
    /// Without its body.
    pub stored: Stored,
    /// Something went wrong, or the reviewers could not agree.
    pub escalated: bool,
    /// What happens if nobody answers.
    pub consequence: Option<Consequence>,
    /// What each answer would do, by role.
    pub offers: Vec<Offer>,
    /// The task that it is a part of, with its title.
    pub parent: Option<(TaskId, String)>,
    /// Whether the verdicts on record are about what is asked, and not about an earlier state.
    pub is_judged: bool,
}

impl InboxItem {
    /// The task's title, and which task it is a part of.
    pub fn title(&self) -> String {
        let title = &self.decision.title;
        match &self.parent {
            Some((id, parent)) => format!("{title} (part of {id} {parent})"),
            None => title.clone(),
        }
    }

    /// The answers that lead somewhere now.
    pub fn possible(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter().filter(|offer| offer.is_possible)
    }

    pub fn is_snoozed(&self, now: Instant) -> bool {
        self.decision.snoozed_until.is_some_and(|until| until > now)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consequence {
    pub at: Instant,
    pub trigger: String,
    pub to: String,
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub action: String,
    pub trigger: String,
    pub role: AnswerRole,
    /// Its key in `triage`.
    pub key: Option<char>,
    /// Whether it is the first of its role, which also has the digit of the role.
    pub is_first: bool,
    /// Whether the task would accept it, once it has what is missing.
    pub is_possible: bool,
    /// Where it leads.
    pub to: String,
    /// The field that takes a person's words, if there is one for this answer.
    pub words: Option<String>,
    /// What prevents the answer as long as no words are given.
    pub missing: Vec<FieldError>,
}

impl Offer {
    /// Whether the answer is possible, but only with words.
    pub fn needs_words(&self) -> bool {
        !self.missing.is_empty()
            && self.missing.iter().all(|error| Some(&error.field) == self.words.as_ref())
    }
}

/// A decision with everything that is needed to answer it.
#[derive(Debug, Clone)]
pub struct DecisionDetail {
    pub item: InboxItem,
    pub detail: Detail,
    /// The record that opened it.
    pub opened: Option<HistoryEntry>,
    /// What a person has to judge, in words.
    pub work: Vec<WorkRecord>,
    /// What to do before the answer.
    pub remedy: Option<NextStep>,
    /// Objections come first.
    pub verdicts: Vec<ReviewerVerdict>,
    /// The last runs, the oldest first.
    pub runs: Vec<PastRun>,
    /// By the task and its children.
    pub spent: Spent,
    /// The folder of its project.
    pub folder: Option<String>,
}

/// Open decisions of one project or of all, by deadline. Those without a project, such as the
/// budget of a day, concern every project. Those of damaged tasks are left out, and `check` names
/// them.
pub fn inbox(
    session: &Session,
    project: Option<&str>,
    now: Instant,
) -> Result<Vec<InboxItem>, OpsError> {
    let store = session.may(Operation::ReadStore)?;
    open_items(store, project, (&session.actor(), store.now(now)?), usize::MAX)
}

pub(super) fn open_items(
    store: &Store,
    project: Option<&str>,
    by: (&Actor, Instant),
    at_most: usize,
) -> Result<Vec<InboxItem>, OpsError> {
    let mut items = Vec::new();
    for decision in store.inbox()? {
        if items.len() == at_most {
            break;
        }
        let Some(stored) = store.readable_task(decision.task)? else { continue };
        let of = stored.task.project.as_str();
        if project.is_none_or(|project| [project, ""].contains(&of)) {
            items.push(item(store, decision, stored, by)?);
        }
    }
    Ok(items)
}

fn item(
    store: &Store,
    mut decision: Decision,
    stored: Stored,
    (actor, now): (&Actor, Instant),
) -> Result<InboxItem, OpsError> {
    let (task, is_open) = (&stored.task, decision.settled.is_none());
    let consequence = is_open.then(|| consequence(&decision, &stored)).flatten();
    if is_open && decision.question.is_none() {
        // It may have been opened by an earlier version, which did not store it.
        decision.question = machine::question(&stored.lifecycle, task).map(str::to_owned);
    }
    let escalated = is_escalated(&decision, &stored);
    let offers = if is_open { offers(&decision, &stored, actor, now) } else { Vec::new() };
    let parent = match task.parent {
        Some(id) => store.readable_task(id)?.map(|parent| (id, parent.task.title)),
        None => None,
    };
    let is_judged = is_judged(store, &decision, &stored)?;
    Ok(InboxItem { escalated, consequence, decision, offers, parent, is_judged, stored })
}

/// Whether reviewers have judged what is asked: the end of a panel or of a merge led to the
/// question, or a person has it asked again after a failure. Later, a task still has the verdicts
/// about its plan.
pub(super) fn is_judged(
    store: &Store,
    decision: &Decision,
    stored: &Stored,
) -> Result<bool, OpsError> {
    let Some(opened) = store.record(decision.task, decision.seq)? else { return Ok(true) };
    let lifecycle = &stored.lifecycle;
    let from = opened.record.from.as_deref().and_then(|from| lifecycle.find_state(from));
    let Some(from) = from else { return Ok(true) };
    let trigger = &opened.record.trigger;
    let times_out = |row: &Transition| row.timeout.is_some() && row.trigger == *trigger;
    let state = lifecycle.state(from);
    let does = state
        .does
        .as_ref()
        .filter(|does| does.ends_with(trigger) || lifecycle.exits(from).any(times_out));
    let does = does.map(|does| does.activity);
    Ok(matches!(does, Some(Activity::Panel | Activity::Merge)) || state.kind == StateKind::Failed)
}

/// Whether something went wrong: the task rests in a state for that, the question is not the
/// lifecycle's own, or the state requires to be told that it is an escalation. The same field may
/// still be set from an earlier state.
fn is_escalated(decision: &Decision, stored: &Stored) -> bool {
    let state = stored.state();
    let name = Field::ApprovalType.name_in(&stored.lifecycle);
    let is_of_state = state.requires.iter().any(|requirement| requirement.field == name);
    let is_said = stored.text(Field::ApprovalType) == Some(ApprovalType::Escalated.as_str());
    let is_trouble = matches!(state.kind, StateKind::Blocked | StateKind::Failed);
    is_trouble || decision.question.is_some() || is_of_state && is_said
}

/// The timeout that is due first.
fn consequence(decision: &Decision, stored: &Stored) -> Option<Consequence> {
    let (task, lifecycle) = (&stored.task, &stored.lifecycle);
    let (row, _) = running_timeouts(lifecycle, task).min_by_key(|(_, timeout)| timeout.time)?;
    let row = lifecycle.transitions.get(row as usize)?;
    let to = lifecycle.target_name(row.to).to_owned();
    Some(Consequence { at: decision.deadline?, trigger: row.trigger.clone(), to })
}

/// A decision, open or settled.
pub(super) fn find(store: &Store, which: DecisionRef) -> Result<Decision, OpsError> {
    let (found, missing) = match which {
        DecisionRef::Decision(id) => (store.decision(id)?, DecisionError::Unknown(id)),
        DecisionRef::Task(id) => {
            store.task(id)?;
            (store.last_decision(id)?, DecisionError::NothingAsked(id))
        }
    };
    Ok(found.ok_or(missing)?)
}

pub fn question(
    session: &Session,
    which: DecisionRef,
    now: Instant,
) -> Result<DecisionDetail, OpsError> {
    // A run reads the decisions of its own task, by either name.
    let own = session.principal().own_run().map(|run| run.task);
    let task = match which {
        DecisionRef::Task(id) => Some(id),
        DecisionRef::Decision(_) => own,
    };
    let store = match task {
        Some(task) => session.may_on(Operation::ReadTask, task)?,
        None => session.may(Operation::ReadStore)?,
    };
    let (now, actor) = (store.now(now)?, &session.actor());
    let decision = find(store, which)?;
    session.may_on(Operation::ReadTask, decision.task)?;
    let detail = store.detail(decision.task)?;
    let children = store.children(decision.task)?;
    let spent = store.spent_with_children(&detail.stored.task)?;
    let item = item(store, decision, detail.stored.clone(), (actor, now))?;
    Ok(DecisionDetail {
        work: work_of(&item),
        remedy: if is_open(&item.decision) { remedy(store, &item.stored)? } else { None },
        verdicts: verdicts_of(&item, &children),
        runs: store.past_runs(item.decision.task, RUNS)?,
        opened: store.record(item.decision.task, item.decision.seq)?,
        folder: store.project(&item.stored.task.project)?,
        item,
        spent,
        detail,
    })
}

/// What each answer to an open decision would do to the present task, by role. Who is no person
/// sees what a person could do.
fn offers(decision: &Decision, stored: &Stored, actor: &Actor, now: Instant) -> Vec<Offer> {
    let reader = Actor::human("reader");
    let actor = if actor.is_human() { actor } else { &reader };
    let ranked = stored.lifecycle.ranked(stored.task.state, &decision.offers);
    ranked.into_iter().map(|ranked| offer(stored, actor, ranked, now)).collect()
}

/// What an open question asks a person to judge, in words.
pub(super) fn work_of(item: &InboxItem) -> Vec<WorkRecord> {
    if is_open(&item.decision) { work::work(&item.stored) } else { Vec::new() }
}

fn is_open(decision: &Decision) -> bool {
    decision.settled.is_none()
}

/// What reviewers have said about the work, objections first.
pub(super) fn opinions(store: &Store, item: &InboxItem) -> Result<Vec<ReviewerVerdict>, OpsError> {
    Ok(verdicts_of(item, &store.children(item.decision.task)?))
}

fn verdicts_of(item: &InboxItem, children: &[Stored]) -> Vec<ReviewerVerdict> {
    if item.is_judged { verdicts::verdicts(&item.stored, children) } else { Vec::new() }
}

/// What the task has recorded of the reviewers' verdicts, objections first.
pub fn on_record(stored: &Stored) -> Vec<ReviewerVerdict> {
    verdicts::verdicts(stored, &[])
}

/// What an answer would do to the present task.
fn offer(stored: &Stored, actor: &Actor, ranked: RankedOffer, now: Instant) -> Offer {
    let RankedOffer { action, trigger, role, key } = ranked;
    let (to, missing) = match tried(&stored.lifecycle, &stored.task, actor, &trigger, now) {
        Ok(to) => (to, Vec::new()),
        Err(missing) => (row_target(&stored.lifecycle, &stored.task, &trigger), missing),
    };
    let is_possible = missing.iter().all(|error| words::may_be_asked(stored, actor, &error.field));
    let words = words::place(&stored.lifecycle, &stored.task, actor, &trigger, &missing);
    let is_first = key.is_some() && key == role.first_key();
    Offer { action, trigger, role, key, is_first, is_possible, to, words, missing }
}

/// Applies a move without writing it: the state it would lead to, or what prevents it.
fn tried(
    lifecycle: &Lifecycle,
    task: &Task,
    actor: &Actor,
    trigger: &str,
    now: Instant,
) -> Result<String, Vec<FieldError>> {
    let event = Event::Asked(TransitionRequest {
        actor: actor.clone(),
        to: None,
        trigger: Some(trigger.to_owned()),
        fields: Fields::new(),
        epoch: None,
        version: None,
    });
    match machine::step(lifecycle, task, &event, now) {
        Ok(StepResult::Step(step)) => Ok(lifecycle.state(step.task.state).name.clone()),
        Ok(StepResult::Later(_) | StepResult::Ignored(_)) => {
            Ok(row_target(lifecycle, task, trigger))
        }
        Err(rejected) => Err(rejected.errors),
    }
}

fn row_target(lifecycle: &Lifecycle, task: &Task, trigger: &str) -> String {
    let row = lifecycle.exits(task.state).find(|row| row.trigger == trigger);
    let state = row.and_then(|row| machine::resolve(row.to, task));
    state.map(|id| lifecycle.state(id).name.clone()).unwrap_or_default()
}

/// The field for the words of a move, the same as for those of an answer.
pub(super) fn place_for_words(
    lifecycle: &Lifecycle,
    task: &Task,
    actor: &Actor,
    trigger: &str,
    now: Instant,
) -> Option<String> {
    let missing = tried(lifecycle, task, actor, trigger, now).err().unwrap_or_default();
    words::place(lifecycle, task, actor, trigger, &missing)
}

/// Whether a person's move is possible, but only with words.
pub(super) fn needs_words(
    lifecycle: &Lifecycle,
    task: &Task,
    trigger: Trigger,
    now: Instant,
) -> bool {
    let (reader, trigger) = (Actor::human("reader"), trigger.name_in(lifecycle));
    let missing = tried(lifecycle, task, &reader, trigger, now).err().unwrap_or_default();
    let place = words::place(lifecycle, task, &reader, trigger, &missing);
    missing.iter().any(|error| Some(&error.field) == place.as_ref())
}

/// Snoozes an open decision: it leaves the inbox, and its reminders wait until then. Its deadline
/// stays.
pub fn snooze(
    session: &Session,
    which: DecisionRef,
    span: Span,
    now: Instant,
) -> Result<Decision, OpsError> {
    let store = may_answer(session, Some(which), now)?;
    let now = store.now(now)?;
    let decision = find(store, which)?;
    if span > LONGEST_SNOOZE {
        return Err(DecisionError::TooLong.into());
    }
    let until = now.plus(span);
    let is_open = decision.settled.is_none();
    let due_before = decision.deadline.filter(|deadline| is_open && *deadline <= until);
    if let Some(deadline) = due_before {
        return Err(DecisionError::DueBefore { id: decision.id, deadline }.into());
    }
    if !is_open || !store.snooze_if_open(&decision, until)? {
        return Err(answer::stale(store, &decision, decision.seq)?.into());
    }
    Ok(Decision { snoozed_until: Some(until), ..decision })
}

/// The changes of a commit since its merge base with `base`, for people.
pub fn changes(folder: &Path, base: &str, head: &str) -> Result<String, OpsError> {
    let env = Environment::passed(&["PATH".to_owned(), "HOME".to_owned()]);
    let diff = Git::at(&mut PlainRunner { env }, folder).diff(base, head);
    diff.map_err(|error| OpsError::input(error.to_string(), CHECK_PATH))
}
