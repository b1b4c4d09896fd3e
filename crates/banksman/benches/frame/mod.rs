//! What the benchmarks have in common: parts that can be chosen by name, how much is measured, and
//! what is printed.
//!
//! Nothing here measures.

pub(crate) mod report;

use std::env;
use std::error::Error;
use std::process::ExitCode;

use self::report::Report;

pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Full,
    Quick,
}

impl Size {
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// A name and what it measures.
pub(crate) type Part = (&'static str, fn(Size, &mut Report) -> Result<(), Fault>);

/// What the benchmark was started with.
pub(crate) fn words() -> Vec<String> {
    // Cargo adds `--bench` of its own accord.
    env::args().skip(1).filter(|word| word != "--bench").collect()
}

/// Measures the parts that the words name, or all of them.
pub(crate) fn run(words: &[String], parts: &[Part]) -> ExitCode {
    let (options, wanted): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| *word == "--quick");
    let size = if options.is_empty() { Size::Full } else { Size::Quick };
    if let Some(unknown) = wanted.iter().find(|word| parts.iter().all(|(name, _)| name != *word)) {
        let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no part `{unknown}`; choose from {}, and --quick", names.join(", "));
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    let chosen = parts.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name));
    for (name, part) in chosen {
        if let Err(fault) = part(size, &mut report) {
            eprintln!("the part `{name}` could not be measured: {fault}");
            return ExitCode::FAILURE;
        }
    }
    report.sum_up();
    ExitCode::SUCCESS
}
