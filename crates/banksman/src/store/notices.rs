//! Notices: messages to people, written in the transaction of what they tell, with a delivery for
//! each channel. A delivery is tried at least once, by the node that takes it.

use banksman_core::backoff::Backoff;
use banksman_core::closed::closed;
use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::{Activity, Lifecycle};
use banksman_core::machine::{self, Effect, Task, WaitsFor, waits_for};
use banksman_core::text::line;
use banksman_core::time::{Instant, Span};
use sha2::{Digest, Sha256};

use super::conn::{DbError, Row};
use super::feed::{ChangeKind, append};
use super::tx::{Tx, params};
use super::{Result, Store, StoreError, hex, sql};

/// How long other nodes leave a delivery alone that one has taken, by its earlier attempts.
const TRIED_AGAIN: Backoff =
    Backoff { first: Span(10_000), factor: 2, cap: Span(3_600_000), jitter_percent: 0 };
/// Deliveries that one call takes.
const AT_ONCE: i64 = 1_000;
/// After this many attempts a delivery has failed.
const ATTEMPTS: i64 = 10;
/// Why it has, if it was never reported.
const UNREPORTED: &str = "it could not be read, or the programs that took it have ended";
/// How much of a question a notice has, in bytes.
const QUESTION_BYTES: usize = 300;
/// The stored length of a text or an error, in characters.
const TEXT_CHARS: usize = 4_000;

closed! {
    /// What a notice is about.
    pub enum NoticeKind {
        /// A task is in a state that people want to know of.
        State = "state",
        /// A task waits for a person's answer.
        Decision = "decision",
        /// A task waits for a person, who is asked nothing.
        NeedsPerson = "needs_person",
        /// A task has been in its state for a while.
        Reminder = "reminder",
        /// The engine went on without a task, a project or a job.
        Fault = "fault",
        /// A step reported that it is done, or a file answered a gate.
        Signal = "signal",
        /// A person has to do a step.
        ManualStep = "manual_step",
        /// A gate sent steps back.
        SentBack = "sent_back",
        /// A run could not be started.
        NotStarted = "not_started",
        /// No worker can take a task.
        NoWorker = "no_worker",
        OverBudget = "over_budget",
        AccountPaused = "account_paused",
        AccountResumed = "account_resumed",
        /// An effect that cannot be carried out.
        DeadEffect = "dead_effect",
        /// A worktree could not be removed.
        CleanUp = "clean_up",
        /// An answer in the daily note, or a fault of its file.
        DailyNote = "daily_note",
    }
}

closed! {
    /// A way to people. A new one is a row of the table `channels` and a variant.
    pub enum Channel {
        /// The output of `up` and `pulse`.
        Terminal = "terminal",
    }
}

/// A notice to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNotice {
    pub kind: NoticeKind,
    pub task: Option<TaskId>,
    pub urgent: bool,
    pub text: String,
    /// Of notices with the same key only the first is written.
    pub key: Option<String>,
}

impl NewNotice {
    pub fn new(kind: NoticeKind, task: Option<TaskId>, text: String) -> Self {
        Self { kind, task, urgent: false, text, key: None }
    }

    pub fn alert(kind: NoticeKind, task: Option<TaskId>, text: String) -> Self {
        Self { urgent: true, ..Self::new(kind, task, text) }
    }

    #[must_use]
    pub fn once(self, key: String) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The same text about the same topic is told once in a period, by whichever process.
    #[must_use]
    pub fn once_per(self, period: Span, topic: &str, now: Instant) -> Self {
        let hash = hex(&Sha256::digest(self.text.as_bytes())[..8]);
        let key = format!("{topic}-{}-{hash}", now.0 / period.0);
        self.once(key)
    }
}

/// A stored notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub id: i64,
    pub kind: NoticeKind,
    pub task: Option<TaskId>,
    /// The open decision of the task when it was written.
    pub decision: Option<DecisionId>,
    pub urgent: bool,
    pub text: String,
}

impl Notice {
    /// Reads `id, kind, task, decision, urgent, text` from a column on.
    pub(super) fn read(row: &Row, first: usize) -> Result<Self, DbError> {
        Ok(Self {
            id: row.int(first)?,
            kind: row.word(first + 1)?,
            task: row.get(first + 2)?,
            decision: row.get(first + 3)?,
            urgent: row.get(first + 4)?,
            text: row.text(first + 5)?.to_owned(),
        })
    }
}

impl Store {
    /// Writes a notice about something that no other write records. It should have a key.
    pub fn notice(&self, notice: NewNotice, now: Instant) -> Result<()> {
        self.write(move |tx| write_notice(tx, &notice, now))
    }

