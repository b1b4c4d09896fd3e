//! Proves the choice of workers from outside, through its public door only.
//!
//! `registry` is the worker registry that the rules come from, `reasons` a table of everything that
//! holds a task back, `words` what people read about it, `laws` what is true for any question, and
//! `simulation` a whole queue at work.

mod laws;
mod reasons;
mod registry;
mod simulation;
mod words;
mod world;
