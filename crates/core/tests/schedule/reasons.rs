//! Every reason why a task does not start: each alone, at its limit, and all together in their
//! order.

use banksman_core::ids::TaskId;
use banksman_core::schedule::{
    AccountLoad, Area, BatchLoad, Budget, BudgetLimit, BudgetScope, Ineligible, Load,
    ReservedAreas, Running, Used, choose,
};
use banksman_core::time::{Instant, Span};

use crate::world::{NODE, NOW, Question, run, set, texts, worker};

const LATER: Instant = Instant(NOW.0 + 1);

fn area(text: &str) -> Area {
    Area(text.to_owned())
}

fn batch<'q>(name: &str, question: &'q mut Question) -> &'q mut BatchLoad {
    question.batch = Some(name.to_owned());
    question.load.batches.entry(name.to_owned()).or_insert(BatchLoad {
        concurrency: 2,
        paused: false,
        budget: Budget::default(),
        used: Used::default(),
    })
}

fn account<'q>(name: &str, question: &'q mut Question) -> &'q mut AccountLoad {
    question.load.accounts.entry(name.to_owned()).or_default()
}

fn in_batch(task: i64, name: &str) -> Running {
    Running { batch: Some(name.to_owned()), ..run(task, "other") }
}

fn in_area(task: i64, path: &str) -> Running {
    Running { areas: vec![area(path)], ..run(task, "other") }
}

fn over_budget(scope: BudgetScope, what: &'static str, used: &str, limit: &str) -> Ineligible {
    Ineligible::OverBudget {
        scope,
        limit: BudgetLimit { what, used: used.to_owned(), limit: limit.to_owned() },
    }
}

type Change = fn(&mut Question);

/// A reason, and the same question just before it applies.
type Row = (Ineligible, Change, Change);

/// In the order in which they are reported.
fn table() -> Vec<Row> {
    [of_people(), of_budgets(), of_nodes_and_accounts(), of_areas(), of_room()].concat()
}

fn of_people() -> Vec<Row> {
    vec![
        (Ineligible::NoActivity, |question| question.roles.clear(), |_| {}),
        (
            Ineligible::NotAssigned { assignees: texts(&["zoe"]) },
            |question| question.assignees = texts(&["zoe"]),
            |question| question.assignees = texts(&["zoe", "ann"]),
        ),
        (
            Ineligible::NoWorker { role: "worker".to_owned(), needs: texts(&["gpu"]) },
            |question| question.tags = texts(&["code", "needs:gpu"]),
            |question| question.tags = texts(&["code", "gpu", "needs:code", "needs: "]),
        ),
        (Ineligible::Paused, |question| question.load.paused = true, |_| {}),
        (
            Ineligible::BatchPaused { batch: "night".to_owned() },
            |question| batch("night", question).paused = true,
            |question| {
                batch("night", question).paused = true;
                question.batch = None;
            },
        ),
    ]
}

fn of_budgets() -> Vec<Row> {
    vec![
        (
            over_budget(BudgetScope::Task(TaskId(1)), "time", "2h", "2h"),
            |question| {
                question.budget.time = Some(Span(7_200_000));
                question.spent.time = Span(7_200_000);
            },
            |question| {
                question.budget.time = Some(Span(7_200_000));
                question.spent.time = Span(7_199_999);
            },
        ),
        (
            over_budget(BudgetScope::Batch("night".to_owned()), "runs", "2", "2"),
            |question| {
                let night = batch("night", question);
                (night.budget.runs, night.used.runs) = (Some(2), 1);
                question.load.running = vec![in_batch(2, "night")];
            },
            |question| {
                let night = batch("night", question);
                (night.budget.runs, night.used.runs) = (Some(2), 1);
                question.load.running = vec![in_batch(2, "day"), run(3, "other")];
            },
        ),
        (
            over_budget(BudgetScope::Day, "cost", "$1.00", "$1.00"),
            |question| {
                question.load.day_budget.cost_micros = Some(1_000_000);
                question.load.day.cost_micros = 1_000_000;
            },
            |question| {
                question.load.day_budget.cost_micros = Some(1_000_000);
                question.load.day.cost_micros = 999_999;
            },
        ),
        (
            over_budget(BudgetScope::Day, "runs", "1", "1"),
            |question| {
                question.load.day_budget.runs = Some(1);
                question.load.running =
                    vec![Running { node: "there".to_owned(), ..run(2, "other") }];
            },
            |question| question.load.day_budget.runs = Some(1),
        ),
    ]
}

