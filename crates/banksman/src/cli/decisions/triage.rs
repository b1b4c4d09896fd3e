//! `banksman decisions triage`: answers one decision after the other, with one key each.
//!
//! It prints page after page on the normal screen, so that the answers can be read afterwards.
//! While it waits for a key, the terminal neither echoes nor buffers lines; on exit it restores the
//! terminal.

use std::io::{self, IsTerminal};
use std::path::Path;

use banksman_core::ids::DecisionId;
use banksman_core::lifecycle::contract::AnswerRole;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::time::Span;
use clap::Args;

use super::answer::{self, line};
use super::show::page;
use crate::cli::arguments::ActorArgs;
use crate::cli::hints::phrase;
use crate::cli::output::{sanitize, sanitize_lines};
use crate::cli::terminal::{CTRL_C, CTRL_D, Keys, Pressed, TypedLine};
use crate::cli::{Context, Exit, Failure, Result};
use crate::clock;
use crate::ops::Session;
use crate::ops::decisions::{
    self, AnswerRequest, DecisionDetail, DecisionRef, Diff, InboxItem, Offer, UNDO_WINDOW,
};

/// Answer the open decisions one by one with single keys; escalated ones come first
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions triage
")]
pub(super) struct TriageArgs {
    #[command(flatten)]
    actor: ActorArgs,
}

/// How long `h` snoozes a decision.
const SNOOZE: Span = Span(14_400_000);
/// How much of a diff is shown.
const DIFF_LINES: usize = 400;

pub(super) fn run(context: &Context, args: &TriageArgs) -> Result<Exit> {
    if context.out.json || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let hint = "`banksman decisions --json` lists the decisions for scripts";
        let message = "triage needs a terminal, because it reads single keys";
        return Err(Failure::argument(message, hint));
    }
    let session = context.session_as(&args.actor)?;
    decisions::require_person(&session, context.now)?;
    let mut triage =
        Triage { context, session: &session, keys: Keys::new()?, last: None, answered: 0 };
    let left = triage.answer_all()?;
    say(context, &format!("{} answered, {left} left", triage.answered))?;
    Ok(Exit::Done)
}

/// One triage session.
struct Triage<'c> {
    context: &'c Context,
    session: &'c Session,
    keys: Keys,
    /// The last answered decision, for undo.
    last: Option<DecisionId>,
    answered: usize,
}

/// What to show next.
enum Next {
    Decision,
    Quit,
    /// The same decision again, with its page or only with its keys.
    Again,
    Keys,
}

