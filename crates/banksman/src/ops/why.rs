//! Explains why a task is where it is: what it waits for, until when, and what would move it on.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{AnswerName, Trigger};
use banksman_core::lifecycle::expr::Type;
use banksman_core::lifecycle::{
    Activity, Lifecycle, Requirement, RoleId, StateActivity, StateKind, Transition,
};
use banksman_core::machine::{TimerKind, WaitsFor, waits_for};
use banksman_core::schedule::{Budget, BudgetScope, Ineligible, Worker};
use banksman_core::text::line;
use banksman_core::time::{Instant, Span};

use super::decisions::{self, ReviewerVerdict, is_judged, on_record};
use super::panels::{PendingReview, ReviewerStatus, open_reviews};
use super::principal::Operation;
use super::remedy::remedy;
use super::rest::rest;
use super::suggestion::Suggestion;
use super::{OpsError, Session};
use crate::store::query::{Decision, Detail};
use crate::store::{Dispatch, Edge, Store, Stored};

/// One reason why a task waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitReason {
    pub kind: &'static str,
    pub detail: String,
    pub until: Option<Instant>,
    pub who: Option<String>,
}

impl WaitReason {
    fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), until: None, who: None }
    }

    fn until(self, until: Instant) -> Self {
        Self { until: Some(until), ..self }
    }

    fn who(self, who: &str) -> Self {
        Self { who: Some(who.to_owned()), ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub task: TaskId,
    pub state: String,
    pub waiting_for: Vec<WaitReason>,
    pub next: NextStep,
}

/// What happens next, in a sentence, and what a caller can do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    pub what: String,
    pub suggestions: Vec<Suggestion>,
}

impl NextStep {
    fn new(what: impl Into<String>, suggestions: impl IntoIterator<Item = Suggestion>) -> Self {
        Self { what: what.into(), suggestions: suggestions.into_iter().collect() }
    }

    /// A step that no caller can take.
    fn of_itself(what: &str) -> Self {
        Self::new(what, [])
    }
}

/// Why nothing follows, and where the work is.
fn ended(stored: &Stored) -> String {
    let end = format!("nothing: {} is an end", stored.state().name);
    let Some(merged) = stored.merged_as() else { return end };
    let pushed = merged.remote.map(|remote| format!(", and nothing was pushed to `{remote}`"));
    let pushed = pushed.unwrap_or_default();
    format!("{end}; the work is in `{}`{pushed}", merged.base)
}

/// Limits that are settings and not in the store.
#[derive(Debug, Clone, Default)]
pub struct WhyLimits {
    pub total: Option<u32>,
    pub accounts: BTreeMap<String, u32>,
    pub lanes: BTreeMap<String, u32>,
    pub day: Budget,
    pub task: Budget,
}

/// How much of a reason is shown.
const REASON_CHARS: usize = 500;

