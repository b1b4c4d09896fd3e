//! Laws for every result of the machine, whatever the task and the event.

use std::collections::BTreeSet;

use banksman_core::lifecycle::CounterOverflow;
use banksman_core::lifecycle::contract::{Field, Note, Purpose, SettingName, Trigger};
use banksman_core::lifecycle::expr::{Expr, ResolvedName};
use banksman_core::lifecycle::{
    Activity, EntryEffect, FieldDecl, Lifecycle, Outcome, Since, StateKind, Timeout, Transition,
    TransitionTarget,
};
use banksman_core::machine::{
    DecisionChange, Effect, Ending, Event, Ignored, Overridden, Record, RejectReason, StepResult,
    Task, TaskUpdate, TimerKind, WaitStatus, allowed, waits,
};
use banksman_core::time::Instant;

use crate::world::{Reply, World, asks_people};

pub(crate) type Verdict = Result<(), String>;

/// An event for a task, and the result of the machine. The world is still unchanged.
pub(crate) struct Meeting<'a> {
    pub(crate) world: &'a World,
    pub(crate) event: &'a Event,
    pub(crate) reply: &'a Reply,
}

pub(crate) type Law = fn(&Meeting<'_>) -> Verdict;

pub(crate) const LAWS: [(&str, Law); 22] = [
    ("a stale epoch is refused, and only a stale one", stale_epochs),
    ("the end is the end", the_end),
    ("one record, one version", one_record_one_version),
    ("what leaves no record moves nothing", quiet_steps),
    ("a record follows from a row", records_follow_rows),
    ("counters only rise, up to their limit", counters_rise),
    ("epochs only rise, by a claim", epochs_rise),
    ("a lease ends loudly", leases_end_loudly),
    ("only what has a place in the queue is claimed", claims),
    ("an entry is dated", entries_are_dated),
    ("timers that are set are those of the new state", timers_are_set),
    ("a live timer is heard, a dead one is not", timers_are_heard),
    ("only what is at work in this stay reports", reports),
    ("decisions follow the states", decisions),
    ("what an agent asks is asked", questions),
    ("effects follow the states", effects),
    ("the end is told to those who wait for it", endings),
    ("what comes first is heard", needs),
    ("a refusal says why", refusals),
    ("what was done was allowed", done_was_allowed),
    ("a run answers no decision", runs_do_not_answer),
    ("a person gives no fact without a word for it", facts_are_found_or_overridden),
];

pub(crate) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(why()) }
}

/// When a timeout comes due, computed without the machine.
pub(crate) fn due(task: &Task, bound: Timeout) -> Instant {
    let start = match bound.since {
        Since::Entry => task.entered_at,
        Since::Progress => task.progress_at,
    };
    let uncounted = if bound.since == Since::Entry { task.uncounted.0 } else { 0 };
    Instant(start.0 + bound.time.0 + uncounted)
}

/// Where the end of a run opens a decision, the decision has the words of the run.
fn questions(meeting: &Meeting<'_>) -> Verdict {
    let Event::Finished(finish) = meeting.event else { return Ok(()) };
    let Some(opened) = meeting.step().and_then(|step| step.decision.opens.as_ref()) else {
        return Ok(());
    };
    let is_agents = finish.outcome == Outcome::NeedsPerson && !finish.detail.is_empty();
    let question = opened.question.as_deref().unwrap_or_default();
    ensure(!is_agents || question.contains(&finish.detail), || {
        format!("`{}` was asked, and the decision says `{question}`", finish.detail)
    })
}

impl Meeting<'_> {
    fn lifecycle(&self) -> &Lifecycle {
        &self.world.lifecycle
    }

    fn before(&self) -> &Task {
        &self.world.task
    }

    fn step(&self) -> Option<&TaskUpdate> {
        match self.reply {
            Ok(StepResult::Step(step)) => Some(step),
            Ok(StepResult::Later(_) | StepResult::Ignored(_)) | Err(_) => None,
        }
    }

    /// The step, if it left a record.
    fn recorded(&self) -> Option<(&TaskUpdate, &Record)> {
        self.step().and_then(|step| step.record.as_ref().map(|record| (step, record)))
    }

    fn moved(&self, step: &TaskUpdate) -> bool {
        step.task.state != self.before().state
    }
}

