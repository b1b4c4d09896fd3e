//! Lifecycle versions: immutable, identified by the hash of their source and overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use banksman_core::lifecycle::check::{Overrides, read_again};
use banksman_core::lifecycle::{Lifecycle, Setting};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value as Json, json};

use super::conn::Conn;
use super::row::json as text;
use super::{StoreError, sql};

/// A lifecycle with its source and overrides, ready to be stored.
#[derive(Debug, Clone)]
pub struct Definition {
    pub lifecycle: Arc<Lifecycle>,
    pub source: String,
    pub overrides: Overrides,
}

/// A cache of versions. A version never changes, so an entry never becomes stale.
#[derive(Default)]
pub(super) struct Definitions {
    known: RwLock<BTreeMap<String, Arc<Lifecycle>>>,
    /// Versions that are certainly in the store. A version that was only read may come from a
    /// transaction that was rolled back later.
    kept: RwLock<BTreeSet<String>>,
}

impl Definitions {
    pub(super) fn get(
        &self,
        conn: &mut dyn Conn,
        version: &str,
    ) -> Result<Arc<Lifecycle>, StoreError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(version).cloned();
        if let Some(lifecycle) = known {
            return Ok(lifecycle);
        }
        let rows = conn.query(sql::LIFECYCLE, &[version.into()])?;
        let row = rows.first().ok_or_else(|| StoreError::NoDefinition(version.to_owned()))?;
        let origin = format!("lifecycle {version} of the store");
        let lifecycle =
            read_again(row.text(0)?, &origin, &overrides_from(row.text(1)?)).map_err(|source| {
                StoreError::Definition { version: version.to_owned(), source: Box::new(source) }
            })?;
        // The version is the hash of the content. If the content hashes to another version, this
        // version is missing.
        if lifecycle.version != version {
            return Err(StoreError::NoDefinition(version.to_owned()));
        }
        let lifecycle = Arc::new(lifecycle);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(version.to_owned(), Arc::clone(&lifecycle));
        Ok(lifecycle)
    }

    /// Stores a version for the tasks that use it.
    pub(super) fn keep(
        &self,
        conn: &mut dyn Conn,
        definition: &Definition,
        now: Instant,
    ) -> Result<(), StoreError> {
        let lifecycle = &definition.lifecycle;
        conn.write(
            sql::INSERT_LIFECYCLE,
            &[
                lifecycle.version.as_str().into(),
                lifecycle.id.as_str().into(),
                lifecycle.purpose.as_str().into(),
                definition.source.as_str().into(),
                overrides_text(&definition.overrides).into(),
                now.0.into(),
            ],
        )?;
        Ok(())
    }

    /// Call this only after a transaction that stored the version, or found it, has committed.
    pub(super) fn remember(&self, lifecycle: &Arc<Lifecycle>) {
        if self.has(&lifecycle.version) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(lifecycle.version.clone(), Arc::clone(lifecycle));
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.insert(lifecycle.version.clone());
    }

    /// Whether a version is certainly in the store.
    pub(super) fn has(&self, version: &str) -> bool {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).contains(version)
    }
}

fn overrides_text(overrides: &Overrides) -> String {
    let entries = overrides.iter().map(|(name, setting)| {
        let value = match setting {
            // As text, because JSON parsers may not return a number to the last bit, and the
            // version is a hash of it.
            Setting::Number(number) => json!({ "number": number.to_string() }),
            Setting::Flag(flag) => json!({ "flag": flag }),
            Setting::Text(text) => json!({ "text": text }),
            Setting::Time(span) => json!({ "millis": span.0 }),
        };
        (name.clone(), value)
    });
    text(&entries.collect::<Map<String, Json>>())
}

fn overrides_from(text: &str) -> Overrides {
    let entries: Map<String, Json> = serde_json::from_str(text).unwrap_or_default();
    let settings = entries.into_iter().filter_map(|(name, value)| {
        let setting = if let Some(number) = value["number"].as_str() {
            Setting::Number(number.parse().ok()?)
        } else if let Some(flag) = value["flag"].as_bool() {
            Setting::Flag(flag)
        } else if let Some(millis) = value["millis"].as_i64() {
            Setting::Time(Span(millis))
        } else {
            Setting::Text(value["text"].as_str()?.to_owned())
        };
        Some((name, setting))
    });
    settings.collect()
}
