//! Panels of several reviewers. Each seat is a task of its own, with a lease, a run and retries like any other; here seats are made, what
//! they have answered becomes the record that `core::panel` decides on, and its answer is carried out.
//!
//! Nothing is decided here, and nothing is remembered but the seats: every look at a panel begins with them, so one that was cut off
//! goes on where it stood.

use std::sync::Arc;

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Kind, Setting, Since, builtin};
use banksman_core::limits;
use banksman_core::machine::{Actor, NewTask};
use banksman_core::panel::registry::{Reviewer, roster};
use banksman_core::panel::summary::{feedback, line, open_concerns, unresolved};
use banksman_core::panel::{
    Next, Opinion, Panel, Reply, Ruling, Seat, Standing, Verdict, Word, next,
};
use banksman_core::schedule::{Worker, could_serve};
use banksman_core::time::{Instant, Span};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::parts::CLOSE;
use super::relay::{Did, LOOK_AGAIN};
use super::review::is_of_this_stay;
use super::steps::text;
use super::{Engine, EngineError, NODE_GONE};
use crate::config::{Panels, WorkerSetup};
use crate::store::{Add, Definition, Key, Part, Stored};

/// The lifecycle of a seat.
pub(super) const SEAT: &str = "seat";
/// Its setting for the time of one answer.
pub(super) const ANSWER_TIMEOUT: &str = "answer_timeout";
/// Whose panel is the whole roster; a panel of another role has one seat of that name. Whoever plays it takes every seat.
const REVIEWER: &str = "reviewer";

/// What a reviewer answers in the first pass, and in a debate.
pub(super) const VERDICT_ANSWER: &str = include_str!("../../prompts/verdict.schema.json");
pub(super) const REPLY_ANSWER: &str = include_str!("../../prompts/reply.schema.json");

/// The part of a state's own bound that is left to tell a person what there is: at the bound itself the lifecycle moves on without it.
const LAST_PART: i64 = 30;
/// Of a task's title that its seats repeat, in bytes.
const TITLE_BYTES: usize = 400;

/// A seat that is to be made.
struct Invitation {
    reviewer: String,
    brief: String,
    tags: Vec<String>,
    /// 0 is the first pass.
    round: usize,
}

#[derive(Deserialize)]
struct VerdictAnswer {
    verdict: Verdict,
    #[serde(flatten)]
    opinion: Opinion,
}

#[derive(Deserialize)]
struct ReplyAnswer {
    response: Response,
    #[serde(default)]
    rationale: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Response {
    Withdraw,
    Maintain,
}

impl Engine<'_> {
    /// One look at a panel: as it stands, what comes next is done. Answers when to look again.
    pub(super) fn hold_panel(&self, whole: &Stored, now: Instant) -> Result<Did, EngineError> {
        let panels = self.panels_of(whole)?;
        let seats = self.seats_of(whole)?;
        let soon = now.plus(LOOK_AGAIN);
        if seats.is_empty() {
            return self.convene_all(whole, &panels, now);
        }
        let panel = record(whole, &seats, &panels);
        match next(&panel, now) {
            Next::Wait { until } => Ok(Did::Later(until.map_or(soon, |until| until.min(soon)))),
            Next::Debate { round } => {
                let holders = panel.seats.iter().filter(|seat| seat.holds_a_concern());
                let holders: Vec<&str> = holders.map(|seat| seat.reviewer.as_str()).collect();
                let first = seats.iter().filter(|seat| round_of(seat) == 0);
                let invited = first.filter(|seat| holders.contains(&name_of(seat)));
                let invited: Vec<Invitation> = invited.map(|seat| again(seat, round)).collect();
                self.invite(whole, &invited, &panels, now)?;
                let ends = now.plus(panels.round_timeout);
                Ok(Did::Later(ends.min(soon)))
            }
            Next::Decide { ruling, reason } => {
                self.rule(whole, &seats, &panel, (ruling, reason), now)?;
                Ok(Did::Done)
            }
        }
    }