fn of_nodes_and_accounts() -> Vec<Row> {
    vec![
        (
            Ineligible::NotHere { node: NODE.to_owned(), workers: texts(&["cy", "bob"]) },
            |question| {
                question.tags = texts(&["art"]);
                question.elsewhere =
                    vec![worker("bob", &["art"]), worker("cy", &["art"]), worker("bob", &["art"])];
                question.elsewhere[1].cost = 1;
            },
            |question| {
                question.tags = texts(&["code"]);
                question.elsewhere = vec![worker("bob", &["code"])];
                question.elsewhere[0].cost = 1;
            },
        ),
        (
            Ineligible::AccountPaused {
                account: "ann-account".to_owned(),
                until: LATER,
                reason: "5-hour limit".to_owned(),
            },
            |question| {
                let account = account("ann-account", question);
                account.paused_until = Some(LATER);
                account.reason = "5-hour limit".to_owned();
            },
            |question| account("ann-account", question).paused_until = Some(NOW),
        ),
        (
            Ineligible::AccountProbing { account: "ann-account".to_owned() },
            |question| {
                account("ann-account", question).probing = true;
                question.load.running = vec![run(2, "ann")];
            },
            |question| {
                account("ann-account", question).probing = true;
                question.load.running = vec![run(2, "other")];
            },
        ),
        (
            Ineligible::AccountProbing { account: "ann-account".to_owned() },
            |question| {
                account("ann-account", question).paused_until = Some(NOW);
                question.load.running = vec![run(2, "ann")];
            },
            |question| {
                account("ann-account", question).paused_until = None;
                question.load.running = vec![run(2, "ann")];
            },
        ),
    ]
}

fn of_areas() -> Vec<Row> {
    vec![
        (
            Ineligible::AreaTaken { area: area("path:apps/web"), by: TaskId(2) },
            |question| {
                question.areas = vec![area("path:docs"), area("path:apps/web")];
                question.load.running = vec![in_area(2, "path:apps")];
            },
            |question| {
                question.areas = vec![area("path:docs"), area("path:apps/web")];
                let other = Running { project: "blog".to_owned(), ..in_area(2, "path:apps") };
                question.load.running =
                    vec![other, in_area(3, "path:apps/web2"), in_area(1, "path:apps")];
            },
        ),
        (
            Ineligible::AreaReserved { area: area("path:apps/web"), to: TaskId(2) },
            |question| {
                question.areas = vec![area("path:apps/web")];
                question.load.reserved = vec![reserved(2, "shop")];
            },
            |question| {
                question.areas = vec![area("path:apps/web")];
                question.load.reserved = vec![reserved(1, "shop"), reserved(2, "blog")];
            },
        ),
    ]
}

