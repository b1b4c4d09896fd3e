//! `banksman lifecycle`: lists, shows, checks and draws lifecycles.

mod graph;
mod lint;
mod show;

use banksman_core::lifecycle::problem::Problems;

use super::output::{cells, table};
use super::{Context, Exit, NoArgs, Result};
use crate::api;
use crate::api::lifecycle::ListedLifecycle;
use crate::ops::library::{LibraryError, LifecycleOrigin};

commands! {
    /// List, show, check and draw lifecycles
    #[command(before_long_help = "Examples:
  banksman lifecycle list
  banksman lifecycle show autonomous
  banksman lifecycle lint
  banksman lifecycle graph mission -o mission.svg
")]
    pub(super) enum LifecycleCommand(&Context) {
        /// List the lifecycles that this project can use
        #[command(before_long_help = "Examples:
  banksman lifecycle list
  banksman lifecycle list --json
")]
        List(NoArgs) => list,
        Show(show::ShowArgs) => show::run,
        Lint(lint::LintArgs) => lint::run,
        Graph(graph::GraphArgs) => graph::run,
    }
}

fn list(context: &Context, _: &NoArgs) -> Result<Exit> {
    let library = context.library();
    let mut listed = Vec::new();
    for (id, origin) in library.names()? {
        let (version, about) = match sound(library.definition(&id))? {
            Ok(found) => (Some(found.lifecycle.version.clone()), found.lifecycle.about.clone()),
            Err(_) => (None, "invalid, see `banksman lifecycle lint`".to_owned()),
        };
        let origin = origin_text(context, &origin);
        listed.push(ListedLifecycle { about, id, ok: version.is_some(), origin, version });
    }
    let row = |one: &ListedLifecycle| {
        let version = one.version.as_deref().unwrap_or_default();
        cells([&one.id, &version, &one.origin, &one.about])
    };
    context.out.answer(
        || api::list("lifecycles", &listed),
        || table(["NAME", "VERSION", "FROM", "ABOUT"], listed.iter().map(row)),
    )?;
    Ok(context.out.next(&["lifecycle show NAME", "lifecycle graph NAME"]))
}

/// A lifecycle or its problems. Only one that cannot be found or read is a failure.
fn sound<T>(found: Result<T, LibraryError>) -> Result<Result<T, Box<Problems>>> {
    match found {
        Ok(definition) => Ok(Ok(definition)),
        Err(LibraryError::Unsound(problems)) => Ok(Err(problems)),
        Err(error @ (LibraryError::Unknown { .. } | LibraryError::Read { .. })) => {
            Err(error.into())
        }
    }
}

/// The origin of a lifecycle; a file is shown relative to the project's root.
fn origin_text(context: &Context, origin: &LifecycleOrigin) -> String {
    match origin {
        LifecycleOrigin::BuiltIn => "built-in".to_owned(),
        LifecycleOrigin::File(path) => context.below_root(path),
    }
}
