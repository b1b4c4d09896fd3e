//! `banksman decisions`: lists open decisions, shows one in full, and answers them.

mod answer;
pub(super) mod show;
mod triage;

use banksman_core::time::{Instant, Span};
use clap::Args;

use super::arguments::ActorArgs;
use super::output::{cells, table};
use super::symbols::{Symbols, first_line, format_span, local};
use super::{Context, Exit, Result};
use crate::api::decision::{Decision, Inbox, Snoozed};
use crate::ops::decisions::{self, DecisionRef, InboxItem, UNDO_WINDOW};
use crate::store::answers::PendingAnswer;
use crate::store::query::PAGE;

/// List the open decisions, and answer them
///
/// Without a subcommand it lists the open decisions, the most urgent deadline first. `!!` marks
/// escalated decisions.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(before_long_help = "Examples:
  banksman decisions
  banksman decisions --escalated
  banksman decisions show d12
  banksman decisions approve d12 --note 'proceed with caution'
  banksman decisions changes d12 'need a spike on X first'
  banksman decisions triage              answer each with one key
")]
pub(super) struct DecisionsArgs {
    #[command(subcommand)]
    command: Option<DecisionsCommand>,
    /// Only escalated decisions
    #[arg(long)]
    escalated: bool,
    /// Also snoozed decisions
    #[arg(long)]
    snoozed: bool,
}

commands! {
    enum DecisionsCommand(&Context) {
        Show(show::ShowArgs) => show::run,
        /// Approve
        #[command(before_long_help = "Examples:
  banksman decisions approve d12
  banksman decisions approve d12 --note 'proceed with caution'
  banksman decisions approve d12 d13 d14
  banksman decisions approve --all
")]
        Approve(answer::AnswerArgs) => |context, args| answer::run(context, "approve", args),
        /// Allow exactly what the agent asked for, and continue
        #[command(before_long_help = "Examples:
  banksman decisions allow d12
")]
        Allow(answer::AnswerArgs) => |context, args| answer::run(context, "allow", args),
        /// Continue without granting the permission
        #[command(before_long_help = "Examples:
  banksman decisions resume d12
  banksman decisions resume d12 'find another way'
")]
        Resume(answer::AnswerArgs) => |context, args| answer::run(context, "resume", args),
        /// Request changes, and say which
        #[command(before_long_help = "Examples:
  banksman decisions changes d12 'need a spike on X first'
")]
        Changes(answer::AnswerArgs) => |context, args| answer::run(context, "changes", args),
        /// Send the task back to the queue
        #[command(before_long_help = "Examples:
  banksman decisions back d12
")]
        Back(answer::AnswerArgs) => |context, args| answer::run(context, "back", args),
        /// Put the task aside
        #[command(before_long_help = "Examples:
  banksman decisions backburner d12
")]
        Backburner(answer::AnswerArgs) => |context, args| answer::run(context, "backburner", args),
        /// Cancel the task, and say why
        #[command(before_long_help = "Examples:
  banksman decisions cancel d12 'out of scope'
")]
        Cancel(answer::AnswerArgs) => |context, args| answer::run(context, "cancel", args),
        /// Merge the work
        #[command(before_long_help = "Examples:
  banksman decisions merge d12
")]
        Merge(answer::AnswerArgs) => |context, args| answer::run(context, "merge", args),
        Answer(answer::AnyArgs) => answer::run_any,
        Snooze(SnoozeArgs) => snooze,
        Undo(UndoArgs) => undo,
        Triage(triage::TriageArgs) => triage::run,
    }
}

/// Snooze a decision: hide it from the list and delay its reminders
///
/// The deadline stays; the snooze must end before it.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions snooze d12 2h
")]
struct SnoozeArgs {
    /// The decision or its task
    #[arg(value_name = "ID")]
    which: DecisionRef,
    /// For how long, such as 30min, 2h or 1d
    span: Span,
}

