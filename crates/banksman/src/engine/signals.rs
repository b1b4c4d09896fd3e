//! Takes signals: files in `.workflow/signals` that report a step as done, or a gate as passed or
//! failed.
//!
//! The effect of a signal is recorded before its file is moved away, under a key of the file, so a
//! crash between the two repeats nothing. A signal that comes early, late, twice or for a step that
//! has ended is logged and changes nothing.

use std::path::Path;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::limits;
use banksman_core::machine::{Actor, Event, TransitionRequest};
use banksman_core::text::start_of;
use banksman_core::time::Instant;
use banksman_core::workflow::Signal;

use super::assignment::branch_of;
use super::event::by_name;
use super::manual::done_here;
use super::project::Settings;
use super::provenance::{Provenance, written};
use super::pulls::PullRequests;
use super::steps::StepTask;
use super::turn::{Reconciler, Turn};
use super::{Engine, EngineError, Project, Result};
use crate::exec::mailbox::{Content, ExpectedSignal, Mailbox, SignalFile};
use crate::exec::repo;
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{Applied, IdempotencyKey, Store, StoreError, Stored};

/// Workflows of a project, and waiting steps, whose signals are looked for.
const RECENT: i64 = 200;
/// The note of a step's signal, in bytes; more than people write.
const NOTE_BYTES: usize = limits::REPORT_TEXT_BYTES;

/// A step that a signal may be for.
struct Awaiting {
    step: StepTask,
    child: Stored,
}

pub(super) struct Signals<'a> {
    store: &'a Store,
    settings: Settings<'a>,
    provenance: Provenance<'a>,
    pulls: PullRequests<'a>,
}

impl Reconciler for Signals<'_> {
    /// Takes the signals of all projects that are on this node, and those of manual steps.
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        for (project, path) in self.store.projects()? {
            let mailbox = Mailbox::new(Path::new(&path));
            turn.report.watched.extend(mailbox.signals_folders());
            if mailbox.has_signals() {
                let taken = self.take_from(&mailbox, &project, turn);
                turn.contain(None, taken)?;
            }
        }
        for child in self.store.waiting_steps(RECENT)? {
            let id = child.task.id;
            let looked = self.look_at_manual_step(child, turn);
            turn.contain(Some(id), looked)?;
        }
        Ok(())
    }
}

