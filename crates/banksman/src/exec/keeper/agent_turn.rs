//! One turn of an agent: logs and parses its output, and watches its usage and its silence.

use std::path::Path;
use std::time::{Duration, Instant as Moment};

use banksman_core::limits;
use banksman_core::loops::RepeatedFailures;
use banksman_core::policy::Action;
use banksman_core::receipt::{EndCause, ProcessExit, StreamSummary};
use banksman_core::text::{end_of, start_of};
use rustix::process::Pid;

use super::super::agent::{
    self, AgentEvent, AgentRequest, AgentSetup, AgentUsage, Launch, OWN_PROGRAM, StderrTail,
    StreamReader,
};
use super::super::files::with_cause;
use super::super::job::{JobResult, RunLimits};
use super::super::process::child::{Child, Side};
use super::super::process::{Program, is_missing};
use super::super::worktree::unusable;
use super::lease::millis;
use super::lines::Lines;
use super::log::Log;
use super::status::{KeeperStatus, SHOWN_BYTES};
use super::tree::CpuUse;
use super::watch::{ChildOutcome, Listener};
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

pub(super) struct AgentTurn<'a> {
    pub(super) setup: &'a AgentSetup,
    pub(super) ask: &'a AgentRequest,
    pub(super) before: AgentUsage,
    pub(super) spent: AgentUsage,
    pub(super) folder: &'a Path,
    pub(super) limits: &'a RunLimits,
    pub(super) deadline: Moment,
}

impl Keeper {
    /// Runs the agent to its end. The error says why it did not start.
    pub(super) fn turn(
        &mut self,
        turn: &AgentTurn<'_>,
        logs: &mut Logs,
    ) -> JobResult<(ChildOutcome, StreamSummary)> {
        let launch = agent::launch(turn.setup, &self.with_tool_folder(turn.ask));
        let child = self.launch(&launch, turn)?;
        self.status_file.status.agent_pid = Some(child.pid.as_raw_pid());
        let mut listener = AgentListener {
            reader: agent::reader(turn.setup.kind, turn.before),
            out: Lines::default(),
            err: Lines::default(),
            stderr: StderrTail::default(),
            logs,
            events: Vec::new(),
            last: String::new(),
            turn,
            now: AgentUsage::default(),
            end: None,
            failures: RepeatedFailures::default(),
            stall_detector: StallDetector::new(millis(turn.limits.idle_ms), clock::monotonic()),
        };
        let mut outcome = self.watch_child(child, &mut listener, turn.deadline);
        self.status_file.status.agent_pid = None;
        let (reading, end, stderr) = listener.finish(outcome.exit);
        self.receipt.stderr = end_of(&stderr, limits::STDERR_BYTES).to_owned();
        // The agent may have exited right after the output that would have ended it.
        let late_cause =
            end.filter(|end| matches!(end, EndCause::NotAllowed { .. } | EndCause::Loop { .. }));
        outcome.ended = outcome.ended.or(late_cause);
        Ok((outcome, reading))
    }

    /// Fills in the MCP server's folder here, because some agents read the server's settings from
    /// standard input, where placeholders stay as they are: a prompt may contain any text.
    fn with_tool_folder(&self, ask: &AgentRequest) -> AgentRequest {
        let mut ask = ask.clone();
        for value in ask.mcp.iter_mut().flat_map(|server| server.env.values_mut()) {
            *value = self.fill_folder(value);
        }
        ask
    }

    fn fill_folder(&self, text: &str) -> String {
        text.replace(FOLDER, &self.folder.path().to_string_lossy())
    }

