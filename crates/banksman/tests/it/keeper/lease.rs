//! Keeping the right to work, and giving it up in time.

use banksman::clock;
use banksman::exec::site::Site;
use banksman_core::receipt::{Ended, Exit};
use banksman_core::time::{Instant, Span};

use super::world::{SUCCESS, World, is_alive, lease, plan, wait_until};

const IN_A_MINUTE: &str = "date -u -d '+1 minute' +%Y-%m-%dT%H:%M:%SZ";

#[test]
fn a_lease_is_renewed_while_the_agent_works() {
    let world = World::new();
    let renewals = world.path("renewals");
    let script = format!(
        "until [ \"$(wc -l < {0})\" -ge 4 ]; do sleep 0.01; done 2>/dev/null; {SUCCESS}",
        renewals.display()
    );
    let mut plan = plan("r1.1", &script);
    plan.lease = lease(600, &format!("echo \"$*\" >> {}; {IN_A_MINUTE}", renewals.display()));
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, Ended::Completed);
    assert_eq!(receipt.left_over, 0, "a renewal is not part of the job");
    let took = receipt.ended_at.since(receipt.started_at).0;
    assert!(took >= 600, "four renewals, a third of the lease apart, in {took} ms");
    let beat = world.folder("r1.1").beat().unwrap().expect("a beat");
    assert!(beat.expires_at.is_some_and(|at| at > clock::now()));
}

/// Output and reports are progress; silence is none.
#[test]
fn a_renewal_says_whether_there_was_progress() {
    let world = World::new();
    let renewals = world.path("renewals");
    let after = |count: u32| {
        format!(
            "until [ \"$(wc -l < {})\" -ge {count} ]; do sleep 0.01; done 2>/dev/null;",
            renewals.display()
        )
    };
    let script = format!(
        "echo word; {} {} echo '{{}}' >> ../reports.jsonl; {} {SUCCESS}",
        after(1),
        after(3),
        after(5)
    );
    let mut plan = plan("r1.1", &script);
    plan.lease = lease(600, &format!("echo \"[$*]\" >> {}; {IN_A_MINUTE}", renewals.display()));
    assert_eq!(world.run(&plan).ended, Ended::Completed);
    let said = std::fs::read_to_string(renewals).unwrap();
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[0], "[--progressed]", "the word");
    assert_eq!(said[1..3], ["[]", "[]"], "nothing");
    assert!(said[3..5].contains(&"[--progressed]"), "the report: {said:?}");
}

#[test]
fn a_lost_lease_kills_at_once() {
    let world = World::new();
    let script = format!(
        "trap '' TERM; echo $$ > {}; while :; do sleep 1000; done",
        world.path("agent").display()
    );
    let mut plan = plan("r1.1", &script);
    plan.limits.grace_ms = 3_600_000;
    plan.lease = lease(600, "echo lost");
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, Ended::LeaseLost);
    assert_eq!(receipt.exit, Some(Exit { code: None, signal: Some(9) }));
    assert!(!is_alive(world.wait_for_file("agent").parse().unwrap()));
    assert_eq!(receipt.evidence, None);
}

/// It fails, hangs, is not there, or answers nonsense: tried again, and given up before the lease ends.
#[test]
fn a_lease_that_cannot_be_renewed_is_given_up_before_its_end() {
    let world = World::new();
    let renewals = [
        ("r1.1", "echo no store >&2; exit 1"),
        ("r1.2", "sleep 1000; true"),
        ("r1.3", "echo tomorrow"),
    ];
    let plans = renewals.map(|(name, renew)| {
        let mut plan = plan(name, "sleep 1000");
        plan.limits.grace_ms = 100;
        plan.lease = lease(4_000, renew);
        world.site.begin(&plan).unwrap();
        plan
    });
    for (plan, (_, renew)) in plans.iter().zip(renewals) {
        let receipt = world.receipt(&plan.job);
        assert_eq!(receipt.ended, Ended::LeaseLost, "{renew}");
        assert_eq!(receipt.left_over, 0, "{renew}");
        let expires_at = plan.lease.as_ref().unwrap().expires_at;
        let log = world.file(&plan.job, "keeper.log");
        assert!(receipt.ended_at < expires_at, "{} {expires_at} {log}", receipt.ended_at);
        let log = world.file(&plan.job, "keeper.log");
        assert!(log.contains("not renewed"), "{renew}: {log}");
    }
    assert!(world.file("r1.1", "keeper.log").contains("no store"));
    assert!(world.file("r1.1", "keeper.log").matches("not renewed").count() >= 3);
}

