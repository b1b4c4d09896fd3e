//! The cells of the matrix: every state in which something can happen, and everything that can
//! happen there. All of it is read from the lifecycle, the activities and the failure classes, so
//! that a new one of these has cells of its own.

use std::fmt;

use banksman_core::failure::FailureClass;
use banksman_core::lifecycle::{Activity, Lifecycle, Outcome, State, StateActivity, StateKind};
use banksman_core::panel::Verdict;
use banksman_core::receipt::PrepareFault;

use crate::simulation::script::Script;

/// A state of a lifecycle, and whether its activity is for the task or left to others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) lifecycle: String,
    pub(super) state: String,
    pub(super) is_active: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = if self.is_active { "" } else { " (silent)" };
        write!(f, "{} {}{silent}", self.lifecycle, self.state)
    }
}

/// How often it happens: the first time, or each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Times {
    Once,
    Always,
}

impl Times {
    const ALL: [Self; 2] = [Self::Once, Self::Always];
}

/// How a run or another job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Well,
    Class(FailureClass),
    /// It says that it is done and has nothing to show.
    Lies,
    /// Nobody can read what its keeper wrote.
    Unreadable,
    /// It goes on for ever, and there is no progress.
    Hangs,
    /// It goes on for ever, and always makes some progress.
    Busy,
    /// Of a check or a merge.
    Outcome(Outcome),
    Hindered,
    KeeperDies,
}

/// What the reviewers of a panel do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Voice {
    Says(Verdict),
    /// A concern that is withdrawn in the debate.
    Withdraws,
    Nonsense,
    Silent,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Run(Ending, Times),
    Job(Ending, Times),
    Panel(Voice, Times),
    /// No worker may play the reviewers of the panel.
    NoReviewer,
    /// A person gives this answer.
    Answer(String),
    /// Nobody says anything, and nothing else happens.
    Silence,
    /// No worker is there any more.
    NoWorker,
    /// The engine is killed again and again.
    EngineDies,
    /// A wait comes to its end.
    Met,
}

impl Event {
    /// Whether the answers to its question are tried. Of the failures of runs and jobs, which lead
    /// to the same questions, only some are, and none that happens again and again.
    pub(super) fn tries_answers(&self) -> bool {
        use FailureClass::{Auth, Infra, NeedsPerson, Stall, Test};
        match self {
            Self::Run(ending, Times::Once) => match ending {
                Ending::Class(class) => [Auth, Infra, NeedsPerson, Stall, Test].contains(class),
                Ending::Well | Ending::Lies => true,
                Ending::Unreadable
                | Ending::Hangs
                | Ending::Busy
                | Ending::Outcome(_)
                | Ending::Hindered
                | Ending::KeeperDies => false,
            },
            Self::Job(ending, Times::Once) => {
                matches!(ending, Ending::Outcome(_) | Ending::Hindered | Ending::Hangs)
            }
            Self::Panel(_, times) => *times == Times::Once,
            Self::Run(_, Times::Always) | Self::Job(_, Times::Always) => false,
            Self::NoReviewer | Self::NoWorker | Self::Silence | Self::Met => true,
            Self::Answer(_) | Self::EngineDies => false,
        }
    }

    /// Whether a way to another state may lead over it: it belongs to one moment.
    pub(super) fn can_be_on_the_way(&self) -> bool {
        match self {
            Self::Run(..)
            | Self::Job(..)
            | Self::Panel(..)
            | Self::Answer(_)
            | Self::Silence
            | Self::NoReviewer
            | Self::NoWorker => true,
            Self::EngineDies | Self::Met => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, times) = match self {
            Self::Run(ending, times) | Self::Job(ending, times) => (ending.to_string(), *times),
            Self::Panel(voice, times) => (voice.to_string(), *times),
            Self::NoReviewer => return f.write_str("no reviewer"),
            Self::Answer(offer) => return write!(f, "answer {offer}"),
            Self::Silence => return f.write_str("silence"),
            Self::NoWorker => return f.write_str("no worker"),
            Self::EngineDies => return f.write_str("engine dies"),
            Self::Met => return f.write_str("met"),
        };
        match times {
            Times::Once => f.write_str(&what),
            Times::Always => write!(f, "{what}, always"),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Well => "succeeded",
            Self::Class(class) => class.as_str(),
            Self::Lies => "lies",
            Self::Unreadable => "unreadable receipt",
            Self::Hangs => "hangs",
            Self::Busy => "never ends",
            Self::Outcome(outcome) => outcome.as_str(),
            Self::Hindered => "hindered",
            Self::KeeperDies => "keeper dies",
        })
    }
}

impl fmt::Display for Voice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Says(verdict) => verdict.as_str(),
            Self::Withdraws => "CONCERN, withdrawn",
            Self::Nonsense => "nonsense",
            Self::Silent => "silent reviewers",
        })
    }
}

