//! `banksman up`, `pulse` and `renew`: the only place where the command line combines store, site
//! and engine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Moment};

use banksman_core::failure::RetryPolicy;
use banksman_core::ids::{RunId, TaskId};
use banksman_core::limits::LONGEST_SLEEP;
use banksman_core::machine::RejectReason;
use banksman_core::time::{Instant, Span};
use clap::Args;

use super::arguments::ActorArgs;
use super::output::{json_line, sanitize};
use super::prompts::origin;
use super::symbols::{counted, local_time};
use super::{Context, Exit, Failure, Result, hints, report};
use crate::api::changes as dto;
use crate::api::prompt::{Cut, RenderedPrompt};
use crate::api::run::{EndedJob, StartedJob, TurnDocument, names};
use crate::clock;
use crate::config::home::{Home, OWNER};
use crate::config::{self, Config, ConfigError, EnvVars, Environment, Flags, PolicyFile};
use crate::engine::wake::{WakeError, WakeReason, Waker};
use crate::engine::{
    Engine, EngineConfig, EngineError, PreviewRequest, Project, Projects, PromptPreview, TurnReport,
};
use crate::exec::job::{JobId, LOST};
use crate::exec::lock::lock_within;
use crate::exec::process::PlainRunner;
use crate::exec::repo;
use crate::exec::site::LocalSite;
use crate::exec::window;
use crate::ops::daily::note::DailyNote;
use crate::ops::error_report::{Code, ErrorReport, Hint};
use crate::ops::runs::{open_window, window_host};
use crate::ops::shutdown::up_lock;
use crate::ops::{OpsError, Session};
use crate::store::notices::{Channel, Notice};
use crate::store::{Store, StoreError};

const MAX_SLEEP: Duration = Duration::from_millis(LONGEST_SLEEP.0.unsigned_abs());
/// The sleep after a turn that took longer than the time until the next one.
const MIN_SLEEP: Duration = Duration::from_millis(1);
/// The longest sleep while keepers from an earlier `up` or `pulse` are running: their death
/// triggers no event.
const MAX_SLEEP_WITH_OTHER_KEEPERS: Duration = Duration::from_secs(5);
/// The longest sleep while a person waits at the terminal.
const MAX_SLEEP_INTERACTIVE: Duration = Duration::from_secs(1);
/// How often leftover worktrees are removed.
const SWEEP_INTERVAL: Span = Span(60 * 60_000);
/// How long a start waits for an `up` that is exiting: one second.
const LOCK_TRIES: u32 = 20;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The sleep after a failed turn, for example because the store cannot be reached.
const FAILURE_DELAY: Duration = Duration::from_secs(5);

/// Run agents on the tasks of the store until you stop it
///
/// Starts agents for ready tasks, supervises them, and sleeps until something happens. When you
/// stop it, running agents continue, and the next `up` or `pulse` collects their results.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman up
  banksman up --json | jq .
")]
pub(super) struct UpArgs {}

/// Do one turn of `up` and exit
///
/// For cron: agents that it starts continue on their own, and a later pulse collects their results.
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
    run: RunId,
    /// The new duration of the lease
    #[arg(long, value_name = "SPAN")]
    ttl: Span,
    /// The run has made progress since the last renewal
    #[arg(long)]
    progressed: bool,
}

/// Everything that an engine needs.
pub(super) struct Runtime {
    pub(super) store: Store,
    pub(super) site: LocalSite,
    projects: ProjectsOnDisk,
    pub(super) engine_config: EngineConfig,
}

