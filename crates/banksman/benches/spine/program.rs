//! Running the program as a shell does: its wall time, its peak memory, and files that are not in
//! memory yet.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::frame::Fault;

/// Prints the largest resident size in KiB of what it runs.
const TIME: &str = "/usr/bin/time";

/// The program that cargo built along with the benchmark.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_banksman");

/// A command that sees no settings of whoever runs the benchmark.
pub(crate) fn command(program: &str, folder: &TempDir) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path())
        .stdin(Stdio::null());
    command
}

/// The program on a store.
pub(crate) fn banksman(folder: &TempDir, store: &Path, words: &[&str]) -> Command {
    let mut command = command(PROGRAM, folder);
    command.arg("--store").arg(store).args(words);
    command
}

/// Runs a command to its end; a failure of it is ours.
pub(crate) fn run(mut command: Command) -> Result<(Duration, Output), Fault> {
    let began = Instant::now();
    let output = command.output()?;
    let took = began.elapsed();
    if output.status.success() {
        return Ok((took, output));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed with {}: {}", output.status, said.trim()).into())
}

/// The largest resident size of a command in MB, if the system can tell.
pub(crate) fn peak_megabytes(folder: &TempDir, measured: &Command) -> Result<Option<f64>, Fault> {
    if !Path::new(TIME).exists() {
        return Ok(None);
    }
    let mut timed = command(TIME, folder);
    timed.args(["-f", "%M"]).arg(measured.get_program()).args(measured.get_args());
    let (_, output) = run(timed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let kilobytes: f64 = said.lines().next_back().unwrap_or_default().trim().parse()?;
    Ok(Some(kilobytes * 1_024.0 / 1_000_000.0))
}

/// Drops a file from the system's cache, so that the next reader has to go to the disk. Other files
/// are left alone.
pub(crate) fn forget(folder: &TempDir, path: &Path) -> Result<(), Fault> {
    let mut input = std::ffi::OsString::from("if=");
    input.push(path);
    let mut dd = command("dd", folder);
    dd.arg(input).args(["iflag=nocache", "count=0", "status=none"]);
    run(dd).map(|_| ())
}
