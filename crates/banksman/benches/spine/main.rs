//! The speed of the store, side by side with the database alone.
//!
//! Each comparison runs both sides in turns within one run and prints their ratio, because a ratio survives a busy
//! machine and a time does not. It must never need more than ten minutes, or one with `--quick`.
//! `docs/benchmarks.md` explains each line.

mod bare_postgres;
mod bare_sqlite;
mod claims;
mod cli;
mod fill;
mod memory;
mod postgres;
mod program;
mod report;
mod sample;
mod script;
mod sqlite;
mod status;
mod wake;

use std::env;
use std::process::ExitCode;

use report::Report;
use sample::Fault;

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

const PARTS: &[(&str, Part)] = &[
    ("sqlite", sqlite::measure),
    ("postgres", postgres::measure),
    ("claims", claims::measure),
    ("status", status::measure),
    ("wake", wake::measure),
    ("cli", cli::measure),
    ("memory", memory::measure),
];

fn main() -> ExitCode {
    // Cargo adds `--bench` of its own accord.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some(role) = wake::Role::from_words(&words) {
        return ended(role.serve());
    }
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

fn ended(result: Result<(), Fault>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}
