//! Many agents at once, each of which says something every few seconds: what `up`, the keepers and
//! the renewals use.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::frame::report::{Goal, Report, median, short};
use crate::frame::{Fault, Size};
use crate::place::{Place, wait_until};
use crate::processes::{Process, megabytes, naming, processor_time};

const SCRIPT: &str = "echo '{\"type\":\"session\",\"id\":\"s1\"}'\nfor i in $(seq 60); do echo '{\"type\":\"text\",\"text\":\"still at it\"}'; sleep 5; done\n";
const PERCENT_OF_A_CORE: f64 = 5.0;
const UP_MEGABYTES: f64 = 60.0;
const KEEPER_MEGABYTES: f64 = 5.0;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let agents: u32 = size.pick(200, 20);
    // Leases of five minutes are renewed every hundred seconds, so each is renewed once.
    let window = Duration::from_secs(size.pick(100, 10));
    report.section(&format!("{agents} agents at once, for {} seconds", window.as_secs()));
    let place = Place::new(SCRIPT, agents, agents)?;
    place.add(usize::try_from(agents)?)?;
    let began = Instant::now();
    let mut up = place.up()?;
    let folder = place.path("runs").display().to_string();
    let keepers =
        || -> Vec<Process> { naming(&folder).into_iter().filter(Process::is_keeper).collect() };
    wait_until("all agents are at work", || {
        let all = usize::try_from(agents)?;
        let talks = |number: usize| place.path(&format!("runs/r{number}.1/out.jsonl")).exists();
        Ok((1..=all).all(talks))
    })?;
    report.note("until all were at work", &format!("{} s", short(began.elapsed().as_secs_f64())));
    let ours: Vec<u32> = keepers().iter().map(|keeper| keeper.pid).chain([up.id()]).collect();
    let times = || -> BTreeMap<u32, Duration> {
        ours.iter().filter_map(|pid| Some((*pid, processor_time(*pid)?))).collect()
    };
    let (before, began) = (times(), Instant::now());
    thread::sleep(window);
    let (after, took) = (times(), began.elapsed());
    let used = |pid: &u32| -> Duration {
        let both = before.get(pid).zip(after.get(pid));
        both.map(|(before, after)| after.saturating_sub(*before)).unwrap_or_default()
    };
    let share = |used: Duration| 100.0 * used.as_secs_f64() / took.as_secs_f64();
    let all: Duration = ours.iter().map(used).sum();
    let of_up = used(&up.id());
    let pss: Vec<f64> = ours
        .iter()
        .filter(|pid| **pid != up.id())
        .filter_map(|pid| megabytes(*pid, "Pss"))
        .collect();
    let memory = megabytes(up.id(), "Rss").unwrap_or_default();
    let still_there = keepers().len();
    up.kill()?;
    up.wait()?;
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let still_there = still_there as f64;
    report.judge("keepers at the end", still_there, "", Goal::AtLeast(f64::from(agents)));
    report.judge(
        "`up`, keepers and renewals, of one core",
        share(all),
        "%",
        Goal::AtMost(PERCENT_OF_A_CORE),
    );
    report.note("of it, `up`", &format!("{} %", short(share(of_up))));
    report.judge("memory of `up`", memory, "MB", Goal::AtMost(UP_MEGABYTES));
    report.judge("memory of a keeper (PSS)", median(&pss), "MB", Goal::AtMost(KEEPER_MEGABYTES));
    Ok(())
}
