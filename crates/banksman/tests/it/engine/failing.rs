//! What becomes of runs that do not succeed: which are tried again, when, what the next one is
//! told, and who is asked.

use banksman::clock;
use banksman_core::ids::TaskId;
use banksman_core::time::Span;

use super::driver::{Driver, NODE, Told};
use super::harness::{Harness, is_over, state, tasks};

/// Failures are tried again after this time at most.
const PATIENCE: Span = Span(100);
const MINUTE: Span = Span(60_000);

/// Turns until all tasks are over and everything is put away.
fn to_the_end(harness: &Harness, driver: &Driver) -> Told {
    let told = driver.turn_until("all tasks are over", |store| {
        tasks(store).iter().all(is_over) && harness.jobs(NODE).is_empty()
    });
    harness.assert_clean(&[NODE]);
    told
}

fn harness_with(settings: &[(&str, &str)], task: &[&str]) -> (Harness, TaskId) {
    let harness = Harness::new(settings);
    let id = harness.add("the task", task);
    (harness, id)
}

#[test]
fn a_run_that_failed_its_check_is_told_why_and_goes_on_in_its_session() {
    let verify = [("verify.commands", "[\"grep -q right answer\"]")];
    let (harness, id) = harness_with(&verify, &[]);
    harness
        .script("r1.1", "session s-17\nwrite answer wrong\ncommit a try\nsuccess all tests pass\n");
    harness.script("r1.2", "write answer right\ncommit corrected\nsuccess now they do\n");
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = to_the_end(&harness, &driver);
    assert_eq!(told.outcomes[..2], ["r1.1 verify_failed", "r1.2 succeeded"], "{told:?}");
    assert_eq!(state(&driver.store, id), "done");
    assert_eq!(harness.file("starts"), "r1.1 session=\nr1.2 session=s-17\n");
    let prompt = harness.file("prompts/r1.2");
    assert!(prompt.contains("Your last attempt at task"), "{prompt}");
    assert!(prompt.contains("grep -q right answer"), "{prompt}");
    assert!(!harness.file("prompts/r1.1").contains("Your last attempt at task"));
}

#[test]
fn the_next_attempt_is_told_how_standard_error_ended() {
    let (harness, id) = harness_with(&[("verify.commands", "[\"true\"]")], &[]);
    harness.script("r1.1", "run echo \"KeyError: 'ssn'\"\ncrash\n");
    harness.script("r1.2", "write answer right\ncommit corrected\nsuccess it works\n");
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = to_the_end(&harness, &driver);
    assert_eq!(told.outcomes[..2], ["r1.1 crashed", "r1.2 succeeded"], "{told:?}");
    assert_eq!(state(&driver.store, id), "done");
    let prompt = harness.file("prompts/r1.2");
    assert!(prompt.contains("Standard error ended with:\nKeyError: 'ssn'"), "{prompt}");
}

#[test]
fn a_run_that_wrote_where_it_must_not_is_told_where() {
    let (harness, id) = harness_with(&[], &["--set", "allowed_paths=[\"lib/**\"]"]);
    harness
        .script("r1.1", "write lib/a.sh a\nwrite tests/run.sh cheat\ncommit both\nsuccess done\n");
    harness.script(
        "r1.2",
        "run git rm -q tests/run.sh\nwrite lib/a.sh b\ncommit back\nsuccess done\n",
    );
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = to_the_end(&harness, &driver);
    assert_eq!(told.outcomes[..2], ["r1.1 policy", "r1.2 succeeded"], "{told:?}");
    assert_eq!(state(&driver.store, id), "done");
    let prompt = harness.file("prompts/r1.2");
    assert!(prompt.contains("tests/run.sh"), "{prompt}");
    assert_eq!(
        harness.git(&["ls-tree", "-r", "--name-only", "main", "lib", "tests"]),
        "lib/a.sh\n"
    );
}

#[test]
fn the_same_failure_again_and_again_is_given_up() {
    let (harness, id) = harness_with(&[("verify.commands", "[\"false\"]")], &[]);
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = to_the_end(&harness, &driver);
    assert_eq!(state(&driver.store, id), "failed");
    assert_eq!(harness.starts(), ["r1.1", "r1.2", "r1.3", "r1.4"]);
    assert_eq!(told.outcomes[3], "r1.4 exhausted", "{told:?}");
    let last = driver.store.past_runs(id, 1).expect("runs").pop().and_then(|run| run.detail);
    let detail = last.expect("why it was given up");
    assert!(detail.starts_with("circuit breaker: the same failure 4 times in a row: "), "{detail}");
    assert_eq!(detail.matches("`false`").count(), 1, "what failed is said once: {detail}");
    assert!(told.notices.iter().any(|text| text.starts_with("t1 is failed")), "{told:?}");
    // The commits that nobody wanted are kept.
    harness.assert_no_commit_lost();
}