impl<'a> Signals<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self {
            store: engine.store,
            settings: engine.settings(),
            provenance: Provenance::new(engine),
            pulls: PullRequests::new(engine),
        }
    }

    fn take_from(&self, mailbox: &Mailbox, project: &str, turn: &mut Turn) -> Result<()> {
        for waits in &self.awaiting(project, turn)? {
            let own = mailbox.of_run(waits.step.spec.place.as_deref());
            for seen in own.look(&expected(&waits.step), turn.now)? {
                let taken = self.take_signal((mailbox, mailbox), waits, &seen, turn);
                turn.contain(Some(waits.child.task.id), taken)?;
            }
        }
        Ok(())
    }

    /// Manual steps also signal where they are done: in their worktree, on their branch, at a path
    /// of their own.
    fn look_at_manual_step(&self, child: Stored, turn: &mut Turn) -> Result<()> {
        let Some(step) = StepTask::of(&child)?.filter(|_| child.is_manual_step()) else {
            return Ok(());
        };
        let Some(project) = self.settings.find(&child.task.project)? else { return Ok(()) };
        let waits = Awaiting { step, child };
        match &waits.step.spec.signal {
            Signal::GitCommit { mark } => self.look_for_commit(&waits, mark, &project, turn),
            Signal::SentinelFile { path } => self.look_for_sentinel(&waits, path, &project, turn),
            Signal::PrCreation => self.pulls.look(&waits.child, &project, turn),
            Signal::StdoutExit => Ok(()),
        }
    }

    /// Reads the log of the branch; starts no git.
    fn look_for_commit(
        &self,
        Awaiting { step, child }: &Awaiting,
        mark: &str,
        project: &Project,
        turn: &mut Turn,
    ) -> Result<()> {
        let branch = branch_of(child, &project.agents)?;
        let log = repo::branch_log(&project.path, &branch);
        turn.report.watched.extend(log.and_then(|log| log.parent().map(Path::to_owned)));
        let since = child.task.entered_at;
        if let Some(commit) = repo::marked_commit(&project.path, &branch, mark, since) {
            let key = format!("commit-{commit}-{}", child.task.id);
            let ask = (agent(), Trigger::Signal, done_here(child, &self.settings.agents.node));
            let told = (format!("commit {commit} with {mark} for {}", step.spec.id), key.as_str());
            let text = apply_signal(self.store, child.task.id, ask, &key, told, turn.now)?;
            Mailbox::new(&project.path).record(&step.workflow, turn.now, &text, &key)?;
        }
        Ok(())
    }

    fn look_for_sentinel(
        &self,
        waits: &Awaiting,
        path: &str,
        project: &Project,
        turn: &mut Turn,
    ) -> Result<()> {
        let mailbox = Mailbox::new(&project.path);
        for place in places_of(self.settings, &waits.child, project)? {
            turn.report.watched.push(place.create_folder_for(path)?);
            for seen in place.look(&[sentinel(&waits.step.spec.id, path)], turn.now)? {
                self.take_signal((&mailbox, &place), waits, &seen, turn)?;
            }
        }
        Ok(())
    }

    /// The steps that a signal may be for: those of workflows that still run first.
    fn awaiting(&self, project: &str, turn: &mut Turn) -> Result<Vec<Awaiting>> {
        let mut awaiting = Vec::new();
        for parent in self.store.workflows(Some(project), RECENT)? {
            let children = self.store.children(parent.task.id).map_err(EngineError::from);
            for child in turn.contain(Some(parent.task.id), children)?.into_iter().flatten() {
                let step = turn.contain(Some(child.task.id), StepTask::of(&child))?.flatten();
                awaiting.extend(step.map(|step| Awaiting { step, child }));
            }
        }
        Ok(awaiting)
    }

    /// `place` is where the file is: in the mailbox itself, or in the same folder of a worktree.
    fn take_signal(
        &self,
        (mailbox, place): (&Mailbox, &Mailbox),
        waits: &Awaiting,
        seen: &SignalFile,
        turn: &mut Turn,
    ) -> Result<()> {
        let child = self.store.task(waits.child.task.id)?;
        let began_now = child.is_manual_step() && child.task.entered != waits.child.task.entered;
        if began_now && matches!(seen.content, Content::Done { .. }) {
            return put_aside((mailbox, place), &waits.step, seen, turn.now);
        }
        let at_work = child.activity() == Some(Activity::Agent);
        let ask = match &seen.content {
            // Its keeper reads it when the agent has ended.
            Content::Done { .. } if at_work => return Ok(()),
            Content::NotYet { .. } => return Ok(()),
            Content::Done { failed: false, note } => {
                let note = note.as_deref().map(|note| start_of(note, NOTE_BYTES));
                let note = note.map(|note| child.entry(Field::Note, Value::from(note)));
                let fields =
                    done_here(&child, &self.settings.agents.node).into_iter().chain(note).collect();
                Some((agent(), Trigger::Signal, fields))
            }
            Content::Pass { .. } => Some((person(seen), Trigger::Pass, Fields::new())),
            Content::Fail { note, reason } => {
                let mut fields =
                    Fields::from_iter([child.entry(Field::Feedback, Value::from(note.as_str()))]);
                let reason = reason
                    .as_ref()
                    .map(|reason| child.entry(Field::FailedFor, Value::from(reason.as_str())));
                fields.extend(reason);
                Some((person(seen), objection(&child), fields))
            }
            Content::Done { failed: true, .. } | Content::Unreadable { .. } => None,
        };
        let (task, now) = (child.task.id, turn.now);
        let (subject, mark) =
            (format!("signal {} for {}", seen.path, waits.step.spec.id), seen.mark());
        let refusal = match &ask {
            Some((actor, trigger, _)) => {
                self.provenance.reason_to_refuse(&child, actor, *trigger, seen, now)?
            }
            None => None,
        };
        let text = match (ask, refusal) {
            (Some(ask), None) => {
                let key = format!("signal-{task}-{}", seen.key());
                apply_signal(self.store, task, ask, &key, (subject, &mark), now)?
            }
            (_, refusal) => {
                let urgent = refusal.is_some();
                let what = refusal.unwrap_or_else(|| complaint(seen));
                let notice = signal_notice(task, format!("{subject}: {what}"), &mark);
                self.store.notice(NewNotice { urgent, ..notice.clone() }, now)?;
                notice.text
            }
        };
        mailbox.record(&waits.step.workflow, now, &text, &mark)?;
        mailbox.take_from(place, seen)?;
        Ok(())
    }
}