pub fn why(
    session: &Session,
    id: TaskId,
    bounds: &WhyLimits,
    now: Instant,
) -> Result<Explanation, OpsError> {
    let store = session.may_on(Operation::ReadTask, id)?;
    let detail = store.detail(id)?;
    let (task, lifecycle) = (&detail.stored.task, &detail.stored.lifecycle);
    let state = lifecycle.state(task.state);
    let waits_for = waits_for(lifecycle, task, detail.timers.first().map(|timer| timer.due));
    let mut waiting_for = if waits_for == WaitsFor::Ended {
        Vec::new()
    } else {
        waiting(store, &detail, &waits_for)?
    };
    let mut remedy = None;
    if waits_for == WaitsFor::Subtasks {
        let (children, what) = children_at_work(store, id)?;
        waiting_for.splice(0..0, children);
        remedy = what;
    }
    if waits_for == WaitsFor::Queue {
        let (reasons, what) = obstacles(store, id, bounds, now)?;
        waiting_for.extend(reasons);
        remedy = what;
    }
    if detail.stored.is_at_panel() && matches!(waits_for, WaitsFor::Timer(_) | WaitsFor::Person) {
        let (reviews, what) = panel(store, &detail.stored, bounds, now)?;
        waiting_for.splice(0..0, reviews);
        remedy = Some(what);
    }
    if detail.stored.activity() == Some(Activity::Merge) {
        let (merge, what) = merge(store, &detail.stored, now)?;
        waiting_for.splice(0..0, [merge]);
        remedy = Some(what);
    }
    if let Some((delay, what)) = delay(store, &detail.stored)? {
        waiting_for.splice(0..0, [delay]);
        remedy = what;
    }
    let alone = NextStep::of_itself;
    let next = match &waits_for {
        WaitsFor::Ended => alone(&ended(&detail.stored)),
        WaitsFor::Lease(_) => alone("its run ends, or its lease does"),
        WaitsFor::Needs(_) => alone("it becomes ready when what it waits for is done"),
        WaitsFor::Queue => {
            remedy.unwrap_or_else(|| alone("the next turn of a running `up` starts it"))
        }
        WaitsFor::Person => by_person(store, &detail, now)?,
        WaitsFor::Subtasks => remedy.unwrap_or_else(|| alone("its subtasks move it on")),
        WaitsFor::Parent(parent) => alone(&format!("{parent} comes to its end, or sends it back")),
        WaitsFor::Timer(_) => remedy.unwrap_or_else(|| alone("it waits until that time")),
        WaitsFor::Stranded => NextStep::new("nothing: this is a fault", [Suggestion::CheckStore]),
    };
    Ok(Explanation { task: id, state: state.name.clone(), waiting_for, next })
}

/// The children that are not done, each with its status, and what to do where one of them waits for
/// a person.
fn children_at_work(
    store: &Store,
    id: TaskId,
) -> Result<(Vec<WaitReason>, Option<NextStep>), OpsError> {
    let children = store.children(id)?;
    let is_open = |child: &&Stored| !child.state().terminal;
    let needs_somebody =
        |child: &&Stored| matches!(child.state().kind, StateKind::Waiting | StateKind::Blocked);
    let mut remedy = None;
    for child in children.iter().filter(is_open).filter(needs_somebody) {
        let asked = store.last_decision(child.task.id)?.filter(|asked| asked.settled.is_none());
        if let Some(asked) = asked {
            let what = format!("its subtasks move it on; {} waits for a person", child.task.id);
            remedy = Some(NextStep::new(what, look_and_answer(&asked)));
            break;
        }
    }
    let line = |child: &Stored| {
        let (task, state) = (&child.task, &child.state().name);
        let what = format!("{} is {state}: {}", task.id, task.title);
        WaitReason::new("child", what).who(&task.id.to_string())
    };
    Ok((children.iter().filter(is_open).map(line).collect(), remedy))
}

/// What is merged into the base, and which machine does it.
fn merge(store: &Store, stored: &Stored, now: Instant) -> Result<(WaitReason, NextStep), OpsError> {
    let work = stored.local_branch().unwrap_or("its work");
    let only_checks = stored.state().does.as_ref().is_some_and(StateActivity::only_checks);
    let what = if only_checks {
        format!("it is found out whether {work} is in its base")
    } else {
        format!("{work} goes into its base")
    };
    let waiting = WaitReason::new("merge", what);
    Ok(if !store.live_nodes(store.now(now)?)?.is_empty() {
        (waiting, NextStep::of_itself("it is done, or a person is asked again"))
    } else {
        let (nobody, what) = nobody_works();
        (WaitReason { who: nobody.who, ..waiting }, what)
    })
}

/// Whether a live machine could do the work.
pub fn has_machines(session: &Session, now: Instant) -> Result<bool, OpsError> {
    let store = session.may(Operation::ReadStore)?;
    Ok(!store.live_nodes(store.now(now)?)?.is_empty())
}

fn nobody_works() -> (WaitReason, NextStep) {
    let waiting = WaitReason::new("machine", "no machine works on this store").who("a machine");
    (waiting, NextStep::new("start agents", [Suggestion::StartAgents]))
}

