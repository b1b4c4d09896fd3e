//! A short vocabulary for the behaviour tests. Each call goes through the world, so every law is
//! checked on the way.

use std::sync::Arc;

use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::lifecycle::{Activity, Lifecycle, Outcome, Setting};
use banksman_core::machine::{
    ActivityReport, Actor, Claim, Event, FactOverride, Finish, Heartbeat, Ignored, NewTask,
    Overridden, Rejected, StepResult, TaskUpdate, TimerKind, TransitionRequest, allowed,
};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value};

use crate::world::World;

const LEASE: Span = Span(900_000);

/// The fields of a JSON object.
pub(crate) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

pub(crate) fn span(text: &str) -> Span {
    text.parse().expect("a span of time")
}

pub(crate) fn builtin_with(name: &str, settings: &[(&str, Setting)]) -> Arc<Lifecycle> {
    let overrides: Overrides =
        settings.iter().map(|(name, setting)| ((*name).to_owned(), setting.clone())).collect();
    let checked = builtin::get(name, &overrides).expect("it is built in");
    Arc::new(checked.unwrap_or_else(|problems| panic!("{problems}")))
}

/// A task of a lifecycle that a test defines itself.
pub(crate) fn of_source(source: &str) -> World {
    of_lifecycle(of_text(source), serde_json::json!({}))
}

pub(crate) fn of_lifecycle(lifecycle: Arc<Lifecycle>, given: Value) -> World {
    born(lifecycle, NewTask { fields: fields(given), ..NewTask::default() })
}

/// A task that is a child of another one, or depends on some.
pub(crate) fn born(lifecycle: Arc<Lifecycle>, new: NewTask) -> World {
    let new = NewTask { title: "limit the rate".to_owned(), ..new };
    World::new(lifecycle, &new).unwrap_or_else(|rejected| panic!("{rejected}"))
}

pub(crate) fn of_text(source: &str) -> Arc<Lifecycle> {
    let checked = check(source, "test", &Overrides::new());
    Arc::new(checked.unwrap_or_else(|problems| panic!("{problems}")))
}

/// A new task of a built-in lifecycle.
pub(crate) fn task_of(name: &str, given: Value) -> World {
    of_lifecycle(builtin_with(name, &[]), given)
}

/// `field: message` of every error.
pub(crate) fn complaints(rejected: &Rejected) -> Vec<String> {
    rejected.errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
}

impl World {
    pub(crate) fn meet(&mut self, event: &Event) -> Result<StepResult, Rejected> {
        self.feed(event).unwrap_or_else(|violation| panic!("{violation}"))
    }

    fn stepped(&mut self, event: &Event) -> Result<TaskUpdate, Rejected> {
        match self.meet(event)? {
            StepResult::Step(step) => Ok(*step),
            StepResult::Later(due) => panic!("not before {due}"),
            StepResult::Ignored(why) => panic!("ignored: {why:?}"),
        }
    }

    /// `who` is ROLE or ROLE:NAME; `how` is `to STATE`, `on TRIGGER` or both.
    pub(crate) fn ask(
        &mut self,
        who: &str,
        how: &str,
        given: Value,
    ) -> Result<TaskUpdate, Rejected> {
        let ask = asking(who, how, given);
        self.stepped(&Event::Asked(ask))
    }

    /// A person says what nobody has proven.
    pub(crate) fn overrides(&mut self, who: &str, facts: Value) -> TaskUpdate {
        let (actor, fields) = (actor(who), fields(facts));
        let request = FactOverride { actor, fields, reason: "seen on the forge".to_owned() };
        let step = self.stepped(&Event::Overridden(request));
        step.unwrap_or_else(|rejected| panic!("{who} overrides: {rejected}"))
    }

    /// The facts that stand on a person's word.
    pub(crate) fn on_word(&self) -> Vec<String> {
        let overridden = Overridden::of(&self.task, &self.lifecycle).expect("it reads");
        overridden.map(|all| all.facts.keys().cloned().collect()).unwrap_or_default()
    }

    /// The transition is applied, and leads to that state.
    pub(crate) fn goes(&mut self, who: &str, how: &str, given: Value, state: &str) -> TaskUpdate {
        let step =
            self.ask(who, how, given).unwrap_or_else(|rejected| panic!("{who} {how}: {rejected}"));
        assert_eq!(self.state(), state, "{who} {how}");
        step
    }

    pub(crate) fn refused(&mut self, who: &str, how: &str, given: Value) -> Rejected {
        let was = self.state().to_owned();
        let refused = self.ask(who, how, given);
        refused
            .map(|step| panic!("{who} {how} from {was}: {:?}", step.record))
            .expect_err("the other case panics")
    }

    pub(crate) fn claim(&mut self, who: &str) -> Result<TaskUpdate, Rejected> {
        let claim = Claim { actor: actor(who), expires_at: self.now.plus(LEASE) };
        self.stepped(&Event::Claimed(claim))
    }

    pub(crate) fn is_claimed_by(&mut self, who: &str, state: &str) -> TaskUpdate {
        let step = self.claim(who).unwrap_or_else(|rejected| panic!("{who} claims: {rejected}"));
        assert_eq!(self.state(), state, "claimed by {who}");
        step
    }

