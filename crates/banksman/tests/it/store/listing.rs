//! Views over many tasks and long histories: filters, pages and numbers.

use std::collections::BTreeSet;

use banksman::store::query::{Filter, Overview, StateCount};
use banksman::store::{Add, Definition, Store};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::builtin;
use banksman_core::machine::NewTask;
use banksman_core::time::Span;

use super::acts::{
    DAY, HOUR, NOON, add, added, apply, arriving, ask, at_once, claim_first, definition, fields,
    load, to_asking,
};
use super::on_both;
use super::world::World;

on_both!(
    filters_narrow_and_combine,
    a_group_and_a_kind_find_all_their_states,
    pages_hold_every_task_once,
    a_filter_finds_what_is_beyond_the_first_page,
    a_long_history_comes_in_pages,
    the_overview_counts,
    a_detail_of_nobody_is_refused,
);

fn listed(store: &Store, filter: &Filter) -> Vec<String> {
    let (found, next) = store.list(filter, None, 100).expect("the list is read");
    assert_eq!(next, None);
    found.into_iter().map(|stored| stored.task.title).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn filters_narrow_and_combine(world: &World) {
    let store = world.open();
    let given = [
        ("a", "site", Some("friday"), "red"),
        ("b", "site", None, "blue"),
        ("c", "dock", Some("friday"), "red"),
        ("d", "dock", Some("monday"), "red"),
    ];
    for (title, project, batch, tag) in given {
        let new = NewTask {
            project: project.to_owned(),
            batch: batch.map(str::to_owned),
            tags: vec![tag.to_owned(), "load".to_owned()],
            ..load(title).new
        };
        let id = added(&store, Add { new, ..load(title) }).stored.task.id;
        if title > "b" {
            apply(&store, id, ask("human:kim", "parked", &[]), NOON);
        }
    }
    let all = Filter::default();
    assert_eq!(listed(&store, &all), ["d", "c", "b", "a"]);
    assert_eq!(listed(&store, &Filter { project: some("dock"), ..all.clone() }), ["d", "c"]);
    assert_eq!(listed(&store, &Filter { batch: some("friday"), ..all.clone() }), ["c", "a"]);
    assert_eq!(listed(&store, &Filter { tag: some("red"), ..all.clone() }), ["d", "c", "a"]);
    assert_eq!(listed(&store, &Filter { state: some("queued"), ..all.clone() }), ["b", "a"]);
    assert_eq!(listed(&store, &Filter { state: some("nowhere"), ..all.clone() }), [""; 0]);
    let narrow = Filter {
        state: some("parked"),
        project: some("dock"),
        batch: some("friday"),
        tag: some("red"),
    };
    assert_eq!(listed(&store, &narrow), ["c"]);
    let none = Filter { tag: some("re"), ..narrow };
    assert_eq!(listed(&store, &none), [""; 0]);
    let (page, next) = store.list(&all, None, 3).unwrap();
    assert_eq!(page.len(), 3);
    let (rest, next) = store.list(&all, next, 3).unwrap();
    assert_eq!((rest.len(), next), (1, None));
}

fn a_group_and_a_kind_find_all_their_states(world: &World) {
    let store = world.open();
    let judged: Definition = definition(builtin::source("judged").expect("it is built in"));
    let arrive = |title: &str, state: &str| {
        let mut add = arriving(&judged, state, None);
        add.new.title = title.to_owned();
        add.new.fields = fields(&[("feedback", "too loud")]);
        added(&store, add);
    };
    arrive("judge", "blocked(awaiting_judge)");
    arrive("quota", "blocked(quota_wait)");
    arrive("rework", "blocked(needs_rework)");
    arrive("new", "queued");
    let by = |state: &str| listed(&store, &Filter { state: some(state), ..Filter::default() });
    assert_eq!(by("blocked(quota_wait)"), ["quota"]);
    // The group and the kind have the same name, and the group also holds a state of another kind.
    assert_eq!(by("blocked"), ["rework", "quota", "judge"]);
    assert_eq!(by("reviewing"), ["judge"]);
    assert_eq!(by("queued"), ["new"]);
}

const MANY: usize = 1_208;

fn many(world: &World) -> Store {
    let store = world.open();
    at_once(8, |thread| {
        for number in 0..MANY / 8 {
            let mut task = load(&format!("{thread}.{number}"));
            task.new.tags = vec![format!("n{number}")];
            added(&store, task);
        }
    });
    store
}

fn pages_hold_every_task_once(world: &World) {
    let store = many(world);
    for at_most in [1_000, 333, i64::MAX] {
        let mut seen: Vec<TaskId> = Vec::new();
        let mut before = None;
        loop {
            let (page, next) = store.list(&Filter::default(), before, at_most).unwrap();
            assert!(page.len() <= 1_000);
            seen.extend(page.iter().map(|stored| stored.task.id));
            before = next;
            if next.is_none() {
                break;
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] > pair[1]), "newest first");
        assert_eq!(seen.len(), MANY, "pages of {at_most}");
    }
    let mut all = BTreeSet::new();
    let mut after = TaskId(0);
    loop {
        let page = store.tasks_from(after).unwrap();
        let Some((last, _)) = page.last() else { break };
        after = last.task.id;
        all.extend(page.iter().map(|(stored, _)| stored.task.id));
    }
    assert_eq!(all.len(), MANY);
    let report = store.check().unwrap();
    assert_eq!(report.tasks, i64::try_from(MANY).unwrap());
}

