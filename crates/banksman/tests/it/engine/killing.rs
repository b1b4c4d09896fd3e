//! The control plane, keepers, agents or all of them are killed, and the work goes on.

use std::fs;
use std::process::{Child, Command, Stdio};

use banksman::clock;
use banksman_core::ids::TaskId;
use banksman_core::time::Span;

use super::harness::{Harness, Up};
use super::processes::{Process, naming, wait_until};

/// Commits, waits for a word, and is done.
const PATIENT: &str = r#"run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
run git add -A && git commit -qm "work of ${BANKSMAN_RUN%%:*}" && echo "${BANKSMAN_RUN%%:*} $(git rev-parse HEAD)" >>"$YARD/commits"
run while [ ! -f "$YARD/go" ]; do sleep 0.05; done
success it is written
"#;
const TASKS: usize = 4;

fn patient() -> (Harness, Vec<TaskId>) {
    let harness = Harness::new(&[]);
    harness.script("any", PATIENT);
    let ids = (0..TASKS).map(|number| harness.add(&format!("part {number}"), &[])).collect();
    (harness, ids)
}

fn until_all_have_committed(harness: &Harness) {
    wait_until("all agents have committed", || harness.file("commits").lines().count() == TASKS);
}

fn go(harness: &Harness) {
    fs::write(harness.path("go"), "").expect("written");
}

fn assert_all_done_in_one_run(harness: &Harness, ids: &[TaskId]) {
    for id in ids {
        assert_eq!(harness.state(*id), "done", "{id}");
    }
    let mut starts = harness.starts();
    starts.sort();
    assert_eq!(starts, ["r1.1", "r2.1", "r3.1", "r4.1"]);
    harness.assert_clean(&["here"]);
}

#[test]
fn agents_go_on_when_up_is_killed_and_the_next_one_takes_their_results() {
    let (harness, ids) = patient();
    let up = harness.up();
    until_all_have_committed(&harness);
    let before = top_agents(&harness);
    up.kill();
    assert_eq!(top_agents(&harness), before);
    let up = harness.up();
    go(&harness);
    harness.until_over(&["here"]);
    up.stop();
    assert_all_done_in_one_run(&harness, &ids);
}

#[test]
fn agents_that_end_while_nobody_looks_are_not_forgotten() {
    let (harness, ids) = patient();
    let up = harness.up();
    until_all_have_committed(&harness);
    up.kill();
    go(&harness);
    wait_until("all keepers have ended", || harness.keepers().is_empty());
    let up = harness.up();
    harness.until_over(&["here"]);
    up.stop();
    assert_all_done_in_one_run(&harness, &ids);
}

#[test]
fn up_that_is_asked_to_end_leaves_agents_at_work_and_says_so() {
    let (harness, ids) = patient();
    let up = harness.up();
    until_all_have_committed(&harness);
    let said = up.stop();
    let expected = "stopped; 4 running agents left alone (`banksman down --agents` stops all)\n";
    assert!(said.ends_with(expected), "{said}");
    assert_eq!(harness.agents().len(), TASKS);
    go(&harness);
    wait_until("all keepers have ended", || harness.keepers().is_empty());
    let pulse = harness.pulse();
    let ended: Vec<&str> = pulse["ended"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|end| end["outcome"].as_str().expect("an outcome"))
        .collect();
    assert_eq!(ended, ["succeeded"; TASKS]);
    let up = harness.up();
    harness.until_over(&["here"]);
    up.stop();
    assert_all_done_in_one_run(&harness, &ids);
}

#[test]
fn a_second_up_on_the_same_home_is_refused() {
    let harness = Harness::new(&[]);
    let up = harness.up();
    wait_until("the first is up", || harness.file("up-here.log").contains("up on here"));
    let second = harness.run(&["up"]);
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("already"), "{said}");
    up.stop();
}

/// Whoever lost something tries again after a few seconds; the work that was committed before is
/// not lost.
#[test]
fn a_lost_keeper_costs_one_run_and_no_commit() {
    let (harness, ids) = patient();
    let up = harness.up();
    until_all_have_committed(&harness);
    let orphans = harness.agents();
    for keeper in harness.keepers() {
        keeper.kill();
    }
    wait_until("what the keepers left is ended", || !orphans.iter().any(Process::is_alive));
    go(&harness);
    harness.until_over(&["here"]);
    for id in &ids {
        assert_eq!(harness.state(*id), "done", "{id}");
    }
    let mut starts = harness.starts();
    starts.sort();
    assert_eq!(starts, ["r1.1", "r1.2", "r2.1", "r2.2", "r3.1", "r3.2", "r4.1", "r4.2"]);
    up.stop();
    harness.assert_clean(&["here"]);
}