/// One task hits the wall. All others of the account wait for the time that the provider named,
/// then one goes first.
#[test]
fn a_quota_rests_the_account_and_one_run_tries_first() {
    let settings = [
        ("limits.lease", "\"1d\""),
        ("workers.other.agent", "\"command\""),
        ("workers.other.account", "\"free\""),
        ("workers.other.cost", "5"),
        ("workers.other.capabilities", "[\"other\"]"),
    ];
    let (harness, _) = harness_with(&settings, &["--tag", "code"]);
    let reset = clock::now().plus(Span(30 * MINUTE.0));
    harness.script("r1.1", &format!("quota {reset}\n"));
    harness.script("r1.2", "run until [ -f \"$YARD/go\" ]; do sleep 0.05; done\nwrite work-t1 x\ncommit x\nsuccess x\n");
    let mut driver = Driver::of(harness.root(), PATIENCE);
    let like = driver.terms.workers.iter().find(|setup| setup.worker.name == "scripted");
    let command = like.expect("a worker").agent.command.clone();
    let other = driver.terms.workers.iter_mut().find(|setup| setup.worker.name == "other");
    other.expect("a worker").agent.command = command;
    let told = driver.turn_until("the account rests", |store| {
        store.accounts().expect("accounts").iter().any(|(_, row)| row.paused_until.is_some())
    });
    assert_eq!(told.outcomes, ["r1.1 quota"]);
    assert!(told.notices[0].starts_with("account command is paused until"), "{told:?}");
    let (second, third) =
        (harness.add("second", &["--tag", "code"]), harness.add("third", &["--tag", "code"]));
    let elsewhere = harness.add("elsewhere", &["--tag", "other"]);
    driver.turn_until("another account goes on", |store| state(store, elsewhere) == "done");
    assert_eq!(harness.starts(), ["r1.1", "r4.1"]);

    driver.pass(Span(31 * MINUTE.0));
    let told = driver.turn_until("one run tries", |_| harness.starts().len() == 3);
    assert!(
        told.notices.iter().any(|text| text.contains("the pause of account command is over")),
        "{told:?}"
    );
    for _ in 0..5 {
        driver.turn();
    }
    assert_eq!(harness.starts().len(), 3, "more than one run tries first");
    let probing = harness.starts()[2].clone();
    assert!(["r1.2", "r2.1", "r3.1"].contains(&probing.as_str()), "{probing}");
    std::fs::write(harness.path("go"), "").expect("written");
    to_the_end(&harness, &driver);
    assert_eq!([state(&driver.store, second), state(&driver.store, third)], ["done", "done"]);
    let accounts = driver.store.accounts().expect("accounts");
    assert!(accounts.iter().all(|(_, row)| row.paused_until.is_none() && !row.probing));
}

/// A provider that names no time is asked less and less often, as long as it answers nobody.
#[test]
fn each_pause_without_a_named_time_is_longer_than_the_one_before() {
    let (harness, _) = harness_with(&[("limits.lease", "\"1d\"")], &[]);
    harness.script("any", "quota\n");
    let driver = Driver::of(harness.root(), PATIENCE);
    let pauses: Vec<(u32, Span)> = (1..=3)
        .map(|hits| {
            let mut pause = None;
            driver.turn_until("the account rests", |store| {
                let accounts = store.accounts().expect("accounts");
                let row = accounts.into_iter().find(|(_, row)| row.hits == hits);
                pause = row.and_then(|(_, row)| Some((row.hits, row.paused_until?)));
                pause.is_some()
            });
            let (hits, until) = pause.expect("it rests");
            let length = until.since(driver.now());
            driver.pass(length);
            (hits, length)
        })
        .collect();
    let lengths: Vec<Span> = pauses.iter().map(|(_, length)| *length).collect();
    assert!(lengths.is_sorted() && lengths[2] > Span(60_000), "{pauses:?}");
}

#[test]
fn a_refused_key_asks_a_person_and_rests_the_account() {
    let (harness, id) = harness_with(&[], &[]);
    harness.script("r1.1", "auth\n");
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = driver.turn_until("it is blocked", |store| state(store, id) == "blocked");
    assert_eq!(told.outcomes, ["r1.1 auth"]);
    let second = harness.add("second", &[]);
    for _ in 0..3 {
        driver.turn();
    }
    assert_eq!(harness.starts(), ["r1.1"]);
    // Every page names the command that leads on.
    let command = "banksman accounts resume command";
    for page in [["decisions", "show", "t1"].as_slice(), &["why", "t1"]] {
        let text = harness.ok(page);
        assert!(text.contains("log in to the account command") && text.contains(command), "{text}");
    }
    let unblocked = harness.run(&["unblock", "t1"]);
    let said = String::from_utf8(unblocked.stderr).expect("text");
    assert!(
        said.contains("its account command is paused until") && said.contains(command),
        "{said}"
    );
    harness.ok(&["accounts", "resume", "command"]);
    to_the_end(&harness, &driver);
    assert_eq!([state(&driver.store, id), state(&driver.store, second)], ["done", "done"]);
}

#[test]
fn a_silent_agent_is_prompted_once_and_then_ended() {
    let (harness, id) = harness_with(&[("limits.idle", "\"300ms\"")], &[]);
    harness.script("r1.1", "session s1\nsilent\n");
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = to_the_end(&harness, &driver);
    assert_eq!(told.outcomes[..2], ["r1.1 stalled", "r1.2 succeeded"], "{told:?}");
    assert_eq!(state(&driver.store, id), "done");
    assert!(harness.file("prompts/r1.1").contains("You have been silent"), "no nudge");
    assert_eq!(harness.starts(), ["r1.1", "r1.1", "r1.2"]);
}

#[test]
fn a_run_that_uses_up_its_budget_is_ended_and_a_person_is_asked() {
    let (harness, id) = harness_with(&[("budget.run_tokens", "1000")], &[]);
    harness.script("r1.1", "spend 900 50 0.01\nsay still within\nspend 100 100 0.01\nsilent\n");
    let driver = Driver::of(harness.root(), PATIENCE);
    let told = driver.turn_until("it is blocked", |store| state(store, id) == "blocked");
    assert_eq!(told.outcomes, ["r1.1 over_budget"]);
    harness.ok(&["unblock", "t1"]);
    to_the_end(&harness, &driver);
    assert_eq!(state(&driver.store, id), "done");
}
