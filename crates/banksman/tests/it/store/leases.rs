//! Epochs: who has lost the lease changes nothing any more. And where the end of a run leads.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Event, Finish, Heartbeat, RejectReason, Spent, Task};
use banksman_core::time::Span;

use super::acts::{
    HOUR, MINUTE, NOON, TTL, add, apply, ask, ask_under, at_once, claim, claim_first, fields,
    finish, heartbeat, refused_because, state,
};
use super::on_both;
use super::world::World;

on_both!(
    a_stale_epoch_changes_nothing,
    epochs_never_repeat,
    a_run_ends_once,
    a_beat_keeps_the_lease_and_leaves_no_record,
    an_outcome_leads_where_the_lifecycle_says,
    an_outcome_that_cannot_be_followed_leads_to_the_other_way,
    a_run_that_is_tried_again_waits_for_its_time,
    what_a_run_cost_is_added_up,
);

fn a_stale_epoch_changes_nothing(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    // Its lease is taken away and given to another.
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "wind")]), NOON);
    let late =
        Finish { fields: fields(&[("pr_url", "late")]), ..finish(epoch, Outcome::Succeeded) };
    refused_because(
        store.apply(id, Event::Finished(late.clone()), None, NOON),
        RejectReason::StaleLease,
    );
    apply(&store, id, ask("human:kim", "lifting", &[]), NOON);
    let second = claim_first(&store, id, NOON.plus(MINUTE));
    let before = store.task(id).unwrap().task;
    let events = [
        Event::Finished(late),
        heartbeat(epoch, NOON.plus(HOUR)),
        ask_under(epoch, "worker:w1", "checking", &[("pr_url", "late")]),
        Event::Finished(finish(second + 1, Outcome::Crashed)),
    ];
    for event in events {
        refused_because(store.apply(id, event, None, NOON.plus(MINUTE)), RejectReason::StaleLease);
    }
    let after = store.task(id).unwrap().task;
    let version = before.version + 1;
    assert_eq!(after, Task { version, ..before }, "only that one more epoch came late is noted");
    apply(&store, id, ask_under(second, "worker:w1", "checking", &[("pr_url", "mine")]), NOON);
    assert_eq!(store.task(id).unwrap().task.fields["pr_url"], "mine");
}

fn epochs_never_repeat(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    for expected in 1..=4 {
        let epoch = claim_first(&store, id, NOON);
        assert_eq!(epoch, expected);
        apply(&store, id, Event::Finished(finish(epoch, Outcome::Crashed)), NOON);
        refused_because(
            store.apply(id, heartbeat(epoch, NOON.plus(HOUR)), None, NOON),
            RejectReason::StaleLease,
        );
    }
    let runs = store.past_runs(id, 9).unwrap();
    let epochs: Vec<i64> = runs.iter().map(|run| run.epoch).collect();
    assert_eq!(epochs, [1, 2, 3, 4]);
    assert!(runs.iter().all(|run| run.outcome == Some(Outcome::Crashed)), "{runs:?}");
}

