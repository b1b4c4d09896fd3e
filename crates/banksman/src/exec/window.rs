//! Opens terminal windows for people who want to watch agents: a tmux window or a Tabby tab that
//! runs one of our commands.
//!
//! Windows open only on request. Nothing waits for a window, and no run knows that it is watched.

use std::collections::BTreeMap;
use std::path::Path;

use banksman_core::closed::closed;

use super::process::{Program, Result, RunError, Runner};
use crate::config::{EnvVars, Environment};

/// What the terminals' programs need to find their session or desktop.
const NEEDED: [&str; 8] = [
    "PATH",
    "HOME",
    EnvVars::TMUX,
    EnvVars::TERM_PROGRAM,
    EnvVars::TERM,
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
];

closed! {
    /// A terminal that can open windows.
    pub enum WindowHost {
        Tmux = "tmux",
        Tabby = "tabby",
    }
}

impl WindowHost {
    /// The terminal that this process runs in. tmux inside Tabby takes precedence.
    pub fn around(env: &BTreeMap<String, String>) -> Option<Self> {
        if env.get(EnvVars::TMUX).is_some_and(|socket| !socket.is_empty()) {
            return Some(Self::Tmux);
        }
        let is_tabby = env.get(EnvVars::TERM_PROGRAM).is_some_and(|name| name == "Tabby");
        is_tabby.then_some(Self::Tabby)
    }
}

/// The part of our environment that opening a window needs.
pub fn environment() -> BTreeMap<String, String> {
    Environment::passed(&NEEDED.map(str::to_owned))
}

/// Opens a named window that runs the command; it does not take the focus and stays after the
/// command has ended.
pub fn open(
    host: WindowHost,
    runner: &mut dyn Runner,
    name: &str,
    command: &[String],
    folder: &Path,
) -> Result<()> {
    let args = arguments(host, name, command, folder);
    let program = Program::new(host.as_str(), args, folder, runner.env());
    let output = runner.run(&program)?;
    if output.ok() {
        return Ok(());
    }
    let message = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let what = format!("opening a {} window", host.as_str());
    Err(RunError::failed(what, message.trim()))
}

fn arguments(host: WindowHost, name: &str, command: &[String], folder: &Path) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match host {
        WindowHost::Tmux => {
            // tmux would read a dot or a colon as part of a target.
            let name = name.replace(['.', ':'], "-");
            let folder = folder.to_string_lossy();
            let mut args = owned(&["new-window", "-d", "-n", &name, "-c", &folder, "--"]);
            args.extend(command.iter().map(|word| for_tmux(word)));
            // In the same call, so that the output of a command that ends at once stays visible.
            args.extend(owned(&[";", "set-option", "-w", "-t", &format!(":={name}")]));
            args.extend(owned(&["remain-on-exit", "on"]));
            args
        }
        WindowHost::Tabby => {
            std::iter::once("run".to_owned()).chain(command.iter().cloned()).collect()
        }
    }
}

/// Escapes a word that ends with a semicolon, which would end the tmux command.
fn for_tmux(word: &str) -> String {
    match word.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_terminal_is_found() {
        let around = |given: &[(&str, &str)]| {
            let env = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            WindowHost::around(&env.collect())
        };
        assert_eq!(around(&[]), None);
        assert_eq!(around(&[("TMUX", "")]), None);
        assert_eq!(around(&[("TERM_PROGRAM", "xterm")]), None);
        assert_eq!(around(&[("TERM_PROGRAM", "Tabby")]), Some(WindowHost::Tabby));
        assert_eq!(
            around(&[("TERM_PROGRAM", "Tabby"), ("TMUX", "/s,1,0")]),
            Some(WindowHost::Tmux)
        );
    }

    #[test]
    fn tmux_words_are_escaped() {
        let command = ["a;", "b c", ";"].map(str::to_owned);
        let args = arguments(WindowHost::Tmux, "r1.2", &command, Path::new("/x"));
        let expected = [
            "new-window",
            "-d",
            "-n",
            "r1-2",
            "-c",
            "/x",
            "--",
            "a\\;",
            "b c",
            "\\;",
            ";",
            "set-option",
            "-w",
            "-t",
            ":=r1-2",
            "remain-on-exit",
            "on",
        ];
        assert_eq!(args, expected);
        assert_eq!(arguments(WindowHost::Tabby, "r1.2", &command, Path::new("/x"))[1..], command);
    }
}
