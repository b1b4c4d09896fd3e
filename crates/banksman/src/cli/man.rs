//! `banksman man`: writes manual pages from the same data as the help.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;

use super::{Exit, Failure, Output, Result, command, files};

/// Print the manual page, or write one for every command
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman man | man -l -
  banksman man -o ~/.local/share/man/man1
")]
pub(super) struct ManArgs {
    /// Write a page for every command into this folder
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn run(out: Output, args: &ManArgs) -> Result<Exit> {
    let mut command = command();
    command.build();
    let Some(folder) = &args.output else {
        let page = page(&command)?;
        return out.stream(|stdout| stdout.write_all(&page).map_err(Failure::Output));
    };
    fs::create_dir_all(folder).map_err(Failure::file("create", folder))?;
    write_pages(folder, &command)?;
    Ok(Exit::Done)
}

/// Subcommands are nested at most two levels deep.
fn write_pages(folder: &Path, command: &Command) -> Result<()> {
    let content = page(command)?;
    let path = folder.join(format!("{}.1", name(command)));
    files::write(&path, |out| out.write_all(&content).map_err(Failure::Output))?;
    let mut visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    visible.try_for_each(|inner| write_pages(folder, inner))
}

/// `banksman-lifecycle-show`.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Manual pages have their examples at the end.
fn page(command: &Command) -> Result<Vec<u8>> {
    let examples = command.get_before_long_help().map(ToString::to_string).unwrap_or_default();
    let own = command.clone().after_help(examples);
    let mut page = Vec::new();
    Man::new(own).render(&mut page).map_err(Failure::Output)?;
    Ok(page)
}
