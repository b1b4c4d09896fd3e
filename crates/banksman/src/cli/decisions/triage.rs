//! `banksman decisions triage`: one decision after the other, one key each.
//!
//! It prints page after page and takes no other screen, so that what was decided can be read
//! afterwards. While it waits for a key the terminal neither echoes nor collects lines; however it
//! ends, the terminal is as before.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use banksman_core::ids::DecisionId;
use banksman_core::machine::Actor;
use banksman_core::time::Span;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::answer::{self, line};
use super::show::{Diff, page};
use super::{is_snoozed, only_people};
use crate::cli::arguments::ActorArgs;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::{shown, shown_lines};
use crate::clock;
use crate::config::Environment;
use crate::exec::git::Git;
use crate::exec::process::PlainRunner;
use crate::ops::decisions::{self, AnswerRequest, DecisionDetail, DecisionRef, Offer, UNDO_WINDOW};
use crate::store::Store;

/// Go through what waits for you, one key each; what was escalated comes first
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman decisions triage
")]
pub(super) struct TriageArgs {
    #[command(flatten)]
    actor: ActorArgs,
}

/// For how long `h` puts a decision off.
const SNOOZE: Span = Span(14_400_000);
/// Offers that have a digit.
const DIGITS: usize = 9;
/// The longest note that is read from the terminal.
const NOTE_BYTES: usize = 16 * 1024;
/// What is shown of a diff.
const DIFF_LINES: usize = 400;

/// A signal that comes just before the wait for a key is noticed after this time.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

pub(super) fn run(context: &Context, args: &TriageArgs) -> Result<Exit, Failure> {
    only_people(context, &[])?;
    if context.out.json || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::Argument {
            message: "triage reads single keys and needs a terminal".to_owned(),
            hint: "`banksman decisions --json` lists them for programs".to_owned(),
        });
    }
    let store = context.store()?;
    let mut desk = Desk {
        context,
        store: &store,
        actor: context.actor(args.actor.actor.as_ref()),
        keys: Keys::new()?,
        last: None,
        answered: 0,
    };
    let left = desk.work()?;
    say(context, &format!("{} answered, {left} left", desk.answered))?;
    Ok(Exit::Done)
}

/// A person at work on the inbox.
struct Desk<'c> {
    context: &'c Context,
    store: &'c Store,
    actor: Actor,
    keys: Keys,
    /// What was answered last, to be taken back.
    last: Option<DecisionId>,
    answered: usize,
}

/// How to go on.
enum Next {
    Decision,
    Leave,
    /// The same one again, with its page or only with its keys.
    Again,
    Keys,
}

