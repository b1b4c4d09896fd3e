//! Why a task is where it is: what it waits for, until when, and what would move it on.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Lifecycle, RoleId};
use banksman_core::machine::{Hold, TimerKind, hold};
use banksman_core::time::Instant;

use super::OpsError;
use crate::store::query::Detail;
use crate::store::{Edge, Store};

/// One thing that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub kind: &'static str,
    pub detail: String,
    pub until: Option<Instant>,
    pub who: Option<String>,
}

impl Waiting {
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
pub struct Why {
    pub task: TaskId,
    pub state: String,
    pub waiting_for: Vec<Waiting>,
    /// What happens next, in a sentence.
    pub next: String,
}

pub fn why(store: &Store, id: TaskId) -> Result<Why, OpsError> {
    let detail = store.detail(id)?;
    let (task, lifecycle) = (&detail.stored.task, &detail.stored.lifecycle);
    let state = lifecycle.state(task.state);
    let hold = hold(lifecycle, task, detail.timers.first().map(|timer| timer.due));
    let waiting_for = if hold == Hold::Ended { Vec::new() } else { waiting(&detail, &hold) };
    let next = match &hold {
        Hold::Ended => format!("nothing: {} is an end", state.name),
        Hold::Lease(_) => "its run ends, or its lease does".to_owned(),
        Hold::Needs(_) => "it becomes ready when what it waits for is done".to_owned(),
        Hold::Queue => "the next free worker claims it".to_owned(),
        Hold::Person => format!(
            "a person answers: banksman move {id} {}",
            people_moves(lifecycle, &detail).join("|")
        ),
        Hold::Timer(_) => "nothing until its time has come".to_owned(),
        Hold::Stranded => "nothing: this is a fault, see `banksman check`".to_owned(),
    };
    Ok(Why { task: id, state: state.name.clone(), waiting_for, next })
}

fn waiting(detail: &Detail, hold: &Hold) -> Vec<Waiting> {
    let (task, lifecycle) = (&detail.stored.task, &detail.stored.lifecycle);
    let mut list = Vec::new();
    if let Some(lease) = &task.lease {
        let what = format!("run {} of {}", lease.epoch, lease.worker);
        list.push(Waiting::new("run", what).until(lease.expires_at).who(&lease.worker));
    }
    for need in detail.needs.iter().filter(|need| need.edge == Edge::Blocks && !need.done) {
        let what = format!("{} is {}: {}", need.task, need.state, need.title);
        list.push(Waiting::new("task", what).who(&need.task.to_string()));
    }
    if let Some(at) = task.not_before {
        list.push(Waiting::new("delay", "it is not to start before this time").until(at));
    }
    if let Some(ahead) = detail.ahead {
        let what = match ahead {
            0 => "it is the first in the queue".to_owned(),
            1 => "1 task is before it in the queue".to_owned(),
            more => format!("{more} tasks are before it in the queue"),
        };
        list.push(Waiting::new("queue", what).who("a worker"));
    }
    if let Some(decision) = &detail.decision {
        let actions: Vec<&str> =
            decision.offers.iter().map(|(action, _)| action.as_str()).collect();
        let what = format!("{} ({})", decision.asks, actions.join(", "));
        let waiting = Waiting::new("decision", what).who("human");
        list.push(Waiting { until: decision.deadline, ..waiting });
    } else if *hold == Hold::Person {
        let what =
            format!("a person may move it to {}", people_moves(lifecycle, detail).join(", "));
        list.push(Waiting::new("person", what).who("human"));
    }
    for timer in &detail.timers {
        if let TimerKind::Bound(row) = timer.kind
            && let Some(row) = lifecycle.transitions.get(row as usize)
        {
            let what = format!("{} leads to {}", row.trigger, lifecycle.target_name(row.to));
            list.push(Waiting::new("timer", what).until(timer.due).who("system"));
        }
    }
    list
}

/// The states that people can move it to from here.
fn people_moves(lifecycle: &Lifecycle, detail: &Detail) -> Vec<String> {
    let mut names = Vec::new();
    let task = &detail.stored.task;
    for row in lifecycle
        .exits(task.state)
        .filter(|row| row.bound.is_none() && row.roles.contains(&RoleId::HUMAN))
    {
        let name = lifecycle.target_name(row.to).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
