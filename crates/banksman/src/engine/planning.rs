//! Plans: what a planner is asked, how its answer is applied, and the subtasks of an approved plan.
//!
//! `core::plan` judges whether a plan is good enough, and the lifecycle decides where the task goes
//! from there; this module only gathers facts. Everything may be done twice: a subtask is created
//! under a key, and the states of the subtasks are read each time.

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::{AgentRole, Field, Purpose, SettingName, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value, value_of};
use banksman_core::lifecycle::{Activity, StateKind};
use banksman_core::limits;
use banksman_core::machine::{Actor, Effect, NewTask};
use banksman_core::plan::proposal::{
    Iteration, history, hours, item_body, needs_another_pass, proposal, summary_line, with_section,
};
use banksman_core::plan::{Confidence, OrderedItem, Plan, PlanItem, Subtask};
use banksman_core::text::start_of;
use banksman_core::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use super::children::{ask_children, is_current, parent_of};
use super::event::ask;
use super::panel::prompts::advice;
use super::prompt::ADVICE_BYTES;
use super::relay::{EffectHandler, EffectResult, Handled};
use super::submission::work_plan;
use super::turn::Turn;
use super::{Engine, Result, definition_for};
use crate::prompts::built_in;
use crate::store::outbox::PendingEffect;
use crate::store::{Add, Definition, Edge, IdempotencyKey, NewChild, Store, Stored};

/// The role that is asked for a plan, where the lifecycle has a field for one.
const PLANNER: &str = AgentRole::Planner.as_str();
/// Transitions that one update may cause, one after the other: more than any lifecycle has states
/// in a row.
const MOST_MOVES: usize = 8;
/// The text about subtasks that a person decides on, in bytes.
const PROBLEM_BYTES: usize = 2_000;
/// The findings of another subtask, in bytes.
const FINDINGS_BYTES: usize = 4_000;

/// The shape of a planner's answer.
pub(super) fn schema() -> Option<Value> {
    built_in(PLANNER).and_then(|shipped| shipped.schema).map(|schema| schema.value())
}

/// What a planner gets beside the task itself.
pub(super) struct Planning {
    pub(super) timeout: Option<Span>,
    /// The former proposal; empty in the first iteration.
    pub(super) former: String,
    /// The objections to it.
    pub(super) objections: Vec<String>,
    /// The states of the former plan's subtasks, if there were any.
    pub(super) subtasks: String,
}

/// What one iteration of planning changes about its task.
pub(super) struct Planned {
    /// Its result in one line.
    pub(super) line: String,
    pub(super) fields: Fields,
    pub(super) body: String,
}

/// Whether a run in the task's state makes a plan.
pub(super) fn is_planning(stored: &Stored) -> bool {
    stored.state().plans() && stored.lifecycle.has_field(Field::Plan)
}

/// Whether the task's purpose is to answer a question.
pub(super) fn is_spike(stored: &Stored) -> bool {
    stored.flag(Field::Spike)
}

fn plan_of(stored: &Stored) -> Result<Option<Plan>> {
    Ok(stored.data(Field::Plan)?)
}

fn version_of(stored: &Stored) -> u32 {
    let version = stored.number(Field::PlanVersion);
    version.and_then(|version| u32::try_from(version).ok()).unwrap_or_default()
}

fn iterations_of(stored: &Stored) -> Result<Vec<Iteration>> {
    Ok(stored.data(Field::PlanHistory)?.unwrap_or_default())
}

pub(super) fn planning(store: &Store, stored: &Stored) -> Result<Planning> {
    let timeout = stored.lifecycle.time(SettingName::IterationTimeout);
    let former = plan_of(stored)?.map(|plan| proposal(version_of(stored), &plan));
    let last = iterations_of(stored)?.pop();
    let subtasks = planned_subtasks(store, stored)?;
    let lines = subtasks.iter().map(|subtask| format!("- {}\n", status_line(subtask)));
    Ok(Planning {
        timeout,
        former: former.unwrap_or_default(),
        objections: last.map(|last| last.objections).unwrap_or_default(),
        subtasks: lines.collect(),
    })
}

