//! Goes one road to its end: the engine turns, time passes, people answer as the road says.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

use banksman::engine::Engine;
use banksman::store::Stored;
use banksman::store::query::Decision;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::lifecycle::{Lifecycle, RoleId};
use banksman_core::machine::{Actor, Event, TransitionRequest};
use banksman_core::time::{Instant, Span};
use serde_json::json;

use super::cell::{Event as CellEvent, Place, events};
use super::plot::{Step, place_of};
use super::scene::{NOON, Scene, World};
use crate::simulation::people;
use crate::simulation::site::{Crash, How};

/// After this time every deadline of a built-in lifecycle is over, also one after another.
const HORIZON: Span = Span(150 * 86_400_000);
/// Turns of the engine on one road.
const ROUNDS: usize = 1_500;
/// Turns at one moment.
const IN_A_ROW: usize = 12;
/// Answers that people give by themselves.
const ANSWERS: u32 = 8;
/// Answers on the way to the cell.
const GUIDED: u32 = 30;
/// Turns that are cut off.
const DEATHS: u32 = 6;
/// Turns without a change after which time goes faster.
const STILL: u32 = 3;
/// Days without a change after which nothing is to be expected of another one.
const IDLE: u32 = 4;
const DAY: Span = Span(86_400_000);
const STEP: Span = Span(60_000);
const LONGEST: Span = Span(2 * 86_400_000);

/// What people say after the event of the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leg {
    Silence,
    /// This answer to the first question, if it is given, and then the first that is offered.
    Answers(Option<usize>),
}

/// A question that people were asked after the event.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) place: Place,
    pub(super) offers: Vec<String>,
    /// How long it stays open.
    pub(super) patience: Option<Span>,
}

/// A state that was seen, and what can happen there.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) place: Place,
    pub(super) events: Vec<CellEvent>,
}

/// A road that was gone.
pub(super) struct Road {
    pub(super) world: World,
    pub(super) leg: Leg,
    pub(super) seen: Vec<Seen>,
    pub(super) first: Option<Question>,
    /// Answers after the event.
    pub(super) answers: u32,
    pub(super) broken: Vec<String>,
    scene: Scene,
    read: BTreeMap<TaskId, i64>,
    places: BTreeSet<Place>,
    asked: BTreeSet<i64>,
    /// Roles that no worker plays any more.
    gone: BTreeSet<String>,
    guided: u32,
    deaths: u32,
    still: u32,
    last: (i64, usize),
}

/// Goes the road to the cell and beyond.
pub(super) fn travel(scene: Scene, route: &[Step], cell: Option<&Step>, leg: Leg) -> Road {
    let world = World::new(scene, route, cell);
    let mut road = Road {
        world,
        leg,
        seen: Vec::new(),
        first: None,
        answers: 0,
        broken: Vec::new(),
        scene,
        read: BTreeMap::new(),
        places: BTreeSet::new(),
        asked: BTreeSet::new(),
        gone: BTreeSet::new(),
        guided: 0,
        deaths: 0,
        still: 0,
        last: (0, 0),
    };
    road.go();
    road
}

impl Road {
    pub(super) fn tasks(&self) -> Vec<Stored> {
        let tasks = self.world.ledger.store.tasks_from(TaskId(0)).expect("the tasks are read");
        tasks.into_iter().map(|(stored, _)| stored).collect()
    }

    fn now(&self) -> Instant {
        self.world.ground.borrow().now
    }

    pub(super) fn event(&self) -> Option<CellEvent> {
        self.world.plot.borrow().cell.as_ref().map(|cell| cell.event.clone())
    }

    pub(super) fn is_reached(&self) -> bool {
        self.world.plot.borrow().is_reached
    }

    fn go(&mut self) {
        self.observe();
        for _ in 0..ROUNDS {
            self.turn();
            self.observe();
            if self.answer() {
                self.turn();
                self.observe();
            }
            if !self.broken.is_empty() || !self.world.ground.borrow().broken.is_empty() {
                self.broken.append(&mut self.world.ground.borrow_mut().broken);
                return;
            }
            let Some(to) = self.next() else { return };
            if to.since(NOON) > HORIZON {
                return;
            }
            let store = self.world.ledger.store.clone();
            self.world.ground.borrow_mut().advance(to, &store);
        }
        self.broken.push("it does not come to rest".to_owned());
    }

