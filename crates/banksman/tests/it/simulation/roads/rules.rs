//! What must be true of every road. Each rule is one function and says in words what it has found.

use std::collections::{BTreeMap, BTreeSet};

use banksman::store::Stored;
use banksman_core::failure::{Deliverable, FailureClass, RetryPolicy};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::{Field, Purpose, Trigger};
use banksman_core::lifecycle::{Activity, StateKind};
use banksman_core::machine::Record;

use super::cell::{Ending, Event, Times};
use super::drive::{Leg, Road};
use super::plot::{Step, class_of};

/// Everything that is wrong with a road that was gone to its end.
pub(super) fn broken(road: &mut Road, cell: &Step) -> Vec<String> {
    let mut found = std::mem::take(&mut road.broken);
    let tasks = road.tasks();
    if found.is_empty() {
        found.extend(happens(road, cell));
        for task in &tasks {
            found.extend(ends_well(road, task, &tasks));
            found.extend(is_merged(road, task));
            found.extend(within_the_table(road, task));
        }
        found.extend(paid_once(road, &tasks));
        found.extend(is_sound(road));
        found.extend(road.repeat());
    }
    found
}

/// The cell is no cell if its event never comes about.
fn happens(road: &Road, cell: &Step) -> Option<String> {
    let plot = road.world.plot.borrow();
    if !plot.is_reached {
        return Some("the way does not lead there any more".to_owned());
    }
    let asks_nobody = matches!(cell.event, Event::Panel(..) | Event::NoReviewer)
        && !road.tasks().iter().any(Stored::is_review);
    (plot.applied == 0 && !asks_nobody).then(|| {
        let event = &cell.event;
        format!("`{event}` does not come about")
    })
}

/// The store finds nothing wrong.
fn is_sound(road: &Road) -> Vec<String> {
    let report = road.world.ledger.store.check().expect("the check runs");
    let found = report.findings.iter().map(|found| format!("{}: {}", found.task, found.what));
    found.chain(report.faults.iter().cloned()).collect()
}

fn kind(stored: &Stored) -> StateKind {
    stored.state().kind
}

fn is_over(stored: &Stored) -> bool {
    stored.state().terminal
}

/// An end has a reason that a person or a deadline gave, and whatever has not ended waits for a
/// person who said so.
fn ends_well(road: &Road, task: &Stored, tasks: &[Stored]) -> Option<String> {
    let (id, state) = (task.task.id, &task.state().name);
    let own = matches!(task.lifecycle.purpose, Purpose::Review | Purpose::Budget);
    let history = road.world.ledger.store.history(id, 0).expect("the history is read");
    let entered = history.iter().rev().find(|entry| entry.seq == task.task.entered);
    let entered = entered.map(|entry| &entry.record);
    // A merge that a person cancelled is stopped first.
    let cancelled = |record: &Record| {
        let leads_here = entered.is_some_and(|entered| entered.from.as_ref() == Some(&record.to));
        leads_here && record.trigger == Trigger::Cancel.name() && !record.actor.is_system()
    };
    let was_cancelled = history.iter().any(|entry| cancelled(&entry.record));
    let by_person = was_cancelled || entered.is_some_and(|record| !record.actor.is_system());
    let timeouts = |from: &str| -> BTreeSet<String> {
        let Some(from) = task.lifecycle.find_state(from) else { return BTreeSet::new() };
        let rows = task.lifecycle.exits(from).filter(|row| row.timeout.is_some());
        rows.map(|row| row.trigger.clone()).collect()
    };
    let by_deadline = entered.is_some_and(|record| {
        record.from.as_deref().is_some_and(|from| timeouts(from).contains(&record.trigger))
    });
    let by_parent = task
        .task
        .parent
        .is_some_and(|parent| tasks.iter().any(|other| other.task.id == parent && is_over(other)));
    match kind(task) {
        StateKind::Done if is_over(task) => None,
        StateKind::Done => (!by_parent && !has_question(road, task, tasks))
            .then(|| format!("{id} stays in {state} for ever")),
        StateKind::Cancelled | StateKind::Failed if is_over(task) || by_parent => {
            let is_closed = entered.is_some_and(|record| record.trigger == "close");
            let is_named = by_person || by_deadline || by_parent || own || is_closed;
            (!is_named).then(|| {
                let trigger = entered.map(|record| record.trigger.clone()).unwrap_or_default();
                format!("{id} ends in {state}: nobody but `{trigger}` gave a reason")
            })
        }
        StateKind::Parked if by_person => None,
        StateKind::Queued if lacks_workers(road) => {
            Some(format!("{id} stays in {state}, where no worker comes, and nobody is asked"))
        }
        StateKind::Queued
        | StateKind::Working
        | StateKind::Reviewing
        | StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked
        | StateKind::Cancelled
        | StateKind::Failed => (!has_question(road, task, tasks) && !goes_on(road, task))
            .then(|| format!("{id} stays in {state} for ever")),
    }
}

/// People who give the same answer again and again keep a road going beyond its last day.
fn goes_on(road: &Road, task: &Stored) -> bool {
    let timers = road.world.ledger.store.timers_of(task.task.id).expect("the timers are read");
    matches!(road.leg, Leg::Answers(_)) && !timers.is_empty()
}

fn lacks_workers(road: &Road) -> bool {
    road.event() == Some(Event::NoWorker)
}