/// The reviewers that a task at a panel waits for, and where to look.
fn panel(
    store: &Store,
    parent: &Stored,
    bounds: &WhyLimits,
    now: Instant,
) -> Result<(Vec<WaitReason>, NextStep), OpsError> {
    let reviews = open_reviews(store, parent)?;
    let mut list = Vec::with_capacity(reviews.len());
    let mut remedy = None;
    for review in &reviews {
        let (reasons, what) = match review.doing {
            ReviewerStatus::Queued => obstacles(store, review.task, bounds, now)?,
            ReviewerStatus::Reading { .. } | ReviewerStatus::Resting { .. } => (Vec::new(), None),
        };
        remedy = remedy.or(what);
        list.push(review_at_work(review, &reasons));
    }
    if reviews.is_empty() && parent.is_driven_by_person() {
        let what = "whoever drives the workflow answers";
        return Ok((list, NextStep::new(what, [Suggestion::DriveWorkflow])));
    }
    let rests = |review: &&PendingReview| matches!(review.doing, ReviewerStatus::Resting { .. });
    let sooner = reviews.iter().find(rests).map(|review| Suggestion::Retry(review.task));
    let next = match reviews.iter().find(|review| review.was_asked) {
        Some(review) => {
            let at_once = if sooner.is_some() { "; a retry asks at once" } else { "" };
            let what = format!("they answer, and it is decided{at_once}");
            NextStep::new(what, [Suggestion::Log(review.task)].into_iter().chain(sooner))
        }
        None if reviews.is_empty() => {
            NextStep::of_itself("the next turn of a running `up` asks its reviewers")
        }
        None => remedy
            .unwrap_or_else(|| NextStep::of_itself("the next turn of a running `up` asks them")),
    };
    Ok((list, next))
}

fn review_at_work(review: &PendingReview, reasons: &[WaitReason]) -> WaitReason {
    let PendingReview { task, reviewer, missed, .. } = review;
    let missed = missed.as_deref().map(|why| format!("its last answer did not count: {why}"));
    let because = missed.as_ref().map(|why| format!(", because {why}")).unwrap_or_default();
    let (what, until) = match (review.doing, &missed) {
        (ReviewerStatus::Reading { run, until }, None) => {
            (format!("{reviewer} reads ({run})"), until)
        }
        (ReviewerStatus::Reading { run, until }, Some(_)) => {
            (format!("{reviewer} reads again ({run}){because}"), until)
        }
        (ReviewerStatus::Resting { until }, _) => {
            (format!("{reviewer} is asked again at this time{because}"), until)
        }
        (ReviewerStatus::Queued, _) => {
            let reasons: Vec<&str> = reasons.iter().map(|one| one.detail.as_str()).collect();
            let why = match reasons.as_slice() {
                [] => String::new(),
                some => format!(", and none is free: {}", some.join("; ")),
            };
            (format!("{reviewer} waits for a worker{why}"), None)
        }
    };
    WaitReason { until, ..WaitReason::new("review", format!("{task}: {what}")).who(reviewer) }
}

/// A task that was never started is only delayed; any other one goes on by itself at its time, or
/// when a person has it go on now.
fn delay(
    store: &Store,
    stored: &Stored,
) -> Result<Option<(WaitReason, Option<NextStep>)>, OpsError> {
    let Stored { task, lifecycle, .. } = stored;
    if let Some(rest) = rest(store, stored)? {
        let retry = lifecycle.retry_trigger(task.state);
        let has_a_way = lifecycle.exits(task.state).any(|row| row.trigger == retry);
        let sooner = (has_a_way || task.not_before.is_some()).then_some(Suggestion::Retry(task.id));
        let or_now = if sooner.is_some() { ", or now" } else { "" };
        let next = NextStep::new(format!("it is tried again at its time{or_now}"), sooner);
        return Ok(Some((WaitReason::new("delay", rest.sentence).until(rest.until), Some(next))));
    }
    let delayed = |at| WaitReason::new("delay", "it is not to start before this time").until(at);
    Ok(task.not_before.map(|at| (delayed(at), None)))
}

