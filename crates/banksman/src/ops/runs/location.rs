//! Where a run works: its folders, processes and session.

use std::path::PathBuf;

use banksman_core::ids::RunId;

use crate::config::Agents;
use crate::exec::agent::AgentSetup;
use crate::exec::job::JobSpec;
use crate::exec::keeper::OUT_FILE;
use crate::exec::process::quoted;
use crate::ops::OpsError;
use crate::ops::Session;

/// The location as far as it is known.
#[derive(Debug, Clone)]
pub struct RunLocation {
    pub run: RunId,
    pub folder: PathBuf,
    /// What the agent writes to standard output.
    pub log: PathBuf,
    pub worktree: Option<PathBuf>,
    pub branch: Option<String>,
    /// The processes, while they run.
    pub keeper: Option<i32>,
    pub agent: Option<i32>,
    pub session: Option<String>,
    /// The command that resumes the session in a terminal.
    pub resume: Option<String>,
}

impl RunLocation {
    pub fn of(session: &Session, agents: &Agents, run: RunId) -> Result<Self, OpsError> {
        let past = super::past(session, run)?;
        let folder = super::folder(agents, run, &past)?;
        let plan = folder.spec()?;
        let is_alive = folder.is_locked()?;
        let begun = folder.begun()?.filter(|_| is_alive);
        let status = folder.status()?.filter(|_| is_alive);
        let reading = folder.receipt()?.and_then(|receipt| receipt.reading);
        let workspace = plan.as_ref().and_then(|plan| plan.workspace.as_ref());
        let work = plan.as_ref().and_then(JobSpec::agent);
        let requested = || work.and_then(|work| work.ask.session.clone());
        let session = reading.and_then(|said| said.session).or(past.session).or_else(requested);
        let resume = session.as_deref().and_then(|session| resume(&work?.setup, session));
        Ok(Self {
            run,
            log: folder.file(OUT_FILE),
            worktree: workspace.map(|workspace| workspace.worktree.clone()),
            branch: workspace.map(|workspace| workspace.branch.clone()),
            folder: folder.path().to_owned(),
            keeper: begun.map(|begun| begun.pid),
            agent: status.and_then(|status| status.agent_pid),
            session,
            resume,
        })
    }

    /// The command line that resumes the session where the agent worked.
    pub fn resume_line(&self) -> Option<String> {
        let resume = self.resume.as_ref()?;
        Some(match &self.worktree {
            Some(worktree) => format!("cd {} && {resume}", quoted(&worktree.display().to_string())),
            None => resume.clone(),
        })
    }
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
