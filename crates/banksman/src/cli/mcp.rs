//! `banksman mcp`: serves the tools of a run to its agent.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Exit, Failure, Result};
use crate::config::{EnvVars, Environment};
use crate::mcp::{McpError, serve};
use crate::ops::reports::RunFolder;

/// Serve the tools of a run to its agent (MCP over stdin and stdout)
///
/// Serves the run whose folder is in BANKSMAN_RUN_FOLDER and whose token is in BANKSMAN_TOKEN.
/// Agents that Banksman starts have these variables and know this server.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  claude --mcp-config '{\"mcpServers\":{\"banksman\":{\"command\":\"banksman\",\"args\":[\"mcp\"]}}}'
")]
pub(super) struct McpArgs {}

pub(super) fn run(_: &McpArgs) -> Result<Exit> {
    let environment = Environment::of_process()?;
    let Some(folder) = environment.get(EnvVars::RUN_FOLDER).map(PathBuf::from) else {
        let message = format!("no run to serve: {} is not set", EnvVars::RUN_FOLDER);
        return Err(Failure::argument(message, "the agent of a run starts this command"));
    };
    if !folder.is_dir() {
        return Err(Failure::file("open", &folder)(io::ErrorKind::NotADirectory.into()));
    }
    let (name, token) = (environment.run(), environment.token_hash());
    let run = RunFolder::open(&folder, name.as_deref(), token.as_deref())?;
    let served = serve(&run, io::stdin().lock(), io::stdout().lock());
    served.map(|()| Exit::Done).map_err(|error| match error {
        McpError::Read(source) => Failure::file("read", Path::new("standard input"))(source),
        McpError::Write(source) => Failure::Output(source),
    })
}
