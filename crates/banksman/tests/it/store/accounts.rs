//! Accounts: a provider that says wait is left alone, and tried again by one.

use banksman::store::accounts::AccountRow;
use banksman::store::{PauseRequest, RunEnd, Store};
use banksman_core::ids::RunId;
use banksman_core::lifecycle::Outcome;
use banksman_core::time::{Instant, Span};

use super::acts::{DAY, HOUR, MINUTE, NOON, add, at_once, dispatch, ended, finish, node, worker};
use super::on_both;
use super::world::World;

on_both!(
    a_pause_ends_once_and_leaves_a_trial,
    the_later_of_two_pauses_counts,
    an_answer_ends_a_trial_and_no_pause,
    a_person_ends_a_pause_without_a_trial,
);

pub(super) fn pause(account: &str, until: Instant) -> PauseRequest {
    let reason = "the plan's limit".to_owned();
    PauseRequest { account: account.to_owned(), until, reason, hits: 2 }
}

/// A run of the account `plan`.
fn start(store: &Store, title: &str) -> RunId {
    add(store, title);
    dispatch(store, &node("n1", &[worker("ada")]), NOON).claimed.expect("it is ready").run
}

fn end(store: &Store, run: RunId, pause: Option<PauseRequest>, answers: bool) {
    let finish = finish(run.epoch, Outcome::Policy);
    store.end_run(run.task, RunEnd { pause, answers, ..ended(finish) }, NOON).expect("it ends");
}

fn plan(store: &Store) -> AccountRow {
    let accounts = store.accounts().unwrap();
    let [(name, row)] = &accounts[..] else { panic!("{accounts:?}") };
    assert_eq!(name, "plan");
    row.clone()
}

fn a_pause_ends_once_and_leaves_a_trial(world: &World) {
    let store = world.open();
    let run = start(&store, "lift");
    end(&store, run, Some(pause("plan", NOON.plus(HOUR))), false);
    let paused = AccountRow {
        paused_until: Some(NOON.plus(HOUR)),
        reason: "the plan's limit".to_owned(),
        hits: 2,
        probing: false,
    };
    assert_eq!(plan(&world.open()), paused);
    assert_eq!(store.overview().unwrap().paused_accounts, [("plan".to_owned(), paused.clone())]);
    assert_eq!(store.end_pauses(NOON.plus(Span(HOUR.0 - 1))).unwrap(), [""; 0]);
    let handles = [world.open(), world.open()];
    let answers = at_once(4, |thread| handles[thread % 2].end_pauses(NOON.plus(HOUR)).unwrap());
    assert_eq!(answers.concat(), ["plan"], "it is told once");
    assert_eq!(plan(&store), AccountRow { paused_until: None, probing: true, ..paused });
    assert_eq!(store.overview().unwrap().paused_accounts, []);
}

fn the_later_of_two_pauses_counts(world: &World) {
    let store = world.open();
    let runs = [start(&store, "a"), start(&store, "b"), start(&store, "c")];
    end(&store, runs[0], Some(pause("plan", NOON.plus(HOUR))), false);
    end(&store, runs[1], Some(pause("plan", NOON.plus(MINUTE))), false);
    assert_eq!(plan(&store).paused_until, Some(NOON.plus(HOUR)));
    end(&store, runs[2], Some(pause("plan", NOON.plus(DAY))), false);
    assert_eq!(plan(&store).paused_until, Some(NOON.plus(DAY)));
}

fn an_answer_ends_a_trial_and_no_pause(world: &World) {
    let store = world.open();
    let runs = [start(&store, "a"), start(&store, "b"), start(&store, "c")];
    end(&store, runs[0], Some(pause("plan", NOON.plus(HOUR))), false);
    // This one had begun before the provider said wait.
    end(&store, runs[1], None, true);
    assert_eq!(plan(&store).paused_until, Some(NOON.plus(HOUR)));
    store.end_pauses(NOON.plus(HOUR)).unwrap();
    assert!(plan(&store).probing);
    end(&store, runs[2], None, true);
    assert_eq!(plan(&store), AccountRow::default());
}

fn a_person_ends_a_pause_without_a_trial(world: &World) {
    let store = world.open();
    let run = start(&store, "lift");
    end(&store, run, Some(pause("plan", NOON.plus(HOUR))), false);
    assert!(store.resume_account("plan").unwrap());
    assert_eq!(plan(&store), AccountRow::default());
    assert!(!store.resume_account("nobody's").unwrap());
    assert_eq!(store.end_pauses(NOON.plus(DAY)).unwrap(), [""; 0]);
}
