//! Everything ends: without help, with workers that always crash, a task comes to rest.

use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::{Outcome, RoleId, Route, StateKind};
use banksman_core::machine::{Actor, Claim, Event, Finish};
use banksman_core::time::Span;
use serde_json::json;

use crate::play::{fire_next, play};
use crate::random::{every_lifecycle, over_histories};
use crate::world::{Violation, World};

/// The number of crashes in one stay after which the failure policy gives up.
const CRASHES: u32 = 3;

/// Steps after which a task without help must rest. The longest path of a built-in lifecycle takes
/// a third of it.
const STEPS: usize = 100;

#[test]
fn a_task_that_is_left_alone_ends_or_waits_for_a_person() {
    for lifecycle in every_lifecycle() {
        over_histories(&lifecycle, |mut world, ops| {
            ops.iter().try_for_each(|op| play(&mut world, op))?;
            leave_alone(&mut world)?;
            let state = world.lifecycle.state(world.task.state);
            let person = world
                .lifecycle
                .exits(world.task.state)
                .any(|row| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN));
            if state.terminal || person {
                return Ok(());
            }
            Err(world.violation(
                "everything ends",
                &format!("it rests in {}, where nobody helps it", state.name),
            ))
        });
    }
}

/// Timers fire and workers crash until nothing happens by itself any more.
fn leave_alone(world: &mut World) -> Result<(), Violation> {
    let mut crashes = (world.task.entered, 0);
    for _ in 0..STEPS {
        if world.task.open_needs > 0 {
            world
                .feed(&Event::NeedsLeft(0))?
                .map_err(|rejected| world.violation("everything ends", &rejected.to_string()))?;
        } else if world.task.lease.is_some() {
            if crashes.0 != world.task.entered {
                crashes = (world.task.entered, 0);
            }
            crashes.1 += 1;
            crash(world, crashes.1)?;
        } else if world.task.rank(&world.lifecycle).is_some() {
            claim(world)?;
        } else if fire_next(world)?.is_none() {
            return Ok(());
        }
    }
    Err(world.violation("everything ends", &format!("it still goes on after {STEPS} steps")))
}

fn claim(world: &mut World) -> Result<(), Violation> {
    let state = world.lifecycle.state(world.task.state);
    let claims =
        world.lifecycle.exits(world.task.state).filter(|row| row.trigger == Trigger::Claim.name());
    let worker = claims.flat_map(|row| &row.roles).find(|role| **role != RoleId::HUMAN);
    let role = match state.kind {
        StateKind::Queued => world
            .lifecycle
            .role_name(*worker.expect("what has a place in the queue can be claimed")),
        StateKind::Working
        | StateKind::Reviewing
        | StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked
        | StateKind::Done
        | StateKind::Failed
        | StateKind::Cancelled => "system",
    };
    let own = world.task.fields.get(Field::Role.name()).and_then(|role| role.as_str());
    let own = own.filter(|own| world.lifecycle.find_role(own).is_some());
    let role = own.filter(|_| state.kind == StateKind::Queued).unwrap_or(role);
    let assignee = world.task.assignees(&world.lifecycle).into_iter().next();
    let name = assignee.unwrap_or_else(|| "cat".to_owned());
    let actor = Actor { role: role.to_owned(), name: Some(name) };
    let reply =
        world.feed(&Event::Claimed(Claim { actor, expires_at: world.now.plus(Span(60_000)) }))?;
    reply.map(|_| ()).map_err(|rejected| {
        world.violation("everything ends", &format!("a worker cannot take it: {rejected}"))
    })
}

fn crash(world: &mut World, times: u32) -> Result<(), Violation> {
    let does = world.lifecycle.state(world.task.state).does.as_ref();
    let route = does.and_then(|does| does.route(Outcome::Crashed));
    let again = matches!(route, Some(Route::Again(_)));
    let outcome = if again && times > CRASHES { Outcome::Exhausted } else { Outcome::Crashed };
    let again_at = again.then(|| world.now.plus(Span(30_000)));
    let detail = "the worker crashed".to_owned();
    let epoch = world.task.epoch;
    let retry_at = Field::RetryAt.name_in(&world.lifecycle);
    let fields = again_at.filter(|_| world.lifecycle.fields.contains_key(retry_at));
    let fields = fields.map(|at| (retry_at.to_owned(), json!(at.to_string())));
    let finish = Finish {
        epoch,
        outcome,
        detail,
        fields: fields.into_iter().collect(),
        tokens: 0,
        cost_micros: 0,
        again_at,
    };
    world.feed(&Event::Finished(finish)).map(|_| ())
}
