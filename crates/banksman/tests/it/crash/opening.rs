//! A child is killed while it makes a store.

use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use banksman_core::ids::TaskId;
use sha2::{Digest, Sha256};

use super::child::{OPENED, OPENING, Running, Seeded};
use crate::store::acts::add;
use crate::store::world::World;

const KILLS: u64 = 40;
const PROCESSES: usize = 4;

/// A store that is there or not, but never half of one.
fn assert_usable(world: &World) {
    let store = world.open();
    assert_eq!(add(&store, "the first"), TaskId(1));
    world.assert_sound();
    let mut raw = world.raw();
    assert_eq!(
        raw.number("SELECT count(*) FROM schema_versions"),
        raw.number("SELECT max(version) FROM schema_versions")
    );
}

/// A measure of work instead of a time: how many rounds of hashing the making of a store takes on
/// this machine now.
fn rounds_of_an_opening(begin: impl Fn(&World)) -> u64 {
    let world = World::sqlite();
    begin(&world);
    let mut child = Running::open(&world);
    child.wait_for(OPENING);
    let (opened, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !opened.load(Ordering::Acquire) {
                hash_once(rounds.fetch_add(1, Ordering::Relaxed));
            }
        });
        child.wait_for(OPENED);
        opened.store(true, Ordering::Release);
    });
    child.kill_if_running();
    rounds.into_inner().max(1)
}

fn hash_once(number: u64) {
    std::hint::black_box(Sha256::digest(number.to_be_bytes()));
}

fn kill_while_opening(begin: impl Fn(&World)) {
    let rounds = rounds_of_an_opening(&begin);
    for seed in 0..KILLS {
        let world = World::sqlite();
        begin(&world);
        let mut child = Running::open(&world);
        child.wait_for(OPENING);
        (0..Seeded(seed).below(rounds)).for_each(hash_once);
        child.kill_if_running();
        assert_usable(&world);
    }
}

#[test]
fn a_kill_while_a_new_file_is_made_leaves_no_half_store() {
    kill_while_opening(|world| assert!(!world.file().exists()));
}

#[test]
fn a_kill_while_an_empty_file_is_filled_leaves_no_half_store() {
    kill_while_opening(|world| drop(File::create(world.file()).expect("an empty file")));
}

fn open_together(world: &World) {
    let mut children: Vec<Running> = (0..PROCESSES).map(|_| Running::open(world)).collect();
    for child in &mut children {
        child.wait_for(OPENING);
        child.wait_for(OPENED);
    }
    children.into_iter().for_each(Running::kill_if_running);
    assert_usable(world);
}

#[test]
fn processes_that_make_one_store_together_make_one_on_sqlite() {
    let world = World::sqlite();
    open_together(&world);
    let names = fs::read_dir(world.folder()).expect("the folder is read");
    let drafts = names.filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().contains(".new-")
    });
    assert_eq!(drafts.count(), 0);
}

mod needs_postgres {
    use super::*;

    /// The parent holds a name that the migration needs half-way, so that the child is killed in
    /// the middle of it.
    #[test]
    fn a_kill_in_the_middle_of_the_migration_leaves_no_half_schema() {
        let world = World::postgres();
        let schema = world.options.schema.clone().expect("a schema of its own");
        let mut watch = world.raw();
        watch.run(&format!("CREATE SCHEMA {schema}"));
        for table in ["projects", "runs", "audit"] {
            let mut holder = world.raw();
            holder.run(&format!("BEGIN; CREATE TABLE {table} (held BIGINT)"));
            let mine = holder.number("SELECT pg_backend_pid()");
            let mut child = Running::open(&world);
            child.wait_for(OPENING);
            let waits = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE {mine} = ANY (pg_blocking_pids(pid))"
            );
            // It gets there or the test runs out of its time.
            while watch.number(&waits) == 0 {}
            child.kill_if_running();
            holder.run("ROLLBACK");
            assert_usable(&world);
            let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
            assert!(watch.number(tables) > 10);
            watch.run(&format!("DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"));
        }
    }

    #[test]
    fn processes_that_make_one_store_together_make_one_on_postgres() {
        open_together(&World::postgres());
    }
}
