//! Formats the events of an agent and the facts of its end, as lines for people and as JSON for
//! programs.

use banksman_core::ids::RunId;
use banksman_core::machine::WaitsFor;
use banksman_core::receipt::{AgentReport, CheckResult, EndCause, Evidence, Receipt};
use banksman_core::time::Instant;

use crate::api::run::{LogEvent, LogLine};
use crate::cli::output::{json_line, sanitize, sanitize_lines};
use crate::cli::symbols::{Symbols, counted, format_span, format_usage, local, local_time};
use crate::ops::runs::AgentEvent;
use crate::store::runs::PastRun;

/// How much of one event is shown; the log has the full text.
const EVENT_CHARS: usize = 400;
/// How much of a failed check's output is shown.
const CHECK_LINES: usize = 10;

/// How the entries of a part of a log are formatted.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogFormat {
    pub(super) json: bool,
    pub(super) symbols: Symbols,
    /// Prefix lines with the time, or with as many blanks; used when following.
    pub(super) timed: bool,
    pub(super) run: RunId,
    /// When the entries were seen, which is known only when following.
    pub(super) at: Option<Instant>,
}

impl LogFormat {
    pub(super) fn heading(&self, past: &PastRun) -> String {
        let node = past.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let since = local(past.started_at);
        sanitize(&format!("{} of {}{node}, since {since}", self.run, past.worker))
    }

    /// What moves the task between two runs.
    pub(super) fn between(
        &self,
        state: &str,
        waits_for: &WaitsFor,
        not_before: Option<Instant>,
        goes_on: bool,
    ) -> String {
        let RunId { task, epoch } = self.run;
        let waits = match (waits_for, not_before) {
            (WaitsFor::Queue, _) => "it waits for an agent".to_owned(),
            (WaitsFor::Lease(_), _) => "another worker has it".to_owned(),
            (WaitsFor::Timer(_), Some(at)) => {
                format!("attempt {} starts at {} or later", epoch + 1, local_time(at))
            }
            (WaitsFor::Timer(_), None) => "it continues on its own".to_owned(),
            (WaitsFor::Subtasks, _) => "its subtasks are running".to_owned(),
            (WaitsFor::Parent(_), _) => "it is done for now".to_owned(),
            (WaitsFor::Ended, _) => "the task has ended".to_owned(),
            (WaitsFor::Person, _) => "it waits for a person".to_owned(),
            (WaitsFor::Needs(_), _) => "it waits for other tasks".to_owned(),
            (WaitsFor::Stranded, _) => "nothing will move it".to_owned(),
        };
        let stop = if goes_on { "; press Ctrl-C to stop following" } else { "" };
        sanitize(&format!("{task} is in {state}: {waits}{stop}"))
    }

    /// None for events that are only useful to programs.
    pub(super) fn event(&self, seen: &AgentEvent) -> Option<String> {
        if self.json {
            return Some(self.document(seen.into()));
        }
        let (word, text) = match seen {
            AgentEvent::Session { id } => ("session", id.clone()),
            AgentEvent::Text { text } => ("says", text.clone()),
            AgentEvent::Tool { name, detail, .. } => ("tool", format!("{name}  {detail}")),
            AgentEvent::ToolResult { ok, detail, .. } => {
                ("", format!("{} {detail}", self.symbols.success(*ok)))
            }
            AgentEvent::Note { text } => ("note", text.clone()),
            AgentEvent::Spent(_) => return None,
            AgentEvent::Hopeless { reason } => ("stuck", reason.clone()),
            AgentEvent::Ended { ok, text } => (if *ok { "done" } else { "failed" }, text.clone()),
        };
        Some(self.line(word, &text))
    }

    /// A report that the agent sent with its tools.
    pub(super) fn report(&self, report: &AgentReport) -> String {
        if self.json {
            return self.document(LogEvent::Report { report });
        }
        match report {
            AgentReport::Progress { step, blockers, .. } if blockers.is_empty() => {
                self.line("reports", step)
            }
            AgentReport::Progress { step, blockers, .. } => {
                self.line("reports", &format!("{step}; blocked by {}", blockers.join(", ")))
            }
            AgentReport::NeedsPerson { question } => self.line("asks", question),
            AgentReport::NothingToDo { reason } => {
                self.line("reports", &format!("nothing to do: {reason}"))
            }
        }
    }

    /// A line of standard error.
    pub(super) fn error_line(&self, line: &str) -> String {
        if self.json {
            return self.document(LogEvent::Stderr { text: line });
        }
        format!("{}{}\n", self.time(), sanitize(line))
    }

    pub(super) fn gap(&self) -> String {
        if self.json {
            return self.document(LogEvent::Gap);
        }
        self.line("note", "part of the log is missing: the output exceeded the limit")
    }

