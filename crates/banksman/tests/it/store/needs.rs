//! Tasks that wait for other tasks: never claimed too early, never left behind.

use banksman::store::conn::DbError;
use banksman::store::{Add, Edge, Store, StoreError};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::lifecycle::{StateKind, builtin};
use banksman_core::machine::{Event, NewTask, TransitionRequest};

use super::acts::{
    DAY, NOON, actor, add, added, apply, ask, at_once, claim, claim_first, definition, load,
    load_after, state,
};
use super::on_both;
use super::world::World;

on_both!(
    a_task_is_ready_when_all_that_it_needs_is_done,
    a_need_that_ends_otherwise_does_not_free,
    what_only_informs_holds_nothing_back,
    a_cancelled_task_stays_cancelled_when_its_need_is_done,
    needs_and_delays_hold_together,
    adding_races_with_the_end_of_what_is_needed,
    needs_that_end_together_are_all_counted,
    people_are_asked_about_a_task_whose_need_is_cancelled,
    a_parent_decides_about_its_own_children,
);

fn done(store: &Store, id: TaskId) {
    apply(store, id, ask("human:kim", "done", &[]), NOON);
}

fn open_needs(store: &Store, id: TaskId) -> i64 {
    store.task(id).unwrap().task.open_needs
}

fn a_task_is_ready_when_all_that_it_needs_is_done(world: &World) {
    let store = world.open();
    let (a, b) = (add(&store, "a"), add(&store, "b"));
    let waiting = added(&store, load_after("waiting", &[a, b])).stored.task.id;
    done(&store, a);
    assert_eq!(open_needs(&store, waiting), 1);
    claim_first(&store, b, NOON);
    assert!(claim(&store, "worker:w2", NOON).is_none(), "it was claimed before its need was done");
    apply(&store, b, ask("worker:w1", "checking", &[("pr_url", "x")]), NOON);
    apply(&store, b, ask("crane:c1", "asking", &[]), NOON);
    done(&store, b);
    let needs = store.needs(waiting).unwrap();
    assert!(needs.iter().all(|need| need.done && need.state == "done"), "{needs:?}");
    claim_first(&store, waiting, NOON);
    let late = added(&store, load_after("late", &[a, b])).stored.task.id;
    claim_first(&store, late, NOON);
}

/// Nobody else could move it on, and whoever lets it go on does so without what it needed.
fn people_are_asked_about_a_task_whose_need_is_cancelled(world: &World) {
    let store = world.open();
    for (lifecycle, asks, goes_on) in [
        ("autonomous", "blocked", "unblock"),
        ("judged", "blocked(needs_person)", "unblock"),
        ("supervised", "blocked", "unblock"),
        ("mission", "NEEDS_APPROVAL", "resume"),
    ] {
        let own = definition(builtin::source(lifecycle).expect("it is built in"));
        let of = |title: &str| Add { definition: own.clone(), ..load(title) };
        let needed = added(&store, of("needed")).stored.task.id;
        let waiting = Add { needs: vec![(needed, Edge::Blocks)], ..of("waiting") };
        let waiting = added(&store, waiting).stored.task.id;
        let end = if lifecycle == "mission" { "CANCELED" } else { "cancelled" };
        apply(&store, needed, ask("human:kim", end, &[("reason", "rain")]), NOON);
        assert_eq!(state(&store, waiting), asks, "{lifecycle}");
        let inbox = store.inbox().unwrap();
        assert_eq!(inbox.iter().map(|open| open.task).collect::<Vec<_>>(), [waiting]);
        let said = format!("It needs {needed}, which ended in {end}");
        let fields = store.task(waiting).unwrap().task.fields;
        let told = fields.values().filter_map(|value| value.as_str());
        assert!(told.clone().any(|text| text.contains(&said)), "{lifecycle}: {fields:?}");
        let answer = TransitionRequest {
            actor: actor("human:kim"),
            to: None,
            trigger: Some(goes_on.to_owned()),
            fields: Fields::new(),
            epoch: None,
            version: None,
        };
        apply(&store, waiting, Event::Asked(answer), NOON);
        let now = store.task(waiting).unwrap();
        assert_eq!((now.task.open_needs, now.state().kind), (0, StateKind::Queued), "{lifecycle}");
        let late = Add { needs: vec![(needed, Edge::Blocks)], ..of("late") };
        let late = added(&store, late).stored;
        assert_eq!(late.state().name, asks, "{lifecycle}");
        apply(&store, late.task.id, ask("human:kim", end, &[("reason", "rain")]), NOON);
        apply(&store, waiting, ask("human:kim", end, &[("reason", "rain")]), NOON);
        world.assert_sound();
    }
}