/// Applies the answer of a planner to its task. An invalid answer counts as an iteration too: the
/// next planner learns why.
pub(super) fn planned(stored: &Stored, answer: &Value) -> Result<Planned> {
    let version = version_of(stored) + 1;
    let (plan, iteration, line) = match Plan::deserialize(answer) {
        Ok(plan) => {
            let (iteration, line) = (Iteration::of(version, &plan), summary_line(&plan));
            (Some(plan).filter(|plan| plan.problems().is_empty()), iteration, line)
        }
        Err(error) => {
            let why = format!("the answer is no plan: {error}");
            let line = needs_another_pass(&why);
            (None, Iteration { version, subtasks: 0, objections: vec![why] }, line)
        }
    };
    let mut all = iterations_of(stored)?;
    let objections = iteration.objections.clone();
    all.push(iteration);
    all.drain(..all.len().saturating_sub(limits::PLAN_ITERATIONS));
    let mut fields =
        vec![(Field::PlanVersion, Value::from(version)), (Field::PlanHistory, value_of(&all))];
    let shown = match &plan {
        Some(plan) => Some(plan.clone()),
        None => plan_of(stored)?,
    };
    let mut words = shown.map(|plan| proposal(version, &plan)).unwrap_or_default();
    let mut is_irreducible = false;
    match &plan {
        Some(plan) => {
            let why = plan.irreducible.trim();
            is_irreducible = !why.is_empty();
            let why = if is_irreducible { Value::from(why) } else { Value::Null };
            fields.extend([
                (Field::Plan, value_of(plan)),
                (Field::Subtasks, judged(plan)),
                (Field::Split, Value::from(plan.is_split())),
                (Field::Estimate, Value::from(hours(plan.estimate_minutes()))),
                (Field::Irreducible, why),
            ]);
        }
        None => {
            let parent =
                SizedSubtask { id: "plan", too_big: objections.clone(), ..SizedSubtask::default() };
            fields.push((Field::Subtasks, value_of(&[parent])));
        }
    }
    // A plan that is ready is shown by itself; a person who has to find another way sees all
    // iterations.
    if !objections.is_empty() || is_irreducible {
        words = format!("{words}\n{}", history(&all));
    }
    fields.retain(|(field, _)| stored.lifecycle.has_field(*field));
    let fields = fields.into_iter().map(|(field, value)| stored.entry(field, value)).collect();
    Ok(Planned { line, fields, body: with_section(&stored.task.body, &words) })
}

/// The subtasks of the task's present plan, in their order; without reviews and subtasks of earlier
/// plans.
pub(super) fn planned_subtasks(store: &Store, parent: &Stored) -> Result<Vec<Stored>> {
    if parent.value(Field::Plan).is_none() {
        return Ok(Vec::new());
    }
    let mut subtasks = store.all_children(parent.task.id)?;
    subtasks.retain(|subtask| {
        subtask.text(Field::Subtask).is_some() && version_of(subtask) == version_of(parent)
    });
    Ok(subtasks)
}

/// The handler of effects that move the subtasks of a plan, or their parent.
pub(super) struct Subtasks<'a> {
    store: &'a Store,
}

impl<'a> Subtasks<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store }
    }
}

impl EffectHandler for Subtasks<'_> {
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled {
        if effect.effect == Effect::LeadChildren {
            if !stored.is_workflow() && is_current(effect, stored) {
                lead_subtasks(self.store, effect, stored, turn.now)?;
            }
        } else if let Some(parent) = parent_of(self.store, effect, stored)? {
            update_planned_parent(self.store, &parent, turn.now)?;
        }
        Ok(EffectResult::Done)
    }
}