/// What prevents every live machine from starting it, and what would change that, according to the
/// dispatcher itself.
fn obstacles(
    store: &Store,
    id: TaskId,
    bounds: &WhyLimits,
    now: Instant,
) -> Result<(Vec<WaitReason>, Option<NextStep>), OpsError> {
    let now = store.now(now)?;
    let live = store.live_nodes(now)?;
    if live.is_empty() {
        let (waiting, what) = nobody_works();
        return Ok((vec![waiting], Some(what)));
    }
    let is_bare = live.iter().all(|node| node.workers.is_empty());
    let mut list: Vec<Ineligible> = Vec::new();
    for node in live {
        let request = Dispatch {
            node: node.name,
            workers: Worker::all_of_node(node.workers).collect(),
            capacity: node.capacity,
            limit: bounds.total,
            account_limits: bounds.accounts.clone(),
            lanes: bounds.lanes.clone(),
            day_budget: bounds.day,
            task_budget: bounds.task,
            ttl: Span(0),
            token: None,
        };
        match store.choice(id, &request, now)? {
            None | Some(Ok(_)) => return Ok((Vec::new(), None)),
            Some(Err(reasons)) => list.extend(reasons),
        }
    }
    list.sort();
    list.dedup();
    let waiting = |reason: &Ineligible| WaitReason {
        kind: reason.kind(),
        detail: reason.detail(),
        until: reason.until(),
        who: reason.waits_for(),
    };
    let mut reasons: Vec<WaitReason> = list.iter().map(waiting).collect();
    let mut remedy = list.first().map(|reason| NextStep::new(reason.remedy(), remedy_of(reason)));
    if is_bare && matches!(list.as_slice(), [Ineligible::NoWorker { .. }]) {
        reasons = vec![WaitReason::new("no_worker", "no agent is set up").who("a worker")];
        let what = "install an agent, or add `[workers.NAME]` to the settings";
        remedy = Some(NextStep::new(what, [Suggestion::ListSettings]));
    }
    if let Some(asked) = what_is_asked(store, id, list.first(), now)? {
        remedy = Some(NextStep::new("a person answers", look_and_answer(&asked)));
        reasons.push(question(&asked));
    }
    Ok((reasons, remedy))
}

/// What a caller can do about it.
fn remedy_of(reason: &Ineligible) -> Option<Suggestion> {
    match reason {
        Ineligible::Paused => Some(Suggestion::ResumeAgents),
        Ineligible::BatchPaused { batch: name } => Some(Suggestion::ResumeBatch(name.clone())),
        Ineligible::OverBudget { scope: BudgetScope::Batch(name), limit } => {
            Some(Suggestion::RaiseBudget { batch: name.clone(), limit: limit.what })
        }
        Ineligible::BatchFull { batch: name, .. } => {
            Some(Suggestion::RaiseConcurrency { batch: name.clone() })
        }
        Ineligible::AreaTaken { by, .. } => Some(Suggestion::ShowTask(*by)),
        Ineligible::AreaReserved { to, .. } => Some(Suggestion::Why(*to)),
        Ineligible::AccountPaused { account, .. } | Ineligible::AccountProbing { account } => {
            Some(Suggestion::ResumeAccount(account.clone()))
        }
        Ineligible::OverBudget { scope: BudgetScope::Day | BudgetScope::Task(_), .. }
        | Ineligible::NoActivity
        | Ineligible::NotAssigned { .. }
        | Ineligible::NoWorker { .. }
        | Ineligible::NotHere { .. }
        | Ineligible::AccountFull { .. }
        | Ineligible::WorkerBusy { .. }
        | Ineligible::LaneFull { .. }
        | Ineligible::Full { .. }
        | Ineligible::NodeFull { .. } => None,
    }
}

