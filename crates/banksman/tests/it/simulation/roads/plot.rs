//! What happens on a road: the way to the cell's state, the cell's event, and nothing special
//! before or after.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use banksman::exec::job::{JobId, JobSpec};
use banksman::store::{Store, Stored};
use banksman_core::failure::FailureClass;
use banksman_core::ids::TaskId;
use banksman_core::panel::Verdict;
use banksman_core::time::{Instant, Span};

use super::cell::{Ending, Event, Place, Times, Voice};
use crate::simulation::answers::{self, Asked};
use crate::simulation::ground::{Direction, Director};
use crate::simulation::script::{Doing, Script};

/// Longer than anything waits.
const FOR_EVER: Span = Span(400 * 86_400_000);
const TAKES: Span = Span(20_000);

/// Something that happens in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) place: Place,
    pub(super) event: Event,
    /// People say nothing after it, until the next step.
    pub(super) is_silent: bool,
}

/// A run of an agent, with the state in which it began.
#[derive(Debug, Clone)]
pub(super) struct Paid {
    pub(super) task: TaskId,
    pub(super) place: Place,
    pub(super) succeeds: bool,
    pub(super) is_after: bool,
}

/// What is to happen, and what has happened of it.
pub(super) struct Plot {
    pub(super) store: Store,
    pub(super) route: Vec<Step>,
    pub(super) cell: Option<Step>,
    /// Subtasks of the plan.
    pub(super) subtasks: usize,
    /// The state of the cell was reached, so that the way there is over.
    pub(super) is_reached: bool,
    /// Steps of the way whose state was reached.
    passed: usize,
    /// How often the event of the cell happened.
    pub(super) applied: u32,
    /// Events of the way that happen once and have happened.
    used: BTreeSet<String>,
    /// Panels and jobs that sent the work back.
    pub(super) sent_back: BTreeSet<(TaskId, i64)>,
    pub(super) paid: Vec<Paid>,
}

pub(super) fn place_of(stored: &Stored) -> Place {
    Place {
        lifecycle: stored.lifecycle.id.clone(),
        state: stored.state().name.clone(),
        is_active: stored.task.is_active(&stored.lifecycle),
    }
}

impl Plot {
    pub(super) fn new(store: Store, route: Vec<Step>, cell: Option<Step>, subtasks: usize) -> Self {
        Self {
            store,
            route,
            cell,
            subtasks,
            is_reached: false,
            passed: 0,
            applied: 0,
            used: BTreeSet::new(),
            sent_back: BTreeSet::new(),
            paid: Vec::new(),
        }
    }

    /// A task has come into this state.
    pub(super) fn comes_to(&mut self, place: &Place) {
        let next = self.route.get(self.passed);
        self.passed += usize::from(next.is_some_and(|step| step.place == *place));
        let is_there = self.cell.as_ref().is_some_and(|cell| cell.place == *place);
        self.is_reached |= is_there && self.passed == self.route.len();
    }

    /// Whether people say nothing on this part of the way.
    pub(super) fn is_silent(&self) -> bool {
        let last = self.passed.checked_sub(1).and_then(|at| self.route.get(at));
        last.is_some_and(|step| step.is_silent)
    }

    fn steps(&self) -> &[Step] {
        match &self.cell {
            Some(cell) if self.is_reached => std::slice::from_ref(cell),
            Some(_) | None => &self.route,
        }
    }

    /// What happens at a place, if it is time for it. `key` is what happens once.
    pub(super) fn event_at(&mut self, place: &Place, key: &str) -> Option<Event> {
        let fits = |step: &&Step| step.place == *place;
        let event = self.steps().iter().find(fits)?.event.clone();
        let times = match &event {
            Event::Run(_, times) | Event::Job(_, times) | Event::Panel(_, times) => *times,
            Event::Answer(_) | Event::Silence => Times::Once,
            Event::NoReviewer | Event::NoWorker | Event::EngineDies | Event::Met => Times::Always,
        };
        let during = if self.is_reached { "cell" } else { "way" };
        let name = format!("{during} {place} {event}");
        let own = format!("{name} {key}");
        if times == Times::Once && self.used.contains(&name) && !self.used.contains(&own) {
            return None;
        }
        self.used.extend([name, own]);
        self.applied += u32::from(self.is_reached);
        Some(event)
    }

    fn good(&self, id: JobId, plan: &JobSpec) -> Direction {
        let answer = Asked::of(&plan.work).map(|asked| match asked {
            Asked::Plan => answers::planned(self.subtasks, id),
            Asked::Verdict => answers::verdict("APPROVE", id),
            Asked::Reply => answers::reply(true, id),
            Asked::WorkPlan => answers::work_plan(id),
            Asked::Delivery => answers::delivery(id),
        });
        let quick = matches!(Doing::of(&plan.work), Doing::FindMerge);
        let takes = if quick { Span(500) } else { TAKES };
        // Who only answers commits nothing.
        let script = if answer.is_some() { Script::Lies } else { Script::Succeeds };
        Direction { script, answer, dies: false, takes, makes_progress: true }
    }

