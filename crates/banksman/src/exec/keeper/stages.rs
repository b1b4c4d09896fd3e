//! The stages of a job, in order, and the receipt that they fill.

use std::borrow::Cow;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use banksman_core::failure::{self, Deliverable, RunExpectation};
use banksman_core::fence::fence;
use banksman_core::limits;
use banksman_core::policy::Action;
use banksman_core::receipt::{
    CheckResult, EndCause, Evidence, FaultKind, MergeReport, PrepareFault, ProcessExit, Receipt,
    StreamSummary, Terminal, Usage,
};
use banksman_core::text::start_of;

use super::super::agent::{AgentRequest, AgentUsage, schema};
use super::super::evidence::Outputs;
use super::super::files::read_end;
use super::super::git::Git;
use super::super::job::{
    AgentWork, Evaluator, JobResult, JobWork, RunLimits, StepJudge, Verification, Workspace,
};
use super::super::merge::{find, merge};
use super::super::worktree::{environment, rescue};
use super::super::{evidence, worktree};
use super::Keeper;
use super::agent_turn::{AgentTurn, Logs};
use super::folder::{ERR_FILE, OUT_FILE};
use super::join::join_prompt;
use super::lease::{LeaseRenewal, millis};
use super::status::Stage;
use super::watch::POLL_INTERVAL;
use crate::clock;

/// The shape of the evaluator's answer.
const OPINION_SCHEMA: &str = include_str!("../../../prompts/evaluator.schema.json");
/// The evaluator's input: about 4,000 tokens, so that it stays below 5,000 with its instructions.
const EVALUATOR_BYTES: usize = 14 * 1024;
/// The most of it that facts take if there are changes to show.
const EVALUATOR_FACT_BYTES: usize = 8 * 1024;
/// The most that the fences around untrusted texts take of it.
pub(super) const MARKS_BYTES: usize = 100;
/// The changes that a prompt shows to whoever judges them, with the words around them.
const SHOWN_CHANGES_BYTES: usize = 24 * 1024;
/// The most that the words and the fence around changes take.
const CHANGES_FRAME_BYTES: usize = 200;
/// The limits for the changed paths, and for the tails of the agent's text and of a check's output.
const EVALUATOR_PATHS: usize = 30;
const EVALUATOR_TEXT_BYTES: usize = 4 * 1024;
/// The limit for one objection to an answer, which may quote a member name of any length.
const OBJECTION_BYTES: usize = 300;

impl Keeper {
    /// Does what the spec asks for. The receipt records everything that happens.
    pub(super) fn work(&mut self) {
        let spec = Rc::clone(&self.spec);
        let place = spec.workspace.as_ref();
        let done = match &spec.work {
            JobWork::Agent(work) => self.agent_work(place, work),
            JobWork::Check { checks, message, judge } => self
                .check_work(place, checks, message.as_deref())
                .and_then(|()| judge.as_ref().map_or(Ok(()), |judge| self.judge_step(judge))),
            JobWork::Inspect { folder, checks } => self.inspect(folder, checks),
            JobWork::Merge { checks, message, commit } => {
                self.merge_work(place, checks, message, commit.as_deref())
            }
            JobWork::FindMerge { commit } => self.find_merge(place, commit.as_deref()),
            JobWork::CleanUp => place.map_or(Ok(()), |workspace| self.clean_up(workspace)),
            JobWork::Poll => self.poll_pull_request(place),
        };
        self.sweep();
        self.receipt.ended = match (done, &self.interrupt) {
            (Ok(()), _) => EndCause::Completed,
            // What failed because the job must end is no fault of the environment.
            (
                Err(EndCause::NotPrepared { class: PrepareFault::Environment, .. }),
                Some(interrupt),
            ) => interrupt.clone(),
            (Err(ended), _) => ended,
        };
        self.receipt.ended_at = clock::now();
    }

