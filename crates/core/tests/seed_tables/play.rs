//! Plays a task through a lifecycle, with a manual clock.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Lifecycle, Outcome, StateId, builtin};
use banksman_core::machine::{
    Actor, Claim, Event, Finish, Heartbeat, ImportedState, NewTask, Rejected, StepResult,
    TaskUpdate, Timer, TransitionRequest, allowed, check, create, import, step,
};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value};

pub(super) struct Play {
    pub(super) lifecycle: Lifecycle,
    pub(super) step: TaskUpdate,
    timers: Vec<Timer>,
    now: Instant,
}

/// Timeouts that may fire within one wait; a lifecycle that needs more has a loop.
const MOST_TIMERS: usize = 100;

const START: Instant = Instant(1_700_000_000_000);

impl Play {
    pub(super) fn of(name: &str) -> Self {
        Self::born(name, &Overrides::new(), Value::Object(Map::new()))
            .unwrap_or_else(|rejected| panic!("{rejected}"))
    }

    pub(super) fn born(name: &str, overrides: &Overrides, fields: Value) -> Result<Self, Rejected> {
        let (lifecycle, now) = (built_in(name, overrides), START);
        let new = NewTask {
            title: "play".to_owned(),
            project: "stage".to_owned(),
            fields: object(fields),
            ..NewTask::default()
        };
        let step = create(&lifecycle, &new, &Actor::human("kim"), TaskId(1), now)?;
        let timers = step.timers.clone().unwrap_or_default();
        Ok(Self { lifecycle, step, timers, now })
    }

    /// A task that is imported in the middle of its lifecycle.
    pub(super) fn imported(name: &str, state: StateId, fields: Value) -> Self {
        let (lifecycle, now) = (built_in(name, &Overrides::new()), START);
        let new =
            NewTask { title: "play".to_owned(), fields: object(fields), ..NewTask::default() };
        let actor = Actor::human("kim");
        let arrival = ImportedState { state, prior: None };
        let born = import(&lifecycle, &new, arrival, &actor, TaskId(1), now);
        let step = born.unwrap_or_else(|rejected| panic!("{rejected}"));
        let timers = step.timers.clone().unwrap_or_default();
        Self { lifecycle, step, timers, now }
    }

    pub(super) fn state(&self) -> &str {
        &self.lifecycle.state(self.step.task.state).name
    }

    pub(super) fn field(&self, name: &str) -> Value {
        self.step.task.fields.get(name).cloned().unwrap_or_default()
    }

    /// What the last transition kept.
    pub(super) fn artifacts(&self) -> Vec<&str> {
        self.step.artifacts.iter().map(|artifact| artifact.name.as_str()).collect()
    }

    /// The trigger of the last transition.
    pub(super) fn trigger(&self) -> &str {
        self.step.record.as_ref().map_or("", |record| &record.trigger)
    }

    pub(super) fn allowed(&self, actor: &str) -> Vec<String> {
        allowed(&self.lifecycle, &self.step.task, &actor.parse().expect("ROLE:NAME"), self.now)
    }

    /// Asks for a transition to a state and returns the resulting state.
    pub(super) fn ask(&mut self, actor: &str, to: &str, fields: Value) -> Result<&str, Rejected> {
        self.asked(actor, Some(to), None, fields)
    }

    /// Asks for a transition by its trigger.
    pub(super) fn pull(
        &mut self,
        actor: &str,
        trigger: &str,
        fields: Value,
    ) -> Result<&str, Rejected> {
        self.asked(actor, None, Some(trigger), fields)
    }

    /// Transitions that must all be possible, by one actor and without fields.
    pub(super) fn walk(&mut self, moves: &[(&str, &str)]) {
        for (actor, to) in moves {
            let came = self
                .ask(actor, to, Value::Null)
                .unwrap_or_else(|rejected| panic!("{actor} to {to}: {rejected}"));
            assert_eq!(came, *to);
        }
    }

