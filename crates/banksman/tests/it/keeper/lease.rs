//! Keeping the right to work, and giving it up in time.

use banksman::clock;
use banksman::exec::job::JobSpec;
use banksman::exec::site::Site;
use banksman_core::receipt::{EndCause, ProcessExit};
use banksman_core::time::{Instant, Span};

use super::world::{KEY, SUCCESS, World, is_alive, lease, plan, wait_until};

const TTL_MILLIS: i64 = 3_000;
/// What the renewals of a test write down.
const PROGRESSED: &str = "[--progressed]";
const SILENT: &str = "[]";
const IN_A_MINUTE: &str = "date -u -d '+1 minute' +%Y-%m-%dT%H:%M:%SZ";

/// A lease that a slow machine has time to renew, more than once if need be. It is renewed every
/// second.
fn with_time(plan: &mut JobSpec, renew: &str) {
    plan.limits.grace_ms = 100;
    plan.lease = lease(TTL_MILLIS, renew);
}

#[test]
fn a_lease_is_renewed_while_the_agent_works() {
    let world = World::new();
    let renewals = world.path("renewals");
    let told = world.path("told");
    let script = format!(
        "echo \"$BANKSMAN_KEEPER_KEY\" > {1}; until [ \"$(wc -l < {0})\" -ge 2 ]; do sleep 0.01; done 2>/dev/null; {SUCCESS}",
        renewals.display(),
        told.display()
    );
    let mut plan = plan("r1.1", &script);
    let renew = "echo \"$BANKSMAN_KEEPER_KEY\" >>";
    with_time(&mut plan, &format!("{renew} {}; {IN_A_MINUTE}", renewals.display()));
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, EndCause::Completed);
    assert_eq!(receipt.left_over, 0, "a renewal is not part of the job");
    let text = |path| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(told), "\n", "the agent does not get the key");
    assert!(text(renewals).lines().all(|line| line == KEY));
    let took = receipt.ended_at.since(receipt.started_at).0;
    assert!(took >= TTL_MILLIS / 3, "two renewals, a third of the lease apart, in {took} ms");
    let status = world.folder("r1.1").status().unwrap().expect("a status");
    assert!(status.expires_at.is_some_and(|at| at > clock::now()));
}

/// Output and reports are progress; silence is none. The agent waits for each of the three to be
/// said, however long that takes.
#[test]
fn a_renewal_says_whether_there_was_progress() {
    let world = World::new();
    let renewals = world.path("renewals");
    let said = |what: &str, count: u32| {
        format!(
            "until [ \"$(grep -cxF '{what}' {})\" -ge {count} ]; do sleep 0.01; done 2>/dev/null;",
            renewals.display()
        )
    };
    let script = format!(
        ": > {}; echo word; {} : > {0}; {} echo '{{}}' >> ../reports.jsonl; {} {SUCCESS}",
        renewals.display(),
        said(PROGRESSED, 1),
        said(SILENT, 2),
        said(PROGRESSED, 1),
    );
    let mut plan = plan("r1.1", &script);
    with_time(&mut plan, &format!("echo \"[$*]\" >> {}; {IN_A_MINUTE}", renewals.display()));
    assert_eq!(world.run(&plan).ended, EndCause::Completed);
    let said = std::fs::read_to_string(renewals).unwrap();
    let progressed = said.lines().filter(|line| *line == PROGRESSED).count();
    assert_eq!(progressed, 1, "the report, and nothing else after the word: {said:?}");
}

/// A long build prints nothing, and its run is not stale.
#[test]
fn work_without_output_is_progress() {
    let world = World::new();
    let renewals = world.path("renewals");
    let script = format!(
        "until [ \"$(grep -cxF '{PROGRESSED}' {})\" -ge 2 ]; do i=0; \
         while [ $i -lt 9999 ]; do i=$((i + 1)); done; done 2>/dev/null; {SUCCESS}",
        renewals.display()
    );
    let mut plan = plan("r1.1", &script);
    plan.limits.idle_ms = 2_000;
    with_time(&mut plan, &format!("echo \"[$*]\" >> {}; {IN_A_MINUTE}", renewals.display()));
    assert_eq!(world.run(&plan).ended, EndCause::Completed);
}

#[test]
fn a_lost_lease_kills_at_once() {
    let world = World::new();
    let script = format!(
        "trap '' TERM; echo $$ > {}; while :; do sleep 1000; done",
        world.path("agent").display()
    );
    let mut plan = plan("r1.1", &script);
    // Not before the agent is there: nobody would start it any more.
    let agent = world.path("agent");
    with_time(
        &mut plan,
        &format!("if [ -s {} ]; then echo lost; else {IN_A_MINUTE}; fi", agent.display()),
    );
    plan.limits.grace_ms = 3_600_000;
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, EndCause::LeaseLost);
    assert_eq!(receipt.exit, Some(ProcessExit { code: None, signal: Some(9) }));
    assert!(!is_alive(world.wait_for_file("agent").parse().unwrap()));
    assert_eq!(receipt.evidence, None);
}

/// It fails, hangs, is not there, or answers nonsense: tried again, and given up before the lease
/// ends.
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
        assert_eq!(receipt.ended, EndCause::LeaseLost, "{renew}");
        assert_eq!(receipt.left_over, 0, "{renew}");
        let expires_at = plan.lease.as_ref().unwrap().expires_at;
        let log = world.file(&plan.job, "keeper.log");
        assert!(receipt.ended_at < expires_at, "{} {expires_at} {log}", receipt.ended_at);
        let log = world.file(&plan.job, "keeper.log");
        assert!(log.contains("failed to renew the lease"), "{renew}: {log}");
    }
    assert!(world.file("r1.1", "keeper.log").contains("no store"));
    assert!(world.file("r1.1", "keeper.log").matches("failed to renew the lease").count() >= 3);
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
    with_time(&mut plan, &renew);
    world.site.begin(&plan).unwrap();
    wait_until("a failed renewal", || {
        world.file("r1.1", "keeper.log").contains("failed to renew the lease")
    });
    std::fs::remove_file(&broken).unwrap();
    assert_eq!(world.receipt("r1.1").ended, EndCause::Completed);
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
    with_time(&mut plan, &format!("env > {}; {IN_A_MINUTE}", seen.display()));
    world.run(&plan);
    // Cargo sets this for every test.
    assert!(std::fs::read_to_string(seen).unwrap().contains("CARGO_MANIFEST_DIR="));
    assert!(!world.file("r1.1", "work/env").contains("CARGO_MANIFEST_DIR="));
}

/// It was claimed long ago, or the clocks differ: the agent does not start before the store has
/// said yes.
#[test]
fn a_lease_that_seems_to_be_over_is_renewed_before_anything_starts() {
    let world = World::new();
    let order = world.path("order");
    for (name, renew, expected, ended) in [
        ("r1.1", IN_A_MINUTE, "renewal\nagent\n", EndCause::Completed),
        ("r1.2", "echo lost", "renewal\n", EndCause::LeaseLost),
        ("r1.3", IN_A_MINUTE, "renewal\nagent\n", EndCause::Completed),
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

/// By the clock of this machine, which is ahead, the lease is always over: that is no reason to
/// renew it all the time.
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
    with_time(&mut plan, &format!("echo >> {}; {an_hour_ago}", renewals.display()));
    plan.lease.as_mut().unwrap().expires_at = Instant(clock::now().0 - 3_600_000);
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, EndCause::Completed);
    let took = receipt.ended_at.since(receipt.started_at).0;
    assert!(
        took >= 2 * TTL_MILLIS / 3,
        "the first at once, the others a third of the lease apart, in {took} ms"
    );
}
