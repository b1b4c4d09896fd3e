//! Where the scripted agent is. It is built when it is missing or older than its sources, so that a
//! test never runs against an old one, also when only this package is tested.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripted-agent");
const NAME: &str = "scripted-agent";

/// The program, in the folder of this very build.
pub(crate) fn scripted_agent() -> PathBuf {
    let test = env::current_exe().expect("the test binary has a path");
    let build = test.parent().and_then(Path::parent).expect("it is in target/PROFILE/deps");
    let program = build.join(NAME);
    if changed(&program).is_none_or(|built| built < newest_source()) {
        // Cargo's own lock makes one of several tests build it.
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--offline", "--package", NAME]);
        cargo.arg("--manifest-path").arg(Path::new(SOURCES).join("Cargo.toml"));
        cargo.arg("--target-dir").arg(build.parent().expect("it is in target/PROFILE"));
        if build.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo starts, since it built this test").success());
        assert!(program.exists(), "cargo did not build {}", program.display());
    }
    program
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn newest_source() -> SystemTime {
    let files = fs::read_dir(Path::new(SOURCES).join("src")).expect("the sources are there");
    let times = files.filter_map(|file| changed(&file.ok()?.path()));
    times.max().expect("there is at least one source")
}
