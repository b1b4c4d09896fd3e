//! What a store promises, each promise written once and kept by both engines.
//!
//! A test is a function over a [`World`](world::World), an empty place for a store; `on_both!` runs
//! it on SQLite and on PostgreSQL, and then looks whether all tasks and all histories of the store
//! it left behind are sound. The PostgreSQL half runs on the server that BANKSMAN_TEST_PG names,
//! each test in a schema of its own.

pub(crate) mod acts;
pub(crate) mod raw;
pub(crate) mod world;

mod accounts;
mod adding;
mod batches;
mod budgets;
mod children;
mod claiming;
mod damage;
pub(crate) mod decisions;
mod dispatching;
mod feed;
mod graces;
mod handles;
mod keys;
mod leases;
mod listing;
mod migrating;
mod model;
mod moving;
mod needs;
mod nodes;
mod notices;
mod outbox;
mod repairing;
mod runs;
mod tampering;
mod timers;
mod views;

/// Runs each test on both engines and checks the store that it leaves behind.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            #[test]
            fn sqlite() {
                let world = $crate::store::world::World::sqlite();
                super::$test(&world);
                world.assert_sound();
            }

            #[test]
            fn needs_postgres() {
                let world = $crate::store::world::World::postgres();
                super::$test(&world);
                world.assert_sound();
            }
        })*
    };
}
pub(crate) use on_both;

/// The same for tests that leave a store damaged on purpose.
macro_rules! on_both_damaging {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            #[test]
            fn sqlite() {
                super::$test(&$crate::store::world::World::sqlite());
            }

            #[test]
            fn needs_postgres() {
                let world = $crate::store::world::World::postgres();
                super::$test(&world);
            }
        })*
    };
}
pub(crate) use on_both_damaging;