/// Undo your last answer, or the named one
///
/// An answer takes effect after `decisions.grace`, 10 seconds unless set; until then, undo simply
/// removes it. Within five minutes, if the task has not changed since, undo moves it back with an
/// ordinary transition that the lifecycle allows people, recorded with the key `undo-d12`. If there
/// is no such transition, undo changes nothing.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions undo           undo your last answer
  banksman decisions undo d12
")]
struct UndoArgs {
    /// The decision or its task [default: your last answer]
    #[arg(value_name = "ID")]
    which: Option<DecisionRef>,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &DecisionsArgs) -> Result<Exit> {
    match &args.command {
        None => list(context, args),
        Some(command) => DecisionsCommand::run(context, command),
    }
}

fn list(context: &Context, args: &DecisionsArgs) -> Result<Exit> {
    let session = context.session()?;
    let now = session.now(context.now)?;
    let mut items = decisions::inbox(&session, context.project_flag.as_deref(), context.now)?;
    items.retain(|item| item.escalated || !args.escalated);
    let all = items.len();
    items.retain(|item| args.snoozed || !item.is_snoozed(now));
    let snoozed = all - items.len();
    if i64::try_from(all).is_ok_and(|all| all >= PAGE) {
        context.out.say(&format!("only the first {PAGE} are read"));
    }
    context.out.answer(
        || Inbox { decisions: items.iter().map(Decision::new).collect(), snoozed },
        || match context.out.quiet {
            true => items.iter().map(|item| format!("{}\n", item.decision.id)).collect(),
            false => text(context.out.symbols, &items, now),
        },
    )?;
    if snoozed > 0 {
        context.out.say(&format!("{snoozed} snoozed (--snoozed shows them)"));
    }
    if let Some(first) = items.first() {
        let id = first.decision.id;
        context.out.next(&[&format!("decisions show {id}"), "decisions triage"]);
    }
    Ok(Exit::Done)
}

fn text(symbols: Symbols, items: &[InboxItem], now: Instant) -> String {
    if items.is_empty() {
        return "no open decisions\n".to_owned();
    }
    let row = |item: &InboxItem| {
        let (decision, then) = (&item.decision, item.consequence.as_ref());
        let actions: Vec<&str> = item.possible().map(|offer| offer.action.as_str()).collect();
        let actions = match &decision.answer {
            Some(PendingAnswer { given, due }) => {
                let at = local(*due);
                format!("answered by {}: {}, takes effect at {at}", given.by, given.action)
            }
            None => actions.join(" "),
        };
        cells([
            &mark(item),
            &decision.id,
            &decision.task,
            &format_span(now.since(decision.opened_at)),
            &decision.deadline.map(|at| format_span(at.since(now))).unwrap_or_default(),
            &then.map(|then| format!("{} {}", symbols.arrow(), then.to)).unwrap_or_default(),
            &actions,
            &format!("{}: {}", first_line(&item.title()), first_line(decision.text())),
        ])
    };
    table(["", "ID", "TASK", "SINCE", "LEFT", "THEN", "ACTIONS", "QUESTION"], items.iter().map(row))
}

fn mark(item: &InboxItem) -> &'static str {
    if item.escalated { "!!" } else { "!" }
}

fn snooze(context: &Context, args: &SnoozeArgs) -> Result<Exit> {
    let session = context.session()?;
    let decision = decisions::snooze(&session, args.which, args.span, context.now)?;
    let (id, until) = (decision.id, decision.snoozed_until);
    context.out.answer(
        || Snoozed::new(&decision),
        || {
            let until = until.map(local).unwrap_or_default();
            let due = decision.deadline.map(|at| format!("; due at {}", local(at)));
            format!("{id} is snoozed until {until}{}\n", due.unwrap_or_default())
        },
    )
}

fn undo(context: &Context, args: &UndoArgs) -> Result<Exit> {
    let session = context.session_as(&args.actor)?;
    let undone = decisions::undo(&session, args.which, UNDO_WINDOW, context.now)?;
    answer::print_answer(context, &session, undone)
}
