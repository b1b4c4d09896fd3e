//! The program's entry point; everything else is in the library.
//!
//! It recognises a keeper, and the client that a keeper starts for an agent, before it touches the
//! command line: there may be many of them, and each should stay small.

use std::env::args_os;
use std::process::ExitCode;

use banksman::exec::{agent::acp_client, keeper};

fn main() -> ExitCode {
    if let Some(folder) = keeper::folder_in(args_os()) {
        return keeper::run(&folder);
    }
    acp_client::run_if_named(args_os()).unwrap_or_else(banksman::cli::run)
}