/// The open decision that blocks it: about a budget, or about its parent, which pauses the batch of
/// its children while it waits. To resume the batch directly would bypass the decision.
fn what_is_asked(
    store: &Store,
    id: TaskId,
    reason: Option<&Ineligible>,
    now: Instant,
) -> Result<Option<Decision>, OpsError> {
    let asked = if let Some(Ineligible::OverBudget { scope, .. }) = reason {
        store.open_budget_request(scope, now)?
    } else if matches!(reason, Some(Ineligible::BatchPaused { .. })) {
        store.task(id)?.task.parent
    } else {
        None
    };
    let Some(asked) = asked else { return Ok(None) };
    Ok(store.last_decision(asked)?.filter(|decision| decision.settled.is_none()))
}

/// The question, and its possible answers.
fn question(decision: &Decision) -> WaitReason {
    let actions: Vec<&str> = decision.offers.iter().map(|(action, _)| action.as_str()).collect();
    let then = match &decision.answer {
        Some(answer) => answer.in_words(),
        None => actions.join(", "),
    };
    let what = format!("{} ({then})", decision.text());
    let waiting = WaitReason::new("decision", what).who("human");
    WaitReason { until: decision.deadline, ..waiting }
}

fn waiting(
    store: &Store,
    detail: &Detail,
    waits_for: &WaitsFor,
) -> Result<Vec<WaitReason>, OpsError> {
    let (task, lifecycle) = (&detail.stored.task, &detail.stored.lifecycle);
    let mut list = Vec::new();
    if let Some(lease) = &task.lease {
        let what = format!("run {} of {}", lease.epoch, lease.worker);
        list.push(WaitReason::new("run", what).until(lease.expires_at).who(&lease.worker));
    }
    for need in detail.needs.iter().filter(|need| need.edge == Edge::Blocks && !need.done) {
        let what = format!("{} is {}: {}", need.task, need.state, need.title);
        list.push(WaitReason::new("task", what).who(&need.task.to_string()));
    }
    if let Some(ahead) = detail.ahead {
        let what = match ahead {
            0 => "it is the first in the queue".to_owned(),
            1 => "1 task is before it in the queue".to_owned(),
            more => format!("{more} tasks are before it in the queue"),
        };
        list.push(WaitReason::new("queue", what).who("a worker"));
    }
    if let Some(decision) = &detail.decision {
        list.push(question(decision));
    } else if *waits_for == WaitsFor::Person {
        let what =
            format!("a person may move it to {}", people_moves(lifecycle, detail).join(", "));
        list.push(WaitReason::new("person", what).who("human"));
    }
    list.extend(reasons(lifecycle, detail));
    list.extend(dissent(store, detail)?);
    for timer in &detail.timers {
        if let TimerKind::Timeout(row) = timer.kind
            && let Some(row) = lifecycle.transitions.get(row as usize)
        {
            let what = format!("{} leads to {}", row.trigger, lifecycle.target_name(row.to));
            list.push(WaitReason::new("timer", what).until(timer.due).who("system"));
        }
    }
    Ok(list)
}

/// A person answers, or has answered, and the answer takes effect when its time has come. What the
/// last run failed for is changed first.
fn by_person(store: &Store, detail: &Detail, now: Instant) -> Result<NextStep, OpsError> {
    let answered = detail.decision.as_ref().filter(|decision| decision.answer.is_some());
    if let Some(answered) = answered {
        let what = "the answer takes effect at its time, or is taken back before";
        return Ok(NextStep::new(what, [Suggestion::UndoAnswer(answered.id)]));
    }
    let answers = answer(&detail.stored.lifecycle, detail, now);
    let first = if detail.decision.is_some() { remedy(store, &detail.stored)? } else { None };
    Ok(match first {
        Some(NextStep { what, suggestions }) => {
            let what = format!("{what}, and a person answers");
            NextStep::new(what, suggestions.into_iter().chain(answers))
        }
        None => NextStep::new("a person answers", answers),
    })
}

