//! The command line: each command parses its arguments, calls one use case, and shows the result.
//!
//! One file per command. Commands decide nothing about a task, and only `context` opens a store.
//! Output goes through `output` and failures through `failure`, so that data is on stdout, messages
//! are on stderr, and exit codes are stable.

mod acp_client;
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

use crate::config::COLORS;
use context::Context;
use exit::Exit;
use failure::Failure;
use output::Output;
use report::ErrorFormat;
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
    #[arg(long, global = true, value_name = "WHEN", value_parser = COLORS.to_vec())]
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
    #[command(flatten)]
    Run(Run),
}

/// Commands that need the settings; most of them also open the store.
#[derive(Debug, Subcommand)]
enum Work {
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Add(add::AddArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Move(moves::MoveArgs),
    History(history::HistoryArgs),
    Changes(changes::ChangesArgs),
    Why(why::WhyArgs),
    Status(status::StatusArgs),
    Log(log::LogArgs),
    Attach(attach::AttachArgs),
    Up(up::UpArgs),
    Down(down::DownArgs),
    Pulse(up::PulseArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Retry(steer::RetryArgs),
    Unblock(steer::UnblockArgs),
    Cancel(steer::CancelArgs),
    Escalate(steer::EscalateArgs),
    Decisions(decisions::DecisionsArgs),
    Daily(daily::DailyArgs),
    Policy(policy::PolicyArgs),
    Batch(batch::BatchArgs),
    Workers(workers::WorkersArgs),
    Accounts(workers::AccountsArgs),
    Check(check::CheckArgs),
    Lifecycle(lifecycle::LifecycleArgs),
    Workflow(workflow::WorkflowArgs),
    Prompts(prompts::PromptsArgs),
    Audit(audit::AuditArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Agents(agents::AgentsArgs),
    Config(config::ConfigArgs),
    #[command(hide = true)]
    Renew(up::RenewArgs),
}

/// Commands about the program itself. They read no settings, so that invalid settings cannot break
/// them.
#[derive(Debug, Subcommand)]
enum Guide {
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
    Help(help::HelpArgs),
    Version(version::VersionArgs),
}

/// Commands that are started on behalf of a run. They need neither settings nor a store.
#[derive(Debug, Subcommand)]
enum Run {
    Mcp(mcp::McpArgs),
    AcpClient(acp_client::AcpClientArgs),
}

/// Runs the program with the arguments and the environment of the process.
#[must_use]
pub fn run() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let options = args.iter().take_while(|arg| *arg != "--");
    let mut error_format = ErrorFormat {
        json: options.into_iter().any(|arg| arg == "--json"),
        color: anstream::ColorChoice::Auto,
    };
    let outcome = parse(&args).and_then(|parsed| match parsed {
        Parsed::Text(text) => plain(error_format.json).text(&text).map(|()| Exit::Done),
        Parsed::Cli(cli) => execute(&cli, &mut error_format),
    });
    outcome.unwrap_or_else(|failure| report::report(&failure, error_format)).into()
}

enum Parsed {
    Cli(Box<Cli>),
    /// Help or the version: the user asked for it, so it goes to stdout.
    Text(String),
}

fn parse(args: &[OsString]) -> Result<Parsed, Failure> {
    let matches = command().try_get_matches_from(args);
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(Parsed::Cli(Box::new(cli))),
        Err(error) if error.exit_code() == 0 => Ok(Parsed::Text(error.render().ansi().to_string())),
        Err(error) => Err(Failure::Usage(Box::new(error))),
    }
}

/// The complete command line as data, for parsing, help, completions and manual pages.
fn command() -> clap::Command {
    with_template(Cli::command())
}

/// Subcommands are nested at most two levels deep.
fn with_template(command: clap::Command) -> clap::Command {
    command.help_template(TEMPLATE).mut_subcommands(with_template)
}

fn execute(cli: &Cli, error_format: &mut ErrorFormat) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Work(work) => {
            let context = Context::new(&cli.global)?;
            error_format.color = context.out.color;
            work.run(&context)
        }
        Command::Guide(guide) => guide.run(plain(cli.global.json)),
        Command::Run(Run::Mcp(args)) => mcp::run(args),
        Command::Run(Run::AcpClient(args)) => acp_client::run(args),
    }
}

impl Work {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::Demo(args) => demo::run(context, args),
            Self::Init(args) => init::run(context, args),
            Self::Add(args) => add::run(context, args),
            Self::List(args) => list::run(context, args),
            Self::Show(args) => show::run(context, args),
            Self::Move(args) => moves::run(context, args),
            Self::History(args) => history::run(context, args),
            Self::Changes(args) => changes::run(context, args),
            Self::Why(args) => why::run(context, args),
            Self::Status(args) => status::run(context, args),
            Self::Log(args) => log::run(context, args),
            Self::Attach(args) => attach::run(context, args),
            Self::Up(args) => up::up(context, args),
            Self::Down(args) => down::run(context, args),
            Self::Pulse(args) => up::pulse(context, args),
            Self::Pause(args) => pause::pause(context, args),
            Self::Resume(args) => pause::resume(context, args),
            Self::Retry(args) => steer::retry(context, args),
            Self::Unblock(args) => steer::unblock(context, args),
            Self::Cancel(args) => steer::cancel(context, args),
            Self::Escalate(args) => steer::escalate(context, args),
            Self::Decisions(args) => decisions::run(context, args),
            Self::Daily(args) => daily::run(context, args),
            Self::Policy(args) => policy::run(context, args),
            Self::Batch(args) => batch::run(context, args),
            Self::Workers(args) => workers::workers(context, args),
            Self::Accounts(args) => workers::accounts(context, args),
            Self::Check(args) => check::run(context, args),
            Self::Lifecycle(args) => lifecycle::run(context, args),
            Self::Workflow(args) => workflow::run(context, args),
            Self::Prompts(args) => prompts::run(context, args),
            Self::Audit(args) => audit::run(context, args),
            Self::Import(args) => import::run(context, args),
            Self::Export(args) => export::run(context, args),
            Self::Agents(args) => agents::run(context, args),
            Self::Config(args) => config::run(context, args),
            Self::Renew(args) => up::renew(context, args),
        }
    }
}

impl Guide {
    fn run(&self, out: Output) -> Result<Exit, Failure> {
        match self {
            Self::Completion(args) => completion::run(out, args),
            Self::Man(args) => man::run(out, args),
            Self::Help(args) => help::run(out, args),
            Self::Version(args) => version::run(out, args),
        }
    }
}

/// The output format before any settings are read.
fn plain(json: bool) -> Output {
    Output { json, quiet: false, color: anstream::ColorChoice::Auto, symbols: Symbols::Ascii }
}
