//! `banksman attach`: shows where an agent works and opens a window that follows it. It never
//! changes anything.

use std::env;
use std::path::PathBuf;

use banksman_core::ids::{RunId, TaskId};
use clap::Args;
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::log::{folder_of, last_run, past_run};
use super::output::facts;
use crate::config::{Config, EnvVars, Windows};
use crate::exec::agent::AgentSetup;
use crate::exec::job::JobSpec;
use crate::exec::keeper::JobFolder;
use crate::exec::process::{PlainRunner, quoted};
use crate::exec::window::{self, WindowHost};
use crate::store::runs::PastRun;

/// Show where an agent works: its worktree, branch, log, processes and session
///
/// `--tmux` or `--tabby` opens a window that follows the log. The agent does not notice, and you
/// can close the window at any time. To continue the session yourself, wait until the run has
/// ended, or stop it with `banksman cancel`.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman attach t12
  banksman attach t12 --tmux
  cd \"$(banksman attach t12 -q)\"
")]
pub(super) struct AttachArgs {
    /// The task
    #[arg(value_name = "ID")]
    id: TaskId,
    /// Open a tmux window that follows the log
    #[arg(long, conflicts_with = "tabby")]
    tmux: bool,
    /// Open a Tabby tab that follows the log
    #[arg(long)]
    tabby: bool,
}

/// Where a run works, as far as it is known by now.
struct RunLocation {
    run: RunId,
    folder: PathBuf,
    worktree: Option<PathBuf>,
    branch: Option<String>,
    keeper: Option<i32>,
    agent: Option<i32>,
    session: Option<String>,
    /// The command that resumes the session in a terminal.
    resume: Option<String>,
}

pub(super) fn run(context: &Context, args: &AttachArgs) -> Result<Exit, Failure> {
    let store = context.store()?;
    let run = last_run(&store, args.id)?;
    let past = past_run(&store, run)?;
    let folder = folder_of(context, run, &past)?;
    let location = RunLocation::of(run, &folder, &past)?;
    let host = match (args.tmux, args.tabby) {
        (true, _) => Some(WindowHost::Tmux),
        (false, true) => Some(WindowHost::Tabby),
        (false, false) => None,
    };
    if let Some(host) = host {
        open_window(&context.config, host, run)?;
    }
    if context.out.quiet && !context.out.json {
        let path = location.worktree.unwrap_or(location.folder);
        context.out.text(&format!("{}\n", path.display()))?;
        return Ok(Exit::Done);
    }
    context.out.answer(|| location.document(host), || location.text())?;
    let opened = host.map(|host| format!("opened a {} window that follows {run}", host.as_str()));
    if let Some(opened) = opened {
        context.out.say(&opened);
    }
    context.out.next(&[&format!("log {} -f", args.id), &format!("why {}", args.id)]);
    Ok(Exit::Done)
}

impl RunLocation {
    fn of(run: RunId, folder: &JobFolder, past: &PastRun) -> Result<Self, Failure> {
        let plan = folder.plan()?;
        let is_alive = folder.is_locked()?;
        let begun = folder.begun()?.filter(|_| is_alive);
        let heartbeat = folder.heartbeat()?.filter(|_| is_alive);
        let receipt = folder.receipt()?;
        let reported = receipt.and_then(|receipt| receipt.reading).and_then(|said| said.session);
        let workspace = plan.as_ref().and_then(|plan| plan.workspace.as_ref());
        let session =
            reported.or_else(|| past.session.clone()).or_else(|| requested_session(plan.as_ref()));
        let resume =
            session.as_deref().and_then(|session| resume(setup_of(plan.as_ref()?)?, session));
        Ok(Self {
            run,
            worktree: workspace.map(|workspace| workspace.worktree.clone()),
            branch: workspace.map(|workspace| workspace.branch.clone()),
            folder: folder.path().to_owned(),
            keeper: begun.map(|begun| begun.pid),
            agent: heartbeat.and_then(|heartbeat| heartbeat.agent_pid),
            session,
            resume,
        })
    }

    fn document(&self, host: Option<WindowHost>) -> serde_json::Value {
        json!({
            "run": self.run.to_string(),
            "folder": self.folder,
            "log": self.folder.join("out.jsonl"),
            "worktree": self.worktree,
            "branch": self.branch,
            "keeperPid": self.keeper,
            "agentPid": self.agent,
            "session": self.session,
            "resume": self.resume,
            "window": host.map(WindowHost::as_str),
        })
    }