/// What is overridden is what the task says, and only a person who overrides adds to it.
fn facts_are_found_or_overridden(meeting: &Meeting<'_>) -> Verdict {
    let Some((step, record)) = meeting.recorded() else { return Ok(()) };
    let (lifecycle, before) = (meeting.lifecycle(), meeting.before());
    let overrides = matches!(meeting.event, Event::Overridden(_));
    let on_word = |task: &Task| {
        let overridden = Overridden::of(task, lifecycle).ok().flatten();
        overridden.map(|overridden| overridden.facts).unwrap_or_default()
    };
    let (was, is) = (on_word(before), on_word(&step.task));
    let given_by_person = |name: &str| {
        let sets = |row: &Transition| {
            row.trigger == record.trigger
                && (row.changes.set.contains_key(name) || row.changes.compute.contains_key(name))
        };
        let asked = matches!(meeting.event, Event::Asked(ask) if ask.actor.is_human());
        asked && !lifecycle.exits(before.state).any(sets)
    };
    for name in Field::facts().map(|fact| fact.name_in(lifecycle)) {
        let (old, new) = (before.fields.get(name), step.task.fields.get(name));
        let forged = new.is_some() && new != old && given_by_person(name);
        ensure(!forged, || format!("a person gave {name}"))?;
        let stands = is.get(name).is_none_or(|value| Some(value) == new || value.is_null());
        ensure(stands, || format!("{name} is not what was said of it"))?;
        ensure(overrides || !is.contains_key(name) || was.contains_key(name), || {
            format!("nobody said {name}")
        })?;
    }
    ensure(!overrides || step.task.state == before.state, || "an override moved it".to_owned())
}

/// Except that a lifecycle may let leads approve.
fn runs_do_not_answer(meeting: &Meeting<'_>) -> Verdict {
    let Event::Asked(ask) = meeting.event else { return Ok(()) };
    let (Some(open), Some((_, record))) = (&meeting.world.decision, meeting.recorded()) else {
        return Ok(());
    };
    let leads = ask.actor.role == "lead" && meeting.lifecycle().flag(SettingName::LeadMayApprove);
    let answers = open.offers.iter().any(|(_, trigger)| *trigger == record.trigger);
    ensure(ask.epoch.is_none() || leads || !answers, || {
        format!("the run of {} answers with `{}`", ask.actor, record.trigger)
    })
}

fn stale_epochs(meeting: &Meeting<'_>) -> Verdict {
    let carried = match meeting.event {
        Event::Asked(ask) => ask.epoch,
        Event::Heartbeat(heartbeat) => Some(heartbeat.epoch),
        Event::Finished(finish) => Some(finish.epoch),
        Event::Claimed(_)
        | Event::Reported(_)
        | Event::Due { .. }
        | Event::NeedsLeft(_)
        | Event::Uncounted(_)
        | Event::LateCost(_)
        | Event::Noted(_)
        | Event::DelaySkipped(_)
        | Event::Overridden(_)
        | Event::Restored { .. }
        | Event::StaleWrite { .. } => None,
    };
    let current = meeting.before().lease.as_ref().map(|lease| lease.epoch);
    let stale = carried.is_some() && carried != current;
    let refused =
        matches!(meeting.reply, Err(rejected) if rejected.why == RejectReason::StaleLease);
    ensure(stale == refused, || {
        format!("it carries {carried:?}, the lease is {current:?}, refused as stale: {refused}")
    })
}

fn the_end(meeting: &Meeting<'_>) -> Verdict {
    if !meeting.lifecycle().state(meeting.before().state).terminal {
        return Ok(());
    }
    let Some(step) = meeting.step() else { return Ok(()) };
    let still =
        Task { open_needs: meeting.before().open_needs, ..step.task.clone() } == *meeting.before();
    let silent = step.record.is_none() && step.effects.is_empty() && step.timers.is_none();
    ensure(still && silent, || format!("it goes on with {step:?}"))
}

fn one_record_one_version(meeting: &Meeting<'_>) -> Verdict {
    let Some(step) = meeting.step() else { return Ok(()) };
    let (was, is) = (meeting.before().version, step.task.version);
    ensure(is - was == i64::from(step.record.is_some()), || {
        format!("version {was} becomes {is}, the record is {:?}", step.record)
    })
}

