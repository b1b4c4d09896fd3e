//! One keeper for each job, however often and by however many it is begun.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use banksman::exec::site::{JobStatus, Site};
use banksman_core::receipt::EndCause;

use super::world::{PROGRAM, SUCCESS, World, job, plan};

#[test]
fn a_job_that_was_never_begun_is_absent() {
    let world = World::new();
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Absent);
    assert_eq!(world.site.jobs().unwrap(), []);
    world.site.stop(job("r1.1"), "kim").unwrap();
    assert_eq!(world.site.end_left_over(job("r1.1")).unwrap(), 0);
}

#[test]
fn a_job_that_is_begun_is_running_at_once() {
    let world = World::new();
    for round in 1..=20 {
        let name = format!("r1.{round}");
        world.site.begin(&plan(&name, SUCCESS)).unwrap();
        let sight = world.site.look(job(&name)).unwrap();
        assert!(matches!(sight, JobStatus::Running | JobStatus::Ended(_)), "{sight:?}");
    }
    (1..=20).for_each(|round| drop(world.receipt(&format!("r1.{round}"))));
}

#[test]
fn many_who_begin_one_job_at_once_begin_it_once() {
    let world = World::new();
    let starts = world.path("starts");
    let plan = plan("r1.1", &format!("echo start >> {}; {SUCCESS}", starts.display()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let site = world.another_site();
                for _ in 0..10 {
                    site.begin(&plan).unwrap();
                    site.look(job("r1.1")).unwrap();
                }
            });
        }
    });
    assert_eq!(world.receipt("r1.1").ended, EndCause::Completed);
    world.site.begin(&plan).unwrap();
    assert_eq!(world.receipt("r1.1").ended, EndCause::Completed);
    assert_eq!(fs::read_to_string(starts).unwrap(), "start\n");
}

/// Who may not begin it leaves it to the others, and whoever comes too late is not even asked.
#[test]
fn only_the_one_that_begins_a_job_is_asked_whether_it_may() {
    let world = World::new();
    let plan = plan("r1.1", SUCCESS);
    world.site.begin_if(&plan, &mut || false).unwrap();
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Absent);
    let mut asked = 0;
    for _ in 0..2 {
        let may_begin = &mut || {
            asked += 1;
            true
        };
        world.site.begin_if(&plan, may_begin).unwrap();
    }
    assert_eq!(world.receipt("r1.1").ended, EndCause::Completed);
    assert_eq!(asked, 1);
}

/// A control plane that died after it had the lock, or after it had written the plan.
#[test]
fn a_beginning_that_was_cut_short_is_made_good() {
    let world = World::new();
    let folder = world.folder("r1.1");
    fs::create_dir_all(folder.path()).unwrap();
    drop(folder.try_lock().unwrap().expect("nobody has it"));
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Absent);
    folder.write_spec(&plan("r1.1", "exit 1")).unwrap();
    fs::write(folder.path().join("plan.1.draft"), "{\"job\":").unwrap();
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Absent);
    assert_eq!(world.run(&plan("r1.1", SUCCESS)).exit.expect("an exit").code, Some(0));
}

#[test]
fn a_keeper_without_the_lock_does_nothing() {
    let world = World::new();
    let folder = world.folder("r1.1");
    fs::create_dir_all(folder.path()).unwrap();
    folder.write_spec(&plan("r1.1", SUCCESS)).unwrap();
    let keeper = || {
        let mut keeper = Command::new(PROGRAM);
        keeper.arg("keeper").arg(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        keeper
    };
    assert!(!keeper().stdin(Stdio::null()).status().unwrap().success());
    // The right file, opened anew while another one holds the lock.
    let lock = folder.try_lock().unwrap().expect("nobody has it");
    let unlocked = fs::File::open(folder.path().join("lock")).unwrap();
    assert!(!keeper().stdin(unlocked).status().unwrap().success());
    assert_eq!(folder.begun().unwrap(), None);
    assert!(keeper().stdin(lock).status().unwrap().success());
    assert_eq!(world.receipt("r1.1").ended, EndCause::Completed);
}

#[test]
fn two_keepers_that_race_for_one_lock_are_one() {
    let world = World::new();
    for round in 1..=10 {
        let name = format!("r1.{round}");
        let folder = world.folder(&name);
        fs::create_dir_all(folder.path()).unwrap();
        let starts = world.path(&format!("starts{round}"));
        folder
            .write_spec(&plan(&name, &format!("echo start >> {}; {SUCCESS}", starts.display())))
            .unwrap();
        let lock = || {
            fs::File::options().create(true).append(true).open(folder.path().join("lock")).unwrap()
        };
        let keeper = |lock: fs::File| {
            let mut keeper = Command::new(PROGRAM);
            keeper
                .arg("keeper")
                .arg(folder.path())
                .stdin(lock)
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut both = [keeper(lock()), keeper(lock())];
        for keeper in &mut both {
            keeper.wait().unwrap();
        }
        assert_eq!(fs::read_to_string(starts).unwrap(), "start\n");
    }
}

#[test]
fn a_keeper_has_no_file_of_the_control_plane() {
    let world = World::new();
    let open = fs::File::create(world.path("secret")).unwrap();
    let script = format!("echo $$ > {}; sleep 1000", world.path("agent").display());
    world.site.begin(&plan("r1.1", &script)).unwrap();
    world.wait_for_file("agent");
    let keeper = world.begun("r1.1").pid;
    let fds = fs::read_dir(format!("/proc/{keeper}/fd")).unwrap();
    let targets: Vec<String> = fds
        .map(|fd| fs::read_link(fd.unwrap().path()).unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(!targets.iter().any(|target| target.contains("secret")), "{targets:?}");
    let files: Vec<&str> = targets
        .iter()
        .filter(|t| t.starts_with('/') && !t.starts_with("/dev/"))
        .filter_map(|t| t.rsplit('/').next())
        .collect();
    assert_eq!(files, ["lock", "keeper.log", "keeper.log"]);
    drop(open);
}
