//! What the control plane costs while agents are at work: the way from a claim to an agent, many
//! agents at once, a workflow of many steps, a turn on a large store, and doing nothing.
//!
//! Agents are shell scripts that mostly sleep, so what is counted is ours. It must never need more
//! than five minutes, or one with `--quick`. `docs/benchmarks.md` explains each line.

mod crowd;
#[path = "../frame/mod.rs"]
mod frame;
mod orchestration;
mod place;
mod processes;
mod start;
mod turn;
mod workflow;

use std::process::ExitCode;

use frame::Part;

const PARTS: &[Part] = &[
    ("start", start::measure),
    ("turn", turn::measure),
    ("crowd", crowd::measure),
    ("workflow", workflow::measure),
    ("orchestration", orchestration::measure),
];

fn main() -> ExitCode {
    frame::run(&frame::words(), PARTS)
}
