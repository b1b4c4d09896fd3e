//! The scripted agent's entry point; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    scripted_agent::play()
}