#[test]
fn a_fault_that_passes_costs_nothing() {
    let world = World::new();
    let (broken, done) = (world.path("broken"), world.path("done"));
    std::fs::write(&broken, "").unwrap();
    let renew =
        format!("test ! -e {} && touch {} && {IN_A_MINUTE}", broken.display(), done.display());
    let mut plan =
        plan("r1.1", &format!("until [ -e {} ]; do sleep 0.01; done; {SUCCESS}", done.display()));
    plan.lease = lease(3_000, &renew);
    world.site.begin(&plan).unwrap();
    wait_until("a failed renewal", || world.file("r1.1", "keeper.log").contains("not renewed"));
    std::fs::remove_file(&broken).unwrap();
    assert_eq!(world.receipt("r1.1").ended, Ended::Completed);
}

/// The store's address is for the renewal and not for the agent.
#[test]
fn only_the_renewal_has_the_keepers_environment() {
    let world = World::new();
    let seen = world.path("seen");
    let mut plan = plan(
        "r1.1",
        &format!("until [ -s {} ]; do sleep 0.01; done; env > env; {SUCCESS}", seen.display()),
    );
    plan.lease = lease(600, &format!("env > {}; {IN_A_MINUTE}", seen.display()));
    world.run(&plan);
    // Cargo sets this for every test.
    assert!(std::fs::read_to_string(seen).unwrap().contains("CARGO_MANIFEST_DIR="));
    assert!(!world.file("r1.1", "work/env").contains("CARGO_MANIFEST_DIR="));
}

/// It was claimed long ago, or the clocks differ: the agent does not start before the store has said yes.
#[test]
fn a_lease_that_seems_to_be_over_is_renewed_before_anything_starts() {
    let world = World::new();
    let order = world.path("order");
    for (name, renew, expected, ended) in [
        ("r1.1", IN_A_MINUTE, "renewal\nagent\n", Ended::Completed),
        ("r1.2", "echo lost", "renewal\n", Ended::LeaseLost),
        ("r1.3", IN_A_MINUTE, "renewal\nagent\n", Ended::Completed),
    ] {
        std::fs::write(&order, "").unwrap();
        let mut plan = plan(name, &format!("echo agent >> {}; {SUCCESS}", order.display()));
        plan.lease = lease(6_000, &format!("echo renewal >> {}; {renew}", order.display()));
        let terms = plan.lease.as_mut().unwrap();
        if name == "r1.3" {
            // By the clock of this machine, which is behind, there is an hour left.
            (terms.expires_at, terms.left_ms) = (clock::now().plus(Span(3_600_000)), 100);
        } else {
            terms.expires_at = clock::now();
        }
        assert_eq!(world.run(&plan).ended, ended, "{name}");
        assert_eq!(std::fs::read_to_string(&order).unwrap(), expected, "{name}");
    }
}

/// By the clock of this machine, which is ahead, the lease is always over: that is no reason to renew it all the time.
#[test]
fn a_clock_that_is_ahead_does_not_hurry_the_renewals() {
    let world = World::new();
    let renewals = world.path("renewals");
    let script = format!(
        "until [ \"$(wc -l < {0})\" -ge 3 ]; do sleep 0.01; done 2>/dev/null; {SUCCESS}",
        renewals.display()
    );
    let mut plan = plan("r1.1", &script);
    let an_hour_ago = "date -u -d '-1 hour' +%Y-%m-%dT%H:%M:%SZ";
    plan.lease = lease(3_000, &format!("echo >> {}; {an_hour_ago}", renewals.display()));
    plan.lease.as_mut().unwrap().expires_at = Instant(clock::now().0 - 3_600_000);
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, Ended::Completed);
    let took = receipt.ended_at.since(receipt.started_at).0;
    assert!(
        took >= 2_000,
        "the first at once, the others a third of the lease apart, in {took} ms"
    );
}
