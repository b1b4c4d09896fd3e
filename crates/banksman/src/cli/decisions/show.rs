//! `banksman decisions show`: everything needed to decide, on one page. Objections come first.

use std::collections::BTreeSet;
use std::iter;

use banksman_core::failure::ProofLevel;
use banksman_core::ids::RunId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::AnswerName;
use banksman_core::machine::Spent;
use banksman_core::plan::proposal::{section_of, without_section};
use banksman_core::time::Instant;
use clap::Args;

use super::mark;
use crate::api::decision::{self, Question};
use crate::cli::arguments::ActorArgs;
use crate::cli::output::{self, cells, sanitize, sanitize_lines, section};
use crate::cli::symbols::{
    Symbols, counted, first_line, format_cost, format_span, format_usage, local,
};
use crate::cli::{Context, Exit, Result, hints};
use crate::ops::decisions::{
    self, DecisionDetail, DecisionRef, Diff, Offer, ReviewerVerdict, WorkRecord,
};
use crate::store::answers::PendingAnswer;
use crate::store::runs::PastRun;

/// Show everything needed to decide
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions show d12
  banksman decisions show t12 --json
")]
pub(super) struct ShowArgs {
    /// The decision or its task
    #[arg(value_name = "ID")]
    which: DecisionRef,
    #[command(flatten)]
    actor: ActorArgs,
}

/// How much of a long text is shown; `banksman show` prints all of it.
const EXCERPT_CHARS: usize = 2_000;
/// How many runs are shown.
const RUNS: usize = 3;

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let session = context.session_as(&args.actor)?;
    let question = decisions::question(&session, args.which, context.now)?;
    let diff = Diff::of(&question, &context.config.agents);
    let command = diff.as_ref().map(Diff::command);
    let now = session.now(context.now)?;
    context.out.answer(
        || {
            let first = question.remedy.as_ref().map(hints::next_step);
            Question::new(&question, command.as_deref(), first)
        },
        || page(context.out.symbols, &question, command.as_deref(), now),
    )?;
    let next = next(&question);
    Ok(context.out.next(&next))
}

/// The commands to suggest. A request for permission never suggests `allow` alone: the log comes
/// first and all answers follow.
fn next(question: &DecisionDetail) -> Vec<String> {
    let (id, task) = (question.item.decision.id, question.item.decision.task);
    let version = question.detail.stored.task.version;
    let answer = |offer: &Offer| format!("decisions answer {id} {} --seen {version}", offer.action);
    if question.item.offers.iter().any(|offer| offer.action == AnswerName::Allow.name()) {
        let look = format!("log {task}");
        return iter::once(look).chain(question.item.offers.iter().map(answer)).collect();
    }
    question
        .item
        .possible()
        .next()
        .map(answer)
        .into_iter()
        .chain([format!("show {task}")])
        .collect()
}

pub(super) fn page(
    symbols: Symbols,
    question: &DecisionDetail,
    diff: Option<&str>,
    now: Instant,
) -> String {
    let decision = &question.item.decision;
    let escalated = if question.item.escalated { "  escalated" } else { "" };
    let mut text = format!(
        "{} {}{escalated}  {}\n",
        mark(&question.item),
        decision.id,
        sanitize(&decision.asks)
    );
    if let Some(asked) = &decision.question {
        text.push_str(&format!("  {}\n", sanitize_lines(&excerpt(asked)).replace('\n', "\n  ")));
    }
    text.push_str(&verdicts(symbols, &question.verdicts));
    text.push_str(&facts(symbols, question, diff, now));
    text.push_str(&runs(question, now));
    text.push_str(&work(&question.work));
    let body = question.detail.stored.task.body.trim();
    let own = without_section(body);
    if !own.trim().is_empty() {
        text.push_str(&format!("\n{}\n", sanitize_lines(&excerpt(own.trim()))));
    }
    // A plan is shown whole, because it is what a person approves.
    if let Some(plan) = section_of(body) {
        text.push_str(&format!("\n{}\n", sanitize_lines(plan)));
    }
    text.push_str(&offers(symbols, &question.item.offers));
    text
}

/// The records that a person judges, each below its name.
fn work(records: &[WorkRecord]) -> String {
    let lines = |record: &WorkRecord| {
        let lines = record.lines.iter();
        let lines = lines.map(|line| sanitize_lines(&excerpt(line)).replace('\n', "\n    "));
        let lines: String = lines.map(|line| format!("  {line}\n")).collect();
        format!("\n{}\n{lines}", sanitize(&record.name))
    };
    records.iter().map(lines).collect()
}

