//! `banksman demo`: eight tasks, scripted agents, real worktrees; no key, no network, under a
//! minute.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use banksman_core::failure::RetryPolicy;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};
use clap::Args;
use serde_json::{Map, Value, json};

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, shown, table};
use super::signs::style;
use super::up::Parts;
use crate::clock;
use crate::config::{self, Environment, Flags};
use crate::engine::wake::{WakeReason, Waker};
use crate::exec::scratch;
use crate::ops::library::Library;
use crate::ops::projects;
use crate::ops::tasks::{self, AddRequest};
use crate::store::runs::PastRun;
use crate::store::{Store, Stored};

/// Watch scripted agents work through eight tasks, without keys or network
///
/// It makes a scratch repository with failing tests, lets scripted agents work on it in real
/// worktrees, and merges what is proven. One crashes, one has used up its quota, one lies about
/// being done, one writes where it must not, one needs you.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman demo
  banksman demo --folder /tmp/my-demo
")]
pub(super) struct DemoArgs {
    /// Where to make it; a new folder. Left out: one in the folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

const LIFECYCLE: &str = include_str!("../../demo/lifecycle.yaml");
const AGENT: &str = include_str!("../../demo/agent.sh");
const TESTS: &str = include_str!("../../demo/run.sh");

/// What a newcomer may want to type next, in the repository's folder.
const LOOK_AROUND: [(&str, &str); 6] = [
    ("git log --oneline --graph main", "what was merged"),
    ("banksman log t5", "the agent that lied, and its second attempt"),
    ("banksman history t4", "the quota, and the way back"),
    ("banksman show t6", "what strayed, and what became of it"),
    ("banksman why t7", "what it needs from you"),
    ("banksman unblock t7 MIT", "your answer; then `banksman up` until it is merged"),
];

/// After this time it says what is still going on and ends.
const LONGEST: Span = Span(55_000);

/// A task of the demo: its function, its title, and the tasks that come first.
struct Part {
    name: &'static str,
    title: &'static str,
    after: &'static [i64],
    path: &'static str,
}

const PARTS: [Part; 8] = [
    Part { name: "sum", title: "Add up numbers", after: &[], path: "lib/sum.sh" },
    Part { name: "max", title: "Find the largest number", after: &[1], path: "lib/max.sh" },
    Part { name: "reverse", title: "Reverse a word", after: &[], path: "lib/reverse.sh" },
    Part { name: "words", title: "Count words", after: &[], path: "lib/words.sh" },
    Part { name: "trim", title: "Trim blanks", after: &[], path: "lib/trim.sh" },
    Part { name: "upper", title: "Write in capitals", after: &[1], path: "lib/upper.sh" },
    Part { name: "licence", title: "Choose a licence", after: &[], path: "LICENCE" },
    Part { name: "manual", title: "Write the manual", after: &[2, 3, 4, 5, 6], path: "MANUAL.md" },
];

pub(super) fn run(context: &Context, args: &DemoArgs) -> Result<Exit, Failure> {
    let folder = new_folder(args.folder.as_deref())?;
    let repo = lay_out(&folder)?;
    let parts = parts(&folder, &repo)?;
    add_tasks(&parts.store, &repo)?;
    context.out.say(&format!("a scratch repository with failing tests: {}", repo.display()));
    context.out.say("eight tasks, four agents at once, each in a worktree of its own\n");
    let began = clock::now();
    let mut story = Story::new(began);
    let waker = Waker::hang(&parts.store, &parts.site.ended_folder())?;
    loop {
        let pulse = parts.engine().pulse(clock::now())?;
        story.tell(context, &parts.store)?;
        let now = clock::now();
        if is_over(&parts.store)? || now.since(began) > LONGEST {
            break;
        }
        let next = pulse.next.map_or(1_000, |next| (next.0 - now.0).clamp(10, 1_000));
        let at_most = Duration::from_millis(u64::try_from(next).unwrap_or(1_000));
        if waker.wait(at_most) == WakeReason::Stop {
            context.out.say("stopped; agents at work go on by themselves");
            break;
        }
    }
    let took = clock::now().since(began);
    let tasks = all(&parts.store)?;
    context.out.answer(
        || document(&tasks, &folder, &repo, took),
        || summary(&tasks, &parts.store, &folder, &repo, took),
    )?;
    let done = tasks.iter().filter(|task| kind(task) == StateKind::Done).count();
    Ok(if done == PARTS.len() - 1 { Exit::Done } else { Exit::Failed })
}

/// A folder that is ours alone.
fn new_folder(wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = || std::env::temp_dir().join(format!("banksman-demo-{:x}", clock::nonce()));
    let folder = wanted.map_or_else(named, Path::to_owned);
    fs::create_dir_all(folder.parent().unwrap_or(Path::new("/"))).map_err(made(&folder))?;
    fs::create_dir(&folder).map_err(made(&folder))?;
    fs::canonicalize(&folder).map_err(made(&folder))
}

fn made(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |source| Failure::File { operation: "make", path: path.to_owned(), source }
}

/// The repository, its lifecycle and the scripted agent.
fn lay_out(folder: &Path) -> Result<PathBuf, Failure> {
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
    fs::create_dir_all(folder.join("attempts")).map_err(made(folder))?;
    for (path, text) in files {
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(made(&path))?;
        fs::write(&path, text).map_err(made(&path))?;
    }
    let env = Environment::passed(&["PATH".to_owned(), "HOME".to_owned()]);
    let made = scratch::repository(&repo, "The library and tests that fail", &env);
    made.map_err(|error| Failure::Input {
        message: format!("failed to make a git repository: {error}"),
        hint: "the demo needs git 2.40 or newer on the PATH".to_owned(),
    })?;
    Ok(repo)
}

/// Two providers, so that one can run out of quota while the other goes on.
fn worker(name: &str, account: &str, folder: &Path) -> String {
    let (script, folder) = (folder.join("agent.sh"), folder.display());
    let script = script.display().to_string();
    format!(
        "[workers.{name}]\nagent = \"command\"\ncommand = [\"sh\", {script:?}, {:?}]\n\
         account = \"{account}\"\nmax_concurrent = 2\n\n",
        folder.to_string()
    )
}

fn parts(folder: &Path, repo: &Path) -> Result<Parts, Failure> {
    let environment = Environment::of_process()?;
    let store = folder.join("banksman.db").display().to_string();
    let flags = Flags::from([("store", store)]);
    let config = config::resolve(&flags, &environment, repo)?;
    let mut parts = Parts::of(&config)?;
    // The demo must not take an hour: failures are tried again at once.
    parts.terms.policy = RetryPolicy::default().with_delay_cap(Span(1_500));
    Ok(parts)
}

fn add_tasks(store: &Store, repo: &Path) -> Result<(), Failure> {
    let now = clock::now();
    let project = projects::init(store, Some("library"), repo, now)?;
    let folder = repo.join(config::FOLDER).join("lifecycles");
    let library = Library::new(Some(folder), std::collections::BTreeMap::new());
    for part in &PARTS {
        let mut fields = Map::new();
        fields.insert("allowed_paths".to_owned(), json!([part.path]));
        fields.insert("target_area".to_owned(), json!(part.path));
        fields.insert("verify".to_owned(), json!([format!("sh tests/run.sh {}", part.name)]));
        let request = AddRequest {
            title: part.title.to_owned(),
            body: format!("Make `sh tests/run.sh {}` pass. Change {} only.", part.name, part.path),
            project: project.clone(),
            lifecycle: "demo".to_owned(),
            after: part.after.iter().map(|id| TaskId(*id)).collect(),
            fields,
            ..AddRequest::default()
        };
        tasks::add(store, &library, &Actor::human("you"), &request, now)?;
    }
    Ok(())
}

fn all(store: &Store) -> Result<Vec<Stored>, Failure> {
    let ids = 1_i64..;
    let tasks = ids.zip(&PARTS).map(|(id, _)| store.task(TaskId(id)));
    Ok(tasks.collect::<Result<_, _>>()?)
}

fn kind(stored: &Stored) -> StateKind {
    stored.state().kind
}

/// Nothing moves any more without a person.
fn is_over(store: &Store) -> Result<bool, Failure> {
    let moving = |stored: &Stored| matches!(kind(stored), StateKind::Queued | StateKind::Working);
    Ok(!all(store)?.iter().any(moving))
}

/// Tells what has happened since it last looked, from the history.
struct Story {
    began: Instant,
    told: [i64; PARTS.len()],
}

impl Story {
    fn new(began: Instant) -> Self {
        Self { began, told: [0; PARTS.len()] }
    }

