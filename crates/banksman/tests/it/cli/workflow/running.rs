//! Workflows are run, looked at and driven by hand, and what is said at the wrong time is refused
//! with what would fit.

use std::fs;
use std::time::UNIX_EPOCH;

use banksman_core::time::Instant;
use insta::assert_snapshot;
use serde_json::Value;

use super::{TWO_STEPS, with_steps, workflow};
use crate::cli::harness::{DONE, Harness};
use crate::cli::sandbox::Sandbox;
use crate::engine::harness::Up;

/// The steps are driven by hand, and all that they should leave behind is there.
fn by_hand() -> Sandbox {
    let sandbox = with_steps();
    sandbox.ok(&["workflow", "run", "search.yaml", "--manual"]);
    sandbox.file("test.py", "assert find");
    sandbox.file("search.py", "find");
    sandbox
}

#[test]
fn before_the_first_workflow_there_is_nothing_to_say() {
    let sandbox = with_steps();
    for args in
        [&["status"][..], &["next"], &["graph"], &["report", "X-1", "done"], &["status", "search"]]
    {
        let ran = workflow(&sandbox, args);
        assert_eq!(
            ran.to_string(),
            "exit 1\n-- stderr\nerror: no workflow was started here yet (BM-E038)\nhint: start one: banksman workflow run .workflow/specs/NAME.yaml\n",
            "{args:?}"
        );
    }
    assert_eq!(sandbox.json(&["workflow", "status", "--all"])["workflows"], serde_json::json!([]));
}

