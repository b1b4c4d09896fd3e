//! Simulations line by line, the worst case against every possible simulation, and laws for any
//! simulation of any workflow.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::workflow::samples::{chain, diamond, flow, gate, step, tests_then_code};
use crate::workflow::{Breaker, Need};

fn told(walk: &Simulation) -> String {
    let mut lines: Vec<String> = walk.events.iter().map(ToString::to_string).collect();
    lines.push(format!(
        "{} runs, {} reviews, a person asked {} times, {} rounds",
        walk.runs, walk.reviews, walk.person, walk.longest
    ));
    lines.join("\n")
}

fn fails(gates: &[(&str, Option<&str>)]) -> Vec<(String, GateVerdict)> {
    let fail = |(gate, reason): &(&str, Option<&str>)| {
        ((*gate).to_owned(), GateVerdict::Fail { reason: reason.map(str::to_owned) })
    };
    gates.iter().map(fail).collect()
}

fn step_of<'a>(flow: &'a Workflow, id: &str) -> Option<&'a Step> {
    flow.steps.iter().find(|step| step.id == id)
}

#[test]
fn all_passes() {
    insta::assert_snapshot!(told(&run_simulation(&tests_then_code(), &GateScript::Chosen(&[]))), @"
    round 1: X-1 starts, attempt 1
    X-1 passes XG-1-2
    round 2: X-2 starts, attempt 1
    X-2 passes XG-2-end, decided by a person
    done: every step has passed
    2 runs, 1 reviews, a person asked 1 times, 2 rounds
    ");
}

#[test]
fn all_fails_until_a_person_is_asked() {
    insta::assert_snapshot!(told(&run_simulation(&tests_then_code(), &GateScript::Fail)), @"
    round 1: X-1 starts, attempt 1
    XG-1-2 fails, failure 1: back to X-1, resets X-1, X-2
    round 2: X-1 starts, attempt 2
    XG-1-2 fails, failure 2 (max_retries 2): a person is asked
    X-1 passes XG-1-2, decided by a person
    round 3: X-2 starts, attempt 1
    XG-2-end fails, failure 1: back to X-2, resets X-2
    round 4: X-2 starts, attempt 2
    XG-2-end fails, failure 2: back to X-2, resets X-2
    round 5: X-2 starts, attempt 3
    XG-2-end fails, failure 3 (max_retries 3): a person is asked
    X-2 passes XG-2-end, decided by a person
    done: every step has passed
    5 runs, 2 reviews, a person asked 5 times, 5 rounds
    ");
}

#[test]
fn a_reason_chooses_the_way_back() {
    let verdicts = fails(&[("G-join", Some("left")), ("G-join", Some("plan"))]);
    insta::assert_snapshot!(told(&run_simulation(&diamond(), &GateScript::Chosen(&verdicts))), @"
    round 1: plan starts, attempt 1
    plan passes without a gate
    round 2: left starts, attempt 1
    round 2: right starts, attempt 1
    left passes G-left
    right passes without a gate
    round 3: join starts, attempt 1
    G-join fails because of left, failure 1: back to left, resets left, join
    round 4: left starts, attempt 2
    left passes G-left
    round 5: join starts, attempt 2
    G-join fails because of plan, failure 2: back to plan, resets plan, left, right, join
    round 6: plan starts, attempt 2
    plan passes without a gate
    round 7: left starts, attempt 3
    round 7: right starts, attempt 2
    left passes G-left
    right passes without a gate
    round 8: join starts, attempt 3
    join passes G-join
    done: every step has passed
    10 runs, 6 reviews, a person asked 0 times, 8 rounds
    ");
}

#[test]
fn a_way_back_may_give_up() {
    let verdicts = fails(&[("G-join", Some("hopeless"))]);
    let walk = run_simulation(&diamond(), &GateScript::Chosen(&verdicts));
    assert_eq!(walk.ended, SimulationEnd::Aborted);
    insta::assert_json_snapshot!(walk.events.last_chunk::<2>(), @r#"
    [
      {
        "event": "aborted",
        "step": "join",
        "gate": "G-join",
        "reason": "hopeless",
        "failure": 1
      },
      {
        "event": "ended",
        "how": "aborted"
      }
    ]
    "#);
}

#[test]
fn what_a_failure_resets_at_the_same_time_is_not_judged() {
    // Both run in the second round. The first sends back to the plan, so the second is not
    // reviewed.
    let mut flow = diamond();
    flow.steps[1].gate.as_mut().expect("it has one").on_fail[0].to = Some("plan".to_owned());
    flow.steps[2].gate = Some(gate("G-right", 2, &[("", Some("right"))]));
    let walk = run_simulation(&flow, &GateScript::Chosen(&fails(&[("G-left", None)])));
    assert_eq!(walk.steps["right"], StepCount { runs: 2, reviews: 1 });
    assert_eq!(walk.steps["left"], StepCount { runs: 2, reviews: 2 });
    assert_eq!((walk.ended, walk.longest), (SimulationEnd::Done, 5));
}

#[test]
fn the_breaker_ends_it() {
    let mut flow = chain(3, 10);
    flow.breaker.failures = Some(4);
    let walk = run_simulation(&flow, &GateScript::Fail);
    assert_eq!((walk.ended, walk.runs, walk.person), (SimulationEnd::Person, 4, 1));
    let told = told(&walk);
    let line = "g0 fails, failure 4 of all gates: the breaker trips and a person is asked";
    assert!(told.contains(line), "{told}");
}

#[test]
fn the_failure_of_that_number_asks_a_person() {
    for (max_retries, runs) in [(0, 1), (1, 1), (2, 2), (3, 3), (7, 7)] {
        let flow = chain(1, max_retries);
        let walk = run_simulation(&flow, &GateScript::Fail);
        assert_eq!(
            (walk.runs, walk.person, walk.ended),
            (runs, 1, SimulationEnd::Done),
            "{max_retries}"
        );
        assert_eq!(worst(&flow, 2).runs, runs, "{max_retries}");
    }
}

#[test]
fn steps_wait_for_a_place_and_for_a_shared_worktree() {
    let side_by_side = || flow((0..6).map(|place| step(&format!("s{place}"), &[], None)).collect());
    assert_eq!(run_simulation(&side_by_side(), &GateScript::Chosen(&[])).longest, 1);
    let mut narrow = side_by_side();
    narrow.parallel = Some(4);
    assert_eq!(run_simulation(&narrow, &GateScript::Chosen(&[])).longest, 2);
    let mut shared = side_by_side();
    for step in &mut shared.steps[..3] {
        step.worktree = Some("one/".to_owned());
    }
    assert_eq!(run_simulation(&shared, &GateScript::Chosen(&[])).longest, 3);
}

#[test]
fn what_can_never_start_is_told() {
    let circle = flow(vec![step("a", &["b"], None), step("b", &["a"], None)]);
    let missing = flow(vec![step("a", &["nowhere"], None)]);
    let beside =
        flow(vec![step("a", &[], Some(gate("g", 3, &[("", Some("b"))]))), step("b", &[], None)]);
    assert_eq!(run_simulation(&circle, &GateScript::Chosen(&[])).ended, SimulationEnd::Stuck);
    assert_eq!(run_simulation(&missing, &GateScript::Chosen(&[])).ended, SimulationEnd::Stuck);
    // The gate leads to a step that its own step does not need, so nothing runs its step again.
    assert_eq!(run_simulation(&beside, &GateScript::Fail).ended, SimulationEnd::Stuck);
    assert_eq!(run_simulation(&flow(Vec::new()), &GateScript::Fail).ended, SimulationEnd::Done);
}

#[test]
fn a_gate_that_leads_nowhere_asks_a_person() {
    let ways: [&[(&str, Option<&str>)]; 2] = [&[], &[("", Some("nowhere"))]];
    for ways in ways {
        let walk = run_simulation(
            &flow(vec![step("a", &[], Some(gate("g", 3, ways)))]),
            &GateScript::Fail,
        );
        assert_eq!((walk.ended, walk.runs, walk.person), (SimulationEnd::Done, 1, 1));
    }
}

#[test]
fn a_walk_without_end_is_cut_off() {
    let mut flow = chain(500, u32::MAX);
    let walk = run_simulation(&flow, &GateScript::Fail);
    assert_eq!(walk.ended, SimulationEnd::CutOff);
    assert!(walk.runs < MAX_SIMULATION_ENTRIES);
    let all = worst(&flow, 2);
    assert_eq!(all.failures, 500 * (u32::MAX as usize - 1));
    flow.breaker.failures = Some(1);
    let tripped_at_once = worst(&flow, 2);
    assert_eq!((tripped_at_once.runs, tripped_at_once.breaker), (500, true));
}

#[test]
fn sums_that_are_too_large_stay_at_the_largest() {
    let past = |_: &str| Some((i64::MAX, i64::MAX));
    let flow = chain(3, u32::MAX);
    let estimate = cost(&flow, Some(&run_simulation(&flow, &GateScript::Chosen(&[]))), &past, 2);
    assert_eq!(estimate.best.micros, i64::MAX);
    assert_eq!(estimate.worst.seconds, i64::MAX);
    assert_eq!(estimate.walk.expect("one was given").micros, i64::MAX);
}

#[test]
fn the_worst_of_a_chain_is_reached() {
    // Tries every relevant combination of verdicts, so the worst case is the largest of all
    // simulations.
    let mut flow = chain(3, 3);
    flow.steps[2].gate.as_mut().expect("it has one").on_fail[0].to = Some("s1".to_owned());
    for breaker in [None, Some(1), Some(3), Some(5)] {
        flow.breaker = Breaker { failures: breaker, ..Breaker::default() };
        let mut most = (0, 0);
        for bits in 0..1_u32 << 12 {
            let verdicts: Vec<(String, GateVerdict)> = (0..12)
                .map(|bit| {
                    let fail = GateVerdict::Fail { reason: None };
                    let verdict = if bits >> bit & 1 == 1 { fail } else { GateVerdict::Pass };
                    (format!("g{}", bit % 3), verdict)
                })
                .collect();
            let walk = run_simulation(&flow, &GateScript::Chosen(&verdicts));
            most = (most.0.max(walk.runs), most.1.max(walk.reviews));
        }
        let worst = worst(&flow, 2);
        assert_eq!((worst.runs, worst.reviews), most, "{breaker:?}");
    }
}

#[test]
fn the_worst_says_how_often_each_step_may_run() {
    insta::assert_json_snapshot!(worst(&diamond(), 2), @r#"
    {
      "runs": 13,
      "reviews": 7,
      "failures": 3,
      "breaker": false,
      "steps": {
        "join": {
          "runs": 3,
          "reviews": 3
        },
        "left": {
          "runs": 4,
          "reviews": 4
        },
        "plan": {
          "runs": 3,
          "reviews": 0
        },
        "right": {
          "runs": 3,
          "reviews": 0
        }
      }
    }
    "#);
}

#[test]
fn what_it_may_cost() {
    let flow = tests_then_code();
    let past = |role: &str| match role {
        "test-writer" => Some((1_000_000, 60)),
        "reviewer" => Some((100_000, 10)),
        _ => None,
    };
    let walk = run_simulation(&flow, &GateScript::Fail);
    insta::assert_json_snapshot!(cost(&flow, Some(&walk), &past, 2), @r#"
    {
      "best": {
        "micros": 1100000,
        "seconds": 70,
        "known": 2,
        "unknown": 1
      },
      "walk": {
        "micros": 2200000,
        "seconds": 140,
        "known": 4,
        "unknown": 3
      },
      "worst": {
        "micros": 2200000,
        "seconds": 140,
        "known": 4,
        "unknown": 3
      },
      "unknown_roles": [
        "implementor"
      ]
    }
    "#);
}

/// A workflow whose gates send back to a step that their own needs, or to itself, as a file
/// requires.
fn any_flow() -> impl Strategy<Value = Workflow> {
    (1_usize..9).prop_flat_map(|count| {
        let needs = prop::collection::vec(prop::collection::vec(0..64_usize, 0..3), count);
        let gate =
            (0..5_u32, prop::collection::vec((0..64_usize, prop::bool::weighted(0.1)), 1..4));
        let gates = prop::collection::vec(prop::option::weighted(0.7, gate), count);
        let turn = 0..count;
        let worktrees = prop::collection::vec(prop::option::weighted(0.4, 0..3_u8), count);
        let bounds = (prop::option::weighted(0.3, 0..6_u32), prop::option::of(0..3_u32));
        (needs, gates, turn, worktrees, bounds).prop_map(drawn)
    })
}

type Drawn = (
    Vec<Vec<usize>>,
    Vec<Option<(u32, Vec<(usize, bool)>)>>,
    usize,
    Vec<Option<u8>>,
    (Option<u32>, Option<u32>),
);

fn drawn((needs, gates, turn, worktrees, (failures, parallel)): Drawn) -> Workflow {
    let mut upstream: Vec<BTreeSet<usize>> = Vec::new();
    let mut steps = Vec::new();
    for (place, (needs, gate_of)) in needs.iter().zip(gates).enumerate() {
        let needs: BTreeSet<usize> =
            needs.iter().filter_map(|need| need.checked_rem(place)).collect();
        let mut reach: BTreeSet<usize> =
            needs.iter().flat_map(|need| upstream[*need].clone()).collect();
        reach.insert(place);
        let targets: Vec<String> = reach.iter().map(|place| format!("s{place}")).collect();
        upstream.push(reach);
        let judged = gate_of.map(|(max_retries, picks)| {
            let last = picks.len() - 1;
            let ways = picks.iter().enumerate().map(|(index, (pick, gives_up))| {
                let to = targets[pick % targets.len()].as_str();
                let reason = if index == last { "" } else { ["r0", "r1", "r2"][index] };
                (reason, (!gives_up).then_some(to))
            });
            let ways: Vec<_> = ways.collect();
            gate(&format!("g{place}"), max_retries, &ways)
        });
        let names: Vec<String> = needs.iter().map(|need| format!("s{need}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut step = step(&format!("s{place}"), &names, judged);
        step.worktree = worktrees[place].map(|number| format!("w{number}"));
        steps.push(step);
    }
    // A file need not list a step before those that need it.
    steps.rotate_left(turn);
    let breaker = Breaker { failures, ..Breaker::default() };
    Workflow { breaker, parallel, ..flow(steps) }
}

/// Replays the events with only the rules of the workflow, and reports what is wrong with them.
fn replayed(flow: &Workflow, walk: &Simulation) -> Result<(), String> {
    let (mut passed, mut running): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rounds: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut failures: BTreeMap<&str, u32> = BTreeMap::new();
    for event in &walk.events {
        match event {
            SimulationEvent::Started { step, attempt, round } => {
                let needs = &step_of(flow, step).ok_or("an unknown step starts")?.needs;
                let fits =
                    |need: &Need| matches!(need, Need::Step(id) if passed.contains(id.as_str()));
                let run = runs.entry(step).or_default();
                *run += 1;
                if !needs.iter().all(fits) || passed.contains(step.as_str()) || *run != *attempt {
                    return Err(format!("{event} too early, too late or under a wrong number"));
                }
                running.insert(step);
                rounds.entry(*round).or_default().push(step);
            }
            SimulationEvent::Passed { step, .. } => {
                if !running.remove(step.as_str()) || !passed.insert(step) {
                    return Err(format!("{event}, but it does not run"));
                }
            }
            SimulationEvent::SentBack { gate, failure, to, resets, .. } => {
                let number = failures.entry(gate).or_default();
                *number += 1;
                let expected: Vec<&str> =
                    flow.downstream(to).iter().map(|step| step.id.as_str()).collect();
                if *number != *failure || *resets != expected {
                    return Err(format!("{event}, not failure {number} or not {expected:?}"));
                }
                passed.retain(|step| !expected.contains(step));
                running.retain(|step| !expected.contains(step));
            }
            SimulationEvent::Asked { gate, failure, max_retries, .. } => {
                let number = failures.entry(gate).or_default();
                *number += 1;
                if *number != *failure || *number < *max_retries {
                    return Err(format!("{event}, not failure {number}"));
                }
            }
            SimulationEvent::Tripped { .. }
            | SimulationEvent::Aborted { .. }
            | SimulationEvent::Ended { .. } => {}
        }
    }
    let limit = flow.parallel.map_or(usize::MAX, |limit| limit.max(1) as usize);
    for steps in rounds.values() {
        let shared: Vec<_> =
            steps.iter().filter_map(|id| step_of(flow, id)?.worktree.clone()).collect();
        let apart: BTreeSet<_> = shared.iter().collect();
        if steps.len() > limit || apart.len() < shared.len() {
            return Err(format!("{steps:?} run at the same time"));
        }
    }
    let complete = passed.len() == flow.steps.len();
    let ends_well = (walk.ended == SimulationEnd::Done) == complete;
    let counted = rounds.len() == walk.longest && runs.values().sum::<usize>() == walk.runs;
    if ends_well && counted { Ok(()) } else { Err(format!("{:?} with {passed:?}", walk.ended)) }
}

/// Laws for every simulation of a workflow that a file can describe.
fn holds(flow: &Workflow, policy: &GateScript<'_>) -> Result<(), String> {
    let (walk, worst) = (run_simulation(flow, policy), worst(flow, 2));
    replayed(flow, &walk)?;
    match walk.ended {
        SimulationEnd::Done | SimulationEnd::Aborted => {}
        SimulationEnd::Person if flow.breaker.failures.is_some() => {}
        SimulationEnd::Person | SimulationEnd::Stuck | SimulationEnd::CutOff => {
            return Err(format!("it ends as {:?}", walk.ended));
        }
    }
    if walk.runs > worst.runs || walk.reviews > worst.reviews {
        return Err(format!("{} runs, {} reviews exceed {worst:?}", walk.runs, walk.reviews));
    }
    for (step, count) in &walk.steps {
        let most = worst.steps[step];
        if count.runs > most.runs || count.reviews > most.reviews {
            return Err(format!("{step}: {count:?} exceeds {most:?}"));
        }
    }
    let price = |_: &str| Some((7, 3));
    let estimate = cost(flow, Some(&walk), &price, 2);
    let taken = estimate.walk.ok_or("a simulation was given")?;
    let sums = [taken.known, walk.runs + walk.reviews];
    if sums[0] != sums[1] || taken.micros > estimate.worst.micros || estimate.worst.unknown > 0 {
        return Err(format!("{estimate:?} of {} runs", walk.runs));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn every_walk_ends_and_is_no_worse_than_the_worst(flow in any_flow(), seed in any::<u64>(), picks in prop::collection::vec((0..9_usize, 0..5_usize), 0..40)) {
        let reasons = [None, Some("r0"), Some("r1"), Some("r2")];
        let chosen: Vec<(String, GateVerdict)> = picks
            .into_iter()
            .map(|(place, reason)| {
                let fail = |reason: &Option<&str>| GateVerdict::Fail { reason: reason.map(str::to_owned) };
                (format!("g{place}"), reasons.get(reason).map_or(GateVerdict::Pass, fail))
            })
            .collect();
        for policy in [GateScript::Chosen(&[]), GateScript::Fail, GateScript::Random { seed }, GateScript::Chosen(&chosen)] {
            let held = holds(&flow, &policy);
            prop_assert!(held.is_ok(), "{:?}: {:?}", policy, held);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_walk(flow in any_flow(), seed in any::<u64>()) {
        let policy = GateScript::Random { seed };
        prop_assert_eq!(run_simulation(&flow, &policy), run_simulation(&flow, &policy));
    }
}

/// Three reviewers judge each run, and in the worst case debate twice; a single reviewer debates
/// with nobody.
#[test]
fn several_reviewers_count_each() {
    let mut flow = flow(vec![step("a", &[], Some(gate("G", 2, &[("", Some("a"))])))]);
    let judged = flow.steps[0].gate.as_mut().expect("it has one");
    judged.reviewers = ["x", "y", "z"].map(str::to_owned).to_vec();
    let taken = run_simulation(&flow, &GateScript::Chosen(&[]));
    assert_eq!((taken.runs, taken.reviews), (1, 3));
    let most = worst(&flow, 2);
    assert_eq!((most.runs, most.reviews, most.steps["a"].reviews), (2, 18, 18));
    assert_eq!(worst(&flow, 0).reviews, 6);
    let past = |role: &str| Some(if role == "z" { (100, 1) } else { (1, 1) });
    let estimate = cost(&flow, Some(&taken), &past, 2);
    assert_eq!((estimate.best.micros, estimate.best.known), (103, 4));
    assert_eq!(estimate.walk, Some(estimate.best));
    assert_eq!((estimate.worst.micros, estimate.worst.known), (614, 20));
    flow.steps[0].gate.as_mut().expect("it has one").reviewers.truncate(1);
    assert_eq!(worst(&flow, 2).reviews, 2);
}
