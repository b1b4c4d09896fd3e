//! `banksman up`, `pulse` and `renew`: the one place of the command line that puts store, site and
//! engine together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use banksman_core::failure::RetryPolicy;
use banksman_core::ids::RunId;
use banksman_core::machine::RejectReason;
use banksman_core::time::{Instant, Span};
use clap::Args;
use serde_json::json;

use super::attach::{open_window, wanted_screen};
use super::context::{Context, open, target};
use super::daily::{Desk, Turn};
use super::exit::Exit;
use super::failure::Failure;
use super::output::{json_line, shown};
use super::signs::local_time;
use crate::clock;
use crate::config::{self, Config, EnvVars, Environment, Flags, PolicyFile};
use crate::engine::wake::{WakeReason, Waker};
use crate::engine::{Engine, EngineConfig, EngineError, Notice, Project, Projects, TurnReport};
use crate::exec::job::{JobId, LOST};
use crate::exec::lock::lock_within;
use crate::exec::process::PlainRunner;
use crate::exec::repo;
use crate::exec::site::LocalSite;
use crate::exec::window;
use crate::store::{Store, StoreError};

/// The longest sleep of `up`: a node that is not heard of for three of them counts as gone.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// It has taken longer than there was time for: what is due is looked at almost at once.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// The same while there are keepers that an earlier `up` or a `pulse` has started: nobody tells us
/// when one of them is killed.
const LONGEST_SLEEP_BESIDE_OTHERS: Duration = Duration::from_secs(5);
/// Somebody looks at the screen meanwhile.
const LONGEST_SLEEP_OF_ONE_WHO_WAITS: Duration = Duration::from_secs(1);
/// Worktrees that nobody took away are looked for this often.
const BETWEEN_SWEEPS: Span = Span(60 * 60_000);
/// How long a start waits for an `up` that is on its way out: a second.
const LOCK_TRIES: u32 = 20;
const BETWEEN_LOCK_TRIES: Duration = Duration::from_millis(50);
/// After a turn that failed, such as by a store that cannot be reached.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Run agents on the tasks of the store until you stop it
///
/// It starts agents for tasks that are ready, watches over them, and wakes only when something
/// happens. Ending it leaves agents at work: they go on, and the next `up` or `pulse` takes their
/// results.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman up
  banksman up --json | jq .
")]
pub(super) struct UpArgs {}

/// Do everything that is due, once, and exit
///
/// For cron: agents that are started go on by themselves, and a later pulse takes their results.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman pulse
  */5 * * * * banksman pulse --quiet
")]
pub(super) struct PulseArgs {}

/// Renew the lease of a run (called by its keeper)
#[derive(Debug, Args)]
pub(super) struct RenewArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: RunId,
    /// For how long
    #[arg(long, value_name = "SPAN")]
    ttl: Span,
    /// It has got on since the last time
    #[arg(long)]
    progressed: bool,
}

/// Everything that an engine is made of.
pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) site: LocalSite,
    projects: OnDisk,
    pub(super) terms: EngineConfig,
}

impl Parts {
    pub(super) fn of(config: &Config) -> Result<Self, Failure> {
        let target = target(config)?;
        let store = open(config, &target)?;
        let agents = config.agents.clone();
        let program = env::current_exe().map_err(Failure::Program)?;
        let path = Environment::passed(&["PATH".to_owned()]).remove("PATH").unwrap_or_default();
        let workers = agents.workers_or_found(&path);
        // Keepers renew their leases by the same store, whatever named it; an address may hold a
        // password, so it does not go into their arguments.
        let address = config.store.clone().unwrap_or_default();
        let site = LocalSite::open(&agents.home, &program)?.with_env(EnvVars::STORE, &address);
        let environment = Environment::of_process()?;
        let (known, policies) = (RefCell::default(), RefCell::default());
        let projects = OnDisk { store: store.clone(), environment, known, policies };
        let policy = RetryPolicy::default();
        let terms = EngineConfig { agents, workers, program, policy, secret: clock::secret };
        Ok(Self { store, site, projects, terms })
    }

    pub(super) fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.site, &self.projects, &self.terms)
    }
}

/// Projects with the settings of their folders, as they were when the project was first needed.
struct OnDisk {
    store: Store,
    environment: Environment,
    known: RefCell<BTreeMap<String, Option<Project>>>,
    /// By project, so that a policy is made sense of only when its file has changed.
    policies: RefCell<BTreeMap<String, PolicyFile>>,
}