    /// Turns once more, later, and says what has changed.
    pub(super) fn repeat(&mut self) -> Option<String> {
        let digest = |road: &Self| {
            road.world.ledger.store.verify_history().expect("the histories are read").digest
        };
        let before = digest(self);
        for _ in 0..3 {
            let to = self.now().plus(Span(86_400_000));
            let store = self.world.ledger.store.clone();
            self.world.ground.borrow_mut().advance(to, &store);
            self.turn();
        }
        (before != digest(self)).then(|| "more turns change it".to_owned())
    }

    fn turn(&mut self) {
        for _ in 0..IN_A_ROW {
            self.pulse();
            let (now, node) = (self.now(), &self.world.config.agents.node);
            let next = self.world.ledger.store.next_work(node, now).expect("the times are read");
            if next.is_none_or(|next| next > now) {
                return;
            }
        }
    }

    fn pulse(&mut self) {
        let dies = self.event() == Some(CellEvent::EngineDies) && self.is_reached();
        let fault = (dies && self.deaths < DEATHS).then(|| {
            let how =
                if self.deaths.is_multiple_of(2) { How::CrashBefore } else { How::CrashAfter };
            let at = self.deaths / 2;
            self.deaths += 1;
            (at, how)
        });
        self.world.calls.arm(fault);
        let World { ledger, site, projects, config, .. } = &self.world;
        let engine = Engine::new(&ledger.store, site, projects, config);
        let now = self.world.ground.borrow().now;
        let unreadable = self.world.ground.borrow().unreadable(0);
        let pulsed = catch_unwind(AssertUnwindSafe(|| engine.pulse(now)));
        self.world.calls.arm(None);
        match pulsed {
            Err(panic) if panic.is::<Crash>() => {
                self.world.plot.borrow_mut().applied += 1;
                self.world.ground.borrow_mut().note("the engine dies");
            }
            Err(panic) => resume_unwind(panic),
            Ok(Err(error)) => self.broken.push(format!("the engine failed: {error:?}")),
            Ok(Ok(report)) => {
                if report.faults > unreadable {
                    self.broken.push(format!("a turn had faults: {report:?}"));
                }
            }
        }
    }

    /// Looks where the tasks are and have been.
    fn observe(&mut self) {
        let tasks = self.tasks();
        let mut versions = 0;
        for stored in &tasks {
            versions += stored.task.version;
            let read = self.read.entry(stored.task.id).or_default();
            if *read == stored.task.version {
                continue;
            }
            let after = std::mem::replace(read, stored.task.version);
            let history = self.world.ledger.store.history(stored.task.id, after);
            for entry in history.expect("the history is read") {
                let record = &entry.record;
                let line = format!(
                    "{}: {} -> {} on {} by {} {:?}",
                    stored.task.id,
                    record.from.as_deref().unwrap_or("-"),
                    record.to,
                    record.trigger,
                    record.actor,
                    record.fields
                );
                self.world.ground.borrow_mut().note(&line);
                let there = record.to == stored.state().name;
                let is_active = !there || stored.task.is_active(&stored.lifecycle);
                let place = Place {
                    lifecycle: stored.lifecycle.id.clone(),
                    state: record.to.clone(),
                    is_active,
                };
                self.comes_to(stored, place);
            }
            self.comes_to(stored, place_of(stored));
        }
        let jobs = self.world.ground.borrow().jobs.len();
        self.still = if self.last == (versions, jobs) { self.still + 1 } else { 0 };
        self.last = (versions, jobs);
        self.change_workers(&tasks);
    }

    fn comes_to(&mut self, stored: &Stored, place: Place) {
        let lifecycle = &stored.lifecycle;
        let Some(state) = lifecycle.find_state(&place.state) else { return };
        let state = lifecycle.state(state);
        let mut plot = self.world.plot.borrow_mut();
        plot.comes_to(&place);
        let is_met = plot.cell.as_ref().is_some_and(|cell| {
            cell.place == place && matches!(cell.event, CellEvent::Met | CellEvent::Silence)
        });
        plot.applied += u32::from(is_met);
        drop(plot);
        let may_move = !state.terminal && !state.provisional;
        if may_move
            && self.scene.shows(stored, state.kind, place.is_active)
            && self.places.insert(place.clone())
        {
            let events = events(lifecycle, state, place.is_active);
            self.seen.push(Seen { place, events });
        }
    }

