//! `banksman demo`: runs eight tasks with scripted agents in real worktrees, without keys or
//! network, in under a minute.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Field;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use banksman_core::failure::RetryPolicy;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine::{Actor, NewTask};
use banksman_core::time::{Instant, Span};
use clap::Args;

use super::arguments::ActorArgs;
use super::output::{cells, sanitize, table};
use super::symbols::state_cell;
use super::up::{Runtime, sleep_after, take_turns, warn_of};
use super::{Context, Exit, Failure, Result, report};
use crate::api::project::Demo;
use crate::clock;
use crate::config::{self, Environment, Flags};
use crate::engine::wake::WakeReason;
use crate::exec::git::{self, Git};
use crate::exec::process::PlainRunner;
use crate::ops::Session;
use crate::ops::error_report::Code;
use crate::ops::library::Library;
use crate::ops::projects;
use crate::ops::tasks::{self, AddRequest};
use crate::store::Stored;
use crate::store::runs::PastRun;

/// Watch scripted agents work through eight tasks, without keys or network
///
/// Creates a scratch repository with failing tests, runs scripted agents on it in real worktrees,
/// and merges the work that its checks verified. One agent crashes, one runs out of quota, one
/// falsely claims to be done, one writes outside its paths, and one needs you.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman demo
  banksman demo --folder /tmp/my-demo
