//! The command line: each command parses its arguments, calls one use case, and shows the result.
//!
//! One file per command. Commands decide nothing about a task, and only `context` opens a store.
//! Output goes through `output` and failures through `failure`, so that data is on stdout, messages
//! are on stderr, and exit codes are stable.

/// Declares subcommands: the arguments of each, and the function that runs it.
macro_rules! commands {
    ($(#[$meta:meta])* $vis:vis enum $name:ident($input:ty) {
        $($(#[$about:meta])* $command:ident($args:ty) => $run:expr,)+
    }) => {
        #[derive(Debug, clap::Subcommand)]
        $(#[$meta])*
        $vis enum $name {
            $($(#[$about])* $command($args),)+
        }

        impl $name {
            $vis fn run(input: $input, command: &Self) -> crate::cli::Result<crate::cli::Exit> {
                match command {
                    $(Self::$command(args) => $run(input, args),)+
                }
            }
        }
    };
}

mod add;
mod agents;
mod arguments;
mod attach;
mod audit;
mod batch;
mod changes;
mod check;
mod completion;
mod config;
mod context;
mod daily;
mod decisions;
mod demo;
mod down;
mod drawing;
mod exit;
mod export;
mod facts;
mod failure;
mod files;
mod help;
mod hints;
mod history;
mod import;
mod init;
mod lifecycle;
mod list;
mod log;
mod man;
mod mcp;
mod moves;
mod output;
mod pause;
mod policy;
mod prompts;
mod report;
mod show;
mod status;
mod steer;
mod symbols;
mod terminal;
mod up;
mod version;
mod why;
mod workers;
mod workflow;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::Color;
use arguments::NoArgs;
use context::Context;
use exit::Exit;
use failure::{Failure, Result};
use output::Output;
use symbols::Symbols;

/// Examples come before the options, because people look for them first.
const TEMPLATE: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

#[derive(Debug, Parser)]
#[command(
    name = "banksman",
    version,
    about = "A control plane for autonomous coding agents",
    disable_help_subcommand = true
)]
#[command(before_long_help = "Examples:
  banksman init                            set up Banksman in this repository
  banksman add 'Fix the login' --tag bug   add a task
  banksman list --state queued             list the tasks that wait for a worker
  banksman show t1                         show everything about one task
  banksman why t1                          explain what it waits for
  banksman up                              run agents
  banksman log t1 -f                       follow the agent of a task
")]
#[command(after_help = "Topics: banksman help exit-codes, environment, states, formatting")]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Write the answer as JSON to stdout
    #[arg(long, global = true)]
    json: bool,
    /// The store: a path, or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// The project of a new task, or the only project to show
    #[arg(long, global = true, value_name = "NAME")]
    project: Option<String>,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_parser = Color::NAMES)]
    color: Option<String>,
    /// Print only the essentials, such as ids
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Work(Box<Work>),
    #[command(flatten)]
    Guide(Guide),
    // It is started on behalf of a run and needs neither settings nor a store.
    Mcp(mcp::McpArgs),
}

commands! {
    /// Commands that need the settings; most of them also open the store.
    enum Work(&Context) {
        Demo(demo::DemoArgs) => demo::run,
        Init(init::InitArgs) => init::run,
        Add(add::AddArgs) => add::run,
        List(list::ListArgs) => list::run,
        Show(show::ShowArgs) => show::run,
        Move(moves::MoveArgs) => moves::run,
        Override(facts::OverrideArgs) => facts::run,
        History(history::HistoryArgs) => history::run,
        Changes(changes::ChangesArgs) => changes::run,
        Why(why::WhyArgs) => why::run,
        Status(status::StatusArgs) => status::run,
        Log(log::LogArgs) => log::run,
        Attach(attach::AttachArgs) => attach::run,
        Up(up::UpArgs) => up::up,
        Down(down::DownArgs) => down::run,
        Pulse(up::PulseArgs) => up::pulse,
        Pause(pause::PauseArgs) => pause::pause,
        Resume(pause::ResumeArgs) => pause::resume,
        Retry(steer::RetryArgs) => steer::retry,
        Unblock(steer::UnblockArgs) => steer::unblock,
        Cancel(steer::CancelArgs) => steer::cancel,
        Escalate(steer::EscalateArgs) => steer::escalate,
        Decisions(decisions::DecisionsArgs) => decisions::run,
        Daily(daily::DailyArgs) => daily::run,
        #[command(subcommand)]
        Policy(policy::PolicyCommand) => policy::PolicyCommand::run,
        #[command(subcommand)]
        Batch(batch::BatchCommand) => batch::BatchCommand::run,
        Workers(workers::WorkersArgs) => workers::workers,
        #[command(subcommand)]
        Accounts(workers::AccountsCommand) => workers::AccountsCommand::run,
        Check(check::CheckArgs) => check::run,
        #[command(subcommand)]
        Lifecycle(lifecycle::LifecycleCommand) => lifecycle::LifecycleCommand::run,
        #[command(subcommand)]
        Workflow(workflow::WorkflowCommand) => workflow::WorkflowCommand::run,
        #[command(subcommand)]
        Prompts(prompts::PromptsCommand) => prompts::PromptsCommand::run,
        #[command(subcommand)]
        Audit(audit::AuditCommand) => audit::AuditCommand::run,
        Import(import::ImportArgs) => import::run,
        Export(export::ExportArgs) => export::run,
        #[command(subcommand)]
        Agents(agents::AgentsCommand) => agents::AgentsCommand::run,
        #[command(subcommand)]
        Config(config::ConfigCommand) => config::ConfigCommand::run,
        #[command(hide = true)]
        Renew(up::RenewArgs) => up::renew,
    }
}

commands! {
    /// Commands about the program itself. They read no settings, so that invalid settings cannot
    /// break them.
    enum Guide(Output) {
        Completion(completion::CompletionArgs) => completion::run,
        Man(man::ManArgs) => man::run,
        Help(help::HelpArgs) => help::run,
        Version(version::VersionArgs) => version::run,
    }
}

/// Runs the program with the arguments and the environment of the process.
pub fn run() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let options = args.iter().take_while(|arg| *arg != "--");
    let mut out = plain(options.into_iter().any(|arg| arg == "--json"));
    let matches = command().try_get_matches_from(&args);
    let outcome = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => execute(&cli, &mut out),
        // Help or the version: the user asked for it, so it goes to stdout.
        Err(error) if error.exit_code() == 0 => out.text(&error.render().ansi().to_string()),
        Err(error) => Err(Failure::Usage(Box::new(error))),
    };
    outcome.unwrap_or_else(|failure| report::report(&failure, out)).into()
}

/// The complete command line as data, for parsing, help, completions and manual pages.
fn command() -> clap::Command {
    with_template(Cli::command())
}

/// Subcommands are nested at most two levels deep.
fn with_template(command: clap::Command) -> clap::Command {
    command.help_template(TEMPLATE).mut_subcommands(with_template)
}

/// Sets the colours of messages as soon as the settings say them.
fn execute(cli: &Cli, out: &mut Output) -> Result<Exit> {
    match &cli.command {
        Command::Work(work) => {
            let context = Context::new(&cli.global)?;
            out.color = context.out.color;
            let exit = Work::run(&context, work);
            context.warn_of_damage();
            exit
        }
        Command::Guide(guide) => Guide::run(plain(cli.global.json), guide),
        Command::Mcp(args) => mcp::run(args),
    }
}

/// The output format before any settings are read.
fn plain(json: bool) -> Output {
    Output { json, quiet: false, color: anstream::ColorChoice::Auto, symbols: Symbols::Ascii }
}
