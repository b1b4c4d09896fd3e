//! `banksman workflow lint`: reports errors and warnings in workflow files.

use std::path::PathBuf;

use banksman_core::lifecycle::problem::{Problem, SourceSnippet};
use clap::Args;

use super::ParamArgs;
use crate::api::Checked;
use crate::api::error::FieldMessage;
use crate::cli::output::{sanitize, sanitize_lines};
use crate::cli::symbols::counted;
use crate::cli::{Context, Exit, Result, report};
use crate::ops::error_report::Code;
use crate::ops::workflows::{self, LintTarget, Linted};

/// Check workflow files
///
/// An error means that the file cannot run: exits with 5. A warning means that it may not run as
/// intended: exits with 0, or with 5 with --strict. Paths in the files are relative to the root of
/// the repository. A parameter without a value is checked with a placeholder that fits. Starts
/// nothing and writes nothing.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow lint                         check all of .workflow/specs
  banksman workflow lint phase-4.yaml
  banksman workflow lint release.yaml --param version=1.2 --strict
")]
pub(in crate::cli) struct LintArgs {
    /// The files [default: all of `.workflow/specs`]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    params: ParamArgs,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(context: &Context, args: &LintArgs) -> Result<Exit> {
    let config = &context.config;
    let subject = match &args.files[..] {
        [] => LintTarget::Repository { root: &config.root, folder: &config.folder },
        files => LintTarget::Files(files),
    };
    let linted = workflows::lint(subject, &args.params.params()?, &config.root)?;
    let text = || linted.iter().flat_map(texts).collect::<Vec<_>>().join("\n");
    let found = linted.iter().filter_map(|linted| linted.errors.as_ref());
    let mut errors: Vec<FieldMessage> =
        found.flat_map(|problems| FieldMessage::of_file(problems)).collect();
    let warnings = linted.iter().flat_map(|linted| {
        let file = linted.path.display();
        linted.warnings.iter().map(move |warning| FieldMessage::in_file(&file, warning))
    });
    let warnings: Vec<FieldMessage> = warnings.collect();
    let summary = format!(
        "{}: {}, {}",
        counted(linted.len(), "file"),
        counted(errors.len(), "error"),
        counted(warnings.len(), "warning")
    );
    if args.strict {
        errors.extend(warnings.iter().cloned());
    }
    let checked = || {
        let checked = linted.iter().map(|linted| linted.path.display().to_string()).collect();
        let placeholders = linted.iter().flat_map(|linted| linted.placeholders.clone()).collect();
        Checked { placeholders, warnings, ..Checked::new(checked) }
    };
    let exit = report::findings(&context.out, Code::InvalidWorkflow, errors, checked, text)?;
    for one in &linted {
        for name in &one.placeholders {
            let path = one.path.display();
            let how = format!("`{name}` has no value and was checked with a placeholder");
            context.out.say(&sanitize(&format!("{path}: {how} (--param {name}=VALUE)")));
        }
    }
    context.out.say(&summary);
    Ok(exit)
}

/// A valid file prints nothing.
fn texts(linted: &Linted) -> Vec<String> {
    let origin = linted.path.display().to_string();
    let warning = |problem: &Problem| {
        let quoted =
            SourceSnippet { word: "warning", problem, origin: &origin, source: &linted.text };
        sanitize_lines(&quoted.to_string())
    };
    let errors = linted.errors.iter().map(|problems| sanitize_lines(&problems.to_string()));
    errors.chain(linted.warnings.iter().map(warning)).collect()
}
