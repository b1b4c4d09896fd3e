//! Random events: what can happen to a task, drawn from the names of its lifecycle.
//!
//! An op is worded so that it means something in every state ("the third way out", "the current
//! epoch"), so that a counterexample survives shrinking. It never looks at the machine's result,
//! with one exception: an actor that is told that a field is missing may try again with it.

use std::fmt;
use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::{Activity, Lifecycle, Outcome, RoleId, StateId};
use banksman_core::machine::{
    ActivityReport, Actor, Claim, Event, FactOverride, Finish, Heartbeat, ImportedState, NewTask,
    RejectReason, TimerKind, TransitionRequest, Uncounted, create, import,
};
use banksman_core::time::{Instant, Span};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Map;

use crate::giving::{Give, give, given, supply};
use crate::world::{START, Violation, World};

const PEOPLE: [&str; 3] = ["ann", "bob", "cat"];
const LEASE: Span = Span(900_000);
/// How often an actor tries again with what was missing.
const TRIES: u8 = 4;

/// Which epoch an event carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Epoch {
    None,
    Current,
    /// The last one that was assigned, live or not.
    Last,
    Earlier,
    Future,
}

#[derive(Clone)]
pub(crate) enum Op {
    /// One of the ways out of the state, by an actor that may take it.
    Way {
        nth: u8,
        by: u8,
        give: Give,
    },
    /// Anything by anybody.
    Wild {
        role: String,
        to: Option<String>,
        trigger: Option<String>,
        give: Give,
        epoch: Epoch,
        old_version: bool,
    },
    Claim {
        role: String,
    },
    Beat {
        epoch: Epoch,
        progressed: bool,
    },
    /// An outcome of the state's activity.
    End {
        epoch: Epoch,
        nth: u8,
        give: Give,
        again: bool,
    },
    /// The state's activity ends without a run.
    Report {
        late: bool,
        nth: u8,
        give: Give,
    },
    /// Any outcome at all.
    EndOddly {
        epoch: Epoch,
        outcome: Outcome,
        give: Give,
    },
    Fire {
        nth: u8,
        early: bool,
    },
    FireDead {
        nth: u8,
    },
    Needs(i64),
    /// The machine sleeps.
    Sleep(Span),
    Hasten {
        role: String,
    },
    Override {
        role: String,
        give: Give,
    },
    Pass(Span),
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no epoch",
            Self::Current => "current epoch",
            Self::Last => "last epoch",
            Self::Earlier => "earlier epoch",
            Self::Future => "future epoch",
        })
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Way { nth, by, give } => write!(f, "way #{nth} by #{by}, giving {give:?}"),
            Self::Wild { role, to, trigger, give, epoch, old_version } => {
                let (to, trigger) =
                    (to.as_deref().unwrap_or("?"), trigger.as_deref().unwrap_or("?"));
                write!(
                    f,
                    "{role} asks for {to} by {trigger}, giving {give:?}, {epoch:?}, old version: {old_version}"
                )
            }
            Self::Claim { role } => write!(f, "{role} claims"),
            Self::Beat { epoch, progressed } => {
                write!(f, "{epoch:?} beats, progressed: {progressed}")
            }
            Self::End { epoch, nth, give, again } => {
                write!(f, "{epoch:?} ends with outcome #{nth}, giving {give:?}, again: {again}")
            }
            Self::Report { late, nth, give } => {
                write!(f, "outcome #{nth} is reported, late: {late}, giving {give:?}")
            }
            Self::EndOddly { epoch, outcome, give } => {
                write!(f, "{epoch:?} ends with {outcome}, giving {give:?}")
            }
            Self::Fire { nth, early } => write!(f, "timer #{nth} fires, early: {early}"),
            Self::FireDead { nth } => write!(f, "dead timer #{nth} fires"),
            Self::Needs(open) => write!(f, "{open} needs are left"),
            Self::Sleep(span) => write!(f, "the machine sleeps for {span}"),
            Self::Hasten { role } => write!(f, "{role} does not want to wait"),
            Self::Override { role, give } => write!(f, "{role} overrides {give:?}"),
            Self::Pass(span) => write!(f, "{span} pass"),
        }
    }
}

/// Where a history begins: a new task, or one that is imported in the middle of its life.
#[derive(Clone)]
pub(crate) struct Start {
    state: StateId,
    name: String,
    pick: u8,
    has: Give,
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "beginning in {} #{} with {:?}", self.name, self.pick, self.has)
    }
}