fn of_room() -> Vec<Row> {
    vec![
        (
            Ineligible::AccountFull { account: "ann-account".to_owned(), limit: 1 },
            |question| {
                account("ann-account", question).limit = Some(1);
                let there = Running { node: "there".to_owned(), ..run(2, "ann") };
                question.load.running = vec![there];
            },
            |question| {
                account("ann-account", question).limit = Some(2);
                question.load.running = vec![run(2, "ann")];
            },
        ),
        (
            Ineligible::WorkerBusy { worker: "ann".to_owned(), max_concurrent: 2 },
            |question| question.load.running = vec![run(2, "ann"), run(3, "ann")],
            |question| {
                let there = Running { node: "there".to_owned(), ..run(2, "ann") };
                question.load.running = vec![there, run(3, "ann")];
            },
        ),
        (
            Ineligible::LaneFull { role: "worker".to_owned(), limit: 1 },
            |question| {
                question.load.lanes.insert("worker".to_owned(), 1);
                question.load.running = vec![run(2, "other")];
            },
            |question| {
                question.load.lanes.insert("worker".to_owned(), 1);
                let reviews = Running { role: "reviewer".to_owned(), ..run(2, "other") };
                question.load.running = vec![reviews];
            },
        ),
        (
            Ineligible::Full { limit: 1 },
            |question| {
                question.load.limit = Some(1);
                question.load.running =
                    vec![Running { node: "there".to_owned(), ..run(2, "other") }];
            },
            |question| {
                question.load.limit = Some(2);
                question.load.running = vec![run(2, "other")];
            },
        ),
        (
            Ineligible::NodeFull { node: NODE.to_owned(), capacity: 1 },
            |question| {
                question.load.capacity = 1;
                question.load.running = vec![run(2, "other")];
            },
            |question| {
                question.load.capacity = 1;
                question.load.running =
                    vec![Running { node: "there".to_owned(), ..run(2, "other") }];
            },
        ),
        (
            Ineligible::BatchFull { batch: "night".to_owned(), concurrency: 2 },
            |question| {
                batch("night", question);
                question.load.running = vec![in_batch(2, "night"), in_batch(3, "night")];
            },
            |question| {
                batch("night", question);
                question.load.running = vec![in_batch(2, "night"), in_batch(3, "day")];
            },
        ),
    ]
}

fn reserved(task: i64, project: &str) -> ReservedAreas {
    ReservedAreas {
        task: TaskId(task),
        project: project.to_owned(),
        areas: vec![area("path:apps")],
    }
}

#[test]
fn each_reason_stands_alone_and_only_when_it_is_true() {
    for (reason, held, just_before) in table() {
        assert_eq!(Question::with(held).answer(), Err(vec![reason.clone()]));
        assert_eq!(Question::with(just_before).answer().as_deref(), Ok("ann"), "{reason:?}");
    }
}

#[test]
fn the_table_has_every_reason() {
    let mut kinds: Vec<&str> = table().iter().map(|(reason, ..)| reason.kind()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "no_activity",
            "not_assigned",
            "no_worker",
            "paused",
            "batch_paused",
            "over_budget",
            "not_here",
            "account_paused",
            "account_probing",
            "area_taken",
            "area_reserved",
            "account_full",
            "worker_busy",
            "lane_full",
            "full",
            "node_full",
            "batch_full",
        ]
    );
}

/// Two changes that do not overwrite each other's runs: those of the second are added.
fn both(first: Change, second: Change) -> Question {
    Question::with(|question| {
        first(question);
        let before: Vec<Running> = std::mem::take(&mut question.load.running);
        second(question);
        let after = question.load.running.drain(..);
        let on_top = after.zip(100..).map(|(run, task)| Running { task: TaskId(task), ..run });
        question.load.running = before.into_iter().chain(on_top).collect();
    })
}

/// Runs of one reason may add others, and a reason with a count may show a higher one, but none
/// disappears.
#[test]
fn any_two_reasons_are_both_told_in_order() {
    for (index, (first, one, _)) in table().into_iter().enumerate() {
        for (second, other, _) in table().into_iter().skip(index + 1) {
            let kinds = [first.kind(), second.kind()];
            // A task that no worker, or only another node, can take has no worker to wait for here.
            let without_worker = ["no_worker", "not_here"].contains(&kinds[0])
                && ["not_here", "account_", "worker_"]
                    .iter()
                    .any(|kind| kinds[1].starts_with(kind));
            // Who could take it is asked only if somebody may.
            let nobody = ["no_activity", "not_assigned"].contains(&kinds[0])
                && ["not_assigned", "no_worker", "not_here", "account_", "worker_", "lane_"]
                    .iter()
                    .any(|kind| kinds[1].starts_with(kind));
            // A pause and the probe after it exclude each other.
            if nobody || without_worker || kinds == ["account_paused", "account_probing"] {
                continue;
            }
            let found = both(one, other).outcome().expect_err("both stand against it");
            let told: Vec<&str> =
                found.iter().copied().filter(|kind| kinds.contains(kind)).collect();
            let expected = if kinds[0] == kinds[1] { &kinds[..1] } else { &kinds[..] };
            assert!(expected.iter().all(|kind| told.contains(kind)), "{kinds:?}: {found:?}");
            assert!(told.is_sorted_by_key(|kind| kinds.iter().position(|k| k == kind)), "{told:?}");
        }
    }
}

