//! The program's entry: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    banksman::cli::run()
}