impl Triage<'_> {
    /// Goes through the open decisions and returns how many are left.
    fn answer_all(&mut self) -> Result<usize> {
        let now = self.session.now(clock::now())?;
        let project = self.context.project_flag.as_deref();
        let mut items = decisions::inbox(self.session, project, clock::now())?;
        items.retain(|item| !item.is_snoozed(now) && item.decision.answer.is_none());
        items.sort_by_key(|item| !item.escalated);
        let all = items.len();
        if all == 0 {
            say(self.context, "no open decisions")?;
        }
        for (number, item) in items.iter().enumerate() {
            let id = item.decision.id;
            say(self.context, &format!("\n{} of {all}", number + 1))?;
            if !self.decide(id)? {
                break;
            }
        }
        Ok(all - self.answered.min(all))
    }

    /// Shows one decision until it is answered or skipped. Returns false if the person quits.
    fn decide(&mut self, id: DecisionId) -> Result<bool> {
        let mut shows_page = true;
        loop {
            let question = self.question(id)?;
            if question.item.decision.settled.is_some() {
                say(self.context, &format!("{id} is already closed"))?;
                return Ok(true);
            }
            if shows_page {
                let diff =
                    Diff::of(&question, &self.context.config.agents).map(|diff| diff.command());
                let now = self.session.now(clock::now())?;
                let text = page(self.context.out.symbols, &question, diff.as_deref(), now);
                say(self.context, text.trim_end())?;
            }
            say(self.context, &keys_of(&question.item))?;
            match self.act(&question)? {
                Next::Decision => return Ok(true),
                Next::Quit => return Ok(false),
                Next::Again => shows_page = true,
                Next::Keys => shows_page = false,
            }
        }
    }

    fn question(&self, id: DecisionId) -> Result<DecisionDetail> {
        let which = DecisionRef::Decision(id);
        Ok(decisions::question(self.session, which, clock::now())?)
    }

    fn act(&mut self, question: &DecisionDetail) -> Result<Next> {
        let id = question.item.decision.id;
        let key = loop {
            match self.keys.wait()? {
                Pressed::Key(key) => break key,
                Pressed::Nothing => {}
                Pressed::Closed => return Ok(Next::Quit),
            }
        };
        // Somebody who types or pastes a text means no key with its first letter.
        if self.keys.drop_typed()? {
            say(self.context, "that was more than one key; press t to answer with a text")?;
            return Ok(Next::Keys);
        }
        match key {
            b'q' | CTRL_C | CTRL_D => Ok(Next::Quit),
            b's' | b' ' | b'\n' => Ok(Next::Decision),
            b'r' => Ok(Next::Again),
            b'd' => self.diff(question),
            b'u' => self.undo(),
            b'h' => {
                let which = DecisionRef::Decision(id);
                let snoozed = decisions::snooze(self.session, which, SNOOZE, clock::now());
                let text = snoozed.map(|_| format!("{id} is snoozed for {SNOOZE}"));
                self.report(text, Next::Decision)
            }
            b't' => match question.item.possible().find(|offer| takes_text(offer)) {
                Some(offer) => self.answer(question, offer, Words::Demanded),
                None => Ok(Next::Keys),
            },
            _ => match question.item.possible().find(|offer| has_key(offer, char::from(key))) {
                Some(offer) => self.answer(question, offer, Words::of(offer)),
                None => Ok(Next::Keys),
            },
        }
    }

    fn answer(&mut self, question: &DecisionDetail, offer: &Offer, words: Words) -> Result<Next> {
        let id = question.item.decision.id;
        let asks = offer.missing.iter().map(|error| error.message.as_str()).collect::<Vec<_>>();
        if !offer.missing.is_empty() && !offer.needs_words() {
            let (action, asks) = (&offer.action, sanitize(&asks.join("; ")));
            let hint = format!("banksman decisions answer {id} {action} --set FIELD=VALUE");
            say(self.context, &format!("{action}: {asks}\n{hint}"))?;
            return Ok(Next::Keys);
        }
        let prompt = match words {
            Words::Impossible => None,
            Words::Possible => Some("with a note (Enter for none)".to_owned()),
            Words::Demanded if asks.is_empty() => Some("your answer".to_owned()),
            Words::Demanded => Some(format!("{}?", asks.join("; "))),
        };
        let mut note = None;
        if let Some(prompt) = prompt {
            self.context.out.text(&sanitize(&format!("{}: {prompt} ", offer.action)))?;
            note = match (self.keys.line()?, words) {
                (TypedLine::Text(text), _) => Some(text),
                (TypedLine::Empty, Words::Possible) => None,
                (TypedLine::Empty | TypedLine::Closed, _) => {
                    say(self.context, "no text given, so nothing was changed")?;
                    return Ok(Next::Keys);
                }
            };
        }
        let answer = AnswerRequest {
            which: DecisionRef::Decision(id),
            word: offer.action.clone(),
            note,
            fields: Fields::new(),
            seen: Some(question.detail.stored.task.version),
            key: None,
            grace: self.context.config.grace,
        };
        let answered = decisions::answer(self.session, &answer, clock::now());
        let mut merge_message = None;
        if let Ok(answered) = &answered {
            self.last = Some(id);
            self.answered += 1;
            merge_message = answer::merge_message(self.session, answered, clock::now())?;
        }
        let symbols = self.context.out.symbols;
        let more = merge_message.unwrap_or_default();
        self.report(answered.map(|answered| line(symbols, &answered) + &more), Next::Decision)
    }

    fn undo(&mut self) -> Result<Next> {
        let Some(id) = self.last.take() else {
            say(self.context, "there is no answer to undo")?;
            return Ok(Next::Keys);
        };
        let which = Some(DecisionRef::Decision(id));
        let undone = decisions::undo(self.session, which, UNDO_WINDOW, clock::now());
        if undone.is_ok() {
            self.answered -= 1;
        }
        let symbols = self.context.out.symbols;
        self.report(undone.map(|undone| line(symbols, &undone)), Next::Keys)
    }

    /// Prints the result. After a rejection the same decision stays open.
    fn report(&self, done: Result<String, impl Into<Failure>>, then: Next) -> Result<Next> {
        let (text, next) = match done {
            Ok(text) => (text, then),
            Err(error) => {
                let problem = error.into().problem();
                let hint = problem.hint.map(|hint| format!("\n{}", sanitize(&phrase(&hint))));
                (sanitize(&problem.message) + &hint.unwrap_or_default(), Next::Keys)
            }
        };
        say(self.context, text.trim_end())?;
        Ok(next)
    }

    fn diff(&self, question: &DecisionDetail) -> Result<Next> {
        let text = match Diff::of(question, &self.context.config.agents) {
            None => "there are no commits".to_owned(),
            Some(diff @ Diff::PullRequest(_)) => diff.command(),
            Some(Diff::Commits { folder, base, head }) => {
                match decisions::changes(Path::new(&folder), &base, &head) {
                    Ok(diff) if diff.trim().is_empty() => "the diff is empty".to_owned(),
                    Ok(diff) => first_lines(&diff),
                    Err(error) => error.to_string(),
                }
            }
        };
        say(self.context, &sanitize_lines(text.trim_end()))?;
        Ok(Next::Keys)
    }
}