#[test]
fn everything_at_once_is_told_from_the_most_fundamental_to_what_passes_soonest() {
    let question = Question::with(|question| {
        question.load.paused = true;
        question.load.limit = Some(2);
        question.load.capacity = 2;
        question.load.day_budget.tokens = Some(0);
        question.budget.runs = Some(0);
        let night = batch("night", question);
        (night.paused, night.concurrency, night.budget.runs) = (true, 2, Some(2));
        for (name, speed) in [("bob", 4), ("cy", 5)] {
            let mut more = worker(name, &["code"]);
            (more.speed, more.max_concurrent) = (speed, 0);
            more.account = "shared".to_owned();
            question.here.push(more);
        }
        *account("shared", question) =
            AccountLoad { paused_until: Some(LATER), limit: Some(0), ..AccountLoad::default() };
        *account("ann-account", question) =
            AccountLoad { probing: true, limit: Some(2), ..AccountLoad::default() };
        question.areas = vec![area("path:web")];
        question.load.reserved =
            vec![ReservedAreas { areas: vec![area("path:web")], ..reserved(9, "shop") }];
        let mine = |task| Running { batch: Some("night".to_owned()), ..run(task, "ann") };
        question.load.running = vec![mine(2), Running { areas: vec![area("path:web")], ..mine(3) }];
    });
    let lines: Vec<String> = question
        .answer()
        .expect_err("all stands against it")
        .iter()
        .map(Ineligible::detail)
        .collect();
    assert_eq!(
        lines,
        [
            "all work is paused",
            "batch night is paused",
            "task t1 has used up its runs: 0 of 0",
            "batch night has used up its runs: 2 of 2",
            "the day has used up its tokens: 0 of 0",
            "account shared is paused",
            "account ann-account was paused, and one run probes it first",
            "t3 is working in path:web",
            "t9 is ahead of it in the queue and waits for path:web",
            "account shared is full: the limit is 0 runs",
            "worker cy is full: the limit is 0 runs",
            "worker bob is full: the limit is 0 runs",
            "account ann-account is full: the limit is 2 runs",
            "worker ann is full: the limit is 2 runs",
            "the whole system is full: the limit is 2 runs",
            "node here is full: the limit is 2 runs",
            "batch night is full: the limit is 2 runs",
        ]
    );
}

#[test]
fn reasons_of_workers_are_not_told_while_another_has_room() {
    let question = Question::with(|question| {
        question.here.push(worker("bob", &["code"]));
        account("ann-account", question).paused_until = Some(LATER);
    });
    assert_eq!(question.answer().as_deref(), Ok("bob"));
    let paused = Question { load: Load { paused: true, ..question.load.clone() }, ..question };
    assert_eq!(paused.answer(), Err(vec![Ineligible::Paused]));
}

#[test]
fn a_probe_goes_alone() {
    let mut question = Question::with(|question| account("ann-account", question).probing = true);
    assert_eq!(question.answer().as_deref(), Ok("ann"));
    question.load.running.push(run(2, "ann"));
    assert_eq!(question.outcome(), Err(vec!["account_probing"]));
}