impl Runtime {
    pub(super) fn of(config: &Config, store: Store) -> Result<Self> {
        let agents = config.agents.clone();
        if let Some(id) = store.id()? {
            claim_home(&agents.home, &id)?;
        }
        let program = env::current_exe().map_err(Failure::Program)?;
        let path = Environment::passed(&["PATH".to_owned()]).remove("PATH").unwrap_or_default();
        let workers = agents.workers_or_found(&path);
        // Keepers renew their leases in the same store, wherever its address came from. The address
        // may hold a password, so it must not be in their arguments.
        let address = config.store.clone().unwrap_or_default();
        let site = LocalSite::open(&agents.home, &program).map_err(OpsError::from)?;
        let site = site.with_env(EnvVars::STORE, &address);
        let environment = Environment::of_process()?;
        let (known, policies) = (RefCell::default(), RefCell::default());
        let projects = ProjectsOnDisk { store: store.clone(), environment, known, policies };
        let policy = RetryPolicy::default();
        let (secret, awake) = (clock::secret, clock::awake);
        let engine_config = EngineConfig { agents, workers, program, policy, secret, awake };
        Ok(Self { store, site, projects, engine_config })
    }

    pub(super) fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.site, &self.projects, &self.engine_config)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Site(error) => Self::Ops(error.into()),
            EngineError::Mailbox(_) => ErrorReport::new(Code::File, Hint::CheckHome, &error).into(),
            EngineError::Project { .. }
            | EngineError::Unread { .. }
            | EngineError::BuiltIn { .. } => {
                let hint = Hint::from("fix its .banksman/config.toml");
                ErrorReport::new(Code::Settings, hint, &error).into()
            }
        }
    }
}

impl From<WakeError> for Failure {
    fn from(error: WakeError) -> Self {
        ErrorReport::new(Code::File, Hint::CheckHome, &error).into()
    }
}

/// Projects with the settings of their folders, read when a project is first needed in a turn.
struct ProjectsOnDisk {
    store: Store,
    environment: Environment,
    known: RefCell<BTreeMap<String, Option<Project>>>,
    /// By project, so that a policy is parsed only when its file has changed.
    policies: RefCell<BTreeMap<String, PolicyFile>>,
}

impl ProjectsOnDisk {
    fn load(&self, name: &str) -> Result<Option<Project>, EngineError> {
        let Some(path) = self.store.project(name)? else { return Ok(None) };
        let path = PathBuf::from(path);
        if !path.join(".git").exists() {
            return Ok(None);
        }
        let config = config::resolve(&Flags::new(), &self.environment, &path).map_err(|error| {
            let is_unread = matches!(error, ConfigError::Read { .. });
            let (project, message) = (name.to_owned(), Failure::from(error).problem().one_line());
            match is_unread {
                true => EngineError::Unread { project, message },
                false => EngineError::Project { project, message },
            }
        })?;
        let mut agents = config.agents;
        let mut policies = self.policies.borrow_mut();
        if let Some(earlier) = policies.get(name) {
            agents.policy.reuse(earlier);
        }
        policies.insert(name.to_owned(), agents.policy.clone());
        let base = agents.worktrees.base.clone().or_else(|| repo::base_branch(&path));
        let remote = repo::remote(&path);
        Ok(base.map(|base| Project { path, base, remote, agents }))
    }
}

impl Projects for ProjectsOnDisk {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(known.clone());
        }
        let found = self.load(name)?;
        self.known.borrow_mut().insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

pub(super) fn pulse(context: &Context, _: &PulseArgs) -> Result<Exit> {
    let session = context.session_or_new(&ActorArgs::default())?;
    let runtime = Runtime::of(&context.config, session.engine_store()?)?;
    let note = DailyNote::of(&context.config, &session)?;
    let (pulse, notices) = turn(&runtime, note.as_ref(), context.now)?;
    open_windows(context, &runtime, &pulse);
    // What follows the answer must not fail, or there would be two documents.
    runtime.engine().sweep(pulse.at)?;
    let printed =
        context.out.answer(|| document(&pulse, &notices), || lines(&pulse, &notices, context.now));
    delivered(context, &runtime.store, &notices, printed)
}