/// The subtasks follow their parent: created when the plan is approved, started again when a person
/// says so, and closed with it.
fn lead_subtasks(
    store: &Store,
    effect: &PendingEffect,
    parent: &Stored,
    now: Instant,
) -> Result<()> {
    match parent.state().kind {
        StateKind::Done | StateKind::Failed | StateKind::Cancelled => {
            ask_children(store, parent, Trigger::Close, |_| true, now)?;
        }
        StateKind::Working | StateKind::Reviewing if !parent.task.is_active(&parent.lifecycle) => {
            create_subtasks(store, parent, now)?;
            let begins_again = is_answered(store, parent, effect)?;
            follow_answer(store, parent, begins_again, now)?;
            update_planned_parent(store, parent, now)?;
        }
        StateKind::Queued
        | StateKind::Working
        | StateKind::Reviewing
        | StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked => {}
    }
    Ok(())
}

/// Whether the transition behind the effect answers the question about subtasks.
fn is_answered(store: &Store, parent: &Stored, effect: &PendingEffect) -> Result<bool> {
    let entry = store.record(effect.task, effect.seq)?;
    let name = Field::ChildrenAsked.name_in(&parent.lifecycle);
    let asked = entry.as_ref().and_then(|entry| entry.record.fields.get(name));
    Ok(asked.is_some_and(Value::is_null))
}

fn create_subtasks(store: &Store, parent: &Stored, now: Instant) -> Result<()> {
    let Some(plan) = plan_of(parent)? else { return Ok(()) };
    let order = plan.order();
    let definition = definition_for(Purpose::Subtask, Overrides::new())?;
    let subtasks = order.iter().map(|placed| subtask(parent, placed, definition.clone()));
    store.add_children(&subtasks.collect::<Vec<NewChild>>(), now)?;
    Ok(())
}

/// Lets other tasks start without the subtasks that a person left out, and starts the others that
/// were given up again if the person said so.
fn follow_answer(store: &Store, parent: &Stored, begins_again: bool, now: Instant) -> Result<()> {
    let subtasks = planned_subtasks(store, parent)?;
    for subtask in subtasks.iter().filter(|subtask| is_given_up(subtask)) {
        if is_left_out(parent, subtask) {
            store.leave_out(subtask.task.id, now)?;
        } else if begins_again {
            ask(store, subtask, Trigger::Reset, [], now)?;
        }
    }
    Ok(())
}

/// Applies the states of the subtasks to their parent, as long as that moves it.
fn update_planned_parent(store: &Store, parent: &Stored, now: Instant) -> Result<()> {
    let subtasks = planned_subtasks(store, parent)?;
    if subtasks.is_empty() {
        return Ok(());
    }
    if matches!(kind_of(parent), StateKind::Done | StateKind::Failed | StateKind::Cancelled) {
        // A subtask that was being merged could not be closed with the others.
        return ask_children(store, parent, Trigger::Close, |_| true, now);
    }
    for _ in 0..MOST_MOVES {
        let parent = store.task(parent.task.id)?;
        if !ask(store, &parent, Trigger::ChildrenMoved, facts(&parent, &subtasks), now)? {
            break;
        }
    }
    Ok(())
}

/// The context for the agent of a subtask or a step: the parent, and the tasks before it.
pub(super) fn context_of(store: &Store, stored: &Stored) -> Result<String> {
    let mut words = work_plan(stored);
    let is_planned = stored.text(Field::Subtask).is_some();
    if !is_planned && stored.text(Field::Step).is_none() {
        return Ok(words);
    }
    if let Some(parent) = stored.task.parent.filter(|_| is_planned) {
        let parent = store.task(parent)?;
        let (id, title) = (parent.task.id, &parent.task.title);
        words += &format!("The parent task is {id}: {title}\n{}", reviewed(&parent));
        if let Some(note) = parent.text(Field::Note) {
            words += &format!("The person who approved its plan said: {note}\n");
        }
    }
    for need in store.needs(stored.task.id)? {
        let before = store.task(need.task)?;
        if is_planned {
            words += &format!("\nBefore it came {}\n", status_line(&before));
        }
        if let Some(found) = before.text(Field::Findings) {
            words += &format!("What came of it: {}\n", start_of(found, FINDINGS_BYTES));
        }
        words += &reviewed(&before);
    }
    Ok(words)
}

