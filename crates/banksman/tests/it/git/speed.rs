//! How long it takes to make a worktree ready when one of the same repository was used before.

use std::time::{Duration, Instant};

use super::{World, write};

/// Far above what it takes on an idle machine (see `docs/worktrees.md`), and below what a checkout
/// of all files takes on a busy one.
const SECOND_AT_MOST: Duration = Duration::from_millis(400);

#[test]
fn the_second_worktree_of_five_thousand_files_is_there_at_once() {
    let world = World::new();
    for number in 0..5_000 {
        let text = format!("{number} some text of a file\n").repeat(100);
        write(&world.repo().join(format!("d{}/f{number}", number % 100)), &text);
    }
    world.commit_in(&world.repo(), "five thousand");
    let first = world.workspace("t1");
    let began = Instant::now();
    drop(world.prepare(&first));
    let whole = began.elapsed();
    world.remove(&first);

    let mut best = Duration::MAX;
    let mut all = Vec::new();
    for number in 2..6 {
        let next = world.workspace(&format!("t{number}"));
        let began = Instant::now();
        drop(world.prepare(&next));
        let took = began.elapsed();
        best = best.min(took);
        let began = Instant::now();
        drop(world.prepare(&next));
        let again = began.elapsed();
        write(&next.worktree.join("d1/f1"), "changed");
        let began = Instant::now();
        world.remove(&next);
        all.push((took, again, began.elapsed()));
    }
    println!("first {whole:?}; then, for each: new, next attempt, removal {all:?}");
    assert!(best < SECOND_AT_MOST, "{best:?} after a first of {whole:?}");
}
