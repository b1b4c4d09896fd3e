//! `log`, `status`, `attach` and the runs in `show`: seeing what agents do.

use std::fs;
use std::io::{BufRead, BufReader, Read};

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::harness::{DONE, GATE, Harness, SAY, WORK, steady};
use super::sandbox::Sandbox;

const SESSION: &str = r#"echo '{"type":"session","id":"s1"}'"#;
const TOOL: &str = r#"echo '{"type":"tool","name":"Bash","detail":"ls -la"}'"#;
const PROGRESS: &str = r#"echo '{"tell":"progress","step":"half the wall","files":[],"blockers":[]}' >>"$BANKSMAN_RUN_FOLDER/reports.jsonl""#;
/// An end that is tried again at once, and one that waits for a while.
const LOST_SESSION: &str = r#"echo '{"type":"result","status":"error","error":{"kind":"session","message":"no such session"}}'; exit 1"#;
const BUSY: &str = r#"echo '{"type":"result","status":"error","error":{"kind":"transient","message":"the server is busy"}}'; exit 1"#;

#[test]
fn a_log_is_rendered_with_its_end() {
    let harness = Harness::new();
    let id =
        harness.task("Build a wall", &[SESSION, SAY, TOOL, PROGRESS, "echo oops >&2", WORK, DONE]);
    harness.first_run(&id);
    assert_snapshot!(steady(&harness.run(&["log", "t1"])), @"
    exit 0
    -- stdout
    session s1
    says laying bricks
    tool Bash ls -la
    done the wall stands
    reports half the wall

    outcome succeeded
    work 1 commit, 1 file, +1 -0, head HEAD
    check no checks were set
    took N s
    used 1234 tokens, $0.05
    answer the wall stands
    -- stderr
    r1.1 of ada on harness, since 0000-00-00 00:00:00
    next: banksman log r1.1 --stderr · banksman show t1
    ");
    assert_snapshot!(steady(&harness.run(&["log", "r1.1", "--stderr"])), @"
    exit 0
    -- stdout
    oops

    outcome succeeded
    work 1 commit, 1 file, +1 -0, head HEAD
    check no checks were set
    took N s
    used 1234 tokens, $0.05
    answer the wall stands
    -- stderr
    r1.1 of ada on harness, since 0000-00-00 00:00:00
    ");
    let raw = harness.ok(&["log", "t1", "--raw"]);
    assert!(raw.starts_with("{\"type\":\"session\",\"id\":\"s1\"}\n{\"type\":\"text\""), "{raw}");
    assert_eq!(raw.lines().count(), 4, "bytes as they are, and nothing else: {raw}");
    assert_eq!(harness.ok(&["log", "t1", "--raw", "--stderr"]), "oops\n");
    let lines = harness.ok(&["log", "1", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["session", "text", "tool", "spent", "ended", "report", "end"]);
    assert!(lines.iter().all(|line| line["run"] == "r1.1"));
    let end = lines.last().unwrap();
    assert_eq!((&end["outcome"], &end["tokens"]), (&json!("succeeded"), &json!(1234)));
    assert_eq!(end["receipt"]["evidence"]["commits"], 1);
}

#[test]
fn what_is_rotated_comes_first() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[SAY, WORK, DONE]);
    harness.first_run(&id);
    let folder = harness.runs().join("past/r1.1");
    fs::write(folder.join("out.jsonl.1"), "{\"type\":\"text\",\"text\":\"the older half\"}\n")
        .unwrap();
    let log = harness.ok(&["log", &id]);
    assert!(log.starts_with("says     the older half\nsays     laying bricks\n"), "{log}");
    assert!(
        harness
            .ok(&["log", &id, "--raw"])
            .starts_with("{\"type\":\"text\",\"text\":\"the older half\"}\n")
    );
}

#[test]
fn nothing_that_an_agent_says_moves_the_cursor() {
    let harness = Harness::new();
    let script =
        [r#"printf '{"type":"text","text":"a\\u001b[2Jb"}\n'"#, r"printf 'err\033[2J\n' >&2", DONE];
    let id = harness.task("Be nasty", &script);
    harness.first_run(&id);
    for args in [&["log", &id][..], &["log", &id, "--stderr"], &["log", &id, "--json"], &["status"]]
    {
        let shown = harness.ok(args);
        assert!(!shown.contains('\x1b'), "{args:?}: {shown:?}");
    }
}

#[test]
fn a_log_that_is_not_here_says_where_it_is() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[WORK, DONE]);
    assert_snapshot!(harness.run(&["log", &id]), @"
    exit 1
    -- stderr
    error: t1 has no runs yet (BM-E032)
    hint: `banksman why t1` explains what it waits for
    ");
    harness.first_run(&id);
    assert_snapshot!(harness.run(&["log", &id, "--run", "7"]), @"
    exit 1
    -- stderr
    error: there is no run r1.7 (BM-E032)
    hint: `banksman show t1` lists its runs
    ");
    assert_snapshot!(harness.run(&["log", "r1.x"]), @"
    exit 2
    -- stderr
    error: invalid value 'r1.x' for '<ID|RUN>': `r1.x` is not a run id

    For more information, try '--help'.
    ");
    assert_snapshot!(harness.run(&["log", "t9"]), @"
    exit 1
    -- stderr
    error: there is no task t9 (BM-E014)
    hint: `banksman list` lists the tasks
    ");
    let mut elsewhere = harness.command(&["log", &id]);
    elsewhere.env("BANKSMAN_NODE", "shed").env("BANKSMAN_HOME", harness.path().join("shed"));
    let elsewhere = harness.finish(elsewhere.output().unwrap());
    assert_snapshot!(elsewhere, @"
    exit 1
    -- stderr
    error: the log of r1.1 is on machine `harness` (BM-E033)
    hint: run `banksman log r1.1` there
    ");
    fs::remove_dir_all(harness.runs().join("past/r1.1")).unwrap();
    assert_snapshot!(harness.run(&["log", &id]), @"
    exit 1
    -- stderr
    error: the log of r1.1 was deleted (BM-E032)
    hint: `banksman show t1` shows how it ended, `banksman config get home` where logs are kept
    ");
}

#[test]
fn a_task_that_was_moved_by_hand_has_no_log() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    sandbox.ok(&["move", "t1", "active", "--as", "worker:ada"]);
    assert_snapshot!(sandbox.run(&["log", "t1"]), @"
    exit 1
    -- stderr
    error: t1 has no runs yet (BM-E032)
    hint: `banksman why t1` explains what it waits for
    ");
}

#[test]
fn following_shows_a_run_as_it_happens() {
    let harness = Harness::new();
    harness.task(
        "Build a wall",
        &[SAY, GATE, "echo '{\"type\":\"text\",\"text\":\"almost\"}'", WORK, DONE],
    );
    harness.pulse();
    harness.wait_for_words("r1.1");
    let mut child = harness.start(&["log", "r1.1", "-f"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap().trim(), "says     laying bricks");
    harness.open_gate();
    let almost = lines.next().unwrap();
    assert!(
        almost.ends_with("says     almost") && almost.starts_with(|c: char| c.is_ascii_digit()),
        "{almost}"
    );
    let rest: Vec<String> = lines.collect();
    assert!(rest[0].ends_with("done     the wall stands"), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("not judged yet")), "{rest:?}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn following_goes_on_with_the_next_run() {
    let harness = Harness::new();
    let second = "if [ -e \"$YARD/again\" ]; then";
    let script =
        [SAY, second, WORK, DONE, "exit 0", "fi", "touch \"$YARD/again\"", GATE, LOST_SESSION];
    let id = harness.task("Build a wall", &script);
    harness.pulse();
    harness.wait_for_words("r1.1");
    let follower = harness.start(&["log", &id, "-f"]);
    harness.open_gate();
    harness.pulse_until(&id, "done");
    let ran = harness.finish_child(follower);
    assert_eq!(ran.code, Some(0), "{ran}");
    let shown = format!("{}\n{}", ran.stdout, ran.stderr);
    for wanted in [
        "outcome  transient (session)",
        "outcome  succeeded",
        "r1.1 of ada",
        "r1.2 of ada",
        "the task has ended",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {ran}");
    }
}

#[test]
fn a_follower_whose_keeper_is_killed_comes_to_its_end() {
    let harness = Harness::new();
    harness.task("Build a wall", &[SAY, GATE]);
    harness.pulse();
    harness.wait_for_words("r1.1");
    let mut child = harness.start(&["log", "r1.1", "-f"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let begun = harness.site().folder("r1.1".parse().unwrap()).begun().unwrap().unwrap();
    let pid = rustix::process::Pid::from_raw(begun.pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    out.read_to_string(&mut line).unwrap();
    assert!(child.wait().unwrap().success(), "{line}");
}

#[test]
fn status_tells_running_retrying_and_waiting_apart() {
    let harness = Harness::new();
    harness.task("Build a wall", &[SAY, GATE, WORK, DONE]);
    let busy = harness.task("Dig a hole", &[BUSY]);
    harness.task("Ask kim", &[r#"echo '{"tell":"needs_person","question":"which colour?"}' >>"$BANKSMAN_RUN_FOLDER/reports.jsonl""#, DONE]);
    harness.pulse();
    harness.wait_for_end("r2.1");
    harness.wait_for_end("r3.1");
    harness.wait_for_words("r1.1");
    harness.until("the beat has what was said", || {
        harness.json(&["status"])["running"][0]["live"]["last"] == "laying bricks"
    });
    harness.pulse();
    let listed = steady(&harness.run(&["list"]));
    assert!(listed.contains("\n↻ t2 working ") && listed.contains("\n● t1 working "), "{listed}");
    assert_snapshot!(steady(&harness.run(&["status"])), @"
    exit 0
    -- stdout
    STATE KIND TASKS
    ⚠ blocked blocked 1
    ● working working 2 ↻ 1 to retry
    ready 0
    running 1
    decisions 1 open
    effects 0 pending
    next timer 0000-00-00 00:00:00
    project repo [SANDBOX]/repo
    worktrees 3, 0 MB including the home folder

    TASK RUN TRY WORKER NODE STAGE FOR TOKENS COST ACTIVITY
    ● t1 r1.1 1 ada harness agent N s laying bricks

    TASK NEXT TRY ATTEMPT TITLE LAST ERROR
    ↻ t2 in N s 2 Dig a hole transient: the server is busy

    TASK STATE FOR LEFT TITLE NEEDS YOU
    !! t3 blocked N s 7 d Ask kim which colour? (unblock, cancel)
    -- stderr
    next: banksman list --state STATE · banksman log ID -f
    ");
    let document = harness.json(&["status"]);
    let running = &document["running"][0];
    assert_eq!(
        (&running["run"], &running["attempt"], &running["live"]["stage"]),
        (&json!("r1.1"), &json!(1), &json!("agent"))
    );
    let retry = &document["retrying"][0];
    assert_eq!(
        (&retry["task"], &retry["attempt"], &retry["lastOutcome"]),
        (&json!(busy), &json!(2), &json!("transient"))
    );
    assert_eq!(document["needsPerson"][0]["task"], "t3");
    let mut ascii = harness.command(&["status", "--watch"]);
    ascii.env("LANG", "C").env("NO_COLOR", "1");
    let ascii = harness.finish(ascii.output().unwrap());
    assert!(ascii.stdout.is_ascii() && ascii.stdout.contains("~  t2"), "{ascii}");
    harness.open_gate();
    harness.wait_for_end("r1.1");
}

#[test]
fn status_shows_what_stands_in_the_way() {
    let harness = Harness::with_settings("[worktrees]\nwarn_above = 1\n");
    let quota = r#"echo '{"type":"result","status":"error","error":{"kind":"quota","message":"come back later","resets_at":"2099-01-01T00:00:00Z"}}'; exit 1"#;
    let id = harness.task("Build a wall", &[quota]);
    harness.first_run(&id);
    for name in ["t8", "t9", "no task's"] {
        let folder = harness.runs().join("worktrees/other").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(".git"), "gitdir: nowhere\n").unwrap();
    }
    harness.ok(&["batch", "create", "spring"]);
    harness.ok(&["batch", "pause", "spring"]);
    harness.ok(&["pause"]);
    let status = harness.ok(&["status"]);
    for wanted in [
        "paused     no agents start until `banksman resume`",
        "account    command  paused for ",
        "batch      spring  0 of 0 done, 0 of 4 running, paused",
        "worktrees  3, ",
        "warning    more than 1 worktrees",
    ] {
        assert!(status.contains(wanted), "{wanted}: {status}");
    }
}

#[test]
fn show_has_the_runs() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[BUSY]);
    harness.first_run(&id);
    let shown = harness.run(&["show", &id]);
    let runs = steady(&shown);
    let runs = runs.split_once("RUN WORKER").unwrap().1;
    assert_snapshot!(runs, @"
     STARTED TOOK OUTCOME CLASS TOKENS COST DETAIL
    r1.1 ada 0000-00-00 00:00:00 N s transient flaky the server is busy
    -- stderr
    next: banksman log t1 · banksman why t1 · banksman history t1 · banksman move t1 STATE
    ");
    let document = harness.json(&["show", &id]);
    assert_eq!(document["runs"][0]["class"], "flaky");
    assert_eq!(document["runs"][0]["run"], "r1.1");
}

#[test]
fn attach_says_where_an_agent_works() {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[SESSION, SAY, GATE, WORK, DONE]);
    assert_snapshot!(harness.run(&["attach", &id]), @"
    exit 1
    -- stderr
    error: t1 has no runs yet (BM-E032)
    hint: `banksman why t1` explains what it waits for
    ");
    harness.pulse();
    harness.wait_for_words("r1.1");
    harness.until("its process is known", || !harness.json(&["attach", &id])["agentPid"].is_null());
    let place = harness.json(&["attach", &id]);
    let worktree = place["worktree"].as_str().unwrap();
    assert!(fs::metadata(worktree).unwrap().is_dir());
    assert_eq!(place["branch"], "banksman/t1-build-a-wall");
    assert!(place["keeperPid"].is_number() && place["agentPid"].is_number(), "{place}");
    assert_eq!(harness.ok(&["attach", &id, "-q"]).trim_end(), worktree);
    let text = harness.ok(&["attach", &id]);
    assert!(text.starts_with("run       r1.1, running\nworktree  "), "{text}");
    harness.open_gate();
    harness.wait_for_end("r1.1");
    harness.until("its keeper is gone", || harness.json(&["attach", &id])["keeperPid"].is_null());
    let place = harness.json(&["attach", &id]);
    assert_eq!((&place["agentPid"], &place["session"]), (&json!(null), &json!("s1")));
}
