//! The stages of a job, one after the other, and the receipt that they fill.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use banksman_core::failure::{self, Asked};
use banksman_core::receipt::{Ended, Opinion, PrepareFault, Reading, Receipt, Terminal};
use serde_json::{Value, json};

use super::super::agent::{Ask, Before, schema};
use super::super::merge::merge;
use super::super::plan::{AgentWork, Checks, Evaluator, Limits, Plan, Work, Workspace};
use super::super::process::RunError;
use super::super::{evidence, worktree};
use super::Keeper;
use super::beat::Stage;
use super::lease::{Lease, millis};
use super::turn::{Logs, Spent, Turn};
use super::watch::BETWEEN_LOOKS;
use crate::clock;

/// What the agent's tools tell it about its task.
const TASK_FILE: &str = "task.json";
/// What the evaluator reads: about 4,000 tokens, so that with its instructions it stays below 5,000.
const EVALUATOR_BYTES: usize = 14 * 1024;
/// Of the changed paths, and of the end of the agent's words and of a check's output.
const EVALUATOR_PATHS: usize = 30;
const EVALUATOR_TEXT_BYTES: usize = 4 * 1024;
/// Objections to an answer that are told to the agent; more would not help it.
const OBJECTIONS: usize = 20;

impl Keeper {
    /// Does all that the plan asks for. Whatever happens is in the receipt.
    pub(super) fn work(&mut self) -> Receipt {
        let plan = Rc::clone(&self.plan);
        let mut receipt = Receipt::new(&plan.job, self.started_at, Ended::Completed);
        let done = match &plan.work {
            Work::Agent(work) => self.agent_work(&plan, work, &mut receipt),
            Work::Check { checks } => self.check_work(&plan, checks, &mut receipt),
            Work::Merge { checks, message } => {
                self.merge_work(&plan, checks, message, &mut receipt)
            }
            Work::CleanUp => self.clean_up(&plan),
        };
        self.sweep();
        receipt.ended = done.err().unwrap_or(Ended::Completed);
        receipt.left_over = self.left_over;
        receipt.ended_at = clock::now();
        receipt
    }

    /// `Err` is an end before its time, as everywhere in this file.
    fn agent_work(
        &mut self,
        plan: &Plan,
        work: &AgentWork,
        receipt: &mut Receipt,
    ) -> Result<(), Ended> {
        let (folder, prepared) = self.prepare(plan)?;
        let about = self.folder.write_file(TASK_FILE, &work.about.to_string());
        about.map_err(|error| environment(format!("{error}: {}", error.source)))?;
        self.pulse.beat.stage = Stage::Agent;
        let ended = self.converse(work, &folder, receipt);
        self.wall = None;
        if let Some(reading) = &mut receipt.reading {
            reading.reports.extend(self.folder.reports());
        }
        self.go_on()?;
        let succeeded = ended.is_ok() && is_success(receipt.reading.as_ref());
        if let Some((workspace, prepared)) = plan.workspace.as_ref().zip(prepared) {
            self.pulse.beat.stage = Stage::Evidence;
            // What did not end well is looked at, but neither committed nor proven.
            let message = succeeded.then_some(work.commit_message.as_str());
            let commands = if succeeded { work.checks.commands.clone() } else { Vec::new() };
            let checks = Checks { commands, ..work.checks.clone() };
            let gathered =
                evidence::gather(self, workspace, &prepared, &checks, message, &plan.env);
            receipt.evidence = Some(gathered.map_err(|error| self.hindered(&error))?);
        }
        ended?;
        if let Some(evaluator) = work.evaluator.as_ref().filter(|_| is_open(plan, work, receipt)) {
            self.pulse.beat.stage = Stage::Evaluate;
            receipt.opinion = self.evaluate(evaluator, receipt);
            self.go_on()?;
        }
        Ok(())
    }

    fn check_work(
        &mut self,
        plan: &Plan,
        checks: &Checks,
        receipt: &mut Receipt,
    ) -> Result<(), Ended> {
        let (_, prepared) = self.prepare(plan)?;
        let (workspace, prepared) = plan.workspace.as_ref().zip(prepared).ok_or_else(no_place)?;
        self.pulse.beat.stage = Stage::Evidence;
        let gathered = evidence::gather(self, workspace, &prepared, checks, None, &plan.env);
        receipt.evidence = Some(gathered.map_err(|error| self.hindered(&error))?);
        Ok(())
    }

    fn merge_work(
        &mut self,
        plan: &Plan,
        checks: &Checks,
        message: &str,
        receipt: &mut Receipt,
    ) -> Result<(), Ended> {
        self.make_sure_of_the_lease()?;
        let workspace: &Workspace = plan.workspace.as_ref().ok_or_else(no_place)?;
        self.pulse.beat.stage = Stage::Merge;
        let merged = merge(self, workspace, checks, message, &plan.env);
        receipt.merge = Some(merged.map_err(|error| self.hindered(&error))?);
        Ok(())
    }