/// The verdicts of reviewers, each with its suggestions.
pub(in crate::cli) fn verdicts(symbols: Symbols, verdicts: &[ReviewerVerdict]) -> String {
    let lines = |verdict: &ReviewerVerdict| {
        let who = [verdict.who.as_str(), verdict.verdict.as_str()].join(" ");
        let (who, words) = (sanitize(who.trim_end()), sanitize(&excerpt(&verdict.words)));
        let suggests =
            verdict.suggestions.iter().map(|text| format!("      suggests: {}\n", sanitize(text)));
        format!(
            "  {} {who}: {words}\n{}",
            symbols.success(!verdict.dissents),
            suggests.collect::<String>()
        )
    };
    verdicts.iter().map(lines).collect()
}

fn facts(symbols: Symbols, question: &DecisionDetail, diff: Option<&str>, now: Instant) -> String {
    let (decision, task) = (&question.item.decision, &question.detail.stored.task);
    let state = question.detail.stored.lifecycle.state(task.state);
    let texts = decision::texts(question);
    let mut rows: Vec<(&str, String)> = Vec::new();
    let mut fact = |name, value| rows.push((name, value));
    fact("task", format!("{}  {}", task.id, task.title));
    let parent = question.item.parent.as_ref().map(|(id, title)| format!("{id}  {title}"));
    fact("part of", parent.unwrap_or_default());
    if let Some(PendingAnswer { given, due }) = &decision.answer {
        let at = local(*due);
        fact("answered", format!("by {}: {}, takes effect at {at}", given.by, given.action));
    }
    fact("state", format!("{}, version {}", state.name, task.version));
    let opened = question.opened.as_ref();
    let by = opened.map(|entry| format!(", by {} ({})", entry.record.actor, entry.record.trigger));
    fact("since", format!("{}{}", local(decision.opened_at), by.unwrap_or_default()));
    if let Some(settled) = &decision.settled {
        fact("closed", format!("{} by {}", local(settled.at), settled.by));
    }
    if let Some(consequence) = &question.item.consequence {
        let left = format_span(consequence.at.since(now));
        let then = format!("then {} {} ({})", symbols.arrow(), consequence.to, consequence.trigger);
        fact("deadline", format!("{}, in {left}; {then}", local(consequence.at)));
    }
    fact("snoozed", decision.snoozed_until.map(local).unwrap_or_default());
    let mut told: BTreeSet<&str> = decision.question.as_deref().into_iter().collect();
    for (name, value) in &texts {
        let text = value.as_str().unwrap_or_default();
        // Two fields may hold the same text; show it once.
        if told.insert(text) {
            fact(name, excerpt(text));
        }
    }
    fact("first", question.remedy.as_ref().map(hints::next_step).unwrap_or_default());
    fact("cost", cost(question.spent));
    fact("diff", diff.unwrap_or_default().to_owned());
    output::facts(rows)
}

fn cost(spent: Spent) -> String {
    if spent.runs == 0 {
        return String::new();
    }
    let runs = counted(spent.runs, "run");
    let used = format_usage(spent.tokens, spent.cost_micros);
    if used.is_empty() { runs } else { format!("{runs}, {used}") }
}

fn runs(question: &DecisionDetail, now: Instant) -> String {
    let task = question.detail.stored.task.id;
    let row = |run: &PastRun| {
        cells([
            &RunId { task, epoch: run.epoch },
            &run.worker,
            &format_span(run.ended_at.unwrap_or(now).since(run.started_at)),
            &run.outcome.map_or("", Outcome::as_str),
            &run.level.map_or("", ProofLevel::as_str),
            &format_cost(run.cost_micros),
            &first_line(run.detail.as_deref().unwrap_or_default()),
        ])
    };
    let last = &question.runs[question.runs.len().saturating_sub(RUNS)..];
    section(["RUN", "WORKER", "TOOK", "OUTCOME", "PROOF", "COST", "DETAIL"], last.iter().map(row))
}

fn offers(symbols: Symbols, offers: &[Offer]) -> String {
    let row = |offer: &Offer| {
        let messages: Vec<&str> =
            offer.missing.iter().map(|error| error.message.as_str()).collect();
        let messages = messages.join("; ");
        let missing = match (offer.missing.is_empty(), offer.needs_words(), offer.is_possible) {
            (true, ..) => String::new(),
            (false, true, _) => format!("needs your text: {messages}"),
            (false, false, true) => format!("needs `--set FIELD=VALUE`: {messages}"),
            (false, false, false) => format!("not possible now: {messages}"),
        };
        let to = format!("{} {}", symbols.arrow(), offer.to);
        cells([&offer.action, &to, &missing])
    };
    section(["ACTION", "LEADS TO", ""], offers.iter().map(row))
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
