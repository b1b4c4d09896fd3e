//! `banksman policy`: what agents may do by themselves, how an action is classed, and leave for it.

mod allow;
mod request;
mod show;

use banksman_core::policy::Action;
use clap::{Args, Subcommand};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;

/// What agents may do by themselves, and what they have to ask for
///
/// Each command, path and tool is GREEN, YELLOW or RED by the built-in rules and those of
/// `.banksman/policy.yaml`.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy show
  banksman policy test 'git push --force'
  banksman policy lint
  banksman policy allow d12
")]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Show(show::ShowArgs),
    Lint(show::LintArgs),
    Test(show::TestArgs),
    Request(request::RequestArgs),
    Allow(allow::AllowArgs),
}

/// One action, in one of the ways in which it can be named.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ActionArgs {
    /// A command line
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// A path that is written
    #[arg(long, value_name = "PATH")]
    write: Option<String>,
    /// A path that is read
    #[arg(long, value_name = "PATH")]
    read: Option<String>,
    /// A tool, by its name
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
}

impl ActionArgs {
    fn action(&self) -> Action {
        let Self { command, write, read, tool } = self;
        let named = [
            write.clone().map(Action::Write),
            read.clone().map(Action::Read),
            tool.clone().map(Action::Use),
        ];
        let command = || Action::Run(command.clone().unwrap_or_default());
        named.into_iter().flatten().next().unwrap_or_else(command)
    }
}

pub(super) fn run(context: &Context, args: &PolicyArgs) -> Result<Exit, Failure> {
    match &args.command {
        PolicyCommand::Show(args) => show::show(context, args),
        PolicyCommand::Lint(args) => show::lint(context, args),
        PolicyCommand::Test(args) => show::test(context, args),
        PolicyCommand::Request(args) => request::run(context, args),
        PolicyCommand::Allow(args) => allow::run(context, args),
    }
}
