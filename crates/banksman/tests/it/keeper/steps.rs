//! Runs of a workflow's steps: what they have to leave and to say, with real git and the scripted agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use banksman::exec::agent::{Kind, Setup};
use banksman::exec::plan::{Checks, Evaluator, Plan, Work, Workspace};
use banksman::exec::site::Site;
use banksman_core::failure::{self, Asked, Expects, Judgement};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::{Ended, Evidence, Receipt, SignalSeen};
use banksman_core::workflow::Signal;

use super::world::{World, agent, marked, plan, wait_until};
use crate::git::git_with;
use crate::scripted::scripted_agent;

const SENTINEL: &str = ".workflow/signals/X-1-done.json";

/// A home with a repository, whose root is the mailbox.
struct Yard {
    world: World,
}

impl Yard {
    fn new() -> Self {
        let yard = Self { world: World::new() };
        fs::create_dir_all(yard.repo()).unwrap();
        yard.git(&yard.repo(), &["init", "--quiet", "-b", "main"]);
        yard.git(&yard.repo(), &["config", "core.fsync", "none"]);
        put(&yard.repo().join("README.md"), "hello\n");
        yard.git(&yard.repo(), &["add", "--all"]);
        yard.git(&yard.repo(), &["commit", "--quiet", "-m", "first"]);
        yard
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
    fn plan(&self, name: &str, script: &str, checks: Checks) -> Plan {
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
            brings: Vec::new(),
            retry: Vec::new(),
        });
        let work = agent(&mut plan);
        work.expects = Expects::Change;
        work.setup.command = vec![scripted_agent().display().to_string()];
        work.ask.prompt = script.to_owned();
        work.commit_message = "what was left\n".to_owned();
        work.checks = Checks { timeout_ms: 60_000, mailbox: Some(self.repo()), ..checks };
        plan
    }

    fn run(&self, name: &str, script: &str, checks: Checks) -> Receipt {
        self.world.run(&self.plan(name, script, checks))
    }

    fn files_of_the_branch(&self) -> String {
        self.git(&self.repo(), &["ls-tree", "-r", "--name-only", "banksman/t1"])
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn signalled(signal: Signal) -> Checks {
    Checks { signal: Some(signal), ..Checks::default() }
}

fn sentinel() -> Checks {
    signalled(Signal::SentinelFile { path: SENTINEL.to_owned() })
}

fn evidence(receipt: &Receipt) -> &Evidence {
    receipt.evidence.as_ref().unwrap_or_else(|| panic!("{:?}", receipt.ended))
}

fn seen(receipt: &Receipt) -> &SignalSeen {
    evidence(receipt).signal.as_ref().expect("a signal was demanded")
}

fn judged(receipt: &Receipt) -> Judgement {
    let asked =
        Asked { expects: Expects::Change, task: "t1", branch: "banksman/t1", schema_given: false };
    failure::judge(receipt, &asked)
}

#[track_caller]
fn expect(receipt: &Receipt, outcome: Outcome, detail: &str) {
    let judgement = judged(receipt);
    assert_eq!(judgement.outcome, outcome, "{judgement:?}");
    assert!(judgement.detail.contains(detail), "{judgement:?}");
}

#[test]
fn a_signal_in_the_worktree_is_read_and_taken_away() {
    let yard = Yard::new();
    let script = format!(
        "write a.txt x\nwrite {SENTINEL} {{\"status\":\"done\",\"note\":\"all green\"}}\nsuccess ok"
    );
    let receipt = yard.run("r1.1", &script, sentinel());
    let expected = SignalSeen {
        found: true,
        detail: format!("`{SENTINEL}`"),
        note: Some("all green".to_owned()),
        failed: false,
    };
    assert_eq!(seen(&receipt), &expected);
    expect(&receipt, Outcome::Succeeded, "ok");
    assert!(!yard.worktree().join(SENTINEL).exists());
    let kept = yard.repo().join(".workflow/signals/taken/X-1-done.r1.1.json");
    assert!(fs::read_to_string(kept).unwrap().contains("all green"));
    assert_eq!(yard.files_of_the_branch(), "README.md\na.txt");
    assert_eq!(evidence(&receipt).paths, ["a.txt"]);
}

#[test]
fn a_signal_in_the_mailbox_is_read_and_put_away() {
    let yard = Yard::new();
    let path = yard.repo().join(SENTINEL);
    let folder = path.parent().unwrap().display().to_string();
    let script = format!(
        "write a.txt x\nrun mkdir -p '{folder}' && echo '{{}}' > '{}'\nsuccess ok",
        path.display()
    );
    let receipt = yard.run("r1.1", &script, sentinel());
    assert!(seen(&receipt).found);
    assert!(!path.exists(), "it would be taken for a second one that comes late");
    assert!(yard.repo().join(".workflow/signals/taken/X-1-done.r1.1.json").exists());
}

#[test]
fn a_signal_from_before_the_run_proves_nothing() {
    let yard = Yard::new();
    yard.run("r1.1", "write a.txt x\nsuccess ok", Checks::default());
    for root in [yard.repo(), yard.worktree()] {
        put(&root.join(SENTINEL), "{\"status\":\"done\"}");
    }
    let receipt = yard.run("r1.2", "write b.txt x\nsuccess ok", sentinel());
    assert!(!seen(&receipt).found, "{receipt:?}");
    let words = format!("the signal `{SENTINEL}` was not given");
    expect(&receipt, Outcome::VerifyFailed, &words);
    for root in [yard.repo(), yard.worktree()] {
        assert!(!root.join(SENTINEL).exists());
    }
}

#[test]
fn a_signal_may_say_that_the_step_failed() {
    let yard = Yard::new();
    let script = format!(
        "write a.txt x\nwrite {SENTINEL} {{\"status\":\"blocked\",\"reason\":\"no database\"}}\nsuccess ok"
    );
    let receipt = yard.run("r1.1", &script, sentinel());
    assert!(seen(&receipt).found && seen(&receipt).failed);
    expect(&receipt, Outcome::VerifyFailed, "no database");
}

#[test]
fn a_signal_that_is_just_being_written_is_waited_for() {
    let yard = Yard::new();
    let path = yard.repo().join(SENTINEL);
    let half = "{\"status\":\"done\",\"no";
    let script = format!(
        "write a.txt x\nrun mkdir -p '{0}' && printf '%s' '{half}' > '{0}/X-1-done.json'\nsuccess ok",
        path.parent().unwrap().display()
    );
    yard.world.site.begin(&yard.plan("r1.1", &script, sentinel())).unwrap();
    wait_until("the agent has ended", || {
        yard.world.file("r1.1", "out.jsonl").contains("\"result\"")
    });
    fs::write(&path, format!("{half}te\":\"whole\"}}")).unwrap();
    let receipt = yard.world.receipt("r1.1");
    assert_eq!(seen(&receipt).note.as_deref(), Some("whole"));
}

#[test]
fn a_signal_that_is_never_finished_is_none() {
    let yard = Yard::new();
    let script = format!("write a.txt x\nwrite {SENTINEL} {{\"status\":\nsuccess ok");
    let receipt = yard.run("r1.1", &script, sentinel());
    assert!(!seen(&receipt).found);
    expect(&receipt, Outcome::VerifyFailed, "it is not a whole JSON value");
    assert!(!yard.worktree().join(SENTINEL).exists());
}

#[test]
fn a_mark_counts_in_a_commit_that_the_agent_made_in_this_run() {
    let yard = Yard::new();
    let checks = || signalled(Signal::GitCommit { mark: "[GATE:XG-1-2]".to_owned() });
    let marked = "write a.txt x\ncommit tests [GATE:XG-1-2] are there\nsuccess ok";
    let receipt = yard.run("r1.1", marked, checks());
    assert!(seen(&receipt).found);
    expect(&receipt, Outcome::Succeeded, "ok");

    // Only the commit of the attempt before has it, and the one that is made of what was left.
    let mut plan =
        yard.plan("r1.2", "write b.txt x\ncommit more\nwrite c.txt x\nsuccess ok", checks());
    agent(&mut plan).commit_message = "[GATE:XG-1-2] left over\n".to_owned();
    let receipt = yard.world.run(&plan);
    assert!(evidence(&receipt).committed.is_some());
    assert!(!seen(&receipt).found);
    expect(&receipt, Outcome::VerifyFailed, "`[GATE:XG-1-2]` in the message of a commit");
}

#[test]
fn a_pull_request_is_seen_on_the_remote_and_an_agents_word_is_only_a_hint() {
    let yard = Yard::new();
    let remote = yard.world.path("remote.git").display().to_string();
    yard.git(&yard.repo(), &["clone", "--quiet", "--bare", ".", &remote]);
    yard.git(&yard.repo(), &["remote", "add", "origin", &remote]);
    let link = "t1: https://github.com/o/r/pull/5";
    // Another one's pull request is at the commit that this work starts from.
    yard.git(Path::new(&remote), &["update-ref", "refs/pull/1/head", "main"]);
    let open = |number: u32| format!("run git push -q origin HEAD:refs/pull/{number}/head\n");
    let work = "write a.txt x\ncommit some work\n";
    for (job, remote, script, found) in [
        ("r1.1", Some("origin"), format!("{}success ok", open(2)), false),
        ("r1.2", Some("origin"), format!("{work}success ok"), false),
        ("r1.3", Some("origin"), format!("write b x\nsuccess {link}"), false),
        ("r1.4", Some("origin"), format!("{}write c x\nsuccess ok", open(7)), true),
        ("r1.5", Some("origin"), format!("write d x\ncommit more\n{}success ok", open(12)), true),
        ("r1.6", Some("origin"), "write e x\ncommit even more\nsuccess ok".to_owned(), false),
        ("r1.7", None, "success ok".to_owned(), true),
    ] {
        let mut plan = yard.plan(job, &script, signalled(Signal::PrCreation));
        plan.workspace.as_mut().unwrap().remote = remote.map(str::to_owned);
        let receipt = yard.world.run(&plan);
        let signal = seen(&receipt);
        assert_eq!(signal.found, found, "{job}: {receipt:?}");
        let note = signal.note.as_deref();
        match job {
            "r1.3" => assert!(note.is_some_and(|note| note.contains("is named, but")), "{note:?}"),
            "r1.4" => assert_eq!(note, Some("pull request 7")),
            "r1.5" => assert_eq!(note, Some("pull request 12")),
            _ => assert_eq!(note, None, "{job}"),
        }
    }
    let receipt = yard.run("r1.8", "write x x\nsuccess ok", signalled(Signal::StdoutExit));
    assert_eq!(evidence(&receipt).signal, None);
}

#[test]
fn outputs_must_be_there_and_files_must_have_something_in_them() {
    let yard = Yard::new();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let demanded = || Checks {
        // A check that makes the output itself is no excuse; what is ignored stays when it has run.
        commands: vec!["touch late.txt".to_owned()],
        outputs: texts(&["tests/*.py", "late.txt"]),
        files: texts(&["notes.md"]),
        ..Checks::default()
    };
    let receipt = yard.run(
        "r1.1",
        "write .gitignore late.txt\nwrite tests/a.py x\nrun : > notes.md\nsuccess ok",
        demanded(),
    );
    assert_eq!(evidence(&receipt).missing, ["late.txt", "notes.md (it is empty)"]);
    expect(&receipt, Outcome::VerifyFailed, "late.txt, notes.md (it is empty)");
    let script = "write tests/b.py x\nwrite notes.md x\nwrite late.txt x\nsuccess ok";
    let receipt = yard.run("r1.2", script, demanded());
    assert_eq!(evidence(&receipt).missing, [""; 0]);
    expect(&receipt, Outcome::Succeeded, "ok");
}

/// A signal may be among the outputs, and a step without a repository may have both.
#[test]
fn a_run_without_a_worktree_has_to_leave_the_same() {
    let yard = Yard::new();
    let demanded = || Checks {
        outputs: vec!["a.txt".to_owned(), SENTINEL.to_owned()],
        mailbox: None,
        ..sentinel()
    };
    let whole = format!("write a.txt x\nwrite {SENTINEL} {{}}\nsuccess ok");
    for (job, script, missing) in
        [("r1.1", whole.as_str(), 0), ("r1.2", "write b.txt x\nsuccess ok", 2)]
    {
        let mut plan = yard.plan(job, script, demanded());
        plan.workspace = None;
        let receipt = yard.world.run(&plan);
        assert_eq!(evidence(&receipt).missing.len(), missing, "{receipt:?}");
        assert_eq!(seen(&receipt).found, missing == 0);
    }
    let mut plan = yard.plan("r1.3", "success ok", Checks::default());
    plan.workspace = None;
    assert_eq!(yard.world.run(&plan).evidence, None);
}

#[test]
fn a_criterion_in_prose_is_put_to_the_evaluator() {
    let yard = Yard::new();
    let evaluator = |done: bool| {
        let answer = format!(
            r#"cat > facts; echo '{{"type":"result","status":"success","text":"","answer":{{"done":{done},"reason":"two pages are empty"}}}}'"#
        );
        let command = ["/bin/sh", "-c", &answer].map(str::to_owned).to_vec();
        let setup = Setup {
            kind: Kind::Command,
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
        ("r1.3", None, Outcome::NeedsPerson, "nobody could judge: every page has a text"),
    ] {
        let checks = Checks { criterion: Some(criterion.to_owned()), ..Checks::default() };
        let mut plan = yard.plan(job, &format!("write {job}.txt x\nsuccess ok"), checks);
        agent(&mut plan).evaluator = evaluator;
        expect(&yard.world.run(&plan), outcome, detail);
    }
    let facts = yard.world.file("r1.1", "work/facts");
    assert!(
        facts.starts_with("Look. Is this met?\n\n<data ")
            && facts.contains("\nevery page has a text\n</data "),
        "{facts}"
    );
    // What has failed for itself is not worth the price.
    let checks = Checks {
        criterion: Some(criterion.to_owned()),
        outputs: vec!["gone".to_owned()],
        ..Checks::default()
    };
    let mut plan = yard.plan("r1.4", "write d.txt x\nsuccess ok", checks);
    agent(&mut plan).evaluator = Some(evaluator(true));
    let receipt = yard.world.run(&plan);
    assert_eq!(receipt.opinion, None);
    expect(&receipt, Outcome::VerifyFailed, "gone");
}

#[test]
fn feedback_on_earlier_attempts_is_there_when_the_agent_begins_and_is_never_committed() {
    let yard = Yard::new();
    let at = |name: &str| format!(".workflow/retry-context/{name}");
    put(&yard.repo().join(at("XG-1-2-attempt-1.md")), "the tests are too few\n");
    put(&yard.repo().join(at("XG-9-attempt-1.md")), "not for us\n");
    let script = "run cat .workflow/retry-context/* > seen.txt\nwrite a.txt x\ncommit everything\nsuccess ok";
    let mut plan = yard.plan("r1.1", script, Checks::default());
    plan.workspace.as_mut().unwrap().retry = vec![at("XG-1-2-*.md"), "README.md".to_owned()];
    let receipt = yard.world.run(&plan);
    let seen = fs::read_to_string(yard.worktree().join("seen.txt")).unwrap();
    assert_eq!(seen, "the tests are too few\n");
    assert_eq!(evidence(&receipt).paths, ["a.txt", "seen.txt"]);
    assert_eq!(evidence(&receipt).committed, None, "the agent's commit had no such file");
    assert_eq!(yard.files_of_the_branch(), "README.md\na.txt\nseen.txt");
    let log = yard.world.file("r1.1", "keeper.log");
    assert!(log.contains("`README.md` was not handed over"), "{log}");
}

#[test]
fn a_plan_of_before_is_still_read() {
    let yard = Yard::new();
    let plan = yard.plan("r1.1", "success ok", Checks { mailbox: None, ..Checks::default() });
    let mut value = serde_json::to_value(&plan).unwrap();
    let checks = value["work"]["checks"].as_object_mut().unwrap();
    for key in ["outputs", "files", "criterion", "signal", "mailbox"] {
        assert!(checks.remove(key).is_some(), "{key}");
    }
    let workspace = value["workspace"].as_object_mut().unwrap();
    for key in ["brings", "retry"] {
        assert!(workspace.remove(key).is_some(), "{key}");
    }
    let read: Plan = serde_json::from_value(value).unwrap();
    let Work::Agent(work) = read.work else { panic!("another kind of work") };
    assert_eq!(work.checks, Checks { timeout_ms: 60_000, ..Checks::default() });
}

/// Whether a keeper waits for a lock that somebody else has.
fn waits(yard: &Yard, job: &str) -> bool {
    let marker = yard.world.begun(job).marker;
    marked(&marker).iter().any(|pid| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with("sleep\0")
    })
}

/// The agent of one job is at work until it is told to end; the agent of another one would tell if it met it.
fn shared(yard: &Yard) -> PathBuf {
    let go = yard.world.path("go");
    let script = format!(
        "write busy x\nrun echo here > '{}'\nrun until [ -e '{}' ]; do sleep 0.02; done\nrun rm busy\nwrite a.txt x\nsuccess ok",
        yard.world.path("agent").display(),
        go.display()
    );
    yard.world.site.begin(&yard.plan("r1.1", &script, Checks::default())).unwrap();
    yard.world.wait_for_file("agent");
    go
}

#[test]
fn a_second_task_in_the_same_worktree_waits_and_then_goes_on_from_there() {
    let yard = Yard::new();
    let go = shared(&yard);
    let met = yard.world.path("met");
    let script = format!(
        "run if [ -e busy ]; then touch '{}'; fi\nrun test -e a.txt\nwrite b.txt x\nsuccess ok",
        met.display()
    );
    let mut plan = yard.plan("r2.1", &script, Checks::default());
    plan.task = "t2".to_owned();
    yard.world.site.begin(&plan).unwrap();
    wait_until("the second one waits", || met.exists() || waits(&yard, "r2.1"));
    fs::write(go, "").unwrap();
    assert_eq!(evidence(&yard.world.receipt("r1.1")).paths, ["a.txt"]);
    let second = yard.world.receipt("r2.1");
    assert!(!met.exists(), "both were in the worktree at once");
    assert_eq!(second.ended, Ended::Completed);
    assert_eq!(evidence(&second).notes, [""; 0]);
    assert_eq!(evidence(&second).head_before, evidence(&yard.world.receipt("r1.1")).head);
    assert_eq!(yard.files_of_the_branch(), "README.md\na.txt\nb.txt");
}

#[test]
fn a_clean_up_waits_for_whoever_works_in_the_worktree() {
    let yard = Yard::new();
    let go = shared(&yard);
    let mut plan = yard.plan("c2.9", "", Checks::default());
    plan.work = Work::CleanUp;
    yard.world.site.begin(&plan).unwrap();
    wait_until("the clean-up waits", || !yard.worktree().exists() || waits(&yard, "c2.9"));
    assert!(yard.worktree().join("busy").exists(), "it was taken away from under an agent");
    fs::write(go, "").unwrap();
    let receipt = yard.world.receipt("r1.1");
    expect(&receipt, Outcome::Succeeded, "ok");
    assert_eq!(yard.world.receipt("c2.9").ended, Ended::Completed);
    assert!(!yard.worktree().exists());
    assert_eq!(yard.files_of_the_branch(), "README.md\na.txt");
}

#[test]
fn work_that_cannot_be_brought_together_is_no_run() {
    let yard = Yard::new();
    for (branch, text) in [("one", "1\n"), ("two", "2\n")] {
        yard.git(&yard.repo(), &["switch", "--quiet", "-c", branch, "main"]);
        put(&yard.repo().join("README.md"), text);
        yard.git(&yard.repo(), &["commit", "--quiet", "-am", branch]);
    }
    let mut plan = yard.plan("r1.1", "success ok", Checks::default());
    plan.workspace.as_mut().unwrap().brings = ["one", "gone", "two"].map(str::to_owned).to_vec();
    let receipt = yard.world.run(&plan);
    let Ended::NotPrepared { detail, .. } = &receipt.ended else { panic!("{:?}", receipt.ended) };
    assert!(detail.contains("`two`") && detail.contains("README.md"), "{detail}");
    assert_eq!((receipt.exit, judged(&receipt).outcome), (None, Outcome::NeedsPerson));

    plan.workspace.as_mut().unwrap().brings.pop();
    let mut plan = Plan { job: "r1.2".to_owned(), ..plan };
    agent(&mut plan).ask.prompt = "write a.txt x\nsuccess ok".to_owned();
    let receipt = yard.world.run(&plan);
    assert_eq!((evidence(&receipt).commits, evidence(&receipt).paths.len()), (1, 1));
    let log = yard.world.file("r1.2", "keeper.log");
    assert!(log.contains("there is no branch `gone`"), "{log}");
}