#[test]
fn a_start_that_cannot_be_is_refused_as_a_whole() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["run", "nowhere.yaml"]), @"
    exit 1
    -- stderr
    error: failed to read `nowhere.yaml` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
    assert_snapshot!(workflow(&sandbox, &["run", "t1"]), @"
    exit 1
    -- stderr
    error: failed to read `t1` (BM-E004)
      because: No such file or directory (os error 2)
    hint: expected a file; to continue the task, run `banksman up`
    ");
    sandbox.file(
        "later.yaml",
        TWO_STEPS.replace(
            "{ id: search, name: Search }",
            "{ id: later, params: { version: { type: string } } }",
        ),
    );
    assert_snapshot!(workflow(&sandbox, &["run", "later.yaml"]), @"
    exit 1
    -- stderr
    error: the parameter `version` has no value (BM-E018)
     --> later.yaml:1:34
      |
    1 | workflow: { id: later, params: { version: { type: string } } }
      |                                  ^
      help: give the parameter `version` a value, or a `default`
    hint: fix what `banksman workflow lint FILE` reports
    ");
    assert_snapshot!(workflow(&sandbox, &["run", "search.yaml", "search.yaml"]), @"
    exit 1
    -- stderr
    error: the workflow `search` is given twice (BM-E003)
    hint: leave one of the files out
    ");
    sandbox.file(
        "after.yaml",
        "workflow: { id: after }\nsteps:\n  - { id: a, needs: [website/publish], outputs: [x] }\n",
    );
    assert_snapshot!(workflow(&sandbox, &["run", "search.yaml", "after.yaml"]), @"
    exit 1
    -- stderr
    error: the workflow `website` was never started in this project (BM-E038)
    hint: start it first, or both together: banksman workflow run website.yaml …
    ");
    assert_eq!(sandbox.json(&["list"])["tasks"], serde_json::json!([]));
}

#[test]
fn a_workflow_is_started_once_and_looked_at() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["run", "search.yaml", "--detach", "--key", "k"]), @"
    exit 0
    -- stdout
    ● t1  Search  running  (0 of 2 steps)
       TASK  STEP             STATE    RUNS  FAILED  WHY
    ◌  t2    X-1 write-tests  pending  0     0
    ◌  t3    X-2 implement    pending  0     0
    -- stderr
    t1  Search: 2 steps
    next: banksman up · banksman workflow status
    ");
    assert_snapshot!(workflow(&sandbox, &["run", "search.yaml", "--detach", "--key", "k", "-q"]), @"
    exit 0
    -- stdout
    t1
    ");
    assert_snapshot!(workflow(&sandbox, &["status", "search"]), @"
    exit 0
    -- stdout
    ● t1  Search  running  (0 of 2 steps)
       TASK  STEP             STATE    RUNS  FAILED  WHY
    ◌  t2    X-1 write-tests  pending  0     0
    ◌  t3    X-2 implement    pending  0     0
    -- stderr
    next: banksman workflow next t1 · banksman workflow graph t1
    ");
    assert_snapshot!(workflow(&sandbox, &["status", "--all"]), @"
    exit 0
    -- stdout
    TASK  WORKFLOW  STATE    STARTED              NAME
    t1    search    running  0000-00-00 00:00:00  Search
    ");
    assert_snapshot!(workflow(&sandbox, &["next"]), @"
    exit 0
    -- stdout
    t2  X-1 write-tests: it waits for an agent; `up` starts it
    ");
    let document = sandbox.json(&["workflow", "status"]);
    assert_eq!(
        (&document["id"], &document["workflow"], &document["done"]),
        (&"t1".into(), &"search".into(), &0.into())
    );
    assert_eq!(document["steps"][1]["gate"], "XG-2");
    assert_eq!(document["steps"][1]["openNeeds"], 1);
}

/// No engine is at work here: whoever does the steps by hand needs one only where the work goes
/// back, and at the end.
#[test]
fn a_workflow_is_driven_by_hand() {
    let sandbox = by_hand();
    let first = workflow(&sandbox, &["next", "-q"]);
    assert_snapshot!(first, @"
    exit 0
    -- stdout
    t2  X-1 write-tests: do it as its test-writer
        The workflow:

        <data 37bf10e38fa1>
        Search
        </data 37bf10e38fa1>

        The step X-1, to be done as its test-writer:

        <data 492a6fd57b28>
        write-tests
        </data 492a6fd57b28>

        The step must produce these files:

        - `test.py`

      banksman workflow report X-1 done --workflow t1
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "X-1", "done"]), @"
    exit 0
    -- stdout
    ◎ t2  checking → gate(auto) by system (proven)
    -- stderr
    next: banksman workflow next t1
    ");
    let next = sandbox.json(&["workflow", "next"]);
    assert_eq!(next["next"][0]["kind"], "review");
    assert_eq!(
        next["next"][0]["report"],
        serde_json::json!([
            "banksman workflow report XG-1 pass --as reviewer --workflow t1",
            "banksman workflow report XG-1 fail --note '…' --as reviewer --workflow t1",
        ])
    );
    sandbox.ok(&["workflow", "report", "XG-1", "pass", "--as", "reviewer:claude"]);
    sandbox.ok(&["workflow", "report", "X-2", "done"]);
    assert_eq!(sandbox.json(&["workflow", "next"])["next"][0]["kind"], "decide");
    sandbox.ok(&["workflow", "report", "XG-2", "fail", "--note", "no index"]);
    // The same words, and what was said against it.
    let said = "
    Gates sent the step back before. Their feedback, the latest last:

    <data 3d963a025150>
    ## Gate XG-2, failure 1

    no index
    </data 3d963a025150>
";
    let (words, report) = first.stdout.split_once("\n  banksman").expect("what to type");
    let again = workflow(&sandbox, &["next", "-q"]);
    assert_eq!(again.stdout, format!("{words}{said}\n  banksman{report}"));
    assert_snapshot!(workflow(&sandbox, &["status", "-q"]), @"
    exit 0
    -- stdout
    ● t1  Search  running  (0 of 2 steps)
       TASK  STEP             STATE        RUNS  FAILED  WHY
    !  t2    X-1 write-tests  interactive  0     0
    ◌  t3    X-2 implement    pending      0     1       no index
    ");
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let sandbox = by_hand();
    assert_snapshot!(workflow(&sandbox, &["report", "X-1", "pass"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      to: no transition from interactive by `pass`
      allowed now: checking, passed, gate(auto), gate(notify), gate(human), given_up
    hint: `X-1` is interactive; human may report now: done, abort
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "X-2", "done"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      to: no transition from pending by `signal`
      allowed now: interactive, gate(human), given_up
    hint: `X-2` is pending and waits for other steps; human may report now: abort
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "X-1", "abort"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      reason: Say why it is given up
      allowed now: checking, passed, gate(auto), gate(notify), gate(human), given_up
    hint: add --note 'WHY'
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "X-11", "done"]), @"
    exit 1
    -- stderr
    error: there is no step or gate `X-11` (BM-E038)
    hint: did you mean `X-1`?
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "X-1", "finished"]), @"
    exit 2
    -- stderr
    error: invalid value 'finished' for '<WORD>'
      [possible values: done, pass, fail, veto, abort, retry, skip]

    For more information, try '--help'.
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "X-1", "done", "--workflow", "serch"]), @"
    exit 1
    -- stderr
    error: no workflow `serch` was started (BM-E038)
    hint: did you mean `search`?
    ");
    sandbox.ok(&["workflow", "report", "X-1", "done"]);
    assert_snapshot!(workflow(&sandbox, &["report", "XG-1", "fail"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      feedback: Say what has to change
      allowed now: passed, sent_back, gate(human), given_up
    hint: add --note 'WHY'
    ");
    assert_snapshot!(workflow(&sandbox, &["report", "XG-1", "pass", "--as", "agent:ada"]), @"
    exit 1
    -- stderr
    error: refused (BM-E011)
      actor: agent may not move it to passed; human, reviewer, system may
    hint: `X-1` is gate(auto), and agent has nothing to report on it; see `banksman why t2`
    ");
    let refused = workflow(&sandbox, &["report", "XG-1", "veto", "--json"]);
    assert_eq!(
        (refused.code, &refused.document()["success"]),
        (Some(1), &false.into()),
        "{refused}"
    );
}

/// Ids are those of the file. A number may be the id of a step as well as that of a task: the file
/// goes first.
#[test]
fn a_step_is_found_by_all_its_names() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "one.yaml",
        "workflow: { id: one }\nsteps:\n  - { id: 3, outputs: [a] }\n  - { id: b, outputs: [b] }\n",
    );
    sandbox.file("a", "");
    sandbox.file("b", "");
    let begun = sandbox.run(&["workflow", "run", "one.yaml", "--manual"]).to_string();
    assert!(
        begun.trim_end().ends_with("next: banksman workflow next"),
        "no `up` is needed: {begun}"
    );
    let done =
        |word: &str| sandbox.json(&["workflow", "report", word, "done"])["task"]["id"].clone();
    assert_eq!((done("3"), done("t3")), ("t2".into(), "t3".into()));
    // An older workflow is told from the one that was started last.
    sandbox.ok(&["workflow", "run", "one.yaml", "--manual"]);
    assert_eq!(sandbox.json(&["workflow", "next"])["workflow"], "t4");
    assert_eq!(done("b"), "t6");
    let next = sandbox.json(&["workflow", "next", "t4"]);
    assert_eq!(next["next"][0]["report"][0], "banksman workflow report 3 done --workflow t4");
    assert_eq!(workflow(&sandbox, &["report", "b", "done", "--workflow", "t1"]).code, Some(1));
}

/// The same ids are used in many repositories.
#[test]
fn a_report_stays_in_its_repository() {
    let sandbox = by_hand();
    let other = sandbox.path().join("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    let there =
        |args: &[&str]| sandbox.finish(sandbox.command(args).current_dir(&other).output().unwrap());
    assert_eq!(there(&["init"]).code, Some(0));
    let ran = there(&["workflow", "report", "X-1", "done"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("no workflow was started here"), "{ran}");
    assert_eq!(there(&["workflow", "report", "t2", "done", "--in", "../repo"]).code, Some(0));
}

/// Whoever says that a step is done has to have done it: nothing else looks at what a hand has
/// made.
#[test]
fn a_step_that_is_not_done_is_not_believed() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "add.yaml",
        "workflow: { id: add }
steps:
  - { id: A-1, outputs: [test.sh], success_criterion: file test.sh exists and is non-empty }
  - { id: A-2, needs: [A-1], outputs: [add.sh], success_criterion: sh test.sh exits 0 }
",
    );
    sandbox.ok(&["workflow", "run", "add.yaml", "--manual"]);
    let refused = |step: &str| {
        let ran = workflow(&sandbox, &["report", step, "done"]);
        assert_eq!(ran.code, Some(1), "{ran}");
        ran.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let missing = "error: `A-1` is not done: missing output: test.sh";
    assert_eq!(refused("A-1"), format!("{missing} (BM-E003)"));
    sandbox.file("test.sh", "");
    assert_eq!(refused("A-1"), format!("{missing} (empty) (BM-E003)"));
    sandbox.file("test.sh", "set -x; test $(sh add.sh 2 3) = 5");
    sandbox.ok(&["workflow", "report", "A-1", "done"]);
    sandbox.file("add.sh", "echo $(($1 - $2))");
    let ran = workflow(&sandbox, &["report", "A-2", "done"]);
    assert!(ran.stderr.contains("`A-2` is not done: `sh test.sh` exited with code 1:"), "{ran}");
    assert!(ran.stderr.contains("+ test -1 = 5"), "{ran}");
    let elsewhere = sandbox.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("test.sh"), "test $(sh add.sh 2 3) = 5").unwrap();
    fs::write(elsewhere.join("add.sh"), "echo $(($1 + $2))").unwrap();
    sandbox.ok(&["workflow", "report", "A-2", "done", "--in", "../elsewhere"]);
    // What is over is not looked at again.
    sandbox.file("test.sh", "");
    assert!(workflow(&sandbox, &["report", "A-1", "done"]).stderr.contains("refused"));
}

/// Whatever its command takes: the step is done when it has passed, not when it was begun.
#[test]
fn a_report_is_dated_by_its_end() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "add.yaml",
        "workflow: { id: add }
steps: [{ id: A-1, success_criterion: touch when exits 0 }]
",
    );
    sandbox.ok(&["workflow", "run", "add.yaml", "--manual"]);
    let done = sandbox.command(&["workflow", "report", "A-1", "done", "--json"]).output().unwrap();
    let done: Value = serde_json::from_slice(&done.stdout).unwrap();
    let touched = fs::metadata(sandbox.repo().join("when")).unwrap().modified().unwrap();
    let touched = touched.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let touched = Instant(i64::try_from(touched).unwrap());
    let told: Instant = serde_json::from_value(done["transition"]["ts"].clone()).unwrap();
    assert!(told >= touched, "{told} is before {touched}");
}

#[test]
fn a_checkout_is_named_only_where_it_is_looked_at() {
    let sandbox = Sandbox::new();
    sandbox.file("add.yaml", "workflow: { id: add }\nsteps: [{ id: A-1 }]\n");
    sandbox.ok(&["workflow", "run", "add.yaml", "--manual"]);
    let refused = workflow(&sandbox, &["report", "A-1", "abort", "--in", "."]);
    assert!(refused.stderr.contains("`--in` works only with `done`"), "{refused}");
    assert_eq!(refused.code, Some(2), "{refused}");
    sandbox.ok(&["workflow", "report", "A-1", "done", "--in", "."]);
}

#[test]
fn five_hundred_steps_can_still_be_read() {
    let sandbox = Sandbox::new();
    let after = |number: usize| {
        number.checked_sub(1).map(|before| format!(", needs: [s{before}]")).unwrap_or_default()
    };
    let steps: String = (0..500)
        .map(|number| format!("  - {{ id: s{number}, outputs: [o{number}]{} }}\n", after(number)))
        .collect();
    sandbox.file("big.yaml", format!("workflow: {{ id: big }}\nsteps:\n{steps}"));
    sandbox.ok(&["workflow", "run", "big.yaml", "--manual"]);
    sandbox.file("o0", "");
    sandbox.ok(&["workflow", "report", "s0", "done"]);
    sandbox.ok(&["workflow", "report", "s1", "abort", "--note", "it rains"]);
    assert_snapshot!(workflow(&sandbox, &["status", "-q"]), @"
    exit 0
    -- stdout
    ! t1  big  waiting: a step was given up  (1 of 500 steps)
       TASK  STEP  STATE     RUNS  FAILED  WHY
    ✗  t3    s1    given_up  0     0       it rains
    not shown: 1 passed, 498 pending; show all: banksman workflow status t1 --full
    ");
    assert_eq!(sandbox.ok(&["workflow", "status", "--full"]).lines().count(), 502);
    assert_eq!(sandbox.json(&["workflow", "status"])["steps"].as_array().unwrap().len(), 500);
}

#[test]
fn many_steps_at_once_are_not_all_explained() {
    let sandbox = Sandbox::new();
    let items: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    sandbox.file(
        "wide.yaml",
        format!(
            "workflow: {{ id: wide }}\nsteps:\n  - {{ id: s, for_each: [{}] }}\n",
            items.join(", ")
        ),
    );
    sandbox.ok(&["workflow", "run", "wide.yaml", "--manual"]);
    let next = sandbox.ok(&["workflow", "next"]);
    assert!(next.ends_with("... and 50 more (--json shows all)\n"), "{next}");
    assert!(next.contains("banksman workflow report 's[9]' done --workflow t1"), "{next}");
    assert_eq!(sandbox.json(&["workflow", "next"])["next"].as_array().unwrap().len(), 60);
    assert!(workflow(&sandbox, &["report", "s", "done"]).stderr.contains("did you mean `s[0]`?"));
}

/// `run FILE && …` goes on only when the workflow is complete.
#[test]
fn the_exit_code_says_how_it_ended() {
    let harness = Harness::new();
    harness.file("w.yaml", "workflow: { id: w, merge: false }\nsteps:\n  - { id: a }\n");
    harness.script("t2", &[DONE]);
    let ran = workflow(&harness, &["run", "w.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains("✓ t1  w  complete  (1 of 1 steps, $0.05)"), "{ran}");
    let gated = "workflow: { id: w, merge: false }\nsteps:\n  - { id: a, gate: g }\ngates:\n  - { id: g, reviewer: { level: human }, on_pass: { next_step: DONE } }\n";
    harness.file("w.yaml", gated);
    harness.script("t4", &[DONE]);
    let ran = workflow(&harness, &["run", "w.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    assert!(ran.stderr.contains("next: banksman workflow next"), "{ran}");
}

/// Whoever has no agent yet would wait for nothing to happen.
#[test]
fn a_run_without_any_agent_says_so() {
    let harness = Harness::new();
    harness.file(".banksman/config.toml", "lifecycle = \"demo\"\n");
    harness.file("w.yaml", "workflow: { id: w, merge: false }\nsteps:\n  - { id: a }\n");
    let log = harness.path().join("run.log");
    let mut command = harness.command(&["workflow", "run", "w.yaml"]);
    command.env("PATH", harness.path());
    let run = Up::start(command, &log);
    let says = "no agent found on the PATH; install one, or set one up as [workers.NAME]";
    harness.until("it says so", || fs::read_to_string(&log).is_ok_and(|said| said.contains(says)));
    harness.ok(&["down"]);
    let (code, said) = run.wait();
    assert_eq!(code, Some(3), "{said}");
}
