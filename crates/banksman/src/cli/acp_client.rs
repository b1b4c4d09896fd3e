//! `banksman acp-client`: speaks the Agent Client Protocol with one agent on behalf of a keeper.
//!
//! Only keepers call it, so the help does not list it. It prints the run's event stream.

use std::io;
use std::path::Path;

use clap::Args;

use super::{Exit, Failure, Result};
use crate::ops::agents::acp_client;
use crate::ops::error_report::{Code, ErrorReport};

/// Speak the Agent Client Protocol with an agent
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct AcpClientArgs {
    /// Serve file reads and writes to the agent
    #[arg(long)]
    files: bool,
    /// The agent's program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

pub(super) fn run(args: &AcpClientArgs) -> Result<Exit> {
    let here = std::env::current_dir();
    let folder = here.map_err(Failure::file("find the current folder", Path::new(".")))?;
    let (input, mut output) = (io::stdin().lock(), io::stdout().lock());
    match acp_client::run(&args.command, args.files, &folder, input, &mut output) {
        Ok(true) => Ok(Exit::Done),
        Ok(false) => Ok(Exit::Failed),
        // The keeper reads it line by line.
        Err(error) => Err(Failure::input(
            ErrorReport::new(Code::Input, None, &error).one_line(),
            "the agent's own output is above",
        )),
    }
}
