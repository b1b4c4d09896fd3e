//! The program's entry: everything is in the library.
//!
//! A keeper is told apart before anything of the command line is touched, because there may be many
//! and each shall be small.

use std::process::ExitCode;

use banksman::exec::keeper;

fn main() -> ExitCode {
    match keeper::folder_in(std::env::args_os()) {
        Some(folder) => keeper::run(&folder),
        None => banksman::cli::run(),
    }
}
