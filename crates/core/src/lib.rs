//! The pure core of Banksman: it makes every decision and performs no action.
//!
//! It has no access to files, clocks, randomness, the environment, threads or logging. Callers pass
//! time and ids as arguments, and decisions are returned as data. Read `lifecycle` first (what a
//! task may do), then `machine` (what happens when a task receives an event).

pub mod backoff;
pub mod closed;
pub mod daily;
pub mod draw;
pub mod failure;
pub mod fence;
pub mod globs;
pub mod ids;
pub mod lifecycle;
pub mod limits;
pub mod loops;
pub mod machine;
mod markdown;
pub mod panel;
pub mod plan;
pub mod policy;
pub mod prompt;
pub mod quota;
pub mod receipt;
pub mod schedule;
pub mod text;
pub mod time;
pub mod workflow;
mod yaml;