    fn text(&self) -> String {
        let path = |path: &PathBuf| path.display().to_string();
        let pid = |pid: Option<i32>| pid.map(|pid| pid.to_string()).unwrap_or_default();
        let state = if self.keeper.is_some() { "running" } else { "not running" };
        let resume = match (&self.worktree, &self.resume) {
            (Some(worktree), Some(resume)) => {
                format!("cd {} && {resume}", quoted(&worktree.display().to_string()))
            }
            (None, Some(resume)) => resume.clone(),
            (_, None) => String::new(),
        };
        facts([
            ("run", format!("{}, {state}", self.run)),
            ("worktree", self.worktree.as_ref().map(path).unwrap_or_default()),
            ("branch", self.branch.clone().unwrap_or_default()),
            ("log", path(&self.folder.join("out.jsonl"))),
            ("keeper", pid(self.keeper)),
            ("agent", pid(self.agent)),
            ("session", self.session.clone().unwrap_or_default()),
            ("resume", resume),
        ])
    }
}

fn setup_of(plan: &JobSpec) -> Option<&AgentSetup> {
    Some(&plan.agent()?.setup)
}

fn requested_session(plan: Option<&JobSpec>) -> Option<String> {
    plan?.agent()?.ask.session.clone()
}

/// The command that continues a session in a terminal. It leaves out the flags of the run, so that
/// the agent asks the person before it uses a tool.
fn resume(setup: &AgentSetup, session: &str) -> Option<String> {
    let flag = setup.kind.adapter().resume?;
    let mut words: Vec<String> = setup.command.iter().map(|word| quoted(word)).collect();
    if words.is_empty() {
        words.push(setup.kind.as_str().to_owned());
    }
    words.extend([flag.to_owned(), quoted(session)]);
    Some(words.join(" "))
}

/// The terminal that opens windows for runs, if the settings ask for any.
pub(super) fn window_host(windows: Windows) -> Option<WindowHost> {
    match windows {
        Windows::None => None,
        Windows::Auto => WindowHost::around(&window::environment()),
        Windows::Tmux => Some(WindowHost::Tmux),
        Windows::Tabby => Some(WindowHost::Tabby),
    }
}

/// Opens a window that follows the log of a run.
pub(super) fn open_window(config: &Config, host: WindowHost, run: RunId) -> Result<(), Failure> {
    let program = env::current_exe().map_err(Failure::Program)?;
    let agents = &config.agents;
    // The window gets the environment of its terminal, not ours.
    let mut command = vec![
        "env".to_owned(),
        format!("{}={}", EnvVars::BANKSMAN_HOME, agents.home.display()),
        format!("{}={}", EnvVars::NODE, agents.node),
        program.display().to_string(),
        "log".to_owned(),
        run.to_string(),
        "--follow".to_owned(),
    ];
    let address = config.store.clone().unwrap_or_default();
    let target = super::context::target(config)?;
    // Everybody on the machine can read a program's arguments, so an address with a password must
    // come from the settings.
    if !address.contains("://") || target.to_string() == address {
        command.extend(["--store".to_owned(), address]);
    }
    let env = window::environment();
    let name = run.to_string();
    let opened = window::open(host, &mut PlainRunner, &name, &command, &config.folder, &env);
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Failure::Input {
            message: format!("{error}{}", cause.unwrap_or_default()),
            hint: match host {
                WindowHost::Tmux => "run this command inside tmux".to_owned(),
                WindowHost::Tabby => {
                    "run this command inside Tabby, with `tabby` on the PATH".to_owned()
                }
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::exec::agent::AgentKind;

    #[test]
    fn resume_uses_the_agents_own_command() {
        let check = |kind: AgentKind, command: &[&str], expected: Option<&str>| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let setup =
                AgentSetup { kind, command, model: None, env: BTreeMap::new(), pass: Vec::new() };
            assert_eq!(resume(&setup, "a b").as_deref(), expected);
        };
        check(AgentKind::Claude, &["claude"], Some("claude --resume 'a b'"));
        check(AgentKind::Codex, &[], Some("codex resume 'a b'"));
        check(AgentKind::Gemini, &["/it's/gemini"], Some("'/it'\\''s/gemini' --resume 'a b'"));
        check(AgentKind::Opencode, &["opencode"], Some("opencode --session 'a b'"));
        check(AgentKind::Command, &["x"], None);
    }
}