    fn agent_work(&mut self, place: Option<&Workspace>, work: &AgentWork) -> JobResult<()> {
        check_schema(&work.ask)?;
        let (folder, prepared) = self.prepare(place)?;
        self.clear_mailbox(&work.checks, &folder)?;
        self.status_file.status.stage = Stage::Agent;
        let shown = place.filter(|_| work.shows_changes);
        let room = limits::SENT_PROMPT_BYTES.saturating_sub(work.ask.prompt.len());
        let shown = shown.and_then(|place| self.changes(&folder, (&place.base, "HEAD"), room));
        let mut work = Cow::Borrowed(work);
        if let Some(changes) = shown {
            work.to_mut().ask.prompt.push_str(&changes);
        }
        let conflicts = prepared.as_ref().map_or(&[][..], |prepared| &prepared.conflicts);
        if let Some(prompt) = join_prompt(&work, conflicts)? {
            work.to_mut().ask.prompt = prompt;
        }
        let work = work.as_ref();
        let ended = self.run_turns(work, &folder);
        self.wall = None;
        let command = work.command.as_ref().map(|command| self.command_result(command));
        if let Some(reading) = &mut self.receipt.reading {
            reading.reports.extend(self.folder.reports());
        }
        self.check_interrupt()?;
        let succeeded = ended.is_ok() && is_success(self.receipt.reading.as_ref());
        self.status_file.status.stage = Stage::Evidence;
        self.gather(work, &folder, place.zip(prepared.as_ref()), succeeded)?;
        ended?;
        if let Some(check) = command {
            let evidence = self.receipt.evidence.get_or_insert_default();
            evidence.checks.insert(0, CheckResult { head: evidence.head.clone(), ..check });
        }
        match &work.evaluator {
            Some(evaluator) if self.is_inconclusive(work) => {
                let found = self.receipt.evidence.as_ref();
                let ends = found.map(|found| (found.base.clone(), found.head.clone()));
                let room = EVALUATOR_BYTES - EVALUATOR_FACT_BYTES;
                let changes =
                    ends.and_then(|(base, head)| self.changes(&folder, (&base, &head), room));
                let changes = changes.unwrap_or_default();
                let facts = evaluator_input(&self.receipt, EVALUATOR_BYTES - changes.len());
                self.evaluate(evaluator, &format!("{facts}{changes}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What the exit of a step's command says, with the end of its output. No line of the output
    /// counts as an agent's word.
    fn command_result(&mut self, command: &str) -> CheckResult {
        let exit = self.receipt.exit.unwrap_or(ProcessExit { code: None, signal: None });
        let ok = exit.code == Some(0);
        let terminal = Some(if ok { Terminal::Success } else { Terminal::Error });
        self.receipt.reading = Some(StreamSummary { terminal, ..StreamSummary::default() });
        // Without it, only the message is poorer: the exit code decides.
        let output = File::open(self.folder.path().join(OUT_FILE))
            .and_then(|mut file| read_end(&mut file, limits::CHECK_TAIL_BYTES as u64));
        let tail = String::from_utf8_lossy(&output.unwrap_or_default()).trim_end().to_owned();
        let millis = clock::now().since(self.receipt.started_at).0;
        let (command, head) = (command.to_owned(), String::new());
        CheckResult { command, head, exit, millis, tail }
    }

    /// Gathers evidence. After an unsuccessful run it neither commits nor checks.
    fn gather(
        &mut self,
        work: &AgentWork,
        folder: &Path,
        place: Option<(&Workspace, &worktree::PreparedWorktree)>,
        succeeded: bool,
    ) -> JobResult<()> {
        let demanded = &work.checks;
        let outputs = Outputs::look(folder, demanded);
        let signal_file = self.take_signal_file(demanded, folder);
        let workspace = place.map(|(workspace, _)| workspace);
        // Whoever answers changes nothing, so that its commits never count as the task's work.
        let answers = place.filter(|_| work.expects == Deliverable::Answer);
        let set_aside = answers
            .map(|(workspace, prepared)| rescue::take_back(self, workspace, &prepared.head))
            .transpose()?;
        let mut evidence = match place {
            Some((workspace, prepared)) => {
                let message = succeeded.then_some(work.commit_message.as_str());
                let commands = if succeeded { demanded.commands.clone() } else { Vec::new() };
                let checks = Verification { commands, ..demanded.clone() };
                let found = evidence::gather(self, workspace, prepared, &checks, message)?;
                let is_unchecked = !succeeded && !demanded.commands.is_empty();
                let why = is_unchecked.then(|| "the agent did not report success".to_owned());
                Evidence { unchecked: found.unchecked.clone().or(why), ..found }
            }
            None if demands_evidence(demanded) => Evidence::default(),
            None => return Ok(()),
        };
        if let Some(workspace) = workspace.filter(|_| succeeded) {
            self.find_pull_request(workspace, &mut evidence);
        }
        if let Some((workspace, prepared)) = place {
            let unmerged = self.unmerged(workspace, prepared, &evidence)?;
            evidence.unmerged.splice(0..0, unmerged);
        }
        if let Some(reference) = set_aside.flatten() {
            let note = format!("it was to answer only; what it changed is saved as `{reference}`");
            evidence.notes.push(note);
        }
        evidence.signal = signal_file.or(self.check_branch_signal(workspace, demanded, &evidence)?);
        evidence.missing = match workspace {
            // What a command leaves need not differ; its exit says whether it has worked.
            Some(_) if work.command.is_none() && evidence.commits == 0 => outputs.unchanged(),
            Some(_) => outputs.missing_in(&mut Git::at(self, folder), folder, &evidence.head)?,
            None => outputs.missing(),
        };
        evidence.criterion.clone_from(&demanded.criterion);
        evidence.request = needed_permission(work, &evidence);
        if work.counts_earlier {
            evidence.head_before.clone_from(&evidence.base);
        }
        self.receipt.evidence = Some(evidence);
        Ok(())
    }

    fn check_work(
        &mut self,
        place: Option<&Workspace>,
        checks: &Verification,
        message: Option<&str>,
    ) -> JobResult<()> {
        let (folder, prepared) = self.prepare(place)?;
        let (workspace, prepared) = place.zip(prepared).ok_or_else(no_worktree)?;
        self.open_mailbox(checks, &folder)?;
        self.status_file.status.stage = Stage::Evidence;
        let outputs = Outputs::look(&folder, checks);
        let mut gathered = evidence::gather(self, workspace, &prepared, checks, message)?;
        let missing = outputs.missing_in(&mut Git::at(self, &folder), &folder, &gathered.head)?;
        let criterion = checks.criterion.clone();
        let unmerged = self.unmerged(workspace, &prepared, &gathered)?;
        gathered.unmerged.splice(0..0, unmerged);
        self.receipt.evidence = Some(Evidence { missing, criterion, ..gathered });
        Ok(())
    }

    /// Skips the evaluator if the facts already contradict success.
    fn judge_step(&mut self, judge: &StepJudge) -> JobResult<()> {
        let found = self.receipt.evidence.as_ref();
        if !found.is_some_and(|evidence| failure::check(evidence, None).ambiguous) {
            return Ok(());
        }
        let reading = StreamSummary { text: judge.said.clone(), ..StreamSummary::default() };
        let input = Receipt { reading: Some(reading), ..self.receipt.clone() };
        self.evaluate(&judge.evaluator, &evaluator_input(&input, EVALUATOR_BYTES))
    }

    fn merge_work(
        &mut self,
        place: Option<&Workspace>,
        checks: &Verification,
        message: &str,
        commit: Option<&str>,
    ) -> JobResult<()> {
        self.confirm_lease()?;
        let workspace = place.ok_or_else(no_worktree)?;
        // A branch that collects others is built first.
        if !workspace.merges_in.is_empty() {
            let (_, prepared) = self.prepare(place)?;
            let conflicts = prepared.map(|prepared| prepared.conflicts).unwrap_or_default();
            if !conflicts.is_empty() {
                let paths = conflicts.iter().map(ToString::to_string).collect();
                self.receipt.merge = Some(MergeReport::Conflict { paths });
                return Ok(());
            }
        }
        self.status_file.status.stage = Stage::Merge;
        self.receipt.merge = Some(merge(self, workspace, checks, message, commit)?);
        Ok(())
    }

    fn find_merge(&mut self, place: Option<&Workspace>, commit: Option<&str>) -> JobResult<()> {
        self.confirm_lease()?;
        let workspace = place.ok_or_else(no_worktree)?;
        self.status_file.status.stage = Stage::Merge;
        self.receipt.merge = Some(find(self, workspace, commit)?);
        Ok(())
    }

    fn clean_up(&mut self, workspace: &Workspace) -> JobResult<()> {
        self.status_file.status.stage = Stage::CleanUp;
        let removed = worktree::removal::remove(self, workspace)?;
        if let Some(rescue) = removed.rescue {
            eprintln!("{} work that was only in the worktree is saved as {rescue}", clock::now());
        }
        worktree::removal::empty_trash(self, &workspace.spare)?;
        Ok(())
    }

    /// The folder to work in, and its worktree if there is one.
    fn prepare(
        &mut self,
        place: Option<&Workspace>,
    ) -> JobResult<(PathBuf, Option<worktree::PreparedWorktree>)> {
        self.confirm_lease()?;
        let Some(workspace) = place else { return Ok((self.work_folder()?, None)) };
        let prepared = worktree::prepare(self, workspace);
        self.check_interrupt()?;
        let prepared = prepared?;
        for note in &prepared.notes {
            eprintln!("{} {note}", clock::now());
        }
        Ok((workspace.worktree.clone(), Some(prepared)))
    }

    /// Confirms, before the job touches anything, that the lease is held and that nobody has
    /// requested a stop.
    pub(super) fn confirm_lease(&mut self) -> JobResult<()> {
        // An interruption is kept in `interrupt`, which the loop looks at.
        drop(self.tick(clock::monotonic()));
        while self.interrupt.is_none()
            && self.lease.as_ref().is_some_and(LeaseRenewal::is_unconfirmed)
        {
            self.pause(POLL_INTERVAL);
        }
        self.check_interrupt()
    }

    fn work_folder(&self) -> JobResult<PathBuf> {
        let folder = self.folder.work();
        fs::create_dir_all(&folder).map_err(|error| {
            environment(format!("failed to create `{}`: {error}", folder.display()))
        })?;
        Ok(folder)
    }

    /// Runs the agent's turns: the first, one more if it stalled, and one more if its answer
    /// violates the schema.
    fn run_turns(&mut self, work: &AgentWork, folder: &Path) -> JobResult<()> {
        let spec = Rc::clone(&self.spec);
        let bytes = spec.limits.output_bytes;
        let mut logs = Logs::new(self.folder.path(), OUT_FILE, ERR_FILE, bytes);
        let mut ask = work.ask.clone();
        let mut was_corrected = false;
        loop {
            let spent = self.receipt.reading.as_ref().map(AgentUsage::of).unwrap_or_default();
            let turn = AgentTurn {
                setup: &work.setup,
                ask: &ask,
                before: work.before.plus(spent),
                spent,
                folder,
                limits: &spec.limits,
                deadline: self.wall.unwrap_or_else(clock::monotonic),
            };
            let (outcome, reading) = self.turn(&turn, &mut logs)?;
            let receipt = &mut self.receipt;
            receipt.exit = Some(outcome.exit);
            receipt.reading = Some(merge_turns(receipt.reading.take(), reading));
            let session = receipt.reading.as_ref().and_then(|reading| reading.session.clone());
            let session = session.or(ask.session);
            let prompt = match outcome.ended {
                // It would stall again after a nudge.
                Some(EndCause::Stalled | EndCause::TimedOut)
                    if waits_for_provider(receipt.reading.as_ref()) =>
                {
                    return Err(EndCause::Hopeless);
                }
                Some(EndCause::Stalled) if receipt.nudges == 0 && session.is_some() => {
                    receipt.nudges += 1;
                    self.status_file.status.nudges = receipt.nudges;
                    work.nudge.clone()
                }
                Some(ended) => return Err(ended),
                None => {
                    check_answer(&work.ask, receipt);
                    if receipt.objections.is_empty() || was_corrected || session.is_none() {
                        return Ok(());
                    }
                    was_corrected = true;
                    correction_prompt(&receipt.objections)
                }
            };
            ask = AgentRequest { prompt, session, ..work.ask.clone() };
        }
    }

    /// The changes for whoever judges them, if there are any, in at most this many bytes.
    fn changes(
        &mut self,
        folder: &Path,
        (base, head): (&str, &str),
        room: usize,
    ) -> Option<String> {
        let diff = Git::at(self, folder).diff(base, head);
        let diff = diff.inspect_err(|error| eprintln!("{} the changes: {error}", clock::now()));
        let diff = diff.ok().filter(|diff| !diff.trim().is_empty())?;
        let room = room.min(SHOWN_CHANGES_BYTES).saturating_sub(CHANGES_FRAME_BYTES);
        let shown = start_of(&diff, room);
        let rest = if shown.len() < diff.len() { ", from the beginning" } else { "" };
        Some(format!("\n\nWhat was changed{rest}:\n\n{}\n", fence(shown)))
    }

    /// Asks the evaluator about what the facts leave open. It runs outside the worktree, so that it
    /// cannot change anything there.
    fn evaluate(&mut self, evaluator: &Evaluator, facts: &str) -> JobResult<()> {
        self.status_file.status.stage = Stage::Evaluate;
        let asked = self.ask_evaluator(evaluator, facts);
        let answered = asked.as_ref().filter(|reading| is_success(Some(reading)));
        let answer = answered.and_then(|reading| reading.answer.clone());
        self.receipt.opinion = answer.and_then(|answer| serde_json::from_value(answer).ok());
        // The usage counts even if the answer is useless.
        self.receipt.judging = asked.map(|reading| Usage {
            tokens: reading.input_tokens.saturating_add(reading.output_tokens),
            cost_micros: reading.cost_micros.unwrap_or_default(),
        });
        self.check_interrupt()
    }

    fn ask_evaluator(&mut self, evaluator: &Evaluator, facts: &str) -> Option<StreamSummary> {
        let folder = self.work_folder().ok()?;
        let bytes = self.spec.limits.output_bytes;
        let mut logs = Logs::new(self.folder.path(), "evaluator.jsonl", "evaluator.err.log", bytes);
        let ask = AgentRequest {
            prompt: evaluator.prompt.replace("{evidence}", facts),
            schema: serde_json::from_str(OPINION_SCHEMA).expect("a test reads all of them"),
            ..AgentRequest::default()
        };
        let limits = RunLimits {
            idle_ms: evaluator.timeout_ms,
            tokens: None,
            cost_micros: None,
            ..self.spec.limits.clone()
        };
        let turn = AgentTurn {
            setup: &evaluator.setup,
            ask: &ask,
            before: AgentUsage::default(),
            spent: AgentUsage::default(),
            folder: &folder,
            limits: &limits,
            deadline: clock::monotonic() + millis(evaluator.timeout_ms),
        };
        let asked = self.turn(&turn, &mut logs);
        let asked = asked.inspect_err(|error| eprintln!("{} the evaluator: {error}", clock::now()));
        asked.ok().map(|(_, reading)| reading)
    }

    /// Whether the facts leave the result of the run open, so that the evaluator is worth its cost.
    fn is_inconclusive(&self, work: &AgentWork) -> bool {
        let schema_given = work.ask.schema.is_some();
        let asked = RunExpectation { expects: work.expects, schema_given };
        failure::is_ambiguous(&self.receipt, &asked)
    }

    fn check_interrupt(&self) -> JobResult<()> {
        self.interrupt.clone().map_or(Ok(()), Err)
    }
}

/// Whether a run without a worktree must produce more than the agent's own claim.
fn demands_evidence(checks: &Verification) -> bool {
    let Verification { outputs, files, criterion, signal, .. } = checks;
    !outputs.is_empty() || !files.is_empty() || criterion.is_some() || signal.is_some()
}

/// The permission that the changed paths need, however they were changed.
fn needed_permission(work: &AgentWork, evidence: &Evidence) -> Option<String> {
    let guard = work.ask.guard.as_deref()?;
    let writes: Vec<Action> = evidence.paths.iter().cloned().map(Action::Write).collect();
    guard.stops(&writes).map(|request| request.to_string())
}

pub(super) fn no_worktree() -> EndCause {
    environment("the job spec names no worktree".to_owned())
}

pub(super) fn is_success(reading: Option<&StreamSummary>) -> bool {
    reading.is_some_and(|reading| reading.terminal == Some(Terminal::Success))
}

/// Whether the agent reported a refusal that a nudge cannot resolve.
fn waits_for_provider(reading: Option<&StreamSummary>) -> bool {
    let fault = reading.and_then(|reading| reading.fault.as_ref());
    fault.is_some_and(|fault| matches!(fault.kind, FaultKind::Quota | FaultKind::Auth))
}

/// The facts in a receipt that the evaluator needs, shortened to this many bytes.
fn evaluator_input(receipt: &Receipt, at_most: usize) -> String {
    let mut short = Receipt { answer: None, ..receipt.clone() };
    // The longest are the agent's text and the output of a check; both must be seen.
    let most = EVALUATOR_TEXT_BYTES.min(at_most / 4);
    let end = |text: &mut String| {
        let from = text.len().saturating_sub(most);
        *text = text[text.ceil_char_boundary(from)..].to_owned();
    };
    if let Some(reading) = &mut short.reading {
        end(&mut reading.text);
        reading.answer = None;
        reading.reports.truncate(EVALUATOR_PATHS);
    }
    if let Some(evidence) = &mut short.evidence {
        evidence.paths.truncate(EVALUATOR_PATHS);
        evidence.checks.iter_mut().for_each(|check| end(&mut check.tail));
    }
    let question = short.evidence.as_mut().and_then(|evidence| evidence.criterion.take());
    let question = question
        .map(|criterion| format!("Is this met?\n\n{}\n\n", fence(start_of(&criterion, most))));
    let question = question.unwrap_or_default();
    let receipt = serde_json::to_string_pretty(&short).expect("a receipt has string keys");
    let room = at_most.saturating_sub(MARKS_BYTES + question.len());
    format!("{question}{}", fence(start_of(&receipt, room)))
}

/// Refuses to start an agent for an answer that cannot be checked.
fn check_schema(ask: &AgentRequest) -> JobResult<()> {
    let checked = ask.schema.as_ref().map_or(Ok(()), schema::check_supported);
    checked.map_err(|fault| {
        let detail = format!("the answer's schema is not supported: {fault}");
        EndCause::NotPrepared { detail, class: PrepareFault::Setup }
    })
}

/// Records the last answer if it is valid, and otherwise the objections. An agent that has not
/// reported success has not answered and is not asked again.
fn check_answer(ask: &AgentRequest, receipt: &mut Receipt) {
    (receipt.answer, receipt.objections) = (None, Vec::new());
    let reading = receipt.reading.as_ref().filter(|reading| is_success(Some(reading)));
    let Some((schema, reading)) = ask.schema.as_ref().zip(reading) else { return };
    let Some(answer) = &reading.answer else {
        receipt.objections.push("the answer contains no JSON object".to_owned());
        return;
    };
    let answer = schema::without_optional_nulls(schema, answer.clone());
    let answer = if ask.lenient { schema::plainly_meant(schema, answer) } else { answer };
    receipt.objections = schema::violations(schema, &answer);
    if answer.to_string().len() > limits::ANSWER_BYTES {
        let most = limits::ANSWER_BYTES / 1024;
        receipt.objections.push(format!("it is larger than {most} KiB; shorten it"));
    }
    for objection in &mut receipt.objections {
        objection.truncate(objection.floor_char_boundary(OBJECTION_BYTES));
    }
    receipt.answer = Some(answer).filter(|_| receipt.objections.is_empty());
}

fn correction_prompt(objections: &[String]) -> String {
    let list: Vec<String> = objections.iter().map(|objection| format!("- {objection}")).collect();
    format!(
        "Your last answer does not match the schema:\n{}\nGive the whole answer again, so that it \
         matches, with nothing around it.",
        list.join("\n")
    )
}

/// Merges two turns: usage and reports add up, and the later turn decides the rest.
fn merge_turns(earlier: Option<StreamSummary>, later: StreamSummary) -> StreamSummary {
    let Some(mut earlier) = earlier else { return later };
    let total = AgentUsage::of(&earlier).plus(AgentUsage::of(&later));
    earlier.reports.extend(later.reports);
    StreamSummary {
        session: later.session.or(earlier.session),
        text: if later.text.is_empty() { earlier.text } else { later.text },
        input_tokens: total.input_tokens,
        output_tokens: total.output_tokens,
        cost_micros: total.cost_micros,
        reports: earlier.reports,
        ..later
    }
}

#[cfg(test)]
mod tests {
    use banksman_core::receipt::{CheckResult, ProcessExit};
    use banksman_core::time::Instant;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_evaluator_gets_tails_within_its_limit() {
        let mut receipt = Receipt::new("r1.1", Instant(0), EndCause::Completed);
        let text = format!("{}the last words", "é".repeat(20_000));
        receipt.reading = Some(StreamSummary { text, ..StreamSummary::default() });
        let check = CheckResult {
            command: "make".to_owned(),
            head: "abc".to_owned(),
            exit: ProcessExit { code: Some(2), signal: None },
            millis: 1,
            tail: format!("{}boom", "x".repeat(50_000)),
        };
        let paths = (0..500).map(|n| format!("a/rather/long/path/{n}")).collect();
        receipt.evidence = Some(Evidence { checks: vec![check], paths, ..Evidence::default() });
        for room in [EVALUATOR_BYTES, EVALUATOR_FACT_BYTES] {
            let input = evaluator_input(&receipt, room);
            assert!(input.len() <= room, "{}", input.len());
            assert!(input.contains("the last words") && input.contains("boom"), "{input}");
        }
        let evidence = receipt.evidence.as_mut().expect("it was given");
        evidence.criterion = Some("every page has a text".to_owned());
        let input = evaluator_input(&receipt, EVALUATOR_BYTES);
        let question = format!("Is this met?\n\n{}\n\n<data ", fence("every page has a text"));
        assert!(input.starts_with(&question), "{input}");
        receipt.evidence.as_mut().expect("it was given").criterion = Some("é".repeat(20_000));
        let input = evaluator_input(&receipt, EVALUATOR_BYTES);
        assert!(input.len() <= EVALUATOR_BYTES && input.contains("\n</data "), "{}", input.len());
    }

    fn checked(reading: StreamSummary) -> (Option<Value>, Vec<String>) {
        let mut receipt = Receipt::new("r1.1", Instant(0), EndCause::Completed);
        // Left over from an earlier turn.
        receipt.answer = Some(json!("old"));
        receipt.objections = vec!["old".to_owned()];
        receipt.reading = Some(reading);
        let schema = serde_json::from_str(OPINION_SCHEMA).unwrap();
        check_answer(&AgentRequest { schema, ..AgentRequest::default() }, &mut receipt);
        (receipt.answer, receipt.objections)
    }

    #[test]
    fn only_a_valid_answer_of_a_successful_agent_is_recorded() {
        let summary = |terminal, answer: Option<Value>| StreamSummary {
            terminal,
            answer,
            ..StreamSummary::default()
        };
        let good = json!({ "done": true, "reason": "so" });
        let done = Some(Terminal::Success);
        assert_eq!(checked(summary(done, Some(good.clone()))), (Some(good.clone()), vec![]));
        for end in [None, Some(Terminal::Error)] {
            assert_eq!(checked(summary(end, Some(good.clone()))), (None, vec![]), "{end:?}");
        }
        let (answer, objections) = checked(summary(done, None));
        assert_eq!((answer, objections.len()), (None, 1), "{objections:?}");
        let odd = json!({ "done": true, "reason": "so", "é".repeat(10_000): 1 });
        let (answer, objections) = checked(summary(done, Some(odd)));
        assert_eq!((answer, objections.len()), (None, 1));
        assert!(objections[0].len() <= OBJECTION_BYTES, "{}", objections[0].len());
        let long = json!({ "done": true, "reason": "x".repeat(limits::ANSWER_BYTES) });
        let expected = vec!["it is larger than 128 KiB; shorten it".to_owned()];
        assert_eq!(checked(summary(done, Some(long))), (None, expected));
    }
}