    fn run(&mut self, id: JobId, plan: &JobSpec, stored: &Stored) -> Direction {
        let place = place_of(stored);
        self.comes_to(&place);
        let mut direction = self.good(id, plan);
        let mut succeeds = true;
        if let Some(parent) = stored.task.parent.filter(|_| stored.is_review()) {
            let parent = self.store.task(parent).expect("the parent is read");
            let at = (parent.task.id, parent.task.entered);
            let place = place_of(&parent);
            self.comes_to(&place);
            let key = format!("{}#{}", at.0, at.1);
            if let Some(Event::Panel(voice, _)) = self.event_at(&place, &key) {
                if voice == Voice::Says(Verdict::Block) {
                    self.sent_back.insert(at);
                }
                says(&mut direction, voice, Asked::of(&plan.work), id);
            }
        }
        if let Some(Event::Run(ending, _)) = self.event_at(&place, &id.to_string()) {
            let good = direction.script;
            succeeds = ending == Ending::Well;
            follow(&mut direction, ending, ending.of_agent());
            if direction.script == Script::Succeeds {
                direction.script = good;
            }
            if ending == Ending::Busy {
                // Its keeper ends it in the end.
                direction.script = Script::TimesOut;
                direction.takes = Span(plan.limits.wall_ms);
            }
            if ending != Ending::Well {
                direction.answer = direction.answer.filter(|_| ending.goes_on());
            }
        }
        let (task, is_after) = (stored.task.id, self.is_reached);
        self.paid.push(Paid { task, place, succeeds, is_after });
        direction
    }

    fn job(&mut self, id: JobId, plan: &JobSpec, stored: &Stored) -> Direction {
        let mut direction = self.good(id, plan);
        if matches!(Doing::of(&plan.work), Doing::CleanUp) {
            return direction;
        }
        let place = place_of(stored);
        self.comes_to(&place);
        let key = format!("{id} {}", self.applied);
        if let Some(Event::Job(ending, _)) = self.event_at(&place, &key) {
            follow(&mut direction, ending, ending.of_job());
            if ending.sends_back() {
                self.sent_back.insert((stored.task.id, stored.task.entered));
            }
        }
        direction
    }
}

fn follow(direction: &mut Direction, ending: Ending, script: Script) {
    direction.script = script;
    direction.dies = ending.kills_keeper();
    if ending.goes_on() {
        direction.takes = FOR_EVER;
        direction.makes_progress = ending == Ending::Busy;
    }
}

fn says(direction: &mut Direction, voice: Voice, asked: Option<Asked>, id: JobId) {
    match (voice, asked) {
        (Voice::Says(verdict), Some(Asked::Verdict)) => {
            direction.answer = Some(answers::verdict(verdict.as_str(), id));
        }
        (Voice::Withdraws, Some(Asked::Verdict)) => {
            direction.answer = Some(answers::verdict(Verdict::Concern.as_str(), id));
        }
        (Voice::Says(_), Some(Asked::Reply)) => {
            direction.answer = Some(answers::reply(false, id));
        }
        (Voice::Says(_) | Voice::Withdraws, _) => {}
        // An answer that does not fit the schema is none, and the keeper says so.
        (Voice::Nonsense, _) => {
            direction.answer = None;
            direction.script = Script::NeverSaysDone;
        }
        (Voice::Silent, _) => {
            (direction.takes, direction.makes_progress) = (FOR_EVER, false);
        }
    }
}

/// The plot as the ground asks it.
pub(super) struct Told(pub(super) Rc<RefCell<Plot>>);

impl Director for Told {
    fn direct(&mut self, id: JobId, plan: &JobSpec, _: Instant) -> Direction {
        let mut plot = self.0.borrow_mut();
        let stored = plot.store.task(id.task()).expect("the task is read");
        match id {
            JobId::Run(_) => plot.run(id, plan, &stored),
            JobId::Activity { .. } | JobId::CleanUp { .. } | JobId::Poll { .. } => {
                plot.job(id, plan, &stored)
            }
        }
    }
}

/// The class that a run of an ending is recorded with.
pub(super) fn class_of(ending: Ending) -> Option<FailureClass> {
    match ending {
        Ending::Class(class) => Some(class),
        Ending::KeeperDies | Ending::Unreadable => Some(FailureClass::Infra),
        Ending::Lies => Some(FailureClass::Model),
        Ending::Well | Ending::Hangs | Ending::Busy | Ending::Outcome(_) | Ending::Hindered => None,
    }
}
