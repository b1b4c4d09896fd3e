//! `banksman version`: prints the version of the program.

use clap::Args;

use super::{Exit, Output, Result};
use crate::api::project::Version;

/// The commit that the program was built from, if the build sets it.
const COMMIT: Option<&str> = option_env!("BANKSMAN_COMMIT");

/// Print the version
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman version
  banksman version --json
")]
pub(super) struct VersionArgs {}

pub(super) fn run(out: Output, _: &VersionArgs) -> Result<Exit> {
    let version = env!("CARGO_PKG_VERSION");
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    out.answer(
        || Version { arch, commit: COMMIT, os, version },
        || {
            let commit = COMMIT.map(|commit| format!(" ({commit})")).unwrap_or_default();
            format!("banksman {version}{commit} {os}-{arch}\n")
        },
    )
}