    /// Workers leave before the task comes where they are missed, and do not come back.
    fn change_workers(&mut self, tasks: &[Stored]) {
        let mut plot = self.world.plot.borrow_mut();
        let steps: Vec<Step> = plot.route.iter().chain(&plot.cell).cloned().collect();
        for step in steps {
            let missed = match step.event {
                CellEvent::NoWorker => all_roles(),
                CellEvent::NoReviewer => {
                    let role = role_at(&step.place).unwrap_or_default();
                    BTreeSet::from(["reviewer".to_owned(), role])
                }
                _ => continue,
            };
            if tasks.iter().any(|stored| comes_near(stored, &step.place)) {
                self.gone.extend(missed);
                plot.applied += u32::from(plot.cell.as_ref() == Some(&step));
            }
        }
        if self.gone.is_empty() {
            return;
        }
        for setup in &mut self.world.config.workers {
            let mut roles: BTreeSet<String> = all_roles().difference(&self.gone).cloned().collect();
            // Without a role it would play all of them.
            roles.insert("spectator".to_owned());
            setup.worker.roles = roles;
        }
    }

    /// People answer what they are asked, if the road says so. Answers whether somebody did.
    fn answer(&mut self) -> bool {
        let store = self.world.ledger.store.clone();
        let mut has_answered = false;
        for open in store.inbox().expect("the inbox is read") {
            let stored = store.task(open.task).expect("the task is read");
            let place = place_of(&stored);
            let was_reached = self.is_reached();
            let key = format!("{}", open.id.0);
            let scripted = self.world.plot.borrow_mut().event_at(&place, &key);
            let is_of_cell = self.is_reached() && scripted.is_some();
            let wanted = match scripted {
                Some(CellEvent::Answer(offer)) => Some(offer),
                Some(CellEvent::Silence) => None,
                Some(_) | None if !was_reached && self.world.plot.borrow().is_silent() => None,
                Some(_) | None if !was_reached => {
                    self.guided += 1;
                    first_offer(&open).filter(|_| self.guided <= GUIDED)
                }
                Some(_) | None => self.by_leg(&open, &stored),
            };
            if is_of_cell && wanted.is_none() {
                self.note_question(&open, &stored);
            }
            let Some(offer) = wanted else { continue };
            has_answered = true;
            self.give(&open, &stored, &offer);
        }
        has_answered
    }

    fn by_leg(&mut self, open: &Decision, stored: &Stored) -> Option<String> {
        let is_first = self.first.is_none();
        self.note_question(open, stored);
        let Leg::Answers(wanted) = self.leg else { return None };
        if self.answers >= ANSWERS {
            return None;
        }
        self.answers += 1;
        let offer = wanted.filter(|_| is_first).and_then(|at| open.offers.get(at));
        offer.map(|(offer, _)| offer.clone()).or_else(|| first_offer(open))
    }

    fn note_question(&mut self, open: &Decision, stored: &Stored) {
        if !self.asked.insert(open.id.0) {
            return;
        }
        let lifecycle = &stored.lifecycle;
        let mut exits = lifecycle.exits(stored.task.state);
        let has_end = exits.any(|row| row.timeout.is_some());
        let patience = open.deadline.map(|deadline| deadline.since(open.opened_at));
        if patience.is_none() || !has_end {
            let what = format!("{} asks without a deadline and a consequence", place_of(stored));
            self.broken.push(what);
        }
        let offers = open.offers.iter().map(|(offer, _)| offer.clone()).collect();
        let question = Question { place: place_of(stored), offers, patience };
        self.first.get_or_insert(question);
    }