fn quiet_steps(meeting: &Meeting<'_>) -> Verdict {
    let Some(step) = meeting.step().filter(|step| step.record.is_none()) else { return Ok(()) };
    let lease = |task: &Task| task.lease.as_ref().map(|lease| lease.epoch);
    let (was, is) = (meeting.before(), &step.task);
    ensure(lease(was) == lease(is), || "the lease has changed".to_owned())?;
    let but_these = Task {
        lease: was.lease.clone(),
        progress_at: was.progress_at,
        open_needs: was.open_needs,
        not_before: was.not_before,
        uncounted: was.uncounted,
        ..is.clone()
    };
    ensure(but_these == *was, || format!("it becomes {is:?}"))?;
    let nothing_else =
        step.artifacts.is_empty() && step.ended_run.is_none() && step.ending.is_none();
    ensure(nothing_else && step.decision == DecisionChange::default(), || {
        format!("it brings {step:?}")
    })?;
    let shorter = was
        .lease
        .as_ref()
        .zip(is.lease.as_ref())
        .is_some_and(|(was, is)| is.expires_at < was.expires_at);
    ensure(!shorter, || "a heartbeat shortens the lease".to_owned())
}

fn records_follow_rows(meeting: &Meeting<'_>) -> Verdict {
    let Some((step, record)) = meeting.recorded() else { return Ok(()) };
    let (lifecycle, before) = (meeting.lifecycle(), meeting.before());
    let from = &lifecycle.state(before.state).name;
    ensure(record.from.as_ref() == Some(from), || {
        format!("the task was in {from}, the record says {:?}", record.from)
    })?;
    ensure(record.to == lifecycle.state(step.task.state).name, || {
        format!("the record says {}", record.to)
    })?;
    let role = lifecycle.find_role(&record.actor.role);
    let taken = |row: &Transition| {
        row.trigger == record.trigger && role.is_some_and(|role| row.roles.contains(&role))
    };
    let by_row = lifecycle
        .exits(before.state)
        .filter(|row| taken(row))
        .any(|row| leads_to(lifecycle, before, row, step));
    let outcome = match meeting.event {
        Event::Finished(finish) => record.trigger == finish.outcome.as_str(),
        Event::Reported(report) => record.trigger == report.outcome.as_str(),
        Event::Claimed(_) => record.trigger == Trigger::Claim.name(),
        Event::NeedsLeft(_) => record.trigger == Outcome::Met.as_str(),
        Event::LateCost(_) => record.trigger == Note::LateCost.as_str(),
        Event::Asked(_) | Event::Heartbeat(_) | Event::Due { .. } | Event::Uncounted(_) => false,
        Event::StaleWrite { .. } => record.trigger == Note::StaleWrite.as_str(),
        Event::Noted(noted) => record.trigger == noted.trigger && record.fields.is_empty(),
        Event::Overridden(_) => record.trigger == Note::Override.as_str(),
        Event::DelaySkipped(_) => {
            record.trigger == Note::DelaySkipped.as_str() && record.fields.is_empty()
        }
        Event::Restored { .. } => record.trigger == Note::Repaired.as_str(),
    };
    let in_place = outcome && !meeting.moved(step) && step.task.counters == before.counters;
    ensure(by_row || in_place, || format!("no row gives {record:?}"))
}

fn leads_to(lifecycle: &Lifecycle, before: &Task, row: &Transition, step: &TaskUpdate) -> bool {
    let reached = |id: &banksman_core::lifecycle::CounterId| {
        let counter = lifecycle.counter(*id);
        let seen = match counter.diverts {
            CounterOverflow::AtLimit => step.task.count(*id),
            CounterOverflow::BeyondLimit => before.count(*id),
        };
        let full = counter.limit.is_some_and(|limit| seen.used() >= limit);
        counter.then.filter(|_| full)
    };
    let direct = match row.to {
        TransitionTarget::State(id) => Some(id),
        TransitionTarget::Prior => before.prior,
    };
    row.changes.count.iter().find_map(reached).or(direct) == Some(step.task.state)
}

fn counters_rise(meeting: &Meeting<'_>) -> Verdict {
    let Some(step) = meeting.step() else { return Ok(()) };
    let counters = &meeting.lifecycle().counters;
    ensure(step.task.counters.len() == counters.len(), || "a counter is missing".to_owned())?;
    for ((counter, was), is) in
        counters.iter().zip(&meeting.before().counters).zip(&step.task.counters)
    {
        let rises = is.total >= was.total
            && is.total <= was.total + 1
            && is.reset_at >= was.reset_at
            && is.reset_at <= is.total;
        let bounded = counter.limit.is_none_or(|limit| is.used() <= limit);
        ensure(rises && bounded, || {
            format!("{}: {was:?} becomes {is:?} of {:?}", counter.name, counter.limit)
        })?;
    }
    Ok(())
}

