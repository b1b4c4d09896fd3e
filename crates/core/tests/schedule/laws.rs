//! Laws for any question and any path.

use std::cmp::Reverse;
use std::slice::from_ref;

use banksman_core::ids::TaskId;
use banksman_core::limits;
use banksman_core::schedule::{
    AccountLoad, Area, BatchLoad, Budget, Ineligible, Load, Running, Used, Worker, areas, choose,
    overlap,
};
use banksman_core::time::Instant;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{NODE, NOW, Question, over_random, texts};

const NAMES: [&str; 4] = ["ann", "bob", "cy", "dot"];
const WORDS: [&str; 4] = ["code", "docs", "ci", "art"];

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(words).prop_map(str::to_owned)
}

fn any_worker() -> impl Strategy<Value = Worker> {
    let roles = btree_set(word(&["worker", "reviewer"]), 0..2);
    let capabilities = btree_set(word(&WORDS), 0..4);
    let account = word(&["a1", "a2"]);
    (word(&NAMES), capabilities, roles, 1..3_u32, 1..3_u32, 0..3_u32, account).prop_map(
        |(name, capabilities, roles, cost, speed, max_concurrent, account)| Worker {
            name,
            capabilities,
            roles,
            cost,
            speed,
            max_concurrent,
            account,
            model: None,
        },
    )
}

/// A registry in which each name occurs once.
fn workers() -> impl Strategy<Value = Vec<Worker>> {
    vec(any_worker(), 0..5).prop_map(|mut workers| {
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        workers.dedup_by(|a, b| a.name == b.name);
        workers
    })
}

fn some_areas() -> impl Strategy<Value = Vec<Area>> {
    let area = word(&["path:a", "path:a/b", "path:c", "path:.", "docser:global"]);
    vec(area.prop_map(Area), 0..3)
}

fn runs() -> impl Strategy<Value = Vec<Running>> {
    let run = (
        word(&["shop", "blog"]),
        proptest::option::of(word(&["night", "day"])),
        word(&NAMES),
        word(&["a1", "a2"]),
        word(&[NODE, "there"]),
        some_areas(),
    );
    vec(run, 0..5).prop_map(|runs| {
        let numbered = runs.into_iter().zip(2..);
        let run = |((project, batch, worker, account, node, areas), task)| Running {
            task: TaskId(task),
            project,
            batch,
            worker,
            account,
            node,
            role: "worker".to_owned(),
            areas,
        };
        numbered.map(run).collect()
    })
}

fn account() -> impl Strategy<Value = AccountLoad> {
    let paused_until =
        proptest::option::weighted(0.3, (-5..5_i64).prop_map(|by| Instant(NOW.0 + by)));
    let limit = proptest::option::of(0..4_u32);
    (paused_until, proptest::bool::weighted(0.2), limit).prop_map(
        |(paused_until, probing, limit)| AccountLoad {
            paused_until,
            reason: String::new(),
            probing,
            limit,
        },
    )
}

fn budget() -> impl Strategy<Value = (Budget, Used)> {
    (proptest::option::weighted(0.3, 0..6_i64), 0..4_i64).prop_map(|(limit, runs)| {
        (Budget { runs: limit, ..Budget::default() }, Used { runs, ..Used::default() })
    })
}

fn batch() -> impl Strategy<Value = BatchLoad> {
    (1..4_u32, proptest::bool::weighted(0.2), budget()).prop_map(
        |(concurrency, paused, (budget, used))| BatchLoad { concurrency, paused, budget, used },
    )
}

fn load() -> impl Strategy<Value = Load> {
    let limit = proptest::option::of(0..6_u32);
    (proptest::bool::weighted(0.1), limit, 0..5_u32, runs(), account(), batch(), budget()).prop_map(
        |(paused, limit, capacity, running, account, batch, (day_budget, day))| Load {
            lanes: Default::default(),
            paused,
            limit,
            node: NODE.to_owned(),
            capacity,
            running,
            batches: [("night".to_owned(), batch)].into(),
            accounts: [("a1".to_owned(), account)].into(),
            day,
            day_budget,
            reserved: Vec::new(),
        },
    )
}

fn questions() -> impl Strategy<Value = Question> {
    let tags = vec(word(&["code", "docs", "ci", "label", "needs:art", "needs:gpu"]), 0..3);
    let roles = vec(word(&["worker", "reviewer", "human"]), 1..3);
    let batch = proptest::option::of(word(&["night", "day"]));
    let task = (tags, roles, batch, some_areas(), budget());
    (task, load(), workers(), workers()).prop_map(
        |((tags, roles, batch, areas, (budget, spent)), load, here, elsewhere)| Question {
            batch,
            tags,
            roles,
            assignees: Vec::new(),
            areas,
            spent,
            budget,
            load,
            here,
            elsewhere,
        },
    )
}

#[test]
fn there_is_always_a_reason_and_none_is_told_twice() {
    over_random(&questions(), |question| {
        if let Err(held) = question.answer() {
            prop_assert!(!held.is_empty());
            for (index, reason) in held.iter().enumerate() {
                prop_assert!(!held[..index].contains(reason), "{reason:?} twice");
            }
        }
        Ok(())
    });
}

#[test]
fn the_order_of_the_lists_does_not_matter() {
    over_random(&questions(), |question| {
        let mut turned = question.clone();
        turned.here.reverse();
        turned.elsewhere.reverse();
        turned.load.running.reverse();
        turned.tags.reverse();
        let sorted = |question: &Question| {
            question.answer().map_err(|mut held| {
                for reason in &mut held {
                    if let Ineligible::NoWorker { needs, .. } = reason {
                        needs.sort();
                    }
                }
                held.sort();
                held
            })
        };
        prop_assert_eq!(sorted(&question), sorted(&turned));
        Ok(())
    });
}

