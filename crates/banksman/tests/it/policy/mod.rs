//! The policy around agents, seen from outside: what they are stopped at, who may allow it, and
//! what is on record of it.

mod allowing;
mod asking;
mod deciding;
mod killing;
mod looping;
mod missions;
mod reading;
