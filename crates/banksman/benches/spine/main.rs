//! The speed of the store, side by side with the database alone.
//!
//! Each comparison runs both sides in turns within one run and prints their ratio, because a ratio
//! survives a busy machine and a time does not. It must never need more than ten minutes, or one
//! with `--quick`. `docs/benchmarks.md` explains each line.

mod bare_postgres;
mod bare_sqlite;
mod claims;
mod cli;
mod fill;
#[path = "../frame/mod.rs"]
mod frame;
mod memory;
mod postgres;
mod program;
mod sample;
mod script;
mod sqlite;
mod status;
mod wake;

use std::process::ExitCode;

use frame::{Fault, Part};

const PARTS: &[Part] = &[
    ("sqlite", sqlite::measure),
    ("postgres", postgres::measure),
    ("claims", claims::measure),
    ("status", status::measure),
    ("wake", wake::measure),
    ("cli", cli::measure),
    ("memory", memory::measure),
];

fn main() -> ExitCode {
    let words = frame::words();
    match wake::Role::from_words(&words) {
        Some(role) => ended(role.serve()),
        None => frame::run(&words, PARTS),
    }
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