    /// Everybody is asked at once, and nobody is told what the others say. Where no worker could ever take a seat, nobody is.
    fn convene_all(
        &self,
        whole: &Stored,
        panels: &Panels,
        now: Instant,
    ) -> Result<Did, EngineError> {
        let does = whole.lifecycle.state(whole.task.state).does.as_ref();
        let role = does.and_then(|does| does.role.as_deref()).unwrap_or(REVIEWER);
        let reviewers = match role {
            REVIEWER => roster(&panels.reviewers, &panels.specialists, &whole.task.tags),
            other => vec![panels.only(other)],
        };
        let workers = self.reviewing_workers(now)?;
        let past = self.store.past_runs(whole.task.id, 1)?;
        let last = past.last().map(|run| run.worker.as_str());
        let invited = reviewers.iter().map(|reviewer| Invitation {
            reviewer: reviewer.name.clone(),
            brief: reviewer.brief.clone(),
            tags: self.tags_of(reviewer, last, &workers),
            round: 0,
        });
        let invited: Vec<Invitation> = invited.collect();
        if !invited.iter().any(|seat| could_serve(&seat.tags, &workers)) {
            let names: Vec<&str> = reviewers.iter().map(|one| one.name.as_str()).collect();
            let detail = match names.as_slice() {
                [] => "no reviewers are set up".to_owned(),
                some => format!("no reviewers: no worker can play {}", some.join(", ")),
            };
            self.report(whole, Ruling::Unavailable.outcome(), detail, Map::new(), now)?;
            return Ok(Did::Done);
        }
        self.invite(whole, &invited, panels, now)?;
        Ok(Did::Later(now.plus(LOOK_AGAIN)))
    }

    fn panels_of(&self, whole: &Stored) -> Result<Panels, EngineError> {
        let project = self.projects.find(&whole.task.project)?;
        let agents = project.as_ref().map_or(&self.terms.agents, |project| &project.agents);
        Ok(agents.panels.clone())
    }

    /// The seats of the panel that the task is in, in the order in which they were made.
    pub(super) fn seats_of(&self, whole: &Stored) -> Result<Vec<Stored>, EngineError> {
        let mut seats = self.store.parts(whole.task.id)?;
        seats.retain(|seat| seat.lifecycle.id == SEAT && is_of_this_stay(seat, whole));
        Ok(seats)
    }

    /// The panel that a task is in, as it stands.
    pub(super) fn panel_of(&self, whole: &Stored) -> Result<Panel, EngineError> {
        Ok(record(whole, &self.seats_of(whole)?, &self.panels_of(whole)?))
    }

    /// Those of all live machines that review.
    fn reviewing_workers(&self, now: Instant) -> Result<Vec<Worker>, EngineError> {
        let nodes = self.store.nodes()?.into_iter();
        let live = nodes.filter(|node| now.since(node.seen_at) < NODE_GONE);
        let workers = live.flat_map(|node| node.workers).chain(self.workers());
        Ok(workers.filter(|worker| worker.plays(REVIEWER)).collect())
    }

    /// What a seat asks of its worker: to be the one that the reviewer names, or if it can be another one than did the work.
    fn tags_of(&self, reviewer: &Reviewer, last: Option<&str>, workers: &[Worker]) -> Vec<String> {
        let own = reviewer.name.clone();
        let wish = match &reviewer.model {
            Some(model) => Some(format!("needs:{}", self.player(model, last, workers))),
            None => last.map(|last| format!("avoid:{last}")),
        };
        [own].into_iter().chain(wish).collect()
    }

    /// The worker whose name, model or agent this is; of several rather one that did not do the work, and the cheapest.
    fn player(&self, model: &str, last: Option<&str>, workers: &[Worker]) -> String {
        let here =
            |setup: &&WorkerSetup| setup.model.as_deref() == Some(model) || setup.agent == model;
        let mut named: Vec<&Worker> = workers.iter().filter(|one| one.name == model).collect();
        if named.is_empty() {
            let setups = self.terms.workers.iter().filter(here).map(|setup| &setup.worker);
            named = setups.filter(|worker| worker.plays(REVIEWER)).collect();
        }
        // Of other machines no more is known than the account, which is the agent's name unless somebody gave it another one.
        if named.is_empty() {
            named = workers.iter().filter(|worker| worker.account == model).collect();
        }
        let best = named
            .into_iter()
            .min_by_key(|worker| (last == Some(worker.name.as_str()), worker.cost, &worker.name));
        best.map_or_else(|| model.to_owned(), |worker| worker.name.clone())
    }

    fn invite(
        &self,
        whole: &Stored,
        invited: &[Invitation],
        panels: &Panels,
        now: Instant,
    ) -> Result<(), EngineError> {
        let parts = invited.iter().map(|seat| part(whole, seat, panels));
        let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        self.store.add_parts(&parts, now)?;
        Ok(())
    }

