//! What the control plane costs while agents are at work: the way from a claim to an agent, many agents at once, a turn on a
//! large store, and doing nothing.
//!
//! Agents are shell scripts that mostly sleep, so what is counted is ours. It must never need more than five minutes, or one
//! with `--quick`. `docs/benchmarks.md` explains each line.

mod crowd;
mod place;
mod processes;
#[path = "../spine/report.rs"]
mod report;
mod start;
mod turn;

use std::env;
use std::process::ExitCode;

use place::Fault;
use report::Report;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Full,
    Quick,
}

impl Size {
    fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

type Part = fn(Size, &mut Report) -> Result<(), Fault>;

const PARTS: &[(&str, Part)] =
    &[("start", start::measure), ("turn", turn::measure), ("crowd", crowd::measure)];

fn main() -> ExitCode {
    // Cargo adds `--bench` of its own accord.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let size = if words.iter().any(|word| word == "--quick") { Size::Quick } else { Size::Full };
    let wanted: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| *word != "--quick").collect();
    if let Some(unknown) = wanted.iter().find(|word| PARTS.iter().all(|(name, _)| name != *word)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no part `{unknown}`; choose from {}, and --quick", names.join(", "));
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    let chosen = PARTS.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name));
    for (name, part) in chosen {
        if let Err(fault) = part(size, &mut report) {
            eprintln!("the part `{name}` could not be measured: {fault}");
            return ExitCode::FAILURE;
        }
    }
    report.sum_up();
    ExitCode::SUCCESS
}
