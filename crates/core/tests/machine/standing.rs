//! Laws for a task and everything that is stored about it, whatever happened.

use banksman_core::lifecycle::{Since, StateKind};
use banksman_core::machine::{
    Dated, Folded, Task, TimerKind, WaitsFor, check, fold, rewind, wait_due, waits_for,
};

use serde_json::json;

use crate::laws::{Verdict, due, ensure};
use crate::walk::task_of;
use crate::world::{World, asks_people};

pub(crate) type Standing = fn(&World) -> Verdict;

pub(crate) const LAWS: [(&str, Standing); 9] = [
    ("the task keeps its invariants", invariants),
    ("nothing is stranded", not_stranded),
    ("the history folds to the task", folds),
    ("the history rewinds to what the task was", rewinds),
    ("every bound has exactly one timer", bounds_have_timers),
    ("every timer belongs to the state", timers_belong),
    ("a decision is open exactly while people are asked", decision_is_open),
    ("who waits for it knows whether it is done", done_is_known),
    ("two leases never share an epoch", epochs_are_unique),
];

fn invariants(world: &World) -> Verdict {
    check(&world.lifecycle, &world.task).map_err(|broken| broken.to_string())
}

fn not_stranded(world: &World) -> Verdict {
    let (lifecycle, task) = (&world.lifecycle, &world.task);
    let next = world.armed.iter().map(|armed| armed.due).min();
    let hold = waits_for(lifecycle, task, next);
    let terminal = lifecycle.state(task.state).terminal;
    let sound = match hold {
        WaitsFor::Ended => terminal,
        WaitsFor::Subtasks => !terminal && !task.is_active(lifecycle),
        WaitsFor::Lease(until) => {
            task.lease.as_ref().is_some_and(|lease| lease.expires_at == until)
        }
        WaitsFor::Needs(open) => open > 0 && task.lease.is_none(),
        WaitsFor::Queue => task.rank(lifecycle).is_some(),
        WaitsFor::Person => lifecycle
            .exits(task.state)
            .any(|row| row.roles.iter().any(|role| lifecycle.role_name(*role) == "human")),
        WaitsFor::Parent(parent) => {
            task.parent == Some(parent) && lifecycle.state(task.state).provisional
        }
        WaitsFor::Timer(due) => [next, wait_due(lifecycle, task)].contains(&Some(due)),
        WaitsFor::Stranded => false,
    };
    ensure(sound, || format!("it is held by {hold:?}"))?;
    let leased = matches!(hold, WaitsFor::Lease(_)) == task.lease.is_some();
    let queued = (hold == WaitsFor::Queue) == task.rank(lifecycle).is_some();
    ensure(leased && queued, || format!("with {:?} it is held by {hold:?}", task.lease))?;
    ensure(!terminal || hold == WaitsFor::Ended, || format!("it has ended and is held by {hold:?}"))
}

fn folds(world: &World) -> Verdict {
    let folded = fold((1..).zip(&world.history)).map_err(|error| error.to_string())?;
    let wanted = Folded::of(&world.lifecycle, &world.task);
    ensure(folded == wanted, || format!("it folds to {folded:?}, but is {wanted:?}"))
}

/// Checks the whole history and its first half; the steps before this one checked the rest.
fn rewinds(world: &World) -> Verdict {
    let dated: Vec<Dated<'_>> = world
        .history
        .iter()
        .zip(&world.past)
        .map(|(record, task)| (task.version, task.updated_at, record))
        .collect();
    for most in [dated.len(), dated.len().div_ceil(2)] {
        let rewound = rewind(&world.lifecycle, &world.task, &dated[..most])
            .map_err(|error| error.to_string())?;
        let was = &world.past[most - 1];
        let (rewound, wanted) = (in_the_history(&rewound, world), in_the_history(was, world));
        ensure(rewound == wanted, || {
            format!("at version {most} it was {wanted:?}, not {rewound:?}")
        })?;
    }
    Ok(())
}

/// A task without what leaves no record: how long a lease runs, what it still waits for, what
/// does not count, and what is no progress.
fn in_the_history(task: &Task, world: &World) -> Task {
    let (open_needs, uncounted) = (world.task.open_needs, world.task.uncounted);
    let progress_at = world.now;
    let mut task = Task { not_before: None, open_needs, uncounted, progress_at, ..task.clone() };
    if let Some(lease) = &mut task.lease {
        lease.expires_at = world.now;
    }
    task
}