pub(super) fn up(context: &Context, _: &UpArgs) -> Result<Exit> {
    let session = context.session_or_new(&ActorArgs::default())?;
    let runtime = Runtime::of(&context.config, session.engine_store()?)?;
    let _only = lock_home(&runtime.engine_config.agents.home)?;
    print_start(context, &runtime);
    let note = DailyNote::of(&context.config, &session)?.map(DailyNote::throttled);
    let mut swept = Instant(0);
    let failed = |failure: &Failure| match context.out.json {
        true => {
            context.out.text(&format!("{}\n", json_line(&report::document(&failure.problem()))))
        }
        false => Ok(warn_of(context, failure)),
    };
    take_turns(&runtime, failed, |waker| {
        let (now, began) = (clock::now(), clock::monotonic());
        let (pulse, notices) = turn(&runtime, note.as_ref(), now)?;
        open_windows(context, &runtime, &pulse);
        waker.watch_signals(&pulse.watched);
        let printed = show(context, &pulse, &notices, now);
        delivered(context, &runtime.store, &notices, printed)?;
        if now.since(swept) > SWEEP_INTERVAL {
            swept = now;
            runtime.engine().sweep(now)?;
        }
        Ok(Some(sleep_after(&runtime, &pulse, began)))
    })?;
    print_stop(context, &runtime)
}

/// Takes turns until one is the last, which returns no time to sleep, or until a signal asks to
/// stop. A turn that fails is reported and repeated: the store may be back in a moment. Only output
/// that nobody can read ends the turns. Returns why they ended.
pub(super) fn take_turns(
    runtime: &Runtime,
    failed: impl Fn(&Failure) -> Result<Exit>,
    mut turn: impl FnMut(&mut Waker) -> Result<Option<Duration>>,
) -> Result<WakeReason> {
    let mut waker = Waker::new(&runtime.store, &runtime.site.ended_folder())?;
    loop {
        runtime.projects.known.borrow_mut().clear();
        let woken = match turn(&mut waker) {
            Ok(Some(sleep)) => waker.wait(sleep),
            Ok(None) => return Ok(WakeReason::Look),
            Err(failure @ Failure::Output(_)) => return Err(failure),
            Err(failure) => failed(&failure).map(|_| waker.rest(FAILURE_DELAY))?,
        };
        if woken == WakeReason::Stop {
            return Ok(WakeReason::Stop);
        }
    }
}

/// A failed turn in one line, with its cause, its code and its hint.
pub(super) fn warn_of(context: &Context, failure: &Failure) -> Exit {
    let problem = failure.problem();
    let hint = problem.hint.as_ref().map(|hint| format!("; {}", hints::phrase(hint)));
    let (at, code) = (local_time(clock::now()), problem.code.as_str());
    let hint = hint.unwrap_or_default();
    context.out.warn(&format!("{at} {} ({code}){hint}", problem.one_line()));
    Exit::Failed
}

/// A turn with the daily note before and after it, and the notices that are to be printed now.
fn turn(
    runtime: &Runtime,
    note: Option<&DailyNote>,
    now: Instant,
) -> Result<(TurnReport, Vec<Notice>)> {
    let store = &runtime.store;
    // Before the turn, so that the turn carries them out.
    let before = note.map(|note| note.update(now)).transpose()?.flatten();
    let mut pulse = runtime.engine().pulse(now)?;
    let mut notices = store.take_notices(Channel::Terminal, pulse.at)?;
    let Some(note) = note else { return Ok((pulse, notices)) };
    let is_idle = is_quiet(&pulse, &notices) && pulse.timers + pulse.effects == 0;
    let after = if is_idle { None } else { note.update(now)? };
    pulse.watched.push(note.folder().to_owned());
    let again = before.into_iter().chain(after).map(|span| pulse.at.plus(span));
    pulse.next = pulse.next.into_iter().chain(again).min();
    notices.extend(store.take_notices(Channel::Terminal, pulse.at)?);
    Ok((pulse, notices))
}

/// Whether a turn has nothing to tell.
fn is_quiet(pulse: &TurnReport, notices: &[Notice]) -> bool {
    pulse.ended.is_empty()
        && pulse.started.is_empty()
        && pulse.recovered.is_empty()
        && notices.is_empty()
}