impl OnDisk {
    fn look(&self, name: &str) -> Result<Option<Project>, EngineError> {
        let Some(path) = self.store.project(name)? else { return Ok(None) };
        let path = PathBuf::from(path);
        if !path.join(".git").exists() {
            return Ok(None);
        }
        let config = config::resolve(&Flags::new(), &self.environment, &path).map_err(|error| {
            EngineError::Project { project: name.to_owned(), message: error.to_string() }
        })?;
        let mut agents = config.agents;
        let mut policies = self.policies.borrow_mut();
        if let Some(earlier) = policies.get(name) {
            agents.policy.remember(earlier);
        }
        policies.insert(name.to_owned(), agents.policy.clone());
        let base = agents.worktrees.base.clone().or_else(|| repo::base_branch(&path));
        let remote = repo::remote(&path);
        Ok(base.map(|base| Project { path, base, remote, agents }))
    }
}

impl Projects for OnDisk {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(known.clone());
        }
        let found = self.look(name)?;
        self.known.borrow_mut().insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

pub(super) fn pulse(context: &Context, _: &PulseArgs) -> Result<Exit, Failure> {
    let parts = Parts::of(&context.config)?;
    let desk = Desk::of(&context.config);
    let answers = look_at_note(desk.as_ref(), &parts, context.now);
    let mut pulse = parts.engine().pulse(context.now)?;
    after_note(desk.as_ref(), &parts, answers, &mut pulse, context.now);
    open_windows(context, &pulse);
    parts.engine().sweep()?;
    context.out.answer(|| document(&pulse), || lines(&pulse, context.now))?;
    Ok(Exit::Done)
}

pub(super) fn up(context: &Context, _: &UpArgs) -> Result<Exit, Failure> {
    let parts = Parts::of(&context.config)?;
    let _only = only_one(&parts.terms.agents.home)?;
    let mut waker = Waker::hang(&parts.store, &parts.site.ended_folder())?;
    welcome(context, &parts);
    let desk = Desk::of(&context.config).map(Desk::at_a_pace);
    let mut swept = Instant(0);
    loop {
        parts.projects.known.borrow_mut().clear();
        let (now, began) = (clock::now(), clock::monotonic());
        let answers = look_at_note(desk.as_ref(), &parts, now);
        let sleep = match parts.engine().pulse(now) {
            Ok(mut pulse) => {
                after_note(desk.as_ref(), &parts, answers, &mut pulse, now);
                open_windows(context, &pulse);
                waker.watch_signals(&pulse.watched);
                show(context, &pulse, now)?;
                // A folder that cannot be read is told of by the next turn.
                let others = parts.site.has_others_keepers().unwrap_or(true);
                let longest = if others { LONGEST_SLEEP_BESIDE_OTHERS } else { LONGEST_SLEEP };
                sleep_after(&pulse, clock::monotonic().duration_since(began)).min(longest)
            }
            Err(error) => {
                let failure = Failure::from(error);
                context.out.say(&format!("{} {failure}", local_time(now)));
                AFTER_FAILURE
            }
        };
        if now.since(swept) > BETWEEN_SWEEPS {
            swept = now;
            if let Err(error) = parts.engine().sweep() {
                context.out.say(&format!("{} {}", local_time(now), Failure::from(error)));
            }
        }
        if waker.wait(sleep) == WakeReason::Stop {
            return farewell(context, &parts);
        }
    }
}

/// Answers in the daily note come first, so that the turn carries them out.
fn look_at_note(desk: Option<&Desk>, parts: &Parts, now: Instant) -> Turn {
    desk.map(|desk| desk.turn(&parts.store, now)).unwrap_or_default()
}

/// Tells what came of the answers, and puts into the note what the turn has changed.
fn after_note(
    desk: Option<&Desk>,
    parts: &Parts,
    before: Turn,
    pulse: &mut TurnReport,
    now: Instant,
) {
    let Some(desk) = desk else { return };
    let is_idle = pulse.ended.is_empty()
        && pulse.started.is_empty()
        && pulse.recovered.is_empty()
        && pulse.timers + pulse.effects == 0;
    let after = if is_idle { Turn::default() } else { desk.turn(&parts.store, now) };
    pulse.watched.push(desk.folder().to_owned());
    for turn in [before, after] {
        let told = turn.notices.into_iter();
        pulse.notices.extend(told.map(|(urgent, text)| Notice { task: None, urgent, text }));
        if let Some(again) = turn.again.map(|again| pulse.at.plus(again)) {
            pulse.next = Some(pulse.next.map_or(again, |next| next.min(again)));
        }
    }
}

/// How a stay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drove {
    Enough,
    /// By a signal.
    Stopped,
}

