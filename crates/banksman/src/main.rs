//! The program's entry point; everything else is in the library.
//!
//! It recognises a keeper before it touches the command line: there may be many keepers, and each
//! should stay small.

use std::process::ExitCode;

use banksman::exec::keeper;

fn main() -> ExitCode {
    match keeper::folder_in(std::env::args_os()) {
        Some(folder) => keeper::run(&folder),
        None => banksman::cli::run(),
    }
}
