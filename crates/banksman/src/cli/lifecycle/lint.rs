//! `banksman lifecycle lint`: proves lifecycles sound.

use std::path::Path;

use banksman_core::lifecycle::problem::Problems;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::shown_lines;
use crate::ops::library::{Library, LibraryError};

/// Prove lifecycles sound
///
/// Every state can be reached and left, everything ends, every outcome leads somewhere, every role
/// can do what it is asked for. Silent when all is sound; exit code 5 when something is found.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman lifecycle lint                     all that this project can use
  banksman lifecycle lint autonomous
  banksman lifecycle lint .banksman/lifecycles/review.yaml
")]
pub(super) struct LintArgs {
    /// Names of lifecycles, or files
    #[arg(value_name = "FILE|NAME")]
    subjects: Vec<String>,
}

/// A lifecycle that was looked at, and what is wrong with it.
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
    let is_sound = linted.iter().all(|linted| linted.problems.is_none());
    context.out.answer(
        || json!({ "ok": is_sound, "lifecycles": linted.iter().map(document).collect::<Vec<_>>() }),
        || linted.iter().filter_map(text).collect(),
    )?;
    Ok(if is_sound { Exit::Done } else { Exit::Findings })
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

fn document(linted: &Linted) -> Value {
    let list = linted.problems.iter().flat_map(|problems| &problems.list);
    let problems = list.map(|problem| {
        json!({ "line": problem.line, "column": problem.column, "message": problem.message, "help": problem.help })
    });
    json!({ "id": linted.name, "ok": linted.problems.is_none(), "problems": problems.collect::<Vec<_>>() })
}

/// What is sound needs no words.
fn text(linted: &Linted) -> Option<String> {
    let problems = linted.problems.as_ref()?;
    let (name, found) = (shown_lines(&linted.name), problems.list.len());
    Some(format!("{name}: {found} found\n{}", shown_lines(&problems.to_string())))
}
