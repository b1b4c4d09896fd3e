//! An engine in this very process, on the folders of a [`Harness`](super::harness::Harness), whose
//! clock and patience a test can change. Keepers and agents are real.

use std::cell::Cell;
use std::path::Path;

use banksman::clock;
use banksman::config::{self, Agents, Environment, Flags, WorkerSetup};
use banksman::engine::{Engine, EngineConfig, EngineError, Project, Projects, TurnReport};
use banksman::exec::repo;
use banksman::exec::site::LocalSite;
use banksman::store::Store;
use banksman::store::conn::{Options, Target};
use banksman::store::notices::{Channel, Notice};
use banksman_core::failure::RetryPolicy;
use banksman_core::time::{Instant, Span};

use super::harness::PROGRAM;
use super::processes::{Seen, wait_through};

pub(crate) const NODE: &str = "here";

pub(crate) struct Driver {
    pub(crate) store: Store,
    pub(crate) site: LocalSite,
    pub(crate) projects: One,
    pub(crate) terms: EngineConfig,
    ahead: Cell<Span>,
}

/// The one project of a harness.
pub(crate) struct One(Project);

impl Projects for One {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError> {
        Ok((name == "repo").then(|| self.0.clone()))
    }
}

impl Driver {
    /// On the folder of a harness and its SQLite store. No wait before another try is longer than
    /// `patience`.
    pub(crate) fn of(root: &Path, patience: Span) -> Self {
        Self::on(root, &root.join("store.db").display().to_string(), patience)
    }

    /// On the folder of a harness and the store at an address.
    pub(crate) fn on(root: &Path, address: &str, patience: Span) -> Self {
        let repo = root.join("repo");
        let flags = Flags::from([("store", address.to_owned())]);
        let config = config::resolve(&flags, &Environment::default(), &repo).expect("settings");
        let home = root.join(format!("home-{NODE}"));
        let agents = Agents { home: home.into(), node: NODE.to_owned(), ..config.agents };
        let target: Target = address.parse().expect("a store");
        let store = Store::open(&target, &Options::default()).expect("the store opens");
        let site = LocalSite::open(&agents.home, Path::new(PROGRAM)).expect("a site");
        let (base, remote) = ("main".to_owned(), repo::remote(&repo));
        let project = Project { path: repo, base, remote, agents: agents.clone() };
        Self {
            store,
            site: site.with_env("BANKSMAN_STORE", address),
            projects: One(project),
            terms: EngineConfig {
                workers: agents.workers.clone(),
                agents,
                program: PROGRAM.into(),
                policy: RetryPolicy::default().with_delay_cap(patience),
                secret: clock::secret,
                awake: || None,
            },
            ahead: Cell::new(Span(0)),
        }
    }

    /// The time as the engine is told it.
    pub(crate) fn now(&self) -> Instant {
        clock::now().plus(self.ahead.get())
    }

    /// Lets time pass without waiting for it.
    pub(crate) fn pass(&self, span: Span) {
        self.ahead.set(Span(self.ahead.get().0 + span.0));
    }

    /// It is noon, so that no day ends in the midst of a test.
    pub(crate) fn at_noon(self) -> Self {
        self.pass(until_noon(self.now()));
        self
    }

    pub(crate) fn turn(&self) -> TurnReport {
        self.try_turn().expect("a turn")
    }

    /// A turn that something may cut off.
    pub(crate) fn try_turn(&self) -> Result<TurnReport, EngineError> {
        let engine = Engine::new(&self.store, &self.site, &self.projects, &self.terms);
        engine.pulse(self.now())
    }

    /// The notices that were not printed yet; they count as printed then.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        notices(&self.store, self.now())
    }

    /// Turns until something is so, and answers with what they told.
    pub(crate) fn turn_until(&self, what: &str, mut is_so: impl FnMut(&Store) -> bool) -> Told {
        let mut told = Told::default();
        wait_through(what, || {
            let pulse = self.turn();
            let is_further = !pulse.started.is_empty() || !pulse.ended.is_empty();
            told.add(pulse, self.notices());
            match is_so(&self.store) {
                true => Seen::TheEnd,
                false if is_further => Seen::AStep,
                false => Seen::Nothing,
            }
        });
        told
    }

    /// Another worker appears, like the one that is there but for its name and what it can do.
    pub(crate) fn hire(&mut self, name: &str, capability: &str) {
        let mut setup: WorkerSetup = self.terms.workers[0].clone();
        setup.worker.name = name.to_owned();
        setup.worker.capabilities.insert(capability.to_owned());
        self.terms.workers.push(setup);
    }
}

/// Takes the notices as `up` does.
pub(crate) fn notices(store: &Store, now: Instant) -> Vec<Notice> {
    let notices = store.take_notices(Channel::Terminal, now).expect("notices");
    store.notices_sent(Channel::Terminal, &notices, Ok(())).expect("noted");
    notices
}

/// From now to the noon of the next day (UTC).
pub(crate) fn until_noon(now: Instant) -> Span {
    const DAY: i64 = 86_400_000;
    Span(DAY - now.0.rem_euclid(DAY) + DAY / 2)
}

/// What several turns told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) outcomes: Vec<String>,
    pub(crate) notices: Vec<String>,
}

impl Told {
    pub(crate) fn add(&mut self, pulse: TurnReport, notices: Vec<Notice>) {
        let outcome = |(job, outcome): (_, String)| format!("{job} {outcome}");
        self.outcomes.extend(pulse.ended.into_iter().map(outcome));
        self.notices.extend(notices.into_iter().map(|notice| notice.text));
    }
}