/// Whether a person is asked about the task, or about a parent of it, until a deadline.
fn has_question(road: &Road, task: &Stored, tasks: &[Stored]) -> bool {
    let open = road.world.ledger.store.inbox().expect("the inbox is read");
    let mut at = Some(task.task.id);
    while let Some(id) = at {
        if open.iter().any(|open| open.task == id && open.deadline.is_some()) {
            return true;
        }
        at = tasks.iter().find(|task| task.task.id == id).and_then(|task| task.task.parent);
    }
    false
}

/// Whether the lifecycle merges the work of its tasks.
fn merges(task: &Stored) -> bool {
    task.lifecycle.does(Activity::Merge)
}

/// Done work is on the base.
fn is_merged(road: &Road, task: &Stored) -> Option<String> {
    let is_done = kind(task) == StateKind::Done && is_over(task);
    let is_own = task.lifecycle.purpose != Purpose::Workflow && !task.flag(Field::Split);
    let forge = &road.world.ground.borrow().forge;
    let is_in = forge.is_in(task.task.id);
    (is_done && is_own && merges(task) && !is_in)
        .then(|| format!("{} is done, and its work is not in its base", task.task.id))
}

/// No class fails more often between two words of a person than the table allows.
fn within_the_table(road: &Road, task: &Stored) -> Vec<String> {
    let policy = RetryPolicy::default();
    let runs = road.world.ledger.store.past_runs(task.task.id, 1_000).expect("the runs are read");
    let mut counts: BTreeMap<FailureClass, u32> = BTreeMap::new();
    for class in runs.iter().filter_map(|run| run.class) {
        *counts.entry(class).or_default() += 1;
    }
    let answers = words_of_people(road, task.task.id);
    // A review has a limit of its own, which is that of its panel.
    let is_review = task.lifecycle.purpose == Purpose::Review;
    let too_many = counts.into_iter().filter(|(class, count)| {
        let most = policy.rules[class].retries + 1;
        let most = if is_review { most.max(3) } else { most };
        *count > most * (answers + 1)
    });
    let id = task.task.id;
    too_many.map(|(class, count)| format!("{id} has paid for {class} {count} times")).collect()
}

fn words_of_people(road: &Road, id: TaskId) -> u32 {
    let history = road.world.ledger.store.history(id, 0).expect("the history is read");
    let words = history.iter().skip(1).filter(|entry| !entry.record.actor.is_system());
    let words = words.filter(|entry| entry.record.trigger != "claim").count();
    u32::try_from(words).unwrap_or(u32::MAX)
}

/// A run that succeeded is paid again only if its work was sent back, or a person said so.
fn paid_once(road: &Road, tasks: &[Stored]) -> Vec<String> {
    let plot = road.world.plot.borrow();
    let mut successes: BTreeMap<(TaskId, String), u32> = BTreeMap::new();
    for paid in plot.paid.iter().filter(|paid| paid.is_after && paid.succeeds) {
        let is_review = tasks.iter().any(|task| task.task.id == paid.task && task.is_review());
        if !is_review {
            *successes.entry((paid.task, paid.place.state.clone())).or_default() += 1;
        }
    }
    let found = successes.into_iter().filter_map(|((task, state), count)| {
        let back = u32::try_from(plot.sent_back.len()).unwrap_or(u32::MAX);
        let most = 1 + back + words_of_people(road, task);
        (count > most).then(|| format!("{task} has paid for {state} {count} times, {most} are due"))
    });
    found.collect()
}

/// What the store says of the run of the cell, if it is about one class.
pub(super) fn is_recorded(road: &Road, cell: &Step) -> Option<String> {
    let Event::Run(ending, times) = &cell.event else { return None };
    let class = class_of(*ending)?;
    let tasks = road.tasks();
    let of_cell = tasks.iter().filter(|task| task.lifecycle.id == cell.place.lifecycle);
    let mut runs = of_cell.flat_map(|task| {
        road.world.ledger.store.past_runs(task.task.id, 1_000).expect("the runs are read")
    });
    // A step may end without a commit, and what it says then is the truth.
    let may_be_true = *ending == Ending::Lies && of_cell_is_step(cell);
    let is_there = may_be_true || runs.any(|run| run.class == Some(class));
    let is_sure = *times == Times::Always || *ending != Ending::Unreadable;
    (!is_there && is_sure).then(|| format!("no run is recorded as {class}"))
}

fn of_cell_is_step(cell: &Step) -> bool {
    let lifecycle = builtin::get(&cell.place.lifecycle, &Overrides::new());
    let lifecycle = lifecycle.expect("it is built in").expect("it is sound");
    let state = lifecycle.state(lifecycle.find_state(&cell.place.state).expect("its state"));
    let does = state.does.as_ref();
    does.is_some_and(|does| does.produces == Deliverable::Anything)
}

/// Where the road ends, in words: the first question and what silence makes of it, or the end.
pub(super) fn end(road: &Road) -> String {
    let tasks = road.tasks();
    let root = tasks.iter().find(|task| task.task.id == road.world.root).expect("the root");
    let is_in = road.world.ground.borrow().forge.is_in(root.task.id);
    let is_split = root.flag(Field::Split);
    let merged = match kind(root) {
        StateKind::Done if merges(root) && is_in && !is_split => ", merged",
        _ => "",
    };
    let end = format!("`{}`{merged}", root.state().name);
    match (&road.first, road.leg) {
        (Some(question), Leg::Silence) => {
            let place = &question.place;
            let patience = question.patience.map(|span| span.to_string()).unwrap_or_default();
            format!("asks in `{}` for {patience}; silence: {end}", place.state)
        }
        (Some(_), Leg::Answers(_)) | (None, _) => end,
    }
}