/// What a person would do: if there is a question, first read everything that is needed to answer
/// it.
fn answer(lifecycle: &Lifecycle, detail: &Detail, now: Instant) -> Vec<Suggestion> {
    let (task, state) = (detail.stored.task.id, detail.stored.task.state);
    let by_people = |trigger: Trigger| {
        let is_it = |row: &Transition| row.trigger == trigger.name();
        lifecycle.exits(state).any(|row| is_it(row) && row.roles.contains(&RoleId::HUMAN))
    };
    let short = if by_people(Trigger::Unblock) {
        let Stored { task: of, lifecycle, .. } = &detail.stored;
        let needs_words = decisions::needs_words(lifecycle, of, Trigger::Unblock, now);
        Some(Suggestion::Unblock { task, needs_words })
    } else {
        by_people(Trigger::Retry).then_some(Suggestion::Retry(task))
    };
    let Some(decision) = &detail.decision else {
        let states = || people_moves(lifecycle, detail);
        return vec![short.unwrap_or_else(|| Suggestion::MoveTo { task, states: states() })];
    };
    let grants_permission =
        decision.offers.iter().any(|(action, _)| action == AnswerName::Allow.name());
    match short.filter(|_| !grants_permission) {
        Some(short) => vec![Suggestion::ShowDecision(decision.id), short],
        None => look_and_answer(decision).into(),
    }
}

fn look_and_answer(decision: &Decision) -> [Suggestion; 2] {
    let actions = decision.offers.iter().map(|(action, _)| action.clone()).collect();
    let decision = decision.id;
    [Suggestion::ShowDecision(decision), Suggestion::Answer { decision, actions }]
}

/// The fields of the task that its state requires: the question, the condition, the fault.
fn reasons<'d>(
    lifecycle: &'d Lifecycle,
    detail: &'d Detail,
) -> impl Iterator<Item = WaitReason> + 'd {
    let task = &detail.stored.task;
    let text = |requirement: &'d Requirement| {
        let text = task.fields.get(&requirement.field)?.as_str()?;
        let text: String = text.chars().take(REASON_CHARS).collect();
        Some(WaitReason::new("reason", format!("{}: {text}", requirement.field)))
    };
    // The timer already says when something is due.
    let is_time = |requirement: &Requirement| {
        lifecycle.fields.get(&requirement.field).is_some_and(|field| field.kind == Type::Time)
    };
    let kind = lifecycle.state(task.state).kind;
    let stuck = matches!(kind, StateKind::Blocked | StateKind::Waiting | StateKind::Failed);
    let required = lifecycle.state(task.state).requires.iter();
    required.filter(move |requirement| stuck && !is_time(requirement)).filter_map(text)
}

/// The reviewers that object to what a person is asked about, or have not answered.
fn dissent(store: &Store, detail: &Detail) -> Result<Vec<WaitReason>, OpsError> {
    let Detail { stored, decision, .. } = detail;
    let Some(decision) = decision else { return Ok(Vec::new()) };
    if stored.state().kind != StateKind::Waiting || !is_judged(store, decision, stored)? {
        return Ok(Vec::new());
    }
    let objections = on_record(stored).into_iter().filter(|verdict| verdict.dissents);
    let reason = |ReviewerVerdict { who, verdict, words, .. }: ReviewerVerdict| {
        let said = [who.as_str(), verdict.as_str()].join(" ");
        WaitReason::new("reason", line(&format!("{}: {words}", said.trim_end()), REASON_CHARS))
    };
    Ok(objections.map(reason).collect())
}

/// The states that people can move it to.
fn people_moves(lifecycle: &Lifecycle, detail: &Detail) -> Vec<String> {
    let mut names = Vec::new();
    let by_people = |row: &&Transition| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN);
    for row in lifecycle.exits(detail.stored.task.state).filter(by_people) {
        let name = lifecycle.target_name(row.to).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
