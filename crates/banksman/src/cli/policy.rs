//! `banksman policy`: shows the rules for agents' actions, classifies an action, requests and
//! grants permissions.

mod allow;
mod request;
mod show;

use banksman_core::policy::Action;
use clap::Args;

use super::{Context, NoArgs};

commands! {
    /// Show and test what agents may do without asking
    ///
    /// The built-in rules and those in `.banksman/policy.yaml` classify each command, path and tool
    /// as GREEN, YELLOW or RED.
    #[command(before_long_help = "Examples:
  banksman policy show
  banksman policy test 'git push --force'
  banksman policy lint
  banksman policy allow d12
")]
    pub(super) enum PolicyCommand(&Context) {
        /// List the rules in effect and where they come from
        #[command(before_long_help = "Examples:
  banksman policy show
  banksman policy show --json
")]
        Show(NoArgs) => show::show,
        Lint(show::LintArgs) => show::lint,
        Test(show::TestArgs) => show::test,
        Request(request::RequestArgs) => request::run,
        Allow(allow::AllowArgs) => allow::run,
    }
}

/// One action: a command, a path or a tool.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct ActionArgs {
    /// A command line
    command: Option<String>,
    /// A path to write
    #[arg(long, value_name = "PATH")]
    write: Option<String>,
    /// A path to read
    #[arg(long, value_name = "PATH")]
    read: Option<String>,
    /// The name of a tool
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
