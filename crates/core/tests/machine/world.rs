//! A world of one task: it keeps what the store would keep and accepts no result that breaks a law.
//!
//! It decides nothing: the next state, the timers and the decision all come from the machine.

use std::fmt;
use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Lifecycle, StateId, StateKind};
use banksman_core::machine::{
    Actor, Ending, Event, NewTask, OpenDecision, Record, Rejected, StepResult, Task, TaskUpdate,
    TimerKind, create, step,
};
use banksman_core::time::{Instant, Span};

use crate::{laws, standing};

/// The start time of every world.
pub(crate) const START: Instant = Instant(1_707_734_400_000);

/// How many timers of earlier entries are kept to be fired late.
const GONE_TIMERS: usize = 16;

/// A timer as the store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) kind: TimerKind,
    pub(crate) entered: i64,
    pub(crate) due: Instant,
}

/// A broken law, and the events that led to it.
#[derive(Debug)]
pub(crate) struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) type Reply = Result<StepResult, Rejected>;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) task: Task,
    pub(crate) now: Instant,
    pub(crate) armed: Vec<Armed>,
    pub(crate) gone: Vec<Armed>,
    pub(crate) history: Vec<Record>,
    /// The task after each record.
    pub(crate) past: Vec<Task>,
    pub(crate) decision: Option<OpenDecision>,
    /// What its dependents believe: done or not, by what they were told.
    pub(crate) relied_on: bool,
    /// Every epoch that was ever assigned, in order.
    pub(crate) epochs: Vec<i64>,
    /// What happened, one line each, for the reader of a counterexample.
    pub(crate) story: Vec<String>,
}

impl World {
    pub(crate) fn new(lifecycle: Arc<Lifecycle>, new: &NewTask) -> Result<Self, Rejected> {
        let born = create(&lifecycle, new, &Actor::human("ann"), TaskId(1), START)?;
        Ok(Self::of_step(lifecycle, born))
    }

    pub(crate) fn of_step(lifecycle: Arc<Lifecycle>, born: TaskUpdate) -> Self {
        // An imported task that is done counts as done for its dependents from the beginning.
        let relied_on = lifecycle.state(born.task.state).kind == StateKind::Done;
        let mut world = Self {
            lifecycle,
            task: born.task.clone(),
            now: START,
            armed: Vec::new(),
            gone: Vec::new(),
            history: Vec::new(),
            past: Vec::new(),
            decision: None,
            relied_on,
            epochs: Vec::new(),
            story: Vec::new(),
        };
        world.commit(None, born);
        world
    }

    pub(crate) fn state_name(&self, id: StateId) -> &str {
        &self.lifecycle.state(id).name
    }

    pub(crate) fn state(&self) -> &str {
        self.state_name(self.task.state)
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now.plus(span);
    }

    /// Applies an event to the task, and stores the result unless a law is broken.
    pub(crate) fn feed(&mut self, event: &Event) -> Result<Reply, Violation> {
        let reply = step(&self.lifecycle, &self.task, event, self.now);
        let told = self.tell(event, &reply);
        self.story.push(told);
        if reply != step(&self.lifecycle, &self.task, event, self.now) {
            return Err(
                self.violation("the same event gives the same answer", "the second answer differs")
            );
        }
        for (law, holds) in laws::LAWS {
            let meeting = laws::Meeting { world: self, event, reply: &reply };
            holds(&meeting).map_err(|why| self.violation(law, &why))?;
        }
        match &reply {
            Ok(StepResult::Step(step)) => self.commit(Some(event), (**step).clone()),
            Ok(StepResult::Later(due)) => self.rearm(event, Some(*due)),
            Ok(StepResult::Ignored(_)) => self.rearm(event, None),
            Err(_) => {}
        }
        for (law, holds) in standing::LAWS {
            holds(self).map_err(|why| self.violation(law, &why))?;
        }
        Ok(reply)
    }