/// If children do the work, their own timeouts count.
fn is_left_to_children(world: &World) -> bool {
    let kind = world.lifecycle.state(world.task.state).kind;
    let rests = matches!(kind, StateKind::Blocked | StateKind::Parked | StateKind::Failed);
    let is_split = world.task.fields.get("split") == Some(&json!(true));
    is_split && !rests && !world.task.is_active(&world.lifecycle)
}

fn bounds_have_timers(world: &World) -> Verdict {
    for (index, row) in world
        .lifecycle
        .transitions
        .iter()
        .enumerate()
        .filter(|(_, row)| row.from == world.task.state)
    {
        let Some(bound) = row.timeout else { continue };
        if is_left_to_children(world) {
            continue;
        }
        // Nobody works on a queued task, so a timeout on progress does not count there.
        if bound.since == Since::Progress && world.task.is_claimable(&world.lifecycle) {
            continue;
        }
        let kind = TimerKind::Timeout(u32::try_from(index).expect("a lifecycle has few rows"));
        let armed: Vec<_> = world.armed.iter().filter(|armed| armed.kind == kind).collect();
        ensure(armed.len() == 1, || {
            format!("the bound `{}` has {} timers", row.trigger, armed.len())
        })?;
        // A heartbeat postpones the time without touching the timer, which then answers with the
        // later time.
        let due = due(&world.task, bound);
        ensure(armed[0].due <= due, || {
            format!("the bound `{}` would fire late: at {}, not {due}", row.trigger, armed[0].due)
        })?;
    }
    let ready: Vec<_> = world
        .armed
        .iter()
        .filter(|armed| armed.kind == TimerKind::Ready)
        .map(|armed| armed.due)
        .collect();
    let wanted: Vec<_> = world.task.not_before.into_iter().collect();
    ensure(ready == wanted, || {
        format!("it is not to be claimed before {wanted:?}, its timers say {ready:?}")
    })
}

fn timers_belong(world: &World) -> Verdict {
    let state = world.lifecycle.state(world.task.state);
    for armed in &world.armed {
        let belongs = match armed.kind {
            TimerKind::Timeout(row) => world
                .lifecycle
                .transitions
                .get(row as usize)
                .is_some_and(|row| row.from == world.task.state && row.timeout.is_some()),
            TimerKind::Remind(number) => {
                state.remind.as_ref().is_some_and(|remind| (number as usize) < remind.after.len())
            }
            TimerKind::Ready => true,
        };
        ensure(belongs && armed.entered == world.task.entered, || {
            format!("{armed:?} does not belong to {}", state.name)
        })?;
    }
    ensure(!state.terminal || world.armed.is_empty(), || {
        format!("it has ended with timers: {:?}", world.armed)
    })
}

fn decision_is_open(world: &World) -> Verdict {
    let active = world.task.is_active(&world.lifecycle);
    let asked = active && asks_people(&world.lifecycle, world.task.state);
    ensure(asked == world.decision.is_some(), || {
        format!("people are asked: {asked}, the decision: {:?}", world.decision)
    })
}

fn done_is_known(world: &World) -> Verdict {
    let state = world.lifecycle.state(world.task.state);
    ensure(world.relied_on == (state.kind == StateKind::Done), || {
        format!("it is in {}, relied on: {}", state.name, world.relied_on)
    })
}

fn epochs_are_unique(world: &World) -> Verdict {
    let rising = world.epochs.windows(2).all(|pair| pair[0] < pair[1]);
    ensure(rising, || format!("the epochs given out were {:?}", world.epochs))
}

/// A history with a value that cannot be is an error, and nothing is made up in its place.
#[test]
fn a_damaged_history_does_not_rewind() {
    let world = task_of("supervised", json!({}));
    let born = &world.history[0];
    for (name, value) in [
        ("epoch", json!("two")),
        ("retries", json!(-1)),
        ("spent", json!({ "runCount": 1 })),
        ("prior", json!("nowhere")),
        ("lease", json!(7)),
    ] {
        let mut record = born.clone();
        record.fields.insert(name.to_owned(), value.clone());
        let rewound = rewind(&world.lifecycle, &world.task, &[(1, world.now, &record)]);
        let error = rewound.expect_err(name).to_string();
        assert_eq!(error, format!("its history ends with {value} as its {name}"));
    }
}
