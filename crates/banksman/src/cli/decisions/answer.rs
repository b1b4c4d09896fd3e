//! `banksman decisions approve`, `changes`, `back`, `backburner`, `cancel`, `merge` and `answer`.

use banksman_core::lifecycle::Activity;
use banksman_core::time::Instant;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::{is_snoozed, only_people};
use crate::api::dto::TransitionResponse;
use crate::cli::arguments::{ActorArgs, FieldArgs};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::shown as one_line;
use crate::cli::signs::Signs;
use crate::ops::decisions::{
    self, AnswerRequest, AnswerResult, DecisionRef, InboxItem, has_way_back, synonyms,
};
use crate::ops::tasks;
use crate::ops::why::has_machines;
use crate::store::Store;

/// How an answer is given.
#[derive(Debug, Args)]
pub(super) struct HowArgs {
    /// Your words; they go to where the lifecycle keeps them, such as feedback, reason or note
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Only if the task still has this version; left out: the one that the decision was opened
    /// with
    #[arg(long, value_name = "N")]
    seen: Option<i64>,
    /// Makes a repeated request harmless: the same key gives the first answer again
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    actor: ActorArgs,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// Decisions or their tasks, such as d12 or t12, and last your words
    #[arg(value_name = "ID|TEXT", required_unless_present = "all")]
    words: Vec<String>,
    /// All open decisions that offer it and were not put off
    #[arg(long, conflicts_with = "seen")]
    all: bool,
    /// Which of them: those that were escalated need a look each
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
/// `banksman decisions show ID` lists the answers and says where each leads.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions answer d12 pass
  banksman decisions answer d12 veto 'the test is empty'
  banksman decisions answer t12 resume --seen 9
")]
pub(super) struct AnyArgs {
    /// The decision, or its task
    #[arg(value_name = "ID")]
    which: DecisionRef,
    /// One of the actions that it offers
    #[arg(value_name = "ACTION")]
    action: String,
    /// Your words
    #[arg(value_name = "TEXT", conflicts_with = "note")]
    text: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

pub(super) fn run_any(context: &Context, args: &AnyArgs) -> Result<Exit, Failure> {
    only_people(context, &[args.which])?;
    let given = Given::new(&args.action, args.text.clone(), &args.how)?;
    give(context, &context.store()?, args.which, &given)
}

pub(super) fn run(context: &Context, word: &str, args: &AnswerArgs) -> Result<Exit, Failure> {
    let (mut which, text) = split(&args.words)?;
    only_people(context, &which)?;
    if text.is_some() && args.how.note.is_some() {
        return Err(wrong("the words are given twice", "give them as TEXT or with --note"));
    }
    let store = context.store()?;
    if args.all {
        if !which.is_empty() {
            return Err(wrong("--all needs no ids", "leave them out, or leave out --all"));
        }
        which = every(context, &store, word, args.escalated)?;
    } else if which.is_empty() {
        return Err(wrong("there is no id", "name a decision, such as d12, or its task, t12"));
    }
    if which.len() > 1 && args.how.seen.is_some() {
        return Err(wrong("--seen is for one decision", "answer them one at a time"));
    }
    let given = Given::new(word, text, &args.how)?;
    match which.as_slice() {
        [one] if !args.all => give(context, &store, *one, &given),
        several => give_all(context, &store, several, &given),
    }
}

/// An answer before it is known to which decision it is given.
struct Given<'a> {
    word: &'a str,
    note: Option<String>,
    fields: Map<String, Value>,
    how: &'a HowArgs,
}

impl<'a> Given<'a> {
    fn new(word: &'a str, text: Option<String>, how: &'a HowArgs) -> Result<Self, Failure> {
        let note = text.or_else(|| how.note.clone());
        Ok(Self { word, note, fields: how.fields.fields()?, how })
    }

    fn to(
        &self,
        context: &Context,
        store: &Store,
        which: DecisionRef,
    ) -> Result<AnswerResult, Failure> {
        self.keyed(context, store, which, self.how.key.clone())
    }

