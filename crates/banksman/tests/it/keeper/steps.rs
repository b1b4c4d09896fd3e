//! Runs of a workflow's steps: what they have to leave and to say, with real git and the scripted
//! agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use banksman::exec::agent::{AgentKind, AgentSetup};
use banksman::exec::job::{Evaluator, JobSpec, JobWork, Verification, Workspace};
use banksman::exec::site::Site;
use banksman_core::failure::{self, Classification, Deliverable, RunExpectation};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{EndCause, Evidence, ObservedSignal, Receipt};
use banksman_core::workflow::Signal;

use super::world::{World, agent, marked, plan, wait_until};
use crate::git::git_with;
use crate::scripted::scripted_agent;

const SENTINEL: &str = ".workflow/signals/X-1-done.json";

/// A home with a repository, whose root is the mailbox.
struct Harness {
    world: World,
}

impl Harness {
    fn new() -> Self {
        let harness = Self { world: World::new() };
        fs::create_dir_all(harness.repo()).unwrap();
        harness.git(&harness.repo(), &["init", "--quiet", "-b", "main"]);
        harness.git(&harness.repo(), &["config", "core.fsync", "none"]);
        put(&harness.repo().join("README.md"), "hello\n");
        harness.git(&harness.repo(), &["add", "--all"]);
        harness.git(&harness.repo(), &["commit", "--quiet", "-m", "first"]);
        harness
    }

    fn repo(&self) -> PathBuf {
        self.world.path("repo")
    }

    fn worktree(&self) -> PathBuf {
        self.world.path("worktrees/repo/t1")
    }