fn a_parent_decides_about_its_own_children(world: &World) {
    let store = world.open();
    let own = definition(builtin::source("judged").expect("it is built in"));
    let parent = add(&store, "parent");
    let child = |title: &str, needs: Vec<(TaskId, Edge)>| {
        let new = NewTask { parent: Some(parent), ..load(title).new };
        added(&store, Add { new, needs, definition: own.clone(), ..load("") }).stored.task.id
    };
    let needed = child("needed", Vec::new());
    let waiting = child("waiting", vec![(needed, Edge::Blocks)]);
    apply(&store, needed, ask("human:kim", "cancelled", &[("reason", "rain")]), NOON);
    assert_eq!((state(&store, waiting).as_str(), open_needs(&store, waiting)), ("queued", 1));
}

fn a_need_that_ends_otherwise_does_not_free(world: &World) {
    let store = world.open();
    let (failing, cancelled) = (add(&store, "failing"), add(&store, "cancelled"));
    let first = added(&store, load_after("first", &[failing])).stored.task.id;
    let second = added(&store, load_after("second", &[cancelled])).stored.task.id;
    claim_first(&store, failing, NOON);
    apply(&store, failing, ask("worker:w1", "failed", &[("diagnostic", "rope")]), NOON);
    apply(&store, cancelled, ask("human:kim", "cancelled", &[("reason", "rain")]), NOON);
    assert_eq!((open_needs(&store, first), open_needs(&store, second)), (1, 1));
    assert!(claim(&store, "worker:w1", NOON).is_none());
    let late = added(&store, load_after("late", &[failing, cancelled])).stored.task.id;
    assert_eq!(open_needs(&store, late), 2);
    // A failure is not the end: the second attempt frees those that wait.
    apply(&store, failing, ask("human:kim", "queued", &[]), NOON);
    done(&store, failing);
    claim_first(&store, first, NOON);
    assert_eq!(open_needs(&store, late), 1);
}

fn what_only_informs_holds_nothing_back(world: &World) {
    let store = world.open();
    let a = add(&store, "a");
    let informed = Add { needs: vec![(a, Edge::Informs)], ..load("informed") };
    let informed = added(&store, informed).stored.task;
    assert_eq!(informed.open_needs, 0);
    claim_first(&store, a, NOON);
    claim_first(&store, informed.id, NOON);
}

fn a_cancelled_task_stays_cancelled_when_its_need_is_done(world: &World) {
    let store = world.open();
    let a = add(&store, "a");
    let waiting = added(&store, load_after("waiting", &[a])).stored.task.id;
    apply(&store, waiting, ask("human:kim", "cancelled", &[("reason", "rain")]), NOON);
    done(&store, a);
    assert_eq!(state(&store, waiting), "cancelled");
    assert!(claim(&store, "worker:w1", NOON).is_none());
}

fn needs_and_delays_hold_together(world: &World) {
    let store = world.open();
    let a = add(&store, "a");
    let mut both = load_after("both", &[a]);
    both.new.not_before = Some(NOON.plus(DAY));
    let both = added(&store, both).stored.task.id;
    done(&store, a);
    assert!(claim(&store, "worker:w1", NOON).is_none(), "it is still delayed");
    store.fire_due(NOON.plus(DAY), 10).unwrap();
    claim_first(&store, both, NOON.plus(DAY));
}

fn adding_races_with_the_end_of_what_is_needed(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..60 {
        let needed = add(&handles[0], &format!("needed {round}"));
        let answers = at_once(2, |thread| {
            let store = &handles[thread];
            if thread == 0 {
                let answer = store.apply(needed, ask("human:kim", "done", &[]), None, NOON);
                answer.map(|applied| applied.stored.task.id)
            } else {
                let answer = store.add(load_after("waiting", &[needed]), NOON);
                answer.map(|applied| applied.stored.task.id)
            }
        });
        let waiting = *answers[1].as_ref().expect("the task is added");
        answers[0].as_ref().expect("the needed task is done");
        assert_eq!(open_needs(&handles[0], waiting), 0, "stranded in round {round}");
        let claimed = claim(&handles[0], "worker:w1", NOON).expect("it is ready");
        assert_eq!(claimed.run.task, waiting, "round {round}");
    }
}

fn needs_that_end_together_are_all_counted(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..30 {
        let needed: Vec<TaskId> =
            (0..4).map(|n| add(&handles[0], &format!("needed {round}.{n}"))).collect();
        let waiting = added(&handles[0], load_after("waiting", &needed)).stored.task.id;
        let later = added(&handles[1], load_after("later", &needed)).stored.task.id;
        let answers: Vec<Result<(), StoreError>> = at_once(4, |thread| {
            let event = ask(&actor("human:kim").to_string(), "done", &[]);
            handles[thread % 2].apply(needed[thread], event, None, NOON).map(|_| ())
        });
        for answer in answers {
            let busy = matches!(answer, Err(StoreError::Db(DbError::Busy { .. })));
            assert!(answer.is_ok(), "round {round}, busy: {busy}: {answer:?}");
        }
        assert_eq!(open_needs(&handles[0], waiting), 0, "round {round}");
        claim_first(&handles[0], waiting, NOON);
        claim_first(&handles[0], later, NOON);
    }
}