/// Each worker is asked alone, with the whole registry known: the preferred one of those that would
/// take the task is chosen.
#[test]
fn the_preferred_of_those_that_could_is_chosen() {
    over_random(&questions(), |question| {
        let all: Vec<Worker> = question.here.iter().chain(&question.elsewhere).cloned().collect();
        let mut could: Vec<&Worker> = question
            .here
            .iter()
            .filter(|worker| {
                let alone = from_ref(*worker);
                choose(&question.candidate(), &question.load, alone, &all, NOW).is_ok()
            })
            .collect();
        could.sort_by_key(|worker| (worker.cost, Reverse(worker.speed), worker.name.clone()));
        let preferred = could.first().map(|worker| worker.name.clone());
        prop_assert_eq!(question.answer().ok(), preferred);
        Ok(())
    });
}

#[test]
fn more_load_never_lets_a_task_start() {
    over_random(&(questions(), runs()), |(question, more)| {
        let mut fuller = question.clone();
        let renumbered = more.into_iter().zip(50..);
        fuller
            .load
            .running
            .extend(renumbered.map(|(run, task)| Running { task: TaskId(task), ..run }));
        if question.answer().is_err() {
            prop_assert!(fuller.answer().is_err());
        }
        Ok(())
    });
}

/// The reasons that remain without running tasks and limits are those that make a task impossible.
#[test]
fn on_an_idle_system_only_the_registry_holds_a_task_back() {
    over_random(&questions(), |question| {
        let load = Load { node: NODE.to_owned(), capacity: 1, ..Load::default() };
        let mut idle = Question { load, budget: Budget::default(), ..question };
        for worker in &mut idle.here {
            worker.max_concurrent = 1;
        }
        let missing = |held: &Ineligible| {
            matches!(held, Ineligible::NoWorker { .. } | Ineligible::NotHere { .. })
        };
        match idle.answer() {
            Ok(_) => {}
            Err(held) => prop_assert!(held.len() == 1 && held.iter().all(missing), "{:?}", held),
        }
        Ok(())
    });
}

/// With exactly the missing capabilities added to one worker that plays the role, a worker can take
/// it.
#[test]
fn what_is_missing_is_enough() {
    over_random(&questions(), |question| {
        let found = question.answer().err().and_then(|held| held.into_iter().next());
        if let Some(Ineligible::NoWorker { needs, .. }) = found {
            let playable = question.roles.iter().any(|role| role != "human");
            let could = |worker: &Worker| {
                let mut better = question.clone();
                better.here = vec![Worker { max_concurrent: 9, ..worker.clone() }];
                better.here[0].capabilities.extend(needs.iter().cloned());
                !matches!(better.answer(), Err(held) if matches!(held[0], Ineligible::NoWorker { .. }))
            };
            let fresh = Worker {
                name: "new".to_owned(),
                capabilities: Default::default(),
                roles: Default::default(),
                cost: 1,
                speed: 1,
                max_concurrent: 1,
                account: String::new(),
                model: None,
            };
            let registry = question.here.iter().chain(&question.elsewhere).chain([&fresh]);
            prop_assert_eq!(registry.into_iter().any(could), playable);
        }
        Ok(())
    });
}

#[test]
fn areas_are_bounded_and_cover_every_path() {
    let path = "(\\./)?(apps|src|web|[a-d]{1,2})(/[a-e*.]{1,3}){0,3}";
    over_random(&vec(path, 0..150), |paths| {
        let all = areas(None, &paths, &[]);
        prop_assert!(all.len() <= limits::AREAS);
        prop_assert!(all.is_sorted());
        for (index, area) in all.iter().enumerate() {
            prop_assert_eq!(overlap(&all[index + 1..], from_ref(area)), None);
        }
        for path in &paths {
            let alone = areas(None, from_ref(path), &[]);
            prop_assert_eq!(overlap(&alone, &all), alone.first(), "{} in {:?}", path, &all);
        }
        Ok(())
    });
}

#[test]
fn overlapping_goes_both_ways() {
    let paths = || vec("[ab.*]{0,3}(/[ab.]{1,2}){0,2}", 0..4);
    over_random(&(paths(), paths()), |(a, b)| {
        let (a, b) = (areas(None, &a, &[]), areas(None, &b, &[]));
        prop_assert_eq!(overlap(&a, &b).is_some(), overlap(&b, &a).is_some());
        prop_assert_eq!(overlap(&a, &a), a.first());
        Ok(())
    });
}

#[test]
fn any_text_names_a_bounded_number_of_areas() {
    let text = any::<Option<String>>();
    over_random(&(text, vec(any::<String>(), 0..100)), |(target, paths)| {
        prop_assert!(areas(target.as_deref(), &paths, &paths).len() <= limits::AREAS);
        Ok(())
    });
}

#[test]
fn more_paths_never_lose_an_overlap() {
    let path = || "[a-c]{1,2}(/[a-c]){0,2}";
    let many = (vec(path(), 1..100), path());
    over_random(&many, |(paths, other)| {
        let other = areas(None, &[other], &[]);
        let of_some = areas(None, &paths[..1], &[]);
        let of_all = areas(None, &paths, &texts(&["ignored"]));
        if overlap(&of_some, &other).is_some() {
            prop_assert!(overlap(&of_all, &other).is_some());
        }
        Ok(())
    });
}