    fn clean_up(&mut self, plan: &Plan) -> Result<(), Ended> {
        let Some(workspace) = &plan.workspace else { return Ok(()) };
        self.pulse.beat.stage = Stage::CleanUp;
        let removed = worktree::removal::remove(self, workspace, &plan.env);
        let removed = removed.map_err(|error| self.hindered(&error))?;
        if let Some(rescue) = removed.rescue {
            eprintln!("{} what was only in the worktree is kept as {rescue}", clock::now());
        }
        let emptied = worktree::removal::empty_trash(self, &workspace.spare, &plan.env);
        emptied.map(|_| ()).map_err(|error| self.hindered(&error))
    }

    /// The folder to work in, and its worktree if it is one.
    fn prepare(&mut self, plan: &Plan) -> Result<(PathBuf, Option<worktree::Prepared>), Ended> {
        self.make_sure_of_the_lease()?;
        let Some(workspace) = &plan.workspace else { return Ok((self.own_place()?, None)) };
        let prepared = worktree::prepare(self, workspace, &plan.env);
        self.go_on()?;
        let prepared = prepared
            .map_err(|error| Ended::NotPrepared { detail: error.detail, class: error.class })?;
        Ok((workspace.worktree.clone(), Some(prepared)))
    }

    /// Nothing is touched before it is certain that it is ours to touch, and that nobody has asked to stop.
    fn make_sure_of_the_lease(&mut self) -> Result<(), Ended> {
        drop(self.look_around(clock::monotonic()));
        while self.interrupt.is_none() && self.lease.as_ref().is_some_and(Lease::is_doubtful) {
            self.pass(BETWEEN_LOOKS);
        }
        self.go_on()
    }

    fn own_place(&self) -> Result<PathBuf, Ended> {
        let folder = self.folder.work();
        fs::create_dir_all(&folder).map_err(|error| {
            environment(format!("failed to create `{}`: {error}", folder.display()))
        })?;
        Ok(folder)
    }

    /// The agent's turns: the first, one more if it fell silent, and one more if its answer has not the wanted shape.
    fn converse(
        &mut self,
        work: &AgentWork,
        folder: &Path,
        receipt: &mut Receipt,
    ) -> Result<(), Ended> {
        let plan = Rc::clone(&self.plan);
        let bytes = plan.limits.output_bytes;
        let mut logs = Logs::new(self.folder.path(), "out.jsonl", "err.log", bytes);
        let mut ask = work.ask.clone();
        let mut was_asked_again = false;
        loop {
            let spent = receipt.reading.as_ref().map(spent).unwrap_or_default();
            let turn = Turn {
                setup: &work.setup,
                ask: &ask,
                before: counted_before(work.before, spent),
                spent,
                folder,
                limits: &plan.limits,
                deadline: self.wall.unwrap_or_else(clock::monotonic),
            };
            let (tended, reading) =
                self.turn(&turn, &mut logs).map_err(|detail| Ended::NotStarted { detail })?;
            self.left_over = self.left_over.saturating_add(tended.left_over);
            receipt.exit = Some(tended.exit);
            receipt.reading = Some(joined(receipt.reading.take(), reading));
            let reading = receipt.reading.as_ref();
            let session = reading.and_then(|reading| reading.session.clone()).or(ask.session);
            let prompt = match tended.ended {
                Some(Ended::Stalled) if receipt.nudges == 0 && session.is_some() => {
                    receipt.nudges += 1;
                    self.pulse.beat.nudges = receipt.nudges;
                    work.nudge.clone()
                }
                Some(ended) => return Err(ended),
                None => {
                    let objections = objections(work.ask.schema.as_ref(), reading);
                    if objections.is_empty() || was_asked_again || session.is_none() {
                        return Ok(());
                    }
                    was_asked_again = true;
                    asked_again(&objections)
                }
            };
            ask = Ask { prompt, session, ..work.ask.clone() };
        }
    }

    /// A cheap look at what the facts leave open. It works beside the worktree, so that it can change nothing there.
    fn evaluate(&mut self, evaluator: &Evaluator, receipt: &Receipt) -> Option<Opinion> {
        let folder = self.own_place().ok()?;
        let bytes = self.plan.limits.output_bytes;
        let mut logs = Logs::new(self.folder.path(), "evaluator.jsonl", "evaluator.err.log", bytes);
        let facts = told_to_the_evaluator(receipt);
        let ask = Ask {
            prompt: evaluator.prompt.replace("{evidence}", &facts),
            session: None,
            schema: Some(opinion_schema()),
            mcp: None,
            cost_micros: None,
        };
        let limits = Limits {
            idle_ms: evaluator.timeout_ms,
            tokens: None,
            cost_micros: None,
            ..self.plan.limits.clone()
        };
        let turn = Turn {
            setup: &evaluator.setup,
            ask: &ask,
            before: Before::default(),
            spent: Spent::default(),
            folder: &folder,
            limits: &limits,
            deadline: clock::monotonic() + millis(evaluator.timeout_ms),
        };
        let (tended, reading) = self
            .turn(&turn, &mut logs)
            .inspect_err(|error| eprintln!("{} the evaluator: {error}", clock::now()))
            .ok()?;
        self.left_over = self.left_over.saturating_add(tended.left_over);
        opinion(&reading)
    }