    /// Takes the notices that a channel has to deliver, the oldest first. Other callers leave them
    /// alone until the caller has reported, or was given enough time to. Those whose cause is over
    /// meanwhile are not delivered.
    pub fn take_notices(&self, channel: Channel, now: Instant) -> Result<Vec<Notice>> {
        let due = params![channel.as_str(), now];
        // Most turns have none, and a look keeps no writer waiting.
        if !self.read(|tx| tx.has(sql::HAS_NOTICES, &due))? {
            return Ok(Vec::new());
        }
        self.write(move |tx| {
            let due = [due.as_slice(), &params![AT_ONCE]].concat();
            let rows = tx.query(sql::DUE_NOTICES, &due)?;
            let mut taken = Vec::with_capacity(rows.len());
            for row in &rows {
                let (id, attempts, is_over) = (row.int(0)?, row.int(6)?, row.int(7)? != 0);
                if is_over {
                    let told: Option<&str> = None;
                    tx.write(sql::NOTICE_SENT, &params![id, channel.as_str(), told])?;
                    continue;
                }
                if attempts >= ATTEMPTS {
                    tx.write(sql::NOTICE_FAILED, &params![id, channel.as_str(), UNREPORTED])?;
                    continue;
                }
                let again = now.plus(TRIED_AGAIN.base_delay(u32::try_from(attempts).unwrap_or(0)));
                tx.write(sql::NOTICE_TAKEN, &params![id, channel.as_str(), again])?;
                let notice = Notice::read(row, 0).map_err(StoreError::from);
                taken.extend(tx.unless_damaged(row, notice)?);
            }
            Ok(taken)
        })
    }

    /// Records that notices were delivered, or why not. Those are taken again a few times.
    pub fn notices_sent(
        &self,
        channel: Channel,
        notices: &[Notice],
        sent: Result<(), String>,
    ) -> Result<()> {
        let ids: Vec<i64> = notices.iter().map(|notice| notice.id).collect();
        let error = sent.err().map(|error| shortened(&error));
        self.write(move |tx| {
            let columns = |id: &i64| params![*id, channel.as_str(), error.as_deref()];
            ids.iter().try_for_each(|id| tx.write(sql::NOTICE_SENT, &columns(id)))
        })
    }
}

/// Writes a notice, its deliveries and its place in the feed.
pub(super) fn write_notice(tx: &mut Tx<'_>, notice: &NewNotice, now: Instant) -> Result<()> {
    let NewNotice { kind, task, urgent, text, key } = notice;
    let columns = params![now, kind.as_str(), *task, *urgent, shortened(text), key.as_deref()];
    let rows = tx.query(sql::INSERT_NOTICE, &columns)?;
    let Some(row) = rows.first() else { return Ok(()) };
    let id = row.int(0)?;
    tx.write(sql::INSERT_DELIVERIES, &params![id])?;
    tx.notify();
    append(tx, ChangeKind::Notice, notice.task, id, now)
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

/// The notice that an effect asks for. A state whose children do the work has no question of its
/// own: the children have notices.
pub(super) fn notice_of(
    lifecycle: &Lifecycle,
    task: &Task,
    effect: &Effect,
    next_timer: Option<Instant>,
) -> Option<NewNotice> {
    let (mut kind, urgent, more) = match effect {
        Effect::Notify => (NoticeKind::State, false, String::new()),
        Effect::Alert => (NoticeKind::State, true, String::new()),
        Effect::Remind { age_days } => {
            (NoticeKind::Reminder, false, format!(", for {age_days} days now"))
        }
        Effect::Start { .. }
        | Effect::Stop { .. }
        | Effect::CleanUp
        | Effect::CloseReviews
        | Effect::TellParent
        | Effect::LeadChildren => return None,
    };
    let state = lifecycle.state(task.state);
    let waits_for = waits_for(lifecycle, task, next_timer);
    if waits_for == WaitsFor::Subtasks {
        return None;
    }
    let is_asked = state.activity() == Some(Activity::Human) && task.is_active(lifecycle);
    if is_asked && kind == NoticeKind::State {
        kind = NoticeKind::Decision;
    } else if waits_for == WaitsFor::Person && !is_asked {
        kind = NoticeKind::NeedsPerson;
    }
    // The title of a budget request is the beginning of its question.
    let asked = machine::question(lifecycle, task).filter(|_| is_asked);
    let asked = asked.filter(|asked| !asked.starts_with(&task.title));
    let asked = asked.map(|asked| format!(": {}", line(asked, QUESTION_BYTES)));
    let asked = asked.unwrap_or_default();
    let text = format!("{} is {}{more}: {}{asked}", task.id, state.name, task.title);
    Some(NewNotice { urgent, ..NewNotice::new(kind, Some(task.id), text) })
}