fn epochs_rise(meeting: &Meeting<'_>) -> Verdict {
    let Some(step) = meeting.step() else { return Ok(()) };
    let (was, is) = (meeting.before(), &step.task);
    let claimed = matches!(meeting.event, Event::Claimed(_)) && is.lease.is_some();
    ensure(is.epoch - was.epoch == i64::from(claimed), || {
        format!("epoch {} becomes {}", was.epoch, is.epoch)
    })?;
    ensure(is.spent.runs - was.spent.runs == i64::from(claimed), || {
        "runs are counted by claims".to_owned()
    })?;
    let spends =
        is.spent.tokens >= was.spent.tokens && is.spent.cost_micros >= was.spent.cost_micros;
    ensure(spends, || format!("{:?} becomes {:?}", was.spent, is.spent))
}

fn leases_end_loudly(meeting: &Meeting<'_>) -> Verdict {
    let Some(step) = meeting.step() else { return Ok(()) };
    let was = meeting.before().lease.as_ref();
    let ended =
        was.filter(|lease| step.task.lease.as_ref().map(|lease| lease.epoch) != Some(lease.epoch));
    let told = step.ended_run.as_ref().map(|(epoch, _)| *epoch);
    ensure(told == ended.map(|lease| lease.epoch), || {
        format!("the lease was {was:?}, the run that ended is {told:?}")
    })?;
    let finished = matches!(meeting.event, Event::Finished(_));
    let stop = ended.filter(|_| !finished).map(|lease| Effect::Stop { epoch: lease.epoch });
    let stops: Vec<&Effect> =
        step.effects.iter().filter(|effect| matches!(effect, Effect::Stop { .. })).collect();
    ensure(stops.iter().copied().eq(stop.as_ref()), || {
        format!("a run that loses its lease is stopped, but there is {stops:?}")
    })?;
    ensure(!finished || step.task.lease.is_none(), || {
        "a run that has ended keeps its lease".to_owned()
    })
}

fn claims(meeting: &Meeting<'_>) -> Verdict {
    let Event::Claimed(claim) = meeting.event else { return Ok(()) };
    let queued = meeting.before().rank(meeting.lifecycle()).is_some();
    match meeting.step() {
        None => ensure(meeting.reply.is_err(), || format!("it says {:?}", meeting.reply)),
        Some(step) => {
            let lease = step.task.lease.as_ref();
            let held = lease.is_some_and(|lease| {
                lease.expires_at == claim.expires_at
                    && lease.epoch == step.task.epoch
                    && lease.worker == claim.actor.to_string()
            });
            // A counter may lead a claim to a state without work.
            let state = meeting.lifecycle().state(step.task.state);
            let idle = !matches!(
                state.kind,
                StateKind::Queued | StateKind::Working | StateKind::Reviewing
            );
            let sound = if idle { lease.is_none() } else { held };
            ensure(queued && sound, || format!("queued: {queued}, the lease is {lease:?}"))?;
            ensure(step.task.rank(meeting.lifecycle()).is_none(), || {
                "it is still in the queue".to_owned()
            })
        }
    }
}

fn entries_are_dated(meeting: &Meeting<'_>) -> Verdict {
    let Some((step, _)) = meeting.recorded() else { return Ok(()) };
    let (was, is, now) = (meeting.before(), &step.task, meeting.world.now);
    let wanted =
        if meeting.moved(step) { (is.version, now) } else { (was.entered, was.entered_at) };
    ensure((is.entered, is.entered_at) == wanted, || {
        format!("entered at {} {}, not {wanted:?}", is.entered, is.entered_at)
    })?;
    // A fact by a person's word is no progress.
    let by_word = matches!(meeting.event, Event::Overridden(_));
    let progress_at = if by_word { was.progress_at } else { now };
    ensure((is.updated_at, is.progress_at) == (now, progress_at), || {
        "what is recorded is progress".to_owned()
    })
}

