//! Who may do what: every command, tried as every kind of caller, against the table.

use banksman::config::{hash_of_token, token_of};
use banksman::ops::principal::Operation::{self, *};
use banksman::ops::principal::{Access, Principal, RunCaller};
use banksman::store::Store;
use banksman::store::conn::{Options, Target};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::limits::LONGEST_LEASE;
use banksman_core::machine::Actor;
use banksman_core::time::Instant;

use super::reference::commands;
use super::sandbox::{PROGRAM, Ran, Sandbox};
use crate::store::acts::claim_first;

const KEY: &str = "the-key-of-r1.1";
/// The one that the agent gets, made from the key.
const TOKEN: &str = "c12a8a45b3b716ca0b5cb66f35d9dda0fe08d0a4b2ae74860fcd072571e1318c";

/// Every command, with arguments that would let a person do it, and the operation of the table that
/// it needs; none for what touches no store and no agent. `ID` stands for a task.
const COMMANDS: &[(&str, &[&str], Option<Operation>)] = &[
    ("demo", &[], Some(RunAgents)),
    ("init", &[], Some(SetUpProject)),
    ("add", &["more"], Some(AddTasks)),
    ("list", &[], Some(ReadStore)),
    ("show", &["ID"], Some(ReadTask)),
    ("move", &["ID", "cancelled", "--set", "reason=x"], Some(MoveTask)),
    ("override", &["ID", "merged=true", "--reason", "x"], Some(OverrideFacts)),
    ("history", &["ID"], Some(ReadTask)),
    ("why", &["ID"], Some(ReadTask)),
    ("status", &[], Some(ReadStore)),
    ("log", &["ID"], Some(ReadTask)),
    ("attach", &["ID"], Some(ReadTask)),
    ("up", &[], Some(RunAgents)),
    ("down", &["--agents"], Some(RunAgents)),
    ("pulse", &[], Some(RunAgents)),
    ("pause", &[], Some(RunAgents)),
    ("resume", &[], Some(RunAgents)),
    ("retry", &["ID"], Some(MoveTask)),
    ("unblock", &["ID"], Some(MoveTask)),
    ("cancel", &["ID", "no"], Some(MoveTask)),
    ("escalate", &["ID", "help"], Some(MoveTask)),
    ("decisions", &[], Some(ReadStore)),
    ("decisions show", &["ID"], Some(ReadTask)),
    ("decisions approve", &["ID"], Some(AnswerDecision)),
    ("decisions allow", &["ID"], Some(AnswerDecision)),
    ("decisions resume", &["ID"], Some(AnswerDecision)),
    ("decisions changes", &["ID", "no"], Some(AnswerDecision)),
    ("decisions back", &["ID"], Some(AnswerDecision)),
    ("decisions backburner", &["ID"], Some(AnswerDecision)),
    ("decisions cancel", &["ID", "no"], Some(AnswerDecision)),
    ("decisions merge", &["ID"], Some(AnswerDecision)),
    ("decisions answer", &["ID", "approve"], Some(AnswerDecision)),
    ("decisions snooze", &["ID", "1h"], Some(AnswerDecision)),
    ("decisions undo", &[], Some(AnswerDecision)),
    // Without a terminal it says so first.
    ("decisions triage", &[], None),
    ("daily", &["--print"], Some(ReadStore)),
    ("daily", &[], Some(AnswerDecision)),
    ("policy show", &[], None),
    ("policy lint", &[], None),
    ("policy test", &["ls"], None),
    ("policy request", &["rm -rf /", "--task", "ID"], Some(AskPermission)),
    ("policy allow", &["ID"], Some(AnswerDecision)),
    ("batch create", &["b"], Some(RunAgents)),
    ("batch set", &["b"], Some(RunAgents)),
    ("batch list", &[], Some(ReadStore)),
    ("batch pause", &["b"], Some(RunAgents)),
    ("batch resume", &["b"], Some(RunAgents)),
    ("workers", &["--forget", "n"], Some(RunAgents)),
    ("workers", &[], Some(ReadStore)),
    ("accounts list", &[], Some(ReadStore)),
    ("accounts resume", &["a"], Some(RunAgents)),
    ("changes", &[], Some(ReadStore)),
    ("check", &[], Some(ReadStore)),
    ("lifecycle list", &[], None),
    ("lifecycle show", &["autonomous"], None),
    ("lifecycle lint", &[], None),
    ("lifecycle graph", &["--task", "ID"], Some(ReadTask)),
    ("workflow lint", &["w.yaml"], None),
    ("workflow simulate", &["w.yaml"], None),
    ("workflow run", &["w.yaml", "--detach"], Some(AddTasks)),
    ("workflow status", &[], Some(ReadStore)),
    ("workflow next", &[], Some(ReadStore)),
    ("workflow report", &["ID", "done"], Some(MoveTask)),
    ("workflow graph", &[], Some(ReadStore)),
    ("workflow schema", &[], None),
    ("prompts list", &[], None),
    ("prompts show", &["work"], None),
    ("prompts lint", &[], None),
    ("prompts render", &["ID"], Some(RunAgents)),
    ("audit verify", &[], Some(ReadStore)),
    ("audit export", &["ID"], Some(ReadTask)),
    ("audit export", &[], Some(ReadStore)),
    ("import", &["/dev/null"], Some(ImportTasks)),
    ("export", &[], Some(ReadStore)),
    ("agents read", &["claude", "/dev/null"], None),
    ("config get", &["store"], None),
    ("config list", &[], None),
    ("config path", &[], None),
    ("completion", &["bash"], None),
    ("man", &[], None),
    ("help", &[], None),
    ("version", &[], None),
    ("mcp", &[], None),
    ("acp-client", &[], None),
];

