//! `banksman init`: sets up Banksman in a repository.

use std::fs;
use std::io::{self, Write};

use clap::Args;

use super::arguments::ActorArgs;
use super::output::sanitize;
use super::{Context, Exit, Failure, Result};
use crate::api::project::Project;
use crate::config::{self, DEFAULTS};
use crate::ops::projects;

/// Set up Banksman in this repository
///
/// Registers the project and writes a settings file. The project's root is the nearest parent
/// folder with a `.git`, else the current folder. Running it again changes nothing.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman init
  banksman init --name shop
  banksman init --store postgres://me@localhost/banksman
")]
pub(super) struct InitArgs {
    /// The project's name [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn run(context: &Context, args: &InitArgs) -> Result<Exit> {
    let session = context.session_or_new(&ActorArgs::default())?;
    let root = &context.config.root;
    let name = projects::init(
        &session,
        args.name.as_deref().or(context.config.project.as_deref()),
        root,
        context.now,
    )?;
    let file = context.config.project_file();
    let is_new = write_settings(context)?;
    let target = context.target()?.to_string();
    context.out.answer(
        || Project {
            path: root,
            project: &name,
            settings: &file,
            settings_written: is_new,
            store: &target,
        },
        || {
            if context.out.quiet {
                return format!("{name}\n");
            }
            let written = if is_new { "written" } else { "unchanged" };
            let lines = [
                format!("project   {name}"),
                format!("folder    {}", sanitize(&root.display().to_string())),
                format!("store     {}", sanitize(&target)),
                format!("settings  {} ({written})", sanitize(&file.display().to_string())),
            ];
            lines.join("\n") + "\n"
        },
    )?;
    // The project's own policy and prompts may be invalid; suggest to check them before an agent
    // uses them.
    let has_own = |name: &str| root.join(config::FOLDER).join(name).exists();
    let own = [("policy.yaml", "policy lint"), ("prompts", "prompts lint")];
    let own = own.into_iter().filter(|(file, _)| has_own(file)).map(|(_, command)| command);
    let next: Vec<&str> = own.chain(["add 'TITLE'", "list", "help"]).collect();
    Ok(context.out.next(&next))
}

/// Writes the template unless the file exists; returns whether it did.
fn write_settings(context: &Context) -> Result<bool> {
    let path = context.config.project_file();
    let failed = Failure::file("write", &path);
    fs::create_dir_all(context.config.root.join(config::FOLDER)).map_err(failed)?;
    let mut file = match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    file.write_all(template().as_bytes()).map_err(failed)?;
    Ok(true)
}

/// The defaults with every value commented out, so that later versions may change them.
fn template() -> String {
    let is_value =
        |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.starts_with('[');
    let lines = DEFAULTS
        .lines()
        .map(|line| if is_value(&line) { format!("# {line}\n") } else { format!("{line}\n") });
    lines.collect()
}