    fn tell(&mut self, context: &Context, store: &Store) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for ((told, part), id) in self.told.iter_mut().zip(&PARTS).zip(1_i64..) {
            for entry in store.history(TaskId(id), *told)? {
                *told = entry.seq;
                if let Some(what) = sentence(&entry.record.trigger, &entry.record.to) {
                    lines.push((entry.ts, TaskId(id), part.title, what));
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

/// A record in plain words; none for what would only be noise.
fn sentence(trigger: &str, to: &str) -> Option<&'static str> {
    match (trigger, to) {
        ("claim", _) => Some("an agent starts"),
        ("crashed", _) => Some("the agent crashed; it is tried again"),
        ("quota", _) => Some("the quota is used up; the account waits, the others go on"),
        ("policy", _) => Some("it wrote where it must not; tried again"),
        ("verify_failed", _) => Some("it says that it is done, and it is not; tried again"),
        ("ended", _) => Some("proven by its check; on to the merge"),
        ("rework", _) => Some("it does not go together with the others; back to work"),
        ("merged", _) => Some("merged"),
        ("ask", _) => Some("it needs a person: that is you"),
        (_, "failed") => Some("given up"),
        _ => None,
    }
}

fn document(tasks: &[Stored], folder: &Path, repo: &Path, took: Span) -> Value {
    let task = |stored: &Stored| {
        json!({
            "id": stored.task.id.to_string(),
            "title": stored.task.title,
            "state": stored.state().name,
            "runs": stored.task.spent.runs,
        })
    };
    json!({
        "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
        "folder": folder,
        "repository": repo,
        "store": folder.join("banksman.db"),
        "tookMs": took.0,
    })
}

fn summary(tasks: &[Stored], store: &Store, folder: &Path, repo: &Path, took: Span) -> String {
    let row = |stored: &Stored| -> Vec<Cell> {
        let state = stored.state();
        let past = store.past_runs(stored.task.id, 10).unwrap_or_default();
        vec![
            stored.task.id.to_string().into(),
            Cell { style: style(state.kind), ..state.name.as_str().into() },
            stored.task.spent.runs.to_string().into(),
            stored.task.title.as_str().into(),
            troubles(&past).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = tasks.iter().map(row).collect();
    let done = tasks.iter().filter(|task| kind(task) == StateKind::Done).count();
    let seconds = took.0 / 1_000;
    let mut text = format!("\n{}", table(&["TASK", "STATE", "RUNS", "TITLE", "ON THE WAY"], &rows));
    text.push_str(&format!(
        "\n{done} of {} merged in {seconds} s, each proven by its own check; t7 waits for you.\n\nLook around:\n",
        PARTS.len()
    ));
    text.push_str(&format!("  cd {}\n", shown(&repo.display().to_string())));
    for (command, what) in LOOK_AROUND {
        text.push_str(&format!("  {command:<32}  # {what}\n"));
    }
    let folder = shown(&folder.display().to_string());
    text.push_str(&format!("\nThe folder {folder} can be removed at any time.\n"));
    text
}

/// How its runs ended before the last one.
fn troubles(past: &[PastRun]) -> String {
    let words: Vec<&str> = past
        .iter()
        .filter_map(|run| run.outcome.as_deref())
        .filter(|outcome| *outcome != "succeeded")
        .collect();
    words.join(", ")
}