    fn document(&self, entry: LogEvent<'_>) -> String {
        format!("{}\n", json_line(&LogLine::new(self.run, self.at, entry)))
    }

    fn line(&self, word: &str, text: &str) -> String {
        let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = words.char_indices().nth(EVENT_CHARS) {
            words.truncate(cut);
            words.push_str("...");
        }
        format!("{}{word:<8} {}\n", self.time(), sanitize(&words))
    }

    fn time(&self) -> String {
        match (self.timed, self.at) {
            (true, Some(at)) => format!("{} ", local_time(at)),
            (true, None) => " ".repeat(9),
            (false, _) => String::new(),
        }
    }

    /// How the run ended: what the keeper found, and how Banksman judged it.
    pub(super) fn end(&self, receipt: Option<&Receipt>, judged: &PastRun) -> String {
        if self.json {
            return self.document(LogEvent::end(receipt, judged));
        }
        let mut text = String::from("\n");
        let mut fact = |name: &str, value: &str| {
            if !value.is_empty() {
                text.push_str(&format!("{name:<8} {value}\n"));
            }
        };
        let class = judged.class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
        match &judged.outcome {
            Some(outcome) => fact("outcome", &sanitize(&format!("{outcome}{class}"))),
            None => fact("outcome", "not judged yet; the next pulse judges it"),
        }
        let said = receipt.and_then(|receipt| receipt.reading.as_ref());
        let answer = said.map(|said| said.text.as_str()).unwrap_or_default();
        let detail = judged.detail.as_deref().filter(|detail| detail.trim() != answer.trim());
        fact("because", &indented(detail.unwrap_or_default()));
        if let Some(receipt) = receipt {
            let is_early = receipt.ended != EndCause::Completed;
            let how = if is_early { receipt.ended.to_string() } else { String::new() };
            // The judgement may already say the same.
            if detail.is_none_or(|detail| !how.ends_with(detail)) {
                fact("ended", &sanitize(&how));
            }
            let evidence = receipt.evidence.as_ref();
            fact("work", &evidence.map(work).unwrap_or_default());
            let checks = evidence.map(|found| found.checks.as_slice()).unwrap_or_default();
            for check in checks {
                fact("check", &self.check(check));
            }
            let is_change = |found: &Evidence| found.commits > 0 && found.criterion.is_none();
            if let Some(found) = evidence.filter(|found| checks.is_empty() && is_change(found)) {
                let why = found.unchecked.as_ref();
                let why = why.map(|why| format!("the checks did not run: {}", sanitize(why)));
                fact("check", why.as_deref().unwrap_or("no checks were set"));
            }
            for note in evidence.map(|found| found.notes.as_slice()).unwrap_or_default() {
                fact("note", &sanitize(note));
            }
            fact("took", &format_span(receipt.ended_at.since(receipt.started_at)));
        }
        fact("used", &used(receipt, judged));
        fact("answer", &indented(answer));
        text
    }

    fn check(&self, check: &CheckResult) -> String {
        let sign = self.symbols.success(check.passed());
        let how = match (check.exit.code, check.exit.signal) {
            (Some(0), _) => String::new(),
            (Some(code), _) => format!("exit {code}, "),
            (None, Some(signal)) => format!("signal {signal}, "),
            (None, None) => String::new(),
        };
        let mut text = format!("{sign} {} ({how}{} ms)", sanitize(&check.command), check.millis);
        if !check.passed() {
            let lines: Vec<&str> = check.tail.trim_end().lines().collect();
            for line in lines.iter().skip(lines.len().saturating_sub(CHECK_LINES)) {
                text.push_str(&format!("\n         {}", sanitize(line)));
            }
        }
        text
    }
}

/// Another's text, with its lines aligned.
fn indented(text: &str) -> String {
    sanitize_lines(text.trim()).replace('\n', "\n         ")
}

fn work(found: &Evidence) -> String {
    let head: String = found.head.chars().take(10).collect();
    if found.commits == 0 {
        return "no commits".to_owned();
    }
    format!(
        "{}, {}, +{} -{}, head {}",
        counted(found.commits, "commit"),
        counted(found.files, "file"),
        found.insertions,
        found.deletions,
        sanitize(&head)
    )
}

/// Tokens and cost: as recorded, else as the agent reported them.
fn used(receipt: Option<&Receipt>, judged: &PastRun) -> String {
    let said = receipt.and_then(|receipt| receipt.reading.as_ref());
    let (mut tokens, mut cost) = (judged.tokens, judged.cost_micros);
    if let (None, Some(said)) = (&judged.outcome, said) {
        tokens = said.input_tokens + said.output_tokens;
        cost = said.cost_micros.unwrap_or_default();
    }
    format_usage(tokens, cost)
}
