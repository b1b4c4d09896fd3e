//! Tests the scripted agent from outside: what it prints, what it leaves behind, how it ends.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_scripted-agent");

struct Played {
    status: ExitStatus,
    events: Vec<Value>,
    stderr: String,
}

impl Played {
    fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(|event| event["type"].as_str().unwrap()).collect()
    }

    fn last(&self) -> &Value {
        self.events.last().expect("something was printed")
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).env("SCRIPTED_STATE", folder).env("TMPDIR", folder);
    command.env("BANKSMAN_RUN_FOLDER", folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(folder: &Path, script: &str) -> Child {
    let mut child = command(folder).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child
}

fn play(folder: &Path, script: &str) -> Played {
    let output = start(folder, script).wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let events = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Played { status: output.status, events, stderr: String::from_utf8(output.stderr).unwrap() }
}

/// Reads the next event, whose text shows that the steps before it are done.
fn next_event(child: &mut Child) -> Value {
    let mut line = String::new();
    let mut byte = [0];
    let out = child.stdout.as_mut().unwrap();
    while out.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(char::from(byte[0]));
    }
    serde_json::from_str(&line).unwrap()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_run_that_does_its_work() {
    let folder = TempDir::new().unwrap();
    assert!(
        Command::new("git").arg("init").arg("-q").arg(folder.path()).status().unwrap().success()
    );
    let played = play(
        folder.path(),
        "session s1\nanswer {\"ok\":true}\nsay hello\nwrite a/b.txt one\\ntwo\nappend a/b.txt three\ncommit add b\nspend 10 2 0.25\n\
         spend 5 1 0.25\nsuccess all done\nsay never",
    );
    assert_eq!(
        played.kinds(),
        ["session", "text", "tool", "tool", "tool", "usage", "usage", "result"],
        "{}",
        played.stderr
    );
    assert_eq!(
        *played.last(),
        json!({
            "type": "result", "status": "success", "text": "all done", "session": "s1",
            "answer": { "ok": true },
            "usage": { "input_tokens": 15, "output_tokens": 3, "cost_usd": 0.5 },
        })
    );
    assert_eq!(
        played.events[5],
        json!({ "type": "usage", "input_tokens": 10, "output_tokens": 2, "cost_usd": 0.25 })
    );
    assert_eq!(played.status.code(), Some(0));
    assert_eq!(fs::read_to_string(folder.path().join("a/b.txt")).unwrap(), "one\ntwo\nthree\n");
    let log =
        Command::new("git").arg("-C").arg(folder.path()).args(["log", "--format=%s"]).output();
    assert_eq!(log.unwrap().stdout, b"add b\n");
}

#[test]
fn faults_are_reported_with_their_kind() {
    let folder = TempDir::new().unwrap();
    for (script, kind, resets_at) in [
        ("quota 2030-01-01T00:00:00Z", json!("quota"), json!("2030-01-01T00:00:00Z")),
        ("quota", json!("quota"), Value::Null),
        ("auth", json!("auth"), Value::Null),
        ("transient", json!("transient"), Value::Null),
        ("fail it broke", Value::Null, Value::Null),
    ] {
        let played = play(folder.path(), script);
        assert_eq!(played.status.code(), Some(1), "{script}");
        assert_eq!(played.last()["status"], "error", "{script}");
        assert_eq!(played.last()["error"]["kind"], kind, "{script}");
        assert_eq!(played.last()["error"]["resets_at"], resets_at, "{script}");
    }
}

#[test]
fn ends_without_a_terminal_event() {
    let folder = TempDir::new().unwrap();
    for (script, code, signal) in [
        ("say a\nexit 7", Some(7), None),
        ("say a\ncrash", None, Some(6)),
        ("say a\nkill-self KILL", None, Some(9)),
        ("say a\nkill-self TERM", None, Some(15)),
        ("say a", Some(0), None),
    ] {
        let played = play(folder.path(), script);
        assert_eq!((played.status.code(), played.status.signal()), (code, signal), "{script}");
        assert_eq!(played.kinds(), ["text"], "{script}");
    }
}

#[test]
fn an_invalid_script_is_reported_as_a_setup_fault() {
    let played = play(TempDir::new().unwrap().path(), "Please fix the login.\n");
    assert_eq!(played.status.code(), Some(2));
    assert_eq!(played.last()["error"]["kind"], "setup");
}

#[test]
fn a_script_may_be_a_file() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("script"), "exit 4").unwrap();
    let status = command(folder.path()).arg("script").status().unwrap();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn later_attempts_play_other_steps() {
    let folder = TempDir::new().unwrap();
    let script = "once first\nsay hello\nend\nattempt 1: exit 5\nattempt 2: quota\nsuccess third";
    let attempts: Vec<Played> = (0..3).map(|_| play(folder.path(), script)).collect();
    assert_eq!(attempts[0].kinds(), ["text"]);
    assert_eq!(attempts[0].status.code(), Some(5));
    assert_eq!(attempts[1].kinds(), ["result"]);
    assert_eq!(attempts[1].last()["error"]["kind"], "quota");
    assert_eq!(attempts[2].last()["status"], "success");
    let other = play(folder.path(), "attempt 1: exit 6");
    assert_eq!(other.status.code(), Some(6), "another script is counted for itself");
}