fn a_filter_finds_what_is_beyond_the_first_page(world: &World) {
    let store = many(world);
    let first = Filter { tag: some("n0"), ..Filter::default() };
    let (found, next) = store.list(&first, None, 100).unwrap();
    assert_eq!((found.len(), next), (8, None));
    let (page, next) = store.list(&first, None, 5).unwrap();
    let (rest, end) = store.list(&first, next, 5).unwrap();
    assert_eq!((page.len(), rest.len(), end), (5, 3, None));
}

fn a_long_history_comes_in_pages(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    for number in 0..1_100 {
        let to = if number % 2 == 0 { "parked" } else { "queued" };
        apply(&store, id, ask("human:kim", to, &[]), NOON);
    }
    let first = store.history(id, 0).unwrap();
    let rest = store.history(id, first.last().expect("a record").seq).unwrap();
    let numbers = first.iter().chain(&rest).map(|entry| entry.seq);
    assert!(numbers.eq(1..=1_101));
    assert_eq!((first.len(), rest.len()), (1_000, 101));
    assert_eq!(store.history(id, 1_101).unwrap(), []);
    let report = store.verify_history().unwrap();
    assert_eq!((report.tasks, report.records), (1, 1_101));
    // An answer from the beginning of a long history is found as well.
    let last = store.apply(id, ask("human:kim", "parked", &[]), super::acts::key("k", "r"), NOON);
    let last = last.unwrap().entry;
    for _ in 0..2 {
        let again =
            store.apply(id, ask("human:kim", "parked", &[]), super::acts::key("k", "r"), NOON);
        assert_eq!(again.unwrap().entry, last);
        apply(&store, id, ask("human:kim", "queued", &[]), NOON);
        apply(&store, id, ask("human:kim", "parked", &[]), NOON);
    }
}

fn the_overview_counts(world: &World) {
    let store = world.open();
    assert_eq!(store.overview().unwrap(), Overview::default());
    to_asking(&store, "asking");
    let lifting = add(&store, "lifting");
    claim_first(&store, lifting, NOON.plus(HOUR));
    add(&store, "queued");
    let new = NewTask { not_before: Some(NOON.plus(Span(DAY.0 / 2))), ..load("delayed").new };
    added(&store, Add { new, ..load("delayed") });
    let count = |state: &str, kind: &str, tasks| StateCount {
        state: state.to_owned(),
        kind: kind.to_owned(),
        tasks,
    };
    let expected = Overview {
        states: vec![
            count("asking", "waiting", 1),
            count("lifting", "working", 1),
            count("queued", "queued", 2),
        ],
        ready: 1,
        open_decisions: 1,
        // The start of the check.
        pending_effects: 2,
        running: 1,
        next_timer: Some(NOON.plus(Span(2 * HOUR.0))),
        ..Overview::default()
    };
    assert_eq!(world.open().overview().unwrap(), expected);
}

fn a_detail_of_nobody_is_refused(world: &World) {
    let store = world.open();
    add(&store, "lift");
    let nobody = TaskId(4711);
    let errors = [
        store.task(nobody).map(|_| ()).expect_err("nobody"),
        store.detail(nobody).map(|_| ()).expect_err("nobody"),
        store.history(nobody, 0).map(|_| ()).expect_err("nobody"),
    ];
    for error in errors {
        assert_eq!(error.to_string(), "there is no task t4711");
    }
}