    fn launch(&self, launch: &Launch, turn: &AgentTurn<'_>) -> JobResult<Child> {
        let not_started = |detail| EndCause::NotStarted { detail };
        let fill_folder = |text: &String| self.fill_folder(text);
        for (name, text) in &launch.files {
            let written = self.folder.write_file(name, &fill_folder(text));
            written.map_err(|error| not_started(with_cause(&error)))?;
        }
        let mut env = Environment::passed(&turn.setup.pass);
        env.extend(self.spec.env.clone());
        for (name, value) in &launch.env {
            env.insert(name.clone(), fill_folder(value));
        }
        env.insert(MARKER.to_owned(), self.marker.clone());
        let program = if launch.program == OWN_PROGRAM {
            std::env::current_exe()
                .map(|path| path.to_string_lossy().into_owned())
                .map_err(|error| not_started(format!("failed to find this program: {error}")))?
        } else {
            launch.program.clone()
        };
        let args = launch.args.iter().map(fill_folder);
        let program = Program::new(&program, args, turn.folder, &env);
        Child::start(&Program { stdin: launch.stdin.clone(), ..program }).map_err(|error| {
            let detail = format!("failed to start `{}`: {error}", launch.program);
            if is_missing(&error) && turn.folder.is_dir() {
                unusable(detail)
            } else {
                not_started(detail)
            }
        })
    }
}

/// Processes an agent's output.
struct AgentListener<'a> {
    reader: Box<dyn StreamReader>,
    out: Lines,
    err: Lines,
    stderr: StderrTail,
    logs: &'a mut Logs,
    /// Filled and emptied with every chunk of output.
    events: Vec<AgentEvent>,
    last: String,
    turn: &'a AgentTurn<'a>,
    now: AgentUsage,
    /// The first reason in the output to end the agent.
    end: Option<EndCause>,
    failures: RepeatedFailures,
    stall_detector: StallDetector,
}

impl AgentListener<'_> {
    fn finish(mut self, exit: ProcessExit) -> (StreamSummary, Option<EndCause>, String) {
        let Self { reader, out, err, stderr, events, .. } = &mut self;
        out.finish(&mut |line| reader.line(line, events));
        err.finish(&mut |line| {
            stderr.push(line);
            reader.error_line(line, events);
        });
        for event in std::mem::take(&mut self.events) {
            self.handle_event(event);
        }
        (self.reader.finish(exit, clock::now()), self.end, self.stderr.text())
    }

    fn handle_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Spent(usage) => self.now = usage,
            AgentEvent::Hopeless { reason } => {
                self.end.get_or_insert(EndCause::Hopeless);
                self.last = start_of(&reason, SHOWN_BYTES).to_owned();
            }
            AgentEvent::Text { text }
            | AgentEvent::Note { text }
            | AgentEvent::Ended { text, .. } => {
                self.last = start_of(&text, SHOWN_BYTES).to_owned();
            }
            AgentEvent::Tool { name, detail, id, actions } => {
                self.last = start_of(&format!("{name} {detail}"), SHOWN_BYTES).to_owned();
                self.called(&id, &actions);
            }
            AgentEvent::ToolResult { ok, detail, id } => self.result(&id, ok, &detail),
            AgentEvent::Session { .. } => {}
        }
    }

    /// Ends the run if an announced call needed permission first. The agent may be faster than the
    /// keeper.
    fn called(&mut self, id: &str, actions: &[Action]) {
        let Some(guard) = &self.turn.ask.guard else { return };
        let what = |action: &Action| {
            let (word, what) = action.parts();
            format!("{word} {what}")
        };
        let what: Vec<String> = actions.iter().map(what).collect();
        self.failures.record_call(id, &what.join(", "), agent::can_change(actions));
        if let Some(request) = guard.stops(actions) {
            self.end.get_or_insert(EndCause::NotAllowed { request: request.to_string() });
        }
    }

    fn result(&mut self, id: &str, ok: bool, output: &str) {
        let Some(guard) = &self.turn.ask.guard else { return };
        let limit = guard.policy.loops.tool_failures;
        if let Some(summary) = self.failures.record_result(id, ok, output, limit) {
            self.end.get_or_insert(EndCause::Loop { summary });
        }
    }

    fn total(&self) -> AgentUsage {
        self.turn.spent.plus(self.now)
    }

    fn over_budget(&self) -> Option<EndCause> {
        let AgentUsage { input_tokens, output_tokens, cost_micros } = self.total();
        let tokens = input_tokens.saturating_add(output_tokens);
        let limits = self.turn.limits;
        let too_many = limits.tokens.filter(|limit| tokens > *limit);
        let tokens = too_many.map(|limit| format!("{tokens} tokens of {limit}"));
        let cost = limits.cost_micros.zip(cost_micros).filter(|(limit, cost)| cost > limit);
        let cost = cost.map(|(limit, cost)| format!("{cost} millionths of a dollar of {limit}"));
        tokens.or(cost).map(|detail| EndCause::OverBudget { detail })
    }
}

