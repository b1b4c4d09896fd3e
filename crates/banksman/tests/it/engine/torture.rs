//! The control plane, keepers and agents are killed again and again while a batch of tasks is
//! worked on.
//!
//! `BANKSMAN_TORTURE_KILLS` and `BANKSMAN_TORTURE_TASKS` make it longer, `BANKSMAN_TORTURE_SEED`
//! makes it another one. The control plane is this test binary, run again as a child: the same loop
//! as `up`, with a policy that tries again at once.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use banksman::clock;
use banksman::engine::wake::{WakeReason, Waker};
use banksman_core::time::Span;

use super::driver::Driver;
use super::harness::{Harness, Up, is_over, state_of, tasks};
use super::processes::{Process, wait_until};
use crate::crash::Seeded;

const HARNESS: &str = "BANKSMAN_TORTURE_YARD";
const KILLS: u64 = 10;
const TASKS: u64 = 8;
/// The same failure four times in a row makes a task give up, and rightly so.
const AGENT_KILLS: u32 = 3;
/// The keeper of one merge or clean-up may be lost five times, that of a run ten times.
const KEEPER_KILLS: u32 = 4;
const PATIENCE: Span = Span(200);
/// Commits twice, with thought in between, so that a kill finds it at any point.
const WORK: &str = r#"sleep 40
run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
run git add -A && git commit -qm "work of ${BANKSMAN_RUN%%:*}" && echo "${BANKSMAN_RUN%%:*} $(git rev-parse HEAD)" >>"$YARD/commits"
sleep 40
run echo more >>"work-$BANKSMAN_TASK"
run git add -A && git commit -qm "more of ${BANKSMAN_RUN%%:*}"
sleep 20
success it is written
"#;

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// In a child this is the control plane, until it is killed. Otherwise it is one turn on a harness
/// without tasks.
#[test]
fn a_child_is_the_control_plane() {
    let Ok(root) = env::var(HARNESS) else {
        let harness = Harness::new(&[]);
        assert_eq!(Driver::of(harness.root(), PATIENCE).turn().effects, 0);
        return;
    };
    let driver = Driver::of(Path::new(&root), PATIENCE);
    let waker = Waker::new(&driver.store, &driver.site.ended_folder()).expect("a bell");
    loop {
        let pulse = driver.turn();
        let next = pulse.next.map_or(1_000, |next| (next.0 - clock::now().0).clamp(1, 1_000));
        let sleep = Duration::from_millis(u64::try_from(next).expect("it was clamped"));
        if waker.wait(sleep) == WakeReason::Stop {
            return;
        }
    }
}

fn control_plane(harness: &Harness) -> Up {
    let mut command = Command::new(env::current_exe().expect("the test binary has a path"));
    command.args(["--exact", "engine::torture::a_child_is_the_control_plane", "--nocapture"]);
    command.env(HARNESS, harness.root()).stdin(Stdio::null());
    Up::start(command, &harness.path("up-here.log"))
}

/// Whom the seed names, and how often each was killed.
struct Hangman {
    seeded: Seeded,
    agents: BTreeMap<String, u32>,
    keepers: BTreeMap<String, u32>,
    ups: u32,
}

impl Hangman {
    /// One that may be killed once more: of each task, or each job, only so many.
    fn one_of<'p>(
        seeded: &mut Seeded,
        candidates: &'p [(String, Process)],
        killed: &BTreeMap<String, u32>,
        most: u32,
    ) -> Option<&'p (String, Process)> {
        let may = |(name, _): &&(String, Process)| killed.get(name).is_none_or(|n| *n < most);
        let may: Vec<&(String, Process)> = candidates.iter().filter(may).collect();
        let count = u64::try_from(may.len()).expect("few");
        let nth = usize::try_from(seeded.below(count.max(1))).expect("few");
        may.get(nth).copied()
    }

    /// Kills one process of the harness. Answers whether anybody was there to be killed.
    fn kill(&mut self, harness: &Harness, up: &mut Option<Up>) -> bool {
        match self.seeded.below(4) {
            0 => {
                up.take().expect("there is always one").kill();
                *up = Some(control_plane(harness));
                self.ups += 1;
                true
            }
            1 => {
                let agents = harness.agents().into_iter();
                let named = agents.filter_map(|agent| Some((task_of(agent.job()?), agent)));
                let named: Vec<_> = named.collect();
                let one = Self::one_of(&mut self.seeded, &named, &self.agents, AGENT_KILLS);
                let Some((task, agent)) = one else { return false };
                agent.kill();
                *self.agents.entry(task.clone()).or_default() += 1;
                true
            }
            _ => {
                let named: Vec<_> =
                    harness.keepers().into_iter().map(|it| (kept_by(&it), it)).collect();
                let one = Self::one_of(&mut self.seeded, &named, &self.keepers, KEEPER_KILLS);
                let Some((job, keeper)) = one else { return false };
                keeper.kill();
                *self.keepers.entry(job.clone()).or_default() += 1;
                true
            }
        }
    }
}