#[test]
fn what_is_missing_is_named_exactly() {
    let check = |tags: &[&str], roles: &[&str], role: &str, needs: &[&str]| {
        let question = Question::with(|question| {
            question.here = vec![worker("ann", &["code", "docs"]), worker("bob", &["ci"])];
            question.elsewhere = vec![worker("cy", &["art", "docs"])];
            question.here[1].roles = set(&["reviewer"]);
            question.elsewhere[0].roles = set(&["worker"]);
            question.tags = texts(tags);
            question.roles = texts(roles);
        });
        let expected = Ineligible::NoWorker { role: role.to_owned(), needs: texts(needs) };
        assert_eq!(question.answer(), Err(vec![expected]), "{tags:?} {roles:?}");
    };
    check(&["code", "needs:gpu"], &["worker"], "worker", &["gpu"]);
    check(&["needs:gpu", "needs:tpu", "needs:gpu"], &["worker"], "worker", &["gpu", "tpu"]);
    check(&["code", "docs", "art"], &["worker"], "worker", &["art"]);
    check(&["ci"], &["worker"], "worker", &["ci"]);
    // Only `ann` plays every role of agents.
    check(&["art", "ci"], &["judge"], "judge", &["art", "ci"]);
    check(&["art", "needs:gpu"], &["reviewer", "worker"], "reviewer or worker", &["gpu"]);
}

#[test]
fn no_worker_plays_a_person() {
    for role in ["human", "system"] {
        let question = Question::with(|question| {
            question.here[0].roles = set(&["human", "system"]);
            question.here.push(worker("bob", &[]));
            question.roles = texts(&[role]);
            question.tags = texts(&["code"]);
        });
        let expected = Ineligible::NoWorker { role: role.to_owned(), needs: texts(&["code"]) };
        assert_eq!(question.answer(), Err(vec![expected]));
    }
}

#[test]
fn a_worker_that_plays_some_roles_takes_only_those() {
    let mut question = Question::with(|question| {
        question.here.push(worker("bob", &["code"]));
        question.here[0].roles = set(&["reviewer"]);
    });
    assert_eq!(question.answer().as_deref(), Ok("bob"));
    question.here.pop();
    let expected = Ineligible::NoWorker { role: "worker".to_owned(), needs: Vec::new() };
    assert_eq!(question.answer(), Err(vec![expected]));
    question.roles = texts(&["worker", "reviewer"]);
    assert_eq!(question.answer().as_deref(), Ok("ann"));
}

#[test]
fn a_node_that_is_not_announced_yet_counts_its_own_workers() {
    let question = Question::with(|question| {
        question.tags = texts(&["docs"]);
        question.here.push(worker("bob", &["docs"]));
    });
    let chosen = choose(&question.candidate(), &question.load, &question.here, &[], NOW);
    assert_eq!(chosen.map(|worker| worker.name.as_str()), Ok("bob"));
}

#[test]
fn only_a_task_that_waits_for_runs_is_promised_its_areas() {
    let taken = Ineligible::AreaTaken { area: area("path:web"), by: TaskId(2) };
    let reserved = Ineligible::AreaReserved { area: area("path:web"), to: TaskId(2) };
    for (reason, ..) in table() {
        let ends_with_a_run = [
            "not_here",
            "area_taken",
            "area_reserved",
            "account_full",
            "worker_busy",
            "lane_full",
            "full",
            "node_full",
            "batch_full",
        ]
        .contains(&reason.kind());
        for area_reason in [&taken, &reserved] {
            assert_eq!(is_promised(&[reason.clone(), area_reason.clone()]), ends_with_a_run);
        }
        let is_area = reason.kind().starts_with("area_");
        assert_eq!(is_promised(&[reason]), is_area);
    }
    assert!(!is_promised(&[]));
}

fn is_promised(held: &[Ineligible]) -> bool {
    let mut question = Question::with(|question| question.areas = vec![area("path:web")]);
    let mut load = std::mem::take(&mut question.load);
    load.reserve_areas(&question.candidate(), held);
    let expected = ReservedAreas {
        task: TaskId(1),
        project: "shop".to_owned(),
        areas: vec![area("path:web")],
    };
    assert!(load.reserved.is_empty() || load.reserved == [expected]);
    !load.reserved.is_empty()
}