/// Two tasks; t1 is worked on by r1.1, whose token is known.
fn with_run() -> Sandbox {
    let sandbox = Sandbox::new();
    for title in ["mine", "another's"] {
        sandbox.add(title);
    }
    let store = Store::open(&Target::Sqlite(sandbox.store()), &Options::default()).unwrap();
    let now = banksman::clock::now();
    claim_first(&store, TaskId(1), now);
    let run = RunId { task: TaskId(1), epoch: 1 };
    assert_eq!(token_of(KEY), TOKEN);
    assert!(store.set_token(run, &hash_of_token(KEY)).unwrap());
    sandbox
}

/// What tells the program who is calling.
type Identity = (&'static str, &'static str);
const OWN_TOKEN: Identity = ("BANKSMAN_TOKEN", TOKEN);

fn run_as(sandbox: &Sandbox, who: Option<Identity>, words: &[&str], task: &str) -> Ran {
    let words = words.iter().map(|word| if *word == "ID" { task } else { *word });
    let mut command = sandbox.command(&words.collect::<Vec<_>>());
    command.envs(who);
    sandbox.finish(command.output().unwrap())
}

fn in_run(sandbox: &Sandbox, command: &str, args: &[&str], task: &str) -> Ran {
    run_as(sandbox, Some(OWN_TOKEN), &[&[command], args].concat(), task)
}

/// Refused by the table, and not by a lifecycle.
fn is_refused(ran: &Ran) -> bool {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    said.contains("(BM-E011)") && !said.contains("refused (BM-E011)")
}

/// Tries every command as one caller, on its own task and on another one, against the table.
fn check_commands(principal: &Principal, who: Option<Identity>) {
    let sandbox = with_run();
    let workflow = "workflow: { id: w, name: W }\nsteps:\n  - { id: a, name: A, agent: { type: implementor }, outputs: [a] }\n";
    sandbox.file("w.yaml", workflow);
    let before = sandbox.ok(&["history", "t2", "--json"]);
    let is_run = matches!(principal, Principal::Run(_));
    for (command, args, operation) in COMMANDS {
        let words: Vec<&str> = command.split(' ').chain(args.iter().copied()).collect();
        for task in [TaskId(2), TaskId(1)] {
            let about = args.contains(&"ID").then_some(task);
            let is_forbidden = operation.is_some_and(|it| principal.may(it, about).is_err());
            // Both would work on and on. The demo has a store of its own and acts as a person on
            // it.
            let is_endless = match *command {
                "up" => !is_forbidden,
                "demo" => !is_run,
                _ => false,
            };
            if is_endless {
                continue;
            }
            let ran = run_as(&sandbox, who, &words, &task.to_string());
            assert_eq!(is_refused(&ran), is_forbidden, "{who:?} {words:?} {task}: {ran}");
        }
    }
    if is_run {
        assert_eq!(sandbox.ok(&["history", "t2", "--json"]), before, "nothing was changed");
        assert_eq!(sandbox.ok(&["list", "-q"]), "t2\nt1\n", "nothing was added");
    }
}

