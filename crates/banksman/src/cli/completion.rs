//! `banksman completion`: prints a shell completion script.

use clap::Args;
use clap_complete::Shell;

use super::{Exit, Failure, Output, Result, command};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman completion bash > ~/.local/share/bash-completion/completions/banksman
  banksman completion zsh > ~/.zfunc/_banksman
  banksman completion fish > ~/.config/fish/completions/banksman.fish
")]
pub(super) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(out: Output, args: &CompletionArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "banksman", &mut script);
    out.stream(|stdout| stdout.write_all(&script).map_err(Failure::Output))
}