fn timers_are_set(meeting: &Meeting<'_>) -> Verdict {
    let Some(step) = meeting.step() else { return Ok(()) };
    let Some(timers) = &step.timers else { return Ok(()) };
    let kinds: BTreeSet<TimerKind> = timers.iter().map(|timer| timer.kind).collect();
    ensure(kinds.len() == timers.len(), || format!("some are set twice: {timers:?}"))?;
    for timer in timers {
        let wanted = match timer.kind {
            TimerKind::Timeout(row) => {
                let row = meeting
                    .lifecycle()
                    .transitions
                    .get(row as usize)
                    .filter(|row| row.from == step.task.state);
                row.and_then(|row| row.timeout).map(|bound| due(&step.task, bound))
            }
            TimerKind::Ready => step.task.not_before,
            TimerKind::Remind(number) => {
                let remind = meeting.lifecycle().state(step.task.state).remind.as_ref();
                let age = remind.and_then(|remind| remind.after.get(number as usize));
                age.map(|age| Instant(step.task.entered_at.0 + age.0))
                    .filter(|due| *due > meeting.world.now)
            }
        };
        ensure(wanted == Some(timer.due), || format!("{timer:?} should be due at {wanted:?}"))?;
    }
    Ok(())
}

fn timers_are_heard(meeting: &Meeting<'_>) -> Verdict {
    let Event::Due { timer, entered } = meeting.event else { return Ok(()) };
    let armed =
        meeting.world.armed.iter().find(|armed| armed.kind == *timer && armed.entered == *entered);
    let now = meeting.world.now;
    match (armed, meeting.reply) {
        (_, Err(rejected)) => Err(format!("a timer is refused: {rejected}")),
        (_, Ok(StepResult::Later(due))) => {
            ensure(*due > now, || format!("later is {due}, now is {now}"))
        }
        (Some(armed), Ok(StepResult::Step(_))) => {
            ensure(armed.due <= now, || format!("it is early: {armed:?}"))
        }
        (Some(armed), Ok(StepResult::Ignored(why))) => {
            Err(format!("{armed:?} is ignored: {why:?}"))
        }
        (None, Ok(StepResult::Ignored(_))) => Ok(()),
        // A dead timer of the same stay belongs to the same timeout, and to the same wait for a
        // place in the queue.
        (None, Ok(StepResult::Step(_))) => {
            ensure(*entered == meeting.before().entered || *timer == TimerKind::Ready, || {
                "a timer of an earlier stay moves the task".to_owned()
            })
        }
    }?;
    let old = *entered != meeting.before().entered && *timer != TimerKind::Ready;
    let ignored = *meeting.reply == Ok(StepResult::Ignored(Ignored::Stale));
    ensure(!old || ignored, || "a timer of an earlier stay is not ignored".to_owned())
}

fn reports(meeting: &Meeting<'_>) -> Verdict {
    let Event::Reported(report) = meeting.event else { return Ok(()) };
    let before = meeting.before();
    let ignored = *meeting.reply == Ok(StepResult::Ignored(Ignored::Stale));
    let stale = report.entered != before.entered;
    ensure(stale == ignored, || {
        format!("of entry {}, the task is at {}", report.entered, before.entered)
    })?;
    let Some(step) = meeting.step() else { return Ok(()) };
    let does = meeting.lifecycle().state(before.state).does.as_ref();
    let reporting = does.is_some_and(|does| {
        let known = does.activity.outcomes().contains(&report.outcome)
            || report.outcome == Outcome::Exhausted
            || (report.outcome == Outcome::NotMerged && does.only_checks());
        does.activity != Activity::Agent && known
    });
    ensure(reporting, || format!("nothing here ends with {}", report.outcome))?;
    let told = step.ended_run.as_ref().map(|(_, how)| *how);
    ensure(told.is_none_or(|how| how == Outcome::Stopped), || {
        format!("a report ends a run as {told:?}")
    })
}

fn decisions(meeting: &Meeting<'_>) -> Verdict {
    let Some((step, _)) = meeting.recorded() else { return Ok(()) };
    let (lifecycle, moved) = (meeting.lifecycle(), meeting.moved(step));
    let settles = moved && asks_people(lifecycle, meeting.before().state);
    let active = step.task.is_active(lifecycle);
    let opens = moved && active && asks_people(lifecycle, step.task.state);
    let change = &step.decision;
    ensure(change.settles == settles && change.opens.is_some() == opens, || {
        format!("{change:?}, not settles: {settles}, opens: {opens}")
    })?;
    let bounds = lifecycle.exits(step.task.state).filter_map(|row| row.timeout);
    let deadline = bounds.map(|bound| due(&step.task, bound)).min();
    let told = change.opens.as_ref().map(|open| open.deadline);
    ensure(told.is_none() || told == Some(deadline), || {
        format!("the deadline is {told:?}, not {deadline:?}")
    })
}

