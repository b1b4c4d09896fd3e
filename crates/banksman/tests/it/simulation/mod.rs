//! The whole control plane under simulated time, chance and faults: several engines over one store,
//! keepers and agents that are small state machines, people who interfere. Everything follows from
//! a seed.
//!
//! `BANKSMAN_SIM_SEEDS=5000` lives that many lives instead of a few; `BANKSMAN_SIM_SEED=17` lives
//! one and prints its trace. Faults strike at calls of the engine to its site and projects, before
//! and after they have taken effect, as an error or as a crash; and between writes to the store, by
//! triggers that refuse every write from a certain one on.

mod always;
mod answers;
mod budgets;
mod chance;
mod clocks;
mod forge;
mod ground;
mod job;
mod lease;
mod life;
mod parents;
mod people;
mod roads;
mod script;
mod setup;
mod site;

use std::collections::BTreeSet;
use std::env;

use life::{Fault, Shape, Story, live};
use site::How;

/// Lives of one test run.
const SEEDS: u64 = 120;
/// Tests that share them.
const PARTS: usize = 10;
/// Seeds whose lives together have shown all that is expected. When the simulation changes they may
/// no longer do so: then the others are tried as well, and this list should be chosen anew from
/// what the test prints.
const TELLING: [u64; 4] = [17, 20, 21, 32];
/// Rows of one pulse before which a write fails.
const WRITES: u32 = 24;
/// Faults of each life that are tried when nobody asks for more: a long life has many, and each
/// takes as long as it.
const TRIED: usize = 30;
/// Tests that share the faults of one life.
const SHARES: usize = 3;
/// What has to come about in so many lives, or nothing is shown by them.
const EXPECTED: [&str; 17] = [
    "a conflict",
    "a day that was used up",
    "a batch that was used up",
    "a day that was raised",
    "a batch that was raised",
    "a keeper that doubts its lease",
    "a merge",
    "a merge by an answer",
    "a merge that was quicker than whoever took it back",
    "a merge that was rejected",
    "a merge that was taken back",
    "a merge that was there",
    "a merge without a receipt",
    "a plan with subtasks",
    "a subtask that was given up",
    "a person who is asked about subtasks",
    "a parent whose subtasks are done",
];
/// Lines of a trace that are shown of a life that went wrong.
const SHOWN: usize = 120;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, and not `{text}`")))
}

fn show(shape: Shape, story: &Story) -> String {
    let from = story.trace.len().saturating_sub(SHOWN);
    format!(
        "seed {}: {}\n{}\nrun it alone: BANKSMAN_SIM_SEED={} cargo test -p banksman --test it simulation::one_life\n({shape:?})",
        shape.seed,
        story.broken.join("\n"),
        story.trace[from..].join("\n"),
        shape.seed,
    )
}

/// Lives each in turn; the first one that goes wrong is enough to work on.
fn live_all(shapes: impl IntoIterator<Item = Shape>) {
    for shape in shapes {
        let story = live(shape);
        assert!(story.broken.is_empty(), "{}", show(shape, &story));
    }
}

/// One of the parts into which the seeds are split.
fn live_part(part: u64) {
    let count = number("BANKSMAN_SIM_SEEDS").unwrap_or(SEEDS);
    live_all((part..count).step_by(PARTS).map(Shape::wild));
}

/// Split, so that each test has time to spare on a busy machine, and so that they run side by side.
mod whatever_happens_every_promise_is_kept {
    use super::live_part;

    #[test]
    fn part_0() {
        live_part(0);
    }

    #[test]
    fn part_1() {
        live_part(1);
    }

    #[test]
    fn part_2() {
        live_part(2);
    }

    #[test]
    fn part_3() {
        live_part(3);
    }

    #[test]
    fn part_4() {
        live_part(4);
    }

    #[test]
    fn part_5() {
        live_part(5);
    }

    #[test]
    fn part_6() {
        live_part(6);
    }

    #[test]
    fn part_7() {
        live_part(7);
    }

    #[test]
    fn part_8() {
        live_part(8);
    }

    #[test]
    fn part_9() {
        live_part(9);
    }
}

#[test]
fn the_lives_are_not_too_tame() {
    let mut missing = BTreeSet::from(EXPECTED);
    for seed in TELLING.into_iter().chain(0..SEEDS) {
        let seen = live(Shape::wild(seed)).seen;
        println!("seed {seed}: {seen:?}");
        missing.retain(|what| !seen.contains(what));
        if missing.is_empty() {
            return;
        }
    }
    panic!("these lives are too tame, without {missing:?}");
}

/// One share of the faults of a small life: one at every call and at every written row of every
/// pulse, each in turn.
fn sweep(nth: usize, share: usize) {
    let life = (5..50).filter_map(disturbed).nth(nth);
    let life = life.expect("there are enough lives in which something happens");
    let is_whole = number("BANKSMAN_SIM_SEEDS").is_some();
    let every = if is_whole { 1 } else { life.len().div_ceil(TRIED) };
    live_all(life.into_iter().step_by(every).skip(share).step_by(SHARES));
}

mod a_fault_at_any_step_changes_nothing_in_the_end {
    use super::sweep;

    #[test]
    fn in_the_first_life_0() {
        sweep(0, 0);
    }

    #[test]
    fn in_the_first_life_1() {
        sweep(0, 1);
    }

    #[test]
    fn in_the_first_life_2() {
        sweep(0, 2);
    }

    #[test]
    fn in_the_second_life_0() {
        sweep(1, 0);
    }

    #[test]
    fn in_the_second_life_1() {
        sweep(1, 1);
    }

    #[test]
    fn in_the_second_life_2() {
        sweep(1, 2);
    }

    #[test]
    fn in_the_third_life_0() {
        sweep(2, 0);
    }

    #[test]
    fn in_the_third_life_1() {
        sweep(2, 1);
    }

    #[test]
    fn in_the_third_life_2() {
        sweep(2, 2);
    }

    #[test]
    fn in_the_fourth_life_0() {
        sweep(3, 0);
    }

    #[test]
    fn in_the_fourth_life_1() {
        sweep(3, 1);
    }

    #[test]
    fn in_the_fourth_life_2() {
        sweep(3, 2);
    }
}

/// The life of a seed with every fault that it can have; none if too little happens in it.
fn disturbed(seed: u64) -> Option<Vec<Shape>> {
    let quiet = Shape { seed, tasks: 3, steps: 24, fault: None, is_wild: false };
    let story = live(quiet);
    assert_eq!(story.broken, [""; 0]);
    if story.runs < 6 {
        return None;
    }
    let mut shapes = Vec::new();
    for (pulse, calls) in story.calls.iter().enumerate() {
        let calls = (0..*calls).flat_map(|at| How::ALL.map(|how| Fault::Call(at, how)));
        for fault in calls.chain((0..WRITES).map(Fault::Write)) {
            shapes.push(Shape { fault: Some((pulse, fault)), ..quiet });
        }
    }
    Some(shapes)
}

#[test]
fn one_life() {
    let seed = number("BANKSMAN_SIM_SEED");
    let story = live(Shape::wild(seed.unwrap_or(1)));
    if seed.is_some() {
        println!("{}\n{}", story.trace.join("\n"), story.digest);
    }
    assert_eq!(story.broken, [""; 0]);
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in 0..3 {
        let (first, second) = (live(Shape::wild(seed)), live(Shape::wild(seed)));
        assert_eq!(first, second, "seed {seed}");
    }
    assert_ne!(live(Shape::wild(3)).digest, live(Shape::wild(4)).digest);
}