/// Nothing but the end of the keeper tells of it, and nobody waits for the hold of the effect to be
/// over.
#[test]
fn a_merge_that_loses_its_keeper_is_begun_again_at_once() {
    // The check passes in the run, and waits in the merge, which has a worktree of its own.
    let check = r#"case $PWD in */t1) true;; *) touch "$HOME/merging"; until [ -f "$HOME/go" ]; do sleep 0.05; done;; esac"#;
    let harness = Harness::new(&[("verify.commands", &format!("[{check:?}]"))]);
    let id = harness.add("part 0", &[]);
    let up = harness.up();
    wait_until("the merge is under way", || harness.path("user/merging").exists());
    let merging = harness.keepers();
    assert_eq!(merging.len(), 1, "{merging:?}");
    merging[0].kill();
    fs::write(harness.path("user/go"), "").expect("written");
    harness.until_over(&["here"]);
    assert_eq!(harness.state(id), "done");
    assert_eq!(harness.starts(), ["r1.1"]);
    let said = up.stop();
    assert_eq!(said.matches("started   a1.3").count(), 2, "{said}");
    harness.assert_clean(&["here"]);
}

#[test]
fn a_receipt_that_cannot_be_read_does_not_hide_the_others() {
    let (harness, ids) = patient();
    let up = harness.up();
    until_all_have_committed(&harness);
    up.stop();
    go(&harness);
    wait_until("all keepers have ended", || harness.keepers().is_empty());
    fs::write(harness.home("here").join("runs/r2.1/receipt.json"), "{").expect("written");
    let up = harness.up();
    harness.until_over(&["here"]);
    let said = up.stop();
    assert!(said.contains("alert     failed to read the receipt of r2.1"), "{said}");
    for id in &ids {
        assert_eq!(harness.state(*id), "done", "{id}");
    }
    let mut starts = harness.starts();
    starts.sort();
    assert_eq!(starts, ["r1.1", "r2.1", "r2.2", "r3.1", "r4.1"]);
    harness.assert_clean(&["here"]);
}

/// A keeper that neither renews its lease nor listens is killed with its agent, and nobody else
/// waits for it.
#[test]
fn a_keeper_that_hangs_is_killed_when_its_lease_is_over() {
    let harness = Harness::new(&[("limits.lease", "\"2s\""), ("limits.grace", "\"200ms\"")]);
    harness.script("any", PATIENT);
    let id = harness.add("part 0", &[]);
    let up = harness.up();
    wait_until("the agent has committed", || harness.file("commits").lines().count() == 1);
    let (keeper, agents) = (harness.keepers().remove(0), harness.agents());
    keeper.freeze();
    wait_until("it is ended", || !keeper.is_alive() && !agents.iter().any(Process::is_alive));
    go(&harness);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    assert_eq!(harness.starts(), ["r1.1", "r1.2"]);
    harness.assert_clean(&["here"]);
}

/// `up`, keeper and agent together: nobody has taken the run meanwhile, and its agent is healthy.
#[test]
fn a_run_goes_on_after_everything_stood_still_for_longer_than_its_lease() {
    let harness = Harness::new(&[("limits.lease", "\"3s\""), ("limits.grace", "\"200ms\"")]);
    harness.script("any", PATIENT);
    let id = harness.add("part 0", &[]);
    let up = harness.up();
    wait_until("the agent has committed", || harness.file("commits").lines().count() == 1);
    let all = naming(&harness.root().display().to_string());
    all.iter().for_each(Process::freeze);
    let expires_at = harness.open().open_runs(None).expect("runs")[0].expires_at;
    wait_until("the lease is over", || clock::now() > expires_at.plus(Span(1_500)));
    all.iter().for_each(Process::thaw);
    let lease = || harness.open().open_runs(None).expect("runs").first().map(|run| run.expires_at);
    wait_until("it is renewed, or lost", || lease().is_none_or(|renewed| renewed > expires_at));
    go(&harness);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!((harness.state(id).as_str(), harness.starts()), ("done", vec!["r1.1".to_owned()]));
    harness.assert_clean(&["here"]);
}