fn effects(meeting: &Meeting<'_>) -> Verdict {
    let Some((step, _)) = meeting.recorded() else { return Ok(()) };
    let state = meeting.lifecycle().state(step.task.state);
    let mut wanted: Vec<Effect> = Vec::new();
    if meeting.moved(step) {
        let left = meeting.lifecycle().state(meeting.before().state);
        let had_panel = left.activity() == Some(Activity::Panel);
        wanted.extend(had_panel.then_some(Effect::CloseReviews));
        let active = step.task.is_active(meeting.lifecycle());
        let activity = state.does.as_ref().filter(|_| active).map(|does| does.activity);
        let later = state.kind == StateKind::Queued
            && (step.task.open_needs > 0 || is_left_to_moves(meeting, &step.task));
        let starts = activity.filter(|activity| match activity {
            Activity::Agent | Activity::Human => false,
            Activity::Wait => !later,
            Activity::Panel
            | Activity::Check
            | Activity::PullRequest
            | Activity::Merge
            | Activity::Capture => true,
        });
        wanted.extend(starts.map(|activity| Effect::Start { activity }));
        let has_parent = step.task.parent.is_some();
        wanted.extend(state.on_entry.iter().filter_map(|effect| match effect {
            EntryEffect::Notify => Some(Effect::Notify),
            EntryEffect::Alert => Some(Effect::Alert),
            EntryEffect::CleanUp => Some(Effect::CleanUp),
            EntryEffect::TellParent => has_parent.then_some(Effect::TellParent),
            EntryEffect::LeadChildren => Some(Effect::LeadChildren),
        }));
    }
    let told: Vec<Effect> = step
        .effects
        .iter()
        .filter(|effect| !matches!(effect, Effect::Stop { .. }))
        .cloned()
        .collect();
    let begun_again = match meeting.event {
        // The log of a workflow names the attempts of its steps that failed.
        Event::Finished(_) => {
            let is_step = meeting.lifecycle().purpose == Purpose::Step;
            told == [Effect::Alert]
                || (is_step
                    && matches!(
                        told[..],
                        [Effect::TellParent] | [Effect::Alert, Effect::TellParent]
                    ))
        }
        Event::Reported(_) => matches!(told[..], [Effect::Alert | Effect::Start { .. }]),
        Event::NeedsLeft(_) => told == [Effect::Alert],
        Event::Asked(_) | Event::Due { .. } | Event::Overridden(_) => {
            let start = Effect::Start { activity: Activity::Wait };
            told == [start] && is_left_to_moves(meeting, meeting.before())
        }
        Event::Claimed(_) | Event::Heartbeat(_) | Event::Uncounted(_) => false,
        Event::Restored { .. } => matches!(told[..], [] | [Effect::Start { .. }]),
        Event::StaleWrite { .. }
        | Event::Noted(_)
        | Event::DelaySkipped(_)
        | Event::LateCost(_) => false,
    };
    let stays = !meeting.moved(step) && begun_again;
    ensure(told == wanted || stays, || format!("{told:?}, not {wanted:?}"))
}

/// An unfinished wait for something that the system does not find out by itself.
fn is_left_to_moves(meeting: &Meeting<'_>, task: &Task) -> bool {
    let lifecycle = meeting.lifecycle();
    let does = lifecycle.state(task.state).does.as_ref();
    let names = does.and_then(|does| does.until.as_ref()).map(Expr::names);
    let is_brought = |name: &ResolvedName| match name {
        ResolvedName::Field(path) => {
            lifecycle.fields.get(&path[0]).is_some_and(FieldDecl::is_given_by_callers)
        }
        ResolvedName::Constant(_) => true,
        ResolvedName::Counter(_)
        | ResolvedName::ActorRole
        | ResolvedName::ActorName
        | ResolvedName::Now
        | ResolvedName::Title
        | ResolvedName::Tags
        | ResolvedName::Priority
        | ResolvedName::Spent(_)
        | ResolvedName::Outcome
        | ResolvedName::Detail => false,
    };
    names.is_some_and(|mut names| names.all(is_brought))
        && waits(lifecycle, task, meeting.world.now) == WaitStatus::Until(None)
}

