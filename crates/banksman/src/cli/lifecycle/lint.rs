//! `banksman lifecycle lint`: checks lifecycles.

use std::path::Path;

use banksman_core::lifecycle::problem::Problems;
use clap::Args;

use super::sound;
use crate::api::Checked;
use crate::api::error::FieldMessage;
use crate::cli::output::sanitize_lines;
use crate::cli::symbols::counted;
use crate::cli::{Context, Exit, Result, files, report};
use crate::ops::error_report::Code;
use crate::ops::library::Library;

/// Check lifecycles
///
/// Checks that every state can be reached and left, that every task can end, that every outcome
/// leads somewhere, and that every role can do what is asked of it. Prints nothing if all are
/// valid; exits with 5 otherwise.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle lint                     check all that this project can use
  banksman lifecycle lint autonomous
  banksman lifecycle lint .banksman/lifecycles/review.yaml
")]
pub(in crate::cli) struct LintArgs {
    /// Lifecycle names or files
    #[arg(value_name = "FILE|NAME")]
    subjects: Vec<String>,
}

/// A checked lifecycle and its problems.
type CheckedFile = (String, Option<Box<Problems>>);

pub(super) fn run(context: &Context, args: &LintArgs) -> Result<Exit> {
    let library = context.library();
    let subjects = if args.subjects.is_empty() {
        library.names()?.into_iter().map(|(name, _)| name).collect()
    } else {
        args.subjects.clone()
    };
    let linted =
        subjects.into_iter().map(|name| lint(&library, name)).collect::<Result<Vec<_>, _>>()?;
    let text = || linted.iter().filter_map(text).collect();
    let found = linted.iter().filter_map(|(_, problems)| problems.as_deref());
    let errors: Vec<FieldMessage> = found.flat_map(FieldMessage::of_file).collect();
    let checked = || Checked::new(linted.iter().map(|(name, _)| name.clone()).collect());
    report::findings(&context.out, Code::InvalidLifecycle, errors, checked, text)
}

fn lint(library: &Library, name: String) -> Result<CheckedFile> {
    let found = match files::is_yaml(&name) {
        true => library.check_file(Path::new(&name)),
        false => library.definition(&name),
    };
    Ok((name, sound(found)?.err()))
}

/// A valid lifecycle prints nothing.
fn text((name, problems): &CheckedFile) -> Option<String> {
    let problems = problems.as_ref()?;
    let (name, found) = (sanitize_lines(name), counted(problems.list.len(), "problem"));
    Some(format!("{name}: {found}\n{}", sanitize_lines(&problems.to_string())))
}