/// A process that looks like an agent of ours, with the same program, arguments and folder, but
/// without the marker.
fn decoy(harness: &Harness, like: &Process) -> Child {
    let mut command = Command::new(&like.args[0]);
    command.args(&like.args[1..]).env_clear().current_dir(harness.root());
    for entry in &like.env {
        if let Some((name, value)) = entry.split_once('=')
            && name != "BANKSMAN_RUN"
        {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the decoy starts")
}

/// Those that keepers have started themselves; what these start comes and goes.
fn top_agents(harness: &Harness) -> Vec<i32> {
    let keepers: Vec<i32> = harness.keepers().iter().map(|keeper| keeper.pid).collect();
    let mut pids: Vec<i32> = harness
        .agents()
        .iter()
        .filter(|agent| keepers.contains(&agent.parent))
        .map(|agent| agent.pid)
        .collect();
    pids.sort_unstable();
    pids
}

/// Kills keepers and the control plane, so that agents are left without anybody.
fn lose_everybody_but_agents(harness: &Harness, up: Up) {
    up.kill();
    for keeper in harness.keepers() {
        keeper.kill();
    }
}

#[test]
fn what_lost_keepers_leave_is_ended_and_nothing_else() {
    let harness = Harness::new(&[]);
    harness.script("any", &PATIENT.replace("run while", "daemon 600000\nrun while"));
    for number in 0..TASKS {
        harness.add(&format!("part {number}"), &[]);
    }
    let up = harness.up();
    until_all_have_committed(&harness);
    let is_daemon = |process: &Process| process.args.iter().any(|word| word == "--stay");
    wait_until("all daemons are there", || {
        harness.processes().iter().filter(|process| is_daemon(process)).count() == TASKS
    });
    let orphans: Vec<Process> =
        harness.processes().into_iter().filter(|process| process.job().is_some()).collect();
    let like = orphans.iter().find(|process| is_daemon(process)).expect("a daemon");
    let mut decoy = decoy(&harness, like);
    lose_everybody_but_agents(&harness, up);

    go(&harness);
    let up = harness.up();
    wait_until("what the keepers left is ended", || !orphans.iter().any(Process::is_alive));
    assert_eq!(decoy.try_wait().expect("its state"), None, "the decoy was ended");
    decoy.kill().expect("it can be killed");
    decoy.wait().expect("it is gone");
    harness.until_over(&["here"]);
    up.stop();
    harness.assert_clean(&["here"]);
    assert!(harness.tasks().iter().all(|stored| super::harness::state_of(stored) == "done"));
}

/// As a rebase leaves it that was killed: away from the branch, with a file in the way that the
/// branch has, too.
#[test]
fn a_worktree_that_was_left_away_from_its_branch_is_brought_back() {
    let harness = Harness::new(&[]);
    harness.script("any", PATIENT);
    let id = harness.add("part 0", &[]);
    let up = harness.up();
    wait_until("the agent has committed", || harness.file("commits").lines().count() == 1);
    lose_everybody_but_agents(&harness, up);
    for agent in harness.processes() {
        agent.kill();
    }
    let worktree = harness.worktrees().remove(0);
    harness.git(&["-C", &worktree, "switch", "--quiet", "--detach", "HEAD~1"]);
    fs::write(format!("{worktree}/work-t1"), "in the way\n").expect("written");
    go(&harness);
    let up = harness.up();
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    assert_eq!(harness.starts(), ["r1.1", "r1.2"]);
    let rescued = harness.git(&["for-each-ref", "--format=%(refname)", "refs/banksman/rescue/"]);
    let kept = harness.git(&["show", &format!("{}:work-t1", rescued.trim())]);
    assert_eq!(kept, "in the way\n");
    harness.assert_clean(&["here"]);
}

#[test]
fn after_a_reboot_everything_is_taken_up_again() {
    let (harness, ids) = patient();
    let up = harness.up();
    until_all_have_committed(&harness);
    up.kill();
    for process in harness.processes() {
        process.kill();
    }
    wait_until("nothing is left", || harness.processes().is_empty());
    go(&harness);
    let up = harness.up();
    harness.until_over(&["here"]);
    up.stop();
    for id in &ids {
        assert_eq!(harness.state(*id), "done");
        // The commit of the first run is in, and so is that of the second.
        let work = harness.git(&["show", &format!("main:work-{id}")]);
        assert_eq!(work.lines().count(), 2, "{work}");
    }
    harness.assert_clean(&["here"]);
}