fn first_lines(diff: &str) -> String {
    let lines: Vec<&str> = diff.lines().take(DIFF_LINES).collect();
    let hidden = diff.lines().count() - lines.len();
    let more = if hidden > 0 { format!("\n{hidden} more lines") } else { String::new() };
    lines.join("\n") + &more
}

/// Whether an answer takes a person's words.
#[derive(Clone, Copy)]
enum Words {
    Impossible,
    Possible,
    Demanded,
}

impl Words {
    fn of(offer: &Offer) -> Self {
        match (offer.needs_words(), &offer.words) {
            (true, _) => Self::Demanded,
            (false, Some(_)) => Self::Possible,
            (false, None) => Self::Impossible,
        }
    }
}

/// Whether a text is an answer by itself: the work goes on with it.
fn takes_text(offer: &Offer) -> bool {
    let is_answerable = offer.missing.is_empty() || offer.needs_words();
    offer.role == AnswerRole::GoOn && offer.words.is_some() && is_answerable
}

/// The first offer of each role also has the role's digit.
fn has_key(offer: &Offer, key: char) -> bool {
    offer.key == Some(key) || offer.is_first && offer.role.digit() == key
}

fn keys_of(item: &InboxItem) -> String {
    let keys = |offer: &Offer| {
        let digit = if offer.is_first { format!("{}/", offer.role.digit()) } else { String::new() };
        Some(format!("{digit}{} {}", offer.key?, offer.action))
    };
    let text = item.possible().any(takes_text).then(|| "t text".to_owned());
    let others = ["d diff", "h later", "s skip", "u undo", "r again", "q quit"];
    let keys = item.possible().filter_map(keys).chain(text);
    keys.chain(others.map(str::to_owned)).collect::<Vec<_>>().join("  ")
}

fn say(context: &Context, text: &str) -> Result<()> {
    context.out.text(&format!("{text}\n")).map(drop)
}
