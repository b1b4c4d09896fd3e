//! Going round in circles: the same call of a tool that fails again and again, and a task that goes
//! to and fro between two states with nothing new to show. It only tells; the lifecycle says where
//! a loop leads.

use std::collections::VecDeque;

use crate::machine::{Actor, Record};

/// Calls whose results have not come yet. An agent that starts more than this at once is not going
/// in circles.
const OPEN_CALLS: usize = 64;
/// What a summary shows of a call and of each of its last results, in bytes.
const SHOWN_BYTES: usize = 400;
/// Last messages in a summary.
const LAST: usize = 3;

/// Listens to one run for a call that fails in the same way again and again.
#[derive(Debug, Default)]
pub struct RepeatedFailures {
    open: VecDeque<Call>,
    /// The call that failed last, what it said, and how often in a row.
    failing: Option<(String, String, u32)>,
}

#[derive(Debug)]
struct Call {
    id: String,
    what: String,
    changes: bool,
}

impl RepeatedFailures {
    /// A tool is called. `changes` says whether it could change something, so that a success of it
    /// is progress.
    pub fn called(&mut self, id: &str, what: &str, changes: bool) {
        if self.open.len() == OPEN_CALLS {
            self.open.pop_front();
        }
        let what = start_of(what).to_owned();
        self.open.push_back(Call { id: id.to_owned(), what, changes });
    }

    /// Its result has come. Answers with a summary when it is the same failure for the `limit`th
    /// time, with nothing in between that could have made a difference. An id that is empty
    /// means the oldest call that is still open.
    pub fn ended(&mut self, id: &str, ok: bool, said: &str, limit: u32) -> Option<String> {
        let at = self.open.iter().position(|call| call.id == id || id.is_empty())?;
        let call = self.open.remove(at)?;
        if ok {
            if call.changes {
                self.failing = None;
            }
            return None;
        }
        let said = start_of(said.trim()).to_owned();
        let before = match self.failing.take() {
            Some((what, how, times)) if what == call.what && how == said => times,
            Some(_) | None => 0,
        };
        let times = before.saturating_add(1);
        self.failing = Some((call.what.clone(), said.clone(), times));
        (times >= limit.max(2)).then(|| {
            format!(
                "Loop: the same call has failed {times} times.\nCall: {}\nLast message: {said}",
                call.what
            )
        })
    }
}

/// One record of a task, and whether new work came with it.
#[derive(Debug, Clone, Copy)]
pub struct LoopSample<'a> {
    pub record: &'a Record,
    /// A commit, a plan or other evidence that was not there before.
    pub produces: bool,
}

/// A summary when a task has gone to and fro between two states `limit` times, the newest record
/// last, with no person and nothing new in between.
#[must_use]
pub fn back_and_forth(turns: &[LoopSample<'_>], limit: u32) -> Option<String> {
    let is_move =
        |turn: &&LoopSample<'_>| turn.record.from.as_deref() != Some(turn.record.to.as_str());
    let mut moves: Vec<&Record> = Vec::new();
    for turn in turns.iter().rev() {
        if turn.produces || turn.record.actor.role == Actor::human("").role {
            break;
        }
        if !is_move(&turn) {
            continue;
        }
        // Walking backwards, each move begins where the one before it in time has ended, and goes
        // back to where that began.
        let goes_back = |later: &&Record| {
            later.from.as_deref() == Some(turn.record.to.as_str())
                && turn.record.from.as_deref() == Some(later.to.as_str())
        };
        if !moves.last().is_none_or(goes_back) {
            break;
        }
        moves.push(turn.record);
    }
    let times = moves.len() / 2;
    if times < limit.max(2) as usize {
        return None;
    }
    let last = moves.first()?;
    let from = last.from.as_deref().unwrap_or_default();
    let messages = moves.iter().take(LAST).enumerate().map(|(at, record)| {
        // A record holds what has changed, so words that are said again stand in an earlier one
        // only.
        let mut alike = moves[at..].iter().filter(|other| other.trigger == record.trigger);
        let words = alike.find_map(|record| said(record)).unwrap_or_default();
        format!("- {} by {} ({}) {}", record.to, record.actor, record.trigger, start_of(words))
    });
    let messages: Vec<String> = messages.map(|line| line.trim_end().to_owned()).collect();
    Some(format!(
        "Loop: {times} times to and fro between {} and {from}, with nothing new and nobody who looked.\nLast moves:\n{}",
        last.to,
        messages.join("\n")
    ))
}

/// The first words among what a record has changed. The body is the work itself and not what was
/// said about it.
fn said(record: &Record) -> Option<&str> {
    let others = record.fields.iter().filter(|(name, _)| *name != "body");
    others.into_iter().find_map(|(_, value)| value.as_str())
}

fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES)]
}