    pub(crate) fn heartbeat(
        &mut self,
        epoch: i64,
        progressed: bool,
    ) -> Result<TaskUpdate, Rejected> {
        let heartbeat = Heartbeat { epoch, expires_at: self.now.plus(LEASE), progressed };
        self.stepped(&Event::Heartbeat(heartbeat))
    }

    /// A run reports. Tests that need more fill in the rest.
    pub(crate) fn finish(&mut self, finish: Finish) -> Result<TaskUpdate, Rejected> {
        self.stepped(&Event::Finished(finish))
    }

    /// The activity of the state ends: an agent's by its run, any other by a report.
    pub(crate) fn ends(
        &mut self,
        outcome: Outcome,
        detail: &str,
        given: Value,
        state: &str,
    ) -> TaskUpdate {
        let does = self.lifecycle.state(self.task.state).does.as_ref();
        let activity = does.expect("the state does something").activity;
        let step = if activity == Activity::Agent {
            let finish =
                Finish { detail: detail.to_owned(), fields: fields(given), ..self.ending(outcome) };
            self.finish(finish)
        } else {
            self.report(outcome, detail, given)
        };
        let step = step.unwrap_or_else(|rejected| panic!("{outcome}: {rejected}"));
        assert_eq!(self.state(), state, "{outcome}");
        step
    }

    /// A run fails, and the failure policy tries it again at a time.
    pub(crate) fn retried_at(&mut self, outcome: Outcome, at: Instant) -> TaskUpdate {
        let finish = Finish { again_at: Some(at), ..self.ending(outcome) };
        self.finish(finish).unwrap_or_else(|rejected| panic!("{outcome}: {rejected}"))
    }

    pub(crate) fn report(
        &mut self,
        outcome: Outcome,
        detail: &str,
        given: Value,
    ) -> Result<TaskUpdate, Rejected> {
        let (entered, detail) = (self.task.entered, detail.to_owned());
        let (fields, tokens, cost_micros) = (fields(given), 0, 0);
        let report = ActivityReport { entered, outcome, detail, fields, tokens, cost_micros };
        self.stepped(&Event::Reported(report))
    }

    /// The current run ends with an outcome and nothing else.
    pub(crate) fn ending(&self, outcome: Outcome) -> Finish {
        let epoch = self.task.epoch;
        Finish {
            epoch,
            outcome,
            detail: String::new(),
            fields: Map::new(),
            tokens: 0,
            cost_micros: 0,
            again_at: None,
        }
    }

    pub(crate) fn fires(&mut self, timer: TimerKind, entered: i64) -> Result<StepResult, Ignored> {
        match self.meet(&Event::Due { timer, entered }) {
            Ok(StepResult::Ignored(why)) => Err(why),
            Ok(answer) => Ok(answer),
            Err(rejected) => panic!("{timer:?}: {rejected}"),
        }
    }

    /// Lets time pass and fires every timer at its time.
    pub(crate) fn after(&mut self, time: &str) -> Vec<TaskUpdate> {
        let until = self.now.plus(span(time));
        let mut steps = Vec::new();
        while let Some(next) = self
            .armed
            .iter()
            .filter(|armed| armed.due <= until)
            .min_by_key(|armed| armed.due)
            .copied()
        {
            self.now = self.now.max(next.due);
            match self.fires(next.kind, next.entered) {
                Ok(StepResult::Step(step)) => steps.push(*step),
                Ok(StepResult::Later(_) | StepResult::Ignored(_)) | Err(_) => {}
            }
            assert!(steps.len() < 100, "timers without end");
        }
        self.now = until;
        steps
    }

    /// Just before that time nothing has moved; at that time the task is in the state.
    pub(crate) fn times_out(&mut self, time: &str, state: &str) -> TaskUpdate {
        let was = self.state().to_owned();
        let early = span(time).0 - 1;
        self.after(&format!("{early}ms"));
        assert_eq!(self.state(), was, "just before {time}");
        let steps = self.after("1ms");
        assert_eq!(self.state(), state, "after {time} in {was}");
        steps.into_iter().next_back().expect("it moved by a timer")
    }

    pub(crate) fn field(&self, name: &str) -> &Value {
        self.task.fields.get(name).unwrap_or(&Value::Null)
    }

    pub(crate) fn count(&self, name: &str) -> u32 {
        let index = self.lifecycle.counters.iter().position(|counter| counter.name == name);
        self.task.counters[index.expect("the counter exists")].used()
    }

    pub(crate) fn allowed(&self, who: &str) -> Vec<String> {
        let mut names = allowed(&self.lifecycle, &self.task, &actor(who), self.now);
        names.sort_unstable();
        names
    }

    pub(crate) fn at(&self, time: &str) -> Instant {
        self.now.plus(span(time))
    }
}

pub(crate) fn actor(who: &str) -> Actor {
    who.parse().expect("ROLE or ROLE:NAME")
}

pub(crate) fn asking(who: &str, how: &str, given: Value) -> TransitionRequest {
    let words: Vec<&str> = how.split(' ').collect();
    let after =
        |word: &str| words.windows(2).find(|pair| pair[0] == word).map(|pair| pair[1].to_owned());
    TransitionRequest {
        actor: actor(who),
        to: after("to"),
        trigger: after("on"),
        fields: fields(given),
        epoch: None,
        version: None,
    }
}