    fn asked(
        &mut self,
        actor: &str,
        to: Option<&str>,
        trigger: Option<&str>,
        fields: Value,
    ) -> Result<&str, Rejected> {
        let ask = TransitionRequest {
            actor: actor.parse().expect("ROLE:NAME"),
            to: to.map(str::to_owned),
            trigger: trigger.map(str::to_owned),
            fields: object(fields),
            epoch: None,
            version: None,
        };
        self.meet(&Event::Asked(ask))?;
        Ok(self.state())
    }

    /// A worker claims the task, or the state's activity, in the role that the state needs.
    pub(super) fn claim(&mut self, actor: &str) -> Result<&str, Rejected> {
        let claim = Claim {
            actor: actor.parse().expect("ROLE:NAME"),
            expires_at: self.now.plus(Span(60_000)),
        };
        self.meet(&Event::Claimed(claim))?;
        Ok(self.state())
    }

    /// The run that holds the task reports progress.
    pub(super) fn heartbeat(&mut self) {
        let (epoch, expires_at) = (self.step.task.epoch, self.now.plus(Span(60_000)));
        let heartbeat = Event::Heartbeat(Heartbeat { epoch, expires_at, progressed: true });
        self.meet(&heartbeat).unwrap_or_else(|rejected| panic!("{rejected}"));
    }

    /// The run that holds the task ends.
    pub(super) fn end_run(&mut self, outcome: Outcome, detail: &str, fields: Value) -> &str {
        let finish = Finish {
            epoch: self.step.task.epoch,
            outcome,
            detail: detail.to_owned(),
            fields: object(fields),
            tokens: 1_000,
            cost_micros: 250_000,
            again_at: None,
        };
        self.meet(&Event::Finished(finish))
            .unwrap_or_else(|rejected| panic!("{outcome}: {rejected}"));
        self.state()
    }

    /// Lets time pass and fires every timeout that comes due.
    pub(super) fn wait(&mut self, time: &str) -> &str {
        let end = self.now.plus(time.parse().expect("a span of time"));
        for _ in 0..MOST_TIMERS {
            let next = self
                .timers
                .iter()
                .enumerate()
                .filter(|(_, timer)| timer.due <= end)
                .min_by_key(|(_, timer)| timer.due);
            let Some((index, timer)) = next.map(|(index, timer)| (index, *timer)) else {
                self.now = end;
                return self.state();
            };
            self.now = self.now.max(timer.due);
            self.timers.remove(index);
            let event = Event::Due { timer: timer.kind, entered: self.step.task.entered };
            if let Some(due) =
                self.meet(&event).unwrap_or_else(|rejected| panic!("{:?}: {rejected}", timer.kind))
            {
                self.timers.push(Timer { due, ..timer });
            }
        }
        panic!("more than {MOST_TIMERS} timers fired in {time}");
    }

    fn meet(&mut self, event: &Event) -> Result<Option<Instant>, Rejected> {
        match step(&self.lifecycle, &self.step.task, event, self.now)? {
            StepResult::Step(step) => {
                check(&self.lifecycle, &step.task).expect("the machine keeps its invariants");
                if let Some(timers) = &step.timers {
                    self.timers.clone_from(timers);
                }
                self.step = *step;
                Ok(None)
            }
            StepResult::Later(due) => Ok(Some(due)),
            StepResult::Ignored(_) => Ok(None),
        }
    }
}

fn built_in(name: &str, overrides: &Overrides) -> Lifecycle {
    let checked = builtin::get(name, overrides).expect("it is built in");
    checked.unwrap_or_else(|problems| panic!("{problems}"))
}

fn object(fields: Value) -> Map<String, Value> {
    match fields {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            panic!("fields are an object")
        }
    }
}

/// The errors of a refusal as `field: message`.
pub(super) fn errors(refused: Result<&str, Rejected>) -> Vec<String> {
    let rejected = refused.expect_err("it should be refused");
    rejected.errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
}
