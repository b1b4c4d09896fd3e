//! Runs, their logs and the turns that start them, as JSON.

use std::path::Path;

use banksman_core::failure::FailureClass;
use banksman_core::ids::RunId;
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{AgentReport, Receipt};
use banksman_core::time::Instant;
use serde::Serialize;

use super::changes::Notice;
use crate::ops::runs::{AgentEvent, AgentUsage, RunLocation, WindowHost};
use crate::ops::shutdown::{JobId, StoppedJobs};
use crate::store::runs::PastRun;

documents! {
    /// Where a run works.
    Location<'a>(location: &'a RunLocation, host: Option<WindowHost>) {
        agent_pid: Option<i32> = location.agent,
        branch: Option<&'a str> = location.branch.as_deref(),
        folder: &'a Path = &location.folder,
        keeper_pid: Option<i32> = location.keeper,
        log: &'a Path = &location.log,
        resume: Option<&'a str> = location.resume.as_deref(),
        run: String = location.run.to_string(),
        session: Option<&'a str> = location.session.as_deref(),
        window: Option<&'static str> = host.map(WindowHost::as_str),
        worktree: Option<&'a Path> = location.worktree.as_deref(),
    }

    /// What `down` has stopped.
    Stopped(pid: Option<i32>, jobs: &StoppedJobs) {
        ended: Vec<String> = names(&jobs.ended),
        still_running: Vec<String> = names(&jobs.still_running),
        unreadable: Vec<String> = jobs.unreadable.iter().map(|(job, _)| job.to_string()).collect(),
        up: Option<i32> = pid,
    }

    StartedJob<'a>(named: &'a (JobId, String)) {
        job: String = named.0.to_string(),
        title: &'a str = &named.1,
    }

    EndedJob<'a>(named: &'a (JobId, String)) {
        job: String = named.0.to_string(),
        outcome: &'a str = &named.1,
    }
}

/// What a turn did.
#[derive(Debug, Serialize)]
pub struct TurnDocument<'a> {
    pub effects: usize,
    pub ended: Vec<EndedJob<'a>>,
    pub next: Option<Instant>,
    pub notices: Vec<Notice<'a>>,
    pub recovered: Vec<String>,
    pub started: Vec<StartedJob<'a>>,
    pub timers: usize,
}

/// The names of jobs.
pub fn names(jobs: &[JobId]) -> Vec<String> {
    jobs.iter().map(ToString::to_string).collect()
}

/// A line of a log.
#[derive(Debug, Clone, Serialize)]
pub struct LogLine<'a> {
    #[serde(flatten)]
    pub entry: LogEvent<'a>,
    /// When it was seen, which is known only when following.
    pub at: Option<Instant>,
    pub run: String,
}

impl<'a> LogLine<'a> {
    pub fn new(run: RunId, at: Option<Instant>, entry: LogEvent<'a>) -> Self {
        Self { entry, at, run: run.to_string() }
    }
}

/// What the agent did, what it reported, or how its run ended.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LogEvent<'a> {
    Session {
        id: &'a str,
    },
    Text {
        text: &'a str,
    },
    Tool {
        name: &'a str,
        detail: &'a str,
    },
    ToolResult {
        ok: bool,
        detail: &'a str,
    },
    Note {
        text: &'a str,
    },
    /// So far, in the whole run.
    Spent {
        input_tokens: i64,
        output_tokens: i64,
        cost_micros: Option<i64>,
    },
    CannotContinue {
        reason: &'a str,
    },
    Ended {
        ok: bool,
        text: &'a str,
    },
    Report {
        report: &'a AgentReport,
    },
    Stderr {
        text: &'a str,
    },
    /// Part of the log is missing.
    Gap,
    #[serde(rename_all = "camelCase")]
    End {
        outcome: Option<&'a str>,
        class: Option<&'static str>,
        detail: Option<&'a str>,
        tokens: i64,
        cost_micros: i64,
        receipt: Option<&'a Receipt>,
    },
}

impl<'a> From<&'a AgentEvent> for LogEvent<'a> {
    fn from(seen: &'a AgentEvent) -> Self {
        match seen {
            AgentEvent::Session { id } => Self::Session { id },
            AgentEvent::Text { text } => Self::Text { text },
            AgentEvent::Tool { name, detail, .. } => Self::Tool { name, detail },
            AgentEvent::ToolResult { ok, detail, .. } => Self::ToolResult { ok: *ok, detail },
            AgentEvent::Note { text } => Self::Note { text },
            AgentEvent::Spent(AgentUsage { input_tokens, output_tokens, cost_micros }) => {
                let (input_tokens, output_tokens) = (*input_tokens, *output_tokens);
                Self::Spent { input_tokens, output_tokens, cost_micros: *cost_micros }
            }
            AgentEvent::Hopeless { reason } => Self::CannotContinue { reason },
            AgentEvent::Ended { ok, text } => Self::Ended { ok: *ok, text },
        }
    }
}

impl<'a> LogEvent<'a> {
    pub fn end(receipt: Option<&'a Receipt>, judged: &'a PastRun) -> Self {
        Self::End {
            outcome: judged.outcome.map(Outcome::as_str),
            class: judged.class.map(FailureClass::as_str),
            detail: judged.detail.as_deref(),
            tokens: judged.tokens,
            cost_micros: judged.cost_micros,
            receipt,
        }
    }
}