impl Listener for AgentListener<'_> {
    fn on_output(&mut self, side: Side, bytes: &[u8]) {
        self.stall_detector.had_output = true;
        let Self { reader, out, err, stderr, logs, events, .. } = self;
        match side {
            Side::Out => {
                logs.out.write(bytes);
                out.push(bytes, &mut |line| reader.line(line, events));
            }
            Side::Err => {
                logs.err.write(bytes);
                err.push(bytes, &mut |line| {
                    stderr.push(line);
                    reader.error_line(line, events);
                });
            }
        }
        for event in std::mem::take(&mut self.events) {
            self.handle_event(event);
        }
    }

    fn end_cause(&mut self, now: Moment, exempt: Option<Pid>) -> Option<EndCause> {
        if let Some(end) = &self.end {
            return Some(end.clone());
        }
        let cpu_use = || tree::cpu_use(&tree::descendants(exempt));
        let stalled = self.stall_detector.is_stalled(now, cpu_use);
        self.over_budget().or_else(|| stalled.then_some(EndCause::Stalled))
    }

    fn due_at(&self) -> Option<Moment> {
        Some(self.stall_detector.due_at())
    }

    fn has_worked(&mut self) -> bool {
        std::mem::take(&mut self.stall_detector.was_busy)
    }

    fn was_stopped(&mut self, time: Duration) {
        self.stall_detector.was_stopped(time);
    }

    fn update_status(&self, status: &mut KeeperStatus) {
        let total = self.total();
        status.input_tokens = total.input_tokens;
        status.output_tokens = total.output_tokens;
        status.cost_micros = total.cost_micros;
        status.dropped_bytes = self.logs.out.dropped + self.logs.err.dropped;
        if status.last != self.last {
            status.last.clone_from(&self.last);
        }
    }

    fn ends_descendants(&self) -> bool {
        true
    }
}

/// Detects a stall: neither output nor CPU use. Both are needed, because a build prints nothing for
/// long and an agent that waits for its model uses no CPU.
struct StallDetector {
    limit: Duration,
    period: Duration,
    /// Whether there was output since the last check.
    had_output: bool,
    since: Moment,
    sampled: Option<(Moment, CpuUse)>,
    /// Whether CPU use was seen since somebody asked: progress of a run, as output is.
    was_busy: bool,
    next: Moment,
}

impl StallDetector {
    fn new(limit: Duration, now: Moment) -> Self {
        let period = (limit / SAMPLES_PER_IDLE_SPAN).min(LONGEST_SAMPLE);
        let next = now + period;
        Self { limit, period, had_output: false, since: now, sampled: None, was_busy: false, next }
    }

    fn due_at(&self) -> Moment {
        self.next.min(self.since + self.limit)
    }

    /// Nobody was awake, so neither silence nor CPU use of this time means anything.
    fn was_stopped(&mut self, time: Duration) {
        (self.since, self.next, self.sampled) = (self.since + time, self.next + time, None);
    }