impl Desk<'_> {
    /// Goes through what is open now and answers with how much of it was left.
    fn work(&mut self) -> Result<usize, Failure> {
        let now = self.store.now(clock::now())?;
        let mut items = decisions::inbox(self.store, self.context.project_flag.as_deref())?;
        items.retain(|item| !is_snoozed(item, now));
        items.sort_by_key(|item| !item.escalated);
        let all = items.len();
        if all == 0 {
            say(self.context, "nothing waits for you")?;
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

    /// One decision, until it is answered or put away. False: the person wants to leave.
    fn decide(&mut self, id: DecisionId) -> Result<bool, Failure> {
        let mut shows_page = true;
        loop {
            let question = self.question(id)?;
            if question.item.decision.settled.is_some() {
                say(self.context, &format!("{id} is settled by now"))?;
                return Ok(true);
            }
            if shows_page {
                let diff = Diff::of(self.context, &question).map(|diff| diff.command());
                let text = page(self.context.out.signs, &question, diff.as_deref(), clock::now());
                say(self.context, text.trim_end())?;
            }
            say(self.context, &keys_of(&question.offers))?;
            match self.act(&question)? {
                Next::Decision => return Ok(true),
                Next::Leave => return Ok(false),
                Next::Again => shows_page = true,
                Next::Keys => shows_page = false,
            }
        }
    }

    fn question(&self, id: DecisionId) -> Result<DecisionDetail, Failure> {
        let which = DecisionRef::Decision(id);
        Ok(decisions::question(self.store, which, &self.actor, clock::now())?)
    }

    fn act(&mut self, question: &DecisionDetail) -> Result<Next, Failure> {
        let id = question.item.decision.id;
        let Some(key) = self.keys.byte()? else { return Ok(Next::Leave) };
        match key {
            b'q' | CTRL_C | CTRL_D => Ok(Next::Leave),
            b's' | b' ' | b'\n' => Ok(Next::Decision),
            b'r' => Ok(Next::Again),
            b'd' => self.diff(question),
            b'u' => self.undo(),
            b'h' => {
                let snoozed =
                    decisions::snooze(self.store, DecisionRef::Decision(id), SNOOZE, clock::now());
                self.told(snoozed.map(|_| format!("{id} is put off for {SNOOZE}")), Next::Decision)
            }
            b'1'..=b'9' => match question.offers.get(usize::from(key - b'1')) {
                Some(offer) => self.answer(question, offer),
                None => Ok(Next::Keys),
            },
            _ => Ok(Next::Keys),
        }
    }

    fn answer(&mut self, question: &DecisionDetail, offer: &Offer) -> Result<Next, Failure> {
        let id = question.item.decision.id;
        let mut note = None;
        if offer.needs_words() {
            let asks = offer.missing.first().map_or("", |error| error.message.as_str());
            note = self.keys.line(self.context, &format!("{}: {asks}? ", offer.action))?;
            if note.is_none() {
                say(self.context, "nothing was said, so nothing was done")?;
                return Ok(Next::Keys);
            }
        }
        let answer = AnswerRequest {
            which: DecisionRef::Decision(id),
            word: offer.action.clone(),
            note,
            fields: serde_json::Map::new(),
            seen: Some(question.detail.stored.task.version),
            key: None,
        };
        let answered = decisions::answer(self.store, &self.actor, &answer, clock::now());
        let mut under_way = None;
        if let Ok(answered) = &answered {
            self.last = Some(id);
            self.answered += 1;
            under_way = answer::under_way(self.store, answered, clock::now())?;
        }
        let signs = self.context.out.signs;
        let more = under_way.unwrap_or_default();
        self.told(answered.map(|answered| line(signs, &answered) + &more), Next::Decision)
    }

    fn undo(&mut self) -> Result<Next, Failure> {
        let Some(id) = self.last.take() else {
            say(self.context, "nothing was answered yet")?;
            return Ok(Next::Keys);
        };
        let which = Some(DecisionRef::Decision(id));
        let undone = decisions::undo(self.store, &self.actor, which, UNDO_WINDOW, clock::now());
        if undone.is_ok() {
            self.answered -= 1;
        }
        let signs = self.context.out.signs;
        self.told(undone.map(|undone| line(signs, &undone)), Next::Keys)
    }

    /// What came of it. A refusal is told and the same decision stays.
    fn told(&self, done: Result<String, impl Into<Failure>>, then: Next) -> Result<Next, Failure> {
        match done {
            Ok(text) => {
                say(self.context, text.trim_end())?;
                Ok(then)
            }
            Err(error) => {
                let failure: Failure = error.into();
                let hint = failure.class().1.map(|hint| format!("\n{}", shown(&hint)));
                say(
                    self.context,
                    &format!("{}{}", shown(&failure.to_string()), hint.unwrap_or_default()),
                )?;
                Ok(Next::Keys)
            }
        }
    }

    fn diff(&self, question: &DecisionDetail) -> Result<Next, Failure> {
        let text = match Diff::of(self.context, question) {
            None => "there are no commits to look at".to_owned(),
            Some(diff @ Diff::PullRequest(_)) => diff.command(),
            Some(Diff::Commits { folder, base, head }) => {
                let env = Environment::passed(&["PATH".to_owned(), "HOME".to_owned()]);
                let mut runner = PlainRunner;
                match Git::at(&mut runner, Path::new(&folder), &env).diff(&base, &head) {
                    Ok(diff) if diff.trim().is_empty() => "nothing was changed".to_owned(),
                    Ok(diff) => head_of(&diff),
                    Err(error) => error.to_string(),
                }
            }
        };
        say(self.context, &shown_lines(text.trim_end()))?;
        Ok(Next::Keys)
    }
}

fn head_of(diff: &str) -> String {
    let lines: Vec<&str> = diff.lines().take(DIFF_LINES).collect();
    let hidden = diff.lines().count() - lines.len();
    let more = if hidden > 0 { format!("\n{hidden} more lines") } else { String::new() };
    lines.join("\n") + &more
}

fn keys_of(offers: &[Offer]) -> String {
    let number = |(number, offer): (usize, &Offer)| format!("{} {}", number + 1, offer.action);
    let actions = offers.iter().take(DIGITS).enumerate().map(number);
    let others = ["d diff", "h later", "s skip", "u undo", "r again", "q quit"];
    actions.chain(others.map(str::to_owned)).collect::<Vec<_>>().join("  ")
}

fn say(context: &Context, text: &str) -> Result<(), Failure> {
    context.out.text(&format!("{text}\n"))
}

/// The keyboard. Dropping it gives the terminal back.
struct Keys {
    before: Termios,
    stop: Arc<AtomicBool>,
}

impl Keys {
    fn new() -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Output)?;
        }
        let keys = Self { before: tcgetattr(io::stdin()).map_err(fault)?, stop };
        keys.take_single()?;
        Ok(keys)
    }

    /// From now on keys come one by one and are not shown.
    fn take_single(&self) -> Result<(), Failure> {
        let mut single = self.before.clone();
        // A key that would send a signal is only a wish to leave.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Now, &single).map_err(fault)
    }

    /// A line that is typed and can be corrected while it is; none when it is empty.
    fn line(&self, context: &Context, asks: &str) -> Result<Option<String>, Failure> {
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).map_err(fault)?;
        context.out.text(&shown(asks))?;
        let mut line = Vec::new();
        while line.len() < NOTE_BYTES {
            match self.byte()? {
                None | Some(b'\n') => break,
                Some(byte) => line.push(byte),
            }
        }
        self.take_single()?;
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// The next byte; none when the terminal is gone or the program is to end. It goes past the
    /// buffer of the standard input, which would keep what was typed ahead from being waited
    /// for.
    fn byte(&self) -> Result<Option<u8>, Failure> {
        let stdin = io::stdin();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&TICK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(fault(error)),
            }
            let mut byte = [0];
            return match rustix::io::read(&stdin, &mut byte) {
                Ok(0) => Ok(None),
                Ok(_) => Ok(Some(byte[0])),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => Err(fault(error)),
            };
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // There is nobody left to tell if this fails.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).unwrap_or_default();
    }
}

fn fault(error: rustix::io::Errno) -> Failure {
    Failure::Output(error.into())
}
