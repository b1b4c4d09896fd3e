//! Opens terminal windows that follow the log of a run, for people who asked for one.

use std::path::Path;

use banksman_core::ids::RunId;

use crate::config::{Config, EnvVars, Windows};
use crate::exec::process::PlainRunner;
use crate::exec::window::{self, WindowHost};
use crate::ops::OpsError;
use crate::ops::error_report::Hint;
use crate::store::conn::Target;

/// The terminal that opens windows for runs, if the settings ask for any.
pub fn window_host(windows: Windows) -> Option<WindowHost> {
    match windows {
        Windows::None => None,
        Windows::Auto => WindowHost::around(&window::environment()),
        Windows::Tmux => Some(WindowHost::Tmux),
        Windows::Tabby => Some(WindowHost::Tabby),
    }
}

/// Opens a window that follows the log of a run. `program` is our own program.
pub fn open_window(
    config: &Config,
    program: &Path,
    host: WindowHost,
    run: RunId,
) -> Result<(), OpsError> {
    let agents = &config.agents;
    // The window gets the environment of its terminal, not ours.
    let mut command = vec![
        "env".to_owned(),
        format!("{}={}", EnvVars::BANKSMAN_HOME, agents.home.display()),
        format!("{}={}", EnvVars::NODE, agents.node),
        program.display().to_string(),
        "log".to_owned(),
        run.to_string(),
        "--follow".to_owned(),
    ];
    let address = config.store.clone().unwrap_or_default();
    // Everybody on the machine can read a program's arguments, so an address with a password must
    // come from the settings.
    let target: Target = address.parse()?;
    if !address.contains("://") || target.to_string() == address {
        command.extend(["--store".to_owned(), address]);
    }
    let (mut runner, name) = (PlainRunner { env: window::environment() }, run.to_string());
    let opened = window::open(host, &mut runner, &name, &command, &config.folder);
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        OpsError::input(format!("{error}{}", cause.unwrap_or_default()), Hint::RunInside(host))
    })
}