/// Records that notices were printed, or why not. What is not recorded is printed again.
fn delivered(
    context: &Context,
    store: &Store,
    notices: &[Notice],
    printed: Result<Exit>,
) -> Result<Exit> {
    if !notices.is_empty() {
        let sent = printed.as_ref().map(|_| ()).map_err(ToString::to_string);
        if let Err(error) = store.notices_sent(Channel::Terminal, notices, sent) {
            warn_of(context, &error.into());
        }
    }
    printed
}

/// Works as `up` does until `is_enough` holds or a signal stops it. If an `up` is already running,
/// it only watches.
pub(super) fn drive(
    context: &Context,
    session: &Session,
    mut is_enough: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let runtime = Runtime::of(&context.config, session.engine_store()?)?;
    let only = match lock_home(&runtime.engine_config.agents.home) {
        Ok(lock) => Some(lock),
        Err(Failure::AlreadyUp { .. }) => None,
        Err(failure) => return Err(failure),
    };
    if only.is_some() {
        warn_without_workers(context, &runtime);
    }
    let failed = |failure: &Failure| Ok(warn_of(context, failure));
    let end = take_turns(&runtime, failed, |waker| {
        let mut sleep = MAX_SLEEP;
        if only.is_some() {
            let began = clock::monotonic();
            let pulse = runtime.engine().pulse(clock::now())?;
            open_windows(context, &runtime, &pulse);
            waker.watch_signals(&pulse.watched);
            say_notices(context, &runtime.store, pulse.at)?;
            sleep = sleep_after(&runtime, &pulse, began);
        }
        Ok((!is_enough()?).then_some(sleep))
    })?;
    if end == WakeReason::Stop {
        let how = "`banksman up` resumes the workflow";
        context.out.say(&format!("stopped; running agents continue, and {how}"));
    }
    Ok(())
}

/// Carries out what follows from past events of a manual workflow, without a running `up`. It
/// starts no agent.
pub(super) fn follow_up(context: &Context, session: &Session) -> Result<()> {
    let runtime = Runtime::of(&context.config, session.follow_up_store()?)?;
    Ok(runtime.engine().follow_up(clock::now()).map(drop)?)
}

/// The same until `is_enough` holds or a signal stops it.
pub(super) fn follow_up_until(
    context: &Context,
    session: &Session,
    mut is_enough: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let runtime = Runtime::of(&context.config, session.follow_up_store()?)?;
    let waker = Waker::new(&runtime.store, &runtime.site.ended_folder())?;
    loop {
        runtime.engine().follow_up(clock::now())?;
        if is_enough()? || waker.wait(MAX_SLEEP_INTERACTIVE) == WakeReason::Stop {
            return Ok(());
        }
    }
}

/// The prompt that an agent would get for a task now.
pub(super) fn preview(
    context: &Context,
    task: TaskId,
    role: Option<String>,
    worker: Option<String>,
) -> Result<RenderedPrompt> {
    let runtime = Runtime::of(&context.config, context.session()?.engine_store()?)?;
    let now = runtime.store.now(context.now)?;
    let wish = PreviewRequest { role, worker };
    let rendered = runtime.engine().render(task, &wish, now)?;
    let is_of = |name: &str| runtime.engine_config.workers.iter().any(|it| it.worker.name == name);
    let hint = match wish.worker.as_deref().filter(|name| !is_of(name)) {
        Some(_) => Hint::from("`banksman workers` lists the workers"),
        None => Hint::Why(task),
    };
    let shown = rendered.map_err(|message| OpsError::input(message, hint))?;
    let PromptPreview { prompt, schema, state, role, worker, open } = shown;
    let bytes = prompt.text.len();
    let cut = prompt.cuts.iter().map(Cut::new).collect();
    let (origin, template) = (origin(context, prompt.file.as_deref()), prompt.template);
    let text = prompt.text;
    Ok(RenderedPrompt { bytes, cut, open, origin, role, schema, state, template, text, worker })
}

/// Where nobody would see them they stay for the next `up`.
fn say_notices(context: &Context, store: &Store, now: Instant) -> Result<()> {
    if context.out.json || context.out.quiet {
        return Ok(());
    }
    let notices = store.take_notices(Channel::Terminal, now)?;
    for notice in &notices {
        context.out.say(&sanitize(&hints::notice(notice)));
    }
    delivered(context, store, &notices, Ok(Exit::Done)).map(drop)
}