fn a_run_ends_once(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..20 {
        let id = add(&handles[0], &format!("lift {round}"));
        let epoch = claim_first(&handles[0], id, NOON);
        let answers = at_once(4, |thread| {
            let end = Event::Finished(finish(epoch, Outcome::Policy));
            handles[thread % 2].apply(id, end, None, NOON)
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "round {round}");
        lost.into_iter().for_each(|answer| refused_because(answer, RejectReason::StaleLease));
        let history = handles[0].history(id, 0).unwrap();
        let triggers: Vec<&str> =
            history.iter().map(|entry| entry.record.trigger.as_str()).collect();
        assert_eq!(triggers[3..], [Note::StaleWrite.as_str()], "the losers are on record, once");
    }
}

fn a_beat_keeps_the_lease_and_leaves_no_record(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    let at = NOON.plus(MINUTE);
    let answer = apply(&store, id, heartbeat(epoch, at.plus(TTL)), at);
    assert!(answer.entry.is_none());
    let task = world.open().task(id).unwrap().task;
    assert_eq!(task.lease.expect("it holds").expires_at, at.plus(TTL));
    assert_eq!((task.progress_at, task.version, task.updated_at), (at, 2, NOON));
    // A beat that was under way for long does not shorten the lease.
    let slow = Heartbeat { epoch, expires_at: NOON, progressed: false };
    apply(&store, id, Event::Heartbeat(slow), NOON.plus(HOUR));
    let task = store.task(id).unwrap().task;
    assert_eq!((task.lease.expect("it holds").expires_at, task.progress_at), (at.plus(TTL), at));
    assert_eq!(store.history(id, 0).unwrap().len(), 2);
}

fn an_outcome_leads_where_the_lifecycle_says(world: &World) {
    let store = world.open();
    let cases = [
        (Outcome::Succeeded, "checking"),
        (Outcome::Transient, "lifting"),
        (Outcome::NeedsPerson, "held"),
        (Outcome::Policy, "failed"),
    ];
    for (outcome, expected) in cases {
        let id = add(&store, outcome.as_str());
        let epoch = claim_first(&store, id, NOON);
        let given = fields(&[("pr_url", "https://forge/1")]);
        let end = Finish { fields: given, ..finish(epoch, outcome) };
        let ended = apply(&store, id, Event::Finished(end), NOON);
        assert_eq!(state(&store, id), expected);
        let detail = store.detail(id).unwrap();
        assert_eq!(detail.stored.task, ended.stored.task);
        assert_eq!(detail.stored.task.lease, None);
        let runs = store.past_runs(id, 9).unwrap();
        assert_eq!(runs[0].outcome, Some(outcome));
        assert_eq!(detail.ahead.is_some(), outcome == Outcome::Transient);
        if outcome == Outcome::Transient {
            apply(&store, id, ask("human:kim", "cancelled", &[("reason", "next")]), NOON);
        }
    }
}

fn an_outcome_that_cannot_be_followed_leads_to_the_other_way(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    apply(&store, id, Event::Finished(finish(epoch, Outcome::Succeeded)), NOON);
    let task = store.task(id).unwrap().task;
    assert_eq!(state(&store, id), "failed");
    let said = task.fields["diagnostic"].as_str().expect("a reason");
    assert!(said.contains("the rope broke") && said.contains("pr_url"), "{said}");
    assert_eq!(world.raw().number("SELECT count(*) FROM notices WHERE urgent = 1"), 1);
}

fn a_run_that_is_tried_again_waits_for_its_time(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    let again_at = Some(NOON.plus(Span(10 * MINUTE.0)));
    let end = Finish { again_at, ..finish(epoch, Outcome::Crashed) };
    apply(&store, id, Event::Finished(end), NOON);
    assert_eq!(store.task(id).unwrap().task.not_before, again_at);
    assert!(claim(&store, "worker:w1", NOON).is_none());
    // The bound on the whole stay goes on beside the delay; the one on progress rests.
    assert_eq!(store.detail(id).unwrap().timers.len(), 2);
    store.fire_due(NOON.plus(Span(10 * MINUTE.0)), 10).unwrap();
    assert_eq!(claim_first(&store, id, NOON.plus(HOUR)), 2);
    assert_eq!(store.detail(id).unwrap().timers.len(), 2);
}

fn what_a_run_cost_is_added_up(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    for (tokens, cost_micros) in [(1_000, 250_001), (5, 1)] {
        let epoch = claim_first(&store, id, NOON);
        let end = Finish { tokens, cost_micros, ..finish(epoch, Outcome::Transient) };
        apply(&store, id, Event::Finished(end), NOON);
    }
    let spent = world.open().task(id).unwrap().task.spent;
    assert_eq!(spent, Spent { runs: 2, tokens: 1_005, cost_micros: 250_002 });
}