    fn give(&mut self, open: &Decision, stored: &Stored, offer: &str) {
        let trigger = open.offers.iter().find(|(name, _)| name == offer);
        let Some((_, trigger)) = trigger else {
            self.broken.push(format!("{} does not offer {offer}", place_of(stored)));
            return;
        };
        let store = self.world.ledger.store.clone();
        let mut fields = people::given(stored);
        if let Some(field) = stored.lifecycle.fields.get("objection")
            && field.may_be_given_by(RoleId::HUMAN)
            && stored
                .lifecycle
                .exits(stored.task.state)
                .any(|row| row.changes.keeps.contains(&"objection".to_owned()))
        {
            fields.insert("objection".to_owned(), json!("a person says so"));
        }
        let ask = TransitionRequest {
            actor: Actor::human("kim"),
            to: None,
            trigger: Some(trigger.clone()),
            fields,
            epoch: None,
            version: None,
        };
        let done = store.apply(stored.task.id, Event::Asked(ask), None, self.now());
        let line = match &done {
            Ok(_) => format!("kim: {offer}"),
            Err(error) => format!("kim: {offer} (refused: {error})"),
        };
        self.world.ground.borrow_mut().note(&line);
        let is_of_cell = self.world.plot.borrow().cell.as_ref().is_some_and(|cell| {
            cell.place == place_of(stored) && cell.event == CellEvent::Answer(offer.to_owned())
        });
        if let (Err(error), true) = (done, is_of_cell) {
            self.broken.push(format!("it is offered and refused: {error}"));
        }
    }

    /// When something happens next. Where nothing changes, time passes ever faster, but never past
    /// a timer or the end of a job.
    fn next(&self) -> Option<Instant> {
        let ground = self.world.ground.borrow();
        let now = ground.now;
        let ends = ground.jobs.values().filter(|job| job.is_live()).map(|job| {
            let own = [Some(job.done_at), job.dies_at, job.lands_at];
            let ending = job.ending.as_ref().map(|(at, _)| *at);
            own.into_iter().chain([ending]).flatten().filter(|at| *at > now).min()
        });
        let ends = ends.flatten().min();
        let store = &self.world.ledger.store;
        let node = &self.world.config.agents.node;
        let work = store.next_work(node, now).expect("the times are read");
        let overview = store.overview().expect("the overview is read");
        let pauses = overview.paused_accounts.iter().filter_map(|(_, row)| row.paused_until);
        let sure = [ends, overview.next_timer].into_iter().flatten().chain(pauses).min();
        let sure = sure.map(|at| at.max(now.plus(Span(1_000))));
        let Some(next) = [work, ends].into_iter().flatten().min() else {
            return self.tomorrow(now);
        };
        let next = next.max(now.plus(Span(1_000)));
        if self.still < STILL {
            return Some(next);
        }
        let doubled = Span(STEP.0 << (self.still - STILL).min(20)).min(LONGEST);
        let leap = next.max(now.plus(doubled));
        Some(sure.map_or(leap, |sure| leap.min(sure)))
    }
}

impl Road {
    /// Nothing is planned. What is in the queue may be served on another day.
    fn tomorrow(&self, now: Instant) -> Option<Instant> {
        let is_queued = |stored: &Stored| stored.task.rank(&stored.lifecycle).is_some();
        let waits = self.still < IDLE && self.tasks().iter().any(is_queued);
        waits.then(|| now.plus(DAY))
    }
}

/// Whether a task is in a state, or in one that leads there.
fn comes_near(stored: &Stored, place: &Place) -> bool {
    let lifecycle = &stored.lifecycle;
    let mut exits = lifecycle.exits(stored.task.state);
    lifecycle.id == place.lifecycle
        && (stored.state().name == place.state
            || exits.any(|row| lifecycle.target_name(row.to) == place.state))
}

fn first_offer(open: &Decision) -> Option<String> {
    open.offers.first().map(|(offer, _)| offer.clone())
}

static LIFECYCLES: LazyLock<Vec<Lifecycle>> = LazyLock::new(|| {
    let sources = builtin::SOURCES.iter();
    let checked = sources.map(|(name, source)| check(source, name, &Overrides::new()));
    checked.collect::<Result<_, _>>().expect("they are built in")
});

/// The role of the panel at a place.
fn role_at(place: &Place) -> Option<String> {
    let lifecycle = LIFECYCLES.iter().find(|lifecycle| lifecycle.id == place.lifecycle)?;
    let state = lifecycle.state(lifecycle.find_state(&place.state)?);
    state.does.as_ref()?.role.clone()
}

/// The roles of all lifecycles.
fn all_roles() -> BTreeSet<String> {
    let all = LIFECYCLES.iter().flat_map(|lifecycle| {
        let acting = lifecycle.states.iter().filter_map(|state| state.does.as_ref()?.role.clone());
        acting.chain(lifecycle.roles.iter().cloned())
    });
    all.collect()
}
