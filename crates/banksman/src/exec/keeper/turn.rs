//! One turn of an agent: logs and parses its output, and watches its usage and its silence.

use std::path::Path;
use std::time::{Duration, Instant as Moment};

use banksman_core::loops::RepeatedFailures;
use banksman_core::policy::PolicyGuard;
use banksman_core::receipt::{EndCause, ProcessExit, StreamSummary};
use rustix::process::Pid;

use super::super::agent::{
    self, AgentEvent, AgentRequest, AgentSetup, Launch, OURSELVES, PriorUsage, StreamReader,
    ToolCall,
};
use super::super::job::RunLimits;
use super::child::{Child, Side, Start};
use super::heartbeat::{KeeperStatus, SHOWN_BYTES};
use super::lease::millis;
use super::lines::Lines;
use super::log::Log;
use super::tree::Demand;
use super::watch::{Listener, Tended};
use super::{Keeper, MARKER, tree};
use crate::clock;
use crate::config::Environment;

/// A waiting program uses less than this share of a core for its timers.
const BUSY_PERCENT: u128 = 10;
const SAMPLES_PER_IDLE_SPAN: u32 = 4;
const LONGEST_SAMPLE: Duration = Duration::from_secs(60);
/// Placeholder for the run's folder in what an adapter writes.
const FOLDER: &str = "{folder}";

/// The two logs of a run, shared by all its turns.
pub(super) struct Logs {
    pub(super) out: Log,
    pub(super) err: Log,
}

impl Logs {
    pub(super) fn new(folder: &Path, out: &str, err: &str, bytes: u64) -> Self {
        Self { out: Log::new(folder.join(out), bytes), err: Log::new(folder.join(err), bytes) }
    }
}

/// Tokens and money of turns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TurnUsage {
    pub(super) input_tokens: i64,
    pub(super) output_tokens: i64,
    pub(super) cost_micros: Option<i64>,
}

pub(super) struct Turn<'a> {
    pub(super) setup: &'a AgentSetup,
    pub(super) ask: &'a AgentRequest,
    pub(super) before: PriorUsage,
    pub(super) spent: TurnUsage,
    pub(super) folder: &'a Path,
    pub(super) limits: &'a RunLimits,
    pub(super) deadline: Moment,
}

impl Keeper {
    /// Runs the agent to its end. The error says why it did not start.
    pub(super) fn turn(
        &mut self,
        turn: &Turn<'_>,
        logs: &mut Logs,
    ) -> Result<(Tended, StreamSummary), String> {
        let launch = agent::launch(turn.setup, &self.with_own_tools(turn.ask));
        let child = self.launch(&launch, turn)?;
        self.pulse.heartbeat.agent_pid = Some(child.pid.as_raw_pid());
        let mut hearing = Hearing {
            reader: agent::reader(turn.setup.kind, turn.before),
            out: Lines::default(),
            err: Lines::default(),
            logs,
            seen: Vec::new(),
            last: String::new(),
            before: turn.spent,
            now: TurnUsage::default(),
            end: None,
            guard: turn.ask.guard.as_deref(),
            failures: RepeatedFailures::default(),
            limits: turn.limits,
            silence: Silence::new(millis(turn.limits.idle_ms), clock::monotonic()),
        };
        let mut tended = self.tend(child, &mut hearing, turn.deadline);
        self.pulse.heartbeat.agent_pid = None;
        let (reading, end) = hearing.finish(tended.exit);
        // The agent may have exited right after the output that would have ended it.
        let told =
            end.filter(|end| matches!(end, EndCause::NotAllowed { .. } | EndCause::Loop { .. }));
        tended.ended = tended.ended.or(told);
        Ok((tended, reading))
    }

    /// Fills in the MCP server's folder here, because some agents read the server's settings from
    /// standard input, where placeholders stay as they are: a prompt may contain any text.
    fn with_own_tools(&self, ask: &AgentRequest) -> AgentRequest {
        let mut ask = ask.clone();
        for value in ask.mcp.iter_mut().flat_map(|server| server.env.values_mut()) {
            *value = self.filled(value);
        }
        ask
    }

    fn filled(&self, text: &str) -> String {
        text.replace(FOLDER, &self.folder.path().to_string_lossy())
    }

    fn launch(&self, launch: &Launch, turn: &Turn<'_>) -> Result<Child, String> {
        let filled = |text: &String| self.filled(text);
        for (name, text) in &launch.files {
            self.folder.write_file(name, &filled(text)).map_err(|error| {
                let cause = &error.source;
                format!("{error}: {cause}")
            })?;
        }
        let mut env = Environment::passed(&turn.setup.pass);
        env.extend(self.plan.env.clone());
        for (name, value) in turn.setup.env.iter().chain(&launch.env) {
            env.insert(name.clone(), filled(value));
        }
        env.insert(MARKER.to_owned(), self.marker.clone());
        let args: Vec<String> = launch.args.iter().map(filled).collect();
        let ourselves = || std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
        let program = if launch.program == OURSELVES {
            ourselves()
                .map_err(|error| format!("failed to find the banksman executable: {error}"))?
        } else {
            launch.program.clone()
        };
        let start = Start {
            program: &program,
            args: &args,
            folder: turn.folder,
            env: &env,
            stdin: launch.stdin.as_deref(),
        };
        Child::start(&start)
            .map_err(|error| format!("failed to start `{}`: {error}", launch.program))
    }
}

