//! What an agent may know, and where secrets must never be found.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use banksman::store::conn::Target;

use super::super::cases::Agent;
use super::super::model_server::Reply;
use super::cases::agent_pid;
use super::harness::{Harness, TASK, Wishes};
use crate::store::world::World;

const KEY: &str = "planted-key-5f1c9a";
const PASSWORD: &str = "planted-password-77ab02";
const FOREIGN: &str = "planted-token-c03d4e";
/// More than any run leaves.
const FILES: usize = 20_000;

/// The agent has its own key and nothing else of ours; neither the key nor the store's password is
/// written anywhere.
pub(super) fn are_kept(agent: &Agent) {
    let world = World::postgres();
    let store = address(&world);
    let key = key_of(agent);
    let mut gate = None;
    let scenario = |worktree: &Path| {
        let (started, go) = (worktree.with_file_name("started"), worktree.with_file_name("go"));
        // An agent that prints its own key has it in its log, so it is asked for everything else.
        let wait = format!(
            "env | grep -v ^{key}=; echo right > answer.txt; touch {}; until [ -e {} ]; do sleep 0.05; done",
            started.display(),
            go.display()
        );
        gate = Some((started, go));
        vec![(agent.shell)(&wait), Reply::text("done")]
    };
    let mut planted = BTreeMap::from([("GITHUB_TOKEN".to_owned(), FOREIGN.to_owned())]);
    planted.insert("BANKSMAN_STORE".to_owned(), store);
    planted.insert(key.to_owned(), KEY.to_owned());
    let wishes = Wishes { env: planted, ..Wishes::default() };
    let harness = Harness::new(agent, wishes, scenario);
    let (started, go) = gate.expect("the scenario was asked for");
    harness.pulse_until("working");
    harness.wait_until("the tool runs", || started.exists());
    let pid = agent_pid(&harness, "r1.1").as_raw_nonzero();
    assert_environment(&harness, pid.get(), key);
    assert_not_in_arguments();
    fs::write(go, "").unwrap();
    harness.assert_landed();
    let told = harness.asked(1);
    assert!(told.contains("BANKSMAN_TASK=t1"), "the tool has shown its environment: {told}");
    for secret in [PASSWORD, FOREIGN, "BANKSMAN_STORE"] {
        assert!(!told.contains(secret), "`{secret}` reached the model: {told}");
    }
    for args in [&["history", TASK][..], &["show", TASK], &["export"], &["audit", "export"]] {
        let text = harness.ok(args);
        let found = [KEY, PASSWORD, FOREIGN].iter().find(|secret| text.contains(**secret));
        assert_eq!(found, None, "in what `{args:?}` prints");
    }
    for folder in ["runs", "past"] {
        let mode = fs::metadata(harness.home().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others can look into {folder}");
    }
    assert!(files_below(&harness.home().join("past")) > 5, "the runs have left their files");
    files_below(&harness.home());
}

/// The variable by which the agent gets its key.
fn key_of(agent: &Agent) -> &'static str {
    match agent.kind.as_str() {
        "claude" => "ANTHROPIC_API_KEY",
        "codex" => "SCRIPTED_KEY",
        "gemini" => "GEMINI_API_KEY",
        other => panic!("{other} is not among the agents of this case"),
    }
}

/// The schema of this world, as the program is told of it, with a password that the server does not
/// ask for.
fn address(world: &World) -> String {
    drop(world.open());
    let schema = world.options.schema.as_ref().expect("tests have a schema of their own");
    let Target::Postgres(_) = &world.target else { panic!("it is on PostgreSQL") };
    let url = env::var("BANKSMAN_TEST_PG").expect("the world was made of it");
    let (scheme, rest) = url.split_once("://").expect("it is a URL");
    let (user, rest) = rest.split_once('@').expect("it names a user");
    let and = if rest.contains('?') { '&' } else { '?' };
    format!("{scheme}://{user}:{PASSWORD}@{rest}{and}options=-csearch_path%3D{schema}")
}

/// Exactly what is allowed, by name: what everybody gets, what the worker is passed, what its
/// adapter sets, and the run's.
fn assert_environment(harness: &Harness, pid: i32, key: &str) {
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let variables: BTreeMap<&str, &str> =
        environment.split('\0').filter_map(|one| one.split_once('=')).collect();
    assert_eq!(variables.get(key), Some(&KEY), "its own key");
    let everybody = ["PATH", "HOME", "TMPDIR", "USER", "LANG", "TZ", "TERM"];
    let run = ["BANKSMAN_RUN", "BANKSMAN_RUN_FOLDER", "BANKSMAN_TASK", "BANKSMAN_TOKEN"];
    let adapter = [
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_RETRIES",
        "IS_SANDBOX",
        "GEMINI_CLI_NO_RELAUNCH",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    ];
    let allowed: BTreeSet<&str> = everybody.into_iter().chain(run).chain(adapter).collect();
    let more =
        |name: &&&str| !allowed.contains(**name) && !harness.passed.iter().any(|it| it == **name);
    assert_eq!(variables.keys().filter(more).collect::<Vec<_>>(), [&""; 0]);
    for name in everybody.iter().chain(&run) {
        assert!(variables.contains_key(name), "{name} is missing");
    }
}

/// Everybody on the machine can read arguments.
fn assert_not_in_arguments() {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    for line in lines {
        let line = String::from_utf8_lossy(&line);
        for secret in [KEY, PASSWORD, FOREIGN] {
            assert!(!line.contains(secret), "`{secret}` is an argument: {line}");
        }
    }
}

/// Looks through every file; answers how many there were.
fn files_below(folder: &Path) -> usize {
    let mut folders = vec![folder.to_owned()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            }
            if !kind.is_file() {
                continue;
            }
            count += 1;
            assert!(count < FILES, "more files than any run leaves");
            let bytes = fs::read(entry.path()).unwrap();
            for secret in [KEY, PASSWORD, FOREIGN].map(str::as_bytes) {
                let is_there = bytes.windows(secret.len()).any(|part| part == secret);
                assert!(!is_there, "a secret is in {}", entry.path().display());
            }
        }
    }
    count
}
