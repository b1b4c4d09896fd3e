//! Ending a job: whoever is in it, wherever they went, and nobody else.

use banksman::exec::keeper::KeeperStart;
use banksman::exec::site::{JobStatus, Site};
use banksman_core::receipt::{EndCause, ProcessExit};
use rustix::process::Signal;

use super::world::{SUCCESS, World, is_alive, job, kill, marked, plan};

/// Says that it is there and waits to be ended.
fn waits(world: &World, before: &str) -> String {
    format!("{before} echo $$ > {}; while :; do sleep 1000; done", world.path("agent").display())
}

#[test]
fn a_stop_reaches_the_agent_at_once_and_gently() {
    let world = World::new();
    let script = format!(
        "trap 'echo bye; exit 7' TERM; echo $$ > {}; while :; do sleep 1000 & wait; done",
        world.path("agent").display()
    );
    world.site.begin(&plan("r1.1", &script)).unwrap();
    world.wait_for_file("agent");
    world.site.stop(job("r1.1"), "kim").unwrap();
    let receipt = world.receipt("r1.1");
    assert_eq!(receipt.ended, EndCause::Stopped { by: "kim".to_owned() });
    assert_eq!(receipt.exit, Some(ProcessExit { code: Some(7), signal: None }));
    assert_eq!(receipt.left_over, 0);
    assert_eq!(world.file("r1.1", "out.jsonl"), "bye\n");
}

#[test]
fn a_stop_before_the_first_breath_is_heeded() {
    let world = World::new();
    let plan = plan("r1.1", &waits(&world, ""));
    world.site.begin(&plan).unwrap();
    world.site.stop(job("r1.1"), "kim").unwrap();
    assert_eq!(world.receipt("r1.1").ended, EndCause::Stopped { by: "kim".to_owned() });
}

#[test]
fn an_agent_that_ignores_the_request_is_killed_after_its_grace() {
    let world = World::new();
    let mut plan = plan("r1.1", &waits(&world, "trap '' TERM;"));
    plan.limits.grace_ms = 200;
    world.site.begin(&plan).unwrap();
    let pid = world.wait_for_file("agent").parse().unwrap();
    world.site.stop(job("r1.1"), "kim").unwrap();
    let receipt = world.receipt("r1.1");
    assert_eq!(receipt.exit, Some(ProcessExit { code: None, signal: Some(9) }));
    assert!(!is_alive(pid));
}

/// Twice forked, in a session of its own, without its environment, deaf, and with the agent's
/// output still open.
fn daemon(world: &World) -> String {
    let script = format!(
        "trap \"\" TERM; echo $$ > {}; while :; do /bin/sleep 1000; done",
        world.path("daemon").display()
    );
    format!(
        "(setsid env -i /bin/sh -c '{script}' &) ; until [ -s {} ]; do sleep 0.01; done",
        world.path("daemon").display()
    )
}

#[test]
fn what_outlives_a_good_run_is_ended_and_counted() {
    let world = World::new();
    let mut plan = plan("r1.1", &format!("{}; {SUCCESS}", daemon(&world)));
    plan.limits.grace_ms = 200;
    let receipt = world.run(&plan);
    let pid = world.wait_for_file("daemon").parse().unwrap();
    assert!(!is_alive(pid));
    assert_eq!(receipt.ended, EndCause::Completed);
    // The shell of the daemon and its sleep.
    assert_eq!(receipt.left_over, 2);
}

#[test]
fn a_daemon_goes_with_an_agent_that_is_stopped() {
    let world = World::new();
    let mut plan = plan("r1.1", &waits(&world, &format!("{}; ", daemon(&world))));
    plan.limits.grace_ms = 200;
    world.site.begin(&plan).unwrap();
    world.wait_for_file("agent");
    world.site.stop(job("r1.1"), "kim").unwrap();
    world.receipt("r1.1");
    assert!(!is_alive(world.wait_for_file("daemon").parse().unwrap()));
}

/// Each generation starts the next and ends, so that a list of processes is old when it is used.
#[test]
fn processes_that_run_away_are_caught() {
    let world = World::new();
    let runner = world.path("runner");
    let body = format!(
        "trap '' TERM\necho go > {}\n/bin/sh {} &\n/bin/sh {} &\nsleep 0.02\n",
        world.path("agent").display(),
        runner.display(),
        world.path("still").display()
    );
    std::fs::write(&runner, body).unwrap();
    std::fs::write(world.path("still"), "sleep 0.3\n").unwrap();
    let mut plan = plan("r1.1", &format!("/bin/sh {}; sleep 1000", runner.display()));
    plan.limits.grace_ms = 100;
    world.site.begin(&plan).unwrap();
    world.wait_for_file("agent");
    world.site.stop(job("r1.1"), "kim").unwrap();
    // Nothing with the marker lives on, which the receipt's reader asserts.
    assert_eq!(world.receipt("r1.1").ended, EndCause::Stopped { by: "kim".to_owned() });
}