/// Processes an agent's output.
struct Hearing<'a> {
    reader: Box<dyn StreamReader>,
    out: Lines,
    err: Lines,
    logs: &'a mut Logs,
    /// Filled and emptied with every chunk of output.
    seen: Vec<AgentEvent>,
    last: String,
    before: TurnUsage,
    now: TurnUsage,
    /// The first reason in the output to end the agent.
    end: Option<EndCause>,
    guard: Option<&'a PolicyGuard>,
    failures: RepeatedFailures,
    limits: &'a RunLimits,
    silence: Silence,
}

impl Hearing<'_> {
    fn finish(mut self, exit: ProcessExit) -> (StreamSummary, Option<EndCause>) {
        let Self { reader, out, err, seen, .. } = &mut self;
        out.finish(&mut |line| reader.line(line, seen));
        err.finish(&mut |line| reader.error_line(line, seen));
        for seen in std::mem::take(&mut self.seen) {
            self.note(seen);
        }
        (self.reader.finish(exit, clock::now()), self.end)
    }

    fn note(&mut self, seen: AgentEvent) {
        match seen {
            AgentEvent::Spent { input_tokens, output_tokens, cost_micros } => {
                self.now = TurnUsage { input_tokens, output_tokens, cost_micros };
            }
            AgentEvent::Hopeless { reason } => {
                self.end.get_or_insert(EndCause::Hopeless);
                self.last = shown(&reason);
            }
            AgentEvent::Text { text }
            | AgentEvent::Note { text }
            | AgentEvent::Ended { text, .. } => {
                self.last = shown(&text);
            }
            AgentEvent::Tool { name, detail, call } => {
                self.last = shown(&format!("{name} {detail}"));
                self.called(&call);
            }
            AgentEvent::ToolResult { ok, detail, id } => self.result(&id, ok, &detail),
            AgentEvent::Session { .. } => {}
        }
    }

    /// Ends the run if an announced call needed permission first. The agent may be faster than the
    /// keeper.
    fn called(&mut self, call: &ToolCall) {
        let Some(guard) = self.guard else { return };
        let what: Vec<String> = call
            .acts
            .iter()
            .map(|act| {
                let (word, what) = act.parts();
                format!("{word} {what}")
            })
            .collect();
        self.failures.record_call(&call.id, &what.join(", "), agent::changes(&call.acts));
        if let Some(request) = guard.stops(&call.acts) {
            self.end.get_or_insert(EndCause::NotAllowed { request: request.to_string() });
        }
    }

    fn result(&mut self, id: &str, ok: bool, said: &str) {
        let Some(guard) = self.guard else { return };
        let limit = guard.policy.loops.tool_failures;
        if let Some(summary) = self.failures.record_result(id, ok, said, limit) {
            self.end.get_or_insert(EndCause::Loop { summary });
        }
    }

    fn total(&self) -> TurnUsage {
        self.before.plus(self.now)
    }

    fn over_budget(&self) -> Option<EndCause> {
        let TurnUsage { input_tokens, output_tokens, cost_micros } = self.total();
        let tokens = input_tokens.saturating_add(output_tokens);
        let too_many = self.limits.tokens.filter(|limit| tokens > *limit);
        let tokens = too_many.map(|limit| format!("{tokens} tokens of {limit}"));
        let cost = self.limits.cost_micros.zip(cost_micros).filter(|(limit, cost)| cost > limit);
        let cost = cost.map(|(limit, cost)| format!("{cost} millionths of a dollar of {limit}"));
        tokens.or(cost).map(|detail| EndCause::OverBudget { detail })
    }
}

impl Listener for Hearing<'_> {
    fn hear(&mut self, side: Side, bytes: &[u8]) {
        self.silence.broken = true;
        let Self { reader, out, err, logs, seen, .. } = self;
        match side {
            Side::Out => {
                logs.out.write(bytes);
                out.push(bytes, &mut |line| reader.line(line, seen));
            }
            Side::Err => {
                logs.err.write(bytes);
                err.push(bytes, &mut |line| reader.error_line(line, seen));
            }
        }
        for seen in std::mem::take(&mut self.seen) {
            self.note(seen);
        }
    }

    fn verdict(&mut self, now: Moment, exempt: Option<Pid>) -> Option<EndCause> {
        if let Some(end) = &self.end {
            return Some(end.clone());
        }
        let demand = || tree::demand(&tree::below_us(exempt));
        let stalled = self.silence.lasts_too_long(now, demand);
        self.over_budget().or_else(|| stalled.then_some(EndCause::Stalled))
    }

    fn due_at(&self) -> Option<Moment> {
        Some(self.silence.due_at())
    }

    fn show(&self, heartbeat: &mut KeeperStatus) {
        let total = self.total();
        heartbeat.input_tokens = total.input_tokens;
        heartbeat.output_tokens = total.output_tokens;
        heartbeat.cost_micros = total.cost_micros;
        heartbeat.dropped_bytes = self.logs.out.dropped + self.logs.err.dropped;
        if heartbeat.last != self.last {
            heartbeat.last.clone_from(&self.last);
        }
    }

    fn takes_all_along(&self) -> bool {
        true
    }
}