fn endings(meeting: &Meeting<'_>) -> Verdict {
    let Some((step, _)) = meeting.recorded() else { return Ok(()) };
    let state = meeting.lifecycle().state(step.task.state);
    let ended_otherwise = state.terminal && state.kind != StateKind::Done;
    let relied_on = meeting.world.relied_on;
    let sound = match step.ending {
        Some(Ending::Done) => state.kind == StateKind::Done && !relied_on,
        Some(Ending::TakenBack) => state.kind != StateKind::Done && relied_on,
        Some(Ending::Otherwise) => ended_otherwise && !relied_on,
        None => !ended_otherwise,
    };
    ensure(sound, || {
        format!("{} is told as {:?}, relied on before: {relied_on}", state.name, step.ending)
    })
}

/// This task never blocks the end of another one, and leaves a queue in which it waited only for
/// that one.
fn needs(meeting: &Meeting<'_>) -> Verdict {
    let Event::NeedsLeft(left) = meeting.event else { return Ok(()) };
    let (lifecycle, before) = (meeting.lifecycle(), meeting.before());
    let open_needs = (*left).max(0);
    match meeting.reply {
        Ok(StepResult::Step(step)) => {
            ensure(open_needs != before.open_needs && step.task.open_needs == open_needs, || {
                format!("{} needs become {}", before.open_needs, step.task.open_needs)
            })?;
            let freed = Task { open_needs, ..before.clone() };
            let queued = lifecycle.state(before.state).kind == StateKind::Queued;
            let met = waits(lifecycle, &freed, meeting.world.now) == WaitStatus::Met;
            let led = queued && met && open_needs == 0;
            ensure(step.record.is_some() == led, || {
                format!("its wait is over: {led}, the record is {:?}", step.record)
            })
        }
        Ok(StepResult::Ignored(_)) => ensure(open_needs == before.open_needs, || {
            format!("{} needs are ignored, there were {}", open_needs, before.open_needs)
        }),
        Ok(StepResult::Later(due)) => Err(format!("not before {due}")),
        Err(rejected) => Err(format!("it is refused: {rejected}")),
    }
}

fn refusals(meeting: &Meeting<'_>) -> Verdict {
    let Err(rejected) = meeting.reply else { return Ok(()) };
    let said = !rejected.errors.is_empty()
        && rejected.errors.iter().all(|error| !error.field.is_empty() && !error.message.is_empty());
    ensure(said, || format!("{rejected:?}"))?;
    let known = rejected
        .allowed
        .iter()
        .all(|name| meeting.lifecycle().states.iter().any(|state| state.name == *name));
    ensure(known, || format!("it offers {:?}", rejected.allowed))?;
    let asked = match meeting.event {
        Event::Asked(ask) => ask.to.as_ref(),
        Event::Claimed(_)
        | Event::Heartbeat(_)
        | Event::Finished(_)
        | Event::Reported(_)
        | Event::Due { .. }
        | Event::NeedsLeft(_)
        | Event::Uncounted(_)
        | Event::LateCost(_)
        | Event::Noted(_)
        | Event::DelaySkipped(_)
        | Event::Overridden(_)
        | Event::Restored { .. }
        | Event::StaleWrite { .. } => None,
    };
    ensure(asked.is_none_or(|to| !rejected.allowed.contains(to)), || {
        format!("it offers what it refuses: {:?}", rejected.allowed)
    })
}

/// An actor gets what `allowed` would have offered, unless a counter diverted it or a timer made it
/// due.
fn done_was_allowed(meeting: &Meeting<'_>) -> Verdict {
    let (Event::Asked(ask), Some(step)) = (meeting.event, meeting.step()) else { return Ok(()) };
    let (lifecycle, before) = (meeting.lifecycle(), meeting.before());
    let rows = || {
        lifecycle
            .exits(before.state)
            .filter(|row| step.record.as_ref().is_some_and(|record| record.trigger == row.trigger))
    };
    let by_clock = rows().any(|row| row.timeout.is_some());
    let diverted = rows()
        .flat_map(|row| &row.changes.count)
        .any(|id| lifecycle.counter(*id).then == Some(step.task.state));
    let offered = allowed(lifecycle, before, &ask.actor, meeting.world.now);
    let to = &lifecycle.state(step.task.state).name;
    ensure(by_clock || diverted || offered.contains(to), || {
        format!("{} went to {to}, but was offered {offered:?}", ask.actor)
    })
}