impl Ending {
    /// What an agent does that ends so; the death of a keeper is not in its script.
    pub(super) fn of_agent(self) -> Script {
        match self {
            Self::Class(class) => match class {
                FailureClass::Permission => Script::Permission,
                FailureClass::Noop => Script::NothingToDo,
                FailureClass::Policy => Script::Strays,
                FailureClass::Setup => Script::NotPrepared(PrepareFault::Setup),
                FailureClass::Env => Script::NotPrepared(PrepareFault::Environment),
                FailureClass::Auth => Script::Auth,
                FailureClass::Quota => Script::Quota,
                FailureClass::Test => Script::ChecksFail,
                FailureClass::Flaky => Script::Transient,
                FailureClass::ModelLoop => Script::Loops,
                FailureClass::Model => Script::Crashes,
                FailureClass::Budget => Script::OverBudget,
                FailureClass::Stall => Script::Stalls,
                FailureClass::NeedsPerson => Script::NeedsPerson,
                FailureClass::Infra => Script::Succeeds,
                FailureClass::Session => Script::SessionGone,
                FailureClass::Unusable => Script::NotPrepared(PrepareFault::Unusable),
            },
            Self::Lies => Script::Lies,
            Self::Unreadable => Script::Unreadable,
            Self::Well
            | Self::Hangs
            | Self::Busy
            | Self::Outcome(_)
            | Self::Hindered
            | Self::KeeperDies => Script::Succeeds,
        }
    }

    /// The same of a check or a merge.
    pub(super) fn of_job(self) -> Script {
        match self {
            Self::Outcome(Outcome::Conflict) => Script::Conflicts,
            Self::Outcome(Outcome::Rejected) => Script::Rejected,
            Self::Outcome(Outcome::Failed) => Script::ChecksFail,
            Self::Hindered => Script::Hindered,
            Self::Class(FailureClass::Stall) => Script::TimesOut,
            Self::Class(FailureClass::Env) => Script::NotPrepared(PrepareFault::Environment),
            Self::Unreadable => Script::Unreadable,
            Self::Class(_)
            | Self::Outcome(_)
            | Self::Well
            | Self::Lies
            | Self::Hangs
            | Self::Busy
            | Self::KeeperDies => Script::Succeeds,
        }
    }

    pub(super) fn kills_keeper(self) -> bool {
        matches!(self, Self::KeeperDies | Self::Class(FailureClass::Infra))
    }

    pub(super) fn goes_on(self) -> bool {
        matches!(self, Self::Hangs | Self::Busy)
    }

    /// Whether the work goes back, so that another run is wanted.
    pub(super) fn sends_back(self) -> bool {
        matches!(self, Self::Outcome(Outcome::Conflict | Outcome::Rejected | Outcome::Failed))
    }
}

fn each(endings: impl IntoIterator<Item = Ending>) -> impl Iterator<Item = (Ending, Times)> {
    endings.into_iter().flat_map(|ending| Times::ALL.map(|times| (ending, times)))
}

/// Everything that can happen in a state.
pub(super) fn events(lifecycle: &Lifecycle, state: &State, is_active: bool) -> Vec<Event> {
    let mut events = Vec::new();
    let does = state.does.as_ref().filter(|_| is_active);
    match does.map(|does| does.activity) {
        Some(Activity::Agent) => {
            let classes = FailureClass::ALL.map(Ending::Class);
            let more = [Ending::Lies, Ending::Unreadable, Ending::Hangs, Ending::Busy];
            events.push(Event::Run(Ending::Well, Times::Once));
            events.extend(each(classes.into_iter().chain(more)).map(|(end, n)| Event::Run(end, n)));
            events.push(Event::EngineDies);
        }
        Some(Activity::Panel) => {
            let voices = Verdict::ALL.map(Voice::Says).into_iter();
            let voices = voices.chain([Voice::Withdraws, Voice::Nonsense, Voice::Silent]);
            events.extend(
                voices.flat_map(|voice| Times::ALL.map(|times| Event::Panel(voice, times))),
            );
            events.extend([Event::NoReviewer, Event::EngineDies]);
        }
        Some(Activity::Human) => {
            let offers = does.into_iter().flat_map(|does| &does.offers);
            events.extend(offers.map(|(offer, _)| Event::Answer(offer.clone())));
            events.push(Event::Silence);
        }
        Some(activity @ (Activity::Check | Activity::Merge)) => {
            // One that only looks finds what is there.
            let outcomes = if does.is_some_and(StateActivity::only_checks) {
                &[Outcome::NotMerged]
            } else {
                activity.outcomes()
            };
            let more = [
                Ending::Hindered,
                Ending::KeeperDies,
                Ending::Unreadable,
                Ending::Hangs,
                Ending::Class(FailureClass::Stall),
                Ending::Class(FailureClass::Env),
            ];
            let endings = outcomes.iter().copied().map(Ending::Outcome).chain(more);
            events.extend(each(endings).map(|(end, times)| Event::Job(end, times)));
            events.push(Event::EngineDies);
        }
        Some(Activity::Wait) => events.extend([Event::Met, Event::EngineDies]),
        Some(Activity::PullRequest | Activity::Capture) | None => events.push(Event::Silence),
    }
    if state.kind == StateKind::Queued && lifecycle.exits_to_workers(state) {
        events.push(Event::NoWorker);
    }
    events
}

/// What a lifecycle says of its states for workers.
trait ToWorkers {
    fn exits_to_workers(&self, state: &State) -> bool;
}

impl ToWorkers for Lifecycle {
    fn exits_to_workers(&self, state: &State) -> bool {
        let id = self.find_state(&state.name).expect("it is a state of the lifecycle");
        self.exits(id).any(|row| row.trigger == "claim")
    }
}
