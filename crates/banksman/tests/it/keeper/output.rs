//! Output without end: nothing blocks, nothing grows.

use std::fs;

use banksman::exec::site::Site;
use banksman_core::receipt::{EndCause, Terminal};

use super::world::{SUCCESS, World, plan};

const HALF_A_GIGABYTE: u64 = 512 * 1024 * 1024;

fn length(path: &std::path::Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// The most memory that a process has had, in KiB.
fn most_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a high-water mark");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_flood_on_both_streams_stays_within_bounds() {
    let world = World::new();
    let (flooded, go) = (world.path("flooded"), world.path("go"));
    let script = format!(
        "head -c {HALF_A_GIGABYTE} /dev/zero >&2 & head -c {HALF_A_GIGABYTE} /dev/zero; wait; echo; echo done > {}; \
         until [ -e {} ]; do sleep 0.01; done; {SUCCESS}",
        flooded.display(),
        go.display()
    );
    let mut plan = plan("r1.1", &script);
    plan.limits.output_bytes = 2_000_000;
    world.site.begin(&plan).unwrap();
    world.wait_for_file("flooded");
    let most = most_memory(world.begun("r1.1").pid);
    assert!(most < 40 * 1024, "{most} KiB");
    fs::write(go, "").unwrap();
    let receipt = world.receipt("r1.1");
    assert_eq!(receipt.ended, EndCause::Completed);
    // The line after the flood is read as if nothing had been.
    assert_eq!(receipt.reading.expect("a reading").terminal, Some(Terminal::Success));
    let folder = world.folder("r1.1");
    for name in ["out.jsonl", "err.log"] {
        let (new, old) = (folder.path().join(name), folder.path().join(format!("{name}.1")));
        assert!((900_000..=1_000_000).contains(&length(&old)), "{name}");
        assert!((1..=1_000_000).contains(&length(&new)), "{name}");
    }
    assert!(world.file("r1.1", "out.jsonl").ends_with("\"session\":\"s1\"}\n"));
}

/// The log cannot be written, and the run goes well all the same.
#[test]
fn a_log_that_cannot_be_written_stops_nobody() {
    let world = World::new();
    let folder = world.folder("r1.1");
    fs::create_dir_all(folder.path().join("out.jsonl")).unwrap();
    let receipt = world.run(&plan("r1.1", SUCCESS));
    assert_eq!(receipt.ended, EndCause::Completed);
    assert_eq!(receipt.reading.expect("a reading").terminal, Some(Terminal::Success));
}

/// A child that has the agent's output open and outlives it does not hold the job up.
#[test]
fn the_last_line_needs_no_end() {
    let world = World::new();
    let receipt = world.run(&plan("r1.1", r#"printf '{"type":"result","status":"success"}'"#));
    assert_eq!(receipt.reading.expect("a reading").terminal, Some(Terminal::Success));
}
