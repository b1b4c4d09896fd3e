//! Plans, with the real engine, real keepers and scripted agents: iterations, the proposal that a
//! person approves, the subtasks that come of it, and what becomes of the parent when one of them
//! fails.

mod advising;
mod carrying_out;
pub(crate) mod desk;
mod failing;
mod iterating;
mod killing;
mod merging;
mod parts;
mod taking_back;
