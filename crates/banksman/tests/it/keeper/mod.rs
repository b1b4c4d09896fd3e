//! Keepers as they are: real processes with shell scripts as agents, looked at from outside.

mod beginning;
mod crash;
mod ending;
mod lease;
mod limits;
mod output;
mod running;
mod site;
mod steps;
pub(crate) mod world;