/// Does what `up` does until it is said to be enough. Where an `up` is at work already, it only
/// looks on.
pub(super) fn drive(
    context: &Context,
    mut is_enough: impl FnMut(&Store) -> Result<bool, Failure>,
) -> Result<Drove, Failure> {
    let parts = Parts::of(&context.config)?;
    let only = match only_one(&parts.terms.agents.home) {
        Ok(lock) => Some(lock),
        Err(Failure::AlreadyUp { .. }) => None,
        Err(failure) => return Err(failure),
    };
    let mut waker = Waker::hang(&parts.store, &parts.site.ended_folder())?;
    if only.is_some() {
        say_if_nobody_works(context, &parts);
    }
    loop {
        let sleep = match only {
            Some(_) => {
                parts.projects.known.borrow_mut().clear();
                let began = clock::monotonic();
                let pulse = parts.engine().pulse(clock::now())?;
                open_windows(context, &pulse);
                waker.watch_signals(&pulse.watched);
                say_notices(context, &pulse);
                sleep_after(&pulse, clock::monotonic().duration_since(began))
            }
            None => LONGEST_SLEEP,
        };
        if is_enough(&parts.store)? {
            return Ok(Drove::Enough);
        }
        if waker.wait(sleep) == WakeReason::Stop {
            return Ok(Drove::Stopped);
        }
    }
}

/// What follows from what has happened, for a workflow that somebody drives by hand: no `up` need
/// be at work for it, and no agent is started.
pub(super) fn follow_up(context: &Context) -> Result<(), Failure> {
    Parts::of(&context.config)?.engine().follow_up(clock::now())?;
    Ok(())
}

/// The same until it is said to be enough, which the first turn may be.
pub(super) fn follow_up_until(
    context: &Context,
    mut is_enough: impl FnMut(&Store) -> Result<bool, Failure>,
) -> Result<Drove, Failure> {
    let parts = Parts::of(&context.config)?;
    let mut waker = None;
    loop {
        parts.engine().follow_up(clock::now())?;
        if is_enough(&parts.store)? {
            return Ok(Drove::Enough);
        }
        // What happens between a turn and the first bell is found by the turn after it.
        let Some(waker) = &waker else {
            waker = Some(Waker::hang(&parts.store, &parts.site.ended_folder())?);
            continue;
        };
        if waker.wait(LONGEST_SLEEP_OF_ONE_WHO_WAITS) == WakeReason::Stop {
            return Ok(Drove::Stopped);
        }
    }
}

fn say_notices(context: &Context, pulse: &TurnReport) {
    for notice in &pulse.notices {
        context.out.say(&shown(&notice.text));
    }
}

/// A window that cannot be opened is a pity and nothing more.
fn open_windows(context: &Context, pulse: &TurnReport) {
    let Some(screen) = wanted_screen(context.config.windows) else { return };
    for (job, _) in &pulse.started {
        let opened = match job {
            JobId::Run(run) => open_window(&context.config, screen, *run),
            JobId::Activity { .. } | JobId::CleanUp { .. } | JobId::Look { .. } => Ok(()),
        };
        if let Err(failure) = opened {
            context.out.say(&format!("no window for {job}: {}", shown(&failure.to_string())));
        }
    }
    for step in &pulse.manual_steps {
        let command = ["sh", "-c", step.command.as_str()].map(str::to_owned);
        let env = window::environment();
        let opened =
            window::open(screen, &mut PlainRunner, &step.name, &command, &step.folder, &env);
        if let Err(error) = opened {
            context.out.say(&format!("no window for {}: {error}", step.name));
        }
    }
}

/// How long there is nothing to do after a turn that took so long. The times of a turn are by the
/// store's clock, and the clock of this machine may be minutes ahead: measured by it, everything
/// would be overdue and no sleep long enough.
fn sleep_after(pulse: &TurnReport, took: Duration) -> Duration {
    let Some(next) = pulse.next else { return LONGEST_SLEEP };
    let millis = u64::try_from(next.since(pulse.at).0).unwrap_or(u64::MAX);
    let left = Duration::from_millis(millis).saturating_sub(took);
    left.clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
}