/// The open advice of a task's reviewers, for the tasks after it; empty if there is none.
fn reviewed(before: &Stored) -> String {
    let open = advice(&before.task.fields, &[]);
    if open.is_empty() {
        return open;
    }
    let name = before.text(Field::Step).map_or_else(|| before.task.id.to_string(), str::to_owned);
    format!("Reviewers of {name} said:\n{}\n", start_of(&open, ADVICE_BYTES).trim_end())
}

/// An entry of the field `subtasks`: a subtask with our judgement of its size.
#[derive(Serialize, Default)]
struct SizedSubtask<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate_minutes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<Confidence>,
    pr_sized: bool,
    too_big: Vec<String>,
}

fn judged(plan: &Plan) -> Value {
    fn one(subtask: &Subtask) -> SizedSubtask<'_> {
        let too_big = subtask.size_problems();
        SizedSubtask {
            id: &subtask.id,
            title: Some(&subtask.title),
            estimate_minutes: Some(subtask.estimate_minutes),
            confidence: Some(subtask.confidence),
            pr_sized: too_big.is_empty(),
            too_big,
        }
    }
    value_of(&plan.subtasks.iter().map(one).collect::<Vec<_>>())
}

/// What proves and bounds the work of a task, and who does it, holds for the work on each of its
/// subtasks.
const INHERITED: [Field; 5] =
    [Field::Verify, Field::AllowedPaths, Field::DeniedPaths, Field::Role, Field::Model];

/// The task of one item of a plan.
fn subtask(parent: &Stored, placed: &OrderedItem<'_>, definition: Definition) -> NewChild {
    let task = &parent.task;
    let (version, id) = (version_of(parent), placed.item.id());
    let (title, tags, files) = match placed.item {
        PlanItem::Spike(spike) => (format!("Spike: {}", spike.question), &[][..], &[][..]),
        PlanItem::Subtask(own) => (own.title.clone(), own.tags.as_slice(), own.files.as_slice()),
    };
    // A tag with a colon chooses a worker, which is not for a planner to do.
    let own = tags.iter().filter(|tag| !tag.contains(':') && !task.tags.contains(tag));
    let tags = task.tags.iter().chain(own).take(limits::TAGS).cloned().collect();
    let own = match placed.item {
        PlanItem::Spike(_) => vec![(Field::Spike, Value::from(true))],
        PlanItem::Subtask(own) => vec![
            (Field::Spike, Value::from(false)),
            (Field::Touches, Value::from(files)),
            (Field::Estimate, Value::from(hours(own.estimate_minutes))),
        ],
    };
    let named = [(Field::Subtask, Value::from(id)), (Field::PlanVersion, Value::from(version))];
    let given =
        INHERITED.into_iter().filter_map(|field| Some((field, parent.value(field)?.clone())));
    let fields = named.into_iter().chain(own).chain(given);
    let fields = fields.map(|(field, value)| (field.to_string(), value)).collect();
    let new = NewTask {
        title,
        body: item_body(placed.item, version, (&task.id.to_string(), &task.title)),
        project: task.project.clone(),
        batch: task.batch.clone(),
        tags,
        priority: task.priority,
        parent: Some(task.id),
        fields,
        ..NewTask::default()
    };
    let key = format!("part-{}-{version}-{id}", task.id);
    let add = Add {
        new,
        definition,
        needs: Vec::new(),
        actor: Actor::system(),
        key: Some(IdempotencyKey::new(&key, &key)),
        arrival: None,
    };
    let blocks = placed.blocked_by.iter().map(|at| (*at, Edge::Blocks));
    let informs = placed.informed_by.iter().map(|at| (*at, Edge::Informs));
    NewChild { add, parent: None, after: blocks.chain(informs).collect(), own_batch: None }
}

fn kind_of(subtask: &Stored) -> StateKind {
    subtask.state().kind
}

fn is_given_up(subtask: &Stored) -> bool {
    matches!(kind_of(subtask), StateKind::Failed | StateKind::Cancelled)
}

fn is_left_out(parent: &Stored, subtask: &Stored) -> bool {
    let id = subtask.task.id.to_string();
    parent.list(Field::LeftOut).iter().any(|one| one.as_str() == Some(&id))
}

