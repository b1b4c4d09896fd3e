//! Lints the files of workflows: errors and warnings. It only reads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use banksman_core::lifecycle::expr::Value;
use banksman_core::lifecycle::problem::{Problem, Problems};
use banksman_core::workflow;

use super::{Params, Source, WorkflowError};
use crate::exec::files::missing;
use crate::exec::mailbox::SPECS;
use crate::ops::OpsError;
use crate::ops::error_report::Hint;
use crate::ops::library::yaml_files;

/// A checked file.
#[derive(Debug)]
pub struct Linted {
    pub path: PathBuf,
    pub text: String,
    /// Errors in this file, or in one that it includes.
    pub errors: Option<Box<Problems>>,
    /// By line. A file with errors has none yet.
    pub warnings: Vec<Problem>,
    /// The parameters without a value, which were checked with a sample value.
    pub placeholders: Vec<String>,
}

/// What to check.
#[derive(Debug, Clone, Copy)]
pub enum LintTarget<'a> {
    Files(&'a [PathBuf]),
    /// All workflows of the repository with this root, named as they are typed in a folder of it. A
    /// file that another one includes is checked with that one.
    Repository {
        root: &'a Path,
        folder: &'a Path,
    },
}

/// Checks files. The paths in them are relative to `root`.
pub fn lint(
    subject: LintTarget<'_>,
    params: &Params,
    root: &Path,
) -> Result<Vec<Linted>, OpsError> {
    let sources = match subject {
        LintTarget::Files(paths) => Source::read_all(paths, params)?,
        LintTarget::Repository { root, folder } => Source::read_all(&specs(root, folder)?, params)?,
    };
    let included: BTreeSet<PathBuf> = match subject {
        LintTarget::Files(_) => BTreeSet::new(),
        LintTarget::Repository { .. } => sources.iter().flat_map(included_by).collect(),
    };
    let mut linted = Vec::new();
    for mut source in sources.into_iter().filter(|source| !included.contains(&source.path)) {
        let placeholders = fill_in(&mut source);
        // Whether a path exists whose name contains a value that is not chosen yet cannot be known.
        let words: Vec<&str> = placeholders.values().flat_map(texts).collect();
        let is_open = |path: &str| words.iter().any(|word| path.contains(word));
        let exists = |path: &str| is_open(path) || exists(root, path);
        let (errors, warnings) = match source.flow() {
            Ok(flow) => {
                let mut warnings = workflow::lint(&flow, &exists);
                warnings.extend(workflow::default_warnings(&source.text));
                warnings.sort();
                (None, warnings)
            }
            Err(WorkflowError::Unsound(problems)) => (Some(problems), Vec::new()),
            Err(error @ WorkflowError::Read { .. }) => return Err(error.into()),
        };
        let placeholders = placeholders.into_keys().collect();
        let Source { path, text, .. } = source;
        linted.push(Linted { path, text, errors, warnings, placeholders });
    }
    Ok(linted)
}

/// Whether a file or a folder exists; a glob exists if a file matches it.
fn exists(root: &Path, path: &str) -> bool {
    root.join(path).exists() || missing(root, &[path.to_owned()], &[]).is_empty()
}

/// A missing value is no error of the file: a sample value replaces it.
fn fill_in(source: &mut Source) -> Params {
    let mut placeholders = workflow::outline(&source.text).sample_values;
    placeholders.retain(|name, _| !source.params.contains_key(name));
    source.params.extend(placeholders.clone());
    placeholders
}

fn texts(value: &Value) -> Vec<&str> {
    let children = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    children.iter().filter_map(Value::as_str).collect()
}

/// A file that includes itself is still checked, because that is its error.
fn included_by(source: &Source) -> Vec<PathBuf> {
    let uses = workflow::outline(&source.text).uses;
    let paths = uses.iter().map(|name| source.folder().join(name));
    paths.filter(|path| *path != source.path).collect()
}

/// Sorted by name.
fn specs(root: &Path, folder: &Path) -> Result<Vec<PathBuf>, OpsError> {
    let specs = root.join(SPECS);
    let found = yaml_files(&specs);
    let found = found.map_err(|source| WorkflowError::Read { path: specs.clone(), source })?;
    if found.is_empty() {
        let message = format!("there are no workflows in `{SPECS}`");
        return Err(OpsError::input(message, Hint::NameWorkflowFile));
    }
    let typed = |path: PathBuf| path.strip_prefix(folder).map(Path::to_owned).unwrap_or(path);
    Ok(found.into_iter().map(typed).collect())
}