    /// Calls `cpu_use` only after some time without output, because it is expensive.
    fn is_stalled(&mut self, now: Moment, cpu_use: impl FnOnce() -> CpuUse) -> bool {
        if std::mem::take(&mut self.had_output) {
            (self.since, self.sampled, self.next) = (now, None, now + self.period);
            return false;
        }
        if now < self.due_at() {
            return false;
        }
        let cpu_use = cpu_use();
        let (at, before) = self.sampled.replace((now, cpu_use)).unwrap_or((now, cpu_use));
        self.next = now + self.period;
        if is_busy(now - at, before, cpu_use) {
            (self.since, self.was_busy) = (now, true);
        }
        now >= self.since + self.limit
    }
}

/// Whether processes did work between two samples. CPU time that falls means that a process exited,
/// which is activity as well. On an overloaded machine a working process may get almost no CPU
/// time; it is then runnable at every sample, which a waiting process is not.
fn is_busy(span: Duration, before: CpuUse, now: CpuUse) -> bool {
    let Some(used) = now.used.checked_sub(before.used) else { return true };
    let has_worked = !used.is_zero() && used.as_micros() * 100 >= span.as_micros() * BUSY_PERCENT;
    has_worked || (!span.is_zero() && before.is_runnable && now.is_runnable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(8);

    /// Simulates seconds; `used` gives the CPU time in hundredths of a second by each of them, and
    /// `output` the seconds with output.
    fn stalls_after(used: impl Fn(u64) -> u64, output: &[u64]) -> Option<u64> {
        stalls_with_demand(|second| (used(second), false), output)
    }

    /// The same on a machine where processes wait for a CPU.
    fn stalls_with_demand(cpu_use: impl Fn(u64) -> (u64, bool), output: &[u64]) -> Option<u64> {
        let start = clock::monotonic();
        let mut stall_detector = StallDetector::new(IDLE, start);
        (1..100).find(|second| {
            stall_detector.had_output |= output.contains(second);
            let (hundredths, is_runnable) = cpu_use(*second);
            let used = Duration::from_millis(hundredths * 10);
            stall_detector
                .is_stalled(start + Duration::from_secs(*second), || CpuUse { used, is_runnable })
        })
    }

    #[test]
    fn silence_without_work_is_a_stall() {
        assert_eq!(stalls_after(|_| 0, &[]), Some(8));
        assert_eq!(stalls_after(|_| 0, &[3, 9]), Some(17));
    }

    #[test]
    fn cpu_use_without_output_is_not_a_stall() {
        assert_eq!(stalls_after(|second| second * 50, &[]), None);
        assert_eq!(stalls_after(|second| second.min(20) * 50, &[]), Some(28));
    }

    #[test]
    fn timers_of_a_waiting_program_do_not_count_as_work() {
        assert_eq!(stalls_after(|second| second, &[]), Some(8));
    }

    #[test]
    fn runnable_processes_count_as_busy() {
        assert_eq!(stalls_with_demand(|_| (0, true), &[]), None);
        assert_eq!(stalls_with_demand(|second| (second, second % 4 == 0), &[]), Some(8));
        assert_eq!(stalls_with_demand(|second| (second, second < 20), &[]), Some(26));
    }

    #[test]
    fn time_in_which_the_keeper_was_stopped_is_not_silence() {
        let start = clock::monotonic();
        let mut stall_detector = StallDetector::new(IDLE, start);
        let mut is_stalled_at = |second| {
            stall_detector.is_stalled(start + Duration::from_secs(second), CpuUse::default)
        };
        assert!(!is_stalled_at(5));
        stall_detector.was_stopped(Duration::from_secs(60));
        let mut is_stalled_at = |second| {
            stall_detector.is_stalled(start + Duration::from_secs(second), CpuUse::default)
        };
        assert!(!is_stalled_at(66));
        assert!(is_stalled_at(69));
    }

    #[test]
    fn the_exit_of_a_process_counts_as_activity() {
        assert_eq!(stalls_after(|second| if second < 5 { 70 } else { 0 }, &[]), Some(14));
    }
}