    fn env(&self) -> BTreeMap<String, String> {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        BTreeMap::from([
            pair("HOME", self.world.path("user").display().to_string()),
            pair("PATH", std::env::var("PATH").unwrap()),
            pair("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ])
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        git_with(self.env(), folder, args)
    }

    /// A job of the scripted agent in the worktree.
    fn plan(&self, name: &str, script: &str, checks: Verification) -> JobSpec {
        let mut plan = plan(name, "");
        plan.env = self.env();
        plan.workspace = Some(Workspace {
            task: "t1".to_owned(),
            repo: self.repo(),
            worktree: self.worktree(),
            branch: "banksman/t1".to_owned(),
            base: "main".to_owned(),
            remote: None,
            setup: None,
            spare: self.world.path("worktrees/.spare"),
            merges_in: Vec::new(),
            retry: Vec::new(),
            left_out: Default::default(),
            since: banksman_core::time::Instant(1),
            has_begun: true,
        });
        let work = agent(&mut plan);
        work.expects = Deliverable::Change;
        work.setup.command = vec![scripted_agent().display().to_string()];
        work.ask.prompt = script.to_owned();
        work.commit_message = "what was left\n".to_owned();
        work.checks = Verification { timeout_ms: 60_000, mailbox: Some(self.repo()), ..checks };
        plan
    }

    fn run(&self, name: &str, script: &str, checks: Verification) -> Receipt {
        self.world.run(&self.plan(name, script, checks))
    }

    fn add_remote(&self) -> String {
        let remote = self.world.path("remote.git").display().to_string();
        self.git(&self.repo(), &["clone", "--quiet", "--bare", ".", &remote]);
        self.git(&self.repo(), &["remote", "add", "origin", &remote]);
        remote
    }

    /// Whose name the agents' commits have.
    fn name_author(&self) {
        for (name, value) in [("user.name", "kim"), ("user.email", "kim@example.com")] {
            self.git(&self.repo(), &["config", name, value]);
        }
    }

    fn files_of_the_branch(&self) -> String {
        self.git(&self.repo(), &["ls-tree", "-r", "--name-only", "banksman/t1"])
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn signalled(signal: Signal) -> Verification {
    Verification { signal: Some(signal), ..Verification::default() }
}

fn sentinel() -> Verification {
    signalled(Signal::SentinelFile { path: SENTINEL.to_owned() })
}

fn evidence(receipt: &Receipt) -> &Evidence {
    receipt.evidence.as_ref().unwrap_or_else(|| panic!("{:?}", receipt.ended))
}

fn seen(receipt: &Receipt) -> &ObservedSignal {
    evidence(receipt).signal.as_ref().expect("a signal was demanded")
}

fn judged(receipt: &Receipt) -> Classification {
    let asked = RunExpectation { expects: Deliverable::Change, schema_given: false };
    failure::classify(receipt, &asked)
}

#[track_caller]
fn expect(receipt: &Receipt, outcome: Outcome, detail: &str) {
    let classification = judged(receipt);
    assert_eq!(classification.outcome, outcome, "{classification:?}");
    assert!(classification.detail.contains(detail), "{classification:?}");
}

#[test]
fn a_signal_in_the_worktree_is_read_and_taken_away() {
    let harness = Harness::new();
    let script = format!(
        "write a.txt x\nwrite {SENTINEL} {{\"status\":\"done\",\"note\":\"all green\"}}\nsuccess ok"
    );
    let receipt = harness.run("r1.1", &script, sentinel());
    let expected = ObservedSignal {
        found: true,
        detail: format!("`{SENTINEL}`"),
        note: Some("all green".to_owned()),
        failed: false,
    };
    assert_eq!(seen(&receipt), &expected);
    expect(&receipt, Outcome::Succeeded, "ok");
    assert!(!harness.worktree().join(SENTINEL).exists());
    let kept = harness.repo().join(".workflow/signals/taken/X-1-done.r1.1.json");
    assert!(fs::read_to_string(kept).unwrap().contains("all green"));
    assert_eq!(harness.files_of_the_branch(), "README.md\na.txt");
    assert_eq!(evidence(&receipt).paths, ["a.txt"]);
}

#[test]
fn a_signal_in_the_mailbox_is_read_and_put_away() {
    let harness = Harness::new();
    let path = harness.repo().join(SENTINEL);
    let folder = path.parent().unwrap().display().to_string();
    let script = format!(
        "write a.txt x\nrun mkdir -p '{folder}' && echo '{{}}' > '{}'\nsuccess ok",
        path.display()
    );
    let receipt = harness.run("r1.1", &script, sentinel());
    assert!(seen(&receipt).found);
    assert!(!path.exists(), "it would be taken for a second one that comes late");
    assert!(harness.repo().join(".workflow/signals/taken/X-1-done.r1.1.json").exists());
}

#[test]
fn a_signal_from_before_the_run_proves_nothing() {
    let harness = Harness::new();
    harness.run("r1.1", "write a.txt x\nsuccess ok", Verification::default());
    for root in [harness.repo(), harness.worktree()] {
        put(&root.join(SENTINEL), "{\"status\":\"done\"}");
    }
    let receipt = harness.run("r1.2", "write b.txt x\nsuccess ok", sentinel());
    assert!(!seen(&receipt).found, "{receipt:?}");
    let words = format!("the signal `{SENTINEL}` was not given");
    expect(&receipt, Outcome::VerifyFailed, &words);
    for root in [harness.repo(), harness.worktree()] {
        assert!(!root.join(SENTINEL).exists());
    }
}

#[test]
fn a_signal_may_say_that_the_step_failed() {
    let harness = Harness::new();
    let script = format!(
        "write a.txt x\nwrite {SENTINEL} {{\"status\":\"blocked\",\"reason\":\"no database\"}}\nsuccess ok"
    );
    let receipt = harness.run("r1.1", &script, sentinel());
    assert!(seen(&receipt).found && seen(&receipt).failed);
    expect(&receipt, Outcome::VerifyFailed, "no database");
}

#[test]
fn a_signal_that_is_just_being_written_is_waited_for() {
    let harness = Harness::new();
    let path = harness.repo().join(SENTINEL);
    let half = "{\"status\":\"done\",\"no";
    let script = format!(
        "write a.txt x\nrun mkdir -p '{0}' && printf '%s' '{half}' > '{0}/X-1-done.json'\nsuccess ok",
        path.parent().unwrap().display()
    );
    harness.world.site.begin(&harness.plan("r1.1", &script, sentinel())).unwrap();
    wait_until("the agent has ended", || {
        harness.world.file("r1.1", "out.jsonl").contains("\"result\"")
    });
    fs::write(&path, format!("{half}te\":\"whole\"}}")).unwrap();
    let receipt = harness.world.receipt("r1.1");
    assert_eq!(seen(&receipt).note.as_deref(), Some("whole"));
}

#[test]
fn a_signal_that_is_never_finished_is_none() {
    let harness = Harness::new();
    let script = format!("write a.txt x\nwrite {SENTINEL} {{\"status\":\nsuccess ok");
    let receipt = harness.run("r1.1", &script, sentinel());
    assert!(!seen(&receipt).found);
    expect(&receipt, Outcome::VerifyFailed, "it is not a complete JSON value");
    assert!(!harness.worktree().join(SENTINEL).exists());
}

#[test]
fn a_mark_counts_in_a_commit_that_the_agent_made_in_this_run() {
    let harness = Harness::new();
    let checks = || signalled(Signal::GitCommit { mark: "[GATE:XG-1-2]".to_owned() });
    let marked = "write a.txt x\ncommit tests [GATE:XG-1-2] are there\nsuccess ok";
    let receipt = harness.run("r1.1", marked, checks());
    assert!(seen(&receipt).found);
    expect(&receipt, Outcome::Succeeded, "ok");

    // Only the commit of the attempt before has it, and the one that is made of what was left.
    let mut plan =
        harness.plan("r1.2", "write b.txt x\ncommit more\nwrite c.txt x\nsuccess ok", checks());
    agent(&mut plan).commit_message = "[GATE:XG-1-2] left over\n".to_owned();
    let receipt = harness.world.run(&plan);
    assert!(evidence(&receipt).committed.is_some());
    assert!(!seen(&receipt).found);
    expect(&receipt, Outcome::VerifyFailed, "`[GATE:XG-1-2]` in the message of a commit");
}

/// It is waited for, because forges need a while to publish one.
#[test]
fn a_pull_request_that_only_the_agent_names_is_none() {
    let harness = Harness::new();
    harness.add_remote();
    let script = "write b x\nsuccess t1: https://github.com/o/r/pull/5";
    let mut plan = harness.plan("r1.1", script, signalled(Signal::PrCreation));
    plan.workspace.as_mut().unwrap().remote = Some("origin".to_owned());
    let receipt = harness.world.run(&plan);
    let signal = seen(&receipt);
    assert!(!signal.found, "{receipt:?}");
    let note = signal.note.as_deref();
    assert!(note.is_some_and(|note| note.contains("the agent named")), "{note:?}");
}

#[test]
fn a_pull_request_is_seen_on_the_remote() {
    let harness = Harness::new();
    let remote = harness.add_remote();
    // Another one's pull request is at the commit that this work starts from.
    harness.git(Path::new(&remote), &["update-ref", "refs/pull/1/head", "main"]);
    let open = |number: u32| format!("run git push -q origin HEAD:refs/pull/{number}/head\n");
    let work = "write a.txt x\ncommit some work\n";
    for (job, remote, script, found) in [
        ("r1.1", Some("origin"), format!("{}success ok", open(2)), false),
        ("r1.2", Some("origin"), format!("{work}success ok"), false),
        ("r1.4", Some("origin"), format!("{}write c x\nsuccess ok", open(7)), true),
        ("r1.5", Some("origin"), format!("write d x\ncommit more\n{}success ok", open(12)), true),
        ("r1.6", Some("origin"), "write e x\ncommit even more\nsuccess ok".to_owned(), false),
        ("r1.7", None, "success ok".to_owned(), true),
    ] {
        let mut plan = harness.plan(job, &script, signalled(Signal::PrCreation));
        plan.workspace.as_mut().unwrap().remote = remote.map(str::to_owned);
        let receipt = harness.world.run(&plan);
        let signal = seen(&receipt);
        assert_eq!(signal.found, found, "{job}: {receipt:?}");
        let note = signal.note.as_deref();
        match job {
            "r1.4" => assert_eq!(note, Some("pull request 7")),
            "r1.5" => assert_eq!(note, Some("pull request 12")),
            _ => assert_eq!(note, None, "{job}"),
        }
    }
    let receipt = harness.run("r1.8", "write x x\nsuccess ok", signalled(Signal::StdoutExit));
    assert_eq!(evidence(&receipt).signal, None);
}

#[test]
fn outputs_must_be_there_and_files_must_have_something_in_them() {
    let harness = Harness::new();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let demanded = || Verification {
        // A check that makes the output itself is no excuse; what is ignored stays when it has run.
        commands: vec!["touch late.txt".to_owned()],
        outputs: texts(&["tests/*.py", "late.txt"]),
        files: texts(&["notes.md"]),
        ..Verification::default()
    };
    let receipt = harness.run(
        "r1.1",
        "write .gitignore build/\nwrite tests/a.py x\nrun : > notes.md\nsuccess ok",
        demanded(),
    );
    assert_eq!(evidence(&receipt).missing, ["late.txt", "notes.md (empty)"]);
    expect(&receipt, Outcome::VerifyFailed, "late.txt, notes.md (empty)");
    let script = "write tests/b.py x\nwrite notes.md x\nwrite late.txt x\nsuccess ok";
    let receipt = harness.run("r1.2", script, demanded());
    assert_eq!(evidence(&receipt).missing, [""; 0]);
    expect(&receipt, Outcome::Succeeded, "ok");
}

/// The next step gets nothing of a worktree but its commits.
#[test]
fn an_output_counts_only_if_the_commit_has_it() {
    let harness = Harness::new();
    let demanded = |outputs: &[&str]| Verification {
        outputs: outputs.iter().map(|output| (*output).to_owned()).collect(),
        files: vec!["build/notes.md".to_owned()],
        ..Verification::default()
    };
    let script = "write .gitignore build/\nwrite build/report.log x\nwrite build/notes.md x\n\
                  run ln -s build/report.log link; mkdir docs; ln -s docs way\nwrite docs/a.md x\n\
                  success ok";
    let outputs = ["build/*.log", "./build/report.log", "link", "way/a.md", "way", "docs/*"];
    let receipt = harness.run("r1.1", script, demanded(&outputs));
    let ignored =
        |name: &str| format!("{name} (ignored by .gitignore:1, so that the commit lacks it)");
    let lacks = ["build/notes.md", "build/*.log", "./build/report.log", "link"].map(ignored);
    let missing = &evidence(&receipt).missing;
    assert_eq!(missing[0], "way", "a folder is no file");
    assert_eq!(missing[1..4], lacks[..3]);
    assert_eq!(missing[4..], ["link (not in the commit)"]);
    expect(&receipt, Outcome::VerifyFailed, "build/notes.md (ignored by .gitignore:1");
}

/// Who finds the outputs of others has made none; who has made them before may leave them.
#[test]
fn an_agent_that_changes_nothing_has_no_outputs() {
    let harness = Harness::new();
    let demanded =
        || Verification { outputs: vec!["README.md".to_owned()], ..Verification::default() };
    let mut plan = harness.plan("r1.1", "success ok", demanded());
    agent(&mut plan).expects = Deliverable::Anything;
    let receipt = harness.world.run(&plan);
    assert_eq!(evidence(&receipt).missing, ["README.md (as it was before the run)"]);
    let asked = RunExpectation { expects: Deliverable::Anything, schema_given: false };
    assert_eq!(failure::classify(&receipt, &asked).outcome, Outcome::VerifyFailed);
    let receipt = harness.run("r1.2", "write README.md new\nsuccess ok", demanded());
    expect(&receipt, Outcome::Succeeded, "ok");
    let mut plan = harness.plan("r1.3", "success ok", demanded());
    agent(&mut plan).expects = Deliverable::Anything;
    let receipt = harness.world.run(&plan);
    assert_eq!(evidence(&receipt).missing, [""; 0]);
}

/// A commit of others that the agent takes in does not speak for its step.
#[test]
fn a_mark_in_the_commit_of_others_does_not_count() {
    let harness = Harness::new();
    let repo = harness.repo().display().to_string();
    let script = format!(
        "run cd '{repo}' && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m '[GATE:XG-1-2]'\n\
         run git merge -q --ff-only main\nwrite a.txt x\ncommit mine\nsuccess ok"
    );
    let mark = Signal::GitCommit { mark: "[GATE:XG-1-2]".to_owned() };
    let receipt = harness.run("r1.1", &script, signalled(mark));
    assert!(!seen(&receipt).found, "{receipt:?}");
    assert_eq!(evidence(&receipt).commits, 1);
}

/// A signal may be among the outputs, and a step without a repository may have both.
#[test]
fn a_run_without_a_worktree_has_to_leave_the_same() {
    let harness = Harness::new();
    let demanded = || Verification {
        outputs: vec!["a.txt".to_owned(), SENTINEL.to_owned()],
        mailbox: None,
        ..sentinel()
    };
    let whole = format!("write a.txt x\nwrite {SENTINEL} {{}}\nsuccess ok");
    for (job, script, missing) in
        [("r1.1", whole.as_str(), 0), ("r1.2", "write b.txt x\nsuccess ok", 2)]
    {
        let mut plan = harness.plan(job, script, demanded());
        plan.workspace = None;
        let receipt = harness.world.run(&plan);
        assert_eq!(evidence(&receipt).missing.len(), missing, "{receipt:?}");
        assert_eq!(seen(&receipt).found, missing == 0);
    }
    let mut plan = harness.plan("r1.3", "success ok", Verification::default());
    plan.workspace = None;
    assert_eq!(harness.world.run(&plan).evidence, None);
}

#[test]
fn a_criterion_in_prose_is_put_to_the_evaluator() {
    let harness = Harness::new();
    let evaluator = |done: bool| {
        let answer = format!(
            r#"cat > facts; echo '{{"type":"result","status":"success","text":"","answer":{{"done":{done},"reason":"two pages are empty"}}}}'"#
        );
        let command = ["/bin/sh", "-c", &answer].map(str::to_owned).to_vec();
        let setup = AgentSetup {
            kind: AgentKind::Command,
            command,
            model: None,
            env: BTreeMap::new(),
            pass: Vec::new(),
        };
        Evaluator { setup, prompt: "Look. {evidence}".to_owned(), timeout_ms: 60_000 }
    };
    let criterion = "every page has a text";
    for (job, evaluator, outcome, detail) in [
        ("r1.1", Some(evaluator(true)), Outcome::Succeeded, "ok"),
        ("r1.2", Some(evaluator(false)), Outcome::VerifyFailed, "two pages are empty"),
        ("r1.3", None, Outcome::NeedsPerson, "no evaluator has judged: every page has a text"),
    ] {
        let checks =
            Verification { criterion: Some(criterion.to_owned()), ..Verification::default() };
        let mut plan = harness.plan(job, &format!("write {job}.txt x\nsuccess ok"), checks);
        agent(&mut plan).evaluator = evaluator;
        expect(&harness.world.run(&plan), outcome, detail);
    }
    let facts = harness.world.file("r1.1", "work/facts");
    assert!(
        facts.starts_with("Look. Is this met?\n\n<data ")
            && facts.contains("\nevery page has a text\n</data "),
        "{facts}"
    );
    // What has failed for itself is not worth the price.
    let checks = Verification {
        criterion: Some(criterion.to_owned()),
        outputs: vec!["gone".to_owned()],
        ..Verification::default()
    };
    let mut plan = harness.plan("r1.4", "write d.txt x\nsuccess ok", checks);
    agent(&mut plan).evaluator = Some(evaluator(true));
    let receipt = harness.world.run(&plan);
    assert_eq!(receipt.opinion, None);
    expect(&receipt, Outcome::VerifyFailed, "gone");
}

#[test]
fn feedback_on_earlier_attempts_is_there_when_the_agent_begins_and_is_never_committed() {
    let harness = Harness::new();
    let at = |name: &str| format!(".workflow/retry-context/{name}");
    put(&harness.repo().join(at("XG-1-2-attempt-1.md")), "the tests are too few\n");
    put(&harness.repo().join(at("XG-9-attempt-1.md")), "not for us\n");
    let script = "run cat .workflow/retry-context/* > seen.txt\nwrite a.txt x\ncommit everything\nsuccess ok";
    let mut plan = harness.plan("r1.1", script, Verification::default());
    plan.workspace.as_mut().unwrap().retry = vec![at("XG-1-2-*.md"), "README.md".to_owned()];
    let receipt = harness.world.run(&plan);
    let seen = fs::read_to_string(harness.worktree().join("seen.txt")).unwrap();
    assert_eq!(seen, "the tests are too few\n");
    assert_eq!(evidence(&receipt).paths, ["a.txt", "seen.txt"]);
    assert_eq!(evidence(&receipt).committed, None, "the agent's commit had no such file");
    assert_eq!(harness.files_of_the_branch(), "README.md\na.txt\nseen.txt");
    let log = harness.world.file("r1.1", "keeper.log");
    assert!(log.contains("`README.md` was not copied"), "{log}");
}

#[test]
fn a_plan_of_before_is_still_read() {
    let harness = Harness::new();
    let plan = harness.plan(
        "r1.1",
        "success ok",
        Verification { mailbox: None, ..Verification::default() },
    );
    let mut value = serde_json::to_value(&plan).unwrap();
    let checks = value["work"]["checks"].as_object_mut().unwrap();
    for key in ["outputs", "files", "criterion", "signal", "mailbox"] {
        assert!(checks.remove(key).is_some(), "{key}");
    }
    let workspace = value["workspace"].as_object_mut().unwrap();
    for key in ["merges_in", "retry"] {
        assert!(workspace.remove(key).is_some(), "{key}");
    }
    let read: JobSpec = serde_json::from_value(value).unwrap();
    let JobWork::Agent(work) = read.work else { panic!("another kind of work") };
    assert_eq!(work.checks, Verification { timeout_ms: 60_000, ..Verification::default() });
}

/// Whether a keeper waits for a lock that somebody else has.
fn waits(harness: &Harness, job: &str) -> bool {
    let marker = harness.world.begun(job).marker;
    marked(&marker).iter().any(|pid| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with("sleep\0")
    })
}

/// The agent of one job is at work until it is told to end; the agent of another one would tell if
/// it met it.
fn shared(harness: &Harness) -> PathBuf {
    let go = harness.world.path("go");
    let script = format!(
        "write busy x\nrun echo here > '{}'\nrun until [ -e '{}' ]; do sleep 0.02; done\nrun rm busy\nwrite a.txt x\nsuccess ok",
        harness.world.path("agent").display(),
        go.display()
    );
    harness.world.site.begin(&harness.plan("r1.1", &script, Verification::default())).unwrap();
    harness.world.wait_for_file("agent");
    go
}

#[test]
fn a_second_task_in_the_same_worktree_waits_and_then_goes_on_from_there() {
    let harness = Harness::new();
    let go = shared(&harness);
    let met = harness.world.path("met");
    let script = format!(
        "run if [ -e busy ]; then touch '{}'; fi\nrun test -e a.txt\nwrite b.txt x\nsuccess ok",
        met.display()
    );
    let mut plan = harness.plan("r2.1", &script, Verification::default());
    plan.task = "t2".to_owned();
    harness.world.site.begin(&plan).unwrap();
    wait_until("the second one waits", || met.exists() || waits(&harness, "r2.1"));
    fs::write(go, "").unwrap();
    assert_eq!(evidence(&harness.world.receipt("r1.1")).paths, ["a.txt"]);
    let second = harness.world.receipt("r2.1");
    assert!(!met.exists(), "both were in the worktree at once");
    assert_eq!(second.ended, EndCause::Completed);
    assert_eq!(evidence(&second).notes, [""; 0]);
    assert_eq!(evidence(&second).head_before, evidence(&harness.world.receipt("r1.1")).head);
    assert_eq!(harness.files_of_the_branch(), "README.md\na.txt\nb.txt");
}

#[test]
fn a_clean_up_waits_for_whoever_works_in_the_worktree() {
    let harness = Harness::new();
    let go = shared(&harness);
    let mut plan = harness.plan("c2.9", "", Verification::default());
    plan.work = JobWork::CleanUp;
    harness.world.site.begin(&plan).unwrap();
    wait_until("the clean-up waits", || !harness.worktree().exists() || waits(&harness, "c2.9"));
    assert!(harness.worktree().join("busy").exists(), "it was taken away from under an agent");
    fs::write(go, "").unwrap();
    let receipt = harness.world.receipt("r1.1");
    expect(&receipt, Outcome::Succeeded, "ok");
    assert_eq!(harness.world.receipt("c2.9").ended, EndCause::Completed);
    assert!(!harness.worktree().exists());
    assert_eq!(harness.files_of_the_branch(), "README.md\na.txt");
}

/// The agent is told which branches conflict, and its run counts only if it joins them.
#[test]
fn an_agent_joins_what_conflicts_or_has_not_succeeded() {
    let harness = Harness::new();
    for (branch, text) in [("one", "1\n"), ("two", "2\n")] {
        harness.git(&harness.repo(), &["switch", "--quiet", "-c", branch, "main"]);
        put(&harness.repo().join("README.md"), text);
        harness.git(&harness.repo(), &["commit", "--quiet", "-am", branch]);
    }
    harness.name_author();
    let marked = "run git merge --quiet two || git commit --quiet --all --message marks";
    let left = "run git merge --quiet two || true";
    for (number, (script, unmerged)) in [
        ("", "`two` conflicts in README.md"),
        (left, "`two` conflicts in README.md"),
        (marked, "conflict markers are left in README.md"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = format!("{script}\nsuccess it is joined");
        let job = format!("r1.{}", number + 1);
        let file = harness.world.path(&format!("{job}.script"));
        fs::write(&file, &script).unwrap();
        let mut plan = harness.plan(&job, "", Verification::default());
        agent(&mut plan).setup.command.push(file.display().to_string());
        plan.workspace.as_mut().unwrap().merges_in = vec!["one".to_owned(), "two".to_owned()];
        agent(&mut plan).expects = Deliverable::Anything;
        agent(&mut plan).join = Some("Join these: {conflicts}".to_owned());
        let receipt = harness.world.run(&plan);
        let outcome = judged(&receipt).outcome;
        assert_eq!(evidence(&receipt).unmerged[0], unmerged, "{number}");
        assert_eq!(outcome, Outcome::VerifyFailed, "{number}");
    }
}

/// A repository may have files with such lines, which its tests read.
#[test]
fn markers_that_a_joined_commit_has_are_no_conflict() {
    const FIXTURE: &str = "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n";
    let harness = Harness::new();
    harness.name_author();
    put(&harness.repo().join("README.md"), FIXTURE);
    harness.git(&harness.repo(), &["commit", "--quiet", "-am", "a fixture"]);
    for (branch, text) in [("one", "1\n"), ("two", "2\n")] {
        harness.git(&harness.repo(), &["switch", "--quiet", "-c", branch, "main"]);
        put(&harness.repo().join("README.md"), &format!("{text}{FIXTURE}"));
        harness.git(&harness.repo(), &["commit", "--quiet", "-am", branch]);
    }
    let joined = harness.world.path("joined");
    put(&joined, &format!("1\n2\n{FIXTURE}"));
    let script = format!(
        "run git merge --quiet two || cp '{}' README.md\nsuccess it is joined",
        joined.display()
    );
    let file = harness.world.path("script");
    put(&file, &script);
    let mut plan = harness.plan("r1.1", "", Verification::default());
    agent(&mut plan).setup.command.push(file.display().to_string());
    plan.workspace.as_mut().unwrap().merges_in = vec!["one".to_owned(), "two".to_owned()];
    agent(&mut plan).join = Some("{conflicts}".to_owned());
    let receipt = harness.world.run(&plan);
    assert_eq!(evidence(&receipt).unmerged, [""; 0]);
    expect(&receipt, Outcome::Succeeded, "it is joined");
    assert!(evidence(&receipt).committed.is_some());
}

#[test]
fn work_that_cannot_be_brought_together_is_no_run() {
    let harness = Harness::new();
    for (branch, text) in [("one", "1\n"), ("two", "2\n")] {
        harness.git(&harness.repo(), &["switch", "--quiet", "-c", branch, "main"]);
        put(&harness.repo().join("README.md"), text);
        harness.git(&harness.repo(), &["commit", "--quiet", "-am", branch]);
    }
    let mut plan = harness.plan("r1.1", "success ok", Verification::default());
    plan.workspace.as_mut().unwrap().merges_in = ["one", "gone", "two"].map(str::to_owned).to_vec();
    let receipt = harness.world.run(&plan);
    let EndCause::NotPrepared { detail, .. } = &receipt.ended else {
        panic!("{:?}", receipt.ended)
    };
    assert!(detail.contains("`two`") && detail.contains("README.md"), "{detail}");
    assert_eq!((receipt.exit, judged(&receipt).outcome), (None, Outcome::NeedsPerson));

    plan.workspace.as_mut().unwrap().merges_in.pop();
    let mut plan = JobSpec { job: "r1.2".to_owned(), ..plan };
    agent(&mut plan).ask.prompt = "write a.txt x\nsuccess ok".to_owned();
    let receipt = harness.world.run(&plan);
    assert_eq!((evidence(&receipt).commits, evidence(&receipt).paths.len()), (1, 1));
    let log = harness.world.file("r1.2", "keeper.log");
    assert!(log.contains("there is no branch `gone`"), "{log}");
}