    fn go_on(&self) -> Result<(), Ended> {
        self.interrupt.clone().map_or(Ok(()), Err)
    }

    /// We could not even look: not the agent's fault.
    fn hindered(&self, error: &RunError) -> Ended {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let detail = format!("{error}{}", cause.unwrap_or_default());
        self.interrupt.clone().unwrap_or_else(|| environment(detail))
    }
}

fn environment(detail: String) -> Ended {
    Ended::NotPrepared { detail, class: PrepareFault::Environment }
}

fn no_place() -> Ended {
    environment("the plan names no worktree".to_owned())
}

fn is_success(reading: Option<&Reading>) -> bool {
    reading.is_some_and(|reading| reading.terminal == Some(Terminal::Success))
}

/// Whether the facts leave open how the run went, so that a second look is worth its price.
fn is_open(plan: &Plan, work: &AgentWork, receipt: &Receipt) -> bool {
    let asked = Asked {
        expects: work.expects,
        task: &plan.task,
        branch: plan.workspace.as_ref().map_or("", |workspace| &workspace.branch),
        schema_given: work.ask.schema.is_some(),
    };
    failure::is_ambiguous(receipt, &asked)
}

/// The facts of a receipt, as far as a quick look needs them.
fn told_to_the_evaluator(receipt: &Receipt) -> String {
    let mut short = receipt.clone();
    let end = |text: &mut String| {
        let from = text.len().saturating_sub(EVALUATOR_TEXT_BYTES);
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
    let mut facts = serde_json::to_string_pretty(&short).expect("a receipt has string keys");
    facts.truncate(facts.floor_char_boundary(EVALUATOR_BYTES));
    facts
}

/// What is wrong with the answer. Only an agent that says it is done is asked again.
fn objections(schema: Option<&Value>, reading: Option<&Reading>) -> Vec<String> {
    let Some((schema, reading)) = schema.zip(reading.filter(|reading| is_success(Some(reading))))
    else {
        return Vec::new();
    };
    match &reading.answer {
        None => vec!["there was no answer in the wanted shape".to_owned()],
        Some(answer) => schema::violations(schema, answer),
    }
}

fn asked_again(objections: &[String]) -> String {
    let list: Vec<String> =
        objections.iter().take(OBJECTIONS).map(|objection| format!("- {objection}")).collect();
    format!(
        "Your last answer does not have the shape that was asked for:\n{}\nGive the whole answer once more, in that shape and \
         with nothing around it.",
        list.join("\n")
    )
}

fn opinion_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "done": { "type": "boolean" }, "reason": { "type": "string" } },
        "required": ["done", "reason"],
        "additionalProperties": false
    })
}

fn opinion(reading: &Reading) -> Option<Opinion> {
    let answer = reading.answer.as_ref().filter(|_| is_success(Some(reading)))?;
    Some(Opinion {
        done: answer.get("done")?.as_bool()?,
        reason: answer.get("reason")?.as_str()?.to_owned(),
        input_tokens: reading.input_tokens,
        output_tokens: reading.output_tokens,
    })
}

fn spent(reading: &Reading) -> Spent {
    let Reading { input_tokens, output_tokens, cost_micros, .. } = *reading;
    Spent { input_tokens, output_tokens, cost_micros }
}

/// What the session has counted when the next turn begins.
fn counted_before(before: Before, spent: Spent) -> Before {
    Before {
        input_tokens: before.input_tokens.saturating_add(spent.input_tokens),
        output_tokens: before.output_tokens.saturating_add(spent.output_tokens),
        cost_micros: before.cost_micros.saturating_add(spent.cost_micros.unwrap_or(0)),
    }
}

/// Two turns as one: what was spent and told adds up, for the rest the later word counts.
fn joined(earlier: Option<Reading>, later: Reading) -> Reading {
    let Some(mut earlier) = earlier else { return later };
    let total = spent(&earlier).plus(spent(&later));
    earlier.reports.extend(later.reports);
    Reading {
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
    use banksman_core::receipt::{Check, Evidence, Exit};
    use banksman_core::time::Instant;

    use super::*;

    #[test]
    fn an_evaluator_is_told_the_end_of_things_and_not_too_much() {
        let mut receipt = Receipt::new("r1.1", Instant(0), Ended::Completed);
        let text = format!("{}the last words", "é".repeat(20_000));
        receipt.reading = Some(Reading { text, ..Reading::default() });
        let check = Check {
            command: "make".to_owned(),
            head: "abc".to_owned(),
            exit: Exit { code: Some(2), signal: None },
            millis: 1,
            tail: format!("{}boom", "x".repeat(50_000)),
        };
        let paths = (0..500).map(|n| format!("a/rather/long/path/{n}")).collect();
        receipt.evidence = Some(Evidence { checks: vec![check], paths, ..Evidence::default() });
        let told = told_to_the_evaluator(&receipt);
        assert!(told.len() <= EVALUATOR_BYTES, "{}", told.len());
        assert!(told.contains("the last words") && told.contains("boom"), "{told}");
    }
}
