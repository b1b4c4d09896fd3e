//! Tests the choice of workers from outside, through its public interface only.
//!
//! `registry` is the worker registry that the rules come from, `reasons` a table of every reason
//! why a task does not start, `words` what people read about it, `laws` what is true for any
//! question, and `simulation` a whole queue at work.

mod laws;
mod reasons;
mod registry;
mod simulation;
mod words;
mod world;