    /// The end of a panel goes to its task with all that was said, and whoever still reads is sent home.
    fn rule(
        &self,
        whole: &Stored,
        seats: &[Stored],
        panel: &Panel,
        (ruling, reason): (Ruling, String),
        now: Instant,
    ) -> Result<(), EngineError> {
        let summary = match ruling {
            Ruling::Escalated | Ruling::Unresolved => Some(unresolved(panel)),
            Ruling::Approved | Ruling::Blocked | Ruling::Unavailable => None,
        };
        let detail = match ruling {
            Ruling::Blocked => feedback(panel),
            Ruling::Escalated | Ruling::Unresolved => {
                format!("{reason}\n\n{}", summary.as_deref().unwrap_or_default())
            }
            Ruling::Approved | Ruling::Unavailable => reason,
        };
        let concerns: Vec<Value> = open_concerns(panel)
            .into_iter()
            .take(limits::OPEN_CONCERNS)
            .map(|open| {
                json!({ "reviewer": open.reviewer, "concern": open.concern, "response": open.response })
            })
            .collect();
        let told = [
            ("verdicts", Some(json!(self.verdicts(seats, panel)?))),
            ("concerns", Some(json!(concerns)).filter(|_| !concerns.is_empty())),
            ("review_summary", summary.map(Value::from)),
        ];
        let known = |name: &str| whole.lifecycle.fields.contains_key(name);
        // What an earlier panel has left is not true of this one.
        let kept = |name: &str| whole.task.fields.contains_key(name);
        let told =
            told.into_iter().filter(|(name, value)| known(name) && (value.is_some() || kept(name)));
        let fields = told.map(|(name, value)| (name.to_owned(), value.unwrap_or_default()));
        self.report(whole, ruling.outcome(), detail, fields.collect(), now)?;
        for seat in seats.iter().filter(|seat| !seat.lifecycle.state(seat.task.state).terminal) {
            self.ask_of(seat.task.id, CLOSE, [], now)?;
        }
        Ok(())
    }

    /// Who said what, and which worker, agent and model was behind it.
    fn verdicts(&self, seats: &[Stored], panel: &Panel) -> Result<Vec<Value>, EngineError> {
        let first = seats.iter().filter(|seat| round_of(seat) == 0);
        let mut verdicts = Vec::new();
        for (seat, said) in first.zip(&panel.seats) {
            let past = self.store.past_runs(seat.task.id, 1)?;
            let run = past.last();
            let setup = run.and_then(|run| self.worker(&run.worker));
            let (rationale, why) = match &said.word {
                Word::Given(_, opinion) => (Some(opinion.rationale.as_str()), None),
                Word::Missing { why } => (None, Some(why.as_str())),
                Word::Awaited => (None, None),
            };
            let all = json!({
                "reviewer": said.reviewer,
                "verdict": standing(said),
                "rationale": rationale,
                "why": why,
                "task": seat.task.id.to_string(),
                "worker": run.map(|run| run.worker.as_str()),
                "agent": run.and_then(|run| run.agent.as_deref()),
                "model": setup.and_then(|setup| setup.model.as_deref()),
            });
            let known = all.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            let known: Map<String, Value> =
                known.map(|(name, value)| (name.clone(), value.clone())).collect();
            verdicts.push(Value::Object(known));
        }
        Ok(verdicts)
    }
}

fn standing(seat: &Seat) -> &'static str {
    match seat.standing() {
        Standing::Given(verdict) => verdict.as_str(),
        Standing::Withdrawn => "WITHDRAWN",
        Standing::Waiting | Standing::Silent => "MISSING",
    }
}

pub(super) fn name_of(seat: &Stored) -> &str {
    text(seat, "seat").unwrap_or(REVIEWER)
}

pub(super) fn round_of(seat: &Stored) -> usize {
    let round = seat.task.fields.get("round").and_then(Value::as_u64);
    round.and_then(|round| usize::try_from(round).ok()).unwrap_or_default()
}

/// The same reviewer in a round of the debate: a seat of its own, so that it begins with a fresh session and has its own time.
fn again(seat: &Stored, round: usize) -> Invitation {
    Invitation {
        reviewer: name_of(seat).to_owned(),
        brief: text(seat, "brief").unwrap_or_default().to_owned(),
        tags: seat.task.tags.clone(),
        round,
    }
}

