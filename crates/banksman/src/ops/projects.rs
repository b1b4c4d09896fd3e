//! Projects: the repositories in a store.

use std::path::Path;

use banksman_core::limits;
use banksman_core::time::Instant;

use super::principal::Operation;
use super::{OpsError, Session};
use crate::store::StoreError;

/// The default name for a folder: its last component, in letters that ids may have.
pub fn name_for(folder: &Path) -> String {
    let last =
        folder.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let word: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' })
        .collect();
    let word = word.trim_matches('-').chars().take(limits::NAME_BYTES).collect::<String>();
    if word.is_empty() { "project".to_owned() } else { word }
}

/// The project of a folder: the one whose own folder is nearest above it.
pub fn at(session: &Session, folder: &Path) -> Result<Option<String>, OpsError> {
    let mut projects = session.may(Operation::LocateProject)?.projects()?;
    projects.retain(|(_, path)| folder.starts_with(path));
    Ok(projects.into_iter().max_by_key(|(_, path)| path.len()).map(|(name, _)| name))
}

/// The project of new tasks of a folder, which may not be set up yet. The name that such a folder
/// gives never stands for a project elsewhere.
pub fn of_new_tasks(session: &Session, folder: &Path, root: &Path) -> Result<String, OpsError> {
    if let Some(known) = at(session, folder)? {
        return Ok(known);
    }
    let name = name_for(root);
    match session.may(Operation::LocateProject)?.project(&name)? {
        Some(elsewhere) => Err(StoreError::ProjectTaken(name, elsewhere).into()),
        None => Ok(name),
    }
}

/// Whether agents can work for a project: its folder is known.
pub fn is_set_up(session: &Session, name: &str) -> Result<bool, OpsError> {
    Ok(session.may(Operation::LocateProject)?.project(name)?.is_some())
}

/// Adds a project, under the given name or the default for its folder, and returns its name. A
/// known folder keeps its name.
pub fn init(
    session: &Session,
    name: Option<&str>,
    folder: &Path,
    now: Instant,
) -> Result<String, OpsError> {
    let store = session.may(Operation::SetUpProject)?;
    let path = folder.display().to_string();
    let known =
        store.projects()?.into_iter().find(|(_, known)| *known == path).map(|(name, _)| name);
    let name = match (known, name) {
        (Some(known), Some(name)) if known != name => {
            let message = format!("this folder is already the project {known}");
            let hint = format!("leave the name out, or give {known}");
            return Err(OpsError::input(message, hint));
        }
        (Some(known), Some(_) | None) => return Ok(known),
        (None, Some(name)) => name.to_owned(),
        (None, None) => name_for(folder),
    };
    if name != name_for(Path::new(&name)) {
        return Err(OpsError::input(
            format!("`{}` cannot be a project's name", name.escape_debug()),
            "use small letters, digits, `-` and `_`",
        ));
    }
    store.put_project(&name, &path, now)?;
    Ok(name)
}

/// The folders of all projects, by name.
pub fn folders(session: &Session) -> Result<Vec<(String, String)>, OpsError> {
    Ok(session.may(Operation::ReadStore)?.projects()?)
}

/// The folder of a project.
pub fn folder(session: &Session, name: &str) -> Result<Option<String>, OpsError> {
    Ok(session.may(Operation::ReadStore)?.project(name)?)
}
