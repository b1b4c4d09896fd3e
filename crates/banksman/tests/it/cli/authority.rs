//! What an agent's run may do: every command, tried with the token of a run.

use banksman::ops::principal::{Access, Operation, Principal, RunCaller};
use banksman::store::Store;
use banksman::store::conn::{Options, Target};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::limits::LONGEST_LEASE;
use banksman_core::machine::Actor;
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::reference::commands;
use super::sandbox::{PROGRAM, Ran, Sandbox};
use crate::store::acts::claim_first;

const TOKEN: &str = "the-token-of-r1.1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    /// On the run's own task; refused on any other. `ID` stands for the task.
    OwnTask,
    Never,
    /// It touches no store.
    Always,
}
use Allowed::{Always, Never, OwnTask};

/// Every command that does something, with arguments that would let a person do it.
const COMMANDS: &[(&str, &[&str], Allowed)] = &[
    ("demo", &[], Never),
    ("init", &[], Never),
    ("add", &["more"], Never),
    ("list", &[], Never),
    ("show", &["ID"], OwnTask),
    ("move", &["ID", "cancelled", "--set", "reason=x"], OwnTask),
    ("history", &["ID"], OwnTask),
    ("why", &["ID"], OwnTask),
    ("status", &[], Never),
    ("log", &["ID"], OwnTask),
    ("attach", &["ID"], OwnTask),
    ("up", &[], Never),
    ("down", &["--agents"], Never),
    ("pulse", &[], Never),
    ("pause", &[], Never),
    ("resume", &[], Never),
    ("retry", &["ID"], OwnTask),
    ("unblock", &["ID"], OwnTask),
    ("cancel", &["ID", "no"], OwnTask),
    ("escalate", &["ID", "help"], OwnTask),
    ("decisions", &[], Never),
    ("decisions show", &["ID"], Never),
    ("decisions approve", &["ID"], Never),
    ("decisions allow", &["ID"], Never),
    ("decisions resume", &["ID"], Never),
    ("decisions changes", &["ID", "no"], Never),
    ("decisions back", &["ID"], Never),
    ("decisions backburner", &["ID"], Never),
    ("decisions cancel", &["ID", "no"], Never),
    ("decisions merge", &["ID"], Never),
    ("decisions answer", &["ID", "approve"], Never),
    ("decisions snooze", &["ID", "1h"], Never),
    ("decisions undo", &[], Never),
    // Without a terminal it says so first.
    ("decisions triage", &[], Always),
    ("daily", &["--print"], Never),
    ("policy show", &[], Always),
    ("policy lint", &[], Always),
    ("policy test", &["ls"], Always),
    ("policy request", &["rm -rf /", "--task", "ID"], OwnTask),
    ("policy allow", &["ID"], Never),
    ("batch create", &["b"], Never),
    ("batch set", &["b"], Never),
    ("batch list", &[], Never),
    ("batch pause", &["b"], Never),
    ("batch resume", &["b"], Never),
    ("workers", &["--forget", "n"], Never),
    ("accounts list", &[], Never),
    ("accounts resume", &["a"], Never),
    ("changes", &[], Never),
    ("check", &[], Never),
    ("lifecycle list", &[], Always),
    ("lifecycle show", &["autonomous"], Always),
    ("lifecycle lint", &[], Always),
    ("lifecycle graph", &["--task", "ID"], OwnTask),
    ("workflow lint", &["w.yaml"], Always),
    ("workflow simulate", &["w.yaml"], Always),
    ("workflow run", &["w.yaml"], Never),
    ("workflow status", &[], Never),
    ("workflow next", &[], Never),
    ("workflow report", &["ID", "done"], OwnTask),
    ("workflow graph", &[], Never),
    ("workflow schema", &[], Always),
    ("prompts list", &[], Always),
    ("prompts show", &["work"], Always),
    ("prompts lint", &[], Always),
    ("prompts render", &["ID"], Never),
    ("audit verify", &[], Never),
    ("audit export", &["ID"], OwnTask),
    ("import", &["/dev/null"], Never),
    ("export", &[], Never),
    ("agents read", &["claude", "/dev/null"], Always),
    ("config get", &["store"], Always),
    ("config list", &[], Always),
    ("config path", &[], Always),
    ("completion", &["bash"], Always),
    ("man", &[], Always),
    ("help", &[], Always),
    ("version", &[], Always),
    ("mcp", &[], Always),
    ("acp-client", &[], Always),
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
    assert!(store.set_token(run, &Sha256::digest(TOKEN)).unwrap());
    sandbox
}