/// Whether the work of a subtask is in its parent's, or may still come to be.
fn is_on_the_way(subtask: &Stored) -> bool {
    match kind_of(subtask) {
        StateKind::Done => subtask.flag(Field::Merged),
        StateKind::Cancelled => false,
        StateKind::Queued
        | StateKind::Working
        | StateKind::Reviewing
        | StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked
        | StateKind::Failed => true,
    }
}

/// The states of the subtasks as fields that the lifecycle decides on.
fn facts(parent: &Stored, subtasks: &[Stored]) -> [(Field, Value); 10] {
    let (mut open, mut in_review, mut waiting, mut done, mut merged) = (0, 0, 0, 0, 0);
    let mut given_up: Vec<&Stored> = Vec::new();
    for subtask in subtasks {
        match kind_of(subtask) {
            StateKind::Queued | StateKind::Working | StateKind::Blocked | StateKind::Parked => {
                open += 1;
            }
            // Work that is being merged has been reviewed and approved.
            StateKind::Reviewing if subtask.activity() == Some(Activity::Merge) => waiting += 1,
            StateKind::Reviewing => in_review += 1,
            StateKind::Waiting => waiting += 1,
            StateKind::Done => {
                done += 1;
                merged += i32::from(subtask.flag(Field::Merged));
            }
            StateKind::Failed | StateKind::Cancelled => given_up.push(subtask),
        }
    }
    let asked: Vec<&Stored> =
        given_up.iter().copied().filter(|subtask| !is_left_out(parent, subtask)).collect();
    let is_cancelled = |subtask: &&&Stored| kind_of(subtask) == StateKind::Cancelled;
    let cancelled = asked.iter().filter(is_cancelled).count();
    let ids: Vec<String> = given_up.iter().map(|subtask| subtask.task.id.to_string()).collect();
    let counts = |subtask: &&Stored| is_on_the_way(subtask) && !is_left_out(parent, subtask);
    let links: Vec<&str> =
        subtasks.iter().filter(counts).filter_map(|it| it.text(Field::PrUrl)).collect();
    let link = if links.is_empty() { Value::Null } else { Value::from(links.join(" ")) };
    let problem = if asked.is_empty() { Value::Null } else { Value::from(problem(&asked)) };
    [
        (Field::ChildrenOpen, Value::from(open)),
        (Field::ChildrenInReview, Value::from(in_review)),
        (Field::ChildrenWaiting, Value::from(waiting)),
        (Field::ChildrenDone, Value::from(done)),
        (Field::ChildrenMerged, Value::from(merged)),
        (Field::ChildrenGivenUp, Value::from(asked.len())),
        (Field::ChildrenCancelled, Value::from(cancelled)),
        (Field::ChildrenProblem, problem),
        (Field::GivenUp, Value::from(ids)),
        (Field::PrUrl, link),
    ]
}

/// The question to a person.
fn problem(asked: &[&Stored]) -> String {
    let lines: Vec<String> = asked.iter().map(|subtask| status_line(subtask)).collect();
    let cancelled = asked.iter().any(|subtask| kind_of(subtask) == StateKind::Cancelled);
    let end = if cancelled { "; cancelled subtasks cannot start again" } else { "" };
    let text = format!("a person decides about {}{end}", lines.join("; "));
    start_of(&text, PROBLEM_BYTES).to_owned()
}

/// A subtask in one line: its name, its state, and why.
fn status_line(subtask: &Stored) -> String {
    let state = &subtask.state().name;
    let why = [Field::Diagnostic, Field::Reason, Field::UnblockCondition].into_iter();
    let given_up = is_given_up(subtask) || kind_of(subtask) == StateKind::Blocked;
    let why = why.filter(|_| given_up).find_map(|field| subtask.text(field));
    let why = why.map(|why| format!(" ({})", start_of(why, 300))).unwrap_or_default();
    let name = subtask.text(Field::Subtask).unwrap_or_default();
    format!("{name} ({}) {}: {state}{why}", subtask.task.id, subtask.task.title)
}