/// Two of them on one folder of runs would be one too many.
fn only_one(home: &Path) -> Result<File, Failure> {
    let path = home.join("up.lock");
    let failed = |source| Failure::File { operation: "lock", path: path.clone(), source };
    fs::create_dir_all(home).map_err(failed)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    // One that was just killed holds its lock until the system has cleared it away.
    match lock_within(&file, LOCK_TRIES, BETWEEN_LOCK_TRIES) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(failed)?;
            return Err(Failure::AlreadyUp { pid: pid.trim().to_owned() });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn welcome(context: &Context, parts: &Parts) {
    let terms = &parts.terms;
    let names: Vec<&str> = terms.workers.iter().map(|setup| setup.worker.name.as_str()).collect();
    let workers = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let at_once = terms.agents.limits.agents;
    context.out.say(&format!(
        "up on {} with {at_once} agents at once; workers: {workers}; Ctrl-C ends it and leaves agents at work",
        shown(&terms.agents.node)
    ));
    say_if_nobody_works(context, parts);
}

/// Without a word of it, somebody who has no agent yet would wait for nothing to happen.
fn say_if_nobody_works(context: &Context, parts: &Parts) {
    if parts.terms.workers.is_empty() {
        context.out.say("no agent was found on the PATH; see `banksman help workers`");
    }
}

fn farewell(context: &Context, parts: &Parts) -> Result<Exit, Failure> {
    let runs = parts.store.open_runs(Some(&parts.terms.agents.node))?;
    context.out.say(&match runs.len() {
        0 => "stopped; no agent was at work".to_owned(),
        1 => "stopped; 1 agent goes on by itself (`banksman down --agents` ends it)".to_owned(),
        more => {
            format!(
                "stopped; {more} agents go on by themselves (`banksman down --agents` ends them)"
            )
        }
    });
    Ok(Exit::Done)
}

fn show(context: &Context, pulse: &TurnReport, now: Instant) -> Result<(), Failure> {
    let idle = pulse.ended.is_empty()
        && pulse.started.is_empty()
        && pulse.recovered.is_empty()
        && pulse.notices.is_empty();
    if idle {
        return Ok(());
    }
    if context.out.json {
        return context.out.text(&format!("{}\n", json_line(&document(pulse))));
    }
    context.out.text(&lines(pulse, now))
}

fn document(pulse: &TurnReport) -> serde_json::Value {
    let job =
        |(job, what): &(JobId, String), name: &str| json!({ "job": job.to_string(), name: what });
    json!({
        "started": pulse.started.iter().map(|it| job(it, "title")).collect::<Vec<_>>(),
        "ended": pulse.ended.iter().map(|it| job(it, "outcome")).collect::<Vec<_>>(),
        "recovered": pulse.recovered.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "timers": pulse.timers,
        "effects": pulse.effects,
        "notices": pulse.notices.iter().map(|notice| json!({
            "task": notice.task.map(|task| task.to_string()),
            "urgent": notice.urgent,
            "text": notice.text,
        })).collect::<Vec<_>>(),
        "next": pulse.next,
    })
}

/// In the order of a turn: what has ended comes first, and what that has made room for is started
/// last.
fn lines(pulse: &TurnReport, now: Instant) -> String {
    let at = local_time(now);
    let mut text = String::new();
    for (job, outcome) in &pulse.ended {
        text.push_str(&format!("{at} ended     {job}  {}\n", shown(outcome)));
    }
    for job in &pulse.recovered {
        text.push_str(&format!("{at} recovered {job}\n"));
    }
    for notice in &pulse.notices {
        let word = if notice.urgent { "alert    " } else { "notice   " };
        let said = notice.text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("{at} {word} {}\n", shown(&said)));
    }
    for (job, title) in &pulse.started {
        text.push_str(&format!("{at} started   {job}  {}\n", shown(title)));
    }
    text
}

/// Prints the new expiry, or `lost`, which the keeper obeys. Every other end is a fault that may
/// pass.
pub(super) fn renew(context: &Context, args: &RenewArgs) -> Result<Exit, Failure> {
    let store = context.store()?;
    let answer = match store.renew(args.run, args.ttl, args.progressed, context.now) {
        Ok(expires_at) => expires_at.to_string(),
        Err(StoreError::Rejected(rejected)) if rejected.why == RejectReason::StaleLease => {
            LOST.to_owned()
        }
        Err(error) => return Err(error.into()),
    };
    context.out.text(&format!("{answer}\n"))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_one_line() {
        let text = "its policy cannot be used:\n --> policy.yaml:2:1\n  |".to_owned();
        let notice = Notice { task: None, urgent: true, text };
        let told =
            lines(&TurnReport { notices: vec![notice], ..TurnReport::default() }, Instant(0));
        let end = "alert     its policy cannot be used: --> policy.yaml:2:1 |\n";
        assert!(told.ends_with(end), "{told}");
    }

    /// Whatever the clock of this machine shows: it is not asked.
    #[test]
    fn a_sleep_is_measured_by_the_clock_that_named_its_end() {
        let at = Instant(1_000_000);
        let after = |next: Option<i64>, took: u64| {
            let next = next.map(|millis| at.plus(Span(millis)));
            let pulse = TurnReport { at, next, ..TurnReport::default() };
            sleep_after(&pulse, Duration::from_millis(took))
        };
        assert_eq!(after(Some(10_000), 400), Duration::from_millis(9_600));
        assert_eq!(after(Some(50), 400), SHORTEST_SLEEP);
        assert_eq!(after(Some(240_000), 0), LONGEST_SLEEP);
        assert_eq!(after(None, 0), LONGEST_SLEEP);
    }
}