fn part(whole: &Stored, seat: &Invitation, panels: &Panels) -> Result<Part, EngineError> {
    let task = &whole.task;
    let (answer, patience) = match seat.round {
        0 => (panels.verdict_timeout, panels.whole),
        _ => (panels.reply_timeout, panels.round_timeout),
    };
    let overrides = Overrides::from([
        (ANSWER_TIMEOUT.to_owned(), Setting::Time(answer)),
        ("patience".to_owned(), Setting::Time(patience)),
        ("max_misses".to_owned(), Setting::Number(f64::from(panels.retries + 1))),
        ("first_rest".to_owned(), Setting::Time(panels.first_retry)),
        ("second_rest".to_owned(), Setting::Time(panels.second_retry)),
    ]);
    let checked = builtin::get(SEAT, &overrides).expect("it ships with the program");
    let lifecycle = checked.map_err(|problems| EngineError::Project {
        project: task.project.clone(),
        message: problems.to_string(),
    })?;
    let source = builtin::source(SEAT).unwrap_or_default().to_owned();
    let fields = json!({
        "asked_at": task.entered,
        "seat": seat.reviewer,
        "brief": seat.brief,
        "round": seat.round,
    });
    let what = if seat.round == 0 { "reviews" } else { "debates" };
    let new = NewTask {
        title: format!("{} {what} {}", seat.reviewer, line(&task.title, TITLE_BYTES)),
        project: task.project.clone(),
        batch: task.batch.clone(),
        tags: seat.tags.clone(),
        // What is nearly finished goes before what is not begun.
        priority: task.priority.saturating_add(1).min(limits::PRIORITY),
        parent: Some(task.id),
        fields: fields.as_object().cloned().unwrap_or_default(),
        ..NewTask::default()
    };
    let key = format!("seat-{}-{}-{}-{}", task.id, task.entered, seat.round, seat.reviewer);
    let definition = Definition { lifecycle: Arc::new(lifecycle), source, overrides };
    let (actor, key) = (Actor::system(), Some(Key::new(&key, &key)));
    let add = Add { new, definition, needs: Vec::new(), actor, key, arrival: None };
    Ok(Part { add, parent: None, after: Vec::new() })
}

/// The seats as one record.
fn record(whole: &Stored, seats: &[Stored], panels: &Panels) -> Panel {
    let mut panel = Panel {
        seats: Vec::new(),
        round_ends: Vec::new(),
        ends: Some(ends(whole, panels.whole)),
        most_rounds: usize::try_from(panels.rounds).unwrap_or_default(),
    };
    for seat in seats {
        let reviewer = name_of(seat).to_owned();
        match round_of(seat) {
            0 => panel.seats.push(Seat { reviewer, word: word(seat), replies: Vec::new() }),
            round => {
                if panel.round_ends.len() < round {
                    panel.round_ends.push(seat.task.created_at.plus(panels.round_timeout));
                }
                let own = panel.seats.iter_mut().find(|known| known.reviewer == reviewer);
                own.into_iter().for_each(|own| own.replies.push(reply(seat)));
            }
        }
    }
    panel
}

/// When a panel is over: after its own time, or shortly before the lifecycle moves on without an answer.
fn ends(whole: &Stored, most: Span) -> Instant {
    let exits = whole.lifecycle.exits(whole.task.state).filter_map(|row| row.bound.as_ref());
    let bounds = exits.filter(|bound| bound.since == Since::Entry).map(|bound| bound.time.0);
    let bound = bounds.min().map_or(most.0, |bound| bound - bound / LAST_PART);
    whole.task.entered_at.plus(Span(bound.min(most.0)))
}

/// The answer of a seat; none: why there will be none; or else it is awaited.
fn answer(seat: &Stored) -> Option<Result<&Value, String>> {
    let why = || text(seat, "diagnostic").unwrap_or("it gave no answer");
    match seat.lifecycle.state(seat.task.state).kind {
        Kind::Done => Some(seat.task.fields.get("answer").ok_or_else(|| why().to_owned())),
        Kind::Failed => Some(Err(line(why(), limits::OPINION_TEXT_BYTES))),
        Kind::Cancelled => Some(Err("its seat was taken back".to_owned())),
        Kind::Queued
        | Kind::Working
        | Kind::Reviewing
        | Kind::Waiting
        | Kind::Blocked
        | Kind::Parked => None,
    }
}

/// What an agent has answered is in the shape of its schema; should it not be, it is no verdict.
const UNREADABLE: &str = "its answer cannot be read";

fn word(seat: &Stored) -> Word {
    match answer(seat) {
        None => Word::Awaited,
        Some(Err(why)) => Word::Missing { why },
        Some(Ok(answer)) => match VerdictAnswer::deserialize(answer) {
            Ok(said) => Word::Given(said.verdict, said.opinion.bounded()),
            Err(_) => Word::Missing { why: UNREADABLE.to_owned() },
        },
    }
}

fn reply(seat: &Stored) -> Reply {
    match answer(seat) {
        None => Reply::Awaited,
        Some(Err(why)) => Reply::Missing { why },
        Some(Ok(answer)) => match ReplyAnswer::deserialize(answer) {
            Ok(said) => {
                let why = line(&said.rationale, limits::OPINION_TEXT_BYTES);
                match said.response {
                    Response::Withdraw => Reply::Withdraw { why },
                    Response::Maintain => Reply::Maintain { why },
                }
            }
            Err(_) => Reply::Missing { why: UNREADABLE.to_owned() },
        },
    }
}