#[test]
fn an_agent_that_ignores_term_stays() {
    let folder = TempDir::new().unwrap();
    let script = "session s1\nspend 1 1 0\nonce a\nsay one\nignore-term\nsay two\nend\nrun read x < gate\nsuccess here";
    assert!(Command::new("mkfifo").arg(folder.path().join("gate")).status().unwrap().success());
    let mut child = start(folder.path(), script);
    let texts: Vec<Value> = (0..4).map(|_| next_event(&mut child)["text"].clone()).collect();
    assert_eq!(
        texts,
        [Value::Null, Value::Null, json!("one"), json!("two")],
        "no step is played twice"
    );
    signal(child.id(), "TERM");
    fs::write(folder.path().join("gate"), "go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let last = BufReader::new(&output.stdout[..]).lines().last().unwrap().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!((&last["status"], &last["session"]), (&json!("success"), &json!("s1")));
    assert_eq!(last["usage"]["input_tokens"], 1);
    let left = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(left.collect::<BTreeSet<_>>(), ["gate", "once-a"].map(Into::into).into());
}

#[test]
fn a_daemon_leaves_group_and_session_and_lives_on() {
    let folder = TempDir::new().unwrap();
    let mut child = start(folder.path(), "daemon 60000\nexit 0");
    let detail = next_event(&mut child)["detail"].as_str().unwrap().to_owned();
    let pid: u32 = detail.strip_prefix("pid ").unwrap().parse().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let ids =
        Command::new("ps").args(["-o", "pgid=,sid=", "-p", &pid.to_string()]).output().unwrap();
    let ids = String::from_utf8(ids.stdout).unwrap();
    signal(pid, "KILL");
    assert_eq!(ids.split_whitespace().collect::<Vec<_>>(), [&pid.to_string(), &pid.to_string()]);
}

#[test]
fn floods_have_the_requested_size() {
    let folder = TempDir::new().unwrap();
    let played = play(folder.path(), "flood 100000\nflood-err 50000\nexit 0");
    assert!(played.kinds().iter().all(|kind| *kind == "text"));
    assert!((90..=100).contains(&played.events.len()), "{}", played.events.len());
    assert!((50_000..52_000).contains(&played.stderr.len()), "{}", played.stderr.len());
    let line = start(folder.path(), "flood-line 70000").wait_with_output().unwrap().stdout;
    assert_eq!(line.len(), 70_001);
}

#[test]
fn without_a_folder_reports_are_events_and_a_session_goes_on() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("script"), "needs-person which?\nsuccess asked").unwrap();
    let mut command = command(folder.path());
    command.arg("script").env_remove("BANKSMAN_RUN_FOLDER").env("BANKSMAN_SESSION", "s7");
    let stdout = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let events: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        events[0],
        json!({ "type": "report", "tell": "needs_person", "question": "which?" })
    );
    assert_eq!(events[1]["session"], "s7");
}

#[test]
fn reports_go_to_the_folder_of_the_run() {
    let folder = TempDir::new().unwrap();
    play(folder.path(), "progress half\nneeds-person which?\nnothing-to-do fixed before\nlie done");
    let reports = fs::read_to_string(folder.path().join("reports.jsonl")).unwrap();
    let told: Vec<Value> =
        reports.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        told,
        [
            json!({ "tell": "progress", "step": "half", "files": [], "blockers": [] }),
            json!({ "tell": "needs_person", "question": "which?" }),
            json!({ "tell": "nothing_to_do", "reason": "fixed before" }),
        ]
    );
}
