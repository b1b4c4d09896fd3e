//! Files in `.workflow/signals`: somebody says that a step is done, or that a gate has passed or
//! failed.
//!
//! What they lead to is on record before the file is put away, under a key of the file, so a crash
//! between the two repeats nothing. What comes early, late, twice or for a step that has ended is
//! written down and changes nothing.

use std::path::Path;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Activity;
use banksman_core::limits;
use banksman_core::machine::{Actor, Event, TransitionRequest};
use banksman_core::time::Instant;
use banksman_core::workflow::Signal;
use serde_json::{Map, Value, json};

use super::assignment::branch_of;
use super::steps::{SIGNAL, StepTask, is_manual, workflow_of};
use super::{Engine, EngineError, Notice, Project, TurnReport};
use crate::exec::mailbox::{Content, ExpectedSignal, Mailbox, SignalFile};
use crate::exec::repo;
use crate::store::{IdempotencyKey, StoreError, Stored};

/// Workflows whose signals are looked for, the latest first.
const RECENT: i64 = 200;
/// Of what a step says with its signal; more than people write.
const NOTE_BYTES: usize = limits::REPORT_TEXT_BYTES;
pub(super) const PASS: &str = "pass";
pub(super) const FAIL: &str = "fail";
pub(super) const VETO: &str = "veto";

/// A step, and the workflow that it is part of.
struct Awaiting {
    step: StepTask,
    child: Stored,
}