fn in_run(sandbox: &Sandbox, command: &str, args: &[&str], task: &str) -> Ran {
    let words = command
        .split(' ')
        .chain(args.iter().map(|arg| arg.strip_prefix("ID").map_or(*arg, |_| task)));
    let mut command = sandbox.command(&words.collect::<Vec<_>>());
    sandbox.finish(command.env("BANKSMAN_TOKEN", TOKEN).output().unwrap())
}

fn is_refused(ran: &Ran) -> bool {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    said.contains("BM-E011")
        && (said.contains("run of t1 may not") || said.contains("an agent's run"))
}

#[test]
fn a_run_may_do_nothing_but_on_its_own_task() {
    let sandbox = with_run();
    let workflow = "workflow: { id: w, name: W }\nsteps:\n  - { id: a, name: A, agent: { type: implementor }, outputs: [a] }\n";
    sandbox.file("w.yaml", workflow);
    let before = sandbox.ok(&["history", "t2", "--json"]);
    for (command, args, allowed) in COMMANDS {
        let ran = in_run(&sandbox, command, args, "t2");
        assert_eq!(is_refused(&ran), *allowed != Always, "{command} on t2: {ran}");
    }
    assert_eq!(sandbox.ok(&["history", "t2", "--json"]), before, "nothing was changed");
    assert_eq!(sandbox.ok(&["list", "-q"]), "t2\nt1\n", "nothing was added");
    for (command, args, allowed) in COMMANDS {
        let ran = in_run(&sandbox, command, args, "t1");
        assert_eq!(is_refused(&ran), *allowed == Never, "{command} on t1: {ran}");
    }
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
/// its own task.
#[test]
fn every_operation_has_an_answer_for_every_caller() {
    let actor = |text: &str| text.parse::<Actor>().unwrap();
    let own = RunId { task: TaskId(1), epoch: 1 };
    let run = |own| Principal::Run(RunCaller { own, name: None, actor: actor("agent:w1") });
    let callers = [
        Principal::Person(actor("human:kim")),
        Principal::Worker(actor("worker:ada")),
        Principal::System,
        run(Some(own)),
        run(None),
    ];
    for operation in Operation::ALL {
        let all = |caller: &Principal| caller.may(*operation, Some(TaskId(2))).is_ok();
        let may: Vec<bool> = callers.iter().map(all).collect();
        assert!(may[0], "a person may {}", operation.what());
        assert_eq!(
            may[2],
            *operation != Operation::AnswerDecision,
            "the system: {}",
            operation.what()
        );
        assert!(!may[3] && !may[4], "a run may {} of others", operation.what());
        let is_own = operation.access(&callers[3]) == Access::Own;
        assert_eq!(callers[3].may(*operation, Some(own.task)).is_ok(), is_own);
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
        ["ReadTask", "ReadStore", "AddTasks", "MoveTask", "AskPermission", "FollowUp"]
    );
}

/// Only a keeper renews a lease; it has no token, and its processes carry the name of its run.
#[test]
fn an_agent_does_not_renew_a_lease() {
    let sandbox = with_run();
    for run in ["r1.1", "r2.1"] {
        let ran = in_run(&sandbox, "renew", &[run, "--ttl", "1h", "--progressed"], "t1");
        assert!(is_refused(&ran), "{ran}");
    }
    let keeper = |run: &str| {
        let mut command = sandbox.command(&["renew", "r1.1", "--ttl", "99999d"]);
        sandbox.finish(command.env("BANKSMAN_RUN", run).output().unwrap())
    };
    assert_eq!(keeper("r2.1:4711").code, Some(1));
    let renewed = keeper("r1.1:4711");
    let until: Instant = renewed.stdout.trim().parse().unwrap();
    assert!(until.since(banksman::clock::now()) <= LONGEST_LEASE, "{renewed}");
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
        assert!(ran.stderr.contains(&format!("{name}: is not for this role to set")), "{ran}");
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
