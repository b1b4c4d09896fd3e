//! `banksman lifecycle lint`: checks lifecycles.

use std::path::Path;

use banksman_core::lifecycle::problem::Problems;
use clap::Args;

use crate::api;
use crate::api::lifecycle::LintedLifecycle;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_lines;
use crate::cli::symbols::counted;
use crate::ops::library::{Library, LibraryError};

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
pub(super) struct LintArgs {
    /// Lifecycle names or files
    #[arg(value_name = "FILE|NAME")]
    subjects: Vec<String>,
}

/// A checked lifecycle and its problems.
struct Linted {
    name: String,
    problems: Option<Box<Problems>>,
}

pub(super) fn run(context: &Context, args: &LintArgs) -> Result<Exit, Failure> {
    let library = context.library();
    let subjects = if args.subjects.is_empty() {
        library.names()?.into_iter().map(|(name, _)| name).collect()
    } else {
        args.subjects.clone()
    };
    let linted =
        subjects.into_iter().map(|name| lint(&library, name)).collect::<Result<Vec<_>, _>>()?;
    let all_ok = linted.iter().all(|linted| linted.problems.is_none());
    context.out.answer(
        || api::checked(all_ok, "lifecycles", linted.iter().map(document)),
        || linted.iter().filter_map(text).collect(),
    )?;
    Ok(if all_ok { Exit::Done } else { Exit::Findings })
}

fn lint(library: &Library, name: String) -> Result<Linted, Failure> {
    let path = Path::new(&name);
    let is_file = path.components().count() > 1
        || path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let checked = if is_file { library.check_file(path) } else { library.definition(&name) };
    match checked {
        Ok(_) => Ok(Linted { name, problems: None }),
        Err(LibraryError::Unsound(problems)) => Ok(Linted { name, problems: Some(problems) }),
        Err(error @ (LibraryError::Unknown { .. } | LibraryError::Read { .. })) => {
            Err(error.into())
        }
    }
}

fn document(linted: &Linted) -> LintedLifecycle<'_> {
    LintedLifecycle::new(&linted.name, linted.problems.as_deref())
}

/// A valid lifecycle prints nothing.
fn text(linted: &Linted) -> Option<String> {
    let problems = linted.problems.as_ref()?;
    let (name, found) = (sanitize_lines(&linted.name), counted(problems.list.len(), "problem"));
    Some(format!("{name}: {found}\n{}", sanitize_lines(&problems.to_string())))
}
