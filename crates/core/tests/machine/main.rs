//! Tests the machine from outside, through its public interface only.
//!
//! `world` keeps what a store would keep of one task and checks every result against `laws` and
//! `standing`. No test bypasses it, so each behaviour test also tests all laws. `play` generates
//! random events, `random` and `ends` run them over every built-in lifecycle; the other files state
//! what a certain lifecycle or rule must do.

mod autonomous;
mod children;
mod counting;
mod ends;
mod facts;
mod giving;
mod judged;
mod late;
mod laws;
mod leave;
mod mission;
mod parts;
mod play;
mod questions;
mod queue;
mod random;
mod ranks;
mod reports;
mod review;
mod sizes;
mod standing;
mod step;
mod supervised;
mod table;
mod walk;
mod wording;
mod workflow;
mod world;
