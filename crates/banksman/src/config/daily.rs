//! The settings of the daily note.

use std::path::PathBuf;

use banksman_core::machine::Actor;
use banksman_core::time::Span;

use super::{ConfigError, Layers, Result};

/// The name behind the answers if there is no other.
const DEFAULT_OWNER: &str = "daily note";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daily {
    /// None: the note is written only by `banksman daily`.
    pub folder: Option<PathBuf>,
    /// The person whose answers the note holds.
    pub owner: Actor,
    pub settle: Span,
}

pub(super) fn daily(layers: &Layers, actor: &Actor) -> Result<Daily> {
    let human = Actor::human(DEFAULT_OWNER);
    let name = layers.given("daily.owner");
    let own = actor.name.clone().filter(|_| actor.role == human.role);
    let name = name.or(own).unwrap_or_else(|| DEFAULT_OWNER.to_owned());
    let owner = format!("{}:{name}", human.role).parse();
    let owner = owner.map_err(|error: banksman_core::machine::NotAnActor| {
        ConfigError::value(&layers.origin("daily.owner"), error.to_string(), "for example kim")
    })?;
    let folder = layers.given("daily.folder").map(PathBuf::from);
    Ok(Daily { folder, owner, settle: layers.span("daily.settle") })
}
