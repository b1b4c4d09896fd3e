//! `kill -9` at any moment: a receipt is whole or not there, and nothing of the job is left in the
//! end.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Moment};

use banksman::clock;
use banksman::exec::job::JobSpec;
use banksman::exec::keeper::JobFolder;
use banksman::exec::site::{JobStatus, Site};
use banksman_core::receipt::EndCause;

use super::world::{PROGRAM, SUCCESS, World, job, marked, plan, wait_until};

const KILLS: u64 = 100;

/// A fixed spread of moments up to `most`, so that a failure can be had again.
fn moment(round: u64, most: Duration) -> Duration {
    let spread = round.wrapping_mul(6_364_136_223_846_793_005) >> 32;
    most.mul_f64(spread as f64 / f64::from(u32::MAX))
}

/// Starts a keeper as the control plane does, but as a child that can be killed and waited for.
fn start(folder: &JobFolder, plan: &JobSpec) -> Child {
    fs::create_dir_all(folder.path()).unwrap();
    let lock = folder.try_lock().unwrap().expect("nobody has it");
    folder.write_spec(plan).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("keeper").arg(folder.path()).stdin(lock).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn a_kill_at_any_moment_leaves_a_whole_receipt_or_none() {
    let world = World::new();
    let script = format!("(setsid sleep 1000 &); {SUCCESS}");
    let begin = Moment::now();
    start(&world.folder("r1000.1"), &plan("r1000.1", &script)).wait().unwrap();
    let whole = begin.elapsed();
    let (mut ended, mut lost, mut absent) = (0, 0, 0);
    for round in 1..=KILLS {
        let name = format!("r{round}.1");
        let folder = world.folder(&name);
        let mut keeper = start(&folder, &plan(&name, &script));
        let started = Moment::now();
        wait_until("the moment", || started.elapsed() >= moment(round, whole));
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        // A child that was being born has a copy of the lock until it is there.
        world.wait_for_the_keeper(&name);
        match world.site.look(job(&name)).unwrap() {
            JobStatus::Ended(receipt) => {
                ended += 1;
                assert_eq!(
                    (receipt.job.as_str(), receipt.ended),
                    (name.as_str(), EndCause::Completed)
                );
            }
            JobStatus::Lost => {
                lost += 1;
                let marker = folder.begun().unwrap().expect("it had begun").marker;
                world.site.end_left_over(job(&name)).unwrap();
                assert_eq!(marked(&marker), [0; 0]);
            }
            JobStatus::Absent => {
                absent += 1;
                assert!(folder.begun().unwrap().is_none());
            }
            JobStatus::Running => panic!("the keeper is gone"),
        }
        world.site.put_away(job(&name), clock::now()).unwrap();
        let group = world.site.past_folder(job(&name)).begun().unwrap().and_then(|b| b.cgroup);
        assert!(!group.is_some_and(|group| group.exists()), "a control group is left");
    }
    assert_eq!(ended + lost + absent, KILLS);
    assert!(lost >= 10, "{ended} ended, {lost} lost, {absent} absent");
}
