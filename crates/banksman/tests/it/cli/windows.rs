//! Windows that follow agents, and the live view: in a real tmux, and with a program that stands in
//! for Tabby.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::harness::{DONE, GATE, Harness, SAY, WORK};

/// A tmux server of the test's own, with one session.
pub(super) struct Tmux<'y> {
    harness: &'y Harness,
}

impl<'y> Tmux<'y> {
    pub(super) fn start(harness: &'y Harness) -> Self {
        let tmux = Self { harness };
        tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "harness",
            "-x",
            "150",
            "-y",
            "40",
        ]);
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        self.harness.prepare(&mut command);
        // Otherwise the windows run the login shell of whoever runs this test, and some cannot run
        // one.
        command.env("SHELL", "/bin/sh");
        command.env("TERM", "xterm").arg("-S").arg(self.harness.path().join("tmux"));
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().expect("tmux starts; install it");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a program inside of the session has in its environment.
    fn address(&self) -> String {
        self.run(&["display-message", "-p", "-t", "harness", "#{socket_path},#{pid},0"])
            .trim()
            .to_owned()
    }

    pub(super) fn sees(&self, window: &str, text: &str) {
        let target = format!("harness:={window}");
        self.harness.until(&format!("`{text}` in {window}"), || {
            let shown =
                self.command().args(["capture-pane", "-p", "-t", &target]).output().unwrap();
            String::from_utf8_lossy(&shown.stdout).contains(text)
        });
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        drop(self.command().arg("kill-server").output());
    }
}

#[test]
fn without_a_terminal_agents_work_all_the_same() {
    let harness = Harness::with_settings("windows = \"tmux\"");
    let id = harness.task("Build a wall", &[WORK, DONE]);
    let pulsed = harness.run(&["pulse"]);
    assert_eq!(pulsed.code, Some(0), "{pulsed}");
    assert!(pulsed.stderr.contains("failed to open a window for r1.1: "), "{pulsed}");
    harness.wait_for_end("r1.1");
    let attached = harness.run(&["attach", &id, "--tmux"]);
    assert_eq!(attached.code, Some(1), "{attached}");
    assert!(attached.stderr.ends_with("hint: run this command inside tmux\n"), "{attached}");
}

#[test]
fn tabby_is_asked_for_a_tab() {
    let harness = Harness::new();
    let programs = harness.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let tabby = programs.join("tabby");
    fs::write(
        &tabby,
        format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >'{}/asked'\n", harness.path().display()),
    )
    .unwrap();
    fs::set_permissions(&tabby, fs::Permissions::from_mode(0o755)).unwrap();
    let id = harness.task("Build a wall", &[WORK, DONE]);
    harness.first_run(&id);
    let mut attach = harness.command(&["attach", &id, "--tabby"]);
    attach.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let attached = harness.finish(attach.output().unwrap());
    assert_eq!(attached.code, Some(0), "{attached}");
    let asked = fs::read_to_string(harness.path().join("asked")).unwrap();
    let asked: Vec<&str> = asked.lines().collect();
    assert_eq!(asked[..2], ["run", "env"]);
    let log = asked.iter().position(|word| *word == "log").unwrap();
    assert_eq!(asked[log..log + 3], ["log", "r1.1", "--follow"]);
}

mod needs_tmux {
    use super::*;

    #[test]
    fn a_tmux_window_follows_an_agent() {
        let harness = Harness::new();
        let tmux = Tmux::start(&harness);
        let id = harness.task("Build a wall", &[SAY, GATE, WORK, DONE]);
        harness.pulse();
        harness.wait_for_words("r1.1");
        let mut attach = harness.command(&["attach", &id, "--tmux"]);
        let attached = harness.finish(attach.env("TMUX", tmux.address()).output().unwrap());
        assert_eq!(attached.code, Some(0), "{attached}");
        assert!(attached.stderr.contains("opened a tmux window that follows r1.1"), "{attached}");
        tmux.sees("r1-1", "laying bricks");
        harness.open_gate();
        // It stays when the run has ended, so that the end can be read. The pane's own words about
        // that are not always drawn.
        tmux.sees("r1-1", "the wall stands");
        harness.until("the window outlives the log", || {
            tmux.run(&["list-panes", "-a", "-F", "#{window_name} #{pane_dead}"]).contains("r1-1 1")
        });
    }

    #[test]
    fn agents_get_windows_by_themselves_where_the_settings_say_so() {
        let harness = Harness::with_settings("windows = \"auto\"");
        let tmux = Tmux::start(&harness);
        harness.task("Build a wall", &[SAY, GATE, WORK, DONE]);
        let mut pulse = harness.command(&["pulse"]);
        let pulsed = harness.finish(pulse.env("TMUX", tmux.address()).output().unwrap());
        assert_eq!(pulsed.code, Some(0), "{pulsed}");
        tmux.sees("r1-1", "laying bricks");
        harness.open_gate();
        harness.wait_for_end("r1.1");
    }

    #[test]
    fn the_live_view_shows_changes_and_gives_the_terminal_back() {
        let harness = Harness::new();
        let tmux = Tmux::start(&harness);
        let store = harness.store();
        let live = format!(
            "{} --store {} status --watch; echo it is \"over\"; stty -a | grep -o ' echo '; exec sleep 60",
            super::super::sandbox::PROGRAM,
            store.display()
        );
        tmux.run(&["new-window", "-d", "-n", "live", &live]);
        tmux.sees("live", "no tasks");
        tmux.sees("live", "q quits");
        harness.task("Build a wall", &[SAY, GATE]);
        tmux.sees("live", "queued");
        harness.pulse();
        tmux.sees("live", "laying bricks");
        tmux.run(&["send-keys", "-t", "harness:=live", "q"]);
        tmux.sees("live", "it is over");
        tmux.sees("live", " echo");
        harness.ok(&["down", "--agents"]);
    }
}
