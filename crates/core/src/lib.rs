//! The pure core of Banksman.
//!
//! It decides and never acts: no files, clock, randomness, environment, threads or logging.
//! Time and ids come in as arguments, decisions go out as data. Read `lifecycle` first (what a
//! task may do), then `machine` (what happens when an event meets a task).

pub mod backoff;
pub mod daily;
mod draw;
pub mod failure;
pub mod fence;
pub mod globs;
pub mod ids;
pub mod lifecycle;
pub mod limits;
pub mod loops;
pub mod machine;
pub mod panel;
pub mod plan;
pub mod policy;
pub mod prompt;
pub mod quota;
pub mod receipt;
pub mod schedule;
pub mod time;
pub mod workflow;
mod yaml;