    /// The store's part: writes the whole step at once.
    fn commit(&mut self, event: Option<&Event>, step: TaskUpdate) {
        if let Some(event) = event {
            self.rearm(event, None);
        }
        let claimed = matches!(event, Some(Event::Claimed(_)));
        let lease = step.task.lease.as_ref().filter(|_| claimed);
        self.epochs.extend(lease.map(|lease| lease.epoch));
        self.task = step.task;
        if let Some(timers) = step.timers {
            self.gone.append(&mut self.armed);
            let surplus = self.gone.len().saturating_sub(GONE_TIMERS);
            self.gone.drain(..surplus);
            let entered = self.task.entered;
            self.armed = timers
                .into_iter()
                .map(|timer| Armed { kind: timer.kind, entered, due: timer.due })
                .collect();
        }
        if let Some(record) = step.record {
            self.history.push(record);
            self.past.push(self.task.clone());
        }
        match step.ending {
            Some(Ending::Done) => self.relied_on = true,
            Some(Ending::TakenBack) => self.relied_on = false,
            Some(Ending::Otherwise) | None => {}
        }
        if step.decision.settles {
            self.decision = None;
        }
        if step.decision.opens.is_some() {
            self.decision = step.decision.opens;
        }
    }

    /// A timer that came due is gone, or set to a later time.
    fn rearm(&mut self, event: &Event, later: Option<Instant>) {
        let Event::Due { timer, entered } = event else { return };
        let Some(at) =
            self.armed.iter().position(|armed| armed.kind == *timer && armed.entered == *entered)
        else {
            return;
        };
        match later {
            Some(due) => self.armed[at].due = due,
            None => {
                self.armed.remove(at);
            }
        }
    }

    pub(crate) fn violation(&self, law: &str, why: &str) -> Violation {
        let story = self.story.join("\n  ");
        Violation(format!(
            "{}: the law \"{law}\" is broken: {why}\n  {story}\n  the task: {:?}",
            self.lifecycle.id, self.task
        ))
    }

    fn tell(&self, event: &Event, reply: &Reply) -> String {
        let what = match event {
            Event::Asked(ask) => {
                let to = ask.to.as_deref().unwrap_or("?");
                let by = ask.trigger.as_deref().unwrap_or("?");
                let epoch =
                    ask.epoch.map_or(String::new(), |epoch| format!(" under epoch {epoch}"));
                format!(
                    "{} asks for {to} by {by}{epoch} with {}",
                    ask.actor,
                    serde_json::Value::Object(ask.fields.clone())
                )
            }
            Event::Claimed(claim) => format!("{} claims", claim.actor),
            Event::Heartbeat(heartbeat) => {
                format!("epoch {} beats, progressed: {}", heartbeat.epoch, heartbeat.progressed)
            }
            Event::Finished(finish) => format!(
                "epoch {} ends: {} with {}",
                finish.epoch,
                finish.outcome,
                serde_json::Value::Object(finish.fields.clone())
            ),
            Event::Reported(report) => format!(
                "entry {} reports {} with {}",
                report.entered,
                report.outcome,
                serde_json::Value::Object(report.fields.clone())
            ),
            Event::Due { timer, entered } => format!("{timer:?} of entry {entered} comes due"),
            Event::StaleWrite { epoch } => format!("epoch {epoch} came late"),
            Event::Noted(noted) => format!("noted: {} by {}", noted.trigger, noted.actor),
            Event::DelaySkipped(actor) => format!("{actor} does not want to wait"),
            Event::Restored { actor, .. } => format!("{actor} repairs it"),
            Event::Overridden(request) => format!(
                "{} overrides {} because {:?}",
                request.actor,
                serde_json::Value::Object(request.fields.clone()),
                request.reason
            ),
            Event::NeedsLeft(open) => format!("{open} needs are left"),
            Event::LateCost(cost) => format!("epoch {} has cost {}", cost.epoch, cost.cost_micros),
            Event::Uncounted(uncounted) => format!("{} does not count", uncounted.span),
        };
        let so = match reply {
            Ok(StepResult::Step(step)) => {
                format!("{} at version {}", self.state_name(step.task.state), step.task.version)
            }
            Ok(StepResult::Later(due)) => format!("later, at {due}"),
            Ok(StepResult::Ignored(why)) => format!("ignored: {why:?}"),
            Err(rejected) => format!("{:?}: {rejected}", rejected.why),
        };
        format!("{} in {}: {what} -> {so}", self.now, self.state())
    }
}

/// Whether the state asks people.
pub(crate) fn asks_people(lifecycle: &Lifecycle, state: StateId) -> bool {
    lifecycle.state(state).does.as_ref().is_some_and(|does| does.activity == Activity::Human)
}
