//! `banksman decisions approve`, `changes`, `back`, `backburner`, `cancel`, `merge` and `answer`.

use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::time::{Instant, Span};
use clap::{Args, ValueEnum};

use crate::api::decision::{Answer, Answers};
use crate::api::error::ErrorDocument;
use crate::api::task::TransitionResponse;
use crate::cli::arguments::{ActorArgs, FieldArgs};
use crate::cli::moves::{again, say_pause, transition};
use crate::cli::output::sanitize;
use crate::cli::symbols::{Symbols, local};
use crate::cli::{Context, Exit, Failure, Result, report};
use crate::ops::Session;
use crate::ops::decisions::{self, AnswerRequest, AnswerResult, DecisionRef, has_way_back};
use crate::ops::error_report::{Code, ErrorReport};
use crate::ops::tasks;
use crate::ops::why::has_machines;

/// Who applies an answer after its grace period.
const NO_MACHINE: &str =
    "`banksman up` or the next `banksman pulse` applies the answer, and neither is running";

/// Options of every answer.
#[derive(Debug, Args)]
pub(super) struct HowArgs {
    /// Your text; the lifecycle stores it as feedback, reason or note
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Answer only if the task still has this version [default: the version the decision was opened
    /// with]
    #[arg(long, value_name = "N")]
    seen: Option<i64>,
    /// Idempotency key: repeating the command with the same key returns the first answer
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Take effect at once, without the time in which `decisions undo` takes the answer back
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    actor: ActorArgs,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// Decisions or their tasks, such as d12 or t12, then optionally your text
    #[arg(value_name = "ID|TEXT", required_unless_present = "all")]
    words: Vec<String>,
    /// Answer every open decision that offers this and is not snoozed
    #[arg(long, conflicts_with = "seen")]
    all: bool,
    /// With --all: whether to include escalated decisions, which deserve a closer look
    #[arg(long, value_name = "WHICH", default_value = "no", requires = "all")]
    escalated: Escalated,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Escalated {
    No,
    Yes,
    Any,
}

/// Give any answer that a decision offers
///
/// `banksman decisions show ID` lists the answers and where each leads.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions answer d12 pass
  banksman decisions answer d12 veto 'the test is empty'
  banksman decisions answer t12 resume --seen 9
")]
pub(super) struct AnyArgs {
    /// The decision or its task
    #[arg(value_name = "ID")]
    which: DecisionRef,
    /// One of the offered actions
    action: String,
    /// Your text
    #[arg(value_name = "TEXT", conflicts_with = "note")]
    text: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

pub(super) fn run_any(context: &Context, args: &AnyArgs) -> Result<Exit> {
    let fields = args.how.fields.fields()?;
    let request = args.how.request(context, args.which, &args.action, args.text.clone(), fields);
    let session = context.session_as(&args.how.actor)?;
    let answered = decisions::answer(&session, &request, context.now)?;
    print_answer(context, &session, answered)
}

pub(super) fn run(context: &Context, word: &str, args: &AnswerArgs) -> Result<Exit> {
    let (mut which, text) = split_ids(&args.words)?;
    if text.is_some() && args.how.note.is_some() {
        return Err(Failure::argument("the text appears twice", "pass it as TEXT or with --note"));
    }
    let session = context.session_as(&args.how.actor)?;
    let wrong = match which.len() {
        1.. if args.all => {
            Some(("--all cannot be combined with ids", "remove the ids, or remove --all"))
        }
        0 if !args.all => {
            Some(("missing id", "name a decision, such as d12, or its task, such as t12"))
        }
        2.. if args.how.seen.is_some() => {
            Some(("--seen works with one decision only", "answer one decision at a time"))
        }
        _ => None,
    };
    if let Some((message, hint)) = wrong {
        return Err(Failure::argument(message, hint));
    }
    if args.all {
        let escalated = match args.escalated {
            Escalated::No => Some(false),
            Escalated::Yes => Some(true),
            Escalated::Any => None,
        };
        let project = context.project_flag.as_deref();
        which = decisions::offering(&session, project, word, escalated, context.now)?;
    }
    let fields = args.how.fields.fields()?;
    let request = |which| args.how.request(context, which, word, text.clone(), fields.clone());
    match &mut *which.into_iter().map(request).collect::<Vec<_>>() {
        [one] if !args.all => {
            let answered = decisions::answer(&session, one, context.now)?;
            print_answer(context, &session, answered)
        }
        several => answer_several(context, &session, several),
    }
}

impl HowArgs {
    /// The answer to one decision.
    fn request(
        &self,
        context: &Context,
        which: DecisionRef,
        word: &str,
        text: Option<String>,
        fields: Fields,
    ) -> AnswerRequest {
        let (word, note) = (word.to_owned(), text.or_else(|| self.note.clone()));
        let (seen, key) = (self.seen, self.key.clone());
        let grace = if self.now { Span(0) } else { context.config.grace };
        AnswerRequest { which, word, note, fields, seen, key, grace }
    }
}

/// The ids, and the text after them.
fn split_ids(words: &[String]) -> Result<(Vec<DecisionRef>, Option<String>)> {
    let ids: Vec<DecisionRef> = words.iter().map_while(|word| word.parse().ok()).collect();
    match &words[ids.len()..] {
        [] => Ok((ids, None)),
        [text] => Ok((ids, Some(text.clone()))),
        [text, ..] => Err(Failure::argument(
            format!(
                "`{}` is not an id, and more words follow",
                text.chars().take(64).collect::<String>()
            ),
            "put the ids first and quote your text",
        )),
    }
}

/// Gives the same answer to several decisions. A rejected answer does not stop the others.
fn answer_several(
    context: &Context,
    session: &Session,
    requests: &mut [AnswerRequest],
) -> Result<Exit> {
    let (mut answers, mut lines, mut refused) = (Vec::new(), String::new(), Vec::new());
    let (mut merges, mut code) = (Vec::new(), None);
    for (which, answered) in decisions::answer_each(session, requests, context.now) {
        match answered {
            Ok(answered) => {
                lines.push_str(&line(context.out.symbols, &answered));
                merges.extend(merge_message(session, &answered, context.now)?);
                answers.push(document(session, answered)?);
            }
            Err(error) => {
                let problem = ErrorReport::from(&error);
                let document = ErrorDocument {
                    decision: Some(which.to_string()),
                    ..report::document(&problem)
                };
                answers.push(Answer::Refused(document));
                let (sign, why) = (context.out.symbols.success(false), sanitize(&problem.message));
                lines.push_str(&format!("{sign} {which}  {why} ({})\n", problem.code.as_str()));
                refused.push(format!("{which}: {}", problem.one_line()));
                code = code.or(Some(problem.code));
            }
        }
    }
    if requests.is_empty() {
        lines.push_str("no matching decisions\n");
    }
    let code = code.unwrap_or(Code::Refused);
    let document = Answers { answers, refused: refused.len() };
    let exit = report::answer(&context.out, code, refused, || document, || lines)?;
    merges.iter().for_each(|words| context.out.say(words));
    context.out.next(&["decisions"]);
    Ok(exit)
}

/// Prints the result of an answer.
pub(super) fn print_answer(
    context: &Context,
    session: &Session,
    answered: AnswerResult,
) -> Result<Exit> {
    let (id, task) = (answered.decision.id, answered.decision.task);
    let can_undo = answered.action != "undo" && has_way_back(&answered);
    let text = line(context.out.symbols, &answered);
    let merge_message = merge_message(session, &answered, context.now)?;
    let document = document(session, answered)?;
    context.out.answer(|| document, || text)?;
    merge_message.iter().for_each(|words| context.out.say(words));
    say_pause(context, session, task)?;
    let back = format!("decisions undo {id}");
    let show = format!("show {task}");
    let next = [Some(show.as_str()), can_undo.then_some(back.as_str()), Some("decisions")];
    Ok(context.out.next(&next.into_iter().flatten().collect::<Vec<_>>()))
}

fn document(session: &Session, answered: AnswerResult) -> Result<Answer> {
    let AnswerResult { decision, action, applied, takes_effect: takes_effect_at } = answered;
    let view = tasks::view_of(session, applied.stored)?;
    let made = Box::new(TransitionResponse::made(&view, applied.entry.as_ref()));
    let (decision, replayed) = (decision.id.to_string(), applied.replayed);
    Ok(Answer::Given { made, action, decision, replayed, takes_effect_at })
}

/// A message for an answer that starts a merge: the merge is not finished when the answer is
/// recorded.
pub(super) fn merge_message(
    session: &Session,
    answered: &AnswerResult,
    now: Instant,
) -> Result<Option<String>> {
    let stored = &answered.applied.stored;
    if answered.takes_effect.is_some() && !has_machines(session, now)? {
        return Ok(Some(format!("{}: {NO_MACHINE}", answered.decision.id)));
    }
    if stored.activity() != Some(Activity::Merge) {
        return Ok(None);
    }
    let what = stored.local_branch().unwrap_or("its work");
    let nobody = if has_machines(session, now)? {
        ""
    } else {
        "; no machine is running tasks of this store: start `banksman up`, or run `banksman pulse`"
    };
    let id = answered.decision.task;
    Ok(Some(format!("merging {}; `banksman why {id}` shows the progress{nobody}", sanitize(what))))
}

pub(super) fn line(symbols: Symbols, answered: &AnswerResult) -> String {
    let AnswerResult { decision, action, applied, takes_effect } = answered;
    let how = match takes_effect {
        Some(at) => format!("takes effect at {}", local(*at)),
        None => transition(symbols, applied.entry.as_ref().map(|entry| &entry.record)),
    };
    let again = again(applied.replayed);
    format!("{} {} {}  {action}: {how}{again}\n", symbols.success(true), decision.id, decision.task)
}
