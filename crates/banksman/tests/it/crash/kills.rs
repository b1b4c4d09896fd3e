//! A child is killed while it works.
//!
//! `BANKSMAN_CRASH_KILLS` says how often in all on SQLite; the seeds are the same every time.

use std::env;

use super::child::{Acknowledged, Running, Seeded};
use crate::store::world::World;

/// Kills on SQLite in all, and on PostgreSQL.
const KILLS: u64 = 200;
const POSTGRES_KILLS: u64 = 50;
/// Tests that share the kills, so that they run side by side.
const SHARES: u64 = 4;
/// After so many kills a new store is begun, because each look at the old one takes longer.
const KILLS_PER_STORE: u64 = 10;
/// A child is killed after at most so many acknowledgements.
const LINES: u64 = 200;

/// The records that are there.
fn kept(world: &World) -> Acknowledged {
    let record = |row: Vec<Option<String>>| {
        let [task, seq, hash] = row.try_into().expect("three columns");
        let number =
            |text: Option<String>| text.and_then(|text| text.parse().ok()).expect("a number");
        let hash = hash.expect("a hash").trim_start_matches("\\x").to_owned();
        ((number(task), number(seq)), hash)
    };
    world.raw().rows("SELECT task, seq, hash FROM audit").into_iter().map(record).collect()
}

/// Everything acknowledged is there as it was acknowledged, and all that is there is sound.
fn assert_kept(world: &World, acknowledged: &Acknowledged) {
    world.assert_sound();
    let kept = kept(world);
    for (record, hash) in acknowledged {
        assert_eq!(kept.get(record), Some(hash), "record {record:?} was acknowledged");
    }
}

fn kill_often(new: impl Fn() -> World, share: u64, kills: u64) {
    let mut killed = 0;
    while killed < kills {
        let world = new();
        let mut acknowledged = Acknowledged::new();
        for _ in 0..KILLS_PER_STORE.min(kills - killed) {
            let seed = share * 1_000_000 + killed;
            let mut child = Running::work(&world, seed);
            for _ in 0..=Seeded(seed).below(LINES) {
                child.hear(&mut acknowledged);
            }
            child.kill(&mut acknowledged);
            assert_kept(&world, &acknowledged);
            killed += 1;
        }
    }
}

fn on_sqlite(share: u64) {
    let kills = env::var("BANKSMAN_CRASH_KILLS");
    let kills =
        kills.map_or(KILLS, |kills| kills.parse().expect("BANKSMAN_CRASH_KILLS is a number"));
    kill_often(World::sqlite, share, kills / SHARES);
}

#[test]
fn nothing_acknowledged_is_lost_on_sqlite_1() {
    on_sqlite(1);
}

#[test]
fn nothing_acknowledged_is_lost_on_sqlite_2() {
    on_sqlite(2);
}

#[test]
fn nothing_acknowledged_is_lost_on_sqlite_3() {
    on_sqlite(3);
}

#[test]
fn nothing_acknowledged_is_lost_on_sqlite_4() {
    on_sqlite(4);
}

/// The lock of a dead writer is free, and nothing that it left half-written is seen.
fn others_go_on(world: &World) {
    let mut acknowledged = Acknowledged::new();
    let mut survivor = Running::work(world, 7_000_000);
    for seed in 0..8 {
        let mut victim = Running::work(world, 7_000_001 + seed);
        for _ in 0..=Seeded(seed).below(30) {
            victim.hear(&mut acknowledged);
        }
        victim.kill(&mut acknowledged);
        // What the survivor says first may be from before the kill; it has to get beyond that.
        let before = kept(world);
        while before.contains_key(&survivor.hear(&mut acknowledged)) {}
    }
    survivor.kill(&mut acknowledged);
    assert_kept(world, &acknowledged);
}

#[test]
fn others_go_on_when_one_is_killed_on_sqlite() {
    others_go_on(&World::sqlite());
}

mod needs_postgres {
    use super::*;

    #[test]
    fn nothing_acknowledged_is_lost_on_postgres_1() {
        kill_often(World::postgres, 5, POSTGRES_KILLS / 2);
    }

    #[test]
    fn nothing_acknowledged_is_lost_on_postgres_2() {
        kill_often(World::postgres, 6, POSTGRES_KILLS / 2);
    }

    #[test]
    fn others_go_on_when_one_is_killed_on_postgres() {
        others_go_on(&World::postgres());
    }
}