#[test]
fn a_keeper_that_is_asked_to_end_ends_well() {
    let world = World::new();
    world.site.begin(&plan("r1.1", &waits(&world, ""))).unwrap();
    world.wait_for_file("agent");
    let keeper = world.begun("r1.1").pid;
    // A terminal that goes away is none of its business.
    kill(keeper, Signal::HUP);
    kill(keeper, Signal::INT);
    kill(keeper, Signal::TERM);
    let receipt = world.receipt("r1.1");
    assert_eq!(receipt.ended, EndCause::Stopped { by: "a signal to the keeper".to_owned() });
}

#[test]
fn a_keeper_leaves_the_session_of_who_started_it() {
    let world = World::new();
    world.site.begin(&plan("r1.1", &waits(&world, ""))).unwrap();
    world.wait_for_file("agent");
    let keeper = rustix::process::Pid::from_raw(world.begun("r1.1").pid).unwrap();
    assert_eq!(rustix::process::getsid(Some(keeper)).unwrap(), keeper);
}

#[test]
fn a_lost_keeper_is_seen_and_what_it_left_is_ended_alone() {
    let world = World::new();
    let script = waits(&world, "(setsid sleep 1000 &); ");
    world.site.begin(&plan("r1.1", &script)).unwrap();
    let agent: i32 = world.wait_for_file("agent").parse().unwrap();
    // The same job of another store, and one with a marker that only begins alike.
    let other = World::new();
    other.site.begin(&plan("r1.1", &waits(&other, ""))).unwrap();
    let others: i32 = other.wait_for_file("agent").parse().unwrap();

    let begun = world.begun("r1.1");
    assert!(world.site.end_left_over(job("r1.1")).is_err(), "its keeper lives");
    kill(begun.pid, Signal::KILL);
    world.wait_for_the_keeper("r1.1");
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Lost);
    assert_eq!(world.site.ended().unwrap(), [job("r1.1")]);
    assert!(is_alive(agent));
    // Beginning it again starts nobody: the old agent may still be at work.
    world.site.begin(&plan("r1.1", &script)).unwrap();
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Lost);

    // The agent, its sleep, and the one in a session of its own.
    assert_eq!(world.site.end_left_over(job("r1.1")).unwrap(), 3);
    assert_eq!(marked(&begun.marker), [0; 0]);
    assert!(is_alive(others) && is_alive(other.begun("r1.1").pid));
    assert_eq!(world.site.end_left_over(job("r1.1")).unwrap(), 0);
}

/// Where there is no control group, the marker and the family tree are enough, and the same job of
/// another store is safe.
#[test]
fn what_is_left_is_found_without_a_control_group() {
    let world = World::new();
    world
        .site
        .begin(&plan("r1.1", &waits(&world, "(setsid sleep 1000 &); env -i sleep 1000 & ")))
        .unwrap();
    world.wait_for_file("agent");
    let other = World::new();
    other.site.begin(&plan("r1.1", &waits(&other, ""))).unwrap();
    let others: i32 = other.wait_for_file("agent").parse().unwrap();
    let begun = world.begun("r1.1");
    kill(begun.pid, Signal::KILL);
    world.wait_for_the_keeper("r1.1");
    let group = begun.cgroup.clone();
    world.folder("r1.1").write_begun(&KeeperStart { cgroup: None, ..begun.clone() }).unwrap();
    // The agent with its two sleeps, one of them without a marker, and the one in a session of its
    // own.
    assert_eq!(world.site.end_left_over(job("r1.1")).unwrap(), 4);
    assert_eq!(marked(&begun.marker), [0; 0]);
    assert!(is_alive(others));
    world.folder("r1.1").write_begun(&KeeperStart { cgroup: group, ..begun }).unwrap();
}

mod needs_cgroups {
    use super::*;

    /// Without a marker and without a parent only the control group knows it.
    #[test]
    fn a_control_group_knows_who_cannot_be_found_otherwise() {
        let world = World::new();
        let daemon = daemon(&world);
        world.site.begin(&plan("r1.1", &waits(&world, &format!("{daemon}; ")))).unwrap();
        world.wait_for_file("agent");
        let begun = world.begun("r1.1");
        assert!(
            begun.cgroup.as_ref().is_some_and(|group| group.is_dir()),
            "no control group can be made"
        );
        kill(begun.pid, Signal::KILL);
        world.wait_for_the_keeper("r1.1");
        world.site.end_left_over(job("r1.1")).unwrap();
        assert!(!is_alive(world.wait_for_file("daemon").parse().unwrap()));
        assert!(!begun.cgroup.expect("it was there").exists());
    }
}
