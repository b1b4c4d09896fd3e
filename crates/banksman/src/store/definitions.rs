//! Lifecycle versions: immutable, identified by the hash of their source and overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use banksman_core::lifecycle::check::{Overrides, read_again};
use banksman_core::lifecycle::{Lifecycle, Setting};
use banksman_core::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use super::conn::Conn;
use super::row::json as text;
use super::tx::params;
use super::{Result, StoreError, sql};

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
    pub(super) fn get(&self, conn: &mut dyn Conn, version: &str) -> Result<Arc<Lifecycle>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(version).cloned();
        if let Some(lifecycle) = known {
            return Ok(lifecycle);
        }
        let rows = conn.query(sql::LIFECYCLE, &params![version])?;
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
    ) -> Result<()> {
        let lifecycle = &definition.lifecycle;
        conn.write(
            sql::INSERT_LIFECYCLE,
            &params![
                lifecycle.version.as_str(),
                lifecycle.id.as_str(),
                lifecycle.purpose.as_str(),
                definition.source.as_str(),
                overrides_text(&definition.overrides),
                now
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

/// An override as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSetting {
    /// As text, because JSON parsers may not return a number to the last bit, and the version is a
    /// hash of it.
    Number(String),
    Flag(bool),
    Text(String),
    Millis(i64),
}

fn overrides_text(overrides: &Overrides) -> String {
    let entries = overrides.iter().map(|(name, setting)| {
        let value = match setting {
            Setting::Number(number) => StoredSetting::Number(number.to_string()),
            Setting::Flag(flag) => StoredSetting::Flag(*flag),
            Setting::Text(text) => StoredSetting::Text(text.clone()),
            Setting::Time(span) => StoredSetting::Millis(span.0),
        };
        (name, value)
    });
    text(&entries.collect::<BTreeMap<_, _>>())
}

fn overrides_from(text: &str) -> Overrides {
    // Without its overrides a version has another hash, and `get` says that it is missing.
    let entries: BTreeMap<String, StoredSetting> = serde_json::from_str(text).unwrap_or_default();
    let settings = entries.into_iter().filter_map(|(name, value)| {
        let setting = match value {
            StoredSetting::Number(number) => Setting::Number(number.parse().ok()?),
            StoredSetting::Flag(flag) => Setting::Flag(flag),
            StoredSetting::Text(text) => Setting::Text(text),
            StoredSetting::Millis(millis) => Setting::Time(Span(millis)),
        };
        Some((name, setting))
    });
    settings.collect()
}