/// Requests the transition of a signal and returns the result, which is also a notice. A rejection
/// is an answer. The mark is that of the line in the workflow's log.
pub(super) fn apply_signal(
    store: &Store,
    id: TaskId,
    (actor, trigger, fields): (Actor, Trigger, Fields),
    key: &str,
    (subject, mark): (String, &str),
    now: Instant,
) -> Result<String> {
    let ask = TransitionRequest { actor, fields, ..by_name(trigger.name(), []) };
    let key = IdempotencyKey::new(key, key);
    let taken = format!("{subject}: {trigger} taken");
    let notice = signal_notice(id, taken.clone(), mark);
    let tell = move |_: &Applied| Some(notice.clone());
    let text = match store.apply_telling(id, Event::Asked(ask), Some(key), now, tell) {
        Ok(applied) if !applied.replayed => return Ok(taken),
        Ok(_) => format!("{subject}: it was taken before and changes nothing"),
        Err(StoreError::Rejected(rejected)) => format!("{subject}: it changes nothing: {rejected}"),
        Err(error) => return Err(error.into()),
    };
    // In a transaction of its own: what changes nothing now may be taken later.
    store.notice(signal_notice(id, text.clone(), &format!("{mark}-refused")), now)?;
    Ok(text)
}

pub(super) fn signal_notice(task: TaskId, text: String, mark: &str) -> NewNotice {
    NewNotice::new(NoticeKind::Signal, Some(task), text).once(format!("signal-{task}-{mark}"))
}

/// Moves away signals that are older than the hand-over of their step: the person who gets the step
/// did not write them.
pub(super) fn discard_early_signals(
    store: &Store,
    settings: Settings<'_>,
    child: &Stored,
    step: &StepTask,
    now: Instant,
) -> Result<()> {
    let Signal::SentinelFile { path } = &step.spec.signal else { return Ok(()) };
    let Some(project) = settings.find(&child.task.project)? else { return Ok(()) };
    let mailbox = Mailbox::new(&project.path);
    for place in places_of(settings, child, &project)? {
        for seen in place.look(&[sentinel(&step.spec.id, path)], now)? {
            // A quick person signals between the hand-over and this turn.
            let is_quick = written(store, &seen)?.first() >= Some(&child.task.entered_at);
            if is_quick || matches!(seen.content, Content::NotYet { .. }) {
                continue;
            }
            put_aside((&mailbox, &place), step, &seen, now)?;
        }
    }
    Ok(())
}

/// Where the signal of a manual step may be: in the repository, or in the step's worktree.
fn places_of(settings: Settings<'_>, child: &Stored, project: &Project) -> Result<Vec<Mailbox>> {
    let worktree = settings.worktree_of(child, project)?;
    let worktree = worktree.join(".git").exists().then_some(worktree);
    Ok([Some(project.path.clone()), worktree].into_iter().flatten().map(Mailbox::new).collect())
}

/// The actor behind a signal that a step is done.
pub(super) fn agent() -> Actor {
    Actor { role: Actor::AGENT.to_owned(), name: Some("signal".to_owned()) }
}

/// The actor behind a signal about a gate.
fn person(seen: &SignalFile) -> Actor {
    let owner = seen.owner.map(|owner| format!(" of uid {owner}"));
    Actor::human(&format!("signal{}", owner.unwrap_or_default()))
}

/// The trigger of a person's objection in the step's state: an agent may have let it pass already.
fn objection(child: &Stored) -> Trigger {
    if child.has_exit(Trigger::Veto) && !child.has_exit(Trigger::Fail) {
        Trigger::Veto
    } else {
        Trigger::Fail
    }
}

/// Moves a signal away that is older than its step, and logs it.
fn put_aside(
    (mailbox, place): (&Mailbox, &Mailbox),
    step: &StepTask,
    seen: &SignalFile,
    now: Instant,
) -> Result<()> {
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
