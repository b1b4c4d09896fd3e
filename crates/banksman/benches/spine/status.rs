//! `status` on a large store against the `sqlite3` program that counts the same, cold and warm.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::fill::{self, Queue};
use crate::frame::report::{Report, Rounds, millis, short};
use crate::frame::{Fault, Size};
use crate::program::{banksman, command, forget, run};
use crate::sample;

const COUNT: &str =
    "SELECT state, kind, count(*) FROM tasks GROUP BY state, kind ORDER BY state, kind";

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let tasks = size.pick(100_000, 20_000);
    report.section(&format!("status on {tasks} tasks"));
    let folder = sample::folder()?;
    let (store, path) = fill::sqlite(&folder, tasks, Queue::MostDelayed)?;
    drop(store);
    if command("sqlite3", &folder).arg("--version").output().is_err() {
        report.skip("status against the sqlite3 program", "the program is not installed");
        return Ok(());
    }
    for (name, is_cold) in [("cold", true), ("warm", false)] {
        let mut rounds = Rounds::default();
        for _ in 0..size.pick(21, 5) {
            let ours = took(&folder, &path, is_cold, banksman(&folder, &path, &["status"]))?;
            let mut sqlite = command("sqlite3", &folder);
            sqlite.arg(&path).arg(COUNT);
            rounds.add(ours, took(&folder, &path, is_cold, sqlite)?);
        }
        report
            .note(&format!("{name}: status, sqlite3 with the same GROUP BY"), &rounds.words("ms"));
        report.note(
            &format!("{name}: status takes"),
            &format!("{} × the time of sqlite3", short(rounds.ratio())),
        );
    }
    Ok(())
}

fn took(folder: &TempDir, path: &Path, is_cold: bool, command: Command) -> Result<f64, Fault> {
    if is_cold {
        forget(folder, path)?;
    }
    let (took, output) = run(command)?;
    if output.stdout.is_empty() {
        return Err("it printed nothing".into());
    }
    Ok(millis(took))
}