    fn keyed(
        &self,
        context: &Context,
        store: &Store,
        which: DecisionRef,
        key: Option<String>,
    ) -> Result<AnswerResult, Failure> {
        let answer = AnswerRequest {
            which,
            word: self.word.to_owned(),
            note: self.note.clone(),
            fields: self.fields.clone(),
            seen: self.how.seen,
            key,
        };
        let actor = context.actor(self.how.actor.actor.as_ref());
        Ok(decisions::answer(store, &actor, &answer, context.now)?)
    }
}

/// The ids, and the one text behind them.
fn split(words: &[String]) -> Result<(Vec<DecisionRef>, Option<String>), Failure> {
    let ids: Vec<DecisionRef> = words.iter().map_while(|word| word.parse().ok()).collect();
    match &words[ids.len()..] {
        [] => Ok((ids, None)),
        [text] => Ok((ids, Some(text.clone()))),
        [text, ..] => Err(wrong(
            &format!(
                "`{}` is not an id, and words follow it",
                text.chars().take(64).collect::<String>()
            ),
            "ids come first; put your words into quotes",
        )),
    }
}

fn wrong(message: &str, hint: &str) -> Failure {
    Failure::Argument { message: message.to_owned(), hint: hint.to_owned() }
}

/// Open decisions that offer an action, by the same rules by which an answer is looked up.
fn every(
    context: &Context,
    store: &Store,
    word: &str,
    escalated: Escalated,
) -> Result<Vec<DecisionRef>, Failure> {
    let now = store.now(context.now)?;
    let offers = |item: &InboxItem| {
        let mut actions = item.decision.offers.iter().map(|(action, _)| action.as_str());
        actions.any(|action| action == word || synonyms(word).contains(&action))
    };
    let wanted = |item: &InboxItem| match escalated {
        Escalated::No => !item.escalated,
        Escalated::Yes => item.escalated,
        Escalated::Any => true,
    };
    let mut items = decisions::inbox(store, context.project_flag.as_deref())?;
    items.retain(|item| !is_snoozed(item, now) && offers(item) && wanted(item));
    Ok(items.iter().map(|item| DecisionRef::Decision(item.decision.id)).collect())
}

/// One answer; what is wrong with it is the failure of the command.
fn give(
    context: &Context,
    store: &Store,
    which: DecisionRef,
    given: &Given<'_>,
) -> Result<Exit, Failure> {
    match given.to(context, store, which) {
        Ok(answered) => shown(context, store, answered),
        Err(Failure::Ops(error)) => context.refused(error),
        Err(failure) => Err(failure),
    }
}

/// The same answer to several, each by itself: one that is refused does not keep the others from
/// being given.
fn give_all(
    context: &Context,
    store: &Store,
    which: &[DecisionRef],
    given: &Given<'_>,
) -> Result<Exit, Failure> {
    let (mut documents, mut lines, mut refused) = (Vec::new(), String::new(), 0);
    let mut merges = Vec::new();
    for which in which {
        // A key stands for one request, and each of these is one.
        let key = given.how.key.as_ref().map(|key| format!("{key}/{which}"));
        match given.keyed(context, store, *which, key) {
            Ok(answered) => {
                lines.push_str(&line(context.out.signs, &answered));
                merges.extend(under_way(store, &answered, context.now)?);
                documents.push(document(store, answered)?);
            }
            Err(failure) => {
                refused += 1;
                let (document, line) = refusal(context.out.signs, *which, &failure);
                documents.push(document);
                lines.push_str(&line);
            }
        }
    }
    if which.is_empty() {
        lines.push_str("there is nothing to answer\n");
    }
    context.out.answer(|| json!({ "answers": documents, "refused": refused }), || lines)?;
    merges.iter().for_each(|words| context.out.say(words));
    context.out.next(&["decisions"]);
    Ok(if refused > 0 { Exit::Failed } else { Exit::Done })
}

fn refusal(signs: Signs, which: DecisionRef, failure: &Failure) -> (Value, String) {
    let (code, hint) = failure.class();
    let message = failure.to_string();
    let text =
        format!("{} {which}  {} ({})\n", signs.well(false), one_line(&message), code.as_str());
    let error = json!({ "code": code.as_str(), "message": message, "hint": hint });
    (json!({ "success": false, "decision": which.to_string(), "error": error }), text)
}

/// Shows what came of an answer.
pub(super) fn shown(
    context: &Context,
    store: &Store,
    answered: AnswerResult,
) -> Result<Exit, Failure> {
    let (id, task) = (answered.decision.id, answered.decision.task);
    let can_undo = answered.action != "undo" && has_way_back(&answered);
    let text = line(context.out.signs, &answered);
    let under_way = under_way(store, &answered, context.now)?;
    let document = document(store, answered)?;
    context.out.answer(|| document, || text)?;
    under_way.iter().for_each(|words| context.out.say(words));
    let back = format!("decisions undo {id}");
    let show = format!("show {task}");
    let next = [Some(show.as_str()), can_undo.then_some(back.as_str()), Some("decisions")];
    context.out.next(&next.into_iter().flatten().collect::<Vec<_>>());
    Ok(Exit::Done)
}

fn document(store: &Store, answered: AnswerResult) -> Result<Value, Failure> {
    let AnswerResult { decision, action, applied } = answered;
    let view = tasks::view_of(store, applied.stored)?;
    let mut document = json!(TransitionResponse::made(&view, applied.entry.as_ref()));
    document["decision"] = json!(decision.id.to_string());
    document["action"] = json!(action);
    document["replayed"] = json!(applied.replayed);
    Ok(document)
}

/// What an answer has set going, for whoever would wait for it: the merge of a branch is not over
/// with the answer.
pub(super) fn under_way(
    store: &Store,
    answered: &AnswerResult,
    now: Instant,
) -> Result<Option<String>, Failure> {
    let stored = &answered.applied.stored;
    if stored.activity() != Some(Activity::Merge) {
        return Ok(None);
    }
    let what = stored.local_branch().unwrap_or("its work");
    let nobody = if has_machines(store, now)? {
        ""
    } else {
        "; no machine works on this store, so start `banksman up`, or call `banksman pulse` now and then"
    };
    let id = answered.decision.task;
    Ok(Some(format!("merging {}; `banksman why {id}` tells how it goes{nobody}", one_line(what))))
}

pub(super) fn line(signs: Signs, answered: &AnswerResult) -> String {
    let AnswerResult { decision, action, applied } = answered;
    let how = applied.entry.as_ref().map_or_else(
        || "nothing has changed".to_owned(),
        |entry| {
            let from = entry.record.from.as_deref().unwrap_or_default();
            format!("{from} {} {} by {}", signs.arrow(), entry.record.to, entry.record.actor)
        },
    );
    let again = if applied.replayed { "  (done before with this key)" } else { "" };
    format!("{} {} {}  {action}: {how}{again}\n", signs.well(true), decision.id, decision.task)
}
