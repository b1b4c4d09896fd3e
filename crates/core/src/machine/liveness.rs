//! What moves a task on, by what the store really has for it; what of it is missing, and how that
//! is made again. The lifecycle says what there must be; nothing here chooses a state.

use super::apply::quiet;
use super::effect::{DecisionChange, Effect, NOTE_DETAIL, TaskUpdate, Timer, TimerKind};
use super::entry::{
    entry_effects, is_left_to_children, is_silent, open_decision, running_timeouts, timers,
};
use super::env::Moment;
use super::task::Task;
use crate::lifecycle::contract::Note;
use crate::lifecycle::{Activity, Lifecycle, RoleId, StateKind};
use crate::limits;
use crate::machine::event::Actor;
use crate::text::line;

/// What the store has for a task besides its row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredMovers {
    /// The timers of its present stay, and the one of its delay.
    pub timers: Vec<Timer>,
    /// An open decision about it.
    pub is_asked: bool,
    /// The start of its activity waits in the outbox.
    pub is_started: bool,
    /// Children that have not ended, and effects that will tell of one.
    pub children: i64,
    pub queue_rank: Option<i64>,
}

/// Something that the store lacks for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The timer of a timeout, by its trigger.
    Timeout(String),
    /// The timer that ends its delay.
    Delay,
    /// The question that its state asks.
    Decision,
    /// The start of its state's activity.
    Start(Activity),
    QueuePlace,
    /// Everything that could move it on. Nobody but a person can change that.
    Mover,
}

impl Missing {
    /// Whether it follows from the lifecycle and the task, so that it can be made again.
    pub fn can_be_restored(&self) -> bool {
        *self != Self::Mover
    }
}

/// What the store lacks for a task.
pub fn missing(lifecycle: &Lifecycle, task: &Task, movers: &StoredMovers) -> Vec<Missing> {
    // What is asked here depends on no clock.
    let at = Moment { lifecycle, task, now: task.updated_at };
    let has = |kind: TimerKind| movers.timers.iter().any(|timer| timer.kind == kind);
    let bounds = running_timeouts(lifecycle, task);
    let bounds = bounds.filter(|(row, _)| !has(TimerKind::Timeout(*row)));
    let trigger = |row: u32| lifecycle.transitions[row as usize].trigger.clone();
    let mut missing: Vec<Missing> = bounds.map(|(row, _)| Missing::Timeout(trigger(row))).collect();
    if task.not_before.is_some() != has(TimerKind::Ready) {
        missing.push(Missing::Delay);
    }
    if !movers.is_asked && open_decision(lifecycle, task).is_some() {
        missing.push(Missing::Decision);
    }
    if movers.queue_rank != task.rank(lifecycle) {
        missing.push(Missing::QueuePlace);
    }
    if missing.is_empty() && !has_mover(at, movers) {
        missing.push(start(at).map_or(Missing::Mover, Missing::Start));
    }
    missing
}

/// The activity that an effect has to start in the task's state.
fn start(at: Moment<'_>) -> Option<Activity> {
    entry_effects(at).into_iter().find_map(|effect| match effect {
        Effect::Start { activity } => Some(activity),
        Effect::Stop { .. }
        | Effect::Notify
        | Effect::Alert
        | Effect::CleanUp
        | Effect::Remind { .. }
        | Effect::TellParent
        | Effect::CloseReviews
        | Effect::LeadChildren => None,
    })
}

/// Whether something moves a task on of which the store lacks nothing.
fn has_mover(at: Moment<'_>, movers: &StoredMovers) -> bool {
    let Moment { lifecycle, task, .. } = at;
    let state = at.state();
    let waits_for_tasks =
        task.open_needs > 0 && (task.is_claimable(lifecycle) || state.kind == StateKind::Queued);
    if state.terminal
        || task.lease.is_some()
        || movers.queue_rank.is_some()
        || state.provisional
        || waits_for_tasks
    {
        return true;
    }
    if is_left_to_children(lifecycle, task) {
        return movers.children > 0;
    }
    let has_timer = movers.timers.iter().any(|timer| !matches!(timer.kind, TimerKind::Remind(_)));
    if is_silent(lifecycle, task) || has_timer {
        return has_timer;
    }
    // Where the system has to do something, people do not wait for themselves.
    movers.is_asked || movers.is_started || (start(at).is_none() && is_left_to_people(at))
}

/// Whether the state is one in which people move a task by themselves.
fn is_left_to_people(at: Moment<'_>) -> bool {
    let by_people =
        at.exits().any(|row| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN));
    by_people
        && match at.state().kind {
            StateKind::Queued
            | StateKind::Waiting
            | StateKind::Blocked
            | StateKind::Parked
            | StateKind::Failed => true,
            StateKind::Reviewing => at.state().does.is_none(),
            StateKind::Working | StateKind::Done | StateKind::Cancelled => false,
        }
}

/// Makes again what is missing, in a record of its own. The task stays as it is; what is there is
/// kept. None if nothing is missing that can be made.
pub(super) fn restore(at: Moment<'_>, movers: &StoredMovers, actor: &Actor) -> Option<TaskUpdate> {
    let Moment { lifecycle, task, now } = at;
    let mut missing = missing(lifecycle, task, movers);
    missing.retain(Missing::can_be_restored);
    if missing.is_empty() {
        return None;
    }
    let next = Task { version: task.version + 1, updated_at: now, ..task.clone() };
    let lacks = |what: &Missing| missing.contains(what);
    let opens = open_decision(lifecycle, task).filter(|_| lacks(&Missing::Decision));
    let has = |wanted: &Timer| movers.timers.iter().any(|timer| timer.kind == wanted.kind);
    let kept = movers.timers.iter().copied();
    let kept = kept.filter(|timer| timer.kind != TimerKind::Ready || task.not_before.is_some());
    let planned = kept.chain(timers(at).into_iter().filter(|timer| !has(timer))).collect();
    let changes = missing.iter().any(|it| matches!(it, Missing::Timeout(_) | Missing::Delay));
    let starts = missing.iter().filter_map(|it| match it {
        Missing::Start(activity) => Some(Effect::Start { activity: *activity }),
        Missing::Timeout(_)
        | Missing::Delay
        | Missing::Decision
        | Missing::QueuePlace
        | Missing::Mover => None,
    });
    let effects = starts.collect();
    let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let detail = line(&words.join("; "), limits::NOTE_DETAIL_BYTES);
    let mut record = at.record(&next, Note::Repaired.as_str(), actor);
    record.fields.insert(NOTE_DETAIL.to_owned(), detail.into());
    Some(TaskUpdate {
        record: Some(record),
        effects,
        timers: changes.then_some(planned),
        decision: DecisionChange { settles: false, opens },
        ..quiet(next)
    })
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout(trigger) => write!(f, "has no timer for its bound `{trigger}`"),
            Self::Delay => f.write_str("is delayed without a timer, or the other way round"),
            Self::Decision => f.write_str("asks a person, but no decision is open"),
            Self::Start(activity) => write!(f, "its activity `{activity}` is not to be started"),
            Self::QueuePlace => f.write_str("its place in the queue is wrong"),
            Self::Mover => f.write_str("is stranded: nothing will move it on"),
        }
    }
}
