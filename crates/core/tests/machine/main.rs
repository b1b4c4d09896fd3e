//! Proves the machine from outside, through its public door only.
//!
//! `world` keeps what a store would keep of one task and holds every answer against `laws` and
//! `standing`; nothing here may reach around it, so that each behaviour test is a test of all laws
//! as well. `play` draws random events, `random` and `ends` run them over every built-in lifecycle;
//! the other files say what a certain lifecycle or rule must do.

mod autonomous;
mod counting;
mod ends;
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
mod seat;
mod sizes;
mod standing;
mod step;
mod supervised;
mod table;
mod walk;
mod wording;
mod workflow;
mod world;
