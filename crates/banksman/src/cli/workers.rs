//! `banksman workers` and `accounts`: lists the workers of all machines, and the paused provider
//! accounts.

use banksman_core::schedule::Worker;
use banksman_core::time::Instant;
use clap::Args;

use super::output::{cells, table};
use super::symbols::{local, rough_span};
use super::{Context, Exit, Failure, NoArgs, Result};
use crate::api;
use crate::api::worker::{Account, Node as NodeDocument, ResumedAccount};
use crate::ops::capacity;
use crate::store::accounts::AccountRow;
use crate::store::nodes::Node;
use crate::store::runs::OpenRun;

/// List the workers of all machines
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workers
  banksman workers --json
  banksman workers --forget old-laptop
")]
pub(super) struct WorkersArgs {
    /// Remove a machine that is gone for good; work that only it could do, such as merging its
    /// branches, becomes available to all
    #[arg(long, value_name = "NODE")]
    forget: Option<String>,
    /// Accepted for consistency with other lists
    #[arg(value_name = "list", value_parser = ["list"], hide = true)]
    _list: Option<String>,
}

commands! {
    /// List and resume paused provider accounts
    #[command(before_long_help = "Examples:
  banksman accounts list
  banksman accounts resume anthropic
")]
    pub(super) enum AccountsCommand(&Context) {
        /// List accounts that were paused, and until when
        #[command(before_long_help = "Examples:
  banksman accounts list
")]
        List(NoArgs) => list,
        Resume(ResumeArgs) => resume,
    }
}

/// End the pause of an account now
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman accounts resume anthropic
")]
pub(super) struct ResumeArgs {
    /// The account
    name: String,
}

pub(super) fn workers(context: &Context, args: &WorkersArgs) -> Result<Exit> {
    let session = context.session()?;
    if let Some(name) = &args.forget {
        if !capacity::forget_machine(&session, name)? {
            let message = format!("no machine `{name}` is known to this store");
            return Err(Failure::unknown(message, "`banksman workers` lists the machines"));
        }
        context.out.say(&format!(
            "removed {name}; other machines take over its runs when their leases expire"
        ));
    }
    let (nodes, runs) = capacity::machines(&session)?;
    let now = session.now(context.now)?;
    let document = |node| {
        NodeDocument::new(node, node.is_live(now), &|worker| running_count(node, worker, &runs))
    };
    context
        .out
        .answer(|| api::list("nodes", nodes.iter().map(document)), || text(&nodes, &runs, now))?;
    if nodes.is_empty() {
        context.out.say("no machine has used this store yet");
        context.out.next(&["up"]);
    }
    Ok(Exit::Done)
}

fn running_count(node: &Node, worker: &Worker, runs: &[OpenRun]) -> usize {
    let is_its =
        |run: &&OpenRun| run.node.as_deref() == Some(&node.name) && run.worker == worker.name;
    runs.iter().filter(is_its).count()
}

fn text(nodes: &[Node], runs: &[OpenRun], now: Instant) -> String {
    let row = |node: &Node, worker: &Worker| {
        let seen = if node.is_live(now) { "live" } else { "gone" };
        let busy = format!("{} of {}", running_count(node, worker, runs), worker.max_concurrent);
        let capabilities: Vec<&str> = worker.capabilities.iter().map(String::as_str).collect();
        cells([
            &worker.name,
            &node.name,
            &seen,
            &busy,
            &worker.cost,
            &worker.speed,
            &worker.account,
            &capabilities.join(" "),
        ])
    };
    let rows =
        nodes.iter().flat_map(|node| node.workers.iter().map(move |worker| row(node, worker)));
    table(["WORKER", "NODE", "", "RUNNING", "COST", "SPEED", "ACCOUNT", "CAPABILITIES"], rows)
}

fn resume(context: &Context, args: &ResumeArgs) -> Result<Exit> {
    let name = &args.name;
    if !capacity::resume_account(&context.session()?, name)? {
        let message = format!("the account `{name}` was never paused");
        let hint = "`banksman accounts list` lists the accounts that were";
        return Err(Failure::unknown(message, hint));
    }
    context.out.answer(|| ResumedAccount::new(name), || format!("resumed account {name}\n"))
}

fn list(context: &Context, _: &NoArgs) -> Result<Exit> {
    let accounts = capacity::accounts(&context.session()?)?;
    let now = context.now;
    context.out.answer(
        || api::list("accounts", accounts.iter().map(Account::new)),
        || match accounts.as_slice() {
            [] => "no account was ever paused\n".to_owned(),
            accounts => paused(accounts, now),
        },
    )
}

fn paused(accounts: &[(String, AccountRow)], now: Instant) -> String {
    let row = |(name, row): &(String, AccountRow)| {
        let state = match row.paused_until {
            Some(until) => {
                format!("paused until {} ({})", local(until), rough_span(until.since(now)))
            }
            None if row.probing => "one trial run first".to_owned(),
            None => "in use".to_owned(),
        };
        cells([name, &state, &row.reason])
    };
    table(["ACCOUNT", "STATE", "LAST REASON"], accounts.iter().map(row))
}
