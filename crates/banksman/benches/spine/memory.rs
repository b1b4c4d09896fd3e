//! The memory of a command: how much the program holds at most while it answers on a large store.

use std::fs;

use crate::cli::large_lifecycle;
use crate::fill::{self, Queue};
use crate::frame::report::{Goal, Report};
use crate::frame::{Fault, Size};
use crate::program::{banksman, peak_megabytes};
use crate::sample;

const MEGABYTES: f64 = 30.0;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let tasks = size.pick(100_000, 20_000);
    report.section(&format!("peak memory of a command on {tasks} tasks"));
    let folder = sample::folder()?;
    let (store, path) = fill::sqlite(&folder, tasks, Queue::MostDelayed)?;
    drop(store);
    let lifecycle = folder.path().join("large.yaml");
    fs::write(&lifecycle, large_lifecycle(200)?)?;
    let lifecycle = lifecycle.to_str().ok_or("the folder's name is not text")?;
    let commands: [&[&str]; 5] = [
        &["status"],
        &["add", "Measure the memory"],
        &["show", "t1"],
        &["list"],
        &["lifecycle", "lint", lifecycle],
    ];
    for words in commands {
        let name = words.split(|word| word.contains('/')).next().unwrap_or_default().join(" ");
        match peak_megabytes(&folder, &banksman(&folder, &path, words))? {
            Some(peak) => report.judge(&name, peak, "MB", Goal::AtMost(MEGABYTES)),
            None => report.skip(&name, "the program `time` is not installed"),
        }
    }
    Ok(())
}