pub(crate) fn start(lifecycle: &Lifecycle) -> impl Strategy<Value = Start> + use<> {
    let initial = lifecycle.initial;
    // A task cannot be imported into a state that remembers another, and little happens in one that
    // has ended.
    let open = (0_u16..)
        .map(StateId)
        .zip(&lifecycle.states)
        .filter(|(_, state)| !state.remembers && !state.terminal);
    let states: Vec<(StateId, String)> = open.map(|(id, state)| (id, state.name.clone())).collect();
    let first: Vec<_> = states.iter().find(|(id, _)| *id == initial).cloned().into_iter().collect();
    let state = prop_oneof![1 => select(first), 2 => select(states)];
    // A new task has what its creator may give; an imported one may have anything.
    let fields: Vec<String> = lifecycle.fields.keys().cloned().collect();
    let has = vec((select(fields), 0..8_u8), 0..12).prop_map(Give::Fields);
    (state, any::<u8>(), has).prop_map(|((state, name), pick, has)| Start {
        state,
        name,
        pick,
        has,
    })
}

impl Start {
    pub(crate) fn world(&self, lifecycle: &Arc<Lifecycle>) -> World {
        let parent = self.pick.is_multiple_of(2).then_some(TaskId(7));
        let mut new = NewTask { title: "try everything".to_owned(), parent, ..NewTask::default() };
        let arrives = self.state != lifecycle.initial;
        new.fields = given(lifecycle, &self.has);
        let hers = |name: &String| {
            let field = lifecycle.fields.get(name);
            field.is_none_or(|field| field.may_be_given_by(RoleId::HUMAN))
        };
        // The system creates what a person cannot.
        let required = &lifecycle.state(lifecycle.initial).requires;
        let is_hers = required.iter().all(|requirement| hers(&requirement.field));
        let maker = if is_hers { Actor::human("ann") } else { Actor::system() };
        new.fields.retain(|name, _| arrives || !is_hers || hers(name));
        new.open_needs = i64::from(self.pick.is_multiple_of(4));
        let mut attempts = (0..=u8::MAX).map(|attempt| self.pick.wrapping_add(attempt));
        loop {
            let born = if arrives {
                let arrival = ImportedState { state: self.state, prior: None };
                import(lifecycle, &new, arrival, &maker, TaskId(1), START)
            } else {
                create(lifecycle, &new, &maker, TaskId(1), START)
            };
            match (born, attempts.next()) {
                (Ok(step), _) => return World::of_step(lifecycle.clone(), step),
                (Err(rejected), Some(pick)) => supply(lifecycle, &rejected, pick, &mut new.fields),
                (Err(rejected), None) => panic!("nothing satisfies {}: {rejected}", self.name),
            }
        }
    }
}

/// Sequences of events on a lifecycle.
pub(crate) fn ops(lifecycle: &Lifecycle, most: usize) -> impl Strategy<Value = Vec<Op>> + use<> {
    let mut roles: Vec<String> = lifecycle.roles.clone();
    let workers: Vec<String> = roles.iter().skip(1).cloned().collect();
    roles.push("nobody".to_owned());
    let states =
        names(lifecycle.states.iter().map(|state| state.name.as_str()), &["[prior]", "nowhere"]);
    let triggers =
        names(lifecycle.transitions.iter().map(|row| row.trigger.as_str()), &["whatever"]);
    let give = give(lifecycle);
    let wild = (
        select(roles.clone()),
        option::of(select(states)),
        option::of(select(triggers)),
        give.clone(),
        epoch(),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(role, to, trigger, give, epoch, old_version)| Op::Wild {
            role,
            to,
            trigger,
            give,
            epoch,
            old_version,
        });
    let every_outcome = select(outcomes());
    let end = (epoch(), 0..16_u8, give.clone(), any::<bool>())
        .prop_map(|(epoch, nth, give, again)| Op::End { epoch, nth, give, again });
    let report = (prop::bool::weighted(0.1), 0..16_u8, give.clone())
        .prop_map(|(late, nth, give)| Op::Report { late, nth, give });
    let facts = Field::facts().map(|fact| fact.name_in(lifecycle).to_owned());
    let facts: Vec<String> =
        facts.into_iter().filter(|fact| lifecycle.fields.contains_key(fact)).collect();
    let give_facts = (0..10_u8, any::<prop::sample::Index>(), give.clone()).prop_map(
        move |(pick, which, give)| match facts.len() {
            0 => give,
            more => Give::Fields(vec![(facts[which.index(more)].clone(), pick)]),
        },
    );
    let overrides =
        (select(roles.clone()), give_facts).prop_map(|(role, give)| Op::Override { role, give });
    let op = prop_oneof![
        10 => (0..32_u8, 0..8_u8, give.clone()).prop_map(|(nth, by, give)| Op::Way { nth, by, give }),
        2 => wild,
        5 => select(workers).prop_map(|role| Op::Claim { role }),
        1 => select(roles.clone()).prop_map(|role| Op::Claim { role }),
        1 => select(roles.clone()).prop_map(|role| Op::Hasten { role }),
        1 => overrides,
        2 => (epoch(), any::<bool>()).prop_map(|(epoch, progressed)| Op::Beat { epoch, progressed }),
                6 => end,
        4 => report,
        1 => (epoch(), every_outcome, give).prop_map(|(epoch, outcome, give)| Op::EndOddly { epoch, outcome, give }),
        4 => (0..4_u8, prop::bool::weighted(0.2)).prop_map(|(nth, early)| Op::Fire { nth, early }),
        1 => (0..16_u8).prop_map(|nth| Op::FireDead { nth }),
        1 => (-1..3_i64).prop_map(Op::Needs),
        1 => select(vec![Span(60_000), Span(86_400_000)]).prop_map(Op::Sleep),
        1 => select(vec![Span(1_000), Span(60_000), Span(3_600_000), Span(86_400_000), Span(604_800_000)]).prop_map(Op::Pass),
    ];
    vec(op, 0..most)
}

