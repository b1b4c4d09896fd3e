//! Detects loops: a tool call that keeps failing in the same way, and a task that moves back and
//! forth between two states without new work.
//!
//! It only reports; the lifecycle decides what follows.

use std::collections::VecDeque;

use crate::machine::Record;
use crate::text::start_of;

/// Calls without a result yet. An agent with more of them at once is not in a loop.
const OPEN_CALLS: usize = 64;
/// How much of a call and of a message a summary shows, in bytes.
const SHOWN_BYTES: usize = 400;
/// Messages in a summary.
const SHOWN_MESSAGES: usize = 3;

/// Watches one run for a tool call that keeps failing in the same way.
#[derive(Debug, Default)]
pub struct RepeatedFailures {
    open: VecDeque<OpenCall>,
    /// The call that failed last, its message, and how often in a row it failed.
    failing: Option<(String, String, u32)>,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    what: String,
    changes: bool,
}

impl RepeatedFailures {
    /// Records a tool call. `changes` says whether the call could change something, so that its
    /// success counts as progress.
    pub fn record_call(&mut self, id: &str, what: &str, changes: bool) {
        if self.open.len() == OPEN_CALLS {
            self.open.pop_front();
        }
        let what = start_of(what, SHOWN_BYTES).to_owned();
        self.open.push_back(OpenCall { id: id.to_owned(), what, changes });
    }

    /// Records the result of a call. Returns a summary if it is the `limit`th failure in a row with
    /// the same message and without progress in between. An empty id means the oldest call without
    /// a result.
    pub fn record_result(
        &mut self,
        id: &str,
        ok: bool,
        message: &str,
        limit: u32,
    ) -> Option<String> {
        let at = self.open.iter().position(|call| call.id == id || id.is_empty())?;
        let call = self.open.remove(at)?;
        if ok {
            if call.changes {
                self.failing = None;
            }
            return None;
        }
        let message = start_of(message.trim(), SHOWN_BYTES).to_owned();
        let before = match self.failing.take() {
            Some((what, how, times)) if what == call.what && how == message => times,
            Some(_) | None => 0,
        };
        let times = before.saturating_add(1);
        self.failing = Some((call.what.clone(), message.clone(), times));
        (times >= limit.max(2)).then(|| {
            format!(
                "Loop: the same call has failed {times} times.\nCall: {}\nLast message: {message}",
                call.what
            )
        })
    }
}

/// One history record of a task, and whether it came with new work.
#[derive(Debug, Clone, Copy)]
pub struct LoopSample<'a> {
    pub record: &'a Record,
    /// A commit, a plan or other evidence that did not exist before.
    pub has_new_work: bool,
}

/// Returns a summary if the latest records (the newest is last) move a task back and forth between
/// two states `limit` times, without a person and without new work in between.
pub fn back_and_forth(samples: &[LoopSample<'_>], limit: u32) -> Option<String> {
    let mut moves: Vec<&Record> = Vec::new();
    for sample in samples.iter().rev() {
        if sample.has_new_work || sample.record.actor.is_human() {
            break;
        }
        if sample.record.from.as_deref() == Some(sample.record.to.as_str()) {
            continue;
        }
        // Going backwards in time, each move must end where the later one began, and begin where
        // the later one ended.
        let goes_back = |later: &&Record| {
            later.from.as_deref() == Some(sample.record.to.as_str())
                && sample.record.from.as_deref() == Some(later.to.as_str())
        };
        if !moves.last().is_none_or(goes_back) {
            break;
        }
        moves.push(sample.record);
    }
    let times = moves.len() / 2;
    if times < limit.max(2) as usize {
        return None;
    }
    let last = moves.first()?;
    let from = last.from.as_deref().unwrap_or_default();
    let messages = moves.iter().take(SHOWN_MESSAGES).enumerate().map(|(at, record)| {
        // A record holds only the fields that changed, so a repeated message is in an earlier
        // record.
        let mut same_trigger = moves[at..].iter().filter(|other| other.trigger == record.trigger);
        let message = same_trigger.find_map(|record| first_text(record)).unwrap_or_default();
        format!(
            "- {} by {} ({}) {}",
            record.to,
            record.actor,
            record.trigger,
            start_of(message, SHOWN_BYTES)
        )
    });
    let messages: Vec<String> = messages.map(|line| line.trim_end().to_owned()).collect();
    Some(format!(
        "Loop: moved back and forth between {} and {from} {times} times without new work and without a person.\nLast moves:\n{}",
        last.to,
        messages.join("\n")
    ))
}

/// The first text among the fields that a record changed. The body is the work itself, not a
/// message about it.
fn first_text(record: &Record) -> Option<&str> {
    let others = record.fields.iter().filter(|(name, _)| *name != "body");
    others.into_iter().find_map(|(_, value)| value.as_str())
}