impl TurnUsage {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: match (self.cost_micros, other.cost_micros) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            },
        }
    }
}

/// Truncates at a character boundary.
fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_BYTES)].to_owned()
}

/// Detects a stall: neither output nor CPU use. Both are needed, because a build prints nothing for
/// long and an agent that waits for its model uses no CPU.
struct Silence {
    limit: Duration,
    period: Duration,
    /// Whether there was output since the last check.
    broken: bool,
    since: Moment,
    sampled: Option<(Moment, Demand)>,
    next: Moment,
}

impl Silence {
    fn new(limit: Duration, now: Moment) -> Self {
        let period = (limit / SAMPLES_PER_IDLE_SPAN).min(LONGEST_SAMPLE);
        Self { limit, period, broken: false, since: now, sampled: None, next: now + period }
    }

    fn due_at(&self) -> Moment {
        self.next.min(self.since + self.limit)
    }

    /// Calls `demand` only after some time without output, because it is expensive.
    fn lasts_too_long(&mut self, now: Moment, demand: impl FnOnce() -> Demand) -> bool {
        if std::mem::take(&mut self.broken) {
            (self.since, self.sampled, self.next) = (now, None, now + self.period);
            return false;
        }
        if now < self.due_at() {
            return false;
        }
        let demand = demand();
        let (at, before) = self.sampled.replace((now, demand)).unwrap_or((now, demand));
        self.next = now + self.period;
        if is_busy(now - at, before, demand) {
            self.since = now;
        }
        now >= self.since + self.limit
    }
}

/// Whether processes did work between two samples. CPU time that falls means that a process exited,
/// which is activity as well. On an overloaded machine a working process may get almost no CPU
/// time; it is then runnable at every sample, which a waiting process is not.
fn is_busy(span: Duration, before: Demand, now: Demand) -> bool {
    let Some(used) = now.used.checked_sub(before.used) else { return true };
    let has_worked = !used.is_zero() && used.as_micros() * 100 >= span.as_micros() * BUSY_PERCENT;
    has_worked || (!span.is_zero() && before.is_ready && now.is_ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(8);

    /// Simulates seconds; `used` gives the CPU time in hundredths of a second by each of them, and
    /// `output` the seconds with output.
    fn stalls_after(used: impl Fn(u64) -> u64, output: &[u64]) -> Option<u64> {
        stalls_in_line(|second| (used(second), false), output)
    }

    /// The same on a machine where processes wait for a CPU.
    fn stalls_in_line(demand: impl Fn(u64) -> (u64, bool), output: &[u64]) -> Option<u64> {
        let start = clock::monotonic();
        let mut silence = Silence::new(IDLE, start);
        (1..100).find(|second| {
            silence.broken |= output.contains(second);
            let (hundredths, is_ready) = demand(*second);
            let used = Duration::from_millis(hundredths * 10);
            silence
                .lasts_too_long(start + Duration::from_secs(*second), || Demand { used, is_ready })
        })
    }

    #[test]
    fn silence_without_work_is_a_stall() {
        assert_eq!(stalls_after(|_| 0, &[]), Some(8));
        assert_eq!(stalls_after(|_| 0, &[3, 9]), Some(17));
    }

    #[test]
    fn work_without_output_is_none() {
        assert_eq!(stalls_after(|second| second * 50, &[]), None);
        assert_eq!(stalls_after(|second| second.min(20) * 50, &[]), Some(28));
    }

    #[test]
    fn timers_of_a_waiting_program_are_no_work() {
        assert_eq!(stalls_after(|second| second, &[]), Some(8));
    }

    #[test]
    fn who_stands_in_line_works_and_who_wakes_now_and_then_does_not() {
        assert_eq!(stalls_in_line(|_| (0, true), &[]), None);
        assert_eq!(stalls_in_line(|second| (second, second % 4 == 0), &[]), Some(8));
        assert_eq!(stalls_in_line(|second| (second, second < 20), &[]), Some(26));
    }

    #[test]
    fn a_process_that_ends_is_a_sign_of_life() {
        assert_eq!(stalls_after(|second| if second < 5 { 70 } else { 0 }, &[]), Some(14));
    }

    #[test]
    fn the_shown_text_is_cut_at_a_character() {
        assert_eq!(shown(&"ä".repeat(400)).len(), 500);
        assert_eq!(shown(&format!("x{}", "ä".repeat(400))).len(), 499);
    }
}