fn names<'a>(known: impl Iterator<Item = &'a str>, more: &[&'a str]) -> Vec<String> {
    let mut names: Vec<String> = known.chain(more.iter().copied()).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn epoch() -> impl Strategy<Value = Epoch> + Clone {
    prop_oneof![6 => Just(Epoch::Current), 2 => Just(Epoch::None), 1 => Just(Epoch::Last), 1 => Just(Epoch::Earlier), 1 => Just(Epoch::Future)]
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    let activities = [
        Activity::Agent,
        Activity::Panel,
        Activity::Human,
        Activity::Check,
        Activity::PullRequest,
        Activity::Merge,
        Activity::Capture,
        Activity::Wait,
    ];
    activities
        .iter()
        .flat_map(|activity| activity.outcomes())
        .copied()
        .chain([Outcome::Exhausted, Outcome::NotMerged])
        .collect()
}

/// Applies an op to a world.
pub(crate) fn play(world: &mut World, op: &Op) -> Result<(), Violation> {
    match op {
        Op::Way { nth, by, give } => way(world, *nth, *by, give),
        Op::Wild { role, to, trigger, give, epoch, old_version } => {
            let actor = actor(role, give);
            let version = old_version.then_some(world.task.version - 1);
            let ask = TransitionRequest {
                actor,
                to: to.clone(),
                trigger: trigger.clone(),
                fields: Map::new(),
                epoch: carried(world, *epoch),
                version,
            };
            asking(world, ask, give)
        }
        Op::Claim { role } => {
            let claim = Claim { actor: named(role, 0), expires_at: world.now.plus(LEASE) };
            feed(world, &Event::Claimed(claim))
        }
        Op::Beat { epoch, progressed } => {
            let heartbeat = Heartbeat {
                epoch: carried(world, *epoch).unwrap_or(0),
                expires_at: world.now.plus(LEASE),
                progressed: *progressed,
            };
            feed(world, &Event::Heartbeat(heartbeat))
        }
        Op::End { epoch, nth, give, again } => {
            let again_at = again.then(|| world.now.plus(Span(60_000)));
            end(world, *epoch, outcome_here(world, *nth), give, again_at)
        }
        Op::Report { late, nth, give } => {
            let entered = world.task.entered - i64::from(*late);
            let (outcome, fields) = (outcome_here(world, *nth), given(&world.lifecycle, give));
            let (detail, tokens, cost_micros) = ("it said so".to_owned(), i64::from(*nth), -1);
            let report = ActivityReport { entered, outcome, detail, fields, tokens, cost_micros };
            feed(world, &Event::Reported(report))
        }
        Op::EndOddly { epoch, outcome, give } => end(world, *epoch, *outcome, give, None),
        Op::Fire { nth, early } => fire(world, *nth, *early),
        Op::FireDead { nth } => {
            let Some(dead) = nth_of(&world.gone, *nth).copied() else { return Ok(()) };
            feed(world, &Event::Due { timer: dead.kind, entered: dead.entered })
        }
        Op::Needs(open) => feed(world, &Event::NeedsLeft(*open)),
        Op::Sleep(span) => {
            world.now = world.now.plus(*span);
            let since = Instant(world.now.0 - span.0 + 1);
            feed(world, &Event::Uncounted(Uncounted { span: *span, since }))
        }
        Op::Hasten { role } => feed(world, &Event::DelaySkipped(named(role, 0))),
        Op::Override { role, give } => {
            let (actor, fields) = (named(role, 0), given(&world.lifecycle, give));
            let reason = "it was seen".to_owned();
            feed(world, &Event::Overridden(FactOverride { actor, fields, reason }))
        }
        Op::Pass(span) => {
            world.pass(*span);
            Ok(())
        }
    }
}

fn feed(world: &mut World, event: &Event) -> Result<(), Violation> {
    world.feed(event).map(|_| ())
}

fn nth_of<T>(list: &[T], nth: u8) -> Option<&T> {
    list.get(usize::from(nth) % list.len().max(1))
}

fn named(role: &str, pick: u8) -> Actor {
    let name = nth_of(&PEOPLE, pick).map(|name| (*name).to_owned());
    Actor { role: role.to_owned(), name: name.filter(|_| role != "system") }
}

fn actor(role: &str, give: &Give) -> Actor {
    let pick = match give {
        Give::Needed(pick) => *pick,
        Give::Nothing | Give::Fields(_) | Give::WrongType(_) | Give::Unknown => 0,
    };
    named(role, pick)
}

fn way(world: &mut World, nth: u8, by: u8, give: &Give) -> Result<(), Violation> {
    let lifecycle = world.lifecycle.clone();
    let rows: Vec<_> = lifecycle.exits(world.task.state).collect();
    let Some(row) = nth_of(&rows, nth) else { return Ok(()) };
    let Some(role) = nth_of(&row.roles, by) else { return Ok(()) };
    let actor = actor(lifecycle.role_name(*role), give);
    let to = Some(lifecycle.target_name(row.to).to_owned());
    let ask = TransitionRequest {
        actor,
        to,
        trigger: Some(row.trigger.clone()),
        fields: Map::new(),
        epoch: None,
        version: None,
    };
    asking(world, ask, give)
}

fn asking(world: &mut World, mut ask: TransitionRequest, give: &Give) -> Result<(), Violation> {
    ask.fields = given(&world.lifecycle, give);
    for attempt in 1..=TRIES {
        let reply = world.feed(&Event::Asked(ask.clone()))?;
        let (Err(rejected), Give::Needed(pick)) = (reply, give) else { return Ok(()) };
        if rejected.why != RejectReason::Invalid {
            return Ok(());
        }
        supply(&world.lifecycle, &rejected, pick.wrapping_add(attempt), &mut ask.fields);
    }
    Ok(())
}

fn end(
    world: &mut World,
    epoch: Epoch,
    outcome: Outcome,
    give: &Give,
    again_at: Option<Instant>,
) -> Result<(), Violation> {
    let finish = Finish {
        epoch: carried(world, epoch).unwrap_or(0),
        outcome,
        detail: if again_at.is_some() { "it broke".to_owned() } else { String::new() },
        fields: given(&world.lifecycle, give),
        tokens: 1_200,
        cost_micros: 42,
        again_at,
    };
    feed(world, &Event::Finished(finish))
}

fn fire(world: &mut World, nth: u8, early: bool) -> Result<(), Violation> {
    let Some(armed) = nth_of(&world.armed, nth).copied() else { return Ok(()) };
    if early && armed.due > world.now {
        let halfway = armed.due.since(world.now).0 / 2;
        world.pass(Span(halfway));
    } else {
        world.now = world.now.max(armed.due);
    }
    feed(world, &Event::Due { timer: armed.kind, entered: armed.entered })
}

fn carried(world: &World, epoch: Epoch) -> Option<i64> {
    match epoch {
        Epoch::None => None,
        Epoch::Current => world.task.lease.as_ref().map(|lease| lease.epoch),
        Epoch::Last => Some(world.task.epoch),
        Epoch::Earlier => Some(world.task.epoch - 1),
        Epoch::Future => Some(world.task.epoch + 1),
    }
}

fn outcome_here(world: &World, nth: u8) -> Outcome {
    let does = world.lifecycle.state(world.task.state).does.as_ref();
    let here = does.map_or(&[][..], |does| does.activity.outcomes());
    let looks = does.filter(|does| does.only_checks()).map(|_| Outcome::NotMerged);
    let here: Vec<Outcome> =
        here.iter().copied().chain([Outcome::Exhausted]).chain(looks).collect();
    nth_of(&here, nth).copied().unwrap_or(Outcome::Exhausted)
}

/// Fires the earliest timer at its time.
pub(crate) fn fire_next(world: &mut World) -> Result<Option<TimerKind>, Violation> {
    let Some(next) = world.armed.iter().min_by_key(|armed| armed.due).copied() else {
        return Ok(None);
    };
    world.now = world.now.max(next.due);
    feed(world, &Event::Due { timer: next.kind, entered: next.entered })?;
    Ok(Some(next.kind))
}
