//! `banksman workflow lint`: what is wrong with the files of workflows, and what is doubtful.

use std::path::{Path, PathBuf};

use banksman_core::lifecycle::problem::{Problem, SourceSnippet};
use clap::Args;
use serde_json::{Value, json};

use super::ParamArgs;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::{shown, shown_lines};
use crate::exec::files::missing;
use crate::ops::workflows::{self, LintTarget, Linted};

/// Check files of steps and gates
///
/// An error is what cannot be run: exit code 5. A doubt is what will run, but perhaps not as it was
/// meant: exit code 0, or 5 with --strict. Paths in the files are looked for from the root of the
/// repository. A parameter that has no value yet is looked at with one that fits. Starts nothing
/// and writes nothing.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow lint                         all of .workflow/specs
  banksman workflow lint phase-4.yaml
  banksman workflow lint release.yaml --param version=1.2 --strict
")]
pub(super) struct LintArgs {
    /// The files; left out: all of `.workflow/specs`
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    params: ParamArgs,
    /// A doubt counts as much as an error
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(context: &Context, args: &LintArgs) -> Result<Exit, Failure> {
    let config = &context.config;
    let subject = match &args.files[..] {
        [] => LintTarget::Repository { root: &config.root, folder: &config.folder },
        files => LintTarget::Files(files),
    };
    let exists = |path: &str| is_there(&config.root, path);
    let linted = workflows::lint(subject, &args.params.params()?, &exists)?;
    let is_well =
        |linted: &Linted| linted.errors.is_none() && (!args.strict || linted.warnings.is_empty());
    let is_sound = linted.iter().all(is_well);
    context.out.answer(
        || json!({ "ok": is_sound, "workflows": linted.iter().map(|linted| document(linted, is_well(linted))).collect::<Vec<_>>() }),
        || linted.iter().flat_map(texts).collect::<Vec<_>>().join("\n"),
    )?;
    for one in &linted {
        for name in &one.stand_ins {
            let path = one.path.display();
            let how = format!("`{name}` has no value and was checked with a stand-in");
            context.out.say(&shown(&format!("{path}: {how} (--param {name}=VALUE)")));
        }
    }
    let errors = linted.iter().filter_map(|linted| linted.errors.as_ref());
    let errors: usize = errors.map(|problems| problems.list.len()).sum();
    let warnings = linted.iter().map(|linted| linted.warnings.len()).sum();
    let counted =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    context.out.say(&format!(
        "{}: {}, {}",
        counted(linted.len(), "file"),
        counted(errors, "error"),
        counted(warnings, "doubt")
    ));
    Ok(if is_sound { Exit::Done } else { Exit::Findings })
}

/// A folder is there as well as a file; a glob is there when a file fits it.
fn is_there(root: &Path, path: &str) -> bool {
    root.join(path).exists() || missing(root, &[path.to_owned()], &[]).is_empty()
}

fn document(linted: &Linted, is_well: bool) -> Value {
    let entry = |problem: &Problem, file: &str| {
        json!({
            "file": file, "line": problem.line, "column": problem.column, "message": problem.message, "help": problem.help,
        })
    };
    let file = linted.path.display().to_string();
    let errors = linted.errors.iter();
    let errors = errors
        .flat_map(|problems| problems.list.iter().map(|problem| entry(problem, &problems.origin)));
    json!({
        "file": file,
        "ok": is_well,
        "problems": errors.collect::<Vec<_>>(),
        "doubts": linted.warnings.iter().map(|warning| entry(warning, &file)).collect::<Vec<_>>(),
        "standIns": linted.stand_ins,
    })
}

/// What is sound needs no words.
fn texts(linted: &Linted) -> Vec<String> {
    let origin = linted.path.display().to_string();
    let warning = |problem: &Problem| {
        let quoted =
            SourceSnippet { word: "doubt", problem, origin: &origin, source: &linted.text };
        shown_lines(&quoted.to_string())
    };
    let errors = linted.errors.iter().map(|problems| shown_lines(&problems.to_string()));
    errors.chain(linted.warnings.iter().map(warning)).collect()
}
