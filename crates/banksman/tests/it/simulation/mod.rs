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
mod script;
mod setup;
mod site;

use std::collections::BTreeSet;
use std::env;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use life::{Fault, Shape, Story, live};
use site::How;

/// Lives of one test run.
const SEEDS: u64 = 120;
/// Rows of one pulse before which a write fails.
const WRITES: u32 = 24;
/// Faults of each life that are tried when nobody asks for more: a long life has many, and each
/// takes as long as it.
const TRIED: usize = 30;
/// Lives that are disturbed at every step.
const SWEPT: usize = 4;
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
    "a plan in parts",
    "a part that was given up",
    "a person who is asked about parts",
    "a whole whose parts are done",
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

/// What came of many lives.
#[derive(Default)]
struct Stories {
    wrong: Vec<String>,
    seen: BTreeSet<&'static str>,
}

/// Lives all of them on every processor.
fn live_all(shapes: &[Shape]) -> Stories {
    let threads = thread::available_parallelism().map_or(2, NonZero::get);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let work = || {
            let mut stories = Stories::default();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let shape = usize::try_from(at).ok().and_then(|at| shapes.get(at));
                let Some(shape) = shape else { return stories };
                let mut story = live(*shape);
                stories.seen.append(&mut story.seen);
                if !story.broken.is_empty() {
                    stories.wrong.push(show(*shape, &story));
                    // One is enough to work on: the others begin no further life.
                    next.store(u64::MAX / 2, Ordering::Relaxed);
                }
            }
        };
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Stories::default();
        for thread in started {
            let mut stories = thread.join().expect("no thread panics");
            all.wrong.append(&mut stories.wrong);
            all.seen.append(&mut stories.seen);
        }
        all
    })
}

#[test]
fn whatever_happens_every_promise_is_kept() {
    let count = number("BANKSMAN_SIM_SEEDS").unwrap_or(SEEDS);
    let shapes: Vec<Shape> = (0..count).map(Shape::wild).collect();
    let Stories { wrong, seen } = live_all(&shapes);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let missing: Vec<_> = EXPECTED.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(missing.is_empty() || count < SEEDS, "these lives are too tame, without {missing:?}");
}

/// Small lives, disturbed at every call and at every written row of every pulse in turn.
#[test]
fn a_fault_at_any_step_changes_nothing_in_the_end() {
    let is_whole = number("BANKSMAN_SIM_SEEDS").is_some();
    let lives: Vec<Vec<Shape>> = (5..50).filter_map(disturbed).take(SWEPT).collect();
    assert_eq!(lives.len(), SWEPT, "there are enough lives in which something happens");
    let some = |life: Vec<Shape>| {
        let every = if is_whole { 1 } else { life.len().div_ceil(TRIED) };
        life.into_iter().step_by(every)
    };
    let shapes: Vec<Shape> = lives.into_iter().flat_map(some).collect();
    let wrong = live_all(&shapes).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
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