")]
pub(super) struct DemoArgs {
    /// The new folder to create [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

const LIFECYCLE: &str = include_str!("../../demo/lifecycle.yaml");
const AGENT: &str = include_str!("../../demo/agent.sh");
const TESTS: &str = include_str!("../../demo/run.sh");

/// Commands to try next, in the repository's folder.
const NEXT_COMMANDS: [(&str, &str); 6] = [
    ("git log --oneline --graph main", "the merged work"),
    ("banksman log t5", "the agent that claimed to be done, and its second attempt"),
    ("banksman history t4", "the quota pause, and how the task resumed"),
    ("banksman show t6", "the write outside its paths, and the retry"),
    ("banksman why t7", "what the task needs from you"),
    ("banksman unblock t7 MIT", "answer it; then run `banksman up` until it is merged"),
];

/// After this time the demo prints the current state and ends.
const TIME_LIMIT: Span = Span(55_000);

/// A task of the demo: its function, its title, and the tasks it depends on.
struct DemoTask {
    name: &'static str,
    title: &'static str,
    after: &'static [i64],
    path: &'static str,
}

const TASKS: [DemoTask; 8] = [
    DemoTask { name: "sum", title: "Add up numbers", after: &[], path: "lib/sum.sh" },
    DemoTask { name: "max", title: "Find the largest number", after: &[1], path: "lib/max.sh" },
    DemoTask { name: "reverse", title: "Reverse a word", after: &[], path: "lib/reverse.sh" },
    DemoTask { name: "words", title: "Count words", after: &[], path: "lib/words.sh" },
    DemoTask { name: "trim", title: "Trim blanks", after: &[], path: "lib/trim.sh" },
    DemoTask { name: "upper", title: "Write in capitals", after: &[1], path: "lib/upper.sh" },
    DemoTask { name: "licence", title: "Choose a licence", after: &[], path: "LICENCE" },
    DemoTask {
        name: "manual",
        title: "Write the manual",
        after: &[2, 3, 4, 5, 6],
        path: "MANUAL.md",
    },
];

pub(super) fn run(context: &Context, args: &DemoArgs) -> Result<Exit> {
    let folder = new_folder(args.folder.as_deref())?;
    let repo = create_files(&folder)?;
    let (session, runtime) = runtime(context, &folder, &repo)?;
    add_tasks(&session, &repo)?;
    context
        .out
        .say(&format!("created a scratch repository with failing tests: {}", repo.display()));
    context.out.say("eight tasks, four agents at once, each in its own worktree\n");
    let began = clock::now();
    let mut log = ProgressLog { began, printed: [0; TASKS.len()] };
    let failed = |failure: &Failure| Ok(warn_of(context, failure));
    let end = take_turns(&runtime, failed, |_| {
        if clock::now().since(began) > TIME_LIMIT {
            return Ok(None);
        }
        let start = clock::monotonic();
        let pulse = runtime.engine().pulse(clock::now())?;
        log.print_new(context, &session)?;
        let sleep = sleep_after(&runtime, &pulse, start).min(Duration::from_secs(1));
        Ok((!is_over(&session)?).then_some(sleep))
    })?;
    if end == WakeReason::Stop {
        context.out.say("stopped; running agents continue");
    }
    let took = clock::now().since(began);
    let tasks = demo_tasks(&session)?;
    let text = summary(&tasks, &session, &folder, &repo, took)?;
    let done = done_count(&tasks);
    let failed = format!("only {done} of {} tasks were merged", TASKS.len());
    let failed = (done < TASKS.len() - 1).then_some(failed).into_iter().collect();
    let document = || Demo::new(&tasks, &folder, &repo, took);
    report::answer(&context.out, Code::Incomplete, failed, document, || text)
}

/// Creates a new folder, so that nothing of the user is overwritten.
fn new_folder(wanted: Option<&Path>) -> Result<PathBuf> {
    let named = || std::env::temp_dir().join(format!("banksman-demo-{:x}", clock::nonce()));
    let folder = wanted.map_or_else(named, Path::to_owned);
    let failed = Failure::file("create", &folder);
    fs::create_dir_all(folder.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    fs::create_dir(&folder).and_then(|()| fs::canonicalize(&folder)).map_err(failed)
}

/// Writes the repository, its lifecycle and the scripted agent.
fn create_files(folder: &Path) -> Result<PathBuf> {
    let repo = folder.join("library");
    let config = format!(
        "lifecycle = \"demo\"\nstore = {:?}\n\n{}{}",
        folder.join("banksman.db").display().to_string(),
        worker("ada", "north", folder),
        worker("bo", "south", folder),
    );
    let files = [
        (folder.join("agent.sh"), AGENT),
        (repo.join("tests/run.sh"), TESTS),
        (repo.join("lib/.keep"), ""),
        (repo.join(".banksman/lifecycles/demo.yaml"), LIFECYCLE),
        (repo.join(".banksman/config.toml"), &config),
    ];
    fs::create_dir_all(folder.join("attempts")).map_err(Failure::file("create", folder))?;
    for (path, text) in files {
        let created = fs::create_dir_all(path.parent().unwrap_or(folder));
        created.and_then(|()| fs::write(&path, text)).map_err(Failure::file("create", &path))?;
    }
    let env = Environment::passed(&["PATH".to_owned(), "HOME".to_owned()]);
    let created = Git::at(&mut PlainRunner { env }, &repo)
        .create_repository("The library and tests that fail");
    created.map_err(|error| {
        Failure::input(
            format!("failed to create a git repository: {error}"),
            format!("the demo needs git {} or newer on the PATH", git::OLDEST),
        )
    })?;
    Ok(repo)
}

/// Two accounts, so that one can run out of quota while the other continues.
fn worker(name: &str, account: &str, folder: &Path) -> String {
    let (script, folder) = (folder.join("agent.sh"), folder.display());
    let script = script.display().to_string();
    format!(
        "[workers.{name}]\nagent = \"command\"\ncommand = [\"sh\", {script:?}, {:?}]\n\
         account = \"{account}\"\nmax_concurrent = 2\n\n",
        folder.to_string()
    )
}

fn runtime(context: &Context, folder: &Path, repo: &Path) -> Result<(Session, Runtime)> {
    let environment = Environment::of_process()?;
    let store = folder.join("banksman.db").display().to_string();
    let flags = Flags::from([("store", store)]);
    let config = config::resolve(&flags, &environment, repo)?;
    let own = Context {
        config,
        out: context.out,
        now: context.now,
        project_flag: None,
        sessions: RefCell::default(),
    };
    let session = own.admit(&own.target()?, &ActorArgs { actor: Some(Actor::human("you")) })?;
    let mut runtime = Runtime::of(&own.config, session.engine_store()?)?;
    // The demo must not take an hour: it retries failures at once.
    runtime.engine_config.policy = RetryPolicy::default().with_delay_cap(Span(1_500));
    Ok((session, runtime))
}

fn add_tasks(session: &Session, repo: &Path) -> Result<()> {
    let now = clock::now();
    let project = projects::init(session, Some("library"), repo, now)?;
    let folder = repo.join(config::FOLDER).join("lifecycles");
    let library = Library::new(Some(folder), std::collections::BTreeMap::new());
    for DemoTask { name, title, after, path } in &TASKS {
        let check = format!("sh tests/run.sh {name}");
        let body = format!("Make `{check}` pass. Change {path} only.");
        let mut fields = Fields::new();
        fields.insert(Field::AllowedPaths.to_string(), vec![*path].into());
        fields.insert(Field::TargetArea.to_string(), (*path).into());
        fields.insert(Field::Verify.to_string(), vec![check].into());
        let (title, project) = ((*title).to_owned(), project.clone());
        let request = AddRequest {
            new: NewTask { title, body, project, fields, ..NewTask::default() },
            lifecycle: "demo".to_owned(),
            after: after.iter().map(|id| TaskId(*id)).collect(),
            ..AddRequest::default()
        };
        tasks::add(session, &library, &request, now)?;
    }
    Ok(())
}

fn demo_tasks(session: &Session) -> Result<Vec<Stored>> {
    let ids = 1_i64..;
    let tasks = ids.zip(&TASKS).map(|(id, _)| tasks::find(session, TaskId(id)));
    Ok(tasks.collect::<Result<_, _>>()?)
}

fn done_count(tasks: &[Stored]) -> usize {
    tasks.iter().filter(|task| task.state().kind == StateKind::Done).count()
}

/// Whether no task can continue without a person.
fn is_over(session: &Session) -> Result<bool> {
    let moving =
        |stored: &Stored| matches!(stored.state().kind, StateKind::Queued | StateKind::Working);
    Ok(!demo_tasks(session)?.iter().any(moving))
}

/// Prints what happened since the last call, from the history.
struct ProgressLog {
    began: Instant,
    printed: [i64; TASKS.len()],
}

impl ProgressLog {
    fn print_new(&mut self, context: &Context, session: &Session) -> Result<()> {
        let mut lines = Vec::new();
        for ((printed, demo_task), id) in self.printed.iter_mut().zip(&TASKS).zip(1_i64..) {
            let lifecycle = tasks::find(session, TaskId(id))?.lifecycle;
            for entry in tasks::records_after(session, TaskId(id), *printed)? {
                *printed = entry.seq;
                let to = lifecycle.find_state(&entry.record.to).map(|to| lifecycle.state(to).kind);
                if let Some(what) = describe(&entry.record.trigger, to) {
                    lines.push((entry.ts, TaskId(id), demo_task.title, what));
                }
            }
        }
        lines.sort();
        for (at, id, title, what) in lines {
            let seconds = at.since(self.began).0;
            let time = format!("{:>3}.{}s", seconds / 1_000, seconds % 1_000 / 100);
            context.out.say(&format!("{time}  {id}  {title:<24} {what}"));
        }
        Ok(())
    }
}

/// A history record in words; none for records that only add noise.
fn describe(trigger: &str, to: Option<StateKind>) -> Option<&'static str> {
    match trigger {
        _ if to == Some(StateKind::Failed) => Some("failed for good"),
        _ if trigger == Trigger::Claim.name() => Some("agent started"),
        "crashed" => Some("the agent crashed; retrying"),
        "quota" => Some("out of quota; the account pauses, the other continues"),
        "policy" => Some("the agent wrote outside its paths; retrying"),
        "verify_failed" => Some("the agent claims to be done, but the check fails; retrying"),
        "ended" => Some("verified by its check; merging"),
        "rework" => Some("conflicts with merged work; back to the agent"),
        "merged" => Some("merged"),
        "ask" => Some("needs a person: you"),
        _ => None,
    }
}

fn summary(
    tasks: &[Stored],
    session: &Session,
    folder: &Path,
    repo: &Path,
    took: Span,
) -> Result<String> {
    let row = |stored: &Stored| {
        let (task, state) = (&stored.task, state_cell(stored.state()));
        let past = failed_outcomes(&tasks::past_runs(session, task.id)?);
        Ok(cells([&task.id, &state, &task.spent.runs, &task.title, &past]))
    };
    let rows = tasks.iter().map(row).collect::<Result<Vec<_>>>()?;
    let (done, seconds) = (done_count(tasks), took.0 / 1_000);
    let mut text = format!("\n{}", table(["TASK", "STATE", "RUNS", "TITLE", "FAILED RUNS"], rows));
    text.push_str(&format!(
        "\n{done} of {} merged in {seconds} s, each verified by its own check; t7 waits for you.\n\nTry next:\n",
        TASKS.len()
    ));
    text.push_str(&format!("  cd {}\n", sanitize(&repo.display().to_string())));
    for (command, what) in NEXT_COMMANDS {
        text.push_str(&format!("  {command:<32}  # {what}\n"));
    }
    let folder = sanitize(&folder.display().to_string());
    text.push_str(&format!("\nYou can delete {folder} at any time.\n"));
    Ok(text)
}

/// The outcomes of the failed runs.
fn failed_outcomes(past: &[PastRun]) -> String {
    let words: Vec<&str> = past
        .iter()
        .filter_map(|run| run.outcome.filter(|outcome| *outcome != Outcome::Succeeded))
        .map(Outcome::as_str)
        .collect();
    words.join(", ")
}
