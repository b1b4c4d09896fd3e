//! The lifecycles that a project can use: its own files first, then the built-in ones, each with
//! the project's settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::lifecycle::contract::SettingName;
use banksman_core::lifecycle::problem::{Problems, suggestion};
use banksman_core::lifecycle::{Setting, StateKind, builtin, compose};
use banksman_core::limits;

use crate::exec::files::if_exists;
use crate::plain_file::read_settings;
use crate::store::Definition;

#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error("there is no lifecycle `{name}`; {hint}")]
    Unknown { name: String, hint: String },
    #[error("failed to read the lifecycle `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{0}")]
    Unsound(Box<Problems>),
}

/// Where a lifecycle comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecycleOrigin {
    BuiltIn,
    File(PathBuf),
}

#[derive(Debug, Clone, Default)]
pub struct Library {
    folder: Option<PathBuf>,
    overrides: BTreeMap<String, Overrides>,
    leads_may_close: bool,
}

/// The folder of shared fragments, beside the lifecycles.
const FRAGMENTS: &str = "fragments";

impl Library {
    /// `folder` is the project's `.banksman/lifecycles`; `overrides` the settings of its
    /// configuration, by lifecycle.
    pub fn new(folder: Option<PathBuf>, overrides: BTreeMap<String, Overrides>) -> Self {
        Self { folder, overrides, leads_may_close: false }
    }

    /// The same where the project's policy says whether leads may end tasks. What the settings say
    /// of a lifecycle goes before.
    #[must_use]
    pub fn with_leads(mut self, may_close: bool) -> Self {
        self.leads_may_close = may_close;
        self
    }

    /// Every lifecycle by name; a file hides a built-in one of the same name.
    pub fn names(&self) -> Result<Vec<(String, LifecycleOrigin)>, LibraryError> {
        let mut names: BTreeMap<String, LifecycleOrigin> = builtin::SOURCES
            .iter()
            .map(|(name, _)| ((*name).to_owned(), LifecycleOrigin::BuiltIn))
            .collect();
        for path in self.files()? {
            if let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) {
                names.insert(name.to_owned(), LifecycleOrigin::File(path.clone()));
            }
        }
        Ok(names.into_iter().collect())
    }

    fn files(&self) -> Result<Vec<PathBuf>, LibraryError> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        yaml_files(folder).map_err(|source| LibraryError::Read { path: folder.clone(), source })
    }

    /// The text of a lifecycle and where it is from.
    pub fn source(&self, name: &str) -> Result<(String, LifecycleOrigin), LibraryError> {
        let names = self.names()?;
        match names.iter().find(|(known, _)| known == name) {
            Some((_, LifecycleOrigin::File(path))) => {
                Ok((read_composed(path)?, LifecycleOrigin::File(path.clone())))
            }
            Some((_, LifecycleOrigin::BuiltIn)) => {
                Ok((builtin::source(name).unwrap_or_default().to_owned(), LifecycleOrigin::BuiltIn))
            }
            None => {
                let hint = suggestion(name, names.iter().map(|(known, _)| known.as_str()));
                Err(LibraryError::Unknown { name: name.chars().take(64).collect(), hint })
            }
        }
    }

    /// A lifecycle that is proven sound, with the project's settings.
    pub fn definition(&self, name: &str) -> Result<Definition, LibraryError> {
        self.definition_with(name, Overrides::new())
    }

    /// The same for a task that has settings of its own, which win.
    pub fn definition_with(&self, name: &str, own: Overrides) -> Result<Definition, LibraryError> {
        let (source, origin) = self.source(name)?;
        let origin = match origin {
            LifecycleOrigin::BuiltIn => format!("built-in {name}"),
            LifecycleOrigin::File(path) => path.display().to_string(),
        };
        let mut overrides = self.overrides.get(name).cloned().unwrap_or_default();
        overrides.extend(own);
        let checked = |overrides: &Overrides| {
            check(&source, &origin, overrides)
                .map_err(|problems| LibraryError::Unsound(Box::new(problems)))
        };
        let mut lifecycle = checked(&overrides)?;
        let leads = SettingName::LeadMayApprove.name();
        let is_open = self.leads_may_close && !overrides.contains_key(leads);
        if is_open && lifecycle.settings.contains_key(leads) {
            overrides.insert(leads.to_owned(), Setting::Flag(true));
            lifecycle = checked(&overrides)?;
        }
        Ok(Definition { lifecycle: Arc::new(lifecycle), source, overrides })
    }

    /// All that a task can be looked for by: the states of every sound lifecycle, their groups and
    /// their kinds.
    pub fn state_words(&self) -> Result<BTreeSet<String>, LibraryError> {
        let mut words: BTreeSet<String> = StateKind::ALL.iter().map(ToString::to_string).collect();
        for (name, _) in self.names()? {
            let definition = match self.definition(&name) {
                Ok(definition) => definition,
                Err(LibraryError::Unsound(_)) => continue,
                Err(error @ (LibraryError::Unknown { .. } | LibraryError::Read { .. })) => {
                    return Err(error);
                }
            };
            for state in &definition.lifecycle.states {
                words.insert(state.name.clone());
                words.extend(state.group.clone());
            }
        }
        Ok(words)
    }

    /// Checks a file that need not be in the library.
    pub fn check_file(&self, path: &Path) -> Result<Definition, LibraryError> {
        let source = read_composed(path)?;
        let overrides = Overrides::new();
        let lifecycle = check(&source, &path.display().to_string(), &overrides)
            .map_err(|problems| LibraryError::Unsound(Box::new(problems)))?;
        Ok(Definition { lifecycle: Arc::new(lifecycle), source, overrides })
    }
}

/// The YAML files of a folder by name; none if there is no such folder.
pub(super) fn yaml_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_yaml =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let entries = if_exists(fs::read_dir(folder))?.into_iter().flatten();
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = paths.into_iter().filter(is_yaml).collect();
    files.sort();
    Ok(files)
}

/// A lifecycle's file with the fragments that it includes: those in `fragments/` beside it, and
/// those that ship with the program.
fn read_composed(path: &Path) -> Result<String, LibraryError> {
    let own = |name: &str| {
        let file = path.parent()?.join(FRAGMENTS).join(name).with_extension("yaml");
        file.try_exists().unwrap_or(true).then_some(file)
    };
    let text = read(path)?;
    let mut failed = None;
    let composed = compose(&text, |name| match own(name) {
        Some(file) => read(&file).map_err(|error| failed = Some(error)).ok(),
        None => builtin::fragment(name).map(str::to_owned),
    });
    failed.map_or(Ok(composed), Err)
}

fn read(path: &Path) -> Result<String, LibraryError> {
    read_settings(path, limits::LIFECYCLE_BYTES)
        .map_err(|source| LibraryError::Read { path: path.to_owned(), source })
}