/// A window that cannot be opened is reported and otherwise ignored.
fn open_windows(context: &Context, runtime: &Runtime, pulse: &TurnReport) {
    let program = &runtime.engine_config.program;
    let Some(host) = window_host(context.config.windows) else { return };
    let failed = |of: &dyn Display, error: &dyn Display| {
        let error = sanitize(&error.to_string());
        context.out.say(&format!("failed to open a window for {of}: {error}"));
    };
    for (job, _) in &pulse.started {
        if let JobId::Run(run) = job
            && let Err(error) = open_window(&context.config, program, host, *run)
        {
            failed(job, &error);
        }
    }
    for step in &pulse.manual_steps {
        let command = ["sh", "-c", step.command.as_str()].map(str::to_owned);
        let mut runner = PlainRunner { env: window::environment() };
        if let Err(error) = window::open(host, &mut runner, &step.name, &command, &step.folder) {
            failed(&step.name, &error);
        }
    }
}

/// How long to sleep after a turn. The death of another's keeper wakes nobody.
pub(super) fn sleep_after(runtime: &Runtime, pulse: &TurnReport, began: Moment) -> Duration {
    // The next turn reports a folder that cannot be read.
    let others = runtime.site.has_others_keepers().unwrap_or(true);
    let longest = if others { MAX_SLEEP_WITH_OTHER_KEEPERS } else { MAX_SLEEP };
    left_of(pulse, clock::monotonic().duration_since(began)).min(longest)
}

/// How much is left until the next work after a turn that took `took`. The times of a turn come
/// from the store's clock. This machine's clock may be minutes ahead; measured by it, everything
/// would be overdue.
fn left_of(pulse: &TurnReport, took: Duration) -> Duration {
    let Some(next) = pulse.next else { return MAX_SLEEP };
    let millis = u64::try_from(next.since(pulse.at).0).unwrap_or(u64::MAX);
    let left = Duration::from_millis(millis).saturating_sub(took);
    left.clamp(MIN_SLEEP, MAX_SLEEP)
}

/// Locks the home folder: two `up` on one home would conflict.
/// The first store that works in a folder has the folder itself.
fn claim_home(home: &Home, store: &str) -> Result<()> {
    let path = home.given().join(OWNER);
    let failed = Failure::file("write", &path);
    if !path.try_exists().map_err(failed)? {
        fs::create_dir_all(home.given()).map_err(failed)?;
        // The file is there as a whole or not at all, whoever else is writing it.
        let draft = path.with_extension(std::process::id().to_string());
        fs::write(&draft, store).map_err(failed)?;
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft).map_err(failed)?;
        if let Err(error) = linked
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(error));
        }
    }
    home.settle(store).map_err(failed)
}