fn run_of(own: Option<RunId>) -> Principal {
    let actor = "agent:w1".parse().unwrap();
    Principal::Run(RunCaller { own, name: None, actor })
}

const OWN: RunId = RunId { task: TaskId(1), epoch: 1 };

#[test]
fn a_person_is_tried_with_every_command() {
    check_commands(&Principal::Person(Actor::human("kim")), None);
}

#[test]
fn a_worker_is_tried_with_every_command() {
    let actor = "worker:ada".parse().unwrap();
    check_commands(&Principal::Worker(actor), Some(("BANKSMAN_ACTOR", "worker:ada")));
}

#[test]
fn a_run_is_tried_with_every_command() {
    check_commands(&run_of(Some(OWN)), Some(OWN_TOKEN));
}

#[test]
fn a_run_with_a_junk_token_is_tried_with_every_command() {
    check_commands(&run_of(None), Some(("BANKSMAN_TOKEN", "junk")));
}

#[test]
fn a_run_without_a_token_is_tried_with_every_command() {
    check_commands(&run_of(None), Some(("BANKSMAN_RUN", "r1.1:4711")));
}

/// A command that is missing above would be untested.
#[test]
fn every_command_is_tried() {
    let sandbox = Sandbox::empty();
    let all = commands(&sandbox);
    let is_group = |path: &Vec<String>| {
        all.iter().any(|other| other.len() > path.len() && other.starts_with(path))
    };
    let leaves = all.iter().filter(|path| !path.is_empty() && !is_group(path));
    let names: Vec<String> = leaves.map(|path| path.join(" ")).collect();
    let tried = |name: &String| COMMANDS.iter().any(|(command, _, _)| command == name);
    let missing: Vec<&String> = names.iter().filter(|name| !tried(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The table itself: what no kind of caller but a person may do, and that a run never has more than
/// its own task, and the name of the project that it is in.
#[test]
fn every_operation_has_an_answer_for_every_caller() {
    let own = OWN;
    let callers = [
        Principal::Person(Actor::human("kim")),
        Principal::Worker("worker:ada".parse().unwrap()),
        Principal::System,
        run_of(Some(own)),
        run_of(None),
    ];
    for operation in Operation::ALL.iter().filter(|operation| **operation != LocateProject) {
        let all = |caller: &Principal| caller.may(*operation, Some(TaskId(2))).is_ok();
        let may: Vec<bool> = callers.iter().map(all).collect();
        assert!(may[0], "a person may {}", operation.what());
        let is_for_people = [AnswerDecision, OverrideFacts].contains(operation);
        assert_eq!(may[2], !is_for_people, "the system: {}", operation.what());
        assert!(!may[3] && !may[4], "a run may {} of others", operation.what());
        let is_own = operation.access(&callers[3]) == Access::Own;
        assert_eq!(callers[3].may(*operation, Some(own.task)).is_ok(), is_own);
        let keeper = Principal::Keeper(own);
        assert!(keeper.may(*operation, Some(TaskId(2))).is_err());
        let renews = *operation == RenewLease;
        assert_eq!(keeper.may(*operation, Some(own.task)).is_ok(), renews);
        assert!(
            callers[3].may(*operation, None).is_err()
                && callers[4].may(*operation, Some(own.task)).is_err()
        );
    }
    let worker =
        Operation::ALL.iter().filter(|operation| callers[1].may(**operation, None).is_ok());
    let names: Vec<String> = worker.map(|operation| format!("{operation:?}")).collect();
    assert_eq!(
        names,
        [
            "ReadTask",
            "ReadStore",
            "LocateProject",
            "AddTasks",
            "MoveTask",
            "AskPermission",
            "FollowUp"
        ]
    );
}

/// Only a keeper renews a lease: it has a key that its agent does not have.
#[test]
fn an_agent_does_not_renew_a_lease() {
    let sandbox = with_run();
    for run in ["r1.1", "r2.1"] {
        let ran = in_run(&sandbox, "renew", &[run, "--ttl", "1h", "--progressed"], "t1");
        assert!(is_refused(&ran), "{ran}");
    }
    let renew = ["renew", "r1.1", "--ttl", "99999d", "--progressed"];
    let as_run = |run: &str, key: Option<&str>, args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("BANKSMAN_RUN", run).envs(key.map(|key| ("BANKSMAN_KEEPER_KEY", key)));
        sandbox.finish(command.output().unwrap())
    };
    // It drops its token, or takes it for the key.
    for key in [None, Some(TOKEN), Some("junk")] {
        let ran = as_run("r1.1:4711", key, &renew);
        assert!(is_refused(&ran), "{key:?}: {ran}");
    }
    assert!(is_refused(&as_run("r2.1:4711", Some(KEY), &renew)));
    let renewed = as_run("r1.1:4711", Some(KEY), &renew);
    let until: Instant = renewed.stdout.trim().parse().unwrap();
    assert!(until.since(banksman::clock::now()) <= LONGEST_LEASE, "{renewed}");
    for args in [&["show", "t1"][..], &["list"], &["cancel", "t1", "no"], &["add", "more"]] {
        assert!(is_refused(&as_run("r1.1:4711", Some(KEY), args)), "{args:?}");
    }
    sandbox.ok(&["escalate", "t1", "help"]);
    assert_eq!(as_run("r1.1:4711", Some(KEY), &renew).stdout, "lost\n", "it stops at once");
}

/// A run that has read the token of another one is still itself.
#[test]
fn the_token_of_another_run_proves_nothing() {
    let sandbox = with_run();
    let as_run = |run: &str| {
        let mut command = sandbox.command(&["show", "t1"]);
        command.env("BANKSMAN_TOKEN", TOKEN).env("BANKSMAN_RUN", run);
        sandbox.finish(command.output().unwrap())
    };
    assert_eq!(as_run("r1.1:4711").code, Some(0));
    assert!(is_refused(&as_run("r2.1:4711")));
}

/// Other people and the system wait for keys that a run can guess.
#[test]
fn a_run_takes_no_key_that_somebody_else_will_use() {
    let sandbox = with_run();
    let moved = in_run(&sandbox, "move", &["ID", "decomposing", "--key", "undo-d1"], "t1");
    assert_eq!(moved.code, Some(0), "{moved}");
    sandbox.ok(&["move", "t2", "cancelled", "--set", "reason=x", "--key", "undo-d1"]);
}

#[cfg(target_os = "linux")]
mod needs_namespaces {
    use super::*;

    /// Who hides its ancestors has some to hide.
    #[test]
    fn a_caller_without_readable_ancestors_counts_as_a_run() {
        let sandbox = with_run();
        let mut shell = std::process::Command::new("unshare");
        sandbox.prepare(&mut shell);
        let hide = "mount -t tmpfs none /proc && exec \"$0\" list";
        let listed = shell.args(["-rm", "sh", "-c", hide, PROGRAM]).output().unwrap();
        let ran = sandbox.finish(listed);
        assert!(is_refused(&ran), "{ran}");
    }
}

/// Whoever is checked does not choose the checks.
#[test]
fn an_agent_does_not_loosen_the_checks_on_its_work() {
    let sandbox = with_run();
    for field in ["verify=[\"true\"]", "allowed_paths=[\"**\"]", "denied_paths=[]"] {
        let ran = in_run(&sandbox, "move", &["ID", "decomposing", "--set", field], "t1");
        let name = field.split('=').next().unwrap();
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.contains(&format!("{name}: may be set only by")), "{ran}");
    }
}

#[test]
fn a_run_creates_no_store_and_a_worker_answers_nothing_in_the_note() {
    let sandbox = with_run();
    let new = sandbox.path().join("new.db");
    let ran = in_run(&sandbox, "add", &["x", "--store", new.to_str().unwrap()], "t1");
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(!new.exists());
    let mut daily = sandbox.command(&["daily"]);
    let ran = sandbox.finish(daily.env("BANKSMAN_ACTOR", "worker:ada").output().unwrap());
    assert!(ran.stderr.contains("(BM-E011)"), "{ran}");
}