impl Engine<'_> {
    /// Takes what lies in the folders of signals of all projects that are on this machine.
    pub(super) fn take_signals(
        &self,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        for (project, path) in self.store.projects()? {
            let mailbox = Mailbox::new(Path::new(&path));
            pulse.watched.push(mailbox.signals_folder());
            if !mailbox.has_signals() {
                continue;
            }
            let taken = self.take_from(&mailbox, &project, now, pulse);
            tell_of_folders(taken, None, pulse)?;
        }
        self.look_at_manual_steps(now, pulse)
    }

    fn take_from(
        &self,
        mailbox: &Mailbox,
        project: &str,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        for waits in &self.awaiting(project)? {
            for seen in mailbox.look(&expected(&waits.step), now)? {
                self.take_signal((mailbox, mailbox), waits, &seen, now, pulse)?;
            }
        }
        Ok(())
    }

    /// Steps that are done by hand also signal where they are done: in their worktree, on their
    /// branch, at a path of their own.
    fn look_at_manual_steps(
        &self,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        for child in self.store.waiting_children(RECENT)? {
            let Some(step) = StepTask::of(&child).filter(|_| is_manual(&child)) else { continue };
            let Some(project) = self.projects.find(&child.task.project)? else { continue };
            let id = child.task.id;
            let waits = Awaiting { step, child };
            let looked = match &waits.step.spec.signal {
                Signal::GitCommit { mark } => {
                    self.look_for_commit(&waits, mark, &project, now, pulse)
                }
                Signal::SentinelFile { path } => {
                    self.look_for_sentinel(&waits, path, &project, now, pulse)
                }
                Signal::PrCreation => self.look_for_pull(&waits.child, &project, now, pulse),
                Signal::StdoutExit => Ok(()),
            };
            tell_of_folders(looked, Some(id), pulse)?;
        }
        Ok(())
    }

    /// The log of the branch is read, no git is started.
    fn look_for_commit(
        &self,
        Awaiting { step, child }: &Awaiting,
        mark: &str,
        project: &Project,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let branch = branch_of(child, &project.agents);
        let log = repo::branch_log(&project.path, &branch);
        pulse.watched.extend(log.and_then(|log| log.parent().map(Path::to_owned)));
        let since = child.task.entered_at;
        if let Some(commit) = repo::marked_commit(&project.path, &branch, mark, since) {
            let key = format!("commit-{commit}-{}", child.task.id);
            let fields = self.done_here(child);
            let what = self.obey(child.task.id, (agent(), SIGNAL, fields), &key, now)?;
            let text = format!("commit {commit} with {mark} for {}: {what}", step.spec.id);
            if Mailbox::new(&project.path).record(&step.workflow, now, &text, &key)? {
                pulse.notices.push(Notice { task: Some(child.task.id), urgent: false, text });
            }
        }
        Ok(())
    }

    fn look_for_sentinel(
        &self,
        waits: &Awaiting,
        path: &str,
        project: &Project,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let mailbox = Mailbox::new(&project.path);
        for place in self.places_of(&waits.child, project)? {
            pulse.watched.push(place.create_folder_for(path)?);
            for seen in place.look(&[sentinel(&waits.step.spec.id, path)], now)? {
                self.take_signal((&mailbox, &place), waits, &seen, now, pulse)?;
            }
        }
        Ok(())
    }

    /// What lies there when a step is handed to somebody was not left by him.
    pub(super) fn forget_early_signals(
        &self,
        child: &Stored,
        step: &StepTask,
        now: Instant,
    ) -> Result<(), EngineError> {
        let Signal::SentinelFile { path } = &step.spec.signal else { return Ok(()) };
        let Some(project) = self.projects.find(&child.task.project)? else { return Ok(()) };
        let mailbox = Mailbox::new(&project.path);
        for place in self.places_of(child, &project)? {
            for seen in place.look(&[sentinel(&step.spec.id, path)], now)? {
                // Whoever was quick has signalled between the hand-over and this look at it.
                let is_quick = self.written(&seen)?.first() >= Some(&child.task.entered_at);
                if is_quick || matches!(seen.content, Content::NotYet { .. }) {
                    continue;
                }
                put_aside((&mailbox, &place), step, &seen, now)?;
            }
        }
        Ok(())
    }

    /// Where somebody who does a step by hand may leave its signal: in the repository, and in the
    /// step's worktree.
    fn places_of(&self, child: &Stored, project: &Project) -> Result<Vec<Mailbox>, EngineError> {
        let worktree = self.worktree_of(child, project)?;
        let worktree = worktree.join(".git").exists().then_some(worktree);
        Ok([Some(project.path.clone()), worktree].into_iter().flatten().map(Mailbox::new).collect())
    }

    /// The steps that a signal may be for: those of workflows that still run first.
    fn awaiting(&self, project: &str) -> Result<Vec<Awaiting>, EngineError> {
        let mut parents: Vec<Stored> = Vec::new();
        for id in self.store.parents(RECENT)? {
            let parent = self.store.task(id)?;
            if parent.task.project == project && workflow_of(&parent).is_some() {
                parents.push(parent);
            }
        }
        parents.sort_by_key(|parent| parent.state().terminal);
        let mut awaiting = Vec::new();
        for parent in parents {
            for child in self.store.children(parent.task.id)? {
                awaiting.extend(StepTask::of(&child).map(|step| Awaiting { step, child }));
            }
        }
        Ok(awaiting)
    }

    /// `place` is where it lies: the mailbox itself, or the same folder in a worktree.
    fn take_signal(
        &self,
        (mailbox, place): (&Mailbox, &Mailbox),
        waits: &Awaiting,
        seen: &SignalFile,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let child = self.store.task(waits.child.task.id)?;
        let began_now = is_manual(&child) && child.task.entered != waits.child.task.entered;
        if began_now && matches!(seen.content, Content::Done { .. }) {
            return put_aside((mailbox, place), &waits.step, seen, now);
        }
        let at_work = child.activity() == Some(Activity::Agent);
        let ask = match &seen.content {
            // Its keeper reads it when the agent has ended.
            Content::Done { .. } if at_work => return Ok(()),
            Content::NotYet { .. } => return Ok(()),
            Content::Done { failed: false, note } => {
                let note =
                    note.as_deref().map(|note| &note[..note.floor_char_boundary(NOTE_BYTES)]);
                let note = note.map(|note| ("note".to_owned(), json!(note)));
                let fields = self.done_here(&child).into_iter().chain(note).collect();
                Some((agent(), SIGNAL, fields))
            }
            Content::Pass { .. } => Some((person(seen), PASS, Map::new())),
            Content::Fail { note, reason } => {
                let mut fields = Map::from_iter([("feedback".to_owned(), json!(note))]);
                let reason = reason.as_ref().map(|reason| ("failed_for".to_owned(), json!(reason)));
                fields.extend(reason);
                Some((person(seen), objection(&child), fields))
            }
            Content::Done { failed: true, .. } | Content::Unreadable { .. } => None,
        };
        let (what, urgent) = match ask {
            Some((actor, trigger, fields)) => {
                match self.doubt(&child, &actor, trigger, seen, now)? {
                    Some(refusal) => (refusal, true),
                    None => {
                        let key = format!("signal-{}-{}", child.task.id, seen.key());
                        (self.obey(child.task.id, (actor, trigger, fields), &key, now)?, false)
                    }
                }
            }
            None => (complaint(seen), false),
        };
        let id = &waits.step.spec.id;
        let text = format!("signal {} for {id}: {what}", seen.path);
        if mailbox.record(&waits.step.workflow, now, &text, &seen.mark())? {
            pulse.notices.push(Notice { task: Some(child.task.id), urgent, text });
        }
        mailbox.take_from(place, seen)?;
        Ok(())
    }

    /// Asks for what the signal says; a refusal is an answer.
    pub(super) fn obey(
        &self,
        id: TaskId,
        (actor, trigger, fields): (Actor, &str, Map<String, Value>),
        key: &str,
        now: Instant,
    ) -> Result<String, EngineError> {
        let ask = TransitionRequest {
            actor,
            to: None,
            trigger: Some(trigger.to_owned()),
            fields,
            epoch: None,
            version: None,
        };
        let key = IdempotencyKey::new(key, key);
        match self.store.apply(id, Event::Asked(ask), Some(key), now) {
            Ok(applied) if applied.replayed => {
                Ok("it was taken before and changes nothing".to_owned())
            }
            Ok(_) => Ok(format!("{trigger} taken")),
            Err(StoreError::Rejected(rejected)) => Ok(format!("it changes nothing: {rejected}")),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whoever works on a step and says that it is done.
pub(super) fn agent() -> Actor {
    Actor { role: "agent".to_owned(), name: Some("signal".to_owned()) }
}

/// Whoever judges by a file.
fn person(seen: &SignalFile) -> Actor {
    let owner = seen.owner.map(|owner| format!(" of uid {owner}"));
    Actor::human(&format!("signal{}", owner.unwrap_or_default()))
}

/// What a person's no is called where the step stands: an agent may have let it pass already.
fn objection(child: &Stored) -> &'static str {
    let has =
        |trigger: &str| child.lifecycle.exits(child.task.state).any(|row| row.trigger == trigger);
    if has(VETO) && !has(FAIL) { VETO } else { FAIL }
}

/// A folder that cannot be written must not hold up the others.
fn tell_of_folders(
    done: Result<(), EngineError>,
    task: Option<TaskId>,
    pulse: &mut TurnReport,
) -> Result<(), EngineError> {
    match done {
        Err(EngineError::Mailbox(error)) => {
            let text = error.to_string();
            pulse.notices.push(Notice { task, urgent: true, text });
            Ok(())
        }
        done @ (Ok(()) | Err(_)) => done,
    }
}

/// A step that begins in this very turn was not done by whoever left this before.
fn put_aside(
    (mailbox, place): (&Mailbox, &Mailbox),
    step: &StepTask,
    seen: &SignalFile,
    now: Instant,
) -> Result<(), EngineError> {
    let (path, id) = (&seen.path, &step.spec.id);
    let text = format!("signal {path} for {id}: it came too early and changes nothing");
    mailbox.record(&step.workflow, now, &text, &seen.mark())?;
    mailbox.take_from(place, seen)?;
    Ok(())
}

fn sentinel(id: &str, path: &str) -> ExpectedSignal {
    ExpectedSignal::Step { id: id.to_owned(), path: Some(path.to_owned()) }
}

fn expected(step: &StepTask) -> Vec<ExpectedSignal> {
    let path = match &step.spec.signal {
        Signal::SentinelFile { path } => Some(path.clone()),
        Signal::GitCommit { .. } | Signal::PrCreation | Signal::StdoutExit => None,
    };
    let gate = step.spec.gate.as_ref().map(|gate| ExpectedSignal::Gate { id: gate.id.clone() });
    let step = ExpectedSignal::Step { id: step.spec.id.clone(), path };
    [step].into_iter().chain(gate).collect()
}

fn complaint(seen: &SignalFile) -> String {
    match &seen.content {
        Content::Done { note, .. } => {
            let note = note.as_deref().unwrap_or("it does not say why");
            format!("the step says that it failed, and it changes nothing: {note}")
        }
        Content::Unreadable { why } => format!("it cannot be read: {why}"),
        Content::Pass { .. } | Content::Fail { .. } | Content::NotYet { .. } => String::new(),
    }
}