fn lock_home(home: &Path) -> Result<File> {
    let path = up_lock(home);
    let failed = Failure::file("lock", &path);
    fs::create_dir_all(home).map_err(failed)?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    // An `up` that was just killed holds its lock until the system has cleaned up.
    match lock_within(&file, LOCK_TRIES, LOCK_RETRY_DELAY) {
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

fn print_start(context: &Context, runtime: &Runtime) {
    let engine_config = &runtime.engine_config;
    let names: Vec<&str> =
        engine_config.workers.iter().map(|setup| setup.worker.name.as_str()).collect();
    let workers = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let at_once = engine_config.agents.limits.agents;
    context.out.say(&format!(
        "up on {} with at most {at_once} agents; workers: {workers}; Ctrl-C stops it, running agents continue",
        sanitize(&engine_config.agents.node)
    ));
    warn_without_workers(context, runtime);
}

/// Without this message, a user without agents would wait for nothing.
fn warn_without_workers(context: &Context, runtime: &Runtime) {
    if runtime.engine_config.workers.is_empty() {
        let how = "install one, or set one up as [workers.NAME]: see docs/running-agents.md";
        context.out.say(&format!("no agent found on the PATH; {how}"));
    }
}

fn print_stop(context: &Context, runtime: &Runtime) -> Result<Exit> {
    let runs = runtime.store.open_runs(Some(&runtime.engine_config.agents.node))?;
    context.out.say(&match runs.len() {
        0 => "stopped; no agent was running".to_owned(),
        more => format!(
            "stopped; {} left alone (`banksman down --agents` stops all)",
            counted(more, "running agent")
        ),
    });
    Ok(Exit::Done)
}

fn show(context: &Context, pulse: &TurnReport, notices: &[Notice], now: Instant) -> Result<Exit> {
    if is_quiet(pulse, notices) {
        return Ok(Exit::Done);
    }
    if context.out.json {
        return context.out.text(&format!("{}\n", json_line(&document(pulse, notices))));
    }
    context.out.text(&lines(pulse, notices, now))
}

fn document<'a>(pulse: &'a TurnReport, notices: &'a [Notice]) -> TurnDocument<'a> {
    TurnDocument {
        effects: pulse.effects,
        ended: pulse.ended.iter().map(EndedJob::new).collect(),
        next: pulse.next,
        notices: notices.iter().map(dto::Notice::new).collect(),
        recovered: names(&pulse.recovered),
        started: pulse.started.iter().map(StartedJob::new).collect(),
        timers: pulse.timers,
    }
}

/// In the order of a turn: ended runs first, and the runs started in their place last.
fn lines(pulse: &TurnReport, notices: &[Notice], now: Instant) -> String {
    let at = local_time(now);
    let mut text = String::new();
    for (job, outcome) in &pulse.ended {
        text.push_str(&format!("{at} ended     {job}  {}\n", sanitize(outcome)));
    }
    for job in &pulse.recovered {
        text.push_str(&format!("{at} recovered {job}\n"));
    }
    for notice in notices {
        let word = if notice.urgent { "alert    " } else { "notice   " };
        let said = hints::notice(notice);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("{at} {word} {}\n", sanitize(&said)));
    }
    for (job, title) in &pulse.started {
        text.push_str(&format!("{at} started   {job}  {}\n", sanitize(title)));
    }
    text
}

/// Prints the new expiry, or `lost`, on which the keeper stops. Every other failure may be
/// temporary.
pub(super) fn renew(context: &Context, args: &RenewArgs) -> Result<Exit> {
    let session = context.session()?;
    let answer = match session.renew(args.run, args.ttl, args.progressed, context.now) {
        Ok(expires_at) => expires_at.to_string(),
        Err(OpsError::Store(StoreError::Rejected(rejected)))
            if rejected.why == RejectReason::StaleLease =>
        {
            LOST.to_owned()
        }
        Err(error) => return Err(error.into()),
    };
    context.out.text(&format!("{answer}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::notices::NoticeKind;

    #[test]
    fn a_notice_is_one_line() {
        let text = "its policy cannot be used:\n --> policy.yaml:2:1\n  |".to_owned();
        let kind = NoticeKind::Fault;
        let notice = Notice { id: 1, kind, task: None, decision: None, urgent: true, text };
        let told = lines(&TurnReport::default(), &[notice], Instant(0));
        let end = "alert     its policy cannot be used: --> policy.yaml:2:1 |\n";
        assert!(told.ends_with(end), "{told}");
    }

    /// The clock of this machine is not used.
    #[test]
    fn a_sleep_is_measured_by_the_stores_clock() {
        let at = Instant(1_000_000);
        let after = |next: Option<i64>, took: u64| {
            let next = next.map(|millis| at.plus(Span(millis)));
            let pulse = TurnReport { at, next, ..TurnReport::default() };
            left_of(&pulse, Duration::from_millis(took))
        };
        assert_eq!(after(Some(10_000), 400), Duration::from_millis(9_600));
        assert_eq!(after(Some(50), 400), MIN_SLEEP);
        assert_eq!(after(Some(240_000), 0), MAX_SLEEP);
        assert_eq!(after(None, 0), MAX_SLEEP);
    }
}