fn task_of(run: &str) -> String {
    run.split('.').next().unwrap_or_default().to_owned()
}

/// Runs of a task count together, each merge and each clean-up for itself.
fn kept_by(keeper: &Process) -> String {
    let folder = keeper.args.last().expect("a keeper has a folder");
    let job = folder.rsplit('/').next().unwrap_or_default();
    if job.starts_with('r') { task_of(job) } else { job.to_owned() }
}

/// Short ones with a seed each, so that none needs more than a part of its time limit.
mod nothing_is_lost_whoever_is_killed {
    use super::torture;

    #[test]
    fn by_the_first_seed() {
        torture(7);
    }

    #[test]
    fn by_the_second_seed() {
        torture(8);
    }

    #[test]
    fn by_the_third_seed() {
        torture(9);
    }

    #[test]
    fn by_the_fourth_seed() {
        torture(10);
    }

    #[test]
    fn by_the_fifth_seed() {
        torture(11);
    }

    #[test]
    fn by_the_sixth_seed() {
        torture(12);
    }
}

fn torture(seed: u64) {
    let (kills, count) =
        (number("BANKSMAN_TORTURE_KILLS", KILLS), number("BANKSMAN_TORTURE_TASKS", TASKS));
    let began = Instant::now();
    let harness = Harness::new(&[("limits.agents", "6"), ("budget.task_runs", "0")]);
    harness.script("any", WORK);
    for number in 0..count {
        harness.add(&format!("part {number}"), &[]);
    }
    let store = harness.open();
    let mut hangman = Hangman {
        seeded: Seeded(number("BANKSMAN_TORTURE_SEED", seed)),
        agents: BTreeMap::new(),
        keepers: BTreeMap::new(),
        ups: 0,
    };
    let mut up = Some(control_plane(&harness));
    let (mut killed, mut seen) = (0, 0);
    while killed < kills {
        // Spread over the whole batch: the next kill comes when so many more agents were started,
        // or none will be.
        let wanted = seen + usize::try_from(hangman.seeded.below(2)).expect("few");
        wait_until("agents are started", || {
            harness.starts().len() >= wanted || tasks(&store).iter().all(is_over)
        });
        seen = harness.starts().len();
        if tasks(&store).iter().all(is_over) {
            break;
        }
        if hangman.kill(&harness, &mut up) {
            killed += 1;
        }
    }
    harness.until_over(&["here"]);
    up.take().expect("there is always one").kill();
    let runs = harness.starts().len();
    println!(
        "{killed} kills ({} of the control plane, {} of keepers, {} of agents), {count} tasks, {runs} starts of agents, {} s",
        hangman.ups,
        hangman.keepers.values().sum::<u32>(),
        hangman.agents.values().sum::<u32>(),
        began.elapsed().as_secs()
    );
    assert_eq!(killed, kills, "the tasks were over before all kills were done");
    assert_everything_came_home(&harness);
}

fn assert_everything_came_home(harness: &Harness) {
    for stored in harness.tasks() {
        let id = stored.task.id;
        assert_eq!(state_of(&stored), "done", "{id}: {:?}", stored.task.fields);
        let work = harness.git(&["show", &format!("main:work-{id}")]);
        assert!(work.ends_with("more\n"), "{id}: {work}");
    }
    let mut starts = harness.starts();
    let count = starts.len();
    starts.sort();
    starts.dedup();
    assert_eq!(starts.len(), count, "a run was started twice");
    harness.assert_clean(&["here"]);
}
