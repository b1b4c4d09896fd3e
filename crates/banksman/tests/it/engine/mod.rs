//! Agents at work, seen from outside: the real program, real git, real keepers, scripted agents.
//!
//! Whatever is killed on the way, at the end every task has ended once, no commit is lost, and no
//! process and no worktree is left over. [`harness`] is the place that a test works in, [`driver`]
//! an engine whose clock a test can move.

mod beside;
pub(crate) mod cutting;
pub(crate) mod driver;
mod failing;
mod faults;
pub(crate) mod harness;
mod held;
mod killing;
mod leaks;
pub(crate) mod machines;
mod printing;
pub(crate) mod processes;
mod steering;
mod torture;
mod unserved;
mod whole;
